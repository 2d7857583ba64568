"""Reinforcement learning under many harnesses, from options to a model and its card.

A generation plays tasks in groups (`livery.training.rl_rollouts`), earns rewards from the verifier, turns them into two
advantages a rollout, one for its tool turns and one for its reply (`livery.training.advantages`), and is learned from
in several optimizer steps (`livery.training.policy_loss`). Rollouts of a group share their prompt and run through the
model as one tree (`livery.training.packing`). The trainer is `livery.training.rl_trainer`.

Not here: evaluation, and a reward model. docs/rl.md.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from livery.harness.model import Harness
from livery.policies.hf import HfOptions, HfPolicy
from livery.policies.hf_loading import ChatTokenizer, load_model, load_tokenizer, weights_digest
from livery.policies.policy import Policy
from livery.simulator.task import Task
from livery.simulator.tasks import make_tasks
from livery.training.data import recipe_harnesses, tasks_digest
from livery.training.packing import Packing, choose_packing
from livery.training.rl_options import FREE, RlOptions, RlResult, Sampling
from livery.training.rl_rollouts import AgentRollouts, plan_jobs
from livery.training.rl_server import ServerPolicy
from livery.training.rl_trainer import SUMS, RlTrainer, RolloutFunc, mean, rate
from livery.training.run_card import versions, write_run_card
from livery.training.stage import Bar, leave_group, prepare_run, trainer_settings, with_adapter, with_lora

trl: Any = importlib.import_module("trl")
datasets: Any = importlib.import_module("datasets")
transformers: Any = importlib.import_module("transformers")

_log = logging.getLogger("livery.training")


class _Bar(Bar):
    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any], **more: Any) -> None:
        if "outcome/success" in logs:
            note = f"{logs['outcome/success']:.0%} succeed, {logs['outcome/tokens']:.0f} tokens"
            self._bar.update(self._task, note=note)


def train_rl(
    options: RlOptions,
    harnesses: Mapping[str, Harness],
    *,
    fresh: bool = False,
    say: Callable[[str], None] = _log.info,
    progress: bool = False,
) -> RlResult:
    """Train, or go on training.

    Args:
        harnesses: by name; each gets ``options.tasks`` tasks in its language.
        fresh: delete what an earlier run left in ``out``; otherwise the run goes on from its last checkpoint.
        say: gets a line about each thing worth knowing before the first step.
        progress: draw a bar on standard error.

    Raises:
        InputError: options, model and harnesses do not fit one another, ``out`` holds a run of other options, or the
            policy does too few tasks to begin with.
    """
    tasks: dict[str, list[Task]] = {
        name: make_tasks("train", "zh" if one.language.startswith("zh") else "en", options.tasks, options.task_seed)
        for name, one in harnesses.items()
    }
    _, prompts = schedule(options, sum(map(len, tasks.values())))
    tokenizer = load_tokenizer(options.model)
    model = load_model(options.model, dtype=options.dtype)
    if options.lora:
        model = with_adapter(model, options.lora)
    data = {
        "harnesses": recipe_harnesses(harnesses),
        "split": "train",
        "tasks": sum(map(len, tasks.values())),
        "tasks_sha256": tasks_digest([(name, task) for name, own in tasks.items() for task in own]),
    }
    jobs = plan_jobs(options, tasks, harnesses, prompts)
    rollouts = AgentRollouts(jobs=jobs, options=options, policy=Sampler(options, tokenizer))
    try:
        return rl(options, rollouts, model, tokenizer, data=data, fresh=fresh, say=say, progress=progress)
    finally:
        rollouts.runner.close()
        leave_group()


def rl(
    options: RlOptions,
    rollout_func: RolloutFunc,
    model: Any,
    tokenizer: ChatTokenizer,
    *,
    data: Mapping[str, Any],
    fresh: bool = False,
    say: Callable[[str], None] = _log.info,
    callbacks: Sequence[Any] = (),
    progress: bool = False,
) -> RlResult:
    """`train_rl` with everything loaded.

    Args:
        rollout_func: given prompts "0", "1", ... in the order of the run, each ``options.group`` times.
        model: a peft model whose adapter is trained, or a model, which gets a new adapter where ``options.lora_rank``
            says so.
        data: for the card: what is played. Its ``tasks`` says how many, where ``options.steps`` is 0.
    """
    steps, prompts = schedule(options, int(data.get("tasks", 0)))
    card = _run_card(options, tokenizer, data)
    resume = prepare_run(options.out, card, fresh=fresh, free=FREE)
    if options.lora_rank:
        model = with_lora(model, rank=options.lora_rank, alpha=options.lora_alpha, seed=options.seed)
    packing = choose_packing(model, options.packing)
    say(f"packing: {packing.kind}" + (f" ({packing.reason})" if packing.reason else ""))
    if resume:
        say(f"going on from {resume.name}")
    trainer = RlTrainer(
        options=options,
        rollout_func=rollout_func,
        tokenizer=tokenizer,
        packing=packing,
        model=model,
        args=_config(options, steps),
        train_dataset=datasets.Dataset.from_dict({"prompt": [str(i) for i in range(prompts)]}),
        processing_class=tokenizer.tokenizer,
        callbacks=[*callbacks, *([_Bar(f"rl {options.out.name}")] if progress else [])],
    )
    trainer.remove_callback(transformers.PrinterCallback)  # pyright: ignore[reportUnknownMemberType]
    began = time.perf_counter()
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    seconds = time.perf_counter() - began
    trainer.save_model(str(options.out / "model"))
    logged: list[dict[str, Any]] = trainer.state.log_history
    result = _result(logged, steps=trainer.state.global_step, resume=resume, seconds=seconds, packing=packing)
    if trainer.is_world_process_zero():
        _picture(options.out, logged, title=f"RL, {result.rollouts} rollouts in {result.generations} generations")
        write_run_card(options.out, {**card, "result": asdict(result)}, logged)
    return result


def schedule(options: RlOptions, tasks: int) -> tuple[int, int]:
    """(optimizer steps, prompts of the whole run, each of which is played ``options.group`` times)."""
    at_once = options.groups_a_batch * options.accumulate * options.updates * int(os.environ.get("WORLD_SIZE", "1"))
    steps = options.steps or max(1, -(-tasks // at_once)) * options.steps_a_generation
    return steps, -(-steps // options.steps_a_generation) * at_once


class Sampler:
    """The policy that samples, with the trainer's weights as they are now: in this process, or on its server."""

    def __init__(self, options: RlOptions, tokenizer: ChatTokenizer) -> None:
        self._options = options
        self._tokenizer = tokenizer
        self._policy: HfPolicy | None = None
        self._client: Any = None

    def __call__(self, trainer: Any) -> Policy:
        weights = f"step-{trainer.state.global_step}"
        if self._options.server:
            # TRL opens one in the first process, which also sends the weights.
            self._client = self._client or getattr(trainer.vllm_generation, "vllm_client", None)
            if self._client is None:
                clients: Any = importlib.import_module("trl.generation.vllm_client")
                self._client = clients.VLLMClient(base_url=self._options.server)
            return ServerPolicy(
                self._client,
                self._tokenizer,
                context=self._options.max_tokens,
                extra=Sampling(given=self._options.sampling).extra,
                weights=weights,
            )
        if self._policy is None:
            settings = HfOptions(
                batch=self._options.batch,
                context=self._options.max_tokens,
                temperature=1.0,
                top_p=1.0,
                prefix_mib=self._options.prefix_mib,
            )
            self._policy = HfPolicy(trainer.accelerator.unwrap_model(trainer.model), self._tokenizer, settings)
        self._policy.renew(weights)
        return self._policy


