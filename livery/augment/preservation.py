"""Whether augmentation keeps the task: proven by playing, not claimed.

For every operator alone and for random compositions a runner plays tasks under the base and under the variant; the
operations with their arguments, and the scores, must be the same. Beside it stand checks that need no playing: lint,
a rebuild from the records, and what no operator may touch. A counterexample shrinks to the fewest operators that break
it. The runner is given: the simulator's oracle, or the probes of `livery.augment.probe`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Generic, Protocol, TypeVar

from livery.augment.lexicon import Split
from livery.augment.naming import explicit
from livery.augment.operators import Operator, Record, Variant, any_mapping, apply, apply_one, registered
from livery.augment.sampling import sample_variant
from livery.errors import InputError
from livery.harness.digest import harness_digest
from livery.harness.lint import lint
from livery.harness.model import Harness, Limits, Skill
from livery.harness.skills import policy_may_load

Task = TypeVar("Task")
Task_contra = TypeVar("Task_contra", contravariant=True)

LOAD = "harness.load_skill"


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one task under one harness."""

    operations: tuple[tuple[str, Mapping[str, Any]], ...]
    """Every operation that ran, in order, with its arguments after the binding. A loaded skill is
    ``("harness.load_skill", {"key": <the skill's key>})``."""
    scores: Mapping[str, float]
    note: str = ""
    """Why it ended as it did, for people."""


class Runner(Protocol[Task_contra]):
    """Plays a task with an oracle that acts only through the harness's surfaces."""

    def play(self, task: Task_contra, harness: Harness) -> Played: ...


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that a variant changed and must not."""

    found_by: str
    """``played``, ``lint``, ``rebuild`` or ``kept`` (what no operator may touch)."""
    what: str
    operators: tuple[str, ...]
    """The fewest of the variant's operators that break it."""
    records: tuple[Record, ...]
    task: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "found_by": self.found_by,
            "what": self.what,
            "operators": list(self.operators),
            "task": self.task,
            "records": [r.model_dump(mode="json", exclude={"renamed"}) for r in self.records],
        }


@dataclass(frozen=True, slots=True)
class Report:
    base_digest: str
    operators: tuple[str, ...]
    """Operators that were checked alone."""
    idle: tuple[str, ...]
    """Operators that found nothing to change in this harness."""
    compositions: int
    plays: int
    violations: tuple[Violation, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "base": self.base_digest,
            "operators": len(self.operators),
            "idle": list(self.idle),
            "compositions": self.compositions,
            "plays": self.plays,
            "violations": [v.as_json() for v in self.violations],
        }


@dataclass(slots=True)
class Check(Generic[Task]):
    """One check of one base harness. Built by `check_preservation`; apart from it for shrinking and for tests."""

    base: Harness
    runner: Runner[Task]
    tasks: Sequence[Task]
    parameters: Mapping[str, Mapping[str, Any]] | None = None
    """Operation -> JSON Schema of its arguments, for lint."""
    operators: Mapping[str, Operator] = field(default_factory=registered)
    plays: int = 0
    _played: dict[int, Played] = field(default_factory=dict[int, Played])

    def violation(
        self, records: Sequence[Record], harness: Harness, places: Sequence[int]
    ) -> tuple[str, str, str] | None:
        """(found by, what, task) of the first thing wrong with a variant."""
        for what in kept(self.base, records, harness):
            return "kept", what, ""
        errors = [p for p in lint(harness, operations=self.parameters, strict=False) if p.severity == "error"]
        if errors:
            return "lint", str(errors[0]), ""
        for place in places:
            what = self.differs(records, harness, place)
            if what:
                return "played", what, str(getattr(self.tasks[place], "id", place))
        return None

    def differs(self, records: Sequence[Record], harness: Harness, place: int) -> str:
        """How playing one task differs from playing it under the base; "" where it does not."""
        if place not in self._played:
            self.plays += 1
            self._played[place] = self.runner.play(self.tasks[place], self.base)
        self.plays += 1
        return difference(self._played[place], self.runner.play(self.tasks[place], harness), records)

    def shrunk(self, records: Sequence[Record], places: Sequence[int]) -> tuple[Record, ...]:
        """The fewest records that are still wrong: each is left out in turn."""
        kept_ = list(records)
        for record in records:
            fewer = [r for r in kept_ if r is not record]
            again, harness = self.replayed(fewer)
            if self.violation(again, harness, places) is not None:
                kept_ = fewer
        return tuple(kept_)

    def replayed(self, records: Sequence[Record]) -> tuple[tuple[Record, ...], Harness]:
        """The operators of these records with their seeds, on whatever the ones before leave."""
        harness, made = self.base, list[Record]()
        for record in records:
            step = apply_one(self.operators[record.operator], harness, seed=record.seed, split=record.split)
            if step is not None:
                harness = step[0]
                made.append(step[1])
        return tuple(made), harness


