"""Dimension "tool schemas": what tools and their arguments are called, how they are typed, described and answered.

A policy can no longer know a tool or an argument by its name, place or form: it must read the schema. Operations stay,
and every call that the base allows is possible under the variant and reaches the same operation with the same
arguments. Where the prompt shows only signatures, what a changed argument means is written into the description.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from random import Random
from typing import Any

from livery.augment.lexicon import Lexicon
from livery.augment.naming import (
    changed,
    explicit,
    fresh,
    movable_tools,
    names_taken,
    pinned,
    rename,
    unique_names,
    words_of,
)
from livery.augment.operators import Edit, Renamed, any_mapping, operator
from livery.augment.skill_identifiers import opaque_id, styled
from livery.augment.wording import joiner, paraphrase
from livery.harness.lint_tools import RUNTIME_OPERATIONS
from livery.harness.model import ArgumentMap, Binding, Harness, ResultFormat, Tool
from livery.shop.registry import shop_operations

_PORTABLE = 64
"""Longest tool name that servers with function calling of their own take."""


def _properties(tool: Tool) -> dict[str, Any]:
    return dict(tool.input_schema.get("properties", {}))


def _tools(harness: Harness, made: Mapping[str, Tool]) -> Harness:
    return harness.replace(tools=tuple(made.get(t.key, t) for t in harness.tools))


def _schema(tool: Tool, properties: Mapping[str, Any], required: Sequence[str] | None = None) -> dict[str, Any]:
    schema = {**tool.input_schema, "properties": dict(properties)}
    if required is not None:
        schema["required"] = list(required)
    return schema


def _bound(tool: Tool, schema: Mapping[str, Any], arguments: Sequence[ArgumentMap]) -> Tool:
    binding = tool.binding.model_copy(update={"arguments": tuple(arguments)})
    return tool.model_copy(update={"input_schema": dict(schema), "binding": binding})


def _explained(tool: Tool, meanings: Mapping[str, str], lexicon: Lexicon, harness: Harness) -> Tool:
    """The tool with what its arguments mean in its description, where the rendering shows no more of an argument
    than its name. (The rendering is chosen at an earlier stage.)"""
    if not meanings or harness.rendering.tools in ("json_schema", "prose"):
        return tool
    mark, pair, gap = (lexicon.entries("gloss", k)[0] for k in ("open", "pair", "gap"))
    told = gap.join(pair.format(name=n, meaning=m.rstrip(".。")) for n, m in meanings.items())
    return changed(tool, description=f"{tool.description}{joiner(tool.description)}{mark.format(told=told)}")


def _meaning(tool: Tool, name: str, lexicon: Lexicon) -> str:
    """What an argument means: its own description, else the lexicon's of its operation's parameter, else its name."""
    entry = next((m for m in explicit(tool).binding.arguments if m.source == name), None)
    own = str(any_mapping(_properties(tool).get(name)).get("description", ""))
    known = lexicon.entries("parameter_meanings", entry.to) if entry else ()
    return own or (known[0] if known else " ".join(words_of(name)) or name)


# ------------------------------------------------------------------------------------ names of tools


def _renamed(harness: Harness, wanted: Sequence[tuple[str, str]], **parameters: str) -> Edit | None:
    keys = {key for key, _ in wanted}
    staying = names_taken(harness) - {t.name for t in harness.tools if t.key in keys}
    names = unique_names([(k, n[:_PORTABLE]) for k, n in wanted], staying)
    old = {t.key: t.name for t in harness.tools}
    moved = {key: name for key, name in names.items() if old[key] != name}
    if not moved:
        return None
    renamed = tuple(Renamed(what="tool", key=k, old=old[k], new=n) for k, n in moved.items())
    return Edit(rename(harness, tools=moved), dict(parameters), renamed)


@operator(
    "tool_schemas.tool_synonyms",
    stage=30,
    group="tool-name",
    removes="a tool is known by the words of its name",
)
def tool_synonyms(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    wanted: list[tuple[str, str]] = []
    for tool in movable_tools(harness):
        name = lexicon.choose(rng, "tool_names", tool.binding.operation)
        if not name:
            name = "_".join(lexicon.choose(rng, "words", w) or w for w in words_of(tool.name))
        wanted.append((tool.key, name or tool.name))
    return _renamed(harness, wanted)


@operator(
    "tool_schemas.tool_opaque",
    stage=30,
    group="tool-name",
    removes="a tool's name says anything at all about it",
)
def tool_opaque(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    form = lexicon.choose(rng, "opaque_tools")
    return _renamed(harness, [(t.key, opaque_id(form, rng)) for t in movable_tools(harness)], form=form)


@operator(
    "tool_schemas.tool_swapped",
    stage=38,
    group="tool-swap",
    removes="a name may be trusted before its description is read",
)
def tool_swapped(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Shop tools pass their names round. The skill loader keeps its own: texts must be able to say load."""
    movable = [t for t in movable_tools(harness) if t.binding.operation not in RUNTIME_OPERATIONS]
    if len(movable) < 2:
        return None
    chosen = rng.sample(movable, rng.randint(2, min(4, len(movable))))
    names = [t.name for t in chosen]
    edit = _renamed(harness, [(t.key, n) for t, n in zip(chosen, names[1:] + names[:1], strict=True)])
    return edit and Edit(edit.harness, {"swapped": [t.key for t in chosen]}, edit.renamed)


