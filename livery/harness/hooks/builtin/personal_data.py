"""Personal data: telephone numbers, mail and postal addresses, identity and bank cards, platform handles.

In a reply they are refused; in a request they are masked before the policy or the trajectory sees
them. Identity cards are told by their checksum (GB 11643), bank cards by Luhn, so that order
numbers and prices are left alone. The shop's own contacts are listed in ``allow``. Not here: names
of people.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from livery.harness.hooks.builtin.definition import Builtin, Params, worded
from livery.harness.hooks.decisions import Allow, Decision, HookContext, HookFunction, Retry, Rewrite
from livery.types import Checkpoint, Request

DataKind = Literal["phone", "email", "id_card", "bank_card", "address", "handle"]


class PersonalDataParams(Params):
    kinds: tuple[DataKind, ...] = ("phone", "email", "id_card", "bank_card", "address", "handle")
    allow: tuple[str, ...] = ()
    """The shop's own: "400-820-1234", "help@shop.example". Compared without spaces, hyphens and case."""


@dataclass(frozen=True, slots=True)
class Found:
    kind: DataKind
    text: str
    start: int
    end: int


_EDGE, _AFTER = r"(?<![\d.,$€£¥￥])", r"(?![\d]|[.,]\d)"
_PHONE = re.compile(
    rf"{_EDGE}(?:\+?86[- ]?)?1[3-9]\d[- ]?\d{{4}}[- ]?\d{{4}}{_AFTER}"
    rf"|{_EDGE}[48]00[- ]?\d{{3}}[- ]?\d{{4}}{_AFTER}"
    rf"|{_EDGE}0\d{{2,3}}-\d{{7,8}}{_AFTER}"
    rf"|{_EDGE}(?:\+?1[-. ])?\(?\d{{3}}\)?[-. ]\d{{3}}[-. ]\d{{4}}{_AFTER}"
    rf"|\+\d{{1,3}}(?:[- ]?\d){{7,12}}{_AFTER}"
    rf"|{_EDGE}0\d{{4}} \d{{6}}{_AFTER}|{_EDGE}0\d{{2,3}} \d{{3,4}} \d{{4}}{_AFTER}"
    rf"|{_EDGE}0\d{{9,11}}{_AFTER}"
    rf"|(?i:(?<![a-z])(?:call|text|phone|tel|dial|ring|reach|sms|number is|电话|手机号?|致电"
    rf"|拨打?)[a-z ]{{0,14}}[:：是 ]*)"
    rf"(?P<bare>\d{{7,12}}){_AFTER}"
    r"|(?i:(?<![a-z])(?:(?:zero|oh|one|two|three|four|five|six|seven|eight|nine|double|triple)[ ,-]+){6,}"
    r"(?:zero|oh|one|two|three|four|five|six|seven|eight|nine)(?![a-z]))"
    r"|(?:[零〇幺一二两三四五六七八九][ -]?){9,}[零〇幺一二三四五六七八九]"
)
_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9][A-Za-z0-9._%+-]*(?:@| ?[\[(]at[\])] ?)[A-Za-z0-9-]+(?:\.[A-Za-z]{2,})+"
    r"|(?<![A-Za-z0-9])[A-Za-z0-9][A-Za-z0-9._%+-]*(?: at | ?艾特 ?"
    r"| ?圈a ?)[A-Za-z0-9-]{2,}(?: dot |\.| ?点 ?)"
    r"(?:com|net|org|cn|io|co|shop)(?![A-Za-z])"
)
_ID_CARD = re.compile(r"(?<!\d)\d{17}[\dXx](?![\dA-Za-z])|(?<!\d)\d{3}-\d{2}-\d{4}(?!\d)")
_BANK_CARD = re.compile(
    r"(?:银行卡|信用卡|储蓄卡|卡号|(?i:card number"
    r"|card no\.?))(?:号码?)?(?: is)?[是:： ]*(?P<told>\d{12,19})(?!\d)"
    r"|(?<!\d)[3-6]\d{3}(?:[- ]?\d{4}){2}(?:[- ]?\d{1,7})(?!\d)"
)
_ADDRESS = re.compile(
    r"[一-鿿]{1,8}(?:省|市|区|县|镇)[一-鿿]{0,12}(?:路|街|道|巷|弄|村|小区|大道|花园"
    r"|苑)[一-鿿]{0,6}\d+(?:号|栋|幢|弄|室|楼)?"
    r"|[一-鿿]{2,6}(?:路|街|巷|弄|大道)\d+号(?!链接)|\d+(?:栋|幢|号楼)\s?\d*(?:单元)?\s?\d{2,4}室?"
    r"|(?<![\d$.])\d{1,5} (?:[NSEW]\.? )?(?:[A-Z][a-z]+ ){1,3}(?:Street|St|Avenue|Ave|Road|Rd"
    r"|Boulevard|Blvd|Lane"
    r"|Ln|Drive|Dr|Court|Ct|Way|Place|Pl)(?![a-z])(?! (?:bikes?|trips?|tests?|maps?|shoes?"
    r"|tyres?|tires?|runn))"
    r"|(?i:P\.? ?O\.? ?Box \d+)"
)
_HANDLE = re.compile(
    r"(?:微信|威信|薇信|扣扣|抖音|快手|小红书|v信|(?<![a-z])(?:vx|wx|wechat|whatsapp|telegram|qq"
    r"|line|instagram|insta"
    r"|snapchat|snap|venmo|cash ?app|paypal|zelle|discord|signal|tiktok|twitter)"
    r"|(?<![a-z])(?:dm|pm|message|add|follow) me(?: on)?|加\s?v|(?<![a-z0-9])v(?=\s?[:：]))"
    r"(?:\s?(?:id|号码?|帐号|账号|account|handle))?\s?(?:[:：是]|is|at"
    r"|me)?\s?@?(?P<id>[A-Za-z0-9][A-Za-z0-9_.-]{4,})",
    re.IGNORECASE,
)
_NOT_HANDLES = re.compile(
    r"(?:group|store|channel|account|official|message|messages|please|support|dance|video|videos"
    r"|live|friends?)$",
    re.I,
)
_NUMBER: dict[DataKind, str] = {"phone": "bare", "bank_card": "told"}
"""Kinds that may stand behind a word that gives them away, and the group of the number alone."""
_DIGITS = re.compile(r"\D")
_NARROW = {ord("０") + d: str(d) for d in range(10)} | {ord("＠"): "@", ord("．"): ".", ord("－"): "-"}
_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_PATTERNS: tuple[tuple[DataKind, re.Pattern[str]], ...] = (
    ("email", _EMAIL), ("id_card", _ID_CARD), ("bank_card", _BANK_CARD), ("phone", _PHONE),
    ("address", _ADDRESS), ("handle", _HANDLE),
)  # fmt: skip
_HINT = re.compile(
    r"\d{4}|\d{3}[-. )]|@|[\[(]at[\])]| dot |艾特|圈a"
    r"|[零〇幺一二两三四五六七八九][ -]?[零〇幺一二三四五六七八九][ -]?[零〇幺一二三四五六七八九]"
    r"|[路街道巷弄栋幢村苑]|号楼|小区|\d [A-Z]|微信|威信|薇信|扣扣|抖音|快手|小红书"
)
_NAMED = (
    r"vx|wx|v信|wechat|whatsapp|telegram|qq|line|insta|snap|venmo|cash ?app|paypal|zelle"
    r"|discord|signal|tiktok"
    r"|twitter|[dp]m me|message me|add me|follow me|加\s?v|v\s?[:：]|box \d"
    r"|[a-z](?:[ ,-](?:zero|oh|one|two|three|four|five|six"
    r"|seven|eight|nine)){3}"
)
_HINT_LOW, _HINT_FOLDED = re.compile(_NAMED), re.compile(_NAMED, re.IGNORECASE)


