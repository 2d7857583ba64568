"""Operations with faults: the real operations of a shop, failing by plan.

`FaultyOperations` counts calls per operation; the first ``times`` of them go wrong as the `Fault` says (all
of them where it is 0), later ones run as ever. Time is virtual: a time-out raises at once what the agent
would see when the tool's own limit runs out, and a slow call sleeps through the ``sleep`` it is given, so
that a simulation never waits.

=================  ====================================================================================
``timeout``        `TimeoutError`, which the agent answers as ``timeout``
``malformed``      `OperationError` ``malformed_result``: a gateway could not read what came back
``permission_denied``, ``unavailable``  `OperationError` of that kind
``empty``          the operation's result without content: ``{}`` or ``{"results": []}``
``slow``           the right result, late
``stale``          a result of days ago, with other prices, marked ``stale`` and ``as_of``
=================  ====================================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any, cast

from livery.shop.catalogue import Catalogue, Product, Status
from livery.shop.operations import OperationContext, OperationError, Operations, Outcome
from livery.shop.wording import time_value
from livery.simulator.task import ERRORS_OF_FAULTS, Fault, Needed, Task
from livery.types import JSON

SLOW_S = (0.6, 1.6)
"""How long a slow call takes: under the two seconds that a tool has by default."""

_MESSAGES = {
    "malformed": "the result could not be read: it ends in the middle of a field",
    "permission_denied": "this room may not call it; asking again changes nothing",
    "unavailable": "the service does not answer",
}

Sleep = Callable[[float], Awaitable[None]]


async def no_sleep(seconds: float) -> None:
    """Virtual time: nothing waits."""


class FaultyOperations(Operations):
    """``operations`` with ``faults``. One instance serves one request: it remembers what it has let fail."""

    def __init__(self, operations: Operations, faults: Sequence[Fault], rng: Random, sleep: Sleep = no_sleep) -> None:
        """
        Args:
            faults: at most one an operation counts at a time, the first that is not yet used up.
            rng: durations of slow calls and the prices of stale ones.
            sleep: what a slow call waits by; `asyncio.sleep` to feel it.
        """
        super().__init__(operations.values())
        self._faults = tuple(faults)
        self._rng = rng
        self._sleep = sleep
        self._failed: Counter[Fault] = Counter()
        self.calls: Counter[str] = Counter()
        """Calls so far by operation, failed ones too."""

    async def call(self, name: str, arguments: Mapping[str, Any], context: OperationContext) -> Outcome:
        self.calls[name] += 1
        fault = self._next(name)
        if fault is None:
            return await super().call(name, arguments, context)
        self._failed[fault] += 1
        if fault.kind == "timeout":
            raise TimeoutError
        if fault.kind in ERRORS_OF_FAULTS:
            raise OperationError(ERRORS_OF_FAULTS[fault.kind], _MESSAGES[fault.kind])
        if fault.kind == "slow":
            await self._sleep(self._rng.uniform(*SLOW_S))
            return await super().call(name, arguments, context)
        if fault.kind == "empty":
            # Run first: bad arguments are told before an empty answer is.
            outcome = await super().call(name, arguments, context)
            results = isinstance(outcome.value, dict) and "results" in outcome.value
            return Outcome(value={"results": []} if results else {})
        return await self._stale(name, arguments, context)

    def _next(self, name: str) -> Fault | None:
        for fault in self._faults:
            if fault.operation == name and (not fault.recoverable or self._failed[fault] < fault.times):
                return fault
        return None

    async def _stale(self, name: str, arguments: Mapping[str, Any], context: OperationContext) -> Outcome:
        then = context.now - timedelta(days=self._rng.randint(20, 60))
        old = replace(context, catalogue=_dearer(context.catalogue, self._rng.randint(6, 19)), now=then)
        outcome = await super().call(name, arguments, old)
        if not isinstance(outcome.value, dict):
            return outcome
        as_of = time_value(context.catalogue, then, context.now)
        return replace(outcome, value={**cast("dict[str, JSON]", outcome.value), "stale": True, "as_of": as_of})


OTHER_WAYS: Mapping[str, tuple[str, ...]] = {
    "catalog.get_product": ("catalog.compare",),
    "pricing.quote": ("catalog.get_product", "catalog.search", "catalog.compare", "promotions.list"),
    "promotions.list": ("pricing.quote", "catalog.get_product"),
    "catalog.compare": ("catalog.get_product", "pricing.quote", "catalog.search"),
    "stock.check": ("catalog.get_product", "pricing.quote", "size.advise"),
    "size.advise": (),
    "shipping.quote": ("faq.search",),
    "policy.lookup": ("faq.search",),
    "faq.search": (),
}
"""Operation -> others that may give its facts too. When it fails for good they do as well: nothing is
known."""

MAX_CALLS = 5
"""Look-ups and retries of a task; a skill comes on top (the smaller sample harness allows six calls)."""

_CLEAR = frozenset({"link", "earlier", "pronoun"})
"""References that stand without a search, and without the screen, whose item the agent looks up for the
prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    faults: tuple[Fault, ...] = ()
    dead: frozenset[str] = frozenset()
    """Operations that never answer."""
    screen_off: bool = False
    """Nothing may be on screen: the agent's own look-up of it would use a fault up, or fail."""
    tags: tuple[str, ...] = ()


