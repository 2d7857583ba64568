"""What is learned from a run: loss masks, cut failures, two renderings that agree."""

import pytest

from livery.errors import InputError
from livery.policies import wire
from livery.policies.policy import PolicyRequest, PromptMessage
from livery.training.conversations import (
    Recorder,
    TokenRow,
    message_from_json,
    message_to_json,
    sent_back,
    token_row,
    turn_by_turn,
    whole,
    without_failures,
)
from livery.types import (
    ChatMessage,
    Checkpoint,
    ErrorKind,
    HookEvent,
    PolicyTurn,
    Request,
    RoomState,
    Route,
    ToolCall,
    ToolError,
    ToolResult,
    Trajectory,
    Turn,
)


class Bytes:
    """A tokenizer of bytes. ``merged``: a pair of bytes that it joins, as real ones join a line end and what
    follows."""

    def __init__(self, merged=""):
        self.merged = merged

    def encode(self, segments):
        text = "".join(("\x01" if s.text == wire.START else "\x02") if s.control else s.text for s in segments)
        ids, i = [], 0
        while i < len(text):
            if self.merged and text.startswith(self.merged, i):
                ids.append(300)
                i += len(self.merged)
            else:
                ids.append(ord(text[i]))
                i += 1
        return tuple(ids)

    def closing(self, ids):
        return (wire.Segment("\n"),)

    def decode(self, ids):
        return "".join(self.merged if i == 300 else chr(i) for i in ids)


def call(number, name="price"):
    return ToolCall(id=f"call_{number}", name=name, arguments={"link": str(number)})


def system():
    return PromptMessage(role="system", content="Host.")


def user(text="how much?"):
    return PromptMessage(role="user", content=text)


def wrote(text="", *calls, reasoning=""):
    return PromptMessage(role="assistant", content=text, calls=calls, reasoning=reasoning)


def result_of(call, kind=None, operation="pricing.quote"):
    error = ToolError(kind=kind, message="no") if kind else None
    return ToolResult(call=call, operation=operation, text="$9", error=error)


def told(call, text="$9"):
    return PromptMessage(role="tool", content=text, call_id=call.id, name=call.name)


def run(*turns, hooks=()):
    """A trajectory of (message, results, feedback)."""
    state = RoomState(room="r", language="en", now=0.0)
    request = Request(
        id="q", messages=(ChatMessage(id="m", room="r", viewer="v", at=0.0),), state=state, created_at=0.0
    )
    made = tuple(
        Turn(
            round=i,
            harness_release="h",
            weights="w",
            policy=PolicyTurn(calls=message.calls, text=message.content),
            results=tuple(results),
            feedback=feedback,
        )
        for i, (message, results, feedback) in enumerate(turns, start=1)
    )
    return Trajectory(
        id="t", request=request, harness="h", harness_release="h", policy="p", turns=made, hooks=tuple(hooks),
        route=Route.AGENT, route_reason="reply accepted", started_at=0.0,
    )  # fmt: skip


# ----------------------------------------------------------------------------------- loss masks


def test_the_loss_falls_on_what_the_policy_wrote_and_on_nothing_that_it_read():
    one = call(0)
    messages = (
        system(), user("how <|im_end|> much?"), wrote("", one, reasoning="price first"), told(one), wrote("It is $9."),
    )  # fmt: skip
    row = turn_by_turn(messages, Bytes())
    learned = Bytes().decode([i for i, w in zip(row.ids, row.written, strict=True) if w])
    calls = wire.write_turn(reasoning="price first", calls=[one])
    assert learned == f"{calls}\x02It is $9.\x02"
    read = Bytes().decode([i for i, w in zip(row.ids, row.written, strict=True) if not w])
    assert read == (
        "\x01system\nHost.\x02\n\x01user\nhow ‹|im_end|> much?\x02\n\x01assistant\n"
        "\n\x01user\n<tool_response>\n$9\n</tool_response>\x02\n\x01assistant\n"
    )
    assert row.labels == [i if w else -100 for i, w in zip(row.ids, row.written, strict=True)]


def test_what_follows_the_last_turn_is_left_out():
    messages = (system(), user(), wrote("Hi."), user("bye"))
    assert turn_by_turn(messages, Bytes()) == turn_by_turn(messages[:3], Bytes())
    assert whole(messages, Bytes()) == turn_by_turn(messages, Bytes()).ids


def test_a_mask_of_another_length_is_refused():
    with pytest.raises(ValueError, match="2 ids and a mask of 1"):
        TokenRow(ids=(1, 2), written=(True,))


# ------------------------------------------------------------------------- two renderings agree


def test_equal_renderings_pass_and_a_difference_names_row_and_place():
    messages = (system(), user(), wrote("Hi."))
    assert token_row(messages, Bytes(), name="row-7").ids == whole(messages, Bytes())
    # This tokenizer joins the line end before a reply with its first letter, which no policy that samples can
    # do.
    with pytest.raises(InputError) as error:
        token_row(messages, Bytes(merged="\nH"), name="row-7")
    (problem,) = error.value.problems
    assert problem.path == "row-7"
    at = turn_by_turn(messages, Bytes(merged="\nH")).written.index(True) - 1
    assert problem.field == f"tokens[{at}]"
    assert "expected the same ids" in problem.message


# -------------------------------------------------------------------------- what was sent back


