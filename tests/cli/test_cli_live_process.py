"""``livery live`` as a process: prices edited on disk, and ``kill -9`` while chat comes in over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from livery.cli import app
from livery.errors import InputError
from livery.harness.store import ReleaseStore
from livery.types import Fate

ROOT = Path(__file__).parents[2]
MESSAGES = "/api/rooms/main/messages"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Show:
    """One run of the process on a folder that outlives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store"
        if not self.store.exists():
            shutil.copytree(ROOT / "stores/demo-en", self.store)
        self.port = free_port()
        self.process: asyncio.subprocess.Process | None = None
        self.client = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}",
            headers={"authorization": "Bearer secret-of-the-test"},
            timeout=30,
        )

    async def start(self) -> None:
        """Returns once it answers.

        Raises:
            RuntimeError: it ended instead, with what it said.
        """
        with (self.folder / "log").open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", "from livery.cli import main; main()", "live",
                "--store", str(self.store), "--harness", str(ROOT / "harnesses/streamer-en"),
                "--policy", "scripted:host", "--chat", "none", "--speech", "none:", "--caption-speed", "0",
                "--data", str(self.folder / "var"), "--port", str(self.port), "--token", "secret-of-the-test",
                stdout=log, stderr=log, stdin=asyncio.subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"},
            )  # fmt: skip
        async with asyncio.timeout(60):
            while True:
                try:
                    if (await self.client.get("/healthz")).status_code == 200:
                        return
                except httpx.TransportError:
                    if self.process.returncode is not None:
                        raise RuntimeError((self.folder / "log").read_text()) from None
                    await asyncio.sleep(0.02)

    async def post(self, *messages: dict[str, Any]) -> list[str]:
        """Ids of those acknowledged."""
        answer = await self.client.post(MESSAGES, json=list(messages))
        assert answer.status_code == 200, answer.text
        return [m["id"] for m in answer.json()["messages"] if m["accepted"]]

    async def settled(self, count: int) -> dict[str, Any]:
        """The statistics, once so many messages have their fate."""
        async with asyncio.timeout(120):
            while True:
                stats = (await self.client.get("/api/rooms/main/stats")).json()
                if sum(stats["fates"].values()) >= count:
                    return stats
                await asyncio.sleep(0.02)

    async def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        await self.client.aclose()


@pytest.fixture
async def shows(tmp_path: Path) -> AsyncIterator[list[Show]]:
    """Those started in a test; none outlives it."""
    started: list[Show] = []
    yield started
    for show in started:
        await show.kill()


async def begin(shows: list[Show], folder: Path) -> Show:
    show = Show(folder)
    shows.append(show)
    await show.start()
    return show


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "var/journal.db")) as connection:
        return connection.execute(query).fetchall()


async def test_kill_9_of_the_whole_process_loses_nothing_acknowledged(shows: list[Show], tmp_path: Path) -> None:
    show = await begin(shows, tmp_path)
    assert show.process is not None
    acknowledged: list[str] = []
    refused = 0
    enough = asyncio.Event()

    async def viewer(name: int) -> None:
        nonlocal refused
        n = 0
        while True:
            text = f"how much is number {(8 * n + name) % 26 + 1}?"
            message = {"id": f"v{name}-{n}", "viewer": f"v{name}-{n // 4}", "text": text}
            try:
                acknowledged.extend(await show.post(message))
            except httpx.TransportError:
                refused += 1
                return
            n += 1
            if len(acknowledged) >= 120:
                enough.set()

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for name in range(8):
            group.create_task(viewer(name))
        await enough.wait()
        show.process.kill()
    await show.process.wait()
    assert refused == 8, "the kill came while every viewer was posting"

    kept = {row[0] for row in rows(tmp_path, "SELECT id FROM messages")}
    assert set(acknowledged) <= kept
    ((open_before,),) = rows(tmp_path, "SELECT count(*) FROM messages WHERE fate IS NULL")
    assert open_before > 0, "the kill came when nothing was open: this proves nothing"
    with ReleaseStore(tmp_path / "var/releases.db") as releases:
        (channel,) = releases.channels()
        before = releases.load(channel.release)

    again = await begin(shows, tmp_path)
    acknowledged += await again.post({"id": "after", "viewer": "late", "text": "how much is number 1?"})
    await again.settled(open_before + 1)
    assert rows(tmp_path, "SELECT count(*) FROM messages WHERE fate IS NULL") == [(0,)]
    fates = dict(rows(tmp_path, "SELECT id, fate FROM messages"))
    assert set(acknowledged) <= fates.keys()
    assert len(fates) == len(kept) + 1
    assert set(fates.values()) <= {fate.value for fate in Fate}
    assert fates["after"] in ("answered", "merged")
    spoken = rows(tmp_path, "SELECT count(*) FROM happenings WHERE kind = 'spoken'")
    assert spoken == rows(tmp_path, "SELECT count(*) FROM messages WHERE fate = 'answered'")
    trajectories = rows(tmp_path, "SELECT body FROM trajectories")
    assert {json.loads(body)["harness_release"] for (body,) in trajectories} == {channel.release}
    await again.kill()
    with ReleaseStore(tmp_path / "var/releases.db") as releases:
        assert releases.load(channel.release) == before


