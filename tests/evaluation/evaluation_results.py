"""Results made up for statistics and reports."""

from __future__ import annotations

from typing import Any

from livery.evaluation.results import Result
from livery.simulator.task import Scores


def result(i: int, accuracy: int = 1, effectiveness: float = 1.0, **fields: Any) -> Result:
    scores: Any = {"accuracy": accuracy, "effectiveness": effectiveness, "tool_rationality": 1, "skill_selection": 1}
    reasons = fields.pop("reasons", ())
    defaults: dict[str, Any] = {
        "task": f"task-{i}",
        "index": i,
        "seed": i,
        "release": "sha256:0",
        "route": "agent",
        "question": "how much",
        "reply": "it is $5",
        "intents": ("price",),
    }
    return Result(scores=Scores(**scores, reasons=reasons), **{**defaults, **fields})
