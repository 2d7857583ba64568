"""``livery bench``: how long an answer takes, what is left of the promise under load, and what grows in half an hour.

Everything heavy is imported inside the commands, so that other commands start quickly.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from livery.errors import InputError

if TYPE_CHECKING:
    from rich.progress import Progress

    from livery.evaluation.load_room import LoadedRoom, Sustained
    from livery.harness.model import Harness
    from livery.policies.policy import Policy
    from livery.room.contract import RoomConfig
    from livery.room.speech.output import SpeechQueue
    from livery.simulator.worlds import World

app = typer.Typer(
    help="Speed: latency stage by stage, the promise under load, a soak.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_notices = Console(stderr=True, highlight=False)
_screen = Console(highlight=False)

PolicyUri = Annotated[str, typer.Option(help="Policy URI.")]
Loras = Annotated[list[Path] | None, typer.Option(help="Adapter for llamacpp: and hf:; repeatable.")]
HarnessFolder = Annotated[Path, typer.Option(help="Harness folder.")]
Store = Annotated[
    Path | None, typer.Option(help="Catalogue folder that is asked about; left out: made shops of the train split.")
]
Seed = Annotated[int, typer.Option(min=0, help="Of the shops, the questions and policies that sample.")]
Voice = Annotated[str, typer.Option(help="Voice: espeak:, http://HOST/v1/audio/speech?..., none:.")]
Out = Annotated[Path | None, typer.Option(help="Folder for the figures as JSON and as a page.")]
Machine = Annotated[str, typer.Option(help="The machine in words, for the page; empty: as the system names it.")]
COMPACT = Path("harnesses/streamer-en-compact")


@app.command()
def latency(
    policy: PolicyUri = "llamacpp:",
    lora: Loras = None,
    harness: HarnessFolder = COMPACT,
    store: Store = None,
    seed: Seed = 0,
    limit: Annotated[int, typer.Option(min=1, help="Requests, the same at each concurrency.")] = 200,
    concurrency: Annotated[
        list[int] | None, typer.Option(min=1, help="Rooms asked at a time; repeatable; left out: 1, 2 and 4.")
    ] = None,
    patience: Annotated[
        float, typer.Option(min=0, help="Seconds that a request may take; 0: the harness's own deadline.")
    ] = 0.0,
    speech: Voice = "espeak:",
    out: Out = None,
    machine: Machine = "",
) -> None:
    """Ask the same questions at each concurrency and say where the seconds went. The last line is JSON."""
    from livery.evaluation import latency as replay
    from livery.evaluation import latency_figures, latency_page
    from livery.evaluation.run import open_any
    from livery.simulator.rollout import live_of

    base = _harness(harness)
    levels = list(dict.fromkeys(concurrency or (1, 2, 4)))
    rooms = replay.make_rooms(
        _language(base), limit, seed=seed, store=_folder(store), rooms=max(replay.ROOMS, *levels, 1)
    )
    live = live_of(base, patience_s=patience or None)
    opened = open_any(policy, tuple(lora or ()), language=base.language)
    weights = opened.weights

    async def play() -> dict[str, Any]:
        found: dict[str, Any] = {}
        async with AsyncExitStack() as stack:
            stack.push_async_callback(opened.aclose)
            voice = await _voice(stack, speech, base)
            with _bar("requests") as bar:
                for level in levels:
                    shown = bar.add_task(f"{policy} at concurrency {level}", total=limit)
                    measured = await replay.measure(
                        rooms,
                        live,
                        opened,
                        concurrency=level,
                        speech=voice,
                        seed=seed,
                        progress=lambda _, shown=shown: bar.advance(shown),
                    )
                    found[str(level)] = latency_figures.figures(measured)
        return found

    found = asyncio.run(play())
    first = found[str(levels[0])]
    data = {
        "schema": latency_figures.SCHEMA,
        **_about(opened, weights, base, store, speech, seed, machine),
        "requests": limit,
        "deadline_s": live.harness.limits.deadline_s,
        **{name: first[name] for name in ("p50_s", "p95_s", "under_15s", "routes")},
        "concurrency": found,
    }
    _screen.print(_latency_table(found))
    _written(out, "latency", data, latency_page.latency_page(data))
    brief = {level: {k: v for k, v in one.items() if k != "answered"} for level, one in found.items()}
    print(json.dumps({**data, "concurrency": brief}, ensure_ascii=False))


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="latency.json of before.")],
    b: Annotated[Path, typer.Argument(help="latency.json of after.")],
) -> None:
    """B over A: ratios of seconds, tokens and reasoning, by concurrency. The last line is JSON."""
    from livery.evaluation.latency_figures import compare as compared
    from livery.evaluation.latency_figures import read_figures

    before, after = read_figures(a), read_figures(b)
    found = compared(before, after)
    if not found["concurrency"]:
        raise InputError.at(b, f"has no concurrency in common with {a}", field="concurrency")
    for level, one in found["concurrency"].items():
        table = Table("", "A", "B", "B / A", title=f"concurrency {level}", title_justify="left")
        for name, ratio in (("p50_s", one["p50"]), ("p95_s", one["p95"])):
            table.add_row(name, *(f"{s:.3f}" for s in one[name]), _ratio(ratio))
        table.add_row(f"request by request ({one['pairs']})", "", "", _ratio(one["paired"]))
        for stage, ratio in one["stages"].items():
            table.add_row(f"{stage}, mean", "", "", _ratio(ratio))
        for kind, of in one["turns"].items():
            tokens = ("–" if n is None else f"{n:.1f}" for n in of["reasoning_tokens"])
            table.add_row(f"reasoning tokens, turn {kind}", *tokens, _ratio(of["reasoning"]))
        _screen.print(table)
    for name in ("harness", "seed", "requests", "store"):
        if before.get(name) != after.get(name):
            _notices.print(f"they differ in {name}: {before.get(name)!r} and {after.get(name)!r}", markup=False)
    print(json.dumps(found, ensure_ascii=False))


@app.command()
def load(
    policy: PolicyUri = "llamacpp:",
    lora: Loras = None,
    harness: HarnessFolder = COMPACT,
    store: Store = None,
    seed: Seed = 0,
    limit: Annotated[int, typer.Option(min=0, help="Messages; 0: those of six deadlines.")] = 0,
    rate: Annotated[float, typer.Option(min=0, help="Sustained messages a second; 0: it is measured first.")] = 0.0,
    times: Annotated[float, typer.Option(min=0.01, help="Of the sustained rate.")] = 2.0,
    calibrate: Annotated[int, typer.Option(min=2, help="Requests by which the sustained rate is measured.")] = 20,
    deadline: Annotated[
        float, typer.Option(min=0, help="Seconds from a message to its reply or fate; 0: the room's own.")
    ] = 0.0,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests that think at the same time.")] = 1,
    grace: Annotated[float, typer.Option(min=0, help="Seconds by which a deadline may be missed.")] = 0.5,
    speech: Voice = "espeak:",
    out: Out = None,
    machine: Machine = "",
) -> None:
    """Twice what the room can answer: does everyone have a reply or a fate in time? Exit status 1: no. The last line
    is JSON."""
    from livery.evaluation import load as loads
    from livery.evaluation.latency import bench_world
    from livery.evaluation.latency_page import load_page
    from livery.evaluation.load_room import Sustained, config_of
    from livery.policies.open import open_policy

    base = _harness(harness)
    world = bench_world(_language(base), seed, store=_folder(store))
    config = loads.bounded(config_of(world, base).model_copy(update={"concurrency": concurrency}), deadline)
    opened = open_policy(policy, loras=tuple(lora or ()), language=base.language)
    weights = opened.weights

    async def play() -> dict[str, Any]:
        async with _rig(world, base, opened, config, speech, "messages") as rig:
            sustained = Sustained(rate, 1.0) if rate else await rig.sustained(calibrate)
            planned = loads.plan(sustained, config, base, times=times, limit=limit, grace_s=grace)
            shown = rig.bar.add_task(f"{planned.rate:.3f} messages a second", total=planned.messages)
            heard = loads.Heard()
            told: dict[str, Any] = {
                "on_wait": heard.waits.append,
                "on_answer": heard.answers.append,
                "on_speech": heard.synthesis.append,
            }
            async with rig.room(rig.folder / "journal.db", config, **told) as loaded:
                return await loads.load(
                    loaded, planned, heard, seed=seed, progress=lambda n: rig.bar.update(shown, completed=n)
                )

    found = asyncio.run(play())
    data = {
        "schema": loads.SCHEMA,
        **_about(opened, weights, base, store, speech, seed, machine),
        "given_rate": bool(rate),
        **found,
    }
    _written(out, "load", data, load_page(data))
    print(json.dumps(data, ensure_ascii=False))
    if not found["kept"]:
        raise typer.Exit(1)


@app.command()
def soak(
    policy: PolicyUri = "llamacpp:",
    lora: Loras = None,
    harness: HarnessFolder = COMPACT,
    store: Store = None,
    seed: Seed = 0,
    minutes: Annotated[float, typer.Option(min=0.05, help="How long.")] = 30.0,
    rate: Annotated[float, typer.Option(min=0, help="Messages a second; 0: 0.8 of what is sustained.")] = 0.0,
    calibrate: Annotated[int, typer.Option(min=2, help="Requests by which the sustained rate is measured.")] = 20,
    slope: Annotated[float, typer.Option(help="MiB an hour that memory may grow by after warm-up.")] = 20.0,
    retain: Annotated[
        int, typer.Option(min=0, help="Rows the journal keeps of each kind, so that it prunes; 0: its own settings.")
    ] = 0,
    data: Annotated[Path | None, typer.Option(help="New data folder to keep; left out: one that is removed.")] = None,
    speech: Voice = "espeak:",
    out: Out = None,
    machine: Machine = "",
) -> None:
    """A steady rate through the whole room: what grows? Exit status 1: something that may not. The last line is
    JSON."""
    from livery.evaluation import soak as soaks
    from livery.evaluation.latency import bench_world
    from livery.evaluation.latency_page import soak_page
    from livery.evaluation.load_room import config_of
    from livery.policies.open import open_policy

    if data is not None and data.exists() and any(data.iterdir()):
        raise InputError.at(data, "holds files already; expected a new folder", field="--data")
    base = _harness(harness)
    world = bench_world(_language(base), seed, store=_folder(store))
    config = config_of(world, base)
    opened = open_policy(policy, loras=tuple(lora or ()), language=base.language)
    weights = opened.weights

    async def play() -> dict[str, Any]:
        async with _rig(world, base, opened, config, speech, "seconds") as rig:
            steady = rate or 0.8 * (await rig.sustained(calibrate)).messages_per_s
            shown = rig.bar.add_task(f"{steady:.3f} messages a second", total=round(minutes * 60))
            tally = soaks.Tally()
            told = {"on_wait": tally.on_wait, "on_answer": tally.on_answer, "on_speech": tally.synthesis.append}
            folder = data or rig.folder / "data"
            async with rig.room(folder / "journal.db", config, retain, **told) as loaded:
                return await soaks.soak(
                    loaded,
                    folder,
                    rate=steady,
                    minutes=minutes,
                    tally=tally,
                    limits=soaks.Limits(slope_mib_per_hour=slope, waiting=config.intake.queue_requests),
                    progress=lambda seconds: rig.bar.update(shown, completed=round(seconds)),
                )

    found = asyncio.run(play())
    figures = {
        "schema": soaks.SCHEMA,
        **_about(opened, weights, base, store, speech, seed, machine),
        "retain": retain,
        **found,
    }
    _written(out, "soak", figures, soak_page(figures))
    print(json.dumps(figures, ensure_ascii=False))
    if not found["kept"]:
        raise typer.Exit(1)


# ---------------------------------------------------------------------------------------- what they share


def _harness(folder: Path) -> Harness:
    from livery.cli.harnesses import load_checked

    if folder == COMPACT and not folder.exists():
        raise InputError.at(folder, "no samples here; run from livery's own folder, or give --harness")
    return load_checked(folder)


def _language(harness: Harness) -> Any:
    return "zh" if harness.language.startswith("zh") else "en"


def _folder(store: Path | None) -> str:
    return "" if store is None else str(store)


async def _voice(stack: AsyncExitStack, uri: str, harness: Harness) -> SpeechQueue | None:
    """The voice, warm; None for ``none:``, as in a live room."""
    if uri.startswith("none:"):
        return None
    from livery.room.speech.output import open_speech

    voice = open_speech(uri, on_trouble=lambda trouble: _notices.print(str(trouble), markup=False))
    stack.push_async_callback(voice.aclose)
    await voice.warm_up(harness.language)
    return voice


@dataclass(frozen=True, slots=True)
class _Rig:
    """What the rooms of one bench share."""

    world: World
    base: Harness
    opened: Policy
    config: RoomConfig
    clock: Callable[[], float]
    voice: SpeechQueue | None
    bar: Progress
    folder: Path
    """Removed at the end."""

    @asynccontextmanager
    async def room(self, file: Path, config: RoomConfig, retain: int = 0, **told: Any) -> AsyncGenerator[LoadedRoom]:
        """A room on a journal of its own, which keeps ``retain`` rows of each kind (0: its own settings)."""
        from livery.evaluation.load_room import loaded_room
        from livery.room.journal import Journal, Retention

        rows = dict.fromkeys(("messages", "requests", "trajectories", "happenings"), retain) if retain else {}
        with closing(Journal(file, retention=Retention.model_validate(rows), clock=self.clock)) as journal:
            async with loaded_room(
                self.world,
                self.base,
                self.opened,
                config=config,
                journal=journal,
                clock=self.clock,
                speech=self.voice,
                **told,
            ) as loaded:
                yield loaded

    async def sustained(self, n: int) -> Sustained:
        from livery.evaluation import load_room

        shown = self.bar.add_task("requests, to find the sustained rate", total=n)
        free = load_room.calibration(self.config)
        async with self.room(self.folder / "calibration.db", free) as loaded:
            return await load_room.calibrate(loaded, n, lambda done: self.bar.update(shown, completed=done))


@asynccontextmanager
async def _rig(
    world: World, base: Harness, opened: Policy, config: RoomConfig, speech: str, unit: str
) -> AsyncGenerator[_Rig]:
    from livery.evaluation.load_room import show_clock

    async with AsyncExitStack() as stack:
        stack.push_async_callback(opened.aclose)
        voice = await _voice(stack, speech, base)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bar = stack.enter_context(_bar(unit))
        yield _Rig(world, base, opened, config, show_clock(world), voice, bar, folder)


def _bar(unit: str) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit)
    return Progress(*columns, TimeRemainingColumn(), console=_notices)


def _about(
    policy: Policy, weights: str, base: Harness, store: Path | None, speech: str, seed: int, machine: str
) -> dict[str, Any]:
    """What figures hang on."""
    from livery import __version__
    from livery.harness.digest import harness_digest
    from livery.training.run_card import processors

    return {
        "command": shlex.join(["livery", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine or processors(),
        "livery": __version__,
        "policy": policy.uri,
        "weights": weights,
        "harness": base.name,
        "release": harness_digest(base),
        "store": _folder(store),
        "speech": speech.partition("?")[0],
        "seed": seed,
    }


def _written(out: Path | None, name: str, data: dict[str, Any], text: str) -> None:
    from livery.evaluation.latency_page import write

    if out is not None:
        _notices.print(f"the page: {write(out, name, data, text)[1]}", markup=False)


def _latency_table(found: dict[str, Any]) -> Table:
    from livery.evaluation.latency_figures import STAGES

    table = Table("seconds, P50 / P95", *(f"at {level}" for level in found))
    table.add_row("whole", *(f"{one['p50_s']:.2f} / {one['p95_s']:.2f}" for one in found.values()))
    table.add_row("under 15 s", *(f"{100 * one['under_15s']:.1f} %" for one in found.values()))
    for name in STAGES:
        cells = [(one["stages"][name]["p50_s"], one["stages"][name]["p95_s"]) for one in found.values()]
        table.add_row(name, *(f"{p50:.3f} / {p95:.3f}" for p50, p95 in cells))
    return table


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
