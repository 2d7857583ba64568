"""Prefix-shared packing: rows that begin alike run through a model as one tree, exactly.

Tasks under one harness share its prompt, and rollouts of one task share theirs. `livery.training.tree` lays
such rows out with each shared beginning once; here a model reads the layout so that each token attends to its
own branch and to what stands above it, at its right position. Loss and gradients are those of the rows one by
one, up to rounding.

Three ways, the first that a model can take (`choose_packing` asks it, on a small example):

- ``tree``: an attention function of our own, registered with transformers, that runs each node against its path only.
  No mask over the whole square; the quickest.
- ``mask``: the model's own SDPA under a 4D mask.
- ``rows``: no sharing; padded rows. For layers that keep a state along the sequence (linear attention, state
space).

Not here: FlexAttention, and sharing among rows of different devices.
"""

from __future__ import annotations

import importlib
import inspect
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, cast

from livery.policies.hf_loading import partial_layers
from livery.training.conversations import TokenRow
from livery.training.tree import LEAST_SHARED, Layout, lay_out

torch: Any = importlib.import_module("torch")
_sdpa: Any = importlib.import_module("transformers.integrations.sdpa_attention")
_masks: Any = importlib.import_module("transformers.masking_utils")
_models: Any = importlib.import_module("transformers.modeling_utils")
Tensor = Any

_log = logging.getLogger("livery.training")

Kind = Literal["tree", "mask", "rows"]
ATTENTION = "livery_tree"
"""Name of the attention function in transformers' registry."""


Batch = dict[str, Any]
"""What `collate` makes: a model's inputs, and what is to be predicted where.

- ``input_ids``, ``position_ids``: (1, tokens) of a layout, or (rows, columns).
- ``attention_mask``: (1, 1, tokens, tokens) for ``mask``; (rows, columns) for ``rows``; absent for ``tree``.
- ``tree``: for ``tree``, the `Layout`.
- ``keep``: places whose logits are needed: indices (places,) of a layout; for ``rows`` a boolean (rows, columns).
- ``source``: (predictions,) which of the kept places predicts.
- ``target``: (predictions,) the id to be predicted.
- ``weight``: (predictions,) how many rows ask for this prediction, as a float.
- ``row``: (predictions,) with ``per_row``, which of the rows asks; absent otherwise.
"""


@dataclass(frozen=True, slots=True)
class Packing:
    kind: Kind
    reason: str
    """Why not a quicker kind; empty for the quickest."""


def collate(
    rows: Sequence[TokenRow],
    kind: Kind,
    *,
    pad: int = 0,
    per_row: bool = False,
    least_shared: int = LEAST_SHARED,
) -> Batch:
    """A batch of rows. What comes out of the model is the same for each kind.

    Args:
        pad: the id that fills ``rows``.
        per_row: one prediction for each row and token, in the order of rows, instead of one for all the rows
            that share it. For losses that weigh rows differently (advantages).
    """
    if kind == "rows":
        return _padded(rows, pad, per_row)
    layout = lay_out([row.ids for row in rows], least_shared=least_shared)
    asked: list[tuple[int, int, int]] = []
    for i, row in enumerate(rows):
        places = layout.places(i)
        asked += [(places[t - 1], row.ids[t], i) for t in range(1, len(places)) if row.written[t]]
    batch: Batch = {
        "input_ids": torch.tensor([layout.ids]),
        "position_ids": torch.tensor([layout.positions]),
        **_predictions(asked, per_row),
    }
    if kind == "tree":
        batch["tree"] = layout
    else:
        batch["attention_mask"] = square_mask(layout)
    return batch


def _predictions(asked: list[tuple[int, int, int]], per_row: bool) -> Batch:
    """From (place, id, row) of each prediction."""
    places = sorted({place for place, _, _ in asked})
    index = {place: i for i, place in enumerate(places)}
    batch: Batch = {"keep": torch.tensor(places, dtype=torch.long)}
    if per_row:
        batch["row"] = torch.tensor([row for _, _, row in asked], dtype=torch.long)
        counted = [((place, token), 1) for place, token, _ in asked]
    else:
        counted = list(Counter((place, token) for place, token, _ in asked).items())
    batch["source"] = torch.tensor([index[place] for (place, _), _ in counted], dtype=torch.long)
    batch["target"] = torch.tensor([token for (_, token), _ in counted], dtype=torch.long)
    batch["weight"] = torch.tensor([n for _, n in counted], dtype=torch.float32)
    return batch


