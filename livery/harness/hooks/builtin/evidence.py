"""What a reply may rely on: this request's tool results and trusted text.

A quantity from a result carries the items (link ids) it belongs to, where the result says so, so that the
right number on the wrong item can be told, and an amount of money its role, so that a coupon's threshold is no
price. Chat text is never evidence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from functools import cached_property, lru_cache
from types import MappingProxyType
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from livery.harness.hooks.builtin.money_roles import Role, readings, roles_of
from livery.harness.hooks.builtin.wordlists import straight
from livery.harness.hooks.decisions import HookContext
from livery.harness.lint_tools import RUNTIME_OPERATIONS
from livery.harness.quantities import Quantity, matches, quantities_of, read_quantities
from livery.types import JSON

_LINK_FIELDS = ("link_id", "link")
_NAME_FIELDS = ("name", "product", "title")
_UNUSED = frozenset({"not_used"})
"""Field of a quote: discounts it did not use, and why."""
_ECHOED = frozenset({"measure", "count", "size"})
"""Kinds of argument that a result which accepted them bears out ("for 170 cm and 65 kg")."""


@dataclass(frozen=True, slots=True)
class Fact:
    quantity: Quantity
    items: frozenset[str] = frozenset()
    """Link ids it belongs to; empty where the source does not say."""
    conditional: bool = False
    """True of a discount that the quote did not use: it holds only under terms that are not met."""
    role: Role | None = None
    """Of money only."""


@dataclass(frozen=True, slots=True)
class Source:
    """One tool result or trusted text, read."""

    facts: tuple[Fact, ...]
    by_kind: Mapping[str, tuple[Fact, ...]]
    text: str
    """As it was shown, and its value as JSON."""
    items: frozenset[str] = frozenset()
    """Link ids that it speaks of."""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Product name, lower-case -> link id."""


@dataclass(frozen=True)
class Evidence:
    """What one request has come to know."""

    sources: tuple[Source, ...]

    def bearing_out(self, claim: Quantity) -> list[Fact]:
        """The facts that bear ``claim`` out."""
        found: list[Fact] = []
        for source in self.sources:
            if claim.kind == "number":
                pool = source.facts
            else:
                pool = (*source.by_kind.get(claim.kind, ()), *source.by_kind.get("number", ()))
            found += [f for f in pool if matches(claim, f.quantity)]
        return found

    def lower_paid(self, listed: Fact) -> bool:
        """Whether a result says that less than this list price is paid for its item."""
        return any(
            f.role == "price"
            and not f.conditional
            and f.items == listed.items
            and f.quantity.value < listed.quantity.value
            for source in self.sources
            for f in source.by_kind.get("money", ())
            if isinstance(f.quantity.value, int | float) and isinstance(listed.quantity.value, int | float)
        )

    @cached_property
    def text(self) -> str:
        """Everything trusted as one text, lower-case and straight."""
        return straight("\n".join(s.text for s in self.sources))

    @cached_property
    def items(self) -> frozenset[str]:
        """Link ids that the results speak of."""
        return frozenset[str]().union(*(s.items for s in self.sources))

    @property
    def names(self) -> Mapping[str, str]:
        """Product name, lower-case -> link id; the latest result's word counts."""
        return {name: link for s in self.sources for name, link in s.names.items()}


def evidence_of(context: HookContext) -> Evidence:
    """Evidence of a request as far as it has come.

    What is remembered between requests is only what a result of this very content says, never which request
    had it: the same look-up is made for many viewers of one item.
    """
    state = context.request.state
    today = datetime.fromtimestamp(state.now, _zone(state.timezone)).date().isoformat()
    results = (
        _result(
            result.value if isinstance(result.value, str) else _TO_JSON.encode(result.value),
            isinstance(result.value, str),
            result.text,
            _numeric(result.arguments),
        )
        for result in context.results
        # What a skill says is instruction: an example price in it is no price. Skills that do state facts
        # are marked so, and then stand in `context.evidence`.
        if result.ok and result.operation not in RUNTIME_OPERATIONS
    )
    return Evidence((*map(_trusted, context.evidence), _today(today), *results))


_TO_JSON = json.JSONEncoder(ensure_ascii=False)
_PRICE: frozenset[Role] = frozenset({"price"})
_KEPT = 512
"""Results and trusted texts whose reading is remembered: of a shop's products, skills and sections."""


@lru_cache(maxsize=_KEPT)
def _trusted(text: str) -> Source:
    return _source([f for q in read_quantities(text) for f in _in_text(text, q)], text)


def _in_text(text: str, q: Quantity, items: frozenset[str] = frozenset()) -> list[Fact]:
    if q.kind != "money":
        return [Fact(q, items)]
    return [Fact(q, items, role=role) for role in readings(text, q)]


