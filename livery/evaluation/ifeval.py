"""T4, IFEval: does a model still follow plain instructions after it was trained for one job?

Each of 541 prompts is asked as a plain chat, and lm-eval's checkers say which of its instructions the response follows.
A run is a folder: ``run.json`` (the recipe), ``responses.jsonl`` (a line a prompt, as it comes), and, once scored,
``results.jsonl`` and ``report.json``. Started again it goes on where it was; another recipe is refused.

Not here: the checks themselves (`livery.evaluation.ifeval_checkers`), and harnesses: none is worn.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import Field, ValidationError

from livery import __version__
from livery.errors import InputError, PolicyError, PolicyOverflow, PolicyUnavailable, Problem
from livery.evaluation.ifeval_chat import Chat
from livery.evaluation.ifeval_checkers import Checkers
from livery.evaluation.ifeval_figures import IfevalFigures, IfevalResult
from livery.evaluation.ifeval_prompts import IfevalPrompt
from livery.evaluation.run import read_run
from livery.harness.model import Frozen

SUITE: Final = "t4"
RUN: Final = "run.json"
RESPONSES: Final = "responses.jsonl"
RESULTS: Final = "results.jsonl"
REPORT: Final = "report.json"
RUN_SCHEMA: Final = "livery.ifeval-run/1"
REPORT_SCHEMA: Final = "livery.ifeval/1"
MAX_TOKENS: Final = 1280
"""Of a response: what lm-eval's task allows."""
GIVE_UP: Final = 5
"""Requests in a row without an answer, after which a run stops."""


class Response(Frozen):
    """A line of ``responses.jsonl``."""

    schema_: str = Field(default="livery.ifeval-response/1", alias="schema")
    key: int
    response: str
    """Reasoning left out; empty where the prompt did not fit the model's context."""
    tokens: int
    reasoning: int = 0
    cut: bool = False
    overflow: bool = False
    seconds: float = 0.0
    """From request to answer. Requests side by side share the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IfevalRecipe:
    """All that the figures hang on."""

    tasks: str
    """Digest of the prompts."""
    prompts: int
    policy: str
    weights: str
    template: str
    """What renders a prompt (`livery.evaluation.ifeval_chat.Chat.template`)."""
    max_tokens: int

    def to_json(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {"schema": RUN_SCHEMA, "suite": SUITE, **fields}


@dataclass(frozen=True, slots=True)
class Answered:
    """What a start of a run did."""

    responses: tuple[Response, ...]
    """Of this and earlier starts, within the limit, in the prompts' order."""
    resumed: int
    open: int
    """Prompts that nobody answered; the next start asks them."""
    seconds: float
    """Of this start's asking."""
    tokens: int
    """Sampled in this start."""


async def answer(
    recipe: IfevalRecipe,
    prompts: Sequence[IfevalPrompt],
    chat: Chat,
    out: Path,
    *,
    at_a_time: int = 0,
    progress: Callable[[Response], None] = lambda response: None,
) -> Answered:
    """Ask every prompt that has no response yet.

    Args:
        prompts: those to ask; a beginning of the recipe's where the run is limited.
        at_a_time: requests at a time; 0: what suits the chat.
        progress: told of every response, those of earlier starts first.

    Raises:
        InputError: the folder holds a run of another recipe, or damaged responses.
        PolicyUnavailable: `GIVE_UP` requests in a row were not answered. What was answered is kept.
    """
    _claim(recipe, out)
    path = out / RESPONSES
    done = {r.key: r for r in read_responses(path)}
    _cut_torn(path)
    wanted = [p for p in prompts if p.key in done]
    for prompt in wanted:
        progress(done[prompt.key])
    began = time.perf_counter()
    waiting = iter([p for p in prompts if p.key not in done])
    made: list[Response] = []
    unanswered: list[str] = []
    row: list[str] = []
    with path.open("a", encoding="utf-8", newline="\n") as file:

        async def worker() -> None:
            for prompt in waiting:
                try:
                    response = await _ask(chat, prompt, recipe.max_tokens)
                except PolicyError as error:
                    unanswered.append(str(error))
                    row.append(str(error))
                    if len(row) >= GIVE_UP:
                        message = f"stopped after {GIVE_UP} requests in a row without an answer: {error}"
                        raise PolicyUnavailable(f"{message}; start again to go on") from error
                    continue
                row.clear()
                file.write(response.model_dump_json(by_alias=True) + "\n")
                file.flush()
                made.append(response)
                progress(response)

        workers = [asyncio.ensure_future(worker()) for _ in range(at_a_time or chat.at_a_time)]
        try:
            await asyncio.gather(*workers)
        finally:
            for one in workers:
                one.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
    done.update((r.key, r) for r in made)
    return Answered(
        responses=tuple(done[p.key] for p in prompts if p.key in done),
        resumed=len(wanted),
        open=len(unanswered),
        seconds=time.perf_counter() - began,
        tokens=sum(r.tokens for r in made),
    )


