"""Sharing rooms or viewers out to channels by a stable hash.

A unit (a viewer or a room) falls into one of 10,000 buckets by SHA-256 of salt, split and unit: the same on
every machine and in every process. Buckets are given to channels in runs, which are stored; new percentages
take away only the buckets that a channel has too many of, so only the units that must move do. This is not an
experiment's assignment with its log of exposures; that is `livery.experiments`, which may use the same hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import groupby
from typing import Literal

from livery.errors import InputError

BUCKETS = 10_000

Runs = tuple[tuple[str, int], ...]
"""(channel, how many buckets), in bucket order; the counts sum to `BUCKETS`."""


@dataclass(frozen=True, kw_only=True)
class Split:
    rooms: str
    """Room id or pattern."""
    by: Literal["viewer", "room"]
    salt: str
    runs: Runs
    version: int

    @cached_property
    def _channels(self) -> tuple[str, ...]:
        return tuple(channel for channel, count in self.runs for _ in range(count))

    @property
    def percent(self) -> dict[str, float]:
        """Channel -> percent."""
        counts: dict[str, int] = {}
        for channel, count in self.runs:
            counts[channel] = counts.get(channel, 0) + count
        return {channel: count * 100 / BUCKETS for channel, count in counts.items()}

    @property
    def specificity(self) -> tuple[bool, int, str]:
        """Sorts an exact room ahead of patterns, and a pattern with more letters ahead of one with fewer."""
        pattern = any(c in self.rooms for c in "*?[")
        return pattern, -len(self.rooms.replace("*", "")), self.rooms

    def covers(self, room: str) -> bool:
        return covers(self.rooms, room)

    def channel(self, room: str, viewer: str) -> str:
        """The channel of a request. One without a viewer goes by its room."""
        unit = viewer if self.by == "viewer" and viewer else room
        return self._channels[bucket(self.salt, self.rooms, unit)]


def covers(rooms: str, room: str) -> bool:
    """Whether a split's ``rooms``, a room's id or a pattern, mean this room."""
    return rooms == room or fnmatchcase(room, rooms)


def bucket(salt: str, split: str, unit: str) -> int:
    """0 to 9,999, evenly, by SHA-256 of the three joined by a null byte."""
    digest = hashlib.sha256("\0".join((salt, split, unit)).encode()).digest()
    return int.from_bytes(digest[:8], "big") % BUCKETS


def shares(percent: Mapping[str, float]) -> dict[str, int]:
    """Percentages as bucket counts.

    Raises:
        InputError: a share below 0 or finer than a hundredth of a percent, or a sum that is not 100.
    """
    counts: dict[str, int] = {}
    for channel, share in percent.items():
        count = round(share * BUCKETS / 100)
        if share < 0 or abs(count - share * BUCKETS / 100) > 1e-6:
            raise InputError.at(
                "split",
                f"found {share!r}; expected 0 to 100, in steps of {100 / BUCKETS:g}",
                field=channel,
                code="split-percent",
            )
        counts[channel] = count
    if sum(counts.values()) != BUCKETS:
        total = sum(counts.values()) * 100 / BUCKETS
        raise InputError.at("split", f"the percentages make {total:g}; expected 100", code="split-percent")
    return {channel: count for channel, count in counts.items() if count}


def allocate(wanted: Mapping[str, int], runs: Sequence[tuple[str, int]] = ()) -> Runs:
    """Buckets for each channel, changing as few as possible of an earlier allocation.

    Args:
        wanted: channel -> buckets, `BUCKETS` together.
        runs: the allocation so far; empty for a new split.
    """
    left = dict(wanted)
    kept: list[str | None] = []
    for channel in (channel for channel, count in runs for _ in range(count)):
        if left.get(channel, 0):
            left[channel] -= 1
            kept.append(channel)
        else:
            kept.append(None)
    kept += [None] * (BUCKETS - len(kept))
    free = (channel for channel, count in left.items() for _ in range(count))
    filled = [channel if channel is not None else next(free) for channel in kept]
    return tuple((channel, len(list(run))) for channel, run in groupby(filled))
