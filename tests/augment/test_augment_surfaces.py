"""What the runtime had to learn so that surfaces can vary: error codes, pages, a field called result, frames of replies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from augment_harnesses import carpenter

from livery.agent.binding import bind
from livery.agent.formatting import format_error, format_result
from livery.agent.prompt import ENVIRONMENT
from livery.harness.digest import harness_digest
from livery.harness.hooks.decisions import Allow, HookContext, Retry
from livery.harness.hooks.loading import load_hooks
from livery.harness.hooks.run import HookRunner
from livery.harness.lint import lint
from livery.harness.model import ArgumentMap, Binding, Harness, Hook, ResultFormat, Section, Tool
from livery.types import ChatMessage, Checkpoint, ErrorKind, Request, RoomState, Route, ToolError

MISSING = ToolError(kind=ErrorKind.NOT_FOUND, message="no link 9")


@pytest.mark.parametrize(
    ("style", "text"),
    [
        ("json", '{"error": "E404", "message": "no link 9"}'),
        ("xml", '<error kind="E404">no link 9</error>'),
        ("key_value", "error (E404): no link 9"),
    ],
)
def test_an_error_is_told_by_the_tools_own_code(style: Any, text: str):
    assert format_error(MISSING, ResultFormat(style=style, errors={"not_found": "E404"})) == text
    assert "not_found" in format_error(MISSING, ResultFormat(style=style, errors={"timeout": "E408"}))


def test_no_codes_of_its_own_change_no_digest():
    base = carpenter()
    same = base.replace(tools=tuple(t.model_copy(update={"result": ResultFormat(errors={})}) for t in base.tools))
    assert harness_digest(same) == harness_digest(base)


def test_the_page_is_not_an_argument_of_the_operation():
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    binding = Binding(operation="x", arguments=(ArgumentMap(to="page", source="sheet"),))
    assert bind(binding, {"query": "tea", "sheet": 2}, parameters) == {"query": "tea"}
    paged = {**parameters, "properties": {**parameters["properties"], "page": {"type": "integer"}}}
    assert bind(binding, {"query": "tea", "sheet": 2}, paged) == {"query": "tea", "page": 2}


def test_a_result_with_a_field_called_result_is_shown_by_a_template():
    how = ResultFormat(style="prose", template="{{ size }}: {{ result.size }}")
    shown = format_result({"result": "fits", "size": "M"}, how, ENVIRONMENT.from_string(how.template))
    assert shown == "M: M"


@pytest.mark.parametrize(("route", "decision"), [(Route.AGENT, Retry), (Route.DEGRADED, Allow)])
def test_only_the_policy_is_held_to_an_opening_and_a_close(route: Route, decision: type):
    hook = Hook(
        key="form",
        checkpoint=Checkpoint.REPLY,
        kind="builtin",
        source="speech_format",
        params={"prefix": "Hi!", "sign_off": "Bye!"},
        on_failure="block",
    )
    harness = Harness(name="h", sections=(Section(key="c", template="x"),), hooks=(hook,))
    message = ChatMessage(id="m", room="r", viewer="v", text="hi", at=0.0)
    request = Request(id="q", messages=(message,), state=RoomState(room="r", language="en", now=0.0), created_at=0.0)
    context = HookContext(harness=harness, request=request, params={}, route=route)
    runner = HookRunner(harness, load_hooks(harness))
    outcome = asyncio.run(runner.run(Checkpoint.REPLY, "It is soft.", context, budget_s=5.0))
    assert isinstance(outcome.decision, decision)


def test_lint_knows_names_with_dots_and_slashes():
    def named(name: str) -> list[str]:
        tool = Tool(
            key="t", name=name, description="d", input_schema={"type": "object"}, binding=Binding(operation="x")
        )
        section = Section(key="c", volatility="request", template=f"Call `{name}` or `{name}(x)`. {{{{ chat }}}}")
        found = lint(Harness(name="h", sections=(section,), tools=(tool,)))
        return [p.code for p in found if p.code == "name-unknown"]

    assert named("kb/look-up.now") == []
    wrong = Section(key="c", volatility="request", template="Call `look-up.then`. {{ chat }}")
    assert "name-unknown" in [p.code for p in lint(Harness(name="h", sections=(wrong,)))]
