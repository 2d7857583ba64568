"""Reads the metadata of a GGUF file: what the engine does not tell about the model it has loaded.

Only the header is read, never the tensors. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
(version 2 and 3, little endian). Token bytes are known for byte-level BPE vocabularies ("gpt2") alone.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from livery.errors import InputError

_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Token texts by id, and what bytes an ordinary token stands for."""

    tokens: tuple[str, ...]
    bytes_of: tuple[bytes, ...]
    """Empty for control tokens, and throughout when the vocabulary is not byte-level BPE."""
    ids_of: dict[bytes, int]

    def special(self, text: str) -> int | None:
        """Id of the token whose text is exactly this."""
        return self.tokens.index(text) if text in self.tokens else None

    def fill(self, text: bytes, count: int) -> tuple[int, ...] | None:
        """The ``count`` ids whose bytes join to ``text``, were no whole character may stand at a token's end.

        A server that streams text holds back tokens until they make whole characters, and tells only the last
        token's id. None when there is no such sequence, or more than one: then what was sampled is not known.
        """
        found: list[tuple[int, ...]] = []

        def walk(at: int, ids: tuple[int, ...]) -> None:
            if len(ids) == count:
                if at == len(text):
                    found.append(ids)
                return
            for end in range(at + 1, len(text) - (count - len(ids) - 1) + 1):
                token = self.ids_of.get(text[at:end])
                if token is not None and not _whole(text[:end]):
                    walk(end, (*ids, token))

        walk(0, ())
        return found[0] if len(found) == 1 else None


def _whole(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class GgufHeader:
    fields: dict[str, Any]

    @property
    def context_length(self) -> int:
        """Tokens the model was trained to read; 0 when the file does not say."""
        return int(self.fields.get(f"{self.fields.get('general.architecture', '')}.context_length", 0))

    @property
    def chat_template(self) -> str:
        return str(self.fields.get("tokenizer.chat_template", ""))

    def vocabulary(self) -> Vocabulary:
        tokens: list[str] = self.fields.get("tokenizer.ggml.tokens", [])
        kinds: list[int] = self.fields.get("tokenizer.ggml.token_type", [])
        if self.fields.get("tokenizer.ggml.model") != "gpt2" or len(kinds) != len(tokens):
            return Vocabulary(tuple(tokens), (b"",) * len(tokens), {})
        byte_of = _byte_alphabet()
        normal = 1
        spelled = tuple(
            bytes(byte_of.get(c, 0) for c in text) if kind == normal and all(c in byte_of for c in text) else b""
            for text, kind in zip(tokens, kinds, strict=True)
        )
        return Vocabulary(tuple(tokens), spelled, {b: i for i, b in enumerate(spelled) if b})


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in of each byte: Latin-1's visible characters are themselves, the rest follow
    U+0100."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [b for b in range(256) if b not in visible]
    return {chr(b): b for b in visible} | {chr(0x100 + i): b for i, b in enumerate(hidden)}


def read_header(path: Path) -> GgufHeader:
    """Read the metadata of ``path``.

    Raises:
        InputError: not a GGUF file of version 2 or 3, or cut off.
    """
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise InputError.at(path, "expected a GGUF model file (it does not begin with 'GGUF')", code="gguf-magic")
        try:
            version, _, fields = struct.unpack("<IQQ", file.read(20))
            if version not in (2, 3):
                raise InputError.at(path, f"GGUF version {version}; expected 2 or 3", code="gguf-version")
            return GgufHeader({_string(file): _value(file, _u32(file)) for _ in range(fields)})
        except (struct.error, KeyError, UnicodeDecodeError) as error:
            raise InputError.at(path, f"the GGUF header cannot be read ({error})", code="gguf-header") from error


def _u32(file: BinaryIO) -> int:
    return struct.unpack("<I", file.read(4))[0]


def _u64(file: BinaryIO) -> int:
    return struct.unpack("<Q", file.read(8))[0]


def _string(file: BinaryIO) -> str:
    return file.read(_u64(file)).decode()


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        inner, length = _u32(file), _u64(file)
        if inner in _SCALARS:
            form = f"<{length}{_SCALARS[inner][1]}"
            return list(struct.unpack(form, file.read(struct.calcsize(form))))
        return [_value(file, inner) for _ in range(length)]
    form = _SCALARS[kind]
    return struct.unpack(form, file.read(struct.calcsize(form)))[0]