def test_a_reply_that_was_sent_back_goes_with_its_feedback():
    one = call(0)
    messages = (
        system(), user(), wrote("", one), told(one), wrote("Buy or die!"), user("Too harsh."), wrote("It is $9."),
    )  # fmt: skip
    trajectory = run((messages[2], [result_of(one)], ""), (messages[4], [], "Too harsh."), (messages[6], [], ""))
    assert sent_back(trajectory)
    assert without_failures(messages, trajectory) == (*messages[:4], messages[6])


def test_two_failures_in_a_row_go_and_a_clean_run_stays_as_it_is():
    messages = (system(), user(), wrote("a"), user("no"), wrote("b"), user("no"), wrote("c"))
    trajectory = run((messages[2], [], "no"), (messages[4], [], "no"), (messages[6], [], ""))
    assert without_failures(messages, trajectory) == (*messages[:2], messages[6])
    clean = (system(), user(), wrote("c"))
    assert not sent_back(run((clean[2], [], "")))
    assert without_failures(clean, run((clean[2], [], ""))) == clean


@pytest.mark.parametrize("kind", [ErrorKind.UNKNOWN_TOOL, ErrorKind.INVALID_ARGUMENTS, ErrorKind.BLOCKED])
def test_a_call_that_was_refused_goes_and_its_sibling_stays(kind):
    bad, good, retry = call(0), call(1), call(2)
    messages = (
        system(),
        user(),
        wrote("", bad, good),
        told(bad, "bad"),
        told(good),
        wrote("", retry),
        told(retry),
        wrote("ok"),
    )
    trajectory = run(
        (messages[2], [result_of(bad, kind), result_of(good)], ""),
        (messages[5], [result_of(retry)], ""),
        (messages[7], [], ""),
    )
    assert without_failures(messages, trajectory) == (
        system(), user(), wrote("", good), told(good), wrote("", retry), told(retry), wrote("ok"),
    )  # fmt: skip


def test_a_turn_of_refused_calls_only_goes_whole():
    bad, good = call(0), call(1)
    messages = (system(), user(), wrote("", bad), told(bad, "bad"), wrote("", good), told(good), wrote("ok"))
    kind = ErrorKind.INVALID_ARGUMENTS
    trajectory = run(
        (messages[2], [result_of(bad, kind)], ""), (messages[4], [result_of(good)], ""), (messages[6], [], "")
    )
    assert without_failures(messages, trajectory) == (*messages[:2], *messages[4:])


def test_a_skill_name_that_does_not_exist_is_the_policys_own_mistake():
    bad = call(0, "load_skill")
    messages = (system(), user(), wrote("", bad), told(bad, "no skill"), wrote("ok"))
    missing = result_of(bad, ErrorKind.NOT_FOUND, "harness.load_skill")
    assert without_failures(messages, run((messages[2], [missing], ""), (messages[4], [], ""))) == (
        *messages[:2], messages[4],
    )  # fmt: skip


@pytest.mark.parametrize(
    "kind", [ErrorKind.TIMEOUT, ErrorKind.UNAVAILABLE, ErrorKind.PERMISSION_DENIED, ErrorKind.NOT_FOUND]
)
def test_what_failed_in_the_shop_stays(kind):
    one = call(0)
    messages = (system(), user(), wrote("", one), told(one, "failed"), wrote("I will ask a colleague."))
    trajectory = run((messages[2], [result_of(one, kind)], ""), (messages[4], [], ""))
    assert not sent_back(trajectory)
    assert without_failures(messages, trajectory) == messages


def test_a_result_that_a_check_stopped_is_no_mistake_of_the_policy():
    one = call(0)
    messages = (system(), user(), wrote("", one), told(one, "stopped"), wrote("I will ask."))
    event = HookEvent(hook="sane", checkpoint=Checkpoint.TOOL_RESULT, decision="block", round=1)
    trajectory = run((messages[2], [result_of(one, ErrorKind.BLOCKED)], ""), (messages[4], [], ""), hooks=[event])
    assert without_failures(messages, trajectory) == messages


def test_a_conversation_of_another_run_is_refused():
    with pytest.raises(ValueError, match="not that of trajectory t"):
        without_failures((system(), wrote("", call(3))), run((wrote("", call(0)), [], "")))


# ---------------------------------------------------------------------------------- recording


class Scripted:
    uri, weights = "scripted:", "none"

    def __init__(self, *turns, actions="text"):
        self.turns = iter(turns)
        self.actions = actions

    async def act(self, request):
        return next(self.turns)


async def test_a_recorder_keeps_what_was_shown_and_written():
    one = call(0)
    recorder = Recorder(Scripted(PolicyTurn(calls=(one,), reasoning="hm"), PolicyTurn(text="$9")))
    asked = (system(), user())
    first = await recorder.act(PolicyRequest(messages=asked, tools=(), max_tokens=9, timeout_s=1.0))
    shown = (*asked, wrote("", *first.calls, reasoning="hm"), told(one))
    await recorder.act(PolicyRequest(messages=shown, tools=(), max_tokens=9, timeout_s=1.0))
    assert recorder.messages == (*shown, wrote("$9"))
    assert (recorder.uri, recorder.weights, recorder.actions) == ("scripted:", "none", "text")


def test_native_calls_cannot_be_recorded():
    with pytest.raises(InputError, match="expected actions=text"):
        Recorder(Scripted(actions="native"))


def test_messages_survive_json():
    for message in (system(), user(), wrote("hi", call(1), reasoning="r"), told(call(1))):
        assert message_from_json(message_to_json(message)) == message
