"""A room in its own process, for the test that kills it: events in on stdin, acknowledgements out on stdout.

Not a test. Each input line is a number n: the room is given message ``m<n>`` and prints ``ack m<n>`` when the
room has acknowledged it. ``trajectory <id>`` is printed when the room tells its watchers of one.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from virtual_room import chat, trajectory

from livery.room.contract import RoomConfig
from livery.room.events import EventKind
from livery.room.intake import IntakeConfig
from livery.room.journal import Journal
from livery.room.runtime import Room
from livery.types import ChatDeletion, Request, Trajectory

TEXTS = (
    "how much is number {n}?", "{n}号有货吗", "lol", "hello host {n}", "do you ship {n} of them?", "size for item {n}?",
)  # fmt: skip


def say(line: str) -> None:
    os.write(1, (line + "\n").encode())  # one write, so that a kill never tears a line


async def answer(request: Request) -> Trajectory:
    await asyncio.sleep(0.002)
    return trajectory(request)


async def main(path: str) -> None:
    journal = Journal(path)
    intake = IntakeConfig(merge_window_s=0.01, viewer_burst=1000, room_burst=1000, room_rate=1000, max_age_s=60)
    room = Room(
        config=RoomConfig(room="room", concurrency=2, intake=intake),
        answer=answer,
        journal=journal,
        clock=time.time,
        sleep=asyncio.sleep,
    )
    await room.start()
    waiting: set[asyncio.Task[None]] = set()

    async def watch() -> None:
        async for event in room.subscribe():
            if event.kind is EventKind.TRAJECTORY and event.trajectory is not None:
                say(f"trajectory {event.trajectory.id}")

    async def submit(n: int) -> None:
        if n % 13 == 12:
            await room.submit(ChatDeletion(room="room", at=0.0, message=f"m{n - 1}"))
            return
        ack = await room.submit(chat(TEXTS[n % len(TEXTS)].format(n=n % 90), f"m{n}"))
        assert ack.accepted or ack.duplicate
        say(f"ack m{n}")

    watching = asyncio.create_task(watch())
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    say("ready")
    while line := await reader.readline():
        task = asyncio.create_task(submit(int(line)))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
    await asyncio.gather(*waiting)
    await room.drain()
    await room.stop()
    await watching
    await journal.aclose()
    say("bye")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
