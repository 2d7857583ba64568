"""Plain JSON chat: one object a line (or one array) with the columns of ``plain.py``.

The format for a chat of your own. Objects within objects are reached by a dotted header ("author.name").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from livery.room.sources.json_rows import array_or_lines
from livery.room.sources.plain import columns, plain_event
from livery.room.sources.reading import ChatFormat, Ledger, NotChat, Row, RowFault, Sample, as_object
from livery.types import ChatEvent

NAME = "jsonl"


def _flat(item: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in item.items():
        if isinstance(value, dict):
            for inner, inner_value in cast(dict[str, Any], value).items():
                flat[f"{key}.{inner}"] = inner_value
        else:
            flat[key] = value
    return flat


def _matches(sample: Sample) -> bool:
    return any("text" in columns(_flat(row)) for row in sample.objects)


def _events(row: Row, ledger: Ledger) -> Sequence[ChatEvent] | NotChat:
    flat = _flat(as_object(row.value))
    found = columns(flat)
    if "text" not in found and "kind" not in found:
        keys = ", ".join(list(flat)[:8]) or "none"
        raise RowFault(f"found the keys {keys}; expected text", field="text")
    values = {column: flat[header] for column, header in found.items()}
    return (plain_event(values, NAME, row, ledger),)


FORMAT = ChatFormat(
    name=NAME,
    title='plain JSON lines ({"viewer": ..., "text": ..., "at": ...} on each line)',
    matches=_matches,
    rows=array_or_lines,
    events=_events,
)
read = FORMAT.read
