"""Livery's own exceptions. All derive from `LiveryError`, whose text a person can act on.

LiveryError
├── InputError      a file or field a person wrote is wrong: where, what was found, what is expected
├── PolicyError     the policy could not answer
│   ├── PolicyTimeout
│   ├── PolicyUnavailable
│   ├── PolicyOverflow
│   └── PolicyMalformed
└── StoreError      a release or channel that is not there, or a store that cannot be used
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class LiveryError(Exception):
    """Root of livery's exceptions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with an input, or worth a warning."""

    path: str
    """File (or URL) that holds it."""
    field: str = ""
    """Dotted field, such as ``products[3].price``."""
    line: int = 0
    """1-based; 0 where a line means nothing."""
    message: str
    """What was found and what is expected."""
    severity: str = "error"
    """"error" or "warning"."""
    code: str = ""
    """Stable short name, such as ``skill-name-mismatch``."""

    def __str__(self) -> str:
        where = self.path + (f":{self.line}" if self.line else "")
        return f"{where}: {self.field + ': ' if self.field else ''}{self.message}"


class InputError(LiveryError):
    """Bad input. ``problems`` lists every fault found, not only the first."""

    def __init__(self, problems: Sequence[Problem] | Problem) -> None:
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(p) for p in self.problems))

    @classmethod
    def at(cls, path: str | Path, message: str, *, field: str = "", line: int = 0, code: str = "") -> InputError:
        return cls(Problem(path=str(path), field=field, line=line, message=message, code=code))


class PolicyError(LiveryError):
    """The policy could not give a turn. The agent answers by the degraded route."""


class PolicyTimeout(PolicyError):
    """No complete turn within the time given."""


class PolicyUnavailable(PolicyError):
    """The engine or server could not be reached or refused, after the bounded retries."""


class PolicyOverflow(PolicyError):
    """The conversation is longer than the model's context. The policy's own failure in that conversation: others may
    go well, and the same one would fail again."""


class PolicyMalformed(PolicyError):
    """The engine answered with something that is not a turn."""


class StoreError(LiveryError):
    """A release or channel that does not exist, or a store that cannot be opened."""
