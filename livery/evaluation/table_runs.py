"""The runs of a table: read from folders or reports, put under one label a policy, held against each other.

Figures stand in one column only if they were measured on the same tasks, so runs over other tasks are refused here. A
folder has every task's result, so shares, spreads and intervals can be reckoned; a ``report.json`` alone has what was
written into it, and the rest stays empty.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, cast
from urllib.parse import parse_qsl, urlencode

from pydantic import ValidationError

from livery.errors import InputError, Problem
from livery.evaluation.ifeval import REPORT_SCHEMA, RUN_SCHEMA, SUITE
from livery.evaluation.ifeval import RESULTS as IFEVAL_RESULTS
from livery.evaluation.ifeval_figures import IfevalResult
from livery.evaluation.results import Result, read_results
from livery.evaluation.run import RUN, read_run

REPORT: Final = "report.json"
Kind = Literal["harness", "ifeval"]
_WEIGHED: Final = ("hf", "llamacpp")
"""Schemes whose weights are a digest: it, and not the path, says which policy it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRun:
    """A run as a table needs it."""

    source: Path
    """As it was given."""
    kind: Kind
    suite: str
    """Without its language: ``t1``, ``t2-tool-schemas``, ``edits-old``, ``t4``."""
    language: str
    recipe: Mapping[str, Any]
    report: Mapping[str, Any] | None
    """None: the folder has none, and results instead."""
    results: tuple[Result, ...] = ()
    responses: tuple[IfevalResult, ...] = ()
    label: str = ""

    @property
    def tasks(self) -> str:
        """Digest of the whole set's tasks."""
        return str(self.recipe.get("tasks", ""))

    @property
    def policy(self) -> str:
        return str(self.recipe.get("policy", ""))

    @property
    def weights(self) -> str:
        return str(self.recipe.get("weights", ""))

    @property
    def verifier(self) -> str:
        """Version of what scored it; "" where the run does not say."""
        return str(self.recipe.get("verifier", ""))

    @property
    def n(self) -> int:
        """Tasks played."""
        return len(self.results) or len(self.responses) or int((self.report or {}).get("tasks", 0))

    @property
    def alone(self) -> bool:
        """Whether requests are known to have been played one at a time."""
        run: Mapping[str, Any] = (self.report or {}).get("run", {})
        return run.get("concurrency") == 1

    @property
    def policy_key(self) -> tuple[str, ...]:
        """Equal for runs of one policy. A temperature in the URI makes no other policy (T4 is greedy)."""
        scheme, _, rest = self.policy.partition(":")
        if scheme in _WEIGHED and self.weights:
            return scheme, self.weights
        place, _, query = rest.partition("?")
        fields = [(k, v) for k, v in parse_qsl(query) if k != "temperature"]
        return scheme, place, urlencode(fields), self.weights


def load_run(source: Path) -> TableRun:
    """
    Args:
        source: a folder that ``livery eval run`` or ``livery eval ifeval`` wrote, or a ``report.json`` alone.

    Raises:
        InputError: it is neither, or holds no result.
    """
    if source.is_file():
        return _from_report(source)
    if not source.is_dir():
        raise InputError.at(source, "no such folder or file; expected a run's folder or its report.json")
    report = _json(source / REPORT) if (source / REPORT).is_file() else None
    if not (source / RUN).is_file():
        raise InputError.at(source, f"no {RUN} in it; expected a folder of `livery eval run` or `livery eval ifeval`")
    recipe = _json(source / RUN)
    if recipe.get("schema") == RUN_SCHEMA:
        found = _checked(source)
        return TableRun(
            source=source, kind="ifeval", suite=SUITE, language="en", recipe=recipe, report=report, responses=found
        )
    recipe = read_run(source)
    results = tuple(read_results(source))
    if not results:
        raise InputError.at(source, "found no result; expected one at least; `livery eval run` goes on with it")
    suite, language = _named(str(recipe.get("suite", "")))
    return TableRun(
        source=source, kind="harness", suite=suite, language=language, recipe=recipe, report=report, results=results
    )


def _from_report(path: Path) -> TableRun:
    report = _json(path)
    schema = report.get("schema")
    run: Any = report.get("run")
    if schema not in ("livery.report/1", REPORT_SCHEMA) or not isinstance(run, dict):
        message = f"found {schema!r}; expected a report of livery.report/1 or {REPORT_SCHEMA}"
        raise InputError.at(path, message, field="schema", code="unknown-schema")
    recipe = cast("dict[str, Any]", run)
    if schema == REPORT_SCHEMA:
        return TableRun(source=path, kind="ifeval", suite=SUITE, language="en", recipe=recipe, report=report)
    suite, language = _named(str(recipe.get("suite", "")))
    return TableRun(source=path, kind="harness", suite=suite, language=language, recipe=recipe, report=report)


