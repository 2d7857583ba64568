"""Figures and intervals against values worked out by hand or by the normal approximation."""

from __future__ import annotations

import numpy as np
import pytest
from evaluation_results import result

from livery.errors import InputError
from livery.evaluation.statistics import compare, difference, estimate, kinds_of_loss, points, summarise


def test_avg_is_the_mean_of_accuracy_and_effectiveness_in_points():
    columns = points([result(0, 1, 0.5), result(1, 0, 0.0), result(2, 1, 1.0)])
    assert columns["avg"].tolist() == [75.0, 0.0, 100.0]
    assert summarise([result(0, 1, 0.5), result(1, 0, 0.0)]).measures["avg"].value == 37.5


def test_an_interval_is_as_wide_as_the_standard_error_says():
    values = np.array([0.0, 100.0] * 200)
    found = estimate(values)
    assert found.value == 50.0
    half = 1.96 * 50 / 400**0.5
    assert found.low == pytest.approx(50 - half, abs=0.5)
    assert found.high == pytest.approx(50 + half, abs=0.5)


def test_the_same_results_have_the_same_interval_and_another_seed_another():
    values = np.array([0.0, 50.0, 100.0, 75.0] * 10)
    assert estimate(values) == estimate(values)
    assert estimate(values, seed=1) != estimate(values)


def test_pairing_removes_what_is_hard_for_both():
    rng = np.random.default_rng(5)
    hard = 100 * rng.integers(0, 2, 300).astype(float)
    a, b = hard * 0.9, hard * 0.9 + 5
    found = difference(a, b)
    assert (found.value, found.low, found.high) == pytest.approx((5.0, 5.0, 5.0))
    alone = estimate(a)
    assert alone.high - alone.low > 8
    assert (found.better, found.same, found.worse, found.not_better) == (300, 0, 0, 0.0)


def test_what_is_kept_is_a_share_of_a():
    found = difference(np.array([100.0, 100.0, 50.0, 50.0] * 50), np.array([100.0, 50.0, 50.0, 40.0] * 50))
    assert found.kept is not None
    assert found.kept.value == pytest.approx(80.0)
    assert found.kept.low < 80 < found.kept.high < 90
    assert difference(np.zeros(4), np.ones(4)).kept is None


def test_runs_are_compared_on_shared_tasks_whatever_their_order():
    a = [result(i, 1, 1.0) for i in range(6)]
    b = [result(i, 0 if i == 3 else 1, 1.0) for i in (5, 4, 3, 2, 1)]
    found = compare(a, b)
    assert (found.n, found.only_a, found.only_b) == (5, 1, 0)
    assert found.differences["avg"].value == pytest.approx(-10.0)
    assert (found.differences["accuracy"].worse, found.differences["accuracy"].same) == (1, 4)
    assert found.differences["effectiveness"].value == 0


def test_dimensions_and_operators_are_those_of_the_run_with_variants():
    plain = [result(i) for i in range(4)]
    worn = [result(i, 0 if i < 2 else 1, operators=("x.a",) if i < 2 else ("y.b",)) for i in range(4)]
    for first, second in ((plain, worn), (worn, plain)):
        by_name = {s.name: s for s in compare(first, second).slices if s.kind == "operator"}
        assert abs(by_name["x.a"].difference.value) == 50
        assert by_name["y.b"].difference.value == 0


def test_slices_count_a_task_under_each_of_its_intents_and_show_the_rest():
    rows = [result(0, 0, 0.0, intents=("price", "stock")), result(1, intents=("price",)), result(2, intents=("size",))]
    slices = {s.name: s for s in summarise(rows).slices if s.kind == "intent"}
    assert {name: s.avg.n for name, s in slices.items()} == {"price": 2, "size": 1, "stock": 1}
    assert (slices["price"].avg.value, slices["price"].rest) == (50.0, 100.0)
    assert slices["stock"].rest == 100.0
    assert slices["price"].avg.few


def test_kinds_of_loss_leave_out_what_was_quoted_counted_or_passed():
    reasons = (
        "accuracy: nothing bears out '$160.25' as total of item 3",
        'accuracy: nothing bears out "it\'s $5" as total of item 12',
        'tools: pricing.quote was needed with {"link_id": "19", "quantity": 5}',
    )
    assert kinds_of_loss(result(0, 0, reasons=reasons)) == (
        "accuracy: nothing bears out … as total of item #",
        "tools: pricing.quote was needed",
    )


def test_nothing_to_summarise_or_compare_is_said():
    with pytest.raises(InputError, match="found no result"):
        summarise([])
    with pytest.raises(InputError, match="share no task"):
        compare([result(1)], [result(2)])
