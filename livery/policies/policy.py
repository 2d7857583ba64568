"""The one interface behind which every policy stands: endpoint, embedded model, model in training, script.

A policy decides the next action; it never runs tools and never sees keys. It is given the whole
conversation of one request each time, and the turn it gave before, so that an engine which works on token
ids appends to what it sampled and never decodes and re-encodes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from livery.types import PolicyTurn, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMessage:
    role: Literal["system", "user", "assistant", "tool"]
    content: str
    """For ``assistant``: the reply text. Reasoning of earlier turns stands in ``reasoning``."""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    """For ``assistant``."""
    call_id: str = ""
    """For ``tool``: the call it answers."""
    name: str = ""
    """For ``tool``: the tool's surface name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSurface:
    """A tool as a policy may see it."""

    name: str
    description: str
    input_schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRequest:
    messages: tuple[PromptMessage, ...]
    """System first. Rendered for the policy's ``actions``: with ``"text"`` the tools and the call format are
    already written in the prompt; with ``"native"`` they are only in ``tools``."""
    tools: tuple[ToolSurface, ...]
    allow_calls: bool = True
    """False in the last round: a reply is due."""
    allow_reply: bool = True
    """False while no reply skill is loaded and one is required: a call is due. An engine with a grammar enforces
    both; others may ignore them, and the runtime checks anyway."""
    reasoning: bool = False
    """Whether ``<think>`` may come first."""
    max_tokens: int
    timeout_s: float
    session: str = ""
    """Room id: requests of one session share a prefix, and a server slot where there are several."""
    seed: int | None = None
    previous: PolicyTurn | None = None
    """The turn this policy gave last in this conversation."""
    previous_messages: int = 0
    """How many of ``messages`` that turn had been shown. The rest, after the assistant's own, is new."""
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """For scripted and oracle policies: what a model never gets. Engines ignore it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmed:
    """What it took to have a prefix in the cache."""

    tokens: int
    cached: int
    """Of ``tokens``, those that were there already."""
    prefill_s: float


class Policy(Protocol):
    @property
    def uri(self) -> str:
        """How it was asked for, without secrets."""
        ...

    @property
    def weights(self) -> str:
        """Version of the weights that will answer the next call (a digest or the server's model name)."""
        ...

    @property
    def actions(self) -> Literal["text", "native"]:
        """``text``: calls are written as text in the form of `livery.policies.wire`. ``native``: the server's own
        function calling."""
        ...

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        """The next action.

        Raises:
            PolicyTimeout, PolicyUnavailable, PolicyOverflow, PolicyMalformed. Cancellation stops generation promptly.
        """
        ...

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> Warmed | None:
        """Prefill a prefix ahead of need; a no-op where an engine cannot. None where it does not tell what it took.
        Requests go first: none may wait for it."""
        ...

    async def aclose(self) -> None: ...


@runtime_checkable
class Tokenizing(Protocol):
    """A policy that can tell how it would read messages."""

    def prefix_ids(self, messages: tuple[PromptMessage, ...]) -> tuple[int, ...]:
        """Token ids of a conversation's beginning. Blocks for milliseconds; any thread may call it."""
        ...
