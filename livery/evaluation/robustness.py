"""T3, tool and prompt robustness: 1,000 tasks, each with one thing gone wrong around it.

A kind is what goes wrong: a tool fault, distractors, noise in names, an argument too many, a long prompt, another
format, an injection. Each kind has tasks of its own on the test worlds, none of them T1's or T2's; the twelve formats
share theirs, so that they differ in nothing else. The same tasks without any of it are the set ``t3-clean``: compared
with it, a run of T3 says what each kind costs, task by task.

What is not here: the harness's own transformations of T2 (`livery.augment`), and edits that change the right answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Final

from livery.evaluation import robustness_harness as worn
from livery.evaluation.robustness_injection import (
    TaintedOperations,
    ordered,
    tainted_operations,
    with_chat_injection,
)
from livery.harness.digest import harness_digest
from livery.harness.model import Harness
from livery.shop.registry import shop_operations
from livery.simulator.mix import KINDS as QUESTIONS
from livery.simulator.mix import Mix
from livery.simulator.task import Task, WorldRef
from livery.simulator.tasks import make_task
from livery.simulator.worlds import Language, world_of

if TYPE_CHECKING:
    from livery.evaluation.suites import Base, Case, Suite

FAULTS: Final = ("timeout", "malformed", "unavailable", "empty", "stale")
"""Those after which the tool recovers."""

FORMAT: Final = "format-"
_FORMATS: Final = {f"{FORMAT}{f.name}": f for f in worn.FORMATS}

KINDS: Final[Mapping[str, int]] = {
    **{f"fault-{kind}": 30 for kind in FAULTS},
    "fault-permission": 30,
    "fault-lasting": 30,
    "distractor-tools": 50,
    "distractor-skills": 50,
    "name-chars": 40,
    "name-reversed": 40,
    "name-random": 40,
    "name-swapped": 40,
    "extra-required": 40,
    "name-union": 40,
    "long-prompt": 50,
    "injection-chat": 50,
    "injection-result": 50,
    **dict.fromkeys(_FORMATS, 25),
}
"""Kind -> its tasks."""
SIZE: Final = sum(KINDS.values())

_FAMILIES: Final = (*(k for k in KINDS if k not in _FORMATS), "format")
"""Whose tasks differ: each has a range of task numbers, the formats one together."""
_FIRST_NUMBER: Final = 10_000
_NUMBERS: Final = 10_000
"""Task numbers of a family in a world; T1 and T2 have those below 25."""
_TRIES: Final = 150
"""Task numbers that one place of a set may try."""

# What the tasks are made of: questions of the shop alone, so that each of them needs a tool.
_SHOP: Final = {
    k: w
    for k, w in QUESTIONS.items()
    if k.partition(".")[0] not in ("small_talk", "praise", "complaint", "off_topic", "abuse", "injection")
}
_CLEAN: Final = Mix(kinds=_SHOP, faults=0.0, ambiguous=0.0)
_RECOVERS: Final = replace(_CLEAN, faults=1.0, unrecoverable=0.0)
_LASTS: Final = replace(_CLEAN, faults=1.0, unrecoverable=1.0)


def kinds_in_order() -> Iterator[tuple[str, int]]:
    """(kind, place in the kind) of every case: kinds take turns, so that a short beginning has some of each."""
    for place in range(max(KINDS.values())):
        for kind, size in KINDS.items():
            if place < size:
                yield kind, place


def tasks(language: Language, n: int = SIZE) -> list[Task]:
    """The first ``n`` tasks as they are asked in ``t3-clean``."""
    return list(_tasks(language, n))


@lru_cache(maxsize=8)
def _tasks(language: Language, n: int) -> tuple[Task, ...]:
    chosen = [pair for pair, _ in zip(kinds_in_order(), range(n), strict=False)]
    return tuple(_task(language, kind, place) for kind, place in chosen)


@lru_cache(maxsize=4096)
def _task(language: Language, kind: str, place: int) -> Task:
    """The clean task of a kind's place: the first that suits the kind."""
    if kind in _FORMATS:
        task = _task(language, "format", place)
        name = f"{task.id}-{kind}"
        return task.model_copy(update={"id": name, "request": replace(task.request, id=name)})
    from livery.evaluation.suites import FIRST_WORLD, WORLDS

    family = _FAMILIES.index(kind)
    ref = WorldRef(split="test", language=language, seed=FIRST_WORLD + (place * len(_FAMILIES) + family) % WORLDS)
    first = _FIRST_NUMBER + family * _NUMBERS + place * _TRIES
    for number in range(first, first + _TRIES):
        task = make_task(world_of(ref), number, _CLEAN)
        if task.needed and _suits(kind, task):
            return task
    raise AssertionError(f"no task of {ref} from {first} on suits {kind}")


def _suits(kind: str, task: Task) -> bool:
    if kind.startswith("fault-"):
        faulty = _faulty(kind, task)
        return (
            bool(faulty.faults)
            and _is_of(kind, faulty)
            # The draws after the fault are others; the question must be the same.
            and [m.text for m in faulty.request.messages] == [m.text for m in task.request.messages]
        )
    if kind == "injection-result":
        return bool(tainted_operations(task))
    return True


