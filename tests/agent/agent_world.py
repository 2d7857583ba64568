"""A small harness and a scripted policy for the agent's tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from livery.harness.model import Binding, Harness, Hook, Limits, Section, Skill, SkillFile, Tool
from livery.policies.policy import PolicyRequest, PromptMessage
from livery.types import PolicyTurn, ToolCall

NOW = 1_790_000_000.0


class Script:
    """A policy that plays turns in order and keeps what it was shown. An exception in the script is raised."""

    uri = "test:script"
    weights = "w1"
    actions = "text"

    def __init__(self, turns: Sequence[PolicyTurn | BaseException]) -> None:
        self.turns = list(turns)
        self.seen: list[PolicyRequest] = []

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        self.seen.append(request)
        turn = self.turns[len(self.seen) - 1]
        if isinstance(turn, BaseException):
            raise turn
        return turn

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> None: ...

    async def aclose(self) -> None: ...


def calls(*named: tuple[str, dict[str, Any]]) -> PolicyTurn:
    made = tuple(ToolCall(id=f"c{i}", name=name, arguments=arguments) for i, (name, arguments) in enumerate(named))
    return PolicyTurn(calls=made, stop="calls")


def says(text: str) -> PolicyTurn:
    return PolicyTurn(text=text)


LOAD = ("load_skill", {"name": "price"})


def tool(name: str, operation: str, properties: dict[str, Any], required: Sequence[str] = (), **fields: Any) -> Tool:
    return Tool(
        key=name,
        name=name,
        description=f"does {operation}",
        input_schema={"type": "object", "properties": properties, "required": list(required)},
        binding=Binding(operation=operation),
        **fields,
    )


def skill(name: str, kind: str = "reply", **fields: Any) -> Skill:
    return Skill(key=name, name=name, description=f"for {name}", body=f"How to {name}.", kind=kind, **fields)


def harness(**changes: Any) -> Harness:
    text = {"type": "string"}
    fields: dict[str, Any] = {
        "name": "test",
        "sections": (
            Section(key="rules", template="Rules. {{ skills_catalogue }}\n{{ tools }}"),
            Section(key="room", volatility="room", template="On screen: {{ item.name if item else 'none' }}"),
            Section(key="chat", volatility="request", template="{{ chat }}"),
        ),
        "skills": (
            skill("price"),
            skill("chain", "strategy", files=(SkillFile(path="notes.md", content="Deep notes."),)),
        ),
        "tools": (
            tool("quote", "pricing.quote", {"link_id": text}, ["link_id"]),
            tool("get", "catalog.get_product", {"link_id": text}),
            tool("staff", "room.hand_off", {"reason": text}, ["reason"]),
        ),
        "limits": Limits(rounds=4, retries=1, deadline_s=5, tool_calls=4),
    }
    return Harness.model_validate({**fields, **changes})


def python_hook(key: str, checkpoint: str, source: str, **fields: Any) -> Hook:
    return Hook(
        **{
            "key": key,
            "checkpoint": checkpoint,
            "kind": "python",
            "source": source,
            "on_failure": "block",
            **fields,
        }
    )
