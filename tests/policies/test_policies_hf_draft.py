"""Speculative decoding by a draft head: what is written is what would have been written without it."""

import asyncio
import json
from collections import Counter

import pytest

pytest.importorskip("torch", reason="needs the training extra: torch is not installed")

import policies_requests
import torch
from policies_tiny_model import byte_tokenizer, chat_tokenizer, tiny_llama

from livery.errors import InputError
from livery.policies import open_policy
from livery.policies.hf import HfOptions, HfPolicy
from livery.policies.hf_draft import DraftHead
from livery.policies.policy import PromptMessage

MESSAGES = policies_requests.MESSAGES
GREEDY = HfOptions(temperature=0.0)


@pytest.fixture(scope="module")
def tokenizer():
    return chat_tokenizer()


def request(messages=MESSAGES, **fields):
    return policies_requests.request(messages, **{"timeout_s": 3600.0, **fields})


def asked(name):
    return (MESSAGES[0], PromptMessage(role="user", content=f"## Chat\n{name}"))


def head_of(model, seed=1, **more):
    return DraftHead(model, generator=torch.Generator().manual_seed(seed), **more)


class Told:
    """In place of a head's guesses: those of the rows' true continuations, wrong at the places that ``wrong`` names."""

    def __init__(self, drafter, truth, wrong=lambda place: False):
        self._drafter, self._truth, self._wrong = drafter, truth, wrong
        self.asked = []

    def __getattr__(self, name):
        return getattr(self._drafter, name)

    def propose(self, slots, pending, lengths, most):
        self._drafter.propose(slots, pending, lengths, most)  # what it writes in the slots is not to matter
        out = []
        for token, length in zip(pending, lengths, strict=True):
            ids = next(t for t in self._truth if len(t) > length and t[length] == token)
            guess = [*ids[length + 1 : length + 1 + most], *[5] * most][:most]
            out.append([(g + 1) % 259 if self._wrong(length + i) else g for i, g in enumerate(guess)])
        self.asked.append(most)
        return out


async def written(model, tokenizer, requests, options, draft=None, told=None):
    policy = HfPolicy(model, tokenizer, options, draft=draft)
    if told:
        policy._decoder._drafter = told(policy._decoder._drafter)
    turns = await asyncio.gather(*map(policy.act, requests))
    checks = policy.checks
    await policy.aclose()
    return turns, checks


@pytest.mark.parametrize(("start", "batch"), [("last", 1), ("fresh", 4)])
async def test_an_untrained_head_changes_no_token_greedy_or_sampled(tokenizer, start, batch):
    model = tiny_llama()
    requests = [request(asked("a" * (1 + 7 * i) + chr(97 + i)), seed=i, max_tokens=3 + 6 * (i % 4)) for i in range(8)]
    for options in (GREEDY, HfOptions(temperature=1.0, top_p=0.8)):
        options = HfOptions(temperature=options.temperature, top_p=options.top_p, batch=batch, draft_tokens=4)
        plain, _ = await written(model, tokenizer, requests, options)
        drafted, checks = await written(model, tokenizer, requests, options, head_of(model, start=start))
        assert [t.tokens.output_ids for t in drafted] == [t.tokens.output_ids for t in plain]
        assert [t.stop for t in drafted] == [t.stop for t in plain]
        for one, other in zip(drafted, plain, strict=True):
            assert one.tokens.logprobs == pytest.approx(other.tokens.logprobs, abs=1e-4)
        assert checks > 0
        assert sum(t.usage.drafted for t in drafted) > 50
        assert sum(t.usage.drafted + t.usage.accepted for t in plain) == 0


async def test_guesses_that_are_right_are_all_taken_in_few_passes(tokenizer):
    model = tiny_llama()
    requests = [request(asked(c), max_tokens=21) for c in "xyz"]
    plain, _ = await written(model, tokenizer, requests, GREEDY)
    truth = [t.tokens.prompt_ids + t.tokens.output_ids for t in plain]
    turns, checks = await written(model, tokenizer, requests, GREEDY, head_of(model), lambda d: Told(d, truth))
    assert [t.tokens.output_ids for t in turns] == [t.tokens.output_ids for t in plain]
    whole = [t for t in turns if len(t.tokens.output_ids) == 21]
    assert whole
    for turn in whole:
        # One from the prompt, then four a pass: three guesses and the token after them.
        assert (turn.usage.accepted, turn.usage.drafted) == (15, 15)
    assert checks <= 5 * len(turns)


