"""Turns are written and read back unchanged, and nothing a viewer types can act as markup."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livery.policies import wire
from livery.policies.policy import PromptMessage
from livery.types import ToolCall

PLAIN = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="<"), max_size=40).map(str.strip)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8), VALUES, max_size=3).filter(
    lambda a: wire.MALFORMED not in a
)
CALLS = st.lists(st.tuples(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12), ARGUMENTS), max_size=3)


@given(reasoning=PLAIN, calls=CALLS, reply=PLAIN)
def test_what_is_written_is_read_back(reasoning, calls, reply):
    made = tuple(ToolCall(id=f"call_{i}", name=n, arguments=a) for i, (n, a) in enumerate(calls))
    text = wire.write_turn(reasoning=reasoning, calls=made, reply=reply)
    parsed = wire.parse_turn(text)
    assert parsed == wire.ParsedTurn(reasoning=reasoning, calls=made, reply="" if made else reply)


@given(st.text(max_size=200) | st.text(alphabet='<>/tool_cal{}"name:, think\n', max_size=200))
def test_any_text_is_read_without_an_exception(text):
    wire.parse_turn(text)


@given(CALLS.filter(bool), st.data())
def test_a_turn_cut_off_anywhere_keeps_its_whole_calls(calls, data):
    made = tuple(ToolCall(id=f"call_{i}", name=n, arguments=a) for i, (n, a) in enumerate(calls))
    text = wire.write_turn(calls=made)
    cut = text[: data.draw(st.integers(0, len(text)))]
    parsed = wire.parse_turn(cut).whole()
    whole = [c for c in parsed.calls if wire.malformed_text(c) is None]
    assert whole == list(made[: len(whole)])


def test_white_space_and_a_missing_end_mark_are_forgiven():
    parsed = wire.parse_turn('  <tool_call>{"name":"a","arguments":{"x":1}}')
    assert parsed.calls == (ToolCall(id="call_0", name="a", arguments={"x": 1}),)
    assert parsed.malformed == ""


def test_broken_json_comes_back_as_data_with_its_name():
    parsed = wire.parse_turn('<tool_call>\n{"name": "price", "arguments": {"link": }}\n</tool_call>', first_call=4)
    assert parsed.calls[0].name == "price"
    assert parsed.calls[0].id == "call_4"
    assert wire.malformed_text(parsed.calls[0]) == '{"name": "price", "arguments": {"link": }}'
    assert "not valid JSON" in parsed.malformed
    assert wire.write_turn(calls=parsed.calls) == (
        '<tool_call>\n{"name": "price", "arguments": {"link": }}\n</tool_call>'
    )


def test_a_broken_call_leaves_its_sibling_whole():
    parsed = wire.parse_turn(
        '<tool_call>\n{oops\n</tool_call>\n<tool_call>\n{"name": "b", "arguments": {}}\n</tool_call>'
    )
    assert [c.name for c in parsed.calls] == ["", "b"]
    assert parsed.stop(cut=False) == "malformed"


def test_arguments_that_are_no_object_are_malformed():
    parsed = wire.parse_turn('<tool_call>{"name": "a", "arguments": [1]}</tool_call>')
    assert wire.malformed_text(parsed.calls[0]) is not None
    assert "must be an object" in parsed.malformed


def test_words_beside_calls_are_not_a_reply():
    parsed = wire.parse_turn('It is $5!\n<tool_call>{"name": "a", "arguments": {}}</tool_call>')
    assert parsed.reply == ""
    assert parsed.reasoning == "It is $5!"


def test_reasoning_opened_by_the_template_is_split_off():
    assert wire.parse_turn("so, price\n</think>\n\nHello") == wire.ParsedTurn(reasoning="so, price", reply="Hello")


def test_reasoning_that_never_ends_is_not_a_reply():
    parsed = wire.parse_turn("<think>\nhm, the pri")
    assert parsed.reply == ""
    assert parsed.reasoning == "hm, the pri"
    assert parsed.stop(cut=True) == "length"
    assert parsed.stop(cut=False) == "malformed"


def test_a_call_cut_by_the_limit_is_dropped_beside_a_whole_one():
    text = '<tool_call>\n{"name": "a", "arguments": {}}\n</tool_call>\n<tool_call>\n{"name": "b", "arg'
    parsed = wire.parse_turn(text).whole()
    assert [c.name for c in parsed.calls] == ["a"]
    assert parsed.stop(cut=True) == "calls"


MESSAGES = (
    PromptMessage(role="system", content="You are a host."),
    PromptMessage(role="user", content="price?"),
    PromptMessage(role="assistant", content="", calls=(ToolCall(id="call_0", name="price", arguments={"n": 3}),)),
    PromptMessage(role="tool", content="$9.99", call_id="call_0", name="price"),
    PromptMessage(role="assistant", content="It is $9.99."),
)


@pytest.mark.parametrize("split", range(len(MESSAGES) + 1))
def test_a_conversation_is_its_messages_one_after_the_other(split):
    assert wire.segments(MESSAGES[:split]) + wire.segments(MESSAGES[split:]) == wire.segments(MESSAGES)


def test_the_chatml_text():
    assert wire.chat_text(MESSAGES[:4], generate=True) == (
        "<|im_start|>system\nYou are a host.<|im_end|>\n"
        "<|im_start|>user\nprice?<|im_end|>\n"
        "<|im_start|>assistant\n<tool_call>\n"
        '{"name": "price", "arguments": {"n": 3}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\n$9.99\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("role", ["user", "tool"])
@pytest.mark.parametrize("mark", ["<|im_end|>", "<|im_start|>", "</tool_response>", "<tool_call>", "</think>"])
def test_marks_in_untrusted_text_are_made_harmless(role, mark):
    text = wire.chat_text([PromptMessage(role=role, content=f"hi {mark} there <3")])
    inner = text.removeprefix("<|im_start|>user\n").removesuffix("<|im_end|>\n")
    inner = inner.removeprefix("<tool_response>\n").removesuffix("\n</tool_response>")
    assert mark not in inner
    assert "there <3" in inner


def test_arguments_keep_chinese_readable():
    call = ToolCall(id="c", name="查价", arguments={"链接": "三号"})
    assert '"链接": "三号"' in wire.write_turn(calls=[call])
    assert json.loads(wire.write_turn(calls=[call]).split("\n")[1])["name"] == "查价"
