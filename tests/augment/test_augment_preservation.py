"""Augmentation keeps the task, and the check that says so catches operators that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest

from livery.augment.lexicon import Lexicon
from livery.augment.operators import Apply, Edit, Operator, Registry, Renamed, registered
from livery.augment.preservation import Played, Report, check_preservation, difference
from livery.augment.probe import Probe, ProbeRunner, probe_parameters, probes
from livery.harness.model import ArgumentMap, Harness, Tool
from livery.shop.catalogue import Catalogue

Given = tuple[Harness, ProbeRunner, Sequence[Probe]]


@pytest.fixture(scope="module")
def given(sample: Harness, catalogues: dict[str, Catalogue]) -> Given:
    catalogue = catalogues[sample.language]
    return sample, ProbeRunner(catalogue), probes(sample, catalogue, seed=1, count=12)


def test_probes_cover_the_operations_of_a_harness(given: Given):
    harness, runner, tasks = given
    bound = {t.binding.operation for t in harness.tools} - {
        "room.state",
        "harness.load_skill",
        "harness.read_skill_file",
    }
    assert {operation for p in tasks for operation, _ in p.calls} == bound
    for task in tasks:
        played = runner.play(task, harness)
        assert played.operations[0][0] == "harness.load_skill"
        assert played.operations[1] == task.calls[0]
        assert set(played.scores.values()) == {1.0}


def test_every_operator_and_random_compositions_keep_the_task(given: Given):
    harness, runner, tasks = given
    report = check_preservation(
        harness, 16, 5, runner, tasks[:6], parameters=probe_parameters(), seeds_alone=1, tasks_each=1
    )
    assert [v.as_json() for v in report.violations] == []
    assert len(report.operators) == len(registered()) and report.idle == ()
    assert report.compositions == 16
    assert report.plays > len(registered()) * 6


# ----------------------------------------------------------------------------------- mutation check


def wrong(name: str, run: Apply, stage: int = 45) -> Operator:
    return Operator(name=name, dimension="tool_schemas", stage=stage, removes="nothing: it is wrong", run=run)


def with_tools(harness: Harness, change: Callable[[Tool], Tool]) -> Harness:
    return harness.replace(tools=tuple(change(t) for t in harness.tools))


def rebinds(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Stock is asked of another operation with the same arguments."""

    def change(tool: Tool) -> Tool:
        if tool.binding.operation != "stock.check":
            return tool
        return tool.model_copy(update={"binding": tool.binding.model_copy(update={"operation": "pricing.quote"})})

    return Edit(with_tools(harness, change))


