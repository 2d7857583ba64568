"""GDPO's advantages, against a slow reference written from the paper (arXiv 2601.05242)."""

import math
import statistics

import pytest

pytest.importorskip("torch", reason="needs the training extra: torch is not installed")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from livery.errors import InputError
from livery.training.advantages import Kind, RewardPlan, gdpo, length_penalty

NAN = math.nan
PLAN = RewardPlan(call={"a": 1.0, "b": 0.5}, reply={"c": 1.0, "b": 2.0})
NAMES = ("a", "b", "c")


def reference(rewards, names, groups, weights, reward_floor, batch_floor):
    """One kind, rollout by rollout: normalise in the group, add with weights, whiten over the scored rollouts."""
    sums = []
    for row, group in zip(rewards, groups, strict=True):
        total, scored = 0.0, False
        for name, weight in weights.items():
            value = row[names.index(name)]
            if math.isnan(value):
                continue
            scored = True
            peers = [r[names.index(name)] for r, g in zip(rewards, groups, strict=True) if g == group]
            peers = [p for p in peers if not math.isnan(p)]
            std = statistics.stdev(peers) if len(peers) > 1 else 0.0
            total += weight * (value - statistics.fmean(peers)) / max(std, reward_floor)
        sums.append(total if scored else None)
    known = [s for s in sums if s is not None]
    if not known:
        return [0.0] * len(sums)
    mean = statistics.fmean(known)
    std = statistics.stdev(known) if len(known) > 1 else 0.0
    return [0.0 if s is None else (s - mean) / max(std, batch_floor) for s in sums]


def run(rewards, groups, plan=PLAN, names=NAMES):
    return gdpo(torch.tensor(rewards, dtype=torch.float64), names, torch.tensor(groups), plan)


reward = st.one_of(st.just(NAN), st.sampled_from([0.0, 0.5, 1.0]), st.floats(-3, 3, width=32))
batches = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.lists(st.tuples(reward, reward, reward), min_size=n, max_size=n),
        st.lists(st.integers(0, 3), min_size=n, max_size=n),
    )
)


@given(batches)
@settings(max_examples=150, deadline=None)
def test_advantages_are_those_of_the_paper_for_groups_of_any_size_and_rewards_that_do_not_apply(batch):
    rewards, groups = batch
    got = run(rewards, groups)
    for kind in Kind:
        expected = reference(rewards, NAMES, groups, PLAN.weights(kind), PLAN.reward_floor, PLAN.batch_floor)
        assert got.of(kind).tolist() == pytest.approx(expected, abs=1e-5)
    assert got.values.dtype == torch.float32


