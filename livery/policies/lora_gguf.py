"""LoRA adapters between peft's folders, llama.cpp's GGUF and transformers' weights: what an adapter is, and reading it.
Writing is `livery.policies.gguf_writing`.

llama.cpp stores the query and key rows of the Llama architecture in another order than transformers does (its
rotary embedding turns neighbouring pairs of a head, transformers' the two halves), so ``lora_b`` of ``attn_q`` and
``attn_k`` is put into that order on the way out and back again on the way in. The file's form is that of llama.cpp's
adapters: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, ``general.type`` adapter, ``adapter.type`` lora.

Not here: other architectures than Llama, DoRA, adapters of embeddings or biases: they are refused, by name. Needs the
``training`` extra (gguf; torch and safetensors to read a peft folder).
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from livery.errors import InputError, Problem
from livery.policies.gguf import read_header
from livery.policies.hf_loading import needed

Floats = NDArray[np.float32]

ARCHITECTURE: Final = "llama"
BASE_KEY: Final = "livery.base_sha256"
"""The field in an adapter's header that names the base it was exported over."""
MODULES: Final[Mapping[str, str]] = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""Names of a layer's matrices in transformers, and in GGUF."""

_PEFT = re.compile(r"base_model\.model\.model\.layers\.(\d+)\.([\w.]+)\.lora_([AB])\.weight")


