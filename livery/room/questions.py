"""A cheap reading of one chat message: is it for the host, how pressing, and about what.

It costs tens of microseconds, so that a flood can be sorted before any model is asked. It is a sieve, not an
understanding: rules over words, English and Chinese, that would rather pass a doubtful message than lose a
question. What it decides:

- *question*: a question mark, an English question opening at the start of a clause, a wish or request ("i
  want", "xl please"), a Chinese question word (吗 什么 多少 怎么 几 哪 ...) or A-not-A form (发不发), a
  shopping word (price, size, stock, shipping, returns, ...) or a link reference ("number 3", "3号链接"). The
  words are data: ``questions.yaml`` beside this file.
- *paid*: money came with the text, and it is no question.
- *other*: a greeting, or the host is named.
- *not for the host*: no words at all, a bot command, a bare link, "@somebody else", chatter.

``intent`` and ``reference`` say whether two messages are about the same thing. ``marks`` are the numbers and
letter sizes in the text: two messages that differ in one are never duplicates ("3号多少钱", "4号多少钱").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import yaml

from livery.types import ChatMessage, MessageKind


class Priority(IntEnum):
    """Lower is served first."""

    QUESTION = 0
    PAID = 1
    OTHER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    text: str
    """Normalised, for comparison only."""
    priority: Priority = Priority.OTHER
    for_host: bool = True
    reason: str = ""
    """Why it is not for the host."""
    intent: str = ""
    """"price", "stock", ..., "greeting", or empty where no such word was found."""
    reference: str = ""
    """Link ids it names, sorted and joined by commas; empty: the item on screen, if any."""
    marks: frozenset[str] = frozenset()


_MARK = re.compile("[?؟¿]")
_EMOTE = re.compile(r":[a-z0-9][\w-]*:|\[[^\[\]\s]{1,12}\]", re.IGNORECASE)
_URL = re.compile(r"https?://\S+|www\.\S+", re.IGNORECASE)
_MENTION = re.compile(r"^\s*[@＠]\s*([^\s,，:：@＠]+)")
_HAN = r"\u3400-\u9fff"
_NOT_WORD = re.compile(rf"[^\w{_HAN}]+|_+")
_RUN = re.compile(r"(\D)\1{2,}")
_HAN_GAP = re.compile(rf"(?<=[{_HAN}])\s+|\s+(?=[{_HAN}])")
_MARKS = re.compile(
    r"\dx+l(?![a-z])|\d+(?:\.\d+)?|(?<![a-z'’])(?:x{0,4}[sl]|m)(?![a-z])|[一二两三四五六七八九十百]+(?=[号码件个款折斤块元米天])"
)

_WORDS: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def _english(pieces: Iterable[str]) -> str:
    return r"(?<!\w)(?:" + "|".join(pieces) + r")(?!\w)"


_FILLER = r"(?:(?:hi|hey|hello|so|and|but|ok|okay|please|pls|host|sorry|also)\b[\s,.!]*)*"
_QUESTION_EN = re.compile(
    rf"(?:^|[.!?;,:]\s+|\b(?:so|and|but)\s+){_FILLER}{_english(_WORDS['opens_en'])}|{_english(_WORDS['asks_en'])}",
    re.IGNORECASE,
)
_QUESTION_ZH = re.compile("|".join(_WORDS["asks_zh"]), re.IGNORECASE)
_INTENTS = {
    name: re.compile(f"{_english(words['en'])}|{'|'.join(words['zh'])}", re.IGNORECASE)
    for name, words in _WORDS["intents"].items()
}
_GREETING = re.compile(
    r"^(?:(?:hi+|hey+|hello+|good (?:morning|evening|afternoon))\b|[你您]好|大家好|[早晚下][上午]好)"
    r"|主播|\bhost\b"
)

_COUNTS = (
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
_REFERENCES = (
    re.compile(r"(?<![月\d.])(\d{1,3}|[一二两三四五六七八九十]{1,3})\s*号(?!\s*(?:发|到|前|后|之|晚|早|开))"),
    re.compile(r"(?:链接|宝贝)\s*(\d{1,3})(?![\d.])"),
    re.compile(r"第\s*(\d{1,3}|[一二两三四五六七八九十]{1,3})\s*[个款件]"),
    re.compile(r"(?:\b(?:number|no\.?|item|link|lot|product)|#)\s*#?(\d{1,3})(?![\d%]|\.\d)", re.IGNORECASE),
    re.compile(rf"\b(?:number|item|link|lot|product)\s+({'|'.join(_COUNTS)})\b", re.IGNORECASE),
)
_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"两": 2}


def _names(text: str, product: str) -> bool:
    """Whether a normalised text names a product. A name in Latin letters must stand as a word of its own, its
    plural too: "lateee" is no tee."""
    at = text.find(product)
    while at >= 0:
        end = at + len(product)
        before = text[at - 1 : at] if product[0].isascii() else ""
        after = text[end : end + 1] if product[-1].isascii() else ""
        if after == "s":
            after = text[end + 1 : end + 2]
        if not any(c.isascii() and c.isalnum() for c in (before, after) if c):
            return True
        at = text.find(product, at + 1)
    return False


def normalise(text: str) -> str:
    """For comparison: NFKC, lower case, no emotes, links or punctuation, long runs cut to two."""
    text = unicodedata.normalize("NFKC", text).casefold()
    text = _URL.sub(" ", _EMOTE.sub(" ", text))
    text = _RUN.sub(r"\1\1", _NOT_WORD.sub(" ", text).strip())
    return _HAN_GAP.sub("", text)


def chinese_number(text: str) -> int:
    """三 -> 3, 十二 -> 12, 二十 -> 20; -1 where it is no number under a hundred."""
    if text.isdecimal():
        return int(text)
    tens, ten, ones = text.rpartition("十")
    if any(len(part) > 1 or (part and part not in _DIGITS) for part in (tens, ones)):
        return -1
    return (10 * (_DIGITS[tens] if tens else 1) if ten else 0) + (_DIGITS[ones] if ones else 0)


def _number(text: str) -> int:
    """As `chinese_number`, and English words up to twenty."""
    word = text.casefold()
    return _COUNTS.index(word) + 1 if word in _COUNTS else chinese_number(text)


def link_references(text: str) -> tuple[str, ...]:
    """Link ids that a text names by number, each once, in numerical order."""
    found = {_number(m.group(1)) for pattern in _REFERENCES for m in pattern.finditer(text)}
    return tuple(str(n) for n in sorted(found) if n > 0)


def read_message(
    message: ChatMessage, *, hosts: Collection[str] = (), products: Mapping[str, str] | None = None
) -> Reading:
    """Reads one message.

    Args:
        hosts: names the host goes by, lower case.
        products: normalised product name -> link id.
    """
    raw = unicodedata.normalize("NFKC", message.text).strip()
    text = normalise(raw)
    paid = message.kind is MessageKind.PAID
    if not text:
        return Reading(text=text, priority=Priority.PAID, for_host=False, reason="no words")
    mention = _MENTION.match(raw)
    named = any(host and host in raw.casefold() for host in hosts)
    if mention and not named and not mention.group(1).casefold().startswith(("host", "主播")):
        return Reading(text=text, for_host=False, reason="addressed to another viewer")
    if raw.startswith("!") and len(raw) > 1 and raw[1].isalpha():
        return Reading(text=text, for_host=False, reason="a bot command")

    words = _EMOTE.sub(" ", _URL.sub(" ", raw)).strip()
    lower = words.casefold()
    references = set(link_references(lower))
    references.update(link for name, link in (products or {}).items() if _names(text, name))
    intent = next((name for name, pattern in _INTENTS.items() if pattern.search(lower)), "")
    asks = (
        bool(references or intent)
        or (len(text) > 1 and (bool(_MARK.search(words)) or bool(_QUESTION_EN.search(words))))
        or bool(_QUESTION_ZH.search(lower))
    )
    priority = Priority.QUESTION if asks else Priority.PAID if paid else Priority.OTHER
    greets = bool(_GREETING.search(lower))
    for_host = asks or paid or named or greets
    return Reading(
        text=text,
        priority=priority,
        for_host=for_host,
        reason="" if for_host else "not addressed to the host",
        intent=intent or ("greeting" if greets and not asks else ""),
        reference=",".join(sorted(references)),
        marks=frozenset(_MARKS.findall(lower)),
    )
