"""Running the hooks of one checkpoint over a value.

Hooks run in harness order. Neighbouring ``check`` hooks are one step: they all see the same value, the Python
ones among them side by side. A ``change`` hook is a step by itself and the next step sees what it made. The
first Block ends the run; a Retry does not, so that a later Block still wins and the policy hears everything
that was wrong at once.

A hook that raises, returns what it must not, or runs over its time has failed: its ``on_failure`` stands in
for a decision and the event says ``crash`` or ``timeout``. Built-ins and rules run inline, with no thread and
no task; Python hooks run in a thread, or on the event loop where they are ``async``. A thread cannot be
killed: a hook that hangs keeps it, and once `STUCK_LIMIT` runs hang, it fails at once until one returns.

How often a reply may be sent back is the agent's to cap (`Limits.retries`), not a hook's.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter, thread_time
from types import MappingProxyType
from typing import Any, Literal, cast

from jinja2 import Template, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from livery.errors import InputError, Problem
from livery.harness.hooks.decisions import Allow, Block, HookContext, HookFunction, Retry, Rewrite
from livery.harness.hooks.threads import SHARED_THREADS, HookThreads
from livery.harness.model import Harness, Hook
from livery.types import Checkpoint, HookEvent

log = logging.getLogger(__name__)

STUCK_LIMIT = 2
"""Runs of one hook that may hang at a time before it fails at once."""

BRIEF_S = 0.001
"""Longest time that the event loop stands still for a Python hook's thread."""

_ROUTES = frozenset({"", "silent", "degraded", "handoff"})
_NO_RETRY = frozenset({Checkpoint.REQUEST, Checkpoint.PROMPT})
_ALLOW = Allow()
_DECISIONS = (Allow, Rewrite, Retry, Block)
_TEMPLATES = SandboxedEnvironment(autoescape=False, keep_trailing_newline=False)


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """What a checkpoint's hooks decided together."""

    value: Any
    """What to go on with: the value given, or what ``change`` hooks made of it."""
    decision: Allow | Retry | Block = _ALLOW
    """A Block of the first hook that blocked, else one Retry with the feedback of all that asked for one."""
    events: tuple[HookEvent, ...] = ()
    """One per hook that ran, in harness order."""
    hook: str = ""
    """Key of the (first) hook behind a Block or Retry; empty for Allow."""

    @property
    def allowed(self) -> bool:
        return isinstance(self.decision, Allow)


@dataclass(slots=True)
class _Ready:
    """A hook, ready to run."""

    hook: Hook
    function: HookFunction
    inline: bool
    awaits: bool
    params: Mapping[str, Any]
    feedback: Template | None
    stuck: set[object] = field(default_factory=set[object])
    """Runs that went over their time and have not returned."""


_Failure = Literal["crash", "timeout"]


@dataclass(frozen=True, slots=True)
class _Verdict:
    """One run's end: a decision that may be believed, or a failure."""

    decision: Any
    failure: _Failure | Literal[""] = ""
    message: str = ""
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Awaiting:
    """An inline hook that turned out to be asynchronous."""

    decision: Awaitable[Any]
    began: float


