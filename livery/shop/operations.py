"""Operations: what the shop can really do. Stable names; tools are only their surfaces.

An operation is a function from (context, arguments) to a typed JSON result. The arithmetic of prices is here
and nowhere else. A fault is an `OperationError`, which the agent hands to the policy as data.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from inspect import isawaitable
from typing import Any

from livery.shop.catalogue import Catalogue
from livery.types import JSON, Effect, ErrorKind, RoomState


class OperationError(Exception):
    """An operation could not do what was asked. ``message`` says what was wrong and what would be right."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        self.kind = kind
        self.message = message
        super().__init__(f"{kind}: {message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationContext:
    catalogue: Catalogue
    """The catalogue as it stood when the request began."""
    state: RoomState
    now: datetime
    """Room time, aware."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    value: JSON
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    name: str
    """Dotted, such as ``catalog.get_product``."""
    summary: str
    parameters: Mapping[str, Any]
    """JSON Schema 2020-12 of the arguments object."""
    writes: bool = False
    """Whether it has effects outside the request."""
    run: Callable[[OperationContext, Mapping[str, Any]], Outcome | Awaitable[Outcome]] = field(repr=False)


class Operations(Mapping[str, Operation]):
    """A registry. `call` is the one way in, so that a simulator can wrap it with faults."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._operations: dict[str, Operation] = {}
        for operation in operations:
            if operation.name in self._operations:
                raise ValueError(f"operation {operation.name!r} is registered twice")
            self._operations[operation.name] = operation

    def __getitem__(self, name: str) -> Operation:
        return self._operations[name]

    def __iter__(self):
        return iter(self._operations)

    def __len__(self) -> int:
        return len(self._operations)

    def joined(self, others: Iterable[Operation]) -> Operations:
        """These and ``others`` (tools of an MCP server, a user's own)."""
        return Operations([*self.values(), *others])

    async def call(self, name: str, arguments: Mapping[str, Any], context: OperationContext) -> Outcome:
        """Run one operation.

        Raises:
            OperationError: it could not do what was asked; ``kind`` tells why.
        """
        operation = self._operations.get(name)
        if operation is None:
            known = ", ".join(self)
            raise OperationError(ErrorKind.UNAVAILABLE, f"no operation {name!r} here; there are: {known}")
        outcome = operation.run(context, arguments)
        return await outcome if isawaitable(outcome) else outcome
