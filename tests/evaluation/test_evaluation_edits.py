"""Harness edits: each changes the right answer and leaves one; demands are judged; errors that go are counted."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evaluation_results import result
from typer.testing import CliRunner

from livery.cli.eval import app
from livery.errors import InputError
from livery.evaluation import edits_places as places
from livery.evaluation.edits import FIRST_WORLD, REASON, edit_of, edit_tasks, edited, judged, succeeded
from livery.evaluation.edits_kinds import BannedWord, HarnessEdit, Limit, natural
from livery.evaluation.edits_list import KINDS, edits_of
from livery.evaluation.edits_oracle import EditedOracle, prove
from livery.evaluation.edits_reduction import error_reduction
from livery.evaluation.suites import SUITES, Base
from livery.harness.digest import harness_digest
from livery.harness.lint import lint
from livery.harness.model import Harness
from livery.simulator.oracle import OraclePolicy
from livery.simulator.rollout import live_of, rollout
from livery.simulator.task import Task
from livery.types import Route, Trajectory

runner = CliRunner()
ROUND = len(KINDS)


def named(name: str) -> HarnessEdit:
    return next(e for kind in edits_of("en").values() for e in kind if e.name == name)


def task_of(kind: str, label: str = "") -> Task:
    """The first task of a kind of edit, or of one edit."""
    wanted = f"{kind}.{label}" if label else kind
    return next(t for t in edit_tasks("en", 12 * ROUND) if f"edit:{wanted}" in t.tags)


def play(task: Task, harness: Harness, policy: Any) -> Trajectory:
    return asyncio.run(rollout(task, live_of(harness), policy, seed=0))[0]


# ------------------------------------------------------------------------------------------- the set


def test_kinds_take_turns_over_worlds_that_no_other_set_has():
    tasks = edit_tasks("en", 2 * ROUND)
    assert [edit_of(t).kind for t in tasks] == [*KINDS, *KINDS]
    assert len({t.id for t in tasks}) == 2 * ROUND
    assert all(t.world.split == "test" and FIRST_WORLD <= t.world.seed < FIRST_WORLD + 60 for t in tasks)
    assert not {t.id for t in SUITES["t1"].tasks(60)} & {t.id for t in tasks}


def test_both_sets_ask_the_same_tasks_and_only_the_new_one_wears_the_edit(english: Harness):
    old, new = (list(SUITES[name].cases(english, ROUND)) for name in ("edits-old", "edits-new"))
    assert SUITES["edits-old"].size == SUITES["edits-new"].size == 500
    assert [c.task for c in old] == [c.task for c in new]
    assert [c.kind for c in old] == [c.kind for c in new] == list(KINDS)
    assert all(c.harness is english for c in old)
    assert len({harness_digest(c.harness) for c in new} - {harness_digest(english)}) == ROUND
    again = list(SUITES["edits-new"].cases(english, ROUND))
    assert all(a.harness is b.harness for a, b in zip(new, again, strict=True))


def test_a_task_of_another_set_belongs_to_no_edit():
    with pytest.raises(ValueError, match="belongs to no edit"):
        edit_of(SUITES["t1"].tasks(1)[0])


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_edit_makes_a_harness_that_may_be_published(language: Any, english: Harness, chinese: Harness):
    base = english if language == "en" else chinese
    before = {p.code for p in lint(base)}
    made = {e.name: e.applied(base) for kind in edits_of(language).values() for e in kind}
    assert len({harness_digest(h) for h in made.values()}) == len(made)
    found = {name: [str(p) for p in lint(h) if p.code not in before] for name, h in made.items()}
    assert {name: f for name, f in found.items() if f} == {}


def test_a_rule_is_written_where_an_operator_would(english: Harness):
    disclosure = named("disclosure.price")
    skill = next(
        s for s in disclosure.applied(english).skills if "price" in s.metadata.get("livery-topics", "").split()
    )
    assert f"\n7. {disclosure.rule}" in skill.body
    banned = named("banned_word.size")
    made = banned.applied(english)
    assert any(s.key == "rules" and s.template.rstrip().endswith(f"- {banned.rule}") for s in made.sections)
    assert [h.key for h in made.hooks][-2:] == ["banned-size", "give-up"]
    limit = named("limit.chars-38").applied(english)
    assert limit.limits.reply_chars == 38
    assert places.speech_params(limit)["max_chars"] == 38
    check = named("check_first.price-stock").applied(english)
    assert "call check_stock as well for the link" in next(s for s in check.skills if s.key == "price-promo").body


def test_a_rule_joins_a_list_as_its_steps_are_marked():
    assert places.listed("1. a\n2. b\nThen c.\n", "d") == "1. a\n2. b\n3. d\nThen c.\n"
    assert places.listed("- a\n- b", "d") == "- a\n- b\n- d"
    assert places.listed("a\n", "d") == "a\n\nd\n"


def test_a_harness_without_the_place_gets_the_rule_in_its_prompt(english: Harness):
    bare = english.replace(skills=tuple(s for s in english.skills if s.key != "price-promo"))
    rule = named("disclosure.price").rule
    assert any(rule in s.template for s in named("disclosure.price").applied(bare).sections)


def test_a_harness_without_the_tool_that_a_check_asks_for_is_refused(english: Harness):
    bare = english.replace(tools=tuple(t for t in english.tools if t.binding.operation != "stock.check"))
    with pytest.raises(InputError, match=r"found no tool bound to stock\.check"):
        named("check_first.price-stock").applied(bare)


# ------------------------------------------------------------------------------------------ demands


def test_words_that_must_be_heard_are_heard_whatever_their_stops():
    disclosure = named("disclosure.price")
    task = task_of("disclosure", "price")
    assert disclosure.amiss(task, "It is $5, and prices can change, after the show!") == ""
    assert "is missing" in disclosure.amiss(task, "It is $5. Prices can change.")


def test_a_sign_off_stands_at_the_end_as_it_is_written():
    sign_off, task = named("sign_off.1"), task_of("sign_off")
    assert sign_off.amiss(task, "It is $5. Happy shopping!") == ""
    assert sign_off.amiss(task, "Happy shopping! It is $5.")


def test_a_banned_word_is_a_word():
    banned = named("banned_word.size")
    assert isinstance(banned, BannedWord)
    assert banned.found("Take Size M.") == "Size"
    assert banned.found("A sizeable bag, downsized.") == ""


def test_limits_count_characters_and_words():
    task = task_of("limit")
    chars, words = named("limit.chars-28"), named("limit.words-6")
    assert chars.amiss(task, "x" * 28) == ""
    assert chars.amiss(task, "x" * 29) == "the reply has more than 28 characters"
    assert words.amiss(task, "It is $18.95 for you now.") == ""
    assert words.amiss(task, "It is $18.95 for you right now.")


def test_tasks_of_a_limit_have_natural_answers_that_break_it():
    task = task_of("limit")
    edit = edit_of(task)
    assert isinstance(edit, Limit)
    assert all(edit.amiss(task, text) for text in natural(task))


def test_a_coupon_rule_makes_another_fact_required():
    task = task_of("coupon_rule", "amount")
    before, after = task.asked[0].facts, edit_of(task).gold(task).asked[0].facts
    changed = [b for a, b in zip(before, after, strict=True) if a != b]
    assert [(f.key, f.required) for f in changed] == [("off", True)]
    without = task_of("coupon_rule", "no-code")
    edit, gold = edit_of(without), edit_of(without).gold(without)
    promotion = next(f for f in without.asked[0].facts if f.key == "promotion")
    shown = next(f for f in gold.asked[0].facts if f.key == "promotion")
    code = next(w for w in promotion.wordings if w not in shown.wordings)
    assert edit.amiss(without, f"There is {code} today.") == f"the coupon's code {code!r} is said"
    assert edit.amiss(without, f"There is {shown.value} today.") == ""


@pytest.mark.parametrize("kind", KINDS)
def test_what_follows_an_edit_succeeds_and_what_does_not_fails_by_the_demand(kind: str, english: Harness):
    task = task_of(kind)
    harness = edited(edit_of(task), Base(english))
    right = judged(task, play(task, harness, EditedOracle()), harness)
    assert succeeded(right), right.reasons
    wrong = judged(task, play(task, english, OraclePolicy()), english)
    assert not succeeded(wrong)
    told = [r for r in wrong.reasons if r.startswith(REASON)]
    assert told or wrong.effectiveness < 1


def test_an_answer_of_the_degraded_route_follows_no_edit(english: Harness):
    task = task_of("sign_off")
    harness = edited(edit_of(task), Base(english))
    played = play(task, harness, EditedOracle())
    assert succeeded(judged(task, played, harness))
    degraded = judged(task, replace(played, route=Route.DEGRADED), harness)
    assert degraded.reasons[0] == f"{REASON}the policy gave no reply of its own"
    assert degraded.accuracy == 0


def test_a_check_sends_a_banned_word_back_and_repairs_nothing(english: Harness):
    task = task_of("banned_word", "size")
    edit = edit_of(task)
    assert isinstance(edit, BannedWord)
    played = play(task, edited(edit, Base(english)), OraclePolicy())
    replies = [t for t in played.turns if not t.policy.calls]
    assert edit.found(replies[0].policy.text)
    assert edit.message in replies[0].feedback


def test_a_check_of_another_link_is_not_the_check(english: Harness):
    task = task_of("check_first", "price-stock")
    edit = edit_of(task)
    played = play(task, edited(edit, Base(english)), EditedOracle())
    assert edit.unmet(task, played) == ""
    other = [replace(r, arguments={"link_id": "999"}) if r.operation == "stock.check" else r for r in played.results]
    turns = (replace(played.turns[0], results=tuple(other)),)
    assert "was not called first" in edit.unmet(task, replace(played, turns=turns))


def test_a_round_of_all_kinds_is_proved(english: Harness):
    proof = asyncio.run(prove(edit_tasks("en", ROUND), english))
    assert (proof.whole.cases, proof.whole.edited, proof.failed) == (ROUND, ROUND, ())
    assert proof.whole.plain_old <= 1
    assert [k.kind for k in proof.kinds] == list(KINDS)


# ---------------------------------------------------------------------------------- error reduction


def runs(outcomes: list[tuple[str, bool, bool]]) -> tuple[list[Any], list[Any]]:
    """Results of old and new from (kind, right under old, right under new)."""
    old = [result(i, int(a), kind=kind) for i, (kind, a, _) in enumerate(outcomes)]
    new = [result(i, int(b), kind=kind) for i, (kind, _, b) in enumerate(outcomes)]
    return old, new


def test_error_reduction_is_the_share_of_the_old_errors_that_is_gone():
    wrong_right, wrong, right_wrong, right = (False, True), (False, False), (True, False), (True, True)
    rows = [("limit", *x) for x in [wrong_right] * 6 + [wrong] * 4] + [
        ("coupon_rule", *x) for x in [wrong_right] * 2 + [wrong] * 3 + [right_wrong] * 4 + [right]
    ]
    found = error_reduction(*runs(rows))
    assert found.whole.n == 20
    assert (found.whole.old.value, found.whole.new.value) == (75.0, 55.0)
    assert found.whole.reduction is not None
    assert found.whole.reduction.value == pytest.approx(100 * (15 - 11) / 15)
    assert (found.whole.repaired, found.whole.broken) == (8, 4)
    by_kind = {k.kind: k.reduction.value for k in found.kinds if k.reduction}
    assert by_kind == {"limit": pytest.approx(60.0), "coupon_rule": pytest.approx(-40.0)}


def test_half_an_answer_is_an_error():
    old, new = [result(0, 1, 0.5, kind="limit")], [result(0, 1, 1.0, kind="limit")]
    assert error_reduction(old, new).whole.repaired == 1


def test_the_interval_of_a_reduction_is_paired_and_seeded():
    rows = [("limit", False, i % 2 == 0) for i in range(40)]
    one, two = (error_reduction(*runs(rows)).whole.reduction for _ in range(2))
    assert one == two
    assert one is not None
    assert one.low < 50 < one.high
    assert one.low > 30
    assert one.high < 70
    every = error_reduction(*runs([("limit", False, True)] * 5)).whole.reduction
    assert every is not None
    assert (every.low, every.value, every.high) == (100, 100, 100)


def test_without_old_errors_there_is_no_reduction():
    whole = error_reduction(*runs([("limit", True, False), ("limit", True, True)])).whole
    assert whole.reduction is None
    assert whole.to_json()["reduction_percent"] is None
    assert whole.broken == 1


def test_results_of_other_sets_are_refused():
    with pytest.raises(InputError, match="has no kind of edit"):
        error_reduction([result(0)], [result(0)])
    with pytest.raises(InputError, match="share no task"):
        error_reduction([result(0, kind="limit")], [result(1, kind="limit")])


# ------------------------------------------------------------------------------------- command line


def test_two_runs_give_the_reduction_by_kind(tmp_path: Path):
    base = ["--harness", str(Path(__file__).parents[2] / "harnesses/streamer-en-compact")]
    for side in ("old", "new"):
        arguments = [f"edits-{side}", "--policy", "oracle", "--out", str(tmp_path / side), "--limit", str(ROUND)]
        run = runner.invoke(app, ["run", *arguments, *base], catch_exceptions=False)
        assert run.exit_code == 0, run.output
    told = runner.invoke(
        app, ["edits", str(tmp_path / "old"), str(tmp_path / "new"), "--out", str(tmp_path / "e.json")],
        catch_exceptions=False,
    )  # fmt: skip
    data = json.loads(told.stdout.splitlines()[-1])
    assert data == json.loads((tmp_path / "e.json").read_text(encoding="utf-8"))
    assert data["tasks"] == ROUND
    assert Counter(k["kind"] for k in data["kinds"]) == Counter(KINDS)
    by_kind = {k["kind"]: k for k in data["kinds"]}
    assert by_kind["sign_off"]["repaired"] == 1  # the oracle follows form
    assert by_kind["disclosure"]["repaired"] == 0  # and no prose
    with pytest.raises(InputError, match="expected edits-old"):
        runner.invoke(app, ["edits", str(tmp_path / "new"), str(tmp_path / "old")], catch_exceptions=False)
    recipe = json.loads((tmp_path / "new/run.json").read_text(encoding="utf-8"))
    (tmp_path / "new/run.json").write_text(json.dumps({**recipe, "weights": "others"}), encoding="utf-8")
    with pytest.raises(InputError, match="found 'others'"):
        runner.invoke(app, ["edits", str(tmp_path / "old"), str(tmp_path / "new")], catch_exceptions=False)


def test_the_proof_is_a_command(tmp_path: Path):
    out = tmp_path / "check.json"
    base = str(Path(__file__).parents[2] / "harnesses/streamer-zh")
    told = runner.invoke(app, ["edits-check", base, "--limit", "3", "--out", str(out)], catch_exceptions=False)
    data = json.loads(told.stdout.splitlines()[-1])
    assert (told.exit_code, data["cases"], data["edited"], data["failed"]) == (0, 3, 3, [])
    assert json.loads(out.read_text(encoding="utf-8")) == data
