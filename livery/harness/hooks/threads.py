"""Daemon threads for Python hooks, which may hang.

Not `concurrent.futures.ThreadPoolExecutor`: that one joins its threads at interpreter exit, so one hook that
never returns would keep the process from ending, and a hung worker would hold a place for good. Here a thread
is made whenever none is idle, up to `limit`, and one that hangs costs its own place only.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class HookThreads:
    """At most ``limit`` threads; more work than that waits in order."""

    def __init__(self, limit: int = 32) -> None:
        self.limit = limit
        self._condition = threading.Condition()
        self._waiting: deque[Callable[[], None]] = deque()
        self._idle = 0
        self._started = 0

    @property
    def started(self) -> int:
        """Threads alive, hung ones included."""
        return self._started

    def submit(self, work: Callable[[], None]) -> None:
        """Run ``work``, which must not raise, as soon as a thread is free."""
        with self._condition:
            self._waiting.append(work)
            if len(self._waiting) <= self._idle:
                self._condition.notify()
                return
            if self._started >= self.limit:
                return
            self._started += 1
        threading.Thread(target=self._serve, name=f"livery-hook-{self._started}", daemon=True).start()

    def _serve(self) -> None:
        while True:
            with self._condition:
                while not self._waiting:
                    self._idle += 1
                    self._condition.wait()
                    self._idle -= 1
                work = self._waiting.popleft()
            work()


SHARED_THREADS = HookThreads()
"""The process's own: releases come and go, and their hooks share these."""
