"""What is true for one task, with the role of every figure: read from operation results and from gold facts.

A fact knows its item, its variant, and whether it comes from a rule's text, so that a list price cannot bear out a
final price nor a refused coupon a discount. What a reply says is `livery.simulator.reading`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import cast

from livery.harness.hooks.builtin.evidence import link_of
from livery.harness.hooks.builtin.wordlists import straight
from livery.harness.quantities import Kind, Quantity, quantities_of, read_quantities
from livery.simulator import cues
from livery.simulator.reading import role_of
from livery.simulator.task import GoldFact
from livery.types import JSON

_ROLES = {
    "total": "total", "price": "price", "unit_price": "unit", "list_price": "list", "saved": "saved",
    "saving": "saved", "savings": "saved", "off": "saving", "amount_off": "saving", "discount": "saving",
    "would_save": "saving", "fee": "fee", "shipping_fee": "fee", "surcharge_included": "fee", "surcharge": "fee",
    "free_over": "threshold", "threshold": "threshold", "order_total": "total", "less_by": "difference",
    "difference": "difference", "cap": "cap", "price_now": "price", "final_price": "total", "flash_price": "price",
    "member_price": "price", "variant_list_prices": "list",
}  # fmt: skip
"""Field of a result, or last part of a gold fact's key -> role of its amount."""
STOCK_KEYS = frozenset({"stock", "left", "in_stock_count", "stock_left", "remaining", "count_left"})
_STATUS = {
    "on sale": "on_sale", "在售": "on_sale", "sold out": "sold_out", "已售罄": "sold_out",
    "no longer sold": "discontinued", "已下架": "discontinued", "not on sale yet": "upcoming", "未开售": "upcoming",
}  # fmt: skip
_RANGE_BETWEEN = re.compile(r"\s*(?:-|~|to|到|至)\s*$")


@dataclass(frozen=True, slots=True)
class KnownFact:
    quantity: Quantity
    role: str = ""
    """As `reading.Claim.role`; ``price`` for one unit's price now, ``any`` where the source leaves it open."""
    item: str = ""
    """Link id; empty: of the store."""
    variant: str = ""
    """Label of the one variant it is true of."""
    clause: str = ""
    """Straight text of the rule it stands in; empty for a typed field."""
    refused: str = ""
    """Why the coupon or promotion it belongs to is not part of the price."""
    coupon: str = ""
    """Code of the coupon, or name of the promotion, whose terms it is of."""
    low_end: bool = False
    high_end: bool = False
    """Of a range: "2-5 days"."""
    gold: int = -1
    """Index of the gold fact; -1 for one of a result."""


@dataclass(frozen=True, slots=True)
class Known:
    """What one result says."""

    facts: tuple[KnownFact, ...] = ()
    by_kind: Mapping[str, tuple[KnownFact, ...]] = ()  # type: ignore[assignment]
    text: str = ""
    """Everything it holds in words, straight."""
    rules: tuple[str, ...] = ()
    """Free texts, straight: policies, answers, notes."""
    questions: tuple[str, ...] = ()
    """Questions that answers of a FAQ belong to."""
    names: tuple[tuple[str, str], ...] = ()
    status: tuple[tuple[str, str, str], ...] = ()
    """(link id, variant or "", on_sale | sold_out | discontinued | upcoming)."""
    ships: tuple[tuple[str, bool], ...] = ()
    applied: frozenset[str] = frozenset()
    """Coupon codes that are part of a price."""
    refused: tuple[tuple[str, str], ...] = ()
    """(coupon code, why) of those that are not."""
    later: frozenset[str] = frozenset()
    """Promotions and coupons that have not started, straight."""
    cheapest: str = ""
    items: frozenset[str] = frozenset()


def known_of(value: JSON, item: str = "") -> Known:
    """What a typed operation result says; ``item`` is the link id that its call was about."""
    return _known(_ENCODER.encode(value), item)


_ENCODER = json.JSONEncoder(ensure_ascii=False)


