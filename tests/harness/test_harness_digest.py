"""Digests: the same on every machine, and sensitive to exactly what a policy could notice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness_examples import write_example

from livery.errors import InputError
from livery.harness.digest import (
    canonical_bytes,
    component_digests,
    harness_digest,
    harness_from_json,
    harness_to_json,
)
from livery.harness.folder import load_harness
from livery.harness.model import Binding, Harness, Limits, Section, Skill, Tool


def tool(**schema: object) -> Tool:
    return Tool(key="t", name="t", description="d", input_schema=schema, binding=Binding(operation="o"))


MINIMAL = Harness(name="m", sections=(Section(key="a", template="{{ chat }}"),))


def test_golden_digests_are_pinned(tmp_path: Path) -> None:
    """A change here is a change of the format: every stored release would get another name."""
    example = load_harness(write_example(tmp_path)).harness
    assert harness_digest(MINIMAL) == "sha256:8363650908d093eb51f5b727f6cdcfe3a6e26afe6a290034d4f2b1cd53faf8ac"
    assert harness_digest(example) == "sha256:a9edcd15db7b4c219575960e91ed9a4a17f2d2858a3a0f5195a360df5251a679"
    assert (
        component_digests(example)["skills/item-qa"]
        == "sha256:5a8da97e0a8fb59477023410babe373feef1962f37d168f964dc8af3ced49e87"
    )


def test_canonical_bytes_are_sorted_compact_utf8_json_without_defaults() -> None:
    skill = Skill(key="k", name="价格", description="a\r\nb", body="é", extra={"z": 1.0, "a": {"c": 2, "b": 0.5}})
    expected = '{"body":"é","description":"a\\nb","extra":{"a":{"b":0.5,"c":2},"z":1},"key":"k","name":"价格"}'
    assert canonical_bytes(skill) == expected.encode()


def test_components_are_named_and_in_order(tmp_path: Path) -> None:
    digests = component_digests(load_harness(write_example(tmp_path)).harness)
    assert list(digests) == [
        "settings", "prompt/persona", "prompt/tools", "prompt/chat", "skills/item-qa", "skills/flash-sale",
        "tools/get_item", "hooks/no-links", "hooks/shout",
    ]  # fmt: skip
    assert all(len(d) == 71 and d.startswith("sha256:") for d in digests.values())
    assert len(set(digests.values())) == len(digests)


def test_a_change_moves_one_component_and_the_whole(tmp_path: Path) -> None:
    h = load_harness(write_example(tmp_path)).harness
    skill = h.skills[0].model_copy(update={"body": h.skills[0].body + "!"})
    changed = h.replace(skills=(skill, h.skills[1]))
    before, after = component_digests(h), component_digests(changed)
    assert [n for n in before if before[n] != after[n]] == ["skills/item-qa"]
    assert harness_digest(changed) != harness_digest(h)


def test_order_is_content(tmp_path: Path) -> None:
    h = load_harness(write_example(tmp_path)).harness
    turned = h.replace(skills=tuple(reversed(h.skills)))
    assert component_digests(turned) == component_digests(h)
    assert harness_digest(turned) != harness_digest(h)


def test_the_order_of_a_tools_properties_is_content_and_other_mappings_have_none() -> None:
    a = tool(type="object", properties={"x": {"type": "string"}, "y": {}})
    b = tool(type="object", properties={"y": {}, "x": {"type": "string"}})
    assert canonical_bytes(a) != canonical_bytes(b)
    c = a.model_copy(update={"annotations": {"p": 1, "q": 2}})
    d = a.model_copy(update={"annotations": {"q": 2, "p": 1}})
    assert canonical_bytes(c) == canonical_bytes(d)


def test_numbers_and_newlines_have_one_form() -> None:
    assert canonical_bytes(Limits(deadline_s=3)) == canonical_bytes(Limits(deadline_s=3.0))
    a, b = (MINIMAL.replace(description=text) for text in ("x\r\ny\rz", "x\ny\nz"))
    assert harness_digest(a) == harness_digest(b)
    composed, decomposed = (MINIMAL.replace(description=text) for text in ("é", "e\u0301"))
    assert harness_digest(composed) != harness_digest(decomposed)  # a tokenizer sees the difference


def test_two_components_of_one_key_have_no_digest() -> None:
    with pytest.raises(InputError, match="two components"):
        harness_digest(MINIMAL.replace(skills=(Skill(key="a", name="a", description="d", body="b"),) * 2))


def test_another_process_with_another_hash_seed_and_locale_agrees(tmp_path: Path) -> None:
    folder = write_example(tmp_path)
    code = (
        "import sys; from livery.harness.folder import load_harness; "
        "from livery.harness.digest import harness_digest; "
        "print(harness_digest(load_harness(sys.argv[1]).harness))"
    )
    env = {**os.environ, "PYTHONHASHSEED": "7", "LC_ALL": "C", "PYTHONUTF8": "0", "TZ": "Asia/Tokyo"}
    root = Path(__file__).parents[2]
    out = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        env=env,
        cwd=root,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert out.stdout.decode().strip() == harness_digest(load_harness(folder).harness)


def test_json_gives_back_an_equal_harness_of_the_same_release(tmp_path: Path) -> None:
    h = load_harness(write_example(tmp_path)).harness
    text = harness_to_json(h)
    back = harness_from_json(text)
    assert "\n" not in text
    assert back == h
    assert harness_digest(back) == harness_digest(h)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("{", [("", "json-syntax")]),
        ("[]", [("", "field-invalid")]),
        (
            json.dumps({"name": 3, "sections": [{"key": "a"}]}),
            [("name", "field-invalid"), ("sections[0].template", "field-invalid")],
        ),
    ],
)
def test_json_that_is_no_harness_names_every_fault(text: str, fields: list[tuple[str, str]]) -> None:
    with pytest.raises(InputError) as caught:
        harness_from_json(text, path="r.json")
    assert [(p.field, p.code) for p in caught.value.problems] == fields
    assert {p.path for p in caught.value.problems} == {"r.json"}
