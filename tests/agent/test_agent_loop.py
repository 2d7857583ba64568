import asyncio
from dataclasses import replace

import pytest
from agent_world import LOAD, calls, harness, python_hook, says, skill, tool

from livery.errors import PolicyOverflow, PolicyTimeout, PolicyUnavailable
from livery.harness.model import Degraded, Feedback, Limits, Section
from livery.shop.operations import Operation, OperationError, Operations, Outcome
from livery.shop.registry import shop_operations
from livery.types import Checkpoint, ErrorKind, Route, Usage

QUOTE = ("quote", {"link_id": "1"})


async def test_a_request_goes_through_skill_tool_and_reply(run):
    trajectory, policy = await run([calls(LOAD), calls(QUOTE), says(" It is $25 today. ")])
    assert trajectory.route is Route.AGENT
    assert trajectory.reply == "It is $25 today."
    assert trajectory.skills == ("price",)
    assert [t.round for t in trajectory.turns] == [1, 2, 3]
    assert trajectory.results[1].value["total"] == {"amount": 2500, "currency": "USD", "text": "$25"}
    shown = policy.seen[2].messages
    assert [m.role for m in shown] == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert shown[3].content == "How to price."
    assert '"total": "$25"' in shown[5].content
    assert trajectory.channel == "stable"
    assert trajectory.turns[0].weights == "w1"


async def test_the_unchanging_part_of_the_prompt_comes_first_and_stays_equal(run):
    _, first = await run([says("x")] * 4, "one?")
    _, second = await run([says("x")] * 4, "two?")
    assert first.seen[0].messages[0] == second.seen[0].messages[0]
    assert first.seen[0].messages[1].content == "On screen: Steel Bottle\n\nV0: one?"


async def test_the_policy_never_sees_keys(run):
    worn = harness()
    worn = worn.replace(
        skills=tuple(s.model_copy(update={"key": f"KEY-{s.name}"}) for s in worn.skills),
        tools=tuple(t.model_copy(update={"key": f"KEY-{t.name}"}) for t in worn.tools),
    )
    trajectory, policy = await run([calls(LOAD), calls(QUOTE), says("It is $25.")], worn=worn)
    assert trajectory.skills == ("KEY-price",)
    assert trajectory.results[1].key == "KEY-quote"
    assert "KEY-" not in repr(policy.seen)


async def test_calls_of_one_turn_run_side_by_side(run):
    gate = asyncio.Barrier(2)

    async def meet(context, arguments):
        await gate.wait()
        return Outcome(value={"met": True})

    meeting = [Operation(name=n, summary="", parameters={"type": "object"}, run=meet) for n in ("a.one", "a.two")]
    operations = shop_operations().joined(meeting)
    worn = harness()
    tools = [t.model_copy(update={"binding": t.binding.model_copy(update={"operation": o})}) for t, o in zip(worn.tools[:2], ("a.one", "a.two"), strict=True)]  # fmt: skip
    trajectory, _ = await run(
        [calls(("quote", {}), ("get", {}), LOAD), says("Fine.")],
        worn=worn.replace(tools=tools),
        operations=operations,
    )
    assert [r.value for r in trajectory.results[:2]] == [{"met": True}, {"met": True}]
    assert trajectory.route is Route.AGENT


