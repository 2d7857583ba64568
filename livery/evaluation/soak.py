"""A soak: a room at a steady rate for half an hour, watched for whatever grows.

Sampled are memory (RSS), open files, threads, tasks, queues and the sizes of the data folder's files. The first minutes
are warm-up: caches fill. After them memory's slope is a Theil-Sen estimate (the median of all pairs' slopes: single
spikes do not move it), and everything that has a limit is held against it. The limits are the room's and journal's own
settings, so a file may grow as far as they say and no further. Reads ``/proc``: Linux only.

What it cannot say: a leak slower than the machine's noise over the soak's length, and anything of another process, such
as a model server.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from livery.errors import InputError, LiveryError
from livery.evaluation.latency_figures import quantiles
from livery.evaluation.load_room import Answer, LoadedRoom, Wait
from livery.types import Fate, Route

SCHEMA: Final = "livery.soak/1"
WARM_UP: Final = 0.2
"""Of the whole, at most `WARM_UP_S`."""
WARM_UP_S: Final = 300.0
SAMPLES: Final = 360
_PAIRS: Final = 600
"""Points that a slope is estimated from, at most: its pairs grow by the square."""
_LATEST: Final = 2000
_SLACK: Final = 3
"""Open files, threads, tasks and waiting requests may differ by so much between beginning and end: an idle connection,
a worker that has just begun."""
_WAL_MIB: Final = 72.0
"""SQLite's log is cut to 64 MiB at a checkpoint (`livery.room.journal`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    at_s: float
    rss_mib: float
    open_files: int
    threads: int
    tasks: int
    queued: int
    """Messages that wait."""
    waiting: int
    """Requests that wait."""
    in_progress: int
    files: dict[str, float]
    """MiB by name within the data folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What may grow, and how far."""

    slope_mib_per_hour: float
    waiting: int
    """Requests that may wait: the intake's ``queue_requests``."""


@dataclass(slots=True)
class Tally:
    """What came of the messages: counts, and the latest seconds. It does not grow with the soak's length."""

    fates: Counter[Fate] = field(default_factory=Counter[Fate])
    routes: Counter[Route] = field(default_factory=Counter[Route])
    waits: deque[float] = field(default_factory=lambda: deque[float](maxlen=_LATEST))
    agent: deque[float] = field(default_factory=lambda: deque[float](maxlen=_LATEST))
    synthesis: deque[float] = field(default_factory=lambda: deque[float](maxlen=_LATEST))

    def on_wait(self, wait: Wait) -> None:
        if wait.fate is not None:
            self.fates[wait.fate] += 1
        if wait.fate is Fate.ANSWERED:
            self.waits.append(wait.seconds)

    def on_answer(self, answer: Answer) -> None:
        self.routes[answer.route] += 1
        self.agent.append(answer.total_s)


