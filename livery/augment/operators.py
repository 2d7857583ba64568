"""What an operator of Harness-State Augmentation is, and how operators make a variant.

An operator is a pure function (harness, random stream, lexicon) -> edited harness. It changes surfaces and bindings:
never an operation, a key, a fact, a skill's topics or kind, nor what hooks accept beyond what the prompt announces.
Every application leaves a `Record`, and `apply` rebuilds the variant from the records bit for bit.

Composition rules: operators run by ascending ``stage``; of a ``group`` one at most; one that finds nothing to change
leaves no record. After these rules any set of operators composes, and names stay unique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from random import Random
from typing import Any, Literal, Self

from pydantic import Field

from livery.augment.lexicon import Lexicon, Split, language_of, lexicon
from livery.errors import InputError
from livery.harness.digest import harness_digest
from livery.harness.model import Frozen, Harness
from livery.types import JSON

Dimension = Literal["skill_identifiers", "skill_content", "tool_schemas", "prompt_structure", "hook_behaviour"]
DIMENSIONS: tuple[Dimension, ...] = (
    "skill_identifiers",
    "skill_content",
    "tool_schemas",
    "prompt_structure",
    "hook_behaviour",
)


class Renamed(Frozen):
    """One thing that has another name, or place, under the variant."""

    what: Literal["skill", "tool", "argument", "field", "section", "merged", "split"]
    """``merged``: the skill ``key`` is now part of the skill whose key is ``new``. ``split``: the second part of
    the skill ``key`` is now the skill whose key is ``new``."""
    key: str
    """Key of the skill, tool or section."""
    old: str
    new: str


class Record(Frozen):
    """One application of one operator: all that is needed to do it again."""

    operator: str
    version: int
    split: Split
    """Which entries of the lexicon it could choose from."""
    seed: int
    lexicon: str
    """Digest of the lexicon's data."""
    parameters: dict[str, JSON] = Field(default_factory=dict[str, JSON])
    """What it chose, for people and tables."""
    renamed: tuple[Renamed, ...] = ()


@dataclass(frozen=True, slots=True)
class Edit:
    """What an operator made of a harness."""

    harness: Harness
    parameters: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    renamed: tuple[Renamed, ...] = ()


Apply = Callable[[Harness, Random, Lexicon], Edit | None]
"""None: there is nothing here that it could change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    name: str
    """``<dimension>.<what>``."""
    version: int = 1
    """Raised whenever the same seed would give another result."""
    stage: int
    group: str = ""
    held_out: bool = False
    removes: str
    """The shortcut that a policy can no longer take, in one line."""
    run: Apply = field(repr=False)
    dimension: Dimension

    @property
    def split(self) -> Split:
        return "heldout" if self.held_out else "train"


class Registry(Mapping[str, Operator]):
    """Operators by name, in the order of definition."""

    def __init__(self, operators: Iterable[Operator] = ()) -> None:
        self._operators: dict[str, Operator] = {}
        for one in operators:
            self.add(one)

    def add(self, one: Operator) -> None:
        if one.name in self._operators:
            raise ValueError(f"operator {one.name!r} is registered twice")
        self._operators[one.name] = one

    def __getitem__(self, name: str) -> Operator:
        return self._operators[name]

    def __iter__(self):
        return iter(self._operators)

    def __len__(self) -> int:
        return len(self._operators)

    def of(self, dimensions: Sequence[Dimension] = DIMENSIONS, *, held_out: bool | None = None) -> list[Operator]:
        return [
            o
            for o in self._operators.values()
            if o.dimension in dimensions and (held_out is None or o.held_out == held_out)
        ]


_REGISTRY = Registry()


def operator(
    name: str, *, stage: int, removes: str, group: str = "", held_out: bool = False, version: int = 1
) -> Callable[[Apply], Apply]:
    """Register a function as an operator."""

    dimensions: dict[str, Dimension] = {d: d for d in DIMENSIONS}
    dimension = dimensions[name.partition(".")[0]]

    def register(run: Apply) -> Apply:
        _REGISTRY.add(
            Operator(
                name=name,
                dimension=dimension,
                version=version,
                stage=stage,
                group=group,
                held_out=held_out,
                removes=removes,
                run=run,
            )
        )
        return run

    return register


@lru_cache(maxsize=1)
def registered() -> Registry:
    """Every operator of the package, by dimension and name: what is drawn must not hang on what was imported first."""
    from livery.augment import (  # the files register as they are imported
        hook_behaviour,
        prompt_structure,
        skill_content,
        skill_identifiers,
        tool_schemas,
    )

    _ = hook_behaviour, prompt_structure, skill_content, skill_identifiers, tool_schemas
    return Registry(sorted(_REGISTRY.values(), key=lambda o: (DIMENSIONS.index(o.dimension), o.name)))


class Variant(Frozen):
    """A harness derived from another, with the record of what was done."""

    harness: Harness
    base_digest: str
    records: tuple[Record, ...] = ()

    @cached_property
    def digest(self) -> str:
        """The variant's own release."""
        return harness_digest(self.harness)

    @classmethod
    def of(cls, base: Harness, records: Sequence[Record], harness: Harness, *, base_digest: str = "") -> Self:
        return cls(harness=harness, base_digest=base_digest or harness_digest(base), records=tuple(records))

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(r.operator for r in self.records)


