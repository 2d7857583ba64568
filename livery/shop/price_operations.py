"""Operations on prices: ``pricing.quote`` and ``promotions.list``."""

from __future__ import annotations

from datetime import datetime

from livery.shop.arguments import ListPromotions, Quote, read, schema_of
from livery.shop.catalogue import Coupon, Product, Promotion, Status, Variant
from livery.shop.matching import describe_options, match_variants, product_by_link
from livery.shop.money import format_money, money_value
from livery.shop.operations import Operation, OperationContext, OperationError, Outcome
from livery.shop.pricing import Price, Refusal, Why, best_price
from livery.shop.wording import coupon_terms, promotion_terms, refusal_text, status_text, time_value
from livery.types import JSON, ErrorKind

_REFUSED_SHOWN = 3
"""Of coupons that nobody asked for; each one asked for is answered."""


def quote(context: OperationContext, arguments: Quote) -> Outcome:
    catalogue = context.catalogue
    product = product_by_link(catalogue, arguments.link_id)
    value: dict[str, JSON] = {"link_id": product.link_id, "name": product.name}
    if product.status is Status.DISCONTINUED:
        # A price of something that nobody can buy would only mislead.
        return Outcome(value={**value, "status": status_text(catalogue, product.status)})
    variants = _priced_variants(product, arguments.variant)
    if arguments.variant or len(variants) < len(product.variants):
        value["variant"] = " / ".join(v.label for v in variants)
    price = best_price(
        catalogue,
        product,
        now=price_time(product, context.now),
        variant=variants[0] if variants else None,
        quantity=arguments.quantity,
        coupons=arguments.coupons,
        member=arguments.member,
    )
    in_stock = sum(v.stock for v in variants) if variants else product.total_stock
    status = product.availability
    if status is Status.ON_SALE and not in_stock:
        status = Status.SOLD_OUT
    if status is not Status.ON_SALE:
        value["status"] = status_text(catalogue, status)
    elif in_stock < arguments.quantity:
        value["in_stock"] = in_stock
    value.update(price_value(context, price, asked=arguments.coupons is not None))
    return Outcome(value=value)


def price_time(product: Product, now: datetime) -> datetime:
    """When a price asked for now would be paid: of an upcoming product not before it opens."""
    opens = product.on_sale_at if product.status is Status.UPCOMING else None
    return max(now, opens) if opens is not None else now


def price_value(context: OperationContext, price: Price, *, asked: bool = False) -> dict[str, JSON]:
    """A price as a result: list price, one line an adjustment with its reason, what is paid, until when."""
    catalogue = context.catalogue

    def money(amount: int) -> JSON:
        return dict(money_value(amount, catalogue.currency))

    value: dict[str, JSON] = {"quantity": price.quantity, "list_price": money(price.list_unit)}
    lines: list[JSON] = []
    for line in price.promotions:
        lines.append(
            {
                "reason": _named(line.promotion.name, promotion_terms(catalogue, line.promotion)),
                **_percent(line.promotion),
                "off": money(line.off),
            }
        )
    for used in price.coupons:
        reason = _named(used.coupon.name, coupon_terms(catalogue, used.coupon))
        entry: dict[str, JSON] = {"coupon": used.coupon.code, "reason": reason, **_percent(used.coupon)}
        if used.times > 1:
            entry["times"] = used.times
        if used.coupon.claim:
            entry["claim"] = used.coupon.claim
        lines.append({**entry, "off": money(used.off)})
    if lines:
        value["lines"] = lines
    value["unit_price"] = money(price.unit)
    value["total"] = money(price.total)
    if price.saved:
        value["saved"] = money(price.saved)
    if price.ends_at is not None:
        value["ends_at"] = time_value(catalogue, price.ends_at, context.now)
    refused = list(price.refused_coupons if asked else price.refused_coupons[:_REFUSED_SHOWN])
    refused += [r for r in price.refused_promotions if r.why is not Why.NO_GAIN]
    if refused:
        value["not_used"] = [_refused(context, r) for r in refused]
    return value


def _refused(context: OperationContext, refusal: Refusal) -> dict[str, JSON]:
    catalogue, part = context.catalogue, refusal.part
    why = refusal_text(catalogue, refusal, context.now)
    entry: dict[str, JSON]
    if isinstance(part, Promotion):
        entry = {"promotion": _named(part.name, promotion_terms(catalogue, part)), "why": why}
    elif part is not None:
        entry = {"coupon": refusal.key, "terms": coupon_terms(catalogue, part), "why": why}
    else:
        entry = {"coupon": refusal.key, "why": why}
    if refusal.would_save:
        entry["would_save"] = dict(money_value(refusal.would_save, catalogue.currency))
    return entry


