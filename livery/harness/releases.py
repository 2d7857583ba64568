"""What the release store tells: releases, channels, what happened to them, and the routing in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from livery.harness.split import Split


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixCost:
    """What a release costs the policy's prefix cache: of the system message, with which every request under it
    begins. All zero for a policy that tells no tokens and has no cache of its own."""

    tokens: int = 0
    shared: int = 0
    """Leading tokens that the release it takes the place of begins with too; 0 for a channel's first."""
    rooms: int = 0
    """For how many rooms it stands in the cache."""
    evaluated: int = 0
    """Tokens computed for that, over the rooms; the others were in the cache already."""
    prefill_s: float = 0.0
    waited_s: float = 0.0
    """All that the publication waited for it: prefill, and time in which requests went first."""
    note: str = ""
    """What kept it out of the cache of every room; empty where nothing did."""

    def __str__(self) -> str:
        said: list[str] = []
        if self.tokens:
            said.append(f"prefix of {self.tokens:,} tokens, {self.shared:,} of them as before")
        if self.rooms:
            said.append(f"{self.evaluated:,} computed in {self.prefill_s:.1f} s")
        return "; ".join([*said, *([self.note] if self.note else [])])


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A channel was moved."""

    channel: str
    release: str
    previous: str
    """The release it pointed at before; empty for a new channel."""
    version: int
    """1 for a channel's first, then one more each time."""
    at: float
    prefix: PrefixCost | None = None
    """What the release costs the policy's cache, where a running room was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    name: str
    release: str
    version: int
    updated_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One move of a channel, as logged."""

    channel: str
    version: int
    action: Literal["publish", "rollback"]
    release: str
    previous: str
    at: float
    note: str
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What is known of a release without loading it."""

    digest: str
    name: str
    """The harness's name."""
    created_at: float
    note: str
    actor: str
    components: Mapping[str, str]
    """Component name -> digest, in harness order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitEntry:
    """One change of a split, as logged."""

    rooms: str
    version: int
    by: str
    percent: Mapping[str, float]
    """Empty: the split was removed."""
    at: float
    note: str
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """All that decides which release a request gets, as one consistent snapshot."""

    version: int
    channels: Mapping[str, Channel]
    splits: tuple[Split, ...]
