"""From a tool's surface arguments to its operation's arguments.

A `Binding` renames, fills in, converts and relabels. Whatever cannot be mapped without loss is a
`BindingError` whose text tells the policy which field was wrong, what was found and what is expected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from livery.harness.model import ArgumentMap, Binding

_DIGITS = re.compile(r"\d+(?:\.\d+)?")
_MISSING = object()


class BindingError(Exception):
    """Surface arguments that do not give the operation's arguments."""


def bind(binding: Binding, arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Map surface arguments to operation arguments.

    Args:
        arguments: as the policy wrote them.
        parameters: the operation's JSON Schema (an object's).

    Returns:
        Operation arguments, coerced to the declared types where nothing is lost ("3" <-> 3).

    Raises:
        BindingError: a value that cannot be converted or has no label, or a required parameter left empty.
    """
    properties: Mapping[str, Any] = parameters.get("properties", {})
    bound: dict[str, Any] = {}
    mapped = {m.to for m in binding.arguments}
    for entry in binding.arguments:
        if entry.to == "page" and properties and "page" not in properties:
            continue  # Which page is shown is the result format's affair; the operation gives the whole list.
        value = _mapped_value(entry, arguments)
        if value is not _MISSING:
            bound[entry.to] = _coerce(value, properties.get(entry.to, {}), entry.source or entry.to)
    for name, schema in properties.items():
        if name not in mapped and arguments.get(name) is not None:
            bound[name] = _coerce(arguments[name], schema, name)
    sources = {m.to: m.source or m.to for m in binding.arguments}
    required: list[str] = list(parameters.get("required", ()))
    missing = [sources.get(name, name) for name in required if name not in bound]
    if missing:
        raise BindingError(f"missing argument{'s' if len(missing) > 1 else ''}: {', '.join(missing)}")
    return bound


def _mapped_value(entry: ArgumentMap, arguments: Mapping[str, Any]) -> Any:
    if entry.constant is not None:
        return entry.constant
    value = _at(arguments, entry.source) if entry.source else _MISSING
    if value is _MISSING or value is None:
        return _MISSING if entry.default is None else entry.default
    if entry.labels:
        label = str(value)
        if label not in entry.labels:
            raise BindingError(f"{entry.source}: found {label!r}, expected one of {', '.join(entry.labels)}")
        return entry.labels[label]
    return _convert(value, entry.convert, entry.source)


def _at(arguments: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; a key that itself holds the dots wins."""
    if path in arguments:
        return arguments[path]
    value: Any = arguments
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _MISSING
        value = value[part]  # pyright: ignore[reportUnknownVariableType]
    return value  # pyright: ignore[reportUnknownVariableType]


def _convert(value: Any, how: str, where: str) -> Any:
    if not how:
        return value
    if isinstance(value, list):
        return [_convert(v, how, where) for v in value]  # pyright: ignore[reportUnknownVariableType]
    text = str(value).strip()
    if how == "string":
        return text
    if how == "digits":
        found = _DIGITS.findall(text)
        if len(found) != 1:
            raise BindingError(f"{where}: found {text!r}, expected one number such as 3")
        return found[0]
    if how == "boolean":
        if text.lower() in {"true", "yes", "1", "是"}:
            return True
        if text.lower() in {"false", "no", "0", "否"}:
            return False
        raise BindingError(f"{where}: found {text!r}, expected true or false")
    return _number(value, "integer" if how == "integer" else "number", where)


def _number(value: Any, kind: str, where: str) -> int | float:
    try:
        number = float(str(value).strip())
    except ValueError:
        raise BindingError(f"{where}: found {value!r}, expected a number") from None
    if kind == "integer":
        if number != int(number):
            raise BindingError(f"{where}: found {value!r}, expected a whole number")
        return int(number)
    return number


def _coerce(value: Any, schema: Mapping[str, Any], where: str) -> Any:
    """To the operation's declared type, where nothing is lost; else an error, never a guess."""
    kind = schema.get("type")
    if kind == "string":
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise BindingError(f"{where}: found {value!r}, expected text")
        return value if isinstance(value, str) else str(int(value) if value == int(value) else value)
    if kind in ("integer", "number"):
        if isinstance(value, bool):
            raise BindingError(f"{where}: found {value!r}, expected a number")
        return value if isinstance(value, int) else _number(value, kind, where)
    if kind == "array":
        items: list[Any] = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
        return [_coerce(v, schema.get("items", {}), where) for v in items]
    if kind == "boolean" and not isinstance(value, bool):
        raise BindingError(f"{where}: found {value!r}, expected true or false")
    return value
