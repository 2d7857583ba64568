"""The frozen sets: what the seeds make is what is pinned, and T2 asks T1's tasks under variants training never saw."""

from __future__ import annotations

from itertools import islice

import pytest

from livery.augment.operators import DIMENSIONS, apply, registered
from livery.errors import InputError
from livery.evaluation import suites
from livery.evaluation.suites import FIRST, SUITES, Base, suite_named
from livery.harness.digest import harness_digest
from livery.harness.model import Harness


def test_the_first_tasks_and_variants_of_every_set_are_what_is_pinned(english: Harness, chinese: Harness):
    found = suites.made({"en": english, "zh": chinese}, FIRST)
    assert set(found) == set(suites.pinned()["first"])
    assert [str(d) for d in suites.drifts(found, suites.pinned()["first"])] == []


def test_what_is_pinned_covers_every_set_whole():
    whole = suites.pinned()["whole"]
    assert set(whole) == set(suites.pinned()["first"])
    worn = {s.name for s in SUITES.values() if s.dimensions}
    assert set(whole) >= worn | {"t3", "t3-zh", "tasks en", "tasks zh", "base en", "base zh"}
    assert len(set(whole.values())) == len(whole)


def test_a_changed_set_is_named_with_both_digests():
    drifted = suites.drifts({"tasks en": "a" * 64, "t2": "b" * 64}, {"tasks en": "a" * 64, "t2": "c" * 64})
    assert [str(d) for d in drifted] == [f"t2: made {'b' * 12}, pinned {'c' * 12}"]
    assert str(suites.drifts({"t9": "d" * 64}, {})[0]).endswith("pinned never")


def test_t1_and_t2_ask_the_same_tasks_over_all_test_worlds():
    one, two = SUITES["t1"].tasks(FIRST), SUITES["t2"].tasks(FIRST)
    assert [t.id for t in one] == [t.id for t in two]
    assert len({t.world.seed for t in one}) == FIRST
    assert {t.world.split for t in one} == {"test"}
    assert SUITES["t1"].size == 1500


def test_a_longer_beginning_begins_with_the_shorter_one():
    assert SUITES["t1"].tasks(70)[:65] == SUITES["t1"].tasks(65)


def test_t1_wears_the_base_and_t2_a_variant_of_its_own_each(english: Harness):
    plain = list(islice(SUITES["t1"].cases(english), 5))
    assert all(c.harness is english and c.variant is None and c.operators == () for c in plain)
    worn = list(SUITES["t2"].cases(english, 20))
    assert len({c.variant.digest for c in worn if c.variant}) == 20


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_a_set_of_one_dimension_has_operators_of_it_alone_and_one_that_is_held_out(english: Harness, dimension: str):
    known = registered()
    for case in SUITES[f"t2-{dimension.replace('_', '-')}"].cases(english, 20):
        assert case.dimensions == (dimension,)
        assert any(known[name].held_out for name in case.operators), case.operators


def test_every_whole_variant_has_a_held_out_operator_and_rebuilds_from_its_records(english: Harness):
    known = registered()
    for case in SUITES["t2"].cases(english, 12):
        assert case.variant is not None
        assert any(known[name].held_out for name in case.operators)
        assert harness_digest(apply(case.variant.records, english)) == case.variant.digest


def test_another_base_wears_other_variants(english: Harness):
    base = Base(english)
    other = Base(english.replace(name="another"))
    task = SUITES["t2"].tasks(1)[0]
    assert suites.held_out_variant(task.id, base).harness.name == "streamer-en"
    assert suites.held_out_variant(task.id, other).harness.name == "another"


def test_a_base_of_another_language_is_refused(chinese: Harness):
    with pytest.raises(InputError, match="found the language 'zh"):
        next(SUITES["t1"].cases(chinese))


def test_sets_are_known_by_name_with_either_mark():
    assert suite_named("T2-tool_schemas") is SUITES["t2-tool-schemas"]
    with pytest.raises(InputError, match="t2-zh-hook-behaviour"):
        suite_named("t5")
