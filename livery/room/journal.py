"""The room's durable log: what was accepted, what became of it, and every trajectory.

One writer thread commits whatever has gathered meanwhile in one transaction (group commit), and a write
returns only after its commit. On SQLite that is a WAL with ``synchronous=NORMAL``: a killed process loses
nothing that was acknowledged; a power cut may lose the last commits. A PostgreSQL URL works as well.

Tables: ``messages`` (a fate is written once, by a conditional update), ``requests``, ``trajectories`` (JSON
beside indexed columns), ``happenings`` (replies begun, items shown) and ``pruned`` (sums of the messages that
`Retention` let go). It is not a message broker: one process at a time serves one room (`Journal.claim`),
since the next start takes back, and answers, whatever is still open.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from livery.errors import StoreError
from livery.room.intake import Settled
from livery.room.trajectories import (
    TrajectoryWriter,
    dump_trajectory,
    load_trajectory,
    read_trajectories,
)
from livery.types import ChatMessage, Fate, Request, Route, Trajectory

__all__ = [
    "Happening",
    "Journal",
    "OpenMessage",
    "Retention",
    "TrajectoryWriter",
    "read_trajectories",
]

JOURNAL_SCHEMA = "livery.journal/1"
_BATCH = 2048
"""Most writes in one transaction."""
_PRUNE_EVERY = 5000
"""Rows written between two prunings."""

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_MESSAGE: TypeAdapter[ChatMessage] = TypeAdapter(ChatMessage)

_metadata = sa.MetaData()
_meta = sa.Table("livery_meta", _metadata, sa.Column("schema", sa.Text, primary_key=True))
_messages = sa.Table(
    "messages",
    _metadata,
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("room", sa.Text, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("arrived_at", sa.Float, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("fate", sa.Text),
    sa.Column("fate_reason", sa.Text),
    sa.Column("request", sa.Text),
    sa.Column("settled_at", sa.Float),
    sa.UniqueConstraint("room", "id"),
)
_open = _messages.c.fate.is_(None)
sa.Index("messages_open", _messages.c.room, _messages.c.seq, sqlite_where=_open, postgresql_where=_open)
sa.Index("messages_arrived", _messages.c.arrived_at)
_requests = sa.Table(
    "requests",
    _metadata,
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("room", sa.Text, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("messages", sa.Text, nullable=False),
    sa.Column("ended_at", sa.Float),
    sa.Column("outcome", sa.Text),
    sa.UniqueConstraint("room", "id"),
)
_trajectories = sa.Table(
    "trajectories",
    _metadata,
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("room", sa.Text, nullable=False),
    sa.Column("request", sa.Text, nullable=False),
    sa.Column("route", sa.Text, nullable=False),
    sa.Column("harness_release", sa.Text, nullable=False),
    sa.Column("channel", sa.Text, nullable=False),
    sa.Column("policy", sa.Text, nullable=False),
    sa.Column("started_at", sa.Float, nullable=False),
    sa.Column("total_s", sa.Float, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Index("trajectories_room", "room", "seq"),
    sa.Index("trajectories_request", "request"),
    sa.Index("trajectories_started", "started_at"),
    sa.Index("trajectories_release", "harness_release", "route"),
)
_happenings = sa.Table(
    "happenings",
    _metadata,
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("room", sa.Text, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Index("happenings_room", "room", "kind", "seq"),
)
_pruned = sa.Table(
    "pruned",
    _metadata,
    sa.Column("room", sa.Text, primary_key=True),
    sa.Column("fate", sa.Text, primary_key=True),
    sa.Column("messages", sa.Integer, nullable=False),
)


class Retention(BaseModel):
    """What is kept. Messages without a fate are never let go."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    messages: int = Field(default=200_000, ge=1)
    requests: int = Field(default=50_000, ge=1)
    trajectories: int = Field(default=20_000, ge=1)
    happenings: int = Field(default=20_000, ge=1)
    max_age_s: float = Field(default=30 * 86_400.0, gt=0)


