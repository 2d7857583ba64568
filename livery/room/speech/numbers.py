"""Numbers as words, English (American, without "and") and Mandarin: what every reading rule is built on.

Arguments are digit strings as written, so that "1.50" and "007" can be read as they stand. Not a general
speller: up to 10^15 in English and 10^16 in Chinese, and longer numbers are read digit by digit.
"""

from __future__ import annotations

_ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen"),
)
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES = ("", " thousand", " million", " billion", " trillion")
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}

_HAN = "零一二三四五六七八九"
_HAN_PHONE = "零幺二三四五六七八九"
_HAN_PLACES = ("", "十", "百", "千")
_HAN_SCALES = ("", "万", "亿", "万亿")


# ------------------------------------------------------------------------------------ English


def english_integer(value: int) -> str:
    """``1299`` is "one thousand two hundred ninety-nine"."""
    if value < 0:
        return "minus " + english_integer(-value)
    if value >= 10**15:
        return english_digits(str(value))
    if value < 1000:
        return _english_hundreds(value)
    parts: list[str] = []
    for power, scale in reversed(list(enumerate(_SCALES))):
        group = value // 1000**power % 1000
        if group:
            parts.append(_english_hundreds(group) + scale)
    return " ".join(parts)


def _english_hundreds(value: int) -> str:
    if value < 20:
        return _ONES[value]
    if value < 100:
        tens, ones = divmod(value, 10)
        return _TENS[tens] + (f"-{_ONES[ones]}" if ones else "")
    hundreds, rest = divmod(value, 100)
    return f"{_ONES[hundreds]} hundred" + (f" {_english_hundreds(rest)}" if rest else "")


def english_number(text: str) -> str:
    """Digits with an optional sign, thousands commas and decimals: "1,299.5", "-5", "0.75"."""
    sign = "minus " if text.startswith("-") else ""
    whole, _, decimals = text.lstrip("+-").replace(",", "").partition(".")
    words = english_integer(int(whole or "0"))
    if decimals:
        words += " point " + english_digits(decimals)
    return sign + words


def english_digits(digits: str) -> str:
    """Digit by digit, other characters left out."""
    return " ".join(_ONES[int(d)] for d in digits if d.isdigit())


def english_ordinal(value: int) -> str:
    """``21`` is "twenty-first"."""
    words = english_integer(value)
    cut = max(words.rfind(" "), words.rfind("-")) + 1
    last = words[cut:]
    if last in _ORDINALS:
        return words[:cut] + _ORDINALS[last]
    return words[:-1] + "ieth" if words.endswith("y") else words + "th"


def english_year(value: int) -> str:
    """``2026`` is "twenty twenty-six"; 2000 to 2009 and round hundreds as people say them."""
    century, rest = divmod(value, 100)
    if 2000 <= value <= 2009 or not 1100 <= value <= 2099:
        return english_integer(value)
    if rest == 0:
        return f"{english_integer(century)} hundred"
    return f"{english_integer(century)} {'oh ' if rest < 10 else ''}{english_integer(rest)}"


# ------------------------------------------------------------------------------------ Mandarin


def chinese_integer(value: int, *, liang: bool = False) -> str:
    """``1200`` is 一千二百, ``15`` 十五. With ``liang`` (before a measure word) 2 is 两, 200 两百."""
    if value < 0:
        return "负" + chinese_integer(-value, liang=liang)
    if value >= 10**16:
        return chinese_digits(str(value))
    if value == 2 and liang:
        return "两"
    if value == 0:
        return "零"
    groups: list[int] = []
    rest = value
    while rest:
        rest, group = divmod(rest, 10_000)
        groups.append(group)
    out = ""
    for power in range(len(groups) - 1, -1, -1):
        group = groups[power]
        if not group:
            continue
        if out and group < 1000:
            out += "零"
        words = _chinese_group(group, first=not out, liang=liang)
        if words == "二" and power:
            words = "两"
        out += words + _HAN_SCALES[power]
    return out


def _chinese_group(value: int, *, first: bool, liang: bool) -> str:
    """Below 10,000. A leading 一十 is 十; 二千 is 两千, and 二百 两百 where people count."""
    out = ""
    gap = False
    for place in range(3, -1, -1):
        digit = value // 10**place % 10
        if not digit:
            gap = bool(out)
            continue
        if gap:
            out += "零"
            gap = False
        if place == 1 and digit == 1 and not out and first:
            out += "十"
        else:
            two = "两" if place == 3 or (place == 2 and liang) else "二"
            out += (two if digit == 2 else _HAN[digit]) + _HAN_PLACES[place]
    return out


def chinese_number(text: str, *, liang: bool = False) -> str:
    """Digits with an optional sign, thousands commas and decimals."""
    sign = "负" if text.startswith("-") else ""
    whole, _, decimals = text.lstrip("+-").replace(",", "").partition(".")
    value = int(whole or "0")
    words = chinese_integer(value, liang=liang and not (decimals and value == 2))
    if decimals:
        words += "点" + chinese_digits(decimals)
    return sign + words


def chinese_digits(digits: str, *, phone: bool = False) -> str:
    """Digit by digit; in telephone and order numbers 1 is 幺."""
    table = _HAN_PHONE if phone else _HAN
    return "".join(table[int(d)] for d in digits if d.isdigit())