async def test_guesses_wrong_at_odd_places_in_a_ragged_batch_change_nothing(tokenizer):
    model = tiny_llama()
    requests = [request(asked("q" * (1 + 5 * i)), max_tokens=30) for i in range(6)]
    plain, _ = await written(model, tokenizer, requests, GREEDY)
    truth = [t.tokens.prompt_ids + t.tokens.output_ids for t in plain]
    turns, _ = await written(
        model, tokenizer, requests, HfOptions(temperature=0.0, draft_tokens=5), head_of(model),
        lambda d: Told(d, truth, lambda place: place % 7 in (1, 5)),
    )  # fmt: skip
    assert [t.tokens.output_ids for t in turns] == [t.tokens.output_ids for t in plain]
    for one, other in zip(turns, plain, strict=True):
        assert one.tokens.logprobs == pytest.approx(other.tokens.logprobs, abs=1e-4)
    shares = [t.usage.accepted / t.usage.drafted for t in turns if t.usage.drafted]
    assert all(0 < s < 1 for s in shares)


async def test_what_the_head_knows_is_what_one_pass_over_the_conversation_gives(tokenizer):
    """Kept prefixes, accepted and refused guesses: the head's keys, values and hidden states are those of the
    conversation read at once."""
    model = tiny_llama()
    policy = HfPolicy(model, tokenizer, HfOptions(temperature=0.0), draft=head_of(model))
    first = await policy.act(request(asked("m"), max_tokens=17))
    more = (*asked("m"), PromptMessage(role="assistant", content=first.text), PromptMessage(role="user", content="so?"))
    second = await policy.act(request(more, previous=first, previous_messages=2, max_tokens=17))
    assert second.usage.cached > 60
    ids = (second.tokens.prompt_ids + second.tokens.output_ids)[:-1]
    _, kept = policy._decoder._prefixes.longest(ids, len(ids))
    await policy.aclose()
    fresh = HfPolicy(model, tokenizer, HfOptions(temperature=0.0, prefix_mib=64), draft=head_of(model))
    await fresh._run(hf_row(ids))
    _, once = fresh._decoder._prefixes.longest(ids, len(ids))
    await fresh.aclose()
    assert len(kept) == len(once) == len(model.model.layers) + 2
    for (keys, values), (wanted_keys, wanted_values) in zip(kept, once, strict=True):
        torch.testing.assert_close(keys, wanted_keys, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(values, wanted_values, rtol=1e-3, atol=1e-4)


def hf_row(ids):
    from livery.policies.hf_decoding import Row

    return Row(tuple(ids), 0, torch.Generator())


async def test_a_sampled_token_comes_as_often_with_guesses_as_without(tokenizer):
    """The distribution of the second token, over many seeds, against the model's own."""
    model = tiny_llama(vocabulary=259)
    options = HfOptions(temperature=0.7, top_p=1.0, draft_tokens=2, batch=64)
    policy = HfPolicy(model, tokenizer, options, draft=head_of(model))
    turns = await asyncio.gather(*(policy.act(request(seed=s, max_tokens=3)) for s in range(1000)))
    await policy.aclose()
    first = Counter(t.tokens.output_ids[0] for t in turns).most_common(1)[0][0]
    prompt = turns[0].tokens.prompt_ids
    with torch.no_grad():
        shares = torch.softmax(model(torch.tensor([(*prompt, first)])).logits[0, -1] / 0.7, -1)
    seconds = [
        t.tokens.output_ids[1] for t in turns if t.tokens.output_ids[0] == first and len(t.tokens.output_ids) > 1
    ]
    assert len(seconds) > 50
    found = torch.bincount(torch.tensor(seconds), minlength=259) / len(seconds)
    # Total variation; that of as many draws from the shares themselves is about as large.
    drawn = torch.multinomial(shares, len(seconds), replacement=True, generator=torch.Generator().manual_seed(0))
    plain = torch.bincount(drawn, minlength=259) / len(seconds)
    assert (found - shares).abs().sum() < 1.3 * (plain - shares).abs().sum()


async def test_a_short_vocabulary_guesses_only_its_own(tokenizer):
    model = tiny_llama()
    head = head_of(model, vocabulary=[9, 4, 200])
    out = torch.randn(3, 2, 16)
    full = torch.nn.functional.linear(out, model.lm_head.weight)
    torch.testing.assert_close(head.scores(out), full[..., [4, 9, 200]])
    assert set(head.choose(out).flatten().tolist()) <= {4, 9, 200}
    requests = [request(asked(c), max_tokens=20) for c in "kl"]
    plain, _ = await written(model, tokenizer, requests, GREEDY)
    drafted, _ = await written(model, tokenizer, requests, GREEDY, head)
    assert [t.tokens.output_ids for t in drafted] == [t.tokens.output_ids for t in plain]


def test_the_head_holds_only_its_own_weights_and_begins_as_it_is_told():
    model = tiny_llama()
    head = head_of(model)
    layer = sum(p.numel() for p in model.model.layers[-1].parameters())
    assert sum(p.numel() for p in head.parameters()) == layer + 2 * 16 * 16 + 2 * 16
    for name, weight in model.model.layers[-1].state_dict().items():
        assert torch.equal(head.layer.state_dict()[name], weight)
    fresh = head_of(model, start="fresh")
    assert not torch.equal(fresh.layer.self_attn.q_proj.weight, model.model.layers[-1].self_attn.q_proj.weight)
    assert head.layer.self_attn.layer_idx == 2
    assert model.model.layers[-1].self_attn.layer_idx == 1


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("draft") / "model"
    model = tiny_llama()
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    head_of(model).save(folder.parent / "head", {"depth": 2})
    return folder, folder.parent / "head"


async def test_a_head_by_uri_counts_what_it_guessed(saved):
    folder, head = saved
    turns = []
    for query in ("", f"&draft={head}&draft_tokens=2"):
        policy = open_policy(f"hf:{folder}?temperature=0&ctx=512{query}")
        turns.append(await policy.act(request(max_tokens=16)))
        await policy.aclose()
    assert turns[0].tokens.output_ids == turns[1].tokens.output_ids
    assert turns[0].usage.drafted == 0
    assert 0 < turns[1].usage.drafted <= 30
    assert (turns[1].usage + turns[1].usage).drafted == 2 * turns[1].usage.drafted


async def test_new_weights_are_drafted_for_with_their_own_unembedding(tokenizer):
    model = tiny_llama()
    head = head_of(model, vocabulary=range(50))
    policy = HfPolicy(model, tokenizer, GREEDY, draft=head)
    await policy.act(request(max_tokens=4))
    with torch.no_grad():
        model.lm_head.weight.mul_(-1)
    policy.renew("other")
    after = await policy.act(request(max_tokens=12))
    await policy.aclose()
    plain, _ = await written(model, tokenizer, [request(max_tokens=12)], GREEDY)
    assert after.tokens.output_ids == plain[0].tokens.output_ids
    torch.testing.assert_close(head._unembedding()[0], model.lm_head.weight[:50])


def test_what_is_no_head_or_does_not_fit_is_told(saved, tmp_path):
    folder, head = saved
    with pytest.raises(InputError, match=r"no draft\.json"):
        open_policy(f"hf:{folder}?draft={tmp_path}")
    with pytest.raises(InputError, match=r"width.*found 16; expected the model's 32"):
        DraftHead.load(head, tiny_llama(hidden=32))
    with pytest.raises(InputError, match="does not fit the model"):
        DraftHead.load(head, tiny_llama(kv_heads=4))
    with pytest.raises(InputError, match="found 259; expected the model's 300"):
        DraftHead.load(head, tiny_llama(vocabulary=300))
    card = json.loads((head / "draft.json").read_text())
    (tmp_path / "draft.json").write_text(json.dumps({**card, "schema": "other"}))
    (tmp_path / "head.safetensors").write_bytes((head / "head.safetensors").read_bytes())
    with pytest.raises(InputError, match="found 'other'"):
        DraftHead.load(tmp_path, tiny_llama())
    with pytest.raises(InputError) as error:
        open_policy(f"hf:{folder}?draft={head}&draft_tokens=0")
    assert [p.field for p in error.value.problems] == ["draft_tokens"]


def test_a_model_that_is_not_built_as_llama_is_refused():
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=1, n_positions=8))
    with pytest.raises(InputError, match=r"has no layers, norm, rotary_emb"):
        DraftHead(model)
