"""How any chat file is read: rows, what becomes of each, and the ledger that accounts for them all.

A format (one module each, beside this one) knows two things: how its file falls into rows, and what one
row means. Everything else is the same for all of them and lives here: counting, collecting problems,
strict mode. No row is ever silently lost: it is chat (one or more events), a known row that is not chat
(counted by kind), or bad (at least one `Problem` that names its line). The three counts add up to ``rows``.

Not a live connection: those yield the same events (see ``twitch.py``) but have no file to account for.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, cast

from livery.errors import InputError, Problem
from livery.types import ChatEvent


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a chat file, not yet understood."""

    line: int
    """1-based line on which the row begins."""
    index: int
    """0-based position among the file's rows."""
    value: Any
    """What the format's own parser made of it."""


@dataclass(frozen=True, slots=True)
class BrokenRow:
    """A row that could not even be parsed."""

    line: int
    message: str
    """What was found and what is expected."""


@dataclass(frozen=True, slots=True)
class NotChat:
    """A row the format knows and that carries no chat."""

    kind: str


@dataclass(frozen=True, slots=True)
class FileNote:
    """Something true of the file and not of one row, such as a missing end. Does not count as a row."""

    line: int
    message: str
    code: str


class RowFault(Exception):
    """Raised by a format for a row it cannot use; turned into problems with the row's line."""

    def __init__(self, message: str, *, field: str = "", code: str = "chat-row") -> None:
        self.message = message
        self.field = field
        self.code = code
        super().__init__(message)


@dataclass(slots=True)
class Ledger:
    """The account of one file while it is read.

    ``rows == chat_rows + bad_rows + sum(skipped.values())`` after every row.
    """

    path: str
    room: str
    base_at: float = 0.0
    """Unix epoch of the show's start, for files that only know offsets into it."""
    zone: tzinfo = UTC
    """Time zone of clock times that name none."""
    strict: bool = False
    """Raise `InputError` at the first bad row instead of going on."""
    rows: int = 0
    chat_rows: int = 0
    bad_rows: int = 0
    skipped: Counter[str] = field(default_factory=Counter[str])
    problems: list[Problem] = field(default_factory=list[Problem])
    origin: float | None = None
    """Unix epoch of offset zero, once a row has told both; None before that."""
    last_at: float | None = None
    """Time of the latest row that had one."""

    def bad(self, line: int, message: str, *, field: str = "", code: str = "chat-row") -> None:
        """Record one bad row. Raises `InputError` in strict mode."""
        problem = Problem(path=self.path, line=line, field=field, message=message, code=code)
        self.bad_rows += 1
        self.problems.append(problem)
        if self.strict:
            raise InputError(problem)

    def warn(self, line: int, message: str, *, field: str = "", code: str) -> None:
        """Record a flaw of a row that is used all the same, or of the file."""
        self.problems.append(
            Problem(path=self.path, line=line, field=field, message=message, code=code, severity="warning")
        )

    def at_offset(self, offset_s: float) -> float:
        """Unix epoch of a moment given as seconds into the show."""
        return (self.base_at if self.origin is None else self.origin) + offset_s

    def at_or_last(self, at: float | None, line: int) -> float:
        """``at``, or the previous row's time with a warning where a row names none."""
        if at is None:
            at = self.base_at if self.last_at is None else self.last_at
            self.warn(line, "no time in this row; the previous row's time is used", code="chat-no-time")
        self.last_at = at
        return at


