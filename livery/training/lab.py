"""The lab: the paper's experiment as a list of steps that a laptop works through, and goes on with after a kill.

A step has a folder, a recipe (its settings, the digests of what it starts from, versions) and, when it is finished, a
done-marker with the digest of what it made and how long that took. A finished step of the same recipe is not repeated;
a step whose recipe has changed is refused, or redone when that is asked for. What a step does inside its folder goes on
by its own means: the journal of data, the checkpoints of training, the results of an evaluation. Several processes may
work in one folder: each takes the next step that is ready and that no other holds.

Here are the configuration, the list and the runner, without torch. The work is `livery.training.lab_steps`, the table
`livery.training.lab_table`. An arm is one stage of training: supervised, from the base model or from where another arm
ends, or distillation or reinforcement learning from where another arm ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from livery.errors import InputError, Problem
from livery.training.lab_config import (
    BASE,
    CONFIG,
    IFEVAL,
    SECONDS_A_UNIT,
    STAGES,
    Arm,
    Kind,
    LabConfig,
    read_config,
)

__all__ = ["BASE", "CONFIG", "IFEVAL", "STAGES", "Arm", "LabConfig", "read_config"]

LAB: Final = "lab.json"

LOCKS: Final = "locks"
"""Folder with a file for each step, locked by the process that works on it; the system unlocks it when that dies."""

WAIT_S: Final = 2.0
"""Between two looks for a step that others have made ready."""

RECIPE: Final = "recipe.json"

DONE: Final = "done.json"


def digest_of(value: Any) -> str:
    """SHA-256 of a JSON value."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


# ---------------------------------------------------------------------------------------- the list


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    name: str
    """Also its folder below the lab's."""
    kind: Kind
    needs: tuple[str, ...] = ()
    settings: Mapping[str, Any]
    """JSON; all that decides what it makes, but for what it starts from."""
    units: int = 1
    """Trajectories or tasks: what its time is in proportion to."""
    arm: str = ""
    seed: int = 0
    suite: str = ""


def _settings(config: LabConfig, *names: str) -> dict[str, Any]:
    whole = config.model_dump(mode="json")
    return {n: whole[n] for n in names}


def steps_of(config: LabConfig, arms: Sequence[str] = (), *, sources: Mapping[str, str] | None = None) -> list[Step]:
    """The steps, each after those it needs.

    Args:
        arms: only these (`BASE` is one); empty: all.
        sources: digests of harness and model, by name, which all recipes hold.

    Raises:
        InputError: arms that are not there.
    """
    known = (BASE, *(a.name for a in config.arms))
    unknown = [a for a in arms if a not in known]
    if unknown:
        raise InputError.at("--arms", f"found {', '.join(unknown)}; expected of {', '.join(known)}", code="lab-arms")
    wanted = tuple(arms) or known
    given = dict(sources or {})
    model, worn = ({k: v for k, v in given.items() if k == name} for name in ("model_digest", "harness_digest"))
    steps = [Step(name="base", kind="base", settings={**_settings(config, "model"), **model})]
    every = dict.fromkeys(s for a in config.arms for s in config.seeds_of(a))
    # Seed by seed, so that there is something to compare before the last one is trained. Arms that others go on from
    # are trained too, whoever asked.
    chosen = _with_ancestors(config, wanted)
    trained = [(a, s) for s in every for a in config.arms if a.name in chosen and _has_seed(config, a, s, wanted)]
    for tasks, seed in dict.fromkeys((a.tasks, s) for a, s in trained if a.stage == "sft"):
        # What is matched hangs on every arm of that size, also on those not asked for now: it stays the same later.
        peers = [a for a in config.arms if a.stage == "sft" and a.tasks == tasks and seed in config.seeds_of(a)]
        for arm in peers:
            steps.append(_data(config, arm, seed, worn))
        needs = tuple(f"data-{a.name}-s{seed}" for a in peers)
        settings: dict[str, Any] = {"arms": [a.name for a in peers]}
        if cut := config.first_turns_of(peers[0]):
            settings |= {"first_turns": cut, "seed": seed}
        steps.append(
            Step(name=_match(tasks, seed), kind="match", needs=needs, settings=settings, units=tasks * len(peers))
        )
    for arm, seed in trained:
        match arm.stage:
            case "sft":
                steps.append(_sft(config, arm, seed))
            case "distill":
                steps.append(_distill(config, arm, seed, given))
            case "rl":
                steps.append(_rl(config, arm, seed, worn))
    evals = [_eval(config, None, 0, suite, given) for suite in config.suites if BASE in wanted]
    evals += [
        _eval(config, a, seed, suite, given)
        for suite in config.suites
        for a, seed in trained
        if a.name in wanted and suite in config.suites_of(a)
    ]
    table = Step(name="table", kind="table", needs=tuple(e.name for e in evals), settings={})
    return [*steps, *evals, table]


