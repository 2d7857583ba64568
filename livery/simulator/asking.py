"""One question of a task: what is asked about which items, its gold, and what a good answer rests on.

`Asker` knows one world at one moment of its show. For a kind (``price.many``) and a product it runs the real
operations and returns a `Question`, or None where the kind makes no sense there (a size of a kettle). How the
question is worded, and who asks it, is `livery.simulator.tasks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any, cast

from livery.shop.catalogue import Measure, Product, ShippingRegion, Status
from livery.shop.operations import OperationContext, OperationError, Operations
from livery.shop.registry import shop_operations
from livery.simulator import gold
from livery.simulator.task import GoldFact, Intent, Needed, Topic
from livery.simulator.worlds import World, near
from livery.types import JSON, RoomState

TOPICS: dict[Intent, tuple[Topic, ...]] = {
    Intent.PRODUCT: (Topic.ITEM,),
    Intent.PRICE: (Topic.PRICE,),
    Intent.PROMOTION: (Topic.PRICE,),
    Intent.COMPARISON: (Topic.COMPARE,),
    Intent.STOCK: (Topic.STOCK,),
    Intent.SIZE: (Topic.SIZE,),
    Intent.SHIPPING: (Topic.SHIPPING,),
    Intent.AFTER_SALES: (Topic.AFTER_SALES,),
    Intent.BUY: (Topic.STOCK, Topic.PRICE, Topic.ITEM),
    Intent.SMALL_TALK: (Topic.SMALL_TALK,),
    Intent.PRAISE: (Topic.SMALL_TALK,),
    Intent.COMPLAINT: (Topic.COMPLAINT,),
    Intent.OFF_TOPIC: (Topic.SMALL_TALK,),
    Intent.ABUSE: (Topic.SMALL_TALK,),
    Intent.INJECTION: (Topic.SMALL_TALK,),
}
"""Which reply skills fit an intent."""

SHOP = shop_operations()

_QUANTITIES = {"train": (2, 4, 6), "test": (3, 5, 7)}
_MEASURES: tuple[Measure, ...] = ("height_cm", "weight_kg", "foot_cm")
"""What the sample harnesses' size tools take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    kind: str
    intent: Intent
    items: tuple[str, ...] = ()
    facts: tuple[GoldFact, ...] = ()
    needed: tuple[Needed, ...] = ()
    ask_back: bool = False
    slots: Mapping[str, str] = field(default_factory=dict[str, str])
    """Filled already (places, variants, measures); ``item``, ``a`` and ``b`` are for whoever words it."""


