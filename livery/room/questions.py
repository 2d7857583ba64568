"""A cheap reading of one chat message: is it for the host, how pressing, and about what.

It costs tens of microseconds, so that a flood can be sorted before any model is asked. It is a sieve, not an
understanding: rules over words, English and Chinese, that would rather pass a doubtful message than lose a
question. What it decides:

- *question*: a question mark, an English question opening, a Chinese question word (吗 什么 多少 怎么
  几 哪 ...), a shopping word (price, size, stock, shipping, returns, ...) or a link reference ("number 3",
  "3号链接").
- *paid*: money came with the text, and it is no question.
- *other*: a greeting, or the host is named.
- *not for the host*: no words at all, a bot command, a bare link, "@somebody else", chatter.

``intent`` and ``reference`` say whether two messages are about the same thing. ``marks`` are the numbers and
letter sizes in the text: two messages that differ in one are never duplicates ("3号多少钱", "4号多少钱").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum

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

_QUESTION_EN = re.compile(
    r"^(?:(?:hi|hey|hello|so|and|but|ok|okay|please|pls|host|sorry)\b[\s,.!]*)*"
    r"(?:how|what(?!\s+an?\b)|whats|when|where|which|who|whos|whose|why|is|are|am|was|were|do|does|did"
    r"|can(?!['’]?t wait)|could|will|would|should|has|have you|any|anyone know|tell (?:me|us)|may i)\b",
    re.IGNORECASE,
)
_QUESTION_ZH = re.compile(
    r"吗|嘛$|什么|甚么|啥|多少|怎么|怎样|咋|几[个块天号折点件时年月斤码种款元]|哪|谁|为何|为什么|多久|多大|多高|多重|多长|多宽|多厚"
    r"|能不能|可不可以|可以不|有没有|有木有|是不是|会不会|要不要|好不好|行不行|适不适合|呢$|求(?:推荐|问|讲|介绍)|请问|问一下"
)

# In order of precedence. English stands between word boundaries.
_INTENT_WORDS: tuple[tuple[str, str, str], ...] = (
    ("person", "real person|human|customer service|representative", "人工|客服"),
    (
        "compare",
        "compare[ds]?|versus|vs|difference|better|which one|recommend",
        "区别|对比|比较|哪个|哪款|推荐",
    ),
    (
        "after_sales",
        "returns?|refunds?|exchange|warranty|guarantee|broken|defective",
        "退|换货|售后|保修|质保|运费险|坏了",
    ),
    (
        "shipping",
        r"ship|ships|shipping|shipped|deliver\w*|arrive[sd]?|postage|tracking",
        "发货|快递|包邮|运费|邮费|到货|物流|几天到|多久到|送货",
    ),
    (
        "stock",
        r"stock|available|availability|sold out|restock\w*|left",
        "有货|库存|没货|补货|现货|断货|缺货|还有吗",
    ),
    (
        "price",
        r"prices?|how much|costs?|cheap\w*|discounts?|coupons?|promo\w*|deals?|percent off|expensive",
        "多少钱|价格|价钱|便宜|优惠|券|打折|几折|满减|贵|怎么卖|几块|到手价|活动",
    ),
    (
        "size",
        r"sizes?|sizing|fits?|waist|too (?:small|big|large)|\d+\s*(?:cm|kg|lbs?)",
        r"尺码|尺寸|码|身高|体重|\d\s*斤",
    ),
    (
        "detail",
        r"materials?|ingredients?|colou?rs?|made of|waterproof|battery|weighs?|weight|dimensions?|wash\w*",
        "材质|成分|颜色|面料|防水|保质期|怎么用|适合|起球|掉色|产地",
    ),
    ("order", "buy|orders?|ordering|checkout|cart|links?", "链接|下单|怎么买|怎么拍|购物车|拍[几了下]"),
    (
        "show",
        "show (?:me|us)|try (?:it )?on|close up|demo",
        "试穿|试一下|看一下|看看|展示|讲一下|讲讲|介绍",
    ),
)
_INTENTS = {n: re.compile(rf"\b(?:{en})\b|{zh}", re.IGNORECASE) for n, en, zh in _INTENT_WORDS}
_GREETING = re.compile(
    r"^(?:(?:hi+|hey+|hello+|good (?:morning|evening|afternoon))\b|[你您]好|大家好|[早晚下][上午]好)"
    r"|主播|\bhost\b"
)

_REFERENCES = (
    re.compile(r"(?<![月\d.])(\d{1,3}|[一二两三四五六七八九十]{1,3})\s*号(?!\s*(?:发|到|前|后|之|晚|早|开))"),
    re.compile(r"(?:链接|宝贝)\s*(\d{1,3})(?![\d.])"),
    re.compile(r"第\s*(\d{1,3}|[一二两三四五六七八九十]{1,3})\s*[个款件]"),
    re.compile(r"(?:\b(?:number|no\.?|item|link|lot|product)|#)\s*#?(\d{1,3})(?![\d%]|\.\d)", re.IGNORECASE),
)
_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"两": 2}


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


def link_references(text: str) -> tuple[str, ...]:
    """Link ids that a text names by number, each once, in numerical order."""
    found = {chinese_number(m.group(1)) for pattern in _REFERENCES for m in pattern.finditer(text)}
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
    references.update(link for name, link in (products or {}).items() if name in text)
    intent = next((name for name, pattern in _INTENTS.items() if pattern.search(lower)), "")
    asks = (
        bool(references or intent)
        or (len(text) > 1 and ("?" in words or bool(_QUESTION_EN.match(words))))
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
