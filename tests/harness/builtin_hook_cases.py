"""Contexts for the tests of the built-in hooks: a small harness, requests, results."""

from __future__ import annotations

from typing import Any

from livery.harness.hooks.builtin import BUILTINS
from livery.harness.hooks.decisions import Block, HookContext, HookFunction, Retry, Rewrite
from livery.harness.model import Binding, Harness, Section, Skill, Tool
from livery.types import (
    ChatMessage,
    ErrorKind,
    MessageKind,
    Request,
    RoomState,
    Route,
    ToolCall,
    ToolError,
    ToolResult,
)

NOW = 1_781_784_000.0  # 2026-06-18 12:00 UTC

PRICE_TOOL = Tool(
    key="quote",
    name="get_price",
    description="Price of an item",
    input_schema={
        "type": "object",
        "properties": {
            "link_id": {"type": "string", "minLength": 1},
            "quantity": {"type": "integer", "minimum": 1, "maximum": 99},
            "size": {"enum": ["S", "M", "L"]},
            "coupons": {"type": "array", "items": {"type": "string"}},
            "extra": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["link_id"],
        "additionalProperties": False,
    },
    binding=Binding(operation="price.quote"),
)
REPLY_SKILL = Skill(key="item_qa", name="item-questions", description="Answer item questions", body="...", kind="reply")
STRATEGY_SKILL = Skill(key="push", name="flash-push", description="Push a sale", body="...")


def harness(language: str = "en") -> Harness:
    return Harness(
        name="test",
        language=language,
        sections=(Section(key="base", template="Be a host."),),
        skills=(REPLY_SKILL, STRATEGY_SKILL),
        tools=(PRICE_TOOL,),
    )


HARNESSES = {language: harness(language) for language in ("en", "zh")}


def message(text: str, number: int = 1, kind: MessageKind = MessageKind.CHAT) -> ChatMessage:
    return ChatMessage(id=f"m{number}", room="r", viewer=f"v{number}", text=text, at=NOW, kind=kind)


def request(*texts: str, language: str = "en", id: str = "q1") -> Request:
    return Request(
        id=id,
        messages=tuple(message(t, i) for i, t in enumerate(texts or ("hi",), 1)),
        state=RoomState(room="r", language=language, now=NOW),
        created_at=NOW,
    )


def result(value: Any = None, text: str = "", arguments: dict[str, Any] | None = None, ok: bool = True) -> ToolResult:
    return ToolResult(
        call=ToolCall(id="c", name="get_price", arguments={}),
        key="quote",
        operation="price.quote",
        arguments=arguments or {},
        value=value if ok else None,
        text=text,
        error=None if ok else ToolError(kind=ErrorKind.TIMEOUT, message="timed out"),
    )


def context(
    *results: ToolResult,
    asked: str | tuple[str, ...] = "hi",
    evidence: tuple[str, ...] = (),
    language: str = "en",
    attempt: int = 0,
    skills: tuple[Skill, ...] = (),
    route: Route = Route.AGENT,
    tool: Tool | None = None,
    id: str = "q1",
) -> HookContext:
    texts = (asked,) if isinstance(asked, str) else asked
    return HookContext(
        harness=HARNESSES[language],
        request=request(*texts, language=language, id=id),
        params={},
        attempt=attempt,
        results=tuple(results),
        skills=skills,
        evidence=evidence,
        route=route,
        tool=tool,
    )


def make(name: str, tag: str = "en", /, **params: Any) -> HookFunction:
    """The function of a built-in with these params, for a harness in language ``tag``."""
    builtin = BUILTINS[name]
    return builtin.build(builtin.params.model_validate(params), tag)


def verdict(decision: object) -> str:
    match decision:
        case Retry():
            return "retry"
        case Block():
            return "block"
        case Rewrite():
            return "rewrite"
        case _:
            return "allow"
