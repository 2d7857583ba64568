"""Canonical bytes and SHA-256 digests of a harness and its components; harness JSON for store and wire.

The canonical form (``livery.harness/1``) is UTF-8 JSON without spaces, after RFC 8785 (JSON Canonicalization
Scheme) except where order is content:

- mapping keys are sorted, but not inside a tool's ``input_schema``: a policy reads its properties in order;
- components stand in their harness's order (catalogue order, running order of hooks);
- numbers with an integral value are written as integers;
- text keeps its code points (no Unicode normalisation: a policy's tokenizer sees the difference), only
  newlines become ``\\n``. Keys that come from file names are NFC already when loaded;
- fields that have their default value are left out, so that a new optional field in a later version changes
  no digest. For the same reason a default in `livery.harness.model` must never change within ``/1``.

A component's digest covers it alone. The harness's digest covers the ordered list of its components' digests,
so equal components of two releases can be stored once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from livery.errors import InputError, Problem
from livery.harness.model import Harness
from livery.harness.source import field_name, normal_newlines, shown_value

FORMAT = "livery.harness/1"
SETTINGS = "settings"
"""Name of the component that holds everything but sections, skills, tools, hooks and servers."""

COMPONENTS: Mapping[str, str] = {
    "sections": "prompt",
    "skills": "skills",
    "tools": "tools",
    "hooks": "hooks",
    "servers": "servers",
}
"""Field of `Harness` -> first part of its components' names, which is also the folder on disk."""


def components(harness: Harness) -> Iterator[tuple[str, BaseModel]]:
    """``("skills/item-qa", skill)`` for every component in harness order, without the settings."""
    for field, folder in COMPONENTS.items():
        for component in getattr(harness, field):
            yield f"{folder}/{component_key(component)}", component


def component_key(component: Any) -> str:
    """A component's key; a server is identified by its name."""
    key: str = component.key if hasattr(component, "key") else component.name
    return key


def canonical_bytes(component: BaseModel) -> bytes:
    """The bytes that a component's digest is taken of."""
    return _encode(component.model_dump(mode="json", exclude_defaults=True))


def settings_bytes(harness: Harness) -> bytes:
    return _encode(harness.model_dump(mode="json", exclude_defaults=True, exclude=set(COMPONENTS)))


def component_digests(harness: Harness) -> dict[str, str]:
    """``settings`` and each component -> ``sha256:<hex>``, in harness order.

    Raises:
        InputError: two components of one kind share a key, so that a digest would not tell which.
    """
    digests = {SETTINGS: _sha256(settings_bytes(harness))}
    for name, component in components(harness):
        if name in digests:
            raise InputError.at(name, "found two components with this key; expected one", code="key-duplicate")
        digests[name] = _sha256(canonical_bytes(component))
    return digests


def harness_digest(harness: Harness) -> str:
    """The release: ``sha256:<hex>`` over format, settings and components in order."""
    listed = [[name, digest] for name, digest in component_digests(harness).items()]
    return _sha256(_encode({"format": FORMAT, "components": listed}))


def _sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _encode(value: Any) -> bytes:
    text = json.dumps(_canonical(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8")


def _canonical(value: Any, ordered: bool = False) -> Any:
    if isinstance(value, dict):
        items = dict[str, Any](value).items()  # pyright: ignore[reportUnknownArgumentType]
        return {
            normal_newlines(str(k)): _canonical(v, ordered or k == "input_schema")
            for k, v in (items if ordered else sorted(items))
        }
    if isinstance(value, list):
        return [_canonical(v, ordered) for v in list[Any](value)]  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, str):
        return normal_newlines(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return int(value)
    return value


# --------------------------------------------------------------------------------------------- JSON


def harness_to_json(harness: Harness) -> str:
    """The whole harness as one line of JSON, defaults included; `harness_from_json` gives an equal one."""
    return json.dumps(harness.model_dump(mode="json"), ensure_ascii=False, allow_nan=False)


def harness_from_json(text: str, *, path: str = "harness.json") -> Harness:
    """The inverse of `harness_to_json`. Field order in ``input_schema`` counts: keep the text as it is.

    Args:
        path: how problems name the input.

    Raises:
        InputError: not JSON, or not a harness; every fault is listed.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as fault:
        raise InputError.at(path, f"not JSON: {fault.msg}", line=fault.lineno, code="json-syntax") from fault
    try:
        return Harness.model_validate(value)
    except ValidationError as fault:
        raise InputError(
            [
                Problem(
                    path=path,
                    field=field_name(e["loc"]),
                    message=f"found {shown_value(e['input'])}; expected: {e['msg']}",
                    code="field-invalid",
                )
                for e in fault.errors(include_url=False)
            ]
        ) from fault
