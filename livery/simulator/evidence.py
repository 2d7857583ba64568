"""What a reply to one task may rest on: real results of the operations it called, gold, and what the operator trusts.

A call that failed bears nothing out, nor does a result that says of itself that it is stale. Chat text is no evidence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from livery.harness.hooks.builtin.wordlists import straight
from livery.harness.model import Harness
from livery.harness.quantities import Quantity, quantities_of, read_quantities
from livery.shop.catalogue import Catalogue
from livery.simulator.known import Known, KnownFact, gold_facts, known_of
from livery.simulator.lexicon import Lexicon, lexicon_of
from livery.simulator.task import GoldFact, Task
from livery.types import JSON, Request, ToolResult, Trajectory

_ECHOED = frozenset({"measure", "count", "size", "number", "date", "duration"})
"""What a viewer said of this kind may be said back ("for 170 cm"); money and percentages never."""


@dataclass(frozen=True)
class Evidence:
    """Everything known about a task's answer, read."""

    known: tuple[Known, ...]
    gold: tuple[GoldFact, ...]
    """Of all that is asked, in order."""
    gold_known: tuple[KnownFact, ...]
    """Those with a quantity, as facts."""
    lexicon: Lexicon
    asked: frozenset[str]
    """Link ids that the request is about."""
    several: bool
    """Whether more than one thing is asked."""
    variants: Mapping[str, frozenset[str]]
    """Link id -> labels of the variants asked about."""
    coupons: frozenset[str]
    """Codes of coupons that the request names."""
    quantity: int
    """Pieces asked about."""
    quantities: frozenset[int]
    """How many are asked about, of each thing."""
    echo: tuple[Quantity, ...]
    said_by_viewer: str

    def pool(self, kind: str) -> Iterator[KnownFact]:
        for f in self.gold_known:
            if f.quantity.kind == kind:
                yield f
        for k in self.known:
            yield from k.by_kind.get(kind, ())

    @cached_property
    def text(self) -> str:
        return "\n".join(k.text for k in self.known)

    @cached_property
    def rules(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(r for k in self.known for r in k.rules))

    @cached_property
    def applied(self) -> frozenset[str]:
        return frozenset[str]().union(*(k.applied for k in self.known))

    @cached_property
    def refused(self) -> Mapping[str, str]:
        """Coupon code -> why it is not used."""
        return {code: why for k in self.known for code, why in k.refused if code not in self.applied}

    @cached_property
    def later(self) -> frozenset[str]:
        return frozenset[str]().union(*(k.later for k in self.known))

    @cached_property
    def cheapest(self) -> str:
        """Of what was compared; "" where nothing was, or several comparisons had several."""
        found = {k.cheapest for k in self.known if k.cheapest}
        return found.pop() if len(found) == 1 else ""

    def prices(self) -> Mapping[str, int]:
        """Link id -> one unit's price now, where known."""
        found: dict[str, int] = {}
        for f in self.pool("money"):
            if f.role in ("price", "total", "unit") and f.item and isinstance(f.quantity.value, int):
                found.setdefault(f.item, f.quantity.value)
        return found

    def ships(self) -> bool | None:
        """None where nothing is known of it, or one place is served and another is not."""
        known = {s for k in self.known for _, s in k.ships}
        return known.pop() if len(known) == 1 else None

    def statuses(self, link: str, label: str) -> list[str]:
        """What is known of an item (``label`` "") or one of its variants."""
        return [s for k in self.known for item, v, s in k.status if item == link and v == label]


def evidence_of(task: Task, trajectory: Trajectory, harness: Harness, catalogue: Catalogue) -> Evidence:
    results = [
        r for r in (*trajectory.context, *trajectory.results) if r.operation and not r.operation.startswith("harness.")
    ]
    known = [
        known_of(r.value, str(r.arguments.get("link_id", "") or "")) for r in results if r.ok and not is_stale(r.value)
    ]
    known += [known_of(text) for text in _trusted(task.request, trajectory, harness)]
    gold = tuple(f for a in task.asked for f in a.facts)
    asked = frozenset(i for a in task.asked for i in a.items)
    return Evidence(
        known=tuple(known),
        gold=gold,
        gold_known=tuple(gold_facts(gold)),
        lexicon=lexicon_of(catalogue),
        asked=asked or frozenset(f.item for f in gold if f.item),
        several=len(task.asked) > 1,
        variants=_variants(task),
        coupons=frozenset[str]().union(
            *(c for _, _, c in lexicon_of(catalogue).coupons_in(straight(task.request.text)))
        ),
        quantity=max((_int(n.arguments.get("quantity", 1)) for n in task.needed), default=1),
        quantities=frozenset(_int(n.arguments["quantity"]) for n in task.needed if "quantity" in n.arguments),
        echo=tuple(_echo(task.request, results)),
        said_by_viewer=task.request.text.casefold(),
    )


def is_stale(value: JSON) -> bool:
    """Whether a result says that it is of days ago."""
    return isinstance(value, Mapping) and bool(value.get("stale"))


def _trusted(request: Request, trajectory: Trajectory, harness: Harness) -> Iterator[str]:
    yield from request.state.notes.values()
    loaded = set(trajectory.skills)
    yield from (s.body for s in harness.skills if s.facts and s.key in loaded)
    yield from (s.template for s in harness.sections if s.facts)


def _variants(task: Task) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for need in task.needed:
        said = need.arguments.get("variant")
        if isinstance(said, str) and said:
            found.setdefault(str(need.arguments.get("link_id", "")), set()).add(said)
    return {link: frozenset(v) for link, v in found.items()}


def _echo(request: Request, results: Iterable[ToolResult]) -> Iterator[Quantity]:
    yield from (q for q in read_quantities(request.text) if q.kind in _ECHOED)
    for result in results:
        numbers = {
            k: v for k, v in result.arguments.items() if isinstance(v, int | float | str) and not isinstance(v, bool)
        }
        for key, value in numbers.items():
            if isinstance(value, str) and key not in ("variant", "usual_size"):
                continue
            yield from (q for q in quantities_of({key: value}) if q.kind in _ECHOED)


def _int(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 1


def encode(arguments: Mapping[str, Any]) -> str:
    """Arguments as one text, to tell equal calls."""
    return json.dumps(arguments, ensure_ascii=False, sort_keys=True, default=str)
