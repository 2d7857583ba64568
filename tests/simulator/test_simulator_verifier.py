"""The verifier against labelled replies, and what each of its scores hangs on."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from livery.harness.folder import load_harness
from livery.harness.model import Harness
from livery.harness.quantities import read_quantities
from livery.shop.money import format_money
from livery.simulator.agreement import Labelled, figures, load_labelled, part_of, reply_skills
from livery.simulator.oracle import OraclePolicy
from livery.simulator.rollout import live_of, rollout
from livery.simulator.task import Asked, Fault, GoldFact, Intent, Needed, Scores, Task
from livery.simulator.tasks import make_tasks
from livery.simulator.verifier import verify
from livery.types import ErrorKind, PolicyTurn, Route, ToolCall, ToolError, ToolResult, Trajectory, Turn

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
SETS = ("labelled_replies", "labelled_replies_fresh", "labelled_replies_blind", "labelled_replies_chat")


@pytest.fixture(scope="module")
def harnesses() -> dict[str, Harness]:
    return {x: load_harness(ROOT / "harnesses" / f"streamer-{x}").harness for x in ("en", "zh")}


@pytest.fixture(scope="module")
def labelled(harnesses: dict[str, Harness]) -> list[Labelled]:
    found: list[Labelled] = []
    for language, harness in harnesses.items():
        for name in SETS:
            path = HERE / f"{name}_{language}.yaml"
            found += load_labelled(path, ROOT / "stores" / f"demo-{language}", reply_skills(harness))
    return found


@pytest.fixture(scope="module")
def judged(labelled: list[Labelled], harnesses: dict[str, Harness]) -> list[tuple[Labelled, Scores]]:
    return [
        (x, verify(x.task, x.trajectory, harnesses[x.task.world.language], catalogue=x.catalogue)) for x in labelled
    ]


@pytest.fixture(scope="module")
def one(labelled: list[Labelled], harnesses: dict[str, Harness]):
    """Verifies a case with another reply, task or trajectory."""
    by_case = {x.case: x for x in labelled}

    def run(case: str, reply: str, *, task: dict[str, Any] | None = None, **trajectory: Any) -> Scores:
        x = by_case[case]
        changed = x.task.model_copy(update=task or {})
        played = replace(x.trajectory, reply=reply, route=Route.AGENT, **trajectory)
        return verify(changed, played, harnesses[x.task.world.language], catalogue=x.catalogue)

    return run


# ----------------------------------------------------------------------------------- agreement


def test_the_labelled_set_is_large_and_in_both_languages(labelled: list[Labelled]):
    first = [x for x in labelled if x.case[:2] in ("en", "zh")]
    assert len(first) >= 400
    assert len({x.case for x in first}) >= 60
    assert 0.4 < sum(x.task.world.language == "zh" for x in labelled) / len(labelled) < 0.6
    assert len({x.id for x in labelled}) == len(labelled)
    assert len({(x.case, x.trajectory.reply) for x in labelled}) == len(labelled)
    assert all(x.why for x in labelled)


def test_parts_are_fixed_by_the_id():
    assert part_of("en01") == part_of("en01")
    assert {part_of(f"en{i:02d}") for i in range(1, 40)} == {"development", "held-out"}
    assert part_of("be01") == "blind" and part_of("fe01") == "development"
    assert part_of("ke01") == "chat" and part_of("vz01") == "chat, unseen"


@pytest.mark.parametrize(
    ("part", "precision", "recall", "effectiveness"),
    [
        ("development", 0.99, 0.98, 0.99),
        ("held-out", 0.97, 0.98, 0.99),
        ("blind", 0.93, 0.9, 0.96),
        ("chat", 0.6, 1, 1),
        ("chat, unseen", 0, 1, 0.97),
    ],
)
def test_agreement_does_not_fall_below_what_was_reached(
    judged: list[tuple[Labelled, Scores]], part: str, precision: float, recall: float, effectiveness: float
):
    reached = figures([x for x in judged if x[0].part == part])
    assert reached.precision >= precision
    assert reached.recall >= recall
    assert reached.effectiveness >= effectiveness


def test_every_lost_point_has_a_reason(judged: list[tuple[Labelled, Scores]]):
    for _, scores in judged:
        if scores.accuracy == 0:
            assert any(r.startswith("accuracy: ") for r in scores.reasons)
        if scores.effectiveness < 1:
            assert any(r.startswith("effectiveness: ") for r in scores.reasons)


def test_verifying_twice_gives_the_same(labelled: list[Labelled], harnesses: dict[str, Harness]):
    x = labelled[0]
    harness = harnesses[x.task.world.language]
    assert verify(x.task, x.trajectory, harness, catalogue=x.catalogue) == verify(
        x.task, x.trajectory, harness, catalogue=x.catalogue
    )


# ------------------------------------------------------------------------ figures in their roles


@pytest.mark.parametrize(
    ("case", "reply", "accuracy"),
    [
        ("en01", "The earbuds are $62.10.", 1),
        ("en01", "The earbuds are $79.99.", 0),
        ("en01", "The earbuds usually cost $79.99, now $62.10.", 1),
        ("en01", "The earbuds are 62.10 pounds sterling.", 0),
        ("en03", "Two tees are $35.88 in total.", 1),
        ("en03", "The tees are $35.88 apiece.", 0),
        ("en16", "Shipping is $13.95, 2-5 days.", 1),
        ("en16", "Shipping is $13.95, 3 to 5 days.", 0),
        ("en24", "The skillet costs $32.71, the knife $47.52.", 1),
        ("en24", "The knife costs $32.71, the skillet $47.52.", 0),
        ("zh01", "到手197.12元。", 1),
        ("zh01", "到手239元。", 0),
        ("zh03", "每份49.74元，两份99.47元。", 1),
        ("zh03", "每份99.47元。", 0),
        ("zh25", "炒锅128.72，刀具154.24。", 1),
        ("zh25", "刀具128.72，炒锅154.24。", 0),
    ],
)
def test_a_figure_counts_only_in_its_role_and_on_its_item(one: Any, case: str, reply: str, accuracy: int):
    assert one(case, reply).accuracy == accuracy


@pytest.mark.parametrize("step", [1, 7, 100])
def test_any_other_amount_is_wrong(labelled: list[Labelled], one: Any, step: int):
    for case in ("en01", "en03", "en05", "en07", "zh01", "zh03", "zh07"):
        task = next(x.task for x in labelled if x.case == case)
        total = next(f for f in task.asked[0].facts if f.key == "total")
        assert isinstance(total.value, int)
        for amount, right in ((total.value, 1), (total.value + step, 0), (total.value - step, 0)):
            sign = "¥" if total.unit == "CNY" else "$"
            assert one(case, f"{sign}{amount / 100:.2f}").accuracy == right, (case, amount)


@pytest.mark.parametrize(
    ("reply", "accuracy"),
    [("just under ninety-three dollars", 1), ("just over ninety-three dollars", 0), ("about $93", 1), ("about $99", 0)],
)
def test_roundings_keep_their_direction(one: Any, reply: str, accuracy: int):
    assert one("en07", reply).accuracy == accuracy


def test_hedges_do_not_help(one: Any):
    assert one("en01", "I think it may be $72, but I'm not sure.").accuracy == 0
    assert one("en01", "I think it is $62.10, if I'm not mistaken.").accuracy == 1


def test_a_forbidden_pattern_is_found_whatever_its_case(one: Any):
    assert one("en01", "$62.10! Magic Words.", task={"forbidden": ("magic words",)}).accuracy == 0


def test_a_stale_result_bears_nothing_out(one: Any, labelled: list[Labelled]):
    x = next(x for x in labelled if x.case == "en01")
    gone = Asked(intent=Intent.PRICE, message=0, items=("15",), cannot_check=True)
    (result,) = x.trajectory.results
    assert isinstance(result.value, dict)
    stale = replace(result, value={**result.value, "stale": True})
    turns = (replace(x.trajectory.turns[0], results=(stale,)), x.trajectory.turns[1])
    changed = {"asked": (gone,), "faults": (Fault(operation="pricing.quote", kind="stale", times=0),)}
    told = one("en01", "The earbuds are $62.10.", task=changed, turns=turns)
    assert (told.accuracy, told.effectiveness) == (0, 0)
    honest = one("en01", "I can't check the price right now, sorry.", task=changed, turns=turns)
    assert (honest.accuracy, honest.effectiveness) == (1, 1)


# -------------------------------------------------------------------------------- effectiveness


def test_silence_is_accurate_and_useless_unless_it_may_be(one: Any):
    silent = one("en01", "")
    assert (silent.accuracy, silent.effectiveness) == (1, 0)
    assert one("en37", "").effectiveness == 1


def test_some_of_what_was_asked_is_half(one: Any):
    assert one("en16", "Shipping is $13.95.").effectiveness == 0.5
    assert one("zh16", "运费18元。").effectiveness == 0.5


def test_a_person_who_was_not_called_costs_half(one: Any):
    sorry = "I'm so sorry. A colleague is taking this over."
    assert one("en35", sorry).effectiveness == 1
    assert one("en35", sorry, turns=(), effects=()).effectiveness == 0.5


def test_a_missing_optional_fact_costs_nothing(one: Any):
    fact = GoldFact(key="saved", kind="money", value=1789, unit="USD", item="15", required=False)
    total = GoldFact(key="total", kind="money", value=6210, unit="USD", item="15")
    asked = (Asked(intent=Intent.PRICE, message=0, items=("15",), facts=(total, fact)),)
    assert one("en01", "It's $62.10.", task={"asked": asked}).effectiveness == 1


# ------------------------------------------------------------------------------ tools and skills


def _result(operation: str, arguments: dict[str, Any], error: ErrorKind | None = None, **value: Any) -> ToolResult:
    call = ToolCall(id="c", name=operation, arguments=arguments)
    failed = ToolError(kind=error, message="") if error else None
    return ToolResult(
        call=call, key=operation, operation=operation, arguments=arguments, value=None if error else value, error=failed
    )


def _with(results: tuple[ToolResult, ...]) -> tuple[Turn, ...]:
    return (Turn(round=0, harness_release="", weights="", policy=PolicyTurn(stop="calls"), results=results),)


QUOTE = _result("pricing.quote", {"link_id": "15"}, total=1)


@pytest.mark.parametrize(
    ("results", "score"),
    [
        ((QUOTE,), 1.0),
        ((), 0.0),
        ((replace(QUOTE, arguments={"link_id": "15", "quantity": 1}),), 1.0),
        ((replace(QUOTE, arguments={"link_id": "16"}),), 0.0),
        ((QUOTE, QUOTE), 0.9),
        ((_result("pricing.quote", {"link_id": "15"}, ErrorKind.TIMEOUT), QUOTE), 1.0),
        ((_result("pricing.quote", {"link": "15"}, ErrorKind.INVALID_ARGUMENTS), QUOTE), 0.8),
        ((QUOTE, _result("stock.check", {"link_id": "15"}, stock=1)), 0.9),
        ((_result("catalog.search", {"query": "buds"}, results=[]), QUOTE), 1.0),
        ((QUOTE, _result("room.show_item", {"link_id": "3"}, shown="3")), 0.7),
        ((QUOTE, _result("room.hand_off", {"reason": "x"}, handed_off=True)), 0.7),
        ((QUOTE, _result("harness.load_skill", {"name": "x"}, text="x")), 1.0),
    ],
)
def test_tool_rationality(one: Any, results: tuple[ToolResult, ...], score: float):
    assert one("en01", "$62.10", turns=_with(results)).tool_rationality == pytest.approx(score)


def test_a_freely_worded_argument_is_judged_by_its_result(one: Any):
    needed = (
        Needed(
            operation="shipping.quote",
            arguments={"region": "Texas", "link_id": "10"},
            free=("region",),
            result={"region": "Contiguous US"},
        ),
    )
    same = _result("shipping.quote", {"region": "Houston, TX", "link_id": "10"}, region="Contiguous US", ships=True)
    other = _result("shipping.quote", {"region": "Quebec", "link_id": "10"}, region="Canada", ships=False)
    assert one("en16", "x", task={"needed": needed}, turns=_with((same,))).tool_rationality == 1
    assert one("en16", "x", task={"needed": needed}, turns=_with((other,))).tool_rationality == 0


def test_skills_are_judged_by_key_and_topic(one: Any, harnesses: dict[str, Harness]):
    by_topic = {t: s.key for s in harnesses["en"].skills for t in s.metadata.get("livery-topics", "").split()}
    assert one("en01", "$62.10", skills=(by_topic["price"],)).skill_selection == 1
    assert one("en01", "$62.10", skills=(by_topic["size"],)).skill_selection == 0
    assert one("en01", "$62.10", skills=()).skill_selection == 0
    assert one("en01", "$62.10", skills=(by_topic["size"], by_topic["price"])).skill_selection == 1


def test_the_catalogue_is_the_worlds_where_none_is_given(labelled: list[Labelled], harnesses: dict[str, Harness]):
    x = next(x for x in labelled if x.case == "en01")
    assert verify(x.task, x.trajectory, harnesses["en"]) == verify(
        x.task, x.trajectory, harnesses["en"], catalogue=x.catalogue
    )


def test_a_trajectory_is_not_changed(labelled: list[Labelled], harnesses: dict[str, Harness]):
    x = labelled[3]
    task: Task = x.task
    before: Trajectory = replace(x.trajectory)
    verify(task, x.trajectory, harnesses["en"], catalogue=x.catalogue)
    assert x.trajectory == before and x.task == task


# --------------------------------------------------------------- right answers, and what is made of them


@pytest.fixture(scope="module")
def played(harnesses: dict[str, Harness]) -> list[tuple[Task, Trajectory, Harness]]:
    """Right answers in varied words: the oracle's, on made worlds of both languages."""

    async def play() -> list[tuple[Task, Trajectory, Harness]]:
        found: list[tuple[Task, Trajectory, Harness]] = []
        for language in ("en", "zh"):
            live = live_of(harnesses[language])
            for task in make_tasks("train", language, 40, 31):
                trajectory, scores = await rollout(task, live, OraclePolicy(seed=2), seed=5)
                if scores.full and trajectory.reply:
                    found.append((task, trajectory, live.harness))
        return found

    return asyncio.run(play())


