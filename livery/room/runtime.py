"""The running room: chat in, replies out, everything journaled, everyone watching told.

`Room` joins the intake (who is answered, and when), the agent (a callable that turns a `Request` into a
`Trajectory`), the journal (nothing acknowledged is lost) and a voice. It holds no prompt, no harness and no
web server: the agent brings the first two, the console the last.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self

from pydantic import BaseModel, ConfigDict, Field

from livery.room.events import RoomEvent
from livery.room.intake import IntakeConfig
from livery.room.journal import Journal
from livery.shop.catalogue import Catalogue
from livery.types import ChatEvent, Fate, Request, RoomState, Route, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """Synthesised speech."""

    audio: bytes
    """A whole WAV file."""
    duration_s: float


class SpeechOutput(Protocol):
    """A voice. `livery.room.speech` has the implementations."""

    async def speak(self, text: str, language: str) -> Spoken:
        """Synthesise ``text`` (BCP 47 ``language``); playing it is the stage's work, and takes ``duration_s``."""
        ...

    async def cancel(self) -> None:
        """Stop what is being synthesised. `speak` may raise or return; its result is thrown away."""
        ...


class RoomConfig(BaseModel):
    """One room's settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    room: str
    language: str = "en"
    """BCP 47 tag of what the host speaks."""
    timezone: str = "UTC"
    streamer: str = ""
    """The host's shown name."""
    own_accounts: tuple[str, ...] = ()
    """Viewer ids or names whose messages are the host's own echo."""
    notes: dict[str, str] = {}
    """Operator's facts for this show; trusted."""
    intake: IntakeConfig = IntakeConfig()
    concurrency: int = Field(default=1, ge=1)
    """Requests that think at the same time."""
    speech_backlog: int = Field(default=2, ge=0)
    """Finished replies that may wait to be spoken (or approved) before no further request is begun."""
    reply_deadline_s: float = Field(default=30.0, gt=0)
    """From the lead message's arrival to the start of its reply; a later reply is stale."""
    approval: bool = False
    """Replies wait for the operator."""
    approval_timeout_s: float = Field(default=60.0, gt=0)
    """How long a reply may wait for the operator; stands in for ``reply_deadline_s`` meanwhile."""
    dialogue_turns: int = Field(default=6, ge=0)
    recent_events: int = Field(default=512, ge=1)
    """Kept for late joiners."""
    subscriber_events: int = Field(default=256, ge=1)
    """Waiting events of one subscriber; past this the oldest are skipped."""
    audio_clips: int = Field(default=16, ge=1)
    """Latest clips kept for `Room.audio`."""
    caption_chars_per_s: float = Field(default=0.0, ge=0)
    """Without a voice a reply is shown for this pace's time; 0: it ends at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """Answer to one submitted event. When ``accepted``, it is on disk."""

    accepted: bool
    duplicate: bool = False
    """The room had this message already: on disk, and it has or will have its one fate."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomStats:
    """Counts since the room started, restored messages included."""

    messages: int
    """Accepted. Always ``sum(fates.values()) + queued + in_progress``."""
    duplicates: int
    fates: Mapping[Fate, int]
    routes: Mapping[Route, int]
    requests: int
    queued: int
    """Messages waiting in the intake."""
    in_progress: int
    """Messages of requests that think, wait for approval or wait to be spoken."""
    waiting_requests: int
    """Merged requests that wait."""
    stages: Mapping[str, int]
    """Requests now in each stage: thinking, pending, waiting, speaking."""
    latency_p50_s: float
    """From the lead's arrival to the start of its reply, over the latest 1,000; 0 while there is none."""
    latency_p95_s: float
    paused: bool
    approval: bool
    failures: int
    """Requests whose agent raised."""
    stages_seen: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many requests entered each stage so far."""


class Subscription(AsyncIterator[RoomEvent]):
    """One watcher's events. Use as an async iterator, inside ``with`` or with `close`."""

    async def __anext__(self) -> RoomEvent: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Room:
    def __init__(
        self,
        *,
        config: RoomConfig,
        answer: Callable[[Request], Awaitable[Trajectory]],
        journal: Journal,
        speech: SpeechOutput | None = None,
        catalogue: Callable[[], Catalogue] | None = None,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None:
        """Stops work without settling what waits: the journal hands it to the next start."""

    async def drain(self) -> None:
        """Returns once nothing waits, thinks or speaks."""

    async def submit(self, event: ChatEvent) -> Ack: ...

    def subscribe(self, *, recent: int = 0) -> Subscription:
        """From now on; ``recent`` earlier events come first."""
        ...

    def recent(self, n: int) -> tuple[RoomEvent, ...]: ...

    async def pause(self) -> None: ...

    async def resume(self) -> None: ...

    async def set_approval(self, on: bool) -> None: ...

    async def approve(self, request_id: str, text: str | None = None) -> bool:
        """False: nothing by that id waits (any more)."""
        ...

    async def reject(self, request_id: str, reason: str) -> bool: ...

    async def show_item(self, link_id: str) -> bool:
        """Puts an item card on screen ("" removes it); False: no such link in the catalogue."""
        ...

    async def interrupt(self) -> None: ...

    async def announce(self, text: str) -> None:
        """Tells watchers that the release or channel changed (a STATE event)."""

    def pending(self) -> tuple[Trajectory, ...]:
        """Replies that wait for approval, oldest first."""
        ...

    def state(self) -> RoomState: ...

    def stats(self) -> RoomStats: ...

    def audio(self, audio_id: str) -> bytes | None: ...
