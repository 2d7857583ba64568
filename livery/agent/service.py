"""The agent as a running service: which release answers a request, made ready once and kept.

`AgentService.answer` is what a room calls. The release is picked when a request begins and kept until it
ends; publishing moves only what later requests pick. So it is with tools of MCP servers: when a server's
tools change, later requests get the release made ready anew, and those that run keep what they began with.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from livery.agent.live_harness import LiveHarness
from livery.agent.loop import Agent
from livery.agent.mcp import McpTools
from livery.harness.digest import harness_digest
from livery.harness.model import Harness, McpServer, Tool
from livery.harness.releases import PrefixCost
from livery.policies.policy import PromptMessage, Tokenizing, Warmed
from livery.shop.operations import Operation
from livery.types import Request, Trajectory

log = logging.getLogger(__name__)


class Picked(Protocol):
    @property
    def release(self) -> str: ...

    @property
    def channel(self) -> str: ...


@dataclass(frozen=True, slots=True)
class _OneRelease:
    release: str
    channel: str


class Fixed:
    """One harness for everybody: ``pick`` and ``load`` for replays, simulations and tests."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.release = harness_digest(harness)
        self._picked = _OneRelease(self.release, "")

    def pick(self, room: str, viewer: str) -> Picked:
        return self._picked

    def load(self, release: str) -> Harness:
        return self.harness


@dataclass(frozen=True, slots=True)
class _Ready:
    """A release made ready, and what it was made of."""

    live: LiveHarness
    servers: tuple[tuple[str, McpTools, int], ...]
    """(key, server, the version of its tools that is built in)."""

    @property
    def current(self) -> bool:
        return all(tools.version == version for _, tools, version in self.servers)


