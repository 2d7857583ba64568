"""The promise under load: at twice what a room can answer, nobody waits past the deadline.

A viewer's wait ends with the message's fate: the reply begins, or it is settled that none comes. Two deadlines are held
to, each with a little grace for the machine's own hiccups: the harness's, from a request's start to its reply of
whatever route, and the room's, from a message's arrival to its fate. The chat is an open loop: messages come at random
moments (uniform over the span, which is a Poisson stream given its number), whether or not earlier ones are answered.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from livery.errors import InputError
from livery.evaluation.latency_figures import quantiles
from livery.evaluation.load_room import Answer, LoadedRoom, Sustained, Wait
from livery.harness.model import Harness
from livery.room.contract import RoomConfig
from livery.types import Fate, Route

SCHEMA: Final = "livery.load/1"
SPAN: Final = 6
"""Room deadlines that a load lasts where nothing is said: the queue is then full for most of it."""
LEAST: Final = 30
"""Messages of a load, at least."""
_REASONS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is sent, and what is promised."""

    sustained: Sustained
    times: float
    messages: int
    span_s: float
    deadline_s: float
    """From a message's arrival to its fate."""
    agent_deadline_s: float
    """From a request's start to its end."""
    grace_s: float

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.span_s


def plan(
    sustained: Sustained, config: RoomConfig, harness: Harness, *, times: float, limit: int, grace_s: float
) -> Plan:
    """
    Args:
        times: of the sustained rate.
        limit: messages; 0: as many as come in `SPAN` deadlines of the room.

    Raises:
        InputError: nothing would be sent.
    """
    rate = sustained.messages_per_s * times
    if not (rate > 0 and math.isfinite(rate)):
        raise InputError.at("--rate", f"found {sustained.messages_per_s:g} messages a second times {times:g}")
    messages = limit or max(LEAST, round(rate * SPAN * config.reply_deadline_s))
    return Plan(
        sustained=sustained,
        times=times,
        messages=messages,
        span_s=messages / rate,
        deadline_s=config.reply_deadline_s,
        agent_deadline_s=harness.limits.deadline_s,
        grace_s=grace_s,
    )


@dataclass(slots=True)
class Heard:
    """What a load's room told: give its lists' ``append`` to `livery.evaluation.load_room.loaded_room`."""

    waits: list[Wait] = field(default_factory=list[Wait])
    answers: list[Answer] = field(default_factory=list[Answer])
    synthesis: list[float] = field(default_factory=list[float])
    queued: int = 0
    """Most requests that waited at a time."""


async def load(
    loaded: LoadedRoom,
    planned: Plan,
    heard: Heard,
    *,
    seed: int = 0,
    progress: Callable[[int], None] = lambda said: None,
) -> dict[str, Any]:
    """Send the plan's messages into the room, wait for every fate, and reckon.

    Returns:
        The figures for JSON; ``kept`` tells whether the promise held.
    """
    rng = Random(f"load/{seed}")
    offsets = sorted(rng.uniform(0.0, planned.span_s) for _ in range(planned.messages))

    def said(count: int) -> None:
        heard.queued = max(heard.queued, loaded.room.stats().waiting_requests)
        progress(count)

    await loaded.say_at(offsets, said)
    # Twice over, so that who is late is told by how much.
    await loaded.settle(2 * (planned.deadline_s + planned.grace_s))
    return _figures(planned, loaded, heard)


def _figures(planned: Plan, loaded: LoadedRoom, heard: Heard) -> dict[str, Any]:
    waits, answers, grace = heard.waits, heard.answers, planned.grace_s
    late = [w for w in waits if w.seconds > planned.deadline_s + grace]
    slow = [a for a in answers if a.total_s > planned.agent_deadline_s + grace]
    without = len(loaded.open)
    fates = Counter(w.fate for w in waits)
    routes = Counter(a.route for a in answers)
    answered = [w for w in waits if w.fate is Fate.ANSWERED]
    reasons = Counter(_shape(w.reason) for w in waits if w.fate not in (Fate.ANSWERED, Fate.MERGED))
    return {
        "kept": not (late or slow or without),
        "late_messages": len(late),
        "late_requests": len(slow),
        "without_fate": without,
        "deadline_s": planned.deadline_s,
        "agent_deadline_s": planned.agent_deadline_s,
        "grace_s": grace,
        "sustained": {
            "requests_per_s": round(planned.sustained.requests_per_s, 4),
            "messages_per_s": round(planned.sustained.messages_per_s, 4),
        },
        "times": planned.times,
        "offered_per_s": round(planned.rate, 4),
        "span_s": round(planned.span_s, 2),
        "messages": len(waits) + without,
        "refused": loaded.refused,
        "requests": len(answers),
        "most_waiting": heard.queued,
        "fates": {f.value: fates[f] for f in Fate},
        "fate_shares": _shares({f.value: fates[f] for f in Fate}),
        "routes": {r.value: routes[r] for r in Route},
        "route_shares": _shares({r.value: routes[r] for r in Route}),
        "wait": quantiles((w.seconds for w in waits), most=True),
        "answered_wait": quantiles((w.seconds for w in answered), most=True),
        "queue": quantiles((w.begun_at - w.said_at for w in answered if w.begun_at), most=True),
        "agent": quantiles((a.total_s for a in answers), most=True),
        "synthesis": quantiles(heard.synthesis, most=True),
        "unanswered_because": dict(reasons.most_common(_REASONS)),
    }


def _shape(reason: str) -> str:
    """A reason without what differs from one message to the next."""
    return ": ".join(reason.split(": ")[:2])[:80]


def _shares(counts: dict[str, int]) -> dict[str, float]:
    total = sum(counts.values())
    return {name: round(n / total, 4) if total else 0.0 for name, n in counts.items()}


def bounded(config: RoomConfig, deadline_s: float) -> RoomConfig:
    """The room with another deadline from a message to its reply; 0 leaves it. Who has waited so long is not begun."""
    if not deadline_s:
        return config
    intake = config.intake.model_copy(update={"max_age_s": min(config.intake.max_age_s, deadline_s)})
    return config.model_copy(update={"reply_deadline_s": deadline_s, "intake": intake})
