"""The agent as a running service: which release answers a request, made ready once and kept.

`AgentService.answer` is what a room calls. The release is picked when a request begins and kept until it
ends; publishing moves only what later requests pick.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from livery.agent.live_harness import LiveHarness
from livery.agent.loop import Agent
from livery.agent.mcp import McpTools
from livery.harness.digest import harness_digest
from livery.harness.model import Harness, McpServer, Tool
from livery.policies.policy import PromptMessage
from livery.shop.operations import Operation
from livery.types import Request, Trajectory


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
            keep: how many releases stay ready, least recently used leave first.
            on_trajectory: called with every finished trajectory (telemetry).
        """
        self.agent = agent
        self._pick = pick
        self._load = load
        self._keep = keep
        self._on_trajectory = on_trajectory
        self._ready: OrderedDict[str, LiveHarness] = OrderedDict()
        self._servers: dict[str, McpTools] = {}
        self._stack = AsyncExitStack()
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> AgentService:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def answer(
        self, request: Request, *, seed: int | None = None, info: Mapping[str, Any] | None = None
    ) -> Trajectory:
        """Answer under the release that room and viewer are given now.

        Raises:
            StoreError: there is no release for them.
        """
        picked = self._pick(request.room, request.messages[0].viewer)
        live = await self.ready(picked.release)
        trajectory = await self.agent.answer(request, live, channel=picked.channel, seed=seed, info=info)
        if self._on_trajectory is not None:
            self._on_trajectory(trajectory)
        return trajectory

    async def ready(self, release: str) -> LiveHarness:
        """The release made ready; the first time it is built and its MCP servers are started."""
        live = self._ready.get(release)
        if live is not None:
            self._ready.move_to_end(release)
            return live
        async with self._lock:
            if release not in self._ready:
                self._ready[release] = await self._build(release)
                while len(self._ready) > self._keep:
                    self._ready.popitem(last=False)
            return self._ready[release]

    async def warm(self, release: str, session: str = "") -> None:
        """Prefill the release's unchanging prefix in the policy's cache."""
        live = await self.ready(release)
        system = PromptMessage(role="system", content=live.prompt.system(self.agent.policy.actions))
        await self.agent.policy.warm((system,), session)

    async def _build(self, release: str) -> LiveHarness:
        harness = self._load(release)
        tools: list[Tool] = []
        operations: list[Operation] = []
        for server in harness.servers:
            connected = await self._connected(server)
            operations.extend(connected.operations())
            tools.extend(connected.tools())
        return LiveHarness(
            harness, release, self.agent.operations, extra_tools=tools, extra_operations=operations
        )

    async def _connected(self, server: McpServer) -> McpTools:
        key = server.model_dump_json()
        if key not in self._servers:
            self._servers[key] = await self._stack.enter_async_context(McpTools((server,)))
        return self._servers[key]
