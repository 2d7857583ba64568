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
from livery.agent.loop import Agent
from livery.errors import PolicyError
from livery.harness.digest import harness_digest
from livery.harness.model import Harness
from livery.policies.policy import Policy, PolicyRequest, PromptMessage
from livery.shop.registry import shop_operations
from livery.simulator.faults import operations_for
from livery.simulator.task import Task
from livery.simulator.verifier import verify
from livery.simulator.worlds import world_of
from livery.training.conversations import Recorder
from livery.types import Route, Trajectory

OPERATIONS = shop_operations()


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

    @cached_property
    def made(self) -> tuple[Harness, list[dict[str, Any]]]:
        return self.make()

    @property
    def harness(self) -> Harness:
        return self.made[0]

    @cached_property
    def release(self) -> str:
        return harness_digest(self.harness)

    def live(self, deadline_s: float) -> LiveHarness:
        """Ready to run, with as much time as a teacher takes."""
        if self._live is None:
            limits = self.harness.limits.model_copy(update={"deadline_s": deadline_s})
            self._live = LiveHarness(self.harness.replace(limits=limits), self.release, OPERATIONS)
        return self._live

    _live: LiveHarness | None = field(default=None, init=False)


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
    """A policy in the task's own shop."""

    def __init__(
        self,
        policy: Policy,
        *,
        deadline_s: float = 120.0,
        info: Callable[[Job], Mapping[str, Any]] | None = None,
    ) -> None:
        """
        Args:
            deadline_s: a teacher's time for a whole request; the harness's own is a live room's.
            info: what a scripted or oracle policy may see of a job.

        Raises:
            InputError: a policy with native function calls.
        """
        Recorder(policy)  # refuses what cannot be recorded, before the first conversation
        self._policy = policy
        self._deadline_s = deadline_s
        self._info = info

    @property
    def name(self) -> str:
        return self._policy.uri

    async def run(self, job: Job) -> Rollout:
        recorder = Recorder(self._policy)
        catalogue = world_of(job.task.world).catalogue
        agent = Agent(
            policy=recorder,
            operations=operations_for(job.task, OPERATIONS),
            catalogue=lambda: catalogue,
            clock=lambda: job.task.request.created_at,
        )
        info = self._info(job) if self._info else None
        live = job.group.live(self._deadline_s)
        trajectory = await agent.answer(job.task.request, live, seed=job.seed, info=info)
        return Rollout(trajectory=trajectory, messages=recorder.messages)


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
        catalogue = world_of(job.task.world).catalogue
        scores: Any = verify(job.task, rollout.trajectory, job.group.harness, catalogue=catalogue)
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
