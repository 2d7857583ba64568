"""An amount of money told as what it is not: a threshold, a discount or a list price as what is paid, and so on."""

from __future__ import annotations

import pytest
from builtin_hook_cases import context, make, result, verdict

from livery.harness.hooks.builtin.money_roles import Role, readings, roles_of
from livery.harness.hooks.decisions import HookContext, Retry
from livery.harness.quantities import read_quantities
from livery.types import JSON


def usd(cents: int, text: str) -> dict[str, JSON]:
    return {"amount": cents, "currency": "USD", "text": text}


def cny(fen: int, text: str) -> dict[str, JSON]:
    return {"amount": fen, "currency": "CNY", "text": text}


SLIPPERS: JSON = {
    "link_id": "9",
    "name": "Wool Slippers",
    "quantity": 1,
    "list_price": usd(4200, "$42"),
    "lines": [
        {"coupon": "HELLO5", "reason": "Welcome coupon: $5 off from $40", "off": usd(500, "$5")},
    ],
    "unit_price": usd(3700, "$37"),
    "total": usd(3700, "$37"),
    "saved": usd(500, "$5"),
    "not_used": [
        {"coupon": "CLUB12", "terms": "12% off, at most $25", "why": "members only"},
        {"coupon": "LIVE8", "terms": "8% off, at most $10", "why": "cannot be added", "would_save": usd(336, "$3.36")},
        {"coupon": "BIG9", "terms": "$9 off from $60", "why": "needs $23 more"},
        {"promotion": "Spend and Save: $8 off $80, $20 off $150", "why": "not enough bought"},
    ],
}
SHIPPING: JSON = {
    "region": "Hawaii",
    "link_id": "9",
    "order_total": usd(3700, "$37"),
    "fee": usd(1295, "$12.95"),
    "free_over": usd(7500, "$75"),
}
BLANKET: JSON = {
    "link_id": "7",
    "name": "毛毯",
    "list_price": cny(36900, "¥369"),
    "lines": [{"reason": "冬暖季：满¥300减¥40", "off": cny(4000, "¥40")}],
    "unit_price": cny(32900, "¥329"),
    "total": cny(32900, "¥329"),
    "saved": cny(4000, "¥40"),
    "not_used": [
        {"coupon": "会员25", "terms": "满¥200减¥25", "why": "仅限会员"},
        {"coupon": "大额80", "terms": "满¥500减¥80", "why": "还差¥171"},
        {"coupon": "直播88", "terms": "满¥100享8.8折，最多减¥50", "why": "不能叠加", "would_save": cny(3948, "¥39.48")},
    ],
}
SHIPPING_ZH: JSON = {"link_id": "7", "fee": cny(1200, "¥12"), "free_over": cny(9900, "¥99")}
SHOWN = "Wool Slippers, link 9: $37 for 1. List price $42, saves $5. Welcome coupon: $5 off from $40, $5 off."

