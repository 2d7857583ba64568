"""What a room is given and what it tells about itself: settings, a voice, acknowledgements, counts.

Values only; `livery.room.runtime` gives them life and exports them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from livery.room.intake import IntakeConfig
from livery.types import Fate, Route


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """Synthesised speech."""

    audio: bytes
    """A whole WAV file."""
    duration_s: float


class SpeechOutput(Protocol):
    """A voice. `livery.room.speech` has the implementations."""

    async def speak(self, text: str, language: str) -> Spoken:
        """Synthesise ``text`` (BCP 47 ``language``). The stage plays it, which takes ``duration_s``."""
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
    on_screen: str = ""
    """Link id of the item on screen when the room opens."""
    own_accounts: tuple[str, ...] = ()
    """Viewer ids or names whose messages are the host's own echo."""
    notes: dict[str, str] = {}
    """Operator's facts for this show; trusted."""
    intake: IntakeConfig = IntakeConfig()
    arriving_messages: int = Field(default=4096, ge=1)
    """Messages that may be on their way to the disk at once; past it `Room.submit` refuses."""
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


class Stage(StrEnum):
    """Where a request in progress is."""

    THINKING = "thinking"
    PENDING = "pending"
    """Its reply waits for the operator."""
    WAITING = "waiting"
    """Its reply waits for its turn to be spoken."""
    SPEAKING = "speaking"


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
    stages: Mapping[Stage, int]
    """Requests now in each stage."""
    entered: Mapping[Stage, int]
    """Requests that entered each stage so far."""
    latency_p50_s: float
    """From the lead's arrival to the start of its reply, over the latest 1,000; 0 while there is none."""
    latency_p95_s: float
    paused: bool
    approval: bool
    failures: int
    """Requests whose agent raised."""
