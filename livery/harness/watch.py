"""Dev mode: a harness folder is watched, and every saved change that is valid is published.

A change that does not load, lints with errors or has a hook that does not import is reported and nothing is
published: the room goes on under the release it has. This is for one person at a desk; a team publishes what
its version control holds, with ``livery harness publish``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Mapping
from dataclasses import dataclass
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
from livery.harness.store import Publication, ReleaseStore

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
                lines.append(f"{self.path}: published {self.release[:19]} {where}")
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
    changes: AsyncIterable[object] | None = None,
) -> None:
    """Publish the folder to ``channel`` at every valid change, until ``stop_event`` is set.

    Args:
        on_event: called in the loop once for each change (what is saved within 200 ms counts as one).
        operations: operation -> JSON Schema of its arguments, for lint; None leaves bindings unchecked.
        check: a last trial before publishing, in a thread; refuses by an `InputError`.
        changes: instead of the file system's: anything that yields once for each change.
    """
    if changes is None:
        changes = cast("Any", watchfiles).awatch(path, debounce=200, step=50, stop_event=stop_event)
        assert changes is not None
    async for _ in changes:
        on_event(await asyncio.to_thread(_publish, Path(path), store, channel, operations, check))
        if stop_event.is_set():
            return


def _publish(
    path: Path,
    store: ReleaseStore,
    channel: str,
    operations: Mapping[str, Mapping[str, Any]] | None,
    check: Callable[[Harness], object] | None,
) -> WatchEvent:
    shown = str(path)
    try:
        loaded = load_harness(path)
        harness = loaded.harness
        found = lint(harness, loaded.problems, operations=operations, builtins=BUILTINS, sources=loaded.sources)
        problems, release = tuple(found), harness_digest(harness)
        if has_errors(found):
            return WatchEvent(kind="rejected", path=shown, release=release, problems=problems)
        if any(c.name == channel and c.release == release for c in store.channels()):
            return WatchEvent(kind="unchanged", path=shown, release=release, problems=problems)
        HookRunner(harness, load_hooks(harness))  # lint runs no hook: whether they import shows here
        if check is not None:
            check(harness)
        publication = store.publish(channel, harness, note=f"from {shown}", actor=ACTOR)
    except InputError as error:
        return WatchEvent(kind="rejected", path=shown, problems=error.problems)
    except (OSError, StoreError) as error:  # a file that is being replaced, a store that is away
        problem = Problem(path=shown, message=str(error), code="watch")
        return WatchEvent(kind="rejected", path=shown, problems=(problem,))
    return WatchEvent(kind="published", path=shown, release=release, publication=publication, problems=problems)
