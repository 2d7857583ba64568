"""A draft head against plain greedy decoding: how many guesses are taken, how fast it is, and that nothing changes.

    python benchmarks/draft_head.py --data out/heldout --lora out/sft/model --head out/draft/head --turns 60 --threads 1

Every policy turn of the rows is decoded greedily from what the policy had read then: without a head, with the trained
head, and with one of random weights, one after another for each turn, in an order that rotates, by one model in one
process. Speed is that of decoding alone: tokens after the first, by the seconds from the first to the last.
*Acceptance* is guesses taken by guesses made; *accepted length* is tokens a pass of the model, its own included. A turn
is *identical* if all its ids are those of plain decoding; where one is not, ``gap`` says how far apart the two
tokens were in the model's own log-probabilities at the first difference (batched arithmetic rounds differently, so that
two tokens about as likely may change places). The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any

import torch

from livery.policies.hf import HfOptions, HfPolicy
from livery.policies.hf_draft import DraftHead
from livery.policies.hf_loading import load_model, load_tokenizer
from livery.policies.policy import PolicyRequest
from livery.training.rows import DataRow, read_rows
from livery.training.run_card import machine
from livery.types import PolicyTurn


def turns_of(rows: list[DataRow], n: int, tokens: int, seed: int) -> list[PolicyRequest]:
    """At most ``n`` requests, each from another row as far as there are rows."""
    rng = random.Random(seed)
    rng.shuffle(rows)
    by_row: list[list[PolicyRequest]] = []
    for row in rows[:n]:
        at = [i for i, m in enumerate(row.messages) if m.role == "assistant"]
        rng.shuffle(at)
        by_row.append(
            [
                PolicyRequest(messages=row.messages[:i], tools=(), max_tokens=tokens, timeout_s=3600.0, seed=0)
                for i in at
            ]
        )
    depth = max(map(len, by_row))
    return [turns[k] for k in range(depth) for turns in by_row if k < len(turns)][:n]


def first_gap(plain: PolicyTurn, other: PolicyTurn) -> float:
    assert plain.tokens and other.tokens
    pairs = zip(plain.tokens.output_ids, other.tokens.output_ids, strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    return abs(plain.tokens.logprobs[at] - other.tokens.logprobs[at]) if at is not None else float("inf")


def figures(turns: list[PolicyTurn], plain: list[PolicyTurn], checks: int, drafts: int) -> dict[str, Any]:
    after = sum(t.usage.output - 1 for t in turns)
    seconds = sum(t.timing.decode_s for t in turns)
    drafted = sum(t.usage.drafted for t in turns)
    accepted = sum(t.usage.accepted for t in turns)
    changed = [first_gap(p, t) for p, t in zip(plain, turns, strict=True) if p.tokens.output_ids != t.tokens.output_ids]
    out: dict[str, Any] = {
        "tokens": sum(t.usage.output for t in turns),
        "tokens_a_second": round(after / seconds, 3),
        "decode_s": round(seconds, 2),
        "identical": 1 - len(changed) / len(turns),
    }
    if changed:
        out["gap"] = max(changed)
    if checks:
        length = after / checks
        out |= {
            "drafted": drafted,
            "accepted": accepted,
            "acceptance": round(accepted / drafted, 4) if drafted else 0.0,
            "accepted_length": round(length, 3),
            "length_of_most": round(length / (drafts + 1), 4),
        }
    return out


async def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    tokenizer = load_tokenizer(arguments.model)
    adapters = [(path, 1.0) for path in arguments.lora]
    model = load_model(arguments.model, dtype=arguments.dtype, device=arguments.device, adapters=adapters).eval()
    torch.manual_seed(arguments.seed)
    trained = DraftHead.load(arguments.head, model)
    like = trained.join.weight
    untrained = DraftHead(model, vocabulary=trained.vocabulary.tolist(), start="fresh")
    untrained = untrained.to(device=like.device, dtype=like.dtype).requires_grad_(False)
    options = HfOptions(temperature=0.0, context=arguments.context, batch=1, draft_tokens=arguments.draft_tokens)
    heads = {"plain": None, "trained": trained, "untrained": untrained}
    policies = {name: HfPolicy(model, tokenizer, options, draft=head) for name, head in heads.items()}
    requests = turns_of(read_rows(arguments.data), arguments.turns, arguments.tokens, arguments.seed)
    turns: dict[str, list[PolicyTurn]] = {name: [] for name in policies}
    order = list(policies)
    for i, request in enumerate([requests[0], *requests]):  # the first turn warms and is left out
        for name in order:
            turn = await policies[name].act(request)
            if i:
                turns[name].append(turn)
        order = [*order[1:], order[0]]
        if i == 0:
            warmed = {name: policy.checks for name, policy in policies.items()}
        print(f"\r{i}/{len(requests)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    out = {
        name: figures(made, turns["plain"], policies[name].checks - warmed[name], arguments.draft_tokens)
        for name, made in turns.items()
    }
    for policy in policies.values():
        await policy.aclose()
    for name in ("trained", "untrained"):
        out[name]["times_plain"] = round(out[name]["tokens_a_second"] / out["plain"]["tokens_a_second"], 3)
    return {
        "turns": len(requests),
        "draft_tokens": arguments.draft_tokens,
        "guessed_ids": len(trained.vocabulary) or model.config.vocab_size,
        **out,
        "machine": machine(),
        "threads": torch.get_num_threads(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="rows that the head was not trained on")
    parser.add_argument("--head", type=Path, required=True, help="folder of livery train draft: .../head")
    parser.add_argument("--model", default="", help="as for hf:; empty: the embedded model")
    parser.add_argument("--lora", type=Path, action="append", default=[])
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=120, help="most tokens a turn")
    parser.add_argument("--draft-tokens", type=int, default=3)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write the JSON there too")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    found = asyncio.run(measure(arguments))
    for name in ("plain", "trained", "untrained"):
        print(f"{name:10}", "  ".join(f"{k} {v}" for k, v in found[name].items()))
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found))
    # Another token is a fault only where the model clearly preferred one of the two.
    return int(any(found[name].get("gap", 0.0) > 1e-3 for name in ("trained", "untrained")))


if __name__ == "__main__":
    raise SystemExit(main())
