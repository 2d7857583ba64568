"""What changed between two harnesses: by component, field by field; as data, terminal text and HTML.

Components are matched by key, so a renamed skill shows as a changed name and not as one gone and one come.
Fields are compared as the text a person edits: prose line by line, structured values as YAML.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from pydantic import BaseModel
from rich.text import Text

from livery.harness.digest import COMPONENTS, SETTINGS, component_key, harness_digest
from livery.harness.model import Harness
from livery.harness.source import dump_yaml

Kind = Literal["added", "removed", "changed", "moved"]


@dataclass(frozen=True, slots=True)
class FieldDiff:
    field: str
    """``description``, ``input_schema``, ``files/references/faq.md``, ``limits``, ..."""
    lines: tuple[str, ...]
    """A unified diff without file headers: hunk marks (``@@``), then lines starting with a space, + or -."""


@dataclass(frozen=True, slots=True)
class ComponentDiff:
    component: str
    """``skills/item-qa``, ``settings``."""
    kind: Kind
    """``moved``: only its place in the order changed."""
    fields: tuple[FieldDiff, ...] = ()
    """Of an added or removed component all that is not at its default."""
    place: tuple[int, int] | None = None
    """(old, new) 0-based place in the order among the components that both have, where that changed."""


@dataclass(frozen=True, slots=True)
class HarnessDiff:
    old: str
    """Digest of the release compared from."""
    new: str
    components: tuple[ComponentDiff, ...]

    @property
    def empty(self) -> bool:
        return not self.components

    def of(self, kind: Kind) -> tuple[str, ...]:
        """Names of the components with this kind of change."""
        return tuple(c.component for c in self.components if c.kind == kind)

    def as_json(self) -> dict[str, Any]:
        return {
            "old": self.old,
            "new": self.new,
            "components": [
                {
                    "component": c.component,
                    "kind": c.kind,
                    "place": list(c.place) if c.place else None,
                    "fields": [{"field": f.field, "lines": list(f.lines)} for f in c.fields],
                }
                for c in self.components
            ],
        }


def diff_harnesses(old: Harness, new: Harness, *, context: int = 3) -> HarnessDiff:
    """The changes from ``old`` to ``new``, settings first, then in the order of the new harness.

    Args:
        context: unchanged lines around each change.
    """
    found = [*_changed(SETTINGS, _settings(old), _settings(new), context)]
    for field, folder in COMPONENTS.items():
        found.extend(_diff_kind(folder, getattr(old, field), getattr(new, field), context))
    return HarnessDiff(harness_digest(old), harness_digest(new), tuple(found))


def _diff_kind(
    folder: str, old: Sequence[BaseModel], new: Sequence[BaseModel], context: int
) -> Iterator[ComponentDiff]:
    before = {component_key(c): c for c in old}
    after = {component_key(c): c for c in new}
    kept_before = [k for k in before if k in after]
    kept_after = [k for k in after if k in before]
    moved = _moved(kept_before, kept_after)
    for key, component in after.items():
        name = f"{folder}/{key}"
        if key not in before:
            yield ComponentDiff(name, "added", tuple(_field_diffs({}, _fields(component), context)))
            continue
        place = (kept_before.index(key), kept_after.index(key)) if key in moved else None
        changed = tuple(_field_diffs(_fields(before[key]), _fields(component), context))
        if changed or place:
            yield ComponentDiff(name, "changed" if changed else "moved", changed, place)
    for key, component in before.items():
        if key not in after:
            yield ComponentDiff(f"{folder}/{key}", "removed", tuple(_field_diffs(_fields(component), {}, context)))


def _moved(before: list[str], after: list[str]) -> set[str]:
    """The fewest components whose moving explains the new order."""
    blocks = difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_matching_blocks()
    still = {before[b.a + i] for b in blocks for i in range(b.size)}
    return set(before) - still


def _changed(name: str, old: dict[str, str], new: dict[str, str], context: int) -> Iterator[ComponentDiff]:
    fields = tuple(_field_diffs(old, new, context))
    if fields:
        yield ComponentDiff(name, "changed", fields)


def _settings(harness: Harness) -> dict[str, str]:
    return _texts(harness.model_dump(mode="json", exclude_defaults=True, exclude=set(COMPONENTS)))


def _fields(component: BaseModel) -> dict[str, str]:
    values = component.model_dump(mode="json", exclude_defaults=True, exclude={"key"})
    files = values.pop("files", [])
    return _texts(values) | {f"files/{f['path']}": f["content"] for f in files}


def _texts(values: dict[str, Any]) -> dict[str, str]:
    return {k: v if isinstance(v, str) else _text(v, ordered=k == "input_schema") for k, v in values.items()}


def _text(value: Any, *, ordered: bool) -> str:
    if isinstance(value, (dict, list)):
        return dump_yaml(value if ordered else _sorted(value)).removesuffix("\n")
    return json.dumps(value)


def _sorted(value: Any) -> Any:
    """With mapping keys sorted: their order is no content outside a tool's schema, so it is no change."""
    if isinstance(value, dict):
        items = sorted(dict[str, Any](value).items())  # pyright: ignore[reportUnknownArgumentType]
        return {k: _sorted(v) for k, v in items}
    if isinstance(value, list):
        return [_sorted(v) for v in list[Any](value)]  # pyright: ignore[reportUnknownArgumentType]
    return value


def _field_diffs(old: dict[str, str], new: dict[str, str], context: int) -> Iterator[FieldDiff]:
    for name in dict.fromkeys([*new, *old]):
        before, after = old.get(name, ""), new.get(name, "")
        if before == after and (name in old) == (name in new):
            continue
        lines = difflib.unified_diff(_lines(before), _lines(after), lineterm="", n=context)
        yield FieldDiff(name, tuple(lines)[2:])


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


# ---------------------------------------------------------------------------------------- for people

_MARK = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}
_STYLE = {"added": "green", "removed": "red", "changed": "yellow", "moved": "cyan"}
_LINE_STYLE = {"+": "green", "-": "red", "@": "cyan"}


def text_diff(diff: HarnessDiff) -> Text:
    """For a terminal; ``.plain`` is the same without colours."""
    if diff.empty:
        return Text("no difference")
    out = Text()
    for c in diff.components:
        place = f" (place {c.place[0] + 1} -> {c.place[1] + 1})" if c.place else ""
        out.append(f"{_MARK[c.kind]} {c.component}: {c.kind}{place}\n", style=f"bold {_STYLE[c.kind]}")
        for field in c.fields:
            out.append(f"    {field.field}\n", style="bold")
            for line in field.lines:
                out.append(f"      {line}\n", style=_LINE_STYLE.get(line[:1], ""))
    out.rstrip()
    return out


def html_diff(diff: HarnessDiff) -> str:
    """An HTML fragment with everything from the harnesses escaped; classes are the page's to style."""
    if diff.empty:
        return '<p class="diff-empty">no difference</p>'
    parts: list[str] = []
    for c in diff.components:
        place = f" <small>{c.place[0] + 1} → {c.place[1] + 1}</small>" if c.place else ""
        parts.append(f'<section class="diff diff-{c.kind}"><h4>{escape(c.component)} <b>{c.kind}</b>{place}</h4>')
        for field in c.fields:
            rows = "\n".join(f'<span class="{_line_class(line)}">{escape(line)}</span>' for line in field.lines)
            parts.append(f"<h5>{escape(field.field)}</h5><pre>{rows}</pre>")
        parts.append("</section>")
    return "".join(parts)


def _line_class(line: str) -> str:
    return {"+": "diff-ins", "-": "diff-del", "@": "diff-hunk"}.get(line[:1], "diff-same")
