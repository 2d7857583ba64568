"""Rollouts: a task played under a harness by a policy, in the agent's own loop, and what it earned.

The loop is `livery.agent.Agent`; there is no second one. Worlds are kept, faults are planned by the task, and slow ones
take virtual time, so that a rollout takes as long as its computing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from livery.agent.live_harness import LiveHarness
from livery.agent.loop import Agent
from livery.harness.digest import harness_digest
from livery.harness.model import Harness
from livery.policies.policy import Policy
from livery.shop.operations import Operations
from livery.shop.registry import shop_operations
from livery.simulator.faults import Sleep, no_sleep, operations_for
from livery.simulator.task import Scores, Task
from livery.simulator.verifier import verify
from livery.simulator.worlds import world_of
from livery.types import Trajectory

OPERATIONS: Final = shop_operations()


@dataclass(frozen=True, slots=True)
class Rollout:
    """One task as it was played."""

    task: Task
    trajectory: Trajectory
    scores: Scores


def live_of(harness: Harness | LiveHarness, *, patience_s: float | None = 120.0) -> LiveHarness:
    """A harness ready to run over the shop's operations.

    Args:
        patience_s: at least this long for a request and a twelfth of it for each hook, so that scores do not hang on
            how busy a machine is; None: the harness's own limits, as in a room. All else is the harness's own.
    """
    if isinstance(harness, LiveHarness):
        return harness
    release = harness_digest(harness)
    if patience_s is not None:
        limits = harness.limits.model_copy(update={"deadline_s": max(patience_s, harness.limits.deadline_s)})
        hooks = tuple(h.model_copy(update={"timeout_s": max(patience_s / 12, h.timeout_s)}) for h in harness.hooks)
        harness = harness.replace(limits=limits, hooks=hooks)
    return LiveHarness(harness, release, OPERATIONS)


async def rollout(
    task: Task,
    harness: Harness | LiveHarness,
    policy: Policy,
    *,
    seed: int | None = None,
    operations: Operations = OPERATIONS,
    sleep: Sleep = no_sleep,
    info: Mapping[str, Any] | None = None,
) -> tuple[Trajectory, Scores]:
    """Play one task and score it.

    Args:
        seed: for policies that sample, and for the oracle's choices.
        operations: what the task's faults are laid over.
        sleep: what slow operations wait by; by default nothing waits.
        info: more for scripted policies; task and harness are given anyway. Models see none of it.

    Returns:
        The trajectory and what it earned. Nothing is raised for what policy, hooks or tools do.
    """
    live = live_of(harness)
    trajectory = await play(task, live, policy, seed=seed, operations=operations, sleep=sleep, info=info)
    return trajectory, verify(task, trajectory, live.harness, catalogue=world_of(task.world).catalogue)


async def play(
    task: Task,
    live: LiveHarness,
    policy: Policy,
    *,
    seed: int | None = None,
    operations: Operations = OPERATIONS,
    sleep: Sleep = no_sleep,
    info: Mapping[str, Any] | None = None,
) -> Trajectory:
    """`rollout` without the scores."""
    catalogue = world_of(task.world).catalogue
    agent = Agent(
        policy=policy,
        operations=operations_for(task, operations, sleep),
        catalogue=lambda: catalogue,
        clock=lambda: task.request.created_at,
    )
    told = {"task": task, "harness": live.harness, **(info or {})}
    return await agent.answer(task.request, live, seed=seed, info=told)


async def rollouts(
    tasks: Iterable[Task],
    harness: Harness | LiveHarness | Callable[[Task], Harness | LiveHarness],
    policy: Policy,
    *,
    concurrency: int = 1,
    seed: int | None = None,
    progress: Callable[[Rollout], None] | None = None,
) -> AsyncIterator[Rollout]:
    """Play tasks side by side; each is given as soon as it is done, so not always in order.

    Args:
        harness: one for all, or which each task is played under.
        concurrency: how many are played at a time: one for the oracle, more for an endpoint.
        progress: told of each.

    Raises:
        ValueError: a concurrency below one.
    """
    if concurrency < 1:
        raise ValueError(f"found concurrency {concurrency}; expected at least 1")
    choose = _same(live_of(harness)) if isinstance(harness, Harness | LiveHarness) else harness

    async def one(task: Task) -> Rollout:
        trajectory, scores = await rollout(task, choose(task), policy, seed=seed)
        return Rollout(task, trajectory, scores)

    waiting = iter(tasks)
    running: set[asyncio.Task[Rollout]] = set()
    try:
        while True:
            while len(running) < concurrency and (task := next(waiting, None)) is not None:
                running.add(asyncio.ensure_future(one(task)))
            if not running:
                return
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for finished in done:
                result = finished.result()
                if progress is not None:
                    progress(result)
                yield result
    finally:
        for task_ in running:
            task_.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _same(live: LiveHarness) -> Callable[[Task], Harness | LiveHarness]:
    return lambda task: live
