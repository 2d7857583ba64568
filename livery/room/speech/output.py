"""What a room speaks with: one engine behind a bounded queue that keeps order and never blocks the room.

`SpeechQueue` is a `livery.room.contract.SpeechOutput`. Text is read aloud (`lexicon.py`) and synthesised
one utterance at a time. A queue that is full, an engine that fails or is too slow: the reply gets silence
of the right length instead, and ``on_trouble`` hears why. Playing the audio is the stage's business.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from livery.errors import InputError, Problem
from livery.room.speech.espeak import EspeakVoice
from livery.room.speech.lexicon import read_aloud
from livery.room.speech.server import ServerVoice
from livery.room.speech.silent import SilentVoice
from livery.room.speech.voice import SpeechError, Utterance, Voice


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechTrouble:
    """A reply that went without its voice."""

    engine: str
    reason: str


class SpeechInterrupted(SpeechError):
    """`SpeechQueue.cancel` was called while this utterance was made or waited."""


class SpeechQueue:
    """Utterances one after the other, in the order they were asked for.

    Args:
        voice: the engine.
        waiting: utterances that may wait behind the one being made.
        timeout_s: the longest an engine may take for one utterance.
        on_trouble: called for each utterance that went without its voice.
        failures_to_rest: after so many failures in a row the engine is left alone for ``rest_s``, so that a
            dead server does not cost each reply its time-out.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        voice: Voice,
        *,
        waiting: int = 4,
        timeout_s: float = 20.0,
        on_trouble: Callable[[SpeechTrouble], None] | None = None,
        failures_to_rest: int = 2,
        rest_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.voice = voice
        self._silent = SilentVoice()
        self._waiting = waiting
        self._timeout_s = timeout_s
        self._on_trouble = on_trouble
        self._failures_to_rest = failures_to_rest
        self._rest_s = rest_s
        self._clock = clock
        self._failures = 0
        self._rests_until = float("-inf")
        self._turn = asyncio.Lock()
        self._jobs: set[asyncio.Task[Utterance]] = set()
        self._interrupted: set[asyncio.Task[Utterance]] = set()

    @property
    def pending(self) -> int:
        """Utterances being made or waiting."""
        return len(self._jobs)

    async def warm_up(self, language: str) -> None:
        """Load what the first utterance would load (grammars, a voice), without counting a failure."""
        said = await asyncio.to_thread(read_aloud, "1.23", language)
        async with self._turn:
            with contextlib.suppress(SpeechError):
                await self.voice.synthesise(said, language)

    async def speak(self, text: str, language: str) -> Utterance:
        """Synthesise ``text`` as a host speaking ``language`` (BCP 47) says it, when its turn comes.

        Raises:
            SpeechInterrupted: `cancel` was called meanwhile.
        """
        if len(self._jobs) > self._waiting:
            self._report(f"{len(self._jobs)} utterances are waiting already")
            return await self._silent.synthesise(text, language)
        job = asyncio.create_task(self._in_turn(text, language))
        self._jobs.add(job)
        try:
            return await job
        except asyncio.CancelledError:
            if job in self._interrupted and not _is_being_cancelled():
                raise SpeechInterrupted("the utterance was interrupted") from None
            raise
        finally:
            self._jobs.discard(job)
            self._interrupted.discard(job)

    async def cancel(self) -> None:
        """Stop the utterance being made, and forget those that wait. Returns when the work has ended."""
        jobs = [job for job in self._jobs if not job.done()]
        self._interrupted.update(jobs)
        for job in jobs:
            job.cancel()
        if jobs:
            await asyncio.wait(jobs)

    async def aclose(self) -> None:
        """`cancel`, and release the engine."""
        await self.cancel()
        await self.voice.aclose()

    async def _in_turn(self, text: str, language: str) -> Utterance:
        # asyncio.Lock is fair: waiters go in the order they came.
        async with self._turn:
            said = await asyncio.to_thread(read_aloud, text, language)
            if not said:
                return await self._silent.synthesise(text, language)
            if self._clock() < self._rests_until:
                self._report(f"left alone after {self._failures} failures")
                return await self._silent.synthesise(said, language)
            try:
                async with asyncio.timeout(self._timeout_s):
                    utterance = await self.voice.synthesise(said, language)
            except TimeoutError:
                self._failed(f"no speech within {self._timeout_s:g} s")
            except Exception as error:
                # The one place where an engine's fault, of whatever kind, becomes a reply without a voice.
                self._failed(str(error) or type(error).__name__)
            else:
                self._failures = 0
                return utterance
            return await self._silent.synthesise(said, language)

    def _failed(self, reason: str) -> None:
        self._failures += 1
        if self._failures >= self._failures_to_rest:
            self._rests_until = self._clock() + self._rest_s
        self._report(reason)

    def _report(self, reason: str) -> None:
        if self._on_trouble is not None:
            self._on_trouble(SpeechTrouble(engine=self.voice.name, reason=reason))


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


