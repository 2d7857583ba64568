"""The simulator behind other libraries' interfaces, each with its own library where that is installed."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from livery.harness.folder import load_harness
from livery.policies.policy import PolicyRequest, PromptMessage, ToolSurface
from livery.simulator.oracle import OraclePolicy
from livery.simulator.packages.setting import Setting
from livery.simulator.stepping import WEIGHTS, Ended, Episode, openai_tools, reward_of
from livery.simulator.task import Scores
from livery.simulator.tasks import make_tasks
from livery.types import PolicyTurn, ToolCall

HARNESS = Path(__file__).parents[2] / "harnesses" / "streamer-en"


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        pytest.skip(f"{name} is not installed; it is no dependency of livery")


# ------------------------------------------------------------------------------------ stepping


def test_an_episode_stepped_from_outside_earns_what_the_same_policy_earns_inside() -> None:
    harness = load_harness(HARNESS).harness

    async def played() -> list[Scores]:
        found: list[Scores] = []
        for task in make_tasks("train", "en", 12, 3):
            policy = OraclePolicy(task=task, harness=harness)
            episode = Episode(task, harness)
            step = await episode.start()
            while not isinstance(step, Ended):
                step = await episode.act(await policy.act(step))
            found.append(step.scores)
        return found

    assert all(s.full for s in asyncio.run(played()))


def test_an_ended_episode_takes_no_turn_and_an_open_one_can_be_closed() -> None:
    harness = load_harness(HARNESS).harness
    task = next(t for t in make_tasks("train", "en", 20, 3) if t.needed)

    async def course() -> None:
        episode = Episode(task, harness)
        with pytest.raises(RuntimeError, match="start the episode"):
            await episode.act(PolicyTurn(text="hello"))
        assert isinstance(await episode.start(), PolicyRequest)
        with pytest.raises(RuntimeError, match="started already"):
            await episode.start()
        await episode.close()
        with pytest.raises(RuntimeError, match="no turn is awaited"):
            await episode.act(PolicyTurn(text="hello"))

    asyncio.run(course())


def test_the_reward_is_the_weighted_sum_of_four_scores() -> None:
    assert sum(WEIGHTS.values()) == pytest.approx(1.0)
    full = Scores(accuracy=1, effectiveness=1, tool_rationality=1, skill_selection=1)
    half = Scores(accuracy=1, effectiveness=0.5, tool_rationality=0.8, skill_selection=0)
    assert reward_of(full) == pytest.approx(1.0)
    assert reward_of(half) == pytest.approx(0.4 + 0.15 + 0.12)


def test_a_setting_gives_each_task_a_variant_of_its_own() -> None:
    pairs = list(Setting(str(HARNESS), variants="train").pairs(3))
    assert len({h.model_dump_json() for _, h in pairs}) == 3
    again = list(Setting(str(HARNESS), variants="train").pairs(3))
    assert [(t.id, h) for t, h in pairs] == [(t.id, h) for t, h in again]
    assert all(h == Setting(str(HARNESS)).base for _, h in Setting(str(HARNESS)).pairs(2))


# ---------------------------------------------------------------------------------- other libraries


def _request(messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]], **allow: bool) -> PolicyRequest:
    return PolicyRequest(
        messages=tuple(
            PromptMessage(
                role=m["role"], content=m["content"], call_id=m.get("tool_call_id", ""),
                calls=tuple(ToolCall(id=c["id"], name=c["name"], arguments=c["arguments"]) for c in m.get("tool_calls", ())),
            )
            for m in messages
        ),
        tools=tuple(
            ToolSurface(name=t["name"], description=t["description"], input_schema=t["parameters"])
            for t in (t["function"] for t in tools)
        ),
        max_tokens=200, timeout_s=9, **allow,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_openenv_session_shows_each_episode_the_tools_of_its_own_harness() -> None:
    _library("openenv.core")
    from livery.simulator.packages.openenv_session import HostAction, HostCall, LiverySession

    setting = Setting(str(HARNESS), variants="train")

    async def course() -> list[tuple[float, list[str]]]:
        found: list[tuple[float, list[str]]] = []
        for place in (0, 1, 2, 4):
            session = LiverySession(setting)
            policy = OraclePolicy(task=setting.tasks(place + 1)[place], harness=setting.harness_for(place))
            seen = await session.reset_async(seed=place)
            names = [t["function"]["name"] for t in seen.tools]
            while not seen.done:
                turn = await policy.act(
                    _request(seen.messages, seen.tools, allow_calls=seen.allow_calls, allow_reply=seen.allow_reply)
                )
                calls = [HostCall(name=c.name, arguments=dict(c.arguments)) for c in turn.calls]
                seen = await session.step_async(HostAction(calls=calls, text=turn.text))
            found.append((float(seen.reward or 0), names))
        return found

    played = asyncio.run(course())
    assert [round(reward, 6) for reward, _ in played] == [1.0] * 4
    assert len({tuple(names) for _, names in played}) > 1


@pytest.mark.filterwarnings("ignore")
def test_inspect_task_scores_what_a_model_does_with_the_verifier(tmp_path: Path) -> None:
    inspect_ai = _library("inspect_ai")
    from inspect_ai.model import ChatMessageAssistant, ModelOutput, ModelUsage, get_model
    from inspect_ai.tool import ToolCall as InspectCall

    from livery.simulator.packages.inspect_task import livery_host

    setting = Setting(str(HARNESS))
    tasks = setting.tasks(6)

    def answer(messages: list[Any], tools: list[Any], choice: Any, config: Any) -> Any:
        shown = "\n".join(m.text for m in messages)
        task = next(t for t in tasks if all(m.text in shown for m in t.request.messages))
        plain = [
            {
                "role": m.role, "content": m.text, "tool_call_id": getattr(m, "tool_call_id", "") or "",
                "tool_calls": [{"id": c.id, "name": c.function, "arguments": c.arguments} for c in getattr(m, "tool_calls", None) or ()],
            }
            for m in messages
        ]  # fmt: skip
        given = [{"function": {"name": t.name, "description": t.description, "parameters": {}}} for t in tools]
        turn = PolicyTurn()
        # The oracle never waits: its coroutine is run by hand.
        coroutine = OraclePolicy(task=task, harness=setting.base).act(_request(plain, given, allow_calls=bool(tools)))
        try:
            coroutine.send(None)
        except StopIteration as done:
            turn = done.value
        calls = [InspectCall(id=c.id, function=c.name, arguments=dict(c.arguments)) for c in turn.calls]
        output = ModelOutput.from_message(ChatMessageAssistant(content=turn.text, tool_calls=calls or None))
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    (log,) = inspect_ai.eval(
        livery_host(str(HARNESS), count=6, split="train"), model=get_model("mockllm/model", custom_outputs=answer),
        log_dir=str(tmp_path), display="none",
    )  # fmt: skip
    assert log.status == "success", log.error
    values = [next(iter(s.scores.values())).value for s in log.samples]
    assert [v["reward"] for v in values] == pytest.approx([1.0] * 6)
    assert {"accuracy", "effectiveness", "tool_rationality", "skill_selection", "reward"} == set(values[0])


def test_tools_in_the_openai_form_keep_their_schemas() -> None:
    surface = ToolSurface(
        name="a", description="b", input_schema={"type": "object", "properties": {"x": {"type": "string"}}}
    )
    request = PolicyRequest(messages=(), tools=(surface,), max_tokens=1, timeout_s=1)
    assert openai_tools(request)[0]["function"]["parameters"]["properties"] == {"x": {"type": "string"}}
