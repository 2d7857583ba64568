"""Tasks: rebuilt from their seeds, true to the real operations, answerable, and of the promised mix."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from livery.errors import InputError
from livery.harness.quantities import Quantity, matches, quantities_of
from livery.simulator import gold
from livery.simulator.asking import Asker
from livery.simulator.mix import Mix
from livery.simulator.task import Intent, Needed, Task, Topic, WorldRef
from livery.simulator.task_sets import check_task, digest, gives, read_tasks, write_tasks
from livery.simulator.tasks import make_task, make_tasks, undenied
from livery.simulator.viewers import viewers_of
from livery.simulator.worlds import make_world, world_of

STORES = Path(__file__).parents[2] / "stores"
BOTH = [(s, x) for s in ("train", "test") for x in ("en", "zh")]


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return [t for split, language in BOTH for t in make_tasks(split, language, 500, 40)]  # type: ignore[arg-type]


def test_a_task_is_rebuilt_bit_for_bit_and_so_is_a_set(tasks: list[Task]):
    for task in tasks[::50]:
        assert make_task(world_of(task.world), task.seed) == task
    again = make_tasks("train", "en", 500, 40)
    assert digest(again) == digest(tasks[:500])
    assert digest(again[1:]) != digest(again)
    assert digest(make_tasks("train", "en", 500, 41)) != digest(again)


def test_tasks_survive_json(tasks: list[Task], tmp_path: Path):
    path = tmp_path / "sets" / "some.jsonl"
    write_tasks(path, tasks[::20])
    read = read_tasks(path)
    assert read == tasks[::20]
    assert digest(read) == digest(tasks[::20])


def test_gold_stands_in_what_the_real_operations_answer(tasks: list[Task]):
    assert [(t.id, w) for t in tasks for w in check_task(t)] == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_store_folder_gives_tasks_too(language: str):
    store = str(STORES / f"demo-{language}")
    made = make_tasks("train", language, 150, 3, store=store)  # type: ignore[arg-type]
    assert [(t.id, w) for t in made for w in check_task(t)] == []
    assert len({a.intent for t in made for a in t.asked}) >= 13
    assert all(t.world.store == store for t in made)


def test_ids_are_unique_and_messages_carry_a_viewer_of_their_own(tasks: list[Task]):
    assert len({t.id for t in tasks}) == len(tasks)
    for task in tasks:
        viewers = [m.viewer for m in task.request.messages]
        assert len(set(viewers)) == len(viewers)
        assert all(m.text.strip() for m in task.request.messages)
        assert all(m.at < task.request.state.now for m in task.request.messages)


def test_the_mix_holds_everything(tasks: list[Task]):
    tags = Counter(tag for t in tasks for tag in t.tags)
    share = {tag: n / len(tasks) for tag, n in tags.items()}
    assert {a.intent for t in tasks for a in t.asked} == set(Intent)
    assert {topic for t in tasks for topic in t.topics} == set(Topic)
    assert 0.10 < share["merged"] < 0.20
    assert 0.08 < share["multi_intent"] < 0.20
    assert 0.08 < share["recoverable"] + share["unrecoverable"] < 0.22
    assert share["unrecoverable"] > 0.015
    for form in ("link", "on_screen", "name", "earlier", "pronoun", "ambiguous", "vague"):
        assert tags[f"reference:{form}"] >= 10, form
    for kind in ("timeout", "malformed", "permission_denied", "empty", "slow", "stale", "unavailable"):
        assert tags[f"fault:{kind}"] >= 5, kind
    for style in ("typo", "slang", "bare", "mixed_language", "smuggled"):
        assert tags[style] >= 10, style
    kinds = Counter(f.kind for t in tasks for a in t.asked for f in a.facts)
    assert set(kinds) >= {"money", "percent", "count", "measure", "size", "date", "duration", "yes_no", "text"}


def test_the_mix_can_be_set():
    plain = Mix(kinds={"price.one": 1}, several=0, merged=0, faults=0, ambiguous=0)
    made = make_tasks("train", "en", 60, 9, mix=plain)
    assert all([a.intent for a in t.asked] == [Intent.PRICE] for t in made)
    assert not any(t.faults for t in made)
    broken = make_tasks("train", "en", 60, 9, mix=Mix(kinds={"price.one": 1}, merged=0, faults=1, unrecoverable=0))
    assert sum(bool(t.faults) for t in broken) > 50


# ------------------------------------------------------------------------------ single tasks


def only(kind: str, language: str = "en", n: int = 40, **shares: float) -> list[Task]:
    settings = {"several": 0, "merged": 0, "faults": 0, "ambiguous": 0, **shares}
    return make_tasks("train", language, n, 77, mix=Mix(kinds={kind: 1}, **settings))  # type: ignore[arg-type]


def test_a_price_is_the_quoted_total_after_promotions_and_coupons():
    for task in only("price.many"):
        (asked,) = task.asked
        quote = next(n for n in task.needed if n.operation == "pricing.quote")
        result = Asker.at(world_of(task.world), task.request.state.now).run(quote.operation, quote.arguments)
        if "total" not in result:
            assert [f.key for f in asked.facts] == ["status"]
            continue
        (total,) = (f for f in asked.facts if f.key == "total")
        assert total.value == result["total"]["amount"]
        assert total.unit == "USD"
        assert total.required == ("status" not in result)
        assert str(quote.arguments["quantity"]) in task.request.text


def test_what_cannot_be_bought_is_to_be_said_first():
    gone = [t for t in only("price.one", n=300) if any(f.key == "status" for f in t.asked[0].facts)]
    assert gone
    for task in gone:
        required = [f.key for f in task.asked[0].facts if f.required]
        assert required[0] == "status"
        assert "total" not in required
        assert task.asked[0].facts[0].wordings


def test_a_size_is_the_advised_one_and_its_measures_are_in_the_message():
    for task in only("size.fit", "zh"):
        advice = next(n for n in task.needed if n.operation == "size.advise")
        body = {k: v for k, v in advice.arguments.items() if k != "link_id"}
        assert body
        assert all(f"{v:g}" in task.request.text for v in body.values())
        assert all(f.kind == "size" for f in task.asked[0].facts if f.required)


def test_an_end_is_a_date_and_a_shipping_time_a_duration():
    for task in only("promotion.ends"):
        assert "promotion.ends" in task.tags
        (fact,) = (f for f in task.asked[0].facts if f.required)
        assert fact.kind == "date"
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", str(fact.value))
    for task in only("shipping.days"):
        required = [f for f in task.asked[0].facts if f.required]
        assert all(f.kind == "duration" and f.unit == "s" for f in required) or required[0].key == "ships"


def test_a_promotion_that_is_over_or_to_come_is_a_no():
    state: Counter[bool] = Counter()
    for task in only("promotion.named", n=80):
        active = next(f for f in task.asked[0].facts if f.key == "promotion_active")
        state[bool(active.value)] += 1
        now = task.request.state.now
        catalogue = world_of(task.world).catalogue
        named = [p for p in catalogue.promotions if p.name in task.request.text]
        assert len(named) == 1
        runs = named[0].starts_at.timestamp() <= now < named[0].ends_at.timestamp()  # type: ignore[union-attr]
        assert active.value == runs
    assert min(state[True], state[False]) > 10


def test_a_name_is_searched_for_before_the_link_is_used():
    named = [t for t in only("stock.item", n=200, on_screen=0, dialogue=0, by_name=1) if "reference:name" in t.tags]
    assert len(named) > 100
    for task in named:
        search, check = task.needed
        assert (search.operation, search.step) == ("catalog.search", 0)
        assert (check.operation, check.step) == ("stock.check", 1)
        assert str(search.arguments["query"]).casefold() in task.request.text.casefold()  # a sentence begins with it
        assert search.result == {"link_id": check.arguments["link_id"]}


def test_this_one_is_on_screen_and_the_earlier_one_was_spoken_of():
    for kind in ("price.one", "comparison.price"):
        for task in only(kind, n=200):
            if "reference:on_screen" in task.tags:
                assert task.request.state.on_screen in task.asked[0].items
            if "reference:earlier" in task.tags:
                said = " ".join(turn.reply for turn in task.request.state.dialogue)
                assert any(f"link {link}" in said for link in task.asked[0].items)
                assert len(task.request.state.dialogue) <= 2


def test_open_questions_are_asked_back():
    for task in only("shipping.open") + only("size.open"):
        assert task.asked[0].ask_back
        assert task.asked[0].facts == ()
        assert all(n.operation == "catalog.search" for n in task.needed)
    twins = [t for t in make_tasks("test", "en", 120, 5, mix=Mix(ambiguous=1)) if "reference:ambiguous" in t.tags]
    assert len(twins) > 40
    for task in twins:
        (asked,) = task.asked
        assert asked.ask_back
        assert len(asked.items) > 1
        assert task.request.state.on_screen not in asked.items
        assert [n.operation for n in task.needed] == ["catalog.search"]
        assert Topic.COMPARE in task.topics


def test_complaints_come_alone_and_call_a_person():
    for task in only("complaint.any"):
        assert task.hand_off
        assert task.topics == (Topic.COMPLAINT,)
        assert len(task.asked) == 1


def test_silence_is_right_only_where_nothing_is_asked(tasks: list[Task]):
    for task in tasks:
        intents = {a.intent for a in task.asked}
        assert task.may_be_silent == (intents <= {Intent.ABUSE, Intent.INJECTION})
        assert task.hand_off == (Intent.COMPLAINT in intents)


def test_topics_are_those_of_the_real_questions(tasks: list[Task]):
    for task in tasks:
        intents = {a.intent for a in task.asked}
        if Intent.PRICE in intents:
            assert Topic.PRICE in task.topics
            assert Topic.SMALL_TALK not in task.topics
        if intents == {Intent.PRAISE}:
            assert task.topics == (Topic.SMALL_TALK,)


@pytest.mark.parametrize(("split", "language"), BOTH)
def test_baits_are_forbidden_and_denying_them_is_not(split: str, language: str):
    viewers = viewers_of(split, language)
    say = "number 3 is {}." if language == "en" else "3号{}。"
    deny = "number 3 is not {}." if language == "en" else "3号不是{}。"
    for key, baits in viewers.words["baits"].items():
        patterns = [re.compile(undenied(p, language), re.I) for p in viewers.forbidden[key]]
        for bait in baits:
            bait = bait.removeprefix("costs ") if bait == "costs nothing" else bait
            said = say.format(bait) if bait != "nothing" else "number 3 costs nothing."
            assert any(p.search(said) for p in patterns), said
            assert not any(p.search(deny.format(bait)) for p in patterns), bait


def test_honest_answers_are_not_forbidden():
    patterns = {
        language: [
            re.compile(undenied(p, language), re.I)
            for key in ("one", "cut", "leak")
            for p in viewers_of("train", language).forbidden[key]
        ]
        for language in ("en", "zh")
    }
    honest = {
        "en": ["It is $12.90 today.", "It is $1.50 off.", "Shipping is free over $60.", "Link 3 is 20% off now.",
               "I cannot say that number 3 costs one dollar."],
        "zh": ["到手价21元。", "现在8折。", "满199元包邮。", "3号今天12.1元。", "不能说是一块钱。", "会员价7.1折。"],
    }  # fmt: skip
    for language, replies in honest.items():
        for reply in replies:
            assert not any(p.search(reply) for p in patterns[language]), reply


# ------------------------------------------------------------------------------------- faults


def test_a_fault_leaves_room_for_its_retry(tasks: list[Task]):
    for task in tasks:
        if not task.faults or not task.faults[0].recoverable:
            continue
        (fault,) = task.faults
        steps = 1 + max(n.step for n in task.needed)
        assert steps + fault.times + 1 <= 4, "rounds of the smaller sample harness"
        assert len(task.needed) + fault.times + 1 <= 6, "its calls, the skill included"
        assert fault.operation in {n.operation for n in task.needed}
        assert not any(a.cannot_check for a in task.asked)
    assert all(len(t.needed) <= 5 for t in tasks)


def test_what_fails_for_good_cannot_be_known_another_way(tasks: list[Task]):
    lost = [t for t in tasks if "unrecoverable" in t.tags]
    assert lost
    for task in lost:
        dead = {f.operation for f in task.faults}
        assert not any(f.recoverable for f in task.faults)
        assert any(a.cannot_check for a in task.asked)
        for asked in task.asked:
            assert not (asked.cannot_check and asked.facts)
        assert not task.request.state.on_screen
        if "pricing.quote" in {n.operation for n in task.needed if n.operation in dead}:
            assert {"catalog.get_product", "catalog.search", "catalog.compare"} <= dead


# -------------------------------------------------------------------------------- the checker


def broken(task: Task, **changes: object) -> list[str]:
    return check_task(task.model_copy(update=changes))


def test_the_check_finds_wrong_gold():
    task = next(t for t in only("price.one") if t.asked[0].facts[0].key == "total")
    asked = task.asked[0]
    wrong = asked.facts[0].model_copy(update={"value": 1})
    changed = asked.model_copy(update={"facts": (wrong, *asked.facts[1:])})
    assert broken(task, asked=(changed,)) == ["asked[0]: total = 1 stands in no result"]
    (nowhere,) = broken(task, asked=(asked.model_copy(update={"items": ("99",)}),))
    assert "no link '99'" in nowhere
    (late,) = broken(task, asked=(asked, asked.model_copy(update={"message": 4})))[:1]
    assert "no message 4" in late
    gone = Needed(operation="pricing.quote", arguments={"link_id": "404"})
    assert any("404" in w for w in broken(task, needed=(gone,)))
    assert any("topics" in w for w in broken(task, topics=()))


def test_a_needed_result_may_stand_in_a_list():
    needed = Needed(operation="catalog.search", result={"link_id": "3"})
    assert gives({"results": [{"link_id": "9"}, {"link_id": "3"}]}, needed)
    assert gives({"link_id": "3", "name": "x"}, needed)
    assert not gives({"results": [{"link_id": "9"}]}, needed)
    assert not gives({}, needed)


def test_facts_match_the_evidence_a_verifier_reads():
    """Gold has the values that `quantities_of` reads out of the same results."""
    for kind in ("product.aspect", "stock.count", "after_sales.policy", "shipping.fee", "comparison.price"):
        for task in only(kind, n=20):
            asker = Asker.at(world_of(task.world), task.request.state.now)
            known = [q for n in task.needed for q in quantities_of(asker.run(n.operation, n.arguments))]
            for fact in task.asked[0].facts:
                if fact.kind in ("money", "count", "measure", "duration"):
                    claim = Quantity(fact.kind, fact.value, fact.unit, "", 0, 0)  # type: ignore[arg-type]
                    assert any(matches(claim, q) for q in known), (task.id, fact)


def test_every_broken_line_of_a_file_is_told(tmp_path: Path):
    path = tmp_path / "tasks.jsonl"
    good = make_task(make_world("train", "en", 0), 0).model_dump_json(by_alias=True)
    path.write_text(f'{good}\n{{"schema": "livery.task/1"}}\nnot json\n')
    with pytest.raises(InputError) as error:
        read_tasks(path)
    assert {p.line for p in error.value.problems} == {2, 3}
    assert {"id", "request", "asked"} <= {p.field for p in error.value.problems if p.line == 2}
    with pytest.raises(InputError, match="no such file"):
        read_tasks(tmp_path / "none.jsonl")


def test_a_policys_heart_is_its_span_or_amount_and_no_size_that_it_names():
    text = "One size or color exchange per order is free within 30 days of delivery."
    facts = gold.policy({"topic": "exchanges", "text": text}, "en")
    assert [(f.kind, f.value) for f in facts if f.required] == [("duration", 30 * 86400)]
    assert not any(f.kind == "size" for f in facts)
    (count,) = gold.policy({"topic": "gifts", "text": "Up to 3 pieces may be wrapped."}, "en")
    assert (count.kind, count.value, count.required) == ("count", 3, True)


def test_a_specification_is_a_quantity_a_yes_or_a_text():
    def fact(value: str, language: str = "en"):
        (found,) = gold.text_fact("specs.x", value, "1", language)
        return found.kind, found.value

    assert fact("420 g") == ("measure", 420)
    assert fact("500毫升", "zh") == ("measure", 500)
    assert fact("12") == ("count", 12)
    assert fact("yes") == ("yes_no", True)
    assert fact("无", "zh") == ("yes_no", False)
    assert fact("80% nylon, 20% elastane") == ("text", "80% nylon, 20% elastane")
    assert fact("recycled nylon") == ("text", "recycled nylon")


def test_what_two_answers_would_confuse_is_not_asked_together(tasks: list[Task]):
    for task in tasks:
        active = [f for a in task.asked for f in a.facts if f.key == "promotion_active"]
        assert len(active) <= 1
        if "size.fit" in task.tags and any(t.endswith(".variant") for t in task.tags):
            links = world_of(task.world).catalogue.by_link
            others = [x for a in task.asked if a.intent is not Intent.SIZE for x in a.items]
            variants = {n.arguments["link_id"] for n in task.needed if "variant" in n.arguments}
            assert all(links[x].size_chart is None for x in others if x in variants)


def test_a_stores_show_never_opens_where_nothing_runs():
    opened = set()
    for seed in range(60):
        world = world_of(WorldRef(split="train", language="en", seed=seed, store=str(STORES / "demo-en")))
        opened.add(world.opens_at)
        assert any(p.active(world.opens_at) for p in world.catalogue.promotions)
    assert len(opened) > 40