async def test_a_failed_call_comes_back_as_data_and_its_siblings_keep_their_results(run):
    def boom(context, arguments):
        raise ZeroDivisionError("no stock table")

    operations = Operations(
        [o if o.name != "catalog.get_product" else replace(o, run=boom) for o in shop_operations().values()]
    )
    turn = calls(("qoute", {"link_id": "1"}), ("get", {"link_id": "1"}), ("quote", {}), ("quote", {"link_id": "9"}))
    worn = harness(limits=Limits(rounds=4, tool_calls=9))
    trajectory, policy = await run([turn, calls(LOAD, QUOTE), says("It is $25.")], operations=operations, worn=worn)
    unknown, broken, missing, nothing, _, good = trajectory.results
    assert unknown.error.kind is ErrorKind.UNKNOWN_TOOL
    assert "quote" in unknown.error.message
    assert broken.error.kind is ErrorKind.EXCEPTION
    assert broken.error.message == "get failed: ZeroDivisionError: no stock table"
    assert missing.error.kind is ErrorKind.INVALID_ARGUMENTS
    assert missing.error.message == "missing argument: link_id"
    assert nothing.error.kind is ErrorKind.NOT_FOUND
    assert good.ok
    assert trajectory.route is Route.AGENT
    assert '"error": "unknown_tool"' in policy.seen[1].messages[3].content


async def test_a_slow_tool_times_out_as_data(run):
    async def never(context, arguments):
        await asyncio.Event().wait()
        raise AssertionError

    operations = Operations(
        [o if o.name != "pricing.quote" else replace(o, run=never) for o in shop_operations().values()]
    )
    worn = harness()
    quick = worn.tools[0].model_copy(update={"timeout_s": 0.01})
    trajectory, _ = await run(
        [calls(LOAD, QUOTE), says("I cannot see the price now.")],
        operations=operations,
        worn=worn.replace(tools=(quick, *worn.tools[1:])),
    )
    assert trajectory.results[1].error.kind is ErrorKind.TIMEOUT
    assert trajectory.results[1].error.message == "quote gave no result within 0.01 s"
    assert trajectory.route is Route.AGENT


async def test_a_reply_without_a_loaded_reply_skill_is_sent_back_whatever_the_hooks_say(run):
    trajectory, policy = await run([says("It is $25."), calls(LOAD), says("Good evening.")])
    assert trajectory.turns[0].feedback == "Load a reply skill before you reply. Reply skills: price."
    assert policy.seen[1].messages[-1].role == "user"
    assert policy.seen[0].allow_reply is False
    assert policy.seen[2].allow_reply is True
    assert trajectory.reply == "Good evening."


async def test_a_strategy_skill_alone_does_not_allow_a_reply(run):
    trajectory, _ = await run([calls(("load_skill", {"name": "chain"})), says("Hi."), calls(LOAD), says("Hello.")])
    assert trajectory.turns[1].feedback
    assert trajectory.reply == "Hello."
    assert trajectory.skills == ("chain", "price")


async def test_an_unknown_skill_is_answered_with_near_ones(run):
    trajectory, _ = await run([calls(("load_skill", {"name": "pricing"})), calls(LOAD), says("Hello.")])
    assert trajectory.results[0].error.kind is ErrorKind.NOT_FOUND
    assert "price" in trajectory.results[0].error.message


async def test_a_skill_is_read_once_and_its_files_on_request(run):
    trajectory, _ = await run(
        [
            calls(("load_skill", {"name": "chain"}), ("read_skill_file", {"skill": "chain", "path": "notes.md"})),
            calls(("load_skill", {"name": "chain"}), ("read_skill_file", {"skill": "chain", "path": "../x"})),
            calls(LOAD),
            says("Hello."),
        ],
        worn=harness(limits=Limits(rounds=4, tool_calls=8)),
    )
    body, file, again, outside, _ = trajectory.results
    assert body.text == "How to chain.\n\nFiles: notes.md"
    assert file.text == "Deep notes."
    assert again.text == "chain is loaded already; its instructions stand above."
    assert outside.error.kind is ErrorKind.NOT_FOUND
    assert trajectory.skills == ("chain", "price")


async def test_round_limit_gives_the_degraded_answer(run):
    trajectory, policy = await run([calls(QUOTE)] * 4, "how much is number 1?")
    assert len(policy.seen) == 3, "the last round could not bring an accepted reply, so it is not asked for"
    assert trajectory.route is Route.DEGRADED
    assert trajectory.reply == "Link 1, Steel Bottle, comes to $25 right now."
    assert trajectory.route_reason == (
        "rounds: no reply skill loaded within 4 rounds or the time they left; answered from pricing"
    )
    assert trajectory.context[-1].operation == "pricing.quote"


