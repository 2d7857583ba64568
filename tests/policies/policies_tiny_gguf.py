"""The random Llama of `policies_tiny_model` as a GGUF that llama.cpp loads, and adapters for it. Not a test module;
needs torch and gguf."""

import gguf
import numpy as np
import torch
from policies_tiny_model import MARKS, tiny_llama
from tokenizers import pre_tokenizers

from livery.policies import lora_gguf

LAYERS, HIDDEN, HEADS, KV_HEADS = 2, 32, 4, 2
TWO = "ab"
"""llama.cpp wants at least one merge."""


def gguf_llama(seed=0):
    """Large enough for llama.cpp's kernels."""
    return tiny_llama(seed, vocabulary=260, hidden=HIDDEN, layers=LAYERS, heads=HEADS, kv_heads=KV_HEADS)


def write_gguf(model, path):
    config = model.config
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_type("model")
    writer.add_name("tiny")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(512)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*MARKS, *alphabet, TWO])
    writer.add_token_types([3] * len(MARKS) + [1] * (len(alphabet) + 1))
    writer.add_token_merges([" ".join(TWO)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    state = {name: tensor.detach().float().numpy() for name, tensor in model.state_dict().items()}
    writer.add_tensor("token_embd.weight", state["model.embed_tokens.weight"])
    writer.add_tensor("output_norm.weight", state["model.norm.weight"])
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for layer in range(config.num_hidden_layers):
        mine = f"model.layers.{layer}."
        writer.add_tensor(f"blk.{layer}.attn_norm.weight", state[mine + "input_layernorm.weight"])
        writer.add_tensor(f"blk.{layer}.ffn_norm.weight", state[mine + "post_attention_layernorm.weight"])
        for module, short in lora_gguf.MODULES.items():
            weight = state[f"{mine}{module}.weight"]
            if short in heads:  # rows in llama.cpp's order, spelled out
                weight = weight[interleaved(len(weight), heads[short])]
            writer.add_tensor(f"blk.{layer}.{short}.weight", np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def interleaved(rows, heads):
    """Which of transformers' rows stands at each place in llama.cpp's order."""
    size = rows // heads
    return [h * size + half * size // 2 + i for h in range(heads) for i in range(size // 2) for half in (0, 1)]


def random_lora(shape, *, seed=0, rank=4, alpha=8.0, size=0.1, modules=tuple(lora_gguf.MODULES)):
    """An adapter whose every matrix changes the base's by about ``size`` a weight, over the root of its columns."""
    rng = np.random.default_rng(seed)
    pairs = {}
    for layer in range(shape.layers):
        for module in modules:
            rows, columns = shape.matrix(module)
            a = rng.normal(size=(rank, columns)) / np.sqrt(columns)
            b = rng.normal(size=(rows, rank)) * size * np.sqrt(rank) / alpha
            pairs[layer, module] = lora_gguf.Pair(a.astype(np.float32), b.astype(np.float32))
    return lora_gguf.Lora(alpha=alpha, pairs=pairs)


def next_logprobs(engine, ids, count):
    """The ``count`` likeliest next tokens and their log-probabilities, as llama.cpp has them."""
    import threading

    seen = {}

    def read(event):
        for choice in event.get("choices", ()):
            for entry in (choice.get("logprobs") or {}).get("content") or ():
                seen.update({int(top["id"]): float(top["logprob"]) for top in entry["top_logprobs"]})

    engine.generate(tuple(ids), threading.Event(), on_chunk=read, n_predict=1, n_probs=count, temperature=0)
    return seen


def model_logprobs(model, ids):
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([list(ids)])).logits[0, -1].float(), -1)
