"""A GBNF grammar from the tools of the moment: what is sampled under it always reads as a turn.

GBNF is llama.cpp's grammar notation; vLLM (xgrammar) reads it too. A call names one of the tools given, and
its arguments follow that tool's JSON Schema (2020-12) with properties in the schema's order: types, enum,
const, nested objects and arrays, required and optional properties, integer bounds, string lengths, patterns
(the regular part), anyOf/oneOf, local ``$ref``. What is not regular or is rare (``not``, ``multipleOf``,
``allOf`` of many, bounds of fractions) widens to the plain type: the agent checks arguments in full anyway.
``<`` appears neither in replies nor bare in JSON strings, so no mark of the chat format can be written inside
one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from livery.policies.pattern import pattern_rule
from livery.policies.policy import ToolSurface

STRING_CHARS = 64
"""Longest free string in arguments: a small model that loses its way must come to an end."""
ITEMS = 8
"""Most elements of an array without ``maxItems``."""
DIGITS = 12

_BASE = r"""char ::= [^"\\<\x00-\x1F\x7F] | "\\" ( ["\\/bfnrt] | "u" [0-9a-fA-F]{4} )
string ::= "\"" char{0,STRING_CHARS} "\""
integer ::= "0" | "-"? [1-9] [0-9]{0,11}
number ::= "-"? ( "0" | [1-9] [0-9]{0,11} ) ( "." [0-9]{1,6} )?
positive ::= ( "0" | [1-9] [0-9]{0,11} ) ( "." [0-9]{1,6} )?
boolean ::= "true" | "false"
null ::= "null"
scalar ::= string | number | boolean | null
inner-object ::= "{" ( string ": " scalar ( ", " string ": " scalar ){0,7} )? "}"
inner-array ::= "[" ( scalar ( ", " scalar ){0,7} )? "]"
value ::= scalar | inner-object | inner-array
object ::= "{" ( string ": " value ( ", " string ": " value ){0,7} )? "}"
array ::= "[" ( value ( ", " value ){0,7} )? "]"
"""


def grammar(
    tools: Sequence[ToolSurface],
    *,
    allow_calls: bool = True,
    allow_reply: bool = True,
    reasoning: bool = False,
    parallel_calls: int = 4,
    reply_chars: int = 400,
    reasoning_chars: int = 1200,
    string_chars: int = STRING_CHARS,
) -> str:
    """GBNF for one turn in the form of `livery.policies.wire`.

    Cached per tool set: building costs a millisecond or so, and a room asks again every round.

    Args:
        tools: names must be unique; only these can be called.
        allow_calls: False makes a reply the only way on (so does an empty ``tools``).
        allow_reply: False makes a call the only way on, if there are tools to call.
        reasoning: whether ``<think>`` may come first.
        parallel_calls: most calls in one turn.
        reply_chars: longest reply.
        reasoning_chars: longest reasoning.
        string_chars: longest free string in arguments.
    """
    surfaces = tuple((t.name, json.dumps(t.input_schema, ensure_ascii=False)) for t in tools)
    return _grammar(
        surfaces,
        allow_calls,
        allow_reply,
        reasoning,
        max(1, parallel_calls),
        reply_chars,
        reasoning_chars,
        string_chars,
    )


@lru_cache(maxsize=256)
def _grammar(
    surfaces: tuple[tuple[str, str], ...],
    allow_calls: bool,
    allow_reply: bool,
    reasoning: bool,
    parallel_calls: int,
    reply_chars: int,
    reasoning_chars: int,
    string_chars: int,
) -> str:
    calling = allow_calls and bool(surfaces)
    replying = allow_reply or not calling
    rules = _Rules(string_chars)
    ways: list[str] = []
    if calling:
        ways.append("calls")
        names = [rules.add(f"tool-{i}", _call(rules, *surface)) for i, surface in enumerate(surfaces)]
        more = f'( "\\n" call ){{0,{parallel_calls - 1}}}' if parallel_calls > 1 else ""
        rules.add("calls", f"call {more}")
        rules.add("call", f'"<tool_call>\\n" ( {" | ".join(names)} ) "\\n</tool_call>"')
    if replying:
        ways.append("reply")
        rules.add("reply", rf"[^<\x00-\x20\x7F] [^<\x00-\x09\x0B-\x1F\x7F]{{0,{max(0, reply_chars - 1)}}}")
    base = _BASE.replace("STRING_CHARS", str(string_chars))
    think = ""
    if reasoning:
        think = "think? "
        body = rf"[^<\x00-\x09\x0B-\x1F\x7F]{{1,{reasoning_chars}}}"
        rules.add("think", rf'"<think>\n" {body} "\n</think>\n\n"')
    return f"root ::= {think}( {' | '.join(ways)} )\n{rules.text()}{base if calling else ''}"


def _call(rules: _Rules, name: str, schema_text: str) -> str:
    schema = json.loads(schema_text)
    head = '{"name": ' + _json(name) + ', "arguments": '
    return f'{quoted(head)} {_Schema(rules, schema).arguments()} "}}"'


def quoted(text: str) -> str:
    """``text`` as a GBNF literal."""
    escaped = "".join(_escape(c) for c in text)
    return f'"{escaped}"'


def _escape(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char == "\n":
        return "\\n"
    return f"\\x{ord(char):02X}" if ord(char) < 0x20 else char


def _json(value: Any) -> str:
    """JSON text that may stand in a grammar: ``<`` only as an escape."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c").replace("\x7f", "\\u007f")


