"""Whether what a reply claims is true: each figure against the facts of its item, in its role.

The rules, in short. A figure must equal a fact of the item it is said of, whose role fits: a plain price is borne out
by a final price and never by a list price, a fee or a threshold. Where gold has a price of the item, another of its
prices counts only if the reply names what makes it another (a variant). "About" may round by 1.5 %, "just under" and
its like by 3 % in their direction. A range must be told whole. A figure that only a refused coupon's terms hold is
wrong unless it is denied. Numbers a viewer wrote may be said back, save for money and percentages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from livery.harness.hooks.builtin.wordlists import straight
from livery.harness.quantities import Quantity, matches
from livery.shop.matching import STOP_WORDS, tokens
from livery.simulator import cues
from livery.simulator.advice import advises, range_faults, sizes_told
from livery.simulator.evidence import Evidence
from livery.simulator.known import KnownFact
from livery.simulator.reading import Claim, Reply

_FITS: dict[str, frozenset[str]] = {
    "": frozenset({"total", "price", "any", ""}),
    "total": frozenset({"total", "price", "any", ""}),
    "unit": frozenset({"unit", "price", "any", ""}),
    "list": frozenset({"list"}),
    "saving": frozenset({"saving", "saved", "difference", "any"}),
    "saved": frozenset({"saved", "difference"}),
    "fee": frozenset({"fee", "any"}),
    "threshold": frozenset({"threshold", "any"}),
    "difference": frozenset({"difference"}),
    "cap": frozenset({"cap"}),
}
"""Role of a claim -> roles of facts that bear it out."""
_PRICE_ROLES = ("", "total", "unit")
_ROUND = 0.015
_TENTH = re.compile(r"\d+(?:\.\d+)?")
_UNIT_LESS = re.compile(r"[\d.,\s]+$|[零一二两三四五六七八九十百点]+$|(?:[a-z]+[- ]?){1,4}$")


@dataclass
class Verdict:
    """What came of judging a reply's figures."""

    faults: list[str] = field(default_factory=list[str])
    stated: set[int] = field(default_factory=set[int])
    """Indices of gold facts that it states."""
    aside: float = 0.0
    """Weight of true facts that nobody asked for: 1 of another item, 0.5 of the same."""


def judge_figures(reply: Reply, evidence: Evidence, *, chat: bool = False) -> Verdict:
    """Judge every figure.

    Args:
        chat: nothing of the shop was asked: only money, percentages and stock are claims then.
    """
    verdict = Verdict()
    sizes_advised: list[Claim] = []
    unknown_number = False
    seen: set[tuple[str, object]] = set()
    for claim in reply.claims:
        if claim.quantity.kind == "size":
            if advises(claim):
                sizes_advised.append(claim)
            continue
        if (
            chat
            and claim.quantity.kind not in ("money", "percent")
            and not cues.LEFT.search(claim.clause)
            and not cues.SHOP_TERM.search(claim.clause)
        ):
            continue
        if cues.IDIOM.search(claim.clause) and claim.quantity.kind in ("number", "count"):
            continue
        facts = _bearing_out(claim, evidence, reply)
        if facts is None:
            continue
        if not facts:
            verdict.faults.append(_fault(claim))
            unknown_number |= claim.quantity.kind == "number" and bool(cues.OR.match(reply.low, claim.quantity.end))
            continue
        golden = {f.gold for f in facts if f.gold >= 0}
        verdict.stated |= golden
        key = (claim.quantity.kind, claim.quantity.value)
        if not golden and key not in seen and not claim.denied:
            seen.add(key)
            away = evidence.asked and all(f.item and f.item not in evidence.asked for f in facts)
            verdict.aside += 1.0 if away else 0.5
    verdict.faults += range_faults(reply, evidence)
    faults, stated = sizes_told(sizes_advised, reply, evidence)
    verdict.faults += faults
    verdict.stated |= stated
    if unknown_number:  # "39 or 40 would do"
        verdict.stated -= {f.gold for f in evidence.gold_known if f.quantity.kind == "size"}
    return verdict


def _fault(claim: Claim) -> str:
    said = claim.quantity.text.strip()
    role = f" as {claim.role}" if claim.role else ""
    of = f" of item {'/'.join(sorted(claim.items))}" if claim.items else ""
    return f"accuracy: nothing bears out {said!r}{role}{of}"


# ------------------------------------------------------------------------------------- one figure


