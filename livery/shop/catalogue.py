"""The catalogue: what a store sells and under which rules, as frozen values.

Prices are integers in the minor unit of the store's currency; times are aware. Reading it from files, where
amounts are written in major units, is `livery.shop.loading`; what follows from it (prices, advice) are
operations. `faults` finds what no single field can show: references to links that do not exist, doubles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self, TypeVar, cast
from zoneinfo import ZoneInfo

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_validator, model_validator

from livery.shop.money import EXPONENTS

T = TypeVar("T")


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)


class Faq(Frozen):
    question: str = Field(min_length=1)
    answer: str = Field(min_length=1)


class Variant(Frozen):
    sku: str = Field(min_length=1)
    options: dict[str, str] = Field(min_length=1)
    """Option -> value, in the store's own words: ``{"colour": "blue", "size": "L"}``."""
    price: int | None = Field(default=None, gt=0)
    """Minor units; None: the product's."""
    stock: int = Field(default=0, ge=0)

    @property
    def label(self) -> str:
        """Option values in order: "blue L"."""
        return " ".join(self.options.values())


Measure = Literal["height_cm", "weight_kg", "chest_cm", "waist_cm", "hip_cm", "foot_cm"]


class Range(Frozen):
    low: float = Field(ge=0)
    high: float = Field(ge=0)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.high < self.low:
            raise ValueError(f"found {self.low:g}-{self.high:g}; expected the lower end first")
        return self

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low:g}-{self.high:g}" if self.low != self.high else f"{self.low:g}"


class SizeRow(Frozen):
    size: str = Field(min_length=1)
    ranges: dict[Measure, Range] = Field(min_length=1)
    """Body measures that this size is made for, both ends included."""


class SizeChart(Frozen):
    rows: tuple[SizeRow, ...] = Field(min_length=1)
    """Smallest first."""
    note: str = ""
    """"Runs small: between two sizes take the larger"."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The chart's columns, in order."""
        return tuple(dict.fromkeys(m for row in self.rows for m in row.ranges))


class Status(StrEnum):
    ON_SALE = "on_sale"
    SOLD_OUT = "sold_out"
    """Said so by the shop; a product whose stock is all gone counts as sold out without it."""
    DISCONTINUED = "discontinued"
    UPCOMING = "upcoming"
    """Announced; not yet to be bought."""


class Product(Frozen):
    link_id: str = Field(min_length=1, max_length=40)
    """What viewers call it in the room: "3"."""
    key: str = Field(min_length=1)
    """The shop's own stable article number."""
    name: str = Field(min_length=1)
    aliases: tuple[str, ...] = ()
    """Other names viewers use; only for matching."""
    category: str = Field(min_length=1)
    price: int = Field(gt=0)
    """List price in minor units."""
    stock: int = Field(default=0, ge=0)
    """Units without variants; with variants their own stock counts and this stays 0."""
    variants: tuple[Variant, ...] = ()
    specifications: dict[str, str] = {}
    """Name -> value text, in the order to be told."""
    selling_points: tuple[str, ...] = ()
    size_chart: SizeChart | None = None
    shipping_class: str = "standard"
    faq: tuple[Faq, ...] = ()
    status: Status = Status.ON_SALE
    on_sale_at: AwareDatetime | None = None
    """When an upcoming product opens."""

    @property
    def total_stock(self) -> int:
        return sum(v.stock for v in self.variants) if self.variants else self.stock

    @property
    def availability(self) -> Status:
        """``status``, with an empty stock counted as sold out."""
        return Status.SOLD_OUT if self.status is Status.ON_SALE and not self.total_stock else self.status

    def price_of(self, variant: Variant | None) -> int:
        """List price of one unit in minor units."""
        return self.price if variant is None or variant.price is None else variant.price


class _Window(Frozen):
    starts_at: AwareDatetime | None = None
    """First moment it holds; None: always did."""
    ends_at: AwareDatetime | None = None
    """First moment it no longer holds; None: open end."""

    @model_validator(mode="after")
    def _forwards(self) -> Self:
        if self.starts_at and self.ends_at and self.ends_at <= self.starts_at:
            raise ValueError(f"ends_at {self.ends_at.isoformat()} is not after starts_at {self.starts_at.isoformat()}")
        return self

    def active(self, now: datetime) -> bool:
        return (self.starts_at is None or self.starts_at <= now) and (self.ends_at is None or now < self.ends_at)

    def upcoming(self, now: datetime) -> bool:
        return self.starts_at is not None and now < self.starts_at


