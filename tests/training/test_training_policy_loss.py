"""The policy's loss and its gradient, segment by segment, against slow references written from the papers.

GRPO: arXiv 2402.03300, equations 3 and 4. GSPO: arXiv 2507.18071, equations 5 and 7.
"""

import math
import random

import pytest

pytest.importorskip("torch", reason="needs the training extra: torch is not installed")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from policies_tiny_model import tiny_llama

from livery.errors import InputError
from livery.training.advantages import Kind
from livery.training.conversations import TokenRow
from livery.training.packing import choose_packing, collate, logprobs
from livery.training.policy_loss import (
    LossOptions,
    Segments,
    acts,
    check_acts,
    k3,
    kinds_of_predictions,
    policy_loss,
    segments_of,
    summarise,
)

CALL, REPLY = Kind.CALL, Kind.REPLY
VOCABULARY = 7


# ------------------------------------------------------------------------- references, from the papers


def reference_segment(p, p_old, p_ref, advantage, options):
    """The objective of one segment, from the probabilities of its tokens: lists of scalars, one a token."""
    low, high = options.bounds
    length = len(p)

    def clipped(ratio):
        return torch.minimum(ratio * advantage, torch.clamp(ratio, 1 - low, 1 + high) * advantage)

    if options.ratio == "sequence":
        likelihood, likelihood_old = torch.prod(torch.stack(p)), torch.prod(torch.stack(p_old))
        objective = clipped((likelihood / likelihood_old) ** (1 / length))
    else:
        objective = sum(clipped(new / old) for new, old in zip(p, p_old, strict=True)) / length
    if options.beta:
        for new, old, ref in zip(p, p_old, p_ref, strict=True):
            kl = ref / new - torch.log(ref / new) - 1
            if options.use_bias_correction_kl:
                kl = kl * (new / old)
            objective = objective - options.beta * kl / length
    return objective


def reference_loss(batch, options, only=None):
    """Mean over the segments of a kind, sum over kinds. ``only``: the part of that one segment."""
    total = torch.zeros((), dtype=torch.float64)
    for kind in Kind:
        own = [j for j in range(len(batch.segments.kind)) if batch.segments.kind[j] == kind]
        for j in own:
            if only is not None and j != only:
                continue
            at = (batch.segments.index == j).nonzero().flatten().tolist()
            p, p_old, p_ref = (
                [logits[t].softmax(-1)[batch.targets[t]] for t in at]
                for logits in (batch.logits, batch.old_logits, batch.ref_logits)
            )
            objective = reference_segment(p, p_old, p_ref, batch.segments.advantage[j].double(), options)
            total = total - options.weight(kind) * objective / len(own)
    return total


class Batch:
    """Rollouts of several turns; kinds interleave as turns do. Logits are parameters: (predictions, vocabulary)."""

    def __init__(self, seed, *, rollouts=4, drift=0.3):
        rng = random.Random(seed)
        generator = torch.Generator().manual_seed(seed)
        rows, kinds = [], []
        for rollout in range(rollouts):
            turns = (
                [CALL] * rng.randrange(0, 3) + [REPLY] * rng.randrange(0, 2) + [CALL] + [REPLY] * rng.randrange(0, 2)
            )
            for kind in turns:
                length = rng.randrange(1, 5)
                rows += [rollout] * length
                kinds += [int(kind)] * length
        self.rollout, self.kinds = torch.tensor(rows), torch.tensor(kinds)
        self.targets = torch.randint(0, VOCABULARY, (len(rows),), generator=generator)

        def draw():
            return torch.randn(len(rows), VOCABULARY, generator=generator, dtype=torch.float64)

        self.old_logits = draw()
        self.logits = (self.old_logits + drift * draw()).requires_grad_()
        self.ref_logits = self.old_logits + 0.5 * draw()
        self.advantages = torch.randn(rollouts, len(Kind), generator=generator)
        self.segments = segments_of(self.rollout, self.kinds, self.advantages)

    def logp(self, logits):
        return logits.log_softmax(-1).gather(1, self.targets[:, None])[:, 0]

    def loss(self, options, segments=None):
        return policy_loss(
            self.logp(self.logits),
            self.logp(self.old_logits),
            segments or self.segments,
            options,
            ref_logp=self.logp(self.ref_logits),
        )