def _bearing_out(claim: Claim, evidence: Evidence, reply: Reply) -> list[KnownFact] | None:
    """Facts that bear a claim out; None where it claims nothing."""
    q = claim.quantity
    if q.kind == "money" and q.unit == "" and q.text.strip() == str(evidence.quantity):
        return None  # "$18.40 for 4"
    if q.kind == "number" and q.value in evidence.quantities and not (cues.EACH_COSTS.search(reply.low[: q.start])):
        return None  # "in total 4 of it come to"
    if (q.kind == "number" and claim.role != "") or q.kind == "money":
        return _amount(claim, evidence)
    if q.kind == "number":
        return _number(claim, evidence, reply)
    if claim.question and q.kind != "percent":
        return None
    if q.kind == "count":
        return _count(claim, evidence, reply)
    if q.kind == "percent":
        return _percent(claim, evidence)
    found = [f for f in evidence.pool(q.kind) if _same(claim, f) and _of_item(claim, f, evidence)]
    found += [f for f in evidence.pool("number") if matches(q, f.quantity) and _of_item(claim, f, evidence)]
    if q.kind in ("duration", "measure"):
        found = _in_context(claim, evidence, found)
        if not found and (echoed := _echoed(q, evidence)):
            return None if echoed else []
        if not found and _UNIT_LESS.fullmatch(q.text.strip()) and _number_known(q, evidence):
            return None
    if not found and q.kind == "date" and (midnight := _day_before(claim, evidence)):
        return [f for f in evidence.gold_known if f.quantity.value == midnight] or None
    if q.kind == "time":
        return found or ([] if any(True for _ in evidence.pool("time")) else None)
    if not found and _echoed(q, evidence):
        return None
    return found


def _amount(claim: Claim, evidence: Evidence) -> list[KnownFact]:
    """Money, or a number in its place."""
    fits = _FITS[claim.role]
    if claim.role == "difference" and not cues.THAN.search(claim.clause):
        fits |= _FITS["saving"]  # "便宜130块" of one thing is what it is reduced by
    gold_items = {f.item for f in evidence.gold_known if f.role in ("total", "price", "unit")}
    wants_fee = any(f.role == "fee" for f in evidence.gold_known)
    wants_price = any(f.role in ("total", "price", "unit") for f in evidence.gold_known)
    found: list[KnownFact] = []
    for fact in evidence.pool("money"):
        if not _same_money(claim, fact) or not (_of_item(claim, fact, evidence) or claim.role == "difference"):
            continue
        if not _granted(fact, claim) or not _own_coupon(fact, claim, evidence):
            continue
        if fact.role in fits or (
            fact.clause and claim.role in _PRICE_ROLES and fact.role in ("", "any", "unit", "total")
        ):
            if claim.role == "total" and evidence.quantity > 1 and fact.gold < 0 and fact.role != "total":
                continue  # one piece's price told as the price of all
            found.append(fact)
        elif claim.role == "" and fact.role == "fee" and wants_fee and not claim.named:
            found.append(fact)
        elif (
            claim.role == ""
            and fact.gold >= 0
            and fact.role != "fee"
            and not wants_price
            and evidence.gold[fact.gold].required
        ):
            found.append(fact)  # the one amount asked for, such as what a coupon gives
        elif claim.role == "" and fact.role == "unit" and evidence.quantity == 1:
            found.append(fact)
    labels = {f.variant for f in found if f.variant}
    if labels and claim.role in _PRICE_ROLES:
        (link, *_) = sorted({f.item for f in found if f.variant})
        said = _said_variants(claim, link, evidence)
        if said and not labels & said:
            return []  # the price of another variant than the one named
    if claim.role in ("", "total") and found and not any(f.gold >= 0 for f in found):
        subject = claim.items or evidence.asked
        if subject & gold_items and (not claim.items or claim.items <= gold_items):
            found = [f for f in found if _another(f, claim, evidence) or f.role == "fee"]
    return found


def _another(fact: KnownFact, claim: Claim, evidence: Evidence) -> bool:
    """Whether the claim names what makes this price another than the one asked for: its variant."""
    if fact.clause:  # a rule's own amount, such as a flash price's
        return True
    said = _said_variants(claim, fact.item, evidence)
    asked = {
        label
        for words in evidence.variants.get(fact.item, frozenset())
        for label in evidence.lexicon.variants_in(words, fact.item)
    }
    return fact.variant in said if fact.variant else bool(said - asked)


def _said_variants(claim: Claim, link: str, evidence: Evidence) -> frozenset[str]:
    """Labels that the claim's clause names, else its sentence."""
    clause, sentence = claim.written
    return evidence.lexicon.variants_in(clause, link) or evidence.lexicon.variants_in(sentence, link)


def _same_money(claim: Claim, fact: KnownFact) -> bool:
    q, known = claim.quantity, fact.quantity
    if isinstance(q.value, str) or isinstance(known.value, str):
        return False
    if q.kind == "number":
        exact = matches(q, known)
        said, true = float(q.value) * 100, float(known.value)
    else:
        exact = matches(q, known)
        said, true = float(q.value), float(known.value)
        if q.unit and known.unit and q.unit != known.unit:
            return False
    return exact or _rounded(claim, said, true)


