"""The operator's pages: sign-in, the live room, and one request with its whole trajectory.

The live page is drawn by the server, panel by panel, and sent as server-sent events that HTMX swaps in.
What is shown of chat, replies and tool results is always escaped text.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from livery.console.api import OPERATOR, find_room, find_trajectory
from livery.console.auth import SESSION_S
from livery.console.chart import latency_chart
from livery.console.context import Console, Shared
from livery.console.stage import PING_S, event_stream, sse
from livery.console.watch import Panel
from livery.errors import StoreError
from livery.harness.channels import Picked
from livery.room.runtime import Stage
from livery.types import ChatMessage, Trajectory

router = APIRouter()

ROWS_SHOWN = 60
REDRAW_S = 0.3


# ------------------------------------------------------------------------------------------------- sign in


def _local(path: str) -> str:
    """``path`` where it stays on this site, else the front page."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"


@router.get("/login")
async def login_page(console: Shared, next: str = "/") -> HTMLResponse:
    return HTMLResponse(console.render("login.html", next=_local(next), wrong=False))


@router.post("/login")
async def login(
    console: Shared, request: Request, token: Annotated[str, Form()] = "", next: Annotated[str, Form()] = "/"
) -> Response:
    if not console.access.token_matches(token.strip()):
        return HTMLResponse(console.render("login.html", next=_local(next), wrong=True), 401)
    response = RedirectResponse(_local(next), 303)
    response.set_cookie(
        console.access.cookie,
        console.access.new_session(),
        max_age=SESSION_S,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


@router.post("/logout", dependencies=OPERATOR)
async def logout(console: Shared) -> Response:
    response = Response(status_code=204, headers={"hx-redirect": "/login"})
    response.delete_cookie(console.access.cookie, httponly=True, samesite="strict")
    return response


# --------------------------------------------------------------------------------------------------- panels


def page_values(console: Console, request: Request, **values: Any) -> dict[str, Any]:
    """What the frame around every operator page needs."""
    return {
        "csrf": json.dumps({"X-Livery-CSRF": console.access.csrf(request)}),
        "rooms": list(console.context.rooms),
        **values,
    }


def clock_text(at: float, timezone: str) -> str:
    return datetime.fromtimestamp(at, ZoneInfo(timezone)).strftime("%H:%M:%S")


def draw(console: Console, name: str, panel: Panel) -> str:
    """One panel of the live page as HTML."""
    watch = console.watches[name]
    room = watch.room
    timezone = room.state().timezone
    common: dict[str, Any] = {
        "room_id": name,
        "stats": room.stats(),
        "clock": partial(clock_text, timezone=timezone),
    }
    match panel:
        case Panel.CONTROLS:
            goods = console.context.catalogues[name]()  # looks at the files, so problems come after it
            faults = console.context.catalogue_problems.get(name)
            values = {
                "speaking": watch.speaking,
                "faults": faults() if faults else (),
                "on_screen": goods.by_link.get(room.state().on_screen),
                "release": _release(console, name),
                "shares": _shares(console, name),
            }
        case Panel.FIGURES:
            values = {
                "chart": latency_chart(list(watch.latencies), console.context.clock()),
                "tokens": _tokens(console, name),
            }
        case Panel.REQUESTS:
            # Those that were given up left no trace here, so the room's own count says how many still think.
            thinking = room.stats().stages.get(Stage.THINKING, 0)
            begun = list(watch.begun.values())[-thinking:] if thinking else []
            values = {
                "thinking": [(e.at, watch.lines.get(e.messages[0]) if e.messages else None) for e in begun[::-1]],
                "trajectories": list(watch.trajectories.values())[: -ROWS_SHOWN - 1 : -1],
                "said": watch.said,
            }
        case Panel.PENDING:
            values = {"pending": room.pending(), "hand_offs": list(watch.hand_offs)[:-6:-1]}
        case Panel.CHAT:
            values = {"lines": list(watch.lines.values())}
    return console.render(f"_{panel}.html", **common, **values).strip()


def _release(console: Console, name: str) -> Picked | None:
    """What the room itself is given; None before the first publication."""
    try:
        return console.context.router.pick(name)
    except StoreError:
        return None


def _shares(console: Console, name: str) -> dict[str, float]:
    """Percentages of the channels that answer the room's viewers; empty where one answers them all."""
    split = next((s for s in console.context.router.routing.splits if s.covers(name)), None)
    given = {channel: share for channel, share in split.percent.items() if share} if split else {}
    return given if len(given) > 1 else {}


def _tokens(console: Console, name: str) -> dict[str, int]:
    usages = [t.usage for t in console.watches[name].trajectories.values()]
    return {k: sum(getattr(u, k) for u in usages) for k in ("prompt", "cached", "output")}


async def _panel_events(console: Console, name: str) -> AsyncIterator[bytes]:
    watch = console.watches[name]
    yield b"retry: 1500\n\n"
    async with aclosing(watch.changes(console.closing, idle_s=PING_S, rest_s=REDRAW_S)) as changes:
        async for panels in changes:
            for panel in sorted(panels):
                yield sse(panel, draw(console, name, panel))
            if not panels:
                yield b": ping\n\n"


@router.get("/", dependencies=OPERATOR)
async def live_page(console: Shared, request: Request, room: str = "") -> HTMLResponse:
    name = room or next(iter(console.context.rooms))
    find_room(console, name)
    state = console.context.rooms[name].state()
    page = console.render(
        "operator.html",
        **page_values(
            console,
            request,
            room_id=name,
            panels={p.value: draw(console, name, p) for p in Panel},
            products=console.context.catalogues[name]().products,
            on_screen=state.on_screen,
            timezone=state.timezone,
            stage_query=console.access.stage_query(name),
        ),
    )
    return HTMLResponse(page)


@router.get("/ui/rooms/{name}/events", dependencies=OPERATOR)
async def panel_events(console: Shared, name: str) -> StreamingResponse:
    find_room(console, name)
    return event_stream(_panel_events(console, name))


# -------------------------------------------------------------------------------------------------- actions


def done() -> Response:
    return Response(status_code=204)


@router.post("/ui/rooms/{name}/pause", dependencies=OPERATOR)
async def pause(console: Shared, name: str, on: Annotated[bool, Form()]) -> Response:
    room = find_room(console, name)
    await (room.pause() if on else room.resume())
    return done()


@router.post("/ui/rooms/{name}/approval", dependencies=OPERATOR)
async def approval(console: Shared, name: str, on: Annotated[bool, Form()]) -> Response:
    await find_room(console, name).set_approval(on)
    return done()


@router.post("/ui/rooms/{name}/interrupt", dependencies=OPERATOR)
async def interrupt(console: Shared, name: str) -> Response:
    await find_room(console, name).interrupt()
    return done()


@router.post("/ui/rooms/{name}/item", dependencies=OPERATOR)
async def show_item(console: Shared, name: str, link_id: Annotated[str, Form()] = "") -> Response:
    if not await find_room(console, name).show_item(link_id):
        raise HTTPException(404, f"no item with link id {link_id!r}")
    return done()


@router.post("/ui/rooms/{name}/say", dependencies=OPERATOR)
async def say(
    console: Shared, name: str, text: Annotated[str, Form()] = "", viewer: Annotated[str, Form()] = ""
) -> Response:
    """A test message, as if a viewer had written it."""
    if not text.strip():
        raise HTTPException(422, "write a message first")
    room = find_room(console, name)
    viewer = viewer.strip() or "tester"
    ack = await room.submit(
        ChatMessage(
            id=f"console-{uuid.uuid4().hex}",
            room=name,
            viewer=f"console:{viewer}",
            name=viewer,
            text=text.strip()[:2000],
            at=console.context.clock(),
            source="console",
        )
    )
    if not ack.accepted:
        raise HTTPException(409, f"the room did not take it: {ack.reason or 'no reason given'}")
    return done()


@router.post("/ui/rooms/{name}/pending/{request_id}/approve", dependencies=OPERATOR)
async def approve(console: Shared, name: str, request_id: str, text: Annotated[str, Form()] = "") -> Response:
    """Speak it; ``text`` stands in for the reply where the operator changed it."""
    room = find_room(console, name)
    waiting = next((t for t in room.pending() if t.request.id == request_id), None)
    edited = text.strip() if waiting is not None and text.strip() not in ("", waiting.reply) else None
    if not await room.approve(request_id, edited):
        raise HTTPException(409, "this reply no longer waits: it was decided or timed out meanwhile")
    console.watches[name].touch(Panel.PENDING)
    return done()


@router.post("/ui/rooms/{name}/pending/{request_id}/reject", dependencies=OPERATOR)
async def reject(console: Shared, name: str, request_id: str, reason: Annotated[str, Form()] = "") -> Response:
    room = find_room(console, name)
    if not await room.reject(request_id, reason.strip()):
        raise HTTPException(409, "this reply no longer waits: it was decided or timed out meanwhile")
    console.watches[name].touch(Panel.PENDING)
    return done()


# --------------------------------------------------------------------------------------------- one request


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a request's time, for the timing bar."""

    label: str
    kind: str
    start_s: float
    seconds: float


def spans(trajectory: Trajectory) -> list[Span]:
    """Where the seconds went, in order. Tools of one round run side by side: the longest counts."""
    found: list[Span] = []
    at = 0.0

    def add(label: str, kind: str, seconds: float) -> None:
        nonlocal at
        if seconds > 0:
            found.append(Span(label, kind, at, seconds))
            at += seconds

    add("Queue", "queue", trajectory.queue_s)
    add("Hooks on the request", "hooks", sum(h.duration_s for h in trajectory.hooks if h.round == 0))
    for turn in trajectory.turns:
        timing = turn.policy.timing
        split = timing.prefill_s + timing.decode_s
        if split > 0:
            add(f"Round {turn.round}: prefill", "prefill", timing.prefill_s)
            add(f"Round {turn.round}: decode", "decode", timing.decode_s)
        add(f"Round {turn.round}: policy", "policy", max(0.0, timing.total_s - split))
        add(f"Round {turn.round}: tools", "tools", max((r.duration_s for r in turn.results), default=0.0))
        hooks_s = sum(h.duration_s for h in trajectory.hooks if h.round == turn.round and turn.round > 0)
        add(f"Round {turn.round}: hooks", "hooks", hooks_s)
    add("Other", "other", trajectory.queue_s + trajectory.total_s - at)
    return found


def _detail(console: Console, trajectory: Trajectory) -> dict[str, Any]:
    found = spans(trajectory)
    timezone = trajectory.request.state.timezone
    watch = console.watches.get(trajectory.request.room)
    return {
        "said": watch.said.get(trajectory.request.id, "") if watch else "",
        "line": watch.lines.get(trajectory.request.messages[0].id) if watch else None,
        "t": trajectory,
        "spans": found,
        "whole_s": max(sum(s.seconds for s in found), 1e-9),
        "clock": partial(clock_text, timezone=timezone),
        "pretty": partial(json.dumps, ensure_ascii=False, indent=2, default=str),
    }


@router.get("/requests/{id}", dependencies=OPERATOR)
async def request_page(console: Shared, request: Request, id: str) -> HTMLResponse:
    trajectory = await find_trajectory(console, id)
    values = page_values(console, request, room_id=trajectory.request.room, **_detail(console, trajectory))
    return HTMLResponse(console.render("request.html", **values))


@router.get("/ui/requests/{id}", dependencies=OPERATOR)
async def request_panel(console: Shared, id: str) -> HTMLResponse:
    return HTMLResponse(
        console.render("_trajectory.html", drawer=True, **_detail(console, await find_trajectory(console, id)))
    )
