"""What two requests of a room share of the prompt, for the sample harnesses: the model server's cached prefix."""

from pathlib import Path

import pytest

from livery.agent.live_harness import LiveHarness
from livery.agent.service import shared_beginning
from livery.harness.folder import load_harness
from livery.shop.registry import shop_operations

HARNESSES = sorted((Path(__file__).parents[2] / "harnesses").iterdir())
RANK = {"release": 0, "room": 1, "request": 2}


def facts(**changes):
    shown = {
        "room": {"on_screen": "3", "notes": {"guest": "Ann"}},
        "item": {"name": "Travel mug"},
        "item_text": "Travel mug, $49.90",
        "messages": [{"viewer": "V1", "text": "how much is it?"}],
        "chat": "V1: how much is it?",
        "dialogue": [],
        "now": "2026-12-01 16:30",
        "today": "2026-12-01",
    }
    return {**shown, **changes}


LATER = {
    "messages": [{"viewer": "V2", "text": "do you ship to Oregon?"}],
    "chat": "V2: do you ship to Oregon?",
    "dialogue": [{"viewer": "V1", "text": "how much is it?", "reply": "It is $49.90."}],
}


@pytest.fixture(params=HARNESSES, ids=lambda folder: folder.name)
def live(request):
    return LiveHarness(load_harness(request.param).harness, "", shop_operations())


@pytest.mark.parametrize("actions", ["text", "native"])
def test_what_never_changes_comes_first_and_is_the_most_of_it(live, actions):
    one = live.prompt.render(actions, facts())
    two = live.prompt.render(actions, facts(now="2026-12-01 16:31", item=None, item_text="", **LATER))
    assert one.system == two.system == live.prompt.system(actions)
    assert len(one.user) < len(one.system) / (4 if actions == "text" else 2)


def test_sections_stand_in_the_order_in_which_they_change(live):
    ranks = [RANK[section.volatility] for section in live.harness.sections]
    assert ranks == sorted(ranks)


def test_within_a_minute_only_dialogue_and_chat_change(live):
    """Characters of the user message that the second request of a room shares with its first."""
    one = live.prompt.render("text", facts()).user
    two = live.prompt.render("text", facts(**LATER)).user
    shared = one[: shared_beginning(one, two)]
    assert "16:30" in shared
    assert "Travel mug" in shared
    assert "Ann" in shared  # the operator's notes
    assert "how much" not in shared


def test_a_new_minute_changes_the_room_s_section_from_the_clock_on(live):
    """The clock stands before the item on screen and the notes: all of the user message is read anew each minute, which
    is little beside the system message (above). The samples' texts are pinned by the evaluation sets, so it stays."""
    one = live.prompt.render("text", facts()).user
    two = live.prompt.render("text", facts(now="2026-12-01 16:31")).user
    shared = one[: shared_beginning(one, two)]
    assert shared.endswith("2026-12-01 16:3")
    assert len(one) - len(shared) < 200
