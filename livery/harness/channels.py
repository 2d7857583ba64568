"""Which release a request gets: room and viewer -> channel -> release, as it is at this moment.

A `Router` looks for a change at every pick, by a test of some microseconds, and reads channels and splits
again only when there was one; so a publish, here or in another process, counts from the next pick on. A
request keeps the `Picked` it began with. When the store cannot be read, the last known routing is used: a
database hiccup loses no request.
"""

from __future__ import annotations

import logging
import select
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from livery.errors import StoreError
from livery.harness.database import BUSY_S, NOTIFY
from livery.harness.store import DEFAULT_CHANNEL, ReleaseStore, Routing

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger(__name__)

_RECONNECT_S = 0.5
_POLL_S = 0.01
"""How old the routing may be while PostgreSQL's notifications do not arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """What a request runs under, from its start to its end."""

    release: str
    channel: str
    version: int
    """The channel's version."""


class Watch(Protocol):
    """Tells whether the routing may have changed."""

    def token(self) -> object:
        """A value that differs from an earlier one if there was a change between. Cheap; any thread."""
        ...

    def close(self) -> None: ...


class Router:
    """Picks releases. One per process; use it from any thread."""

    def __init__(self, store: ReleaseStore, *, default: str = DEFAULT_CHANNEL, watch: Watch | None = None) -> None:
        """
        Args:
            default: the channel of rooms that no split covers.

        Raises:
            StoreError: the store cannot be read.
        """
        self.store = store
        self.default = default
        self._lock = threading.Lock()
        self._watch = watch if watch is not None else watch_changes(store)
        self._token = self._watch.token()  # before the reading: a change in between is then seen again
        self._routing = store.routing()

    def close(self) -> None:
        self._watch.close()

    def __enter__(self) -> Router:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def routing(self) -> Routing:
        """Channels and splits as of now."""
        try:
            token = self._watch.token()
            if token != self._token:
                with self._lock:
                    self._routing = self.store.routing()
                    self._token = token
        except (StoreError, sqlite3.Error) as error:
            log.warning("cannot read the routing, going on with version %d: %s", self._routing.version, error)
        return self._routing

    def pick(self, room: str, viewer: str = "") -> Picked:
        """The release for a request.

        Args:
            room: the room's id.
            viewer: the lead message's viewer; empty: only the room counts.

        Raises:
            StoreError: nothing was published on the channel.
        """
        routing = self.routing
        name = self.default
        for split in routing.splits:
            if split.covers(room):
                name = split.channel(room, viewer)
                break
        channel = routing.channels.get(name)
        if channel is None:
            raise StoreError(f"nothing is published on channel {name!r} of {self.store.shown_url}")
        return Picked(release=channel.release, channel=channel.name, version=channel.version)


def watch_changes(store: ReleaseStore) -> Watch:
    """The cheapest way to learn of a change in this store."""
    if store.url.get_backend_name() == "sqlite":
        return SqliteWatch(store)
    return PostgresWatch(store)


class SqliteWatch:
    """``PRAGMA data_version`` on a connection of its own: it changes with every commit of any other."""

    def __init__(self, store: ReleaseStore) -> None:
        assert store.url.database
        self._lock = threading.Lock()
        # autocommit, so that no read transaction is left open which would hide later commits
        self._connection = sqlite3.connect(
            store.url.database, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        self._cursor = self._connection.cursor()

    def token(self) -> object:
        with self._lock:
            return self._cursor.execute("PRAGMA data_version").fetchone()[0]

    def close(self) -> None:
        with self._lock:
            self._connection.close()


class PostgresWatch:
    """LISTEN on a connection of its own, whose socket is looked at when asked: a listening thread would be
    starved by a busy event loop. While that connection is away, the routing's version is read instead, and a
    thread connects again."""

    def __init__(self, store: ReleaseStore, *, clock: Callable[[], float] = time.monotonic) -> None:
        import psycopg  # an extra: only fleets need it

        self._psycopg = psycopg
        self._store = store
        self._clock = clock
        self._dsn = store.url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None
        self._heard = 0
        self._version = 0
        self._polled = float("-inf")
        self._connecting = False
        self._closed = threading.Event()
        try:
            self._connection = self._connected()
        except psycopg.Error as error:
            raise StoreError(f"cannot listen to {store.shown_url}: {error}") from error

    def token(self) -> object:
        with self._lock:
            if self._connection is not None:
                try:
                    self._hear(self._connection)
                except self._psycopg.Error as error:
                    log.warning("notifications of %s are lost: %s", self._store.shown_url, error)
                    self._connection.close()
                    self._connection = None
            if self._connection is None:
                self._reconnect()
                if self._clock() - self._polled >= _POLL_S:
                    self._version = self._store.routing_version()
                    self._polled = self._clock()
            return self._heard, self._version, self._store.local_changes

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _connected(self) -> psycopg.Connection[tuple[object, ...]]:
        # The time-outs make a link that died without a word an error within seconds.
        connection = self._psycopg.connect(
            self._dsn, autocommit=True, connect_timeout=5, keepalives_idle=5, tcp_user_timeout=5000
        )
        connection.execute(f"LISTEN {NOTIFY}")
        return connection

    def _hear(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        pgconn = connection.pgconn
        while select.select((pgconn.socket,), (), (), 0)[0]:  # again: the end of a lost link comes last
            pgconn.consume_input()
            while pgconn.notifies() is not None:
                self._heard += 1

    def _reconnect(self) -> None:
        if not self._connecting and not self._closed.is_set():
            self._connecting = True
            threading.Thread(target=self._connect_again, name="livery-listen", daemon=True).start()

    def _connect_again(self) -> None:
        while not self._closed.is_set():
            try:
                connection = self._connected()
            except self._psycopg.Error:
                self._closed.wait(_RECONNECT_S)
                continue
            with self._lock:
                if self._closed.is_set():
                    connection.close()
                    return
                self._connection = connection
                self._heard += 1  # whatever was published while nobody listened
                self._connecting = False
            return
