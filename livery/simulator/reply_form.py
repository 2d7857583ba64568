"""The form that a harness asks of every reply: how long it may be, how it must open and close.

Read off the ``speech_format`` checks and the limits, which the prompt announces. For writing replies and reading them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from livery.harness.hooks.builtin.speech import sentences
from livery.harness.model import Harness

_WORDS: Final = re.compile(r"[A-Za-z0-9]+(?:['.,-][A-Za-z0-9]+)*|[一-鿿]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What a harness asks of every reply."""

    max_chars: int
    max_sentences: int = 0
    max_words: int = 0
    prefix: str = ""
    sign_off: str = ""

    @classmethod
    def of(cls, harness: Harness) -> Form:
        """As its checks have it, the narrowest of each."""
        chars, count, words, prefix, sign_off = [harness.limits.reply_chars], [0], [0], "", ""
        for hook in harness.hooks:
            if hook.kind == "builtin" and hook.source == "speech_format":
                params: Mapping[str, Any] = hook.params
                chars.append(int(params.get("max_chars") or chars[0]))
                count.append(int(params.get("max_sentences", 0)))
                words.append(int(params.get("max_words", 0)))
                prefix = str(params.get("prefix", "")) or prefix
                sign_off = str(params.get("sign_off", "")) or sign_off
        return cls(
            max_chars=min(chars),
            max_sentences=min((c for c in count if c), default=0),
            max_words=min((w for w in words if w), default=0),
            prefix=prefix,
            sign_off=sign_off,
        )

    def dressed(self, text: str, language: str) -> str:
        """A reply with the opening and the close that are asked for."""
        gap = "" if language == "zh" else " "
        before = self.prefix + (gap if self.prefix and not self.prefix.endswith(" ") else "")
        after = (gap if self.sign_off and not self.sign_off.startswith(" ") else "") + self.sign_off
        return f"{before}{text}{after}"

    def undressed(self, text: str) -> str:
        """A reply without the opening and the close that every reply has: nobody claims anything by them."""
        return text.strip().removeprefix(self.prefix).removesuffix(self.sign_off).strip()

    def holds(self, text: str) -> bool:
        """Whether a whole reply is short enough."""
        if len(text) > self.max_chars:
            return False
        if self.max_sentences and sentences(text) > self.max_sentences:
            return False
        return not self.max_words or len(_WORDS.findall(text)) <= self.max_words
