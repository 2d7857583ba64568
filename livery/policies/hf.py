"""The policy for transformers models: many rooms' turns in one batch, in this process.

Calls that are made at the same time are decoded together. A request that comes while others run joins them
after the token in hand, and a finished one leaves; nobody waits for the slowest. What several requests share
at their beginning (a harness's prompt, the earlier turns of a conversation, the prompt of a group of
rollouts) is evaluated once and kept as keys and values, up to a limit of memory. A conversation goes on by
appending ids: what was sampled is never decoded and encoded again. Actions are text (`livery.policies.wire`),
not bound by a grammar. With a draft head (`livery.policies.hf_draft`) the next tokens are guessed and checked in one
pass: each token is still chosen from the model's own scores, by the same random numbers, so that what is written is
what would have been written without it, up to rounding.

Not here: models whose layers keep a state other than keys and values of every token (sliding windows, linear
attention), and speed on many GPUs: serve those with vLLM or SGLang and use `livery.policies.endpoint`.
"""

from __future__ import annotations

import asyncio
import importlib
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from livery.errors import PolicyOverflow, PolicyTimeout, PolicyUnavailable
from livery.policies import wire
from livery.policies.hf_decoding import Decoder, HfOptions, Row
from livery.policies.hf_draft import DraftHead
from livery.policies.hf_loading import (
    ChatTokenizer,
    load_model,
    load_tokenizer,
    weights_digest,
)
from livery.policies.policy import PolicyRequest, PromptMessage, Warmed
from livery.policies.token_turns import prompt_ids, turn_of
from livery.types import PolicyTurn, Timing

torch: Any = importlib.import_module("torch")
Tensor = Any