def gradient(of, at):
    return torch.autograd.grad(of, at)[0]


def with_advantage(segments, advantage):
    return Segments(index=segments.index, kind=segments.kind, rollout=segments.rollout, advantage=advantage)


OPTIONS = [
    LossOptions(ratio=ratio, clip=clip, beta=beta, use_bias_correction_kl=correct, call_weight=0.7, reply_weight=1.5)
    for ratio in ("sequence", "token")
    for clip in (None, (0.1, 0.2), (0.99, 50.0))
    for beta, correct in ((0.0, False), (0.3, False), (0.3, True))
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: f"{o.ratio}-{o.clip}-{o.beta}-{o.use_bias_correction_kl}")
@pytest.mark.parametrize("seed", [0, 1])
def test_loss_and_gradient_of_each_segment_are_those_of_the_papers(options, seed):
    batch = Batch(seed)
    loss = batch.loss(options).loss
    assert loss.item() == pytest.approx(reference_loss(batch, options).item(), abs=2e-5)
    whole = gradient(loss, batch.logits)
    for j in range(len(batch.segments.kind)):
        expected = gradient(reference_loss(batch, options, only=j), batch.logits)
        own = batch.segments.index == j
        assert torch.allclose(whole[own], expected[own], atol=2e-5), f"segment {j} within the batch"
        assert not expected[~own].any()
    assert whole.abs().max() > 1e-3


@pytest.mark.parametrize("ratio", ["sequence", "token"])
def test_a_segment_alone_moves_its_own_tokens_and_no_others(ratio):
    batch = Batch(3)
    options = LossOptions(ratio=ratio, clip=(0.5, 5.0), use_bias_correction_kl=False)
    for j in range(len(batch.segments.kind)):
        alone = torch.zeros_like(batch.segments.advantage)
        alone[j] = -1.3
        only = gradient(batch.loss(options, with_advantage(batch.segments, alone)).loss, batch.logits)
        own = batch.segments.index == j
        assert only[own].abs().sum() > 1e-3
        assert not only[~own].any()


@given(st.integers(0, 10_000), st.sampled_from(["sequence", "token"]), st.floats(0.0, 1.0))
@settings(max_examples=40, deadline=None)
def test_any_batch_agrees_with_the_reference(seed, ratio, drift):
    batch = Batch(seed, rollouts=1 + seed % 3, drift=drift)
    options = LossOptions(ratio=ratio, clip=(0.2, 0.3), beta=0.1, use_bias_correction_kl=True)
    assert batch.loss(options).loss.item() == pytest.approx(reference_loss(batch, options).item(), abs=5e-5)


# ------------------------------------------------------------------------------------------- the trap


def naive_loss(logp, old_logp, advantages, mask):
    """One sequence ratio (rollouts, 1) broadcast over advantages (rollouts, tokens), as TRL 1.16 would compute it."""
    log_ratio = ((logp - old_logp) * mask).sum(-1) / mask.sum(-1)
    ratio = log_ratio.unsqueeze(-1).exp()
    per_token = -torch.min(ratio * advantages, ratio.clamp(1 - 3e-4, 1 + 4e-4) * advantages)
    return ((per_token * mask).sum(-1) / mask.sum(-1)).mean()


