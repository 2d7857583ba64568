"""The lab: its list, going on after a kill, changed recipes, the table; and the whole of it on a random model."""

import asyncio
import json
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the training extra: trl is not installed")

import yaml
from policies_tiny_model import chat_tokenizer
from training_rows import small_data, small_model, small_rows
from typer.testing import CliRunner

from livery.augment.operators import DIMENSIONS
from livery.cli import app
from livery.cli.harnesses import load_checked
from livery.errors import InputError
from livery.evaluation.ifeval_figures import IfevalResult
from livery.evaluation.results import Result
from livery.evaluation.run import evaluate, recipe_of
from livery.evaluation.suites import suite_named
from livery.simulator.oracle import OraclePolicy
from livery.simulator.task import Scores
from livery.training import lab
from livery.training.lab_steps import match_rows, sources_of
from livery.training.lab_table import as_markdown, publish, table
from livery.training.rows import first_turn, read_rows, tokenised_anew

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of the training libraries among themselves
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

ARMS = [
    {"name": "fixed", "augment": False, "tasks": 6},
    {"name": "hsa", "augment": True, "tasks": 6},
    {"name": "hsa-short", "augment": True, "tasks": 3, "seeds": [0]},
    {"name": "without-tools", "augment": True, "without": "tool_schemas", "tasks": 3, "seeds": [0]},
]


def config(**changes):
    whole = {"harness": "h", "seeds": [0, 1], "arms": ARMS, "suites": ["t1", "t2"], "limit": 2}
    return lab.LabConfig.model_validate({**whole, **changes})


class Killed(Exception):
    pass


class Fake:
    """Notes what it did; each step takes ten seconds of its clock, and one may kill it."""

    def __init__(self, kill=""):
        self.kill, self.did, self.now = kill, [], 0.0

    def __call__(self, step, out):
        if step.name == self.kill:
            raise Killed
        self.now += 10.0
        self.did.append(step.name)
        return lab.Made(lab.digest_of((out / step.name / lab.RECIPE).read_text()), step.units, {})

    def run(self, steps, out, **more):
        return lab.run_steps(steps, out, self, versions={"v": "1"}, clock=lambda: self.now, **more)


def test_the_list_has_every_arm_seed_and_set_after_what_it_needs():
    steps = lab.steps_of(config())
    names = [s.name for s in steps]
    assert len(names) == len(set(names)) == 1 + 6 + 3 + 6 + 14 + 1
    assert all(names.index(need) < i for i, s in enumerate(steps) for need in s.needs)
    by_name = {s.name: s for s in steps}
    assert by_name["match-6-s1"].needs == ("data-fixed-s1", "data-hsa-s1")
    assert by_name["match-3-s0"].needs == ("data-hsa-short-s0", "data-without-tools-s0")
    assert by_name["data-fixed-s0"].settings["dimensions"] == []
    assert "tool_schemas" not in by_name["data-without-tools-s0"].settings["dimensions"]
    assert len(by_name["data-without-tools-s0"].settings["dimensions"]) == 4
    assert by_name["eval-base-t2"].needs == ("base",)
    assert by_name["eval-hsa-s1-t2"].needs == ("base", "sft-hsa-s1")
    assert by_name["eval-base-t2"].units == 2


def test_some_arms_first_and_the_others_later_change_no_recipe():
    some = {s.name: s for s in lab.steps_of(config(), ["fixed"])}
    whole = {s.name: s for s in lab.steps_of(config())}
    assert {n for n in some if n.startswith("sft")} == {"sft-fixed-s0", "sft-fixed-s1"}
    assert "eval-base-t1" not in some
    assert all(whole[n] == s for n, s in some.items() if n != "table")
    with pytest.raises(InputError, match="found other; expected of base, fixed"):
        lab.steps_of(config(), ["other"])


