"""Latency replay: the same seeded requests through the whole agent and its voice, so many rooms at a time.

Requests are the simulator's (train split, no faults), dealt to rooms that each ask one after the other, as a chat does:
a room's second request finds the first one's prefix in the model's cache. At concurrency ``c`` so many rooms are asked
at a time. Every concurrency plays the same requests with the same seeds under the harness's own limits.

Not here: what is made of the seconds (`livery.evaluation.latency_figures`), and a queue of viewers in front of the
agent: that is a room's, and is loaded by `livery.evaluation.load`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from livery.agent.live_harness import LiveHarness
from livery.agent.loop import Agent
from livery.errors import InputError, PolicyUnavailable
from livery.evaluation.run import GIVE_UP, seed_of
from livery.policies.policy import Policy, PromptMessage
from livery.room.contract import SpeechOutput
from livery.simulator.mix import Mix
from livery.simulator.rollout import OPERATIONS
from livery.simulator.task import Task, WorldRef
from livery.simulator.tasks import make_task
from livery.simulator.worlds import Language, World, world_of
from livery.types import Trajectory

MIX: Final = Mix(faults=0.0)
"""What is asked: as in the frozen sets, but every operation works. A retry after a fault is no latency of the agent."""
ROOMS: Final = 8
FIRST_WORLD: Final = 5_000_000
"""Worlds from here on; those that data is built from begin at small seeds."""

Rooms = Sequence[Sequence[Task]]
"""By room, in the order they are asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One request as it was answered."""

    id: str
    first: bool
    """Whether it was its room's first."""
    trajectory: Trajectory
    synthesis_s: float = 0.0
    """Until the voice had made its audio; 0 where nothing was said or there is no voice."""

    @property
    def whole_s(self) -> float:
        """From the request to the reply that can be heard, or to the decision to say nothing."""
        return self.trajectory.total_s + self.synthesis_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """All requests at one concurrency."""

    concurrency: int
    requests: tuple[Measured, ...]
    """By room and place: the same order at every concurrency."""
    wall_s: float
    warm_s: float
    """Reading the prompt's unchanging prefix into the cache, before the first request."""


def bench_world(language: Language, seed: int, room: int = 0, store: str = "") -> World:
    """The shop and room of a bench.

    Args:
        store: a store's folder; empty: a made world.
    """
    return world_of(WorldRef(split="train", language=language, seed=FIRST_WORLD + seed + room, store=store))


def make_rooms(language: Language, n: int, *, seed: int = 0, store: str = "", rooms: int = ROOMS) -> Rooms:
    """``n`` requests over at most ``rooms`` rooms, each of a world (or of an evening of the store) of its own.

    Raises:
        InputError: fewer than one request or room, or the store cannot be read.
    """
    if n < 1 or rooms < 1:
        raise InputError.at("--limit", f"found {n} requests in {rooms} rooms; expected at least 1 of each")
    rooms = min(rooms, n)
    counts = [n // rooms + (r < n % rooms) for r in range(rooms)]
    worlds = [bench_world(language, seed, r, store) for r in range(rooms)]
    return [[make_task(w, i, MIX) for i in range(count)] for w, count in zip(worlds, counts, strict=True)]


async def measure(
    rooms: Rooms,
    live: LiveHarness,
    policy: Policy,
    *,
    concurrency: int,
    speech: SpeechOutput | None = None,
    seed: int = 0,
    progress: Callable[[Measured], None] = lambda measured: None,
    monotonic: Callable[[], float] = time.perf_counter,
) -> Level:
    """Ask every room's questions, ``concurrency`` rooms at a time.

    Args:
        live: with the limits under which it is to be measured.
        speech: a voice; its audio is made and not played.
        seed: of policies that sample; each request has its own, the same in every run.
        monotonic: seconds.

    Raises:
        InputError: a concurrency below one, or above the number of rooms.
        PolicyUnavailable: nobody answered `GIVE_UP` times in a row.
    """
    if not 1 <= concurrency <= len(rooms):
        raise InputError.at("--concurrency", f"found {concurrency}; expected 1 to {len(rooms)}, the number of rooms")
    system = PromptMessage(role="system", content=live.prompt.system(policy.actions))
    began = monotonic()
    for tasks in rooms[:concurrency]:
        await policy.warm((system,), tasks[0].request.room)
    warmed = monotonic()
    made: dict[tuple[int, int], Measured] = {}
    waiting = iter(enumerate(rooms))
    absent = 0

    async def worker() -> None:
        nonlocal absent
        for number, tasks in waiting:
            for place, task in enumerate(tasks):
                one = await _ask(task, place == 0, live, policy, speech, seed, monotonic)
                reason = one.trajectory.route_reason
                absent = absent + 1 if reason.startswith(f"policy: {PolicyUnavailable.__name__}") else 0
                if absent >= GIVE_UP:
                    raise PolicyUnavailable(f"stopped: {GIVE_UP} requests in a row found no policy; last: {reason}")
                made[number, place] = one
                progress(one)

    workers = [asyncio.ensure_future(worker()) for _ in range(concurrency)]
    try:
        await asyncio.gather(*workers)
    finally:
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return Level(
        concurrency=concurrency,
        requests=tuple(made[at] for at in sorted(made)),
        wall_s=monotonic() - warmed,
        warm_s=warmed - began,
    )


async def _ask(
    task: Task,
    first: bool,
    live: LiveHarness,
    policy: Policy,
    speech: SpeechOutput | None,
    seed: int,
    monotonic: Callable[[], float],
) -> Measured:
    catalogue = world_of(task.world).catalogue
    agent = Agent(
        policy=policy,
        operations=OPERATIONS,
        catalogue=lambda: catalogue,
        clock=lambda: task.request.created_at,
        monotonic=monotonic,
    )
    # Scripted policies are told the task, as in evaluation; models never see it.
    told = {"task": task, "harness": live.harness}
    trajectory = await agent.answer(task.request, live, seed=seed_of(seed, task.id), info=told)
    synthesis_s = 0.0
    if speech is not None and trajectory.reply:
        asked = monotonic()
        await speech.speak(trajectory.reply, live.harness.language)
        synthesis_s = monotonic() - asked
    return Measured(id=task.id, first=first, trajectory=trajectory, synthesis_s=synthesis_s)