def _padded(rows: Sequence[TokenRow], pad: int, per_row: bool) -> Batch:
    width = max(len(row.ids) for row in rows)
    asked = [
        (i * width + t - 1, row.ids[t], i)
        for i, row in enumerate(rows)
        for t in range(1, len(row.ids))
        if row.written[t]
    ]
    batch = _predictions(asked, per_row)
    keep = torch.zeros(len(rows) * width, dtype=torch.bool)
    keep[batch["keep"]] = True
    batch["keep"] = keep.view(len(rows), width)
    batch["input_ids"] = torch.tensor([[*row.ids, *[pad] * (width - len(row.ids))] for row in rows])
    batch["attention_mask"] = torch.tensor([[1] * len(row.ids) + [0] * (width - len(row.ids)) for row in rows])
    batch["position_ids"] = torch.arange(width).expand(len(rows), width).contiguous()
    return batch


def square_mask(layout: Layout) -> Tensor:
    """(1, 1, tokens, tokens), true where a token (row) may look at another (column)."""
    size = len(layout.ids)
    mask = torch.zeros(size, size, dtype=torch.bool)
    for i, node in enumerate(layout.nodes):
        for above in layout.path(i)[:-1]:
            mask[node.start : node.stop, layout.nodes[above].start : layout.nodes[above].stop] = True
        length = node.stop - node.start
        mask[node.start : node.stop, node.start : node.stop] = torch.ones(length, length).tril().bool()
    return mask[None, None]


def tree_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, **options: Any
) -> tuple[Tensor, None]:
    """Attention of transformers' interface: with ``tree`` each node against its own path, without it as
    ``sdpa``.

    Args:
        query, key, value: (1, heads, tokens, head size); keys and values may have fewer heads.

    Returns:
        (1, tokens, heads, head size), and no weights.
    """
    layout: Layout | None = options.pop("tree", None)
    if layout is None:
        return _sdpa.sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    heads, groups = key.shape[1], query.shape[1] // key.shape[1]
    lengths = [n.stop - n.start for n in layout.nodes]
    queries, keys, values = (t.split(lengths, dim=2) for t in (query, key, value))
    attend = torch.nn.functional.scaled_dot_product_attention
    same = {"dropout_p": options.get("dropout", 0.0), "scale": options.get("scaling")}
    out: list[Tensor] = []
    for i, (node, length) in enumerate(zip(layout.nodes, lengths, strict=True)):
        if node.parent < 0:
            k, v = (_sdpa.repeat_kv(t[i], groups) for t in (keys, values))
            out.append(attend(queries[i], k, v, is_causal=True, **same))
            continue
        k, v = (torch.cat([t[n] for n in layout.path(i)], dim=2) for t in (keys, values))
        # The queries of a group of heads stand below one another, so that keys are not written once for each.
        q = queries[i].reshape(1, heads, groups * length, -1)
        mask = _tail_mask(length, node.depth, groups, query.device)
        out.append(attend(q, k, v, attn_mask=mask, **same).reshape(1, heads * groups, length, -1))
    return torch.cat(out, dim=2).transpose(1, 2).contiguous(), None


@lru_cache(maxsize=32)
def _tail_mask(length: int, above: int, groups: int, device: Any) -> Tensor:
    """(groups * length, above + length): all that stands above, and its own node up to itself; once for each
    head of a group. Kept, since every layer asks for the same."""
    return torch.ones(length, above + length, dtype=torch.bool, device=device).tril(above).repeat(groups, 1)


def inputs_of(batch: Mapping[str, Any]) -> dict[str, Any]:
    """What a model reads of a batch."""
    inputs = {name: batch[name] for name in ("input_ids", "position_ids", "attention_mask", "tree") if name in batch}
    if "tree" in inputs:
        # Four dimensions: transformers takes a mask of such a shape as it is and makes none of its own.
        inputs["attention_mask"] = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=batch["input_ids"].device)
    return inputs


