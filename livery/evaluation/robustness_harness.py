"""Harnesses of T3: a base made noisy, crowded, long or written in another form, its operations and facts untouched.

The levels of name noise are RoTBench's (Ye et al. 2024, arXiv 2401.08326): inserted, left out and replaced characters
(slight), reversed and meaningless names (medium), exchanged names and added mandatory arguments (heavy), all at once
(union). The grid of formats is in the spirit of BFCL's format sensitivity. Each function is pure: a harness and a
random stream make the same harness again. Names that hooks or conditions spell out in code stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from string import ascii_lowercase
from typing import Any, Final, Literal

import yaml

from livery.augment.lexicon import language_of, lexicon
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
from livery.augment.operators import any_mapping
from livery.augment.wording import joiner
from livery.evaluation.robustness_words import lines, parts, said, words
from livery.harness.lint_tools import RUNTIME_OPERATIONS
from livery.harness.model import Binding, Harness, ResultFormat, Section, Skill, Tool

DISTRACTORS: Final = 6
"""Tools, or skills, that no task needs; they sound close to those that tasks need."""
LONG: Final = 3.0
"""How many times as long the unchanging prompt becomes."""
NOISY: Final = 6
"""One character of so many is touched, one at least."""
_LONGEST: Final = 64

Coin = Callable[[str, Random], str]
"""A name's new form."""


# --------------------------------------------------------------------------------------- name noise


