"""Oracle rollouts in the simulator: how many a second on one core, where the time goes, are all scores full.

    python benchmarks/rollouts.py                        # speed, over the sample harnesses
    python benchmarks/rollouts.py --tasks 2000 --check   # all four of split and language; exit status 1 on a miss

Times are processor time of the whole process, rollouts one after another, worlds and harness made before. A *miss* is a
task without an unrecoverable fault (where full scores are still possible) that the oracle did not fully earn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from livery.agent.prompt import PromptTemplates
from livery.harness.folder import load_harness
from livery.harness.hooks.run import HookRunner
from livery.shop.operations import Operations
from livery.simulator import rollout as rollout_module
from livery.simulator.oracle import OraclePolicy
from livery.simulator.rollout import live_of, rollout
from livery.simulator.tasks import make_tasks

HARNESSES = Path(__file__).parents[1] / "harnesses"
SPENT: dict[str, float] = defaultdict(float)


def timed(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """``call``, its processor time added under ``name``."""

    def run(*args: Any, **kwargs: Any) -> Any:
        began = time.process_time()
        try:
            return call(*args, **kwargs)
        finally:
            SPENT[name] += time.process_time() - began

    return run


def timed_async(name: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """As `timed`, for a coroutine; with one rollout at a time nothing else runs while it waits, but its own hooks."""

    async def run(*args: Any, **kwargs: Any) -> Any:
        began = time.process_time()
        try:
            return await call(*args, **kwargs)
        finally:
            SPENT[name] += time.process_time() - began

    return run


async def measure(language: str, split: str, count: int, seed: int) -> dict[str, Any]:
    """Rollouts of one split and language: speed, and misses."""
    live = live_of(load_harness(HARNESSES / f"streamer-{language}").harness)
    tasks = make_tasks(split, language, count, seed)  # pyright: ignore[reportArgumentType]
    policy = OraclePolicy()
    for task in tasks[:25]:
        await rollout(task, live, policy, seed=1)
    misses: list[str] = []
    began = time.process_time()
    for task in tasks:
        _, scores = await rollout(task, live, policy, seed=0)
        if not scores.full:
            misses.append(f"{task.id}: {'; '.join(scores.reasons)}")
    took = time.process_time() - began
    return {
        "language": language, "split": split, "tasks": count, "rollouts_per_s": round(count / took, 1),
        "recoverable_or_no_fault": sum("unrecoverable" not in t.tags for t in tasks), "misses": misses,
    }  # fmt: skip


async def shares(language: str, count: int, seed: int) -> dict[str, float]:
    """Milliseconds of a rollout by part. Parts are timed from outside, so that their sum is a little too high."""
    SPENT.clear()
    live = live_of(load_harness(HARNESSES / f"streamer-{language}").harness)
    tasks = make_tasks("train", language, count, seed)  # pyright: ignore[reportArgumentType]
    with (
        patch.object(HookRunner, "run", timed_async("hooks", HookRunner.run)),
        patch.object(Operations, "call", timed_async("operations", Operations.call)),
        patch.object(OraclePolicy, "act", timed_async("oracle", OraclePolicy.act)),
        patch.object(PromptTemplates, "render", timed("prompt", PromptTemplates.render)),
        patch.object(rollout_module, "verify", timed("verifier", rollout_module.verify)),
    ):
        began = time.process_time()
        for task in tasks:
            await rollout(task, live, OraclePolicy(), seed=0)
        whole = time.process_time() - began
    parts = {name: round(1000 * spent / count, 3) for name, spent in sorted(SPENT.items())}
    return {
        **parts,
        "rest": round(1000 * whole / count - sum(parts.values()), 3),
        "whole": round(1000 * whole / count, 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=400, help="of each split and language")
    parser.add_argument("--seed", type=int, default=3, help="of the first world")
    parser.add_argument("--check", action="store_true", help="both splits; exit status 1 where a score is not full")
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    for language in ("en", "zh"):
        for split in ("train", "test") if options.check else ("train",):
            one = asyncio.run(measure(language, split, options.tasks, options.seed))
            found.append(one)
            print(
                f"{language} {split}: {one['rollouts_per_s']} rollouts/s, {len(one['misses'])} misses of {one['tasks']}"
            )
            for miss in one["misses"][:20]:
                print(f"  {miss}")
    parts = {
        language: asyncio.run(shares(language, min(300, options.tasks), options.seed)) for language in ("en", "zh")
    }
    for language, spent in parts.items():
        print(f"{language}, ms a rollout: " + ", ".join(f"{k} {v}" for k, v in spent.items()))
    missed = sum(len(one["misses"]) for one in found)
    print(json.dumps({"runs": [{**one, "misses": len(one["misses"])} for one in found], "ms": parts, "misses": missed}))
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