def test_a_killed_run_goes_on_where_it_stopped(tmp_path):
    steps = lab.steps_of(config())
    first = Fake(kill="sft-hsa-s1")
    with pytest.raises(Killed):
        first.run(steps, tmp_path)
    assert lab.state_of(next(s for s in steps if s.name == "sft-hsa-s1"), tmp_path) == "begun"
    second = Fake()
    ran = second.run(steps, tmp_path)
    assert first.did + second.did == [s.name for s in steps]
    assert ran.skipped == tuple(first.did)
    third = Fake()
    assert third.run(steps, tmp_path).done == ()
    assert third.did == []


def test_two_processes_share_the_steps_and_do_each_once(tmp_path):
    steps = lab.steps_of(config())
    begun = {name: threading.Event() for name in ("sft-fixed-s0", "sft-hsa-s0")}

    class Meeting(Fake):
        def __call__(self, step, out):
            if step.name in begun:
                # Each goes on only when the other step is being done as well: by the other worker, then.
                begun[step.name].set()
                assert all(e.wait(20) for e in begun.values())
            return super().__call__(step, out)

    workers = [Meeting(), Meeting()]
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda w: w.run(steps, tmp_path, sleep=lambda s: time.sleep(0.001)), workers))
    assert sorted(workers[0].did + workers[1].did) == sorted(s.name for s in steps)
    assert {*runs[0].done} | {*runs[1].done} == {s.name for s in steps}
    assert not {*runs[0].done} & {*runs[1].done}
    assert len({"sft-fixed-s0", "sft-hsa-s0"} & {*workers[0].did}) == 1


def test_force_wants_the_lab_alone(tmp_path):
    steps = lab.steps_of(config(), ["base"])
    refused = []

    class Busy(Fake):
        def __call__(self, step, out):
            if not refused:
                with pytest.raises(InputError, match="another process works in this lab; --force wants it alone"):
                    Fake().run(steps, tmp_path, force=True)
                refused.append(step.name)
            return super().__call__(step, out)

    Busy().run(steps, tmp_path)
    assert refused == ["base"]


def test_a_changed_recipe_is_refused_by_field_and_redone_when_forced(tmp_path):
    Fake().run(lab.steps_of(config()), tmp_path)
    changed = lab.steps_of(config(learning_rate=0.5))
    refused = Fake()
    with pytest.raises(InputError, match=r"settings\.learning_rate.*has 0\.001, this run 0\.5.*--force") as error:
        refused.run(changed, tmp_path)
    assert len(error.value.problems) == 6
    assert refused.did == []
    forced, said = Fake(), []
    ran = forced.run(changed, tmp_path, force=True, say=said.append)
    # Training anew changes its digest, and with it the evaluations and the table; data and base stay.
    again = [s for s in changed if s.kind in ("sft", "table") or (s.kind == "eval" and s.arm != "base")]
    assert ran.redone == tuple(s.name for s in again)
    assert "sft-fixed-s0: settings.learning_rate changed; deleted, and done again" in said
    assert forced.did == list(ran.redone)


def test_another_version_is_another_recipe(tmp_path):
    steps = lab.steps_of(config(), ["base"])
    Fake().run(steps, tmp_path)
    with pytest.raises(InputError, match=r"versions\.v"):
        lab.run_steps(steps, tmp_path, Fake(), versions={"v": "2"})


def test_the_time_left_follows_what_was_measured(tmp_path):
    steps = lab.steps_of(config(), ["fixed"])
    guesses = {"base": 1.0, "data": 2.0, "match": 0.0, "sft": 5.0, "eval": 7.0, "table": 0.0}
    # base 1, data 4 * 6, sft 2 * 6, evaluation 2 seeds * 2 sets * 2 tasks
    assert lab.remaining_s(steps, tmp_path, guesses) == 1 + 4 * 6 * 2 + 2 * 6 * 5 + 4 * 2 * 7
    with pytest.raises(Killed):
        Fake(kill="sft-fixed-s1").run(steps, tmp_path)
    assert lab.rates(tmp_path, guesses)["sft"] == pytest.approx(10 / 6)
    assert lab.remaining_s(steps, tmp_path, guesses) == pytest.approx(10 + 4 * 2 * 7)
    assert lab.hours(3700) == "1 h 02 min"


