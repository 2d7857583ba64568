"""IFEval's prompts, each with the instructions that a response to it can be checked for.

Zhou et al. 2023, "Instruction-Following Evaluation for Large Language Models" (arXiv 2311.07911): 541 prompts, 834
instructions of 25 types. Read from a JSON Lines file or from the model hub; nothing is checked for here but the form.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from pydantic import ValidationError, model_validator

from livery.errors import InputError, Problem
from livery.harness.model import Frozen
from livery.policies.hf_loading import needed

HUB: Final = "google/IFEval"


class IfevalPrompt(Frozen):
    """One prompt."""

    key: int
    prompt: str
    instruction_id_list: tuple[str, ...]
    """Types of the instructions in the prompt, such as ``punctuation:no_comma``."""
    kwargs: tuple[Mapping[str, Any], ...]
    """What each instruction is checked with. Fields that are None (the hub's form holds every field) mean nothing."""

    @model_validator(mode="after")
    def _paired(self) -> Self:
        if not self.instruction_id_list or len(self.instruction_id_list) != len(self.kwargs):
            raise ValueError(
                f"found {len(self.instruction_id_list)} instructions and {len(self.kwargs)} kwargs; "
                "expected one at least, and as many of the one as of the other"
            )
        return self

    def to_doc(self) -> dict[str, Any]:
        """As lm-eval's checkers take it."""
        return {
            "key": self.key,
            "prompt": self.prompt,
            "instruction_id_list": list(self.instruction_id_list),
            "kwargs": [dict(k) for k in self.kwargs],
        }


def load_prompts(source: str) -> list[IfevalPrompt]:
    """
    Args:
        source: a JSON Lines file, or the name of a data set on the hub (its split ``train``).

    Raises:
        InputError: every line that is no prompt; or the hub has no such data set, or cannot be reached.
    """
    path = Path(source).expanduser()
    if path.is_file():
        return _prompts(path, enumerate(path.read_bytes().splitlines(), 1))
    if path.suffix in (".jsonl", ".json") or source.startswith((".", "/", "~")) or source.count("/") != 1:
        raise InputError.at(path, f"no such file; expected IFEval's prompts as JSON Lines, or a hub name such as {HUB}")
    return _from_hub(source)


def _from_hub(name: str) -> list[IfevalPrompt]:
    needed("datasets")
    datasets: Any = importlib.import_module("datasets")
    try:
        rows = [dict(row) for row in datasets.load_dataset(name, split="train")]
    except Exception as error:  # whatever the hub's client raises, the answer is the same
        message = (
            f"could not be loaded from the hub ({type(error).__name__}: {error}); expected a data set with IFEval's "
            "columns; without a network give the file: --data input_data.jsonl"
        )
        raise InputError.at(name, message, field="--data", code="hub") from error
    return _prompts(name, ((i, json.dumps(row).encode()) for i, row in enumerate(rows, 1)))


def _prompts(source: str | Path, lines: Iterable[tuple[int, bytes]]) -> list[IfevalPrompt]:
    found: dict[int, IfevalPrompt] = {}
    problems: list[Problem] = []
    for number, line in lines:
        if not line.strip():
            continue
        try:
            one = IfevalPrompt.model_validate_json(line)
        except ValidationError as error:
            for fault in error.errors(include_url=False):
                where = ".".join(map(str, fault["loc"]))
                problems.append(
                    Problem(path=str(source), line=number, field=where, message=fault["msg"], code="ifeval-prompt")
                )
            continue
        if one.key in found:
            message = f"the key {one.key} stands twice"
            problems.append(Problem(path=str(source), line=number, field="key", message=message, code="ifeval-key"))
        found[one.key] = one
    if problems:
        raise InputError(problems)
    if not found:
        raise InputError.at(source, "found no prompt; expected one at least", code="ifeval-prompt")
    return list(found.values())


def prompts_digest(prompts: Sequence[IfevalPrompt]) -> str:
    """SHA-256 of the prompts and what they are checked with. A file and the hub's form of the same prompts give the
    same digest."""
    whole = hashlib.sha256()
    for one in prompts:
        kwargs = [{k: v for k, v in sorted(some.items()) if v is not None} for some in one.kwargs]
        line = json.dumps([one.key, one.prompt, one.instruction_id_list, kwargs], ensure_ascii=False)
        whole.update(line.encode() + b"\n")
    return whole.hexdigest()