class Coupon(_Window):
    """Money off an order, by code. Threshold and percentage look at the amount after promotions."""

    code: str = Field(min_length=1)
    name: str = ""
    amount_off: int | None = Field(default=None, gt=0)
    """Minor units. Exactly one of ``amount_off`` and ``percent_off``."""
    percent_off: int | None = Field(default=None, ge=1, le=100)
    threshold: int = Field(default=0, ge=0)
    """Least amount in minor units that it may be used on (for each use)."""
    cap: int | None = Field(default=None, gt=0)
    """Most that one use takes off, in minor units."""
    stackable: bool = False
    """Whether it may be used together with other stackable coupons; otherwise it is the order's only one."""
    per_order_limit: int = Field(default=1, ge=1, le=20)
    """How often one order may use it."""
    link_ids: tuple[str, ...] = ()
    """Empty: every product."""
    public: bool = True
    """Whether any viewer may claim it. Others count only when the viewer names them."""
    members_only: bool = False
    claim: str = ""
    """How a viewer gets it, in the store's words."""

    @model_validator(mode="after")
    def _one_discount(self) -> Self:
        if (self.amount_off is None) == (self.percent_off is None):
            raise ValueError("expected exactly one of amount_off and percent_off")
        return self


class PromotionKind(StrEnum):
    PERCENT_OFF = "percent_off"
    """``percent_off`` from every unit."""
    AMOUNT_OFF = "amount_off"
    """``amount_off`` from every unit."""
    FIXED_PRICE = "fixed_price"
    """Flash sale: ``price`` a unit, for the first ``limit`` units where there is one."""
    NTH_ITEM = "nth_item"
    """``percent_off`` from every ``nth`` unit."""
    BUY_X_GET_Y = "buy_x_get_y"
    """Of every ``buy`` + ``get`` units, ``get`` are free."""
    SPEND_THRESHOLD = "spend_threshold"
    """Full reduction (满减): ``amount_off`` of the best tier reached; with ``every``, each time it is."""
    MEMBER_PRICE = "member_price"
    """For members: ``price`` a unit, or ``percent_off``."""


class Tier(Frozen):
    threshold: int = Field(gt=0)
    amount_off: int = Field(gt=0)

    @model_validator(mode="after")
    def _less(self) -> Self:
        if self.amount_off > self.threshold:
            raise ValueError(f"amount_off {self.amount_off} is more than threshold {self.threshold}")
        return self


_NEEDS: dict[PromotionKind, tuple[frozenset[str], frozenset[str]]] = {
    # kind: (must be given, may be given); everything else of the seven must not.
    PromotionKind.PERCENT_OFF: (frozenset({"percent_off"}), frozenset()),
    PromotionKind.AMOUNT_OFF: (frozenset({"amount_off"}), frozenset()),
    PromotionKind.FIXED_PRICE: (frozenset({"price"}), frozenset({"limit"})),
    PromotionKind.NTH_ITEM: (frozenset({"nth", "percent_off"}), frozenset()),
    PromotionKind.BUY_X_GET_Y: (frozenset({"buy", "get"}), frozenset()),
    PromotionKind.SPEND_THRESHOLD: (frozenset({"tiers"}), frozenset({"every"})),
    PromotionKind.MEMBER_PRICE: (frozenset(), frozenset({"price", "percent_off"})),
}
_TERMS = ("percent_off", "amount_off", "price", "limit", "nth", "buy", "get", "tiers", "every")


class Promotion(_Window):
    """A rule that lowers prices by itself, without a code."""

    key: str = Field(min_length=1)
    name: str = Field(min_length=1)
    kind: PromotionKind
    link_ids: tuple[str, ...] = ()
    """Empty: every product (of ``categories`` where given)."""
    categories: tuple[str, ...] = ()
    percent_off: int | None = Field(default=None, ge=1, le=100)
    amount_off: int | None = Field(default=None, gt=0)
    price: int | None = Field(default=None, gt=0)
    limit: int | None = Field(default=None, gt=0)
    """Units left at the flash-sale price; further units pay the ordinary one."""
    nth: int | None = Field(default=None, ge=2)
    buy: int | None = Field(default=None, ge=1)
    get: int | None = Field(default=None, ge=1)
    tiers: tuple[Tier, ...] = ()
    every: bool = False
    priority: int = 0
    """Within one step of the calculation the higher is applied first; between equally cheap combinations the
    one with more priority is told."""
    exclusive: bool = False
    """Never with another promotion."""
    stackable: bool = False
    """With any that is not exclusive. Of promotions neither exclusive nor stackable, an order gets one."""
    coupons: bool = True
    """Whether coupons may be used on top."""

    @model_validator(mode="after")
    def _terms_fit(self) -> Self:
        needed, allowed = _NEEDS[self.kind]
        given = {t for t in _TERMS if getattr(self, t) not in (None, (), False)}
        if missing := needed - given:
            raise ValueError(f"a {self.kind} promotion needs {', '.join(sorted(missing))}")
        if wrong := given - needed - allowed:
            raise ValueError(f"a {self.kind} promotion has no {', '.join(sorted(wrong))}")
        if self.kind is PromotionKind.MEMBER_PRICE and len(given) != 1:
            raise ValueError("a member_price promotion needs exactly one of price and percent_off")
        if self.exclusive and self.stackable:
            raise ValueError("exclusive and stackable exclude each other")
        return self

    def covers(self, product: Product) -> bool:
        if self.link_ids or self.categories:
            return product.link_id in self.link_ids or product.category in self.categories
        return True


