from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from livery.errors import InputError, StoreError
from livery.harness.digest import component_digests, harness_digest
from livery.harness.model import Binding, Harness, Hook, Limits, McpServer, Section, Skill, SkillFile, Tool
from livery.harness.store import Publication, ReleaseStore
from livery.types import Checkpoint


@pytest.fixture
def full_harness() -> Harness:
    """Something of every kind, with text that an encoding would hurt."""
    return Harness(
        name="full",
        language="zh",
        sections=(
            Section(key="role", template="你是主播。\n\n{{ x }}"),
            Section(key="b", template="\u2028'\"\\"),
        ),
        skills=(
            Skill(
                key="价格",
                name="price",
                description="问价",
                body="# 价格\n",
                kind="reply",
                metadata={"z": "1", "a": "2"},
                extra={"when_to_use": ["x", {"y": 1.5}]},
                files=(SkillFile(path="a/b.txt", content="ok"),),
            ),
        ),
        tools=(
            Tool(
                key="t",
                name="look_up",
                description="d",
                input_schema={
                    "type": "object",
                    "properties": {"z": {"type": "string"}, "a": {"type": "number"}},
                },
                binding=Binding(operation="catalog.search"),
                timeout_s=3.0,
            ),
        ),
        hooks=(
            Hook(
                key="h",
                checkpoint=Checkpoint.REPLY,
                kind="rules",
                on_failure="block",
                params={"rules": [{"then": "allow", "when": {"length_over": 5}}]},
            ),
        ),
        servers=(McpServer(name="crm", transport="stdio", command=("crm", "--x")),),
        limits=Limits(rounds=3),
    )


def named(harness: Harness, text: str) -> Harness:
    """The harness with other wording, so another release."""
    return harness.replace(sections=(Section(key="role", template=text),))


def test_a_release_comes_back_equal_and_property_order_survives(
    store: ReleaseStore, store_url: str, full_harness: Harness
) -> None:
    digest = store.put(full_harness, note="first", actor="ann")
    assert digest == harness_digest(full_harness)
    with ReleaseStore(store_url) as other:
        loaded = other.load(digest)
        assert loaded == full_harness
        assert list(loaded.tools[0].input_schema["properties"]) == ["z", "a"]
        assert other.load(digest) is loaded
        release = other.release(digest)
    assert (release.name, release.note, release.actor, release.created_at) == ("full", "first", "ann", 1000.0)
    assert release.components == component_digests(full_harness)
    assert list(release.components) == list(component_digests(full_harness))


def test_putting_again_changes_nothing_and_equal_components_are_stored_once(
    store: ReleaseStore, full_harness: Harness
) -> None:
    first = store.put(full_harness, note="first")
    assert store.put(full_harness, note="second") == first
    assert store.release(first).note == "first"
    changed = full_harness.replace(limits=Limits(rounds=4))
    second = store.put(changed)
    assert second != first
    assert [r.digest for r in store.releases()] == [second, first]
    distinct = {*component_digests(full_harness).values(), *component_digests(changed).values()}
    with store._engine.connect() as connection:
        count = connection.scalar(sa.text("SELECT count(*) FROM components"))
    assert count == len(distinct) == len(component_digests(full_harness)) + 1


def test_loading_what_is_not_there_says_so(store: ReleaseStore) -> None:
    with pytest.raises(StoreError, match="no release 'sha256:00'"):
        store.load("sha256:00")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("DELETE FROM components WHERE content LIKE '%length_over%'", "no content for hooks/h"),
        ("UPDATE components SET content = replace(content, 'length_over', 'length_undr')", "has the digest"),
        ("UPDATE components SET content = '{'", "damaged"),
        ("UPDATE components SET content = '{\"a\": 1}'", "damaged"),
    ],
)
def test_a_damaged_release_is_never_loaded(store: ReleaseStore, full_harness: Harness, damage: str, words: str) -> None:
    digest = store.put(full_harness)
    with store._write_engine.begin() as connection:
        connection.execute(sa.text(damage))
    with pytest.raises(StoreError, match=words):
        store.load(digest)


def test_publishing_moves_the_channel_and_logs_it(store: ReleaseStore, bare_harness: Harness) -> None:
    a, b = named(bare_harness, "a"), named(bare_harness, "b")
    first = store.publish("stable", a, note="first", actor="ann")
    second = store.publish("stable", store.put(b), note="second", actor="bob")
    at = [entry.at for entry in store.log("stable")]
    a_digest, b_digest = harness_digest(a), harness_digest(b)
    assert first == Publication(channel="stable", release=a_digest, previous="", version=1, at=at[0])
    assert second == Publication(channel="stable", release=b_digest, previous=a_digest, version=2, at=at[1])
    channel = store.channel("stable")
    assert (channel.release, channel.version, channel.updated_at) == (b_digest, 2, at[1])
    assert [(e.version, e.action, e.release, e.previous, e.note, e.actor) for e in store.log("stable")] == [
        (1, "publish", a_digest, "", "first", "ann"),
        (2, "publish", b_digest, a_digest, "second", "bob"),
    ]
    store.publish("canary", a)
    assert [c.name for c in store.channels()] == ["canary", "stable"]
    assert store.log("nowhere") == ()


