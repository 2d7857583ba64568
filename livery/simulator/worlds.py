"""Worlds: seeded shops in which tasks play, in English and Chinese, and store folders as worlds.

A made world is a valid `Catalogue` and the facts of its room. Words come from ``vocabulary/world-*.yaml``,
whose train and test halves are disjoint: brands, types, modifiers, colours, coupon stems, places and every
sentence of a policy, FAQ or note. Numbers are split by rule, so that none can be learned: a number written
into a world has an even digit sum in train and an odd one in test (`allowed`), prices end differently, shows
and promotions begin and end at other minutes. What follows from them by arithmetic (totals, savings) and link
ids are not split, nor is anything of a store folder, whose numbers are its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, Literal, cast
from zoneinfo import ZoneInfo

import yaml

from livery.shop.catalogue import (
    Catalogue,
    Coupon,
    ExcludedRegion,
    Faq,
    Product,
    Promotion,
    PromotionKind,
    Range,
    Shipping,
    ShippingRegion,
    SizeChart,
    SizeRow,
    Status,
    StorePolicy,
    Tier,
    Variant,
    faults,
)
from livery.shop.loading import load_catalogue
from livery.shop.money import EXPONENTS, format_money
from livery.simulator.task import WorldRef

Split = Literal["train", "test"]
Language = Literal["en", "zh"]

VOCABULARY = Path(__file__).with_name("vocabulary")
MIN_PRODUCTS, MAX_PRODUCTS, MIN_CATEGORIES = 12, 30, 12

_ENDINGS: dict[tuple[str, str], tuple[int, ...]] = {
    ("en", "train"): (0, 50, 90),
    ("en", "test"): (25, 40, 75, 95),
    ("zh", "train"): (800, 900, 990),
    ("zh", "test"): (500, 600, 350),
}
"""What the last digits of a price are, in minor units: below one major unit, in Chinese below ten."""
_SHOW = timedelta(minutes=120)
_YEAR = {"train": 2026, "test": 2027}
_OPENS = {"train": (20, 0), "test": (19, 20)}
_TURNS = {"train": (15, 45, 90), "test": (20, 50, 110)}
"""Minutes of the show at which promotions may end or begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A shop and its room."""

    ref: WorldRef
    catalogue: Catalogue
    streamer: str
    opens_at: datetime
    """When the show begins, aware."""
    length: timedelta = _SHOW
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    """The operator's own facts for this show."""

    @property
    def room(self) -> str:
        return f"sim-{self.ref.split}-{self.ref.language}-{self.ref.seed}"


def make_world(split: Split, language: Language, seed: int) -> World:
    """The world of a seed: the same bit for bit each time."""
    return _Maker(split, language, seed).world()


def world_of(ref: WorldRef) -> World:
    """The world that a task names: made anew, or read from its store folder; the latest ones are kept.

    Raises:
        InputError: the store cannot be read.
    """
    return _world(ref.split, ref.language, ref.seed, ref.store)


@lru_cache(maxsize=64)
def _world(split: Split, language: Language, seed: int, store: str) -> World:
    if not store:
        return make_world(split, language, seed)
    ref = WorldRef(split=split, language=language, seed=seed, store=store)
    return store_world(load_catalogue(Path(store)), ref)


def store_world(catalogue: Catalogue, ref: WorldRef) -> World:
    """A world around a store's own catalogue. The show opens near a turn of one of its promotions, or at noon
    of a plain day."""
    rng = Random(f"store/{ref.split}/{ref.seed}")
    day = datetime(_YEAR[ref.split], rng.randint(1, 12), rng.randint(1, 28), 12, tzinfo=catalogue.zone)
    opens_at = day
    turns = {t for p in catalogue.promotions for t in (p.starts_at, p.ends_at) if t is not None}
    # At a turn before or after which nothing runs, a show would have little to tell.
    near_by = (-_SHOW, _SHOW)
    turns = sorted(t for t in turns if all(any(p.active(t + d) for p in catalogue.promotions) for d in near_by))
    if turns and rng.random() < 0.25:
        opens_at = rng.choice(turns).astimezone(catalogue.zone) - timedelta(minutes=rng.choice((15, 45, 90)))
    words = vocabulary("zh" if catalogue.chinese else "en")[ref.split]
    return World(ref=ref, catalogue=catalogue, streamer=rng.choice(words["streamers"]), opens_at=opens_at)


def allowed(split: Split, number: float) -> bool:
    """Whether a world (or viewer) of this split may write this number: its digit sum is even in train, odd in
    test."""
    return sum(int(d) for d in f"{number:g}" if d.isdigit()) % 2 == (split == "test")


