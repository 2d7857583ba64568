"""Dev mode: a harness folder is watched, and every saved change that is valid is published.

A change that does not load, lints with errors or has a hook that does not import is reported and nothing is
published: the room goes on under the release it has. This is for one person at a desk; a team publishes what
its version control holds, with ``livery harness publish``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import watchfiles

from livery.errors import InputError, Problem, StoreError
from livery.harness.digest import harness_digest
from livery.harness.folder import load_harness
from livery.harness.hooks.builtin import BUILTINS
from livery.harness.hooks.loading import load_hooks
from livery.harness.hooks.run import HookRunner
from livery.harness.lint import has_errors, lint
from livery.harness.model import Harness
from livery.harness.releases import PrefixCost, Publication
from livery.harness.store import ReleaseStore

ACTOR = "watch"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvent:
    """What became of one change of the folder."""

    kind: Literal["published", "unchanged", "rejected"]
    path: str
    release: str = ""
    """The digest of what the folder holds; empty when it does not load."""
    publication: Publication | None = None
    problems: tuple[Problem, ...] = ()
    """Errors that stopped it, and warnings."""

    def __str__(self) -> str:
        lines = [f"{p.severity}: {p}" for p in self.problems]
        match self.kind:
            case "published":
                moved = self.publication
                where = f"on {moved.channel} (version {moved.version})" if moved else ""
                cost = f"; {moved.prefix}" if moved and moved.prefix and str(moved.prefix) else ""
                lines.append(f"{self.path}: published {self.release[:19]} {where}{cost}")
            case "unchanged":
                lines.append(f"{self.path}: says what is published already")
            case "rejected":
                lines.append(f"{self.path}: not published; the room goes on as it was")
        return "\n".join(lines)


async def watch_folder(
    path: Path | str,
    store: ReleaseStore,
    channel: str,
    *,
    on_event: Callable[[WatchEvent], None],
    stop_event: asyncio.Event,
    operations: Mapping[str, Mapping[str, Any]] | None = None,
    check: Callable[[Harness], object] | None = None,
    prepare: Callable[[str, str], Awaitable[PrefixCost]] | None = None,
    changes: AsyncIterable[object] | None = None,
) -> None:
    """Publish the folder to ``channel`` at every valid change, until ``stop_event`` is set.

    Args:
        on_event: called in the loop once for each change (what is saved within 200 ms counts as one).
        operations: operation -> JSON Schema of its arguments, for lint; None leaves bindings unchecked.
        check: a last trial before publishing, in a thread; refuses by an `InputError`.
        prepare: (release, the one before) -> what it costs the policy's cache: awaited before the channel moves, for
            as long as it likes.
        changes: instead of the file system's: anything that yields once for each change.
    """
    if changes is None:
        changes = cast("Any", watchfiles).awatch(path, debounce=200, step=50, stop_event=stop_event)
        assert changes is not None
    async for _ in changes:
        found = await asyncio.to_thread(_checked, Path(path), store, channel, operations, check)
        if isinstance(found, _Valid):
            cost = await prepare(found.release, found.before) if prepare is not None else None
            found = await asyncio.to_thread(_published, Path(path), store, channel, found, cost)
        on_event(found)
        if stop_event.is_set():
            return


@dataclass(frozen=True, slots=True)
class _Valid:
    """A folder's harness that may be published; it is in the store."""

    release: str
    before: str
    """The release that the channel points at; empty: none."""
    problems: tuple[Problem, ...]


def _checked(
    path: Path,
    store: ReleaseStore,
    channel: str,
    operations: Mapping[str, Mapping[str, Any]] | None,
    check: Callable[[Harness], object] | None,
) -> WatchEvent | _Valid:
    shown = str(path)
    try:
        loaded = load_harness(path)
        harness = loaded.harness
        found = lint(harness, loaded.problems, operations=operations, builtins=BUILTINS, sources=loaded.sources)
        problems, release = tuple(found), harness_digest(harness)
        if has_errors(found):
            return WatchEvent(kind="rejected", path=shown, release=release, problems=problems)
        before = next((c.release for c in store.channels() if c.name == channel), "")
        if before == release:
            return WatchEvent(kind="unchanged", path=shown, release=release, problems=problems)
        HookRunner(harness, load_hooks(harness))  # lint runs no hook: whether they import shows here
        if check is not None:
            check(harness)
        store.put(harness, note=f"from {shown}", actor=ACTOR)
    except InputError as error:
        return WatchEvent(kind="rejected", path=shown, problems=error.problems)
    except (OSError, StoreError) as error:  # a file that is being replaced, a store that is away
        return _refused(shown, error)
    return _Valid(release, before, problems)


def _published(path: Path, store: ReleaseStore, channel: str, valid: _Valid, cost: PrefixCost | None) -> WatchEvent:
    shown = str(path)
    try:
        publication = store.publish(channel, valid.release, note=f"from {shown}", actor=ACTOR)
    except InputError as error:  # not a channel's name
        return WatchEvent(kind="rejected", path=shown, problems=error.problems)
    except StoreError as error:
        return _refused(shown, error)
    publication = replace(publication, prefix=cost)
    return WatchEvent(
        kind="published", path=shown, release=valid.release, publication=publication, problems=valid.problems
    )


def _refused(shown: str, error: Exception) -> WatchEvent:
    return WatchEvent(kind="rejected", path=shown, problems=(Problem(path=shown, message=str(error), code="watch"),))
