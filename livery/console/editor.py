"""The harness editor: files of a channel's release, edited as text, linted, compared, published, rolled back.

What happens to drafts and releases is in `workbench`; this is its pages. Note that a Python hook runs in
the agent's process once published: whoever holds the operator's token can run code here, as whoever edits
the folder can.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import parse_qs, urlencode, urlsplit

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, Response

from livery.console import publishing, workbench
from livery.console.api import OPERATOR
from livery.console.context import Console, Shared
from livery.console.live import page_values
from livery.console.vary import WAYS, vary
from livery.console.workbench import Conflict, View
from livery.errors import InputError, StoreError
from livery.harness.store import DEFAULT_CHANNEL

router = APIRouter(dependencies=OPERATOR)

GROUPS = {"": "Settings", "prompt": "Prompt sections", "skills": "Skills", "tools": "Tools", "hooks": "Hooks"}

NEW_FILES = {
    "prompt": "New section.\n",
    "skills": (
        "---\nname: {name}\ndescription: What it does and when to use it.\n"
        "metadata:\n  livery-kind: reply\n---\n\nWhat to do, step by step.\n"
    ),
    "tools": (
        "name: {name}\ndescription: What it answers.\ninputSchema:\n  type: object\n"
        "  properties: {{}}\nbinding:\n  operation: catalog.search\n"
    ),
    "hooks": "checkpoint: reply\non_failure: block\nrules: []\n",
}


@dataclass(frozen=True, slots=True)
class Entry:
    path: str
    label: str
    changed: str
    """"", "changed", "new" or "deleted"."""


def tree(view: View) -> list[tuple[str, list[Entry]]]:
    """Files by kind of component, deleted ones included."""
    found: dict[str, list[Entry]] = {folder: [] for folder in GROUPS}
    for path in sorted({**view.base, **view.draft.files}):
        top = path.partition("/")[0] if "/" in path else ""
        label = path.removeprefix(f"{top}/").removesuffix("/SKILL.md") if top else path
        if top == "skills" and "/" in label:
            label = f"↳ {label.partition('/')[2]}"
        changed = ""
        if path in view.draft.files:
            gone = view.draft.files[path] is None
            changed = "deleted" if gone else "changed" if path in view.base else "new"
        found.setdefault(top, []).append(Entry(path, label, changed))
    return [(GROUPS[folder], entries) for folder, entries in found.items() if entries]


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _values(console: Console, view: View, path: str, room: str) -> dict[str, Any]:
    """What the page and its parts show. Blocks."""
    review = workbench.review(console, view)
    log = console.context.store.log(view.channel.name)
    text = view.files.get(path)
    return {
        "view": view,
        "path": path,
        "room_id": room,
        "text": text,
        "seen": workbench.fingerprint(text),
        "tree": tree(view),
        "problems": review.problems,
        "diff": review.diff_html,
        "log": log[::-1][:40],
        "newest": log[-1] if log else None,
        "day": _day,
    }


def _room(console: Console, room: str) -> str:
    return room if room in console.context.rooms else next(iter(console.context.rooms))


def _first_path(view: View) -> str:
    files = view.files
    return next((p for p in files if p.endswith("/SKILL.md")), next(iter(files), ""))


@router.get("/editor")
async def editor_page(
    console: Shared, request: Request, channel: str = "", path: str = "", room: str = "", done: str = ""
) -> HTMLResponse:
    store = console.context.store
    room = _room(console, room)

    def gather() -> dict[str, Any]:
        channels = store.channels()
        if not channels:
            raise StoreError("nothing is published yet: publish a harness folder with `livery harness publish`")
        names = [c.name for c in channels]
        wanted = channel or (DEFAULT_CHANNEL if DEFAULT_CHANNEL in names else names[0])
        view = workbench.view(console, wanted)
        splits = console.context.router.routing.splits
        mine = next((s for s in splits if s.covers(room)), None)
        shares = mine.percent if mine else {console.context.router.default: 100.0}
        shown = path or _first_path(view)
        return {
            **_values(console, view, shown, room),
            "channels": channels,
            "ways": WAYS,
            "splits": splits,
            "shares": shares,
        }

    values = await asyncio.to_thread(gather)
    said = DONE.get(done, "")
    cost = console.costs.get(values["view"].channel.release)
    if done.startswith("published") and cost is not None and str(cost):
        said = f"{said} Its cost for the policy's cache: {cost}."
    return HTMLResponse(console.render("editor.html", **page_values(console, request), **values, done=said))


DONE = {
    "published": "Published. The next answer follows it.",
    "published-unused": "Published. No room is given this channel yet: set the traffic split to try it.",
    "rolled-back": "Rolled back. The next answer follows it.",
    "carried": "Your edits now stand on the newest release. Look at the changes, then publish.",
    "split": "The traffic split holds from the next request on.",
    "varied": "A variant stands in the draft: the same task, other surfaces. Look at the changes, then publish.",
}
"""What a page may say about the action before it; keys travel in the address, so only these texts can
appear."""


def _to_editor(request: Request, channel: str, *, path: str = "", done: str = "", same_file: bool = True) -> Response:
    """To the editor: in the room, and where nothing else is named in the channel and file, that the page
    showed."""
    stood = parse_qs(urlsplit(request.headers.get("hx-current-url", "")).query)
    if same_file:
        path = path or stood.get("path", [""])[0]
    channel = channel or stood.get("channel", [""])[0]
    values = {"room": stood.get("room", [""])[0], "channel": channel, "path": path, "done": done}
    query = urlencode({k: v for k, v in values.items() if v})
    return Response(status_code=204, headers={"hx-redirect": f"/editor?{query}"})


# ---------------------------------------------------------------------------------------------------- drafts


@router.put("/ui/editor/{channel}/file")
async def save(
    console: Shared,
    channel: str,
    path: str,
    text: Annotated[str, Form()] = "",
    seen: Annotated[str, Form()] = "",
    room: str = "",
) -> HTMLResponse:
    """Saves into the draft; answers with lint, comparison and the parts of the page that show the draft."""

    def work() -> dict[str, Any]:
        # HTML drops the first newline of a textarea and browsers send CRLF: both are undone here and in
        # `save_file`.
        view = workbench.save_file(console, channel, path, text, seen=seen)
        return _values(console, view, path, _room(console, room))

    async with console.editing:
        try:
            values = await asyncio.to_thread(work)
        except Conflict as fault:
            raise HTTPException(409, str(fault)) from fault
    return HTMLResponse(console.render("_saved.html", **values))


@router.delete("/ui/editor/{channel}/file")
async def delete_file(console: Shared, request: Request, channel: str, path: str) -> Response:
    async with console.editing:
        await asyncio.to_thread(workbench.save_file, console, channel, path, None, seen=None)
    return _to_editor(request, channel, same_file=False)


@router.post("/ui/editor/{channel}/new")
async def new_file(console: Shared, request: Request, channel: str, path: Annotated[str, Form()] = "") -> Response:
    path = path.strip().strip("/")
    parts = path.split("/")
    starter = NEW_FILES.get(parts[0], "") if len(parts) > 1 else ""
    name = parts[1].rpartition(".")[0] or parts[1] if len(parts) > 1 else ""

    def work() -> None:
        if path in workbench.view(console, channel).files:
            raise HTTPException(409, f"{path} is there already")
        text = "" if path.endswith(".py") else starter.format(name=name)
        workbench.save_file(console, channel, path, text, seen=None)

    async with console.editing:
        await asyncio.to_thread(work)
    return _to_editor(request, channel, path=path)


@router.delete("/ui/editor/{channel}/draft")
async def discard(console: Shared, request: Request, channel: str) -> Response:
    async with console.editing:
        await asyncio.to_thread(console.drafts.drop, channel)
    return _to_editor(request, channel)


@router.post("/ui/editor/{channel}/vary")
async def vary_draft(
    console: Shared,
    request: Request,
    channel: str,
    way: Annotated[str, Form()] = "",
    seed: Annotated[int, Form()] = 0,
) -> Response:
    async with console.editing:
        try:
            await asyncio.to_thread(vary, console, channel, way=way, seed=seed)
        except Conflict as fault:
            raise HTTPException(409, str(fault)) from fault
    return _to_editor(request, channel, done="varied")


@router.post("/ui/editor/{channel}/rebase")
async def rebase(console: Shared, request: Request, channel: str, keep: Annotated[str, Form()] = "mine") -> Response:
    async with console.editing:
        await asyncio.to_thread(workbench.carry_over, console, channel, keep=keep)
    return _to_editor(request, channel, done="carried")


# -------------------------------------------------------------------------------------------------- releases


@router.post("/ui/editor/{channel}/publish")
async def publish(console: Shared, request: Request, channel: str) -> Response:
    form = {k: str(v) for k, v in (await request.form()).items()}
    target = form.get("target", "").strip() or channel
    revision = form.get("revision", "")

    try:
        await publishing.publish(
            console,
            channel,
            target=target,
            expected=form.get(f"at.{target}", ""),
            revision=int(revision) if revision.isdigit() else None,
            note=form.get("note", "").strip()[:400],
        )
    except Conflict as fault:
        async with console.editing:
            values = await asyncio.to_thread(
                lambda: _values(console, workbench.view(console, channel), "", _room(console, ""))
            )
        return HTMLResponse(console.render("_refused.html", **{**values, "text": str(fault), "problems": ()}), 409)
    except InputError as fault:
        page = console.render("_refused.html", text="Not published: errors first.", problems=fault.problems)
        return HTMLResponse(page, 409)
    done = "published" if publishing.rooms_of(console, target) else "published-unused"
    return _to_editor(request, target, done=done)


@router.post("/ui/editor/{channel}/rollback")
async def rollback(
    console: Shared,
    request: Request,
    channel: str,
    to: Annotated[str, Form()] = "",
    current: Annotated[str, Form()] = "",
) -> Response:
    try:
        await publishing.rollback(console, channel, to=to or None, current=current or None, note="")
    except Conflict as fault:
        raise HTTPException(409, str(fault)) from fault
    return _to_editor(request, channel, done="rolled-back")


@router.post("/ui/editor/split")
async def split(console: Shared, request: Request) -> Response:
    form = {k: str(v) for k, v in (await request.form()).items()}
    percent = {k.removeprefix("percent."): v for k, v in form.items() if k.startswith("percent.")}
    try:
        numbers = {name: float(share or 0) for name, share in percent.items()}
    except ValueError as fault:
        raise HTTPException(422, f"percentages must be numbers: {fault}") from fault

    await publishing.set_split(console, form.get("rooms", "*").strip(), numbers, by=form.get("by", "viewer"))
    return _to_editor(request, "", done="split")
