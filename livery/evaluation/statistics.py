"""What results say, with intervals: a run alone, and two runs task by task.

All figures are in points (0-100). AVG is the mean of accuracy and effectiveness. Intervals are percentile bootstraps
over tasks (Efron and Tibshirani 1993, chapter 13), seeded, so that the same results give the same interval. Two runs
are compared on the tasks both have, resampled in pairs: what makes a task hard for both does not blur the difference.

What an interval cannot say: how another draw of the model's own training would do (compare seeds for that), and much of
anything on a slice where all tasks ended alike, where it has no width; `Estimate.few` marks the small ones. Slices are
not corrected for their number: of a hundred, five miss their interval by chance.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from livery.errors import InputError
from livery.evaluation.results import Result

MEASURES: Final = ("avg", "accuracy", "effectiveness", "tool_rationality", "skill_selection")
SLICES: Final = ("kind", "intent", "tag", "dimension", "operator", "route")
DRAWS: Final = 2000
LEVEL: Final = 0.95
FEW: Final = 30
"""Tasks below which an estimate is marked."""
_CHUNK: Final = 2_000_000
"""Indices drawn at a time."""

LONGEST: Final = 90
"""Characters of a kind of loss."""
_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_PASSED: Final = re.compile(r" with \{.*", re.DOTALL)
_NUMBER: Final = re.compile(r"\d[\d.,:]*")

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its interval, in points."""

    value: float
    low: float
    high: float
    n: int
    """Tasks."""

    @property
    def few(self) -> bool:
        return self.n < FEW

    def to_json(self) -> dict[str, Any]:
        return {"value": _two(self.value), "low": _two(self.low), "high": _two(self.high), "n": self.n}


@dataclass(frozen=True, slots=True)
class Slice:
    """The tasks that have one thing in common."""

    kind: str
    """Of `SLICES`."""
    name: str
    avg: Estimate
    measures: Mapping[str, float]
    """Every one of `MEASURES`."""
    rest: float | None
    """AVG of all other tasks; None where there are none. Beside operators it shows what each costs: variants hold
    several at once, so the interval alone does not."""


@dataclass(frozen=True, slots=True)
class Summary:
    """One run."""

    n: int
    measures: Mapping[str, Estimate]
    slices: tuple[Slice, ...]
    routes: Mapping[str, int]
    reasons: Mapping[str, int]
    """Kind of loss -> tasks, most frequent first."""
    costs: Mapping[str, float]
    """Means a task of rounds, calls, replies sent back and tokens; seconds at the median and the 95th percentile."""


@dataclass(frozen=True, slots=True)
class Difference:
    """B less A on the same tasks, in points."""

    value: float
    low: float
    high: float
    n: int
    kept: Estimate | None
    """B as a share of A, in per cent; None where A earned nothing."""
    not_better: float
    """Share of draws in which B was no better than A (one-sided)."""
    better: int
    same: int
    worse: int
    """Tasks."""

    @property
    def few(self) -> bool:
        return self.n < FEW

    def to_json(self) -> dict[str, Any]:
        return {
            "value": _two(self.value),
            "low": _two(self.low),
            "high": _two(self.high),
            "n": self.n,
            "kept_percent": self.kept.to_json() if self.kept else None,
            "share_of_draws_not_better": round(self.not_better, 4),
            "better": self.better,
            "same": self.same,
            "worse": self.worse,
        }


