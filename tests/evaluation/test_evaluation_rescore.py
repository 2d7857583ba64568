"""Rescoring: kept trajectories judged by today's verifier, with nothing played and nothing lost."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from livery.cli.eval import app
from livery.errors import InputError
from livery.evaluation import run as runs
from livery.evaluation import suites
from livery.evaluation.rescore import BEFORE, Rescored, rescore
from livery.evaluation.results import RESULTS, TRAJECTORIES, Results, read_results
from livery.harness.model import Harness
from livery.simulator.verifier_version import verifier_version
from livery.training.lab import DONE, RECIPE, digest_of, done_of, locked
from livery.training.lab_evals import made_of, scored_otherwise, step_of

ROOT = Path(__file__).parents[2]
KINDS = ("t1", "t2", "t2-tool-schemas", "t3", "t3-clean", "edits-old", "edits-new")
SIZE = 4


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch):
    """Sets of a few tasks, so that their digests are quick."""
    for name in KINDS:
        monkeypatch.setitem(suites.SUITES, name, replace(suites.SUITES[name], size=SIZE))  # pyright: ignore


async def played(name: str, base: Harness, out: Path, limit: int = SIZE) -> runs.Ran:
    suite, policy = suites.SUITES[name], runs.open_any("oracle")
    recipe = runs.recipe_of(suite, base, policy)
    return await runs.evaluate(recipe, suite, base, policy, out, limit=limit)


def as_of_before(folder: Path, **scores: Any) -> None:
    """What an older verifier might have left: its version, and other scores in the first line."""
    recipe = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**recipe, "verifier": "0ld"}))
    first, *rest = (folder / RESULTS).read_text().splitlines()
    line = json.loads(first)
    line["scores"] |= scores
    (folder / RESULTS).write_text("\n".join([json.dumps(line), *rest]) + "\n")


@pytest.mark.parametrize("name", KINDS)
async def test_a_run_of_today_keeps_its_scores(english: Harness, tmp_path: Path, name: str):
    ran = await played(name, english, tmp_path)
    kept = (tmp_path / RESULTS).read_text()
    found = rescore(tmp_path, english)
    assert found.results == tuple(read_results(tmp_path)) and len(found.results) == len(ran.results) == SIZE
    assert set(found.changed.values()) == {0} and found.kept == ""
    assert (tmp_path / RESULTS).read_text() == kept
    assert not (tmp_path / BEFORE).exists()
    assert json.loads((tmp_path / "report.json").read_text())["tasks"] == SIZE


async def test_scores_of_before_are_replaced_counted_and_kept(english: Harness, tmp_path: Path):
    await played("t1", english, tmp_path)
    right = (tmp_path / RESULTS).read_text()
    as_of_before(tmp_path, accuracy=0, effectiveness=0.5)
    wrong = (tmp_path / RESULTS).read_text()
    looked = rescore(tmp_path, english, write=False)
    assert (tmp_path / RESULTS).read_text() == wrong and not (tmp_path / BEFORE).exists()
    found = rescore(tmp_path, english)
    assert found.changed == looked.changed
    assert found.changed == {"accuracy": 1, "effectiveness": 1, "tool_rationality": 0, "skill_selection": 0, "any": 1}
    assert found.avg == pytest.approx((100 - 75 / SIZE, 100))
    assert found.verifier == ("0ld", verifier_version())
    assert [json.loads(x) for x in (tmp_path / RESULTS).read_text().splitlines()] == [
        json.loads(x) for x in right.splitlines()
    ]
    assert (tmp_path / BEFORE).read_text() == wrong
    noted = json.loads((tmp_path / "run.json").read_text())
    assert noted["verifier"] == verifier_version()
    assert [(n["from"], n["changed"]["any"], n["kept"]) for n in noted["rescored"]] == [("0ld", 1, BEFORE)]
    as_of_before(tmp_path, skill_selection=0)
    assert rescore(tmp_path, english).kept == f"{BEFORE}-2"
    assert (tmp_path / BEFORE).read_text() == wrong


async def test_a_begun_run_of_another_verifier_is_refused_until_it_is_rescored(english: Harness, tmp_path: Path):
    await played("t1", english, tmp_path, 2)
    as_of_before(tmp_path, accuracy=0)
    assert scored_otherwise(tmp_path)
    with pytest.raises(InputError, match="livery eval rescore") as caught:
        await played("t1", english, tmp_path)
    assert [p.field for p in caught.value.problems] == ["verifier"]
    rescore(tmp_path, english)
    assert not scored_otherwise(tmp_path)
    went_on = await played("t1", english, tmp_path)
    assert (went_on.resumed, len(went_on.results)) == (2, SIZE)
    assert all(r.scores.full for r in went_on.results)


async def test_a_run_that_says_no_verifier_can_be_rescored(english: Harness, tmp_path: Path):
    await played("edits-new", english, tmp_path)
    recipe = json.loads((tmp_path / "run.json").read_text())
    judges = suites.SUITES["edits-new"].judges
    assert recipe["verifier"] == verifier_version(judges) != verifier_version()
    (tmp_path / "run.json").write_text(json.dumps({k: v for k, v in recipe.items() if k != "verifier"}))
    found = rescore(tmp_path, english)
    assert found.verifier == ("", verifier_version(judges)) and found.changed["any"] == 0


async def test_other_cases_than_those_played_are_refused(english: Harness, chinese: Harness, tmp_path: Path):
    await played("t1", english, tmp_path)
    with pytest.raises(InputError, match="was played over the base"):
        rescore(tmp_path, english.replace(name="other"))
    with pytest.raises(InputError, match="language"):
        rescore(tmp_path, chinese)
    lines = (tmp_path / TRAJECTORIES).read_text().splitlines()
    (tmp_path / TRAJECTORIES).write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    with pytest.raises(InputError, match="found the trajectory of"):
        rescore(tmp_path, english)
    recipe = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps({**recipe, "tasks": "f" * 64}))
    with pytest.raises(InputError, match="cannot be scored anew"):
        rescore(tmp_path, english)


async def test_a_run_in_play_is_left_alone(english: Harness, tmp_path: Path):
    await played("t1", english, tmp_path)
    with Results(tmp_path), pytest.raises(InputError, match="another process"):
        rescore(tmp_path, english)
    assert isinstance(rescore(tmp_path, english), Rescored)


async def test_the_lab_hears_of_it(english: Harness, tmp_path: Path):
    """The command finds the run in the step's folder, and what later steps know of the evaluation is new."""
    step = tmp_path / "eval-base-t1"
    await played("t1", english, step / "run")
    assert step_of(step / "run") is None
    (step / RECIPE).write_text(json.dumps({"schema": "livery.lab-step/1", "step": step.name}))
    as_of_before(step / "run", effectiveness=0)
    before = made_of(read_results(step / "run"), resumed=False)
    marker = {"digest": before.digest, "kind": "eval", "units": SIZE, "seconds": 9.0, "measured": True}
    (step / DONE).write_text(json.dumps({**marker, "facts": {**before.facts, "more": 1}}))
    other = tmp_path / "eval-base-t4" / "run"
    other.mkdir(parents=True)
    (other / "run.json").write_text(json.dumps({"schema": "livery.ifeval-run/1"}))
    arguments = ["rescore", str(step), str(other), "--harness", str(ROOT / "harnesses/streamer-en")]
    with locked(tmp_path, step.name), pytest.raises(InputError, match="works on this step"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    told = json.loads(result.stdout.splitlines()[-1])
    assert (told["tasks"], told["changed"], told["passed_over"]) == (SIZE, 1, [str(other)])
    assert told["runs"][0]["lab"] is True and told["runs"][0]["kept"] == BEFORE
    after = done_of(step)
    results = read_results(step / "run")
    assert after["digest"] == made_of(results, resumed=True).digest != before.digest
    assert after["digest"] == digest_of([r.model_dump(mode="json", exclude={"seconds"}) for r in results])
    assert after["facts"]["avg"]["value"] == 100 and after["facts"]["more"] == 1
    assert (after["seconds"], after["measured"]) == (9.0, True)


async def test_runs_of_two_verifiers_are_not_compared(english: Harness, tmp_path: Path):
    for name in ("a", "b"):
        await played("t1", english, tmp_path / name)
    as_of_before(tmp_path / "b")
    with pytest.raises(InputError, match="scored by the verifier 0ld"):
        CliRunner().invoke(app, ["compare", str(tmp_path / "a"), str(tmp_path / "b")], catch_exceptions=False)
    rescore(tmp_path / "b", english)
    result = CliRunner().invoke(app, ["compare", str(tmp_path / "a"), str(tmp_path / "b")], catch_exceptions=False)
    assert json.loads(result.stdout.splitlines()[-1])["difference"]["avg"]["value"] == 0
