"""Building training data: tasks under a harness and its variants, through a teacher, kept if they are right.

The work is a list of jobs that follows from the recipe alone. Each finished job is one line in
``journal.jsonl``, kept or dropped with its reasons, so a build that was killed goes on where it stood; the
Parquet file and the data card are written from the journal at the end. Rows are tokenised with their loss
mask, and each conversation is rendered twice (`livery.training.conversations`): one difference fails the
build.

Who runs and who judges is `livery.training.rollouts`; the files are `livery.training.rows`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

from livery.errors import InputError, Problem
from livery.harness.digest import harness_digest
from livery.harness.model import Harness
from livery.simulator.task import Task
from livery.training.conversations import (
    Encoder,
    TokenRow,
    message_from_json,
    message_to_json,
    sent_back,
    token_row,
    without_failures,
)
from livery.training.rollouts import Filter, Group, Job, Rollout, Teacher, Verdict
from livery.training.rows import CARD, ROWS, DataRow, first_turn, write_rows
from livery.training.run_card import versions

JOURNAL = "journal.jsonl"


class Variants(Protocol):
    def __call__(self, harness: Harness, seed: int) -> tuple[Harness, list[dict[str, Any]]]:
        """A variant of a harness and the record that rebuilds it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a data set is made of. Equal recipes make equal jobs."""

    harnesses: Mapping[str, str]
    """Name -> digest."""
    split: str
    """Of worlds and variants."""
    tasks: str
    """Digest of the tasks, order included."""
    task_seeds: Mapping[str, int] = field(default_factory=dict[str, int])
    """For the card: what the tasks were made from."""
    seed: int = 0
    passes: int = 1
    """How many harnesses each task is run under."""
    tasks_a_variant: int = 5
    base_share: float = 0.2
    """Share of the groups that run under the base harness. 1: only there."""
    keep_whole: float = 0.05
    """Share of the conversations with something sent back that keep it."""
    first_turns: float = 0.0
    """Share of the rows of which only the policy's first turn is kept (`livery.training.rows.first_turn`)."""
    variants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """How variants are drawn (strength, dimensions)."""
    teacher: str
    filter: str
    tokenizer: Mapping[str, str]
    """``source`` and ``digest``."""

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)


def tasks_digest(tasks: Sequence[tuple[str, Task]]) -> str:
    """SHA-256 over tasks and the harness that each is for, in order."""
    whole = hashlib.sha256()
    for name, task in tasks:
        whole.update(f"{name}\n{task.model_dump_json(by_alias=True)}\n".encode())
    return whole.hexdigest()


def jobs(
    recipe: Recipe,
    harnesses: Mapping[str, Harness],
    tasks: Sequence[tuple[str, Task]],
    variants: Variants,
    *,
    patience_s: float = 120.0,
) -> Iterator[Job]:
    """Every job of a recipe, in order; those of a group follow one another.

    Args:
        harnesses: by name.
        tasks: with the name of the harness that each is for.
        patience_s: a teacher's time for one conversation.
    """
    index = 0
    group_index = 0
    for turn in range(recipe.passes):
        rng = random.Random(f"{recipe.seed}/jobs/{turn}")
        for name, harness in harnesses.items():
            mine = [task for of, task in tasks if of == name]
            rng.shuffle(mine)
            chunks = [mine[i : i + recipe.tasks_a_variant] for i in range(0, len(mine), recipe.tasks_a_variant)]
            # A fixed share, not a coin for each: small sets get what the recipe says.
            base = set(rng.sample(range(len(chunks)), round(recipe.base_share * len(chunks))))
            for i, chunk in enumerate(chunks):
                seed = rng.getrandbits(48)
                make = _base(harness) if i in base else _variant(harness, seed, variants)
                group = Group(group_index, harness, seed, i in base, make, patience_s)
                group_index += 1
                for task in chunk:
                    yield Job(index=index, task=task, group=group, seed=rng.getrandbits(31))
                    index += 1


def _base(harness: Harness) -> Callable[[], tuple[Harness, list[dict[str, Any]]]]:
    return lambda: (harness, [])


