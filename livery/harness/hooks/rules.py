"""Rules hooks: checks written in YAML, for people who do not write Python.

A rules hook is a list of rules over the text of the value at its checkpoint, read in order::

    checkpoint: reply
    on_failure: block
    rules:
      - when: {contains_any: ["best ever", "number one"], language: en}
        unless: {skill_loaded: [price-and-promotion]}
        then: retry
        message: Say what it does, without a superlative.

Every condition in ``when`` must hold and those of ``unless`` must not all hold. ``retry`` and ``block`` end
the hook, ``allow`` ends it too (an exception placed ahead of the rules it excepts), and ``rewrite`` goes on
with the changed text. It is a filter over text and not a programming language: what needs a computation is a
Python hook.

A pattern comes from whoever may publish and the text from anybody, so each match runs under the hook's
``timeout_s`` (the ``regex`` engine stops itself) and a text longer than `LONGEST_TEXT` fails the hook: the
declared failure mode then decides, and nothing passes unread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, cast

import regex
from pydantic import BeforeValidator, Field, ValidationError

from livery.errors import InputError, Problem
from livery.harness.hooks.decisions import (
    Allow,
    Block,
    Decision,
    HookContext,
    HookFunction,
    PromptValue,
    Retry,
    Rewrite,
    SkillValue,
)
from livery.harness.model import Frozen, Hook
from livery.harness.source import closest, one_of
from livery.types import Checkpoint, Request, ToolCall, ToolResult

LONGEST_TEXT = 20_000
"""Characters a rules hook reads. A longer value makes the hook fail rather than pass with its tail unread."""

_TOOL_CHECKPOINTS = (Checkpoint.TOOL_CALL, Checkpoint.TOOL_RESULT)


def _listed(value: Any) -> Any:
    """One string where a list is meant is a list of one, as people write it in YAML."""
    return (value,) if isinstance(value, str) else value


Words = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_listed)]


class ArgumentTest(Frozen):
    """What one tool argument must be for the condition to hold."""

    equals: Any = None
    one_of: tuple[Any, ...] = ()
    matches: str = ""
    over: float | None = None
    under: float | None = None
    present: bool | None = None
    """``false``: the argument must be absent."""


class Conditions(Frozen):
    """What must hold; fields left out are not asked. All that are given must hold together."""

    matches: str = ""
    """Regular expression found anywhere in the text."""
    contains: Words = ()
    """All of these are in the text."""
    contains_any: Words = ()
    """At least one of these is in the text."""
    length_over: int | None = Field(default=None, ge=0)
    """The text has more characters than this."""
    length_under: int | None = Field(default=None, ge=0)
    language: str = ""
    """What the host speaks in this room, by BCP 47 prefix: ``zh`` holds for ``zh-CN``."""
    script: Literal["", "han", "latin", "other"] = ""
    """The script of most letters in the text."""
    asked_matches: str = ""
    """Regular expression found in what the viewers wrote in this request."""
    asked_contains_any: Words = ()
    skill_loaded: Words = ()
    """At least one of these skills (key or name, or ``reply`` / ``strategy`` for a kind) is loaded."""
    not_loaded: Words = ()
    """None of these skills is loaded."""
    tool: Words = ()
    """The call is to one of these tools (key or name)."""
    arguments: dict[str, ArgumentTest] = Field(default_factory=dict[str, ArgumentTest])
    """Dotted argument path -> test."""
    case_sensitive: bool = False


class Rule(Frozen):
    """One line of a rules hook."""

    when: Conditions = Conditions()
    unless: Conditions | None = None
    then: Literal["allow", "retry", "block", "rewrite"]
    message: str = ""
    """Feedback of a retry, reason of a block, note of a rewrite."""
    replace: str | None = None
    """With ``rewrite``: what stands in the place of each match of ``matches``, ``contains`` or
    ``contains_any``. With ``matches`` it may name groups, as in ``\\1``."""
    route: Literal["", "silent", "degraded", "handoff"] = ""
    """With ``block``: as in `livery.harness.hooks.decisions.Block`."""


class RulesParams(Frozen):
    """The ``params`` of a hook of kind ``rules``."""

    rules: tuple[Rule, ...]


# ------------------------------------------------------------------------------------ compiling


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a test looks at."""

    text: str
    value: Any
    context: HookContext
    timeout_s: float


