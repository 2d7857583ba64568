"""What every package needs to be told: which tasks, under which harness, or each under its own variant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from livery.augment.sampling import sample_variant
from livery.harness.folder import load_harness
from livery.harness.model import Harness
from livery.simulator.task import Task
from livery.simulator.tasks import make_tasks
from livery.simulator.worlds import Language


@dataclass(frozen=True)
class Setting:
    """Tasks and the harness that each is played under."""

    harness: str
    """Folder of the base harness."""
    split: Literal["train", "test"] = "train"
    seed: int = 0
    """Of the first world."""
    variants: Literal["none", "train", "heldout"] = "none"
    """Whether each task has a variant of its own, and of which split."""

    @cached_property
    def base(self) -> Harness:
        """
        Raises:
            InputError: the folder is no harness.
        """
        return load_harness(Path(self.harness)).harness

    def tasks(self, count: int) -> list[Task]:
        """The first tasks, in the harness's language."""
        language: Language = "zh" if self.base.language.startswith("zh") else "en"
        return make_tasks(self.split, language, count, self.seed)

    def harness_for(self, index: int) -> Harness:
        """What the task at this place is played under."""
        if self.variants == "none":
            return self.base
        return sample_variant(self.base, self.seed * 1_000_003 + index, self.variants).harness

    def pairs(self, count: int) -> Iterator[tuple[Task, Harness]]:
        """Each task and its harness."""
        for index, task in enumerate(self.tasks(count)):
            yield task, self.harness_for(index)
