"""From a `Hook` (a value in a harness) to the function that the runner calls.

Three kinds: a built-in by its registered name, a Python file's text, YAML rules. A Python hook is code of
whoever may publish and runs with all rights of the process: there is no sandbox, and this module does not
pretend to be one. What it does is to answer a faulty file with an `InputError` that names hook and line, at
publish time and not in front of an audience.
"""

from __future__ import annotations

import hashlib
import inspect
import linecache
import re
import sys
import threading
import traceback
from types import CodeType, ModuleType
from typing import Any, cast

from pydantic import ValidationError

from livery.errors import InputError, Problem
from livery.harness.hooks.builtin import BUILTINS
from livery.harness.hooks.decisions import HookFunction
from livery.harness.hooks.rules import compile_rules, params_problems
from livery.harness.model import Harness, Hook

IMPORT_TIMEOUT_S = 5.0
"""A Python hook's module-level code must end within this many seconds."""


def load_hooks(harness: Harness) -> dict[str, HookFunction]:
    """Functions of all hooks of a harness, by hook key.

    Raises:
        InputError: every fault of every hook.
    """
    functions: dict[str, HookFunction] = {}
    problems: list[Problem] = []
    for hook in harness.hooks:
        if hook.key in functions:
            problems.append(
                Problem(path=hook_path(hook), message=f"hook {hook.key!r} is there twice", code="hook-duplicate")
            )
        try:
            functions[hook.key] = load_hook(hook, language=harness.language)
        except InputError as error:
            problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    return functions


def load_hook(hook: Hook, *, language: str) -> HookFunction:
    """The function of one hook.

    Args:
        language: BCP 47 tag of the harness's replies; built-ins choose their lists by it.

    Raises:
        InputError: an unknown built-in, wrong params, bad rules, or Python that does not import.
    """
    match hook.kind:
        case "builtin":
            return _builtin(hook, language)
        case "rules":
            return compile_rules(hook, hook_path(hook))
        case "python":
            return _python(hook)


def hook_path(hook: Hook) -> str:
    """Where a hook stands in a harness folder, for messages."""
    return f"hooks/{hook.key}.{'py' if hook.kind == 'python' else 'yaml'}"


def _builtin(hook: Hook, language: str) -> HookFunction:
    path = hook_path(hook)
    builtin = BUILTINS.get(hook.source)
    if builtin is None:
        known = ", ".join(sorted(BUILTINS))
        raise InputError.at(
            path, f"hook {hook.key!r}: no built-in {hook.source!r}; there are: {known}", field="source",
            code="hook-unknown-builtin",
        )  # fmt: skip
    problems: list[Problem] = []
    if hook.checkpoint != builtin.checkpoint:
        problems.append(
            Problem(
                path=path,
                field="checkpoint",
                message=f"hook {hook.key!r}: built-in {hook.source!r} stands at {builtin.checkpoint}; "
                f"found {hook.checkpoint}",
                code="hook-checkpoint",
            )
        )
    if builtin.mode == "change" and hook.mode == "check":
        problems.append(
            Problem(
                path=path,
                field="mode",
                message=f"hook {hook.key!r}: built-in {hook.source!r} rewrites; expected `change`, found `check`",
                code="hook-mode",
            )
        )
    try:
        params = builtin.params.model_validate(hook.params)
    except ValidationError as error:
        raise InputError([*problems, *params_problems(error, hook, path)]) from error
    if problems:
        raise InputError(problems)
    return builtin.build(params, language)


# ---------------------------------------------------------------------------------- Python hooks


def _python(hook: Hook) -> HookFunction:
    path = hook_path(hook)
    digest = hashlib.sha256(hook.source.encode()).hexdigest()[:12]
    name = f"livery_hook_{re.sub(r'[^0-9A-Za-z_]', '_', hook.key)}_{digest}"
    filename = f"<{path} {digest}>"
    try:
        code = compile(hook.source, filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:  # ValueError: a null byte
        line = (error.lineno or 0) if isinstance(error, SyntaxError) else 0
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InputError.at(path, f"hook {hook.key!r} is not Python: {text}", line=line, code="hook-syntax") from error
    # Tracebacks then show the hook's own lines, though there is no file of that name.
    linecache.cache[filename] = (len(hook.source), None, hook.source.splitlines(keepends=True), filename)
    module = ModuleType(name)
    module.__file__ = filename
    sys.modules[name] = module  # dataclasses and typing look their module up by name
    _execute(code, module, hook, path, filename)
    return _check_function(module, hook, path)


def _execute(code: CodeType, module: ModuleType, hook: Hook, path: str, filename: str) -> None:
    """Run the module's top level in a thread of its own, so that one that never ends is an error too."""
    raised: list[BaseException] = []

    def execute() -> None:
        try:
            exec(code, module.__dict__)
        except BaseException as error:  # SystemExit as well: nothing in a hook may end the process
            raised.append(error)

    thread = threading.Thread(target=execute, name=f"load {hook.key}", daemon=True)
    thread.start()
    thread.join(IMPORT_TIMEOUT_S)
    if thread.is_alive():
        raise InputError.at(
            path,
            f"hook {hook.key!r}: its top level did not end within {IMPORT_TIMEOUT_S:g} s",
            code="hook-import",
        )
    if raised:
        error = raised[0]
        raise InputError.at(
            path,
            f"hook {hook.key!r} does not import: {type(error).__name__}: {error}",
            line=line_in(error, filename),
            code="hook-import",
        ) from error


def line_in(error: BaseException, filename: str) -> int:
    """The innermost line of ``filename`` in a traceback; 0 where it is not there."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == filename]
    return (lines[-1] or 0) if lines else 0


def _check_function(module: ModuleType, hook: Hook, path: str) -> HookFunction:
    check: Any = getattr(module, "check", None)
    if inspect.isclass(check):
        try:
            check = cast("type[Any]", check)()
        except Exception as error:
            raise InputError.at(
                path,
                f"hook {hook.key!r}: the class `check` cannot be made without arguments: {error}",
                line=line_in(error, module.__file__ or ""),
                code="hook-import",
            ) from error
    if not callable(check):
        found = "there is none" if check is None else f"found a {type(check).__name__}"
        raise InputError.at(
            path,
            f"hook {hook.key!r}: expected a function `check(value, context)`; {found}",
            code="hook-no-check",
        )
    try:
        inspect.signature(check).bind(None, None)
    except (TypeError, ValueError) as error:
        line = getattr(getattr(check, "__code__", None), "co_firstlineno", 0)
        raise InputError.at(
            path,
            f"hook {hook.key!r}: `check` must take (value, context): {error}",
            line=line,
            code="hook-signature",
        ) from error
    return cast("HookFunction", check)
