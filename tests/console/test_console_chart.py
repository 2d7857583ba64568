"""The latency chart's numbers."""

from __future__ import annotations

import pytest

from livery.console.chart import HEIGHT, LEFT, RIGHT, WIDTH, latency_chart, percentile


def test_percentiles_interpolate_between_ranks():
    assert percentile([3.0], 0.95) == 3.0
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.95) == pytest.approx(3.85)


def test_no_chart_without_samples():
    assert latency_chart([], now=100.0) is None
    assert latency_chart([(0.0, 1.0)], now=100_000.0) is None


def test_points_run_from_old_to_new_inside_the_frame_and_p95_is_never_below_p50():
    samples = [(float(at), 0.5 + at % 7) for at in range(0, 280, 3)]
    chart = latency_chart(samples, now=290.0)
    assert chart is not None
    assert chart.span_s == 300.0
    assert chart.top_s == 10.0
    assert chart.count == len(samples)
    assert [x for x, _ in chart.p50] == sorted(x for x, _ in chart.p50)
    assert all(LEFT <= x <= WIDTH - RIGHT and 0 <= y <= HEIGHT for x, y in (*chart.p50, *chart.p95))
    assert all(high <= low for (_, low), (_, high) in zip(chart.p50, chart.p95, strict=True))  # y grows downwards


def test_the_window_grows_with_the_oldest_sample():
    assert [
        chart.span_s
        for oldest in (10.0, 1000.0, 5000.0, 40_000.0)
        if (chart := latency_chart([(50_000.0 - oldest, 1.0), (49_999.0, 2.0)], now=50_000.0))
    ] == [300.0, 1800.0, 7200.0, 43_200.0]


def test_figures_of_the_whole_window():
    chart = latency_chart([(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)], now=4.0)
    assert chart is not None
    assert chart.now_p50_s == 2.0
    assert chart.now_p95_s == pytest.approx(2.9)
