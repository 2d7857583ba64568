"""Every operation on the sample stores: names and schemas are a contract, and the figures are worked out here."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest

from livery.shop.arguments import GetProduct, Quote, read, schema_of
from livery.shop.operations import OperationError
from livery.shop.registry import shop_operations
from livery.types import Effect, ErrorKind

CONTRACT: dict[str, tuple[set[str], set[str]]] = {
    # operation: (parameters, required ones)
    "catalog.get_product": ({"link_id", "name"}, set()),
    "catalog.search": ({"query", "limit", "category", "max_price"}, {"query"}),
    "catalog.compare": ({"link_ids", "aspects"}, {"link_ids"}),
    "pricing.quote": ({"link_id", "variant", "quantity", "coupons", "member"}, {"link_id"}),
    "promotions.list": ({"link_id"}, set()),
    "stock.check": ({"link_id", "variant"}, {"link_id"}),
    "size.advise": (
        {"link_id", "height_cm", "weight_kg", "chest_cm", "waist_cm", "foot_cm", "usual_size"},
        {"link_id"},
    ),
    "shipping.quote": ({"region", "link_id", "quantity"}, {"region"}),
    "policy.lookup": ({"topic"}, {"topic"}),
    "faq.search": ({"query", "link_id", "limit"}, {"query"}),
    "room.state": (set(), set()),
    "room.show_item": ({"link_id"}, {"link_id"}),
    "room.hand_off": ({"reason"}, {"reason"}),
}


def usd(amount: int, text: str) -> dict[str, Any]:
    return {"amount": amount, "currency": "USD", "text": text}


def cny(amount: int, text: str) -> dict[str, Any]:
    return {"amount": amount, "currency": "CNY", "text": text}


def failure(call: Any, name: str, **arguments: Any) -> OperationError:
    with pytest.raises(OperationError) as caught:
        call(name, **arguments)
    return caught.value


# ------------------------------------------------------------------------------- contract


def test_names_and_parameters_are_the_contract() -> None:
    operations = shop_operations()
    assert set(operations) == set(CONTRACT)
    for name, (parameters, required) in CONTRACT.items():
        schema = operations[name].parameters
        assert set(schema["properties"]) == parameters, name
        assert set(schema["required"]) == required, name
        assert schema["additionalProperties"] is False
        assert all(p.get("description") for p in schema["properties"].values())
        jsonschema.Draft202012Validator.check_schema(schema)
    assert {n for n, o in operations.items() if o.writes} == {"room.show_item", "room.hand_off"}


@pytest.mark.parametrize(
    ("arguments", "valid"),
    [
        ({"link_id": "1"}, True),
        ({"link_id": "1", "quantity": 3, "coupons": ["A"], "member": True, "variant": "M"}, True),
        ({}, False),
        ({"link_id": "1", "quantity": 0}, False),
        ({"link_id": "1", "quantity": 1000}, False),
        ({"link_id": "1", "coupons": "A"}, False),
        ({"link_id": "1", "size": "M"}, False),
    ],
)
def test_schema_and_reader_agree(arguments: dict[str, Any], valid: bool) -> None:
    assert jsonschema.Draft202012Validator(schema_of(Quote)).is_valid(arguments) is valid
    if valid:
        assert read(Quote, arguments).link_id == "1"
    else:
        with pytest.raises(OperationError) as caught:
            read(Quote, arguments)
        assert caught.value.kind is ErrorKind.INVALID_ARGUMENTS


def test_invalid_arguments_are_all_named() -> None:
    with pytest.raises(OperationError) as caught:
        read(Quote, {"link_id": "1", "quantity": 0, "colour": "red"})
    assert "quantity: " in caught.value.message
    assert "colour: " in caught.value.message
    with pytest.raises(OperationError, match="exactly one of link_id and name"):
        read(GetProduct, {})


def test_results_are_json(en: Any, zh: Any) -> None:
    for call, region in ((en, "Texas"), (zh, "北京")):
        for product in call.catalogue.products:
            for name in (
                "catalog.get_product",
                "pricing.quote",
                "stock.check",
                "size.advise",
                "promotions.list",
            ):
                assert json.loads(json.dumps(call(name, link_id=product.link_id)))["link_id"] == product.link_id
            call("shipping.quote", region=region, link_id=product.link_id, quantity=2)


# -------------------------------------------------------------------------------- catalog


def test_get_product_tells_todays_price_with_its_reasons(en: Any) -> None:
    assert en("catalog.get_product", link_id="1") == {
        "link_id": "1",
        "name": "Daylight Mineral Sunscreen SPF50+",
        "price": usd(2040, "$20.40"),
        "list_price": usd(2400, "$24"),
        "with": ["Skin Week (15% off)"],
        "specs": {
            "SPF": "SPF50+",
            "Volume": "50 ml",
            "Filter": "zinc oxide",
            "Skin type": "all including sensitive",
            "Water resistance": "80 minutes",
        },
        "points": ["No white cast on most skin tones", "Fragrance free"],
    }


def test_get_product_tells_options_and_what_is_gone(en: Any) -> None:
    value = en("catalog.get_product", name="rain jacket")
    assert value["options"] == {"color": ["navy", "mustard"], "size": ["S", "M", "L", "XL"]}
    assert value["variants_sold_out"] == ["navy XL", "mustard M"]
    assert value["price"] == usd(5990, "$59.90")


def test_options_follow_the_size_chart(zh: Any) -> None:
    assert zh("catalog.get_product", link_id="5")["options"]["尺码"] == ["S", "M", "L", "XL", "2XL"]


def test_variant_prices_are_told(en: Any) -> None:
    assert en("catalog.get_product", link_id="16")["variant_list_prices"] == {"20000 mAh": usd(5400, "$54")}


def test_products_that_cannot_be_bought_say_so(en: Any) -> None:
    discontinued = en("catalog.get_product", link_id="25")
    assert discontinued["status"] == "no longer sold"
    assert "price" not in discontinued
    upcoming = en("catalog.get_product", link_id="26")
    assert upcoming["status"] == "not on sale yet"
    assert upcoming["on_sale_at"] == {"at": "2030-09-15T12:00:00-04:00", "text": "15 Sep 2030 12:00"}
    assert upcoming["price"] == usd(21900, "$219")  # today's promotions are over by then
    assert en("catalog.get_product", link_id="4")["status"] == "sold out"


def test_results_are_compact(en: Any, zh: Any) -> None:
    """A small model reads them: about four characters of JSON a token in English."""
    for call in (en, zh):
        sizes = [
            len(json.dumps(call("catalog.get_product", link_id=p.link_id), separators=(",", ":")).encode())
            if call is en
            else len(json.dumps(call("catalog.get_product", link_id=p.link_id), ensure_ascii=False))
            for p in call.catalogue.products
        ]
        assert sorted(sizes)[len(sizes) // 2] < 480
        assert max(sizes) < 640


def test_a_price_that_ends_soon_says_when(en: Any) -> None:
    soon = datetime(2029, 12, 30, tzinfo=UTC)
    assert en("catalog.get_product", link_id="5", now=soon)["price_ends_at"] == "31 Dec 23:00"


def test_search_orders_by_name_and_obeys_its_filters(en: Any, zh: Any) -> None:
    links = [r["link_id"] for r in en("catalog.search", query="waterproof jacket")["results"]]
    assert links[0] == "5"
    cheap = en("catalog.search", query="baby", max_price=16)["results"]
    assert [(r["link_id"], r["price"]["amount"]) for r in cheap] == [("22", 1600)]
    assert en("catalog.search", query="baby", max_price=15.99)["results"] == []
    kitchen = en("catalog.search", query="steel", category="kitchen", limit=1)["results"]
    assert [r["link_id"] for r in kitchen] == ["12"]
    assert zh("catalog.search", query="宝宝湿巾")["results"][0]["link_id"] == "22"
    nothing = zh("catalog.search", query="火箭")
    assert nothing["results"] == []
    assert "护肤" in nothing["categories"]


def test_compare_puts_specifications_side_by_side(en: Any) -> None:
    value = en("catalog.compare", link_ids=["15", "16"], aspects=["weight", "battery", "price", "colour depth"])
    assert value["aspects"] == {
        "Weight": {"15": "not stated", "16": "198 g for 10000 mAh"},
        "Battery life": {"15": "7 hours plus 21 with case", "16": "not stated"},
    }
    assert value["not_stated"] == ["colour depth"]
    # 79.99 - 12.50, then 8 %: 62.10; 36 less 8 %: 33.12.
    assert [p["price"]["amount"] for p in value["products"]] == [6210, 3312]
    assert value["cheapest"] == {"link_id": "16", "less_by": usd(2898, "$28.98")}
    assert failure(en, "catalog.compare", link_ids=["1", " 1"]).kind is ErrorKind.INVALID_ARGUMENTS


# -------------------------------------------------------------------------------- pricing


def test_quote_shows_each_step(en: Any) -> None:
    value = en("pricing.quote", link_id="6", variant="white M", quantity=2)
    assert value["variant"] == "white M"
    assert value["list_price"] == usd(2600, "$26")
    assert value["lines"] == [
        {"reason": "Second Tee Half Price: every 2nd 50% off", "percent_off": 50, "off": usd(1300, "$13")},
        {
            "coupon": "LIVE8",
            "reason": "Live room coupon: 8% off from $25, at most $10",
            "percent_off": 8,
            "claim": "Claim it under the video.",
            "off": usd(312, "$3.12"),
        },
    ]
    assert (value["unit_price"], value["total"]) == (usd(1794, "$17.94"), usd(3588, "$35.88"))
    assert value["saved"] == usd(1612, "$16.12")
    assert value["ends_at"] == {"at": "2030-01-01T00:00:00-05:00", "text": "1 Jan 2030 00:00"}
    assert {"coupon": "HELLO5", "terms": "$5 off from $40", "why": "needs $1 more"} in value["not_used"]


def test_quote_in_chinese_says_discounts_by_what_is_paid(zh: Any) -> None:
    value = zh("pricing.quote", link_id="1")
    # 89 at 80 % is 71.20, and 10 off from 59.
    assert value["total"] == cny(6120, "¥61.20")
    assert [line["reason"] for line in value["lines"]] == ["护肤专场: 8折", "新客券: 满¥59减¥10"]
    assert {"coupon": "直播间88折", "terms": "满¥99享8.8折，最多减¥30", "why": "还差¥27.80"} in value["not_used"]


def test_every_asked_coupon_is_answered(en: Any) -> None:
    codes = ["hello5", "LIVE8", "FINCHCLUB12", "NOPE", "SPRING26", "SNACK1"]
    value = en("pricing.quote", link_id="11", coupons=codes)
    assert value["total"] == usd(6808, "$68.08")  # LIVE8 takes 5.92 of 74
    whys = {r["coupon"]: r["why"] for r in value["not_used"] if "coupon" in r}
    assert whys == {
        "FINCHCLUB12": "members only",
        "HELLO5": "cannot be added to what is used",
        "NOPE": "there is no such coupon",
        "SNACK1": "not for this product",
        "SPRING26": "ended 1 Jun 00:00",
    }


def test_room_time_decides_what_holds(en: Any) -> None:
    before = en("pricing.quote", link_id="7", coupons=[], now=datetime(2026, 8, 23, 12, tzinfo=UTC))
    during = en("pricing.quote", link_id="7", coupons=[], now=datetime(2026, 8, 25, 12, tzinfo=UTC))
    assert (before["total"]["amount"], during["total"]["amount"]) == (4800, 3600)


def test_a_variant_that_costs_differently_must_be_said(en: Any) -> None:
    assert en("pricing.quote", link_id="2", variant="50ml", coupons=[])["list_price"] == usd(4250, "$42.50")
    unsaid = en("pricing.quote", link_id="2", coupons=[])
    assert (unsaid["variant"], unsaid["list_price"]) == ("30 ml", usd(2950, "$29.50"))
    assert failure(en, "pricing.quote", link_id="2", variant="30 ml 50 ml").kind is ErrorKind.AMBIGUOUS


def test_a_quote_for_more_than_there_is_says_what_there_is(en: Any) -> None:
    assert en("pricing.quote", link_id="5", variant="navy L", quantity=4)["in_stock"] == 3
    assert "in_stock" not in en("pricing.quote", link_id="5", variant="navy L", quantity=3)
    assert en("pricing.quote", link_id="5", variant="navy XL")["status"] == "sold out"


def test_no_price_is_quoted_for_what_is_no_longer_sold(en: Any) -> None:
    value = en("pricing.quote", link_id="25")
    assert value == {"link_id": "25", "name": "Meadow Soy Candle Jar", "status": "no longer sold"}


def test_promotions_are_listed_with_terms_and_times(zh: Any) -> None:
    value = zh("promotions.list", link_id="5")
    assert [(p["name"], p["terms"]) for p in value["promotions"]] == [
        ("冲锋衣秒杀", "限时价¥269，限50件"),
        ("全店满减", "满¥199减¥15，满¥300减¥40"),
        ("周年庆", "7折"),
    ]
    assert value["promotions"][2]["starts_at"] == {
        "at": "2030-05-20T20:00:00+08:00",
        "text": "2030年5月20日20:00",
    }
    assert [c["code"] for c in value["coupons"]] == ["新客10", "直播间88折", "会员25"]
    everything = zh("promotions.list")
    assert "618大促" not in [p["name"] for p in everything["promotions"]]  # long over
    assert "售后补偿15" not in [c["code"] for c in everything["coupons"]]  # not public


# ----------------------------------------------------------------------- stock and sizes


def test_stock_by_variant(en: Any, zh: Any) -> None:
    assert en("stock.check", link_id="8", variant="coral 9") == {
        "link_id": "8",
        "name": "Tidewalk Running Sneakers",
        "status": "on sale",
        "stock": 5,
        "variant": "coral 9",
    }
    assert en("stock.check", link_id="5", variant="navy xl")["status"] == "sold out"
    assert zh("stock.check", link_id="5", variant="橙色")["variants"] == {
        "橙色 S": 8,
        "橙色 M": 0,
        "橙色 L": 13,
    }
    assert zh("stock.check", link_id="24")["stock"] == 0
    assert "stock" not in en("stock.check", link_id="25")
    assert "stock" not in en("stock.check", link_id="26")
    assert "color: navy, mustard" in failure(en, "stock.check", link_id="5", variant="pink").message


@pytest.mark.parametrize(
    ("link", "body", "result", "sizes"),
    [
        ("5", {"height_cm": 170, "weight_kg": 64}, "fits", "M"),
        ("5", {"height_cm": 173, "weight_kg": 69}, "between", ["M", "L"]),
        ("5", {"height_cm": 173, "weight_kg": 69, "usual_size": "l"}, "fits", "L"),
        ("5", {"height_cm": 178, "weight_kg": 60}, "between", ["M", "L"]),
        ("5", {"height_cm": 199, "weight_kg": 110}, "off_chart", ["XL"]),
        ("5", {"height_cm": 140}, "off_chart", ["S"]),
        ("5", {"chest_cm": 93.5}, "between", ["S", "M"]),
        ("7", {"waist_cm": 70, "height_cm": 165}, "fits", "S"),
        ("8", {"foot_cm": 24.6}, "fits", "8"),
        ("8", {"foot_cm": 24.1}, "between", ["7", "8"]),
    ],
)
def test_size_advice(en: Any, link: str, body: dict[str, Any], result: str, sizes: Any) -> None:
    value = en("size.advise", link_id=link, **body)
    assert value["result"] == result
    assert value.get("size", value.get("sizes")) == sizes


def test_size_advice_is_honest_about_what_it_lacks(en: Any, zh: Any) -> None:
    assert en("size.advise", link_id="1", height_cm=170)["reason"] == "it has no sizes"
    assert en("size.advise", link_id="9", height_cm=170)["reason"] == "it comes in sizes, but has no size chart"
    asked = en("size.advise", link_id="8", height_cm=170)
    assert (asked["result"], asked["ask_for"]) == ("need_measures", ["foot length"])
    usual = en("size.advise", link_id="5", usual_size="m")
    assert usual["chart"] == {"M": "height 165-175 cm, weight 58-70 kg, chest 94-101 cm"}
    chinese = zh("size.advise", link_id="7", waist_cm=70)
    assert (chinese["size"], chinese["reason"], chinese["stock"]) == ("M", "按腰围 70 cm", {"M": 47})


# ------------------------------------------------------------------------------- service


def test_shipping_by_place_and_order(en: Any, zh: Any) -> None:
    skillet = en("shipping.quote", region="Austin, Texas", link_id="10", quantity=1)
    # 39.90 less KITCHEN4 and 8 %: 32.71, under 35, so 4.95 and 9 for bulk.
    assert skillet["order_total"] == usd(3271, "$32.71")
    assert skillet["fee"] == usd(1395, "$13.95")
    assert skillet["delivery"] == "2-5 days"
    two = en("shipping.quote", region="Texas", link_id="10", quantity=2)
    assert two["fee"] == usd(900, "$9")
    free = en("shipping.quote", region="usa", link_id="15")
    assert (free["fee"], free["free_shipping"]) == (usd(0, "$0"), True)
    assert zh("shipping.quote", region="广东省深圳市")["fee"] == cny(600, "¥6")
    assert zh("shipping.quote", region="发上海多少钱")["free_shipping"] is True


def test_excluded_places_and_products(en: Any, zh: Any) -> None:
    assert en("shipping.quote", region="Puerto Rico") == {
        "region": "Puerto Rico",
        "ships": False,
        "reason": "Our carrier does not serve it yet.",
    }
    assert zh("shipping.quote", region="拉萨")["ships"] is False
    assert zh("shipping.quote", region="新疆", link_id="15")["ships"] is False
    assert zh("shipping.quote", region="新疆", link_id="1")["ships"] is True
    error = failure(en, "shipping.quote", region="Narnia")
    assert error.kind is ErrorKind.NOT_FOUND
    assert "Contiguous US" in error.message


def test_the_longer_place_name_wins(en: Any) -> None:
    assert en("shipping.quote", region="West Virginia")["place"] == "West Virginia"
    assert en("shipping.quote", region="Californa")["place"] == "California"  # a typo


def test_the_cut_off_is_the_stores_clock(en: Any) -> None:
    at = {h: datetime(2026, 12, 1, h, 59, tzinfo=UTC) for h in (19, 20)}  # New York: 14:59 and 15:59
    assert [en("shipping.quote", region="US", now=t)["leaves"] for t in at.values()] == ["today", "tomorrow"]


@pytest.mark.parametrize(
    ("topic", "found"),
    [("returns", "returns"), ("Return Policy", "returns"), ("can I cancel my order", "order changes"),
     ("how long is the guarantee", "warranty"), ("installments", "payment")],
)  # fmt: skip
def test_policies_by_topic(en: Any, topic: str, found: str) -> None:
    assert en("policy.lookup", topic=topic)["topic"] == found


def test_policies_in_chinese(zh: Any) -> None:
    assert zh("policy.lookup", topic="退货谁出运费")["topic"] == "运费险"
    assert zh("policy.lookup", topic="保修多长时间")["topic"] == "质保"
    assert "七天无理由退货" in failure(zh, "policy.lookup", topic="天气").message


def test_faq_answers_are_scored(en: Any, zh: Any) -> None:
    (first, *_) = en("faq.search", query="does the sunscreen leave a white cast?")["results"]
    assert first["link_id"] == "1"
    assert first["answer"].startswith("It is lightly tinted")
    assert first["score"] > 0.8
    assert en("faq.search", query="Do you ship to Canada?")["results"][0]["score"] > 0.62
    assert en("faq.search", query="what is the capital of france")["results"] == []
    assert zh("faq.search", query="什么时候能发货啊")["results"][0]["question"] == "什么时候发货"
    assert zh("faq.search", query="锅可以用电磁炉吗")["results"][0]["link_id"] == "10"


def test_faq_of_the_product_meant_comes_before_the_one_on_screen(en: Any) -> None:
    on_screen = en("faq.search", query="is it waterproof", on_screen="5")["results"]
    assert {r.get("link_id", "5") for r in on_screen} == {"5"}
    named = en("faq.search", query="does the sunscreen leave a white cast", on_screen="15")["results"]
    assert named[0]["link_id"] == "1"
    given = en("faq.search", query="can I machine wash it", link_id="21", limit=1)["results"]
    assert [r["link_id"] for r in given] == ["21"]


def test_room_operations_have_effects_and_repeat_nothing(en: Any) -> None:
    shown = en.outcome("room.show_item", link_id="3")
    assert shown.value == {"shown": "3", "name": "Soft Oat Cleansing Balm"}
    assert shown.effects == (Effect(kind="show_item", link_id="3"),)
    assert failure(en, "room.show_item", link_id="25").kind is ErrorKind.UNAVAILABLE
    handed = en.outcome("room.hand_off", reason="wants $99 back")
    assert handed.effects == (Effect(kind="hand_off", reason="wants $99 back"),)
    # What the policy wrote must not come back as evidence.
    assert "99" not in json.dumps(handed.value)


def test_room_state_tells_what_is_on_screen(en: Any) -> None:
    assert en("room.state", on_screen="3") == {
        "store": "Harbor & Finch",
        "now": {"at": "2026-12-01T07:00:00-05:00", "text": "1 Dec 07:00"},
        "streamer": "Finn",
        "on_screen": {"link_id": "3", "name": "Soft Oat Cleansing Balm"},
        "notes": {"guest": "Ann"},
    }
    assert "on_screen" not in en("room.state", on_screen="nothing")


async def test_an_unknown_operation_is_unavailable(en: Any) -> None:
    with pytest.raises(OperationError) as caught:
        await shop_operations().call("catalog.buy", {}, None)  # pyright: ignore[reportArgumentType]
    assert caught.value.kind is ErrorKind.UNAVAILABLE
    assert "catalog.search" in caught.value.message
