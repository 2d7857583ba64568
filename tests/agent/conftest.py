from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from agent_world import NOW, Script, harness

from livery.agent.live_harness import LiveHarness
from livery.agent.loop import Agent
from livery.errors import PolicyError
from livery.harness.digest import harness_digest
from livery.harness.model import Harness
from livery.shop.catalogue import Catalogue
from livery.shop.registry import shop_operations
from livery.types import ChatMessage, PolicyTurn, Request, RoomState


@pytest.fixture
def catalogue() -> Catalogue:
    return Catalogue.model_validate(
        {
            "store": "Test",
            "currency": "USD",
            "products": [
                {
                    "link_id": "1",
                    "key": "P1",
                    "name": "Steel Bottle",
                    "aliases": ["bottle"],
                    "category": "home",
                    "price": 2500,
                    "stock": 4,
                    "selling_points": ["It keeps tea hot all day."],
                    "faq": [{"question": "Is the bottle dishwasher safe?", "answer": "Yes, both parts are."}],
                },
                {
                    "link_id": "2",
                    "key": "P2",
                    "name": "Cast Pan",
                    "category": "home",
                    "price": 4000,
                    "stock": 0,
                },
            ],
            "shipping": {"regions": [{"name": "Oregon", "fee": 500, "days_min": 2, "days_max": 4}]},
            "policies": [{"topic": "returns", "text": "Unused goods may come back within 30 days."}],
        }
    )


@pytest.fixture
def request_of() -> Callable[..., Request]:
    def make(*texts: str, on_screen: str = "1", **state: Any) -> Request:
        messages = tuple(
            ChatMessage(id=f"m{i}", room="r", viewer=f"v{i}", name=f"V{i}", text=t, at=NOW) for i, t in enumerate(texts)
        )
        room = RoomState(room="r", language="en", now=NOW, on_screen=on_screen, **state)
        return Request(id="q1", messages=messages, state=room, created_at=NOW)

    return make


@pytest.fixture
def run(catalogue: Catalogue, request_of: Callable[..., Request]):
    """Answer one request with a scripted policy; gives (trajectory, policy)."""

    async def answer(
        turns: Sequence[PolicyTurn | PolicyError],
        *texts: str,
        worn: Harness | None = None,
        request: Request | None = None,
        operations: Any = None,
        monotonic: Callable[[], float] | None = None,
    ):
        policy = Script(turns)
        worn = worn or harness()
        operations = operations or shop_operations()
        clocks = {"monotonic": monotonic} if monotonic else {}
        agent = Agent(policy=policy, operations=operations, catalogue=lambda: catalogue, clock=lambda: NOW, **clocks)
        live = LiveHarness(worn, harness_digest(worn), operations)
        trajectory = await agent.answer(request or request_of(*(texts or ("how much is it?",))), live, channel="stable")
        return trajectory, policy

    return answer
