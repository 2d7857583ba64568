"""The operator's pages: live room, actions, one request."""

from __future__ import annotations

import asyncio
import html
from contextlib import aclosing
from pathlib import Path

import httpx
import pytest
from console_examples import HOSTILE, Desk, Served, open_desk, sse_events, trajectory

from livery.console.live import spans
from livery.errors import Problem
from livery.room.intake import IntakeConfig
from livery.room.runtime import RoomConfig, Stage
from livery.types import Request


async def until_pending(desk: Desk) -> str:
    """The id of the request whose reply waits for approval."""
    async with asyncio.timeout(30):
        with desk.room.subscribe(recent=50) as events:
            async for event in events:
                if event.kind == "pending":
                    return event.request_id
    raise AssertionError("the room closed")


async def test_the_live_page_shows_request_reply_route_and_figures(desk: Desk, client: httpx.AsyncClient):
    await desk.asked("how much is the bag?")
    page = (await client.get("/")).text
    for text in (
        "how much is the bag?",
        "The canvas bag is $29.99 today.",
        "2.7 s",
        "Canvas tote bag, natural",
    ):
        assert text in page
    assert 'class="chip agent"' in page
    assert "/ui/rooms/demo/events" in page


async def test_a_request_page_shows_the_whole_trajectory(desk: Desk, client: httpx.AsyncClient):
    known = await desk.asked("how much is the bag?")
    for path in (f"/requests/{known.id}", f"/ui/requests/{known.request.id}"):
        page = html.unescape((await client.get(path)).text)
        for text in (
            "Round 3",
            '"link_id": "1"',
            "catalog.get_product",
            "There is no tool get_itme; there is get_item.",
            "unknown_tool",
            "Say it without a link.",
            "input-screen",
            "2690",
            "2530 (94 %)",
            "item-qa",
            "the reply passed every hook",
            "show_item 1",
        ):
            assert text in page, text
    assert (await client.get("/requests/none")).status_code == 404


async def test_hostile_names_and_texts_are_shown_as_text_on_every_page(tmp_path: Path):
    config = RoomConfig(room="demo", approval=True, intake=IntakeConfig(merge_window_s=0))
    async with (
        open_desk(tmp_path, config=config) as desk,
        desk.app.router.lifespan_context(desk.app),
        desk.client() as client,
    ):
        await desk.say(f"{HOSTILE} how much is the bag?", id="x1", name=HOSTILE)
        request_id = await until_pending(desk)
        draft = {"files": {"skills/item-qa/SKILL.md": f"---\nname: item-qa\ndescription: {HOSTILE}\n---\n{HOSTILE}"}}
        await client.put("/api/harness/channels/stable/draft", json=draft)
        async for _ in desk.console.watches["demo"].changes(asyncio.Event(), idle_s=0.05, rest_s=0):
            if desk.console.watches["demo"].lines:
                break
        paths = [
            "/",
            "/editor?path=skills/item-qa/SKILL.md",
            f"/requests/{request_id}",
            f"/ui/requests/{request_id}",
        ]
        hostile = [
            f"/editor?path={HOSTILE}",
            f"/editor?channel=stable&done={HOSTILE}",
            f"/login?next={HOSTILE}",
        ]
        shown = 0
        for path in [*paths, *hostile, f"/stage/demo?parts={HOSTILE}"]:
            page = (await client.get(path)).text
            assert "<img src=x" not in page, path
            assert "<script>" not in page, path
            shown += "&lt;img src=x" in page
        assert shown >= len(paths) + 1


async def test_an_address_that_leads_nowhere_says_so_in_words_and_hostile_ones_stay_text(
    client: httpx.AsyncClient,
):
    for path in ["/nowhere", f"/requests/{HOSTILE}", f"/?room={HOSTILE}", f"/editor?channel={HOSTILE}"]:
        answer = await client.get(path, headers={"accept": "text/html"})
        assert answer.status_code == 404, path
        assert "To the live room" in answer.text
        assert "<img src=x" not in answer.text
    assert (await client.get("/nowhere")).json() == {"detail": "Not Found"}


