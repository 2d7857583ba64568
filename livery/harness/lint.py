"""Whether a harness that loads is a good one: strict checks with stable codes, before it meets an audience.

`lint` looks at the value alone, so it serves folders, stored releases and variants in memory alike; with the
``sources`` of a loaded folder its findings have lines. Errors are what would fail or mislead in the room,
warnings what is likely a slip. It runs no hook and renders no template. Bindings of tools are checked in
`livery.harness.lint_tools`.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

from jinja2 import Environment, TemplateSyntaxError, meta, nodes
from pydantic import BaseModel, ValidationError

from livery.errors import InputError, Problem
from livery.harness.hooks.rules import compile_rules
from livery.harness.lint_tools import LOAD_SKILL, READ_SKILL_FILE, check_tool
from livery.harness.model import Harness, Hook, Section, Skill
from livery.harness.skills import SURFACE, catalogue_description, check_skill, policy_may_load, surface_message
from livery.harness.source import YamlSource, closest, field_name, one_of, shown_value
from livery.types import Checkpoint

PROMPT_VARIABLES = frozenset(
    {
        "harness", "limits", "skills", "skills_catalogue", "reply_skills", "strategy_skills", "tools",
        "tool_names", "native_tools", "call_format", "reasoning",
    }
)  # fmt: skip
"""What every section's template may use."""
REQUEST_VARIABLES = frozenset({"room", "item", "item_text", "messages", "chat", "dialogue", "now", "today"})
"""What sections of volatility ``room`` and ``request`` may use besides."""

_RUNTIME_TOOLS = {LOAD_SKILL: "load_skill", READ_SKILL_FILE: "read_skill_file"}

ESSENTIAL_HOOKS = (
    "input_screening",
    "argument_schema",
    "reply_skill_required",
    "speech_format",
    "grounding",
    "banned_claims",
    "promises",
    "personal_data",
)
"""Built-ins that a live room should not be without."""
_GUARDS = frozenset({"grounding", "banned_claims", "promises", "personal_data"})
"""Built-ins whose crash should stop a reply."""

_STRICT = frozenset(
    {
        "skill-name-missing", "skill-name-mismatch", "skill-name-invalid", "skill-name-long",
        "skill-description-long", "skill-compatibility-long", "skill-duplicate-key", "skill-unknown-field",
        "skill-unquoted", "skill-kind", "skill-facts", "skill-field-type", "skill-metadata-nested",
    }
)  # fmt: skip
"""What breaks the Agent Skills specification and nothing else: the lenient loader only warns of it."""

_ORDER = {"release": 0, "room": 1, "request": 2}
_TEMPLATES = Environment()
_FILTERS = frozenset(cast("dict[str, Any]", _TEMPLATES.filters))  # pyright: ignore[reportUnknownMemberType]
_TESTS = frozenset(cast("dict[str, Any]", _TEMPLATES.tests))  # pyright: ignore[reportUnknownMemberType]
_CJK = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
_NAMED = re.compile(r"`(?P<name>[^\W\d][\w-]*)(?P<call>\()?[^`\n]*`")
_ACTED_ON = re.compile(
    r"(?:\b(?:load|call|use|run|invoke|try)|加载|载入|调用|使用|先用|再用)\s*(?:the\s+)?$", re.IGNORECASE
)
_KIND_FOLLOWS = re.compile(r"^\s*(?:(?:skill|tool)\b|技能|工具)", re.IGNORECASE)


class Builtin(Protocol):
    """What lint needs to know of a built-in hook."""

    @property
    def checkpoint(self) -> Checkpoint: ...

    @property
    def mode(self) -> str: ...

    @property
    def params(self) -> type[BaseModel]: ...


def lint(
    harness: Harness,
    problems: Iterable[Problem] = (),
    *,
    operations: Mapping[str, Mapping[str, Any]] | None = None,
    builtins: Mapping[str, Builtin] | None = None,
    sources: Mapping[str, YamlSource] | None = None,
    strict: bool = True,
) -> list[Problem]:
    """Everything worth saying about a harness, errors and warnings, by file and line.

    Args:
        problems: what loading said; liberties it took with skills become errors.
        operations: operation -> JSON Schema of its arguments; None leaves bindings unchecked.
        builtins: the registered built-in hooks; None leaves their names and params unchecked.
        sources: where components stand (`LoadedHarness.sources`), for lines.
        strict: whether what breaks only the Agent Skills specification is an error. Where a harness is run
            and not published, a skill folder from elsewhere should not stop it: give False.
    """
    linter = _Linter(harness, operations, builtins, sources or {})
    given = tuple(problems)
    known = {(p.path, p.code) for p in given}
    named = {p.path for p in given if p.field == "name"}
    found = [p for p in linter.run() if (p.path, p.code) not in known and not (p.code == SURFACE and p.path in named)]
    severity = "error" if strict else "warning"
    judged = (replace(p, severity=severity) if p.code in _STRICT else p for p in (*given, *found))
    return sorted(judged, key=lambda p: (p.path, p.line, p.code))