# ---------------------------------------------------------------------------------------- URIs

_ESPEAK_OPTIONS = ("voice", "rate", "pitch")
_SERVER_OPTIONS = ("model", "voice", "format", "speed", "timeout")


def open_speech(uri: str, *, key: str = "", on_trouble: Callable[[SpeechTrouble], None] | None = None) -> SpeechQueue:
    """A speech queue from a URI.

    ``none:`` is no voice. ``espeak:`` is espeak-ng in this process, with ``?voice=cmn+f2&rate=175&pitch=50``.
    ``http://host/v1/audio/speech?model=tts-1&voice=alloy&format=wav&speed=1&timeout=20`` is a server.

    Args:
        uri: as above.
        key: bearer token for a server; never part of the URI.
        on_trouble: see `SpeechQueue`.

    Raises:
        InputError: the URI is none of these, or an option is not known or out of range; all faults at once.
    """
    parts = urlsplit(uri)
    problems: list[Problem] = []
    if parts.scheme in ("http", "https"):
        # Messages never repeat a user or password.
        shown = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        options = _options(shown, parts.query, _SERVER_OPTIONS, problems)
        speed = _number(shown, options, "speed", 1.0, (0.25, 4.0), problems)
        timeout = _number(shown, options, "timeout", 20.0, (0.5, 300.0), problems)
        if not parts.hostname or parts.username or parts.password:
            problems.append(Problem(path=shown, message="expected a host, without a user or password"))
        if problems:
            raise InputError(problems)
        server = ServerVoice(
            url=urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")),
            model=options.get("model", "tts-1"),
            voice=options.get("voice", "alloy"),
            format=options.get("format", "wav"),
            speed=speed,
            key=key,
            timeout_s=timeout,
        )
        return SpeechQueue(server, timeout_s=timeout + 1.0, on_trouble=on_trouble)
    if uri.startswith("espeak:"):
        options = _options(uri, parts.query, _ESPEAK_OPTIONS, problems)
        rate = _number(uri, options, "rate", 175, (80, 450), problems)
        pitch = _number(uri, options, "pitch", 50, (0, 99), problems)
        if problems:
            raise InputError(problems)
        # A plus in a query is a space; in the name of a voice it joins the variant.
        voice = options.get("voice", "").replace(" ", "+")
        return SpeechQueue(EspeakVoice(voice=voice, rate=int(rate), pitch=int(pitch)), on_trouble=on_trouble)
    if uri == "none:":
        return SpeechQueue(SilentVoice(), on_trouble=on_trouble)
    raise InputError.at(uri, "expected espeak:, none: or http(s)://host/v1/audio/speech", code="speech-uri")


def _options(uri: str, query: str, known: tuple[str, ...], problems: list[Problem]) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    problems.extend(
        Problem(path=uri, field=name, message=f"unknown option; expected one of {', '.join(known)}")
        for name in options
        if name not in known
    )
    return options


def _number(
    uri: str,
    options: dict[str, str],
    name: str,
    default: float,
    bounds: tuple[float, float],
    problems: list[Problem],
) -> float:
    text = options.get(name)
    if text is None:
        return default
    low, high = bounds
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        message = f"found {text!r}, expected a number from {low:g} to {high:g}"
        problems.append(Problem(path=uri, field=name, message=message))
        return default
    return value
