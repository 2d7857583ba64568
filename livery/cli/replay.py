"""``livery replay``: a recorded chat through the whole agent, with its figures."""

from __future__ import annotations

import asyncio
import json
import math
import time
from contextlib import AsyncExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from livery.agent.loop import Agent
from livery.agent.service import AgentService, Fixed
from livery.cli.defaults import HARNESS, STORE, need_samples
from livery.cli.harnesses import load_checked
from livery.cli.stores import item_on_screen
from livery.errors import InputError
from livery.policies.open import open_policy
from livery.room.contract import RoomConfig
from livery.room.replay import Progress as Played
from livery.room.replay import Summary, played_s
from livery.room.replay import replay as play
from livery.room.sources.detect import read_chat
from livery.shop.loading import CatalogueSource
from livery.shop.registry import shop_operations

_notices = Console(stderr=True, highlight=False)


def replay(
    file: Annotated[Path, typer.Argument(help="Recorded chat; its format is told from its content.")],
    store: Annotated[Path, typer.Option(help="Catalogue folder or file.")] = STORE,
    harness: Annotated[Path, typer.Option(help="Harness folder.")] = HARNESS,
    policy: Annotated[str, typer.Option(help="Policy URI.")] = "llamacpp:",
    lora: Annotated[list[Path] | None, typer.Option(help="GGUF adapter for the embedded model; repeatable.")] = None,
    speed: Annotated[str, typer.Option(help="`max` (chat time only), or times real time: 1, 4, ...")] = "max",
    out: Annotated[
        Path, typer.Option(help="Folder for trajectories.jsonl, fates.jsonl, duplicates.jsonl, summary.json.")
    ] = Path("out/replay"),
    format: Annotated[str, typer.Option(help="Chat format, where it should not be told from content.")] = "auto",
    strict: Annotated[bool, typer.Option(help="Stop at the first row that cannot be read.")] = False,
    start_at: Annotated[
        str, typer.Option(help="Room time of the first message: `now`, `recorded` or ISO 8601.")
    ] = "now",
    on_screen: Annotated[str, typer.Option(help="Link id on screen; empty: the catalogue's first.")] = "",
    busy: Annotated[
        float, typer.Option(min=0, help="At speed max: chat seconds each request occupies the room.")
    ] = 0.0,
    longest_gap: Annotated[
        float,
        typer.Option(min=0, help="Silences longer than so many chat seconds are cut to it; 0: none are."),
    ] = 0.0,
    limit: Annotated[int, typer.Option(min=0, help="Play only so many events; 0: all.")] = 0,
) -> None:
    """Replay a recorded chat and write what became of every message. The last line is JSON: the figures."""
    need_samples(harness, store)
    pace: float | Literal["max"] = "max" if speed == "max" else _pace(speed)
    summary = asyncio.run(
        _replay(
            file,
            store,
            harness,
            policy,
            tuple(lora or ()),
            pace,
            out,
            format,
            strict,
            start_at,
            on_screen,
            busy,
            longest_gap,
            limit,
        )
    )
    print(json.dumps(asdict(summary), ensure_ascii=False))


def _pace(speed: str) -> float:
    try:
        pace = float(speed)
    except ValueError:
        pace = 0.0
    if not 0 < pace < math.inf:
        raise InputError.at("--speed", f"found {speed!r}; expected `max` or a number above 0, such as 1")
    return pace


def _bearable(file: Path, seconds: float) -> None:
    """Refuses what nobody meant to wait for: recordings of several days, or with a wrong date in them."""
    if seconds > 86_400:
        message = (
            f"would take {seconds / 86_400:,.1f} days at this speed; cut its silences by --longest-gap 60, "
            "or give a higher --speed or max"
        )
        raise InputError.at(file, message, code="chat-span")


def _start(start_at: str) -> float | None:
    if start_at == "recorded":
        return None
    if start_at == "now":
        return time.time()
    try:
        moment = datetime.fromisoformat(start_at)
    except ValueError:
        raise InputError.at(
            "--start-at",
            f"found {start_at!r}; expected `now`, `recorded` or ISO 8601 such as 2026-06-18T20:00",
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


async def _replay(
    file: Path,
    store: Path,
    harness_folder: Path,
    policy_uri: str,
    loras: tuple[Path, ...],
    speed: float | Literal["max"],
    out: Path,
    format: str,
    strict: bool,
    start_at: str,
    on_screen: str,
    busy_s: float,
    longest_gap: float,
    limit: int,
) -> Summary:
    log = read_chat(file, "replay", format, strict=strict)
    for problem in log.problems[:10]:
        _notices.print(str(problem), style="yellow", markup=False)
    if len(log.problems) > 10:
        _notices.print(f"... and {len(log.problems) - 10} more", style="yellow")
    if log.bad_rows and not log.events:
        raise InputError.at(file, f"none of its {log.rows} rows could be read as {log.format}", code="chat-unreadable")
    events = log.events[:limit] if limit else log.events
    longest_gap_s = longest_gap or math.inf
    if speed != "max":
        _bearable(file, played_s(events, longest_gap_s) / speed)
    source = CatalogueSource(store)
    catalogue = source.current()
    shown = item_on_screen(catalogue, on_screen)
    harness = load_checked(harness_folder)
    async with AsyncExitStack() as stack:
        policy = await asyncio.to_thread(open_policy, policy_uri, loras=loras, language=harness.language)
        stack.push_async_callback(policy.aclose)
        agent = Agent(policy=policy, operations=shop_operations(), catalogue=source.current)
        fixed = Fixed(harness)
        service = await stack.enter_async_context(AgentService(agent, pick=fixed.pick, load=fixed.load))
        config = RoomConfig(
            room="replay",
            language=harness.language,
            timezone=catalogue.timezone,
            on_screen=shown,
        )
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[requests]} requests"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=_notices) as bar:
            task = bar.add_task(f"{file.name} ({log.format})", total=len(events), requests=0)

            def played(progress: Played) -> None:
                bar.update(task, completed=progress.events, requests=progress.requests)

            return await play(
                events,
                answer=service.answer,
                config=config,
                out=out,
                speed=speed,
                busy_s=busy_s,
                start_at=_start(start_at),
                longest_gap_s=longest_gap_s,
                catalogue=source.current,
                harness_release=fixed.release,
                policy=policy.uri,
                recording={
                    "file": file.name,
                    "format": log.format,
                    "rows": log.rows,
                    "bad_rows": log.bad_rows,
                    "skipped": dict(log.skipped),
                },
                progress=played,
            )
