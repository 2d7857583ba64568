"""One table over many runs: figures by hand, rows by policy, columns over the same tasks or refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from evaluation_results import result
from typer.testing import CliRunner

from livery.cli import app, eval_more
from livery.errors import InputError
from livery.evaluation.ifeval_figures import IfevalResult, figures
from livery.evaluation.table import build_table, quantile
from livery.evaluation.table_page import html, markdown
from livery.evaluation.table_runs import load_run

DRAWS = 200


def run(folder, suite, results, *, policy="hf:a", weights="w1", tasks="t" * 64, base="sha256:b", concurrency=None):
    folder.mkdir(parents=True)
    recipe = {
        "schema": "livery.run/1",
        "suite": suite,
        "tasks": tasks,
        "base": base,
        "policy": policy,
        "weights": weights,
    }
    (folder / "run.json").write_text(json.dumps(recipe))
    (folder / "results.jsonl").write_text("".join(r.model_dump_json(by_alias=True) + "\n" for r in results))
    report = {"schema": "livery.report/1", "run": {**recipe, "concurrency": concurrency}, "tasks": len(results)}
    (folder / "report.json").write_text(json.dumps(report))
    return folder


def ifeval(folder, *, policy="hf:a?temperature=0", weights="w1", max_tokens=1280):
    folder.mkdir(parents=True)
    recipe = {"schema": "livery.ifeval-run/1", "suite": "t4", "tasks": "i" * 64, "policy": policy, "weights": weights}
    recipe |= {"prompts": 3, "max_tokens": max_tokens, "template": "chatml"}
    rows = [
        IfevalResult(key=1, instructions=["a:x", "a:y"], strict=[True, False], loose=[True, True], words=1, tokens=1),
        IfevalResult(key=2, instructions=["a:x"], strict=[True], loose=[True], words=1, tokens=1),
        IfevalResult(key=3, instructions=["a:x"], strict=[False], loose=[False], words=1, tokens=1),
    ]
    (folder / "run.json").write_text(json.dumps(recipe))
    (folder / "results.jsonl").write_text("".join(r.model_dump_json(by_alias=True) + "\n" for r in rows))
    report = {"schema": "livery.ifeval/1", "run": recipe, "tasks": 3, **figures(rows).to_json()}
    (folder / "report.json").write_text(json.dumps(report))
    return folder


def scored(n, good, **fields):
    """``n`` results, the first ``good`` of them right and answered, the rest wrong and unanswered."""
    return [result(i, 1 if i < good else 0, 1.0 if i < good else 0.0, **fields) for i in range(n)]


def test_a_policys_runs_make_one_row_with_shares_and_costs(tmp_path):
    costs = {"reasoning_call_tokens": 30, "reasoning_reply_tokens": 10, "output_tokens": 80, "seconds": 2.0}
    t1 = run(tmp_path / "t1", "t1", scored(40, 40, **costs), concurrency=1)
    t2 = run(tmp_path / "t2", "t2", scored(40, 30), concurrency=16)
    one = run(tmp_path / "one", "t2-tool-schemas", scored(40, 20))
    table = build_table([t1, t2, one, ifeval(tmp_path / "t4")], draws=DRAWS)
    (row,) = table.rows
    assert row.label == "hf:a"
    values = {name: round(f.value, 1) for name, f in row.scores.items()}
    assert values == {"t1": 100.0, "t2": 75.0, "kept": 75.0, "t4_prompt": 33.3, "t4_instruction": 50.0}
    assert row.scores["t2"].low < 75 < row.scores["t2"].high
    assert row.scores["kept"].low == row.scores["t2"].low  # of 100 on the same tasks
    assert {n: f.value for n, f in row.dimensions.items()} == {"t2-tool-schemas": 50.0, "t2-tool-schemas kept": 50.0}
    assert row.effectiveness["kept"].value == 75.0
    first, second = row.costs
    assert (first.suite, first.alone, second.suite, second.alone) == ("t1", True, "t2", False)
    assert {n: f.value for n, f in first.tokens.items()} == {
        "reasoning_call_tokens": 30,
        "reasoning_reply_tokens": 10,
        "output_tokens": 80,
    }
    assert first.seconds["seconds_p95"].value == 2.0
    assert any(note.startswith("†") for note in table.notes)


def test_the_share_kept_is_of_the_tasks_that_both_have(tmp_path):
    t1 = run(tmp_path / "t1", "t1", scored(40, 40))
    t2 = run(tmp_path / "t2", "t2", scored(20, 10))
    table = build_table([t1, t2], draws=DRAWS)
    kept = table.rows[0].scores["kept"]
    assert (kept.value, kept.n) == (50.0, 20)
    assert "t2: runs" not in " ".join(table.notes)
    other = run(tmp_path / "b" / "t2", "t2", scored(40, 10), policy="hf:b", weights="w2")
    assert "t2: runs of 20 and 40 tasks stand in one column." in build_table([t1, t2, other], draws=DRAWS).notes


def test_edits_are_read_as_errors_gone(tmp_path):
    old = run(tmp_path / "old", "edits-old", scored(50, 10, kind="sign-off"))
    new = run(tmp_path / "new", "edits-new", scored(50, 30, kind="sign-off"))
    (row,) = build_table([old, new], draws=DRAWS).rows
    assert row.scores["edits"].value == 50.0  # of 40 errors 20 are left
    assert row.scores["edits"].low < 50 < row.scores["edits"].high
    assert "edits" not in build_table([new], draws=DRAWS).rows[0].scores


def test_runs_over_other_tasks_are_refused_by_name(tmp_path):
    a = run(tmp_path / "a", "t1", scored(5, 5))
    b = run(tmp_path / "b", "t1", scored(5, 5), weights="w2", tasks="u" * 64)
    c = run(tmp_path / "c", "t2", scored(5, 5), tasks="v" * 64)
    with pytest.raises(InputError) as caught:
        build_table([a, b, c], draws=DRAWS)
    assert [(p.path, p.field, p.code) for p in caught.value.problems] == [
        (str(b), "tasks", "other-tasks"),
        (str(c), "tasks", "other-tasks"),
    ]
    assert f"over the tasks uuuuuuuuuuuu; {a} over others, tttttttttttt" in str(caught.value)


def test_two_runs_of_a_set_need_labels_and_labels_make_rows(tmp_path):
    a = run(tmp_path / "a", "t1", scored(5, 5))
    b = run(tmp_path / "b", "t1", scored(5, 4))
    t2 = run(tmp_path / "t2", "t2", scored(5, 2), weights="w9")
    with pytest.raises(InputError, match=r"a second run of t1 under 'hf:a'.*--label"):
        build_table([a, b], draws=DRAWS)
    table = build_table([b, t2], {"seed 1": [a, t2], "seed 2": [b]}, draws=DRAWS)
    assert [(r.label, sorted(r.runs)) for r in table.rows] == [("seed 1", ["t1", "t2"]), ("seed 2", ["t1"])]
    assert "seed 1: its runs report different weights." in table.notes
    with pytest.raises(InputError, match="stands under 'x' and 'y'"):
        build_table([], {"x": [a], "y": [a]}, draws=DRAWS)


def test_policies_of_one_name_and_other_weights_are_two_rows(tmp_path):
    a = run(tmp_path / "a", "t1", scored(5, 5), weights="aaaaaaaaaa")
    b = run(tmp_path / "b", "t1", scored(5, 4), weights="bbbbbbbbbb")
    assert [r.label for r in build_table([a, b], draws=DRAWS).rows] == ["hf:a aaaaaaaa", "hf:a bbbbbbbb"]


def test_a_report_alone_gives_what_stands_in_it(tmp_path):
    folder = ifeval(tmp_path / "t4")
    whole = build_table([folder], draws=2000).rows[0]
    alone = build_table([folder / "report.json"]).rows[0]
    assert alone.scores["t4_prompt"].value == pytest.approx(whole.scores["t4_prompt"].value, abs=0.01)
    assert alone.scores["t4_prompt"].low == pytest.approx(whole.scores["t4_prompt"].low, abs=0.01)
    reports = []
    for suite, value in (("t1", 80.0), ("t2", 60.0)):
        measure = {"value": value, "low": value - 5, "high": value + 5, "n": 40}
        recipe = {"suite": suite, "tasks": "t", "base": "b", "policy": "hf:a", "weights": "w"}
        data = {"schema": "livery.report/1", "run": recipe, "tasks": 40, "avg": measure, "effectiveness": measure}
        data["costs"] = {"output_tokens": 7.0, "seconds_p50": 1.5}
        reports.append(tmp_path / f"{suite}.json")
        reports[-1].write_text(json.dumps(data))
    (row,) = build_table(reports).rows
    kept = row.scores["kept"]
    assert (kept.value, kept.low, row.scores["t1"].high) == (75.0, None, 85.0)
    assert row.costs[0].tokens["output_tokens"].value == 7.0
    assert "| 75.0 |" in markdown(build_table(reports))


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such folder or file"):
        load_run(tmp_path / "none")
    with pytest.raises(InputError, match=r"no run\.json in it"):
        load_run(tmp_path)
    (tmp_path / "x.json").write_text('{"schema": "livery.lab/1"}')
    with pytest.raises(InputError, match=r"schema: found 'livery\.lab/1'; expected a report"):
        load_run(tmp_path / "x.json")
    folder = ifeval(tmp_path / "t4")
    (folder / "results.jsonl").unlink()
    with pytest.raises(InputError, match="found no checked response; start"):
        load_run(folder)


def test_languages_stand_apart(tmp_path):
    a = run(tmp_path / "a", "t1", scored(5, 5))
    b = run(tmp_path / "b", "t1-zh", scored(5, 4), tasks="z" * 64)
    text = markdown(build_table([a, b], draws=DRAWS))
    assert "**Scores (en)**" in text
    assert "**Scores (zh)**" in text


def test_quantiles_have_intervals_that_hold_them():
    found = quantile(np.arange(1.0, 101.0), 0.95, draws=DRAWS)
    assert found.value == pytest.approx(95.05)
    assert 88 < found.low < found.value < found.high <= 100


def test_the_command_prints_markdown_then_json_and_writes_both_files(tmp_path):
    t1 = run(tmp_path / "t1", "t1", scored(10, 9, seconds=1.0), policy="hf:<b>|x")
    out, page = tmp_path / "o" / "table.md", tmp_path / "o" / "table.html"
    ran = CliRunner().invoke(app, ["eval", "table", str(t1), "--out", str(out), "--html", str(page)])
    assert ran.exit_code == 0, ran.output
    data = json.loads(ran.stdout.strip().splitlines()[-1])
    assert data["rows"][0]["scores"]["t1"]["value"] == 90.0
    assert data["rows"][0]["runs"]["t1"]["n"] == 10
    text = out.read_text(encoding="utf-8")
    assert text.splitlines()[0] == "**Scores**"
    assert "| hf:<b>\\|x | 90.0 (" in text
    assert "1.00 † (1.00 to 1.00)" in text
    written = page.read_text(encoding="utf-8")
    assert "hf:&lt;b&gt;|x" in written
    assert "<b>|x" not in written
    assert html(build_table([t1])) == written
    for wrong in (["--label", "x"], ["--label", "x=a", "--label", "x=b"], []):
        assert isinstance(CliRunner().invoke(app, ["eval", "table", *wrong]).exception, InputError)


def test_concurrency_is_the_widest_of_all_starts_or_unknown(tmp_path):
    assert eval_more.concurrency_of(tmp_path, 1, 0) == 1
    assert eval_more.concurrency_of(tmp_path, 1, 5) is None
    (tmp_path / "report.json").write_text('{"run": {"concurrency": 8}}')
    assert eval_more.concurrency_of(tmp_path, 1, 5) == 8
    (tmp_path / "report.json").write_text('{"run": {}}')
    assert eval_more.concurrency_of(tmp_path, 1, 5) is None