class _Rules:
    """Named rules, in order; equal bodies share one name."""

    def __init__(self, string_chars: int) -> None:
        self.string_chars = string_chars
        self._bodies: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def add(self, name: str, body: str) -> str:
        self._bodies[name] = body
        return name

    def named(self, body: str) -> str:
        """The rule with this body."""
        if body not in self._names:
            self._names[body] = self.add(f"r{len(self._names)}", body)
        return self._names[body]

    def reserved(self) -> str:
        """A name whose body comes later."""
        return self.add(f"d{len(self._bodies)}", '""')

    def text(self) -> str:
        return "".join(f"{name} ::= {body}\n" for name, body in self._bodies.items())


class _Schema:
    """One tool's JSON Schema as rules."""

    def __init__(self, rules: _Rules, root: Mapping[str, Any]) -> None:
        self._rules = rules
        self._root = root
        self._references: dict[str, str] = {}

    def arguments(self) -> str:
        """The arguments themselves: an object whatever the schema says, empty when it declares nothing."""
        if not self._root.get("properties") and "$ref" not in self._root:
            return '"{}"' if self._root.get("additionalProperties") is False or not self._root else "object"
        return self._value({"type": "object", **self._root})

    def _value(self, schema: Any) -> str:
        if schema is True or schema == {}:
            return "value"
        if not isinstance(schema, Mapping):
            return "null"  # ``false`` allows nothing; a grammar needs something to end with
        node = cast("Mapping[str, Any]", schema)
        if "$ref" in node:
            return self._reference(str(node["$ref"]))
        if "const" in node:
            return quoted(_json(node["const"]))
        if node.get("enum"):
            return self._rules.named(" | ".join(quoted(_json(v)) for v in node["enum"]))
        for key in ("anyOf", "oneOf"):
            if node.get(key):
                return self._any(node[key], node)
        if len(node.get("allOf", ())) == 1:
            return self._value({**{k: v for k, v in node.items() if k != "allOf"}, **node["allOf"][0]})
        kind = node.get("type") or ("object" if "properties" in node else "array" if "items" in node else None)
        if isinstance(kind, list):
            return self._any([{"type": k} for k in cast("list[str]", kind)], node)
        match kind:
            case "string":
                return self._string(node)
            case "integer":
                return self._rules.named(integer_rule(*_integer_bounds(node)))
            case "number":
                return "positive" if _low(node) >= 0 else "number"
            case "boolean" | "null":
                return kind
            case "array":
                return self._array(node)
            case "object":
                return self._object(node)
            case _:
                return "value"

    def _any(self, ways: Sequence[Any], node: Mapping[str, Any]) -> str:
        """Alternatives; what stands beside ``anyOf`` holds for each of them."""
        shared = {k: v for k, v in node.items() if k not in ("anyOf", "oneOf", "type", "description", "title")}
        bodies = [self._value({**shared, **w} if isinstance(w, Mapping) else w) for w in ways]
        return self._rules.named(" | ".join(dict.fromkeys(bodies)))

    def _reference(self, reference: str) -> str:
        if reference not in self._references:
            target: Any = self._root
            for part in reference.removeprefix("#").strip("/").split("/"):
                step = part.replace("~1", "/").replace("~0", "~")
                target = target.get(step) if part and isinstance(target, Mapping) else target  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            if not reference.startswith("#") or target is None:
                return "value"
            name = self._rules.reserved()
            self._references[reference] = name  # before its body: definitions may be recursive
            self._rules.add(name, self._value(target))
        return self._references[reference]

    def _string(self, node: Mapping[str, Any]) -> str:
        if isinstance(node.get("pattern"), str):
            rule = pattern_rule(node["pattern"])
            if rule is not None:
                return self._rules.named(f'"\\"" {rule} "\\""')
        longest = self._rules.string_chars
        low, high = int(node.get("minLength", 0)), int(node.get("maxLength", longest))
        high = max(low, min(high, longest))
        if high == 0:
            return quoted('""')
        return "string" if (low, high) == (0, longest) else self._rules.named(f'"\\"" char{{{low},{high}}} "\\""')

    def _array(self, node: Mapping[str, Any]) -> str:
        low = int(node.get("minItems", 0))
        high = max(low, min(int(node.get("maxItems", ITEMS)), max(low, ITEMS)))
        if high == 0:
            return '"[]"'
        item = self._value(node.get("items", True))
        rest = item if high == 1 else f'{item} ( ", " {item} ){{{max(0, low - 1)},{high - 1}}}'
        return self._rules.named(f'"[" {rest} "]"' if low else f'"[" ( {rest} )? "]"')

    def _object(self, node: Mapping[str, Any]) -> str:
        properties: Mapping[str, Any] = node.get("properties", {})
        if not properties:
            return '"{}"' if node.get("additionalProperties") is False else "inner-object"
        required = set(node.get("required", ()))
        members = [
            (f"{quoted(_json(name) + ': ')} {self._value(sub)}", name in required) for name, sub in properties.items()
        ]
        return self._rules.named(f'"{{" {self._members(members)} "}}"')

    def _members(self, members: Sequence[tuple[str, bool]]) -> str:
        """Members in order, commas between those that are there.

        ``after[i]`` is what may follow once something was written, ``first`` what may be when nothing was
        yet.
        """
        after, first = "", ""
        for body, needed in reversed(members):
            opening = f"{body} {after}".strip()
            skipped = f"( {opening} | {first} )" if first else f"( {opening} )?"
            first = opening if needed else skipped
            follow = f'", " {body}' if needed else f'( ", " {body} )?'
            after = self._rules.named(f"{follow} {after}".strip())
        return first


