"""The lab's configuration: profiles of arms, budgets and sets, read from a file.

Everything that the figures hang on stands here or in what the steps find (`livery.training.lab`). No torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self, cast

import yaml
from pydantic import Field, ValidationError, model_validator

from livery.augment.operators import DIMENSIONS, Dimension
from livery.errors import InputError, Problem
from livery.evaluation.suites import suite_named
from livery.harness.model import Frozen
from livery.simulator.oracle import Manner

CONFIG: Final = Path("configs/lab.yaml")
BASE: Final = "base"
"""The arm that is not trained."""

Kind = Literal["base", "data", "match", "sft", "distill", "rl", "eval", "table"]
Stage = Literal["sft", "distill", "rl"]
STAGES: Final[tuple[Stage, ...]] = ("sft", "distill", "rl")
IFEVAL: Final = "t4"
"""The set that is no set of tasks: plain prompts (`livery.evaluation.ifeval`)."""
IFEVAL_SIZE: Final = 541

SECONDS_A_UNIT: Final[Mapping[str, float]] = {
    "base": 20.0, "data": 0.05, "match": 0.01, "sft": 8.0, "distill": 60.0, "rl": 150.0, "eval": 5.0, "table": 20.0,
}  # fmt: skip
"""Rough first guess for one slow core: a trajectory, an optimizer step or a task each; what a run measures replaces
it."""


class Arm(Frozen):
    """One way to train."""

    name: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    stage: Stage = "sft"
    after: str = ""
    """The arm from whose end this one goes on, seed by seed; supervised training then meets other tasks than that
    one."""
    augment: bool = False
    """False: every task under the base harness (Fixed-Harness SFT). True: under variants of the train split, and under
    the base in a share of the groups (HSA-SFT, HSA-RL)."""
    without: Dimension | None = None
    """A dimension that no variant changes."""
    tasks: int = Field(default=0, ge=0)
    """Trajectories to build, or tasks to play. Arms of equal number and seed get the same tasks."""
    first_turns: float | None = Field(default=None, ge=0, le=1)
    """The lab's, where it is another share. Arms of equal number of tasks have the same."""
    steps: int = Field(default=0, ge=0)
    """Optimizer steps of distillation or reinforcement learning; 0: as many as meet everything once."""
    seeds: tuple[int, ...] = ()
    """Empty: those of the lab."""
    suites: tuple[str, ...] = ()
    """Of the lab's, those it is evaluated on; empty: all."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.without and not self.augment:
            raise ValueError("'without' is for arms that augment")
        if self.stage != "sft" and not self.after:
            raise ValueError(f"'after' is empty; expected the arm from whose end {self.stage} goes on")
        if self.stage != "sft" and self.first_turns is not None:
            raise ValueError("'first_turns' is for supervised training")
        if self.stage != "distill" and not self.tasks:
            raise ValueError("'tasks' is 0; expected at least 1")
        if self.stage == "distill" and (self.augment or self.tasks or not self.steps):
            raise ValueError("distillation has 'steps', and neither 'tasks' nor 'augment'")
        if self.name == BASE:
            raise ValueError(f"{BASE!r} is the name of the arm that is not trained")
        return self

    @property
    def step(self) -> str:
        """Beginning of the name of the step that trains it."""
        return f"{self.stage}-{self.name}"

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Those that variants change."""
        return tuple(d for d in DIMENSIONS if self.augment and d != self.without)