def _with_ancestors(config: LabConfig, wanted: Sequence[str]) -> set[str]:
    chosen: set[str] = set()
    for name in wanted:
        while name and name != BASE:
            chosen.add(name)
            name = config.arm(name).after
    return chosen


def _has_seed(config: LabConfig, arm: Arm, seed: int, wanted: Sequence[str]) -> bool:
    """Whether an arm is trained with a seed: asked for itself, or one that goes on from it is."""
    if seed not in config.seeds_of(arm):
        return False
    return arm.name in wanted or any(_has_seed(config, a, seed, wanted) for a in config.arms if a.after == arm.name)


def _match(tasks: int, seed: int) -> str:
    return f"match-{tasks}-s{seed}"


def _data(config: LabConfig, arm: Arm, seed: int, worn: Mapping[str, str]) -> Step:
    settings = {
        **_settings(config, "base_share", "strength", "tasks_a_variant", "manner"),
        **worn,
        "dimensions": list(arm.dimensions),
        "tasks": arm.tasks,
        "seed": seed,
    }
    if arm.after:
        settings["after_tasks"] = list(config.way_of(arm)[1])
    name = f"data-{arm.name}-s{seed}"
    return Step(name=name, kind="data", needs=("base",), settings=settings, units=arm.tasks, arm=arm.name, seed=seed)


def _sft(config: LabConfig, arm: Arm, seed: int) -> Step:
    chosen = ("lora_rank", "learning_rate", "epochs", "rows_a_tree", "accumulate", "packing")
    return Step(
        name=f"sft-{arm.name}-s{seed}",
        kind="sft",
        needs=("base", _match(arm.tasks, seed), *((f"{config.arm(arm.after).step}-s{seed}",) if arm.after else ())),
        settings={**_settings(config, *chosen), "arm": arm.name, "seed": seed},
        units=round(arm.tasks * config.epochs),
        arm=arm.name,
        seed=seed,
    )


def _distill(config: LabConfig, arm: Arm, seed: int, given: Mapping[str, str]) -> Step:
    drawn = {k: v for k, v in given.items() if k == "prompts_digest"} or _settings(config, "prompts")
    chosen = ("lora_rank", "distill")
    return Step(
        name=f"{arm.step}-s{seed}",
        kind="distill",
        needs=("base", f"{config.arm(arm.after).step}-s{seed}"),
        settings={**_settings(config, *chosen), **drawn, "steps": arm.steps, "arm": arm.name, "seed": seed},
        units=arm.steps,
        arm=arm.name,
        seed=seed,
    )


def _rl(config: LabConfig, arm: Arm, seed: int, worn: Mapping[str, str]) -> Step:
    settings = {
        **_settings(config, "lora_rank", "rl", "base_share", "strength"),
        **worn,
        "dimensions": list(arm.dimensions),
        "tasks": arm.tasks,
        "steps": arm.steps,
        "arm": arm.name,
        "seed": seed,
    }
    return Step(
        name=f"{arm.step}-s{seed}",
        kind="rl",
        needs=("base", f"{config.arm(arm.after).step}-s{seed}"),
        settings=settings,
        units=arm.steps or arm.tasks,
        arm=arm.name,
        seed=seed,
    )


def _eval(config: LabConfig, arm: Arm | None, seed: int, suite: str, given: Mapping[str, str]) -> Step:
    """Of an arm, or of the model that is not trained."""
    common = {"lora_rank": config.lora_rank, "limit": config.limit_of(suite), "suite": suite}
    if suite == IFEVAL:
        asked = {k: v for k, v in given.items() if k == "ifeval_digest"} or _settings(config, "ifeval")
        settings = {**common, **_settings(config, "batch", "ifeval_tokens"), **asked}
    else:
        worn = {k: v for k, v in given.items() if k == "harness_digest"}
        settings = {**_settings(config, "batch", "patience_s", "context"), **worn, **common}
    return Step(
        name=f"eval-{arm.name}-s{seed}-{suite}" if arm else f"eval-{BASE}-{suite}",
        kind="eval",
        needs=("base", *((f"{arm.step}-s{seed}",) if arm else ())),
        settings=settings,
        units=config.size_of(suite),
        arm=arm.name if arm else BASE,
        seed=seed,
        suite=suite,
    )


