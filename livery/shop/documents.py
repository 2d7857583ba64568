"""Files of a catalogue as plain values that still know their lines: YAML, JSON and CSV.

Decimal numbers become `decimal.Decimal` from their own text and never pass through a float. Of YAML 1.1 only
``true`` and ``false`` are booleans, and ``16:00``, ``03`` or ``yes`` stay the text that they look like.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import yaml

from livery.errors import InputError, Problem

Location = tuple[str | int, ...]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_compose: Callable[..., yaml.Node | None] = cast(Any, yaml).compose
_NOT_YAML = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)|[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_PLAIN_INTEGER = re.compile(r"[-+]?(?:0|[1-9]\d*)")
_PLAIN_DECIMAL = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Document:
    path: Path
    value: Any
    """Dicts, lists, str, int, Decimal, bool, None."""
    lines: dict[Location, int] = field(default_factory=dict[Location, int])
    """Where each field begins, 1-based."""
    problems: tuple[Problem, ...] = ()
    """Faults that leave the rest readable: a field given twice, a cell too many."""


def read_text(path: Path) -> str:
    """UTF-8 text, with or without a byte order mark.

    Raises:
        InputError: unreadable, or not UTF-8 (with the line).
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError.at(path, f"cannot be read: {error.strerror}", code="unreadable") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        message = f"found byte 0x{data[error.start]:02x}, which is not UTF-8; save the file as UTF-8"
        raise InputError.at(path, message, line=line, code="not-utf-8") from error


def read_yaml(path: Path) -> Document:
    """Raises InputError where the text is not YAML."""
    text = read_text(path)
    try:
        root = _compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        message = f"not YAML: {getattr(error, 'problem', None) or error}"
        line = mark.line + 1 if mark else 0
        raise InputError.at(path, message, line=line, code="not-yaml") from error
    reader = _NodeReader(path)
    value = reader.read(root, ()) if root is not None else None
    return Document(path, value, reader.lines, tuple(reader.problems))


def read_json(path: Path) -> Document:
    """Raises InputError where the text is not JSON."""
    text = read_text(path)
    try:
        value = json.loads(text, parse_float=Decimal, parse_constant=str)
    except json.JSONDecodeError as error:
        raise InputError.at(path, f"not JSON: {error.msg}", line=error.lineno, code="not-json") from error
    # The json module tells no lines. JSON is YAML but for tabs, some escapes and control characters, none of
    # which matter to where its fields stand: so YAML's marks give the lines.
    reader = _NodeReader(path)
    try:
        root = _compose(_NOT_YAML.sub("_", text.replace("\t", " ")), Loader=_LOADER)
    except yaml.YAMLError:
        root = None  # keys beyond YAML's limits: problems will name the file and field alone
    if root is not None:
        reader.read(root, ())
    return Document(path, value, reader.lines, tuple(reader.problems))


class _NodeReader:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[Location, int] = {}
        self.problems: list[Problem] = []
        self._open: list[yaml.Node] = []

    def read(self, node: yaml.Node, at: Location) -> Any:
        self.lines.setdefault(at, node.start_mark.line + 1)
        if any(node is outer for outer in self._open):
            message = "an alias refers to what it stands in"
            raise InputError.at(self.path, message, field=dotted(at), line=self.lines[at], code="not-yaml")
        self._open.append(node)
        value = self._value(node, at)
        self._open.pop()
        return value

    def _value(self, node: yaml.Node, at: Location) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node.tag, node.value)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(child, (*at, i)) for i, child in enumerate(node.value)]
        found: dict[str, Any] = {}
        for key_node, child in node.value:
            line: int = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                where = dotted(at)
                self._problem(where, line, "a field's name must be text", "field-name")
                continue
            key = str(key_node.value)
            if key in found:
                first = self.lines[(*at, key)]
                self._problem(dotted((*at, key)), line, f"given already on line {first}", "duplicate-field")
                continue
            self.lines[(*at, key)] = line
            found[key] = self.read(child, (*at, key))
        return found

    def _problem(self, where: str, line: int, message: str, code: str) -> None:
        self.problems.append(Problem(path=str(self.path), field=where, line=line, message=message, code=code))


def _scalar(tag: str, text: str) -> Any:
    match tag.rpartition(":")[2]:
        case "null":
            return None
        case "bool" if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case "int" if _PLAIN_INTEGER.fullmatch(text):
            return int(text)
        case "float" if _PLAIN_DECIMAL.fullmatch(text):
            return Decimal(text)
        case _:
            return text


@dataclass(frozen=True, slots=True)
class Row:
    line: int
    """Where it begins."""
    cells: dict[str, str]
    """Column -> trimmed text; empty cells are left out."""


@dataclass(frozen=True, slots=True)
class Table:
    path: Path
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    problems: tuple[Problem, ...]


def read_csv(path: Path) -> Table:
    """A table with a header line; comma, semicolon or tab, whichever the header has most of.

    Raises:
        InputError: no header, or not CSV at all.
    """
    text = read_text(path)
    header_line = text.partition("\n")[0]
    delimiter = max(",;\t", key=header_line.count)
    problems: list[Problem] = []

    def problem(line: int, message: str, where: str = "", code: str = "csv") -> None:
        problems.append(Problem(path=str(path), line=line, field=where, message=message, code=code))

    records: list[tuple[int, list[str]]] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for cells in reader:
            if any(c.strip() for c in cells):
                records.append((line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        message = f"not CSV: {error} in the row that begins here (is a quote left open?)"
        raise InputError.at(path, message, line=line, code="not-csv") from error
    if not records:
        raise InputError.at(path, "is empty; expected a header line", line=1, code="empty")
    columns = tuple(c.strip() for c in records[0][1])
    for i, column in enumerate(columns):
        if not column:
            problem(1, f"column {i + 1} has no name")
        elif column in columns[:i]:
            problem(1, f"column {column!r} stands twice", column, "duplicate-field")
    rows: list[Row] = []
    for line, cells in records[1:]:
        if len(cells) > len(columns):
            problem(line, f"found {len(cells)} cells; the header has {len(columns)} (quote text with commas)")
        pairs = zip(columns, cells, strict=False)
        rows.append(Row(line, {c: text for c, cell in pairs if (text := cell.strip()) and c}))
    return Table(path, columns, tuple(rows), tuple(problems))


def dotted(location: Location) -> str:
    """("products", 3, "price") -> "products[3].price"."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
