"""Whether a tool's surface and its operation fit together: the part of lint that knows bindings.

A binding is right when every argument a policy can write goes somewhere, every parameter the operation needs
can be filled, and every label means a value the operation takes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

from jsonschema import Draft202012Validator

from livery.harness.model import ArgumentMap, Tool
from livery.harness.schema import schema_faults
from livery.harness.source import Location, closest, one_of, shown_value

Finding = tuple[Location, str, str, str]
"""(place in the tool's file, severity, code, message)."""

LOAD_SKILL = "harness.load_skill"
READ_SKILL_FILE = "harness.read_skill_file"

RUNTIME_OPERATIONS: Mapping[str, Mapping[str, Any]] = {
    LOAD_SKILL: {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "Skill name from the catalogue."}},
        "required": ["name"],
        "additionalProperties": False,
    },
    READ_SKILL_FILE: {
        "type": "object",
        "properties": {
            "skill": {"type": "string", "description": "Skill name."},
            "path": {"type": "string", "description": "Path of the file beside SKILL.md."},
        },
        "required": ["skill", "path"],
        "additionalProperties": False,
    },
}
"""What a tool may be bound to besides the shop's operations, and the JSON Schema of its arguments: the agent
itself does these."""

_PORTABLE_NAME = re.compile(r"^[A-Za-z0-9_-]{1,64}$")


def check_tool(
    tool: Tool, operations: Mapping[str, Mapping[str, Any]] | None, servers: Collection[str]
) -> Iterator[Finding]:
    """Everything wrong with one tool.

    Args:
        operations: operation -> JSON Schema of its arguments; None leaves the binding unchecked.
        servers: names of the harness's MCP servers, whose operations are known only at run time.
    """
    if not tool.name:
        yield ("name",), "error", "tool-name", "found an empty name"
    elif not _PORTABLE_NAME.match(tool.name):
        message = f"found {tool.name!r}; servers with function calling of their own take only A-Z a-z 0-9 _ -"
        yield ("name",), "warning", "tool-name", message
    if not tool.description.strip():
        yield (
            ("description",),
            "warning",
            "tool-description",
            "found nothing a policy could choose the tool by",
        )
    faults = schema_faults(tool.input_schema)
    for place, code, message in faults:
        yield ("inputSchema", *place), "error", code, message
    if tool.result.style == "prose" and not tool.result.template:
        yield ("result",), "error", "tool-result", "`style: prose` needs a `template`"
    if tool.result.template and tool.result.style != "prose":
        message = f"found a template with `style: {tool.result.style}`, which does not use it"
        yield ("result", "template"), "warning", "tool-result", message
    if operations is None or faults:
        return
    operations = {**RUNTIME_OPERATIONS, **operations}
    operation = tool.binding.operation
    if operation.startswith("mcp."):
        if operation.split(".")[1] not in servers:
            message = f"found {operation!r}; expected a server of this harness: {one_of(servers)}"
            yield ("binding", "operation"), "error", "tool-operation", message
        return
    if operation not in operations:
        message = f"found {operation!r}{closest(operation, operations)}; expected {one_of(operations)}"
        yield ("binding", "operation"), "error", "tool-operation", message
        return
    yield from _check_binding(tool, operations[operation])


def _check_binding(tool: Tool, parameters: Mapping[str, Any]) -> Iterator[Finding]:
    wanted = cast("Mapping[str, Mapping[str, Any]]", parameters.get("properties", {}))
    offered = cast("Mapping[str, Any]", tool.input_schema.get("properties", {}))
    mandatory = cast("Collection[str]", tool.input_schema.get("required", ()))
    mapped = {entry.to: entry for entry in tool.binding.arguments}
    for i, entry in enumerate(tool.binding.arguments):
        short = len(mapped) == len(tool.binding.arguments)
        place: Location = ("binding", "arguments", entry.to if short else i)
        # Paging is the result format's, not the operation's.
        paging = entry.to == "page" and tool.result.page_size > 0
        if entry.to not in wanted and not paging:
            message = f"{tool.binding.operation} has no parameter {entry.to!r}{closest(entry.to, wanted)}"
            yield place, "error", "tool-parameter-unknown", f"{message}; expected {one_of(wanted)}"
            continue
        for severity, code, message in _check_entry(entry, tool.input_schema, wanted.get(entry.to, {})):
            yield place, severity, code, message
    used = {e.source if e.source in offered else e.source.split(".")[0] for e in tool.binding.arguments if e.source}
    for name, schema in offered.items():
        if name in used:
            continue
        if name not in wanted or name in mapped:
            message = f"the argument {name!r} goes nowhere: {tool.binding.operation} has no use for it"
            yield ("inputSchema", "properties", name), "error", "tool-argument-unused", message
        else:
            for severity, code, message in _check_values(_enum(schema), {}, wanted[name]):
                yield ("inputSchema", "properties", name), severity, code, message
    for name in cast("Collection[str]", parameters.get("required", ())):
        entry = mapped.get(name)
        source = entry.source if entry else name
        if entry and (entry.constant is not None or entry.default is not None):
            continue
        if not entry and name not in offered:
            message = f"{tool.binding.operation} needs {name!r}, and no argument of this tool fills it"
            yield ("binding",), "error", "tool-parameter-missing", message
        elif (source if source in offered else source.split(".")[0]) not in mandatory:
            message = f"{tool.binding.operation} needs {name!r}, and {source!r} may be left out of a call"
            yield ("inputSchema", "required"), "warning", "tool-parameter-optional", message


