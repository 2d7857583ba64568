"""What the loop itself costs per request, beside pydantic-ai, openai-agents and langgraph on the same script.

The policy answers at once, so that all that is measured is each framework's own work. The script: round 1
loads a skill, round 2 asks for a price, round 3 replies; three rounds, two tools. The tools do the same in
all four: they give the same skill text, and the price comes from the same operation on the same catalogue
(kept current with its files) in the same words. livery runs it with every hook of ``streamer-en`` on
(grounding, claims, schema, ...) and, as a second figure, with none; the peers have no hooks.

No two requests are alike, as in a room: each asks about one of six products in words of its own, and its
reply is its own. What is remembered between requests is what a room could remember too.

All run in one process, in turn, in blocks; the figure of each is the median over blocks of the mean time per
request, on the clock and of the processor (all threads), which other programs disturb less. A ratio is the
median of the blocks' own ratios, so that a slow moment of the machine, which hits neighbouring blocks alike,
cancels. Where livery's time goes is measured in blocks of its own.

    python benchmarks/agent_overhead.py [--requests 100] [--blocks 15]

Needs the ``bench`` dependency group for the peers. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import platform
import statistics
import time
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from livery.agent.formatting import format_result
from livery.agent.live_harness import LiveHarness
from livery.agent.loop import Agent
from livery.harness.digest import harness_digest
from livery.harness.folder import load_harness
from livery.policies.policy import PolicyRequest, PromptMessage
from livery.shop.loading import CatalogueSource
from livery.shop.operations import OperationContext, Operations, Outcome
from livery.shop.registry import shop_operations
from livery.types import ChatMessage, PolicyTurn, Request, RoomState, Route, ToolCall, Trajectory

ROOT = Path(__file__).resolve().parents[1]
NOW = 1_790_000_000.0
SKILL = {"name": "price-promo"}
LINKS = ("1", "2", "3", "5", "6", "8")
SYSTEM = "You are the AI host of a live shopping room."

HARNESS = load_harness(ROOT / "harnesses/streamer-en").harness
OPERATIONS = shop_operations()
SOURCE = CatalogueSource(ROOT / "stores/demo-en")
STATE = RoomState(room="bench", language="en", now=NOW, on_screen="1")
SKILL_TEXT = next(s.body for s in HARNESS.skills if s.name == SKILL["name"]).strip()


# -------------------------------------------------------------------------------- the script


@dataclass(frozen=True, slots=True)
class Script:
    """One request of the benchmark: what is asked, and what the policy will do."""

    question: str
    link: str
    reply: str


def scripts() -> Callable[[], Script]:
    """An endless series of scripts, no two alike."""
    context = OperationContext(catalogue=SOURCE.current(), state=STATE, now=datetime.fromtimestamp(NOW, UTC))
    prices = {
        link: OPERATIONS["pricing.quote"].run(context, {"link_id": link}).value["total"]["text"]  # pyright: ignore
        for link in LINKS
    }
    names = ("".join(letters) for letters in itertools.product("bdfgklmnprst", "aeiou", "bdgkmnrt", "aeiou", "lnrs"))
    numbered = itertools.cycle(LINKS)

    def following() -> Script:
        name, link = next(names).capitalize(), next(numbered)
        return Script(
            question=f"{name} here, how much is number {link}?",
            link=link,
            reply=f"{name}, link {link} is {prices[link]} right now, with the deal already taken off.",
        )

    return following


# ------------------------------------------------------------------------------------- livery


class ThreeRounds:
    """A policy that answers at once: skill, price, reply."""

    uri = "bench:three-rounds"
    weights = "none"
    actions = "text"

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        script: Script = request.info["script"]
        done = sum(m.role == "assistant" for m in request.messages)
        if done == 0:
            return PolicyTurn(calls=(ToolCall(id="1", name="load_skill", arguments=SKILL),), stop="calls")
        if done == 1:
            call = ToolCall(id="2", name="price_check", arguments={"link": script.link})
            return PolicyTurn(calls=(call,), stop="calls")
        return PolicyTurn(text=script.reply)

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> None: ...

    async def aclose(self) -> None: ...


Run = Callable[[Script], Awaitable[Any]]
Check = Callable[[Any, Script], None]


def livery(hooks: bool = True, parts: Counter[str] | None = None) -> tuple[Run, Check]:
    """
    Args:
        hooks: with all of the harness's, or with none.
        parts: seconds spent in each part of the loop are added here.
    """
    harness = HARNESS if hooks else HARNESS.replace(hooks=())
    operations = OPERATIONS if parts is None else TimedOperations(OPERATIONS, parts)
    live = LiveHarness(harness, harness_digest(harness), operations)
    if parts is not None:
        live.hooks.run = timed_async(live.hooks.run, parts, "hooks")
        live.prompt.render = timed(live.prompt.render, parts, "prompt")
        live.prompt.evidence = timed(live.prompt.evidence, parts, "prompt")
    agent = Agent(policy=ThreeRounds(), operations=operations, catalogue=SOURCE.current)  # pyright: ignore
    numbers = itertools.count()

    async def run(script: Script) -> Trajectory:
        number = f"m{next(numbers)}"
        message = ChatMessage(id=number, room="bench", viewer=number, text=script.question, at=NOW)
        request = Request(id=number, messages=(message,), state=STATE, created_at=NOW)
        return await agent.answer(request, live, info={"script": script})

    def check(trajectory: Trajectory, script: Script) -> None:
        assert trajectory.route is Route.AGENT, trajectory.route_reason
        assert trajectory.reply == script.reply
        assert len(trajectory.turns) == 3
        assert all(r.ok for r in trajectory.results), trajectory.results
        skill, price = trajectory.results
        assert skill.text == SKILL_TEXT and price.text == price_text(script.link)
        assert not [h for h in trajectory.hooks if h.failure or h.decision in ("retry", "block")]
        ran = {h.hook for h in trajectory.hooks}
        assert ran == ({h.key for h in harness.hooks}), "every hook must have run"

    return run, check


class TimedOperations(Operations):
    def __init__(self, operations: Operations, parts: Counter[str]) -> None:
        super().__init__(operations.values())
        self._parts = parts

    async def call(self, name: str, arguments: Mapping[str, Any], context: OperationContext) -> Outcome:
        start = time.perf_counter()
        try:
            return await super().call(name, arguments, context)
        finally:
            self._parts["operations"] += time.perf_counter() - start  # pyright: ignore


def timed(function: Callable[..., Any], parts: Counter[str], name: str) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            parts[name] += time.perf_counter() - start  # pyright: ignore

    return run


def timed_async(function: Callable[..., Any], parts: Counter[str], name: str) -> Callable[..., Any]:
    async def run(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return await function(*args, **kwargs)
        finally:
            parts[name] += time.perf_counter() - start  # pyright: ignore

    return run


# -------------------------------------------------------------------------------------- peers


PRICE_FORMAT = LiveHarness(HARNESS, "", OPERATIONS).tools["price_check"]


def price_text(link: str) -> str:
    """What `price_check` answers."""
    context = OperationContext(catalogue=SOURCE.current(), state=STATE, now=datetime.fromtimestamp(NOW, UTC))
    outcome = OPERATIONS["pricing.quote"].run(context, {"link_id": link})
    assert isinstance(outcome, Outcome)
    return format_result(outcome.value, PRICE_FORMAT.tool.result, PRICE_FORMAT.template)


async def load_skill(name: str) -> str:
    """Read a skill before you follow it."""
    return SKILL_TEXT


async def price_check(link: str) -> str:
    """Final price with deals and coupons."""
    return price_text(link)


def pydantic_ai() -> tuple[Run, Check]:
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    script: Script

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        done = sum(isinstance(m, ModelResponse) for m in messages)
        if done == 0:
            return ModelResponse(parts=[ToolCallPart("load_skill", SKILL)])
        if done == 1:
            return ModelResponse(parts=[ToolCallPart("price_check", {"link": script.link})])
        return ModelResponse(parts=[TextPart(script.reply)])

    agent = PydanticAgent(FunctionModel(model), system_prompt=SYSTEM, tools=[load_skill, price_check])

    async def run(following: Script) -> Any:
        nonlocal script
        script = following
        return await agent.run(script.question)

    def check(result: Any, script: Script) -> None:
        assert result.output == script.reply
        assert price_text(script.link) in str(result.all_messages())
        assert result.usage.requests == 3 if not callable(result.usage) else result.usage().requests == 3

    return run, check


def openai_agents() -> tuple[Run, Check]:
    from agents import Agent as OpenAIAgent
    from agents import Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    set_tracing_disabled(True)
    script: Script

    class Scripted(Model):
        async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
            items = input if isinstance(input, list) else []
            done = sum(i.get("type") == "function_call_output" for i in items if isinstance(i, dict))
            if done < 2:
                name, arguments = [("load_skill", SKILL), ("price_check", {"link": script.link})][done]
                item: Any = ResponseFunctionToolCall(
                    arguments=json.dumps(arguments), call_id=f"c{done}", name=name, type="function_call"
                )
            else:
                text = ResponseOutputText(text=script.reply, type="output_text", annotations=[])
                item = ResponseOutputMessage(
                    id="m", content=[text], role="assistant", status="completed", type="message"
                )
            return ModelResponse(output=[item], usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            raise NotImplementedError("the benchmark does not stream")

    agent = OpenAIAgent(
        name="host",
        instructions=SYSTEM,
        model=Scripted(),
        tools=[function_tool(load_skill), function_tool(price_check)],
    )

    async def run(following: Script) -> Any:
        nonlocal script
        script = following
        return await Runner.run(agent, script.question)

    def check(result: Any, script: Script) -> None:
        assert result.final_output == script.reply
        assert price_text(script.link) in str(result.to_input_list())
        assert len(result.raw_responses) == 3

    return run, check


def langgraph() -> tuple[Run, Check]:
    from langchain_core.messages import AIMessage
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    script: Script

    async def model(state: Any) -> dict[str, Any]:
        done = sum(isinstance(m, AIMessage) for m in state["messages"])
        if done < 2:
            name, arguments = [("load_skill", SKILL), ("price_check", {"link": script.link})][done]
            calls = [{"name": name, "args": arguments, "id": f"c{done}", "type": "tool_call"}]
            return {"messages": [AIMessage(content="", tool_calls=calls)]}
        return {"messages": [AIMessage(content=script.reply)]}

    def route(state: Any) -> str:
        return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([load_skill, price_check]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", route, ["tools", END])
    graph.add_edge("tools", "model")
    app = graph.compile()

    async def run(following: Script) -> Any:
        nonlocal script
        script = following
        return await app.ainvoke({"messages": [("system", SYSTEM), ("user", script.question)]})

    def check(result: Any, script: Script) -> None:
        assert result["messages"][-1].content == script.reply
        assert price_text(script.link) in [m.content for m in result["messages"]]
        assert len(result["messages"]) == 7

    return run, check


# ---------------------------------------------------------------------------------- measuring

PEERS = ("pydantic-ai", "openai-agents", "langgraph")
PARTS = ("hooks", "operations", "prompt")
"""Of livery's loop, by the clock; the rest is ``other``: rounds, result texts, trajectory, store files."""


