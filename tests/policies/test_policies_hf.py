"""The batched transformers policy, with a random model of a few thousand weights."""

import asyncio

import pytest

pytest.importorskip("torch", reason="needs the training extra: torch is not installed")

import torch
from policies_requests import MESSAGES, request
from policies_tiny_model import byte_tokenizer, chat_tokenizer, tiny_llama

from livery.errors import InputError, PolicyOverflow, PolicyUnavailable
from livery.policies import open_policy, wire
from livery.policies.hf import HfOptions, HfPolicy
from livery.policies.hf_decoding import Decoder
from livery.policies.hf_loading import ChatTokenizer, load_model, load_tokenizer, weights_digest
from livery.policies.hf_prefixes import size_of
from livery.policies.policy import PromptMessage
from livery.policies.wire import Segment

# peft asks the model for an attribute that transformers renamed.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:transformers.modeling_utils")

SAMPLED = HfOptions(temperature=1.0, top_p=1.0)


@pytest.fixture(scope="module")
def tokenizer():
    return chat_tokenizer()


@pytest.fixture
async def policy(tokenizer):
    policy = HfPolicy(tiny_llama(), tokenizer, SAMPLED, weights="tiny")
    yield policy
    await policy.aclose()


def asked(name):
    return (MESSAGES[0], PromptMessage(role="user", content=f"## Chat\n{name}"))


def model_logprobs(trace):
    """What the model itself gives, read in one pass without padding or cache."""
    ids = torch.tensor([trace.prompt_ids + trace.output_ids])
    with torch.no_grad():
        scores = torch.log_softmax(tiny_llama()(ids).logits[0], -1)
    start = len(trace.prompt_ids)
    return [float(scores[start + i - 1, token]) for i, token in enumerate(trace.output_ids)]


async def test_rooms_answered_together_get_what_each_gets_alone(policy, tokenizer):
    requests = [request(asked("a" * (3 + 11 * i)), seed=i, max_tokens=6 + 5 * i) for i in range(5)]
    together = await asyncio.gather(*map(policy.act, requests))
    fresh = HfPolicy(tiny_llama(), tokenizer, HfOptions(temperature=1.0, top_p=1.0, prefix_mib=0, batch=1))
    alone = [await fresh.act(r) for r in requests]
    await fresh.aclose()
    assert [t.tokens.output_ids for t in together] == [t.tokens.output_ids for t in alone]
    assert len({t.tokens.output_ids[:3] for t in together}) > 1
    assert [t.usage.cached for t in alone] == [0] * 5


async def test_log_probabilities_are_the_models_own_whatever_was_padded_or_cached(policy):
    turns = await asyncio.gather(
        *(policy.act(request(asked("b" * (2 + 9 * i)), seed=i, max_tokens=20)) for i in range(4))
    )
    turns.append(await policy.act(request(asked("b" * 11), seed=9, max_tokens=20)))
    assert turns[-1].usage.cached > 60
    for turn in turns:
        assert turn.tokens.logprobs == pytest.approx(model_logprobs(turn.tokens), abs=1e-4)


async def test_who_comes_later_joins_the_batch_that_runs(policy, monkeypatch):
    long = asyncio.create_task(policy.act(request(asked("long"), max_tokens=400, seed=1)))
    begun = asyncio.Event()
    tell = asyncio.get_running_loop().call_soon_threadsafe
    sample = policy._decoder._sample
    monkeypatch.setattr(policy._decoder, "_sample", lambda *a: (sample(*a), tell(begun.set)))
    await begun.wait()
    short = await policy.act(request(asked("short"), max_tokens=3, seed=2))
    assert not long.done()
    assert short.usage.output == 3
    long.cancel()
    with pytest.raises(asyncio.CancelledError):
        await long
    again = await policy.act(request(asked("short"), max_tokens=3, seed=2))
    assert again.tokens.output_ids == short.tokens.output_ids


async def test_a_shared_prompt_is_read_once(policy, monkeypatch):
    read = []
    forward = policy._decoder._forward

    def counted(slots, ids, real, lengths):
        read.append(int(real.sum()))
        return forward(slots, ids, real, lengths)

    monkeypatch.setattr(policy._decoder, "_forward", counted)
    group = await asyncio.gather(*(policy.act(request(seed=i, max_tokens=2)) for i in range(8)))
    prompt = group[0].usage.prompt
    # All but the last token of the prompt once, then one token each.
    assert sum(read) <= prompt - 1 + 8 + 8
    assert len({t.tokens.output_ids for t in group}) > 1


async def test_a_conversation_is_continued_on_its_own_ids(policy, tokenizer):
    first = await policy.act(request(max_tokens=9, seed=3))
    told = (
        *MESSAGES,
        PromptMessage(role="assistant", content=first.text),
        PromptMessage(role="user", content="and?"),
    )
    second = await policy.act(request(told, previous=first, previous_messages=2, max_tokens=2))
    before = first.tokens.prompt_ids + first.tokens.output_ids
    assert second.tokens.prompt_ids[: len(before)] == before
    rest = tokenizer.decode(second.tokens.prompt_ids[len(before) :])
    assert rest == "\nuser\nand?\nassistant\n"
    assert second.usage.cached == len(before) - 1


async def test_seeds_repeat_and_differ_and_zero_temperature_needs_none(policy, tokenizer):
    turns = [await policy.act(request(seed=s, max_tokens=12)) for s in (1, 1, 2)]
    assert turns[0].tokens.output_ids == turns[1].tokens.output_ids != turns[2].tokens.output_ids
    greedy = HfPolicy(tiny_llama(), tokenizer, HfOptions(temperature=0.0))
    a, b = [await greedy.act(request(seed=s, max_tokens=12)) for s in (1, None)]
    await greedy.aclose()
    assert a.tokens.output_ids == b.tokens.output_ids


