"""What a reply may state, and what it may not."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from builtin_hook_cases import NOW, context, make, result, verdict

from livery.harness.hooks.decisions import Retry
from livery.shop.loading import load_catalogue
from livery.shop.operations import OperationContext, OperationError
from livery.shop.registry import shop_operations
from livery.types import RoomState

STORES = Path(__file__).parents[2] / "stores"

SERUM = {
    "link_id": "3",
    "name": "Rose Serum",
    "list_price": {"amount": 4999, "currency": "USD", "text": "$49.99"},
    "price": {"amount": 3999, "currency": "USD", "text": "$39.99"},
    "percent_off": 20,
    "stock": 12,
    "volume": {"value": 30, "unit": "ml"},
    "sizes": ["S", "M"],
    "delivery_days": 7,
    "ends_at": "2026-06-20T23:59:00+00:00",
}
CREAM = {
    "link_id": "1",
    "name": "Night Cream",
    "price": {"amount": 5900, "currency": "USD", "text": "$59.00"},
    "stock": 4,
}
SERUM_RESULT = result(SERUM, "Rose Serum: $39.99 (was $49.99), 20% off, 12 in stock")
CREAM_RESULT = result(CREAM, "Night Cream: $59")
BOTH = result({"items": [SERUM, CREAM]}, "1. Rose Serum $39.99  2. Night Cream $59.00")

ENGLISH = [
    ("It's $39.99 right now.", "allow"),
    ("It's 39.99 right now.", "allow"),
    ("It's thirty-nine ninety-nine, twenty percent off.", "allow"),
    ("Was $49.99, now $39.99, 20% off, only 12 in stock.", "allow"),
    ("It's 30 ml and ships within 7 days.", "allow"),
    ("It arrives within one week, in S or M.", "allow"),
    ("The offer ends June 20.", "allow"),
    ("Rose Serum is lovely, thanks for asking!", "allow"),
    ("Number 3 is $39.99.", "allow"),
    ("There are two things to know, friends.", "allow"),
    ("Today, June 18, it's $39.99.", "allow"),
    ("It's $38.99 right now.", "retry"),
    ("It's €39.99 right now.", "retry"),
    ("It's 39.99 yuan.", "retry"),
    ("It's about 40 dollars.", "retry"),
    ("That's around 40.", "retry"),
    ("It's 25% off.", "retry"),
    ("You get half price today.", "retry"),
    ("We have 15 pieces left.", "retry"),
    ("It's a 50 ml bottle.", "retry"),
    ("It ships within 3 days.", "retry"),
    ("It comes in XL as well.", "retry"),
    ("The offer ends June 25.", "retry"),
    ("Only twenty-nine ninety-nine!", "retry"),
    ("Buy one get one free!", "retry"),
    ("Did I say $19.99?", "retry"),
]
CHINESE = [
    ("现在39.99美元", "allow"),
    ("打八折，还剩12件", "allow"),
    ("30毫升，七天内发货", "allow"),
    ("有S码和M码", "allow"),
    ("三号链接很好用", "allow"),
    ("6月20日结束", "allow"),
    ("原价49.99美元", "allow"),
    ("到手价三十九块九", "retry"),
    ("现在只要39元", "retry"),
    ("打七折", "retry"),
    ("半价", "retry"),
    ("还剩三件", "retry"),
    ("50毫升一瓶", "retry"),
    ("三天到货", "retry"),
    ("买一送一", "retry"),
    ("有XXL码", "retry"),
    ("6月30号结束", "retry"),
]


@pytest.mark.parametrize(("reply", "expected"), ENGLISH)
def test_english_replies_beside_one_result(reply: str, expected: str) -> None:
    assert verdict(make("grounding")(reply, context(SERUM_RESULT))) == expected


@pytest.mark.parametrize(("reply", "expected"), CHINESE)
def test_chinese_replies_beside_one_result(reply: str, expected: str) -> None:
    check = make("grounding", "zh")
    assert verdict(check(reply, context(SERUM_RESULT, language="zh"))) == expected


OTHER_PRICES = """
$ 19 | $19 99 | 19.99 | 19 dollars | $19USD | 19USD | USD19 | nineteen dollars | nineteen, ninety-five | it's nineteen
just nineteen today | a buck fifty | $19k | nineteen-ninety-five | 19 point 99 | nineteen point nine five | 19,99 €
$40ish | 40ish | ninety-nine cents | five-ninety-nine | a hundred dollars | hundred dollars | two hundred and fifty
20 percent off everything but 30 percent off this | twenty-five per cent | 25 pct off | two for one | half off | a third off
1/2 off | 2 for $30 | 19-29 dollars | $39 | $39.9 | $40 | 3999 dollars | 38.99 | price: 9 | under twenty bucks
二折 | 对折 | 打个对折 | 五五折 | 半价 | 减20 | 立减二十 | 便宜二十 | 第二件0元 | 0元 | 19刀 | 叁拾玖元 | 十九块九 | １９元
十九点九 | 只要十九 | 价格十九 | 九块九 | 9块9包邮 | 9.9包邮 | 满两百减三十 | 19起 | 19元起 | 三十九块九 | 39.99元 | ¥39.99
"""


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_other_price_gets_through_however_it_is_said(language: str) -> None:
    check = make("grounding", language)
    said = [s.strip() for line in OTHER_PRICES.strip().splitlines() for s in line.split("|")]
    let_through = [s for s in said if verdict(check(s, context(SERUM_RESULT, language=language))) == "allow"]
    assert len(said) > 60
    assert let_through == []


WRONG_ITEM = [
    ("Number 3 is $39.99.", "allow"),
    ("Number 1 is $59.", "allow"),
    ("Number 3 is $59.", "retry"),
    ("Number 1 is $39.99.", "retry"),
    ("Number 3 is $39.99 and number 1 is $59.", "allow"),
    ("Number 3 is $59 and number 1 is $39.99.", "retry"),
    ("Rose Serum is $39.99, Night Cream is $59.", "allow"),
    ("Night Cream is $39.99.", "retry"),
    ("The cream is $39.99.", "retry"),
    ("The cream is $59 and the serum is $39.99.", "allow"),
    ("The serum has 4 in stock.", "retry"),
    ("The cream has 4 in stock.", "allow"),
    ("Night Cream has 4 left, the Rose Serum 12.", "allow"),
    ("It's $39.99 for number 3 and $59 for number 1.", "allow"),
    ("3号链接39.99美元，1号59美元", "allow"),
    ("1号链接39.99美元", "retry"),
]


@pytest.mark.parametrize(("reply", "expected"), WRONG_ITEM)
@pytest.mark.parametrize("results", [(BOTH,), (SERUM_RESULT, CREAM_RESULT)], ids=["one result", "two results"])
def test_a_right_number_on_the_wrong_item_is_refused(reply: str, expected: str, results: tuple) -> None:
    assert verdict(make("grounding")(reply, context(*results))) == expected


def test_the_item_asked_for_counts_where_the_reply_names_none() -> None:
    check = make("grounding")
    asked = "how much is number 3?"
    assert verdict(check("It's $59.", context(CREAM_RESULT, asked=asked))) == "retry"
    assert verdict(check("It's $39.99.", context(SERUM_RESULT, asked=asked))) == "allow"
    assert verdict(check("We also have another one at $59.", context(CREAM_RESULT, asked=asked))) == "allow"
    assert verdict(check("It's $59.", context(CREAM_RESULT, asked="you are number one!"))) == "allow"


def test_chat_is_never_evidence_but_trusted_text_is() -> None:
    check = make("grounding")
    assert verdict(check("Yes, it is $5.", context(asked="is it $5?"))) == "retry"
    assert verdict(check("Yes, it is $5.", context(evidence=("Entry price $5",)))) == "allow"


def test_failed_results_are_no_evidence() -> None:
    assert verdict(make("grounding")("It's $39.99.", context(result(SERUM, "$39.99", ok=False)))) == "retry"


def test_a_price_that_changed_or_another_requests_result_grounds_nothing() -> None:
    check = make("grounding")
    now = {**SERUM, "price": {"amount": 2999, "currency": "USD", "text": "$29.99"}}
    for _ in range(2):  # what was read of one is remembered when the other comes
        assert verdict(check("It's $39.99.", context(result(SERUM, "from $39.99")))) == "allow"
        assert verdict(check("It's $29.99.", context(result(now, "from $29.99")))) == "allow"
        assert verdict(check("It's $39.99.", context(result(now, "from $29.99")))) == "retry"
        assert verdict(check("It's $29.99.", context(result(SERUM, "from $39.99")))) == "retry"
        assert verdict(check("It's $39.99.", context())) == "retry"
    shown = result({**SERUM}, "from $39.99")
    assert isinstance(shown.value, dict)
    shown.value["price"] = now["price"]  # one value, changed in place: read as it stands
    assert verdict(check("It's $29.99.", context(shown))) == "allow"
    same = {"link_id": "3", "note": "fine"}
    tall = result(same, "fine", arguments={"height_cm": 170})
    assert verdict(check("For 170 cm it's fine.", context(tall))) == "allow"
    assert verdict(check("For 170 cm it's fine.", context(result(same, "fine")))) == "retry"


def test_asking_a_quantity_back_is_no_claim_save_for_money() -> None:
    check = make("grounding")
    assert verdict(check("You want 3 pairs, right?", context())) == "allow"
    assert verdict(check("So 30% off, right?", context())) == "retry"
    assert verdict(make("grounding", questions=False)("You want 3 pairs, right?", context())) == "retry"


def test_arguments_that_a_result_accepted_may_be_repeated() -> None:
    sized = result({"size": "L"}, "Take an L", arguments={"height_cm": 170, "weight_kg": 65, "note": "500 ml"})
    check = make("grounding")
    assert verdict(check("For 170 cm and 65 kg, take an L.", context(sized))) == "allow"
    assert verdict(check("It's 500 ml.", context(sized))) == "retry"


def test_a_measure_may_be_told_without_its_unit_but_not_in_another() -> None:
    chart = result({"link_id": "6", "chart": {"M": "height 165-175 cm, weight 58-70 kg"}}, "")
    check = make("grounding")
    assert verdict(check("Height 165 to 175 takes the M.", context(chart))) == "allow"
    assert verdict(check("Height 165 to 180 takes the M.", context(chart))) == "retry"
    assert verdict(check("165 kg takes the M.", context(chart))) == "retry"


def test_feedback_names_each_quantity_and_details_list_them() -> None:
    decision = make("grounding")("It's $35 and 25% off.", context(SERUM_RESULT))
    assert isinstance(decision, Retry)
    assert '"$35" (price or amount)' in decision.feedback
    assert '"25%" (percentage)' in decision.feedback
    assert [u["text"] for u in decision.details["ungrounded"]] == ["$35", "25%"]
    chinese = make("grounding", "zh")("只要35元", context(SERUM_RESULT, language="zh"))
    assert isinstance(chinese, Retry)
    assert "“35元”（金额）" in chinese.feedback


def test_params_choose_kinds_and_exemptions() -> None:
    assert verdict(make("grounding", kinds=["money"])("Ships in 3 days.", context())) == "allow"
    assert verdict(make("grounding", allow=["7 days"])("七天无理由", context())) == "allow"
    assert verdict(make("grounding", wrong_item=False)("Number 3 is $59.", context(CREAM_RESULT))) == "allow"
    with pytest.raises(ValueError, match="kinds"):
        make("grounding", kinds=["weight"])


def _spoken(value: object, field: str = "") -> list[str]:
    """Every text of a result; an amount by itself with its field's name: "list price: $24"."""
    if isinstance(value, dict):
        unused = [f"With a coupon: {text}" for text in _spoken(value.get("not_used"))]
        rest = {k: v for k, v in value.items() if k not in ("not_used", "currency")}
        return unused + [t for k, v in rest.items() for t in _spoken(v, field if k == "text" else k)]
    if isinstance(value, list):
        return [text for v in value for text in _spoken(v, field)]
    if not isinstance(value, str):
        return []
    return [f"{field.replace('_', ' ')}: {value}" if value[:1] in "$¥" else value]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_whatever_the_shops_own_operations_say_is_borne_out_by_their_results(language: str) -> None:
    catalogue = load_catalogue(STORES / f"demo-{language}")
    operations = shop_operations()
    about = OperationContext(
        catalogue=catalogue,
        state=RoomState(room="r", language=language, now=NOW),
        now=datetime.fromtimestamp(NOW, UTC),
    )
    check = make("grounding", language)
    refused: list[str] = []
    said = 0
    for product in catalogue.products:
        for name, more in (
            ("catalog.get_product", {}),
            ("pricing.quote", {"quantity": 2}),
            ("stock.check", {}),
        ):
            arguments = {"link_id": product.link_id, **more}
            try:
                value = asyncio.run(operations.call(name, arguments, about)).value
            except OperationError:
                continue  # not on sale: nothing is said
            asked = context(result(value, arguments=arguments), language=language, asked=f"number {product.link_id}?")
            for text in _spoken(value):
                said += 1
                if verdict(check(text, asked)) != "allow":
                    refused.append(text)
    assert said > 300
    assert refused == []


