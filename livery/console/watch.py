"""A bounded memory of what each room told lately, for pages that open late, and a wake-up for those open now.

Pages are redrawn from this memory at a bounded rate instead of once an event, so a flood of chat costs the
console no more than a trickle. The whole record is the journal's; this holds the latest few hundred values.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from livery.console.metrics import Metrics
from livery.room.broadcast import Subscription
from livery.room.events import EventKind, RoomEvent
from livery.room.journal import Journal
from livery.room.runtime import Room
from livery.types import ChatDeletion, ChatMessage, Fate, Trajectory

REQUESTS_KEPT = 300
MESSAGES_KEPT = 120
ARRIVALS_KEPT = 5000


class Panel(StrEnum):
    """A part of the operator's page that is redrawn on its own."""

    CONTROLS = "controls"
    FIGURES = "figures"
    REQUESTS = "requests"
    PENDING = "pending"
    CHAT = "chat"


def screened_out(event: RoomEvent) -> bool:
    """Whether a message's fate is that a request hook stopped it (advertising, abuse, an injection)."""
    return event.fate is Fate.DROPPED and event.fate_reason.startswith("silent: hook: dropped:")


@dataclass(slots=True)
class ChatLine:
    message: ChatMessage
    fate: Fate | None = None
    reason: str = ""
    removed: bool = False
    screened: bool = False
    """The harness's screening dropped it: the operator sees it, the stage no longer does."""
    """A moderator took it away, before or after its fate."""


