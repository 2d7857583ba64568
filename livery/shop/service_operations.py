"""Operations around the sale: ``shipping.quote``, ``policy.lookup``, ``faq.search``, ``room.state``,
``room.show_item`` and ``room.hand_off``.

Results never repeat what the policy wrote: what a tool result holds counts as evidence for a reply.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import time

from rapidfuzz import fuzz

from livery.shop.arguments import (
    HandOff,
    LookUpPolicy,
    NoArguments,
    QuoteShipping,
    SearchFaq,
    ShowItem,
    read,
    schema_of,
)
from livery.shop.catalogue import Catalogue, ExcludedRegion, Faq, Product, ShippingRegion, Status
from livery.shop.matching import Pairs, TextIndex, fold, mentioned_products, product_by_link, tokens
from livery.shop.money import money_value
from livery.shop.operations import Operation, OperationContext, OperationError, Outcome
from livery.shop.pricing import best_price
from livery.shop.wording import pick, status_text, time_value
from livery.types import JSON, Effect, ErrorKind

# ------------------------------------------------------------------------- shipping.quote


def quote_shipping(context: OperationContext, arguments: QuoteShipping) -> Outcome:
    catalogue = context.catalogue
    shipping = catalogue.shipping
    product = product_by_link(catalogue, arguments.link_id) if arguments.link_id else None
    region, place = _region(catalogue, arguments.region)
    value: dict[str, JSON] = {"region": region.name}
    if place != region.name:
        value["place"] = place
    if isinstance(region, ExcludedRegion):
        value["ships"] = False
        if region.reason:
            value["reason"] = region.reason
        return Outcome(value=value)
    if product is not None:
        value["link_id"] = product.link_id
        if product.shipping_class in region.excluded_classes:
            reason = pick(catalogue, "this product does not ship there", "该商品不发往此地区")
            return Outcome(value={**value, "ships": False, "reason": reason})
    value["ships"] = True
    fee = region.fee
    if product is not None and product.status is not Status.DISCONTINUED:
        order = best_price(catalogue, product, now=context.now, quantity=arguments.quantity).total
        if region.free_over is not None and order >= region.free_over:
            fee = 0
        surcharge = region.surcharges.get(product.shipping_class, 0)
        if surcharge:
            value["surcharge_included"] = dict(money_value(surcharge, catalogue.currency))
            fee += surcharge
        value["order_total"] = dict(money_value(order, catalogue.currency))
    value["fee"] = dict(money_value(fee, catalogue.currency))
    if not fee:
        value["free_shipping"] = True
    elif region.free_over is not None:
        value["free_over"] = dict(money_value(region.free_over, catalogue.currency))
    days = str(region.days_min) if region.days_min == region.days_max else f"{region.days_min}-{region.days_max}"
    value["delivery"] = pick(catalogue, f"{days} days", f"{days}天")
    if shipping.cut_off:
        local = context.now.astimezone(catalogue.zone).time()
        leaves_today = local < time.fromisoformat(shipping.cut_off)
        value["cut_off"] = shipping.cut_off
        value["leaves"] = pick(catalogue, *(("today", "今天发出") if leaves_today else ("tomorrow", "明天发出")))
    if region.note:
        value["note"] = region.note
    return Outcome(value=value)


@dataclass(frozen=True, slots=True)
class _Place:
    folded: str
    name: str
    region: ShippingRegion | ExcludedRegion


def _places(catalogue: Catalogue) -> list[_Place]:
    regions = [*catalogue.shipping.excluded, *catalogue.shipping.regions]
    found = [_Place(fold(n), n, r) for r in regions for n in (r.name, *r.places)]
    # The longest name first: "West Virginia" before "Virginia"; an exclusion before a region of equal name.
    return sorted(found, key=lambda p: -len(p.folded))


def _region(catalogue: Catalogue, said: str) -> tuple[ShippingRegion | ExcludedRegion, str]:
    """The region meant and the place's name as the store writes it.

    Raises:
        OperationError: not found, with the regions there are.
    """
    text = fold(said)
    places = catalogue.derived("shipping.places", _places)
    for place in places:
        if place.folded == text:
            return place.region, place.name
    for place in places:
        if place.folded.isascii():
            if re.search(rf"\b{re.escape(place.folded)}\b", text):
                return place.region, place.name
        elif place.folded in text or (len(text) > 1 and text in place.folded):
            return place.region, place.name
    near = [(fuzz.ratio(place.folded, text), i) for i, place in enumerate(places) if len(text) > 3]
    score, i = max(near, default=(0.0, 0))
    if score >= 85:
        return places[i].region, places[i].name
    names = [r.name for r in (*catalogue.shipping.regions, *catalogue.shipping.excluded)]
    raise OperationError(
        ErrorKind.NOT_FOUND, f"No shipping rule for {said!r}. There are rules for: {', '.join(names)}."
    )


# -------------------------------------------------------------------------- policy.lookup


def look_up_policy(context: OperationContext, arguments: LookUpPolicy) -> Outcome:
    catalogue = context.catalogue
    policies = catalogue.policies
    asked = fold(arguments.topic)
    for policy in policies:
        if asked in (fold(policy.topic), *map(fold, policy.aliases)):
            return Outcome(value={"topic": policy.topic, "text": policy.text})
    topics, texts = catalogue.derived("policy.indexes", _policy_indexes)
    scores: dict[int, float] = {}
    for index, trust in ((topics, 1.0), (texts, 0.6)):
        for hit in index.search(arguments.topic):
            scores[hit.index] = max(scores.get(hit.index, 0.0), trust * hit.score)
    best = sorted(scores, key=lambda i: (-scores[i], i))
    if not best or scores[best[0]] < 0.3:
        known = ", ".join(p.topic for p in policies)
        raise OperationError(ErrorKind.NOT_FOUND, f"No policy on {arguments.topic!r}. There are: {known}.")
    value: dict[str, JSON] = {"topic": policies[best[0]].topic, "text": policies[best[0]].text}
    also = [policies[i].topic for i in best[1:3] if scores[i] >= 0.8 * scores[best[0]]]
    if also:
        value["see_also"] = [*also]
    return Outcome(value=value)


def _policy_indexes(catalogue: Catalogue) -> tuple[TextIndex, TextIndex]:
    """Of topics with their other names, and of the texts."""
    topics = TextIndex(" ".join((p.topic.replace("_", " "), *p.aliases)) for p in catalogue.policies)
    return topics, TextIndex(p.text for p in catalogue.policies)


# ----------------------------------------------------------------------------- faq.search


_RANKED = 30
"""Candidates of BM25 that are looked at closely."""
_NAMED = 0.75
"""Share of a product's name from which the question is about it."""
_ANSWER_SHARE = 0.7
_LEAST = 0.2


