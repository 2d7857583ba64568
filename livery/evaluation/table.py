"""One table over many runs: what each policy earns on every set, what it keeps, and what it costs.

A row is a policy, a column a figure with its 95 % interval: AVG of T1, T2 and T3; what T2 keeps of T1; the worst format
of T3 and the spread over formats; IFEval (T4); the share of errors that an edit of the harness takes away; reasoning
before calls and before replies; time. The figures are those of `livery.evaluation.statistics` and its neighbours; which
runs may stand together is decided in `livery.evaluation.table_runs`, the looks in `livery.evaluation.table_page`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from livery.evaluation.edits_reduction import error_reduction
from livery.evaluation.ifeval_figures import figures
from livery.evaluation.results import Result
from livery.evaluation.robustness_figures import robustness
from livery.evaluation.statistics import DRAWS, Estimate, Floats, difference, estimate, interval, points
from livery.evaluation.table_runs import TableRun, labelled

_TIMED_SEED: Final = 0
TOKENS: Final[Mapping[str, str]] = {
    "reasoning_call_tokens": "Reasoning before calls",
    "reasoning_reply_tokens": "Reasoning before replies",
    "output_tokens": "Tokens written",
}
"""Costs of a request, in tokens."""
SECONDS: Final[Mapping[str, float]] = {"seconds_p50": 0.5, "seconds_p95": 0.95}


@dataclass(frozen=True, slots=True)
class Figure:
    """One cell."""

    value: float
    low: float | None = None
    """None, as ``high``: no interval can be given, because only a report was there."""
    high: float | None = None
    n: int = 0
    name: str = ""
    """What the figure is of, where the column does not say: the worst format."""

    @classmethod
    def of(cls, one: Estimate, name: str = "") -> Figure:
        return cls(one.value, one.low, one.high, one.n, name)

    @classmethod
    def read(cls, data: Mapping[str, Any], name: str = "") -> Figure:
        """From what a report holds."""
        return cls(float(data["value"]), data.get("low"), data.get("high"), int(data.get("n", 0)), name)

    def to_json(self) -> dict[str, Any]:
        rounded = {k: None if v is None else round(v, 2) for k, v in (("low", self.low), ("high", self.high))}
        found: dict[str, Any] = {"value": round(self.value, 2), **rounded, "n": self.n}
        return {**found, "name": self.name} if self.name else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What a request of one set takes."""

    suite: str
    tokens: Mapping[str, Figure]
    """`TOKENS`' names."""
    seconds: Mapping[str, Figure]
    """`SECONDS`' names, of the loop."""
    alone: bool
    """Whether requests were played one at a time: else seconds are no latency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A policy."""

    label: str
    language: str
    runs: Mapping[str, TableRun]
    """Set -> run."""
    scores: Mapping[str, Figure]
    """Column -> figure: ``t1``, ``t2``, ``kept``, ``t3``, ``t3_worst``, ``t3_spread``, ``t4_prompt``,
    ``t4_instruction``, ``edits``; those that the runs give."""
    effectiveness: Mapping[str, Figure]
    """``t1``, ``t2``, ``kept``, ``t3``. Silence earns half of AVG and none of this."""
    dimensions: Mapping[str, Figure]
    """Set of one dimension -> AVG, and ``SET kept`` -> what it keeps of T1."""
    costs: tuple[Costs, ...]