def test_a_ratio_for_the_whole_rollout_cancels_where_one_for_each_segment_does_not():
    """Calls +1, reply -1, three tokens each: the naive gradient is zero, exactly."""
    old = torch.tensor([-0.5, -1.0, -2.0, -0.7, -0.1, -3.0])
    kinds = torch.tensor([CALL, CALL, CALL, REPLY, REPLY, REPLY])
    advantages = torch.tensor([[1.0, -1.0]])

    naive = old.clone().requires_grad_()
    per_token = advantages[0][kinds][None]
    lost = gradient(naive_loss(naive[None], old[None], per_token, torch.ones(1, 6)), naive)
    assert torch.equal(lost, torch.zeros(6))

    for ratio in ("sequence", "token"):
        logp = old.clone().requires_grad_()
        options = LossOptions(ratio=ratio, use_bias_correction_kl=False)
        segments = segments_of(torch.zeros(6, dtype=torch.long), kinds, advantages)
        got = gradient(policy_loss(logp, old, segments, options).loss, logp)
        third = 1 / 3
        assert got.tolist() == pytest.approx([-third] * 3 + [third] * 3), "calls become likelier, the reply less"


def test_with_a_ratio_for_the_whole_rollout_every_token_gets_the_mean_advantage():
    """Unequal lengths: nothing cancels exactly, and the reply is still pushed the wrong way."""
    old = -torch.rand(5)
    kinds = torch.tensor([CALL, CALL, CALL, CALL, REPLY])
    advantages = torch.tensor([[1.0, -1.0]])
    naive = old.clone().requires_grad_()
    lost = gradient(naive_loss(naive[None], old[None], advantages[0][kinds][None], torch.ones(1, 5)), naive)
    assert lost.tolist() == pytest.approx([-(3 / 5) / 5] * 5)
    logp = old.clone().requires_grad_()
    segments = segments_of(torch.zeros(5, dtype=torch.long), kinds, advantages)
    got = gradient(policy_loss(logp, old, segments, LossOptions(use_bias_correction_kl=False)).loss, logp)
    assert got[4] > 0 > lost[4]


# ---------------------------------------------------------------------------------- ratio and clipping


@pytest.mark.parametrize("ratio", ["sequence", "token"])
def test_at_ratio_one_the_gradient_is_reinforce_and_clipping_does_nothing(ratio):
    batch = Batch(5, drift=0.0)
    options = LossOptions(ratio=ratio, use_bias_correction_kl=False)
    done = batch.loss(options)
    logp = batch.logp(batch.logits)
    counts = batch.segments.counts()
    reinforce = torch.zeros((), dtype=torch.float64)
    for j, kind in enumerate(batch.segments.kind.tolist()):
        reinforce = reinforce - batch.segments.advantage[j] * logp[batch.segments.index == j].mean() / counts[kind]
    assert torch.allclose(gradient(done.loss, batch.logits), gradient(reinforce, batch.logits), atol=1e-6)
    assert not done.terms.clipped_low.any()
    assert not done.terms.clipped_high.any()


@pytest.mark.parametrize("ratio", ["sequence", "token"])
@pytest.mark.parametrize(
    ("advantage", "shift", "moves"),
    [(1.0, 0.3, False), (1.0, -0.3, True), (-1.0, -0.3, False), (-1.0, 0.3, True), (1.0, 0.1, True)],
)
def test_what_has_moved_far_enough_the_right_way_is_let_go(ratio, advantage, shift, moves):
    old = torch.tensor([-1.0, -2.0])
    logp = (old + shift).requires_grad_()
    segments = segments_of(torch.zeros(2, dtype=torch.long), torch.tensor([CALL, CALL]), torch.full((1, 2), advantage))
    options = LossOptions(ratio=ratio, clip=(0.2, 0.2), use_bias_correction_kl=False)
    done = policy_loss(logp, old, segments, options)
    assert bool(gradient(done.loss, logp).any()) is moves
    lines = summarise([done.terms])
    assert lines["call/clipped_low"] == (advantage < 0 and not moves)
    assert lines["call/clipped_high"] == (advantage > 0 and not moves)
    assert lines["call/ratio"] == pytest.approx(math.exp(shift))