class _FaqIndex:
    def __init__(self, catalogue: Catalogue) -> None:
        self.entries: list[tuple[Product | None, Faq]] = [(None, f) for f in catalogue.faq]
        self.entries += [(p, f) for p in catalogue.products for f in p.faq]
        self.questions = TextIndex(f.question for _, f in self.entries)
        self.texts = TextIndex(f"{f.question} {f.answer}" for _, f in self.entries)
        self.names: dict[str, frozenset[str]] = {
            p.link_id: frozenset(t for n in (p.name, *p.aliases) for t in tokens(n)) for p in catalogue.products
        }

    def candidates(self, query: str, wanted: set[str]) -> list[int]:
        """Entries of the store and of the products ``wanted`` (all where empty), the best by BM25."""
        among = [i for i, (p, _) in enumerate(self.entries) if not p or not wanted or p.link_id in wanted]
        return [hit.index for hit in self.texts.search(query, among)[:_RANKED]]

    def score(self, by_question: Pairs, by_text: Pairs, i: int, light: frozenset[str]) -> float:
        """0-1. Both ways count: how much of the query the entry holds, how much of its question was asked.

        What only the answer holds counts less; a product's own name, in the query or not, hardly counts.
        """
        product, _ = self.entries[i]
        light = light | self.names[product.link_id] if product else light
        share = self.questions.share(by_question, i, light)
        in_text = self.texts.share(by_text, i, light)
        share += _ANSWER_SHARE * max(0.0, in_text - share)
        said = {near for _, near, _ in by_question}
        weights = {
            w: self.questions.weight(w) * (0.1 if w in light and w not in said else 1.0)
            for w in self.questions.documents[i]
        }
        asked = sum(x for w, x in weights.items() if w in said) / (sum(weights.values()) or 1.0)
        words = " ".join(self.questions.documents[i])
        likeness = fuzz.token_sort_ratio(" ".join(near for _, near, _ in by_question), words) / 100
        return 0.6 * share + 0.25 * asked + 0.15 * likeness


