"""On-policy distillation: the student answers general prompts, and its distribution is pulled back to its teacher's.

The student samples a reply (temperature 1); at each token it wrote, the reverse KL of its distribution to the
teacher's is taken over the whole vocabulary; the mean over the tokens of an optimizer step is descended (Agarwal et
al., arXiv 2306.13649, with all data from the student). The gradient goes through the distributions, not through the
sampling. The teacher is the model as it was before supervised training: the same weights with the adapter off, or
weights of their own. What training on one format took away comes back, so that general instructions are followed
as before.

TRL's DistillationTrainer does the sampling and the loss; here are the teacher without a second copy, prompts as ids,
the stop when replies are cut off, and what a run leaves. Not here: prompts (`livery.training.distill_prompts`), tools
(replies are single turns), and sampling by a server.
"""

from __future__ import annotations

import importlib
import logging
import math
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from livery.errors import InputError
from livery.policies.hf_loading import ChatTokenizer, load_model, load_tokenizer, weights_digest
from livery.training.distill_prompts import Prompts, RenderedPrompts, read_prompts, render
from livery.training.run_card import versions, write_run_card
from livery.training.stage import FREE, Bar, leave_group, prepare_run, trainer_settings, with_adapter, with_lora

torch: Any = importlib.import_module("torch")
trl: Any = importlib.import_module("trl")
datasets: Any = importlib.import_module("datasets")
transformers: Any = importlib.import_module("transformers")
Tensor = Any

_log = logging.getLogger("livery.training")


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillOptions:
    prompts: tuple[str, ...]
    """Files of JSON lines or hub names (`livery.training.distill_prompts.read_prompts`)."""
    out: Path
    exclude: tuple[Path, ...] = ()
    """Files whose prompts must not be trained on."""
    model: str = ""
    """The student's weights, or those under its adapter: a folder, a hub name or a GGUF file; empty: the embedded
    model."""
    lora: Path | None = None
    """Adapter of supervised training, which is trained on; its teacher is ``model`` alone."""
    lora_rank: int = 0
    """Where no adapter is given: of a new one on ``model``; 0: all weights."""
    lora_alpha: float = 0.0
    """0: twice the rank."""
    teacher: str = ""
    """As for ``model``. Empty: ``model`` with the adapter off, or, without ``lora``, the embedded model."""
    max_new_tokens: int = 128
    """Longest reply; what is cut there counts as truncated."""
    max_prompt_tokens: int = 512
    """A longer prompt, rendered, is dropped."""
    max_truncated: float = 0.9
    """Mean share of cut replies above which the run stops; 1: never."""
    truncated_over: int = 5
    """Latest steps over which that mean is taken."""
    batch: int = 8
    """Prompts that run through the model together, for each process."""
    accumulate: int = 2
    """Batches an optimizer step; their replies are sampled together."""
    epochs: float = 1.0
    steps: int = 0
    """Optimizer steps; 0: as many as the epochs make."""
    learning_rate: float = 1e-4
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    warmup: float = 0.03
    """Share of the steps."""
    weight_decay: float = 0.0
    clip: float = 1.0
    """Largest norm of the gradient."""
    save_every: int = 20
    """Steps between checkpoints."""
    keep: int = 2
    """Checkpoints that are kept."""
    log_every: int = 1
    seed: int = 0
    dtype: str = "float32"
    checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, more time."""
    cpu: bool = False
    """Stay on the CPU where there is an accelerator too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillResult:
    steps: int
    first_kl: float
    """Reverse KL in nats a token, mean over the first tenth of the logged steps."""
    kl: float
    """The same over the last tenth."""
    length: float
    """Mean tokens a reply over the last tenth."""
    truncated: float
    """Share of cut replies over the last tenth."""
    prompts: int
    """Prompts that could be drawn."""
    dropped: dict[str, int]
    """Reason -> prompts."""
    resumed_at: int
    """Step of the checkpoint from which it went on; 0: from the beginning."""
    seconds: float
    """Of this start, without loading."""
    sampled_tokens: int
    """Of this start, as the two times below."""
    sampling_seconds: float
    update_seconds: float
    """Teacher's and student's forward pass, and the backward pass."""


