"""One room's events to any number of watchers, none of whom can hold it up.

A watcher who falls behind loses the oldest events and sees a gap in ``seq``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Self

from livery.room.events import RoomEvent


class Subscription(AsyncIterator[RoomEvent]):
    """One watcher's events: an async iterator that ends when either side closes it.

    Use it inside ``with``, or call `close`; an open one keeps collecting.
    """

    def __init__(self, broadcast: Broadcast, first: Iterable[RoomEvent], limit: int) -> None:
        self._broadcast = broadcast
        self._events: deque[RoomEvent] = deque(first, maxlen=limit)
        self._more = asyncio.Event()
        self._closed = False

    def put(self, event: RoomEvent) -> None:
        self._events.append(event)
        self._more.set()

    async def __anext__(self) -> RoomEvent:
        while not self._events:
            if self._closed:
                raise StopAsyncIteration
            self._more.clear()
            await self._more.wait()
        return self._events.popleft()

    def close(self) -> None:
        """What was collected can still be read."""
        self._closed = True
        self._broadcast.leave(self)
        self._more.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Broadcast:
    def __init__(self, *, recent: int, per_subscriber: int) -> None:
        self._recent: deque[RoomEvent] = deque(maxlen=recent)
        self._per_subscriber = per_subscriber
        self._watchers: set[Subscription] = set()
        self.seq = 0
        """Of the latest event."""

    def publish(self, event: RoomEvent) -> None:
        """``event.seq`` must be ``seq + 1``."""
        self.seq = event.seq
        self._recent.append(event)
        for watcher in self._watchers:
            watcher.put(event)

    def subscribe(self, *, recent: int = 0) -> Subscription:
        """From now on; up to ``recent`` earlier events come first."""
        subscription = Subscription(self, self.recent(recent), self._per_subscriber)
        self._watchers.add(subscription)
        return subscription

    def leave(self, subscription: Subscription) -> None:
        self._watchers.discard(subscription)

    def recent(self, n: int) -> tuple[RoomEvent, ...]:
        """The latest ``n``, oldest first."""
        return tuple(self._recent)[-n:] if n > 0 else ()

    def close(self) -> None:
        for watcher in list(self._watchers):
            watcher.close()
