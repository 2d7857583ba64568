"""Turns of policies that work on token ids: what a model reads for a turn, and what its ids say.

A conversation goes on by appending: what was read and sampled before stays as it was, and only what is new is encoded.
Used by `livery.policies.hf` and by RL's server policy; nothing here samples.
"""

from __future__ import annotations

from collections.abc import Sequence

from livery.policies import wire
from livery.policies.hf_loading import ChatTokenizer
from livery.policies.policy import PolicyRequest
from livery.types import PolicyTurn, Timing, TokenTrace, Usage


def prompt_ids(tokenizer: ChatTokenizer, request: PolicyRequest) -> tuple[int, ...]:
    """The conversation's ids: what the model read and sampled before, as it was, and the rest after it."""
    previous = request.previous.tokens if request.previous else None
    seen = request.previous_messages
    if previous is None or seen >= len(request.messages) or request.messages[seen].role != "assistant":
        return tokenizer.encode(wire.segments(request.messages, generate=True))
    before = previous.prompt_ids + previous.output_ids
    rest = wire.segments(request.messages[seen + 1 :], generate=True)
    return before + tokenizer.encode((*tokenizer.closing(before), *rest))


def turn_of(
    tokenizer: ChatTokenizer,
    request: PolicyRequest,
    *,
    prompt: Sequence[int],
    ids: Sequence[int],
    logprobs: Sequence[float],
    cut: bool,
    cached: int = 0,
    drafted: int = 0,
    accepted: int = 0,
    timing: Timing,
) -> PolicyTurn:
    """
    Args:
        ids: sampled, with the mark that ended the turn.
        logprobs: one per id.
        cut: whether the limit of tokens ended the turn.
        cached: ids of the prompt that were not evaluated anew.
        drafted, accepted: as in `livery.types.Usage`.
    """
    written = tokenizer.decode(ids)
    parsed = wire.parse_turn(written, first_call=wire.calls_so_far(request.messages))
    if cut:
        parsed = parsed.whole()
    return PolicyTurn(
        calls=parsed.calls,
        text=parsed.reply,
        reasoning=parsed.reasoning,
        stop=parsed.stop(cut=cut),
        usage=Usage(
            prompt=len(prompt),
            cached=cached,
            output=len(ids),
            reasoning=reasoning_tokens(tokenizer, ids, written),
            drafted=drafted,
            accepted=accepted,
        ),
        timing=timing,
        tokens=TokenTrace(prompt_ids=tuple(prompt), output_ids=tuple(ids), logprobs=tuple(logprobs)),
    )


def reasoning_tokens(tokenizer: ChatTokenizer, ids: Sequence[int], written: str) -> int:
    """How many of the ids are reasoning, its marks included; ``written`` is their text."""
    mark = "</think>"
    if mark not in written:
        return len(ids) if written.lstrip().startswith("<think>") else 0
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if mark in tokenizer.decode(ids[:middle]) else (middle + 1, high)
    return low
