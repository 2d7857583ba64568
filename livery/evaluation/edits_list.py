"""All edits of the set, read from ``edits.yaml``: the words of the kinds in `livery.evaluation.edits_kinds`."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

import yaml

from livery.evaluation.edits_gold import asks_for
from livery.evaluation.edits_kinds import (
    BannedWord,
    CheckFirst,
    CouponRule,
    Disclosure,
    HandOff,
    HarnessEdit,
    Limit,
    SignOff,
)
from livery.simulator.worlds import Language

WORDS: Final = Path(__file__).with_name("edits.yaml")
KINDS: Final = tuple(k.kind for k in (Disclosure, Limit, BannedWord, SignOff, CouponRule, CheckFirst, HandOff))


@lru_cache(maxsize=4)
def edits_of(language: Language) -> dict[str, tuple[HarnessEdit, ...]]:
    """All edits of a language by kind, in the order of `KINDS`."""
    words = cast("dict[str, dict[str, Any]]", yaml.safe_load(WORDS.read_text(encoding="utf-8")))[language]
    read = {
        Disclosure.kind: _disclosures, Limit.kind: _limits, BannedWord.kind: _banned, SignOff.kind: _sign_offs,
        CouponRule.kind: _coupon_rules, CheckFirst.kind: _checks, HandOff.kind: _hand_offs,
    }  # fmt: skip
    return {kind: tuple(read[kind](words[kind], language)) for kind in KINDS}


def _disclosures(data: dict[str, Any], language: Language) -> list[HarnessEdit]:
    return [
        Disclosure(label=e["name"], language=language, rule=data["rule"].format(words=e["words"]), words=e["words"],
                   intents=tuple(e["intents"]))
        for e in data["edits"]
    ]  # fmt: skip


def _limits(data: dict[str, Any], language: Language) -> list[HarnessEdit]:
    intents = tuple(data["intents"])
    chars = [
        Limit(label=f"chars-{n}", language=language, rule=data["chars_rule"].format(n=n), intents=intents, chars=n)
        for n in data["chars"]
    ]
    words = [
        Limit(label=f"words-{n}", language=language, rule=data["words_rule"].format(n=n), intents=intents, words=n)
        for n in data["words"]
    ]
    return [*chars, *words]


def _banned(data: dict[str, Any], language: Language) -> list[HarnessEdit]:
    return [
        BannedWord(
            label=e["name"],
            language=language,
            rule=data["rule"].format(banned=e["shown"], instead=e["instead"]),
            message=data["message"].format(banned=e["shown"], instead=e["instead"]),
            intents=tuple(e["intents"]),
            banned=tuple(e["banned"]),
            oracle=tuple(e["oracle"].items()),
        )
        for e in data["edits"]
    ]


def _sign_offs(data: dict[str, Any], language: Language) -> list[HarnessEdit]:
    return [
        SignOff(label=f"{i}", language=language, rule=data["rule"].format(words=w), intents=tuple(data["intents"]),
                words=w)
        for i, w in enumerate(data["words"], 1)
    ]  # fmt: skip


def _coupon_rules(data: dict[str, Any], language: Language) -> list[HarnessEdit]:
    return [
        CouponRule(label=e["name"], language=language, rule=e["rule"], intents=tuple(e["intents"]),
                   oracle=e.get("oracle", ""))
        for e in data["edits"]
    ]  # fmt: skip


def _checks(data: dict[str, Any], language: Language) -> list[HarnessEdit]:
    return [
        CheckFirst(
            label=e["name"],
            language=language,
            rule=data["rule"].replace("{link}", data["link"] if e.get("link") else ""),
            intents=tuple(e["intents"]),
            operation=e["operation"],
            of_link=bool(e.get("link")),
        )
        for e in data["edits"]
    ]


def _hand_offs(data: dict[str, Any], language: Language) -> list[HarnessEdit]:
    return [
        HandOff(label=e["name"], language=language, rule=e["rule"], intents=tuple(e["intents"]), only=e.get("only", ""))
        for e in data["edits"]
    ]


def questions_of(edit: HarnessEdit) -> dict[str, float]:
    """Kinds of question in which an edit can hold, with their weights."""
    return asks_for(edit.intents, edit.only)