async def test_a_request_is_listed_while_it_thinks(tmp_path: Path):
    async with (
        open_desk(tmp_path, think=asyncio.Event()) as desk,
        desk.app.router.lifespan_context(desk.app),
        desk.client() as client,
    ):
        await desk.say("how much is the bag?", id="t1")
        async with asyncio.timeout(30):
            async for _ in desk.console.watches["demo"].changes(asyncio.Event(), idle_s=0.05, rest_s=0):
                if desk.console.watches["demo"].begun:
                    break
        page = (await client.get("/")).text
        assert "thinking…" in page
        assert "Thinking" in page
        assert "how much is the bag?" in page
        await desk.room.interrupt()
        assert "thinking…" not in (await client.get("/")).text


async def test_the_panels_are_pushed_when_something_happens(served: Served):
    async with served.client() as client, client.stream("GET", "/ui/rooms/demo/events") as stream:
        events = sse_events(stream)
        first = {(await anext(events))[0] for _ in range(5)}
        assert first == {"chat", "controls", "figures", "pending", "requests"}
        await served.desk.say(f"{HOSTILE} how much is the bag?", id="m1")
        async for kind, data, _ in events:
            assert "<img" not in data
            if kind == "requests" and "The canvas bag is $29.99 today." in data:
                break


async def test_pause_resume_and_approval_mode(desk: Desk, client: httpx.AsyncClient):
    async def post(path: str, on: bool) -> int:
        return (await client.post(f"/ui/rooms/demo/{path}", data={"on": str(on).lower()})).status_code

    assert await post("pause", True) == 204
    assert desk.room.stats().paused
    assert await post("pause", False) == 204
    assert not desk.room.stats().paused
    assert await post("approval", True) == 204
    assert desk.room.stats().approval
    assert (await client.post("/ui/rooms/demo/pause", data={"on": "maybe"})).status_code == 422


async def test_a_pending_reply_can_be_approved_edited_and_rejected(desk: Desk, client: httpx.AsyncClient):
    await desk.room.set_approval(True)
    for number, (action, text) in enumerate(
        [("approve", "The canvas bag is $29.99 today."), ("approve", "It is $29.99."), ("reject", "")]
    ):
        await desk.say("how much is the bag?" + "!" * number, id=f"p{number}", name=f"viewer{number}")
        request_id = await next_pending(desk)
        data = {"text": text, "reason": "not now"}
        answer = await client.post(f"/ui/rooms/demo/pending/{request_id}/{action}", data=data)
        assert answer.status_code == 204
        await desk.room.drain()
    said = [e.text for e in desk.room.recent(100) if e.kind == "speaking"]
    assert said == ["The canvas bag is $29.99 today.", "It is $29.99."]
    reasons = [e.fate_reason for e in desk.room.recent(100) if e.kind == "fate"]
    assert reasons[-1] == "rejected by the operator: not now"


async def test_what_was_spoken_in_the_operators_words_is_shown_beside_the_reply(tmp_path: Path):
    config = RoomConfig(room="demo", approval=True, intake=IntakeConfig(merge_window_s=0))
    async with (
        open_desk(tmp_path, config=config) as desk,
        desk.app.router.lifespan_context(desk.app),
        desk.client() as client,
    ):
        await desk.say("how much is the bag?", id="p1", name="Ann")
        request_id = await next_pending(desk)
        before = html.unescape((await client.get(f"/requests/{request_id}")).text)
        assert "operator's words" not in before
        words = "Let me show you the bag first."
        await client.post(f"/ui/rooms/demo/pending/{request_id}/approve", data={"text": words})
        await desk.room.drain()
        changes = desk.console.watches["demo"].changes(asyncio.Event(), idle_s=20, rest_s=0)
        async with asyncio.timeout(20), aclosing(changes):
            while request_id not in desk.console.watches["demo"].said:
                await anext(changes)
        detail = html.unescape((await client.get(f"/requests/{request_id}")).text)
        assert f"Spoken instead, in the operator's words</b>{words}" in detail
        assert f'<span class="said">{words}</span>' in html.unescape((await client.get("/")).text)


