"""``livery augment``: variants of a harness, the check that they keep the task, and what changed in one.

``livery augment HARNESS --seed 1 --count 20 --split train --out DIR`` makes variants (`run` may be left out);
``check`` proves that operators keep the task; ``diff`` shows a variant beside its base; ``rebuild`` makes one anew from
its records. Every command ends with one line of JSON on standard output.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from typer.core import TyperGroup

from livery.agent.live_harness import LiveHarness
from livery.augment.lexicon import Split, language_of
from livery.augment.operators import DIMENSIONS, Dimension, Variant, any_mapping, rebuild, registered
from livery.augment.preservation import LOAD, Played, Report, Runner, check_preservation
from livery.augment.probe import ProbeRunner, probe_parameters, probes
from livery.augment.sampling import sample_variant
from livery.cli.harnesses import load_checked
from livery.errors import InputError
from livery.harness.diff import HarnessDiff, diff_harnesses, html_diff, text_diff
from livery.harness.digest import harness_digest
from livery.harness.folder import load_harness, save_harness
from livery.harness.model import Harness
from livery.shop.loading import load_catalogue
from livery.simulator.oracle import OraclePolicy
from livery.simulator.rollout import live_of, rollout
from livery.simulator.task import Task
from livery.simulator.tasks import make_task
from livery.simulator.worlds import make_world
from livery.types import Trajectory

PlayedTask = TypeVar("PlayedTask")


class RunByDefault(TyperGroup):
    """``livery augment HARNESS ...`` is ``livery augment run HARNESS ...``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=RunByDefault,
    no_args_is_help=True,
    help="Vary a harness without changing its task. Without a command: make variants (run).",
)

RECORDS = ".variant.json"
_TASKS_A_WORLD = 8
FolderArgument = Annotated[Path, typer.Argument(help="Harness folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one line of JSON only.")]


@app.command()
def run(
    harness: FolderArgument,
    seed: Annotated[int, typer.Option(help="First seed; variant n is made with seed + n.")] = 0,
    count: Annotated[int, typer.Option(min=1, help="How many variants.")] = 1,
    split: Annotated[str, typer.Option(help="train or heldout.")] = "train",
    strength: Annotated[float, typer.Option(min=0.0, max=1.0, help="How much is changed.")] = 0.5,
    dimension: Annotated[
        list[str] | None, typer.Option(help=f"Only this dimension (may be repeated): {', '.join(DIMENSIONS)}.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write them to; left out: only told of.")] = None,
) -> None:
    """Make variants: a harness folder each, and beside it the records that rebuild it."""
    base = load_checked(harness)
    base_digest = harness_digest(base)
    chosen, wanted = _split(split), _dimensions(dimension)
    made: list[dict[str, Any]] = []
    with _progress() as progress:
        task = progress.add_task("variants", total=count)
        for n in range(count):
            variant = sample_variant(base, seed + n, chosen, strength, wanted, base_digest=base_digest)
            row: dict[str, Any] = {"seed": seed + n, "digest": variant.digest, "operators": list(variant.operators)}
            if out is not None:
                row["folder"] = str(_written(variant, out / f"{base.name}-{chosen}-{seed + n}"))
            made.append(row)
            progress.advance(task)
    told = {"harness": base.name, "base": base_digest, "split": chosen, "count": count, "variants": made}
    print(json.dumps(told, ensure_ascii=False))


def _written(variant: Variant, folder: Path) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    save_harness(variant.harness, folder, overwrite=True)
    records = variant.model_dump(mode="json", exclude={"harness"})
    text = json.dumps({**records, "digest": variant.digest}, ensure_ascii=False, indent=1)
    folder.with_name(folder.name + RECORDS).write_text(text + "\n", encoding="utf-8", newline="\n")
    return folder


@app.command("rebuild")
def rebuild_command(
    records: Annotated[Path, typer.Argument(help=f"A NAME{RECORDS} file.")],
    base: Annotated[Path, typer.Argument(help="The base harness's folder.")],
    out: Annotated[Path | None, typer.Option(help="Folder to write the variant to.")] = None,
) -> None:
    """Rebuild a variant from its records and its base, and say whether it is the same bit for bit."""
    variant, recorded = _from_records(records, load_harness(base).harness)
    if out is not None:
        _written(variant, out)
    print(json.dumps({"digest": variant.digest, "same": recorded in ("", variant.digest)}))
    if recorded not in ("", variant.digest):
        raise typer.Exit(1)


