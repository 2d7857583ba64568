"""The running room: chat in, replies out, everything journaled, everyone watching told.

`Room` joins the intake (who is answered, and when), the agent (a callable that turns a `Request` into a
`Trajectory`), the journal (nothing acknowledged is lost) and a voice. It holds no prompt, no harness and no
web server: the agent brings the first two, the console the last.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from livery.room.broadcast import Broadcast, Subscription
from livery.room.contract import Ack, RoomConfig, RoomStats, SpeechOutput, Spoken, Stage
from livery.room.dialogue import Dialogue, outcome
from livery.room.events import EventKind, RoomEvent
from livery.room.intake import Batch, Intake, Settled
from livery.room.journal import Happening, Journal
from livery.shop.catalogue import Catalogue
from livery.types import ChatDeletion, ChatEvent, ChatMessage, Fate, Request, RoomState, Route, Trajectory

__all__ = ["Ack", "Room", "RoomConfig", "RoomStats", "SpeechOutput", "Spoken", "Stage", "Subscription"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_D = TypeVar("_D")


@dataclass(slots=True)
class _Active:
    """A request in progress."""

    batch: Batch
    request: Request
    stage: Stage = Stage.THINKING
    task: asyncio.Task[None] | None = None
    trajectory: Trajectory | None = None
    verdict: asyncio.Future[tuple[bool, str | None]] | None = None
    """The operator's, while pending: (approved, text or reason)."""
    cut: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to end its speech early."""
    cancelled: bool = False
    """Its messages were settled or put back by whoever cancelled it."""


class Room:
    """One live room. Use it from one event loop.

    Args:
        answer: the agent, one request to one trajectory. It may raise; its request is then dropped with the
            reason. Cancelling it must stop the model promptly.
        speech: a voice; None shows replies only.
        catalogue: the catalogue as it is now; product names in chat then count as references, and `show_item`
            refuses unknown links.
        clock: Unix seconds; arrival, age and deadlines go by it.
        sleep: waits that many seconds of the same clock.
    """

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
    ) -> None:
        self.config = config
        self._answer = answer
        self._journal = journal
        self._speech = speech
        self._catalogue = catalogue
        self._clock = clock
        self._sleep = sleep
        self._named: Catalogue | None = None
        self._run_number = 0
        self._intake = Intake(
            config.intake,
            hosts=(config.streamer,),
            own_accounts=config.own_accounts,
            # Unique across restarts, since the journal keeps requests by id.
            request_id=lambda n: f"{config.room}-{self._run_number}-{n}",
        )
        self._dialogue = Dialogue(
            room=config.room,
            language=config.language,
            timezone=config.timezone,
            streamer=config.streamer,
            on_screen=config.on_screen,
            notes=config.notes,
            turns=config.dialogue_turns,
        )
        self._events = Broadcast(recent=config.recent_events, per_subscriber=config.subscriber_events)
        self._active: dict[str, _Active] = {}
        self._arriving: dict[str, asyncio.Future[bool]] = {}
        self._audio: OrderedDict[str, bytes] = OrderedDict()
        self._latencies: deque[float] = deque(maxlen=1000)
        self._routes: Counter[Route] = Counter()
        self._entered: Counter[Stage] = Counter()
        self._duplicates = 0
        self._failures = 0
        self._approval = config.approval
        self._started = False
        self._claimed = False
        self._open = False
        self._loop: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._unpaused = asyncio.Event()
        self._unpaused.set()
        self._floor = asyncio.Lock()
        """Held by the reply that is spoken."""
        self._idle = asyncio.Event()

    # -------------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Takes back what the journal holds open, then begins to serve. A room is started once.

        Raises:
            RuntimeError: it was started before.
            StoreError: another process (or room) serves it from this journal.
        """
        if self._started:
            raise RuntimeError("a room starts once; make another one on the same journal")
        await asyncio.to_thread(self._journal.claim, self.config.room)
        self._started = self._claimed = True
        room, now = self.config.room, self._clock()
        self._run_number = await self._journal.last_request()
        for spoken in await self._journal.happenings(room, "spoken", self.config.dialogue_turns):
            self._dialogue.remember(viewer=spoken.viewer, text=spoken.text, reply=spoken.reply)
        for item in await self._journal.happenings(room, "item", 1):
            self._dialogue.on_screen = item.link_id
        self._learn_products()
        settled: list[Settled] = []
        for held in await self._journal.open_messages(room):
            self._emit(EventKind.MESSAGE, message=held.message)
            settled += self._intake.restore(held.message, held.arrived_at, now)
        self._settle(settled)
        await self._journal.flush()
        self._open = True
        self._loop = asyncio.create_task(self._run(), name=f"room-{room}")

    async def stop(self) -> None:
        """Ends work without settling what is open: the journal hands it to the next start."""
        self._open = False
        tasks = [t for t in (self._loop, *(a.task for a in self._active.values())) if t is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._loop = None
        self._active.clear()
        if self._speech is not None:
            await self._speech.cancel()
        await self._journal.flush()
        self._events.close()
        if self._claimed:
            self._claimed = False
            await asyncio.to_thread(self._journal.release, self.config.room)

    async def drain(self) -> None:
        """Returns once every accepted message has its fate and nothing is spoken."""
        while self._arriving or self._intake.queued or self._active:
            self._idle.clear()
            await self._idle.wait()
        await self._journal.flush()

    # -------------------------------------------------------------------------------------- chat

    async def submit(self, event: ChatEvent) -> Ack:
        """Takes one event in. When it returns, an accepted message is on disk.

        Raises:
            StoreError: it could not be written, and is not accepted.
        """
        if not self._open:
            return Ack(accepted=False, reason="the room is not running")
        if event.room != self.config.room:
            return Ack(accepted=False, reason=f"this is room {self.config.room!r}, not {event.room!r}")
        if isinstance(event, ChatDeletion):
            # Behind every message handed over before it, so that it finds them.
            await self._journal.flush()
            await self._delete(event)
            return Ack(accepted=True)
        unfit = _unfit(event)
        if unfit:
            return Ack(accepted=False, reason=unfit)

        known = self._arriving.get(event.id)
        if known is not None or self._intake.seen(event.id):
            if known is not None:
                await asyncio.shield(known)
            self._duplicates += 1
            return Ack(accepted=False, duplicate=True, reason="already accepted")
        if len(self._arriving) >= self.config.arriving_messages:
            return Ack(accepted=False, reason="too many messages at once: send it again later")
        now = self._clock()
        stored = self._journal.accept(event, now)
        self._arriving[event.id] = stored
        # A callback, so that a caller who gives up waiting does not leave a stored message unserved.
        stored.add_done_callback(partial(self._admit, event, now))
        new = await asyncio.shield(stored)
        return Ack(accepted=new, duplicate=not new, reason="" if new else "already accepted")

    def _admit(self, message: ChatMessage, arrived_at: float, stored: asyncio.Future[bool]) -> None:
        self._arriving.pop(message.id, None)
        if stored.cancelled() or stored.exception() is not None or not self._open:
            return
        if not stored.result():
            self._duplicates += 1
            return
        self._emit(EventKind.MESSAGE, message=message)
        self._settle(self._intake.offer(message, arrived_at))
        self._wake.set()

    async def _delete(self, deletion: ChatDeletion) -> None:
        deleted = self._intake.delete(deletion, self._clock())
        for request_id in deleted.cancelled:
            self._cancel(self._active[request_id], "deleted")
        self._dialogue.forget(deletion)
        self._emit(EventKind.DELETION, deletion=deletion)
        self._settle(deleted.settled)
        for request_id in deleted.shrunk:
            # The reply may quote what was removed: think again with what is left.
            self._settle(self._intake.put_back(request_id, self._clock()))
            self._cancel(self._active[request_id], "shrunk by a deletion")
        self._wake.set()
        await self._journal.flush()

    # ---------------------------------------------------------------------------------- the loop

    async def _run(self) -> None:
        while True:
            try:
                await self._step()
            except Exception:  # a catalogue that raises, say: the show goes on
                _log.exception("room %s stumbled", self.config.room)
                await self._sleep(1.0)

    async def _step(self) -> None:
        """Begins what can begin, then waits until something can change."""
        self._wake.clear()
        now = self._clock()
        self._settle(self._intake.tick(now))
        while self._may_begin():
            self._learn_products()
            batch = self._intake.take(now)
            if batch is None:
                break
            self._begin(batch, now)
        if not (self._arriving or self._intake.queued or self._active):
            self._idle.set()
        next_at = self._intake.next_at(taking=self._may_begin())
        if next_at is None:
            await self._wake.wait()
        else:
            await self._within(self._wake.wait(), max(0.0, next_at - now), default=None)

    def _may_begin(self) -> bool:
        stages = Counter(a.stage for a in self._active.values())
        unspoken = sum(stages.values()) - stages[Stage.SPEAKING]
        return (
            self._unpaused.is_set()
            and stages[Stage.THINKING] < self.config.concurrency
            and unspoken < self.config.concurrency + self.config.speech_backlog
        )

    def _begin(self, batch: Batch, now: float) -> None:
        active = _Active(batch, self._dialogue.request(batch, now))
        self._active[batch.request_id] = active
        self._entered[Stage.THINKING] += 1
        active.task = asyncio.create_task(self._serve(active), name=f"request-{batch.request_id}")

    def _learn_products(self) -> None:
        if self._catalogue is None:
            return
        catalogue = self._catalogue()
        if catalogue is not self._named:
            self._named = catalogue
            self._intake.set_products((n, p.link_id) for p in catalogue.products for n in (p.name, *p.aliases))

    # ------------------------------------------------------------------------------- one request

    async def _serve(self, active: _Active) -> None:
        try:
            await self._serve_stages(active)
        except asyncio.CancelledError:
            if not active.cancelled:
                raise
        except Exception as error:
            # Nothing that one request does may end the room, nor leave its messages without a fate.
            _log.exception("request %s failed", active.request.id)
            self._failures += 1
            if active.stage is not Stage.SPEAKING and not active.cancelled:
                self._finish(active, Fate.DROPPED, f"failed: {type(error).__name__}: {error}"[:300])
        finally:
            self._active.pop(active.request.id, None)
            self._wake.set()

    async def _serve_stages(self, active: _Active) -> None:
        request, batch = active.request, active.batch
        await self._journal.begin(request, [m.id for m in request.messages])
        self._emit(EventKind.THINKING, active)
        speak_by = batch.arrived_at + self.config.reply_deadline_s
        trajectory = await self._within(self._think(request), speak_by - self._clock(), default=None)
        if trajectory is None:
            self._finish(active, Fate.EXPIRED, "no reply before the deadline")
            return
        await self._journal.conclude(self.config.room, at=self._clock(), trajectory=trajectory)
        active.trajectory = trajectory
        self._routes[trajectory.route] += 1
        self._emit(EventKind.TRAJECTORY, active)
        fate, reason = outcome(trajectory)
        if fate is not Fate.ANSWERED:
            self._finish(active, fate, reason)
            self._announce_hand_off(active)
            return

        text = trajectory.reply
        if self._approval:
            verdict = await self._ask_operator(active)
            if verdict is None:
                self._finish(active, Fate.EXPIRED, "not approved in time")
                return
            approved, words = verdict
            if not approved:
                self._finish(active, Fate.DROPPED, f"rejected by the operator: {words or 'no reason given'}")
                return
            text = words or text
            speak_by = self._clock() + self.config.reply_deadline_s

        self._enter(active, Stage.WAITING)
        asked_at = self._clock()
        spoken = await self._within(self._synthesise(text), speak_by - asked_at, default=None)
        synthesis_s = max(0.0, self._clock() - asked_at) if spoken is not None else 0.0
        if not await self._take_floor(speak_by):
            self._finish(active, Fate.EXPIRED, "its reply came too late to be spoken")
            return
        try:
            await self._unpaused.wait()
            if self._clock() > speak_by:
                self._finish(active, Fate.EXPIRED, "its reply came too late to be spoken")
                return
            await self._say(active, text, spoken, reason, synthesis_s)
        finally:
            self._floor.release()

    async def _take_floor(self, by: float) -> bool:
        """Waits for the floor, at most until then: who waits behind a long reply is told in time that theirs will not
        come. True: it is this reply's, to be released."""
        taking = asyncio.ensure_future(self._floor.acquire())
        taken = False
        try:
            taken = await self._within(_result(asyncio.shield(taking)), by - self._clock(), default=False)
        finally:
            if not taken and taking.done() and not taking.cancelled():
                self._floor.release()  # it came at the same moment
            elif not taken:
                taking.cancel()
        return taken

    async def _think(self, request: Request) -> Trajectory:
        return await self._answer(request)

    async def _ask_operator(self, active: _Active) -> tuple[bool, str | None] | None:
        verdict: asyncio.Future[tuple[bool, str | None]] = asyncio.get_running_loop().create_future()
        active.verdict = verdict
        self._enter(active, Stage.PENDING)
        self._emit(EventKind.PENDING, active, text=active.trajectory.reply if active.trajectory else "")
        return await self._within(_result(verdict), self.config.approval_timeout_s, default=None)

    async def _synthesise(self, text: str) -> Spoken | None:
        if self._speech is None:
            return None
        try:
            return await self._speech.speak(text, self.config.language)
        except Exception:  # a broken voice must not silence the room: the reply is shown
            _log.exception("no voice for a reply; it is shown instead")
            return None

    async def _say(self, active: _Active, text: str, spoken: Spoken | None, reason: str, synthesis_s: float) -> None:
        now, request, lead = self._clock(), active.request, active.batch.messages[0]
        self._enter(active, Stage.SPEAKING)
        effects = active.trajectory.effects if active.trajectory else ()
        shown = [e.link_id for e in effects if e.kind == "show_item"]
        said = Happening(
            kind="spoken",
            at=now,
            viewer=lead.name,
            text=request.text,
            reply=text,
            request_id=request.id,
            synthesis_s=round(synthesis_s, 6),
        )
        items = [Happening(kind="item", at=now, link_id=link, request_id=request.id) for link in shown]
        settled = self._intake.finish(request.id, Fate.ANSWERED, reason)
        # On disk before a word is heard: after a restart nothing is answered twice.
        await self._journal.conclude(
            self.config.room,
            at=now,
            settled=settled,
            request_id=request.id,
            outcome="answered",
            happenings=[said, *items],
        )
        self._latencies.append(now - active.batch.arrived_at)
        self._dialogue.remember(viewer=lead.name, text=request.text, reply=text, messages=request.messages)
        self._tell_fates(settled, request.id)
        audio_id = request.id if spoken is not None else ""
        if spoken is not None:
            self._audio[audio_id] = spoken.audio
            while len(self._audio) > self.config.audio_clips:
                self._audio.popitem(last=False)
        pace = self.config.caption_chars_per_s
        length = spoken.duration_s if spoken is not None else len(text) / pace if pace else 0.0
        for link in shown:
            self._dialogue.on_screen = link
            self._emit(EventKind.ITEM, active, link_id=link)
        self._emit(EventKind.SPEAKING, active, text=text, audio_id=audio_id, audio_s=length, synthesis_s=synthesis_s)
        self._announce_hand_off(active)
        if length > 0:
            await self._within(active.cut.wait(), length, default=None)
        self._emit(EventKind.SPOKEN, active, text=text, audio_id=audio_id, interrupted=active.cut.is_set())

    def _announce_hand_off(self, active: _Active) -> None:
        effects = active.trajectory.effects if active.trajectory else ()
        for effect in effects:
            if effect.kind == "hand_off":
                self._emit(EventKind.HAND_OFF, active, text=effect.reason, link_id=effect.link_id)

    def _enter(self, active: _Active, stage: Stage) -> None:
        active.stage = stage
        self._entered[stage] += 1
        self._wake.set()

    def _finish(self, active: _Active, fate: Fate, reason: str) -> None:
        """Ends a request without a reply."""
        settled = self._intake.finish(active.request.id, fate, reason)
        self._settle(settled, request_id=active.request.id, outcome=fate.value)

    def _cancel(self, active: _Active, why: str) -> None:
        """Ends a request whose messages the caller has settled or put back."""
        active.cancelled = True
        self._settle((), request_id=active.request.id, outcome=why)
        if active.task is not None:
            active.task.cancel()

    async def _within(self, work: Coroutine[Any, Any, _T], seconds: float, *, default: _D) -> _T | _D:
        """The work's result, or ``default`` once ``seconds`` of the room's clock have passed."""
        task = asyncio.ensure_future(work)
        timer = asyncio.ensure_future(self._sleep(max(0.0, seconds)))
        try:
            await asyncio.wait((task, timer), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                return default
            if task.cancelled():
                raise RuntimeError("it cancelled itself")
            return task.result()
        finally:
            unfinished = [t for t in (task, timer) if not t.done()]
            for t in unfinished:
                t.cancel()
            if unfinished:
                # Real seconds: work that ignores its cancellation must not hold the room.
                await asyncio.wait(unfinished, timeout=2.0)

    # ------------------------------------------------------------------------------ the operator

    async def pause(self) -> None:
        """Begins no request and no speech; messages still come in, and age."""
        if self._unpaused.is_set():
            self._unpaused.clear()
            self._emit(EventKind.STATE, text="paused")

    async def resume(self) -> None:
        if not self._unpaused.is_set():
            self._unpaused.set()
            self._wake.set()
            self._emit(EventKind.STATE, text="resumed")

    async def set_approval(self, on: bool) -> None:
        """Whether later replies wait for the operator; those that wait now go on waiting."""
        if on != self._approval:
            self._approval = on
            self._emit(EventKind.STATE, text="approval on" if on else "approval off")

    async def approve(self, request_id: str, text: str | None = None) -> bool:
        """Lets a reply be spoken, in the operator's words where ``text`` is given.

        Returns:
            False: nothing by that id waits (any more).
        """
        return self._decide(request_id, (True, text))

    async def reject(self, request_id: str, reason: str) -> bool:
        """False: nothing by that id waits (any more)."""
        return self._decide(request_id, (False, reason))

    def _decide(self, request_id: str, verdict: tuple[bool, str | None]) -> bool:
        active = self._active.get(request_id)
        if active is None or active.verdict is None or active.verdict.done() or active.cancelled:
            return False
        active.verdict.set_result(verdict)
        return True

    async def show_item(self, link_id: str) -> bool:
        """Puts an item card on screen ("" takes it off).

        Returns:
            False: the catalogue has no such link.
        """
        if link_id and self._catalogue is not None and link_id not in self._catalogue().by_link:
            return False
        now = self._clock()
        self._dialogue.on_screen = link_id
        await self._journal.conclude(
            self.config.room, at=now, happenings=[Happening(kind="item", at=now, link_id=link_id)]
        )
        self._emit(EventKind.ITEM, link_id=link_id)
        return True

    async def interrupt(self) -> None:
        """Cuts off speech and model; requests not yet spoken are dropped."""
        for active in list(self._active.values()):
            if active.stage is Stage.SPEAKING:
                active.cut.set()
            elif not active.cancelled:
                self._settle(self._intake.finish(active.request.id, Fate.DROPPED, "interrupted by the operator"))
                self._cancel(active, "interrupted")
        if self._speech is not None:
            await self._speech.cancel()

    async def announce(self, text: str) -> None:
        """Tells watchers that the release or channel changed (a STATE event)."""
        self._emit(EventKind.STATE, text=text)

    # -------------------------------------------------------------------------------- who watches

    def subscribe(self, *, recent: int = 0) -> Subscription:
        """Events from now on; up to ``recent`` earlier ones come first."""
        return self._events.subscribe(recent=recent)

    def recent(self, n: int) -> tuple[RoomEvent, ...]:
        """The latest ``n`` events, oldest first."""
        return self._events.recent(n)

    def pending(self) -> tuple[Trajectory, ...]:
        """Replies that wait for approval, oldest first."""
        return tuple(
            a.trajectory for a in self._active.values() if a.stage is Stage.PENDING and a.trajectory is not None
        )

    def state(self) -> RoomState:
        return self._dialogue.state(self._clock())

    def audio(self, audio_id: str) -> bytes | None:
        """A WAV named by a SPEAKING event; None once it is too old."""
        return self._audio.get(audio_id)

    def stats(self) -> RoomStats:
        latencies = sorted(self._latencies)
        stages = Counter(a.stage for a in self._active.values())
        return RoomStats(
            messages=self._intake.received,
            duplicates=self._duplicates + self._intake.duplicates,
            fates=dict(self._intake.counts),
            routes={route: self._routes[route] for route in Route},
            requests=self._intake.requests,
            queued=self._intake.queued,
            in_progress=self._intake.in_progress,
            waiting_requests=self._intake.waiting_requests,
            stages={stage: stages[stage] for stage in Stage},
            entered={stage: self._entered[stage] for stage in Stage},
            latency_p50_s=quantile(latencies, 0.5),
            latency_p95_s=quantile(latencies, 0.95),
            paused=not self._unpaused.is_set(),
            approval=self._approval,
            failures=self._failures,
        )

    # ----------------------------------------------------------------------------------- the book

    def _settle(self, settled: Sequence[Settled], *, request_id: str = "", outcome: str = "") -> None:
        """Hands fates to the journal and tells watchers. Does not wait: what is not yet written is still open
        on disk, and a restart settles it."""
        if not settled and not outcome:
            return
        written = self._journal.conclude(
            self.config.room, at=self._clock(), settled=settled, request_id=request_id, outcome=outcome
        )
        written.add_done_callback(_report)
        self._tell_fates(settled, request_id)

    def _tell_fates(self, settled: Sequence[Settled], request_id: str) -> None:
        for one in settled:
            self._emit(
                EventKind.FATE,
                fate=one.fate,
                fate_reason=one.reason,
                messages=(one.message,),
                request_id=request_id,
            )

    def _emit(self, kind: EventKind, active: _Active | None = None, **fields: Any) -> None:
        if active is not None:
            fields.setdefault("request_id", active.request.id)
            fields.setdefault("messages", tuple(m.id for m in active.request.messages))
            fields.setdefault("trajectory", active.trajectory)
        self._events.publish(
            RoomEvent(kind=kind, room=self.config.room, seq=self._events.seq + 1, at=self._clock(), **fields)
        )


def quantile(ordered: Sequence[float], q: float) -> float:
    """Nearest-rank quantile of an ascending sequence; 0 of an empty one."""
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else 0.0


async def _result(future: asyncio.Future[_T]) -> _T:
    return await future


def _unfit(message: ChatMessage) -> str:
    """Why a message cannot be kept as it is: what is not text or no time would not be read back."""
    if not message.id:
        return "a message needs an id"
    if not math.isfinite(message.at):
        return f"found {message.at} as its time; expected Unix seconds"
    for name in ("id", "viewer", "name", "text", "amount", "reply_to", "source"):
        try:
            getattr(message, name).encode()
        except UnicodeEncodeError as error:
            found = ascii(error.object[error.start])
            return f"{name} holds {found}, half of a surrogate pair; expected Unicode text"
    return ""


def _report(written: asyncio.Future[bool]) -> None:
    """The journal has logged what went wrong; the messages stay open there."""
    if not written.cancelled():
        written.exception()