async def _ask(chat: Chat, prompt: IfevalPrompt, max_tokens: int) -> Response:
    began = time.perf_counter()
    try:
        said = await chat.say(prompt.prompt, max_tokens)
    except PolicyOverflow:
        # It would not fit the next time either: the model's own failure.
        return Response(key=prompt.key, response="", tokens=0, overflow=True)
    seconds = round(time.perf_counter() - began, 3)
    return Response(
        key=prompt.key,
        response=said.text,
        tokens=said.tokens,
        reasoning=said.reasoning,
        cut=said.cut,
        seconds=seconds,
    )


def check(
    prompts: Sequence[IfevalPrompt], responses: Iterable[Response], checkers: Checkers
) -> tuple[IfevalResult, ...]:
    """Check responses against their prompts' instructions.

    Raises:
        InputError: the checkers do not take a prompt's kwargs.
    """
    by_key = {p.key: p for p in prompts}
    results: list[IfevalResult] = []
    for response in responses:
        prompt = by_key[response.key]
        found = checkers.check(prompt, response.response)
        results.append(
            IfevalResult(
                key=response.key,
                instructions=prompt.instruction_id_list,
                strict=found.strict,
                loose=found.loose,
                words=len(response.response.split()),
                tokens=response.tokens,
                reasoning=response.reasoning,
                cut=response.cut,
                seconds=response.seconds,
            )
        )
    return tuple(results)


def write_ifeval(out: Path, results: Sequence[IfevalResult], found: IfevalFigures, checkers: str) -> dict[str, Any]:
    """Write ``results.jsonl`` and ``report.json``; returns the report."""
    run = read_ifeval_run(out)
    report = {
        "schema": REPORT_SCHEMA,
        "run": run,
        "checkers": checkers,
        "tasks": found.prompts,
        "of": run["prompts"],
        **found.to_json(),
    }
    _replace(out / RESULTS, "".join(r.model_dump_json(by_alias=True) + "\n" for r in results))
    _replace(out / REPORT, json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    return report


def read_responses(path: Path) -> list[Response]:
    """
    Raises:
        InputError: every whole line that is no response, or stands twice. A torn last line is left out.
    """
    found: dict[int, Response] = {}
    problems: list[Problem] = []
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    for number, line in enumerate(lines, 1):
        try:
            one = Response.model_validate_json(line)
        except ValidationError as error:
            for fault in error.errors(include_url=False):
                where = ".".join(map(str, fault["loc"]))
                problems.append(
                    Problem(path=str(path), line=number, field=where, message=fault["msg"], code="ifeval-response")
                )
            continue
        if one.key in found:
            message = f"the key {one.key} stands twice; two runs wrote here at once"
            problems.append(Problem(path=str(path), line=number, field="key", message=message, code="response-twice"))
        found[one.key] = one
    if problems:
        raise InputError(problems)
    return list(found.values())


def read_ifeval_run(folder: Path) -> dict[str, Any]:
    """The recipe in a run's folder.

    Raises:
        InputError: there is none, or it is no recipe.
    """
    return read_run(folder, schema=RUN_SCHEMA, command="livery eval ifeval")


def _claim(recipe: IfevalRecipe, out: Path) -> None:
    """Begin a folder, or see that it is this recipe's."""
    path = out / RUN
    if not path.is_file():
        if out.is_dir() and any(out.iterdir()):
            raise InputError.at(out, f"found files, and no {RUN}; expected a new folder or one of an earlier run")
        out.mkdir(parents=True, exist_ok=True)
        _replace(path, json.dumps({**recipe.to_json(), "livery": __version__}, indent=1, ensure_ascii=False) + "\n")
        return
    before = read_ifeval_run(out)
    problems = [
        Problem(
            path=str(path),
            field=name,
            message=f"this folder's run has {before.get(name)!r}; found {value!r}. Give another --out for another run",
            code="run-recipe",
        )
        for name, value in recipe.to_json().items()
        if before.get(name) != value
    ]
    if problems:
        raise InputError(problems)


def _cut_torn(path: Path) -> None:
    """Cut off what a killed process left of its last line."""
    if path.is_file():
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            with path.open("r+b") as file:
                file.truncate(whole)


def _replace(path: Path, text: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8", newline="\n")
    fresh.replace(path)  # whole, or as it was
