"""Agent Skills folders: what loads, what is said about it, what never leaves the folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from harness_examples import FILES
from skills_ref import validate

from livery.errors import InputError
from livery.harness.model import Skill, SkillFile
from livery.harness.skills import (
    FILE_BYTES,
    check_skill,
    load_skill_folder,
    match_skills,
    read_skill_file,
    skill_folder_name,
    skill_text,
)


def folder(root: Path, text: str | bytes, name: str = "item-qa", file: str = "SKILL.md") -> Path:
    path = root / name
    path.mkdir(parents=True)
    (path / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def load(root: Path, text: str | bytes, name: str = "item-qa") -> tuple[Skill | None, list[tuple[str, int]]]:
    skill, problems = load_skill_folder(folder(root, text, name))
    return skill, [(p.code, p.line) for p in problems]


def front(*lines: str, body: str = "Body.") -> str:
    return "\n".join(["---", *lines, "---", "", body, ""])


# ------------------------------------------------------------------------------------------ lenience

GOOD = ("name: item-qa", "description: Answers questions.")


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        (GOOD, []),
        (("description: Answers questions.",), [("skill-name-missing", 2)]),
        (("name: other", GOOD[1]), [("skill-name-mismatch", 2)]),
        (("name: Item QA", GOOD[1]), [("skill-name-invalid", 2), ("skill-name-mismatch", 2)]),
        (("name: item--qa", GOOD[1]), [("skill-name-invalid", 2), ("skill-name-mismatch", 2)]),
        (("name: -item-qa", GOOD[1]), [("skill-name-invalid", 2), ("skill-name-mismatch", 2)]),
        ((f"name: {'a' * 65}", GOOD[1]), [("skill-name-long", 2), ("skill-name-mismatch", 2)]),
        (("name: item-qa", f"description: {'x' * 1025}"), [("skill-description-long", 3)]),
        ((*GOOD, f"compatibility: {'x' * 501}"), [("skill-compatibility-long", 4)]),
        ((*GOOD, "description: Second."), [("skill-duplicate-key", 4)]),
        ((*GOOD, "colour: red"), [("skill-unknown-field", 4)]),
        ((*GOOD, "when_to_use: now", "disable-model-invocation: true", "user-invocable: false"), []),
        ((*GOOD, "argument-hint: '[n]'", "model: small", "version: 1.0", "author: me", "tags: [a]"), []),
        ((*GOOD, "allowed-tools: [a, b]"), [("skill-field-type", 4)]),
        (("name: item-qa", "description: 12"), [("skill-field-type", 3)]),
        ((*GOOD, "metadata:", "  livery-kind: answer"), [("skill-kind", 5)]),
        ((*GOOD, "metadata:", "  a: {b: 1}"), [("skill-metadata-nested", 5)]),
        ((*GOOD, "metadata: text"), [("skill-field-type", 4)]),
    ],
)
def test_a_liberty_taken_is_a_warning_with_its_line(
    tmp_path: Path, lines: tuple[str, ...], codes: list[tuple[str, int]]
) -> None:
    skill, problems = load_skill_folder(folder(tmp_path, front(*lines)))
    assert skill is not None
    assert [(p.code, p.line) for p in problems] == codes
    assert {p.severity for p in problems} <= {"warning"}


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        (front("name: item-qa"), "skill-skipped-no-description", 2),
        (front("name: item-qa", "description: '  '"), "skill-skipped-no-description", 2),
        (front("name: item-qa", "description: [a]"), "skill-skipped-no-description", 2),
        ("# Only text\n", "skill-skipped-no-front-matter", 1),
        ("---\nname: item-qa\ndescription: x\n", "skill-skipped-no-front-matter", 2),
        (front("name: item-qa", "description: x", "metadata:", "  a: 1", " b: 2"), "skill-skipped-yaml", 6),
        (front("- a", "- b"), "skill-skipped-yaml", 2),
        (front(), "skill-skipped-yaml", 2),
    ],
)
def test_only_an_unreadable_or_nameless_purpose_is_skipped(tmp_path: Path, text: str, code: str, line: int) -> None:
    skill, problems = load_skill_folder(folder(tmp_path, text))
    assert skill is None
    assert [(p.code, p.line, p.severity) for p in problems] == [(code, line, "error")]


def test_a_folder_without_a_manifest_is_skipped(tmp_path: Path) -> None:
    skill, problems = load_skill_folder(tmp_path)
    assert (skill, [p.code for p in problems]) == (None, ["skill-skipped-no-file"])


def test_bytes_that_are_not_utf8_are_told_and_not_guessed(tmp_path: Path) -> None:
    skill, problems = load_skill_folder(folder(tmp_path, "---\nname: a\ndescription: 商品".encode("gbk")))
    assert (skill, [(p.code, p.line) for p in problems]) == (None, [("file-encoding", 3)])


@pytest.mark.parametrize(
    ("lines", "description"),
    [
        (("description: Use when: the viewer asks",), "Use when: the viewer asks"),
        (("description: Prices, e.g.: $5's worth",), "Prices, e.g.: $5's worth"),
        (("description: Use when:",), "Use when:"),
        (("description: 当观众问价格时使用: 例如 “多少钱”",), "当观众问价格时使用: 例如 “多少钱”"),
        (("description: @host asks",), "@host asks"),
        (("description: [Beta] answers: all",), "[Beta] answers: all"),
        (("description: 'it's here'",), "it's here"),
        (("description: Use when: a viewer", "  asks for: more"), "Use when: a viewer asks for: more"),
        (("description: a: b", "metadata:", "  note: c: d"), "a: b"),
    ],
)
def test_an_unquoted_colon_is_read_as_it_was_meant(tmp_path: Path, lines: tuple[str, ...], description: str) -> None:
    skill, problems = load_skill_folder(folder(tmp_path, front("name: item-qa", *lines, "license: MIT")))
    assert skill is not None
    assert (skill.description, skill.license, skill.body) == (description, "MIT", "Body.")
    assert [(p.code, p.severity) for p in problems] == [("skill-unquoted", "warning")]
    assert problems[0].line in (3, 4)


def test_the_last_of_two_equal_keys_counts(tmp_path: Path) -> None:
    skill, problems = load_skill_folder(folder(tmp_path, front(*GOOD, "description: Second.")))
    assert skill is not None
    assert skill.description == "Second."
    assert "the last one counts" in problems[0].message


def test_a_byte_order_mark_and_windows_newlines_are_accepted(tmp_path: Path) -> None:
    text = "\ufeff" + front(*GOOD, body="One.\n\nTwo.").replace("\n", "\r\n")
    skill, problems = load_skill_folder(folder(tmp_path, text))
    assert skill is not None
    assert (problems, skill.description, skill.body) == ([], "Answers questions.", "One.\n\nTwo.")


def test_metadata_is_text_as_written_and_ours_become_fields(tmp_path: Path) -> None:
    lines = (*GOOD, "metadata:", "  version: 1.10", "  flag: yes", "  day: 2026-01-02", "  nothing:")
    mine = ("  livery-kind: reply", "  livery-key: old-name", '  livery-facts: "true"')
    skill, problems = load_skill_folder(folder(tmp_path, front(*lines, *mine)))
    assert skill is not None
    assert skill.metadata == {"version": "1.10", "flag": "yes", "day": "2026-01-02", "nothing": ""}
    assert (skill.key, skill.kind, skill.facts, problems) == ("old-name", "reply", True, [])


def test_with_a_key_of_its_own_the_name_is_a_surface_and_is_only_warned_about(tmp_path: Path) -> None:
    keyed = ("description: Answers questions.", "metadata:", "  livery-key: item-qa")
    for name, codes in (("Artikel.7", ["skill-name-surface"]), ("skill_a34b", ["skill-name-surface"]), ("other", [])):
        skill, problems = load_skill_folder(folder(tmp_path / name, front(f"name: {name}", *keyed)))
        assert skill is not None
        assert (skill.key, skill.name, [p.code for p in problems]) == ("item-qa", name, codes)
        assert all(p.severity == "warning" for p in problems)
        again, _ = load_skill_folder(
            folder(tmp_path / f"{name}-again", skill_text(skill, skill_folder_name(skill)), skill_folder_name(skill))
        )
        assert again == skill


@pytest.mark.parametrize("value", ["0\n", "a\n", "a\n\n", "\n", "a"])
def test_metadata_that_ends_in_newlines_stands_last_and_stays(tmp_path: Path, value: str) -> None:
    skill = Skill(key="s", name="s", description="d", body="b", metadata={"m": value})
    again, _ = load_skill_folder(folder(tmp_path, skill_text(skill, "s"), name="s"))
    assert again == skill


def test_fields_outside_the_specification_are_kept(tmp_path: Path) -> None:
    skill, _ = load_skill_folder(folder(tmp_path, front(*GOOD, "colour: red", "tags: [a, 1]", "model: m")))
    assert skill is not None
    assert skill.extra == {"colour": "red", "tags": ["a", 1], "model": "m"}


def test_a_lower_case_manifest_loads(tmp_path: Path) -> None:
    skill, problems = load_skill_folder(folder(tmp_path, front(*GOOD), file="skill.md"))
    assert skill is not None
    assert (skill.files, problems) == ((), [])


# --------------------------------------------------------------------------------------------- files


def test_files_beside_are_loaded_as_text_or_base64(tmp_path: Path) -> None:
    path = folder(tmp_path, front(*GOOD))
    for name, data in {
        "references/a.md": b"one\r\ntwo\n",
        "assets/logo.png": b"\x89PNG\0\xff",
        "scripts/run.sh": b"echo\n",
        ".git/config": b"x",
        "scripts/__pycache__/x.pyc": b"x",
    }.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    skill, problems = load_skill_folder(path)
    assert skill is not None
    assert problems == []
    assert skill.files == (
        SkillFile(path="assets/logo.png", content="iVBORwD/", encoding="base64"),
        SkillFile(path="references/a.md", content="one\ntwo\n"),
        SkillFile(path="scripts/run.sh", content="echo\n"),
    )


def test_a_file_over_the_limit_is_left_out_with_a_warning(tmp_path: Path) -> None:
    path = folder(tmp_path, front(*GOOD))
    (path / "big.txt").write_bytes(b"x" * (FILE_BYTES + 1))
    (path / "just.txt").write_bytes(b"x" * FILE_BYTES)
    skill, problems = load_skill_folder(path)
    assert skill is not None
    assert [f.path for f in skill.files] == ["just.txt"]
    assert [(Path(p.path).name, p.code, p.severity) for p in problems] == [("big.txt", "skill-file-large", "warning")]


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key.txt").write_text("s3cret")
    path = folder(tmp_path / "skills", front(*GOOD))
    (path / "inside.txt").write_text("fine")
    os.symlink(secret / "key.txt", path / "file-link.txt")
    os.symlink(secret, path / "folder-link")
    os.symlink(path / "inside.txt", path / "inner-link.txt")
    os.symlink(path / "missing", path / "broken")
    os.symlink(path, path / "loop")
    skill, problems = load_skill_folder(path)
    assert skill is not None
    assert [(f.path, f.content) for f in skill.files] == [("inner-link.txt", "fine"), ("inside.txt", "fine")]
    assert [(Path(p.path).name, p.code) for p in problems] == [
        ("broken", "skill-file-unreadable"),
        ("file-link.txt", "skill-file-outside"),
        ("folder-link", "skill-file-outside"),
        ("loop", "skill-file-unreadable"),
    ]


def test_a_skill_folder_may_itself_be_a_link(tmp_path: Path) -> None:
    real = folder(tmp_path / "elsewhere", front(*GOOD), name="v2")
    (real / "a.md").write_text("a")
    (tmp_path / "skills").mkdir()
    os.symlink(real, tmp_path / "skills/item-qa")
    skill, problems = load_skill_folder(tmp_path / "skills/item-qa")
    assert skill is not None
    assert (skill.key, [f.path for f in skill.files], problems) == ("item-qa", ["a.md"], [])


WITH_FILES = Skill(
    key="k",
    name="item-qa",
    description="d",
    body="b",
    files=(SkillFile(path="references/faq.md", content="F"), SkillFile(path="语气.md", content="Y")),
)


@pytest.mark.parametrize(
    "path",
    [
        "references/faq.md",
        "./references/faq.md",
        "references//faq.md",
        "references%2Ffaq.md",
        " references/faq.md",
    ],
)
def test_a_file_is_read_by_its_path_in_the_folder(path: str) -> None:
    assert read_skill_file(WITH_FILES, path).content == "F"


@pytest.mark.parametrize(
    "path",
    [
        "../secret", "references/../../x", "/etc/passwd", "..", "\\..\\x", "references\\faq.md",
        "C:\\x", "C:x", "%2e%2e/secret", "%252e%252e%252fsecret", "..%5cx", "file:///etc/passwd", "~/x",
        "a\0b", "．．/x", "/", "//host/x", "references/..", "%00",
    ],
)  # fmt: skip
def test_a_path_out_of_the_folder_is_refused_in_every_spelling(path: str) -> None:
    with pytest.raises(InputError) as caught:
        read_skill_file(WITH_FILES, path)
    assert [p.code for p in caught.value.problems] == ["skill-file-outside"]


@pytest.mark.parametrize("path", ["references/faqs.md", "", ".", "references", "SKILL.md"])
def test_a_file_that_is_not_there_is_answered_with_what_there_is(path: str) -> None:
    with pytest.raises(InputError) as caught:
        read_skill_file(WITH_FILES, path)
    (problem,) = caught.value.problems
    assert problem.code == "skill-file-missing"
    assert problem.message.endswith("it has: references/faq.md, 语气.md")


# ------------------------------------------------------------------------- agreement with skills-ref


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("item-qa", front(*GOOD)),
        ("a", front("name: a", "description: d")),
        ("3-in-1", front("name: 3-in-1", "description: d")),
        ("商品问答", front("name: 商品问答", "description: 回答商品问题。")),
        ("item-qa", front(*GOOD, "license: MIT", "compatibility: any", "allowed-tools: a b")),
        ("item-qa", front(*GOOD, "metadata:", "  author: me", '  version: "1.0"')),
        ("item-qa", front("name: item-qa", f"description: {'x' * 1024}")),
        ("item-qa", front("name: item-qa", f"description: {'x' * 1025}")),
        ("a" * 64, front(f"name: {'a' * 64}", "description: d")),
        ("a" * 65, front(f"name: {'a' * 65}", "description: d")),
        ("Item-QA", front("name: Item-QA", "description: d")),
        ("item_qa", front("name: item_qa", "description: d")),
        ("item qa", front("name: item qa", "description: d")),
        ("-item", front("name: -item", "description: d")),
        ("item-", front("name: item-", "description: d")),
        ("item--qa", front("name: item--qa", "description: d")),
        ("item-qa", front("name: other", "description: d")),
        ("item-qa", front("description: d")),
        ("item-qa", front("name: item-qa")),
        ("item-qa", front("name: item-qa", 'description: ""')),
        ("item-qa", front(*GOOD, f"compatibility: {'x' * 500}")),
        ("item-qa", front(*GOOD, f"compatibility: {'x' * 501}")),
        ("item-qa", front(*GOOD, "colour: red")),
        ("item-qa", front(*GOOD, "when_to_use: now")),
        ("item-qa", front(*GOOD, "description: twice")),
        ("item-qa", front("name: item-qa", "description: Use when: asked")),
        ("item-qa", "no front matter"),
        ("item-qa", "---\nname: item-qa\ndescription: d\n"),
        ("item-qa", front("- a")),
    ],
)
def test_strict_checks_agree_with_the_reference_library(tmp_path: Path, name: str, text: str) -> None:
    path = folder(tmp_path, text, name)
    skill, problems = load_skill_folder(path)
    ours = [*problems, *(check_skill(skill) if skill else ())]
    assert bool(ours) == bool(validate(path)), (ours, validate(path))


def test_a_saved_skill_is_valid_by_the_reference_library(tmp_path: Path) -> None:
    skill = Skill(
        key="old",
        name="item-qa",
        description='Use when: "asked" # now\nand later',
        body="b",
        kind="reply",
        license="MIT",
        metadata={"version": "1.0", "yes": "no"},
    )
    path = folder(tmp_path, skill_text(skill, "item-qa"), skill_folder_name(skill))
    assert validate(path) == []
    back, problems = load_skill_folder(path)
    assert (back, problems) == (skill, [])


def test_the_examples_are_valid_by_the_reference_library(tmp_path: Path) -> None:
    checked = 0
    for name, text in FILES.items():
        if name.endswith("SKILL.md"):
            assert validate(folder(tmp_path, text, Path(name).parent.name)) == []
            checked += 1
    assert checked == 2


def test_sample_harnesses_hold_valid_skills() -> None:
    root = Path(__file__).parents[2] / "harnesses"
    folders = sorted(p.parent for p in root.glob("*/skills/*/SKILL.md"))
    if not folders:
        pytest.skip("no sample harnesses in this checkout")
    for path in folders:
        skill, problems = load_skill_folder(path)
        assert validate(path) == [], path
        assert skill is not None
        assert [*problems, *check_skill(skill)] == []


def test_an_empty_body_is_worth_a_warning() -> None:
    problems = check_skill(Skill(key="a", name="a", description="d", body=" \n"), path="p")
    assert [(p.code, p.severity, p.path) for p in problems] == [("skill-body-empty", "warning", "p")]


# -------------------------------------------------------------------------------------------- look-up


def skill(name: str, description: str) -> Skill:
    return Skill(key=f"k-{name}", name=name, description=description, body="b")


ENGLISH = (
    skill("item-qa", "Answer a question about one item: price, material, colour, how it is used."),
    skill("promotion", "Explain discounts, coupons and flash sales, and what an item costs with them."),
    skill("compare", "Compare two items or recommend one that suits the viewer's need."),
    skill("shipping", "Delivery time, postage, returns, refunds and warranty after the sale."),
    skill("small-talk", "Greet viewers, thank them for gifts, keep the room lively."),
    skill("complaint", "Calm an unhappy viewer and hand over to a person."),
)
CHINESE = (
    skill("item-qa", "回答单个商品的问题：价格、材质、颜色、怎么用。"),
    skill("promotion", "说明折扣、优惠券和限时抢购，以及用券后的到手价。"),
    skill("compare", "比较两款商品，或按观众的需要推荐一款。"),
    skill("shipping", "发货时间、运费、退货、退款和售后保修。"),
    skill("small-talk", "和观众打招呼、感谢礼物、活跃气氛。"),
    skill("complaint", "安抚不满的观众，并转给人工处理。"),
)
QUERIES = [
    ("what material is it", "这个是什么材质的", "item-qa"),
    ("any coupons today", "今天有优惠券吗", "promotion"),
    ("is there a discount", "能打折扣吗", "promotion"),
    ("which do you recommend", "推荐哪一款", "compare"),
    ("compare 3 and 5", "3号和5号比较一下", "compare"),
    ("how long is delivery", "几天发货", "shipping"),
    ("can I get a refund", "可以退款吗", "shipping"),
    ("thank you for the gifts", "谢谢大家的礼物", "small-talk"),
    ("I want a real person", "我要找人工", "complaint"),
    ("very unhappy with this", "我很不满", "complaint"),
]


@pytest.mark.parametrize(("english", "chinese", "name"), QUERIES)
def test_chinese_descriptions_match_as_well_as_english_ones(english: str, chinese: str, name: str) -> None:
    assert match_skills(english, ENGLISH)[0].skill.name == name
    assert match_skills(chinese, CHINESE)[0].skill.name == name


@pytest.mark.parametrize("query", ["item_qa", "ItemQA", "item qa", "item-qq", "ITEM-QA", "itemqa"])
def test_a_name_slightly_misspelled_is_found(query: str) -> None:
    assert match_skills(query, ENGLISH)[0].skill.name == "item-qa"


def test_unrelated_words_match_nothing_and_scores_are_ordered() -> None:
    assert match_skills("quantum chromodynamics", ENGLISH) == []
    assert match_skills("", ENGLISH) == []
    assert match_skills("shipping", ()) == []
    scores = [m.score for m in match_skills("price with coupons", ENGLISH)]
    assert scores == sorted(scores, reverse=True)
    assert match_skills("shipping", ENGLISH)[0].score == 1.0
