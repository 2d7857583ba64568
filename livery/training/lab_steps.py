"""What the lab's steps do: each takes a folder as it stands, begun or empty, and leaves it finished.

Nothing here trains, builds or scores by itself: it calls data, SFT and evaluation with the lab's settings. The list and
its order are `livery.training.lab`. Needs the training extra.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, assert_never

from livery.augment.operators import DIMENSIONS, Dimension
from livery.augment.sampling import sample_variant
from livery.errors import InputError, Problem
from livery.evaluation import run as runs
from livery.evaluation.report import write_report
from livery.evaluation.rescore import rescore
from livery.evaluation.results import Result
from livery.evaluation.statistics import summarise
from livery.evaluation.suites import suite_named
from livery.harness.digest import harness_digest
from livery.harness.model import Harness
from livery.policies.hf_loading import load_model, load_tokenizer, weights_digest
from livery.policies.model_file import sha256_of
from livery.policies.open import open_policy
from livery.simulator.tasks import make_tasks, worlds_for
from livery.training import data
from livery.training.lab import IFEVAL, STAGES, LabConfig, Made, Step, digest_of
from livery.training.lab_evals import made_of, scored_otherwise
from livery.training.lab_table import write_table
from livery.training.rollouts import VerifierFilter, oracle_teacher
from livery.training.rows import CARD, ROWS, DataRow, first_turn, read_card, read_rows, write_rows

WORLDS_APART = 100_003
"""Between the first worlds of two seeds, as `livery data build` has it."""
RL_WORLDS = 5_000_003
"""First world that reinforcement learning plays in: none that data is built on."""
NOTE_EVERY = 20


def sources_of(config: LabConfig, harness: Harness) -> dict[str, str]:
    """Digests of what the whole lab starts from.

    Raises:
        InputError: prompts that are not there, or options of a stage that it does not have.
    """
    _check_options(config)
    found = {"harness_digest": harness_digest(harness), "model_digest": weights_digest(config.model)}
    if any(a.stage == "distill" for a in config.arms):
        found["prompts_digest"] = digest_of([_file_digest(p) for p in (*config.prompts, "-", *config.exclude)])
    if IFEVAL in config.suites:
        found["ifeval_digest"] = _file_digest(config.ifeval)
    return found


def _file_digest(source: str) -> str:
    """Of a file's content; a hub's name stands for itself."""
    path = Path(source)
    if path.is_file():
        return sha256_of(path)
    if path.suffix in (".json", ".jsonl"):
        raise InputError.at(path, "no such file; expected prompts as JSON Lines, or a name on the hub")
    return source


def _check_options(config: LabConfig) -> None:
    problems: list[Problem] = []
    for stage, given, ours in (
        ("distill", config.distill, {"prompts", "exclude", "out", "model", "lora", "lora_rank", "teacher", "steps"}),
        ("rl", config.rl, {"out", "model", "lora", "lora_rank", "tasks", "task_seed", "base_share", "steps"}),
    ):
        if not any(a.stage == stage for a in config.arms):
            continue
        module, name = {"distill": ("distill", "DistillOptions"), "rl": ("rl_options", "RlOptions")}[stage]
        kind: Any = getattr(importlib.import_module(f"livery.training.{module}"), name)
        known = {f.name for f in fields(kind)} - ours - {"seed"}
        problems += [
            Problem(path="lab", field=f"{stage}.{k}", message=f"no such option; expected of {', '.join(sorted(known))}")
            for k in given
            if k not in known
        ]
    if problems:
        raise InputError(problems)


@dataclass(frozen=True, kw_only=True)
class Worker:
    """Does steps of one lab (`livery.training.lab.Work`)."""

    config: LabConfig
    harness: Harness
    profile: str
    say: Callable[[str], None] = lambda line: None
    progress: bool = False
    """Draw bars on standard error where there are any."""

    def __call__(self, step: Step, out: Path) -> Made:
        match step.kind:
            case "base":
                return self._base(out / step.name)
            case "data":
                return self._data(step, out)
            case "match":
                return match_rows(step, out)
            case "sft":
                return self._sft(step, out)
            case "distill":
                return self._distill(step, out)
            case "rl":
                return self._rl(step, out)
            case "eval":
                return self._ifeval(step, out) if step.suite == IFEVAL else self._eval(step, out)
            case "table":
                return self._table(step, out)
            case _:
                assert_never(step.kind)

    def _base(self, folder: Path) -> Made:
        model = load_model(self.config.model)
        target = folder / "model"
        shutil.rmtree(target, ignore_errors=True)  # half-written
        model.save_pretrained(str(target))
        load_tokenizer(self.config.model).tokenizer.save_pretrained(str(target))
        return Made(weights_digest(target), 1, {"parameters": sum(p.numel() for p in model.parameters())})

    def _data(self, step: Step, out: Path) -> Made:
        config, folder, seed = self.config, out / step.name, step.seed
        language: Literal["en", "zh"] = "zh" if self.harness.language.startswith("zh") else "en"
        # Behind the worlds of the arms that it goes on from.
        first = seed * WORLDS_APART + sum(worlds_for(n) for n in step.settings.get("after_tasks", ()))
        tasks = [(self.harness.name, t) for t in make_tasks("train", language, step.settings["tasks"], first)]
        named: frozenset[str] = frozenset(step.settings["dimensions"])
        chosen: tuple[Dimension, ...] = tuple(d for d in DIMENSIONS if d in named)
        tokenizer = load_tokenizer(out / "base" / "model")
        harnesses = {self.harness.name: self.harness}
        recipe = data.Recipe(
            harnesses=data.recipe_harnesses(harnesses),
            split="train",
            tasks=data.tasks_digest(tasks),
            task_seeds={"worlds": first},
            seed=seed,
            tasks_a_variant=config.tasks_a_variant,
            base_share=config.base_share if chosen else 1.0,
            variants={"strength": config.strength, "dimensions": list(chosen)},
            teacher="oracle" if config.manner == "varied" else f"oracle, {config.manner}",
            filter="verifier",
            tokenizer={"source": "base", "digest": tokenizer.digest},
        )

        def draw(harness: Harness, seed: int) -> tuple[Harness, list[dict[str, Any]]]:
            variant = sample_variant(harness, seed, "train", config.strength, chosen)
            return variant.harness, [r.model_dump(mode="json") for r in variant.records]

        todo = list(data.jobs(recipe, harnesses, tasks, draw))
        built = asyncio.run(
            data.build(recipe, todo, oracle_teacher(seed, config.manner), VerifierFilter(), tokenizer, folder)
        )
        facts = {
            "rows": built.rows,
            "dropped": dict(built.dropped),
            "base": built.base,
            "harnesses": built.groups,
            "tokens": built.tokens,
        }
        return Made(sha256_of(folder / ROWS), len(todo), facts, bool(built.resumed))

    def _sft(self, step: Step, out: Path) -> Made:
        from livery.training.sft import SftOptions, train_sft
        from livery.training.stage import last_checkpoint

        config, folder = self.config, out / step.name
        begun = folder / "run"
        resumed = last_checkpoint(begun) is not None
        match = next(n for n in step.needs if n.startswith("match-"))
        before = _trained(step, out) if any(n.partition("-")[0] in STAGES for n in step.needs) else None
        base = out / "base" / "model"
        result = train_sft(
            SftOptions(
                data=out / match / step.arm,
                out=begun,
                model=str(before if before and not config.lora_rank else base),
                lora=before if config.lora_rank else None,
                lora_rank=0 if before else config.lora_rank,
                learning_rate=config.learning_rate,
                epochs=config.epochs,
                rows_a_tree=config.rows_a_tree,
                accumulate=config.accumulate,
                packing=config.packing,
                save_every=config.save_every,
                seed=step.seed,
                cpu=True,
            ),
            say=self.say,
            progress=self.progress,
        )
        found = json.loads(json.dumps(asdict(result), default=str))
        facts = {k: found[k] for k in ("steps", "first_loss", "loss", "rows", "trees", "tokens_read", "seconds")}
        return Made(weights_digest(begun / "model"), round(result.rows * config.epochs), facts, resumed)

    def _distill(self, step: Step, out: Path) -> Made:
        from livery.training.distill import DistillOptions, train_distill
        from livery.training.stage import last_checkpoint

        config, begun = self.config, out / step.name / "run"
        resumed = last_checkpoint(begun) is not None
        before, base = _trained(step, out), out / "base" / "model"
        given: dict[str, Any] = {"save_every": config.save_every, **config.distill}
        if config.lora_rank:
            given |= {"model": str(base), "lora": before}
        else:
            given |= {"model": str(before), "teacher": str(base)}
        options = DistillOptions(
            prompts=config.prompts,
            exclude=tuple(map(Path, config.exclude)),
            out=begun,
            steps=step.settings["steps"],
            seed=step.seed,
            cpu=True,
            **given,
        )
        return _made(train_distill(options, say=self.say, progress=self.progress), begun, resumed)

    def _rl(self, step: Step, out: Path) -> Made:
        from livery.training.rl import train_rl
        from livery.training.rl_options import RlOptions
        from livery.training.stage import last_checkpoint

        config, begun = self.config, out / step.name / "run"
        resumed = last_checkpoint(begun) is not None
        before, dimensions = _trained(step, out), step.settings["dimensions"]
        given: dict[str, Any] = {"strength": config.strength, "packing": config.packing, **config.rl}
        if config.lora_rank:
            given |= {"model": str(out / "base" / "model"), "lora": before}
        else:
            given |= {"model": str(before)}
        options = RlOptions(
            out=begun,
            tasks=step.settings["tasks"],
            task_seed=RL_WORLDS + step.seed * WORLDS_APART,
            base_share=config.base_share if dimensions else 1.0,
            dimensions=tuple(dimensions),
            steps=step.settings["steps"],
            seed=step.seed,
            cpu=True,
            **given,
        )
        found = train_rl(options, {self.harness.name: self.harness}, say=self.say, progress=self.progress)
        return _made(found, begun, resumed)

    def policy_uri(self, step: Step, out: Path) -> str:
        """Greedy, so that two starts give the same figures."""
        config = self.config
        base = out / "base" / "model"
        trained = _trained(step, out) if len(step.needs) > 1 else None
        adapter = f"lora={trained}&" if trained and config.lora_rank else ""
        model = trained if trained and not config.lora_rank else base
        # Keys and values of every conversation in hand are kept between its turns.
        kept = f"prefix_mib={max(512, 128 * config.batch)}"
        return f"hf:{model}?{adapter}batch={config.batch}&ctx={config.context}&temperature=0&{kept}"

    def _ifeval(self, step: Step, out: Path) -> Made:
        from livery.evaluation import ifeval as t4
        from livery.evaluation.ifeval_chat import open_chat
        from livery.evaluation.ifeval_checkers import open_checkers
        from livery.evaluation.ifeval_figures import figures
        from livery.evaluation.ifeval_prompts import load_prompts, prompts_digest

        config, folder = self.config, out / step.name / "run"
        prompts, checkers = load_prompts(config.ifeval), open_checkers()
        checkers.require(prompts)
        chat = open_chat(self.policy_uri(step, out))
        recipe = t4.IfevalRecipe(
            tasks=prompts_digest(prompts),
            prompts=len(prompts),
            policy=chat.uri,
            weights=chat.weights,
            template=chat.template,
            max_tokens=config.ifeval_tokens,
        )
        asked = prompts[: step.units]

        async def ask() -> t4.Answered:
            try:
                return await t4.answer(recipe, asked, chat, folder)
            finally:
                await chat.aclose()

        answered = asyncio.run(ask())
        if answered.open:
            raise InputError.at(folder, f"{answered.open} prompts are open: the model could not answer")
        results = t4.check(asked, answered.responses, checkers)
        found = figures(results)
        t4.write_ifeval(folder, results, found, checkers.name)
        facts = {name: one.to_json() for name, one in found.measures.items()}
        scored = [r.model_dump(mode="json", exclude={"seconds"}) for r in results]
        return Made(digest_of(scored), len(results), facts, bool(answered.resumed))

    def _eval(self, step: Step, out: Path) -> Made:
        config, folder = self.config, out / step.name / "run"
        suite = suite_named(step.suite)
        if scored_otherwise(folder, suite.judges):
            anew = rescore(folder, self.harness)
            self.say(f"{step.name}: begun under other rules of scoring; {anew.changed['any']} tasks change")
        policy = open_policy(self.policy_uri(step, out))
        earned: list[float] = []

        def done(result: Result) -> None:
            earned.append(50 * (result.scores.accuracy + result.scores.effectiveness))
            if len(earned) % NOTE_EVERY == 0:
                self.say(f"{step.name}: {len(earned)} of {step.units}, AVG {sum(earned) / len(earned):.1f}")

        async def play() -> runs.Ran:
            try:
                recipe = runs.recipe_of(suite, self.harness, policy, seed=0, patience_s=config.patience_s)
                return await runs.evaluate(
                    recipe,
                    suite,
                    self.harness,
                    policy,
                    folder,
                    limit=config.limit_of(step.suite),
                    concurrency=config.batch,
                    progress=done,
                )
            finally:
                await policy.aclose()

        ran = asyncio.run(play())
        if ran.unavailable:
            raise InputError.at(
                folder,
                f"{ran.unavailable} tasks are open: the model could not answer (memory, for one); start the lab again",
            )
        if ran.overflowed:
            self.say(
                f"{step.name}: {ran.overflowed} conversations did not fit the context of {config.context} tokens; "
                "they count as the failures they are"
            )
        write_report(folder, runs.read_run(folder), ran.results, summarise(ran.results), suite.size)
        return made_of(ran.results, resumed=bool(ran.resumed))

    def _table(self, step: Step, out: Path) -> Made:
        data = write_table(out, step, self.config, profile=self.profile)
        return Made(digest_of(data), 1, {"arms": sorted(data["arms"])})


def match_rows(step: Step, out: Path) -> Made:
    """The rows of tasks that every arm kept, so that arms learn from the same tasks; what they read and write is
    counted."""
    arms: list[str] = step.settings["arms"]
    sets = {arm: _by_task(out / name) for arm, name in zip(arms, step.needs, strict=True)}
    kept: list[set[str]] = [set(rows) for rows in sets.values()]
    shared = kept[0].intersection(*kept[1:])
    if not shared:
        raise InputError.at(out / step.name, "no task was kept in every arm; see the cards of the data steps")
    # The same tasks in every arm.
    cut = step.settings.get("first_turns", 0.0)
    drawn = random.Random(f"first turns/{step.settings.get('seed')}")
    short = {task for task in sorted(shared) if drawn.random() < cut}
    facts: dict[str, Any] = {"tasks": len(shared), "first turns": len(short)}
    digests: dict[str, str] = {}
    for arm, name in zip(arms, step.needs, strict=True):
        rows = [first_turn(r) if task in short else r for task, r in sets[arm].items() if task in shared]
        folder = out / step.name / arm
        folder.mkdir(parents=True, exist_ok=True)
        digests[arm] = write_rows(folder / ROWS, rows)
        counts = {
            "rows": len(rows),
            "tokens": sum(len(r.tokens.ids) for r in rows),
            "written tokens": sum(sum(r.tokens.written) for r in rows),
        }
        card = {**read_card(out / name), "rows_sha256": digests[arm], "counts": counts, "matched": {"arms": arms}}
        (folder / CARD).write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        facts[arm] = counts
    return Made(digest_of(digests), len(shared) * len(arms), facts)


def _trained(step: Step, out: Path) -> Path:
    """What the arm that a step needs ended with."""
    name = next(n for n in step.needs if n.partition("-")[0] in STAGES)
    return out / name / "run" / "model"


def _made(result: Any, begun: Path, resumed: bool) -> Made:
    facts = json.loads(json.dumps(asdict(result), default=str))
    return Made(weights_digest(begun / "model"), result.steps, facts, resumed)


def _by_task(folder: Path) -> Mapping[str, DataRow]:
    return {str(r.fields["task"]): r for r in read_rows(folder)}