async def test_the_last_round_asks_for_a_reply(run):
    trajectory, policy = await run([calls(LOAD), calls(QUOTE), calls(QUOTE), says("It is $25.")])
    assert [r.allow_calls for r in policy.seen] == [True, True, True, False]
    assert trajectory.route is Route.AGENT


MANY_ROUNDS = Limits(rounds=8, retries=1, deadline_s=5, tool_calls=8)


async def test_a_policy_that_repeats_itself_is_asked_for_the_skill_and_then_for_the_reply(run):
    turns = [calls(QUOTE), calls(QUOTE), calls(LOAD), calls(QUOTE, LOAD), says("It is $25.")]
    trajectory, policy = await run(turns, worn=harness(limits=MANY_ROUNDS))
    assert [[t.name for t in r.tools] == ["load_skill"] for r in policy.seen] == [
        False, False, True, False, False,
    ]  # fmt: skip
    assert [r.allow_calls for r in policy.seen] == [True, True, True, True, False]
    assert (trajectory.route, trajectory.reply) == (Route.AGENT, "It is $25.")


async def test_calls_in_the_round_that_a_repetition_left_for_the_reply_are_not_run(run):
    trajectory, policy = await run([calls(LOAD), *[calls(QUOTE)] * 3], worn=harness(limits=MANY_ROUNDS))
    assert [len(t.results) for t in trajectory.turns] == [1, 1, 1, 0]
    assert trajectory.route is Route.DEGRADED
    assert trajectory.route_reason.startswith("repetition: ")
    assert len(policy.seen) == 4


async def test_other_arguments_or_one_new_call_are_no_repetition(run):
    other = ("quote", {"link_id": "2"})
    turns = [
        calls(LOAD),
        calls(QUOTE),
        calls(QUOTE, other),
        calls(("get", {"link_id": "1"})),
        says("It is $25."),
    ]
    _, policy = await run(turns, worn=harness(limits=MANY_ROUNDS))
    assert all(r.allow_calls for r in policy.seen)


async def test_a_call_that_timed_out_may_be_made_again(run):
    async def never_at_first(context, arguments):
        tried.append(arguments)
        if len(tried) == 1:
            raise OperationError(ErrorKind.UNAVAILABLE, "away")
        return Outcome(value={"left": 7})

    tried = []
    slow = Operation(name="a.one", summary="", parameters={"type": "object"}, run=never_at_first)
    worn = harness(tools=(tool("one", "a.one", {}),), limits=MANY_ROUNDS)
    turns = [calls(LOAD), *[calls(("one", {}))] * 2, says("Seven are left.")]
    trajectory, policy = await run(turns, worn=worn, operations=shop_operations().joined([slow]))
    assert [r.ok for r in trajectory.results] == [True, False, True]
    assert policy.seen[-1].allow_calls, "the second one was the first to be answered"


async def test_after_a_reply_was_sent_back_calls_are_free_again(run):
    hook = python_hook(
        "once",
        "reply",
        "from livery.harness.hooks.decisions import Allow, Retry\n"
        "def check(v, c): return Allow() if c.attempt else Retry('again')",
    )
    turns = [
        calls(LOAD),
        calls(QUOTE),
        calls(QUOTE),
        says("No."),
        calls(("get", {"link_id": "1"})),
        says("Yes."),
    ]
    trajectory, policy = await run(turns, worn=harness(hooks=(hook,), limits=MANY_ROUNDS))
    assert [r.allow_calls for r in policy.seen] == [True, True, True, False, True, True]
    assert trajectory.reply == "Yes."


