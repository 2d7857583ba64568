"""The stage: what viewers see, as a page for OBS or any browser.

Its event stream carries only what may be public: shown chat, the spoken text, the item card. Trajectories,
prompts and tool results never pass through here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import Any, cast
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse

from livery.console.context import Console, Shared
from livery.console.watch import follow, screened_out
from livery.errors import StoreError
from livery.room.events import EventKind, RoomEvent
from livery.room.runtime import Room
from livery.shop.catalogue import Product
from livery.shop.money import format_money
from livery.shop.operations import OperationContext, OperationError
from livery.types import ChatMessage, MessageKind

router = APIRouter()

PARTS = ("avatar", "subtitles", "item", "chat")
PING_S = 15.0
CHAT_LINES = 14
LOW_STOCK = 10

WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "label": "AI-generated host",
        "chat": "Chat",
        "sound": "Turn sound on",
        "avatar": "The host",
        "link": "Link {}",
        "in_stock": "In stock",
        "low": "Only {} left",
        "out": "Sold out",
        "upcoming": "Coming soon",
        "discontinued": "Discontinued",
    },
    "zh": {
        "label": "AI 生成主播",
        "chat": "弹幕",
        "sound": "打开声音",
        "avatar": "主播",
        "link": "{}号链接",
        "in_stock": "有货",
        "low": "仅剩 {} 件",
        "out": "已售罄",
        "upcoming": "即将开售",
        "discontinued": "已下架",
    },
}


def words_for(language: str) -> Mapping[str, str]:
    return WORDS["zh" if language.lower().startswith("zh") else "en"]


def language_of(console: Console, room: str) -> str:
    """The language of the harness that answers in the room; the room's own while no release is published."""
    try:
        picked = console.context.router.pick(room, "")
        return console.context.store.load(picked.release).language
    except StoreError:
        return console.context.rooms[room].state().language


def seconds_to_read(text: str) -> float:
    """How long a voice would take: about 4.5 Chinese characters or 14 letters a second."""
    cjk = sum("\u3400" <= c <= "\u9fff" for c in text)
    return max(1.0, cjk / 4.5 + (len(text) - cjk) / 14)


# ------------------------------------------------------------------------------------------------ item card


async def item_card(console: Console, room: str, link_id: str) -> dict[str, str] | None:
    """What the card shows, every figure from the shop's own operations; None where there is no such item."""
    if not link_id:
        return None
    catalogue = console.context.catalogues[room]()
    product = catalogue.by_link.get(link_id)
    if product is None:
        return None
    words = words_for(language_of(console, room))
    price = format_money(product.price, catalogue.currency)
    card = {
        "link_id": link_id,
        "link": words["link"].format(link_id),
        "name": product.name,
        "now": price,
        "was": "",
        "offer": "",
        **_stock(product, words),
    }
    quoted = await _quote(console, room, link_id)
    if quoted is not None and quoted[0] < product.price:
        card["now"] = format_money(quoted[0], catalogue.currency)
        card["was"] = price
        card["offer"] = " · ".join(quoted[1][:2])
    return card


def _stock(product: Product, words: Mapping[str, str]) -> dict[str, str]:
    status = product.availability
    if status == "on_sale":
        low = product.total_stock <= LOW_STOCK
        text = words["low"].format(product.total_stock) if low else words["in_stock"]
        return {"stock": text, "stock_level": "low" if low else "in"}
    level = {"sold_out": "out"}.get(status, status)
    return {"stock": words[level], "stock_level": "out"}


async def _quote(console: Console, room: str, link_id: str) -> tuple[int, list[str]] | None:
    """(price of one unit in minor units, reasons it is less than the list price); None while it cannot be
    bought."""
    state = console.context.rooms[room].state()
    context = OperationContext(
        catalogue=console.context.catalogues[room](),
        state=state,
        now=datetime.fromtimestamp(state.now, ZoneInfo(state.timezone)),
    )
    try:
        outcome = await console.context.operations.call("pricing.quote", {"link_id": link_id}, context)
    except OperationError:
        return None
    value = cast("dict[str, Any]", outcome.value)
    if "unit_price" not in value:
        return None
    return int(value["unit_price"]["amount"]), [line["reason"] for line in value.get("lines", [])]


# --------------------------------------------------------------------------------------------------- events


def pseudonym(console: Console, viewer: str) -> str:
    """Tells viewers apart on the stage, for deletions, without giving their ids away."""
    return hashlib.sha256(f"{console.boot} {viewer}".encode()).hexdigest()[:12]


def chat_view(console: Console, message: ChatMessage) -> dict[str, str]:
    return {
        "id": message.id,
        "by": pseudonym(console, message.viewer),
        "name": message.name or message.viewer,
        "text": message.text,
        "kind": message.kind,
        "amount": message.amount,
    }


def speaking_view(event: RoomEvent) -> dict[str, Any]:
    return {
        "request_id": event.request_id,
        "text": event.text,
        "audio_id": event.audio_id,
        "audio_s": event.audio_s,
        "seconds": seconds_to_read(event.text),
        "messages": list(event.messages),
    }


async def snapshot(console: Console, room: str) -> dict[str, Any]:
    """The stage as it stands now, for a page that opens or comes back."""
    watch = console.watches[room]
    shown = [line for line in watch.lines.values() if _is_shown(line.message) and not (line.removed or line.screened)]
    speaking = watch.speaking
    return {
        "label": words_for(language_of(console, room))["label"],
        "messages": [chat_view(console, line.message) for line in shown[-CHAT_LINES:]],
        "item": await item_card(console, room, console.context.rooms[room].state().on_screen),
        "speaking": None
        if speaking is None
        else {**speaking_view(speaking), "elapsed_s": max(0.0, console.context.clock() - speaking.at)},
    }


