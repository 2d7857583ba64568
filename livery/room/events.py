"""What a room tells whoever watches it (stage, operator console, tests), in the order it happened."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from livery.types import ChatDeletion, ChatMessage, Fate, Trajectory


class EventKind(StrEnum):
    MESSAGE = "message"
    """A chat message was accepted."""
    FATE = "fate"
    """A message got its final fate."""
    DELETION = "deletion"
    """A moderator removed messages, answered ones too: take them off the screen (``deletion``)."""
    THINKING = "thinking"
    """The agent began a request."""
    TRAJECTORY = "trajectory"
    """A request ended; the whole trajectory is here (and in the journal)."""
    PENDING = "pending"
    """A reply waits for the operator's approval."""
    SPEAKING = "speaking"
    """A reply began to be spoken or shown: text, and audio where there is a voice."""
    SPOKEN = "spoken"
    """It ended, or was cut off."""
    ITEM = "item"
    """Another item card is on screen."""
    HAND_OFF = "hand_off"
    """A request needs a person: ``text`` is why."""
    STATE = "state"
    """Paused, resumed, approval mode, release or channel changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomEvent:
    kind: EventKind
    room: str
    seq: int
    """Grows by one in each room; a gap means a slow subscriber was skipped ahead."""
    at: float
    message: ChatMessage | None = None
    deletion: ChatDeletion | None = None
    fate: Fate | None = None
    fate_reason: str = ""
    request_id: str = ""
    trajectory: Trajectory | None = None
    text: str = ""
    """Reply or state text."""
    audio_id: str = ""
    """Key of the WAV under `Room.audio`; empty without a voice."""
    audio_s: float = 0.0
    synthesis_s: float = 0.0
    """Of a SPEAKING event: seconds until the voice had made its audio."""
    interrupted: bool = False
    link_id: str = ""
    messages: tuple[str, ...] = ()
    """Ids of the chat messages a request answers."""
