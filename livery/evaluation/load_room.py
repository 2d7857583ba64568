"""A real room to be loaded: intake, journal, agent and voice as they are, a chat out of the simulator, and a note of
every wait.

The room's clock starts at its world's show, so that what the shop says is of that evening. Nothing of a request is kept
here but numbers; what becomes of them is the caller's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from livery.agent.loop import Agent
from livery.agent.service import AgentService, Fixed
from livery.errors import LiveryError
from livery.evaluation.latency import MIX
from livery.harness.model import Harness
from livery.policies.policy import Policy
from livery.room.contract import RoomConfig, SpeechOutput
from livery.room.events import EventKind, RoomEvent
from livery.room.journal import Journal
from livery.room.runtime import Room
from livery.simulator.rollout import OPERATIONS
from livery.simulator.tasks import make_task
from livery.simulator.worlds import World
from livery.types import ChatMessage, Fate, Route

POOL: Final = 200
"""Requests of the simulator out of which a chat is made; after the last comes the first, from other viewers."""
ROOM: Final = "bench"
_FRESH_S: Final = 600.0
"""Into the show at the start."""


@dataclass(slots=True)
class Wait:
    """One message's way. Times are the room's; 0: it did not get there."""

    message: str
    said_at: float
    begun_at: float = 0.0
    """When its request began."""
    settled_at: float = 0.0
    fate: Fate | None = None
    reason: str = ""
    request: str = ""

    @property
    def seconds(self) -> float:
        """From the message to its fate; a reply begins with its fate."""
        return self.settled_at - self.said_at


@dataclass(frozen=True, slots=True)
class Answer:
    """One request's end."""

    route: Route
    reason: str
    total_s: float
    """Of the agent."""


@dataclass(slots=True)
class LoadedRoom:
    """A room that runs, and what is heard of it."""

    room: Room
    journal: Journal
    speech: SpeechOutput | None
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    chat: Sequence[ChatMessage]
    on_wait: Callable[[Wait], None]
    on_answer: Callable[[Answer], None]
    on_speech: Callable[[float], None]
    said: int = 0
    refused: int = 0
    open: dict[str, Wait] = field(default_factory=dict[str, Wait])
    """Messages without a fate."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _saying: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    async def say(self) -> None:
        """The chat's next message. Returns when it is on disk, or refused."""
        number, at = self.said, self.clock()
        self.said += 1
        line = self.chat[number % len(self.chat)]
        showing = number // len(self.chat)
        viewer = f"{line.viewer}.{showing}" if showing else line.viewer
        message = replace(line, id=f"b{number}", room=ROOM, viewer=viewer, name=viewer, at=at)
        self.open[message.id] = Wait(message.id, at)
        ack = await self.room.submit(message)
        if not ack.accepted:
            self.refused += 1
            self.open.pop(message.id, None)

    async def say_at(self, offsets: Iterable[float], progress: Callable[[int], None] = lambda said: None) -> None:
        """Messages at these seconds from now, in order, whether or not earlier ones are answered."""
        began = self.clock()
        for count, offset in enumerate(offsets, 1):
            await self.sleep(max(0.0, began + offset - self.clock()))
            task = asyncio.create_task(self.say())
            self._saying.add(task)
            task.add_done_callback(self._saying.discard)
            progress(count)
        while self._saying:
            await asyncio.gather(*self._saying)

    async def settle(self, within_s: float) -> None:
        """Returns once every message has its fate, or after so many seconds."""
        end = self.clock() + within_s
        while self.open and self.clock() < end:
            await self.sleep(0.1)

    def note(self, event: RoomEvent) -> None:
        if event.kind is EventKind.THINKING:
            for message in event.messages:
                if message in self.open:
                    self.open[message].begun_at = event.at
        elif event.kind is EventKind.TRAJECTORY and event.trajectory is not None:
            ended = event.trajectory
            self.on_answer(Answer(ended.route, ended.route_reason, ended.total_s))
        elif event.kind is EventKind.SPEAKING and event.audio_id:
            self.on_speech(event.synthesis_s)
        elif event.kind is EventKind.FATE:
            for message in event.messages:
                wait = self.open.pop(message, None)
                if wait is not None:
                    wait.settled_at, wait.fate, wait.reason = event.at, event.fate, event.fate_reason
                    wait.request = event.request_id
                    self.on_wait(wait)
        self.changed.set()


def chat_of(world: World, n: int = POOL) -> list[ChatMessage]:
    """The messages of the world's first ``n`` requests. Viewers are told apart by request: nobody asks so often that
    the room's limit for one viewer stops them."""
    tasks = (make_task(world, i, MIX) for i in range(n))
    return [replace(m, viewer=f"{m.viewer}-{i}") for i, task in enumerate(tasks) for m in task.request.messages]


def show_clock(world: World, monotonic: Callable[[], float] = time.monotonic) -> Callable[[], float]:
    """A clock that stands now at the beginning of the world's show and goes on in real time."""
    start = world.opens_at.timestamp() + _FRESH_S - monotonic()
    return lambda: start + monotonic()


