"""What a reply may rely on: this request's tool results and trusted text, read once for all hooks.

A quantity from a result carries the items (link ids) it belongs to, where the result says so, so that the
right number on the wrong item can be told. Chat text is never evidence.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from threading import Lock
from typing import cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from livery.harness.hooks.builtin.wordlists import straight
from livery.harness.hooks.decisions import HookContext
from livery.harness.quantities import Quantity, matches, quantities_of, read_quantities
from livery.types import JSON, ToolResult

_LINK_FIELDS = ("link_id", "link")
_NAME_FIELDS = ("name", "product", "title")
_ECHOED = frozenset({"measure", "count", "size"})
"""Kinds of argument that a result which accepted them bears out ("for 170 cm and 65 kg")."""


@dataclass(frozen=True, slots=True)
class Fact:
    quantity: Quantity
    items: frozenset[str] = frozenset()
    """Link ids it belongs to; empty where the source does not say."""


@dataclass(frozen=True, slots=True)
class Evidence:
    facts: tuple[Fact, ...]
    by_kind: Mapping[str, tuple[Fact, ...]]
    numbers: frozenset[float]
    """Every value as a plain number, for bare numbers in a reply."""
    text: str
    """Everything trusted as one text, lower-case and straight."""
    items: frozenset[str]
    """Link ids that the results speak of."""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Product name, lower-case -> link id."""

    def bearing_out(self, claim: Quantity) -> list[Fact]:
        """The facts that bear ``claim`` out."""
        if claim.kind == "number":
            return [f for f in self.facts if matches(claim, f.quantity)]
        pool = (*self.by_kind.get(claim.kind, ()), *self.by_kind.get("number", ()))
        return [f for f in pool if matches(claim, f.quantity)]


_LOCK = Lock()
_CACHE: OrderedDict[tuple[object, ...], tuple[tuple[ToolResult, ...], Evidence]] = OrderedDict()
_CACHE_SIZE = 64


def evidence_of(context: HookContext) -> Evidence:
    """Evidence of a request as far as it has come; read once however many hooks ask."""
    state = context.request.state
    results = tuple(r for r in context.results if r.ok)
    key = (*map(id, results), context.evidence, int(state.now) // 3600, state.timezone)
    with _LOCK:
        held = _CACHE.get(key)
        if held is not None:
            _CACHE.move_to_end(key)
            return held[1]
    made = _read(results, context.evidence, state.now, state.timezone)
    with _LOCK:
        _CACHE[key] = (results, made)  # the results are held so that their ids stay theirs
        while len(_CACHE) > _CACHE_SIZE:
            _CACHE.popitem(last=False)
    return made


def _read(results: tuple[ToolResult, ...], trusted: tuple[str, ...], now: float, timezone: str) -> Evidence:
    facts: list[Fact] = [Fact(q) for text in trusted for q in read_quantities(text)]
    today = datetime.fromtimestamp(now, _zone(timezone)).date().isoformat()
    facts.append(Fact(Quantity("date", today, "", today, 0, 0)))
    texts = list(trusted)
    items: set[str] = set()
    names: dict[str, str] = {}
    for result in results:
        tagged = list(_tagged(result.value, frozenset()))
        own = frozenset(link for f in tagged for link in f.items)
        items |= own
        names.update(_names(result.value))
        facts.extend(tagged)
        for q in read_quantities(result.text):
            if len(own) <= 1:
                facts.append(Fact(q, own))
            elif not any(matches(q, f.quantity) for f in tagged):
                facts.append(Fact(q))
        facts.extend(Fact(q, own) for q in quantities_of(_numeric(result.arguments)) if q.kind in _ECHOED)
        texts.append(result.text)
        if result.value is not None:
            texts.append(json.dumps(result.value, ensure_ascii=False))
    by_kind: dict[str, list[Fact]] = {}
    for fact in facts:
        by_kind.setdefault(fact.quantity.kind, []).append(fact)
    return Evidence(
        facts=tuple(facts),
        by_kind={kind: tuple(found) for kind, found in by_kind.items()},
        numbers=frozenset(float(f.quantity.value) for f in facts if not isinstance(f.quantity.value, str)),
        text=straight("\n".join(texts)),
        items=frozenset(items),
        names=names,
    )


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return UTC


def _numeric(arguments: Mapping[str, object]) -> JSON:
    """Typed numbers and sizes among operation arguments; free text a viewer may have written is left out."""
    return cast(
        "JSON",
        {
            k: v
            for k, v in arguments.items()
            if (isinstance(v, int | float) and not isinstance(v, bool))
            or (k.endswith("size") and isinstance(v, str))
        },
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
        nested = {k: v for k, v in value.items() if isinstance(v, list) and any(_has_link(x) for x in v)}
        nested |= {k: v for k, v in value.items() if isinstance(v, dict) and _has_link(v)}
        plain = {k: v for k, v in value.items() if k not in nested}
        yield from (Fact(q, here) for q in quantities_of(plain))
        for v in nested.values():
            yield from _tagged(v, here)
    elif isinstance(value, list):
        for v in value:
            yield from _tagged(v, items)
    else:
        yield from (Fact(q, items) for q in quantities_of(value))


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