async def test_retries_are_capped_by_the_runtime(run):
    hook = python_hook(
        "fussy",
        "reply",
        "from livery.harness.hooks.decisions import Retry\ndef check(v, c): return Retry('again')",
    )
    worn = harness(hooks=(hook,), limits=Limits(rounds=9, retries=2), degraded=Degraded(enabled=False))
    trajectory, policy = await run([calls(LOAD), *[says(f"r{i}") for i in range(8)]], worn=worn)
    assert len(policy.seen) == 4
    assert trajectory.route is Route.SILENT
    assert trajectory.route_reason == "retries: sent back 3 times; last: again; the degraded route is off"


@pytest.mark.parametrize("channel", ["user", "system", "tool"])
async def test_feedback_comes_by_the_channel_and_in_the_words_of_the_harness(run, channel):
    feedback = Feedback(channel=channel, template="[{{ attempt }}] {{ message }}")
    trajectory, policy = await run([says("Hi."), calls(LOAD), says("Hello.")], worn=harness(feedback=feedback))
    message = policy.seen[1].messages[-1]
    assert message.role == channel
    assert message.content == "[1] Load a reply skill before you reply. Reply skills: price."
    assert trajectory.route is Route.AGENT


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (PolicyTimeout("8 s"), "policy: PolicyTimeout: 8 s"),
        (PolicyUnavailable("refused"), "policy: PolicyUnavailable: refused"),
        (PolicyOverflow("4100 tokens"), "policy: PolicyOverflow: 4100 tokens"),
    ],
)
async def test_a_failing_policy_gives_the_degraded_route(run, error, reason):
    trajectory, _ = await run([error], "Is the bottle dishwasher safe?")
    assert trajectory.route is Route.DEGRADED
    assert trajectory.reply == "Yes, both parts are."
    assert trajectory.route_reason == f"{reason}; answered from the FAQ"


async def test_a_policy_that_never_answers_is_cut_at_the_deadline(run, catalogue):
    class Hangs:
        uri, weights, actions = "test:hangs", "w", "text"

        async def act(self, request):
            await asyncio.Event().wait()

    from livery.agent.live_harness import LiveHarness
    from livery.agent.loop import Agent

    worn = harness(limits=Limits(deadline_s=0.15, degraded_reserve_s=0.1))
    trajectory, policy = await run([PolicyTimeout("x")], "hello", worn=worn)
    agent = Agent(policy=Hangs(), operations=shop_operations(), catalogue=lambda: catalogue)
    trajectory = await agent.answer(trajectory.request, LiveHarness(worn, "r", shop_operations()))
    assert trajectory.route is Route.SILENT
    assert trajectory.route_reason.startswith("deadline: ")


async def test_when_time_grows_short_the_next_round_is_the_last(run):
    ticks = iter(range(1000))
    worn = harness(limits=Limits(rounds=9, deadline_s=20, degraded_reserve_s=0))
    trajectory, policy = await run(
        [calls(LOAD), *[calls(QUOTE)] * 7, says("x")], worn=worn, monotonic=lambda: float(next(ticks))
    )
    asked = [r.allow_calls for r in policy.seen]
    assert asked[0] is True
    assert asked[-1] is False
    assert len(asked) < 9
    assert trajectory.turns[-1].feedback.startswith("Calls in the last round")
    assert trajectory.route is Route.DEGRADED


async def test_nothing_known_is_answered_with_silence(run):
    trajectory, _ = await run([PolicyTimeout("x")], "what is your favourite film")
    assert trajectory.route is Route.SILENT
    assert trajectory.reply == ""
    assert trajectory.route_reason.endswith("nothing in catalogue or FAQ answers it")


async def test_the_policy_may_hand_over(run):
    trajectory, _ = await run([calls(LOAD, ("staff", {"reason": "broken lid"})), says("A person will write to you.")])
    assert trajectory.route is Route.HANDOFF
    assert [(e.kind, e.reason) for e in trajectory.effects] == [("hand_off", "broken lid")]
    assert trajectory.reply == "A person will write to you."


