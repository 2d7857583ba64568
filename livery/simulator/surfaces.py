"""A harness's tools read backwards: from an operation and its arguments to the call that a policy would write.

The inverse of `livery.agent.binding`: names, nesting, labels, conversions and the forms that a schema demands
("No.3", "3", 3) are written as the tool wants them, required arguments that nobody asked for are filled from the
schema, and every call is put through the binding itself before it is used: what does not come back as it went in
is no call.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from jinja2 import TemplateError

from livery.agent.binding import BindingError, bind
from livery.agent.formatting import format_result
from livery.agent.prompt import compiled
from livery.harness.lint_tools import LOAD_SKILL, RUNTIME_OPERATIONS
from livery.harness.model import ArgumentMap, Harness, Tool
from livery.shop.registry import shop_operations
from livery.types import JSON

_SHOP: Final = shop_operations()
_MISSING: Final = object()
_DIGITS: Final = re.compile(r"\d+(?:\.\d+)?")
_NUMBER_IN_PATTERN: Final = re.compile(r"(?:\\d|\[0-9\])(?:[+*]|\{[^}]*\})?")
_ESCAPED: Final = re.compile(r"\\(.)")
_PAGES: Final = re.compile(r"""(?<![A-Za-z])pages["']?\s*(?:[:=>]|is|are)?\s*["']?(\d+)""")
_ERROR: Final = re.compile(r'\{"error":|<error[\s>]|error \(')
NEUTRAL: Final[Mapping[str, JSON]] = {
    "quantity": 1, "member": False, "limit": 3, "page": 1, "coupons": [], "variant": "", "link_id": "",
}  # fmt: skip
"""Operation parameter -> the value that asks for nothing, where a tool makes one required."""


@dataclass(frozen=True, slots=True)
class Written:
    """A call as a policy writes it."""

    tool: str
    arguments: Mapping[str, Any]


class Surfaces:
    """One harness's tools by operation."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self._by_operation: dict[str, list[Tool]] = {}
        for tool in harness.tools:
            if not _says_nothing(tool):
                self._by_operation.setdefault(tool.binding.operation, []).append(tool)
        self._named = {t.name: t for t in harness.tools}
        self._calls: dict[tuple[str, str], Written | None] = {}
        self._empty: dict[str, tuple[str, ...]] = {}

    def operation(self, tool: str) -> str:
        """What a tool runs; "" for none of this harness."""
        if tool in self._named:
            return self._named[tool].binding.operation
        return LOAD_SKILL if tool == LOAD_SKILL.rpartition(".")[2] else ""

    def offers(self, operation: str) -> bool:
        return operation in self._by_operation

    def call(self, operation: str, arguments: Mapping[str, JSON]) -> Written | None:
        """The call that runs ``operation`` with just these arguments; None where no tool can say it."""
        key = (operation, repr(sorted(arguments.items())))
        if key not in self._calls:
            found = (_inverted(t, arguments) for t in self._by_operation.get(operation, ()))
            self._calls[key] = next((w for w in found if w is not None), None)
        return self._calls[key]

    def load(self, skill: str) -> Written:
        """The call that loads a skill by its shown name."""
        written = self.call(LOAD_SKILL, {"name": skill})
        return written or Written(LOAD_SKILL.rpartition(".")[2], {"name": skill})

    def next_page(self, call: Written, text: str) -> Written | None:
        """The same call for the page after, where the result says that there is one."""
        tool = self._named.get(call.tool)
        said = _PAGES.search(text)
        if tool is None or not tool.result.page_size or said is None:
            return None
        source = next((m.source for m in tool.binding.arguments if m.to == "page"), "")
        if not source:
            return None
        page = int(str(call.arguments.get(source, 1)) or 1) + 1
        if page > int(said.group(1)):
            return None
        kind = _schema_at(tool.input_schema, source).get("type")
        return Written(call.tool, {**call.arguments, source: str(page) if kind == "string" else page})

    def failed(self, call: Written, text: str) -> bool:
        """Whether a result, as it is shown, is an error or has nothing in it."""
        if _ERROR.match(text):
            return True
        if call.tool not in self._empty:
            tool = self._named.get(call.tool)
            if tool is None or tool.binding.operation in RUNTIME_OPERATIONS:
                self._empty[call.tool] = ()
            else:
                nothing: tuple[JSON, ...] = ({}, {"results": []})
                self._empty[call.tool] = tuple(t for value in nothing if (t := _shown(value, tool)) is not None)
        return text in self._empty[call.tool]


_CACHE: OrderedDict[int, Surfaces] = OrderedDict()
_KEPT: Final = 256


def surfaces_of(harness: Harness) -> Surfaces:
    """The surfaces of a harness, made once; the latest ones are kept."""
    held = _CACHE.get(id(harness))
    if held is None or held.harness is not harness:
        held = _CACHE[id(harness)] = Surfaces(harness)
        while len(_CACHE) > _KEPT:
            _CACHE.popitem(last=False)
    return held


def _shown(value: JSON, tool: Tool) -> str | None:
    """A result as the tool shows it; None where its template cannot, which the agent tells as an error."""
    template = compiled(tool.result.template) if tool.result.template else None
    try:
        return format_result(value, tool.result, template)
    except TemplateError:
        return None


def _says_nothing(tool: Tool) -> bool:
    """A tool whose answer is always the same is no way to its operation."""
    return tool.result.style == "prose" and bool(tool.result.template) and "{" not in tool.result.template


def _inverted(tool: Tool, wanted: Mapping[str, JSON]) -> Written | None:
    entries = {m.to: m for m in tool.binding.arguments}
    schema = tool.input_schema
    out: dict[str, Any] = {}
    for name, value in wanted.items():
        entry = entries.get(name)
        if entry is not None and (entry.constant is not None or not entry.source):
            fixed = entry.constant if entry.constant is not None else entry.default
            if not _equal(fixed, value):
                return None
            continue
        path = entry.source if entry else name
        written = _written(value, entry, _schema_at(schema, path))
        if written is _MISSING:
            return None
        _put(out, path, written, schema)
    _fill_required(schema, out, tool, "")
    name = tool.binding.operation
    operation = _SHOP.get(name)
    parameters: Mapping[str, Any] = RUNTIME_OPERATIONS.get(name) or (operation.parameters if operation else {})
    try:
        bound = bind(tool.binding, out, parameters)
    except BindingError:
        return None
    told = {k: v for k, v in bound.items() if k in wanted or not _asks_nothing(k, v, entries.get(k))}
    if set(told) != set(wanted) or not all(_equal(told[k], v) for k, v in wanted.items()):
        return None
    return Written(tool.name, out)


def _asks_nothing(name: str, value: Any, entry: ArgumentMap | None) -> bool:
    """Whether an argument that nobody asked for is the binding's own, or the parameter's least meaning."""
    own = None if entry is None else entry.constant if entry.constant is not None else entry.default
    return (own is not None and _equal(value, own)) or (name in NEUTRAL and _equal(value, NEUTRAL[name]))


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        first, second = cast("list[Any]", a), cast("list[Any]", b)
        return len(first) == len(second) and all(_equal(x, y) for x, y in zip(first, second, strict=True))
    return a == b or (a is not None and b is not None and f"{a}" == f"{b}")


# -------------------------------------------------------------------------------------- schemas


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        at: Any = root
        for part in str(schema["$ref"]).removeprefix("#/").split("/"):
            at = at[part]
        schema = {**at, **{k: v for k, v in schema.items() if k != "$ref"}}
    for key in ("anyOf", "oneOf"):
        options = cast("Sequence[Mapping[str, Any]]", schema.get(key, ()))
        usable = [o for o in options if o.get("type") != "null"]
        if usable:
            return _resolved(usable[0], root)
    return schema


def _schema_at(root: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = root.get("properties", {})
    if path in properties:
        return _resolved(properties[path], root)
    at: Mapping[str, Any] = root
    for part in path.split("."):
        at = _resolved(_resolved(at, root).get("properties", {}).get(part, {}), root)
    return at


def _kind(schema: Mapping[str, Any]) -> str:
    kind: Any = schema.get("type", "")
    if isinstance(kind, list):
        kinds = cast("list[str]", kind)
        return next((k for k in kinds if k != "null"), "")
    return str(kind)


def _put(out: dict[str, Any], path: str, value: Any, schema: Mapping[str, Any]) -> None:
    if path in schema.get("properties", {}) or "." not in path:
        out[path] = value
        return
    *parents, last = path.split(".")
    at = out
    for part in parents:
        at = at.setdefault(part, {})
    at[last] = value


def _written(value: Any, entry: ArgumentMap | None, schema: Mapping[str, Any]) -> Any:
    """An operation's value as the surface has it."""
    if entry is not None and entry.labels:
        label = next((k for k, v in entry.labels.items() if _equal(v, value)), None)
        if label is None:
            return _MISSING
        return int(label) if _kind(schema) == "integer" and label.isdecimal() else label
    if isinstance(value, list):
        items = [_written(v, entry, _resolved(schema.get("items", {}), schema)) for v in cast("list[Any]", value)]
        return _MISSING if any(i is _MISSING for i in items) else items
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        options = cast("list[Any]", schema["enum"])
        exact = [o for o in options if _equal(o, value)]
        same = exact or [o for o in options if str(o).casefold() == f"{value}".casefold()]
        digits = same or [o for o in options if _DIGITS.findall(str(o)) == [f"{value}"]]
        return digits[0] if digits else value
    return _typed(value, schema)


def _typed(value: Any, schema: Mapping[str, Any]) -> Any:
    match _kind(schema):
        case "array":
            return [_typed(value, _resolved(schema.get("items", {}), schema))]
        case "integer" | "number":
            if isinstance(value, bool):
                return int(value)
            if isinstance(value, str):
                if not _DIGITS.fullmatch(value):
                    return _MISSING
                return float(value) if "." in value else int(value)
            return value
        case "string":
            if isinstance(value, bool):
                return "true" if value else "false"
            text = f"{value:g}" if isinstance(value, float) else str(value)
            return _fitted(text, str(schema.get("pattern", "")))
        case _:
            return value


def _fitted(text: str, pattern: str) -> str:
    """``text`` in the form that a pattern demands: "3" as "No.3"."""
    if not pattern or re.search(pattern, text):
        return text
    for m in _NUMBER_IN_PATTERN.finditer(pattern):
        before = _ESCAPED.sub(r"\1", pattern[: m.start()].removeprefix("^"))
        after = _ESCAPED.sub(r"\1", pattern[m.end() :].removesuffix("$"))
        made = f"{before}{text}{after}"
        if re.search(pattern, made):
            return made
    return text


def _fill_required(schema: Mapping[str, Any], out: dict[str, Any], tool: Tool, path: str) -> None:
    """Arguments that the schema wants and nobody asked for, by their least meaning."""
    root = tool.input_schema
    by_source = {m.source: m for m in tool.binding.arguments if m.source}
    schema = _resolved(schema, root)
    properties: Mapping[str, Any] = schema.get("properties", {})
    for name in cast("Sequence[str]", schema.get("required", ())):
        here = f"{path}.{name}" if path else name
        own = _resolved(properties.get(name, {}), root)
        if _kind(own) == "object" or "properties" in own:
            inner = out.setdefault(name, {})
            if isinstance(inner, dict):
                _fill_required(own, cast("dict[str, Any]", inner), tool, here)
        elif name not in out:
            entry = by_source.get(here)
            to = entry.to if entry else name
            neutral = _written(NEUTRAL[to], entry, own) if to in NEUTRAL else _MISSING
            out[name] = _least(own) if neutral is _MISSING else neutral
    # An optional object that holds an argument wants its own required ones as well.
    for name, value in out.items():
        own = _resolved(properties.get(name, {}), root)
        if isinstance(value, dict) and name not in schema.get("required", ()):
            _fill_required(own, cast("dict[str, Any]", value), tool, f"{path}.{name}" if path else name)


def _least(schema: Mapping[str, Any]) -> Any:
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if schema.get(key):
            return schema[key][0]
    match _kind(schema):
        case "integer" | "number":
            least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
            return least + 1 if "exclusiveMinimum" in schema else least
        case "boolean":
            return False
        case "array":
            return [_least(schema.get("items", {}))] * int(schema.get("minItems", 0))
        case "object":
            return {}
        case _:
            return _fitted("1", str(schema["pattern"])) if "pattern" in schema else "-"
