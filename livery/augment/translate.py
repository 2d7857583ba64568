"""A trajectory made under one variant, told as it would have gone under another.

Only the records, the bindings and the trajectory's own typed values are used: names by key, arguments through the
inverse binding, results from their typed values, replies with the opening and close that the harness asks for. Nothing
is played and nothing is guessed: where the other harness does not allow the same course, `NotTranslatable` says why.
Token ids are dropped, since another prompt has others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jinja2 import Environment, Template, meta

from livery.agent.formatting import format_error, format_result
from livery.agent.prompt import ENVIRONMENT
from livery.augment.inverse import NotTranslatable, surface_arguments
from livery.augment.naming import explicit, follower
from livery.augment.operators import Record, Variant
from livery.augment.probe import reply_frame
from livery.harness.lint_tools import LOAD_SKILL, RUNTIME_OPERATIONS
from livery.harness.model import Harness, Hook, Skill, Tool
from livery.shop.operations import Operations
from livery.types import Checkpoint, ErrorKind, HookEvent, PolicyTurn, Route, ToolCall, ToolResult, Trajectory, Turn

__all__ = ["NotTranslatable", "translate"]

_LOAD_FIRST = "Load a reply skill before you reply."
_BEFORE_THE_OPERATION = frozenset(
    {ErrorKind.UNKNOWN_TOOL, ErrorKind.INVALID_ARGUMENTS, ErrorKind.BLOCKED, ErrorKind.BUDGET}
)


def translate(trajectory: Trajectory, source: Variant, target: Variant, operations: Operations) -> Trajectory:
    """The trajectory under ``target``.

    Args:
        source: what it was made under (a base harness is a variant without records).

    Raises:
        NotTranslatable: another harness made it, or the two do not allow the same course.
    """
    if source.base_digest != target.base_digest:
        raise NotTranslatable(f"the variants have different bases: {source.base_digest}, {target.base_digest}")
    if trajectory.harness_release != source.digest:
        raise NotTranslatable(f"made under {trajectory.harness_release}, not under {source.digest}")
    if trajectory.route not in (Route.AGENT, Route.HANDOFF) or not trajectory.turns:
        raise NotTranslatable(f"it ended by the {trajectory.route} route: another harness has other phrases for it")
    return _Translation(trajectory, source, target, operations).made()


class _Translation:
    def __init__(self, trajectory: Trajectory, source: Variant, target: Variant, operations: Operations) -> None:
        self.trajectory = trajectory
        self.source, self.target = source.harness, target.harness
        self.digest = target.digest
        self.operations = operations
        self.tools = {t.key: t for t in self.target.tools}
        self.templates: dict[str, Template] = {}
        self.skills = {s.key: s for s in self.target.skills}
        self.into = _parts(target.records, "merged")
        from_merged = _parts(source.records, "merged")
        self.ambiguous = {into for key, into in from_merged.items() if self.into.get(key) != into}
        self.moved = _needs_more(target.records)
        self.follow = follower(dict(_names(self.source, self.target)))

    def made(self) -> Trajectory:
        limits, turns = self.target.limits, self.trajectory.turns
        if len(turns) > limits.rounds:
            raise NotTranslatable(f"it took {len(turns)} rounds, and the target has {limits.rounds}")
        if sum(len(t.policy.calls) for t in turns) > limits.tool_calls:
            raise NotTranslatable(f"it made more calls than the target's {limits.tool_calls}")
        for hook in self.target.hooks:
            if hook.checkpoint in (Checkpoint.SKILL, Checkpoint.TOOL_RESULT) and hook.mode == "change":
                raise NotTranslatable(f"the hook {hook.key} rewrites what a policy reads; it would have to be run")
        told = [self._turn(t) for t in turns]
        keys = dict.fromkeys(self._skill(k).key for k in self.trajectory.skills)
        return replace(
            self.trajectory,
            harness=self.target.name,
            harness_release=self.digest,
            turns=tuple(told),
            skills=tuple(keys),
            reply=self._reply(self.trajectory.reply) if self.trajectory.reply else "",
        )

    def _turn(self, turn: Turn) -> Turn:
        by_id = {r.call.id: r for r in turn.results}
        if missing := [c.name for c in turn.policy.calls if c.id not in by_id]:
            raise NotTranslatable(f"the calls of {', '.join(missing)} were never run")
        results = tuple(self._result(by_id[c.id]) for c in turn.policy.calls)
        text = turn.policy.text
        if text and not turn.policy.calls:
            text = self._reply(text) if not turn.feedback else self._refused(text)
        policy: PolicyTurn = replace(
            turn.policy,
            calls=tuple(r.call for r in results),
            text=text,
            reasoning=self.follow(turn.policy.reasoning),
            tokens=None,
        )
        return replace(
            turn,
            harness_release=self.digest,
            policy=policy,
            results=results,
            feedback=self._feedback(turn) if turn.feedback else "",
        )

    # ---------------------------------------------------------------------------------------- calls

    def _result(self, result: ToolResult) -> ToolResult:
        if result.error is not None and result.error.kind in _BEFORE_THE_OPERATION:
            raise NotTranslatable(
                f"the call of {result.call.name} failed as written ({result.error.kind}): that is the source's own slip"
            )
        if result.operation in RUNTIME_OPERATIONS:
            return self._runtime(result)
        tool = self.tools.get(result.key)
        if tool is None:
            raise NotTranslatable(f"the target has no tool {result.key}")
        paged = [m.source for t in self.source.tools if t.key == result.key for m in explicit(t).binding.arguments
                 if m.to == "page"]  # fmt: skip
        if any(result.call.arguments.get(name, 1) not in (1, "1") for name in paged):
            raise NotTranslatable(f"{result.call.name} was asked for a later page of its result")
        operation = self.operations.get(result.operation)
        parameters: Mapping[str, Any] = operation.parameters if operation else {}
        said = surface_arguments(tool, result.arguments, parameters)
        return replace(result, call=self._call(result, tool, said), text=self._text(result, tool))

    def _call(self, result: ToolResult, tool: Tool, arguments: Mapping[str, Any]) -> ToolCall:
        return ToolCall(id=result.call.id, name=tool.name, arguments=arguments)

    def _text(self, result: ToolResult, tool: Tool) -> str:
        how = tool.result
        if result.error is not None:
            message = self.follow(result.error.message)
            return format_error(replace(result.error, message=message), how)
        template = None
        if how.template:
            template = self.templates.setdefault(tool.key, ENVIRONMENT.from_string(how.template))
        text = format_result(result.value, how, template)
        if how.page_size and text != format_result(result.value, how.model_copy(update={"page_size": 0}), template):
            raise NotTranslatable(f"{tool.name} would give only the first page of its result")
        return text

    def _runtime(self, result: ToolResult) -> ToolResult:
        """A skill loaded or a file of it read: the target's own text."""
        tool = next((t for t in self.target.tools if t.binding.operation == result.operation), None)
        if result.error is not None:
            raise NotTranslatable(f"{result.call.name} failed: {result.error.message}")
        named = str(result.arguments["name" if result.operation == LOAD_SKILL else "skill"])
        before = self.source.skill_named(named.strip())
        if before is None:
            raise NotTranslatable(f"the source has no skill {named!r}")
        skill = self._skill(before.key)
        if result.operation == LOAD_SKILL:
            if before.key in self.moved:
                raise NotTranslatable(
                    f"the target's {skill.name} goes on in {self.moved[before.key]}, which was not read"
                )
            if "is loaded already" in result.text:
                raise NotTranslatable(f"{before.name} was loaded twice: the target words that otherwise")
            arguments: dict[str, Any] = {"name": skill.name}
            value = skill.body.strip()
            if skill.files:
                value += "\n\nFiles: " + ", ".join(f.path for f in skill.files)
        else:
            path = str(result.arguments["path"])
            file = next((f for f in skill.files if f.path == path and f.encoding == "utf-8"), None)
            if file is None:
                raise NotTranslatable(f"the target's {skill.name} has no file {path}")
            arguments, value = {"skill": skill.name, "path": path}, file.content
        if tool is None:
            call = replace(result.call, name=result.operation.removeprefix("harness."), arguments=arguments)
            return replace(result, call=call, arguments=arguments, value=value, text=value)
        said = surface_arguments(tool, arguments, RUNTIME_OPERATIONS[result.operation])
        told = replace(result, call=self._call(result, tool, said), arguments=arguments, value=value)
        return replace(told, text=self._text(told, tool))

    def _skill(self, key: str) -> Skill:
        if key in self.ambiguous:
            raise NotTranslatable(f"the source joined {key} with another skill: which one was meant is not recorded")
        skill = self.skills.get(self.into.get(key, key))
        if skill is None:
            raise NotTranslatable(f"the target has no skill {key}")
        return skill

    # -------------------------------------------------------------------------------------- replies

    def _reply(self, text: str) -> str:
        """With the target's opening and close in place of the source's."""
        opening, close = reply_frame(self.source)
        body = text.strip()
        if not (body.startswith(opening) and body.endswith(close)):
            raise NotTranslatable("the reply does not open and close as its own harness asks")
        body = body.removeprefix(opening).removesuffix(close).strip()
        opening, close = reply_frame(self.target)
        space = "" if self.target.language.startswith("zh") else " "
        made = space.join(p for p in (opening, body, close) if p)
        most = min([self.target.limits.reply_chars, *_lengths(self.target)])
        if len(made) > most:
            raise NotTranslatable(f"the reply has {len(made)} characters, and the target takes {most}")
        return made

    def _refused(self, text: str) -> str:
        """A reply that was sent back; it must have been at fault for something both harnesses ask."""
        if reply_frame(self.source) != reply_frame(self.target) or _forms(self.source) != _forms(self.target):
            raise NotTranslatable("a reply was sent back, and the target asks another form of replies")
        return self.follow(text)

    def _feedback(self, turn: Turn) -> str:
        """The checks' messages as the target words them, one line a check."""
        if turn.feedback.startswith(_LOAD_FIRST):
            names = ", ".join(s.name for s in self.target.skills if s.kind == "reply")
            return f"{_LOAD_FIRST} Reply skills: {names}."
        told = [e for e in self.trajectory.hooks
                if e.round == turn.round and e.checkpoint == Checkpoint.REPLY and e.decision == "retry"]  # fmt: skip
        if not told:
            return self.follow(turn.feedback)  # the runtime's own sentence
        order = {h.key: i for i, h in enumerate(self.target.hooks)}
        return "\n".join(self._message(e) for e in sorted(told, key=lambda e: order.get(e.hook, 0)))

    def _message(self, event: HookEvent) -> str:
        before = next((h for h in self.source.hooks if h.key == event.hook), None)
        after = next((h for h in self.target.hooks if h.key == event.hook), None)
        if before is None or after is None:
            raise NotTranslatable(f"the target has no hook {event.hook}")
        if before.feedback == after.feedback:
            return self.follow(event.message)
        if before.feedback:
            raise NotTranslatable(f"the hook {event.hook} has words of its own: its bare reason was not kept")
        return self._worded(after, self.follow(event.message))

    def _worded(self, hook: Hook, reason: str) -> str:
        wanted = meta.find_undeclared_variables(Environment().parse(hook.feedback))
        if wanted - {"reason"}:
            raise NotTranslatable(f"the target's hook {hook.key} tells {', '.join(sorted(wanted))}, which was not kept")
        return ENVIRONMENT.from_string(hook.feedback).render(reason=reason).strip()


def _parts(records: Sequence[Record], what: str) -> dict[str, str]:
    return {r.key: r.new for record in records for r in record.renamed if r.what == what}


def _needs_more(records: Sequence[Record]) -> dict[str, str]:
    """Skill key -> where the target has put a part of it."""
    moved = dict.fromkeys(_parts(records, "split"), "another skill")
    for record in records:
        if record.operator == "skill_content.rule_to_file":
            skills = record.parameters.get("skills")
            moved |= {str(k): "a file" for k in skills} if isinstance(skills, list) else {}
    return moved


def _names(source: Harness, target: Harness) -> Iterator[tuple[str, str]]:
    for kind in ("skills", "tools"):
        now = {c.key: c.name for c in getattr(target, kind)}
        for component in getattr(source, kind):
            if component.key in now and now[component.key] != component.name:
                yield component.name, now[component.key]


def _lengths(harness: Harness) -> list[int]:
    return [int(p["max_chars"]) for p in _forms(harness) if p.get("max_chars")]


def _forms(harness: Harness) -> list[dict[str, Any]]:
    return [h.params for h in harness.hooks if h.kind == "builtin" and h.source == "speech_format"]
