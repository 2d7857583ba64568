"""Policies without a model: scripts that are played, and a host that acts on what it sees."""

import json

import pytest
from policies_requests import MESSAGES, request

from livery.errors import InputError
from livery.policies import open_policy
from livery.policies.policy import PromptMessage, ToolSurface


def after(messages, turn, *contents):
    """The conversation after ``turn`` and its results."""
    results = zip(turn.calls, contents, strict=True)
    return (
        *messages,
        PromptMessage(role="assistant", content=turn.text, calls=turn.calls),
        *(PromptMessage(role="tool", content=c, call_id=call.id, name=call.name) for call, c in results),
    )


def names(turn):
    return [call.name for call in turn.calls]


async def test_silence_says_nothing():
    turn = await open_policy("scripted:silent").act(request())
    assert (turn.text, turn.calls) == ("", ())


async def test_instant_plays_three_rounds():
    policy = open_policy("scripted:instant")
    product = ToolSurface(
        name="get_item",
        description="Facts of one product, by link number.",
        input_schema={"type": "object", "properties": {"link": {"type": "string"}}, "required": ["link"]},
    )
    tools = (*request().tools, product)
    first = await policy.act(request(tools=tools))
    assert names(first) == ["load_skill", "get_item"]
    told = after(MESSAGES, first, "Say the price.", "name: Mug")
    second = await policy.act(request(told, tools=tools))
    assert names(second) == ["price_check"]
    assert second.calls[0].id == "call_2"
    third = await policy.act(request(after(told, second, "total: $9"), tools=tools))
    assert (third.calls, third.stop) == ((), "reply")
    assert third.text


async def test_the_host_looks_the_price_up_and_says_it():
    policy = open_policy("scripted:host")
    first = await policy.act(request(allow_reply=False))
    assert [(c.name, dict(c.arguments)) for c in first.calls] == [
        ("load_skill", {"name": "price-promo"}),
        ("price_check", {"link": "3"}),
    ]
    told = after(MESSAGES, first, "Give the price.", "link_id: 3\nname: Steel Mug\ntotal: $9.99\nquantity: 1")
    second = await policy.act(request(told))
    assert second.text == "Steel Mug: $9.99."


async def test_the_host_follows_a_renamed_harness():
    tools = (
        ToolSurface(
            name="open_guide",
            description="读取一个技能的步骤。",
            input_schema={"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        ),
        ToolSurface(
            name="quote",
            description="算到手价。",
            input_schema={
                "type": "object",
                "properties": {"no": {"type": "integer", "description": "链接号"}},
                "required": ["no"],
            },
        ),
    )
    messages = (
        PromptMessage(role="system", content="你是主播。\n\n## 技能\n- jiage: 观众问多少钱、券后价。"),
        PromptMessage(role="user", content="## 弹幕\n小明:三号多少钱?"),
    )
    policy = open_policy("scripted:host")
    first = await policy.act(request(messages, tools=tools))
    assert [(c.name, dict(c.arguments)) for c in first.calls] == [
        ("open_guide", {"id": "jiage"}),
        ("quote", {"no": 3}),
    ]
    result = json.dumps({"name": "保温杯", "total": "¥59"}, ensure_ascii=False)
    second = await policy.act(request(after(messages, first, "报价格", result), tools=tools))
    assert second.text == "保温杯,¥59。"


async def test_the_host_searches_when_no_link_is_named_and_then_asks_for_that_link():
    search = ToolSurface(
        name="search_items",
        description="Find products by words.",
        input_schema={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    )
    messages = (MESSAGES[0], PromptMessage(role="user", content="## Chat\nBo: how much is the steel mug?"))
    tools = (*request().tools, search)
    policy = open_policy("scripted:host")
    first = await policy.act(request(messages, tools=tools))
    assert names(first) == ["load_skill", "search_items"]
    told = after(messages, first, "skill", "results[1].link_id: 12\nresults[1].name: Steel Mug")
    second = await policy.act(request(told, tools=tools))
    assert [(c.name, dict(c.arguments)) for c in second.calls] == [("price_check", {"link": "12"})]


async def test_the_host_says_no_fact_when_a_tool_failed_or_a_reply_came_back():
    policy = open_policy("scripted:host")
    first = await policy.act(request())
    failed = after(MESSAGES, first, "skill", "error (timeout): price_check gave no result")
    apology = (await policy.act(request(failed))).text
    assert apology == "Let me check that with the staff so I tell you the right thing."
    good = after(MESSAGES, first, "skill", "total: $9.99")
    sent_back = (
        *good,
        PromptMessage(role="assistant", content="total $9.99."),
        PromptMessage(role="user", content="The reply was not accepted: price."),
    )
    assert (await policy.act(request(sent_back))).text == apology


async def test_the_host_replies_when_calls_are_not_allowed():
    turn = await open_policy("scripted:host").act(request(allow_calls=False))
    assert turn.calls == ()
    assert turn.text


SCRIPT = """
scripts:
  - when: "(?i)price|how much"
    turns:
      - calls: [{name: price_check, arguments: {link: "3"}}]
      - reply: It is $9.99.
  - turns:
      - reply: Hello!
"""


async def test_a_script_file_is_played_turn_by_turn(tmp_path):
    path = tmp_path / "play.yaml"
    path.write_text(SCRIPT)
    policy = open_policy(f"scripted:{path}")
    first = await policy.act(request())
    assert [(c.name, dict(c.arguments)) for c in first.calls] == [("price_check", {"link": "3"})]
    told = after(MESSAGES, first, "$9.99")
    second = await policy.act(request(told))
    assert second.text == "It is $9.99."
    assert (await policy.act(request((*told, PromptMessage(role="assistant", content="x"))))).text == second.text
    hello = (MESSAGES[0], PromptMessage(role="user", content="hi"))
    assert (await policy.act(request(hello))).text == "Hello!"


def test_every_fault_of_a_script_is_told(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("scripts:\n  - turns: [{}]\n  - when: '('\n    turns: [{reply: a, says: b}]\n")
    with pytest.raises(InputError) as caught:
        open_policy(f"scripted:{path}")
    fields = {p.field for p in caught.value.problems}
    assert {"scripts.0.turns.0", "scripts.1.when", "scripts.1.turns.0.says"} == fields


def test_a_script_that_is_not_yaml_names_the_line(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("scripts:\n  - turns: [\n")
    with pytest.raises(InputError) as caught:
        open_policy(f"scripted:{path}")
    assert caught.value.problems[0].line == 3


def test_a_script_that_is_not_there():
    with pytest.raises(InputError, match="no such file"):
        open_policy("scripted:/no/such.yaml")
    with pytest.raises(InputError, match="host, silent, instant"):
        open_policy("scripted:clown")
