"""What an RL run is made of: its options, which of them the importance ratio cannot bear, and its result.

A ratio of probabilities is right only if tokens were drawn from the distribution whose probabilities it uses: the
model's own, at temperature 1, whole. `Sampling` refuses everything else. This module needs no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from livery.errors import InputError, Problem

NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {
    "temperature": (1,),
    "top_p": (1,),
    "top_k": (0, -1),
    "min_p": (0,),
    "typical_p": (1,),
    "repetition_penalty": (1,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "n": (1,),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "logit_bias": (None, {}),
    "bad_words": (None, []),
    "allowed_token_ids": (None,),
    "grammar": (None, ""),
    "structured_outputs": (None,),
    "guided_json": (None,),
    "guided_regex": (None,),
    "guided_grammar": (None,),
    "response_format": (None,),
    "logits_processors": (None, []),
    "stop": (None, []),
}
"""Settings of samplers, and the values with which they change nothing. A stop string would cut a turn short of the ids
that the model wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How tokens are drawn: from the model's whole distribution at temperature 1. What is given here may only say so
    again, or be a setting of the server that does not touch the distribution.

    Raises:
        InputError: a setting that changes the distribution tokens are drawn from.
    """

    given: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        problems = [
            Problem(
                path="sampling",
                field=name,
                message=f"{value!r} draws from another distribution than the one the importance ratio is taken of; "
                f"expected {' or '.join(repr(v) for v in NEUTRAL[name])}, or the setting left out",
                code="rl-sampling",
            )
            for name, value in self.given.items()
            if name in NEUTRAL and value not in NEUTRAL[name]
        ]
        if problems:
            raise InputError(problems)

    @property
    def extra(self) -> dict[str, Any]:
        """What is left for a server: settings that do not touch the distribution."""
        return {name: value for name, value in self.given.items() if name not in NEUTRAL}


def _call_rewards() -> dict[str, float]:
    return {"tool_rationality": 1.0, "skill_selection": 1.0, "call_length": 0.5}


def _reply_rewards() -> dict[str, float]:
    return {"accuracy": 1.0, "effectiveness": 1.0, "reply_length": 0.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class RlOptions:
    out: Path
    model: str = ""
    """A folder, a hub name or a GGUF file; empty: the embedded model."""
    lora: Path | None = None
    """Adapter of supervised training or distillation, which is trained on."""
    lora_rank: int = 0
    """Where no adapter is given: of a new one on ``model``; 0: all weights."""
    lora_alpha: float = 0.0
    """0: twice the rank."""

    tasks: int = 1000
    """Tasks for each harness, of the train split."""
    task_seed: int = 700_000
    """Of their worlds; far from those that data building uses."""
    base_share: float = 0.2
    """Share of the tasks that are played under the harness as it is; the others under a variant each. 1: none."""
    strength: float = 0.5
    """How much a variant changes."""
    dimensions: tuple[str, ...] = ()
    """Only operators of these; empty: all."""

    group: int = 4
    """Rollouts of a task."""
    groups_a_batch: int = 1
    """Groups that run through the model together, for each process."""
    accumulate: int = 4
    """Batches an optimizer step."""
    updates: int = 2
    """Optimizer steps for which the rollouts of one generation last, in one pass over them."""
    passes: int = 1
    """Passes over the rollouts of a generation."""
    steps: int = 0
    """Optimizer steps; 0: as many as meet each task once."""

    call_rewards: Mapping[str, float] = field(default_factory=_call_rewards)
    """Name -> weight in the advantage of tool turns."""
    reply_rewards: Mapping[str, float] = field(default_factory=_reply_rewards)
    """The same of the reply."""
    call_free: int = 0
    """Tokens of reasoning in a tool turn that cost nothing."""
    call_cap: int = 512
    """Tokens of reasoning in a tool turn that cost all."""
    reply_free: int = 0
    reply_cap: int = 256
    reward_floor: float = 0.05
    """Least standard deviation of a reward within its group."""
    batch_floor: float = 0.1
    """The same for the whitening over the batch."""

    ratio: Literal["sequence", "token"] = "sequence"
    """One importance ratio a segment (GSPO) or one a token (GRPO)."""
    clip: tuple[float, float] | None = None
    """(below, above) 1; None: the paper's for this ratio."""
    beta: float = 0.0
    """Weight of the KL to the policy as it was at the start; 0: none, and no reference is computed."""
    use_bias_correction_kl: bool = True
    """Whether each token's KL is multiplied by its ratio, which makes the gradient that of KL(policy ‖ reference)."""
    call_weight: float = 1.0
    reply_weight: float = 1.0
    """Weights of the two kinds of segment in the loss."""
    old: Literal["sampler", "recomputed"] = "sampler"
    """Whose log-probabilities stand below the ratio: those the sampler gave, or the trainer's own before the first
    update, for samplers of other arithmetic (bfloat16, a server)."""
    max_difference: float = 0.01
    """With ``sampler``: largest mean difference, in nats a token, between the sampler's log-probabilities and the
    trainer's on the first batch."""

    learning_rate: float = 2e-5
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup: float = 0.0
    """Share of the steps."""
    weight_decay: float = 0.0
    max_norm: float = 1.0
    """Largest norm of the gradient."""

    max_tokens: int = 4096
    """Most tokens of a conversation."""
    concurrency: int = 64
    """Conversations that are under way at a time."""
    batch: int = 16
    """Turns decoded together in this process."""
    prefix_mib: int = 512
    """Memory for kept beginnings in this process."""
    patience_s: float = 3600.0
    """Longest a conversation may take. One that takes longer counts as not played."""
    sampling: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further settings of the sampler; those that bias the ratio are refused (`Sampling`)."""
    server: str = ""
    """URL of a vLLM server that samples; empty: this process does."""
    server_port: int = 51216
    """Port by which weights go to the server."""

    start_floor: float = 0.5
    """Least share of successful rollouts in the first generation."""
    force_start: bool = False
    """Start from a policy below the floor too."""

    packing: Literal["auto", "tree", "mask", "rows"] = "auto"
    save_every: int = 5
    """Generations between checkpoints."""
    keep: int = 2
    """Checkpoints that are kept."""
    log_every: int = 1
    seed: int = 0
    dtype: str = "float32"
    checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, more time."""
    cpu: bool = False
    """Stay on the CPU where there is an accelerator too."""

    def __post_init__(self) -> None:
        Sampling(given=self.sampling)
        problems: list[Problem] = []

        def wrong(name: str, expected: str) -> None:
            found = getattr(self, name)
            problems.append(Problem(path="rl options", field=name, message=f"{found!r}; expected {expected}"))

        for name in (
            "tasks",
            "groups_a_batch",
            "accumulate",
            "updates",
            "passes",
            "concurrency",
            "batch",
            "save_every",
        ):
            if getattr(self, name) < 1:
                wrong(name, "at least 1")
        if self.group < 2:
            wrong("group", "at least 2: a rollout is compared with others of its task")
        for name in ("base_share", "strength", "start_floor", "warmup"):
            if not 0 <= getattr(self, name) <= 1:
                wrong(name, "0 to 1")
        for name in ("steps", "beta"):
            if getattr(self, name) < 0:
                wrong(name, "at least 0")
        if self.lora and self.lora_rank:
            wrong("lora_rank", "0 beside an adapter, which has its own")
        if not self.server and Sampling(given=self.sampling).extra:
            wrong("sampling", "no settings of a server, since this process samples")
        if problems:
            raise InputError(problems)

    @property
    def steps_a_generation(self) -> int:
        """Optimizer steps."""
        return self.updates * self.passes


