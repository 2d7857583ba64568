"""Latency replays under virtual time: known seconds come out as they went in, stage by stage."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from virtual_loop import Slow, now, virtually

from livery.agent.live_harness import LiveHarness
from livery.errors import InputError, PolicyUnavailable
from livery.evaluation import latency
from livery.evaluation.latency_figures import STAGES, compare, figures, stages_of
from livery.evaluation.latency_page import latency_page
from livery.harness.hooks.run import HookOutcome
from livery.harness.model import Harness
from livery.policies.policy import PolicyRequest
from livery.room.contract import Spoken
from livery.room.trajectories import dump_trajectory, load_trajectory
from livery.shop.operations import OperationContext, Operations, Outcome
from livery.simulator.rollout import OPERATIONS, live_of
from livery.types import Checkpoint, PolicyTurn, Route, StageTimes


class SlowOperations(Operations):
    async def call(self, name: str, arguments: Any, context: OperationContext) -> Outcome:
        await asyncio.sleep(0.5)
        return await super().call(name, arguments, context)


class SlowHooks:
    """A quarter of a second on the request, on each call and on the reply."""

    def has(self, checkpoint: Checkpoint) -> bool:
        return checkpoint in (Checkpoint.REQUEST, Checkpoint.TOOL_CALL, Checkpoint.REPLY)

    async def run(self, checkpoint: Checkpoint, value: Any, context: Any, *, budget_s: float) -> HookOutcome:
        await asyncio.sleep(0.25)
        return HookOutcome(value)


class Voice:
    async def speak(self, text: str, language: str) -> Spoken:
        await asyncio.sleep(0.4)
        return Spoken(audio=b"", duration_s=60.0)

    async def cancel(self) -> None: ...


@pytest.fixture(scope="module")
def live(english: Harness) -> LiveHarness:
    return live_of(english.replace(hooks=()), patience_s=None)


def measured(live: LiveHarness, policy: Any, *, n: int = 4, concurrency: int = 1, **more: Any) -> latency.Level:
    async def main() -> latency.Level:
        rooms = latency.make_rooms("en", n, rooms=2)
        return await latency.measure(rooms, live, policy(), concurrency=concurrency, monotonic=now, **more)

    return virtually(main())


def test_every_second_is_in_its_stage(english: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "OPERATIONS", SlowOperations(OPERATIONS.values()))
    slow = live_of(english.replace(hooks=()), patience_s=None)
    slow.hooks = SlowHooks()  # pyright: ignore[reportAttributeAccessIssue]
    level = measured(slow, Slow, speech=Voice())
    assert [m.trajectory.route for m in level.requests] == [Route.AGENT] * 4
    for one in level.requests:
        found = stages_of(one)
        # The skill and the look-up of round one run side by side, and so do their hooks.
        assert found["hooks"] == pytest.approx(4 * 0.25)
        assert found["tools"] == pytest.approx(2 * 0.5)
        assert found["prefill"] == pytest.approx(3 * 0.5)
        assert found["decode"] == pytest.approx(3 * 1.0)
        assert found["speech"] == pytest.approx(0.4)
        assert found["loop"] == pytest.approx(0.5 if one.trajectory.request.state.on_screen else 0.0)
        assert found["queue"] == found["cut"] == found["degraded"] == 0.0
        assert sum(found.values()) == pytest.approx(one.whole_s)
    shown = figures(level)
    assert shown["accounted"] == pytest.approx(1.0)
    assert sum(s["share"] for s in shown["stages"].values()) == pytest.approx(1.0, abs=0.01)
    assert {r: g["turns"] for r, g in shown["rounds"].items()} == {"1": 4, "2": 4, "3": 4}
    assert shown["rounds"]["2"]["decode"] == {"p50_s": 1.0, "p95_s": 1.0}


def test_rooms_are_really_asked_side_by_side_and_a_shared_slot_shows_as_queue(live: LiveHarness) -> None:
    alone, together = measured(live, Slow), measured(live, Slow, concurrency=2)
    assert alone.wall_s == pytest.approx(4 * 4.5)
    assert together.wall_s == pytest.approx(2 * 4.5)
    assert figures(together)["side_by_side"] == pytest.approx(2.0)
    assert figures(together)["stages"]["queue"]["mean_s"] == 0.0
    one_slot = measured(live, lambda: Slow(slots=1), concurrency=2)
    assert one_slot.wall_s == pytest.approx(4 * 4.5)
    shown = figures(one_slot)
    assert shown["stages"]["queue"]["mean_s"] > 2.0
    assert shown["stages"]["decode"]["mean_s"] == pytest.approx(3.0)
    assert [m.id for m in alone.requests] == [m.id for m in together.requests] == [m.id for m in one_slot.requests]


def test_a_call_that_the_deadline_ends_is_accounted_for(live: LiveHarness) -> None:
    level = measured(live, lambda: Slow(decode_s=30.0), n=1)
    (one,) = level.requests
    limits = live.harness.limits
    assert one.trajectory.route in (Route.DEGRADED, Route.SILENT)
    assert one.trajectory.turns == ()
    assert stages_of(one)["cut"] == pytest.approx(limits.deadline_s - limits.degraded_reserve_s)
    assert sum(stages_of(one).values()) == pytest.approx(one.whole_s)


def test_quantiles_and_the_share_under_fifteen_seconds(live: LiveHarness) -> None:
    (one,) = measured(live, Slow, n=1).requests

    def lasting(seconds: float) -> latency.Measured:
        stages = StageTimes(policy_s=seconds)
        return replace(one, trajectory=replace(one.trajectory, total_s=seconds, stages=stages, turns=()))

    requests = tuple(lasting(float(s)) for s in range(1, 21))
    shown = figures(latency.Level(concurrency=1, requests=requests, wall_s=210.0, warm_s=0.0))
    assert (shown["p50_s"], shown["p95_s"], shown["max_s"]) == (10.5, 19.05, 20.0)
    assert shown["under_15s"] == 0.7
    assert shown["stages"]["engine"]["share"] == 1.0
    assert shown["routes"]["agent"] == 20


def test_reasoning_is_told_by_kind_of_turn_and_compared(live: LiveHarness) -> None:
    before = figures(measured(live, lambda: Slow(reasoning=20, decode_s=2.0)))
    after = figures(measured(live, lambda: Slow(reasoning=5, decode_s=1.0)))
    assert {k: g["reasoning"] for k, g in before["turns"].items()} == {"tools": 40.0, "reply": 20.0}
    assert before["tokens"]["cached_share"] == 0.6
    assert before["rooms"]["later"]["read_tokens_p50"] == 40.0
    a, b = ({"policy": "p", "concurrency": {"1": one, "2": one}} for one in (before, after))
    found = compare(a, {**b, "concurrency": {"1": after}})
    assert list(found["concurrency"]) == ["1"]
    one = found["concurrency"]["1"]
    assert one["turns"]["tools"]["reasoning"] == one["turns"]["reply"]["reasoning"] == 0.25
    assert one["stages"]["decode"] == 0.5
    assert one["stages"]["queue"] is None
    assert one["pairs"] == 4
    assert one["paired"] == pytest.approx(4.5 / 7.5)


def test_the_page_has_every_stage_and_level(live: LiveHarness) -> None:
    shown = figures(measured(live, Slow, n=2))
    about = dict.fromkeys(("command", "date", "livery", "machine", "policy", "harness", "speech"), "x")
    text = latency_page({**about, "requests": 2, "routes": shown["routes"], "concurrency": {"1": shown}})
    assert all(f"| {stage} |" in text for stage in STAGES)
    assert "| P50, s | 4.500 |" in text
    assert json.loads(json.dumps(shown)) == shown


def test_questions_are_the_same_each_time_and_of_the_train_split() -> None:
    rooms = latency.make_rooms("en", 5, seed=3, rooms=2)
    assert [len(r) for r in rooms] == [3, 2]
    assert [[t.id for t in r] for r in latency.make_rooms("en", 5, seed=3, rooms=2)] == [
        [t.id for t in r] for r in rooms
    ]
    tasks = [t for r in rooms for t in r]
    assert {t.world.split for t in tasks} == {"train"}
    assert not any(t.faults for t in tasks)
    assert len({r[0].request.room for r in rooms}) == 2
    with pytest.raises(InputError, match="expected at least 1 of each"):
        latency.make_rooms("en", 0)


def test_more_rooms_at_a_time_than_there_are_is_refused(live: LiveHarness) -> None:
    with pytest.raises(InputError, match="expected 1 to 2"):
        measured(live, Slow, concurrency=3)


def test_nobody_there_ends_the_replay(live: LiveHarness) -> None:
    class Gone(Slow):
        async def act(self, request: PolicyRequest) -> PolicyTurn:
            raise PolicyUnavailable("connection refused")

    with pytest.raises(PolicyUnavailable, match="5 requests in a row"):
        measured(live, Gone, n=8)


def test_trajectories_from_before_stages_were_measured_are_read(live: LiveHarness) -> None:
    (one,) = measured(live, Slow, n=1).requests
    raw = json.loads(dump_trajectory(one.trajectory))
    assert raw["stages"]["policy_s"] == pytest.approx(4.5)
    del raw["stages"]
    assert load_trajectory(json.dumps(raw)).stages == StageTimes()
