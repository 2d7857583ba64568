"""The programs' side of the console: chat in, events and figures out, health and metrics.

Everything here speaks JSON. Wrong input is answered by 422 with every fault and its field; a batch with a
fault is refused whole. An acknowledged message is on disk. Documented with examples in docs/console.md.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import asdict
from typing import Any, cast

from fastapi import APIRouter, Depends, HTTPException, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse, Response, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError
from starlette.requests import HTTPConnection

from livery.console.auth import NotSignedIn
from livery.console.context import Console, Shared
from livery.console.stage import PING_S, event_stream, missed, open_room, public_view, sse, wav
from livery.console.watch import follow
from livery.errors import Problem
from livery.room.events import RoomEvent
from livery.room.runtime import Ack, Room
from livery.types import ChatDeletion, ChatMessage, MessageKind, Trajectory

router = APIRouter()

MESSAGES_PER_CALL = 500


class MessageIn(BaseModel):
    """One chat message as a program sends it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: str = Field(default="", max_length=200)
    """The platform's own id, for deduplication; empty: one is made up."""
    viewer: str = Field(min_length=1, max_length=200)
    name: str = Field(default="", max_length=200)
    kind: str = MessageKind.CHAT
    text: str = Field(default="", max_length=2000, validate_default=True)
    at: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Unix time; absent: now."""
    amount: str = Field(default="", max_length=100)
    reply_to: str = Field(default="", max_length=200)
    source: str = Field(default="api", max_length=40)

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind not in list(MessageKind):
            raise PydanticCustomError("kind", "expected one of {kinds}", {"kinds": ", ".join(MessageKind)})
        return kind

    @field_validator("text")
    @classmethod
    def _written(cls, text: str, info: ValidationInfo) -> str:
        if info.data.get("kind") == MessageKind.CHAT and not text.strip():
            raise PydanticCustomError("text", "a chat message needs text")
        return text


class DeletionIn(BaseModel):
    """A moderator's deletion: exactly one of the three."""

    model_config = ConfigDict(extra="forbid", strict=True)

    message: str = Field(default="", max_length=200)
    viewer: str = Field(default="", max_length=200)
    everything: bool = False


_EVENT = TypeAdapter(RoomEvent)
_TRAJECTORY = TypeAdapter(Trajectory)


def problem_view(problem: Problem) -> dict[str, Any]:
    return asdict(problem)


def event_view(event: RoomEvent) -> dict[str, Any]:
    """The event as JSON; fields that do not apply are left out."""
    whole = _EVENT.dump_python(event, mode="json")
    return {k: v for k, v in whole.items() if v not in (None, "", [], 0.0, False) or k in ("seq", "at")}


def trajectory_view(trajectory: Trajectory) -> dict[str, Any]:
    return _TRAJECTORY.dump_python(trajectory, mode="json")


# -------------------------------------------------------------------------------------------- reading input


class Faults(Exception):
    """Input a program sent is wrong: (field, message) pairs. Answered by 422."""

    def __init__(self, faults: list[tuple[str, str]]) -> None:
        self.faults = faults
        super().__init__(str(faults))

    def view(self) -> dict[str, Any]:
        return {"errors": [{"field": field, "message": message} for field, message in self.faults]}


