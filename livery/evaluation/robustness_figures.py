"""What a run of T3 says: each kind with its intervals, and how much the form of the prompt alone moves a policy.

The formats ask the same questions, so their means are resampled together, question by question. The spread, best less
worst, is never negative and grows with the number of formats even where form does not matter; beside it stands the
spread that chance gives when each question's scores are dealt out to the formats at random (a permutation test).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from livery.evaluation.results import Result
from livery.evaluation.robustness import FORMAT, KINDS, question_of
from livery.evaluation.robustness_harness import FORMATS
from livery.evaluation.statistics import DRAWS, MEASURES, Estimate, Floats, estimate, interval, points, resampled

AXES: Final = ("tools", "results", "heading", "skills")
"""What formats differ in."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The tasks of one kind."""

    name: str
    avg: Estimate
    effectiveness: Estimate
    measures: Mapping[str, float]
    """Every one of `MEASURES`, in points."""

    def to_json(self) -> dict[str, Any]:
        means = {m: round(self.measures[m], 2) for m in MEASURES if m not in ("avg", "effectiveness")}
        return {
            "name": self.name,
            "n": self.avg.n,
            "avg": self.avg.to_json(),
            "effectiveness": self.effectiveness.to_json(),
            **means,
        }


@dataclass(frozen=True, slots=True)
class FormatGrid:
    """One set of questions in every format."""

    questions: int
    """Those that were asked in every format; others are left out."""
    mean: float
    """AVG over all of it, in points, as all that follows."""
    formats: tuple[Kind, ...]
    """The best first."""
    spread: float
    """AVG of the best format less that of the worst."""
    spread_low: float
    spread_high: float
    """Of the spread, resampled by question."""
    chance: float
    """Mean spread where the form does not matter."""
    p: float
    """Share of random deals whose spread is as wide."""
    axes: Mapping[str, Mapping[str, float]]
    """What formats differ in -> each form of it -> AVG of its formats."""

    @property
    def worst(self) -> Kind:
        return self.formats[-1]

    @property
    def best(self) -> Kind:
        return self.formats[0]

    def to_json(self) -> dict[str, Any]:
        return {
            "questions": self.questions,
            "mean": round(self.mean, 2),
            "worst": {"name": self.worst.name, "avg": round(self.worst.avg.value, 2)},
            "best": {"name": self.best.name, "avg": round(self.best.avg.value, 2)},
            "spread": {
                "value": round(self.spread, 2),
                "low": round(self.spread_low, 2),
                "high": round(self.spread_high, 2),
                "by_chance": round(self.chance, 2),
                "p": round(self.p, 4),
            },
            "formats": [k.to_json() for k in self.formats],
            "axes": {axis: {form: round(v, 2) for form, v in forms.items()} for axis, forms in self.axes.items()},
        }


@dataclass(frozen=True, slots=True)
class Robustness:
    kinds: tuple[Kind, ...]
    """In the order of `KINDS`."""
    grid: FormatGrid | None
    """None where no question was asked in every format."""

    def to_json(self) -> dict[str, Any]:
        return {
            "kinds": [k.to_json() for k in self.kinds],
            "formats": None if self.grid is None else self.grid.to_json(),
        }

    def brief(self) -> dict[str, Any]:
        """For one line: AVG by kind; of the grid its mean, worst format and spread."""
        found: dict[str, Any] = {
            "kinds": {
                k.name: {"avg": round(k.avg.value, 2), "effectiveness": round(k.effectiveness.value, 2), "n": k.avg.n}
                for k in self.kinds
            }
        }
        if self.grid is not None:
            whole = self.grid.to_json()
            found["formats"] = {name: whole[name] for name in ("questions", "mean", "worst", "best", "spread")}
        return found


def robustness(results: Sequence[Result], *, seed: int = 0, draws: int = DRAWS) -> Robustness | None:
    """The figures of T3; None of a run that has no kinds, or kinds of another set."""
    by_kind: dict[str, list[Result]] = {}
    for result in results:
        by_kind.setdefault(result.kind, []).append(result)
    kinds = tuple(_kind(name, by_kind[name], seed=seed, draws=draws) for name in KINDS if name in by_kind)
    if not kinds:
        return None
    return Robustness(kinds, _grid(by_kind, seed=seed, draws=draws))


def _kind(name: str, results: Sequence[Result], *, seed: int, draws: int) -> Kind:
    columns = points(results)
    return Kind(
        name,
        estimate(columns["avg"], seed=seed, draws=draws),
        estimate(columns["effectiveness"], seed=seed, draws=draws),
        {m: float(columns[m].mean()) for m in MEASURES},
    )


def _grid(by_kind: Mapping[str, Sequence[Result]], *, seed: int, draws: int) -> FormatGrid | None:
    names = [f"{FORMAT}{f.name}" for f in FORMATS]
    found = {n: {question_of(r.task, n): r for r in by_kind.get(n, ())} for n in names}
    questions = sorted(set[str].intersection(*(set(rows) for rows in found.values())))
    if not questions:
        return None
    rows = {n: [found[n][q] for q in questions] for n in names}
    scores = np.stack([points(rows[n])["avg"] for n in names], axis=1)  # (questions, formats)
    spread = _spread(scores.mean(axis=0))
    low, high = interval(_spread(resampled(scores, seed=seed, draws=draws)))
    dealt = _dealt(scores, seed=seed, draws=draws)
    kinds = [_kind(n, rows[n], seed=seed, draws=draws) for n in names]
    order = sorted(range(len(names)), key=lambda i: (-kinds[i].avg.value, i))
    return FormatGrid(
        questions=len(questions),
        mean=float(scores.mean()),
        formats=tuple(kinds[i] for i in order),
        spread=float(spread),
        spread_low=low,
        spread_high=high,
        chance=float(dealt.mean()),
        p=float((dealt >= spread - 1e-9).mean()),
        axes={
            axis: {
                form: float(scores[:, [getattr(f, axis) == form for f in FORMATS]].mean())
                for form in dict.fromkeys(str(getattr(f, axis)) for f in FORMATS)
            }
            for axis in AXES
        },
    )


def _spread(means: Floats) -> Floats:
    """Largest less smallest of the last axis."""
    return means.max(axis=-1) - means.min(axis=-1)


def _dealt(scores: Floats, *, seed: int, draws: int) -> Floats:
    """Spreads when each question's scores (a row) are dealt out to the formats at random, shape (draws,)."""
    rng = np.random.default_rng(seed)
    return np.array([_spread(rng.permuted(scores, axis=1).mean(axis=0)) for _ in range(draws)])