def difference(base: Played, variant: Played, records: Sequence[Record]) -> str:
    """How two plays of a task differ, in words; "" where they do not."""
    merged = {r.key: r.new for record in records for r in record.renamed if r.what == "merged"}
    before = [_operation(name, arguments, merged) for name, arguments in base.operations]
    after = [_operation(name, arguments, merged) for name, arguments in variant.operations]
    if before != after:
        gone = [o for o in before if o not in after]
        come = [o for o in after if o not in before]
        return f"operations differ: missing {gone}, new {come} ({variant.note})"
    if dict(base.scores) != dict(variant.scores):
        return f"scores differ: {dict(base.scores)} under the base, {dict(variant.scores)} here ({variant.note})"
    return ""


def _operation(name: str, arguments: Mapping[str, Any], merged: Mapping[str, str]) -> str:
    shown = {k: _number(v) for k, v in arguments.items()}
    if name == LOAD and "key" in shown:
        shown["key"] = merged.get(str(shown["key"]), shown["key"])
    return f"{name} {json.dumps(shown, sort_keys=True, ensure_ascii=False, default=str)}"


def _number(value: Any) -> Any:
    """JSON knows one number where Python knows two: 162 and 162.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# ------------------------------------------------------------------------ what no operator may touch

_GROWING = (
    "rounds",
    "retries",
    "tool_calls",
    "parallel_calls",
    "turn_tokens",
    "reply_chars",
    "context_tokens",
    "deadline_s",
)


def kept(base: Harness, records: Sequence[Record], variant: Harness) -> Iterator[str]:
    """Everything in a variant that is not a surface and yet differs from the base."""
    merged = {r.key: r.new for record in records for r in record.renamed if r.what == "merged"}
    yield from _tools_kept(base, records, variant)
    skills = {s.key: s for s in variant.skills}
    for skill in base.skills:
        other = skills.get(merged.get(skill.key, skill.key))
        if other is None:
            yield f"the skill {skill.key} is gone"
            continue
        if other.kind != skill.kind or other.facts != skill.facts:
            yield f"the skill {skill.key} changed its kind or its facts"
        if policy_may_load(other) != policy_may_load(skill):
            yield f"the skill {skill.key} is shown otherwise"
        if missing := _topics(skill) - _topics(other):
            yield f"the skill {skill.key} lost the topics {', '.join(sorted(missing))}"
    for skill in variant.skills:
        if skill.kind == "reply" and skill.key not in {s.key for s in base.skills}:
            yield f"{skill.key} is a new reply skill"
    hooks = {h.key: h for h in variant.hooks}
    for hook in base.hooks:
        other_hook = hooks.get(hook.key)
        same = other_hook is not None and all(
            getattr(hook, f) == getattr(other_hook, f)
            for f in ("checkpoint", "kind", "source", "mode", "on_failure", "timeout_s")
        )
        if not same:
            yield f"the hook {hook.key} is gone or checks otherwise"
    before, after = base.limits, variant.limits
    for name in _GROWING:
        if getattr(after, name) < getattr(before, name):
            yield f"limits.{name} fell from {getattr(before, name)} to {getattr(after, name)}"
    yield from _speech_kept(base, variant)
    yield from _unannounced(before, variant)
    if variant.language != base.language or variant.servers != base.servers or variant.degraded != base.degraded:
        yield "the language, the servers or the degraded route changed"
    facts = {s.key for s in base.sections if s.facts} ^ {s.key for s in variant.sections if s.facts}
    if facts:
        yield f"sections state facts otherwise: {', '.join(sorted(facts))}"


def _topics(skill: Skill) -> set[str]:
    return set(skill.metadata.get("livery-topics", "").split())


def _tools_kept(base: Harness, records: Sequence[Record], variant: Harness) -> Iterator[str]:
    tools = {t.key: t for t in variant.tools}
    for tool in base.tools:
        other = tools.get(tool.key)
        if other is None:
            yield f"the tool {tool.key} is gone"
            continue
        if other.binding.operation != tool.binding.operation:
            yield f"the tool {tool.key} reaches {other.binding.operation} instead of {tool.binding.operation}"
            continue
        if other.annotations != tool.annotations or other.timeout_s != tool.timeout_s:
            yield f"the tool {tool.key} changed its annotations or its time"
        bound = {m.to: m for m in explicit(other).binding.arguments}
        for entry in explicit(tool).binding.arguments:
            now = bound.get(entry.to)
            if now is None or now.constant != entry.constant or now.default != entry.default:
                yield f"{tool.key}: {entry.to} is filled otherwise"
                continue
            name = argument_now(entry.source, tool.key, records)
            if now.source.rpartition(".")[2] != name.rpartition(".")[2]:
                yield f"{tool.key}: {entry.to} comes from {now.source!r}; the records say {name!r}"
            offered = [str(v) for v in any_mapping(_leaf(other.input_schema, now.source)).get("enum", ())]
            if now.labels and set(offered) != set(now.labels):
                yield f"{tool.key}: the labels of {now.source} are {list(now.labels)}, the schema offers {offered}"
            if _needed(tool.input_schema, entry.source) != _needed(other.input_schema, now.source):
                yield f"{tool.key}: {now.source} is required in one of both"


def argument_now(name: str, tool: str, records: Sequence[Record]) -> str:
    """What the records say that a tool's argument is called now. One record renames all at once (a swap)."""
    for record in records:
        moved = {r.old: r.new for r in record.renamed if r.what == "argument" and r.key == tool}
        name = moved.get(name, name)
    return name


