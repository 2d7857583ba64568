"""How many variants a second one core makes, and where the time goes.

    python benchmarks/augment_throughput.py [--harness harnesses/streamer-en ...] [--seconds 5]

Each variant is sampled at strength 0.5 (about six operators), train and held-out in turn. Time is processor time of
this process, so that other work on the machine does not count. Beside it: the same with the release digest of every
variant (needed to publish or compare), with a rebuild from records, and each dimension alone. JSON last.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from time import process_time

from livery.augment.operators import DIMENSIONS, apply
from livery.augment.sampling import sample_variant
from livery.harness.digest import harness_digest
from livery.harness.folder import load_harness
from livery.harness.model import Harness

ROOT = Path(__file__).parents[1]


def rate(make: Callable[[int], object], seconds: float) -> tuple[float, int]:
    """(calls a processor second, calls)."""
    make(-1)
    began = process_time()
    for seed in count():
        make(seed)
        if (spent := process_time() - began) >= seconds:
            return (seed + 1) / spent, seed + 1
    raise AssertionError("count() does not end")


def measured(harness: Harness, seconds: float) -> Iterator[tuple[str, float]]:
    base = harness_digest(harness)

    def sampled(seed: int):
        return sample_variant(harness, seed, ("train", "heldout")[seed % 2], base_digest=base)

    drawn = [sampled(seed) for seed in range(100)]
    yield "operators_a_variant", sum(len(v.records) for v in drawn) / len(drawn)
    yield "variants_per_s", rate(sampled, seconds)[0]
    yield "with_digest_per_s", rate(lambda seed: sampled(seed).digest, seconds / 2)[0]
    yield "rebuilt_per_s", rate(lambda seed: apply(drawn[seed % 100].records, harness), seconds / 2)[0]
    for dimension in DIMENSIONS:
        alone = rate(lambda seed: sample_variant(harness, seed, "train", dimensions=[dimension],  # noqa: B023
                                                 base_digest=base), seconds / 5)  # fmt: skip
        yield f"{dimension}_per_s", alone[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--harness", nargs="*", default=["harnesses/streamer-en", "harnesses/streamer-zh"])
    parser.add_argument("--seconds", type=float, default=5.0)
    asked = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    for folder in asked.harness:
        path = Path(folder) if Path(folder).is_dir() else ROOT / folder
        harness = load_harness(path).harness
        results[harness.name] = {}
        for name, value in measured(harness, asked.seconds):
            results[harness.name][name] = round(value, 1)
            print(f"{harness.name:14} {name:28} {value:8.1f}", file=sys.stderr)
    least = min(r["variants_per_s"] for r in results.values())
    print(json.dumps({"variants_per_s": least, "aim": 300, "harnesses": results}))


if __name__ == "__main__":
    main()