def apply_one(one: Operator, harness: Harness, *, seed: int, split: Split) -> tuple[Harness, Record] | None:
    """Run one operator; None where it finds nothing to change."""
    words = lexicon(language_of(harness.language), split)
    edit = one.run(harness, Random(seed), words)
    if edit is None or _same(edit.harness, harness):
        return None
    record = Record(
        operator=one.name,
        version=one.version,
        split=split,
        seed=seed,
        lexicon=words.digest,
        parameters=dict(edit.parameters),
        renamed=edit.renamed,
    )
    return edit.harness, record


def _same(a: Harness, b: Harness) -> bool:
    """Equal, in the order of arguments too (which equal mappings may differ in)."""
    if a is b:
        return True
    for kind in ("tools", "skills", "sections", "hooks"):
        mine, theirs = getattr(a, kind), getattr(b, kind)
        if mine is not theirs and mine != theirs:
            return False
    orders = ([list(t.input_schema.get("properties", {})) for t in h.tools] for h in (a, b))
    return next(orders) == next(orders) and a == b


def in_order(operators: Iterable[Operator], rng: Random) -> list[Operator]:
    """The composition rules: one of a group, by stage; within a stage as the random stream has it."""
    mixed = list(operators)
    rng.shuffle(mixed)
    taken: set[str] = set()
    kept: list[Operator] = []
    for one in mixed:
        if one.group and one.group in taken:
            continue
        taken.add(one.group)
        kept.append(one)
    return sorted(kept, key=lambda o: o.stage)


def compose(base: Harness, operators: Sequence[Operator], *, seed: int, split: Split, base_digest: str = "") -> Variant:
    """A variant by these operators, under the composition rules."""
    rng = Random(seed)
    harness, records = base, list[Record]()
    for one in in_order(operators, rng):
        made = apply_one(one, harness, seed=rng.getrandbits(48), split=split)
        if made is not None:
            harness = made[0]
            records.append(made[1])
    return Variant.of(base, records, harness, base_digest=base_digest)


def apply(records: Sequence[Record], base: Harness, *, operators: Mapping[str, Operator] | None = None) -> Harness:
    """Rebuild a variant from its records: the same harness, bit for bit.

    Raises:
        InputError: a record of an operator, a version or lexicon data that is not here, or that the base does not
            fit (it then chooses otherwise).
    """
    known = registered() if operators is None else operators
    harness = base
    for i, record in enumerate(records):
        where = f"records[{i}]"
        one = known.get(record.operator)
        if one is None or one.version != record.version:
            have = f"version {one.version}" if one else "no such operator"
            message = f"found {record.operator} version {record.version}; expected one known here ({have})"
            raise InputError.at(where, message, field="operator", code="record-operator")
        words = lexicon(language_of(harness.language), record.split)
        if words.digest != record.lexicon:
            message = f"found a record of lexicon {record.lexicon}; expected {words.digest}, the one of this version"
            raise InputError.at(where, message, field="lexicon", code="record-lexicon")
        edit = one.run(harness, Random(record.seed), words)
        if edit is None or dict(edit.parameters) != record.parameters or edit.renamed != record.renamed:
            message = (
                f"{record.operator} does something else here than the record says; expected the base it was made on"
            )
            raise InputError.at(where, message, field="parameters", code="record-base")
        harness = edit.harness
    return harness


def rebuild(records: Sequence[Record], base: Harness, *, base_digest: str) -> Variant:
    """As `apply`, with a check that ``base`` is the harness the records were made on.

    Raises:
        InputError: it is another one; or as `apply`.
    """
    found = harness_digest(base)
    if found != base_digest:
        message = f"found the base {found}; expected {base_digest}"
        raise InputError.at("base", message, field="base_digest", code="record-base")
    return Variant.of(base, records, apply(records, base), base_digest=found)


def any_mapping(value: Any) -> dict[str, Any]:
    """A JSON object as a mapping, empty for anything else."""
    return dict(value) if isinstance(value, Mapping) else {}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
