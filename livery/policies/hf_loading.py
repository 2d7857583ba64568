"""Transformers models and tokenizers, loaded so that livery may rely on them.

`ChatTokenizer` turns the segments of `livery.policies.wire` into ids: only segments marked ``control`` become
special tokens, whatever stands in the text. `load_model` and `load_tokenizer` take a folder in the
transformers layout, a name on the model hub, a GGUF file, or nothing, which is the embedded model. Needs the
``training`` extra (torch, transformers); nothing else in livery does.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from livery.errors import InputError
from livery.policies.model_file import ensure_model, sha256_of
from livery.policies.wire import END, START, Segment

EXTRA = "livery[training]"


def needed(*modules: str) -> None:
    """Say which extra to install where one of ``modules`` is not there.

    Raises:
        InputError: a module is missing.
    """
    missing = [m for m in modules if find_spec(m) is None]
    if missing:
        raise InputError.at(
            ", ".join(missing),
            f"not installed; expected the training extra: pip install '{EXTRA}'",
            code="extra",
        )


class ChatTokenizer:
    """A tokenizer with the two ChatML marks, and the only way by which livery's training code makes ids."""

    def __init__(self, tokenizer: Any, *, source: str = "") -> None:
        """
        Args:
            tokenizer: a fast tokenizer of transformers.
            source: where it came from, for errors and cards.

        Raises:
            InputError: it has no ``<|im_start|>`` or ``<|im_end|>``.
        """
        self.tokenizer = tokenizer
        self.source = source
        known: dict[str, int] = tokenizer.get_added_vocab()
        lacking = [mark for mark in (START, END) if mark not in known]
        if lacking or not getattr(tokenizer, "is_fast", False):
            raise InputError.at(
                source or "tokenizer",
                f"expected a fast tokenizer with the special tokens {START} and {END}; lacks "
                f"{' and '.join(lacking) or 'the fast form'}",
                code="tokenizer-not-chatml",
            )
        self.start = known[START]
        self.end = known[END]
        eos: int | None = tokenizer.eos_token_id
        ends = (self.end, eos, known.get("<|endoftext|>"))
        self.ends = frozenset(i for i in ends if i is not None)
        """Ids that end a turn."""
        pad: int | None = tokenizer.pad_token_id
        self.pad = pad if pad is not None else self.end
        self._plain = lru_cache(maxsize=8192)(self._encode_plain)

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over the tokenizer's whole definition: equal digests give equal ids."""
        return hashlib.sha256(self.tokenizer.backend_tokenizer.to_str().encode()).hexdigest()[:16]

    def encode(self, segments: Iterable[Segment]) -> tuple[int, ...]:
        """Token ids. Text between two special tokens is one piece, as in a model's own training."""
        out: list[int] = []
        text = ""
        for segment in (*segments, Segment("", True)):
            if not segment.control:
                text += segment.text
                continue
            if text:
                out += self._plain(text)
                text = ""
            if segment.text:
                out.append(self.start if segment.text == START else self.end)
        return tuple(out)

    def _encode_plain(self, text: str) -> tuple[int, ...]:
        encoded = self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)
        return tuple(encoded["input_ids"])

    def closing(self, ids: Sequence[int]) -> tuple[Segment, ...]:
        """What must follow an assistant's sampled ids before the next message."""
        return (Segment("\n"),) if ids and ids[-1] == self.end else (Segment(END, True), Segment("\n"))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, without special tokens, otherwise byte for byte."""
        return self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)


def _named(source: str | Path) -> tuple[str, dict[str, Any]]:
    """(what from_pretrained takes, its further arguments)."""
    text = str(source)
    path = Path(text).expanduser() if text else ensure_model()
    if path.suffix == ".gguf":
        if not path.is_file():
            raise InputError.at(path, "no such file; expected a GGUF model", code="model-missing")
        needed("gguf")
        return str(path.parent), {"gguf_file": path.name}
    if path.exists() and not (path / "config.json").is_file() and not (path / "tokenizer.json").is_file():
        raise InputError.at(
            path,
            "no config.json in it; expected a transformers model folder or a GGUF file",
            code="model-missing",
        )
    if not path.exists() and (text.startswith((".", "/", "~")) or text.count("/") > 1):
        raise InputError.at(path, "no such folder; expected a transformers model folder", code="model-missing")
    return (str(path) if path.exists() else text), {}


def load_tokenizer(source: str | Path = "") -> ChatTokenizer:
    """
    Args:
        source: a folder, a hub name, a GGUF file; empty: the embedded model's.

    Raises:
        InputError: nothing there, or not a ChatML tokenizer.
    """
    needed("transformers")
    transformers: Any = importlib.import_module("transformers")
    name, more = _named(source)
    return ChatTokenizer(transformers.AutoTokenizer.from_pretrained(name, **more), source=str(source) or "embedded")


def load_model(
    source: str | Path = "",
    *,
    dtype: str = "float32",
    device: str = "cpu",
    adapters: Sequence[tuple[Path, float]] = (),
) -> Any:
    """A causal language model, ready to run or to train.

    A GGUF's weights are dequantised and put into a model of their own, so that it can be trained and saved.

    Args:
        source: as for `load_tokenizer`.
        dtype: a name torch knows: "float32", "bfloat16".
        device: "cpu", "cuda", "cuda:1", "mps".
        adapters: LoRA folders (peft) or GGUF adapters with their scales; all are merged into the weights, in order.

    Raises:
        InputError: nothing there, or torch knows no such dtype.
    """
    needed("torch", "transformers")
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise InputError.at(dtype, "expected a torch dtype, such as float32 or bfloat16", field="dtype", code="dtype")
    name, more = _named(source)
    model = transformers.AutoModelForCausalLM.from_pretrained(name, dtype=kind, **more)
    if more:
        model = _fresh(model, kind)
    for folder, scale in adapters:
        model = _merged(model, folder, scale)
    return model.to(device)


def _fresh(model: Any, dtype: Any) -> Any:
    config = model.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    fresh = type(model)(config).to(dtype)
    fresh.load_state_dict(model.state_dict())
    fresh.tie_weights()
    fresh.generation_config = model.generation_config
    return fresh


def _merged(model: Any, folder: Path, scale: float) -> Any:
    if folder.suffix == ".gguf":
        from livery.policies.lora_gguf import merge_into

        merge_into(model, folder, scale)
        return model
    needed("peft")
    if not (folder / "adapter_config.json").is_file():
        raise InputError.at(
            folder, "no adapter_config.json in it; expected a LoRA adapter of peft, or one as .gguf", code="lora"
        )
    peft: Any = importlib.import_module("peft")
    wrapped = peft.PeftModel.from_pretrained(model, str(folder))
    for module in wrapped.modules():
        scaling: Any = getattr(module, "scaling", None)
        if isinstance(scaling, dict):
            for key in list(scaling):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
                scaling[key] *= scale
    return wrapped.merge_and_unload()


def partial_layers(model: Any) -> str:
    """The kinds of a model's layers that do not attend to all that stands before; empty if there are none."""
    config = model.config.get_text_config()
    kinds: Sequence[str] = getattr(config, "layer_types", None) or ()
    odd = sorted({str(kind) for kind in kinds} - {"full_attention"})
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    if not kinds and window:
        odd = ["sliding_attention"]
    return ", ".join(odd)


def weights_digest(source: str | Path = "", adapters: Sequence[tuple[Path, float]] = ()) -> str:
    """16 hexadecimal digits over the weight files (and the adapters with their scales); a hub name stands for
    itself. One file alone has the digits that ``llamacpp:`` gives it."""
    path = Path(str(source)).expanduser() if str(source) else ensure_model()
    if path.is_file() and not adapters:
        return sha256_of(path)[:16]
    parts = [_files_digest(path) if path.exists() else str(source)]
    parts += [f"{_files_digest(folder)}*{scale:g}" for folder, scale in adapters]
    return hashlib.sha256("+".join(parts).encode()).hexdigest()[:16]


def _files_digest(path: Path) -> str:
    if path.is_file():
        return sha256_of(path)
    files = sorted(f for f in path.iterdir() if f.suffix in (".safetensors", ".bin", ".gguf"))
    return "+".join(f"{f.name}:{sha256_of(f)}" for f in files)