@lru_cache(maxsize=4096)
def _numbers(split: Split, low: int, high: int, step: int) -> tuple[int, ...]:
    return tuple(n for n in range(low, high + 1, step) if allowed(split, n))


@lru_cache(maxsize=4)
def vocabulary(language: str) -> dict[str, Any]:
    """``vocabulary/world-<language>.yaml``."""
    path = VOCABULARY / f"world-{language}.yaml"
    return cast("dict[str, Any]", yaml.safe_load(path.read_text(encoding="utf-8")))


def near(split: Split, value: float, step: float = 1) -> float:
    """The first number from ``value`` upwards, in steps, that the split may write."""
    while not allowed(split, round(value, 2)):
        value += step
    return float(round(value, 2))


class _Maker:
    def __init__(self, split: Split, language: Language, seed: int) -> None:
        self.split: Split = split
        self.language: Language = language
        self.seed = seed
        self.rng = Random(f"world/{split}/{language}/{seed}")
        shared = vocabulary(language)
        self.words: dict[str, Any] = shared[split]
        self.shared = shared
        self.currency: str = shared["currency"]
        self.minor = 10 ** EXPONENTS[self.currency]

    def world(self) -> World:
        rng, words = self.rng, self.words
        hour, minute = _OPENS[self.split]
        zone = ZoneInfo(self.shared["timezone"])
        days = [d for d in range(2, 27) if allowed(self.split, d)]
        # Not in the night of a clock change: the show stays on one day.
        self.opens_at = datetime(_YEAR[self.split], rng.randint(4, 9), rng.choice(days), hour, minute, tzinfo=zone)
        products = self._products()
        catalogue = Catalogue(
            store=rng.choice(words["stores"]),
            currency=self.currency,
            language=self.language,
            timezone=self.shared["timezone"],
            products=products,
            promotions=self._promotions(products),
            coupons=self._coupons(products),
            shipping=self._shipping(),
            policies=self._policies(),
            faq=tuple(Faq(question=q, answer=a) for q, a in words["store_faq"]),
        )
        wrong = list(faults(catalogue))
        assert not wrong, wrong  # a made world can always be served
        notes = {k: rng.choice(v) for k, v in words["notes"].items() if rng.random() < 0.6}
        return World(
            ref=WorldRef(split=self.split, language=self.language, seed=self.seed),
            catalogue=catalogue,
            streamer=rng.choice(words["streamers"]),
            opens_at=self.opens_at,
            notes=notes,
        )

    # ------------------------------------------------------------------------------- numbers

    def _number(self, low: int, high: int, step: int = 1) -> int:
        return self.rng.choice(_numbers(self.split, low, high, step))

    def _money(self, low: float, high: float) -> int:
        """Minor units of a price between two amounts in major units, ended as the split's prices end."""
        endings, unit = _ENDINGS[self.language, self.split], self.minor * (10 if self.language == "zh" else 1)
        first, last = int(low * self.minor) // unit, max(int(high * self.minor) // unit, 1)
        while True:
            amount = self.rng.randint(first, max(first, last - 1)) * unit + self.rng.choice(endings)
            if amount and allowed(self.split, amount):
                return amount
            last += 1  # a range of one has no other way out

    def _stock(self) -> int:
        chance = self.rng.random()
        if chance < 0.14:
            return 0
        return self._number(1, 5) if chance < 0.34 else self._number(8, 240)

    def _whole(self, low: int, high: int) -> int:
        """Minor units of a whole amount: fees, thresholds, reductions."""
        return self._number(low, max(high, low + 2)) * self.minor

    # ------------------------------------------------------------------------------ products

    def _products(self) -> tuple[Product, ...]:
        rng, words = self.rng, self.words
        brands = self._brands(rng.randint(5, 8))
        categories = list(self.shared["categories"])
        rng.shuffle(categories)
        count = rng.randint(MIN_PRODUCTS + 2, MAX_PRODUCTS)
        types = {c: rng.sample(words["types"][c], len(words["types"][c])) for c in categories}
        chosen: list[tuple[str, str, str]] = []
        """(category, brand, type)"""
        # The first ones cover the categories; two are twins of another: same brand, same type, another
        # modifier.
        for i in range(count - 2):
            category = categories[i % len(categories)]
            if not types[category]:
                continue
            chosen.append((category, rng.choice(brands), types[category].pop()))
        while len(chosen) < MIN_PRODUCTS - 2:
            chosen.append((categories[0], rng.choice(brands), rng.choice(words["types"][categories[0]])))
        for twin in rng.sample(chosen, 2):
            chosen.insert(rng.randint(0, len(chosen)), twin)
        modifiers = rng.sample(words["modifiers"], len(words["modifiers"]))
        gap = " " if self.language == "en" else ""
        products: list[Product] = []
        names: set[str] = set()
        for i, (category, brand, kind) in enumerate(chosen):
            modifier = modifiers[i % len(modifiers)]
            name = gap.join((brand, modifier, kind))
            if name in names:
                name = gap.join((brand, next(m for m in modifiers if gap.join((brand, m, kind)) not in names), kind))
            names.add(name)
            products.append(self._product(str(i + 1), name, (kind.lower(), gap.join((brand, kind))), category))
        return self._statuses(products)

    def _brands(self, count: int) -> list[str]:
        pairs = [s + e for s in self.words["brand_starts"] for e in self.words["brand_ends"]]
        return self.rng.sample(pairs, count)

    def _product(self, link: str, name: str, aliases: tuple[str, ...], category: str) -> Product:
        rng, rules = self.rng, self.shared["categories"][category]
        low, high = rules["price"]
        price = self._money(low, high)
        variants = self._variants(f"{self.split[:2].upper()}{self.seed}-{link}", rules["options"], price)
        return Product(
            link_id=link,
            key=f"{self.split[:2].upper()}{self.seed}-{link}",
            name=name,
            aliases=aliases,
            category=category,
            price=price,
            stock=0 if variants else self._stock(),
            variants=variants,
            specifications={n: self._specification(n, rule) for n, rule in rules["specs"].items()},
            size_chart=self._chart(rules.get("chart", ""), variants),
            shipping_class=rules.get("class", "standard"),
            faq=tuple(Faq(question=q, answer=a) for q, a in rng.sample(self.words["faq"], 2)),
        )

    def _specification(self, name: str, rule: str) -> str:
        if rule == "words":
            return self.rng.choice(self.words["words"][name])
        span, _, rest = rule.partition("/")
        step, _, unit = rest.partition(" ")
        low, high = map(int, span.split("-"))
        number = self._number(low, high, int(step))
        return f"{number} {unit}" if self.language == "en" else f"{number}{unit.strip()}"

    def _variants(self, key: str, options: str, price: int) -> tuple[Variant, ...]:
        rng, words = self.rng, self.words
        names: dict[str, str] = self.shared["option_names"]
        columns: list[tuple[str, list[str]]] = []
        for option in options.split("+"):
            match option:
                case "colour":
                    columns.append((names["colour"], rng.sample(words["colours"], rng.randint(2, 3))))
                case "volume" | "flavour":
                    columns.append((names[option], rng.sample(words[f"{option}s"], 2)))
                case "size":
                    first = rng.randint(0, 2)
                    columns.append((names["size"], self.shared["sizes"][first : first + 4]))
                case "shoe":
                    first = rng.randint(0, 2)
                    sizes = [n for n in range(35, 46) if n % 2 == (self.split == "test")]
                    columns.append((names["size"], [str(n) for n in sizes[first : first + 3]]))
                case _:
                    return ()
        rows: list[dict[str, str]] = [{}]
        for name, values in columns:
            rows = [{**row, name: value} for row in rows for value in values]
        dearer = columns[-1][1][-1] if options in ("volume", "colour") and rng.random() < 0.5 else ""
        other = 0
        if dearer:
            other = self._money(price / self.minor * 1.2, price / self.minor * 1.6 + 12)
        return tuple(
            Variant(
                sku=f"{key}-{i}",
                options=row,
                price=other if dearer and dearer in row.values() and other > price else None,
                stock=self._stock(),
            )
            for i, row in enumerate(rows, 1)
        )

    def _chart(self, kind: str, variants: Sequence[Variant]) -> SizeChart | None:
        if not kind:
            return None
        name = self.shared["option_names"]["size"]
        sizes = list(dict.fromkeys(v.options[name] for v in variants))
        rng, rows = self.rng, list[SizeRow]()

        def span(low: float, width: float, step: float = 1) -> Range:
            return Range(low=near(self.split, low, step), high=near(self.split, low + width, step))

        if kind == "foot":
            start = rng.choice((22.4, 22.7, 23.1))
            for i, size in enumerate(sizes):
                rows.append(SizeRow(size=size, ranges={"foot_cm": span(start + 1.4 * i, 0.9, 0.1)}))
            return SizeChart(rows=tuple(rows))
        height, weight = rng.randint(150, 156), rng.randint(42, 48)
        for i, size in enumerate(sizes):
            ranges = {"height_cm": span(height + 8 * i, 6), "weight_kg": span(weight + 10 * i, 8)}
            rows.append(SizeRow.model_validate({"size": size, "ranges": ranges}))
        return SizeChart(rows=tuple(rows))

    def _statuses(self, products: list[Product]) -> tuple[Product, ...]:
        """One discontinued, one upcoming, one sold out by the shop's word, one whose stock is gone."""
        gone, coming, sold_out, empty = self.rng.sample(range(len(products)), 4)
        products[gone] = products[gone].model_copy(update={"status": Status.DISCONTINUED})
        opens = self._turn() if self.rng.random() < 0.5 else self._day(self.rng.randint(1, 6))
        products[coming] = products[coming].model_copy(update={"status": Status.UPCOMING, "on_sale_at": opens})
        products[sold_out] = products[sold_out].model_copy(update={"status": Status.SOLD_OUT})
        p = products[empty]
        none_left = tuple(v.model_copy(update={"stock": 0}) for v in p.variants)
        products[empty] = p.model_copy(update={"stock": 0, "variants": none_left})
        return tuple(products)

    # ----------------------------------------------------------------------- promotions, coupons

    def _turn(self) -> datetime:
        """A moment within the show."""
        return self.opens_at + timedelta(minutes=self.rng.choice(_TURNS[self.split]))

    def _day(self, days: int) -> datetime:
        """The show's hour some days on, or back, on a day of the month that the split may write."""
        at = self.opens_at + timedelta(days=days)
        while not allowed(self.split, at.day):
            at += timedelta(days=1 if days > 0 else -1)
        return at

    def _promotions(self, products: Sequence[Product]) -> tuple[Promotion, ...]:
        rng, words = self.rng, self.words["promotions"]
        sold = [p for p in products if p.status is not Status.DISCONTINUED]
        rng.shuffle(sold)
        made: list[Promotion] = []
        hurries = rng.sample(list(PromotionKind), 3)
        """Kinds whose promotion ends within the show."""
        for i, kind in enumerate(PromotionKind):
            some = sold[2 * i % len(sold) :][: rng.randint(1, 2)] or sold[:1]
            made.append(
                Promotion.model_validate(
                    {
                        "key": f"{kind}-{i}",
                        "name": rng.choice(words[kind]),
                        "kind": kind,
                        "link_ids": [p.link_id for p in some] if kind is not PromotionKind.SPEND_THRESHOLD else [],
                        **self._terms(kind, some),
                        "priority": rng.randint(0, 9),
                        "exclusive": kind is PromotionKind.FIXED_PRICE,
                        "coupons": kind is not PromotionKind.FIXED_PRICE or rng.random() < 0.3,
                        "stackable": kind in (PromotionKind.SPEND_THRESHOLD, PromotionKind.MEMBER_PRICE),
                        "starts_at": self._day(-rng.randint(1, 9)),
                        "ends_at": self._turn() if kind in hurries else self._day(rng.randint(1, 12)),
                    }
                )
            )
        for i, (word, start, end) in enumerate(
            (
                ("ended", self._day(-20), self._day(-rng.randint(2, 9))),
                ("upcoming", self._turn(), self._day(rng.randint(2, 9))),
                ("upcoming", self._day(rng.randint(3, 8)), self._day(12)),
            )
        ):
            terms = self._terms(PromotionKind.PERCENT_OFF, sold)
            links = tuple(p.link_id for p in rng.sample(sold, 3))
            name = words[word][i % len(words[word])]
            made.append(
                Promotion(
                    key=f"{word}-{i}", name=name, kind=PromotionKind.PERCENT_OFF, link_ids=links,
                    starts_at=start, ends_at=end, percent_off=terms["percent_off"],
                )
            )  # fmt: skip
        return tuple(made)

    def _terms(self, kind: PromotionKind, products: Iterable[Product]) -> dict[str, Any]:
        rng = self.rng
        lowest = min(min([p.price_of(v) for v in p.variants] or [p.price]) for p in products)
        percent = rng.choice([n for n in range(5, 45, 5) if allowed(self.split, n)])
        match kind:
            case PromotionKind.PERCENT_OFF:
                return {"percent_off": percent}
            case PromotionKind.AMOUNT_OFF:
                return {"amount_off": self._whole(1, max(1, lowest // self.minor // 4))}
            case PromotionKind.FIXED_PRICE:
                price = self._money(lowest / self.minor * 0.5, lowest / self.minor * 0.85)
                limit = {"limit": self._number(20, 90)} if rng.random() < 0.5 else {}
                return {"price": min(price, lowest), **limit}
            case PromotionKind.NTH_ITEM:
                return {"nth": 2 if self.split == "train" else 3, "percent_off": rng.choice(self._halves())}
            case PromotionKind.BUY_X_GET_Y:
                return {"buy": rng.choice((1, 3) if self.split == "train" else (2, 4)), "get": 1}
            case PromotionKind.SPEND_THRESHOLD:
                rate = 1 if self.language == "en" else 3
                first = self._number(60 * rate, 90 * rate)
                second = self._number(140 * rate, 190 * rate)
                offs = self._number(5 * rate, 9 * rate), self._number(16 * rate, 24 * rate)
                tiers = zip((first, second), offs, strict=True)
                return {"tiers": [Tier(threshold=t * self.minor, amount_off=o * self.minor) for t, o in tiers]}
            case PromotionKind.MEMBER_PRICE:
                return {"percent_off": percent}

    def _halves(self) -> list[int]:
        return [n for n in (30, 40, 50, 60, 70, 80) if allowed(self.split, n)]

    def _coupons(self, products: Sequence[Product]) -> tuple[Coupon, ...]:
        rng, words = self.rng, self.words["coupons"]
        rate = 1 if self.language == "en" else 4
        stems = rng.sample(words["stems"], len(words["stems"]))
        codes = iter(f"{stem}{self._number(2, 98)}" for stem in [*stems, stems[0] + "A", stems[1] + "B"])
        some = tuple(p.link_id for p in rng.sample(list(products), 3))
        span: dict[str, Any] = {"starts_at": self._day(-9), "ends_at": self._day(12)}
        claim = {"claim": rng.choice(words["claims"])}
        percent = rng.choice([n for n in range(5, 21) if allowed(self.split, n)])
        amount, least = self._whole(3 * rate, 8 * rate), self._whole(35 * rate, 60 * rate)
        return (
            Coupon(code=next(codes), amount_off=amount, threshold=least, **claim, **span),
            Coupon(
                code=next(codes), percent_off=percent, cap=self._whole(6 * rate, 14 * rate),
                threshold=self._whole(25 * rate, 45 * rate), stackable=True, **claim, **span,
            ),
            Coupon(
                code=next(codes), amount_off=self._whole(rate, 3 * rate), threshold=self._whole(10 * rate, 24
                * rate), stackable=True, link_ids=some, per_order_limit=rng.randint(1, 2), **claim, **span, ),
                Coupon( code=next(codes), percent_off=percent, cap=self._whole(12 * rate, 20 * rate),
                members_only=True, **claim, **span, ), Coupon( code=next(codes), amount_off=self._whole(9 *
                rate, 14 * rate), threshold=least * 2, public=False, **span, ), Coupon( code=next(codes),
                amount_off=amount, threshold=least, starts_at=self._day(-20), ends_at=self._day(-3), **claim,
                ), )  # fmt: skip

    # ------------------------------------------------------------------------ shipping, policies

    def _shipping(self) -> Shipping:
        rng, words = self.rng, self.words["shipping"]
        rate = 1 if self.language == "en" else 2
        regions: list[ShippingRegion] = []
        special = sorted({c["class"] for c in self.shared["categories"].values() if "class" in c})
        for i, region in enumerate(words["regions"]):
            first = 2 if self.split == "train" else 1
            days = first + 2 * i + rng.choice((0, 2))
            bulky = special[-1] if self.language == "zh" else "bulky"
            regions.append(
                ShippingRegion(
                    **region,
                    fee=0 if not i and rng.random() < 0.3 else self._whole((3 + 3 * i) * rate, (7 + 4 * i) * rate),
                    free_over=self._whole((35 + 30 * i) * rate, (60 + 40 * i) * rate),
                    days_min=days,
                    days_max=days + 2,
                    surcharges={bulky: self._whole(4 * rate, 9 * rate)} if i == 0 else {},
                    excluded_classes=tuple(rng.sample(special, 1)) if i == 2 else (),
                )
            )
        excluded = tuple(ExcludedRegion(**region) for region in words["excluded"])
        cut_off = rng.choice(words["cut_off"])
        return Shipping(regions=tuple(regions), excluded=excluded, cut_off=cut_off, origin=words["origin"])

    def _policies(self) -> tuple[StorePolicy, ...]:
        rate = 1 if self.language == "en" else 2
        policies: list[StorePolicy] = []
        for policy in self.words["policies"]:
            text = policy["text"].format(
                days=self._number(5, 40),
                money=format_money(self._whole(3 * rate, 9 * rate), self.currency),
                months=self._number(6, 36),
                hours=self._number(2, 20),
            )
            policies.append(StorePolicy(topic=policy["topic"], aliases=tuple(policy["aliases"]), text=text))
        return tuple(policies)
