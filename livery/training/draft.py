"""Training of a draft head (`livery.policies.hf_draft`) on what the policy itself writes.

A head that guesses well for one set of weights guesses badly for others: after RL an old one is worth little, so it is
trained on the policy's own outputs, after RL or beside supervised training. The main weights stay as they are, and
their hidden states are computed once and kept; or, ``joint``, an adapter of theirs is trained as well, on its own loss
plus a share of the head's (as DeepSeek-V3 trains its module, arXiv 2412.19437). The head learns the model's own
distribution at each place (KL divergence), not only the token that stands there: the model's forward pass gives it for
nothing, it says what greedy decoding would take even where the row was sampled or written by another, and it is what
is compared when a guess is checked.

Not here: the loss itself (`livery.training.draft_loss`), and RL with a head beside it.
"""

from __future__ import annotations

import importlib
import json
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from livery.errors import InputError
from livery.evaluation.results import TRAJECTORIES
from livery.policies.hf_draft import DraftHead, Start
from livery.policies.hf_loading import ChatTokenizer, load_model, load_tokenizer, weights_digest
from livery.policies.model_file import sha256_of
from livery.training.draft_loss import KeptStates, draft_batch, head_loss, hidden_states
from livery.training.draft_rows import commonest, draft_rows
from livery.training.packing import Packing, choose_packing
from livery.training.rows import ROWS, DataRow
from livery.training.run_card import loss_picture, versions, write_run_card
from livery.training.sft import trees
from livery.training.stage import Bar, leave_group, prepare_run, trainer_settings, with_adapter, with_lora

torch: Any = importlib.import_module("torch")
transformers: Any = importlib.import_module("transformers")
datasets: Any = importlib.import_module("datasets")
files: Any = importlib.import_module("safetensors.torch")
Tensor = Any

_log = logging.getLogger("livery.training")


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftOptions:
    out: Path
    data: tuple[Path, ...] = ()
    """Folders of `livery data build`; best with the policy as the teacher."""
    runs: tuple[Path, ...] = ()
    """Folders of an evaluation by the policy, or files of trajectories."""
    model: str = ""
    """A folder, a hub name or a GGUF file; empty: the embedded model."""
    lora: Path | None = None
    """The adapter of the policy: merged where the main weights are frozen, trained on in ``joint``."""
    lora_rank: int = 0
    """In ``joint`` without ``lora``: of a new adapter."""
    joint: float = 0.0
    """Weight of the head's loss beside the model's own; 0: the main weights are frozen."""
    depth: int = 3
    """How often the head is unrolled on its own outputs: as many as it will draft."""
    soft: float = 1.0
    """Share of the KL divergence from the model's distribution; the rest is cross-entropy with the row's token."""
    vocabulary: int = 0
    """Most ids that the head may guess, the commonest that policies wrote; 0: all."""
    start: Start = "last"
    """``last``: the layer begins as a copy of the model's last; ``fresh``: random."""
    keep_states: bool = True
    """Keep frozen hidden states under ``out/states``, in half precision."""
    learning_rate: float = 5e-4
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    warmup: float = 0.03
    """Share of the steps."""
    weight_decay: float = 0.0
    clip: float = 1.0
    """Largest norm of the gradient."""
    epochs: float = 3.0
    steps: int = 0
    """Optimizer steps; 0: as many as the epochs make."""
    trees: int = 1
    """Groups of rows in a batch, for each process; they are run one after another."""
    accumulate: int = 1
    """Batches an optimizer step."""
    rows_a_tree: int = 8
    tokens_a_tree: int = 8192
    max_tokens: int = 4096
    """Longer rows are left out."""
    held_out: float = 0.0
    """Share of the groups on which it is measured and nothing is learned."""
    evaluate_every: int = 0
    """Steps; 0: only at the end, where there is something held out."""
    save_every: int = 50
    """Steps between checkpoints."""
    keep: int = 2
    """Checkpoints that are kept."""
    log_every: int = 1
    seed: int = 0
    dtype: str = "float32"
    """Of the main weights."""
    cpu: bool = False
    """Stay on the CPU where there is an accelerator too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftResult:
    steps: int
    first_loss: float
    """In nats a place, a weighted mean over the depths; in ``joint`` the model's own loss is added."""
    loss: float
    """Of the last logged step."""
    right: tuple[float, ...]
    """For each depth, the share of places where the head's likeliest token is the model's: mean over the last tenth of
    the logged steps."""
    held_out_loss: float | None
    held_out_right: tuple[float, ...]
    seconds: float
    """Of this start, without loading."""
    rows: int
    trees: int
    tokens: int
    """That run through the model in one epoch, shared beginnings once."""
    places: int
    """That are drafted at."""
    parameters: int
    """Of the head."""
    guessed: int
    """Ids that it may guess."""
    packing: Packing
    resumed_at: int
    """Step of the checkpoint from which it went on; 0: from the beginning."""


