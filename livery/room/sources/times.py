"""Points in time as chat files write them: epochs of four units, offsets into the show, clock texts.

Not a general date parser: formats outside this list are reported, not guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

_CLOCK = re.compile(r"(-?)(?:(\d+):)?(\d{1,2}):(\d{2})(?:[.,](\d+))?")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_DAY_CLOCK = re.compile(r"(上午|下午|凌晨|中午|晚上)?\s*(\d{1,2}):(\d{2})(?::(\d{2}))?\s*([AaPp]\.?[Mm]\.?)?")

_EPOCH_FROM = 1e8
"""Plain numbers below this (1973) are seconds into the show; from it on they are Unix epochs."""


@dataclass(frozen=True, slots=True)
class Offset:
    """Seconds into the show; may be negative (the waiting room)."""

    seconds: float


def from_epoch(value: float) -> float:
    """Unix epoch in seconds from seconds, milli-, micro- or nanoseconds, told apart by size.

    Raises:
        ValueError: past the year 5000 in every unit, or not finite.
    """
    size = abs(value)
    if not size < 1e20:
        raise ValueError(f"found {str(value)[:40]}, expected a Unix time")
    if size >= 1e17:
        return value / 1e9
    if size >= 1e14:
        return value / 1e6
    if size >= 1e11:
        return value / 1e3
    return float(value)


def parse_offset(text: str) -> float | None:
    """``1:02:03.5``, ``-0:07`` or ``12:30`` as seconds; None if it is not a clock text."""
    found = _CLOCK.fullmatch(text.strip())
    if found is None:
        return None
    sign, hours, minutes, seconds, fraction = found.groups()
    total = int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction or 0}")
    return -total if sign else total


def parse_at(value: object, zone: tzinfo) -> float | Offset | None:
    """An epoch, an `Offset`, or None if ``value`` is neither.

    Accepts numbers (see `from_epoch`; small ones are offsets), ISO 8601 with or without a zone, ``/`` for
    ``-`` in dates, and clock texts, which are offsets.
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        number = float(value)
    else:
        text = str(value).strip()
        if not _NUMBER.fullmatch(text):
            offset = parse_offset(text)
            if offset is not None:
                return Offset(offset)
            try:
                moment = datetime.fromisoformat(text.replace("/", "-"))
            except ValueError:
                return None
            return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
        number = float(text)
    if number != number or abs(number) == float("inf"):
        return None
    if abs(number) >= 1e20:
        return None
    return Offset(number) if abs(number) < _EPOCH_FROM else from_epoch(number)


def parse_time_of_day(text: str, *, near: float, zone: tzinfo) -> float | None:
    """A clock on the wall ("20:31:05", "8:31:05 PM", "下午8:31:05") as the epoch nearest to ``near``.

    Nearest, so that a show that runs past midnight goes on rather than back a day. None if it is no clock.
    """
    found = _DAY_CLOCK.fullmatch(text.strip())
    if found is None:
        return None
    part, hour_text, minute, second, half = found.groups()
    hour = int(hour_text)
    later = part in ("下午", "晚上") or (half or "").lower().startswith("p") or (part == "中午" and hour < 11)
    earlier = part in ("上午", "凌晨") or (half or "").lower().startswith("a")
    if later and hour < 12:
        hour += 12
    elif earlier and hour == 12:
        hour = 0
    if hour > 23 or int(minute) > 59 or int(second or 0) > 59:
        return None
    day = datetime.fromtimestamp(near, zone).replace(
        hour=hour, minute=int(minute), second=int(second or 0), microsecond=0
    )
    candidates = (day - timedelta(days=1), day, day + timedelta(days=1))
    return min((c.timestamp() for c in candidates), key=lambda at: abs(at - near))
