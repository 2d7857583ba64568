"""How a host says facts: replies put together from the grammars in ``vocabulary/phrasing-*.yaml``.

A `Speaker` holds one language's grammar. It knows the words for values (money, dates, spans, measures) and picks
wordings by the random stream it is given; which facts are said, and in what frame, is `livery.simulator.answers`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from random import Random
from typing import Any, cast

import yaml

from livery.shop.money import format_money, major
from livery.simulator.task import GoldFact
from livery.simulator.worlds import VOCABULARY

_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+)\}")
_BLANKS = re.compile(r"\s{2,}")
_BEFORE = re.compile(r"\s+(?=[,.?!;:，。！？])")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60
_UNITS = {
    "en": {"g": ("g", "grams"), "ml": ("ml",), "mm": ("mm",), "w": ("W", "watts"), "mah": ("mAh",), "l": ("L",),
           "cm": ("cm",), "kg": ("kg",)},
    "zh": {"g": ("克",), "ml": ("毫升",), "mm": ("毫米",), "w": ("瓦",), "mah": ("毫安时",), "l": ("升",),
           "cm": ("厘米",), "kg": ("公斤",)},
}  # fmt: skip
_SPANS = {
    "en": {"day": ("day", "days"), "hour": ("hour", "hours"), "minute": ("minute", "minutes"),
           "month": ("month", "months"), "workday": ("working day", "working days"), "second": ("second", "seconds")},
    "zh": {"day": ("天", "天"), "hour": ("小时", "小时"), "minute": ("分钟", "分钟"), "month": ("个月", "个月"),
           "workday": ("个工作日", "个工作日"), "second": ("秒", "秒")},
}  # fmt: skip

Core = tuple[tuple[str, ...], ...]


class Speaker:
    """One language's grammar of replies."""

    def __init__(self, language: str) -> None:
        self.language = language
        path = VOCABULARY / f"phrasing-{language}.yaml"
        self.words = cast("dict[str, Any]", yaml.safe_load(path.read_text(encoding="utf-8")))
        self._frames: dict[str, tuple[Core, ...]] = {
            name: tuple(_parts(t) for t in templates) for name, templates in self.words["frames"].items()
        }
        self._thoughts = {k: tuple(_parts(t) for t in v) for k, v in self.words["thoughts"].items()}
        self._closers = tuple(_parts(t) for t in self.words["closers"])

    @property
    def frames(self) -> tuple[str, ...]:
        return tuple(self._frames)

    def ways(self, frame: str) -> int:
        """In how many ways a frame can be said, openers and closers apart."""
        return sum(prod(len(part) for part in core) for core in self._frames[frame])

    def say(self, frame: str, slots: Mapping[str, str], rng: Random) -> str:
        """A clause: no capital, no stop.

        Raises:
            KeyError: an unknown frame, or a slot that is not given.
        """
        return _filled(rng.choice(self._frames[frame]), slots, rng)

    def briefest(self, frame: str, slots: Mapping[str, str]) -> str:
        """The shortest wording of a frame."""
        every = (_tidy(_SLOT.sub(lambda m: slots[m.group(1)], "".join(min(p, key=len) for p in core)))
                 for core in self._frames[frame])  # fmt: skip
        return min(every, key=len)

    def think(self, about: str, topic: str, rng: Random) -> str:
        return _filled(rng.choice(self._thoughts[about]), {"topic": self.words["topics"].get(topic, topic)}, rng)

    def opener(self, rng: Random) -> str:
        return str(rng.choice(self.words["openers"]))

    def closer(self, rng: Random) -> str:
        return _filled(rng.choice(self._closers), {}, rng)

    def item(self, link_id: str, rng: Random) -> str:
        return str(rng.choice(self.words["items"])).format(n=link_id)

    def pronoun(self, rng: Random) -> str:
        return str(rng.choice(self.words["pronouns"]))

    def sentences(self, clauses: Sequence[str]) -> str:
        """Clauses as sentences: first letters raised, stops set."""
        if self.language == "zh":
            return "".join(c if c[-1] in "。！？?!" else f"{c}。" for c in clauses)
        raised = (c[:1].upper() + c[1:] for c in clauses)
        return " ".join(_first_person(c) if c[-1] in ".!?" else f"{_first_person(c)}." for c in raised)

    # ---------------------------------------------------------------------------------- values

    def value(self, fact: GoldFact, rng: Random) -> str:
        """A fact's value in words, exact."""
        match fact.kind:
            case "money":
                return self.money(cast(int, fact.value), fact.unit, rng)
            case "date":
                return self.date(str(fact.value), rng)
            case "duration":
                return self.span((cast(float, fact.value),), fact.unit)
            case "measure":
                return self.measure(cast(float, fact.value), fact.unit, rng)
            case "percent":
                return f"{cast(float, fact.value):g}%"
            case _:
                return f"{fact.value}"

    def money(self, amount: int, currency: str, rng: Random) -> str:
        if self.language == "zh" and currency == "CNY" and rng.random() < 0.6:
            return f"{major(amount, currency).normalize():f}{rng.choice(('元', '块'))}"
        return format_money(amount, currency)

    def date(self, iso: str, rng: Random) -> str:
        _, month, day = (int(p) for p in iso.split("-"))
        if self.language == "zh":
            return f"{month}月{day}{rng.choice('日号')}"
        name = _MONTHS[month - 1]
        return rng.choice((f"{name} {day}", f"{day} {name}", f"{name} {_ordinal(day)}"))

    def span(self, values: Sequence[float], unit: str) -> str:
        """A duration, or a range of two: "6-8 days"."""
        name, size = unit, 1
        if unit == "s":
            name, size = next(
                (
                    (n, s)
                    for n, s in (("day", _DAY), ("hour", _HOUR), ("minute", _MINUTE))
                    if not any(v % s for v in values)
                ),
                ("second", 1),
            )
            if name == "day" and max(values) == _DAY and min(values) == _DAY and len(values) == 1:
                name, size = "day", _DAY
        said = [f"{v / size:g}" for v in values]
        one, many = _SPANS[self.language][name]
        text = "-".join(dict.fromkeys(said))
        gap = " " if self.language == "en" else ""
        return f"{text}{gap}{one if text == '1' else many}"

    def measure(self, value: float, unit: str, rng: Random) -> str:
        if unit == "ml" and value >= 1000 and value % 1000 == 0:
            value, unit = value / 1000, "l"
        elif unit == "mm" and value % 10 == 0:
            value, unit = value / 10, "cm"
        elif unit == "g" and value >= 1000 and value % 1000 == 0:
            value, unit = value / 1000, "kg"
        name = rng.choice(_UNITS[self.language].get(unit, (unit,)))
        return f"{value:g}{' ' if self.language == 'en' else ''}{name}"


@lru_cache(maxsize=2)
def speaker_of(language: str) -> Speaker:
    """The grammar of "zh", or else of "en"."""
    return Speaker(language)


def _ordinal(day: int) -> str:
    ending = "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def _first_person(text: str) -> str:
    """ "i" as English writes it."""
    return re.sub(r"(?<![\w'])i(?=[ ']|$)", "I", text)


def _parts(core: str) -> Core:
    """``a [b|c] d`` -> (("a ",), ("b", "c"), (" d",))."""
    split = _CHOICE.split(core)
    return tuple(tuple(p.split("|")) if i % 2 else (p,) for i, p in enumerate(split) if p or i % 2)


def _filled(core: Core, slots: Mapping[str, str], rng: Random) -> str:
    text = "".join(part[0] if len(part) == 1 else rng.choice(part) for part in core)
    return _tidy(_SLOT.sub(lambda m: slots[m.group(1)], text))


def _tidy(text: str) -> str:
    return _BEFORE.sub("", _BLANKS.sub(" ", text)).strip(" ,，")