async def read_json(request: Request) -> Any:
    """The body as JSON.

    Requiring the content type keeps other sites' forms out: a browser asks before it sends JSON across
    origins.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "expected content-type application/json")
    body = await request.body()
    try:
        text = body.decode(json.detect_encoding(body))
    except ValueError as fault:
        raise Faults([("", f"not valid JSON: {fault}")]) from fault
    return parse_json(text)


_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str) -> Any:
    """The value of a JSON text that a program sent.

    Raises:
        Faults: it is no JSON, nests deeper than a parser follows, or escapes half a surrogate pair: that is
            not Unicode, and no store or answer could hold it.
    """
    try:
        value = json.loads(text)
        if _HALF.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as fault:
        found = ascii(fault.object[fault.start])
        raise Faults([("", f"found {found}, half of a surrogate pair; expected Unicode text")]) from fault
    except (ValueError, RecursionError) as fault:
        raise Faults([("", f"not valid JSON: {fault}")]) from fault
    return value


def _field(location: tuple[int | str, ...]) -> str:
    name = ""
    for part in location:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return name


def faults_of(fault: ValidationError, where: tuple[int | str, ...]) -> list[tuple[str, str]]:
    faults: list[tuple[str, str]] = []
    for e in fault.errors(include_url=False):
        said = "unknown field" if e["type"] == "extra_forbidden" else e["msg"]
        found = json.dumps(e["input"], ensure_ascii=False, default=str)[:80]
        faults.append((_field((*where, *e["loc"])), f"{said}; found {found}"))
    return faults


def read_messages(body: Any, room: str, now: float) -> list[ChatMessage]:
    """One message, a list, or ``{"messages": [...]}``.

    Raises:
        Faults: with every wrong field; then nothing of the batch is taken.
    """
    where: tuple[str | int, ...] = ()
    if isinstance(body, dict) and "messages" in body:
        where, body = ("messages",), cast("dict[str, Any]", body)["messages"]
    if isinstance(body, dict):
        items: list[tuple[tuple[str | int, ...], Any]] = [(where, body)]
    elif isinstance(body, list) and body:
        items = [((*where, i), item) for i, item in enumerate(cast("list[Any]", body))]
    else:
        raise Faults([(_field(where), "expected a message object or a list of at least one")])
    if len(items) > MESSAGES_PER_CALL:
        raise Faults([(_field(where), f"found {len(items)} messages; at most {MESSAGES_PER_CALL} in one call")])
    faults: list[tuple[str, str]] = []
    messages: list[ChatMessage] = []
    for place, item in items:
        try:
            given = MessageIn.model_validate(item)
        except ValidationError as fault:
            faults += faults_of(fault, place)
            continue
        messages.append(
            ChatMessage(
                id=given.id or uuid.uuid4().hex,
                room=room,
                viewer=given.viewer,
                name=given.name or given.viewer,
                text=given.text,
                at=now if given.at is None else given.at,
                kind=MessageKind(given.kind),
                amount=given.amount,
                reply_to=given.reply_to,
                source=given.source,
            )
        )
    if faults:
        raise Faults(faults)
    return messages


def read_deletion(body: Any, room: str, now: float) -> ChatDeletion:
    try:
        given = DeletionIn.model_validate(body)
    except ValidationError as fault:
        raise Faults(faults_of(fault, ())) from fault
    if sum((bool(given.message), bool(given.viewer), given.everything)) != 1:
        raise Faults([("", "expected exactly one of message, viewer and everything")])
    return ChatDeletion(room=room, at=now, message=given.message, viewer=given.viewer, everything=given.everything)


# ---------------------------------------------------------------------------------------------------- access


def require_operator(connection: HTTPConnection, console: Shared) -> None:
    """For whole routers and single routes: the operator, or `NotSignedIn`."""
    if not console.access.is_operator(connection):
        raise NotSignedIn


OPERATOR = [Depends(require_operator)]


def find_room(console: Console, name: str) -> Room:
    room = console.context.rooms.get(name)
    if room is None:
        raise HTTPException(404, f"no room {name!r} here; there are: {', '.join(console.context.rooms)}")
    return room


def chat_room(console: Console, connection: HTTPConnection, name: str) -> Room:
    """The room, for someone who may send chat to it."""
    room = find_room(console, name)
    if console.access.may_chat(connection, name) is None:
        raise NotSignedIn
    return room


# -------------------------------------------------------------------------------------------------- messages


def _ack_view(message: ChatMessage, ack: Ack) -> dict[str, Any]:
    return {"id": message.id, "accepted": ack.accepted, "duplicate": ack.duplicate, "reason": ack.reason}


async def submit_all(room: Room, messages: list[ChatMessage]) -> list[dict[str, Any]]:
    """In order; returns when every accepted one is on disk (one commit may hold them all)."""
    acks = await asyncio.gather(*(room.submit(m) for m in messages))
    return [_ack_view(m, ack) for m, ack in zip(messages, acks, strict=True)]


@router.post("/api/rooms/{name}/messages")
async def post_messages(console: Shared, request: Request, name: str) -> JSONResponse:
    room = chat_room(console, request, name)
    messages = read_messages(await read_json(request), name, console.context.clock())
    return JSONResponse({"messages": await submit_all(room, messages)})


@router.post("/api/rooms/{name}/deletions")
async def post_deletion(console: Shared, request: Request, name: str) -> JSONResponse:
    room = chat_room(console, request, name)
    deletion = read_deletion(await read_json(request), name, console.context.clock())
    ack = await room.submit(deletion)
    return JSONResponse({"accepted": ack.accepted, "reason": ack.reason})


@router.websocket("/api/rooms/{name}/ws")
async def room_socket(console: Shared, socket: WebSocket, name: str) -> None:
    """Send messages, receive events: all of them for the operator, the stage's for others."""
    if name not in console.context.rooms or (role := console.access.may_chat(socket, name)) is None:
        await socket.close(1008)
        return
    room = console.context.rooms[name]
    await socket.accept()

    async def send_events() -> None:
        with room.subscribe() as subscription:
            async with aclosing(follow(subscription, console.closing, idle_s=PING_S)) as events:
                async for event in events:
                    if event is None:
                        continue
                    if role == "operator":
                        await socket.send_json({"type": "event", "event": event_view(event)})
                    elif (view := await public_view(console, event)) is not None:
                        await socket.send_json({"type": view[0], "seq": event.seq, **view[1]})
        await socket.close(1001)

    sender = asyncio.create_task(send_events())
    try:
        while True:
            await socket.send_json(await _socket_answer(console, room, name, await socket.receive_text()))
    except WebSocketDisconnect:
        pass
    finally:
        sender.cancel()
        await asyncio.wait([sender])


