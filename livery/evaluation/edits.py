"""The set Harness edits: 500 tasks whose right answer the edited harness changes.

An operator adds a rule (`livery.evaluation.edits_kinds`): a disclosure, a shorter limit, a banned word, a sign-off,
another rule on coupons, a check ahead of the answer, a person to call. Every task belongs to one edit that makes a
difference to it. ``edits-old`` plays all tasks under the base, ``edits-new`` each under the base with its edit; both
are judged by what the edited harness demands, so that the share of errors which the edit takes away
(`livery.evaluation.edits_reduction`) is the share of changes that a policy follows without training.

A case succeeds when the verifier finds nothing wrong and nothing missing under the edited gold and the demand is met:
accuracy and effectiveness are then both 1. An unmet demand is an error of accuracy. It is not measured how well a
policy follows several edits at once, nor edits of what a tool does.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from livery.evaluation.edits_kinds import HarnessEdit
from livery.evaluation.edits_list import KINDS, edits_of, questions_of
from livery.harness.digest import harness_digest
from livery.harness.model import Harness
from livery.simulator.mix import Mix
from livery.simulator.task import Scores, Task, WorldRef
from livery.simulator.tasks import make_task
from livery.simulator.verifier import verify
from livery.simulator.worlds import Language, world_of
from livery.types import Trajectory

if TYPE_CHECKING:
    from livery.evaluation.suites import Base, Case, Suite

SIZE: Final = 500
WORLDS: Final = 60
FIRST_WORLD: Final = 9_200_000
"""Seed of the first world: none of T1's, T2's or T3's."""
TAG: Final = "edit:"
REASON: Final = "edit: "
"""Begins the reason of an unmet demand."""
_TRIES: Final = 400
"""Tasks drawn for one place until one fits its edit."""
JUDGES: Final = tuple(
    Path(__file__).with_name(f"edits{name}") for name in (".py", "_kinds.py", "_gold.py", "_list.py", ".yaml")
)
"""Files by which the set judges beside the verifier's."""
_LANGUAGES: tuple[Language, ...] = ("en", "zh")


def edit_tasks(language: Language, n: int = SIZE) -> list[Task]:
    """The first ``n`` tasks. Kinds take turns, and within a kind its edits, so that a short beginning is a fair
    sample. Each task is tagged with its edit."""
    return [_task(language, place) for place in range(n)]


@lru_cache(maxsize=4 * SIZE)
def _task(language: Language, place: int) -> Task:
    edits = edits_of(language)[KINDS[place % len(KINDS)]]
    edit = edits[(place // len(KINDS)) % len(edits)]
    mix = Mix(kinds=questions_of(edit), several=0, merged=0, faults=0, ambiguous=0)
    rng = Random(f"edits/{language}/{place}")
    for attempt in range(_TRIES):
        seed = FIRST_WORLD + (place if not attempt else rng.randrange(WORLDS)) % WORLDS
        ref = WorldRef(split="test", language=language, seed=seed)
        task = make_task(world_of(ref), place * _TRIES + attempt, mix)
        if edit.fits(task):
            return task.model_copy(update={"tags": (*task.tags, TAG + edit.kind, TAG + edit.name)})
    raise AssertionError(f"no task of {_TRIES} fits the edit {edit.name} ({language})")


def edit_of(task: Task) -> HarnessEdit:
    """The edit that a task of the set belongs to.

    Raises:
        ValueError: it is no task of the set.
    """
    for kind in edits_of(task.world.language).values():
        for edit in kind:
            if TAG + edit.name in task.tags:
                return edit
    raise ValueError(f"the task {task.id} belongs to no edit")


def judged(task: Task, trajectory: Trajectory, harness: Harness) -> Scores:
    """What a trajectory earns under its task's edit, whatever harness it was played under."""
    edit = edit_of(task)
    scores = verify(edit.gold(task), trajectory, harness)
    unmet = edit.unmet(task, trajectory)
    if not unmet:
        return scores
    return scores.model_copy(update={"accuracy": 0, "reasons": (REASON + unmet, *scores.reasons)})


def succeeded(scores: Scores) -> bool:
    """Whether a case is no error."""
    return scores.accuracy == 1 and scores.effectiveness == 1


def edited(edit: HarnessEdit, base: Base) -> Harness:
    """The base with an edit, made once."""
    return _edited(edit, base.digest, _Held(base.harness))


class _Held:
    """A harness that a cache does not compare: its digest does that."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=512)
def _edited(edit: HarnessEdit, digest: str, held: _Held) -> Harness:
    return edit.applied(held.harness)


# ------------------------------------------------------------------------------------- as sets


def suites() -> list[Suite]:
    """``edits-old`` and ``edits-new`` of each language: the same tasks, the same demands."""
    from livery.evaluation.suites import Case, Suite

    def old(task: Task, base: Base) -> Case:
        return Case(task, base.harness, kind=edit_of(task).kind, judge=judged)

    def new(task: Task, base: Base) -> Case:
        edit = edit_of(task)
        return Case(task, edited(edit, base), kind=edit.kind, judge=judged)

    def suite(language: Language, changed: bool) -> Suite:
        stem = "edits" if language == "en" else f"edits-{language}"
        return Suite(
            name=f"{stem}-new" if changed else f"{stem}-old",
            title="Harness edits, as edited" if changed else "Harness edits, before the edit",
            language=language,
            size=SIZE,
            tasks=lambda n: edit_tasks(language, n),
            wear=new if changed else old,
            judges=JUDGES,
        )

    return [suite(language, changed) for language in _LANGUAGES for changed in (False, True)]


def pins(language: Language, base: Base, n: int) -> dict[str, str]:
    """Set -> digest of its first ``n`` cases: what is asked and demanded, and what is worn."""
    whole = hashlib.sha256()
    for task in edit_tasks(language, n):
        edit = edit_of(task)
        whole.update(f"{task.model_dump_json(by_alias=True)}\n{edit!r}\n".encode())
        whole.update(f"{edit.gold(task).model_dump_json(by_alias=True)}\n".encode())
        whole.update(f"{harness_digest(edited(edit, base))}\n".encode())
    return {"edits" if language == "en" else f"edits-{language}": whole.hexdigest()}