@app.command()
def check(
    harness: FolderArgument,
    compositions: Annotated[int, typer.Option(min=0, help="Random compositions to play.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of operators, compositions and tasks.")] = 0,
    player: Annotated[
        str, typer.Option("--with", help="oracle (made worlds), or probes (calls over a store, no answers judged).")
    ] = "oracle",
    store: Annotated[
        Path | None, typer.Option(help="Store that probes play in; by default the language's demo.")
    ] = None,
    tasks: Annotated[int, typer.Option(min=1, help="How many tasks to play with.")] = 48,
    tasks_each: Annotated[int, typer.Option(min=1, help="Tasks a composition plays.")] = 2,
    operator: Annotated[list[str] | None, typer.Option(help="Only this operator (may be repeated).")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the report as JSON here too.")] = None,
) -> None:
    """Play every operator alone and random compositions; exit status 1 where one changed a task."""
    base = load_checked(harness)
    known = registered()
    chosen = None
    if operator:
        if unknown := [n for n in operator if n not in known]:
            message = f"found {', '.join(unknown)}; expected one of {', '.join(known)}"
            raise InputError.at("--operator", message, code="operator-unknown")
        chosen = {n: known[n] for n in operator}
    console = Console(stderr=True, highlight=False, markup=False)

    def checked(runner: Runner[PlayedTask], played: Sequence[PlayedTask]) -> Report:
        return check_preservation(
            base,
            compositions,
            seed,
            runner,
            played,
            parameters=probe_parameters(),
            operators=chosen,
            tasks_each=tasks_each,
            progress=lambda line: console.print(line),
        )

    match player:
        case "oracle":
            report = checked(OracleRunner(seed), oracle_tasks(base, seed, tasks))
        case "probes":
            catalogue = load_catalogue(store or Path(f"stores/demo-{language_of(base.language)}"))
            carried = probes(base, catalogue, seed, tasks)
            if not carried:
                message = "no probe can be played; expected tools bound to the shop's operations"
                raise InputError.at(harness, message, code="augment-probes")
            report = checked(ProbeRunner(catalogue), carried)
        case _:
            raise InputError.at("--with", f"found {player!r}; expected oracle or probes", code="augment-player")
    _tell(report, console)
    text = json.dumps(report.as_json(), ensure_ascii=False)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n", encoding="utf-8")
    print(text)
    if report.violations:
        raise typer.Exit(1)


def _tell(report: Report, console: Console) -> None:
    for found in report.violations:
        console.print(f"{found.found_by}: {' + '.join(found.operators) or 'base'}: {found.what}")
    told = f"{len(report.operators)} operators, {report.compositions} compositions, {report.plays} plays"
    console.print(f"{told}: {len(report.violations)} violations")


@app.command()
def diff(
    base: Annotated[Path, typer.Argument(help="Base harness folder.")],
    variant: Annotated[Path, typer.Argument(help=f"Variant: a folder, or its NAME{RECORDS}.")],
    html: Annotated[Path | None, typer.Option(help="Write a page for a browser here.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show a variant beside its base: what each operator did, then component by component."""
    before = load_harness(base).harness
    records = variant if variant.name.endswith(RECORDS) else variant.with_name(variant.name + RECORDS)
    if variant.is_dir():
        after = load_harness(variant).harness
        told: list[dict[str, Any]] = (
            json.loads(records.read_text(encoding="utf-8"))["records"] if records.is_file() else []
        )
    else:
        rebuilt, _ = _from_records(variant, before)
        after, told = rebuilt.harness, [r.model_dump(mode="json") for r in rebuilt.records]
    found = diff_harnesses(before, after)
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(page(before, found, told), encoding="utf-8")
    if as_json:
        print(json.dumps({"operators": told, **found.as_json()}, ensure_ascii=False))
        return
    out = Console(highlight=False, markup=False, emoji=False)
    for record in told:
        out.print(_told(record), soft_wrap=True)
    out.print(text_diff(found), soft_wrap=True)
    print(json.dumps({"operators": [r["operator"] for r in told], "components": len(found.components)}))


def _told(record: dict[str, Any]) -> str:
    """One record in a line or some: the operator, what it chose, and the names it gave."""
    chosen = ", ".join(f"{k}={v}" for k, v in record.get("parameters", {}).items())
    renamed = [f"    {r['what']} {r['key']}: {r['old']} -> {r['new']}" for r in record.get("renamed", ())]
    return "\n".join([f"* {record['operator']} ({chosen})" if chosen else f"* {record['operator']}", *renamed])


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.3rem } h4 { margin: 1.6rem 0 .2rem; border-top: 1px solid #8884; padding-top: .8rem }
h4 b { font-weight: 600; font-size: .8em; padding: .1em .5em; border-radius: .6em; background: #8882 }
h5 { margin: .6rem 0 .2rem; font-weight: 600; opacity: .75 }
pre { margin: 0; padding: .6rem; overflow-x: auto; background: #8881; border-radius: .4rem; white-space: pre-wrap }
pre span { display: block } .diff-ins { background: #2da44e2e } .diff-del { background: #cf222e2e }
.diff-hunk { opacity: .5 } ol { padding-left: 1.4rem } ol pre { font-size: .85em }
"""


def page(base: Harness, found: HarnessDiff, records: list[dict[str, Any]]) -> str:
    """A page by itself; everything from harnesses and records is escaped."""
    rows = "".join(f"<li><pre>{escape(_told(r).removeprefix('* '))}</pre></li>" for r in records)
    steps = f"<h2>What was done</h2><ol>{rows}</ol>" if rows else ""
    title = f"{escape(base.name)} and a variant of it"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>"
        f"<p>{escape(found.old)} → {escape(found.new)}</p>{steps}<h2>What changed</h2>{html_diff(found)}</html>\n"
    )


# ------------------------------------------------------------------------------------------- oracle


class OracleRunner:
    """Plays the simulator's tasks with its oracle and its verifier, in the agent's own loop."""

    def __init__(self, seed: int) -> None:
        self._policy = OraclePolicy(seed=seed)
        self._seed = seed
        self._live: tuple[Harness, LiveHarness] | None = None

    def play(self, task: Task, harness: Harness) -> Played:
        if self._live is None or self._live[0] is not harness:
            self._live = (harness, live_of(harness))
        trajectory, scores = asyncio.run(rollout(task, self._live[1], self._policy, seed=self._seed))
        note = f"{trajectory.route}: {trajectory.route_reason}; {'; '.join(scores.reasons)}"
        earned = {k: float(v) for k, v in scores.model_dump(exclude={"reasons"}).items()}
        return Played(tuple(_operations(trajectory, harness)), earned, note)


def _operations(trajectory: Trajectory, harness: Harness) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What ran. A further page of a result is the same operation, which is not counted again."""
    keys = {s.name: s.key for s in harness.skills}
    paged = {t.name: m.source for t in harness.tools for m in t.binding.arguments if m.to == "page"}
    for result in trajectory.results:
        page = _value_at(result.call.arguments, paged.get(result.call.name, ""))
        if not result.operation or page not in (None, 1, "1"):
            continue
        if result.operation == LOAD:
            yield LOAD, {"key": keys.get(str(result.arguments.get("name")), "")}
        else:
            yield result.operation, dict(result.arguments)


def _value_at(arguments: Mapping[str, Any], path: str) -> Any:
    value: Any = arguments
    for part in path.split(".") if path else ():
        value = any_mapping(value).get(part)
    return value if path else None


def oracle_tasks(base: Harness, seed: int, count: int) -> list[Task]:
    """Tasks of train worlds in the harness's language, some a world."""
    language = language_of(base.language)
    return [make_task(make_world("train", language, seed + n // _TASKS_A_WORLD), seed * 1000 + n) for n in range(count)]


# ------------------------------------------------------------------------------------------- parts


def _from_records(path: Path, base: Harness) -> tuple[Variant, str]:
    """The variant of a records file, and the digest that the file says it has."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError.at(path, f"no such file; expected a harness folder or a NAME{RECORDS}") from None
    except json.JSONDecodeError as fault:
        raise InputError.at(path, f"not JSON: {fault.msg}", line=fault.lineno, code="json-syntax") from fault
    recorded = str(data.pop("digest", ""))
    records = Variant.model_validate({**data, "harness": base}).records
    return rebuild(records, base, base_digest=str(data.get("base_digest", ""))), recorded


def _split(name: str) -> Split:
    match name:
        case "train" | "heldout":
            return name
        case _:
            raise InputError.at("--split", f"found {name!r}; expected train or heldout", code="augment-split")


def _dimensions(names: list[str] | None) -> tuple[Dimension, ...]:
    known: dict[str, Dimension] = {d: d for d in DIMENSIONS}
    if wrong := [n for n in names or () if n not in known]:
        message = f"found {', '.join(wrong)}; expected {', '.join(DIMENSIONS)}"
        raise InputError.at("--dimension", message, code="augment-dimension")
    return tuple(known[n] for n in names) if names else DIMENSIONS


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty())
