"""The intake: a pure state machine between a chat and the agent.

Messages go in, merged batches come out, and every message ends with exactly one final fate. It does no I/O
and has no clock: time comes in with each call, in seconds, and only its differences matter. A wall clock
that is set back is taken as standing still for that moment, and then goes on. Given the same calls it does
the same things, which is what makes replay and the property tests possible. It is not durable;
`livery.room.journal` is, and `Intake.restore` takes back what the journal still holds open.

A message's way::

    offer --> duplicate id (no second fate)
          --> settled at once (own echo, gift, not for the host, rate limit, deleted before it came)
          --> waiting: in a group, merged with others of the same question or topic
                 --> settled (expired, evicted, deleted)
                 --> take --> in progress, under a request id
                        --> finish: answered (lead) and merged (the others), or one fate for all
                        --> put_back: waiting again

Always: ``received == sum(counts) + queued + in_progress``.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from rapidfuzz import fuzz, process

from livery.room.questions import Priority, Reading, normalise, read_message
from livery.types import ChatDeletion, ChatMessage, Fate, MessageKind

_V = TypeVar("_V")


class IntakeConfig(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    merge_window_s: float = Field(default=1.5, ge=0)
    """A group may be taken this long after its first message ..."""
    merge_messages: int = Field(default=8, ge=1)
    """... or as soon as it holds this many; also the most messages of one request."""
    echoes: int = Field(default=64, ge=0)
    """Near duplicates that follow a group to its fate; later ones are settled as merged at once."""
    near_duplicate: float = Field(default=0.9, ge=0, le=1)
    """Least similarity (normalised Levenshtein, 0-1) of near duplicates. Numbers and sizes must be equal."""
    max_age_s: float = Field(default=20.0, gt=0)
    """Longest wait from arrival until a request begins."""
    queue_requests: int = Field(default=32, ge=1)
    """Groups that may wait; past it the one of lowest priority, among those the oldest, is evicted."""
    viewer_rate: float = Field(default=0.5, ge=0)
    """Unpaid messages for the host per second and viewer, refilling ..."""
    viewer_burst: float = Field(default=5.0, ge=1)
    """... up to this many."""
    room_rate: float = Field(default=5.0, ge=0)
    """New groups of unpaid messages per second in the whole room, refilling ..."""
    room_burst: float = Field(default=40.0, ge=1)
    """... up to this many."""
    answer: Literal["questions", "addressed", "all"] = "addressed"
    """Who is answered: questions and paid messages; greetings and who names the host as well; or all."""
    thanks: bool = False
    """Gifts and memberships make a (merged) request, for a short thanks, instead of being dropped."""
    max_chars: int = Field(default=1000, ge=1)
    """A longer message is dropped."""
    remembered_ids: int = Field(default=20_000, ge=1)
    """Message ids kept for dedupe; the journal knows older ones."""
    remembered_viewers: int = Field(default=4_096, ge=1)
    """Viewers whose rate is kept."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A message's one final fate."""

    message: str
    fate: Fate
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One request's worth of messages, taken to be answered."""

    request_id: str
    messages: tuple[ChatMessage, ...]
    """Oldest first; the first is the lead."""
    arrived_at: float
    """When the lead arrived."""
    priority: Priority


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    settled: tuple[Settled, ...] = ()
    cancelled: tuple[str, ...] = ()
    """Requests in progress that have no message left. They are finished."""
    shrunk: tuple[str, ...] = ()
    """Requests in progress that lost a message they were built from, and have others: to be put back, so that
    nothing deleted is read out."""


@dataclass(slots=True)
class TokenBucket:
    rate: float
    burst: float
    tokens: float
    at: float

    def take(self, now: float) -> bool:
        self.tokens = min(self.burst, self.tokens + (now - self.at) * self.rate)
        self.at = now
        if self.tokens < 1.0:
            return False
        self.tokens -= 1.0
        return True


@dataclass(slots=True)
class _Held:
    message: ChatMessage
    reading: Reading
    arrived_at: float


@dataclass(slots=True)
class _Group:
    number: int
    opened_at: float
    oldest: float
    """Earliest arrival it holds."""
    members: list[_Held] = field(default_factory=list["_Held"])
    echoes: list[_Held] = field(default_factory=list["_Held"])
    request_id: str = ""
    """Set while in progress."""

    @property
    def lead(self) -> _Held:
        return self.members[0]

    @property
    def priority(self) -> Priority:
        return min(h.reading.priority for h in self.members)

    def __len__(self) -> int:
        return len(self.members) + len(self.echoes)

    def held(self) -> list[_Held]:
        return [*self.members, *self.echoes]


