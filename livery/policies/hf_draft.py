"""A draft head for `livery.policies.hf`: one layer that guesses the tokens after the next, for the model to check.

The head is a layer of the model's own kind. Its input at place t is the model's last hidden state at t-1 joined with
the embedding of token t, and its output, under the model's own final norm and unembedding, is a guess of token t+1: the
module of DeepSeek-V3's multi-token prediction (arXiv 2412.19437, section 2.2), which is also how EAGLE drafts (arXiv
2401.15077). Guessing further, it reads its own output in place of a hidden state that is not known yet. The model then
reads the guesses in one pass and keeps those that it would have written itself (Leviathan et al., arXiv 2211.17192).

What a place of the head depends on is known with the place's own token, so its keys and values stand in
`livery.policies.hf_slots.Slots` as one more layer, and are cached, shared and moved as those of the model are. Behind
it stands another layer with the hidden states themselves.

Not here: training (`livery.training.draft`), and trees of guesses.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from livery.errors import InputError
from livery.policies.hf_slots import Slots

torch: Any = importlib.import_module("torch")
_masks: Any = importlib.import_module("transformers.masking_utils")
Tensor = Any

SCHEMA = "livery.draft/1"
CARD = "draft.json"
WEIGHTS = "head.safetensors"
Start = Literal["last", "fresh"]


def core_of(model: Any) -> Any:
    """The layers of a causal language model without its head; through a peft model as well.

    Raises:
        InputError: it is not built as Llama is.
    """
    plain = model.get_base_model() if hasattr(model, "get_base_model") else model
    core = plain.base_model
    lacking = [name for name in ("layers", "norm", "rotary_emb") if not hasattr(core, name)]
    if lacking or not plain.get_output_embeddings():
        raise InputError.at(
            str(getattr(model.config, "model_type", "model")),
            f"has no {', '.join(lacking) or 'unembedding'} of its own; expected a model built as Llama is: decoder "
            "layers, a final norm, rotary positions and an unembedding",
            code="draft-model",
        )
    return core


class DraftHead(torch.nn.Module):
    """The head's own weights; embedding, rotary positions, final norm and unembedding are the model's."""

    def __init__(
        self, model: Any, *, vocabulary: Sequence[int] = (), start: Start = "last", generator: Any = None
    ) -> None:
        """
        Args:
            model: whose head it is; it is held, not owned: its weights are not among the head's.
            vocabulary: the ids that may be guessed; empty: all. A short list makes guessing cheaper, for the
                unembedding is most of its cost in a small model (FR-Spec, arXiv 2502.14856).
            start: ``last``: the layer begins as a copy of the model's last, and the join lets the hidden state through;
                ``fresh``: all random.
            generator: of the random weights; torch's own where there is none.

        Raises:
            InputError: the model is not built as Llama is.
        """
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        core = core_of(model)
        # In a tuple: a module would be saved, moved and counted as this one's part.
        self._held = (model, core)
        config = core.config
        width: int = config.hidden_size
        last = core.layers[-1]
        try:
            self.layer = type(last)(config, len(core.layers) - 1)
        except TypeError as error:
            raise InputError.at(
                type(last).__name__, f"cannot be made from a config and an index ({error})", code="draft-model"
            ) from error
        for module in self.layer.modules():
            if hasattr(module, "layer_idx"):
                module.layer_idx = self.index
        eps = getattr(config, "rms_norm_eps", 1e-6)
        self.hidden_norm = torch.nn.RMSNorm(width, eps=eps)
        self.token_norm = torch.nn.RMSNorm(width, eps=eps)
        self.join = torch.nn.Linear(2 * width, width, bias=False)
        self.register_buffer("vocabulary", torch.tensor(sorted(vocabulary), dtype=torch.long))
        self._rows: tuple[Tensor, Tensor | None] | None = None
        self._begin(last, start, float(getattr(config, "initializer_range", 0.02)), generator)

    def _begin(self, last: Any, start: Start, spread: float, generator: Any) -> None:
        with torch.no_grad():
            for module in (self.layer, self.join):
                for name, weight in module.named_parameters():
                    if weight.dim() > 1:
                        weight.normal_(0.0, spread, generator=generator)
                    else:
                        weight.fill_(0.0 if name.endswith("bias") else 1.0)
            if start == "last":
                # Under peft the model's own weights stand one name deeper.
                own = {k.replace(".base_layer.", "."): v for k, v in last.state_dict().items() if ".lora_" not in k}
                self.layer.load_state_dict(own)
                width = self.join.out_features
                self.join.weight[:, :width] = torch.eye(width)

    @property
    def model(self) -> Any:
        return self._held[0]

    @property
    def core(self) -> Any:
        return self._held[1]

    @property
    def index(self) -> int:
        """The layer's place in a cache: behind the model's own."""
        return len(self.core.layers)

    def forward(
        self, before: Tensor, ids: Tensor, *, mask: Tensor | None, positions: Tensor, cache: Any = None, **more: Any
    ) -> Tensor:
        """
        Args:
            before: (rows, columns, width), the model's last hidden state (after its final norm) one place earlier, or
                this head's output there.
            ids: (rows, columns), the tokens at the places themselves.
            mask: as the model's layers take it.

        Returns:
            (rows, columns, width), to be read by `scores`, or as ``before`` of the next place.
        """
        core = self.core
        kind = self.join.weight.dtype  # in training finer than the model's, it may be
        token = core.get_input_embeddings()(ids).to(kind)
        x = self.join(torch.cat([self.hidden_norm(before.to(kind)), self.token_norm(token)], dim=-1))
        out = self.layer(
            x,
            attention_mask=mask,
            position_ids=positions,
            position_embeddings=core.rotary_emb(x, positions),
            cache=cache,
            use_cache=cache is not None,
            **more,
        )
        return core.norm(out[0] if isinstance(out, tuple) else out)

    def scores(self, out: Tensor) -> Tensor:
        """Logits over ``vocabulary``, or over all ids where that is empty."""
        weight, bias = self._unembedding()
        return torch.nn.functional.linear(out.to(weight.dtype), weight, bias)

    def choose(self, out: Tensor) -> Tensor:
        """The likeliest ids."""
        best = self.scores(out).argmax(-1)
        return self.vocabulary[best] if len(self.vocabulary) else best

    def renew(self) -> None:
        """The model's weights were changed."""
        self._rows = None

    def _unembedding(self) -> tuple[Tensor, Tensor | None]:
        full = self.model.get_output_embeddings()
        bias: Tensor | None = getattr(full, "bias", None)
        if not len(self.vocabulary):
            return full.weight, bias
        if self._rows is None or self._rows[0].device != full.weight.device:
            rows = self.vocabulary.to(full.weight.device)
            with torch.no_grad():
                self._rows = (full.weight[rows].clone(), None if bias is None else bias[rows].clone())
        return self._rows

    # ------------------------------------------------------------------------------------- as files

    def shape(self) -> dict[str, Any]:
        """What a model must have for the head to fit it."""
        return {
            "layer": type(self.layer).__name__,
            "width": self.join.out_features,
            "vocabulary": int(self.core.config.vocab_size),
        }

    def save(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Write ``head.safetensors`` and ``draft.json``; ``about`` is kept in the latter."""
        files: Any = importlib.import_module("safetensors.torch")
        folder.mkdir(parents=True, exist_ok=True)
        files.save_file({k: v.detach().cpu().contiguous() for k, v in self.state_dict().items()}, folder / WEIGHTS)
        card = {"schema": SCHEMA, **self.shape(), "guessed": len(self.vocabulary), **about}
        (folder / CARD).write_text(json.dumps(card, indent=1, sort_keys=True, default=str) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, model: Any) -> DraftHead:
        """The head that `save` wrote, ready to guess for ``model``.

        Raises:
            InputError: no head in the folder, or one that does not fit the model.
        """
        files: Any = importlib.import_module("safetensors.torch")
        path = folder / CARD
        if not path.is_file() or not (folder / WEIGHTS).is_file():
            raise InputError.at(
                folder,
                f"no {CARD} and {WEIGHTS} in it; expected what `livery train draft` writes",
                code="draft-missing",
            )
        card: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if card.get("schema") != SCHEMA:
            raise InputError.at(
                path, f"found {card.get('schema')!r}; expected {SCHEMA!r}", field="schema", code="draft"
            )
        weights = files.load_file(folder / WEIGHTS)
        with torch.random.fork_rng(devices=[]):  # what is drawn here is overwritten
            head = cls(model, vocabulary=weights["vocabulary"].tolist())
        for field, mine in head.shape().items():
            if card.get(field) != mine:
                raise InputError.at(
                    path, f"found {card.get(field)!r}; expected the model's {mine!r}", field=field, code="draft-fit"
                )
        try:
            head.load_state_dict(weights)
        except RuntimeError as error:
            raise InputError.at(folder, f"does not fit the model ({error})", code="draft-fit") from error
        core = head.core
        like = core.norm.weight
        return head.to(device=like.device, dtype=like.dtype).eval().requires_grad_(False)


class Drafter:
    """Guesses for the rows of a batch, by a head whose state stands in their `Slots`."""

    def __init__(self, head: DraftHead) -> None:
        self.head = head
        """Its layer index in the slots, and one more, are the drafter's."""

    @contextmanager
    def watching(self) -> Generator[list[Tensor]]:
        """What the model's passes within give as last hidden states, (rows, columns, width) each."""
        seen: list[Tensor] = []

        def note(_module: Any, _inputs: Any, out: Any) -> None:
            seen.append(out[0])

        handle = self.head.core.register_forward_hook(note)
        try:
            yield seen
        finally:
            handle.remove()

    def read(self, slots: Slots, ids: Tensor, real: Tensor, positions: Tensor, hidden: Tensor, *, layer: bool) -> None:
        """Write the head's part of columns that the model has computed and that are not yet announced as such.

        Args:
            ids, real, positions: (rows, columns), as the model read them.
            hidden: (rows, columns, width), what it gave.
            layer: False: the layer's keys and values of all real columns stand already.
        """
        device = hidden.device
        if layer:
            before = torch.cat([torch.zeros_like(hidden[:, :1]), hidden[:, :-1]], dim=1)
            first = real.argmax(dim=1)
            before[torch.arange(len(first)), first.to(device)] = self._last(slots, hidden)
            self._run(slots, before, ids.to(device), slots.extend(real), positions.to(device))
        half = hidden.shape[-1] // 2
        slots.cache.update(hidden[:, None, :, :half], hidden[:, None, :, half:], self.head.index + 1)

    def propose(self, slots: Slots, pending: Sequence[int], lengths: Sequence[int], most: int) -> list[list[int]]:
        """Up to ``most`` guesses a row of what follows its pending token.

        Args:
            pending: each row's last token, which the model has not read yet.
            lengths: tokens of each row that it has read.
        """
        if most < 1:
            return [[] for _ in pending]
        known = slots.mask
        device = self.head.join.weight.device
        ids = torch.tensor(pending, device=device)[:, None]
        positions = torch.tensor(lengths, device=device)[:, None]
        before = self._last(slots, self.head.join.weight)[:, None]
        one = torch.ones(len(pending), 1, dtype=torch.long)
        guesses: list[Tensor] = []
        for i in range(most):
            mask = slots.extend(one)
            before = self._run(slots, before, ids, mask, positions + i)
            slots.computed(mask)
            ids = self.head.choose(before)
            guesses.append(ids)
        slots.computed(known)  # what was written behind it is written again
        return torch.cat(guesses, dim=1).tolist()

    def _run(self, slots: Slots, before: Tensor, ids: Tensor, mask: Tensor, positions: Tensor) -> Tensor:
        seen = _masks.create_causal_mask(
            config=self.head.core.config,
            inputs_embeds=before,
            attention_mask=mask.to(before.device),
            cache=slots.cache,
            position_ids=positions,
        )
        return self.head(before, ids, mask=seen, positions=positions, cache=slots.cache)

    def _last(self, slots: Slots, like: Tensor) -> Tensor:
        """(rows, width): the hidden state of each row's last token; zeros where nothing is known of a row."""
        held = slots.last(self.head.index + 1)
        if held is None:
            return like.new_zeros(slots.rows, self.head.join.out_features)
        return held[:, 0].to(like.dtype)