def rss_mib() -> float:
    """Resident memory of this process.

    Raises:
        LiveryError: this system has no ``/proc``.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError as error:
        raise LiveryError("a soak reads /proc, which this system does not have; run it on Linux") from error
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def file_sizes(folder: Path) -> dict[str, float]:
    """MiB of every file in a folder and below."""
    sizes: dict[str, float] = {}
    for path in sorted(folder.rglob("*")):
        try:
            if path.is_file():
                sizes[str(path.relative_to(folder))] = path.stat().st_size / 2**20
        except OSError:  # gone meanwhile
            continue
    return sizes


def slope(at: Sequence[float], values: Sequence[float]) -> float:
    """Theil-Sen: the median slope of all pairs of points, a unit of ``at``; 0 of fewer than two.

    Source: Sen 1968, "Estimates of the regression coefficient based on Kendall's tau".
    """
    stride = -(-len(at) // _PAIRS) if at else 1
    x, y = np.asarray(at[::stride], float), np.asarray(values[::stride], float)
    first, second = np.triu_indices(len(x), 1)
    apart = x[second] - x[first]
    rising = apart > 0
    if not rising.any():
        return 0.0
    return float(np.median((y[second] - y[first])[rising] / apart[rising]))


async def soak(
    loaded: LoadedRoom,
    folder: Path,
    *,
    rate: float,
    minutes: float,
    tally: Tally,
    limits: Limits,
    progress: Callable[[float], None] = lambda seconds: None,
    memory: Callable[[], float] = rss_mib,
) -> dict[str, Any]:
    """Messages at even gaps for so many minutes, then what grew.

    Args:
        folder: the data folder, all of whose files are watched.
        rate: messages a second.
        tally: what the room's waits and answers are told to.
        progress: told of the seconds that have passed.
        memory: MiB of this process.

    Returns:
        The figures for JSON; ``kept`` tells whether nothing grew that may not, ``grew`` what did.

    Raises:
        InputError: no message or no time.
    """
    if not (rate > 0 and minutes > 0):
        raise InputError.at("--minutes", f"found {rate:g} messages a second for {minutes:g} minutes; expected both > 0")
    seconds = minutes * 60
    began = loaded.clock()
    samples: list[Sample] = []

    async def sample() -> None:
        while True:
            at = loaded.clock() - began
            samples.append(_sample(loaded, folder, at, memory()))
            progress(min(at, seconds))
            await loaded.sleep(max(1.0, seconds / SAMPLES))

    sampling = asyncio.create_task(sample())
    try:
        saying = asyncio.create_task(loaded.say_at(i / rate for i in range(int(rate * seconds))))
        await asyncio.wait((saying, sampling), return_when=asyncio.FIRST_COMPLETED)
        if sampling.done():
            saying.cancel()
            sampling.result()
        await saying
    finally:
        sampling.cancel()
        await asyncio.gather(sampling, return_exceptions=True)
    config = loaded.room.config
    await loaded.settle(config.reply_deadline_s + 10.0)
    await loaded.journal.flush()
    rows = await loaded.journal.rows()
    return _figures(loaded, samples, rows, tally, limits, rate, minutes)


def _sample(loaded: LoadedRoom, folder: Path, at_s: float, rss: float) -> Sample:
    stats = loaded.room.stats()
    return Sample(
        at_s=at_s,
        rss_mib=rss,
        open_files=len(os.listdir("/proc/self/fd")),
        threads=threading.active_count(),
        tasks=len(asyncio.all_tasks()),
        queued=stats.queued,
        waiting=stats.waiting_requests,
        in_progress=stats.in_progress,
        files=file_sizes(folder),
    )


def _figures(
    loaded: LoadedRoom,
    samples: Sequence[Sample],
    rows: dict[str, tuple[int, int]],
    tally: Tally,
    limits: Limits,
    rate: float,
    minutes: float,
) -> dict[str, Any]:
    warm = min(WARM_UP * minutes * 60, WARM_UP_S)
    steady = [s for s in samples if s.at_s >= warm] or list(samples)
    at = [s.at_s / 3600 for s in steady]
    memory = slope(at, [s.rss_mib for s in steady])
    counted = {n: _ends(steady, n) for n in ("open_files", "threads", "tasks", "waiting", "queued")}
    files = {n: [_at(steady[0], n), _at(steady[-1], n)] for n in sorted({n for s in steady for n in s.files})}
    most_waiting = max(s.waiting for s in samples)
    unsettled = len(loaded.open)
    grew = [
        f"{name}: {before:g} to {after:g}"
        for name, (before, after) in counted.items()
        if name != "queued" and after > before + _SLACK
    ]
    if memory > limits.slope_mib_per_hour:
        grew.append(f"memory: {memory:.1f} MiB an hour; at most {limits.slope_mib_per_hour:g}")
    if most_waiting > limits.waiting:
        grew.append(f"waiting requests: {most_waiting}; at most {limits.waiting}")
    grew += [f"journal rows of {t}: {n}; at most {most}" for t, (n, most) in rows.items() if n > most + unsettled]
    grew += [f"{n}: {mib[1]:.1f} MiB" for n, mib in files.items() if n.endswith("-wal") and mib[1] > _WAL_MIB]
    grew += [
        f"{n}: {mib[0]:.2f} to {mib[1]:.2f} MiB, which no setting bounds"
        for n, mib in files.items()
        if not n.startswith("journal.") and mib[1] > mib[0]
    ]
    if unsettled:
        grew.append(f"{unsettled} messages without a fate")
    messages = sum(tally.fates.values())
    return {
        "kept": not grew,
        "grew": grew,
        "minutes": minutes,
        "rate_per_s": round(rate, 4),
        "messages": messages,
        "refused": loaded.refused,
        "requests": sum(tally.routes.values()),
        "fates": {f.value: tally.fates[f] for f in Fate},
        "routes": {r.value: tally.routes[r] for r in Route},
        "answered_wait": quantiles(tally.waits, most=True),
        "agent": quantiles(tally.agent, most=True),
        "synthesis": quantiles(tally.synthesis, most=True),
        "warm_up_s": round(warm, 1),
        "samples": len(samples),
        "memory_mib": {
            "start": round(samples[0].rss_mib, 1),
            "warm": round(steady[0].rss_mib, 1),
            "end": round(steady[-1].rss_mib, 1),
            "most": round(max(s.rss_mib for s in samples), 1),
            "slope_per_hour": round(memory, 2),
            "slope_allowed": limits.slope_mib_per_hour,
        },
        **{name: {"before": before, "after": after} for name, (before, after) in counted.items()},
        "most": {
            "queued": max(s.queued for s in samples),
            "waiting": most_waiting,
            "waiting_allowed": limits.waiting,
            "in_progress": max(s.in_progress for s in samples),
        },
        "files_mib": {n: [round(v, 3) for v in mib] for n, mib in files.items()},
        "journal": {table: {"rows": n, "at_most": most} for table, (n, most) in rows.items()},
        "journal_kib_a_message": round(
            1024 * sum(mib[1] for n, mib in files.items() if n == "journal.db") / max(1, loaded.said), 2
        ),
    }


def _ends(samples: Sequence[Sample], name: str) -> tuple[float, float]:
    """Medians over the first and the last quarter."""
    values = [float(getattr(s, name)) for s in samples]
    part = max(1, len(values) // 4)
    return float(np.median(values[:part])), float(np.median(values[-part:]))


def _at(sample: Sample, name: str) -> float:
    return sample.files.get(name, 0.0)
