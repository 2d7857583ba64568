"""What checked responses say: strict and loose accuracy by prompt and by instruction, with intervals.

The means are lm-eval's (``mean`` over prompts, ``agg_inst_level_acc`` over instructions). Intervals resample prompts,
also those over instructions: one response follows a prompt's instructions or not, so they are no independent draws.
Works on results alone; lm-eval need not be installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from pydantic import Field

from livery.errors import InputError
from livery.evaluation.statistics import DRAWS, Estimate, Floats, interval, resampled
from livery.harness.model import Frozen

MODES: Final = ("strict", "loose")
TITLES: Final = {
    "prompt_strict": "Prompt, strict",
    "instruction_strict": "Instruction, strict",
    "prompt_loose": "Prompt, loose",
    "instruction_loose": "Instruction, loose",
}


class IfevalResult(Frozen):
    """One checked response."""

    schema_: str = Field(default="livery.ifeval-result/1", alias="schema")
    key: int
    instructions: tuple[str, ...]
    strict: tuple[bool, ...]
    loose: tuple[bool, ...]
    words: int
    """Of the response, parted by white space."""
    tokens: int
    """Sampled, reasoning included."""
    reasoning: int = 0
    cut: bool = False
    """Whether the limit of tokens ended it."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Instruction:
    """The instructions of one type, or of one group of types."""

    name: str
    strict: Estimate
    loose: Estimate
    """``n`` of both counts instructions."""

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "strict": self.strict.to_json(), "loose": self.loose.to_json()}


@dataclass(frozen=True, slots=True)
class IfevalFigures:
    prompts: int
    instructions: int
    followed: dict[str, int]
    """`TITLES`' names -> how many prompts (all of their instructions) or instructions were followed."""
    measures: dict[str, Estimate]
    """`TITLES`' names, in points."""
    types: tuple[Instruction, ...]
    groups: tuple[Instruction, ...]
    cut: Estimate
    """Responses that the limit of tokens ended, in per cent."""
    empty: int
    """Responses without a word, reasoning left out."""
    costs: dict[str, float]
    """Words and tokens of a response: mean, median, 95th percentile."""

    def to_json(self) -> dict[str, Any]:
        return {
            "instructions": self.instructions,
            **{name: one.to_json() for name, one in self.measures.items()},
            "followed": self.followed,
            "bootstrap": {"draws": DRAWS, "level": 95, "unit": "prompt"},
            "groups": [g.to_json() for g in self.groups],
            "types": [t.to_json() for t in self.types],
            "cut_percent": self.cut.to_json(),
            "empty": self.empty,
            "costs": self.costs,
        }


def figures(results: Sequence[IfevalResult], *, seed: int = 0, draws: int = DRAWS) -> IfevalFigures:
    """
    Raises:
        InputError: no result.
    """
    if not results:
        raise InputError.at("results", "found no checked response; expected one at least", code="no-results")
    followed: dict[str, int] = {}
    measures: dict[str, Estimate] = {}
    sizes = np.array([len(r.instructions) for r in results], dtype=np.float64)
    for mode in MODES:
        met = np.array([sum(getattr(r, mode)) for r in results], dtype=np.float64)
        whole = (met == sizes).astype(np.float64)
        followed[f"prompt_{mode}"], followed[f"instruction_{mode}"] = int(whole.sum()), int(met.sum())
        measures[f"prompt_{mode}"] = ratio(whole, np.ones(len(results)), seed=seed, draws=draws)
        measures[f"instruction_{mode}"] = ratio(met, sizes, seed=seed, draws=draws)
    cut = np.array([r.cut for r in results], dtype=np.float64)
    return IfevalFigures(
        prompts=len(results),
        instructions=int(sizes.sum()),
        followed=followed,
        measures=measures,
        types=_by(results, whole_type=True, seed=seed, draws=draws),
        groups=_by(results, whole_type=False, seed=seed, draws=draws),
        cut=ratio(cut, np.ones(len(results)), seed=seed, draws=draws),
        empty=sum(not r.words for r in results),
        costs={**_spread("words", [r.words for r in results]), **_spread("tokens", [r.tokens for r in results])},
    )


def ratio(part: Floats, of: Floats, *, seed: int = 0, draws: int = DRAWS) -> Estimate:
    """``part`` as a share of ``of``, both summed over prompts, in per cent; prompts are resampled.

    Args:
        part, of: a value a prompt, shape (n,); ``of`` is at least 1.
    """
    samples = resampled(np.stack([part, of], axis=1), seed=seed, draws=draws)
    low, high = interval(100 * samples[:, 0] / samples[:, 1])
    return Estimate(float(100 * part.sum() / of.sum()), low, high, int(of.sum()))


def _by(results: Sequence[IfevalResult], *, whole_type: bool, seed: int, draws: int) -> tuple[Instruction, ...]:
    """By type, or by group (what stands before the colon); the largest first."""
    counts: dict[str, dict[int, list[int]]] = {}
    for place, result in enumerate(results):
        for name, strict, loose in zip(result.instructions, result.strict, result.loose, strict=True):
            shown = name if whole_type else name.partition(":")[0]
            row = counts.setdefault(shown, {}).setdefault(place, [0, 0, 0])
            row[0] += strict
            row[1] += loose
            row[2] += 1
    found: list[Instruction] = []
    for name, rows in counts.items():
        table = np.array(list(rows.values()), dtype=np.float64)
        strict, loose = (ratio(table[:, i], table[:, 2], seed=seed, draws=draws) for i in (0, 1))
        found.append(Instruction(name, strict, loose))
    return tuple(sorted(found, key=lambda f: (-f.strict.n, f.name)))


def _spread(name: str, values: Sequence[int]) -> dict[str, float]:
    column = np.array(values, dtype=np.float64)
    return {
        f"{name}_mean": round(float(column.mean()), 1),
        f"{name}_p50": round(float(np.quantile(column, 0.5)), 1),
        f"{name}_p95": round(float(np.quantile(column, 0.95)), 1),
    }
