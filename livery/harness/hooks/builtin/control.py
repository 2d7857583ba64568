"""The course of a request: a reply skill before a reply, giving up in time, people who ask for a person, and
replies that speak of their own machinery."""

from __future__ import annotations

import re
from collections import OrderedDict
from threading import Lock
from typing import Literal

from pydantic import Field, field_validator

from livery.harness.hooks.builtin.definition import Builtin, NoParams, Params, worded
from livery.harness.hooks.builtin.harm import harmed
from livery.harness.hooks.builtin.wordlists import compiled, denied, plain_list, straight
from livery.harness.hooks.decisions import Allow, Block, Decision, HookContext, HookFunction, Retry
from livery.harness.model import Harness
from livery.types import Checkpoint, Request, Route


class RetryControlParams(Params):
    attempts: int = Field(default=2, ge=0)
    """Replies that may be sent back; the one after is given up, whatever it says."""
    same_reply: bool = True
    """Give up when a reply that was sent back comes again."""
    route: Literal["degraded", "silent", "handoff"] = "degraded"


class HandoffRequiredParams(Params):
    extra: tuple[str, ...] = ()
    """More that calls for a person: phrases, or ``re:`` and a regular expression over lower-case text."""
    allow: tuple[str, ...] = ()

    @field_validator("extra", "allow")
    @classmethod
    def _compile(cls, phrases: tuple[str, ...]) -> tuple[str, ...]:
        compiled(phrases)
        return phrases


class RoleLeakParams(Params):
    allow: tuple[str, ...] = ()
    """Contexts to let through: phrases, or ``re:`` and a regular expression over lower-case text."""

    @field_validator("allow")
    @classmethod
    def _compile(cls, phrases: tuple[str, ...]) -> tuple[str, ...]:
        compiled(phrases)
        return phrases


# ------------------------------------------------------------------------------- reply skill


def build_reply_skill(params: NoParams, language: str) -> HookFunction:
    def check(value: str, context: HookContext) -> Decision:
        if context.route is not Route.AGENT or any(s.kind == "reply" for s in context.skills):
            return Allow()
        names = [s.name for s in context.harness.skills if s.kind == "reply"]
        if not names:
            return Allow()  # nothing could satisfy it; lint says so
        listed = ", ".join(names)
        return Retry(
            worded(
                language,
                en=f"No reply skill is loaded yet. Load the one that fits first: {listed}. Then answer.",
                zh=f"还没有加载回复技能。请先加载合适的一个：{listed}，然后再回答。",
            ),
            {"skills": names},
        )

    return check


# ----------------------------------------------------------------------------- retry control

_REMEMBERED = 4096
_BLANK = re.compile(r"[\W_]+")


def build_retry_control(params: RetryControlParams, language: str) -> HookFunction:
    seen: OrderedDict[str, tuple[int, frozenset[str]]] = OrderedDict()
    lock = Lock()  # hooks of several rooms run at once

    def repeated(request: str, attempt: int, reply: str) -> bool:
        with lock:
            last, replies = seen.pop(request, (attempt, frozenset[str]()))
            if attempt == 0:
                replies = frozenset[str]()  # the same request again (a replay) starts anew
            again = reply in replies and attempt > last
            seen[request] = (attempt, replies | {reply})
            while len(seen) > _REMEMBERED:
                seen.popitem(last=False)
        return again

    def check(value: str, context: HookContext) -> Decision:
        if context.route is not Route.AGENT:
            return Allow()
        if context.attempt > params.attempts:
            return Block(f"gave up after {context.attempt} replies were sent back", route=params.route)
        if params.same_reply:
            reply = _BLANK.sub("", value.casefold())
            if repeated(context.request.id, context.attempt, reply):
                return Block("the same reply came again after it was sent back", route=params.route)
        return Allow()

    return check


# ------------------------------------------------------------------------------------ hand-off


