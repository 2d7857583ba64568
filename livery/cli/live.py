"""``livery live``: one room on this machine, with its console, until Ctrl-C."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from livery import __version__
from livery.agent.live_harness import LiveHarness
from livery.agent.loop import Agent
from livery.agent.service import AgentService
from livery.agent.telemetry import otlp_spans
from livery.cli.defaults import HARNESS, STORE, need_samples, sample_chat
from livery.cli.harnesses import load_checked
from livery.cli.stores import item_on_screen
from livery.console.app import create_app
from livery.console.context import ConsoleContext, ConsoleSettings
from livery.console.serve import serve
from livery.errors import InputError
from livery.harness.channels import Router
from livery.harness.digest import harness_digest
from livery.harness.model import Harness
from livery.harness.store import ReleaseStore
from livery.harness.watch import watch_folder
from livery.policies.open import open_policy
from livery.room.contract import RoomConfig
from livery.room.journal import Journal
from livery.room.replay import feed
from livery.room.runtime import Room
from livery.room.sources.detect import read_chat
from livery.room.sources.twitch import TwitchChat
from livery.room.speech.output import SpeechQueue, open_speech
from livery.shop.loading import CatalogueSource
from livery.shop.registry import shop_operations

_notices = Console(stderr=True, highlight=False)


def live(
    harness: Annotated[Path, typer.Option(help="Harness folder.")] = HARNESS,
    store: Annotated[Path, typer.Option(help="Catalogue folder or file.")] = STORE,
    policy: Annotated[
        str, typer.Option(help="Policy URI: llamacpp:, openai:URL?model=NAME, scripted:NAME.")
    ] = "llamacpp:",
    chat: Annotated[
        str, typer.Option(help="Chat to replay in real time: a file, `sample`, `twitch:CHANNEL` or `none`.")
    ] = "sample",
    loop: Annotated[bool, typer.Option(help="Start the chat file again when it ends.")] = True,
    speech: Annotated[str, typer.Option(help="Voice: espeak:, http://HOST/v1/audio/speech?..., none:.")] = "espeak:",
    room: Annotated[str, typer.Option(help="Room id.")] = "main",
    streamer: Annotated[str, typer.Option(help="The host's shown name; its own messages are ignored.")] = "livery",
    on_screen: Annotated[str, typer.Option(help="Link id shown first; empty: the catalogue's first.")] = "",
    host: Annotated[
        str, typer.Option(help="Address the console listens on; 0.0.0.0: every one of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the console.")] = 8700,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Name the console may be called by, besides localhost and IP addresses; repeatable."),
    ] = None,
    data: Annotated[Path, typer.Option(help="Where releases and the journal are kept.")] = Path("var"),
    token: Annotated[
        str, typer.Option(envvar="LIVERY_TOKEN", help="Operator token, 16 characters or more; made anew when empty.")
    ] = "",
    approval: Annotated[bool, typer.Option(help="Replies wait for the operator.")] = False,
    publish: Annotated[
        bool, typer.Option(help="Publish the folder even where the store holds another release.")
    ] = False,
    dev: Annotated[bool, typer.Option(help="Watch the harness folder and publish each valid change.")] = False,
    public_chat: Annotated[bool, typer.Option(help="Accept chat by the API without a token.")] = False,
    caption_speed: Annotated[
        float | None,
        typer.Option(min=0, help="Without a voice: characters a second a reply stays for; 0: it ends at once."),
    ] = None,
    lora: Annotated[list[Path] | None, typer.Option(help="GGUF adapter for the embedded model; repeatable.")] = None,
    otel: Annotated[
        bool, typer.Option(help="Send OpenTelemetry spans by OTLP; needs the otel extra, OTEL_* variables apply.")
    ] = False,
) -> None:
    """Run a live room: chat in, spoken replies out, the console at http://HOST:PORT."""
    if token and len(token) < 16:
        raise InputError.at("--token", f"found {len(token)} characters; expected 16 or more", code="token-short")
    need_samples(harness, store)
    asyncio.run(
        _serve_room(
            harness_folder=harness,
            source=CatalogueSource(store),
            policy_uri=policy,
            chat=chat,
            loop=loop,
            speech_uri=speech,
            room_id=room,
            streamer=streamer,
            on_screen=on_screen,
            host=host,
            port=port,
            allow_hosts=frozenset(allow_host or ()),
            data=data,
            token=token or secrets.token_urlsafe(18),
            approval=approval,
            publish=publish,
            dev=dev,
            public_chat=public_chat,
            caption_speed=caption_speed,
            loras=tuple(lora or ()),
            otel=otel,
        )
    )