class LabConfig(Frozen):
    """All that the figures hang on, but for what the steps find (`Step.recipe`)."""

    harness: Path
    """Folder of the base harness."""
    model: str = ""
    """A folder, a hub name or a GGUF file; empty: the embedded SmolLM2-135M-Instruct."""
    seeds: tuple[int, ...] = Field(default=(0, 1), min_length=1)
    arms: tuple[Arm, ...] = Field(min_length=1)
    suites: tuple[str, ...] = Field(min_length=1)
    """Names of `livery.evaluation.suites`."""
    limit: int = Field(default=0, ge=0)
    """First tasks of each set; 0: all."""
    limits: Mapping[str, int] = Field(default_factory=dict[str, int])
    """By set, where it is another number."""
    base_share: float = Field(default=0.2, ge=0, le=1)
    strength: float = Field(default=0.5, ge=0, le=1)
    manner: Manner = "varied"
    """How the oracle, whose conversations are learned from, speaks and orders its calls."""
    first_turns: float = Field(default=0.0, ge=0, le=1)
    """Share of the conversations of which only the first turn is kept (`livery.training.rows.first_turn`): more
    requests for the same computing."""
    tasks_a_variant: int = Field(default=5, ge=1)
    lora_rank: int = Field(default=16, ge=0)
    learning_rate: float = Field(default=1e-3, gt=0)
    epochs: float = Field(default=1.0, gt=0)
    rows_a_tree: int = Field(default=5, ge=1)
    accumulate: int = Field(default=1, ge=1)
    packing: Literal["auto", "tree", "mask", "rows"] = "auto"
    distill: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    """Further options of distillation (`livery.training.distill.DistillOptions`)."""
    prompts: tuple[str, ...] = ()
    """Files or hub names of the general prompts that distillation draws from."""
    exclude: tuple[str, ...] = ()
    """Files whose prompts it must not draw."""
    rl: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    """Further options of reinforcement learning (`livery.training.rl_options.RlOptions`)."""
    ifeval: str = "google/IFEval"
    """File or hub name of the prompts of the set t4."""
    ifeval_tokens: int = Field(default=1280, ge=1)
    """Most tokens of a response there."""
    save_every: int = Field(default=25, ge=1)
    """Optimizer steps between checkpoints; may change when a run goes on."""
    batch: int = Field(default=8, ge=1)
    """Requests that evaluation decodes at a time."""
    patience_s: float = Field(default=900.0, gt=0)
    """Time of an evaluated request: scores are not to hang on how slow the machine is."""
    context: int = Field(default=8192, ge=256)
    """Tokens of a conversation in evaluation; a longer one counts as failed."""
    seconds_a_unit: Mapping[str, float] = Field(default_factory=lambda: dict(SECONDS_A_UNIT))
    """By kind of step, for the first estimate."""

    @model_validator(mode="after")
    def _once(self) -> Self:
        names = [a.name for a in self.arms]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ValueError(f"arms that stand twice: {', '.join(twice)}")
        for name in self.suites:
            if name != IFEVAL:
                suite_named(name)
        for i, arm in enumerate(self.arms):
            before = next((a for a in self.arms[:i] if a.name == arm.after), None)
            if arm.after and before is None:
                raise ValueError(f"{arm.name}: 'after' is {arm.after!r}; expected an arm that stands before it")
            if before and not {*self.seeds_of(arm)} <= {*self.seeds_of(before)}:
                raise ValueError(f"{arm.name}: found seeds {self.seeds_of(arm)}; expected of {before.name}'s")
        for arm in self.arms:
            if arm.after and arm.stage == "sft" and self.arm(arm.after).stage != "sft":
                raise ValueError(f"{arm.name}: 'after' is {arm.after!r}; expected an arm of supervised training")
            # Their rows are matched task by task.
            odd = [a.name for a in self._peers(arm) if self.way_of(a) != self.way_of(arm)]
            if odd:
                raise ValueError(
                    f"{arm.name} and {odd[0]} have as many tasks; expected the same first_turns, and that both or "
                    "neither go on from an arm, of equal number again"
                )
        if any(a.stage == "distill" for a in self.arms) and not self.prompts:
            raise ValueError("'prompts' is empty; distillation draws from them")
        odd = sorted({*self.limits, *(s for a in self.arms for s in a.suites)} - {*self.suites})
        if odd:
            raise ValueError(f"sets of arms or limits that are not the lab's: {', '.join(odd)}")
        return self

    def limit_of(self, suite: str) -> int:
        """First tasks of a set; 0: all."""
        return self.limits.get(suite, self.limit)

    def size_of(self, suite: str) -> int:
        """Tasks of a set that are asked."""
        whole = IFEVAL_SIZE if suite == IFEVAL else suite_named(suite).size
        return min(self.limit_of(suite) or whole, whole)

    def arm(self, name: str) -> Arm:
        return next(a for a in self.arms if a.name == name)

    def _peers(self, arm: Arm) -> list[Arm]:
        return [a for a in self.arms if arm.stage == a.stage == "sft" and a.tasks == arm.tasks]

    def first_turns_of(self, arm: Arm) -> float:
        return self.first_turns if arm.first_turns is None else arm.first_turns

    def way_of(self, arm: Arm) -> tuple[float, tuple[int, ...]]:
        """What supervised arms of equal number of tasks have in common: the share of first turns, and the tasks of each
        arm they go on from, the nearest first."""
        before: list[int] = []
        name = arm.after
        while name:
            before.append(self.arm(name).tasks)
            name = self.arm(name).after
        return self.first_turns_of(arm), tuple(before)

    def suites_of(self, arm: Arm) -> tuple[str, ...]:
        return arm.suites or self.suites

    def seeds_of(self, arm: Arm) -> tuple[int, ...]:
        return arm.seeds or self.seeds


def read_config(path: Path, profile: str) -> LabConfig:
    """A profile of a YAML file.

    Raises:
        InputError: no such file or profile; every field that does not fit.
    """
    if not path.is_file():
        raise InputError.at(path, "no such file; run from livery's own folder, or give --config")
    try:
        data: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise InputError.at(path, f"not YAML ({error})", code="lab-config") from error
    known: Any = cast("dict[str, Any]", data).get("profiles") if isinstance(data, dict) else None
    if not isinstance(known, dict) or profile not in known:
        names = ", ".join(map(str, cast("dict[str, Any]", known))) if isinstance(known, dict) else "none"
        raise InputError.at(path, f"found no profile {profile!r}; it has {names}", field="profiles", code="lab-config")
    try:
        return LabConfig.model_validate(known[profile])
    except ValidationError as error:
        raise InputError(
            [
                Problem(
                    path=str(path),
                    field=".".join(map(str, ("profiles", profile, *e["loc"]))),
                    message=f"found {e['input']!r}; {e['msg']}",
                    code="lab-config",
                )
                for e in error.errors(include_url=False)
            ]
        ) from error
