"""A reply read into claims: each quantity with its role, its item, its rounding and the clause it stands in.

Reading only: whether a claim is true is `livery.simulator.verifier`'s matter. Numbers come from
`livery.harness.quantities`; sizes are read here as well, because "S, not M" needs the letters of a shop's own chart.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal

from livery.harness.hooks.builtin.wordlists import straight
from livery.harness.quantities import FACTUAL, Quantity, read_quantities
from livery.simulator import cues
from livery.simulator.lexicon import Lexicon, Mention

Rounding = Literal["", "near", "under", "over"]

_LETTER = re.compile(r"(?<![A-Za-z0-9'&.+-])(?:[2-6]?X{0,3}[SL]|M|\dX)(?![A-Za-z0-9'&+-]|\.[a-z])")
_SIZE_WORD = re.compile(
    r"(?<![a-z-])(?:extra[- ])?(?:small|medium|large)(?![a-z-])(?! (?:order|number|amount|print|ice))"
)
_SIZE_VALUES = {"small": "S", "medium": "M", "large": "L", "extra small": "XS", "extra large": "XL"}
_ONE_LONG = re.compile(r"(?<![第每任哪统])一(年|个月|周|小时)(?![四到])")
_LONG = {"年": (12, "month"), "个月": (1, "month"), "周": (604_800, "s"), "小时": (3_600, "s")}
_BETWEEN = re.compile(r"between ([$a-z0-9.]+) and $")
_WORD_CENTS = re.compile(r"(?:dollars?|bucks|pounds?|euros?)$")
_FOLLOWS = re.compile(
    r"\s?(?:for|on|with|is for|的)?\s?(?:the |an? |our |your |that )?(?:link |item |number |no\.? ?|#)?$"
)
_AGAINST = re.compile(r"(?:versus|vs\.?|against|compared (?:to|with))\s*$|比\s*$")
_GIVES = re.compile(r"\s?(?:coupon|券)?\s?(?:for|gives?(?: you)?|is|=|:|：|worth|能?可?减)?\s?")
_STOCK_AFTER = re.compile(r"\s?(?:[a-z]+ )?(?:left|in stock|available|remaining|more in)|\s?(?:现货|库存|了?就没)")
_STOCK_BEFORE = re.compile(
    r"(?:have|got|has|stock(?: of)?|there(?:'s| is| are)(?: only| just| exactly)?|left:?"
    r"|剩(?:下|了|余)?|库存(?:还有|有|是|为)?|有|还有|仅剩|就|只有)\s*(?:about|around|only|just|exactly|大概)?\s*$"
)


@dataclass(frozen=True, slots=True)
class Claim:
    quantity: Quantity
    role: str
    """Of money and bare numbers: list, saving, saved, fee, threshold, difference, unit, total, cap, "" for a plain
    price; of counts: stock or ""."""
    rounding: Rounding
    clause: str
    """Straight text around it."""
    written: tuple[str, str]
    """Its clause and its sentence as they were written."""
    items: frozenset[str]
    """Link ids it is said of; empty where the reply leaves that open."""
    named: bool
    """Whether its own clause names a product before it."""
    carried: bool
    """Whether the items are those of an earlier sentence."""
    denied: bool
    question: bool


@dataclass(frozen=True)
class Reply:
    """A reply, read once."""

    text: str
    low: str
    """Straight text, position for position."""
    claims: tuple[Claim, ...]
    mentions: tuple[Mention, ...]
    coupons: tuple[tuple[int, int, frozenset[str]], ...]
    clause_ends: tuple[int, ...] = field(repr=False)
    sentence_ends: tuple[int, ...] = field(repr=False)

    @cached_property
    def clauses(self) -> tuple[tuple[int, int], ...]:
        """Spans of clauses that hold more than space."""
        pairs = zip(self.clause_ends, self.clause_ends[1:], strict=False)
        return tuple((a, b) for a, b in pairs if self.low[a:b].strip(" ,.!?:;，。！？：；、~"))

    @cached_property
    def sentences(self) -> tuple[tuple[int, int], ...]:
        pairs = zip(self.sentence_ends, self.sentence_ends[1:], strict=False)
        return tuple((a, b) for a, b in pairs if self.low[a:b].strip(" ,.!?:;，。！？：；、~"))

    def subject(self, start: int, end: int) -> frozenset[str]:
        """Items named in the text between."""
        return frozenset[str]().union(*(m.links for m in self.mentions if start <= m.start < end))


@lru_cache(maxsize=256)
def _read(text: str, language: str) -> tuple[Quantity, ...]:
    """Quantities, with what the shared reader leaves to its caller: sizes as letters, spoken cents, 一年."""
    found = list(read_quantities(text, language))
    taken = [(q.start, q.end) for q in found]
    for m in _LETTER.finditer(text):
        if not any(a <= m.start() < b for a, b in taken):
            found.append(Quantity("size", m.group(), "", m.group(), m.start(), m.end()))
    for m in _SIZE_WORD.finditer(text.lower()):
        if not any(a <= m.start() < b for a, b in taken):
            value = _SIZE_VALUES[m.group().replace("-", " ")]
            found.append(Quantity("size", value, "word", text[m.start() : m.end()], m.start(), m.end()))
    for m in _ONE_LONG.finditer(text):
        value, unit = _LONG[m.group(1)]
        if not any(a <= m.start() < b for a, b in taken):
            found.append(Quantity("duration", value, unit, m.group(), m.start(), m.end()))
    for q in list(found):
        if q.kind in ("duration", "money", "measure") and (m := _BETWEEN.search(text.lower(), 0, q.start)):
            unit = q.text.split()[-1] if " " in q.text.strip() else re.sub(r"^[\d.,]+", "", q.text)
            found += [
                Quantity(x.kind, x.value, x.unit, m.group(1), m.start(1), m.end(1))
                for x in read_quantities(f"{m.group(1)} {unit}", language)[:1]
                if x.kind == q.kind
            ]
    found = [q for i, q in enumerate(found) if not any(p.start == q.start and p.kind != "number" for p in found[:i])]
    found.sort(key=lambda q: q.start)
    for i, q in enumerate(found):
        if q.kind == "money" and (m := cues.OTHER_DOLLARS.search(text.lower(), q.start, q.end + 22)):
            unit = cues.DOLLARS.get(m.group("whose"), m.group("whose").upper())
            found[i] = Quantity("money", q.value, unit, q.text, q.start, q.end)
    merged: list[Quantity] = []
    for q in found:
        last = merged[-1] if merged else None
        if (
            last is not None and last.kind == "money" and q.kind == "number" and text[last.end : q.start] == " "
            and isinstance(q.value, int) and q.value < 100 and isinstance(last.value, int)
            and _WORD_CENTS.search(last.text)
        ):  # fmt: skip
            merged[-1] = Quantity("money", last.value + q.value, last.unit, text[last.start : q.end], last.start, q.end)
        else:
            merged.append(q)
    return tuple(merged)


def read_reply(text: str, language: str, lexicon: Lexicon, asked: frozenset[str]) -> Reply:
    """Read a reply.

    Args:
        asked: link ids that the request is about; they settle ambiguous names.
    """
    low = straight(text)
    quantities = _read(text, language)
    mentions = _mentions(low, quantities, lexicon, asked)
    coupons = tuple(lexicon.coupons_in(low))
    sentence_ends = (0, *(m.end() for m in cues.SENTENCE.finditer(low)), len(low))
    clause_ends = (0, *(m.end() for m in cues.CLAUSE.finditer(low)), len(low))
    reply = Reply(text, low, (), mentions, coupons, clause_ends, sentence_ends)
    claims = tuple(
        _claim(reply, q, quantities)
        for q in quantities
        if (q.kind in FACTUAL or q.kind == "time") and not _inside(q, mentions, coupons)
    )
    return Reply(text, low, claims, mentions, coupons, clause_ends, sentence_ends)


def _inside(q: Quantity, mentions: Sequence[Mention], coupons: Sequence[tuple[int, int, frozenset[str]]]) -> bool:
    """Whether a number is part of a name: 316保温杯, 直播间88折券."""
    return any(m.start <= q.start and q.end <= m.end for m in mentions) or any(
        a <= q.start < b and (q.end <= b or q.kind != "money") for a, b, _ in coupons
    )


def _mentions(low: str, quantities: Sequence[Quantity], lexicon: Lexicon, asked: frozenset[str]) -> tuple[Mention, ...]:
    found = lexicon.mentions(low)
    found += [
        Mention(q.start, q.end, frozenset({str(q.value)}))
        for q in quantities
        if q.kind == "link" and str(q.value) in lexicon.known
    ]
    settled = [Mention(m.start, m.end, (m.links & asked) or m.links) for m in found]
    return tuple(sorted(settled, key=lambda m: m.start))


def _claim(reply: Reply, q: Quantity, quantities: Sequence[Quantity]) -> Claim:
    low = reply.low
    start, end = _span(reply.clause_ends, q.start)
    s_start, s_end = _span(reply.sentence_ends, q.start)
    before, after = low[max(start, q.start - 48) : q.start], low[q.end : min(end, q.end + 28)]
    role = ""
    if q.kind in ("money", "number"):
        role = role_of(before, after, low[start:end])
        if not role and any(b <= q.start and _GIVES.fullmatch(low[b : q.start]) for _, b, _ in reply.coupons):
            role = "saving"
    elif q.kind == "count" and (_STOCK_AFTER.match(after) or _STOCK_BEFORE.search(before) or " left" in q.text):
        role = "stock"
    items, named = _items(reply, q, start, end, s_start)
    return Claim(
        quantity=q,
        role=role,
        rounding=_rounding(before, after),
        clause=low[start:end],
        written=(reply.text[start:end], reply.text[s_start:s_end]),
        items=items,
        named=named,
        carried=bool(items) and not any(s_start <= m.start < s_end for m in reply.mentions),
        denied=cues.DENIED_BEFORE.search(before) is not None,
        question=s_end > 0 and low[s_end - 1] in "?？",
    )


def role_of(before: str, after: str, clause: str) -> str:
    """Role of an amount from the words around it; "" for a plain price."""
    for cue in cues.ROLES:
        if cue.role == "fee":
            continue
        if (cue.before and cue.before.search(before)) or (cue.after and cue.after.match(after)):
            if cue.role == "saving" and cues.WHOLE_SAVING.search(clause):
                return "saved"
            return cue.role
    fee = next(c for c in cues.ROLES if c.role == "fee")
    assert fee.before is not None and fee.after is not None
    return "fee" if fee.before.search(before) or fee.after.match(after) else ""


def _rounding(before: str, after: str) -> Rounding:
    if cues.OVER.search(before) or cues.OVER_AFTER.match(after):
        return "over"
    if cues.UNDER.search(before) or cues.UNDER_AFTER.match(after):
        return "under"
    return "near" if cues.NEAR.search(before) or cues.NEAR_AFTER.match(after) else ""


def _span(ends: Sequence[int], at: int) -> tuple[int, int]:
    i = bisect_right(ends, at)
    return (ends[i - 1], ends[i]) if i < len(ends) else (ends[-2] if len(ends) > 1 else 0, ends[-1])


def _items(reply: Reply, q: Quantity, start: int, end: int, s_start: int) -> tuple[frozenset[str], bool]:
    """What an amount is said of: the name right after it ("$47 for the knife"), else the last one before it."""
    low, mentions = reply.low, reply.mentions
    following = next((m for m in mentions if m.start >= q.end), None)
    if following and following.start < end and _FOLLOWS.fullmatch(low[q.end : following.start]):
        return following.links, any(start <= m.start < q.start for m in mentions)
    if _AGAINST.search(low[s_start : q.start]):
        return frozenset[str](), False
    here = [m for m in mentions if s_start <= m.start < q.start]
    if here:
        compared = [m for m in here if _AGAINST.search(low[s_start : m.start])]
        subject = next((m for m in reversed(here) if m not in compared), here[-1])
        return subject.links, start <= here[-1].start
    if following and following.start < end:
        return following.links, False
    earlier = [m for m in mentions if m.start < s_start]
    return (earlier[-1].links if earlier else frozenset[str]()), False
