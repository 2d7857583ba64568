"""English reading rules: written shop English to what a host says. `lexicon.py` applies them.

American usage. A rule's output holds no digit, so no later rule reads it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from livery.room.speech.numbers import (
    english_digits,
    english_integer,
    english_number,
    english_ordinal,
    english_year,
)

Match = re.Match[str]
Rule = tuple[re.Pattern[str], Callable[[Match], str]]

_N = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_TO = r"\s?(?:-|–|—|~|to)\s?"
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_MONTH = r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec)[a-z]*\.?"
_DAYS = {
    "Mon": "Monday", "Tue": "Tuesday", "Wed": "Wednesday", "Thu": "Thursday", "Fri": "Friday",
    "Sat": "Saturday", "Sun": "Sunday",
}  # fmt: skip
_DAY = "Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun"
"""Sat and Sun alone are words, and days only before a number or in a range."""
_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "USD": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "EUR": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "GBP": ("pound", "pounds", "penny", "pence"),
    "¥": ("yuan", "yuan", "", ""),
    "RMB": ("yuan", "yuan", "", ""),
    "CNY": ("yuan", "yuan", "", ""),
}
_SYMBOLS = "(?:[A-Z]{1,2})?\\$|[€£¥]"
_CODES = "USD|EUR|GBP|RMB|CNY"
_FRACTIONS = {
    (1, 2): "one half",
    (1, 3): "one third",
    (2, 3): "two thirds",
    (1, 4): "one quarter",
    (3, 4): "three quarters",
    (1, 5): "one fifth",
    (1, 8): "one eighth",
    (3, 8): "three eighths",
    (5, 8): "five eighths",
    (7, 8): "seven eighths",
    (1, 10): "one tenth",
}
_SIZES = {"XS": "extra small", "S": "small", "M": "medium", "L": "large", "XL": "extra large"}
_NOUN_NEXT = (
    r"(?= (?!(?:of|and|or|is|are|was|for|in|with|without|per|to|at|from|on|by|a|an|the|each|total|only"
    r"|times|long|wide|tall|high|deep|thick|left|now|more|less|later|ago|plus|if|when|so|but|which"
    r"|that|today|you|we|it|I|takes|makes|gives|costs|weighs|fits|holds|has|comes|will|can|does|should"
    r"|would|could|may|might|must|did|do|had|have|as|than|then|also|too|because|instead|each)\b)"
    r"[A-Za-z])"
)
"""Before a noun: a word follows that is none of these."""
_SIZE = r"(?:\dX[SL]|X{0,3}[SL]|M)"


def english_rules(units: Mapping[str, Sequence[str]]) -> list[Rule]:
    """The rules in the order they are applied. ``units`` maps a unit to (singular, plural, ...)."""
    unit = "|".join(sorted(map(re.escape, units), key=len, reverse=True))

    def with_unit(match: Match) -> str:
        # "a five-hundred milliliter bottle": before a noun the unit stays singular.
        return _count(match[1], units[match[2]], plural=None if match[3] is None else False)

    def range_with_unit(match: Match) -> str:
        return f"{english_number(match[1])} to {_count(match[2], units[match[3]], plural=match[4] is None)}"

    def dimensions(match: Match) -> str:
        sides = " by ".join(english_number(side) for side in re.split(r"\s?[x×*X]\s?", match[1]))
        return f"{sides} {units[match[2]][1]}" if match[2] else sides

    def by_the_unit(match: Match) -> str:
        return f" per {units[match[1]][0]}"

    def hyphened(match: Match) -> str:
        return f"{english_number(match[1])}-{units[match[2]][0]}"

    return [
        _rule(r"(\+?1[- ])?\((\d{3})\) ?(\d{3})-(\d{4})(?![\d-])", _phone),
        _rule(r"(?<![\d-])()()(\d{3})-(0\d{3})(?![\d-])", _phone),
        _rule(r"(?<![\d-])(\+?\d{1,3}[- ])?(\d{3})-(\d{3})-(\d{4})(?![\d-])", _phone),
        _rule(r"(?<![\d-])(1\d{10})(?!\d)", lambda m: english_digits(m[1])),
        _rule(r"(?<![\d-])(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?![\d-])", _iso_date),
        _rule(rf"\b{_MONTH} (\d{{1,2}}){_TO}(\d{{1,2}})(?:,? (\d{{4}}))?\b(?![:%/])", _month_days),
        _rule(rf"\b{_MONTH} (\d{{1,2}})(?:st|nd|rd|th)?(?:,? (\d{{4}}))?\b(?![:%])", _month_date),
        _rule(r"(?<=[\d\s]) ?[x×] ?(?=\$\d)", lambda _: " times "),
        _rule(r"/(?=(?:mo|month|yr|year|week|day|night|person|pack|pair|piece|item|box)\b)", lambda _: " a "),
        _rule(rf"\b({_DAY})\.?(?:\s?[-–—]\s?| to )({_DAY})\b\.?", _day_range),
        _rule(rf"\b({_DAY})\b\.?(?=,? \d)", lambda m: _DAYS[m[1][:3]]),
        _rule(r"\b(Mon|Tues?|Wed|Thu(?:rs?)?|Fri)\b\.?", lambda m: _DAYS[m[1][:3]]),
        _rule(r"(?<![\w~])~ ?(?=[$€£¥]?\d)|≈ ?", lambda _: "about "),
        _rule(r"≥ ?", lambda _: "at least "),
        _rule(r"≤ ?", lambda _: "at most "),
        _rule(r"\b([3-7])'(\d{1,2})\"", lambda m: f"{english_number(m[1])} foot {english_number(m[2])}"),
        _rule(
            r"\b(\d+(?:\.\d+)?)\"? ?(?:-|–|—|to) ?(\d+(?:\.\d+)?)\"",
            lambda m: f"{english_number(m[1])} to {english_number(m[2])} inches",
        ),
        _rule(
            r"\b(\d+(?:\.\d+)?\"?(?: ?[x×] ?\d+(?:\.\d+)?\"?)* ?[x×] ?\d+(?:\.\d+)?\")"
            rf"({_NOUN_NEXT})?",
            _sides_in_inches,
        ),
        _rule(r"\b(\d+(?:\.\d+)?)\"", _inches),
        _rule(r"\b1/2 (?=price\b|off\b)", lambda _: "half "),
        _rule(
            r"(?<![\d/.])(\d\.\d)/(5|10)(?![\d/.])",
            lambda m: f"{english_number(m[1])} out of {english_number(m[2])}",
        ),
        _rule(r"(?<=:\d\d)\s?[-–—~]\s?(?=\d{1,2}:\d\d)", lambda _: " to "),
        _rule(r"\b([01]?\d|2[0-4]):([0-5]\d)(?::[0-5]\d)?(?:\s?([AaPp])\.?[Mm]\b\.?)?", _time),
        _rule(r"\b(1[0-2]|[1-9])\s?([AaPp])\.?[Mm]\b\.?", lambda m: f"{english_number(m[1])} {_half(m[2])}"),
        _rule(r"(?<=[AP] M) ?[-–] ?(?=\w)", lambda _: " to "),
        _rule(rf"({_SYMBOLS})\s?({_N}){_TO}(?:{_SYMBOLS})?\s?({_N})(?![\d.]*[kKMB%])", _money_range),
        _rule(rf"-?({_SYMBOLS})\s?({_N})(?:\s?([kKMB]|thousand|million|billion)\b)?(\+)?", _money),
        _rule(rf"\b({_CODES})\s?({_N})([kKMB]\b)?(\+)?", _money),
        _rule(rf"(?<![\d.,])({_N})()\s?({_CODES})\b", lambda m: _amount(m[3], m[1])),
        _rule(rf"({_N})%?{_TO}({_N})\s?%", lambda m: f"{english_number(m[1])} to {english_number(m[2])} percent"),
        _rule(rf"({_N})\s?%(\+)?", lambda m: f"{english_number(m[1])} percent{' plus' if m[2] else ''}"),
        _rule(r"\b(SPF|UPF) ?(\d+)(\+)?", _sun_factor),
        _rule(r"\bPA ?(\++)", lambda m: f"P A {english_integer(len(m[1]))} plus"),
        _rule(r"\b(\d+)[- ]?in[- ]?(\d+)\b", lambda m: f"{english_number(m[1])} in {english_number(m[2])}"),
        _rule(rf"\b({_SIZE}(?:\s?[/,]\s?{_SIZE})+)\b(?!')", _size_list),
        _rule(rf"\b({_SIZE})\s?[-–]\s?({_SIZE})\b(?!')", lambda m: f"{_size(m[1])} to {_size(m[2])}"),
        _rule(r"\b([Ss]izes?) (XS|XL|[SML])\b(?!')", lambda m: f"{m[1]} {_SIZES[m[2]]}"),
        _rule(
            r"\b(XS|[SML]) (or|and|to) (XS|XL|[SML])\b(?!')",
            lambda m: f"{_SIZES[m[1]]} {m[2]} {_SIZES[m[3]]}",
        ),
        _rule(r"(?<=\b[Ii]n )(XS|[SML])\b(?!'|\.[A-Za-z])", lambda m: _SIZES[m[1]]),
        _rule(r"\b(XS|[SML])(?= (?:is|runs|fits|would be|will be)\b)", lambda m: _SIZES[m[1]]),
        _rule(r"(?<= or )(XS|XL|[SML])\b(?!')", lambda m: _SIZES[m[1]]),
        _rule(r"\b(\d)X([LS])\b", lambda m: f"{english_number(m[1])} X {m[2]}"),
        _rule(r"\b(XXX|XX)([LS])\b", lambda m: f"{'triple' if len(m[1]) == 3 else 'double'} X {m[2]}"),
        _rule(r"\bXL\b", lambda _: "extra large"),
        _rule(r"(?:\b[Nn]o\. ?|№ ?|#)(\d{5,})\b", lambda m: f"number {english_digits(m[1])}"),
        _rule(r"(?:\b[Nn]o\. ?|№ ?|#)(\d+)\b", lambda m: f"number {english_number(m[1])}"),
        _rule(r"#(?=[A-Za-z]+\d)", lambda _: "number "),
        _rule(r"\b(\d+) (1/2|1/4|3/4|1/3|2/3)(?!\d)", _mixed_fraction),
        _rule(r"(?<![\d/.])(\d{1,2})/(\d{1,2})(?![\d/]|\.\d| stars?\b)", _fraction_or_date),
        _rule(rf"((?:{_N})(?:\s?[x×*]\s?(?:{_N}))+)\s?({unit})?(?![A-Za-z])", dimensions),
        _rule(r"\b(\d+)[Ww]\+", lambda m: f"{english_integer(int(m[1]) * 10_000)} plus"),
        _rule(
            r"\b(\d)/(\d{1,2}) (?=stars?\b)",
            lambda m: f"{english_number(m[1])} out of {english_number(m[2])} ",
        ),
        _rule(r"(?<=\d) ?\+ ?(?=\d)", lambda _: " plus "),
        _rule(r"(?<=[\w.]) ?[x×*] ?(?=\d+(?![\d.]*[a-zA-Z]))", lambda _: " times "),
        _rule(r"\b(1[89]|20)(\d)0['’]?s\b", _decade),
        _rule(r"\b([5-9])0['’]?s\b", lambda m: _tens_decade(int(m[1]))),
        _rule(r"\b(\d{3,4})[pP]\b", lambda m: f"{_pairs(m[1])} P"),
        _rule(r"\b([A-Z]{2,5}) (\d{4})\b", lambda m: f"{m[1]} {_pairs(m[2])}"),
        _rule(r"\b([3-7])'(\d{1,2})\b\"?", lambda m: f"{english_number(m[1])} foot {english_number(m[2])}"),
        _rule(rf"({_N}){_TO}({_N})\s?({unit})(?![A-Za-z²])({_NOUN_NEXT})?", range_with_unit),
        _rule(
            r"\b(10|14|18|22|24)[Kk](?= ?(?:gold|rose|white|yellow)\b)",
            lambda m: f"{english_number(m[1])} karat",
        ),
        _rule(rf"(?<![A-Za-z\d.,-])({_N})-({unit})(?![\w-])", hyphened),
        _rule(rf"(?<![A-Za-z\d.,])(-?(?:{_N}))\s?({unit})(?![A-Za-z²\d])({_NOUN_NEXT})?", with_unit),
        _rule(rf"(?<=[a-z])/({unit})\b", by_the_unit),
        _rule(r"\b(\d{2,}|\d+\.\d+)[Kk]\b(\+)?", _thousands),
        _rule(rf"({_N}){_TO}({_N})(?![\d-])", lambda m: f"{english_number(m[1])} to {english_number(m[2])}"),
        _rule(r"\b(\d{1,3})['’]?s\b", lambda m: f"{english_number(m[1])}s"),
        _rule(r"\b(\d+)(?:st|nd|rd|th)\b", lambda m: english_ordinal(int(m[1]))),
        _rule(
            r"(?<![\d.,-])(20[23]\d|201\d(?= (?:model|edition|version|collection)\b))(?![\d,]|\.\d)",
            _year,
        ),
        _rule(r"(?<=\b[Ii]n )((?:19|20)\d{2})\b", _year),
        _rule(r"(?<=\b[Ss]ince )((?:19|20)\d{2})\b", _year),
        _rule(r"(?<=\b[Yy]ear )((?:19|20)\d{2})\b", _year),
        _rule(r"\b(\d+(?:\.\d+)?)[xX]\b(?! ?\d)", lambda m: f"{english_number(m[1])} times"),
        _rule(r"\bx(\d+)\b", lambda m: f"times {english_number(m[1])}"),
        _rule(r"\b(\d+)([A-Z][A-Za-z]{0,2})\b", lambda m: f"{english_number(m[1])} {m[2]}"),
        _rule(r"(?<=[A-Za-z])-?(\d+(?:\.\d+)?)(?=[A-Za-z]|\b)", lambda m: f" {_model(m[1])}{_gap(m)}"),
        _rule(rf"(?<![\d.,A-Za-z])({_N})\+", lambda m: f"{english_number(m[1])} plus"),
        _rule(rf"(?<![\w.,])(-(?:{_N}))", lambda m: english_number(m[1])),
        _rule(rf"(?<![\d.,])({_N})(?![\d])", _plain),
        _rule(r"\b([A-Z]{2,})-([A-Z])\b", lambda m: f"{m[1]} {m[2]}"),
        _rule(r"(?<=\w) / (?=\w)", lambda _: ", "),
        _rule(r"(?<=\w) ?& ?(?=\w)", lambda _: " and "),
        _rule(r"(?<=\w) ?\+ ?(?=\w)", lambda _: " plus "),
        _rule(r"(?<=\w)\+", lambda _: " plus"),
    ]


def _rule(pattern: str, say: Callable[[Match], str]) -> Rule:
    return re.compile(pattern), say


def _count(number: str, unit: Sequence[str], *, plural: bool | None = None) -> str:
    single = number.lstrip("-") == "1" if plural is None else not plural
    return f"{english_number(number)} {unit[0] if single else unit[1]}"


def _phone(match: Match) -> str:
    groups = [match[1] or "", match[2], match[3], match[4]]
    return ", ".join(english_digits(group) for group in groups if group)


def _inches(match: Match) -> str:
    """A lone quote after a number is inches; one of a pair closes a quotation."""
    if match.string.count('"') % 2 == 0:
        return match[0]
    return f"{english_number(match[1])} inch"


def _iso_date(match: Match) -> str:
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return f"{english_digits(match[1])} {english_digits(match[2])} {english_digits(match[3])}"
    return f"{_MONTHS[month - 1]} {english_ordinal(day)}, {english_year(year)}"


def _month_date(match: Match) -> str:
    month = next(name for name in _MONTHS if name.startswith(match[1][:3]))
    year = f", {english_year(int(match[3]))}" if match[3] else ""
    return f"{month} {english_ordinal(int(match[2]))}{year}"


def _month_days(match: Match) -> str:
    month = next(name for name in _MONTHS if name.startswith(match[1][:3]))
    year = f", {english_year(int(match[4]))}" if match[4] else ""
    return f"{month} {english_ordinal(int(match[2]))} to {english_ordinal(int(match[3]))}{year}"


def _day_range(match: Match) -> str:
    return f"{_DAYS[match[1][:3]]} to {_DAYS[match[2][:3]]}"


def _sides_in_inches(match: Match) -> str:
    sides = re.findall(r"\d+(?:\.\d+)?", match[1])
    return f"{' by '.join(map(english_number, sides))} {'inches' if match[2] is None else 'inch'}"


def _half(letter: str) -> str:
    return "A M" if letter.lower() == "a" else "P M"


def _time(match: Match) -> str:
    hour, minute = int(match[1]), int(match[2])
    half = _half(match[3]) if match[3] else ""
    if not half and hour == 0 and minute == 0:
        return "midnight"
    if not half and (hour > 12 or hour == 0):
        half = "P M" if 12 < hour < 24 else "A M"
        hour = hour % 12 or 12
    words = english_integer(hour)
    if minute:
        words += f" {'oh ' if minute < 10 else ''}{english_integer(minute)}"
    elif not half:
        words += " o'clock"
    return f"{words} {half}".strip()


_MULTIPLES = {"k": "thousand", "K": "thousand", "M": "million", "B": "billion"}


def _money(match: Match) -> str:
    plus = " plus" if match[4] else ""
    if match[3]:
        multiple = _MULTIPLES.get(match[3], match[3])
        return f"{english_number(match[2])} {multiple} {_currency(match[1])[1]}{plus}"
    sign = "minus " if match[0].startswith("-") else ""
    return sign + _amount(match[1], match[2]) + plus


def _currency(written: str) -> tuple[str, str, str, str]:
    """US$, A$ and the like are dollars, as hosts say in their own country."""
    return _CURRENCIES["$" if written.endswith("$") else written]


def _amount(currency: str, figure: str) -> str:
    one, many, cent, small = _currency(currency)
    whole_text, _, decimals = figure.replace(",", "").partition(".")
    whole = int(whole_text)
    minor = int((decimals + "0")[:2]) if decimals else 0
    if not minor:
        return f"{english_integer(whole)} {one if whole == 1 else many}"
    if not small or len(decimals) > 2:
        return f"{english_number(figure)} {many}"
    if not whole:
        return f"{english_integer(minor)} {cent if minor == 1 else small}"
    cents = f"{'oh ' if minor < 10 else ''}{english_integer(minor)}"
    if whole < 100 and small == "cents" and many == "dollars":
        return f"{english_integer(whole)} {cents}"
    if small == "cents" and many == "dollars":
        return f"{english_integer(whole)} dollars and {english_integer(minor)} {'cent' if minor == 1 else small}"
    return f"{english_integer(whole)} {one if whole == 1 else many} {english_integer(minor)}"


def _money_range(match: Match) -> str:
    low, high = match[2], match[3]
    if "." in low or "." in high:
        return f"{_amount(match[1], low)} to {_amount(match[1], high)}"
    return f"{english_number(low)} to {english_number(high)} {_currency(match[1])[1]}"


def _sun_factor(match: Match) -> str:
    return f"{' '.join(match[1])} {english_number(match[2])}{' plus' if match[3] else ''}"


def _size_list(match: Match) -> str:
    return ", ".join(_size(size) for size in re.split(r"\s?[/,]\s?", match[1]))


def _size(size: str) -> str:
    if size in _SIZES:
        return _SIZES[size]
    if size[0].isdigit():
        return f"{english_number(size[0])} {' '.join(size[1:])}"
    return f"{'triple' if len(size) == 4 else 'double'} X {size[-1]}"


def _mixed_fraction(match: Match) -> str:
    top, bottom = map(int, match[2].split("/"))
    part = {(1, 2): "a half", (1, 4): "a quarter", (1, 3): "a third"}.get((top, bottom), _FRACTIONS[top, bottom])
    return f"{english_number(match[1])} and {part}"


def _fraction_or_date(match: Match) -> str:
    top, bottom = int(match[1]), int(match[2])
    if (top, bottom) in _FRACTIONS:
        return _FRACTIONS[top, bottom]
    if 1 <= top <= 12 and 1 <= bottom <= 31:
        return f"{_MONTHS[top - 1]} {english_ordinal(bottom)}"
    return f"{english_integer(top)}, {english_integer(bottom)}"


def _thousands(match: Match) -> str:
    return f"{english_number(match[1])} thousand{' plus' if match[2] else ''}"


def _decade(match: Match) -> str:
    tens = {"0": "hundreds", "1": "tens"}.get(match[2], "")
    return f"{english_integer(int(match[1]))} {tens or _tens_decade(int(match[2]))}"


def _year(match: Match) -> str:
    return english_year(int(match[1]))


def _tens_decade(tens: int) -> str:
    return english_integer(tens * 10)[:-1] + "ies"


def _pairs(digits: str) -> str:
    """Model and resolution numbers as people say them: 4090 "forty ninety", 720 "seven twenty"."""
    high, low = divmod(int(digits), 100)
    if low == 0:
        return english_integer(int(digits)) if high % 10 == 0 else f"{english_integer(high)} hundred"
    return f"{english_integer(high)} {'oh ' if low < 10 else ''}{english_integer(low)}"


def _gap(match: Match) -> str:
    return " " if match.string[match.end() : match.end() + 1].isalpha() else ""


def _model(digits: str) -> str:
    """Digits inside a model name: short or round ones as a number, others one by one."""
    if "." in digits:
        return english_number(digits)
    if (len(digits) <= 2 or digits.endswith("00")) and not (len(digits) > 1 and digits.startswith("0")):
        return english_integer(int(digits))
    return english_digits(digits)


def _plain(match: Match) -> str:
    text = match[1]
    if len(text) >= 7 and text.isdigit():
        return english_digits(text)
    if len(text) > 1 and text.isdigit() and text.startswith("0"):
        return english_digits(text)
    return english_number(text)
