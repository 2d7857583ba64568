"""Fixtures of the harness tests."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from typing import Any

import pytest

from livery.harness.hooks.decisions import HookContext
from livery.harness.model import Harness, Section
from livery.harness.store import ReleaseStore
from livery.types import ChatMessage, Request, RoomState


@pytest.fixture
def bare_harness() -> Harness:
    """The least a harness can be: one section."""
    return Harness(name="bare", sections=(Section(key="role", template="You host a shop."),))


@pytest.fixture
def bare_request() -> Request:
    message = ChatMessage(id="m1", room="r", viewer="v1", text="How much is the blue mug?", at=0.0)
    state = RoomState(room="r", language="en", now=0.0)
    return Request(id="q1", messages=(message,), state=state, created_at=0.0)


@pytest.fixture
def bare_context(bare_harness: Harness, bare_request: Request) -> HookContext:
    params: dict[str, Any] = {}
    return HookContext(harness=bare_harness, request=bare_request, params=params)


def postgres_bin() -> Path | None:
    found = shutil.which("initdb") or next(iter(sorted(glob("/usr/lib/postgresql/*/bin/initdb"))), None)
    return Path(found).parent if found else None


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A throw-away PostgreSQL server, where its programs and psycopg are installed."""
    pytest.importorskip("psycopg")
    programs = postgres_bin()
    if programs is None:
        pytest.skip("no PostgreSQL server programs here")
    user = "postgres" if os.geteuid() == 0 else None  # the server refuses to run as root
    folder = tmp_path_factory.mktemp("postgres")
    if user:
        for parent in (folder, *folder.parents[:2]):
            parent.chmod(0o755)
        shutil.chown(folder, user)
    data = folder / "data"
    initdb = [programs / "initdb", "-D", data, "-U", "livery", "-A", "trust", "--no-sync", "-E", "UTF8"]
    subprocess.run(initdb, check=True, capture_output=True, timeout=60, user=user, cwd=folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ("-p", str(port), "-h", "127.0.0.1", "-F", "-k", str(folder))
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, *options], stdout=log, stderr=log, user=user, cwd=folder
        )
    url = f"postgresql://livery@127.0.0.1:{port}/postgres"
    try:
        _wait_for(url, server, folder / "log")
        yield url
    finally:
        server.send_signal(signal.SIGQUIT)  # an immediate shutdown: nothing here is worth a checkpoint
        try:
            server.wait(timeout=30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(timeout=30)


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    end = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > end:
                pytest.fail(f"PostgreSQL did not start: {log.read_text()}")
            time.sleep(0.02)


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store's URL, once for each database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    url = request.getfixturevalue("postgres_url")
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return url


@pytest.fixture
def ticks() -> Iterator[float]:
    return iter(float(n) for n in range(1000, 100_000))


@pytest.fixture
def store(store_url: str, ticks: Iterator[float]) -> Iterator[ReleaseStore]:
    """An empty store whose clock gives 1000, 1001, ..."""
    with ReleaseStore(store_url, clock=lambda: next(ticks)) as opened:
        yield opened
