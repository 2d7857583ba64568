"""No voice: silence as long as the words would take, so that subtitles and item cards stay in time."""

from __future__ import annotations

import re
from dataclasses import dataclass

from livery.room.speech.voice import Utterance, utterance_of

_SAMPLE_RATE = 8_000
_SYLLABLES_A_SECOND = {"han": 4.6, "latin": 4.3}
"""Brisk but clear speech; a Chinese character is a syllable, other words are counted by vowel groups."""
_PAUSE_S = {"short": 0.18, "long": 0.38}

_HAN = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_WORD = re.compile(r"[^\W\d_\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")
_VOWELS = re.compile(r"[aeiouyà-öø-ÿ]+", re.IGNORECASE)


def estimated_s(text: str) -> float:
    """Seconds a host would take for ``text`` (numbers already read), pauses included."""
    han = len(_HAN.findall(text))
    latin = sum(max(1, len(_VOWELS.findall(word))) for word in _WORD.findall(text))
    pauses = _PAUSE_S["short"] * len(re.findall(r"[,，、;；:：]", text))
    pauses += _PAUSE_S["long"] * len(re.findall(r"[.!?。！？…]+(?=\s|$|[^\w.])|[。！？]", text))
    spoken = han / _SYLLABLES_A_SECOND["han"] + latin / _SYLLABLES_A_SECOND["latin"]
    return round(spoken + pauses + 0.3, 3)


@dataclass(frozen=True, slots=True)
class SilentVoice:
    """A `Voice` that says nothing for as long as saying it would take."""

    @property
    def name(self) -> str:
        return "none"

    async def synthesise(self, text: str, language: str) -> Utterance:
        samples = round(estimated_s(text) * _SAMPLE_RATE)
        return utterance_of(bytes(2 * samples), _SAMPLE_RATE, self.name)

    async def aclose(self) -> None:
        """Holds nothing."""
