"""How far the verifier agrees with hand-made labels, and what a verification costs.

    python benchmarks/verifier_agreement.py [--show] [--json OUT]

Every labelled reply in ``tests/simulator`` is verified once. Precision and recall are of "wrong" (accuracy 0);
effectiveness is the share judged exactly as the label. Cost is processor time of this process, first pass (everything
read anew) and second pass. ``--show`` lists the disagreements of the parts for development; JSON last.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from time import process_time

from rich.console import Console
from rich.table import Table

from livery.harness.folder import load_harness
from livery.simulator.agreement import (
    PARTS,
    Labelled,
    disagreements,
    figures,
    load_labelled,
    reply_skills,
)
from livery.simulator.task import Scores
from livery.simulator.verifier import verify

ROOT = Path(__file__).parents[1]
SETS = ("labelled_replies", "labelled_replies_fresh", "labelled_replies_blind", "labelled_replies_chat")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="list the disagreements of the parts for development")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    options = parser.parse_args(argv)

    labelled: list[Labelled] = []
    harnesses = {x: load_harness(ROOT / "harnesses" / f"streamer-{x}").harness for x in ("en", "zh")}
    for language, harness in harnesses.items():
        for name in SETS:
            path = ROOT / "tests" / "simulator" / f"{name}_{language}.yaml"
            labelled += load_labelled(path, ROOT / "stores" / f"demo-{language}", reply_skills(harness))

    def everything() -> tuple[list[tuple[Labelled, Scores]], float]:
        began = process_time()
        judged = [
            (x, verify(x.task, x.trajectory, harnesses[x.task.world.language], catalogue=x.catalogue)) for x in labelled
        ]
        return judged, 1000 * (process_time() - began) / len(labelled)

    judged, first = everything()
    _, second = everything()
    rows: dict[str, dict[str, float]] = {}
    for part in PARTS:
        for language in ("", "en", "zh"):
            chosen = [x for x in judged if x[0].part == part and language in ("", x[0].task.world.language)]
            rows[f"{part} {language}".strip()] = {k: round(v, 4) for k, v in asdict(figures(chosen)).items()}

    table = Table(title="Verifier against hand-made labels")
    table.add_column("part")
    for column in ("replies", "wrong", "precision", "recall", "effectiveness"):
        table.add_column(column, justify="right")
    for name, row in rows.items():
        table.add_row(name, *(f"{v:.3f}" if isinstance(v, float) else str(v) for v in row.values()))
    console = Console(width=110)
    console.print(table)
    console.print(f"processor time a verification: {first:.2f} ms first, {second:.2f} ms again")
    if options.show:
        for d in disagreements([x for x in judged if x[0].part in ("development", "chat")]):
            console.print(
                f"{d.labelled.id}: {d.labelled.trajectory.reply}", d.scores.reasons, d.labelled.why, markup=False
            )
    result = {
        "cases": len({x.case for x in labelled}),
        "parts": rows,
        "ms_first": round(first, 3),
        "ms_again": round(second, 3),
    }
    if options.json:
        options.json.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
