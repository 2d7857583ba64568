"""Reading the text files of a harness so that every fault can name its line.

YAML is read as a JSON-compatible subset of YAML 1.2 (yaml.org/spec/1.2.2): ``yes``, ``on`` and dates are
text, numbers with a leading zero are text (``007`` may be a link id), mapping keys are always text, there are
no custom tags and no merge keys. Not a round-trip editor: comments are not kept. `dump_yaml` writes what
`parse_yaml` reads back as the same value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from rapidfuzz import fuzz, process
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from livery.errors import InputError, Problem

_MAX_NODES = 50_000
"""More values than any real harness file holds; aliases that multiply (the "billion laughs") end here."""

_TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$")
_FLOAT = re.compile(r"^[-+]?(?:0|[1-9][0-9]*)?(?:\.[0-9]+|(?<=[0-9])\.)?(?:(?<=[0-9.])[eE][-+]?[0-9]+)?$")
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULL = frozenset({"", "~", "null", "Null", "NULL"})


class _Composer(yaml.SafeLoader):
    """Composes nodes only; `_Builder` gives plain scalars their type."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's own name)


class _Dumper(yaml.SafeDumper):
    """Quotes whatever YAML 1.1 or our own reading could take for something other than text."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> ScalarNode:
    # PyYAML takes these for line breaks, and folds them, in any style but double quotes.
    style = '"' if any(c in text for c in "\x85\u2028\u2029\r") else "|" if "\n" in text else None
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)  # pyright: ignore[reportUnknownMemberType]


_Dumper.add_representer(str, _represent_text)
# "1e3" is a number in YAML 1.2 only: without this it would be written without quotes.
_Dumper.add_implicit_resolver(  # pyright: ignore[reportUnknownMemberType]
    f"{_TAG}float", _FLOAT, list("-+0123456789.")
)


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A mapping key written twice; the last one counts."""

    field: str
    line: int
    first_line: int


@dataclass(frozen=True, slots=True)
class YamlSource:
    """A parsed YAML text and where each of its values stands."""

    path: str
    value: Any
    lines: Mapping[str, int] = field(default_factory=dict[str, int])
    """Dotted field (``servers[0].url``; the root is ``""``) -> 1-based line."""
    duplicates: tuple[Duplicate, ...] = ()

    def line(self, name: str) -> int:
        """The line of a field, or of its nearest ancestor that is in the file."""
        while name and name not in self.lines:
            cut = max(name.rfind("."), name.rfind("["))
            name = name[: max(cut, 0)]
        return self.lines.get(name, 0)

    def problem(self, message: str, *, field: str = "", code: str, severity: str = "error") -> Problem:
        return Problem(
            path=self.path, field=field, line=self.line(field), message=message, severity=severity, code=code
        )

    def duplicate_problems(self, *, code: str, severity: str = "error") -> list[Problem]:
        return [
            Problem(
                path=self.path,
                field=d.field,
                line=d.line,
                message=f"found this key twice (first on line {d.first_line}); the last one counts",
                severity=severity,
                code=code,
            )
            for d in self.duplicates
        ]


