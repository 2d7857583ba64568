"""Where an operator writes a new rule: into the skills it is about, the prompt's rules, or a check with its words.

Nothing here knows what a rule means. A harness that lacks the place gets the rule in its prompt instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from livery.augment.hook_behaviour import announced
from livery.augment.naming import changed
from livery.errors import InputError
from livery.harness.model import Harness, Hook, Skill
from livery.types import Checkpoint

_STEP: Final = re.compile(r"^(\d+)([.)、])(\s*)\S.*$", re.M)
_BULLET: Final = re.compile(r"^([-*•]\s+)\S.*$", re.M)
_GIVES_UP: Final = "retry_control"
_SPEECH: Final = "speech_format"


def in_skills(harness: Harness, topics: Iterable[str], rule: str) -> Harness:
    """The rule as one more step of every reply skill about one of the topics; in the prompt where none is."""
    wanted = set(topics)
    about = {
        s.key for s in harness.skills
        if s.kind == "reply" and wanted & set(s.metadata.get("livery-topics", "").split())
    }  # fmt: skip
    if not about:
        return in_prompt(harness, rule)
    skills = tuple(_stepped(s, rule) if s.key in about else s for s in harness.skills)
    return harness.replace(skills=skills)


def _stepped(skill: Skill, rule: str) -> Skill:
    return changed(skill, body=listed(skill.body, rule))


def listed(text: str, rule: str) -> str:
    """The rule after the last step or bullet of a text, marked as they are; at its end where there is no list."""
    steps = list(_STEP.finditer(text))
    if steps:
        last = steps[-1]
        line = f"{int(last.group(1)) + 1}{last.group(2)}{last.group(3)}{rule}"
        return f"{text[: last.end()]}\n{line}{text[last.end() :]}"
    bullets = list(_BULLET.finditer(text))
    if bullets:
        last = bullets[-1]
        return f"{text[: last.end()]}\n{last.group(1)}{rule}{text[last.end() :]}"
    return f"{text.rstrip()}\n\n{rule}\n"


def in_prompt(harness: Harness, rule: str) -> Harness:
    """The rule at the end of the prompt's list of rules; at the end of its section about speech where it has none."""
    for section in harness.sections:
        if section.volatility == "release" and "{" not in section.template and _BULLET.search(section.template):
            one = changed(section, template=listed(section.template, rule))
            return harness.replace(sections=tuple(one if s.key == one.key else s for s in harness.sections))
    return announced(harness, rule)


def with_check(harness: Harness, hook: Hook) -> Harness:
    """One more check of replies, ahead of the one that gives up where there is such."""
    hooks = list(harness.hooks)
    at = next((i for i, h in enumerate(hooks) if h.kind == "builtin" and h.source == _GIVES_UP), len(hooks))
    return harness.replace(hooks=(*hooks[:at], hook, *hooks[at:]))


def sent_back(key: str, pattern: str, message: str) -> Hook:
    """A rules check that sends back a reply in which the pattern is found."""
    rule = {"when": {"matches": pattern}, "then": "retry", "message": message}
    return Hook(key=key, checkpoint=Checkpoint.REPLY, kind="rules", params={"rules": [rule]}, on_failure="allow")


def spoken(harness: Harness, **params: Any) -> Harness:
    """Settings of the check of speech; unchanged where the harness has none."""
    hooks = tuple(
        changed(h, params={**h.params, **params}) if h.kind == "builtin" and h.source == _SPEECH else h
        for h in harness.hooks
    )
    return harness.replace(hooks=hooks)


def speech_params(harness: Harness) -> dict[str, Any]:
    """Settings of the check of speech."""
    for hook in harness.hooks:
        if hook.kind == "builtin" and hook.source == _SPEECH:
            return dict(hook.params)
    return {}


def tool_for(harness: Harness, operation: str) -> str:
    """The shown name of the tool that runs an operation.

    Raises:
        InputError: the harness has no such tool.
    """
    for tool in harness.tools:
        if tool.binding.operation == operation:
            return tool.name
    message = f"found no tool bound to {operation}; expected one, since an edit of the set asks for its call"
    raise InputError.at(harness.name, message, field="tools", code="edit-tool")
