"""Runs: the same whatever the order, resumed after a kill, refused under another recipe, stopped where nobody answers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from livery.errors import InputError, PolicyOverflow, PolicyUnavailable
from livery.evaluation import run as runs
from livery.evaluation.results import RESULTS, TRAJECTORIES, Result, read_results
from livery.evaluation.suites import SUITES
from livery.harness.model import Harness
from livery.policies.policy import PolicyRequest, PromptMessage
from livery.room.trajectories import read_trajectories
from livery.types import PolicyTurn

ROOT = Path(__file__).parents[2]


async def play(
    name: str, base: Harness, policy: Any, out: Path, limit: int, *, seed: int = 0, concurrency: int = 1
) -> runs.Ran:
    suite = SUITES[name]
    recipe = runs.recipe_of(suite, base, policy, seed=seed)
    return await runs.evaluate(recipe, suite, base, policy, out, limit=limit, concurrency=concurrency)


def timeless(results: tuple[Result, ...] | list[Result]) -> list[Result]:
    return [r.model_copy(update={"seconds": 0.0}) for r in results]


class Recording:
    """Notes its requests and says one thing."""

    uri = "recording"
    weights = "w1"
    actions = "text"

    def __init__(self, absent: bool = False) -> None:
        self.seeds: list[int | None] = []
        self.absent = absent

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        self.seeds.append(request.seed)
        if self.absent:
            raise PolicyUnavailable("connection refused")
        return PolicyTurn(text="hello there")

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> None: ...

    async def aclose(self) -> None: ...


@pytest.mark.parametrize("name", ["t1", "t2"])
async def test_the_oracle_earns_full_scores(english: Harness, tmp_path: Path, name: str):
    ran = await play(name, english, runs.open_any("oracle"), tmp_path, 20)
    assert [r.scores.full for r in ran.results] == [True] * 20
    assert [r.index for r in ran.results] == list(range(20))
    assert all(bool(r.operators) == (name == "t2") for r in ran.results)


async def test_the_chinese_sets_are_played_under_the_chinese_harness(chinese: Harness, tmp_path: Path):
    ran = await play("t2-zh-hook-behaviour", chinese, runs.open_any("oracle:3"), tmp_path, 5)
    assert [r.scores.full for r in ran.results] == [True] * 5
    assert {d for r in ran.results for d in r.dimensions} == {"hook_behaviour"}


async def test_results_do_not_hang_on_how_many_run_side_by_side(english: Harness, tmp_path: Path):
    one = await play("t2", english, runs.open_any("oracle"), tmp_path / "one", 15)
    four = await play("t2", english, runs.open_any("oracle"), tmp_path / "four", 15, concurrency=4)
    assert timeless(one.results) == timeless(four.results)
    assert timeless(read_results(tmp_path / "four")) == timeless(one.results)


async def test_results_and_trajectories_stand_in_step(english: Harness, tmp_path: Path):
    await play("t1", english, runs.open_any("oracle"), tmp_path, 8, concurrency=3)
    lines = (tmp_path / RESULTS).read_text().splitlines()
    trajectories = list(read_trajectories(tmp_path / TRAJECTORIES))
    assert [json.loads(line)["task"] for line in lines] == [t.id for t in trajectories]
    assert [json.loads(line)["reply"] for line in lines] == [t.reply for t in trajectories]


async def test_a_longer_limit_goes_on_and_a_shorter_one_looks_at_the_beginning(english: Harness, tmp_path: Path):
    oracle = runs.open_any("oracle")
    await play("t1", english, oracle, tmp_path, 4)
    longer = await play("t1", english, oracle, tmp_path, 9)
    assert (longer.resumed, len(longer.results)) == (4, 9)
    shorter = await play("t1", english, oracle, tmp_path, 3)
    assert (shorter.resumed, len(shorter.results)) == (3, 3)
    assert len(read_results(tmp_path)) == 9


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from livery.evaluation import run as runs
from livery.evaluation.suites import SUITES
from livery.harness.folder import load_harness

base, suite, policy, out = load_harness(Path(sys.argv[1])).harness, SUITES["t2"], runs.open_any("oracle"), Path(sys.argv[2])
seen = []
def done(result):
    seen.append(result)
    if len(seen) == 6:
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(runs.evaluate(runs.recipe_of(suite, base, policy), suite, base, policy, out, limit=12, concurrency=2, progress=done))
"""


