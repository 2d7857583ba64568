"""A plain chat with a model: one user message in, the response as it was written out. No harness, no tools.

For ``hf:`` the prompt is rendered by the chat template in the model's own tokenizer (with the system message that it
puts where none is given, if any), so that figures compare with those of other tools; a tokenizer without a template
gets ChatML. For ``openai:`` the server renders. Reasoning before ``</think>`` is no part of the response.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from livery.errors import InputError
from livery.policies.open import hf_options, open_policy
from livery.policies.policy import Policy, PolicyRequest, PromptMessage

if TYPE_CHECKING:
    from livery.types import PolicyTurn

AT_A_TIME: Final = 8
"""Requests that a server gets at a time where nothing is said."""
TIMEOUT_S: Final = 3600.0
_THOUGHT: Final = "</think>"


@dataclass(frozen=True, slots=True)
class Said:
    """A response."""

    text: str
    tokens: int
    """Sampled, reasoning included."""
    reasoning: int
    cut: bool
    """Whether the limit of tokens ended it."""


class Chat(Protocol):
    @property
    def uri(self) -> str: ...

    @property
    def weights(self) -> str: ...

    @property
    def template(self) -> str:
        """What renders the prompt: ``server``, ``chatml``, or the digest of the model's own template."""
        ...

    @property
    def at_a_time(self) -> int:
        """How many questions to ask at once."""
        ...

    async def say(self, prompt: str, max_tokens: int) -> Said:
        """
        Raises:
            PolicyError: as `Policy.act`.
        """
        ...

    async def aclose(self) -> None: ...


def open_chat(uri: str, loras: Sequence[Path] = ()) -> Chat:
    """Greedy unless the URI names a temperature. Loads models: call it off the event loop.

    Raises:
        InputError: every fault of the URI; or its scheme is neither ``hf:`` nor ``openai:``.
    """
    scheme, colon, _ = uri.partition(":")
    if not colon or scheme not in ("hf", "openai"):
        message = f"found {uri!r}; expected hf:FOLDER or openai:URL, which answer without a harness"
        raise InputError.at("--policy", message, code="ifeval-policy")
    greedy = uri if "temperature=" in uri else f"{uri}{'&' if '?' in uri else '?'}temperature=0"
    if scheme == "openai":
        return _ServerChat(open_policy(greedy, loras=loras))
    options = hf_options(greedy, loras)
    from livery.evaluation.ifeval_hf import TemplatedHf

    policy = TemplatedHf.open(options, uri=greedy)
    assert isinstance(policy, TemplatedHf)
    return _OwnChat(policy, options.batch)


def request_of(prompt: str, max_tokens: int) -> PolicyRequest:
    """A lone user message."""
    message = PromptMessage(role="user", content=prompt)
    return PolicyRequest(
        messages=(message,), tools=(), allow_calls=False, max_tokens=max_tokens, timeout_s=TIMEOUT_S, seed=0
    )


def without_reasoning(written: str) -> str:
    """What follows the last ``</think>``; nothing where reasoning was begun and not ended."""
    _, mark, rest = written.rpartition(_THOUGHT)
    if mark:
        return rest.lstrip()
    return "" if written.lstrip().startswith("<think>") else written


class _ServerChat:
    template = "server"
    at_a_time = AT_A_TIME

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.uri = policy.uri

    @property
    def weights(self) -> str:
        return self._policy.weights

    async def say(self, prompt: str, max_tokens: int) -> Said:
        turn = await self._policy.act(request_of(prompt, max_tokens))
        return Said(turn.text, turn.usage.output, turn.usage.reasoning, turn.stop == "length")

    async def aclose(self) -> None:
        await self._policy.aclose()


class Written(Policy, Protocol):
    """A policy whose turns can be read as they were written."""

    def written(self, turn: PolicyTurn) -> str: ...

    @property
    def own_template(self) -> str: ...


class _OwnChat:
    def __init__(self, policy: Written, batch: int) -> None:
        self._policy = policy
        self.uri = policy.uri
        self.weights = policy.weights
        self.at_a_time = batch
        own = policy.own_template
        self.template = hashlib.sha256(own.encode()).hexdigest()[:16] if own else "chatml"

    async def say(self, prompt: str, max_tokens: int) -> Said:
        turn = await self._policy.act(request_of(prompt, max_tokens))
        text = without_reasoning(self._policy.written(turn))
        return Said(text, turn.usage.output, turn.usage.reasoning, turn.tokens is not None and turn.stop == "length")

    async def aclose(self) -> None:
        await self._policy.aclose()