def config_of(world: World, harness: Harness) -> RoomConfig:
    """A room's settings as `livery live` has them, for the world."""
    return RoomConfig(
        room=ROOM,
        language=harness.language,
        timezone=world.catalogue.timezone,
        streamer=world.streamer,
        on_screen=world.catalogue.products[0].link_id,
        notes=dict(world.notes),
        subscriber_events=1_000_000,
    )


@asynccontextmanager
async def loaded_room(
    world: World,
    harness: Harness,
    policy: Policy,
    *,
    config: RoomConfig,
    journal: Journal,
    clock: Callable[[], float],
    speech: SpeechOutput | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    monotonic: Callable[[], float] = time.perf_counter,
    chat: Sequence[ChatMessage] = (),
    on_wait: Callable[[Wait], None] = lambda wait: None,
    on_answer: Callable[[Answer], None] = lambda answer: None,
    on_speech: Callable[[float], None] = lambda seconds: None,
) -> AsyncGenerator[LoadedRoom]:
    """A room that runs while the context lasts; its prompt's prefix is warm.

    Args:
        config: its ``subscriber_events`` must hold what happens while the event loop is busy.
        journal: is left open.
        clock: the room's, the agent's and the journal's.
        chat: what is said; left out: `chat_of` the world.
        on_wait: told of every message that got its fate.
        on_answer: told of every request that ended.
        on_speech: told for every reply with a voice how many seconds its audio took to make.
    """
    catalogue = world.catalogue
    agent = Agent(policy=policy, operations=OPERATIONS, catalogue=lambda: catalogue, clock=clock, monotonic=monotonic)
    fixed = Fixed(harness)
    async with AgentService(agent, pick=fixed.pick, load=fixed.load) as service:
        await service.warm(fixed.release, ROOM)
        room = Room(
            config=config,
            answer=service.answer,
            journal=journal,
            speech=speech,
            catalogue=lambda: catalogue,
            clock=clock,
            sleep=sleep,
        )
        loaded = LoadedRoom(
            room, journal, speech, clock, sleep, list(chat) or chat_of(world), on_wait, on_answer, on_speech
        )
        await room.start()
        with room.subscribe() as events:

            async def listen() -> None:
                async for event in events:
                    loaded.note(event)

            listening = asyncio.create_task(listen())
            try:
                yield loaded
            finally:
                await room.stop()
                events.close()
                await listening


@dataclass(frozen=True, slots=True)
class Sustained:
    """What a room answers for good."""

    requests_per_s: float
    messages_per_request: float
    """Chatter that makes no request, and merged messages, included."""

    @property
    def messages_per_s(self) -> float:
        return self.requests_per_s * self.messages_per_request


def calibration(config: RoomConfig) -> RoomConfig:
    """The room's settings without the limits that protect it: what is left is how fast it works."""
    free = {"merge_window_s": 0.0, "room_rate": 1e6, "room_burst": 1e6, "viewer_rate": 1e6, "viewer_burst": 1e6}
    intake = config.intake.model_copy(update={**free, "max_age_s": 3600.0})
    return config.model_copy(update={"intake": intake, "reply_deadline_s": 3600.0})


_SETTLING: Final = 3
"""Requests before the first that counts: until replies wait for the voice as they do under load."""
_SAY_NO_MORE: Final = 60
"""Messages a request, after which a chat is taken for one that asks nothing."""


async def calibrate(loaded: LoadedRoom, n: int, progress: Callable[[int], None] = lambda done: None) -> Sustained:
    """How many requests a second the room ends when there is always one waiting.

    Args:
        loaded: a room with the settings of `calibration`.
        n: requests that count.

    Raises:
        LiveryError: the intake makes no requests of the chat.
    """
    ends: list[float] = []
    saids: list[int] = []
    seen: set[str] = set()
    before = loaded.on_wait

    def ended(wait: Wait) -> None:
        before(wait)
        if wait.request and wait.request not in seen:
            seen.add(wait.request)
            ends.append(wait.settled_at)
            saids.append(loaded.said - len(loaded.open))
            progress(min(n, max(0, len(ends) - _SETTLING)))

    loaded.on_wait = ended
    wanted = loaded.room.config.concurrency + 1
    while len(ends) < n + _SETTLING:
        loaded.changed.clear()
        if loaded.room.stats().waiting_requests < wanted:
            if loaded.said > _SAY_NO_MORE * (len(ends) + wanted + 1):
                raise LiveryError(f"of {loaded.said} messages the room made {len(ends)} requests; nothing to measure")
            await loaded.say()
        else:
            await loaded.changed.wait()
    loaded.on_wait = before
    first, last = ends[_SETTLING - 1], ends[n + _SETTLING - 1]
    messages = saids[n + _SETTLING - 1] - saids[_SETTLING - 1]
    # A policy that takes no time ends many in one tick of the clock.
    return Sustained(n / max(last - first, 1e-3), max(1.0, messages / n))
