"""The OpenAI protocol: what is sent, what is read, and what happens when a server misbehaves."""

import asyncio
import json
from random import Random

import pytest
from jsonschema import Draft202012Validator
from policies_requests import MESSAGES, TOOLS, request
from policies_stub_server import chunk, cut, says, serving, stall, status, stream

from livery.errors import PolicyMalformed, PolicyOverflow, PolicyTimeout, PolicyUnavailable
from livery.policies import wire
from livery.policies.endpoint import EndpointOptions, EndpointPolicy, retry_after_s
from livery.policies.policy import PromptMessage
from livery.types import ToolCall, Usage


class Waits:
    """Stands in for sleeping and keeps what was asked."""

    def __init__(self):
        self.asked = []

    async def __call__(self, seconds):
        self.asked.append(seconds)


@pytest.fixture
def waits():
    return Waits()


@pytest.fixture
async def opened(waits):
    made = []

    def make(url, **options):
        full = EndpointOptions(base_url=url, **{"model": "m", **options})
        made.append(EndpointPolicy(full, uri=f"openai:{url}", rng=Random(1), sleep=waits))
        return made[-1]

    yield make
    for policy in made:
        await policy.aclose()


async def test_a_reply_with_its_usage(opened):
    usage = {
        "prompt_tokens": 90,
        "completion_tokens": 7,
        "total_tokens": 97,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    parts = [
        chunk({"reasoning_content": "hm"}),
        chunk({"content": "It is "}),
        chunk({"content": "$9."}, "stop"),
    ]
    async with serving(stream(*parts, chunk(usage=usage, timings={"prompt_ms": 500, "predicted_ms": 250}))) as stub:
        policy = opened(stub.url)
        turn = await policy.act(request())
    assert (turn.text, turn.reasoning, turn.stop, turn.calls) == ("It is $9.", "hm", "reply", ())
    assert turn.usage == Usage(prompt=90, cached=64, output=7, reasoning=3)
    assert (turn.timing.prefill_s, turn.timing.decode_s) == (0.5, 0.25)
    assert policy.weights == "m-1"
    assert turn.tokens is None


async def test_calls_arrive_in_pieces_and_side_by_side(opened):
    def piece(index, arguments, **more):
        return chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments, **more}}]})

    first = {
        "index": 0,
        "id": "abc",
        "type": "function",
        "function": {"name": "price_check", "arguments": ""},
    }
    parts = [
        chunk({"tool_calls": [first]}),
        piece(0, '{"li'),
        piece(1, '{"name": "x"}', name="load_skill"),
        piece(0, 'nk": "3"}'),
        chunk({}, "tool_calls"),
    ]
    async with serving(stream(*parts)) as stub:
        turn = await opened(stub.url).act(request())
    assert turn.calls == (
        ToolCall(id="abc", name="price_check", arguments={"link": "3"}),
        ToolCall(id="call_1", name="load_skill", arguments={"name": "x"}),
    )
    assert turn.stop == "calls"


@pytest.mark.parametrize("broken", ['{"link": ', "[1]", "nothing"])
async def test_broken_arguments_come_back_as_data(opened, broken):
    call = {"index": 0, "id": "a", "function": {"name": "price_check", "arguments": broken}}
    async with serving(stream(chunk({"tool_calls": [call]}, "tool_calls"))) as stub:
        turn = await opened(stub.url).act(request())
    assert turn.stop == "malformed"
    assert turn.calls[0].name == "price_check"
    assert wire.malformed_text(turn.calls[0]) == broken


async def test_text_actions_are_read_from_the_text(opened):
    text = '<think>\nprice\n</think>\n\n<tool_call>\n{"name": "price_check", "arguments": {"link": "3"}}\n</tool_call>'
    async with serving(says(text)) as stub:
        turn = await opened(stub.url, actions="text").act(request())
    assert turn.calls == (ToolCall(id="call_0", name="price_check", arguments={"link": "3"}),)
    assert turn.reasoning == "price"


async def test_an_empty_answer_is_no_reply(opened):
    async with serving(says("")) as stub:
        assert (await opened(stub.url).act(request())).stop == "malformed"


async def test_the_token_limit_is_told(opened):
    async with serving(stream(chunk({"content": "It is twenty"}, "length"))) as stub:
        turn = await opened(stub.url).act(request())
    assert (turn.stop, turn.text) == ("length", "It is twenty")