def build_handoff(params: HandoffRequiredParams, language: str) -> HookFunction:
    extra, allow = compiled(params.extra), compiled(params.allow)
    plain_list("handoff")  # made ready now, and not in the time of the first request
    harmed("")

    def check(value: Request, context: HookContext) -> Decision:
        for message in value.messages:
            low = straight(message.text)
            if allow is not None:
                low = allow.sub(" ", low)
            for pattern in (plain_list("handoff"), extra):
                m = pattern.search(low) if pattern is not None else None
                if m and not (_DEMAND.match(m.group()) and denied(low, m.start())):
                    return Block(f"a person is called for: {m.group().strip()!r}", route="handoff")
            if harm := harmed(low):
                return Block(f"harm is reported: {harm!r}", route="handoff")
        return Allow()

    return check


_DEMAND = re.compile(r"(?:i )?(?:want|need|speak|talk|file|make)|转|要|找|投诉|举报")
"""What a denial takes back ("I don't want to talk to a person"); "my order never came" it does not."""


# ----------------------------------------------------------------------------------- role leak

_BRACES = re.compile(
    r"\{\s*[\"']\w+[\"']\s*:|\[\s*\{|</?(?:think|tool|system|assistant|function|reply|skill)[^>]*>|<\|"
)
_IDENTIFIER = re.compile(
    r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]+[_.-][A-Za-z0-9_.-]*[A-Za-z0-9]|[a-z]+[A-Z][A-Za-z]*|[A-Za-z]+_[A-Za-z0-9_]*)"
)
"""What looks like a name of a program rather than a word."""
_ARGUMENT = re.compile(r"(?<![a-z])(?:link_id|product_id|[a-z]+_id|[a-z]+_(?:price|name|code|url|off))(?![a-z])")


def build_role_leak(params: RoleLeakParams, language: str) -> HookFunction:
    allow = compiled(params.allow)
    plain_list("leak")
    inner: OrderedDict[int, tuple[Harness, frozenset[str]]] = OrderedDict()

    def identifiers(harness: Harness) -> frozenset[str]:
        held = inner.get(id(harness))
        if held is not None and held[0] is harness:
            return held[1]
        names = {n for s in harness.skills for n in (s.name, s.key)}
        names |= {n for t in harness.tools for n in (t.name, t.key, t.binding.operation)}
        names |= {h.key for h in harness.hooks}
        made = frozenset(n.casefold() for n in names if _IDENTIFIER.fullmatch(n))
        if len(inner) >= 16:
            inner.clear()
        inner[id(harness)] = (harness, made)
        return made

    def check(value: str, context: HookContext) -> Decision:
        low = straight(value)
        if allow is not None:
            low = allow.sub(" ", low)
        found = [m.group().strip() for m in plain_list("leak").finditer(low)]
        found += [m.group() for pattern in (_BRACES, _ARGUMENT) for m in pattern.finditer(low)]
        known = identifiers(context.harness)
        found += [m.group() for m in _IDENTIFIER.finditer(value) if m.group().casefold() in known]
        if not found:
            return Allow()
        listed = list(dict.fromkeys(found))
        shown = ", ".join(f'"{f}"' for f in listed)
        return Retry(
            worded(
                language,
                en=f"Viewers must not hear of tools or instructions: {shown}. Say it as a host would.",
                zh=f"观众不该听到工具、技能或指令：{shown}。请像主播一样说话。",
            ),
            {"found": listed},
        )

    return check


REPLY_SKILL_REQUIRED = Builtin(
    name="reply_skill_required",
    checkpoint=Checkpoint.REPLY,
    build=build_reply_skill,
    summary="a reply skill is loaded before a reply",
)
RETRY_CONTROL = Builtin(
    name="retry_control",
    checkpoint=Checkpoint.REPLY,
    on_failure="allow",
    params=RetryControlParams,
    build=build_retry_control,
    summary="gives up after so many replies, or when the same one comes again",
)
HANDOFF_REQUIRED = Builtin(
    name="handoff_required",
    checkpoint=Checkpoint.REQUEST,
    on_failure="allow",
    params=HandoffRequiredParams,
    build=build_handoff,
    summary="a viewer who asks for a person, complains formally or reports harm gets a person",
)
ROLE_LEAK = Builtin(
    name="role_leak",
    checkpoint=Checkpoint.REPLY,
    params=RoleLeakParams,
    build=build_role_leak,
    summary="a reply does not speak of prompts, tools, skills or data formats",
)
