"""Prompt assembly: sections in order, what never changes first.

Release sections make the system message and are rendered once per release: that text is the model server's
cached prefix. Room and request sections make the user message. Templates run in Jinja's sandbox; a name they
use that does not exist is an error, never an empty string.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from xml.sax.saxutils import escape

from jinja2 import StrictUndefined, Template
from jinja2.sandbox import SandboxedEnvironment

from livery.harness.hooks.decisions import PromptValue
from livery.harness.model import Harness, Rendering, Section, Skill, Tool
from livery.harness.skills import catalogue_description

CALL_FORMAT = '<tool_call>\n{"name": "TOOL", "arguments": {"ARGUMENT": "VALUE"}}\n</tool_call>'
"""The form of `livery.policies.wire`, as prompts show it."""

ENVIRONMENT = SandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)


def compiled(source: str) -> Template:
    """A template of a harness.

    Raises:
        jinja2.TemplateSyntaxError: it does not compile.
    """
    template = ENVIRONMENT.from_string(source)
    # Jinja gives each template a ChainMap, and copies it key by key at every rendering.
    template.globals = dict(ENVIRONMENT.globals)  # pyright: ignore
    return template


class PromptTemplates:
    """A harness's sections, compiled; the release part rendered once for each kind of actions."""

    def __init__(self, harness: Harness, tools: Sequence[Tool]) -> None:
        """
        Args:
            tools: every tool that is shown, the runtime's own and MCP tools included, in order.
        """
        self._harness = harness
        self._sections = [(s, compiled(s.template)) for s in harness.sections]
        self._static: dict[str, Any] = {
            "harness": {
                "name": harness.name,
                "description": harness.description,
                "language": harness.language,
            },
            "limits": harness.limits.model_dump(),
            "skills": [
                {"name": s.name, "description": catalogue_description(s), "kind": s.kind} for s in harness.skills
            ],
            "skills_catalogue": render_skills(harness.skills, harness.rendering),
            "reply_skills": [s.name for s in harness.skills if s.kind == "reply"],
            "strategy_skills": [s.name for s in harness.skills if s.kind == "strategy"],
            "call_format": CALL_FORMAT,
            "reasoning": harness.rendering.reasoning,
        }
        self._tools = render_tools(tools, harness.rendering)
        self._tool_names = [t.name for t in tools]
        self._systems: dict[str, str] = {}

    def system(self, actions: Literal["text", "native"]) -> str:
        """The unchanging prefix. With native function calling the tools are not written into it."""
        if actions not in self._systems:
            variables = self._variables(actions)
            self._systems[actions] = self._join(
                [(s, t) for s, t in self._sections if s.volatility == "release"], variables
            )
        return self._systems[actions]

    def render(self, actions: Literal["text", "native"], facts: Mapping[str, Any]) -> PromptValue:
        """The whole prompt.

        Args:
            facts: the volatile variables (``room``, ``item``, ``item_text``, ``messages``, ``chat``,
                ``dialogue``,
                ``now``, ``today``).
        """
        variables = {**self._variables(actions), **facts}
        volatile = [(s, t) for s, t in self._sections if s.volatility != "release"]
        return PromptValue(system=self.system(actions), user=self._join(volatile, variables))

    def evidence(self, actions: Literal["text", "native"], facts: Mapping[str, Any]) -> tuple[str, ...]:
        """Text of the sections that state facts."""
        variables = {**self._variables(actions), **facts}
        return tuple(t.render(variables) for s, t in self._sections if s.facts)

    def _variables(self, actions: Literal["text", "native"]) -> dict[str, Any]:
        native = actions == "native"
        return {
            **self._static,
            "tools": "" if native else self._tools,
            "tool_names": self._tool_names,
            "native_tools": native,
        }

    def _join(self, sections: Sequence[tuple[Section, Template]], variables: Mapping[str, Any]) -> str:
        heading = self._harness.rendering.heading
        parts: list[str] = []
        for section, template in sections:
            body = template.render(variables).strip()
            if body:
                parts.append(_with_heading(section.title, body, heading, len(parts) + 1))
        return "\n\n".join(parts)


def _with_heading(title: str, body: str, style: str, number: int) -> str:
    if not title:
        return body
    if style == "xml":
        tag = "".join(c if c.isalnum() else "_" for c in title.strip().lower())
        return f"<{tag}>\n{body}\n</{tag}>"
    prefix = {"markdown": f"## {title}", "plain": f"{title}:", "numbered": f"{number}. {title}"}[style]
    return f"{prefix}\n{body}"


def render_skills(skills: Sequence[Skill], how: Rendering) -> str:
    """The catalogue: one entry a skill, name and description; bodies come by ``load_skill``."""
    about = [(s.name, catalogue_description(s)) for s in skills]
    if how.skills == "xml":
        return "\n".join(f'<skill name="{escape(name)}">{escape(text)}</skill>' for name, text in about)
    if how.skills == "table":
        rows = [f"| {name} | {text} |" for name, text in about]
        return "\n".join(["| skill | when |", "|---|---|", *rows])
    return "\n".join(f"- {name}: {text}" for name, text in about)


def render_tools(tools: Sequence[Tool], how: Rendering) -> str:
    """The tools, as the rendering says."""
    write = {
        "json_schema": _tool_as_json,
        "signature": _tool_as_signature,
        "typescript": _tool_as_typescript,
        "prose": _tool_as_prose,
    }[how.tools]
    return "\n".join(write(t) for t in tools)


def _tool_as_json(tool: Tool) -> str:
    shown = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return json.dumps(shown, ensure_ascii=False)


def _parameters(tool: Tool) -> list[tuple[str, Mapping[str, Any], bool]]:
    required = set(tool.input_schema.get("required", ()))
    properties: Mapping[str, Mapping[str, Any]] = tool.input_schema.get("properties", {})
    return [(name, schema, name in required) for name, schema in properties.items()]


def _tool_as_signature(tool: Tool) -> str:
    arguments = ", ".join(f"{n}{'' if needed else '?'}" for n, _, needed in _parameters(tool))
    return f"- {tool.name}({arguments}): {tool.description}"


def _tool_as_typescript(tool: Tool) -> str:
    arguments = "; ".join(f"{n}{'' if needed else '?'}: {_ts_type(s)}" for n, s, needed in _parameters(tool))
    return f"// {tool.description}\nfunction {tool.name}(args: {{ {arguments} }}): Result;"


def _ts_type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(json.dumps(v, ensure_ascii=False) for v in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array":
        return f"{_ts_type(schema.get('items', {}))}[]"
    if kind == "object":
        inner = "; ".join(f"{n}: {_ts_type(s)}" for n, s in schema.get("properties", {}).items())
        return f"{{ {inner} }}"
    return {"integer": "number"}.get(str(kind), str(kind))


def _tool_as_prose(tool: Tool) -> str:
    lines = [f"{tool.name}: {tool.description}"]
    for name, schema, needed in _parameters(tool):
        about = schema.get("description", "")
        kind = schema.get("type", "any")
        lines.append(f"  {name} ({kind}, {'required' if needed else 'optional'}){': ' + about if about else ''}")
    return "\n".join(lines)
