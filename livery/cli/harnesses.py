"""Loading a harness folder as commands do: checked, with its faults told."""

from __future__ import annotations

from pathlib import Path

from livery.errors import InputError
from livery.harness.folder import load_harness
from livery.harness.hooks.builtin import BUILTINS
from livery.harness.hooks.loading import load_hooks
from livery.harness.hooks.run import HookRunner
from livery.harness.lint import lint
from livery.harness.model import Harness
from livery.shop.registry import shop_operations


def load_checked(folder: Path) -> Harness:
    """The harness of a folder that may be published.

    Raises:
        InputError: every error that loading, lint or importing hooks finds; warnings do not count.
    """
    loaded = load_harness(folder)
    known = {name: operation.parameters for name, operation in shop_operations().items()}
    problems = lint(
        loaded.harness,
        loaded.problems,
        operations=known,
        builtins=BUILTINS,
        sources=loaded.sources,
        strict=False,  # a user's own skill folder loads with its warnings, as it would in other agents
    )
    errors = [p for p in problems if p.severity == "error"]
    if errors:
        raise InputError(errors)
    HookRunner(loaded.harness, load_hooks(loaded.harness))  # lint runs no hook: faults of theirs show here
    return loaded.harness
