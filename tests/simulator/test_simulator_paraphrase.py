"""Rewording: kept on disk, used offline, and never at the price of what the task needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from livery.errors import InputError
from livery.policies.policy import PolicyRequest
from livery.simulator.paraphrase import Paraphraser, accepted, kept
from livery.simulator.task import Intent, Task
from livery.simulator.tasks import make_tasks
from livery.simulator.worlds import world_of
from livery.types import PolicyTurn

TASKS = make_tasks("train", "en", 60, 21)


class Reworder:
    """Puts a fixed opening before a message, or loses its numbers."""

    actions = "text"
    weights = "test"

    def __init__(self, *, loses: bool = False) -> None:
        self.uri = "test:reworder"
        self.loses = loses
        self.seen: list[PolicyRequest] = []

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        self.seen.append(request)
        text = request.messages[-1].content
        return PolicyTurn(text="what about it" if self.loses else f'"ok then, {text}"')

    async def warm(self, messages: object, session: str = "") -> None: ...

    async def aclose(self) -> None: ...


def plain(task: Task) -> bool:
    return all(a.intent in (Intent.PRICE, Intent.STOCK) for a in task.asked) and len(task.request.messages) == 1


async def test_wordings_are_cached_and_used_without_the_model(tmp_path: Path):
    cache = tmp_path / "wordings" / "en.jsonl"
    policy = Reworder()
    online = Paraphraser(cache, policy)  # type: ignore[arg-type]
    task = next(t for t in TASKS if plain(t))
    reworded = await online.task(task)
    assert reworded.request.text == f"ok then, {task.request.text}"
    assert reworded.asked == task.asked
    assert reworded.id == task.id
    assert "paraphrased" in reworded.tags
    assert await online.task(task) == reworded
    assert online.asked == len(policy.seen) == 1
    offline = Paraphraser(cache, uri="test:reworder")
    assert await offline.task(task) == reworded
    assert await Paraphraser(cache, uri="test:other").task(task) == task


async def test_offline_without_a_file_nothing_changes(tmp_path: Path):
    offline = Paraphraser(tmp_path / "none.jsonl")
    assert [await offline.task(t) for t in TASKS[:5]] == TASKS[:5]
    assert not (tmp_path / "none.jsonl").exists()


async def test_a_wording_that_loses_what_is_asked_is_refused_once(tmp_path: Path):
    policy = Reworder(loses=True)
    paraphraser = Paraphraser(tmp_path / "x.jsonl", policy)  # type: ignore[arg-type]
    task = next(t for t in TASKS if plain(t) and kept(t, t.request.text, world_of(t.world)))
    assert await paraphraser.task(task) == task
    assert await paraphraser.task(task) == task
    assert (paraphraser.asked, paraphraser.refused) == (1, 1)


async def test_injections_and_complaints_stay_as_they_are(tmp_path: Path):
    policy = Reworder()
    paraphraser = Paraphraser(tmp_path / "x.jsonl", policy)  # type: ignore[arg-type]
    for task in TASKS:
        if {a.intent for a in task.asked} <= {Intent.INJECTION, Intent.COMPLAINT, Intent.ABUSE}:
            assert await paraphraser.task(task) == task
    assert not policy.seen


@pytest.mark.parametrize(
    ("said", "good"),
    [
        ("so whats number 3 in navy", True),
        ("so whats number 4 in navy", False),
        ("number 3 and 5 in navy", False),
        ("number 3 please", False),
        ("", False),
        ("number 3 in navy\nhow much", False),
        ("number 3 in navy " + "please " * 20, False),
    ],
)
def test_what_is_accepted(said: str, good: bool):
    assert accepted("how much is number 3 in navy", said, ("3", "navy")) == good


def test_what_a_task_needs_is_kept():
    for task in TASKS:
        for message in task.request.messages:
            keep = kept(task, message.text, world_of(task.world))
            assert all(k.casefold() in message.text.casefold() for k in keep)
    named = next(
        t for t in TASKS if "reference:name" in t.tags and t.needed and t.needed[0].operation == "catalog.search"
    )
    query = str(named.needed[0].arguments["query"])
    texts = [m.text for m in named.request.messages]
    assert any(query in kept(named, text, world_of(named.world)) for text in texts)


def test_a_broken_cache_is_told(tmp_path: Path):
    path = tmp_path / "broken.jsonl"
    path.write_text('{"key": "a", "wording": "b"}\n{"key": 1}\n')
    with pytest.raises(InputError) as error:
        Paraphraser(path)
    assert error.value.problems[0].line == 2
