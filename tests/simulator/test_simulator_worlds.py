"""Worlds: valid shops of every seed, rich enough, and train and test with nothing in common."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import timedelta
from pathlib import Path

import pytest

from livery.errors import InputError
from livery.shop.catalogue import PromotionKind, Status, faults
from livery.simulator.task import WorldRef
from livery.simulator.worlds import World, allowed, make_world, near, world_of

SEEDS = range(200)
STORES = Path(__file__).parents[2] / "stores"

Worlds = dict[tuple[str, str], list[World]]


@pytest.fixture(scope="module")
def worlds() -> Worlds:
    return {
        (split, language): [make_world(split, language, seed) for seed in SEEDS]
        for split in ("train", "test")
        for language in ("en", "zh")
    }


def test_every_world_can_be_served_and_is_as_large_as_promised(worlds: Worlds):
    for (_, language), made in worlds.items():
        for world in made:
            shop = world.catalogue
            assert not list(faults(shop))
            assert shop.chinese == (language == "zh")
            assert 12 <= len(shop.products) <= 30
            assert len({p.category for p in shop.products}) >= 12


def test_every_world_has_what_tasks_live_on(worlds: Worlds):
    for made in worlds.values():
        for world in made:
            shop, opens, closes = world.catalogue, world.opens_at, world.opens_at + world.length
            statuses = Counter(p.status for p in shop.products)
            assert statuses[Status.DISCONTINUED] == 1
            assert statuses[Status.UPCOMING] == 1
            assert statuses[Status.SOLD_OUT] == 1
            assert any(p.status is Status.ON_SALE and not p.total_stock for p in shop.products)
            active = {p.kind for p in shop.promotions if p.active(opens)}
            assert active == set(PromotionKind)
            assert any(p.ends_at and p.ends_at < opens for p in shop.promotions), "none has ended"
            assert any(p.upcoming(closes) for p in shop.promotions), "none is still to come"
            assert any(p.ends_at and opens < p.ends_at < closes for p in shop.promotions), "none ends on air"
            assert any(p.starts_at and opens < p.starts_at < closes for p in shop.promotions), "none begins on air"
            assert {c.stackable for c in shop.coupons} == {True, False}
            assert any(c.cap for c in shop.coupons)
            assert any(c.members_only for c in shop.coupons)
            assert any(not c.public for c in shop.coupons)
            assert any(not c.active(opens) for c in shop.coupons)
            assert len(shop.shipping.regions) >= 3
            assert shop.shipping.excluded
            assert len(shop.policies) >= 6
            assert all(len(p.faq) == 2 for p in shop.products)


def test_every_world_has_links_that_one_name_fits(worlds: Worlds):
    for made in worlds.values():
        for world in made:
            aliases = Counter(a for p in world.catalogue.products for a in set(p.aliases))
            assert max(aliases.values()) > 1
            names = [p.name for p in world.catalogue.products]
            assert len(set(names)) == len(names)


def test_stock_is_gone_low_and_plenty(worlds: Worlds):
    for made in worlds.values():
        left = [v.stock for w in made for p in w.catalogue.products for v in p.variants]
        assert min(left) == 0
        assert sum(0 < n <= 5 for n in left) > len(left) / 20
        assert sum(n > 5 for n in left) > len(left) / 2


def test_a_world_is_rebuilt_bit_for_bit():
    first, again = make_world("train", "zh", 7), make_world("train", "zh", 7)
    assert first == again
    assert first.catalogue.model_dump_json() == again.catalogue.model_dump_json()
    assert make_world("train", "zh", 8).catalogue != first.catalogue


# ------------------------------------------------------------------------- train and test apart


def words_of(world: World) -> dict[str, set[str]]:
    """Everything written in a world, by what it is; numbers masked, so that sentences can be compared."""
    shop = world.catalogue
    mask = re.compile(r"\d+(?:\.\d+)?")
    return {
        "names": {p.name for p in shop.products},
        "name words": {w.casefold() for p in shop.products for w in p.name.split()},
        "aliases": {a for p in shop.products for a in p.aliases},
        "options": {v for p in shop.products for x in p.variants for n, v in x.options.items() if n not in ("size", "尺码")},
        "codes": {c.code for c in shop.coupons},
        "code stems": {mask.sub("", c.code) for c in shop.coupons},
        "promotions": {p.name for p in shop.promotions},
        "policies": {mask.sub("#", p.text) for p in shop.policies},
        "topics": {t for p in shop.policies for t in (p.topic, *p.aliases)},
        "faq": {t for f in (*shop.faq, *(f for p in shop.products for f in p.faq)) for t in (f.question, f.answer)},
        "places": {n for r in (*shop.shipping.regions, *shop.shipping.excluded) for n in (r.name, *r.places)},
        "place sentences": {
            *(r.note for r in shop.shipping.regions if r.note),
            *(r.reason for r in shop.shipping.excluded),
            shop.shipping.origin,
        },
        "claims": {c.claim for c in shop.coupons if c.claim},
        "stores": {shop.store, *world.notes.values(), world.streamer},
        "materials": {v for p in shop.products for v in p.specifications.values() if not mask.search(v)},
    }  # fmt: skip


def numbers_of(world: World) -> dict[str, set[float]]:
    """Every number written into a world, by what it is. Zero (nothing left, no fee) is no pattern."""
    shop = world.catalogue
    found: dict[str, set[float]] = defaultdict(set)
    number = re.compile(r"\d+(?:\.\d+)?")
    for p in shop.products:
        found["price"] |= {p.price, *(v.price for v in p.variants if v.price)}
        found["stock"] |= {p.stock, *(v.stock for v in p.variants)}
        for name, value in p.specifications.items():
            if m := number.match(value):
                found[f"specification {name}"].add(float(m.group()))
        for row in p.size_chart.rows if p.size_chart else ():
            for measure, span in row.ranges.items():
                found[measure] |= {span.low, span.high}
    for x in shop.promotions:
        found["percent"] |= {x.percent_off or 0}
        found["promotion amount"] |= {x.amount_off or 0, x.price or 0, *(t.amount_off for t in x.tiers)}
        found["threshold"] |= {t.threshold for t in x.tiers}
        found["limit"] |= {x.limit or 0}
        found["nth"] |= {x.nth or 0}
        found["buy"] |= {x.buy or 0}
    for c in shop.coupons:
        found["coupon percent"] |= {c.percent_off or 0}
        found["coupon amount"] |= {c.amount_off or 0, c.cap or 0}
        if c.public:
            found["coupon threshold"] |= {c.threshold}
        found["code"] |= {float(number.search(c.code).group())}  # type: ignore[union-attr]
    for r in shop.shipping.regions:
        found["fee"] |= {r.fee, *r.surcharges.values()}
        found["free over"] |= {r.free_over or 0}
    found["days"] = {(r.days_min * 100 + r.days_max) for r in shop.shipping.regions}
    for s in shop.policies:
        found[f"policy {'money' if '$' in s.text or '¥' in s.text else 'time'}"] |= {
            float(n) for n in number.findall(s.text)
        }
    found["day of the month"] = {
        t.astimezone(shop.zone).day
        for w in (*shop.promotions, *shop.coupons)
        for t in (w.starts_at, w.ends_at)
        if t is not None
    }
    return {k: {float(n) for n in v} - {0.0} for k, v in found.items()}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_train_and_test_share_no_word_of_their_own(worlds: Worlds, language: str):
    gathered: dict[str, dict[str, set[str]]] = {"train": defaultdict(set), "test": defaultdict(set)}
    for split, words in gathered.items():
        for world in worlds[split, language]:
            for what, some in words_of(world).items():
                words[what] |= some
    for what, words in gathered["train"].items():
        assert words, what
        assert not words & gathered["test"][what], what


@pytest.mark.parametrize("language", ["en", "zh"])
def test_train_and_test_share_no_number(worlds: Worlds, language: str):
    gathered: dict[str, dict[str, set[float]]] = {"train": defaultdict(set), "test": defaultdict(set)}
    for split, numbers in gathered.items():
        for world in worlds[split, language]:
            for what, some in numbers_of(world).items():
                numbers[what] |= some
    for what, numbers in gathered["train"].items():
        assert numbers, what
        assert not numbers & gathered["test"][what], what


@pytest.mark.parametrize("language", ["en", "zh"])
def test_prices_end_in_ways_of_their_split(worlds: Worlds, language: str):
    unit = 100 if language == "en" else 1000
    ends = {
        split: {p.price % unit for w in worlds[split, language] for p in w.catalogue.products}
        for split in ("train", "test")
    }
    assert len(ends["train"]) >= 3
    assert len(ends["test"]) >= 3
    assert not ends["train"] & ends["test"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_shows_and_the_turns_within_them_come_at_other_times(worlds: Worlds, language: str):
    times: dict[str, set[str]] = {}
    for split in ("train", "test"):
        times[split] = {
            f"{t.astimezone(w.catalogue.zone):%H:%M}"
            for w in worlds[split, language]
            for p in w.catalogue.promotions
            for t in (p.starts_at, p.ends_at)
            if t is not None
        }
    assert not times["train"] & times["test"]


@pytest.mark.parametrize(
    ("number", "split"), [(20, "train"), (30, "test"), (4990, "train"), (24.2, "train"), (24.3, "test"), (7, "test")]
)
def test_a_number_belongs_to_one_split(number: float, split: str):
    assert allowed(split, number)  # type: ignore[arg-type]
    assert not allowed("test" if split == "train" else "train", number)


def test_near_goes_upwards_to_the_next_allowed_number():
    assert near("train", 21) == 22
    assert near("test", 21) == 21
    assert near("train", 24.3, 0.1) == 24.4


# ------------------------------------------------------------------------------- store folders


def test_a_store_folder_is_a_world():
    ref = WorldRef(split="test", language="zh", seed=5, store=str(STORES / "demo-zh"))
    world = world_of(ref)
    assert world.catalogue.store == "青禾好物"
    assert world.opens_at.utcoffset() == timedelta(hours=8)
    assert world_of(ref) is world
    assert world_of(ref.model_copy(update={"seed": 6})).opens_at != world.opens_at


def test_a_store_that_is_not_there_is_told(tmp_path: Path):
    with pytest.raises(InputError, match="nowhere"):
        world_of(WorldRef(split="test", language="en", seed=0, store=str(tmp_path / "nowhere")))