def _is_shown(message: ChatMessage) -> bool:
    return message.kind in (MessageKind.CHAT, MessageKind.PAID, MessageKind.GIFT) and bool(
        message.text or message.amount
    )


async def public_view(console: Console, event: RoomEvent) -> tuple[str, dict[str, Any]] | None:
    """(event name, data) of what the stage may know of ``event``; None: nothing."""
    match event.kind:
        case EventKind.MESSAGE if event.message is not None and _is_shown(event.message):
            return "message", chat_view(console, event.message)
        case EventKind.DELETION if event.deletion is not None:
            gone = event.deletion
            by = pseudonym(console, gone.viewer) if gone.viewer else ""
            return "removed", {"id": gone.message, "by": by, "everything": gone.everything}
        case EventKind.FATE if screened_out(event):
            return "removed", {"id": event.messages[0], "by": "", "everything": False}
        case EventKind.THINKING:
            return "thinking", {"request_id": event.request_id}
        case EventKind.TRAJECTORY:
            return "ended", {"request_id": event.request_id}
        case EventKind.SPEAKING:
            return "speaking", speaking_view(event)
        case EventKind.SPOKEN:
            return "spoken", {"request_id": event.request_id, "interrupted": event.interrupted}
        case EventKind.ITEM:
            return "item", {"card": await item_card(console, event.room, event.link_id)}
        case EventKind.STATE:
            return "snapshot", await snapshot(console, event.room)
        case _:
            return None


def sse(event: str, data: str, event_id: str = "") -> bytes:
    """One server-sent event (html.spec.whatwg.org, 9.2)."""
    lines = [f"event: {event}", *(f"data: {line}" for line in data.splitlines() or [""])]
    if event_id:
        lines.append(f"id: {event_id}")
    return ("\n".join(lines) + "\n\n").encode()


def event_stream(body: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(body, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def missed(console: Console, room: Room, last_event_id: str) -> tuple[RoomEvent, ...] | None:
    """The events after ``last_event_id``; None where the room no longer has all of them (or it is another
    run's)."""
    boot, _, seq = last_event_id.partition("-")
    if boot != console.boot or not seq.isdigit():
        return None
    kept = room.recent(1_000_000)
    if not kept or not kept[0].seq <= int(seq) + 1 <= kept[-1].seq + 1:
        return None
    return tuple(e for e in kept if e.seq > int(seq))


async def _stage_events(console: Console, name: str, last_event_id: str) -> AsyncIterator[bytes]:
    room = console.context.rooms[name]
    with room.subscribe() as subscription:
        replayed = missed(console, room, last_event_id)
        yield b"retry: 1500\n\n"
        if replayed is None:
            yield sse("snapshot", json.dumps(await snapshot(console, name)))
        done = -1
        for event in replayed or ():
            done = event.seq
            if (view := await public_view(console, event)) is not None:
                yield sse(view[0], json.dumps(view[1]), f"{console.boot}-{event.seq}")
        async with aclosing(follow(subscription, console.closing, idle_s=PING_S)) as events:
            async for event in events:
                if event is None:
                    yield b": ping\n\n"
                elif event.seq > done and (view := await public_view(console, event)) is not None:
                    yield sse(view[0], json.dumps(view[1]), f"{console.boot}-{event.seq}")


# ---------------------------------------------------------------------------------------------------- pages


def open_room(console: Console, request: Request, name: str) -> Room:
    """The room, for someone who may watch its stage."""
    room = console.context.rooms.get(name)
    if room is None:
        raise HTTPException(404, f"no room {name!r} here")
    if not console.access.may_watch(request, name):
        raise HTTPException(403, "this stage needs its key; the operator page shows the address with it")
    return room


@router.get("/stage/{name}")
async def stage(
    console: Shared,
    request: Request,
    name: str,
    transparent: bool = False,
    parts: str = "",
    mute: bool = False,
) -> HTMLResponse:
    open_room(console, request, name)
    wanted = {p.strip() for p in parts.split(",") if p.strip()} or set(PARTS)
    language = language_of(console, name)
    words = words_for(language)
    query = "?" + urlencode({"key": request.query_params["key"]}) if "key" in request.query_params else ""
    page = console.render(
        "stage.html",
        room_id=name,
        language=language,
        label=words["label"],
        words=words,
        transparent=transparent,
        parts=[p for p in PARTS if p in wanted],
        mute=mute,
        events_url=f"/stage/{quote(name)}/events{query}",
        audio_url=f"/stage/{quote(name)}/audio{query}{'&' if query else '?'}id=",
    )
    return HTMLResponse(page)


@router.get("/stage/{name}/events")
async def stage_events(console: Shared, request: Request, name: str) -> StreamingResponse:
    open_room(console, request, name)
    return event_stream(_stage_events(console, name, request.headers.get("last-event-id", "")))


@router.get("/stage/{name}/audio")
async def stage_audio(console: Shared, request: Request, name: str, id: str) -> Response:
    return wav(open_room(console, request, name), id)


def wav(room: Room, audio_id: str) -> Response:
    audio = room.audio(audio_id)
    if audio is None:
        raise HTTPException(404, f"no audio {audio_id!r} (only the latest clips are kept)")
    return Response(audio, media_type="audio/wav", headers={"cache-control": "private, max-age=300"})
