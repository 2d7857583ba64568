"""The release store's tables, and how SQLite and PostgreSQL are opened for it.

What the rows mean is `livery.harness.store`.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url

from livery.errors import StoreError

NOTIFY = "livery_routing"
"""PostgreSQL notification sent when a channel or split changes."""

BUSY_S = 10.0
"""Longest wait for another writer of the same SQLite file."""

METADATA = sa.MetaData()
META = sa.Table(
    "livery_meta",
    METADATA,
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
)
"""``schema``: version of these tables. ``routing``: grows with every change of a channel or split."""
COMPONENT_ROWS = sa.Table(
    "components",
    METADATA,
    sa.Column("digest", sa.String, primary_key=True),
    sa.Column("content", sa.Text, nullable=False),
)
RELEASES = sa.Table(
    "releases",
    METADATA,
    sa.Column("digest", sa.String, primary_key=True),
    sa.Column("manifest", sa.Text, nullable=False),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("actor", sa.String, nullable=False),
)
CHANNELS = sa.Table(
    "channels",
    METADATA,
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("release", sa.String, sa.ForeignKey("releases.digest"), nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.Float, nullable=False),
)
CHANNEL_LOG = sa.Table(
    "channel_log",
    METADATA,
    sa.Column("channel", sa.String, primary_key=True),
    sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("action", sa.String, nullable=False),
    sa.Column("release", sa.String, sa.ForeignKey("releases.digest"), nullable=False),
    sa.Column("previous", sa.String, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("actor", sa.String, nullable=False),
)
SPLITS = sa.Table(
    "splits",
    METADATA,
    sa.Column("rooms", sa.String, primary_key=True),
    sa.Column("by", sa.String, nullable=False),
    sa.Column("salt", sa.String, nullable=False),
    sa.Column("runs", sa.Text, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.Float, nullable=False),
)
SPLIT_LOG = sa.Table(
    "split_log",
    METADATA,
    sa.Column("rooms", sa.String, primary_key=True),
    sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("by", sa.String, nullable=False),
    sa.Column("percent", sa.Text, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("actor", sa.String, nullable=False),
)


# ---------------------------------------------------------------------------------------- engines


def parsed_url(url: str | Path) -> URL:
    text = str(url)
    if "://" not in text:
        return URL.create("sqlite", database=text)
    parsed = make_url(text)
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise StoreError(f"a release store is SQLite or PostgreSQL; found {parsed.get_backend_name()!r}")
    return parsed


def open_engine(url: URL) -> sa.Engine:
    if url.get_backend_name() == "postgresql":
        return sa.create_engine(url, pool_pre_ping=True)
    if not url.database or url.database == ":memory:":
        raise StoreError("a release store in SQLite is a file; found no path")
    Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_S})

    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: object) -> None:  # pyright: ignore[reportUnusedFunction]
        connection.isolation_level = None  # transactions begin where we say, see below
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def on_begin(connection: sa.Connection) -> None:  # pyright: ignore[reportUnusedFunction]
        if connection.get_execution_options().get("livery_write"):
            # IMMEDIATE: a transaction that reads and then writes must not find that another wrote between.
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


@contextmanager
def snapshot(connection: sa.Connection) -> Generator[None]:
    """All reads inside see one state."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN")
        try:
            yield
        finally:
            connection.exec_driver_sql("COMMIT")
    else:
        connection.execute(sa.text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
        yield


def use_wal(database: str) -> None:
    """WAL is a lasting property of the file. Two processes that make a store at once may find it locked for a
    moment, and SQLite does not wait by itself for this one statement."""
    end = time.monotonic() + BUSY_S
    while True:
        connection = sqlite3.connect(database, timeout=BUSY_S)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)
        finally:
            connection.close()


def insert_into(connection: sa.Connection, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)