# -------------------------------------------------------------------------------------- the runner


@dataclass(frozen=True, slots=True)
class Made:
    """What a step leaves."""

    digest: str
    """Of what later steps read; their recipes hold it."""
    units: int
    facts: Mapping[str, Any]
    """For status and table."""
    resumed: bool = False
    """Part of it was there: its time is no measurement."""


Work = Callable[[Step, Path], Made]
"""Does a step in its folder, or goes on with it. Gets the step and the lab's folder."""


def recipe_of(step: Step, out: Path, versions: Mapping[str, str]) -> dict[str, Any]:
    """The recipe of a step whose needs are finished."""
    return {
        "schema": "livery.lab-step/1",
        "step": step.name,
        "settings": json.loads(json.dumps(step.settings)),
        "inputs": {name: done_of(out / name)["digest"] for name in step.needs},
        "versions": dict(versions),
    }


def done_of(folder: Path) -> dict[str, Any]:
    """The done-marker of a step; empty where it is not finished."""
    path = folder / DONE
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _recipe_in(folder: Path) -> dict[str, Any]:
    path = folder / RECIPE
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _differences(folder: Path, now: Mapping[str, Any], parts: Sequence[str]) -> list[Problem]:
    before = _recipe_in(folder)
    problems: list[Problem] = []
    for part in parts if before else ():
        was, new = before.get(part, {}), now[part]
        problems += [
            Problem(
                path=str(folder / RECIPE),
                field=f"{part}.{name}",
                message=f"this folder has {was.get(name)!r}, this run {new.get(name)!r}; expected the same, "
                "--force to delete the step and redo it, or another --out",
                code="lab-other-recipe",
            )
            for name in sorted({*was, *new})
            if was.get(name) != new.get(name)
        ]
    return problems


def write_json(path: Path, value: Any) -> None:
    """A file that is whole, or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
    part.replace(path)


@dataclass(frozen=True, slots=True)
class Ran:
    done: tuple[str, ...]
    """Steps that this start finished."""
    skipped: tuple[str, ...]
    """Those that earlier starts had finished."""
    redone: tuple[str, ...]
    """Those whose recipe had changed."""


def refuse_changed(steps: Sequence[Step], out: Path, versions: Mapping[str, str]) -> None:
    """
    Raises:
        InputError: steps in the folder that have other settings or versions, field by field.
    """
    problems: list[Problem] = []
    for step in steps:
        now = {"settings": json.loads(json.dumps(step.settings)), "versions": dict(versions)}
        problems += _differences(out / step.name, now, ("settings", "versions"))
    if problems:
        raise InputError(problems)


@contextmanager
def locked(out: Path, name: str, *, shared: bool = False) -> Generator[bool]:
    """Whether the lock could be had; it is held inside."""
    path = out / LOCKS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


@dataclass(frozen=True, kw_only=True)
class _Runner:
    """One process at work on a lab's steps."""

    steps: Sequence[Step]
    out: Path
    work: Work
    versions: Mapping[str, str]
    guesses: Mapping[str, float]
    force: bool
    clock: Callable[[], float]
    say: Callable[[str], None]

    def take(self, step: Step) -> Literal["done", "skipped", "redone", "elsewhere"]:
        """Do a step whose needs are finished, unless it is finished or another process does it."""
        with locked(self.out, step.name) as mine:
            if not mine:
                return "elsewhere"
            folder = self.out / step.name
            recipe = recipe_of(step, self.out, self.versions)
            changed = _differences(folder, recipe, ("settings", "inputs", "versions"))
            # The table is written anew from whatever evaluations there are; nothing is lost by it.
            if changed and not self.force and step.kind != "table":
                raise InputError(changed)
            if changed:
                fields = ", ".join(p.field for p in changed)
                self.say(f"{step.name}: {fields} changed; deleted, and done again")
                shutil.rmtree(folder)
            if done_of(folder):
                return "skipped"
            self._do(step, recipe)
            return "redone" if changed else "done"

    def _do(self, step: Step, recipe: Mapping[str, Any]) -> None:
        number = self.steps.index(step) + 1
        left = remaining_s(self.steps, self.out, self.guesses)
        self.say(f"step {number} of {len(self.steps)}: {step.name} ({step.units}); about {hours(left)} left for all")
        folder = self.out / step.name
        write_json(folder / RECIPE, recipe)
        began = self.clock()
        made = self.work(step, self.out)
        seconds = self.clock() - began
        write_json(
            folder / DONE,
            {
                "digest": made.digest,
                "kind": step.kind,
                "units": made.units,
                "seconds": round(seconds, 3),
                "measured": not made.resumed,
                "facts": dict(made.facts),
            },
        )


