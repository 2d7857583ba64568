"""Diffs of harnesses: by component and field, and safe to show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness_examples import write_example

from livery.harness.diff import diff_harnesses, html_diff, text_diff
from livery.harness.digest import harness_digest
from livery.harness.folder import load_harness
from livery.harness.model import Harness, Limits, Skill, SkillFile


@pytest.fixture
def shop(tmp_path: Path) -> Harness:
    return load_harness(write_example(tmp_path)).harness


def skills(*keys: str) -> tuple[Skill, ...]:
    return tuple(Skill(key=k, name=k, description="d", body="b") for k in keys)


def test_equal_harnesses_have_no_difference(shop: Harness) -> None:
    diff = diff_harnesses(shop, shop)
    assert diff.empty
    assert (diff.old, diff.new) == (harness_digest(shop), harness_digest(shop))
    assert text_diff(diff).plain == "no difference"
    assert html_diff(diff) == '<p class="diff-empty">no difference</p>'


def test_a_renamed_skill_is_the_same_skill_changed(shop: Harness) -> None:
    qa = shop.skills[0].model_copy(update={"name": "product-help"})
    (change,) = diff_harnesses(shop, shop.replace(skills=(qa, shop.skills[1]))).components
    assert (change.component, change.kind, change.place) == ("skills/item-qa", "changed", None)
    (field,) = change.fields
    assert (field.field, field.lines) == ("name", ("@@ -1 +1 @@", "-item-qa", "+product-help"))


def test_each_field_has_its_own_lines(shop: Harness) -> None:
    tool = shop.tools[0]
    schema = {**tool.input_schema, "required": []}
    file = SkillFile(path="references/tone.md", content="Warm.\n")
    qa = shop.skills[0].model_copy(update={"body": shop.skills[0].body + "\nSmile.", "files": (file,)})
    new = shop.replace(
        tools=(tool.model_copy(update={"input_schema": schema, "timeout_s": 1.5}),),
        skills=(qa, shop.skills[1]),
        limits=Limits(rounds=4, deadline_s=6),
        description="",
    )
    diff = diff_harnesses(shop, new)
    found = {(c.component, f.field): [x for x in f.lines if x[0] in "+-"] for c in diff.components for f in c.fields}
    assert found == {
        ("settings", "limits"): ["-deadline_s: 8.0", "+deadline_s: 6.0"],
        ("settings", "description"): ["-A small host."],
        ("skills/item-qa", "body"): ["+Smile."],
        ("skills/item-qa", "files/references/tone.md"): ["-Warm and short.", "+Warm."],
        ("tools/get_item", "input_schema"): ["-required:", "-  - number", "+required: []"],
        ("tools/get_item", "timeout_s"): ["+1.5"],
    }


def test_the_order_of_keys_is_a_change_only_where_it_is_content(shop: Harness) -> None:
    hook = shop.hooks[0]
    rule = dict(reversed(hook.params["rules"][0].items()))
    tool = shop.tools[0]
    turned = {**tool.input_schema, "properties": dict(reversed(tool.input_schema["properties"].items()))}
    new = shop.replace(
        hooks=(hook.model_copy(update={"params": {"rules": [rule]}}), shop.hooks[1]),
        tools=(tool.model_copy(update={"input_schema": turned}),),
    )
    (change,) = diff_harnesses(shop, new).components
    assert (change.component, [f.field for f in change.fields]) == ("tools/get_item", ["input_schema"])


def test_added_and_removed_components_show_whole(shop: Harness) -> None:
    extra = Skill(key="new", name="new", description="Say hi.", body="Hi")
    diff = diff_harnesses(shop, shop.replace(skills=(shop.skills[0], extra), hooks=shop.hooks[1:]))
    assert diff.of("added") == ("skills/new",)
    assert diff.of("removed") == ("skills/flash-sale", "hooks/no-links")
    added = next(c for c in diff.components if c.kind == "added")
    assert {f.field: f.lines[1:] for f in added.fields} == {
        "name": ("+new",),
        "description": ("+Say hi.",),
        "body": ("+Hi",),
    }


@pytest.mark.parametrize(
    ("old", "new", "moved"),
    [
        ("abcd", "dabc", {"d": (3, 0)}),
        ("abcd", "bacd", {"b": (1, 0)}),
        ("abcd", "abd", {}),
        ("abc", "xabc", {}),
        ("abcd", "adbc", {"d": (3, 1)}),
    ],
)
def test_the_fewest_moves_explain_a_new_order(
    shop: Harness, old: str, new: str, moved: dict[str, tuple[int, int]]
) -> None:
    diff = diff_harnesses(shop.replace(skills=skills(*old)), shop.replace(skills=skills(*new)))
    places = {c.component.removeprefix("skills/"): c.place for c in diff.components if c.kind == "moved"}
    assert places == moved


def test_terminal_text_marks_kinds_and_lines(shop: Harness) -> None:
    qa = shop.skills[0].model_copy(update={"name": "product-help"})
    text = text_diff(diff_harnesses(shop, shop.replace(skills=(shop.skills[1], qa), hooks=shop.hooks[:1])))
    lines = text.plain.split("\n")
    moved = next(i for i, line in enumerate(lines) if "moved" in line or "(place" in line)
    assert lines[moved] in (
        "> skills/flash-sale: moved (place 2 -> 1)",
        "~ skills/item-qa: changed (place 1 -> 2)",
    )
    at = lines.index("    name")
    assert lines[at + 1 : at + 4] == ["      @@ -1 +1 @@", "      -item-qa", "      +product-help"]
    assert "- hooks/shout: removed" in lines
    assert {span.style for span in text.spans} >= {"green", "red", "bold red"}


def test_html_escapes_everything_that_comes_from_a_harness(shop: Harness) -> None:
    evil = "<script>alert('x')</script>"
    skill = Skill(key=evil, name=evil, description=evil, body=evil, extra={evil: evil})
    html = html_diff(diff_harnesses(shop, shop.replace(skills=(skill,))))
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert html.count("<section") == html.count("</section>") == 3


def test_as_data_it_is_json(shop: Harness) -> None:
    data = diff_harnesses(shop, shop.replace(hooks=())).as_json()
    assert json.loads(json.dumps(data)) == data
    assert [(c["component"], c["kind"]) for c in data["components"]] == [
        ("hooks/no-links", "removed"),
        ("hooks/shout", "removed"),
    ]