class HookRunner:
    """The hooks of one harness release. Built once per release, used by any number of requests at a time."""

    def __init__(
        self,
        harness: Harness,
        functions: Mapping[str, HookFunction],
        *,
        threads: HookThreads = SHARED_THREADS,
        clock: Callable[[], float] = perf_counter,
        processor_clock: Callable[[], float] = thread_time,
        stuck_limit: int = STUCK_LIMIT,
    ) -> None:
        """
        Args:
            functions: hook key -> function, as `livery.harness.hooks.loading.load_hooks` gives them.
            clock: seconds, monotonic; what durations are measured by.
            processor_clock: seconds this thread has worked; what inline hooks are held to.

        Raises:
            InputError: a hook's feedback template does not parse.
            KeyError: a hook has no function.
        """
        self._clock = clock
        self._processor_clock = processor_clock
        self._threads = threads
        self._stuck_limit = stuck_limit
        problems: list[Problem] = []
        steps: dict[Checkpoint, list[list[_Ready]]] = {c: [] for c in Checkpoint}
        for hook in harness.hooks:
            ready = _Ready(
                hook=hook,
                function=functions[hook.key],
                inline=hook.kind != "python",
                awaits=is_async(functions[hook.key]),
                params=MappingProxyType(dict(hook.params)),
                feedback=_feedback_template(hook, problems),
            )
            of_checkpoint = steps[hook.checkpoint]
            if hook.mode == "check" and of_checkpoint and of_checkpoint[-1][-1].hook.mode == "check":
                of_checkpoint[-1].append(ready)
            else:
                of_checkpoint.append([ready])
        if problems:
            raise InputError(problems)
        self._steps = {c: tuple(tuple(step) for step in of) for c, of in steps.items()}

    def has(self, checkpoint: Checkpoint) -> bool:
        """Whether any hook stands there; if not, `run` need not be called nor a context built."""
        return bool(self._steps[checkpoint])

    async def run(self, checkpoint: Checkpoint, value: Any, context: HookContext, *, budget_s: float) -> HookOutcome:
        """Run the hooks of ``checkpoint`` over ``value``.

        Args:
            value: of the checkpoint's type (table in `livery.harness.hooks.decisions`).
            context: a Python hook gets its own ``params`` in it; built-ins and rules have theirs already.
            budget_s: seconds for all of them. A Python hook gets the less of its ``timeout_s`` and what is
                left. An inline hook takes microseconds and gives its verdict even when nothing is left.

        Never raises for what a hook does.
        """
        steps = self._steps[checkpoint]
        if not steps:
            return HookOutcome(value)
        end = self._clock() + budget_s
        events: list[HookEvent] = []
        retries: list[tuple[str, Retry]] = []
        for step in steps:
            for ready, verdict in await self._step(step, value, context, end):
                decision, event = _settle(ready, verdict, value, context)
                events.append(event)
                if isinstance(decision, Rewrite):
                    value = decision.value
                elif isinstance(decision, Retry):
                    retries.append((ready.hook.key, decision))
                elif isinstance(decision, Block):
                    return HookOutcome(value, decision, tuple(events), ready.hook.key)
        if not retries:
            return HookOutcome(value, _ALLOW, tuple(events))
        first, retry = retries[0]
        if len(retries) > 1:
            details: dict[str, Any] = {}
            for _, one in reversed(retries):
                details.update(one.details)
            retry = Retry("\n".join(one.feedback for _, one in retries), details)
        return HookOutcome(value, retry, tuple(events), first)

    async def _step(
        self, step: tuple[_Ready, ...], value: Any, context: HookContext, end: float
    ) -> list[tuple[_Ready, _Verdict]]:
        """Verdicts in harness order. Inline hooks go first; a Block of one of them spares the Python hooks
        behind it, and those ahead of it still run, so that which Block is first does not depend on speed."""
        done: list[tuple[_Ready, _Verdict] | None] = [None] * len(step)
        upto = len(step)
        for i, ready in enumerate(step):
            if ready.inline:
                verdict = self._inline(ready, value, context)
                if isinstance(verdict, _Awaiting):
                    verdict = await self._awaited(ready, verdict.decision, verdict.began, end)
                done[i] = (ready, verdict)
                if isinstance(verdict.decision, Block) or (verdict.failure and ready.hook.on_failure == "block"):
                    upto = i
                    break
        waiting = [i for i in range(upto) if done[i] is None]
        if len(waiting) == 1:
            (i,) = waiting
            done[i] = (step[i], await self._apart(step[i], value, context, end, alone=True))
        elif waiting:
            verdicts = await asyncio.gather(*(self._apart(step[i], value, context, end) for i in waiting))
            for i, verdict in zip(waiting, verdicts, strict=True):
                done[i] = (step[i], verdict)
        return [pair for pair in done if pair is not None]

    # ------------------------------------------------------------------------------- inline hooks

    def _inline(self, ready: _Ready, value: Any, context: HookContext) -> _Verdict | _Awaiting:
        clock, began, work = self._clock, self._clock(), self._processor_clock()
        try:
            decision = ready.function(value, context)
        except TimeoutError as error:
            return _Verdict(None, "timeout", str(error) or "over its time", clock() - began)
        except Exception as error:
            return self._crashed(ready, error, clock() - began)
        if not isinstance(decision, _DECISIONS) and inspect.isawaitable(decision):
            return _Awaiting(decision, began)
        duration_s = clock() - began
        # By the processor's time: a crowded machine is no fault of a hook that did its work.
        if duration_s > ready.hook.timeout_s and self._processor_clock() - work > ready.hook.timeout_s:
            return _Verdict(None, "timeout", f"took over its {ready.hook.timeout_s:g} s", duration_s)
        return _Verdict(decision, duration_s=duration_s)

    # ------------------------------------------------------------------------------- Python hooks

    async def _apart(
        self, ready: _Ready, value: Any, context: HookContext, end: float, *, alone: bool = False
    ) -> _Verdict:
        """A Python hook's verdict. One that is ``alone`` in its step is first waited for where it is, for
        `BRIEF_S`: to sleep in the event loop and be woken from a thread costs more than most hooks do."""
        began = self._clock()
        limit_s = min(ready.hook.timeout_s, end - began)
        if limit_s <= 0:
            return _Verdict(None, "timeout", "the request's time for hooks was used up")
        if len(ready.stuck) >= self._stuck_limit:
            return _Verdict(None, "timeout", f"{len(ready.stuck)} earlier runs of it have not returned")
        own = replace(context, params=ready.params)
        if ready.awaits:
            return await self._awaited(ready, ready.function(value, own), began, end)  # pyright: ignore[reportArgumentType]
        loop = asyncio.get_running_loop()
        reported: asyncio.Future[None] = loop.create_future()
        ended = threading.Lock()
        ended.acquire()
        results: list[tuple[Any, BaseException | None]] = []
        run, abandoned, listening = object(), False, False

        def report() -> None:
            ready.stuck.discard(run)
            if not reported.done():
                reported.set_result(None)

        def work() -> None:
            if abandoned:
                results.append((None, None))
            else:
                try:
                    results.append((ready.function(value, own), None))
                except BaseException as error:  # SystemExit as well: a hook may not end the process
                    results.append((None, error))
            ended.release()
            if not listening:
                return
            try:
                loop.call_soon_threadsafe(report)
            except RuntimeError:  # the loop it was asked from is closed
                ready.stuck.discard(run)

        self._threads.submit(work)
        brief_s = min(limit_s, BRIEF_S) if alone else 0.0
        if not ended.acquire(timeout=brief_s):
            listening = True  # and only now is it asked again: a run that ended before this does not report
            if not results:
                try:  # not `asyncio.timeout`, which would cancel the future that a late run reports to
                    await asyncio.wait((reported,), timeout=limit_s - brief_s)
                finally:
                    if not results:
                        abandoned = True
                        ready.stuck.add(run)
        if not results:
            return _Verdict(None, "timeout", f"no decision within {limit_s:.3g} s", self._clock() - began)
        decision, error = results[0]
        if error is not None:
            return self._crashed(ready, error, self._clock() - began)
        if inspect.isawaitable(decision):
            return await self._awaited(ready, decision, began, end)
        return _Verdict(decision, duration_s=self._clock() - began)

    async def _awaited(self, ready: _Ready, decision: Awaitable[Any], began: float, end: float) -> _Verdict:
        limit_s = min(ready.hook.timeout_s - (self._clock() - began), end - self._clock())
        if limit_s <= 0:
            if inspect.iscoroutine(decision):
                decision.close()
            return _Verdict(None, "timeout", "its time was used up", self._clock() - began)
        run = object()

        async def guarded() -> tuple[Any, BaseException | None]:
            try:
                return await decision, None
            except (Exception, SystemExit) as error:
                return None, error
            finally:
                ready.stuck.discard(run)

        task = asyncio.ensure_future(guarded())
        try:
            await asyncio.wait((task,), timeout=limit_s)
        finally:
            if not task.done():  # not awaited: a hook that swallows the cancellation stays, and is counted
                ready.stuck.add(run)
                task.cancel()
        duration_s = self._clock() - began
        if not task.done():
            return _Verdict(None, "timeout", f"no decision within {limit_s:.3g} s", duration_s)
        if task.cancelled():
            return _Verdict(None, "crash", "it cancelled itself", duration_s)
        result, error = task.result()
        if error is not None:
            return self._crashed(ready, error, duration_s)
        return _Verdict(result, duration_s=duration_s)

    def _crashed(self, ready: _Ready, error: BaseException, duration_s: float) -> _Verdict:
        log.warning("hook %r failed", ready.hook.key, exc_info=error)
        return _Verdict(None, "crash", f"{type(error).__name__}: {error}", duration_s)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine, so that it belongs on the event loop and not in a thread."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 (an instance whose __call__ is async)
    )


