from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from virtual_room import chat, trajectory

from livery.errors import InputError, StoreError
from livery.room.intake import Settled
from livery.room.journal import Happening, Journal, Retention
from livery.room.trajectories import TrajectoryWriter, dump_trajectory, load_trajectory, read_trajectories
from livery.types import (
    ChatMessage,
    Checkpoint,
    Effect,
    ErrorKind,
    Fate,
    HookEvent,
    PolicyTurn,
    Request,
    RoomState,
    Route,
    TokenTrace,
    ToolCall,
    ToolError,
    ToolResult,
    Trajectory,
    Turn,
    Usage,
)


def request(name: str, room: str = "room") -> Request:
    return Request(
        id=name,
        messages=(chat("how much?", f"m-{name}"),),
        state=RoomState(room=room, language="en", now=5.0),
        created_at=5.0,
    )


def full_trajectory() -> Trajectory:
    call = ToolCall(id="c1", name="look_up", arguments={"link": "3", "nested": {"a": [1, 2.5, None]}})
    turn = Turn(
        round=1,
        harness_release="sha256:1",
        weights="w1",
        policy=PolicyTurn(
            calls=(call,),
            stop="calls",
            usage=Usage(prompt=10, cached=4, output=3),
            tokens=TokenTrace(prompt_ids=(1, 2), output_ids=(3,), logprobs=(-0.5,)),
        ),
        results=(
            ToolResult(call=call, key="k", operation="catalog.get_product", value={"price": 1999}, text="{}"),
            ToolResult(call=call, error=ToolError(kind=ErrorKind.TIMEOUT, message="slow")),
        ),
    )
    return Trajectory(
        id="t1",
        request=request("r1"),
        harness="h",
        harness_release="sha256:1",
        policy="p",
        turns=(turn,),
        hooks=(HookEvent(hook="grounding", checkpoint=Checkpoint.REPLY, decision="allow"),),
        reply="￥19.99 “quoted”\nline",
        effects=(Effect(kind="show_item", link_id="3"),),
        route=Route.AGENT,
        route_reason="ok",
        started_at=5.0,
        total_s=1.25,
    )


