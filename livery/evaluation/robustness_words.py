"""The words of T3: distractors, notes, extra arguments and injections, from ``robustness.yaml``.

They belong to evaluation alone: no operator and no training set draws from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, Final, cast

import yaml

from livery.augment.lexicon import expand
from livery.simulator.worlds import Language

FILE: Final = Path(__file__).with_name("robustness.yaml")


@lru_cache(maxsize=1)
def _file() -> Mapping[str, Mapping[str, Any]]:
    return cast("dict[str, dict[str, Any]]", yaml.safe_load(FILE.read_text(encoding="utf-8")))


def words(language: Language, kind: str) -> Any:
    """The entries of a kind, as the file has them."""
    return _file()[language][kind]


def lines(language: Language, kind: str) -> list[str]:
    return cast("list[str]", words(language, kind))


def parts(entry: str) -> list[str]:
    """The fields of an entry."""
    return [part.strip() for part in entry.split("//")]


def said(language: Language, kind: str, rng: Random) -> str:
    """One entry with its choices made."""
    return expand(rng.choice(lines(language, kind)), rng)