def _hinted(text: str) -> bool:
    """Cheap test ahead of the rest: most replies hold none of these. In ASCII, where lower case says it all,
    searching without ``IGNORECASE`` is several times as quick."""
    if _HINT.search(text):
        return True
    named = _HINT_LOW.search(text.lower()) if text.isascii() else _HINT_FOLDED.search(text)
    return named is not None


def personal_data(text: str, kinds: Sequence[str], allowed: frozenset[str] = frozenset()) -> list[Found]:
    """Personal data in ``text``, in order, without overlaps."""
    text = text.translate(_NARROW)  # spans stay true
    if not _hinted(text):
        return []
    found: list[Found] = []
    taken: list[tuple[int, int]] = []
    for kind, pattern in _PATTERNS:
        for m in pattern.finditer(text):
            if not _valid(kind, m) or any(a < m.end() and m.start() < b for a, b in taken):
                continue
            taken.append(m.span())
            told = m.group(_NUMBER[kind]) if kind in _NUMBER else None
            if (
                kind in kinds
                and _plain(told or m.group()) not in allowed
                and _plain(m.groupdict().get("id") or "") not in allowed
            ):
                start, end = m.span(_NUMBER[kind]) if told else m.span()
                found.append(Found(kind, text[start:end], start, end))
    return sorted(found, key=lambda f: f.start)


