"""``livery eval``: play the frozen sets with any policy, compare runs, and see that the sets are what they were.

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

from livery.cli import eval_edits, eval_more, eval_rescore
from livery.errors import InputError

if TYPE_CHECKING:
    from livery.evaluation.statistics import Comparison, Summary
    from livery.harness.model import Harness
    from livery.simulator.worlds import Language

app = typer.Typer(
    help="Evaluation: the sets T1 and T2 under any policy, with intervals.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

app.command()(eval_more.ifeval)
app.command()(eval_more.table)
app.command()(eval_edits.edits)
app.command()(eval_edits.edits_check)
app.command()(eval_rescore.rescore)

_notices = Console(stderr=True, highlight=False)
_screen = Console(highlight=False)
_SAMPLES = {"en": Path("harnesses/streamer-en"), "zh": Path("harnesses/streamer-zh")}


@app.command()
def run(
    suite: Annotated[str, typer.Argument(help="A set: t1, t2, t2-tool-schemas, t1-zh, ... (`livery eval suites`).")],
    policy: Annotated[str, typer.Option(help="`oracle`, `scripted:host`, or any policy URI.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; one that was begun goes on.")],
    harness: Annotated[
        Path | None, typer.Option(help="Base harness folder; left out: the sample harness of the set's language.")
    ] = None,
    lora: Annotated[list[Path] | None, typer.Option(help="Adapter for llamacpp: and hf:; may be repeated.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Only the first so many tasks, over all worlds; 0: all.")] = 0,
    concurrency: Annotated[
        int, typer.Option(min=0, help="Requests at a time; 0: 8 for openai:, 16 for hf:, else 1.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="Policies that sample do so by it and the task's id.")] = 0,
    patience: Annotated[float, typer.Option(min=1, help="Seconds that a request may take.")] = 120.0,
) -> None:
    """Play a set and write report.html, report.json, results.jsonl and trajectories.jsonl.

    Start it again to go on after a kill, or with a longer --limit. The last line is JSON.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from livery.cli.harnesses import load_checked
    from livery.evaluation import run as runs
    from livery.evaluation.report import write_report
    from livery.evaluation.results import Result
    from livery.evaluation.robustness_figures import robustness
    from livery.evaluation.statistics import summarise
    from livery.evaluation.suites import suite_named

    chosen = suite_named(suite)
    base = load_checked(harness or _SAMPLES[chosen.language])
    chosen.fits(base)
    opened = runs.open_any(policy, tuple(lora or ()), language=base.language)
    recipe = runs.recipe_of(chosen, base, opened, seed=seed, patience_s=patience)
    began = time.perf_counter()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("AVG {task.fields[avg]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=_notices) as bar:
        total = min(limit or chosen.size, chosen.size)
        shown = bar.add_task(f"{chosen.name} under {recipe.policy}", total=total, avg="–")
        earned: list[float] = []

        def done(result: Result) -> None:
            earned.append(50 * (result.scores.accuracy + result.scores.effectiveness))
            bar.update(shown, completed=len(earned), avg=f"{sum(earned) / len(earned):.1f}")

        async def play() -> runs.Ran:
            try:
                return await runs.evaluate(
                    recipe,
                    chosen,
                    base,
                    opened,
                    out,
                    limit=limit,
                    concurrency=concurrency or runs.side_by_side(policy),
                    progress=done,
                )
            finally:
                await opened.aclose()

        ran = asyncio.run(play())
    summary = summarise(ran.results)
    together = eval_more.concurrency_of(out, concurrency or runs.side_by_side(policy), ran.resumed)
    write_report(out, {**runs.read_run(out), "concurrency": together}, ran.results, summary, chosen.size)
    _screen.print(_scores(summary, f"{chosen.title}, {recipe.policy}, {summary.n} of {chosen.size} tasks"))
    if ran.unavailable:
        _notices.print(f"{ran.unavailable} tasks are open: nobody answered. Start it again to play them.")
    if ran.overflowed:
        _notices.print(
            f"{ran.overflowed} conversations did not fit the model's context, and count as they ended; "
            "where the harness's prompt is what fills it, give the policy more (ctx=)"
        )
    _notices.print(f"the report: {out / 'report.html'}")
    measured: dict[str, Any] = {
        "suite": chosen.name,
        "policy": recipe.policy,
        "tasks": summary.n,
        "of": chosen.size,
        **{m: e.to_json() for m, e in summary.measures.items()},
        **(robust.brief() if (robust := robustness(ran.results)) else {}),
        "routes": dict(summary.routes),
        "resumed": ran.resumed,
        "unavailable": ran.unavailable,
        "overflowed": ran.overflowed,
        "seconds": round(time.perf_counter() - began, 2),
    }
    print(json.dumps(measured, ensure_ascii=False))
    if ran.unavailable:
        raise typer.Exit(1)


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="Folder of a run.")],
    b: Annotated[Path, typer.Argument(help="Folder of another, over the same tasks.")],
    out: Annotated[Path | None, typer.Option(help="Folder for compare.html and compare.json.")] = None,
) -> None:
    """B against A on the tasks both have: differences with paired intervals. The last line is JSON."""
    from livery.evaluation.report import comparison_json, write_comparison
    from livery.evaluation.results import read_results
    from livery.evaluation.run import read_run
    from livery.evaluation.statistics import compare as compared_by

    recipes = read_run(a), read_run(b)
    if recipes[0]["tasks"] != recipes[1]["tasks"]:
        message = f"the tasks {recipes[1]['tasks'][:12]}; {a} was played over others, {recipes[0]['tasks'][:12]}"
        raise InputError.at(b, message, field="tasks", code="other-tasks")
    verifiers = [str(recipe.get("verifier", "")) for recipe in recipes]
    if verifiers[0] != verifiers[1]:
        says = [f"by the verifier {v}" if v else "before runs said by which verifier" for v in verifiers]
        message = f"was scored {says[1]}; {a} {says[0]}. `livery eval rescore` with both folders scores them by one"
        raise InputError.at(b, message, field="verifier", code="other-verifier")
    names = tuple(
        f"{folder.resolve().name} ({recipe['suite']})" for folder, recipe in zip((a, b), recipes, strict=True)
    )
    found = compared_by(read_results(a), read_results(b))
    _screen.print(_differences(found, names[0], names[1]))
    if out is not None:
        write_comparison(out, *recipes, found, names=(names[0], names[1]))
        _notices.print(f"the page: {out / 'compare.html'}")
    data = comparison_json(*recipes, found, names=(names[0], names[1]))
    del data["slices"]["tag"]  # the rest fits a line that can be read; the file has all
    print(json.dumps(data, ensure_ascii=False))


