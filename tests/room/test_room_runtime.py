from __future__ import annotations

import asyncio
import math
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from virtual_room import Rooms, chat, following, trajectory

from livery.errors import StoreError
from livery.room.events import EventKind
from livery.room.intake import IntakeConfig
from livery.room.journal import Journal
from livery.room.runtime import Room, RoomConfig, Spoken, Stage
from livery.shop.catalogue import Catalogue, Product
from livery.types import ChatDeletion, Effect, Fate, Request, Route, Trajectory


async def at_once(request: Request) -> Trajectory:
    return trajectory(request)


class Held:
    """An agent that answers when told to."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.cancelled: list[str] = []
        self.asked = asyncio.Semaphore(0)
        self.go: dict[str, asyncio.Future[str]] = {}

    async def __call__(self, request: Request) -> Trajectory:
        self.requests.append(request)
        self.go[request.id] = asyncio.get_running_loop().create_future()
        self.asked.release()
        try:
            return trajectory(request, await self.go[request.id])
        except asyncio.CancelledError:
            self.cancelled.append(request.id)
            raise

    async def next(self) -> Request:
        async with asyncio.timeout(20):
            await self.asked.acquire()
        return self.requests[-1]


class Voice:
    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        self.cancels = 0

    async def speak(self, text: str, language: str) -> Spoken:
        self.said.append((text, language))
        return Spoken(audio=b"RIFF" + text.encode(), duration_s=3.0)

    async def cancel(self) -> None:
        self.cancels += 1


def balanced(room: Room) -> bool:
    stats = room.stats()
    return stats.messages == sum(stats.fates.values()) + stats.queued + stats.in_progress


async def test_merged_messages_get_one_reply_and_one_fate_each(rooms: Rooms) -> None:
    room = await rooms.start(at_once)
    with room.subscribe() as events:
        for id, text in (("a", "how much is number 3?"), ("b", "price of no. 3"), ("c", "lol")):
            ack = await room.submit(chat(text, id))
            assert ack.accepted and not ack.duplicate
        rooms.time.advance(1.5)
        spoken = await following(events, EventKind.SPOKEN)
    assert spoken.messages == ("a", "b")
    assert spoken.text == "It is $19.99."
    await room.drain()
    stats = room.stats()
    assert {f: n for f, n in stats.fates.items() if n} == {Fate.ANSWERED: 1, Fate.MERGED: 1, Fate.DROPPED: 1}
    assert stats.routes[Route.AGENT] == 1
    assert stats.latency_p50_s == 1.5
    assert room.state().dialogue[0].reply == "It is $19.99."
    journal = rooms.open[0][1]
    assert await journal.fate("room", "b") == (Fate.MERGED, "merged into a")
    assert await journal.fate("room", "c") == (Fate.DROPPED, "not addressed to the host")
    assert [t.request.messages[0].id for t in await journal.trajectories(room="room")] == ["a"]


async def test_an_id_seen_before_is_a_duplicate_in_memory_and_after_a_restart(rooms: Rooms) -> None:
    room = await rooms.start(at_once)
    first, again = await asyncio.gather(room.submit(chat("lol", "a")), room.submit(chat("lol", "a")))
    assert (first.accepted, again.accepted, again.duplicate) == (True, False, True)
    await rooms.close()
    room = await rooms.start(at_once)
    ack = await room.submit(chat("lol", "a"))
    assert (ack.accepted, ack.duplicate) == (False, True)
    assert room.stats().messages == 0


async def test_wrong_room_missing_id_and_stopped_room_are_refused(rooms: Rooms) -> None:
    room = await rooms.start(at_once)
    assert (await room.submit(chat("hi?", ""))).reason == "a message needs an id"
    other = ChatDeletion(room="other", at=0.0, everything=True)
    assert (await room.submit(other)).reason == "this is room 'room', not 'other'"
    await room.stop()
    assert (await room.submit(chat("hi?", "a"))).reason == "the room is not running"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (
            {"text": "how much \ud83d?"},
            r"text holds '\ud83d', half of a surrogate pair; expected Unicode text",
        ),
        ({"viewer": "\udc00"}, r"viewer holds '\udc00', half of a surrogate pair; expected Unicode text"),
        ({"at": math.nan}, "found nan as its time; expected Unix seconds"),
        ({"at": math.inf}, "found inf as its time; expected Unix seconds"),
    ],
)
async def test_what_could_not_be_read_back_is_refused_at_the_door(
    rooms: Rooms, wrong: dict[str, Any], reason: str
) -> None:
    room = await rooms.start(at_once)
    ack = await room.submit(replace(chat("how much?", "m"), **wrong))
    assert (ack.accepted, ack.reason) == (False, reason)
    assert (await room.submit(chat("how much?", "m"))).accepted, "the id is not used up"


async def test_a_damaged_row_does_not_keep_the_room_shut(rooms: Rooms) -> None:
    room = await rooms.start(at_once)
    for name in "ab":
        await room.submit(chat(f"how much is number {name}?", name))
    await room.stop()
    with closing(sqlite3.connect(rooms.path)) as connection, connection:
        connection.execute("UPDATE messages SET body = '{\"id\": \"a\"}' WHERE id = 'a'")
    again = await rooms.start(at_once)
    assert again.stats().messages == 1
    journal = rooms.open[-1][1]
    assert await journal.fate("room", "a") == (Fate.DROPPED, "cannot be read back")


async def test_a_room_is_served_by_one_at_a_time(rooms: Rooms) -> None:
    room = await rooms.start(at_once)
    with pytest.raises(StoreError, match=r"room 'room' .* is being served already"):
        await rooms.start(at_once)
    await room.submit(chat("how much?", "m"))
    await room.stop()
    again = await rooms.start(at_once)
    await room.stop()  # a second time: not the new one's claim
    with pytest.raises(StoreError, match="stop that one first"):
        await rooms.start(at_once)
    assert again.stats().messages == 1


async def test_more_at_once_than_the_room_can_store_is_refused_not_hoarded(rooms: Rooms) -> None:
    room = await rooms.start(at_once, RoomConfig(room="room", arriving_messages=2))
    acks = await asyncio.gather(*(room.submit(chat("lol", f"m{n}")) for n in range(4)))
    assert [a.accepted for a in acks] == [True, True, False, False]
    assert acks[3].reason == "too many messages at once: send it again later"
    assert (await room.submit(chat("lol", "m3"))).accepted
    assert room.stats().messages == 3


@pytest.mark.parametrize(
    ("reply", "route", "fate"),
    [
        ("Sure.", Route.DEGRADED, Fate.ANSWERED),
        ("A colleague will help.", Route.HANDOFF, Fate.ANSWERED),
        ("", Route.HANDOFF, Fate.DROPPED),
        ("", Route.SILENT, Fate.DROPPED),
    ],
)
async def test_the_route_decides_the_fate(rooms: Rooms, reply: str, route: Route, fate: Fate) -> None:
    async def answer(request: Request) -> Trajectory:
        return trajectory(request, reply, route=route, reason="why", effects=[Effect(kind="hand_off", reason="angry")])

    room = await rooms.start(answer)
    with room.subscribe() as events:
        await room.submit(chat("how much?", "a"))
        rooms.time.advance(1.5)
        event = await following(events, EventKind.FATE)
        assert (event.messages, event.fate, event.fate_reason) == (("a",), fate, f"{route.value}: why")
        assert (await following(events, EventKind.HAND_OFF)).text == "angry"


async def test_an_agent_that_raises_neither_ends_the_room_nor_loses_the_message(rooms: Rooms) -> None:
    async def answer(request: Request) -> Trajectory:
        if request.messages[0].id == "a":
            raise ValueError("boom")
        return trajectory(request)

    room = await rooms.start(answer)
    with room.subscribe() as events:
        await room.submit(chat("how much?", "a"))
        rooms.time.advance(1.5)
        event = await following(events, EventKind.FATE)
        assert (event.fate, event.fate_reason) == (Fate.DROPPED, "failed: ValueError: boom")
        await room.submit(chat("is it in stock?", "b"))
        rooms.time.advance(1.5)
        assert (await following(events, EventKind.SPOKEN)).messages == ("b",)
    assert room.stats().failures == 1


async def test_a_reply_after_the_deadline_is_stale_and_its_model_stopped(rooms: Rooms) -> None:
    agent = Held()
    room = await rooms.start(agent, RoomConfig(room="room", reply_deadline_s=10.0))
    with room.subscribe() as events:
        await room.submit(chat("how much?", "a"))
        rooms.time.advance(1.5)
        request = await agent.next()
        rooms.time.advance(8.5)
        event = await following(events, EventKind.FATE)
    assert (event.fate, event.fate_reason) == (Fate.EXPIRED, "no reply before the deadline")
    assert agent.cancelled == [request.id]


async def test_deleting_the_only_message_while_thinking_cancels_the_model(rooms: Rooms) -> None:
    agent = Held()
    room = await rooms.start(agent)
    with room.subscribe() as events:
        await room.submit(chat("how much?", "a"))
        rooms.time.advance(1.5)
        request = await agent.next()
        await room.submit(ChatDeletion(room="room", at=0.0, message="a"))
        assert (await following(events, EventKind.FATE)).fate is Fate.DELETED
        await room.drain()
    assert agent.cancelled == [request.id]
    assert [e.kind for e in room.recent(100)].count(EventKind.SPEAKING) == 0
    assert await rooms.open[0][1].fate("room", "a") == (Fate.DELETED, "removed by a moderator")


async def test_deleting_one_of_several_while_thinking_thinks_again_without_it(rooms: Rooms) -> None:
    agent = Held()
    room = await rooms.start(agent)
    with room.subscribe() as events:
        await room.submit(chat("how much is number 3?", "a"))
        await room.submit(chat("no. 3 price please", "b"))
        rooms.time.advance(1.5)
        first = await agent.next()
        assert [m.id for m in first.messages] == ["a", "b"]
        await room.submit(ChatDeletion(room="room", at=0.0, message="a"))
        second = await agent.next()
        assert [m.id for m in second.messages] == ["b"]
        assert second.id != first.id
        agent.go[second.id].set_result("It is 5.")
        spoken = await following(events, EventKind.SPOKEN)
    assert (spoken.messages, spoken.request_id) == (("b",), second.id)
    assert agent.cancelled == [first.id]
    await room.drain()
    assert {f: n for f, n in room.stats().fates.items() if n} == {Fate.DELETED: 1, Fate.ANSWERED: 1}


async def test_what_is_deleted_after_its_answer_leaves_the_screen_and_the_dialogue(rooms: Rooms) -> None:
    room = await rooms.start(at_once)
    with room.subscribe() as events:
        await room.submit(chat("how much?", "a"))
        rooms.time.advance(1.5)
        await following(events, EventKind.SPOKEN)
        assert len(room.state().dialogue) == 1
        gone = ChatDeletion(room="room", at=0.0, viewer="N-A")
        await room.submit(gone)
        assert (await following(events, EventKind.DELETION)).deletion == gone
    assert room.state().dialogue == ()
    assert room.stats().fates[Fate.ANSWERED] == 1


async def test_a_room_starts_once(rooms: Rooms) -> None:
    room = await rooms.start(at_once)
    with pytest.raises(RuntimeError, match="starts once"):
        await room.start()


async def test_a_reply_waiting_to_be_spoken_is_dropped_when_its_message_is_deleted(rooms: Rooms) -> None:
    voice = Voice()
    room = await rooms.start(at_once, speech=voice)
    with room.subscribe() as events, room.subscribe() as thoughts:
        await room.submit(chat("how much?", "a"))
        await room.submit(chat("is it in stock?", "b"))
        rooms.time.advance(1.5)
        await following(events, EventKind.SPEAKING)
        await following(thoughts, EventKind.TRAJECTORY, messages=("b",))
        assert room.stats().stages[Stage.WAITING] == 1
        await room.submit(ChatDeletion(room="room", at=0.0, viewer="v-b"))
        rooms.time.advance(3.0)
        assert (await following(events, EventKind.SPOKEN)).messages == ("a",)
        await room.drain()
    assert [e.messages for e in room.recent(100) if e.kind is EventKind.SPEAKING] == [("a",)]
    assert balanced(room)


async def test_speech_carries_audio_and_its_length(rooms: Rooms) -> None:
    voice = Voice()
    room = await rooms.start(at_once, RoomConfig(room="room", language="zh", audio_clips=1), speech=voice)
    with room.subscribe() as events:
        await room.submit(chat("3号多少钱", "a"))
        rooms.time.advance(1.5)
        speaking = await following(events, EventKind.SPEAKING)
        assert speaking.audio_s == 3.0
        assert room.audio(speaking.audio_id) == b"RIFFIt is $19.99."
        rooms.time.advance(3.0)
        spoken = await following(events, EventKind.SPOKEN)
        assert (spoken.audio_id, spoken.interrupted) == (speaking.audio_id, False)
        await room.submit(chat("4号多少钱", "b"))
        rooms.time.advance(1.5)
        await following(events, EventKind.SPEAKING)
    assert voice.said[0] == ("It is $19.99.", "zh")
    assert room.audio(speaking.audio_id) is None


async def test_a_broken_voice_shows_the_reply(rooms: Rooms) -> None:
    class Broken(Voice):
        async def speak(self, text: str, language: str) -> Spoken:
            raise OSError("no device")

    room = await rooms.start(at_once, speech=Broken())
    with room.subscribe() as events:
        await room.submit(chat("how much?", "a"))
        rooms.time.advance(1.5)
        speaking = await following(events, EventKind.SPEAKING)
    assert (speaking.text, speaking.audio_id, speaking.audio_s) == ("It is $19.99.", "", 0.0)


async def test_interruption_cuts_speech_and_model(rooms: Rooms) -> None:
    voice, agent = Voice(), Held()
    room = await rooms.start(agent, speech=voice)
    with room.subscribe() as events:
        await room.submit(chat("how much?", "a"))
        await room.submit(chat("is it in stock?", "b"))
        rooms.time.advance(1.5)
        first = await agent.next()
        agent.go[first.id].set_result("Ten.")
        await following(events, EventKind.SPEAKING)
        second = await agent.next()
        await room.interrupt()
        fate = await following(events, EventKind.FATE, messages=("b",))
        assert (fate.fate, fate.fate_reason) == (Fate.DROPPED, "interrupted by the operator")
        await room.drain()
    spoken = [e for e in room.recent(100) if e.kind is EventKind.SPOKEN]
    assert [(e.messages, e.interrupted) for e in spoken] == [(("a",), True)]
    assert agent.cancelled == [second.id]
    assert voice.cancels == 1


async def test_approval_lets_the_operator_edit_reject_or_miss_a_reply(rooms: Rooms) -> None:
    room = await rooms.start(at_once, RoomConfig(room="room", approval=True, approval_timeout_s=60.0))
    with room.subscribe() as events:
        await room.submit(chat("how much?", "a"))
        rooms.time.advance(1.5)
        pending = await following(events, EventKind.PENDING)
        assert (pending.text, [t.request.id for t in room.pending()]) == (
            "It is $19.99.",
            [pending.request_id],
        )
        assert await room.approve(pending.request_id, "Twenty dollars.")
        assert (await following(events, EventKind.SPOKEN)).text == "Twenty dollars."
        assert not await room.approve(pending.request_id)

        await room.submit(chat("is it in stock?", "b"))
        rooms.time.advance(1.5)
        pending = await following(events, EventKind.PENDING)
        assert await room.reject(pending.request_id, "wrong item")
        assert (await following(events, EventKind.FATE)).fate_reason == "rejected by the operator: wrong item"

        await room.submit(chat("do you ship abroad?", "c"))
        rooms.time.advance(1.5)
        await following(events, EventKind.PENDING)
        rooms.time.advance(60.0)
        event = await following(events, EventKind.FATE)
        assert (event.fate, event.fate_reason) == (Fate.EXPIRED, "not approved in time")
    assert room.pending() == ()


async def test_a_paused_room_begins_nothing_and_what_waits_expires(rooms: Rooms) -> None:
    agent = Held()
    room = await rooms.start(agent)
    with room.subscribe() as events:
        await room.pause()
        await room.submit(chat("how much?", "a"))
        rooms.time.advance(20.0)
        event = await following(events, EventKind.FATE)
        assert (event.fate, event.fate_reason) == (Fate.EXPIRED, "waited past the age limit")
        await room.submit(chat("is it in stock?", "b"))
        rooms.time.advance(2.0)
        assert agent.requests == []
        await room.resume()
        assert [m.id for m in (await agent.next()).messages] == ["b"]
    assert [e.text for e in room.recent(100) if e.kind is EventKind.STATE] == ["paused", "resumed"]


async def test_item_cards_come_from_replies_and_the_operator_and_survive_a_restart(rooms: Rooms) -> None:
    async def answer(request: Request) -> Trajectory:
        return trajectory(request, effects=[Effect(kind="show_item", link_id="7")])

    catalogue = Catalogue(
        store="s",
        currency="USD",
        products=(
            Product(link_id="7", key="k7", name="Linen shirt", category="c", price=100, stock=1),
            Product(link_id="8", key="k8", name="Wool coat", category="c", price=100, stock=1),
        ),
    )
    room = await rooms.start(answer, catalogue=lambda: catalogue)
    with room.subscribe() as events:
        assert not await room.show_item("9")
        assert await room.show_item("8")
        assert (await following(events, EventKind.ITEM)).link_id == "8"
        await room.submit(chat("is the linen shirt in stock?", "a"))
        rooms.time.advance(1.5)
        assert (await following(events, EventKind.ITEM)).link_id == "7"
        await following(events, EventKind.SPOKEN)
    assert room.state().on_screen == "7"
    await rooms.close()
    room = await rooms.start(answer, catalogue=lambda: catalogue)
    assert room.state().on_screen == "7"
    assert [t.text for t in room.state().dialogue] == ["is the linen shirt in stock?"]


async def test_a_restart_answers_what_is_young_and_expires_what_is_old(rooms: Rooms) -> None:
    agent = Held()
    room = await rooms.start(agent)
    await room.submit(chat("how much?", "old"))
    rooms.time.advance(1.5)
    first = await agent.next()  # in progress when the room ends
    rooms.time.advance(14.0)
    await room.submit(chat("is it in stock?", "young"))
    await rooms.close()
    rooms.time.advance(5.0)
    room = await rooms.start(at_once)
    await room.drain()
    journal = rooms.open[0][1]
    assert await journal.fate("room", "old") == (Fate.EXPIRED, "waited past the age limit")
    assert (await journal.fate("room", "young"))[0] is Fate.ANSWERED
    answered = await journal.trajectories()
    assert [t.request.messages[0].id for t in answered] == ["young"]
    assert answered[0].request.id != first.id


async def test_a_slow_watcher_skips_ahead_and_a_late_one_gets_recent_events(rooms: Rooms) -> None:
    room = await rooms.start(at_once, RoomConfig(room="room", subscriber_events=5, recent_events=8))
    slow = room.subscribe()
    for n in range(10):
        await room.submit(chat("lol", f"m{n}"))
    await room.drain()
    seqs = [(await anext(slow)).seq for _ in range(5)]
    assert seqs == [16, 17, 18, 19, 20]
    late = room.subscribe(recent=3)
    assert [(await anext(late)).seq for _ in range(3)] == [18, 19, 20]
    assert len(room.recent(100)) == 8
    late.close()
    slow.close()
    assert [e async for e in late] == []


async def test_a_caller_who_stops_waiting_does_not_lose_a_stored_message(rooms: Rooms) -> None:
    room = await rooms.start(at_once)
    with room.subscribe() as events:
        submitting = asyncio.create_task(room.submit(chat("how much?", "a")))
        await asyncio.sleep(0)
        submitting.cancel()
        await following(events, EventKind.MESSAGE)
        rooms.time.advance(1.5)
        assert (await following(events, EventKind.SPOKEN)).messages == ("a",)


async def test_a_flood_is_bounded_and_the_queue_recovers(rooms: Rooms) -> None:
    """1,000 messages a second for ten seconds of virtual time."""
    intake = IntakeConfig(queue_requests=16, viewer_rate=1.0)
    room = await rooms.start(at_once, RoomConfig(room="room", intake=intake))
    subjects = ("price", "stock", "shipping", "size", "colour")
    for second in range(10):
        acks = await asyncio.gather(
            *(
                room.submit(chat(f"number {n % 97} {subjects[n % 5]} {second}?", f"{second}-{n}", viewer=f"u{n % 700}"))
                for n in range(1000)
            )
        )
        assert all(a.accepted for a in acks)
        stats = room.stats()
        assert stats.waiting_requests <= 16
        assert stats.messages == 1000 * (second + 1)
        assert balanced(room)
        rooms.time.advance(1.0)
    with room.subscribe() as events:
        await room.submit(chat("where are you from?", "after"))
        rooms.time.advance(2.0)
        await following(events, EventKind.SPOKEN, messages=("after",))
    await room.drain()
    stats = room.stats()
    assert (stats.queued, stats.in_progress, sum(stats.fates.values())) == (0, 0, 10_001)
    assert stats.fates[Fate.ANSWERED] >= 16  # what the queue holds; how many more is the machine's speed
    counts = await rooms.open[0][1].fate_counts("room")
    assert counts == {f: n for f, n in stats.fates.items() if n}


async def test_a_full_disk_refuses_the_message(rooms: Rooms, tmp_path: Path) -> None:
    room = await rooms.start(at_once)
    journal: Journal = rooms.open[0][1]
    with journal._engine.begin() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")
        connection.exec_driver_sql("DROP TABLE messages")
    with pytest.raises(StoreError, match="could not commit"):
        await room.submit(chat("how much?", "a"))
    assert room.stats().messages == 0


async def test_a_reply_that_waited_for_approval_at_a_restart_is_thought_and_approved_anew(
    rooms: Rooms,
) -> None:
    config = RoomConfig(room="room", approval=True)
    room = await rooms.start(at_once, config)
    events = room.subscribe()
    await room.submit(chat("how much is number 3?", "m"))
    await following(events, EventKind.MESSAGE)
    rooms.time.advance(1.5)
    first = await following(events, EventKind.PENDING)
    await room.stop()
    again = await rooms.start(at_once, config)
    assert again.pending() == ()
    assert not await again.approve(first.request_id), "the old request is gone"
    events = again.subscribe()
    rooms.time.advance(1.5)
    second = await following(events, EventKind.PENDING)
    assert second.request_id != first.request_id
    assert await again.approve(second.request_id, "Number 3 is $18.90.")
    said = await following(events, EventKind.SPEAKING)
    assert (said.text, said.messages) == ("Number 3 is $18.90.", ("m",))
    await again.drain()
    journal = rooms.open[-1][1]
    assert [h.reply for h in await journal.happenings("room", "spoken", 9)] == ["Number 3 is $18.90."]
    assert await journal.fate_counts("room") == {Fate.ANSWERED: 1}


async def test_two_rooms_of_one_journal_may_have_equal_message_ids(rooms: Rooms) -> None:
    room = await rooms.start(at_once)
    journal = rooms.open[-1][1]
    other = Room(
        config=RoomConfig(room="other"), answer=at_once, journal=journal,
        clock=rooms.time.clock, sleep=rooms.time.sleep,
    )  # fmt: skip
    await other.start()
    assert (await room.submit(chat("how much is number 3?", "m"))).accepted
    assert (await other.submit(replace(chat("lol", "m"), room="other"))).accepted
    await journal.flush()
    assert await journal.fate("other", "m") == (Fate.DROPPED, "not addressed to the host")
    await room.submit(ChatDeletion(room="room", at=0.0, message="m"))
    assert await journal.fate("room", "m") == (Fate.DELETED, "removed by a moderator")
    assert await journal.fate("other", "m") == (Fate.DROPPED, "not addressed to the host")
    await other.stop()
