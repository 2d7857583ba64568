"""A variant in the draft: other surfaces, the same task; published as any edit, and back again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from console_examples import Desk

from livery.console.drafts import assemble, files_of
from livery.console.vary import WAYS
from livery.harness.digest import harness_digest
from livery.harness.folder import load_harness

ROOT = Path(__file__).parents[2]
API = "/api/harness/channels/stable"


@pytest.mark.parametrize("way", list(WAYS))
async def test_every_way_gives_a_draft_that_lints(desk: Desk, client: httpx.AsyncClient, way: str):
    before = desk.store.load(desk.store.channel("stable").release)
    answers: list[dict[str, Any]] = []
    for seed in range(3):  # not every seed finds something to change in so small a harness
        answers.append((await client.post(f"{API}/vary", json={"way": way, "seed": seed})).json())
        await client.delete(f"{API}/draft")
    assert [p for a in answers for p in a["problems"] if p["severity"] == "error"] == []
    changed = [a for a in answers if a["files"]]
    assert changed, answers
    assert changed[-1]["operators"]
    assert desk.store.load(desk.store.channel("stable").release) == before


async def test_renamed_tools_and_skills_are_what_the_next_request_gets(desk: Desk, client: httpx.AsyncClient):
    first = desk.store.channel("stable").release
    before = desk.store.load(first)
    made = (await client.post(f"{API}/vary", json={"way": "opaque", "seed": 4})).json()
    assert {n["what"] for n in made["renamed"]} >= {"skill", "tool"}
    done = await client.post(f"{API}/publish", json={"expected": first, "note": "drill"})
    assert done.status_code == 200, done.text
    after = desk.store.load(desk.store.channel("stable").release)
    assert {s.key for s in after.skills} == {s.key for s in before.skills}
    assert not {s.name for s in after.skills} & {s.name for s in before.skills}
    assert not {t.name for t in after.tools} & {t.name for t in before.tools}
    assert [t.binding.operation for t in after.tools] == [t.binding.operation for t in before.tools]
    await client.post(f"{API}/rollback", json={})
    assert desk.store.channel("stable").release == first


@pytest.mark.parametrize("sample", ["streamer-en", "streamer-zh", "streamer-en-compact"])
def test_every_way_of_the_sample_harnesses_is_a_harness_again(sample: str):
    """As the draft has it: files that change, and files that go, subfolders of skills among them."""
    base = load_harness(ROOT / "harnesses" / sample).harness
    before = files_of(base)
    for way in WAYS.values():
        made = way.make(base, 0).harness
        after = files_of(made)
        gone = dict.fromkeys(p for p in before if p not in after)
        changed = {p: t for p, t in after.items() if t != before.get(p)}
        loaded = assemble(base, {**gone, **changed})
        assert harness_digest(loaded.harness) == harness_digest(made), way.label


async def test_it_varies_what_the_draft_says_and_not_what_is_published(desk: Desk, client: httpx.AsyncClient):
    await client.put(f"{API}/draft", json={"files": {"prompt/persona.md": "Be kind.\n\n{{ tools }}\n"}})
    made = (await client.post(f"{API}/vary", json={"way": "opaque"})).json()
    assert "Be kind." in made["files"]["prompt/persona.md"]
    assert any(path.startswith("tools/") for path in made["files"])


async def test_an_unknown_way_and_a_broken_draft_are_refused_and_the_draft_stays(desk: Desk, client: httpx.AsyncClient):
    answer = await client.post(f"{API}/vary", json={"way": "upside-down"})
    assert answer.status_code == 422
    assert "names, opaque" in answer.text
    await client.put(f"{API}/draft", json={"files": {"tools/get_item.yaml": "name: [\n"}})
    answer = await client.post(f"{API}/vary", json={"way": "names"})
    assert answer.status_code == 422
    assert "tools/get_item.yaml" in answer.text
    assert (await client.get(f"{API}/draft")).json()["files"] == {"tools/get_item.yaml": "name: [\n"}


async def test_the_page_has_the_form_and_says_what_was_done(desk: Desk, client: httpx.AsyncClient):
    page = await client.get("/editor")
    assert "Other names for every skill and tool" in page.text
    moved = await client.post("/ui/editor/stable/vary", data={"way": "opaque", "seed": "1"})
    assert moved.status_code == 204
    shown = await client.get(moved.headers["hx-redirect"])
    assert "A variant stands in the draft" in shown.text
