"""The arithmetic of prices: the best legal combination of promotions and coupons, in integers.

How a price comes about, for ``quantity`` units of one product:

1. Promotions on each unit (fixed price, percent off, amount off, member price), higher priority first.
2. Promotions on the count (n-th item, buy x get y); the cheapest units are the discounted ones.
3. Full reductions (spend threshold) on what the units now cost together.
4. Coupons. Threshold and percentage of every coupon look at the amount after step 3, so that their order
   means nothing; together they never take off more than that amount.

Rounding: every percentage is taken once per unit (step 1, 2) or once per coupon use (step 4), and the
*discount* is rounded down to the minor unit. Legal combinations: an exclusive promotion stands alone; of
those neither exclusive nor stackable at most one; a non-stackable coupon stands alone; no coupon beside a
promotion that forbids it. All are tried and the cheapest wins; ties go to more priority, then to fewer parts,
then by key.

Not for baskets of several products, taxes or shipping.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import combinations
from typing import assert_never

from livery.shop.catalogue import (
    MAX_STACKABLE,
    Catalogue,
    Coupon,
    Product,
    Promotion,
    PromotionKind,
    Variant,
)

Lots = tuple[tuple[int, int], ...]
"""(unit price in minor units, how many), cheapest first."""

_STEP = {
    PromotionKind.FIXED_PRICE: 1,
    PromotionKind.PERCENT_OFF: 1,
    PromotionKind.AMOUNT_OFF: 1,
    PromotionKind.MEMBER_PRICE: 1,
    PromotionKind.NTH_ITEM: 2,
    PromotionKind.BUY_X_GET_Y: 2,
    PromotionKind.SPEND_THRESHOLD: 3,
}


class Why(StrEnum):
    """Why a coupon or promotion is not part of the price."""

    UNKNOWN = "unknown"
    """No such code."""
    NOT_YET = "not_yet"
    OVER = "over"
    OTHER_PRODUCT = "other_product"
    BELOW_THRESHOLD = "below_threshold"
    """Too little is spent, or too few units bought."""
    MEMBERS_ONLY = "members_only"
    NOT_COMBINABLE = "not_combinable"
    """Another combination is cheaper, and it may not be added to that."""
    NO_GAIN = "no_gain"
    """There is nothing left to take off."""


@dataclass(frozen=True, slots=True)
class PromotionLine:
    promotion: Promotion
    off: int
    """Minor units off the whole quantity; more than 0."""


@dataclass(frozen=True, slots=True)
class CouponLine:
    coupon: Coupon
    times: int
    off: int
    """Minor units off in all uses together; more than 0."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A coupon or promotion that is not part of the price."""

    key: str
    """Coupon code or promotion key."""
    why: Why
    part: Coupon | Promotion | None
    would_save: int = 0
    """What it would take off by itself; 0 where it may not be used or it saves nothing."""
    short_by: int = 0
    """Minor units missing to its threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    list_unit: int
    quantity: int
    promotions: tuple[PromotionLine, ...]
    coupons: tuple[CouponLine, ...]
    total: int
    refused_coupons: tuple[Refusal, ...]
    refused_promotions: tuple[Refusal, ...]

    @property
    def list_total(self) -> int:
        return self.list_unit * self.quantity

    @property
    def saved(self) -> int:
        return self.list_total - self.total

    @property
    def unit(self) -> int:
        """Final price of one unit; rounded half up where the total does not divide."""
        return (2 * self.total + self.quantity) // (2 * self.quantity)

    @property
    def ends_at(self) -> datetime | None:
        """When the first part of this price ends; None: open."""
        ends = [line.promotion.ends_at for line in self.promotions]
        ends += [line.coupon.ends_at for line in self.coupons]
        return min((e for e in ends if e is not None), default=None)


def best_price(
    catalogue: Catalogue,
    product: Product,
    *,
    now: datetime,
    variant: Variant | None = None,
    quantity: int = 1,
    coupons: Sequence[str] | None = None,
    member: bool = False,
) -> Price:
    """The cheapest legal price.

    Args:
        now: aware; what is active is decided by it.
        coupons: codes to use, each as often as it is named (case and order mean nothing). None: every coupon
            that any viewer may claim.
    """
    prices = catalogue.derived("pricing.prices", _Prices)
    codes = None if coupons is None else tuple(coupons)
    key = (product.link_id, product.price_of(variant), quantity, codes, member, prices.period(now))
    price = prices.known.get(key)
    if price is None:
        price = _best_price(catalogue, product, key[1], now, quantity, codes, member)
        prices.remember(key, price)
    return price


class _Prices:
    """The prices of one catalogue that were asked for. A price is a step function of time: it is the same
    from one start or end of a promotion or coupon to the next, so that remembering it is exact."""

    _KEPT = 4096

    def __init__(self, catalogue: Catalogue) -> None:
        self.known: dict[tuple[object, ...], Price] = {}
        windows = (*catalogue.promotions, *catalogue.coupons)
        moments = {moment for w in windows for moment in (w.starts_at, w.ends_at) if moment is not None}
        self._changes = sorted(moments)

    def period(self, now: datetime) -> int:
        """Which stretch between two changes ``now`` is in; a change is the first moment of its stretch."""
        return bisect_right(self._changes, now)

    def remember(self, key: tuple[object, ...], price: Price) -> None:
        if len(self.known) >= self._KEPT:
            self.known.clear()
        self.known[key] = price


def _best_price(
    catalogue: Catalogue,
    product: Product,
    list_unit: int,
    now: datetime,
    quantity: int,
    coupons: Sequence[str] | None,
    member: bool,
) -> Price:
    usable, refused_promotions = _usable_promotions(catalogue, product, now, member)
    asked, refused_coupons = _asked_coupons(catalogue, product, now, member, coupons)

    best: tuple[tuple[object, ...], tuple[PromotionLine, ...], int, tuple[CouponLine, ...]] | None = None
    for chosen in _legal(usable):
        lines, amount = _apply(chosen, ((list_unit, quantity),))
        if len(lines) < len(chosen):
            continue  # a part without effect: the combination without it is tried as well
        used = _best_coupons(asked, amount) if all(p.coupons for p in chosen) else ()
        total = amount - sum(c.off for c in used)
        order = (
            total,
            -sum(p.priority for p in chosen),
            len(chosen) + len(used),
            tuple(p.key for p in chosen),
        )
        if best is None or order < best[0]:
            best = (order, lines, amount, used)
    assert best is not None  # the empty combination is always legal
    _, lines, amount, used = best

    taken = {line.promotion.key for line in lines}
    for promotion in usable:
        if promotion.key not in taken:
            alone = _apply((promotion,), ((list_unit, quantity),))[0]
            why = Why.NOT_COMBINABLE if alone else Why.BELOW_THRESHOLD
            if not alone and _STEP[promotion.kind] == 1:
                why = Why.NO_GAIN
            saves = alone[0].off if alone else 0
            refused_promotions.append(Refusal(promotion.key, why, promotion, saves))
    spent = {line.coupon.code for line in used}
    for coupon, times in asked:
        if coupon.code not in spent:
            refused_coupons.append(_refuse(coupon, times, amount))
    return Price(
        list_unit=list_unit,
        quantity=quantity,
        promotions=lines,
        coupons=used,
        total=amount - sum(c.off for c in used),
        refused_coupons=tuple(sorted(refused_coupons, key=lambda r: r.key)),
        refused_promotions=tuple(refused_promotions),
    )


# ------------------------------------------------------------------------------- promotions


def _usable_promotions(
    catalogue: Catalogue, product: Product, now: datetime, member: bool
) -> tuple[list[Promotion], list[Refusal]]:
    """Active ones in order of application, and the members' ones that a stranger does not get."""
    usable: list[Promotion] = []
    refused: list[Refusal] = []
    for promotion in promotions_of(catalogue, product):
        if not promotion.active(now):
            continue
        if promotion.kind is PromotionKind.MEMBER_PRICE and not member:
            refused.append(Refusal(promotion.key, Why.MEMBERS_ONLY, promotion))
        else:
            usable.append(promotion)
    return usable, refused


