"""Fixtures of the shop's tests: the sample stores, and a way to run one operation at a fixed time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from livery.shop.catalogue import Catalogue
from livery.shop.loading import load_catalogue
from livery.shop.operations import OperationContext, Outcome
from livery.shop.registry import shop_operations
from livery.types import RoomState

STORES = Path(__file__).parents[2] / "stores"
NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="session")
def english() -> Catalogue:
    return load_catalogue(STORES / "demo-en")


@pytest.fixture(scope="session")
def chinese() -> Catalogue:
    return load_catalogue(STORES / "demo-zh")


class Caller:
    """``call("catalog.get_product", link_id="3")`` on one catalogue at one time."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.operations = shop_operations()

    def outcome(self, name: str, /, *, now: datetime = NOW, on_screen: str = "", **arguments: Any) -> Outcome:
        state = RoomState(
            room="r",
            language=self.catalogue.language,
            now=now.timestamp(),
            on_screen=on_screen,
            streamer="Finn",
            notes={"guest": "Ann"},
        )
        context = OperationContext(catalogue=self.catalogue, state=state, now=now)
        return asyncio.run(self.operations.call(name, arguments, context))

    def __call__(self, operation: str, /, **arguments: Any) -> Any:
        return self.outcome(operation, **arguments).value


@pytest.fixture
def en(english: Catalogue) -> Caller:
    return Caller(english)


@pytest.fixture
def zh(chinese: Catalogue) -> Caller:
    return Caller(chinese)
