"""``livery eval edits`` and ``livery eval edits-check``: the set Harness edits, read and proved.

Everything heavy is imported inside the commands, so that other commands start quickly.
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from livery.errors import InputError

if TYPE_CHECKING:
    from livery.evaluation.edits_reduction import Reductions

_notices = Console(stderr=True, highlight=False)
_screen = Console(highlight=False)
_SET = "edits"
_MAY_DIFFER = ("suite", "livery", "rescored")


def edits(
    old: Annotated[Path, typer.Argument(help="Folder of a run of edits-old.")],
    new: Annotated[Path, typer.Argument(help="Folder of the same policy's run of edits-new.")],
    out: Annotated[Path | None, typer.Option(help="File for the figures as JSON.")] = None,
) -> None:
    """Error reduction between the old and the edited harness, by kind of edit. The last line is JSON."""
    from livery.evaluation.edits_reduction import error_reduction
    from livery.evaluation.results import read_results
    from livery.evaluation.run import read_run

    recipes = read_run(old), read_run(new)
    for folder, recipe, side in zip((old, new), recipes, ("old", "new"), strict=True):
        suite = str(recipe.get("suite"))
        if not suite.startswith(_SET) or not suite.endswith(side):
            message = f"found the set {suite!r}; expected edits-{side}, or edits-zh-{side}"
            raise InputError.at(folder, message, field="suite", code="not-edits")
    before, after = recipes
    fields = dict.fromkeys((*before, *after))
    differing = [k for k in fields if k not in _MAY_DIFFER and before.get(k) != after.get(k)]
    if differing:
        field = differing[0]
        expected = "one verifier: `livery eval rescore` both" if field == "verifier" else "one policy over one base"
        message = f"found {after.get(field)!r}, where {old} has {before.get(field)!r}; expected {expected}"
        raise InputError.at(new, message, field=field, code="other-run")
    found = error_reduction(read_results(old), read_results(new))
    data = {
        "schema": "livery.edits/1",
        "policy": after["policy"],
        "weights": after["weights"],
        "base": after["base"],
        **found.to_json(),
    }
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
    _screen.print(_reductions(found, f"{after['policy']}: {found.whole.n} tasks"))
    print(json.dumps(data, ensure_ascii=False))


def edits_check(
    harness: Annotated[Path, typer.Argument(help="Base harness folder.")] = Path("harnesses/streamer-en"),
    limit: Annotated[int, typer.Option(min=0, help="Only the first so many tasks; 0: all 500.")] = 0,
    seed: Annotated[int, typer.Option(help="Of the oracles' choices.")] = 0,
    out: Annotated[Path | None, typer.Option(help="File for the figures as JSON.")] = None,
) -> None:
    """Prove that every edit can be followed and is not followed by chance: an oracle that follows the edit, and one
    that does not, play every case. The last line is JSON; exit 1 where a case cannot be answered."""
    from rich.progress import Progress

    from livery.cli.harnesses import load_checked
    from livery.evaluation.edits import SIZE, edit_tasks
    from livery.evaluation.edits_oracle import prove
    from livery.evaluation.suites import suite_named

    base = load_checked(harness)
    language = "zh" if base.language.lower().startswith("zh") else "en"
    suite_named("edits-old" if language == "en" else "edits-zh-old").fits(base)
    began = time.perf_counter()
    tasks = edit_tasks(language, min(limit or SIZE, SIZE))
    with Progress(console=_notices) as bar:
        shown = bar.add_task("cases", total=len(tasks))
        proof = asyncio.run(prove(tasks, base, seed=seed, progress=lambda: bar.advance(shown)))
    table = Table("kind", "cases", "follows the edit", "ignores it, old", "ignores it, new")
    for one in (*proof.kinds, proof.whole):
        table.add_row(one.kind, str(one.cases), str(one.edited), str(one.plain_old), str(one.plain_new))
    _screen.print(table)
    for task, edit, reasons in proof.failed:
        _notices.print(f"{task} {edit}: {'; '.join(reasons)}", markup=False)
    data: dict[str, Any] = {
        "harness": base.name,
        **proof.to_json(),
        "seconds": round(time.perf_counter() - began, 2),
    }
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
    print(json.dumps(data, ensure_ascii=False))
    if proof.failed:
        raise typer.Exit(1)


def _reductions(found: Reductions, title: str) -> Table:
    columns = ("kind", "tasks", "errors old", "errors new", "error reduction", "95 % interval", "repaired", "broken")
    table = Table(*columns, title=title, title_justify="left")
    for one in (*found.kinds, found.whole):
        less = one.reduction
        said = (f"{less.value:.1f} %", f"{less.low:.1f} to {less.high:.1f}") if less else ("–", "–")
        errors = f"{one.old.value:.1f} %", f"{one.new.value:.1f} %"
        table.add_row(one.kind, str(one.n), *errors, *said, str(one.repaired), str(one.broken))
    return table