def _feedback_template(hook: Hook, problems: list[Problem]) -> Template | None:
    if not hook.feedback:
        return None
    try:
        return _TEMPLATES.from_string(hook.feedback)
    except TemplateError as error:
        problems.append(
            Problem(
                path=f"hooks/{hook.key}",
                field="feedback",
                line=getattr(error, "lineno", 0) or 0,
                message=f"hook {hook.key!r}: its feedback is not a Jinja template: {error}",
                code="hook-feedback",
            )
        )
        return None


# ------------------------------------------------------------------- from a verdict to a decision


def _settle(
    ready: _Ready, verdict: _Verdict, value: Any, context: HookContext
) -> tuple[Allow | Rewrite | Retry | Block, HookEvent]:
    """The decision that counts and its event: a failure becomes the declared mode."""
    hook = ready.hook
    failure, message = verdict.failure, verdict.message
    decision: Any = verdict.decision
    if not failure and type(decision) is not Allow:
        wrong = _wrong(hook, decision, value)
        if wrong:
            log.warning("hook %r failed: %s", hook.key, wrong)
            failure, message = "crash", wrong
    if failure:
        if hook.on_failure == "block":
            decision = Block(f"hook {hook.key!r} failed ({failure}): {message}")
        else:
            decision = _ALLOW
    elif isinstance(decision, Retry):
        decision = Retry(_feedback(ready, decision, context), decision.details)
        if hook.checkpoint in _NO_RETRY:
            decision = Block(decision.feedback)
    kind: Literal["allow", "rewrite", "retry", "block"]
    match cast("Allow | Rewrite | Retry | Block", decision):
        case Allow():
            kind = "allow"
        case Rewrite(note=note):
            kind, message = "rewrite", note
        case Retry(feedback=feedback):
            kind, message = "retry", feedback
        case Block(reason=reason):
            kind, message = "block", message or reason
    event = HookEvent(
        hook=hook.key,
        checkpoint=hook.checkpoint,
        decision=kind,
        message=message,
        failure=failure,
        round=context.round,
        duration_s=verdict.duration_s,
    )
    return decision, event