NO_FAULTS = FaultPlan()


def plan_faults(needed: Sequence[Needed], forms: Iterable[str], rng: Random, *, recoverable: bool) -> FaultPlan:
    """What goes wrong in a task: one of the operations it rests on, for a while or for good.

    A recoverable fault leaves a right answer possible within four rounds and `MAX_CALLS` calls. Under one for
    good every other way to the same facts fails too, and what is meant stays clear, so that the right answer
    is an honest "I cannot check that". Where neither can be had, nothing goes wrong.
    """
    operations = sorted({n.operation for n in needed if n.operation in OTHER_WAYS or recoverable})
    if not operations:
        return NO_FAULTS
    operation = rng.choice(operations)
    two_steps = any(n.step for n in needed)
    clear = set(forms) <= _CLEAR
    if not recoverable:
        if two_steps or not clear:
            return NO_FAULTS
        together = _with_other_ways(operation, {n.operation for n in needed})
        kind = rng.choice(("timeout", "malformed", "unavailable", "empty", "stale", "permission_denied"))
        return FaultPlan(
            faults=tuple(Fault(operation=o, kind=kind, times=0) for o in together),
            dead=frozenset(together),
            screen_off=True,
            tags=(f"fault:{kind}", "unrecoverable"),
        )
    kind = rng.choice(("timeout", "malformed", "unavailable", "empty", "slow", "stale"))
    times = min(1 if two_steps else rng.choice((1, 1, 2)), MAX_CALLS - len(needed))
    shown = operation == "catalog.get_product"
    if times < 1 or (shown and not clear):
        return NO_FAULTS
    return FaultPlan(
        faults=(Fault(operation=operation, kind=kind, times=times),),
        screen_off=shown,
        tags=(f"fault:{kind}", "recoverable"),
    )


def _with_other_ways(operation: str, needed: set[str]) -> tuple[str, ...]:
    """``operation``, what may stand in for it, and for each of those that is needed itself what stands in for
    that."""
    together = dict.fromkeys((operation,))
    waiting = [operation]
    while waiting:
        for other in OTHER_WAYS.get(waiting.pop(), ()):
            if other not in together:
                together[other] = None
                if other in needed:
                    waiting.append(other)
    return tuple(together)


def _dearer(catalogue: Catalogue, percent: int) -> Catalogue:
    """The catalogue of an earlier day: other prices and stocks, everything that is announced now still
    unknown."""

    def raised(price: int) -> int:
        return price + max(1, price * percent // 100)

    def aged(p: Product) -> Product:
        variants = tuple(
            v.model_copy(update={"stock": v.stock + percent, "price": None if v.price is None else raised(v.price)})
            for v in p.variants
        )
        status = Status.ON_SALE if p.status is Status.SOLD_OUT else p.status
        update = {"price": raised(p.price), "variants": variants, "status": status}
        return p.model_copy(update={**update, "stock": 0 if variants else p.stock + percent})

    return catalogue.model_copy(update={"products": tuple(aged(p) for p in catalogue.products)})


def operations_for(task: Task, operations: Operations, sleep: Sleep = no_sleep) -> Operations:
    """What a task's request runs on: ``operations`` as they are, or with its faults, anew each time."""
    if not task.faults:
        return operations
    return FaultyOperations(operations, task.faults, Random(f"faults/{task.id}"), sleep)