class RoomWatch:
    """Follows one room. `run` is the task that listens; everything else is read by pages."""

    def __init__(self, name: str, room: Room, journal: Journal, metrics: Metrics) -> None:
        self.room = room
        self._name = name
        self._journal = journal
        self._metrics = metrics
        self.trajectories: OrderedDict[str, Trajectory] = OrderedDict()
        """By trajectory id, oldest first."""
        self.lines: OrderedDict[str, ChatLine] = OrderedDict()
        """By message id, oldest first."""
        self.begun: OrderedDict[str, RoomEvent] = OrderedDict()
        """Requests without a trajectory yet, by id, oldest first; some of them were given up."""
        self.hand_offs: deque[RoomEvent] = deque(maxlen=20)
        self.speaking: RoomEvent | None = None
        self.said: OrderedDict[str, str] = OrderedDict()
        """What was spoken, by request id: the reply, or the operator's words instead of it."""
        self.latencies: deque[tuple[float, float]] = deque(maxlen=2000)
        """(when a reply began to be spoken, seconds since its lead message arrived), as `RoomStats`
        counts."""
        self._arrivals: OrderedDict[str, float] = OrderedDict()
        self.versions = dict.fromkeys(Panel, 0)
        self._waiters: set[asyncio.Event] = set()

    async def run(self) -> None:
        """Takes what the journal and the room remember, then follows the room until cancelled."""
        with self.room.subscribe(recent=1_000_000) as events:
            for trajectory in reversed(await self._journal.trajectories(room=self._name, limit=REQUESTS_KEPT)):
                self._remember(trajectory)
            for happening in await self._journal.happenings(self._name, "spoken", REQUESTS_KEPT):
                self._hear(happening.request_id, happening.reply)
            async for event in events:
                self._take(event)

    def _take(self, event: RoomEvent) -> None:
        match event.kind:
            case EventKind.MESSAGE:
                assert event.message is not None
                self._arrivals[event.message.id] = event.at
                while len(self._arrivals) > ARRIVALS_KEPT:
                    self._arrivals.popitem(last=False)
                self.lines[event.message.id] = ChatLine(event.message)
                while len(self.lines) > MESSAGES_KEPT:
                    self.lines.popitem(last=False)
                self.touch(Panel.CHAT, Panel.FIGURES)
            case EventKind.FATE:
                for name in event.messages or ((event.message.id,) if event.message else ()):
                    if name in self.lines:
                        self.lines[name].fate = event.fate
                        self.lines[name].reason = event.fate_reason
                        self.lines[name].screened = screened_out(event)
                self.touch(Panel.CHAT, Panel.FIGURES)
            case EventKind.DELETION:
                assert event.deletion is not None
                for line in self.lines.values():
                    line.removed = line.removed or covers(event.deletion, line.message)
                self.touch(Panel.CHAT)
            case EventKind.THINKING:
                self.begun[event.request_id] = event
                while len(self.begun) > REQUESTS_KEPT:
                    self.begun.popitem(last=False)
                self.touch(Panel.CONTROLS, Panel.FIGURES, Panel.REQUESTS)
            case EventKind.HAND_OFF:
                self.hand_offs.append(event)
                self.touch(Panel.PENDING)
            case EventKind.TRAJECTORY:
                assert event.trajectory is not None
                self._remember(event.trajectory)
                self._metrics.count(event.room, event.trajectory)
                self.touch(Panel.REQUESTS, Panel.FIGURES, Panel.CONTROLS)
            case EventKind.PENDING:
                self.touch(Panel.PENDING, Panel.FIGURES)
            case EventKind.SPEAKING:
                self.speaking = event
                self._hear(event.request_id, event.text)
                if event.messages and event.messages[0] in self._arrivals:
                    self.latencies.append((event.at, event.at - self._arrivals[event.messages[0]]))
                self.touch(Panel.CONTROLS, Panel.PENDING, Panel.FIGURES, Panel.REQUESTS)
            case EventKind.SPOKEN:
                self.speaking = None
                self.touch(Panel.CONTROLS, Panel.PENDING)
            case EventKind.ITEM | EventKind.STATE:
                self.touch(Panel.CONTROLS, Panel.PENDING)
            case _:
                assert_never(event.kind)

    def _remember(self, trajectory: Trajectory) -> None:
        self.begun.pop(trajectory.request.id, None)
        self.trajectories[trajectory.id] = trajectory
        self.trajectories.move_to_end(trajectory.id)
        while len(self.trajectories) > REQUESTS_KEPT:
            self.trajectories.popitem(last=False)

    def _hear(self, request_id: str, text: str) -> None:
        self.said[request_id] = text
        self.said.move_to_end(request_id)
        while len(self.said) > REQUESTS_KEPT:
            self.said.popitem(last=False)

    def touch(self, *panels: Panel) -> None:
        """What ``panels`` show has changed."""
        for panel in panels:
            self.versions[panel] += 1
        for waiter in self._waiters:
            waiter.set()

    async def changes(
        self, closing: asyncio.Event, *, idle_s: float, rest_s: float
    ) -> AsyncGenerator[set[Panel], None]:
        """Sets of panels to redraw, all of them first; an empty set after ``idle_s`` without change.

        Args:
            closing: ends the iteration.
            rest_s: pause after each non-empty set; bounds the rate.
        """
        seen = dict.fromkeys(Panel, -1)
        waiter = asyncio.Event()
        self._waiters.add(waiter)
        try:
            while not closing.is_set():
                waiter.clear()
                changed = {p for p in Panel if self.versions[p] != seen[p]}
                seen = dict(self.versions)
                yield changed
                if changed:
                    await _either(closing, None, rest_s)
                if seen == self.versions:
                    await _either(closing, waiter, idle_s)
        finally:
            self._waiters.discard(waiter)


def covers(deletion: ChatDeletion, message: ChatMessage) -> bool:
    """Whether a moderator's deletion is of this message."""
    if deletion.everything:
        return True
    return message.id == deletion.message if deletion.message else message.viewer == deletion.viewer


async def _either(first: asyncio.Event, second: asyncio.Event | None, timeout_s: float) -> None:
    """Returns when one of the events is set or the time is up."""
    tasks = [asyncio.ensure_future(e.wait()) for e in (first, second) if e is not None]
    try:
        await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def follow(
    subscription: Subscription, closing: asyncio.Event, *, idle_s: float
) -> AsyncGenerator[RoomEvent | None, None]:
    """The subscription's events until ``closing``; None after each ``idle_s`` of silence (time for a ping).

    Closing the subscription is the caller's work.
    """
    stop = asyncio.ensure_future(closing.wait())
    following: asyncio.Future[RoomEvent] | None = None
    try:
        while True:
            if following is None:
                following = asyncio.ensure_future(anext(subscription))
            await asyncio.wait({stop, following}, timeout=idle_s, return_when=asyncio.FIRST_COMPLETED)
            if stop.done():
                return
            if not following.done():
                yield None
                continue
            try:
                event = following.result()
            except StopAsyncIteration:
                return
            following = None
            yield event
    finally:
        stop.cancel()
        if following is not None:
            following.cancel()