CHANNEL = "stable"
READING_CHARS_PER_S = {"zh": 6.0, "en": 17.0}
"""How quickly a caption is read; without a voice a reply stays for so long."""
LONGEST_GAP_S = 60.0
"""A longer silence in a replayed chat is cut to this."""


async def _serve_room(
    *,
    harness_folder: Path,
    source: CatalogueSource,
    policy_uri: str,
    chat: str,
    loop: bool,
    speech_uri: str,
    room_id: str,
    streamer: str,
    on_screen: str,
    host: str,
    port: int,
    allow_hosts: frozenset[str],
    data: Path,
    token: str,
    approval: bool,
    publish: bool,
    dev: bool,
    public_chat: bool,
    caption_speed: float | None,
    loras: tuple[Path, ...],
    otel: bool,
) -> None:
    catalogue = source.current()
    shown = item_on_screen(catalogue, on_screen)
    operations = shop_operations()
    async with AsyncExitStack() as stack:
        releases = stack.enter_context(ReleaseStore(data / "releases.db"))
        router = stack.enter_context(Router(releases, default=CHANNEL))
        harness = _published(releases, harness_folder, publish=publish)
        chat_feed = _open_chat(chat, room_id, harness.language, loop=loop)
        spans = stack.enter_context(otlp_spans("livery")) if otel else None
        policy = await asyncio.to_thread(open_policy, policy_uri, loras=loras, language=harness.language)
        stack.push_async_callback(policy.aclose)
        agent = Agent(policy=policy, operations=operations, catalogue=source.current)
        service = await stack.enter_async_context(
            AgentService(agent, pick=router.pick, load=releases.load, on_trajectory=spans)
        )
        journal = Journal(data / "journal.db")
        stack.push_async_callback(journal.aclose)
        speech = _voice(speech_uri)
        if speech is not None:
            stack.push_async_callback(speech.aclose)
            await speech.warm_up(harness.language)
        room = Room(
            config=RoomConfig(
                room=room_id,
                language=harness.language,
                timezone=catalogue.timezone,
                streamer=streamer,
                on_screen=shown,
                own_accounts=(streamer,),
                approval=approval,
                caption_chars_per_s=0.0 if speech else _reading_speed(harness.language, caption_speed),
            ),
            answer=service.answer,
            journal=journal,
            speech=speech,
            catalogue=source.current,
            clock=time.time,
            sleep=asyncio.sleep,
        )
        app = create_app(
            ConsoleContext(
                rooms={room_id: room},
                store=releases,
                router=router,
                catalogues={room_id: source.current},
                catalogue_problems={room_id: lambda: source.problems},
                operations=operations,
                journal=journal,
                token=token,
                version=__version__,
                settings=ConsoleSettings(public_chat=public_chat, drafts=data / "drafts", allowed_hosts=allow_hosts),
                prepare=service.prepare,
            )
        )
        with _notices.status("Reading the prompt into the model's cache ..."):
            await service.warm(router.pick(room_id).release, room_id)
        await room.start()
        stack.push_async_callback(room.stop)
        stop = asyncio.Event()
        tasks = [asyncio.create_task(_feed_chat(room, chat_feed))] if chat_feed else []
        if dev:
            tasks.append(
                asyncio.create_task(
                    watch_folder(
                        harness_folder,
                        releases,
                        CHANNEL,
                        on_event=_told,
                        stop_event=stop,
                        operations={name: o.parameters for name, o in operations.items()},
                        check=lambda changed: LiveHarness(changed, "", operations),
                        prepare=lambda new, old: service.prepare(new, instead_of=old, sessions=(room_id,)),
                    )
                )
            )
        stack.push_async_callback(_end, tasks, stop)
        title = f"[bold]livery {__version__}[/]  {harness.name} on {CHANNEL}, {policy.uri}, {catalogue.store}"

        def ready(address: str) -> None:
            _notices.print(title, soft_wrap=True)
            _notices.print(f"  console   {app.state.console.access.sign_in_link(address)}", soft_wrap=True)
            _notices.print(f"  stage     {address}/stage/{room_id}", soft_wrap=True)
            _notices.print(f"  token     {token}")
            _notices.print(f"  Ctrl-C ends it; releases and the journal stay in {data}")

        await serve(app, host, port, on_ready=ready)