@app.command()
def suites(
    check: Annotated[
        bool,
        typer.Option("--check", help="Make every task and variant and hold them against what is pinned (a minute)."),
    ] = False,
    pin: Annotated[
        bool, typer.Option("--pin", help="Pin what is made now. Figures of before no longer compare.")
    ] = False,
) -> None:
    """List the sets; with --check, see that they are what they were. The last line is JSON."""
    from livery.evaluation import suites as sets

    if pin or check:
        bases = _sample_bases()
        began = time.perf_counter()
        with _notices.status("making the sets") as status:

            def done(name: str) -> None:
                status.update(f"made {name}")

            if pin:
                sets.pin(bases, done)
            found = sets.made(bases, sets.SIZE, done) if check else sets.pinned()["whole"]
        drifted = sets.drifts(found, sets.pinned().get("whole", {}))
        for one in drifted:
            _notices.print(str(one), markup=False)
        seconds = round(time.perf_counter() - began, 2)
        print(
            json.dumps(
                {"sets": len(sets.SUITES), "drifted": [d.what for d in drifted], "digests": found, "seconds": seconds}
            )
        )
        if drifted:
            raise typer.Exit(1)
        return
    table = Table("set", "what", "language", "tasks", "variants from")
    for one in sets.SUITES.values():
        whole = len(one.dimensions) > 1
        origin = "all dimensions" if whole else ", ".join(one.dimensions).replace("_", " ")
        origin = one.under or origin or "none: the base"
        table.add_row(one.name, one.title, one.language, str(one.size), origin)
    _screen.print(table)
    print(json.dumps({"sets": {s.name: s.size for s in sets.SUITES.values()}}))


def _sample_bases() -> dict[Language, Harness]:
    from livery.cli.harnesses import load_checked

    return {"en": load_checked(_SAMPLES["en"]), "zh": load_checked(_SAMPLES["zh"])}


def _scores(summary: Summary, title: str) -> Table:
    from livery.evaluation.report import TITLES

    table = Table("score", "points", "95 % interval", title=title, title_justify="left")
    for name, one in summary.measures.items():
        table.add_row(TITLES[name], f"{one.value:.1f}", f"{one.low:.1f} to {one.high:.1f}")
    return table


def _differences(found: Comparison, a: str, b: str) -> Table:
    from livery.evaluation.report import TITLES

    title = f"A {a}, B {b}: {found.n} tasks"
    table = Table("score", "A", "B", "B less A", "95 % interval", "B of A", title=title, title_justify="left")
    for name, one in found.differences.items():
        kept = f"{one.kept.value:.1f} %" if one.kept else "–"
        values = f"{found.a[name].value:.1f}", f"{found.b[name].value:.1f}", f"{one.value:+.1f}"
        table.add_row(TITLES[name], *values, f"{one.low:+.1f} to {one.high:+.1f}", kept)
    return table
