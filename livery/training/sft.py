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
import json
import logging
import os
import random
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from livery.errors import InputError
from livery.policies.hf_loading import ChatTokenizer, load_model, load_tokenizer, weights_digest
from livery.policies.model_file import sha256_of
from livery.training.packing import Kind, Packing, choose_packing, collate, logprobs
from livery.training.rows import CARD, ROWS, DataRow, read_card, read_rows, tokenised_anew
from livery.training.run_card import loss_picture, versions, write_run_card
from livery.training.tree import lay_out

torch: Any = importlib.import_module("torch")
trl: Any = importlib.import_module("trl")
datasets: Any = importlib.import_module("datasets")
transformers: Any = importlib.import_module("transformers")
Tensor = Any

_log = logging.getLogger("livery.training")

LORA_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


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


class Bar(transformers.TrainerCallback):
    """A progress bar on standard error with the last loss; the trainer's own writes to standard output."""

    def __init__(self, what: str) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=Console(stderr=True))
        self._task = self._bar.add_task(what, total=None, note="")

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if state.is_world_process_zero:
            self._bar.update(self._task, total=state.max_steps, completed=state.global_step)
            self._bar.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._bar.update(self._task, completed=state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any], **more: Any) -> None:
        if "loss" in logs:
            right = logs.get("mean_token_accuracy", 0.0)
            self._bar.update(self._task, note=f"loss {logs['loss']:.4f}, {right:.0%} right")

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._bar.stop()


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


def leave_group() -> None:
    """Ends this process's part in a launch of several, together with the others: one that exits while the group
    lives takes its threads down by force, and the launch then counts as failed."""
    distributed: Any = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        distributed.barrier()
        distributed.destroy_process_group()


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
    rows = read_rows(options.data)
    made_with = read_card(options.data).get("tokenizer", {}).get("digest", "")
    if made_with != tokenizer.digest:
        say(
            f"the rows were made with tokenizer {made_with or 'unknown'}, the model's is {tokenizer.digest}: "
            "tokenising anew"
        )
        rows = tokenised_anew(rows, tokenizer)
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


def with_lora(model: Any, *, rank: int, alpha: float, seed: int) -> Any:
    """The model under a new adapter; an ``alpha`` of 0 is twice the rank."""
    peft: Any = importlib.import_module("peft")
    names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    targets = [t for t in LORA_TARGETS if t in names]
    config = peft.LoraConfig(
        r=rank,
        lora_alpha=alpha or 2 * rank,
        # Other families name their layers otherwise: peft then takes every linear layer but the head.
        target_modules=targets or "all-linear",
        task_type="CAUSAL_LM",
    )
    torch.manual_seed(seed)
    return peft.get_peft_model(model, config)


def with_adapter(model: Any, folder: Path) -> Any:
    """A model with a trained LoRA adapter, which is trained on.

    Raises:
        InputError: no adapter, or one of another model.
    """
    if not (folder / "adapter_config.json").is_file():
        raise InputError.at(folder, "no adapter_config.json in it; expected a LoRA adapter of peft", code="lora")
    peft: Any = importlib.import_module("peft")
    try:
        return peft.PeftModel.from_pretrained(model, str(folder), is_trainable=True)
    except (RuntimeError, ValueError) as error:
        raise InputError.at(folder, f"does not fit the model ({error})", field="lora", code="lora") from error


class TrainerOptions(Protocol):
    """What the options of every stage have."""

    @property
    def out(self) -> Path: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def schedule(self) -> str: ...
    @property
    def warmup(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def keep(self) -> int: ...
    @property
    def log_every(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def cpu(self) -> bool: ...


def trainer_settings(options: TrainerOptions) -> dict[str, Any]:
    """The trainer's settings that are the same for every stage."""
    return {
        "output_dir": str(options.out),
        "learning_rate": options.learning_rate,
        "lr_scheduler_type": options.schedule,
        "warmup_steps": options.warmup,
        "weight_decay": options.weight_decay,
        "save_strategy": "steps",
        "save_total_limit": options.keep,
        "logging_steps": options.log_every,
        "logging_nan_inf_filter": False,
        "report_to": "none",
        "disable_tqdm": True,
        "seed": options.seed,
        "data_seed": options.seed,
        # Accelerate's own setting holds where it launched us: weights in float32, work in bfloat16.
        "bf16": options.dtype == "bfloat16" or os.environ.get("ACCELERATE_MIXED_PRECISION") == "bf16",
        "use_cpu": options.cpu,
        "dataloader_pin_memory": False,
    }


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


# ------------------------------------------------------------------------- going on, and the card


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


FREE = ("save_every", "keep", "log_every", "cpu")
"""Settings that may change when a run goes on."""


def prepare_run(out: Path, card: Mapping[str, Any], *, fresh: bool, free: Sequence[str] = FREE) -> Path | None:
    """Make ``out`` ready; the checkpoint to go on from, if any.

    Raises:
        InputError: the folder holds a run whose card differs in more than the ``free`` settings.
    """
    first = os.environ.get("RANK", "0") == "0"
    if fresh and out.exists() and first:
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    plan = out / "plan.json"
    mine = {k: card[k] for k in ("kind", "settings", "model", "tokenizer", "data")}
    mine["settings"] = {k: v for k, v in card["settings"].items() if k not in free}
    text = json.dumps(mine, indent=1, sort_keys=True, default=str)
    if plan.is_file() and plan.read_text(encoding="utf-8") != text:
        before = json.loads(plan.read_text(encoding="utf-8"))
        changed = [
            f"{part}.{name}: {was.get(name)!r} before, {now.get(name)!r} now"
            for part in ("settings", "model", "data")
            for was, now in [(before[part], json.loads(text)[part])]
            for name in sorted({*was, *now})
            if was.get(name) != now.get(name)
        ] or ["another tokenizer"]
        raise InputError.at(
            out,
            f"holds another run ({'; '.join(changed)}); expected an empty folder, or --fresh",
            code=f"{card['kind']}-other-run",
        )
    if first:
        part = plan.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        part.replace(plan)
    return last_checkpoint(out)


def last_checkpoint(out: Path) -> Path | None:
    """The newest checkpoint that was written whole. Those that were cut off by a kill are passed over."""
    found = sorted(
        (p for p in out.glob("checkpoint-*") if p.name.partition("-")[2].isdigit()),
        key=lambda p: int(p.name.partition("-")[2]),
        reverse=True,
    )
    return next((p for p in found if _complete(p)), None)


def _complete(checkpoint: Path) -> bool:
    state = checkpoint / "trainer_state.json"
    try:
        json.loads(state.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    # The trainer writes its state after everything else.
    return any(checkpoint.glob("*.safetensors")) or any(checkpoint.glob("*model*"))