WRONG = {
    "en": """
You pay 40 bucks after the coupon. | It is $40 right now. | It's $25 right now. | You pay 20 bucks.
It's just $8 today. | The slippers are $5. | Number 9 is $150. | Yours for $25! | It costs $10.
forty dollars and it is yours | Only $20 for the slippers. | That comes to 40 dollars today. | The price is $80.
It's going for $23. | Price today: $3.36. | They're $75. | You get them for $40 with HELLO5.
After the coupon it's $40. | It's $40 with free shipping. | It costs over $40. | It's $60, and worth it.
Take them home for $25. | You'll be paying $20 all in. | The final price comes to $10. | Grab a pair at $9.
It's $42 right now. | You pay 42 bucks after the coupon. | forty-two dollars and it is yours | They cost $42.
The total is $42 with the coupon. | Save $37 today. | That's $37 off. | You save $40 with the coupon.
$12.95 off your order. | Spend $37 and shipping is free. | Free shipping on orders over $37.
Orders over $5 ship free. | The coupon takes $40 off. | You save $42. | Take $75 off. | Shipping to Hawaii is $75.
The shipping fee is $40. | It's $37, and you need $5 to get HELLO5, so $40 in the end.
Good news: the slippers land at $40! | You're looking at $25 for these. | Slippers: $5.
So twenty bucks and they ship today. | Now it's just forty dollars with HELLO5. | HELLO5 brings it to $40.
The coupon brings it down to $5. | With the coupon, $40. | For $40 they're yours. | Priced at $40 today.
Price: $25. | $40 is the final price. | I see $25 for one pair. | The total for one is $40.
Number 9's price is $75. | Final: $20. | They are going for $10. | $40 even. | $25 each. | Down to $40 from $42.
Was $42, now $40. | Was $37, now $42. | It used to be $37 and now it is $42. | You'd pay $40 instead of $42.
Shipping is $75. | Hawaii shipping adds $75. | Delivery costs $5. | Coupon price $40. | Get it for $8 only.
It's a steal at $25. | Today only $20! | Under the coupon you pay $40. | Your order comes to $80. | $60 with BIG9.
Club members pay $25. | With LIVE8 it would be $3.36. | A pair costs you $9. | Your total would be $23.
""",
    "zh": """
这款毛毯300元。 | 到手价300 | 现在只要200块 | 券后25元 | 只要40块钱 | 毛毯卖500 | 价格是80元 | 今天50元带走
七号链接现在¥300 | 优惠后300元 | 三百块就能拿下 | 到手两百块钱 | 用完券300元 | 一条¥171 | 39.48元一条
直播间价200元 | 领券到手40元 | 现在99元包邮 | 最后付款300元 | 您付300就行 | 毛毯只卖一百块 | 才¥25哦 | 拍下¥500
369元一条 | 现在369元 | 券后369元 | 到手价三百六十九 | 立减329元 | 便宜329 | 省369元 | 满329减40 | 满40减300
满369元就能减40 | 立省300元 | 减300元 | 优惠300块 | 运费99元 | 邮费要300 | 可以抵200元 | 满12元包邮 | 毛毯300带走
今天300，很划算 | 这条三百块钱 | 满减后300元 | 活动价300元 | 用满减只要300 | 打完折40元 | 减完300 | 一条毛毯三百元
拍下就是300 | 付300元就行 | 现价300 | 券后价25 | 券后价200 | 合计300元 | 总共40元 | 价格80元 | 原价369，到手300
原价329，现在369 | 会员价25元 | 会员价200元 | 到手是300 | 300元一条包邮 | 99元一条 | 快递费99元 | 运费40
毛毯价格是171 | 算下来300元 | 现在下单300元 | 仅需40元 | 40块拿走 | 特价300 | 秒杀价300 | 25元就卖 | 抢到就是200元
""",
}
RIGHT = {
    "en": """
It's $37 right now. | You pay 37 bucks after the coupon. | thirty-seven dollars and it is yours | That comes to $37.
Was $42, now $37. | The list price is $42. | $42 is the regular price. | Usually $42, today $37.
$37 instead of $42. | It's down from $42 to $37. | Normally they're $42. | You save $5. | That saves you five bucks.
That's $5 off. | HELLO5 takes $5 off from $40. | $5 off orders over $40. | Use HELLO5 and get $5 off.
The coupon takes off $5. | The welcome coupon is worth $5. | With the $5 coupon it's $37.
It's $5 less than the list price. | It's $5 cheaper today. | Spend $80 and get $8 off.
$20 off $150 if you spend more. | Spend at least $80 to take $8 off. | You need $23 more for the BIG9 coupon.
With BIG9 it's $9 off from $60. | Club members get 12% off, at most $25.
LIVE8 would save $3.36, but it can't be added. | LIVE8 is capped at $10, and can't be added.
Shipping to Hawaii is $12.95. | It ships for $12.95. | Shipping is free over $75.
Free shipping on orders over $75. | Over $75 shipping is on us. | $75 or more ships free.
Orders from $75 ship free. | The minimum order for HELLO5 is $40. | $37, so you keep $5 in your pocket.
That's $42 minus $5, so $37. | $5 off the $42 list price. | HELLO5 needs an order of $40.
It's $37, plus $12.95 for shipping. | Your order is $37 so far. | A $5 discount brings it to $37.
The coupon works from $40. | $37 for the slippers, saving $5. | The discount is $5. | You pay $37, that's $5 off.
Good news: the slippers land at $37 after HELLO5!
Right now it's thirty-seven dollars, five off the regular forty-two.
Number 9 is $37 with the HELLO5 coupon, which knocks five bucks off.
You'd pay $37 instead of $42, so that's $5 saved. | Claim HELLO5 for $5 off; that gets you to $37.
List is $42, but you pay $37. | $37 after $5 off with HELLO5. | It drops from $42 to $37.
It comes to $37 after the $5 welcome coupon. | Only $37 with the coupon, and the coupon needs a $40 order.
The slippers are $37 each. | Shipping to Hawaii runs $12.95, or free once your order hits $75.
$12.95 to Hawaii, free above $75. | Delivery costs $12.95. | Hawaii shipping adds $12.95.
It's $12.95 extra for Hawaii. | Orders under $75 pay $12.95 for shipping. | Shipping's free once you reach $75.
The coupon gives you $5 off any order from $40 up. | HELLO5 is good for $5 off. | HELLO5 is worth $5.
HELLO5 saves you $5 when you spend $40. | There's a $5 coupon for new followers. | $5 coupon, $40 minimum.
It needs $40 in the basket. | Spend and Save gives $8 off when you hit $80, or $20 off at $150.
You're $23 short of the $60 for BIG9. | Another $23 and BIG9 kicks in. | Add $23 more to use BIG9.
Get to $60 and BIG9 takes $9 off. | With the welcome coupon applied, total $37. | Your total would be $37.
So thirty-seven bucks, friends! | $37, down from $42. | $37 (was $42).
The regular price is $42, and with HELLO5 you're at $37. | They list for $42. | $42 list, $37 today.
Original price $42. | Coupon takes it to $37. | LIVE8 would take $3.36 off but can't be combined.
At most $25 off for club members. | Members get up to $25 off. | Total saving: $5. | You'll be saving $5.
That's a $5 saving. | Savings come to $5. | It's a $5 discount. | For $37 they're yours. | They're going for $37.
Priced at $37 today. | Price: $37. | $37 is the final price. | Thirty-seven dollars even. | About the price: $37.
I see $37 for one pair. | The total for one is $37, saving you $5 with HELLO5. | With HELLO5, $37.
$37 with HELLO5 for orders from $40. | You save $5 with HELLO5, final price $37. | Price before coupons is $42.
Without the coupon it's $42. | The list price of $42 clears the $40 minimum.
Shipping to Hawaii is $12.95 because the order is below $75. | 37 dollars. | 37 bucks.
Number 9's price is $37; shipping is another $12.95. | If you spend $75, shipping is free.
Hit $75 for free shipping. | Free shipping kicks in at $75. | $75 gets you free shipping.
You need $75 for free shipping.
""",
    "zh": """
现在¥329 | 到手价329元 | 券后329元 | 三百二十九块 | 原价369，现在329 | 平时369元 | 划线价¥369 | 369元是原价
满300减40 | 满¥300减¥40 | 每单满三百减四十 | 立减40元 | 省40块 | 便宜了40元 | 比原价便宜40元 | 优惠40元，到手329元
帮您省了四十块 | 现在下单减40元 | 会员满200减25元 | 会员券减25元，满200可用 | 25元的会员券要满200
满500减80，还差171元 | 还差171元就能满500减80 | 直播88最多减50元，不能叠加 | 满100享8.8折，不能叠加
那张券能省39.48元，不能叠加 | 运费12元 | 邮费¥12 | 满99包邮 | 满99元包邮 | 99元以上包邮 | 订单满九十九免运费
369减40，到手329 | 一共329元，已经减了40 | 329元，立省40 | 满300元就减40元 | 从369降到329 | 用了满减，实付329元
原价369元，直降40元 | 凑满500能减80 | 消费满300元减40元 | 40元优惠已经算进去了 | 抵40元 | 日常价369，直播间329
毛毯329带走 | 原价369，满300减40，到手329 | 现在满300减40，算下来329元 | 直接减40，329到手 | 今天329，比平时省40
这条329块钱 | 减完329 | 打完折329元 | 活动价329元 | 满减后329元 | 用满减只要329 | 329元，不用券
一条毛毯三百二十九元 | 有满300减40的活动 | 冬暖季每单满300减40 | 已经帮大家减了40元，实付329 | 省下40元
立省40，329元 | 运费是12元，满99包邮 | 邮费12块，满九十九就包邮 | 满99免运费 | 不满99要12元运费 | 订单满99元就免邮
超过99元包邮 | 快递费12元 | 会员还有25元券，满200能用，可惜叠加不了 | 会员券满200减25 | 会员有张25元的券，满200可用
还差171元就能用满500减80的券 | 再买171就能减80，满500可用 | 满500能省80，您还差171 | 原价是369元 | 369是原价哦
划线价369元，现在329元 | 从369元降到329元 | 369元直降40 | 便宜了四十 | 优惠了40元 | 优惠金额40元 | 总共329元
合计329元 | 价格329元 | 毛毯价格是329 | 最多减50元，要满100，不能叠加 | 能省40块钱 | 这单帮您省40 | 减40以后329
满三百减四十，到手三百二十九 | 拍下就是329 | 付329元就行 | 现价329 | 券后价329 | 门槛是300元 | 满减门槛300
99元起包邮 | 够99就包邮 | 329已经够包邮了
""",
}


