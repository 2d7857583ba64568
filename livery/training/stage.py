"""What every stage of training shares: adapters, the trainer's settings, the bar, and going on after a kill.

A stage (`livery.training.sft`, `.distill`, `.rl`, `.draft`) has its own options, loss and card. Nothing here trains.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

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

torch: Any = importlib.import_module("torch")
transformers: Any = importlib.import_module("transformers")

LORA_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


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


def leave_group() -> None:
    """Ends this process's part in a launch of several, together with the others: one that exits while the group
    lives takes its threads down by force, and the launch then counts as failed."""
    distributed: Any = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        distributed.barrier()
        distributed.destroy_process_group()


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
