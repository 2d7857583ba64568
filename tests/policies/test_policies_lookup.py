"""Prompt lookup: the same tokens as without it, of which some were guessed ahead."""

import asyncio
import json
import threading
from dataclasses import replace

import pytest
from policies_random_gguf import write_random_gguf

from livery.errors import InputError, PolicyOverflow, PolicyUnavailable
from livery.policies.engine import Engine
from livery.policies.llamacpp import LlamaCppOptions, LlamaCppPolicy
from livery.policies.lookup import LONGEST_DRAFT, as_choice
from livery.policies.open import open_policy
from livery.policies.policy import PolicyRequest, PromptMessage, ToolSurface
from livery.policies.wire import Segment

FACT = "The travel mug costs $49.90 today, 价格 49.90, free shipping."
MESSAGES = (
    PromptMessage(role="system", content="You are a shop host. Skills: price-promo, item-qa."),
    PromptMessage(role="user", content=f"Ann: how much? {FACT}"),
)
TOOLS = (
    ToolSurface(
        name="load_skill",
        description="Read a skill.",
        input_schema={
            "type": "object",
            "properties": {"name": {"const": "price-promo"}, "why": {"const": "The travel mug costs $49.90 today"}},
            "required": ["name", "why"],
            "additionalProperties": False,
        },
    ),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_random_gguf(tmp_path_factory.mktemp("model") / "random.gguf")


@pytest.fixture(scope="module")
def engines(model):
    """Without lookup, and with."""
    both = [Engine(model, threads=1, slots=2, context=1024, lookup=draft) for draft in (0, 8)]
    yield both
    for engine in both:
        engine.close()


@pytest.fixture
def policies(engines):
    options = LlamaCppOptions(slots=2, temperature=0.0)
    both = [
        LlamaCppPolicy(engine, replace(options, lookup=engine.lookup), uri="llamacpp:", weights="w")
        for engine in engines
    ]
    yield both
    for policy in both:
        policy.stop()


def request(**fields):
    defaults = {
        "messages": MESSAGES,
        "tools": TOOLS,
        "max_tokens": 100,
        "timeout_s": 60.0,
        "session": "room",
        "seed": 7,
    }
    return PolicyRequest(**{**defaults, **fields})


async def test_a_greedy_call_is_the_same_token_for_token_and_partly_guessed(policies):
    asked = request(allow_reply=False, max_tokens=160)
    plain, quick = [await policy.act(asked) for policy in policies]
    assert quick.calls[0].arguments == {"name": "price-promo", "why": "The travel mug costs $49.90 today"}
    assert quick.tokens.output_ids == plain.tokens.output_ids
    assert (plain.usage.drafted, plain.usage.accepted) == (0, 0)
    assert 0 < quick.usage.accepted <= quick.usage.drafted
    assert quick.usage.accepted < quick.usage.output == plain.usage.output


@pytest.mark.parametrize("seed", range(3))
async def test_greedy_replies_of_a_model_that_nothing_binds_are_the_same(policies, seed):
    """Random weights soon repeat themselves, and drafts are made of that."""
    told = (MESSAGES[0], PromptMessage(role="user", content=f"{seed}: {FACT} {FACT}"))
    plain, quick = [await policy.act(request(messages=told, allow_calls=False)) for policy in policies]
    assert quick.text == plain.text
    assert quick.tokens.output_ids == plain.tokens.output_ids


async def test_the_next_turn_appends_to_what_was_guessed(policies):
    _, quick = policies
    first = await quick.act(request(allow_reply=False, max_tokens=160))
    told = (
        *MESSAGES,
        PromptMessage(role="assistant", content="", calls=first.calls),
        PromptMessage(role="tool", content="$49.90", call_id=first.calls[0].id, name="load_skill"),
    )
    second = await quick.act(
        request(messages=told, allow_calls=False, previous=first, previous_messages=2, max_tokens=8)
    )
    before = first.tokens.prompt_ids + first.tokens.output_ids
    assert second.tokens.prompt_ids[: len(before)] == before
    assert second.usage.cached >= len(before) - 1


async def test_two_rooms_side_by_side_get_their_own_tokens(policies):
    asked = [request(session=room, messages=(MESSAGES[0], replace(MESSAGES[1], content=room + FACT))) for room in "ab"]
    asked = [replace(one, allow_reply=False, max_tokens=160) for one in asked]
    plain, quick = policies
    alone = [await plain.act(one) for one in asked]
    together = await asyncio.gather(*(quick.act(one) for one in asked))
    assert [t.tokens.output_ids for t in together] == [t.tokens.output_ids for t in alone]
    assert all(t.usage.accepted for t in together)


async def test_a_turn_has_all_its_log_probabilities_or_none(policies):
    plain, quick = policies
    assert len((await plain.act(request(allow_reply=False))).tokens.logprobs) > 0
    assert (await quick.act(request(allow_reply=False))).tokens.logprobs == ()


async def test_a_request_that_is_given_up_leaves_the_engine_usable(policies):
    _, quick = policies
    task = asyncio.create_task(quick.act(request(allow_calls=False, max_tokens=600)))
    while not quick.busy:  # noqa: ASYNC110 (a turn of the loop, not a wait)
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await quick.act(request(allow_reply=False))).usage.output > 0


@pytest.mark.parametrize("text", ["价格 49.90, free", "naïve — 🎉 价格 49.90"])
def test_ids_of_many_byte_characters_are_told_inside_drafts_too(engines, text):
    prompt = engines[0].encode([Segment(f"{text} and again: ")])
    options = {"n_predict": 80, "grammar": f"root ::= {json.dumps(text, ensure_ascii=False)}", "temperature": 0}
    plain, quick = [engine.generate(prompt, threading.Event(), **options) for engine in engines]
    assert quick.text == plain.text == text
    assert quick.accepted > 0
    assert quick.ids == plain.ids is not None
    assert (quick.finish, quick.output) == (plain.finish, plain.output)


def test_the_engine_refuses_what_it_refuses_without(engines):
    quick = engines[1]
    with pytest.raises(PolicyOverflow, match="exceed"):
        quick.generate(quick.encode([Segment("1 " * 2000)]), threading.Event(), n_predict=1)
    with pytest.raises(PolicyUnavailable, match="grammar"):
        quick.generate(quick.encode([Segment("1")]), threading.Event(), n_predict=1, grammar="root ::= (")


def test_what_is_told_of_a_token_is_kept():
    told = as_choice({"content": "a", "tokens": [5], "completion_probabilities": [{"id": 5, "logprob": -0.5}]})
    assert told["choices"][0]["logprobs"]["content"] == [{"id": 5, "logprob": -0.5}]
    last = as_choice({"content": "", "tokens": [], "stop": True, "stop_type": "limit", "timings": {"predicted_n": 1}})
    assert (last["choices"][0]["finish_reason"], last["timings"]) == ("length", {"predicted_n": 1})


def test_a_draft_that_is_too_long_is_refused_before_anything_is_loaded(model):
    with pytest.raises(InputError, match=rf"lookup: found 100; expected 0 \(off\) to {LONGEST_DRAFT}"):
        open_policy(f"llamacpp:{model}?lookup=100")


async def test_the_uri_turns_it_on(model):
    policy = await asyncio.to_thread(open_policy, f"llamacpp:{model}?lookup=6&threads=1&ctx=512&temperature=0")
    turn = await policy.act(request(allow_reply=False, max_tokens=160))
    await policy.aclose()
    assert turn.usage.accepted > 0
