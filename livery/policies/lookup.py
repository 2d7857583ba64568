"""Prompt-lookup decoding: guesses what comes next from what followed the same words before, and checks all at once.

A shop's reply copies facts: names and prices from tool results, a skill's name from its catalogue, the marks of a call.
Where the last `MATCH` tokens stand earlier in the conversation, what followed them there is the draft; the model
evaluates the whole draft in one step and keeps what it would have written itself. So greedy output stays what it was.
The method is Saxena's prompt lookup decoding (2023), a case of speculative decoding (Leviathan et al., 2023); llama.cpp
does it as ``ngram-simple``.

Two things about the packaged llama.cpp shape this module. It is set for the whole engine, not a request. And of a token
that was drafted it tells no log-probability, and its id only on its own completion route, not on the one of OpenAI's
form that `livery.policies.engine` calls in process: with lookup, generation goes over that route, on loopback, and is
put into the other's form here. A turn with an accepted draft has no log-probabilities (`TokenTrace.logprobs` is empty):
training collects its turns without lookup.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx

MATCH = 3
"""Tokens that must stand before, in this order, for what followed them to be drafted."""

LONGEST_DRAFT = 64
"""A draft is evaluated in one batch of the engine (`livery.policies.engine.BATCH`)."""

_FINISH = {"eos": "stop", "word": "stop", "limit": "length"}


def set_up(params: Any, kinds: Any, longest: int) -> None:
    """Turn it on in an engine's parameters.

    Args:
        params: `xllamacpp.CommonParams`.
        kinds: `xllamacpp.common_speculative_type`.
        longest: most tokens of a draft.
    """
    params.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
    params.speculative.ngram_simple.size_n = MATCH
    params.speculative.ngram_simple.size_m = longest


def completions(client: httpx.Client, body: Mapping[str, Any], read: Callable[[Any], bool]) -> None:
    """Stream a completion over the engine's own route, as events of the other one.

    Args:
        read: gets each event; True ends it: the connection is closed, and the engine stops when it notices.
    """
    with client.stream("POST", "/completion", json=dict(body), timeout=httpx.Timeout(30.0, read=None)) as answer:
        if answer.status_code != 200:
            read(json.loads(answer.read()))
            return
        for line in answer.iter_lines():
            kind, _, data = line.partition(": ")
            if kind not in ("data", "error") or data == "[DONE]":
                continue
            event: dict[str, Any] = json.loads(data)
            if read({"error": event} if kind == "error" else as_choice(event)):
                return


def as_choice(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """An event of llama.cpp's completion route in the form of the OpenAI route's; ``logprob`` is None where it is not
    told."""
    if "error" in event or "prompt_progress" in event:
        return event
    told: list[Mapping[str, Any]] = event.get("completion_probabilities") or []
    shown: list[dict[str, Any]] = [{"id": token, "logprob": None} for token in event.get("tokens", ())]
    if told and shown:
        shown[-1]["logprob"] = told[-1]["logprob"]
    finish = _FINISH.get(event.get("stop_type", "")) if event.get("stop") else None
    choice = {"text": event.get("content", ""), "finish_reason": finish, "logprobs": {"content": shown}}
    return {"choices": [choice], **({"timings": event["timings"]} if "timings" in event else {})}