def _low(node: Mapping[str, Any]) -> float:
    return max(float(node.get("minimum", float("-inf"))), float(node.get("exclusiveMinimum", float("-inf"))))


def _integer_bounds(node: Mapping[str, Any]) -> tuple[int, int]:
    limit = 10**DIGITS - 1
    low, high = -limit, limit
    if "minimum" in node:
        low = -int(-node["minimum"] // 1)  # ceiling
    if "exclusiveMinimum" in node:
        low = max(low, int(node["exclusiveMinimum"] // 1) + 1)
    if "maximum" in node:
        high = int(node["maximum"] // 1)
    if "exclusiveMaximum" in node:
        high = min(high, -int(-node["exclusiveMaximum"] // 1) - 1)
    return low, max(low, high)


def integer_rule(low: int, high: int) -> str:
    """A rule body for the integers in [low, high], written in decimal without leading zeros."""
    ways: list[str] = []
    if low < 0:
        below = _digit_ranges(max(1, -min(high, -1)), -low)
        ways.append(f'"-" ( {" | ".join(below)} )')
    if high >= 0:
        ways += _digit_ranges(max(0, low), high)
    return " | ".join(ways)


def _digit_ranges(low: int, high: int) -> list[str]:
    """Non-negative integers in [low, high], by length and then by common leading digits."""
    out: list[str] = []
    for length in range(len(str(low)), len(str(high)) + 1):
        least = max(low, 10 ** (length - 1) if length > 1 else 0)
        out.append(_same_length(str(least), str(min(high, 10**length - 1))))
    return out


def _same_length(low: str, high: str) -> str:
    if not low:
        return '""'
    rest = len(low) - 1
    if set(low[1:]) <= {"0"} and set(high[1:]) <= {"9"}:
        span = f"[{low[0]}-{high[0]}]" if low[0] != high[0] else f'"{low[0]}"'
        return f"{span} [0-9]{{{rest}}}" if rest else span
    if low[0] == high[0]:
        return f'"{low[0]}" ( {_same_length(low[1:], high[1:])} )'
    ways = [f'"{low[0]}" ( {_same_length(low[1:], "9" * rest)} )']
    first, last = int(low[0]) + 1, int(high[0]) - 1
    if first <= last:
        ways.append(f"[{first}-{last}] [0-9]{{{rest}}}")
    ways.append(f'"{high[0]}" ( {_same_length("0" * rest, high[1:])} )')
    return " | ".join(ways)
