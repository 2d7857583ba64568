"""Quantities that are read whole from their shape: dates, clock times, sizes, percentages, buy-and-get.

The lower half of the reader; `livery.harness.quantity_reader` adds numbers and what stands around them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from livery.harness import quantity_patterns as p
from livery.harness.numerals import read_chinese, read_english, tidy
from livery.harness.units import CURRENCY_SIGNS

Kind = Literal[
    "money",
    "percent",
    "count",
    "measure",
    "size",
    "date",
    "duration",
    "number",
    "link",
    "ordinal",
    "time",
    "phone",
    "campaign",
]
FACTUAL: frozenset[str] = frozenset({"money", "percent", "count", "measure", "size", "date", "duration", "number"})
"""Kinds that claim something about the shop."""


@dataclass(frozen=True, slots=True)
class Quantity:
    kind: Kind
    value: int | float | str
    unit: str
    text: str
    """As written."""
    start: int
    end: int
    """``source[start:end] == text``; both 0 for what was read from a typed field."""


class Number(NamedTuple):
    value: int | float
    end: int
    second: int = -1
    spread: tuple[int, int] | None = None
    scaled: bool = False
    word: bool = False
    """Written in words."""
    raw: str = ""


def digit(c: str) -> int:
    return int(c) if c.isascii() else int(read_chinese("二" if c == "两" else c, 0).value)  # type: ignore[union-attr]


def currency_of(sign: str | None) -> str:
    return CURRENCY_SIGNS[(sign or "").strip()]


def as_number(raw: str) -> int | float:
    raw = raw.replace(",", "")
    if len(raw) > 18:
        return 10**18  # no shop's amount; longer would be no machine number
    return tidy(float(raw)) if "." in raw else int(raw)


def scale_value(scale: re.Match[str]) -> tuple[int, int]:
    """(factor, addend): 3万5 is 3 x 10,000 + 5,000."""
    if scale.group("zh"):
        factor = 1
        for c in scale.group("zh"):
            factor *= {"百": 100, "千": 1_000, "万": 10_000, "亿": 100_000_000}[c]
        tail = scale.group("tail")
        unit = scale.group("tailunit")
        step = {"百": 100, "千": 1_000}[unit] if unit else factor // 10
        return factor, int(tail) * step if tail else 0
    if scale.group("en"):
        return {"hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9, "dozen": 12}[
            scale.group("en")
        ], 0
    return (1_000 if scale.group("k") else 10_000), 0


def plain(value: int | float) -> str:
    return str(tidy(value))


def iso_date(year: str | None, month: str | int | None, day: str | int | None) -> str:
    if month is None:
        return str(year)
    text = f"{year or '-'}-{int(month):02d}"
    return f"{text}-{int(day):02d}" if day is not None else text


class Shapes:
    """One text, and the readers that need no unit. Each returns the index from which to go on."""

    def __init__(self, text: str, language: str) -> None:
        self.text = text
        self.low = text.translate(p.TABLE)
        self._language = language
        self._chinese: bool | None = None
        self.out: list[Quantity] = []

    @property
    def chinese(self) -> bool:
        if self._chinese is None:
            tag = self._language
            self._chinese = tag.startswith("zh") if tag else any("一" <= c <= "鿿" for c in self.text)
        return self._chinese

    def _add(self, kind: Kind, value: int | float | str, unit: str, start: int, end: int) -> int:
        if not isinstance(value, str):
            value = tidy(value)
        self.out.append(Quantity(kind, value, unit, self.text[start:end], start, end))
        return end

    def _size_word(self, word: str, start: int, end: int) -> int:
        low = self.low
        if word in ("size", "sizes"):
            m = p.SIZE_WORD.match(low, start)
            return self._add("size", p.SIZE_WORDS[m.group(1)], "", m.start(1), m.end()) if m else end
        if word == "free":
            m = p.ONE_SIZE.match(low, start)
            return self._add("size", "FREE", "", start, m.end()) if m else end
        if word in ("small", "medium", "large", "extra"):
            m = p.WORD_SIZE.match(low, start)
            m = m or self._loose_size(start)
            return self._add("size", p.SIZE_WORDS[m.group(1)], "", start, m.end()) if m else end
        return self._letter_size(start, end)

    def _letter_size(self, start: int, end: int) -> int:
        m = p.LETTER_SIZE.match(self.low, start)
        if (
            m is None
            or not m.group()
            or (start and (self.text[start - 1].isascii() and self.text[start - 1] in "'&.’_"))
        ):
            return end
        written = self.text[start : m.end()]
        letters = written.lstrip("23456 ")
        if not letters.isupper():
            return end
        if len(written) == 1:
            left = self.low[max(0, start - 8) : start]
            if left and not p.SINGLE_LETTER_CUE.search(left):
                return end
            if not left and not p.SINGLE_LETTER_AFTER.match(self.low, m.end()):
                return end
        value = written.replace(" ", "").upper()
        if value[0] == "X" and len(value) > 3:
            value = f"{len(value) - 1}X{value[-1]}"
        if value in ("2XL", "2XS"):
            value = "XX" + value[-1]
        return self._add("size", value, "", start, m.end())

    def _month(self, word: str, start: int, end: int) -> int:
        low = self.low
        m = p.MONTH_FIRST.match(low, start)
        if m:
            day = p.ORDINAL_WORDS[m.group("word")] if m.group("word") else int(m.group("day"))
            if 1 <= day <= 31:
                return self._add("date", iso_date(m.group("year"), p.MONTHS[word], day), "", start, m.end())
        m = p.MONTH_YEAR.match(low, start)
        if m:
            return self._add("date", f"{m.group('year')}-{p.MONTHS[word]:02d}", "", start, m.end())
        if len(word) > 3 and word not in ("march", "sept") and self.text[start].isupper():
            return self._add("date", f"--{p.MONTHS[word]:02d}", "", start, end)
        return end

    def _ordinal(self, m: re.Match[str], start: int) -> int:
        day, month = p.ORDINAL_WORDS[m.group("word")], m.group("month")
        if month:
            return self._add("date", iso_date(m.group("year"), p.MONTHS[month], day), "", start, m.end())
        if m.group("word") == "second" and (free := p.SECOND_FREE.match(self.low, start)):
            self._add("count", 1, "buy", start, m.end("word"))
            return self._add("count", 1, "free", m.end("word"), free.end())
        if self._day_of_month(start, m.end("word"), day) and day > 3:
            return self._add("date", f"---{day:02d}", "", start, m.end("word"))
        if m.group("word") == "second" and start and self.low[start - 2 : start] in ("a ", "r "):
            return m.end("word")  # "a second", "per second"
        return self._add("ordinal", day, "", start, m.end("word"))

    def _day_of_month(self, start: int, end: int, day: int) -> bool:
        """ "on the 25th", with nothing behind that it could count."""
        left = self.low[max(0, start - 12) : start]
        return (
            1 <= day <= 31
            and p.THE_DAY_BEFORE.search(left) is not None
            and p.THE_DAY_AFTER.match(self.low, end) is not None
        )

    def _bogo(self, m: re.Match[str], start: int) -> int:
        found: list[int | float] = []
        for group in ("buy", "free"):
            raw = m.group(group)
            number = read_english(raw, 0) if raw[0].isalpha() and raw.isascii() else None
            zh = None if raw.isascii() else read_chinese(raw, 0)
            if raw.isdigit() and raw.isascii():
                found.append(int(raw))
            elif number or zh:
                found.append((number or zh).value)  # type: ignore[union-attr]
            else:
                return start + 1 if m.group()[0] in "买拍" else start + 3
        self._add("count", found[0], "buy", start, m.end("buy"))
        return self._add("count", found[1], "free", m.start("free"), m.end())

    def _part_off(self, m: re.Match[str], start: int) -> int:
        """ "a third off", "two fifths of the price", "save a quarter". -1 where no price is meant."""
        over = {"two": 2, "three": 3, "four": 4}.get(m.group("n") or "", 1)
        share = 100 * over / p.PARTS[m.group("part")]
        if m.group("pays"):
            return self._add("percent", 100 - share, "off", start, m.end())
        if m.group("off") or p.OFF_BEFORE.search(self.low[max(0, start - 24) : start]):
            return self._add("percent", share, "off", start, m.end())
        return -1

    def _loose_size(self, start: int) -> re.Match[str] | None:
        """ "comes in large", "take a medium": a size word alone, where it is no mere adjective."""
        low = self.low
        m = p.LOOSE_SIZE.match(low, start)
        if m is None or not p.LOOSE_SIZE_BEFORE.search(low[max(0, start - 10) : start]):
            before = m is not None and low[max(0, start - 2) : start] == ", "
            if not before or not self.out or self.out[-1].kind != "size" or self.out[-1].end != start - 2:
                return None
        return m if p.LOOSE_SIZE_CUE.search(low[max(0, start - 28) : start]) else None

    def _for_fewer(self, m: re.Match[str], start: int) -> int:
        """ "two for one": buy one, one free."""
        words = {"one": 1, "two": 2, "three": 3, "four": 4}
        n, paid = (words.get(m.group(g)) or int(m.group(g)) for g in ("n", "m"))
        if n <= paid:
            return m.end("n")
        self._add("count", paid, "buy", start, m.end("n"))
        return self._add("count", n - paid, "free", m.start("m"), m.end())

    def _baifenzhi(self, start: int, at: int) -> int:
        low = self.low
        m = p.DIGITS.match(low, at)
        value: int | float
        if m:
            value, end = as_number(m.group()), m.end()
        else:
            number = read_chinese(low, at)
            if number is None:
                return at
            value, end = number.value, number.end
        return self._percent(value, start, end, end)

    def _percent(self, value: int | float, start: int, end: int, at: int) -> int:
        low = self.low
        if p.OFF_AFTER.match(low, at) or p.OFF_BEFORE.search(low[max(0, start - 24) : start]):
            return self._add("percent", value, "off", start, end)
        if p.PAYS_AFTER.match(low, at):
            return self._add("percent", 100 - value, "off", start, end)
        return self._add("percent", value, "", start, end)

    def _past(self, m: re.Match[str], start: int) -> int:
        """ "half past nine", "a quarter to ten"."""
        said = m.group("h")
        number = None if said.isdigit() else read_english(said, 0)
        hour = int(number.value if number else said)
        minute = 30 if m.group("part") == "half" else 15
        if m.group("side") == "to":
            hour, minute = hour - 1, 45
        return self._clock(start, m.end(), hour, minute, None)

    def _clock(self, start: int, end: int, hour: int, minute: int, half: str | None) -> int:
        if half == "p" and hour < 12:
            hour += 12
        elif half == "a" and hour == 12:
            hour = 0
        return self._add("time", f"{hour:02d}:{minute:02d}", "", start, end)

    def _chinese_clock(self, m: re.Match[str], start: int, hour: int, left: str) -> int:
        part = p.DAYPART.search(left)
        bare = not (m.group("half") or m.group("quarter") or m.group("m")) and m.group().strip() == "点"
        if bare and not part:
            return m.end()  # "三点" may as well be three points
        minute = 30 if m.group("half") else 15 if m.group("quarter") else 0
        if m.group("m"):
            minute = int(m.group("m")) if m.group("m").isdigit() else int(read_chinese(m.group("m"), 0).value)  # type: ignore[union-attr]
        if part and part.group("late") and hour < 12:
            hour += 12
        return self._add("time", f"{hour:02d}:{minute:02d}", "", start, m.end())