class ShippingRegion(Frozen):
    name: str = Field(min_length=1)
    """"Contiguous US", "江浙沪"."""
    places: tuple[str, ...] = ()
    """Places a viewer may name: states, cities, countries."""
    fee: int = Field(default=0, ge=0)
    free_over: int | None = Field(default=None, ge=0)
    """Order amount in minor units from which shipping is free."""
    days_min: int = Field(default=1, ge=0)
    days_max: int = Field(default=7, ge=0)
    surcharges: dict[str, int] = {}
    """Shipping class -> minor units added an order, free shipping or not."""
    excluded_classes: tuple[str, ...] = ()
    """Shipping classes that do not go there."""
    note: str = ""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.days_max < self.days_min:
            raise ValueError(f"days_max {self.days_max} is less than days_min {self.days_min}")
        return self


class ExcludedRegion(Frozen):
    name: str = Field(min_length=1)
    places: tuple[str, ...] = ()
    reason: str = ""


class Shipping(Frozen):
    regions: tuple[ShippingRegion, ...] = ()
    excluded: tuple[ExcludedRegion, ...] = ()
    cut_off: str = Field(default="", pattern=r"^(([01]\d|2[0-3]):[0-5]\d)?$")
    """"16:00" in the store's time zone: orders paid before it leave the same day; empty: no promise."""
    origin: str = ""


class StorePolicy(Frozen):
    topic: str = Field(min_length=1)
    """"returns", "七天无理由退货"."""
    text: str = Field(min_length=1)
    aliases: tuple[str, ...] = ()


class Fault(NamedTuple):
    """Something wrong across fields."""

    location: tuple[str | int, ...]
    """Path into the catalogue: ("promotions", 2, "link_ids", 0)."""
    message: str
    code: str


MAX_STACKABLE = 8
"""Stackable promotions that one product may have: their combinations are tried in full."""


class Catalogue(Frozen):
    store: str = Field(min_length=1)
    currency: str
    """ISO 4217; of every amount in it."""
    language: str = "en"
    """BCP 47 tag of its texts."""
    timezone: str = "UTC"
    """IANA name."""
    products: tuple[Product, ...]
    promotions: tuple[Promotion, ...] = ()
    coupons: tuple[Coupon, ...] = ()
    shipping: Shipping = Shipping()
    policies: tuple[StorePolicy, ...] = ()
    faq: tuple[Faq, ...] = ()
    """Of the store as a whole."""

    @field_validator("currency")
    @classmethod
    def _known_currency(cls, value: str) -> str:
        if value not in EXPONENTS:
            raise ValueError(f"found {value!r}; expected an ISO 4217 code such as USD or CNY")
        return value

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError) as error:
            raise ValueError(f"found {value!r}; expected an IANA time zone such as Asia/Shanghai") from error
        return value

    @cached_property
    def by_link(self) -> dict[str, Product]:
        """Link id -> product."""
        return {p.link_id: p for p in self.products}

    @cached_property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    @cached_property
    def _derived(self) -> dict[str, object]:
        return {}

    def derived(self, key: str, build: Callable[[Catalogue], T]) -> T:
        """What ``build`` makes of this catalogue, made once: indexes of operations."""
        if key not in self._derived:
            self._derived[key] = build(self)
        return cast(T, self._derived[key])

    @property
    def chinese(self) -> bool:
        return self.language.lower().startswith("zh")

    def replace(self, **changes: Any) -> Catalogue:
        """A copy with fields changed, validated."""
        return Catalogue.model_validate({**{n: getattr(self, n) for n in Catalogue.model_fields}, **changes})

    def __copy__(self) -> Self:
        copied = super().__copy__()
        # A copy may be updated: what was derived from the old fields must not follow it.
        for name in ("by_link", "zone", "_derived"):
            vars(copied).pop(name, None)
        return copied

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self.__copy__()  # every part is frozen