# ------------------------------------------------------------------------------ settings, card, picture


def _config(options: RlOptions, steps: int) -> Any:
    server: dict[str, Any] = {}
    if options.server:
        server = {
            "use_vllm": True,
            "vllm_mode": "server",
            "vllm_server_base_url": options.server,
            "vllm_group_port": options.server_port,
            "vllm_importance_sampling_correction": False,
        }
    return trl.GRPOConfig(
        **trainer_settings(options),
        num_generations=options.group,
        per_device_train_batch_size=options.groups_a_batch * options.group,
        gradient_accumulation_steps=options.accumulate,
        steps_per_generation=options.accumulate * options.updates,
        num_iterations=options.passes,
        shuffle_dataset=False,
        max_steps=steps,
        # What samples: the whole distribution.
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        min_p=0.0,
        repetition_penalty=1.0,
        # The loss is our own; these say to TRL what it is.
        importance_sampling_level=options.ratio,
        multi_objective_aggregation="normalize_then_sum",
        use_bias_correction_kl=options.use_bias_correction_kl,
        loss_type="grpo",
        # The reference is our own too.
        beta=0.0,
        disable_dropout=True,
        max_grad_norm=options.max_norm,
        gradient_checkpointing=options.checkpointing,
        save_steps=options.save_every * options.steps_a_generation,
        remove_unused_columns=False,
        **server,
    )


