"""Rollouts for RL: tasks played by the agent's own loop, as token rows with what each earned.

TRL's trainer asks a ``rollout_func`` for one row a prompt; `AgentRollouts` is one. A prompt is the index of a `Job`: a
task of the train split and the harness that it is played under, so that each prompt has its own tools. Rows are the ids
that were read and sampled, appended turn by turn; whatever the policy did not write is masked. Each id knows the kind
of its turn (`livery.training.advantages.Kind`).

Not here: advantages, loss, the trainer (`livery.training.rl`), and the policy that samples.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from livery.augment.operators import DIMENSIONS, Dimension
from livery.augment.sampling import sample_variant
from livery.errors import InputError, PolicyUnavailable
from livery.harness.digest import harness_digest
from livery.harness.model import Harness
from livery.policies.policy import Policy
from livery.simulator.rollout import play
from livery.simulator.task import Scores, Task
from livery.simulator.verifier import verify
from livery.simulator.worlds import world_of
from livery.training.advantages import Kind, length_penalty
from livery.training.rl_options import RlOptions
from livery.training.rollouts import Group
from livery.types import Route, Trajectory

REWARDS = ("accuracy", "effectiveness", "tool_rationality", "skill_selection", "call_length", "reply_length")


# ------------------------------------------------------------------------------------------- what is played


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A task under its harness, once in a run; its group of rollouts shares the prompt."""

    index: int
    task: Task
    harness: Group
    seed: int


def plan_jobs(
    options: RlOptions, tasks: Mapping[str, Sequence[Task]], harnesses: Mapping[str, Harness], n: int
) -> list[Job]:
    """The first ``n`` jobs of a run, in its order. They follow from the options alone.

    Every pass meets each task once, in an order and under harnesses of its own. The base's share is exact in a pass.

    Args:
        tasks: by the name of the harness that they are for.

    Raises:
        InputError: no tasks, or a dimension that does not exist.
    """
    pairs = [(name, task) for name, own in tasks.items() for task in own]
    if not pairs:
        raise InputError.at("rl options", "no tasks; expected at least one", field="tasks", code="rl-tasks")
    unknown = sorted(set(options.dimensions) - {str(d) for d in DIMENSIONS})
    if unknown:
        known = ", ".join(DIMENSIONS)
        raise InputError.at("rl options", f"{', '.join(unknown)}; expected some of {known}", field="dimensions")
    digests = {name: harness_digest(harness) for name, harness in harnesses.items()}
    jobs: list[Job] = []
    turn = 0
    while len(jobs) < n:
        rng = random.Random(f"{options.seed}/rl/{turn}")
        turn += 1
        base = set(rng.sample(range(len(pairs)), round(options.base_share * len(pairs))))
        for i in rng.sample(range(len(pairs)), len(pairs)):
            (name, task), seed = pairs[i], rng.getrandbits(48)
            make = _maker(options, harnesses[name], digests[name], seed, is_base=i in base)
            group = Group(len(jobs), harnesses[name], seed, i in base, make, options.patience_s)
            jobs.append(Job(index=len(jobs), task=task, harness=group, seed=rng.getrandbits(48)))
    return jobs[:n]


def _maker(
    options: RlOptions, harness: Harness, digest: str, seed: int, *, is_base: bool
) -> Callable[[], tuple[Harness, list[dict[str, Any]]]]:
    def make() -> tuple[Harness, list[dict[str, Any]]]:
        if is_base:
            return harness, []
        dimensions: tuple[Dimension, ...] = tuple(d for d in DIMENSIONS if d in options.dimensions) or DIMENSIONS
        variant = sample_variant(harness, seed, "train", options.strength, dimensions, base_digest=digest)
        return variant.harness, [record.model_dump(mode="json") for record in variant.records]

    return make


# ------------------------------------------------------------------------------------------- what came of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One rollout as a row. All that is per id has the length of ``ids``."""

    ids: tuple[int, ...]
    written: tuple[bool, ...]
    """Whether the policy wrote the id. Prompt, tool results, feedback and the openings of turns are not its own."""
    kinds: tuple[int, ...]
    """The `Kind` of the turn; means nothing where the policy did not write."""
    logprobs: tuple[float, ...]
    """The sampler's, 0 where the policy did not write."""
    rewards: Mapping[str, float]
    """By `REWARDS`; NaN: does not apply."""
    outcome: Mapping[str, float]
    """For the log; NaN: does not apply."""

    def __post_init__(self) -> None:
        lengths = {len(self.ids), len(self.written), len(self.kinds), len(self.logprobs)}
        if len(lengths) != 1:
            raise ValueError(f"ids, mask, kinds and log-probabilities of lengths {sorted(lengths)}, expected one")