def _rounded(claim: Claim, said: float, true: float) -> bool:
    if not claim.rounding or not true:
        return False
    gap = (said - true) / abs(true)
    if claim.rounding == "near":
        return abs(gap) <= _ROUND
    return 0 < gap <= 2 * _ROUND if claim.rounding == "under" else -2 * _ROUND <= gap < 0


def _same(claim: Claim, fact: KnownFact) -> bool:
    q = claim.quantity
    if matches(q, fact.quantity):
        return True
    if q.kind in ("measure", "duration") and q.unit == fact.quantity.unit and not isinstance(q.value, str):
        return not isinstance(fact.quantity.value, str) and _rounded(claim, float(q.value), float(fact.quantity.value))
    return False


def _of_item(claim: Claim, fact: KnownFact, evidence: Evidence) -> bool:
    """Whether the claim is said of the fact's item; of several questions, a sentence without a name may be of any."""
    if not fact.item or not claim.items or fact.item in claim.items:
        return True
    return claim.carried and evidence.several and fact.item in evidence.asked


def _number(claim: Claim, evidence: Evidence, reply: Reply) -> list[KnownFact] | None:
    """A bare number: a price without its unit, or a repetition of something known."""
    q = claim.quantity
    assert not isinstance(q.value, str)
    counted = [
        f for f in evidence.gold_known
        if f.quantity.kind == "count" and _of_item(claim, f, evidence) and matches(q, f.quantity)
    ]  # fmt: skip
    if counted:
        return counted
    if priced := _amount(claim, evidence):
        return priced
    if isinstance(q.value, int) and (0 <= q.value <= 2 or q.value == evidence.quantity):
        return None
    if _echoed(q, evidence) or _size_said(q, evidence):
        return [
            f for f in evidence.gold_known if f.quantity.kind == "size" and str(f.quantity.value) == f"{q.value:g}"
        ] or None
    if isinstance(q.value, int) and any(str(f.quantity.value).startswith(f"{q.value}-") for f in evidence.pool("date")):
        return None
    return [
        f
        for kind in ("count", "measure", "duration", "percent", "number", "size", "link")
        for f in evidence.pool(kind)
        if _of_item(claim, f, evidence) and (matches(q, f.quantity) or _as_written(q, f))
    ]


def _as_written(q: Quantity, fact: KnownFact) -> bool:
    """A number that stands in a fact's own text: 68 of "68-73 cm"."""
    return any(float(n) == float(q.value) for n in _TENTH.findall(fact.quantity.text))


def _number_known(q: Quantity, evidence: Evidence) -> bool:
    """ "164 to 172, 56 to 66 kg": a number whose unit was guessed from its neighbour's."""
    raw = _TENTH.search(q.text)
    return raw is not None and any(
        float(n) == float(raw.group()) for f in evidence.pool("measure") for n in _TENTH.findall(f.quantity.text)
    )


def _size_said(q: Quantity, evidence: Evidence) -> bool:
    return any(str(f.quantity.value) == f"{q.value:g}" for f in evidence.pool("size"))


def _echoed(q: Quantity, evidence: Evidence) -> bool:
    if any(matches(q, e) or matches(e, q) for e in evidence.echo):
        return True
    raw = _TENTH.search(q.text)
    if raw is None or q.kind not in ("number", "measure"):
        return False
    return re.search(rf"(?<![\d.]){re.escape(raw.group())}(?![\d.]|\.\d)", evidence.said_by_viewer) is not None


def _count(claim: Claim, evidence: Evidence, reply: Reply) -> list[KnownFact] | None:
    q = claim.quantity
    assert not isinstance(q.value, str)
    if claim.role == "stock":
        return _stock(claim, evidence)
    if q.unit in ("buy", "free"):
        return [f for f in evidence.pool("count") if matches(q, f.quantity)]
    found = [
        f
        for kind in ("count", "number")
        for f in evidence.pool(kind)
        if f.role != "stock"
        and _of_item(claim, f, evidence)
        and (matches(q, f.quantity) or f.quantity.value == q.value)
    ]
    if found:
        return found
    if q.value in (0, 1, evidence.quantity) or (q.value == 2 and q.unit in ("piece", "style", "", "colour", "size")):
        return None
    if _echoed(q, evidence) or (q.unit == "" and q.value <= 2):
        return None
    if q.value <= 3 and cues.MATTERS.match(reply.low, q.start + _digits(q.text)):
        return None
    return _stock(claim, evidence)


def _digits(text: str) -> int:
    """Length of the number that a count begins with."""
    m = re.match(r"[\d.]+|[a-zA-Z]+|[零一二两三四五六七八九十]+", text)
    return m.end() if m else 0


