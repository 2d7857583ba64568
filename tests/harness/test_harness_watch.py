from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from harness_examples import write_example

from livery.errors import InputError
from livery.harness.digest import harness_digest
from livery.harness.folder import load_harness
from livery.harness.model import Harness
from livery.harness.releases import PrefixCost
from livery.harness.store import ReleaseStore
from livery.harness.watch import WatchEvent, watch_folder

PATIENCE_S = 30.0
GOOD_HOOK = 'CHECKPOINT = "reply"\nON_FAILURE = "allow"\n\n\ndef check(value, context):\n    return None\n'


class Desk:
    """A folder under watch, with changes announced by hand."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = write_example(root, {"hooks/shout.py": GOOD_HOOK})
        self.store = ReleaseStore(root / "store.db")
        self.stop = asyncio.Event()
        self._changes: asyncio.Queue[None] = asyncio.Queue()
        self._events: asyncio.Queue[WatchEvent] = asyncio.Queue()

    async def changes(self) -> AsyncIterator[None]:
        while True:
            yield await self._changes.get()

    def watch(self, **options: Any) -> asyncio.Task[None]:
        return asyncio.create_task(
            watch_folder(
                self.folder,
                self.store,
                "stable",
                on_event=self._events.put_nowait,
                stop_event=self.stop,
                **{"changes": self.changes()} | options,
            )
        )

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    async def saved(self) -> WatchEvent:
        self._changes.put_nowait(None)
        return await self.event()

    async def event(self) -> WatchEvent:
        return await asyncio.wait_for(self._events.get(), PATIENCE_S)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.store.close()


async def test_valid_changes_are_published_and_faulty_ones_reported(desk: Desk) -> None:
    task = desk.watch()
    first = await desk.saved()
    assert (first.kind, first.release) == ("published", harness_digest(load_harness(desk.folder).harness))
    assert first.publication is not None
    assert (first.publication.channel, first.publication.version) == ("stable", 1)
    assert "published sha256:" in str(first)
    assert (await desk.saved()).kind == "unchanged"

    desk.write("prompt/persona.md", "You host. {{ skills_catalogue\n")
    broken = await desk.saved()
    assert broken.kind == "rejected"
    assert any(p.severity == "error" and "persona.md" in p.path for p in broken.problems)
    assert "the room goes on as it was" in str(broken)

    desk.write("prompt/persona.md", "You host. {{ skills_catalogue }}\n")
    desk.write("hooks/shout.py", GOOD_HOOK + "\nraise RuntimeError('not today')\n")
    failing = await desk.saved()
    assert [(p.path, p.code) for p in failing.problems] == [("hooks/shout.py", "hook-import")]

    desk.write("harness.yaml", "name: [")
    assert (await desk.saved()).kind == "rejected"
    assert desk.store.channel("stable").release == first.release
    assert len(desk.store.log("stable")) == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_caller_may_refuse_a_release(desk: Desk) -> None:
    def check(harness: Harness) -> None:
        raise InputError.at("harness.yaml", f"{harness.name} has no tool to bind")

    task = desk.watch(check=check)
    refused = await desk.saved()
    assert (refused.kind, [p.message for p in refused.problems]) == (
        "rejected",
        ["corner-shop has no tool to bind"],
    )
    assert desk.store.channels() == ()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_release_is_made_ready_before_the_channel_moves(desk: Desk) -> None:
    asked: list[tuple[str, str, int]] = []

    async def prepare(release: str, before: str) -> PrefixCost:
        asked.append((release, before, len(desk.store.channels())))
        assert desk.store.load(release).name == "corner-shop"
        return PrefixCost(tokens=40, shared=9)

    task = desk.watch(prepare=prepare)
    first = await desk.saved()
    assert asked == [(first.release, "", 0)]
    assert str(first).endswith("(version 1); prefix of 40 tokens, 9 of them as before")
    desk.write("prompt/persona.md", "You host. {{ skills_catalogue }}\n")
    second = await desk.saved()
    assert asked[1:] == [(second.release, first.release, 1)]
    assert (await desk.saved()).kind == "unchanged"
    assert len(asked) == 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_unknown_operations_stop_a_release_where_they_are_known(desk: Desk) -> None:
    task = desk.watch(operations={"catalog.search": {"type": "object"}})
    assert (await desk.saved()).kind == "rejected"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_store_that_is_away_is_reported_and_the_watch_goes_on(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    from livery.errors import StoreError

    task = desk.watch()
    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "channels", lambda: (_ for _ in ()).throw(StoreError("disk full")))
        away = await desk.saved()
    assert (away.kind, away.problems[0].message) == ("rejected", "disk full")
    assert (await desk.saved()).kind == "published"
    desk.stop.set()
    await desk.saved()
    await asyncio.wait_for(task, PATIENCE_S)


async def test_saving_a_file_is_seen_by_the_real_watcher(desk: Desk) -> None:
    task = desk.watch(changes=None)
    seen: WatchEvent | None = None
    for n in range(100):  # until the watcher stands, a change goes unseen
        desk.write("prompt/persona.md", f"You host shop {n}. {{{{ skills_catalogue }}}}\n")
        try:
            seen = await asyncio.wait_for(desk._events.get(), 0.6)
            break
        except TimeoutError:
            continue
    assert seen is not None
    assert seen.kind == "published"
    desk.stop.set()
    await asyncio.wait_for(task, PATIENCE_S)