def _each(block: str) -> list[str]:
    return [said.strip() for line in block.strip().splitlines() for said in line.split(" | ")]


def _known(language: str) -> HookContext:
    if language == "en":
        return context(result(SLIPPERS, SHOWN), result(SHIPPING, "$12.95, free over $75"), asked="number 9?")
    return context(result(BLANKET, ""), result(SHIPPING_ZH, ""), asked="7号多少钱", language="zh")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_amount_in_a_wrong_role_is_sent_back(language: str) -> None:
    said, check = _each(WRONG[language]), make("grounding", language)
    assert len(said) >= 75
    assert [s for s in said if verdict(check(s, _known(language))) != "retry"] == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_amount_in_its_own_role_passes(language: str) -> None:
    said, check = _each(RIGHT[language]), make("grounding", language)
    assert len(said) >= 100
    assert [s for s in said if verdict(check(s, _known(language))) != "allow"] == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_without_the_typed_value_the_shown_text_tells_roles_too(language: str) -> None:
    shown = {
        "en": (
            "Wool Slippers: $37. List price $42, saves $5. $5 off from $40, 12% off, at most $25.",
            "$37",
            "$40 $25 $5",
        ),
        "zh": ("毛毯：¥329，原价¥369，省¥40。满¥300减¥40，最多减¥50，还差¥171。", "¥329", "¥40 ¥300 ¥50 ¥171"),
    }
    text, true, wrong = shown[language]
    say = {"en": "It's {} today.", "zh": "今天{}。"}[language]
    known, check = context(evidence=(text,), language=language), make("grounding", language)
    assert verdict(check(say.format(true), known)) == "allow"
    assert [w for w in wrong.split() if verdict(check(say.format(w), known)) != "retry"] == []


