"""``livery eval``: a set is played, gone on with and compared; JSON comes last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from livery.cli.eval import app
from livery.errors import InputError

runner = CliRunner()
ROOT = Path(__file__).parents[2]
BASE = ["--harness", str(ROOT / "harnesses/streamer-en")]


def run(*arguments: str) -> Any:
    result = runner.invoke(app, arguments, env={"COLUMNS": "160"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def test_a_set_is_played_gone_on_with_and_compared(tmp_path: Path):
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    first = run("run", "t1", "--policy", "oracle", "--out", one, "--limit", "6", *BASE)
    assert (first["tasks"], first["of"], first["resumed"]) == (6, 1500, 0)
    assert first["avg"] == {"value": 100.0, "low": 100.0, "high": 100.0, "n": 6}
    more = run("run", "t1", "--policy", "oracle", "--out", one, "--limit", "10", "--concurrency", "2", *BASE)
    assert (more["tasks"], more["resumed"]) == (10, 6)
    assert json.loads((tmp_path / "one/report.json").read_text())["tasks"] == 10
    silent = run("run", "t2", "--policy", "scripted:silent", "--out", two, "--limit", "10", *BASE)
    assert silent["effectiveness"]["value"] < 50
    found = run("compare", one, two, "--out", str(tmp_path / "compared"))
    assert found["tasks"] == 10
    expected = silent["avg"]["value"] - 100
    assert found["difference"]["avg"]["value"] == pytest.approx(expected)
    assert (tmp_path / "compared/compare.html").is_file()


def test_a_policy_or_set_that_is_not_there_is_said_before_anything_is_written(tmp_path: Path):
    for arguments in (["t9", "--policy", "oracle"], ["t1", "--policy", "nothing:"], ["t1-zh", "--policy", "oracle"]):
        with pytest.raises(InputError):
            runner.invoke(app, ["run", *arguments, "--out", str(tmp_path / "x"), *BASE], catch_exceptions=False)
    assert not (tmp_path / "x").exists()


def test_runs_over_other_tasks_are_not_compared(tmp_path: Path):
    for name, tasks in (("a", "1" * 64), ("b", "2" * 64)):
        (tmp_path / name).mkdir()
        recipe = {"schema": "livery.run/1", "suite": "t1", "tasks": tasks}
        (tmp_path / name / "run.json").write_text(json.dumps(recipe))
    with pytest.raises(InputError, match="played over others"):
        runner.invoke(app, ["compare", str(tmp_path / "a"), str(tmp_path / "b")], catch_exceptions=False)


def test_the_sets_are_listed():
    listed = run("suites")["sets"]
    kinds = {"t1": 1500, "t2": 1500, "t3": 1000, "edits": 500}
    assert {name.partition("-")[0] for name in listed} == set(kinds)
    assert all(size == kinds[name.partition("-")[0]] for name, size in listed.items())
    assert {"t1", "t2", "t1-zh", "t2-zh", "t2-prompt-structure", "t2-zh-skill-identifiers"} < set(listed)
    assert len(listed) == 22