def _check_entry(
    entry: ArgumentMap, schema: Mapping[str, Any], wanted: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    for field, value in (("constant", entry.constant), ("default", entry.default)):
        if value is not None and not _valid(value, wanted):
            yield (
                "error",
                "tool-binding-value",
                f"the {field} {shown_value(value)} is no value of {entry.to!r}",
            )
    if not entry.source:
        if entry.constant is None and entry.default is None:
            yield (
                "error",
                "tool-binding-empty",
                f"nothing fills {entry.to!r}; expected source, constant or default",
            )
        return
    source = _at(schema, entry.source)
    if source is None:
        names = cast("Collection[str]", schema.get("properties", {}))
        message = f"found {entry.source!r}{closest(entry.source, names)}; expected {one_of(names)}"
        yield "error", "tool-binding-source", message
        return
    yield from _check_values(_enum(source), entry.labels, wanted, converts=bool(entry.convert))


def _check_values(
    offered: list[Any], labels: Mapping[str, Any], wanted: Mapping[str, Any], *, converts: bool = False
) -> Iterator[tuple[str, str, str]]:
    if labels:
        missing = [str(v) for v in offered if str(v) not in labels]
        if missing:
            yield "error", "tool-labels-missing", f"the labels do not cover {', '.join(missing)}"
        unused = [k for k in labels if offered and k not in {str(v) for v in offered}]
        if unused:
            yield "warning", "tool-labels-unused", f"the schema offers no {', '.join(unused)}"
    elif not converts and "enum" in _items(wanted):
        allowed = {str(v) for v in _items(wanted)["enum"]}
        wrong = [str(v) for v in offered if str(v) not in allowed]
        if wrong:
            message = f"the operation takes no {', '.join(wrong)}; expected {one_of(allowed)}, or labels"
            yield "error", "tool-enum-values", message
    for label, value in labels.items():
        if not _valid(value, _items(wanted)):
            yield (
                "error",
                "tool-label-value",
                f"the label {label!r} means {shown_value(value)}, which is no value",
            )


def _items(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of an array, its items' schema."""
    inner = schema.get("items")
    return cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else schema


def _enum(schema: Any) -> list[Any]:
    if not isinstance(schema, Mapping):
        return []
    found = _items(cast("Mapping[str, Any]", schema))
    return [found["const"]] if "const" in found else list(found.get("enum", ()))


def _valid(value: Any, schema: Mapping[str, Any]) -> bool:
    # Bindings coerce numbers and their text into each other, so either may stand in the file.
    forms = [value, str(value)] if isinstance(value, (int, float)) and not isinstance(value, bool) else [value]
    if isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?", value):
        forms.append(float(value) if "." in value else int(value))
    validator = cast("Any", Draft202012Validator(dict(schema)))
    return any(validator.is_valid(form) for form in forms)


def _at(schema: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    """The schema of the argument at a dotted path; a property whose name holds the dots wins."""
    properties = cast("Mapping[str, Any]", schema.get("properties", {}))
    if isinstance(properties.get(path), Mapping):
        return properties[path]
    head, _, rest = path.partition(".")
    inner = properties.get(head)
    if not isinstance(inner, Mapping):
        return None
    return _at(cast("Mapping[str, Any]", inner), rest) if rest else cast("Mapping[str, Any]", inner)
