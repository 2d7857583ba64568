"""A run scored anew by today's verifier, from the trajectories it keeps: nothing is played, no policy is asked.

The results of before stay in the folder, and ``run.json`` notes which verifier came after which. A run can be rescored
only over the cases it was played in: the set, its tasks, the base and every task's harness are held against what the
run wrote down. What a policy did is not looked at again, so tokens, times and routes stay as they were.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from livery import __version__
from livery.errors import InputError, Problem
from livery.evaluation.report import REPORT_JSON, write_report
from livery.evaluation.results import RESULTS, TRAJECTORIES, Result, Results, read_results
from livery.evaluation.run import RUN, read_run
from livery.evaluation.statistics import summarise
from livery.evaluation.suites import Base, Case, Suite, suite_named, tasks_digest
from livery.harness.digest import harness_digest
from livery.harness.model import Harness
from livery.room.trajectories import load_trajectory
from livery.simulator.task import Scores
from livery.simulator.verifier import verify
from livery.simulator.verifier_version import verifier_version
from livery.types import Trajectory

SCORES: Final = ("accuracy", "effectiveness", "tool_rationality", "skill_selection")
BEFORE: Final = f"{RESULTS}.before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescored:
    """What came of rescoring one run."""

    folder: Path
    suite: str
    verifier: tuple[str, str]
    """Of before ("": the run does not say) and now."""
    results: tuple[Result, ...]
    """By place in the set."""
    changed: Mapping[str, int]
    """Score -> tasks in which it differs now; ``any``: in which one at least does."""
    avg: tuple[float, float]
    """Of before and now, in points."""
    kept: str
    """File with the results of before; "" where no score changed."""

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "run": str(self.folder),
            "suite": self.suite,
            "tasks": len(self.results),
            "changed": dict(self.changed),
            "avg": {"before": round(self.avg[0], 3), "now": round(self.avg[1], 3)},
            "verifier": {"before": self.verifier[0], "now": self.verifier[1]},
            "kept": self.kept,
        }


def rescore(
    folder: Path, harness: Harness, *, write: bool = True, progress: Callable[[], None] = lambda: None
) -> Rescored:
    """Score a run's trajectories anew, and write its results and report again.

    Args:
        folder: of a run of any set, also of one that is not finished.
        harness: the base it was played over.
        write: else only look.

    Raises:
        InputError: no run, or one over another base or other cases than these; damaged files; a process that plays it
            right now.
    """
    recipe = read_run(folder)
    suite = suite_named(str(recipe.get("suite")))
    base = Base(harness)
    _fits(folder, recipe, suite, base)
    with Results(folder):  # nobody else writes here, and no line is torn
        before = read_results(folder)
        results = list(_scored(folder, _by_task(suite, before), base, progress))
        was = {r.task: r.scores for r in before}
        changed = {name: sum(getattr(r.scores, name) != getattr(was[r.task], name) for r in results) for name in SCORES}
        changed["any"] = sum(any(getattr(r.scores, n) != getattr(was[r.task], n) for n in SCORES) for r in results)
        reasons = any(r.scores != was[r.task] for r in results)
        versions = str(recipe.get("verifier", "")), verifier_version(suite.judges)
        kept = _fresh_name(folder) if reasons else ""
        ordered = tuple(sorted(results, key=lambda r: r.index))
        if write:
            if kept:
                _replaced(folder, results, kept)
            _noted(folder, recipe, versions, changed, kept)
            if ordered:
                summary = summarise(ordered)
                write_report(folder, {**read_run(folder), **_concurrency(folder)}, ordered, summary, suite.size)
    shared = [r for r in before if r.task in {one.task for one in ordered}]
    return Rescored(
        folder=folder,
        suite=suite.name,
        verifier=versions,
        results=ordered,
        changed=changed,
        avg=(_avg(shared), _avg(ordered)),
        kept=kept,
    )


def _fits(folder: Path, recipe: Mapping[str, Any], suite: Suite, base: Base) -> None:
    suite.fits(base.harness)
    problems: list[Problem] = []
    for field, found, now in (("base", recipe.get("base"), base.digest), ("tasks", recipe.get("tasks"), None)):
        now = now or tasks_digest(suite)
        if found != now:
            what = (
                f"was played over the base {found!r}; {base.harness.name} is {now!r}. Give the harness it was played "
                "over with --harness, as it was then"
                if field == "base"
                else f"was played over the tasks {str(found)[:12]}; the set {suite.name} has {now[:12]} now. Results "
                "over other tasks cannot be scored anew"
            )
            problems.append(Problem(path=str(folder / RUN), field=field, message=what, code=f"other-{field}"))
    if problems:
        raise InputError(problems)


def _by_task(suite: Suite, results: list[Result]) -> Callable[[Result, Base], Case]:
    tasks = {t.id: t for t in suite.tasks(max((r.index for r in results), default=0) + 1)}

    def case(result: Result, base: Base) -> Case:
        return suite.wear(tasks[result.task], base)

    return case


def _scored(
    folder: Path,
    case_of: Callable[[Result, Base], Case],
    base: Base,
    progress: Callable[[], None],
) -> Iterator[Result]:
    """The lines in the order of the file, each with its scores of today."""
    problems: list[Problem] = []
    with (folder / RESULTS).open("rb") as results, (folder / TRAJECTORIES).open("rb") as trajectories:
        for number, (line, played) in enumerate(zip(results, trajectories, strict=True), start=1):
            result = Result.model_validate_json(line)
            trajectory = load_trajectory(played, path=str(folder / TRAJECTORIES), number=number)
            try:
                case = case_of(result, base)
            except KeyError:
                problems.append(_problem(folder, number, "task", f"the set has no task {result.task!r}"))
                continue
            release = case.variant.digest if case.variant else harness_digest(case.harness)
            if trajectory.id != result.task:
                message = f"found the trajectory of {trajectory.id}; expected that of {result.task}, as in {RESULTS}"
                problems.append(_problem(folder, number, "id", message))
            elif release != result.release:
                message = f"was played under the harness {result.release}; the set makes {release} of this base now"
                problems.append(_problem(folder, number, "release", message))
            else:
                yield result.model_copy(update={"scores": _scores(case, trajectory)})
            progress()
    if problems:
        raise InputError(problems)


def _scores(case: Case, trajectory: Trajectory) -> Scores:
    return (case.judge or verify)(case.task, trajectory, case.harness)


def _problem(folder: Path, line: int, field: str, message: str) -> Problem:
    path = folder / (TRAJECTORIES if field == "id" else RESULTS)
    return Problem(path=str(path), line=line, field=field, message=message, code="rescore-case")


def _fresh_name(folder: Path) -> str:
    names = (BEFORE if i == 1 else f"{BEFORE}-{i}" for i in count(1))
    return next(name for name in names if not (folder / name).exists())


def _replaced(folder: Path, results: list[Result], kept: str) -> None:
    """New results in place of the old, which stay under another name. A kill leaves the old ones or both."""
    fresh = folder / f"{RESULTS}.new"
    with fresh.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(r.model_dump_json(by_alias=True) + "\n" for r in results)
    (folder / kept).write_bytes((folder / RESULTS).read_bytes())
    fresh.replace(folder / RESULTS)


def _noted(
    folder: Path, recipe: Mapping[str, Any], versions: tuple[str, str], changed: Mapping[str, int], kept: str
) -> None:
    past: list[Any] = list(recipe.get("rescored", ()))
    if kept or versions[0] != versions[1]:
        note = {"from": versions[0], "to": versions[1], "changed": dict(changed), "kept": kept, "livery": __version__}
        past.append(note)
    noted = {**recipe, "verifier": versions[1], **({"rescored": past} if past else {})}
    fresh = (folder / RUN).with_suffix(".new")
    fresh.write_text(json.dumps(noted, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    fresh.replace(folder / RUN)


def _concurrency(folder: Path) -> dict[str, Any]:
    """How many requests were played at a time, which only the report of before says."""
    try:
        run: Any = json.loads((folder / REPORT_JSON).read_text(encoding="utf-8"))["run"]
    except (OSError, ValueError, KeyError):
        return {}
    return {"concurrency": run["concurrency"]} if "concurrency" in run else {}


def _avg(results: list[Result] | tuple[Result, ...]) -> float:
    earned = [50 * (r.scores.accuracy + r.scores.effectiveness) for r in results]
    return sum(earned) / len(earned) if earned else 0.0
