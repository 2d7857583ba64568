"""The agent's loop: one request from start to reply.

Context -> prompt -> rounds (skills and tools; a turn's calls run side by side) -> reply -> hooks. There is no
second loop: live rooms, the simulator, data building, RL rollouts and evaluation all call `Agent.answer`.

Invariants the runtime keeps, whatever the harness's hooks say: a reply stands only after a reply skill was
loaded (where the harness has one); the policy is called at most ``limits.rounds`` times and sent back at most
``limits.retries`` times; a policy that only repeats its calls is asked for what is still due, the reply skill
or the reply; the request ends by its deadline; every way out is a `Route` with its reason.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from jinja2 import TemplateError

from livery.agent.budget import Budget
from livery.agent.calls import CallRunner
from livery.agent.degraded import Degraded
from livery.agent.formatting import surface
from livery.agent.live_harness import LiveHarness
from livery.agent.lookup import look_up
from livery.agent.stages import StageClock
from livery.errors import PolicyError
from livery.harness.hooks.decisions import Allow, Block, Decision, HookContext, PromptValue, Retry
from livery.harness.model import Skill, Tool
from livery.policies.policy import Policy, PolicyRequest, PromptMessage
from livery.shop.catalogue import Catalogue
from livery.shop.operations import OperationContext, Operations
from livery.types import (
    JSON,
    Checkpoint,
    Effect,
    ErrorKind,
    HookEvent,
    PolicyTurn,
    Request,
    Route,
    ToolCall,
    ToolResult,
    Trajectory,
    Turn,
)

_MALFORMED: Final = (
    "Your last output was not a valid action. Write either tool calls in the form given, or the reply alone."
)
_CUT: Final = "Your last output was cut off at the length limit. Be shorter."
_REPLY_DUE: Final = "Calls in the last round, where only a reply could stand; they were not run."
_LOAD_FIRST: Final = "Load a reply skill before you reply. Reply skills: {names}."


class Agent:
    """Answers requests with one policy over one shop. Holds nothing of a request between calls."""

    def __init__(
        self,
        *,
        policy: Policy,
        operations: Operations,
        catalogue: Callable[[], Catalogue],
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        """
        Args:
            catalogue: gives the catalogue as it stands now; asked once a request.
            clock: Unix time, for the trajectory's stamps.
            monotonic: for budgets and durations.
        """
        self.policy = policy
        self.operations = operations
        self._catalogue = catalogue
        self._clock = clock
        self._monotonic = monotonic

    async def answer(
        self,
        request: Request,
        live: LiveHarness,
        *,
        channel: str = "",
        seed: int | None = None,
        info: Mapping[str, Any] | None = None,
    ) -> Trajectory:
        """Run the loop for one request.

        Args:
            live: the release this request keeps from beginning to end.
            seed: for policies that sample.
            info: passed to scripted and oracle policies; models never see it.

        Returns:
            The whole trajectory. It does not raise for anything the policy, a hook or a tool does;
            cancellation passes through.
        """
        run = _Run(self, request, live, self._catalogue(), self._monotonic, seed, info or {})
        started_at, start = self._clock(), self._monotonic()
        end = await run.to_the_end()
        return Trajectory(
            id=request.id,
            request=run.request,
            harness=live.harness.name,
            harness_release=live.release,
            channel=channel,
            policy=self.policy.uri,
            context=run.context_results,
            turns=tuple(run.turns),
            hooks=tuple(run.events),
            skills=tuple(s.key for s in run.loaded),
            reply=end.reply,
            effects=end.effects,
            route=end.route,
            route_reason=end.reason,
            started_at=started_at,
            queue_s=max(0.0, started_at - request.messages[0].at) if request.messages else 0.0,
            total_s=self._monotonic() - start,
            stages=run.stages.times(),
        )


@dataclass(frozen=True, slots=True)
class _End:
    route: Route
    reason: str
    reply: str = ""
    effects: tuple[Effect, ...] = ()


@dataclass(slots=True)
class _Run:
    """The state of one request."""

    agent: Agent
    request: Request
    live: LiveHarness
    catalogue: Catalogue
    monotonic: Callable[[], float]
    seed: int | None
    info: Mapping[str, Any]
    turns: list[Turn] = field(default_factory=list[Turn])
    events: list[HookEvent] = field(default_factory=list[HookEvent])
    loaded: list[Skill] = field(default_factory=list[Skill])
    results: list[ToolResult] = field(default_factory=list[ToolResult])
    context_results: tuple[ToolResult, ...] = ()
    evidence: tuple[str, ...] = ()
    round: int = 0
    retries: int = 0
    budget: Budget = field(init=False)
    stages: StageClock = field(init=False)

    def __post_init__(self) -> None:
        limits = self.live.harness.limits
        self.budget = Budget(limits.deadline_s, limits.degraded_reserve_s, self.monotonic)
        self.stages = StageClock(self.monotonic)

    async def to_the_end(self) -> _End:
        try:
            async with asyncio.timeout(self.budget.left_s):
                end = await self._attempt()
        except TimeoutError:
            end = _End(Route.DEGRADED, "deadline: the loop did not end in time")
        except PolicyError as error:
            end = _End(Route.DEGRADED, f"policy: {type(error).__name__}: {error}")
        except TemplateError as error:
            end = _End(Route.DEGRADED, f"prompt: {type(error).__name__}: {error}")
        if end.route in (Route.DEGRADED, Route.HANDOFF) and not end.reply:
            with self.stages.of("degraded"):
                return await self._without_policy(end)
        return end

    async def _attempt(self) -> _End:
        self.request, decision = await self.hooks(Checkpoint.REQUEST, self.request)
        if stop := _stopped(decision, Route.SILENT):
            return stop
        context = self._operation_context()
        facts = await self._facts(context)
        actions = self.agent.policy.actions
        self.evidence = (
            *self.request.state.notes.values(),
            *self.live.prompt.evidence(actions, facts),
        )
        prompt: PromptValue
        prompt, decision = await self.hooks(Checkpoint.PROMPT, self.live.prompt.render(actions, facts))
        if stop := _stopped(decision, Route.DEGRADED):
            return stop
        return await self._rounds(prompt, self._call_runner(context))

    async def _rounds(self, prompt: PromptValue, runner: CallRunner) -> _End:
        limits = self.live.harness.limits
        messages = [
            PromptMessage(role="system", content=prompt.system),
            PromptMessage(role="user", content=prompt.user),
        ]
        previous: PolicyTurn | None = None
        shown = 0
        made: set[tuple[str, str]] = set()
        repeated = False
        while self.round < limits.rounds:
            self.round += 1
            skill_due = self._skill_due()
            last = self.round == limits.rounds or (self.round > 1 and not self.budget.holds(2))
            last = last or (repeated and not skill_due)
            if last and skill_due:
                break  # No reply could stand: the time is better left to the degraded route.
            only_skill = skill_due and (repeated or self.round == limits.rounds - 1 or not self.budget.holds(3))
            began = self.monotonic()
            asked = PolicyRequest(
                messages=tuple(messages),
                tools=self.live.reply_skill_surfaces if only_skill else self.live.surfaces,
                allow_calls=not last,
                allow_reply=not skill_due,
                reasoning=self.live.harness.rendering.reasoning == "think",
                max_tokens=limits.turn_tokens,
                timeout_s=self.budget.left_s,
                session=self.request.room,
                seed=self.seed,
                previous=previous,
                previous_messages=shown,
                info=self.info,
            )
            with self.stages.of("policy"):
                turn = await self.agent.policy.act(asked)
            self.budget.round_took(self.monotonic() - began)
            shown = len(messages)
            previous = turn
            messages.append(
                PromptMessage(role="assistant", content=turn.text, reasoning=turn.reasoning, calls=turn.calls)
            )
            if turn.calls and last:
                self._keep(turn, began, feedback=_REPLY_DUE)
                if repeated:
                    return _End(Route.DEGRADED, "repetition: the policy made the same calls again and again")
                break
            if turn.calls:
                with self.stages.of("tools"):
                    results = await runner.run(turn.calls)
                # Nothing new was asked, so nothing new was learnt; another such round would be a waste.
                repeated = {_signature(c) for c in turn.calls} <= made
                made |= {_signature(c) for c, r in zip(turn.calls, results, strict=True) if not _transient(r)}
                self.results.extend(results)
                self._keep(turn, began, results=results)
                messages.extend(
                    PromptMessage(role="tool", content=r.text, call_id=r.call.id, name=r.call.name) for r in results
                )
                continue
            repeated = False
            feedback, end = await self._judge(turn)
            self._keep(turn, began, feedback=feedback)
            if end is not None:
                return end
            if self.retries >= limits.retries:
                return _End(Route.DEGRADED, f"retries: sent back {self.retries + 1} times; last: {feedback}")
            self.retries += 1
            messages.append(self._feedback_message(feedback))
        why = "no reply skill loaded" if self._skill_due() else "no accepted reply"
        return _End(Route.DEGRADED, f"rounds: {why} within {limits.rounds} rounds or the time they left")

    async def _judge(self, turn: PolicyTurn) -> tuple[str, _End | None]:
        """A turn without calls: (feedback, None) to send it back, or ("", end)."""
        if turn.stop == "malformed" or not turn.text.strip():
            return _MALFORMED, None
        if turn.stop == "length":
            return _CUT, None
        if self._skill_due():
            names = ", ".join(s.name for s in self.live.harness.skills if s.kind == "reply")
            return _LOAD_FIRST.format(names=names), None
        reply, decision = await self.hooks(Checkpoint.REPLY, turn.text.strip())
        if isinstance(decision, Retry):
            return decision.feedback, None
        if stop := _stopped(decision, Route.DEGRADED):
            return "", stop
        effects = tuple(e for r in self.results if r.ok for e in r.effects)
        if any(e.kind == "hand_off" for e in effects):
            return "", _End(Route.HANDOFF, "the policy handed over to a person", reply, effects)
        return "", _End(Route.AGENT, "reply accepted", reply, effects)

    async def _without_policy(self, end: _End) -> _End:
        """The degraded answer, or the hand-off's sentence, under the same reply hooks."""
        degraded = self.live.harness.degraded
        if end.route is Route.DEGRADED and not degraded.enabled:
            return _End(Route.SILENT, f"{end.reason}; the degraded route is off")
        try:
            async with asyncio.timeout(max(self.budget.reserve_s, 0.05)):
                context = self._operation_context()
                answerer = Degraded(self.live.harness, self.agent.operations, context)
                answer = await answerer.answer(self.request, hand_off=end.route is Route.HANDOFF)
                if answer is None:
                    return _End(Route.SILENT, f"{end.reason}; nothing in catalogue or FAQ answers it")
                self.context_results = (*self.context_results, *answer.results)
                reply, decision = await self.hooks(Checkpoint.REPLY, answer.text, route=end.route)
        except TimeoutError:
            return _End(Route.SILENT, f"{end.reason}; the degraded route ran out of time")
        except TemplateError as error:
            return _End(Route.SILENT, f"{end.reason}; its wording failed: {type(error).__name__}: {error}")
        if not isinstance(decision, Allow):
            why = decision.reason if isinstance(decision, Block) else getattr(decision, "feedback", "")
            if end.route is Route.HANDOFF:
                return _End(Route.HANDOFF, f"{end.reason}; its sentence was stopped: {why}", "", answer.effects)
            return _End(Route.SILENT, f"{end.reason}; the degraded reply was stopped: {why}")
        return _End(end.route, f"{end.reason}; {answer.reason}", reply, answer.effects)

    # -------------------------------------------------------------------------------- parts

    async def hooks(
        self, checkpoint: Checkpoint, value: Any, tool: Tool | None = None, *, route: Route = Route.AGENT
    ) -> tuple[Any, Decision]:
        """Run a checkpoint's hooks and keep their events."""
        if not self.live.hooks.has(checkpoint):
            return value, Allow()
        facts = tuple(s.body for s in self.loaded if s.facts)
        context = HookContext(
            harness=self.live.harness,
            request=self.request,
            params={},
            round=self.round,
            attempt=self.retries,
            results=(*self.context_results, *self.results),
            skills=tuple(self.loaded),
            evidence=(*self.evidence, *facts),
            tool=tool,
            route=route,
        )
        left = self.budget.left_s if route is Route.AGENT else self.budget.reserve_s
        with self.stages.of("hooks"):
            outcome = await self.live.hooks.run(checkpoint, value, context, budget_s=left)
        self.events.extend(outcome.events)
        return outcome.value, outcome.decision

    def _skill_due(self) -> bool:
        """Whether a reply could not stand yet, because no reply skill was loaded."""
        return self.live.needs_reply_skill and not any(s.kind == "reply" for s in self.loaded)

    def _keep(
        self, turn: PolicyTurn, began: float, *, results: tuple[ToolResult, ...] = (), feedback: str = ""
    ) -> None:
        self.turns.append(
            Turn(
                round=self.round,
                harness_release=self.live.release,
                weights=self.agent.policy.weights,
                policy=turn,
                results=results,
                feedback=feedback,
                at_s=began - self.budget.started,
            )
        )

    def _feedback_message(self, feedback: str) -> PromptMessage:
        channel = self.live.harness.feedback.channel
        text = self.live.feedback.render(message=feedback, attempt=self.retries)
        if channel == "tool" and self.agent.policy.actions == "text":
            return PromptMessage(role="tool", content=text, name="check")
        # A native tool message must answer a call; a reply that was sent back has none.
        return PromptMessage(role="system" if channel == "system" else "user", content=text)

    def _operation_context(self) -> OperationContext:
        state = self.request.state
        now = datetime.fromtimestamp(state.now, ZoneInfo(state.timezone))
        return OperationContext(catalogue=self.catalogue, state=state, now=now)

    def _call_runner(self, context: OperationContext) -> CallRunner:
        return CallRunner(
            live=self.live,
            operations=self.agent.operations,
            context=context,
            hooks=self.hooks,
            left_s=lambda: self.budget.left_s,
            loaded=self.loaded,
        )

    async def _facts(self, context: OperationContext) -> dict[str, Any]:
        """The volatile variables of the prompt, and the look-ups behind them as results a hook may trust."""
        state = self.request.state
        item: JSON = None
        item_text = ""
        if state.on_screen:
            arguments = {"link_id": state.on_screen}
            result = await look_up(
                self.agent.operations,
                context,
                "catalog.get_product",
                arguments,
                key="context",
                call_id="context",
            )
            # Off the catalogue while on screen, or a fault: the prompt then shows no item.
            if result.ok:
                item, item_text = surface(result.value), result.text
                self.context_results = (result,)
        messages = [
            {"viewer": m.name or m.viewer, "text": m.text, "kind": m.kind.value, "amount": m.amount}
            for m in self.request.messages
        ]
        return {
            "room": {
                "id": state.room,
                "language": state.language,
                "streamer": state.streamer,
                "on_screen": state.on_screen,
                "notes": dict(state.notes),
            },
            "item": item,
            "item_text": item_text,
            "messages": messages,
            "chat": "\n".join(f"{m['viewer']}: {m['text']}" for m in messages),
            "dialogue": [{"viewer": d.viewer, "text": d.text, "reply": d.reply} for d in state.dialogue],
            "now": context.now.strftime("%Y-%m-%d %H:%M"),
            "today": context.now.strftime("%Y-%m-%d"),
        }


def _signature(call: ToolCall) -> tuple[str, str]:
    """Equal for calls that ask for the same thing."""
    return call.name, json.dumps(call.arguments, sort_keys=True, ensure_ascii=False, default=str)


def _transient(result: ToolResult) -> bool:
    """Whether the same call may well end differently the next time."""
    return result.error is not None and result.error.kind in (ErrorKind.TIMEOUT, ErrorKind.UNAVAILABLE)


def _stopped(decision: Decision, default: Route) -> _End | None:
    """The end that a Block asks for, or None."""
    if not isinstance(decision, Block):
        return None
    return _End(Route(decision.route) if decision.route else default, f"hook: {decision.reason}")
