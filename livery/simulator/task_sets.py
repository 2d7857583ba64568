"""Sets of tasks as files: JSON, one a line, with a digest, and a check of their gold against their worlds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from livery.errors import InputError, Problem
from livery.harness.quantities import Quantity, matches, quantities_of
from livery.shop.operations import OperationError
from livery.simulator.asking import Asker
from livery.simulator.task import GoldFact, Needed, Task
from livery.simulator.worlds import World, world_of
from livery.types import JSON


def digest(tasks: Iterable[Task]) -> str:
    """SHA-256 of a set of tasks, order included."""
    whole = hashlib.sha256()
    for task in tasks:
        whole.update(task.model_dump_json(by_alias=True).encode() + b"\n")
    return whole.hexdigest()


def write_tasks(path: Path, tasks: Iterable[Task]) -> None:
    """One JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (task.model_dump_json(by_alias=True) + "\n" for task in tasks)
    path.write_text("".join(lines), encoding="utf-8")


def read_tasks(path: Path) -> list[Task]:
    """Tasks of a JSONL file.

    Raises:
        InputError: every line that is no task, and what is wrong with it.
    """
    if not path.is_file():
        raise InputError.at(path, "no such file; expected tasks as JSON, one a line")
    tasks: list[Task] = []
    problems: list[Problem] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            tasks.append(Task.model_validate_json(line))
        except ValidationError as error:
            for fault in error.errors(include_url=False):
                where = ".".join(str(part) for part in fault["loc"])
                problems.append(
                    Problem(path=str(path), field=where, line=number, message=fault["msg"], code="not-a-task")
                )
    if problems:
        raise InputError(problems)
    return tasks


def check_task(task: Task) -> list[str]:
    """What is wrong with a task, by its world and the real operations; empty: nothing.

    Its references must exist, each needed call must run and give the result it is said to give, and each gold
    fact must stand in the result of one of them.
    """
    world = world_of(task.world)
    found = [*_references(task, world)]
    asker = Asker.at(world, task.request.state.now)
    results: list[JSON] = []
    for needed in task.needed:
        try:
            result = asker.run(needed.operation, needed.arguments)
        except (OperationError, KeyError) as error:
            found.append(f"needed {needed.operation}: {error}")
            continue
        results.append(cast(JSON, result))
        if not gives(result, needed):
            found.append(f"needed {needed.operation}: its result has not {needed.result}")
    quantities = tuple(q for result in results for q in quantities_of(result))
    text = "\n".join(map(str, results)).casefold()
    for i, asked in enumerate(task.asked):
        if asked.cannot_check and asked.facts:
            found.append(f"asked[{i}]: cannot be checked, and yet has facts")
        found += [
            f"asked[{i}]: {fact.key} = {fact.value!r} stands in no result"
            for fact in asked.facts
            if not _borne_out(fact, quantities, text, results)
        ]
    return found


def gives(result: Mapping[str, JSON], needed: Needed) -> bool:
    """Whether a result holds what a right call of ``needed`` gives: at its top, or all in one of its
    ``results``."""
    below = cast("list[object]", result.get("results") or [])
    entries = [result, *(cast("Mapping[str, JSON]", r) for r in below if isinstance(r, Mapping))]
    return any(all(entry.get(k) == v for k, v in needed.result.items()) for entry in entries)


def _references(task: Task, world: World) -> list[str]:
    links = world.catalogue.by_link
    found = [f"asked[{i}]: no link {x!r}" for i, a in enumerate(task.asked) for x in a.items if x not in links]
    if task.request.state.on_screen and task.request.state.on_screen not in links:
        found.append(f"on_screen: no link {task.request.state.on_screen!r}")
    count = len(task.request.messages)
    found += [f"asked[{i}]: no message {a.message}" for i, a in enumerate(task.asked) if a.message >= count]
    if {a.message for a in task.asked} != set(range(count)):
        found.append("messages: one asks nothing that is recorded")
    if not task.topics:
        found.append("topics: none, so that no reply skill would fit")
    dead = {f.operation for f in task.faults if not f.recoverable and f.kind != "slow"}
    if any(n.operation in dead for n in task.needed) and not any(a.cannot_check for a in task.asked):
        found.append("faults: one for good, and yet everything is said to be answerable")
    return found


def _borne_out(fact: GoldFact, known: tuple[Quantity, ...], text: str, results: list[JSON]) -> bool:
    if fact.kind == "text":
        return any(str(w).casefold() in text for w in (fact.value, *fact.wordings))
    if fact.kind != "yes_no":
        claim = Quantity(fact.kind, cast("int | float | str", fact.value), fact.unit, "", 0, 0)
        return any(matches(claim, q) for q in known)
    fields = [r for r in results if isinstance(r, dict)]
    match fact.key:
        case "in_stock":
            mine = [r for r in fields if r.get("link_id") == fact.item]
            counts = [r["stock"] for r in mine if isinstance(r.get("stock"), int)]
            return any((cast(int, left) > 0) == fact.value for left in counts)
        case "ships":
            return any(r.get("ships") == fact.value for r in fields)
        case "faq":
            return any(w.casefold() in text for w in fact.wordings)
        case key if key.startswith("specs."):
            return any("specs" in r or "aspects" in r for r in fields)
        case _:  # whether a promotion runs is read off the list it stands in, or does not
            return any("promotions" in r for r in fields)