def test_faults_of_the_configuration_are_all_told(tmp_path):
    path = tmp_path / "lab.yaml"
    faulty = {
        "harness": "h",
        "arms": [ARMS[0], {"name": "A b", "augment": True, "tasks": -1}],
        "suites": ["t1"],
        "limits": 3,
    }
    path.write_text(yaml.safe_dump({"profiles": {"full": faulty}}))
    with pytest.raises(InputError) as error:
        lab.read_config(path, "full")
    fields = {p.field for p in error.value.problems}
    assert fields == {f"profiles.full.{f}" for f in ("arms.1.name", "arms.1.tasks", "limits")}
    with pytest.raises(InputError, match="no profile 'quick'; it has full"):
        lab.read_config(path, "quick")


def test_the_other_profiles_leave_one_dimension_out_and_hold_all_stages():
    left_out = lab.read_config(ROOT / lab.CONFIG, "dimensions")
    assert {a.without for a in left_out.arms} == {None, *DIMENSIONS}
    assert len({a.tasks for a in left_out.arms}) == 1
    ablation = lab.read_config(ROOT / lab.CONFIG, "ablation")
    assert {a.stage for a in ablation.arms} == {"sft", "distill", "rl"}
    assert {a.name for a in ablation.arms if ablation.seeds_of(a) == (0, 1)} == {"fixed", "hsa", "hsa-opd", "hat"}
    hat, fixed = ablation.arm("hat"), ablation.arm("hsa-opd-rl-fixed")
    assert (hat.after, hat.tasks, hat.steps) == (fixed.after, fixed.tasks, fixed.steps)


@pytest.mark.parametrize("profile", ["smoke", "full"])
def test_the_profiles_that_come_along_can_be_read(profile):
    chosen = lab.read_config(ROOT / lab.CONFIG, profile)
    assert {"fixed", "hsa"} <= {a.name for a in chosen.arms}
    fixed, hsa = (next(a for a in chosen.arms if a.name == n) for n in ("fixed", "hsa"))
    assert fixed.tasks == hsa.tasks
    assert lab.steps_of(chosen)[-1].kind == "table"


def results(*accuracies):
    return [
        Result(
            task=f"t{i}",
            index=i,
            seed=0,
            scores=Scores(accuracy=a, effectiveness=a, tool_rationality=1.0, skill_selection=1),
            release="r",
            route="agent",
            question="?",
            reply=".",
        )
        for i, a in enumerate(accuracies)
    ]


def test_the_table_averages_seeds_and_pairs_t2_with_t1():
    runs = {
        "eval-fixed-s0-t1": results(1, 1, 1, 1),
        "eval-fixed-s1-t1": results(1, 1, 1, 0),
        "eval-fixed-s0-t2": results(1, 0, 0, 0),
        "eval-fixed-s1-t2": results(1, 0, 0, 0),
        "eval-hsa-s0-t1": results(1, 1, 1, 1),
        "eval-hsa-s0-t2": results(1, 1, 1, 1),
    }
    data = table(runs, config(), profile="full")
    fixed = data["arms"]["fixed"]
    assert fixed["t1"]["measures"]["avg"]["value"] == 87.5
    assert {s: e["value"] for s, e in fixed["t1"]["seeds"].items()} == {"0": 100.0, "1": 75.0}
    assert data["t2_less_t1"]["fixed"]["t2"]["avg"]["value"] == -62.5
    assert data["t2_less_t1"]["fixed"]["t2"]["avg"]["kept_percent"]["value"] == pytest.approx(28.57, abs=0.01)
    assert data["t2_less_t1"]["hsa"]["t2"]["avg"]["kept_percent"]["value"] == 100.0
    assert data["between"]["hsa against fixed"]["t2"]["avg"]["value"] == 75.0
    assert data["tasks"] == {"t1": 4, "t2": 4}
    text = as_markdown(data)
    assert "| fixed | t1 | 4 | 87.5 (" in text
    assert "| hsa against fixed | t2 | +75.0 (" in text


