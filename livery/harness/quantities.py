"""Typed quantities read out of speech, English and Chinese, digits and words alike.

`read_quantities` reads free text, `quantities_of` a typed operation result, `matches` says whether a claim is
borne out by a piece of evidence. The grounding hook lives on these three, and so does any verifier of
replies. Reading is by hand-written rules over precompiled patterns (`livery.harness.quantity_reader`): one
pass, which stops only at digits, Chinese numerals and words of a trigger list. Not here: relative dates
("tomorrow"), arithmetic ("two for the price of one"), and which *item* a number belongs to.

Kinds and their values
    ``money``      int minor units; unit is an ISO 4217 code, "" where none was said
    ``percent``    points; unit "off" for a reduction (20% off, 八折, half price), else ""
    ``count``      number; unit is the counted thing ("piece", "pair", "box", "buy", "free", ...)
    ``measure``    number in the base unit: mm, g, ml, m2, w, wh, mah, v, hz, gb, c, kcal, spf, inch-free
    ``size``       str ("XL", "42", "FREE"); unit "eu", "us", "uk" or ""
    ``date``       str: ISO, with "--06-18" and "--06" and "---18" for what was left unsaid
    ``duration``   number; unit "s" (second to week), "workday" or "month" (month, year)
    ``number``     a bare number
    ``link``, ``ordinal``, ``time``, ``phone``, ``campaign``   numbers that claim nothing: item references,
                   third, 8:30 pm, telephone and order numbers, 618
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import cast

from livery.harness import quantity_patterns as p
from livery.harness.quantity_reader import Reader
from livery.harness.quantity_shapes import FACTUAL, Kind, Quantity, plain
from livery.types import JSON

__all__ = ["FACTUAL", "Kind", "Quantity", "matches", "quantities_of", "read_quantities"]


def read_quantities(text: str, language: str = "") -> tuple[Quantity, ...]:
    """Every quantity in ``text``, in order, spans disjoint.

    Args:
        text: free text; both languages may mix.
        language: BCP 47 tag; only settles what the text leaves open (1.2w is 12,000 in Chinese and watts in
            English).
            "" looks for Chinese characters.
    """
    return _read(text, language)


@lru_cache(maxsize=1024)
def _read(text: str, language: str) -> tuple[Quantity, ...]:
    return tuple(Reader(text, language).run())


# ------------------------------------------------------------------------------------- evidence

_OFF_KEY = re.compile(r"percent_off|discount_percent|percent_discount|off_percent|discount_rate")
_PERCENT_KEY = re.compile(r"percent|pct|percentage")
_COUNT_KEY = re.compile(
    r"(?:^|_)(?:quantity|qty|stock|count|available|left|sold|remaining|limit|pieces|units|inventory|min_items|max_items)(?:_|$)"
)
_MONEY_KEY = re.compile(r"(?:^|_)(?:price|cost|fee|total|subtotal|amount_due|discount|saving|savings|threshold)(?:_|$)")
_REFERENCE_KEY = re.compile(r"(?:^|_)(?:id|link|sku|code|phone|tel|index|rank|position|page|link_id)$")
_SIZE_KEY = re.compile(r"(?:^|_)sizes?$")
_PLAIN_KEY = re.compile(r"^[a-z][a-z0-9_]*$")
_KEY_UNIT = re.compile(
    r"(?:^|_)(?P<unit>business_days|working_days|workdays|days|hours|minutes|seconds|weeks|months|years"
    r"|mm|cm|m|km|inch|inches|mg|g|kg|oz|lb|ml|l|w|kw|mah|wh|v|hz|gb|tb|mb|spf|kcal|celsius)$"
)
_ISO_TEXT = re.compile(r"\d{4}-\d\d-\d\d(?P<time>[T ]\d\d:\d\d)?")


def quantities_of(value: JSON) -> tuple[Quantity, ...]:
    """The quantities in a typed operation result.

    Money is ``{"amount": int minor units, "currency": ISO}``; measures ``{"value": 500, "unit": "ml"}``;
    numbers are read by their field's name (``percent_off``, ``stock``, ``delivery_days``, ``width_cm``); ISO
    dates as dates; other strings as text; a named list also gives its length (three sizes). Link ids and
    codes are kind ``link``. Spans are 0.
    """
    return tuple(_walk(value, "", ""))


def _walk(value: JSON, key: str, currency: str) -> Iterator[Quantity]:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, Mapping):
        yield from _walk_object(cast("Mapping[str, JSON]", value), currency)
    elif isinstance(value, list):
        if len(value) > 1 and key:
            unit = "size" if "size" in key else "colour" if "colo" in key or "色" in key else "style"
            yield Quantity("count", len(value), unit, "", 0, 0)
        for item in value:
            yield from _walk(item, key, currency)
    elif isinstance(value, str):
        yield from _walk_string(value, key)
    else:
        yield from _walk_number(value, key, currency)


def _walk_object(value: Mapping[str, JSON], currency: str) -> Iterator[Quantity]:
    own = value.get("currency")
    if isinstance(own, str):
        currency = own.upper()
        amount = value.get("amount")
        if isinstance(amount, int) and not isinstance(amount, bool):
            yield Quantity("money", amount, currency, str(value.get("text", "")), 0, 0)
            rest = {k: v for k, v in value.items() if k not in ("amount", "currency", "text")}
            for k, v in rest.items():
                yield from _walk(v, k, currency)
            return
    number, unit = value.get("value"), value.get("unit")
    if isinstance(unit, str) and isinstance(number, int | float) and not isinstance(number, bool):
        yield from _typed(number, unit)
        value = {k: v for k, v in value.items() if k not in ("value", "unit")}
    for k, v in value.items():
        if not _PLAIN_KEY.match(k):
            yield from _unplaced(_read(k, ""))
        elif len(k) > 2 and isinstance(v, bool | str) and v in (True, "") and any(c.isdigit() for c in k):
            yield from _unplaced(_read(k.replace("_", " "), ""))
        yield from _walk(v, k, currency)


def _walk_string(value: str, key: str) -> Iterator[Quantity]:
    if _SIZE_KEY.search(key) and len(value) <= 12:
        read = _read(value, "")
        if not any(q.kind == "size" for q in read):
            yield Quantity("size", value.strip().upper(), "", value, 0, 0)
    elif _REFERENCE_KEY.search(key) and len(value) <= 24:
        yield Quantity("link", int(value) if value.isdecimal() else value, "", value, 0, 0)
        return
    elif key == "currency":
        return
    m = _ISO_TEXT.match(value)
    if m and len(value) <= 40:
        yield Quantity("date", value[:10], "", value, 0, 0)
        if m.group("time"):
            yield Quantity("time", m.group("time")[1:], "", value, 0, 0)
        return
    yield from _unplaced(_read(value, ""))


def _walk_number(value: int | float, key: str, currency: str) -> Iterator[Quantity]:
    text = str(value)
    if _OFF_KEY.search(key):
        yield Quantity("percent", value, "off", text, 0, 0)
    elif _PERCENT_KEY.search(key):
        yield Quantity("percent", value, "", text, 0, 0)
    elif m := _KEY_UNIT.search(key):
        yield from _typed(value, m.group("unit").replace("_", " "))
    elif _REFERENCE_KEY.search(key):
        yield Quantity("link", value, "", text, 0, 0)
    elif _SIZE_KEY.search(key):
        yield Quantity("size", plain(value), "", text, 0, 0)
    elif _COUNT_KEY.search(key):
        yield Quantity("count", value, "", text, 0, 0)
    elif _MONEY_KEY.search(key):
        exponent = 0 if currency in p.WHOLE else 2
        yield Quantity("money", round(value * 10**exponent), currency, text, 0, 0)
    else:
        yield Quantity("number", value, "", text, 0, 0)


def _typed(value: int | float, unit: str) -> Iterator[Quantity]:
    read = _read(f"SPF{value}" if unit.lower() == "spf" else f"{value} {unit}", "")
    yield from _unplaced(read) if read else (Quantity("number", value, "", str(value), 0, 0),)


def _unplaced(read: tuple[Quantity, ...]) -> Iterator[Quantity]:
    return (Quantity(q.kind, q.value, q.unit, q.text, 0, 0) for q in read)


# ------------------------------------------------------------------------------------- matching


_WRITTEN = re.compile(r"\d{1,15}(?:\.\d{1,6})?(?![\d,])")
_CHOICES = frozenset({"size", "colour", "style"})


def matches(claim: Quantity, evidence: Quantity) -> bool:
    """Whether ``evidence`` bears out ``claim``: the same quantity, exactly, however it was written.

    What the claim leaves unsaid (currency, year, counted thing, whether a percentage is a reduction) matches
    anything; what it says must not differ. Nothing is rounded: "about 40" is not borne out by 39.99.
    """
    if claim.kind == "number":
        if isinstance(claim.value, str):
            return False
        if _same(float(claim.value), _as_number(evidence)):
            return True
        # "Height 165 to 175": said without its unit, the number is the one that was written, not 1,650 mm.
        written = _WRITTEN.match(evidence.text) if evidence.kind in ("measure", "duration") else None
        return written is not None and _same(float(claim.value), float(written.group()))
    if claim.kind != evidence.kind:
        if evidence.kind != "number" or (isinstance(claim.value, str) and claim.kind != "size"):
            return False
        if claim.kind == "money":
            return claim.unit == "" and _same(_as_number(claim), _as_number(evidence))
        if claim.kind in ("count", "size"):
            return _same(_as_number(claim), _as_number(evidence))
        return False
    match claim.kind:
        case "money":
            if claim.unit and evidence.unit and claim.unit != evidence.unit:
                return False
            return _same(_as_number(claim), _as_number(evidence))
        case "percent":
            return claim.value == evidence.value and (claim.unit in ("", evidence.unit))
        case "count":
            if "buy" in (claim.unit, evidence.unit) or "free" in (claim.unit, evidence.unit):
                return claim.unit == evidence.unit and claim.value == evidence.value
            loose = ("", "piece")
            if claim.unit == "piece" and evidence.unit in _CHOICES:
                return False  # two sizes are no two pieces in stock
            return claim.value == evidence.value and (
                claim.unit in loose or evidence.unit in loose or claim.unit == evidence.unit
            )
        case "measure" | "duration":
            return claim.unit == evidence.unit and _same(float(claim.value), float(evidence.value))
        case "size":
            return str(claim.value).casefold() == str(evidence.value).casefold() and (
                "" in (claim.unit, evidence.unit) or claim.unit == evidence.unit
            )
        case "date":
            return _date_matches(str(claim.value), str(evidence.value))
        case _:
            return str(claim.value) == str(evidence.value)


def _same(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-6 * max(1.0, abs(a))


def _as_number(q: Quantity) -> float:
    """In major units for money; NaN for what is no number."""
    if isinstance(q.value, str):
        return float(q.value) if q.kind == "size" and re.fullmatch(r"\d+(\.\d+)?", q.value) else float("nan")
    return q.value / 100 if q.kind == "money" and q.unit not in p.WHOLE else float(q.value)


def _date_matches(claim: str, evidence: str) -> bool:
    if claim == evidence:
        return True
    if claim.startswith("---"):
        return evidence[-3:] == claim[2:] and len(evidence) >= 7
    if claim.startswith("--"):
        tail = evidence[4:] if not evidence.startswith("--") else evidence[1:]
        return tail == claim[1:] or tail.startswith(claim[1:] + "-")
    return evidence.startswith(claim + "-")
