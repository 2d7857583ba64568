from __future__ import annotations

import random

import pytest

from livery.errors import InputError
from livery.harness.split import BUCKETS, Split, allocate, bucket, shares


def split(runs: tuple[tuple[str, int], ...], rooms: str = "*", by: str = "viewer", salt: str = "*") -> Split:
    return Split(rooms=rooms, by=by, salt=salt, runs=runs, version=1)  # type: ignore[arg-type]


def test_the_hash_is_the_same_everywhere() -> None:
    # Written down, so that a change of the hash, which would move every viewer, cannot pass unseen.
    assert [bucket("*", "*", unit) for unit in ("v1", "v2", "观众", "")] == [1797, 6881, 9795, 735]
    assert bucket("a", "bc", "d") != bucket("ab", "c", "d")


def test_units_fall_evenly() -> None:
    shared = split((("canary", 1000), ("stable", 9000)))
    count = sum(shared.channel("r", f"viewer-{n}") == "canary" for n in range(20_000))
    assert abs(count - 2000) < 4 * (20_000 * 0.1 * 0.9) ** 0.5


@pytest.mark.parametrize("seed", range(5))
def test_new_percentages_move_only_the_buckets_they_need(seed: int) -> None:
    rng = random.Random(seed)
    names = ["a", "b", "c", "d"]
    runs: tuple[tuple[str, int], ...] = ()
    before: list[str] = []
    for _ in range(6):
        cuts = sorted(rng.sample(range(1, BUCKETS), 3))
        wanted = dict(zip(names, (b - a for a, b in zip([0, *cuts], [*cuts, BUCKETS], strict=True)), strict=True))
        runs = allocate(wanted, runs)
        after = [name for name, count in runs for _ in range(count)]
        assert {name: after.count(name) for name in names} == wanted
        if before:
            moved = sum(x != y for x, y in zip(before, after, strict=True))
            needed = sum(max(0, before.count(name) - wanted[name]) for name in names)
            assert moved == needed
        before = after


def test_a_removed_channel_gives_its_buckets_away() -> None:
    runs = allocate({"a": 5000, "b": 5000})
    assert allocate({"b": BUCKETS}, runs) == (("b", BUCKETS),)


def test_shares_are_exact_to_a_hundredth_of_a_percent() -> None:
    assert shares({"a": 0.01, "b": 99.99, "c": 0}) == {"a": 1, "b": 9999}
    thirds = {"a": 33.33, "b": 33.33, "c": 33.34}
    assert split(allocate(shares(thirds))).percent == thirds


@pytest.mark.parametrize("percent", [{"a": 99}, {"a": 101}, {"a": -1, "b": 101}, {"a": 0.005, "b": 99.995}, {}])
def test_shares_that_do_not_make_100_are_refused(percent: dict[str, float]) -> None:
    with pytest.raises(InputError):
        shares(percent)


def test_by_room_all_viewers_of_a_room_go_together() -> None:
    halves = allocate({"a": 5000, "b": 5000})
    by_room, by_viewer = split(halves, by="room"), split(halves)
    viewers = [f"v{n}" for n in range(50)]
    assert len({by_room.channel("room-1", v) for v in viewers}) == 1
    assert len({by_viewer.channel("room-1", v) for v in viewers}) == 2
    assert by_viewer.channel("room-1", "") == by_room.channel("room-1", "")


def test_the_most_specific_split_comes_first() -> None:
    rooms = ["*", "shop-*", "shop-7", "shop-7*", "shop-?"]
    ordered = sorted((split((("a", BUCKETS),), rooms=r) for r in rooms), key=lambda s: s.specificity)
    assert [s.rooms for s in ordered] == ["shop-7", "shop-7*", "shop-?", "shop-*", "*"]
    assert [s.rooms for s in ordered if s.covers("shop-71")] == ["shop-7*", "shop-*", "*"]