def _stock(claim: Claim, evidence: Evidence) -> list[KnownFact]:
    q = claim.quantity
    assert not isinstance(q.value, str)
    variants = _variants_of(claim, evidence)
    return [
        f
        for f in evidence.pool("count")
        if f.role == "stock"
        and _of_item(claim, f, evidence)
        and (f.quantity.value == q.value or _rounded(claim, q.value, float(f.quantity.value)))
        and (not variants or not f.variant or _covers(f.variant, variants))
    ]


def _covers(label: str, variants: frozenset[str]) -> bool:
    """Whether a stock figure's label ("M") covers one of the variants spoken of ("navy M")."""
    return any(set(label.split()) <= set(v.split()) for v in variants)


def _variants_of(claim: Claim, evidence: Evidence) -> frozenset[str]:
    """Labels that a stock claim is about: said, else asked."""
    found: set[str] = set()
    for link in claim.items or evidence.asked:
        said = _said_variants(claim, link, evidence)
        found |= said
        if not said:
            for words in evidence.variants.get(link, frozenset()):
                found |= evidence.lexicon.variants_in(words, link)
    return frozenset(found)


def _percent(claim: Claim, evidence: Evidence) -> list[KnownFact]:
    q = claim.quantity
    return [
        f
        for f in evidence.pool("percent")
        if (matches(q, f.quantity) or (q.unit == "" and f.quantity.value == q.value))
        and _of_item(claim, f, evidence)
        and _granted(f, claim)
        and _own_coupon(f, claim, evidence)
    ]


def _own_coupon(fact: KnownFact, claim: Claim, evidence: Evidence) -> bool:
    """Whether a term is of the coupon that is spoken of: named beside it, else in the request."""
    if not fact.coupon or (claim.quantity.kind == "money" and claim.role not in ("threshold", "saving", "cap")):
        return True
    said = [codes for _, _, codes in evidence.lexicon.coupons_in(straight(claim.written[1]))]
    meant = frozenset[str]().union(*said) if said else evidence.coupons
    return not meant or fact.coupon in meant or straight(fact.coupon) in straight(claim.written[1])


def _granted(fact: KnownFact, claim: Claim) -> bool:
    """Whether a refused coupon's figure may be told: where it is denied, or said to be for members."""
    if not fact.refused or claim.denied or cues.DENIAL.search(claim.clause):
        return True
    return bool(
        cues.MEMBERS.search(fact.refused)
        and cues.MEMBERS.search(claim.clause)
        and cues.MEMBERS_ONLY.search(fact.refused)
    )


def _in_context(claim: Claim, evidence: Evidence, found: list[KnownFact]) -> list[KnownFact]:
    """Facts of rules about something else than what was asked count only where the reply says what they are about.

    Electronics carry 24 months, kitchen appliances 12: of a kettle, 24 months is wrong, "electronics get 24" is not.
    """
    q = claim.quantity
    if any(f.gold >= 0 for f in found) or not found:
        return found
    gold = [f for f in evidence.gold_known if f.quantity.kind == q.kind and f.quantity.unit == q.unit]
    if not gold:
        return found
    context = frozenset(tokens(claim.clause))
    kept: list[KnownFact] = []
    for fact in found:
        if not fact.clause:
            kept.append(fact)
            continue
        words = {w for w in tokens(fact.clause) if w not in STOP_WORDS and not any(c.isdigit() for c in w)}
        shared_with_gold = {
            w for k in evidence.known for other in k.facts
            if other.clause and other.clause != fact.clause and any(matches(other.quantity, g.quantity) for g in gold)
            for w in tokens(other.clause)
        }  # fmt: skip
        if (words - shared_with_gold) & context - _ask(evidence):
            kept.append(fact)
    return kept


def _ask(evidence: Evidence) -> frozenset[str]:
    return frozenset(tokens(evidence.said_by_viewer))


def _day_before(claim: Claim, evidence: Evidence) -> str:
    """The day whose midnight is an end that the claim tells as the day before; "" for none."""
    said = str(claim.quantity.value)
    for k in evidence.known:
        for m in re.finditer(r"(\d{4})-(\d\d)-(\d\d)t00:00", k.text):
            year, month, day = map(int, m.groups())
            if day > 1:
                before = f"{year}-{month:02d}-{day - 1:02d}"
            else:
                year, month = (year, month - 1) if month > 1 else (year - 1, 12)
                last = 31 if month in (1, 3, 5, 7, 8, 10, 12) else 30 if month != 2 else 28
                before = f"{year}-{month:02d}-{last}"
            if before.startswith(said) or before[4:] == said[1:] or said == before:
                return m.group()[:10]
    return ""
