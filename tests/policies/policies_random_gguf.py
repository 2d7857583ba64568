"""A random Llama of some thousand weights, written as a GGUF without torch or the gguf package, and an engine's
conversation with it. Not a test module."""

import struct

import numpy as np

MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGE = "ab"
"""llama.cpp wants at least one merge."""
WIDTH, INNER, HEADS, LAYERS = 32, 64, 4, 2

_U32, _F32, _BOOL, _STRING, _ARRAY, _I32 = 4, 6, 7, 8, 9, 5


def byte_letters():
    """The printable letter of each byte, as byte-level BPE vocabularies spell it."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(rest)}


def _text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def _field(name, kind, value):
    packed = {
        _U32: lambda v: struct.pack("<I", v),
        _F32: lambda v: struct.pack("<f", v),
        _BOOL: lambda v: struct.pack("<?", v),
        _STRING: _text,
    }
    return _text(name) + struct.pack("<I", kind) + packed[kind](value)


def _array(name, kind, values):
    body = b"".join(_text(v) if kind == _STRING else struct.pack("<i", v) for v in values)
    return _text(name) + struct.pack("<IIQ", _ARRAY, kind, len(values)) + body


def write_random_gguf(path, *, seed=0, context=2048):
    """Weights of ``seed``; every byte is a token, after the ChatML marks. Returns ``path``."""
    rng = np.random.default_rng(seed)
    tokens = [*MARKS, *byte_letters().values(), MERGE]
    shapes = {"token_embd": (len(tokens), WIDTH), "output_norm": (WIDTH,)}
    for layer in range(LAYERS):
        square = {f"attn_{part}": (WIDTH, WIDTH) for part in ("q", "k", "v", "output")}
        ffn = {"ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}
        norms = {"attn_norm": (WIDTH,), "ffn_norm": (WIDTH,)}
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in (square | ffn | norms).items()}
    fields = [
        _field("general.architecture", _STRING, "llama"),
        _field("general.name", _STRING, "random"),
        _field("llama.block_count", _U32, LAYERS),
        _field("llama.context_length", _U32, context),
        _field("llama.embedding_length", _U32, WIDTH),
        _field("llama.feed_forward_length", _U32, INNER),
        _field("llama.attention.head_count", _U32, HEADS),
        _field("llama.attention.head_count_kv", _U32, HEADS),
        _field("llama.attention.layer_norm_rms_epsilon", _F32, 1e-5),
        _field("llama.rope.dimension_count", _U32, WIDTH // HEADS),
        _field("llama.rope.freq_base", _F32, 10000.0),
        _field("tokenizer.ggml.model", _STRING, "gpt2"),
        _field("tokenizer.ggml.pre", _STRING, "smollm"),
        _array("tokenizer.ggml.tokens", _STRING, tokens),
        _array("tokenizer.ggml.token_type", _I32, [3] * len(MARKS) + [1] * (len(tokens) - len(MARKS))),
        _array("tokenizer.ggml.merges", _STRING, [" ".join(MERGE)]),
        _field("tokenizer.ggml.bos_token_id", _U32, 1),
        _field("tokenizer.ggml.eos_token_id", _U32, 2),
        _field("tokenizer.ggml.add_bos_token", _BOOL, False),
    ]
    infos, data = b"", b""
    for name, shape in shapes.items():
        size = 1.0 if name == "token_embd" else 0.6
        weights = np.ones(shape) if "norm" in name else rng.normal(size=shape) * size / np.sqrt(WIDTH)
        infos += _text(f"{name}.weight") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], 0, len(data))
        data += weights.astype("<f4").tobytes()
        data += b"\0" * (-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(fields)) + b"".join(fields) + infos
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)
    return path
