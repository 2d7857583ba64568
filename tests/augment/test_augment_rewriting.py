"""Rewording by a model: cached, and kept only where the task is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from augment_harnesses import carpenter

from livery.augment.rewriting import Cache, fault_of, rewrite, texts
from livery.errors import PolicyUnavailable
from livery.policies.policy import PolicyRequest, PromptMessage
from livery.types import PolicyTurn


class Model:
    """Answers by a function of the text, and counts."""

    uri, weights, actions = "test:model", "m1", "native"

    def __init__(self, says: Callable[[str], str]) -> None:
        self.says, self.asked = says, 0

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        self.asked += 1
        return PolicyTurn(text=self.says(request.messages[1].content))

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> None: ...

    async def aclose(self) -> None: ...


async def test_accepted_rewordings_stand_and_are_not_asked_twice(tmp_path: Path):
    base = carpenter()
    model = Model(lambda text: f"```\n{text} So it is.\n```")
    made = await rewrite(base, model, lambda _: True, cache=Cache(tmp_path / "cache.jsonl"))
    assert made.refused == {}
    assert len(made.accepted) == model.asked == len(list(texts(base)))
    assert made.harness.tools[0].description == base.tools[0].description + " So it is."
    again = await rewrite(base, model, lambda _: True, cache=Cache(tmp_path / "cache.jsonl"))
    assert model.asked == len(made.accepted)
    assert again.harness == made.harness
    await rewrite(base, model, lambda _: True, cache=Cache(tmp_path / "cache.jsonl"), seed=1)
    assert model.asked == 2 * len(made.accepted)


async def test_what_the_check_refuses_is_left_out_alone():
    base = carpenter()
    bad = ("skills", "prices", "body")

    def keeps(harness) -> bool:
        return next(s.body for s in harness.skills if s.key == "prices") == base.skills[0].body

    made = await rewrite(base, Model(lambda text: f"{text} Well."), keeps)
    assert made.refused == {bad: "the preservation check failed with it"}
    assert made.harness.skills[0].body == base.skills[0].body
    assert made.harness.skills[1].body == base.skills[1].body + " Well."


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("Call `get_item`.", "Call it.", "no longer names get_item"),
        ("Call it.", "Call `get_item`.", "names get_item"),
        ("At most 30 days.", "At most 31 days.", "figures"),
        ("1. One.\n2. Two.", "1. One and two.", "1 steps, not 2"),
        ("Say so.", "{{ tools }}", "template"),
        ("Say so.", " ", "empty"),
        ("Say so.", "Say so. " * 40, "three times"),
    ],
)
def test_a_rewording_that_loses_something_is_refused(before: str, after: str, why: str):
    assert why in fault_of(before, after)
    assert fault_of(before, before) == ""


async def test_a_policy_that_cannot_be_asked_is_told():
    def fails(_: str) -> str:
        raise PolicyUnavailable("no server")

    with pytest.raises(PolicyUnavailable, match="no server"):
        await rewrite(carpenter(), Model(fails), lambda _: True)