def test_opposite_tokens_cancel_in_a_sequence_ratio_only():
    old = torch.tensor([-1.0, -1.0])
    logp = torch.tensor([-0.5, -1.5], requires_grad=True)
    segments = segments_of(torch.zeros(2, dtype=torch.long), torch.tensor([REPLY, REPLY]), torch.ones(1, 2))
    by = {
        ratio: policy_loss(logp, old, segments, LossOptions(ratio=ratio, clip=(0.2, 0.2), use_bias_correction_kl=False))
        for ratio in ("sequence", "token")
    }
    assert by["sequence"].terms.ratio.item() == pytest.approx(1.0)
    assert by["sequence"].terms.clipped_high.item() == 0
    assert by["token"].terms.clipped_high.item() == 0.5
    assert by["token"].terms.ratio_min.item() == pytest.approx(math.exp(-0.5))
    assert by["token"].terms.ratio_max.item() == pytest.approx(math.exp(0.5))


def test_a_freak_token_leaves_everything_finite():
    old = torch.tensor([-200.0, -1.0])
    logp = torch.tensor([-0.1, -150.0], requires_grad=True)
    segments = segments_of(torch.tensor([0, 1]), torch.tensor([CALL, CALL]), -torch.ones(2, 2))
    for ratio in ("sequence", "token"):
        options = LossOptions(ratio=ratio, beta=1.0, use_bias_correction_kl=True)
        done = policy_loss(logp, old, segments, options, ref_logp=old)
        assert done.loss.isfinite()
        assert gradient(done.loss, logp).isfinite().all()


# ------------------------------------------------------------------------------------------------- KL


def expected_gradient(options, pi, ref):
    """Exact expectation over all the tokens that the sampler (= policy) may draw, of the gradient on its logits."""
    drawn = torch.arange(len(pi))
    logits = pi.log().requires_grad_()
    now = logits.log_softmax(-1)
    total = torch.zeros(len(pi))
    for token in drawn.tolist():
        segments = segments_of(torch.tensor([0]), torch.tensor([CALL]), torch.zeros(1, 2))
        lost = policy_loss(
            now[token : token + 1],
            pi.log()[token : token + 1],
            segments,
            options,
            ref_logp=ref.log()[token : token + 1],
        ).loss
        total = total + pi[token] * torch.autograd.grad(lost, logits, retain_graph=True)[0]
    return total


@pytest.mark.parametrize("ratio", ["sequence", "token"])
def test_bias_correction_makes_the_gradient_that_of_the_reverse_kl(ratio):
    pi, ref = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.1, 0.3, 0.6])
    logits = pi.log().requires_grad_()
    reverse = gradient((logits.softmax(-1) * (logits.log_softmax(-1) - ref.log())).sum(), logits)
    forward = gradient((ref * (ref.log() - logits.log_softmax(-1))).sum(), logits)
    corrected = LossOptions(ratio=ratio, beta=1.0, use_bias_correction_kl=True)
    plain = LossOptions(ratio=ratio, beta=1.0, use_bias_correction_kl=False)
    assert torch.allclose(expected_gradient(corrected, pi, ref), reverse, atol=1e-6)
    assert torch.allclose(expected_gradient(plain, pi, ref), forward, atol=1e-6)
    assert not torch.allclose(forward, reverse, atol=1e-2)


@given(st.floats(-15, 0), st.floats(-15, 0))
@settings(deadline=None)
def test_k3_is_never_negative_and_zero_only_where_both_agree(a, b):
    value = k3(torch.tensor([a], dtype=torch.float64), torch.tensor([b], dtype=torch.float64)).item()
    assert value >= -1e-12
    assert value == pytest.approx(math.exp(b - a) - 1 - (b - a), abs=1e-9)
    if abs(a - b) > 0.01:
        assert value > 4e-5


