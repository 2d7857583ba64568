from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livery.shop.catalogue import Catalogue, Coupon, Product, Promotion, PromotionKind, Tier
from livery.shop.pricing import Price, Why, best_price

NOW = datetime(2026, 6, 18, 20, 0, tzinfo=UTC)
DAY = timedelta(days=1)


def shop(price: int, promotions: list[Promotion], coupons: list[Coupon]) -> Catalogue:
    item = Product(link_id="1", key="a", name="Thing", category="Things", price=price, stock=9)
    return Catalogue(store="s", currency="USD", products=(item,), promotions=tuple(promotions), coupons=tuple(coupons))


def priced(price: int, *parts: Promotion | Coupon, **asked: Any) -> Price:
    catalogue = shop(
        price,
        [p for p in parts if isinstance(p, Promotion)],
        [c for c in parts if isinstance(c, Coupon)],
    )
    return best_price(catalogue, catalogue.products[0], now=asked.pop("now", NOW), **asked)


def promotion(kind: str, key: str = "p", **terms: Any) -> Promotion:
    return Promotion(key=key, name=key, kind=PromotionKind(kind), **terms)


# ------------------------------------------------------------------------ worked examples


def test_percentages_round_the_discount_down() -> None:
    # 15 % of 39.99 is 5.9985: the discount is 5.99.
    assert priced(3999, promotion("percent_off", percent_off=15)).total == 3400


def test_flash_price_covers_only_the_units_left() -> None:
    price = priced(8900, promotion("fixed_price", price=5990, limit=2), quantity=3)
    assert price.total == 2 * 5990 + 8900
    assert price.unit == 6960  # 208.80 by three


def test_flash_price_never_raises_a_price() -> None:
    assert priced(5000, promotion("fixed_price", price=5990)).total == 5000


@pytest.mark.parametrize(("quantity", "total"), [(1, 1000), (2, 1500), (3, 2500), (4, 3000)])
def test_every_second_item_is_half_price(quantity: int, total: int) -> None:
    assert priced(1000, promotion("nth_item", nth=2, percent_off=50), quantity=quantity).total == total


@pytest.mark.parametrize(("quantity", "total"), [(1, 1000), (2, 2000), (3, 2000), (6, 4000), (7, 5000)])
def test_buy_two_get_one(quantity: int, total: int) -> None:
    assert priced(1000, promotion("buy_x_get_y", buy=2, get=1), quantity=quantity).total == total


TIERS = (Tier(threshold=20000, amount_off=2000), Tier(threshold=30000, amount_off=4000))


@pytest.mark.parametrize(
    ("amount", "every", "off"),
    [(19999, False, 0), (20000, False, 2000), (30000, False, 4000), (90000, False, 4000),
     (90000, True, 12000), (40000, True, 4000)],
)  # fmt: skip
def test_full_reduction_takes_the_best_reached_tier(amount: int, every: bool, off: int) -> None:
    assert priced(amount, promotion("spend_threshold", tiers=TIERS, every=every)).saved == off


def test_promotions_come_before_coupons_and_coupons_look_at_what_they_left() -> None:
    price = priced(
        10000,
        promotion("percent_off", percent_off=20),
        Coupon(code="TEN", percent_off=10, stackable=True),
        Coupon(code="FIVE", amount_off=500, threshold=8000, stackable=True),
        Coupon(code="HIGH", amount_off=900, threshold=8001, stackable=True),
    )
    assert price.total == 8000 - 800 - 500
    assert {c.coupon.code: c.off for c in price.coupons} == {"TEN": 800, "FIVE": 500}
    (refused,) = price.refused_coupons
    assert (refused.key, refused.why, refused.short_by) == ("HIGH", Why.BELOW_THRESHOLD, 1)


def test_a_promotion_is_left_out_where_it_would_cost_a_better_coupon() -> None:
    price = priced(
        10000,
        promotion("amount_off", amount_off=100),
        Coupon(code="BIG", amount_off=3000, threshold=10000),
    )
    assert price.total == 7000
    assert not price.promotions
    assert [r.why for r in price.refused_promotions] == [Why.NOT_COMBINABLE]


def test_member_prices_are_only_for_members() -> None:
    rule = promotion("member_price", price=800)
    assert priced(1000, rule).total == 1000
    assert priced(1000, rule).refused_promotions[0].why is Why.MEMBERS_ONLY
    assert priced(1000, rule, member=True).total == 800


