"""What the shop answers to a task's look-ups, where an edit makes more of it part of the right answer.

The facts come from the real operations over the task's own world, as all gold does; nothing is worked out here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast
from zoneinfo import ZoneInfo

from livery.shop.operations import OperationContext, Outcome
from livery.shop.registry import shop_operations
from livery.simulator.mix import KINDS
from livery.simulator.task import GoldFact, Task
from livery.simulator.worlds import world_of
from livery.types import JSON

_OPERATIONS: Final = shop_operations()
_OPEN: Final = ("size.open", "shipping.open")


@dataclass(frozen=True, slots=True)
class Used:
    """The one coupon that is part of a price. Amounts are in the currency's smallest unit."""

    off: int
    saved: int
    """With everything else that lowers the price."""
    currency: str


def asks_for(intents: Iterable[str], only: str = "") -> dict[str, float]:
    """Kinds of question of the intents, with the simulator's weights."""
    if only in KINDS:
        return {only: 1.0}
    wanted = set(intents)
    return {k: w for k, w in KINDS.items() if k.partition(".")[0] in wanted and k not in _OPEN}


def answers(task: Task, operation: str) -> list[Mapping[str, Any]]:
    """What the shop answers to the task's needs of an operation."""
    state = task.request.state
    now = datetime.fromtimestamp(state.now, ZoneInfo(state.timezone))
    context = OperationContext(catalogue=world_of(task.world).catalogue, state=state, now=now)
    found: list[Mapping[str, Any]] = []
    for need in task.needed:
        if need.operation == operation:
            outcome = cast(Outcome, _OPERATIONS[operation].run(context, need.arguments))
            found.append(cast("Mapping[str, Any]", outcome.value))
    return found


def coupon_of(task: Task) -> Used | None:
    """The coupon in the price that a task asks for; None where there is none or there are several, and of a thing
    that cannot be bought."""
    quotes = answers(task, "pricing.quote")
    if len(quotes) != 1 or "status" in quotes[0] or "saved" not in quotes[0]:
        return None
    lines = [line for line in quotes[0].get("lines", ()) if "coupon" in line]
    if len(lines) != 1:
        return None
    return Used(lines[0]["off"]["amount"], quotes[0]["saved"]["amount"], lines[0]["off"]["currency"])


def with_required(task: Task, key: str, value: JSON) -> Task:
    """The task with the fact of a key and value required."""

    def one(fact: GoldFact) -> GoldFact:
        return fact.model_copy(update={"required": True}) if (fact.key, fact.value) == (key, value) else fact

    asked = tuple(a.model_copy(update={"facts": tuple(one(f) for f in a.facts)}) for a in task.asked)
    return task.model_copy(update={"asked": asked})


def promotions_without_codes(task: Task) -> tuple[Task, tuple[str, ...]] | None:
    """A task that asks what runs, with coupons by their terms; and the codes. None where no coupon runs."""
    lists = answers(task, "promotions.list")
    facts = [f for f in task.asked[0].facts if f.key == "promotion"] if len(task.asked) == 1 else []
    if len(lists) != 1 or len(facts) != 1:
        return None
    running = [p for p in (*lists[0]["promotions"], *lists[0]["coupons"]) if "starts_at" not in p]
    codes = tuple(str(p["code"]) for p in running if "code" in p)
    if not codes:
        return None
    said = list(dict.fromkeys(str(p["terms"] if "code" in p else p["name"]) for p in running))
    # Twice: a host's names of what runs are the first half, their terms the second.
    fact = facts[0].model_copy(update={"value": said[0], "wordings": (*said, *said)})
    asked = task.asked[0]
    changed = asked.model_copy(update={"facts": tuple(fact if f is facts[0] else f for f in asked.facts)})
    return task.model_copy(update={"asked": (changed,)}), codes
