"""Operations that fail by plan: the right failure, the right number of times, and no waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from livery.shop.operations import OperationContext, OperationError, Operations, Outcome
from livery.shop.registry import shop_operations
from livery.simulator.faults import (
    NO_FAULTS,
    SLOW_S,
    FaultyOperations,
    no_sleep,
    operations_for,
    plan_faults,
)
from livery.simulator.mix import Mix
from livery.simulator.task import Fault, Needed
from livery.simulator.tasks import make_tasks
from livery.simulator.worlds import make_world
from livery.types import ErrorKind, RoomState

WORLD = make_world("train", "en", 3)
LINK = next(p.link_id for p in WORLD.catalogue.products if p.status == "on_sale" and p.total_stock)
CONTEXT = OperationContext(
    catalogue=WORLD.catalogue,
    state=RoomState(room="r", language="en", now=WORLD.opens_at.timestamp()),
    now=WORLD.opens_at,
)
QUOTE = {"link_id": LINK}


def faulty(*faults: Fault, seed: int = 1) -> FaultyOperations:
    return FaultyOperations(shop_operations(), faults, Random(seed), no_sleep)


async def call(operations: Operations, name: str = "pricing.quote", arguments: Mapping[str, Any] = QUOTE) -> Outcome:
    return await operations.call(name, arguments, CONTEXT)


async def test_without_a_fault_it_is_the_real_operation():
    operations = faulty(Fault(operation="stock.check", kind="timeout"))
    real = await call(shop_operations())
    assert await call(operations) == real
    assert list(operations) == list(shop_operations())


async def test_a_timeout_comes_at_once_as_often_as_planned_and_then_it_recovers():
    operations = faulty(Fault(operation="pricing.quote", kind="timeout", times=2))
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await call(operations)
    assert (await call(operations)).value == (await call(shop_operations())).value
    assert operations.calls == {"pricing.quote": 3}


@pytest.mark.parametrize(
    ("kind", "error"),
    [("malformed", ErrorKind.MALFORMED), ("permission_denied", ErrorKind.PERMISSION_DENIED),
     ("unavailable", ErrorKind.UNAVAILABLE)],
)  # fmt: skip
async def test_errors_have_their_kind(kind: Any, error: ErrorKind):
    operations = faulty(Fault(operation="pricing.quote", kind=kind))
    with pytest.raises(OperationError) as raised:
        await call(operations)
    assert raised.value.kind is error
    assert raised.value.message


async def test_zero_times_is_for_good_and_permission_never_comes_back():
    operations = faulty(
        Fault(operation="pricing.quote", kind="unavailable", times=0),
        Fault(operation="stock.check", kind="permission_denied", times=1),
    )
    for name in ("pricing.quote", "stock.check") * 4:
        with pytest.raises(OperationError):
            await call(operations, name)


async def test_empty_results_keep_their_shape():
    operations = faulty(Fault(operation="pricing.quote", kind="empty"), Fault(operation="catalog.search", kind="empty"))
    assert (await call(operations)).value == {}
    assert (await call(operations, "catalog.search", {"query": "lamp"})).value == {"results": []}
    assert (await call(operations)).value != {}


async def test_an_empty_result_does_not_hide_bad_arguments():
    operations = faulty(Fault(operation="pricing.quote", kind="empty", times=0))
    with pytest.raises(OperationError) as raised:
        await call(operations, arguments={"link_id": LINK, "quantity": 0})
    assert raised.value.kind is ErrorKind.INVALID_ARGUMENTS


async def test_a_slow_call_is_right_and_waits_only_through_what_it_is_given():
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    fault = Fault(operation="pricing.quote", kind="slow", times=1)
    operations = FaultyOperations(shop_operations(), (fault,), Random(5), sleep)
    real = await call(shop_operations())
    assert await call(operations) == real
    assert await call(operations) == real
    assert len(waited) == 1
    assert SLOW_S[0] <= waited[0] <= SLOW_S[1]


async def test_a_stale_result_has_other_prices_and_says_of_when_it_is():
    operations = faulty(Fault(operation="pricing.quote", kind="stale"))
    stale = (await call(operations)).value
    fresh = (await call(operations)).value
    assert isinstance(stale, dict)
    assert isinstance(fresh, dict)
    assert stale["stale"] is True
    assert stale["list_price"] != fresh["list_price"]
    assert str(stale["as_of"]["at"]) < WORLD.opens_at.isoformat()  # type: ignore[index,call-overload]
    assert "stale" not in fresh
    # The catalogue that others share has not changed.
    assert fresh == (await call(shop_operations())).value


async def test_calls_of_one_turn_share_the_count():
    operations = faulty(Fault(operation="pricing.quote", kind="unavailable", times=1))
    results = await asyncio.gather(*(call(operations) for _ in range(3)), return_exceptions=True)
    assert [isinstance(r, OperationError) for r in results] == [True, False, False]


async def test_a_seed_gives_the_same_faults_again():
    fault = Fault(operation="pricing.quote", kind="stale")
    assert (await call(faulty(fault, seed=4))).value == (await call(faulty(fault, seed=4))).value
    assert (await call(faulty(fault, seed=4))).value != (await call(faulty(fault, seed=5))).value


def test_plans_are_made_only_where_a_right_answer_is_left():
    quote = Needed(operation="pricing.quote", arguments=QUOTE)
    search = Needed(operation="catalog.search", arguments={"query": "lamp"})
    priced = quote.model_copy(update={"step": 1})
    rng = Random(0)
    assert plan_faults((), {"link"}, rng, recoverable=True) is NO_FAULTS
    for _ in range(50):
        assert plan_faults((search, priced), {"name"}, rng, recoverable=False) is NO_FAULTS
        assert plan_faults((quote,), {"on_screen"}, rng, recoverable=False) is NO_FAULTS
        lasting = plan_faults((quote,), {"link"}, rng, recoverable=False)
        assert {"pricing.quote", "catalog.get_product", "catalog.search"} <= lasting.dead
        assert lasting.screen_off
        deals = Needed(operation="promotions.list", arguments=QUOTE)
        both = plan_faults((deals, quote), {"link"}, rng, recoverable=False)
        assert {"pricing.quote", "catalog.search", "catalog.compare"} <= both.dead  # the price is nowhere else
        (fault,) = plan_faults((search, priced), {"name"}, rng, recoverable=True).faults
        assert fault.times == 1
        product = Needed(operation="catalog.get_product", arguments=QUOTE)
        assert plan_faults((product,), {"on_screen"}, rng, recoverable=True) is NO_FAULTS


async def test_a_task_brings_its_own_operations():
    operations = shop_operations()
    tasks = make_tasks("train", "en", 80, 11, mix=Mix(faults=0.5))
    plain = next(t for t in tasks if not t.faults)
    assert operations_for(plain, operations) is operations
    broken = next(t for t in tasks if "unrecoverable" in t.tags and "fault:stale" not in t.tags)
    first, second = operations_for(broken, operations), operations_for(broken, operations)
    assert first is not second
    assert isinstance(first, FaultyOperations)
    assert set(first) == set(operations)
