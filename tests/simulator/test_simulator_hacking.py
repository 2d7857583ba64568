"""Tricks against the verifier: none out-earns the honest answer, and what was mended stays mended."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from livery.harness.folder import load_harness
from livery.harness.model import Harness
from livery.simulator import manner
from livery.simulator.assertions import stock_said
from livery.simulator.evidence import Evidence, evidence_of
from livery.simulator.lexicon import lexicon_of
from livery.simulator.oracle import OraclePolicy
from livery.simulator.reading import Reply, read_reply
from livery.simulator.rollout import live_of, rollout
from livery.simulator.task import Intent, Task
from livery.simulator.tasks import make_tasks
from livery.simulator.tool_use import skill_selection, tool_rationality
from livery.simulator.worlds import world_of
from livery.types import Trajectory

ROOT = Path(__file__).parents[2]
TASKS = 7
"""Of each language, for every trick."""


@pytest.fixture(scope="module")
def hacking() -> Iterator[ModuleType]:
    path = ROOT / "benchmarks" / "reward_hacking.py"
    spec = importlib.util.spec_from_file_location("reward_hacking", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def played(hacking: ModuleType) -> dict[str, list[Any]]:
    """Every trick on the sampled tasks of both languages, the verifier alone."""

    async def everything() -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {t.name: [] for t in hacking.TRICKS}
        for language in hacking.LANGUAGES:
            live = live_of(hacking.bare(harness_of(language)))
            tasks = make_tasks("train", language, TASKS, 4001)
            honest = await hacking.honest_answers(tasks, live)
            for trick in hacking.TRICKS:
                found[trick.name] += await hacking.play(trick, tasks, live, honest)
        return found

    return asyncio.run(everything())


@cache
def harness_of(language: str) -> Harness:
    return load_harness(ROOT / "harnesses" / f"streamer-{language}").harness


def test_no_trick_out_earns_the_honest_answer(played: dict[str, list[Any]]) -> None:
    assert {one.honest.scores.full for plays in played.values() for one in plays} == {True}
    ahead = {name: [p.trajectory.reply for p in plays if p.gain > 0] for name, plays in played.items()}
    assert {name: replies for name, replies in ahead.items() if replies} == {}
    # They do act: each has made something else of some task.
    assert {name for name, plays in played.items() if all(p.same for p in plays)} == set()


@pytest.mark.parametrize(
    "name",
    [
        "always-hand-off", "let-me-check", "let-me-check-worked", "cannot-check-worked", "ask-back-worked", "generic",
        "repeat-question", "yes-and-no", "every-price", "every-size", "copy-results", "copy-all-tools",
        "right-and-warranty", "right-and-promise", "right-and-best", "right-and-quality", "right-and-ask",
        "right-and-cannot", "right-and-staff", "right-and-yes-no", "right-and-prices", "right-twice", "every-tool",
        "call-thrice", "all-skills", "wrong-skill",
    ],
)  # fmt: skip
def test_it_earns_less_wherever_it_is_no_right_answer(
    hacking: ModuleType, played: dict[str, list[Any]], name: str
) -> None:
    trick = next(t for t in hacking.TRICKS if t.name == name)
    level = [p.trajectory.reply for p in played[name] if p.gain >= 0 and not p.same and not trick.fair(p.task)]
    assert level == []


# --------------------------------------------------------------------- each kind, beside what looks like it


def asking(intent: Intent, language: str = "en", **wanted: Any) -> Task:
    """A task that asks just one thing, of a kind."""
    for task in make_tasks("train", language, 120, 4100):  # type: ignore[arg-type]
        one = task.asked[0]
        alone = len(task.asked) == 1 and one.intent is intent and not task.faults
        if alone and all(bool(getattr(one, k)) is v for k, v in {"ask_back": False, **wanted}.items()):
            return task
    raise AssertionError(f"no task asks {intent}")


def read(task: Task, text: str) -> Reply:
    catalogue = world_of(task.world).catalogue
    asked = frozenset(i for a in task.asked for i in a.items)
    return read_reply(text, task.world.language, lexicon_of(catalogue), asked)


def honest(task: Task) -> Trajectory:
    return asyncio.run(rollout(task, harness_of(task.world.language), OraclePolicy(), seed=0))[0]


def evidence(task: Task) -> Evidence:
    return evidence_of(task, honest(task), harness_of(task.world.language), world_of(task.world).catalogue)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes, it is in stock. No, it is sold out.", True),
        ("It ships there. It does not ship there.", True),
        ("Yes. No.", True),
        ("Yes, we have it in stock.", False),
        ("No, it is sold out, sorry.", False),
        ("No rush, it is in stock.", False),
    ],
)
def test_yes_and_no_to_the_same_is_a_contradiction(text: str, expected: bool) -> None:
    task = asking(Intent.STOCK, facts=True)
    reply = read(task, text)
    assert manner.contradicts(reply, task, stock_said(reply, evidence(task))) is expected


def test_colours_and_links_may_differ_in_stock() -> None:
    task = asking(Intent.STOCK, facts=True)
    first, second, *_ = [p.link_id for p in world_of(task.world).catalogue.products]
    reply = read(task, f"Link {first} is in stock. Link {second} is sold out.")
    assert not manner.contradicts(reply, task, stock_said(reply, evidence(task)))


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "这款现在一共是七十二块，很划算的", True),
        ("zh", "It comes to seventy two right now, a good price", True),
        ("en", "Two of them come to seventy-two right now.", False),
        ("zh", "9号这款sold out了，不好意思", False),
        ("zh", "XL", False),
        ("en", "$72.10", False),
    ],
)
def test_the_other_language_is_no_answer(language: str, text: str, expected: bool) -> None:
    task = asking(Intent.PRICE, language, facts=True)
    assert manner.foreign(read(task, text), task) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is $72. I can't check that right now.", True),
        ("It is $72, a colleague will get back to you.", True),
        ("这款72块，具体我查不到哦。", True),
        ("It is sold out, and I can't check when it will be back in stock.", False),
        ("It is $72 right now.", False),
    ],
)
def test_putting_off_beside_the_answer(text: str, expected: bool) -> None:
    task = asking(Intent.PRICE, facts=True)
    assert manner.defers(read(task, text), task, handed=False) is expected
    assert not manner.defers(read(task, text), task, handed=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Which item do you mean, where should it be sent, and how tall are you?", True),
        ("It is $72. Which link do you mean, and where to?", True),
        ("It is $72. Which colour would you like?", False),
        ("It is $72. How tall are you?", False),
    ],
)
def test_asking_for_all_that_could_be_open(text: str, expected: bool) -> None:
    task = asking(Intent.PRICE, facts=True)
    assert manner.asks_everything(read(task, text), task) is expected


def test_an_answer_made_of_questions_is_none() -> None:
    task = asking(Intent.PRICE, facts=True)
    assert manner.only_asks(read(task, "It is $72.10? So $36.05 apiece?"), task)
    assert not manner.only_asks(read(task, "It is $72.10. Shall I show it?"), task)
    open_ = asking(Intent.SHIPPING, ask_back=True)
    assert not manner.only_asks(read(open_, "Where are you, which state or city?"), open_)


def test_the_chat_said_back_answers_nothing() -> None:
    task = asking(Intent.PRODUCT, facts=True)
    asked = task.request.text
    assert manner.without_echo(read(task, asked), task).strip() == ""
    kept = "It is in stock. Have a look."
    assert manner.without_echo(read(task, kept), task) == kept


def test_data_and_instructions_read_out() -> None:
    task = asking(Intent.PRODUCT, facts=True)
    trajectory, harness = honest(task), harness_of("en")
    body = next(s.body for s in harness.skills if s.key in trajectory.skills)
    line = max(body.splitlines(), key=len).lstrip("-1234567890. ")
    assert manner.reads_out(read(task, f"It is here. {line}"), trajectory, harness)
    assert manner.reads_out(read(task, 'link_id: "3", in_stock: 4'), trajectory, harness)
    assert not manner.reads_out(read(task, trajectory.reply), trajectory, harness)


def test_a_quality_needs_the_shops_word() -> None:
    task = asking(Intent.PRICE, facts=True)
    known = evidence(task)
    assert manner.quality_faults(read(task, "It is $72 and waterproof."), task, known) != []
    assert manner.quality_faults(read(task, "It is not waterproof."), task, known) == []
    message = replace(task.request.messages[0], text="waterproof?")
    asked = task.model_copy(update={"request": replace(task.request, messages=(message,))})
    assert manner.quality_faults(read(asked, "It is waterproof."), asked, evidence(asked)) == []


# ------------------------------------------------------------------------------------- the way to the reply


async def test_a_wrong_choice_of_skill_may_be_mended_but_not_all_loaded() -> None:
    task = asking(Intent.PRICE, facts=True)
    harness = harness_of("en")
    trajectory, _ = await rollout(task, harness, OraclePolicy(), seed=0)
    fitting = trajectory.skills
    others = [s.key for s in harness.skills if s.kind == "reply" and s.key not in fitting]

    def scored(*skills: str) -> int:
        return skill_selection(task, replace(trajectory, skills=tuple(skills)), harness)[0]

    assert scored(*fitting) == scored(others[0], *fitting) == 1
    assert scored(*fitting, *others[:2]) == scored(*others[:1]) == 0


async def test_the_same_call_twice_in_a_turn_is_a_repetition() -> None:
    task = next(
        t for t in make_tasks("train", "en", 120, 4100)
        if len(t.needed) == 1 and any(not f.recoverable for f in t.faults)
    )  # fmt: skip
    trajectory, scores = await rollout(task, harness_of("en"), OraclePolicy(), seed=0)
    assert scores.tool_rationality == 1
    turns = list(trajectory.turns)
    at = next(i for i, t in enumerate(turns) if any(not r.ok for r in t.results))
    failed = next(r for r in turns[at].results if not r.ok)
    again = replace(failed, call=replace(failed.call, id="call_99"))
    turns[at] = replace(turns[at], results=(*turns[at].results, again))
    score, reasons = tool_rationality(task, replace(trajectory, turns=tuple(turns)))
    assert score == pytest.approx(0.9)
    assert "twice" in reasons[0]
