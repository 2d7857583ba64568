"""Which format a chat file is in, by its content and never its name, and the one way to open it.

`open_chat` streams; `read_chat` reads everything and gives the account. Both report every row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path

from livery.errors import InputError, Problem
from livery.room.sources import (
    bililive_xml,
    blivedm,
    chat_downloader,
    csv_table,
    jsonl,
    oba,
    twitch_irc,
    ytdlp,
)
from livery.room.sources.json_rows import sample_objects
from livery.room.sources.reading import ChatFormat, Ledger, Sample
from livery.types import ChatEvent

FORMATS: Mapping[str, ChatFormat] = {
    module.FORMAT.name: module.FORMAT
    for module in (bililive_xml, ytdlp, blivedm, oba, chat_downloader, twitch_irc, jsonl, csv_table)
}
"""By name, most particular first: the plain formats take what no other recognises."""

_SAMPLE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class ChatLog:
    """A whole chat file, and what became of each of its rows.

    ``rows == chat_rows + bad_rows + sum(skipped.values())``: no row is lost without a word.
    """

    events: tuple[ChatEvent, ...]
    """In file order."""
    format: str
    rows: int
    chat_rows: int
    """Rows that gave events."""
    bad_rows: int
    """Rows that gave none and should have; each has a problem of severity "error"."""
    skipped: Mapping[str, int]
    """Known rows that are not chat, by kind."""
    problems: tuple[Problem, ...]
    """Bad rows, and warnings about rows that were used all the same."""


class ChatStream(Iterator[ChatEvent]):
    """A chat file being read: iterate for its events; ``ledger`` accounts for what was read so far."""

    def __init__(self, format: ChatFormat, path: Path, room: str, ledger: Ledger) -> None:
        self.format = format.name
        self.ledger = ledger
        self._events = format.read(path, room, ledger)

    def __iter__(self) -> Iterator[ChatEvent]:
        return self

    def __next__(self) -> ChatEvent:
        return next(self._events)


def open_chat(
    path: str | Path,
    room: str,
    format: str = "auto",
    *,
    strict: bool = False,
    base_at: float = 0.0,
    zone: tzinfo = UTC,
) -> ChatStream:
    """Open a chat file for streaming.

    Args:
        path: the file.
        room: the room its messages belong to.
        format: a name in `FORMATS`, or "auto" to tell it from the content.
        strict: raise at the first bad row; otherwise problems are collected in ``ledger``.
        base_at: Unix epoch of the show's start, used where a file only knows offsets into it.
        zone: time zone of clock times that name none.

    Raises:
        InputError: no such file, an unknown format name, or content of no known format.
    """
    place = Path(path)
    if not place.is_file():
        what = "a folder" if place.is_dir() else "no such file"
        raise InputError.at(place, f"{what}; expected a chat file", code="chat-file")
    try:
        place.open("rb").close()
    except OSError as error:
        raise InputError.at(place, f"cannot be read: {error.strerror}", code="chat-file") from error
    if format == "auto":
        chosen = detect(place)
    elif format in FORMATS:
        chosen = FORMATS[format]
    else:
        raise InputError.at(
            place,
            f"unknown chat format {format!r}; expected auto or one of {', '.join(FORMATS)}",
            code="chat-format",
        )
    ledger = Ledger(path=str(path), room=room, base_at=base_at, zone=zone, strict=strict)
    return ChatStream(chosen, place, room, ledger)


def read_chat(
    path: str | Path,
    room: str,
    format: str = "auto",
    *,
    strict: bool = False,
    base_at: float = 0.0,
    zone: tzinfo = UTC,
) -> ChatLog:
    """Read a whole chat file. Arguments and errors as for `open_chat`."""
    stream = open_chat(path, room, format, strict=strict, base_at=base_at, zone=zone)
    events = tuple(stream)
    ledger = stream.ledger
    return ChatLog(
        events=events,
        format=stream.format,
        rows=ledger.rows,
        chat_rows=ledger.chat_rows,
        bad_rows=ledger.bad_rows,
        skipped=dict(ledger.skipped),
        problems=tuple(ledger.problems),
    )


def detect(path: Path) -> ChatFormat:
    """The format of a chat file.

    Raises:
        InputError: the file is empty or of no known format; the message lists what is known.
    """
    sample = _sample(path)
    if not sample.text.strip("\ufeff \t\r\n"):
        raise InputError.at(path, "the file is empty; expected chat messages", code="chat-empty")
    for format in FORMATS.values():
        if format.matches(sample):
            return format
    known = "\n".join(f"  {format.name}: {format.title}" for format in FORMATS.values())
    first = sample.text.strip().splitlines()[0]
    found = f"found {first[:80]!r}, which is no known chat format"
    if "\0" in sample.text:
        found = "found binary data, which is no known chat format"
    elif first[0] in "{[" and not sample.objects and path.stat().st_size <= _SAMPLE_BYTES:
        try:
            json.loads(sample.text)
        except ValueError as error:
            found = f"found {first[:80]!r}, which is not valid JSON ({error})"
    raise InputError.at(
        path,
        f"{found}; expected one of\n{known}",
        line=1,
        code="chat-format",
    )


def _sample(path: Path) -> Sample:
    with path.open("rb") as file:
        raw = file.read(_SAMPLE_BYTES)
        whole = not file.read(1)
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = raw.decode("utf-16", errors="ignore")
    else:
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            # A sample may cut a character in two; anything earlier is another encoding, or damage.
            cut = not whole and error.start >= len(raw) - 4
            legacy = raw.decode("gb18030", errors="ignore")
            text = raw[: error.start].decode("utf-8-sig") if cut else legacy
            if not cut and raw.lstrip()[:1] in (b"{", b"[", b"<", b"@", b":"):
                text = raw.decode("utf-8-sig", errors="replace")
    if not whole and "\n" in text:
        text = text[: text.rindex("\n")]
    objects, array = sample_objects(text) if text.lstrip()[:1] in ("{", "[") else ((), False)
    return Sample(text=text, objects=objects, array=array)
