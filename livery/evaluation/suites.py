"""The frozen evaluation sets: which tasks, each under which harness.

T1 (Live-Stream QA) are 1,500 tasks on test worlds under a base harness. T2 (Harness-Variant QA) are the same tasks,
each under a variant of its own, drawn with held-out operators and words by the task's id. Beside the whole T2 stands
one set for each dimension, with operators of that dimension alone: a sum hides what carries it.

Nothing is stored but seeds. What they make is pinned by digest in ``frozen.yaml``, so that a change in how tasks or
variants are made cannot pass for a change of a model (`drifts`). Tasks do not know harnesses, so any harness of a set's
language can be a base; only the sample harnesses' variants are pinned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, cast

import yaml

from livery.augment.operators import DIMENSIONS, Dimension, Variant, registered
from livery.augment.sampling import sample_variant
from livery.errors import InputError
from livery.evaluation import edits, robustness
from livery.harness.digest import harness_digest
from livery.harness.model import Harness
from livery.shop.operations import Operations
from livery.simulator.task import Scores, Task, WorldRef
from livery.simulator.task_sets import digest
from livery.simulator.tasks import make_task
from livery.simulator.worlds import Language, world_of
from livery.types import Trajectory

WORLDS: Final = 60
TASKS_A_WORLD: Final = 25
SIZE: Final = WORLDS * TASKS_A_WORLD
FIRST_WORLD: Final = 9_000_000
"""Seed of the first test world; far from what ``livery data build`` and ``livery tasks make`` begin with."""

WHOLE_STRENGTH: Final = 0.5
"""About six operators a variant, of any dimension."""
SINGLE_STRENGTH: Final = 0.3
"""About three operators a variant, all of one dimension: more of it than the whole T2 has, so that its effect shows."""

FIRST: Final = 60
"""Tasks of a set that the quick check makes: one of each world."""
FROZEN: Final = Path(__file__).with_name("frozen.yaml")
_DRAWS: Final = 8
_MEMO: Final = 4096


@dataclass(frozen=True, slots=True)
class Case:
    """One task of a set under the harness it is asked under."""

    task: Task
    harness: Harness
    variant: Variant | None = None
    """How the harness was made; None: it is the base itself, or made otherwise."""
    kind: str = ""
    """Of a set that has kinds: what this case tries."""
    operations: Operations | None = None
    """What the shop's operations are for this case; None: what they are."""
    judge: Callable[[Task, Trajectory, Harness], Scores] | None = None
    """What a trajectory earns in this case; None: what the verifier says."""

    @property
    def operators(self) -> tuple[str, ...]:
        return self.variant.operators if self.variant else ()

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Of the operators, in the order of `DIMENSIONS`."""
        used = {name.partition(".")[0] for name in self.operators}
        return tuple(d for d in DIMENSIONS if d in used)


@dataclass(frozen=True)
class Base:
    """A base harness and its digest, reckoned once."""

    harness: Harness

    @cached_property
    def digest(self) -> str:
        return harness_digest(self.harness)


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A set of tasks, and what each is asked under."""

    name: str
    title: str
    language: Language
    size: int
    tasks: Callable[[int], list[Task]] = field(repr=False)
    """The first so many tasks. Worlds take turns, so that a short beginning is a fair sample."""
    wear: Callable[[Task, Base], Case] = field(repr=False)
    """The case of a task over a base harness: the same for the same arguments."""
    dimensions: tuple[Dimension, ...] = ()
    """Of the operators that variants are drawn from; empty: no variant."""
    under: str = ""
    """What tasks are asked under where that is neither the base nor a variant, in words."""
    judges: tuple[Path, ...] = field(default=(), repr=False)
    """Files that decide scores beside the verifier's own, where cases have a judge."""

    def cases(self, base: Harness, limit: int = 0) -> Iterator[Case]:
        """The first ``limit`` cases (0: all), made as they are asked for.

        Raises:
            InputError: the base speaks another language than the tasks.
        """
        self.fits(base)
        own = Base(base)
        for task in self.tasks(min(limit or self.size, self.size)):
            yield self.wear(task, own)

    def fits(self, base: Harness) -> None:
        """
        Raises:
            InputError: the base speaks another language than the tasks.
        """
        if base.language.lower().split("-")[0] != self.language:
            message = f"found the language {base.language!r}; the set {self.name} asks in {self.language!r}"
            raise InputError.at(base.name, message, field="language", code="suite-language")


def qa_tasks(language: Language, n: int = SIZE) -> list[Task]:
    """The first ``n`` tasks of T1 and T2: one of each world, then a second of each, and so on."""
    return list(_qa_tasks(language, n))


