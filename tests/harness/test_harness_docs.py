"""docs/harness.md: its example is a harness, and its table of codes is whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from livery.harness.folder import load_harness
from livery.harness.hooks.builtin import BUILTINS
from livery.harness.lint import lint

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/harness.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"^### `([^`]+)`\n\n```\w+\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))


def test_the_documented_example_is_a_clean_harness(tmp_path: Path) -> None:
    for name, text in EXAMPLES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    loaded = load_harness(tmp_path)
    registry = pytest.importorskip("livery.shop.registry")
    operations = {name: operation.parameters for name, operation in registry.shop_operations().items()}
    problems = lint(loaded.harness, loaded.problems, operations=operations, builtins=BUILTINS)
    assert {p.code for p in problems} == {"hook-missing"}  # a small example goes without most guards
    h = loaded.harness
    assert [len(x) for x in (h.sections, h.skills, h.tools, h.hooks)] == [3, 2, 1, 3]
    assert len(EXAMPLES) == 11


def test_every_code_is_documented() -> None:
    table = TEXT.split("## Lint codes")[1]
    table += "".join(f" `skill-skipped{end}`" for end in re.findall(r"`(-[a-z-]+)`", table))
    modules = ("reading", "lint", "lint_tools", "skills", "schema", "source")
    code = (
        r'"((?:yaml|key|field|file|front|template|folder|order|name|skill|prompt|tool|hook|limits|catalogue)-[a-z-]+)"'
    )
    known = {
        found
        for module in modules
        for found in re.findall(code, (ROOT / f"livery/harness/{module}.py").read_text(encoding="utf-8"))
    }
    names = known - {"skill-file-missing"}  # an answer to a policy, not a finding
    missing = sorted(n for n in names if f"`{n}`" not in table)
    assert missing == []
    assert len(names) > 60
