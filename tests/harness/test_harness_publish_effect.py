"""Publish-to-effect under 50 ms at the 99th percentile, no request lost, under load from two processes."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "publish_to_effect.py"
PUBLISHES = 200
LIMIT_S = 0.050
LATE_ALLOWED = PUBLISHES // 100
RUNS = 3
"""Another process of a shared machine may hold the processor for 50 ms; that is not our delay. A real fault
(polling, a cache that is not told) shows in every run."""


@pytest.fixture
def benchmark() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("publish_to_effect", BENCHMARK)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


async def test_publish_to_effect_under_load(
    benchmark: ModuleType, store_url: str, record_property: pytest.RecordProperty
) -> None:
    late: list[int] = []
    for _ in range(RUNS):
        measured = await benchmark.measure(store_url, publishes=PUBLISHES, pause_s=0.002)
        assert (measured.lost, measured.unseen) == (0, 0)
        assert len(measured.delays_s) == PUBLISHES
        assert measured.requests > PUBLISHES
        record_property("p99_ms", benchmark.quantile(measured.delays_s, 0.99) * 1000)
        late.append(sum(delay > LIMIT_S for delay in measured.delays_s))
        if late[-1] <= LATE_ALLOWED:
            return
    pytest.fail(f"publishes over {LIMIT_S} s in each run of {PUBLISHES}: {late}")


def test_the_quantile_is_the_least_value_that_covers_its_share(benchmark: ModuleType) -> None:
    values = tuple(float(n) for n in range(1, 201))
    assert benchmark.quantile(values, 0.99) == 198.0
    assert benchmark.quantile(values, 0.5) == 100.0
    assert benchmark.quantile((7.0,), 0.99) == 7.0
