"""Every operator: pure, recorded, rebuilt bit for bit, lint-clean, and what it promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from augment_harnesses import carpenter

from livery.agent.live_harness import LiveHarness
from livery.augment.lexicon import language_of, lexicon
from livery.augment.operators import (
    DIMENSIONS,
    Record,
    Variant,
    apply,
    apply_one,
    compose,
    in_order,
    rebuild,
    registered,
)
from livery.augment.probe import probe_parameters
from livery.augment.sampling import sample_variant
from livery.errors import InputError
from livery.harness.digest import harness_digest
from livery.harness.folder import load_harness, save_harness
from livery.harness.hooks.builtin import BUILTINS
from livery.harness.lint import lint
from livery.harness.model import Harness, Section
from livery.shop.registry import shop_operations

NAMES = list(registered())
ROOT = Path(__file__).parents[2]


def errors(harness: Harness) -> list[str]:
    found = lint(harness, operations=probe_parameters(), builtins=BUILTINS, strict=False)
    return [str(p) for p in found if p.severity == "error"]


def test_six_operators_or_more_a_dimension_and_two_of_each_held_out():
    for dimension in DIMENSIONS:
        all_of_it = registered().of([dimension])
        assert len(all_of_it) >= 8
        assert sum(o.held_out for o in all_of_it) == 2


@pytest.mark.parametrize("name", NAMES)
def test_an_operator_changes_a_sample_and_its_record_rebuilds_it(name: str, sample: Harness):
    one = registered()[name]
    before = harness_digest(sample)
    acted = 0
    for seed in range(3):
        for split in ("heldout",) if one.held_out else ("train", "heldout"):
            made = apply_one(one, sample, seed=seed, split=split)
            if made is None:
                continue
            acted += 1
            variant, record = made
            assert harness_digest(variant) != before
            assert errors(variant) == []
            back = Record.model_validate_json(record.model_dump_json())
            assert harness_digest(apply([back], sample)) == harness_digest(variant)
    assert acted >= 2
    assert harness_digest(sample) == before


@pytest.mark.parametrize("name", NAMES)
def test_an_operator_meets_a_harness_it_does_not_know(name: str):
    base = carpenter()
    one = registered()[name]
    for seed in range(2):
        made = apply_one(one, base, seed=seed, split="heldout")
        if made is not None:
            assert errors(made[0]) == []
            assert harness_digest(apply([made[1]], base)) == harness_digest(made[0])
    bare = Harness(name="bare", sections=(Section(key="chat", volatility="request", template="{{ chat }}"),))
    made = apply_one(one, bare, seed=1, split="train")
    if made is not None:
        assert errors(made[0]) == []


def test_variants_are_rebuilt_from_their_records_over_many_seeds(sample: Harness):
    base_digest = harness_digest(sample)
    for seed in range(50):
        made = sample_variant(sample, seed, ("train", "heldout")[seed % 2], 0.8, base_digest=base_digest)
        stored = Variant.model_validate_json(made.model_dump_json())
        again = rebuild(stored.records, sample, base_digest=stored.base_digest)
        assert again.digest == made.digest
        assert errors(made.harness) == []


def test_a_variant_is_the_same_for_the_same_seed_and_another_for_another(english: Harness):
    first, second = (sample_variant(english, 7, "train") for _ in range(2))
    assert first.digest == second.digest and first.records == second.records
    assert len({sample_variant(english, seed, "train").digest for seed in range(30)}) == 30


def test_a_variant_is_saved_as_a_folder_that_loads_as_the_same(english: Harness, tmp_path):
    for seed in range(8):
        made = sample_variant(english, seed, "heldout", 1.0)
        save_harness(made.harness, tmp_path / str(seed))
        assert harness_digest(load_harness(tmp_path / str(seed)).harness) == made.digest


def test_a_record_that_does_not_fit_is_refused(english: Harness):
    made = sample_variant(english, 3, "train")
    record = made.records[0]
    for wrong, word in (
        (record.model_copy(update={"operator": "tool_schemas.none"}), "no such operator"),
        (record.model_copy(update={"version": 99}), "version 99"),
        (record.model_copy(update={"lexicon": "sha256:0"}), "lexicon"),
        (record.model_copy(update={"parameters": {"x": 1}}), "something else"),
    ):
        with pytest.raises(InputError, match=word):
            apply([wrong], english)
    with pytest.raises(InputError, match="expected"):
        rebuild(made.records, carpenter(), base_digest=made.base_digest)


def test_operators_run_by_stage_and_one_of_a_group():
    every = list(registered().values())
    for seed in range(20):
        order = in_order(every, Random(seed))
        assert [o.stage for o in order] == sorted(o.stage for o in order)
        groups = [o.group for o in order]
        assert len(groups) == len(set(groups))


def test_all_operators_together_still_lint_and_load(sample: Harness):
    every = list(registered().values())
    for seed in range(5):
        made = compose(sample, every, seed=seed, split="heldout")
        assert len(made.records) >= 25
        assert errors(made.harness) == []
        LiveHarness(made.harness, made.digest, shop_operations())


def test_the_same_operator_twice_leaves_names_unique(sample: Harness):
    for name in ("skill_identifiers.synonyms", "tool_schemas.tool_synonyms", "skill_identifiers.opaque"):
        harness = sample
        for seed in range(5):
            made = apply_one(registered()[name], harness, seed=seed, split="train")
            assert made is not None
            harness = made[0]
        assert errors(harness) == []


def test_texts_follow_a_rename(english: Harness):
    made = apply_one(registered()["skill_identifiers.opaque"], english, seed=4, split="train")
    assert made is not None
    new = {r.key: r.new for r in made[1].renamed}
    push = next(s for s in made[0].skills if s.key == "flash-sale-push")
    assert new["price-promo"] in push.description
    assert "price-promo" not in push.description


def test_what_code_names_stays_and_other_mentions_follow():
    base = carpenter()
    tools = apply_one(registered()["tool_schemas.tool_opaque"], base, seed=1, split="train")
    assert tools is not None
    names = {t.key: t.name for t in tools[0].tools}
    assert names["hold"] == "hold_item"  # the Python hook compares it
    assert names["look"] != "lookup_piece"
    body = next(s.body for s in tools[0].skills if s.key == "prices")
    assert f"`{names['look']}`" in body and "lookup_piece" not in body
    assert names["look"] in tools[0].hooks[1].params["rules"][0]["message"]
    skills = apply_one(registered()["skill_identifiers.opaque"], base, seed=1, split="train")
    assert skills is not None
    named = {s.key: s.name for s in skills[0].skills}
    assert named["wood"] == "oak_and_ash"  # a rule's condition names it
    assert named["prices"] in skills[0].skills[1].description
    assert named["prices"] in skills[0].skills[1].files[0].content


def test_a_changed_argument_is_explained_where_only_signatures_are_shown():
    made = apply_one(registered()["tool_schemas.argument_opaque"], carpenter(), seed=2, split="train")
    assert made is not None
    look = next(t for t in made[0].tools if t.key == "look")
    renamed = {r.old: r.new for r in made[1].renamed if r.key == "look"}
    assert set(look.input_schema["properties"]) == set(renamed.values())
    assert all(new in look.description for new in renamed.values())


def test_enum_labels_stand_for_the_same_values():
    made = apply_one(registered()["tool_schemas.labels"], carpenter(), seed=2, split="train")
    assert made is not None
    look = next(t for t in made[0].tools if t.key == "look")
    entry = next(m for m in look.binding.arguments if m.to == "member")
    assert list(entry.labels.values()) == [True, False]
    assert look.input_schema["properties"]["extra"]["enum"] == list(entry.labels)


def test_the_lexicon_speaks_the_harness_language(sample: Harness):
    assert lexicon(language_of(sample.language), "train").language == sample.language
    assert language_of("zh-Hant") == "zh" and language_of("de") == "en"


def test_what_is_drawn_does_not_depend_on_what_was_imported_first():
    names = list(registered())
    assert names == sorted(names, key=lambda n: (DIMENSIONS.index(registered()[n].dimension), n))
    code = (
        "import {first}, livery.augment.operators as o, livery.augment.sampling as s;"
        "from livery.harness.model import Harness, Section;"
        "h = Harness(name='h', sections=(Section(key='a', title='Rules', template='- Never guess.\\n- Do not lie.'),));"
        "print([v.operators for v in (s.sample_variant(h, n, 'train') for n in range(5))])"
    )
    made = {
        subprocess.run(
            [sys.executable, "-c", code.format(first=f"livery.augment.{first}")],
            capture_output=True, text=True, check=True, timeout=60, cwd=ROOT,
        ).stdout
        for first in ("tool_schemas", "hook_behaviour")
    }  # fmt: skip
    assert len(made) == 1