def test_kl_is_measured_without_beta_and_costs_nothing():
    batch = Batch(7)
    without = policy_loss(
        batch.logp(batch.logits), batch.logp(batch.old_logits), batch.segments, LossOptions(use_bias_correction_kl=True)
    )
    measured = batch.loss(LossOptions(use_bias_correction_kl=True))
    assert torch.equal(without.loss, measured.loss)
    assert without.terms.kl is None
    assert "call/kl" not in summarise([without.terms])
    expected = []
    for j in range(len(batch.segments.kind)):
        own = batch.segments.index == j
        log_r = (batch.logp(batch.ref_logits) - batch.logp(batch.logits))[own].detach()
        expected.append((log_r.exp() - 1 - log_r).mean().item())
    assert measured.terms.kl.tolist() == pytest.approx(expected, rel=1e-4)


# ------------------------------------------------------------------------------ means, splits, packing


def test_a_long_segment_weighs_what_a_short_one_does_and_a_common_kind_what_a_rare_one_does():
    rollout = torch.tensor([0] * 9 + [1] + [2])
    kinds = torch.tensor([CALL] * 10 + [REPLY])
    old = -torch.rand(11)
    logp = old.clone().requires_grad_()
    segments = segments_of(rollout, kinds, torch.ones(3, 2))
    options = LossOptions(use_bias_correction_kl=False, call_weight=2.0, reply_weight=3.0)
    got = gradient(policy_loss(logp, old, segments, options).loss, logp)
    assert got[:9].sum().item() == pytest.approx(-1.0)
    assert got[9].item() == pytest.approx(-1.0)
    assert got[10].item() == pytest.approx(-3.0)


