"""What a built-in hook is: a name, its params, and how its function is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from livery.harness.hooks.decisions import HookFunction
from livery.types import Checkpoint


class Params(BaseModel):
    """Settings of a built-in; closed to unknown fields, so that a typing slip is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NoParams(Params):
    """For hooks without settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Builtin:
    name: str
    """What ``source`` of a `livery.harness.model.Hook` says."""
    checkpoint: Checkpoint
    mode: Literal["check", "change"] = "check"
    on_failure: Literal["allow", "block"] = "block"
    """Advised failure mode."""
    params: type[Params] = NoParams
    build: Callable[[Any, str], HookFunction]
    """(params, language tag of the harness) -> the hook."""
    summary: str


def worded(language: str, *, en: str, zh: str) -> str:
    """The sentence in the harness's language; English unless that is Chinese."""
    return zh if language.split("-")[0] == "zh" else en
