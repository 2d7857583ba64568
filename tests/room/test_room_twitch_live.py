"""The live Twitch source against a real IRC server on loopback that misbehaves on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from random import Random

import pytest

from livery.errors import InputError
from livery.room.sources import TwitchChat
from livery.types import ChatDeletion, ChatEvent, ChatMessage

Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(*scripts: Script) -> AsyncIterator[int]:
    """Plays one script a connection; after the last, connections are held open and silent."""
    left = list(scripts)
    open_writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_writers.append(writer)
        if left:
            await left.pop(0)(reader, writer)
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        for writer in open_writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        await listening.wait_closed()


def chat(port: int, **settings: object) -> tuple[TwitchChat, list[float]]:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    source = TwitchChat(
        channel="#Shop",
        room="r",
        clock=lambda: 7.0,
        rng=Random(1),
        host="127.0.0.1",
        port=port,
        tls=False,
        sleep=sleep,
        **settings,  # pyright: ignore[reportArgumentType]
    )
    return source, pauses


async def take(source: TwitchChat, count: int) -> list[ChatEvent]:
    events: list[ChatEvent] = []
    async with asyncio.timeout(10), aclosing(source.events()) as stream:
        async for event in stream:
            events.append(event)
            if len(events) == count:
                break
    return events


async def greet(reader: asyncio.StreamReader) -> list[str]:
    return [(await reader.readline()).decode().strip() for _ in range(3)]


def privmsg(id: str, text: str) -> bytes:
    tags = f"id={id};user-id=9;display-name=Ann;tmi-sent-ts=1700000000500"
    return f"@{tags} :a!a@a PRIVMSG #shop :{text}\r\n".encode()


async def test_it_logs_in_anonymously_joins_and_yields_chat() -> None:
    heard: list[str] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(await greet(reader))
        writer.write(b":tmi.twitch.tv 001 justinfan :Welcome\r\n\r\n")
        writer.write(privmsg("m1", "how much is number 3?"))
        writer.write(b"@target-msg-id=m1;tmi-sent-ts=1700000001000 :tmi.twitch.tv CLEARMSG #shop :x\r\n")
        await writer.drain()

    async with server(script) as port:
        source, _ = chat(port)
        message, deletion = await take(source, 2)
    assert heard[0] == "CAP REQ :twitch.tv/tags twitch.tv/commands"
    assert heard[1].startswith("NICK justinfan")
    assert heard[2] == "JOIN #shop"
    assert isinstance(message, ChatMessage)
    assert (message.id, message.viewer, message.text) == ("m1", "9", "how much is number 3?")
    assert (message.room, message.at, message.source) == ("r", 1_700_000_000.5, "twitch")
    assert deletion == ChatDeletion(room="r", at=1_700_000_001.0, message="m1")
    assert source.counts.skipped == {"001": 1}


async def test_ping_is_answered_with_its_own_text() -> None:
    answers: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader)
        writer.write(b"PING :tmi.twitch.tv\r\n")
        answers.append(await reader.readline())
        writer.write(privmsg("m1", "hi"))
        await writer.drain()

    async with server(script) as port:
        source, _ = chat(port)
        assert len(await take(source, 1)) == 1
    assert answers == [b"PONG :tmi.twitch.tv\r\n"]


async def test_lines_in_pieces_are_joined_and_half_a_line_at_the_end_is_dropped() -> None:
    async def first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader)
        whole = privmsg("m1", "几号链接")
        cut = whole.index("几".encode()) + 1  # in the middle of a character
        writer.write(whole[:cut])
        await writer.drain()
        await asyncio.sleep(0)
        writer.write(whole[cut:] + b"@id=m2;user-id=9 :a!a@a PRIVMSG #sh")
        await writer.drain()

    async def second(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader)
        writer.write(privmsg("m3", "again"))
        await writer.drain()

    async with server(first, second) as port:
        source, pauses = chat(port)
        events = await take(source, 2)
    assert [e.text for e in events if isinstance(e, ChatMessage)] == ["几号链接", "again"]
    assert source.counts.connections == 2
    assert source.counts.malformed == 1
    assert len(pauses) == 1 and 0.5 <= pauses[0] <= 1.0


async def test_reconnect_is_obeyed() -> None:
    async def first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader)
        writer.write(privmsg("m1", "one") + b":tmi.twitch.tv RECONNECT\r\n" + privmsg("mX", "too late"))
        await writer.drain()

    async def second(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader)
        writer.write(privmsg("m2", "two"))
        await writer.drain()

    async with server(first, second) as port:
        source, _ = chat(port)
        events = await take(source, 2)
    assert [e.text for e in events if isinstance(e, ChatMessage)] == ["one", "two"]
    assert source.counts.last_error == "the server asked to reconnect"


async def test_a_silent_connection_is_replaced() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader)
        await reader.read()  # until the client gives up

    async def second(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader)
        writer.write(privmsg("m2", "two"))
        await writer.drain()

    # A slow machine may be silent again: the same script is there for every further try.
    async with server(silent, *[second] * 50) as port:
        source, _ = chat(port, silence_s=0.02)
        events = await take(source, 1)
    assert [e.text for e in events if isinstance(e, ChatMessage)] == ["two"]
    assert source.counts.last_error.startswith("nothing heard")


async def test_malformed_lines_are_counted_and_survived() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader)
        writer.write(b"@only-tags\r\n\xff\xfe\r\n:a!a@a PRIVMSG #shop\r\n" + privmsg("m1", "fine"))
        await writer.drain()

    async with server(script) as port:
        source, _ = chat(port)
        (event,) = await take(source, 1)
    assert isinstance(event, ChatMessage) and event.text == "fine"
    assert source.counts.malformed == 3


async def test_refused_connections_are_retried_with_growing_pauses() -> None:
    async with server() as port:
        pass  # the port is free again, and nobody listens
    source, pauses = chat(port)
    enough = asyncio.Event()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 6:
            enough.set()
        await asyncio.sleep(0)

    source.sleep = sleep
    task = asyncio.create_task(take(source, 1))
    async with asyncio.timeout(10):
        await enough.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    bounds = [1, 2, 4, 8, 16, 32]
    assert all(bound / 2 <= pause <= bound for pause, bound in zip(pauses, bounds, strict=False))
    assert source.counts.connections == 0


def test_pauses_are_bounded_and_jittered() -> None:
    source, _ = chat(1)
    late = [source.pause_s(50) for _ in range(20)]
    assert all(30 <= pause <= 60 for pause in late)
    assert len(set(late)) == 20


@pytest.mark.parametrize("channel", ["", "#", "two words", "a\r\nQUIT", "канал"])
def test_a_channel_name_cannot_carry_another_command(channel: str) -> None:
    with pytest.raises(InputError, match="letters, digits and underscores"):
        TwitchChat(channel=channel, room="r", clock=lambda: 0.0)
