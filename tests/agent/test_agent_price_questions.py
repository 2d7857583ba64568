"""A policy that names a wrong price each time is never heard: the liar of the price benchmark, through the whole loop."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import ModuleType

import pytest

from livery.room.trajectories import read_trajectories
from livery.types import Route

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "price_questions.py"


@pytest.fixture(scope="module")
def benchmark() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("price_questions", BENCHMARK)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


async def test_no_wrong_price_is_spoken(benchmark: ModuleType, tmp_path: Path) -> None:
    told = await benchmark.run("liar", 60, tmp_path)
    assert told["proposals"] >= 100
    assert told["not_paid_proposals"] >= 90  # it does lie
    assert told["ungrounded_spoken"] == 0
    assert told["not_paid_spoken_by_agent"] == 0
    # What is said in its place, the shop's own quotes, is not sent back.
    assert told["proposals_sent_back_by_grounding"] <= told["proposals"]
    assert told["spoken"] >= 25
    played = list(read_trajectories(tmp_path / "trajectories.jsonl"))
    assert len(played) == 60
    for trajectory in played:
        if trajectory.route is Route.AGENT:
            assert benchmark.amounts(trajectory.reply), trajectory.reply
            assert benchmark.not_paid(trajectory.reply, trajectory) == set()


def test_the_checks_read_amounts_in_figures_and_in_words(benchmark: ModuleType) -> None:
    assert benchmark.amounts("It is $24.50, or forty-two dollars; one hundred and five bucks.") == {
        Decimal("24.5"),
        Decimal("42"),
        Decimal("1.05E+2"),
    }
    money = {"amount": 4200, "currency": "USD", "text": "$42"}
    lower = {"amount": 3700, "currency": "USD", "text": "$37"}
    quote = {"list_price": money, "total": lower, "saved": lower, "not_used": [{"price": money}]}
    assert benchmark.paid([quote]) == {Decimal("37")}
