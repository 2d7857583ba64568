"""Drafts, lint, comparison, publication, roll-back, conflicts and splits: pages and API."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import httpx
import pytest
from console_examples import FILES, HOSTILE, Desk, open_desk, write_harness

from livery.console.context import ConsoleSettings
from livery.console.drafts import Draft, assemble, check_path, files_of, listed, rebase
from livery.errors import InputError
from livery.harness.digest import harness_digest
from livery.harness.folder import load_harness

SKILL = "skills/item-qa/SKILL.md"
API = "/api/harness/channels/stable"
NEW_LINE = "Say: The tote is $29.99, shipping included."
EDITED = FILES[SKILL].replace("Say: The canvas bag is $29.99 today.", NEW_LINE)


async def put(client: httpx.AsyncClient, **files: str | None) -> dict[str, Any]:
    answer = await client.put(f"{API}/draft", json={"files": files})
    assert answer.status_code == 200, answer.text
    return answer.json()


def form(desk: Desk, **fields: str) -> dict[str, str]:
    """What the publish form sends."""
    at = {f"at.{c.name}": c.release for c in desk.store.channels()}
    revision = desk.console.drafts.get("stable")
    return {"target": "stable", "revision": str(revision.revision if revision else 0), **at, **fields}


# ------------------------------------------------------------------------------------- files and drafts


def test_a_harness_is_its_files_and_back_with_the_same_digest(tmp_path: Path):
    harness = load_harness(write_harness(tmp_path)).harness
    files = files_of(harness)
    assert set(files) == set(FILES)
    again = assemble(harness, dict(files)).harness
    assert harness_digest(again) == harness_digest(harness)


def test_an_edited_file_changes_only_its_component(tmp_path: Path):
    harness = load_harness(write_harness(tmp_path)).harness
    edited = assemble(harness, {SKILL: EDITED}).harness
    assert NEW_LINE in edited.skills[0].body
    assert edited.tools == harness.tools
    assert edited.sections == harness.sections


def test_a_deleted_file_takes_its_component_away(tmp_path: Path):
    harness = load_harness(write_harness(tmp_path)).harness
    manifest = files_of(harness)["harness.yaml"].replace("- no-links", "").replace("hooks:\n", "")
    assert assemble(harness, {"hooks/no-links.yaml": None, "harness.yaml": manifest}).harness.hooks == ()


def test_problems_name_the_file_in_the_harness_and_not_a_temporary_place(tmp_path: Path):
    harness = load_harness(write_harness(tmp_path)).harness
    with pytest.raises(InputError) as caught:
        assemble(harness, {"tools/get_item.yaml": "name: [\n", "hooks/no-links.yaml": "checkpoint: never\n"})
    assert {p.path for p in caught.value.problems} >= {"tools/get_item.yaml", "hooks/no-links.yaml"}
    assert all("livery-draft" not in str(p) for p in caught.value.problems)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../harness.yaml",
        "skills/../../x.md",
        "skills/a/../../../x",
        "prompt/a/b.md",
        "notes.txt",
        "hooks/.hidden.py",
        "skills/a\\..\\b",
        "skills//SKILL.md",
        "tools/x.json",
        "prompt/\x00.md",
    ],
)
def test_only_files_of_a_harness_can_be_edited(path: str):
    with pytest.raises(InputError):
        check_path(path)


@pytest.mark.parametrize(
    "path", ["harness.yaml", "prompt/a.md", "skills/价格/SKILL.md", "skills/a/refs/x.md", "hooks/h.py"]
)
def test_files_of_a_harness_are_taken(path: str):
    check_path(path)


def test_a_file_edited_back_to_what_is_published_leaves_the_draft():
    draft = Draft(channel="stable", base="r1")
    changed = draft.with_file("prompt/a.md", "new", {"prompt/a.md": "old"}, at=1)
    assert dict(changed.files) == {"prompt/a.md": "new"}
    back = changed.with_file("prompt/a.md", "old", {"prompt/a.md": "old"}, at=2)
    assert dict(back.files) == {}
    assert back.revision == 2


def test_carrying_over_keeps_edits_drops_what_is_equal_and_names_what_both_changed():
    old = {"a": "1", "b": "1", "c": "1", "d": "1"}
    new = {"a": "1", "b": "2", "c": "2", "d": "2"}
    draft = Draft(channel="stable", base="r1", files={"a": "mine", "b": "mine", "c": "2"})
    mine = rebase(draft, onto="r2", old=old, new=new, keep="mine", at=1)
    assert mine.both == ("b",)
    assert (mine.draft.base, dict(mine.draft.files)) == ("r2", {"a": "mine", "b": "mine"})
    theirs = rebase(draft, onto="r2", old=old, new=new, keep="theirs", at=1)
    assert dict(theirs.draft.files) == {"a": "mine"}


async def test_a_draft_survives_a_restart(tmp_path: Path):
    settings = ConsoleSettings(drafts=tmp_path / "drafts")
    async with open_desk(tmp_path, settings=settings) as desk, desk.client() as client:
        await put(client, **{SKILL: EDITED})
    async with open_desk(tmp_path, settings=settings) as desk, desk.client() as client:
        assert (await client.get(f"{API}/draft")).json()["files"] == {SKILL: EDITED}
        await client.delete(f"{API}/draft")
    async with open_desk(tmp_path, settings=settings) as desk, desk.client() as client:
        assert (await client.get(f"{API}/draft")).json()["files"] == {}


# ----------------------------------------------------------------------------- from an edit to an answer


async def test_edit_publish_and_the_next_answer_follows_then_roll_back(desk: Desk, client: httpx.AsyncClient):
    first = desk.store.channel("stable").release
    assert (await desk.asked("how much is the bag?", id="q1")).reply == "The canvas bag is $29.99 today."
    saved = await put(client, **{SKILL: EDITED})
    assert saved["ok"] is True
    diff = (await client.post(f"{API}/diff")).json()
    assert [c["component"] for c in diff["diff"]["components"]] == ["skills/item-qa"]
    assert NEW_LINE in html.unescape(diff["html"])

    done = await client.post(f"{API}/publish", json={"expected": first, "note": "shipping"})
    assert done.status_code == 200
    assert done.json()["previous"] == first
    after = await desk.asked("how much is the bag?", id="q2", name="Bo")
    assert after.reply == NEW_LINE.removeprefix("Say: ")
    assert after.harness_release == done.json()["release"]
    assert (await client.get(f"{API}/draft")).json()["files"] == {}

    back = await client.post(f"{API}/rollback", json={"current": after.harness_release})
    assert back.json()["release"] == first
    assert (await desk.asked("how much is the bag?", id="q3", name="Cy")).harness_release == first
    log = (await client.get(f"{API}/log")).json()["log"]
    assert [(e["action"], e["note"], e["actor"]) for e in log] == [
        ("publish", "first", ""),
        ("publish", "shipping", "console"),
        ("rollback", "", "console"),
    ]
    text = (await client.get("/metrics")).text
    assert 'livery_publishes_total{action="publish",channel="stable"} 1.0' in text
    assert 'livery_publishes_total{action="rollback",channel="stable"} 1.0' in text


async def test_watchers_hear_of_a_publication(desk: Desk, client: httpx.AsyncClient):
    await put(client, **{SKILL: EDITED})
    await client.post("/ui/editor/stable/publish", data=form(desk))
    assert [e.text for e in desk.room.recent(10) if e.kind == "state"] == ["published to stable"]


async def test_errors_are_shown_with_file_and_line_and_are_not_published(desk: Desk, client: httpx.AsyncClient):
    before = desk.store.routing()
    broken = FILES["tools/get_item.yaml"].replace("catalog.get_product", "catalog.get_produkt")
    saved = await put(client, **{"tools/get_item.yaml": broken, "hooks/no-links.yaml": "checkpoint: never\n"})
    assert saved["ok"] is False
    assert {p["path"] for p in saved["problems"] if p["severity"] == "error"} == {"hooks/no-links.yaml"}
    saved = await put(client, **{"hooks/no-links.yaml": FILES["hooks/no-links.yaml"]})
    errors = [p for p in saved["problems"] if p["severity"] == "error"]
    assert [(p["path"], p["line"]) for p in errors] == [("tools/get_item.yaml", 9)]
    assert "catalog.get_product" in errors[0]["message"]
    refused = await client.post(f"{API}/publish", json={"expected": before.channels["stable"].release})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["path"] == "tools/get_item.yaml"
    page = await client.post("/ui/editor/stable/publish", data=form(desk))
    assert page.status_code == 409
    assert "tools/get_item.yaml:9" in page.text
    assert desk.store.routing() == before


async def test_a_publication_by_somebody_else_is_shown_and_not_overwritten(
    desk: Desk, client: httpx.AsyncClient, tmp_path: Path
):
    await put(client, **{SKILL: EDITED})
    mine = form(desk)
    theirs = FILES["prompt/persona.md"] + "\nBe brief.\n"
    other = load_harness(write_harness(tmp_path / "other", **{"prompt/persona.md": theirs})).harness
    published = desk.store.publish("stable", other, note="brevity")

    refused = await client.post("/ui/editor/stable/publish", data=mine)
    assert refused.status_code == 409
    assert 'id="conflict" hx-swap-oob="true"' in refused.text  # the way out comes with the refusal
    assert "Carry my edits over" in refused.text
    assert desk.store.channel("stable").release == published.release
    stale = {"expected": published.previous}
    assert (await client.post(f"{API}/publish", json=stale)).status_code == 409
    blind = {"expected": published.release}
    assert (await client.post(f"{API}/publish", json=blind)).status_code == 409  # the draft is still on the old one

    page = html.unescape((await client.get(f"/editor?path={SKILL}")).text)
    assert "Somebody published meanwhile." in page
    assert "brevity" in page
    assert EDITED in page  # nothing typed is lost

    await client.post("/ui/editor/stable/rebase", data={"keep": "mine"})
    done = await client.post("/ui/editor/stable/publish", data=form(desk, note="both"))
    assert done.headers["hx-redirect"].endswith("done=published")
    both = desk.store.load(desk.store.channel("stable").release)
    assert NEW_LINE in both.skills[0].body
    assert "Be brief." in next(s for s in both.sections if s.key == "persona").template


async def test_the_editor_stays_at_the_file_in_hand(desk: Desk, client: httpx.AsyncClient):
    """After publishing, and from the first keystroke there is a way to throw the draft away."""
    page = f"/editor?room=demo&channel=stable&path={SKILL}"
    shown = (await client.get(page)).text
    assert "Discard draft" not in shown
    seen = shown.split('id="seen" value="')[1].split('"')[0]
    saved = await client.put(f"/ui/editor/stable/file?path={SKILL}", data={"text": EDITED, "seen": seen})
    assert saved.text.count("Discard draft") == 1
    assert 'id="discard" hx-swap-oob="true"' in saved.text
    assert (await client.get(page)).text.count("Discard draft") == 1
    done = await client.post(
        "/ui/editor/stable/publish", data=form(desk), headers={"hx-current-url": f"http://localhost{page}"}
    )
    back = httpx.URL(done.headers["hx-redirect"])
    assert dict(back.params) == {"room": "demo", "channel": "stable", "path": SKILL, "done": "published"}


async def test_a_draft_changed_since_it_was_reviewed_is_not_published(desk: Desk, client: httpx.AsyncClient):
    await put(client, **{SKILL: EDITED})
    reviewed = form(desk)
    await put(client, **{"prompt/persona.md": FILES["prompt/persona.md"] + "\nMore.\n"})
    before = desk.store.routing()
    answer = await client.post("/ui/editor/stable/publish", data=reviewed)
    assert answer.status_code == 409
    assert "changed in another window" in answer.text
    assert desk.store.routing() == before


async def test_two_windows_on_one_file_do_not_overwrite_each_other(desk: Desk, client: httpx.AsyncClient):
    page = (await client.get(f"/editor?path={SKILL}")).text
    seen = page.split('id="seen" value="')[1].split('"')[0]
    path = f"/ui/editor/stable/file?path={SKILL}"
    first = await client.put(path, data={"text": EDITED.replace("\n", "\r\n"), "seen": seen})
    assert first.status_code == 200
    assert desk.console.drafts.get("stable").files == {SKILL: EDITED}  # pyright: ignore[reportOptionalMemberAccess]
    second = await client.put(path, data={"text": "other", "seen": seen})
    assert second.status_code == 409
    now = first.text.split('id="seen" value="')[1].split('"')[0]
    assert (await client.put(path, data={"text": FILES[SKILL], "seen": now})).status_code == 200
    assert desk.console.drafts.get("stable").files == {}  # pyright: ignore[reportOptionalMemberAccess]


async def test_saving_answers_with_lint_and_the_comparison(client: httpx.AsyncClient):
    page = (await client.get(f"/editor?path={SKILL}")).text
    seen = page.split('id="seen" value="')[1].split('"')[0]
    text = EDITED.replace("description: Answer", f"description: {HOSTILE} Answer")
    answer = await client.put(f"/ui/editor/stable/file?path={SKILL}", data={"text": text, "seen": seen})
    assert "Draft saved" in answer.text
    assert "diff-ins" in answer.text
    assert "<img src=x" not in answer.text
    assert "<script>" not in answer.text


async def test_a_new_skill_starts_from_a_valid_file_and_is_published_with_the_rest(
    desk: Desk, client: httpx.AsyncClient
):
    answer = await client.post("/ui/editor/stable/new", data={"path": "skills/gift-wrap/SKILL.md"})
    assert answer.status_code == 204
    assert (await client.post("/ui/editor/stable/new", data={"path": SKILL})).status_code == 409
    assert (await client.post("/ui/editor/stable/new", data={"path": "../x"})).status_code == 422
    assert (await client.post("/ui/editor/stable/publish", data=form(desk))).status_code == 204
    released = desk.store.load(desk.store.channel("stable").release)
    assert [s.name for s in released.skills] == ["item-qa", "gift-wrap"]
    assert (await client.delete("/ui/editor/stable/file?path=skills/gift-wrap/SKILL.md")).status_code == 204
    assert (await client.post("/ui/editor/stable/publish", data=form(desk))).status_code == 204
    released = desk.store.load(desk.store.channel("stable").release)
    assert [s.name for s in released.skills] == ["item-qa"]


def test_a_new_component_is_listed_and_comments_stay():
    manifest = "name: shop # ours\nskills:\n  - item-qa # first\ntools: [get_item]\n"
    assert listed(manifest, "skills/gift/SKILL.md", present=True) == (
        "name: shop # ours\nskills:\n  - item-qa # first\n  - gift\ntools: [get_item]\n"
    )
    assert listed(manifest, "tools/get_item.yaml", present=False).endswith("tools: []\n")
    for path in ["skills/item-qa/refs/tone.md", "hooks/new.yaml", "hooks/new.py", "skills/item-qa/SKILL.md"]:
        assert listed(manifest, path, present=True) == manifest
    assert listed("skills: [", "skills/x/SKILL.md", present=True) == "skills: ["


async def test_a_draft_can_go_to_a_new_channel_and_traffic_be_split(desk: Desk, client: httpx.AsyncClient):
    await put(client, **{SKILL: EDITED})
    stable = desk.store.channel("stable").release
    done = await client.post(f"{API}/publish", json={"target": "canary", "expected": ""})
    assert done.status_code == 200
    assert desk.store.channel("stable").release == stable
    again = await client.post(f"{API}/publish", json={"target": "canary", "expected": ""})
    assert again.status_code == 409

    body = {"rooms": "demo", "percent": {"stable": 50, "canary": 50}, "by": "viewer"}
    assert (await client.post("/api/harness/splits", json=body)).json()["percent"] == {
        "stable": 50,
        "canary": 50,
    }
    channels = {desk.router.pick("demo", f"viewer{i}").channel for i in range(40)}
    assert channels == {"stable", "canary"}
    assert "stable 50 % · canary 50 %" in (await client.get("/")).text
    data = {"rooms": "demo", "by": "room", "percent.stable": "0", "percent.canary": "100"}
    assert (await client.post("/ui/editor/split", data=data)).status_code == 204
    assert desk.router.pick("demo", "anyone").channel == "canary"
    wrong = await client.post("/ui/editor/split", data={**data, "percent.canary": "90"})
    assert wrong.status_code == 422
    assert "90" in wrong.json()["errors"][0]["message"]


async def test_publishing_says_whether_anybody_is_given_it(desk: Desk, client: httpx.AsyncClient):
    for target, done in [("canary", "published-unused"), ("stable", "published")]:
        await put(client, **{SKILL: EDITED})
        answer = await client.post("/ui/editor/stable/publish", data=form(desk, target=target))
        assert httpx.URL(answer.headers["hx-redirect"]).params["done"] == done


async def test_rolling_back_a_channel_that_moved_meanwhile_is_refused(
    desk: Desk, client: httpx.AsyncClient, tmp_path: Path
):
    first = desk.store.channel("stable").release
    other = load_harness(write_harness(tmp_path / "other", **{SKILL: EDITED})).harness
    second = desk.store.publish("stable", other).release
    data = {"to": first, "current": first}
    assert (await client.post("/ui/editor/stable/rollback", data=data)).status_code == 409
    assert desk.store.channel("stable").release == second
    data = {"to": first, "current": second}
    assert (await client.post("/ui/editor/stable/rollback", data=data)).status_code == 204
    assert desk.store.channel("stable").release == first


async def test_a_release_can_be_read_with_files_and_digests(desk: Desk, client: httpx.AsyncClient):
    digest = desk.store.channel("stable").release
    for reference in ("stable", digest, digest.removeprefix("sha256:")[:8]):
        found = (await client.get(f"/api/harness/releases/{reference}")).json()
        assert found["release"] == digest
        assert set(found["files"]) == set(FILES)
        assert set(found["components"]) >= {"settings", "skills/item-qa", "tools/get_item"}
    assert (await client.get("/api/harness/releases/nothing")).status_code == 404


async def test_wrong_api_input_names_its_fields(client: httpx.AsyncClient):
    answer = await client.put(f"{API}/draft", json={"files": {"prompt/a.md": 3}, "colour": 1})
    assert answer.status_code == 422
    assert {e["field"] for e in answer.json()["errors"]} >= {"colour"}
    assert (await client.post(f"{API}/publish", json={})).json()["errors"][0]["field"] == "expected"
    unknown = await client.put("/api/harness/channels/none/draft", json={"files": {}})
    assert unknown.status_code == 404