@dataclass(frozen=True, slots=True)
class Sample:
    """The beginning of a file, for telling its format."""

    text: str
    """The first characters, a cut-off last line left out where there are others."""
    objects: tuple[dict[str, Any], ...]
    """JSON objects at the start: lines, or the first elements of one array. Empty if it is not JSON."""
    array: bool = False
    """The objects stand in one JSON array."""


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """One chat file format: its name, how to recognise it, its rows, and what a row means."""

    name: str
    """What a person writes after ``--format``."""
    title: str
    """One line for messages and docs."""
    matches: Callable[[Sample], bool]
    rows: Callable[[Path], Iterator[Row | BrokenRow | FileNote]]
    events: Callable[[Row, Ledger], Sequence[ChatEvent] | NotChat]
    """Raises `RowFault`."""

    def read(self, path: str | Path, room: str, ledger: Ledger | None = None) -> Iterator[ChatEvent]:
        """Stream a file's events in file order; ``ledger`` receives the account.

        Raises:
            InputError: the file cannot be read at all, or a row is bad and the ledger is strict.
        """
        book = Ledger(path=str(path), room=room) if ledger is None else ledger
        for row in self.rows(Path(path)):
            if isinstance(row, FileNote):
                book.warn(row.line, row.message, code=row.code)
                continue
            book.rows += 1
            if isinstance(row, BrokenRow):
                book.bad(row.line, row.message)
                continue
            try:
                outcome = self.events(row, book)
                if not isinstance(outcome, NotChat):
                    outcome = [_sound(event) for event in outcome]
            except RowFault as fault:
                book.bad(row.line, fault.message, field=fault.field, code=fault.code)
                continue
            except (ValueError, OverflowError) as error:
                # A number out of all bounds, in whichever field: the row's fault, not the file's.
                book.bad(row.line, f"a value that cannot be read ({error})")
                continue
            if isinstance(outcome, NotChat):
                book.skipped[outcome.kind] += 1
                continue
            book.chat_rows += 1
            yield from outcome


def _sound(event: ChatEvent) -> ChatEvent:
    """The event as every store and model can take it: halves of surrogate pairs, which JSON can write and
    nothing can encode, become U+FFFD.

    Raises:
        RowFault: its time is not a number.
    """
    if not math.isfinite(event.at):
        raise RowFault(f"found {event.at}, expected a time", field="at")
    halved = {
        f.name: _HALVES.sub("\ufffd", value)
        for f in fields(event)
        if isinstance(value := getattr(event, f.name), str) and _HALVES.search(value)
    }
    return replace(event, **halved) if halved else event


_HALVES = re.compile("[\ud800-\udfff]")

# ------------------------------------------------------------------------- bytes, lines, JSON


def lines(path: Path) -> Iterator[tuple[int, str | BrokenRow]]:
    """Lines of a UTF-8 file with their numbers, endings and a byte-order mark removed.

    Only LF (or CRLF) ends a line: chat text may hold U+2028 and its like. Bytes that are not UTF-8 make
    that one line a `BrokenRow`.
    """
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            body = raw.rstrip(b"\r\n")
            if number == 1:
                body = body.removeprefix(b"\xef\xbb\xbf")
            try:
                yield number, body.decode("utf-8")
            except UnicodeDecodeError as error:
                found = body[error.start : error.start + 1].hex()
                yield (
                    number,
                    BrokenRow(number, f"byte 0x{found} at column {error.start + 1}; expected UTF-8 text"),
                )


def dig(value: Any, *keys: str | int) -> Any:
    """Walk into nested JSON; None where a step is absent or of another type."""
    for key in keys:
        if isinstance(value, dict) and isinstance(key, str):
            value = cast(dict[str, Any], value).get(key)
        elif isinstance(value, list) and isinstance(key, int):
            items = cast(list[Any], value)
            value = items[key] if -len(items) <= key < len(items) else None
        else:
            return None
    return value


def as_object(value: Any) -> dict[str, Any]:
    """The row as a JSON object, or a `RowFault` that says what it is instead."""
    if not isinstance(value, dict):
        raise RowFault(f"found {json_kind(value)}, expected a JSON object")
    return cast(dict[str, Any], value)


def json_kind(value: Any) -> str:
    """A JSON value's type in words for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, list) else "an object"


def word(value: Any) -> str:
    """A JSON scalar as text: ids are numbers on one platform and strings on another. None is empty."""
    if value is None or isinstance(value, bool | dict | list):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def derived_id(source: str, index: int, *content: str) -> str:
    """A message id where the platform gave none: a stable hash of content and position.

    The same file always gives the same ids, so reading it twice is not two conversations.
    """
    digest = hashlib.blake2b("\x1f".join((str(index), *content)).encode(), digest_size=9)
    return f"{source}:{digest.hexdigest()}"
