"""What a room keeps between requests, and what a trajectory means for its messages.

`Dialogue` holds the latest exchanges and the item on screen, and makes of a batch the `Request` that the
agent gets. It neither speaks nor stores; both the live room and the replay use it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from livery.room.intake import Batch, deletes
from livery.types import ChatDeletion, ChatMessage, DialogueTurn, Fate, Request, RoomState, Route, Trajectory


class Dialogue:
    def __init__(
        self,
        *,
        room: str,
        language: str,
        timezone: str = "UTC",
        streamer: str = "",
        on_screen: str = "",
        notes: Mapping[str, str] | None = None,
        turns: int = 6,
    ) -> None:
        self._room = room
        self._language = language
        self._timezone = timezone
        self._streamer = streamer
        self._notes = dict(notes or {})
        self._turns: deque[tuple[DialogueTurn, tuple[ChatMessage, ...]]] = deque(maxlen=turns)
        self.on_screen = on_screen
        """Link id; empty when no item is on screen."""

    def state(self, now: float) -> RoomState:
        return RoomState(
            room=self._room,
            language=self._language,
            now=now,
            timezone=self._timezone,
            streamer=self._streamer,
            on_screen=self.on_screen,
            dialogue=tuple(turn for turn, _ in self._turns),
            notes=self._notes,
        )

    def request(self, batch: Batch, now: float) -> Request:
        return Request(id=batch.request_id, messages=batch.messages, state=self.state(now), created_at=now)

    def remember(self, *, viewer: str, text: str, reply: str, messages: tuple[ChatMessage, ...] = ()) -> None:
        self._turns.append((DialogueTurn(viewer=viewer, text=text, reply=reply), messages))

    def forget(self, deletion: ChatDeletion) -> None:
        """Drops exchanges about what a moderator removed, so that no later prompt repeats it."""
        kept = [t for t in self._turns if not any(deletes(deletion, m) for m in t[1])]
        self._turns = deque(kept, maxlen=self._turns.maxlen)


def outcome(trajectory: Trajectory) -> tuple[Fate, str]:
    """The lead message's fate once the reply (if there is one) is spoken, and why.

    A reply of any route is an answer. Without a reply nothing was answered, whatever the route.
    """
    reason = f"{trajectory.route.value}: {trajectory.route_reason}"
    if trajectory.route is Route.SILENT or not trajectory.reply.strip():
        return Fate.DROPPED, reason
    return Fate.ANSWERED, reason