def noisy(name: str, rng: Random) -> str:
    """Characters inserted, left out or replaced; the first one stays."""
    made = list(name)
    for _ in range(max(1, len(name) // NOISY)):
        at = rng.randrange(1, len(made)) if len(made) > 1 else 1
        how = rng.choice(("insert", "omit", "replace")) if len(made) > 3 else "insert"
        if how == "insert":
            made.insert(at, rng.choice(ascii_lowercase))
        elif how == "omit":
            del made[at]
        else:
            made[at] = rng.choice([c for c in ascii_lowercase if c != made[at]])
    return "".join(made)


def reversed_name(name: str, rng: Random) -> str:
    return name[::-1]


def meaningless(name: str, rng: Random) -> str:
    """Six to ten random letters."""
    return "".join(rng.choice(ascii_lowercase) for _ in range(rng.randint(6, 10)))


def mixed(name: str, rng: Random) -> str:
    return rng.choice((noisy, reversed_name, meaningless))(name, rng)


def with_names(harness: Harness, rng: Random, coin: Coin, *, explain: bool = True) -> Harness:
    """Every tool and argument that may be renamed gets a new name; prompt, skills and hooks follow.

    Args:
        explain: say in the schema, and where the prompt hides it in the description, what an argument means.
    """
    tools = movable_tools(harness)
    staying = names_taken(harness) - {t.name for t in tools}
    named = unique_names([(t.key, _other(t.name, coin, rng)) for t in tools], staying)
    arguments: dict[str, dict[str, str]] = {}
    for tool, free in _free_arguments(harness):
        kept = [n for n in _properties(tool) if n not in free]
        arguments[tool.key] = unique_names([(n, _other(n, coin, rng)) for n in free], kept)
    return _renamed(harness, named, arguments, explain=explain)


def _other(name: str, coin: Coin, rng: Random) -> str:
    """A form that is not the name itself (a palindrome is no noise)."""
    made = coin(name, rng)
    return (made if made != name else noisy(name, rng))[:_LONGEST]


def with_names_exchanged(harness: Harness, rng: Random) -> Harness:
    """The shop's tools pass their names round, and so do the arguments of each tool. The runtime's own tools keep
    theirs: texts must be able to say what to load."""
    tools = [t for t in movable_tools(harness) if t.binding.operation not in RUNTIME_OPERATIONS]
    named = _passed_round([t.name for t in tools], rng)
    arguments = {
        tool.key: _passed_round(free, rng)
        for tool, free in _free_arguments(harness)
        if tool.binding.operation not in RUNTIME_OPERATIONS
    }
    return _renamed(harness, {t.key: named[t.name] for t in tools if t.name in named}, arguments, explain=True)


def _passed_round(names: Sequence[str], rng: Random) -> dict[str, str]:
    """Every name becomes another of them; nothing where there are fewer than two."""
    order = list(names)
    rng.shuffle(order)
    return dict(zip(order, order[1:] + order[:1], strict=True)) if len(order) > 1 else {}


def _properties(tool: Tool) -> dict[str, Any]:
    return dict(tool.input_schema.get("properties", {}))


def _free_arguments(harness: Harness) -> list[tuple[Tool, list[str]]]:
    kept = pinned(harness)
    return [(t, [n for n in _properties(t) if n not in kept]) for t in harness.tools]


def _renamed(
    harness: Harness, tools: Mapping[str, str], arguments: Mapping[str, Mapping[str, str]], *, explain: bool
) -> Harness:
    meanings = {
        t.key: {new: _meaning(harness, t, old) for old, new in arguments.get(t.key, {}).items()} for t in harness.tools
    }
    made = rename(harness, tools=tools, arguments={k: v for k, v in arguments.items() if v})
    if not explain:
        return made
    return made.replace(tools=tuple(_explained(made, t, meanings[t.key]) for t in made.tools))


def _meaning(harness: Harness, tool: Tool, name: str) -> str:
    """What an argument means: its own description, else what its operation's parameter is, else its name's words."""
    own = str(any_mapping(_properties(tool).get(name)).get("description", ""))
    to = next((m.to for m in explicit(tool).binding.arguments if m.source == name), "")
    known = lexicon(language_of(harness.language), "train").entries("parameter_meanings", to) if to else ()
    return own or (known[0] if known else " ".join(words_of(name)) or name)


def _explained(harness: Harness, tool: Tool, meanings: Mapping[str, str]) -> Tool:
    """The tool with its arguments described, in its description too where the prompt shows no more than their names."""
    if not meanings:
        return tool
    properties = {
        n: {**any_mapping(s), "description": meanings[n]} if n in meanings else s for n, s in _properties(tool).items()
    }
    tool = changed(tool, input_schema={**tool.input_schema, "properties": properties})
    if harness.rendering.tools in ("json_schema", "prose"):
        return tool
    told = "; ".join(f"{n} = {m.rstrip('.。')}" for n, m in meanings.items())
    mark = f"参数:{told}。" if language_of(harness.language) == "zh" else f"Arguments: {told}."
    return changed(tool, description=f"{tool.description}{joiner(tool.description)}{mark}")


# ---------------------------------------------------------------------------------- more than is needed


def with_extra_arguments(harness: Harness, rng: Random) -> Harness:
    """Every tool of the shop demands one argument more. Its value is fixed and told; another is refused."""
    entries = lines(language_of(harness.language), "extra_arguments")
    made: list[Tool] = []
    for tool in harness.tools:
        properties = list(_properties(tool).items())
        free = [e for e in entries if parts(e)[0] not in dict(properties)]
        if tool.binding.operation in RUNTIME_OPERATIONS or not free:
            made.append(tool)
            continue
        name, schema, told = parts(rng.choice(free))
        wanted = {**yaml.safe_load(schema), "description": told}
        properties.insert(rng.randint(0, len(properties)), (name, wanted))
        required = [*tool.input_schema.get("required", ()), name]
        more = changed(tool, input_schema={**tool.input_schema, "properties": dict(properties), "required": required})
        made.append(_explained(harness, more, {name: told}))
    return harness.replace(tools=tuple(made))


def with_distractor_tools(harness: Harness, rng: Random) -> Harness:
    """Tools that sound like the shop's and always answer that there is nothing."""
    tools, taken, keys = list(harness.tools), names_taken(harness), {t.key for t in harness.tools}
    for entry in rng.sample(lines(language_of(harness.language), "near_tools"), DISTRACTORS):
        name, about, argument, answer = parts(entry)
        name = fresh(name, taken)
        taken.add(name)
        key = fresh(f"distractor-{name}", keys)
        keys.add(key)
        properties = {} if argument == "-" else {argument: {"type": "string"}}
        tool = Tool(
            key=key,
            name=name,
            description=about,
            input_schema={"type": "object", "properties": properties, "additionalProperties": False},
            annotations={"readOnlyHint": True},
            binding=Binding(operation="room.state"),
            result=ResultFormat(style="prose", template=answer),
        )
        tools.insert(rng.randint(0, len(tools)), tool)
    return harness.replace(tools=tuple(tools))


def with_distractor_skills(harness: Harness, rng: Random, count: int = DISTRACTORS) -> Harness:
    """Skills for what no viewer asks. Those that are reply skills may be loaded, and are the wrong ones."""
    skills, taken, keys = list(harness.skills), names_taken(harness), {s.key for s in harness.skills}
    for entry in rng.sample(lines(language_of(harness.language), "near_skills"), count):
        name, kind, about, body = parts(entry)
        name = fresh(name, taken)
        taken.add(name)
        key = fresh(f"distractor-{name}", keys)
        keys.add(key)
        sort: Literal["reply", "strategy"] = "reply" if kind == "reply" else "strategy"
        skills.insert(rng.randint(0, len(skills)), Skill(key=key, name=name, description=about, body=body, kind=sort))
    return harness.replace(skills=tuple(skills))


def with_long_prompt(harness: Harness, rng: Random) -> Harness:
    """The unchanging prompt `LONG` times as long: distractor skills, and notes between the sections that no answer
    needs. Nothing in them counts as fact."""
    language = language_of(harness.language)
    base = prompt_chars(harness)
    harness = with_distractor_skills(harness, rng)
    titles = list(words(language, "note_titles"))
    rng.shuffle(titles)
    missing = LONG * base - prompt_chars(harness)
    gap = "" if language == "zh" else " "
    sections, keys = list(harness.sections), {s.key for s in harness.sections}
    for title in titles:
        text = ""
        while len(text) < missing / len(titles):
            text += f"{gap if text else ''}{said(language, 'notes', rng)}"
        key = fresh("notes", keys)
        keys.add(key)
        last = max((i for i, s in enumerate(sections) if s.volatility == "release"), default=-1)
        sections.insert(rng.randint(0, last + 1), Section(key=key, title=title, template=text))
    limits = harness.limits.model_copy(update={"context_tokens": round(LONG * harness.limits.context_tokens)})
    return harness.replace(sections=tuple(sections), limits=limits)


def prompt_chars(harness: Harness) -> int:
    """Characters of the unchanging prompt, about: sections, skill catalogue, tools."""
    sections = sum(len(s.title) + len(s.template) for s in harness.sections if s.volatility == "release")
    skills = sum(len(s.name) + len(s.description) + 4 for s in harness.skills)
    if harness.rendering.tools == "json_schema":
        return (
            sections
            + skills
            + sum(len(json.dumps([t.name, t.description, t.input_schema], ensure_ascii=False)) for t in harness.tools)
        )
    arguments = sum(len(n) + 2 for t in harness.tools for n in _properties(t))
    return sections + skills + arguments + sum(len(t.name) + len(t.description) + 6 for t in harness.tools)


# ------------------------------------------------------------------------------------ the format grid


@dataclass(frozen=True, slots=True)
class Format:
    """One way to write the prompt and the results."""

    tools: Literal["json_schema", "signature", "typescript", "prose"]
    results: Literal["json", "key_value", "xml"]
    heading: Literal["markdown", "xml", "plain", "numbered"]
    skills: Literal["lines", "xml", "table"]

    @property
    def name(self) -> str:
        return f"{self.tools}-{self.results}".replace("_", "-")


_TOOLS: Final = ("json_schema", "signature", "typescript", "prose")
_RESULTS: Final = ("json", "key_value", "xml")
_HEADINGS: Final = ("markdown", "xml", "plain", "numbered")
_SKILLS: Final = ("lines", "xml", "table")
FORMATS: Final = tuple(
    Format(tool, result, _HEADINGS[(t + r) % 4], _SKILLS[(t + 2 * r) % 3])
    for t, tool in enumerate(_TOOLS)
    for r, result in enumerate(_RESULTS)
)
"""Tools by results in full; each heading stands in three of the twelve, each form of the skill list in four."""


def in_format(harness: Harness, form: Format) -> Harness:
    rendering = {
        **harness.rendering.model_dump(),
        "tools": form.tools,
        "heading": form.heading,
        "skills": form.skills,
    }
    return with_results(harness.replace(rendering=rendering), form.results)


def with_results(
    harness: Harness, style: Literal["json", "key_value", "xml"], operations: frozenset[str] = frozenset()
) -> Harness:
    """Results of the shop's tools in a style, all their fields shown.

    Args:
        operations: only tools of these; empty: all.
    """

    def written(tool: Tool) -> Tool:
        operation = tool.binding.operation
        constant = tool.result.style == "prose" and "{" not in tool.result.template
        if operation in RUNTIME_OPERATIONS or constant or (operations and operation not in operations):
            return tool
        return changed(tool, result=changed(tool.result, style=style, template=""))

    return harness.replace(tools=tuple(written(t) for t in harness.tools))


def unscreened(harness: Harness) -> Harness:
    """Injections in chat reach the policy: hooks that screen requests for them let them pass."""
    return harness.replace(
        hooks=tuple(
            changed(h, params={**h.params, "injection": "allow"}) if h.source == "input_screening" else h
            for h in harness.hooks
        )
    )