class _Builder:
    def __init__(self, path: str, first_line: int, text_under: Collection[str]) -> None:
        self.path = path
        self.first_line = first_line
        self.text_under = text_under
        self.lines: dict[str, int] = {}
        self.duplicates: list[Duplicate] = []
        self.problems: list[Problem] = []
        self._open: set[int] = set()
        self._count = 0

    def line_of(self, node: Node) -> int:
        return node.start_mark.line + self.first_line

    def fault(self, node: Node, name: str, message: str) -> None:
        line = self.line_of(node)
        self.problems.append(Problem(path=self.path, field=name, line=line, message=message, code="yaml-unsupported"))

    def build(self, node: Node, name: str, as_text: bool = False) -> Any:
        self._count += 1
        if self._count > _MAX_NODES:
            message = f"found more than {_MAX_NODES} values (aliases that multiply?)"
            raise InputError.at(self.path, message, code="yaml-too-large")
        if id(node) in self._open:
            self.fault(node, name, "found an alias that contains itself; expected a tree of values")
            return None
        self.lines.setdefault(name, self.line_of(node))
        if isinstance(node, ScalarNode):
            return node.value if as_text else self._scalar(node, name)
        self._open.add(id(node))
        try:
            if isinstance(node, SequenceNode):
                return [self.build(item, f"{name}[{i}]", as_text) for i, item in enumerate(node.value)]
            assert isinstance(node, MappingNode)
            return self._mapping(node, name, as_text)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: MappingNode, name: str, as_text: bool) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                self.fault(key_node, name, "found a list or mapping as a key; expected text")
                continue
            key = str(key_node.value)
            inner = f"{name}.{key}" if name else key
            if key in found:
                self.duplicates.append(Duplicate(inner, self.line_of(key_node), self.lines[inner]))
                for old in [k for k in self.lines if k == inner or k.startswith((f"{inner}.", f"{inner}["))]:
                    del self.lines[old]
            # The key's line, not the value's: a block scalar starts one line below what a person looks for.
            self.lines[inner] = self.line_of(key_node)
            found[key] = self.build(value_node, inner, as_text or (not name and key in self.text_under))
        return found

    def _scalar(self, node: ScalarNode, name: str) -> Any:
        text = str(node.value)
        # Without implicit resolvers a plain scalar gets the tag of text, like a quoted one; its style tells.
        if node.tag == f"{_TAG}str":
            return text if node.style else _plain(text)
        if node.tag in (f"{_TAG}int", f"{_TAG}float", f"{_TAG}bool", f"{_TAG}null"):
            return _plain(text)
        self.fault(node, name, f"found the tag {node.tag!r}; expected text, a number, true, false or null")
        return None


def _plain(text: str) -> Any:
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.match(text):
        return int(text)
    if _FLOAT.match(text) and any(c.isdigit() for c in text):
        return float(text)
    return text


def _compose(text: str, path: str, first_line: int) -> Node | None:
    try:
        return _Composer(text).get_single_node()
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        detail = ", ".join(part for part in (fault.context, fault.problem) if part)
        line = mark.line + first_line if mark else first_line
        raise InputError.at(path, f"not valid YAML: {detail}", line=line, code="yaml-syntax") from fault
    except yaml.reader.ReaderError as fault:
        line = text.count("\n", 0, fault.position) + first_line
        message = f"not valid YAML: found the control character U+{ord(text[fault.position]):04X}"
        raise InputError.at(path, message, line=line, code="yaml-syntax") from fault
    except RecursionError as fault:
        message = "not valid YAML: lists or mappings are nested too deeply"
        raise InputError.at(path, message, line=first_line, code="yaml-syntax") from fault


def parse_yaml(text: str, path: str, *, first_line: int = 1, text_under: Collection[str] = ()) -> YamlSource:
    """Parse one YAML document.

    Args:
        text: the document, newlines already ``\\n``.
        path: the file's name, for problems.
        first_line: the line of the file on which ``text`` starts.
        text_under: top-level fields whose scalars stay text exactly as written (``1.10`` stays "1.10").

    Raises:
        InputError: the text is not YAML, or uses what this subset leaves out.
    """
    node = _compose(text, path, first_line)
    builder = _Builder(path, first_line, text_under)
    value = None if node is None else builder.build(node, "")
    if builder.problems:
        raise InputError(builder.problems)
    return YamlSource(path=path, value=value, lines=builder.lines, duplicates=tuple(builder.duplicates))


def dump_yaml(value: Any) -> str:
    """Block-style YAML that `parse_yaml` reads back as ``value`` (JSON values; mapping order is kept)."""
    # width: a folded line would be the same value, but a worse diff.
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000, default_flow_style=False)


# -------------------------------------------------------------------------------- text and front matter


