"""The trainer of RL: TRL's GRPOTrainer with two advantages a rollout, a ratio for each segment, and packed groups.

Of GRPOTrainer it keeps the sampler of prompts, the counting of steps and generations, the ``rollout_func`` contract,
weights to a vLLM server, and the Trainer below it. Replaced are what makes (rows, columns) batches, advantages and loss
out of what rollouts return: they know one advantage a row, and padding leaves nothing to share.

Not here: what is played (`livery.training.rl_rollouts`), and a run from start to card (`livery.training.rl`).
"""

from __future__ import annotations

import importlib
import math
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from livery.errors import InputError
from livery.policies.hf_loading import ChatTokenizer
from livery.training.advantages import Kind, RewardPlan, gdpo
from livery.training.conversations import TokenRow
from livery.training.packing import Batch, Packing, collate, logprobs
from livery.training.policy_loss import (
    LossOptions,
    Segments,
    Terms,
    check_acts,
    kinds_of_predictions,
    policy_loss,
    segments_of,
    summarise,
)
from livery.training.rl_options import RlOptions
from livery.training.rl_rollouts import Sample, samples_of

torch: Any = importlib.import_module("torch")
trl: Any = importlib.import_module("trl")
transformers: Any = importlib.import_module("transformers")
_accelerate: Any = importlib.import_module("accelerate.utils")
Tensor = Any

RolloutFunc = Callable[[Sequence[str], Any], dict[str, Any]]
"""TRL's: from prompts, as they stand in the batch, and the trainer to ``prompt_ids``, ``completion_ids``, ``logprobs``,
with ``env_mask``, ``kinds``, ``rewards`` and ``outcome`` beside them (`livery.training.rl_rollouts.Rollouts`)."""

SUMS = ("rollout_s", "scoring_s", "logprob_s", "update_s", "rollouts", "sampled_tokens", "read_tokens", "row_tokens")
"""What a log's line adds up over its steps; the run card adds up the lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RlBatch:
    """Groups that run through the model together."""

    packed: Batch | None
    """Of `livery.training.packing.collate`, one prediction for each row and token; None: nothing was written."""
    segments: Segments | None
    sampler: Tensor
    """(predictions,) log-probabilities by the sampler."""
    old: Tensor
    """(predictions,) those below the ratio."""
    reference: Tensor | None
    """(predictions,)"""
    counts: Tensor
    """(kinds,) segments of the whole optimizer step, divided by the processes."""
    truncated: list[bool]
    row_tokens: int


class Reference:
    """The policy as it was when this was made: a copy of what is trained, put in place for a forward pass. With LoRA
    that is the adapter alone."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._kept = [p.detach().clone() for p in self._trained()]

    def _trained(self) -> list[Any]:
        return [p for p in self._model.parameters() if p.requires_grad]

    def _swap(self) -> None:
        for i, parameter in enumerate(self._trained()):
            parameter.data, self._kept[i] = self._kept[i], parameter.data

    @contextmanager
    def in_place(self) -> Generator[None]:
        self._kept = [kept.to(p.device) for kept, p in zip(self._kept, self._trained(), strict=True)]
        self._swap()
        try:
            yield
        finally:
            self._swap()


def rewards_come_with_rollouts(**given: Any) -> list[float]:
    """In the place of a reward function, which TRL's trainer wants one of; its rewards are never asked for."""
    raise NotImplementedError("rewards come with the rollouts")


