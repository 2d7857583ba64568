"""What a hook receives and what it may return.

A hook is a function ``check(value, context) -> Decision`` (plain or ``async``), or a class of such. What
``value`` is depends on the checkpoint:

==============  =============================================================
``request``     `livery.types.Request`
``prompt``      `PromptValue`: the messages about to be sent
``skill``       `SkillValue`: the skill asked for and its text
``tool_call``   `livery.types.ToolCall` (surface name and arguments)
``tool_result`` `livery.types.ToolResult`
``reply``       `str`: the proposed reply, reasoning already stripped
==============  =============================================================

A hook that raises or runs over its time has *failed*: its ``on_failure`` decides, and the trajectory
says so. A failure is never read as a verdict.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from livery.harness.model import Harness, Skill, Tool
from livery.types import Request, Route, ToolResult


@dataclass(frozen=True, slots=True)
class Allow:
    """Let the value through."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Go on with ``value`` in its place (same type). Only from a hook of mode ``change``."""

    value: Any
    note: str = ""


@dataclass(frozen=True, slots=True)
class Retry:
    """Send it back to the policy with ``feedback``; the runtime caps how often.

    At ``tool_call`` and ``tool_result`` it returns as an error result, at ``skill`` likewise, at ``reply`` as a
    feedback turn. At ``request`` and ``prompt`` there is no policy output to send back: it counts as Block.
    """

    feedback: str
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """For the harness's own feedback template."""


@dataclass(frozen=True, slots=True)
class Block:
    """Stop: the request is not answered by the policy (``request``, ``prompt``, ``reply``), or the call
    does not run (``tool_call``, ``tool_result``, ``skill``)."""

    reason: str
    route: str = ""
    """At ``request`` and ``reply``: "silent", "degraded" or "handoff"; empty: silent at ``request``,
    degraded at ``reply``."""


Decision = Allow | Rewrite | Retry | Block


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptValue:
    system: str
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillValue:
    skill: Skill
    text: str
    """What the policy will read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """What a hook may look at. Read-only."""

    harness: Harness
    request: Request
    params: Mapping[str, Any]
    """The hook's own settings."""
    round: int = 0
    attempt: int = 0
    """How many replies were sent back so far."""
    results: tuple[ToolResult, ...] = ()
    """Look-ups that made the context (``key`` "context") and tool results of this request, oldest first, failures
    included."""
    skills: tuple[Skill, ...] = ()
    """Skills loaded so far."""
    evidence: tuple[str, ...] = ()
    """Trusted text the policy was shown: sections and loaded skills marked ``facts``, the operator's notes. Never
    chat text, so that a viewer cannot ground a price by writing it."""
    route: Route = Route.AGENT
    """At ``reply``: who made it. A degraded or handed-off reply has no loaded skills."""
    tool: Tool | None = None
    """At ``tool_call`` and ``tool_result``: the tool meant, None when unknown."""


HookFunction = Callable[[Any, HookContext], "Decision | Awaitable[Decision]"]