def faults(catalogue: Catalogue) -> Iterator[Fault]:
    """What is wrong between parts of a catalogue. An empty answer means that it can be served."""
    yield from _doubles(catalogue)
    for i, product in enumerate(catalogue.products):
        yield from _product_faults(("products", i), product)
    links = set(catalogue.by_link)
    categories = {p.category for p in catalogue.products}
    for i, promotion in enumerate(catalogue.promotions):
        for j, link in enumerate(promotion.link_ids):
            if link not in links:
                yield Fault(("promotions", i, "link_ids", j), f"no product has link id {link!r}", "unknown-link")
        for j, category in enumerate(promotion.categories):
            if category not in categories:
                where = ("promotions", i, "categories", j)
                yield Fault(where, f"no product is in category {category!r}", "unknown-category")
        if promotion.price is not None:
            for product in (p for p in catalogue.products if promotion.covers(p)):
                lowest = min([product.price_of(v) for v in product.variants] or [product.price])
                if promotion.price > lowest:
                    message = f"{promotion.price} is over link {product.link_id}'s price {lowest} (minor units)"
                    yield Fault(("promotions", i, "price"), message, "promotion-over-price")
    for i, coupon in enumerate(catalogue.coupons):
        for j, link in enumerate(coupon.link_ids):
            if link not in links:
                yield Fault(("coupons", i, "link_ids", j), f"no product has link id {link!r}", "unknown-link")
        if coupon.amount_off is not None:
            if coupon.threshold and coupon.amount_off > coupon.threshold:
                message = f"takes off {coupon.amount_off}, more than its threshold {coupon.threshold}"
                yield Fault(("coupons", i, "amount_off"), message, "coupon-over-price")
            for link in coupon.link_ids:
                product = catalogue.by_link.get(link)
                if product and not coupon.threshold and coupon.amount_off > product.price:
                    message = f"takes off {coupon.amount_off}, over link {link}'s price {product.price}"
                    yield Fault(("coupons", i, "amount_off"), message, "coupon-over-price")
    for product_index, product in enumerate(catalogue.products):
        stacked = sum(p.stackable and p.covers(product) for p in catalogue.promotions)
        if stacked > MAX_STACKABLE:
            message = f"{stacked} stackable promotions cover it; at most {MAX_STACKABLE} may"
            yield Fault(("products", product_index), message, "too-many-promotions")


def _product_faults(where: tuple[str | int, ...], product: Product) -> Iterator[Fault]:
    if product.variants and product.stock:
        yield Fault((*where, "stock"), "a product with variants has its stock in them", "stock-twice")
    names = set(product.variants[0].options) if product.variants else set[str]()
    seen: dict[tuple[str, ...], int] = {}
    for j, variant in enumerate(product.variants):
        if set(variant.options) != names:
            message = f"has options {sorted(variant.options)}, the first variant has {sorted(names)}"
            yield Fault((*where, "variants", j, "options"), message, "uneven-options")
        values = tuple(variant.options[name] for name in sorted(variant.options))
        if values in seen:
            message = f"same options as variant {seen[values]} ({variant.label})"
            yield Fault((*where, "variants", j, "options"), message, "duplicate-variant")
        seen.setdefault(values, j)
    if product.size_chart:
        for size, count in Counter(r.size for r in product.size_chart.rows).items():
            if count > 1:
                yield Fault((*where, "size_chart"), f"size {size!r} stands twice", "duplicate-size")


def _doubles(catalogue: Catalogue) -> Iterator[Fault]:
    for part, field in (
        ("products", "link_id"),
        ("products", "key"),
        ("promotions", "key"),
        ("coupons", "code"),
        ("policies", "topic"),
    ):
        first: dict[str, int] = {}
        for i, item in enumerate(getattr(catalogue, part)):
            value = getattr(item, field).strip().casefold()
            if value in first:
                message = f"{getattr(item, field)!r} stands already in {part}[{first[value]}]"
                yield Fault((part, i, field), message, f"duplicate-{field.replace('_', '-')}")
            first.setdefault(value, i)
    skus: dict[str, str] = {}
    for i, product in enumerate(catalogue.products):
        for j, variant in enumerate(product.variants):
            sku = variant.sku.casefold()
            if sku in skus:
                message = f"{variant.sku!r} stands already at link {skus[sku]}"
                yield Fault(("products", i, "variants", j, "sku"), message, "duplicate-sku")
            skus.setdefault(sku, product.link_id)
