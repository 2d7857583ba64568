"""``livery train``: supervised training, and the commands of the modules beside this one. Torch is imported inside
the commands.

On several devices start it by accelerate: ``accelerate launch --config_file configs/fsdp.yaml -m livery.cli
train sft ...`` (``configs/``).
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from livery.cli.train_distill import distill
from livery.cli.train_draft import draft
from livery.cli.train_rl import rl

app = typer.Typer(help="Train a policy.", no_args_is_help=True)
app.command()(distill)
app.command()(rl)
app.command()(draft)

_notices = Console(stderr=True, highlight=False)


@app.callback()
def train() -> None:
    """Train a policy."""


@app.command()
def sft(
    data: Annotated[Path, typer.Option(help="Folder of `livery data build`.")],
    out: Annotated[Path, typer.Option(help="Folder for checkpoints, model, cards and picture.")],
    model: Annotated[str, typer.Option(help="A folder, a hub name or a GGUF file; empty: the embedded model.")] = "",
    lora: Annotated[Path | None, typer.Option(help="A trained adapter of the model, to train on.")] = None,
    lora_rank: Annotated[
        int | None, typer.Option(min=0, help="Without --lora: of a new adapter, 16 if not given; 0: all weights.")
    ] = None,
    learning_rate: Annotated[float, typer.Option(help="Largest; 1e-3 suits LoRA, 1e-5 all weights.")] = 1e-3,
    schedule: Annotated[Literal["constant", "linear", "cosine"], typer.Option()] = "cosine",
    epochs: Annotated[float, typer.Option(help="Passes over the rows.")] = 1.0,
    steps: Annotated[int, typer.Option(min=0, help="Optimizer steps instead of epochs.")] = 0,
    trees: Annotated[int, typer.Option(min=1, help="Groups of rows in a batch, for each process.")] = 1,
    accumulate: Annotated[int, typer.Option(min=1, help="Batches an optimizer step.")] = 1,
    rows_a_tree: Annotated[int, typer.Option(min=1, help="Most rows packed together.")] = 8,
    tokens_a_tree: Annotated[int, typer.Option(min=1, help="Most tokens packed together.")] = 8192,
    packing: Annotated[
        Literal["auto", "tree", "mask", "rows"], typer.Option(help="`auto`: the quickest the model can take.")
    ] = "auto",
    max_tokens: Annotated[int, typer.Option(min=1, help="A longer row is an error.")] = 4096,
    held_out: Annotated[float, typer.Option(min=0, max=0.9, help="Share of groups to measure on.")] = 0.0,
    evaluate_every: Annotated[int, typer.Option(min=0, help="Steps; 0: at the end.")] = 0,
    save_every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = 50,
    log_every: Annotated[int, typer.Option(min=1)] = 1,
    seed: Annotated[int, typer.Option()] = 0,
    dtype: Annotated[Literal["float32", "bfloat16"], typer.Option()] = "float32",
    checkpointing: Annotated[bool, typer.Option(help="Recompute activations: less memory.")] = False,
    threads: Annotated[int, typer.Option(min=0, help="Of the CPU; 0: as torch chooses.")] = 0,
    cpu: Annotated[bool, typer.Option(help="Stay on the CPU.")] = False,
    fresh: Annotated[bool, typer.Option(help="Delete an earlier run in the folder first.")] = False,
) -> None:
    """Supervised training on built rows. Start it again to go on after a kill. The last line is JSON: the
    result."""
    import os

    from livery.policies.hf_loading import needed

    needed("torch", "transformers", "trl", "peft", "datasets", "pyarrow", "matplotlib")
    import importlib

    from livery.training.sft import SftOptions, train_sft

    if threads:
        importlib.import_module("torch").set_num_threads(threads)
    first = os.environ.get("RANK", "0") == "0"
    options = SftOptions(
        data=data,
        out=out,
        model=model,
        lora=lora,
        lora_rank=lora_rank if lora_rank is not None else 0 if lora else 16,
        learning_rate=learning_rate,
        schedule=schedule,
        epochs=epochs,
        steps=steps,
        trees=trees,
        accumulate=accumulate,
        rows_a_tree=rows_a_tree,
        tokens_a_tree=tokens_a_tree,
        packing=packing,
        max_tokens=max_tokens,
        held_out=held_out,
        evaluate_every=evaluate_every,
        save_every=save_every,
        log_every=log_every,
        seed=seed,
        dtype=dtype,
        checkpointing=checkpointing,
        cpu=cpu,
    )

    def say(line: str) -> None:
        if first:
            _notices.print(line)

    result = train_sft(options, fresh=fresh, say=say, progress=True)
    if first:
        _notices.print(f"model: {out / 'model'}; card and curve: {out / 'README.md'}, {out / 'loss.png'}")
        print(json.dumps(asdict(result), default=str))