def test_publishing_with_an_expectation_is_compare_and_set(store: ReleaseStore, bare_harness: Harness) -> None:
    a, b, c = (store.put(named(bare_harness, text)) for text in "abc")
    store.publish("stable", a, expected="")
    with pytest.raises(StoreError, match=r"points at sha256:\w+, not at nothing"):
        store.publish("stable", b, expected="")
    store.publish("stable", b, expected=a)
    with pytest.raises(StoreError, match="somebody published meanwhile"):
        store.publish("stable", c, expected=a)
    assert store.channel("stable").release == b
    assert len(store.log("stable")) == 2


def test_of_many_publishers_with_one_expectation_one_wins(store: ReleaseStore, bare_harness: Harness) -> None:
    digests = [store.put(named(bare_harness, str(n))) for n in range(6)]
    base = store.publish("stable", digests[0]).release
    outcomes: list[str] = []
    start = threading.Barrier(5)

    def publish(digest: str) -> None:
        start.wait(timeout=30)
        try:
            outcomes.append(store.publish("stable", digest, expected=base).release)
        except StoreError:
            outcomes.append("conflict")

    threads = [threading.Thread(target=publish, args=(d,)) for d in digests[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert outcomes.count("conflict") == 4
    assert store.channel("stable").release in outcomes
    assert store.channel("stable").version == 2


def test_a_channel_name_must_be_one(store: ReleaseStore, bare_harness: Harness) -> None:
    for name in ("", "Stable", "a b", "../x", "-a", "a" * 65):
        with pytest.raises(InputError, match="expected 1-64"):
            store.publish(name, bare_harness)


def test_an_unknown_release_cannot_be_published(store: ReleaseStore) -> None:
    with pytest.raises(StoreError, match="no release"):
        store.publish("stable", "sha256:11")
    assert store.channels() == ()


def test_rolling_back_twice_goes_two_releases_back(store: ReleaseStore, bare_harness: Harness) -> None:
    a, b, c, d = (store.put(named(bare_harness, text)) for text in "abcd")
    for digest in (a, b, c):
        store.publish("stable", digest)
    assert store.rollback("stable", note="oops", actor="ann").release == b
    assert store.rollback("stable").release == a
    with pytest.raises(StoreError, match="has 0 earlier releases, not 1"):
        store.rollback("stable")
    store.publish("stable", d)
    assert store.rollback("stable").release == a
    assert [(e.action, e.release) for e in store.log("stable")][3:] == [
        ("rollback", b),
        ("rollback", a),
        ("publish", d),
        ("rollback", a),
    ]
    assert store.log("stable")[3].note == "oops"
    assert store.channel("stable").version == 7


def test_rolling_back_by_steps_or_to_a_release(store: ReleaseStore, bare_harness: Harness) -> None:
    a, b, c, d = (store.put(named(bare_harness, text)) for text in "abcd")
    for digest in (a, b, b, c):
        store.publish("stable", digest)
    assert store.rollback("stable", steps=2).release == a
    assert store.rollback("stable", to=c).release == c
    with pytest.raises(StoreError, match="never pointed at"):
        store.rollback("stable", to=d)
    with pytest.raises(StoreError, match="no channel 'canary'"):
        store.rollback("canary")
    with pytest.raises(InputError):
        store.rollback("stable", steps=0)


def test_what_a_person_means_by_a_release(store: ReleaseStore, bare_harness: Harness) -> None:
    digest = store.publish("stable", bare_harness).release
    hexadecimal = digest.removeprefix("sha256:")
    for reference in ("stable", digest, hexadecimal, hexadecimal[:6], "sha256:" + hexadecimal[:9].upper()):
        assert store.resolve(reference) == digest
    with pytest.raises(StoreError, match="at least six"):
        store.resolve(hexadecimal[:5])
    with pytest.raises(StoreError, match="no release"):
        store.resolve("0123456789abcdef")


def test_splits_are_stored_versioned_and_logged(store: ReleaseStore, bare_harness: Harness) -> None:
    store.publish("stable", bare_harness)
    store.publish("canary", bare_harness)
    first = store.set_split("*", {"stable": 90, "canary": 10}, note="try", actor="ann")
    second = store.set_split("*", {"stable": 70, "canary": 30}, by="room")
    assert (first.version, second.version, second.by) == (1, 2, "room")
    assert second.percent == {"stable": 70.0, "canary": 30.0}
    assert store.splits() == (second,)
    store.remove_split("*")
    assert store.splits() == ()
    assert store.set_split("*", {"canary": 100}).version == 4
    assert [(e.version, dict(e.percent), e.note) for e in store.split_log("*")] == [
        (1, {"stable": 90, "canary": 10}, "try"),
        (2, {"stable": 70, "canary": 30}, ""),
        (3, {}, ""),
        (4, {"canary": 100}, ""),
    ]


def test_a_split_needs_channels_that_exist_and_a_hundred_percent(store: ReleaseStore, bare_harness: Harness) -> None:
    store.publish("stable", bare_harness)
    with pytest.raises(StoreError, match="no channel 'canary'"):
        store.set_split("*", {"stable": 50, "canary": 50})
    with pytest.raises(InputError, match="make 50; expected 100"):
        store.set_split("*", {"stable": 50})
    with pytest.raises(StoreError, match="no split"):
        store.remove_split("*")
    assert store.split_log("*") == ()


def test_the_routing_version_counts_only_real_changes(store: ReleaseStore, bare_harness: Harness) -> None:
    assert store.routing_version() == 0
    digest = store.put(bare_harness)
    assert store.routing_version() == 0
    store.publish("stable", digest)
    with pytest.raises(StoreError):
        store.publish("stable", digest, expected="")
    assert store.routing_version() == store.routing().version == 1


def test_a_path_is_a_sqlite_store_and_its_folder_is_made(tmp_path: Path, bare_harness: Harness) -> None:
    path = tmp_path / "deep" / "down" / "releases.db"
    with ReleaseStore(path) as store:
        store.publish("stable", bare_harness)
    assert sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_store_that_cannot_be_opened_says_why_and_hides_the_password(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot open"):
        ReleaseStore(tmp_path / "file" / "store.db")
    (tmp_path / "not.db").write_text("this is not a database, and long enough to be taken for one" * 10)
    with pytest.raises(StoreError, match="not a database"):
        ReleaseStore(tmp_path / "not.db")
    with pytest.raises(StoreError, match="SQLite or PostgreSQL; found 'mysql'"):
        ReleaseStore("mysql://a@b/c")
    with pytest.raises(StoreError, match="is a file"):
        ReleaseStore("sqlite://")


def test_a_postgres_store_that_is_away_says_so_without_its_password() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError, match=r"ann:\*\*\*@127") as caught:
        ReleaseStore("postgresql://ann:secret@127.0.0.1:1/x")
    assert "secret" not in str(caught.value)


def test_a_store_of_a_newer_livery_is_refused(store: ReleaseStore, store_url: str) -> None:
    with store._write_engine.begin() as connection:
        connection.execute(sa.text("UPDATE livery_meta SET number = 99 WHERE name = 'schema'"))
    with pytest.raises(StoreError, match="has schema 99"):
        ReleaseStore(store_url)


def test_many_processes_may_make_the_same_store_at_once(store_url: str) -> None:
    code = "import sys; from livery.harness.store import ReleaseStore; ReleaseStore(sys.argv[1]).channels()"
    making = [subprocess.Popen([sys.executable, "-c", code, store_url], stderr=subprocess.PIPE) for _ in range(3)]
    for process in making:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors.decode()


PUBLISHER = """
import sys
from livery.harness.model import Harness, Section
from livery.harness.store import ReleaseStore
store = ReleaseStore(sys.argv[1])
for n in range(10**6):
    section = Section(key="role", template=f"wording {n} " * 50)
    published = store.publish("stable", Harness(name="x", sections=(section,)))
    print(published.version, published.release, flush=True)
"""


@pytest.mark.parametrize("after", [1, 7, 20])
def test_kill_9_at_any_moment_loses_no_acknowledged_release(store_url: str, after: int) -> None:
    process = subprocess.Popen([sys.executable, "-c", PUBLISHER, store_url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        acknowledged = [process.stdout.readline().split() for _ in range(after)]
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()
        whole = rest[: rest.rfind("\n") + 1]
        acknowledged += [line.split() for line in whole.splitlines()]
    finally:
        watchdog.cancel()
        process.kill()
        process.wait(timeout=30)
        process.stdout.close()
    with ReleaseStore(store_url) as store:
        log = store.log("stable")
        assert [[str(e.version), e.release] for e in log[: len(acknowledged)]] == acknowledged
        assert len(log) - len(acknowledged) in (0, 1)  # the one in flight either counts whole or not at all
        assert (store.channel("stable").version, store.channel("stable").release) == (
            len(log),
            log[-1].release,
        )
        for entry in log:
            assert harness_digest(store.load(entry.release)) == entry.release
        store.publish("stable", log[0].release)
