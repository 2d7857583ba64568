"""What the release store tells: releases, channels, what happened to them, and the routing in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from livery.harness.split import Split


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
