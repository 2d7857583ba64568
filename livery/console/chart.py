"""The latency chart: P50 and P95 over time as points for one inline SVG. Numbers only, no markup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 640.0, 150.0
LEFT, RIGHT, TOP, BOTTOM = 40.0, 8.0, 8.0, 22.0
BUCKETS = 30
SPANS_S = (300.0, 1800.0, 7200.0, 43200.0)
"""Windows to choose from: the shortest that holds every sample, else the longest."""
NICE_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)


def percentile(values: Sequence[float], share: float) -> float:
    """Linear interpolation between closest ranks (Hyndman and Fan's type 7) of a non-empty sequence."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True, slots=True)
class Chart:
    span_s: float
    top_s: float
    """Seconds at the upper edge."""
    p50: tuple[tuple[float, float], ...]
    p95: tuple[tuple[float, float], ...]
    """SVG points, oldest first; buckets without requests are left out."""
    now_p50_s: float
    now_p95_s: float
    """Over the whole window."""
    count: int
    gridlines: tuple[tuple[float, float], ...]
    """(y, seconds)."""

    def line(self, points: tuple[tuple[float, float], ...]) -> str:
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def latency_chart(samples: Sequence[tuple[float, float]], now: float) -> Chart | None:
    """
    Args:
        samples: (Unix time, seconds), any order.
        now: right edge.

    Returns:
        None while there is no sample in the longest window.
    """
    oldest = min((at for at, _ in samples), default=now)
    span = next((s for s in SPANS_S if now - oldest <= s), SPANS_S[-1])
    window = [(at, value) for at, value in samples if now - at <= span]
    if not window:
        return None
    buckets: dict[int, list[float]] = {}
    for at, value in window:
        buckets.setdefault(min(BUCKETS - 1, int((at - (now - span)) / span * BUCKETS)), []).append(value)
    highs = {i: percentile(v, 0.95) for i, v in buckets.items()}
    peak = max(highs.values())
    top = next((n for n in NICE_S if n >= peak), peak)

    def point(bucket: int, seconds: float) -> tuple[float, float]:
        x = LEFT + (bucket + 0.5) / BUCKETS * (WIDTH - LEFT - RIGHT)
        return x, _y(seconds, top)

    everything = [value for _, value in window]
    return Chart(
        span_s=span,
        top_s=top,
        p50=tuple(point(i, percentile(buckets[i], 0.5)) for i in sorted(buckets)),
        p95=tuple(point(i, highs[i]) for i in sorted(buckets)),
        now_p50_s=percentile(everything, 0.5),
        now_p95_s=percentile(everything, 0.95),
        count=len(everything),
        gridlines=tuple((_y(top * part, top), top * part) for part in (0.0, 0.5, 1.0)),
    )


def _y(seconds: float, top: float) -> float:
    return HEIGHT - BOTTOM - seconds / top * (HEIGHT - TOP - BOTTOM)
