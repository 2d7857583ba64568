"""The stage page, its public event stream, and the item card."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from console_examples import FILES, HOSTILE, Desk, Served, catalogue, open_desk, sse_events

from livery.console.stage import item_card, public_view, seconds_to_read
from livery.console.watch import screened_out
from livery.room.events import EventKind, RoomEvent
from livery.types import ChatDeletion, Fate


class Elements(HTMLParser):
    """Tags and ids of a page, as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: dict[str, dict[str, str | None]] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        if given.get("id"):
            self.ids[str(given["id"])] = {"tag": tag, **given}


async def test_the_stage_has_its_parts_and_no_parameter_takes_the_label_away(stranger: httpx.AsyncClient):
    queries = ["", "?parts=chat", "?parts=none", "?parts=,", "?transparent=1&mute=1&parts=avatar&label=&ai=0"]
    for query in queries:
        page = (await stranger.get(f"/stage/demo{query}")).text
        assert "AI-generated host" in page, query
        assert "hidden" not in Elements(page).ids["ai-label"]
    whole = Elements((await stranger.get("/stage/demo")).text).ids
    assert {"figure", "mouth", "subtitle", "item", "chat"} <= set(whole)
    part = Elements((await stranger.get("/stage/demo?parts=chat,avatar")).text).ids
    assert {"figure", "chat"} <= set(part)
    assert not {"subtitle", "item"} & set(part)


async def test_the_label_speaks_the_harnesss_language(tmp_path: Path):
    harness = {"harness.yaml": FILES["harness.yaml"].replace("language: en", "language: zh-CN")}
    async with open_desk(tmp_path, harness_changes=harness) as desk, desk.client(signed_in=False) as client:
        page = (await client.get("/stage/demo")).text
    assert "AI 生成主播" in page
    assert '<html lang="zh-CN">' in page


async def test_a_transparent_stage_has_no_scene(stranger: httpx.AsyncClient):
    assert 'class="stage transparent' in (await stranger.get("/stage/demo?transparent=1")).text
    assert 'class="stage scene' in (await stranger.get("/stage/demo")).text


async def test_an_unknown_room_has_no_stage(stranger: httpx.AsyncClient):
    assert (await stranger.get("/stage/none")).status_code == 404


async def test_the_card_shows_the_price_that_the_operation_computes(desk: Desk):
    card = await item_card(desk.console, "demo", "1")
    assert card is not None
    assert (card["link"], card["name"]) == ("Link 1", "Canvas tote bag, natural")
    assert (card["now"], card["was"], card["stock"]) == ("$29.99", "$39.99", "In stock")
    assert card["offer"].startswith("Opening week")


async def test_the_card_without_a_promotion_and_with_little_or_no_stock(desk: Desk):
    lamp = await item_card(desk.console, "demo", "2")
    assert lamp is not None
    assert (lamp["now"], lamp["was"], lamp["offer"]) == ("$59", "", "")
    assert (lamp["stock"], lamp["stock_level"]) == ("Only 3 left", "low")
    mug = await item_card(desk.console, "demo", "3")
    assert mug is not None
    assert (mug["stock"], mug["stock_level"]) == ("Sold out", "out")
    assert await item_card(desk.console, "demo", "99") is None
    assert await item_card(desk.console, "demo", "") is None


async def test_a_price_changed_in_the_catalogue_is_on_the_next_card(tmp_path: Path):
    shop = catalogue()
    dearer = shop.replace(products=(shop.products[0].model_copy(update={"price": 4500}), *shop.products[1:]))
    async with open_desk(tmp_path, shop=dearer) as desk:
        card = await item_card(desk.console, "demo", "1")
    assert card is not None
    assert (card["now"], card["was"]) == ("$35", "$45")


@pytest.mark.parametrize(
    ("text", "seconds"), [("", 1.0), ("a" * 140, 10.0), ("好" * 45, 10.0), ("好" * 9 + "a" * 14, 3.0)]
)
def test_reading_time_goes_by_script(text: str, seconds: float):
    assert seconds_to_read(text) == pytest.approx(seconds)


# ------------------------------------------------------------------------------------------- stream

PUBLIC_FIELDS = {
    "snapshot": {"label", "messages", "item", "speaking"},
    "message": {"id", "by", "name", "text", "kind", "amount"},
    "removed": {"id", "by", "everything"},
    "thinking": {"request_id"},
    "ended": {"request_id"},
    "speaking": {"request_id", "text", "audio_id", "audio_s", "seconds", "messages"},
    "spoken": {"request_id", "interrupted"},
    "item": {"card"},
}
"""All that strangers may learn. No trajectory, prompt, tool result, route or fate is among it."""