async def test_a_price_edited_on_disk_is_what_the_next_request_answers(shows: list[Show], tmp_path: Path) -> None:
    show = await begin(shows, tmp_path)
    products = show.store / "products.yaml"
    text = products.read_text("utf-8")
    asked = 0

    async def answer() -> str:
        nonlocal asked
        asked += 1
        await show.post({"id": f"q{asked}", "viewer": f"v{asked}", "text": "how much is number 7?"})
        await show.settled(asked)
        ((body,),) = rows(tmp_path, "SELECT body FROM trajectories ORDER BY seq DESC LIMIT 1")
        return json.loads(body)["reply"]

    assert "$43" in await answer()  # 48 less the welcome coupon
    products.write_text(text.replace("price: 48.00", "price: 58.00"), "utf-8")
    assert "$53" in await answer()
    # Half written: the last good catalogue stays.
    products.write_text(text.replace("price: 48.00", "price: 68.00")[: len(text) // 2] + "\n  - {", "utf-8")
    assert "$53" in await answer()
    # A whole store put in its place by a rename.
    new = tmp_path / "new"
    shutil.copytree(ROOT / "stores/demo-en", new)
    (new / "products.yaml").write_text(text.replace("price: 48.00", "price: 78.00"), "utf-8")
    show.store.rename(tmp_path / "old")
    new.rename(show.store)
    assert "$71.76" in await answer()  # 78 less 8%: more than 5


async def test_a_second_process_on_the_same_data_is_refused(shows: list[Show], tmp_path: Path) -> None:
    await begin(shows, tmp_path)
    with pytest.raises(RuntimeError) as caught:
        await begin(shows, tmp_path)
    said = " ".join(str(caught.value).split())
    assert "StoreError" in said
    assert "is being served already; stop that one first" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--chat", "nowhere.json"), "nowhere.json: no such file; expected a chat file"),
        (("--chat", "twitch:"), "twitch channel: found ''"),
        (("--on-screen", "999"), "--on-screen: found '999'"),
        (("--store", "nowhere"), "nowhere: there is no such file or folder"),
    ],
)
def test_what_cannot_be_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: tuple[str, str], message: str
) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(InputError) as caught:
        CliRunner().invoke(
            app,
            ["live", "--policy", "scripted:host", "--speech", "none:", "--data", str(tmp_path), *option],
            catch_exceptions=False,
        )
    assert message in str(caught.value)
    assert not (tmp_path / "journal.db").exists()


def test_a_token_that_is_too_short_is_refused_before_anything_starts(tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["live", "--token", "short", "--data", str(tmp_path / "var")])
    assert isinstance(answer.exception, InputError)
    assert str(answer.exception) == "--token: found 5 characters; expected 16 or more"
    assert not (tmp_path / "var").exists()


@pytest.mark.parametrize("command", [["live"], ["replay", "chat.csv"]])
def test_outside_the_checkout_it_says_what_is_missing(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(app, command)
    assert isinstance(answer.exception, InputError)
    assert str(answer.exception).endswith("run from livery's own folder, or give --harness")
