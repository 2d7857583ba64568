"""Tool arguments against the tool's own schema (JSON Schema 2020-12); faults are told for a small model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from pydantic import Field

from livery.harness.hooks.builtin.definition import Builtin, Params, worded
from livery.harness.hooks.decisions import Allow, Decision, HookContext, HookFunction, Retry
from livery.types import Checkpoint, ToolCall


class ArgumentSchemaParams(Params):
    faults: int = Field(default=4, ge=1)
    """How many are told at once."""


_TYPES = {
    "string": ("text", "文本"), "integer": ("a whole number", "整数"), "number": ("a number", "数字"),
    "boolean": ("true or false", "true 或 false"), "array": ("a list", "列表"),
    "object": ("an object", "对象"),
    "null": ("null", "null"),
}  # fmt: skip
_VALIDATORS_KEPT = 256


def build(params: ArgumentSchemaParams, language: str) -> HookFunction:
    validators: dict[int, tuple[Mapping[str, Any], Draft202012Validator]] = {}

    def validator(schema: Mapping[str, Any]) -> Draft202012Validator:
        held = validators.get(id(schema))
        if held is not None and held[0] is schema:
            return held[1]
        made = Draft202012Validator(schema)
        if len(validators) >= _VALIDATORS_KEPT:
            validators.clear()
        validators[id(schema)] = (schema, made)
        return made

    def check(value: ToolCall, context: HookContext) -> Decision:
        if context.tool is None:
            return Allow()  # an unknown tool is the runtime's to answer
        schema = context.tool.input_schema
        errors = cast(
            "list[ValidationError]",
            list(validator(schema).iter_errors(dict(value.arguments))),  # pyright: ignore[reportUnknownMemberType]
        )
        if not errors:
            return Allow()
        faults = list(dict.fromkeys(_told(errors, schema, language)))[: params.faults]
        listed = "; ".join(faults)
        return Retry(
            worded(
                language,
                en=f"The arguments of {value.name} are wrong: {listed}. Put them right and call it again.",
                zh=f"{value.name} 的参数不对：{listed}。请改正后重新调用。",
            ),
            {"tool": value.name, "faults": faults},
        )

    return check


def _told(errors: Sequence[ValidationError], schema: Mapping[str, Any], language: str) -> Iterator[str]:
    for error in sorted(errors, key=lambda e: [str(p) for p in e.absolute_path]):
        yield from _one(error, schema, language)


def _one(error: ValidationError, schema: Mapping[str, Any], language: str) -> Iterator[str]:
    path = ".".join(str(p) for p in error.absolute_path)
    limit = cast("Any", error.validator_value)
    known = cast("dict[str, Any]", error.schema.get("properties", {}) if isinstance(error.schema, dict) else {})
    found = _shown(error.instance)
    field = f"`{path}`" if path else worded(language, en="the arguments", zh="参数")
    match str(error.validator):
        case "required":
            instance = cast("dict[str, Any]", error.instance)
            for name in cast("list[str]", limit):
                if name not in instance:
                    expected = _expected(known.get(name, {}), language)
                    at = f"`{path}.{name}`" if path else f"`{name}`"
                    yield worded(language, en=f"{at} is missing, expected {expected}", zh=f"缺少 {at}，应为{expected}")
        case "additionalProperties" | "unevaluatedProperties":
            names = ", ".join(known)
            for name in cast("dict[str, Any]", error.instance):
                if name not in known:
                    near = get_close_matches(name, list(known), 1, 0.5)
                    hint_en = f"; did you mean `{near[0]}`?" if near else ""
                    hint_zh = f"；是不是 `{near[0]}`？" if near else ""
                    yield worded(
                        language,
                        en=f"`{name}` is no argument of it, expected only: {names or 'nothing'}{hint_en}",
                        zh=f"没有 `{name}` 这个参数，只能用：{names or '无'}{hint_zh}",
                    )
        case _:
            part = cast("Mapping[str, Any]", error.schema if isinstance(error.schema, dict) else {})
            expected = _expected(part, language)
            yield worded(
                language,
                en=f"{field}: found {found}, expected {expected}",
                zh=f"{field}：收到 {found}，应为{expected}",
            )


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _expected(schema: Mapping[str, Any], language: str) -> str:
    """What a schema asks for, in words."""
    index = 0 if worded(language, en="en", zh="zh") == "en" else 1
    if "const" in schema:
        return _shown(schema["const"])
    if "enum" in schema:
        values = [_shown(v) for v in cast("list[Any]", schema["enum"])]
        return ("one of " if index == 0 else "以下之一：") + ", ".join(values)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            parts = [_expected(cast("Mapping[str, Any]", s), language) for s in schema[union] if isinstance(s, dict)]
            return (" or " if index == 0 else " 或 ").join(dict.fromkeys(parts))
    kinds = schema.get("type", [])
    names = [kinds] if isinstance(kinds, str) else cast("list[str]", kinds)
    said = (" or " if index == 0 else " 或 ").join(_TYPES.get(n, (n, n))[index] for n in names)
    said = said or ("a value its schema allows" if index == 0 else "符合定义的值")
    limits = [
        text.format(schema[key])
        for key, text in (
            ("minimum", "≥ {}"), ("maximum", "≤ {}"), ("exclusiveMinimum", "> {}"),
            ("exclusiveMaximum", "< {}"),
            ("minLength", "≥ {} chars"), ("maxLength", "≤ {} chars"), ("minItems", "≥ {} items"),
            ("maxItems", "≤ {} items"), ("pattern", "pattern {}"), ("format", "format {}"),
        )
        if key in schema
    ]  # fmt: skip
    return f"{said} ({', '.join(limits)})" if limits else said


ARGUMENT_SCHEMA = Builtin(
    name="argument_schema",
    checkpoint=Checkpoint.TOOL_CALL,
    params=ArgumentSchemaParams,
    build=build,
    summary="a tool call's arguments fit the tool's schema",
)
