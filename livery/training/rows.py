"""The rows of a built data set, as files: one Parquet file and its data card.

``train.parquet`` holds one conversation a row: its ids and loss mask under one tokenizer, its messages (so
that it can be tokenised anew for another), and where it came from. ``card.json`` says what the set is made
of. The builder is `livery.training.data`, the reader of ids `livery.training.sft`. Needs pyarrow.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from livery.errors import InputError, Problem
from livery.policies.policy import PromptMessage
from livery.training.conversations import Encoder, TokenRow, message_from_json, message_to_json, token_row

ROWS: Final = "train.parquet"
CARD: Final = "card.json"
SCHEMA: Final = "livery.rows/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRow:
    id: str
    group: str
    """Release of the harness it was run under: rows of one group share their prompt."""
    tokens: TokenRow
    messages: tuple[PromptMessage, ...]
    fields: Mapping[str, Any]
    """Task, harness, variant, seed, scores, teacher, whether it was cut: for tables and for people."""


def write_rows(path: Path, rows: Iterable[DataRow]) -> str:
    """Write the Parquet file, whole or not at all. Returns its SHA-256."""
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    held = list(rows)
    table = arrow.table(
        {
            "id": [r.id for r in held],
            "group": [r.group for r in held],
            "input_ids": arrow.array([list(r.tokens.ids) for r in held], arrow.list_(arrow.int32())),
            "written": arrow.array([list(r.tokens.written) for r in held], arrow.list_(arrow.bool_())),
            "messages": [json.dumps([message_to_json(m) for m in r.messages], ensure_ascii=False) for r in held],
            "fields": [json.dumps(dict(r.fields), ensure_ascii=False, sort_keys=True) for r in held],
        }
    ).replace_schema_metadata({"schema": SCHEMA})
    part = path.with_suffix(".part")
    parquet.write_table(table, part, compression="zstd")
    part.replace(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_rows(folder: Path) -> list[DataRow]:
    """
    Args:
        folder: as `livery data build` left it, or the Parquet file itself.

    Raises:
        InputError: no such file, another schema, or rows whose mask does not fit their ids (each is named).
    """
    path = folder / ROWS if folder.is_dir() else folder
    if not path.is_file():
        raise InputError.at(path, "no such file; expected what `livery data build` writes", code="rows-missing")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    arrow: Any = importlib.import_module("pyarrow")
    try:
        table = parquet.read_table(path)
    except arrow.ArrowInvalid as error:
        raise InputError.at(path, f"not a Parquet file ({error})", code="rows-format") from error
    metadata: dict[bytes, bytes] = table.schema.metadata or {}
    found = metadata.get(b"schema", b"").decode()
    if found != SCHEMA:
        raise InputError.at(path, f"found schema {found!r}; expected {SCHEMA!r}", field="schema", code="rows-schema")
    rows: list[DataRow] = []
    problems: list[Problem] = []
    for number, raw in enumerate(table.to_pylist(), start=1):
        if len(raw["input_ids"]) != len(raw["written"]) or not any(raw["written"]):
            problems.append(
                Problem(
                    path=str(path),
                    line=number,
                    field="written",
                    message=f"row {raw['id']!r}: {len(raw['input_ids'])} ids, a mask of "
                    f"{len(raw['written'])}, {sum(raw['written'])} written; expected equal and some",
                    code="rows-mask",
                )
            )
            continue
        rows.append(
            DataRow(
                id=raw["id"],
                group=raw["group"],
                tokens=TokenRow(ids=tuple(raw["input_ids"]), written=tuple(raw["written"])),
                messages=tuple(message_from_json(m) for m in json.loads(raw["messages"])),
                fields=json.loads(raw["fields"]),
            )
        )
    if problems or not rows:
        raise InputError(problems or Problem(path=str(path), message="no rows", code="rows-empty"))
    return rows


def read_card(folder: Path) -> dict[str, Any]:
    """The data card beside the rows; empty where there is none."""
    path = (folder if folder.is_dir() else folder.parent) / CARD
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


class KnownEncoder(Encoder, Protocol):
    """An encoder that data cards name by its digest."""

    @property
    def digest(self) -> str: ...


def read_rows_for(folder: Path, encoder: KnownEncoder, say: Callable[[str], None]) -> list[DataRow]:
    """The rows, tokenised anew where their card names another tokenizer, which is said.

    Raises:
        InputError: as `read_rows` and `tokenised_anew`.
    """
    rows = read_rows(folder)
    made_with = read_card(folder).get("tokenizer", {}).get("digest", "")
    if made_with == encoder.digest:
        return rows
    say(
        f"{folder.name}: made with tokenizer {made_with or 'unknown'}, the model's is {encoder.digest}: tokenising anew"
    )
    return tokenised_anew(rows, encoder)


def first_turn(row: DataRow) -> DataRow:
    """The row up to the end of what the policy wrote first: a request and which calls it needs. It costs a small model
    a third of the whole conversation, and holds the choice that is hardest to learn.

    Returns:
        the row itself where the policy wrote once.
    """
    written = row.tokens.written
    start = written.index(True)
    stop = next((i for i in range(start, len(written)) if not written[i]), len(written))
    if stop == len(written):
        return row
    turn = next(i for i, m in enumerate(row.messages) if m.role == "assistant") + 1
    return replace(
        row,
        tokens=TokenRow(ids=row.tokens.ids[:stop], written=written[:stop]),
        messages=row.messages[:turn],
        fields={**row.fields, "first_turn": True},
    )


def tokenised_anew(rows: Sequence[DataRow], encoder: Encoder) -> list[DataRow]:
    """The rows under another tokenizer.

    Raises:
        InputError: rows whose two renderings differ, each by name.
    """
    out: list[DataRow] = []
    problems: list[Problem] = []
    for row in rows:
        try:
            tokens = token_row(row.messages, encoder, name=row.id)
        except InputError as error:
            problems += error.problems
            continue
        out.append(DataRow(id=row.id, group=row.group, tokens=tokens, messages=row.messages, fields=row.fields))
    if problems:
        raise InputError(problems)
    return out
