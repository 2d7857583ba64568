"""``livery train rl``: reinforcement learning. Torch is imported inside the command."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

_notices = Console(stderr=True, highlight=False)


def rl(
    harness: Annotated[list[Path], typer.Argument(help="Harness folders; each gets tasks in its language.")],
    out: Annotated[Path, typer.Option(help="Folder for checkpoints, model, cards and picture.")],
    model: Annotated[str, typer.Option(help="A folder, a hub name or a GGUF file; empty: the embedded model.")] = "",
    lora: Annotated[Path | None, typer.Option(help="The adapter to train on, of `livery train sft`.")] = None,
    lora_rank: Annotated[int, typer.Option(min=0, help="Without --lora: a new adapter; 0: all weights.")] = 0,
    tasks: Annotated[int, typer.Option(min=1, help="Train tasks for each harness.")] = 1000,
    task_seed: Annotated[int, typer.Option(help="Of the tasks' worlds.")] = 700_000,
    base_share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of tasks under the harness as it is; 1: only there.")
    ] = 0.2,
    strength: Annotated[float, typer.Option(min=0, max=1, help="How much a variant changes.")] = 0.5,
    dimension: Annotated[
        list[str] | None, typer.Option(help="Only operators of this dimension; may be repeated.")
    ] = None,
    group: Annotated[int, typer.Option(min=2, help="Rollouts of a task.")] = 4,
    groups_a_batch: Annotated[int, typer.Option(min=1, help="Groups in a batch, for each process.")] = 1,
    accumulate: Annotated[int, typer.Option(min=1, help="Batches an optimizer step.")] = 4,
    updates: Annotated[int, typer.Option(min=1, help="Optimizer steps over what was played at once.")] = 2,
    passes: Annotated[int, typer.Option(min=1, help="Passes over what was played.")] = 1,
    steps: Annotated[int, typer.Option(min=0, help="Optimizer steps; 0: until each task was met once.")] = 0,
    call_reward: Annotated[
        list[str] | None, typer.Option(help="NAME=WEIGHT in the advantage of tool turns; replaces the defaults.")
    ] = None,
    reply_reward: Annotated[list[str] | None, typer.Option(help="The same for replies.")] = None,
    call_free: Annotated[int, typer.Option(min=0, help="Reasoning tokens of a tool turn that cost nothing.")] = 0,
    call_cap: Annotated[int, typer.Option(min=1, help="Reasoning tokens of a tool turn that cost all.")] = 512,
    reply_free: Annotated[int, typer.Option(min=0, help="As --call-free, for replies.")] = 0,
    reply_cap: Annotated[int, typer.Option(min=1, help="As --call-cap, for replies.")] = 256,
    ratio: Annotated[
        Literal["sequence", "token"], typer.Option(help="One ratio a segment (GSPO) or a token.")
    ] = "sequence",
    clip: Annotated[tuple[float, float] | None, typer.Option(help="Below and above 1; left out: the papers'.")] = None,
    beta: Annotated[float, typer.Option(min=0, help="Weight of the KL to the policy at the start.")] = 0.0,
    kl_bias_correction: Annotated[bool, typer.Option(help="Multiply each token's KL by its ratio.")] = True,
    old: Annotated[
        Literal["sampler", "recomputed"], typer.Option(help="Whose log-probabilities stand below the ratio.")
    ] = "sampler",
    learning_rate: Annotated[float, typer.Option(help="2e-5 is for LoRA, 1e-6 for all weights.")] = 2e-5,
    schedule: Annotated[Literal["constant", "linear", "cosine"], typer.Option()] = "constant",
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a conversation.")] = 4096,
    concurrency: Annotated[int, typer.Option(min=1, help="Conversations under way at a time.")] = 64,
    batch: Annotated[int, typer.Option(min=1, help="Turns decoded together in this process.")] = 16,
    sampling: Annotated[
        list[str] | None, typer.Option(help="NAME=JSON for the server; what biases the ratio is refused.")
    ] = None,
    server: Annotated[str, typer.Option(help="URL of a vLLM server that samples; empty: this process.")] = "",
    server_port: Annotated[int, typer.Option(help="Port by which weights go to the server.")] = 51216,
    start_floor: Annotated[
        float, typer.Option(min=0, max=1, help="Least share of the first rollouts that must succeed.")
    ] = 0.5,
    force_start: Annotated[bool, typer.Option("--force-start", help="Start from below the floor too.")] = False,
    packing: Annotated[
        Literal["auto", "tree", "mask", "rows"], typer.Option(help="`auto`: the quickest the model can take.")
    ] = "auto",
    save_every: Annotated[int, typer.Option(min=1, help="Generations between checkpoints.")] = 5,
    log_every: Annotated[int, typer.Option(min=1)] = 1,
    seed: Annotated[int, typer.Option()] = 0,
    dtype: Annotated[Literal["float32", "bfloat16"], typer.Option()] = "float32",
    checkpointing: Annotated[bool, typer.Option(help="Recompute activations: less memory.")] = False,
    threads: Annotated[int, typer.Option(min=0, help="Of the CPU; 0: as torch chooses.")] = 0,
    cpu: Annotated[bool, typer.Option(help="Stay on the CPU.")] = False,
    fresh: Annotated[bool, typer.Option(help="Delete an earlier run in the folder first.")] = False,
) -> None:
    """Play tasks under a harness and its variants and learn from what they earn. Start it again to go on after a kill.
    The last line is JSON: the result."""
    import os

    from livery.cli.harnesses import load_checked
    from livery.policies.hf_loading import needed

    needed("torch", "transformers", "trl", "peft", "datasets", "matplotlib")
    import importlib

    from livery.training.rl import train_rl
    from livery.training.rl_options import RlOptions

    if threads:
        importlib.import_module("torch").set_num_threads(threads)
    first = os.environ.get("RANK", "0") == "0"
    weights: dict[str, Any] = {}
    if call_reward:
        weights["call_rewards"] = _weights(call_reward, "call-reward")
    if reply_reward:
        weights["reply_rewards"] = _weights(reply_reward, "reply-reward")
    options = RlOptions(
        out=out,
        model=model,
        lora=lora,
        lora_rank=lora_rank,
        tasks=tasks,
        task_seed=task_seed,
        base_share=base_share,
        strength=strength,
        dimensions=tuple(dimension or ()),
        group=group,
        groups_a_batch=groups_a_batch,
        accumulate=accumulate,
        updates=updates,
        passes=passes,
        steps=steps,
        call_free=call_free,
        call_cap=call_cap,
        reply_free=reply_free,
        reply_cap=reply_cap,
        ratio=ratio,
        clip=clip,
        beta=beta,
        use_bias_correction_kl=kl_bias_correction,
        old=old,
        learning_rate=learning_rate,
        schedule=schedule,
        max_tokens=max_tokens,
        concurrency=concurrency,
        batch=batch,
        sampling=_pairs(sampling or [], "sampling"),
        server=server,
        server_port=server_port,
        start_floor=start_floor,
        force_start=force_start,
        packing=packing,
        save_every=save_every,
        log_every=log_every,
        seed=seed,
        dtype=dtype,
        checkpointing=checkpointing,
        cpu=cpu,
        **weights,
    )

    def say(line: str) -> None:
        if first:
            _notices.print(line)

    harnesses = {folder.resolve().name: load_checked(folder) for folder in harness}
    result = train_rl(options, harnesses, fresh=fresh, say=say, progress=True)
    if first:
        _notices.print(f"model: {out / 'model'}; card and curves: {out / 'README.md'}, {out / 'loss.png'}")
        print(json.dumps(asdict(result), default=str))


def _pairs(given: list[str], option: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"found {text!r}; expected NAME=VALUE", param_hint=f"--{option}")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def _weights(given: list[str], option: str) -> dict[str, float]:
    pairs = _pairs(given, option)
    if wrong := [name for name, value in pairs.items() if not isinstance(value, int | float)]:
        raise typer.BadParameter(f"no number for {', '.join(wrong)}; expected NAME=WEIGHT", param_hint=f"--{option}")
    return {name: float(value) for name, value in pairs.items()}
