"""GDPO advantages: what a rollout's tool turns earn, and what its reply earns, each by rewards of its own.

Every reward is normalised within the group of rollouts that answer one prompt, the normalised rewards of a kind of
segment are summed with weights, and the sums are whitened over the batch (Group reward-Decoupled normalization Policy
Optimization, arXiv 2601.05242). A rollout's tool turns are one segment, its reply turns another; each has an advantage
from its own rewards. docs/rl-loss.md has the formulas.

Not here: how rewards are earned (`livery.simulator.verifier`), the loss (`livery.training.policy_loss`), and gathering
over processes. Statistics are of the rollouts given: pass those of every process.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from livery.errors import InputError, Problem

torch: Any = importlib.import_module("torch")
Tensor = Any


class Kind(IntEnum):
    """Kinds of segment. The value is the index wherever tensors have a dimension ``kinds``."""

    CALL = 0
    """Turns that call tools or load skills."""
    REPLY = 1
    """Turns that end in a reply, also one that was sent back."""

    @property
    def label(self) -> str:
        return self.name.lower()


def _call_rewards() -> dict[str, float]:
    return {"tool_rationality": 1.0, "skill_selection": 1.0, "call_length": 0.5}


def _reply_rewards() -> dict[str, float]:
    return {"accuracy": 1.0, "effectiveness": 1.0, "reply_length": 0.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardPlan:
    """Which reward goes to which kind of segment, and how much it weighs there.

    A reward may serve both kinds. A weight counts after normalisation: it is the reward's share of the advantage, in
    whatever unit the reward was.

    Raises:
        InputError: a weight or floor that is not a finite number in range, or a kind without rewards.
    """

    call: Mapping[str, float] = field(default_factory=_call_rewards)
    reply: Mapping[str, float] = field(default_factory=_reply_rewards)
    reward_floor: float = 0.05
    """Least standard deviation that a reward is divided by within its group. Below it, differences are taken for what
    they are and not blown up to a unit."""
    batch_floor: float = 0.1
    """The same for the whitening over the batch."""

    def __post_init__(self) -> None:
        problems: list[Problem] = []

        def wrong(name: str, message: str) -> None:
            problems.append(Problem(path="reward plan", field=name, message=message))

        for kind in Kind:
            weights = self.weights(kind)
            if not weights:
                wrong(kind.label, "no rewards, expected at least one name with a weight")
            for name, weight in weights.items():
                if not (math.isfinite(weight) and weight >= 0):
                    wrong(f"{kind.label}.{name}", f"weight {weight!r}, expected a finite number of at least 0")
        for name, value in (("reward_floor", self.reward_floor), ("batch_floor", self.batch_floor)):
            if not (math.isfinite(value) and value > 0):
                wrong(name, f"{value!r}, expected a finite number above 0")
        if problems:
            raise InputError(problems)

    def weights(self, kind: Kind) -> Mapping[str, float]:
        return self.call if kind is Kind.CALL else self.reply

    @property
    def names(self) -> tuple[str, ...]:
        """Every reward that some kind uses, in the order of first mention."""
        return tuple(dict.fromkeys((*self.call, *self.reply)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardStats:
    """One reward over a batch, before normalisation."""

    mean: float
    """Over the values given; NaN if none."""
    std: float
    """The same over the whole batch, n - 1 in the denominator; 0 for fewer than two values."""
    values: int
    """Rollouts to which it applied."""
    missing: int
    """Rollouts to which it did not (NaN)."""
    groups: int
    """Groups with at least one value."""
    zero_variance: int
    """Of those, the groups whose values are all equal: they teach nothing by this reward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindStats:
    """One kind's advantages over a batch."""

    std: float
    """Of the weighted sums, before whitening."""
    rollouts: int
    """With at least one reward of the kind."""
    groups: int
    """With at least one such rollout."""
    silent: int
    """Of those, the groups all of whose advantages are 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advantages:
    values: Tensor
    """(rollouts, kinds) float32. 0 where no reward applied. Always finite."""
    rewards: Mapping[str, RewardStats]
    """By name: every reward given, also those that no kind uses."""
    kinds: Mapping[Kind, KindStats]

    def of(self, kind: Kind) -> Tensor:
        """(rollouts,)"""
        return self.values[:, kind]

    def metrics(self) -> dict[str, float]:
        """Flat, for a log. Rewards without any value have no mean."""
        flat: dict[str, float] = {}
        for name, one in self.rewards.items():
            if one.values:
                flat[f"reward/{name}/mean"] = one.mean
                flat[f"reward/{name}/std"] = one.std
            flat[f"reward/{name}/missing_share"] = one.missing / max(1, one.missing + one.values)
            flat[f"reward/{name}/zero_variance_groups"] = float(one.zero_variance)
            flat[f"reward/{name}/zero_variance_share"] = one.zero_variance / max(1, one.groups)
        for kind, stats in self.kinds.items():
            flat[f"advantage/{kind.label}/std_before_whitening"] = stats.std
            flat[f"advantage/{kind.label}/silent_share"] = stats.silent / max(1, stats.groups)
        return flat


def gdpo(rewards: Tensor, names: Sequence[str], group: Tensor, plan: RewardPlan) -> Advantages:
    """Advantages of each rollout's tool turns and reply.

    Args:
        rewards: (rollouts, rewards) floats. NaN: this reward does not apply to this rollout. It is then left out of the
            group's mean and deviation and adds nothing. A rollout without tool turns: NaN keeps it out of the
            comparison, a number makes it one of those that the others are compared with.
        names: (rewards,)
        group: (rollouts,) integers; rollouts of one prompt share theirs. Sizes may differ.

    Raises:
        InputError: the plan names a reward that is not given.
        ValueError: shapes that do not fit, a name twice, an infinite reward.
    """
    given = torch.as_tensor(rewards).to(torch.float64)
    ids = torch.as_tensor(group, device=given.device)
    _check(given, names, ids, plan)
    _, index = torch.unique(ids, return_inverse=True)
    scores = _normalised(given, index, plan.reward_floor)
    columns = {name: i for i, name in enumerate(names)}
    values: list[Tensor] = []
    kinds: dict[Kind, KindStats] = {}
    for kind in Kind:
        weights = {name: weight for name, weight in plan.weights(kind).items() if weight > 0}
        total = torch.zeros_like(given[:, 0])
        scored = torch.zeros_like(total, dtype=torch.bool)
        for name, weight in weights.items():
            total = total + weight * scores.values[:, columns[name]]
            scored = scored | scores.applies[:, columns[name]]
        # Each normalised reward sums to zero in each group, and so does the batch: the paper's whitening subtracts a
        # mean of zero. Left out, groups that say nothing keep an advantage of exactly zero.
        count = int(scored.sum())
        std = (total.square().sum() / max(1, count - 1)).sqrt()
        value = total / std.clamp(min=plan.batch_floor)
        values.append(value)
        kinds[kind] = KindStats(
            std=float(std),
            rollouts=count,
            groups=len(torch.unique(index[scored])),
            silent=len(torch.unique(index[scored])) - len(torch.unique(index[value != 0])),
        )
    return Advantages(
        values=torch.stack(values, dim=1).to(torch.float32),
        rewards={name: _stats(given[:, i], scores, i) for name, i in columns.items()},
        kinds=kinds,
    )


def length_penalty(reasoning_tokens: Sequence[int], *, free: int, cap: int) -> float:
    """What the length of the reasoning costs: 0 up to ``free`` tokens, then falling linearly to -1 at ``cap``.

    Args:
        reasoning_tokens: of each turn of one kind in one rollout, reasoning alone. Tool turns and reply turns are two
            calls, with allowances of their own.

    Returns:
        The mean over the turns, in [-1, 0]: a task that needs more calls does not cost more. NaN without turns.

    Raises:
        InputError: not 0 <= free < cap.
    """
    if not 0 <= free < cap:
        raise InputError.at("length penalty", f"free {free}, cap {cap}; expected 0 <= free < cap", field="free")
    if not reasoning_tokens:
        return math.nan
    costs = [min(1.0, max(0.0, (tokens - free) / (cap - free))) for tokens in reasoning_tokens]
    return 0.0 - math.fsum(costs) / len(costs)


# ------------------------------------------------------------------------------------ within a group


@dataclass(frozen=True, slots=True)
class _Scores:
    values: Tensor
    """(rollouts, rewards), 0 where the reward does not apply."""
    applies: Tensor
    """(rollouts, rewards) bool."""
    counts: Tensor
    """(groups, rewards)"""
    flat: Tensor
    """(groups, rewards) bool: all the values there are, at least one, are equal."""


def _normalised(given: Tensor, index: Tensor, floor: float) -> _Scores:
    groups = int(index.max()) + 1
    applies = ~given.isnan()
    rows = index[:, None].expand_as(given)

    def over_group(values: Tensor) -> Tensor:
        return values.new_zeros(groups, values.shape[1]).index_add_(0, index, values)

    def extreme(how: str, beyond: float) -> Tensor:
        start = given.new_full((groups, given.shape[1]), beyond)
        return start.scatter_reduce(0, rows, given.where(applies, beyond), how)

    counts = over_group(applies.to(given.dtype))
    mean = over_group(given.where(applies, 0.0)) / counts.clamp(min=1)
    off = (given - mean[index]).where(applies, 0.0)
    std = (over_group(off.square()) / (counts - 1).clamp(min=1)).sqrt()
    flat = extreme("amin", math.inf) == extreme("amax", -math.inf)
    values = (off / std.clamp(min=floor)[index]).where(~flat[index], 0.0)
    return _Scores(values, applies, counts, flat)


def _stats(column: Tensor, scores: _Scores, i: int) -> RewardStats:
    values = column[scores.applies[:, i]]
    many = len(values) > 1
    return RewardStats(
        mean=float(values.mean()) if len(values) else math.nan,
        std=float(values.std()) if many else 0.0,
        values=len(values),
        missing=len(column) - len(values),
        groups=int((scores.counts[:, i] > 0).sum()),
        zero_variance=int(scores.flat[:, i].sum()),
    )


def _check(given: Tensor, names: Sequence[str], group: Tensor, plan: RewardPlan) -> None:
    if given.dim() != 2 or given.shape[0] == 0 or given.shape[1] != len(names):
        raise ValueError(f"rewards of shape {tuple(given.shape)}, expected (rollouts, {len(names)})")
    if group.shape != given.shape[:1] or group.is_floating_point():
        raise ValueError(f"group {group.dtype} of shape {tuple(group.shape)}, expected {len(given)} integers")
    if len(set(names)) != len(names):
        raise ValueError(f"reward names {list(names)}, expected each once")
    if given.isinf().any():
        raise ValueError("an infinite reward; expected finite numbers, or NaN where a reward does not apply")
    if lost := [name for name in plan.names if name not in names]:
        raise InputError(
            [
                Problem(path="reward plan", field=name, message=f"no such reward; expected one of {', '.join(names)}")
                for name in lost
            ]
        )