def promotions_of(catalogue: Catalogue, product: Product) -> tuple[Promotion, ...]:
    """Every promotion that covers the product, whenever it holds, in order of application."""
    return catalogue.derived("pricing.promotions", _promotions_by_link)[product.link_id]


def _promotions_by_link(catalogue: Catalogue) -> dict[str, tuple[Promotion, ...]]:
    ordered = sorted(catalogue.promotions, key=_order)
    return {p.link_id: tuple(x for x in ordered if x.covers(p)) for p in catalogue.products}


def _order(promotion: Promotion) -> tuple[int, int, str]:
    return (_STEP[promotion.kind], -promotion.priority, promotion.key)


def _legal(usable: Sequence[Promotion]) -> Iterator[tuple[Promotion, ...]]:
    """Every set of promotions that may be used together, each in order of application."""
    for promotion in usable:
        if promotion.exclusive:
            yield (promotion,)
    stackable = [p for p in usable if p.stackable][:MAX_STACKABLE]
    single = [p for p in usable if not p.stackable and not p.exclusive]
    for size in range(len(stackable) + 1):
        for some in combinations(stackable, size):
            yield some
            for one in single:
                yield tuple(sorted((*some, one), key=_order))


def _apply(chosen: Iterable[Promotion], lots: Lots) -> tuple[tuple[PromotionLine, ...], int]:
    """The lines with an effect and the amount that remains."""
    lines: list[PromotionLine] = []
    amount = _sum(lots)
    for promotion in chosen:
        if promotion.kind is PromotionKind.SPEND_THRESHOLD:
            left = amount - _full_reduction(promotion, amount)
        else:
            lots = _discounted(promotion, lots)
            left = _sum(lots)
        if left < amount:
            lines.append(PromotionLine(promotion, amount - left))
        amount = left
    return tuple(lines), amount