def test_a_coupon_may_be_used_as_often_as_the_order_reaches_its_threshold() -> None:
    coupon = Coupon(code="EACH", amount_off=100, threshold=1000, per_order_limit=3)
    assert priced(2500, coupon).coupons[0].times == 2
    assert priced(9000, coupon).total == 8700
    assert priced(9000, coupon, coupons=["EACH"]).total == 8900
    assert priced(9000, coupon, coupons=["each", "EACH", "EACH", "EACH", "EACH"]).total == 8700


def test_asked_coupons_say_why_they_do_not_apply() -> None:
    price = priced(
        1000,
        Coupon(code="OLD", amount_off=10, ends_at=NOW),
        Coupon(code="SOON", amount_off=10, starts_at=NOW + DAY),
        Coupon(code="OTHER", amount_off=10, link_ids=("2",)),
        Coupon(code="CLUB", amount_off=10, members_only=True),
        Coupon(code="BEST", amount_off=50),
        Coupon(code="LESS", amount_off=20),
        coupons=["OLD", "SOON", "OTHER", "CLUB", "BEST", "LESS", "NOPE"],
    )
    assert price.total == 950
    assert {r.key: r.why for r in price.refused_coupons} == {
        "OLD": Why.OVER,
        "SOON": Why.NOT_YET,
        "OTHER": Why.OTHER_PRODUCT,
        "CLUB": Why.MEMBERS_ONLY,
        "LESS": Why.NOT_COMBINABLE,
        "NOPE": Why.UNKNOWN,
    }


def test_secret_coupons_count_only_when_named() -> None:
    coupon = Coupon(code="SORRY", amount_off=100, public=False)
    assert priced(1000, coupon).total == 1000
    assert priced(1000, coupon, coupons=["sorry "]).total == 900
    assert priced(1000, coupon, coupons=[]).total == 1000


def test_the_price_ends_with_its_first_part() -> None:
    price = priced(
        10000,
        promotion("percent_off", percent_off=10, ends_at=NOW + 3 * DAY),
        Coupon(code="C", amount_off=100, ends_at=NOW + DAY),
        Coupon(code="UNUSED", amount_off=10, ends_at=NOW + timedelta(hours=1)),
    )
    assert price.ends_at == NOW + DAY


def test_a_window_holds_from_its_start_to_just_before_its_end() -> None:
    rule = promotion("amount_off", amount_off=100, starts_at=NOW, ends_at=NOW + DAY)
    second = timedelta(seconds=1)
    found = [priced(1000, rule, now=t).total for t in (NOW - second, NOW, NOW + DAY - second, NOW + DAY)]
    assert found == [1000, 900, 900, 1000]


# ----------------------------------------------------------------- properties and reference

windows = st.sampled_from([(None, None), (NOW - DAY, NOW + DAY), (NOW + DAY, None), (None, NOW - DAY)])
percents = st.integers(1, 100)
amounts = st.integers(1, 6000)


@st.composite
def promotions(draw: st.DrawFn) -> list[Promotion]:
    made: list[Promotion] = []
    for i in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(PromotionKind))
        terms: dict[str, Any] = {
            PromotionKind.PERCENT_OFF: lambda: {"percent_off": draw(percents)},
            PromotionKind.AMOUNT_OFF: lambda: {"amount_off": draw(amounts)},
            PromotionKind.FIXED_PRICE: lambda: {
                "price": draw(amounts), "limit": draw(st.none() | st.integers(1, 4))
            },
            PromotionKind.NTH_ITEM: lambda: {"nth": draw(st.integers(2, 3)), "percent_off": draw(percents)},
            PromotionKind.BUY_X_GET_Y: lambda: {"buy": draw(st.integers(1, 3)), "get": draw(st.integers(1, 2))},
            PromotionKind.SPEND_THRESHOLD: lambda: {
                "tiers": tuple(
                    Tier(threshold=t, amount_off=min(t, draw(amounts)))
                    for t in draw(st.lists(st.integers(1, 20000), min_size=1, max_size=2))
                ),
                "every": draw(st.booleans()),
            },
            PromotionKind.MEMBER_PRICE: lambda: draw(
                st.sampled_from([{"price": 900}, {"percent_off": 7}, {"price": 30}])
            ),
        }[kind]()  # fmt: skip
        how = draw(st.sampled_from(["exclusive", "stackable", ""]))
        start, end = draw(windows)
        made.append(
            promotion(
                kind,
                f"p{i}",
                **terms,
                starts_at=start,
                ends_at=end,
                priority=draw(st.integers(0, 2)),
                coupons=draw(st.booleans()),
                **({how: True} if how else {}),
            )
        )
    return made


