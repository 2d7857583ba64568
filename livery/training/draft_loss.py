"""The loss of a draft head, on trees of rows.

Each place of a row asks for the token that stands next, as in supervised training; only, the head must say it from what
it will have when it drafts. At depth 1 that is the model's hidden state one place earlier; at depth k the head's own
outputs for the last k-1 places, while all that stands further back is the model's: keys and values of each depth are
kept and attended to as they will be in decoding. That is the training of HASS (arXiv 2408.15766) and EAGLE-3 (arXiv
2503.01840), here without a mask of their form: deeper places are few, so each attends to a list of its own.

Places count where the policy wrote the token itself and the next one, at depth k the last k tokens and the next: no
other place is ever drafted at.
"""

from __future__ import annotations

import hashlib
import importlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from livery.policies.hf_draft import DraftHead, core_of
from livery.training.conversations import TokenRow
from livery.training.packing import Kind, collate, inputs_of, square_mask
from livery.training.tree import Layout, lay_out

torch: Any = importlib.import_module("torch")
numpy: Any = importlib.import_module("numpy")
Tensor = Any

DECAY: Final = 0.8
"""Weight of each depth beside that of the one before, as in EAGLE-3's training: a deeper guess counts only where all
before it were right."""


def draft_batch(rows: Sequence[TokenRow], kind: Kind, depth: int, *, main: bool = False) -> dict[str, Any]:
    """Rows as one tree.

    Args:
        kind: ``tree`` or ``mask``, as in `livery.training.packing`.
        depth: how often the head is unrolled.
        main: whether the model's own loss is taken too.

    Returns:
        - ``input_ids``, ``position_ids``: (1, tokens).
        - ``tree``, the `Layout`, for kind ``tree``; ``attention_mask`` for kind ``mask``.
        - ``square``: (tokens, tokens), who attends to whom; for a depth above 1.
        - ``parent``: (tokens,) the place one token earlier in the row; -1 at a beginning.
        - ``levels``: for each depth, the places (n,) that are drafted at.
        - ``source``, ``target``, ``weight``: predictions: an index into the first level, an id, and how many rows ask.
        - ``main``: with ``main``, what the model's own loss needs: ``keep``, ``source``, ``target``, ``weight``.
    """
    layout = lay_out([row.ids for row in rows])
    parent = _parents(layout)
    written = [False] * len(layout.ids)
    places = [layout.places(i) for i in range(len(rows))]
    for row, own in zip(rows, places, strict=True):
        for place, wrote in zip(own, row.written, strict=True):
            written[place] |= wrote
    asked = Counter(
        (own[t - 1], row.ids[t])
        for row, own in zip(rows, places, strict=True)
        for t in range(1, len(own))
        if row.written[t] and written[own[t - 1]]
    )
    run = [0] * len(parent)
    """Tokens in a row that the policy wrote, up to each place."""
    for place, above in enumerate(parent):
        run[place] = (run[above] if above >= 0 else 0) + 1 if written[place] else 0
    first = sorted({place for place, _ in asked})
    index = {place: i for i, place in enumerate(first)}
    batch: dict[str, Any] = {
        "input_ids": torch.tensor([layout.ids]),
        "position_ids": torch.tensor([layout.positions]),
        "parent": torch.tensor(parent),
        "levels": [torch.tensor([p for p in first if run[p] >= k], dtype=torch.long) for k in range(1, depth + 1)],
        "source": torch.tensor([index[place] for place, _ in asked], dtype=torch.long),
        "target": torch.tensor([token for _, token in asked], dtype=torch.long),
        "weight": torch.tensor(list(asked.values()), dtype=torch.float32),
    }
    if kind == "tree":
        batch["tree"] = layout
    if kind != "tree" or depth > 1:
        square = square_mask(layout)
        batch |= {"attention_mask": square} if kind != "tree" else {}
        batch |= {"square": square[0, 0]} if depth > 1 else {}
    if main:
        whole = collate(rows, kind)
        batch["main"] = {name: whole[name] for name in ("keep", "source", "target", "weight")}
    return batch


def _parents(layout: Layout) -> list[int]:
    parent = list(range(-1, len(layout.ids) - 1))
    for node in layout.nodes:
        parent[node.start] = layout.nodes[node.parent].stop - 1 if node.parent >= 0 else -1
    return parent


# ------------------------------------------------------------------------------------------ what the model gives


def hidden_states(model: Any, batch: Mapping[str, Any]) -> Tensor:
    """The model's last hidden states after its final norm, (tokens, width)."""
    return core_of(model)(**inputs_of(batch), use_cache=False)[0][0]


class KeptStates:
    """A frozen model's hidden states of each tree, computed once and then read from a file in half precision."""

    def __init__(self, model: Any, folder: Path | None) -> None:
        """
        Args:
            folder: None: they are computed each time, and not rounded.
        """
        self._model = model
        self._folder = folder
        if folder:
            folder.mkdir(parents=True, exist_ok=True)

    def of(self, batch: Mapping[str, Any]) -> Tensor:
        with torch.no_grad():
            if self._folder is None:
                return hidden_states(self._model, batch).float()
            ids: Tensor = batch["input_ids"]
            name = hashlib.sha256(b"".join(batch[n].cpu().numpy().tobytes() for n in ("input_ids", "parent")))
            path = self._folder / f"{name.hexdigest()[:24]}.npy"
            if not path.is_file():
                part = path.with_suffix(".part")
                with part.open("wb") as file:
                    numpy.save(file, hidden_states(self._model, batch).half().cpu().numpy())
                part.replace(path)
            return torch.from_numpy(numpy.load(path)).to(ids.device).float()


