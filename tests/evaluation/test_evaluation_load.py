"""The promise at twice the sustained rate, and soaks, in a real room under virtual time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from virtual_loop import Leaky, PromptJournal, Slow, Stubborn, now, virtually

from livery.errors import InputError
from livery.evaluation import load, load_room, soak
from livery.evaluation.latency import bench_world
from livery.evaluation.latency_page import load_page, soak_page
from livery.harness.model import Harness
from livery.policies.policy import Policy
from livery.room.contract import RoomConfig, Spoken
from livery.room.journal import Retention

CHAT = load_room.chat_of(bench_world("en", 0), 40)
ABOUT = dict.fromkeys(("command", "date", "livery", "machine", "policy", "harness", "speech"), "x")


@pytest.fixture(scope="module")
def plain(english: Harness) -> Harness:
    """Without hooks: those in threads know no virtual time."""
    return english.replace(hooks=())


@asynccontextmanager
async def room(base: Harness, policy: Policy, path: Path, config: RoomConfig, **more: Any):
    # The journal's threads ask it as well.
    clock = load_room.show_clock(bench_world("en", 0), asyncio.get_running_loop().time)
    retention = Retention(messages=10, requests=10, trajectories=10, happenings=10)
    journal = PromptJournal(path, clock=clock, retention=retention)
    try:
        async with load_room.loaded_room(
            bench_world("en", 0),
            base,
            policy,
            config=config,
            journal=journal,
            clock=clock,
            monotonic=now,
            chat=CHAT,
            **more,
        ) as loaded:
            yield loaded
    finally:
        await journal.aclose()


def settings(base: Harness) -> RoomConfig:
    return load_room.config_of(bench_world("en", 0), base)


async def sustained_by(base: Harness, policy: Policy, path: Path, n: int = 4) -> load_room.Sustained:
    async with room(base, policy, path, load_room.calibration(settings(base))) as loaded:
        return await load_room.calibrate(loaded, n)


async def loaded_by(
    base: Harness, policy: Policy, path: Path, sustained: load_room.Sustained, limit: int, **more: Any
) -> dict[str, Any]:
    heard = load.Heard()
    planned = load.plan(sustained, settings(base), base, times=2.0, limit=limit, grace_s=0.5)
    told = {"on_wait": heard.waits.append, "on_answer": heard.answers.append, "on_speech": heard.synthesis.append}
    async with room(base, policy, path, settings(base), **told, **more) as loaded:
        return await load.load(loaded, planned, heard)


class LongVoice:
    async def speak(self, text: str, language: str) -> Spoken:
        return Spoken(audio=b"RIFF", duration_s=70.0)

    async def cancel(self) -> None: ...


def test_at_twice_the_sustained_rate_nobody_waits_past_the_deadline(plain: Harness, tmp_path: Path) -> None:
    async def main() -> tuple[load_room.Sustained, dict[str, Any]]:
        policy = Slow(prefill_s=0.5, decode_s=1.5)
        sustained = await sustained_by(plain, policy, tmp_path / "calibration.db")
        return sustained, await loaded_by(plain, policy, tmp_path / "journal.db", sustained, 40)

    sustained, found = virtually(main())
    assert sustained.requests_per_s == pytest.approx(1 / 6, rel=0.05)  # three rounds of two seconds
    assert found["offered_per_s"] == pytest.approx(2 * sustained.messages_per_s, rel=0.01)
    assert found["kept"]
    assert (found["late_messages"], found["late_requests"], found["without_fate"]) == (0, 0, 0)
    assert found["messages"] == sum(found["fates"].values()) == 40
    assert found["fates"]["expired"] > 0, "it is not overloaded"
    assert found["fates"]["answered"] > 0
    assert found["routes"]["agent"] == found["requests"]
    assert sum(found["route_shares"].values()) == pytest.approx(1.0, abs=0.001)
    assert 20.0 < found["wait"]["max_s"] <= 30.5
    text = load_page({**ABOUT, **found})
    assert "of grace): kept." in text
    assert "| fate `expired` |" in text


def test_a_policy_that_does_not_stop_breaks_the_promise(plain: Harness, tmp_path: Path) -> None:
    found = virtually(loaded_by(plain, Stubborn(), tmp_path / "journal.db", load_room.Sustained(0.2, 1.0), 8))
    assert not found["kept"]
    assert found["late_messages"] > 0
    assert "**broken**" in load_page({**ABOUT, **found})


def test_who_waits_behind_a_long_reply_is_told_in_time(plain: Harness, tmp_path: Path) -> None:
    policy = Slow(prefill_s=0.0, decode_s=1.0)
    sustained = load_room.Sustained(0.2, 1.0)
    found = virtually(loaded_by(plain, policy, tmp_path / "journal.db", sustained, 12, speech=LongVoice()))
    assert found["kept"]
    assert found["wait"]["max_s"] <= 30.5
    assert found["unanswered_because"]["its reply came too late to be spoken"] > 0


def test_a_plan_needs_something_to_send(plain: Harness) -> None:
    config = settings(plain)
    planned = load.plan(load_room.Sustained(0.1, 1.5), config, plain, times=2.0, limit=0, grace_s=0.5)
    assert planned.messages == 54
    assert planned.span_s == pytest.approx(6 * config.reply_deadline_s)
    with pytest.raises(InputError, match="messages a second"):
        load.plan(load_room.Sustained(0.0, 1.0), config, plain, times=2.0, limit=0, grace_s=0.5)
    assert load.bounded(config, 12.0).intake.max_age_s == 12.0


# ------------------------------------------------------------------------------------------------ soak


def soaked(base: Harness, policy: Policy, folder: Path, **more: Any) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        tally = soak.Tally()
        told = {"on_wait": tally.on_wait, "on_answer": tally.on_answer, "on_speech": tally.synthesis.append}
        async with room(base, policy, folder / "journal.db", settings(base), **told) as loaded:
            return await soak.soak(
                loaded, folder, rate=0.4, minutes=2, tally=tally,
                limits=soak.Limits(slope_mib_per_hour=600.0, waiting=32), **more,
            )  # fmt: skip

    return virtually(main())


def test_a_soak_of_a_room_that_leaks_says_so_and_of_one_that_does_not_too(plain: Harness, tmp_path: Path) -> None:
    quick = {"prefill_s": 0.1, "decode_s": 0.2}
    sound = soaked(plain, Slow(**quick), tmp_path / "sound")
    assert sound["grew"] == []
    assert sound["kept"]
    assert sound["messages"] == sum(sound["fates"].values()) == 48
    assert sound["samples"] >= 115
    assert sound["memory_mib"]["slope_per_hour"] < 300
    assert sound["journal"]["messages"] == {"rows": 48, "at_most": 10 + 5000 + 2048}
    assert "journal.db" in sound["files_mib"]
    assert "nothing grew that may not" in soak_page({**ABOUT, **sound})
    leaky = soaked(plain, Leaky(**quick), tmp_path / "leaky")
    assert not leaky["kept"]
    assert leaky["memory_mib"]["slope_per_hour"] > 600
    assert [g.partition(":")[0] for g in leaky["grew"]] == ["memory"]


def test_a_file_that_no_setting_bounds_is_named(plain: Harness, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("x")

    def logged() -> float:
        log.write_text(log.read_text() + "x" * 1000)
        return 50.0

    found = soaked(plain, Slow(prefill_s=0.1, decode_s=0.2), tmp_path, memory=logged)
    assert found["memory_mib"]["slope_per_hour"] == 0.0
    assert [g.partition(":")[0] for g in found["grew"]] == ["app.log"]


def test_the_slope_is_not_moved_by_spikes() -> None:
    rng = Random(1)
    at = [i / 360 for i in range(360)]
    noise = [50 + rng.gauss(0, 0.5) for _ in at]
    spiky = [v + (200 if i % 20 == 19 else 0) for i, v in enumerate(noise)]
    assert abs(soak.slope(at, spiky)) < 1.0
    assert soak.slope(at, [v + 30 * t for v, t in zip(spiky, at, strict=True)]) == pytest.approx(30.0, abs=1.0)
    long = [i / 1000 for i in range(5000)]
    assert soak.slope(long, [3 * t for t in long]) == pytest.approx(3.0)
    assert soak.slope([1.0], [5.0]) == soak.slope([], []) == 0.0
