"""The built-in hooks, by name. Each file holds one, or a few that belong together."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from livery.harness.hooks.builtin.claims import BANNED_CLAIMS, PROMISES
from livery.harness.hooks.builtin.control import (
    HANDOFF_REQUIRED,
    REPLY_SKILL_REQUIRED,
    RETRY_CONTROL,
    ROLE_LEAK,
)
from livery.harness.hooks.builtin.definition import Builtin, Params
from livery.harness.hooks.builtin.grounding import GROUNDING
from livery.harness.hooks.builtin.personal_data import PERSONAL_DATA, PERSONAL_DATA_REQUEST
from livery.harness.hooks.builtin.screening import INPUT_SCREENING
from livery.harness.hooks.builtin.speech import SPEECH_CLEANUP, SPEECH_FORMAT
from livery.harness.hooks.builtin.tool_arguments import ARGUMENT_SCHEMA

__all__ = ["BUILTINS", "Builtin", "Params"]

BUILTINS: Mapping[str, Builtin] = MappingProxyType(
    {
        builtin.name: builtin
        for builtin in (
            INPUT_SCREENING,
            PERSONAL_DATA_REQUEST,
            HANDOFF_REQUIRED,
            ARGUMENT_SCHEMA,
            REPLY_SKILL_REQUIRED,
            SPEECH_CLEANUP,
            SPEECH_FORMAT,
            GROUNDING,
            BANNED_CLAIMS,
            PROMISES,
            PERSONAL_DATA,
            ROLE_LEAK,
            RETRY_CONTROL,
        )
    }
)
