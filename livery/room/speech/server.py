"""Any server that speaks the OpenAI speech protocol: ``POST .../v1/audio/speech`` with model, input, voice.

The answer is read as it streams in, bounded in size and time. WAV and raw PCM are decoded for length and
mouth; MP3, Opus, AAC and FLAC are passed through as they are, with an estimated length.
https://platform.openai.com/docs/api-reference/audio/createSpeech
"""

from __future__ import annotations

from dataclasses import dataclass, field

import httpx

from livery.room.speech.silent import estimated_s
from livery.room.speech.voice import SpeechError, Utterance, read_wav, utterance_of

_LARGEST = 64 << 20
"""Bytes of one answer; half an hour of WAV."""
_PASSED_THROUGH = {
    "audio/mpeg": "audio/mpeg",
    "audio/mp3": "audio/mpeg",
    "audio/ogg": "audio/ogg",
    "audio/opus": "audio/ogg",
    "audio/aac": "audio/aac",
    "audio/flac": "audio/flac",
}
_WAV = ("audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave")
_PCM = ("audio/pcm", "audio/l16", "audio/raw")
_OPENAI_PCM_RATE = 24_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerVoice:
    """A ``/v1/audio/speech`` server as a `Voice`."""

    url: str
    """Where to post, without a query."""
    model: str = "tts-1"
    voice: str = "alloy"
    format: str = "wav"
    """``response_format`` to ask for."""
    speed: float = 1.0
    key: str = field(default="", repr=False)
    """Bearer token; empty sends none."""
    timeout_s: float = 20.0
    """For the whole answer; the connection itself has a quarter of it."""
    client: httpx.AsyncClient = field(default_factory=httpx.AsyncClient, repr=False)

    @property
    def name(self) -> str:
        return self.url

    async def synthesise(self, text: str, language: str) -> Utterance:
        request: dict[str, str | float] = {
            "model": self.model,
            "input": text,
            "voice": self.voice,
            "response_format": self.format,
        }
        if self.speed != 1.0:
            request["speed"] = self.speed
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        limits = httpx.Timeout(self.timeout_s, connect=self.timeout_s / 4)
        try:
            async with self.client.stream("POST", self.url, json=request, headers=headers, timeout=limits) as answer:
                body = await self._body(answer)
                kind = answer.headers.get("content-type", "")
        except httpx.TimeoutException:
            raise SpeechError(f"{self.name}: no answer within {self.timeout_s:g} s") from None
        except httpx.HTTPError as error:
            raise SpeechError(f"{self.name}: {error or type(error).__name__}") from error
        return self._utterance(body, kind, text)

    async def _body(self, answer: httpx.Response) -> bytes:
        data = bytearray()
        async for chunk in answer.aiter_bytes():
            data += chunk
            if len(data) > _LARGEST:
                raise SpeechError(f"{self.name}: the answer is larger than {_LARGEST >> 20} MiB")
        if answer.status_code != 200:
            said = data[:300].decode("utf-8", errors="replace").strip()
            raise SpeechError(f"{self.name}: status {answer.status_code}: {said or 'no reason given'}")
        if not data:
            raise SpeechError(f"{self.name}: an empty answer; expected audio")
        return bytes(data)

    def _utterance(self, body: bytes, content_type: str, text: str) -> Utterance:
        kind, _, parameters = content_type.lower().partition(";")
        kind = kind.strip()
        if kind in _WAV or body[:4] == b"RIFF":
            return read_wav(body, self.name)
        if kind in _PCM or (kind in ("", "application/octet-stream") and self.format == "pcm"):
            return utterance_of(body[: len(body) // 2 * 2], _pcm_rate(parameters), self.name)
        if kind in _PASSED_THROUGH:
            return Utterance(
                audio=body,
                duration_s=estimated_s(text) / self.speed,
                media_type=_PASSED_THROUGH[kind],
                engine=self.name,
            )
        raise SpeechError(f"{self.name}: found content type {kind or 'none'!r}, expected audio")

    async def aclose(self) -> None:
        await self.client.aclose()


def _pcm_rate(parameters: str) -> int:
    """Hz from ``rate=22050`` beside the content type; OpenAI's raw PCM is 24 kHz."""
    for parameter in parameters.split(";"):
        key, _, value = parameter.strip().partition("=")
        if key in ("rate", "sample-rate", "samplerate") and value.isdigit() and int(value):
            return int(value)
    return _OPENAI_PCM_RATE
