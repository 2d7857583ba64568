"""A room under virtual time, for tests: the clock, the messages, and rooms that restart on one journal."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from livery.room.events import EventKind, RoomEvent
from livery.room.journal import Journal
from livery.room.runtime import Room, RoomConfig, Subscription
from livery.types import ChatMessage, Effect, Request, Route, Trajectory


class VirtualTime:
    """A clock that moves only when a test says so."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._n = 0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> asyncio.Future[None]:
        """Counts from this call, not from when its task first runs: no advance falls between."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if seconds <= 0:
            woken.set_result(None)
        else:
            self._n += 1
            heapq.heappush(self._sleepers, (self.now + seconds, self._n, woken))
        return woken

    def advance(self, seconds: float) -> None:
        self.now += seconds
        while self._sleepers and self._sleepers[0][0] <= self.now:
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)


def chat(text: str, id: str, *, viewer: str = "", **fields: Any) -> ChatMessage:
    return ChatMessage(
        id=id, room="room", viewer=viewer or f"v-{id}", name=viewer or f"n-{id}", text=text, at=0.0, **fields
    )


def trajectory(
    request: Request,
    reply: str = "It is $19.99.",
    *,
    route: Route = Route.AGENT,
    reason: str = "passed every hook",
    effects: Sequence[Effect] = (),
) -> Trajectory:
    return Trajectory(
        id=f"t-{request.id}",
        request=request,
        harness="streamer-en",
        harness_release="sha256:0",
        policy="scripted:test",
        reply=reply,
        route=route,
        route_reason=reason,
        effects=tuple(effects),
        started_at=request.created_at,
        total_s=0.25,
    )


async def following(events: Subscription, kind: EventKind, **fields: Any) -> RoomEvent:
    """The next event of a kind, with these fields."""
    async with asyncio.timeout(20):
        async for event in events:
            if event.kind is kind and all(getattr(event, k) == v for k, v in fields.items()):
                return event
    raise AssertionError(f"the room closed before a {kind} event")


Answer = Callable[[Request], Awaitable[Trajectory]]


class Rooms:
    """Starts rooms on one journal file, and ends them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.time = VirtualTime()
        self.open: list[tuple[Room, Journal]] = []

    async def start(self, answer: Answer, config: RoomConfig | None = None, **options: Any) -> Room:
        journal = Journal(self.path, clock=self.time.clock)
        room = Room(
            config=config or RoomConfig(room="room"),
            answer=answer,
            journal=journal,
            clock=self.time.clock,
            sleep=self.time.sleep,
            **options,
        )
        self.open.append((room, journal))
        await room.start()
        return room

    async def close(self) -> None:
        while self.open:
            room, journal = self.open.pop()
            await room.stop()
            await journal.aclose()
