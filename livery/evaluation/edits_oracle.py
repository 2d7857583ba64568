"""Proof that every case of the set Harness edits can be answered rightly, and is not by who ignores the edit.

`EditedOracle` is the simulator's oracle on the gold of a task's edit, with the demand put into its sentences. It knows
the demand from the task, never from the harness's words, so it proves nothing about a policy: only that the edited
harness lets a right answer through and that the judge then finds nothing wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, Literal

from livery.errors import InputError
from livery.evaluation.edits import edit_of, edited, judged, succeeded
from livery.evaluation.edits_list import KINDS
from livery.evaluation.suites import Base
from livery.harness.model import Harness
from livery.policies.policy import Policy, PolicyRequest, PromptMessage
from livery.simulator.answers import reply_to
from livery.simulator.oracle import OraclePolicy
from livery.simulator.reply_form import Form
from livery.simulator.rollout import live_of, rollout
from livery.simulator.task import Scores, Task
from livery.types import PolicyTurn

_TRIES: Final = 60


class EditedOracle:
    """Acts rightly by the edit that a task of the set belongs to."""

    actions: Literal["text", "native"] = "text"
    uri = "oracle:edited"
    weights = "oracle/1"

    def __init__(self) -> None:
        self._oracle = OraclePolicy()

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        """The next right action.

        Raises:
            ValueError: the request does not tell its task and harness, or the task belongs to no edit.
        """
        task, harness = request.info.get("task"), request.info.get("harness")
        if not isinstance(task, Task) or not isinstance(harness, Harness):
            raise ValueError('the oracle needs a task and its harness: info={"task": ..., "harness": ...}')
        gold = edit_of(task).gold(task)
        turn = await self._oracle.act(replace(request, info={**request.info, "task": gold}))
        return turn if turn.calls else replace(turn, text=_worded(task, gold, harness, request.seed or 0))

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> None:
        """Nothing to prefill."""

    async def aclose(self) -> None:
        """Nothing to close."""


def _worded(task: Task, gold: Task, harness: Harness, seed: int) -> str:
    """A reply that meets the demand and the harness's form; the last one tried where none does."""
    edit, form = edit_of(task), Form.of(harness)
    text = ""
    for i in range(_TRIES):
        rng = Random(f"edited/{seed}/{task.id}/{i}")
        text = edit.put(task, reply_to(gold, form, rng, plain=i > 0))
        if form.holds(text) and not edit.amiss(task, text):
            break
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """Cases of one kind of edit and how many succeeded."""

    kind: str
    cases: int = 0
    edited: int = 0
    """With the oracle that follows the edit, under the edited harness."""
    plain_old: int = 0
    """With the plain oracle, under the base: what the edit changes."""
    plain_new: int = 0
    """With the plain oracle, under the edited harness. It follows form (limits, sign-offs) and no prose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    kinds: tuple[Proved, ...]
    whole: Proved
    failed: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Cases that the following oracle did not pass: task, edit, reasons."""
    seed: int

    def to_json(self) -> dict[str, Any]:
        """For programs."""

        def row(one: Proved) -> dict[str, int]:
            return {"cases": one.cases, "edited": one.edited, "plain_old": one.plain_old, "plain_new": one.plain_new}

        return {
            **row(self.whole),
            "kinds": {k.kind: row(k) for k in self.kinds},
            "failed": [{"task": t, "edit": e, "reasons": list(r)} for t, e, r in self.failed],
            "seed": self.seed,
        }


async def prove(
    tasks: Sequence[Task], harness: Harness, *, seed: int = 0, progress: Callable[[], None] = lambda: None
) -> Proof:
    """Play every case with the oracle that follows the edit and with the one that does not.

    Raises:
        InputError: no task, or the harness lacks a tool that an edit asks for.
    """
    if not tasks:
        raise InputError.at("tasks", "found no task; expected one at least", code="no-tasks")
    base = Base(harness)
    old = live_of(harness)
    knowing, plain = EditedOracle(), OraclePolicy()
    counts = {kind: [0, 0, 0, 0] for kind in KINDS}
    failed: list[tuple[str, str, tuple[str, ...]]] = []
    for task in tasks:
        edit = edit_of(task)
        new = live_of(edited(edit, base))
        mine = counts[edit.kind]
        mine[0] += 1
        right = await _played(task, new, knowing, seed)
        mine[1] += succeeded(right)
        if not succeeded(right):
            failed.append((task.id, edit.name, right.reasons))
        mine[2] += succeeded(await _played(task, old, plain, seed))
        mine[3] += succeeded(await _played(task, new, plain, seed))
        progress()
    kinds = tuple(_proved(kind, row) for kind, row in counts.items() if row[0])
    whole = _proved("all", [sum(column) for column in zip(*counts.values(), strict=True)])
    return Proof(kinds=kinds, whole=whole, failed=tuple(failed), seed=seed)


def _proved(kind: str, row: Sequence[int]) -> Proved:
    return Proved(kind=kind, cases=row[0], edited=row[1], plain_old=row[2], plain_new=row[3])


async def _played(task: Task, live: Any, policy: Policy, seed: int) -> Scores:
    trajectory, _ = await rollout(task, live, policy, seed=seed)
    return judged(task, trajectory, live.harness)
