from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from livery.errors import StoreError
from livery.harness.channels import Picked, PostgresWatch, Router, SqliteWatch
from livery.harness.model import Harness, Section
from livery.harness.store import ReleaseStore, Routing


def named(harness: Harness, text: str) -> Harness:
    return harness.replace(sections=(Section(key="role", template=text),))


def test_a_room_without_a_split_gets_the_default_channel(store: ReleaseStore, bare_harness: Harness) -> None:
    digest = store.publish("stable", bare_harness).release
    with Router(store) as router:
        assert router.pick("room", "v") == Picked(release=digest, channel="stable", version=1)
        assert store.load(router.pick("room").release) == bare_harness


def test_nothing_published_is_an_error_that_says_so(store: ReleaseStore) -> None:
    with Router(store, default="night") as router, pytest.raises(StoreError, match="channel 'night'"):
        router.pick("room")


def test_own_publishes_rollbacks_and_splits_count_at_the_next_pick(store: ReleaseStore, bare_harness: Harness) -> None:
    a, b = (store.put(named(bare_harness, text)) for text in "ab")
    store.publish("stable", a)
    with Router(store) as router:
        assert router.pick("r").release == a
        store.publish("stable", b)
        assert router.pick("r").release == b
        store.rollback("stable")
        assert router.pick("r").release == a
        store.publish("canary", b)
        assert router.pick("r").channel == "stable"
        store.set_split("r*", {"canary": 100})
        assert (router.pick("r").channel, router.pick("s").channel) == ("canary", "stable")
        store.set_split("r1", {"stable": 100})
        assert (router.pick("r1").channel, router.pick("r2").channel) == ("stable", "canary")
        store.remove_split("r*")
        assert router.pick("r2").channel == "stable"


def test_picks_are_constant_and_the_same_in_another_process(
    store: ReleaseStore, store_url: str, bare_harness: Harness
) -> None:
    store.publish("stable", bare_harness)
    store.publish("canary", named(bare_harness, "new"))
    store.set_split("*", {"stable": 60, "canary": 40})
    viewers = [f"viewer-{n}" for n in range(60)]
    with Router(store) as router:
        here = [router.pick(f"room-{n}", v).channel for n, v in enumerate(viewers)]
        assert here == [router.pick("another", v).channel for v in viewers]
    code = (
        "import sys\n"
        "from livery.harness.store import ReleaseStore\n"
        "from livery.harness.channels import Router\n"
        "router = Router(ReleaseStore(sys.argv[1]))\n"
        "print(*[router.pick('third', f'viewer-{n}').channel for n in range(60)])"
    )
    there = subprocess.run(
        [sys.executable, "-c", code, store_url], capture_output=True, text=True, timeout=60, check=True
    )
    assert there.stdout.split() == here
    assert {"stable", "canary"} == set(here)


def test_a_changed_split_moves_only_who_must(store: ReleaseStore, bare_harness: Harness) -> None:
    for channel in ("stable", "canary", "beta"):
        store.publish(channel, named(bare_harness, channel))
    store.set_split("*", {"stable": 80, "canary": 10, "beta": 10})
    viewers = [f"viewer-{n}" for n in range(500)]
    with Router(store) as router:
        before = [router.pick("r", v).channel for v in viewers]
        store.set_split("*", {"stable": 70, "canary": 20, "beta": 10})
        after = [router.pick("r", v).channel for v in viewers]
    moves = {(x, y) for x, y in zip(before, after, strict=True) if x != y}
    assert moves == {("stable", "canary")}


class BrokenWatch:
    """A watch whose database is away while ``broken`` is set."""

    def __init__(self, store: ReleaseStore) -> None:
        self.store, self.broken = store, False

    def token(self) -> object:
        if self.broken:
            raise StoreError("database away")
        return self.store.local_changes

    def close(self) -> None:
        pass


def test_a_store_that_is_away_loses_no_request(store: ReleaseStore, bare_harness: Harness) -> None:
    a, b = (store.put(named(bare_harness, text)) for text in "ab")
    store.publish("stable", a)
    watch = BrokenWatch(store)
    router = Router(store, watch=watch)
    watch.broken = True
    store.publish("stable", b)
    assert router.pick("r").release == a
    watch.broken = False
    assert router.pick("r").release == b


def test_unrelated_picks_do_not_read_the_store_again(
    store: ReleaseStore, bare_harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.publish("stable", bare_harness)
    watch = BrokenWatch(store)
    router = Router(store, watch=watch)
    reads: list[int] = []
    routing = store.routing

    def counted() -> Routing:
        reads.append(1)
        return routing()

    monkeypatch.setattr(store, "routing", counted)
    for _ in range(100):
        router.pick("r", "v")
    assert reads == []
    store.publish("stable", bare_harness)
    for _ in range(100):
        router.pick("r", "v")
    assert len(reads) == 1


def test_each_database_has_its_own_watch(store: ReleaseStore, store_url: str, bare_harness: Harness) -> None:
    store.publish("stable", bare_harness)
    with Router(store) as router:
        expected = SqliteWatch if store_url.startswith("sqlite") else PostgresWatch
        assert isinstance(router._watch, expected)


def test_a_postgres_watch_goes_on_while_its_connection_is_away(postgres_url: str, bare_harness: Harness) -> None:
    import psycopg

    now = [0.0]
    with ReleaseStore(postgres_url) as store, ReleaseStore(postgres_url) as elsewhere:
        a, b, c = (elsewhere.put(named(bare_harness, text)) for text in "abc")
        elsewhere.publish("watched", a)
        watch = PostgresWatch(store, clock=lambda: now[0])
        with Router(store, default="watched", watch=watch) as router:
            assert router.pick("r").release == a
            lost = watch._connection
            assert lost is not None
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                pid = lost.info.backend_pid
                connection.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
            elsewhere.publish("watched", b)
            assert router.pick("r").release == b
            for thread in threading.enumerate():
                if thread.name == "livery-listen":
                    thread.join(timeout=30)
            assert watch._connection is not None
            assert watch._connection is not lost
            elsewhere.publish("watched", c)
            assert router.pick("r").release == c
