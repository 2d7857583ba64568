"""The sample harnesses: complete, clean, and the same after a round trip."""

from __future__ import annotations

from pathlib import Path

import pytest

from livery.harness.diff import diff_harnesses
from livery.harness.digest import harness_digest, harness_from_json, harness_to_json
from livery.harness.folder import load_harness, save_harness
from livery.harness.hooks.builtin import BUILTINS
from livery.harness.lint import lint

SAMPLES = sorted(p.parent for p in (Path(__file__).parents[2] / "harnesses").glob("*/harness.yaml"))


@pytest.mark.parametrize("folder", SAMPLES, ids=lambda p: p.name)
def test_a_sample_has_nothing_lint_objects_to(folder: Path) -> None:
    registry = pytest.importorskip("livery.shop.registry")
    operations = {name: operation.parameters for name, operation in registry.shop_operations().items()}
    loaded = load_harness(folder)
    problems = lint(loaded.harness, loaded.problems, operations=operations, builtins=BUILTINS, sources=loaded.sources)
    assert [str(p) for p in problems] == []


@pytest.mark.parametrize("folder", SAMPLES, ids=lambda p: p.name)
def test_a_sample_has_all_that_a_live_room_needs(folder: Path) -> None:
    h = load_harness(folder).harness
    assert sum(s.kind == "reply" for s in h.skills) >= 6
    assert sum(s.kind == "strategy" for s in h.skills) >= 2
    assert len(h.tools) >= 10
    assert len(h.hooks) >= 8
    assert len(h.sections) >= 6
    assert h.language == folder.name.split("-")[1]


@pytest.mark.parametrize("folder", SAMPLES, ids=lambda p: p.name)
def test_a_sample_survives_folder_and_json(folder: Path, tmp_path: Path) -> None:
    h = load_harness(folder).harness
    save_harness(h, tmp_path / "copy")
    back = load_harness(tmp_path / "copy").harness
    assert back == harness_from_json(harness_to_json(h)) == h
    assert harness_digest(back) == harness_digest(h)
    assert diff_harnesses(h, back).empty


def test_there_are_samples_in_both_languages() -> None:
    assert [p.name for p in SAMPLES] == ["streamer-en", "streamer-en-compact", "streamer-zh"]