class Asker:
    """Questions in one world at one moment."""

    def __init__(self, world: World, now: datetime, rng: Random, operations: Operations = SHOP) -> None:
        self.world = world
        self.catalogue = world.catalogue
        self.language = "zh" if world.catalogue.chinese else "en"
        self.rng = rng
        self._operations = operations
        state = RoomState(room=world.room, language=self.language, now=now.timestamp())
        self._context = OperationContext(catalogue=world.catalogue, state=state, now=now)

    @classmethod
    def at(cls, world: World, now: float) -> Asker:
        """One that only runs operations, at a moment given as Unix time."""
        return cls(world, datetime.fromtimestamp(now, world.catalogue.zone), Random(0))

    def run(self, operation: str, arguments: Mapping[str, JSON]) -> dict[str, Any]:
        """The operation's own result, without faults.

        Raises:
            OperationError: it could not do it.
        """
        outcome = self._operations[operation].run(self._context, arguments)
        return cast("dict[str, Any]", cast(Any, outcome).value)

    def question(self, kind: str, item: Product) -> Question | None:
        """A question of ``kind``, about ``item`` where it is about one."""
        intent = Intent(kind.partition(".")[0])
        try:
            match kind:
                case "product.aspect":
                    return self._aspect(item)
                case "product.faq":
                    return self._faq(item)
                case "price.one" | "price.many" | "price.variant" | "price.member":
                    return self._price(kind, item)
                case "promotion.item" | "promotion.ends":
                    return self._promotion(kind, item)
                case "promotion.store" | "promotion.named":
                    return self._promotions(kind)
                case "comparison.price" | "comparison.aspect":
                    return self._comparison(kind, item)
                case "stock.item" | "stock.count" | "stock.variant" | "buy.item":
                    return self._stock(kind, intent, item)
                case "size.fit":
                    return self._size(item)
                case "size.open":
                    if not set(_measures_of(item)):
                        return None
                    return Question(kind=kind, intent=intent, items=(item.link_id,), ask_back=True)
                case "shipping.fee" | "shipping.days":
                    return self._shipping(kind, item)
                case "shipping.open":
                    return Question(kind=kind, intent=intent, items=(item.link_id,), ask_back=True)
                case "after_sales.policy":
                    return self._policy()
                case _:
                    return Question(kind=kind, intent=intent)
        except OperationError:
            return None  # the shop has no such thing: another kind or item is drawn

    # ------------------------------------------------------------------------- products, prices

    def _aspect(self, item: Product) -> Question | None:
        if not item.specifications:
            return None
        name = self.rng.choice(list(item.specifications))
        result = self.run("catalog.get_product", {"link_id": item.link_id})
        facts = gold.specification(result, name, item.link_id, self.language)
        facts += gold.status(result, item.link_id, required=False)
        needed = Needed(
            operation="catalog.get_product",
            arguments={"link_id": item.link_id},
            free=("link_id",),
            result={"link_id": item.link_id},
        )
        return self._made("product.aspect", item, facts, needed, aspect=_spoken(name))

    def _faq(self, item: Product) -> Question | None:
        asked = [(f, gold.faq(f.answer, item.link_id)) for f in item.faq]
        asked = [(f, facts) for f, facts in asked if facts]
        if not asked:
            return None
        faq, facts = self.rng.choice(asked)
        arguments: dict[str, JSON] = {"query": faq.question, "link_id": item.link_id}
        results = self.run("faq.search", {**arguments, "limit": 2})["results"]
        if not any(r["answer"] == faq.answer and r.get("link_id") == item.link_id for r in results):
            return None
        needed = Needed(operation="faq.search", arguments=arguments, free=("query",), result={"answer": faq.answer})
        question = _spoken(faq.question.rstrip("?？"))
        return self._made("product.faq", item, facts, needed, question=question)

    def _price(self, kind: str, item: Product) -> Question | None:
        arguments: dict[str, JSON] = {"link_id": item.link_id}
        slots: dict[str, str] = {}
        if kind == "price.many":
            quantity = self.rng.choice(_QUANTITIES[self.world.ref.split])
            arguments["quantity"] = quantity
            slots["qty"] = f"{quantity}件" if self.language == "zh" else str(quantity)
        elif kind == "price.member":
            arguments["member"] = True
        free: tuple[str, ...] = ()
        result_has: dict[str, JSON] = {}
        if kind == "price.variant":
            if not item.variants or item.status is Status.DISCONTINUED:
                return None
            variant = self.rng.choice(item.variants)
            arguments["variant"], free = variant.label, ("variant",)
            slots["variant"] = variant.label
        result = self.run("pricing.quote", arguments)
        several_left = item.status is Status.ON_SALE and any(v.stock for v in item.variants)
        if kind != "price.variant" and "status" in result and several_left:
            return None  # its first variant is gone, and which one is meant stays open
        if kind == "price.variant":
            result_has = {"total": result["total"]}
        needed = Needed(operation="pricing.quote", arguments=arguments, free=free, result=result_has)
        return self._made(kind, item, gold.price(result, item.link_id), needed, **slots)

    def _promotion(self, kind: str, item: Product) -> Question | None:
        arguments: dict[str, JSON] = {"link_id": item.link_id}
        result = self.run("promotions.list", arguments)
        needed = Needed(operation="promotions.list", arguments=arguments)
        if kind == "promotion.item":
            return self._made(kind, item, gold.promotions(result, item.link_id, self.language), needed)
        own = {p.name for p in self.catalogue.promotions if p.link_ids or p.categories}
        running = [p for p in result["promotions"] if "starts_at" not in p and "ends_at" in p]
        running = [p for p in running if p["name"] in own]
        if len(running) != 1:
            return None  # which of two ends would be open
        return self._made(kind, item, gold.promotion_end(running[0], item.link_id), needed)

    def _promotions(self, kind: str) -> Question | None:
        result = self.run("promotions.list", {})
        needed = Needed(operation="promotions.list")
        if kind == "promotion.store":
            facts = gold.promotions(result, "", self.language)
            return Question(kind=kind, intent=Intent.PROMOTION, facts=tuple(facts), needed=(needed,))
        if not self.catalogue.promotions:
            return None
        promotion = self.rng.choice(self.catalogue.promotions)
        same = [p for p in result["promotions"] if p["name"] == promotion.name]
        if sum(p.name == promotion.name for p in self.catalogue.promotions) > 1:
            return None
        facts = gold.promotion_state(same[0] if same else None, self.language)
        return Question(
            kind=kind,
            intent=Intent.PROMOTION,
            facts=tuple(facts),
            needed=(needed,),
            slots={"promotion": promotion.name},
        )

    # ------------------------------------------------------------------- comparison, stock, size

    def _comparison(self, kind: str, item: Product) -> Question | None:
        on = [p for p in self.catalogue.products if p.link_id != item.link_id]
        on = [p for p in on if p.status is not Status.DISCONTINUED]
        if item.status is Status.DISCONTINUED:
            return None
        near_ones = [p for p in on if p.category == item.category] or on
        shared: list[str] = []
        if kind == "comparison.aspect":
            near_ones = [p for p in on if set(p.specifications) & set(item.specifications)]
        if not near_ones:
            return None
        other = self.rng.choice(near_ones)
        links: list[JSON] = [item.link_id, other.link_id]
        result = self.run("catalog.compare", {"link_ids": links})
        slots: dict[str, str] = {}
        if kind == "comparison.aspect":
            shared = [n for n in item.specifications if n in other.specifications]
            name = self.rng.choice(shared)
            facts = gold.compared_aspect(result, name, self.language)
            slots["aspect"] = _spoken(name)
        else:
            facts = gold.compared_prices(result)
        needed = Needed(operation="catalog.compare", arguments={"link_ids": links})
        return Question(
            kind=kind,
            intent=Intent.COMPARISON,
            items=(item.link_id, other.link_id),
            facts=tuple(facts),
            needed=(needed,),
            slots=slots,
        )

    def _stock(self, kind: str, intent: Intent, item: Product) -> Question | None:
        arguments: dict[str, JSON] = {"link_id": item.link_id}
        slots: dict[str, str] = {}
        free: tuple[str, ...] = ()
        if kind == "stock.variant":
            if not item.variants or item.status is not Status.ON_SALE:
                return None
            variant = self.rng.choice(item.variants)
            arguments["variant"], free = variant.label, ("variant",)
            slots["variant"] = variant.label
        result = self.run("stock.check", arguments)
        facts = gold.stock(result, item.link_id, self.language, counted=kind == "stock.count")
        needed = Needed(operation="stock.check", arguments=arguments, free=free, result={"link_id": item.link_id})
        return self._made(kind, item, facts, needed, **slots)

    def _size(self, item: Product) -> Question | None:
        measures = _measures_of(item)
        if not measures or item.size_chart is None:
            return None
        row = self.rng.choice(item.size_chart.rows)
        body: dict[str, float] = {}
        for measure in measures:
            span = row.ranges[measure]
            step = 0.1 if measure == "foot_cm" else 1.0
            low, high = span.low - 2 * step, span.high + 2 * step
            value = round(self.rng.uniform(low, high) / step) * step
            said = near(self.world.ref.split, round(value, 1), step)
            body[measure] = int(said) if said.is_integer() else said
        arguments: dict[str, JSON] = {"link_id": item.link_id, **body}
        result = self.run("size.advise", arguments)
        if result["result"] == "need_measures":
            return None
        needed = Needed(operation="size.advise", arguments=arguments)
        question = self._made("size.fit", item, gold.size(result, item.link_id), needed)
        words = ",".join(f"{k}={v:g}" for k, v in body.items())
        return Question(
            kind=question.kind, intent=question.intent, items=question.items, facts=question.facts,
            needed=question.needed, slots={"body": words},
        )  # fmt: skip

    # ---------------------------------------------------------------------- shipping, policies

    def _shipping(self, kind: str, item: Product) -> Question | None:
        if item.status is Status.DISCONTINUED:
            return None
        regions = [*self.catalogue.shipping.regions, *self.catalogue.shipping.excluded]
        if not regions:
            return None
        region = self.rng.choice(regions)
        if not isinstance(region, ShippingRegion) and self.rng.random() < 0.5:
            region = self.rng.choice(self.catalogue.shipping.regions or regions)
        place = self.rng.choice(region.places or (region.name,))
        arguments: dict[str, JSON] = {"region": place, "link_id": item.link_id}
        result = self.run("shipping.quote", arguments)
        if result["region"] != region.name:
            return None  # the place stands in two regions
        asked = "fee" if kind == "shipping.fee" else "days"
        facts = gold.shipping(result, item.link_id, self.language, asked=asked)
        needed = Needed(
            operation="shipping.quote", arguments=arguments, free=("region",), result={"region": region.name}
        )
        return self._made(kind, item, facts, needed, place=place)

    def _policy(self) -> Question | None:
        if not self.catalogue.policies:
            return None
        policy = self.rng.choice(self.catalogue.policies)
        result = self.run("policy.lookup", {"topic": policy.topic})
        facts = gold.policy(result, self.language)
        if result["topic"] != policy.topic or not facts:
            return None
        said = self.rng.choice((policy.topic, *policy.aliases))
        needed = Needed(
            operation="policy.lookup",
            arguments={"topic": policy.topic},
            free=("topic",),
            result={"topic": policy.topic},
        )
        return Question(
            kind="after_sales.policy",
            intent=Intent.AFTER_SALES,
            facts=tuple(facts),
            needed=(needed,),
            slots={"topic": said},
        )

    def _made(self, kind: str, item: Product, facts: list[GoldFact], needed: Needed, **slots: str) -> Question:
        return Question(
            kind=kind,
            intent=Intent(kind.partition(".")[0]),
            items=(item.link_id,),
            facts=tuple(facts),
            needed=(needed,),
            slots=slots,
        )


def _measures_of(item: Product) -> list[Measure]:
    chart = item.size_chart
    return [] if chart is None else [m for m in _MEASURES if all(m in row.ranges for row in chart.rows)]


def _spoken(name: str) -> str:
    """A specification's or question's words inside a sentence: lower case but for abbreviations."""
    return name if name[:2].isupper() else name[:1].lower() + name[1:]
