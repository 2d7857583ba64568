"""``livery tasks``: made the same each time, shown to people, and checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from livery.cli.tasks import app
from livery.errors import InputError

runner = CliRunner()


def run(*arguments: str) -> str:
    result = runner.invoke(app, arguments, env={"COLUMNS": "160"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def made(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.jsonl"
    run("make", "--split", "test", "--language", "zh", "--n", "60", "--seed", "2", "--out", str(path))
    return path


def test_make_measures_and_makes_the_same_again(tmp_path: Path):
    out = []
    for name in ("a.jsonl", "b.jsonl"):
        path = tmp_path / name
        out.append(json.loads(run("make", "--n", "40", "--out", str(path)).splitlines()[-1]))
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert out[0]["tasks"] == 40
    assert out[0]["digest"] == out[1]["digest"]
    assert out[0]["tasks_per_s"] > 0
    assert sum(n for tag, n in out[0]["tags"].items() if "." in tag) >= 40


def test_check_finds_nothing_in_what_was_made(made: Path):
    measured = json.loads(run("check", str(made)).splitlines()[-1])
    assert measured["tasks"] == 60
    assert measured["faults"] == 0
    assert measured["facts"] > 60


def test_check_names_task_and_line_of_wrong_gold(made: Path):
    lines = made.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if '"key":"total"' in line)
    task = json.loads(lines[at])
    facts = [f for a in task["asked"] for f in a["facts"] if f["key"] == "total"]
    facts[0]["value"] += 1
    lines[at] = json.dumps(task)
    made.write_text("\n".join([*lines, lines[0]]))
    result = runner.invoke(app, ["check", str(made)])
    assert result.exit_code == 1
    assert json.loads(result.stdout.splitlines()[-1])["faults"] == 2
    assert f"tasks.jsonl:{at + 1}" in result.stderr
    assert "tasks.jsonl:61" in result.stderr


def test_show_tells_a_person_what_is_asked_and_what_is_right(made: Path):
    shown = run("show", str(made), "--tag", "price.one")
    task = next(json.loads(x) for x in made.read_text().splitlines() if '"price.one"' in x)
    assert task["id"] in shown
    assert task["request"]["messages"][0]["text"] in shown
    assert "reply skills" in shown
    assert "must be said" in shown


def test_show_makes_one_from_a_seed():
    assert "train-en-4-2" in run("show", "--seed", "4", "--skip", "2")
    assert "for good" in run("show", "--seed", "4", "--tag", "unrecoverable")


def test_show_says_when_there_is_none(made: Path):
    with pytest.raises(InputError, match="no task 'nowhere'"):
        runner.invoke(app, ["show", str(made), "--task", "nowhere"], catch_exceptions=False)
