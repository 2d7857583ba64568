"""Writes GGUF files: an adapter that llama.cpp loads over its base, or the base with the adapter in its weights.

Not here: what an adapter is and how rows are ordered (`livery.policies.lora_gguf`). Needs the ``training`` extra
(gguf).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from livery.policies.lora_gguf import (
    ARCHITECTURE,
    BASE_KEY,
    MODULES,
    Floats,
    Lora,
    Shape,
    fits,
    gguf_package,
    to_gguf_rows,
)
from livery.policies.model_file import sha256_of

AdapterType = Literal["f16", "bf16", "f32"]
MergedType = Literal["q8_0", "q4_1", "f16", "bf16", "f32"]

_FILE_TYPES: Final = {"f32": 0, "f16": 1, "q4_1": 3, "q8_0": 7, "bf16": 32}
"""llama.cpp's numbers of ``general.file_type``."""


def write_lora(lora: Lora, base: Path, out: Path, *, kind: AdapterType = "f16", name: str = "livery adapter") -> int:
    """Write an adapter that llama.cpp loads over ``base``. Returns the file's bytes.

    Raises:
        InputError: the adapter does not fit the base.
    """
    shape = Shape.of(base)
    fits(lora, shape, base)
    gguf = gguf_package()

    def fill(writer: Any) -> None:
        writer.add_type("adapter")
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", lora.alpha)
        writer.add_name(name)
        writer.add_string(BASE_KEY, sha256_of(base))
        writer.add_file_type(_FILE_TYPES[kind])
        for (layer, module), pair in lora.pairs.items():
            full = f"blk.{layer}.{MODULES[module]}.weight"
            _add(gguf, writer, f"{full}.lora_a", pair.a, kind)
            _add(gguf, writer, f"{full}.lora_b", to_gguf_rows(pair.b, shape.rotated_heads(module)), kind)

    return _written(gguf, out, fill)


def write_merged(
    lora: Lora, base: Path, out: Path, *, kind: MergedType = "q8_0", name: str = "livery merged model"
) -> int:
    """Write the base with the adapter in its weights: one GGUF that needs no adapter. Returns the file's bytes.

    Matrices are written as ``kind``; the base's own are dequantised first, so what its quantisation lost stays lost.
    Vectors, and matrices that the adapter leaves alone, keep the base's type.

    Raises:
        InputError: the adapter does not fit the base.
    """
    shape = Shape.of(base)
    fits(lora, shape, base)
    gguf = gguf_package()
    reader = gguf.GGUFReader(str(base))
    changed = {f"blk.{layer}.{MODULES[m]}.weight": (layer, m) for layer, m in lora.pairs}

    def fill(writer: Any) -> None:
        _copy_fields(gguf, reader, writer, leave=("general.name", "general.file_type"))
        writer.add_name(name)
        writer.add_string(BASE_KEY, sha256_of(base))
        writer.add_file_type(_FILE_TYPES[kind])
        for tensor in reader.tensors:
            if tensor.name not in changed:
                writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
                continue
            layer, module = changed[tensor.name]
            delta = to_gguf_rows(lora.delta(layer, module), shape.rotated_heads(module))
            weights: Floats = gguf.dequantize(tensor.data, tensor.tensor_type)
            _add(gguf, writer, tensor.name, weights + delta, kind)

    return _written(gguf, out, fill)


def _copy_fields(gguf: Any, reader: Any, writer: Any, *, leave: tuple[str, ...]) -> None:
    own = ("GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.architecture")
    for field in reader.fields.values():
        if field.name in (*own, *leave):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)


def _add(gguf: Any, writer: Any, name: str, values: Floats, kind: str) -> None:
    match kind:
        case "f32":
            writer.add_tensor(name, np.ascontiguousarray(values, dtype=np.float32))
        case "f16":
            writer.add_tensor(name, np.ascontiguousarray(values, dtype=np.float16))
        case _:
            quantised = gguf.GGMLQuantizationType[kind.upper()]
            packed = gguf.quantize(np.ascontiguousarray(values, dtype=np.float32), quantised)
            writer.add_tensor(name, packed, raw_dtype=quantised)


def _written(gguf: Any, out: Path, fill: Callable[[Any], None]) -> int:
    """Write a file as a whole or not at all."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.part")
    writer = gguf.GGUFWriter(str(part), ARCHITECTURE)
    try:
        fill(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return out.stat().st_size