class HfPolicy:
    """See the module. Use one instance from one event loop."""

    actions: Literal["text", "native"] = "text"

    def __init__(
        self,
        model: Any,
        tokenizer: ChatTokenizer,
        options: HfOptions | None = None,
        *,
        draft: DraftHead | None = None,
        uri: str = "hf:",
        weights: str = "unnamed",
    ) -> None:
        """
        Args:
            model: a causal language model of transformers; put into evaluation mode while it generates and
                then back. While it is trained in the same process, generate and train in turns and call
                `renew` between.
            options: only its sampling, batch, context, memory and draft settings are used here.
            draft: a head of this very ``model``.
            weights: the version that turns report.

        Raises:
            InputError: a model with layers that this policy cannot batch.
        """
        self.uri = uri
        self.weights = weights
        self._options = options or HfOptions()
        self._tokenizer = tokenizer
        self._decoder = Decoder(model, tokenizer, self._options, draft)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="hf")
        self._lock = threading.Lock()
        self._waiting: list[Row] = []
        self._serving = False
        self._idle = threading.Event()
        self._idle.set()
        self._closed = False

    @classmethod
    def open(cls, options: HfOptions | None = None, *, uri: str = "hf:") -> HfPolicy:
        """Load what the options name. Blocks meanwhile.

        Raises:
            InputError: a file is missing, or is not what was expected.
        """
        options = options or HfOptions()
        tokenizer = load_tokenizer(options.model)
        model = load_model(options.model, dtype=options.dtype, device=options.device, adapters=options.loras)
        draft = DraftHead.load(options.draft, model) if options.draft else None
        weights = weights_digest(options.model, options.loras)
        return cls(model, tokenizer, options, draft=draft, uri=uri, weights=weights)

    @property
    def checks(self) -> int:
        """How often drafts of a row were checked, in all turns so far: tokens written for each are the accepted
        length."""
        return self._decoder.checks

    def renew(self, weights: str) -> None:
        """The model's weights were changed: forget what was computed with the old ones.

        Waits for turns that were cancelled and are still being made.

        Raises:
            RuntimeError: a turn is waiting to begin.
        """
        with self._lock:
            if self._waiting:
                raise RuntimeError("renew() while turns wait: finish them first")
        self._idle.wait()
        self._decoder.forget()
        self.weights = weights

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        prompt = self._prompt(request)
        context = self._options.context
        room = context - len(prompt)
        if room < 1:
            raise PolicyOverflow(f"the conversation has {len(prompt)} tokens, and the context is {context}")
        seed = secrets.randbits(62) if request.seed is None else request.seed
        generator = torch.Generator()
        # The loop gives one seed for a whole conversation: another stream for each of its turns.
        generator.manual_seed((seed * 1_000_003 + len(prompt)) % 2**63)
        row = Row(prompt, min(request.max_tokens, room), generator)
        try:
            async with asyncio.timeout(request.timeout_s):
                await self._run(row)
        except TimeoutError:
            raise PolicyTimeout(f"the model gave no turn within {request.timeout_s:.2f} s") from None
        return self._turn(request, row)

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> Warmed | None:
        """Evaluate a prefix and keep it, so that requests that begin with it pay only for what follows. None where it
        does not fit the context."""
        prompt = self.prefix_ids(messages)
        if not 0 < len(prompt) < self._options.context:
            return None
        began = time.perf_counter()
        row = Row(prompt, 0, torch.Generator())
        await self._run(row)
        return Warmed(tokens=len(prompt), cached=row.cached, prefill_s=time.perf_counter() - began)

    def prefix_ids(self, messages: tuple[PromptMessage, ...]) -> tuple[int, ...]:
        return self._tokenizer.encode(wire.segments(messages))

    def stop(self) -> None:
        """End the turns that are being made, and the worker. Blocks for a token's time."""
        with self._lock:
            self._closed = True
        self._decoder.halt.set()
        self._worker.shutdown()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.stop)

    async def _run(self, row: Row) -> None:
        with self._lock:
            if self._closed:
                raise PolicyUnavailable("the policy is closed")
            self._waiting.append(row)
            if not self._serving:
                self._serving = True
                self._idle.clear()
                # Not at once: calls that are made in the same turn of the event loop begin as one batch.
                asyncio.get_running_loop().call_soon(self._begin)
        try:
            await asyncio.shield(asyncio.wrap_future(row.done))
        except asyncio.CancelledError:
            row.stop.set()
            raise

    def _begin(self) -> None:
        with self._lock:
            if not self._closed:
                self._worker.submit(self._serve)
                return
            rows, self._waiting, self._serving = self._waiting, [], False
            self._idle.set()
        for row in rows:
            row.done.set_exception(PolicyUnavailable("the policy was closed before the request began"))

    def _prompt(self, request: PolicyRequest) -> tuple[int, ...]:
        return prompt_ids(self._tokenizer, request)

    def _turn(self, request: PolicyRequest, row: Row) -> PolicyTurn:
        return turn_of(
            self._tokenizer,
            request,
            prompt=row.prompt,
            ids=row.ids,
            logprobs=row.logprobs,
            cut=row.finish == "length",
            cached=row.cached,
            drafted=row.drafted,
            accepted=row.accepted,
            timing=Timing(
                total_s=row.ended_at - row.asked_at,
                queue_s=row.taken_at - row.asked_at,
                prefill_s=row.first_at - row.taken_at,
                decode_s=row.ended_at - row.first_at,
                first_token_s=row.first_at - row.asked_at,
            ),
        )

    # ------------------------------------------------------------------------- in the worker thread

    def _serve(self) -> None:
        """Make turns until nobody waits."""
        while True:
            with self._lock:
                free = self._options.batch - len(self._decoder.rows)
                new, self._waiting = self._waiting[:free], self._waiting[free:]
                if not new and not self._decoder.rows:
                    self._serving = False
                    self._idle.set()
                    return
            present = [*self._decoder.rows, *new]
            try:
                ended = self._decoder.step(new)
            except Exception as error:
                # Whatever the engine raises (memory, a device) is told to each caller, and the next call
                # starts anew.
                fault = PolicyUnavailable(f"{type(error).__name__}: {error}")
                self._decoder.drop()
                for row in present:
                    row.done.set_exception(fault)
                continue
            for row in ended:
                row.ended_at = time.perf_counter()
                if self._decoder.halt.is_set():
                    row.done.set_exception(PolicyUnavailable("the policy was closed during the request"))
                else:
                    row.done.set_result(None)