@dataclass(frozen=True, slots=True)
class OpenMessage:
    """An accepted message without a fate."""

    message: ChatMessage
    arrived_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something that was said or shown."""

    kind: str
    """"spoken" (a reply began) or "item" (an item came on screen)."""
    at: float
    viewer: str = ""
    text: str = ""
    """The chat text answered."""
    reply: str = ""
    request_id: str = ""
    link_id: str = ""
    synthesis_s: float = 0.0
    """Of a reply: seconds until the voice had made its audio."""


_HAPPENING: TypeAdapter[Happening] = TypeAdapter(Happening)


@dataclass(slots=True)
class _Write:
    """Rows of one caller, committed together."""

    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    ended: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    trajectories: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    fates: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    happenings: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    done: asyncio.Future[bool] | None = None
    """Result: whether the message (where the write holds one) was new."""


class Journal:
    """A journal in one database, for any number of rooms of this process.

    Args:
        location: a file's path, or an SQLAlchemy URL (``sqlite:///...``, ``postgresql+psycopg://...``).
        clock: Unix seconds, for the age limit of `Retention`.

    Raises:
        StoreError: the database cannot be opened, or was written by another version.
    """

    def __init__(
        self,
        location: str | Path,
        *,
        retention: Retention | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.retention = retention or Retention()
        self._clock = clock
        url = str(location)
        if "://" not in url:
            Path(url).parent.mkdir(parents=True, exist_ok=True)
            url = f"sqlite:///{url}"
        self._engine = sa.create_engine(url)
        self._postgres = self._engine.dialect.name == "postgresql"
        if self._engine.dialect.name == "sqlite":
            event.listen(self._engine, "connect", _sqlite_settings)
        self._prepare(url)
        self._writes: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._since_prune = 0
        self._claims: dict[str, sa.Connection | None] = {}
        """Rooms served, each with the session that holds its advisory lock on PostgreSQL."""
        self._lock: sqlite3.Connection | None = None
        self._closed = False
        self._writer = threading.Thread(target=self._write_forever, name="livery-journal", daemon=True)
        self._writer.start()

    def close(self) -> None:
        """Commits what was handed over, and closes. Safe to call twice."""
        if not self._closed:
            self._closed = True
            self._writes.put(None)
            self._writer.join()
            for room in [*self._claims]:
                self.release(room)
            self._engine.dispose()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)

    # ------------------------------------------------------------------------------------ who serves

    def claim(self, room: str) -> None:
        """Makes this journal the one that serves a room, until `release`, `close` or the process's end.

        An SQLite file is claimed as a whole (by an exclusive lock on an empty database beside it), on
        PostgreSQL each room by an advisory lock.

        Raises:
            StoreError: it is served already, here or by another process.
        """
        taken = StoreError(
            f"room {room!r} of the journal {self._engine.url} is being served already; stop that one first, "
            "or give this one a journal of its own"
        )
        if room in self._claims:
            raise taken
        if self._postgres:
            key = int.from_bytes(hashlib.sha256(f"livery:{room}".encode()).digest()[:8], signed=True)
            session = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            if not session.execute(sa.select(sa.func.pg_try_advisory_lock(key))).scalar_one():
                session.close()
                raise taken
            self._claims[room] = session
            return
        file = self._engine.url.database
        if self._lock is None and file and file != ":memory:":
            lock = sqlite3.connect(f"{file}-lock", timeout=0, isolation_level=None, check_same_thread=False)
            try:
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                lock.close()
                raise taken from error
            self._lock = lock
        self._claims[room] = None

    def release(self, room: str) -> None:
        """Lets another serve the room; safe to call for one that is not claimed."""
        session = self._claims.pop(room, None)
        if session is not None:
            session.invalidate()  # an advisory lock ends with its session
            session.close()
        if not self._claims and self._lock is not None:
            self._lock.close()
            self._lock = None

    # -------------------------------------------------------------------------------------- writing

    def accept(self, message: ChatMessage, arrived_at: float) -> asyncio.Future[bool]:
        """Stores a message. Done after the commit; True: it is new, False: this room had its id already.

        A plain future, so that what follows the commit happens whether or not the caller still waits.
        """
        row = {
            "room": message.room,
            "id": message.id,
            "arrived_at": arrived_at,
            "body": _MESSAGE.dump_json(message).decode(),
        }
        return self._put(_Write(messages=[row]))

    def begin(self, request: Request, messages: Sequence[str]) -> asyncio.Future[bool]:
        """Notes that a request was begun for these message ids."""
        row = {
            "room": request.room,
            "id": request.id,
            "created_at": request.created_at,
            "messages": json.dumps(list(messages)),
        }
        return self._put(_Write(requests=[row]))

    def conclude(
        self,
        room: str,
        *,
        at: float,
        settled: Sequence[Settled] = (),
        request_id: str = "",
        outcome: str = "",
        trajectory: Trajectory | None = None,
        happenings: Sequence[Happening] = (),
    ) -> asyncio.Future[bool]:
        """Writes fates, a request's end (if ``outcome`` is given), a trajectory and happenings, all or none.

        A message that has a fate keeps it.
        """
        write = _Write(
            fates=[
                {
                    "b_room": room,
                    "b_id": s.message,
                    "fate": s.fate.value,
                    "fate_reason": s.reason,
                    "request": request_id,
                    "settled_at": at,
                }
                for s in settled
            ],
            happenings=[
                {"room": room, "at": h.at, "kind": h.kind, "body": _HAPPENING.dump_json(h).decode()} for h in happenings
            ],
        )
        if outcome:
            write.ended.append({"b_room": room, "b_id": request_id, "ended_at": at, "outcome": outcome})
        if trajectory is not None:
            write.trajectories.append(
                {
                    "id": trajectory.id,
                    "room": room,
                    "request": trajectory.request.id,
                    "route": trajectory.route.value,
                    "harness_release": trajectory.harness_release,
                    "channel": trajectory.channel,
                    "policy": trajectory.policy,
                    "started_at": trajectory.started_at,
                    "total_s": trajectory.total_s,
                    "body": dump_trajectory(trajectory),
                }
            )
        return self._put(write)

    async def flush(self) -> None:
        """Returns once everything handed over before is committed."""
        await self._put(_Write())

    # -------------------------------------------------------------------------------------- reading

    async def open_messages(self, room: str) -> tuple[OpenMessage, ...]:
        """Accepted messages without a fate, in order of acceptance; ends requests left in progress.

        A row that cannot be read (damage, another hand) is settled as dropped: it must not keep the room
        shut.
        """

        def read(connection: sa.Connection) -> tuple[OpenMessage, ...]:
            connection.execute(
                _requests.update()
                .where(_requests.c.room == room, _requests.c.ended_at.is_(None))
                .values(ended_at=self._clock(), outcome="restarted")
            )
            rows = connection.execute(
                sa.select(_messages.c.seq, _messages.c.body, _messages.c.arrived_at)
                .where(_messages.c.room == room, _open)
                .order_by(_messages.c.seq)
            ).all()
            found: list[OpenMessage] = []
            for seq, body, at in rows:
                try:
                    found.append(OpenMessage(_MESSAGE.validate_json(body), at))
                except ValidationError as error:
                    _log.error("message %d of room %s cannot be read back: %s", seq, room, error)
                    values = {"fate": Fate.DROPPED.value, "fate_reason": "cannot be read back"}
                    connection.execute(_messages.update().where(_messages.c.seq == seq).values(values))
            return tuple(found)

        return await self._run(read)

    async def last_request(self) -> int:
        """A number that grows with every request noted: it tells one run of a room from the next."""
        return await self._run(
            lambda connection: connection.execute(sa.select(sa.func.max(_requests.c.seq))).scalar() or 0
        )

    async def fate_counts(self, room: str) -> dict[Fate | None, int]:
        """Messages by fate, those let go included; None counts the open ones."""

        def read(connection: sa.Connection) -> dict[Fate | None, int]:
            kept = sa.select(_messages.c.fate, sa.func.count()).where(_messages.c.room == room)
            gone = sa.select(_pruned.c.fate, _pruned.c.messages).where(_pruned.c.room == room)
            counts: dict[Fate | None, int] = {}
            for fate, n in [*connection.execute(kept.group_by(_messages.c.fate)), *connection.execute(gone)]:
                key = None if fate is None else Fate(fate)
                counts[key] = counts.get(key, 0) + n
            return counts

        return await self._run(read)

    async def rows(self) -> dict[str, tuple[int, int]]:
        """By table: rows kept now, and the most that `Retention` lets gather between two prunings. Messages without
        a fate are never let go, and come on top."""
        limits = (
            (_messages, self.retention.messages),
            (_requests, self.retention.requests),
            (_trajectories, self.retention.trajectories),
            (_happenings, self.retention.happenings),
        )

        def read(connection: sa.Connection) -> dict[str, tuple[int, int]]:
            count = sa.select(sa.func.count())
            return {
                table.name: (connection.execute(count.select_from(table)).scalar_one(), limit + _PRUNE_EVERY + _BATCH)
                for table, limit in limits
            }

        return await self._run(read)

    async def fate(self, room: str, message_id: str) -> tuple[Fate | None, str] | None:
        """(fate, reason) of one message, (None, "") while it has none; None: no such message."""

        def read(connection: sa.Connection) -> tuple[Fate | None, str] | None:
            row = connection.execute(
                sa.select(_messages.c.fate, _messages.c.fate_reason).where(
                    _messages.c.room == room, _messages.c.id == message_id
                )
            ).one_or_none()
            return None if row is None else (Fate(row[0]) if row[0] else None, row[1] or "")

        return await self._run(read)

    async def fates(self, room: str) -> tuple[tuple[str, Fate, str], ...]:
        """(message id, fate, reason) of every settled message kept, in order of acceptance."""
        query = (
            sa.select(_messages.c.id, _messages.c.fate, _messages.c.fate_reason)
            .where(_messages.c.room == room, _messages.c.fate.is_not(None))
            .order_by(_messages.c.seq)
        )
        rows = await self._run(lambda connection: connection.execute(query).all())
        return tuple((row.id, Fate(row.fate), row.fate_reason) for row in rows)

    async def trajectories(
        self,
        *,
        room: str = "",
        route: Route | None = None,
        harness_release: str = "",
        request_id: str = "",
        started_after: float | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> tuple[Trajectory, ...]:
        """Latest first."""
        query = sa.select(_trajectories.c.body).order_by(_trajectories.c.seq.desc()).limit(limit).offset(offset)
        if room:
            query = query.where(_trajectories.c.room == room)
        if route is not None:
            query = query.where(_trajectories.c.route == route.value)
        if harness_release:
            query = query.where(_trajectories.c.harness_release == harness_release)
        if request_id:
            query = query.where(_trajectories.c.request == request_id)
        if started_after is not None:
            query = query.where(_trajectories.c.started_at > started_after)
        bodies = await self._run(lambda connection: list(connection.execute(query).scalars()))
        return tuple(load_trajectory(body, path=str(self._engine.url)) for body in bodies)

    async def trajectory(self, trajectory_id: str) -> Trajectory | None:
        query = sa.select(_trajectories.c.body).where(_trajectories.c.id == trajectory_id)
        body = await self._run(lambda connection: connection.execute(query).scalar_one_or_none())
        return None if body is None else load_trajectory(body, path=str(self._engine.url))

    async def happenings(self, room: str, kind: str, limit: int) -> tuple[Happening, ...]:
        """The latest of a kind, oldest first."""
        query = (
            sa.select(_happenings.c.body)
            .where(_happenings.c.room == room, _happenings.c.kind == kind)
            .order_by(_happenings.c.seq.desc())
            .limit(limit)
        )
        bodies = await self._run(lambda connection: list(connection.execute(query).scalars()))
        return tuple(_HAPPENING.validate_json(body) for body in reversed(bodies))

    async def export(self, path: str | Path, *, room: str = "") -> int:
        """Writes all trajectories kept (or one room's) as JSON lines, oldest first; returns the count."""

        def read(connection: sa.Connection) -> int:
            query = sa.select(_trajectories.c.body).order_by(_trajectories.c.seq)
            if room:
                query = query.where(_trajectories.c.room == room)
            with TrajectoryWriter(path) as writer:
                for body in connection.execution_options(yield_per=200).execute(query).scalars():
                    writer.write(load_trajectory(body, path=str(self._engine.url)))
                return writer.written

        return await self._run(read)

    # ------------------------------------------------------------------------------------- the works

    def _prepare(self, url: str) -> None:
        try:
            _metadata.create_all(self._engine)
            with self._engine.begin() as connection:
                found = connection.execute(sa.select(_meta.c.schema)).scalar_one_or_none()
                if found is None:
                    connection.execute(_meta.insert().values(schema=JOURNAL_SCHEMA))
        except DBAPIError as error:
            self._engine.dispose()
            raise StoreError(f"cannot open the journal {url}: {error.orig}") from error
        if found not in (None, JOURNAL_SCHEMA):
            self._engine.dispose()
            raise StoreError(f"the journal {url} has schema {found!r}; this version reads {JOURNAL_SCHEMA!r}")

    async def _run(self, read: Callable[[sa.Connection], _T]) -> _T:
        """Reads what was committed, on another thread and connection than the writer's."""

        def run() -> _T:
            with self._engine.begin() as connection:
                return read(connection)

        return await asyncio.to_thread(run)

    def _put(self, write: _Write) -> asyncio.Future[bool]:
        if self._closed:
            raise StoreError("the journal is closed")
        write.done = asyncio.get_running_loop().create_future()
        self._writes.put(write)
        return write.done

    def _write_forever(self) -> None:
        while True:
            first = self._writes.get()
            if first is None:
                return
            batch = [first]
            last = False
            while len(batch) < _BATCH and not self._writes.empty():
                write = self._writes.get()
                if write is None:
                    last = True
                    break
                batch.append(write)
            self._commit(batch)
            if last:
                return

    def _commit(self, batch: list[_Write]) -> None:
        try:
            with self._engine.begin() as connection:
                new = self._insert(connection, batch)
        except Exception as error:  # whatever it was: every caller is told, and the writer lives on
            if len(batch) > 1:  # one bad row must not take the others with it
                for write in batch:
                    self._commit([write])
                return
            _log.exception("the journal could not commit")
            _resolve(batch, [False], StoreError(f"the journal could not commit: {error}"))
            return
        _resolve(batch, new, None)

    def _insert(self, connection: sa.Connection, batch: list[_Write]) -> list[bool]:
        """Writes a batch; tells for each write whether its message was new."""
        messages = [row for w in batch for row in w.messages]
        fresh: set[tuple[str, str]] = set()
        if messages:
            returning = self._insert_once(_messages).returning(_messages.c.room, _messages.c.id)
            fresh = {(row.room, row.id) for row in connection.execute(returning, messages)}
        for table, rows in (
            (_requests, [row for w in batch for row in w.requests]),
            (_trajectories, [row for w in batch for row in w.trajectories]),
            (_happenings, [row for w in batch for row in w.happenings]),
        ):
            if rows:
                connection.execute(self._insert_once(table), rows)
        for table, once, rows in (
            (_requests, _requests.c.ended_at.is_(None), [row for w in batch for row in w.ended]),
            (_messages, _open, [row for w in batch for row in w.fates]),
        ):
            if rows:
                mine = (table.c.room == sa.bindparam("b_room"), table.c.id == sa.bindparam("b_id"))
                values: dict[str, Any] = {name: sa.bindparam(name) for name in rows[0] if not name.startswith("b_")}
                connection.execute(table.update().where(*mine, once).values(values), rows)
        self._since_prune += len(messages) + sum(len(w.happenings) + len(w.trajectories) for w in batch)
        if self._since_prune >= _PRUNE_EVERY:
            self._since_prune = 0
            self._prune(connection)

        new: list[bool] = []
        for write in batch:
            keys = [(row["room"], row["id"]) for row in write.messages]
            new.append(all(key in fresh for key in keys))
            fresh.difference_update(keys)  # the same id twice in one batch: the first is the new one
        return new

    def _insert_once(self, table: sa.Table) -> Any:
        insert = postgresql.insert if self._postgres else sqlite.insert
        return insert(table).on_conflict_do_nothing()

    def _prune(self, connection: sa.Connection) -> None:
        oldest = self._clock() - self.retention.max_age_s

        def stale(table: sa.Table, at: sa.Column[Any], limit: int) -> sa.ColumnElement[bool]:
            last = connection.execute(
                sa.select(table.c.seq).order_by(table.c.seq.desc()).limit(1).offset(limit)
            ).scalar()
            return sa.or_(at < oldest, table.c.seq <= (-1 if last is None else last))

        old = sa.and_(stale(_messages, _messages.c.arrived_at, self.retention.messages), _messages.c.fate.is_not(None))
        count = sa.select(_messages.c.room, _messages.c.fate, sa.func.count()).where(old)
        for room, fate, n in connection.execute(count.group_by(_messages.c.room, _messages.c.fate)).all():
            connection.execute(self._insert_once(_pruned), {"room": room, "fate": fate, "messages": 0})
            connection.execute(
                _pruned.update()
                .where(_pruned.c.room == room, _pruned.c.fate == fate)
                .values(messages=_pruned.c.messages + n)
            )
        connection.execute(_messages.delete().where(old))
        for table, at, limit in (
            (_requests, _requests.c.created_at, self.retention.requests),
            (_trajectories, _trajectories.c.started_at, self.retention.trajectories),
            (_happenings, _happenings.c.at, self.retention.happenings),
        ):
            connection.execute(table.delete().where(stale(table, at, limit)))


def _sqlite_settings(connection: Any, _record: Any) -> None:
    for pragma in (
        "journal_mode=WAL",
        "synchronous=NORMAL",
        "busy_timeout=10000",
        "journal_size_limit=67108864",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _resolve(batch: list[_Write], new: list[bool], error: StoreError | None) -> None:
    """Hands results to the callers, each on its own event loop; one wake-up a loop."""

    def hand(mine: list[tuple[asyncio.Future[bool], bool]]) -> None:
        for done, fresh in mine:
            if not done.done():
                if error is None:
                    done.set_result(fresh)
                else:
                    done.set_exception(error)

    loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[bool], bool]]] = {}
    for write, fresh in zip(batch, new, strict=True):
        if write.done is not None:
            loops.setdefault(write.done.get_loop(), []).append((write.done, fresh))
    for loop, mine in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(hand, mine)