def test_an_amount_with_two_roles_may_be_told_as_either() -> None:
    tie: JSON = {"link_id": "9", "total": usd(4000, "$40"), "terms": "$5 off from $40", "off": usd(500, "$5")}
    known, check = context(result(tie, "")), make("grounding")
    for reply in ("It's $40.", "Orders over $40 get $5 off.", "Spend $40 and save $5."):
        assert verdict(check(reply, known)) == "allow", reply
    assert verdict(check("It's $5.", known)) == "retry"


def test_a_list_price_is_the_price_where_nothing_is_off() -> None:
    plain: JSON = {
        "link_id": "9",
        "list_price": usd(4200, "$42"),
        "unit_price": usd(4200, "$42"),
        "total": usd(4200, "$42"),
    }
    check = make("grounding")
    assert verdict(check("It's $42 right now.", context(result(plain, "$42")))) == "allow"
    only_listed: JSON = {"link_id": "9", "list_price": usd(4200, "$42")}
    assert verdict(check("It's $42.", context(result(only_listed, "")))) == "allow"


def test_a_discount_of_another_item_is_no_price_of_this_one() -> None:
    other: JSON = {"link_id": "2", "name": "Night Cream", "total": usd(4000, "$40")}
    known, check = context(result(SLIPPERS, ""), result(other, "")), make("grounding")
    assert verdict(check("Night Cream is $40.", known)) == "allow"
    assert verdict(check("The Wool Slippers are $40.", known)) == "retry"


