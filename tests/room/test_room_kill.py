"""A room killed with SIGKILL at random moments loses nothing that it acknowledged."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from livery.room.journal import Journal
from livery.types import Fate

SCRIPT = Path(__file__).with_name("room_process.py")
ROOT = Path(__file__).parents[2]


class Life:
    """One run of the room's process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.acknowledged: list[str] = []
        self.trajectories: list[str] = []
        self.lines = 0
        self.sent = 0

    @classmethod
    async def begin(cls, path: Path) -> Life:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(SCRIPT),
            str(path),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(SCRIPT.parent)])},
        )
        life = cls(process)
        assert await life.read() == "ready"
        return life

    def send(self, n: int) -> None:
        assert self.process.stdin is not None
        self.sent += n % 13 != 12  # each thirteenth is a deletion, without an acknowledgement line
        self.process.stdin.write(f"{n}\n".encode())

    async def read(self) -> str:
        """The next line; empty at the end."""
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            line = (await self.process.stdout.readline()).decode()
        if not line.endswith("\n"):
            return ""
        kind, _, name = line.strip().partition(" ")
        if kind == "ack":
            self.acknowledged.append(name)
        elif kind == "trajectory":
            self.trajectories.append(name)
        self.lines += 1
        return line.strip()

    async def kill(self) -> None:
        self.process.kill()
        while await self.read():
            pass
        await self.process.wait()
        self.process.stdin.close()  # type: ignore[union-attr]


async def test_kill_9_at_any_moment_loses_no_acknowledged_message_or_trajectory(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    rng = random.Random(20261201)
    acknowledged: list[str] = []
    trajectories: list[str] = []
    sent = 0
    for _ in range(4):
        life = await Life.begin(path)
        # The moment is a number of lines said, under a steady flow: mid-commit, mid-thought, mid-reply.
        until = rng.randrange(5, 160)
        while life.lines < until or len(life.trajectories) < 3:
            while life.sent - len(life.acknowledged) < 40:
                life.send(sent)
                sent += 1
            assert await life.read()
        await life.kill()
        acknowledged += life.acknowledged
        trajectories += life.trajectories
    assert len(acknowledged) > 50
    assert len(trajectories) >= 12

    with closing(sqlite3.connect(path)) as connection:
        (open_messages,) = connection.execute("SELECT count(*) FROM messages WHERE fate IS NULL").fetchone()
    assert open_messages > 0, "the kill came when nothing was open: this proves nothing"

    last = await Life.begin(path)
    last.process.stdin.close()  # type: ignore[union-attr]
    while (line := await last.read()) and line != "bye":
        pass
    assert line == "bye"
    await last.process.wait()

    with closing(sqlite3.connect(path)) as connection:
        rows = dict(connection.execute("SELECT id, fate FROM messages"))
        kept = {row[0] for row in connection.execute("SELECT id FROM trajectories")}
        answered = connection.execute("SELECT id, request FROM messages WHERE fate = 'answered'").fetchall()
        spoken = connection.execute("SELECT count(*) FROM happenings WHERE kind = 'spoken'").fetchone()[0]
        unended = connection.execute("SELECT count(*) FROM requests WHERE ended_at IS NULL").fetchone()[0]
    assert set(acknowledged) <= rows.keys()
    assert len(acknowledged) == len(set(acknowledged))
    assert set(trajectories) | set(last.trajectories) <= kept
    assert all(fate in set(Fate) for fate in rows.values())
    # Each answered message was answered by one request of its own, whose reply began exactly once.
    assert len({request for _, request in answered}) == len(answered) == spoken
    assert unended == 0

    journal = Journal(path)
    counts = await journal.fate_counts("room")
    await journal.aclose()
    assert None not in counts
    assert sum(counts.values()) == len(rows)
