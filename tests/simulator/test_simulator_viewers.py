"""Viewers: broad grammars, untidy writing that leaves the question answerable, nothing of test in training."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import product
from random import Random

import pytest

from livery.harness.hooks.builtin import screening
from livery.harness.hooks.builtin.wordlists import plain_list
from livery.simulator.mix import KINDS
from livery.simulator.task import Intent, Task
from livery.simulator.tasks import make_tasks
from livery.simulator.viewers import Style, normalised, spelled, viewers_of
from livery.simulator.worlds import make_world

BOTH = [(s, x) for s in ("train", "test") for x in ("en", "zh")]


@pytest.fixture(scope="module")
def sets() -> dict[tuple[str, str], list[Task]]:
    return {(split, language): make_tasks(split, language, 700, 10_000) for split, language in BOTH}  # type: ignore[arg-type]


def utterances(split: str, language: str, count: int) -> list[str]:
    """Of every kind in turn, in every style, about items, places and things of worlds of the split."""
    viewers, rng = viewers_of(split, language), Random(f"{split}{language}")
    shops = [make_world(split, language, seed).catalogue for seed in range(40)]  # type: ignore[arg-type]
    said: list[str] = []
    for i in range(count):
        shop = rng.choice(shops)
        some = rng.sample(shop.products, 2)
        refer = [
            rng.choice((viewers.link(p.link_id, rng), viewers.link(p.link_id, rng, mixed=True), p.name,
                        viewers.phrase("screen", rng)))
            for p in some
        ]  # fmt: skip
        variants = [v.label for p in shop.products for v in p.variants]
        region = rng.choice(shop.shipping.regions)
        policy = rng.choice(shop.policies)
        slots = {
            "item": refer[0], "a": refer[0], "b": refer[1], "streamer": "Kim", "qty": str(rng.randint(2, 9)),
            "variant": rng.choice(variants), "place": rng.choice(region.places),
            "topic": rng.choice((policy.topic, *policy.aliases)), "promotion": rng.choice(shop.promotions).name,
            "aspect": rng.choice(list(some[0].specifications)), "question": rng.choice(some[0].faq).question,
            "measures": viewers.measures({"height_cm": rng.randint(150, 190)}, rng), "bait": "free",
        }  # fmt: skip
        odds = [rng.random() < 0.3 for _ in range(7)]
        style = Style(
            opener=odds[0], closer=odds[1], typo=odds[2], slang=odds[3], mixed=odds[4], bare=odds[5], capital=odds[6]
        )
        said.append(viewers.ask(viewers.kinds[i % len(viewers.kinds)], slots, rng, style))
    return said


@pytest.mark.parametrize(("split", "language"), BOTH)
def test_every_intent_has_at_least_fifty_templates(split: str, language: str):
    viewers = viewers_of(split, language)
    assert set(viewers.kinds) == set(KINDS)
    by_intent: dict[str, set[str]] = defaultdict(set)
    for kind in viewers.kinds:
        cores = set(viewers.templates(kind))
        by_intent[kind.partition(".")[0]] |= cores
        whole = {o + c + e for o, c, e in product(viewers.words["openers"], cores, viewers.words["closers"])}
        assert len(whole) >= 500, kind
    assert set(by_intent) == {i.value for i in Intent}
    for intent, cores in by_intent.items():
        assert len(cores) >= 50, intent


@pytest.mark.parametrize("language", ["en", "zh"])
def test_train_and_test_have_no_template_or_word_list_in_common(language: str):
    train, test = viewers_of("train", language), viewers_of("test", language)
    for kind in train.kinds:
        assert not {normalised(t) for t in train.templates(kind)} & {normalised(t) for t in test.templates(kind)}
    for part in ("openers", "closers", "joiners", "screen", "earlier", "vague", "earlier_reply", "viewers"):
        assert not set(train.words[part]) & set(test.words[part]), part
    for measure, phrases in train.words["measures"].items():
        assert not set(phrases) & set(test.words["measures"][measure])
    assert not set(train.words["slang"].values()) & set(test.words["slang"].values())


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_test_utterance_occurs_in_training(sets: dict[tuple[str, str], list[Task]], language: str):
    said: dict[str, list[str]] = {}
    for split in ("train", "test"):
        whole = [m.text for t in sets[split, language] for m in t.request.messages]
        said[split] = [normalised(text) for text in (*utterances(split, language, 10_000), *whole)]
        assert len(said[split]) > 10_700
        # Broad within a split, too: questions hardly come again, short small talk may.
        assert len(set(said[split])) > 0.85 * len(said[split])
    assert not set(said["train"]) & set(said["test"])


@pytest.mark.parametrize(("split", "language"), BOTH)
def test_no_template_trips_the_screening_of_chat_by_mistake(split: str, language: str):
    viewers = viewers_of(split, language)
    for kind in viewers.kinds:
        for template in viewers.templates(kind):
            low = screening._folded(template)
            assert not screening.advertising(low), template
            assert kind.startswith("abuse") or not screening.abusive(low), template
            assert kind.startswith("injection") or not screening.injection(low), template


def test_only_what_should_trips_the_screening_of_chat(sets: dict[tuple[str, str], list[Task]]):
    kept = 0
    for tasks in sets.values():
        for task in tasks:
            for i, message in enumerate(task.request.messages):
                intents = {a.intent for a in task.asked if a.message == i}
                low = screening._folded(message.text)
                assert not screening.advertising(low), message.text
                if Intent.ABUSE not in intents:
                    assert not screening.abusive(low), message.text
                if Intent.INJECTION not in intents:
                    assert not screening.injection(low), message.text
                elif len(intents) > 1 and screening.injection(low):
                    # The question beside an injection is still there once the injection's sentence is cut.
                    assert screening._without_injection(message.text), message.text
                    kept += 1
                if Intent.COMPLAINT not in intents:
                    assert not plain_list("handoff").search(low), message.text
    assert kept > 15


@pytest.mark.parametrize(
    ("number", "language", "words"),
    [(3, "en", "three"), (12, "en", "twelve"), (21, "en", "twenty-one"), (30, "en", "thirty"), (3, "zh", "三"),
     (10, "zh", "十"), (12, "zh", "十二"), (20, "zh", "二十"), (27, "zh", "二十七")],
)  # fmt: skip
def test_numbers_are_spelled(number: int, language: str, words: str):
    assert spelled(number, language) == words


def test_a_link_has_many_forms():
    forms = {viewers_of("train", "en").link("3", Random(i)) for i in range(200)}
    assert {"number 3", "#3", "link 3", "link three", "no. 3"} <= forms
    forms = {viewers_of("train", "zh").link("3", Random(i)) for i in range(200)}
    assert {"3号链接", "3号", "三号"} <= forms
    assert all("A-7" in viewers_of("train", "en").link("A-7", Random(i)) for i in range(50))
    assert "号" in viewers_of("train", "en").link("3", Random(1), mixed=True)


def test_untidy_writing_leaves_names_numbers_and_places_alone():
    slots = {"item": "Balden Copper Kettle", "place": "Las Vegas, Nevada", "streamer": "Mila"}
    style = Style(opener=True, closer=True, typo=True, slang=True, bare=True)
    viewers = viewers_of("train", "en")
    changed = 0
    for i in range(300):
        tidy = viewers.ask("shipping.fee", slots, Random(i), Style(opener=True, closer=True))
        text = viewers.ask("shipping.fee", slots, Random(i), style)
        assert "Balden Copper Kettle" in text
        assert "Las Vegas, Nevada" in text
        changed += text != tidy
    assert changed > 280  # doubling one of two equal letters is no slip


def test_a_typo_is_one_slip():
    from rapidfuzz.distance import Levenshtein

    viewers = viewers_of("train", "en")
    for i in range(200):
        plain = viewers.ask("stock.item", {"item": "#3"}, Random(i), Style())
        slipped = viewers.ask("stock.item", {"item": "#3"}, Random(i), Style(typo=True))
        assert Levenshtein.distance(plain, slipped) <= 2


def test_bare_writing_has_no_punctuation():
    viewers = viewers_of("train", "zh")
    for i in range(100):
        text = viewers.ask("price.one", {"item": "3号", "streamer": "小满"}, Random(i), Style(opener=True, bare=True))
        assert not re.search("[，。？！,.?!]", text)


def test_marks_and_capitals():
    viewers = viewers_of("test", "en")
    text = viewers.ask("price.one", {"item": "#3"}, Random(4), Style(mark="?", capital=True))
    assert text.endswith("?")
    assert text[0] == text[0].upper()


def test_an_open_slot_is_an_error():
    with pytest.raises(KeyError):
        viewers_of("train", "en").ask("shipping.fee", {"item": "#3"}, Random(0), Style())
    with pytest.raises(KeyError):
        viewers_of("train", "en").ask("price.nothing", {}, Random(0), Style())


def test_measures_are_given_in_words_of_the_split():
    text = viewers_of("train", "en").measures({"height_cm": 170, "weight_kg": 62.5}, Random(2))
    assert "170" in text
    assert "62.5" in text
