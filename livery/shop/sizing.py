"""Size advice from a product's chart: which size a body's measures fall into, or an honest "between".

Nothing is guessed: a measure that the chart lacks is not used, and a body off the chart is told so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from livery.shop.catalogue import Measure, SizeChart


@dataclass(frozen=True, slots=True)
class Advice:
    result: Literal["fits", "between", "off_chart"]
    """``between``: the measures fall into two sizes or between them; ``off_chart``: outside every size."""
    sizes: tuple[str, ...]
    """One for ``fits``; two, smaller first, for ``between``; the nearest for ``off_chart``."""
    used: tuple[Measure, ...]
    """Measures that decided."""


def advise(chart: SizeChart, body: Mapping[Measure, float], usual: str = "") -> Advice | None:
    """Advice by the measures that both the chart and ``body`` have; None where they share none.

    Args:
        usual: size usually worn; it decides between two that both fit.
    """
    used: tuple[Measure, ...] = tuple(m for m in chart.measures if m in body)
    if not used:
        return None
    last = len(chart.rows) - 1
    spans: list[tuple[int, int]] = []
    off: set[int] = set()
    for measure in used:
        low, high = _span(chart, measure, body[measure])
        if low > last or high < 0:
            off.add(last if low > last else 0)
        spans.append((min(max(low, 0), last), max(min(high, last), 0)))
    if off:
        return Advice("off_chart", tuple(chart.rows[i].size for i in sorted(off)), used)
    smallest, largest = max(low for low, _ in spans), min(high for _, high in spans)
    if smallest > largest:
        # No size holds every measure: tell the two ends that the measures ask for.
        return Advice("between", (chart.rows[largest].size, chart.rows[smallest].size), used)
    fitting = [chart.rows[i].size for i in range(smallest, largest + 1)]
    holds = [row.size for row in chart.rows if all(m not in row.ranges or body[m] in row.ranges[m] for m in used)]
    if len(holds) == 1:
        return Advice("fits", (holds[0],), used)
    same = [s for s in fitting if s.casefold() == usual.strip().casefold()]
    if same:
        return Advice("fits", (same[0],), used)
    if len(fitting) == 1:
        return Advice("fits", (fitting[0],), used)
    return Advice("between", (fitting[0], fitting[-1]), used)


def _span(chart: SizeChart, measure: Measure, value: float) -> tuple[int, int]:
    """First and last row that hold ``value``; in a gap the rows around it; off the chart -1 or past it."""
    rows = [(i, row.ranges[measure]) for i, row in enumerate(chart.rows) if measure in row.ranges]
    holding = [i for i, r in rows if value in r]
    if holding:
        return holding[0], holding[-1]
    below = [i for i, r in rows if r.high < value]
    above = [i for i, r in rows if value < r.low]
    if not below:
        return -1, -1
    if not above:
        return len(chart.rows), len(chart.rows)
    return below[-1], above[0]
