"""Publishing, rolling back and splitting with the policy's cache in mind.

A release's prompt is read by the policy before the channel moves to it, so that the first requests under it do not
wait for that; at most for `ConsoleSettings.warm_s`, and nobody's edits are locked meanwhile. A rollback never waits:
the channel moves at once, and the prompt is read afterwards. What `workbench` does is the same with and without this.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from livery.console import workbench
from livery.console.context import Console
from livery.console.watch import Panel
from livery.harness.releases import PrefixCost, Publication
from livery.harness.split import Split, covers

_COSTS_KEPT = 32


async def publish(
    console: Console, channel: str, *, target: str, expected: str, revision: int | None, note: str
) -> Publication:
    """`workbench.publish`, with the rooms' policy made ready first. Tells every room.

    Raises:
        Conflict, InputError: as there; what changed while the policy read counts as well.
    """
    cost = None
    if _reads(console):
        async with console.editing:
            checked = await asyncio.to_thread(
                workbench.checked, console, channel, target=target, expected=expected, revision=revision
            )
            release = await asyncio.to_thread(
                console.context.store.put, checked.harness, note=note, actor=workbench.ACTOR
            )
            revision = checked.revision
        cost = await _read(console, release, instead_of=expected, rooms=rooms_of(console, target))
    async with console.editing:
        done = await asyncio.to_thread(
            lambda: workbench.publish(console, channel, target=target, expected=expected, revision=revision, note=note)
        )
    await announce(console, _with(f"published to {target}", cost))
    return replace(done, prefix=cost)


async def rollback(console: Console, channel: str, *, to: str | None, current: str | None, note: str) -> Publication:
    """`workbench.rollback`, at once; then the policy reads the prompt, and every room is told what it cost.

    Raises:
        Conflict, StoreError: as there.
    """
    async with console.editing:
        done = await asyncio.to_thread(lambda: workbench.rollback(console, channel, to=to, current=current, note=note))
    await announce(console, f"rolled back {channel}")
    if _reads(console):
        task = asyncio.create_task(_read_after(console, done))
        console.reading.add(task)
        task.add_done_callback(console.reading.discard)
    return done


async def set_split(console: Console, rooms: str, percent: Mapping[str, float], *, by: str, note: str = "") -> Split:
    """Share requests out; what the rooms' policy has not read of the channels' releases it reads first.

    Raises:
        InputError, StoreError: as `ReleaseStore.set_split`.
    """
    routing = console.context.router.routing
    named = [routing.channels[name] for name, share in percent.items() if share > 0 and name in routing.channels]
    mine = [room for room in console.context.rooms if covers(rooms, room)]
    costs: dict[str, PrefixCost] = {}
    if len(named) == sum(share > 0 for share in percent.values()) and round(sum(percent.values()), 2) == 100:
        began, limit = time.monotonic(), console.context.settings.warm_s
        for channel in named:
            new = [room for room in mine if room not in rooms_of(console, channel.name)]
            left = limit - (time.monotonic() - began)
            if new and left > 0:
                before = routing.channels.get(console.context.router.default)
                instead_of = before.release if before else ""
                cost = await _read(console, channel.release, instead_of=instead_of, rooms=new, limit_s=left)
                if cost is not None:
                    costs[channel.name] = cost
    unit: Literal["viewer", "room"] = "room" if by == "room" else "viewer"
    done = await asyncio.to_thread(
        lambda: console.context.store.set_split(rooms, percent, by=unit, note=note, actor=workbench.ACTOR)
    )
    said = "; ".join(f"{name}: {cost}" for name, cost in costs.items())
    await announce(console, f"traffic split changed{f'; {said}' if said else ''}")
    return done


def rooms_of(console: Console, channel: str) -> tuple[str, ...]:
    """The rooms of which some requests are answered by the channel."""
    router = console.context.router

    def given(room: str) -> bool:
        split = next((s for s in router.routing.splits if s.covers(room)), None)
        return split.percent.get(channel, 0) > 0 if split else channel == router.default

    return tuple(room for room in console.context.rooms if given(room))


async def announce(console: Console, text: str) -> None:
    """Tell every room's watchers, so that pages show the new release at once."""
    for name, room in console.context.rooms.items():
        await room.announce(text)
        console.watches[name].touch(Panel.CONTROLS)


def _reads(console: Console) -> bool:
    """Whether the policy reads prompts ahead here."""
    return console.context.prepare is not None and console.context.settings.warm_s > 0


async def _read(
    console: Console, release: str, *, instead_of: str, rooms: Sequence[str], limit_s: float | None = None
) -> PrefixCost | None:
    prepare = console.context.prepare
    if prepare is None:
        return None
    limit_s = console.context.settings.warm_s if limit_s is None else limit_s
    cost = await prepare(release, instead_of=instead_of, sessions=tuple(rooms), limit_s=limit_s)
    console.costs[release] = cost
    while len(console.costs) > _COSTS_KEPT:
        console.costs.popitem(last=False)
    return cost


async def _read_after(console: Console, done: Publication) -> None:
    cost = await _read(console, done.release, instead_of=done.previous, rooms=rooms_of(console, done.channel))
    if cost is not None and str(cost):
        await announce(console, f"after the roll-back of {done.channel}: {cost}")


def _with(text: str, cost: PrefixCost | None) -> str:
    return f"{text}; {cost}" if cost is not None and str(cost) else text