def _wrong(hook: Hook, decision: Any, value: Any) -> str:
    """Why a returned value is no decision of this hook; empty when it is one."""
    match decision:
        case Allow():
            return ""
        case Rewrite():
            if hook.mode != "change":
                return "a `check` hook returned Rewrite; only a `change` hook may"
            if not isinstance(decision.value, type(value)):
                found, expected = type(decision.value).__name__, type(value).__name__
                return f"Rewrite holds a {found}; the value here is a {expected}"
            return "" if isinstance(cast("Any", decision.note), str) else "Rewrite's note is not text"
        case Retry():
            if not isinstance(cast("Any", decision.details), Mapping):
                return "Retry's details are not a mapping"
            return "" if isinstance(cast("Any", decision.feedback), str) else "Retry's feedback is not text"
        case Block():
            if decision.route not in _ROUTES:
                return f"Block names the route {decision.route!r}; expected silent, degraded, handoff or none"
            return "" if isinstance(cast("Any", decision.reason), str) else "Block's reason is not text"
        case _:
            return f"returned {type(decision).__name__}; expected Allow, Rewrite, Retry or Block"


def _feedback(ready: _Ready, retry: Retry, context: HookContext) -> str:
    """The harness's wording where it has one. A template that fails leaves the verdict and the plain text."""
    if ready.feedback is None:
        return retry.feedback
    details = dict(retry.details)
    try:
        text = ready.feedback.render(
            {**details, "details": details, "reason": retry.feedback, "attempt": context.attempt}
        )
    except Exception as error:  # Jinja lets whatever an expression raises through
        log.warning("feedback template of hook %r failed: %s", ready.hook.key, error)
        return retry.feedback
    return text.strip() or retry.feedback
