"""A run, and a comparison of two, as files: ``report.json`` for programs, ``report.html`` for people.

The page stands alone: no script, no outside font or image, charts as inline SVG; everything a policy, viewer or harness
wrote is escaped by the template (Jinja2's autoescape). Numbers come from `livery.evaluation.statistics`; nothing is
counted here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined

from livery.evaluation.results import Result
from livery.evaluation.robustness_figures import robustness
from livery.evaluation.statistics import (
    DRAWS,
    FEW,
    MEASURES,
    Comparison,
    Difference,
    Estimate,
    Slice,
    SliceDifference,
    Summary,
)

S = TypeVar("S", Slice, SliceDifference)

REPORT_JSON: Final = "report.json"
REPORT_HTML: Final = "report.html"
SHOWN: Final = 40
"""Tasks that lost points and stand on the page; all of them are in the results."""

TITLES: Final[Mapping[str, str]] = {
    "avg": "AVG",
    "accuracy": "Accuracy",
    "effectiveness": "Effectiveness",
    "tool_rationality": "Tool rationality",
    "skill_selection": "Skill selection",
    "kind": "By kind",
    "intent": "By intent",
    "tag": "By tag",
    "dimension": "By dimension of the variant",
    "operator": "By operator of the variant",
    "route": "By route",
}


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear axis in an SVG, from value to pixel."""

    low: float
    high: float
    left: float
    right: float

    def __call__(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(self.left + share * (self.right - self.left), 1)

    @property
    def ticks(self) -> list[tuple[float, float]]:
        """(pixel, value) of about five round values."""
        span = self.high - self.low
        step = next(s for s in (1, 2, 5, 10, 20, 25, 50, 100) if span / s <= 6)
        first = -(-self.low // step) * step
        values = [first + i * step for i in range(int((self.high - first) // step) + 1)]
        return [(self(v), v) for v in values]


def fitted(lows: Sequence[float], highs: Sequence[float], *, left: float, right: float, signed: bool = False) -> Scale:
    """An axis that holds every interval: 0-100 where scores are that wide apart, else the part they need.

    Args:
        signed: differences: zero stands on the axis, and it may be below.
    """
    low, high = min(lows, default=0.0), max(highs, default=100.0)
    if signed:
        reach = max(5.0, -5.0 * (-max(abs(low), abs(high)) // 5))
        below, above = (low < 0, high > 0) if low or high else (True, True)
        return Scale(-reach if below else 0.0, reach if above else 0.0, left, right)
    return Scale(max(0.0, min(90.0, low // 10 * 10)), 100.0, left, right)


def write_report(out: Path, run: Mapping[str, Any], results: Sequence[Result], summary: Summary, size: int) -> None:
    """Write both files of a run.

    Args:
        run: its recipe (`livery.evaluation.run.read_run`).
        results: of the summary.
        size: tasks in the whole set.
    """
    data = run_json(run, results, summary, size)
    _write(out / REPORT_JSON, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    lost = [r for r in results if not r.scores.full]
    lost.sort(key=lambda r: (r.scores.accuracy + r.scores.effectiveness, r.index))
    page = _page(
        "report.html",
        title=f"{run.get('suite', '')} · {run.get('policy', '')}",
        run=run,
        data=data,
        summary=summary,
        groups=by_kind(summary.slices),
        lost=lost[:SHOWN],
        lost_count=len(lost),
        weights=data["weights"],
        robust=robustness(results),
    )
    _write(out / REPORT_HTML, page)


def run_json(run: Mapping[str, Any], results: Sequence[Result], summary: Summary, size: int) -> dict[str, Any]:
    """A run for programs."""
    robust = robustness(results)
    return {
        "schema": "livery.report/1",
        "run": dict(run),
        "tasks": summary.n,
        "of": size,
        "weights": sorted({r.weights for r in results if r.weights}),
        **{m: summary.measures[m].to_json() for m in MEASURES},
        "bootstrap": {"draws": DRAWS, "level": 95, "unit": "task"},
        **({"robustness": robust.to_json()} if robust else {}),
        "slices": {
            kind: [
                {
                    "name": s.name,
                    **s.avg.to_json(),
                    **{m: round(s.measures[m], 2) for m in MEASURES[1:]},
                    "rest": None if s.rest is None else round(s.rest, 2),
                }
                for s in slices
            ]
            for kind, slices in by_kind(summary.slices).items()
        },
        "routes": dict(summary.routes),
        "reasons": dict(summary.reasons),
        "costs": dict(summary.costs),
    }


def write_comparison(
    out: Path, a: Mapping[str, Any], b: Mapping[str, Any], compared: Comparison, *, names: tuple[str, str]
) -> None:
    """Write ``compare.json`` and ``compare.html``.

    Args:
        a, b: the runs' recipes.
        names: what to call them.
    """
    data = comparison_json(a, b, compared, names=names)
    _write(out / "compare.json", json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    page = _page(
        "compare.html",
        title=f"{names[1]} against {names[0]}",
        runs=(a, b),
        names=names,
        compared=compared,
        groups=by_kind(compared.slices),
    )
    _write(out / "compare.html", page)


def comparison_json(
    a: Mapping[str, Any], b: Mapping[str, Any], compared: Comparison, *, names: tuple[str, str]
) -> dict[str, Any]:
    """A comparison for programs: b less a."""
    return {
        "schema": "livery.comparison/1",
        "a": {"name": names[0], "run": dict(a), **{m: e.to_json() for m, e in compared.a.items()}},
        "b": {"name": names[1], "run": dict(b), **{m: e.to_json() for m, e in compared.b.items()}},
        "tasks": compared.n,
        "only_a": compared.only_a,
        "only_b": compared.only_b,
        "bootstrap": {"draws": DRAWS, "level": 95, "unit": "task, in pairs"},
        "difference": {m: d.to_json() for m, d in compared.differences.items()},
        "slices": {
            kind: [{"name": s.name, "a": round(s.a, 2), "b": round(s.b, 2), **s.difference.to_json()} for s in slices]
            for kind, slices in by_kind(compared.slices).items()
        },
    }


def by_kind(slices: Sequence[S]) -> dict[str, list[S]]:
    """Slices of each kind, in their order."""
    kinds: dict[str, list[S]] = {}
    for one in slices:
        kinds.setdefault(one.kind, []).append(one)
    return kinds


def said(estimate: Estimate | Difference, *, signed: bool = False) -> str:
    """As people read it: ``93.4 (92.1-94.6)``."""
    form = "+.1f" if signed else ".1f"
    return f"{estimate.value:{form}} ({estimate.low:{form}} to {estimate.high:{form}})"


def _page(name: str, **values: Any) -> str:
    pages = Environment(
        loader=PackageLoader("livery.evaluation"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return pages.get_template(name).render(
        titles=TITLES, measures=MEASURES, said=said, fitted=fitted, few=FEW, draws=DRAWS, **values
    )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
