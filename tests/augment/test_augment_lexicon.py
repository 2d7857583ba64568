"""What the lexicon's entries must be, so that any of them may be drawn."""

from __future__ import annotations

import re
from random import Random
from string import Formatter
from typing import Any

import pytest

from livery.agent.prompt import ENVIRONMENT
from livery.augment.lexicon import Lexicon, expansions, language_of, lexicon, strings
from livery.augment.skill_identifiers import opaque_id, styled
from livery.harness.hooks.builtin import BUILTINS
from livery.harness.model import Harness, Rendering
from livery.shop.registry import shop_operations
from livery.types import ErrorKind

LANGUAGES = ("en", "zh")
DETAILS: dict[str, dict[str, Any]] = {
    "reply_skill_required": {"skills": ["a", "b"]},
    "speech_format": {"faults": ["length", "prefix"]},
    "argument_schema": {"tool": "get_item", "faults": ["`link` is missing"]},
}


def entries(words: Lexicon, kind: str) -> list[tuple[str, str]]:
    """Every reading of every entry of a kind, both splits: (key, text)."""
    return [
        (key, text)
        for key, by_split in words.table.get(kind, {}).items()
        for split in ("train", "heldout")
        for entry in by_split.get(split, ())
        for text in expansions(entry)
    ]


@pytest.fixture(params=LANGUAGES)
def words(request: pytest.FixtureRequest) -> Lexicon:
    return lexicon(language_of(request.param), "train")


def test_feedback_shows_its_message_whatever_is_in_it(words: Lexicon):
    for kind in ("feedback", "feedback_forms"):
        for _, text in entries(words, kind):
            shown = ENVIRONMENT.from_string(text).render(message='Say "no", 3 < 4.', attempt=0)
            assert "no" in shown and "3" in shown
            assert len(shown) >= len("Say no, 3 < 4.")


def test_hook_messages_are_of_hooks_that_are_there_and_show_the_fault(words: Lexicon):
    for source, text in entries(words, "hook_messages"):
        assert source in BUILTINS
        shown = ENVIRONMENT.from_string(text).render(reason="because of x", **DETAILS.get(source, {}))
        assert "because of x" in shown or str(next(iter(DETAILS.get(source, {}).values()))[0]) in shown


def test_result_templates_show_every_field(words: Lexicon):
    result = {
        "name": "Tee",
        "items": [{"no": 1, "left": 7}, {"no": 2, "left": 0}],
        "fee": {"text": "$3", "to": ["A", "B"]},
    }
    for _, text in entries(words, "result_templates"):
        shown = ENVIRONMENT.from_string(text).render(result=result)
        for value in ("Tee", "7", "2", "$3", "A", "B"):
            assert value in shown


def test_keys_are_the_shops_own(words: Lexicon):
    operations = shop_operations()
    parameters = {n for o in operations.values() for n in o.parameters["properties"]} | {"skill", "path"}
    assert set(words.keys("tool_names")) == {*operations, "harness.load_skill", "harness.read_skill_file"}
    assert set(words.keys("argument_names")) == parameters
    assert set(words.keys("parameter_meanings")) == parameters
    assert set(words.keys("error_words")) == {k.value for k in ErrorKind}


def test_names_are_names(words: Lexicon):
    for kind in ("tool_names", "argument_names", "outer_names", "page_names"):
        for _, text in entries(words, kind):
            assert re.fullmatch(r"[a-z][a-z0-9_]*", text), text
    for _, text in entries(words, "skill_names"):
        assert re.fullmatch(r"[a-z0-9\u4e00-\u9fff]+(?:-[a-z0-9]+)*", text), text


def test_units_stay_in_the_names_of_measures(words: Lexicon):
    for parameter, name in entries(words, "argument_names"):
        for unit in ("_cm", "_kg"):
            assert name.endswith(unit) == parameter.endswith(unit), name


def test_forms_are_known_and_their_slots_are_filled(words: Lexicon):
    for _, form in entries(words, "skill_styles") + entries(words, "tool_styles"):
        assert styled("price-promo", form)
    for kind in ("opaque_skills", "opaque_tools", "opaque_arguments"):
        for _, form in entries(words, kind):
            assert "{" not in opaque_id(form, Random(1))
    for kind, field in (("heading_forms", "heading"), ("tool_forms", "tools")):
        for _, form in entries(words, kind):
            assert Rendering.model_validate({field: form})
    for kind, names in (
        ("length_announced", {"n"}), ("prefix_announced", {"words"}), ("sign_off_announced", {"words"}),
        ("rule_pointers", {"path"}), ("split_pointers", {"name"}), ("split_descriptions", {"name"}),
    ):  # fmt: skip
        for _, text in entries(words, kind):
            assert {f for _, f, _, _ in Formatter().parse(text) if f} == names


def test_distractors_have_their_three_parts(words: Lexicon):
    for kind in ("distractor_skills", "distractor_tools"):
        for _, text in entries(words, kind):
            name, about, said = (part.strip() for part in text.split("//"))
            assert re.fullmatch(r"[a-z][a-z_-]+", name) and about and said and "{" not in said


def test_rewordings_keep_figures_quotes_and_expressions(words: Lexicon):
    figure, expression = re.compile(r"\d+"), re.compile(r"\{\{.*?\}\}")
    for kind in ("sentences", "other_language"):
        for key, text in entries(words, kind):
            assert expression.findall(text) == expression.findall(key)
            if kind == "sentences":
                assert set(figure.findall(text)) <= set(figure.findall(key))


def test_patterns_keep_what_they_capture(words: Lexicon):
    for kind in ("patterns", "instruction_patterns", "word_patterns"):
        for pattern, text in entries(words, kind):
            groups = re.compile(pattern).groupindex
            assert set(re.findall(r"\\g<(\w+)>", text)) == set(groups), pattern


def test_the_samples_own_sentences_are_known(sample: Harness):
    """Keys that no text holds any more would reword nothing."""
    known = lexicon(language_of(sample.language), "train").keys("sentences")
    texts = [s.template for s in sample.sections] + [t.description for t in sample.tools]
    texts += [t for s in sample.skills for t in (s.description, s.body)]
    lost = [k for k in known if not any(k in text for text in texts)]
    assert len(known) >= 80
    assert lost == []


def test_both_splits_have_strings_of_every_kind_that_varies():
    train, held = strings("train"), strings("heldout")
    assert set(held) <= set(train)
    assert sum(map(len, train.values())) > 1600
