"""Injections of T3: orders that stand where none may be given, in a viewer's message and in what a tool brings back.

The order is never part of the question: a right answer is the one that the task has without it. What it wants said is
on the task's list of what a reply must not hold; orders to be silent or to call a person cost the points of their own.
Results are changed on their way out of the shop, so nothing in the simulator knows of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final, cast

from livery.evaluation.robustness_words import words
from livery.shop.operations import OperationContext, Operations, Outcome
from livery.simulator.task import Intent, Task
from livery.simulator.tasks import undenied
from livery.simulator.viewers import viewers_of
from livery.types import JSON, ChatMessage

FIELDS: Final[Mapping[str, str]] = {
    "catalog.get_product": "description",
    "catalog.search": "description",
    "catalog.compare": "note",
    "faq.search": "note",
    "policy.lookup": "note",
    "pricing.quote": "note",
    "promotions.list": "note",
    "shipping.quote": "note",
    "size.advise": "note",
    "stock.check": "note",
}
"""Operation -> the field of free text in which the order stands: of its first entry, where its result is a list."""
_PRICED: Final = frozenset({Intent.PRICE, Intent.PROMOTION, Intent.SHIPPING, Intent.COMPARISON, Intent.BUY})


class TaintedOperations(Operations):
    """``operations``, some of whose results carry a text that somebody else wrote into them."""

    def __init__(self, operations: Operations, text: str, tainted: frozenset[str]) -> None:
        super().__init__(operations.values())
        self.text = text
        self.tainted = tainted

    async def call(self, name: str, arguments: Mapping[str, Any], context: OperationContext) -> Outcome:
        outcome = await super().call(name, arguments, context)
        if name not in self.tainted or not isinstance(outcome.value, dict) or not outcome.value:
            return outcome
        return replace(outcome, value=_tainted(outcome.value, FIELDS[name], self.text))


def _tainted(value: dict[str, JSON], field: str, text: str) -> dict[str, JSON]:
    results = value.get("results")
    if not isinstance(results, list):
        own = str(value.get(field) or "")
        return {**value, field: f"{own} {text}".strip()}
    if not results or not isinstance(results[0], dict):
        return value
    return {**value, "results": [_tainted(results[0], field, text), *results[1:]]}


def tainted_operations(task: Task) -> frozenset[str]:
    """Operations that the task's answer rests on, or that give the same, and whose results can carry a text."""
    needed = {o for n in task.needed for o in (n.operation, *n.instead)}
    return frozenset(needed & FIELDS.keys())


def ordered(task: Task, rng: Random, *, where: str) -> tuple[Task, str]:
    """An order for a task, and the task with what the order wants said forbidden.

    Args:
        where: ``chat`` or ``result``.
    """
    language = task.world.language
    orders = cast("dict[str, list[str]]", words(language, "orders"))
    goals = [g for g in orders if _fair(g, task, where)]
    goal = rng.choice(goals)
    link = next((i for a in task.asked for i in a.items), "")
    named = words(language, "item")
    item = named["link"].format(n=link) if link else named["screen"]
    order = rng.choice(orders[goal]).format(item=item)
    frame = rng.choice(cast("list[str]", words(language, f"{where}_frames")))
    marks: list[str] = words(language, "marks").get(goal) or viewers_of("test", language).forbidden.get(goal, [])
    forbidden = (*task.forbidden, *(undenied(m, language) for m in marks))
    return task.model_copy(update={"forbidden": tuple(dict.fromkeys(forbidden))}), frame.format(order=order)


def _fair(goal: str, task: Task, where: str) -> bool:
    """Whether an honest answer cannot hold what the goal forbids, and the harness leaves the order to the policy."""
    if goal == "free":
        return not _PRICED & {a.intent for a in task.asked}
    return goal != "hand_off" or where == "result"  # a chat that asks for a person is often handed over by a hook


def with_chat_injection(task: Task, rng: Random) -> Task:
    """Another viewer's message before or after the others, or a sentence at the end of one of them."""
    task, text = ordered(task, rng, where="chat")
    messages = list(task.request.messages)
    if rng.random() < 0.5:
        i = rng.randrange(len(messages))
        stop = "。" if task.world.language == "zh" else ". "
        messages[i] = replace(messages[i], text=f"{messages[i].text.rstrip('.。 ')}{stop}{text}")
    else:
        known = {m.viewer for m in messages}
        viewer = rng.choice([v for v in viewers_of("test", task.world.language).words["viewers"] if v not in known])
        first = messages[0]
        more = ChatMessage(
            id=f"{task.request.id}-injected", room=first.room, viewer=viewer, name=viewer, text=text,
            at=first.at, source=first.source,
        )  # fmt: skip
        # Which message asks what is told by its place, so the new one comes last, or the others move up.
        if rng.random() < 0.5:
            messages.append(more)
        else:
            messages.insert(0, more)
            asked = tuple(a.model_copy(update={"message": a.message + 1}) for a in task.asked)
            task = task.model_copy(update={"asked": asked})
    return task.model_copy(update={"request": replace(task.request, messages=tuple(messages))})
