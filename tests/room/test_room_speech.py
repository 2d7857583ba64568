"""Voices, the queue they speak through, and speech servers, with real espeak-ng and a real local server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import struct
import wave
from array import array
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO

import httpx
import pytest

from livery.errors import InputError
from livery.room.contract import SpeechOutput
from livery.room.speech import (
    SpeechError,
    SpeechQueue,
    SpeechTrouble,
    Utterance,
    loudness_envelope,
    open_speech,
)
from livery.room.speech.espeak import EspeakVoice, espeak_voice, pieces
from livery.room.speech.output import SpeechInterrupted
from livery.room.speech.server import ServerVoice
from livery.room.speech.silent import SilentVoice, estimated_s
from livery.room.speech.voice import read_wav, utterance_of, wav_file


def tone(seconds: float, rate: int = 16_000, level: float = 0.5) -> bytes:
    count = round(seconds * rate)
    return array("h", (round(level * 32767 * math.sin(2 * math.pi * 440 * n / rate)) for n in range(count))).tobytes()


# -------------------------------------------------------------------------------------- audio


def test_a_wav_file_holds_what_its_header_says() -> None:
    made = utterance_of(tone(0.5), 16_000, "test")
    with wave.open(BytesIO(made.audio)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 16_000)
        assert file.readframes(file.getnframes()) == tone(0.5)
    assert made.duration_s == 0.5


def test_the_envelope_is_the_loudness_of_each_40_ms() -> None:
    pcm = bytes(2 * 640) + tone(0.04) + tone(0.02, level=1.0)
    envelope = loudness_envelope(pcm, 16_000)
    assert envelope == pytest.approx((0.0, 0.5 / math.sqrt(2), 1 / math.sqrt(2)), abs=0.01)
    assert loudness_envelope(b"", 16_000) == ()


def test_stereo_wav_is_mixed_down_and_streamed_headers_are_read() -> None:
    out = BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(struct.pack("<4h", 100, 300, -50, 50))
    mixed = read_wav(out.getvalue(), "test")
    assert mixed.audio[-4:] == struct.pack("<2h", 200, 0)
    streamed = bytearray(wav_file(tone(0.25, 8000), 8000))
    streamed[40:44] = b"\xff\xff\xff\xff"
    assert read_wav(bytes(streamed), "test").duration_s == 0.25


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"ID3 and so on", "not a RIFF WAV"),
        (wav_file(b"", 8000)[:36], "no data chunk"),
        (wav_file(b"\0\0", 8000).replace(b"fmt \x10\0\0\0\x01", b"fmt \x10\0\0\0\x03"), "coding 3"),
        (
            wav_file(b"\0\0", 8000)[:34] + b"\x08\0" + wav_file(b"\0\0", 8000)[36:],
            "8 bits and 1 channels",
        ),
    ],
)
def test_what_is_no_16_bit_wav_is_refused(data: bytes, expected: str) -> None:
    with pytest.raises(SpeechError, match=expected):
        read_wav(data, "test")


# ------------------------------------------------------------------------------------- espeak


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Link three is nineteen ninety-nine today, with free shipping.", "en"),
        ("三号链接到手价三十九块九，今天全场包邮。", "zh-CN"),
        ("The 茉莉花茶 is nine ninety.", "en"),
    ],
)
async def test_espeak_makes_real_speech(text: str, language: str) -> None:
    made = await EspeakVoice().synthesise(text, language)
    assert made.sample_rate == 22_050
    assert len(made.audio) == 44 + 2 * round(made.duration_s * made.sample_rate)
    assert 1.5 < made.duration_s < 8
    assert max(made.envelope) > 0.1
    loud = [value > 0.01 for value in made.envelope]
    assert 0.5 < sum(loud) / len(loud) < 1.0  # mostly sound, and pauses
    assert made.engine == "espeak"


async def test_espeak_speaks_faster_when_asked_and_longer_for_more_words() -> None:
    text = "This is the jasmine tea that everybody asked about."
    normal = await EspeakVoice().synthesise(text, "en")
    fast = await EspeakVoice(rate=300).synthesise(text, "en")
    twice = await EspeakVoice().synthesise(text + " " + text, "en")
    assert fast.duration_s < 0.75 * normal.duration_s
    assert twice.duration_s > 1.6 * normal.duration_s


async def test_many_calls_at_once_do_not_mix_their_voices() -> None:
    voice = EspeakVoice()
    texts = [("one two three", "en"), ("一二三四五六", "zh"), ("a much longer sentence in English", "en")] * 4
    made = await asyncio.gather(*(voice.synthesise(text, language) for text, language in texts))
    lengths = [round(u.duration_s, 1) for u in made]
    for index in range(3):
        assert max(lengths[index::3]) - min(lengths[index::3]) <= 0.2
    assert len(set(lengths[:3])) == 3


async def test_a_cancelled_synthesis_ends_and_the_next_one_works() -> None:
    voice = EspeakVoice()
    long = asyncio.create_task(voice.synthesise("and so on and on " * 4000, "en"))
    await asyncio.sleep(0)
    long.cancel()
    with pytest.raises(asyncio.CancelledError):
        await long
    async with asyncio.timeout(10):
        made = await voice.synthesise("hello there", "en")
    assert 0.3 < made.duration_s < 3


async def test_an_unknown_espeak_voice_says_so() -> None:
    with pytest.raises(SpeechError, match="no voice 'tlh-unheard'"):
        await EspeakVoice(voice="tlh-unheard").synthesise("hello", "en")


def test_pieces_of_a_text_get_a_voice_that_can_read_them() -> None:
    assert pieces("The 茉莉，花茶 is P A four plus, on A four paper", "en-us") == [
        ("en-us", "The "),
        ("cmn", "茉莉，花茶"),
        ("en-us", " is P.A. four plus, on eh four paper"),
    ]
    assert pieces("U S B接口 P A四个加", "cmn+f2") == [("cmn+f2", "U S B接口 P A四个加")]
    assert pieces("A five-star rating", "en-us") == [("en-us", "A five-star rating")]


def test_languages_choose_espeak_voices() -> None:
    chosen = {tag: espeak_voice(tag) for tag in ("en", "en-GB", "zh", "zh-Hans-CN", "yue", "de-AT")}
    assert chosen == {
        "en": "en-us",
        "en-GB": "en-gb",
        "zh": "cmn",
        "zh-Hans-CN": "cmn",
        "yue": "yue",
        "de-AT": "de",
    }


# ------------------------------------------------------------------------------------- silence


async def test_no_voice_is_silence_of_a_plausible_length() -> None:
    made = await SilentVoice().synthesise("好的，三号链接今天包邮。", "zh")
    assert max(made.envelope) == 0
    assert 2.0 < made.duration_s < 4.0
    assert made.duration_s == pytest.approx(estimated_s("好的，三号链接今天包邮。"), abs=0.001)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Link three is nineteen ninety-nine today, with free shipping. Do you have another question?", "en"),
        ("这款是今天的主推，三号链接，到手价三十九块九。满三百减五十，大家放心拍。", "zh"),
    ],
)
async def test_the_estimate_is_near_the_length_of_real_speech(text: str, language: str) -> None:
    spoken = await EspeakVoice().synthesise(text, language)
    assert 0.65 < estimated_s(text) / spoken.duration_s < 1.5


# --------------------------------------------------------------------------------------- queue


@dataclass
class FakeVoice:
    """Records what it is asked for; each call does what the next script entry says."""

    script: list[str] = field(default_factory=list[str])
    said: list[str] = field(default_factory=list[str])
    started: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: int = 0
    at_once: int = 0
    most_at_once: int = 0
    name: str = "fake"

    async def synthesise(self, text: str, language: str) -> Utterance:
        self.said.append(text)
        step = self.script.pop(0) if self.script else "speak"
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            self.started.set()
            if step == "fail":
                raise SpeechError("out of breath")
            if step == "bug":
                raise ZeroDivisionError("division by zero")
            if step == "wait":
                await self.release.wait()
            await asyncio.sleep(0)
            return utterance_of(tone(0.1), 16_000, self.name)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.at_once -= 1

    async def aclose(self) -> None:
        self.script.append("closed")


def queue_of(voice: FakeVoice, **settings: object) -> tuple[SpeechQueue, list[SpeechTrouble]]:
    troubles: list[SpeechTrouble] = []
    queue = SpeechQueue(voice, on_trouble=troubles.append, **settings)  # pyright: ignore[reportArgumentType]
    return queue, troubles


async def test_text_is_read_aloud_before_it_is_spoken() -> None:
    voice = FakeVoice()
    queue, troubles = queue_of(voice)
    output: SpeechOutput = queue
    made = await output.speak("Link 3 is $19.99 **today** 😀", "en")
    assert voice.said == ["Link three is nineteen ninety-nine today"]
    assert made.duration_s == 0.1
    assert troubles == []


async def test_utterances_are_made_one_at_a_time_in_order() -> None:
    voice = FakeVoice()
    queue, _ = queue_of(voice, waiting=8)
    await asyncio.gather(*(queue.speak(f"reply {word}", "en") for word in "abcdefgh"))
    assert voice.said == [f"reply {word}" for word in "abcdefgh"]
    assert voice.most_at_once == 1
    assert queue.pending == 0


async def test_a_full_queue_gives_silence_at_once_and_says_so() -> None:
    voice = FakeVoice(script=["wait"])
    queue, troubles = queue_of(voice, waiting=1)
    first = asyncio.create_task(queue.speak("first", "en"))
    second = asyncio.create_task(queue.speak("second", "en"))
    await voice.started.wait()
    third = await queue.speak("third one here", "en")
    assert max(third.envelope) == 0
    assert [t.reason for t in troubles] == ["2 utterances are waiting already"]
    voice.release.set()
    assert max((await first).envelope) > 0
    assert max((await second).envelope) > 0


@pytest.mark.parametrize(
    ("step", "reason"),
    [("fail", "out of breath"), ("bug", "division by zero"), ("wait", "no speech within 0.01 s")],
)
async def test_a_failing_engine_gives_silence_and_a_reason_and_the_next_reply_is_tried(step: str, reason: str) -> None:
    voice = FakeVoice(script=[step])
    queue, troubles = queue_of(voice, timeout_s=0.01 if step == "wait" else 5.0)
    made = await queue.speak("one two three four", "en")
    assert made.engine == "none"
    assert made.duration_s == pytest.approx(estimated_s("one two three four"), abs=0.001)
    assert troubles == [SpeechTrouble(engine="fake", reason=reason)]
    assert (await queue.speak("again", "en")).engine == "fake"


async def test_an_engine_that_keeps_failing_is_left_alone_for_a_while() -> None:
    now = 100.0
    voice = FakeVoice(script=["fail", "fail"])
    queue, troubles = queue_of(voice, clock=lambda: now, rest_s=30.0)
    for word in ("one", "two", "three"):
        await queue.speak(word, "en")
    assert voice.said == ["one", "two"]
    assert troubles[-1].reason == "left alone after 2 failures"
    now += 31
    assert (await queue.speak("four", "en")).engine == "fake"


async def test_an_interruption_stops_what_is_made_and_what_waits() -> None:
    voice = FakeVoice(script=["wait"])
    queue, _ = queue_of(voice)
    jobs = [asyncio.create_task(queue.speak(text, "en")) for text in ("first", "second", "third")]
    await voice.started.wait()
    await queue.cancel()
    results = await asyncio.gather(*jobs, return_exceptions=True)
    assert [type(r) for r in results] == [SpeechInterrupted] * 3
    assert voice.said == ["first"]
    assert voice.cancelled == 1
    assert queue.pending == 0
    assert (await queue.speak("after", "en")).engine == "fake"


async def test_a_cancelled_caller_is_cancelled_and_frees_its_place() -> None:
    voice = FakeVoice(script=["wait"])
    queue, _ = queue_of(voice)
    caller = asyncio.create_task(queue.speak("first", "en"))
    await voice.started.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert (voice.cancelled, queue.pending) == (1, 0)


async def test_nothing_to_say_asks_no_engine() -> None:
    voice = FakeVoice()
    queue, _ = queue_of(voice)
    assert (await queue.speak("😀😀", "en")).engine == "none"
    assert voice.said == []


async def test_cancelling_an_idle_queue_does_nothing_and_closing_closes_the_engine() -> None:
    voice = FakeVoice()
    queue, _ = queue_of(voice)
    await queue.cancel()
    await queue.warm_up("en")
    await queue.aclose()
    assert voice.said == ["one point two three"]
    assert voice.script == ["closed"]


# -------------------------------------------------------------------------------------- server

Answer = Callable[[dict[str, object]], tuple[int, str, list[bytes]]]


@asynccontextmanager
async def speech_server(answer: Answer | None) -> AsyncIterator[tuple[str, list[dict[str, object]]]]:
    """A local HTTP server on ``/v1/audio/speech`` that streams chunks; None never answers."""
    seen: list[dict[str, object]] = []
    done = asyncio.Event()
    serving: set[asyncio.Task[object]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except asyncio.IncompleteReadError:  # the client gave up before it asked
            writer.close()
            return
        length = next(int(h.split(":")[1]) for h in head.split("\r\n") if h.lower().startswith("content-length"))
        body = json.loads(await reader.readexactly(length))
        keys = [h for h in head.split("\r\n") if h.lower().startswith("authorization")]
        seen.append({**body, "path": head.split(" ")[1], "authorization": keys})
        if answer is None:
            await done.wait()
        else:
            status, kind, chunks = answer(body)
            writer.write(f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\nconnection: close\r\n".encode())
            writer.write(b"transfer-encoding: chunked\r\n\r\n")
            for chunk in (*chunks, b""):
                writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/v1/audio/speech", seen
    finally:
        done.set()
        listening.close()
        await listening.wait_closed()
        await asyncio.gather(*serving)  # nothing of one test is left for another


async def test_a_server_is_asked_as_openai_documents_and_its_wav_is_decoded() -> None:
    file = wav_file(tone(0.5), 16_000)
    async with speech_server(lambda _: (200, "audio/wav", [file[:1000], file[1000:]])) as (url, seen):
        queue = open_speech(f"{url}?model=kokoro&voice=af_sky&speed=1.25", key="secret")
        made = await queue.speak("It's $5", "en")
        await queue.aclose()
    assert seen == [
        {
            "model": "kokoro",
            "input": "It's five dollars",
            "voice": "af_sky",
            "response_format": "wav",
            "speed": 1.25,
            "path": "/v1/audio/speech",
            "authorization": ["Authorization: Bearer secret"],
        }
    ]
    assert (made.duration_s, made.sample_rate, made.media_type) == (0.5, 16_000, "audio/wav")
    assert len(made.envelope) == 13
    assert "secret" not in queue.voice.name + repr(queue.voice)


@pytest.mark.parametrize(
    ("kind", "body", "format", "media_type", "duration_s"),
    [
        ("audio/pcm", tone(0.25, 24_000), "pcm", "audio/wav", 0.25),
        ("audio/L16;rate=8000;channels=1", tone(0.5, 8000), "pcm", "audio/wav", 0.5),
        ("application/octet-stream", wav_file(tone(0.5), 16_000), "wav", "audio/wav", 0.5),
        ("audio/mpeg", b"ID3...", "mp3", "audio/mpeg", estimated_s("hello")),
    ],
)
async def test_answers_of_other_kinds(kind: str, body: bytes, format: str, media_type: str, duration_s: float) -> None:
    async with speech_server(lambda _: (200, kind, [body])) as (url, _):
        voice = ServerVoice(url=url, format=format)
        made = await voice.synthesise("hello", "en")
        await voice.aclose()
    assert (made.media_type, made.duration_s) == (media_type, pytest.approx(duration_s))
    assert made.audio.startswith(b"RIFF" if media_type == "audio/wav" else b"ID3")


@pytest.mark.parametrize(
    ("status", "kind", "body", "expected"),
    [
        (500, "application/json", b'{"error": "no model"}', r'status 500: \{"error": "no model"\}'),
        (401, "text/plain", b"", "status 401: no reason given"),
        (200, "audio/wav", b"", "an empty answer"),
        (200, "text/html", b"<html>", "found content type 'text/html', expected audio"),
        (200, "audio/wav", b"not a wav", "not a RIFF WAV"),
    ],
)
async def test_a_bad_answer_is_a_speech_error(status: int, kind: str, body: bytes, expected: str) -> None:
    async with speech_server(lambda _: (status, kind, [body] if body else [])) as (url, _):
        voice = ServerVoice(url=url)
        with pytest.raises(SpeechError, match=expected):
            await voice.synthesise("hello", "en")
        await voice.aclose()


async def test_a_server_that_does_not_answer_is_timed_out() -> None:
    async with speech_server(None) as (url, _):
        voice = ServerVoice(url=url, timeout_s=0.05)
        with pytest.raises(SpeechError, match=r"no answer within 0\.05 s"):
            await voice.synthesise("hello", "en")
        await voice.aclose()


async def test_a_server_that_is_not_there_costs_a_reply_only_its_voice() -> None:
    async with speech_server(None) as (url, _):
        pass
    troubles: list[SpeechTrouble] = []
    queue = open_speech(url, on_trouble=troubles.append)
    made = await queue.speak("hello", "en")
    await queue.aclose()
    assert made.engine == "none"
    assert troubles[0].engine == url


async def test_an_endless_answer_is_cut_off() -> None:
    def endless(request: httpx.Request) -> httpx.Response:
        async def chunks() -> AsyncIterator[bytes]:
            while True:
                yield bytes(8 << 20)

        return httpx.Response(200, headers={"content-type": "audio/pcm"}, content=chunks())

    async with httpx.AsyncClient(transport=httpx.MockTransport(endless)) as client:
        with pytest.raises(SpeechError, match="larger than 64 MiB"):
            await ServerVoice(url="http://x/v1/audio/speech", client=client).synthesise("hello", "en")


# ---------------------------------------------------------------------------------------- URIs


async def test_uris_open_the_voices_they_name() -> None:
    espeak = open_speech("espeak:?voice=cmn+f2&rate=160").voice
    assert espeak == EspeakVoice(voice="cmn+f2", rate=160)
    assert isinstance(open_speech("none:").voice, SilentVoice)
    server = open_speech("https://host/v1/audio/speech?format=mp3&timeout=5").voice
    assert isinstance(server, ServerVoice)
    assert (server.url, server.format, server.timeout_s) == ("https://host/v1/audio/speech", "mp3", 5.0)
    await server.aclose()


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("loud:", ["expected espeak:, none: or http"]),
        ("espeak:?rate=9000&pich=3", ["found '9000', expected a number from 80 to 450", "unknown option"]),
        (
            "http://user:pw@host/v1?speed=x",
            ["expected a number from 0.25 to 4", "without a user or password"],
        ),
    ],
)
def test_all_faults_of_a_uri_are_named_at_once(uri: str, expected: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        open_speech(uri)
    assert len(caught.value.problems) == len(expected)
    for part in expected:
        assert part in str(caught.value)


def test_a_password_in_a_uri_is_not_repeated() -> None:
    with pytest.raises(InputError) as caught:
        open_speech("http://user:pw@host/v1?speed=x&other=1")
    assert len(caught.value.problems) == 3
    assert "pw" not in str(caught.value)