@lru_cache(maxsize=4)
def _today(date: str) -> Source:
    return _source([Fact(Quantity("date", date, "", date, 0, 0))], "")


@lru_cache(maxsize=_KEPT)
def _result(written: str, is_text: bool, shown: str, arguments: tuple[tuple[str, int | float | str], ...]) -> Source:
    """Read one result.

    Args:
        written: its value as JSON, or where ``is_text`` the value itself.
        shown: what the policy read.
        arguments: those that a result may bear out.
    """
    value: JSON = written if is_text else json.loads(written)
    tagged = list(_tagged(value, frozenset()))
    own = frozenset(link for f in tagged for link in f.items)
    facts = list(tagged)
    for q in read_quantities(shown):
        same = [f for f in tagged if matches(q, f.quantity)]
        # What the value holds too is what the value says it is, whatever words stand around it.
        roles = [f for f in same if f.role is not None] if q.kind == "money" else []
        if len(own) <= 1 and roles:
            facts.extend(Fact(q, own, f.conditional, f.role) for f in roles)
        elif len(own) <= 1:
            conditional = bool(same) and all(f.conditional for f in same)
            facts.extend(replace(f, conditional=conditional) for f in _in_text(shown, q, own))
        elif not same:
            facts.extend(_in_text(shown, q))
    facts.extend(Fact(q, own) for q in quantities_of(dict(arguments)) if q.kind in _ECHOED)
    text = shown if value is None else f"{shown}\n{_TO_JSON.encode(value)}"
    return _source(facts, text, own, dict(_names(value)))


def _source(
    facts: Sequence[Fact],
    text: str,
    items: frozenset[str] = frozenset(),
    names: Mapping[str, str] = MappingProxyType({}),
) -> Source:
    # The same quantity often stands in value and text: it bears a claim out once.
    facts = tuple(
        {
            (f.quantity.kind, f.quantity.value, f.quantity.unit, f.items, f.conditional, f.role): f for f in facts
        }.values()
    )
    by_kind: dict[str, list[Fact]] = {}
    for fact in facts:
        by_kind.setdefault(fact.quantity.kind, []).append(fact)
    return Source(facts, {kind: tuple(found) for kind, found in by_kind.items()}, text, items, names)


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return UTC


def _numeric(arguments: Mapping[str, object]) -> tuple[tuple[str, int | float | str], ...]:
    """Typed numbers and sizes among operation arguments; free text a viewer may have written is left out."""
    return tuple(
        (k, v)
        for k, v in arguments.items()
        if (isinstance(v, int | float) and not isinstance(v, bool)) or (isinstance(v, str) and k.endswith("size"))
    )


def link_of(value: Mapping[str, JSON]) -> str:
    """The link id an object says it is about; "" for none."""
    for name in _LINK_FIELDS:
        link = value.get(name)
        if isinstance(link, str | int) and not isinstance(link, bool) and str(link):
            return str(link)
    return ""


def _tagged(value: JSON, items: frozenset[str]) -> Iterator[Fact]:
    """Quantities with the link of the nearest object around them that names one."""
    if isinstance(value, dict):
        link = link_of(value)
        here = frozenset({link}) if link else items
        for k in _UNUSED & value.keys():
            yield from (replace(f, conditional=True) for f in _tagged(value[k], here))
        value = {k: v for k, v in value.items() if k not in _UNUSED}
        nested = {k: v for k, v in value.items() if isinstance(v, list) and any(_has_link(x) for x in v)}
        nested |= {k: v for k, v in value.items() if isinstance(v, dict) and _has_link(v)}
        plain = {k: v for k, v in value.items() if k not in nested}
        yield from _typed(plain, here)
        for v in nested.values():
            yield from _tagged(v, here)
    elif isinstance(value, list):
        for v in value:
            yield from _tagged(v, items)
    else:
        yield from _typed(value, items)


def _typed(value: JSON, items: frozenset[str]) -> Iterator[Fact]:
    roles = roles_of(value)
    for q in quantities_of(value):
        if q.kind != "money":
            yield Fact(q, items)
        else:
            for role in roles.get((q.value, q.unit), _PRICE):
                yield Fact(q, items, role=role)


def _has_link(value: JSON) -> bool:
    if isinstance(value, dict):
        return bool(link_of(value)) or any(_has_link(v) for v in value.values())
    return isinstance(value, list) and any(_has_link(v) for v in value)


def _names(value: JSON) -> Iterable[tuple[str, str]]:
    if isinstance(value, dict):
        link = link_of(value)
        if link:
            for name in _NAME_FIELDS:
                said = value.get(name)
                if isinstance(said, str) and len(said) >= 3:
                    yield straight(said), link
        for v in value.values():
            yield from _names(v)
    elif isinstance(value, list):
        for v in value:
            yield from _names(v)