def search_faq(context: OperationContext, arguments: SearchFaq) -> Outcome:
    catalogue = context.catalogue
    index = catalogue.derived("faq.index", _FaqIndex)
    if arguments.link_id:
        wanted = {product_by_link(catalogue, arguments.link_id).link_id}
    else:
        mentioned = mentioned_products(catalogue, arguments.query)
        wanted = {product.link_id for share, product in mentioned if share >= _NAMED}
        if not wanted and context.state.on_screen in catalogue.by_link:
            wanted = {context.state.on_screen}
    # With no product meant or shown, every product's answers count, each with its link id.
    light = frozenset(t for link in wanted for t in index.names[link])
    by_question, by_text = index.questions.expand(arguments.query), index.texts.expand(arguments.query)
    scored = [(index.score(by_question, by_text, i, light), i) for i in index.candidates(arguments.query, wanted)]
    results: list[JSON] = []
    for score, i in sorted(scored, key=lambda x: (-x[0], x[1]))[: arguments.limit]:
        if score < _LEAST:
            break
        product, faq = index.entries[i]
        entry: dict[str, JSON] = {"question": faq.question, "answer": faq.answer}
        if product is not None:
            entry["link_id"] = product.link_id
        results.append({**entry, "score": round(score, 2)})
    return Outcome(value={"results": results})


# ----------------------------------------------------------------------------------- room


def room_state(context: OperationContext, arguments: NoArguments) -> Outcome:
    del arguments
    catalogue, state = context.catalogue, context.state
    value: dict[str, JSON] = {
        "store": catalogue.store,
        "now": time_value(catalogue, context.now, context.now),
    }
    if state.streamer:
        value["streamer"] = state.streamer
    shown = catalogue.by_link.get(state.on_screen)
    if shown is not None:
        value["on_screen"] = {"link_id": shown.link_id, "name": shown.name}
    if state.notes:
        value["notes"] = {**state.notes}
    return Outcome(value=value)


def show_item(context: OperationContext, arguments: ShowItem) -> Outcome:
    product = product_by_link(context.catalogue, arguments.link_id)
    if product.status is Status.DISCONTINUED:
        status = status_text(context.catalogue, product.status)
        raise OperationError(ErrorKind.UNAVAILABLE, f"Link {product.link_id} {product.name}: {status}.")
    return Outcome(
        value={"shown": product.link_id, "name": product.name},
        effects=(Effect(kind="show_item", link_id=product.link_id),),
    )


def hand_off(context: OperationContext, arguments: HandOff) -> Outcome:
    text = pick(context.catalogue, "a person of the store will take this over", "已转人工客服处理")
    return Outcome(
        value={"handed_off": True, "text": text},
        effects=(Effect(kind="hand_off", reason=arguments.reason),),
    )


SERVICE_OPERATIONS = (
    Operation(
        name="shipping.quote",
        summary="Whether, for how much and how fast an order ships to a place.",
        parameters=schema_of(QuoteShipping),
        run=lambda context, arguments: quote_shipping(context, read(QuoteShipping, arguments)),
    ),
    Operation(
        name="policy.lookup",
        summary="The store's rule on a topic, in its own words.",
        parameters=schema_of(LookUpPolicy),
        run=lambda context, arguments: look_up_policy(context, read(LookUpPolicy, arguments)),
    ),
    Operation(
        name="faq.search",
        summary="Answered questions of the store and its products that are like this one.",
        parameters=schema_of(SearchFaq),
        run=lambda context, arguments: search_faq(context, read(SearchFaq, arguments)),
    ),
    Operation(
        name="room.state",
        summary="What is on screen, the time, and the operator's notes.",
        parameters=schema_of(NoArguments),
        run=lambda context, arguments: room_state(context, read(NoArguments, arguments)),
    ),
    Operation(
        name="room.show_item",
        summary="Put a product's card on screen.",
        parameters=schema_of(ShowItem),
        writes=True,
        run=lambda context, arguments: show_item(context, read(ShowItem, arguments)),
    ),
    Operation(
        name="room.hand_off",
        summary="Hand the viewer's matter over to a person.",
        parameters=schema_of(HandOff),
        writes=True,
        run=lambda context, arguments: hand_off(context, read(HandOff, arguments)),
    ),
)