def _priced_variants(product: Product, said: str) -> tuple[Variant, ...]:
    """Variants of one price: those said, else all.

    Raises:
        OperationError: ambiguous where they cost differently.
    """
    variants = match_variants(product, said) if said else product.variants
    if len({product.price_of(v) for v in variants}) > 1:
        if not said:
            # The product's own price is quoted, and that is what most of its variants cost.
            return tuple(v for v in variants if v.price is None)[:1] or _cheapest(product)
        raise OperationError(
            ErrorKind.AMBIGUOUS,
            f"{said!r} of link {product.link_id} costs differently by variant. {describe_options(product)}",
        )
    return variants


def _cheapest(product: Product) -> tuple[Variant, ...]:
    return (min(product.variants, key=product.price_of),)


def _percent(part: Promotion | Coupon) -> dict[str, JSON]:
    return {} if part.percent_off is None else {"percent_off": part.percent_off}


def _named(name: str, terms: str) -> str:
    return f"{name}: {terms}" if name else terms


# ------------------------------------------------------------------------- promotions.list


def list_promotions(context: OperationContext, arguments: ListPromotions) -> Outcome:
    catalogue, now = context.catalogue, context.now
    product = product_by_link(catalogue, arguments.link_id) if arguments.link_id else None
    promotions = [
        p for p in catalogue.promotions if (p.active(now) or p.upcoming(now)) and (product is None or p.covers(product))
    ]
    coupons = [
        c
        for c in catalogue.coupons
        if c.public
        and (c.active(now) or c.upcoming(now))
        and (product is None or not c.link_ids or product.link_id in c.link_ids)
    ]
    value: dict[str, JSON] = {}
    if product is not None:
        value = {"link_id": product.link_id, "name": product.name}
    value["promotions"] = [_promotion_entry(context, p, product is None) for p in promotions]
    value["coupons"] = [_coupon_entry(context, c, product is None) for c in coupons]
    return Outcome(value=value)


def _promotion_entry(context: OperationContext, promotion: Promotion, with_links: bool) -> JSON:
    catalogue = context.catalogue
    entry: dict[str, JSON] = {
        "name": promotion.name,
        "terms": promotion_terms(catalogue, promotion),
        **_percent(promotion),
    }
    for term in ("price", "amount_off"):
        if (amount := getattr(promotion, term)) is not None:
            entry[term] = dict(money_value(amount, catalogue.currency))
    if with_links and (promotion.link_ids or promotion.categories):
        entry["for"] = [*promotion.link_ids, *promotion.categories]
    return {**entry, **_window(context, promotion)}


def _coupon_entry(context: OperationContext, coupon: Coupon, with_links: bool) -> JSON:
    catalogue = context.catalogue
    entry: dict[str, JSON] = {
        "code": coupon.code,
        "terms": coupon_terms(catalogue, coupon),
        **_percent(coupon),
    }
    if coupon.amount_off is not None:
        entry["amount_off"] = dict(money_value(coupon.amount_off, catalogue.currency))
    if coupon.threshold:
        entry["threshold"] = format_money(coupon.threshold, catalogue.currency)
    if coupon.members_only:
        entry["members_only"] = True
    if coupon.claim:
        entry["claim"] = coupon.claim
    if with_links and coupon.link_ids:
        entry["for"] = [*coupon.link_ids]
    return {**entry, **_window(context, coupon)}


def _window(context: OperationContext, part: Promotion | Coupon) -> dict[str, JSON]:
    value: dict[str, JSON] = {}
    if part.starts_at is not None and part.upcoming(context.now):
        value["starts_at"] = time_value(context.catalogue, part.starts_at, context.now)
    if part.ends_at is not None:
        value["ends_at"] = time_value(context.catalogue, part.ends_at, context.now)
    return value


PRICE_OPERATIONS = (
    Operation(
        name="pricing.quote",
        summary="What a product costs now, with the best promotions and coupons, line by line.",
        parameters=schema_of(Quote),
        run=lambda context, arguments: quote(context, read(Quote, arguments)),
    ),
    Operation(
        name="promotions.list",
        summary="Promotions and claimable coupons that hold now or will, with their terms and times.",
        parameters=schema_of(ListPromotions),
        run=lambda context, arguments: list_promotions(context, read(ListPromotions, arguments)),
    ),
)
