"""Reports of harm: a viewer says that somebody was hurt, taken ill, or that a product became a danger.

Such a message goes to a person, whatever else it asks. Told apart from questions ("will it burn?",
"会过敏吗") and from complaints that a product is meant for ("does it help with itchy skin"): mild signs
count only where the message names the use that came before them. In doubt a person is called. The
wordings are ``lists/harm.yaml``. Not here: complaints about orders (list ``handoff``), and harm told
without any of these words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import yaml

from livery.harness.hooks.builtin.wordlists import LISTS, Phrases, beyond_ascii, straight

_GROUP = re.compile(r"<(?P<name>[a-z_]+)>")


@dataclass(frozen=True, slots=True)
class _Reports:
    pattern: Phrases
    unless_before: tuple[re.Pattern[str], ...]
    """Found right before a match, it is no report: a denial, "any ..."."""
    question: re.Pattern[str]
    """Found in what leads to a match and the match, it is asked, not told."""
    reach: int
    """Characters before a match in which these count."""


@lru_cache(maxsize=1)
def _reports() -> tuple[_Reports, ...]:
    lists = cast("dict[str, Any]", yaml.safe_load((LISTS / "harm.yaml").read_text(encoding="utf-8")))
    english, chinese = lists["en"], lists["zh"]
    return (
        _Reports(
            _phrases(rf"(?<![a-z])(?:{_alternatives(english)})(?![a-z])"),
            (re.compile(english["asked_of"]), re.compile(english["denial"])),
            re.compile(english["question"]),
            reach=48,
        ),
        _Reports(_phrases(_alternatives(chinese)), (), re.compile(chinese["question"]), reach=10),
    )


def _phrases(pattern: str) -> Phrases:
    compiled = re.compile(pattern)
    return Phrases(compiled, None if beyond_ascii(pattern) else compiled)


def _alternatives(language: dict[str, Any]) -> str:
    groups = cast("dict[str, str]", language["groups"])

    def whole(pattern: str) -> str:
        return _GROUP.sub(lambda m: whole(groups[m.group("name")]), pattern)

    return "|".join(whole(pattern) for pattern in cast("list[str]", language["patterns"]))


def harmed(text: str) -> str:
    """The words of ``text`` that report harm to somebody or a danger; "" where there are none."""
    low = straight(text)
    english, chinese = _reports()
    for m in english.pattern.finditer(low):
        left = low[max(0, m.start() - english.reach) : m.start()]
        asked = english.question.search(left + m.group())
        if not asked and not any(p.search(left) for p in english.unless_before):
            return m.group().strip()
    for m in chinese.pattern.finditer(low):
        if not chinese.question.search(low[max(0, m.start() - chinese.reach) : m.start()]):
            return m.group().strip("，,。！! ")
    return ""
