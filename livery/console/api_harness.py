"""Harnesses over HTTP, for programs: releases, drafts, lint, diff, publish, rollback, split.

The same functions as the editor's pages (`workbench`). Files are those of the harness folder format.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, TypeVar

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from livery.console import publishing, workbench
from livery.console.api import OPERATOR, Faults, faults_of, problem_view, read_json
from livery.console.context import Console, Shared
from livery.console.drafts import Draft
from livery.console.vary import vary
from livery.console.workbench import Conflict, Review
from livery.harness.digest import component_digests

router = APIRouter(prefix="/api/harness", dependencies=OPERATOR)

_T = TypeVar("_T")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DraftIn(_Body):
    files: dict[str, str | None]
    """Path -> whole new text; null deletes. Files not named keep what the draft has."""
    base: str = ""
    """The release the edits were made on; must be the channel's (or the draft's) now. Empty: not checked."""


class VaryIn(_Body):
    way: str
    """Of `livery.console.vary.WAYS`."""
    seed: int = Field(default=0, ge=0)


class PublishIn(_Body):
    note: str = Field(default="", max_length=400)
    target: str = Field(default="", max_length=64)
    """Another channel to publish the draft to; empty: the draft's own."""
    expected: str
    """The release the target points at now, "" for a new channel: nobody's publication is overwritten
    unseen."""


class RollbackIn(_Body):
    to: str = ""
    current: str = ""
    note: str = Field(default="", max_length=400)


class SplitIn(_Body):
    rooms: str = Field(min_length=1, max_length=200)
    percent: dict[str, float]
    by: str = Field(default="viewer", pattern="^(viewer|room)$")
    note: str = Field(default="", max_length=400)


_M = TypeVar("_M", bound=_Body)


async def _read(request: Request, model: type[_M]) -> _M:
    try:
        return model.model_validate(await read_json(request))
    except ValidationError as fault:
        raise Faults(faults_of(fault, ())) from fault


async def _changing(console: Console, work: Callable[[], _T]) -> _T:
    async with console.editing:
        return await _or_conflict(asyncio.to_thread(work))


async def _or_conflict(work: Awaitable[_T]) -> _T:
    try:
        return await work
    except Conflict as fault:
        raise HTTPException(409, str(fault)) from fault


def _review_view(review: Review) -> dict[str, Any]:
    return {"ok": not review.errors, "problems": [problem_view(p) for p in review.problems]}


@router.get("/channels")
async def channels(console: Shared) -> dict[str, Any]:
    routing = await asyncio.to_thread(console.context.store.routing)
    splits = [{"rooms": s.rooms, "by": s.by, "percent": s.percent, "version": s.version} for s in routing.splits]
    return {"channels": [asdict(c) for c in routing.channels.values()], "splits": splits}


@router.get("/releases/{reference}")
async def release(console: Shared, reference: str) -> dict[str, Any]:
    """By digest, its beginning, or a channel's name: components with digests, and the files."""

    def work() -> dict[str, Any]:
        digest = console.context.store.resolve(reference)
        harness = console.context.store.load(digest)
        return {
            "release": digest,
            "name": harness.name,
            "language": harness.language,
            "components": component_digests(harness),
            "files": dict(console.files(digest)),
        }

    return await asyncio.to_thread(work)


@router.get("/channels/{channel}/log")
async def log(console: Shared, channel: str) -> dict[str, Any]:
    entries = await asyncio.to_thread(console.context.store.log, channel)
    return {"log": [asdict(e) for e in entries]}


@router.get("/channels/{channel}/draft")
async def get_draft(console: Shared, channel: str) -> dict[str, Any]:
    view = await asyncio.to_thread(workbench.view, console, channel)
    return {**_draft_view(view.draft), "stale": view.stale, "both_changed": view.both}


def _draft_view(draft: Draft) -> dict[str, Any]:
    return {"base": draft.base, "revision": draft.revision, "files": dict(draft.files)}


@router.put("/channels/{channel}/draft")
async def put_draft(console: Shared, request: Request, channel: str) -> dict[str, Any]:
    given = await _read(request, DraftIn)

    def work() -> dict[str, Any]:
        view = workbench.view(console, channel)
        if given.base not in ("", view.draft.base):
            raise Conflict(f"the draft stands on {view.draft.base}, not on {given.base}")
        for path, text in given.files.items():
            view = workbench.save_file(console, channel, path, text, seen=None)
        return {**_draft_view(view.draft), **_review_view(workbench.review(console, view))}

    return await _changing(console, work)


@router.post("/channels/{channel}/vary")
async def vary_draft(console: Shared, request: Request, channel: str) -> dict[str, Any]:
    """A variant of the draft into the draft: its files, what was renamed, and lint."""
    given = await _read(request, VaryIn)

    def work() -> dict[str, Any]:
        view, records = vary(console, channel, way=given.way, seed=given.seed)
        return {
            **_draft_view(view.draft),
            "operators": [r.operator for r in records],
            "renamed": [n.model_dump() for r in records for n in r.renamed],
            **_review_view(workbench.review(console, view)),
        }

    return await _changing(console, work)


@router.delete("/channels/{channel}/draft")
async def delete_draft(console: Shared, channel: str) -> dict[str, Any]:
    await _changing(console, lambda: console.drafts.drop(channel))
    return {"dropped": channel}


@router.post("/channels/{channel}/lint")
async def lint(console: Shared, channel: str) -> dict[str, Any]:
    return await _changing(console, lambda: _review_view(workbench.review(console, workbench.view(console, channel))))


@router.post("/channels/{channel}/diff")
async def diff(console: Shared, channel: str) -> dict[str, Any]:
    """What publishing the draft would change, as data and as HTML; null where it is no harness."""

    def work() -> dict[str, Any]:
        review = workbench.review(console, workbench.view(console, channel))
        diff = None if review.diff is None else review.diff.as_json()
        return {"diff": diff, "html": review.diff_html, **_review_view(review)}

    return await _changing(console, work)


@router.post("/channels/{channel}/publish")
async def publish(console: Shared, request: Request, channel: str) -> dict[str, Any]:
    """Answers when the channel has moved; ``prefix`` says what the release costs the policy's cache."""
    given = await _read(request, PublishIn)
    target = given.target or channel
    done = await _or_conflict(
        publishing.publish(console, channel, target=target, expected=given.expected, revision=None, note=given.note)
    )
    return asdict(done)


@router.post("/channels/{channel}/rollback")
async def rollback(console: Shared, request: Request, channel: str) -> dict[str, Any]:
    given = await _read(request, RollbackIn)
    done = await _or_conflict(
        publishing.rollback(console, channel, to=given.to or None, current=given.current or None, note=given.note)
    )
    return asdict(done)


@router.post("/splits")
async def split(console: Shared, request: Request) -> JSONResponse:
    given = await _read(request, SplitIn)
    done = await publishing.set_split(console, given.rooms, given.percent, by=given.by, note=given.note)
    return JSONResponse({"rooms": done.rooms, "by": done.by, "percent": done.percent, "version": done.version})
