"""Operations on products: ``catalog.get_product``, ``catalog.search``, ``catalog.compare``, ``stock.check``,
``size.advise``."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import cast

from rapidfuzz import fuzz

from livery.shop.arguments import (
    AdviseSize,
    CheckStock,
    Compare,
    GetProduct,
    Search,
    read,
    schema_of,
)
from livery.shop.catalogue import Catalogue, Measure, Product, SizeChart, Status
from livery.shop.matching import (
    TextIndex,
    fold,
    match_products,
    match_variants,
    product_by_link,
    product_by_name,
    tokens,
)
from livery.shop.money import EXPONENTS, money_value
from livery.shop.operations import Operation, OperationContext, OperationError, Outcome
from livery.shop.price_operations import price_time
from livery.shop.pricing import Price, best_price
from livery.shop.sizing import advise
from livery.shop.wording import coupon_terms, pick, promotion_terms, status_text, time_value
from livery.types import JSON, ErrorKind

_SOON = timedelta(days=14)
"""A price that ends later than this needs no hurry, and no room in the result."""


def get_product(context: OperationContext, arguments: GetProduct) -> Outcome:
    catalogue = context.catalogue
    if arguments.link_id:
        product = product_by_link(catalogue, arguments.link_id)
    else:
        product = product_by_name(catalogue, arguments.name)
    value = _head(context, product, with_offers=True)
    if product.variants:
        value["options"] = _options(product)
        gone = [v.label for v in product.variants if not v.stock]
        if gone and product.availability is Status.ON_SALE:
            value["variants_sold_out"] = [*gone]
        dearer = {v.label: v for v in product.variants if v.price not in (None, product.price)}
        if dearer:
            prices = {label: product.price_of(v) for label, v in dearer.items()}
            value["variant_list_prices"] = {
                label: dict(money_value(price, catalogue.currency)) for label, price in prices.items()
            }
    if product.specifications:
        value["specs"] = {**product.specifications}
    if product.selling_points:
        value["points"] = [*product.selling_points]
    return Outcome(value=value)


def _head(context: OperationContext, product: Product, *, with_offers: bool = False) -> dict[str, JSON]:
    """Link, name, what one unit costs now with public coupons, and its status where it is not on sale."""
    catalogue = context.catalogue
    value: dict[str, JSON] = {"link_id": product.link_id, "name": product.name}
    if product.availability is not Status.ON_SALE:
        value["status"] = status_text(catalogue, product.availability)
    if product.on_sale_at is not None and product.status is Status.UPCOMING:
        value["on_sale_at"] = time_value(catalogue, product.on_sale_at, context.now)
    if product.status is Status.DISCONTINUED:
        return value
    price = best_price(catalogue, product, now=price_time(product, context.now))
    value["price"] = dict(money_value(price.total, catalogue.currency))
    if price.saved:
        value["list_price"] = dict(money_value(price.list_unit, catalogue.currency))
        if with_offers:
            value["with"] = [*_offers(catalogue, price)]
            if price.ends_at is not None and price.ends_at - context.now < _SOON:
                value["price_ends_at"] = time_value(catalogue, price.ends_at, context.now)["text"]
    return value


def _offers(catalogue: Catalogue, price: Price) -> list[str]:
    offers = [f"{p.promotion.name} ({promotion_terms(catalogue, p.promotion)})" for p in price.promotions]
    coupon = pick(catalogue, "coupon", "优惠券")
    offers += [f"{coupon} {c.coupon.code} ({coupon_terms(catalogue, c.coupon)})" for c in price.coupons]
    return offers


def _options(product: Product) -> dict[str, JSON]:
    options: dict[str, list[str]] = {}
    for variant in product.variants:
        for name, value in variant.options.items():
            if value not in options.setdefault(name, []):
                options[name].append(value)
    chart = [row.size for row in product.size_chart.rows] if product.size_chart else []
    for values in options.values():
        if set(values) <= set(chart):
            values.sort(key=chart.index)
    return {name: [*values] for name, values in options.items()}


# -------------------------------------------------------------------------- catalog.search


def search(context: OperationContext, arguments: Search) -> Outcome:
    catalogue = context.catalogue
    index = catalogue.derived("catalog.texts", _texts)
    scores: dict[str, float] = {p.link_id: 2.0 * s for s, p in match_products(catalogue, arguments.query)}
    hits = index.search(arguments.query)
    top = hits[0].rank if hits else 1.0
    for hit in hits:
        link = catalogue.products[hit.index].link_id
        # Names count most; the rest of the text decides between equal names.
        scores[link] = scores.get(link, 0.0) + hit.score + 0.3 * hit.rank / top
    most = None
    if arguments.max_price is not None:
        # The shortest decimal that means this number is what the viewer said: 49.9, not its binary neighbour.
        most = int(Decimal(repr(arguments.max_price)).scaleb(EXPONENTS[catalogue.currency]))
    found: list[JSON] = []
    order = {p.link_id: i for i, p in enumerate(catalogue.products)}
    best = max(scores.values(), default=0.0)
    for link in sorted(scores, key=lambda link: (-scores[link], order[link])):
        product = catalogue.by_link[link]
        if scores[link] < 0.4 * best or (arguments.category and not _in_category(product, arguments.category)):
            continue
        if most is not None and _price_now(context, product) > most:
            continue
        found.append(_head(context, product))
        if len(found) == arguments.limit:
            break
    value: dict[str, JSON] = {"results": found}
    if not found:
        value["categories"] = [*dict.fromkeys(p.category for p in catalogue.products)]
    return Outcome(value=value)


def _price_now(context: OperationContext, product: Product) -> int:
    return best_price(context.catalogue, product, now=price_time(product, context.now)).total


def _in_category(product: Product, category: str) -> bool:
    wanted, is_called = fold(category), fold(product.category)
    return wanted in is_called or is_called in wanted or fuzz.ratio(wanted, is_called) >= 85


def _texts(catalogue: Catalogue) -> TextIndex:
    return TextIndex(
        " ".join(
            (
                p.name,
                *p.aliases,
                p.category,
                *p.selling_points,
                *(f"{k} {v}" for k, v in p.specifications.items()),
                *dict.fromkeys(value for v in p.variants for value in v.options.values()),
            )
        )
        for p in catalogue.products
    )


# ------------------------------------------------------------------------- catalog.compare


def compare(context: OperationContext, arguments: Compare) -> Outcome:
    catalogue = context.catalogue
    links = dict.fromkeys(link.strip() for link in arguments.link_ids)
    products = [product_by_link(catalogue, link) for link in links]
    if len(products) < 2:
        raise OperationError(ErrorKind.INVALID_ARGUMENTS, "link_ids: two different products are expected")
    value: dict[str, JSON] = {"products": [_head(context, p) for p in products]}
    names = list(dict.fromkeys(name for p in products for name in p.specifications))
    missing: list[str] = []
    if arguments.aspects:
        wanted: list[str] = []
        for aspect in arguments.aspects:
            near = [n for n in names if _same_aspect(aspect, n)]
            wanted += [n for n in near if n not in wanted]
            if not near and fold(aspect) not in ("price", "价格"):
                missing.append(aspect)
        names = wanted
    not_stated = pick(catalogue, "not stated", "未注明")
    value["aspects"] = {n: {p.link_id: p.specifications.get(n, not_stated) for p in products} for n in names}
    if missing:
        value["not_stated"] = [*missing]
    sold = [p for p in products if p.status is not Status.DISCONTINUED]
    prices = sorted((_price_now(context, p), p.link_id) for p in sold)
    if len(prices) > 1 and prices[0][0] < prices[1][0]:
        value["cheapest"] = {
            "link_id": prices[0][1],
            "less_by": dict(money_value(prices[1][0] - prices[0][0], catalogue.currency)),
        }
    return Outcome(value=value)


def _same_aspect(asked: str, name: str) -> bool:
    a, b = fold(asked), fold(name)
    return a in b or b in a or bool(set(tokens(a)) & set(tokens(b))) or fuzz.ratio(a, b) >= 80


# ----------------------------------------------------------------------------- stock.check


def check_stock(context: OperationContext, arguments: CheckStock) -> Outcome:
    catalogue = context.catalogue
    product = product_by_link(catalogue, arguments.link_id)
    variants = match_variants(product, arguments.variant) if arguments.variant else product.variants
    stock = sum(v.stock for v in variants) if variants else product.stock
    status = product.availability
    if status is Status.ON_SALE and not stock:
        status = Status.SOLD_OUT
    value: dict[str, JSON] = {
        "link_id": product.link_id,
        "name": product.name,
        "status": status_text(catalogue, status),
    }
    if status in (Status.DISCONTINUED, Status.UPCOMING):
        if product.on_sale_at is not None and status is Status.UPCOMING:
            value["on_sale_at"] = time_value(catalogue, product.on_sale_at, context.now)
        return Outcome(value=value)
    if product.status is Status.SOLD_OUT:
        stock = 0
    value["stock"] = stock
    if product.status is Status.ON_SALE and len(variants) == 1 and arguments.variant:
        value["variant"] = variants[0].label
    elif product.status is Status.ON_SALE and variants:
        value["variants"] = {v.label: v.stock for v in variants}
    return Outcome(value=value)


# ----------------------------------------------------------------------------- size.advise

_MEASURES: dict[Measure, tuple[str, str, str]] = {
    "height_cm": ("height", "身高", "cm"),
    "weight_kg": ("weight", "体重", "kg"),
    "chest_cm": ("chest", "胸围", "cm"),
    "waist_cm": ("waist", "腰围", "cm"),
    "hip_cm": ("hip", "臀围", "cm"),
    "foot_cm": ("foot length", "脚长", "cm"),
}


def advise_size(context: OperationContext, arguments: AdviseSize) -> Outcome:
    catalogue = context.catalogue
    product = product_by_link(catalogue, arguments.link_id)
    value: dict[str, JSON] = {"link_id": product.link_id, "name": product.name}
    chart = product.size_chart
    if chart is None:
        return Outcome(value={**value, "result": "no_chart", "reason": _no_chart(catalogue, product)})
    given: dict[Measure, float | None] = {
        "height_cm": arguments.height_cm,
        "weight_kg": arguments.weight_kg,
        "chest_cm": arguments.chest_cm,
        "waist_cm": arguments.waist_cm,
        "foot_cm": arguments.foot_cm,
    }
    body: dict[Measure, float] = {m: v for m, v in given.items() if v is not None}
    advice = advise(chart, body, arguments.usual_size)
    if advice is None:
        return Outcome(value={**value, **_by_usual_size(catalogue, chart, arguments.usual_size)})
    rows = {row.size: row for row in chart.rows}
    value["result"] = advice.result
    if advice.result == "fits":
        value["size"] = advice.sizes[0]
    else:
        value["sizes"] = [*advice.sizes]
    value["reason"] = _reason(catalogue, body, advice.used)
    value["chart"] = {s: _ranges(catalogue, rows[s].ranges, advice.used) for s in advice.sizes}
    if chart.note:
        value["note"] = chart.note
    value["stock"] = {s: sum(v.stock for v in product.variants if s in v.options.values()) for s in advice.sizes}
    return Outcome(value=value)


def _no_chart(catalogue: Catalogue, product: Product) -> str:
    sized = any(len(values) > 1 for values in _sizes(product))
    if sized:
        return pick(catalogue, "it comes in sizes, but has no size chart", "有尺码，但没有尺码表")
    return pick(catalogue, "it has no sizes", "不分尺码")


def _sizes(product: Product) -> list[set[str]]:
    names = [n for v in product.variants[:1] for n in v.options if fold(n) in ("size", "尺码", "码数", "鞋码")]
    return [{v.options[n] for v in product.variants} for n in names]


def _by_usual_size(catalogue: Catalogue, chart: SizeChart, usual: str) -> dict[str, JSON]:
    row = next((r for r in chart.rows if fold(r.size) == fold(usual)), None) if usual else None
    value: dict[str, JSON] = {"result": "need_measures"}
    if row is not None:
        value = {"result": "usual_size", "size": row.size}
        value["chart"] = {row.size: _ranges(catalogue, row.ranges, tuple(row.ranges))}
    value["ask_for"] = [pick(catalogue, *_MEASURES[m][:2]) for m in chart.measures]
    if chart.note:
        value["note"] = chart.note
    return value


def _reason(catalogue: Catalogue, body: dict[Measure, float], used: tuple[Measure, ...]) -> str:
    parts = [f"{pick(catalogue, *_MEASURES[m][:2])} {body[m]:g} {_MEASURES[m][2]}" for m in used]
    return pick(catalogue, "by ", "按") + pick(catalogue, ", ", "、").join(parts)


def _ranges(catalogue: Catalogue, ranges: object, used: tuple[Measure, ...]) -> str:
    held = cast("dict[Measure, object]", ranges)
    parts = [f"{pick(catalogue, *_MEASURES[m][:2])} {held[m]} {_MEASURES[m][2]}" for m in used if m in held]
    return ", ".join(parts)


CATALOG_OPERATIONS = (
    Operation(
        name="catalog.get_product",
        summary="Facts of one product: price now, options, specifications, selling points, status.",
        parameters=schema_of(GetProduct),
        run=lambda context, arguments: get_product(context, read(GetProduct, arguments)),
    ),
    Operation(
        name="catalog.search",
        summary="Products that fit a few words, best first, each with its price now.",
        parameters=schema_of(Search),
        run=lambda context, arguments: search(context, read(Search, arguments)),
    ),
    Operation(
        name="catalog.compare",
        summary="Two to four products side by side: prices now and specifications.",
        parameters=schema_of(Compare),
        run=lambda context, arguments: compare(context, read(Compare, arguments)),
    ),
    Operation(
        name="stock.check",
        summary="How many are left, by variant.",
        parameters=schema_of(CheckStock),
        run=lambda context, arguments: check_stock(context, read(CheckStock, arguments)),
    ),
    Operation(
        name="size.advise",
        summary="Which size fits, by the product's size chart and the viewer's measures.",
        parameters=schema_of(AdviseSize),
        run=lambda context, arguments: advise_size(context, read(AdviseSize, arguments)),
    ),
)
