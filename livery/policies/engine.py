"""llama.cpp in this process: tokens in, tokens out, and how many threads suit this machine.

A thin, blocking layer over `xllamacpp.Server`, whose calls release the interpreter lock;
`livery.policies.llamacpp` runs it in worker threads. Tokenising goes through the server's own route on
loopback, behind a random key, since the bindings have no other; so does generation with prompt lookup
(`livery.policies.lookup`). No other route is for use.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import httpx

from livery.errors import InputError, PolicyOverflow, PolicyUnavailable
from livery.policies import lookup as prompt_lookup
from livery.policies.gguf import read_header
from livery.policies.model_file import cache_folder
from livery.policies.wire import END, START, Segment

xllamacpp: Any = importlib.import_module("xllamacpp")
"""A compiled module without type stubs."""

BATCH = 128
"""Prompt tokens evaluated at a time: a cancelled prefill stops at the next such step."""

CACHE_MIB = 512
"""Memory for prefixes that no slot holds now: other rooms, the other release of a split channel. A request
swaps its prefix back in some 10 ms; llama.cpp's own limit would be 8 GiB."""

Adapters = tuple[tuple[Path, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """One generation as the engine gave it. Times are seconds; ``first_at`` is on `time.perf_counter`'s
    clock."""

    text: str = ""
    ids: tuple[int, ...] | None = ()
    """Sampled ids with the end mark; None where the engine did not tell each of them (`Vocabulary.fill`)."""
    logprobs: tuple[float, ...] = ()
    """Of the unconstrained distribution at temperature 1, one per id; empty where one is not known."""
    finish: str = "stop"
    """"stop", "length", or "aborted"."""
    output: int = 0
    reasoning: int = 0
    cached: int = 0
    drafted: int = 0
    """Tokens guessed ahead by prompt lookup; 0 where it is off."""
    accepted: int = 0
    """Of ``drafted``, those that the model kept."""
    prefill_s: float = 0.0
    decode_s: float = 0.0
    first_at: float = 0.0


class Engine:
    """A loaded ChatML model with ``slots`` prefix caches. Safe to call from one thread per slot.

    Raises:
        InputError: not a GGUF of a ChatML model with a byte-level BPE vocabulary, or llama.cpp cannot load
        it.
    """

    def __init__(
        self,
        model: Path,
        *,
        loras: Adapters = (),
        threads: int,
        slots: int = 1,
        context: int = 4096,
        lookup: int = 0,
    ) -> None:
        """
        Args:
            threads: that compute, for all slots together.
            context: tokens per slot; at most what the model was made for.
            lookup: longest draft of prompt lookup; 0: off.
        """
        header = read_header(model)
        self.vocabulary = header.vocabulary()
        start, end = self.vocabulary.special(START), self.vocabulary.special(END)
        if start is None or end is None or not self.vocabulary.ids_of:
            raise InputError.at(
                model,
                f"expected a ChatML model ({START}, {END}) with a byte-level BPE vocabulary; serve other "
                "models with an OpenAI-compatible server and use openai:http://...",
                code="model-not-chatml",
            )
        self.threads = threads
        self.context = min(context, header.context_length or context)
        self._special = {START: start, END: end}
        self._ends = {end, self.vocabulary.special("<|endoftext|>")}
        self._start = start
        params = xllamacpp.CommonParams()
        params.model.path = str(model)
        params.n_ctx = self.context * slots
        params.n_parallel = slots
        params.n_batch = BATCH
        params.n_ubatch = BATCH
        params.cpuparams.n_threads = threads
        params.cpuparams_batch.n_threads = threads
        params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(path), scale) for path, scale in loras]
        params.cache_ram_mib = CACHE_MIB
        params.warmup = False
        params.verbosity = -1
        params.ui = False
        params.endpoint_slots = False
        self.lookup = lookup
        if lookup:
            prompt_lookup.set_up(params, xllamacpp.common_speculative_type, lookup)
        key = secrets.token_urlsafe(24)
        params.api_keys = [key]
        try:
            self._server = xllamacpp.Server(params)
        except RuntimeError as error:
            raise InputError.at(model, f"llama.cpp cannot load it ({error})", code="model-load") from error
        self._http = httpx.Client(
            base_url=self._server.listening_address,
            headers={"authorization": f"Bearer {key}"},
            timeout=30.0,
            trust_env=False,
        )
        self._tokenize = lru_cache(maxsize=4096)(self._tokenize_text)

    def close(self) -> None:
        self._http.close()
        del self._server

    def encode(self, segments: Iterable[Segment]) -> tuple[int, ...]:
        """Token ids. A special token in text that is not ``control`` becomes ordinary tokens."""
        out: list[int] = []
        plain = ""
        for segment in (*segments, Segment("", True)):
            if not segment.control:
                plain += segment.text
                continue
            # Text up to the next special token is one piece, as in the model's training.
            if plain:
                out += self._tokenize(plain)
                plain = ""
            if segment.text:
                out.append(self._special[segment.text])
        return tuple(out)

    def _tokenize_text(self, text: str) -> tuple[int, ...]:
        body = {"content": text, "add_special": False, "parse_special": False}
        answer = self._http.post("/tokenize", json=body)
        answer.raise_for_status()
        return tuple(answer.json()["tokens"])

    def closing(self, ids: tuple[int, ...]) -> tuple[Segment, ...]:
        """What must follow an assistant's sampled ids before the next message."""
        ended = bool(ids) and ids[-1] == self._special[END]
        return (Segment("\n"),) if ended else (Segment(END, True), Segment("\n"))

    def generate(
        self,
        ids: tuple[int, ...],
        stop: threading.Event,
        *,
        on_chunk: Callable[[Any], None] | None = None,
        **options: Any,
    ) -> Generated:
        """Sample from the model. Blocks; setting ``stop`` ends it within a token or a prompt batch.

        Args:
            ids: the prompt.
            on_chunk: sees each event of the engine's stream, in the calling thread.
            options: fields of llama.cpp's completion request (``n_predict``, ``id_slot``, ``grammar``, ...).

        Raises:
            PolicyOverflow: the prompt does not fit the context.
            PolicyUnavailable: the engine refused for another reason, or its connection broke.
        """
        stream = _Stream(self, stop, on_chunk)
        body = {
            "prompt": list(ids),
            "stream": True,
            "cache_prompt": True,
            "n_probs": 1,
            "return_progress": True,
            "timings_per_token": True,
            **options,
        }
        if self.lookup:
            try:
                prompt_lookup.completions(self._http, {**body, "return_tokens": True}, stream.read)
            except httpx.HTTPError as error:
                raise PolicyUnavailable(f"the embedded model's engine does not answer: {error}") from error
        else:
            stream.read(self._server.handle_completions(body, stream.read))
        return stream.result()

    def is_end(self, token: int) -> bool:
        return token in self._ends

    def is_start(self, token: int) -> bool:
        return token == self._start


