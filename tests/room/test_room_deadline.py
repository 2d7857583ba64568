"""Who waits behind a long reply hears in time that theirs will not come; how long a voice took is told."""

from __future__ import annotations

import asyncio

from virtual_room import Rooms, VirtualTime, chat, following, trajectory

from livery.room.events import EventKind
from livery.room.runtime import RoomConfig, Spoken, Stage
from livery.types import Fate, Request, Trajectory


async def at_once(request: Request) -> Trajectory:
    return trajectory(request)


class Voice:
    """Takes ``takes_s`` for audio of ``lasts_s``."""

    def __init__(self, time: VirtualTime, takes_s: float, lasts_s: float) -> None:
        self._time, self._takes_s, self._lasts_s = time, takes_s, lasts_s
        self.asked = asyncio.Event()

    async def speak(self, text: str, language: str) -> Spoken:
        made = self._time.sleep(self._takes_s)
        self.asked.set()
        await made
        return Spoken(audio=b"RIFF", duration_s=self._lasts_s)

    async def cancel(self) -> None: ...


async def test_a_reply_that_waits_for_the_floor_expires_at_its_deadline(rooms: Rooms) -> None:
    room = await rooms.start(at_once, speech=Voice(rooms.time, 0.0, 100.0))
    with room.subscribe() as events:
        await room.submit(chat("how much is number 3?", "a"))
        rooms.time.advance(1.5)
        await following(events, EventKind.SPEAKING)
        await room.submit(chat("do you ship to Canada?", "b"))
        rooms.time.advance(1.5)
        await following(events, EventKind.TRAJECTORY)
        rooms.time.advance(room.config.reply_deadline_s)
        fate = await following(events, EventKind.FATE, messages=("b",))
        assert (fate.fate, fate.fate_reason) == (Fate.EXPIRED, "its reply came too late to be spoken")
        assert room.stats().stages[Stage.SPEAKING] == 1, "the first is still spoken"
        rooms.time.advance(100.0)
        await following(events, EventKind.SPOKEN)
    await room.drain()


async def test_the_floor_is_free_again_after_one_that_came_too_late(rooms: Rooms) -> None:
    config = RoomConfig(room="room", reply_deadline_s=10.0)
    room = await rooms.start(at_once, config, speech=Voice(rooms.time, 0.0, 20.0))
    with room.subscribe() as events:
        for text, id in (("how much is number 3?", "a"), ("do you ship to Canada?", "b")):
            await room.submit(chat(text, id))
            rooms.time.advance(1.5)
            await following(events, EventKind.TRAJECTORY)
        rooms.time.advance(10.0)
        await following(events, EventKind.FATE, messages=("b",), fate=Fate.EXPIRED)
        rooms.time.advance(10.0)
        await following(events, EventKind.SPOKEN)
        await room.submit(chat("is number 5 in stock?", "c"))
        rooms.time.advance(1.5)
        spoken = await following(events, EventKind.SPEAKING)
        assert spoken.messages == ("c",)
        rooms.time.advance(20.0)
        await following(events, EventKind.SPOKEN)
    await room.drain()


async def test_how_long_the_voice_took_is_told_and_kept(rooms: Rooms) -> None:
    voice = Voice(rooms.time, 2.0, 3.0)
    room = await rooms.start(at_once, speech=voice)
    with room.subscribe() as events:
        await room.submit(chat("how much is number 3?", "a"))
        rooms.time.advance(1.5)
        await voice.asked.wait()
        rooms.time.advance(2.0)
        spoken = await following(events, EventKind.SPEAKING)
        assert spoken.synthesis_s == 2.0
    journal = rooms.open[0][1]
    (kept,) = await journal.happenings("room", "spoken", 5)
    assert kept.synthesis_s == 2.0
    assert (await journal.rows())["happenings"][0] == 1
