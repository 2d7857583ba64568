"""BililiveRecorder's XML: Bilibili's video danmaku format with ``gift``, ``sc`` and ``guard`` beside ``d``.

Streamed through expat, never a tree in memory. A document type declaration is refused before it is read,
so no entity can be defined, expanded or fetched. A recorder that was killed leaves a file without an end:
that is a warning. A control character in one message breaks XML: reading goes on with the next line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from xml.parsers import expat

from livery.errors import InputError
from livery.room.sources.reading import (
    BrokenRow,
    ChatFormat,
    FileNote,
    Ledger,
    NotChat,
    Row,
    RowFault,
    Sample,
    derived_id,
)
from livery.room.sources.times import Offset, parse_at
from livery.types import ChatEvent, ChatMessage, MessageKind

NAME = "bililive-xml"

_PIECE = 1 << 16
_METADATA = {
    "chatserver",
    "chatid",
    "mission",
    "maxlimit",
    "state",
    "real_name",
    "source",
    "BililiveRecorder",
    "BililiveRecorderXmlStyle",
    "metadata",
}
_GUARDS = {"1": "总督", "2": "提督", "3": "舰长"}


@dataclass(slots=True)
class _Element:
    line: int
    tag: str
    attributes: Mapping[str, str]
    text: list[str] = field(default_factory=list[str])


def _matches(sample: Sample) -> bool:
    text = sample.text.lstrip("\ufeff \t\r\n")
    return text.startswith("<") and ("<i>" in text or "<i " in text or "BililiveRecorder" in text)


class _Reader:
    """One expat parser; elements directly under the root become rows."""

    def __init__(self, path: Path, first_line: int) -> None:
        self.path = path
        self.done: list[_Element] = []
        self._line_before = first_line - 1
        self._depth = 0
        self._open: _Element | None = None
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.StartDoctypeDeclHandler = self._doctype

    def feed(self, data: bytes, *, final: bool = False) -> None:
        self._parser.Parse(data, final)

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth == 2:
            line = self._line_before + self._parser.CurrentLineNumber
            self._open = _Element(line, tag, dict(attributes))

    def _end(self, tag: str) -> None:
        if self._depth == 2 and self._open is not None:
            self.done.append(self._open)
            self._open = None
        self._depth -= 1

    def _characters(self, data: str) -> None:
        if self._depth == 2 and self._open is not None:
            self._open.text.append(data)

    def _doctype(self, name: str, *_: object) -> None:
        raise InputError.at(
            self.path,
            f"found a document type declaration (<!DOCTYPE {name}>); expected a BililiveRecorder file, which has none",
            line=self._line_before + self._parser.CurrentLineNumber,
            code="chat-doctype",
        )


def _rows(path: Path) -> Iterator[Row | BrokenRow | FileNote]:
    reader = _Reader(path, 1)
    line = 1
    index = 0
    with path.open("rb") as file:
        while piece := file.readline(_PIECE):
            broken: BrokenRow | None = None
            try:
                reader.feed(piece)
            except expat.ExpatError as error:
                why = expat.ErrorString(error.code)
                broken = BrokenRow(line, f"not well-formed XML ({why}); the row is left out")
            for element in reader.done:
                yield Row(element.line, index, element)
                index += 1
            reader.done.clear()
            line += piece.count(b"\n")
            if broken is not None:
                yield broken
                index += 1
                reader = _Reader(path, line)
                # The root's start tag shares the line number of what follows it.
                reader.feed(b"<i>")
        try:
            reader.feed(b"", final=True)
        except expat.ExpatError:
            yield FileNote(line, "the file ends before </i>; the recording was cut off", "chat-cut-off")


def _events(row: Row, ledger: Ledger) -> Sequence[ChatEvent] | NotChat:
    element: _Element = row.value
    if element.tag == "BililiveRecorderRecordInfo":
        started = parse_at(element.attributes.get("start_time"), ledger.zone)
        if isinstance(started, float):
            ledger.origin = started
        return NotChat("record-info")
    if element.tag in _METADATA:
        return NotChat("metadata")
    if element.tag == "d":
        return (_danmaku(element, row, ledger),)
    if element.tag in ("gift", "sc", "guard"):
        return (_with_money(element, row, ledger),)
    raise RowFault(
        f"unknown element <{element.tag}>; expected d, gift, sc or guard",
        field=element.tag,
        code="chat-unknown",
    )


def _danmaku(element: _Element, row: Row, ledger: Ledger) -> ChatMessage:
    parts = element.attributes.get("p", "").split(",")
    if len(parts) < 7:
        raise RowFault(
            f"found {len(parts)} values, expected at least 7 (offset, mode, size, colour, time, pool, user)",
            field="d.p",
        )
    sent = parse_at(parts[4], ledger.zone)
    at = sent if isinstance(sent, float) else ledger.at_offset(_offset(parts[0], "d.p"))
    name = element.attributes.get("user", "")
    viewer = parts[6] if parts[6] not in ("", "0") else name
    if not viewer:
        raise RowFault("neither a user id nor a user name", field="d.user")
    text = "".join(element.text)
    row_id = parts[7] if len(parts) > 7 else ""
    return ChatMessage(
        id=f"bilibili:{row_id}"
        if row_id not in ("", "0")
        else derived_id("bilibili", row.index, viewer, parts[4], text),
        room=ledger.room,
        viewer=viewer,
        name=name,
        text=text,
        at=ledger.at_or_last(at, row.line),
        source="bilibili",
    )


def _with_money(element: _Element, row: Row, ledger: Ledger) -> ChatMessage:
    given = element.attributes
    tag = element.tag
    name = given.get("user", "")
    viewer = given.get("uid") or name
    if not viewer:
        raise RowFault("missing; expected who gave it", field=f"{tag}.user")
    at = ledger.at_or_last(ledger.at_offset(_offset(given.get("ts", ""), f"{tag}.ts")), row.line)
    text = "".join(element.text).strip() if tag == "sc" else ""
    if tag == "sc":
        kind, amount = MessageKind.PAID, f"¥{given.get('price', '')}"
    elif tag == "gift":
        kind, amount = MessageKind.GIFT, f"{given.get('giftname', '')} x{given.get('giftcount', '1')}"
    else:
        kind = MessageKind.MEMBER
        amount = f"{_GUARDS.get(given.get('level', ''), '大航海')} x{given.get('count', '1')}"
    return ChatMessage(
        id=derived_id("bilibili", row.index, tag, viewer, given.get("ts", ""), text),
        room=ledger.room,
        viewer=viewer,
        name=name,
        text=text,
        at=at,
        kind=kind,
        amount=amount,
        source="bilibili",
    )


def _offset(text: str, field: str) -> float:
    offset = parse_at(text, UTC)
    if not isinstance(offset, Offset):
        raise RowFault(f"found {text!r}, expected seconds into the recording", field=field)
    return offset.seconds


FORMAT = ChatFormat(
    name=NAME,
    title='BililiveRecorder XML (<i><d p="..." user="...">text</d>...</i>)',
    matches=_matches,
    rows=_rows,
    events=_events,
)
read = FORMAT.read
