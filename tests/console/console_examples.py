"""A small running room with a console over it: real room, journal and release store, a scripted answer."""

from __future__ import annotations

import asyncio
import io
import math
import struct
import time
import wave
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from fastapi import FastAPI

from livery.console.app import create_app
from livery.console.context import Console, ConsoleContext, ConsoleSettings, Prepare
from livery.console.serve import serve
from livery.errors import Problem
from livery.harness.channels import Router
from livery.harness.folder import load_harness
from livery.harness.store import ReleaseStore
from livery.room.intake import IntakeConfig
from livery.room.journal import Journal
from livery.room.runtime import Room, RoomConfig, Spoken
from livery.shop.catalogue import Catalogue, Product, Promotion, PromotionKind, Variant
from livery.shop.registry import shop_operations
from livery.types import (
    ChatMessage,
    Checkpoint,
    Effect,
    ErrorKind,
    HookEvent,
    PolicyTurn,
    Request,
    Route,
    Timing,
    ToolCall,
    ToolError,
    ToolResult,
    Trajectory,
    Turn,
    Usage,
)

TOKEN = "a-test-token-of-some-length"
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"

FILES: dict[str, str] = {
    "harness.yaml": "name: corner-shop\nlanguage: en\n",
    "prompt/persona.md": ("You host a live shop.\n\n{{ skills_catalogue }}\n{{ tools }}\n{{ call_format }}\n"),
    "prompt/chat.md": "---\nvolatility: request\n---\n\n{{ chat }}\n",
    "skills/item-qa/SKILL.md": (
        "---\nname: item-qa\n"
        "description: Answer a viewer's question about one item, such as its price, stock or material.\n"
        "metadata:\n  livery-kind: reply\n---\n\n"
        "Call `get_item` first, then answer in one sentence.\n\nSay: The canvas bag is $29.99 today.\n"
    ),
    "tools/get_item.yaml": (
        "name: get_item\ndescription: Facts of one item by its link number.\n"
        "inputSchema:\n  type: object\n  properties:\n"
        "    link_id: {type: string, description: Link number.}\n"
        "  required: [link_id]\n"
        "binding:\n  operation: catalog.get_product\n"
    ),
    "hooks/no-links.yaml": (
        "checkpoint: reply\non_failure: block\nrules:\n"
        '  - when: {contains_any: ["http://", "https://"]}\n'
        "    then: retry\n    message: Say it without a link.\n"
    ),
}


def write_harness(folder: Path, **changes: str) -> Path:
    for path, text in {**FILES, **changes}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def catalogue(**changes: object) -> Catalogue:
    shop = Catalogue(
        store="Corner shop",
        currency="USD",
        products=(
            Product(
                link_id="1",
                key="bag",
                name="Canvas tote bag, natural",
                category="bags",
                price=3999,
                stock=120,
            ),
            Product(
                link_id="2",
                key="lamp",
                name="Desk lamp with dimmer",
                category="home",
                price=5900,
                variants=(
                    Variant(sku="lamp-w", options={"colour": "white"}, stock=3),
                    Variant(sku="lamp-b", options={"colour": "black"}, stock=0),
                ),
            ),
            Product(link_id="3", key="mug", name=HOSTILE, category="home", price=1200, stock=0),
        ),
        promotions=(
            Promotion(
                key="bag-10",
                name="Opening week",
                kind=PromotionKind.AMOUNT_OFF,
                amount_off=1000,
                link_ids=("1",),
            ),
        ),
    )
    return shop.replace(**changes) if changes else shop


