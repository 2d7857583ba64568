"""One turn's tool calls: bound, run side by side, and answered as data whatever happens.

A failed call never takes its siblings' results with it: an unknown tool, bad arguments, a time-out, an
exception or a hook's veto each become that call's own result, whose text says what was wrong.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rapidfuzz import fuzz, process

from livery.agent.binding import BindingError, bind
from livery.agent.formatting import format_error, format_result
from livery.agent.live_harness import BoundTool, LiveHarness
from livery.errors import InputError
from livery.harness.hooks.decisions import Block, Decision, Retry, SkillValue
from livery.harness.lint_tools import LOAD_SKILL, READ_SKILL_FILE
from livery.harness.model import ResultFormat, Skill
from livery.harness.skills import match_skills, read_skill_file
from livery.shop.operations import OperationContext, OperationError, Operations
from livery.types import JSON, Checkpoint, Effect, ErrorKind, ToolCall, ToolError, ToolResult

RunHooks = Callable[..., Awaitable[tuple[Any, Decision]]]
"""(checkpoint, value, tool) -> (value, decision)."""


@dataclass(slots=True)
class CallRunner:
    """Runs the calls of one request."""

    live: LiveHarness
    operations: Operations
    context: OperationContext
    hooks: RunHooks
    left_s: Callable[[], float]
    """What the request's budget still holds."""
    loaded: list[Skill]
    """Skills loaded so far; this runner appends."""
    made: int = 0
    """Calls made so far in this request."""

    async def run(self, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """Results in the order of the calls."""
        limits = self.live.harness.limits
        allowed = max(0, limits.tool_calls - self.made)
        self.made += min(allowed, len(calls))
        refused = [
            self._failed(c, ErrorKind.BUDGET, f"no more calls: at most {limits.tool_calls} a request; reply now")
            for c in calls[allowed:]
        ]
        calls = calls[:allowed]
        if len(calls) < 2 or limits.parallel_calls == 1:
            return (*[await self._one(c) for c in calls], *refused)
        gate = asyncio.Semaphore(limits.parallel_calls)

        async def gated(call: ToolCall) -> ToolResult:
            async with gate:
                return await self._one(call)

        return (*await asyncio.gather(*map(gated, calls)), *refused)

    async def _one(self, call: ToolCall) -> ToolResult:
        started = time.perf_counter()
        result = await self._checked(call)
        return replace(result, duration_s=time.perf_counter() - started)

    async def _checked(self, call: ToolCall) -> ToolResult:
        bound = self.live.tools.get(call.name)
        if bound is None:
            return self._failed(call, ErrorKind.UNKNOWN_TOOL, self._unknown(call.name))
        call, decision = await self.hooks(Checkpoint.TOOL_CALL, call, bound.tool)
        if isinstance(decision, Block):
            return self._failed(call, ErrorKind.BLOCKED, decision.reason, bound)
        if isinstance(decision, Retry):
            return self._failed(call, ErrorKind.INVALID_ARGUMENTS, decision.feedback, bound)
        result = await self._performed(call, bound)
        seen, decision = await self.hooks(Checkpoint.TOOL_RESULT, result, bound.tool)
        if isinstance(decision, Block):
            return self._failed(call, ErrorKind.BLOCKED, decision.reason, bound)
        if isinstance(decision, Retry):
            return self._failed(call, ErrorKind.BLOCKED, decision.feedback, bound)
        return seen

    async def _performed(self, call: ToolCall, bound: BoundTool) -> ToolResult:
        operation = bound.tool.binding.operation
        try:
            arguments = bind(bound.tool.binding, call.arguments, bound.parameters)
        except BindingError as error:
            return self._failed(call, ErrorKind.INVALID_ARGUMENTS, str(error), bound)
        effects: tuple[Effect, ...] = ()
        try:
            if operation == LOAD_SKILL:
                value: JSON = await self._load_skill(arguments["name"])
            elif operation == READ_SKILL_FILE:
                value = self._read_skill_file(arguments["skill"], arguments["path"])
            else:
                timeout = min(bound.tool.timeout_s, self.left_s())
                async with asyncio.timeout(timeout):
                    operations = self.live.extra if operation in self.live.extra else self.operations
                    outcome = await operations.call(operation, arguments, self.context)
                value, effects = outcome.value, outcome.effects
        except OperationError as error:
            return self._failed(call, error.kind, error.message, bound, arguments)
        except TimeoutError:
            message = f"{call.name} gave no result within {bound.tool.timeout_s:g} s"
            return self._failed(call, ErrorKind.TIMEOUT, message, bound, arguments)
        except Exception as error:
            # Any fault of an operation is that call's own result: the request and its other calls go on.
            message = f"{call.name} failed: {type(error).__name__}: {error}"
            return self._failed(call, ErrorKind.EXCEPTION, message, bound, arguments)
        try:
            text = self._text(value, bound, call.arguments)
        except Exception as error:
            message = f"{call.name} gave a result that its format cannot show: {error}"
            return self._failed(call, ErrorKind.MALFORMED, message, bound, arguments)
        return ToolResult(
            call=call,
            key=bound.tool.key,
            operation=operation,
            arguments=arguments,
            value=value,
            text=text,
            effects=effects,
        )

    @staticmethod
    def _text(value: JSON, bound: BoundTool, arguments: Mapping[str, Any]) -> str:
        operation = bound.tool.binding.operation
        if operation in (LOAD_SKILL, READ_SKILL_FILE) and not bound.template:
            return str(value)
        page = arguments.get(bound.paged, 1) if bound.paged else 1
        number = int(page) if str(page).isdigit() else 1
        return format_result(value, bound.tool.result, bound.template, max(1, number))

    async def _load_skill(self, name: str) -> str:
        skill = self._skill(name)
        if any(s.key == skill.key for s in self.loaded):
            return f"{skill.name} is loaded already; its instructions stand above."
        text = skill.body.strip()
        if skill.files:
            text += "\n\nFiles: " + ", ".join(f.path for f in skill.files)
        value, decision = await self.hooks(Checkpoint.SKILL, SkillValue(skill=skill, text=text), None)
        if isinstance(decision, Block):
            raise OperationError(ErrorKind.BLOCKED, decision.reason)
        if isinstance(decision, Retry):
            raise OperationError(ErrorKind.BLOCKED, decision.feedback)
        self.loaded.append(skill)
        return value.text

    def _read_skill_file(self, name: str, path: str) -> str:
        skill = self._skill(name)
        try:
            found = read_skill_file(skill, path)
        except InputError as error:
            raise OperationError(ErrorKind.NOT_FOUND, error.problems[0].message) from error
        if found.encoding == "base64":
            raise OperationError(ErrorKind.MALFORMED, f"{path} is not text")
        return found.content

    def _skill(self, name: str) -> Skill:
        skill = self.live.skills.get(name.strip())
        if skill is None:
            near = [m.skill.name for m in match_skills(name, self.live.harness.skills)[:3]]
            names = near or list(self.live.skills)
            raise OperationError(ErrorKind.NOT_FOUND, f"no skill {name!r}; perhaps: {', '.join(names)}")
        return skill

    def _unknown(self, name: str) -> str:
        near = process.extract(name, list(self.live.tools), scorer=fuzz.WRatio, limit=3, score_cutoff=50)
        names = [n for n, _, _ in near] or list(self.live.tools)
        return f"no tool {name!r}; there {'are' if len(names) > 1 else 'is'}: {', '.join(names)}"

    @staticmethod
    def _failed(
        call: ToolCall,
        kind: ErrorKind,
        message: str,
        bound: BoundTool | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> ToolResult:
        error = ToolError(kind=kind, message=message)
        return ToolResult(
            call=call,
            key=bound.tool.key if bound else "",
            operation=bound.tool.binding.operation if bound else "",
            arguments=arguments or {},
            text=format_error(error, bound.tool.result if bound else ResultFormat()),
            error=error,
        )