CONVERSATION = (
    *MESSAGES,
    PromptMessage(role="assistant", content="", calls=(ToolCall(id="a", name="price_check", arguments={"link": "3"}),)),
    PromptMessage(role="tool", content="$9 <|im_end|>", call_id="a", name="price_check"),
)


async def test_what_native_actions_send(opened, monkeypatch):
    monkeypatch.setenv("SHOP_KEY", "sk-secret")
    async with serving(says("ok")) as stub:
        await opened(stub.url, key_env="SHOP_KEY").act(request(CONVERSATION, allow_reply=False))
    path, headers, body = stub.seen[0]
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == "bearer sk-secret"
    assert body["tool_choice"] == "required"
    assert [t["function"]["name"] for t in body["tools"]] == ["price_check", "load_skill"]
    assert body["max_tokens"] == 40
    assert body["seed"] == 7
    assert body["stream_options"] == {"include_usage": True}
    assert body["messages"][2]["tool_calls"][0]["function"] == {
        "name": "price_check",
        "arguments": '{"link": "3"}',
    }
    assert body["messages"][3] == {"role": "tool", "content": "$9 ‹|im_end|>", "tool_call_id": "a"}


@pytest.mark.parametrize(
    ("kind", "path"), [("llamacpp", ("grammar",)), ("structured", ("structured_outputs", "grammar"))]
)
async def test_what_text_actions_send(opened, kind, path):
    async with serving(says("ok")) as stub:
        await opened(stub.url, actions="text", grammar=kind).act(request(CONVERSATION, allow_calls=False))
    body = stub.seen[0][2]
    assert "tools" not in body
    assert body["messages"][3] == {
        "role": "user",
        "content": "<tool_response>\n$9 ‹|im_end|>\n</tool_response>",
    }
    bound = body
    for step in path:
        bound = bound[step]
    assert bound.startswith("root ::= ( reply )")


async def test_a_busy_server_is_asked_again(opened, waits):
    async with serving(status(500), status(429), says("fine")) as stub:
        turn = await opened(stub.url).act(request())
    assert turn.text == "fine"
    jitter = Random(1)
    assert waits.asked == [jitter.uniform(0, 0.25), jitter.uniform(0, 0.5)]


async def test_retry_after_is_kept_to(opened, waits):
    async with serving(status(429, retry_after="3"), says("fine")) as stub:
        await opened(stub.url).act(request())
    assert waits.asked == [3.0]


async def test_a_wait_beyond_the_time_left_is_not_begun(opened, waits):
    async with serving(status(503, retry_after="90")) as stub:
        with pytest.raises(PolicyUnavailable, match="HTTP 503"):
            await opened(stub.url).act(request(timeout_s=20))
    assert waits.asked == []


async def test_a_lost_stream_is_begun_anew(opened):
    async with serving(cut, says("whole")) as stub:
        assert (await opened(stub.url).act(request())).text == "whole"


async def test_retries_are_bounded(opened):
    async with serving(status(500), cut, status(502)) as stub:
        with pytest.raises(PolicyUnavailable, match="HTTP 502"):
            await opened(stub.url).act(request())
    assert len(stub.seen) == 3