@dataclass(frozen=True, slots=True)
class Pair:
    """One matrix's adapter, rows as transformers has them: W + alpha / rank * b @ a."""

    a: Floats
    """(rank, columns)."""
    b: Floats
    """(rows, rank)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """An adapter of a Llama model."""

    alpha: float
    pairs: Mapping[tuple[int, str], Pair]
    """By layer and name in transformers, such as ``self_attn.q_proj``."""
    base_sha256: str = ""
    """Of the GGUF it belongs to; empty where it is not known."""

    def delta(self, layer: int, module: str) -> Floats:
        """What is added to the matrix, (rows, columns)."""
        pair = self.pairs[layer, module]
        return (pair.b @ pair.a) * np.float32(self.alpha / len(pair.a))


@dataclass(frozen=True, slots=True)
class Shape:
    """What a base says of itself, as far as an adapter must fit it."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    feed_forward: int
    head: int

    @classmethod
    def of(cls, base: Path) -> Shape:
        """
        Raises:
            InputError: no GGUF of the Llama architecture.
        """
        fields = read_header(base).fields
        found = fields.get("general.architecture")
        if found != ARCHITECTURE:
            raise InputError.at(
                base,
                f"found architecture {found!r}; expected {ARCHITECTURE}",
                field="general.architecture",
                code="arch",
            )
        heads, hidden = int(fields["llama.attention.head_count"]), int(fields["llama.embedding_length"])
        return cls(
            layers=int(fields["llama.block_count"]),
            hidden=hidden,
            heads=heads,
            kv_heads=int(fields.get("llama.attention.head_count_kv", heads)),
            feed_forward=int(fields["llama.feed_forward_length"]),
            head=int(fields.get("llama.attention.key_length", hidden // heads)),
        )

    def matrix(self, module: str) -> tuple[int, int]:
        """(rows, columns) of a layer's matrix."""
        queries, keys = self.heads * self.head, self.kv_heads * self.head
        return {
            "attn_q": (queries, self.hidden),
            "attn_k": (keys, self.hidden),
            "attn_v": (keys, self.hidden),
            "attn_output": (self.hidden, queries),
            "ffn_gate": (self.feed_forward, self.hidden),
            "ffn_up": (self.feed_forward, self.hidden),
            "ffn_down": (self.hidden, self.feed_forward),
        }[MODULES[module]]

    def rotated_heads(self, module: str) -> int:
        """How many heads a matrix's rows make whose order differs between the two; 0: none does."""
        return {"attn_q": self.heads, "attn_k": self.kv_heads}.get(MODULES[module], 0)


def to_gguf_rows(matrix: Floats, heads: int) -> Floats:
    """Rows from transformers' order to llama.cpp's: in each head, row i of the first half and row i of the second
    come to stand together. ``heads`` 0 leaves all as it is."""
    if not heads:
        return matrix
    halves = matrix.reshape(heads, 2, -1, matrix.shape[1])
    return np.ascontiguousarray(halves.transpose(0, 2, 1, 3).reshape(matrix.shape))


def from_gguf_rows(matrix: Floats, heads: int) -> Floats:
    """The inverse of `to_gguf_rows`."""
    if not heads:
        return matrix
    pairs = matrix.reshape(heads, -1, 2, matrix.shape[1])
    return np.ascontiguousarray(pairs.transpose(0, 2, 1, 3).reshape(matrix.shape))


# ---------------------------------------------------------------------------------------------- reading


def read_peft(folder: Path) -> Lora:
    """The adapter of a peft folder, as ``livery train sft`` leaves it in ``model``.

    Raises:
        InputError: a file is missing, or the adapter holds what llama.cpp's form has no place for.
    """
    config_file, weights = folder / "adapter_config.json", folder / "adapter_model.safetensors"
    for file in (config_file, weights):
        if not file.is_file():
            raise InputError.at(file, "no such file; expected a LoRA adapter of peft", code="lora")
    try:
        config: dict[str, Any] = json.loads(config_file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InputError.at(config_file, f"no JSON ({error})", code="lora") from error
    _plain(config_file, config)
    needed("torch", "safetensors")
    loaded: dict[str, Any] = importlib.import_module("safetensors.torch").load_file(str(weights))
    halves: dict[tuple[int, str], dict[str, Floats]] = {}
    problems: list[Problem] = []
    for name, tensor in loaded.items():
        match = _PEFT.fullmatch(name)
        if match is None or match[2] not in MODULES:
            message = f"expected adapters of {', '.join(MODULES)} alone"
            problems.append(Problem(path=str(weights), field=name, message=message, code="lora-module"))
            continue
        halves.setdefault((int(match[1]), match[2]), {})[match[3]] = tensor.float().numpy()
    if problems:
        raise InputError(problems)
    return _lora(weights, halves, alpha=float(config["lora_alpha"]), root=bool(config.get("use_rslora")))


def _plain(path: Path, config: Mapping[str, Any]) -> None:
    """Refuse what the form has no place for."""
    expected: dict[str, tuple[Any, ...]] = {
        "peft_type": ("LORA",),
        "use_dora": (None, False),
        "bias": (None, "none"),
        "lora_bias": (None, False),
        "modules_to_save": (None, []),
        "alpha_pattern": (None, {}),
        "fan_in_fan_out": (None, False),
    }
    problems = [
        Problem(path=str(path), field=name, message=f"found {config.get(name)!r}; expected {among[-1]!r}", code="lora")
        for name, among in expected.items()
        if config.get(name) not in among
    ]
    if not isinstance(config.get("lora_alpha"), int | float):
        found = config.get("lora_alpha")
        problems.append(
            Problem(path=str(path), field="lora_alpha", message=f"found {found!r}; expected a number", code="lora")
        )
    if problems:
        raise InputError(problems)


def _lora(
    path: Path,
    halves: Mapping[tuple[int, str], Mapping[str, Floats]],
    *,
    alpha: float,
    root: bool = False,
    base: str = "",
) -> Lora:
    """
    Args:
        root: scaled by alpha over the root of the rank (rsLoRA): put into b, for the form knows one scale.
    """
    pairs: dict[tuple[int, str], Pair] = {}
    for (layer, module), half in sorted(halves.items()):
        if set(half) != {"A", "B"} or half["A"].shape[0] != half["B"].shape[1]:
            shapes = {name: tensor.shape for name, tensor in half.items()}
            message = f"found {shapes}; expected A (rank, columns) and B (rows, rank)"
            raise InputError.at(path, message, field=f"layers.{layer}.{module}", code="lora-shape")
        scale = np.float32(np.sqrt(len(half["A"])) if root else 1.0)
        pairs[layer, module] = Pair(a=half["A"], b=half["B"] * scale)
    if not pairs:
        raise InputError.at(path, "no adapter in it", code="lora")
    return Lora(alpha=alpha, pairs=pairs, base_sha256=base)


def read_lora(path: Path, shape: Shape) -> Lora:
    """A GGUF adapter, its rows in transformers' order.

    Args:
        shape: of the base it is for.

    Raises:
        InputError: no GGUF adapter, of another architecture, or not of the base's shape.
    """
    fields = adapter_header(path)
    gguf = gguf_package()
    halves: dict[tuple[int, str], dict[str, Floats]] = {}
    modules = {short: module for module, short in MODULES.items()}
    for tensor in gguf.GGUFReader(str(path)).tensors:
        match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight\.lora_([ab])", tensor.name)
        if match is None or match[2] not in modules:
            raise InputError.at(
                path, f"expected adapters of {', '.join(modules)} alone", field=tensor.name, code="lora"
            )
        values: Floats = gguf.dequantize(tensor.data, tensor.tensor_type)
        module = modules[match[2]]
        if match[3] == "b":
            values = from_gguf_rows(values, shape.rotated_heads(module))
        halves.setdefault((int(match[1]), module), {})[match[3].upper()] = np.array(values, dtype=np.float32)
    alpha = float(fields.get("adapter.lora.alpha", 0.0))
    lora = _lora(path, halves, alpha=alpha, base=str(fields.get(BASE_KEY, "")))
    fits(lora, shape, path)
    return lora


def adapter_header(path: Path) -> Mapping[str, Any]:
    """The metadata of a GGUF LoRA adapter.

    Raises:
        InputError: it is none.
    """
    if not path.is_file():
        raise InputError.at(path, "no such file; expected a GGUF LoRA adapter", code="model-missing")
    fields = read_header(path).fields
    if fields.get("adapter.type") != "lora":
        raise InputError.at(path, "not a LoRA adapter; expected a GGUF of adapter.type lora", code="lora")
    if fields.get("general.architecture") != ARCHITECTURE:
        found = fields.get("general.architecture")
        raise InputError.at(path, f"found architecture {found!r}; expected {ARCHITECTURE}", code="arch")
    return fields


def fits(lora: Lora, shape: Shape, path: Path) -> None:
    """
    Raises:
        InputError: an adapter for a layer or of a form that the base does not have.
    """
    problems: list[Problem] = []
    for (layer, module), pair in lora.pairs.items():
        found, expected = (len(pair.b), pair.a.shape[1]), shape.matrix(module)
        field = f"layers.{layer}.{module}"
        if layer >= shape.layers:
            message = f"the base has {shape.layers} layers"
            problems.append(Problem(path=str(path), field=field, message=message, code="lora-shape"))
        elif found != expected:
            message = f"found {found[0]} by {found[1]}; the base has {expected[0]} by {expected[1]}"
            problems.append(Problem(path=str(path), field=field, message=message, code="lora-shape"))
    if problems:
        raise InputError(problems)


def merge_into(model: Any, path: Path, scale: float = 1.0) -> None:
    """Add a GGUF adapter to a transformers model's weights, in place.

    Args:
        model: a ``LlamaForCausalLM``.

    Raises:
        InputError: no GGUF adapter, or not of the model's shape.
    """
    config = model.config
    shape = Shape(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        feed_forward=config.intermediate_size,
        head=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
    )
    lora = read_lora(path, shape)
    torch: Any = importlib.import_module("torch")
    with torch.no_grad():
        for layer, module in lora.pairs:
            weight = model.get_submodule(f"model.layers.{layer}.{module}").weight
            delta = torch.from_numpy(lora.delta(layer, module) * np.float32(scale))
            weight.add_(delta.to(device=weight.device, dtype=weight.dtype))


def gguf_package() -> Any:
    """The ``gguf`` package, of the training extra."""
    needed("gguf")
    return importlib.import_module("gguf")