FREE: Final = ("save_every", "keep", "log_every", "cpu", "force_start", "concurrency", "server_port")
"""Options that may change when a run goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RlResult:
    steps: int
    generations: int
    rollouts: int
    first: Mapping[str, float]
    """Mean rewards, success and reasoning tokens over the first tenth of the generations."""
    last: Mapping[str, float]
    """The same over the last tenth."""
    difference: float
    """Mean difference between the sampler's log-probabilities and the trainer's over the first batches of all
    generations, in nats a token."""
    rollout_s: float
    """Seconds in which conversations were played; all times are of the whole run, resumed parts included."""
    scoring_s: float
    """Verifier and advantages."""
    logprob_s: float
    """Forward passes without gradient: reference, and recomputed log-probabilities."""
    update_s: float
    """Forward and backward passes and the optimizer."""
    sampled_tokens: int
    read_tokens: int
    """Tokens that ran through the model in updates, shared beginnings once."""
    row_tokens: int
    """The same, had each rollout been a row of its own."""
    sampled_tokens_a_second: float
    """Of the rollout's time."""
    row_tokens_a_second: float
    """Of the update's time."""
    resumed_at: int
    """Step of the checkpoint from which it went on; 0: from the beginning."""
    seconds: float
    """Of this start, without loading."""
    packing: str
