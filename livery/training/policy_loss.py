"""The policy's loss: clipped importance ratios and advantages, one of each for every segment of a rollout.

A segment is all that a policy wrote in the turns of one kind in one rollout: its tool turns, or its reply. With
``ratio="sequence"`` a segment has one ratio (GSPO, arXiv 2507.18071), with ``"token"`` each token has (GRPO, arXiv
2402.03300). Predictions come flat, as `livery.training.packing.collate(per_row=True)` makes them: what was not written
by the policy (tool results, feedback, chat) is no prediction, and so is in neither the loss nor the KL. docs/rl-loss.md
has the formulas, and the trap that a ratio for the whole rollout leads into.

Not here: advantages (`livery.training.advantages`), sampling, the loop.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from livery.errors import InputError, Problem
from livery.training.advantages import Kind

torch: Any = importlib.import_module("torch")
Tensor = Any

Ratio = Literal["sequence", "token"]

PAPER_CLIP: dict[Ratio, tuple[float, float]] = {"sequence": (3e-4, 4e-4), "token": (0.2, 0.2)}
"""How far below and above 1 a ratio may go, as in the papers: GSPO's section 5.1, and the usual one of PPO."""

LOG_RATIO_LIMIT = 20.0
"""Logarithms of ratios are kept within this, so that one freak token cannot make a loss infinite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOptions:
    """
    Raises:
        InputError: a number out of range.
    """

    use_bias_correction_kl: bool
    """Whether each token's KL is multiplied by that token's ratio. Then the gradient is that of KL(policy ‖ reference);
    without it, that of KL(reference ‖ policy). No default: it matters whenever ``beta`` is not 0."""
    ratio: Ratio = "sequence"
    clip: tuple[float, float] | None = None
    """(below, above) 1; the paper's for this ratio if none."""
    beta: float = 0.0
    """Weight of the KL to the reference."""
    call_weight: float = 1.0
    reply_weight: float = 1.0
    """Weights of the two kinds of segment."""

    def __post_init__(self) -> None:
        problems: list[Problem] = []
        low, high = self.bounds
        if not (0 < low < 1 and 0 < high < math.inf):
            expected = "expected two numbers above 0, the first below 1"
            problems.append(Problem(path="policy loss", field="clip", message=f"({low}, {high}), {expected}"))
        for name, value in (
            ("beta", self.beta),
            ("call_weight", self.call_weight),
            ("reply_weight", self.reply_weight),
        ):
            if not (math.isfinite(value) and value >= 0):
                message = f"{value!r}, expected a finite number of at least 0"
                problems.append(Problem(path="policy loss", field=name, message=message))
        if problems:
            raise InputError(problems)

    @property
    def bounds(self) -> tuple[float, float]:
        return PAPER_CLIP[self.ratio] if self.clip is None else self.clip

    def weight(self, kind: Kind) -> float:
        return self.call_weight if kind is Kind.CALL else self.reply_weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """The segments of a batch. `segments_of` makes them."""

    index: Tensor
    """(predictions,) long: which segment each prediction belongs to. Every segment has at least one."""
    advantage: Tensor
    """(segments,) floats"""
    kind: Tensor
    """(segments,) long, a `Kind` each"""
    rollout: Tensor
    """(segments,) long"""

    def counts(self) -> Tensor:
        """(kinds,) segments of each kind."""
        return torch.bincount(self.kind, minlength=len(Kind))


def segments_of(rollout: Tensor, kind: Tensor, advantages: Tensor) -> Segments:
    """One segment for each (rollout, kind) that has a prediction.

    Args:
        rollout: (predictions,) long: a packed batch's ``row``, or another index into ``advantages``.
        kind: (predictions,) long: the `Kind` of the turn in which each token was written.
        advantages: (rollouts, kinds), `Advantages.values`.

    Raises:
        ValueError: shapes that do not fit, or an index out of range.
    """
    if rollout.shape != kind.shape or rollout.dim() != 1 or not len(rollout):
        raise ValueError(f"rollout {tuple(rollout.shape)} and kind {tuple(kind.shape)}, expected (predictions,) twice")
    if advantages.dim() != 2 or advantages.shape[1] != len(Kind):
        raise ValueError(f"advantages of shape {tuple(advantages.shape)}, expected (rollouts, {len(Kind)})")
    if int(kind.min()) < 0 or int(kind.max()) >= len(Kind):
        raise ValueError(f"kinds from {int(kind.min())} to {int(kind.max())}, expected 0 to {len(Kind) - 1}")
    if int(rollout.min()) < 0 or int(rollout.max()) >= len(advantages):
        raise ValueError(f"rollouts up to {int(rollout.max())}, expected 0 to {len(advantages) - 1}")
    codes, index = torch.unique(rollout * len(Kind) + kind, return_inverse=True)
    of_rollout = torch.div(codes, len(Kind), rounding_mode="floor")
    of_kind = codes % len(Kind)
    return Segments(
        index=index,
        advantage=advantages.to(rollout.device)[of_rollout, of_kind],
        kind=of_kind,
        rollout=of_rollout,
    )


