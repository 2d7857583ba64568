"""Viewers: how they put a question, in English and Chinese.

An utterance is composed: opener + core + closer, the core chosen for what is asked (`kind`: ``price.one``,
``stock.variant``), with references, variants, places and measures filled in, then made untidy (typos, slang,
words of the other language, no punctuation). Everything comes from ``vocabulary/viewers-*.yaml``, whose train
and test halves have no opener, closer or core in common. Names, numbers, places and codes are never made
untidy: the question stays answerable. Rewording by a model is `livery.simulator.paraphrase`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from random import Random
from typing import Any, cast

import yaml

from livery.simulator.worlds import VOCABULARY

_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+)\}")
_WORD = re.compile(r"[A-Za-z]{5,}")
_PUNCTUATION = re.compile(r"[,;:!?.，。；：！？、]")
_HOMOPHONES = {
    "吗": "嘛", "的": "滴", "什么": "什莫", "怎么": "怎莫", "运费": "云费", "优惠": "优会", "尺码": "尺马",
    "价格": "价咯", "库存": "裤存", "没有": "没由", "几天": "几添", "哪个": "那个", "多少": "多小",
}  # fmt: skip
_UNITS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_HAN = "零一二三四五六七八九"


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How untidily an utterance is written."""

    opener: bool = False
    closer: bool = False
    typo: bool = False
    slang: bool = False
    mixed: bool = False
    """A word or reference in the other language."""
    bare: bool = False
    """No punctuation."""
    mark: str = ""
    """"?" or "？" at the end, or nothing."""
    capital: bool = False

    @property
    def tags(self) -> tuple[str, ...]:
        named = (
            ("typo", self.typo),
            ("slang", self.slang),
            ("mixed_language", self.mixed),
            ("bare", self.bare),
        )
        return tuple(name for name, on in named if on)


class Viewers:
    """The grammar of one split and language."""

    def __init__(self, split: str, language: str) -> None:
        self.language = language
        self.split = split
        whole = _file(language)
        self.words: dict[str, Any] = whole[split]
        self.forbidden: dict[str, list[str]] = whole["forbidden"]
        self._cores: dict[str, tuple[tuple[tuple[str, ...], ...], ...]] = {
            kind: tuple(_parts(core) for core in cores) for kind, cores in self.words["cores"].items()
        }

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self._cores)

    def templates(self, kind: str) -> Iterator[str]:
        """Every core of a kind with its choices made, slots open."""
        for parts in self._cores[kind]:
            for chosen in product(*parts):
                yield _tidy("".join(chosen))

    def ask(self, kind: str, slots: Mapping[str, str], rng: Random, style: Style) -> str:
        """An utterance of ``kind`` with its slots filled.

        Raises:
            KeyError: a kind that the grammar lacks, or a slot that is not given.
        """
        core = "".join(rng.choice(part) for part in rng.choice(self._cores[kind]))
        opener = rng.choice(self.words["openers"]) if style.opener else ""
        closer = rng.choice(self.words["closers"]) if style.closer else ""
        text = self._filled(opener + core, slots, rng, style)
        if style.mark and not text.endswith(("?", "？")):
            text += style.mark
            closer = closer.lstrip("，")
        text = _tidy(text + closer)
        return text[:1].upper() + text[1:] if style.capital else text

    def phrase(self, name: str, rng: Random, /, **slots: str) -> str:
        """One of a list of phrases (``links``, ``screen``, ``earlier_reply``, ...), filled."""
        return _fill(rng.choice(self.words[name]), slots)

    def link(self, link_id: str, rng: Random, *, mixed: bool = False) -> str:
        """A reference by link number: "#3", "link three", "3号链接". A link id that is no number stands as it
        is."""
        forms: Sequence[str] = self.words["links_mixed" if mixed else "links"]
        number = int(link_id) if link_id.isdecimal() and len(link_id) < 3 else None
        if number is None:
            forms = [f for f in forms if "{word}" not in f]
        word = "" if number is None else spelled(number, self.language)
        return _fill(rng.choice(forms), {"n": link_id, "word": word})

    def measures(self, body: Mapping[str, float], rng: Random) -> str:
        """Body measures as a viewer gives them."""
        parts = [self._measure(name, value, rng) for name, value in body.items()]
        return (", " if self.language == "en" else rng.choice(("", " ", "，"))).join(parts)

    def _measure(self, name: str, value: float, rng: Random) -> str:
        return _fill(rng.choice(self.words["measures"][name]), {"v": f"{value:g}"})

    def _filled(self, template: str, slots: Mapping[str, str], rng: Random, style: Style) -> str:
        """Slots filled in; what stands between them made untidy."""
        literals = _SLOT.split(template)  # literal, slot, literal, slot, ..., literal
        own = literals[::2]
        if style.slang:
            own = [_replaced(t, self.words["slang"]) for t in own]
        if style.mixed and self.language == "zh":
            own = [_replaced(t, self.words["mixed"]) for t in own]
        if style.typo:
            longest = max(range(len(own)), key=lambda i: len(own[i]))
            own[longest] = _misspelt(own[longest], rng)
        if style.bare:
            own = [_PUNCTUATION.sub(" ", t) for t in own]
        names = literals[1::2]
        filled = [own[0]]
        for name, text in zip(names, own[1:], strict=True):
            filled += [slots[name], text]
        return "".join(filled)


