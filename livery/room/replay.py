"""A recorded chat through the room again: the same intake, the same agent, figures at the end.

Two kinds of time. At a finite ``speed`` the recording drives a real `Room`, faster or slower than life: the
model's seconds count against ages and deadlines as they do live. At ``"max"`` only chat time counts: the
clock jumps from one event to the next; merge windows, rates, ages and deletions hold in chat time; the
agent's own seconds are measured apart and move nothing. A slow policy then answers the same requests as a
fast one, and a deterministic policy gives the same trajectories every time. ``busy_s`` brings the load back
in: each request then occupies the room for that much chat time, so that the queue, priorities, ages and the
deadline act as they would with an agent of that speed, still deterministically.

Writes ``trajectories.jsonl``, ``fates.jsonl`` (one message a line), ``duplicates.jsonl`` (one line for each
message whose id had come before) and ``summary.json``. `feed` only plays events into a room that already
runs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, TextIO

from livery.errors import InputError
from livery.room.contract import Ack, RoomConfig, SpeechOutput
from livery.room.dialogue import Dialogue, outcome
from livery.room.intake import Batch, Intake, Settled
from livery.room.journal import Journal, Retention
from livery.room.runtime import Room, quantile
from livery.room.trajectories import TrajectoryWriter, read_trajectories
from livery.shop.catalogue import Catalogue
from livery.types import ChatDeletion, ChatEvent, ChatMessage, Fate, Request, Route, Trajectory, Usage

_log = logging.getLogger(__name__)

Answer = Callable[[Request], Awaitable[Trajectory]]


@dataclass(frozen=True, slots=True)
class Progress:
    events: int
    """Events played so far."""
    total: int
    requests: int
    """Requests begun so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The figures of ``summary.json``."""

    messages: int
    """Distinct ids; the sum of ``fates``."""
    duplicates: int
    """Messages whose id had come before: not taken in again, whatever their text, as in a live room, and
    listed in ``duplicates.jsonl``. ``messages + duplicates + deletions`` is all that the recording holds."""
    deletions: int
    """Moderation events."""
    requests: int
    fates: dict[str, int]
    routes: dict[str, int]
    failures: int
    """Requests whose agent raised."""
    latency_s: dict[str, float]
    """Real seconds of the agent for one request: ``p50``, ``p95``, ``max``."""
    tokens: dict[str, int]
    """Sums of ``prompt``, ``cached`` and ``output``."""
    harness_release: str
    """Several, where it changed meanwhile, are joined by commas."""
    policy: str
    speed: str
    chat_s: float
    """From the first event to the last, in chat time."""
    wall_s: float
    recording: dict[str, Any]
    """What was read: ``file``, ``format``, ``rows``, ``bad_rows``, ``skipped`` (by kind) and ``events``."""


@dataclass(slots=True)
class _Figures:
    """Counts that grow with each trajectory."""

    routes: Counter[str]
    usage: Usage
    releases: dict[str, None]
    policies: dict[str, None]

    def add(self, trajectory: Trajectory) -> None:
        self.routes[trajectory.route.value] += 1
        self.usage += trajectory.usage
        self.releases[trajectory.harness_release] = None
        self.policies[trajectory.policy] = None


class _Timed:
    """An agent whose real seconds are written down, answered or not."""

    def __init__(self, answer: Answer, timer: Callable[[], float]) -> None:
        self._answer = answer
        self._timer = timer
        self.seconds: list[float] = []

    async def __call__(self, request: Request) -> Trajectory:
        began = self._timer()
        try:
            return await self._answer(request)
        finally:
            self.seconds.append(self._timer() - began)


async def replay(
    events: Iterable[ChatEvent],
    *,
    answer: Answer,
    config: RoomConfig,
    out: str | Path,
    speed: float | Literal["max"] = "max",
    busy_s: float = 0.0,
    start_at: float | None = None,
    longest_gap_s: float = math.inf,
    catalogue: Callable[[], Catalogue] | None = None,
    speech: SpeechOutput | None = None,
    harness_release: str = "",
    policy: str = "",
    recording: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], None] | None = None,
    timer: Callable[[], float] = time.perf_counter,
) -> Summary:
    """Plays a recording to its end and until nothing waits.

    Args:
        events: in order; their ``room`` is replaced by the configuration's.
        out: folder for the four files; those of an earlier replay are overwritten.
        speed: times real time, or "max" (chat time only).
        busy_s: at "max", chat seconds that each request occupies the room.
        start_at: Unix time of the first event; None: as recorded. Promotions go by it.
        longest_gap_s: a longer silence in the recording is cut to this.
        speech: only at a finite speed.
        harness_release, policy: for the summary; empty: as the trajectories say.
        recording: for the summary, what is known of where the events come from.
        timer: real seconds, for ``latency_s`` and ``wall_s``.

    Raises:
        InputError: ``out`` cannot be a folder.
    """
    folder = _folder(out)
    played = _placed(events, config.room, start_at, longest_gap_s)
    _write_duplicates(folder / "duplicates.jsonl", played)
    timed = _Timed(answer, timer)
    figures = _Figures(Counter(), Usage(), {}, {})
    began = timer()
    if speed == "max":
        run = _ChatTime(config, timed, folder, busy_s, catalogue, figures, progress)
        counts = await run.play(played)
    else:
        counts = await _at_speed(played, config, timed, folder, float(speed), catalogue, speech, figures, progress)
    seconds = sorted(timed.seconds)
    summary = Summary(
        **counts,
        deletions=sum(isinstance(e, ChatDeletion) for e in played),
        routes={route.value: figures.routes[route.value] for route in Route},
        latency_s={
            "p50": round(quantile(seconds, 0.5), 6),
            "p95": round(quantile(seconds, 0.95), 6),
            "max": round(seconds[-1], 6) if seconds else 0.0,
        },
        tokens={
            "prompt": figures.usage.prompt,
            "cached": figures.usage.cached,
            "output": figures.usage.output,
        },
        harness_release=harness_release or ",".join(figures.releases),
        policy=policy or ",".join(figures.policies),
        speed=str(speed),
        chat_s=round(max(e.at for e in played) - played[0].at, 3) if played else 0.0,
        wall_s=round(timer() - began, 3),
        recording={**(recording or {}), "events": len(played)},
    )
    (folder / "summary.json").write_text(json.dumps(asdict(summary), indent=2) + "\n", encoding="utf-8")
    return summary


async def feed(
    events: Iterable[ChatEvent],
    submit: Callable[[ChatEvent], Awaitable[Ack]],
    *,
    room: str,
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
    speed: float = 1.0,
    rounds: int | None = 1,
    gap_s: float = 5.0,
    longest_gap_s: float = math.inf,
) -> int:
    """Plays events into a running room at their own pace, stamped with the time they are played at.

    Message ids get a suffix of their own in each round and each call: the room's journal knows the ids of an
    earlier showing, and would take the same ones for duplicates.

    Args:
        rounds: how often; None: until cancelled.
        gap_s: pause between rounds.
        longest_gap_s: a longer silence in the recording is cut to this.

    Returns:
        How many events were played.
    """
    recorded = _placed(events, room, None, math.inf)
    showing = f"{int(clock() * 1000):x}"
    count = round_ = 0
    while recorded and (rounds is None or round_ < rounds):
        suffix = f"~{showing}.{round_}"
        latest = recorded[0].at
        for event in recorded:
            await sleep(min(max(0.0, event.at - latest), longest_gap_s) / speed)
            latest = max(latest, event.at)
            if isinstance(event, ChatMessage):
                await submit(replace(event, id=event.id + suffix, at=clock()))
            else:
                await submit(replace(event, message=event.message + suffix if event.message else "", at=clock()))
            count += 1
        round_ += 1
        await sleep(gap_s)
    return count


def played_s(events: Iterable[ChatEvent], longest_gap_s: float = math.inf) -> float:
    """Chat seconds from the first event to the last when they are played."""
    played = _placed(events, "", None, longest_gap_s)
    return max(e.at for e in played) - played[0].at if played else 0.0


def _folder(out: str | Path) -> Path:
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot be made: {error.strerror}; expected a folder for the results"
        raise InputError.at(folder, message, code="out-folder") from error
    return folder


def _write_duplicates(path: Path, events: Iterable[ChatEvent]) -> None:
    first: dict[str, ChatMessage] = {}
    with path.open("w", encoding="utf-8") as file:
        for event in (e for e in events if isinstance(e, ChatMessage)):
            known = first.setdefault(event.id, event)
            if known is not event:
                same = (known.viewer, known.text) == (event.viewer, event.text)
                line = {"message": event.id, "viewer": event.name, "text": event.text, "same": same}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _placed(events: Iterable[ChatEvent], room: str, start_at: float | None, longest_gap_s: float) -> list[ChatEvent]:
    played: list[ChatEvent] = []
    shift = 0.0
    latest: float | None = None
    for event in events:
        if latest is None:
            shift = 0.0 if start_at is None else start_at - event.at
        else:
            shift -= max(0.0, event.at + shift - latest - longest_gap_s)
        placed = replace(event, room=room, at=event.at + shift)
        latest = placed.at if latest is None else max(latest, placed.at)
        played.append(placed)
    return played


# ------------------------------------------------------------------------------------- chat time


class _ChatTime:
    """The virtual run: one request at a time, and a clock that only events and waits move."""

    def __init__(
        self,
        config: RoomConfig,
        answer: Answer,
        folder: Path,
        busy_s: float,
        catalogue: Callable[[], Catalogue] | None,
        figures: _Figures,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._config = config
        self._answer = answer
        self._folder = folder
        self._busy_s = busy_s
        self._catalogue = catalogue
        self._figures = figures
        self._progress = progress
        self._now = -math.inf
        self._failures = 0
        self._played = 0
        self._total = 0
        self._dialogue = Dialogue(
            room=config.room,
            language=config.language,
            timezone=config.timezone,
            streamer=config.streamer,
            on_screen=config.on_screen,
            notes=config.notes,
            turns=config.dialogue_turns,
        )
        self._busy: tuple[Batch, Request, float] | None = None
        """The request in progress, and when it ends."""

    async def play(self, events: Sequence[ChatEvent]) -> dict[str, Any]:
        self._total = len(events)
        config = self._config
        # Every id of the recording is remembered: there is no journal behind this run.
        kept = max(config.intake.remembered_ids, len(events) + 1)
        self._intake = intake = Intake(
            config.intake.model_copy(update={"remembered_ids": kept}),
            hosts=(config.streamer,),
            own_accounts=config.own_accounts,
            request_id=lambda n: f"{config.room}-{n}",
        )
        if self._catalogue is not None:
            products = self._catalogue().products
            intake.set_products((n, p.link_id) for p in products for n in (p.name, *p.aliases))
        with (
            TrajectoryWriter(self._folder / "trajectories.jsonl") as self._writer,
            (self._folder / "fates.jsonl").open("w", encoding="utf-8") as self._fates,
        ):
            for event in events:
                await self._run_until(event.at)
                self._now = now = max(self._now, event.at)
                if isinstance(event, ChatMessage):
                    self._settle(intake.offer(event, now))
                else:
                    self._delete(event, now)
                self._played += 1
                self._tell()
            await self._run_until(math.inf)
        return {
            "messages": intake.received,
            "duplicates": intake.duplicates,
            "requests": intake.requests,
            "fates": {fate.value: n for fate, n in intake.counts.items()},
            "failures": self._failures,
        }

    async def _run_until(self, until: float) -> None:
        """Does everything that is due by ``until``, in the order of chat time."""
        while True:
            due = self._intake.next_at(taking=self._busy is None)
            if self._busy is not None and (due is None or self._busy[2] <= due):
                due = self._busy[2]
                if due > until:
                    return
                await self._complete(due)
                continue
            if due is None or due > until:
                return
            if due == -math.inf:  # a group that is full is ready now, whenever that is
                due = self._now
            self._now = max(self._now, due)
            self._settle(self._intake.tick(self._now))
            batch = self._intake.take(self._now) if self._busy is None else None
            if batch is not None:
                request = self._dialogue.request(batch, self._now)
                self._busy = (batch, request, self._now + self._busy_s)

    async def _complete(self, now: float) -> None:
        assert self._busy is not None
        batch, request, _ = self._busy
        self._now = max(self._now, now)
        if self._now > batch.arrived_at + self._config.reply_deadline_s:
            self._busy = None
            self._settle(self._intake.finish(request.id, Fate.EXPIRED, "no reply before the deadline"))
            return
        try:
            trajectory = await self._answer(request)
        except Exception as error:
            _log.exception("request %s failed", request.id)
            self._failures += 1
            reason = f"failed: {type(error).__name__}: {error}"[:300]
            self._settle(self._intake.finish(request.id, Fate.DROPPED, reason))
        else:
            self._writer.write(trajectory)
            self._figures.add(trajectory)
            fate, reason = outcome(trajectory)
            if fate is Fate.ANSWERED:
                self._dialogue.remember(
                    viewer=request.messages[0].name,
                    text=request.text,
                    reply=trajectory.reply,
                    messages=request.messages,
                )
                for effect in trajectory.effects:
                    if effect.kind == "show_item":
                        self._dialogue.on_screen = effect.link_id
            self._settle(self._intake.finish(request.id, fate, reason))
        self._busy = None
        self._tell()

    def _delete(self, deletion: ChatDeletion, now: float) -> None:
        deleted = self._intake.delete(deletion, now)
        self._dialogue.forget(deletion)
        self._settle(deleted.settled)
        for request_id in deleted.shrunk:
            self._settle(self._intake.put_back(request_id, now))
        if deleted.shrunk or deleted.cancelled:
            self._busy = None

    def _settle(self, settled: Iterable[Settled]) -> None:
        for one in settled:
            _write_fate(self._fates, one.message, one.fate.value, one.reason)

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(Progress(self._played, self._total, self._intake.requests))


def _write_fate(file: TextIO, message: str, fate: str, reason: str) -> None:
    file.write(json.dumps({"message": message, "fate": fate, "reason": reason}, ensure_ascii=False) + "\n")


# ------------------------------------------------------------------------------------- real time


async def _at_speed(
    events: Sequence[ChatEvent],
    config: RoomConfig,
    answer: Answer,
    folder: Path,
    speed: float,
    catalogue: Callable[[], Catalogue] | None,
    speech: SpeechOutput | None,
    figures: _Figures,
    progress: Callable[[Progress], None] | None,
) -> dict[str, Any]:
    """A real room on a clock that runs ``speed`` times as fast as ours."""
    first = events[0].at if events else 0.0
    began = time.monotonic()

    def clock() -> float:
        return first + (time.monotonic() - began) * speed

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds / speed)

    file = folder / "journal.sqlite"
    for old in (file, file.with_name(file.name + "-wal"), file.with_name(file.name + "-shm")):
        old.unlink(missing_ok=True)
    everything = Retention(messages=10**9, requests=10**9, trajectories=10**9, happenings=10**9, max_age_s=1e12)
    journal = Journal(file, retention=everything, clock=clock)
    room = Room(
        config=config,
        answer=answer,
        journal=journal,
        speech=speech,
        catalogue=catalogue,
        clock=clock,
        sleep=sleep,
    )
    await room.start()
    try:
        for played, event in enumerate(events, start=1):
            await sleep(max(0.0, event.at - clock()))
            await room.submit(event)
            if progress is not None:
                progress(Progress(played, len(events), room.stats().requests))
        await room.drain()
        await journal.export(folder / "trajectories.jsonl", room=config.room)
        with (folder / "fates.jsonl").open("w", encoding="utf-8") as fates:
            for message, fate, reason in await journal.fates(config.room):
                _write_fate(fates, message, fate.value, reason)
    finally:
        await room.stop()
        await journal.aclose()
    for trajectory in read_trajectories(folder / "trajectories.jsonl"):
        figures.add(trajectory)
    stats = room.stats()
    return {
        "messages": stats.messages,
        "duplicates": stats.duplicates,
        "requests": stats.requests,
        "fates": {fate.value: n for fate, n in stats.fates.items()},
        "failures": stats.failures,
    }