# --------------------------------------------------------------------------------------------- what the head gives


class _Kept:
    """Keys and values of each depth, in order: the cache that the head's layer is given."""

    def __init__(self) -> None:
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def update(self, keys: Tensor, values: Tensor, *_arguments: Any, **_more: Any) -> tuple[Tensor, Tensor]:
        self._keys.append(keys)
        self._values.append(values)
        if len(self._keys) == 1:
            return keys, values
        return torch.cat(self._keys, dim=2), torch.cat(self._values, dim=2)


def unrolled(head: DraftHead, hidden: Tensor, batch: Mapping[str, Any]) -> list[Tensor]:
    """The head's outputs at each depth, (places of the level, width)."""
    ids: Tensor = batch["input_ids"]
    positions: Tensor = batch["position_ids"]
    parent: Tensor = batch["parent"]
    levels: list[Tensor] = batch["levels"]
    before = torch.where((parent >= 0)[:, None], hidden[parent.clamp(min=0)], torch.zeros_like(hidden))
    tree = {"tree": batch["tree"]} if "tree" in batch else {}
    mask = inputs_of(batch)["attention_mask"]
    kept = _Kept() if len(levels) > 1 else None
    out = head(before[None], ids, mask=mask, positions=positions, cache=kept, **tree)[0]
    outs = [out[levels[0]]]
    index = [_index(level, len(parent)) for level in levels]
    for k in range(1, len(levels)):
        places = levels[k]
        if not len(places):
            outs.append(out[places])
            continue
        above = [places]
        for _ in range(k):
            above.append(parent[above[-1]])
        # above[i] is i tokens earlier. The k-th and all before it are the model's; the later ones are the head's own.
        sees = [batch["square"][above[k]]]
        for i in range(1, k + 1):
            column = index[i][above[k - i]]
            sees.append(torch.nn.functional.one_hot(column, len(levels[i])).bool())
        outs.append(
            head(
                outs[k - 1][index[k - 1][above[1]]][None],
                ids[:, places],
                mask=torch.cat(sees, dim=1)[None, None],
                positions=positions[:, places],
                cache=kept,
            )[0]
        )
    return outs


def _index(level: Tensor, size: int) -> Tensor:
    """(tokens,) where each place stands in a level; -1 where it does not."""
    out = torch.full((size,), -1, dtype=torch.long, device=level.device)
    out[level] = torch.arange(len(level), device=level.device)
    return out


@dataclass(frozen=True, slots=True)
class HeadLoss:
    total: Tensor
    """Sum over places and depths, each place weighted by the rows that ask and each depth by `DECAY`; its graph is the
    head's, and the model's where hidden states have one."""
    right: Tensor
    """(depths,) weight of places where the head's likeliest token was the model's."""
    of: Tensor
    """(depths,) weight of all places."""


def head_loss(head: DraftHead, hidden: Tensor, batch: Mapping[str, Any], *, soft: float) -> HeadLoss:
    """
    Args:
        hidden: (tokens, width), the model's.
        soft: share of the loss that is the KL divergence of the head's distribution from the model's own; the rest is
            cross-entropy with the token that stands in the row. Where the head may guess some ids only, the model's
            distribution is taken over these, and places whose likeliest id is another do not count.
    """
    levels: list[Tensor] = batch["levels"]
    source: Tensor = batch["source"]
    weight: Tensor = batch["weight"]
    short = head.vocabulary
    with torch.no_grad():
        given = head.model.get_output_embeddings()(hidden[levels[0]].to(head.core.norm.weight.dtype)).float()
        best = given.argmax(-1)
        asked = torch.zeros(len(best), device=weight.device).index_add_(0, source, weight)
        if len(short):
            given = given[:, short]
            reach = _index(short, int(head.core.config.vocab_size))
            counts = asked * (reach[best] >= 0)
        else:
            reach, counts = None, asked
        wanted = torch.log_softmax(given, dim=-1)
    first = _index(levels[0], len(batch["parent"]))
    total = hidden.new_zeros(())
    right: list[Tensor] = []
    of: list[Tensor] = []
    for k, out in enumerate(unrolled(head, hidden, batch)):
        at = first[levels[k]]
        scores = head.scores(out).float()
        logprobs = torch.log_softmax(scores, dim=-1)
        loss = hidden.new_zeros(())
        if soft:
            far = torch.nn.functional.kl_div(logprobs, wanted[at], log_target=True, reduction="none").sum(-1)
            loss = loss + soft * (counts[at] * far).sum()
        if soft < 1:
            loss = loss + (1 - soft) * _cross_entropy(logprobs, at, batch, reach)
        total = total + DECAY**k * loss
        likeliest = scores.detach().argmax(-1)
        guess = short[likeliest] if len(short) else likeliest
        right.append((asked[at] * (guess == best[at])).sum())
        of.append(asked[at].sum())
    return HeadLoss(total / sum(DECAY**k for k in range(len(levels))), torch.stack(right), torch.stack(of))


def _cross_entropy(logprobs: Tensor, at: Tensor, batch: Mapping[str, Any], reach: Tensor | None) -> Tensor:
    """Summed over the predictions of a level's places, ``at`` of the first level."""
    back = _index(at, len(batch["levels"][0]))
    row, target, weight = back[batch["source"]], batch["target"], batch["weight"]
    if reach is not None:
        target = reach[target]
    here = (row >= 0) & (target >= 0)
    return -(weight[here] * logprobs[row[here], target[here]]).sum()
