"""One time budget per request, out of which rounds, hooks and tools are paid."""

from __future__ import annotations

from collections.abc import Callable


class Budget:
    """Seconds left of a request's deadline.

    A round is not given a fixed share: the budget remembers the slowest round so far, and `holds` tells whether
    what is left would hold so many more of those. The loop asks for what is due while there is time for it.
    """

    def __init__(self, deadline_s: float, reserve_s: float, clock: Callable[[], float]) -> None:
        """
        Args:
            deadline_s: from now to the reply.
            reserve_s: kept back for the degraded route.
            clock: a monotonic clock.
        """
        self._clock = clock
        self.started = clock()
        """When the request began, by ``clock``."""
        self._deadline = deadline_s
        self._reserve = min(reserve_s, deadline_s)
        self._slowest = 0.0

    @property
    def spent_s(self) -> float:
        return self._clock() - self.started

    @property
    def left_s(self) -> float:
        """What the loop may still spend; the reserve is not in it."""
        return max(0.0, self._deadline - self._reserve - self.spent_s)

    @property
    def reserve_s(self) -> float:
        """What the degraded route may spend: the reserve and whatever the loop left."""
        return max(0.0, self._deadline - self.spent_s)

    def holds(self, rounds: int) -> bool:
        """Whether there is time for ``rounds`` more rounds as slow as the slowest so far."""
        return self.left_s >= rounds * self._slowest

    def round_took(self, seconds: float) -> None:
        self._slowest = max(self._slowest, seconds)
