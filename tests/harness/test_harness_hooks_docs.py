"""What docs/hooks.md shows is what the code does."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from livery.harness.folder import load_harness
from livery.harness.hooks.builtin import BUILTINS
from livery.harness.hooks.decisions import Allow, Block, HookContext, HookFunction, Retry, Rewrite
from livery.harness.hooks.loading import load_hooks
from livery.harness.hooks.rules import ArgumentTest, Conditions
from livery.types import ToolCall

PAGE = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"### `(hooks/[\w.-]+)`\n\n```\w+\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def hooks(tmp_path: Path) -> dict[str, HookFunction]:
    """The page's examples, loaded from a folder."""
    files = {"harness.yaml": "name: page\n", "prompt/role.md": "You host.\n", **EXAMPLES}
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return load_hooks(load_harness(tmp_path).harness)


def test_every_example_does_what_the_page_says(hooks: dict[str, HookFunction], bare_context: HookContext) -> None:
    assert set(hooks) == {"superlatives", "bulk-order", "money-sign", "one-question", "grounding"}

    def decide(key: str, value: Any, **params: Any) -> Any:
        return hooks[key](value, replace(bare_context, params=params))

    assert isinstance(decide("superlatives", "The best mug."), Retry)
    assert decide("superlatives", "Best before June.") == Allow()
    order = ToolCall(id="c", name="get_price", arguments={"quantity": 51})
    assert isinstance(decide("bulk-order", order), Block)
    assert decide("bulk-order", replace(order, arguments={"quantity": 50})) == Allow()
    assert decide("money-sign", "It is 20 dollars.").value == "It is $20."
    assert isinstance(decide("money-sign", "It is 20 dollars."), Rewrite)
    assert decide("one-question", "Which one? The blue?", most=1) == Retry(
        "Ask 1 question at most; this asks 2.", {"asked": 2}
    )


def test_the_table_of_builtins_is_complete() -> None:
    table = PAGE.partition("## Built-in")[2]
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)`(, change)? \|", table, re.MULTILINE)
    assert rows == [(b.name, str(b.checkpoint), ", change" if b.mode == "change" else "") for b in BUILTINS.values()]


def test_every_condition_is_on_the_page() -> None:
    for name in (*Conditions.model_fields, *ArgumentTest.model_fields):
        assert f"`{name}`" in PAGE
