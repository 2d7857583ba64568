"""``livery bench`` as a user runs it, in real seconds but few of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from livery.cli import app
from livery.errors import InputError

ROOT = Path(__file__).parents[2]
POLICY = ("--policy", "scripted:instant", "--speech", "none:")
Run = Callable[..., tuple[dict[str, Any], int]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(ROOT)

    def bench(*arguments: str) -> tuple[dict[str, Any], int]:
        """The last line and the exit status; an input error is raised as such."""
        result = CliRunner().invoke(app, ["bench", *arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return json.loads(result.stdout.splitlines()[-1]), result.exit_code

    return bench


def test_latency_tells_every_stage_and_two_replays_compare(run: Run, tmp_path: Path) -> None:
    options = ("--limit", "4", "--concurrency", "1", "--concurrency", "2", "--out", str(tmp_path))
    told, status = run("latency", *POLICY, *options)
    assert status == 0
    assert {"p50_s", "p95_s", "under_15s", "routes"} <= set(told)
    assert told["under_15s"] == 1.0
    assert sum(told["routes"].values()) == 4
    assert list(told["concurrency"]) == ["1", "2"]
    one = told["concurrency"]["1"]
    assert {"queue", "prefill", "decode", "tools", "hooks", "speech"} <= set(one["stages"])
    assert one["accounted"] == pytest.approx(1.0, abs=0.02)
    assert set(one["turns"]) == {"tools", "reply"}
    kept = json.loads((tmp_path / "latency.json").read_text())
    assert len(kept["concurrency"]["2"]["answered"]["id"]) == 4
    assert "## At concurrency 2" in (tmp_path / "latency.md").read_text()
    file = str(tmp_path / "latency.json")
    found, _ = run("compare", file, file)
    assert found["concurrency"]["1"]["paired"] == found["concurrency"]["2"]["p95"] == 1.0
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match="livery bench latency --out"):
        run("compare", file, str(tmp_path / "other.json"))


def test_the_exit_status_of_a_load_says_whether_the_promise_held(run: Run, tmp_path: Path) -> None:
    options = ("--rate", "10", "--limit", "8")
    kept, status = run("load", *POLICY, *options, "--grace", "20", "--out", str(tmp_path))
    assert (kept["kept"], status) == (True, 0)
    assert kept["messages"] == sum(kept["fates"].values()) == 8
    assert (tmp_path / "load.md").is_file()
    broken, status = run("load", *POLICY, *options, "--grace", "0", "--deadline", "0.001")
    assert (broken["kept"], status) == (False, 1)
    assert broken["late_messages"] > 0


def test_a_soak_keeps_its_data_where_it_is_told_to(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    options = ("--minutes", "0.05", "--rate", "1", "--slope", "1e9", "--data", str(data))
    told, status = run("soak", *POLICY, *options, "--out", str(tmp_path / "out"))
    assert (told["grew"], status) == ([], 0)
    assert told["messages"] == 3
    assert told["speech"] == "none:"
    assert (data / "journal.db").is_file()
    assert "open files" in (tmp_path / "out/soak.md").read_text()
    with pytest.raises(InputError, match="holds files already"):
        run("soak", *POLICY, *options)
