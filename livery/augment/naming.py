"""Renaming skills, tools and arguments so that every text which speaks of them follows.

Mentions are found in prompt sections (outside Jinja), skill descriptions, bodies and files, tool descriptions, hook
messages and rule conditions. A name that looks like an identifier is followed wherever it stands; an ordinary word only
in backticks. What a Python hook's source names is pinned: code cannot be rewritten safely.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from livery.harness.lint_tools import RUNTIME_OPERATIONS
from livery.harness.model import ArgumentMap, Harness, Hook, Skill, Tool

_JINJA = re.compile(r"(\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\})", re.DOTALL)
_IDENTIFIER = re.compile(
    r"[A-Za-z][A-Za-z0-9]*(?:[-_.:/][A-Za-z0-9]+)+|[a-z]+[0-9]\w*|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*"
)
_QUOTED = re.compile(r"""(["'])([\w.:/-]{1,80})\1""")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[\u4e00-\u9fff]+")

Follow = Callable[[str], str]


def words_of(name: str) -> list[str]:
    """The words a name is made of, in lower case: ``priceCheck``, ``price-check`` -> price, check."""
    return [w.lower() for w in _WORD.findall(name)]


def fresh(name: str, taken: Collection[str]) -> str:
    """``name``, or with a number after it where it is taken (letter case does not count)."""
    used = {t.casefold() for t in taken}
    made, n = name, 2
    while made.casefold() in used:
        made, n = f"{name}{'_' if '_' in name else '-' if '-' in name else ''}{n}", n + 1
    return made


def outside_jinja(text: str, change: Follow) -> str:
    """``change`` applied to the text between Jinja expressions and statements."""
    if "{" not in text:
        return change(text)
    return "".join(part if i % 2 else change(part) for i, part in enumerate(_JINJA.split(text)))


@lru_cache(maxsize=256)
def _literals(source: str) -> frozenset[str]:
    return frozenset(m[2] for m in _QUOTED.finditer(source))


def pinned(harness: Harness) -> frozenset[str]:
    """Names of skills, tools and arguments that must stay: Python hooks or Jinja conditions name them in code, or a
    rule's condition does (by key or name, so that a swapped name would be read as both)."""
    found: set[str] = set()
    for section in harness.sections:
        if "{" in section.template:
            found.update(*(_literals(part) for part in _JINJA.findall(section.template)))
    for hook in harness.hooks:
        if hook.kind == "python":
            found |= _literals(hook.source)
        elif hook.kind == "rules":
            for rule in cast("list[dict[str, Any]]", hook.params.get("rules", [])):
                for side in ("when", "unless"):
                    found.update(_conditions(cast("dict[str, Any]", rule.get(side) or {})))
    return frozenset(found)


def _conditions(when: Mapping[str, Any]) -> Iterator[str]:
    for name in ("skill_loaded", "not_loaded", "tool"):
        value = when.get(name, [])
        yield from [value] if isinstance(value, str) else cast("list[str]", value)
    for path in cast("dict[str, Any]", when.get("arguments") or {}):
        yield str(path).split(".")[0]


_MENTION = re.compile(
    r"(?<=`)(?P<ticked>[^`\n(]{1,100})(?=[`(])"
    r"|(?<![A-Za-z0-9_./:~-])(?P<loose>[A-Za-z][A-Za-z0-9]*(?:[-_.:/~]+[A-Za-z0-9]+)*)(?![A-Za-z0-9_-])"
)


@lru_cache(maxsize=8192)
def _mentioned(text: str) -> frozenset[str]:
    """Everything in a text that could be a name."""
    return frozenset(m[0] for m in _MENTION.finditer(text))


def mentioned(text: str) -> frozenset[str]:
    """Names that a text mentions: what stands in backticks, and what looks like an identifier."""
    return frozenset(m[0] for m in _MENTION.finditer(text) if m.lastgroup == "ticked" or _IDENTIFIER.fullmatch(m[0]))


def follower(renames: Mapping[str, str]) -> Follow:
    """Replaces mentions of the old names, all at once, so that swapped names do not meet."""

    def put(match: re.Match[str]) -> str:
        found = match[0]
        new = renames.get(found)
        if new is None:
            return found
        if match.lastgroup == "ticked":
            return new
        if not _IDENTIFIER.fullmatch(found):
            return found  # an ordinary word
        # A plain word would not be found again by the next rename, nor read as a name by a policy.
        return new if _IDENTIFIER.fullmatch(new) else f"`{new}`"

    def follow(text: str) -> str:
        return text if renames.keys().isdisjoint(_mentioned(text)) else _MENTION.sub(put, text)

    return follow


def rename(
    harness: Harness,
    *,
    skills: Mapping[str, str] | None = None,
    tools: Mapping[str, str] | None = None,
    arguments: Mapping[str, Mapping[str, str]] | None = None,
) -> Harness:
    """Give skills and tools (by key) new names, and arguments (tool key -> old -> new), and let all texts follow."""
    skills, tools, arguments = skills or {}, tools or {}, arguments or {}
    if not (skills or tools or arguments):
        return harness
    skill_names = {s.name: skills[s.key] for s in harness.skills if s.key in skills}
    tool_names = {t.name: tools[t.key] for t in harness.tools if t.key in tools}
    both = {**tool_names, **skill_names}
    follow = follower(both)
    ticked = follower(_unambiguous(harness, arguments))
    changed_tools = tuple(
        _renamed_tool(t, tools.get(t.key, t.name), arguments.get(t.key, {}), follow) for t in harness.tools
    )

    def prose(text: str) -> str:
        return ticked(follow(text))

    return harness.replace(
        tools=changed_tools,
        skills=tuple(_renamed_skill(s, skills.get(s.key, s.name), prose, tool_names) for s in harness.skills),
        sections=tuple(changed(s, template=outside_jinja(s.template, prose)) for s in harness.sections),
        hooks=tuple(_followed_hook(h, follow) for h in harness.hooks),
        feedback=changed(harness.feedback, template=outside_jinja(harness.feedback.template, follow)),
    )


def changed(value: Any, **changes: Any) -> Any:
    """A frozen model with fields changed, itself where nothing is."""
    kept = {k: v for k, v in changes.items() if getattr(value, k) != v}
    return value.model_copy(update=kept) if kept else value


def _unambiguous(harness: Harness, arguments: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Argument renames that hold in every tool which has the argument."""
    found: dict[str, set[str]] = {}
    taken = {t.name for t in harness.tools} | {s.name for s in harness.skills}
    for tool in harness.tools:
        for name in tool.input_schema.get("properties", {}):
            found.setdefault(name, set()).add(arguments.get(tool.key, {}).get(name, name))
    only = {old: next(iter(new)) for old, new in found.items() if len(new) == 1}
    # Only in backticks: an argument's name is often an ordinary word.
    return {old: new for old, new in only.items() if new != old and old not in taken}


def _renamed_tool(tool: Tool, name: str, arguments: Mapping[str, str], follow: Follow) -> Tool:
    tool = changed(tool, name=name, description=follow(tool.description))
    return rename_arguments(tool, arguments) if arguments else tool


def rename_arguments(tool: Tool, arguments: Mapping[str, str]) -> Tool:
    """The tool with its top arguments renamed, bound to what they were bound to."""
    tool = explicit(tool)
    schema = dict(tool.input_schema)
    schema["properties"] = {arguments.get(n, n): s for n, s in schema.get("properties", {}).items()}
    if "required" in schema:
        schema["required"] = [arguments.get(n, n) for n in schema["required"]]
    bound = tuple(changed(m, source=_moved(m.source, arguments)) for m in tool.binding.arguments)
    return tool.model_copy(
        update={"input_schema": schema, "binding": tool.binding.model_copy(update={"arguments": bound})}
    )


def _moved(source: str, arguments: Mapping[str, str]) -> str:
    if source in arguments:
        return arguments[source]
    head, dot, rest = source.partition(".")
    return f"{arguments.get(head, head)}{dot}{rest}"


def explicit(tool: Tool) -> Tool:
    """The tool with a binding entry for every argument, so that arguments may be renamed."""
    properties: Mapping[str, Any] = tool.input_schema.get("properties", {})
    used = {m.source if m.source in properties else m.source.split(".")[0] for m in tool.binding.arguments}
    mapped = {m.to for m in tool.binding.arguments}
    added = tuple(ArgumentMap(to=n, source=n) for n in properties if n not in used and n not in mapped)
    if not added:
        return tool
    binding = tool.binding.model_copy(update={"arguments": (*tool.binding.arguments, *added)})
    return tool.model_copy(update={"binding": binding})


def _renamed_skill(skill: Skill, name: str, follow: Follow, tools: Mapping[str, str]) -> Skill:
    allowed = skill.allowed_tools
    if allowed and tools:
        allowed = " ".join(tools.get(n, n) for n in allowed.split(" "))
    extra = {k: follow(v) if isinstance(v, str) else v for k, v in skill.extra.items()}
    files = tuple(changed(f, content=follow(f.content)) if f.encoding == "utf-8" else f for f in skill.files)
    return changed(
        skill,
        name=name,
        description=follow(skill.description),
        body=follow(skill.body),
        allowed_tools=allowed,
        extra=extra,
        files=files,
    )


def _followed_hook(hook: Hook, follow: Follow) -> Hook:
    feedback = outside_jinja(hook.feedback, follow) if hook.feedback else ""
    if hook.kind != "rules":
        return changed(hook, feedback=feedback)
    rules = [
        {**rule, "message": follow(str(rule["message"]))} if rule.get("message") else rule
        for rule in cast("list[dict[str, Any]]", hook.params.get("rules", []))
    ]
    return changed(hook, feedback=feedback, params={**hook.params, "rules": rules})


def movable_tools(harness: Harness) -> list[Tool]:
    """Tools that may be renamed: neither pinned nor an MCP server's own."""
    kept = pinned(harness)
    return [t for t in harness.tools if t.name not in kept and t.key not in kept]


def movable_skills(harness: Harness) -> list[Skill]:
    kept = pinned(harness)
    return [s for s in harness.skills if s.name not in kept and s.key not in kept]


def names_taken(harness: Harness) -> set[str]:
    """Names that a new skill or tool must not have."""
    runtime = {operation.removeprefix("harness.") for operation in RUNTIME_OPERATIONS}
    return {t.name for t in harness.tools} | {s.name for s in harness.skills} | runtime


def unique_names(wanted: Sequence[tuple[str, str]], taken: Collection[str]) -> dict[str, str]:
    """key -> name, with clashes among them and with ``taken`` numbered away."""
    used = set(taken)
    made: dict[str, str] = {}
    for key, name in wanted:
        made[key] = fresh(name, used)
        used.add(made[key])
    return made
