"""From what an agent did to what a model learns: conversations, and token rows with a loss mask.

A `Recorder` notes what a policy was shown and what it wrote, so that a row holds exactly the text of the run,
hooks' rewrites included. Loss falls on what the policy wrote (reasoning, calls, reply, and the mark that ends
its turn) and on nothing that it read. Where a check sent the policy back, the failed middle and the check's
message are cut out, so that a model does not learn to err first; a small share is kept whole, so that it can
recover.

This module needs no torch. The form of a conversation is `livery.policies.wire`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Literal, Protocol

from livery.errors import InputError, Problem
from livery.harness.lint_tools import LOAD_SKILL
from livery.policies import wire
from livery.policies.policy import Policy, PolicyRequest, PromptMessage
from livery.policies.wire import Segment
from livery.types import Checkpoint, ErrorKind, PolicyTurn, ToolCall, ToolResult, Trajectory, Turn

_MISTAKES = frozenset({ErrorKind.UNKNOWN_TOOL, ErrorKind.INVALID_ARGUMENTS, ErrorKind.BLOCKED})
"""Errors by which a call was sent back, as against what went wrong in the shop."""


class Recorder:
    """A policy that answers as another does and keeps the conversation of one request."""

    def __init__(self, policy: Policy) -> None:
        """
        Raises:
            InputError: the policy uses a server's native function calling; what it read is then not text that
                a model can be trained on.
        """
        if policy.actions != "text":
            raise InputError.at(
                policy.uri,
                "its native function calls are not text to be trained on; expected actions=text in its URI",
                code="actions",
            )
        self._policy = policy
        self._messages: tuple[PromptMessage, ...] = ()

    @property
    def uri(self) -> str:
        return self._policy.uri

    @property
    def weights(self) -> str:
        return self._policy.weights

    @property
    def actions(self) -> Literal["text", "native"]:
        return "text"

    @property
    def messages(self) -> tuple[PromptMessage, ...]:
        """The conversation so far; it ends with the policy's last turn."""
        return self._messages

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        turn = await self._policy.act(request)
        wrote = PromptMessage(role="assistant", content=turn.text, reasoning=turn.reasoning, calls=turn.calls)
        self._messages = (*request.messages, wrote)
        return turn

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> None:
        await self._policy.warm(messages, session)

    async def aclose(self) -> None:
        """Nothing: the policy behind serves other requests too."""


# ------------------------------------------------------------------------------ what was sent back


def sent_back(trajectory: Trajectory) -> bool:
    """Whether a check, or the runtime, sent any of the policy's turns or calls back to it."""
    return any(turn.feedback or _mistakes(turn, trajectory) for turn in trajectory.turns)


def without_failures(messages: Sequence[PromptMessage], trajectory: Trajectory) -> tuple[PromptMessage, ...]:
    """The conversation as if nothing had been sent back.

    A turn that was answered with feedback goes, and the feedback with it. Of a turn's calls those go that a
    check refused or that were no valid call, with their results; what failed in the shop itself stays, for a
    good policy must live with it.

    Args:
        messages: what a `Recorder` kept of the run.
        trajectory: the same run.

    Raises:
        ValueError: the messages are not those of the trajectory.
    """
    kept: list[PromptMessage] = []
    turns = iter(trajectory.turns)
    i = 0
    while i < len(messages):
        message = messages[i]
        i += 1
        if message.role != "assistant":
            kept.append(message)
            continue
        turn = next(turns, None)
        if turn is None or [c.id for c in turn.policy.calls] != [c.id for c in message.calls]:
            raise ValueError(f"the conversation is not that of trajectory {trajectory.id}")
        if turn.feedback:
            if i < len(messages):
                i += 1  # the feedback
            continue
        answers = tuple(takewhile(lambda m: m.role == "tool", messages[i:]))
        i += len(answers)
        bad = _mistakes(turn, trajectory)
        left = tuple(c for c in message.calls if c.id not in bad)
        if message.calls and not left:
            continue
        kept.append(replace(message, calls=left))
        kept += [m for m in answers if m.call_id not in bad]
    return tuple(kept)


def _mistakes(turn: Turn, trajectory: Trajectory) -> frozenset[str]:
    """Ids of the calls that were sent back."""
    # A check that stops a *result* blames the shop, not the policy.
    stopped_results = any(
        e.checkpoint is Checkpoint.TOOL_RESULT and e.decision in ("retry", "block") and e.round == turn.round
        for e in trajectory.hooks
    )
    return frozenset(r.call.id for r in turn.results if _mistake(r, stopped_results))