@st.composite
def coupons(draw: st.DrawFn) -> list[Coupon]:
    made: list[Coupon] = []
    for i in range(draw(st.integers(0, 4))):
        start, end = draw(windows)
        made.append(
            Coupon(
                code=f"C{i}",
                **draw(st.sampled_from([{"amount_off": 300}, {"amount_off": 1}, {"percent_off": 13}])),
                threshold=draw(st.sampled_from([0, 0, 500, 5000])),
                cap=draw(st.sampled_from([None, 50, 400])),
                stackable=draw(st.booleans()),
                per_order_limit=draw(st.integers(1, 2)),
                members_only=draw(st.booleans()),
                link_ids=draw(st.sampled_from([(), (), ("1",), ("2",)])),
                starts_at=start,
                ends_at=end,
            )
        )
    return made


cases = st.fixed_dictionaries(
    {
        "price": st.integers(1, 9000),
        "promotions": promotions(),
        "coupons": coupons(),
        "quantity": st.integers(1, 7),
        "member": st.booleans(),
    }
)


def solve(case: dict[str, Any], codes: list[str] | None = None) -> Price:
    catalogue = shop(case["price"], case["promotions"], case["coupons"])
    return best_price(
        catalogue,
        catalogue.products[0],
        now=NOW,
        quantity=case["quantity"],
        member=case["member"],
        coupons=codes,
    )


@given(cases)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_a_price_is_never_negative_nor_above_list_and_its_lines_add_up(case: dict[str, Any]) -> None:
    price = solve(case)
    assert 0 <= price.total <= price.list_total == case["price"] * case["quantity"]
    off = sum(x.off for x in price.promotions) + sum(x.off for x in price.coupons)
    assert price.list_total - off == price.total
    assert all(x.off > 0 for x in (*price.promotions, *price.coupons))


@given(cases)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_only_what_may_be_combined_is_combined_and_only_while_it_holds(case: dict[str, Any]) -> None:
    price = solve(case)
    used = [x.promotion for x in price.promotions]
    assert all(p.active(NOW) for p in used)
    assert len(used) <= 1 or not any(p.exclusive for p in used)
    assert sum(not p.stackable for p in used) <= 1
    assert case["member"] or all(p.kind is not PromotionKind.MEMBER_PRICE for p in used)
    taken = [x.coupon for x in price.coupons]
    assert all(c.active(NOW) and (case["member"] or not c.members_only) for c in taken)
    assert all(not c.link_ids or "1" in c.link_ids for c in taken)
    assert len(taken) <= 1 or all(c.stackable for c in taken)
    assert not taken or all(p.coupons for p in used)
    after_promotions = price.list_total - sum(x.off for x in price.promotions)
    for line in price.coupons:
        assert line.times <= line.coupon.per_order_limit
        assert after_promotions >= line.coupon.threshold * line.times
        assert line.coupon.cap is None or line.off <= line.coupon.cap * line.times