_Test = Callable[[_Facts], bool]


@dataclass(frozen=True, slots=True)
class _Compiled:
    when: tuple[_Test, ...]
    unless: tuple[_Test, ...] | None
    rule: Rule
    target: regex.Pattern[str] | None
    """What a rewrite replaces."""
    literal: bool
    """The replacement holds no group references."""


def compile_rules(hook: Hook, path: str) -> HookFunction:
    """The check that a rules hook describes.

    Args:
        hook: of kind ``rules``; its rules stand in ``hook.params["rules"]``.
        path: file to name in errors.

    Raises:
        InputError: every unknown field, wrong value and bad pattern of the hook.
    """
    try:
        params = RulesParams.model_validate(hook.params)
    except ValidationError as error:
        raise InputError(params_problems(error, hook, path)) from error
    if not params.rules:
        message = f"hook {hook.key!r}: found no rule; expected at least one"
        raise InputError.at(path, message, field="rules", code="hook-params")
    problems: list[Problem] = []
    compiled = tuple(_compile(rule, f"rules[{i}]", hook, path, problems) for i, rule in enumerate(params.rules))
    if problems:
        raise InputError(problems)
    timeout_s = hook.timeout_s

    def check(value: Any, context: HookContext) -> Decision:
        notes: list[str] = []
        for item in compiled:
            text = value_text(value)
            if len(text) > LONGEST_TEXT:
                raise ValueError(f"the text has {len(text)} characters; a rules hook reads at most {LONGEST_TEXT}")
            facts = _Facts(text, value, context, timeout_s)
            if not all(test(facts) for test in item.when):
                continue
            if item.unless is not None and all(test(facts) for test in item.unless):
                continue
            rule = item.rule
            if rule.then == "allow":
                break
            if rule.then == "retry":
                return Retry(rule.message, {"text": text})
            if rule.then == "block":
                return Block(rule.message, rule.route)
            assert item.target is not None
            value = _rewritten(value, item, timeout_s)
            notes.append(rule.message or f"replaced {item.target.pattern!r}")
        return Rewrite(value, "; ".join(notes)) if notes else Allow()

    return check


def params_problems(error: ValidationError, hook: Hook, path: str) -> list[Problem]:
    """A hook's params as pydantic found them, one problem a fault."""
    return [
        Problem(
            path=path,
            field=_dotted(fault["loc"]),
            message=f"hook {hook.key!r}: {_said(fault['type'], fault['msg'], fault['loc'])} "
            f"(found {_short(fault.get('input'))})",
            code="hook-params",
        )
        for fault in error.errors(include_url=False)
    ]


def _said(kind: str, message: str, loc: Sequence[str | int]) -> str:
    """What pydantic says, and for an unknown field of a rule which ones there are."""
    if kind != "extra_forbidden" or not loc or loc[0] != "rules" or len(loc) < 3:
        return message
    within: type[Frozen] = Rule
    if loc[-2] in ("when", "unless"):
        within = Conditions
    elif "arguments" in loc[:-1]:
        within = ArgumentTest
    known = within.model_fields
    return f"found an unknown field{closest(str(loc[-1]), known)}; expected {one_of(known)}"


def _short(found: Any) -> str:
    text = repr(found)
    return text if len(text) <= 80 else text[:77] + "..."