@pytest.mark.parametrize("ratio", ["sequence", "token"])
def test_a_step_split_over_batches_gives_the_gradient_of_the_whole(ratio):
    batch = Batch(11, rollouts=6)
    options = LossOptions(ratio=ratio, beta=0.2, use_bias_correction_kl=True, clip=(0.1, 0.1))
    whole = batch.loss(options)
    parts, terms = torch.zeros_like(batch.logits), []
    for rollouts in ([0, 3], [1], [2, 4, 5]):
        own = torch.isin(batch.rollout, torch.tensor(rollouts))
        segments = segments_of(batch.rollout[own], batch.kinds[own], batch.advantages)
        part = policy_loss(
            batch.logp(batch.logits)[own],
            batch.logp(batch.old_logits)[own],
            segments,
            options,
            ref_logp=batch.logp(batch.ref_logits)[own],
            counts=batch.segments.counts(),
        )
        parts += gradient(part.loss, batch.logits)
        terms.append(part.terms)
    assert torch.allclose(parts, gradient(whole.loss, batch.logits), atol=1e-6)
    joined, single = summarise(terms), summarise([whole.terms])
    assert joined.keys() == single.keys()
    assert joined == pytest.approx(single, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("packing", ["tree", "rows"])
@pytest.mark.filterwarnings("ignore::FutureWarning:transformers.modeling_utils")
def test_packed_rows_of_a_model_give_the_gradients_of_each_segment_alone(packing):
    """Rollouts share a prompt; tool results stand between turns. The model's own weights get the right gradient."""
    rng = random.Random(0)
    prompt = [rng.randrange(259) for _ in range(20)]
    rows, kinds = [], []
    for _ in range(3):
        ids, written, kind = list(prompt), [False] * 20, [0] * 20
        for turn, own in ((CALL, True), (CALL, False), (CALL, True), (REPLY, False), (REPLY, True)):
            length = rng.randrange(2, 6)
            ids += [rng.randrange(259) for _ in range(length)]
            written += [own] * length
            kind += [int(turn)] * length
        rows.append(TokenRow(ids=tuple(ids), written=tuple(written)))
        kinds.append(kind)
    advantages = torch.tensor([[1.0, -1.0], [-0.5, 2.0], [0.0, 0.7]])
    options = LossOptions(clip=(0.3, 0.3), use_bias_correction_kl=False, reply_weight=0.5)
    model = tiny_llama(0)
    assert choose_packing(model, "rows").kind == "rows"
    shift = 0.1 * torch.randn(3, max(len(r.ids) for r in rows), generator=torch.Generator().manual_seed(1))

    total, old = torch.zeros(()), []
    for i, (row, kind) in enumerate(zip(rows, kinds, strict=True)):
        logp = model(torch.tensor([row.ids])).logits[0].log_softmax(-1)
        given = {t: logp[t - 1, row.ids[t]] for t in range(1, len(row.ids)) if row.written[t]}
        before = {t: value.detach() + shift[i, t] for t, value in given.items()}
        old += before.values()
        for turn, weight in ((CALL, 1.0), (REPLY, 0.5)):
            at = [t for t in given if kind[t] == turn]
            s = torch.stack([given[t] - before[t] for t in at]).mean().exp()
            a = advantages[i, turn]
            total = total - weight * torch.min(s * a, s.clamp(0.7, 1.3) * a) / 3
    names, weights = zip(*model.named_parameters(), strict=True)
    expected = torch.autograd.grad(total, weights)

    assert choose_packing(model, packing).kind == packing
    batch = collate(rows, packing, per_row=True, least_shared=1)
    segments = segments_of(batch["row"], kinds_of_predictions([r.written for r in rows], kinds), advantages)
    logp, _ = logprobs(model, batch)
    done = policy_loss(logp, torch.stack(old), segments, options)
    assert done.loss.item() == pytest.approx(total.item(), rel=1e-4)
    for name, got, wanted in zip(names, torch.autograd.grad(done.loss, weights), expected, strict=True):
        assert torch.allclose(got, wanted, atol=1e-5), name


@pytest.mark.parametrize("packing", ["tree", "rows"])
def test_kinds_stand_in_the_order_of_packed_predictions_and_a_first_id_is_none(packing):
    rows = [
        TokenRow(ids=(1, 2, 3, 4), written=(True, False, True, True)),
        TokenRow(ids=(1, 2, 5), written=(True, True, False)),
    ]
    kinds = [[CALL, CALL, CALL, REPLY], [REPLY, REPLY, CALL]]
    batch = collate(rows, packing, per_row=True, least_shared=1)
    found = kinds_of_predictions([r.written for r in rows], kinds)
    assert batch["target"].tolist() == [3, 4, 2]
    assert found.tolist() == [CALL, REPLY, REPLY]
    with pytest.raises(ValueError):
        kinds_of_predictions([r.written for r in rows], [kinds[0], kinds[1][:-1]])


def test_segments_leave_out_kinds_that_a_rollout_lacks():
    segments = segments_of(
        torch.tensor([2, 2, 0, 0, 0]),
        torch.tensor([REPLY, CALL, REPLY, REPLY, REPLY]),
        torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    )
    assert segments.rollout.tolist() == [0, 2, 2]
    assert segments.kind.tolist() == [REPLY, CALL, REPLY]
    assert segments.advantage.tolist() == [2.0, 5.0, 6.0]
    assert segments.index.tolist() == [2, 1, 0, 0, 0]
    assert segments.counts().tolist() == [1, 2]


def test_summary_names_what_was_cut_off_and_leaves_out_a_kind_without_segments():
    segments = segments_of(torch.tensor([0, 0]), torch.tensor([REPLY, REPLY]), torch.ones(1, 2))
    old = torch.tensor([-1.0, -2.0])
    done = policy_loss(old, old, segments, LossOptions(use_bias_correction_kl=False))
    lines = summarise([done.terms], truncated=[True, False, False, True])
    assert lines["truncated_share"] == 0.5
    assert lines["reply/surprisal"] == pytest.approx(1.5)
    assert lines["reply/moved"] == 0
    assert lines["reply/tokens"] == 2
    assert not [name for name in lines if name.startswith("call/")]


# --------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("field", "value"),
    [("clip", (0.0, 0.2)), ("clip", (1.0, 0.2)), ("clip", (0.2, math.inf)), ("beta", -0.1), ("call_weight", math.nan)],
)
def test_options_say_which_field_is_wrong(field, value):
    with pytest.raises(InputError) as caught:
        LossOptions(use_bias_correction_kl=True, **{field: value})
    assert [p.field for p in caught.value.problems] == [field]


