"""What the loop itself costs per request, beside pydantic-ai, openai-agents and langgraph on the same script.

The policy answers at once, so that all that is measured is each framework's own work. The script: round 1 loads a skill,
round 2 asks for a price, round 3 replies; two tools, three rounds. livery runs it with every hook of ``streamer-en`` on
(grounding, claims, schema, ...); the peers have no hooks and only call two functions. All four run in one process, in
turn, in blocks; the figure of each is the median over blocks of the mean time per request.

    python benchmarks/agent_overhead.py [--requests 200] [--blocks 9]

Needs the ``bench`` dependency group for the peers. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import statistics
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from livery.agent.live_harness import LiveHarness
from livery.agent.loop import Agent
from livery.harness.digest import harness_digest
from livery.harness.folder import load_harness
from livery.policies.policy import PolicyRequest, PromptMessage
from livery.shop.loading import CatalogueSource
from livery.shop.registry import shop_operations
from livery.types import ChatMessage, PolicyTurn, Request, RoomState, Route, ToolCall, Trajectory

ROOT = Path(__file__).resolve().parents[1]
SKILL = {"name": "price-promo"}
PRICE = {"link": "1"}
QUESTION = "how much is number 1?"
NOW = 1_790_000_000.0


def skill_text() -> str:
    return (ROOT / "harnesses/streamer-en/skills/price-promo/SKILL.md").read_text()


# ------------------------------------------------------------------------------------- livery


class ThreeRounds:
    """A policy that answers at once: skill, price, reply."""

    uri = "bench:three-rounds"
    weights = "none"
    actions = "text"
    reply = ""

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        done = sum(m.role == "assistant" for m in request.messages)
        if done == 0:
            return PolicyTurn(calls=(ToolCall(id="1", name="load_skill", arguments=SKILL),), stop="calls")
        if done == 1:
            return PolicyTurn(calls=(ToolCall(id="2", name="price_check", arguments=PRICE),), stop="calls")
        return PolicyTurn(text=self.reply)

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> None: ...

    async def aclose(self) -> None: ...


def livery() -> tuple[Callable[[], Awaitable[Any]], Callable[[Any], None]]:
    harness = load_harness(ROOT / "harnesses/streamer-en").harness
    operations = shop_operations()
    source = CatalogueSource(ROOT / "stores/demo-en")
    live = LiveHarness(harness, harness_digest(harness), operations)
    policy = ThreeRounds()
    agent = Agent(policy=policy, operations=operations, catalogue=source.current)
    state = RoomState(room="bench", language="en", now=NOW, on_screen="1")
    message = ChatMessage(id="m", room="bench", viewer="v", name="Ann", text=QUESTION, at=NOW)
    request = Request(id="r", messages=(message,), state=state, created_at=NOW)

    def check(trajectory: Trajectory) -> None:
        assert trajectory.route is Route.AGENT, trajectory.route_reason
        assert len(trajectory.turns) == 3
        assert all(r.ok for r in trajectory.results), trajectory.results
        assert not [h for h in trajectory.hooks if h.failure or h.decision in ("retry", "block")]
        assert len({h.hook for h in trajectory.hooks}) >= 8, "all hooks must have run"

    async def run() -> Trajectory:
        return await agent.answer(request, live)

    # The reply states the price that the tool gives, so that grounding has something to verify.
    probe = asyncio.run(agent.answer(request, live))
    price = probe.results[1].value["final"]["text"]  # pyright: ignore
    policy.reply = f"Link one is {price} right now, with the deal on this page already taken off."
    return run, check


# -------------------------------------------------------------------------------------- peers


def load_skill(name: str) -> str:
    """Read a skill before you follow it."""
    return SKILL_TEXT


def price_check(link: str) -> str:
    """Final price with deals and coupons."""
    return "final: $25.49"


SKILL_TEXT = skill_text()
REPLY = "Link one is $25.49 right now, with the deal on this page already taken off."
SYSTEM = "You are the AI host of a live shopping room."


def pydantic_ai() -> tuple[Callable[[], Awaitable[Any]], Callable[[Any], None]]:
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        done = sum(isinstance(m, ModelResponse) for m in messages)
        if done == 0:
            return ModelResponse(parts=[ToolCallPart("load_skill", SKILL)])
        if done == 1:
            return ModelResponse(parts=[ToolCallPart("price_check", PRICE)])
        return ModelResponse(parts=[TextPart(REPLY)])

    agent = PydanticAgent(FunctionModel(model), system_prompt=SYSTEM, tools=[load_skill, price_check])

    async def run() -> Any:
        return await agent.run(QUESTION)

    def check(result: Any) -> None:
        assert result.output == REPLY
        assert result.usage.requests == 3 if not callable(result.usage) else result.usage().requests == 3

    return run, check


def openai_agents() -> tuple[Callable[[], Awaitable[Any]], Callable[[Any], None]]:
    from agents import Agent as OpenAIAgent
    from agents import Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    set_tracing_disabled(True)

    class Scripted(Model):
        async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
            items = input if isinstance(input, list) else []
            done = sum(i.get("type") == "function_call_output" for i in items if isinstance(i, dict))
            if done < 2:
                name, arguments = [("load_skill", SKILL), ("price_check", PRICE)][done]
                item: Any = ResponseFunctionToolCall(
                    arguments=json.dumps(arguments), call_id=f"c{done}", name=name, type="function_call"
                )
            else:
                text = ResponseOutputText(text=REPLY, type="output_text", annotations=[])
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

    async def run() -> Any:
        return await Runner.run(agent, QUESTION)

    def check(result: Any) -> None:
        assert result.final_output == REPLY
        assert len(result.raw_responses) == 3

    return run, check


def langgraph() -> tuple[Callable[[], Awaitable[Any]], Callable[[Any], None]]:
    from langchain_core.messages import AIMessage
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    async def model(state: Any) -> dict[str, Any]:
        done = sum(isinstance(m, AIMessage) for m in state["messages"])
        if done < 2:
            name, arguments = [("load_skill", SKILL), ("price_check", PRICE)][done]
            calls = [{"name": name, "args": arguments, "id": f"c{done}", "type": "tool_call"}]
            return {"messages": [AIMessage(content="", tool_calls=calls)]}
        return {"messages": [AIMessage(content=REPLY)]}

    def route(state: Any) -> str:
        return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([load_skill, price_check]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", route, ["tools", END])
    graph.add_edge("tools", "model")
    app = graph.compile()

    async def run() -> Any:
        return await app.ainvoke({"messages": [("system", SYSTEM), ("user", QUESTION)]})

    def check(result: Any) -> None:
        assert result["messages"][-1].content == REPLY
        assert len(result["messages"]) == 7

    return run, check


PEERS = {"livery": livery, "pydantic-ai": pydantic_ai, "openai-agents": openai_agents, "langgraph": langgraph}


async def block(run: Callable[[], Awaitable[Any]], requests: int) -> float:
    """Mean seconds per request over one block."""
    start = time.perf_counter()
    for _ in range(requests):
        await run()
    return (time.perf_counter() - start) / requests


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200, help="requests in a block")
    parser.add_argument("--blocks", type=int, default=9)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    ready = {name: make() for name, make in PEERS.items()}
    times: dict[str, list[float]] = {name: [] for name in ready}

    async def measure() -> None:
        for run, check in ready.values():
            check(await run())
            await block(run, max(5, options.requests // 10))
        for _ in range(options.blocks):
            for name, (run, _) in ready.items():
                times[name].append(await block(run, options.requests))

    asyncio.run(measure())
    median = {name: statistics.median(t) for name, t in times.items()}
    fastest = min((n for n in median if n != "livery"), key=median.__getitem__)
    for name, seconds in median.items():
        print(f"{name:15} {seconds * 1e3:8.3f} ms a request   {seconds / median['livery']:6.2f} x livery")
    figures = {
        "ms_per_request": {n: round(s * 1e3, 4) for n, s in median.items()},
        "fastest_peer": fastest,
        "livery_to_fastest_peer": round(median["livery"] / median[fastest], 4),
        "requests": options.requests,
        "blocks": options.blocks,
        "python": platform.python_version(),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
