"""Variants into the draft: the harness under other names or in another form, with the same task.

An operator's drill before a campaign: does what answers now go on answering when every tool and skill is called
otherwise? The variant is made by the operators of `livery.augment` and lands in the channel's draft, where it is
compared, edited and published as any other edit. Nothing here publishes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from livery.augment.operators import DIMENSIONS, Dimension, Record, Variant, compose, registered
from livery.augment.sampling import sample_variant
from livery.console import workbench
from livery.console.context import Console
from livery.console.drafts import files_of
from livery.console.workbench import Conflict, View
from livery.errors import InputError
from livery.harness.model import Harness

STRENGTH: Final = 0.5


def _named(*operators: str) -> Callable[[Harness, int], Variant]:
    return lambda harness, seed: compose(harness, [registered()[o] for o in operators], seed=seed, split="heldout")


def _drawn(*dimensions: Dimension) -> Callable[[Harness, int], Variant]:
    return lambda harness, seed: sample_variant(harness, seed, "heldout", STRENGTH, dimensions)


@dataclass(frozen=True, slots=True)
class Way:
    label: str
    make: Callable[[Harness, int], Variant]


WAYS: Final[Mapping[str, Way]] = {
    "names": Way(
        "Other names for every skill and tool", _named("skill_identifiers.synonyms", "tool_schemas.tool_synonyms")
    ),
    "opaque": Way(
        "Names that say nothing (skill_a34b)", _named("skill_identifiers.opaque", "tool_schemas.tool_opaque")
    ),
    **{d: Way(d.replace("_", " ").capitalize(), _drawn(d)) for d in DIMENSIONS},
    "everything": Way("Everything at once", _drawn(*DIMENSIONS)),
}
"""Wordings are of the held-out split: those that livery's own training never shows."""


def vary(console: Console, channel: str, *, way: str, seed: int) -> tuple[View, tuple[Record, ...]]:
    """Put a variant of the draft (or of the published release, where there is none) into the draft. Blocks.

    Returns:
        the channel's view, and what was done.

    Raises:
        InputError: no such way, or the draft is no valid harness.
        Conflict: the draft stands on a release that is no longer the channel's.
    """
    if way not in WAYS:
        raise InputError.at("way", f"found {way!r}; expected of {', '.join(WAYS)}", code="vary-way")
    before = workbench.view(console, channel)
    if before.stale:
        raise Conflict("Somebody published to this channel meanwhile. Carry your edits over first.")
    checked = workbench.review(console, before)
    if checked.harness is None or checked.errors:
        raise InputError(checked.errors or checked.problems)
    made = WAYS[way].make(checked.harness, seed)
    new = files_of(made.harness)
    draft = before.draft
    files: dict[str, str | None] = {p: t for p, t in new.items() if t != before.base.get(p)}
    files |= dict.fromkeys(p for p in before.base if p not in new)
    draft = replace(draft, files=files, revision=draft.revision + 1, saved_at=console.context.clock())
    console.drafts.put(draft)
    return replace(before, draft=draft), made.records