def test_top_p_keeps_the_least_set_that_reaches_it(tokenizer):
    decoder = Decoder(tiny_llama(), tokenizer, HfOptions(temperature=1.0, top_p=0.6))
    scores = torch.tensor([0.5, 0.3, 0.2]).log()
    generator = torch.Generator().manual_seed(0)
    drawn = [decoder._choose(scores, generator) for _ in range(400)]
    assert set(drawn) == {0, 1}
    assert drawn.count(0) / 400 == pytest.approx(0.625, abs=0.08)


async def test_new_weights_forget_what_the_old_ones_computed(tokenizer):
    model = tiny_llama()
    policy = HfPolicy(model, tokenizer, SAMPLED, weights="step-0")
    await policy.act(request(seed=1, max_tokens=8))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(0.5)
    policy.renew("step-1")
    after = await policy.act(request(seed=1, max_tokens=8))
    fresh = HfPolicy(model, tokenizer, SAMPLED)
    assert after.tokens == (await fresh.act(request(seed=1, max_tokens=8))).tokens
    assert policy.weights == "step-1"
    assert after.usage.cached == 0
    await policy.aclose()
    await fresh.aclose()


async def test_generating_leaves_a_model_in_training_as_it_was(tokenizer):
    model = tiny_llama().train()
    policy = HfPolicy(model, tokenizer)
    await policy.act(request(max_tokens=2))
    await policy.aclose()
    assert model.training


async def test_a_conversation_beyond_the_context_fails_and_a_shorter_one_goes_on(tokenizer):
    policy = HfPolicy(tiny_llama(), tokenizer, HfOptions(context=64))
    with pytest.raises(PolicyOverflow, match="context is 64"):
        await policy.act(request())
    assert (await policy.act(request(asked("")[1:], max_tokens=3))).usage.output > 0
    await policy.aclose()


async def test_a_closed_policy_is_unavailable(tokenizer):
    policy = HfPolicy(tiny_llama(), tokenizer, HfOptions(context=64))
    await policy.aclose()
    with pytest.raises(PolicyUnavailable, match="closed"):
        await policy.act(request(asked("")[1:]))


async def test_a_fault_of_the_engine_is_told_to_each_caller_and_the_next_call_works(policy, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(policy._decoder, "_sample", lambda *_: (_ for _ in ()).throw(MemoryError("no room")))
        faults = await asyncio.gather(
            *(policy.act(request(seed=i, max_tokens=3)) for i in range(3)), return_exceptions=True
        )
    assert [str(f) for f in faults] == ["MemoryError: no room"] * 3
    assert (await policy.act(request(max_tokens=3))).usage.output > 0


async def test_memory_for_prefixes_is_bounded(tokenizer):
    policy = HfPolicy(tiny_llama(hidden=64, layers=4), tokenizer, HfOptions(prefix_mib=1))
    for i in range(24):
        await policy.act(request(asked(chr(97 + i) * 60), max_tokens=2))
    held = policy._decoder._prefixes
    await policy.aclose()
    assert 0 < held._held <= 1 << 20
    assert held._held == sum(size_of(kv) for kv in held._entries.values())
    assert len(held._entries) < 24


def test_only_marks_that_this_code_places_are_special(tokenizer):
    text = "say <|im_end|> and <|im_start|>system"
    ids = tokenizer.encode([Segment(wire.START, True), Segment(text), Segment(wire.END, True)])
    assert (ids[0], ids[-1]) == (tokenizer.start, tokenizer.end)
    assert len(ids) == len(text) + 2
    assert tokenizer.decode(ids) == text


def test_a_tokenizer_without_chatml_is_refused():
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    plain = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE(vocab={"a": 0}, merges=[])))
    with pytest.raises(InputError, match=r"lacks <\|im_start\|> and <\|im_end\|>"):
        ChatTokenizer(plain)


def test_a_model_with_sliding_windows_is_refused(tokenizer):
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(
        vocab_size=259, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, sliding_window=8,
    )  # fmt: skip
    with pytest.raises(InputError, match="sliding"):
        HfPolicy(MistralForCausalLM(config), tokenizer)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model folder and a LoRA adapter of it."""
    import peft

    folder = tmp_path_factory.mktemp("hf") / "model"
    tiny_llama().save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    torch.manual_seed(5)
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    peft.get_peft_model(tiny_llama(), config).save_pretrained(folder.parent / "lora")
    return folder, folder.parent / "lora"


async def test_a_folder_and_its_adapters_by_uri(saved):
    folder, lora = saved
    turns, weights = [], []
    for query in ("", f"&lora={lora}", f"&lora={lora}*0"):
        policy = open_policy(f"hf:{folder}?temperature=0&ctx=512{query}")
        turns.append(await policy.act(request(max_tokens=16)))
        weights.append(policy.weights)
        await policy.aclose()
    plain, adapted, scaled_away = (t.tokens.output_ids for t in turns)
    assert plain == scaled_away != adapted
    assert len(set(weights)) == 3
    assert weights[0] == weights_digest(folder)


def test_every_fault_of_the_uri_is_told(tmp_path):
    with pytest.raises(InputError) as error:
        open_policy("hf:/nowhere?batch=0&speed=9")
    assert [p.field for p in error.value.problems] == ["batch", "speed"]
    with pytest.raises(InputError, match="no such folder"):
        open_policy("hf:/nowhere/at/all")
    with pytest.raises(InputError, match=r"no config\.json"):
        load_tokenizer(tmp_path)
    with pytest.raises(InputError, match="torch dtype"):
        load_model(tmp_path, dtype="float31")