def _reading_speed(language: str, asked: float | None) -> float:
    return READING_CHARS_PER_S.get(language[:2], READING_CHARS_PER_S["en"]) if asked is None else asked


def _voice(uri: str) -> SpeechQueue | None:
    """The voice; None for ``none:``, where the stage shows a reply for as long as it takes to read."""
    return None if uri.startswith("none:") else open_speech(uri, on_trouble=_told)


def _published(store: ReleaseStore, folder: Path, *, publish: bool) -> Harness:
    """What the channel runs: the folder where nothing is published yet or it is asked for, else what it has.

    Edits made in the console live in the store, so a folder never replaces them unasked.

    Raises:
        InputError: the folder has errors.
    """
    harness = load_checked(folder)
    channels = {c.name: c for c in store.channels()}
    digest = harness_digest(harness)
    if CHANNEL not in channels or publish:
        store.publish(CHANNEL, harness, note=f"from {folder}", actor="livery live")
        return harness
    if channels[CHANNEL].release != digest:
        _notices.print(
            f"[yellow]{CHANNEL} runs {channels[CHANNEL].release[:19]}, which is not what {folder} holds; "
            "--publish publishes the folder"
        )
    return store.load(channels[CHANNEL].release)


Feed = Callable[[Room], Awaitable[object]]


def _open_chat(chat: str, room_id: str, language: str, *, loop: bool) -> Feed | None:
    """What feeds the chat that was asked for into the room: a recording at the speed it was written, stamped
    with the present time, or a live channel.

    Raises:
        InputError: there is no such chat. It is found before anything starts.
    """
    if chat == "none":
        return None
    if chat.startswith("twitch:"):
        source = TwitchChat(channel=chat.removeprefix("twitch:"), room=room_id, clock=time.time)

        async def follow(room: Room) -> None:
            async for event in source.events():
                await room.submit(event)

        return follow
    log = read_chat(sample_chat(language) if chat == "sample" else Path(chat), room_id)
    for problem in log.problems[:10]:
        _notices.print(str(problem), style="yellow", markup=False)
    return lambda room: feed(
        log.events,
        room.submit,
        room=room_id,
        clock=time.time,
        sleep=asyncio.sleep,
        rounds=None if loop else 1,
        longest_gap_s=LONGEST_GAP_S,
    )


async def _feed_chat(room: Room, chat: Feed) -> None:
    """The show goes on without its chat, but not without a word."""
    try:
        await chat(room)
    except Exception as error:
        _notices.print(f"the chat ended: {type(error).__name__}: {error}", style="red", markup=False)


def _told(event: object) -> None:
    _notices.print(str(event), markup=False)


async def _end(tasks: list[asyncio.Task[None]], stop: asyncio.Event) -> None:
    stop.set()
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            _notices.print(f"chat or watch ended: {result}", style="red", markup=False)
