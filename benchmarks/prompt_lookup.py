"""What prompt lookup saves, and whether it changes anything: one model twice in this process, greedy, with and without.

Tasks of T1 are played under ``streamer-en-compact`` by the engine without lookup, in the agent's own loop and with the
grammar on. At each turn the engine with lookup is shown exactly the same token ids, and the two turns are compared:
their tokens, their seconds and the processor's seconds (which other programs on the machine disturb less). Which of the
two goes first alternates. Both have their own prefix cache, so that what is compared is decoding; the rest of a turn
(prefill, the grammar, tokenising) is in the whole turn's figures.

    python benchmarks/prompt_lookup.py [--tasks 20] [--lookup 8] [--lora adapter.gguf] [--threads 1]

The last line is JSON. ``identical``: share of turns with the same tokens. ``acceptance``: share of drafted tokens that
were kept. ``speed_ratio``: decoding seconds without over with, ``whole_turn_ratio`` and ``cpu_ratio``: the same of
whole turns, on the clock and of the processor; above 1, lookup is quicker.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from livery.evaluation.suites import qa_tasks
from livery.harness.folder import load_harness
from livery.policies.open import open_policy
from livery.policies.policy import Policy, PolicyRequest, PromptMessage
from livery.simulator.rollout import live_of, rollouts
from livery.types import PolicyTurn

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Measured:
    turn: PolicyTurn
    seconds: float
    cpu_s: float


class Both:
    """The plain policy, with the other shown each of its prompts. One conversation at a time."""

    actions: Literal["text", "native"] = "text"

    def __init__(self, plain: Policy, quick: Policy) -> None:
        self.plain, self.quick = plain, quick
        self.pairs: list[tuple[Measured, Measured]] = []

    @property
    def uri(self) -> str:
        return self.plain.uri

    @property
    def weights(self) -> str:
        return self.plain.weights

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        order = [self.plain, self.quick]
        if len(self.pairs) % 2:
            order.reverse()
        found = {id(policy): await _measured(policy, request) for policy in order}
        self.pairs.append((found[id(self.plain)], found[id(self.quick)]))
        return found[id(self.plain)].turn

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> None: ...

    async def aclose(self) -> None: ...


async def _measured(policy: Policy, request: PolicyRequest) -> Measured:
    began, cpu = time.perf_counter(), time.process_time()
    turn = await policy.act(request)
    return Measured(turn, time.perf_counter() - began, time.process_time() - cpu)


def figures(pairs: list[tuple[Measured, Measured]]) -> dict[str, Any]:
    same = sum(_ids(a.turn) == _ids(b.turn) for a, b in pairs)
    drafted = sum(b.turn.usage.drafted for _, b in pairs)
    accepted = sum(b.turn.usage.accepted for _, b in pairs)
    alike = [(a, b) for a, b in pairs if _ids(a.turn) == _ids(b.turn)]

    def ratio(of: Any) -> float | None:
        """Over the turns with the same tokens: others do not do the same work."""
        with_lookup = sum(of(b) for _, b in alike)
        return round(sum(of(a) for a, _ in alike) / with_lookup, 3) if with_lookup else None

    return {
        "turns": len(pairs),
        "output_tokens": sum(a.turn.usage.output for a, _ in pairs),
        "drafted": drafted,
        "accepted": accepted,
        "acceptance": round(accepted / drafted, 3) if drafted else None,
        "accepted_share_of_output": round(accepted / max(1, sum(b.turn.usage.output for _, b in pairs)), 3),
        "identical": round(same / len(pairs), 4) if pairs else None,
        "speed_ratio": ratio(lambda m: m.turn.timing.decode_s),
        "whole_turn_ratio": ratio(lambda m: m.seconds),
        "cpu_ratio": ratio(lambda m: m.cpu_s),
    }


def _ids(turn: PolicyTurn) -> object:
    return turn.tokens.output_ids if turn.tokens else turn.text


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    live = live_of(load_harness(options.harness).harness)
    query = f"temperature=0&threads={options.threads}"
    query += "" if options.lora else f"&adapter={options.adapter}"
    plain, quick = [
        await asyncio.to_thread(open_policy, f"llamacpp:?{query}&lookup={draft}", loras=options.lora)
        for draft in (0, options.lookup)
    ]
    both = Both(plain, quick)
    try:
        for n, task in enumerate(qa_tasks("en", options.tasks)):
            async for _ in rollouts([task], live, both):
                print(f"{n + 1}/{options.tasks}  {json.dumps(figures(both.pairs))}", flush=True)
    finally:
        await plain.aclose()
        await quick.aclose()
    return {
        "benchmark": "prompt_lookup",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "harness": live.harness.name,
        "weights": plain.weights,
        "lookup": options.lookup,
        "threads": options.threads,
        "tasks": options.tasks,
        **figures(both.pairs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=20, help="the first so many of T1")
    parser.add_argument("--lookup", type=int, default=8, help="longest draft, in tokens")
    parser.add_argument("--lora", type=Path, action="append", default=[], help="GGUF adapter; repeatable")
    parser.add_argument("--adapter", default="auto", help="auto or none: the shipped adapter, where no --lora is given")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--harness", type=Path, default=ROOT / "harnesses/streamer-en-compact")
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
