"""The policy reads a release's prompt before traffic moves to it, and a roll-back waits for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
from console_examples import FILES, Desk, open_desk

from livery.console.context import ConsoleSettings
from livery.harness.releases import PrefixCost
from livery.harness.store import ReleaseStore

SKILL = "skills/item-qa/SKILL.md"
API = "/api/harness/channels/stable"
EDITED = FILES[SKILL].replace("29.99", "19.99")
COST = PrefixCost(tokens=1912, shared=1204, rooms=1, evaluated=708, prefill_s=1.31)


class Reading:
    """A policy that reads when it is let; notes what channels pointed at when it was asked."""

    def __init__(self) -> None:
        self.store: ReleaseStore
        self.asked: list[tuple[str, str, tuple[str, ...], dict[str, str]]] = []
        self.may = asyncio.Event()
        self.begun = asyncio.Event()

    async def __call__(self, release: str, *, instead_of: str, sessions: Sequence[str], limit_s: float) -> PrefixCost:
        stood = {c.name: c.release for c in self.store.channels()}
        self.asked.append((release, instead_of, tuple(sessions), stood))
        self.begun.set()
        await self.may.wait()
        return COST


@pytest.fixture
async def reading() -> Reading:
    return Reading()


@pytest.fixture
async def desk(tmp_path: Path, reading: Reading):
    async with open_desk(tmp_path, prepare=reading) as opened, opened.app.router.lifespan_context(opened.app):
        reading.store = opened.store
        yield opened


def states(desk: Desk) -> list[str]:
    return [e.text for e in desk.room.recent(10) if e.kind == "state"]


async def edited(client: httpx.AsyncClient) -> None:
    assert (await client.put(f"{API}/draft", json={"files": {SKILL: EDITED}})).status_code == 200


async def test_the_prompt_is_read_before_the_channel_moves_and_its_cost_is_told(
    desk: Desk, client: httpx.AsyncClient, reading: Reading
):
    first = desk.store.channel("stable").release
    await edited(client)
    posted = asyncio.create_task(client.post(f"{API}/publish", json={"expected": first, "note": "cheaper"}))
    await reading.begun.wait()
    assert desk.store.channel("stable").release == first
    assert not desk.console.editing.locked()  # others edit meanwhile
    reading.may.set()
    done = (await posted).json()
    ((release, instead_of, rooms, stood),) = reading.asked
    assert (release, instead_of, rooms) == (done["release"], first, ("demo",))
    assert stood == {"stable": first}
    assert done["prefix"] == {
        "tokens": 1912,
        "shared": 1204,
        "rooms": 1,
        "evaluated": 708,
        "prefill_s": 1.31,
        "waited_s": 0.0,
        "note": "",
    }
    told = "prefix of 1,912 tokens, 1,204 of them as before; 708 computed in 1.3 s"
    assert states(desk) == [f"published to stable; {told}"]
    page = (await client.get("/editor", params={"channel": "stable", "done": "published"})).text
    assert told in page
    assert desk.store.release(release).note == "cheaper"


async def test_a_roll_back_moves_at_once_even_while_a_prompt_is_read(
    desk: Desk, client: httpx.AsyncClient, reading: Reading
):
    first = desk.store.channel("stable").release
    reading.may.set()
    await edited(client)
    second = (await client.post(f"{API}/publish", json={"expected": first})).json()["release"]
    reading.may.clear()
    back = await client.post(f"{API}/rollback", json={"current": second})
    assert back.json()["release"] == first
    assert back.json()["prefix"] is None
    assert desk.router.pick("demo").release == first
    reading.may.set()
    async with asyncio.timeout(30):
        await asyncio.gather(*desk.console.reading)
    assert reading.asked[-1][:3] == (first, second, ("demo",))
    assert states(desk)[-1].startswith("after the roll-back of stable: prefix of 1,912 tokens")


async def test_a_channel_that_moved_while_the_prompt_was_read_is_not_overwritten(
    desk: Desk, client: httpx.AsyncClient, reading: Reading
):
    first = desk.store.channel("stable").release
    await edited(client)
    posted = asyncio.create_task(client.post(f"{API}/publish", json={"expected": first}))
    await reading.begun.wait()
    other = desk.store.load(first).replace(description="somebody else's")
    moved = desk.store.publish("stable", other).release
    reading.may.set()
    assert (await posted).status_code == 409
    assert desk.store.channel("stable").release == moved


async def test_a_draft_that_changed_while_the_prompt_was_read_is_not_published(
    desk: Desk, client: httpx.AsyncClient, reading: Reading
):
    first = desk.store.channel("stable").release
    await edited(client)
    posted = asyncio.create_task(client.post(f"{API}/publish", json={"expected": first}))
    await reading.begun.wait()
    await client.put(f"{API}/draft", json={"files": {SKILL: EDITED.replace("19.99", "9.99")}})
    reading.may.set()
    assert (await posted).status_code == 409
    assert desk.store.channel("stable").release == first


async def test_a_channel_without_rooms_is_counted_and_read_when_it_gets_some(
    desk: Desk, client: httpx.AsyncClient, reading: Reading
):
    reading.may.set()
    await edited(client)
    done = await client.post(f"{API}/publish", json={"target": "canary", "expected": ""})
    assert reading.asked[0][:3] == (done.json()["release"], "", ())
    shares = {"rooms": "*", "percent": {"stable": 50, "canary": 50}}
    assert (await client.post("/api/harness/splits", json=shares)).status_code == 200
    stable = desk.store.channel("stable").release
    assert [asked[:3] for asked in reading.asked[1:]] == [(done.json()["release"], stable, ("demo",))]
    assert "canary: prefix of 1,912 tokens" in states(desk)[-1]
    wrong = await client.post("/api/harness/splits", json={**shares, "percent": {"canary": 50}})
    assert wrong.status_code == 422
    assert len(reading.asked) == 2


async def test_it_can_be_switched_off(tmp_path: Path, reading: Reading):
    settings = ConsoleSettings(warm_s=0)
    async with open_desk(tmp_path, prepare=reading, settings=settings) as desk, desk.client() as client:
        await edited(client)
        first = desk.store.channel("stable").release
        done = await client.post(f"{API}/publish", json={"expected": first})
    assert done.status_code == 200
    assert done.json()["prefix"] is None
    assert reading.asked == []
