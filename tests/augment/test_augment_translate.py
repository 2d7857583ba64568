"""What was done under one harness, told as it would have gone under another, and held against the real loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from livery.agent.live_harness import LiveHarness
from livery.agent.loop import Agent
from livery.augment.inverse import NotTranslatable, surface_arguments
from livery.augment.operators import Variant, apply_one, compose, registered
from livery.augment.probe import reply_frame, skill_for, tool_for
from livery.augment.sampling import sample_variant
from livery.augment.translate import translate
from livery.harness.digest import harness_digest
from livery.harness.lint_tools import RUNTIME_OPERATIONS
from livery.harness.model import Harness
from livery.policies.policy import PolicyRequest, PromptMessage
from livery.shop.catalogue import Catalogue
from livery.shop.registry import shop_operations
from livery.types import ChatMessage, PolicyTurn, Request, RoomState, ToolCall, Trajectory

OPERATIONS = shop_operations()
NOW = 1_800_000_000.0
CALLS = [
    ("pricing.quote", {"link_id": "6", "quantity": 2}),
    ("catalog.get_product", {"link_id": "5"}),
    ("stock.check", {"link_id": "5"}),
    ("shipping.quote", {"region": "Nowhere at all"}),
]


class Course:
    """Loads the price skill, makes the calls, is sent back once, then replies."""

    uri, weights, actions = "test:course", "w", "text"

    def __init__(self, harness: Harness, slip: str) -> None:
        self.harness, self.slip = harness, slip

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        turns = sum(m.role == "assistant" for m in request.messages)
        opening, close = reply_frame(self.harness)
        if turns == 0:
            load = tool_for(self.harness, "harness.load_skill")
            skill = skill_for(self.harness, "price")
            assert load and skill
            said = surface_arguments(load, {"name": skill.name}, RUNTIME_OPERATIONS["harness.load_skill"])
            made = [ToolCall(id="0", name=load.name, arguments=said)]
            for n, (operation, arguments) in enumerate(CALLS, 1):
                tool = tool_for(self.harness, operation)
                assert tool
                spoken = surface_arguments(tool, arguments, OPERATIONS[operation].parameters)
                made.append(ToolCall(id=str(n), name=tool.name, arguments=spoken))
            return PolicyTurn(calls=tuple(made), stop="calls", reasoning="I look at price-promo first.")
        body = self.slip if turns == 1 and self.slip else "Let me see, that one is a lovely tee."
        return PolicyTurn(text=" ".join(p for p in (opening, body, close) if p))

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> None: ...

    async def aclose(self) -> None: ...


@pytest.fixture(scope="module")
def played(catalogues: dict[str, Catalogue]) -> Callable[..., Trajectory]:
    def play(harness: Harness, slip: str = "") -> Trajectory:
        agent = Agent(
            policy=Course(harness, slip),
            operations=OPERATIONS,
            catalogue=lambda: catalogues["en"],
            clock=lambda: NOW,
            monotonic=lambda: 0.0,
        )
        message = ChatMessage(id="m", room="r", viewer="v", name="V", text="how much for two?", at=NOW)
        request = Request(
            id="q",
            messages=(message,),
            state=RoomState(room="r", language="en", now=NOW, on_screen="6"),
            created_at=NOW,
        )
        return asyncio.run(agent.answer(request, LiveHarness(harness, harness_digest(harness), OPERATIONS)))

    return play


def base_variant(harness: Harness) -> Variant:
    return Variant(harness=harness, base_digest=harness_digest(harness))


def varied(base: Harness, *names: str, seed: int = 1) -> Variant:
    made = compose(base, [registered()[n] for n in names], seed=seed, split="train")
    assert len(made.records) == len(names)
    return made


def comparable(trajectory: Trajectory) -> Trajectory:
    """Without what differs between any two runs."""
    turns = tuple(
        replace(
            t,
            at_s=0.0,
            policy=replace(t.policy, reasoning="", timing=type(t.policy.timing)()),
            results=tuple(replace(r, duration_s=0.0) for r in t.results),
        )
        for t in trajectory.turns
    )
    return replace(trajectory, turns=turns, total_s=0.0, hooks=(), context=(), policy="")


def test_a_translation_is_what_the_loop_would_have_given(english: Harness, played: Callable[..., Trajectory]):
    before = played(english)
    assert before.reply and before.results[4].error is not None
    source = base_variant(english)
    done = 0
    for seed in range(40):
        target = sample_variant(english, seed, ("train", "heldout")[seed % 2], 0.7)
        try:
            made = translate(before, source, target, OPERATIONS)
        except NotTranslatable:
            continue
        done += 1
        assert comparable(made) == comparable(played(target.harness))
    assert done >= 20


def test_there_and_back_again(english: Harness, played: Callable[..., Trajectory]):
    before = played(english)
    source = base_variant(english)
    target = varied(
        english, "skill_identifiers.opaque", "tool_schemas.tool_opaque", "tool_schemas.types",
        "tool_schemas.nested", "tool_schemas.result_form", "hook_behaviour.prefix",
    )  # fmt: skip
    there = translate(before, source, target, OPERATIONS)
    assert there.turns[0].policy.calls[0].name != "load_skill"
    assert comparable(translate(there, target, source, OPERATIONS)) == comparable(before)


def test_a_reply_that_was_sent_back_is_told_in_the_targets_words(english: Harness, played: Callable[..., Trajectory]):
    slip = "Other shops sell it too, and it is the best in the world!"
    before = played(english, slip)
    assert len(before.turns) == 3 and "\n" in before.turns[1].feedback
    target = varied(
        english, "skill_identifiers.opaque", "hook_behaviour.feedback_wording", "hook_behaviour.order", seed=3
    )
    made = translate(before, base_variant(english), target, OPERATIONS)
    assert made.turns[1].feedback == played(target.harness, slip).turns[1].feedback
    coded = apply_one(registered()["hook_behaviour.hook_codes"], english, seed=1, split="heldout")
    assert coded is not None
    target = Variant(harness=coded[0], base_digest=harness_digest(english), records=(coded[1],))
    made = translate(before, base_variant(english), target, OPERATIONS)
    assert made.turns[1].feedback == played(target.harness, slip).turns[1].feedback


def test_names_in_reasoning_follow(english: Harness, played: Callable[..., Trajectory]):
    target = varied(english, "skill_identifiers.opaque")
    made = translate(played(english), base_variant(english), target, OPERATIONS)
    name = next(s.name for s in target.harness.skills if s.key == "price-promo")
    assert made.turns[0].policy.reasoning == f"I look at {name} first."


def test_what_does_not_go_is_told(english: Harness, played: Callable[..., Trajectory]):
    before, source = played(english), base_variant(english)

    def why(target: Variant, given: Trajectory = before, made_under: Variant = source) -> str:
        with pytest.raises(NotTranslatable) as told:
            translate(given, made_under, target, OPERATIONS)
        return str(told.value)

    assert "made under" in why(source, replace(before, harness_release="sha256:other"))
    assert "route" in why(source, replace(before, route=type(before.route).SILENT))
    other = english.replace(name="other")
    assert "different bases" in why(Variant(harness=other, base_digest=harness_digest(other)))
    for seed in range(40):
        split = apply_one(registered()["skill_content.split"], english, seed=seed, split="train")
        assert split is not None
        if split[1].parameters["skill"] == "price-promo":
            target = Variant(harness=split[0], base_digest=source.base_digest, records=(split[1],))
            assert "goes on in another skill" in why(target)
            break
    else:
        pytest.fail("no seed split the price skill")
    short = english.replace(limits={**english.limits.model_dump(), "reply_chars": 10})
    assert "characters" in why(Variant(harness=short, base_digest=source.base_digest))
    fewer = english.replace(tools=tuple(t for t in english.tools if t.key != "check_stock"))
    assert "no tool check_stock" in why(Variant(harness=fewer, base_digest=source.base_digest))