def run_steps(
    steps: Sequence[Step],
    out: Path,
    work: Work,
    *,
    versions: Mapping[str, str],
    guesses: Mapping[str, float] = SECONDS_A_UNIT,
    force: bool = False,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
    say: Callable[[str], None] = lambda line: None,
) -> Ran:
    """Work through the list, go on with it, or help another process with it.

    Args:
        guesses: seconds a unit, by kind.
        force: delete and redo steps whose recipe has changed, and with them all that starts from them.
        sleep: how it waits while every step that is ready is done by other processes.
        say: gets a line about each step.

    Raises:
        InputError: steps whose recipe has changed, field by field (settings and versions are looked at before
            anything is done); or ``force`` while other processes work here.
    """
    if not force:
        refuse_changed(steps, out, versions)
    runner = _Runner(
        steps=steps, out=out, work=work, versions=versions, guesses=guesses, force=force, clock=clock, say=say
    )
    found: dict[str, str] = {}
    with locked(out, "all", shared=not force) as alone:
        if not alone:
            message = (
                "another process works in this lab; --force wants it alone"
                if force
                else ("a process that was started with --force works in this lab; wait until it has ended")
            )
            raise InputError.at(out, message, code="lab-busy")
        while pending := [s for s in steps if s.name not in found]:
            before = len(found)
            for step in pending:
                ready = all(n in found or (not force and done_of(out / n)) for n in step.needs)
                if ready and (outcome := runner.take(step)) != "elsewhere":
                    found[step.name] = outcome
                    break
            if len(found) == before:
                sleep(WAIT_S)
    names = [s.name for s in steps]
    done = tuple(n for n in names if found[n] in ("done", "redone"))
    return Ran(done, tuple(n for n in names if found[n] == "skipped"), tuple(n for n in names if found[n] == "redone"))


def rates(out: Path, guesses: Mapping[str, float]) -> dict[str, float]:
    """Seconds a unit, by kind: measured by the steps that were done in one go, else guessed."""
    seconds: dict[str, float] = {}
    units: dict[str, int] = {}
    for path in sorted(out.glob(f"*/{DONE}")):
        one = done_of(path.parent)
        if one["measured"] and one["units"]:
            seconds[one["kind"]] = seconds.get(one["kind"], 0.0) + one["seconds"]
            units[one["kind"]] = units.get(one["kind"], 0) + one["units"]
    return {**SECONDS_A_UNIT, **guesses, **{kind: seconds[kind] / units[kind] for kind in seconds}}


def remaining_s(steps: Sequence[Step], out: Path, guesses: Mapping[str, float]) -> float:
    """Seconds that the unfinished of these steps will take, each from its beginning."""
    known = rates(out, guesses)
    return sum(known[s.kind] * s.units for s in steps if not done_of(out / s.name))


def hours(seconds: float) -> str:
    """For people."""
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{max(1, minutes)} min"


def write_lab(out: Path, profile: str, config: LabConfig, arms: Sequence[str], sources: Mapping[str, str]) -> None:
    """What `livery lab status` reads the list from."""
    whole = config.model_dump(mode="json")
    write_json(out / LAB, {"schema": "livery.lab/1", "profile": profile, "arms": list(arms), "sources": dict(sources),
                           "config": whole})  # fmt: skip


def read_lab(out: Path) -> tuple[str, LabConfig, list[str], dict[str, str]]:
    """(profile, configuration, arms asked for last, digests of harness and model).

    Raises:
        InputError: not a lab's folder.
    """
    path = out / LAB
    if not path.is_file():
        raise InputError.at(path, "no such file; expected a folder of `livery lab run`")
    data = json.loads(path.read_text(encoding="utf-8"))
    return data["profile"], LabConfig.model_validate(data["config"]), data["arms"], data["sources"]


def state_of(step: Step, out: Path) -> Literal["done", "begun", "open"]:
    folder = out / step.name
    return "done" if done_of(folder) else "begun" if (folder / RECIPE).is_file() else "open"