@dataclass(frozen=True, slots=True)
class SliceDifference:
    kind: str
    name: str
    a: float
    b: float
    difference: Difference


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs on the tasks both have."""

    n: int
    only_a: int
    only_b: int
    a: Mapping[str, Estimate]
    b: Mapping[str, Estimate]
    differences: Mapping[str, Difference]
    slices: tuple[SliceDifference, ...]
    """By intent and tag, and by dimension and operator of the run that has variants (B's, if both)."""


def points(results: Sequence[Result]) -> dict[str, Floats]:
    """`MEASURES` of every result in points, shape (n,) each."""
    columns = {
        name: np.array([100.0 * float(getattr(r.scores, name)) for r in results], dtype=np.float64)
        for name in MEASURES[1:]
    }
    return {"avg": (columns["accuracy"] + columns["effectiveness"]) / 2, **columns}


def resampled(values: Floats, *, seed: int = 0, draws: int = DRAWS) -> Floats:
    """Means of ``values`` (n, k) over tasks drawn with replacement, shape (draws, k). Equal n and seed draw the same
    tasks."""
    n = len(values)
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // n)
    means = [values[rng.integers(n, size=(min(step, draws - at), n))].mean(axis=1) for at in range(0, draws, step)]
    return np.concatenate(means)


def interval(samples: Floats, level: float = LEVEL) -> tuple[float, float]:
    """The middle ``level`` of bootstrap samples, shape (draws,)."""
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def estimate(values: Floats, *, seed: int = 0, draws: int = DRAWS) -> Estimate:
    """Mean and interval of values of shape (n,).

    Raises:
        ValueError: no value.
    """
    if not len(values):
        raise ValueError("found no result; expected one at least")
    low, high = interval(resampled(values[:, None], seed=seed, draws=draws)[:, 0])
    return Estimate(float(values.mean()), low, high, len(values))


def summarise(results: Sequence[Result], *, seed: int = 0, draws: int = DRAWS) -> Summary:
    """All there is to say of one run.

    Raises:
        InputError: no result.
    """
    if not results:
        raise InputError.at("results", "found no result; expected one at least", code="no-results")
    columns = points(results)
    avg = columns["avg"]
    slices: list[Slice] = []
    for kind in SLICES:
        for name, rows in grouped(results, kind).items():
            mine = np.zeros(len(results), dtype=bool)
            mine[rows] = True
            rest = None if mine.all() else float(avg[~mine].mean())
            means = {m: float(columns[m][mine].mean()) for m in MEASURES}
            slices.append(Slice(kind, name, estimate(avg[mine], seed=seed, draws=draws), means, rest))
    return Summary(
        n=len(results),
        measures={m: estimate(columns[m], seed=seed, draws=draws) for m in MEASURES},
        slices=tuple(slices),
        routes=dict(Counter(r.route for r in results).most_common()),
        reasons=dict(Counter(k for r in results for k in kinds_of_loss(r)).most_common()),
        costs=_costs(results),
    )


def grouped(results: Sequence[Result], kind: str) -> dict[str, list[int]]:
    """Places of the results of each slice of a kind, the largest first; a result may stand in several."""
    members: Mapping[str, Callable[[Result], Iterable[str]]] = {
        "kind": lambda r: (r.kind,) if r.kind else (),
        "intent": lambda r: r.intents,
        "tag": lambda r: r.tags,
        "dimension": lambda r: r.dimensions,
        "operator": lambda r: dict.fromkeys(r.operators),
        "route": lambda r: (r.route,),
    }
    groups: dict[str, list[int]] = {}
    for i, result in enumerate(results):
        for name in members[kind](result):
            groups.setdefault(name, []).append(i)
    return dict(sorted(groups.items(), key=lambda g: (-len(g[1]), g[0])))


def kinds_of_loss(result: Result) -> tuple[str, ...]:
    """What a result lost points for, without particulars: what was quoted, counted or passed."""
    return tuple(dict.fromkeys(_kind_of(reason) for reason in result.scores.reasons))


def _kind_of(reason: str) -> str:
    plain = _NUMBER.sub("#", _QUOTED.sub("…", _PASSED.sub("", reason)))
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 1] + "…"


def _costs(results: Sequence[Result]) -> dict[str, float]:
    def mean(name: str) -> float:
        return sum(float(getattr(r, name)) for r in results) / len(results)

    seconds = np.array([r.seconds for r in results])
    names = ("rounds", "calls", "sent_back", "output_tokens", "reasoning_call_tokens", "reasoning_reply_tokens")
    return {
        **{name: round(mean(name), 3) for name in names},
        "seconds_p50": round(float(np.quantile(seconds, 0.5)), 4),
        "seconds_p95": round(float(np.quantile(seconds, 0.95)), 4),
    }


# -------------------------------------------------------------------------------------- two runs


def compare(a: Sequence[Result], b: Sequence[Result], *, seed: int = 0, draws: int = DRAWS) -> Comparison:
    """B against A on the tasks both have.

    Raises:
        InputError: they share no task.
    """
    by_task = {r.task: r for r in b}
    pairs = [(r, by_task[r.task]) for r in a if r.task in by_task]
    if not pairs:
        raise InputError.at("results", "the two runs share no task; expected runs over the same tasks", code="no-pairs")
    left, right = [p[0] for p in pairs], [p[1] for p in pairs]
    mine, theirs = points(left), points(right)
    slices: list[SliceDifference] = []
    worn = right if any(r.operators for r in right) else left
    for kind in ("kind", "intent", "tag", "dimension", "operator"):
        for name, rows in grouped(worn, kind).items():
            x, y = mine["avg"][rows], theirs["avg"][rows]
            found = difference(x, y, seed=seed, draws=draws)
            slices.append(SliceDifference(kind, name, float(x.mean()), float(y.mean()), found))
    return Comparison(
        n=len(pairs),
        only_a=len(a) - len(pairs),
        only_b=len(b) - len(pairs),
        a={m: estimate(mine[m], seed=seed, draws=draws) for m in MEASURES},
        b={m: estimate(theirs[m], seed=seed, draws=draws) for m in MEASURES},
        differences={m: difference(mine[m], theirs[m], seed=seed, draws=draws) for m in MEASURES},
        slices=tuple(slices),
    )


def difference(a: Floats, b: Floats, *, seed: int = 0, draws: int = DRAWS) -> Difference:
    """B less A, resampled in pairs.

    Args:
        a, b: points of the same tasks in the same order, shape (n,).
    """
    samples = resampled(np.stack([a, b], axis=1), seed=seed, draws=draws)
    gains = samples[:, 1] - samples[:, 0]
    low, high = interval(gains)
    kept: Estimate | None = None
    if a.mean() > 0:
        some = samples[samples[:, 0] > 0]
        kept = Estimate(float(100 * b.mean() / a.mean()), *interval(100 * some[:, 1] / some[:, 0]), len(a))
    return Difference(
        value=float(b.mean() - a.mean()),
        low=low,
        high=high,
        n=len(a),
        kept=kept,
        not_better=float((gains <= 0).mean()),
        better=int((b > a).sum()),
        same=int((b == a).sum()),
        worse=int((b < a).sum()),
    )


def _two(value: float) -> float:
    return round(value, 2)