def _leaf(schema: Mapping[str, Any], path: str) -> Any:
    properties = any_mapping(schema.get("properties", {}))
    if path in properties:
        return properties[path]
    head, dot, rest = path.partition(".")
    return _leaf(any_mapping(properties.get(head)), rest) if dot else properties.get(head)


def _needed(schema: Mapping[str, Any], path: str) -> bool:
    """Whether the argument must be in a call (of a nested one: it and what it stands in)."""
    properties, required = any_mapping(schema.get("properties", {})), schema.get("required", ())
    if path in properties or "." not in path:
        return path in required
    head, _, rest = path.partition(".")
    return head in required and _needed(any_mapping(properties.get(head)), rest)


_TIGHTER: Mapping[str, Callable[[Any, Any], bool]] = {
    "max_chars": lambda old, new: bool(new) and (not old or new < old),
    "max_words": lambda old, new: bool(new) and (not old or new < old),
    "max_sentences": lambda old, new: bool(new) and (not old or new < old),
}


def _speech_kept(base: Harness, variant: Harness) -> Iterator[str]:
    """Params of hooks: none may change but what is announced, and no limit may become tighter."""
    hooks = {h.key: h for h in variant.hooks}
    for hook in base.hooks:
        now = hooks.get(hook.key)
        if now is None:
            continue
        for name in {**hook.params, **now.params}:
            old, new = hook.params.get(name), now.params.get(name)
            if old == new or (hook.kind == "rules" and _checks(old) == _checks(new)):
                continue
            if hook.source == "speech_format" and name in ("prefix", "sign_off"):
                if not any(str(new) in s.template for s in variant.sections):
                    yield f"the hook {hook.key} asks for {new!r}, and no section says so"
            elif hook.source == "speech_format" and name in _TIGHTER:
                if _TIGHTER[name](old, new):
                    yield f"the hook {hook.key} has {name} {new}, tighter than {old}"
            elif not (hook.source == "retry_control" and name == "attempts" and int(new or 0) >= int(old or 2)):
                yield f"the hook {hook.key} has another {name}"


