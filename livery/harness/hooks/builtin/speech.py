"""The form of a reply that will be spoken: length, no markup, no links, the host's language, fixed openings.

Two hooks: `speech_format` only checks, `speech_cleanup` (mode change) first strips harmless markup
so that a good sentence is not sent back for its asterisks. How numbers are pronounced is the room's
affair.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pydantic import Field

from livery.harness.hooks.builtin.definition import Builtin, Params, worded
from livery.harness.hooks.decisions import Allow, Decision, HookContext, HookFunction, Retry, Rewrite
from livery.types import Checkpoint, Route


class SpeechFormatParams(Params):
    max_chars: int = Field(default=0, ge=0)
    """0: the harness's ``limits.reply_chars``."""
    max_words: int = Field(default=0, ge=0)
    """English words and Chinese characters together; 0: no limit."""
    max_sentences: int = Field(default=0, ge=0)
    markup: bool = False
    """Whether Markdown, HTML and lists may stand."""
    links: bool = False
    emoji: bool = False
    language: str = ""
    """BCP 47 tag of the reply; empty: the harness's. Only en and zh are told apart."""
    prefix: str = ""
    """What every reply of the policy must begin with. The degraded route has its own phrases."""
    sign_off: str = ""
    """What every reply of the policy must end with."""


class SpeechCleanupParams(Params):
    emoji: bool = False
    """Whether emoji stay."""


_LINK = re.compile(
    r"https?://\S+|(?<![\w.])www\.\w\S*|(?<![\w.@])[a-z0-9-]+\.(?:com|net|org|cn|shop|io|me|tv)(?:/\S*)?(?![a-z])",
    re.I,
)
_EMOJI = re.compile(
    "[\U0001f000-\U0001faff\u2600-\u26ff\u2700-\u27bf\u2b50\u2b55\u231a\u231b\u23e9-\u23f3\u2b05-\u2b07\u2934\u2935\ufe0f\u200d\u20e3"
    "\U000e0020-\U000e007f]+"
)
_HTML = re.compile(r"</?[A-Za-z][A-Za-z0-9-]*(?:\s[^<>\n]{0,200})?/?>|&(?:nbsp|amp|lt|gt|quot|#\d{2,5});")
_BOLD = re.compile(r"(\*\*|__|~~)(?=\S)([^\n]{1,400}?)(?<=\S)\1")
_STAR = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*\n]{1,400}?)(?<=[^\s*])\*(?![\w*])")
_CODE = re.compile(r"`{1,3}([^`\n]{0,400})`{1,3}|^```\w*$", re.M)
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+", re.M)
_BULLET = re.compile(r"^[ \t]*(?:[-*+•·●▪◦][ \t]+|>[ \t]+)", re.M)
_NUMBERED = re.compile(r"^[ \t]*\d{1,2}[.)、][ \t]*(?=\S)", re.M)
_MARKED_LINK = re.compile(r"!?\[([^\]\n]{0,200})\]\(([^)\s]{1,500})\)")
_TABLE = re.compile(r"^\s*\|.*\|\s*$", re.M)
_ROLE = re.compile(
    r"^\s*(?:final )?(?:reply|answer|response|assistant|host|streamer|回复|回答|主播|答)\s*[:：]\s*", re.I
)
_QUOTED = re.compile(r'^\s*["“「](?P<inside>[^"“”「」]{2,})["”」]\s*$')
_SPACES = re.compile(r"[ \t]{2,}")
_PROSE = re.compile(r"[A-Za-z0-9$][A-Za-z0-9$%.,!?'-]*(?: [A-Za-z0-9$%.,!?'-]+)*")
"""One line of plain English, as most replies are: no markup can be in it, and nothing is to be stripped."""
_LATIN_WORD = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)?")
_WORD = re.compile(r"[A-Za-z0-9]+(?:['.,-][A-Za-z0-9]+)*|[一-鿿]")
_HAN = re.compile(r"[一-鿿]")
_OTHER_SCRIPT = re.compile(
    r"[\u3040-\u30ff\uac00-\ud7af\u0400-\u04ff\u0600-\u06ff\u0900-\u097f\u0e00-\u0e7f\u0590-\u05ff]"
)
_ENDS = re.compile(r"[.!?。！？]+(?=\s|$|[^\d\s])")
_ENGLISH_SHARE, _CHINESE_SHARE = 0.3, 0.4
"""Most Han characters in an English reply; least in a Chinese one, where product names are often Latin."""


