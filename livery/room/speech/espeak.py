"""espeak-ng inside this process, by ctypes: the voice that is always there, with no model to download.

The shared library and its data come in the wheel of espeakng-loader. The library keeps one global state and
is not thread-safe, so all calls of a process go through one worker thread. Synthesis is cancelled through
the library's own callback. It sounds like a machine; for a natural voice see `server.py`.
https://github.com/espeak-ng/espeak-ng/blob/master/src/include/espeak-ng/speak_lib.h
"""

from __future__ import annotations

import asyncio
import ctypes
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from livery.room.speech.voice import SpeechError, Utterance, utterance_of

_SYNCHRONOUS_RETRIEVAL = 2
_DONT_EXIT = 0x8000
_UTF8 = 1
_END_PAUSE = 0x1000
_RATE, _VOLUME, _PITCH = 1, 2, 3

_VOICES = {"en": "en-us", "en-us": "en-us", "en-gb": "en-gb", "zh": "cmn", "cmn": "cmn", "yue": "yue"}
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+(?:[，。！？、；：\s]*[\u3400-\u4dbf\u4e00-\u9fff]+)*")
_SPELLED = re.compile(r"\b(?:[A-Z] )+[A-Z]\b")
_PAPER = re.compile(r"\bA (?=(?:three|four|five)\b(?!-))")


@dataclass(frozen=True, slots=True)
class _Job:
    text: str
    voice: str
    rate: int
    pitch: int
    stop: threading.Event


class _Library:
    """The one espeak-ng of this process. Used only on its own thread."""

    def __init__(self) -> None:
        # Imported on first use: rooms without this voice load no native code.
        import espeakng_loader  # pyright: ignore[reportMissingTypeStubs]

        loader = cast(Any, espeakng_loader)
        data_path = str(loader.get_data_path())
        self._lib = ctypes.CDLL(str(loader.get_library_path()))
        self._callback_type = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
        )
        self._lib.espeak_Initialize.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_int]
        self._lib.espeak_SetVoiceByName.argtypes = [ctypes.c_char_p]
        self._lib.espeak_SetParameter.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int]
        self._lib.espeak_SetSynthCallback.argtypes = [self._callback_type]
        self._lib.espeak_SetSynthCallback.restype = None
        self._lib.espeak_Synth.argtypes = [
            *(ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int),
            *(ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p),
        ]
        self.sample_rate = int(self._lib.espeak_Initialize(_SYNCHRONOUS_RETRIEVAL, 0, data_path.encode(), _DONT_EXIT))
        if self.sample_rate <= 0:
            raise SpeechError(f"espeak: could not start with the data in {data_path}")
        self._take: Callable[[bytes], bool] = lambda _: True
        # Kept for as long as the library: it calls back into it.
        self._callback = self._callback_type(self._on_samples)
        self._lib.espeak_SetSynthCallback(self._callback)

    def _on_samples(self, samples: Any, count: int, _: Any) -> int:
        """1 stops the synthesis."""
        data = ctypes.string_at(samples, count * 2) if samples and count > 0 else b""
        return 0 if self._take(data) else 1

    def speak(self, job: _Job) -> bytes:
        pcm = bytearray()

        def take(data: bytes) -> bool:
            pcm.extend(data)
            return not job.stop.is_set()

        if self._lib.espeak_SetVoiceByName(job.voice.encode()) != 0:
            raise SpeechError(f"espeak: no voice {job.voice!r}; expected a name such as en-us, cmn or cmn+f2")
        for parameter, value in ((_RATE, job.rate), (_PITCH, job.pitch), (_VOLUME, 100)):
            self._lib.espeak_SetParameter(parameter, value, 0)
        text = job.text.replace("\0", " ").encode() + b"\0"
        self._take = take
        status = self._lib.espeak_Synth(text, len(text), 0, 1, 0, _UTF8 | _END_PAUSE, None, None)
        if status != 0:
            raise SpeechError(f"espeak: synthesis failed with status {status}")
        return bytes(pcm)


@cache
def _library() -> _Library:
    return _Library()


@cache
def _worker() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="espeak")


@dataclass(frozen=True, slots=True, kw_only=True)
class EspeakVoice:
    """espeak-ng as a `Voice`."""

    voice: str = ""
    """An espeak voice name with an optional variant ("cmn+f2"); empty chooses by language."""
    rate: int = 175
    """Words a minute, 80 to 450."""
    pitch: int = 50
    """0 to 99."""

    @property
    def name(self) -> str:
        return "espeak"

    async def synthesise(self, text: str, language: str) -> Utterance:
        stop = threading.Event()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(_worker(), self._speak, text, language, stop)
        finally:
            # Reached early when the caller is cancelled: the callback then ends the work in the thread.
            stop.set()

    def _speak(self, text: str, language: str, stop: threading.Event) -> Utterance:
        library = _library()
        main = self.voice or espeak_voice(language)
        pcm = bytearray()
        for voice, piece in pieces(text, main):
            if stop.is_set():
                break
            pcm += library.speak(_Job(piece, voice, self.rate, self.pitch, stop))
        return utterance_of(bytes(pcm), library.sample_rate, self.name)

    async def aclose(self) -> None:
        """The library stays loaded: other rooms of the process may use it."""


def espeak_voice(language: str) -> str:
    """The espeak voice of a BCP 47 language; its primary tag where nothing better is known."""
    tag = language.lower().replace("_", "-")
    primary = tag.partition("-")[0]
    return _VOICES.get(tag) or _VOICES.get(primary) or primary


def pieces(text: str, voice: str) -> list[tuple[str, str]]:
    """``text`` in runs of one voice: a voice that knows no Chinese gets help with Chinese words.

    The Mandarin voice switches to English by itself; others would say "Chinese letter" for each character.
    """
    if voice.startswith(("cmn", "yue")):
        return [(voice, text)]
    found: list[tuple[str, str]] = []
    position = 0
    for han in _HAN.finditer(text):
        if text[position : han.start()].strip():
            found.append((voice, _letters(text[position : han.start()])))
        found.append(("cmn", han[0]))
        position = han.end()
    if text[position:].strip():
        found.append((voice, _letters(text[position:])))
    return found


def _letters(text: str) -> str:
    """Spelled letters so that espeak spells them: it reads the A of "P A" or "A four" as the article.

    "P.A." is read as letters, and "eh" as the letter's name.
    """
    dotted = _SPELLED.sub(lambda m: m[0].replace(" ", ".") + ".", text)
    return _PAPER.sub("eh ", dotted)
