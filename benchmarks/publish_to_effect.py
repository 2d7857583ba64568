"""How long after a publish in one process does a request in another get the new release, and is any lost?

One process publishes alternately two full releases; this one runs concurrent requests as fast as it can. Each
picks a release, loads it whole and checks it at its end. Both clocks are CLOCK_MONOTONIC, which Linux
and macOS share between processes. The delay runs from the return of `publish` to the first pick that sees it;
a pick that came earlier than the return counts as zero.

    python benchmarks/publish_to_effect.py [--publishes 200] [--url sqlite:///file.db]

The last line is JSON: publishes, p50_ms, p99_ms, max_ms, requests, lost, unseen.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from livery.harness.channels import Router
from livery.harness.model import Binding, Harness, Section, Skill, Tool
from livery.harness.store import ReleaseStore

CHANNEL = "stable"


def wording(name: str) -> Harness:
    """A harness as large as a real one; another ``name`` is another release."""
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(6)}}
    return Harness(
        name=name,
        sections=tuple(Section(key=f"s{n}", template=f"{name} section {n}. " * 40) for n in range(6)),
        skills=tuple(
            Skill(
                key=f"k{n}",
                name=f"skill-{n}",
                description=f"{name} {n}",
                body="Do this. " * 200,
                kind="reply",
            )
            for n in range(8)
        ),
        tools=tuple(
            Tool(
                key=f"t{n}",
                name=f"tool_{n}",
                description="Looks up. " * 10,
                input_schema=schema,
                binding=Binding(operation="catalog.search"),
            )
            for n in range(10)
        ),
    )


def publish_alternately(url: str, digests: list[str], publishes: int, pause_s: float) -> None:
    """The publisher's process: one line a publish, ``version release monotonic-seconds-of-return``."""
    with ReleaseStore(url) as store:
        for n in range(publishes):
            published = store.publish(CHANNEL, digests[n % len(digests)], actor="bench")
            print(published.version, published.release, repr(time.monotonic()), flush=True)
            time.sleep(pause_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    delays_s: tuple[float, ...]
    """One per publish that was seen, in order. A version passed over for a later one counts by that one."""
    requests: int
    lost: int
    """Requests that got no complete release, or whose release was not what it said."""
    unseen: int
    """Publishes that no pick ever saw."""


async def measure(url: str, *, publishes: int, concurrency: int = 8, pause_s: float = 0.005) -> Measured:
    """Run the publisher beside ``concurrency`` loops of requests until all publishes are seen."""
    with ReleaseStore(url) as store:
        harnesses = [wording("one"), wording("two")]
        digests = [store.put(h) for h in harnesses]
        expected = dict(zip(digests, harnesses, strict=True))
        start = store.publish(CHANNEL, digests[1]).version
        first_seen: dict[int, float] = {}
        counts = {"requests": 0, "lost": 0}
        done = asyncio.Event()
        with Router(store) as router:

            async def requests(room: str) -> None:
                n = 0
                while not done.is_set():
                    n += 1
                    counts["requests"] += 1
                    try:
                        picked = router.pick(room, f"viewer-{n}")
                        first_seen.setdefault(picked.version, time.monotonic())
                        harness = store.load(picked.release)
                        await asyncio.sleep(0)  # other requests run, and publishes happen, in its middle
                        whole = harness == expected[picked.release] and store.load(picked.release) is harness
                    except Exception:
                        whole = False
                    counts["lost"] += not whole

            tasks = [asyncio.create_task(requests(f"room-{n}")) for n in range(concurrency)]
            publisher = await asyncio.create_subprocess_exec(
                sys.executable, __file__, "--publisher", url, str(publishes), str(pause_s), *digests,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            )  # fmt: skip
            try:
                output, _ = await asyncio.wait_for(publisher.communicate(), timeout=120)
                returned = {int(v): float(at) for v, _, at in (line.split() for line in output.decode().splitlines())}
                for _ in range(400):
                    if start + publishes in first_seen:
                        break
                    await asyncio.sleep(0.005)
            finally:
                done.set()
                if publisher.returncode is None:
                    publisher.kill()
                    await publisher.wait()
                await asyncio.gather(*tasks)
    delays: list[float] = []
    unseen = publishes - len(returned)
    for version, at in returned.items():
        seen = [t for v, t in first_seen.items() if v >= version]
        if seen:
            delays.append(max(0.0, min(seen) - at))
        else:
            unseen += 1
    return Measured(delays_s=tuple(delays), requests=counts["requests"], lost=counts["lost"], unseen=unseen)


def quantile(values: tuple[float, ...], share: float) -> float:
    """The smallest value that at least ``share`` of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1)]


def main() -> None:
    if sys.argv[1:2] == ["--publisher"]:
        url, publishes, pause_s, *digests = sys.argv[2:]
        publish_alternately(url, digests, int(publishes), float(pause_s))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--publishes", type=int, default=200)
    parser.add_argument("--url", default="", help="a store; by default a new SQLite file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = options.url or f"sqlite:///{Path(folder) / 'store.db'}"
        measured = asyncio.run(measure(url, publishes=options.publishes))
    delays = measured.delays_s
    print(
        json.dumps(
            {
                "publishes": options.publishes,
                "p50_ms": round(statistics.median(delays) * 1000, 3),
                "p99_ms": round(quantile(delays, 0.99) * 1000, 3),
                "max_ms": round(max(delays) * 1000, 3),
                "requests": measured.requests,
                "lost": measured.lost,
                "unseen": measured.unseen,
            }
        )
    )


if __name__ == "__main__":
    main()
