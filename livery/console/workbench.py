"""What the harness editor does, without its pages: drafts checked, compared, published, carried over.

The pages (`editor`) and the API (`api_harness`) are two surfaces of these functions. Everything here blocks
for some milliseconds up to a tenth of a second, so callers run it in a worker thread; the room's loop goes
on meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from livery.console.context import Console
from livery.console.drafts import Draft, assemble, both_changed, listed, rebase
from livery.errors import InputError, LiveryError, Problem
from livery.harness.diff import HarnessDiff, diff_harnesses, html_diff
from livery.harness.folder import LoadedHarness
from livery.harness.hooks.loading import load_hooks
from livery.harness.hooks.run import HookRunner
from livery.harness.lint import lint
from livery.harness.model import Harness
from livery.harness.reading import MANIFEST
from livery.harness.store import Channel, Publication

ACTOR = "console"


class Conflict(LiveryError):
    """What somebody was about to change is not what they last saw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A channel, its draft, and how the two stand to each other."""

    channel: Channel
    published: Harness
    draft: Draft
    base: Mapping[str, str]
    """Files of the release the draft was made on."""
    both: tuple[str, ...] = ()
    """Where the draft is stale: files that it and the newer release both changed."""

    @property
    def stale(self) -> bool:
        """Somebody published since the draft was begun."""
        return bool(self.draft.files) and self.draft.base != self.channel.release

    @property
    def files(self) -> dict[str, str]:
        """The draft's files as they would be published."""
        merged = {**self.base, **self.draft.files}
        return {path: text for path, text in sorted(merged.items()) if text is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    problems: tuple[Problem, ...]
    harness: Harness | None
    """None: the files do not make a harness; ``problems`` say why."""
    diff: HarnessDiff | None
    """From the published release; None as well where the files make no harness."""

    @property
    def diff_html(self) -> str | None:
        """An HTML fragment, escaped by its maker."""
        return None if self.diff is None else html_diff(self.diff)

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(p for p in self.problems if p.severity == "error")


def view(console: Console, channel: str) -> View:
    """
    Raises:
        StoreError: no such channel.
    """
    store = console.context.store
    found = store.channel(channel)
    draft = console.drafts.get(channel)
    if draft is None or not draft.files:
        revision = 0 if draft is None else draft.revision
        draft = Draft(channel=channel, base=found.release, revision=revision)
    base = console.files(draft.base)
    stale = draft.base != found.release
    return View(
        channel=found,
        published=store.load(found.release),
        draft=draft,
        base=base,
        both=both_changed(draft, base, console.files(found.release)) if stale else (),
    )


def review(console: Console, view: View) -> Review:
    """The draft read, linted and compared with the published release."""
    base = console.context.store.load(view.draft.base)
    try:
        loaded = assemble(base, view.draft.files)
    except InputError as fault:
        return Review(problems=fault.problems, harness=None, diff=None)
    problems = tuple(sorted(_lint(console, loaded), key=lambda p: (p.severity != "error", p.path, p.line)))
    diff = diff_harnesses(view.published, loaded.harness)
    return Review(problems=problems, harness=loaded.harness, diff=diff)


def _lint(console: Console, loaded: LoadedHarness) -> list[Problem]:
    operations = {name: operation.parameters for name, operation in console.context.operations.items()}
    return lint(
        loaded.harness,
        loaded.problems,
        operations=operations,
        builtins=console.context.builtins,
        sources=loaded.sources,
    )


def save_file(console: Console, channel: str, path: str, text: str | None, *, seen: str | None) -> View:
    """Put one file into the draft (None deletes it).

    A component that comes is listed in harness.yaml, one that goes is taken from its list.

    Args:
        seen: `fingerprint` of the text the editor started from; None: whatever is there is replaced.

    Raises:
        Conflict: the draft holds another text by now.
        InputError: not a file of a harness.
    """
    before = view(console, channel)
    if seen is not None and seen != fingerprint(before.files.get(path)):
        raise Conflict(f"{path} was changed in another window meanwhile. Reload to see it; your text is still here.")
    now = console.context.clock()
    normal = None if text is None else text.replace("\r\n", "\n").replace("\r", "\n")
    draft = before.draft.with_file(path, normal, before.base, at=now)
    manifest = before.files.get(MANIFEST)
    if manifest is not None and path != MANIFEST and (path in before.files) != (normal is not None):
        draft = draft.with_file(MANIFEST, listed(manifest, path, present=normal is not None), before.base, at=now)
    console.drafts.put(draft)
    return replace(before, draft=draft)


def fingerprint(text: str | None) -> str:
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A draft that may be published as it stands."""

    harness: Harness
    revision: int
    """Of the draft."""


def checked(console: Console, channel: str, *, target: str, expected: str, revision: int | None) -> Checked:
    """Whether a channel's draft may be published to ``target``, which must point at ``expected`` ("": must be new).

    Raises:
        Conflict: the channel, or the draft, is no longer what was seen.
        InputError: the draft has errors, all listed, or a hook of it does not import.
    """
    seen = view(console, channel)
    if revision is not None and revision != seen.draft.revision:
        raise Conflict("The draft was changed in another window since you looked at it. Reload and look again.")
    if seen.stale and target == channel:
        raise Conflict("Somebody published to this channel meanwhile. Carry your edits over first.")
    channels = {c.name: c.release for c in console.context.store.channels()}
    if channels.get(target, "") != expected:
        raise Conflict(f"{target} was published to meanwhile. Reload, look at their change and publish again.")
    found = review(console, seen)
    if found.harness is None or found.errors:
        raise InputError(found.errors or found.problems)
    HookRunner(found.harness, load_hooks(found.harness))  # lint runs no hook: whether they import
    return Checked(harness=found.harness, revision=seen.draft.revision)


def publish(
    console: Console, channel: str, *, target: str, expected: str, revision: int | None, note: str
) -> Publication:
    """Publish a channel's draft to ``target``, if `checked` has nothing against it.

    Raises:
        Conflict, InputError: as `checked`; nothing was published.
    """
    found = checked(console, channel, target=target, expected=expected, revision=revision)
    done = console.context.store.publish(target, found.harness, note=note, actor=ACTOR, expected=expected)
    if target == channel:
        console.drafts.drop(channel)
    console.metrics.publishes.labels(target, "publish").inc()
    return done


def rollback(console: Console, channel: str, *, to: str | None, current: str | None, note: str) -> Publication:
    """
    Args:
        to: a release the channel pointed at before; None: the one before this.
        current: the release the operator saw; None: whatever it is.

    Raises:
        Conflict: the channel moved meanwhile.
        StoreError: nothing to go back to.
    """
    store = console.context.store
    if current is not None and store.channel(channel).release != current:
        raise Conflict("Somebody published meanwhile. Reload and look again.")
    done = store.rollback(channel, to=to, note=note, actor=ACTOR)
    console.metrics.publishes.labels(channel, "rollback").inc()
    return done


def carry_over(console: Console, channel: str, *, keep: str) -> View:
    """Rebase the draft on the release that was published meanwhile."""
    before = view(console, channel)
    onto = before.channel.release
    new = console.files(onto)
    done = rebase(before.draft, onto=onto, old=before.base, new=new, keep=keep, at=console.context.clock())
    console.drafts.put(done.draft)
    return view(console, channel)