def drops_a_label(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """A yes/no argument gets labels, and one is forgotten."""

    def change(tool: Tool) -> Tool:
        for name, schema in tool.input_schema.get("properties", {}).items():
            if schema.get("type") == "boolean":
                to = next((m.to for m in tool.binding.arguments if m.source == name), name)
                rest = tuple(m for m in tool.binding.arguments if m.to != to)
                entry = ArgumentMap(to=to, source=name, labels={"no": False})
                properties = {**tool.input_schema["properties"], name: {"type": "string", "enum": ["no"]}}
                return tool.model_copy(
                    update={
                        "input_schema": {**tool.input_schema, "properties": properties},
                        "binding": tool.binding.model_copy(update={"arguments": (*rest, entry)}),
                    }
                )
        return tool

    return Edit(with_tools(harness, change))


def tightens_silently(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Replies may have twelve characters, and nobody says so."""
    hooks = tuple(
        h.model_copy(update={"params": {**h.params, "max_chars": 12}}) if h.source == "speech_format" else h
        for h in harness.hooks
    )
    return Edit(harness.replace(hooks=hooks))


def swaps_maps(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Height is taken from the weight's argument and the other way round; no record says so."""

    def change(tool: Tool) -> Tool:
        if tool.binding.operation != "size.advise":
            return tool
        rest = tuple(m for m in tool.binding.arguments if m.to not in ("height_cm", "weight_kg"))
        crossed = (ArgumentMap(to="height_cm", source="weight_kg"), ArgumentMap(to="weight_kg", source="height_cm"))
        return tool.model_copy(update={"binding": tool.binding.model_copy(update={"arguments": (*rest, *crossed)})})

    return Edit(with_tools(harness, change))


def loses_a_topic(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """The price skill is a strategy skill of no topic now."""
    skills = tuple(
        s.model_copy(update={"kind": "strategy", "metadata": {}}) if s.metadata.get("livery-topics") == "price" else s
        for s in harness.skills
    )
    return Edit(harness.replace(skills=skills))


MUTANTS: dict[str, Apply] = {
    "tool_schemas.rebinds": rebinds,
    "tool_schemas.drops_a_label": drops_a_label,
    "tool_schemas.tightens_silently": tightens_silently,
    "tool_schemas.swaps_maps": swaps_maps,
    "tool_schemas.loses_a_topic": loses_a_topic,
}


def check(given: Given, operators: Registry, compositions: int = 0) -> Report:
    harness, runner, tasks = given
    return check_preservation(
        harness, compositions, 3, runner, tasks, parameters=probe_parameters(), operators=operators, seeds_alone=1
    )


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_operator_is_caught(name: str, given: Given):
    report = check(given, Registry([wrong(name, MUTANTS[name])]))
    assert [v.operators for v in report.violations] == [(name,)]


@pytest.mark.parametrize("name", [n for n in MUTANTS if n != "tool_schemas.swaps_maps"])
def test_playing_alone_catches_it_too(name: str, given: Given, monkeypatch: pytest.MonkeyPatch):
    """Without what is known to be forbidden and without lint. (Two maps that change places are seen only beside the
    records: an oracle that inverts bindings inverts the swapped ones as well.)"""

    def nothing(*_: object) -> Iterator[str]:
        return iter(())

    monkeypatch.setattr("livery.augment.preservation.kept", nothing)
    monkeypatch.setattr("livery.augment.preservation.lint", lambda *_, **__: [])
    report = check(given, Registry([wrong(name, MUTANTS[name])]))
    assert [v.found_by for v in report.violations] == ["played"]


def test_a_composition_shrinks_to_the_operator_that_broke_it(given: Given):
    names = ["skill_identifiers.opaque", "tool_schemas.tool_opaque", "tool_schemas.nested", "prompt_structure.titles"]
    mixed = Registry([*(registered()[n] for n in names), wrong("tool_schemas.rebinds", rebinds)])
    report = check(given, mixed, compositions=8)
    composed = [v for v in report.violations if len(v.records) >= 1][1:]
    assert len(composed) >= 2
    assert {v.operators for v in composed} == {("tool_schemas.rebinds",)}


def test_two_operators_that_break_only_together_are_both_named(given: Given):
    def first(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
        return Edit(harness.replace(description="first"))

    def second(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
        if harness.description != "first":
            return Edit(harness.replace(description="second"))
        return rebinds(harness, rng, lexicon)

    harmless = registered()["prompt_structure.titles"]
    pair = Registry([wrong("tool_schemas.a", first, 41), wrong("tool_schemas.b", second, 42), harmless])
    report = check(given, pair, compositions=10)
    assert report.violations != ()
    assert {v.operators for v in report.violations} == {("tool_schemas.a", "tool_schemas.b")}


def test_an_operator_that_is_not_pure_is_caught_by_the_rebuild(given: Given):
    calls: list[int] = []

    def forgets(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
        calls.append(1)
        return Edit(harness.replace(description=f"call {len(calls)}"))

    report = check(given, Registry([wrong("tool_schemas.forgets", forgets)]), compositions=1)
    assert [v.found_by for v in report.violations] == ["rebuild"]


def test_merged_skills_are_the_same_skill_to_the_check():
    def played(key: str) -> Played:
        return Played((("harness.load_skill", {"key": key}),), {"skill_selection": 1.0})

    from livery.augment.operators import Record

    record = Record(
        operator="skill_content.merged", version=1, split="heldout", seed=1, lexicon="x",
        renamed=(Renamed(what="merged", key="size", old="size-fit", new="price"),),
    )  # fmt: skip
    assert difference(played("size"), played("price"), [record]) == ""
    assert "operations differ" in difference(played("size"), played("price"), [])
