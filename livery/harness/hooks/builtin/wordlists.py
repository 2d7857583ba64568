"""Word lists and how they are searched: patterns with allowed contexts, denials and what bears a claim out.

The lists are data, ``lists/en.yaml`` and ``lists/zh.yaml``, both searched in every text because
hosts mix languages. A match is dropped where it lies in an allowed context ("best regards"), and,
in a category marked ``negatable``, where a denial stands before it in the same clause ("this does
not cure acne"). Superlatives are not negatable: "not the best" and "没有最好，只有更好" are still
superlatives in advertising law's eyes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import yaml

LISTS = Path(__file__).with_name("lists")
LANGUAGES = ("en", "zh")

_STRAIGHT = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "－": "-", "–": "-", "—": "-",
                            "％": "%"} | {
    chr(ord("０") + d): str(d) for d in range(10)
})  # fmt: skip
_CLAUSE = re.compile(r"[.!?;。！？；\n,，]")
_DENIAL = re.compile(
    r"(?<![a-z])(?:not|no|never|cannot|can't|without|neither|nor|unable to)(?![a-z])"
    r"|n't(?![a-z])|不(?!仅|但|只|光|要错过|用担心|止)|没(?!有更|有最|错)|无法|并非|未(?!来)|别|非(?!常|同)|不是"
)
_LONG_TEXT = 400
_LONG_RUN = re.compile(r"(?:[\d,.]|[零一二两三四五六七八九十百千万亿几]){18,}")
"""No amount is as long; left in, a text of nothing else would be searched in quadratic time."""
_DENIAL_REACH = 28
"""Characters before a match in which a denial counts."""


@dataclass(frozen=True, slots=True)
class Match:
    category: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Phrases:
    """Many wordings as one pattern. In a text of ASCII alone, as most English ones are, those that need a
    character beyond it are not tried: that is half of the searching."""

    everywhere: re.Pattern[str]
    in_ascii: re.Pattern[str] | None

    def search(self, text: str) -> re.Match[str] | None:
        pattern = self.in_ascii if text.isascii() else self.everywhere
        return pattern.search(text) if pattern is not None else None

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        pattern = self.in_ascii if text.isascii() else self.everywhere
        return pattern.finditer(text) if pattern is not None else iter(())


@dataclass(frozen=True, slots=True)
class Category:
    name: str
    pattern: Phrases | re.Pattern[str]
    allow: re.Pattern[str] | None = None
    support: re.Pattern[str] | None = None
    negatable: bool = False
    groundable: bool = False


def straight(text: str) -> str:
    """Lower-case, straight quotes and dashes, narrow digits: the same length as ``text``."""
    low = text.lower()
    return (low if len(low) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)).translate(
        _STRAIGHT
    )


def _bounded(pattern: str, language: str) -> str:
    return rf"(?<![a-z])(?:{pattern})(?![a-z])" if language == "en" else f"(?:{pattern})"


def _joined(patterns: Iterable[tuple[str, str]]) -> re.Pattern[str] | None:
    """One pattern of many, English ones bounded by their words."""
    by_language: dict[str, list[str]] = {}
    for language, pattern in patterns:
        by_language.setdefault(language, []).append(pattern)
    parts = [_bounded("|".join(found), language) for language, found in by_language.items()]
    return re.compile("|".join(parts)) if parts else None


def _phrases(patterns: Sequence[tuple[str, str]]) -> Phrases | None:
    everywhere = _joined(patterns)
    if everywhere is None:
        return None
    return Phrases(everywhere, _joined((x, p) for x, p in patterns if not beyond_ascii(p)))


_TOKEN = re.compile(
    r"(?P<open>\((?P<look>\?<?[=!])?(?:\?:|\?P<\w+>)?)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<repeat>(?:[*+?]|\{\d*,?\d*\})[?+]?)"
    r"|\[(?P<negated>\^?)(?P<members>\]?(?:\\.|[^\]\\])*)\]|\\.|(?P<literal>.)",
    re.DOTALL,
)
_RANGE = re.compile(r"(?<=.)-(?=.)")


@dataclass(slots=True)
class _Group:
    look: bool = False
    """Looks around: it matches nothing itself."""
    needed: bool = True
    """Whether every alternative so far needs a character beyond ASCII,"""
    here: bool = False
    """the one now read does,"""
    last: bool = False
    """or its last item does, unless it turns out to be optional."""

    def item(self, needs: bool) -> None:
        self.here, self.last = self.here or self.last, needs

    def alternative(self) -> None:
        self.needed, self.here, self.last = self.needs, False, False

    @property
    def needs(self) -> bool:
        return self.needed and (self.here or self.last)


def beyond_ascii(pattern: str) -> bool:
    """Whether whatever ``pattern`` matches holds a character beyond ASCII; False where that is not plain.

    Reads literals, classes, groups, alternatives and repetition; escapes count for ASCII.
    """
    groups = [_Group()]
    for token in _TOKEN.finditer(pattern):
        if token["open"]:
            groups.append(_Group(look=bool(token["look"])))
        elif token["close"]:
            inner = groups.pop()
            groups[-1].item(inner.needs and not inner.look)
        elif token["bar"]:
            groups[-1].alternative()
        elif token["repeat"]:
            if token["repeat"].startswith(("*", "?", "{0", "{,")):
                groups[-1].last = False
        elif token["members"] is not None:
            members = _RANGE.sub("", token["members"])
            groups[-1].item(not token["negated"] and all(ord(c) > 127 for c in members))
        else:
            groups[-1].item(bool(token["literal"]) and ord(token["literal"]) > 127)
    return groups[0].needs


@lru_cache(maxsize=8)
def _file(language: str) -> dict[str, Any]:
    return cast("dict[str, Any]", yaml.safe_load((LISTS / f"{language}.yaml").read_text(encoding="utf-8")))


@lru_cache(maxsize=8)
def categories(group: str) -> tuple[Category, ...]:
    """The categories of ``banned`` or ``promises``, both languages in each."""
    names: dict[str, None] = {}
    for language in LANGUAGES:
        names.update(dict.fromkeys(_file(language)[group]))
    found: list[Category] = []
    for name in names:
        entries = [(x, cast("dict[str, Any]", _file(x)[group][name])) for x in LANGUAGES if name in _file(x)[group]]

        def pick(field: str, entries: list[tuple[str, dict[str, Any]]] = entries) -> re.Pattern[str] | None:
            return _joined((x, p) for x, entry in entries for p in cast("list[str]", entry.get(field, [])))

        pattern = _phrases([(x, p) for x, entry in entries for p in cast("list[str]", entry["patterns"])])
        assert pattern is not None
        found.append(
            Category(
                name=name,
                pattern=pattern,
                allow=pick("allow"),
                support=pick("support"),
                negatable=any(entry.get("negatable", False) for _, entry in entries),
                groundable=any(entry.get("groundable", False) for _, entry in entries),
            )
        )
    return tuple(found)


@lru_cache(maxsize=16)
def plain_list(group: str) -> Phrases:
    """One of a flat list (``injection``, ``abuse``, ...), both languages; ``*_raw`` unbounded."""
    raw = group.endswith("_raw")
    phrases = _phrases([("" if raw else x, p) for x in LANGUAGES for p in cast("list[str]", _file(x)[group])])
    assert phrases is not None
    return phrases


def compiled(phrases: Sequence[str]) -> re.Pattern[str] | None:
    """An operator's own phrases: literal, bounded where they begin or end in a Latin letter; ``re:``
    starts a regular expression over lower-case text.

    Raises:
        ValueError: an expression that does not compile.
    """
    parts: list[str] = []
    for phrase in phrases:
        if phrase.startswith("re:"):
            try:
                re.compile(phrase[3:])
            except re.error as error:
                raise ValueError(f"{phrase!r} is no regular expression: {error}") from error
            parts.append(f"(?:{phrase[3:]})")
        elif phrase:
            low = straight(phrase)
            before = r"(?<![a-z])" if low[0].isascii() and low[0].isalpha() else ""
            after = r"(?![a-z])" if low[-1].isascii() and low[-1].isalpha() else ""
            parts.append(before + re.escape(low) + after)
    return re.compile("|".join(parts)) if parts else None


def denied(low: str, start: int) -> bool:
    """Whether a denial stands before ``start`` in the same clause."""
    left = low[max(0, start - _DENIAL_REACH) : start]
    cut = [m.end() for m in _CLAUSE.finditer(left)]
    return _DENIAL.search(left, cut[-1] if cut else 0) is not None


def find(low: str, chosen: Sequence[Category], extra_allow: re.Pattern[str] | None = None) -> list[Match]:
    """Matches of ``chosen`` in text made by `straight`, allowed contexts and denials taken out."""
    if len(low) > _LONG_TEXT:
        low = _LONG_RUN.sub(lambda m: " " * len(m.group()), low)
    found: list[Match] = []
    for category in chosen:
        matches = list(category.pattern.finditer(low))
        if not matches:
            continue
        contexts = [m.span() for a in (category.allow, extra_allow) if a for m in a.finditer(low)]
        for m in matches:
            if not m.group() or any(a < m.end() and m.start() < b for a, b in contexts):
                continue
            if category.negatable and denied(low, m.start()):
                continue
            found.append(Match(category.name, m.group(), m.start(), m.end()))
    return found


def supported(low_evidence: str, category: Category) -> bool:
    """Whether trusted text holds what bears this category out, undenied."""
    if category.support is None:
        return False
    return any(not denied(low_evidence, m.start()) for m in category.support.finditer(low_evidence))
