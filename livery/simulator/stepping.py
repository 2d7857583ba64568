"""A rollout that waits for its actions from outside: one step at a time, for environments of other libraries.

The loop stays `livery.agent`: its policy here is a stand-in that hands each request out and waits for the turn. So what
a step means (tools, hooks, feedback, limits, the end) is what it means in a room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from livery.agent.live_harness import LiveHarness
from livery.harness.model import Harness
from livery.policies.policy import PolicyRequest, PromptMessage
from livery.simulator.rollout import live_of, rollout
from livery.simulator.task import Scores, Task
from livery.types import PolicyTurn, Trajectory

WEIGHTS: Mapping[str, float] = {
    "accuracy": 0.4, "effectiveness": 0.3, "tool_rationality": 0.15, "skill_selection": 0.15,
}  # fmt: skip
"""Of the four scores in one reward, where a library takes only one."""


def reward_of(scores: Scores) -> float:
    """The four scores as one number, 0-1."""
    return sum(weight * float(getattr(scores, name)) for name, weight in WEIGHTS.items())


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of an episode."""

    trajectory: Trajectory
    scores: Scores

    @property
    def reward(self) -> float:
        return reward_of(self.scores)


class Episode:
    """One task under one harness, stepped from outside within one event loop.

    >>> episode = Episode(task, harness)           # doctest: +SKIP
    >>> step = await episode.start()               # what a policy would be asked: messages and tools
    >>> while not isinstance(step, Ended):
    ...     step = await episode.act(turn_for(step))
    """

    def __init__(
        self,
        task: Task,
        harness: Harness | LiveHarness,
        *,
        actions: Literal["text", "native"] = "native",
        seed: int = 0,
    ) -> None:
        """
        Args:
            actions: ``text``: tools and call format stand in the prompt; ``native``: they are only in ``tools``.
        """
        self.task = task
        self.live = live_of(harness, patience_s=86_400.0)
        self._seed = seed
        self._policy = _Outside(actions)
        self._run: asyncio.Task[tuple[Trajectory, Scores]] | None = None

    async def start(self) -> PolicyRequest | Ended:
        """The first request; or the end, where the harness's checks let no policy act at all.

        Raises:
            RuntimeError: it was started before.
        """
        if self._run is not None:
            raise RuntimeError("the episode was started already; make another")
        self._run = asyncio.ensure_future(rollout(self.task, self.live, self._policy, seed=self._seed))
        return await self._next()

    async def act(self, turn: PolicyTurn) -> PolicyRequest | Ended:
        """Take a turn; the next request, or the end.

        Raises:
            RuntimeError: nothing is waiting for a turn: it was not started, or it has ended.
        """
        if self._run is None or self._run.done() or self._policy.asked is None:
            raise RuntimeError("no turn is awaited: start the episode first, and stop at its end")
        asked = self._policy.asked
        self._policy.asked = None
        asked.set_result(turn)
        return await self._next()

    async def close(self) -> None:
        """Stop it; nothing of an unfinished episode is kept."""
        if self._run is not None and not self._run.done():
            self._run.cancel()
            await asyncio.gather(self._run, return_exceptions=True)

    async def _next(self) -> PolicyRequest | Ended:
        assert self._run is not None
        waiting = asyncio.ensure_future(self._policy.requests.get())
        await asyncio.wait({self._run, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        waiting.cancel()
        return Ended(*self._run.result())


class _Outside:
    """The policy's place, filled from outside."""

    uri = "outside"
    weights = "outside"

    def __init__(self, actions: Literal["text", "native"]) -> None:
        self.actions: Literal["text", "native"] = actions
        self.requests: asyncio.Queue[PolicyRequest] = asyncio.Queue()
        self.asked: asyncio.Future[PolicyTurn] | None = None

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        self.asked = asyncio.get_running_loop().create_future()
        self.requests.put_nowait(request)
        return await self.asked

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> None:
        """Nothing to prefill."""

    async def aclose(self) -> None:
        """Nothing to close."""


def openai_tools(request: PolicyRequest) -> list[dict[str, Any]]:
    """The request's tools as the OpenAI protocol has them."""
    return [
        {
            "type": "function",
            "function": {"name": t.name, "description": t.description, "parameters": dict(t.input_schema)},
        }
        for t in request.tools
    ]