def _mistake(result: ToolResult, stopped_results: bool) -> bool:
    if result.error is None:
        return False
    if result.error.kind is ErrorKind.BLOCKED and stopped_results:
        return False
    unknown_skill = result.operation == LOAD_SKILL and result.error.kind is ErrorKind.NOT_FOUND
    return unknown_skill or result.error.kind in _MISTAKES


# ------------------------------------------------------------------------------------------ tokens


class Encoder(Protocol):
    """`livery.policies.hf_loading.ChatTokenizer`, as far as rows need it."""

    def encode(self, segments: Iterable[Segment]) -> tuple[int, ...]: ...

    def closing(self, ids: Sequence[int]) -> tuple[Segment, ...]: ...

    def decode(self, ids: Sequence[int]) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """One conversation as ids."""

    ids: tuple[int, ...]
    written: tuple[bool, ...]
    """One per id: whether the policy wrote it. The loss falls on these."""

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.written):
            raise ValueError(f"{len(self.ids)} ids and a mask of {len(self.written)}")

    @property
    def labels(self) -> list[int]:
        """Ids where the policy wrote, -100 elsewhere: the labels of transformers and TRL."""
        return [i if w else -100 for i, w in zip(self.ids, self.written, strict=True)]


def turn_by_turn(messages: Sequence[PromptMessage], encoder: Encoder) -> TokenRow:
    """The ids as a policy meets them: each turn's prompt appended to what stands, then what it writes.

    Ends with the last turn of the policy; what follows it is left out.
    """
    ids: tuple[int, ...] = ()
    written: list[bool] = []
    since = 0
    for i, message in enumerate(messages):
        if message.role != "assistant":
            continue
        read = wire.segments(messages[since:i], generate=True)
        new = encoder.encode((*encoder.closing(ids), *read) if ids else read)
        _, text = wire.message_text(message)
        out = encoder.encode((Segment(text), Segment(wire.END, True)))
        ids += new + out
        written += [False] * len(new) + [True] * len(out)
        since = i + 1
    return TokenRow(ids=ids, written=tuple(written))


def whole(messages: Sequence[PromptMessage], encoder: Encoder) -> tuple[int, ...]:
    """The ids of the conversation rendered at once, up to the end of the policy's last turn."""
    last = max((i for i, m in enumerate(messages) if m.role == "assistant"), default=-1)
    # The line end after the last turn's mark belongs to the next message.
    return encoder.encode(wire.segments(messages[: last + 1])[:-1])


def token_row(messages: Sequence[PromptMessage], encoder: Encoder, *, name: str) -> TokenRow:
    """The conversation's row, after it was rendered both ways.

    Args:
        name: the row's id, for the error.

    Raises:
        InputError: the two renderings differ: a model would be trained on other tokens than it meets.
    """
    row = turn_by_turn(messages, encoder)
    at_once = whole(messages, encoder)
    if row.ids == at_once:
        return row
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(row.ids, at_once, strict=False)))
    near = slice(max(0, same - 4), same + 4)
    raise InputError(
        Problem(
            path=name,
            field=f"tokens[{same}]",
            message=f"turn by turn it reads {encoder.decode(row.ids[near])!r} (ids {row.ids[near]}), "
            f"whole {encoder.decode(at_once[near])!r} (ids {at_once[near]}); expected the same ids",
            code="render-twice",
        )
    )


# -------------------------------------------------------------------------------- messages as JSON


def message_to_json(message: PromptMessage) -> dict[str, Any]:
    """Without the fields that are empty."""
    fields: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning:
        fields["reasoning"] = message.reasoning
    if message.calls:
        fields["calls"] = [{"id": c.id, "name": c.name, "arguments": dict(c.arguments)} for c in message.calls]
    if message.call_id:
        fields["call_id"] = message.call_id
    if message.name:
        fields["name"] = message.name
    return fields


def message_from_json(fields: Mapping[str, Any]) -> PromptMessage:
    """The inverse of `message_to_json`."""
    made: dict[str, Any] = {**fields, "calls": tuple(ToolCall(**call) for call in fields.get("calls", ()))}
    return PromptMessage(**made)
