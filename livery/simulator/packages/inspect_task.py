# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUntypedFunctionDecorator=false
"""An inspect-ai task: ``inspect eval livery/livery_host -T harness=harnesses/streamer-en --model openai/...``.

The solver is livery's agent over whichever model inspect is run with; the scorer is the verifier. Needs ``inspect-ai``;
the entry point ``inspect_ai`` of the package registers it.
"""

from __future__ import annotations

from typing import Any, Literal

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    GenerateConfig,
    Model,
    ModelOutput,
    get_model,
)
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolCall as InspectCall
from inspect_ai.tool import ToolInfo, ToolParams

from livery.policies.policy import PolicyRequest, PromptMessage
from livery.simulator.packages.setting import Setting
from livery.simulator.rollout import rollout
from livery.simulator.stepping import reward_of
from livery.simulator.task import Task as HostTask
from livery.types import PolicyTurn, ToolCall

_SCORES = ("accuracy", "effectiveness", "tool_rationality", "skill_selection")


@task
def livery_host(
    harness: str,
    count: int = 100,
    split: Literal["train", "test"] = "test",
    variants: Literal["none", "train", "heldout"] = "none",
    seed: int = 0,
) -> Task:
    """Live-stream questions in simulated shops, answered under a harness.

    Args:
        harness: folder of the harness.
        variants: play each task under a variant of its own, of this split.
        seed: of the first world.
    """
    setting = Setting(harness, split, seed, variants)
    samples = [
        Sample(id=t.id, input=t.request.text, metadata={"task": t.model_dump(mode="json", by_alias=True), "place": i})
        for i, t in enumerate(setting.tasks(count))
    ]
    return Task(dataset=MemoryDataset(samples, name="livery"), solver=host(setting), scorer=verified())


@solver
def host(setting: Setting) -> Solver:
    """The agent's loop, with the evaluated model as its policy."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        played = HostTask.model_validate(state.metadata["task"])
        policy = InspectPolicy(get_model())
        trajectory, scores = await rollout(played, setting.harness_for(int(state.metadata["place"])), policy)
        state.messages = [*policy.messages, ChatMessageAssistant(content=trajectory.reply)]
        state.output = ModelOutput.from_content(model=str(state.model), content=trajectory.reply)
        state.metadata["scores"] = scores.model_dump(mode="json")
        state.completed = True
        return state

    return solve


@scorer(metrics={"*": [mean(), stderr()]})
def verified() -> Scorer:
    """The verifier's four scores and their weighted sum."""

    async def score(state: TaskState, target: Target) -> Score:
        found: dict[str, Any] = state.metadata["scores"]
        from livery.simulator.task import Scores

        value = {name: float(found[name]) for name in _SCORES}
        return Score(
            value={**value, "reward": reward_of(Scores.model_validate(found))},
            answer=state.output.completion,
            explanation="; ".join(found["reasons"]),
        )

    return score


class InspectPolicy:
    """A policy over one of inspect's models, with its native function calling."""

    actions: Literal["native"] = "native"

    def __init__(self, model: Model) -> None:
        self._model = model
        self.messages: list[ChatMessage] = []
        """What the model was shown last."""

    @property
    def uri(self) -> str:
        return f"inspect:{self._model}"

    @property
    def weights(self) -> str:
        return str(self._model)

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        """One generation."""
        self.messages = [_message(m) for m in request.messages]
        tools = [
            ToolInfo(
                name=t.name,
                description=t.description or t.name,
                parameters=ToolParams.model_validate(_object(t.input_schema)),
            )
            for t in request.tools
        ]
        output = await self._model.generate(
            self.messages,
            tools=tools if request.allow_calls else [],
            config=GenerateConfig(max_tokens=request.max_tokens, seed=request.seed),
        )
        said = output.message
        made = said.tool_calls or []
        calls = tuple(ToolCall(id=c.id, name=c.function, arguments=c.arguments) for c in made)
        cut = output.stop_reason == "max_tokens" and not calls
        return PolicyTurn(
            calls=calls, text="" if calls else said.text, stop="calls" if calls else "length" if cut else "reply"
        )

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> None:
        """Nothing to prefill."""

    async def aclose(self) -> None:
        """Inspect owns the model."""


def _object(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": schema.get("properties", {}), "required": list(schema.get("required", ()))}


def _message(message: PromptMessage) -> ChatMessage:
    match message.role:
        case "system":
            return ChatMessageSystem(content=message.content)
        case "user":
            return ChatMessageUser(content=message.content)
        case "tool":
            return ChatMessageTool(content=message.content, tool_call_id=message.call_id, function=message.name)
        case _:
            calls = [InspectCall(id=c.id, function=c.name, arguments=dict(c.arguments)) for c in message.calls]
            return ChatMessageAssistant(content=message.content, tool_calls=calls or None)
