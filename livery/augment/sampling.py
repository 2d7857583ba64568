"""Drawing variants: which operators, how many, with which words.

A training variant uses operators and lexicon entries of the train split only. A held-out one draws from all operators,
with held-out entries wherever a key has any, so that its combinations and wordings are new.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import Final

from livery.augment.lexicon import Split
from livery.augment.operators import (
    DIMENSIONS,
    Dimension,
    Operator,
    Record,
    Variant,
    apply_one,
    in_order,
    registered,
)
from livery.harness.digest import harness_digest
from livery.harness.model import Harness

OPERATORS_AT_FULL: Final = 12
"""Operators that a variant of strength 1 draws."""
_HELD_OUT_WEIGHT: Final = 3.0
"""How much likelier a held-out operator is drawn for a held-out variant than another."""
_TRIES: Final = 4


def sample_variant(
    harness: Harness,
    seed: int,
    split: Split,
    strength: float = 0.5,
    dimensions: Sequence[Dimension] = DIMENSIONS,
    *,
    base_digest: str = "",
    operators: Sequence[Operator] | None = None,
) -> Variant:
    """One variant, the same for the same arguments.

    Args:
        strength: 0-1; the number of operators is drawn around ``strength * OPERATORS_AT_FULL``, at least one. Not all
            of them need find something to change.
        dimensions: only operators of these.
        base_digest: of ``harness``, where it is known already (it saves its computing).
        operators: draw from these instead, whatever split they belong to.

    Raises:
        ValueError: a strength outside 0-1, or no dimension.
    """
    if not 0 <= strength <= 1:
        raise ValueError(f"found the strength {strength}; expected 0 to 1")
    if not dimensions:
        raise ValueError("found no dimension; expected one at least")
    pool = _pool(tuple(dimensions), split) if operators is None else [(o, 1.0) for o in operators]
    base_digest = base_digest or harness_digest(harness)
    for attempt in range(_TRIES):
        rng = Random(f"{seed}/{split}/{attempt}")
        made = _drawn(harness, rng, split, strength, pool, base_digest)
        if made.records:
            return made
    return Variant(harness=harness, base_digest=base_digest)


def _drawn(
    harness: Harness,
    rng: Random,
    split: Split,
    strength: float,
    pool: Sequence[tuple[Operator, float]],
    base_digest: str,
) -> Variant:
    middle = max(1.0, strength * OPERATORS_AT_FULL)
    count = max(1, min(len(pool), round(rng.triangular(middle * 0.5, middle * 1.5, middle))))
    chosen = _weighted(pool, count, rng)
    made, records = harness, list[Record]()
    for one in in_order(chosen, rng):
        step = apply_one(one, made, seed=rng.getrandbits(48), split=split)
        if step is not None:
            made, record = step
            records.append(record)
    return Variant(harness=made, base_digest=base_digest, records=tuple(records))


@lru_cache(maxsize=64)
def _pool(dimensions: tuple[Dimension, ...], split: Split) -> tuple[tuple[Operator, float], ...]:
    """What may be drawn, with its weight. Dimensions are equally likely, however many operators each has."""
    pool = registered().of(dimensions, held_out=False if split == "train" else None)
    sizes = {d: sum(o.dimension == d for o in pool) for d in dimensions}
    return tuple((o, (_HELD_OUT_WEIGHT if o.held_out else 1.0) / sizes[o.dimension]) for o in pool)


def _weighted(pool: Sequence[tuple[Operator, float]], count: int, rng: Random) -> list[Operator]:
    """``count`` different operators, by weight (Efraimidis and Spirakis' keys)."""
    keyed = [(rng.random() ** (1 / weight), i) for i, (_, weight) in enumerate(pool)]
    return [pool[i][0] for _, i in sorted(keyed, reverse=True)[:count]]
