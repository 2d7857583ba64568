"""Prefix-shared packing beside TRL's own packing: the same rows, model and optimizer, in one run.

    python benchmarks/packing.py [--data DIR] [--model PATH] [--lengths en|zh] [--tasks-a-harness 5]

Rows are those of ``livery data build`` (``--data``), or made with the lengths that rows of a sample harness
have (English: a prompt of 840 tokens, 300 to 520 for viewer, calls, skill, results and reply, a quarter of
them written by the policy). The model is two layers of SmolLM2-135M with a vocabulary cut in the same
proportion (``--model`` for a real one), so that attention, layers and output head cost what they cost there,
in relation. TRL packs with its default strategy (best fit, decreasing) into the shortest power of two that
holds the longest row, which is its best case on a CPU: attention under a mask costs the square. All train an
epoch with AdamW in the same number of steps, by turns; the best time of each counts. Reading the rows,
tokenising and building trainers are not timed.

Part of the gain is not the sharing: on a CPU TRL computes logits for every token, this only where the policy
wrote. ``rows`` in the output is the same loss on padded rows without sharing, which shows how much.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import datasets
import torch
import transformers
import trl

from livery.policies.hf_loading import load_model
from livery.training.conversations import TokenRow
from livery.training.packing import choose_packing, collate
from livery.training.rows import DataRow, read_rows
from livery.training.sft import PackedTrainer
from livery.training.tree import lay_out

VOCABULARY = 3264


LENGTHS = {"en": (840, 300, 520), "zh": (3000, 700, 1100)}
"""Tokens of the sample harnesses' prompts, and the least and the most after them, in the embedded model's
vocabulary."""


def made_rows(lengths: str, harnesses: int, tasks: int, rng: random.Random) -> list[DataRow]:
    shared, least, most = LENGTHS[lengths]
    rows: list[DataRow] = []
    for h in range(harnesses):
        prompt = [rng.randrange(3, VOCABULARY) for _ in range(shared)]
        for t in range(tasks):
            rest = [rng.randrange(3, VOCABULARY) for _ in range(rng.randrange(least, most))]
            written = [False] * len(prompt)
            while len(written) < len(prompt) + len(rest):
                written += [False] * 90 + [True] * 30
            written = written[: len(prompt) + len(rest)]
            tokens = TokenRow(ids=tuple(prompt + rest), written=tuple(written))
            rows.append(DataRow(id=f"{h}/{t}", group=str(h), tokens=tokens, messages=(), fields={}))
    return rows


def some_rows(rows: list[DataRow], harnesses: int, *, real: bool) -> list[DataRow]:
    """Rows of the first harnesses, each alone in its group; for the small model with its ids folded into the
    vocabulary, which keeps what is equal equal."""
    groups = list(dict.fromkeys(r.group for r in rows))[:harnesses]
    size = 1 << 62 if real else VOCABULARY
    return [
        DataRow(
            id=r.id,
            group=r.group,
            tokens=TokenRow(ids=tuple(i % size for i in r.tokens.ids), written=r.tokens.written),
            messages=(),
            fields={},
        )
        for r in rows
        if r.group in groups
    ]


def small_model() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=576, intermediate_size=1536, num_hidden_layers=2, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=8192, tie_word_embeddings=True, pad_token_id=0,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def tokenizer() -> Any:
    """Asked for by the trainers; no text is tokenised."""
    import tokenizers

    core = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<pad>": 0, "<eos>": 1}, unk_token="<pad>"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<eos>")


def settings(out: str, **changes: Any) -> trl.SFTConfig:
    fixed: dict[str, Any] = {
        "output_dir": out,
        "per_device_train_batch_size": 1,
        "num_train_epochs": 1,
        "learning_rate": 1e-4,
        "save_strategy": "no",
        "logging_steps": 1,
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "bf16": False,
        "activation_checkpointing": False,
        "dataloader_pin_memory": False,
        "seed": 0,
    }
    return trl.SFTConfig(**{**fixed, **changes})


def theirs(rows: list[DataRow], model: Any, out: str, width: int, accumulate: int) -> tuple[float, dict[str, Any]]:
    data = datasets.Dataset.from_dict(
        {"input_ids": [list(r.tokens.ids) for r in rows], "labels": [r.tokens.labels for r in rows]}
    )
    # Its padding-free batches are kept apart by position, which SDPA turns into a block mask.
    trainer = trl.SFTTrainer(
        model=model,
        args=settings(out, packing=True, max_length=width, gradient_accumulation_steps=accumulate),
        train_dataset=data,
        processing_class=tokenizer(),
    )
    trainer.remove_callback(transformers.PrinterCallback)
    seconds = timed(trainer)
    read = sum(len(x) for x in trainer.train_dataset["input_ids"])
    return seconds, {"tokens": read, "steps": trainer.state.global_step, "max_length": width}


def ours(rows: list[DataRow], model: Any, out: str, kind: str) -> tuple[float, dict[str, Any]]:
    groups: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(row.group, []).append(i)
    chosen = choose_packing(model, kind)

    def batch(examples: list[dict[str, Any]]) -> dict[str, Any]:
        return collate([rows[i].tokens for e in examples for i in e["rows"]], chosen.kind)

    trainer = PackedTrainer(
        model=model,
        args=settings(out, max_length=None, remove_unused_columns=False, dataset_kwargs={"skip_prepare_dataset": True}),
        data_collator=batch,
        train_dataset=datasets.Dataset.from_dict({"rows": list(groups.values())}),
        processing_class=tokenizer(),
    )
    trainer.remove_callback(transformers.PrinterCallback)
    seconds = timed(trainer)
    laid = sum(len(lay_out([rows[i].tokens.ids for i in g]).ids) for g in groups.values())
    tokens = laid if chosen.kind != "rows" else sum(len(r.tokens.ids) for r in rows)
    return seconds, {"tokens": tokens, "steps": trainer.state.global_step, "kind": chosen.kind}


def timed(trainer: Any) -> float:
    """Seconds of this process's own: what else the machine does is not counted. Meant for one thread."""
    began = time.process_time()
    trainer.train()
    return time.process_time() - began


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--data", type=Path)
    options.add_argument("--model", default="")
    options.add_argument("--lengths", choices=LENGTHS, default="en", help="of which sample harness")
    options.add_argument("--harnesses", type=int, default=2)
    options.add_argument("--tasks-a-harness", type=int, default=5)
    options.add_argument("--trl-max-length", type=int, default=0, help="0: as the longest row needs")
    options.add_argument("--only", nargs="+", choices=["trl", "shared", "mask", "rows"], help="leave the others out")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--threads", type=int, default=1)
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    datasets.disable_progress_bars()
    rows = made_rows(given.lengths, given.harnesses, given.tasks_a_harness, random.Random(0))
    if given.data:
        rows = some_rows(read_rows(given.data), given.harnesses, real=bool(given.model))
    model = (lambda: load_model(given.model)) if given.model else small_model
    longest = max(len(r.tokens.ids) for r in rows)
    width = given.trl_max_length or 1 << (longest - 1).bit_length()
    a_harness = len(rows) / len({r.group for r in rows})
    ways: dict[str, Any] = {
        "trl": lambda out: theirs(rows, model(), out, width, round(a_harness * width / 2048)),
        "shared": lambda out: ours(rows, model(), out, "tree"),
        "mask": lambda out: ours(rows, model(), out, "mask"),
        "rows": lambda out: ours(rows, model(), out, "rows"),
    }
    figures: dict[str, dict[str, Any]] = {}
    with TemporaryDirectory() as folder:
        for turn in range(given.rounds):
            for name, run in ways.items():
                if given.only and name not in given.only:
                    continue
                seconds, about = run(f"{folder}/{name}{turn}")
                best = min(seconds, figures.get(name, {}).get("seconds", seconds))
                figures[name] = {**about, "seconds": best, "trajectories_per_s": len(rows) / best}
                print(f"{name:7} {len(rows) / seconds:7.3f} trajectories/s", file=sys.stderr)
    speed = {name: about["trajectories_per_s"] for name, about in figures.items()}
    rounded = {
        name: {k: round(v, 4) if isinstance(v, float) else v for k, v in about.items()}
        for name, about in figures.items()
    }
    result: dict[str, Any] = {
        "benchmark": "packing",
        "lengths": str(given.data) if given.data else given.lengths,
        "trajectories": len(rows),
        "tasks_a_harness": a_harness,
        "tokens_of_rows": sum(len(r.tokens.ids) for r in rows),
        **rounded,
    }
    if {"shared", "trl"} <= speed.keys():
        result["ratio"] = round(speed["shared"] / speed["trl"], 3)
    if {"shared", "rows"} <= speed.keys():
        result["ratio_of_sharing"] = round(speed["shared"] / speed["rows"], 3)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
