"""What an engine gives: a WAV file with its length and loudness, and the interface engines share.

Audio is 16-bit mono PCM throughout. The envelope is for the avatar's mouth: how loud, not which sound.
"""

from __future__ import annotations

import io
import math
import operator
import sys
import wave
from array import array
from dataclasses import dataclass
from typing import Protocol

from livery.errors import LiveryError
from livery.room.contract import Spoken

ENVELOPE_STEP_S = 0.04
"""Seconds of audio for each value of an envelope."""


class SpeechError(LiveryError):
    """An engine could not speak: the text says which, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance(Spoken):
    """Synthesised speech, as engines give it. ``audio`` is a whole file of ``media_type``."""

    sample_rate: int = 0
    """Hz; 0 for audio that was passed through undecoded."""
    envelope: tuple[float, ...] = ()
    """RMS of each 40 ms, 0 to 1; empty for audio that was passed through undecoded."""
    media_type: str = "audio/wav"
    engine: str = ""
    """Name of the engine that made it."""


class Voice(Protocol):
    """A speech engine. Cancelling a call to `synthesise` stops the work."""

    @property
    def name(self) -> str:
        """For events and logs; holds no secret."""
        ...

    async def synthesise(self, text: str, language: str) -> Utterance:
        """Speak ``text`` as it stands (numbers already read) in a BCP 47 ``language``.

        Raises:
            SpeechError: the engine cannot, for this text or at all.
        """
        ...

    async def aclose(self) -> None:
        """Release what the engine holds. It is not used afterwards."""
        ...


def utterance_of(pcm: bytes, sample_rate: int, engine: str) -> Utterance:
    """16-bit little-endian mono samples as an `Utterance`."""
    return Utterance(
        audio=wav_file(pcm, sample_rate),
        duration_s=len(pcm) / 2 / sample_rate,
        sample_rate=sample_rate,
        envelope=loudness_envelope(pcm, sample_rate),
        engine=engine,
    )


def wav_file(pcm: bytes, sample_rate: int) -> bytes:
    """A RIFF WAV file of 16-bit little-endian mono samples."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(pcm)
    return out.getvalue()


def loudness_envelope(pcm: bytes, sample_rate: int) -> tuple[float, ...]:
    """RMS of each 40 ms of 16-bit mono samples, as a share of full scale."""
    samples = array("h")
    samples.frombytes(pcm[: len(pcm) // 2 * 2])
    if sys.byteorder == "big":
        samples.byteswap()
    step = max(1, round(sample_rate * ENVELOPE_STEP_S))
    values: list[float] = []
    for start in range(0, len(samples), step):
        window = samples[start : start + step]
        power = sum(map(operator.mul, window, window)) / len(window)
        values.append(round(math.sqrt(power) / 32768, 4))
    return tuple(values)


def read_wav(data: bytes, engine: str) -> Utterance:
    """An `Utterance` of a WAV file that somebody else made; stereo is mixed down.

    Streaming servers write WAV headers with a length of 0 or 0xFFFFFFFF: the bytes that are there count.

    Raises:
        SpeechError: not a RIFF WAV of 16-bit PCM.
    """
    channels, rate, width, pcm = _pcm_chunk(data, engine)
    if width != 2 or channels not in (1, 2) or not rate:
        raise SpeechError(f"{engine}: found WAV of {width * 8} bits and {channels} channels, expected 16-bit PCM")
    if channels == 2:
        pcm = _mixed_down(pcm)
    return utterance_of(pcm, rate, engine)


def _pcm_chunk(data: bytes, engine: str) -> tuple[int, int, int, bytes]:
    """Channels, sample rate, bytes a sample, samples."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise SpeechError(f"{engine}: the audio is not a RIFF WAV file")
    channels = rate = width = 0
    position = 12
    while position + 8 <= len(data):
        name = data[position : position + 4]
        size = int.from_bytes(data[position + 4 : position + 8], "little")
        body = position + 8
        if name == b"fmt ":
            coding = int.from_bytes(data[body : body + 2], "little")
            if coding not in (1, 0xFFFE):
                raise SpeechError(f"{engine}: found WAV coding {coding}, expected PCM")
            channels = int.from_bytes(data[body + 2 : body + 4], "little")
            rate = int.from_bytes(data[body + 4 : body + 8], "little")
            width = int.from_bytes(data[body + 14 : body + 16], "little") // 8
        elif name == b"data":
            streamed = size in (0, 0xFFFFFFFF) or body + size > len(data)
            return channels, rate, width, data[body:] if streamed else data[body : body + size]
        position = body + size + size % 2
    raise SpeechError(f"{engine}: the WAV file holds no data chunk")


def _mixed_down(pcm: bytes) -> bytes:
    samples = array("h")
    samples.frombytes(pcm[: len(pcm) // 4 * 4])
    if sys.byteorder == "big":
        samples.byteswap()
    mono = array("h", ((left + right) // 2 for left, right in zip(samples[::2], samples[1::2], strict=True)))
    if sys.byteorder == "big":
        mono.byteswap()
    return mono.tobytes()