def test_an_arm_can_be_evaluated_on_some_of_the_sets():
    arms = [ARMS[0], {**ARMS[1], "suites": ["t2"]}]
    names = {s.name for s in lab.steps_of(config(arms=arms, seeds=[0])) if s.kind == "eval"}
    assert names == {"eval-base-t1", "eval-base-t2", "eval-fixed-s0-t1", "eval-fixed-s0-t2", "eval-hsa-s0-t2"}
    with pytest.raises(ValueError, match="not the lab's: t2-tool-schemas"):
        config(arms=[{**ARMS[0], "suites": ["t2-tool-schemas"]}])


STAGED = [
    {"name": "fixed", "tasks": 6},
    {"name": "hsa", "augment": True, "tasks": 6},
    {"name": "fixed-opd", "stage": "distill", "after": "fixed", "steps": 2, "seeds": [0]},
    {"name": "hsa-opd", "stage": "distill", "after": "hsa", "steps": 2},
    {"name": "rl-fixed", "stage": "rl", "after": "hsa-opd", "tasks": 4, "steps": 2, "seeds": [0]},
    {"name": "hat", "stage": "rl", "after": "hsa-opd", "augment": True, "tasks": 4, "steps": 2},
]


def staged(**changes):
    return config(**{"arms": STAGED, "prompts": ["general.jsonl"], **changes})


def test_stages_go_on_from_where_other_arms_end():
    by_name = {s.name: s for s in lab.steps_of(staged())}
    assert by_name["distill-hsa-opd-s1"].needs == ("base", "sft-hsa-s1")
    assert by_name["rl-hat-s1"].needs == ("base", "distill-hsa-opd-s1")
    assert by_name["eval-hat-s1-t2"].needs == ("base", "rl-hat-s1")
    assert "rl-rl-fixed-s1" not in by_name
    assert by_name["match-6-s0"].needs == ("data-fixed-s0", "data-hsa-s0")
    assert by_name["rl-hat-s0"].settings["dimensions"] != by_name["rl-rl-fixed-s0"].settings["dimensions"] == []


def test_supervised_training_goes_on_from_an_arm_with_other_tasks(tmp_path):
    more = [{"name": f"{a}-more", "after": a, "augment": a == "hsa", "tasks": 50} for a in ("fixed", "hsa")]
    whole = config(arms=[*ARMS, *({**m, "first_turns": 0.5} for m in more)], seeds=[0])
    by_name = {s.name: s for s in lab.steps_of(whole)}
    assert by_name["sft-hsa-more-s0"].needs == ("base", "match-50-s0", "sft-hsa-s0")
    assert by_name["data-hsa-more-s0"].settings["after_tasks"] == [6]
    assert by_name["match-50-s0"].settings["first_turns"] == 0.5
    # Those that begin at the base stay the steps they were.
    alone = {s.name: s for s in lab.steps_of(config(seeds=[0]))}
    assert all(by_name[n] == alone[n] for n in alone if n != "table")
    assert set(lab.steps_of(whole, ["fixed-more"])[0].settings) == {"model"}
    assert "sft-fixed-s0" in {s.name for s in lab.steps_of(whole, ["fixed-more"])}


def test_an_arm_alone_brings_those_it_goes_on_from_and_the_seeds_it_needs():
    names = {s.name for s in lab.steps_of(staged(), ["rl-fixed"])}
    assert {n for n in names if n.startswith(("sft", "distill", "rl"))} == {
        "sft-hsa-s0", "distill-hsa-opd-s0", "rl-rl-fixed-s0",
    }  # fmt: skip
    assert {n for n in names if n.startswith("eval")} == {"eval-rl-fixed-s0-t1", "eval-rl-fixed-s0-t2"}


