"""Fixtures of the harness tests."""

from __future__ import annotations

from typing import Any

import pytest

from livery.harness.hooks.decisions import HookContext
from livery.harness.model import Harness, Section
from livery.types import ChatMessage, Request, RoomState


@pytest.fixture
def bare_harness() -> Harness:
    """The least a harness can be: one section."""
    return Harness(name="bare", sections=(Section(key="role", template="You host a shop."),))


@pytest.fixture
def bare_request() -> Request:
    message = ChatMessage(id="m1", room="r", viewer="v1", text="How much is the blue mug?", at=0.0)
    state = RoomState(room="r", language="en", now=0.0)
    return Request(id="q1", messages=(message,), state=state, created_at=0.0)


@pytest.fixture
def bare_context(bare_harness: Harness, bare_request: Request) -> HookContext:
    params: dict[str, Any] = {}
    return HookContext(harness=bare_harness, request=bare_request, params=params)
