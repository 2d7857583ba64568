"""The embedded policy: a ChatML model in this process, through llama.cpp (`livery.policies.engine`).

Prompts go in as token ids and turns come back as token ids; a conversation is continued by appending to them.
Generation runs in worker threads, one per slot, and is told to stop after the batch or token in hand, so
neither a slow model nor a cancelled request holds up the event loop. What the model may write is bound by a
grammar of the tools at hand. Only special tokens that this code places are special: chat text is tokenised as
plain text.

Not here: batching over many requests (a server does that better: `livery.policies.endpoint`), and chat
formats other than ChatML.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from livery.errors import InputError, PolicyOverflow, PolicyTimeout, PolicyUnavailable
from livery.policies import wire
from livery.policies.engine import Adapters, Engine, Generated, measured_threads
from livery.policies.gguf import read_header
from livery.policies.grammar import STRING_CHARS, grammar
from livery.policies.lookup import LONGEST_DRAFT
from livery.policies.model_file import ensure_model, sha256_of
from livery.policies.policy import PolicyRequest, PromptMessage, Warmed
from livery.types import PolicyTurn, Timing, TokenTrace, Usage

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaCppOptions:
    model: Path | None = None
    """A GGUF file; None is the embedded model, fetched where missing."""
    loras: Adapters = ()
    """LoRA adapters (GGUF) with their scales, applied together."""
    threads: int = 0
    """0: measured at first start and remembered."""
    slots: int = 1
    """Requests that run side by side, each with its own prefix cache."""
    context: int = 4096
    """Tokens per slot."""
    temperature: float = 0.2
    top_p: float = 0.9
    reply_chars: int = 400
    """Longest reply that the grammar lets pass."""
    parallel_calls: int = 0
    """Most calls in one turn. 0: one for the embedded model as it is, which only repeats the first and pays
    for each token, and four for a model of the user's own or with an adapter."""
    constrained: bool = True
    """False drops the grammar: for measuring what it costs and how a model does without."""
    lookup: int = 0
    """Longest draft of prompt-lookup decoding (`livery.policies.lookup`), in tokens; 0: off."""
    progress: bool = True
    """A bar while the embedded model downloads."""