QUOTE = {
    "link_id": "3",
    "name": "Rose Serum",
    "total": {"amount": 3580, "currency": "USD", "text": "$35.80"},
    "lines": [{"reason": "Skin Week: 15% off", "percent_off": 15}],
    "not_used": [
        {"coupon": "FINCHCLUB12", "terms": "12% off, at most $25", "why": "members only"},
        {"coupon": "会员25", "terms": "满¥200减¥25", "why": "仅限会员"},
    ],
}
UNUSED_DISCOUNTS = [
    ("It's $35.80, that's 15% off.", "allow"),
    ("It's 12% off today.", "retry"),
    ("Take $25 off.", "retry"),
    ("Members get 12% off.", "allow"),
    ("With FINCHCLUB12 it would be 12% off, but that's for the club.", "allow"),
    ("打88折", "retry"),
    ("减25元", "retry"),
    ("会员满200元减25元", "allow"),
    ("打85折", "allow"),
]


@pytest.mark.parametrize(("reply", "expected"), UNUSED_DISCOUNTS)
@pytest.mark.parametrize("shown", ["json", "text"])
def test_a_discount_that_was_not_used_is_told_only_with_its_terms(reply: str, expected: str, shown: str) -> None:
    written = json.dumps(QUOTE) if shown == "json" else "$35.80; 15% off. Not used: 12% off, at most $25; 满¥200减¥25"
    assert verdict(make("grounding")(reply, context(result(QUOTE, written)))) == expected


@pytest.mark.parametrize("operation", ["harness.load_skill", "harness.read_skill_file"])
def test_an_example_in_a_skill_is_no_evidence_and_a_skill_marked_as_facts_is(operation: str) -> None:
    text = "Say it like this: it comes to $77 after the coupon."
    loaded = replace(result(text, text), operation=operation)
    assert verdict(make("grounding")("It comes to $77.", context(loaded))) == "retry"
    assert verdict(make("grounding")("It comes to $77.", context(loaded, evidence=(text,)))) == "allow"
