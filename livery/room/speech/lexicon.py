"""How a host says what is written in a shop: prices, sizes, discounts, dates and names, aloud.

`read_aloud` rewrites text for a voice: our commerce rules first (`english.py`, `chinese.py`, with the words
of `lexicon.yaml`), then wetext for the numbers that are left. It changes how things are said and never
what is said; subtitles keep the written text. Rules follow the host's language, and names of another
script inside a sentence stay as they are. No model is downloaded: wetext's grammars are in its wheel.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal, Protocol, cast

import yaml

from livery.room.speech.chinese import chinese_rules
from livery.room.speech.english import english_rules
from livery.room.speech.numbers import chinese_digits, english_digits

Language = Literal["en", "zh"]

_TYPOGRAPHY = {
    "￥": "¥",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
    "\u00a0": " ",
    "\u2009": " ",
    "\u202f": " ",
    "−": "-",
    "\u2011": "-",
    "⁺": "+",
}
_FULL_WIDTH = {
    code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F) if chr(code).isalnum() or chr(code) in "％＃＆／＋－＄＊＝"
}
"""Letters, digits and symbols; sentence punctuation stays what it is."""
_MARKUP = re.compile(r"[*_`~]{2,}|(?<!\S)[*#>]+\s|`")
_NUMBER_LEFT = re.compile(r"""[^\s"',，.。!！?？;；:：、()（）]*\d(?:[.,:]?[^\s"',，.。!！?？;；:：、()（）])*""")
"""A number and what it touches, to the next space, quote or punctuation mark that ends a phrase."""
_DIGITS = re.compile(r"\d+")
_SPACES = re.compile(r"[ \t]{2,}")


class _Normalizer(Protocol):
    def normalize(self, text: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Lexicon:
    """One language's words and rules, compiled."""

    language: Language
    words: re.Pattern[str]
    readings: Mapping[str, str]
    rules: Sequence[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]]
    acronyms: re.Pattern[str]


def read_aloud(text: str, language: str) -> str:
    """``text`` as a host speaking ``language`` says it, for a voice to synthesise.

    Args:
        text: a reply as it is shown.
        language: BCP 47 tag. Chinese ("zh", "zh-CN", "cmn") and English are rewritten; text in another
            language comes back as it is, without markup and pictures.
    """
    cleaned = _clean(text)
    spoken = reading_language(language)
    if spoken is None:
        return cleaned
    lexicon = _lexicon(spoken)
    said = lexicon.words.sub(lambda m: lexicon.readings[m[0].lower()], cleaned)
    for pattern, say in lexicon.rules:
        said = pattern.sub(say, said)
    said = lexicon.acronyms.sub(lambda m: " ".join(m[0]), said)
    if _DIGITS.search(said):
        said = _rest(said, spoken)
    return _SPACES.sub(" ", said).strip()


def reading_language(language: str) -> Language | None:
    """Which rules a BCP 47 tag is read by; None where there are none."""
    primary = language.lower().replace("_", "-").partition("-")[0]
    if primary in ("zh", "cmn"):
        return "zh"
    return "en" if primary == "en" else None


def _clean(text: str) -> str:
    """Half-width letters and digits, plain quotes, no markup, no pictographs."""
    text = text.translate(_FULL_WIDTH)
    for found, plain in _TYPOGRAPHY.items():
        text = text.replace(found, plain)
    text = _MARKUP.sub("", text)
    kept = "".join(c for c in text if not _is_picture(c))
    return _SPACES.sub(" ", kept).strip()


def _is_picture(character: str) -> bool:
    if character in "°℃㎡№":
        return False
    return unicodedata.category(character) in ("So", "Sk", "Cs", "Co", "Cn") or character in "\ufe0f\u200d\u20e3"


def _rest(text: str, language: Language) -> str:
    """What the rules left in digits, by wetext; a number it cannot read, digit by digit."""
    # Its grammars escape quotes, and take their time for long texts: they get the numbers alone.
    said = _NUMBER_LEFT.sub(lambda m: _wetext(language, m[0]), text)
    by_digit = chinese_digits if language == "zh" else english_digits
    return _DIGITS.sub(lambda m: by_digit(m[0]), said)


def _wetext(language: Language, text: str) -> str:
    try:
        return _normalizer(language).normalize(text)
    except AssertionError:
        # wetext asserts, rather than raises, where its grammar has no path for the text.
        return text


@cache
def _normalizer(language: Language) -> _Normalizer:
    # Imported on first use: it loads native code, and a room without a voice needs none of it.
    import wetext  # pyright: ignore[reportMissingTypeStubs]

    return cast(_Normalizer, wetext.Normalizer(lang=language, operator="tn"))


@cache
def _lexicon(language: Language) -> Lexicon:
    source = resources.files(__package__ or "").joinpath("lexicon.yaml").read_text(encoding="utf-8")
    data = cast(dict[str, Any], yaml.safe_load(source))
    readings = {str(word).lower(): str(said) for word, said in data["words"][language].items()}
    units = cast(dict[str, Sequence[str]], data["units"])
    written_units = "|".join(sorted(map(re.escape, units), key=len, reverse=True))
    ordered = sorted(readings, key=len, reverse=True)
    alternatives = "|".join(_as_word(word, written_units) for word in ordered)
    acronyms = "|".join(sorted(data["acronyms"], key=len, reverse=True))
    return Lexicon(
        language=language,
        words=re.compile(alternatives, re.IGNORECASE),
        readings=readings,
        rules=english_rules(units) if language == "en" else chinese_rules(units),
        acronyms=re.compile(rf"(?<![A-Za-z])(?:{acronyms})(?![A-Za-z])"),
    )


def _as_word(word: str, units: str) -> str:
    """A pattern for the whole word: not inside a longer number, price, amount or name."""
    before = r"(?<![\w.,$€£¥-])" if word[0].isascii() else ""
    if word[0].isascii() and any("\u4e00" <= c <= "\u9fff" for c in word):
        before = r"(?<![\d.])"
    if word.replace(".", "").replace("/", "").isdigit():
        counted = rf"\s?(?:[%元块件个份克斤米度人单岁号折万]|(?:{units})(?![A-Za-z]))"
        return rf"(?<![A-Za-z\d.,$€£¥#-]){re.escape(word)}(?![\d.,]*\d|[A-Za-z]|-\d|{counted})"
    return before + re.escape(word) + (r"(?![A-Za-z\d])" if word[-1].isalnum() else "")