@lru_cache(maxsize=4096)
def _known(written: str, item: str) -> Known:
    value: JSON = json.loads(written)
    reader = _Reader()
    reader.walk(value, "", item, "", "")
    by_kind: dict[str, list[KnownFact]] = {}
    for fact in reader.facts:
        by_kind.setdefault(fact.quantity.kind, []).append(fact)
    return Known(
        facts=tuple(reader.facts),
        by_kind={k: tuple(v) for k, v in by_kind.items()},
        text=straight(written),
        rules=tuple(reader.rules),
        questions=tuple(reader.questions),
        names=tuple(reader.names),
        status=tuple(reader.status),
        ships=tuple(reader.ships),
        applied=frozenset(reader.applied),
        refused=tuple(reader.refused),
        later=frozenset(reader.later),
        cheapest=reader.cheapest,
        items=frozenset({f.item for f in reader.facts} | reader.links) - {""},
    )


class _Reader:
    """One walk over a result."""

    def __init__(self) -> None:
        self.facts: list[KnownFact] = []
        self.rules: list[str] = []
        self.questions: list[str] = []
        self.coupon = ""
        self.links: set[str] = set()
        self.names: list[tuple[str, str]] = []
        self.status: list[tuple[str, str, str]] = []
        self.ships: list[tuple[str, bool]] = []
        self.applied: set[str] = set()
        self.refused: list[tuple[str, str]] = []
        self.later: set[str] = set()
        self.cheapest = ""

    def walk(self, value: JSON, key: str, item: str, variant: str, refused: str) -> None:
        if isinstance(value, Mapping):
            self._object(cast("Mapping[str, JSON]", value), key, item, variant, refused)
        elif isinstance(value, list):
            if len(value) > 1 and key and all(isinstance(v, str) for v in value):
                self._typed(value, key, item, variant, refused)
            for v in value:
                self.walk(v, key, item, variant, refused)
        elif isinstance(value, str):
            self._string(value, key, item, variant, refused)
        elif isinstance(value, bool):
            if key == "ships":
                self.ships.append((item, value))
        elif value is not None:
            role = "stock" if key in STOCK_KEYS or key == "in_stock" else ""
            for q in quantities_of({key: value}):
                self._add(q, role, item, variant, refused)

    def _object(self, value: Mapping[str, JSON], key: str, item: str, variant: str, refused: str) -> None:
        if isinstance(value.get("currency"), str) and isinstance(value.get("amount"), int):
            for q in quantities_of(dict(value)):
                self._add(q, _ROLES.get(key, "any"), item, variant, refused)
            return
        if key == "cheapest":
            self.cheapest = link_of(value)
        own = link_of(value)
        item = own or item
        if own:
            self.links.add(own)
        name = value.get("name")
        if own and isinstance(name, str):
            self.names.append((name, own))
        label = value.get("variant")
        variant = label if isinstance(label, str) and " / " not in label else variant
        status = value.get("status")
        if isinstance(status, str) and status in _STATUS:
            self.status.append((item, variant, _STATUS[status]))
        elif key == "" and own and "total" in value:
            self.status.append((item, variant, "on_sale"))
        self._coupon(value, key)
        why = str(value.get("why", "")) if key == "not_used" else refused
        outer = self.coupon
        named = value.get("coupon") or value.get("code") or (value.get("name") if "terms" in value else None)
        self.coupon = str(named) if named else outer
        for k, v in value.items():
            if k in ("variants", "stock") and isinstance(v, Mapping):
                for said, count in v.items():
                    if isinstance(count, int):
                        self._add(Quantity("count", count, "", str(count), 0, 0), "stock", item, said, "")
                        self.status.append((item, said, "on_sale" if count else "sold_out"))
            elif k == "variants_sold_out" and isinstance(v, list):
                self.status += [(item, str(said), "sold_out") for said in v]
            elif k == "variant_list_prices" and isinstance(v, Mapping):
                for said, price in v.items():
                    self.walk(price, "list_price", item, said, "")
            elif k == "aspects" and isinstance(v, Mapping):
                for aspect, by_link in v.items():
                    for link, said in cast("Mapping[str, JSON]", by_link).items():
                        self.walk(said, aspect, link, "", "")
            elif k == "chart" and isinstance(v, Mapping):
                for said, ranges in v.items():
                    self.walk(ranges, k, item, said, "")
            elif k not in ("name", "link_id", "link", "variant", "score"):
                self.walk(v, k, item, variant, why if why or k != "not_used" else "not used")
        self.coupon = outer

    def _coupon(self, value: Mapping[str, JSON], key: str) -> None:
        code = value.get("coupon")
        if isinstance(code, str):
            if key == "not_used":
                self.refused.append((code, str(value.get("why", ""))))
            else:
                self.applied.add(code)
        if isinstance(value.get("starts_at"), Mapping):
            for k in ("name", "code"):
                if isinstance(value.get(k), str):
                    self.later.add(straight(str(value[k])))

    def _string(self, value: str, key: str, item: str, variant: str, refused: str) -> None:
        low = straight(value)
        if key == "question":
            self.questions.append(value)
        if (
            key in ("text", "answer", "note", "reason", "terms", "why", "claim", "with", "specs", "points", "topic")
            or len(value) > 24
        ):
            self.rules.append(low)
        if key in ("size", "sizes", "at", "currency", "cut_off", "尺码", "码数", "鞋码"):
            self._typed(value, key if key not in ("尺码", "码数", "鞋码") else "size", item, variant, refused)
            if key != "at":
                return
        read = read_quantities(value)
        ends = [
            0,
            *(m.end() for m in cues.SENTENCE.finditer(low)),
            *(m.end() for m in cues.CLAUSE.finditer(low)),
            len(low),
        ]
        for i, q in enumerate(read):
            start = max((e for e in ends if e <= q.start), default=0)
            end = min((e for e in ends if e > q.start), default=len(low))
            role = ""
            if q.kind in ("money", "number"):
                role = role_of(low[max(start, q.start - 48) : q.start], low[q.end : end], low[start:end]) or "any"
            low_end = i + 1 < len(read) and self._joined(low, q, read[i + 1])
            high_end = i > 0 and self._joined(low, read[i - 1], q)
            self.facts.append(
                KnownFact(
                    _unplaced(q),
                    role,
                    item,
                    variant,
                    low[start:end] if len(low) > 12 else "",
                    refused,
                    self.coupon,
                    low_end,
                    high_end,
                )
            )

    @staticmethod
    def _joined(low: str, a: Quantity, b: Quantity) -> bool:
        return a.kind == b.kind and a.unit == b.unit and _RANGE_BETWEEN.fullmatch(low[a.end : b.start]) is not None

    def _typed(self, value: JSON, key: str, item: str, variant: str, refused: str) -> None:
        for q in quantities_of({key: value}):
            self._add(q, "", item, variant, refused)

    def _add(self, q: Quantity, role: str, item: str, variant: str, refused: str) -> None:
        self.facts.append(KnownFact(_unplaced(q), role, item, variant, "", refused, self.coupon))


def _unplaced(q: Quantity) -> Quantity:
    return replace(q, start=0, end=0)


def gold_facts(facts: Sequence[GoldFact]) -> Iterator[KnownFact]:
    """Gold facts that have a quantity."""
    for i, fact in enumerate(facts):
        if fact.kind in ("yes_no", "text") or isinstance(fact.value, bool | list | dict) or fact.value is None:
            continue
        key = fact.key.rsplit(".", 1)[-1]
        role, variant = "", ""
        if fact.kind == "money":
            role = _ROLES.get(key, "any")
        elif fact.kind == "count" and (key in STOCK_KEYS or fact.key.startswith("stock")):
            role, variant = "stock", fact.key.partition("stock.")[2]
        unit = fact.unit if fact.kind != "percent" or fact.unit else ""
        yield KnownFact(Quantity(cast(Kind, fact.kind), fact.value, unit, "", 0, 0), role, fact.item, variant, gold=i)