async def block(run: Run, following: Callable[[], Script], requests: int) -> tuple[float, float]:
    """Mean seconds per request over one block: on the clock, and of the processor."""
    todo = [following() for _ in range(requests)]
    start, cpu = time.perf_counter(), time.process_time()
    for script in todo:
        await run(script)
    return (time.perf_counter() - start) / requests, (time.process_time() - cpu) / requests


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100, help="requests in a block")
    parser.add_argument("--blocks", type=int, default=15)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    parts: Counter[str] = Counter()
    makers = {
        "livery": livery,
        "livery without hooks": lambda: livery(hooks=False),
        "pydantic-ai": pydantic_ai,
        "openai-agents": openai_agents,
        "langgraph": langgraph,
        "livery, parts": lambda: livery(parts=parts),
    }
    ready = {name: make() for name, make in makers.items()}
    times: dict[str, list[float]] = {name: [] for name in ready}
    cpu: dict[str, list[float]] = {name: [] for name in ready}
    shares: list[dict[str, float]] = []

    async def measure() -> None:
        following = scripts()
        for run, check in ready.values():
            for _ in LINKS:
                script = following()
                check(await run(script), script)
            await block(run, following, max(5, options.requests // 10))
        for _ in range(options.blocks):
            for name, (run, _) in ready.items():
                parts.clear()
                seconds, of_processor = await block(run, following, options.requests)
                times[name].append(seconds)
                cpu[name].append(of_processor)
                if parts:
                    spent = {part: parts[part] / options.requests for part in PARTS}
                    shares.append({**spent, "other": seconds - sum(spent.values())})

    asyncio.run(measure())
    del times["livery, parts"]
    median = {name: statistics.median(t) for name, t in times.items()}
    cpu_median = {name: statistics.median(cpu[name]) for name in times}
    fastest = min(PEERS, key=cpu_median.__getitem__)

    def ratio(name: str, measured: dict[str, list[float]]) -> float:
        pairs = zip(measured[name], measured[fastest], strict=True)
        return round(statistics.median(own / peer for own, peer in pairs), 4)

    for name, seconds in median.items():
        print(
            f"{name:22} {seconds * 1e3:8.3f} ms a request   {cpu_median[name] * 1e3:8.3f} ms of processor   "
            f"{cpu_median[name] / cpu_median['livery']:6.2f} x livery"
        )
    figures = {
        "ms_per_request": {n: round(s * 1e3, 4) for n, s in median.items()},
        "cpu_ms_per_request": {n: round(s * 1e3, 4) for n, s in cpu_median.items()},
        "fastest_peer": fastest,
        "livery_to_fastest_peer": ratio("livery", times),
        "livery_to_fastest_peer_cpu": ratio("livery", cpu),
        "livery_without_hooks_to_fastest_peer": ratio("livery without hooks", times),
        "livery_without_hooks_to_fastest_peer_cpu": ratio("livery without hooks", cpu),
        "livery_parts_ms": {
            part: round(statistics.median(s[part] for s in shares) * 1e3, 4) for part in (*PARTS, "other")
        },
        "requests": options.requests,
        "blocks": options.blocks,
        "python": platform.python_version(),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