def test_options_take_the_papers_clip_of_each_ratio():
    assert LossOptions(use_bias_correction_kl=True).bounds == (3e-4, 4e-4)
    assert LossOptions(use_bias_correction_kl=True, ratio="token").bounds == (0.2, 0.2)


def test_a_reference_that_is_missing_or_numbers_that_are_none_are_refused():
    segments = segments_of(torch.tensor([0, 0]), torch.tensor([CALL, REPLY]), torch.ones(1, 2))
    old = torch.tensor([-1.0, -1.0])
    options = LossOptions(use_bias_correction_kl=False)
    with pytest.raises(ValueError, match="ref_logp"):
        policy_loss(old, old, segments, LossOptions(use_bias_correction_kl=True, beta=0.1))
    with pytest.raises(ValueError, match="shapes"):
        policy_loss(old, old[:1], segments, options)
    with pytest.raises(ValueError, match="finite"):
        policy_loss(old, torch.tensor([-1.0, -math.inf]), segments, options)
    with pytest.raises(ValueError, match="finite"):
        policy_loss(old, old, with_advantage(segments, torch.tensor([math.nan, 0.0])), options)
    with pytest.raises(ValueError, match="without predictions"):
        empty = Segments(
            index=segments.index,
            advantage=torch.ones(3),
            kind=torch.tensor([0, 1, 1]),
            rollout=torch.tensor([0, 0, 1]),
        )
        policy_loss(old, old, empty, options)


@pytest.mark.parametrize(
    ("rollout", "kind", "advantages"),
    [
        ([0, 1], [0], (2, 2)),
        ([], [], (2, 2)),
        ([0, 2], [0, 0], (2, 2)),
        ([0, 1], [0, 2], (2, 2)),
        ([0, 1], [0, -1], (2, 2)),
        ([0, 1], [0, 1], (2, 3)),
    ],
)
def test_segments_of_shapes_that_do_not_fit_are_refused(rollout, kind, advantages):
    with pytest.raises(ValueError):
        segments_of(
            torch.tensor(rollout, dtype=torch.long), torch.tensor(kind, dtype=torch.long), torch.zeros(advantages)
        )


# ------------------------------------------------------------------------------ whether the ratio acts


def some_ratio_leaves_one(num_iterations, steps_per_generation, accumulation):
    """Walk through training: which weights sampled a batch, and which weights meet it."""
    weights, sampled = 0, 0
    for batch in range(4 * num_iterations * steps_per_generation * accumulation):
        if batch % (num_iterations * steps_per_generation) == 0:
            sampled = weights
        if weights != sampled:
            return True
        if (batch + 1) % accumulation == 0:
            weights += 1
    return False


@given(st.integers(1, 5), st.integers(1, 8), st.integers(1, 12))
@settings(max_examples=200, deadline=None)
def test_acts_is_what_a_walk_through_training_finds(num_iterations, steps_per_generation, accumulation):
    found = acts(num_iterations=num_iterations, steps_per_generation=steps_per_generation, accumulation=accumulation)
    assert found == some_ratio_leaves_one(num_iterations, steps_per_generation, accumulation)


def test_reuse_within_one_step_is_no_reuse():
    assert not acts(num_iterations=1, steps_per_generation=4, accumulation=4)
    assert acts(num_iterations=1, steps_per_generation=8, accumulation=4)
    assert acts(num_iterations=2, steps_per_generation=4, accumulation=4)
    assert not acts(num_iterations=2, steps_per_generation=2, accumulation=4), "both passes fall in one step"


def test_a_schedule_under_which_clipping_would_do_nothing_is_refused():
    check_acts(num_iterations=2, steps_per_generation=1, accumulation=1)
    with pytest.raises(InputError, match="every ratio would be 1"):
        check_acts(num_iterations=1, steps_per_generation=4, accumulation=8)
    with pytest.raises(InputError, match="accumulation: 0, expected at least 1"):
        check_acts(num_iterations=1, steps_per_generation=4, accumulation=0)