def _variant(harness: Harness, seed: int, variants: Variants) -> Callable[[], tuple[Harness, list[dict[str, Any]]]]:
    return lambda: variants(harness, seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    jobs: int
    rows: int
    dropped: Mapping[str, int]
    """Kind of reason -> rows; a row with several reasons counts under each."""
    retries: Mapping[str, int]
    """``none``, ``cut``, ``whole`` -> rows."""
    base: int
    """Rows under a base harness."""
    groups: int
    tokens: int
    written: int
    """Tokens that policies wrote."""
    resumed: int
    """Jobs that an earlier start had done."""
    folder: Path


async def build(
    recipe: Recipe,
    todo: Sequence[Job],
    teacher: Teacher,
    judge: Filter,
    encoder: Encoder,
    out: Path,
    *,
    concurrency: int = 16,
    done: Callable[[int, int], None] = lambda jobs, kept: None,
) -> Built:
    """Run what is left of the jobs, then write rows and card.

    Args:
        done: told the jobs that are done and the rows kept so far.

    Raises:
        InputError: ``out`` holds another recipe's journal, or conversations whose two renderings differ (each
            named).
    """
    journal = Journal(out / JOURNAL, recipe)
    finished = {entry["job"] for entry in journal.entries()}
    kept = sum(entry["row"] is not None for entry in journal.entries())
    resumed = len(finished)
    done(resumed, kept)
    waiting = Counter(job.group.index for job in todo if job.index not in finished)
    gate = asyncio.Semaphore(concurrency)

    async def one(job: Job) -> None:
        nonlocal kept
        try:
            rollout = await teacher.run(job)
            verdict = await judge.judge(job, rollout)
            entry = _entry(recipe, job, rollout, verdict, encoder)
        finally:
            gate.release()
        journal.write(entry)
        finished.add(job.index)
        kept += entry["row"] is not None
        waiting[job.group.index] -= 1
        if not waiting[job.group.index]:
            job.group.forget()
        done(len(finished), kept)

    try:
        async with asyncio.TaskGroup() as running:
            for job in todo:
                if job.index in finished:
                    continue
                await gate.acquire()
                running.create_task(one(job))
    except* InputError as errors:
        raise InputError([p for e in _flat(errors) for p in e.problems]) from None
    finally:
        journal.close()
    return finish(recipe, out, resumed=resumed)


def _flat(errors: BaseExceptionGroup[InputError]) -> Iterator[InputError]:
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _flat(error)
        else:
            yield error


def _entry(recipe: Recipe, job: Job, rollout: Rollout, verdict: Verdict, encoder: Encoder) -> dict[str, Any]:
    """The journal's line of a job."""
    entry: dict[str, Any] = {"job": job.index, "task": job.task.id, "reasons": verdict.reasons, "row": None}
    if verdict.reasons:
        return entry
    messages, retry = rollout.messages, "none"
    if sent_back(rollout.trajectory):
        retry = "whole"
        if random.Random(f"{recipe.seed}/whole/{job.index}").random() >= recipe.keep_whole:
            retry, messages = "cut", without_failures(messages, rollout.trajectory)
    try:
        tokens = token_row(messages, encoder, name=job.name)
    except InputError as error:
        # Told at the end, all of them: see `finish`.
        return {**entry, "differs": [p.message for p in error.problems], "name": job.name}
    harness, record = job.group.made
    entry["row"] = {
        "id": job.name,
        "group": job.group.release,
        "ids": tokens.ids,
        "written": [int(w) for w in tokens.written],
        "messages": [message_to_json(m) for m in messages],
        "fields": {
            "task": job.task.id,
            "split": job.task.world.split,
            "language": job.task.world.language,
            "world": job.task.world.seed,
            "intents": [a.intent.value for a in job.task.asked],
            "tags": list(job.task.tags),
            "harness": harness.name,
            "base": job.group.is_base,
            "variant": record,
            "retry": retry,
            "scores": dict(verdict.scores),
            "teacher": rollout.trajectory.policy,
            "weights": rollout.trajectory.turns[-1].weights,
            "seed": job.seed,
            "reply": rollout.trajectory.reply,
            "route": rollout.trajectory.route.value,
        },
    }
    return entry


class Journal:
    """One line a finished job, under a first line that is the recipe. A torn last line is cut off."""

    def __init__(self, path: Path, recipe: Recipe) -> None:
        """
        Raises:
            InputError: the file is of another recipe; each field that differs is named.
        """
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            data = path.read_bytes()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                with path.open("r+b") as file:
                    file.truncate(whole)
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        if lines:
            _check_recipe(path, json.loads(lines[0]), recipe)
        self._entries: list[dict[str, Any]] = [json.loads(line) for line in lines[1:]]
        self._file = path.open("a", encoding="utf-8", newline="\n")
        if not lines:
            self._line(recipe.to_json())

    def entries(self) -> list[dict[str, Any]]:
        """What earlier starts had done."""
        return self._entries

    def write(self, entry: Mapping[str, Any]) -> None:
        self._line(json.dumps(entry, ensure_ascii=False))

    def _line(self, text: str) -> None:
        self._file.write(text + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _check_recipe(path: Path, before: Mapping[str, Any], recipe: Recipe) -> None:
    now: dict[str, Any] = json.loads(recipe.to_json())
    # A field that a journal of an earlier version lacks has the value it had then.
    earlier = {f.name: f.default for f in fields(Recipe) if f.default is not MISSING}
    before = {**{n: v for n, v in earlier.items() if n in now}, **before}
    changed = [name for name in now if before.get(name) != now[name]]
    if changed:
        raise InputError(
            [
                Problem(
                    path=str(path),
                    field=name,
                    message=f"the build here has {before.get(name)!r}, this one {now[name]!r}; expected the "
                    "same recipe, or another folder",
                    code="data-other-recipe",
                )
                for name in changed
            ]
        )


# ----------------------------------------------------------------------------- rows and card


def finish(recipe: Recipe, out: Path, *, resumed: int = 0) -> Built:
    """Write ``train.parquet``, ``card.json`` and ``README.md`` from the journal.

    Raises:
        InputError: conversations whose two renderings differ; nothing is written then.
    """
    lines = (out / JOURNAL).read_text(encoding="utf-8").splitlines()[1:]
    entries: list[dict[str, Any]] = sorted(map(json.loads, lines), key=lambda e: e["job"])
    differ = [Problem(path=e["name"], message=m, code="render-twice") for e in entries for m in e.get("differs", ())]
    if differ:
        raise InputError(differ)
    rows: list[DataRow] = []
    dropped: Counter[str] = Counter()
    seen: set[tuple[int, ...]] = set()
    for entry in entries:
        row = entry["row"]
        if row is None:
            dropped.update({reason.partition(":")[0] for reason in entry["reasons"]})
        elif tuple(row["ids"]) in seen:
            dropped["duplicate"] += 1
        else:
            seen.add(tuple(row["ids"]))
            made = _row(row)
            short = random.Random(f"{recipe.seed}/first turn/{entry['job']}").random() < recipe.first_turns
            rows.append(first_turn(made) if short else made)
    if not rows:
        raise InputError.at(
            out,
            f"none of {len(entries)} conversations was kept ({dict(dropped)}); see {JOURNAL}",
            code="data-empty",
        )
    digest = write_rows(out / ROWS, rows)
    built = Built(
        jobs=len(entries),
        rows=len(rows),
        dropped=dict(sorted(dropped.items())),
        retries=dict(Counter(str(r.fields["retry"]) for r in rows)),
        base=sum(bool(r.fields["base"]) for r in rows),
        groups=len({r.group for r in rows}),
        tokens=sum(len(r.tokens.ids) for r in rows),
        written=sum(sum(r.tokens.written) for r in rows),
        resumed=resumed,
        folder=out,
    )
    card = _card(recipe, built, rows, digest)
    (out / CARD).write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "README.md").write_text(_readme(card), encoding="utf-8")
    return built


def _row(row: Mapping[str, Any]) -> DataRow:
    return DataRow(
        id=row["id"],
        group=row["group"],
        tokens=TokenRow(ids=tuple(row["ids"]), written=tuple(map(bool, row["written"]))),
        messages=tuple(message_from_json(m) for m in row["messages"]),
        fields=row["fields"],
    )


def _card(recipe: Recipe, built: Built, rows: Sequence[DataRow], digest: str) -> dict[str, Any]:
    operators = Counter(str(step.get("operator", "?")) for r in rows for step in r.fields["variant"])
    return {
        "rows_sha256": digest,
        "split": recipe.split,
        "harnesses": [{"name": n, "digest": d} for n, d in recipe.harnesses.items()],
        "tasks": recipe.tasks,
        "seeds": {"build": recipe.seed, **recipe.task_seeds},
        "teacher": recipe.teacher,
        "filter": recipe.filter,
        "tokenizer": dict(recipe.tokenizer),
        "recipe": asdict(recipe),
        "counts": {
            "conversations": built.jobs,
            "rows": built.rows,
            "dropped": dict(built.dropped),
            "retries": dict(built.retries),
            "under a base harness": built.base,
            "harnesses": built.groups,
            "tokens": built.tokens,
            "written tokens": built.written,
            "intents": dict(Counter(i for r in rows for i in r.fields["intents"]).most_common()),
            "languages": dict(Counter(str(r.fields["language"]) for r in rows)),
            "operators": dict(operators.most_common()),
        },
        "versions": versions(),
    }


def _readme(card: Mapping[str, Any]) -> str:
    counts = card["counts"]
    summary = (
        f"{counts['rows']} of {counts['conversations']} conversations were kept: {counts['tokens']} tokens, "
        f"{counts['written tokens']} of them written by the policy (only on these falls the loss). They ran "
        f"under {counts['harnesses']} harnesses, {counts['under a base harness']} rows under a base harness."
    )
    lines = [
        "# Training conversations",
        "",
        summary,
        "",
        "| what | value |",
        "|---|---|",
    ]
    for name in ("rows_sha256", "split", "harnesses", "tasks", "seeds", "teacher", "filter", "tokenizer"):
        lines.append(f"| {name} | {_cell(card[name])} |")
    for name in ("dropped", "retries", "intents", "languages", "operators"):
        lines += ["", f"## {name.capitalize()}", "", "| | rows |", "|---|---|"]
        lines += [f"| {key} | {value} |" for key, value in counts[name].items()]
    lines += ["", "## Versions", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {version} |" for name, version in card["versions"].items()]
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.replace("|", "\\|")


def recipe_harnesses(harnesses: Mapping[str, Harness]) -> dict[str, str]:
    """Name -> digest."""
    return {name: harness_digest(harness) for name, harness in harnesses.items()}
