"""A live Twitch channel as a source of chat events: IRC over TLS, read only, without an account.

Joins one channel with Twitch's anonymous login and yields the same events as `twitch_irc` reads from a
log. The connection is kept for as long as the source is iterated: PING is answered, RECONNECT obeyed, and
a lost or silent connection is made anew after a jittered, growing pause. Chat missed in between is missed:
IRC has no history. Nothing is ever sent to the channel. https://dev.twitch.tv/docs/chat/irc/
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from random import Random

from livery.errors import InputError
from livery.room.sources.irc import IrcLine, IrcSyntaxError, parse_line
from livery.room.sources.reading import RowFault
from livery.room.sources.twitch_irc import chat_event, sent_at
from livery.types import ChatEvent

HOST = "irc.chat.twitch.tv"
TLS_PORT = 6697

_CHAT = {"PRIVMSG", "USERNOTICE", "CLEARCHAT", "CLEARMSG"}
_LINE_LIMIT = 1 << 16
"""Bytes. Twitch's lines with tags stay well under 8 KiB."""


@dataclass(slots=True)
class TwitchCounts:
    """What a connection has seen so far."""

    connections: int = 0
    events: int = 0
    skipped: Counter[str] = field(default_factory=Counter[str])
    """Lines that are not chat, by command."""
    malformed: int = 0
    """Lines that could not be read; each is counted, none stops the source."""
    last_error: str = ""
    """Why the latest connection ended; empty while none has."""


class _Reconnect(Exception):
    """The server asked for it, or was silent for too long."""


@dataclass(slots=True, kw_only=True)
class TwitchChat:
    """``async for event in TwitchChat(...).events()``; cancel the task, or leave the loop, to disconnect."""

    channel: str
    """With or without ``#``; letters, digits and underscores."""
    room: str
    clock: Callable[[], float]
    """Unix epoch now, for the rare line that Twitch does not stamp."""
    rng: Random = field(default_factory=Random)
    """For the anonymous name and the jitter of pauses."""
    host: str = HOST
    port: int = TLS_PORT
    tls: bool = True
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0
    silence_s: float = 330.0
    """Twitch pings about every five minutes; longer silence is a dead connection."""
    connect_s: float = 15.0
    counts: TwitchCounts = field(default_factory=TwitchCounts)

    def __post_init__(self) -> None:
        name = self.channel.removeprefix("#").lower()
        if not name or not name.replace("_", "").isalnum() or not name.isascii():
            raise InputError.at("twitch channel", f"found {self.channel!r}, expected letters, digits and underscores")
        self.channel = name

    async def events(self) -> AsyncGenerator[ChatEvent, None]:
        """Chat events as they come, over as many connections as it takes. Never ends by itself."""
        failures = 0
        while True:
            before = self.counts.events
            try:
                async with aclosing(self._connection()) as connection:
                    async for event in connection:
                        yield event
                self.counts.last_error = "the server closed the connection"
            except (OSError, _Reconnect, TimeoutError) as error:
                self.counts.last_error = str(error) or type(error).__name__
            # A connection that worked is retried soon; repeated failures wait longer each time.
            failures = 1 if self.counts.events > before else failures + 1
            await self.sleep(self.pause_s(failures))

    def pause_s(self, failures: int) -> float:
        """Seconds before the next try: full jitter over a bound that doubles up to ``longest_pause_s``."""
        bound = min(self.longest_pause_s, self.first_pause_s * 2 ** min(failures - 1, 30))
        return bound * (0.5 + 0.5 * self.rng.random())

    async def _connection(self) -> AsyncGenerator[ChatEvent, None]:
        context = ssl.create_default_context() if self.tls else None
        async with asyncio.timeout(self.connect_s):
            reader, writer = await asyncio.open_connection(self.host, self.port, ssl=context, limit=_LINE_LIMIT)
        self.counts.connections += 1
        try:
            nick = f"justinfan{self.rng.randrange(10_000, 100_000)}"
            await _send(writer, "CAP REQ :twitch.tv/tags twitch.tv/commands", f"NICK {nick}")
            await _send(writer, f"JOIN #{self.channel}")
            while True:
                raw = await self._line(reader)
                if raw is None:
                    return
                try:
                    line = parse_line(raw.decode("utf-8", errors="replace"))
                except IrcSyntaxError:
                    self.counts.malformed += 1
                    continue
                if line.command == "PING":
                    await _send(writer, f"PONG :{line.params[-1] if line.params else ''}")
                elif line.command == "RECONNECT":
                    raise _Reconnect("the server asked to reconnect")
                event = self._event(line)
                if event is not None:
                    self.counts.events += 1
                    yield event
        finally:
            writer.close()

    async def _line(self, reader: asyncio.StreamReader) -> bytes | None:
        """The next whole, non-empty line; None at the end of the stream, where half a line is dropped."""
        while True:
            try:
                async with asyncio.timeout(self.silence_s):
                    raw = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                self.counts.malformed += bool(end.partial.strip())
                return None
            except asyncio.LimitOverrunError:
                raise _Reconnect("a line without an end") from None
            except TimeoutError:
                raise _Reconnect(f"nothing heard for {self.silence_s:.0f} s") from None
            if body := raw.rstrip(b"\r\n"):
                return body

    def _event(self, line: IrcLine) -> ChatEvent | None:
        if line.command not in _CHAT:
            self.counts.skipped[line.command] += 1
            return None
        at = sent_at(line.tags)
        position = self.counts.events + self.counts.malformed
        try:
            return chat_event(line, room=self.room, at=self.clock() if at is None else at, index=position)
        except RowFault:
            self.counts.malformed += 1
            return None


async def _send(writer: asyncio.StreamWriter, *lines: str) -> None:
    writer.write("".join(f"{line}\r\n" for line in lines).encode())
    await writer.drain()
