"""``livery harness``: what it prints, and what it returns to the shell."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from livery.cli.harness import app
from livery.errors import InputError, StoreError
from livery.harness.digest import harness_digest
from livery.harness.folder import load_harness

FILES = {
    "harness.yaml": "name: shop\nprompt: [host, chat]\n",
    "prompt/host.md": "---\ntitle: Host\n---\n\n{{ skills_catalogue }}\n{{ tools }}\n{{ call_format }}\n",
    "prompt/chat.md": "---\nvolatility: request\n---\n\n{{ chat }}\n",
    "skills/item-qa/SKILL.md": "---\nname: item-qa\ndescription: Answer.\nmetadata:\n  livery-kind: reply\n---\n\nBody.\n",
    "hooks/loud.yaml": "checkpoint: reply\non_failure: allow\nrules:\n  - when: {contains: '!!'}\n    then: retry\n"
    "    message: Softer.\n",
}


def write(folder: Path, **changes: str) -> Path:
    for name, text in {**FILES, **changes}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write(tmp_path / "shop")


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return write(tmp_path / "other", **{"harness.yaml": "name: shop\nlanguage: zh\nprompt: [host, chat]\n"})


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "releases.db")


def run(*arguments: str | Path, status: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == status, result.output
    return result


def data(*arguments: str | Path, status: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", status=status).stdout)


def refused(kind: type[Exception], *arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert isinstance(result.exception, kind)
    return str(result.exception)


def test_lint_says_file_line_code_and_message_and_fails_on_errors(shop: Path) -> None:
    write(shop, **{"prompt/host.md": FILES["prompt/host.md"] + "{{ chta }}\n"})
    result = run("lint", shop, status=1)
    assert (
        f"{shop}/prompt/host.md:8: error prompt-variable-unknown template: found the variable 'chta'" in result.stdout
    )
    assert result.stderr.startswith("1 errors, ")


def test_lint_of_a_folder_that_does_not_load_lists_every_fault(shop: Path) -> None:
    write(shop, **{"harness.yaml": "name: 3\nlimits: {rounds: many}\n", "tools/a.yaml": "binding: x.y\n"})
    found = data("lint", shop, status=1)
    assert found["errors"] == 3
    assert [(Path(p["path"]).name, p["line"], p["field"], p["code"]) for p in found["problems"]] == [
        ("harness.yaml", 1, "name", "field-invalid"),
        ("harness.yaml", 2, "limits.rounds", "field-invalid"),
        ("a.yaml", 1, "description", "field-missing"),
    ]


def test_lint_passes_what_has_only_warnings(shop: Path) -> None:
    write(
        shop,
        **{"skills/item-qa/SKILL.md": FILES["skills/item-qa/SKILL.md"].replace("metadata", "model: m\nmetadata")},
    )
    found = data("lint", shop)
    assert found["errors"] == 0
    assert "skill-extra-field" in [p["code"] for p in found["problems"]]


def test_show_lists_components_and_prints_one(shop: Path) -> None:
    release = harness_digest(load_harness(shop).harness)
    assert data("show", shop)["release"] == release
    listed = run("show", shop).stdout
    assert listed.splitlines()[0] == f"shop (en)  {release}"
    assert [line.split()[0] for line in listed.splitlines()[2:]] == [
        "settings", "prompt/host", "prompt/chat", "skills/item-qa", "hooks/loud",
    ]  # fmt: skip
    assert run("show", shop, "skills/item-qa").stdout == FILES["skills/item-qa/SKILL.md"]
    assert run("show", shop, "prompt/host").stdout == FILES["prompt/host.md"]
    assert "did you mean 'skills/item-qa'?" in refused(InputError, "show", shop, "skills/item")


def test_diff_compares_folders_and_releases(shop: Path, other: Path, store: str) -> None:
    assert run("diff", shop, other).stdout.splitlines() == [
        "~ settings: changed", "    language", "      @@ -0,0 +1 @@", "      +zh",
    ]  # fmt: skip
    run("publish", shop, "--releases", store)
    (change,) = data("diff", "stable", other, "--releases", store)["components"]
    assert (change["component"], change["kind"]) == ("settings", "changed")
    assert '<span class="diff-ins">+zh</span>' in run("diff", shop, other, "--html").stdout
    assert run("diff", shop, shop).stdout == "no difference\n"


def test_publish_and_roll_back_move_a_channel(shop: Path, other: Path, store: str) -> None:
    first, second = (harness_digest(load_harness(f).harness) for f in (shop, other))
    at = ("--releases", store)
    assert data("publish", shop, *at) == {"channel": "stable", "release": first, "previous": "", "version": 1}
    moved = run("publish", other, *at, "--note", "zh day", "--actor", "ann").stdout
    assert moved == f"stable: {first[7:19]} -> {second[7:19]} (version 2)\n"
    assert data("show", "stable", *at)["release"] == second
    assert data("rollback", "stable", *at, "--actor", "bo")["release"] == first
    assert data("rollback", "stable", "--to", second[7:15], *at)["release"] == second
    log = data("channels", "--log", "stable", *at)["log"]
    assert [(e["version"], e["action"], e["release"]) for e in log] == [
        (1, "publish", first), (2, "publish", second), (3, "rollback", first), (4, "rollback", second),
    ]  # fmt: skip
    assert (log[1]["note"], log[1]["actor"], log[2]["actor"]) == ("zh day", "ann", "bo")
    assert "zh day" in run("channels", "--log", "stable", *at).stdout


def test_publishing_says_how_much_of_the_prompt_is_read_anew(shop: Path, tmp_path: Path, store: str) -> None:
    first = run("publish", shop, "--releases", store).stderr
    found = re.search(r"about ([\d,]+) tokens, the first 0 as before", first)
    assert found
    assert int(found[1]) > 10
    again = run("publish", shop, "--releases", store).stderr
    assert f"about {found[1]} tokens, the first {found[1]} as before" in again


def test_what_has_lint_errors_is_not_published_unless_forced(shop: Path, store: str) -> None:
    write(shop, **{"harness.yaml": FILES["harness.yaml"] + "limits: {rounds: 1, retries: 0}\n"})
    result = run("publish", shop, "--releases", store, status=1)
    assert "limits-rounds" in result.stderr
    assert not Path(store).exists()
    run("publish", shop, "--releases", store, "--force")
    assert Path(store).exists()


def test_a_hook_that_does_not_import_is_not_published_unless_forced(shop: Path, store: str) -> None:
    source = 'CHECKPOINT = "reply"\nON_FAILURE = "block"\nimport no_such_module_here\n\n\ndef check(value, context):\n    return None\n'
    write(shop, **{"hooks/mine.py": source})
    assert data("lint", shop)["errors"] == 0
    refused = run("publish", shop, "--releases", store, status=1).stderr
    assert "hooks/mine.py:3: error hook-import" in refused
    assert "no_such_module_here" in refused
    assert not Path(store).exists()
    run("publish", shop, "--releases", store, "--force")
    assert Path(store).exists()


def test_a_split_is_set_listed_and_removed(shop: Path, other: Path, store: str) -> None:
    at = ("--releases", store)
    run("publish", shop, *at)
    run("publish", other, "--channel", "canary", *at)
    set_to = {"rooms": "*", "by": "room", "percent": {"stable": 90.0, "canary": 10.0}}
    assert data("split", "*", "stable=90", "canary=10%", "--by", "room", *at) == set_to
    assert data("channels", *at)["splits"] == [set_to]
    assert "* by room: stable 90%, canary 10%" in run("channels", *at).stdout
    run("split", "*", "--remove", *at)
    assert data("channels", *at)["splits"] == []
    assert [c["channel"] for c in data("channels", *at)["channels"]] == ["canary", "stable"]


def test_wrong_shares_are_told_plainly(shop: Path, store: str) -> None:
    run("publish", shop, "--releases", store)
    assert "expected CHANNEL=PERCENT" in refused(InputError, "split", "*", "stable", "--releases", store)
    assert "expected 100" in refused(InputError, "split", "*", "stable=50", "--releases", store)
    assert "expected viewer" in refused(InputError, "split", "*", "stable=100", "--by", "x", "--releases", store)


def test_looking_into_a_store_that_is_not_there_does_not_make_one(tmp_path: Path, shop: Path, store: str) -> None:
    for command in (["channels"], ["rollback", "stable"], ["split", "*", "stable=100"]):
        assert "no release store" in refused(StoreError, *command, "--releases", store)
    assert "no such folder" in refused(InputError, "show", tmp_path / "none", "--releases", store)
    assert not Path(store).exists()
