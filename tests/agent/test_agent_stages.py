"""The stage clock: seconds that do not overlap, whatever runs inside what."""

from __future__ import annotations

import pytest

from livery.agent.stages import StageClock
from livery.types import StageTimes


class Hand:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_inner_stages_are_not_counted_twice() -> None:
    hand = Hand()
    clock = StageClock(hand)
    hand.now += 1  # nobody's
    with clock.of("tools"):
        hand.now += 2
        one, other = clock.of("hooks"), clock.of("hooks")
        one.__enter__()
        hand.now += 4
        other.__enter__()  # side by side with the first
        hand.now += 8
        one.__exit__(None, None, None)
        hand.now += 16
        other.__exit__(None, None, None)
        hand.now += 32
    assert clock.times() == StageTimes(tools_s=34, hooks_s=28)


def test_a_call_that_ends_in_an_error_is_cut() -> None:
    hand = Hand()
    clock = StageClock(hand)
    with clock.of("policy"):
        hand.now += 1
    with pytest.raises(TimeoutError), clock.of("policy"):
        hand.now += 2
        raise TimeoutError
    with clock.of("degraded"):
        hand.now += 4
    assert clock.times() == StageTimes(policy_s=3, cut_s=2, degraded_s=4)
