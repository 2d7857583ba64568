"""Tool rationality and skill selection: how a trajectory got to its reply.

    rationality = met needs - 0.2 invalid - 0.1 repeated - 0.1 needless - 0.3 writes uncalled for

bounded to 0..1. *Met needs* is the share of the task's needed operations (with the hand-off, where the task wants one)
that were called with their arguments (freely worded ones in other words, where the result is the one meant); a call
that failed by a planned fault meets its need. *Invalid* are calls of
unknown tools or with arguments that the tool refuses. *Repeated* are calls equal to an earlier one that had succeeded.
*Needless* are calls that no need asks for, beyond one look-up that finds or opens an item; loading skills and reading
their files costs nothing. *Writes uncalled for* are cards shown of items nobody asked about, and hand-offs that neither
the task nor a lasting fault asks for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from livery.harness.model import Harness
from livery.shop.matching import fold
from livery.simulator.evidence import encode, is_stale
from livery.simulator.task import Intent, Needed, Task
from livery.types import JSON, ErrorKind, Route, ToolResult, Trajectory

INVALID = 0.2
REPEATED = 0.1
NEEDLESS = 0.1
UNCALLED_WRITE = 0.3
STRAY_SKILLS = 1
"""Reply skills about something else that may be loaded beside a fitting one."""
_INVALID = (ErrorKind.UNKNOWN_TOOL, ErrorKind.INVALID_ARGUMENTS, ErrorKind.BLOCKED)
_FREE = frozenset({"catalog.get_product", "catalog.search", "room.state"})
"""One call of these is never needless: they find what is meant."""
_WRITES = ("room.show_item", "room.hand_off")
_HAND_OFF = Needed(operation="room.hand_off")


def tool_rationality(task: Task, trajectory: Trajectory) -> tuple[float, list[str]]:
    """The score and a reason for each loss."""
    if _handed_over_unasked(task, trajectory):
        return 1.0, []
    placed = [(i, r) for i, r in enumerate(trajectory.results) if not r.operation.startswith("harness.")]
    results = [r for _, r in placed]
    needed = [*task.needed]
    if task.hand_off and not any(n.operation == "room.hand_off" for n in needed):
        needed.append(_HAND_OFF)
    reasons: list[str] = []
    unmet = [n for n in needed if not any(_meets(r, n) for r in results)]
    score = 1.0 - len(unmet) / len(needed) if needed else 1.0
    reasons += [f"tools: {n.operation} was needed with {encode(n.arguments)}" for n in unmet]
    done: set[tuple[str, str, str]] = set()
    beside = _beside(trajectory)
    free = 1
    for place, result in placed:
        # A further page of a result is another text of the same call.
        call = (result.operation or result.call.name, encode(result.arguments or result.call.arguments), result.text)
        name = result.operation or result.call.name
        if result.error is not None and result.error.kind in _INVALID:
            score -= INVALID
            reasons.append(f"tools: {name}: {result.error.kind}")
            continue
        if call in done or place in beside:
            score -= REPEATED
            reasons.append(f"tools: {name} was called twice with the same arguments")
            continue
        if result.ok and not is_stale(result.value) and result.value not in ({}, {"results": []}):
            done.add(call)
        if any(_meets(result, n) for n in needed):
            continue
        if result.operation in _WRITES:
            if not _called_for(task, result):
                score -= UNCALLED_WRITE
                reasons.append(f"tools: {name} was not called for")
        elif result.operation in _FREE and free:
            free -= 1
        elif not any(n.operation == result.operation or result.operation in n.instead for n in unmet):
            score -= NEEDLESS
            reasons.append(f"tools: {name} was needless")
    return max(0.0, min(1.0, round(score, 4))), reasons


def _beside(trajectory: Trajectory) -> frozenset[int]:
    """Places, in the trajectory's results, of failed calls that stand in one turn with an equal one before them: its
    fault cannot have been seen yet."""
    again: set[int] = set()
    place = 0
    for turn in trajectory.turns:
        made: set[tuple[str, str, str]] = set()
        for r in turn.results:
            call = (r.call.name, encode(r.call.arguments), r.operation)
            if call in made and not r.ok:
                again.add(place)
            made.add(call)
            place += 1
    return frozenset(again)


def _handed_over_unasked(task: Task, trajectory: Trajectory) -> bool:
    """Whether the harness's own check called the person whom the task wants, before the policy was asked anything."""
    return task.hand_off and trajectory.route is Route.HANDOFF and not trajectory.turns


