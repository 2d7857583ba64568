"""Rows of JSON chat files, streamed: one object a line, or the elements of one large array.

An array is decoded element by element, so that a recording of hours does not have to fit in memory and a
broken element costs only itself. Not a validating parser of what stands between the elements.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO, cast

from livery.room.sources.reading import BrokenRow, FileNote, Row, lines

_CHUNK = 1 << 16
_ELEMENT_LIMIT = 1 << 22
"""Characters after which an element that does not end is broken, not long."""
_BETWEEN = re.compile(r"[\s,]*")
_NEXT_OBJECT = re.compile(r"\n\s*\{|\}\s*,\s*(?=\{)")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_decoder = json.JSONDecoder()


def object_lines(path: Path) -> Iterator[Row | BrokenRow | FileNote]:
    """One JSON value a line; empty lines are no rows."""
    index = 0
    for number, text in lines(path):
        if isinstance(text, BrokenRow):
            index += 1
            yield text
        elif text.strip():
            try:
                yield Row(number, index, _paired(json.loads(text), text))
            except (ValueError, RecursionError) as error:
                yield BrokenRow(number, f"{_why(error)}; expected one JSON object a line")
            index += 1


def array_or_lines(path: Path) -> Iterator[Row | BrokenRow | FileNote]:
    """The elements of a JSON array, or the lines of a file whose first character is not ``[``."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
        head = file.read(256)
    yield from (array_elements(path) if head.lstrip().startswith("[") else object_lines(path))


def array_elements(path: Path) -> Iterator[Row | BrokenRow | FileNote]:
    """The elements of one JSON array, each with the line it begins on."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
        yield from _elements(file)


def _elements(file: TextIO) -> Iterator[Row | BrokenRow | FileNote]:
    buffer, line, index, ended = "", 1, 0, False

    def more() -> bool:
        nonlocal buffer, ended
        # Grow by what is there, so that a long element is not decoded once for every chunk of it.
        chunk = "" if ended else file.read(max(_CHUNK, len(buffer)))
        ended = not chunk
        buffer += chunk
        return not ended

    def drop(count: int) -> None:
        nonlocal buffer, line
        line += buffer.count("\n", 0, count)
        buffer = buffer[count:]

    more()
    drop(buffer.index("[") + 1)
    position = 0
    while True:
        position = _end(_BETWEEN.match(buffer, position))
        if position >= len(buffer):
            drop(position)
            position = 0
            if more():
                continue
            yield FileNote(line, "the array does not end with ]; the file may be cut off", "chat-cut-off")
            return
        if buffer[position] == "]":
            return
        try:
            value, end = _decoder.raw_decode(buffer, position)
        except (ValueError, RecursionError) as error:
            if len(buffer) - position < _ELEMENT_LIMIT and _may_be_incomplete(error, buffer) and more():
                continue
            drop(position)
            position = 0
            yield BrokenRow(line, f"{_why(error, line)}; expected a JSON object in the array")
            index += 1
            while (following := _NEXT_OBJECT.search(buffer, 1)) is None and more():
                pass
            if following is None:
                return
            drop(following.end() - (1 if buffer[following.end() - 1] == "{" else 0))
            continue
        if end == len(buffer) and isinstance(value, int | float) and more():
            continue
        begins = line + buffer.count("\n", 0, position)
        yield Row(begins, index, _paired(value, buffer[position:end]))
        index += 1
        position = end
        if position > _CHUNK // 2:
            drop(position)
            position = 0


def _may_be_incomplete(error: Exception, buffer: str) -> bool:
    if not isinstance(error, json.JSONDecodeError):
        return False
    # The decoder reports an open string at its start, anything else where it stopped.
    return "Unterminated string" in error.msg or error.pos >= len(buffer) - 8


def _end(match: re.Match[str] | None) -> int:
    assert match is not None, "the pattern matches the empty string"
    return match.end()


def _why(error: Exception, line: int = 0) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON ({error.msg}" + (")" if line else f", column {error.colno})")
    return "JSON nested too deeply" if isinstance(error, RecursionError) else f"not usable JSON ({error})"


def _paired(value: Any, source: str) -> Any:
    """``value`` with half surrogate pairs replaced: JSON may hold them, UTF-8 (a journal) may not."""
    if not _SURROGATE.search(source):
        return value
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_paired(item, source) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        items = cast(dict[str, Any], value).items()
        return {_paired(key, source): _paired(item, source) for key, item in items}
    return value


def sample_objects(text: str) -> tuple[tuple[dict[str, Any], ...], bool]:
    """JSON objects found at the start of ``text`` (at most 20), and whether they stand in an array."""
    body = text.lstrip("\ufeff \t\r\n")
    array = body.startswith("[")
    position = 1 if array else 0
    found: list[dict[str, Any]] = []
    while len(found) < 20:
        position = _end(_BETWEEN.match(body, position))
        try:
            value, position = _decoder.raw_decode(body, position)
        except (ValueError, RecursionError):
            following = _NEXT_OBJECT.search(body, position + 1) if position < len(body) else None
            if following is None or not body.startswith(("{", "[")):
                break
            position = following.end() - (1 if body[following.end() - 1] == "{" else 0)
            continue
        if isinstance(value, dict):
            found.append(cast(dict[str, Any], value))
        elif not array:
            break
    return tuple(found), array
