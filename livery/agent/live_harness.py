"""A harness made ready to run: hooks loaded, templates compiled, tools bound, its prompt prefix rendered.

Built once per release and shared by every request under it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Template

from livery.agent.prompt import PromptTemplates, compiled
from livery.harness.hooks.loading import load_hooks
from livery.harness.hooks.run import HookRunner
from livery.harness.lint_tools import LOAD_SKILL, READ_SKILL_FILE, RUNTIME_OPERATIONS
from livery.harness.model import Binding, Harness, ResultFormat, Skill, Tool
from livery.harness.skills import policy_may_load
from livery.policies.policy import ToolSurface
from livery.shop.operations import Operation, Operations


def _default_tool(operation: str, description: str) -> Tool:
    return Tool(
        key=operation,
        name=operation.removeprefix("harness."),
        description=description,
        input_schema=dict(RUNTIME_OPERATIONS[operation]),
        binding=Binding(operation=operation),
        result=ResultFormat(style="prose", template="{{ result }}"),
    )


def _surface(tool: Tool, skills: Sequence[str]) -> ToolSurface:
    """The tool as a policy may see it; for the skill loader with the skill names as the argument's values."""
    schema = tool.input_schema
    if tool.binding.operation == LOAD_SKILL and skills:
        entry = next((m for m in tool.binding.arguments if m.to == "name"), None)
        argument = entry.source if entry else "name"
        # A binding that relabels or converts has a surface of its own, which the tool's schema describes.
        plain = entry is None or not (entry.labels or entry.convert or "." in entry.source)
        if plain and argument in schema.get("properties", {}):
            named = {**schema["properties"][argument], "enum": list(skills)}
            schema = {**schema, "properties": {**schema["properties"], argument: named}}
    return ToolSurface(name=tool.name, description=tool.description, input_schema=schema)


@dataclass(frozen=True, slots=True)
class BoundTool:
    tool: Tool
    parameters: Mapping[str, Any]
    """JSON Schema of the operation's arguments; empty where the operation is not there."""
    template: Template | None
    """Of a prose result."""
    paged: str
    """Surface argument that holds the page number; empty where results are not paged."""


class LiveHarness:
    """What the loop needs of one release."""

    def __init__(
        self,
        harness: Harness,
        release: str,
        operations: Operations,
        *,
        extra_tools: Sequence[Tool] = (),
        extra_operations: Sequence[Operation] = (),
    ) -> None:
        """
        Args:
            release: its digest.
            operations: what tools may be bound to.
            extra_tools: tools of the harness's MCP servers.
            extra_operations: what those are bound to.

        Raises:
            InputError: a hook that cannot be loaded.
            jinja2.TemplateError: a template that does not compile or renders with an unknown name.
        """
        offered = tuple(s for s in harness.skills if policy_may_load(s))
        if len(offered) < len(harness.skills):
            harness = harness.replace(skills=offered)
        self.harness = harness
        """As the policy and the hooks know it: without skills that are not for a policy to load."""
        self.release = release
        self.extra = Operations(extra_operations)
        known = operations.joined(extra_operations) if extra_operations else operations
        self.hooks = HookRunner(harness, load_hooks(harness))
        tools = [*harness.tools, *extra_tools]
        bound = {t.binding.operation for t in tools}
        if harness.skills and LOAD_SKILL not in bound:
            tools.append(_default_tool(LOAD_SKILL, "Read a skill's instructions before you follow it."))
        if any(s.files for s in harness.skills) and READ_SKILL_FILE not in bound:
            tools.append(_default_tool(READ_SKILL_FILE, "Read a file that a loaded skill refers to."))
        self.tools: Mapping[str, BoundTool] = {t.name: self._bound(t, known) for t in tools}
        self.skills: Mapping[str, Skill] = {s.name: s for s in harness.skills}
        reply_skills = [s.name for s in harness.skills if s.kind == "reply"]
        self.needs_reply_skill = bool(reply_skills)
        self.surfaces = tuple(_surface(t, list(self.skills)) for t in tools)
        """Every tool. The skill loader names the skills in its schema: a grammar holds a policy to them."""
        self.reply_skill_surfaces = tuple(_surface(t, reply_skills) for t in tools if t.binding.operation == LOAD_SKILL)
        """Only the skill loader, and only for reply skills: what is left when one is due at last."""
        self.prompt = PromptTemplates(harness, tools)
        self.feedback = compiled(harness.feedback.template)

    @staticmethod
    def _bound(tool: Tool, operations: Operations) -> BoundTool:
        name = tool.binding.operation
        operation = operations.get(name)
        parameters = RUNTIME_OPERATIONS.get(name) or (operation.parameters if operation else {})
        paged = next((m.source for m in tool.binding.arguments if m.to == "page"), "") if tool.result.page_size else ""
        template = compiled(tool.result.template) if tool.result.template else None
        return BoundTool(tool=tool, parameters=parameters, template=template, paged=paged)
