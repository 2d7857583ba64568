"""``livery tasks``: make sets of tasks, read them as a person, check their gold against their worlds."""

from __future__ import annotations

import json
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console, Group
from rich.panel import Panel
from rich.progress import track
from rich.table import Table
from rich.text import Text

from livery.errors import InputError, Problem
from livery.shop.money import format_money
from livery.simulator.mix import DEFAULT_MIX, Mix
from livery.simulator.task import Asked, GoldFact, Needed, Task
from livery.simulator.task_sets import check_task, digest, read_tasks, write_tasks
from livery.simulator.tasks import make_tasks
from livery.simulator.worlds import World, world_of

app = typer.Typer(
    help="Tasks of the simulator: questions in made rooms, with the gold of their answers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_notices = Console(stderr=True, highlight=False)
_screen = Console(highlight=False)

SplitOption = Annotated[Literal["train", "test"], typer.Option(help="Which worlds and words.")]
LanguageOption = Annotated[Literal["en", "zh"], typer.Option(help="Language of worlds and viewers.")]
StoreOption = Annotated[Path | None, typer.Option(help="Play in this store folder instead of made worlds.")]
SeedOption = Annotated[int, typer.Option(help="Seed of the first world.")]


@app.command()
def make(
    out: Annotated[Path, typer.Option(help="File to write: JSON, one task a line.")],
    split: SplitOption = "train",
    language: LanguageOption = "en",
    n: Annotated[int, typer.Option("--n", min=1, help="How many tasks.")] = 1000,
    seed: SeedOption = 0,
    store: StoreOption = None,
    faults: Annotated[
        float, typer.Option(min=0, max=1, help="Share of tasks with faulty operations.")
    ] = DEFAULT_MIX.faults,
    tasks_per_world: Annotated[int, typer.Option(min=1, help="Tasks that share a world.")] = 25,
) -> None:
    """Make tasks; the same options give the same file, bit for bit."""
    mix = Mix(faults=faults)
    started = time.perf_counter()
    tasks = make_tasks(split, language, n, seed, mix=mix, tasks_per_world=tasks_per_world, store=str(store or ""))
    seconds = time.perf_counter() - started
    write_tasks(out, tasks)
    measured = {
        "file": str(out),
        "tasks": len(tasks),
        "digest": digest(tasks),
        "seconds": round(seconds, 3),
        "tasks_per_s": round(len(tasks) / seconds, 1),
        "tags": dict(Counter(tag for task in tasks for tag in task.tags).most_common()),
    }
    print(json.dumps(measured, ensure_ascii=False))


@app.command()
def show(
    file: Annotated[Path | None, typer.Argument(help="A file of tasks; without it one is made.")] = None,
    task: Annotated[str, typer.Option(help="Only this task id.")] = "",
    n: Annotated[int, typer.Option("--n", min=1, help="How many.")] = 1,
    skip: Annotated[int, typer.Option(min=0, help="How many to pass over first.")] = 0,
    tag: Annotated[str, typer.Option(help="Only tasks with this tag, such as merged or fault:stale.")] = "",
    split: SplitOption = "train",
    language: LanguageOption = "en",
    seed: SeedOption = 0,
    store: StoreOption = None,
) -> None:
    """Tasks as a person reads them: the room, what is asked, what a right answer says."""
    if file is not None:
        tasks = read_tasks(file)
    else:
        # A rare tag may need many.
        count = 500 if tag or task else skip + n
        tasks = make_tasks(split, language, count, seed, store=str(store or ""))
    chosen = [t for t in tasks if (not task or t.id == task) and (not tag or tag in t.tags)][skip : skip + n]
    if not chosen:
        raise InputError.at(file or "made tasks", f"no task {task or tag or skip!r} among {len(tasks)}")
    for each in chosen:
        _screen.print(_page(each, world_of(each.world)))


@app.command()
def check(file: Annotated[Path, typer.Argument(help="A file of tasks.")]) -> None:
    """Check a file: its form, its references, and its gold against what the real operations answer."""
    started = time.perf_counter()
    tasks = read_tasks(file)
    problems: list[Problem] = []
    seen: set[str] = set()
    for line, task in enumerate(track(tasks, "checking", console=_notices, transient=True), 1):
        wrong = check_task(task)
        if task.id in seen:
            wrong.append("its id stands twice")
        seen.add(task.id)
        problems += [Problem(path=str(file), line=line, field=task.id, message=w, code="task") for w in wrong]
    measured = {
        "file": str(file),
        "tasks": len(tasks),
        "facts": sum(len(a.facts) for t in tasks for a in t.asked),
        "faults": len(problems),
        "digest": digest(tasks),
        "seconds": round(time.perf_counter() - started, 3),
    }
    for problem in problems:
        _notices.print(str(problem), markup=False)
    print(json.dumps(measured, ensure_ascii=False))
    if problems:
        raise typer.Exit(1)


# ------------------------------------------------------------------------------------ pages


def _page(task: Task, world: World) -> Panel:
    state = task.request.state
    head = Table.grid(padding=(0, 2))
    head.add_column(style="dim")
    head.add_column()
    shop = f"{world.catalogue.store}, {len(world.catalogue.products)} products, {world.catalogue.currency}"
    head.add_row("shop", shop)
    head.add_row("room time", _moment(world, state.now))
    head.add_row("on screen", _item(world, state.on_screen) if state.on_screen else "nothing")
    for name, note in state.notes.items():
        head.add_row(name, note)
    parts: list[Text | Table] = [Text("\n")]
    for turn in state.dialogue:
        parts.append(Text(f"  earlier  {turn.viewer}: {turn.text}\n           host: {turn.reply}", style="dim"))
    for i, message in enumerate(task.request.messages):
        parts.append(Text.assemble((f"  {i} {message.viewer}: ", "bold cyan"), message.text))
    parts.append(Text(""))
    parts += [_asked(a, world) for a in task.asked]
    parts.append(_rest(task))
    return Panel(Group(head, *parts), title=task.id, title_align="left")


def _asked(asked: Asked, world: World) -> Table:
    about = "; ".join(_item(world, link) for link in asked.items)
    what = f"{asked.intent} (message {asked.message})" + (f" of {about}" if about else "")
    table = Table(title=what, title_justify="left", title_style="bold", show_edge=False, expand=False)
    table.add_column("fact")
    table.add_column("value")
    table.add_column("must be said")
    for fact in asked.facts:
        table.add_row(fact.key, _value(fact, world), "yes" if fact.required else "")
    if asked.ask_back:
        table.add_row("-", "open: the host must ask", "yes")
    elif asked.cannot_check:
        table.add_row("-", "cannot be checked now: say so, or call a person", "yes")
    elif not asked.facts:
        table.add_row("-", "any harmless, fitting reply", "")
    return table


def _rest(task: Task) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    table.add_row("reply skills", ", ".join(task.topics))
    for needed in task.needed:
        table.add_row(f"needed, step {needed.step}", Text(_call(needed)))
    for fault in task.faults:
        times = f"{fault.times} times" if fault.recoverable else "for good"
        table.add_row("fails", f"{fault.operation}: {fault.kind}, {times}")
    for pattern in task.forbidden:
        table.add_row("must not say", Text(pattern, style="red"))
    if task.hand_off:
        table.add_row("", "a person must be called")
    if task.may_be_silent:
        table.add_row("", "saying nothing is right as well")
    table.add_row("tags", ", ".join(task.tags))
    return table


def _call(needed: Needed) -> str:
    free = f"  (worded freely: {', '.join(needed.free)})" if needed.free else ""
    return f"{needed.operation} {json.dumps(needed.arguments, ensure_ascii=False)}{free}"


def _item(world: World, link: str) -> str:
    return f"{link} {world.catalogue.by_link[link].name}"


def _value(fact: GoldFact, world: World) -> str:
    if fact.kind == "money" and isinstance(fact.value, int):
        return format_money(fact.value, fact.unit or world.catalogue.currency)
    if fact.kind == "duration" and fact.unit == "s" and isinstance(fact.value, int | float):
        days = fact.value / 86400
        return f"{days:g} days" if days >= 1 else f"{fact.value / 3600:g} hours"
    unit = f" {fact.unit}" if fact.unit else ""
    return f"{fact.value}{unit}"


def _moment(world: World, at: float) -> str:
    return f"{datetime.fromtimestamp(at, world.catalogue.zone):%Y-%m-%d %H:%M} {world.catalogue.timezone}"
