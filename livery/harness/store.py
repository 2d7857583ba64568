"""Releases and channels, kept in SQLite or PostgreSQL.

A release is immutable and content-addressed: its components are stored once each under their own digests, and
what is loaded is verified against the digest it was asked by. A channel points at a release; publishing and
rolling back move the pointer in one transaction, with a version that only grows and a log that only grows. A
split says which share of rooms or viewers gets which channel.

What was acknowledged survives ``kill -9`` (SQLite in WAL mode; with ``synchronous=NORMAL`` a power cut may
take the last commits, never the file's integrity). This is not a history of edits: that is what the team's
version control of the harness folder is for.
"""

from __future__ import annotations

import json
import re
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError

from livery.errors import InputError, StoreError
from livery.harness.database import (
    CHANNEL_LOG,
    CHANNELS,
    COMPONENT_ROWS,
    META,
    METADATA,
    NOTIFY,
    RELEASES,
    SPLIT_LOG,
    SPLITS,
    insert_into,
    open_engine,
    parsed_url,
    snapshot,
    use_wal,
)
from livery.harness.digest import (
    COMPONENTS,
    SETTINGS,
    canonical_bytes,
    component_digests,
    components,
    harness_digest,
    settings_bytes,
)
from livery.harness.model import Harness
from livery.harness.releases import Channel, LogEntry, Publication, Release, Routing, SplitEntry
from livery.harness.split import BUCKETS, Split, allocate, shares

SCHEMA = 1
DEFAULT_CHANNEL = "stable"


_CACHED_RELEASES = 64
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_FIELD_OF = {folder: field for field, folder in COMPONENTS.items()}


