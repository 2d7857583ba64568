from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from virtual_room import chat, trajectory

from livery.room.contract import Ack, RoomConfig
from livery.room.intake import IntakeConfig
from livery.room.replay import Progress, feed, replay
from livery.room.sources import read_chat
from livery.room.trajectories import read_trajectories
from livery.types import (
    ChatDeletion,
    ChatEvent,
    Effect,
    Fate,
    PolicyTurn,
    Request,
    Route,
    Trajectory,
    Turn,
    Usage,
)

CHATS = Path(__file__).parents[2] / "../shared/data/chats"
CONFIG = RoomConfig(room="room", streamer="Ann")


def at(seconds: float, text: str, id: str, **fields: Any) -> ChatEvent:
    return replace(chat(text, id, **fields), at=1_000.0 + seconds, room="elsewhere")


async def scripted(request: Request) -> Trajectory:
    turn = Turn(
        round=1,
        harness_release="r",
        weights="w",
        policy=PolicyTurn(usage=Usage(prompt=100, cached=60, output=7)),
    )
    if "where" in request.text:
        done = trajectory(request, "", route=Route.SILENT, reason="nothing to say")
    else:
        done = trajectory(
            request, f"{len(request.state.dialogue)} before", effects=[Effect(kind="show_item", link_id="3")]
        )
    return replace(done, turns=(turn,))


def fates(folder: Path) -> dict[str, tuple[str, str]]:
    rows = [json.loads(line) for line in (folder / "fates.jsonl").read_text().splitlines()]
    assert len({r["message"] for r in rows}) == len(rows)
    return {r["message"]: (r["fate"], r["reason"]) for r in rows}


EVENTS: list[ChatEvent] = [
    at(0.0, "how much is number 3?", "a"),
    at(1.0, "no. 3 price?", "b"),
    at(1.2, "lol", "c"),
    at(1.2, "lol", "c"),
    at(5.0, "where are you from?", "d"),
    at(9.0, "do you ship abroad?", "e"),
    ChatDeletion(room="elsewhere", at=1_009.5, message="e"),
    at(12.0, "is it in stock?", "f"),
]


async def test_max_speed_keeps_chat_time_and_writes_the_figures(tmp_path: Path) -> None:
    ticks = itertools.count(0.0, 0.5)
    seen: list[Progress] = []
    summary = await replay(
        EVENTS, answer=scripted, config=CONFIG, out=tmp_path, progress=seen.append, timer=lambda: next(ticks)
    )
    assert json.loads((tmp_path / "summary.json").read_text()) == {
        "messages": 6,
        "duplicates": 1,
        "deletions": 1,
        "requests": 3,
        "fates": {"answered": 2, "merged": 1, "expired": 0, "dropped": 2, "deleted": 1},
        "routes": {"agent": 2, "degraded": 0, "handoff": 0, "silent": 1},
        "failures": 0,
        "latency_s": {"p50": 0.5, "p95": 0.5, "max": 0.5},
        "tokens": {"prompt": 300, "cached": 180, "output": 21},
        "harness_release": "sha256:0",
        "policy": "scripted:test",
        "speed": "max",
        "chat_s": 12.0,
        "wall_s": 3.5,
        "recording": {"events": 8},
    }
    assert sum(summary.fates.values()) == summary.messages
    assert fates(tmp_path)["d"] == ("dropped", "silent: nothing to say")
    done = list(read_trajectories(tmp_path / "trajectories.jsonl"))
    assert [[m.id for m in t.request.messages] for t in done] == [["a", "b"], ["d"], ["f"]]
    assert [t.request.created_at for t in done] == [1_001.5, 1_006.5, 1_013.5]
    assert [t.request.state.on_screen for t in done] == ["", "3", "3"]
    assert done[2].reply == "1 before"
    assert (seen[-1].events, seen[-1].total, seen[-1].requests) == (8, 8, 3)


