"""From an operation's arguments back to the call that a tool's surface asks for: a binding read the other way.

`livery.agent.binding.bind` of what comes out gives the arguments that went in; where no such call exists the reason is
raised. The oracle, translation and the preservation check act through this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from jsonschema import Draft202012Validator

from livery.agent.binding import BindingError, bind
from livery.augment.naming import explicit
from livery.errors import LiveryError
from livery.harness.model import ArgumentMap, Tool

_NUMBER = re.compile(r"\\d[+*]|\[[\d-]+\](?:\\d\*|\\d\{[\d,]+\})?")


class NotTranslatable(LiveryError):
    """What was done under one harness cannot be said under another; the text says why."""


def surface_arguments(tool: Tool, arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The call of ``tool`` that reaches its operation with exactly ``arguments``.

    Args:
        parameters: JSON Schema of the operation's arguments.

    Raises:
        NotTranslatable: the surface has no way to say them.
    """
    tool = explicit(tool)
    made: dict[str, Any] = {}
    left = dict(arguments)
    for entry in tool.binding.arguments:
        if entry.to not in left:
            continue
        value = left.pop(entry.to)
        if entry.constant is not None:
            if not _equal(entry.constant, value):
                raise NotTranslatable(f"{tool.key} always gives {entry.to} = {entry.constant!r}, not {value!r}")
            continue
        if not entry.source:
            continue  # its default; the check below tells whether that is what was asked for
        if entry.default is not None and _equal(entry.default, value):
            continue
        _put(made, tool, entry.source, _said(value, entry, _at(tool.input_schema, entry.source)))
    if left:
        raise NotTranslatable(f"{tool.key} has no argument for {', '.join(left)}")
    try:
        reached = bind(tool.binding, made, parameters)
    except BindingError as fault:
        raise NotTranslatable(f"{tool.key}: {fault}") from fault
    if {k: _plain(v) for k, v in reached.items()} != {k: _plain(v) for k, v in arguments.items()}:
        raise NotTranslatable(f"{tool.key} would get {reached!r}, not {dict(arguments)!r}")
    faults = list(Draft202012Validator(tool.input_schema).iter_errors(made))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if faults:
        raise NotTranslatable(f"{tool.key}: the schema refuses {made!r}: {faults[0].message}")
    return made


def _equal(a: Any, b: Any) -> bool:
    return _plain(a) == _plain(b)


def _plain(value: Any) -> Any:
    """Numbers and their text alike, as bindings coerce one into the other."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float)):
        return str(int(value) if value == int(value) else value)
    if isinstance(value, list):
        return [_plain(v) for v in cast("list[Any]", value)]
    return value


def _said(value: Any, entry: ArgumentMap, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        inner = cast("Mapping[str, Any]", schema.get("items") or {})
        return [_said(v, entry, inner) for v in cast("list[Any]", value)]
    if entry.labels:
        for label, meant in entry.labels.items():
            if (type(meant) is type(value) and meant == value) or _equal(meant, value):
                return label
        raise NotTranslatable(f"{entry.source} has no label for {value!r}")
    kind = schema.get("type")
    if kind == "integer" and not isinstance(value, bool):
        return int(value) if str(value).lstrip("-").isdigit() else value
    if kind == "number" and isinstance(value, str):
        return float(value) if "." in value else int(value)
    if kind == "string" and not isinstance(value, str):
        text = str(value).lower() if isinstance(value, bool) else str(_plain(value))
        return _patterned(text, schema)
    if kind == "string" and entry.convert in ("digits", "integer", "number"):
        return _patterned(str(value), schema)
    return value


def _patterned(text: str, schema: Mapping[str, Any]) -> str:
    """A number in the form of the schema's pattern: 3 under ``^No\\.\\d+$`` is ``No.3``."""
    pattern = str(schema.get("pattern", ""))
    if not pattern or re.search(pattern, text):
        return text
    frame = _NUMBER.sub("\0", pattern.removeprefix("^").removesuffix("$"), count=1)
    return re.sub(r"\\(.)", r"\1", frame).replace("\0", text)


def _at(schema: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    properties = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties", {}))
    if path in properties:
        return properties[path]
    head, dot, rest = path.partition(".")
    inner = properties.get(head, {})
    return _at(inner, rest) if dot else inner


def _put(made: dict[str, Any], tool: Tool, path: str, value: Any) -> None:
    if path in tool.input_schema.get("properties", {}) or "." not in path:
        made[path] = value
        return
    *outer, last = path.split(".")
    place = made
    for name in outer:
        place = place.setdefault(name, {})
    place[last] = value
