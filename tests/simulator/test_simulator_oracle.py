"""The oracle earns what a right answer earns, by the harness's surfaces alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random

import pytest

from livery.agent.binding import bind
from livery.augment.sampling import sample_variant
from livery.harness.folder import load_harness
from livery.harness.model import ArgumentMap, Harness, Tool
from livery.policies.policy import PolicyRequest, PromptMessage
from livery.shop.registry import shop_operations
from livery.simulator.answers import reply_to
from livery.simulator.oracle import Manner, OraclePolicy
from livery.simulator.phrasing import speaker_of
from livery.simulator.reply_form import Form
from livery.simulator.rollout import live_of, rollout, rollouts
from livery.simulator.surfaces import Surfaces, surfaces_of
from livery.simulator.task import Scores, Task
from livery.simulator.tasks import Mix, make_tasks
from livery.types import Route, Trajectory

HARNESSES = Path(__file__).parents[2] / "harnesses"


@cache
def harness_of(language: str) -> Harness:
    return load_harness(HARNESSES / f"streamer-{language}").harness


def play(
    tasks: list[Task], harness: Harness, seed: int = 0, manner: Manner = "varied"
) -> list[tuple[Task, Trajectory, Scores]]:
    async def all_of_them() -> list[tuple[Task, Trajectory, Scores]]:
        live = live_of(harness)
        return [(t, *await rollout(t, live, OraclePolicy(manner=manner), seed=seed)) for t in tasks]

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_every_task_is_earned_in_full(split: str, language: str) -> None:
    tasks = make_tasks(split, language, 150, 11)  # type: ignore[arg-type]
    played = play(tasks, harness_of(language))
    assert {t.id: s.reasons for t, _, s in played if not s.full} == {}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_under_variants_it_takes_the_same_operations_for_the_same_scores(language: str) -> None:
    base = harness_of(language)
    tasks = [t for t in make_tasks("train", language, 40, 21) if t.needed][:12]  # type: ignore[arg-type]

    def course(trajectory: Trajectory) -> list[tuple[str, dict[str, object]]]:
        shop = [r for r in trajectory.results if not r.operation.startswith("harness.")]
        return [(r.operation, dict(r.arguments)) for r in shop]

    for seed, split in enumerate(("train", "heldout", "train", "heldout")):
        variant = sample_variant(base, seed, split, 1.0).harness  # type: ignore[arg-type]
        before, after = play(tasks, base), play(tasks, variant)
        assert [course(t) for _, t, _ in after] == [course(t) for _, t, _ in before]
        assert [s for *_, s in after] == [s for *_, s in before]


def test_faults_that_recover_are_tried_again_and_the_rest_is_told_honestly() -> None:
    tasks = make_tasks("train", "en", 120, 40, mix=Mix(faults=1.0, unrecoverable=0.4))
    played = play(tasks, harness_of("en"))
    assert all(s.full for *_, s in played)
    kinds = Counter(f.kind for t, *_ in played for f in t.faults)
    assert set(kinds) == {"timeout", "malformed", "unavailable", "empty", "slow", "stale", "permission_denied"}
    lasting = [(t, x) for t, x, _ in played if any(a.cannot_check for a in t.asked)]
    assert {x.route for _, x in lasting} == {Route.AGENT, Route.HANDOFF}
    retried = [x for t, x, _ in played if any(f.recoverable and f.kind == "timeout" for f in t.faults)]
    assert all(any(r.error for r in x.results) and x.results[-1].ok for x in retried)


def test_orders_of_calls_vary() -> None:
    played = play([t for t in make_tasks("train", "en", 80, 50) if t.needed], harness_of("en"))
    shapes = {
        tuple(tuple("skill" if r.operation == "harness.load_skill" else "tool" for r in t.results) for t in x.turns)
        for _, x, _ in played
    }
    assert (("skill", "tool"), ()) in shapes and (("tool", "skill"), ()) in shapes
    assert (("skill",), ("tool",), ()) in shapes and (("tool",), ("skill",), ()) in shapes


def test_a_seed_settles_everything_and_another_says_it_otherwise() -> None:
    tasks = [t for t in make_tasks("train", "en", 60, 60) if t.needed]
    first, again, other = (play(tasks, harness_of("en"), seed) for seed in (1, 1, 2))
    assert [x.reply for _, x, _ in first] == [x.reply for _, x, _ in again]
    different = sum(a.reply != b.reply for (_, a, _), (_, b, _) in zip(first, other, strict=True))
    assert different > 0.8 * len(tasks)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_each_kind_of_fact_is_said_in_many_ways(language: str) -> None:
    speaker = speaker_of(language)
    kinds: Counter[str] = Counter()
    for frame in speaker.frames:
        kinds[frame.partition(".")[0]] += speaker.ways(frame)
    for kind in ("price", "status", "promotion", "comparison", "stock", "size", "shipping", "policy", "ask"):
        assert kinds[kind] >= 24, kind


def test_replies_of_many_tasks_are_hardly_ever_the_same() -> None:
    replies = Counter(x.reply for _, x, _ in play(make_tasks("train", "en", 150, 70), harness_of("en")) if x.reply)
    assert len(replies) > 0.9 * sum(replies.values())


def test_a_reply_has_the_form_that_the_harness_asks_for() -> None:
    form = Form(max_chars=90, max_sentences=2, prefix="Hi there!", sign_off="Take care!")
    for task in make_tasks("train", "en", 60, 80):
        if len(task.asked) == 1:
            text = reply_to(task, form, Random(task.id))
            assert text.startswith("Hi there! ") and text.endswith(" Take care!")
            assert form.undressed(text) and not form.undressed(text).startswith("Hi there!")


def test_a_plain_oracle_does_not_seem_to_know_a_fault_before_it_is_there() -> None:
    tasks = make_tasks("train", "en", 240, 40, mix=Mix(faults=1.0, unrecoverable=0.4))
    played = play(tasks, harness_of("en"), manner="plain")
    assert [t.id for t, _, s in played if not s.full] == []
    called = [(t, x.turns[0].policy.calls[0].name) for t, x, _ in played if x.turns and x.turns[0].policy.calls]
    # Where one repetition is not enough, the skill is what makes the next round a new one.
    once = [n for t, n in called if all(f.times < 2 for f in t.faults) and len({n.step for n in t.needed}) < 2]
    assert len(once) > 150 and set(once) == {"load_skill"}


def test_reasoning_is_written_only_where_the_rendering_has_it() -> None:
    base = harness_of("en")
    thinking = base.replace(rendering=base.rendering.model_copy(update={"reasoning": "think"}))
    tasks = [t for t in make_tasks("train", "en", 30, 90) if t.needed]
    plain = [t.policy.reasoning for _, x, _ in play(tasks, base) for t in x.turns]
    thought = [t.policy.reasoning for _, x, _ in play(tasks, thinking) for t in x.turns]
    assert not any(plain) and all(thought)
    assert len(set(thought)) > 20 and max(map(len, thought)) < 90


def test_it_asks_for_a_task_and_a_harness() -> None:
    request = PolicyRequest(messages=(PromptMessage(role="system", content=""),), tools=(), max_tokens=1, timeout_s=1)
    with pytest.raises(ValueError, match="needs a task and its harness"):
        asyncio.run(OraclePolicy().act(request))


# -------------------------------------------------------------------------------------- surfaces


def _surfaces(tool: dict[str, object]) -> Surfaces:
    made = Tool.model_validate({"key": "t", "name": "t", "description": "d", **tool})
    return Surfaces(harness_of("en").replace(tools=(made,)))


def test_an_argument_is_written_as_its_schema_and_binding_want_it() -> None:
    surfaces = _surfaces(
        {
            "input_schema": {
                "type": "object",
                "properties": {
                    "order": {
                        "type": "object",
                        "properties": {
                            "which": {"type": "string", "pattern": r"^No\.\d+$"},
                            "pieces": {"type": "string", "pattern": r"^[1-9]\d*$"},
                        },
                        "required": ["which"],
                    },
                    "club": {"type": "string", "enum": ["aye", "nay"]},
                    "tone": {"type": "string", "enum": ["warm", "cool"]},
                },
                "required": ["order", "club", "tone"],
            },
            "binding": {
                "operation": "pricing.quote",
                "arguments": [
                    {"to": "link_id", "source": "order.which", "convert": "digits"},
                    {"to": "quantity", "source": "order.pieces", "convert": "integer"},
                    {"to": "member", "source": "club", "labels": {"aye": True, "nay": False}},
                ],
            },
        }
    )
    call = surfaces.call("pricing.quote", {"link_id": "3", "quantity": 2})
    assert call is not None
    assert call.arguments == {"order": {"which": "No.3", "pieces": "2"}, "club": "nay", "tone": "warm"}
    member = surfaces.call("pricing.quote", {"link_id": "12", "member": True})
    assert member is not None and member.arguments["club"] == "aye"


def test_a_tool_that_cannot_say_an_argument_is_no_way_to_it() -> None:
    surfaces = _surfaces(
        {
            "input_schema": {"type": "object", "properties": {"link": {"type": "string"}}, "required": ["link"]},
            "binding": {
                "operation": "stock.check",
                "arguments": [{"to": "link_id", "source": "link"}, {"to": "variant", "constant": "red"}],
            },
        }
    )
    assert surfaces.call("stock.check", {"link_id": "3", "variant": "blue"}) is None
    assert surfaces.call("stock.check", {"link_id": "3"}) is not None  # red is the binding's own
    red = surfaces.call("stock.check", {"link_id": "3", "variant": "red"})
    assert red is not None and red.arguments == {"link": "3"}
    assert surfaces.call("size.advise", {"link_id": "3"}) is None


def test_every_call_of_a_variant_comes_back_as_it_went_in() -> None:
    tasks = [t for t in make_tasks("train", "en", 60, 30) if t.needed]
    operations = shop_operations()
    for seed in range(6):
        harness = sample_variant(harness_of("en"), seed, "heldout", 1.0, ("tool_schemas",)).harness
        surfaces = surfaces_of(harness)
        for need in (n for t in tasks for n in t.needed):
            call = surfaces.call(need.operation, need.arguments)
            assert call is not None
            tool = harness.tool_named(call.tool)
            assert tool is not None
            bound = bind(tool.binding, call.arguments, operations[need.operation].parameters)
            assert {k: bound.get(k) for k in need.arguments} == dict(need.arguments)


def test_the_next_page_is_asked_for_where_there_is_one() -> None:
    surfaces = _surfaces(
        {
            "input_schema": {"type": "object", "properties": {"page_no": {"type": "integer"}}},
            "binding": {"operation": "promotions.list", "arguments": [{"to": "page", "source": "page_no"}]},
            "result": {"style": "json", "page_size": 2},
        }
    )
    call = surfaces.call("promotions.list", {})
    assert call is not None
    second = surfaces.next_page(call, '{"promotions": [], "page": 1, "pages": 2}')
    assert second is not None and second.arguments == {"page_no": 2}
    assert surfaces.next_page(second, "page: 2\npages: 2") is None
    assert surfaces.next_page(call, '{"promotions": []}') is None


def test_short_pages_are_turned_until_the_answer_is_shown() -> None:
    base = harness_of("zh")
    tools = tuple(
        t.model_copy(
            update={
                "input_schema": {
                    **t.input_schema, "properties": {**t.input_schema["properties"], "page_no": {"type": "integer", "minimum": 1}},
                },
                "binding": t.binding.model_copy(
                    update={"arguments": (*t.binding.arguments, ArgumentMap(to="page", source="page_no"))}
                ),
                "result": t.result.model_copy(update={"page_size": 2}),
            }
        )
        if t.binding.operation == "promotions.list"
        else t
        for t in base.tools
    )  # fmt: skip
    harness = base.replace(tools=tools)
    tasks = [
        t
        for t in make_tasks("train", "zh", 250, 5)
        if "promotion.named" in t.tags and len(t.needed) == 1 and not t.faults
    ]
    played = play(tasks, harness)
    assert len(tasks) >= 5 and all(s.full for *_, s in played), [s.reasons for *_, s in played]
    pages = [sum(r.operation == "promotions.list" for r in x.results) for _, x, _ in played]
    assert max(pages) > 1


# --------------------------------------------------------------------------------------- rollouts


def test_rollouts_side_by_side_are_the_same_as_one_after_another() -> None:
    tasks = make_tasks("train", "zh", 30, 9)
    told: list[str] = []

    async def scores(concurrency: int) -> dict[str, Scores]:
        found = rollouts(
            tasks,
            harness_of("zh"),
            OraclePolicy(),
            concurrency=concurrency,
            seed=4,
            progress=lambda r: told.append(r.task.id),
        )
        return {r.task.id: r.scores async for r in found}

    assert asyncio.run(scores(1)) == asyncio.run(scores(8))
    assert Counter(told) == {t.id: 2 for t in tasks}


def test_a_concurrency_below_one_is_refused() -> None:
    async def none() -> None:
        async for _ in rollouts([], harness_of("en"), OraclePolicy(), concurrency=0):
            pass

    with pytest.raises(ValueError, match="found concurrency 0"):
        asyncio.run(none())


def test_slow_operations_take_virtual_time() -> None:
    task = next(t for t in make_tasks("train", "en", 400, 3) if "fault:slow" in t.tags)
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    _, scores = asyncio.run(rollout(task, harness_of("en"), OraclePolicy(), sleep=sleep))
    assert scores.full and waited and all(0.5 < w < 2 for w in waited)
