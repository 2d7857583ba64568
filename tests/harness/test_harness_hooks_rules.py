from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import Any

import pytest
import yaml

from livery.errors import InputError
from livery.harness.hooks.decisions import Allow, Block, HookContext, PromptValue, Retry, Rewrite, SkillValue
from livery.harness.hooks.loading import load_hook, load_hooks
from livery.harness.hooks.rules import LONGEST_TEXT, text_script, value_text
from livery.harness.hooks.run import HookRunner
from livery.harness.model import Harness, Hook, Skill
from livery.types import Checkpoint, ErrorKind, ToolCall, ToolError, ToolResult

PRICES = Skill(key="price", name="price-and-promotion", description="d", body="b", kind="reply")


def rules_hook(text: str, **fields: Any) -> Hook:
    """A hook as a YAML file holds it, its rules in ``text``."""
    rules = yaml.safe_load(textwrap.dedent(text))
    return Hook.model_validate(
        {
            "key": "h",
            "checkpoint": "reply",
            "kind": "rules",
            "on_failure": "block",
            "params": {"rules": rules},
        }
        | fields
    )


def decide(text: str, value: Any, context: HookContext, **fields: Any) -> Any:
    return load_hook(rules_hook(text, **fields), language="en")(value, context)


def faults(text: str, **fields: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_hook(rules_hook(text, **fields), language="en")
    assert all("'h'" in p.message and p.path == "hooks/h.yaml" for p in caught.value.problems)
    return [p.field for p in caught.value.problems]


@pytest.mark.parametrize(
    ("when", "reply", "holds"),
    [
        ('{matches: "\\\\d+% off"}', "Take 20% OFF now", True),
        ('{matches: "\\\\d+% off"}', "Take some off now", False),
        ('{matches: "OFF", case_sensitive: true}', "take off", False),
        ("{contains: [free, gift]}", "A Free gift for you", True),
        ("{contains: [free, gift]}", "A free mug", False),
        ("{contains: free}", "Feel FREE", True),
        ("{contains_any: [最好, 第一]}", "这是全网第一的杯子", True),
        ("{contains_any: [最好, 第一]}", "这是一个杯子", False),
        ("{length_over: 5}", "123456", True),
        ("{length_over: 5}", "12345", False),
        ("{length_under: 5}", "1234", True),
        ("{length_under: 5}", "12345", False),
        ("{language: en}", "x", True),
        ("{language: zh}", "x", False),
        ("{script: han}", "这款 mug 很好", True),
        ("{script: han}", "a mug", False),
        ("{script: latin}", "a mug", True),
        ("{asked_matches: how much}", "x", True),
        ("{asked_contains_any: [refund]}", "x", False),
        ("{skill_loaded: price-and-promotion}", "x", True),
        ("{skill_loaded: reply}", "x", True),
        ("{skill_loaded: [strategy, small-talk]}", "x", False),
        ("{not_loaded: price}", "x", False),
        ("{not_loaded: small-talk}", "x", True),
        ("{contains: mug, length_over: 100}", "a mug", False),
        ("{}", "anything", True),
    ],
)
def test_a_rule_fires_when_all_its_conditions_hold(
    bare_context: HookContext, when: str, reply: str, holds: bool
) -> None:
    context = replace(bare_context, skills=(PRICES,))
    decision = decide(f"[{{when: {when}, then: block, message: stop}}]", reply, context)
    assert decision == (Block("stop") if holds else Allow())


def test_unless_excepts_only_when_all_of_it_holds(bare_context: HookContext) -> None:
    rule = "[{when: {contains: best}, unless: {contains: buy, length_under: 12}, then: retry, message: soften}]"
    assert decide(rule, "best buy", bare_context) == Allow()
    assert decide(rule, "the best buy of the year", bare_context) == Retry(
        "soften", {"text": "the best buy of the year"}
    )


def test_rules_are_read_in_order_and_allow_excepts_what_follows(bare_context: HookContext) -> None:
    rules = """
    - {when: {contains: best before}, then: allow}
    - {when: {contains: best}, then: block, message: superlative, route: handoff}
    - {when: {contains: e}, then: retry, message: not reached}
    """
    assert decide(rules, "Best before June", bare_context) == Allow()
    assert decide(rules, "The best", bare_context) == Block("superlative", "handoff")


def test_rewrites_add_up_and_later_rules_see_them(bare_context: HookContext) -> None:
    rules = r"""
    - {when: {matches: "(\\d+) dollars"}, then: rewrite, replace: '$\1', message: money sign}
    - {when: {contains_any: [guys, folks]}, then: rewrite, replace: 'f\1riends'}
    - {when: {contains: dollars}, then: block, message: still there}
    """
    decision = decide(rules, "Hey Guys, 20 dollars, folks", bare_context, mode="change")
    assert decision == Rewrite(r"Hey f\1riends, $20, f\1riends", "money sign; replaced 'folks|guys'")


def test_rules_read_and_rewrite_every_kind_of_value(bare_context: HookContext) -> None:
    rules = "[{when: {contains: secret}, then: rewrite, replace: '***'}]"
    call = ToolCall(id="c", name="search", arguments={"q": "a secret", "deep": [{"n": 1, "s": "Secret"}]})
    result = ToolResult(call=call, text="the secret")
    request = bare_context.request
    asked = replace(request, messages=(replace(request.messages[0], text="tell the secret"),))

    def rewritten(value: Any, checkpoint: str) -> Any:
        return decide(rules, value, bare_context, mode="change", checkpoint=checkpoint).value

    assert rewritten(call, "tool_call").arguments == {"q": "a ***", "deep": [{"n": 1, "s": "***"}]}
    assert rewritten(result, "tool_result").text == "the ***"
    assert rewritten(asked, "request").text == "tell the ***"
    assert rewritten(SkillValue(skill=PRICES, text="secret"), "skill").text == "***"
    assert rewritten(PromptValue(system="secret", user="u"), "prompt") == PromptValue(system="***", user="u")


def test_a_failed_result_is_read_by_its_error() -> None:
    call = ToolCall(id="c", name="search", arguments={})
    error = ToolError(kind=ErrorKind.TIMEOUT, message="took too long")
    assert value_text(ToolResult(call=call, error=error)) == "took too long"


@pytest.mark.parametrize(
    ("test", "holds"),
    [
        ("{quantity: {over: 10}}", True),
        ("{quantity: {over: 12}}", False),
        ("{quantity: {under: 20, over: 11}}", True),
        ("{item.color: {equals: red}}", True),
        ("{item.color: {one_of: [blue, green]}}", False),
        ("{item.color: {matches: ^RE}}", True),
        ("{item.size: {present: false}}", True),
        ("{item.color: {present: false}}", False),
        ("{flag: {over: 0}}", False),
        ("{quantity: {equals: 12}, item.color: {equals: blue}}", False),
    ],
)
def test_argument_conditions(bare_context: HookContext, test: str, holds: bool) -> None:
    call = ToolCall(id="c", name="order", arguments={"quantity": 12, "item": {"color": "red"}, "flag": True})
    rules = f"[{{when: {{tool: order, arguments: {test}}}, then: block, message: stop}}]"
    assert decide(rules, call, bare_context, checkpoint="tool_call") == (Block("stop") if holds else Allow())
    other = replace(call, name="other")
    assert decide(rules, other, bare_context, checkpoint="tool_call") == Allow()


def test_every_fault_of_a_hook_is_named_at_once() -> None:
    rules = """
    - {when: {matches: "("}, then: retry}
    - {when: {length_over: 5}, then: rewrite, replace: x}
    - {when: {contains: a}, then: allow, replace: b, route: silent}
    - {when: {tool: order, arguments: {q: {}}}, unless: {}, then: block, message: m}
    - {when: {matches: "a"}, then: rewrite, replace: '\\7'}
    """
    assert faults(rules) == [
        "rules[0].when.matches",
        "rules[0].message",
        "rules[1].then",
        "rules[1].when",
        "rules[2].replace",
        "rules[2].route",
        "rules[3].when.tool",
        "rules[3].when.arguments.q",
        "rules[3].unless",
        "rules[4].then",
        "rules[4].replace",
    ]


def test_unknown_and_wrong_fields_are_named() -> None:
    rules = "[{when: {contain: x, length_over: -1}, then: shout}]"
    assert faults(rules) == ["rules[0].when.length_over", "rules[0].when.contain", "rules[0].then"]
    assert faults("[]") == ["rules"]


async def test_a_pattern_that_would_never_end_is_stopped_by_the_time_limit(
    bare_harness: Harness, bare_context: HookContext
) -> None:
    hook = rules_hook('[{when: {matches: "(x|xx|xxx)*[yz]z"}, then: block, message: stop}]', timeout_s=0.02)
    harness = bare_harness.replace(hooks=(hook,))
    runner = HookRunner(harness, load_hooks(harness))
    outcome = await runner.run(Checkpoint.REPLY, "x" * 5000 + "z", bare_context, budget_s=60.0)
    (event,) = outcome.events
    assert (event.decision, event.failure) == ("block", "timeout")


async def test_a_text_too_long_to_read_fails_the_hook_and_does_not_pass_unread(
    bare_harness: Harness, bare_context: HookContext
) -> None:
    harness = bare_harness.replace(hooks=(rules_hook("[{when: {contains: bad}, then: block, message: stop}]"),))
    runner = HookRunner(harness, load_hooks(harness))
    outcome = await runner.run(Checkpoint.REPLY, "a" * LONGEST_TEXT + "bad", bare_context, budget_s=60.0)
    (event,) = outcome.events
    assert (event.decision, event.failure) == ("block", "crash")
    assert str(LONGEST_TEXT) in event.message


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("", ""),
        ("123 !", ""),
        ("hello", "latin"),
        ("你好 ok", "han"),
        ("привет", "other"),
        ("3号链接 mug", "han"),
    ],
)
def test_text_script(text: str, script: str) -> None:
    assert text_script(text) == script


@pytest.mark.parametrize(
    ("rule", "near"),
    [
        ({"when": {"contain": ["a"]}, "then": "allow"}, "did you mean 'contains'?"),
        ({"when": {"arguments": {"quantity": {"ovr": 3}}}, "then": "allow"}, "did you mean 'over'?"),
        ({"when": {"contains": ["a"]}, "then": "allow", "mesage": "m"}, "did you mean 'message'?"),
    ],
)
def test_an_unknown_field_of_a_rule_names_the_nearest_known_one(rule: dict[str, Any], near: str) -> None:
    hook = Hook(key="h", checkpoint=Checkpoint.TOOL_CALL, kind="rules", on_failure="block", params={"rules": [rule]})
    with pytest.raises(InputError) as caught:
        load_hook(hook, language="en")
    assert near in caught.value.problems[0].message
    assert "expected one of" in caught.value.problems[0].message