def _dotted(loc: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")


def _compile(rule: Rule, field: str, hook: Hook, path: str, problems: list[Problem]) -> _Compiled:
    def fault(where: str, message: str) -> None:
        problems.append(
            Problem(path=path, field=f"{field}{where}", message=f"hook {hook.key!r}: {message}", code="hook-rule")
        )

    when = _tests(rule.when, ".when", hook, fault)
    unless = None if rule.unless is None else _tests(rule.unless, ".unless", hook, fault)
    if rule.unless is not None and not unless:
        fault(".unless", "names no condition; expected at least one, or leave `unless` out")
    target: regex.Pattern[str] | None = None
    if rule.then == "rewrite":
        if hook.mode != "change":
            fault(".then", "`rewrite` needs the hook's `mode: change`; found `check`")
        if rule.replace is None:
            fault(".replace", "`then: rewrite` needs the replacement text")
        words = (*rule.when.contains, *rule.when.contains_any)
        source = rule.when.matches or "|".join(regex.escape(w) for w in sorted(words, key=len, reverse=True))
        if not source:
            fault(".when", "`then: rewrite` needs `matches`, `contains` or `contains_any`: what is replaced")
        else:
            target = _pattern(source, rule.when.case_sensitive)
            if target is not None and rule.replace is not None and rule.when.matches:
                groups = {number: name for name, number in target.groupindex.items()}
                same = "".join(f"(?P<{groups[n]}>)" if n in groups else "()" for n in range(1, target.groups + 1))
                try:  # a pattern that matches the empty text and has the same groups
                    regex.sub(same, rule.replace, "")
                except (regex.error, IndexError) as error:
                    fault(".replace", f"is not a replacement for `matches`: {error}")
    elif rule.replace is not None:
        fault(".replace", f"only goes with `then: rewrite`; found `then: {rule.then}`")
    if rule.then in ("retry", "block") and not rule.message:
        fault(".message", f"`then: {rule.then}` needs a message: what is wrong and what would be right")
    if rule.route and rule.then != "block":
        fault(".route", f"only goes with `then: block`; found `then: {rule.then}`")
    return _Compiled(when, unless, rule, target, literal=not rule.when.matches)


def _pattern(source: str, case_sensitive: bool) -> regex.Pattern[str] | None:
    try:
        return regex.compile(source, 0 if case_sensitive else regex.IGNORECASE)
    except regex.error:
        return None  # said where the condition is compiled


def _tests(c: Conditions, where: str, hook: Hook, fault: Callable[[str, str], None]) -> tuple[_Test, ...]:
    tests: list[_Test] = []

    def search(field: str, source: str, text_of: Callable[[_Facts], str], case_sensitive: bool) -> None:
        try:
            pattern = regex.compile(source, 0 if case_sensitive else regex.IGNORECASE)
        except regex.error as error:
            fault(f"{where}.{field}", f"{source!r} is not a regular expression: {error}")
            return
        tests.append(lambda f: pattern.search(text_of(f), timeout=f.timeout_s) is not None)

    def words(listed: tuple[str, ...], text_of: Callable[[_Facts], str], every: bool) -> None:
        if not listed:
            return
        least = listed if c.case_sensitive else tuple(w.casefold() for w in listed)
        some = all if every else any
        if c.case_sensitive:
            tests.append(lambda f: some(w in text_of(f) for w in least))
        else:
            tests.append(lambda f: _holds_words(some, least, text_of(f).casefold()))

    if c.matches:
        search("matches", c.matches, _text, c.case_sensitive)
    words(c.contains, _text, every=True)
    words(c.contains_any, _text, every=False)
    if (longest := c.length_over) is not None:
        tests.append(lambda f: len(f.text) > longest)
    if (shortest := c.length_under) is not None:
        tests.append(lambda f: len(f.text) < shortest)
    if c.language:
        prefix = c.language.casefold()
        tests.append(lambda f: _speaks(f.context.request.state.language, prefix))
    if c.script:
        tests.append(lambda f: text_script(f.text) == c.script)
    if c.asked_matches:
        search("asked_matches", c.asked_matches, _asked, c.case_sensitive)
    words(c.asked_contains_any, _asked, every=False)
    if c.skill_loaded:
        tests.append(lambda f: _any_loaded(f.context, c.skill_loaded))
    if c.not_loaded:
        tests.append(lambda f: not _any_loaded(f.context, c.not_loaded))
    if (c.tool or c.arguments) and hook.checkpoint not in _TOOL_CHECKPOINTS:
        fault(
            f"{where}.{'tool' if c.tool else 'arguments'}",
            f"only means something at tool_call and tool_result; this hook stands at {hook.checkpoint}",
        )
    if c.tool:
        tests.append(lambda f: _is_tool(f, c.tool))
    for name, test in c.arguments.items():
        if not test.model_fields_set:
            fault(f"{where}.arguments.{name}", "names no test; expected equals, one_of, matches, over, ...")
        if test.matches:
            search(f"arguments.{name}.matches", test.matches, _argument_text(name), c.case_sensitive)
        tests.append(_argument_test(name, test))
    return tuple(tests)


def _text(facts: _Facts) -> str:
    return facts.text


def _asked(facts: _Facts) -> str:
    return facts.context.request.text


def _holds_words(some: Callable[[Any], bool], words: tuple[str, ...], text: str) -> bool:
    return some(w in text for w in words)


def _speaks(language: str, prefix: str) -> bool:
    spoken = language.casefold()
    return spoken == prefix or spoken.startswith(prefix + "-")


def _any_loaded(context: HookContext, wanted: tuple[str, ...]) -> bool:
    return any(s.key in wanted or s.name in wanted or s.kind in wanted for s in context.skills)


def _call(value: Any) -> ToolCall | None:
    if isinstance(value, ToolCall):
        return value
    return value.call if isinstance(value, ToolResult) else None


def _is_tool(facts: _Facts, wanted: tuple[str, ...]) -> bool:
    call, tool = _call(facts.value), facts.context.tool
    return (call is not None and call.name in wanted) or (tool is not None and tool.key in wanted)


_ABSENT = object()


def _argument(value: Any, path: str) -> Any:
    found: Any = call.arguments if (call := _call(value)) is not None else _ABSENT
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return _ABSENT
        found = cast("Mapping[str, Any]", found)[part]
    return found


def _argument_text(path: str) -> Callable[[_Facts], str]:
    def text_of(facts: _Facts) -> str:
        found = _argument(facts.value, path)
        return "" if found is _ABSENT else found if isinstance(found, str) else _json(found)

    return text_of


def _argument_test(path: str, test: ArgumentTest) -> _Test:
    asked = test.model_fields_set

    def holds(facts: _Facts) -> bool:
        found = _argument(facts.value, path)
        if test.present is not None and (found is not _ABSENT) != test.present:
            return False
        number = isinstance(found, int | float) and not isinstance(found, bool)
        return (
            ("equals" not in asked or found == test.equals)
            and ("one_of" not in asked or found in test.one_of)
            and (test.over is None or (number and found > test.over))
            and (test.under is None or (number and found < test.under))
        )

    return holds


# --------------------------------------------------------------------------------- value's text


def value_text(value: Any) -> str:
    """The text that rules read in a value of any checkpoint."""
    match value:
        case str():
            return value
        case Request():
            return value.text
        case PromptValue():
            return f"{value.system}\n{value.user}"
        case SkillValue():
            return value.text
        case ToolCall():
            return _json(dict(value.arguments))
        case ToolResult():
            return value.text or (value.error.message if value.error else "")
        case _:
            raise TypeError(f"no rules over a {type(value).__name__}")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def text_script(text: str) -> Literal["", "han", "latin", "other"]:
    """The script of most letters; empty without letters. One Han character counts as four Latin letters,
    about what it says."""
    han = latin = other = 0
    for char in text:
        if not char.isalpha():
            continue
        if "\u4e00" <= char <= "\u9fff" or "\u3400" <= char <= "\u4dbf":
            han += 4
        elif char < "\u0250":
            latin += 1
        else:
            other += 1
    if not han and not latin and not other:
        return ""
    return "han" if han >= max(latin, other) else "latin" if latin >= other else "other"


def _rewritten(value: Any, item: _Compiled, timeout_s: float) -> Any:
    pattern, text = item.target, item.rule.replace
    assert pattern is not None and text is not None
    by: str | Callable[[regex.Match[str]], str] = (lambda _: text) if item.literal else text

    def sub(old: str) -> str:
        return pattern.sub(by, old, timeout=timeout_s)

    def deep(old: Any) -> Any:
        match old:
            case str():
                return sub(old)
            case Mapping():
                return {k: deep(v) for k, v in cast("Mapping[str, Any]", old).items()}
            case list() | tuple():
                return [deep(v) for v in cast("Sequence[Any]", old)]
            case _:
                return old

    match value:
        case str():
            return sub(value)
        case Request():
            return replace(value, messages=tuple(replace(m, text=sub(m.text)) for m in value.messages))
        case PromptValue():
            return replace(value, system=sub(value.system), user=sub(value.user))
        case SkillValue():
            return replace(value, text=sub(value.text))
        case ToolCall():
            return replace(value, arguments=deep(value.arguments))
        case ToolResult():
            return replace(value, text=sub(value.text))
        case _:
            raise TypeError(f"no rules over a {type(value).__name__}")