def logprobs(model: Any, batch: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """What a model gives the predictions of a batch.

    Returns:
        (predictions,) log-probabilities, with their graph; (predictions,) whether each was the likeliest
        token.
    """
    inputs = inputs_of(batch)
    keep: Tensor = batch["keep"]
    if _picks_places(model):
        logits = model(**inputs, use_cache=False, logits_to_keep=keep).logits
        logits = logits.reshape(-1, logits.shape[-1])
    else:
        logits = model(**inputs, use_cache=False).logits
        logits = logits[keep] if keep.dtype == torch.bool else logits[0, keep]
    logits = logits.float()
    source: Tensor = batch["source"]
    target: Tensor = batch["target"]
    given = logits[source, target] - logits.logsumexp(-1)[source]
    return given, logits.detach().argmax(-1)[source] == target


def _picks_places(model: Any) -> bool:
    core: Any = model
    while hasattr(core, "module"):
        core = core.module
    if hasattr(core, "get_base_model"):
        core = core.get_base_model()
    kind = cast(Any, type(core))  # the instance's own may be wrapped (mixed precision, a fused head)
    return "logits_to_keep" in inspect.signature(kind.forward).parameters


def mean_loss(model: Any, batch: Mapping[str, Any], items: Tensor | int | None = None) -> Tensor:
    """Negative log-likelihood of what the policies wrote, a mean over the rows' own tokens.

    Args:
        items: divide by this instead of the number of predictions of the batch.
    """
    given, _ = logprobs(model, batch)
    weight: Tensor = batch["weight"]
    return -(weight * given).sum() / (weight.sum() if items is None else items)


# -------------------------------------------------------------------------- what a model can take


def choose_packing(model: Any, wanted: Kind | Literal["auto"] = "auto") -> Packing:
    """The quickest kind whose results are those of plain rows, tried on a small example; the model is set up
    for it.

    Args:
        model: of transformers, or wrapped by peft; its attention may be switched to ``livery_tree``.
        wanted: a kind to begin with; from there on it only falls back. A fall-back is logged with its reason.
    """
    order: tuple[Kind, ...] = ("tree", "mask", "rows")
    kinds = order if wanted == "auto" else order[order.index(wanted) :]
    reasons: list[str] = []
    for kind in kinds[:-1]:
        reason = _unfit(model, kind)
        if not reason:
            break
        reasons.append(f"{kind}: {reason}")
    else:
        kind = "rows"
        _attend(model, "sdpa" if getattr(model, "_supports_sdpa", True) else "eager")
    if reasons:
        _log.warning("prefix-shared packing falls back to %r (%s)", kind, "; ".join(reasons))
    return Packing(kind, "; ".join(reasons))


def _attend(model: Any, how: str) -> None:
    core = model.get_base_model() if hasattr(model, "get_base_model") else model
    if how == ATTENTION:
        _models.ALL_ATTENTION_FUNCTIONS.register(ATTENTION, tree_attention)
        _masks.ALL_MASK_ATTENTION_FUNCTIONS.register(ATTENTION, _masks.sdpa_mask)
    core.set_attn_implementation(how)


def _unfit(model: Any, kind: Kind) -> str:
    """Why the model cannot run so; empty if it can."""
    if odd := partial_layers(model):
        return f"layers of kind {odd}"
    core = model.get_base_model() if hasattr(model, "get_base_model") else model
    before = core.config._attn_implementation
    try:
        # Any refusal, by whatever error, means the same: this model cannot be run so.
        _attend(model, ATTENTION if kind == "tree" else "sdpa")
        found = _difference(model, kind)
    except Exception as error:
        core.set_attn_implementation(before)
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    tolerance = 1e-3 if next(model.parameters()).dtype == torch.float32 else 0.1
    if found > tolerance:
        core.set_attn_implementation(before)
        return f"log-probabilities differ by {found:.2g} from those of plain rows"
    return ""


def _difference(model: Any, kind: Kind) -> float:
    """Largest difference of a log-probability between ``kind`` and plain rows, on three rows that share five
    ids."""
    generator = torch.Generator().manual_seed(0)
    size = int(model.config.get_text_config().vocab_size)
    draw: list[int] = torch.randint(0, size, (26,), generator=generator).tolist()
    shared, rest = draw[:5], draw[5:]
    probe = [(*shared, *rest[:6]), (*shared, *rest[6:13]), (*shared, *rest[6:8], *rest[13:])]
    rows = [TokenRow(ids=ids, written=(True,) * len(ids)) for ids in probe]
    training = model.training
    model.eval()
    with torch.no_grad():
        given: list[Tensor] = []
        for way in (kind, "rows"):
            batch = collate(rows, way, per_row=True, least_shared=1)
            batch = {n: v.to(model.device) if torch.is_tensor(v) else v for n, v in batch.items()}
            given.append(logprobs(model, batch)[0])
    model.train(training)
    return float((given[0] - given[1]).abs().max())
