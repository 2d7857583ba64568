"""The table for people: Markdown for a README, HTML that stands alone. Nothing is counted here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from livery.evaluation.statistics import DRAWS
from livery.evaluation.table import SECONDS, TOKENS, Comparative, Figure, Row

SCORES: Final[Mapping[str, str]] = {
    "t1": "T1",
    "t2": "T2",
    "kept": "T2 of T1, %",
    "t3": "T3",
    "t3_worst": "T3, worst format",
    "t3_spread": "T3, spread over formats",
    "t4_prompt": "T4 prompt, strict",
    "t4_instruction": "T4 instruction, strict",
    "edits": "Edits: errors gone, %",
}
_SECONDS: Final = {"seconds_p50": "Seconds, median", "seconds_p95": "Seconds, P95"}
_NONE: Final = "–"


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the table: a heading, and cells as text."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def blocks(table: Comparative) -> list[Block]:
    """The table's parts; columns that no row has are left out."""
    found: list[Block] = []
    languages = tuple(dict.fromkeys(r.language for r in table.rows))
    for language in languages:
        rows = [r for r in table.rows if r.language == language]
        more = f" ({language})" if len(languages) > 1 else ""
        found += [
            *_block(f"Scores{more}", rows, lambda r: r.scores, SCORES),
            *_block(f"Effectiveness alone{more}", rows, lambda r: r.effectiveness, SCORES),
            *_block(f"T2 by dimension{more}", rows, lambda r: r.dimensions, _dimensions(rows)),
            *_costs(f"What a request takes{more}", rows),
        ]
    return found


def _dimensions(rows: Sequence[Row]) -> dict[str, str]:
    names = sorted({name for row in rows for name in row.dimensions})
    return {n: n.removeprefix("t2-").replace("-", " ").replace(" kept", ", of T1, %") for n in names}


def _block(
    title: str, rows: Sequence[Row], of: Callable[[Row], Mapping[str, Figure]], columns: Mapping[str, str]
) -> list[Block]:
    used = [c for c in columns if any(c in of(r) for r in rows)]
    if not used:
        return []
    cells = [(r.label, *(_cell(of(r).get(c)) for c in used)) for r in rows if of(r)]
    return [Block(title, ("policy", *(columns[c] for c in used)), tuple(cells))]


def _costs(title: str, rows: Sequence[Row]) -> list[Block]:
    cells: list[tuple[str, ...]] = []
    for row in rows:
        for one in row.costs:
            mark = "" if one.alone else " †"
            tokens = (_cell(one.tokens.get(name)) for name in TOKENS)
            seconds = (_cell(one.seconds.get(name), digits=2, mark=mark) for name in SECONDS)
            cells.append((row.label, one.suite, *tokens, *seconds))
    head = ("policy", "set", *TOKENS.values(), *_SECONDS.values())
    return [Block(title, head, tuple(cells))] if cells else []


def _cell(figure: Figure | None, *, digits: int = 1, mark: str = "") -> str:
    if figure is None:
        return _NONE
    text = f"{figure.value:.{digits}f}{mark}"
    if figure.low is not None and figure.high is not None:
        text += f" ({figure.low:.{digits}f} to {figure.high:.{digits}f})"
    return f"{text} {figure.name}" if figure.name else text


def notes(table: Comparative) -> list[str]:
    """What stands under the table."""
    reading = (
        f"Points of 100; in parentheses 95 % intervals (bootstrap over tasks, {DRAWS:,} draws). T1, T2 and T3: AVG, "
        "the mean of accuracy and effectiveness; silence earns about half of it."
    )
    return [reading, *table.notes]


def markdown(table: Comparative) -> str:
    """The whole table."""
    parts: list[str] = []
    for block in blocks(table):
        lines = [f"**{block.title}**", "", _line(block.head), _line(["---", *["--:"] * (len(block.head) - 1)])]
        parts.append("\n".join([*lines, *(_line(row) for row in block.rows)]))
    parts.append("\n".join(f"- {note}" for note in notes(table)))
    return "\n\n".join(parts) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(c.replace("|", "\\|").replace("\n", " ") for c in cells) + " |"


def html(table: Comparative) -> str:
    """A page of its own: no script, nothing from elsewhere."""
    body: list[str] = []
    for block in blocks(table):
        head = "".join(f'<th scope="col">{escape(c)}</th>' for c in block.head)
        rows = "".join(
            "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag[:2]}>" for tag, c in _tagged(row)) + "</tr>\n"
            for row in block.rows
        )
        caption = f"<h2>{escape(block.title)}</h2>"
        body.append(f"{caption}\n<table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table>")
    body.append("<ul>" + "".join(f"<li>{escape(note)}</li>" for note in notes(table)) + "</ul>")
    return _PAGE.replace("BODY", "\n".join(body))


def _tagged(row: Sequence[str]) -> list[tuple[str, str]]:
    return [('th scope="row"', row[0]), *(("td", cell) for cell in row[1:])]


_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>livery: evaluation</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem; padding: 0 1rem }
:root { color-scheme: light dark }
table { border-collapse: collapse; display: block; overflow-x: auto; font-variant-numeric: tabular-nums }
th, td { padding: .35rem .7rem; border-bottom: 1px solid #8884; text-align: right; vertical-align: top }
th:first-child { text-align: left; overflow-wrap: anywhere }
</style></head>
<body><h1>Evaluation</h1>
BODY
</body></html>
"""
