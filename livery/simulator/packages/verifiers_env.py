# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUntypedBaseClass=false, reportUntypedFunctionDecorator=false, reportUnknownParameterType=false
"""A verifiers environment (its ``v1`` interface): the simulator's tasks, livery's agent, the verifier's rewards.

    vf-eval livery-verifiers --env.taskset.harness harnesses/streamer-en -m MODEL

The taskset brings its own program: the agent's loop, in this process, whose model calls go to the endpoint that the
library hands over, so that its traces hold every turn. Needs ``verifiers``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import openai
import verifiers.v1 as vf
from verifiers.v1.runtimes import ProgramResult

from livery.policies.policy import PolicyRequest, PromptMessage
from livery.simulator.packages.setting import Setting
from livery.simulator.rollout import live_of, rollout
from livery.simulator.stepping import WEIGHTS, openai_tools
from livery.simulator.task import Task as HostTask
from livery.types import PolicyTurn, ToolCall

__all__ = ["LiveryHarness", "LiveryTaskset"]

_SCORES = "livery_scores"


class LiveryTasksetConfig(vf.TasksetConfig):
    harness: str = "harnesses/streamer-en"
    """Folder of the base harness."""
    count: int = 100
    split: Literal["train", "test"] = "train"
    seed: int = 0
    variants: Literal["none", "train", "heldout"] = "none"


class LiveryData(vf.TaskData):
    task: dict[str, Any]
    place: int
    setting: dict[str, Any]


class LiveryTask(vf.Task[LiveryData]):
    """One request in a simulated room. Each of the verifier's scores is a reward of its own, weighted."""

    @vf.reward(weight=WEIGHTS["accuracy"])
    async def accuracy(self, trace: vf.Trace) -> float:
        return _earned(trace, "accuracy")

    @vf.reward(weight=WEIGHTS["effectiveness"])
    async def effectiveness(self, trace: vf.Trace) -> float:
        return _earned(trace, "effectiveness")

    @vf.reward(weight=WEIGHTS["tool_rationality"])
    async def tool_rationality(self, trace: vf.Trace) -> float:
        return _earned(trace, "tool_rationality")

    @vf.reward(weight=WEIGHTS["skill_selection"])
    async def skill_selection(self, trace: vf.Trace) -> float:
        return _earned(trace, "skill_selection")


def _earned(trace: vf.Trace, name: str) -> float:
    return float(trace.info.get(_SCORES, {}).get(name, 0.0))


class LiveryTaskset(vf.Taskset[LiveryTask, LiveryTasksetConfig]):
    """Tasks as the simulator makes them."""

    def load(self) -> Iterator[LiveryTask]:
        config = self.config
        told = {"harness": config.harness, "split": config.split, "seed": config.seed, "variants": config.variants}
        for place, task in enumerate(Setting(**told).tasks(config.count)):
            data = LiveryData(
                id=task.id, name=task.id, prompt=task.request.text, task=task.model_dump(mode="json", by_alias=True),
                place=place, setting=told,
            )  # fmt: skip
            yield LiveryTask(data, config.task)


class LiveryHarnessConfig(vf.HarnessConfig):
    pass


class LiveryHarness(vf.Harness[LiveryHarnessConfig]):
    """The agent's loop as the program that a rollout runs."""

    EXECUTES_CODE: ClassVar[bool] = False
    NEEDS_CONTAINER: ClassVar[bool] = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: LiveryData,
        tool_interception_url: str | None = None,
    ) -> ProgramResult:
        """Play the task; its scores stand in the trace's ``info``."""
        setting = Setting(**data.setting)
        client = openai.AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0)
        try:
            policy = _Intercepted(client, ctx.model)
            live = live_of(setting.harness_for(data.place), patience_s=3_600.0)
            trajectory, scores = await rollout(HostTask.model_validate(data.task), live, policy)
        finally:
            await client.close()
        trace.info[_SCORES] = scores.model_dump(mode="json")
        return ProgramResult(exit_code=0, stdout=trajectory.reply, stderr="")


class _Intercepted:
    """A policy over the endpoint that the library listens at."""

    actions: Literal["native"] = "native"

    def __init__(self, client: openai.AsyncOpenAI, model: str) -> None:
        self._client = client
        self._model = model

    @property
    def uri(self) -> str:
        return f"verifiers:{self._model}"

    @property
    def weights(self) -> str:
        return self._model

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        """One chat completion."""
        tools = openai_tools(request)
        said = await self._client.chat.completions.create(  # pyright: ignore[reportCallIssue]
            model=self._model,
            messages=[_wire(m) for m in request.messages],  # pyright: ignore[reportArgumentType]
            max_tokens=request.max_tokens,
            **({"tools": tools} if tools and request.allow_calls else {}),  # pyright: ignore[reportArgumentType]
        )
        choice = said.choices[0]
        calls: list[ToolCall] = []
        for call in choice.message.tool_calls or ():
            function: Any = getattr(call, "function", None)
            try:
                arguments = json.loads(function.arguments or "{}")
            except ValueError:
                return PolicyTurn(stop="malformed")
            calls.append(ToolCall(id=call.id, name=function.name, arguments=arguments))
        if calls:
            return PolicyTurn(calls=tuple(calls), stop="calls")
        return PolicyTurn(
            text=choice.message.content or "", stop="length" if choice.finish_reason == "length" else "reply"
        )

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> None:
        """Nothing to prefill."""

    async def aclose(self) -> None:
        """The client is closed by whoever made it."""


def _wire(message: PromptMessage) -> dict[str, Any]:
    made: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        made["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": json.dumps(dict(c.arguments))}}
            for c in message.calls
        ]
    if message.role == "tool":
        made["tool_call_id"] = message.call_id
    return made