class AdapterOff(torch.nn.Module):
    """A peft model with its adapter off, in the shape in which TRL asks a teacher for its hidden states. It holds no
    weights of its own, and gives no gradient."""

    def __init__(self, student: Any) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        # In a tuple: a module would be saved, moved and counted as this one's part.
        self._held = (student,)

    @property
    def config(self) -> Any:
        return self._held[0].config

    def get_output_embeddings(self) -> Any:
        return self._held[0].get_output_embeddings()

    def base_model(self, **inputs: Any) -> Any:
        """The layers below the head, as transformers names them."""
        [student] = self._held
        was = student.training
        student.eval()
        try:
            with torch.no_grad(), student.disable_adapter():
                return student.base_model.model.base_model(**inputs)
        finally:
            student.train(was)


class OnPolicyTrainer(trl.DistillationTrainer):
    """TRL's trainer at ``beta=1``, on prompts that are ids already."""

    def __init__(self, *, max_truncated: float, truncated_over: int, **arguments: Any) -> None:
        """
        Args:
            arguments: as TRL has them; without a ``teacher_model`` it is the model with its adapter off.
        """
        super().__init__(**arguments)  # pyright: ignore[reportUnknownMemberType]
        if self.teacher_model is None:
            self.teacher_model: Any = AdapterOff(self.accelerator.unwrap_model(self.model))
        self._max_truncated = max_truncated
        self._cut: deque[float] = deque(maxlen=truncated_over)
        self.sampled_tokens = 0
        self.sampling_seconds = 0.0
        self.step_seconds = 0.0

    def _tokenize_prompts(self, prompts: list[list[int]]) -> tuple[list[list[int]], None, dict[str, Any]]:
        return prompts, None, {}

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        theirs: Any = super()
        began = time.perf_counter()
        made: dict[str, Any] = theirs._generate_and_score_completions(inputs)
        spent = time.perf_counter() - began
        tokens = int(made["num_items_in_batch"])
        self.sampling_seconds += spent
        self.sampled_tokens += tokens
        metrics = self._metrics["train" if self.model.training else "eval"]
        metrics["sampling_s"].append(spent)
        metrics["tokens"].append(tokens)
        # The share is over all processes, so that all of them stop together.
        self._stop_if_cut(metrics["completions/clipped_ratio"][-1])
        return made

    def _stop_if_cut(self, share: float) -> None:
        self._cut.append(share)
        mean = sum(self._cut) / len(self._cut)
        if len(self._cut) < (self._cut.maxlen or 1) or mean <= self._max_truncated:
            return
        raise InputError.at(
            self.args.output_dir,
            f"{mean:.0%} of the replies of the last {len(self._cut)} steps were cut off at "
            f"{self.args.max_completion_length} tokens, more than {self._max_truncated:.0%}; expected replies that "
            "end: from cut ones the student learns nothing about ending. Raise --max-new-tokens (another run: "
            "--fresh), look whether the student ends its turns at all and stop sooner in supervised training if "
            "not, or raise --max-truncated to go on as it is",
            field="max_truncated",
            code="distill-truncated",
        )

    def training_step(self, *arguments: Any) -> Tensor:
        theirs: Any = super()
        began = time.perf_counter()
        loss: Tensor = theirs.training_step(*arguments)
        self.step_seconds += time.perf_counter() - began
        return loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        metrics = self._metrics["train" if self.model.training else "eval"]
        for theirs, ours in (
            ("mean_length", "length"),
            ("mean_terminated_length", "length_ended"),
            ("max_length", "length_max"),
            ("clipped_ratio", "truncated"),
        ):
            if values := metrics.pop(f"completions/{theirs}", None):
                metrics[ours] = values
        for name in [name for name in metrics if name.startswith("completions/")]:
            del metrics[name]
        if "loss" in logs:
            # The loss is the mean over the tokens of the step, over all batches and processes.
            logs["kl"] = logs["loss"]
        super().log(logs, start_time)  # pyright: ignore[reportUnknownMemberType]


class _Bar(Bar):
    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any], **more: Any) -> None:
        if "kl" in logs:
            note = f"KL {logs['kl']:.4f}, {logs['length']:.0f} tokens, {logs['truncated']:.0%} cut"
            self._bar.update(self._task, note=note)


def train_distill(
    options: DistillOptions,
    *,
    fresh: bool = False,
    say: Callable[[str], None] = _log.info,
    progress: bool = False,
) -> DistillResult:
    """Distill, or go on with it.

    Args:
        fresh: delete what an earlier run left in ``out``; otherwise the run goes on from its last checkpoint.
        say: gets a line about each thing worth knowing before the first step.
        progress: draw a bar on standard error.

    Raises:
        InputError: prompts, models and options do not fit one another, ``out`` holds a run of other options, or too
            many replies are cut off.
    """
    _check(options)
    prompts = read_prompts(options.prompts, options.exclude)
    tokenizer = load_tokenizer(options.model)
    student = load_model(options.model, dtype=options.dtype)
    teacher = None if options.lora else _teacher(options, tokenizer)
    if options.lora:
        student = with_adapter(student, options.lora)
    result = distill(options, prompts, student, teacher, tokenizer, fresh=fresh, say=say, progress=progress)
    leave_group()
    return result


