"""A room under a flood in real time: is its memory bounded, do the fates add up, does the queue recover?

Producers submit ``--rate`` messages a second for ``--seconds``, each waiting for its acknowledgement (which
means that it is on disk), while a stand-in agent takes ``--answer-s`` for every request. Then the flood ends
and four new questions a second are asked; the time until the first of them is answered is the recovery: the
queue is served oldest first, and the room's rate limit has to refill. The messages are a mix of repeated and
new questions in two languages, chatter, gifts and moderation. Nothing here measures a model.

    python benchmarks/flood.py [--rate 1000] [--seconds 10] [--answer-s 0.5]

The last line is JSON: sent, accepted, rate (achieved, a second), ack_ms p50/p95/max, rss_mib
before/after/max, rss_mib_second_flood (a second flood right after: a leak would show), fates, adds_up,
most_waiting, recovery_s, journal_mib.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import sys
import tempfile
import time
from pathlib import Path

from livery.room.contract import RoomConfig
from livery.room.journal import Journal
from livery.room.runtime import Room, quantile
from livery.types import ChatDeletion, ChatEvent, ChatMessage, Fate, MessageKind, Request, Route, Trajectory

QUESTIONS = (
    "how much is number {n}?", "{n}号多少钱", "is {n} in stock in size M", "{n}号链接有货吗",
    "do you ship item {n} abroad", "which one is better, {n} or 2", "where are you from {w}",
    "今天{w}还有吗", "what is {w} made of",
)  # fmt: skip
CHATTER = ("lol", "666", "哈哈哈哈", "nice {w}", "love it", "😀😀", "@bob hey {w}", "hello", "主播好")


def rss_mib() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def folder_mib(folder: str) -> float:
    return sum(f.stat().st_size for f in Path(folder).iterdir()) / 2**20


def flood_event(rng: random.Random, number: int) -> ChatEvent:
    if number % 500 == 499:
        return ChatDeletion(room="flood", at=0.0, message=f"m{number - rng.randrange(1, 50)}")
    kind = MessageKind.GIFT if rng.random() < 0.05 else MessageKind.CHAT
    texts = QUESTIONS if rng.random() < 0.5 else CHATTER
    text = rng.choice(texts).format(n=rng.randrange(1, 60), w=f"{rng.getrandbits(40):x}")
    viewer = f"v{rng.randrange(20_000)}"
    return ChatMessage(id=f"m{number}", room="flood", viewer=viewer, name=viewer, text=text, at=0.0, kind=kind)


async def flood(room: Room, rng: random.Random, first: int, rate: int, seconds: float) -> dict[str, list[float]]:
    """Sends ``rate`` messages a second; what cannot be sent in time is sent as soon as possible."""
    delays: list[float] = []
    waiting: list[float] = []
    memory: list[float] = []
    running: set[asyncio.Task[None]] = set()

    async def send(event: ChatEvent) -> None:
        began = time.perf_counter()
        await room.submit(event)
        delays.append(time.perf_counter() - began)

    began = time.perf_counter()
    sent = 0
    while (passed := time.perf_counter() - began) < seconds or sent < rate * seconds:
        due = min(int(passed * rate), int(rate * seconds))
        for _ in range(due - sent):
            task = asyncio.create_task(send(flood_event(rng, first + sent)))
            running.add(task)
            task.add_done_callback(running.discard)
            sent += 1
        stats = room.stats()
        waiting.append(stats.waiting_requests)
        memory.append(rss_mib())
        await asyncio.sleep(0.01)
    await asyncio.gather(*running)
    return {"delays": delays, "waiting": waiting, "memory": memory, "took": [time.perf_counter() - began]}


async def ask_on(room: Room) -> None:
    """Four different questions a second, each from another viewer, until cancelled."""
    for number in itertools.count():
        text = f"is number {100 + number} still there?"
        await room.submit(ChatMessage(id=f"after{number}", room="flood", viewer=f"a{number}", text=text, at=0.0))
        await asyncio.sleep(0.25)


async def measure(rate: int, seconds: float, answer_s: float) -> dict[str, object]:
    async def answer(request: Request) -> Trajectory:
        await asyncio.sleep(answer_s)
        return Trajectory(
            id=f"t-{request.id}", request=request, harness="none", harness_release="none", policy="stand-in",
            reply="That is 19.99.", route=Route.AGENT, route_reason="stand-in", started_at=request.created_at,
        )  # fmt: skip

    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.sqlite"
        journal = Journal(path)
        room = Room(
            config=RoomConfig(room="flood"),
            answer=answer,
            journal=journal,
            clock=time.time,
            sleep=asyncio.sleep,
        )
        await room.start()
        before = rss_mib()
        total = int(rate * seconds)
        first = await flood(room, rng, 0, rate, seconds)
        ended = time.perf_counter()
        asking = asyncio.create_task(ask_on(room))
        with room.subscribe() as events:
            async for event in events:
                if event.fate is Fate.ANSWERED and event.messages[0].startswith("after"):
                    break
        recovery = time.perf_counter() - ended
        asking.cancel()
        await asyncio.wait([asking])
        await room.drain()
        after = rss_mib()
        second = await flood(room, rng, total, rate, seconds)
        await room.drain()
        stats = room.stats()
        counts = await journal.fate_counts("flood")
        await room.stop()
        await journal.aclose()
        size = folder_mib(folder)
    delays = sorted(first["delays"])
    return {
        "sent": 2 * total,
        "accepted": stats.messages,
        "rate": round(total / first["took"][0], 1),
        "ack_ms": {
            "p50": round(1e3 * quantile(delays, 0.5), 2),
            "p95": round(1e3 * quantile(delays, 0.95), 2),
            "max": round(1e3 * delays[-1], 2),
        },
        "rss_mib": {
            "before": round(before, 1),
            "after": round(after, 1),
            "max": round(max(first["memory"]), 1),
        },
        "rss_mib_second_flood": {
            "max": round(max(second["memory"]), 1),
            "growth": round(max(second["memory"]) - max(first["memory"]), 1),
        },
        "fates": {fate.value: n for fate, n in stats.fates.items()},
        "adds_up": sum(stats.fates.values()) == stats.messages == sum(counts.values()) and None not in counts,
        "requests": stats.requests,
        "most_waiting": int(max(first["waiting"])),
        "recovery_s": round(recovery, 2),
        "journal_mib": round(size, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--answer-s", type=float, default=0.5)
    options = parser.parse_args()
    figures = asyncio.run(measure(options.rate, options.seconds, options.answer_s))
    print(json.dumps(figures))
    if not figures["adds_up"]:
        sys.exit("the fates do not add up")


if __name__ == "__main__":
    main()
