"""Who makes training conversations and who judges them: one task under one harness, run by the agent's own
loop.

`Teacher` and `Filter` are small on purpose: the builder (`livery.training.data`) needs no more, and tests and
users may bring their own. `AgentTeacher` runs any policy (the oracle, an endpoint, a model) in the task's
simulated shop; `VerifierFilter` keeps what the simulator's verifier finds right, `JudgeFilter` asks a policy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, cast

from livery.agent.live_harness import LiveHarness
from livery.errors import PolicyError
from livery.harness.model import Harness
from livery.policies.policy import Policy, PolicyRequest, PromptMessage
from livery.simulator.oracle import Manner, OraclePolicy
from livery.simulator.rollout import live_of, rollout
from livery.simulator.task import Scores, Task
from livery.simulator.verifier import verify
from livery.training.conversations import Recorder
from livery.types import Route, Trajectory


@dataclass(eq=False)
class Group:
    """Tasks that share a harness. The harness is made when it is first needed, and its prompt is rendered
    once."""

    index: int
    base: Harness
    seed: int
    is_base: bool
    make: Callable[[], tuple[Harness, list[dict[str, Any]]]]
    """The harness, and the record of what was done to the base."""
    patience_s: float = 120.0
    """A teacher's time for one conversation; the harness's own is a live room's."""

    @cached_property
    def made(self) -> tuple[Harness, list[dict[str, Any]]]:
        return self.make()

    @property
    def harness(self) -> Harness:
        return self.made[0]

    @cached_property
    def live(self) -> LiveHarness:
        """Ready to run, with as much time as a teacher may take."""
        return live_of(self.harness, patience_s=self.patience_s)

    @property
    def release(self) -> str:
        return self.live.release

    def forget(self) -> None:
        """Let go of what was made: thousands of variants would fill the memory."""
        self.__dict__.pop("made", None)
        self.__dict__.pop("live", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    index: int
    task: Task
    group: Group
    seed: int

    @property
    def name(self) -> str:
        return f"{self.index}/{self.task.id}/{self.group.base.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    trajectory: Trajectory
    messages: tuple[PromptMessage, ...]
    """The conversation as the policy saw it; ends with its last turn."""
    scores: Scores | None = None
    """By the verifier, where the teacher's run has them already."""


class Teacher(Protocol):
    @property
    def name(self) -> str: ...

    async def run(self, job: Job) -> Rollout: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    reasons: tuple[str, ...] = ()
    """Why it is dropped, each as ``kind: words``; empty: it is kept."""
    scores: Mapping[str, float] = field(default_factory=dict[str, float])


class Filter(Protocol):
    @property
    def name(self) -> str: ...

    async def judge(self, job: Job, rollout: Rollout) -> Verdict: ...


class AgentTeacher:
    """A policy in the task's own shop: the simulator's rollout, with the conversation kept."""

    def __init__(self, policy: Policy) -> None:
        """
        Raises:
            InputError: a policy with native function calls.
        """
        Recorder(policy)  # refuses what cannot be recorded, before the first conversation
        self._policy = policy

    @property
    def name(self) -> str:
        return self._policy.uri

    async def run(self, job: Job) -> Rollout:
        recorder = Recorder(self._policy)
        trajectory, scores = await rollout(job.task, job.group.live, recorder, seed=job.seed)
        return Rollout(trajectory=trajectory, messages=recorder.messages, scores=scores)


def oracle_teacher(seed: int = 0, manner: Manner = "varied") -> AgentTeacher:
    """The simulator's oracle: right on every task, in words that vary with the seed, or plainly."""
    return AgentTeacher(OraclePolicy(seed=seed, manner=manner))


def _not_the_policys(trajectory: Trajectory) -> tuple[str, ...]:
    if trajectory.route in (Route.AGENT, Route.HANDOFF) and trajectory.turns and trajectory.reply:
        return ()
    return (f"route {trajectory.route.value}: {trajectory.route_reason}",)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierFilter:
    """Keeps what earns at least these scores."""

    accuracy: float = 1.0
    effectiveness: float = 1.0
    tool_rationality: float = 1.0
    skill_selection: float = 1.0

    @property
    def name(self) -> str:
        return "verifier"

    async def judge(self, job: Job, rollout: Rollout) -> Verdict:
        scores: Any = rollout.scores or verify(job.task, rollout.trajectory, job.group.live.harness)
        earned = {
            "accuracy": float(scores.accuracy),
            "effectiveness": float(scores.effectiveness),
            "tool_rationality": float(scores.tool_rationality),
            "skill_selection": float(scores.skill_selection),
        }
        told = "; ".join(scores.reasons)
        low = [f"{name}: {value:g} ({told})" for name, value in earned.items() if value < getattr(self, name)]
        return Verdict(reasons=(*_not_the_policys(rollout.trajectory), *low), scores=earned)


class AnyFilter:
    """Keeps every reply that the policy itself gave and the hooks passed."""

    name = "none"

    async def judge(self, job: Job, rollout: Rollout) -> Verdict:
        return Verdict(reasons=_not_the_policys(rollout.trajectory))


_RUBRIC = """You judge a reply that a live-shopping host gave to viewers. Judge only by the tool results
shown. accuracy: 1 if nothing in the reply is wrong, unsupported or promised without cover, else 0.
effectiveness: 1 if every question is answered usefully, 0.5 if some are, else 0.
Answer with one JSON object: {"accuracy": 0 or 1, "effectiveness": 0, 0.5 or 1, "why": "one sentence"}"""


class JudgeFilter:
    """Asks a policy (a strong endpoint) for accuracy and effectiveness. Its word is as good as that model."""

    def __init__(self, policy: Policy, *, timeout_s: float = 120.0) -> None:
        self._policy = policy
        self._timeout_s = timeout_s

    @property
    def name(self) -> str:
        return f"judge:{self._policy.uri}"

    async def judge(self, job: Job, rollout: Rollout) -> Verdict:
        route = _not_the_policys(rollout.trajectory)
        if route:
            return Verdict(reasons=route)
        # Results of operations, typed: what a reply rests on, whatever the harness made of their form.
        known = [
            {"operation": r.operation, "arguments": dict(r.arguments), "result": r.value}
            for r in (*rollout.trajectory.context, *rollout.trajectory.results)
            if r.operation and not r.operation.startswith("harness.")
        ]
        asked = {"chat": job.task.request.text, "results": known, "reply": rollout.trajectory.reply}
        request = PolicyRequest(
            messages=(
                PromptMessage(role="system", content=_RUBRIC),
                PromptMessage(role="user", content=json.dumps(asked, ensure_ascii=False, default=str)),
            ),
            tools=(),
            allow_calls=False,
            max_tokens=200,
            timeout_s=self._timeout_s,
            seed=job.seed,
        )
        try:
            turn = await self._policy.act(request)
        except PolicyError as error:
            return Verdict(reasons=(f"judge: {error}",))
        return read_verdict(turn.text)


def read_verdict(text: str) -> Verdict:
    """What a judge wrote; a verdict that cannot be read drops the row and says so."""
    start = text.find("{")
    try:
        found: Any = json.JSONDecoder().raw_decode(text, max(0, start))[0]
    except ValueError:
        found = None
    fields = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    accuracy, effectiveness = fields.get("accuracy"), fields.get("effectiveness")
    if accuracy not in (0, 1) or effectiveness not in (0, 0.5, 1):
        return Verdict(reasons=(f"judge: no verdict in {text[:120]!r}",))
    why = str(fields.get("why", ""))
    scores = {"accuracy": float(accuracy), "effectiveness": float(effectiveness)}
    return Verdict(
        reasons=tuple(f"{name}: {value:g} ({why})" for name, value in scores.items() if value < 1),
        scores=scores,
    )
