"""Playing a set: a policy answers every task in the agent's own loop, and the verifier scores what came of it.

A run is a folder. Started again with the same recipe it goes on where it was, also after ``kill -9``; started with
another recipe it is refused, naming what differs. Each task is sampled by a seed of its own, the same in every run, so
that two runs compare task by task, whatever their order or concurrency.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from livery import __version__
from livery.agent.live_harness import LiveHarness
from livery.errors import InputError, PolicyOverflow, PolicyUnavailable, Problem
from livery.evaluation.results import RESULTS, Result, Results, read_results, result_of
from livery.evaluation.suites import Base, Case, Suite, tasks_digest
from livery.harness.model import Harness
from livery.policies.open import open_policy
from livery.policies.policy import Policy
from livery.simulator.oracle import OraclePolicy
from livery.simulator.rollout import OPERATIONS, live_of, rollout
from livery.simulator.verifier_version import verifier_version
from livery.types import Trajectory

RUN: Final = "run.json"
GIVE_UP: Final = 5
"""Requests in a row that find no engine or server, after which a run stops."""
PATIENCE_S: Final = 120.0
_SIDE_BY_SIDE: Final = {"openai": 8, "hf": 16}
_ELSEWHERE: Final = "Give another --out for another run"
_REMEDIES: Final = {
    "verifier": "What was played was scored by other rules: `livery eval rescore` with this folder scores it by "
    "today's, then it goes on"
}
_UNAVAILABLE: Final = f"policy: {PolicyUnavailable.__name__}"
_OVERFLOW: Final = f"policy: {PolicyOverflow.__name__}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All that a run's figures hang on. Equal recipes, comparable figures."""

    suite: str
    tasks: str
    """Digest of the whole set's tasks."""
    harness: str
    """Name of the base."""
    base: str
    """Its digest."""
    policy: str
    """URI, without secrets."""
    weights: str
    """Version of its weights as it says before the first call; adapters included."""
    verifier: str
    """Version of what scores (`livery.simulator.verifier_version`)."""
    seed: int
    patience_s: float
    """A request's time. Scores do not hang on how busy the machine is; latency is measured elsewhere."""

    def to_json(self, **more: Any) -> dict[str, Any]:
        """With ``more``: notes that do not decide whether a run may go on."""
        return {"schema": "livery.run/1", **{f: getattr(self, f) for f in self.__slots__}, **more}


@dataclass(frozen=True, slots=True)
class Ran:
    """What a start of a run did."""

    results: tuple[Result, ...]
    """Of this and earlier starts, within the limit, by place in the set."""
    resumed: int
    """Of them, those that earlier starts had made."""
    unavailable: int
    """Tasks left open because no engine or server answered; the next start plays them."""
    overflowed: int = 0
    """Conversations of this start that grew beyond the model's context. They are scored: the policy failed in them."""


def open_any(uri: str, loras: Sequence[Path] = (), *, language: str = "en") -> Policy:
    """The policy of a URI; besides those of `livery.policies.open`: ``oracle``, which knows every task's gold, and
    ``oracle:SEED``. Loads models: call it off the event loop.

    Args:
        language: of the harness, by which an adapter that comes along is chosen.

    Raises:
        InputError: every fault of the URI.
    """
    scheme, _, rest = uri.partition(":")
    if scheme != "oracle":
        return open_policy(uri, loras=loras, language=language)
    if rest and not rest.isdecimal():
        raise InputError.at(uri, f"found the seed {rest!r}; expected a whole number", code="policy-uri")
    return OraclePolicy(seed=int(rest or 0))


def side_by_side(uri: str) -> int:
    """How many requests a policy is given at a time where nothing is said."""
    return _SIDE_BY_SIDE.get(uri.partition(":")[0], 1)