def _discounted(promotion: Promotion, lots: Lots) -> Lots:
    """Steps 1 and 2: the lots after one promotion."""
    kind = promotion.kind
    percent = promotion.percent_off or 0
    quantity = sum(count for _, count in lots)
    match kind:
        case PromotionKind.PERCENT_OFF:
            return _pack((price - price * percent // 100, count) for price, count in lots)
        case PromotionKind.AMOUNT_OFF:
            return _pack((max(0, price - (promotion.amount_off or 0)), count) for price, count in lots)
        case PromotionKind.FIXED_PRICE:
            return _at_most(promotion.price or 0, lots, promotion.limit or quantity)
        case PromotionKind.MEMBER_PRICE:
            if promotion.price is not None:
                return _at_most(promotion.price, lots, quantity)
            return _pack((price - price * percent // 100, count) for price, count in lots)
        case PromotionKind.NTH_ITEM:
            return _cheapest(lots, quantity // (promotion.nth or 1), percent)
        case PromotionKind.BUY_X_GET_Y:
            buy, get = promotion.buy or 1, promotion.get or 1
            sets, rest = divmod(quantity, buy + get)
            return _cheapest(lots, sets * get + max(0, rest - buy), 100)
        case PromotionKind.SPEND_THRESHOLD:
            return lots
        case _:
            assert_never(kind)


def _at_most(price: int, lots: Lots, units: int) -> Lots:
    """The dearest ``units`` at no more than ``price`` each."""
    changed: list[tuple[int, int]] = []
    for each, count in reversed(lots):
        at_price = min(count, units)
        units -= at_price
        changed += [(min(each, price), at_price), (each, count - at_price)]
    return _pack(changed)


def _cheapest(lots: Lots, units: int, percent: int) -> Lots:
    """The cheapest ``units`` at ``percent`` off."""
    changed: list[tuple[int, int]] = []
    for price, count in lots:
        lowered = min(count, units)
        units -= lowered
        changed += [(price - price * percent // 100, lowered), (price, count - lowered)]
    return _pack(changed)


def _full_reduction(promotion: Promotion, amount: int) -> int:
    reached = [t for t in promotion.tiers if amount >= t.threshold]
    times = (t.amount_off * (amount // t.threshold if promotion.every else 1) for t in reached)
    return max(times, default=0)


def _pack(lots: Iterable[tuple[int, int]]) -> Lots:
    return tuple(sorted((price, count) for price, count in lots if count))


def _sum(lots: Lots) -> int:
    return sum(price * count for price, count in lots)


# ---------------------------------------------------------------------------------- coupons


def _asked_coupons(
    catalogue: Catalogue, product: Product, now: datetime, member: bool, codes: Sequence[str] | None
) -> tuple[list[tuple[Coupon, int]], list[Refusal]]:
    """(coupon, most uses) of those that may be used here, and the refused ones."""
    refused: list[Refusal] = []
    if codes is None:
        wanted = [(c, c.per_order_limit) for c in catalogue.coupons if c.public]
    else:
        by_code = {c.code.strip().casefold(): c for c in catalogue.coupons}
        wanted: list[tuple[Coupon, int]] = []
        for code, times in sorted(Counter(c.strip().casefold() for c in codes).items()):
            coupon = by_code.get(code)
            if coupon is None:
                written = next(c.strip() for c in codes if c.strip().casefold() == code)
                refused.append(Refusal(written, Why.UNKNOWN, None))
            else:
                wanted.append((coupon, min(times, coupon.per_order_limit)))
    asked: list[tuple[Coupon, int]] = []
    for coupon, times in wanted:
        why = _barred(coupon, product, now, member)
        if why is None:
            asked.append((coupon, times))
        elif codes is not None or why is Why.MEMBERS_ONLY:
            refused.append(Refusal(coupon.code, why, coupon))
    return asked, refused


def _barred(coupon: Coupon, product: Product, now: datetime, member: bool) -> Why | None:
    if coupon.link_ids and product.link_id not in coupon.link_ids:
        return Why.OTHER_PRODUCT
    if coupon.upcoming(now):
        return Why.NOT_YET
    if not coupon.active(now):
        return Why.OVER
    if coupon.members_only and not member:
        return Why.MEMBERS_ONLY
    return None


def _worth(coupon: Coupon, most: int, amount: int) -> CouponLine:
    """What it takes off ``amount``, used as often as it may be."""
    times = min(most, amount // coupon.threshold) if coupon.threshold else most
    each = coupon.amount_off if coupon.amount_off is not None else amount * (coupon.percent_off or 0) // 100
    if coupon.cap is not None:
        each = min(each, coupon.cap)
    off = min(amount, each * times)
    if each:  # further uses would take off nothing
        times = min(times, -(-off // each))
    return CouponLine(coupon, times, off)


def _best_coupons(asked: Iterable[tuple[Coupon, int]], amount: int) -> tuple[CouponLine, ...]:
    worth = [_worth(coupon, most, amount) for coupon, most in asked]
    worth = sorted((w for w in worth if w.off > 0), key=lambda w: (-w.off, w.coupon.code))
    alone = next((w for w in worth if not w.coupon.stackable), None)
    together: list[CouponLine] = []
    left = amount
    for line in (w for w in worth if w.coupon.stackable):
        off = min(left, line.off)
        if off:
            each = line.off // line.times
            together.append(CouponLine(line.coupon, min(line.times, -(-off // each)), off))
            left -= off
    if alone is not None and alone.off >= amount - left:
        return (alone,)
    return tuple(together)


def _refuse(coupon: Coupon, most: int, amount: int) -> Refusal:
    line = _worth(coupon, most, amount)
    if amount < coupon.threshold:
        return Refusal(coupon.code, Why.BELOW_THRESHOLD, coupon, short_by=coupon.threshold - amount)
    if not line.off:
        return Refusal(coupon.code, Why.NO_GAIN, coupon)
    return Refusal(coupon.code, Why.NOT_COMBINABLE, coupon, would_save=line.off)
