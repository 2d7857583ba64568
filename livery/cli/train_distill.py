"""``livery train distill``: on-policy distillation. Torch is imported inside the command."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

_notices = Console(stderr=True, highlight=False)


def distill(
    prompts: Annotated[
        list[str], typer.Option(help="JSON lines with `prompt`, or a data set's name on the hub; several times.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for checkpoints, model, cards and picture.")],
    exclude: Annotated[
        list[Path] | None, typer.Option(help="JSON lines whose prompts are left out: test sets; several times.")
    ] = None,
    model: Annotated[str, typer.Option(help="A folder, a hub name or a GGUF file; empty: the embedded model.")] = "",
    lora: Annotated[
        Path | None, typer.Option(help="The adapter to train on; the teacher is the model without it.")
    ] = None,
    lora_rank: Annotated[int, typer.Option(min=0, help="Without --lora: a new adapter; 0: all weights.")] = 0,
    teacher: Annotated[str, typer.Option(help="Without --lora: as --model; empty: the embedded model.")] = "",
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest reply.")] = 128,
    max_prompt_tokens: Annotated[int, typer.Option(min=1, help="A longer prompt is dropped.")] = 512,
    max_truncated: Annotated[
        float, typer.Option(min=0, max=1, help="Share of cut replies above which the run stops.")
    ] = 0.9,
    truncated_over: Annotated[int, typer.Option(min=1, help="Steps over which that share is taken.")] = 5,
    batch: Annotated[int, typer.Option(min=1, help="Prompts in a batch, for each process.")] = 8,
    accumulate: Annotated[int, typer.Option(min=1, help="Batches an optimizer step, sampled together.")] = 2,
    epochs: Annotated[float, typer.Option(help="Passes over the prompts.")] = 1.0,
    steps: Annotated[int, typer.Option(min=0, help="Optimizer steps instead of epochs.")] = 0,
    learning_rate: Annotated[float, typer.Option(help="Largest; 1e-4 is for LoRA, 1e-6 for all weights.")] = 1e-4,
    schedule: Annotated[Literal["constant", "linear", "cosine"], typer.Option()] = "cosine",
    save_every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = 20,
    log_every: Annotated[int, typer.Option(min=1)] = 1,
    seed: Annotated[int, typer.Option()] = 0,
    dtype: Annotated[Literal["float32", "bfloat16"], typer.Option()] = "float32",
    checkpointing: Annotated[bool, typer.Option(help="Recompute activations: less memory.")] = False,
    threads: Annotated[int, typer.Option(min=0, help="Of the CPU; 0: as torch chooses.")] = 0,
    cpu: Annotated[bool, typer.Option(help="Stay on the CPU.")] = False,
    fresh: Annotated[bool, typer.Option(help="Delete an earlier run in the folder first.")] = False,
) -> None:
    """Pull a trained policy back to the model it came from, on general prompts. Start it again to go on after a kill.
    The last line is JSON: the result."""
    import os

    from livery.policies.hf_loading import needed

    needed("torch", "transformers", "trl", "peft", "datasets", "matplotlib")
    import importlib

    from livery.training.distill import DistillOptions, train_distill

    if threads:
        importlib.import_module("torch").set_num_threads(threads)
    first = os.environ.get("RANK", "0") == "0"
    options = DistillOptions(
        prompts=tuple(prompts),
        out=out,
        exclude=tuple(exclude or ()),
        model=model,
        lora=lora,
        lora_rank=lora_rank,
        teacher=teacher,
        max_new_tokens=max_new_tokens,
        max_prompt_tokens=max_prompt_tokens,
        max_truncated=max_truncated,
        truncated_over=truncated_over,
        batch=batch,
        accumulate=accumulate,
        epochs=epochs,
        steps=steps,
        learning_rate=learning_rate,
        schedule=schedule,
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

    result = train_distill(options, fresh=fresh, say=say, progress=True)
    if first:
        _notices.print(f"model: {out / 'model'}; card and curve: {out / 'README.md'}, {out / 'loss.png'}")
        print(json.dumps(asdict(result), default=str))