@lru_cache(maxsize=8)
def _qa_tasks(language: Language, n: int) -> tuple[Task, ...]:
    refs = [WorldRef(split="test", language=language, seed=FIRST_WORLD + i) for i in range(WORLDS)]
    return tuple(make_task(world_of(refs[i % WORLDS]), i // WORLDS) for i in range(n))


@lru_cache(maxsize=16)
def tasks_digest(suite: Suite) -> str:
    """Digest of all tasks of a set."""
    return digest(suite.tasks(suite.size))


def held_out_variant(task_id: str, base: Base, dimensions: tuple[Dimension, ...] = DIMENSIONS) -> Variant:
    """The variant under which T2 asks a task: held-out words, and at least one operator that makes no training variant
    (unless the base leaves none of them anything to change)."""
    return _variant(task_id, _Key(base.digest, base), dimensions)


@dataclass(frozen=True, slots=True)
class _Key:
    """A base, known by its digest."""

    digest: str
    base: Base = field(compare=False)


@lru_cache(maxsize=_MEMO)
def _variant(task_id: str, key: _Key, dimensions: tuple[Dimension, ...]) -> Variant:
    strength = WHOLE_STRENGTH if len(dimensions) == len(DIMENSIONS) else SINGLE_STRENGTH
    known = registered()
    made: Variant | None = None
    for draw in range(_DRAWS):
        text = f"t2/{'+'.join(dimensions)}/{task_id}/{draw}"
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")
        drawn = sample_variant(key.base.harness, seed, "heldout", strength, dimensions, base_digest=key.digest)
        made = made if made is not None and made.records else drawn
        if any(known[name].held_out for name in drawn.operators):
            return drawn
    assert made is not None
    return made


def _plain(task: Task, base: Base) -> Case:
    return Case(task, base.harness)


def _t1(language: Language) -> Suite:
    return Suite(
        name="t1" if language == "en" else f"t1-{language}",
        title="T1 Live-Stream QA",
        language=language,
        size=SIZE,
        tasks=lambda n: qa_tasks(language, n),
        wear=_plain,
    )


def _t2(language: Language, dimension: Dimension | None = None) -> Suite:
    dimensions = (dimension,) if dimension else DIMENSIONS

    def wear(task: Task, base: Base) -> Case:
        variant = held_out_variant(task.id, base, dimensions)
        return Case(task, variant.harness, variant)

    stem = "t2" if language == "en" else f"t2-{language}"
    only = f", {dimension.replace('_', ' ')} only" if dimension else ""
    return Suite(
        name=f"{stem}-{dimension.replace('_', '-')}" if dimension else stem,
        title=f"T2 Harness-Variant QA{only}",
        language=language,
        size=SIZE,
        tasks=lambda n: qa_tasks(language, n),
        wear=wear,
        dimensions=dimensions,
    )


_LANGUAGES: tuple[Language, ...] = ("en", "zh")
SUITES: Final[Mapping[str, Suite]] = {
    suite.name: suite
    for language in _LANGUAGES
    for suite in (_t1(language), _t2(language), *(_t2(language, d) for d in DIMENSIONS))
} | {suite.name: suite for suite in (*robustness.suites(), *edits.suites())}


def suite_named(name: str) -> Suite:
    """
    Raises:
        InputError: there is no such set.
    """
    suite = SUITES.get(name.lower().replace("_", "-"))
    if suite is None:
        raise InputError.at("SUITE", f"found {name!r}; expected one of {', '.join(SUITES)}", code="suite-name")
    return suite


# ------------------------------------------------------------------------------------ what is pinned


@dataclass(frozen=True, slots=True)
class Drift:
    """One thing that is no longer made as it was pinned."""

    what: str
    """``tasks en``, ``base zh``, ``t2-tool-schemas``."""
    pinned: str
    found: str

    def __str__(self) -> str:
        return f"{self.what}: made {self.found[:12]}, pinned {self.pinned[:12] or 'never'}"


def pinned() -> dict[str, dict[str, str]]:
    """``first`` and ``whole`` -> name -> digest."""
    data: Any = yaml.safe_load(FROZEN.read_text(encoding="utf-8")) if FROZEN.is_file() else {}
    return cast("dict[str, dict[str, str]]", data or {})


def made(
    bases: Mapping[Language, Harness], n: int, progress: Callable[[str], None] = lambda name: None
) -> dict[str, str]:
    """Digests of what the seeds make now, for the first ``n`` tasks of every set.

    Args:
        bases: the sample harness of each language that is to be looked at.
        progress: told of every set that is done.
    """
    found: dict[str, str] = {}
    for language, harness in bases.items():
        base = Base(harness)
        tasks = qa_tasks(language, n)
        found[f"tasks {language}"] = digest(tasks)
        found[f"base {language}"] = base.digest
        progress(f"tasks {language}")
        for suite in SUITES.values():
            if suite.language == language and suite.dimensions:
                found[suite.name] = variants_digest(suite.wear(task, base) for task in tasks)
                progress(suite.name)
        found.update(robustness.pins(language, base, min(n, robustness.SIZE)))
        progress("t3")
        found.update(edits.pins(language, base, min(n, edits.SIZE)))
        progress("edits")
    return found


def variants_digest(cases: Iterator[Case]) -> str:
    """SHA-256 over task ids and the digests of what each is asked under, in order."""
    whole = hashlib.sha256()
    for case in cases:
        release = case.variant.digest if case.variant else harness_digest(case.harness)
        whole.update(f"{case.task.id} {release}\n".encode())
    return whole.hexdigest()


def drifts(found: Mapping[str, str], against: Mapping[str, str]) -> list[Drift]:
    """What was made differently from what is pinned, in the order of ``found``."""
    return [Drift(name, against.get(name, ""), value) for name, value in found.items() if against.get(name) != value]


def pin(bases: Mapping[Language, Harness], progress: Callable[[str], None] = lambda name: None) -> None:
    """Write what is made now into ``frozen.yaml``: figures measured before no longer compare with later ones."""
    data = {"first": made(bases, FIRST, progress), "whole": made(bases, SIZE, progress)}
    head = "# Digests of the evaluation sets, by `livery eval suites --pin`. Figures compare only while these stay.\n"
    FROZEN.write_text(head + yaml.safe_dump(data, sort_keys=False, width=120), encoding="utf-8")