@given(cases, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_the_order_of_coupons_and_rules_means_nothing(case: dict[str, Any], rng: random.Random) -> None:
    codes = [c.code for c in case["coupons"] for _ in range(c.per_order_limit)]
    shuffled = rng.sample(codes, len(codes))
    mixed = {**case, **{k: rng.sample(case[k], len(case[k])) for k in ("promotions", "coupons")}}
    assert solve(case, codes) == solve(mixed, shuffled)


def reference(case: dict[str, Any]) -> int:
    """The cheapest legal total, the long way: unit by unit, every subset, every number of uses."""
    step = {"nth_item": 2, "buy_x_get_y": 2, "spend_threshold": 3}
    rules = [p for p in case["promotions"] if p.active(NOW) and (case["member"] or p.kind != "member_price")]
    rules.sort(key=lambda p: (step.get(p.kind, 1), -p.priority, p.key))
    best = case["price"] * case["quantity"]
    for size in range(len(rules) + 1):
        for some in combinations(rules, size):
            if size > 1 and any(p.exclusive for p in some):
                continue
            if sum(not p.stackable for p in some) > 1:
                continue
            units, off = [case["price"]] * case["quantity"], 0
            idle = False
            for p in some:
                before = sum(units) - off
                units, off = reference_step(p, units, off)
                idle = idle or sum(units) - off == before
            if idle:
                continue  # used without effect: then it is not used, and must not forbid coupons or others
            amount = sum(units) - off
            best = min(best, amount)
            if all(p.coupons for p in some):
                best = min(best, reference_coupons(case, amount))
    return best


def reference_step(p: Promotion, units: list[int], off: int) -> tuple[list[int], int]:
    units = sorted(units)
    if p.kind == "percent_off" or (p.kind == "member_price" and p.percent_off):
        return [u - u * p.percent_off // 100 for u in units], off
    if p.kind == "amount_off":
        return [max(0, u - p.amount_off) for u in units], off
    if p.kind in ("fixed_price", "member_price"):
        covered = len(units) if p.limit is None else min(p.limit, len(units))
        kept = len(units) - covered
        return units[:kept] + [min(u, p.price) for u in units[kept:]], off
    if p.kind == "nth_item":
        lowered = len(units) // p.nth
        return [u - u * p.percent_off // 100 for u in units[:lowered]] + units[lowered:], off
    if p.kind == "buy_x_get_y":
        free, counted = 0, 0
        for _ in units:
            counted += 1
            if counted > p.buy:
                free += 1
            if counted == p.buy + p.get:
                counted = 0
        return [0] * free + units[free:], off
    amount = sum(units) - off
    gains = [t.amount_off * (amount // t.threshold if p.every else 1) for t in p.tiers if t.threshold <= amount]
    return units, off + max(gains, default=0)


def reference_coupons(case: dict[str, Any], amount: int) -> int:
    usable = [
        c
        for c in case["coupons"]
        if c.active(NOW) and (case["member"] or not c.members_only) and (not c.link_ids or "1" in c.link_ids)
    ]
    best = amount
    for uses in product(*(range(c.per_order_limit + 1) for c in usable)):
        used = [(c, n) for c, n in zip(usable, uses, strict=True) if n]
        if len(used) > 1 and not all(c.stackable for c, _ in used):
            continue
        if any(amount < c.threshold * n for c, n in used):
            continue
        off = 0
        for c, n in used:
            each = c.amount_off if c.amount_off else amount * c.percent_off // 100
            off += n * (each if c.cap is None else min(each, c.cap))
        best = min(best, max(0, amount - off))
    return best


@given(cases)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_no_legal_combination_is_cheaper(case: dict[str, Any]) -> None:
    assert solve(case).total == reference(case)


def test_steps_and_several_coupons_together() -> None:
    price = priced(
        20000,
        promotion("percent_off", "a", percent_off=10, stackable=True),
        promotion("spend_threshold", "b", tiers=TIERS[:1], stackable=True),
        promotion("nth_item", "c", nth=2, percent_off=50),
        Coupon(code="X", amount_off=100, stackable=True),
        Coupon(code="Y", percent_off=10, cap=50, stackable=True),
        quantity=2,
    )
    # 180 + 90; the tier of 200 takes 20; the coupons 1 and 0.50.
    assert price.total == 18000 + 9000 - 2000 - 100 - 50
    assert [x.promotion.key for x in price.promotions] == ["a", "c", "b"]
    assert [x.off for x in price.promotions] == [4000, 9000, 2000]


# ------------------------------------------------------------------------ what is remembered


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_a_remembered_price_is_the_price_of_that_very_moment(seed: int) -> None:
    rng = random.Random(seed)

    def window() -> dict[str, datetime | None]:
        start = NOW + rng.randrange(-3, 4) * DAY
        return {
            "starts_at": rng.choice((None, start)),
            "ends_at": rng.choice((None, start + rng.randrange(1, 4) * DAY)),
        }

    offers = [
        promotion("percent_off", f"p{i}", percent_off=rng.randrange(5, 60), stackable=True, **window())
        for i in range(3)
    ]
    coupons = [
        Coupon(code=f"C{i}", amount_off=rng.randrange(1, 900), members_only=rng.random() < 0.3, **window())
        for i in range(2)
    ]
    catalogue = shop(4999, offers, coupons)
    moments = [NOW + days * DAY + rng.choice((-1, 0, 1)) * timedelta(microseconds=1) for days in range(-4, 8)]
    moments += rng.sample(moments, 6)  # asked again, out of order
    for moment in moments:
        asked = {"member": rng.random() < 0.5, "quantity": rng.randrange(1, 3)}
        fresh = shop(4999, offers, coupons)
        expected = best_price(fresh, fresh.products[0], now=moment, **asked)
        assert best_price(catalogue, catalogue.products[0], now=moment, **asked) == expected


def test_a_copy_with_another_promotion_has_its_own_prices() -> None:
    catalogue = shop(1000, [], [])
    assert best_price(catalogue, catalogue.products[0], now=NOW).total == 1000
    cheaper = catalogue.replace(promotions=(promotion("percent_off", percent_off=10),))
    assert best_price(cheaper, cheaper.products[0], now=NOW).total == 900
    assert best_price(catalogue, catalogue.products[0], now=NOW).total == 1000