async def _socket_answer(console: Console, room: Room, name: str, text: str) -> Mapping[str, Any]:
    try:
        body = parse_json(text)
    except Faults as fault:
        return {"type": "error", **fault.view()}
    ref: Any = cast("dict[str, Any]", body).pop("ref", None) if isinstance(body, dict) else None
    try:
        messages = read_messages(body, name, console.context.clock())
    except Faults as fault:
        return {"type": "error", "ref": ref, **fault.view()}
    return {"type": "ack", "ref": ref, "messages": await submit_all(room, messages)}


# ------------------------------------------------------------------------------------------ events, figures


async def _room_events(console: Console, room: Room, last_event_id: str) -> AsyncIterator[bytes]:
    with room.subscribe() as subscription:
        done = -1
        yield b"retry: 1500\n\n"
        replayed = missed(console, room, last_event_id)
        if last_event_id and replayed is None:
            yield sse("gap", "{}")
        for event in replayed or ():
            done = event.seq
            yield sse(event.kind, json.dumps(event_view(event)), f"{console.boot}-{event.seq}")
        async with aclosing(follow(subscription, console.closing, idle_s=PING_S)) as events:
            async for event in events:
                if event is None:
                    yield b": ping\n\n"
                elif event.seq > done:
                    yield sse(event.kind, json.dumps(event_view(event)), f"{console.boot}-{event.seq}")


@router.get("/api/rooms/{name}/events", dependencies=OPERATOR)
async def room_events(console: Shared, request: Request, name: str) -> StreamingResponse:
    room = find_room(console, name)
    return event_stream(_room_events(console, room, request.headers.get("last-event-id", "")))


@router.get("/api/rooms", dependencies=OPERATOR)
async def rooms(console: Shared) -> dict[str, Any]:
    return {"rooms": [{"id": n, "language": r.state().language} for n, r in console.context.rooms.items()]}


@router.get("/api/rooms/{name}/stats", dependencies=OPERATOR)
async def room_stats(console: Shared, name: str) -> dict[str, Any]:
    return asdict(find_room(console, name).stats())


@router.get("/api/rooms/{name}/audio/{audio_id}")
async def room_audio(console: Shared, request: Request, name: str, audio_id: str) -> Response:
    return wav(open_room(console, request, name), audio_id)


async def find_trajectory(console: Console, id: str) -> Trajectory:
    """By trajectory or request id: the latest from memory, older ones from the journal."""
    for watch in console.watches.values():
        if id in watch.trajectories:
            return watch.trajectories[id]
        for pending in watch.room.pending():
            if id in (pending.id, pending.request.id):
                return pending
        for trajectory in reversed(watch.trajectories.values()):
            if trajectory.request.id == id:
                return trajectory
    found = await console.context.journal.trajectory(id)
    if found is None:
        found = next(iter(await console.context.journal.trajectories(request_id=id, limit=1)), None)
    if found is None:
        raise HTTPException(404, f"no request {id!r}")
    return found


@router.get("/api/requests/{id}", dependencies=OPERATOR)
async def request_detail(console: Shared, id: str) -> dict[str, Any]:
    return trajectory_view(await find_trajectory(console, id))


@router.get("/healthz")
async def healthz(console: Shared) -> dict[str, Any]:
    return {"status": "ok", "version": console.context.version, "rooms": len(console.context.rooms)}


@router.get("/metrics")
async def metrics(console: Shared, connection: Request) -> Response:
    if not console.context.settings.public_metrics:
        require_operator(connection, console)
    return Response(console.metrics.exposition(), media_type=CONTENT_TYPE_LATEST)