def _run_card(options: RlOptions, tokenizer: ChatTokenizer, data: Mapping[str, Any]) -> dict[str, Any]:
    """What the run is: equal cards are the same run."""
    settings = asdict(options)
    for name in ("out", "model", "lora", "server"):
        settings.pop(name)
    settings["sampler"] = "server" if options.server else "this process"
    return {
        "kind": "rl",
        # As JSON has it, so that a card that was read again is equal.
        "settings": json.loads(json.dumps(settings, default=str)),
        "model": {
            "source": options.model or "embedded",
            "weights": weights_digest(options.model),
            "adapter": weights_digest(options.lora) if options.lora else "",
        },
        "tokenizer": tokenizer.digest,
        "data": dict(data),
        "versions": versions(),
    }


_SHOWN = ("accuracy", "effectiveness", "tool_rationality", "skill_selection", "call_length", "reply_length")


def _result(
    logged: Sequence[Mapping[str, Any]], *, steps: int, resume: Path | None, seconds: float, packing: Packing
) -> RlResult:
    lines = [entry for entry in logged if "loss" in entry]
    played = [entry for entry in lines if entry.get("rollouts")]
    tenth = -(-len(played) // 10)
    names = [n for n in dict.fromkeys(k for e in played for k in e) if n.startswith("outcome/") or n.endswith("/mean")]

    def means(entries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        return {name: mean([e[name] for e in entries if name in e]) for name in names}

    sums = {name: sum(entry.get(name, 0.0) for entry in lines) for name in SUMS}
    return RlResult(
        steps=steps,
        generations=len(played),
        rollouts=int(sums["rollouts"]),
        first=means(played[:tenth]),
        last=means(played[-tenth:]),
        difference=mean([e["sampler/difference"] for e in played if "sampler/difference" in e]),
        rollout_s=sums["rollout_s"],
        scoring_s=sums["scoring_s"],
        logprob_s=sums["logprob_s"],
        update_s=sums["update_s"],
        sampled_tokens=int(sums["sampled_tokens"]),
        read_tokens=int(sums["read_tokens"]),
        row_tokens=int(sums["row_tokens"]),
        sampled_tokens_a_second=rate(sums["sampled_tokens"], sums["rollout_s"]),
        row_tokens_a_second=rate(sums["row_tokens"], sums["update_s"]),
        resumed_at=int(resume.name.partition("-")[2]) if resume else 0,
        seconds=seconds,
        packing=packing.kind,
    )


def _picture(out: Path, logged: Sequence[Mapping[str, Any]], *, title: str) -> Path:
    """``loss.png``: rewards, reasoning, and where the time went, over the steps."""
    figures: Any = importlib.import_module("matplotlib.figure")
    figure = figures.Figure(figsize=(8, 8), layout="constrained")
    rewards, tokens, seconds = figure.subplots(3, 1, sharex=True)

    def line(axis: Any, name: str, label: str) -> None:
        points = [(e["step"], e[name]) for e in logged if name in e]
        if points:
            axis.plot(*zip(*points, strict=True), linewidth=1, label=label)

    for name in _SHOWN[:4]:
        line(rewards, f"reward/{name}/mean", name.replace("_", " "))
    line(rewards, "outcome/success", "success")
    line(tokens, "outcome/call_reasoning", "tool turn")
    line(tokens, "outcome/reply_reasoning", "reply turn")
    for name in ("rollout_s", "scoring_s", "logprob_s", "update_s"):
        line(seconds, name, name.removesuffix("_s"))
    rewards.set(title=title, ylabel="mean reward")
    tokens.set(ylabel="reasoning tokens a turn")
    seconds.set(ylabel="seconds a step", xlabel="optimizer step")
    for axis in (rewards, tokens, seconds):
        axis.grid(alpha=0.3)
        if axis.lines:
            axis.legend(frameon=False, fontsize="small")
    path = out / "loss.png"
    figure.savefig(path, dpi=130)
    return path
