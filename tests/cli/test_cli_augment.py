"""``livery augment``: variants, the check, the diff, the rebuild."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from livery.cli import app
from livery.cli.augment import page
from livery.errors import InputError
from livery.harness.diff import diff_harnesses
from livery.harness.digest import harness_digest
from livery.harness.folder import load_harness

ROOT = Path(__file__).parents[2]
SAMPLE = str(ROOT / "harnesses/streamer-en")


def run(*args: str, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["augment", *args])
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == code, result.output
    return json.loads(result.stdout.splitlines()[-1])


def test_variants_are_written_with_their_records_and_rebuilt(tmp_path: Path):
    told = run(SAMPLE, "--seed", "5", "--count", "2", "--split", "heldout", "--out", str(tmp_path))
    assert (told["count"], told["split"], told["base"]) == (2, "heldout", harness_digest(load_harness(SAMPLE).harness))
    assert [v["seed"] for v in told["variants"]] == [5, 6]
    for made in told["variants"]:
        assert harness_digest(load_harness(made["folder"]).harness) == made["digest"]
        again = run("rebuild", made["folder"] + ".variant.json", SAMPLE, "--out", made["folder"] + "-again")
        assert again == {"digest": made["digest"], "same": True}
        assert harness_digest(load_harness(made["folder"] + "-again").harness) == made["digest"]
    assert (
        run("run", SAMPLE, "--seed", "5", "--split", "heldout")["variants"][0]["digest"]
        == told["variants"][0]["digest"]
    )


def test_only_the_dimensions_asked_for(tmp_path: Path):
    told = run(SAMPLE, "--count", "5", "--dimension", "prompt_structure", "--dimension", "hook_behaviour")
    used = {o.partition(".")[0] for v in told["variants"] for o in v["operators"]}
    assert used == {"prompt_structure", "hook_behaviour"}


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ((SAMPLE, "--split", "test"), "train or heldout"),
        ((SAMPLE, "--dimension", "tools"), "skill_identifiers"),
        (("check", SAMPLE, "--with", "people"), "oracle or probes"),
        (("check", SAMPLE, "--operator", "tool_schemas.no"), "tool_schemas.tool_opaque"),
        (("rebuild", "none.variant.json", SAMPLE), "no such file"),
    ],
)
def test_what_is_wrong_is_told(args: tuple[str, ...], word: str):
    with pytest.raises(InputError, match=word):
        run(*args)


def test_records_of_another_base_are_refused(tmp_path: Path):
    made = run(SAMPLE, "--out", str(tmp_path))["variants"][0]
    with pytest.raises(InputError, match="base"):
        run("rebuild", made["folder"] + ".variant.json", str(ROOT / "harnesses/streamer-zh"))


@pytest.mark.parametrize("player", ["oracle", "probes"])
def test_the_check_ends_with_its_counts(player: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    told = run(
        "check", SAMPLE, "--compositions", "2", "--tasks", "4", "--with", player, "--operator", "tool_schemas.types",
        "--operator", "skill_identifiers.opaque", "--out", str(tmp_path / "report.json"),
    )  # fmt: skip
    assert (told["operators"], told["compositions"], told["violations"]) == (2, 2, [])
    assert told["plays"] >= 4
    assert json.loads((tmp_path / "report.json").read_text("utf-8")) == told


def test_a_variant_is_shown_beside_its_base(tmp_path: Path):
    made = run(SAMPLE, "--seed", "3", "--count", "1", "--out", str(tmp_path))["variants"][0]
    page = tmp_path / "diff.html"
    result = CliRunner().invoke(app, ["augment", "diff", SAMPLE, made["folder"], "--html", str(page)])
    assert result.exit_code == 0
    for name in made["operators"]:
        assert f"* {name}" in result.stdout
        assert name in page.read_text("utf-8")
    assert json.loads(result.stdout.splitlines()[-1])["operators"] == made["operators"]
    by_records = CliRunner().invoke(app, ["augment", "diff", SAMPLE, made["folder"] + ".variant.json"])
    assert by_records.stdout == result.stdout
    assert "<script" not in page.read_text("utf-8")


def test_what_stands_in_a_harness_is_escaped_in_the_page(tmp_path: Path):
    base = load_harness(SAMPLE).harness
    wicked = base.replace(description="<script>alert(1)</script>")
    made = page(base.replace(name="<b>"), diff_harnesses(base, wicked), [{"operator": "<i>", "parameters": {}}])
    assert "<script>alert" not in made and "&lt;script&gt;" in made
    assert "<b>&" not in made and "&lt;i&gt;" in made