@pytest.mark.parametrize(
    ("arm", "told"),
    [
        ({"name": "x", "stage": "rl", "tasks": 4}, "'after' is empty"),
        ({"name": "x", "stage": "rl", "after": "later", "tasks": 4}, "expected an arm that stands before it"),
        ({"name": "x", "stage": "distill", "after": "fixed", "tasks": 4, "steps": 1}, "neither 'tasks' nor 'augment'"),
        ({"name": "x", "after": "hsa-opd", "tasks": 4}, "expected an arm of supervised training"),
        ({"name": "x", "after": "fixed", "tasks": 6}, "have as many tasks"),
        ({"name": "x", "stage": "rl", "after": "hsa", "tasks": 4, "first_turns": 0.5}, "is for supervised training"),
        ({"name": "x", "tasks": 0}, "'tasks' is 0"),
    ],
)
def test_stages_that_do_not_fit_are_refused(arm, told):
    with pytest.raises(ValueError, match=told):
        staged(arms=[*STAGED, arm])


def test_options_that_a_stage_does_not_have_are_refused(tmp_path):
    (tmp_path / "general.jsonl").write_text('{"prompt": "Hello"}\n')
    compact = load_checked(ROOT / "harnesses" / "streamer-en-compact")
    with pytest.raises(InputError, match=r"rl\.lora: no such option"):
        sources_of(staged(prompts=[str(tmp_path / "general.jsonl")], rl={"lora": "x"}), compact)
    with pytest.raises(InputError, match=r"missing\.jsonl: no such file"):
        sources_of(staged(prompts=["missing.jsonl"]), compact)


def followed(*met):
    return [
        IfevalResult(key=i, instructions=("a", "b"), strict=pair, loose=(True, True), words=3, tokens=4)
        for i, pair in enumerate(met)
    ]


def test_the_table_has_plain_instructions_edits_and_what_each_stage_buys():
    edits = [r.model_copy(update={"kind": "limit"}) for r in results(0, 0, 0, 1)]
    runs = {
        "eval-hsa-s0-t1": results(1, 1, 0, 0),
        "eval-hat-s0-t1": results(1, 1, 1, 0),
        "eval-hat-s0-edits-old": edits,
        "eval-hat-s0-edits-new": [r.model_copy(update={"kind": "limit"}) for r in results(1, 1, 0, 1)],
    }
    plain = {
        "eval-hat-s0-t4": followed((True, True), (True, False)),
        "eval-hat-s1-t4": followed((True, True), (True, True)),
    }
    chosen = staged(arms=[*STAGED[:2], {**STAGED[5], "after": "hsa"}], suites=["t1", "edits-old", "edits-new", "t4"])
    data = table(runs, chosen, profile="full", followed=plain)
    assert data["between"]["hat against hsa"]["t1"]["avg"]["value"] == 25.0
    assert data["edits"]["hat"]["0"]["reduction_percent"]["value"] == pytest.approx(66.67, abs=0.01)
    assert data["ifeval"]["hat"]["prompt_strict"]["value"] == 75.0
    assert data["ifeval"]["hat"]["instruction_strict"]["value"] == 87.5
    text = as_markdown(data)
    assert "| hat | 2 | 75.0 (" in text
    assert "| hat | 0 | 4 | 75.0 (" in text


def test_a_row_cut_after_its_first_turn_is_the_row_of_so_many_messages():
    row = small_rows(1, 1)[0]
    cut = first_turn(row)
    assert cut.messages == row.messages[:3]
    assert [cut] == tokenised_anew([cut], chat_tokenizer())
    assert cut.tokens.ids == row.tokens.ids[: len(cut.tokens.ids)]
    assert 0 < sum(cut.tokens.written) < sum(row.tokens.written)
    assert first_turn(cut) is cut


