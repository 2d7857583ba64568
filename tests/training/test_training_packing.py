"""Packed rows give the loss and the gradients of plain rows."""

import logging
import random

import pytest

pytest.importorskip("torch", reason="needs the training extra: torch is not installed")

import torch
from policies_tiny_model import tiny_llama

from livery.training import packing
from livery.training.conversations import TokenRow
from livery.training.packing import ATTENTION, choose_packing, collate, logprobs, mean_loss, square_mask
from livery.training.tree import lay_out

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:transformers.modeling_utils")
VOCABULARY = 259


def row(rng, *parts, written=0.5):
    ids = tuple(i for part in parts for i in part)
    return TokenRow(ids=ids, written=tuple(rng.random() < written for _ in ids))


def draw(rng, length):
    return [rng.randrange(VOCABULARY) for _ in range(length)]


def forest(seed):
    """Three harnesses; under each a few tasks, some with a second beginning in common, one row twice."""
    rng = random.Random(seed)
    rows = []
    for _ in range(3):
        prompt, task = draw(rng, 25), draw(rng, 18)
        rows += [row(rng, prompt, draw(rng, rng.randrange(2, 14))) for _ in range(3)]
        rows += [row(rng, prompt, task, draw(rng, rng.randrange(1, 9))) for _ in range(2)]
    return [*rows, rows[0]]


def one_by_one(model, rows):
    """The loss as written in any textbook: each row alone, a mean over all the tokens that policies wrote."""
    total, count = 0.0, 0
    for r in rows:
        logits = model(torch.tensor([r.ids])).logits[0]
        labels = torch.tensor(r.labels)
        total = total + torch.nn.functional.cross_entropy(logits[:-1], labels[1:], ignore_index=-100, reduction="sum")
        count += int((labels[1:] != -100).sum())
    return total / count


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def use(model, kind):
    assert choose_packing(model, kind).kind == kind


@pytest.mark.parametrize("kind", ["tree", "mask", "rows"])
@pytest.mark.parametrize("seed", [0, 1])
def test_loss_and_gradients_are_those_of_the_rows_one_by_one(kind, seed):
    model = tiny_llama(seed)
    rows = forest(seed)
    expected = one_by_one(model, rows)
    wanted = gradients(model, expected)
    use(model, kind)
    loss = mean_loss(model, collate(rows, kind))
    got = gradients(model, loss)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert got.keys() == wanted.keys()
    for name in wanted:
        torch.testing.assert_close(got[name], wanted[name], rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_gradients_of_an_adapter_too(checkpointing):
    import peft

    def wrapped():
        torch.manual_seed(3)
        config = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj", "up_proj"], init_lora_weights=False)
        return peft.get_peft_model(tiny_llama(), config)

    plain, packed = wrapped(), wrapped()
    rows = forest(5)
    wanted = gradients(plain, one_by_one(plain, rows))
    use(packed, "tree")
    if checkpointing:
        packed.gradient_checkpointing_enable({"use_reentrant": False})
        packed.enable_input_require_grads()
        packed.train()
    got = gradients(packed, mean_loss(packed, collate(rows, "tree")))
    assert got.keys() == wanted.keys()
    assert all("lora" in name for name in got)
    for name in wanted:
        torch.testing.assert_close(got[name], wanted[name], rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("kind", ["tree", "mask", "rows"])
def test_each_row_gets_its_own_log_probabilities(kind):
    model = tiny_llama()
    use(model, kind)
    rows = forest(2)
    batch = collate(rows, kind, per_row=True)
    with torch.no_grad():
        given, _ = logprobs(model, batch)
        for i, r in enumerate(rows):
            scores = torch.log_softmax(model(torch.tensor([r.ids])).logits[0], -1)
            own = [float(scores[t - 1, r.ids[t]]) for t in range(1, len(r.ids)) if r.written[t]]
            assert given[batch["row"] == i].tolist() == pytest.approx(own, abs=1e-4)


def test_shared_predictions_count_once_for_each_row():
    rows = [TokenRow(ids=(1, 2, 3), written=(False, True, True))] * 3
    batch = collate([*rows, TokenRow(ids=(1, 2, 9), written=(False, False, True))], "tree", least_shared=1)
    asked = sorted(zip(batch["source"].tolist(), batch["target"].tolist(), batch["weight"].tolist(), strict=True))
    assert asked == [(0, 2, 3.0), (1, 3, 3.0), (1, 9, 1.0)]
    assert batch["keep"].tolist() == [0, 1]


def test_the_square_mask_is_the_tree():
    mask = square_mask(lay_out([(1, 2, 3), (1, 2, 4, 5)], least_shared=1))[0, 0].int().tolist()
    assert mask == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 0, 1, 0], [1, 1, 0, 1, 1]]


def test_a_model_set_up_for_trees_still_reads_padded_rows_and_generates():
    model, plain = tiny_llama(), tiny_llama()
    use(model, "tree")
    assert model.config._attn_implementation == ATTENTION
    ids = torch.tensor([[0, 0, 5, 6, 7], [4, 5, 6, 7, 8]])
    mask = (ids != 0).long()
    for how in ({"attention_mask": mask}, {}):
        torch.testing.assert_close(model(ids, **how).logits[mask.bool()], plain(ids, **how).logits[mask.bool()])
    options = {"max_new_tokens": 5, "do_sample": False, "attention_mask": mask}
    assert torch.equal(model.generate(ids, **options), plain.generate(ids, **options))


def test_layers_with_a_window_fall_back_to_rows_with_the_reason(caplog):
    from transformers import MistralConfig, MistralForCausalLM

    model = MistralForCausalLM(
        MistralConfig(vocab_size=VOCABULARY, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                      num_attention_heads=2, num_key_value_heads=1, sliding_window=8)
    )  # fmt: skip
    with caplog.at_level(logging.WARNING, "livery.training"):
        chosen = choose_packing(model)
    assert chosen.kind == "rows"
    assert "sliding_attention" in chosen.reason
    assert "falls back to 'rows'" in caplog.text
    rows = forest(1)
    assert mean_loss(model, collate(rows, "rows")).item() == pytest.approx(one_by_one(model, rows).item(), rel=1e-5)


def test_a_state_along_the_sequence_falls_back_to_rows():
    from transformers import MambaConfig, MambaForCausalLM

    model = MambaForCausalLM(MambaConfig(vocab_size=VOCABULARY, hidden_size=16, state_size=4, num_hidden_layers=1))
    assert choose_packing(model).kind == "rows"


def test_attention_that_ignores_the_layout_is_found_out(monkeypatch):
    def deaf(module, query, key, value, attention_mask, tree=None, **options):
        return packing._sdpa.sdpa_attention_forward(module, query, key, value, None, **options)

    monkeypatch.setattr(packing, "tree_attention", deaf)
    chosen = choose_packing(tiny_llama())
    assert chosen.kind == "mask"
    assert "differ by" in chosen.reason
