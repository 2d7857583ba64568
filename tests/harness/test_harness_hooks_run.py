from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from livery.errors import InputError
from livery.harness.hooks import run
from livery.harness.hooks.decisions import Allow, Block, HookContext, HookFunction, Retry, Rewrite
from livery.harness.hooks.run import HookRunner
from livery.harness.hooks.threads import HookThreads
from livery.harness.model import Harness, Hook
from livery.types import Checkpoint, ToolCall

LONG_S = 60.0
SHORT_S = 0.02


def hook(key: str, **fields: Any) -> Hook:
    return Hook.model_validate(
        {"key": key, "checkpoint": "reply", "kind": "builtin", "on_failure": "block", "timeout_s": LONG_S} | fields
    )


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What hanging hooks wait for; opened at the end so that no thread outlives its test."""
    event = threading.Event()
    yield event
    event.set()


class Bench:
    """Builds a runner of named functions and runs it over a reply."""

    def __init__(self, harness: Harness, context: HookContext) -> None:
        self.harness, self.context = harness, context

    def runner(self, *pairs: tuple[Hook, HookFunction], **options: Any) -> HookRunner:
        harness = self.harness.replace(hooks=tuple(h for h, _ in pairs))
        return HookRunner(harness, {h.key: f for h, f in pairs}, **options)

    async def run(self, *pairs: tuple[Hook, HookFunction], value: Any = "hello", budget_s: float = LONG_S):
        return await self.runner(*pairs).run(Checkpoint.REPLY, value, self.context, budget_s=budget_s)


@pytest.fixture
def bench(bare_harness: Harness, bare_context: HookContext) -> Bench:
    return Bench(bare_harness, bare_context)


def says(decision: Any) -> HookFunction:
    return lambda value, context: decision


def fails(value: Any, context: HookContext) -> Allow:
    raise RuntimeError("boom")


async def test_no_hooks_allow_the_value_without_events(bench: Bench) -> None:
    outcome = await bench.run()
    assert (outcome.value, outcome.decision, outcome.events, outcome.hook) == ("hello", Allow(), (), "")
    assert not bench.runner().has(Checkpoint.REPLY)


async def test_only_hooks_of_the_checkpoint_run(bench: Bench) -> None:
    outcome = await bench.run((hook("a"), says(Allow())), (hook("b", checkpoint="request"), says(Block("not here"))))
    assert outcome.allowed
    assert [e.hook for e in outcome.events] == ["a"]


async def test_change_hooks_see_what_the_one_before_made_and_later_checks_see_the_last(bench: Bench) -> None:
    seen: list[str] = []

    def look(value: str, context: HookContext) -> Allow:
        seen.append(value)
        return Allow()

    outcome = await bench.run(
        (hook("before"), look),
        (hook("one", mode="change"), lambda v, c: Rewrite(v + " one", "added one")),
        (hook("two", mode="change", kind="python"), lambda v, c: Rewrite(v + " two")),
        (hook("after"), look),
    )
    assert outcome.value == "hello one two"
    assert seen == ["hello", "hello one two"]
    assert [(e.hook, e.decision, e.message) for e in outcome.events] == [
        ("before", "allow", ""),
        ("one", "rewrite", "added one"),
        ("two", "rewrite", ""),
        ("after", "allow", ""),
    ]


async def test_a_block_wins_over_an_earlier_retry_and_ends_the_run(bench: Bench) -> None:
    outcome = await bench.run(
        (hook("asks"), says(Retry("again"))),
        (hook("changes", mode="change"), says(Rewrite("x"))),
        (hook("stops"), says(Block("never", "silent"))),
        (hook("late", mode="change"), says(Block("not reached"))),
    )
    assert outcome.decision == Block("never", "silent")
    assert outcome.hook == "stops"
    assert [e.hook for e in outcome.events] == ["asks", "changes", "stops"]


async def test_the_first_block_in_harness_order_wins_whatever_is_faster(bench: Bench) -> None:
    outcome = await bench.run(
        (hook("python", kind="python"), says(Block("first"))),
        (hook("inline"), says(Block("second"))),
        (hook("behind", kind="python"), says(Block("third"))),
    )
    assert outcome.decision == Block("first")
    assert [e.hook for e in outcome.events] == ["python"]


async def test_feedback_of_several_retries_is_joined_in_order(bench: Bench) -> None:
    outcome = await bench.run(
        (hook("a", kind="python"), says(Retry("too long", {"limit": 10, "of": "a"}))),
        (hook("b"), says(Allow())),
        (hook("c"), says(Retry("no links", {"of": "c"}))),
    )
    assert outcome.decision == Retry("too long\nno links", {"limit": 10, "of": "a"})
    assert outcome.hook == "a"
    assert [e.decision for e in outcome.events] == ["retry", "allow", "retry"]


async def test_a_python_hook_alone_in_its_step_is_waited_for_where_it_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "BRIEF_S", LONG_S)
    threads: list[threading.Thread] = []

    def check(value: str, context: HookContext) -> Retry:
        threads.append(threading.current_thread())
        return Retry("no")

    coroutine = bench.run((hook("inline"), says(Allow())), (hook("alone", kind="python"), check))
    with pytest.raises(StopIteration) as done:  # it never once yields to the loop
        coroutine.send(None)
    assert done.value.value.decision == Retry("no")
    assert threads[0] is not threading.current_thread()


async def test_a_python_hook_that_takes_longer_leaves_the_loop_to_others(
    bench: Bench, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "BRIEF_S", 0.0)

    def waits(value: str, context: HookContext) -> Retry:
        gate.wait(LONG_S)
        return Retry("no")

    task = asyncio.ensure_future(bench.run((hook("alone", kind="python"), waits)))
    await asyncio.sleep(0)
    gate.set()  # only the loop, free again, gets here
    assert (await task).decision == Retry("no")


async def test_python_checks_of_one_step_run_side_by_side(bench: Bench) -> None:
    both = threading.Barrier(2)

    def meet(value: str, context: HookContext) -> Allow:
        both.wait(timeout=LONG_S)  # passes only if the other one runs at the same time
        return Allow()

    outcome = await bench.run((hook("a", kind="python"), meet), (hook("b", kind="python"), meet))
    assert [(e.decision, e.failure) for e in outcome.events] == [("allow", ""), ("allow", "")]


@pytest.mark.parametrize("kind", ["builtin", "python"])
@pytest.mark.parametrize(("mode", "decision"), [("allow", "allow"), ("block", "block")])
async def test_a_crash_follows_the_declared_failure_mode(bench: Bench, kind: str, mode: str, decision: str) -> None:
    outcome = await bench.run((hook("h", kind=kind, on_failure=mode), fails))
    (event,) = outcome.events
    assert (event.decision, event.failure, event.message) == (decision, "crash", "RuntimeError: boom")
    assert outcome.allowed is (mode == "allow")
    if mode == "block":
        assert outcome.decision == Block("hook 'h' failed (crash): RuntimeError: boom")


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "returned NoneType; expected Allow, Rewrite, Retry or Block"),
        (True, "returned bool; expected Allow, Rewrite, Retry or Block"),
        (Allow, "returned type; expected Allow, Rewrite, Retry or Block"),
        (Rewrite("x"), "a `check` hook returned Rewrite; only a `change` hook may"),
        (Retry(5), "Retry's feedback is not text"),  # type: ignore[arg-type]
        (Retry("x", "y"), "Retry's details are not a mapping"),  # type: ignore[arg-type]
        (Block(None), "Block's reason is not text"),  # type: ignore[arg-type]
        (Block("x", "shout"), "Block names the route 'shout'; expected silent, degraded, handoff or none"),
    ],
)
@pytest.mark.parametrize("kind", ["builtin", "python"])
async def test_what_is_no_decision_is_a_crash_and_never_a_verdict(
    bench: Bench, kind: str, returned: Any, message: str
) -> None:
    outcome = await bench.run((hook("h", kind=kind), says(returned)))
    (event,) = outcome.events
    assert (event.decision, event.failure, event.message) == ("block", "crash", message)


async def test_a_rewrite_to_another_type_is_a_crash_and_leaves_the_value(bench: Bench) -> None:
    outcome = await bench.run((hook("h", mode="change", on_failure="allow"), says(Rewrite(["x"]))))
    assert outcome.value == "hello"
    assert outcome.events[0].message == "Rewrite holds a list; the value here is a str"


@pytest.mark.parametrize(("mode", "decision"), [("allow", "allow"), ("block", "block")])
async def test_a_hook_over_its_time_follows_the_failure_mode_even_if_it_would_have_spoken(
    bench: Bench, gate: threading.Event, mode: str, decision: str
) -> None:
    def slow(value: str, context: HookContext) -> Block:
        gate.wait(LONG_S)
        return Block("too late to count")

    outcome = await bench.run((hook("h", kind="python", on_failure=mode, timeout_s=SHORT_S), slow))
    (event,) = outcome.events
    assert (event.decision, event.failure) == (decision, "timeout")
    assert "too late" not in event.message


async def test_a_python_hook_gets_no_more_than_the_budget(bench: Bench, gate: threading.Event) -> None:
    def slow(value: str, context: HookContext) -> Allow:
        gate.wait(LONG_S)
        return Allow()

    outcome = await bench.run((hook("h", kind="python"), slow), budget_s=SHORT_S)
    assert outcome.events[0].failure == "timeout"


async def test_without_time_left_inline_hooks_still_give_verdicts_and_python_hooks_fail(bench: Bench) -> None:
    outcome = await bench.run(
        (hook("inline"), says(Retry("fix"))),
        (hook("python", kind="python", on_failure="allow"), says(Block("never ran"))),
        budget_s=0.0,
    )
    assert outcome.decision == Retry("fix")
    assert [(e.decision, e.failure) for e in outcome.events] == [("retry", ""), ("allow", "timeout")]


async def test_an_inline_hook_that_took_over_its_time_is_not_believed(bench: Bench) -> None:
    now = [0.0]

    def slow(value: str, context: HookContext) -> Allow:
        now[0] += 2.0
        return Allow()

    runner = bench.runner((hook("h", timeout_s=1.0), slow), clock=lambda: now[0], processor_clock=lambda: now[0])
    outcome = await runner.run(Checkpoint.REPLY, "hello", bench.context, budget_s=LONG_S)
    (event,) = outcome.events
    assert (event.decision, event.failure, event.duration_s) == ("block", "timeout", 2.0)


async def test_an_inline_hook_is_not_blamed_for_a_machine_that_was_busy_elsewhere(bench: Bench) -> None:
    now = [0.0]

    def interrupted(value: str, context: HookContext) -> Allow:
        now[0] += 2.0
        return Allow()

    runner = bench.runner((hook("h", timeout_s=1.0), interrupted), clock=lambda: now[0], processor_clock=lambda: 0.0)
    outcome = await runner.run(Checkpoint.REPLY, "hello", bench.context, budget_s=LONG_S)
    assert [(e.decision, e.failure) for e in outcome.events] == [("allow", "")]


async def test_a_hanging_hook_fails_at_once_after_its_limit_and_recovers(bench: Bench, gate: threading.Event) -> None:
    calls: list[str] = []

    def hangs(value: str, context: HookContext) -> Allow:
        calls.append(value)
        gate.wait(LONG_S)
        return Allow()

    threads = HookThreads(limit=4)
    runner = bench.runner(
        (hook("h", kind="python", on_failure="allow", timeout_s=SHORT_S), hangs),
        (hook("well", kind="python"), says(Allow())),
        threads=threads,
    )
    for _ in range(6):
        outcome = await runner.run(Checkpoint.REPLY, "hello", bench.context, budget_s=LONG_S)
        assert [(e.hook, e.failure) for e in outcome.events] == [("h", "timeout"), ("well", "")]
    assert len(calls) == 2
    assert outcome.events[0].message == "2 earlier runs of it have not returned"
    assert threads.started <= 4
    gate.set()
    while True:  # the late runs report back through the loop
        outcome = await runner.run(Checkpoint.REPLY, "hello", bench.context, budget_s=LONG_S)
        if outcome.events[0].failure == "":
            break
    assert len(calls) >= 3


def test_more_work_than_threads_waits_in_order(gate: threading.Event) -> None:
    threads = HookThreads(limit=1)
    done: list[int] = []
    finished = threading.Event()
    threads.submit(lambda: done.append(0) if gate.wait(LONG_S) else None)
    for n in (1, 2, 3):
        threads.submit(lambda n=n: done.append(n))
    threads.submit(finished.set)
    assert done == []
    gate.set()
    assert finished.wait(LONG_S)
    assert done == [0, 1, 2, 3]
    assert threads.started == 1


HUNG = """
import threading
from livery.harness.hooks.threads import SHARED_THREADS
SHARED_THREADS.submit(threading.Event().wait)
print("done")
"""


def test_a_hook_that_hangs_does_not_keep_the_process_from_ending() -> None:
    ended = subprocess.run([sys.executable, "-c", HUNG], capture_output=True, text=True, timeout=LONG_S)
    assert (ended.returncode, ended.stdout) == (0, "done\n")


async def test_async_python_hooks_are_awaited_with_their_time(bench: Bench) -> None:
    async def well(value: str, context: HookContext) -> Retry:
        await asyncio.sleep(0)
        return Retry("async says")

    async def hangs(value: str, context: HookContext) -> Block:
        await asyncio.Event().wait()
        return Block("never")

    async def crashes(value: str, context: HookContext) -> Block:
        raise SystemExit(3)

    outcome = await bench.run(
        (hook("well", kind="python"), well),
        (hook("hangs", kind="python", on_failure="allow", timeout_s=SHORT_S), hangs),
        (hook("crashes", kind="python", on_failure="allow"), crashes),
    )
    assert outcome.decision == Retry("async says")
    assert [e.failure for e in outcome.events] == ["", "timeout", "crash"]


async def test_an_async_hook_that_swallows_its_cancellation_is_counted_as_hanging(bench: Bench) -> None:
    release = asyncio.Event()

    async def stubborn(value: str, context: HookContext) -> Allow:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return Allow()

    runner = bench.runner((hook("h", kind="python", timeout_s=SHORT_S), stubborn))
    messages: list[str] = []
    for _ in range(3):
        outcome = await runner.run(Checkpoint.REPLY, "x", bench.context, budget_s=LONG_S)
        messages.append(outcome.events[0].message)
    assert messages[2] == "2 earlier runs of it have not returned"
    release.set()
    await asyncio.sleep(0)


async def test_a_thread_hook_that_exits_the_process_only_crashes(bench: Bench) -> None:
    def leave(value: str, context: HookContext) -> Allow:
        raise SystemExit(1)

    outcome = await bench.run((hook("h", kind="python"), leave))
    assert outcome.events[0].failure == "crash"


async def test_cancelling_the_request_cancels_its_hooks(bench: Bench) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def waits(value: str, context: HookContext) -> Allow:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return Allow()

    task = asyncio.ensure_future(bench.run((hook("h", kind="python"), waits)))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(ended.wait(), LONG_S)


async def test_a_python_hook_sees_its_own_params_read_only(bench: Bench) -> None:
    def reads(value: str, context: HookContext) -> Retry:
        with pytest.raises(TypeError):
            context.params["limit"] = 9  # type: ignore[index]
        return Retry(f"limit {context.params['limit']}")

    outcome = await bench.run((hook("h", kind="python", params={"limit": 7}), reads))
    assert outcome.decision == Retry("limit 7")


async def test_the_harness_words_feedback_with_reason_details_and_attempt(
    bench: Bench, bare_context: HookContext
) -> None:
    template = "Try {{ attempt + 1 }}: {{ reason }} (found {{ found }}, {{ details.found }})"
    outcome = await bench.run((hook("h", feedback=template), says(Retry("no prices", {"found": "$9"}))))
    assert outcome.decision == Retry("Try 1: no prices (found $9, $9)", {"found": "$9"})
    assert outcome.events[0].message == "Try 1: no prices (found $9, $9)"


async def test_a_feedback_template_that_fails_keeps_the_verdict(bench: Bench) -> None:
    escapes = "{{ ''.__class__.__mro__ }}{{ reason.nothing.there }}"
    outcome = await bench.run((hook("h", feedback=escapes), says(Retry("plain"))))
    assert outcome.decision == Retry("plain")


def test_a_feedback_template_that_does_not_parse_is_an_input_error(bench: Bench) -> None:
    with pytest.raises(InputError) as caught:
        bench.runner((hook("h", feedback="{{ reason"), says(Allow())), (hook("i", feedback="{% x"), says(Allow())))
    assert [p.field for p in caught.value.problems] == ["feedback", "feedback"]


async def test_retry_where_nothing_can_be_sent_back_is_a_block(bench: Bench) -> None:
    runner = bench.runner((hook("h", checkpoint="request"), says(Retry("go away"))))
    outcome = await runner.run(Checkpoint.REQUEST, bench.context.request, bench.context, budget_s=LONG_S)
    assert outcome.decision == Block("go away")
    assert outcome.events[0].decision == "block"


async def test_events_carry_round_and_checkpoint(bench: Bench) -> None:
    runner = bench.runner((hook("h", checkpoint="tool_call"), says(Allow())))
    call = ToolCall(id="c", name="price", arguments={})
    outcome = await runner.run(Checkpoint.TOOL_CALL, call, replace(bench.context, round=3), budget_s=LONG_S)
    (event,) = outcome.events
    assert (event.round, event.checkpoint, outcome.value) == (3, Checkpoint.TOOL_CALL, call)


async def test_inline_hooks_make_no_thread_and_no_task(bench: Bench) -> None:
    class NoThreads(HookThreads):
        def submit(self, work: Any) -> None:
            raise AssertionError("an inline hook asked for a thread")

    runner = bench.runner(*((hook(f"h{i}"), says(Allow())) for i in range(8)), threads=NoThreads())
    before = len(asyncio.all_tasks())
    coroutine = runner.run(Checkpoint.REPLY, "hello", bench.context, budget_s=LONG_S)
    with pytest.raises(StopIteration) as done:  # it never once yields to the loop
        coroutine.send(None)
    assert len(done.value.value.events) == 8
    assert len(asyncio.all_tasks()) == before