@lru_cache(maxsize=4)
def viewers_of(split: str, language: str) -> Viewers:
    return Viewers(split, language)


def normalised(text: str) -> str:
    """Lower case, without punctuation and spaces: what two utterances must not share across splits."""
    return re.sub(r"[\W_]+", "", text.casefold())


def spelled(number: int, language: str) -> str:
    """A number below 100 in words: "twenty-one", "二十一"."""
    tens, ones = divmod(number, 10)
    if language == "zh":
        head = "" if not tens else ("十" if tens == 1 else _HAN[tens] + "十")
        return head + (_HAN[ones] if ones or not tens else "")
    if number < 20:
        return _UNITS[number]
    return _TENS[tens] + (f"-{_UNITS[ones]}" if ones else "")


@lru_cache(maxsize=4)
def _file(language: str) -> dict[str, Any]:
    path = VOCABULARY / f"viewers-{language}.yaml"
    return cast("dict[str, Any]", yaml.safe_load(path.read_text(encoding="utf-8")))


def _parts(core: str) -> tuple[tuple[str, ...], ...]:
    """``a [b|c] d`` -> (("a ",), ("b", "c"), (" d",))."""
    split = _CHOICE.split(core)
    return tuple(tuple(p.split("|")) if i % 2 else (p,) for i, p in enumerate(split) if p or i % 2)


def _fill(template: str, slots: Mapping[str, str]) -> str:
    return _SLOT.sub(lambda m: slots[m.group(1)], template)


def _tidy(text: str) -> str:
    return re.sub(r"\s+(?=[,.?!;'])", "", re.sub(r"\s{2,}", " ", text)).strip()


def _replaced(text: str, table: Mapping[str, str]) -> str:
    for word, other in table.items():
        pattern = rf"\b{re.escape(word)}\b" if word.isascii() else re.escape(word)
        text = re.sub(pattern, other, text, count=1)
    return text


def _misspelt(text: str, rng: Random) -> str:
    """One slip of the finger, or of the input method."""
    words = list(_WORD.finditer(text))
    if words:
        word = rng.choice(words)
        at = rng.randrange(word.start() + 1, word.end() - 1)
        # Swap, double or drop a letter; of a short word none is dropped: it would become another one.
        slip = rng.randrange(3 if len(word.group()) > 5 else 2)
        swapped = text[at + 1] + text[at] if slip == 0 else text[at] * 2 if slip == 1 else ""
        return text[:at] + swapped + text[at + (2 if slip == 0 else 1) :]
    known = [w for w in _HOMOPHONES if w in text]
    if not known:
        return text
    wrong = rng.choice(known)
    return text.replace(wrong, _HOMOPHONES[wrong], 1)