def tone(seconds: float = 1.0, rate: int = 16000) -> bytes:
    """A WAV that swells and fades four times a second, like syllables."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        frames = (
            int(26000 * math.sin(2 * math.pi * 180 * i / rate) * abs(math.sin(2 * math.pi * 2 * i / rate)))
            for i in range(int(seconds * rate))
        )
        file.writeframes(b"".join(struct.pack("<h", f) for f in frames))
    return out.getvalue()


@dataclass
class Voice:
    seconds: float = 1.0
    spoken: list[str] = field(default_factory=list)

    async def speak(self, text: str, language: str) -> Spoken:
        self.spoken.append(text)
        return Spoken(audio=tone(self.seconds), duration_s=self.seconds)

    async def cancel(self) -> None: ...


def trajectory(request: Request, *, reply: str, release: str, channel: str = "stable") -> Trajectory:
    """A whole one: two rounds, a call that fails and one that does not, a reply sent back once, hooks."""
    call = ToolCall(id="c1", name="get_item", arguments={"link_id": "1"})
    wrong = ToolCall(id="c2", name="get_itme", arguments={"note": request.text[:80]})
    turns = (
        Turn(
            round=1,
            harness_release=release,
            weights="scripted",
            policy=PolicyTurn(
                calls=(call, wrong),
                stop="calls",
                usage=Usage(prompt=820, cached=760, output=42),
                timing=Timing(total_s=0.9, prefill_s=0.4, decode_s=0.45, first_token_s=0.42),
            ),
            results=(
                ToolResult(
                    call=call,
                    key="get_item",
                    operation="catalog.get_product",
                    arguments={"link_id": "1"},
                    text='{"name": "Canvas tote bag", "price": "$29.99"}',
                    duration_s=0.012,
                ),
                ToolResult(
                    call=wrong,
                    error=ToolError(
                        kind=ErrorKind.UNKNOWN_TOOL, message="There is no tool get_itme; there is get_item."
                    ),
                    duration_s=0.001,
                ),
            ),
        ),
        Turn(
            round=2,
            harness_release=release,
            weights="scripted",
            policy=PolicyTurn(
                text="See https://example.com",
                usage=Usage(prompt=910, cached=860, output=18),
                timing=Timing(total_s=0.6, prefill_s=0.1, decode_s=0.45, first_token_s=0.12),
            ),
            feedback="Say it without a link.",
        ),
        Turn(
            round=3,
            harness_release=release,
            weights="scripted",
            policy=PolicyTurn(
                text=reply,
                usage=Usage(prompt=960, cached=910, output=21),
                timing=Timing(total_s=0.7, prefill_s=0.1, decode_s=0.55, first_token_s=0.12),
            ),
        ),
    )
    hooks = (
        HookEvent(hook="input-screen", checkpoint=Checkpoint.REQUEST, decision="allow", duration_s=0.001),
        HookEvent(
            hook="no-links",
            checkpoint=Checkpoint.REPLY,
            decision="retry",
            message="Say it without a link.",
            round=2,
            duration_s=0.002,
        ),
        HookEvent(hook="grounding", checkpoint=Checkpoint.REPLY, decision="allow", round=3, duration_s=0.004),
    )
    return Trajectory(
        id=f"t-{request.id}",
        request=request,
        harness="corner-shop",
        harness_release=release,
        channel=channel,
        policy="scripted:test",
        turns=turns,
        hooks=hooks,
        skills=("item-qa",),
        reply=reply,
        effects=(Effect(kind="show_item", link_id="1"),) if "bag" in reply else (),
        route=Route.AGENT,
        route_reason="the reply passed every hook",
        started_at=request.created_at,
        queue_s=0.4,
        total_s=2.3,
    )


@dataclass
class Desk:
    """A console and all that stands behind it."""

    app: FastAPI
    room: Room
    store: ReleaseStore
    router: Router
    journal: Journal
    voice: Voice
    faults: list[Problem]
    """Of the shop's files."""

    @property
    def console(self) -> Console:
        return self.app.state.console

    def client(self, *, signed_in: bool = True, host: str = "127.0.0.1:8700") -> httpx.AsyncClient:
        """In-process requests, by bearer token."""
        headers = {"authorization": f"Bearer {TOKEN}"} if signed_in else {}
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=f"http://{host}", headers=headers)

    async def say(self, text: str, *, id: str, name: str = "Ann", at: float | None = None) -> None:
        message = ChatMessage(id=id, room="demo", viewer=name, name=name, text=text, at=at or time.time())
        assert (await self.room.submit(message)).accepted

    async def asked(self, text: str, *, id: str = "m1", name: str = "Ann") -> Trajectory:
        """Submit, wait until the room is done, return the trajectory that the console then knows."""
        async with asyncio.timeout(30):
            return await self._asked(text, id, name)

    async def _asked(self, text: str, id: str, name: str) -> Trajectory:
        await self.say(text, id=id, name=name)
        await self.room.drain()
        watch = self.console.watches["demo"]
        async for _ in watch.changes(self.console.closing, idle_s=0.01, rest_s=0):
            for known in watch.trajectories.values():
                if known.request.messages[0].id == id:
                    return known
        raise AssertionError("the console went down")