async def test_messages_are_new_once_even_within_one_commit(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.sqlite")
    news = await asyncio.gather(*(journal.accept(chat("x", f"m{n % 50}"), float(n)) for n in range(200)))
    assert sum(news) == 50
    assert news[:50] == [True] * 50
    held = await journal.open_messages("room")
    assert [(h.message.id, h.arrived_at) for h in held] == [(f"m{n}", float(n)) for n in range(50)]
    await journal.aclose()


async def test_the_first_fate_stays(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.sqlite")
    await journal.accept(chat("x", "a"), 1.0)
    assert await journal.fate("room", "a") == (None, "")
    await asyncio.gather(
        journal.conclude("room", at=2.0, settled=[Settled("a", Fate.DROPPED, "first")]),
        journal.conclude("room", at=2.0, settled=[Settled("a", Fate.ANSWERED, "second")]),
    )
    await journal.conclude("room", at=3.0, settled=[Settled("a", Fate.DELETED, "third")])
    assert await journal.fate("room", "a") == (Fate.DROPPED, "first")
    assert await journal.fate("room", "b") is None
    assert await journal.open_messages("room") == ()
    await journal.aclose()


async def test_trajectories_come_back_whole_and_by_their_columns(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.sqlite")
    whole = full_trajectory()
    await journal.conclude("room", at=6.0, trajectory=whole)
    for n in range(3):
        silent = trajectory(request(f"q{n}", "other"), "", route=Route.SILENT)
        await journal.conclude("other", at=6.0, trajectory=silent)
    assert await journal.trajectory("t1") == whole
    assert await journal.trajectory("none") is None
    latest = await journal.trajectories(room="other", limit=2)
    assert [t.id for t in latest] == ["t-q2", "t-q1"]
    assert [t.id for t in await journal.trajectories(route=Route.AGENT)] == ["t1"]
    assert [t.id for t in await journal.trajectories(harness_release="sha256:1")] == ["t1"]
    assert [t.id for t in await journal.trajectories(request_id="q0")] == ["t-q0"]
    assert await journal.export(tmp_path / "out.jsonl", room="other") == 3
    assert [t.id for t in read_trajectories(tmp_path / "out.jsonl")] == ["t-q0", "t-q1", "t-q2"]
    await journal.aclose()


async def test_requests_left_open_are_ended_by_the_next_start(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.sqlite")
    assert await journal.last_request() == 0
    await journal.begin(request("r1"), ["m-r1"])
    await journal.begin(request("r2"), ["m-r2"])
    await journal.conclude("room", at=1.0, request_id="r1", outcome="answered")
    await journal.open_messages("room")
    await journal.aclose()
    with sqlite3.connect(tmp_path / "j.sqlite") as connection:
        rows = connection.execute("SELECT id, outcome FROM requests ORDER BY seq").fetchall()
    connection.close()
    assert rows == [("r1", "answered"), ("r2", "restarted")]


async def test_retention_bounds_rows_and_keeps_the_sums(tmp_path: Path) -> None:
    now = 1_000.0
    journal = Journal(
        tmp_path / "j.sqlite",
        retention=Retention(messages=100, trajectories=10, happenings=5, max_age_s=500.0),
        clock=lambda: now,
    )
    await journal.accept(chat("x", "open"), 0.0)
    for start in range(0, 6000, 1000):
        names = [f"m{n}" for n in range(start, start + 1000)]
        await asyncio.gather(*(journal.accept(chat("x", n), now) for n in names))
        await journal.conclude("room", at=now, settled=[Settled(n, Fate.DROPPED, "r") for n in names])
        for n in range(4):
            await journal.conclude(
                "room",
                at=now,
                trajectory=trajectory(request(f"q{start + n}")),
                happenings=[Happening(kind="spoken", at=now)],
            )
    with journal._engine.begin() as connection:
        journal._prune(connection)
    counts = await journal.fate_counts("room")
    assert counts == {None: 1, Fate.DROPPED: 6000}
    assert [h.message.id for h in await journal.open_messages("room")] == ["open"]
    with journal._engine.begin() as connection:
        kept = connection.execute(sa.text("SELECT count(*) FROM messages")).scalar_one()
        spoken = connection.execute(sa.text("SELECT count(*) FROM happenings")).scalar_one()
    assert (kept, spoken) == (101, 5)
    assert await journal.trajectories(limit=100) == ()  # all began at 5.0, beyond the age limit
    await journal.aclose()


async def test_one_bad_row_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.sqlite")
    good, bad, also = await asyncio.gather(
        journal.accept(chat("x", "a"), 1.0),
        journal.conclude("room", at={}, settled=[Settled("a", Fate.DROPPED, "r")]),  # type: ignore[arg-type]
        journal.accept(chat("x", "b"), 1.0),
        return_exceptions=True,
    )
    assert (good, also) == (True, True)
    assert isinstance(bad, StoreError)
    await journal.aclose()


async def test_happenings_come_oldest_first(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.sqlite")
    for n in range(4):
        await journal.conclude("room", at=1.0, happenings=[Happening(kind="item", at=float(n), link_id=str(n))])
    assert [h.link_id for h in await journal.happenings("room", "item", 2)] == ["2", "3"]
    assert await journal.happenings("room", "spoken", 2) == ()
    await journal.aclose()


def test_a_journal_of_another_schema_or_no_database_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path / "j.sqlite").close()
    with sqlite3.connect(tmp_path / "j.sqlite") as connection:
        connection.execute("UPDATE livery_meta SET schema = 'livery.journal/9'")
    connection.close()
    with pytest.raises(StoreError, match="schema 'livery"):
        Journal(tmp_path / "j.sqlite")
    (tmp_path / "no.sqlite").write_text("this is not a database at all, only text " * 50)
    with pytest.raises(StoreError, match="not a database"):
        Journal(tmp_path / "no.sqlite")


async def test_a_closed_journal_takes_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.sqlite")
    journal.close()
    journal.close()
    with pytest.raises(StoreError, match="closed"):
        journal.accept(chat("x", "a"), 1.0)


def test_the_same_statements_suit_postgresql(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.sqlite")
    journal._postgres = True
    for table in ("messages", "requests", "trajectories", "happenings", "pruned"):
        insert = journal._insert_once(sa.Table(table, sa.MetaData(), sa.Column("id", sa.Text)))
        text = str(insert.compile(dialect=postgresql.dialect()))
        assert text.endswith("ON CONFLICT DO NOTHING")
    journal.close()


# ------------------------------------------------------------------------------------- JSON lines


def test_a_trajectory_survives_a_line_of_json() -> None:
    whole = full_trajectory()
    line = dump_trajectory(whole)
    assert "\n" not in line
    assert json.loads(line)["schema"] == "livery.trajectory/1"
    assert load_trajectory(line) == whole


def test_every_bad_line_is_named_and_no_good_one_lost(tmp_path: Path) -> None:
    good = dump_trajectory(full_trajectory())
    other = json.dumps({**json.loads(good), "schema": "livery.trajectory/2"})
    wrong = json.dumps({**json.loads(good), "route": "sideways", "total_s": "long"})
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join([good, other, "", "{", wrong, good, "[]"]) + "\n", encoding="utf-8")
    found: list[Trajectory] = []
    with pytest.raises(InputError) as caught:
        for one in read_trajectories(path):
            found.append(one)
    assert len(found) == 2
    problems = [(p.line, p.field, p.code) for p in caught.value.problems]
    assert problems == [
        (2, "schema", "unknown-schema"),
        (4, "", "not-json"),
        (5, "route", "bad-field"),
        (5, "total_s", "bad-field"),
        (7, "schema", "unknown-schema"),
    ]
    assert "'livery.trajectory/2'; this version of livery reads 'livery.trajectory/1'" in str(caught.value)


def test_appending_cuts_a_torn_line_off(tmp_path: Path) -> None:
    path = tmp_path / "new" / "t.jsonl"
    with TrajectoryWriter(path) as writer:
        writer.write(full_trajectory())
    with path.open("a") as file:
        file.write('{"schema": "livery.traj')
    with TrajectoryWriter(path, append=True) as writer:
        writer.write(full_trajectory())
    assert list(read_trajectories(path)) == [full_trajectory()] * 2


async def test_a_claim_holds_for_the_whole_file_and_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    hold = (
        "import sys; from livery.room.journal import Journal; Journal(sys.argv[1]).claim('a');"
        "print('held', flush=True); sys.stdin.read()"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", hold, str(path), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert await process.stdout.readline() == b"held\n"
        journal = Journal(path)
        with pytest.raises(StoreError, match=r"room 'b' .* is being served already; stop that one first"):
            journal.claim("b")
        assert await journal.fate_counts("a") == {}, "reading needs no claim"
        process.kill()
        await process.communicate()
    journal.claim("b")
    journal.claim("a")
    with pytest.raises(StoreError, match="being served already"):
        journal.claim("a")
    await journal.aclose()


@pytest.mark.skipif("LIVERY_POSTGRES_URL" not in os.environ, reason="LIVERY_POSTGRES_URL names no server")
async def test_postgresql_keeps_the_same_promises() -> None:
    url = os.environ["LIVERY_POSTGRES_URL"]
    room = f"room-{uuid.uuid4()}"
    journal = Journal(url, retention=Retention(messages=10, happenings=2), clock=lambda: 100.0)

    def said(id: str) -> ChatMessage:
        return replace(chat("多少钱?", id), room=room)

    news = await asyncio.gather(*(journal.accept(said(f"m{n % 50}"), float(n)) for n in range(100)))
    assert sum(news) == 50
    asked = request(f"r-{room}", room)
    await journal.begin(asked, ["m0"])
    await asyncio.gather(
        journal.conclude(
            room,
            at=1.0,
            settled=[Settled("m0", Fate.ANSWERED, "first")],
            request_id=asked.id,
            outcome="answered",
            trajectory=trajectory(asked),
            happenings=[Happening(kind="item", at=float(n), link_id=str(n)) for n in range(4)],
        ),
        journal.conclude(room, at=2.0, settled=[Settled("m0", Fate.DROPPED, "second")]),
    )
    assert await journal.fate(room, "m0") == (Fate.ANSWERED, "first")
    assert len(await journal.open_messages(room)) == 49
    assert [t.request.id for t in await journal.trajectories(room=room)] == [asked.id]
    await journal.conclude(room, at=3.0, settled=[Settled(f"m{n}", Fate.EXPIRED, "x") for n in range(50)])
    with journal._engine.begin() as connection:
        journal._prune(connection)
    assert await journal.fate_counts(room) == {Fate.ANSWERED: 1, Fate.EXPIRED: 49}
    assert [h.link_id for h in await journal.happenings(room, "item", 9)] == ["2", "3"]
    other = Journal(url)
    journal.claim(room)
    with pytest.raises(StoreError, match="is being served already"):
        other.claim(room)
    other.claim(f"{room}-2")
    journal.release(room)
    other.claim(room)
    await journal.aclose()
    await other.aclose()
