"""What an evaluation of the lab leaves in its step, and how the lab hears of one that is scored anew.

Later steps know an evaluation by the digest of its results, so that a table made of other scores counts as changed and
is written again by the next `livery lab run`. Nothing is played or trained here, and torch is not needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from livery.errors import InputError
from livery.evaluation.results import RESULTS, Result
from livery.evaluation.run import RUN, read_run
from livery.evaluation.statistics import summarise
from livery.simulator.verifier_version import verifier_version
from livery.training.lab import DONE, RECIPE, Made, digest_of, done_of, locked, write_json

_PLAYED: Final = "run"


def made_of(results: Sequence[Result], *, resumed: bool) -> Made:
    """What the step of an evaluation says of itself."""
    summary = summarise(results)
    facts = {
        "avg": summary.measures["avg"].to_json(),
        "output_tokens": sum(r.output_tokens for r in results),
        "routes": dict(summary.routes),
    }
    # How long a task took is no part of what was found.
    found = [r.model_dump(mode="json", exclude={"seconds"}) for r in results]
    return Made(digest_of(found), len(found), facts, resumed)


def step_of(run: Path) -> Path | None:
    """The folder of the lab's step that a run is part of; None where it is no lab's."""
    step = run.resolve().parent
    if run.resolve().name != _PLAYED or not (step / RECIPE).is_file():
        return None
    recipe: Any = json.loads((step / RECIPE).read_text(encoding="utf-8"))
    return step if str(recipe.get("schema")).startswith("livery.lab-step/") else None


@contextmanager
def held(run: Path) -> Generator[Path | None]:
    """The lab's step of a run, kept from other processes meanwhile; None where it is no lab's.

    Raises:
        InputError: a process works on the step.
    """
    step = step_of(run)
    if step is None:
        yield None
        return
    with locked(step.parent, step.name) as mine:
        if not mine:
            raise InputError.at(step, "a process works on this step of the lab; wait until it ends", code="lab-busy")
        yield step


def told(step: Path, results: Sequence[Result]) -> bool:
    """Write what a step's evaluation has now into its done-marker; False where it is not finished, and has none."""
    before = done_of(step)
    if not before:
        return False
    made = made_of(results, resumed=False)
    write_json(step / DONE, {**before, "digest": made.digest, "facts": {**before["facts"], **made.facts}})
    return True


def scored_otherwise(run: Path, judges: tuple[Path, ...] = ()) -> bool:
    """Whether a run that was begun was scored by another verifier than today's."""
    if not (run / RUN).is_file() or not (run / RESULTS).is_file():
        return False
    return read_run(run).get("verifier") != verifier_version(judges)


def verifiers_of(folders: Mapping[str, Path], plain: Callable[[str], bool]) -> dict[str, list[str]]:
    """Version of the verifier -> names of the runs that it scored; "": the run does not say.

    Args:
        folders: run by name; one without a recipe is left out.
        plain: whether a name's run is judged by the verifier alone. The others' versions hold more and are not looked
            at here.
    """
    found: dict[str, list[str]] = {}
    for name, folder in folders.items():
        if plain(name) and (folder / RUN).is_file():
            found.setdefault(str(read_run(folder).get("verifier", "")), []).append(name)
    return found
