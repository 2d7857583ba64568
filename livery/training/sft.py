"""Supervised training on built rows: TRL's SFTTrainer, fed with trees of rows that share their harness.

Rows are read as ids with their loss mask and are not touched again. Those of one harness are grouped, and a
group runs through the model as one tree (`livery.training.packing`), which changes the cost and not the loss:
the mean over all tokens that policies wrote. Full weights or LoRA; checkpoints from which a killed run goes
on as if it had not been killed; a picture of the loss and a card of what was trained on what.

Not here: data (`livery.training.data`), and anything that samples. On several processes start it by
accelerate.
"""

from __future__ import annotations

import importlib
import logging
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from livery.errors import InputError
from livery.policies.hf_loading import ChatTokenizer, load_model, load_tokenizer, weights_digest
from livery.policies.model_file import sha256_of
from livery.training.packing import Kind, Packing, choose_packing, collate, logprobs
from livery.training.rows import CARD, ROWS, DataRow, read_card, read_rows_for
from livery.training.run_card import loss_picture, versions, write_run_card
from livery.training.stage import Bar, leave_group, prepare_run, trainer_settings, with_adapter, with_lora
from livery.training.tree import lay_out

torch: Any = importlib.import_module("torch")
trl: Any = importlib.import_module("trl")
datasets: Any = importlib.import_module("datasets")
transformers: Any = importlib.import_module("transformers")
Tensor = Any

_log = logging.getLogger("livery.training")


@dataclass(frozen=True, slots=True, kw_only=True)
class SftOptions:
    data: Path
    """Folder of `livery data build`."""
    out: Path
    model: str = ""
    """A folder, a hub name or a GGUF file; empty: the embedded model."""
    lora: Path | None = None
    """A trained adapter of the model, which is trained on."""
    lora_rank: int = 16
    """Of a new adapter, without ``lora``; 0: all weights."""
    lora_alpha: float = 0.0
    """0: twice the rank."""
    learning_rate: float = 1e-3
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    warmup: float = 0.03
    """Share of the steps."""
    weight_decay: float = 0.0
    clip: float = 1.0
    """Largest norm of the gradient."""
    epochs: float = 1.0
    steps: int = 0
    """Optimizer steps; 0: as many as the epochs make."""
    trees: int = 1
    """Groups of rows in a batch, for each process."""
    accumulate: int = 1
    """Batches an optimizer step."""
    rows_a_tree: int = 8
    """Most rows that are packed together."""
    tokens_a_tree: int = 8192
    """Most tokens of a packed group, shared beginnings once."""
    packing: Kind | Literal["auto"] = "auto"
    max_tokens: int = 4096
    """A longer row is an error, not cut: its end is the reply."""
    held_out: float = 0.0
    """Share of the groups on which the loss is measured and nothing is learned."""
    evaluate_every: int = 0
    """Steps; 0: only at the end, where there is something held out."""
    save_every: int = 50
    """Steps between checkpoints."""
    keep: int = 2
    """Checkpoints that are kept."""
    log_every: int = 1
    seed: int = 0
    dtype: str = "float32"
    checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, more time."""
    cpu: bool = False
    """Stay on the CPU where there is an accelerator too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SftResult:
    steps: int
    loss: float
    """Of the last logged step."""
    first_loss: float
    held_out_loss: float | None
    seconds: float
    """Of this start, without loading."""
    rows: int
    trees: int
    tokens_read: int
    """Tokens that ran through the model in one epoch."""
    tokens_of_rows: int
    """Tokens of the rows one by one."""
    packing: Packing
    resumed_at: int
    """Step of the checkpoint from which it went on; 0: from the beginning."""


