"""JSON Schema of tool arguments: Draft 2020-12, of an object, self-contained. Not a validator of calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast

from jsonschema import Draft202012Validator

from livery.harness.source import Location, shown_value

_META_SCHEMA = Draft202012Validator(
    Draft202012Validator.META_SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER
)


Fault = tuple[Location, str, str]
"""(place in the schema, code, message)."""


def schema_faults(schema: dict[str, Any]) -> tuple[Fault, ...]:
    """Everything wrong with a tool's ``inputSchema``.

    References may only point into the schema itself: nothing is fetched to check a call.
    """
    return _schema_faults(json.dumps(schema))


@lru_cache(maxsize=1024)  # the same tools are checked at each load, lint and save, and in every variant
def _schema_faults(text: str) -> tuple[Fault, ...]:
    return tuple(_find_faults(json.loads(text)))


def _find_faults(schema: dict[str, Any]) -> Iterator[Fault]:
    faults = cast("Iterator[Any]", _META_SCHEMA.iter_errors(schema))  # pyright: ignore[reportUnknownMemberType]
    for fault in faults:
        yield tuple(fault.absolute_path), "tool-schema", f"not valid JSON Schema 2020-12: {fault.message}"
    if schema.get("type") != "object":
        found = shown_value(schema.get("type"))
        yield ("type",), "tool-schema", f"found {found}; expected `type: object` (arguments are an object)"
    properties: Any = schema.get("properties")
    required: Any = schema.get("required")
    if isinstance(properties, dict) and isinstance(required, list):
        for i, name in enumerate(cast("list[Any]", required)):
            if isinstance(name, str) and name not in properties:
                yield ("required", i), "tool-schema", f"found {name!r}; expected one of the properties"
    for place, reference in _references(schema, ()):
        if not reference.startswith("#"):
            message = f"found {reference!r}; expected a reference into this schema (#/$defs/...)"
            yield place, "tool-schema-ref", message


def _references(schema: Any, place: Location) -> Iterator[tuple[Location, str]]:
    if isinstance(schema, dict):
        for key, value in cast("dict[str, Any]", schema).items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield (*place, key), value
            else:
                yield from _references(value, (*place, key))
    elif isinstance(schema, list):
        for i, item in enumerate(cast("list[Any]", schema)):
            yield from _references(item, (*place, i))