class HeadAndModel(torch.nn.Module):
    """What the trainer trains. The model is a part of it only where it is trained too."""

    def __init__(self, head: DraftHead, model: Any, options: DraftOptions, states: KeptStates | None) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.head = head
        self._frozen = states
        self._soft = options.soft
        if states is None:
            self.main = model

    def forward(self, batch: Mapping[str, Any]) -> dict[str, Tensor]:
        """Sums over the batch: ``head``, ``right``, ``of`` (`HeadLoss`), and ``main``, the model's own loss."""
        if self._frozen is not None:
            hidden = self._frozen.of(batch)
            own = hidden.new_zeros(())
        else:
            hidden = hidden_states(self.main, batch)
            own = self._own_loss(hidden, batch["main"])
        loss = head_loss(self.head, hidden, batch, soft=self._soft)
        return {"head": loss.total, "main": own, "right": loss.right, "of": loss.of}

    def _own_loss(self, hidden: Tensor, asked: Mapping[str, Tensor]) -> Tensor:
        logits = self.main.get_output_embeddings()(hidden[asked["keep"]]).float()
        source = asked["source"]
        given = logits[source, asked["target"]] - logits.logsumexp(-1)[source]
        return -(asked["weight"] * given).sum()


class DraftTrainer(transformers.Trainer):
    """Losses are means over the places of an optimizer step, on all processes."""

    def __init__(self, *, joint: float, **arguments: Any) -> None:
        super().__init__(**arguments)  # pyright: ignore[reportUnknownMemberType]
        self._joint = joint
        # The loss below divides by the places of the whole step, so that the trainer must not divide again.
        self.model_accepts_loss_kwargs = True
        self._counted: dict[str, list[Tensor]] = {"train": [], "eval": []}

    def _get_num_items_in_batch(self, batch_samples: list[Any], device: Any) -> Tensor:
        items = torch.stack([_items(batches) for batches in batch_samples]).sum(0).to(device)
        return self.accelerator.gather(items[None]).sum(0) if self.args.world_size > 1 else items

    def compute_loss(
        self,
        model: Any,
        inputs: Mapping[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | None = None,
    ) -> Any:
        given = [model(batch) for batch in inputs["batches"]]
        summed = {name: torch.stack([g[name] for g in given]).sum(0) for name in given[0]}
        items = _items(inputs).to(summed["head"].device) if num_items_in_batch is None else num_items_in_batch
        loss = summed["head"] / items[0].clamp(min=1)
        if self._joint:
            loss = summed["main"] / items[1].clamp(min=1) + self._joint * loss
        if num_items_in_batch is not None:
            # Gradients are averaged over the processes, and the divisor counts the places of all of them.
            loss = loss * self.accelerator.num_processes
        counts = torch.stack([summed["right"], summed["of"]]).detach()
        self._counted["train" if self.model.training else "eval"].append(self.accelerator.gather(counts[None]).sum(0))
        return (loss, {"loss": loss}) if return_outputs else loss

    def prediction_step(self, model: Any, inputs: Any, *_arguments: Any, **_more: Any) -> tuple[Tensor, None, None]:
        with torch.no_grad():
            return self.compute_loss(model, self._prepare_inputs(inputs)).detach(), None, None

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        for mode, name, prefix in (("train", "loss", ""), ("eval", "eval_loss", "eval_")):
            if name in logs and self._counted[mode]:
                right, of = torch.stack(self._counted[mode]).sum(0).tolist()
                self._counted[mode] = []
                shares = [r / n if n else 0.0 for r, n in zip(right, of, strict=True)]
                logs |= {f"{prefix}right_{k}": share for k, share in enumerate(shares, start=1)}
                logs[f"{prefix}mean_token_accuracy"] = shares[0]
        super().log(logs, start_time)  # pyright: ignore[reportUnknownMemberType]

    # A checkpoint holds what is trained; the rest of the model is where it was.

    def _save(self, output_dir: str | None = None, state_dict: Mapping[str, Any] | None = None) -> None:
        if not self.args.should_save:
            return
        folder = Path(output_dir or self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        trained = {n: p.detach().cpu().contiguous() for n, p in self.model.named_parameters() if p.requires_grad}
        files.save_file(trained, folder / "model.safetensors")

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        held = files.load_file(Path(resume_from_checkpoint) / "model.safetensors")
        (model or self.model).load_state_dict(held, strict=False)


def _items(inputs: Mapping[str, Any]) -> Tensor:
    """(2,) places that are drafted at, and the predictions of the model's own loss."""
    head = sum(float(b["weight"].sum()) for b in inputs["batches"])
    main = sum(float(b["main"]["weight"].sum()) for b in inputs["batches"] if "main" in b)
    return torch.tensor([head, main])


def train_draft(
    options: DraftOptions,
    *,
    fresh: bool = False,
    say: Callable[[str], None] = _log.info,
    progress: bool = False,
) -> DraftResult:
    """Train a head, or go on training it.

    Args:
        fresh: delete what an earlier run left in ``out``; otherwise the run goes on from its last checkpoint.
        say: gets a line about each thing worth knowing before the first step.
        progress: draw a bar on standard error.

    Raises:
        InputError: data, model and options do not fit one another, or ``out`` holds a run of other options.
    """
    _check(options)
    tokenizer = load_tokenizer(options.model)
    rows = draft_rows(options.data, options.runs, tokenizer, max_tokens=options.max_tokens, say=say)
    result = train_head(options, rows, _model(options), tokenizer, fresh=fresh, say=say, progress=progress)
    leave_group()
    return result


def train_head(
    options: DraftOptions,
    rows: Sequence[DataRow],
    model: Any,
    tokenizer: ChatTokenizer,
    *,
    fresh: bool = False,
    say: Callable[[str], None] = _log.info,
    callbacks: Sequence[Any] = (),
    progress: bool = False,
) -> DraftResult:
    """`train_draft` with everything loaded; ``options.data`` and ``options.runs`` are used for the card only.

    Args:
        model: the policy; in ``joint`` a peft model whose adapter is trained.
    """
    card = _run_card(options, tokenizer, len(rows))
    resume = prepare_run(options.out, card, fresh=fresh)
    rng = random.Random(options.seed)
    grouped = trees(rows, most_rows=options.rows_a_tree, most_tokens=options.tokens_a_tree, rng=rng)
    aside = round(len(grouped) * options.held_out)
    held, used = grouped[:aside], grouped[aside:]
    if not used:
        raise InputError.at(
            str(options.out), f"{len(grouped)} groups, all held out", field="held_out", code="draft-rows"
        )
    packing = choose_packing(model)
    if packing.kind == "rows":
        raise InputError.at(
            str(model.config.model_type),
            f"cannot read rows as a tree ({packing.reason}); expected a model whose layers attend to all that stands "
            "before: others cannot be drafted for",
            code="draft-model",
        )
    torch.manual_seed(options.seed)
    vocabulary = commonest((rows[i].tokens for tree in used for i in tree), options.vocabulary, sorted(tokenizer.ends))
    head = DraftHead(model, vocabulary=vocabulary, start=options.start)
    settings = _config(options)
    model.to(settings.device)
    states = None
    if not options.joint:
        model.eval().requires_grad_(False)
        states = KeptStates(model, options.out / "states" if options.keep_states else None)

    def batch(examples: list[dict[str, list[int]]]) -> dict[str, Any]:
        made = [[rows[i].tokens for i in example["rows"]] for example in examples]
        kind = packing.kind
        return {"batches": [draft_batch(m, kind, options.depth, main=bool(options.joint)) for m in made]}

    tokens, places = 0, 0
    for tree in used:
        counted = draft_batch([rows[i].tokens for i in tree], "tree", 1)
        tokens += counted["input_ids"].numel()
        places += int(counted["weight"].sum())
    parameters = sum(p.numel() for p in head.parameters())
    guessed = len(vocabulary) or int(model.config.vocab_size)
    say(
        f"{sum(map(len, used))} rows in {len(used)} trees: {tokens} tokens, {places} places to draft at; a head of "
        f"{parameters:,} weights that guesses among {guessed:,} ids"
    )
    if resume:
        say(f"going on from {resume.name}")
    trainer = DraftTrainer(
        joint=options.joint,
        model=HeadAndModel(head, model, options, states),
        args=settings,
        data_collator=batch,
        train_dataset=datasets.Dataset.from_dict({"rows": used}),
        eval_dataset=datasets.Dataset.from_dict({"rows": held}) if held else None,
        callbacks=[*callbacks, *([Bar(f"draft {options.out.name}")] if progress else [])],
    )
    trainer.remove_callback(transformers.PrinterCallback)  # pyright: ignore[reportUnknownMemberType]
    began = time.perf_counter()
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)  # pyright: ignore[reportUnknownMemberType]
    seconds = time.perf_counter() - began
    scores: dict[str, float] = trainer.evaluate() if held else {}  # pyright: ignore[reportUnknownMemberType]
    logged: list[dict[str, Any]] = trainer.state.log_history
    steps = [entry for entry in logged if "loss" in entry]
    tenth = -(-len(steps) // 10)
    late = steps[-tenth:]
    depths = range(1, options.depth + 1)
    result = DraftResult(
        steps=trainer.state.global_step,
        first_loss=steps[0]["loss"],
        loss=steps[-1]["loss"],
        right=tuple(sum(e[f"right_{k}"] for e in late) / len(late) for k in depths),
        held_out_loss=scores.get("eval_loss"),
        held_out_right=tuple(scores[f"eval_right_{k}"] for k in depths) if scores else (),
        seconds=seconds,
        rows=sum(map(len, used)),
        trees=len(used),
        tokens=tokens,
        places=places,
        parameters=parameters,
        guessed=guessed,
        packing=packing,
        resumed_at=int(resume.name.partition("-")[2]) if resume else 0,
    )
    if trainer.is_world_process_zero():  # pyright: ignore[reportUnknownMemberType]
        _leave(options, head, model, {**card, "result": asdict(result)}, logged)
    return result


def _leave(
    options: DraftOptions, head: DraftHead, model: Any, card: Mapping[str, Any], logged: Sequence[Mapping[str, Any]]
) -> None:
    """The head, the adapter of a joint run, the card and the curve."""
    made_for = dict(card["model"])
    if options.joint:
        model.save_pretrained(str(options.out / "model"))
        made_for["adapter"] = weights_digest(options.out / "model")
    about = {"depth": options.depth, "made_for": made_for, "tokenizer": card["tokenizer"]}
    head.save(options.out / "head", about)
    loss_picture(options.out, logged, title=f"Draft head, {card['result']['rows']} rows, depth {options.depth}")
    write_run_card(options.out, card, logged)


def _check(options: DraftOptions) -> None:
    def wrong(field: str, message: str) -> InputError:
        return InputError.at(str(options.out), message, field=field, code="draft-options")

    if not options.data and not options.runs:
        raise wrong("data", "found no rows to learn from; expected --data or --run")
    if not 0 <= options.soft <= 1:
        raise wrong("soft", f"found {options.soft}; expected a share between 0 and 1")
    if options.depth < 1:
        raise wrong("depth", f"found {options.depth}; expected at least 1")
    if options.joint and bool(options.lora) == bool(options.lora_rank):
        raise wrong("joint", "expected an adapter to train beside the head: --lora or --lora-rank, one of them")
    if not options.joint and options.lora_rank:
        raise wrong("lora_rank", "expected none where the main weights are frozen; a joint run has --joint WEIGHT")
    if options.joint and options.lora and options.lora.suffix == ".gguf":
        raise wrong("lora", f"found {options.lora.name}; expected a peft folder: a GGUF adapter cannot be trained on")


def _model(options: DraftOptions) -> Any:
    if options.lora and options.lora.suffix == ".gguf":
        return load_model(options.model, dtype=options.dtype, adapters=[(options.lora, 1.0)])
    model = load_model(options.model, dtype=options.dtype)
    if options.lora:
        model = with_adapter(model, options.lora)
        return model if options.joint else model.merge_and_unload()
    if options.lora_rank:
        return with_lora(model, rank=options.lora_rank, alpha=0.0, seed=options.seed)
    return model


def _config(options: DraftOptions) -> Any:
    evaluates = bool(options.held_out and options.evaluate_every)
    return transformers.TrainingArguments(
        **{**trainer_settings(options), "bf16": False},
        max_grad_norm=options.clip,
        num_train_epochs=options.epochs,
        max_steps=options.steps or -1,
        per_device_train_batch_size=options.trees,
        per_device_eval_batch_size=options.trees,
        gradient_accumulation_steps=options.accumulate,
        eval_strategy="steps" if evaluates else "no",
        eval_steps=options.evaluate_every or None,
        save_steps=options.save_every,
        remove_unused_columns=False,
        average_tokens_across_devices=True,
        # Trees are not tensors: each process collates its own batches.
        accelerator_config={"dispatch_batches": False, "split_batches": False, "even_batches": True},
    )


def _run_card(options: DraftOptions, tokenizer: ChatTokenizer, rows: int) -> dict[str, Any]:
    """What the run is: equal cards are the same run."""
    settings = asdict(options)
    for name in ("data", "runs", "out", "model", "lora"):
        settings.pop(name)
    sources: dict[str, str] = {}
    for folder, name in (*((d, ROWS) for d in options.data), *((r, TRAJECTORIES) for r in options.runs)):
        path = folder / name if folder.is_dir() else folder
        sources[folder.name] = sha256_of(path) if path.is_file() else ""
    return {
        "kind": "draft",
        "settings": json.loads(json.dumps(settings)),
        "model": {
            "source": options.model or "embedded",
            "weights": weights_digest(options.model),
            "adapter": weights_digest(options.lora) if options.lora else "",
        },
        "tokenizer": tokenizer.digest,
        "data": {"sources": sources, "rows": rows},
        "versions": versions(),
    }