@given(batches, st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_order_of_rollouts_and_names_of_groups_do_not_matter(batch, rng):
    rewards, groups = batch
    order = list(range(len(groups)))
    rng.shuffle(order)
    shuffled = run([rewards[i] for i in order], [100 - groups[i] for i in order])
    assert torch.allclose(shuffled.values, run(rewards, groups).values[order], atol=1e-6)


@given(batches, st.floats(0.1, 50), st.floats(-100, 100))
@settings(max_examples=50, deadline=None)
def test_a_rewards_unit_and_origin_do_not_matter_above_the_floor(batch, unit, origin):
    rewards, groups = batch
    rewards = [[math.nan if math.isnan(r) else round(r, 2) for r in row] for row in rewards]
    plan = RewardPlan(call=PLAN.call, reply=PLAN.reply, reward_floor=1e-6)
    moved = [[a * unit + origin, b, c] for a, b, c in rewards]
    assert torch.allclose(run(moved, groups, plan).values, run(rewards, groups, plan).values, atol=1e-3)


def test_hand_worked_batch():
    plan = RewardPlan(call={"a": 1.0}, reply={"c": 1.0}, batch_floor=0.01)
    got = run([[0, 0, 0], [2, 0, 0], [5, 0, 1], [5, 0, 0]], [0, 0, 1, 1], plan)
    # Within the group 2 ± sqrt 2, hence ± 1 / sqrt 2 for n - 1. Over the batch: four values, squares add up to 1.
    z = (1 / math.sqrt(2)) / math.sqrt(1 / 3)
    assert got.of(Kind.CALL).tolist() == pytest.approx([-z, z, 0, 0], abs=1e-6)
    assert got.of(Kind.REPLY).tolist() == pytest.approx([0, 0, z, -z], abs=1e-6)


def test_two_rewards_earned_are_worth_more_than_one_where_grpo_cannot_tell_them_apart():
    """The paper's example: two binary rewards, groups of two. Summed first, both groups look the same."""
    plan = RewardPlan(call={"a": 1.0, "b": 1.0}, reply={"c": 1.0})
    rewards = [[0, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0]]
    summed = torch.tensor(rewards, dtype=torch.float64).sum(1).view(2, 2)
    grpo = (summed - summed.mean(1, keepdim=True)) / summed.std(1, keepdim=True)
    assert torch.allclose(grpo[0], grpo[1])
    ours = run(rewards, [0, 0, 1, 1], plan).of(Kind.CALL)
    assert ours[3].item() == pytest.approx(2 * ours[1].item())
    assert ours[1] > 0


def test_each_kind_is_whitened_by_itself_and_untouched_by_the_others_rewards():
    plan = RewardPlan(call={"a": 1.0}, reply={"c": 1.0})
    low = run([[0, 0, 0], [1, 0, 1], [0, 0, 1], [1, 0, 1]], [0, 0, 1, 1], plan)
    other = run([[1, 0, 0], [1, 0, 1], [0, 0, 1], [1, 0, 1]], [0, 0, 1, 1], plan)
    assert torch.equal(low.of(Kind.REPLY), other.of(Kind.REPLY))
    assert not torch.equal(low.of(Kind.CALL), other.of(Kind.CALL))
    for kind in Kind:
        assert low.of(kind).std().item() == pytest.approx(1.0, abs=1e-6)
        assert low.of(kind).mean().item() == pytest.approx(0.0, abs=1e-6)


def test_a_reward_that_does_not_apply_is_as_if_the_rollout_were_not_there():
    plan = RewardPlan(call={"a": 1.0}, reply={"c": 1.0})
    with_nan = run([[0, 0, 1], [1, 0, 0], [NAN, 0, 0], [3, 0, 1]], [0, 0, 0, 0], plan)
    without = run([[0, 0, 1], [1, 0, 0], [3, 0, 1]], [0, 0, 0], plan)
    assert torch.equal(with_nan.of(Kind.CALL)[[0, 1, 3]], without.of(Kind.CALL))
    assert with_nan.of(Kind.CALL)[2] == 0
    assert with_nan.of(Kind.REPLY)[2] < 0, "its other rewards still count"


@pytest.mark.parametrize(
    ("rewards", "groups"),
    [
        ([[1, 2, 3]], [0]),
        ([[1, 2, 3], [4, 5, 6], [7, 8, 9]], [0, 1, 2]),
        ([[0.1, 0.1, 0.1]] * 7, [0, 0, 0, 1, 1, 1, 1]),
        ([[NAN, NAN, NAN]] * 3, [0, 0, 0]),
        ([[NAN, 0.7, NAN], [0.3, NAN, NAN]], [0, 0]),
    ],
    ids=["one rollout", "groups of one", "all equal", "nothing applies", "one value each"],
)
def test_nothing_to_compare_gives_zeros(rewards, groups):
    got = run(rewards, groups)
    assert torch.equal(got.values, torch.zeros(len(groups), len(Kind)))
    assert all(math.isfinite(v) for v in got.metrics().values())


def test_differences_below_the_floor_stay_small():
    rewards = [[0.5, 0, 0], [0.5 + 1e-6, 0, 0], [0.5 - 1e-6, 0, 0], [0.5, 0, 0]]
    assert run(rewards, [0, 0, 0, 0]).values.abs().max() < 1e-3
    bare = RewardPlan(call=PLAN.call, reply=PLAN.reply, reward_floor=1e-12, batch_floor=1e-12)
    assert run(rewards, [0, 0, 0, 0], bare).values.abs().max() > 1


def test_groups_that_teach_nothing_are_counted_for_each_reward():
    rewards = [
        [1, 0.0, NAN], [1, 0.5, NAN],  # a: flat; c: does not apply
        [0, 0.5, 1], [1, 0.5, NAN],  # b: flat; c: a single value, flat
        [1, 0.5, 0], [1, 0.5, 0],  # all flat
    ]  # fmt: skip
    got = run(rewards, [0, 0, 1, 1, 2, 2])
    assert {name: (s.zero_variance, s.groups, s.missing) for name, s in got.rewards.items()} == {
        "a": (2, 3, 0),
        "b": (2, 3, 0),
        "c": (2, 2, 3),
    }
    assert (got.kinds[Kind.CALL].silent, got.kinds[Kind.CALL].groups) == (1, 3)
    assert (got.kinds[Kind.REPLY].silent, got.kinds[Kind.REPLY].rollouts) == (2, 6)
    flat = got.metrics()
    assert flat["reward/a/mean"] == pytest.approx(5 / 6)
    assert flat["reward/c/missing_share"] == 0.5
    assert flat["reward/b/zero_variance_share"] == pytest.approx(2 / 3)
    assert flat["advantage/reply/silent_share"] == pytest.approx(2 / 3)


def test_a_reward_that_no_kind_uses_is_only_measured():
    plan = RewardPlan(call={"a": 1.0}, reply={"c": 1.0})
    rewards = [[0, 9, 1], [1, 7, 0]]
    got = run(rewards, [0, 0], plan)
    assert got.rewards["b"].mean == 8
    assert torch.equal(got.values, run([[0, 0, 1], [1, 0, 0]], [0, 0], plan).values)


def test_weight_zero_is_no_reward():
    off = RewardPlan(call={"a": 1.0, "b": 0.0}, reply={"c": 1.0})
    alone = RewardPlan(call={"a": 1.0}, reply={"c": 1.0})
    rewards = [[0, 1, 0], [1, 0, 1], [NAN, 1, 1]]
    assert torch.equal(run(rewards, [0, 0, 0], off).values, run(rewards, [0, 0, 0], alone).values)


def test_plan_says_which_field_is_wrong():
    with pytest.raises(InputError) as caught:
        RewardPlan(call={}, reply={"accuracy": -1.0, "effectiveness": math.inf}, reward_floor=0.0)
    assert [p.field for p in caught.value.problems] == [
        "call", "reply.accuracy", "reply.effectiveness", "reward_floor",
    ]  # fmt: skip
    with pytest.raises(InputError, match="tool_rationality: no such reward; expected one of a, b, c"):
        run([[0, 0, 0]], [0], RewardPlan())


@pytest.mark.parametrize(
    ("rewards", "names", "group"),
    [
        (torch.zeros(2, 2), NAMES, torch.zeros(2, dtype=torch.long)),
        (torch.zeros(2, 3), NAMES, torch.zeros(3, dtype=torch.long)),
        (torch.zeros(2, 3), NAMES, torch.zeros(2)),
        (torch.zeros(2, 3), ("a", "b", "a"), torch.zeros(2, dtype=torch.long)),
        (torch.zeros(0, 3), NAMES, torch.zeros(0, dtype=torch.long)),
        (torch.tensor([[0.0, math.inf, 0.0]]), NAMES, torch.zeros(1, dtype=torch.long)),
    ],
)
def test_wrong_shapes_and_infinite_rewards_are_refused(rewards, names, group):
    with pytest.raises(ValueError):
        gdpo(rewards, names, group, PLAN)


@pytest.mark.parametrize(
    ("turns", "cost"),
    [
        ([0], 0),
        ([40], 0),
        ([41], -1 / 60),
        ([70], -0.5),
        ([100], -1),
        ([5000], -1),
        ([10, 70], -0.25),
        ([100, 100], -1),
    ],
)
def test_reasoning_costs_nothing_up_to_the_allowance_and_one_at_the_cap(turns, cost):
    assert length_penalty(turns, free=40, cap=100) == pytest.approx(cost)


def test_without_turns_the_length_does_not_apply():
    assert math.isnan(length_penalty([], free=40, cap=100))


@given(st.lists(st.integers(0, 400), min_size=1, max_size=6), st.integers(0, 5), st.integers(0, 100))
def test_longer_reasoning_never_costs_less(turns, which, more):
    longer = [t + more * (i == which % len(turns)) for i, t in enumerate(turns)]
    before, after = (length_penalty(t, free=50, cap=250) for t in (turns, longer))
    assert -1 <= after <= before <= 0


@pytest.mark.parametrize(("free", "cap"), [(-1, 5), (5, 5), (6, 5)])
def test_allowance_above_the_cap_is_refused(free, cap):
    with pytest.raises(InputError, match="0 <= free < cap"):
        length_penalty([3], free=free, cap=cap)