def test_any_changed_figure_of_a_right_answer_is_caught(played: list[tuple[Task, Trajectory, Harness]]):
    changed = 0
    for task, trajectory, harness in played:
        reply = trajectory.reply
        for q in read_quantities(reply, task.world.language):
            digits = re.search(r"\d+", q.text)
            if q.kind not in ("money", "duration", "measure") or digits is None:
                continue
            wrong = q.text[: digits.start()] + str(int(digits.group()) + 3) + q.text[digits.end() :]
            text = reply[: q.start] + wrong + reply[q.end :]
            assert verify(task, replace(trajectory, reply=text), harness).accuracy == 0, text
            changed += 1
    assert changed >= 20


def test_a_list_price_or_a_saving_in_the_totals_place_is_caught(played: list[tuple[Task, Trajectory, Harness]]):
    swapped = 0
    for task, trajectory, harness in played:
        facts = [f for a in task.asked for f in a.facts if f.kind == "money"]
        for total in (f for f in facts if f.key == "total"):
            for other in facts:
                if other.item != total.item or other.key not in ("list_price", "saved") or other.value == total.value:
                    continue
                for q in read_quantities(trajectory.reply, task.world.language):
                    if q.kind == "money" and q.value == total.value and isinstance(other.value, int):
                        put = format_money(other.value, other.unit)
                        text = trajectory.reply[: q.start] + put + trajectory.reply[q.end :]
                        assert verify(task, replace(trajectory, reply=text), harness).accuracy == 0, text
                        swapped += 1
    assert swapped >= 5