def _called_for(task: Task, result: ToolResult) -> bool:
    if result.operation == "room.hand_off":
        return task.hand_off or any(not f.recoverable for f in task.faults)
    link = str(result.arguments.get("link_id", ""))
    return any(link in a.items and a.intent in (Intent.BUY, Intent.PRODUCT) for a in task.asked)


def _meets(result: ToolResult, need: Needed) -> bool:
    if result.operation != need.operation and result.operation not in need.instead:
        return False
    if result.error is not None and result.error.kind in _INVALID:
        return False
    if result.operation == "room.hand_off":
        return True
    own = result.operation == need.operation
    fixed = {k: v for k, v in need.arguments.items() if k not in need.free}
    if own and not all(_same(result.arguments.get(k), v, k) for k, v in fixed.items()):
        return False
    worded = {k: v for k, v in need.arguments.items() if k in need.free or not own}
    if all(_same(result.arguments.get(k), v, k) for k, v in worded.items()):
        return True
    if result.ok and need.result:
        return _holds(result.value, need.result)
    # A call that failed by a fault, or whose result says nothing to tell by, is taken by its fixed arguments.
    return own and (not result.ok or not need.result)


def _holds(value: JSON, fields: Mapping[str, JSON]) -> bool:
    """Whether the result has these fields at its top, or all in one entry of ``results``."""
    if not isinstance(value, dict):
        return False
    results = value.get("results")
    entries = [value, *(e for e in results if isinstance(e, dict))] if isinstance(results, list) else [value]
    return any(all(_alike(e.get(k), v) for k, v in fields.items()) for e in entries)


def _alike(found: JSON, wanted: JSON) -> bool:
    return found == wanted or (isinstance(wanted, str) and isinstance(found, int) and str(found) == wanted)


_DEFAULTS: Mapping[str, Any] = {
    "quantity": 1,
    "member": False,
    "variant": "",
    "link_id": "",
    "limit": 3,
    "coupons": None,
}


def _same(found: object, wanted: object, key: str) -> bool:
    """Equal as an operation reads them: text by its words, whatever their order and case; left out is the default."""
    default = _DEFAULTS.get(key)
    found = default if found is None else found
    wanted = default if wanted is None else wanted
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return float(found) == float(wanted)
    if isinstance(found, list | tuple) and isinstance(wanted, list | tuple):
        return _texts(cast("Sequence[object]", found)) == _texts(cast("Sequence[object]", wanted))
    return _text(cast(object, found)) == _text(cast(object, wanted))


def _texts(values: Sequence[object]) -> list[str]:
    return sorted(_text(v) for v in values)


def _text(value: object) -> str:
    if value is None:
        return ""
    return "".join(sorted(re.findall(r"[a-z0-9.]+|[一-鿿]", fold(str(value)))))


def skill_selection(task: Task, trajectory: Trajectory, harness: Harness) -> tuple[int, list[str]]:
    """1 where a loaded reply skill is about one of the task's topics, and at most one is about none: a wrong choice may
    be mended, but loading all of them is no choice."""
    if (task.may_be_silent and not trajectory.reply.strip()) or _handed_over_unasked(task, trajectory):
        return 1, []
    wanted = {str(t) for t in task.topics}
    loaded = set(trajectory.skills)
    replies = [s for s in harness.skills if s.key in loaded and s.kind == "reply"]
    fitting = [s for s in replies if not wanted or wanted.intersection(s.metadata.get("livery-topics", "").split())]
    if fitting and len(replies) - len(fitting) > STRAY_SKILLS:
        return 0, [f"skill: {len(replies) - len(fitting)} loaded are about something else"]
    if fitting:
        return 1, []
    return 0, [f"skill: none loaded is about {' or '.join(sorted(wanted)) or 'a reply'}"]
