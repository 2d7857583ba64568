"""A random Llama of a few thousand weights and a tokenizer of single bytes. Not a test module; needs
torch."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from livery.policies.hf_loading import ChatTokenizer

MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_tokenizer():
    """One token a byte, and the ChatML marks."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {**{mark: i for i, mark in enumerate(MARKS)}, **{c: 3 + i for i, c in enumerate(alphabet)}}
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token=MARKS[2], pad_token=MARKS[0], additional_special_tokens=MARKS[1:]
    )


def chat_tokenizer():
    return ChatTokenizer(byte_tokenizer(), source="bytes")


def tiny_llama(seed=0, *, vocabulary=259, hidden=16, layers=2, heads=4, kv_heads=2, **more):
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        initializer_range=0.3,
        **more,
    )
    return LlamaForCausalLM(config)