async def test_faults_in_the_shops_files_are_shown(desk: Desk, client: httpx.AsyncClient):
    """The last good catalogue answers meanwhile: without a word nobody would know."""
    assert "errors" not in (await client.get("/")).text
    fault = Problem(path="shop/products.csv", line=4, field="products[2].price", message="found '13.2x5'")
    desk.faults.append(fault)
    page = html.unescape((await client.get("/")).text)
    assert "the last good ones stay in use" in page
    assert "found '13.2x5'" in page
    assert "shop/products.csv:4 · products[2].price" in page


async def next_pending(desk: Desk) -> str:
    async with asyncio.timeout(30):
        with desk.room.subscribe() as events:
            while not (waiting := desk.room.pending()):
                await anext(events)
    return waiting[0].request.id


async def test_deciding_twice_is_a_conflict(desk: Desk, client: httpx.AsyncClient):
    for action in ("approve", "reject"):
        answer = await client.post(f"/ui/rooms/demo/pending/none/{action}")
        assert answer.status_code == 409
        assert "no longer waits" in answer.json()["detail"]


async def test_an_item_can_be_put_on_screen_and_an_unknown_one_cannot(desk: Desk, client: httpx.AsyncClient):
    assert (await client.post("/ui/rooms/demo/item", data={"link_id": "2"})).status_code == 204
    assert desk.room.state().on_screen == "2"
    assert (await client.post("/ui/rooms/demo/item", data={"link_id": "99"})).status_code == 404
    assert (await client.post("/ui/rooms/demo/item", data={"link_id": ""})).status_code == 204
    assert desk.room.state().on_screen == ""


async def test_a_test_message_goes_through_the_room_like_any_other(desk: Desk, client: httpx.AsyncClient):
    answer = await client.post("/ui/rooms/demo/say", data={"text": "how much is the bag?", "viewer": "Kim"})
    assert answer.status_code == 204
    await desk.room.drain()
    assert [t.request.messages[0].name for t in await desk.journal.trajectories(room="demo")] == ["Kim"]
    assert (await client.post("/ui/rooms/demo/say", data={"text": "  "})).status_code == 422


async def test_interrupting_reaches_the_room(desk: Desk, client: httpx.AsyncClient):
    await desk.room.set_approval(True)
    await desk.say("how much is the bag?", id="i1")
    await until_pending(desk)
    assert (await client.post("/ui/rooms/demo/interrupt")).status_code == 204
    await desk.room.drain()
    assert desk.room.stats().stages[Stage.PENDING] == 0
    fates = [e.fate_reason for e in desk.room.recent(20) if e.kind == "fate"]
    assert fates == ["interrupted by the operator"]


async def test_what_the_journal_remembers_is_listed_after_a_restart(tmp_path: Path):
    async with open_desk(tmp_path) as desk, desk.app.router.lifespan_context(desk.app):
        await desk.asked("how much is the bag?")
    async with (
        open_desk(tmp_path) as desk,
        desk.app.router.lifespan_context(desk.app),
        desk.client() as client,
    ):
        async for _ in desk.console.watches["demo"].changes(asyncio.Event(), idle_s=0.05, rest_s=0):
            if desk.console.watches["demo"].trajectories:
                break
        assert "how much is the bag?" in (await client.get("/")).text


def test_the_timing_bar_accounts_for_every_second(request_of: Request):
    whole = trajectory(request_of, reply="ok", release="r")
    found = spans(whole)
    assert sum(s.seconds for s in found) == pytest.approx(whole.queue_s + whole.total_s)
    assert [s.start_s for s in found] == sorted(s.start_s for s in found)
    named = {s.label: s.seconds for s in found}
    assert named["Queue"] == 0.4
    assert named["Round 1: prefill"] == 0.4
    assert named["Round 1: policy"] == pytest.approx(0.05)
    assert named["Round 1: tools"] == 0.012  # side by side: the longest, not the sum
    assert named["Round 2: hooks"] == 0.002


@pytest.fixture
def request_of() -> Request:
    from livery.types import ChatMessage, RoomState

    message = ChatMessage(id="1", room="demo", viewer="v", text="hi", at=0)
    state = RoomState(room="demo", language="en", now=0)
    return Request(id="r", messages=(message,), state=state, created_at=0)