def test_every_arm_keeps_only_the_first_turn_of_the_same_tasks(tmp_path):
    for name in ("data-fixed-s0", "data-hsa-s0"):
        small_data(tmp_path / name, harnesses=1, tasks=40)
    step = next(s for s in lab.steps_of(config(first_turns=0.5)) if s.name == "match-6-s0")
    made = match_rows(step, tmp_path)
    kept = [
        {r.fields["task"] for r in read_rows(tmp_path / step.name / arm) if r.fields.get("first_turn")}
        for arm in ("fixed", "hsa")
    ]
    assert kept[0] == kept[1]
    assert 8 < len(kept[0]) == made.facts["first turns"] < 32
    assert made.facts["fixed"]["rows"] == 40


# --------------------------------------------------------------------------- the compact harness


def test_the_compact_harness_is_the_sample_in_few_words():
    compact, whole = (load_checked(ROOT / "harnesses" / n) for n in ("streamer-en-compact", "streamer-en"))
    known = [[(s.key, s.kind, s.metadata) for s in h.skills] for h in (compact, whole)]
    assert known[0] == known[1]
    assert [(t.key, t.binding.operation) for t in compact.tools] == [(t.key, t.binding.operation) for t in whole.tools]
    assert compact.hooks == whole.hooks
    words = [sum(len(s.template.split()) for s in h.sections) for h in (compact, whole)]
    assert words[0] < 0.7 * words[1]


def test_the_oracle_earns_full_scores_under_the_compact_harness(tmp_path):
    suite, base, oracle = suite_named("t1"), load_checked(ROOT / "harnesses" / "streamer-en-compact"), OraclePolicy()
    ran = asyncio.run(evaluate(recipe_of(suite, base, oracle), suite, base, oracle, tmp_path, limit=300))
    assert len(ran.results) == 300
    assert [r.task for r in ran.results if not r.scores.full] == []


# ---------------------------------------------------------------------------- the whole, for real


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    home = tmp_path_factory.mktemp("lab")
    model = small_model(home / "model")
    profile = {
        "harness": str(ROOT / "harnesses" / "streamer-en-compact"),
        "model": str(model),
        "seeds": [0],
        "arms": [
            {"name": "fixed", "augment": False, "tasks": 6},
            {"name": "hsa", "augment": True, "tasks": 6},
            {"name": "hsa-more", "after": "hsa", "augment": True, "tasks": 5, "first_turns": 0.5, "suites": ["t1"]},
        ],
        "suites": ["t1", "t2"],
        "limit": 2,
        "tasks_a_variant": 3,
        "lora_rank": 2,
        "batch": 2,
        "context": 8192,
        "packing": "mask",
    }
    (home / "lab.yaml").write_text(yaml.safe_dump({"profiles": {"tiny": profile}}))
    return home


def start(home, out, *more):
    arguments = ["lab", "run", "--profile", "tiny", "--config", str(home / "lab.yaml"), "--out", str(out), *more]
    return CliRunner().invoke(app, arguments)