async def test_a_replay_at_max_is_the_same_every_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        await replay(EVENTS, answer=scripted, config=CONFIG, out=tmp_path / name, start_at=5_000.0)
    for file in ("trajectories.jsonl", "fates.jsonl"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    first = next(read_trajectories(tmp_path / "one" / "trajectories.jsonl"))
    assert first.request.state.now == 5_001.5


async def test_busy_seconds_let_a_queue_grow_and_expire_in_chat_time(tmp_path: Path) -> None:
    topics = (
        "how much?",
        "is it in stock?",
        "do you ship?",
        "what size?",
        "can i return it?",
        "which is better?",
    )
    events = [at(0.1 * n, text, f"m{n}") for n, text in enumerate(topics)]
    config = RoomConfig(room="room", intake=IntakeConfig(max_age_s=10.0))
    free = await replay(events, answer=scripted, config=config, out=tmp_path / "free")
    assert free.fates["answered"] == 6
    busy = await replay(events, answer=scripted, config=config, out=tmp_path / "busy", busy_s=4.0)
    assert (busy.requests, busy.fates["answered"], busy.fates["expired"]) == (3, 3, 3)
    late = await replay(events, answer=scripted, config=config, out=tmp_path / "late", busy_s=31.0)
    assert (late.requests, late.fates["expired"]) == (1, 6)


async def test_a_deletion_during_busy_seconds_cancels_or_shrinks(tmp_path: Path) -> None:
    events = [
        at(0.0, "how much is number 3?", "a"),
        at(0.5, "no. 3 price?", "b"),
        ChatDeletion(room="x", at=1_002.0, message="a"),
        ChatDeletion(room="x", at=1_030.0, message="b"),
        at(40.0, "is it in stock?", "c"),
        ChatDeletion(room="x", at=1_042.0, everything=True),
    ]
    await replay(events, answer=scripted, config=CONFIG, out=tmp_path, busy_s=3.0)
    assert {k: v[0] for k, v in fates(tmp_path).items()} == {"a": "deleted", "b": "answered", "c": "deleted"}
    done = list(read_trajectories(tmp_path / "trajectories.jsonl"))
    assert [[m.id for m in t.request.messages] for t in done] == [["b"]]


async def test_an_agent_that_raises_is_counted_and_the_replay_goes_on(tmp_path: Path) -> None:
    async def broken(request: Request) -> Trajectory:
        if "stock" in request.text:
            return await scripted(request)
        raise OSError("no model")

    summary = await replay(EVENTS, answer=broken, config=CONFIG, out=tmp_path)
    assert (summary.failures, summary.routes["agent"]) == (2, 1)
    assert fates(tmp_path)["a"] == ("dropped", "failed: OSError: no model")


async def test_an_empty_recording_has_figures_too(tmp_path: Path) -> None:
    summary = await replay([], answer=scripted, config=CONFIG, out=tmp_path)
    assert (summary.messages, summary.latency_s["max"], summary.policy) == (0, 0.0, "")
    assert (tmp_path / "trajectories.jsonl").read_text() == ""


async def test_a_finite_speed_drives_a_real_room(tmp_path: Path) -> None:
    for _ in range(2):  # a second replay into the same folder starts afresh
        summary = await replay(EVENTS, answer=scripted, config=CONFIG, out=tmp_path, speed=100.0)
        assert summary.messages == sum(summary.fates.values()) == 6
        assert (summary.duplicates, summary.deletions, summary.speed) == (1, 1, "100.0")
        assert summary.requests == sum(summary.routes.values())
    assert fates(tmp_path).keys() == set("abcdef")
    assert len(list(read_trajectories(tmp_path / "trajectories.jsonl"))) == summary.requests


async def test_feeding_a_running_room_keeps_the_pace_and_gives_each_round_its_own_ids() -> None:
    played: list[ChatEvent] = []
    slept: list[float] = []

    async def submit(event: ChatEvent) -> Ack:
        played.append(event)
        return Ack(accepted=True)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    count = await feed(
        EVENTS[:1] + EVENTS[6:], submit, room="room", clock=lambda: 7.0, sleep=sleep, speed=2.0, rounds=2, longest_gap_s=6.0
    )  # fmt: skip
    assert count == 6
    assert slept == [0.0, 3.0, 1.25, 5.0, 0.0, 3.0, 1.25, 5.0]
    assert {(e.room, e.at) for e in played} == {("room", 7.0)}
    ids = [e.message if isinstance(e, ChatDeletion) else e.id for e in played]
    assert ids == ["a~1b58.0", "e~1b58.0", "f~1b58.0", "a~1b58.1", "e~1b58.1", "f~1b58.1"]


@pytest.mark.skipif(not CHATS.is_dir(), reason="the real chats are not here")
@pytest.mark.parametrize("name", sorted(p.name for p in CHATS.glob("*")) if CHATS.is_dir() else [])
async def test_every_message_of_the_real_chats_has_one_fate(tmp_path: Path, name: str) -> None:
    recorded = read_chat(CHATS / name, room="room")
    events = recorded.events
    summary = await replay(events, answer=scripted, config=CONFIG, out=tmp_path, busy_s=2.0)
    ids = {e.id for e in events if not isinstance(e, ChatDeletion)}
    settled = fates(tmp_path)
    assert settled.keys() == ids
    assert sum(summary.fates.values()) == summary.messages == len(ids)
    counted = Counter(fate for fate, _ in settled.values())
    assert {f.value: counted[f.value] for f in Fate} == summary.fates
