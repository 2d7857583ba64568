"""lm-eval's own IFEval checkers, made ready to run without a network and to give the same answer twice.

Nothing is checked here: `Checkers.check` hands a prompt and a response to ``lm_eval.tasks.ifeval.utils``. What is added
around it:

- Its import downloads NLTK's ``punkt_tab`` where that is not found. The data come with the wheel of llama-index-core;
  its folder is put on NLTK's path first, and without any such data the import is refused rather than left to download.
- Two checks draw at random: language detection, and the letter that stands in where a prompt counts a sign which is no
  letter (two of the 541 prompts do). Both are seeded, each prompt by itself, so that neither the order of the prompts
  nor their number changes a result.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from livery.errors import InputError
from livery.evaluation.ifeval_prompts import IfevalPrompt

EXTRA: Final = "livery[ifeval]"
_MODULES: Final = ("lm_eval", "nltk", "langdetect", "immutabledict")
_PUNKT: Final = "tokenizers/punkt_tab/english"


@dataclass(frozen=True, slots=True)
class Checked:
    """Whether a response follows each instruction of its prompt, in their order."""

    strict: tuple[bool, ...]
    loose: tuple[bool, ...]
    """The best of eight forms of the response: without its first line, its last, or the asterisks."""


class Checkers:
    """Use `open_checkers`."""

    def __init__(self, utils: Any, known: frozenset[str], name: str) -> None:
        self._utils = utils
        self._known = known
        self.name = name
        """The package and its version."""

    def require(self, prompts: Sequence[IfevalPrompt]) -> None:
        """
        Raises:
            InputError: an instruction of a type that there is no checker for.
        """
        odd = {i: p.key for p in prompts for i in p.instruction_id_list if i not in self._known}
        if odd:
            listed = ", ".join(f"{name!r} (key {key})" for name, key in odd.items())
            message = f"found {listed}; expected types that {self.name} checks, such as 'punctuation:no_comma'"
            raise InputError.at("--data", message, field="instruction_id_list", code="ifeval-instruction")

    def check(self, prompt: IfevalPrompt, response: str) -> Checked:
        """
        Raises:
            InputError: the checker does not take the prompt's kwargs.
        """
        state = random.getstate()
        random.seed(prompt.key)
        try:
            found: dict[str, Any] = self._utils.process_results(prompt.to_doc(), [response])
        except (TypeError, ValueError, KeyError) as error:
            message = f"{self.name} refused it ({type(error).__name__}: {error}); expected the kwargs of its checkers"
            raise InputError.at(f"key {prompt.key}", message, field="kwargs", code="ifeval-kwargs") from error
        finally:
            random.setstate(state)
        strict, loose = found["inst_level_strict_acc"], found["inst_level_loose_acc"]
        return Checked(tuple(map(bool, strict)), tuple(map(bool, loose)))


@cache
def open_checkers() -> Checkers:
    """Import the checkers (seconds: lm-eval brings much along, though not torch).

    Raises:
        InputError: lm-eval or the sentence data are not installed.
    """
    missing = [m for m in _MODULES if find_spec(m) is None]
    if missing:
        message = f"not installed; expected the ifeval extra: pip install '{EXTRA}'"
        raise InputError.at(", ".join(missing), message, code="extra")
    _supply_punkt()
    langdetect: Any = importlib.import_module("langdetect")
    langdetect.DetectorFactory.seed = 0
    utils: Any = importlib.import_module("lm_eval.tasks.ifeval.utils")
    registry: Any = importlib.import_module("lm_eval.tasks.ifeval.instructions_registry")
    return Checkers(utils, frozenset(registry.INSTRUCTION_DICT), f"lm-eval {version('lm_eval')}")


def _supply_punkt() -> None:
    """See that NLTK finds its sentence data.

    Raises:
        InputError: they are neither on NLTK's path nor in llama-index-core.
    """
    nltk: Any = importlib.import_module("nltk")
    bundled = _bundled()
    if bundled is not None and str(bundled) not in nltk.data.path:
        nltk.data.path.append(str(bundled))
    try:
        nltk.data.find(_PUNKT)
    except LookupError:
        message = (
            f"NLTK's sentence data are not installed; expected {_PUNKT} on NLTK's path, or llama-index-core, whose "
            f"wheel carries them: pip install '{EXTRA}'"
        )
        raise InputError.at("punkt_tab", message, code="extra") from None


def _bundled() -> Path | None:
    """The folder of NLTK data in llama-index-core, which is not imported."""
    try:
        spec = find_spec("llama_index.core")
    except ModuleNotFoundError:
        return None
    places = spec.submodule_search_locations if spec is not None else None
    folders = [Path(p) / "_static" / "nltk_cache" for p in places or ()]
    return next((f for f in folders if f.is_dir()), None)
