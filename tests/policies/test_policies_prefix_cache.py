"""What a room's second request still has to prefill: with rooms and releases enough slots or not, and read ahead."""

import asyncio

import pytest
from policies_random_gguf import write_random_gguf

from livery.errors import PolicyUnavailable
from livery.policies.engine import Engine
from livery.policies.llamacpp import LlamaCppOptions, LlamaCppPolicy, Slots
from livery.policies.policy import PolicyRequest, PromptMessage, Tokenizing

ONE = PromptMessage(role="system", content="You host shop one. " + "Rule: facts come from tools. " * 12)
TWO = PromptMessage(role="system", content="Another host altogether. " + "Never guess a number, look it up. " * 12)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_random_gguf(tmp_path_factory.mktemp("model") / "random.gguf")


@pytest.fixture
def slots(request):
    return getattr(request, "param", 1)


@pytest.fixture
def policy(model, slots):
    engine = Engine(model, threads=1, slots=slots, context=1024)
    policy = LlamaCppPolicy(engine, LlamaCppOptions(model=model, slots=slots), uri="llamacpp:", weights="w")
    yield policy
    policy.stop()
    engine.close()


async def ask(policy, system, text, room="main"):
    user = PromptMessage(role="user", content=text)
    request = PolicyRequest(messages=(system, user), tools=(), max_tokens=2, timeout_s=60, session=room, seed=1)
    return (await policy.act(request)).usage


def ids(policy, *messages):
    return policy.prefix_ids(messages)


async def test_the_second_request_of_a_room_prefills_only_what_changed(policy):
    texts = ["Time 16:30. Ann: how much is it?", "Time 16:30. Bob: is it wool?"]
    first, second = [await ask(policy, ONE, text) for text in texts]
    one, two = [ids(policy, ONE, PromptMessage(role="user", content=text)) for text in texts]
    shared = next(n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)
    assert first.cached == 0
    assert second.cached == shared > len(ids(policy, ONE))


@pytest.mark.parametrize("slots", [1, 2], indirect=True)
async def test_more_rooms_than_slots_still_prefill_the_prefix_once(policy):
    first, *others = [await ask(policy, ONE, f"{n} asks", room) for n, room in enumerate("abc")]
    again = [await ask(policy, ONE, f"{n} asks again", room) for n, room in enumerate("abc")]
    prefix = len(ids(policy, ONE))
    assert first.cached == 0
    assert others[-1].cached >= prefix  # more rooms than slots: one that has the release's prefix
    assert all(usage.cached >= prefix for usage in again)


@pytest.mark.parametrize("slots", [1, 2], indirect=True)
async def test_a_room_under_two_releases_prefills_only_what_changed_under_each(policy):
    for system in (ONE, TWO):
        await ask(policy, system, "first")
    for n in range(2):
        for system in (ONE, TWO):
            usage = await ask(policy, system, f"then {n}")
            assert usage.cached >= len(ids(policy, system))


async def test_what_is_read_ahead_is_told_and_is_there(policy):
    assert isinstance(policy, Tokenizing)
    prefix = len(ids(policy, ONE))
    warmed = await policy.warm((ONE,), "main")
    assert (warmed.tokens, warmed.cached) == (prefix, 0)
    assert warmed.prefill_s > 0
    assert (await policy.warm((ONE,), "main")).cached >= prefix - 1
    assert (await ask(policy, ONE, "how much?")).cached >= prefix - 1


async def test_a_request_goes_before_a_prefix_that_is_being_read(policy, monkeypatch):
    reading = asyncio.Event()
    loop = asyncio.get_running_loop()
    generate = policy._engine.generate
    ended = []

    def slow_to_read(ids, stop, **options):
        if options["n_predict"] == 0 and not ended:
            loop.call_soon_threadsafe(reading.set)
            ended.append(stop.wait(30))  # a prefix that takes for ever, until it is told to stop
        return generate(ids, stop, **options)

    monkeypatch.setattr(policy._engine, "generate", slow_to_read)
    warming = asyncio.create_task(policy.warm((TWO,), "main"))
    await reading.wait()
    asked = await ask(policy, ONE, "how much?")
    assert asked.prompt > 0
    assert ended == [True]
    warmed = await warming  # goes on when the request is done
    assert warmed.tokens == len(ids(policy, TWO))
    assert (await ask(policy, TWO, "how much?")).cached >= warmed.tokens - 1


async def test_closing_ends_a_prefix_that_is_being_read(policy, monkeypatch):
    reading = asyncio.Event()
    loop = asyncio.get_running_loop()
    generate = policy._engine.generate

    def slow(ids, stop, **options):
        loop.call_soon_threadsafe(reading.set)
        stop.wait(30)
        return generate(ids, stop, **options)

    monkeypatch.setattr(policy._engine, "generate", slow)
    warming = asyncio.create_task(policy.warm((TWO,), "main"))
    await reading.wait()
    await asyncio.to_thread(policy.stop)
    with pytest.raises(PolicyUnavailable, match="closed"):
        await warming


async def test_a_session_has_a_slot_for_each_prefix():
    slots = Slots(3)
    one, two = await slots.take("a", "one"), await slots.take("a", "two")
    slots.give(one)
    slots.give(two)
    assert await slots.take("a", "two") == two
    assert await slots.take("a", "one") == one


async def test_a_new_room_takes_a_slot_that_begins_as_it_does():
    slots = Slots(2)
    one, two = await slots.take("a", "one"), await slots.take("a", "two")
    slots.give(one)
    slots.give(two)
    assert await slots.take("b", "two") == two  # though the other has been idle for longer


async def test_reading_ahead_for_two_rooms_takes_two_slots():
    slots = Slots(2)
    held = [await slots.take(room, "old") for room in "ab"]
    for slot in held:
        slots.give(slot)
    first = await slots.take("a", "new", warming=True)
    slots.give(first)
    assert await slots.take("b", "new", warming=True) != first


async def test_requests_that_wait_come_before_reading_ahead():
    slots = Slots(1)
    held = await slots.take("a")
    ahead = asyncio.create_task(slots.take("a", warming=True))
    await asyncio.sleep(0)
    request = asyncio.create_task(slots.take("b"))
    await asyncio.sleep(0)
    slots.give(held)
    assert await request == held
    assert not ahead.done()
    slots.give(held)
    assert await ahead == held