@pytest.mark.parametrize(
    ("route", "expected", "reply"),
    [
        ("", Route.SILENT, ""),
        (
            "handoff",
            Route.HANDOFF,
            "I'm sorry about that. I've called our staff, and a person will get back to you.",
        ),
        ("degraded", Route.DEGRADED, "Yes, both parts are."),
    ],
)
async def test_a_request_hook_chooses_the_route(run, route, expected, reply):
    source = f"from livery.harness.hooks.decisions import Block\ndef check(v, c): return Block('no', route={route!r})"
    trajectory, policy = await run(
        [], "is the bottle dishwasher safe?", worn=harness(hooks=(python_hook("gate", "request", source),))
    )
    assert policy.seen == []
    assert trajectory.route is expected
    assert trajectory.reply == reply
    assert trajectory.route_reason.startswith("hook: no")
    assert [e.kind for e in trajectory.effects] == (["hand_off"] if expected is Route.HANDOFF else [])


async def test_the_degraded_reply_passes_the_same_reply_hooks(run):
    source = (
        "from livery.harness.hooks.decisions import Allow, Block\n"
        "def check(v, c): return Block('no prices') if '$' in v else Allow()"
    )
    worn = harness(hooks=(python_hook("no-prices", "reply", source),))
    trajectory, _ = await run([PolicyTimeout("x")], "how much is number 1?", worn=worn)
    assert trajectory.route is Route.SILENT
    assert trajectory.reply == ""
    assert trajectory.route_reason.endswith("the degraded reply was stopped: no prices")


async def test_a_crashed_hook_follows_its_declared_mode_and_is_never_a_verdict(run):
    crash = "def check(v, c): raise RuntimeError('bug')"
    for mode, route in (("allow", Route.AGENT), ("block", Route.DEGRADED)):
        hook = python_hook("buggy", "reply", crash, on_failure=mode)
        trajectory, _ = await run([calls(LOAD), says("Fine.")], "hi", worn=harness(hooks=(hook,)))
        event = trajectory.hooks[0]
        assert (event.hook, event.failure, event.decision) == ("buggy", "crash", mode)
        assert trajectory.route is (route if mode == "allow" else Route.SILENT)


async def test_a_tool_call_hook_can_veto_or_rewrite(run):
    source = (
        "from dataclasses import replace\n"
        "from livery.harness.hooks.decisions import Allow, Block, Rewrite\n"
        "def check(v, c):\n"
        "    if v.name == 'staff': return Block('staff is away')\n"
        "    if v.name == 'quote': return Rewrite(replace(v, arguments={'link_id': '2'}))\n"
        "    return Allow()"
    )
    worn = harness(hooks=(python_hook("calls", "tool_call", source, mode="change"),))
    trajectory, _ = await run([calls(LOAD, ("staff", {"reason": "x"}), QUOTE), says("Ok.")], worn=worn)
    _, staff, quote = trajectory.results
    assert staff.error.kind is ErrorKind.BLOCKED
    assert staff.error.message == "staff is away"
    assert quote.arguments == {"link_id": "2"}
    assert trajectory.effects == ()


async def test_a_tool_result_hook_can_withhold_a_result(run):
    source = (
        "from livery.harness.hooks.decisions import Allow, Block\n"
        "def check(v, c): return Block('not public') if v.operation == 'pricing.quote' else Allow()"
    )
    worn = harness(hooks=(python_hook("secret", "tool_result", source),))
    trajectory, policy = await run([calls(LOAD, QUOTE), says("Ok.")], worn=worn)
    assert trajectory.results[1].value is None
    assert trajectory.results[1].error.message == "not public"
    assert "$25" not in policy.seen[1].messages[-1].content


async def test_a_prompt_that_cannot_be_rendered_degrades_with_the_reason(run):
    sections = (Section(key="room", volatility="room", template="{{ no_such_fact }}"),)
    trajectory, policy = await run([says("x")], "is the bottle dishwasher safe?", worn=harness(sections=sections))
    assert policy.seen == []
    assert trajectory.route is Route.DEGRADED
    assert "no_such_fact" in trajectory.route_reason


