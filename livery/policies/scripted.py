"""Policies without a model, by name: for tests, demos and benchmarks.

``scripted:silent`` never says anything. ``scripted:instant`` plays three rounds (a skill and a tool, a tool,
a reply) at no cost: what remains is the harness's own time. ``scripted:host`` follows rules
(`livery.policies.host`). Any other name is a YAML file::

    scripts:
      - when: "(?i)price|how much"        # found in the user message, dialogue included; left out: always
        turns:
          - calls:
              - {name: load_skill, arguments: {name: price-promo}}
          - reply: "It is $39.99 today."

The first script that fits is played; its last turn repeats. Not here: anything that looks at operations or
keys (that is the simulator's oracle).
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from livery.errors import InputError, Problem
from livery.policies import wire
from livery.policies.host import HostPlay
from livery.policies.instant import InstantPlay
from livery.policies.policy import PolicyRequest, PromptMessage
from livery.types import PolicyTurn, Timing, ToolCall

Planned = tuple[str, Mapping[str, Any]]
"""(tool name, arguments)."""


class Play(Protocol):
    """Decides from the request alone: calls to make, or a reply."""

    def __call__(self, request: PolicyRequest) -> tuple[tuple[Planned, ...], str]: ...


class ScriptedPolicy:
    """Plays a `Play`. Costs no tokens and takes no time."""

    actions: Literal["text", "native"] = "native"

    def __init__(self, play: Play, *, uri: str) -> None:
        self.uri = uri
        self.weights = "scripted"
        self._play = play

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        began = time.perf_counter()
        planned, reply = self._play(request)
        first = wire.calls_so_far(request.messages)
        calls = tuple(
            ToolCall(id=f"call_{first + i}", name=name, arguments=arguments)
            for i, (name, arguments) in enumerate(planned)
        )
        timing = Timing(total_s=time.perf_counter() - began)
        return PolicyTurn(calls=calls, text="" if calls else reply, stop="calls" if calls else "reply", timing=timing)

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> None:
        """Nothing to prefill."""

    async def aclose(self) -> None:
        """Nothing to close."""


def open_script(name: str, *, uri: str) -> ScriptedPolicy:
    """The scripted policy of this name, or of this YAML file.

    Raises:
        InputError: no such name or file, or faults in the file.
    """
    match name:
        case "silent":
            return ScriptedPolicy(lambda request: ((), ""), uri=uri)
        case "instant":
            return ScriptedPolicy(InstantPlay(), uri=uri)
        case "host":
            return ScriptedPolicy(HostPlay(), uri=uri)
        case _:
            path = Path(name).expanduser()
            if path.suffix not in (".yaml", ".yml"):
                raise InputError.at(
                    uri,
                    f"found {name!r}; expected host, silent, instant or a .yaml file",
                    code="scripted-name",
                )
            return ScriptedPolicy(ScriptPlay(read_scripts(path)), uri=uri)


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PlannedCall(_Strict):
    name: str = Field(min_length=1)
    arguments: dict[str, Any] = {}


class ScriptTurn(_Strict):
    calls: tuple[PlannedCall, ...] = ()
    reply: str = ""

    @model_validator(mode="after")
    def _one_of_both(self) -> ScriptTurn:
        if bool(self.calls) == bool(self.reply):
            raise ValueError("a turn has either calls or a reply")
        return self


class Script(_Strict):
    when: re.Pattern[str] | None = None
    turns: tuple[ScriptTurn, ...]

    @model_validator(mode="after")
    def _plays_something(self) -> Script:
        if not self.turns:
            raise ValueError("a script has at least one turn")
        return self


class Scripts(_Strict):
    scripts: tuple[Script, ...]


def read_scripts(path: Path) -> Scripts:
    """Read a script file.

    Raises:
        InputError: every fault, by field.
    """
    if not path.is_file():
        raise InputError.at(path, "no such file; expected a YAML script", code="scripted-missing")
    try:
        data: object = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise InputError.at(path, f"not YAML: {error.problem}", line=line, code="yaml") from error
    try:
        return Scripts.model_validate(data)
    except ValidationError as error:
        raise InputError(
            [
                Problem(
                    path=str(path),
                    field=".".join(str(part) for part in fault["loc"]),
                    message=f"{fault['msg']} (found {str(cast('object', fault['input']))[:80]!r})",
                    code="scripted-field",
                )
                for fault in error.errors()
            ]
        ) from error


class ScriptPlay:
    """Plays a file: which turn comes next is how often the assistant has spoken."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts.scripts

    def __call__(self, request: PolicyRequest) -> tuple[tuple[Planned, ...], str]:
        asked = next((m.content for m in request.messages if m.role == "user"), "")
        script = next((s for s in self._scripts if s.when is None or s.when.search(asked)), None)
        if script is None:
            return (), ""
        spoken = sum(m.role == "assistant" for m in request.messages)
        turn = script.turns[min(spoken, len(script.turns) - 1)]
        return tuple((call.name, call.arguments) for call in turn.calls), turn.reply