@operator(
    "tool_schemas.tool_style",
    stage=34,
    group="tool-style",
    removes="tools are named with underscores",
)
def tool_style(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    form = lexicon.choose(rng, "tool_styles")
    wanted = [(t.key, styled(t.name, form) or t.name) for t in movable_tools(harness)]
    return _renamed(harness, wanted, style=form)


@operator(
    "tool_schemas.tool_order",
    stage=46,
    group="tool-order",
    removes="a tool is found by its place in the list",
)
def tool_order(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    mixed = list(harness.tools)
    rng.shuffle(mixed)
    return Edit(harness.replace(tools=tuple(mixed)), {"order": [t.key for t in mixed]})


@operator(
    "tool_schemas.description_wording",
    stage=50,
    group="tool-wording",
    removes="a tool is known by the words of its description",
)
def description_wording(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    made: dict[str, Tool] = {}
    for tool in harness.tools:
        properties = {
            n: {
                **any_mapping(s),
                "description": paraphrase(str(any_mapping(s)["description"]), rng, lexicon, instructions=False),
            }
            if any_mapping(s).get("description")
            else s
            for n, s in _properties(tool).items()
        }
        about = paraphrase(tool.description, rng, lexicon, instructions=False)
        made[tool.key] = changed(tool, description=about, input_schema=_schema(tool, properties))
    harness_ = _tools(harness, made)
    return None if harness_ == harness else Edit(harness_)


# ---------------------------------------------------------------------------------------- arguments


def _argument_names(
    harness: Harness, names: Mapping[str, Mapping[str, str]], lexicon: Lexicon, *, explain: bool
) -> Edit | None:
    """Rename arguments (tool key -> old -> new)."""
    names = {k: {o: n for o, n in v.items() if o != n} for k, v in names.items()}
    names = {k: v for k, v in names.items() if v}
    if not names:
        return None
    meanings = {
        t.key: {new: _meaning(t, old, lexicon) for old, new in names[t.key].items()}
        for t in harness.tools
        if t.key in names
    }
    made = rename(harness, arguments=names)
    if explain:
        told: dict[str, Tool] = {}
        for tool in made.tools:
            if tool.key in meanings:
                properties = {
                    n: {**any_mapping(s), "description": meanings[tool.key].get(n) or _described(s)}
                    if n in meanings[tool.key]
                    else s
                    for n, s in _properties(tool).items()
                }
                described = changed(tool, input_schema=_schema(tool, properties))
                told[tool.key] = _explained(described, meanings[tool.key], lexicon, harness)
        made = _tools(made, told)
    renamed = tuple(
        Renamed(what="argument", key=k, old=old, new=new) for k, v in names.items() for old, new in v.items()
    )
    return Edit(made, {}, renamed)


def _described(schema: Any) -> str:
    return str(any_mapping(schema).get("description", ""))


def _free_arguments(harness: Harness) -> dict[str, list[str]]:
    """Tool key -> its arguments that may be changed."""
    kept = pinned(harness)
    return {t.key: [n for n in _properties(t) if n not in kept] for t in harness.tools}


@operator(
    "tool_schemas.argument_synonyms",
    stage=30,
    group="argument-name",
    removes="an argument is known by its name",
)
def argument_synonyms(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    free = _free_arguments(harness)
    chosen: dict[str, str] = {}  # one word for one parameter throughout, as a careful author would
    names: dict[str, dict[str, str]] = {}
    for tool in harness.tools:
        bound = {m.source: m.to for m in explicit(tool).binding.arguments}
        have = set(_properties(tool))
        moved: dict[str, str] = {}
        for name in free[tool.key]:
            to = bound.get(name, "")
            if to and to not in chosen:
                chosen[to] = lexicon.choose(rng, "argument_names", to)
            new = chosen.get(to, "")
            if new and new not in have and new not in moved.values():
                moved[name] = new
        names[tool.key] = moved
    return _argument_names(harness, names, lexicon, explain=False)


@operator(
    "tool_schemas.argument_opaque",
    stage=30,
    group="argument-name",
    removes="an argument's name says anything at all about it",
)
def argument_opaque(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    form = lexicon.choose(rng, "opaque_arguments")
    names: dict[str, dict[str, str]] = {}
    for key, free in _free_arguments(harness).items():
        wanted = [(n, opaque_id(form, rng)) for n in free]
        tool = next(t for t in harness.tools if t.key == key)
        names[key] = unique_names(wanted, _properties(tool))
    edit = _argument_names(harness, names, lexicon, explain=True)
    return edit and Edit(edit.harness, {"form": form}, edit.renamed)


@operator(
    "tool_schemas.argument_swapped",
    stage=32,
    group="argument-swap",
    held_out=True,
    removes="an argument's name may be trusted before its description is read",
)
def argument_swapped(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Two arguments of one tool and type change names; both are described."""
    free = _free_arguments(harness)
    names: dict[str, dict[str, str]] = {}
    for tool in harness.tools:
        properties = _properties(tool)
        by_type: dict[str, list[str]] = {}
        for name in free[tool.key]:
            by_type.setdefault(str(any_mapping(properties[name]).get("type")), []).append(name)
        pairs = [group for group in by_type.values() if len(group) >= 2]
        if pairs and rng.random() < 0.7:
            first, second = rng.sample(rng.choice(pairs), 2)
            names[tool.key] = {first: second, second: first}
    return _argument_names(harness, names, lexicon, explain=True)


@operator(
    "tool_schemas.argument_order",
    stage=46,
    group="argument-order",
    removes="the first argument is the item",
)
def argument_order(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    made: dict[str, Tool] = {}
    for tool in harness.tools:
        properties = list(_properties(tool).items())
        if len(properties) > 1:
            rng.shuffle(properties)
            made[tool.key] = tool.model_copy(update={"input_schema": _schema(tool, dict(properties))})
    return Edit(_tools(harness, made)) if made else None


def _nestable(harness: Harness) -> list[tuple[Tool, list[str]]]:
    found: list[tuple[Tool, list[str]]] = []
    free = _free_arguments(harness)
    for tool in harness.tools:
        names = [n for n in free[tool.key] if "." not in n]
        if tool.binding.operation not in RUNTIME_OPERATIONS and "$defs" not in tool.input_schema and names:
            found.append((tool, names))
    return found


def _nested(tool: Tool, names: Sequence[str], outer: str, lexicon: Lexicon, harness: Harness) -> Tool:
    """The named arguments moved into one object called ``outer``."""
    tool = explicit(tool)
    properties = _properties(tool)
    needed = list(tool.input_schema.get("required", ()))
    inner_needed = [n for n in names if n in needed]
    inside: dict[str, Any] = {
        "type": "object",
        "properties": {n: properties[n] for n in names},
        "additionalProperties": False,
    }
    if inner_needed:
        inside["required"] = inner_needed
    mark, meant = lexicon.entries("gloss", "optional")[0], lexicon.entries("gloss", "field")[0]
    told: list[str] = []
    for name in names:
        about = _described(properties[name]).rstrip(".。") if harness.rendering.tools == "prose" else ""
        shown = name if name in needed else f"{name}{mark}"
        told.append(meant.format(name=shown, meaning=about) if about else shown)
    fields = ", ".join(told)
    inside["description"] = lexicon.entries("gloss", "object")[0].format(fields=fields)
    out: dict[str, Any] = {}
    for name, schema in properties.items():
        if name == names[0]:
            out[outer] = inside
        if name not in names:
            out[name] = schema
    required = [n for n in needed if n not in names] + ([outer] if inner_needed else [])
    moved = [changed(m, source=f"{outer}.{m.source}") if m.source.split(".")[0] in names else m
             for m in tool.binding.arguments]  # fmt: skip
    made = _bound(tool, _schema(tool, out, required), moved)
    return _explained(made, {outer: inside["description"]}, lexicon, harness)


@operator(
    "tool_schemas.nested",
    stage=40,
    group="nesting",
    removes="arguments are flat",
)
def nested(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Two or more arguments of some tools move into an object."""
    outer = lexicon.choose(rng, "outer_names")
    made: dict[str, Tool] = {}
    for tool, names in _nestable(harness):
        if len(names) >= 2 and rng.random() < 0.6:
            chosen = set(rng.sample(names, rng.randint(2, len(names))))
            name = fresh(outer, _properties(tool))
            made[tool.key] = _nested(tool, [n for n in names if n in chosen], name, lexicon, harness)
    return Edit(_tools(harness, made), {"outer": outer, "tools": list(made)}) if made else None


@operator(
    "tool_schemas.nested_whole",
    stage=40,
    group="nesting",
    held_out=True,
    removes="a call's arguments stand at its top",
)
def nested_whole(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Every argument of every shop tool moves into one object of one name."""
    outer = lexicon.choose(rng, "outer_names")
    made = {
        t.key: _nested(t, names, fresh(outer, _properties(t)), lexicon, harness)
        for t, names in _nestable(harness)
        if len(names) == len(_properties(t))
    }
    return Edit(_tools(harness, made), {"outer": outer, "tools": list(made)}) if made else None


# ------------------------------------------------------------------------------------ types and labels


@operator(
    "tool_schemas.types",
    stage=24,
    group="types",
    removes="a link number is bare text, an amount a bare number",
)
def types(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Numbers by another type that says the same: 3, "3", "No.3"."""
    free = _free_arguments(harness)
    form = lexicon.choose(rng, "number_forms")
    as_text = rng.random() < 0.5
    made: dict[str, Tool] = {}
    for tool in harness.tools:
        tool_ = explicit(tool)
        properties, moved = _properties(tool_), list(tool_.binding.arguments)
        for i, entry in enumerate(moved):
            if entry.source not in properties or entry.source not in free[tool.key]:
                continue
            typed = _retyped(any_mapping(properties[entry.source]), entry, form, as_text, lexicon)
            if typed is not None:
                properties[entry.source], moved[i] = typed
        if properties != _properties(tool):
            typed_ = _bound(tool_, _schema(tool_, properties), moved)
            told = {
                n: _told(any_mapping(s))
                for n, s in properties.items()
                if s != _properties(tool).get(n) and _told(any_mapping(s))
            }
            made[tool.key] = _explained(typed_, told, lexicon, harness)
    return Edit(_tools(harness, made), {"links": form, "numbers_as_text": as_text}) if made else None


def _retyped(
    schema: dict[str, Any], entry: ArgumentMap, form: str, as_text: bool, lexicon: Lexicon
) -> tuple[dict[str, Any], ArgumentMap] | None:
    if entry.labels or "enum" in schema or "const" in schema:
        return None
    kind = schema.get("type")
    if kind == "array" and entry.convert == "digits" and any_mapping(schema.get("items")).get("type") == "string":
        return {**schema, "items": _link(any_mapping(schema["items"]), form, lexicon)}, entry
    if kind == "string" and entry.convert == "digits":
        return _link(schema, form, lexicon), entry
    if kind in ("integer", "number") and not entry.convert and as_text:
        about = {k: v for k, v in schema.items() if k == "description"}
        pattern = r"^\d+$" if kind == "integer" else r"^\d+(\.\d+)?$"
        most = schema.get("maximum")
        if kind == "integer" and schema.get("minimum") == 1:
            digits = len(str(most)) - 1 if isinstance(most, int) and set(str(most)) == {"9"} else None
            pattern = r"^[1-9]\d*$" if digits is None else rf"^[1-9]\d{{0,{digits}}}$"
        return {"type": "string", "pattern": pattern, **about}, entry.model_copy(update={"convert": kind})
    return None


def _told(schema: dict[str, Any]) -> str:
    """What must be said of a retyped argument where its schema is not shown: the form of a link number."""
    if schema.get("type") == "array":
        return _told(any_mapping(schema.get("items")))
    return _described(schema) if "pattern" in schema or schema.get("type") == "integer" else ""


def _link(schema: dict[str, Any], form: str, lexicon: Lexicon) -> dict[str, Any]:
    """A link number in the form, such as ``No.{n}``; ``integer`` is a number."""
    told = lexicon.entries("gloss", "link")[0].format(example="3" if form == "integer" else form.format(n=3))
    if form == "integer":
        return {"type": "integer", "minimum": 0, "description": told}
    pattern = "^" + re.escape(form).replace(r"\{n\}", r"\d+") + "$"
    return {"type": "string", "pattern": pattern, "description": told}


@operator(
    "tool_schemas.labels",
    stage=26,
    group="labels",
    removes="true is written true, and an enum's values say what they are",
)
def labels(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Yes/no arguments get two labels; an enum's values get others, explained."""
    free = _free_arguments(harness)
    yes, no = lexicon.choose(rng, "yes_no").split("/")
    code = lexicon.choose(rng, "enum_labels")
    made: dict[str, Tool] = {}
    for tool in harness.tools:
        tool_ = explicit(tool)
        properties, moved = _properties(tool_), list(tool_.binding.arguments)
        for i, entry in enumerate(moved):
            schema = any_mapping(properties.get(entry.source))
            if entry.source not in free[tool.key] or entry.labels or not schema:
                continue
            if schema.get("type") == "boolean" and not entry.convert:
                about = _meaning(tool, entry.source, lexicon).rstrip(".。")
                properties[entry.source] = {"type": "string", "enum": [yes, no], "description": f"{about}: {yes}/{no}"}
                moved[i] = entry.model_copy(update={"labels": {yes: True, no: False}})
            elif "enum" in schema and all(isinstance(v, str) for v in schema["enum"]) and not entry.convert:
                named = {f"{code}{n}": v for n, v in enumerate(schema["enum"], 1)}
                told = ", ".join(f"{k} = {v}" for k, v in named.items())
                about = _described(schema)
                properties[entry.source] = {
                    **schema, "enum": list(named), "description": f"{about} {told}".strip()
                }  # fmt: skip
                moved[i] = entry.model_copy(update={"labels": dict(named)})
        if properties != _properties(tool):
            shown = _bound(tool_, _schema(tool_, properties), moved)
            told = {n: _described(s) for n, s in properties.items() if s != _properties(tool_).get(n)}
            made[tool.key] = _explained(shown, told, lexicon, harness)
    return Edit(_tools(harness, made), {"yes": yes, "no": no, "code": code}) if made else None


@operator(
    "tool_schemas.optional_extras",
    stage=14,
    group="extras",
    removes="every argument that is offered is wanted",
)
def optional_extras(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Optional parameters of the operation that the base did not show; nobody needs them."""
    operations = shop_operations()
    made: dict[str, Tool] = {}
    for tool in harness.tools:
        operation = operations.get(tool.binding.operation)
        if operation is None:
            continue
        tool_ = explicit(tool)
        filled = {m.to for m in tool_.binding.arguments}
        properties = _properties(tool_)
        wanted: Mapping[str, Any] = operation.parameters.get("properties", {})
        needed = operation.parameters.get("required", ())
        spare = [n for n in wanted if n not in filled and n not in properties and n not in needed]
        if not spare or rng.random() < 0.3:
            continue
        added = list(tool_.binding.arguments)
        for name in rng.sample(spare, rng.randint(1, len(spare))):
            about = lexicon.entries("parameter_meanings", name)
            schema = deepcopy(any_mapping(wanted[name]))
            schema.pop("default", None)
            properties[name] = {**schema, "description": about[0]} if about else schema
            added.append(ArgumentMap(to=name, source=name))
        made[tool.key] = _bound(tool_, _schema(tool_, properties), added)
    return Edit(_tools(harness, made), {"tools": list(made)}) if made else None


# -------------------------------------------------------------------------- description and result forms


@operator(
    "tool_schemas.description_form",
    stage=20,
    group="tool-form",
    removes="tools are described in one notation",
)
def description_form(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    forms = [f for f in lexicon.entries("tool_forms") if f != harness.rendering.tools]
    if not forms:
        return None
    form = rng.choice(forms)
    rendering = {**harness.rendering.model_dump(), "tools": form}
    return Edit(harness.replace(rendering=rendering), {"form": form})


def _results(harness: Harness) -> list[Tool]:
    """Tools whose result has fields: not the runtime's, which give text."""
    return [t for t in harness.tools if t.binding.operation not in RUNTIME_OPERATIONS and not _constant(t)]


def _constant(tool: Tool) -> bool:
    return tool.result.style == "prose" and "{" not in tool.result.template


@operator(
    "tool_schemas.result_form",
    stage=20,
    group="result-form",
    removes="results come in one notation",
)
def result_form(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    forms = lexicon.entries("result_forms")
    one = rng.choice(forms)
    mixed = rng.random() < 0.3
    made: dict[str, Tool] = {}
    for tool in _results(harness):
        form = rng.choice(forms) if mixed else one
        update: dict[str, Any] = {"style": form, "template": ""}
        if form == "prose":
            update["template"] = lexicon.choose(rng, "result_templates")
        made[tool.key] = changed(tool, result=ResultFormat(**{**tool.result.model_dump(), **update}))
    harness_ = _tools(harness, made)
    return None if harness_ == harness else Edit(harness_, {"form": "mixed" if mixed else one})


@operator(
    "tool_schemas.result_fields",
    stage=28,
    group="result-fields",
    removes="a result's fields have known names",
)
def result_fields(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Fields of results are called otherwise, throughout. A template of the base's own reads fields by name, so
    its tool keeps them."""
    names = {f: n for f in lexicon.keys("result_fields") if (n := lexicon.choose(rng, "result_fields", f))}
    kept = set(rng.sample(sorted(names), len(names) // 3))
    names = {f: n for f, n in names.items() if f not in kept and n not in names}
    made: dict[str, Tool] = {}
    generic = set(lexicon.entries("result_templates"))
    for tool in _results(harness):
        if tool.result.template and tool.result.template not in generic:
            continue
        made[tool.key] = changed(tool, result=changed(tool.result, rename={**tool.result.rename, **names}))
    if not made or not names:
        return None
    renamed = tuple(Renamed(what="field", key="", old=f, new=n) for f, n in names.items())
    return Edit(_tools(harness, made), {}, renamed)


_PAGED = ("catalog.search", "promotions.list", "stock.check", "faq.search", "catalog.compare")


@operator(
    "tool_schemas.pagination",
    stage=16,
    group="pages",
    removes="a result is all there is",
)
def pagination(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Long lists come in pages, with an argument for the page. Pages are long enough for what tasks ask."""
    kept = pinned(harness)
    size = int(lexicon.choose(rng, "page_sizes"))
    name = lexicon.choose(rng, "page_names")
    made: dict[str, Tool] = {}
    for tool in _results(harness):
        if tool.binding.operation not in _PAGED or tool.result.page_size or tool.result.template:
            continue
        if name in kept or name in _properties(tool):
            continue
        about = lexicon.choose(rng, "page_meanings")
        properties = {**_properties(tool), name: {"type": "integer", "minimum": 1, "description": about}}
        bound = (*tool.binding.arguments, ArgumentMap(to="page", source=name))
        paged = _bound(tool, _schema(tool, properties), bound)
        made[tool.key] = changed(paged, result=changed(tool.result, page_size=size))
    return Edit(_tools(harness, made), {"size": size, "argument": name}) if made else None


@operator(
    "tool_schemas.distractors",
    stage=11,
    group="tool-distractors",
    removes="every tool that is offered is of use",
)
def distractors(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Tools that no task needs: bound to the read-only state of the room, and always answering the same."""
    entries = lexicon.entries("distractor_tools")
    chosen = rng.sample(entries, min(len(entries), rng.randint(1, 3)))
    tools, taken = list(harness.tools), names_taken(harness)
    keys = {t.key for t in tools}
    added: list[str] = []
    for entry in chosen:
        name, about, answer = (part.strip() for part in entry.split("//"))
        name = fresh(name, taken)
        key = fresh(f"distractor-{name}", keys)
        taken.add(name)
        keys.add(key)
        added.append(key)
        made = Tool(
            key=key,
            name=name,
            description=about,
            input_schema={"type": "object", "properties": {}, "additionalProperties": False},
            annotations={"readOnlyHint": True},
            binding=Binding(operation="room.state"),
            result=ResultFormat(style="prose", template=answer),
        )
        tools.insert(rng.randint(0, len(tools)), made)
    return Edit(harness.replace(tools=tuple(tools)), {"added": list(added)})
