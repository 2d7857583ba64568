"""Trajectories as JSON lines: one `livery.types.Trajectory` a line, the schema named in each.

The format is documented in docs/trajectory.md. A file of another schema is refused by name, never half read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from pydantic import TypeAdapter, ValidationError

from livery.errors import InputError, Problem
from livery.types import TRAJECTORY_SCHEMA, Trajectory

_ADAPTER: TypeAdapter[Trajectory] = TypeAdapter(Trajectory)


def dump_trajectory(trajectory: Trajectory) -> str:
    """One line of JSON, without the line end."""
    return _ADAPTER.dump_json(trajectory).decode()


def load_trajectory(line: str | bytes, *, path: str = "trajectory", number: int = 0) -> Trajectory:
    """Reads what `dump_trajectory` wrote.

    Args:
        path, number: where the line stands, for the error.

    Raises:
        InputError: it is no JSON, of another schema, or has wrong fields.
    """
    try:
        raw: Any = json.loads(line)
    except ValueError as error:
        raise InputError.at(
            path, f"found no JSON ({error}); expected one trajectory a line", line=number, code="not-json"
        ) from error
    schema: Any = cast(dict[str, Any], raw).get("schema") if isinstance(raw, dict) else None
    if schema != TRAJECTORY_SCHEMA:
        raise InputError.at(
            path,
            f"found {schema!r}; this version of livery reads {TRAJECTORY_SCHEMA!r}",
            field="schema",
            line=number,
            code="unknown-schema",
        )
    try:
        return _ADAPTER.validate_python(raw)
    except ValidationError as error:
        raise InputError(
            [
                Problem(
                    path=path,
                    line=number,
                    field=".".join(map(str, fault["loc"])),
                    message=f"{fault['msg']}; found {fault['input']!r:.80}",
                    code="bad-field",
                )
                for fault in error.errors()
            ]
        ) from error


def read_trajectories(path: str | Path) -> Iterator[Trajectory]:
    """The trajectories of a file, in order. Blank lines are skipped.

    Raises:
        InputError: after the last good line, naming every bad one.
    """
    problems: list[Problem] = []
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                trajectory = load_trajectory(line, path=str(path), number=number)
            except InputError as error:
                problems += error.problems
                continue
            yield trajectory
    if problems:
        raise InputError(problems)


class TrajectoryWriter:
    """Writes trajectories to a file, flushed line by line.

    With ``append`` the torn last line of a killed run is cut off first.
    """

    def __init__(self, path: str | Path, *, append: bool = False) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.written = 0
        if append and self.path.exists():
            text = self.path.read_bytes()
            whole = text.rfind(b"\n") + 1
            if whole < len(text):
                with self.path.open("r+b") as file:
                    file.truncate(whole)
        self._file = self.path.open("a" if append else "w", encoding="utf-8", newline="\n")

    def write(self, trajectory: Trajectory) -> None:
        self._file.write(dump_trajectory(trajectory) + "\n")
        self._file.flush()
        self.written += 1

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