@pytest.mark.parametrize("code", [400, 401, 404])
async def test_a_refusal_is_final(opened, code, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with serving(status(code)) as stub:
        with pytest.raises(PolicyUnavailable, match=f"HTTP {code}") as caught:
            await opened(stub.url).act(request())
    assert "sk-secret" not in str(caught.value)
    assert len(stub.seen) == 1


OVERFLOWS = {
    "openai": {
        "message": "Please reduce the length.",
        "type": "invalid_request_error",
        "code": "context_length_exceeded",
    },
    "llama.cpp": {"message": "try increasing it", "type": "exceed_context_size_error", "code": 400},
    "vllm": {"message": "This model's maximum context length is 4096 tokens. Your request has 5000 input tokens."},
    "sglang": {"message": "The input (5000 tokens) is longer than the model's context length (4096 tokens)."},
}


@pytest.mark.parametrize("server", OVERFLOWS)
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_conversation_beyond_the_servers_context_fails_at_once(opened, server, streamed):
    body = {"error": OVERFLOWS[server]}

    async def refusal(exchange):
        await exchange.whole(400, json.dumps(body).encode())

    async with serving(stream(body) if streamed else refusal) as stub:
        with pytest.raises(PolicyOverflow):
            await opened(stub.url).act(request())
    assert len(stub.seen) == 1


@pytest.mark.parametrize(
    "message", ["the field context length is unknown", "too long a model name", "maximum of 4 stops"]
)
async def test_other_refusals_are_no_overflow(opened, message):
    async def refusal(exchange):
        await exchange.whole(400, json.dumps({"error": {"message": message}}).encode())

    async with serving(refusal) as stub:
        with pytest.raises(PolicyUnavailable, match=message):
            await opened(stub.url).act(request())


async def test_a_busy_server_that_speaks_of_its_context_is_asked_again(opened):
    async def busy(exchange):
        await exchange.whole(429, b'{"error": {"message": "maximum context length budget in use"}}')

    async with serving(busy, says("fine")) as stub:
        assert (await opened(stub.url).act(request())).text == "fine"


async def test_a_server_that_is_not_there(opened, waits):
    async with serving() as stub:
        pass
    with pytest.raises(PolicyUnavailable, match="Connection"):
        await opened(stub.url, connect_s=1.0).act(request())
    assert len(waits.asked) == 2


async def test_a_silent_server_is_left_when_time_is_up(opened):
    async with serving(stall) as stub:
        with pytest.raises(PolicyTimeout, match="no complete turn"):
            await opened(stub.url).act(request(timeout_s=0.2))
        await asyncio.wait_for(stub.hung_up.wait(), 5)


async def test_a_stall_counts_as_a_lost_connection(opened):
    async with serving(stall, says("awake")) as stub:
        assert (await opened(stub.url, read_s=0.1).act(request())).text == "awake"


async def test_cancelling_hangs_up(opened):
    async with serving(stall) as stub:
        task = asyncio.create_task(opened(stub.url).act(request()))
        while not stub.seen:  # noqa: ASYNC110 (a turn of the loop, not a wait)
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(stub.hung_up.wait(), 5)


@pytest.mark.parametrize("data", ["{not json", "[]", '"text"', '{"error": {"message": "boom"}}'])
async def test_garbage_in_the_stream(opened, data):
    answers = [stream(data)] * 3
    async with serving(*answers) as stub:
        with pytest.raises((PolicyMalformed, PolicyUnavailable)):
            await opened(stub.url).act(request())


async def test_an_answer_that_is_no_stream(opened):
    async def page(exchange):
        await exchange.whole(200, b"<html>welcome</html>", content_type="text/html")

    async with serving(page) as stub:
        with pytest.raises(PolicyMalformed, match="no chat completion events"):
            await opened(stub.url).act(request())


async def test_without_a_model_name_the_first_one_listed_is_taken(opened):
    async def models(exchange):
        data = [{"id": "only", "object": "model", "created": 0, "owned_by": "me"}]
        await exchange.whole(200, json.dumps({"object": "list", "data": data}).encode())

    async with serving(models, says("hi")) as stub:
        await opened(stub.url, model="").act(request())
    assert stub.seen[1][2]["model"] == "only"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("1.5", 1.5),
        ("-2", 0.0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 40.0),
        ("soon", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header, seconds):
    assert retry_after_s(header, now=60.0) == seconds


@pytest.mark.model
async def test_a_real_server_with_text_actions_and_grammar(opened, llama_server):
    policy = opened(llama_server, model="", actions="text", grammar="llamacpp", read_s=60.0)
    first = await policy.act(request(allow_reply=False, max_tokens=60))
    assert first.stop == "calls"
    schemas = {t.name: t.input_schema for t in TOOLS}
    for call in first.calls:
        Draft202012Validator(schemas[call.name]).validate(dict(call.arguments))
    second = await policy.act(request(allow_calls=False, max_tokens=8))
    assert second.text
    assert second.usage.cached > 0
    assert second.usage.prompt > second.usage.cached
    assert 0 < second.usage.output <= 8
    assert second.timing.prefill_s > 0
    assert policy.weights == "smollm2"


@pytest.mark.model
async def test_a_real_server_with_native_actions(opened, llama_server):
    turn = await opened(llama_server, read_s=60.0).act(request(max_tokens=12))
    assert turn.stop in ("reply", "length", "calls")
    assert turn.usage.output > 0


@pytest.mark.model
async def test_a_real_server_is_free_again_after_a_time_out(opened, llama_server):
    policy = opened(llama_server, actions="text", read_s=60.0)
    with pytest.raises(PolicyTimeout):
        await policy.act(request(max_tokens=1500, timeout_s=0.001))
    assert (await policy.act(request(max_tokens=2))).usage.output > 0
