from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from livery.shop.catalogue import (
    Catalogue,
    Coupon,
    Product,
    Promotion,
    PromotionKind,
    Range,
    Status,
    Variant,
    faults,
)


def item(link: str = "1", **fields: Any) -> Product:
    given = {"key": f"k{link}", "name": f"Thing {link}", "category": "Things", "price": 1000, "stock": 5}
    return Product(link_id=link, **{**given, **fields})


def shop(*products: Product, **fields: Any) -> Catalogue:
    return Catalogue(**{"store": "s", "currency": "USD", "products": products or (item(),), **fields})


def test_values_are_frozen_and_closed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        item().price = 1  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValidationError, match="extra_forbidden"):
        item(prise=3)


def test_an_empty_stock_counts_as_sold_out() -> None:
    assert item(stock=0).availability is Status.SOLD_OUT
    assert item().availability is Status.ON_SALE
    gone = (Variant(sku="a", options={"size": "S"}, stock=0),)
    assert item(stock=0, variants=gone).availability is Status.SOLD_OUT
    assert item(stock=0, status="upcoming").availability is Status.UPCOMING


def test_a_variant_may_have_its_own_price() -> None:
    big = Variant(sku="a", options={"colour": "blue", "size": "L"}, price=1200, stock=1)
    assert item().price_of(big) == 1200
    assert item().price_of(None) == 1000
    assert big.label == "blue L"


@pytest.mark.parametrize(
    ("kind", "terms", "says"),
    [
        ("percent_off", {}, "needs percent_off"),
        ("percent_off", {"percent_off": 10, "price": 5}, "has no price"),
        ("nth_item", {"percent_off": 50}, "needs nth"),
        ("buy_x_get_y", {"buy": 2}, "needs get"),
        ("spend_threshold", {}, "needs tiers"),
        ("member_price", {"price": 5, "percent_off": 5}, "exactly one"),
        ("percent_off", {"percent_off": 10, "exclusive": True, "stackable": True}, "exclude each other"),
    ],
)
def test_a_promotion_has_the_terms_of_its_kind(kind: str, terms: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Promotion(key="p", name="p", kind=PromotionKind(kind), **terms)


def test_windows_and_ranges_run_forwards() -> None:
    start, end = datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(ValidationError, match="is not after starts_at"):
        Coupon(code="c", amount_off=1, starts_at=start, ends_at=end)
    with pytest.raises(ValidationError, match="lower end first"):
        Range(low=3, high=2)
    with pytest.raises(ValidationError, match="exactly one of"):
        Coupon(code="c")


def test_what_was_derived_does_not_follow_a_changed_copy() -> None:
    catalogue = shop(item("1"))
    assert catalogue.derived("count", lambda c: len(c.products)) == 1
    assert list(catalogue.by_link) == ["1"]
    for grown in (
        catalogue.model_copy(update={"products": (item("1"), item("2"))}),
        catalogue.model_copy(update={"products": (item("1"), item("2"))}, deep=True),
        catalogue.replace(products=(item("1"), item("2"))),
    ):
        assert grown.derived("count", lambda c: len(c.products)) == 2
        assert list(grown.by_link) == ["1", "2"]
    assert catalogue.derived("count", lambda c: 99) == 1


def test_unknown_currency_and_zone_are_refused() -> None:
    with pytest.raises(ValidationError, match="ISO 4217"):
        shop(currency="DOLLARS")
    with pytest.raises(ValidationError, match="IANA"):
        shop(timezone="Moon/Base")


def promotion(**fields: Any) -> Promotion:
    return Promotion(**{"key": "p", "name": "p", "kind": "fixed_price", "price": 900, **fields})


@pytest.mark.parametrize(
    ("catalogue", "location", "code"),
    [
        (shop(item("1"), item("1", key="z")), ("products", 1, "link_id"), "duplicate-link-id"),
        (shop(item("1"), item("2", key="K1")), ("products", 1, "key"), "duplicate-key"),
        (shop(promotions=(promotion(link_ids=("9",)),)), ("promotions", 0, "link_ids", 0), "unknown-link"),
        (shop(promotions=(promotion(categories=("X",)),)), ("promotions", 0, "categories", 0),
         "unknown-category"),
        (shop(promotions=(promotion(price=1001),)), ("promotions", 0, "price"), "promotion-over-price"),
        (shop(coupons=(Coupon(code="c", amount_off=1, link_ids=("9",)),)), ("coupons", 0, "link_ids", 0),
         "unknown-link"),
        (shop(coupons=(Coupon(code="c", amount_off=20, threshold=10),)), ("coupons", 0, "amount_off"),
         "coupon-over-price"),
        (shop(coupons=(Coupon(code="c", amount_off=1001, link_ids=("1",)),)), ("coupons", 0, "amount_off"),
         "coupon-over-price"),
        (shop(coupons=(Coupon(code="c", amount_off=1), Coupon(code="C", amount_off=1))),
         ("coupons", 1, "code"), "duplicate-code"),
        (shop(item(variants=(Variant(sku="a", options={"size": "S"}),))), ("products", 0, "stock"),
         "stock-twice"),
        (shop(item(stock=0, variants=(Variant(sku="a", options={"size": "S"}),
                                      Variant(sku="b", options={"size": "S"})))),
         ("products", 0, "variants", 1, "options"), "duplicate-variant"),
        (shop(item(stock=0, variants=(Variant(sku="a", options={"size": "S"}),
                                      Variant(sku="b", options={"colour": "red"})))),
         ("products", 0, "variants", 1, "options"), "uneven-options"),
        (shop(item("1", stock=0, variants=(Variant(sku="a", options={"size": "S"}),)),
              item("2", stock=0, variants=(Variant(sku="A", options={"size": "S"}),))),
         ("products", 1, "variants", 0, "sku"), "duplicate-sku"),
        (shop(promotions=tuple(promotion(key=f"p{i}", stackable=True) for i in range(9))),
         ("products", 0), "too-many-promotions"),
    ],
)  # fmt: skip
def test_faults_between_parts_are_found(catalogue: Catalogue, location: tuple[Any, ...], code: str) -> None:
    assert [(f.location, f.code) for f in faults(catalogue)] == [(location, code)]


def test_a_sound_catalogue_has_no_faults(english: Catalogue, chinese: Catalogue) -> None:
    assert list(faults(english)) == []
    assert list(faults(chinese)) == []
