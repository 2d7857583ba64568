"""Cardinal numbers written in words, English and Chinese: the arithmetic beneath `livery.harness.quantities`.

English: "thirty-nine ninety-nine" (two groups, as a price is said), "twelve hundred", "a hundred and five",
"one and a half", "two point five". Chinese: 三百零五, the spoken shorthand 一百二 (120), 两千三, 一万二,
digit strings 二零二六, 半, 三点五. Not here: units, currencies, ordinals: whatever needs the words around.
All functions take text already lower-cased.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ONES = {
    "zero": 0,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "thirteen": 13,
    "fourteen": 14,
    "fifteen": 15,
    "sixteen": 16,
    "seventeen": 17,
    "eighteen": 18,
    "nineteen": 19,
}
TENS = {
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
}
SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
ENGLISH_STARTS = frozenset(ONES) | frozenset(TENS) | {"half", "hundred", "thousand", "dozen"}

_WORD = "(?:" + "|".join(sorted([*ONES, *TENS, *SCALES, "dozen"], key=len, reverse=True)) + ")"
_ENGLISH = re.compile(
    rf"(?P<words>{_WORD}(?![a-z])(?:(?:[ -]| and (?={_WORD}\b)){_WORD}(?![a-z])){{0,20}})"
    rf"(?P<point> point(?: (?:{'|'.join(ONES)})(?![a-z])){{1,8}})?(?P<half> and a (?:half|quarter)(?![a-z]))?"
)
_PIECE = re.compile(r"[a-z]+")
_HALF = re.compile(r"half(?P<dozen> a dozen)?(?: an?(?= [a-z]))?")

CHINESE_DIGITS = {
    "幺": 1,
    "零": 0,
    "〇": 0,
    "一": 1,
    "二": 2,
    "两": 2,
    "三": 3,
    "四": 4,
    "五": 5,
    "六": 6,
    "七": 7,
    "八": 8,
    "九": 9,
}
CHINESE_UNITS = {"十": 10, "廿": 20, "卅": 30, "百": 100, "千": 1_000}
CHINESE_SCALES = {"万": 10_000, "亿": 100_000_000}
CHINESE_CHARS = "零〇幺一二两三四五六七八九十廿卅百千万亿半"
_CHINESE = re.compile(
    r"半|[零〇幺一二两三四五六七八九十廿卅百千万亿]{1,24}(?:点[零〇一二三四五六七八九]{1,6}(?![十百分]))?"
)


@dataclass(frozen=True, slots=True)
class Numeral:
    value: float | int
    end: int
    """Index behind the last character read."""
    second: int = -1
    """English price style: the second group of "thirty-nine ninety-nine", 10-99; else -1."""
    spread: tuple[int, int] | None = None
    """Chinese approximate pair: 两三 (天) is (2, 3)."""
    scaled: bool = False
    """Chinese: holds 十百千万亿 or decimals, so that it is a number even where no unit follows."""


def tidy(value: float | int) -> float | int:
    """An int where ``value`` is whole, else a float without binary dust."""
    if isinstance(value, int):
        return value
    rounded = round(value, 6)
    return int(rounded) if rounded.is_integer() else rounded


def read_english(text: str, start: int) -> Numeral | None:
    """The number in words that begins at ``start`` (lower-case text), longest reading; None if none does."""
    m = _ENGLISH.match(text, start)
    if m is None:
        half = _HALF.match(text, start)
        if half is None:
            return None
        return Numeral(6 if half.group("dozen") else 0.5, half.end())
    groups: list[list[int]] = [[0, 0]]
    """[closed, open] of each group: "two thousand five" is [2000, 5]."""
    last = ""
    end = m.end("words")
    consumed = end
    for piece in _PIECE.finditer(text, start, end):
        word = piece.group()
        if word == "and":
            if last not in ("scale",):
                consumed = piece.start() - 1
                break
            continue
        closed, opened = groups[-1]
        if word in ONES:
            value = ONES[word]
            fits = last in ("", "scale") or (last == "tens" and 0 < value < 10)
            kind = "ones"
        elif word in TENS:
            value, kind = TENS[word], "tens"
            fits = last in ("", "scale")
        else:
            value = 12 if word == "dozen" else SCALES[word]
            opened = opened or 1
            groups[-1] = [closed, opened * value] if value <= 100 else [closed + opened * value, 0]
            if value > 100 and closed and opened == 1 and last == "scale":
                groups[-1] = [closed * value, 0]
            last = "scale"
            continue
        if fits:
            groups[-1][1] = opened + value
        elif len(groups) == 1:
            groups.append([0, value])
        else:
            consumed = piece.start() - 1
            break
        last = kind
    values = [closed + opened for closed, opened in groups]
    if consumed < end:
        return Numeral(values[0], consumed, values[1] if len(values) > 1 and values[1] >= 10 else -1)
    total: float | int = values[0]
    if len(values) > 1:
        if values[0] == 20 and 20 <= values[1] < 100:
            return Numeral(2000 + values[1], end)
        if values[1] >= 10:
            return Numeral(total, end, values[1])
        return Numeral(total, start + _first_group_length(text, start, end))
    if m.group("point"):
        digits = "".join(str(ONES[w]) for w in _PIECE.findall(m.group("point"))[1:])
        total = tidy(float(f"{total}.{digits}"))
        end = m.end("point")
    if m.group("half"):
        total = tidy(total + (0.25 if m.group("half").endswith("quarter") else 0.5))
        end = m.end("half")
    return Numeral(total, end)


def _first_group_length(text: str, start: int, end: int) -> int:
    """Length of the words before a second group that is no price ("five six": two numbers)."""
    last = ""
    for piece in _PIECE.finditer(text, start, end):
        word = piece.group()
        small = word in ONES
        if last and last != "scale" and not (last == "tens" and small and ONES[word] < 10):
            return piece.start() - 1 - start
        last = "ones" if small else "tens" if word in TENS else "scale"
    return end - start


def read_chinese(text: str, start: int) -> Numeral | None:
    """The Chinese numeral that begins at ``start``, longest reading. A closing 两 is left: a weight."""
    m = _CHINESE.match(text, start)
    if m is None:
        return None
    run = m.group()
    if run == "半":
        return Numeral(0.5, m.end())
    whole, _, decimals = run.partition("点")
    end = m.end()
    if not decimals and len(whole) > 1 and whole[-1] == "两":
        whole, end = whole[:-1], end - 1
    value = chinese_value(whole)
    if decimals:
        digits = "".join(str(CHINESE_DIGITS[c]) for c in decimals)
        return Numeral(tidy(float(f"{value}.{digits}")), end, scaled=True)
    scaled = any(c in CHINESE_UNITS or c in CHINESE_SCALES for c in whole)
    if not scaled and len(whole) == 2:
        first, second = (CHINESE_DIGITS[c] for c in whole)
        if first and second > first:
            return Numeral(value, end, spread=(first, second))
    return Numeral(value, end, scaled=scaled)


def chinese_value(run: str) -> int:
    """Value of a run of Chinese numeral characters; without 十百千万亿 it is read digit by digit."""
    if not any(c in CHINESE_UNITS or c in CHINESE_SCALES for c in run):
        return int("".join(str(CHINESE_DIGITS[c]) for c in run))
    total = section = digit = 0
    unit = 1
    zero = False
    for c in run:
        if c in CHINESE_DIGITS:
            digit = CHINESE_DIGITS[c]
            zero = zero or digit == 0
        elif c in CHINESE_UNITS:
            unit, zero = CHINESE_UNITS[c], False
            section += (digit or 1) * unit
            digit = 0
        else:
            unit, zero = CHINESE_SCALES[c], False
            below = section + digit
            total = total + below * unit if total >= unit else (total + below or 1) * unit
            section = digit = 0
    if digit and not zero and unit >= 100:
        digit *= unit // 10  # 一百二 is 120, 一万二 is 12 000
    return total + section + digit