def _json(path: Path) -> dict[str, Any]:
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError.at(path, f"found no JSON ({error}); expected what a run wrote", code="not-json") from error
    if not isinstance(data, dict):
        raise InputError.at(path, "found no JSON object; expected what a run wrote", code="not-json")
    return cast("dict[str, Any]", data)


def _checked(folder: Path) -> tuple[IfevalResult, ...]:
    path = folder / IFEVAL_RESULTS
    lines = path.read_bytes().splitlines() if path.is_file() else []
    if not lines:
        raise InputError.at(path, "found no checked response; start `livery eval ifeval` again with this --out")
    try:
        return tuple(IfevalResult.model_validate_json(line) for line in lines)
    except ValidationError as error:
        raise InputError.at(path, f"{error.error_count()} faults; expected IFEval's results", code="bad") from error


def _named(suite: str) -> tuple[str, str]:
    """(name without the language, language) of a set: ``t2-zh-tool-schemas`` is ``t2-tool-schemas``, ``zh``."""
    parts = suite.split("-")
    return "-".join(p for p in parts if p != "zh"), "zh" if "zh" in parts else "en"


# ----------------------------------------------------------------------------------------- labels


def labelled(sources: Sequence[Path], labels: Mapping[str, Sequence[Path]]) -> list[TableRun]:
    """Load runs and give each its row's label.

    Args:
        sources: runs whose policy names their row.
        labels: name of a row -> its runs. A run that is in ``sources`` as well is taken once.

    Raises:
        InputError: as `load_run`; a run under two labels; two runs of one set in a row; runs over other tasks in a
            column.
    """
    named: list[TableRun] = []
    seen: dict[Path, str] = {}
    for label, places in labels.items():
        for place in places:
            if place.resolve() in seen:
                message = f"stands under {seen[place.resolve()]!r} and {label!r}; expected one label"
                raise InputError.at(place, message, field="--label", code="label-twice")
            seen[place.resolve()] = label
            named.append(replace(load_run(place), label=label))
    rest = [load_run(s) for s in dict.fromkeys(sources) if s.resolve() not in seen]
    runs = [*named, *_by_policy(rest)]
    _one_a_cell(runs)
    _same_tasks(runs)
    return runs


def _by_policy(runs: Sequence[TableRun]) -> list[TableRun]:
    keys = {run.policy_key: run for run in reversed(runs) if run.kind == "ifeval"}
    keys |= {run.policy_key: run for run in reversed(runs) if run.kind == "harness"}
    shown: dict[str, list[tuple[str, ...]]] = {}
    for key, run in keys.items():
        shown.setdefault(run.policy, []).append(key)
    names = {
        key: keys[key].policy + (f" {keys[key].weights[:8]}" if len(same) > 1 else "")
        for same in shown.values()
        for key in same
    }
    return [replace(run, label=names[run.policy_key]) for run in runs]


def _one_a_cell(runs: Sequence[TableRun]) -> None:
    cells: dict[tuple[str, str, str], TableRun] = {}
    for run in runs:
        cell = run.label, run.suite, run.language
        if cell in cells:
            message = (
                f"a second run of {run.suite} under {run.label!r}, beside {cells[cell].source}; expected one a row: "
                "give each its own with --label NAME=RUN,RUN"
            )
            raise InputError.at(run.source, message, code="table-cell")
        cells[cell] = run


def _same_tasks(runs: Sequence[TableRun]) -> None:
    """
    Raises:
        InputError: every run that was played over other tasks than the first of its column, or scored by another
            verifier. T1 and T2 with its dimensions are one column here, as are the edits, old and new: they share their
            tasks.
    """
    first: dict[tuple[str, str], TableRun] = {}
    problems: list[Problem] = []
    for run in runs:
        stem = run.suite.partition("-")[0]
        column = "T1 and T2" if stem in ("t1", "t2") else "edits" if stem == "edits" else run.suite
        other = first.setdefault((column, run.language), run)
        if other.tasks != run.tasks:
            message = (
                f"was played over the tasks {run.tasks[:12]}; {other.source} over others, {other.tasks[:12]}: their "
                f"figures do not compare in one column ({column}); expected runs over the same tasks"
            )
            problems.append(Problem(path=str(run.source), field="tasks", message=message, code="other-tasks"))
        elif run.kind == "harness" and other.verifier != run.verifier:
            message = (
                f"was scored by the verifier {run.verifier or '(not said)'}; {other.source} by "
                f"{other.verifier or '(not said)'}: `livery eval rescore` with both folders scores them by one"
            )
            problems.append(Problem(path=str(run.source), field="verifier", message=message, code="other-verifier"))
    if problems:
        raise InputError(problems)
