"""Plain CSV chat: a header row with the columns of ``plain.py``, then one message a row.

UTF-8 with or without a byte-order mark, UTF-16 with one, or GB 18030 (what Excel writes on a Chinese
Windows): told apart by decoding, not by guess. Separated by comma, semicolon or tab.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from livery.errors import InputError
from livery.room.sources.plain import ALIASES, columns, plain_event
from livery.room.sources.reading import BrokenRow, ChatFormat, FileNote, Ledger, NotChat, Row, Sample
from livery.types import ChatEvent

NAME = "csv"

_SEPARATORS = ",;\t"


def encoding_of(path: Path) -> str:
    """The encoding of a CSV file, from its byte-order mark or by decoding all of it.

    Raises:
        InputError: it is none of UTF-8, UTF-16 with a mark, or GB 18030.
    """
    with path.open("rb") as file:
        head = file.read(4)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for encoding in ("utf-8-sig", "gb18030"):
        decoder = codecs.getincrementaldecoder(encoding)()
        with path.open("rb") as file:
            try:
                while block := file.read(1 << 16):
                    decoder.decode(block)
                decoder.decode(b"", final=True)
            except UnicodeDecodeError:
                continue
        return encoding
    raise InputError.at(path, "neither UTF-8 nor GB 18030 text; save the table as CSV UTF-8", code="chat-encoding")


def header_of(line: str) -> tuple[list[str], str]:
    """The headers in a table's first line, and the separator that gives the most known columns."""

    def parsed(separator: str) -> list[str]:
        rows = list(csv.reader([line], delimiter=separator))
        return rows[0] if rows else []

    best = max(_SEPARATORS, key=lambda separator: len(columns(parsed(separator))))
    return parsed(best), best


def _matches(sample: Sample) -> bool:
    first = next((line for line in sample.text.lstrip("\ufeff").splitlines() if line.strip()), "")
    if first.startswith(("{", "[", "<", "@", ":")):
        return False
    return "text" in columns(header_of(first)[0])


def _rows(path: Path) -> Iterator[Row | BrokenRow | FileNote]:
    encoding = encoding_of(path)
    with path.open(encoding=encoding, newline="") as file:
        start = 1
        first = ""
        for line in file:
            first = line
            if line.strip():
                break
            start += 1
        headers, separator = header_of(first.rstrip("\r\n"))
        found = columns(headers)
        if "text" not in found:
            names = ", ".join(ALIASES["text"][:5])
            raise InputError.at(
                path,
                f"found the headers {', '.join(headers)}; expected one for the text ({names}, ...)",
                line=start,
                code="chat-header",
            )
        reader = csv.reader(file, delimiter=separator, strict=True)
        index = 0
        while True:
            begins = start + reader.line_num + 1
            try:
                cells = next(reader, None)
            except csv.Error as error:
                yield BrokenRow(begins, f"not a CSV row ({error}); expected {len(headers)} cells")
                index += 1
                continue
            if cells is None:
                return
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(headers):
                yield BrokenRow(begins, f"found {len(cells)} cells, expected {len(headers)} as in the header")
            else:
                by_header = dict(zip(headers, cells, strict=True))
                yield Row(begins, index, {column: by_header[header] for column, header in found.items()})
            index += 1


def _events(row: Row, ledger: Ledger) -> Sequence[ChatEvent] | NotChat:
    return (plain_event(row.value, NAME, row, ledger),)


FORMAT = ChatFormat(
    name=NAME,
    title="plain CSV with a header row (viewer,text,at,...)",
    matches=_matches,
    rows=_rows,
    events=_events,
)
read = FORMAT.read