def trees(rows: Sequence[DataRow], *, most_rows: int, most_tokens: int, rng: random.Random) -> list[list[int]]:
    """Indices of rows, grouped by harness and then cut to size, in random order.

    A group that must be cut is cut into parts of equal size, give or take one row.
    """
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        groups[row.group].append(i)
    out: list[list[int]] = []
    for members in groups.values():
        rng.shuffle(members)
        out += _fitting(rows, members, -(-len(members) // most_rows), most_tokens)
    rng.shuffle(out)
    return out


def _fitting(rows: Sequence[DataRow], members: list[int], parts: int, most_tokens: int) -> list[list[int]]:
    cut = [members[i::parts] for i in range(parts)]
    fits = all(len(c) == 1 or len(lay_out([rows[i].tokens.ids for i in c]).ids) <= most_tokens for c in cut)
    return cut if fits else _fitting(rows, members, parts + 1, most_tokens)


class PackedTrainer(trl.SFTTrainer):
    """The loss is a mean over the tokens that policies wrote, over all rows of an optimizer step."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)  # pyright: ignore[reportUnknownMemberType]
        self._total_train_tokens: int = 0
        # The loss below divides by the tokens of the whole step, so that the trainer must not divide
        # again.
        self.model_accepts_loss_kwargs = True

    def _get_num_items_in_batch(self, batch_samples: list[Any], device: Any) -> Tensor:
        items = torch.stack([batch["weight"].sum() for batch in batch_samples]).sum().to(device)
        return self.accelerator.gather(items).sum() if self.args.world_size > 1 else items

    def compute_loss(
        self,
        model: Any,
        inputs: Mapping[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | None = None,
    ) -> Any:
        mode = "train" if self.model.training else "eval"
        weight = inputs["weight"]
        given, likeliest = logprobs(model, inputs)
        total = weight.sum()
        loss = -(weight * given).sum() / (total if num_items_in_batch is None else num_items_in_batch)
        if num_items_in_batch is not None:
            # Gradients are averaged over the processes, and the divisor counts the tokens of all of them.
            loss = loss * self.accelerator.num_processes
        sums = torch.stack([(likeliest * weight).sum(), total]).detach()
        right, of = self.accelerator.gather(sums[None]).sum(0).tolist()
        self._metrics[mode]["mean_token_accuracy"].append(right / of)
        read = torch.tensor(inputs["input_ids"].numel(), device=weight.device)
        self._total_train_tokens += int(self.accelerator.gather(read).sum()) if mode == "train" else 0
        self._metrics[mode]["num_tokens"] = [self._total_train_tokens]
        return (loss, {"loss": loss}) if return_outputs else loss


def train_sft(
    options: SftOptions,
    *,
    fresh: bool = False,
    say: Callable[[str], None] = _log.info,
    progress: bool = False,
) -> SftResult:
    """Train, or go on training.

    Args:
        fresh: delete what an earlier run left in ``out``; otherwise the run goes on from its last checkpoint.
        say: gets a line about each thing worth knowing before the first step.
        progress: draw a bar on standard error.

    Raises:
        InputError: data, model and options do not fit one another, or ``out`` holds a run of other options.
    """
    if options.lora and options.lora_rank:
        raise InputError.at(
            options.lora,
            f"found a lora_rank of {options.lora_rank} beside it; expected 0, since an adapter has its own",
            field="lora_rank",
            code="lora",
        )
    tokenizer = load_tokenizer(options.model)
    rows = _rows(options, tokenizer, say)
    model = load_model(options.model, dtype=options.dtype)
    if options.lora:
        model = with_adapter(model, options.lora)
    result = train_rows(options, rows, model, tokenizer, fresh=fresh, say=say, progress=progress)
    leave_group()
    return result


def train_rows(
    options: SftOptions,
    rows: Sequence[DataRow],
    model: Any,
    tokenizer: ChatTokenizer,
    *,
    fresh: bool = False,
    say: Callable[[str], None] = _log.info,
    callbacks: Sequence[Any] = (),
    progress: bool = False,
) -> SftResult:
    """`train_sft` with everything loaded; ``options.data`` is used for the card only.

    Args:
        model: a peft model whose adapter is trained, or a model, which gets a new adapter where ``options.lora_rank``
            is not 0.
    """
    card = _run_card(options, tokenizer)
    resume = prepare_run(options.out, card, fresh=fresh)
    rng = random.Random(options.seed)
    grouped = trees(rows, most_rows=options.rows_a_tree, most_tokens=options.tokens_a_tree, rng=rng)
    aside = round(len(grouped) * options.held_out)
    held, used = grouped[:aside], grouped[aside:]
    if not used:
        raise InputError.at(options.data, f"{len(grouped)} groups, all held out", field="held_out", code="sft-data")
    if options.lora_rank:
        model = with_lora(model, rank=options.lora_rank, alpha=options.lora_alpha, seed=options.seed)
    packing = choose_packing(model, options.packing)
    say(f"packing: {packing.kind}" + (f" ({packing.reason})" if packing.reason else ""))
    lengths = [len(lay_out([rows[i].tokens.ids for i in tree]).ids) for tree in used]
    of_rows = sum(len(rows[i].tokens.ids) for tree in used for i in tree)
    say(
        f"{sum(map(len, used))} rows in {len(used)} trees: {sum(lengths)} tokens for {of_rows} "
        f"({of_rows / sum(lengths):.2f} times)"
    )
    if resume:
        say(f"going on from {resume.name}")

    def batch(examples: list[dict[str, list[int]]]) -> dict[str, Any]:
        held_rows = [rows[i].tokens for example in examples for i in example["rows"]]
        return dict(collate(held_rows, packing.kind, pad=tokenizer.pad))

    trainer = PackedTrainer(
        model=model,
        args=_config(options),
        data_collator=batch,
        train_dataset=datasets.Dataset.from_dict({"rows": used}),
        eval_dataset=datasets.Dataset.from_dict({"rows": held}) if held else None,
        processing_class=tokenizer.tokenizer,
        callbacks=[*callbacks, *([Bar(f"sft {options.out.name}")] if progress else [])],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    began = time.perf_counter()
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    seconds = time.perf_counter() - began
    scores: dict[str, float] = trainer.evaluate() if held else {}
    trainer.save_model(str(options.out / "model"))
    logged: list[dict[str, Any]] = trainer.state.log_history
    losses = [entry["loss"] for entry in logged if "loss" in entry]
    result = SftResult(
        steps=trainer.state.global_step,
        loss=losses[-1],
        first_loss=losses[0],
        held_out_loss=scores.get("eval_loss"),
        seconds=seconds,
        rows=sum(map(len, used)),
        trees=len(used),
        tokens_read=sum(lengths) if packing.kind != "rows" else of_rows,
        tokens_of_rows=of_rows,
        packing=packing,
        resumed_at=int(resume.name.partition("-")[2]) if resume else 0,
    )
    if trainer.is_world_process_zero():
        loss_picture(options.out, logged, title=f"SFT, {result.rows} rows, packing {packing.kind}")
        write_run_card(options.out, {**card, "result": asdict(result)}, logged)
    return result


def _rows(options: SftOptions, tokenizer: ChatTokenizer, say: Callable[[str], None]) -> list[DataRow]:
    rows = read_rows_for(options.data, tokenizer, say)
    long = [r for r in rows if len(r.tokens.ids) > options.max_tokens]
    if long:
        worst = max(long, key=lambda r: len(r.tokens.ids))
        raise InputError.at(
            options.data,
            f"{len(long)} rows are longer than {options.max_tokens} tokens (longest: {worst.id}, "
            f"{len(worst.tokens.ids)}); build with shorter harnesses or raise the limit",
            field="max_tokens",
            code="sft-length",
        )
    return rows


def _config(options: SftOptions) -> Any:
    evaluates = bool(options.held_out and options.evaluate_every)
    return trl.SFTConfig(
        **trainer_settings(options),
        max_grad_norm=options.clip,
        num_train_epochs=options.epochs,
        max_steps=options.steps or -1,
        per_device_train_batch_size=options.trees,
        per_device_eval_batch_size=options.trees,
        gradient_accumulation_steps=options.accumulate,
        activation_checkpointing=options.checkpointing,
        eval_strategy="steps" if evaluates else "no",
        eval_steps=options.evaluate_every or None,
        save_steps=options.save_every,
        max_length=None,
        remove_unused_columns=False,
        dataset_kwargs={"skip_prepare_dataset": True},
        average_tokens_across_devices=True,
        # Trees are not tensors: each process collates its own batches.
        accelerator_config={"dispatch_batches": False, "split_batches": False, "even_batches": True},
    )


# ------------------------------------------------------------------------------------------- the card


def _run_card(options: SftOptions, tokenizer: ChatTokenizer) -> dict[str, Any]:
    """What the run is: equal cards are the same run."""
    data = read_card(options.data)
    path = options.data / ROWS if options.data.is_dir() else options.data
    settings = asdict(options)
    for name in ("data", "out", "model", "lora"):
        settings.pop(name)
    started = {"adapter": weights_digest(options.lora)} if options.lora else {}
    return {
        "kind": "sft",
        "settings": settings,
        "model": {"source": options.model or "embedded", "weights": weights_digest(options.model), **started},
        "tokenizer": tokenizer.digest,
        "data": {
            "folder": options.data.name,
            "rows_sha256": sha256_of(path) if path.is_file() else "",
            "card_sha256": sha256_of(path.parent / CARD) if (path.parent / CARD).is_file() else "",
            "split": data.get("split", ""),
            "harnesses": data.get("harnesses", []),
            "seeds": data.get("seeds", {}),
        },
        "versions": versions(),
    }
