"""Decoding by a transformers model: rows that join and leave a batch, what they share read once, drafts checked.

This is what runs in the worker thread of `livery.policies.hf`; it knows ids, and nothing of requests or turns.
"""

from __future__ import annotations

import importlib
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from livery.errors import InputError
from livery.policies.hf_draft import Drafter, DraftHead
from livery.policies.hf_loading import ChatTokenizer, partial_layers
from livery.policies.hf_prefixes import WORTH, Prefixes, common, sharing
from livery.policies.hf_slots import Slots

torch: Any = importlib.import_module("torch")
Tensor = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class HfOptions:
    model: str = ""
    """A folder, a hub name or a GGUF file; empty: the embedded model."""
    loras: tuple[tuple[Path, float], ...] = ()
    """LoRA folders (peft) with their scales, merged into the weights."""
    batch: int = 16
    """Most turns decoded together."""
    context: int = 4096
    """Most tokens of a conversation, the new turn included."""
    temperature: float = 0.2
    """0: the likeliest token always."""
    top_p: float = 0.9
    dtype: str = "float32"
    device: str = "cpu"
    prefix_mib: int = 512
    """Memory for the keys and values of beginnings; 0: none are kept."""
    draft: Path | None = None
    """Folder of a draft head for the model with its adapters (`livery train draft`)."""
    draft_tokens: int = 3
    """Tokens that the head guesses before the model checks them."""


@dataclass(slots=True, eq=False)
class Row:
    """One turn while it is being made."""

    prompt: tuple[int, ...]
    limit: int
    generator: Any
    stop: threading.Event = field(default_factory=threading.Event)
    done: Future[None] = field(default_factory=Future[None])
    ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    cached: int = 0
    drafted: int = 0
    accepted: int = 0
    finish: Literal["stop", "length"] = "length"
    asked_at: float = field(default_factory=time.perf_counter)
    taken_at: float = 0.0
    first_at: float = 0.0
    ended_at: float = 0.0

    @property
    def read(self) -> tuple[int, ...]:
        """Ids whose keys and values are known once the row has left the batch."""
        return self.prompt + tuple(self.ids[:-1])