class RlTrainer(trl.GRPOTrainer):
    """See the module."""

    def __init__(
        self,
        *,
        options: RlOptions,
        rollout_func: RolloutFunc,
        tokenizer: ChatTokenizer,
        packing: Packing,
        **arguments: Any,
    ) -> None:
        """
        Args:
            arguments: as TRL has them.

        Raises:
            InputError: what samples, or the reference, cannot work with weights that are spread over processes; or no
                batch is used again, so that the ratio does nothing.
        """
        check_acts(
            num_iterations=options.passes,
            steps_per_generation=options.accumulate * options.updates,
            accumulation=options.accumulate,
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*rollout_func.*experimental", category=UserWarning)
            super().__init__(  # pyright: ignore[reportUnknownMemberType]
                reward_funcs=[rewards_come_with_rollouts], rollout_func=rollout_func, **arguments
            )
        self.rl = options
        self.plan = reward_plan(options)
        self.loss_options = loss_options(options)
        self._chat = tokenizer
        self._packing = packing
        self._refuse_spread()
        self._reference = Reference(self.model) if options.beta > 0 else None
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._means: defaultdict[str, list[float]] = defaultdict(list)
        self._terms: list[Terms] = []
        self._truncated: list[bool] = []
        self._step_began = 0.0
        self.add_callback(_Clock(self))

    def _refuse_spread(self) -> None:
        plugin = getattr(self.accelerator.state, "deepspeed_plugin", None)
        spread = bool(self.is_fsdp_enabled or (plugin is not None and plugin.zero_stage == 3))
        if spread and not self.rl.server:
            raise InputError.at(
                "rl options",
                "empty, but weights that are sharded over processes cannot sample in them; expected --server URL of a "
                "vLLM server",
                field="server",
                code="rl-sharded",
            )
        if self.rl.beta > 0 and (spread or self.is_deepspeed_enabled):
            raise InputError.at(
                "rl options",
                f"{self.rl.beta}, but the reference is a copy of weights that are whole in each process; expected 0 "
                "under FSDP and DeepSpeed",
                field="beta",
                code="rl-sharded",
            )

    # ------------------------------------------------------------------------------------- a generation

    def _prepare_inputs(self, generation_batch: list[dict[str, Any]]) -> RlBatch:
        """The next batch; at the beginning of a generation all of its batches are made first."""
        if self._step % (self.args.steps_per_generation * self.num_iterations) == 0 or self._buffered_inputs is None:
            self._buffered_inputs: Any = self._generation([x["prompt"] for x in generation_batch])
        batches: list[RlBatch] = self._buffered_inputs
        at: int = self._step % self.args.steps_per_generation
        return batches[at]

    def _generation(self, prompts: list[str]) -> list[RlBatch]:
        """
        Args:
            prompts: this process's, whole groups behind one another.
        """
        groups = _groups(prompts, self.num_generations)
        began = time.perf_counter()
        if self.use_vllm and self.state.global_step != self._last_loaded_step:
            self.vllm_generation.sync_weights()
            self._last_loaded_step: int = self.state.global_step
        output = self.rollout_func(prompts, self)
        samples = samples_of(output, len(prompts))
        scoring_s = float(output.get("scoring_s", 0.0))
        played = time.perf_counter()
        advantages = self._advantages(samples, groups)
        scored = time.perf_counter()
        batches = self._batches(samples, advantages)
        self._sums["rollout_s"] += played - began - scoring_s
        self._sums["scoring_s"] += scored - played + scoring_s
        self._sums["logprob_s"] += time.perf_counter() - scored
        return batches

    def _advantages(self, samples: Sequence[Sample], groups: list[int]) -> Tensor:
        """(rollouts of this process, kinds); whitened over those of all. Notes what is worth a log's line."""
        names = list(samples[0].rewards)
        mine = torch.tensor([[s.rewards[name] for name in names] for s in samples], dtype=torch.float64)
        size, first = len(samples), self.accelerator.process_index * len(samples)
        ids = torch.tensor(groups) + first
        device = self.accelerator.device
        kind = torch.float32 if device.type == "mps" else torch.float64
        everyone = self.accelerator.gather(mine.to(device, kind)).cpu().double()
        advantages = gdpo(everyone, names, self.accelerator.gather(ids.to(device)).cpu(), self.plan)
        outcomes: list[Mapping[str, float]] = _accelerate.gather_object([s.outcome for s in samples])
        self._note(advantages.metrics())
        self._note({f"outcome/{name}": mean([o[name] for o in outcomes]) for name in outcomes[0]})
        self._sums["rollouts"] += len(outcomes)
        written = torch.tensor(sum(sum(s.written) for s in samples), device=device)
        self._sums["sampled_tokens"] += int(self.accelerator.gather(written).sum())
        self._check_start(mean([o.get("success", math.nan) for o in outcomes]))
        return advantages.values[first : first + size]

    def _check_start(self, success: float) -> None:
        if self.state.global_step or self.rl.force_start or math.isnan(success) or success >= self.rl.start_floor:
            return
        raise InputError.at(
            self.args.output_dir,
            f"{success:.0%} of the first rollouts succeeded, fewer than {self.rl.start_floor:.0%}: groups in which "
            "nobody succeeds teach nothing. Expected a policy that does most tasks already: train it longer with "
            "`livery train sft`, or start from here all the same with --force-start",
            field="start_floor",
            code="rl-start",
        )

    def _batches(self, samples: Sequence[Sample], advantages: Tensor) -> list[RlBatch]:
        size = self.args.per_device_train_batch_size
        batches = [self._batch(samples[i : i + size], advantages[i : i + size]) for i in range(0, len(samples), size)]
        done: list[RlBatch] = []
        for first in range(0, len(batches), self.rl.accumulate):
            step = batches[first : first + self.rl.accumulate]
            counts: Tensor = torch.zeros(len(Kind), dtype=torch.long)
            for batch in step:
                counts = counts + batch.segments.counts() if batch.segments else counts
            counts = self.accelerator.gather(counts.to(self.accelerator.device)[None]).sum(0)
            done += [replace(b, counts=counts / self.accelerator.num_processes) for b in step]
        return done

    def _batch(self, samples: Sequence[Sample], advantages: Tensor) -> RlBatch:
        rows = [TokenRow(ids=s.ids, written=s.written) for s in samples]
        # As `collate` asks: a row's first id is read, never predicted.
        flat = [p for s in samples for p, own in zip(s.logprobs[1:], s.written[1:], strict=True) if own]
        made = RlBatch(
            packed=None,
            segments=None,
            sampler=torch.tensor(flat),
            old=torch.tensor(flat),
            reference=None,
            counts=torch.zeros(len(Kind)),
            truncated=[bool(s.outcome.get("truncated", 0.0)) for s in samples],
            row_tokens=sum(len(s.ids) for s in samples),
        )
        if not flat:
            return made
        device = self.accelerator.device
        packed = collate(rows, self._packing.kind, pad=self._chat.pad, per_row=True)
        kinds = kinds_of_predictions([s.written for s in samples], [s.kinds for s in samples])
        segments = segments_of(packed["row"], kinds, advantages)
        on_device = {n: v.to(device) if torch.is_tensor(v) else v for n, v in packed.items()}
        old = made.sampler if self.rl.old == "sampler" else self._without_gradient(on_device).cpu()
        reference = None
        if self._reference:
            with self._reference.in_place():
                reference = self._without_gradient(on_device).cpu()
        return replace(made, packed=packed, segments=segments, old=old, reference=reference)

    def _without_gradient(self, packed: Mapping[str, Any]) -> Tensor:
        with torch.no_grad():
            return logprobs(self.model_wrapped if self.model_wrapped is not None else self.model, packed)[0]

    # ------------------------------------------------------------------------------------------- the loss

    def compute_loss(
        self, model: Any, inputs: RlBatch, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        if inputs.packed is None or inputs.segments is None:
            return sum((p.sum() * 0.0 for p in model.parameters() if p.requires_grad), torch.tensor(0.0))
        device = self.accelerator.device
        packed = {n: v.to(device) if torch.is_tensor(v) else v for n, v in inputs.packed.items()}
        given, _ = logprobs(model, packed)
        if self._step % (self.args.steps_per_generation * self.num_iterations) == 0:
            self._compare(given.detach().cpu(), inputs.sampler)
        s = inputs.segments
        result = policy_loss(
            given,
            inputs.old.to(device),
            Segments(
                index=s.index.to(device),
                advantage=s.advantage.to(device),
                kind=s.kind.to(device),
                rollout=s.rollout.to(device),
            ),
            self.loss_options,
            ref_logp=None if inputs.reference is None else inputs.reference.to(device),
            counts=inputs.counts.to(device),
        )
        self._terms.append(result.terms)
        self._truncated += inputs.truncated
        self._sums["read_tokens"] += packed["input_ids"].numel()
        self._sums["row_tokens"] += inputs.row_tokens
        return result.loss

    def _compare(self, ours: Tensor, sampler: Tensor) -> None:
        """How far the sampler's arithmetic is from the trainer's, before any update."""
        difference = (ours - sampler).abs()
        mean = float(difference.mean())
        self._note({"sampler/difference": mean, "sampler/difference_max": float(difference.max())})
        if self.state.global_step == 0 and self.rl.old == "sampler" and mean > self.rl.max_difference:
            raise InputError.at(
                self.args.output_dir,
                f"the sampler's log-probabilities are {mean:.2g} nats a token from the trainer's for the same weights, "
                f"more than {self.rl.max_difference:g}; the ratios would be of the arithmetic, not of the updates. "
                "Expected --old recomputed with such a sampler",
                field="old",
                code="rl-sampler",
            )

    # -------------------------------------------------------------------------------------------- the log

    def _note(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            if not math.isnan(value):
                self._means[name].append(value)

    def step_begins(self) -> None:
        self._step_began = time.perf_counter()
        self._before = sum(self._sums[name] for name in ("rollout_s", "scoring_s", "logprob_s"))

    def step_ends(self) -> None:
        other = sum(self._sums[name] for name in ("rollout_s", "scoring_s", "logprob_s")) - self._before
        self._sums["update_s"] += time.perf_counter() - self._step_began - other

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        self._metrics["train"].clear()
        if "loss" in logs:
            tokens = torch.tensor([self._sums["read_tokens"], self._sums["row_tokens"]], device=self.accelerator.device)
            everyone = self.accelerator.gather(tokens.double()[None]).sum(0).tolist()
            self._sums["read_tokens"], self._sums["row_tokens"] = everyone
            logs.update({name: self._sums[name] for name in SUMS})
            logs["sampled_tokens_a_second"] = rate(self._sums["sampled_tokens"], self._sums["rollout_s"])
            logs["row_tokens_a_second"] = rate(self._sums["row_tokens"], self._sums["update_s"])
            logs.update({name: mean(values) for name, values in self._means.items()})
            logs.update(summarise(self._terms, truncated=self._truncated))
            self._sums.clear()
            self._means.clear()
            self._terms, self._truncated = [], []
        super().log(logs, start_time)  # pyright: ignore[reportUnknownMemberType]


class _Clock(transformers.TrainerCallback):
    """Tells the trainer where a step begins and ends, optimizer included."""

    def __init__(self, trainer: RlTrainer) -> None:
        self._trainer = trainer

    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._trainer.step_begins()

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._trainer.step_ends()


def reward_plan(options: RlOptions) -> RewardPlan:
    return RewardPlan(
        call=options.call_rewards,
        reply=options.reply_rewards,
        reward_floor=options.reward_floor,
        batch_floor=options.batch_floor,
    )


def loss_options(options: RlOptions) -> LossOptions:
    return LossOptions(
        use_bias_correction_kl=options.use_bias_correction_kl,
        ratio=options.ratio,
        clip=options.clip,
        beta=options.beta,
        call_weight=options.call_weight,
        reply_weight=options.reply_weight,
    )


def _groups(prompts: Sequence[str], size: int) -> list[int]:
    """For each prompt the number of its group.

    Raises:
        ValueError: the prompts are not groups of ``size`` behind one another.
    """
    chunks = [prompts[i : i + size] for i in range(0, len(prompts), size)]
    if any(len(set(chunk)) != 1 or len(chunk) != size for chunk in chunks) or len({c[0] for c in chunks}) < len(chunks):
        raise ValueError(f"prompts {list(prompts)}, expected groups of {size} equal ones")
    return [i for i, chunk in enumerate(chunks) for _ in chunk]


def mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def rate(amount: float, seconds: float) -> float:
    return amount / seconds if seconds > 0 else 0.0