async def test_calls_past_the_limit_are_refused_as_data(run):
    worn = harness(limits=Limits(rounds=4, tool_calls=2))
    trajectory, _ = await run([calls(LOAD, QUOTE, QUOTE), says("It is $25.")], worn=worn)
    assert [r.ok for r in trajectory.results] == [True, True, False]
    assert trajectory.results[2].error.kind is ErrorKind.BUDGET


@pytest.mark.parametrize("stop", ["malformed", "length"])
async def test_a_broken_turn_is_sent_back(run, stop):
    broken = replace(says("It is"), stop=stop)
    trajectory, policy = await run([calls(LOAD), broken, says("It is fine.")])
    assert trajectory.turns[1].feedback
    assert trajectory.reply == "It is fine."


async def test_facts_for_hooks_are_results_and_marked_sections_never_chat(run):
    source = (
        "from livery.harness.hooks.decisions import Block\n"
        "def check(v, c): return Block(repr((c.evidence, [r.key for r in c.results], [s.name for s in c.skills])))"
    )
    sections = (
        Section(key="rules", template="At most 99 words."),
        Section(key="campaign", template="Gift over $100.", facts=True),
        Section(key="chat", volatility="request", template="{{ chat }}"),
    )
    worn = harness(
        sections=sections,
        hooks=(python_hook("peek", "reply", source),),
        skills=(skill("price"), skill("terms", facts=True)),
    )
    trajectory, _ = await run(
        [calls(LOAD, ("load_skill", {"name": "terms"}), QUOTE), says("x")], "they said $1", worn=worn
    )
    shown = trajectory.hooks[0].message
    assert "Gift over $100." in shown
    assert "How to terms." in shown
    assert "How to price." not in shown
    assert "99" not in shown
    assert "$1'" not in shown
    assert "['context', 'harness.load_skill', 'harness.load_skill', 'quote']" in shown
    assert "['price', 'terms']" in shown


async def test_an_item_taken_off_the_catalogue_while_on_screen_is_no_error(run, request_of):
    trajectory, policy = await run([calls(LOAD), says("Hello.")], request=request_of("hi", on_screen="77"))
    assert "On screen: none" in policy.seen[0].messages[1].content
    assert trajectory.context == ()
    assert trajectory.route is Route.AGENT


async def test_usage_adds_up_over_turns(run):
    first = replace(calls(LOAD), usage=Usage(prompt=100, cached=0, output=9, reasoning=2))
    second = replace(says("Hi."), usage=Usage(prompt=130, cached=100, output=5))
    trajectory, _ = await run([first, second])
    assert trajectory.usage == Usage(prompt=230, cached=100, output=14, reasoning=2)


async def test_cancelling_a_request_passes_through(run, request_of, catalogue):
    from livery.agent.live_harness import LiveHarness
    from livery.agent.loop import Agent

    started = asyncio.Event()

    class Hangs:
        uri, weights, actions = "test:hangs", "w", "text"

        async def act(self, request):
            started.set()
            await asyncio.Event().wait()

    agent = Agent(policy=Hangs(), operations=shop_operations(), catalogue=lambda: catalogue)
    task = asyncio.create_task(agent.answer(request_of("hi"), LiveHarness(harness(), "r", shop_operations())))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_operation_errors_keep_their_kind(run):
    def denied(context, arguments):
        raise OperationError(ErrorKind.PERMISSION_DENIED, "price service refused")

    operations = Operations(
        [o if o.name != "pricing.quote" else replace(o, run=denied) for o in shop_operations().values()]
    )
    trajectory, _ = await run([calls(LOAD, QUOTE), says("Ok.")], operations=operations)
    assert trajectory.results[1].error.kind is ErrorKind.PERMISSION_DENIED
    assert {h.checkpoint for h in trajectory.hooks} <= set(Checkpoint)