class _Stream:
    """Puts a streamed completion together. `read` is llama.cpp's callback: True tells it to stop."""

    def __init__(self, engine: Engine, stop: threading.Event, on_chunk: Callable[[Any], None] | None) -> None:
        self._engine = engine
        self._stop = stop
        self._on_chunk = on_chunk
        self._text = ""
        self._ids: list[int] | None = []
        self._logprobs: list[float] | None = []
        self._reasoning = 0
        self._finish = "aborted"
        self._timings: Mapping[str, Any] = {}
        self._first_at = 0.0
        self._fault = ""
        self._overflow = False

    def read(self, chunk: Any) -> bool:
        if not isinstance(chunk, dict):
            return self._stop.is_set()
        event = cast("dict[str, Any]", chunk)
        if self._on_chunk is not None:
            self._on_chunk(event)
        if "error" in event:
            error: Mapping[str, Any] = event["error"]
            self._fault = str(error.get("message", error))
            self._overflow = error.get("type") == "exceed_context_size_error"
            return True
        self._timings = event.get("timings", self._timings)
        for choice in event.get("choices", ()):
            self._choice(choice)
        return self._stop.is_set()

    def _choice(self, choice: Mapping[str, Any]) -> None:
        self._finish = choice.get("finish_reason") or self._finish
        logprobs: Any = choice.get("logprobs") or {}
        shown: list[dict[str, Any]] = logprobs.get("content") or []
        if not shown:
            return
        self._first_at = self._first_at or time.perf_counter()
        entry = shown[-1]
        token = int(entry["id"])
        if self._engine.is_start(token):
            self._stop.set()  # it goes on to play another speaker
            self._finish = "stop"
        self._text += choice["text"]
        count = int(self._timings.get("predicted_n", 0))
        self._fill(choice["text"], token, count)
        if self._ids is not None:
            self._ids.append(token)
        if entry["logprob"] is None:
            self._logprobs = None  # what was drafted has none, and a turn has all or none
        elif self._logprobs is not None:
            self._logprobs.append(float(entry["logprob"]))
        if not self._reasoning and "</think>" in self._text:
            self._reasoning = count

    def _fill(self, text: str, token: int, count: int) -> None:
        """Work out the ids held back before ``token`` while they made no whole character."""
        if self._ids is None:
            return
        missing = count - len(self._ids) - 1
        if missing <= 0:
            return
        self._logprobs = None
        whole, last = text.encode(), self._engine.vocabulary.bytes_of[token]
        held = self._engine.vocabulary.fill(whole.removesuffix(last), missing) if whole.endswith(last) else None
        self._ids = None if held is None else [*self._ids, *held]

    def result(self) -> Generated:
        if self._overflow:
            raise PolicyOverflow(f"the embedded model's context is {self._engine.context}: {self._fault}")
        if self._fault:
            raise PolicyUnavailable(f"the embedded model refused the request: {self._fault}")
        output = int(self._timings.get("predicted_n", 0))
        ids = self._ids if self._ids is not None and len(self._ids) == output else None
        return Generated(
            text=self._text,
            ids=None if ids is None else tuple(ids),
            logprobs=() if ids is None or self._logprobs is None else tuple(self._logprobs),
            finish=self._finish,
            output=output,
            reasoning=self._reasoning,
            cached=int(self._timings.get("cache_n", 0)),
            drafted=int(self._timings.get("draft_n", 0)),
            accepted=int(self._timings.get("draft_n_accepted", 0)),
            prefill_s=float(self._timings.get("prompt_ms", 0.0)) / 1000,
            decode_s=float(self._timings.get("predicted_ms", 0.0)) / 1000,
            first_at=self._first_at,
        )


