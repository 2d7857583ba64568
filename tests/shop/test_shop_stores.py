"""The sample stores hold what a demonstration needs, for years."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from livery.shop.catalogue import Catalogue, PromotionKind, Status


@pytest.fixture(params=["english", "chinese"])
def catalogue(request: pytest.FixtureRequest) -> Catalogue:
    return request.getfixturevalue(request.param)


def test_enough_of_everything(catalogue: Catalogue) -> None:
    assert len(catalogue.products) >= 24
    assert len({p.category for p in catalogue.products}) >= 6
    assert {p.kind for p in catalogue.promotions} == set(PromotionKind)
    assert len(catalogue.coupons) >= 6
    assert len(catalogue.policies) >= 8
    assert len(catalogue.faq) >= 15
    assert sum(len(p.faq) >= 3 for p in catalogue.products) >= 20
    assert len(catalogue.shipping.regions) >= 4
    assert len(catalogue.shipping.excluded) >= 3
    assert {p.availability for p in catalogue.products} == set(Status)
    assert sum(p.size_chart is not None for p in catalogue.products) >= 4
    assert sum(bool(p.variants) for p in catalogue.products) >= 10
    assert any(0 < v.stock <= 3 for p in catalogue.products for v in p.variants)
    assert any(not v.stock for p in catalogue.products for v in p.variants)


@pytest.mark.parametrize("year", [2026, 2027, 2029])
def test_promotions_hold_for_years(catalogue: Catalogue, year: int) -> None:
    now = datetime(year, 7, 7, tzinfo=UTC)
    assert len({p.kind for p in catalogue.promotions if p.active(now)}) == len(PromotionKind)
    assert sum(c.active(now) for c in catalogue.coupons) >= 6
    assert any(p.upcoming(now) for p in catalogue.promotions)


def test_sizes_of_a_chart_are_sizes_of_the_product(catalogue: Catalogue) -> None:
    for product in catalogue.products:
        if product.size_chart:
            sizes = {row.size for row in product.size_chart.rows}
            assert any(set(v.options.values()) & sizes for v in product.variants), product.name


def test_shipping_classes_are_those_of_the_rules(catalogue: Catalogue) -> None:
    ruled = {c for r in catalogue.shipping.regions for c in (*r.surcharges, *r.excluded_classes)}
    assert {p.shipping_class for p in catalogue.products} & ruled