def test_a_difference_that_an_operation_gave_is_told_as_one() -> None:
    compared: JSON = {
        "products": [
            {"link_id": "1", "name": "Skillet", "price": usd(3271, "$32.71")},
            {"link_id": "2", "name": "Knife", "price": usd(4752, "$47.52")},
        ],
        "cheapest": {"link_id": "1", "less_by": usd(1481, "$14.81")},
    }
    known, check = context(result(compared, "")), make("grounding")
    for reply in ("The skillet is $14.81 cheaper.", "The skillet, by $14.81.", "The skillet costs $14.81 less."):
        assert verdict(check(reply, known)) == "allow", reply
    assert verdict(check("The skillet is $14.81.", known)) == "retry"


def test_feedback_names_the_amount_and_what_it_is() -> None:
    decision = make("grounding")("It's $40, or $42, and $9.99 for you.", _known("en"))
    assert isinstance(decision, Retry)
    assert '"$40" is the least order for a coupon, deal or free shipping, not the price' in decision.feedback
    assert '"$42" is the list price' in decision.feedback
    assert 'Not in this request\'s tool results: "$9.99" (price or amount)' in decision.feedback
    assert [u["role"] for u in decision.details["ungrounded"]] == ["floor", "list", ""]
    chinese = make("grounding", "zh")("现在300元", _known("zh"))
    assert isinstance(chinese, Retry)
    assert "“300元”是满减、用券或包邮的门槛，不是价格" in chinese.feedback


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("8% off from $25, at most $10", ["floor", "off"]),
        ("$8 off $80, $20 off $150", ["off", "floor", "off", "floor"]),
        ("flash price $59.90, 12 left", ["price"]),
        ("needs $14.92 more", ["gap"]),
        ("We ship free on orders over $75; else it is $6.", ["floor", "price"]),
        ("满¥200享8.8折，最多减¥50", ["floor", "off"]),
        ("每满¥300减¥40", ["floor", "off"]),
        ("限时价¥129，限20件", ["price"]),
        ("无门槛减¥5", ["off"]),
        ("每件减¥10", ["off"]),
    ],
)
def test_terms_as_the_shop_words_them(text: str, roles: list[Role]) -> None:
    assert [readings(text, q) for q in read_quantities(text) if q.kind == "money"] == [{r} for r in roles]


def test_roles_by_field_name() -> None:
    value: JSON = {
        "currency": "USD",
        "price": 39.99,
        "list_price": usd(4999, "$49.99"),
        "variant_list_prices": {"50 ml": usd(6200, "$62")},
        "threshold": "$40",
        "amount_off": usd(500, "$5"),
        "discount_price": usd(1800, "$18"),
        "min_spend": usd(3000, "$30"),
        "free_over": usd(7500, "$75"),
        "shipping": {"fee": usd(600, "$6")},
    }
    found = {amount: sorted(roles) for (amount, unit), roles in roles_of(value).items() if unit == "USD"}
    assert found == {
        3999: ["price"], 4999: ["list"], 6200: ["variant"], 4000: ["floor"], 500: ["off"], 1800: ["price"],
        3000: ["floor"], 7500: ["floor"], 600: ["fee"],
    }  # fmt: skip


def test_a_number_in_a_coupons_name_is_no_amount() -> None:
    value: JSON = {"link_id": "7", "lines": [{"coupon": "南窗4", "off": cny(400, "¥4")}], "total": cny(32900, "¥329")}
    known, check = context(result(value, ""), language="zh"), make("grounding", "zh")
    assert verdict(check("这款能参加的是南窗4。", known)) == "allow"
    assert verdict(check("这款只要4元。", known)) == "retry"
    assert verdict(check("这款券后价4", known)) == "retry"


def test_how_many_are_bought_is_no_amount() -> None:
    two: JSON = {"link_id": "9", "quantity": 2, "lines": [{"off": usd(200, "$2")}], "total": usd(2229, "$22.29")}
    check = make("grounding")
    for shown in ("", "quantity: 2\nlines[1].off: $2\ntotal: $22.29"):
        known = context(result(two, shown))
        assert verdict(check("It's $2.", known)) == "retry"
        assert verdict(check("It costs 2 dollars.", known)) == "retry"
    assert verdict(check("The price for 2 of them is $22.29.", known)) == "allow"