def build_format(params: SpeechFormatParams, language: str) -> HookFunction:
    def check(value: str, context: HookContext) -> Decision:
        text = value.strip()
        wanted = params.language or context.harness.language or language
        limit = params.max_chars or context.harness.limits.reply_chars
        chinese = worded(language, en="", zh="zh") == "zh"
        faults: list[tuple[str, str, str]] = []  # code, English, Chinese
        if not text:
            faults.append(("empty", "it is empty; say one short sentence", "回复是空的，请说一句话"))
        if len(text) > limit:
            faults.append(
                (
                    "length",
                    f"it has {len(text)} characters, at most {limit}",
                    f"有{len(text)}个字，最多{limit}个",
                )
            )
        if params.max_words and (words := len(_WORD.findall(text))) > params.max_words:
            faults.append(
                (
                    "words",
                    f"it has {words} words, at most {params.max_words}",
                    f"有{words}个词，最多{params.max_words}个",
                )
            )
        if params.max_sentences and (count := sentences(text)) > params.max_sentences:
            faults.append(
                ("sentences", f"it has {count} sentences, at most {params.max_sentences}",
                 f"有{count}句，最多{params.max_sentences}句")
            )  # fmt: skip
        for code, allowed, found, en, zh in (
            (
                "markup",
                params.markup,
                markup(text),
                "it has {} in it; speak plain sentences",
                "含有{}，请用普通句子",
            ),
            (
                "link",
                params.links,
                _first(_LINK, text),
                "it has the link {}; leave links out",
                "含有网址{}，请去掉",
            ),
            (
                "emoji",
                params.emoji,
                _first(_EMOJI, text),
                "it has the emoji {}; leave emoji out",
                "含有表情{}，请去掉",
            ),
        ):
            if not allowed and found:
                faults.append((code, en.format(found), zh.format(found)))
        if text and (spoken := wrong_language(text, wanted)):
            names = {"en": ("English", "英文"), "zh": ("Chinese", "中文")}[spoken]
            faults.append(("language", f"answer in {names[0]}", f"请用{names[1]}回答"))
        # Opening and close are asked of a policy, in its prompt; the degraded route was told of neither.
        told_of = context.route is Route.AGENT
        if told_of and params.prefix and not text.startswith(params.prefix):
            faults.append(("prefix", f'begin with "{params.prefix}"', f"开头要是“{params.prefix}”"))
        if told_of and params.sign_off and not text.endswith(params.sign_off):
            faults.append(("sign_off", f'end with "{params.sign_off}"', f"结尾要是“{params.sign_off}”"))
        if not faults:
            return Allow()
        told = "；".join(zh for _, _, zh in faults) if chinese else "; ".join(en for _, en, _ in faults)
        return Retry(
            worded(language, en=f"The reply cannot be spoken as it is: {told}.", zh=f"回复不能直接播报：{told}。"),
            {"faults": [code for code, _, _ in faults]},
        )

    return check


def build_cleanup(params: SpeechCleanupParams, language: str) -> HookFunction:
    def check(value: str, context: HookContext) -> Decision:
        cleaned = clean(value, emoji=params.emoji)
        if cleaned == value or not cleaned:
            return Allow()  # an empty rest is for speech_format to refuse
        return Rewrite(cleaned, "markup stripped")

    return check


def _first(pattern: re.Pattern[str], text: str) -> str:
    m = pattern.search(text)
    return m.group() if m else ""


@lru_cache(maxsize=512)
def markup(text: str) -> str:
    """The first piece of Markdown, HTML or list markup in ``text``; "" where there is none."""
    if _PROSE.fullmatch(text):
        return ""
    for pattern in (_BOLD, _MARKED_LINK, _HTML, _CODE, _HEADING, _TABLE, _STAR, _BULLET):
        m = pattern.search(text)
        if m:
            return m.group().strip()[:40] or "```"
    numbered = _NUMBERED.findall(text)
    return numbered[0].strip() if len(numbered) >= 2 else ""


def sentences(text: str) -> int:
    """How many sentences are spoken; a last one without a stop counts."""
    ends = [m.end() for m in _ENDS.finditer(text)]
    return len(ends) + (1 if text[ends[-1] if ends else 0 :].strip(" \n\"'”’") else 0)


def wrong_language(text: str, wanted: str) -> str:
    """ "en" or "zh" where ``text`` should be in it and is not; "" where it is, or cannot be told.

    By share of script: each Chinese character against each Latin word. Other scripts count against both.
    """
    primary = wanted.split("-")[0]
    if primary not in ("en", "zh"):
        return ""
    if primary == "en" and text.isascii():
        return ""
    han = len(_HAN.findall(text))
    latin = len(_LATIN_WORD.findall(text))
    other = len(_OTHER_SCRIPT.findall(text))
    total = han + latin + other
    if not total:
        return ""
    if primary == "en":
        return "en" if (han + other) / total > _ENGLISH_SHARE else ""
    return "zh" if han / total < _CHINESE_SHARE and latin + other >= 3 else ""


@lru_cache(maxsize=512)
def clean(text: str, *, emoji: bool = False) -> str:
    """Markup stripped, words and numbers untouched."""
    if _PROSE.fullmatch(text):
        return text
    out = text.strip()
    out = _CODE.sub(lambda m: m.group(1) or "", out)
    out = _MARKED_LINK.sub(r"\1", out)
    out = _HTML.sub(lambda m: " " if m.group() == "&nbsp;" else "&" if m.group() == "&amp;" else "", out)
    out = _STAR.sub(r"\1", _BOLD.sub(r"\2", out))
    out = _BULLET.sub("", _HEADING.sub("", out))
    if len(_NUMBERED.findall(out)) >= 2:
        out = _NUMBERED.sub("", out)
    if not emoji:
        out = _EMOJI.sub("", out)
    quoted = _QUOTED.match(_ROLE.sub("", out, count=1))
    out = quoted.group("inside") if quoted else _ROLE.sub("", out, count=1)
    lines = [line.strip() for line in out.splitlines() if line.strip()]
    joined = ""
    for line in lines:
        if joined:
            joined += "" if _HAN.match(joined[-1]) is None and joined[-1] in "。！？；，、" else " "
        joined += line
    return _SPACES.sub(" ", joined).strip()


SPEECH_FORMAT = Builtin(
    name="speech_format",
    checkpoint=Checkpoint.REPLY,
    params=SpeechFormatParams,
    build=build_format,
    summary="a reply can be spoken: its length, language, opening and close; no markup, links or emoji",
)
SPEECH_CLEANUP = Builtin(
    name="speech_cleanup",
    checkpoint=Checkpoint.REPLY,
    mode="change",
    on_failure="allow",
    params=SpeechCleanupParams,
    build=build_cleanup,
    summary="harmless markup is stripped from a reply",
)
