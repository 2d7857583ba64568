"""What a run leaves on disk, one line a task: the scores and facts of it, and the trajectory beside.

``results.jsonl`` and ``trajectories.jsonl`` are written in step: line k of one is line k of the other. A killed run
leaves at most a torn or surplus last line, which `Results` cuts off when it is opened again. Nothing here judges or
counts.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self

from pydantic import Field, ValidationError

from livery.errors import InputError, Problem
from livery.evaluation.suites import Case
from livery.harness.model import Frozen
from livery.room.trajectories import dump_trajectory
from livery.simulator.task import Scores
from livery.types import Trajectory

RESULTS = "results.jsonl"
TRAJECTORIES = "trajectories.jsonl"


class Result(Frozen):
    """One task of a run."""

    schema_: Literal["livery.result/1"] = Field(default="livery.result/1", alias="schema")
    task: str
    index: int
    """Place in the set."""
    seed: int
    """What the policy sampled by."""
    scores: Scores
    intents: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    kind: str = ""
    """Of a set that has kinds: what the case tried."""
    operators: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()
    records: tuple[dict[str, Any], ...] = ()
    """Of the variant (`livery.augment.operators.Record`): they rebuild it from the base."""
    release: str
    """Digest of the harness it was asked under."""
    weights: str = ""
    """Version that the policy reported last."""
    route: str
    question: str
    """The chat messages, one a line."""
    reply: str
    rounds: int = 0
    calls: int = 0
    sent_back: int = 0
    """Replies that hooks did not accept."""
    output_tokens: int = 0
    reasoning_call_tokens: int = 0
    """Reasoning in turns that call tools."""
    reasoning_reply_tokens: int = 0
    """Reasoning in turns that reply."""
    seconds: float = 0.0
    """Of the whole loop. Requests side by side share the machine, so this is latency only at concurrency 1."""


def result_of(index: int, case: Case, trajectory: Trajectory, scores: Scores, seed: int) -> Result:
    """The line of one played case."""
    task = case.task
    turns = trajectory.turns
    return Result(
        task=task.id,
        index=index,
        seed=seed,
        scores=scores,
        intents=tuple(dict.fromkeys(str(a.intent) for a in task.asked)),
        tags=task.tags,
        kind=case.kind,
        operators=case.operators,
        dimensions=case.dimensions,
        records=tuple(r.model_dump(mode="json") for r in case.variant.records) if case.variant else (),
        release=trajectory.harness_release,
        weights=turns[-1].weights if turns else "",
        route=str(trajectory.route),
        question=task.request.text,
        reply=trajectory.reply,
        rounds=len(turns),
        calls=sum(len(t.policy.calls) for t in turns),
        sent_back=sum(bool(t.feedback) for t in turns),
        output_tokens=trajectory.usage.output,
        reasoning_call_tokens=sum(t.policy.usage.reasoning for t in turns if t.policy.calls),
        reasoning_reply_tokens=sum(t.policy.usage.reasoning for t in turns if not t.policy.calls),
        seconds=trajectory.total_s,
    )


def read_results(folder: Path) -> list[Result]:
    """The results of a run's folder by place in the set.

    Raises:
        InputError: no such file; or every line that is no result, or stands twice.
    """
    path = folder / RESULTS
    if not path.is_file():
        raise InputError.at(path, "no such file; expected a folder that `livery eval run` wrote")
    results: dict[str, Result] = {}
    problems: list[Problem] = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            one = Result.model_validate_json(line)
        except ValidationError as error:
            for fault in error.errors(include_url=False):
                where = ".".join(map(str, fault["loc"]))
                problems.append(
                    Problem(path=str(path), line=number, field=where, message=fault["msg"], code="not-a-result")
                )
            continue
        if one.task in results:
            message = f"the task {one.task} stands twice; two runs wrote here at once"
            problems.append(Problem(path=str(path), line=number, field="task", message=message, code="result-twice"))
        results[one.task] = one
    if problems:
        raise InputError(problems)
    return sorted(results.values(), key=lambda r: r.index)


class Results:
    """Appends results and trajectories in step. Each line is handed to the system before the next is begun, so that a
    killed process loses at most what it was playing. The folder is locked meanwhile (not on Windows).

    Raises:
        InputError: another process plays or rescores this run.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        paths = folder / TRAJECTORIES, folder / RESULTS
        self._lock = paths[0].open("ab")
        if not _locks(self._lock):
            self._lock.close()
            raise InputError.at(folder, "another process plays or rescores this run; wait until it ends", code="busy")
        whole = min(_lines(p) for p in paths)
        for path in paths:
            _keep(path, whole)
        self._trajectories, self._results = (p.open("a", encoding="utf-8", newline="\n") for p in paths)

    def write(self, result: Result, trajectory: Trajectory) -> None:
        self._trajectories.write(dump_trajectory(trajectory) + "\n")
        self._trajectories.flush()
        self._results.write(result.model_dump_json(by_alias=True) + "\n")
        self._results.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._trajectories.close()
        self._results.close()
        self._lock.close()


def _locks(file: IO[bytes]) -> bool:
    """Whether this process may write; the system unlocks when the file is closed or the process dies."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lines(path: Path) -> int:
    """Whole lines of a file; 0 where there is none."""
    if not path.is_file():
        return 0
    with path.open("rb") as file:
        return sum(line.endswith(b"\n") for line in file)


def _keep(path: Path, lines: int) -> None:
    """Cut a file after so many lines."""
    if not path.is_file():
        return
    with path.open("r+b") as file:
        for _ in range(lines):
            file.readline()
        file.truncate(file.tell())
