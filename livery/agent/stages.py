"""Which stage a request's seconds go to, on the wall: parts that do not overlap.

What runs inside another stage is charged to the innermost by rank: a hook on a tool call counts as a hook, not as a
tool, and two hooks side by side count once. What no stage claims is the loop's own (look-ups
for the prompt, rendering).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, Literal

from livery.types import StageTimes

Stage = Literal["hooks", "policy", "tools", "degraded"]
_RANKED: Final[tuple[Stage, ...]] = ("hooks", "policy", "tools", "degraded")


class StageClock:
    """One request's stages."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """
        Args:
            clock: seconds, monotonic.
        """
        self._clock = clock
        self._since = 0.0
        self._running: dict[Stage, int] = dict.fromkeys(_RANKED, 0)
        self._seconds: dict[Stage, float] = dict.fromkeys(_RANKED, 0.0)
        self._finished = 0.0
        """Of the policy's seconds, those in calls that gave a turn."""

    @contextmanager
    def of(self, stage: Stage) -> Generator[None]:
        """While the context lasts, time that no inner stage claims is this one's."""
        self._charge()
        self._running[stage] += 1
        try:
            yield
            if stage == "policy":
                self._charge()
                self._finished = self._seconds["policy"]
        finally:
            self._charge()
            self._running[stage] -= 1

    def times(self) -> StageTimes:
        """So far."""
        return StageTimes(
            policy_s=self._seconds["policy"],
            cut_s=max(0.0, self._seconds["policy"] - self._finished),
            tools_s=self._seconds["tools"],
            hooks_s=self._seconds["hooks"],
            degraded_s=self._seconds["degraded"],
        )

    def _charge(self) -> None:
        now = self._clock()
        inner: Stage | None = next((s for s in _RANKED if self._running[s]), None)
        if inner is not None:
            self._seconds[inner] += now - self._since
        self._since = now