def _checks(rules: Any) -> Any:
    """Rules without their messages."""
    if not isinstance(rules, list):
        return rules  # pyright: ignore[reportUnknownVariableType]
    return [{k: v for k, v in any_mapping(r).items() if k != "message"} for r in rules]  # pyright: ignore[reportUnknownVariableType]


def _unannounced(before: Limits, variant: Harness) -> Iterator[str]:
    most = variant.limits.reply_chars
    if most != before.reply_chars and not any(
        "limits.reply_chars" in s.template or str(most) in s.template for s in variant.sections
    ):
        grown = any(
            h.source == "speech_format" and (h.params.get("prefix") or h.params.get("sign_off")) for h in variant.hooks
        )
        if not grown:
            yield f"limits.reply_chars is {most}, and no section says so"


# ---------------------------------------------------------------------------------------- the check


def check_preservation(
    harness: Harness,
    compositions: int,
    seed: int,
    runner: Runner[Task],
    tasks: Sequence[Task],
    *,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    operators: Mapping[str, Operator] | None = None,
    seeds_alone: int = 3,
    tasks_each: int = 2,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Every operator alone (with ``seeds_alone`` seeds, every task in turn), then random compositions.

    Args:
        compositions: how many variants are drawn, train and held-out in turn.
        tasks: at least one; each composition plays ``tasks_each`` of them.
        parameters: operation -> JSON Schema of its arguments, so that lint reads bindings.
        operators: other than the package's (for mutation checks); compositions then draw from these.
        progress: told a line now and then.

    Raises:
        ValueError: no task.
    """
    if not tasks:
        raise ValueError("found no task to play; expected one at least")
    known = registered() if operators is None else operators
    check = Check(base=harness, runner=runner, tasks=tasks, parameters=parameters, operators=known)
    rng = Random(f"preservation/{seed}")
    base_digest = harness_digest(harness)
    violations: list[Violation] = []
    idle: list[str] = []
    for one in known.values():
        found, acted = _alone(check, one, rng, seeds_alone)
        violations += found
        if not acted:
            idle.append(one.name)
        progress(f"{one.name}: {'violated' if found else 'idle' if not acted else 'kept'}")
    pool = None if operators is None else list(known.values())
    for n in range(compositions):
        split: Split = ("train", "heldout")[n % 2]
        variant = sample_variant(
            harness, rng.getrandbits(48), split, rng.choice((0.3, 0.5, 0.8, 1.0)),
            base_digest=base_digest, operators=pool,
        )  # fmt: skip
        places = [rng.randrange(len(tasks)) for _ in range(tasks_each)]
        if violation := _composed(check, variant, places):
            violations.append(violation)
        if n % 100 == 99:
            progress(f"{n + 1} compositions, {len(violations)} violations")
    return Report(base_digest, tuple(known), tuple(idle), compositions, check.plays, tuple(violations))


def _alone(check: Check[Task], one: Operator, rng: Random, seeds: int) -> tuple[list[Violation], bool]:
    acted = False
    for n in range(seeds):
        for split in _splits(one):
            step = apply_one(one, check.base, seed=rng.getrandbits(48), split=split)
            if step is None:
                continue
            acted = True
            places = range(len(check.tasks)) if n == 0 else [rng.randrange(len(check.tasks))]
            found = check.violation([step[1]], step[0], list(places))
            if found:
                by, what, task = found
                return [Violation(by, what, (one.name,), (step[1],), task)], True
    return [], acted


def _splits(one: Operator) -> tuple[Split, ...]:
    return ("heldout",) if one.held_out else ("train", "heldout")


def _composed(check: Check[Task], variant: Variant, places: Sequence[int]) -> Violation | None:
    found = check.violation(variant.records, variant.harness, places)
    if found is not None:
        fewest = check.shrunk(variant.records, places)
        again, harness = check.replayed(fewest)
        by, what, task = check.violation(again, harness, places) or found
        return Violation(by, what, tuple(r.operator for r in fewest), fewest, task)
    try:
        rebuilt = apply(variant.records, check.base, operators=check.operators)
    except InputError as fault:
        return Violation("rebuild", str(fault), variant.operators, variant.records)
    if harness_digest(rebuilt) != variant.digest:
        return Violation("rebuild", "the records give another digest", variant.operators, variant.records)
    return None
