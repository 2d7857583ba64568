from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from livery.errors import InputError, Problem
from livery.harness.folder import load_harness
from livery.harness.hooks import loading
from livery.harness.hooks.decisions import Allow, HookContext, Retry
from livery.harness.hooks.loading import load_hook, load_hooks
from livery.harness.hooks.run import HookRunner
from livery.harness.model import Harness, Hook
from livery.types import Checkpoint


def python_hook(source: str, key: str = "my-hook") -> Hook:
    return Hook(
        key=key,
        checkpoint=Checkpoint.REPLY,
        kind="python",
        source=textwrap.dedent(source),
        on_failure="block",
    )


def fault(hook: Hook) -> Problem:
    with pytest.raises(InputError) as caught:
        load_hook(hook, language="en")
    (problem,) = caught.value.problems
    return problem


LENGTH = """
    from __future__ import annotations
    from dataclasses import dataclass
    from livery.harness.hooks.decisions import Allow, Retry

    @dataclass
    class Limit:
        chars: int

    LIMIT = Limit(5)

    def check(value, context):
        return Allow() if len(value) <= LIMIT.chars else Retry(f"{len(value)} characters")
    """


def test_a_python_hook_is_its_check_function(bare_context: HookContext) -> None:
    check = load_hook(python_hook(LENGTH), language="en")
    assert check("short", bare_context) == Allow()
    assert check("too long", bare_context) == Retry("8 characters")


def test_each_load_has_a_module_of_its_own(bare_context: HookContext) -> None:
    source = """
        from livery.harness.hooks.decisions import Retry
        seen = []
        def check(value, context):
            seen.append(value)
            return Retry(str(len(seen)))
        """
    first, second = (load_hook(python_hook(source), language="en") for _ in range(2))
    assert first("a", bare_context) == Retry("1")
    assert first("a", bare_context) == Retry("2")
    assert second("a", bare_context) == Retry("1")


def test_check_may_be_a_class(bare_context: HookContext) -> None:
    source = """
        from livery.harness.hooks.decisions import Retry
        class check:
            def __init__(self):
                self.count = 0
            def __call__(self, value, context):
                self.count += 1
                return Retry(str(self.count))
        """
    check = load_hook(python_hook(source), language="en")
    check("a", bare_context)
    assert check("a", bare_context) == Retry("2")


@pytest.mark.parametrize(
    ("source", "code", "line", "words"),
    [
        ("def check(value, context)\n    pass", "hook-syntax", 1, "is not Python: expected ':'"),
        ("x = 1\n\0", "hook-syntax", None, "null bytes"),
        ("x = 1\nimport no_such_module_here", "hook-import", 2, "ModuleNotFoundError"),
        ("def f():\n    return 1 / 0\n\nf()", "hook-import", 2, "ZeroDivisionError"),
        ("import sys\nsys.exit(1)", "hook-import", 2, "SystemExit"),
        ("x = 1", "hook-no-check", 0, "there is none"),
        ("check = 5", "hook-no-check", 0, "found a int"),
        ("\ndef check(value):\n    return None", "hook-signature", 2, "must take (value, context)"),
        ("class check:\n    def __init__(self, x):\n        pass", "hook-import", 0, "without arguments"),
    ],
)
def test_a_faulty_python_hook_is_an_input_error_with_hook_and_line(
    source: str, code: str, line: int | None, words: str
) -> None:
    problem = fault(python_hook(source))
    assert (problem.path, problem.code) == ("hooks/my-hook.py", code)
    assert line is None or problem.line == line
    assert "'my-hook'" in problem.message
    assert words in problem.message


def test_a_top_level_that_never_ends_is_an_input_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "IMPORT_TIMEOUT_S", 0.02)
    problem = fault(python_hook("import threading\nthreading.Event().wait(5)"))
    assert problem.code == "hook-import"
    assert "did not end" in problem.message


async def test_a_crash_is_logged_with_the_hooks_own_lines(
    bare_harness: Harness, bare_context: HookContext, caplog: pytest.LogCaptureFixture
) -> None:
    hook = python_hook("def check(value, context):\n    return value.no_such_thing  # the line at fault\n")
    harness = bare_harness.replace(hooks=(hook,))
    outcome = await HookRunner(harness, load_hooks(harness)).run(Checkpoint.REPLY, "x", bare_context, budget_s=60.0)
    assert outcome.events[0].failure == "crash"
    assert "the line at fault" in caplog.text


def test_every_faulty_hook_of_a_harness_is_reported(bare_harness: Harness) -> None:
    good = python_hook(LENGTH, "good")
    rules: dict[str, Any] = {"rules": [{"then": "shout"}, {"then": "block"}]}
    hooks = (
        python_hook("x =", "syntax"),
        good,
        Hook(key="rules", checkpoint=Checkpoint.REPLY, kind="rules", on_failure="allow", params=rules),
        Hook(key="none", checkpoint=Checkpoint.REPLY, kind="builtin", source="no_such", on_failure="allow"),
        good,
    )
    with pytest.raises(InputError) as caught:
        load_hooks(bare_harness.replace(hooks=hooks))
    assert [(p.path, p.code) for p in caught.value.problems] == [
        ("hooks/syntax.py", "hook-syntax"),
        ("hooks/rules.yaml", "hook-params"),
        ("hooks/none.yaml", "hook-unknown-builtin"),
        ("hooks/good.py", "hook-duplicate"),
    ]


def builtin_hook(source: str, **fields: Any) -> Hook:
    return Hook.model_validate(
        {"key": "h", "checkpoint": "reply", "kind": "builtin", "source": source, "on_failure": "block"} | fields
    )


def test_a_builtin_is_found_by_name_and_built_with_its_params(bare_context: HookContext) -> None:
    check = load_hook(builtin_hook("speech_format", params={"max_chars": 10}), language="en")
    assert check("Fine.", bare_context) == Allow()
    assert isinstance(check("This is much longer than ten.", bare_context), Retry)


def test_a_builtin_used_wrongly_is_an_input_error_that_names_the_field() -> None:
    unknown = fault(builtin_hook("gronding"))
    assert (unknown.field, unknown.code) == ("source", "hook-unknown-builtin")
    assert "grounding" in unknown.message
    elsewhere = fault(builtin_hook("grounding", checkpoint="request"))
    assert (elsewhere.field, elsewhere.code) == ("checkpoint", "hook-checkpoint")
    rewriting = fault(builtin_hook("speech_cleanup"))
    assert (rewriting.field, rewriting.code) == ("mode", "hook-mode")
    setting = fault(builtin_hook("speech_format", params={"max_chrs": 5}))
    assert (setting.field, setting.code) == ("max_chrs", "hook-params")


@pytest.mark.parametrize("name", ["streamer-en", "streamer-zh"])
def test_the_hooks_of_the_sample_harnesses_load(name: str) -> None:
    harness = load_harness(Path(__file__).parents[2] / "harnesses" / name).harness
    functions = load_hooks(harness)
    assert set(functions) == {hook.key for hook in harness.hooks}
    runner = HookRunner(harness, functions)
    assert all(runner.has(checkpoint) for checkpoint in (Checkpoint.REQUEST, Checkpoint.REPLY))