async def test_the_stream_shows_the_show_and_nothing_of_the_agents_work(served: Served):
    async with served.client(signed_in=False) as client, client.stream("GET", "/stage/demo/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        events = sse_events(stream)
        kind, data, _ = await anext(events)
        assert kind == "snapshot"
        assert json.loads(data) == {
            "label": "AI-generated host",
            "messages": [],
            "item": None,
            "speaking": None,
        }
        await served.desk.say("how much is the bag?", id="s1", name=HOSTILE)
        seen: dict[str, dict[str, object]] = {}
        async for kind, data, _ in events:
            seen[kind] = json.loads(data)
            assert set(seen[kind]) == PUBLIC_FIELDS[kind]
            assert "catalog.get_product" not in data
            if kind == "spoken":
                break
    assert seen["message"]["name"] == HOSTILE  # data, not markup: the page writes it with textContent
    assert seen["speaking"]["text"] == "The canvas bag is $29.99 today."
    assert seen["speaking"]["audio_s"] == 0.06
    assert seen["speaking"]["messages"] == ["s1"]
    card = seen["item"]["card"]
    assert isinstance(card, dict)
    assert card["now"] == "$29.99"


async def test_a_stage_that_comes_back_gets_what_it_missed(served: Served):
    async with served.client(signed_in=False) as client:
        async with client.stream("GET", "/stage/demo/events") as stream:
            events = sse_events(stream)
            await served.desk.say("how much is the bag?", id="s1")
            kind, event_id = "", ""
            while kind != "message":
                kind, _, event_id = await anext(events)
        await served.desk.room.drain()
        headers = {"last-event-id": event_id}
        async with client.stream("GET", "/stage/demo/events", headers=headers) as stream:
            events = sse_events(stream)
            kinds = [(await anext(events))[0] for _ in range(5)]
    assert kinds == ["thinking", "ended", "item", "speaking", "spoken"]


async def test_a_stage_that_comes_back_after_a_restart_gets_a_snapshot(served: Served):
    await served.desk.asked("how much is the bag?")
    async with served.client(signed_in=False) as client:
        headers = {"last-event-id": "otherrun-2"}
        async with client.stream("GET", "/stage/demo/events", headers=headers) as stream:
            kind, data, _ = await anext(sse_events(stream))
    assert kind == "snapshot"
    shown = json.loads(data)
    assert [m["text"] for m in shown["messages"]] == ["how much is the bag?"]
    assert shown["item"]["link_id"] == "1"


def test_only_what_screening_stopped_is_screened_out():
    def fate(fate: Fate, reason: str) -> RoomEvent:
        return RoomEvent(kind=EventKind.FATE, room="r", seq=1, at=0.0, fate=fate, fate_reason=reason, messages=("m",))

    assert screened_out(fate(Fate.DROPPED, "silent: hook: dropped: advertising"))
    assert not screened_out(fate(Fate.DROPPED, "silent: deadline: the loop did not end in time"))
    assert not screened_out(fate(Fate.ANSWERED, "agent: reply accepted"))


async def test_what_screening_stopped_leaves_the_stage_and_stays_with_the_operator(served: Served):
    event = RoomEvent(
        kind=EventKind.FATE, room="demo", seq=9, at=0.0, fate=Fate.DROPPED,
        fate_reason="silent: hook: dropped: abuse", messages=("m7",),
    )  # fmt: skip
    console = served.desk.app.state.console
    assert await public_view(console, event) == ("removed", {"id": "m7", "by": "", "everything": False})


async def test_what_a_moderator_removed_leaves_the_stage(served: Served):
    room = served.desk.room
    await room.pause()
    for number, name in enumerate(["Ann", "Bo", "Ann", "Cy"]):
        await served.desk.say(f"is link {number} in stock?", id=f"d{number}", name=name)
    async with served.client(signed_in=False) as client:
        async with client.stream("GET", "/stage/demo/events") as stream:
            events = sse_events(stream)
            shown = json.loads((await anext(events))[1])["messages"]
            assert [m["id"] for m in shown] == ["d0", "d1", "d2", "d3"]
            assert "Ann" not in [m["by"] for m in shown]
            await room.submit(ChatDeletion(room="demo", at=0, message="d1"))
            kind, data, _ = await anext(events)
            assert (kind, json.loads(data)) == ("removed", {"id": "d1", "by": "", "everything": False})
            await room.submit(ChatDeletion(room="demo", at=0, viewer="Ann"))
            gone = json.loads((await anext(events))[1])
            assert [m["id"] for m in shown if m["by"] == gone["by"]] == ["d0", "d2"]
        async with client.stream("GET", "/stage/demo/events") as stream:
            left = json.loads((await anext(sse_events(stream)))[1])["messages"]
    assert [m["id"] for m in left] == ["d3"]
