"""A harness folder: what loads, what comes back from a save, and how faults are told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from harness_examples import FILES, write_example
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from livery.errors import InputError, Problem
from livery.harness.digest import component_digests, harness_digest
from livery.harness.folder import load_harness, save_harness
from livery.harness.model import (
    ArgumentMap,
    Binding,
    Degraded,
    Feedback,
    Harness,
    Hook,
    Limits,
    McpServer,
    Rendering,
    ResultFormat,
    Section,
    Skill,
    SkillFile,
    Tool,
)
from livery.types import Checkpoint


def faults(root: Path, changes: dict[str, str | None]) -> list[tuple[str, int, str, str]]:
    """(file, line, field, code) of everything wrong with the changed example."""
    folder = write_example(root, changes)
    with pytest.raises(InputError) as caught:
        load_harness(folder)
    return [
        (Path(p.path).relative_to(folder).as_posix(), p.line, p.field, p.code)
        for p in caught.value.problems
        if p.severity == "error"
    ]


def warnings(root: Path, changes: dict[str, str | None]) -> list[tuple[str, str]]:
    folder = write_example(root, changes)
    return [(Path(p.path).relative_to(folder).as_posix(), p.code) for p in load_harness(folder).problems]


def test_every_kind_of_file_is_read(tmp_path: Path) -> None:
    loaded = load_harness(write_example(tmp_path))
    h = loaded.harness
    assert loaded.problems == ()
    assert (h.name, h.description, h.language) == ("corner-shop", "A small host.", "en")
    assert h.limits == Limits(rounds=4, deadline_s=8)
    assert [s.key for s in h.sections] == ["persona", "tools", "chat"]
    assert h.sections[0] == Section(
        key="persona", title="Who you are", template="You host a live shop. Skills:\n{{ skills_catalogue }}"
    )
    assert h.sections[2].volatility == "request"
    assert h.skills[0] == Skill(
        key="item-qa",
        name="item-qa",
        description="Answer a viewer's question about one item, such as its price or material.",
        body="# Item question\n\nCall `get_item`, then answer in one sentence. See references/tone.md.",
        kind="reply",
        metadata={"author": "shop team"},
        files=(SkillFile(path="references/tone.md", content="Warm and short.\n"),),
    )
    tool = h.tools[0]
    assert (tool.key, tool.name, tool.annotations) == ("get_item", "get_item", {"readOnlyHint": True})
    assert tool.binding == Binding(
        operation="catalog.get_product",
        arguments=(
            ArgumentMap(to="link_id", source="number", convert="digits"),
            ArgumentMap(to="detail", source="view", labels={"short": 0, "full": 1}),
        ),
    )
    assert tool.result == ResultFormat(style="key_value", rename={"price_minor": "price"})
    rules, python = h.hooks
    assert (rules.key, rules.kind, rules.checkpoint, rules.on_failure) == (
        "no-links",
        "rules",
        "reply",
        "block",
    )
    assert rules.params["rules"][0]["then"] == "retry"
    assert (python.key, python.kind, python.mode, python.timeout_s) == ("shout", "python", "check", 0.2)
    assert python.source == FILES["hooks/shout.py"]


def test_line_numbers_are_kept_for_lint(tmp_path: Path) -> None:
    sources = load_harness(write_example(tmp_path)).sources
    assert sources["tools/get_item"].line("inputSchema.properties.view") == 9
    assert sources["tools/get_item"].line("binding.arguments.link_id.convert") == 16
    assert sources["tools/get_item"].line("inputSchema.properties.number.minLength") == 6  # nearest ancestor
    assert sources["skills/item-qa"].line("metadata.livery-kind") == 5
    assert sources["skills/item-qa"].line("body") == 9
    assert sources["settings"].line("limits.deadline_s") == 8
    assert sources["hooks/shout"].line("TIMEOUT_S") == 5
    assert sources["prompt/persona"].line("template") == 5


def test_order_lists_are_optional_and_then_it_is_by_name(tmp_path: Path) -> None:
    h = load_harness(write_example(tmp_path, {"harness.yaml": "name: x\n"})).harness
    assert [s.key for s in h.sections] == ["chat", "persona", "tools"]
    assert [s.key for s in h.skills] == ["flash-sale", "item-qa"]
    assert [x.key for x in h.hooks] == ["no-links", "shout"]


def test_a_component_left_out_of_its_list_is_left_out_with_a_warning(tmp_path: Path) -> None:
    text = FILES["harness.yaml"].replace("[item-qa, flash-sale]", "[flash-sale]") + "hooks: []\n"
    folder = write_example(tmp_path, {"harness.yaml": text})
    loaded = load_harness(folder)
    assert [s.key for s in loaded.harness.skills] == ["flash-sale"]
    assert loaded.harness.hooks == ()
    assert sorted((Path(p.path).name, p.code, p.severity) for p in loaded.problems) == [
        ("SKILL.md", "file-not-listed", "warning"),
        ("no-links.yaml", "file-not-listed", "warning"),
        ("shout.py", "file-not-listed", "warning"),
    ]


def test_all_faults_of_all_files_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    found = faults(
        tmp_path,
        {
            "harness.yaml": FILES["harness.yaml"].replace("rounds: 4", "rounds: 0\n  round: 3"),
            "prompt/persona.md": "---\ntitel: x\n---\n\nHello\n{% if x %}\n",
            "tools/get_item.yaml": FILES["tools/get_item.yaml"].replace("convert: digits", "convert: number3"),
            "hooks/no-links.yaml": "checkpoint: replies\nrules: []\n",
            "hooks/shout.py": "CHECKPOINT = 'reply'\nON_FAILURE = str('allow')\n",
            "skills/flash-sale/SKILL.md": "no front matter",
        },
    )
    assert found == [
        ("harness.yaml", 7, "limits.rounds", "field-invalid"),
        ("harness.yaml", 8, "limits.round", "field-unknown"),
        ("hooks/no-links.yaml", 1, "checkpoint", "field-invalid"),
        ("hooks/no-links.yaml", 1, "on_failure", "field-missing"),
        ("hooks/shout.py", 2, "ON_FAILURE", "hook-constant"),
        ("hooks/shout.py", 2, "ON_FAILURE", "field-missing"),
        ("prompt/persona.md", 2, "titel", "field-unknown"),
        ("prompt/persona.md", 6, "template", "template-syntax"),
        ("skills/flash-sale/SKILL.md", 1, "", "skill-skipped-no-front-matter"),
        ("tools/get_item.yaml", 16, "binding.arguments.link_id.convert", "field-invalid"),
    ]


def test_messages_say_what_was_found_and_what_is_expected(tmp_path: Path) -> None:
    changes = {"harness.yaml": FILES["harness.yaml"].replace("[persona, tools, chat]", "[persona, tool, chat]")}
    with pytest.raises(InputError) as caught:
        load_harness(write_example(tmp_path, changes))
    problem = next(p for p in caught.value.problems if p.severity == "error")
    assert problem.message == "found 'tool' (did you mean 'tools'?); expected one of chat, persona, tools"
    assert str(problem).endswith(f"harness.yaml:4: prompt[1]: {problem.message}")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"harness.yaml": None}, ("harness.yaml", 0, "", "file-missing")),
        ({"harness.yaml": "name: a\nname: b\n"}, ("harness.yaml", 2, "name", "key-twice")),
        ({"harness.yaml": "- a\n"}, ("harness.yaml", 1, "", "field-invalid")),
        (
            {"harness.yaml": "name: x\nprompt: [chat, chat]\n"},
            ("harness.yaml", 2, "prompt[1]", "order-duplicate"),
        ),
        ({"harness.yaml": "name: [\n"}, ("harness.yaml", 2, "", "yaml-syntax")),
        ({"harness.yaml": "name: x\ndescription: a\0b\n"}, ("harness.yaml", 2, "", "yaml-syntax")),
        ({"harness.yaml": "name: " + "[" * 2000}, ("harness.yaml", 1, "", "yaml-syntax")),
        (
            {"harness.yaml": "name: !!python/name:os.system x\n"},
            ("harness.yaml", 1, "name", "yaml-unsupported"),
        ),
        (
            {"harness.yaml": "name: x\nlimits: &a\n  b: *a\n"},
            ("harness.yaml", 2, "limits.b", "yaml-unsupported"),
        ),
        (
            {"harness.yaml": "name: x\ndegraded:\n  phrases:\n    price: '{{ x'\n"},
            ("harness.yaml", 4, "degraded.phrases.price", "template-syntax"),
        ),
        (
            {"harness.yaml": "name: x\nfeedback:\n  template: |\n    a\n    {% b %}\n"},
            ("harness.yaml", 5, "feedback.template", "template-syntax"),
        ),
        (
            {"harness.yaml": "name: x\nservers:\n- {name: a, transport: http}\n- {name: a, transport: http}\n"},
            ("harness.yaml", 4, "servers[1].name", "key-duplicate"),
        ),
        (
            {"prompt/chat.md": "a\n{{ chat | shorten }}\n"},
            ("prompt/chat.md", 2, "template", "template-syntax"),
        ),
        ({"prompt/chat.md": "---\ntitle: x\n"}, ("prompt/chat.md", 1, "", "front-matter-open")),
        (
            {"tools/b.yaml": FILES["tools/get_item.yaml"]},
            ("tools/get_item.yaml", 1, "name", "name-duplicate"),
        ),
        (
            {"tools/b.yaml": "key: get_item\n" + FILES["tools/get_item.yaml"]},
            ("tools/get_item.yaml", 1, "key", "key-duplicate"),
        ),
        (
            {
                "tools/b.yaml": "description: x\nbinding: a.b\ninputSchema:\n  type: object\n  properties:\n"
                "    n: {type: strin}\n"
            },
            ("tools/b.yaml", 6, "inputSchema.properties.n.type", "tool-schema"),
        ),
        (
            {
                "tools/b.yaml": "description: x\nbinding: a.b\ninputSchema:\n  type: object\n"
                "  required: [n]\n"
                "  properties: {}\n"
            },
            ("tools/b.yaml", 5, "inputSchema.required[0]", "tool-schema"),
        ),
        (
            {"tools/b.yaml": "description: x\nbinding: a.b\ninputSchema: {type: array}\n"},
            ("tools/b.yaml", 3, "inputSchema.type", "tool-schema"),
        ),
        (
            {
                "tools/b.yaml": "description: x\nbinding: a.b\ninputSchema:\n  type: object\n  properties:\n"
                "    n: {$ref: 'https://example.com/s'}\n"
            },
            ("tools/b.yaml", 6, "inputSchema.properties.n.$ref", "tool-schema-ref"),
        ),
        ({"tools/b.yaml": "description: x\n"}, ("tools/b.yaml", 1, "binding", "field-missing")),
        (
            {"tools/b.yaml": "description: x\nbinding: a.b\ntimeout: 3\n"},
            ("tools/b.yaml", 3, "timeout", "field-unknown"),
        ),
        (
            {"tools/b.yaml": "description: x\nbinding: a.b\ninput_schema: {type: object}\n"},
            ("tools/b.yaml", 3, "input_schema", "field-unknown"),
        ),
        ({"hooks/b.yaml": "checkpoint: reply\non_failure: allow\n"}, ("hooks/b.yaml", 1, "", "hook-kind")),
        (
            {"hooks/b.yaml": "checkpoint: reply\non_failure: allow\nbuiltin: x\nrules: []\n"},
            ("hooks/b.yaml", 4, "rules", "hook-kind"),
        ),
        (
            {"hooks/b.yaml": "checkpoint: reply\non_failure: allow\npython: ../../x.py\n"},
            ("hooks/b.yaml", 3, "python", "hook-python-missing"),
        ),
        ({"hooks/b.py": "CHECKPOINT = 'reply'\ndef check(:\n"}, ("hooks/b.py", 2, "", "hook-syntax")),
        (
            {"hooks/shout.yaml": "checkpoint: reply\non_failure: allow\nbuiltin: x\n"},
            ("hooks/shout.py", 1, "key", "key-duplicate"),
        ),
    ],
)
def test_each_fault_is_told_where_it_stands(
    tmp_path: Path, changes: dict[str, str | None], expected: tuple[str, int, str, str]
) -> None:
    found = faults(tmp_path, changes)
    assert expected in found
    assert len(found) == 1


def test_text_that_is_not_utf8_names_its_line(tmp_path: Path) -> None:
    folder = write_example(tmp_path)
    (folder / "prompt/chat.md").write_bytes("a\nb\n商品".encode("gbk"))
    with pytest.raises(InputError) as caught:
        load_harness(folder)
    (problem,) = caught.value.problems
    assert (problem.line, problem.code) == (3, "file-encoding")


def test_aliases_that_multiply_are_refused(tmp_path: Path) -> None:
    lines = ["name: x", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    found = faults(tmp_path, {"harness.yaml": "\n".join(lines)})
    assert [f[3] for f in found] == ["yaml-too-large"]


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        load_harness(tmp_path / "nowhere")


def test_a_folder_that_changes_while_it_is_read_is_an_input_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_example(tmp_path)
    seen = Path.stat

    def stat(self: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if self.name == "tone.md":
            raise FileNotFoundError(2, "No such file or directory", str(self))
        return seen(self, follow_symlinks=follow_symlinks)

    real = Path.is_file
    monkeypatch.setattr(Path, "is_file", lambda self: True if self.name == "tone.md" else real(self))
    monkeypatch.setattr(Path, "stat", stat)
    with pytest.raises(InputError, match="changed while it was read"):
        load_harness(folder)


def test_files_that_are_no_component_are_told_and_ignored(tmp_path: Path) -> None:
    found = warnings(
        tmp_path,
        {
            "prompt/n.txt": "",
            "tools/.DS_Store": "",
            "skills/README.md": "",
            "hooks/__pycache__/x.pyc": "",
        },
    )
    assert sorted(found) == [("prompt/n.txt", "file-ignored"), ("skills/README.md", "file-ignored")]


def test_a_skipped_skill_is_an_error_that_leaves_the_rest_loaded(tmp_path: Path) -> None:
    loaded = load_harness(write_example(tmp_path, {"skills/flash-sale/SKILL.md": "---\nname: flash-sale\n---\nx"}))
    assert [s.key for s in loaded.harness.skills] == ["item-qa"]
    assert [(p.code, p.severity) for p in loaded.problems] == [("skill-skipped-no-description", "error")]


def test_windows_newlines_and_a_byte_order_mark_change_nothing(tmp_path: Path) -> None:
    plain = load_harness(write_example(tmp_path / "a")).harness
    dos = {n: "\ufeff" + t.replace("\n", "\r\n") for n, t in FILES.items() if "references" not in n}
    other = load_harness(write_example(tmp_path / "b", {**dos})).harness
    assert other == plain
    assert harness_digest(other) == harness_digest(plain)


def test_a_python_hook_may_have_its_settings_in_yaml_beside_it(tmp_path: Path) -> None:
    changes = {
        "hooks/loud.yaml": "checkpoint: request\npython: shout.py\nparams: {limit: 3}\n",
        "harness.yaml": "name: x\n",
    }
    h = load_harness(write_example(tmp_path, changes)).harness
    loud = next(x for x in h.hooks if x.key == "loud")
    assert [x.key for x in h.hooks] == ["loud", "no-links"]  # shout.py is loud's code and no hook of its own
    assert (loud.checkpoint, loud.on_failure, loud.params) == ("request", "allow", {"limit": 3})


# ------------------------------------------------------------------------------------------- saving


def full_harness() -> Harness:
    return Harness(
        name="full",
        description="yes",
        language="zh",
        sections=(
            Section(key="a", template="\n  {{ x }}\n\n"),
            Section(key="b", title="标题: 1", volatility="room", facts=True, template="---\nnot front matter\n---"),
            Section(key="c", volatility="request", template=""),
        ),
        skills=(
            Skill(
                key="old-key",
                name="new-name",
                description="Use when: the viewer asks # really",
                body="\n# Body\r".replace("\r", "\n"),
                kind="reply",
                license="MIT",
                compatibility="any",
                allowed_tools="a b",
                facts=True,
                metadata={"version": "1.10", "on": "yes"},
                extra={
                    "when_to_use": "now",
                    "tags": ["a", 1, None, {"b": 1.5}],
                    "disable-model-invocation": True,
                },
                files=(
                    SkillFile(path="assets/x.bin", content="AP8=", encoding="base64"),
                    SkillFile(path="references/中.md", content="a\n\n"),
                ),
            ),
            Skill(key="商品", name="Not A Valid Name", description="问价格", body="正文"),
        ),
        tools=(
            Tool(
                key="t",
                name="查商品",
                description="a\nb",
                input_schema={
                    "type": "object",
                    "properties": {"z": {"enum": ["yes", "1e3", "007", 7]}, "a": {"type": "string"}},
                    "required": ["z"],
                },
                annotations={"readOnlyHint": True},
                binding=Binding(
                    operation="o.p",
                    arguments=(
                        ArgumentMap(to="x", source="z", labels={"1": 1, "yes": "no"}),
                        ArgumentMap(to="y", source="a"),
                        ArgumentMap(to="c", constant=0),
                    ),
                ),
                result=ResultFormat(style="prose", template="{{ result }}\n", page_size=3),
                timeout_s=1,
            ),
            Tool(
                key="u",
                name="u",
                description="",
                input_schema={"type": "object"},
                binding=Binding(operation="o", arguments=(ArgumentMap(to="x"), ArgumentMap(to="x", source="s"))),
            ),
        ),
        hooks=(
            Hook(key="z", checkpoint=Checkpoint.REPLY, kind="builtin", source="grounding", on_failure="block"),
            Hook(
                key="p",
                checkpoint=Checkpoint.REQUEST,
                kind="python",
                source="MODE = 'check'\n\n\ndef check(v, c): ...\n",
                mode="change",
                on_failure="allow",
                params={"a": 1.0},
                feedback="{{ reason }}",
            ),
            Hook(
                key="r",
                checkpoint=Checkpoint.SKILL,
                kind="rules",
                params={"rules": [{"then": "allow"}], "other": 1},
                on_failure="allow",
            ),
        ),
        servers=(McpServer(name="s", transport="stdio", command=("x", "-y"), env={"A": "1"}),),
        rendering=Rendering(heading="xml", reasoning="think"),
        feedback=Feedback(channel="tool", template="{{ message }}!"),
        limits=Limits(deadline_s=1.5),
        degraded=Degraded(phrases={"price": "{{ x }}"}),
    )


def test_a_saved_harness_loads_as_the_same_value_and_release(tmp_path: Path) -> None:
    h = full_harness()
    save_harness(h, tmp_path / "out")
    loaded = load_harness(tmp_path / "out")
    assert loaded.harness == h
    assert component_digests(loaded.harness) == component_digests(h)
    assert (tmp_path / "out/skills/new-name/SKILL.md").is_file()  # name and folder are equal
    assert (tmp_path / "out/skills/商品/SKILL.md").is_file()
    assert [p for p in loaded.problems if p.severity == "error"] == []


def test_the_example_survives_two_round_trips_byte_for_byte(tmp_path: Path) -> None:
    h = load_harness(write_example(tmp_path)).harness
    save_harness(h, tmp_path / "a")
    save_harness(load_harness(tmp_path / "a").harness, tmp_path / "b")
    texts = [
        {p.relative_to(tmp_path / n).as_posix(): p.read_bytes() for p in (tmp_path / n).rglob("*") if p.is_file()}
        for n in "ab"
    ]
    assert texts[0] == texts[1]
    assert "arguments:\n    link_id:\n      source: number\n" in texts[0]["tools/get_item.yaml"].decode()


def test_saving_over_a_harness_needs_to_be_asked_for(tmp_path: Path) -> None:
    folder = write_example(tmp_path)
    (folder / "README.md").write_text("mine")
    h = load_harness(folder).harness
    with pytest.raises(InputError, match="holds a harness already"):
        save_harness(h, folder)
    smaller = h.replace(skills=h.skills[:1], hooks=())
    save_harness(smaller, folder, overwrite=True)
    assert load_harness(folder).harness == smaller
    assert (folder / "README.md").read_text() == "mine"
    assert not (folder / "hooks").exists()
    assert [p.name for p in folder.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize("key", ["../x", "a/b", "", ".hidden", "a\0", "c:d", "trail."])
def test_a_key_that_is_no_file_name_is_refused_before_anything_is_written(tmp_path: Path, key: str) -> None:
    h = full_harness()
    bad = h.replace(tools=(h.tools[0].model_copy(update={"key": key}),))
    with pytest.raises(InputError) as caught:
        save_harness(bad, tmp_path / "out")
    assert [p.code for p in caught.value.problems] == ["key-unsafe"]
    assert list(tmp_path.iterdir()) == []


def test_a_file_path_that_leaves_the_skill_is_refused(tmp_path: Path) -> None:
    h = full_harness()
    skill = h.skills[0].model_copy(update={"files": (SkillFile(path="../../x", content=""),)})
    with pytest.raises(InputError) as caught:
        save_harness(h.replace(skills=(skill,)), tmp_path / "out")
    assert [p.field for p in caught.value.problems] == ["files"]


def test_what_a_folder_cannot_hold_is_refused_and_the_old_folder_stays(tmp_path: Path) -> None:
    folder = write_example(tmp_path)
    h = load_harness(folder).harness
    skill = h.skills[0].model_copy(update={"description": "ends in space "})
    with pytest.raises(InputError) as caught:
        save_harness(h.replace(skills=(skill,)), folder, overwrite=True)
    assert [(p.path, p.code) for p in caught.value.problems] == [("skills/item-qa", "save-changes")]
    assert load_harness(folder).harness == h


_text = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r"), max_size=40)
_scalar = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9) | _text
_value = st.recursive(
    _scalar,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(title=_text, body=_text, label=_text, params=st.dictionaries(_text, _value, max_size=3))
def test_any_text_survives_a_folder(
    tmp_path_factory: pytest.TempPathFactory, title: str, body: str, label: str, params: dict[str, object]
) -> None:
    hook = Hook(key="h", checkpoint=Checkpoint.REPLY, kind="builtin", source="x", on_failure="allow", params=params)
    h = Harness(
        name=label,
        description=title,
        sections=(Section(key="a", title=title, template=body.replace("{", "(")),),
        skills=(Skill(key="s", name="s", description="d", body=body, metadata={"m": label}),),
        hooks=(hook,),
    )
    folder = tmp_path_factory.mktemp("h") / "out"
    save_harness(h, folder)
    back = load_harness(folder).harness
    assert back == h
    assert harness_digest(back) == harness_digest(h)


def test_problems_read_as_file_line_field_message() -> None:
    assert str(Problem(path="a", line=3, field="b", message="c")) == "a:3: b: c"