def estimate_tokens(text: str) -> int:
    """A rough count without any tokenizer: one a CJK character, one for four others."""
    wide = len(_CJK.findall(text))
    return wide + -(-(len(text) - wide) // 4)


class _Linter:
    def __init__(
        self,
        harness: Harness,
        operations: Mapping[str, Mapping[str, Any]] | None,
        builtins: Mapping[str, Builtin] | None,
        sources: Mapping[str, YamlSource],
    ) -> None:
        self.h = harness
        self.operations = operations
        self.builtins = builtins
        self.sources = sources
        self.found: list[Problem] = []

    def run(self) -> list[Problem]:
        self.names()
        self.skills()
        self.prompt()
        self.tools()
        self.hooks()
        self.limits()
        self.references()
        return self.found

    def add(
        self,
        component: str,
        code: str,
        message: str,
        *,
        field: str = "",
        severity: str = "error",
        below: int = 0,
    ) -> None:
        """``below``: lines from the field's own to the one meant."""
        source = self.sources.get(component)
        line = source.line(field) if source else 0
        self.found.append(
            Problem(
                path=source.path if source else component,
                field=field,
                line=line + below if line else 0,
                message=message,
                severity=severity,
                code=code,
            )
        )

    def warn(self, component: str, code: str, message: str, *, field: str = "", below: int = 0) -> None:
        self.add(component, code, message, field=field, severity="warning", below=below)

    # -------------------------------------------------------------------------------------- names

    def names(self) -> None:
        for folder, components in (("skills", self.h.skills), ("tools", self.h.tools)):
            first: dict[str, str] = {}
            for c in components:
                if c.name in first:
                    message = f"found the name {c.name!r}, which {first[c.name]!r} has too; a policy cannot choose"
                    self.add(f"{folder}/{c.key}", "name-duplicate", message, field="name")
                first.setdefault(c.name, c.key)
        for folder, keys in {
            "prompt": [s.key for s in self.h.sections],
            "skills": [s.key for s in self.h.skills],
            "tools": [t.key for t in self.h.tools],
            "hooks": [x.key for x in self.h.hooks],
            "servers": [s.name for s in self.h.servers],
        }.items():
            for key, count in Counter(keys).items():
                if count > 1:
                    self.add(f"{folder}/{key}", "key-duplicate", f"found {count} components with the key {key!r}")
        bound = {t.binding.operation for t in self.h.tools}
        for operation, name in _RUNTIME_TOOLS.items():
            tool = self.h.tool_named(name)
            if tool and operation not in bound and self.h.skills:
                message = f"the runtime adds a tool of this name; expected another, or a binding to {operation}"
                self.add(f"tools/{tool.key}", "name-duplicate", message, field="name")

    # ------------------------------------------------------------------------------------- skills

    def skills(self) -> None:
        shown = self.h.rendering.skill_description_chars
        for skill in self.h.skills:
            component = f"skills/{skill.key}"
            faults = check_skill(skill)
            if skill.name != skill.key:
                # A surface of its own; where it came so from a folder without a key, loading has said so.
                if any(p.field == "name" for p in faults):
                    self.warn(component, SURFACE, surface_message(skill.name), field="name")
                faults = [p for p in faults if p.field != "name"]
            for p in faults:
                self.add(component, p.code, p.message, field=p.field, severity=p.severity)
            described = catalogue_description(skill)
            if len(described) > shown:
                message = (
                    f"found {len(described)} characters; expected at most {shown} "
                    "(rendering.skill_description_chars): it would be dropped from the catalogue"
                )
                self.add(component, "skill-description-dropped", message, field="description")
            tools = {t.name for t in self.h.tools}
            for name in skill.allowed_tools.replace(",", " ").split():
                if name not in tools:
                    message = f"found {name!r}{closest(name, tools)}; there is no such tool here"
                    self.warn(component, "skill-allowed-tool", message, field="allowed-tools")
        if not any(s.kind == "reply" and policy_may_load(s) for s in self.h.skills):
            message = "found no skill with `metadata: {livery-kind: reply}`; replies are then given without one"
            self.warn("settings", "skill-no-reply", message, field="skills")
        tokens = estimate_tokens(self.catalogue())
        share = tokens / self.h.limits.context_tokens
        if share > 0.25:
            message = (
                f"the skill catalogue takes about {tokens} of {self.h.limits.context_tokens} context tokens; "
                "expected at most a quarter"
            )
            severity = "error" if share > 0.5 else "warning"
            self.add("settings", "catalogue-long", message, field="skills", severity=severity)

    def catalogue(self) -> str:
        offered = filter(policy_may_load, self.h.skills)
        return "\n".join(f"- {s.name}: {catalogue_description(s)}" for s in offered)

    # ------------------------------------------------------------------------------------- prompt

    def prompt(self) -> None:
        used: set[str] = set()
        latest = self.h.sections[0] if self.h.sections else None
        for section in self.h.sections:
            used |= self.template_variables(section)
            assert latest is not None
            if _ORDER[section.volatility] < _ORDER[latest.volatility]:
                message = (
                    f"this {section.volatility} section stands after {latest.key!r}, which changes by "
                    f"{latest.volatility}; expected stable sections first (the model server's cached prefix)"
                )
                self.warn(f"prompt/{section.key}", "prompt-order", message, field="volatility")
            if _ORDER[section.volatility] >= _ORDER[latest.volatility]:
                latest = section
        shown = {
            "prompt-no-chat": ("error", {"chat", "messages"}, "no section shows the chat", True),
            "prompt-no-skills": (
                "warning",
                {"skills_catalogue", "skills"},
                "no section lists the skills",
                self.h.skills,
            ),
            "prompt-no-tools": (
                "warning",
                {"tools"},
                "no section lists the tools",
                self.h.tools or self.h.skills,
            ),
            "prompt-no-call-format": (
                "warning",
                {"call_format"},
                "no section shows how to write a call",
                self.h.tools,
            ),
        }
        for code, (severity, names, message, wanted) in shown.items():
            if wanted and not names & used:
                wish = " or ".join(f"{{{{ {n} }}}}" for n in sorted(names))
                self.add("settings", code, f"{message}; expected {wish}", field="prompt", severity=severity)
        self.prompt_length(used)

    def template_variables(self, section: Section) -> set[str]:
        component = f"prompt/{section.key}"
        try:
            tree = _TEMPLATES.parse(section.template)
            names = meta.find_undeclared_variables(tree)
        except TemplateSyntaxError as fault:
            message = f"not a valid Jinja template: {fault.message}"
            self.add(component, "template-syntax", message, field="template", below=fault.lineno - 1)
            return set()
        for node in tree.find_all((nodes.Filter, nodes.Test)):  # inside an `if` they fail only when rendered
            kind = "filter" if isinstance(node, nodes.Filter) else "test"
            there_are = _FILTERS if kind == "filter" else _TESTS
            if node.name not in there_are:
                hint = closest(node.name, there_are)
                message = f"found the {kind} {node.name!r}{hint}; Jinja has no such {kind}"
                self.add(component, "template-syntax", message, field="template", below=node.lineno - 1)
        volatile = section.volatility != "release"
        allowed = PROMPT_VARIABLES | REQUEST_VARIABLES if volatile else PROMPT_VARIABLES
        for name in sorted(names - allowed):
            lines = section.template.split("\n")
            below = next((i for i, t in enumerate(lines) if re.search(rf"\b{re.escape(name)}\b", t)), 0)
            if name in REQUEST_VARIABLES:
                message = f"{name!r} is not known in a release section; expected `volatility: room` or `request`"
                self.add(component, "prompt-variable-volatile", message, field="template", below=below)
            else:
                message = f"found the variable {name!r}{closest(name, allowed)}; expected {one_of(allowed)}"
                self.add(component, "prompt-variable-unknown", message, field="template", below=below)
        return names

    def prompt_length(self, used: set[str]) -> None:
        parts = [s.template for s in self.h.sections if s.volatility == "release"]
        if used & {"skills_catalogue", "skills"}:
            parts.append(self.catalogue())
        if "tools" in used:
            parts += [json.dumps([t.name, t.description, t.input_schema], ensure_ascii=False) for t in self.h.tools]
        tokens, limits = estimate_tokens("\n".join(parts)), self.h.limits
        room = limits.context_tokens - limits.turn_tokens
        message = f"the unchanging prompt takes about {tokens} of {limits.context_tokens} context tokens"
        if tokens > room:
            wish = f"expected fewer than {room} (limits.context_tokens less limits.turn_tokens)"
            self.add("settings", "prompt-too-long", f"{message}; {wish}", field="limits.context_tokens")
        elif tokens > 0.6 * room:
            wish = "little is left for the chat, skills and results"
            self.warn("settings", "prompt-long", f"{message}; {wish}", field="limits.context_tokens")

    # -------------------------------------------------------------------------------------- tools

    def tools(self) -> None:
        servers = {s.name for s in self.h.servers}
        for tool in self.h.tools:
            for place, severity, code, message in check_tool(tool, self.operations, servers):
                self.add(f"tools/{tool.key}", code, message, field=field_name(place), severity=severity)
            if tool.timeout_s > self.h.limits.deadline_s:
                message = f"found {tool.timeout_s:g} s; the whole request has {self.h.limits.deadline_s:g} s"
                self.warn(f"tools/{tool.key}", "tool-timeout", message, field="timeout_s")

    # -------------------------------------------------------------------------------------- hooks

    def hooks(self) -> None:
        for hook in self.h.hooks:
            match hook.kind:
                case "builtin":
                    self.builtin(hook)
                case "rules":
                    try:
                        compile_rules(hook, "")
                    except InputError as fault:
                        for p in fault.problems:
                            self.add(f"hooks/{hook.key}", p.code or "hook-rule", p.message, field=p.field)
                case "python":
                    self.python(hook)
            if hook.timeout_s > self.h.limits.deadline_s:
                message = f"found {hook.timeout_s:g} s; the whole request has {self.h.limits.deadline_s:g} s"
                self.warn(f"hooks/{hook.key}", "hook-timeout", message, field="timeout_s")
        if self.builtins is not None:
            have = {x.source for x in self.h.hooks if x.kind == "builtin"}
            for name in ESSENTIAL_HOOKS:
                if name in self.builtins and name not in have:
                    self.warn("settings", "hook-missing", f"found no hook with `builtin: {name}`", field="hooks")

    def builtin(self, hook: Hook) -> None:
        component = f"hooks/{hook.key}"
        if hook.source in _GUARDS and hook.on_failure == "allow":
            message = f"found allow: a reply would be spoken unchecked when {hook.source} crashes; expected block"
            self.warn(component, "hook-failure-mode", message, field="on_failure")
        if self.builtins is None:
            return
        builtin = self.builtins.get(hook.source)
        if builtin is None:
            hint = closest(hook.source, self.builtins)
            message = f"found {hook.source!r}{hint}; expected {one_of(self.builtins)}"
            self.add(component, "hook-unknown-builtin", message, field="builtin")
            return
        if hook.checkpoint != builtin.checkpoint:
            message = f"found {hook.checkpoint}; {hook.source} stands at {builtin.checkpoint}"
            self.add(component, "hook-checkpoint", message, field="checkpoint")
        if builtin.mode == "change" and hook.mode == "check":
            message = f"found check; {hook.source} rewrites, expected `mode: change`"
            self.add(component, "hook-mode", message, field="mode")
        try:
            builtin.params.model_validate(hook.params)
        except ValidationError as fault:
            known = builtin.params.model_fields
            for e in fault.errors(include_url=False):
                name = str(e["loc"][0]) if e["loc"] else ""
                hint = f"{closest(name, known)}; expected {one_of(known)}" if e["type"] == "extra_forbidden" else ""
                message = f"found {shown_value(e['input'])}; {e['msg']}{hint}"
                self.add(component, "hook-params", message, field=field_name(("params", *e["loc"])))

    def python(self, hook: Hook) -> None:
        component = f"hooks/{hook.key}"
        try:
            tree = ast.parse(hook.source)
        except (SyntaxError, ValueError) as fault:
            detail = fault.msg if isinstance(fault, SyntaxError) else str(fault)
            self.add(component, "hook-syntax", f"not valid Python: {detail}")
            return
        if "check" not in set(_defined(tree)):
            message = "found no `check`; expected a function check(value, context)"
            self.add(component, "hook-no-check", message)
        calls = (n.func for n in ast.walk(tree) if isinstance(n, ast.Call))
        rewrites = any(getattr(f, "id", getattr(f, "attr", "")) == "Rewrite" for f in calls)
        if rewrites and hook.mode == "check":
            message = "this hook makes a Rewrite, which only `mode: change` may return"
            self.add(component, "hook-mode", message, field="mode")

    # ------------------------------------------------------------------------------------- limits

    def limits(self) -> None:
        limits = self.h.limits
        needs_skill = any(s.kind == "reply" and policy_may_load(s) for s in self.h.skills)
        if limits.degraded_reserve_s >= limits.deadline_s:
            message = (
                f"found {limits.degraded_reserve_s:g} s kept back of a deadline of {limits.deadline_s:g} s; "
                "expected less: nothing is left for the policy"
            )
            self.add("settings", "limits-reserve", message, field="limits.degraded_reserve_s")
        if needs_skill and limits.rounds < 2:
            message = "found 1; expected at least 2: one to load a reply skill, one to reply"
            self.add("settings", "limits-rounds", message, field="limits.rounds")
        if needs_skill and limits.tool_calls < 1:
            message = "found 0; expected at least 1: loading a reply skill is a call"
            self.add("settings", "limits-tool-calls", message, field="limits.tool_calls")
        if limits.retries >= limits.rounds:
            message = f"found {limits.retries}; a retry takes one of the {limits.rounds} rounds, expected fewer"
            self.warn("settings", "limits-retries", message, field="limits.retries")
        if limits.turn_tokens >= limits.context_tokens:
            message = f"found {limits.turn_tokens}; expected fewer than context_tokens, {limits.context_tokens}"
            self.add("settings", "limits-tokens", message, field="limits.turn_tokens")

    # --------------------------------------------------------------------------------- references

    def references(self) -> None:
        """Names that prompt and skills speak of, and keys that would be shown."""
        texts = [(f"prompt/{s.key}", "template", s.template, None) for s in self.h.sections]
        texts += [(f"skills/{s.key}", "body", s.body, s) for s in self.h.skills]
        texts += [(f"skills/{s.key}", "description", s.description, s) for s in self.h.skills]
        texts += [(f"tools/{t.key}", "description", t.description, None) for t in self.h.tools]
        names = {s.name for s in self.h.skills} | {t.name for t in self.h.tools} | set(_RUNTIME_TOOLS.values())
        hidden = {c.key: c.name for c in (*self.h.skills, *self.h.tools) if c.key not in names}
        for component, field, text, skill in texts:
            for key, name in hidden.items():
                found = re.search(rf"(?<![\w.-]){re.escape(key)}(?![\w-])", text)
                if found:
                    message = f"found the key {key!r}, which a policy cannot use; expected the name {name!r}"
                    below = text.count("\n", 0, found.start())
                    self.warn(component, "key-shown", message, field=field, below=below)
            self.named(component, field, text, names, hidden)
            if skill is not None and field == "body":
                self.files_named(component, skill)

    def named(self, component: str, field: str, text: str, names: set[str], hidden: Mapping[str, str]) -> None:
        for found in _NAMED.finditer(text):
            name = found["name"]
            if found[0].strip("`").partition("(")[0] in names:
                continue  # a name with dots or slashes in it
            if name in names or name in hidden or not (found["call"] or "_" in name or "-" in name):
                continue
            acted_on = _ACTED_ON.search(text[: found.start()]) or _KIND_FOLLOWS.search(text[found.end() :])
            if not (found["call"] or acted_on or closest(name, names)):
                continue  # a field or a value
            message = f"found `{name}`{closest(name, names)}; there is no such skill or tool"
            severity = "error" if found["call"] or acted_on else "warning"
            below = text.count("\n", 0, found.start())
            self.add(component, "name-unknown", message, field=field, severity=severity, below=below)

    def files_named(self, component: str, skill: Skill) -> None:
        paths = {f.path for f in skill.files}
        for found in re.finditer(r"(?<![\w/.])(?:references|assets|scripts)/[\w./-]*\w", skill.body):
            if found[0] not in paths:
                message = f"found {found[0]!r}{closest(found[0], paths)}; the skill has no such file"
                below = skill.body.count("\n", 0, found.start())
                self.add(component, "skill-file-unknown", message, field="body", below=below)


def _defined(tree: ast.Module) -> Iterable[str]:
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case ast.ImportFrom(names=names):
                yield from (n.asname or n.name for n in names)
            case _:
                pass


def has_errors(problems: Sequence[Problem]) -> bool:
    return any(p.severity == "error" for p in problems)