class Intake:
    def __init__(
        self,
        config: IntakeConfig | None = None,
        *,
        hosts: Collection[str] = (),
        own_accounts: Collection[str] = (),
        request_id: Callable[[int], str] = "r{}".format,
    ) -> None:
        """
        Args:
            hosts: names viewers call the host by.
            own_accounts: viewer ids or names of the host's own accounts.
            request_id: name of the n-th request taken, from 1.
        """
        self.config = config or IntakeConfig()
        self._hosts = frozenset(h.casefold() for h in hosts if h)
        self._own = frozenset(a.casefold() for a in own_accounts if a)
        self._request_id = request_id
        self._products: dict[str, str] = {}
        self._now = -math.inf
        """Its own time, which never runs backwards ..."""
        self._ahead = 0.0
        """... and is this far ahead of the caller's clock: the sum of what that was set back."""
        self._groups = 0
        self._requests = 0
        self._waiting: dict[int, _Group] = {}
        self._running: dict[str, _Group] = {}
        self._where: dict[str, _Group] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._tombstones: OrderedDict[str, None] = OrderedDict()
        self._viewers: OrderedDict[str, TokenBucket] = OrderedDict()
        self._room: TokenBucket | None = None
        self.received = 0
        self.duplicates = 0
        self.counts: dict[Fate, int] = dict.fromkeys(Fate, 0)

    # ------------------------------------------------------------------------------- what it holds

    @property
    def queued(self) -> int:
        """Messages that wait."""
        return sum(map(len, self._waiting.values()))

    @property
    def in_progress(self) -> int:
        """Messages of requests taken and not finished."""
        return sum(map(len, self._running.values()))

    @property
    def waiting_requests(self) -> int:
        return len(self._waiting)

    @property
    def requests(self) -> int:
        """Requests taken so far."""
        return self._requests

    def set_products(self, names: Iterable[tuple[str, str]]) -> None:
        """(product name, link id): names that count as a link reference."""
        pairs = ((normalise(name), link) for name, link in names)
        self._products = {name: link for name, link in pairs if len(name) > 1}

    def seen(self, message_id: str) -> bool:
        return message_id in self._seen

    def next_at(self, *, taking: bool = True) -> float | None:
        """When `tick` (or `take`, unless ``taking`` is false) can next do something; None: never.

        It holds until the next other call.
        """
        times = [self._ready_at(g) for g in self._waiting.values()] if taking else []
        times += [g.oldest + self.config.max_age_s for g in self._waiting.values()]
        return min(times) - self._ahead if times else None

    # -------------------------------------------------------------------------------------- calls

    def offer(self, message: ChatMessage, now: float) -> tuple[Settled, ...]:
        """Takes one message in; a known id changes nothing and counts as a duplicate."""
        now = self._advance(now)
        return self._offer(message, now, now, limited=True)

    def restore(self, message: ChatMessage, arrived_at: float, now: float) -> tuple[Settled, ...]:
        """Takes back a message accepted before a restart and without a fate. Rates do not apply twice."""
        now = self._advance(now)
        return self._offer(message, arrived_at + self._ahead, now, limited=False)

    def tick(self, now: float) -> tuple[Settled, ...]:
        """Lets what waited too long expire."""
        now = self._advance(now)
        settled: list[Settled] = []
        overdue = [g for g in self._waiting.values() if g.oldest + self.config.max_age_s <= now]
        for group in overdue:
            for held in group.held():
                if held.arrived_at + self.config.max_age_s <= now:
                    self._remove(group, held)
                    settled.append(self._settle(held, Fate.EXPIRED, "waited past the age limit"))
        return tuple(settled)

    def take(self, now: float) -> Batch | None:
        """The next request to answer: highest priority, then oldest. None: nothing is ready."""
        now = self._advance(now)
        ready = [g for g in self._waiting.values() if self._ready_at(g) <= now]
        if not ready:
            return None
        group = min(ready, key=lambda g: (g.priority, g.number))
        del self._waiting[group.number]
        self._requests += 1
        group.request_id = self._request_id(self._requests)
        self._running[group.request_id] = group
        return Batch(
            request_id=group.request_id,
            messages=tuple(h.message for h in group.members),
            arrived_at=group.lead.arrived_at - self._ahead,
            priority=group.priority,
        )

    def finish(self, request_id: str, fate: Fate, reason: str) -> tuple[Settled, ...]:
        """Ends a request. ANSWERED goes to the lead and MERGED to the others; any other fate to all.

        Raises:
            KeyError: no such request is in progress.
        """
        group = self._running.pop(request_id)
        lead = group.lead
        settled = [self._settle(lead, fate, reason)]
        for held in group.held()[1:]:
            if fate is Fate.ANSWERED:
                settled.append(self._settle(held, Fate.MERGED, f"merged into {lead.message.id}"))
            else:
                settled.append(self._settle(held, fate, reason))
        return tuple(settled)

    def put_back(self, request_id: str, now: float) -> tuple[Settled, ...]:
        """A request in progress waits again, at its old place, and will be taken under a new id.

        Raises:
            KeyError: no such request is in progress.
        """
        self._advance(now)
        group = self._running.pop(request_id)
        group.request_id = ""
        self._waiting[group.number] = group
        return self._evict()

    def delete(self, deletion: ChatDeletion, now: float) -> Deleted:
        """A moderator's deletion. A message already settled keeps its fate."""
        self._advance(now)
        if deletion.message and not (deletion.everything or deletion.viewer):
            ids = [deletion.message] if deletion.message in self._where else []
            if not self.seen(deletion.message):
                _remember(self._tombstones, deletion.message, self.config.remembered_ids, None)
        else:
            held_now = [h for g in [*self._waiting.values(), *self._running.values()] for h in g.held()]
            ids = [h.message.id for h in held_now if deletes(deletion, h.message)]
        settled: list[Settled] = []
        touched: dict[str, _Group] = {}
        for message_id in ids:
            group = self._where[message_id]
            held = next(h for h in group.held() if h.message.id == message_id)
            if group.request_id and held in group.members:
                touched[group.request_id] = group
            self._remove(group, held)
            settled.append(self._settle(held, Fate.DELETED, "removed by a moderator"))
        cancelled = tuple(r for r, g in touched.items() if not len(g))
        for request_id in cancelled:
            del self._running[request_id]
        return Deleted(
            settled=tuple(settled),
            cancelled=cancelled,
            shrunk=tuple(r for r in touched if r not in cancelled),
        )

    # ----------------------------------------------------------------------------------- the sieve

    def _offer(self, message: ChatMessage, arrived_at: float, now: float, *, limited: bool) -> tuple[Settled, ...]:
        if message.id in self._seen:
            self.duplicates += 1
            return ()
        _remember(self._seen, message.id, self.config.remembered_ids, None)
        self.received += 1
        held = _Held(message, Reading(text=""), min(arrived_at, now))
        verdict = self._screen(held, now, limited=limited)
        if verdict is not None:
            return (self._settle(held, *verdict),)

        merged = self._merge(held)
        if merged is not None:
            return merged
        if limited and message.kind is not MessageKind.PAID:
            self._room = self._room or TokenBucket(
                self.config.room_rate, self.config.room_burst, self.config.room_burst, now
            )
            if not self._room.take(now):
                return (self._settle(held, Fate.DROPPED, "rate limit of the room"),)
        self._groups += 1
        group = _Group(self._groups, held.arrived_at, held.arrived_at, [held])
        self._waiting[group.number] = group
        self._where[message.id] = group
        return self._evict()

    def _screen(self, held: _Held, now: float, *, limited: bool) -> tuple[Fate, str] | None:
        """A fate for what is not to be answered; else None, and ``held.reading`` is filled in."""
        message, config = held.message, self.config
        if message.id in self._tombstones:
            del self._tombstones[message.id]
            return Fate.DELETED, "removed by a moderator before it arrived"
        if self._own and (message.viewer.casefold() in self._own or message.name.casefold() in self._own):
            return Fate.DROPPED, "the host's own echo"
        if held.arrived_at + config.max_age_s <= now:
            return Fate.EXPIRED, "waited past the age limit"
        if len(message.text) > config.max_chars:
            return Fate.DROPPED, f"longer than {config.max_chars} characters"
        if message.kind in (MessageKind.GIFT, MessageKind.MEMBER) and config.thanks:
            held.reading = Reading(text="", priority=Priority.OTHER, intent="thanks")
        elif message.kind not in (MessageKind.CHAT, MessageKind.PAID):
            return Fate.DROPPED, f"not a question: {message.kind.value} notice"
        else:
            held.reading = read_message(message, hosts=self._hosts, products=self._products)
            if not held.reading.for_host and (config.answer != "all" or not held.reading.text):
                return Fate.DROPPED, held.reading.reason
            if config.answer == "questions" and held.reading.priority is Priority.OTHER:
                return Fate.DROPPED, "not a question"
        paid = message.kind is MessageKind.PAID  # limited by its price; the queue's bound is enough
        if limited and not paid and not self._viewer_bucket(message.viewer, now).take(now):
            return Fate.DROPPED, "rate limit of the viewer"
        return None

    def _viewer_bucket(self, viewer: str, now: float) -> TokenBucket:
        bucket = self._viewers.get(viewer)
        if bucket is None:
            bucket = TokenBucket(self.config.viewer_rate, self.config.viewer_burst, self.config.viewer_burst, now)
        _remember(self._viewers, viewer, self.config.remembered_viewers, bucket)
        return bucket

    # ------------------------------------------------------------------------------------- merging

    def _merge(self, held: _Held) -> tuple[Settled, ...] | None:
        """Joins a group about the same thing; None where there is none."""
        twin = self._duplicate_of(held)
        if twin is not None:
            group = self._where[twin.message.id]
            if len(group.echoes) >= self.config.echoes:
                return (self._settle(held, Fate.MERGED, f"near duplicate of {group.lead.message.id}"),)
            self._join(group, group.echoes, held)
            return ()
        for group in self._waiting.values():
            if len(group.members) < self.config.merge_messages and self._same_topic(group, held):
                self._join(group, group.members, held)
                return ()
        return None

    def _join(self, group: _Group, part: list[_Held], held: _Held) -> None:
        part.append(held)
        group.oldest = min(group.oldest, held.arrived_at)
        self._where[held.message.id] = group

    def _duplicate_of(self, held: _Held) -> _Held | None:
        """The held message, waiting or in progress, that says the same."""
        text, marks = held.reading.text, held.reading.marks
        if not text:
            return None
        others = {
            h.reading.text: h
            for g in [*self._running.values(), *self._waiting.values()]
            for h in g.members
            if h.reading.text and h.reading.marks == marks and h.reading.reference == held.reading.reference
        }
        if text in others:
            return others[text]
        best = process.extractOne(text, list(others), scorer=fuzz.ratio, score_cutoff=100 * self.config.near_duplicate)
        return others[best[0]] if best is not None else None

    def _same_topic(self, group: _Group, held: _Held) -> bool:
        reading = held.reading
        if any(
            reading.intent and h.reading.intent == reading.intent and h.reading.reference == reading.reference
            for h in group.members
        ):
            return True
        # One viewer who spreads a question over lines, within the window.
        last = group.members[-1]
        return (
            last.message.viewer == held.message.viewer
            and held.arrived_at - group.opened_at <= self.config.merge_window_s
            and (not reading.reference or not last.reading.reference or reading.reference == last.reading.reference)
            and "thanks" not in (reading.intent, last.reading.intent)
        )

    # ------------------------------------------------------------------------------------ the book

    def _advance(self, now: float) -> float:
        """The caller's time as its own. A clock set back by an hour must neither age what comes in by an hour
        nor hold what waits for one."""
        if now + self._ahead < self._now:
            self._ahead = self._now - now
        self._now = now + self._ahead
        return self._now

    def _ready_at(self, group: _Group) -> float:
        if len(group) >= self.config.merge_messages:
            return -math.inf
        return group.opened_at + self.config.merge_window_s

    def _evict(self) -> tuple[Settled, ...]:
        settled: list[Settled] = []
        while len(self._waiting) > self.config.queue_requests:
            group = max(self._waiting.values(), key=lambda g: (g.priority, -g.number))
            del self._waiting[group.number]
            settled += [self._settle(h, Fate.DROPPED, "queue full") for h in group.held()]
        return tuple(settled)

    def _remove(self, group: _Group, held: _Held) -> None:
        """Takes one message out of a group; a near duplicate takes an empty lead's place."""
        if held in group.members:
            group.members.remove(held)
            if not group.members and group.echoes:
                group.members.append(group.echoes.pop(0))
        else:
            group.echoes.remove(held)
        if len(group):
            group.oldest = min(h.arrived_at for h in group.held())
        else:
            self._waiting.pop(group.number, None)

    def _settle(self, held: _Held, fate: Fate, reason: str) -> Settled:
        self._where.pop(held.message.id, None)
        self.counts[fate] += 1
        return Settled(held.message.id, fate, reason)


def deletes(deletion: ChatDeletion, message: ChatMessage) -> bool:
    """Whether a deletion means this message. A viewer is meant by id or by name, as platforms send either."""
    if deletion.everything:
        return True
    if deletion.viewer:
        return deletion.viewer.casefold() in (message.viewer.casefold(), message.name.casefold())
    return bool(deletion.message) and deletion.message == message.id


def _remember(memory: OrderedDict[str, _V], key: str, limit: int, value: _V) -> None:
    """Keeps the latest ``limit`` keys."""
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > limit:
        memory.popitem(last=False)
