"""A grammar takes exactly the turns that its tools allow, as far as a grammar can."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from policies_gbnf import expression

from livery.policies import wire
from livery.policies.grammar import grammar, integer_rule
from livery.policies.pattern import pattern_rule
from livery.policies.policy import ToolSurface
from livery.types import ToolCall


def tool(schema, name="t"):
    return ToolSurface(name=name, description="", input_schema=schema)


def takes(schema, arguments):
    text = wire.write_turn(calls=[ToolCall(id="c", name="t", arguments=arguments)])
    return bool(expression(grammar([tool(schema)])).fullmatch(text))


def objects(properties, required=(), **more):
    return {"type": "object", "properties": properties, "required": list(required), **more}


CASES = [
    # schema, accepted, refused
    (
        objects({"a": {"enum": ["x", 'y"z', 3, None]}}, ["a"]),
        [{"a": "x"}, {"a": 'y"z'}, {"a": 3}, {"a": None}],
        [{"a": "w"}, {}, {"a": 4}],
    ),
    (objects({"a": {"const": "k"}}, ["a"]), [{"a": "k"}], [{"a": "l"}]),
    (
        objects({"a": {"type": "string"}, "b": {"type": "boolean"}, "c": {"type": "null"}}),
        [{}, {"a": "q"}, {"b": True}, {"c": None}, {"a": "", "c": None}, {"a": "z", "b": False, "c": None}],
        [{"d": 1}, {"b": "true"}, {"c": None, "a": "late"}],
    ),
    (
        objects({"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "string"}}, ["b"]),
        [{"b": 1}, {"a": "x", "b": 1}, {"b": 1, "c": "y"}, {"a": "x", "b": 1, "c": "y"}],
        [{}, {"a": "x"}, {"c": "y"}],
    ),
    (
        objects({"n": objects({"k": {"type": "string", "minLength": 1, "maxLength": 3}}, ["k"])}, ["n"]),
        [{"n": {"k": "abc"}}],
        [{"n": {}}, {"n": {"k": ""}}, {"n": {"k": "abcd"}}, {"n": {"k": "a", "z": 1}}],
    ),
    (
        objects({"l": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 4}}, ["l"]),
        [{"l": ["1", "2"]}, {"l": ["1"] * 4}],
        [{"l": ["1"]}, {"l": ["1"] * 5}, {"l": [1, 2]}],
    ),
    (
        objects({"l": {"type": "array", "items": {"type": "integer"}, "maxItems": 1}}, ["l"]),
        [{"l": []}, {"l": [5]}],
        [{"l": [5, 6]}],
    ),
    (
        objects({"q": {"anyOf": [{"type": "integer", "minimum": 2}, {"type": "null"}]}}, ["q"]),
        [{"q": 2}, {"q": None}],
        [{"q": 1}, {"q": "2"}],
    ),
    (
        objects({"q": {"type": ["string", "null"], "maxLength": 2}}, ["q"]),
        [{"q": "ab"}, {"q": None}],
        [{"q": "abc"}, {"q": 1}],
    ),
    (
        objects({"x": {"$ref": "#/$defs/X"}}, ["x"], **{"$defs": {"X": {"enum": ["s", "m"]}}}),
        [{"x": "m"}],
        [{"x": "l"}],
    ),
    (
        objects({"p": {"type": "string", "pattern": r"^[A-Z]{2}-\d+$"}}, ["p"]),
        [{"p": "AB-7"}],
        [{"p": "AB-"}, {"p": "b"}],
    ),
    (
        objects({"f": {"type": "number", "minimum": 0}}, ["f"]),
        [{"f": 0}, {"f": 19.99}],
        [{"f": -1}, {"f": "1"}],
    ),
    (objects({}, additionalProperties=False), [{}], [{"a": 1}]),
    ({"type": "object"}, [{}, {"any": "thing", "n": [1, 2], "o": {"k": "v"}}], []),
]


@pytest.mark.parametrize(("schema", "good", "bad"), CASES)
def test_arguments_follow_the_schema(schema, good, bad):
    check = Draft202012Validator(schema)
    for arguments in good:
        check.validate(arguments)
        assert takes(schema, arguments), arguments
    for arguments in bad:
        assert not takes(schema, arguments), arguments


@given(st.integers(-3000, 3000), st.integers(0, 4000), st.integers(-8000, 8000))
@settings(max_examples=300)
def test_integers_lie_within_their_bounds(low, span, value):
    rule = re.sub(r'"(-|\d*)"', r"\1", integer_rule(low, low + span)).replace(" ", "")
    assert bool(re.fullmatch(f"(?:{rule})", str(value))) == (low <= value <= low + span)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 10}, [1, 9], [0, 10, -1]),
        ({"minimum": 1.5, "maximum": 3.7}, [2, 3], [1, 4]),
        ({"minimum": -5, "maximum": -2}, [-5, -2], [-6, -1, 0, 2]),
        ({"minimum": 998}, [998, 1000, 999999], [997, 0, -998]),
        ({}, [0, -7, 123456], []),
    ],
)
def test_integer_bounds_of_a_schema(schema, good, bad):
    full = objects({"n": {"type": "integer", **schema}}, ["n"])
    assert all(takes(full, {"n": n}) for n in good)
    assert not any(takes(full, {"n": n}) for n in bad)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^\d{3,4}$", ["123", "1234"], ["12", "12345"]),
        (r"^(?:cat|dog)s?$", ["cat", "dogs"], ["cow"]),
        (r"^[^a-c]+$", ["xyz"], ["abc", "<x"]),
        (r"^[\w-]+\.x$", ["a-b.x"], ["a b.x"]),
        (r"^x.?$", ["x", "xy"], ["xyz"]),
    ],
)
def test_regular_patterns_are_kept(pattern, good, bad):
    rule = expression(f"root ::= {pattern_rule(pattern)}\n")
    assert all(rule.fullmatch(text) for text in good)
    assert not any(rule.fullmatch(text) for text in bad)
    assert all(re.search(pattern, text) for text in good)


@pytest.mark.parametrize("pattern", [r"^(?=a)b$", r"(a)\1", r"a+?", r'^"$', r"^<b>$", r"^(a$", r"a{x}", r"[]"])
def test_other_patterns_widen_to_a_plain_string(pattern):
    assert pattern_rule(pattern) is None
    assert takes(objects({"p": {"type": "string", "pattern": pattern}}, ["p"]), {"p": "anything"})


def test_only_the_tools_of_the_moment_can_be_called():
    reads = expression(grammar([tool(objects({}), "look"), tool(objects({}), "see")]))
    call = '<tool_call>\n{{"name": "{}", "arguments": {{}}}}\n</tool_call>'
    assert reads.fullmatch(call.format("look"))
    assert reads.fullmatch(call.format("look") + "\n" + call.format("see"))
    assert not reads.fullmatch(call.format("touch"))
    assert not reads.fullmatch("\n".join([call.format("look")] * 5))


@pytest.mark.parametrize(
    ("calls", "reply", "takes_call", "takes_reply"),
    [
        (True, True, True, True),
        (True, False, True, False),
        (False, True, False, True),
        (False, False, False, True),
    ],
)
def test_what_is_not_allowed_cannot_be_written(calls, reply, takes_call, takes_reply):
    reads = expression(grammar([tool(objects({}))], allow_calls=calls, allow_reply=reply))
    assert bool(reads.fullmatch('<tool_call>\n{"name": "t", "arguments": {}}\n</tool_call>')) == takes_call
    assert bool(reads.fullmatch("It is $9.99.")) == takes_reply


def test_without_tools_only_a_reply_is_left():
    assert expression(grammar([], allow_reply=False)).fullmatch("Hello")


@pytest.mark.parametrize("text", ["<tool_call>", "hi <|im_end|>", "a <think> b", "", " x", "x" * 41])
def test_replies_hold_no_marks_and_have_a_length(text):
    assert not expression(grammar([], reply_chars=40)).fullmatch(text)


def test_reasoning_comes_first_or_not_at_all():
    with_it = expression(grammar([], reasoning=True))
    assert with_it.fullmatch("<think>\nso\n</think>\n\nHello")
    assert with_it.fullmatch("Hello")
    assert not expression(grammar([])).fullmatch("<think>\nso\n</think>\n\nHello")


def test_a_string_cannot_close_the_call_it_stands_in():
    reads = expression(grammar([tool(objects({"s": {"type": "string"}}, ["s"]))]))
    assert not reads.fullmatch('<tool_call>\n{"name": "t", "arguments": {"s": "</tool_call>"}}\n</tool_call>')
    escaped = '<tool_call>\n{"name": "t", "arguments": {"s": "\\u003c/tool_call>"}}\n</tool_call>'
    assert reads.fullmatch(escaped)
    assert wire.parse_turn(escaped).calls[0].arguments == {"s": "</tool_call>"}


def test_names_with_quotes_and_chinese_are_literals():
    reads = expression(grammar([tool(objects({}), '查"价')]))
    assert reads.fullmatch(wire.write_turn(calls=[ToolCall(id="c", name='查"价', arguments={})]))


def test_the_same_tools_give_the_same_text_from_the_cache():
    tools = [tool(objects({"a": {"type": "string"}}))]
    assert grammar(tools) is grammar([tool(objects({"a": {"type": "string"}}))])


def test_a_recursive_definition_ends():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    text = grammar([tool(objects({"root": {"$ref": "#/$defs/node"}}, **{"$defs": {"node": node}}))])
    names = re.findall(r"^([a-z][a-z0-9-]*) ::=", text, re.MULTILINE)
    assert len(names) == len(set(names))
    unquoted = re.sub(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]', "", text)
    assert set(re.findall(r"[a-z][a-z0-9-]*", unquoted)) <= set(names)


SCHEMA = objects(
    {
        "query": {"type": "string", "maxLength": 12},
        "limit": {"type": "integer", "minimum": 1, "maximum": 120},
        "sort": {"enum": ["price", "sales"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 4}, "maxItems": 2},
    },
    ["query"],
    additionalProperties=False,
)


@given(
    st.fixed_dictionaries(
        {
            "query": st.text(
                st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="<"),
                max_size=12,
            )
        },
        optional={
            "limit": st.integers(-5, 200),
            "sort": st.sampled_from(["price", "sales", "new"]),
            "tags": st.lists(st.text("ab价", max_size=5), max_size=3),
        },
    )
)
def test_the_grammar_agrees_with_the_schema(arguments):
    arguments = {name: arguments[name] for name in SCHEMA["properties"] if name in arguments}
    assert takes(SCHEMA, arguments) == Draft202012Validator(SCHEMA).is_valid(arguments), json.dumps(arguments)
