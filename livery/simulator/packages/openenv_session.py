# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedBaseClass=false, reportUnknownParameterType=false
"""An OpenEnv environment: one task a session, with the tools that this session's harness shows.

Every ``reset`` draws a task and its harness, so that names, schemas and prompts differ between sessions and even
between episodes; what may be called stands in each observation. A step is one turn of the policy: calls, or a reply.
Needs ``openenv-core``.

    setting = Setting("harnesses/streamer-en", variants="train")
    app = create_app(lambda: LiverySession(setting), HostAction, HostObservation)
"""

from __future__ import annotations

from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, Field

from livery.policies.policy import PolicyRequest
from livery.simulator.packages.setting import Setting
from livery.simulator.stepping import Ended, Episode, openai_tools
from livery.types import PolicyTurn, ToolCall


class HostCall(BaseModel):
    """One tool call, by the names of this session."""

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class HostAction(Action):
    """A turn: calls, or the reply."""

    calls: list[HostCall] = Field(default_factory=list)
    text: str = ""


class HostObservation(Observation):
    """What the policy is shown, and at the end what it earned."""

    messages: list[dict[str, Any]] = Field(default_factory=list)
    """The whole conversation so far, in the OpenAI form."""
    tools: list[dict[str, Any]] = Field(default_factory=list)
    """This session's tools, in the OpenAI form."""
    allow_calls: bool = True
    allow_reply: bool = True
    scores: dict[str, float] = Field(default_factory=dict)
    reasons: list[str] = Field(default_factory=list)


class LiverySession(Environment[HostAction, HostObservation, State]):
    """One session. Asynchronous only: the server of OpenEnv and its clients use it so."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self._setting = setting
        self._episode: Episode | None = None
        self._state = State(episode_id=None, step_count=0)
        self._calls = 0

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> HostObservation:
        """Begin the task at place ``seed`` (0 where none is given)."""
        if self._episode is not None:
            await self._episode.close()
        place = seed or 0
        task = self._setting.tasks(place + 1)[place]
        self._episode = Episode(task, self._setting.harness_for(place))
        self._state = State(episode_id=episode_id or task.id, step_count=0)
        self._calls = 0
        return self._seen(await self._episode.start())

    async def step_async(self, action: HostAction, timeout_s: float | None = None, **_: Any) -> HostObservation:
        """Take one turn.

        Raises:
            RuntimeError: before a reset, or after the end.
        """
        if self._episode is None:
            raise RuntimeError("reset the session before its first step")
        calls = tuple(
            ToolCall(id=f"call_{self._calls + i}", name=c.name, arguments=c.arguments)
            for i, c in enumerate(action.calls)
        )
        self._calls += len(calls)
        self._state.step_count += 1
        turn = PolicyTurn(calls=calls, text="" if calls else action.text, stop="calls" if calls else "reply")
        return self._seen(await self._episode.act(turn))

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> HostObservation:
        """Not offered: a session lives in one event loop."""
        raise NotImplementedError("use reset_async")

    def step(self, action: HostAction, timeout_s: float | None = None, **kwargs: Any) -> HostObservation:
        """Not offered: a session lives in one event loop."""
        raise NotImplementedError("use step_async")

    @property
    def state(self) -> State:
        return self._state

    @staticmethod
    def _seen(step: PolicyRequest | Ended) -> HostObservation:
        if isinstance(step, Ended):
            scores = step.scores.model_dump(exclude={"reasons"})
            return HostObservation(done=True, reward=step.reward, scores=scores, reasons=list(step.scores.reasons))
        return HostObservation(
            messages=openai_messages(step),
            tools=openai_tools(step),
            allow_calls=step.allow_calls,
            allow_reply=step.allow_reply,
        )


def openai_messages(request: PolicyRequest) -> list[dict[str, Any]]:
    """The conversation as plain messages of the OpenAI protocol."""
    found: list[dict[str, Any]] = []
    for message in request.messages:
        made: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.calls:
            made["tool_calls"] = [{"id": c.id, "name": c.name, "arguments": dict(c.arguments)} for c in message.calls]
        if message.role == "tool":
            made["tool_call_id"] = message.call_id
        found.append(made)
    return found
