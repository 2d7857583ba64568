"""What every policy owes its callers, whichever engine stands behind it."""

import asyncio
from importlib.util import find_spec

import pytest
from policies_requests import MESSAGES, request

from livery.errors import PolicyTimeout
from livery.policies import open_policy, wire
from livery.policies.endpoint import EndpointOptions, EndpointPolicy
from livery.policies.policy import PromptMessage

MODELS = ["llamacpp", "endpoint-text", "endpoint-native"]
SCRIPTS = ["scripted:host", "scripted:instant"]
HF = pytest.param(
    "hf",
    marks=pytest.mark.skipif(not find_spec("torch"), reason="needs the training extra: torch is not installed"),
)
MODELLED = [*(pytest.param(name, marks=pytest.mark.model) for name in MODELS), HF]
EVERY = [*MODELLED, *SCRIPTS]


@pytest.fixture
async def policy(request):
    name = request.param
    if name == "llamacpp":
        yield request.getfixturevalue("embedded")
        return
    if name.startswith("endpoint"):
        url, native = request.getfixturevalue("llama_server"), name.endswith("native")
        options = EndpointOptions(
            base_url=url,
            actions="native" if native else "text",
            grammar="none" if native else "llamacpp",
            read_s=60.0,
        )
        policy = EndpointPolicy(options, uri=f"openai:{url}")
    elif name == "hf":
        from policies_tiny_model import chat_tokenizer, tiny_llama

        from livery.policies.hf import HfPolicy

        policy = HfPolicy(tiny_llama(), chat_tokenizer(), weights="tiny")
    else:
        policy = open_policy(name)
    yield policy
    await policy.aclose()


def every(names=EVERY):
    return pytest.mark.parametrize("policy", names, indirect=True)


@every()
async def test_a_turn_is_calls_or_a_reply_and_its_usage_adds_up(policy):
    turn = await policy.act(request(max_tokens=24))
    assert turn.stop in ("calls", "reply", "length")
    assert bool(turn.calls) == (turn.stop == "calls")
    assert not (turn.calls and turn.text)
    assert "<tool_call>" not in turn.text
    assert "<think>" not in turn.text
    usage = turn.usage
    assert 0 <= usage.cached <= usage.prompt
    assert 0 <= usage.reasoning <= usage.output <= 24
    assert turn.timing.total_s >= turn.timing.first_token_s >= 0
    assert policy.weights


@every()
async def test_call_ids_are_new_in_the_conversation(policy):
    first = await policy.act(request(allow_reply=False, max_tokens=60))
    results = tuple(PromptMessage(role="tool", content="$9", call_id=c.id, name=c.name) for c in first.calls)
    told = (*MESSAGES, PromptMessage(role="assistant", content=first.text, calls=first.calls), *results)
    second = await policy.act(
        request(told, allow_reply=False, previous=first, previous_messages=len(MESSAGES), max_tokens=60)
    )
    ids = [c.id for c in (*first.calls, *second.calls)]
    assert len(ids) == len(set(ids))


@every()
async def test_a_reply_that_is_due_comes_without_calls(policy):
    turn = await policy.act(request(allow_calls=False, max_tokens=12))
    assert turn.calls == ()
    assert turn.text


@every()
async def test_warming_is_harmless(policy):
    await policy.warm(MESSAGES[:1], "room")
    assert (await policy.act(request(max_tokens=4))).stop in ("calls", "reply", "length")


@every(MODELLED)
async def test_time_that_runs_out_is_a_policy_timeout(policy):
    with pytest.raises(PolicyTimeout):
        await policy.act(request(max_tokens=1000, timeout_s=0.001))
    assert (await policy.act(request(max_tokens=2))).usage.output > 0


@every(MODELLED)
async def test_cancelling_leaves_the_policy_usable(policy):
    task = asyncio.create_task(policy.act(request(max_tokens=1000)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await policy.act(request(max_tokens=2))).usage.output > 0


@every([pytest.param("llamacpp", marks=pytest.mark.model), HF])
async def test_a_trace_is_appended_over_three_rounds(policy):
    messages, previous, shown = MESSAGES, None, 0
    before = ()
    for round_ in range(3):
        turn = await policy.act(
            request(
                messages,
                allow_reply=round_ == 2,
                allow_calls=round_ < 2,
                previous=previous,
                previous_messages=shown,
                max_tokens=60,
                seed=round_,
            )
        )
        assert turn.tokens is not None
        assert turn.tokens.prompt_ids[: len(before)] == before
        before = turn.tokens.prompt_ids + turn.tokens.output_ids
        previous, shown = turn, len(messages)
        results = tuple(PromptMessage(role="tool", content="ok", call_id=c.id, name=c.name) for c in turn.calls)
        messages = (*messages, PromptMessage(role="assistant", content=turn.text, calls=turn.calls), *results)
    if policy.uri.startswith("llamacpp"):  # a random model is bound by no grammar and makes no calls
        assert wire.calls_so_far(messages) >= 2