class Decoder:
    """The batch: rows, and their keys and values in `Slots`.

    Columns of padding are masked, and positions count only real tokens, so that a row's result does not depend
    on its neighbours beyond rounding.
    """

    def __init__(
        self, model: Any, tokenizer: ChatTokenizer, options: HfOptions, draft: DraftHead | None = None
    ) -> None:
        odd = partial_layers(model)
        if odd:
            raise InputError.at(
                str(getattr(model.config, "model_type", "model")),
                f"layers of kind {odd}; expected full attention in all; serve the model with vLLM or "
                "SGLang and use openai:http://...",
                code="model-attention",
            )
        self._model = model
        self._tokenizer = tokenizer
        self._options = options
        self._prefixes = Prefixes(options.prefix_mib << 20)
        self.rows: list[Row] = []
        self._slots = Slots()
        """Of ``rows``, in their order."""
        self.halt = threading.Event()
        self._drafter = Drafter(draft.eval()) if draft else None
        self.checks = 0

    def forget(self) -> None:
        self._prefixes.clear()
        if self._drafter:
            self._drafter.head.renew()

    def drop(self) -> None:
        self.rows, self._slots = [], Slots()

    def step(self, new: list[Row]) -> list[Row]:
        """Let ``new`` in, or else sample one token for each row. Returns the rows that ended."""
        training = self._model.training
        if training:
            self._model.eval()
        try:
            with torch.no_grad():
                return self._step(new)
        finally:
            if training:
                self._model.train()

    def _step(self, new: list[Row]) -> list[Row]:
        ended = self._leave([row for row in self.rows if self._over(row)])
        fresh = [row for row in new if not self._over(row)]
        gone = [row for row in new if row not in fresh]
        if fresh:
            self._admit(fresh)
        elif self.rows and self._drafter:
            self._draft_and_check(self._drafter)
        elif self.rows:
            ids = torch.tensor([[row.ids[-1]] for row in self.rows])
            lengths = [len(row.prompt) + len(row.ids) - 1 for row in self.rows]
            real = torch.ones(len(self.rows), 1, dtype=torch.long)
            self._sample(self._forward(self._slots, ids, real, lengths), self.rows)
        return [*ended, *gone, *self._leave([row for row in self.rows if self._ended(row)])]

    def _over(self, row: Row) -> bool:
        return row.stop.is_set() or self.halt.is_set()

    def _ended(self, row: Row) -> bool:
        if row.ids and (row.ids[-1] in self._tokenizer.ends or row.ids[-1] == self._tokenizer.start):
            row.finish = "stop"
            return True
        return len(row.ids) >= row.limit

    def _admit(self, new: list[Row]) -> None:
        now = time.perf_counter()
        for row in new:
            row.taken_at = now
        for group in sharing([row.prompt for row in new]):
            self._evaluate_shared([new[i].prompt for i in group])
        known = [self._prefixes.longest(row.prompt, len(row.prompt) - 1) for row in new]
        for row, (length, _) in zip(new, known, strict=True):
            row.cached = length
        slots = Slots.of([kv for _, kv in known], [length for length, _ in known])
        logits = self._read(slots, [row.prompt[row.cached :] for row in new], [row.cached for row in new])
        self._sample(logits, new)
        if self.rows:
            self._slots.join(slots)
        else:
            self._slots = slots
        self.rows = [*self.rows, *new]

    def _evaluate_shared(self, prompts: list[tuple[int, ...]]) -> None:
        """Compute the common beginning of prompts once, and keep it."""
        length = min(common(prompts[0], p) for p in prompts)
        length = min(length, *(len(p) - 1 for p in prompts))
        have, kv = self._prefixes.longest(prompts[0], length)
        if length - have < WORTH or not self._prefixes.limit:
            return
        slots = Slots.of([kv], [have])
        self._read(slots, [prompts[0][have:length]], [have])
        self._prefixes.keep(prompts[0][:length], slots.row(0))

    def _read(self, slots: Slots, ids: list[tuple[int, ...]], lengths: list[int]) -> Tensor:
        """Evaluate the rows' new ids, padded on the left. Returns logits after the last (rows,
        vocabulary)."""
        most = max(len(i) for i in ids)
        padded = torch.tensor([[self._tokenizer.pad] * (most - len(i)) + list(i) for i in ids])
        real = torch.tensor([[0] * (most - len(i)) + [1] * len(i) for i in ids])
        return self._forward(slots, padded, real, lengths)

    def _forward(self, slots: Slots, ids: Tensor, real: Tensor, lengths: list[int]) -> Tensor:
        """
        Args:
            ids: (rows, new columns).
            real: same shape, 1 where a column holds an id.
            lengths: tokens of each row that are known already.
        """
        positions = (torch.tensor(lengths)[:, None] + real.cumsum(1) - 1).clamp(min=0)
        mask = slots.extend(real)
        if self._drafter is None:
            logits = self._logits(slots, ids, mask, positions, 1)
        else:
            with self._drafter.watching() as seen:
                logits = self._logits(slots, ids, mask, positions, 1)
            self._drafter.read(slots, ids, real, positions, seen[0], layer=True)
        slots.computed(mask)
        return logits[:, -1]

    def _logits(self, slots: Slots, ids: Tensor, mask: Tensor, positions: Tensor, keep: int) -> Tensor:
        """Logits of the last ``keep`` columns, (rows, keep, vocabulary)."""
        device = self._model.device
        out = self._model(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            position_ids=positions.to(device),
            cache=slots.cache,
            use_cache=True,
            logits_to_keep=keep,
        )
        return out.logits[:, -keep:].float().cpu()

    def _draft_and_check(self, drafter: Drafter) -> None:
        """Append to each row what it would have sampled anyway: the guesses that agree, and the token after them."""
        rows, slots = self.rows, self._slots
        lengths = [len(row.prompt) + len(row.ids) - 1 for row in rows]
        # The token that ends a turn for its length is not guessed.
        most = min(self._options.draft_tokens, max(row.limit - len(row.ids) for row in rows) - 1)
        guesses = drafter.propose(slots, [row.ids[-1] for row in rows], lengths, most)
        ids = torch.tensor([[row.ids[-1], *guess] for row, guess in zip(rows, guesses, strict=True)])
        wide = ids.shape[1]
        positions = torch.tensor(lengths)[:, None] + torch.arange(wide)
        with drafter.watching() as seen:
            logits = self._logits(slots, ids, slots.extend(torch.ones_like(ids)), positions, wide)
        kept = [self._check(*each) for each in zip(rows, logits, guesses, strict=True)]
        # Columns of guesses that were wrong become padding, or go where no row needs them.
        real = (torch.arange(wide) < torch.tensor(kept)[:, None]).long()
        most_kept = max(kept)
        # With no guess accepted the head's own layer knows all: it read the pending token when it began to guess.
        drafter.read(slots, ids, real, positions, seen[0], layer=most_kept > 1 or wide == 1)
        slots.computed(slots.extend(real)[:, : slots.columns + most_kept])
        slots.tidy()

    def _check(self, row: Row, scores: Tensor, guesses: list[int]) -> int:
        """Sample the row's next tokens from scores (guesses + 1, vocabulary) for as long as they are the guessed ones.
        Returns how many were sampled."""
        self.checks += 1
        row.drafted += len(guesses)
        taken = 0
        for score, guess in zip(scores, [*guesses, -1], strict=True):
            self._append(row, score, torch.log_softmax(score, dim=-1))
            taken += 1
            row.accepted += row.ids[-1] == guess
            if row.ids[-1] != guess or self._ended(row):
                break
        return taken

    def _sample(self, logits: Tensor, rows: list[Row]) -> None:
        """Append one token and its log-probability (of the model's own distribution, temperature 1) to each
        row."""
        logprobs = torch.log_softmax(logits, dim=-1)
        now = time.perf_counter()
        for row, scores, logprob in zip(rows, logits, logprobs, strict=True):
            row.first_at = row.first_at or now
            if row.limit == 0:
                continue
            self._append(row, scores, logprob)

    def _append(self, row: Row, scores: Tensor, logprobs: Tensor) -> None:
        token = self._choose(scores, row.generator)
        row.ids.append(token)
        row.logprobs.append(float(logprobs[token]))

    def _choose(self, scores: Tensor, generator: Any) -> int:
        options = self._options
        if options.temperature == 0:
            return int(scores.argmax())
        shares = torch.softmax(scores / options.temperature, dim=-1)
        if options.top_p < 1:
            ordered, order = shares.sort(descending=True)
            # The likeliest tokens whose sum first reaches top_p.
            ordered[(ordered.cumsum(0) - ordered) >= options.top_p] = 0
            return int(order[torch.multinomial(ordered, 1, generator=generator)])
        return int(torch.multinomial(shares, 1, generator=generator))

    def _leave(self, rows: list[Row]) -> list[Row]:
        """Take rows out of the batch; what was read of them is kept as a prefix."""
        if not rows:
            return []
        # From the end: a row that leaves gives its place to the last one.
        for i in reversed(range(len(self.rows))):
            row = self.rows[i]
            if row not in rows:
                continue
            if self._prefixes.limit:
                self._prefixes.keep(row.read if row.ids else row.prompt, self._slots.row(i))
            self._slots.leave(i)
            last = self.rows.pop()
            if i < len(self.rows):
                self.rows[i] = last
        if not self.rows:
            self._slots = Slots()
        return rows
