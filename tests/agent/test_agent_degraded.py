import pytest
from agent_world import harness

from livery.errors import PolicyTimeout
from livery.harness.model import Degraded
from livery.types import Route

PRICE_1 = "Link 1, Steel Bottle, comes to $25 right now."


@pytest.mark.parametrize(
    ("text", "on_screen", "reply"),
    [
        ("how much is number 1?", "", PRICE_1),
        ("how much is it", "1", PRICE_1),
        ("so how much for 2 of these right now?", "1", "Link 1, Steel Bottle, comes to $50 for 2 right now."),
        ("price pls", "1", PRICE_1),
        ("how much is the steel bottle", "2", PRICE_1),
        ("hw mch is the stel botle? price?", "2", PRICE_1),
        ("price for 2 pieces of number 1", "", "Link 1, Steel Bottle, comes to $50 for 2 right now."),
        ("is it in stock", "1", "Yes, link 1, Steel Bottle, is in stock right now."),
        ("do you still have number 2?", "1", "Link 2, Cast Pan, is sold out at the moment."),
        ("shipping to oregon?", "1", "Shipping to Oregon is $5 and usually takes 2-4 days."),
        ("can I get a refund or do returns?", "1", "Unused goods may come back within 30 days."),
        ("is the bottle dishwasher safe", "", "Yes, both parts are."),
        ("what is number 1", "2", "Link 1 is Steel Bottle. It keeps tea hot all day."),
    ],
)
async def test_what_catalogue_and_faq_answer(run, request_of, text, on_screen, reply):
    trajectory, _ = await run([PolicyTimeout("x")], request=request_of(text, on_screen=on_screen))
    assert trajectory.reply == reply
    assert trajectory.route is Route.DEGRADED


@pytest.mark.parametrize(
    ("text", "on_screen"),
    [
        ("how much is number 9?", "1"),  # no such link: never the item on screen instead
        ("how much are number 1 and number 2", "1"),  # two meant: no guess
        ("how much", ""),  # nothing meant
        ("shipping to atlantis?", "1"),
        ("you look great", "1"),
        ("that hat in the back", "1"),
        ("how much for 2 tees", "1"),  # an item not known here: never the price of the one on screen
        ("your competitor is cheaper", "1"),
        ("is size 42 in stock", "1"),  # the bottle has no sizes
        ("", "1"),
    ],
)
async def test_what_they_do_not_answer_is_left_to_silence(run, request_of, text, on_screen):
    trajectory, _ = await run([PolicyTimeout("x")], request=request_of(text, on_screen=on_screen))
    assert trajectory.reply == ""
    assert trajectory.route is Route.SILENT


async def test_of_merged_messages_the_first_that_can_be_answered_is(run, request_of):
    trajectory, _ = await run([PolicyTimeout("x")], request=request_of("lol", "shipping to oregon?"))
    assert trajectory.reply == "Shipping to Oregon is $5 and usually takes 2-4 days."


async def test_a_harness_may_have_its_own_wording_and_thresholds(run, request_of):
    own = Degraded(phrases={"price": "{{ name }}: {{ total }}!"}, faq_score=1.0)
    worn = harness(degraded=own)
    trajectory, _ = await run([PolicyTimeout("x")], "how much is number 1", worn=worn)
    assert trajectory.reply == "Steel Bottle: $25!"
    trajectory, _ = await run([PolicyTimeout("x")], "dishwasher ok for the bottle", worn=worn)
    assert trajectory.route is Route.SILENT


async def test_chinese_is_answered_in_chinese(run, request_of):
    worn = harness(language="zh")
    trajectory, _ = await run([PolicyTimeout("x")], "1号链接多少钱", worn=worn)
    assert trajectory.reply == "1号链接Steel Bottle,现在到手$25。"


async def test_only_the_answer_given_becomes_evidence(run):
    trajectory, _ = await run([PolicyTimeout("x")], "is the bottle dishwasher safe")
    faq = [r for r in trajectory.context if r.operation == "faq.search"]
    assert [r.value for r in faq] == [{"question": "Is the bottle dishwasher safe?", "answer": "Yes, both parts are."}]


async def test_wording_that_cannot_be_rendered_is_silence_with_the_reason(run):
    worn = harness(degraded=Degraded(phrases={"price": "{{ no_such_field }}"}))
    trajectory, _ = await run([PolicyTimeout("x")], "how much is number 1", worn=worn)
    assert trajectory.route is Route.SILENT
    assert "no_such_field" in trajectory.route_reason


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_every_default_phrase_renders_for_every_product_of_the_sample_shops(language):
    from datetime import UTC, datetime
    from pathlib import Path

    from livery.agent.degraded import Degraded as Answerer
    from livery.shop.loading import CatalogueSource
    from livery.shop.operations import OperationContext
    from livery.shop.registry import shop_operations
    from livery.types import ChatMessage, Request, RoomState

    catalogue = CatalogueSource(Path(__file__).parents[2] / f"stores/demo-{language}").current()
    texts = {
        "en": ("how much is number {}?", "is number {} in stock", "what is number {}", "3 pieces of number {}, price?"),
        "zh": ("{}号链接多少钱", "{}号有货吗", "{}号是什么", "{}号链接3件多少钱"),
    }[language]
    now = datetime(2026, 6, 1, 12, tzinfo=UTC)
    for product in catalogue.products:
        for text in texts:
            state = RoomState(room="r", language=language, now=now.timestamp(), on_screen="1")
            message = ChatMessage(id="m", room="r", viewer="v", text=text.format(product.link_id), at=0)
            request = Request(id="q", messages=(message,), state=state, created_at=0)
            context = OperationContext(catalogue=catalogue, state=state, now=now)
            answer = await Answerer(harness(language=language), shop_operations(), context).answer(request)
            assert answer is not None, message.text
            assert product.name in answer.text or answer.reason == "answered from the FAQ", answer
