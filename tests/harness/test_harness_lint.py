"""Lint: each rule fires on what it is for, on its line, and stays silent on the example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness_examples import FILES, OPERATIONS, write_example
from pydantic import BaseModel, ConfigDict

from livery.errors import Problem
from livery.harness.folder import load_harness
from livery.harness.hooks.builtin import BUILTINS as REGISTERED
from livery.harness.lint import (
    ESSENTIAL_HOOKS,
    PROMPT_VARIABLES,
    REQUEST_VARIABLES,
    Builtin,
    estimate_tokens,
    has_errors,
    lint,
)
from livery.harness.model import Limits, Rendering, Tool
from livery.types import Checkpoint

HOOK_OK = FILES["hooks/shout.py"].replace("raise RuntimeError", "# raise RuntimeError")


class GroundingParams(BaseModel):
    model_config = ConfigDict(extra="forbid")
    tolerance: int = 0


class FakeBuiltin:
    def __init__(self, checkpoint: Checkpoint, mode: str) -> None:
        self.checkpoint, self.mode, self.params = checkpoint, mode, GroundingParams


BUILTINS: dict[str, Builtin] = {
    "grounding": FakeBuiltin(Checkpoint.REPLY, "check"),
    "strip": FakeBuiltin(Checkpoint.REPLY, "change"),
}


def run(root: Path, changes: dict[str, str | None] | None = None, **options: Any) -> list[Problem]:
    loaded = load_harness(write_example(root, changes))
    return lint(loaded.harness, loaded.problems, **{"operations": OPERATIONS, "sources": loaded.sources, **options})


def brief(root: Path, problems: list[Problem]) -> list[tuple[str, int, str, str]]:
    return [(Path(p.path).relative_to(root / "shop").as_posix(), p.line, p.code, p.severity) for p in problems]


def test_the_example_is_clean(tmp_path: Path) -> None:
    assert run(tmp_path) == []


QA_FILE, SALE_FILE = "skills/item-qa/SKILL.md", "skills/flash-sale/SKILL.md"
TOOL_FILE = "tools/get_item.yaml"
TOOL = FILES[TOOL_FILE]
SKILL = FILES[QA_FILE]
SALE = FILES[SALE_FILE]
YAML = FILES["harness.yaml"]


def search_tool(properties: str, arguments: str = "{}", extra: str = "") -> dict[str, str | None]:
    return {
        "tools/find.yaml": "description: Find items.\n"
        f"inputSchema:\n  type: object\n  properties: {properties}\n  required: [q]\n"
        f"binding:\n  operation: catalog.search\n  arguments: {arguments}\n{extra}"
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # skills
        (
            {QA_FILE: SKILL.replace("livery-kind: reply", "a: b")},
            ("harness.yaml", 5, "skill-no-reply", "warning"),
        ),
        (
            {SALE_FILE: SALE.replace("name: flash-sale", "name: flash_sale")},
            (SALE_FILE, 2, "skill-name-invalid", "error"),
        ),
        (
            {SALE_FILE: SALE.replace("description: Push", "description: Push: it,")},
            (SALE_FILE, 3, "skill-unquoted", "error"),
        ),
        (
            {SALE_FILE: SALE.replace("---\n\n", "colour: red\n---\n\n")},
            (SALE_FILE, 4, "skill-unknown-field", "error"),
        ),
        (
            {SALE_FILE: SALE.replace("---\n\n", "when_to_use: now\n---\n\n")},
            (SALE_FILE, 4, "skill-extra-field", "warning"),
        ),
        (
            {SALE_FILE: SALE.replace("---\n\n", "allowed-tools: get_itm\n---\n\n")},
            (SALE_FILE, 4, "skill-allowed-tool", "warning"),
        ),
        (
            {"harness.yaml": YAML + "rendering:\n  skill_description_chars: 70\n"},
            (QA_FILE, 3, "skill-description-dropped", "error"),
        ),
        ({"skills/item-qa/references/tone.md": None}, (QA_FILE, 11, "skill-file-unknown", "error")),
        # names the texts speak of
        ({QA_FILE: SKILL.replace("`get_item`", "`get_thing`")}, (QA_FILE, 11, "name-unknown", "error")),
        ({QA_FILE: SKILL + "\nThe `get_items` field.\n"}, (QA_FILE, 13, "name-unknown", "warning")),
        ({QA_FILE: SKILL + "\n`fetch(link_id=3)` first.\n"}, (QA_FILE, 13, "name-unknown", "error")),
        ({QA_FILE: SKILL + "\n先加载 `sale-rush` 再回答。\n"}, (QA_FILE, 13, "name-unknown", "error")),
        (
            {"prompt/persona.md": FILES["prompt/persona.md"] + "Use the `price_help` skill.\n"},
            ("prompt/persona.md", 7, "name-unknown", "error"),
        ),
        (
            {
                TOOL_FILE: "key: item_facts\n" + TOOL,
                "prompt/persona.md": FILES["prompt/persona.md"] + "Ask item_facts.\n",
            },
            ("prompt/persona.md", 7, "key-shown", "warning"),
        ),
        # prompt
        (
            {"prompt/persona.md": FILES["prompt/persona.md"] + "{{ streamer }}\n"},
            ("prompt/persona.md", 7, "prompt-variable-unknown", "error"),
        ),
        (
            {"prompt/persona.md": FILES["prompt/persona.md"] + "{{ room.streamer }}\n"},
            ("prompt/persona.md", 7, "prompt-variable-volatile", "error"),
        ),
        (
            {"harness.yaml": YAML.replace("[persona, tools, chat]", "[persona, chat, tools]")},
            ("prompt/tools.md", 2, "prompt-order", "warning"),
        ),
        (
            {"prompt/chat.md": "---\nvolatility: request\n---\n\nhello\n"},
            ("harness.yaml", 4, "prompt-no-chat", "error"),
        ),
        ({"prompt/persona.md": "Hello\n"}, ("harness.yaml", 4, "prompt-no-skills", "warning")),
        ({"prompt/tools.md": "{{ call_format }}\n"}, ("harness.yaml", 4, "prompt-no-tools", "warning")),
        ({"prompt/tools.md": "{{ tools }}\n"}, ("harness.yaml", 4, "prompt-no-call-format", "warning")),
        (
            {"prompt/tools.md": FILES["prompt/tools.md"] + "商" * 4000},
            ("harness.yaml", 6, "prompt-too-long", "error"),
        ),
        (
            {"prompt/tools.md": FILES["prompt/tools.md"] + "word " * 2000},
            ("harness.yaml", 6, "prompt-long", "warning"),
        ),
        # tools
        (
            {TOOL_FILE: TOOL.replace("catalog.get_product", "catalog.get_item")},
            (TOOL_FILE, 14, "tool-operation", "error"),
        ),
        (
            {TOOL_FILE: TOOL.replace("catalog.get_product", "mcp.crm.find")},
            (TOOL_FILE, 14, "tool-operation", "error"),
        ),
        (
            {TOOL_FILE: TOOL.replace("    link_id:", "    link:")},
            (TOOL_FILE, 16, "tool-parameter-unknown", "error"),
        ),
        (
            {TOOL_FILE: TOOL.replace("source: number", "source: numbr")},
            (TOOL_FILE, 16, "tool-binding-source", "error"),
        ),
        ({TOOL_FILE: TOOL.replace("full: 1", "ful: 1")}, (TOOL_FILE, 17, "tool-labels-missing", "error")),
        (
            {TOOL_FILE: TOOL.replace("full: 1", "full: 1, all: 1")},
            (TOOL_FILE, 17, "tool-labels-unused", "warning"),
        ),
        ({TOOL_FILE: TOOL.replace("full: 1", "full: 2")}, (TOOL_FILE, 17, "tool-label-value", "error")),
        (
            {TOOL_FILE: TOOL.replace("{source: view, labels: {short: 0, full: 1}}", "view")},
            (TOOL_FILE, 17, "tool-enum-values", "error"),
        ),
        (
            {TOOL_FILE: TOOL.replace("source: view, labels: {short: 0, full: 1}", "constant: 7")},
            (TOOL_FILE, 17, "tool-binding-value", "error"),
        ),
        (
            {TOOL_FILE: TOOL.replace("source: view, labels: {short: 0, full: 1}", "convert: string")},
            (TOOL_FILE, 17, "tool-binding-empty", "error"),
        ),
        (
            {TOOL_FILE: TOOL.replace("  required: [number]\n", "")},
            (TOOL_FILE, 3, "tool-parameter-optional", "warning"),
        ),
        (search_tool("{q: {type: string}}"), ("tools/find.yaml", 4, "tool-argument-unused", "error")),
        (search_tool("{q: {type: string}}"), ("tools/find.yaml", 6, "tool-parameter-missing", "error")),
        (
            search_tool("{q: {type: string}, query: {type: string}}", "{query: q}"),
            ("tools/find.yaml", 4, "tool-argument-unused", "error"),
        ),
        (
            {
                TOOL_FILE: TOOL.replace("name: get_item", "name: 查商品"),
                QA_FILE: SKILL.replace("get_item", "查商品"),
            },
            (TOOL_FILE, 1, "tool-name", "warning"),
        ),
        (
            {
                TOOL_FILE: TOOL.replace("name: get_item", "name: load_skill"),
                QA_FILE: SKILL.replace("get_item", "load_skill"),
            },
            (TOOL_FILE, 1, "name-duplicate", "error"),
        ),
        (
            {TOOL_FILE: TOOL.replace("style: key_value", "style: prose")},
            (TOOL_FILE, 18, "tool-result", "error"),
        ),
        ({TOOL_FILE: TOOL + "timeout_s: 60\n"}, (TOOL_FILE, 21, "tool-timeout", "warning")),
        # hooks
        (
            {"hooks/a.yaml": "checkpoint: reply\non_failure: block\nbuiltin: groundin\n"},
            ("hooks/a.yaml", 3, "hook-unknown-builtin", "error"),
        ),
        (
            {"hooks/a.yaml": "checkpoint: reply\non_failure: block\nbuiltin: grounding\nparams: {x: 1}\n"},
            ("hooks/a.yaml", 4, "hook-params", "error"),
        ),
        (
            {"hooks/a.yaml": "checkpoint: request\non_failure: block\nbuiltin: grounding\n"},
            ("hooks/a.yaml", 1, "hook-checkpoint", "error"),
        ),
        (
            {"hooks/a.yaml": "checkpoint: reply\non_failure: allow\nbuiltin: grounding\n"},
            ("hooks/a.yaml", 2, "hook-failure-mode", "warning"),
        ),
        (
            {"hooks/a.yaml": "checkpoint: reply\non_failure: allow\nbuiltin: strip\nmode: check\n"},
            ("hooks/a.yaml", 4, "hook-mode", "error"),
        ),
        (
            {"hooks/no-links.yaml": FILES["hooks/no-links.yaml"].replace("then: retry", "then: rewrite")},
            ("hooks/no-links.yaml", 5, "hook-rule", "error"),
        ),
        (
            {"hooks/shout.py": HOOK_OK.replace("def check", "def chek")},
            ("hooks/shout.py", 1, "hook-no-check", "error"),
        ),
        (
            {"hooks/shout.py": HOOK_OK.replace("return None", "return Rewrite(value)")},
            ("hooks/shout.py", 1, "hook-mode", "error"),
        ),
        # limits
        (
            {"harness.yaml": YAML + "  degraded_reserve_s: 8\n"},
            ("harness.yaml", 9, "limits-reserve", "error"),
        ),
        (
            {"harness.yaml": YAML.replace("rounds: 4", "rounds: 1\n  retries: 0")},
            ("harness.yaml", 7, "limits-rounds", "error"),
        ),
        ({"harness.yaml": YAML + "  tool_calls: 0\n"}, ("harness.yaml", 9, "limits-tool-calls", "error")),
        ({"harness.yaml": YAML + "  retries: 4\n"}, ("harness.yaml", 9, "limits-retries", "warning")),
        ({"harness.yaml": YAML + "  turn_tokens: 5000\n"}, ("harness.yaml", 9, "limits-tokens", "error")),
    ],
)
def test_each_rule_fires_on_its_line(
    tmp_path: Path, changes: dict[str, str | None], expected: tuple[str, int, str, str]
) -> None:
    grounded = {"hooks/g.yaml": "checkpoint: reply\non_failure: block\nbuiltin: grounding\n"}
    found = brief(tmp_path, run(tmp_path, {**grounded, **changes}, builtins=BUILTINS))
    assert expected in found


@pytest.mark.parametrize(
    "text",
    [
        "Answer in `short` words, with `price_minor` from the result, `snake_case` style.",
        "Read `references/tone.md`.",
        "Call `load_skill` and `read_skill_file`.",
        "`get_item(number=3)` then `flash-sale`.",
        "Write `**bold**` or `{{x}}` never.",
    ],
)
def test_fields_values_and_known_names_are_no_findings(tmp_path: Path, text: str) -> None:
    assert run(tmp_path, {QA_FILE: f"{SKILL}\n{text}\n"}) == []


def test_a_missing_guard_is_a_warning_and_only_where_there_is_one_to_have(tmp_path: Path) -> None:
    (problem,) = run(tmp_path, builtins=BUILTINS)
    assert (problem.code, problem.severity) == ("hook-missing", "warning")
    assert "grounding" in problem.message


def test_the_guards_lint_asks_for_are_registered() -> None:
    assert set(ESSENTIAL_HOOKS) <= set(REGISTERED)
    assert {REGISTERED[name].checkpoint for name in ESSENTIAL_HOOKS} == {"request", "tool_call", "reply"}


def test_paging_belongs_to_the_result_and_not_to_the_operation(tmp_path: Path) -> None:
    good = search_tool("{q: {type: string}, p: {type: integer}}", "{query: q, page: p}", "result: {page_size: 3}\n")
    assert run(tmp_path / "a", good) == []
    bad = search_tool("{q: {type: string}, p: {type: integer}}", "{query: q, page: p}")
    assert [p.code for p in run(tmp_path / "b", bad)] == ["tool-parameter-unknown"]


def test_the_runtime_s_own_operations_are_known_as_the_agent_takes_them(tmp_path: Path) -> None:
    reader = "description: Read.\ninputSchema:\n  type: object\n  properties: {skill_name: {type: string}}\n"
    reader += "  required: [skill_name]\nbinding:\n  operation: harness.load_skill\n"
    good = reader + "  arguments: {name: skill_name}\n"
    assert run(tmp_path / "a", {"tools/open_skill.yaml": good}) == []
    codes = {p.code for p in run(tmp_path / "b", {"tools/open_skill.yaml": reader})}
    assert codes == {"tool-argument-unused", "tool-parameter-missing"}


def test_a_nested_source_and_a_constant_fill_what_is_needed(tmp_path: Path) -> None:
    nested = "{q: {type: object, properties: {text: {type: string}}, required: [text]}}"
    assert run(tmp_path, search_tool(nested, "{query: q.text, limit: {constant: 5}}")) == []


def test_an_mcp_tool_needs_its_server_here(tmp_path: Path) -> None:
    changes = {
        TOOL_FILE: TOOL.replace("catalog.get_product", "mcp.crm.find"),
        "harness.yaml": YAML + "servers:\n  - {name: crm, transport: http, url: http://localhost:1/mcp}\n",
    }
    assert run(tmp_path, changes) == []


def test_a_harness_in_memory_is_linted_without_lines(tmp_path: Path) -> None:
    h = load_harness(write_example(tmp_path)).harness
    broken = h.replace(
        limits=Limits(deadline_s=1, degraded_reserve_s=2),
        rendering=Rendering(skill_description_chars=70),
        tools=(h.tools[0], h.tools[0].model_copy(update={"key": "other"})),
    )
    found = [(p.path, p.line, p.code) for p in lint(broken, operations=OPERATIONS) if p.severity == "error"]
    assert found == [
        ("settings", 0, "limits-reserve"),
        ("skills/item-qa", 0, "skill-description-dropped"),
        ("tools/other", 0, "name-duplicate"),
    ]


def test_a_broken_template_in_memory_is_an_error(tmp_path: Path) -> None:
    h = load_harness(write_example(tmp_path)).harness
    for text in ("{{ chat", "{{ chat | shorten }}", "{% if chat is shouted %}a{% endif %}"):
        chat = h.sections[2].model_copy(update={"template": text})
        found = lint(h.replace(sections=(*h.sections[:2], chat)), operations=OPERATIONS)
        assert ("prompt/chat", "template-syntax") in [(p.path, p.code) for p in found]


def test_a_broken_schema_is_told_once_and_its_binding_left_alone(tmp_path: Path) -> None:
    h = load_harness(write_example(tmp_path)).harness
    tool = Tool.model_validate({**h.tools[0].model_dump(), "input_schema": {"type": "array"}})
    codes = [p.code for p in lint(h.replace(tools=(tool,)), operations=OPERATIONS)]
    assert codes == ["tool-schema"]


def test_a_skill_from_elsewhere_does_not_stop_a_harness_that_is_only_run(tmp_path: Path) -> None:
    changes = {SALE_FILE: SALE.replace("name: flash-sale", "name: Flash Sale\ncolour: red")}
    codes = ["skill-name-invalid", "skill-name-mismatch", "skill-unknown-field"]
    strict, lenient = run(tmp_path / "a", changes), run(tmp_path / "b", changes, strict=False)
    assert [(p.code, p.severity) for p in strict] == [(c, "error") for c in codes]
    assert [(p.code, p.severity) for p in lenient] == [(c, "warning") for c in codes]


def test_a_load_problem_is_not_told_twice(tmp_path: Path) -> None:
    changes = {SALE_FILE: SALE.replace("Push", "x" * 1100)}
    codes = [(p.code, p.severity) for p in run(tmp_path, changes)]
    assert codes.count(("skill-description-long", "error")) == 1
    assert ("skill-description-dropped", "error") in codes


def test_a_skipped_skill_keeps_the_harness_from_being_clean(tmp_path: Path) -> None:
    problems = run(tmp_path, {SALE_FILE: "---\nname: flash-sale\n---\n"})
    assert [p.code for p in problems] == ["skill-skipped-no-description"]
    assert has_errors(problems)


def test_tokens_are_estimated_by_script() -> None:
    assert [estimate_tokens(t) for t in ("", "abcd", "abcde", "商品", "商品 ok", "，。")] == [
        0,
        1,
        2,
        2,
        3,
        2,
    ]


def test_the_variables_lint_knows_are_those_the_prompt_gives(tmp_path: Path) -> None:
    prompt = pytest.importorskip("livery.agent.prompt")
    h = load_harness(write_example(tmp_path)).harness
    templates = prompt.PromptTemplates(h, h.tools)
    assert set(templates._variables("text")) == PROMPT_VARIABLES
    doc = prompt.PromptTemplates.render.__doc__
    assert all(f"``{name}``" in doc for name in REQUEST_VARIABLES)
