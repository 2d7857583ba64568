"""Virtual time for tests of the benches: an event loop whose clock jumps to the next timer instead of waiting, and
policies that take known times by it.

While a thread still works for the loop (the journal's writer, `asyncio.to_thread`) time stands still, as it would for a
machine that is quick enough.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from livery.policies.instant import InstantPlay
from livery.policies.policy import PolicyRequest, PromptMessage
from livery.policies.scripted import ScriptedPolicy
from livery.room.journal import Journal
from livery.types import PolicyTurn, Timing, Usage

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):
    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        if self.loop.busy:
            return super().select(None)
        self.loop.now += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    now = 0.0
    busy = 0

    def __init__(self) -> None:
        selector = _Jumping()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now

    def wait_for(self, future: asyncio.Future[Any]) -> None:
        """Time stands still until it is done."""
        self.busy += 1
        future.add_done_callback(lambda _: setattr(self, "busy", self.busy - 1))

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        future = super().run_in_executor(executor, func, *args)
        self.wait_for(future)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        await super().shutdown_default_executor()


class PromptJournal(Journal):
    """A journal whose commits take no virtual time."""

    def _put(self, write: Any) -> asyncio.Future[bool]:
        done = super()._put(write)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.wait_for(done)
        return done


def virtually(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def now() -> float:
    return asyncio.get_running_loop().time()


class Slow:
    """Loads a skill and looks something up, looks something up, replies; each round takes its seconds."""

    uri = "test:slow"
    weights = "w1"
    actions = "native"

    def __init__(self, *, prefill_s: float = 0.5, decode_s: float = 1.0, slots: int = 99, reasoning: int = 0) -> None:
        self._play = ScriptedPolicy(InstantPlay(), uri=self.uri)
        self._slots = asyncio.Semaphore(slots)
        self.prefill_s, self.decode_s, self.reasoning = prefill_s, decode_s, reasoning
        self.warmed: list[str] = []

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        began = now()
        async with self._slots:
            queue_s = now() - began
            await asyncio.sleep(self.prefill_s)
            await asyncio.sleep(self.decode_s)
        turn = await self._play.act(request)
        thought = self.reasoning * (2 if turn.calls else 1)
        timing = Timing(
            total_s=now() - began, queue_s=queue_s, prefill_s=self.prefill_s, decode_s=self.decode_s
        )  # fmt: skip
        return PolicyTurn(
            calls=turn.calls,
            text=turn.text,
            stop=turn.stop,
            timing=timing,
            usage=Usage(prompt=100, cached=60, output=10 + thought, reasoning=thought),
        )

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> None:
        self.warmed.append(session)

    async def aclose(self) -> None: ...


class Stubborn(Slow):
    """Goes on when it is told to stop: no deadline can hold with it."""

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        end = now() + 25.0
        while now() < end:
            try:
                await asyncio.sleep(end - now())
            except asyncio.CancelledError:
                continue
        return await super().act(request)


class Leaky(Slow):
    """Keeps half a MiB of every round."""

    def __init__(self, **seconds: Any) -> None:
        super().__init__(**seconds)
        self.kept: list[bytes] = []

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        self.kept.append(b"x" * 2**19)
        return await super().act(request)