def kinds_of_predictions(written: Sequence[Sequence[bool]], kinds: Sequence[Sequence[int]]) -> Tensor:
    """The kind of each prediction of a packed batch, in the order of `livery.training.packing.collate(per_row=True)`.

    Args:
        written: for each row, for each of its ids, whether the policy wrote it (`TokenRow.written`).
        kinds: for each row, for each of its ids, the `Kind` of the turn that it stands in. What it is where nothing was
            written does not matter.

    Returns:
        (predictions,) long

    Raises:
        ValueError: rows of unequal number or length.
    """
    flat: list[int] = []
    for mask, row in zip(written, kinds, strict=True):
        # A row's first id is read, never predicted.
        flat += [kind for own, kind in list(zip(mask, row, strict=True))[1:] if own]
    return torch.tensor(flat, dtype=torch.long)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What each segment of a batch gave, without graph: (segments,) each. `summarise` turns them into a log's lines."""

    kind: Tensor
    tokens: Tensor
    objective: Tensor
    """The clipped objective, KL left out."""
    ratio: Tensor
    """The segment's ratio; of token ratios the mean."""
    ratio_min: Tensor
    ratio_max: Tensor
    clipped_low: Tensor
    """Share of the segment (of its tokens, with token ratios) cut below, which only happens to negative advantages."""
    clipped_high: Tensor
    """The same above, with positive advantages."""
    kl: Tensor | None
    """Estimate of KL(policy ‖ reference), a mean over tokens, without bias correction. None without a reference."""
    moved: Tensor
    """Estimate of KL(sampler ‖ policy), a mean over tokens: how far the weights, or the sampler's arithmetic, are from
    those that sampled."""
    surprisal: Tensor
    """-log p, a mean over tokens: an estimate of the entropy while the policy is close to the sampler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLoss:
    loss: Tensor
    """Scalar, with its graph."""
    terms: Terms


def policy_loss(
    logp: Tensor,
    old_logp: Tensor,
    segments: Segments,
    options: LossOptions,
    *,
    ref_logp: Tensor | None = None,
    counts: Tensor | None = None,
) -> PolicyLoss:
    """Clipped loss: for each kind a mean over its segments, then a weighted sum over the kinds.

    Args:
        logp: (predictions,) log-probabilities by the policy in training, with their graph.
        old_logp: (predictions,) by the policy that sampled. In a first pass over a batch ``logp.detach()`` will do.
        ref_logp: (predictions,) by the reference; needed if ``beta`` is not 0, else only measured.
        counts: (kinds,) divide by these instead of the batch's own segments of each kind: those of the whole optimizer
            step, where it is split over batches and processes. Where gradients are averaged over processes, divide the
            counts by the number of processes.

    Raises:
        ValueError: shapes that do not fit, a number that is not finite, a missing reference.
    """
    if options.beta > 0 and ref_logp is None:
        raise ValueError("beta is not 0, which needs ref_logp")
    given = [logp, old_logp] if ref_logp is None else [logp, old_logp, ref_logp]
    if any(t.shape != segments.index.shape for t in given):
        shapes = ", ".join(str(tuple(t.shape)) for t in given)
        raise ValueError(f"log-probabilities of shapes {shapes}, expected {tuple(segments.index.shape)}")
    if not all(bool(t.isfinite().all()) for t in (*given, segments.advantage)):
        raise ValueError("log-probabilities or advantages that are not finite")
    low, high = options.bounds
    now, old = logp.float(), old_logp.detach().float()
    advantage = segments.advantage.to(now.dtype)
    tokens = torch.bincount(segments.index, minlength=len(advantage))
    if len(tokens) != len(advantage) or not bool((tokens > 0).all()):
        raise ValueError("a segment without predictions, or a prediction without its segment")

    def mean(values: Tensor) -> Tensor:
        """Over the tokens of each segment."""
        return values.new_zeros(len(advantage)).index_add(0, segments.index, values) / tokens

    def extreme(values: Tensor, how: str) -> Tensor:
        start = values.new_zeros(len(advantage))
        return start.scatter_reduce(0, segments.index, values, how, include_self=False)

    log_ratio = _bounded(now - old)
    token_ratio = log_ratio.exp()
    if options.ratio == "sequence":
        ratio, weigh = _bounded(mean(now - old)).exp(), advantage
    else:
        ratio, weigh = token_ratio, advantage[segments.index]
    clipped = ratio.clamp(1 - low, 1 + high)
    objective = torch.minimum(ratio * weigh, clipped * weigh)
    cut_low = ((ratio < 1 - low) & (weigh < 0)).to(now.dtype)
    cut_high = ((ratio > 1 + high) & (weigh > 0)).to(now.dtype)
    lowest = highest = middle = ratio
    if options.ratio == "token":
        lowest, highest = extreme(ratio.detach(), "amin"), extreme(ratio.detach(), "amax")
        middle, objective, cut_low, cut_high = mean(ratio), mean(objective), mean(cut_low), mean(cut_high)

    loss_of_segment: Tensor = -objective
    kl: Tensor | None = None
    if ref_logp is not None:
        per_token = k3(now, ref_logp.detach().float())
        kl = mean(per_token).detach()
        if options.beta > 0:
            charged = token_ratio * per_token if options.use_bias_correction_kl else per_token
            loss_of_segment = loss_of_segment + options.beta * mean(charged)

    divisor = (segments.counts() if counts is None else counts).to(now).clamp(min=1e-9)
    weight = torch.tensor([options.weight(kind) for kind in Kind]).to(now)
    loss = (loss_of_segment * (weight / divisor)[segments.kind]).sum()
    return PolicyLoss(
        loss=loss,
        terms=Terms(
            kind=segments.kind,
            tokens=tokens,
            objective=objective.detach(),
            ratio=middle.detach(),
            ratio_min=lowest.detach(),
            ratio_max=highest.detach(),
            clipped_low=cut_low,
            clipped_high=cut_high,
            kl=kl,
            moved=mean((token_ratio - 1 - log_ratio).detach()),
            surprisal=mean(-now.detach()),
        ),
    )


def k3(logp: Tensor, ref_logp: Tensor) -> Tensor:
    """Estimate of KL(policy ‖ reference) at each token: r - 1 - log r with r = reference / policy. Never negative.

    Source: http://joschu.net/blog/kl-approx.html, as in GRPO (arXiv 2402.03300, equation 4).
    """
    log_r = _bounded(ref_logp - logp)
    return log_r.exp() - 1 - log_r


def _bounded(log_ratio: Tensor) -> Tensor:
    return log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


def summarise(terms: Sequence[Terms], *, truncated: Sequence[bool] | None = None) -> dict[str, float]:
    """What a log keeps of an optimizer step: means over segments, by kind; nothing for a kind without segments.

    Args:
        terms: of each batch of the step.
        truncated: for each rollout, whether it was cut by a limit of tokens or rounds.
    """
    flat: dict[str, float] = {}
    if truncated:
        flat["truncated_share"] = sum(truncated) / len(truncated)
    for kind in Kind:
        chosen = [(one, one.kind == kind) for one in terms]

        def values(name: str, chosen: list[tuple[Terms, Tensor]] = chosen) -> Tensor:
            given = [(getattr(one, name), mask) for one, mask in chosen]
            return torch.cat([torch.zeros(0), *(t[mask].float().cpu() for t, mask in given if t is not None)])

        if not len(values("tokens")):
            continue
        flat[f"{kind.label}/segments"] = float(len(values("tokens")))
        flat[f"{kind.label}/ratio_min"] = float(values("ratio_min").min())
        flat[f"{kind.label}/ratio_max"] = float(values("ratio_max").max())
        for name in ("tokens", "objective", "ratio", "clipped_low", "clipped_high", "kl", "moved", "surprisal"):
            if len(values(name)):
                flat[f"{kind.label}/{name}"] = float(values(name).mean())
    return flat


# ------------------------------------------------------------------------ whether the ratio does anything


def acts(*, num_iterations: int, steps_per_generation: int, accumulation: int) -> bool:
    """Whether some batch meets weights other than those that sampled it, so that its ratio can leave 1.

    A generation lasts ``steps_per_generation * num_iterations`` batches, the weights change after each
    ``accumulation`` batches. Only if a change can fall within a generation is there a ratio to clip. Else each is 1 in
    exact arithmetic, and the gradient is that of REINFORCE with a mean over each segment's tokens.

    Args:
        num_iterations: passes over what was generated.
        steps_per_generation: batches into which what was generated at once is split.
        accumulation: batches to an optimizer step.

    Raises:
        InputError: one of them below 1.
    """
    given = {
        "num_iterations": num_iterations,
        "steps_per_generation": steps_per_generation,
        "accumulation": accumulation,
    }
    if low := [name for name, value in given.items() if value < 1]:
        raise InputError(
            [Problem(path="policy loss", field=n, message=f"{given[n]}, expected at least 1") for n in low]
        )
    return accumulation % (num_iterations * steps_per_generation) != 0


def check_acts(*, num_iterations: int, steps_per_generation: int, accumulation: int) -> None:
    """
    Raises:
        InputError: no batch is reused, so that clipping and the choice of ratio would do nothing.
    """
    if not acts(num_iterations=num_iterations, steps_per_generation=steps_per_generation, accumulation=accumulation):
        raise InputError.at(
            "policy loss",
            f"{accumulation} batches to an optimizer step hold whole generations of {steps_per_generation} batches x "
            f"{num_iterations} passes: every ratio would be 1 and clipping would do nothing; expected more passes "
            "(num_iterations), or more batches to a generation (steps_per_generation) than to a step",
            field="num_iterations",
        )
