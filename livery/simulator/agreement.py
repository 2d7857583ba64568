"""How far the verifier agrees with labels made by hand: labelled replies to questions in real stores, and the figures.

A labelled set is a YAML list of cases (a question, the calls made, the gold) with replies judged by hand. The
case's id says which part it is of: ``development``, on which the rules were tuned; ``held-out``, whose disagreements
were never looked at; ``blind``, written when the rules were done, to see what they make of words they never met.
``chat`` and ``chat, unseen`` are of chat that asks nothing of the shop: written before the rules on relevance, which
were mended on the first and never on the second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast

import yaml

from livery.harness.model import Harness
from livery.shop.catalogue import Catalogue
from livery.shop.operations import OperationContext, OperationError, Outcome
from livery.shop.reading import load_catalogue
from livery.shop.registry import shop_operations
from livery.simulator.task import Asked, Fault, GoldFact, Intent, Needed, Scores, Task, Topic, WorldRef
from livery.simulator.verifier import verify
from livery.types import (
    ChatMessage,
    Effect,
    ErrorKind,
    PolicyTurn,
    Request,
    RoomState,
    Route,
    ToolCall,
    ToolError,
    ToolResult,
    Trajectory,
    Turn,
)

Part = Literal["development", "held-out", "blind", "chat", "chat, unseen"]
PARTS: tuple[Part, ...] = ("development", "held-out", "blind", "chat", "chat, unseen")
_OPERATIONS = shop_operations()
_NOON = (2027, 3, 10, 12, 0)


@dataclass(frozen=True, slots=True)
class Labelled:
    """One reply and its labels."""

    id: str
    case: str
    task: Task
    trajectory: Trajectory
    catalogue: Catalogue
    accuracy: int
    effectiveness: float
    why: str

    @property
    def part(self) -> Part:
        return part_of(self.case)


def part_of(case: str) -> Part:
    """Fixed by the id alone: ``b...`` is blind, ``f...`` to ``j...`` were met in mending the rules and are
    for development, ``k...`` and ``v...`` are of chat, and of the first set three in five cases are for development."""
    if case[0] in "kv":
        return "chat" if case[0] == "k" else "chat, unseen"
    if case[0] in "bfghj":
        return "blind" if case[0] == "b" else "development"
    digest = hashlib.sha256(case.encode()).digest()
    return "development" if int.from_bytes(digest[:4], "big") % 5 < 3 else "held-out"


def load_labelled(path: Path, store: Path, skills: Sequence[str]) -> Iterator[Labelled]:
    """The replies of a labelled set.

    Args:
        store: folder of the store its questions are about.
        skills: keys of reply skills that count as loaded.
    """
    catalogue = load_catalogue(store)
    for case in cast("list[dict[str, Any]]", yaml.safe_load(path.read_text(encoding="utf-8"))):
        task = _task(case, catalogue, store)
        results = tuple(_call(i, c, task, catalogue) for i, c in enumerate(case["calls"]))
        for said in case["replies"]:
            reply = str(said[3])
            yield Labelled(
                id=case["id"] + said[0],
                case=case["id"],
                task=task,
                trajectory=_trajectory(case["id"] + said[0], task, results, reply, skills),
                catalogue=catalogue,
                accuracy=said[1],
                effectiveness=said[2],
                why=said[4],
            )


def _task(case: dict[str, Any], catalogue: Catalogue, store: Path) -> Task:
    language: Literal["en", "zh"] = "zh" if catalogue.chinese else "en"
    now = datetime(*_NOON, tzinfo=catalogue.zone).timestamp()
    message = ChatMessage(id="m1", room="r", viewer="v", text=case["ask"], at=now)
    state = RoomState(
        room="r", language=language, now=now, timezone=catalogue.timezone, on_screen=case.get("screen", "")
    )
    writes = [c for c in case["calls"] if c[0] == "room.hand_off"]
    return Task(
        id=case["id"],
        world=WorldRef(split="test", language=language, seed=0, store=str(store)),
        seed=0,
        request=Request(id=case["id"], messages=(message,), state=state, created_at=now),
        asked=tuple(_asked(a, case) for a in case["asked"]),
        topics=tuple(Topic(t) for t in case["topics"]),
        needed=tuple(
            Needed(operation=o, arguments=a) for o, a in case["calls"] if (o, a) not in [tuple(w) for w in writes]
        ),
        forbidden=tuple(case.get("forbidden", ())),
        hand_off=case.get("hand_off", False),
        may_be_silent=case.get("may_be_silent", False),
        faults=tuple(Fault(**f) for f in case.get("faults", ())),
    )


def _asked(asked: dict[str, Any], case: dict[str, Any]) -> Asked:
    facts = tuple(
        GoldFact(
            key=f["k"], kind=f["kind"], value=f["v"], unit=f.get("u", ""), item=f.get("item", ""),
            required=not f.get("opt", False), wordings=tuple(f.get("say", ())),
        )
        for f in asked["facts"]
    )  # fmt: skip
    intent = Intent(asked.get("intent", case["intent"]))
    return Asked(
        intent=intent,
        message=0,
        items=tuple(asked.get("items", ())),
        facts=facts,
        ask_back=asked.get("ask_back", False),
        cannot_check=asked.get("cannot_check", False),
    )


def _call(index: int, call: Sequence[Any], task: Task, catalogue: Catalogue) -> ToolResult:
    operation, arguments = str(call[0]), cast("dict[str, Any]", call[1])
    surface = ToolCall(id=f"c{index}", name=operation, arguments=arguments)
    common: dict[str, Any] = {"call": surface, "key": operation, "operation": operation, "arguments": arguments}
    if any(f.operation == operation and not f.recoverable for f in task.faults):
        return ToolResult(**common, error=ToolError(kind=ErrorKind.TIMEOUT, message="no answer in time"))
    now = datetime.fromtimestamp(task.request.state.now, catalogue.zone)
    context = OperationContext(catalogue=catalogue, state=task.request.state, now=now)
    try:
        outcome = cast(Outcome, _OPERATIONS[operation].run(context, arguments))
    except OperationError as error:
        return ToolResult(**common, error=ToolError(kind=error.kind, message=error.message))
    return ToolResult(**common, value=outcome.value, effects=outcome.effects)


def _trajectory(id: str, task: Task, results: tuple[ToolResult, ...], reply: str, skills: Sequence[str]) -> Trajectory:
    turns = [
        Turn(
            round=0,
            harness_release="",
            weights="",
            policy=PolicyTurn(calls=tuple(r.call for r in results), stop="calls"),
            results=results,
        )
    ]
    turns.append(Turn(round=1, harness_release="", weights="", policy=PolicyTurn(text=reply)))
    effects: tuple[Effect, ...] = tuple(e for r in results for e in r.effects)
    return Trajectory(
        id=id,
        request=task.request,
        harness="labelled",
        harness_release="",
        policy="scripted",
        turns=tuple(turns),
        skills=tuple(skills),
        reply=reply,
        effects=effects,
        route=Route.AGENT if reply else Route.SILENT,
        route_reason="",
        started_at=task.request.state.now,
    )


# ------------------------------------------------------------------------------------- figures


@dataclass(frozen=True, slots=True)
class Figures:
    """Agreement on one part. Precision and recall are of "wrong" (accuracy 0)."""

    replies: int
    wrong: int
    precision: float
    recall: float
    effectiveness: float
    """Share of replies whose effectiveness is exactly the label's."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    labelled: Labelled
    scores: Scores


def judge(labelled: Iterable[Labelled], harness: Harness) -> list[tuple[Labelled, Scores]]:
    return [(x, verify(x.task, x.trajectory, harness, catalogue=x.catalogue)) for x in labelled]


def figures(judged: Sequence[tuple[Labelled, Scores]]) -> Figures:
    told = [x for x in judged if x[1].accuracy == 0]
    wrong = [x for x in judged if x[0].accuracy == 0]
    both = [x for x in told if x[0].accuracy == 0]
    same = [x for x in judged if x[0].effectiveness == x[1].effectiveness]
    return Figures(
        replies=len(judged),
        wrong=len(wrong),
        precision=len(both) / len(told) if told else 1.0,
        recall=len(both) / len(wrong) if wrong else 1.0,
        effectiveness=len(same) / len(judged) if judged else 1.0,
    )


def disagreements(judged: Sequence[tuple[Labelled, Scores]]) -> list[Disagreement]:
    return [Disagreement(x, s) for x, s in judged if x.accuracy != s.accuracy or x.effectiveness != s.effectiveness]


def reply_skills(harness: Harness) -> tuple[str, ...]:
    """Keys of the harness's reply skills."""
    return tuple(s.key for s in harness.skills if s.kind == "reply")
