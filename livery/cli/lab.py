"""``livery lab``: the paper's experiment in one command. Torch is imported inside the commands."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(help="The paper's experiment on a laptop, step by step.", no_args_is_help=True)

_notices = Console(stderr=True, highlight=False)
_screen = Console(highlight=False)
_RESULTS = Path("docs/results")


@app.callback()
def lab() -> None:
    """The paper's experiment on a laptop, step by step."""


@app.command()
def run(
    profile: Annotated[str, typer.Option(help="Of the configuration: `smoke` (minutes) or `full` (hours).")] = "smoke",
    out: Annotated[Path | None, typer.Option(help="Folder of the lab; left out: out/lab-PROFILE.")] = None,
    arms: Annotated[
        list[str] | None, typer.Option(help="Only this arm (`base` is one); may be repeated. Others can follow later.")
    ] = None,
    config: Annotated[Path, typer.Option(help="The configuration.")] = Path("configs/lab.yaml"),
    force: Annotated[
        bool, typer.Option("--force", help="Delete and redo steps whose recipe has changed, and what starts from them.")
    ] = False,
    publish: Annotated[
        bool, typer.Option("--publish", help="At the end write the table to docs/results/ (not of the smoke profile).")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Only say what would be done and how long it takes.")] = False,
    threads: Annotated[int, typer.Option(min=0, help="Of the CPU; 0: as torch chooses.")] = 1,
    prompts: Annotated[
        list[str] | None, typer.Option(help="General prompts for distillation, in place of the configuration's.")
    ] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Files whose prompts distillation must not draw.")] = None,
    ifeval: Annotated[str, typer.Option(help="File of IFEval's prompts, in place of the configuration's.")] = "",
) -> None:
    """Build data, train every arm, evaluate and tabulate. Start it again to go on after a kill.

    The last line is JSON.
    """
    from livery.policies.hf_loading import needed
    from livery.training import lab as labs

    given = {"prompts": tuple(prompts or ()), "exclude": tuple(exclude or ()), "ifeval": ifeval}
    chosen = labs.read_config(config, profile).model_copy(update={k: v for k, v in given.items() if v})
    folder = out or Path("out") / f"lab-{profile}"
    if plan:
        _state(folder, chosen, arms or [])
        return
    needed("torch", "transformers", "trl", "peft", "datasets", "pyarrow", "matplotlib")
    import importlib

    from livery.cli.harnesses import load_checked
    from livery.training.lab_steps import Worker, sources_of
    from livery.training.run_card import versions

    if threads:
        importlib.import_module("torch").set_num_threads(threads)
    harness = load_checked(chosen.harness)
    sources = sources_of(chosen, harness)
    steps = labs.steps_of(chosen, arms or [], sources=sources)

    def say(line: str) -> None:
        _notices.print(line, markup=False)

    worker = Worker(config=chosen, harness=harness, profile=profile, say=say, progress=True)
    if not force:
        labs.refuse_changed(steps, folder, versions())
    labs.write_lab(folder, profile, chosen, arms or [], sources)
    ran = labs.run_steps(
        steps, folder, worker, versions=versions(), guesses=chosen.seconds_a_unit, force=force, say=say
    )
    table = folder / "table" / "lab.md"
    _notices.print(f"the table: {table}")
    published: list[str] = []
    if publish:
        from livery.training.lab_table import publish as published_to

        published = [str(p) for p in published_to(folder / "table", _RESULTS, profile=profile)]
    print(
        json.dumps(
            {
                "profile": profile,
                "out": str(folder),
                "steps": len(steps),
                "done": len(ran.done),
                "skipped": len(ran.skipped),
                "redone": list(ran.redone),
                "table": str(table),
                "published": published,
            }
        )
    )


@app.command()
def table(
    folder: Annotated[Path, typer.Argument(help="Folder of `livery lab run`.")],
    publish: Annotated[bool, typer.Option("--publish", help="Write it to docs/results/ too.")] = False,
) -> None:
    """The table of what is finished by now, with the names of what is not. The last line is JSON."""
    from livery.training import lab as labs
    from livery.training.lab_table import TABLE_MD, write_table
    from livery.training.lab_table import publish as published_to

    profile, config, _, sources = labs.read_lab(folder)
    # Of all arms: the last start may have asked for some.
    last = labs.steps_of(config, sources=sources)[-1]
    step = dataclasses.replace(last, name="table-now")
    data = write_table(folder, step, config, profile=profile, partly=True)
    print((folder / step.name / TABLE_MD).read_text(encoding="utf-8"))
    published = [str(p) for p in published_to(folder / step.name, _RESULTS, profile=profile)] if publish else []
    print(json.dumps({"out": str(folder / step.name), "unfinished": data["unfinished"], "published": published}))


@app.command()
def status(folder: Annotated[Path, typer.Argument(help="Folder of `livery lab run`.")]) -> None:
    """What is done, what is left and about how long it takes. The last line is JSON."""
    from livery.training.lab import read_lab

    _, config, arms, sources = read_lab(folder)
    _state(folder, config, arms, sources)


def _state(folder: Path, config: Any, arms: list[str], sources: dict[str, str] | None = None) -> None:
    from livery.training import lab as labs

    steps = labs.steps_of(config, arms, sources=sources)
    guesses = config.seconds_a_unit
    rates = labs.rates(folder, guesses)
    table = Table("step", "state", "units", "time", title=str(folder), title_justify="left")
    for step in steps:
        state = labs.state_of(step, folder)
        marker = labs.done_of(folder / step.name)
        took = labs.hours(marker["seconds"]) if marker else f"about {labs.hours(rates[step.kind] * step.units)}"
        table.add_row(step.name, state, str(step.units), took)
    _screen.print(table)
    left = labs.remaining_s(steps, folder, guesses)
    states = [labs.state_of(s, folder) for s in steps]
    if left:
        _notices.print(f"about {labs.hours(left)} left")
    print(
        json.dumps(
            {
                "out": str(folder),
                "steps": len(steps),
                "done": states.count("done"),
                "begun": [s.name for s, state in zip(steps, states, strict=True) if state == "begun"],
                "open": states.count("open"),
                "seconds_left": round(left),
                "seconds_a_unit": {k: round(v, 3) for k, v in rates.items()},
            }
        )
    )