# -------------------------------------------------------------------------------------- threads


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measured_threads(model: Path, version: str, *, cores: int | None = None) -> int:
    """The thread count that is quickest here for this model: measured once, then read from the cache
    folder."""
    cores = cores or usable_cores()
    record = cache_folder() / "threads.json"
    key = f"{platform.node()}/{cores}/{version}/{xllamacpp.__version__}"
    known: dict[str, int] = json.loads(record.read_text()) if record.is_file() else {}
    if key not in known:
        known[key] = quickest_threads(cores, lambda threads: _trial(model, threads))
        record.parent.mkdir(parents=True, exist_ok=True)
        part = record.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(known, indent=1))
        part.replace(record)
    return known[key]


def quickest_threads(cores: int, seconds: Callable[[int], float]) -> int:
    """1, 2, 4, ... up to ``cores``, as long as more threads save at least a twentieth of the time."""
    best, least = 1, seconds(1)
    for threads in [
        *(2**i for i in range(1, cores.bit_length()) if 2**i < cores),
        *([cores] if cores > 1 else []),
    ]:
        taken = seconds(threads)
        if taken > 0.95 * least:
            break
        best, least = threads, taken
    return best


def _trial(model: Path, threads: int) -> float:
    """Seconds for a short prefill and decode, loading left out."""
    engine = Engine(model, threads=threads, context=512)
    try:
        ids = engine.encode([Segment(" ".join(f"item {n} costs {n * 7}" for n in range(24)))])[:160]
        generated = engine.generate(ids, threading.Event(), n_predict=16, ignore_eos=True, temperature=0)
    finally:
        engine.close()
    return generated.prefill_s + generated.decode_s
