"""Prompts for on-policy distillation: read from JSON lines or from the model hub, filtered, and rendered as ids.

A prompt is what a person would write to an assistant, without any harness. What is used to measure must not be trained
on: prompts that stand in an excluded file are dropped and counted. A prompt is rendered by the tokenizer's own chat
template, as public benchmarks of instruction following do it, and not in the agent's form
(`livery.policies.wire`). Needs no torch.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from livery.errors import InputError, Problem
from livery.policies import wire
from livery.policies.hf_loading import ChatTokenizer
from livery.policies.model_file import sha256_of
from livery.policies.policy import PromptMessage

_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_FILES = (".jsonl", ".json", ".ndjson")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    texts: tuple[str, ...]
    """In the order of the sources, each once."""
    found: int
    dropped: Mapping[str, int]
    """Reason -> prompts: "excluded", "repeated"."""
    sources: Mapping[str, str]
    """Source's name -> SHA-256 of its file, or of its prompts where it came from the hub."""
    excluded: Mapping[str, str]
    """Excluded file's name -> SHA-256."""


def folded(text: str) -> str:
    """What counts as the same prompt: the text without regard to case, width of characters and white space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def read_prompts(
    sources: Sequence[str], exclude: Sequence[Path] = (), *, load: Callable[[str], Iterable[Any]] | None = None
) -> Prompts:
    """
    Args:
        sources: files of JSON lines, or hub names such as ``allenai/tulu-3-sft-mixture``. A record holds ``prompt``,
            a text, or else ``messages``, whose first of role ``user`` is taken.
        exclude: files of the same form whose prompts must not be trained on.
        load: hub name -> records; by default `datasets.load_dataset` with the train split.

    Raises:
        InputError: a file is missing or not such JSON lines (each fault with file, line and field), a hub name could
            not be loaded, or no prompt is left.
    """
    if not sources:
        raise InputError.at("prompts", "none named; expected a file of JSON lines or a hub name", code="prompts-none")
    barred = {folded(text) for path in exclude for text in _read_file(path)}
    dropped: Counter[str] = Counter({"excluded": 0, "repeated": 0})
    digests: dict[str, str] = {}
    texts: list[str] = []
    seen: set[str] = set()
    found = 0
    for source in sources:
        path = Path(source).expanduser()
        hub = not path.exists() and path.suffix not in _FILES and _HUB_NAME.fullmatch(source) is not None
        read = _read_hub(source, load or _load_from_hub) if hub else _read_file(path)
        name = source if hub else path.name
        digest = _digest(read) if hub else sha256_of(path)
        # Two files of one name in different folders are still two sources.
        digests[name if name not in digests else f"{name} ({len(digests)})"] = digest
        found += len(read)
        for text in read:
            key = folded(text)
            if key in barred:
                dropped["excluded"] += 1
            elif key in seen:
                dropped["repeated"] += 1
            else:
                seen.add(key)
                texts.append(text)
    if not texts:
        raise InputError.at(", ".join(sources), f"no prompt is left of {found}: {dict(dropped)}", code="prompts-none")
    excluded = {path.name: sha256_of(path) for path in exclude}
    return Prompts(texts=tuple(texts), found=found, dropped=dict(dropped), sources=digests, excluded=excluded)


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()


def _read_file(path: Path) -> list[str]:
    if not path.is_file():
        raise InputError.at(path, "no such file; expected JSON lines with `prompt`", code="prompts-missing")
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InputError.at(
            path, f"not UTF-8 ({error.reason} at byte {error.start})", code="prompts-encoding"
        ) from None
    return _texts(str(path), _records(str(path), lines))


def _records(path: str, lines: Sequence[str]) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line)
        except ValueError as error:
            yield number, error


def _texts(where: str, records: Iterable[tuple[int, Any]]) -> list[str]:
    texts: list[str] = []
    problems: list[Problem] = []
    for number, record in records:
        text, field, fault = _text_of(record)
        if fault:
            problems.append(Problem(path=where, line=number, field=field, message=fault, code="prompts-record"))
        else:
            texts.append(text)
    if problems:
        raise InputError(problems)
    return texts


def _text_of(record: Any) -> tuple[str, str, str]:
    """(the prompt, the field at fault, what is wrong with it)."""
    if isinstance(record, ValueError):
        return "", "", f"not JSON ({record}); expected an object with `prompt`"
    if not isinstance(record, dict):
        return "", "", f"found {type(record).__name__}; expected an object with `prompt`"
    fields = cast("dict[str, Any]", record)
    if "prompt" not in fields and isinstance(fields.get("messages"), list):
        messages = [cast("dict[str, Any]", m) for m in cast("list[Any]", fields["messages"]) if isinstance(m, dict)]
        text: Any = next((m.get("content") for m in messages if m.get("role") == "user"), None)
        field, wanted = "messages", "a first message of role user with text"
    else:
        text, field, wanted = fields.get("prompt"), "prompt", "a text that is not empty"
    if isinstance(text, str) and text.strip():
        return text, field, ""
    found = "nothing" if text is None else "an empty text" if isinstance(text, str) else type(text).__name__
    return "", field, f"found {found}; expected {wanted}"


def _load_from_hub(name: str) -> Iterable[Any]:
    datasets: Any = importlib.import_module("datasets")
    return datasets.load_dataset(name, split="train")


def _read_hub(name: str, load: Callable[[str], Iterable[Any]]) -> list[str]:
    try:
        records = load(name)
    except (OSError, ValueError) as error:
        # The hub's own errors (not found, no network, no such split) derive from these.
        raise InputError.at(
            name,
            f"no such file, and the hub gave no data set of this name ({type(error).__name__}: {error}); expected a "
            "file of JSON lines or a name the hub can be asked for",
            code="prompts-hub",
        ) from error
    return _texts(name, enumerate(records, start=1))


# ------------------------------------------------------------------------------------------- as ids


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPrompts:
    ids: tuple[tuple[int, ...], ...]
    """A prompt each, up to where the assistant begins to write."""
    dropped: Mapping[str, int]
    """Reason -> prompts: "marks" (it holds the text of a special token), "long"."""


def render(texts: Iterable[str], tokenizer: ChatTokenizer, *, most_tokens: int) -> RenderedPrompts:
    """Each prompt as the only message of a conversation, by the tokenizer's chat template, with whatever system message
    the template adds of itself. A tokenizer without a template gets plain ChatML.

    Args:
        most_tokens: a longer prompt is dropped.

    Raises:
        InputError: no prompt is left.
    """
    marks = [mark for mark in tokenizer.tokenizer.get_added_vocab() if mark.strip()]
    dropped: Counter[str] = Counter({"marks": 0, "long": 0})
    out: list[tuple[int, ...]] = []
    for text in texts:
        if any(mark in text for mark in marks):
            dropped["marks"] += 1
            continue
        ids = prompt_ids(text, tokenizer)
        if len(ids) > most_tokens:
            dropped["long"] += 1
        else:
            out.append(ids)
    if not out:
        raise InputError.at(
            "prompts",
            f"none is left: {dict(dropped)}; expected some of at most {most_tokens} tokens",
            code="prompts-none",
        )
    return RenderedPrompts(ids=tuple(out), dropped=dict(dropped))


def prompt_ids(text: str, tokenizer: ChatTokenizer) -> tuple[int, ...]:
    """One prompt, rendered. The text must hold no special token."""
    inner = tokenizer.tokenizer
    if not inner.chat_template:
        return tokenizer.encode(wire.segments((PromptMessage(role="user", content=text),), generate=True))
    messages = [{"role": "user", "content": text}]
    rendered: str = inner.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return tuple(inner(rendered, add_special_tokens=False)["input_ids"])