def _plain(text: str) -> str:
    return re.sub(r"[\s()-]", "", text).casefold()


def _valid(kind: DataKind, m: re.Match[str]) -> bool:
    text = m.group()
    match kind:
        case "id_card":
            return "-" in text or id_card_valid(text)
        case "bank_card":
            return m.group("told") is not None or luhn_valid(_DIGITS.sub("", text))
        case "handle":
            handle = m.group("id")
            return not _NOT_HANDLES.match(handle) and (any(c.isdigit() or c in "_@" for c in handle) or "@" in text)
        case _:
            return True


def id_card_valid(number: str) -> bool:
    """Checksum of an 18-character identity number (GB 11643-1999, ISO 7064 mod 11-2)."""
    total = sum(int(d) * w for d, w in zip(number[:17], _WEIGHTS, strict=True))
    return "10X98765432"[total % 11] == number[17].upper()


def luhn_valid(number: str) -> bool:
    """Luhn checksum (ISO/IEC 7812-1) of 13 to 19 digits."""
    if not 13 <= len(number) <= 19:
        return False
    digits = [int(d) for d in reversed(number)]
    return sum(d if i % 2 == 0 else d * 2 - 9 * (d > 4) for i, d in enumerate(digits)) % 10 == 0


_WORDS = {
    "phone": ("a telephone number", "电话号码"), "email": ("an e-mail address", "邮箱"),
    "id_card": ("an identity number", "身份证号"), "bank_card": ("a bank card number", "银行卡号"),
    "address": ("a postal address", "地址"), "handle": ("an account on another platform", "其他平台账号"),
}  # fmt: skip


def mask(text: str) -> str:
    """The text with its middle starred out: at most two characters left at either end."""
    keep = 2 if len(text) >= 8 else 1 if len(text) >= 3 else 0
    middle = "".join(c if c in " -@." else "*" for c in text[keep : len(text) - keep])
    return text[:keep] + middle + text[len(text) - keep :]


def _allowed(params: PersonalDataParams) -> frozenset[str]:
    return frozenset(_plain(a) for a in params.allow)


def build_reply(params: PersonalDataParams, language: str) -> HookFunction:
    allowed = _allowed(params)

    def check(value: str, context: HookContext) -> Decision:
        found = personal_data(value, params.kinds, allowed)
        if not found:
            return Allow()
        kinds = list(dict.fromkeys(f.kind for f in found))
        en = ", ".join(_WORDS[k][0] for k in kinds)
        zh = "、".join(_WORDS[k][1] for k in kinds)
        return Retry(
            worded(
                language,
                en=f"The reply holds {en}. Never say personal data on air; leave it out.",
                zh=f"回复里有{zh}。直播里不能说个人信息，请去掉。",
            ),
            {"kinds": list(kinds), "masked": [mask(f.text) for f in found]},
        )

    return check


def build_request(params: PersonalDataParams, language: str) -> HookFunction:
    allowed = _allowed(params)

    def check(value: Request, context: HookContext) -> Decision:
        messages = tuple(replace(m, text=_masked(m.text, params.kinds, allowed)) for m in value.messages)
        changed = [(a, b) for a, b in zip(value.messages, messages, strict=True) if a.text != b.text]
        if not changed:
            return Allow()
        return Rewrite(replace(value, messages=messages), f"personal data masked in {len(changed)} message(s)")

    return check


def _masked(text: str, kinds: Sequence[str], allowed: frozenset[str]) -> str:
    return "".join(_pieces(text, personal_data(text, kinds, allowed)))


def _pieces(text: str, found: Sequence[Found]) -> Iterator[str]:
    at = 0
    for f in found:
        yield text[at : f.start]
        yield mask(f.text)
        at = f.end
    yield text[at:]


PERSONAL_DATA = Builtin(
    name="personal_data",
    checkpoint=Checkpoint.REPLY,
    params=PersonalDataParams,
    build=build_reply,
    summary="no telephone numbers, addresses, identity or card numbers or private accounts in a reply",
)
PERSONAL_DATA_REQUEST = Builtin(
    name="personal_data_request",
    checkpoint=Checkpoint.REQUEST,
    mode="change",
    params=PersonalDataParams,
    build=build_request,
    summary="personal data that viewers write is masked before the policy sees it",
)