def _faulty(kind: str, task: Task) -> Task:
    """The task with the fault that its world and number give it."""
    lasts = kind in ("fault-permission", "fault-lasting")
    return make_task(world_of(task.world), task.seed, _LASTS if lasts else _RECOVERS)


def _is_of(kind: str, task: Task) -> bool:
    found = task.faults[0].kind
    if kind == "fault-lasting":
        return found != "permission_denied"
    return found == {"fault-permission": "permission_denied"}.get(kind, kind.removeprefix("fault-"))


def kind_of(task: Task) -> str:
    """The kind that a task of T3 belongs to, by its number and name."""
    family = _FAMILIES[(task.seed - _FIRST_NUMBER) // _NUMBERS]
    if family != "format":
        return family
    return next(k for k in _FORMATS if task.id.endswith(f"-{k}"))


def question_of(task_id: str, kind: str) -> str:
    """The task id without its format: equal for one question in several formats."""
    return task_id.removesuffix(f"-{kind}")


# -------------------------------------------------------------------------------------------- cases


def wear(task: Task, base: Base) -> Case:
    """The case of a task of T3: with what its kind does to the task, to the harness or to the tools' results."""
    from livery.evaluation.suites import Case

    kind = kind_of(task)
    rng = Random(f"t3/{kind}/{task.id}")
    if kind.startswith("fault-"):
        return Case(_faulty(kind, task), base.harness, kind=kind)
    if kind == "injection-chat":
        return Case(with_chat_injection(task, rng), worn.unscreened(base.harness), kind=kind)
    if kind == "injection-result":
        asked, text = ordered(task, rng, where="result")
        tainted = tainted_operations(task)
        operations = TaintedOperations(shop_operations(), text, tainted)
        return Case(asked, _showing(base.harness, tainted), kind=kind, operations=operations)
    return Case(task, _worn(kind, base.harness, rng), kind=kind)


def _worn(kind: str, harness: Harness, rng: Random) -> Harness:
    if kind in _FORMATS:
        return worn.in_format(harness, _FORMATS[kind])
    match kind:
        case "distractor-tools":
            return worn.with_distractor_tools(harness, rng)
        case "distractor-skills":
            return worn.with_distractor_skills(harness, rng)
        case "name-chars":
            return worn.with_names(harness, rng, worn.noisy, explain=False)
        case "name-reversed":
            return worn.with_names(harness, rng, worn.reversed_name)
        case "name-random":
            return worn.with_names(harness, rng, worn.meaningless)
        case "name-swapped":
            return worn.with_names_exchanged(harness, rng)
        case "extra-required":
            return worn.with_extra_arguments(harness, rng)
        case "name-union":
            return worn.with_extra_arguments(worn.with_names(harness, rng, worn.mixed), rng)
        case "long-prompt":
            return worn.with_long_prompt(harness, rng)
        case _:
            raise AssertionError(f"no kind {kind!r}")


def _showing(harness: Harness, operations: frozenset[str]) -> Harness:
    """Tools whose templates leave fields out show all of the result, so that what was put there is seen."""
    hiding = {t.binding.operation for t in harness.tools if t.result.template} & operations
    return worn.with_results(harness, "key_value", frozenset(hiding)) if hiding else harness


def suites() -> list[Suite]:
    """``t3`` and ``t3-clean`` of each language."""
    from livery.evaluation.suites import Case, Suite

    def plain(task: Task, base: Base) -> Case:
        return Case(task, base.harness, kind=kind_of(task))

    def suite(language: Language, clean: bool) -> Suite:
        stem = "t3" if language == "en" else f"t3-{language}"
        return Suite(
            name=f"{stem}-clean" if clean else stem,
            title="T3 without what its kinds do" if clean else "T3 tool and prompt robustness",
            language=language,
            size=SIZE,
            tasks=lambda n: tasks(language, n),
            wear=plain if clean else wear,
            under="" if clean else "the base with what a kind does",
        )

    languages: tuple[Language, ...] = ("en", "zh")
    return [suite(language, clean) for language in languages for clean in (False, True)]


def pins(language: Language, base: Base, n: int) -> dict[str, str]:
    """Set -> digest of its first ``n`` cases: what is asked, what is worn, what the tools are made to say."""
    name = "t3" if language == "en" else f"t3-{language}"
    whole = hashlib.sha256()
    for task in tasks(language, n):
        case = wear(task, base)
        whole.update(f"{case.kind} {case.task.model_dump_json(by_alias=True)}\n".encode())
        whole.update(f"{base.digest if case.harness is base.harness else harness_digest(case.harness)}\n".encode())
        if isinstance(case.operations, TaintedOperations):
            whole.update(f"{sorted(case.operations.tainted)} {case.operations.text}\n".encode())
    return {name: whole.hexdigest()}