def test_the_experiment_runs_resumes_and_ends_with_a_table(setting, tmp_path):
    out = tmp_path / "lab"
    first = start(setting, out)
    assert first.exception is None, first.exception
    told = json.loads(first.stdout.splitlines()[-1])
    assert (told["steps"], told["done"], told["skipped"]) == (17, 17, 0)
    began, went_on = (
        json.loads((out / f"sft-{a}-s0" / "run" / "run.json").read_text())["model"] for a in ("hsa", "hsa-more")
    )
    assert began["weights"] == went_on["weights"]
    assert went_on["adapter"] == json.loads((out / "sft-hsa-s0" / "done.json").read_text())["digest"]
    worlds = [
        {r.fields["world"] for r in read_rows(out / f"match-{n}-s0" / a)} for n, a in ((6, "hsa"), (5, "hsa-more"))
    ]
    assert not worlds[0] & worlds[1]
    match = json.loads((out / "match-6-s0" / "done.json").read_text())["facts"]
    cards = [json.loads((out / "match-6-s0" / arm / "card.json").read_text()) for arm in ("fixed", "hsa")]
    assert match["fixed"]["rows"] == match["hsa"]["rows"] == match["tasks"]
    assert cards[0]["tasks"] == cards[1]["tasks"]
    assert cards[0]["recipe"]["base_share"] == 1.0
    assert cards[1]["recipe"]["base_share"] == 0.2
    assert (out / "sft-hsa-s0" / "run" / "loss.png").is_file()
    data = json.loads((out / "table" / "lab.json").read_text())
    assert set(data["arms"]) == {"base", "fixed", "hsa", "hsa-more"}
    assert data["training"]["fixed-s0"]["rows"] == match["tasks"]

    assert data["unfinished"] == []
    assert (out / "table" / "lab.png").stat().st_size > 1000
    before = (out / "table" / "lab.json").read_bytes()
    shutil.rmtree(out / "eval-hsa-s0-t2")
    (out / "sft-hsa-s0" / "done.json").unlink()  # as if killed before the marker
    again = json.loads(start(setting, out).stdout.splitlines()[-1])
    assert again["done"] == 2
    assert (out / "table" / "lab.json").read_bytes() == before
    state = CliRunner().invoke(app, ["lab", "status", str(out)])
    assert json.loads(state.stdout.splitlines()[-1])["open"] == 0
    with pytest.raises(InputError, match="'smoke': its figures mean nothing"):
        publish(out / "table", tmp_path / "results", profile="smoke")
    assert not (tmp_path / "results").exists()


def test_a_table_of_what_is_finished_names_what_is_not(setting, tmp_path):
    out = tmp_path / "lab"
    assert start(setting, out).exception is None
    (out / "eval-hsa-s0-t2" / "done.json").unlink()
    (out / "eval-fixed-s0-t2" / "done.json").unlink()
    lines = (out / "eval-fixed-s0-t2" / "run" / "results.jsonl").read_text().splitlines(keepends=True)
    first = [line for line in lines if json.loads(line)["index"] == 0]
    (out / "eval-fixed-s0-t2" / "run" / "results.jsonl").write_text("".join(first))
    (out / "eval-hsa-s0-t2" / "run" / "results.jsonl").unlink()
    shown = CliRunner().invoke(app, ["lab", "table", str(out)])
    assert shown.exception is None, shown.exception
    assert json.loads(shown.stdout.splitlines()[-1])["unfinished"] == ["eval-hsa-s0-t2"]
    assert "**Not finished, and not in the tables:** eval-hsa-s0-t2." in shown.stdout
    assert "**Begun, first tasks only:** eval-fixed-s0-t2 (1)." in shown.stdout
    assert "| fixed | t2 | 1 |" in shown.stdout
    assert "| hsa | t1 | 2 |" in shown.stdout
    assert "| hsa | t2 | 2 |" not in shown.stdout
    written = publish(out / "table-now", tmp_path / "results", profile="tiny")
    assert [p.name for p in written] == ["lab-tiny.md", "lab-tiny.json", "lab-tiny.png"]
    assert "![effectiveness](lab-tiny.png)" in written[0].read_text()


def test_sets_may_have_limits_of_their_own():
    chosen = config(limits={"t2": 7})
    by_name = {s.name: s for s in lab.steps_of(chosen)}
    assert (by_name["eval-base-t1"].units, by_name["eval-base-t2"].units) == (2, 7)
    assert by_name["eval-hsa-s1-t2"].settings["limit"] == 7
    with pytest.raises(ValueError, match="limits that are not the lab's: t3-not-there"):
        config(limits={"t3-not-there": 1})