async def test_a_killed_run_goes_on_and_ends_as_one_that_was_not(english: Harness, tmp_path: Path):
    killed = tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, str(ROOT / "harnesses/streamer-en"), str(killed)]
    ended = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert ended.returncode == -9, ended.stderr.decode()
    assert len((killed / RESULTS).read_text().splitlines()) == 6
    # What a kill in the middle of a line leaves: a whole trajectory without its result, and half of another.
    with (killed / TRAJECTORIES).open("a") as file:
        file.write('{"id": "surplus"}\n{"id": "to')
    with (killed / RESULTS).open("a") as file:
        file.write('{"schema": "livery.res')
    went_on = await play("t2", english, runs.open_any("oracle"), killed, 12)
    straight = await play("t2", english, runs.open_any("oracle"), tmp_path / "straight", 12)
    assert went_on.resumed == 6
    assert timeless(went_on.results) == timeless(straight.results)
    lines = (killed / RESULTS).read_text().splitlines()
    assert [t.id for t in read_trajectories(killed / TRAJECTORIES)] == [json.loads(line)["task"] for line in lines]
    assert len(lines) == 12


async def test_another_recipe_is_refused_naming_every_difference(english: Harness, tmp_path: Path):
    await play("t1", english, runs.open_any("oracle"), tmp_path, 2)
    with pytest.raises(InputError) as caught:
        await play("t2", english, runs.open_any("oracle:1"), tmp_path, 2, seed=4)
    assert {p.field for p in caught.value.problems} == {"suite", "policy", "seed"}
    retrained = Recording()
    await play("t1", english, retrained, tmp_path / "r", 2)
    retrained.weights = "w2"
    with pytest.raises(InputError, match="weights"):
        await play("t1", english, retrained, tmp_path / "r", 3)


async def test_each_task_has_a_seed_of_its_own_and_the_same_in_every_run(english: Harness, tmp_path: Path):
    first, second, other = Recording(), Recording(), Recording()
    await play("t1", english, first, tmp_path / "a", 4)
    await play("t2", english, second, tmp_path / "b", 4)
    await play("t1", english, other, tmp_path / "c", 4, seed=1)
    assert len(set(first.seeds)) == 4
    assert list(dict.fromkeys(second.seeds)) == list(dict.fromkeys(first.seeds))
    assert not set(other.seeds) & set(first.seeds)
    assert [r.seed for r in read_results(tmp_path / "a")] == list(dict.fromkeys(first.seeds))


async def test_a_policy_that_is_not_there_earns_no_scores(english: Harness, tmp_path: Path):
    gone = Recording(absent=True)
    with pytest.raises(PolicyUnavailable, match=r"5 requests in a row .*connection refused"):
        await play("t1", english, gone, tmp_path, 30)
    assert len(gone.seeds) == runs.GIVE_UP
    asked = len(read_results(tmp_path))
    gone.absent = False
    back = await play("t1", english, gone, tmp_path, 10)
    assert (len(back.results), back.resumed, back.unavailable) == (10, asked, 0)


async def test_a_few_that_were_missed_are_played_by_the_next_start(english: Harness, tmp_path: Path):
    gone = Recording(absent=True)
    once = await play("t1", english, gone, tmp_path, 3)
    assert (once.unavailable, len(once.results)) == (3, 0)
    gone.absent = False
    assert len((await play("t1", english, gone, tmp_path, 3)).results) == 3


async def test_conversations_beyond_the_context_are_scored_as_failures(english: Harness, tmp_path: Path):
    class Overflows(Recording):
        async def act(self, request: PolicyRequest) -> PolicyTurn:
            raise PolicyOverflow("5000 tokens, and the context is 4096")

    ran = await play("t1", english, Overflows(), tmp_path, runs.GIVE_UP + 3)
    assert (len(ran.results), ran.unavailable, ran.overflowed) == (runs.GIVE_UP + 3, 0, runs.GIVE_UP + 3)
    assert {r.route for r in ran.results} <= {"degraded", "silent"}
    assert not any(r.scores.full for r in ran.results)


def test_damaged_results_are_all_named(tmp_path: Path):
    (tmp_path / RESULTS).write_text('{"schema": "livery.result/1"}\nno json\n')
    with pytest.raises(InputError) as caught:
        read_results(tmp_path)
    assert {p.line for p in caught.value.problems} == {1, 2}
    with pytest.raises(InputError, match="expected a folder that"):
        read_results(tmp_path / "nowhere")


def test_policies_by_uri():
    assert runs.open_any("oracle:7").uri == "oracle:7"
    assert runs.open_any("scripted:host").uri == "scripted:host"
    with pytest.raises(InputError, match="expected a whole number"):
        runs.open_any("oracle:x")
    assert [runs.side_by_side(u) for u in ("oracle", "openai:http://h/v1", "hf:", "llamacpp:")] == [1, 8, 16, 1]
