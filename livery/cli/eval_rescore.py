"""``livery eval rescore``: runs that were scored by rules of before, scored by today's.

Everything heavy is imported inside the command, so that other commands start quickly.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from livery.errors import InputError

if TYPE_CHECKING:
    from livery.evaluation.rescore import Rescored
    from livery.harness.model import Harness

_notices = Console(stderr=True, highlight=False)
_screen = Console(highlight=False)
_HARNESSES = Path("harnesses")
_IFEVAL = "livery.ifeval-run/"


def rescore(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, or of the lab's evaluations (`eval-*`).")],
    harness: Annotated[
        Path | None, typer.Option(help="Base harness folder; left out: the one in harnesses/ that each run names.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
) -> None:
    """Score kept trajectories by today's verifier and write results and report again; the old results stay beside.

    Nothing is played. Runs of IFEval are passed over: the verifier does not judge them. The last line is JSON.
    """
    from rich.progress import Progress

    from livery.evaluation.rescore import rescore as scored_anew
    from livery.evaluation.run import RUN
    from livery.simulator.verifier_version import verifier_version
    from livery.training import lab_evals

    folders = [f if (f / RUN).is_file() or not (f / "run" / RUN).is_file() else f / "run" for f in runs]
    passed_over = [f for f in folders if _is_ifeval(f / RUN)]
    judged = [f for f in folders if f not in passed_over]
    bases = {folder: _base(folder, harness) for folder in judged}
    found: list[tuple[Rescored, bool]] = []
    with Progress(console=_notices) as bar:
        for folder in judged:
            shown = bar.add_task(str(folder), total=None)
            with lab_evals.held(folder) as step:
                one = scored_anew(folder, bases[folder], write=not dry_run, progress=lambda t=shown: bar.advance(t))
                told = step is not None and not dry_run and lab_evals.told(step, one.results)
            bar.update(shown, total=len(one.results), completed=len(one.results))
            found.append((one, told))
    _screen.print(_changes([one for one, _ in found]))
    for folder in passed_over:
        _notices.print(f"passed over: {folder} (IFEval)", markup=False)
    labs = sorted({str(one.folder.resolve().parents[1]) for one, told in found if told})
    for lab in labs:
        _notices.print(f"`livery lab table {lab}` shows the new scores; the lab's next run writes its table again")
    data: dict[str, Any] = {
        "verifier": verifier_version(),
        "runs": [{**one.to_json(), "lab": told} for one, told in found],
        "tasks": sum(len(one.results) for one, _ in found),
        "changed": sum(one.changed["any"] for one, _ in found),
        "passed_over": [str(f) for f in passed_over],
        "written": not dry_run,
    }
    print(json.dumps(data, ensure_ascii=False))


def _is_ifeval(path: Path) -> bool:
    try:
        return f'"{_IFEVAL}' in path.read_text(encoding="utf-8")
    except OSError:
        return False  # named by what reads it next


def _base(folder: Path, given: Path | None) -> Harness:
    from livery.cli.harnesses import load_checked
    from livery.evaluation.run import RUN, read_run

    named = str(read_run(folder).get("harness", ""))
    place = given or _HARNESSES / named
    if not place.is_dir():
        message = f"was played over the harness {named!r}, and {place} is not there; expected its folder with --harness"
        raise InputError.at(folder / RUN, message, field="harness", code="rescore-harness")
    return load_checked(place)


def _changes(found: list[Rescored]) -> Table:
    columns = ("run", "set", "tasks", "changed", "accuracy", "effectiveness", "tools", "skill", "AVG before", "now")
    table = Table(*columns, title="Scored anew: tasks that score otherwise", title_justify="left")
    for one in found:
        counts = [str(n) for n in one.changed.values()]
        numbers = f"{one.avg[0]:.1f}", f"{one.avg[1]:.1f}"
        folder = one.folder.parent.name if one.folder.name == "run" else one.folder.name
        table.add_row(folder, one.suite, str(len(one.results)), counts[-1], *counts[:-1], *numbers)
    return table