@dataclass
class Served:
    desk: Desk
    address: str

    def client(self, *, signed_in: bool = True) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {TOKEN}"} if signed_in else {}
        return httpx.AsyncClient(base_url=self.address, headers=headers, timeout=20)


@asynccontextmanager
async def serving(desk: Desk) -> AsyncIterator[str]:
    """The desk's app on a free port; gives its address."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(desk.app, "127.0.0.1", 0, on_ready=ready.set_result))
    try:
        yield await ready
    finally:
        task.cancel()
        await asyncio.wait([task])


async def sse_events(response: httpx.Response) -> AsyncIterator[tuple[str, str, str]]:
    """(event, data, id) of a server-sent event stream."""
    event, data, event_id = "", list[str](), ""
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            event = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data.append(line.removeprefix("data: "))
        elif line.startswith("id: "):
            event_id = line.removeprefix("id: ")
        elif not line and event:
            yield event, "\n".join(data), event_id
            event, data = "", []


@asynccontextmanager
async def open_desk(
    folder: Path,
    *,
    settings: ConsoleSettings | None = None,
    voice: Voice | None = None,
    shop: Catalogue | None = None,
    config: RoomConfig | None = None,
    harness_changes: dict[str, str] | None = None,
    think: asyncio.Event | None = None,
    prepare: Prepare | None = None,
) -> AsyncIterator[Desk]:
    """A room ``demo`` whose answer is the line "Say: ..." of the first skill of the release it is given.

    Args:
        think: each answer waits until it is set.
        prepare: has a release's prompt read before it is published.
    """
    goods = shop or catalogue()
    with ReleaseStore(folder / "releases.db") as store:
        store.publish(
            "stable",
            load_harness(write_harness(folder / "harness", **(harness_changes or {}))).harness,
            note="first",
        )
        journal = Journal(folder / "room.db")
        with Router(store) as router:

            async def answer(request: Request) -> Trajectory:
                if think is not None:
                    await think.wait()
                picked = router.pick(request.room, request.messages[0].viewer)
                body = store.load(picked.release).skills[0].body
                said = next(line.removeprefix("Say: ") for line in body.splitlines() if line.startswith("Say: "))
                return trajectory(request, reply=said, release=picked.release, channel=picked.channel)

            room = Room(
                config=config or RoomConfig(room="demo", intake=IntakeConfig(merge_window_s=0)),
                answer=answer,
                journal=journal,
                speech=voice,
                catalogue=lambda: goods,
                clock=time.time,
                sleep=asyncio.sleep,
            )
            faults: list[Problem] = []
            app = create_app(
                ConsoleContext(
                    rooms={"demo": room},
                    store=store,
                    router=router,
                    catalogues={"demo": lambda: goods},
                    catalogue_problems={"demo": lambda: faults},
                    operations=shop_operations(),
                    journal=journal,
                    token=TOKEN,
                    version="0.1.0",
                    settings=settings or ConsoleSettings(),
                    prepare=prepare,
                )
            )
            await room.start()
            try:
                yield Desk(app, room, store, router, journal, voice or Voice(), faults)
            finally:
                await room.stop()
                await journal.aclose()
