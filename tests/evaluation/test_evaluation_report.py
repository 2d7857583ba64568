"""The pages: whole, alone, and safe whatever a policy or viewer wrote."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from evaluation_results import result

from livery.evaluation.report import Scale, fitted, write_comparison, write_report
from livery.evaluation.results import Result
from livery.evaluation.statistics import compare, summarise

HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">{{ 7 * 7 }}'
RUN: dict[str, Any] = {
    "schema": "livery.run/1",
    "suite": "t2",
    "tasks": "ab" * 32,
    "harness": "streamer-en",
    "base": "sha256:" + "cd" * 32,
    "policy": f"openai:{HOSTILE}",
    "weights": "w1",
    "seed": 0,
    "patience_s": 120.0,
}


class Elements(HTMLParser):
    """Tags with their attributes, and what is left open."""

    VOID = ("meta", "line", "circle", "br", "img")

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def elements(page: Path) -> Elements:
    found = Elements()
    found.feed(page.read_text(encoding="utf-8"))
    assert found.open == []
    return found


def rows() -> list[Result]:
    lost: dict[str, Any] = {
        "question": HOSTILE,
        "reply": HOSTILE,
        "reasons": (f"accuracy: {HOSTILE}",),
        "tags": (HOSTILE,),
    }
    more: dict[str, Any] = {"operators": ("tool_schemas.nested",), "dimensions": ("tool_schemas",), "weights": "w1"}
    return [result(0, 0, 0.5, **lost, **more), *(result(i, intents=("price", "stock"), **more) for i in range(1, 40))]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    found = rows()
    write_report(tmp_path, RUN, found, summarise(found), 1500)
    write_comparison(tmp_path, RUN, RUN, compare(found, list(reversed(found))), names=(HOSTILE, "b"))
    return tmp_path


@pytest.mark.parametrize("page", ["report.html", "compare.html"])
def test_a_page_stands_alone_and_runs_nothing(written: Path, page: str):
    found = elements(written / page)
    assert {t for t, _ in found.tags} & {"script", "img", "link", "iframe", "object"} == set()
    named = [a for _, attributes in found.tags for a in attributes]
    assert [a for a in named if a in ("src", "href") or a.startswith("on")] == []
    text = (written / page).read_text(encoding="utf-8")
    assert "url(" not in text and "@import" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "{{ 7 * 7 }}" in text
    assert "default-src 'none'" in text


def test_the_report_shows_figures_slices_plots_and_losses(written: Path):
    page = (written / "report.html").read_text(encoding="utf-8")
    assert "40 of 1500 tasks" in page
    assert "quick look at the first 40 tasks" in page
    assert (
        len(re.findall(r'<svg[^>]*role="img"', page)) == 2 + 1 + 1 + 1 + 1
    )  # intents, tag, dimension, operator, route
    assert "tool_schemas.nested" in page
    assert "1 of 1, the worst first" in page


def test_report_json_has_the_figures(written: Path):
    data = json.loads((written / "report.json").read_text(encoding="utf-8"))
    assert (data["tasks"], data["of"], data["weights"]) == (40, 1500, ["w1"])
    assert data["avg"]["value"] == round((39 * 100 + 25) / 40, 2)
    assert data["avg"]["low"] <= data["avg"]["value"] <= data["avg"]["high"]
    intents = {s["name"]: s for s in data["slices"]["intent"]}
    assert (intents["stock"]["n"], intents["stock"]["value"], intents["stock"]["rest"]) == (39, 100.0, 25.0)
    assert data["run"]["suite"] == "t2"


def test_several_weights_in_one_run_are_called_out(tmp_path: Path):
    found = [result(0, weights="w1"), result(1, weights="w2")]
    write_report(tmp_path, RUN, found, summarise(found), 2)
    assert "no single model" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_compare_json_has_both_runs_and_their_difference(written: Path):
    data = json.loads((written / "compare.json").read_text(encoding="utf-8"))
    assert data["difference"]["avg"]["value"] == 0
    assert data["difference"]["avg"]["same"] == 40
    assert data["difference"]["avg"]["kept_percent"]["value"] == 100
    assert set(data["slices"]) == {"intent", "tag", "dimension", "operator"}


def test_axes_hold_every_interval_and_differences_their_zero():
    plain = fitted([42.0, 90.0], [60.0, 100.0], left=0, right=100)
    assert (plain.low, plain.high) == (40.0, 100.0)
    signed = fitted([-12.0], [3.0], left=0, right=100, signed=True)
    assert (signed.low, signed.high, signed(0)) == (-15.0, 15.0, 50.0)
    assert [v for _, v in signed.ticks] == [-15.0, -10.0, -5.0, 0.0, 5.0, 10.0, 15.0]
    alike = fitted([0.0], [0.0], left=0, right=100, signed=True)
    assert (alike.low, alike.high, alike(0)) == (-5.0, 5.0, 50.0)
    gains = fitted([0.0], [8.0], left=0, right=100, signed=True)
    assert (gains.low, gains.high) == (0.0, 10.0)
    assert Scale(0, 10, 0, 100)(25) == 100
