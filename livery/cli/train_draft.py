"""``livery train draft``: a draft head for speculative decoding. Torch is imported inside the command."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

_notices = Console(stderr=True, highlight=False)


def draft(
    out: Annotated[Path, typer.Option(help="Folder for checkpoints, head, cards and picture.")],
    data: Annotated[
        list[Path] | None, typer.Option(help="Folder of `livery data build`, best by the policy; several times.")
    ] = None,
    run: Annotated[
        list[Path] | None, typer.Option(help="Folder of `livery eval`, or trajectories; several times.")
    ] = None,
    model: Annotated[str, typer.Option(help="A folder, a hub name or a GGUF file; empty: the embedded model.")] = "",
    lora: Annotated[Path | None, typer.Option(help="The policy's adapter of the model.")] = None,
    lora_rank: Annotated[int, typer.Option(min=0, help="With --joint, without --lora: of a new adapter.")] = 0,
    joint: Annotated[
        float, typer.Option(min=0, help="Train the adapter too; weight of the head's loss. 0: frozen.")
    ] = 0.0,
    depth: Annotated[int, typer.Option(min=1, help="Tokens to guess ahead in training.")] = 3,
    soft: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the KL from the model; the rest: the rows' own tokens.")
    ] = 1.0,
    vocabulary: Annotated[int, typer.Option(min=0, help="Guess only the commonest ids; 0: all.")] = 0,
    start: Annotated[Literal["last", "fresh"], typer.Option(help="Copy the model's last layer, or random.")] = "last",
    keep_states: Annotated[bool, typer.Option(help="Keep hidden states on disk: one pass of the model.")] = True,
    learning_rate: Annotated[float, typer.Option(help="Largest.")] = 5e-4,
    schedule: Annotated[Literal["constant", "linear", "cosine"], typer.Option()] = "cosine",
    epochs: Annotated[float, typer.Option(help="Passes over the rows.")] = 3.0,
    steps: Annotated[int, typer.Option(min=0, help="Optimizer steps instead of epochs.")] = 0,
    trees: Annotated[int, typer.Option(min=1, help="Groups of rows in a batch, for each process.")] = 1,
    accumulate: Annotated[int, typer.Option(min=1, help="Batches an optimizer step.")] = 1,
    rows_a_tree: Annotated[int, typer.Option(min=1, help="Most rows packed together.")] = 8,
    tokens_a_tree: Annotated[int, typer.Option(min=1, help="Most tokens packed together.")] = 8192,
    max_tokens: Annotated[int, typer.Option(min=1, help="A longer row is left out.")] = 4096,
    held_out: Annotated[float, typer.Option(min=0, max=0.9, help="Share of groups to measure on.")] = 0.0,
    evaluate_every: Annotated[int, typer.Option(min=0, help="Steps; 0: at the end.")] = 0,
    save_every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = 50,
    log_every: Annotated[int, typer.Option(min=1)] = 1,
    seed: Annotated[int, typer.Option()] = 0,
    dtype: Annotated[Literal["float32", "bfloat16"], typer.Option(help="Of the main weights.")] = "float32",
    threads: Annotated[int, typer.Option(min=0, help="Of the CPU; 0: as torch chooses.")] = 0,
    cpu: Annotated[bool, typer.Option(help="Stay on the CPU.")] = False,
    fresh: Annotated[bool, typer.Option(help="Delete an earlier run in the folder first.")] = False,
) -> None:
    """Train a head that guesses a policy's next tokens. Start it again to go on after a kill. The last line is JSON:
    the result."""
    import os

    from livery.policies.hf_loading import needed

    needed("torch", "transformers", "trl", "peft", "datasets", "pyarrow", "matplotlib")
    import importlib

    from livery.training.draft import DraftOptions, train_draft

    if threads:
        importlib.import_module("torch").set_num_threads(threads)
    first = os.environ.get("RANK", "0") == "0"
    options = DraftOptions(
        out=out,
        data=tuple(data or ()),
        runs=tuple(run or ()),
        model=model,
        lora=lora,
        lora_rank=lora_rank,
        joint=joint,
        depth=depth,
        soft=soft,
        vocabulary=vocabulary,
        start=start,
        keep_states=keep_states,
        learning_rate=learning_rate,
        schedule=schedule,
        epochs=epochs,
        steps=steps,
        trees=trees,
        accumulate=accumulate,
        rows_a_tree=rows_a_tree,
        tokens_a_tree=tokens_a_tree,
        max_tokens=max_tokens,
        held_out=held_out,
        evaluate_every=evaluate_every,
        save_every=save_every,
        log_every=log_every,
        seed=seed,
        dtype=dtype,
        cpu=cpu,
    )

    def say(line: str) -> None:
        if first:
            _notices.print(line)

    result = train_draft(options, fresh=fresh, say=say, progress=True)
    if first:
        _notices.print(f"head: {out / 'head'}; card and curve: {out / 'README.md'}, {out / 'loss.png'}")
        print(json.dumps(asdict(result), default=str))
