"""One time budget per request, out of which rounds, hooks and tools are paid."""

from __future__ import annotations

from collections.abc import Callable


class Budget:
    """Seconds left of a request's deadline.

    A round is not given a fixed share: the budget remembers the slowest round so far, and when what is left
    would not hold two more of those, the next round is the last (`last_round`), in which a reply is due.
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

    @property
    def last_round(self) -> bool:
        return self.left_s < 2 * self._slowest

    def round_took(self, seconds: float) -> None:
        self._slowest = max(self._slowest, seconds)
