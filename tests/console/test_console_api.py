"""Chat in, events and figures out, over HTTP and WebSocket."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from console_examples import TOKEN, Desk, Served, sse_events
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from livery.console.api import MESSAGES_PER_CALL
from livery.types import Fate

PATH = "/api/rooms/demo/messages"


async def test_one_message_is_acknowledged_with_its_id_and_is_on_disk(desk: Desk, client: httpx.AsyncClient):
    answer = await client.post(PATH, json={"id": "m-1", "viewer": "v1", "name": "Ann", "text": "price of link 1?"})
    assert answer.status_code == 200
    assert answer.json() == {"messages": [{"id": "m-1", "accepted": True, "duplicate": False, "reason": ""}]}
    assert await desk.journal.fate("demo", "m-1") is not None
    await desk.room.drain()
    fate = await desk.journal.fate("demo", "m-1")
    assert fate is not None
    assert fate[0] is Fate.ANSWERED


async def test_a_list_is_acknowledged_in_order_and_a_repeated_id_is_a_duplicate(client: httpx.AsyncClient):
    batch = [{"id": f"b{i}", "viewer": f"v{i}", "text": f"is link {i} in stock?"} for i in (1, 2, 1)]
    acks = (await client.post(PATH, json=batch)).json()["messages"]
    assert [a["id"] for a in acks] == ["b1", "b2", "b1"]
    assert [a["duplicate"] for a in acks] == [False, False, True]


async def test_messages_without_an_id_get_one_each(client: httpx.AsyncClient):
    body = {"messages": [{"viewer": "v", "text": "hello there"}, {"viewer": "w", "text": "hi"}]}
    acks = (await client.post(PATH, json=body)).json()["messages"]
    assert len({a["id"] for a in acks} - {""}) == 2


async def test_every_wrong_field_is_named_and_nothing_of_the_batch_is_taken(desk: Desk, client: httpx.AsyncClient):
    body = {
        "messages": [
            {"viewer": "v", "text": "fine"},
            {"viewer": "", "text": "x", "amount": 5},
            {"viewer": "v", "text": "   "},
            {"viewer": "v", "text": "x", "kind": "shout"},
            {"viewer": "v", "text": "x", "at": -1},
            {"viewer": "v", "text": "x" * 2001, "colour": "red"},
            "no object",
            {"viewer": "", "kind": "shout", "at": -1},
        ]
    }
    answer = await client.post(PATH, json=body)
    assert answer.status_code == 422
    errors = {e["field"]: e["message"] for e in answer.json()["errors"]}
    assert set(errors) == {
        "messages[1].viewer",
        "messages[1].amount",
        "messages[2].text",
        "messages[3].kind",
        "messages[4].at",
        "messages[5].text",
        "messages[5].colour",
        "messages[6]",
        "messages[7].viewer",
        "messages[7].kind",
        "messages[7].at",
    }
    assert errors["messages[3].kind"] == 'expected one of chat, paid, gift, member, system; found "shout"'
    assert desk.room.stats().messages == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (rb'{"viewer": "v", "text": "hm \ud83d"}', r"found '\ud83d', half of a surrogate pair"),
        (rb'{"viewer": "\udC00", "text": "hm"}', r"found '\udc00', half of a surrogate pair"),
        (rb'{"viewer": "v", "text": "hm", "\uD800": 1}', r"found '\ud800', half of a surrogate pair"),
        (b'{"viewer": "v", "text": "hm \xed\xa0\xbd"}', "not valid JSON"),
        (b"[" * 100_000, "not valid JSON: maximum recursion depth exceeded"),
    ],
)
async def test_what_no_answer_could_quote_is_refused_and_does_not_fail(
    desk: Desk, client: httpx.AsyncClient, content: bytes, message: str
):
    answer = await client.post(PATH, content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["message"].startswith(message)
    assert desk.room.stats().messages == 0


async def test_a_whole_surrogate_pair_is_one_character(desk: Desk, client: httpx.AsyncClient):
    content = rb'{"id": "e", "viewer": "v", "text": "how much \ud83d\ude00?"}'
    answer = await client.post(PATH, content=content, headers={"content-type": "application/json"})
    assert answer.json()["messages"][0]["accepted"]


async def test_what_is_no_message_is_refused(client: httpx.AsyncClient):
    for content, content_type, status in [
        (b"{", "application/json", 422),
        (b"[]", "application/json", 422),
        (b"null", "application/json", 422),
        (b'{"messages": 3}', "application/json", 422),
        (b'{"viewer": "v", "text": "hi"}', "text/plain", 415),
        (b"viewer=v&text=hi", "application/x-www-form-urlencoded", 415),
    ]:
        answer = await client.post(PATH, content=content, headers={"content-type": content_type})
        assert answer.status_code == status, content


async def test_too_many_messages_and_too_large_a_body_are_refused(desk: Desk, client: httpx.AsyncClient):
    many = [{"viewer": "v", "text": "hi"}] * (MESSAGES_PER_CALL + 1)
    answer = await client.post(PATH, json=many)
    assert answer.status_code == 422
    assert f"at most {MESSAGES_PER_CALL}" in answer.json()["errors"][0]["message"]
    large = json.dumps({"viewer": "v", "text": "x" * 600_000})
    headers = {"content-type": "application/json"}
    assert (await client.post(PATH, content=large, headers=headers)).status_code == 413

    async def chunks():  # without a content-length
        for _ in range(600):
            yield b"x" * 1024

    assert (await client.post(PATH, content=chunks(), headers=headers)).status_code == 413
    assert desk.room.stats().messages == 0


async def test_an_unknown_room_is_404_and_names_the_known_ones(client: httpx.AsyncClient):
    answer = await client.post("/api/rooms/none/messages", json={"viewer": "v", "text": "hi"})
    assert answer.status_code == 404
    assert "demo" in answer.json()["detail"]


async def test_a_deletion_reaches_the_room(desk: Desk, client: httpx.AsyncClient):
    await desk.room.pause()
    await client.post(PATH, json={"id": "bad", "viewer": "v", "text": "is link 1 in stock?"})
    answer = await client.post("/api/rooms/demo/deletions", json={"message": "bad"})
    assert answer.json()["accepted"] is True
    await desk.journal.flush()
    fate = await desk.journal.fate("demo", "bad")
    assert fate is not None
    assert fate[0] is Fate.DELETED
    for wrong in [{}, {"message": "a", "viewer": "b"}, {"everything": "yes"}]:
        assert (await client.post("/api/rooms/demo/deletions", json=wrong)).status_code == 422


async def test_a_request_is_found_by_either_id_with_its_whole_trajectory(desk: Desk, client: httpx.AsyncClient):
    trajectory = await desk.asked("how much is the bag?")
    for name in (trajectory.id, trajectory.request.id):
        found = (await client.get(f"/api/requests/{name}")).json()
        assert found["id"] == trajectory.id
        assert found["schema"] == "livery.trajectory/1"
        assert [t["round"] for t in found["turns"]] == [1, 2, 3]
        assert found["turns"][0]["results"][1]["error"]["kind"] == "unknown_tool"
    assert (await client.get("/api/requests/none")).status_code == 404


async def test_an_older_request_comes_from_the_journal(desk: Desk, client: httpx.AsyncClient):
    trajectory = await desk.asked("how much is the bag?")
    desk.console.watches["demo"].trajectories.clear()
    for name in (trajectory.id, trajectory.request.id):
        assert (await client.get(f"/api/requests/{name}")).json()["id"] == trajectory.id


async def test_stats_add_up(desk: Desk, client: httpx.AsyncClient):
    await desk.asked("how much is the bag?")
    stats = (await client.get("/api/rooms/demo/stats")).json()
    assert stats["messages"] == 1
    assert stats["fates"]["answered"] == 1
    assert stats["routes"]["agent"] == 1
    assert stats["messages"] == sum(stats["fates"].values()) + stats["queued"] + stats["in_progress"]


async def test_health_needs_no_token(stranger: httpx.AsyncClient):
    assert (await stranger.get("/healthz")).json() == {"status": "ok", "version": "0.1.0", "rooms": 1}


async def test_metrics_count_what_happened(desk: Desk, client: httpx.AsyncClient):
    await desk.asked("how much is the bag?")
    text = (await client.get("/metrics")).text
    for line in (
        'livery_messages_total{fate="answered",room="demo"} 1.0',
        'livery_requests_total{room="demo",route="agent"} 1.0',
        'livery_messages_accepted_total{room="demo"} 1.0',
        'livery_queue_messages{room="demo"} 0.0',
        'livery_request_latency_seconds_count{room="demo",route="agent"} 1.0',
        'livery_request_latency_seconds_bucket{le="3.0",room="demo",route="agent"} 1.0',
        'livery_request_latency_seconds_bucket{le="2.0",room="demo",route="agent"} 0.0',
        'livery_tokens_total{kind="prompt",room="demo"} 2690.0',
        'livery_tokens_total{kind="cached",room="demo"} 2530.0',
        'livery_hook_decisions_total{checkpoint="reply",decision="retry",failure="",hook="no-links"} 1.0',
    ):
        assert line in text, line


# ------------------------------------------------------------------------------------------- streams


async def test_events_are_streamed_and_resumed_after_the_last_one_seen(served: Served):
    async with served.client() as client:
        async with client.stream("GET", "/api/rooms/demo/events") as stream:
            events = sse_events(stream)
            await client.post(PATH, json={"id": "e1", "viewer": "v", "text": "how much is the bag?"})
            kinds: list[str] = []
            async for kind, data, event_id in events:
                kinds.append(kind)
                if kind == "thinking":
                    last, seq = event_id, json.loads(data)["seq"]
                if kind == "spoken":
                    break
        assert kinds == ["message", "thinking", "trajectory", "fate", "item", "speaking", "spoken"]
        headers = {"last-event-id": last}
        async with client.stream("GET", "/api/rooms/demo/events", headers=headers) as stream:
            first = await anext(sse_events(stream))
        assert first[0] == "trajectory"
        assert json.loads(first[1])["seq"] == seq + 1
        async with client.stream("GET", "/api/rooms/demo/events", headers={"last-event-id": "otherrun-3"}) as stream:
            assert (await anext(sse_events(stream)))[0] == "gap"


def ws_address(served: Served) -> str:
    return served.address.replace("http://", "ws://") + "/api/rooms/demo/ws"


async def test_a_websocket_sends_messages_and_receives_acks_and_events(served: Served):
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with connect(ws_address(served), additional_headers=headers, proxy=None) as socket:
        await socket.send(json.dumps({"ref": 7, "messages": [{"id": "w1", "viewer": "v", "text": "price of 1?"}]}))
        seen: dict[str, Any] = {}
        while not {"ack", "spoken"} <= set(seen):
            given = json.loads(await socket.recv())
            seen[given["event"]["kind"] if given["type"] == "event" else given["type"]] = given
        assert seen["ack"]["ref"] == 7
        assert seen["ack"]["messages"] == [{"id": "w1", "accepted": True, "duplicate": False, "reason": ""}]
        assert seen["trajectory"]["event"]["trajectory"]["reply"] == "The canvas bag is $29.99 today."
        for wrong in ("{", "[]", '{"viewer": "v"}'):
            await socket.send(wrong)
            assert json.loads(await socket.recv())["type"] == "error"


async def test_a_websocket_without_rights_or_from_another_site_is_refused(served: Served):
    with pytest.raises(InvalidStatus):
        async with connect(ws_address(served), proxy=None):
            pass
    headers = {"authorization": f"Bearer {TOKEN}"}
    with pytest.raises(InvalidStatus):
        async with connect(ws_address(served), additional_headers=headers, origin="https://evil.example", proxy=None):
            pass


async def test_audio_is_served_while_the_room_keeps_it(served: Served):
    async with served.client(signed_in=False) as client:
        trajectory = await served.desk.asked("how much is the bag?")
        answer = await client.get(f"/api/rooms/demo/audio/{trajectory.request.id}")
        assert answer.headers["content-type"] == "audio/wav"
        assert answer.content[:4] == b"RIFF"
        assert (await client.get("/api/rooms/demo/audio/none")).status_code == 404