class AgentService:
    """Joins an `Agent` with releases. Use as an async context manager."""

    def __init__(
        self,
        agent: Agent,
        *,
        pick: Callable[[str, str], Picked],
        load: Callable[[str], Harness],
        keep: int = 8,
        on_trajectory: Callable[[Trajectory], None] | None = None,
    ) -> None:
        """
        Args:
            pick: (room, viewer) -> release and channel, as things stand now
                (`livery.harness.channels.Router.pick`).
            load: release -> harness (`livery.harness.store.ReleaseStore.load`).
            keep: how many releases stay ready, least recently used leave first. An MCP server is closed when
                no release that is ready, and no request that runs, has it.
            on_trajectory: called with every finished trajectory (telemetry).
        """
        self.agent = agent
        self._pick = pick
        self._load = load
        self._keep = keep
        self._on_trajectory = on_trajectory
        self._ready: OrderedDict[str, _Ready] = OrderedDict()
        self._servers: dict[str, McpTools] = {}
        self._in_use: Counter[str] = Counter()
        """Server key -> running requests that may call it."""
        self._closing: set[asyncio.Task[None]] = set()
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> AgentService:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ready.clear()
        self._in_use.clear()
        self._close_unused()
        await asyncio.gather(*self._closing)

    async def answer(
        self, request: Request, *, seed: int | None = None, info: Mapping[str, Any] | None = None
    ) -> Trajectory:
        """Answer under the release that room and viewer are given now.

        Raises:
            StoreError: there is no release for them.
        """
        picked = self._pick(request.room, request.messages[0].viewer)
        ready = await self._made_ready(picked.release)
        if not ready.servers:
            trajectory = await self._answer(request, ready.live, picked.channel, seed, info)
        else:
            keys = [key for key, _, _ in ready.servers]
            self._in_use.update(keys)
            try:
                trajectory = await self._answer(request, ready.live, picked.channel, seed, info)
            finally:
                self._in_use.subtract(keys)
                self._close_unused()
        return trajectory

    async def _answer(
        self,
        request: Request,
        live: LiveHarness,
        channel: str,
        seed: int | None,
        info: Mapping[str, Any] | None,
    ) -> Trajectory:
        trajectory = await self.agent.answer(request, live, channel=channel, seed=seed, info=info)
        if self._on_trajectory is not None:
            self._on_trajectory(trajectory)
        return trajectory

    async def ready(self, release: str) -> LiveHarness:
        """The release made ready: built the first time, which starts its MCP servers, and again when the
        tools of one of them changed."""
        return (await self._made_ready(release)).live

    async def warm(self, release: str, session: str = "") -> Warmed | None:
        """Prefill the release's unchanging prefix in the policy's cache."""
        return await self.agent.policy.warm(await self._prefix(release), session)

    async def prepare(
        self, release: str, *, instead_of: str = "", sessions: Sequence[str] = (), limit_s: float = 8.0
    ) -> PrefixCost:
        """Have a release's prefix in the cache before requests get the release, and tell what that costs.

        It never raises for the policy's or the release's sake, and never takes much longer than ``limit_s``: whoever
        publishes goes on either way, and what is missing then is paid for by the first request.

        Args:
            instead_of: the release that these requests had until now; empty: none.
            sessions: the rooms whose requests will get it; none: only the tokens are counted.
        """
        began = time.perf_counter()
        policy = self.agent.policy
        tokens = shared = rooms = evaluated = 0
        prefill_s, note = 0.0, ""
        try:
            async with asyncio.timeout(limit_s):
                prefix = await self._prefix(release)
                if isinstance(policy, Tokenizing):
                    ids = await asyncio.to_thread(policy.prefix_ids, prefix)
                    tokens = len(ids)
                    if instead_of:
                        before = await asyncio.to_thread(policy.prefix_ids, await self._prefix(instead_of))
                        shared = shared_beginning(ids, before)
                for session in sessions:
                    warmed = await policy.warm(prefix, session)
                    if warmed is None:
                        continue  # it has no cache, or does not tell
                    rooms += 1
                    tokens = tokens or warmed.tokens
                    evaluated += warmed.tokens - warmed.cached
                    prefill_s += warmed.prefill_s
        except TimeoutError:
            note = f"not in the cache of every room after {limit_s:g} s: the first requests pay for the rest"
        except Exception as error:  # whatever it is, the publication goes on, and the requests will tell
            note = f"could not be read ahead: {type(error).__name__}: {error}"
        cost = PrefixCost(
            tokens=tokens,
            shared=shared,
            rooms=rooms,
            evaluated=evaluated,
            prefill_s=prefill_s,
            waited_s=time.perf_counter() - began,
            note=note,
        )
        log.info("release %s: %s", release, cost)
        return cost

    async def _prefix(self, release: str) -> tuple[PromptMessage, ...]:
        live = await self.ready(release)
        return (PromptMessage(role="system", content=live.prompt.system(self.agent.policy.actions)),)

    async def _made_ready(self, release: str) -> _Ready:
        ready = self._ready.get(release)
        if ready is not None and ready.current:
            self._ready.move_to_end(release)
            return ready
        async with self._lock:
            ready = self._ready.get(release)
            if ready is None or not ready.current:
                ready = self._ready[release] = await self._build(release)
            self._ready.move_to_end(release)
            while len(self._ready) > self._keep:
                self._ready.popitem(last=False)
            self._close_unused()
            return ready

    async def _build(self, release: str) -> _Ready:
        harness = self._load(release)
        wanted = {server.model_dump_json(): server for server in harness.servers}
        self._in_use.update(list(wanted))
        try:
            connected = [(key, await self._connected(key, server)) for key, server in wanted.items()]
        finally:
            self._in_use.subtract(list(wanted))
        tools: list[Tool] = []
        operations: list[Operation] = []
        servers: list[tuple[str, McpTools, int]] = []
        names = {t.name for t in harness.tools}
        bound = {t.binding.operation for t in harness.tools}
        for key, server in connected:
            servers.append((key, server, server.version))
            operations.extend(server.operations())
            # A tool to which the harness gives a surface of its own is not shown twice.
            shown = [t for t in server.tools(names) if t.binding.operation not in bound]
            names.update(t.name for t in shown)
            tools.extend(shown)
        live = LiveHarness(harness, release, self.agent.operations, extra_tools=tools, extra_operations=operations)
        return _Ready(live, tuple(servers))

    async def _connected(self, key: str, server: McpServer) -> McpTools:
        if key not in self._servers:
            # Kept before it has started: a request that is cancelled meanwhile leaves it to the next one.
            self._servers[key] = McpTools((server,))
            await self._servers[key].__aenter__()
        return self._servers[key]

    def _close_unused(self) -> None:
        wanted = {key for ready in self._ready.values() for key, _, _ in ready.servers}
        wanted |= {key for key, requests in self._in_use.items() if requests > 0}
        for key in [k for k in self._servers if k not in wanted]:
            task = asyncio.create_task(self._servers.pop(key).__aexit__(None, None, None))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def shared_beginning(one: Sequence[object], other: Sequence[object]) -> int:
    """How many leading elements two prefixes share."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))