class ReleaseStore:
    """Releases, channels and splits. Methods block for some milliseconds; any thread may call them."""

    def __init__(self, url: str | Path, *, clock: Callable[[], float] = time.time) -> None:
        """
        Args:
            url: ``sqlite:///file.db``, ``postgresql://...``, or a file's path (then SQLite). Missing tables
                and folders are made.
            clock: Unix seconds, for what is logged.

        Raises:
            StoreError: it cannot be opened, or was written by a newer livery.
        """
        self._clock = clock
        self.url = parsed_url(url)
        self._local_changes = 0
        self._cache: OrderedDict[str, Harness] = OrderedDict()
        self._cache_lock = threading.Lock()
        try:
            self._engine = open_engine(self.url)
        except (SQLAlchemyError, OSError, ImportError) as error:
            raise StoreError(f"cannot open the release store {self.shown_url}: {error}") from error
        self._write_engine = self._engine.execution_options(livery_write=True)
        try:
            self._prepare()
        except (SQLAlchemyError, sqlite3.Error) as error:
            self._engine.dispose()
            raise StoreError(f"cannot open the release store {self.shown_url}: {error}") from error
        except StoreError:
            self._engine.dispose()
            raise

    @property
    def shown_url(self) -> str:
        """The URL without its password."""
        return self.url.render_as_string(hide_password=True)

    @property
    def local_changes(self) -> int:
        """How often this process's own calls changed the routing."""
        return self._local_changes

    def close(self) -> None:
        """Close its connections. Using it again opens new ones."""
        self._engine.dispose()

    def __enter__(self) -> ReleaseStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _prepare(self) -> None:
        if self._engine.dialect.name == "sqlite" and self.url.database:
            use_wal(self.url.database)
        with self._writing() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(7236519)"))
            METADATA.create_all(connection)
            found = connection.scalar(sa.select(META.c.number).where(META.c.name == "schema"))
            if found is None:
                rows = [{"name": "schema", "number": SCHEMA}, {"name": "routing", "number": 0}]
                connection.execute(sa.insert(META), rows)
            elif found > SCHEMA:
                raise StoreError(
                    f"the release store {self.shown_url} has schema {found}; this livery knows {SCHEMA}: update it"
                )

    # ------------------------------------------------------------------------------ transactions

    @contextmanager
    def _writing(self) -> Generator[sa.Connection]:
        """A transaction that nobody else writes beside."""
        with self._write_engine.begin() as connection:
            yield connection

    @contextmanager
    def _routing_change(self) -> Generator[tuple[sa.Connection, float]]:
        """A write transaction that holds the routing lock and moves the routing version on."""
        try:
            with self._writing() as connection:
                # On PostgreSQL this row is the lock; SQLite's BEGIN IMMEDIATE took one already.
                connection.execute(sa.select(META).where(META.c.name == "routing").with_for_update())
                yield connection, self._clock()
                connection.execute(sa.update(META).where(META.c.name == "routing").values(number=META.c.number + 1))
                if connection.dialect.name == "postgresql":
                    connection.execute(sa.text(f"NOTIFY {NOTIFY}"))
        except SQLAlchemyError as error:
            raise StoreError(f"the release store {self.shown_url} refused the change: {error}") from error
        self._local_changes += 1

    @contextmanager
    def _reading(self) -> Generator[sa.Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StoreError(f"cannot read the release store {self.shown_url}: {error}") from error

    # ---------------------------------------------------------------------------------- releases

    def put(self, harness: Harness, *, note: str = "", actor: str = "") -> str:
        """Keep a harness as a release; one that is there already stays as it is.

        Returns:
            Its digest.
        """
        digest = harness_digest(harness)
        manifest = component_digests(harness)
        content = {manifest[SETTINGS]: settings_bytes(harness).decode()}
        content |= {manifest[name]: canonical_bytes(one).decode() for name, one in components(harness)}
        try:
            with self._writing() as connection:
                if connection.scalar(sa.select(RELEASES.c.digest).where(RELEASES.c.digest == digest)):
                    return digest
                # In one order everywhere, so that two writers on PostgreSQL cannot lock each other out.
                rows = [{"digest": d, "content": content[d]} for d in sorted(content)]
                connection.execute(insert_into(connection, COMPONENT_ROWS).on_conflict_do_nothing(), rows)
                connection.execute(
                    insert_into(connection, RELEASES)
                    .values(
                        digest=digest,
                        manifest=json.dumps(list(manifest.items()), ensure_ascii=False),
                        name=harness.name,
                        created_at=self._clock(),
                        note=note,
                        actor=actor,
                    )
                    .on_conflict_do_nothing()
                )
        except SQLAlchemyError as error:
            raise StoreError(f"the release store {self.shown_url} refused a release: {error}") from error
        return digest

    def load(self, digest: str) -> Harness:
        """The harness of a release, verified against its digest.

        Raises:
            StoreError: no such release, or what is stored is not what the digest says.
        """
        with self._cache_lock:
            cached = self._cache.get(digest)
            if cached is not None:
                self._cache.move_to_end(digest)
                return cached
        harness = self._read(digest)
        with self._cache_lock:
            self._cache[digest] = harness
            while len(self._cache) > _CACHED_RELEASES:
                self._cache.popitem(last=False)
        return harness

    def _read(self, digest: str) -> Harness:
        manifest = self.release(digest).components
        with self._reading() as connection:
            query = sa.select(COMPONENT_ROWS).where(COMPONENT_ROWS.c.digest.in_(set(manifest.values())))
            content = {row.digest: row.content for row in connection.execute(query)}
        fields: dict[str, list[Any]] = {field: [] for field in COMPONENTS}
        missing = [name for name, wanted in manifest.items() if wanted not in content]
        if missing:
            raise StoreError(f"release {digest} is damaged: no content for {', '.join(missing)}")
        try:
            for name, wanted in manifest.items():
                if name != SETTINGS:
                    fields[_FIELD_OF[name.split("/", 1)[0]]].append(json.loads(content[wanted]))
            harness = Harness.model_validate({**json.loads(content[manifest[SETTINGS]]), **fields})
            found = harness_digest(harness)
        except (ValueError, KeyError, ValidationError, InputError) as error:
            raise StoreError(f"release {digest} is damaged: {error}") from error
        if found != digest:
            raise StoreError(f"release {digest} is damaged: its content has the digest {found}")
        return harness

    def release(self, digest: str) -> Release:
        """What is known of one release.

        Raises:
            StoreError: no such release.
        """
        with self._reading() as connection:
            row = connection.execute(sa.select(RELEASES).where(RELEASES.c.digest == digest)).one_or_none()
        if row is None:
            raise StoreError(f"no release {digest!r} in {self.shown_url}")
        return _release(row)

    def releases(self, limit: int = 100) -> tuple[Release, ...]:
        """The latest releases, newest first."""
        query = sa.select(RELEASES).order_by(RELEASES.c.created_at.desc(), RELEASES.c.digest).limit(limit)
        with self._reading() as connection:
            return tuple(_release(row) for row in connection.execute(query))

    def resolve(self, reference: str) -> str:
        """The digest that a person means: a channel's name, a digest, or the unique beginning of one (six or
        more hexadecimal digits, with or without ``sha256:``).

        Raises:
            StoreError: nothing, or more than one release, is meant.
        """
        with self._reading() as connection:
            query = sa.select(CHANNELS.c.release).where(CHANNELS.c.name == reference)
            release = connection.scalar(query)
            if release is not None:
                return str(release)
            prefix = reference.removeprefix("sha256:").lower()
            if re.fullmatch(r"[0-9a-f]{6,64}", prefix) is None:
                raise StoreError(f"no channel {reference!r}; a digest needs at least six hexadecimal digits")
            found = connection.scalars(
                sa.select(RELEASES.c.digest).where(RELEASES.c.digest.like(f"sha256:{prefix}%")).limit(3)
            ).all()
        if len(found) != 1:
            raise StoreError(f"{reference!r} is the beginning of {'no' if not found else 'several'} release")
        return str(found[0])

    # ---------------------------------------------------------------------------------- channels

    def publish(
        self,
        channel: str,
        harness: Harness | str,
        *,
        note: str = "",
        actor: str = "",
        expected: str | None = None,
    ) -> Publication:
        """Point a channel at a release, at once and for everybody.

        Args:
            harness: a harness, which is put first, or a digest already in the store.
            expected: compare-and-set: the release the channel must point at now; empty: it must be new.

        Raises:
            StoreError: no such release, or the channel points at another release than ``expected``.
            InputError: not a channel name.
        """
        if _NAME.fullmatch(channel) is None:
            raise InputError.at(
                "channel",
                f"found {channel!r}; expected 1-64 of lowercase letters, digits, dot, underscore, hyphen, "
                "the first a letter or digit",
                code="channel-name",
            )
        digest = harness if isinstance(harness, str) else self.put(harness, note=note, actor=actor)
        with self._routing_change() as (connection, now):
            before = self._channel_row(connection, channel)
            previous = before.release if before else ""
            if expected is not None and previous != expected:
                raise StoreError(
                    f"channel {channel!r} points at {previous or 'nothing'}, not at {expected or 'nothing'}: "
                    "somebody published meanwhile; look at their change and publish again"
                )
            if connection.scalar(sa.select(RELEASES.c.digest).where(RELEASES.c.digest == digest)) is None:
                raise StoreError(f"no release {digest!r} in {self.shown_url}")
            return self._move(connection, channel, before, digest, "publish", now, note, actor)

    def rollback(
        self, channel: str, *, steps: int = 1, to: str | None = None, note: str = "", actor: str = ""
    ) -> Publication:
        """Point a channel back at what it pointed at before.

        Rolling back twice goes two releases back, not forth again: the log is read as publications and their
        undoing. It moves the pointer; nothing is removed.

        Args:
            steps: how many releases back.
            to: the digest to go to instead; the channel must have pointed at it before.

        Raises:
            StoreError: no such channel, or nothing so far back.
        """
        if steps < 1:
            raise InputError.at("steps", f"found {steps}; expected 1 or more", code="rollback-steps")
        with self._routing_change() as (connection, now):
            before = self._channel_row(connection, channel)
            if before is None:
                raise StoreError(f"no channel {channel!r} in {self.shown_url}")
            log = _log_rows(connection, channel)
            if to is None:
                history = _history(log)
                if len(history) <= steps:
                    raise StoreError(f"channel {channel!r} has {len(history) - 1} earlier releases, not {steps}")
                to = history[-1 - steps]
            elif all(entry.release != to for entry in log):
                raise StoreError(f"channel {channel!r} never pointed at {to!r}; publish it instead")
            return self._move(connection, channel, before, to, "rollback", now, note, actor)

    def _move(
        self,
        connection: sa.Connection,
        channel: str,
        before: Channel | None,
        release: str,
        action: str,
        now: float,
        note: str,
        actor: str,
    ) -> Publication:
        version = before.version + 1 if before else 1
        previous = before.release if before else ""
        if before is None:
            connection.execute(
                sa.insert(CHANNELS).values(name=channel, release=release, version=version, updated_at=now)
            )
        else:
            connection.execute(
                sa.update(CHANNELS)
                .where(CHANNELS.c.name == channel)
                .values(release=release, version=version, updated_at=now)
            )
        connection.execute(
            sa.insert(CHANNEL_LOG).values(
                channel=channel,
                version=version,
                action=action,
                release=release,
                previous=previous,
                at=now,
                note=note,
                actor=actor,
            )
        )
        return Publication(channel=channel, release=release, previous=previous, version=version, at=now)

    @staticmethod
    def _channel_row(connection: sa.Connection, channel: str) -> Channel | None:
        query = sa.select(CHANNELS).where(CHANNELS.c.name == channel)
        row = connection.execute(query).mappings().one_or_none()
        return None if row is None else Channel(**row)

    def channel(self, name: str) -> Channel:
        """
        Raises:
            StoreError: no such channel.
        """
        with self._reading() as connection:
            found = self._channel_row(connection, name)
        if found is None:
            raise StoreError(f"no channel {name!r} in {self.shown_url}")
        return found

    def channels(self) -> tuple[Channel, ...]:
        """All channels by name."""
        return tuple(self.routing().channels.values())

    def log(self, channel: str) -> tuple[LogEntry, ...]:
        """What happened to a channel, oldest first; empty for one that never was."""
        with self._reading() as connection:
            return _log_rows(connection, channel)

    # ------------------------------------------------------------------------------------ splits

    def set_split(
        self,
        rooms: str,
        percent: Mapping[str, float],
        *,
        by: Literal["viewer", "room"] = "viewer",
        salt: str | None = None,
        note: str = "",
        actor: str = "",
    ) -> Split:
        """Share requests out to channels.

        Only as many units change their channel as the new percentages need; the others keep theirs.

        Args:
            rooms: a room's id, a pattern with ``*`` and ``?``, or ``*`` for all; the most specific counts.
            percent: channel -> percent, to a hundredth, 100 together.
            by: what always gets the same channel: a viewer, or a whole room.
            salt: changes who falls where; by default the pattern itself, or what it was.

        Raises:
            InputError: percentages that do not make 100.
            StoreError: a channel that does not exist.
        """
        wanted = shares(percent)
        with self._routing_change() as (connection, now):
            known = set(connection.scalars(sa.select(CHANNELS.c.name)))
            unknown = sorted(set(percent) - known)
            if unknown:
                raise StoreError(f"no channel {', '.join(map(repr, unknown))}; publish to it first")
            row = connection.execute(sa.select(SPLITS).where(SPLITS.c.rooms == rooms)).one_or_none()
            old = None if row is None else _split(row)
            version = self._split_version(connection, rooms) + 1
            salt = salt if salt is not None else old.salt if old else rooms
            runs = allocate(wanted, old.runs if old else ())
            split = Split(rooms=rooms, by=by, salt=salt, runs=runs, version=version)
            values = {"by": by, "salt": salt, "runs": json.dumps(runs), "version": version, "updated_at": now}
            if old is None:
                connection.execute(sa.insert(SPLITS).values(rooms=rooms, **values))
            else:
                connection.execute(sa.update(SPLITS).where(SPLITS.c.rooms == rooms).values(**values))
            self._log_split(connection, rooms, version, by, dict(percent), now, note, actor)
            return split

    def remove_split(self, rooms: str, *, note: str = "", actor: str = "") -> None:
        """Requests of these rooms go to the default channel again.

        Raises:
            StoreError: no such split.
        """
        with self._routing_change() as (connection, now):
            row = connection.execute(sa.select(SPLITS).where(SPLITS.c.rooms == rooms)).one_or_none()
            if row is None:
                raise StoreError(f"no split for {rooms!r} in {self.shown_url}")
            connection.execute(sa.delete(SPLITS).where(SPLITS.c.rooms == rooms))
            version = self._split_version(connection, rooms) + 1
            self._log_split(connection, rooms, version, row.by, {}, now, note, actor)

    @staticmethod
    def _split_version(connection: sa.Connection, rooms: str) -> int:
        latest = sa.select(sa.func.max(SPLIT_LOG.c.version)).where(SPLIT_LOG.c.rooms == rooms)
        return connection.scalar(latest) or 0

    @staticmethod
    def _log_split(
        connection: sa.Connection,
        rooms: str,
        version: int,
        by: str,
        percent: Mapping[str, float],
        now: float,
        note: str,
        actor: str,
    ) -> None:
        values = {"rooms": rooms, "version": version, "by": by, "at": now, "note": note, "actor": actor}
        connection.execute(sa.insert(SPLIT_LOG).values(percent=json.dumps(percent), **values))

    def splits(self) -> tuple[Split, ...]:
        """All splits, the most specific first."""
        return self.routing().splits

    def split_log(self, rooms: str) -> tuple[SplitEntry, ...]:
        """What happened to a split, oldest first."""
        query = sa.select(SPLIT_LOG).where(SPLIT_LOG.c.rooms == rooms).order_by(SPLIT_LOG.c.version)
        with self._reading() as connection:
            rows = connection.execute(query).mappings().all()
        return tuple(SplitEntry(**{**row, "percent": json.loads(row["percent"])}) for row in rows)

    # ----------------------------------------------------------------------------------- routing

    def routing(self) -> Routing:
        """Channels and splits as they are now, consistent with one another."""
        with self._reading() as connection, snapshot(connection):
            version = connection.scalar(sa.select(META.c.number).where(META.c.name == "routing")) or 0
            query = sa.select(CHANNELS).order_by(CHANNELS.c.name)
            channels = [Channel(**row) for row in connection.execute(query).mappings()]
            splits = [_split(row) for row in connection.execute(sa.select(SPLITS))]
        return Routing(
            version=version,
            channels={c.name: c for c in channels},
            splits=tuple(sorted(splits, key=lambda s: s.specificity)),
        )

    def routing_version(self) -> int:
        """Grows with every change of a channel or split, by whichever process."""
        with self._reading() as connection:
            return connection.scalar(sa.select(META.c.number).where(META.c.name == "routing")) or 0


# ------------------------------------------------------------------------------------------- rows


def _release(row: sa.Row[Any]) -> Release:
    manifest: list[tuple[str, str]] = json.loads(row.manifest)
    return Release(
        digest=row.digest,
        name=row.name,
        created_at=row.created_at,
        note=row.note,
        actor=row.actor,
        components=dict(manifest),
    )


def _split(row: sa.Row[Any]) -> Split:
    runs: list[tuple[str, int]] = json.loads(row.runs)
    return Split(
        rooms=row.rooms,
        by=row.by,
        salt=row.salt,
        runs=tuple((channel, count) for channel, count in runs),
        version=row.version,
    )


def _log_rows(connection: sa.Connection, channel: str) -> tuple[LogEntry, ...]:
    query = sa.select(CHANNEL_LOG).where(CHANNEL_LOG.c.channel == channel).order_by(CHANNEL_LOG.c.version)
    return tuple(LogEntry(**row) for row in connection.execute(query).mappings())


def _history(log: Sequence[LogEntry]) -> list[str]:
    """The releases that rolling back steps through, the current one last."""
    history: list[str] = []
    for entry in log:
        if entry.action == "rollback" and entry.release in history:
            while history[-1] != entry.release:
                history.pop()
        elif not history or history[-1] != entry.release:
            history.append(entry.release)
    return history


__all__ = [
    "BUCKETS",
    "DEFAULT_CHANNEL",
    "Channel",
    "LogEntry",
    "Publication",
    "Release",
    "ReleaseStore",
    "Routing",
    "Split",
    "SplitEntry",
]