def read_text(path: Path, shown: str) -> str:
    """A file's text: UTF-8, a byte-order mark dropped, newlines as ``\\n``.

    Raises:
        InputError: the file cannot be read or is not UTF-8.
    """
    try:
        data = path.read_bytes()
    except OSError as fault:
        raise InputError.at(shown, f"cannot be read: {fault.strerror}", code="file-unreadable") from fault
    try:
        return normal_newlines(data.decode("utf-8-sig"))
    except UnicodeDecodeError as fault:
        line = data[: fault.start].count(b"\n") + 1
        message = f"found byte 0x{data[fault.start]:02x}, which is not UTF-8; expected UTF-8 text"
        raise InputError.at(shown, message, line=line, code="file-encoding") from fault


def normal_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    yaml: str | None
    """Text between the fences; None where the file has none."""
    first_line: int
    """Line on which ``yaml`` starts."""
    body: str
    """Text after the closing fence, without the one blank line after it and the file's last newline."""
    body_line: int
    """Line on which ``body`` starts."""
    closed: bool = True
    """False where the opening fence has no closing one."""


def split_front_matter(text: str) -> FrontMatter:
    lines = text.split("\n")
    start = next((i for i, line in enumerate(lines) if line.strip()), 0)
    if lines[start].rstrip() != "---":
        return FrontMatter(None, 1, _without_last_newline(text), 1)
    for end in range(start + 1, len(lines)):
        if lines[end].rstrip() == "---":
            rest = lines[end + 1 :]
            blank = len(rest) > 1 and not rest[0]
            body = "\n".join(rest[1:] if blank else rest)
            # With its last newline: it is part of a block scalar that stands last.
            front = "".join(f"{line}\n" for line in lines[start + 1 : end])
            return FrontMatter(front, start + 2, _without_last_newline(body), end + 2 + blank)
    return FrontMatter("\n".join(lines[start + 1 :]), start + 2, "", len(lines), closed=False)


def join_front_matter(front: Mapping[str, Any], body: str) -> str:
    """The inverse of `split_front_matter` for a body of any shape."""
    return f"---\n{dump_yaml(dict(front)) if front else ''}---\n\n{body}\n"


def _without_last_newline(text: str) -> str:
    return text[:-1] if text.endswith("\n") else text


# ---------------------------------------------------------------------------------------- messages


def shown_value(value: Any) -> str:
    """A value as a message shows it: JSON, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def closest(name: str, known: Collection[str]) -> str:
    """`` (did you mean 'x'?)`` for a slip of the pen, else nothing."""
    hit = process.extractOne(name, list(known), scorer=fuzz.ratio, score_cutoff=60)
    return f" (did you mean {hit[0]!r}?)" if hit else ""


def one_of(known: Collection[str]) -> str:
    return "one of " + ", ".join(sorted(known)) if known else "none (there are none)"


def field_name(location: tuple[int | str, ...]) -> str:
    """``("servers", 0, "url")`` -> ``servers[0].url``."""
    name = ""
    for part in location:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return name


Location = tuple[int | str, ...]


def validation_problems(
    fault: ValidationError,
    source: YamlSource,
    *,
    known: Collection[str] = (),
    relocate: Callable[[Location], Location] = lambda location: location,
) -> list[Problem]:
    """A pydantic error as one `Problem` a fault, each on its own line of the file.

    Args:
        known: the fields that stand at the top of the file, for unknown ones.
        relocate: from a place in the model to the place in the file, where a file is written in a short form.
    """
    return [_validation_problem(error, source, known, relocate) for error in fault.errors(include_url=False)]


def _validation_problem(
    error: ErrorDetails, source: YamlSource, known: Collection[str], relocate: Callable[[Location], Location]
) -> Problem:
    location = relocate(error["loc"])
    match error["type"]:
        case "missing":
            message, code = "found nothing; expected this field", "field-missing"
        case "extra_forbidden":
            top = len(location) == 1
            hint = f"{closest(str(location[-1]), known)}; expected {one_of(known)}" if top else ""
            message, code = f"found an unknown field{hint}", "field-unknown"
        case _:
            message = f"found {shown_value(error['input'])}; expected: {error['msg']}"
            code = "field-invalid"
    return source.problem(message, field=field_name(location), code=code)