def distill(
    options: DistillOptions,
    prompts: Prompts,
    student: Any,
    teacher: Any | None,
    tokenizer: ChatTokenizer,
    *,
    fresh: bool = False,
    say: Callable[[str], None] = _log.info,
    callbacks: Sequence[Any] = (),
    progress: bool = False,
) -> DistillResult:
    """`train_distill` with everything loaded.

    Args:
        student: a peft model whose adapter is trained, or a model, which gets a new adapter where ``options.lora_rank``
            says so.
        teacher: None: the student with its adapter off.
    """
    rendered = render(prompts.texts, tokenizer, most_tokens=options.max_prompt_tokens)
    card = _run_card(options, prompts, rendered, tokenizer)
    resume = prepare_run(options.out, card, fresh=fresh, free=(*FREE, "max_truncated", "truncated_over"))
    dropped = {**prompts.dropped, **rendered.dropped}
    say(
        f"{len(rendered.ids)} prompts of {prompts.found}; dropped: "
        + (", ".join(f"{n} {why}" for why, n in dropped.items() if n) or "none")
    )
    if options.lora_rank and teacher is not None:
        student = with_lora(student, rank=options.lora_rank, alpha=options.lora_alpha, seed=options.seed)
    if resume:
        say(f"going on from {resume.name}")
    trainer = make_trainer(
        options,
        rendered.ids,
        student,
        teacher,
        tokenizer,
        callbacks=[*callbacks, *([_Bar(f"distill {options.out.name}")] if progress else [])],
    )
    began = time.perf_counter()
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    seconds = time.perf_counter() - began
    trainer.save_model(str(options.out / "model"))
    logged: list[dict[str, Any]] = trainer.state.log_history
    steps = [entry for entry in logged if "kl" in entry]
    tenth = -(-len(steps) // 10)
    result = DistillResult(
        steps=trainer.state.global_step,
        first_kl=_mean(steps[:tenth], "kl"),
        kl=_mean(steps[-tenth:], "kl"),
        length=_mean(steps[-tenth:], "length"),
        truncated=_mean(steps[-tenth:], "truncated"),
        prompts=len(rendered.ids),
        dropped=dropped,
        resumed_at=int(resume.name.partition("-")[2]) if resume else 0,
        seconds=seconds,
        sampled_tokens=trainer.sampled_tokens,
        sampling_seconds=trainer.sampling_seconds,
        update_seconds=trainer.step_seconds - trainer.sampling_seconds,
    )
    if trainer.is_world_process_zero():
        _picture(options.out, logged, title=f"On-policy distillation, {result.prompts} prompts")
        write_run_card(options.out, {**card, "result": asdict(result)}, logged)
    return result


def make_trainer(
    options: DistillOptions,
    prompts: Sequence[tuple[int, ...]],
    student: Any,
    teacher: Any | None,
    tokenizer: ChatTokenizer,
    *,
    callbacks: Sequence[Any] = (),
) -> OnPolicyTrainer:
    """The trainer, with its prompts in the order of the run.

    The order is drawn once, for all epochs, so that a run that goes on meets the prompts it would have met.
    """
    # All that ends a turn ends a reply, whatever the model's own settings name.
    student.generation_config.eos_token_id = sorted(tokenizer.ends)
    config = _config(options, 1)
    a_step = options.batch * options.accumulate * config.world_size
    steps = options.steps or max(1, math.ceil(options.epochs * len(prompts) / a_step))
    rng = random.Random(options.seed)
    order: list[int] = []
    while len(order) < steps * a_step:
        order += rng.sample(range(len(prompts)), len(prompts))
    drawn = [list(prompts[i]) for i in order[: steps * a_step]]
    trainer = OnPolicyTrainer(
        max_truncated=options.max_truncated,
        truncated_over=options.truncated_over,
        model=student,
        teacher_model=teacher,
        args=_config(options, steps),
        train_dataset=datasets.Dataset.from_dict({"prompt": drawn}),
        processing_class=tokenizer.tokenizer,
        callbacks=list(callbacks),
    )
    trainer.remove_callback(transformers.PrinterCallback)  # pyright: ignore[reportUnknownMemberType]
    return trainer


def _mean(entries: Sequence[Mapping[str, Any]], name: str) -> float:
    return sum(entry[name] for entry in entries) / len(entries)


# --------------------------------------------------------------------------------- student and teacher


def _check(options: DistillOptions) -> None:
    if options.lora and (options.lora_rank or options.teacher):
        raise InputError.at(
            options.lora,
            "an adapter is trained on against the model below it; expected neither a rank nor a teacher beside it",
            field="lora_rank" if options.lora_rank else "teacher",
            code="distill-options",
        )
    if options.lora and not (options.lora / "adapter_config.json").is_file():
        raise InputError.at(options.lora, "no adapter_config.json in it; expected a LoRA adapter of peft", code="lora")
    if not options.lora and weights_digest(options.model) == weights_digest(options.teacher):
        raise InputError.at(
            options.model or "the embedded model",
            "student and teacher are the same weights, so that there is nothing to learn; expected --lora ADAPTER, or "
            "the trained weights as --model and those before training as --teacher",
            field="teacher",
            code="distill-same",
        )


def _teacher(options: DistillOptions, tokenizer: ChatTokenizer) -> Any:
    theirs = load_tokenizer(options.teacher).tokenizer.get_vocab()
    if theirs != tokenizer.tokenizer.get_vocab():
        raise InputError.at(
            options.teacher or "the embedded model",
            f"its tokenizer has {len(theirs)} entries that are not the student's "
            f"{len(tokenizer.tokenizer.get_vocab())}; expected a teacher that reads the same ids",
            field="teacher",
            code="distill-vocabulary",
        )
    return load_model(options.teacher, dtype=options.dtype).eval()


# ------------------------------------------------------------------------------ settings, card, picture


def _config(options: DistillOptions, steps: int) -> Any:
    return trl.DistillationConfig(
        **trainer_settings(options),
        # Reverse KL, at the temperature at which replies are sampled.
        beta=1.0,
        temperature=1.0,
        # The policy whose distribution is compared is the one that sampled.
        disable_dropout=True,
        max_completion_length=options.max_new_tokens,
        shuffle_dataset=False,
        max_steps=steps,
        per_device_train_batch_size=options.batch,
        gradient_accumulation_steps=options.accumulate,
        max_grad_norm=options.clip,
        gradient_checkpointing=options.checkpointing,
        save_steps=options.save_every,
    )


def _run_card(
    options: DistillOptions, prompts: Prompts, rendered: RenderedPrompts, tokenizer: ChatTokenizer
) -> dict[str, Any]:
    """What the run is: equal cards are the same run."""
    settings = asdict(options)
    for name in ("prompts", "exclude", "out", "model", "lora", "teacher"):
        settings.pop(name)
    teacher = "the model, adapter off" if options.lora else options.teacher or "embedded"
    return {
        "kind": "distill",
        "settings": settings,
        "model": {
            "source": options.model or "embedded",
            "weights": weights_digest(options.model),
            "adapter": weights_digest(options.lora) if options.lora else "",
            "teacher": teacher,
            "teacher_weights": weights_digest(options.model if options.lora else options.teacher),
        },
        "tokenizer": tokenizer.digest,
        "data": {
            "prompts": dict(prompts.sources),
            "excluded": dict(prompts.excluded),
            "found": prompts.found,
            "used": len(rendered.ids),
            "dropped": {**prompts.dropped, **rendered.dropped},
        },
        "versions": versions(),
    }


def _picture(out: Path, logged: Sequence[Mapping[str, Any]], *, title: str) -> Path:
    """``loss.png``: KL, length of the replies and the share that was cut, over the steps."""
    figures: Any = importlib.import_module("matplotlib.figure")
    figure = figures.Figure(figsize=(8, 6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    share = lower.twinx()
    for axis, name, label, colour in (
        (upper, "kl", "KL to the teacher", "tab:blue"),
        (lower, "length", "tokens a reply", "tab:green"),
        (share, "truncated", "share of cut replies", "tab:red"),
    ):
        points = [(e["step"], e[name]) for e in logged if name in e]
        axis.plot(*zip(*points, strict=True), color=colour, linewidth=1)
        axis.set_ylabel(label, color=colour)
    upper.set(title=title)
    upper.set_ylim(bottom=0)
    lower.set(xlabel="optimizer step")
    lower.set_ylim(bottom=0)
    share.set(ylim=(0, 1))
    upper.grid(alpha=0.3)
    lower.grid(alpha=0.3)
    path = out / "loss.png"
    figure.savefig(path, dpi=130)
    return path