class LlamaCppPolicy:
    """Made by `open`; see the module."""

    actions: Literal["text", "native"] = "text"

    def __init__(self, engine: Engine, options: LlamaCppOptions, *, uri: str, weights: str) -> None:
        self.uri = uri
        self.weights = weights
        self._engine = engine
        self._options = options
        untrained = options.model is None and not options.loras
        self._parallel_calls = options.parallel_calls or (1 if untrained else 4)
        self._slots = Slots(options.slots)
        self._workers = ThreadPoolExecutor(options.slots, thread_name_prefix="llamacpp")
        self._running: set[threading.Event] = set()
        self._warming: set[threading.Event] = set()
        """Of ``_running``, those that only read a prefix ahead."""
        self._stopped = False

    @classmethod
    def open(cls, options: LlamaCppOptions | None = None, *, uri: str = "llamacpp:") -> LlamaCppPolicy:
        """Load the model (the first time also fetch it and measure threads). Blocks meanwhile.

        Raises:
            InputError: a file is missing or is no ChatML GGUF.
            ModelFileError: the embedded model could not be fetched.
        """
        options = options or LlamaCppOptions()
        path = options.model or ensure_model(progress=options.progress)
        for file in (path, *(lora for lora, _ in options.loras)):
            if not file.is_file():
                raise InputError.at(file, "no such file; expected a GGUF model or adapter", code="model-missing")
        for lora, _ in options.loras:
            if read_header(lora).fields.get("adapter.type") != "lora":
                raise InputError.at(lora, "not a LoRA adapter; expected a GGUF of adapter.type lora", code="lora")
        if not 0 <= options.lookup <= LONGEST_DRAFT:
            message = f"found {options.lookup}; expected 0 (off) to {LONGEST_DRAFT} tokens a draft"
            raise InputError.at(uri, message, field="lookup", code="lookup")
        weights = weights_version(path, options.loras)
        threads = options.threads or measured_threads(path, weights)
        engine = Engine(
            path,
            loras=options.loras,
            threads=threads,
            slots=options.slots,
            context=options.context,
            lookup=options.lookup,
        )
        return cls(engine, options, uri=uri, weights=weights)

    @property
    def threads(self) -> int:
        return self._engine.threads

    @property
    def busy(self) -> int:
        """Generations that run now."""
        return len(self._running)

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(request.timeout_s):
                if not self._slots.free:
                    self._make_way()
                slot = await self._slots.take(request.session, _prefix(request.messages))
                queued = time.perf_counter() - began
                prompt, done = await self._in_slot(slot, lambda stop: self._generate(request, slot, stop))
        except TimeoutError:
            raise PolicyTimeout(f"the embedded model gave no turn within {request.timeout_s:.2f} s") from None
        if done.finish == "aborted":
            raise PolicyUnavailable("the embedded model was closed during the request")
        return self._turn(request, prompt, done, queued_s=queued, began=began)

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> Warmed:
        """Evaluate a prefix into a slot of the session, so that its next request pays only for what follows.

        Requests go first: it waits for a slot behind all of them, and gives its slot up to one that would have to
        wait. What it had read by then stays; it goes on when a slot is free again.

        Raises:
            PolicyUnavailable: the policy was closed.
        """
        started: list[int] = []
        spent_s = 0.0

        def prefill(stop: threading.Event) -> tuple[int, Generated, float | None]:
            began = time.perf_counter()
            ids = self.prefix_ids(messages)
            done = self._engine.generate(ids, stop, on_chunk=seen, n_predict=0, id_slot=slot)
            return len(ids), done, time.perf_counter() - began if stop.is_set() else None

        def seen(event: Mapping[str, Any]) -> None:
            if "prompt_progress" in event:
                started.append(int(event["prompt_progress"].get("cache", 0)))

        while not self._stopped:
            slot = await self._slots.take(session, _prefix(messages), warming=True)
            tokens, done, ended_after_s = await self._in_slot(slot, prefill, warming=True)
            if ended_after_s is None:
                cached = started[0] if started else done.cached
                return Warmed(tokens=tokens, cached=cached, prefill_s=spent_s + done.prefill_s)
            spent_s += ended_after_s
        raise PolicyUnavailable("the embedded model was closed while it read a prefix")

    def prefix_ids(self, messages: tuple[PromptMessage, ...]) -> tuple[int, ...]:
        return self._engine.encode(wire.segments(messages))

    def _make_way(self) -> None:
        """End one reading ahead, for a request that would have to wait for its slot."""
        for stop in tuple(self._warming):
            if not stop.is_set():
                stop.set()
                return

    def stop(self) -> None:
        """End the generations that run and the workers, and leave the engine loaded. Blocks for a step's
        time."""
        self._stopped = True
        for stop in tuple(self._running):
            stop.set()
        self._workers.shutdown()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.stop)
        await asyncio.to_thread(self._engine.close)

    async def _in_slot(self, slot: int, job: Callable[[threading.Event], T], *, warming: bool = False) -> T:
        """Run ``job`` in a worker. The slot is freed when the worker has really ended, also after
        cancellation."""
        loop = asyncio.get_running_loop()
        stop = threading.Event()

        def ended(_: Future[T]) -> None:
            self._running.discard(stop)
            self._warming.discard(stop)
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._slots.give, slot)

        self._running.add(stop)
        if warming:
            self._warming.add(stop)
        work = self._workers.submit(job, stop)
        work.add_done_callback(ended)
        try:
            return await asyncio.shield(asyncio.wrap_future(work))
        except asyncio.CancelledError:
            stop.set()
            raise

    # --------------------------------------------------------------------------- in a worker thread

    def _generate(self, request: PolicyRequest, slot: int, stop: threading.Event) -> tuple[tuple[int, ...], Generated]:
        ids = self._prompt(request)
        room = self._engine.context - len(ids)
        if room < 1:
            raise PolicyOverflow(f"the conversation has {len(ids)} tokens, and the context is {self._engine.context}")
        bound = ""
        if self._options.constrained:
            bound = grammar(
                request.tools,
                allow_calls=request.allow_calls,
                allow_reply=request.allow_reply,
                reasoning=request.reasoning,
                parallel_calls=self._parallel_calls,
                reply_chars=self._options.reply_chars,
                # A call must end within the turn's tokens to be read at all.
                string_chars=max(16, min(STRING_CHARS, request.max_tokens // 2)),
            )
        done = self._engine.generate(
            ids,
            stop,
            id_slot=slot,
            n_predict=min(request.max_tokens, room),
            grammar=bound,
            temperature=self._options.temperature,
            top_p=self._options.top_p,
            seed=-1 if request.seed is None else request.seed % 2**31,
        )
        return ids, done

    def _prompt(self, request: PolicyRequest) -> tuple[int, ...]:
        """The conversation's ids: what the model read and sampled before, as it was, and the rest after
        it."""
        previous = request.previous.tokens if request.previous else None
        seen = request.previous_messages
        if previous is None or seen >= len(request.messages) or request.messages[seen].role != "assistant":
            return self._engine.encode(wire.segments(request.messages, generate=True))
        before = previous.prompt_ids + previous.output_ids
        rest = wire.segments(request.messages[seen + 1 :], generate=True)
        return before + self._engine.encode((*self._engine.closing(before), *rest))

    def _turn(
        self,
        request: PolicyRequest,
        prompt: tuple[int, ...],
        done: Generated,
        *,
        queued_s: float,
        began: float,
    ) -> PolicyTurn:
        parsed = wire.parse_turn(done.text, first_call=wire.calls_so_far(request.messages))
        # The grammar's own limit stops a reply in the middle of a sentence, just as the token limit does.
        said = done.text.rpartition("</think>")[2].lstrip()
        bounded = self._options.constrained and not parsed.calls and len(said) >= self._options.reply_chars
        cut = done.finish == "length" or bounded
        if cut:
            parsed = parsed.whole()
        stop = parsed.stop(cut=cut)
        trace = None
        if done.ids is not None:
            trace = TokenTrace(prompt_ids=prompt, output_ids=done.ids, logprobs=done.logprobs)
        return PolicyTurn(
            calls=parsed.calls,
            text=parsed.reply,
            reasoning=parsed.reasoning,
            stop=stop,
            usage=Usage(
                prompt=len(prompt),
                cached=done.cached,
                output=done.output,
                reasoning=done.reasoning,
                drafted=done.drafted,
                accepted=done.accepted,
            ),
            timing=Timing(
                total_s=time.perf_counter() - began,
                queue_s=queued_s,
                prefill_s=done.prefill_s,
                decode_s=done.decode_s,
                first_token_s=max(0.0, done.first_at - began),
            ),
            tokens=trace,
        )


def weights_version(model: Path, loras: Adapters = ()) -> str:
    """16 hexadecimal digits: the model's SHA-256, or one over it and the adapters with their scales."""
    base = sha256_of(model)
    if not loras:
        return base[:16]
    parts = [base, *(f"{sha256_of(path)}*{scale:g}" for path, scale in loras)]
    return hashlib.sha256("+".join(parts).encode()).hexdigest()[:16]


def _prefix(messages: Sequence[PromptMessage]) -> str:
    """What the requests of one release have in common, and those of another not: the system message."""
    return messages[0].content if messages and messages[0].role == "system" else ""


@dataclass(frozen=True, slots=True)
class _Waiter:
    key: tuple[str, str]
    """(session, prefix)."""
    turn: asyncio.Future[int]
    warming: bool


class Slots:
    """Which engine slot a session gets under a prefix: its own where free, else one that nobody used; else, of those
    that begin with the same prefix, the longest idle, and at last the longest idle of all.

    A room under two releases thus has a slot for each where there are enough; where there are not, the engine swaps
    prefixes with its memory of them (`livery.policies.engine.CACHE_MIB`). Lives in one event loop.
    """

    def __init__(self, count: int) -> None:
        self._free = list(range(count))
        """Longest idle first."""
        self._last: dict[int, tuple[str, str]] = {}
        self._waiting: list[_Waiter] = []

    @property
    def free(self) -> int:
        return len(self._free)

    async def take(self, session: str, prefix: str = "", *, warming: bool = False) -> int:
        """A slot, when there is one.

        Args:
            warming: to read a prefix ahead: comes after every request, and looks for a slot that does not hold the
                prefix for another session.
        """
        key = (session, prefix)
        if self._free:
            slot = self._fitting(key, warming)
            self._free.remove(slot)
        else:
            turn: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            waiter = _Waiter(key, turn, warming)
            self._waiting.append(waiter)
            try:
                slot = await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self.give(turn.result())  # it came at the same moment: pass it on
                elif waiter in self._waiting:
                    self._waiting.remove(waiter)
                raise
        self._last[slot] = key
        return slot

    def _fitting(self, key: tuple[str, str], warming: bool) -> int:
        own = [s for s in self._free if self._last.get(s) == key]
        unused = [s for s in self._free if s not in self._last]
        fits = [s for s in self._free if s in self._last and (self._last[s][1] == key[1]) != warming]
        return (own or unused or fits or self._free)[0]

    def give(self, slot: int) -> None:
        self._waiting = [w for w in self._waiting if not w.turn.done()]
        if not self._waiting:
            self._free.append(slot)
            return
        first = [w for w in self._waiting if not w.warming] or self._waiting
        mine = next((w for w in first if w.key == self._last.get(slot)), first[0])
        self._waiting.remove(mine)
        mine.turn.set_result(slot)
