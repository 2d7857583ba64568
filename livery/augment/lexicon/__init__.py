"""The lexicon: words, wordings and forms that operators choose from, each in the train or the held-out split.

Data is in the YAML files beside this module: one for each language, and ``shared.yaml``. A kind maps keys (or nothing)
to ``train`` and ``heldout`` entries. An entry may hold slots, ``[say|tell]``, so that one line is a small grammar. What
is held out are whole entries: words and wordings, never pieces of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from itertools import product
from random import Random
from typing import Any, Literal, cast

import yaml

from livery.errors import InputError

Split = Literal["train", "heldout"]
Language = Literal["en", "zh"]
Table = Mapping[str, Mapping[str, Mapping[str, tuple[str, ...]]]]
"""kind -> key -> split -> entries."""

Patterns = tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]

SPLITS: tuple[Split, ...] = ("train", "heldout")
MOST_EXPANSIONS = 256
"""Expansions of one entry that `Lexicon.strings` lists."""

_SLOT = re.compile(r"\[([^\[\]]*\|[^\[\]]*)\]")


def language_of(tag: str) -> Language:
    """The lexicon's language for a BCP 47 tag: English unless it is Chinese."""
    return "zh" if tag.lower().split("-")[0] == "zh" else "en"


def expand(entry: str, rng: Random) -> str:
    """One reading of an entry's slots."""
    return _SLOT.sub(lambda m: rng.choice(m[1].split("|")), entry) if "[" in entry else entry


def expansions(entry: str) -> Iterator[str]:
    """Every reading of an entry, in order."""
    parts = _SLOT.split(entry)
    choices = [part.split("|") if i % 2 else [part] for i, part in enumerate(parts)]
    for reading in product(*choices):
        yield "".join(reading)


@dataclass(frozen=True)
class Lexicon:
    """One language's entries as one split may see them.

    The train view holds train entries only. The held-out view holds the held-out entries of a key, and the train ones
    only where it has none of its own.
    """

    language: Language
    split: Split
    table: Table
    digest: str
    """Of the data files: a record made with other data must not be rebuilt in silence."""

    def entries(self, kind: str, key: str = "") -> tuple[str, ...]:
        found = self.table.get(kind, {}).get(key, {})
        return found.get(self.split) or (found.get("train", ()) if self.split == "heldout" else ())

    def choose(self, rng: Random, kind: str, key: str = "") -> str:
        """One entry with its slots filled; "" where there is none."""
        entries = self.entries(kind, key)
        return expand(rng.choice(entries), rng) if entries else ""

    def keys(self, kind: str) -> tuple[str, ...]:
        return tuple(self.table.get(kind, ()))

    @cached_property
    def patterns(self) -> Patterns:
        """The sentence patterns (regular expression, replacements) that this view has replacements for."""
        return self._compiled("patterns")

    @cached_property
    def instruction_patterns(self) -> Patterns:
        """As `patterns`, with those that fit an instruction and no description ("Remember: ...")."""
        return (*self.patterns, *self._compiled("instruction_patterns"))

    @cached_property
    def word_patterns(self) -> Patterns:
        """Words inside a sentence and what may stand for them."""
        return self._compiled("word_patterns")

    def _compiled(self, kind: str) -> Patterns:
        made = ((re.compile(p), self.entries(kind, p)) for p in self.keys(kind))
        return tuple((pattern, entries) for pattern, entries in made if entries)

    @property
    def other(self) -> Lexicon:
        """The other language's, in the same split."""
        return lexicon("en" if self.language == "zh" else "zh", self.split)


@lru_cache(maxsize=8)
def lexicon(language: Language, split: Split) -> Lexicon:
    table, digest = _tables()
    return Lexicon(language, split, table[language], digest)


def strings(split: Split) -> Mapping[str, tuple[str, ...]]:
    """Everything of one split that could stand in a variant, both languages: kind -> texts.

    Slots are read out (up to `MOST_EXPANSIONS`). Of sentence patterns it is the replacements' longest literal part.
    """
    found: dict[str, dict[str, None]] = {}
    for table in _tables()[0].values():
        for kind, keys in table.items():
            texts = found.setdefault(kind, {})
            for entries in keys.values():
                for entry in entries.get(split, ()):
                    for i, reading in enumerate(expansions(entry)):
                        if i >= MOST_EXPANSIONS:
                            break
                        texts[_literal(reading)] = None
    return {kind: tuple(texts) for kind, texts in found.items()}


def share_held_out() -> tuple[int, int]:
    """(held-out entries, all entries), counted over every file."""
    counts = dict.fromkeys(SPLITS, 0)
    for name in ("shared", "en", "zh"):
        for keys in _read(name).values():
            for by_split in keys.values():
                for split in SPLITS:
                    counts[split] += len(by_split.get(split, ()))
    return counts["heldout"], sum(counts.values())


_REFERENCE = re.compile(r"\\g<\w+>|\\\d|\{\w*\}|\{\{.*?\}\}|\{%.*?%\}")


def _literal(text: str) -> str:
    return max((part.strip() for part in _REFERENCE.split(text)), key=len)


@lru_cache(maxsize=1)
def _tables() -> tuple[dict[Language, dict[str, dict[str, dict[str, tuple[str, ...]]]]], str]:
    shared, en, zh = _read("shared"), _read("en"), _read("zh")
    digest = hashlib.sha256()
    for name in ("shared", "en", "zh"):
        digest.update(_text(name).encode())
    return {"en": {**shared, **en}, "zh": {**shared, **zh}}, f"sha256:{digest.hexdigest()[:16]}"


def _text(name: str) -> str:
    return (files("livery.augment.lexicon") / f"{name}.yaml").read_text("utf-8")


@lru_cache(maxsize=4)
def _read(name: str) -> dict[str, dict[str, dict[str, tuple[str, ...]]]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    data = cast("dict[str, dict[str, Any]]", yaml.load(_text(name), Loader=loader))
    table: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {}
    for kind, keys in data.items():
        keyed: dict[str, Any] = {"": keys} if set(keys) <= set(SPLITS) else keys
        for key, entries in keyed.items():
            if set(entries) - set(SPLITS):
                message = f"found {', '.join(entries)}; expected train and heldout"
                raise InputError.at(f"{name}.yaml", message, field=f"{kind}.{key}", code="lexicon-split")
            split = {s: tuple(str(e) for e in entries.get(s) or ()) for s in SPLITS}
            table.setdefault(kind, {})[str(key)] = split
    return table