def token_row(trajectory: Trajectory) -> dict[str, tuple[Any, ...]]:
    """Ids, mask, kinds and log-probabilities of a trajectory whose turns hold their tokens.

    Ids are taken as they were read and sampled; nothing is encoded here.

    Raises:
        ValueError: a turn without tokens or log-probabilities, or one whose prompt does not begin with what the policy
            had read and written before.
    """
    ids: list[int] = []
    written: list[bool] = []
    kinds: list[int] = []
    logprobs: list[float] = []
    for turn in trajectory.turns:
        tokens = turn.policy.tokens
        if tokens is None or len(tokens.logprobs) != len(tokens.output_ids):
            raise ValueError(f"turn {turn.round} of {trajectory.id} has no tokens with log-probabilities")
        if list(tokens.prompt_ids[: len(ids)]) != ids:
            raise ValueError(f"turn {turn.round} of {trajectory.id} does not begin with the ids of the turns before it")
        kind = Kind.CALL if turn.policy.calls else Kind.REPLY
        read = tokens.prompt_ids[len(ids) :]
        ids += [*read, *tokens.output_ids]
        written += [False] * len(read) + [True] * len(tokens.output_ids)
        kinds += [int(kind)] * (len(read) + len(tokens.output_ids))
        logprobs += [0.0] * len(read) + list(tokens.logprobs)
    return {"ids": tuple(ids), "written": tuple(written), "kinds": tuple(kinds), "logprobs": tuple(logprobs)}


def rewards_of(task: Task, trajectory: Trajectory, scores: Scores, options: RlOptions) -> dict[str, float]:
    """What a rollout earned, by name.

    Answers of the degraded route are the runtime's, not the policy's, so they earn the policy nothing; nor does
    silence, but where it was right. A conversation that ran out of time was not played: all NaN.
    """
    if _late(trajectory):
        return dict.fromkeys(REWARDS, math.nan)
    own = trajectory.route in (Route.AGENT, Route.HANDOFF) or (trajectory.route is Route.SILENT and task.may_be_silent)
    reasoning = _reasoning(trajectory)
    return {
        "accuracy": float(scores.accuracy) if own else 0.0,
        "effectiveness": float(scores.effectiveness) if own else 0.0,
        "tool_rationality": float(scores.tool_rationality),
        "skill_selection": float(scores.skill_selection),
        "call_length": length_penalty(reasoning[Kind.CALL], free=options.call_free, cap=options.call_cap),
        "reply_length": length_penalty(reasoning[Kind.REPLY], free=options.reply_free, cap=options.reply_cap),
    }


def outcome_of(trajectory: Trajectory, rewards: Mapping[str, float]) -> dict[str, float]:
    """What a log keeps of a rollout besides its rewards."""
    late = _late(trajectory)
    reasoning = _reasoning(trajectory)
    stops = [turn.policy.stop for turn in trajectory.turns]
    return {
        "success": math.nan if late else float(rewards["accuracy"] == 1 and rewards["effectiveness"] > 0.5),
        "truncated": float("length" in stops or "PolicyOverflow" in trajectory.route_reason),
        "malformed": float("malformed" in stops),
        "sent_back": float(any(turn.feedback for turn in trajectory.turns)),
        "degraded": float(trajectory.route in (Route.DEGRADED, Route.SILENT)),
        "late": float(late),
        "turns": float(len(trajectory.turns)),
        "tokens": float(sum(turn.policy.usage.output for turn in trajectory.turns)),
        "call_reasoning": _mean(reasoning[Kind.CALL]),
        "reply_reasoning": _mean(reasoning[Kind.REPLY]),
    }


def _late(trajectory: Trajectory) -> bool:
    return trajectory.route_reason.startswith(("deadline:", "policy: PolicyTimeout"))


def _reasoning(trajectory: Trajectory) -> dict[Kind, list[int]]:
    """Tokens of reasoning of each turn, by kind."""
    found: dict[Kind, list[int]] = {kind: [] for kind in Kind}
    for turn in trajectory.turns:
        found[Kind.CALL if turn.policy.calls else Kind.REPLY].append(turn.policy.usage.reasoning)
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


