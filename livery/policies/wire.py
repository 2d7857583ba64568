"""The text form of actions and conversations: how a turn is written, read back and framed as ChatML.

One turn is optional reasoning, then either calls or the plain reply (the Hermes form that Qwen's templates
use)::

    <think>
    ...
    </think>

    <tool_call>
    {"name": "product_info", "arguments": {"link": 3}}
    </tool_call>

A conversation is ChatML, rendered message by message: a message's text does not depend on its neighbours, so
the rendering of a longer conversation begins with the rendering of a shorter one, and an engine may append.
This module does no sampling and knows no tokenizer; grammars for this form are `livery.policies.grammar`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from livery.policies.policy import PromptMessage
from livery.types import ToolCall

START = "<|im_start|>"
END = "<|im_end|>"

MALFORMED = "_malformed"
"""Sole argument of a call that could not be read; its value is what the policy wrote. Such a call goes back
to the policy as an argument error, so that it can write it anew."""

_MARKS = re.compile(r"<(?=\||/?(?:tool_call|tool_response|think)\b)")
_CALL = re.compile(r"\s*<tool_call>\s*")
_CALL_END = re.compile(r"\s*</tool_call>")
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedTurn:
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    reply: str = ""
    """Empty when there are calls."""
    malformed: str = ""
    """What could not be read, in words for the policy; empty when all was well."""

    def whole(self) -> ParsedTurn:
        """This turn without the call that the token limit cut in two."""
        if not self.malformed or not self.calls:
            return self
        kept = tuple(call for call in self.calls if malformed_text(call) is None)
        return replace(self, calls=kept, malformed="" if kept else self.malformed)

    def stop(self, *, cut: bool) -> Literal["calls", "reply", "length", "malformed"]:
        """Why the turn ended, ``cut`` telling that the token limit did it."""
        if cut and (self.malformed or not self.calls):
            return "length"
        if self.malformed:
            return "malformed"
        return "calls" if self.calls else "reply"


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a rendered conversation. Only ``control`` text may become special tokens."""

    text: str
    control: bool = False


def malformed_text(call: ToolCall) -> str | None:
    """What the policy wrote in place of a readable call; None for a call that was read."""
    return str(call.arguments[MALFORMED]) if set(call.arguments) == {MALFORMED} else None


def neutral(text: str) -> str:
    """``text`` with every mark of this format made harmless: chat can neither end a turn nor forge a
    result."""
    return _MARKS.sub("‹", text)


def parse_turn(text: str, *, first_call: int = 0) -> ParsedTurn:
    """Read one turn. Never raises: whatever cannot be read is named in ``malformed``.

    Args:
        text: what the policy wrote, possibly cut off, without ChatML marks.
        first_call: number of the first call, so that ids stay unique in a conversation ("call_0", ...).
    """
    reasoning, rest, fault = _split_reasoning(text.replace(END, ""))
    calls: list[ToolCall] = []
    beside: list[str] = []
    position = 0
    while (found := rest.find("<tool_call>", position)) >= 0:
        beside.append(rest[position:found])
        call, position, why = _read_call(rest, found, f"call_{first_call + len(calls)}")
        calls.append(call)
        fault = fault or why
    beside.append(rest[position:])
    said = "".join(beside).strip()
    if not calls:
        return ParsedTurn(reasoning=reasoning, reply=said, malformed=fault)
    # Words beside calls are not a reply: nobody checked them, so they stay with the reasoning.
    if said:
        reasoning = f"{reasoning}\n{said}".strip()
    return ParsedTurn(reasoning=reasoning, calls=tuple(calls), malformed=fault)


def _split_reasoning(text: str) -> tuple[str, str, str]:
    """(reasoning, what follows it, fault)."""
    body = text.lstrip()
    opened = body.startswith("<think>")
    if opened:
        body = body[len("<think>") :]
    # Some templates open the reasoning in the prompt, so that only its end is written.
    before, closed, after = body.partition("</think>")
    if closed and (opened or "<tool_call>" not in before):
        return before.strip(), after, ""
    if opened:
        return body.strip(), "", "the reasoning was not closed with </think>"
    return "", text, ""


def _read_call(text: str, start: int, call_id: str) -> tuple[ToolCall, int, str]:
    """The call whose mark stands at ``start``, where reading goes on, and the fault."""
    opening = _CALL.match(text, start)
    assert opening is not None
    try:
        value, end = json.JSONDecoder().raw_decode(text, opening.end())
    except (json.JSONDecodeError, RecursionError) as error:
        reason = f"the tool call is not valid JSON ({error})"
    else:
        closing = _CALL_END.match(text, end)
        fields: dict[str, Any] = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        name, arguments = fields.get("name"), fields.get("arguments", {})
        if not isinstance(name, str) or not name:
            reason = 'a tool call is {"name": ..., "arguments": {...}}; "name" is missing'
        elif not isinstance(arguments, dict):
            reason = f'"arguments" of {name} must be an object'
        else:
            read = ToolCall(id=call_id, name=name, arguments=cast("dict[str, Any]", arguments))
            return read, closing.end() if closing else end, ""
    stop = text.find("</tool_call>", opening.end())
    raw = text[opening.end() : stop if stop >= 0 else len(text)].strip()
    named = _NAME.search(raw)
    broken = ToolCall(id=call_id, name=named[1] if named else "", arguments={MALFORMED: raw})
    return broken, stop + len("</tool_call>") if stop >= 0 else len(text), reason


def write_turn(*, reasoning: str = "", calls: Iterable[ToolCall] = (), reply: str = "") -> str:
    """The inverse of `parse_turn`."""
    thought = f"<think>\n{reasoning}\n</think>\n\n" if reasoning else ""
    blocks = [f"<tool_call>\n{_call_json(call)}\n</tool_call>" for call in calls]
    return thought + ("\n".join(blocks) if blocks else reply)


def _call_json(call: ToolCall) -> str:
    raw = malformed_text(call)
    if raw is not None:
        return raw
    return json.dumps({"name": call.name, "arguments": dict(call.arguments)}, ensure_ascii=False)


def write_result(text: str) -> str:
    return f"<tool_response>\n{neutral(text)}\n</tool_response>"


def message_text(message: PromptMessage) -> tuple[str, str]:
    """(ChatML role, content) of one message. Tool results are user turns: small models' templates know no
    other."""
    match message.role:
        case "assistant":
            written = write_turn(reasoning=message.reasoning, calls=message.calls, reply=message.content)
            return "assistant", written
        case "tool":
            return "user", write_result(message.content)
        case "user":
            return "user", neutral(message.content)
        case "system":
            return "system", message.content


def segments(messages: Iterable[PromptMessage], *, generate: bool = False) -> tuple[Segment, ...]:
    """The conversation as ChatML. ``generate`` adds the opening of the assistant's turn.

    ``segments(a) + segments(b) == segments(a + b)`` for any split.
    """
    out: list[Segment] = []
    for message in messages:
        role, content = message_text(message)
        out += [Segment(START, True), Segment(f"{role}\n{content}"), Segment(END, True), Segment("\n")]
    if generate:
        out += [Segment(START, True), Segment("assistant\n")]
    return tuple(out)


def chat_text(messages: Iterable[PromptMessage], *, generate: bool = False) -> str:
    """`segments` as one string."""
    return "".join(segment.text for segment in segments(messages, generate=generate))


def calls_so_far(messages: Sequence[PromptMessage]) -> int:
    return sum(len(message.calls) for message in messages)