@dataclass(frozen=True, slots=True)
class Comparative:
    """The table."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    """What to heed in reading it."""

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": "livery.table/1",
            "bootstrap": {"draws": DRAWS, "level": 95, "unit": "task"},
            "rows": [_row_json(row) for row in self.rows],
            "notes": list(self.notes),
        }


def _row_json(row: Row) -> dict[str, Any]:
    def plain(found: Mapping[str, Figure]) -> dict[str, Any]:
        return {name: one.to_json() for name, one in found.items()}

    return {
        "label": row.label,
        "language": row.language,
        "runs": {
            name: {"source": str(r.source), "policy": r.policy, "weights": r.weights, "tasks": r.tasks, "n": r.n}
            for name, r in row.runs.items()
        },
        "scores": plain(row.scores),
        "effectiveness": plain(row.effectiveness),
        "dimensions": plain(row.dimensions),
        "costs": [
            {"suite": c.suite, **plain(c.tokens), **plain(c.seconds), "one_at_a_time": c.alone} for c in row.costs
        ],
    }


def build_table(
    sources: Sequence[Path], labels: Mapping[str, Sequence[Path]] | None = None, *, draws: int = DRAWS
) -> Comparative:
    """
    Args:
        sources: runs (`livery.evaluation.table_runs.load_run`); those of one policy make a row.
        labels: name of a row -> its runs.
        draws: of every bootstrap.

    Raises:
        InputError: as `livery.evaluation.table_runs.labelled`.
    """
    runs = labelled(sources, labels or {})
    grouped: dict[tuple[str, str], dict[str, TableRun]] = {}
    for run in runs:
        grouped.setdefault((run.label, run.language), {})[run.suite] = run
    rows = tuple(_row(label, language, found, draws) for (label, language), found in grouped.items())
    return Comparative(rows, tuple(_notes(rows, runs)))


def _row(label: str, language: str, runs: Mapping[str, TableRun], draws: int) -> Row:
    avg, effectiveness = (_means(runs, measure, draws) for measure in ("avg", "effectiveness"))
    dimensions: dict[str, Figure] = {}
    for suite in runs:
        if suite.startswith("t2-"):
            dimensions[suite] = _mean(runs[suite], "avg", draws)
            kept = _kept(runs.get("t1"), runs[suite], "avg", draws)
            if kept is not None:
                dimensions[f"{suite} kept"] = kept
    scores = {**avg, **_formats(runs.get("t3"), draws), **_ifeval(runs.get("t4"), draws), **_edits(runs, draws)}
    harnessed = [run for run in runs.values() if run.kind == "harness" and not run.suite.startswith("t2-")]
    costs = tuple(_costs(run, draws) for run in harnessed)
    return Row(
        label=label,
        language=language,
        runs=runs,
        scores=scores,
        effectiveness=effectiveness,
        dimensions=dimensions,
        costs=costs,
    )


def _means(runs: Mapping[str, TableRun], measure: str, draws: int) -> dict[str, Figure]:
    found = {suite: _mean(runs[suite], measure, draws) for suite in ("t1", "t2", "t3") if suite in runs}
    kept = _kept(runs.get("t1"), runs.get("t2"), measure, draws)
    return found if kept is None else {**found, "kept": kept}


def _mean(run: TableRun, measure: str, draws: int) -> Figure:
    if run.results:
        return Figure.of(estimate(points(run.results)[measure], draws=draws))
    return Figure.read((run.report or {})[measure])


def _kept(base: TableRun | None, other: TableRun | None, measure: str, draws: int) -> Figure | None:
    """What the one keeps of the other, in per cent: on the tasks both have, resampled in pairs. Two reports alone give
    their ratio, without an interval, where both are of equally many tasks."""
    if base is None or other is None or base.recipe.get("base") != other.recipe.get("base"):
        return None
    if not base.results or not other.results:
        a, b = _mean(base, measure, draws), _mean(other, measure, draws)
        return Figure(100 * b.value / a.value, n=a.n) if a.value and a.n == b.n else None
    theirs = {r.task: r for r in other.results}
    pairs = [(r, theirs[r.task]) for r in base.results if r.task in theirs]
    if not pairs:
        return None
    before, after = (points([p[i] for p in pairs])[measure] for i in (0, 1))
    kept = difference(before, after, draws=draws).kept
    return None if kept is None else Figure.of(kept)


def _formats(run: TableRun | None, draws: int) -> dict[str, Figure]:
    if run is None:
        return {}
    if not run.results:
        formats: Any = (run.report or {}).get("robustness", {}).get("formats")
        if not formats:
            return {}
        worst = next(f for f in formats["formats"] if f["name"] == formats["worst"]["name"])
        spread = {**formats["spread"], "n": formats["questions"]}
        return {"t3_worst": Figure.read(worst["avg"], worst["name"]), "t3_spread": Figure.read(spread)}
    found = robustness(run.results, draws=draws)
    if found is None or found.grid is None:
        return {}
    grid = found.grid
    return {
        "t3_worst": Figure.of(grid.worst.avg, grid.worst.name),
        "t3_spread": Figure(grid.spread, grid.spread_low, grid.spread_high, grid.questions),
    }


def _ifeval(run: TableRun | None, draws: int) -> dict[str, Figure]:
    if run is None:
        return {}
    names = {"t4_prompt": "prompt_strict", "t4_instruction": "instruction_strict"}
    if run.responses:
        measures = figures(run.responses, draws=draws).measures
        return {column: Figure.of(measures[name]) for column, name in names.items()}
    return {column: Figure.read((run.report or {})[name]) for column, name in names.items()}


def _edits(runs: Mapping[str, TableRun], draws: int) -> dict[str, Figure]:
    old, new = runs.get("edits-old"), runs.get("edits-new")
    if old is None or new is None or not old.results or not new.results:
        return {}
    if old.recipe.get("base") != new.recipe.get("base"):
        return {}
    found = error_reduction(old.results, new.results, draws=draws).whole.reduction
    return {} if found is None else {"edits": Figure.of(found)}


# ------------------------------------------------------------------------------------------ costs


def _costs(run: TableRun, draws: int) -> Costs:
    if run.results:
        tokens = {name: Figure.of(estimate(_column(run.results, name), draws=draws)) for name in TOKENS}
        took = _column(run.results, "seconds")
        seconds = {name: quantile(took, q, draws=draws) for name, q in SECONDS.items()}
    else:
        written: Mapping[str, Any] = (run.report or {}).get("costs", {})
        tokens = {name: Figure(float(written[name]), n=run.n) for name in TOKENS if name in written}
        seconds = {name: Figure(float(written[name]), n=run.n) for name in SECONDS if name in written}
    return Costs(suite=run.suite, tokens=tokens, seconds=seconds, alone=run.alone)


def _column(results: Sequence[Result], name: str) -> Floats:
    return np.array([float(getattr(r, name)) for r in results], dtype=np.float64)


def quantile(values: Floats, q: float, *, seed: int = _TIMED_SEED, draws: int = DRAWS) -> Figure:
    """A quantile with its percentile-bootstrap interval.

    Args:
        values: shape (n,), n at least 1.
        q: 0 to 1.
    """
    rng = np.random.default_rng(seed)
    samples = [np.quantile(values[rng.integers(len(values), size=len(values))], q) for _ in range(draws)]
    low, high = interval(np.array(samples))
    return Figure(float(np.quantile(values, q)), low, high, len(values))


# ------------------------------------------------------------------------------------------ notes


def _notes(rows: Sequence[Row], runs: Sequence[TableRun]) -> list[str]:
    notes: list[str] = []
    for suite in dict.fromkeys(r.suite for r in runs):
        column = [r for r in runs if r.suite == suite]
        for language in dict.fromkeys(r.language for r in column):
            mine = [r for r in column if r.language == language]
            name = suite if language == "en" else f"{suite} ({language})"
            sizes = sorted({r.n for r in mine})
            if len(sizes) > 1:
                notes.append(f"{name}: runs of {' and '.join(f'{n:,}' for n in sizes)} tasks stand in one column.")
            if len({r.recipe.get("base") for r in mine}) > 1:
                notes.append(
                    f"{name}: the base harnesses differ, so these figures compare policies and harnesses at once."
                )
            limits = sorted({int(r.recipe["max_tokens"]) for r in mine if "max_tokens" in r.recipe})
            if len(limits) > 1:
                notes.append(f"{name}: responses were limited to {' and '.join(map(str, limits))} tokens.")
    for row in rows:
        harnessed = {
            r.recipe.get("base") for r in row.runs.values() if r.kind == "harness" and r.suite[:2] in ("t1", "t2")
        }
        if len(harnessed) > 1:
            notes.append(f"{row.label}: T1 and T2 were played over different bases; no share kept is given.")
        if len({r.weights for r in row.runs.values()}) > 1:
            notes.append(f"{row.label}: its runs report different weights.")
    if any(r.report is not None and not (r.results or r.responses) for r in runs):
        notes.append("Figures from a report alone have the intervals that stand in it, and shares kept have none.")
    if any(not c.alone for row in rows for c in row.costs):
        notes.append("†: requests were played side by side, or it is not known: seconds, but no latency.")
    return notes