# ------------------------------------------------------------------------------------------- TRL's rollout_func


@dataclass(slots=True, kw_only=True)
class Rollouts:
    """What a generation gave. `as_trl` is the form in which TRL's trainer is told."""

    samples: list[Sample]
    scoring_s: float = 0.0

    def as_trl(self) -> dict[str, Any]:
        """One entry a prompt: what was read before the first turn, and all that came after it, with a mask."""
        starts = [sample.written.index(True) if any(sample.written) else len(sample.ids) for sample in self.samples]
        pairs = list(zip(self.samples, starts, strict=True))
        return {
            "prompt_ids": [list(s.ids[:at]) for s, at in pairs],
            "completion_ids": [list(s.ids[at:]) for s, at in pairs],
            "logprobs": [list(s.logprobs[at:]) for s, at in pairs],
            "env_mask": [[int(own) for own in s.written[at:]] for s, at in pairs],
            "kinds": [list(s.kinds[at:]) for s, at in pairs],
            "rewards": [dict(s.rewards) for s in self.samples],
            "outcome": [dict(s.outcome) for s in self.samples],
            "scoring_s": self.scoring_s,
        }


def samples_of(output: Mapping[str, Any], prompts: int) -> list[Sample]:
    """The inverse of `Rollouts.as_trl`.

    Raises:
        ValueError: not one row a prompt, or lengths that do not fit one another.
    """
    names = ("prompt_ids", "completion_ids", "logprobs", "env_mask", "kinds", "rewards", "outcome")
    counts = {name: len(output[name]) for name in names}
    if set(counts.values()) != {prompts}:
        raise ValueError(f"rollouts returned {counts} for {prompts} prompts, expected one row for each")
    made: list[Sample] = []
    for read, rest, logprobs, mask, kinds, rewards, outcome in zip(*(output[name] for name in names), strict=True):
        none = [0] * len(read)
        made.append(
            Sample(
                ids=(*read, *rest),
                written=(*map(bool, none), *map(bool, mask)),
                kinds=(*none, *kinds),
                logprobs=(*map(float, none), *logprobs),
                rewards=rewards,
                outcome=outcome,
            )
        )
    return made


@dataclass(slots=True, kw_only=True)
class AgentRollouts:
    """``rollout_func``: the jobs of the prompts, each played once for each time it stands there."""

    jobs: Sequence[Job]
    options: RlOptions
    policy: Callable[[Any], Policy]
    """The policy that samples, with the trainer's weights as they are now; given the trainer."""
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)
    """All conversations run in one event loop."""

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        return self.runner.run(self.play([int(prompt) for prompt in prompts], self.policy(trainer))).as_trl()

    async def play(self, indices: Sequence[int], policy: Policy) -> Rollouts:
        """
        Args:
            indices: of jobs; an index that stands there several times is a group.

        Raises:
            PolicyUnavailable: the engine failed; what it gave is not the policy's doing.
        """
        gate = asyncio.Semaphore(self.options.concurrency)
        seen: dict[int, int] = {}

        async def one(job: Job, seed: int) -> Trajectory:
            async with gate:
                return await play(job.task, job.harness.live, policy, seed=seed)

        running: list[asyncio.Task[Trajectory]] = []
        async with asyncio.TaskGroup() as tasks:
            for index in indices:
                job, nth = self.jobs[index], seen.get(index, 0)
                seen[index] = nth + 1
                seed = random.Random(f"{job.seed}/{nth}").getrandbits(31)
                running.append(tasks.create_task(one(job, seed)))
        trajectories = [task.result() for task in running]
        for trajectory in trajectories:
            if trajectory.route_reason.startswith("policy: PolicyUnavailable"):
                raise PolicyUnavailable(trajectory.route_reason)
        began = time.perf_counter()
        samples = [self._sample(self.jobs[i], t) for i, t in zip(indices, trajectories, strict=True)]
        for index in seen:
            self.jobs[index].harness.forget()
        return Rollouts(samples=samples, scoring_s=time.perf_counter() - began)

    def _sample(self, job: Job, trajectory: Trajectory) -> Sample:
        catalogue = world_of(job.task.world).catalogue
        scores = verify(job.task, trajectory, job.harness.live.harness, catalogue=catalogue)
        rewards = rewards_of(job.task, trajectory, scores, self.options)
        return Sample(**token_row(trajectory), rewards=rewards, outcome=outcome_of(trajectory, rewards))