def seed_of(seed: int, task_id: str) -> int:
    """The seed by which a task is sampled."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{task_id}".encode()).digest()[:4], "big") >> 1


def recipe_of(suite: Suite, base: Harness, policy: Policy, *, seed: int = 0, patience_s: float = PATIENCE_S) -> Recipe:
    """The recipe of a run (makes the whole set, a second or two)."""
    suite.fits(base)
    return Recipe(
        suite=suite.name,
        tasks=tasks_digest(suite),
        harness=base.name,
        base=Base(base).digest,
        policy=policy.uri,
        weights=policy.weights,
        verifier=verifier_version(suite.judges),
        seed=seed,
        patience_s=patience_s,
    )


async def evaluate(
    recipe: Recipe,
    suite: Suite,
    base: Harness,
    policy: Policy,
    out: Path,
    *,
    limit: int = 0,
    concurrency: int = 1,
    progress: Callable[[Result], None] = lambda result: None,
) -> Ran:
    """Play a set, or go on with it.

    Args:
        limit: only the first so many tasks, which are spread over all worlds; 0: all. A longer limit later goes on.
        concurrency: requests at a time.
        progress: told of every result, those of earlier starts first.

    Raises:
        InputError: the folder holds a run of another recipe, damaged results, or a run that another process plays.
        PolicyUnavailable: the policy's engine or server was not there `GIVE_UP` times in a row. What was played is
            kept.
    """
    if concurrency < 1:
        raise InputError.at("--concurrency", f"found {concurrency}; expected 1 at least")
    _claim(recipe, out)
    with Results(out) as written:
        done = {r.task: r for r in read_results(out)}
        tasks = suite.tasks(min(limit or suite.size, suite.size))
        earlier = [done[t.id] for t in tasks if t.id in done]
        for result in earlier:
            progress(result)
        play = _Play(recipe, policy, written, progress)
        own = Base(base)
        shared = live_of(base, patience_s=recipe.patience_s) if not suite.dimensions else None
        waiting = ((i, suite.wear(task, own)) for i, task in enumerate(tasks) if task.id not in done)

        async def worker() -> None:
            for index, case in waiting:
                # A worn base is made ready once; of a variant there is one task.
                live = shared if shared is not None and case.harness is base else None
                await play.one(index, case, live)

        workers = [asyncio.ensure_future(worker()) for _ in range(concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for one in workers:
                one.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
    results = sorted([*earlier, *play.made], key=lambda r: r.index)
    return Ran(tuple(results), len(earlier), play.unavailable, play.overflowed)


class _Play:
    """Plays cases and keeps what came of them."""

    def __init__(self, recipe: Recipe, policy: Policy, written: Results, progress: Callable[[Result], None]) -> None:
        self.recipe = recipe
        self.policy = policy
        self.written = written
        self.progress = progress
        self.made: list[Result] = []
        self.unavailable = 0
        self.overflowed = 0
        self._in_a_row = 0

    async def one(self, index: int, case: Case, live: LiveHarness | None) -> None:
        live = live or live_of(case.harness, patience_s=self.recipe.patience_s)
        seed = seed_of(self.recipe.seed, case.task.id)
        operations = case.operations or OPERATIONS
        trajectory, scores = await rollout(case.task, live, self.policy, seed=seed, operations=operations)
        if self._absent(trajectory):
            return
        if case.judge is not None:
            scores = case.judge(case.task, trajectory, live.harness)
        self.overflowed += trajectory.route_reason.startswith(_OVERFLOW)
        result = result_of(index, case, trajectory, scores, seed)
        self.written.write(result, trajectory)
        self.made.append(result)
        self.progress(result)

    def _absent(self, trajectory: Trajectory) -> bool:
        """Whether nobody was there to answer: that is no failure of a model and earns no score."""
        if not trajectory.route_reason.startswith(_UNAVAILABLE):
            self._in_a_row = 0
            return False
        self.unavailable += 1
        self._in_a_row += 1
        if self._in_a_row >= GIVE_UP:
            why = trajectory.route_reason.removeprefix(_UNAVAILABLE).lstrip(": ")
            message = f"stopped after {GIVE_UP} requests in a row that found no policy: {why}; start again to go on"
            raise PolicyUnavailable(message)
        return True


def _claim(recipe: Recipe, out: Path) -> None:
    """Begin a folder, or see that it is this recipe's.

    Raises:
        InputError: every field in which it differs.
    """
    path = out / RUN
    if not path.is_file():
        if (out / RESULTS).is_file():
            raise InputError.at(out, f"found {RESULTS} without {RUN}; expected a new folder or one of an earlier run")
        out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(recipe.to_json(livery=__version__), indent=1, ensure_ascii=False) + "\n"
        fresh = path.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)  # whole, or not there
        return
    before, now = read_run(out), recipe.to_json()
    problems = [
        Problem(
            path=str(path),
            field=name,
            message=f"this folder's run has {before.get(name)!r}; found {value!r}. {_REMEDIES.get(name, _ELSEWHERE)}",
            code="run-recipe",
        )
        for name, value in now.items()
        if before.get(name) != value
    ]
    if problems:
        raise InputError(problems)


def read_run(folder: Path, *, schema: str = "livery.run/1", command: str = "livery eval run") -> dict[str, Any]:
    """The recipe in a run's folder.

    Args:
        schema, command: of the kind of run that is expected.

    Raises:
        InputError: there is none, or it is no recipe.
    """
    path = folder / RUN
    if not path.is_file():
        raise InputError.at(path, f"no such file; expected a folder that `{command}` wrote")
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError.at(path, f"found no JSON ({error}); expected the recipe of a run", code="not-json") from error
    if not isinstance(data, dict) or cast("dict[str, Any]", data).get("schema") != schema:
        raise InputError.at(path, f"expected a recipe of the schema {schema}", field="schema", code="unknown-schema")
    return cast("dict[str, Any]", data)
