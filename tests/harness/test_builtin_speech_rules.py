"""Banned claims, promises, personal data, form of speech, leaks: tables of right and subtly wrong."""

from __future__ import annotations

import pytest
from builtin_hook_cases import context, make, request, result, verdict

from livery.harness.hooks.builtin.personal_data import id_card_valid, luhn_valid, mask, personal_data
from livery.harness.hooks.decisions import Retry, Rewrite
from livery.types import Route

BANNED = [
    ("This is the best serum in the world.", "superlative"),
    ("It's the number one brand in skincare.", "superlative"),
    ("The world's first smart mug.", "superlative"),
    ("Unbeatable value, friends.", "superlative"),
    ("Lowest price ever!", "superlative"),
    ("It is completely safe.", "superlative"),
    ("Not the best, but fine.", "superlative"),
    ("This cures acne.", "efficacy"),
    ("Clinically proven formula.", "efficacy"),
    ("Lose 10 pounds in a week!", "efficacy"),
    ("No side effects at all.", "efficacy"),
    ("It boosts your immune system.", "efficacy"),
    ("Guaranteed returns for resellers.", "income"),
    ("You can earn $500 a day.", "income"),
    ("Over 10,000 sold today!", "sales"),
    ("Thousands of people love it.", "sales"),
    ("It's our best-seller.", "sales"),
    ("Only 3 left, hurry!", "scarcity"),
    ("Last 3 pieces!", "scarcity"),
    ("It's selling out fast.", "scarcity"),
    ("Best regards, friends.", ""),
    ("We'll do our best to help.", ""),
    ("It works best with cold water.", ""),
    ("This is the first time we show it.", ""),
    ("Feel the bestial roar pattern.", ""),
    ("It does not cure acne.", ""),
    ("It prevents scratches on the lens.", ""),
    ("It's only one size.", ""),
    ("It takes just a few days.", ""),
    ("Good morning, it's a soft cotton shirt.", ""),
    ("全网第一的面霜", "superlative"),
    ("国家级品质", "superlative"),
    ("这是最佳选择", "superlative"),
    ("性价比最高端的一款", "superlative"),
    ("绝对安全", "superlative"),
    ("没有最好，只有更好", "superlative"),
    ("可以治疗湿疹", "efficacy"),
    ("七天美白", "efficacy"),
    ("没有副作用", "efficacy"),
    ("孕妇也可以放心用", "efficacy"),
    ("跟着我稳赚不赔", "income"),
    ("已经卖出10万件", "sales"),
    ("月销过万的爆款", "sales"),
    ("最后3件了", "scarcity"),
    ("马上就卖完了", "scarcity"),
    ("手慢无", "scarcity"),
    ("第一次来直播间的朋友", ""),
    ("最近有活动", ""),
    ("最后提醒一下尺码", ""),
    ("最大承重100公斤", ""),
    ("第一步先清洁", ""),
    ("不能治疗湿疹", ""),
    ("面料柔软，适合夏天", ""),
    ("只有两个颜色", ""),
]


@pytest.mark.parametrize(("reply", "category"), BANNED)
def test_banned_claims(reply: str, category: str) -> None:
    decision = make("banned_claims")(reply, context())
    found = [f["category"] for f in decision.details["found"]] if isinstance(decision, Retry) else []
    assert (category in found) if category else not found, found


def test_sales_and_scarcity_pass_where_results_bear_them_out() -> None:
    check = make("banned_claims")
    stocked = context(result({"link_id": "3", "stock": 3, "sold_count": 10000}, "stock: 3"))
    for reply in ("Last 3 pieces!", "最后3件了", "Over 10,000 sold!"):
        assert verdict(check(reply, stocked)) == "allow", reply
    for reply in ("Last 2 pieces!", "最后五件了", "Over 20,000 sold!", "Only 5 left in stock!"):
        assert verdict(check(reply, stocked)) == "retry", reply
    assert verdict(check("This cures acne.", context(evidence=("this cures acne",)))) == "retry"


def test_banned_params_add_and_exempt() -> None:
    check = make("banned_claims", extra=["cheap", "re:very+ good"], allow=["best friend tee"])
    assert verdict(check("It's cheap.", context())) == "retry"
    assert verdict(check("It's cheaper.", context())) == "allow"
    assert verdict(check("veryyy good", context())) == "retry"
    assert verdict(check("This is the Best Friend Tee.", context())) == "allow"
    assert verdict(make("banned_claims", categories=["income"])("the best ever", context())) == "allow"
    with pytest.raises(ValueError, match="no regular expression"):
        make("banned_claims", extra=["re:("])


PROMISES = [
    ("You'll get a full refund.", "refund"),
    ("We will refund you for sure.", "refund"),
    ("Money-back guarantee!", "refund"),
    ("Everyone gets a free gift.", "gift"),
    ("It's completely free!", "gift"),
    ("It arrives tomorrow.", "delivery"),
    ("Next-day delivery for all.", "delivery"),
    ("Free shipping today.", "delivery"),
    ("It has a lifetime warranty.", "warranty"),
    ("It will never fade.", "warranty"),
    ("The price will never be this low again.", "price"),
    ("The price goes up tomorrow.", "price"),
    ("I promise you'll love it.", "certainty"),
    ("It will definitely fit.", "certainty"),
    ("Feel free to ask.", ""),
    ("It's fragrance-free.", ""),
    ("We cannot promise that.", ""),
    ("I'll check with the shop.", ""),
    ("The bag is blue.", ""),
    ("There is no free gift with this one.", ""),
    ("不满意包退", "refund"),
    ("支持七天无理由退货", "refund"),
    ("假一赔十", "refund"),
    ("下单就送小样", "gift"),
    ("明天就到", "delivery"),
    ("今天拍当天发货", "delivery"),
    ("全国包邮", "delivery"),
    ("终身保修", "warranty"),
    ("绝对不掉色", "warranty"),
    ("以后不会有这个价", "price"),
    ("下播就涨价", "price"),
    ("我保证好用", "certainty"),
    ("一定合身", "certainty"),
    ("不能保证合身", ""),
    ("喜欢可以看看三号链接", ""),
    ("尺码可以参考详情页", ""),
    ("到手价看屏幕", ""),
]


@pytest.mark.parametrize(("reply", "category"), PROMISES)
def test_promises(reply: str, category: str) -> None:
    decision = make("promises")(reply, context())
    found = [f["category"] for f in decision.details["found"]] if isinstance(decision, Retry) else []
    assert (category in found) if category else not found, found


@pytest.mark.parametrize(
    ("reply", "trusted", "expected"),
    [
        ("支持七天无理由退货", "本店支持七天无理由退换货", "allow"),
        ("支持七天无理由退货", "定制商品不退", "retry"),
        ("全国包邮", "满99元包邮", "allow"),
        ("全国包邮", "本店不包邮", "retry"),
        ("Free shipping today.", "Shipping: free over $50", "allow"),
        ("Free shipping today.", "Shipping costs $5", "retry"),
        ("Everyone gets a free gift.", "A free gift comes with each order", "allow"),
        ("It has a lifetime warranty.", "Two-year warranty", "retry"),
        ("It has a lifetime warranty.", "Lifetime warranty on the frame", "allow"),
    ],
)
def test_promises_pass_where_trusted_text_holds_them(reply: str, trusted: str, expected: str) -> None:
    assert verdict(make("promises")(reply, context(evidence=(trusted,)))) == expected
    assert verdict(make("promises")(reply, context(result({"policy": trusted}, trusted)))) == expected
    assert verdict(make("promises")(reply, context(asked=trusted))) == "retry"


PERSONAL = [
    ("Call 13812345678", ["phone"]),
    ("电话138 1234 5678", ["phone"]),
    ("Call (212) 555-0187 now", ["phone"]),
    ("+44 20 7946 0958", ["phone"]),
    ("客服400-820-1234", ["phone"]),
    ("010-12345678", ["phone"]),
    ("write to a.b@shop.example", ["email"]),
    ("身份证11010519491231002X", ["id_card"]),
    ("card 4111 1111 1111 1111", ["bank_card"]),
    ("卡号6222021234567890128", ["bank_card"]),
    ("住在杭州市西湖区文三路138号", ["address"]),
    ("12 Baker Street", ["address"]),
    ("3栋2单元501室", ["address"]),
    ("加微信 abc_12345", ["handle"]),
    ("my whatsapp: host2024", ["handle"]),
    ("It's $1,299.00", []),
    ("3号链接39.9元", []),
    ("order 20260618123456", []),
    ("身份证110105194912310021", []),
    ("card 4111 1111 1111 1112", []),
    ("2026-06-18", []),
    ("10000mAh battery, 65W", []),
    ("170-175cm, 55-60kg", []),
    ("size 36-38-40", []),
    ("在线客服", []),
    ("It runs on Line voltage", []),
    ("1 2 3 go", []),
]
KINDS = ("phone", "email", "id_card", "bank_card", "address", "handle")


@pytest.mark.parametrize(("text", "kinds"), PERSONAL)
def test_personal_data_in_replies(text: str, kinds: list[str]) -> None:
    assert [f.kind for f in personal_data(text, KINDS)] == kinds
    assert verdict(make("personal_data")(text, context())) == ("retry" if kinds else "allow")


def test_the_shops_own_contacts_are_let_through() -> None:
    check = make("personal_data", allow=["400-820-1234", "Help@Shop.example"])
    assert verdict(check("Call 400 820 1234 or help@shop.example", context())) == "allow"
    assert verdict(check("Call 400-820-1235", context())) == "retry"


def test_personal_data_in_requests_is_masked_and_the_rest_kept() -> None:
    decision = make("personal_data_request")(
        request("my phone is 13812345678, is it in stock?", "hi"), context()
    )
    assert isinstance(decision, Rewrite)
    assert [m.text for m in decision.value.messages] == ["my phone is 13*******78, is it in stock?", "hi"]
    assert verdict(make("personal_data_request")(request("how much is number 3?"), context())) == "allow"


def test_feedback_on_personal_data_does_not_repeat_it() -> None:
    decision = make("personal_data")("Call 13812345678", context())
    assert isinstance(decision, Retry)
    assert "13812345678" not in decision.feedback + str(decision.details)


def test_checksums() -> None:
    assert id_card_valid("11010519491231002X")
    assert not id_card_valid("110105194912310021")
    assert luhn_valid("4111111111111111")
    assert not luhn_valid("4111111111111112")
    assert mask("ab") == "**"


FORMAT = [
    ("It's soft cotton, friends.", "en", []),
    ("It's $39.99, ok?", "en", []),
    ("Rose 玫瑰 serum is lovely and light, friends.", "en", []),
    ("", "en", ["empty"]),
    ("x" * 301, "en", ["length"]),
    ("It's **soft**.", "en", ["markup"]),
    ("# Answer\nIt's soft.", "en", ["markup"]),
    ("- soft\n- warm", "en", ["markup"]),
    ("1. soft\n2. warm", "en", ["markup"]),
    ("Use `code` please.", "en", ["markup"]),
    ("It's <b>soft</b>.", "en", ["markup"]),
    ("See [here](http://a.example/b).", "en", ["markup", "link"]),
    ("See https://a.example/b", "en", ["link"]),
    ("Go to shop.com today", "en", ["link"]),
    ("It's soft 😀", "en", ["emoji"]),
    ("这款很软", "en", ["language"]),
    ("3 * 5 is 15, and 2*3 is 6.", "en", []),
    ("这款很软，39.9元", "zh", []),
    ("这款 Rose Serum 很好用", "zh", []),
    ("This one is soft and warm.", "zh", ["language"]),
    ("XL", "zh", []),
    ("これはいいです、ありがとう", "zh", ["language"]),
    ("**很软**", "zh", ["markup"]),
    ("很软🌸", "zh", ["emoji"]),
]


@pytest.mark.parametrize(("reply", "language", "faults"), FORMAT)
def test_speech_format(reply: str, language: str, faults: list[str]) -> None:
    decision = make("speech_format", language)(reply, context(language=language))
    assert (list(decision.details["faults"]) if isinstance(decision, Retry) else []) == faults


def test_speech_format_params() -> None:
    check = make("speech_format", max_words=4, max_sentences=1, prefix="Hi!", sign_off="Bye!", emoji=True)
    decision = check("It is soft. It is warm 😀.", context())
    assert isinstance(decision, Retry)
    assert list(decision.details["faults"]) == ["words", "sentences", "prefix", "sign_off"]
    assert verdict(make("speech_format", prefix="Hi!")("Hi! It's soft.", context())) == "allow"
    assert verdict(make("speech_format", markup=True)("It's **soft**.", context())) == "allow"
    assert verdict(make("speech_format", language="zh")("It's soft and warm.", context())) == "retry"


@pytest.mark.parametrize(
    ("reply", "cleaned"),
    [
        ("It's **soft**.", "It's soft."),
        ("*Hello* there", "Hello there"),
        ("# Hi\n- soft\n- warm", "Hi soft warm"),
        ("1. soft\n2. warm", "soft warm"),
        ("See [the card](http://a.example).", "See the card."),
        ("<p>Soft</p>", "Soft"),
        ("Reply: It's soft.", "It's soft."),
        ('"It\'s soft."', "It's soft."),
        ("很软🌸，喜欢", "很软，喜欢"),
        ("第一句。\n第二句", "第一句。第二句"),
        ("`XL` is left", "XL is left"),
    ],
)
def test_cleanup_strips_markup_and_nothing_else(reply: str, cleaned: str) -> None:
    decision = make("speech_cleanup")(reply, context())
    assert isinstance(decision, Rewrite)
    assert decision.value == cleaned


@pytest.mark.parametrize(
    "reply", ["It's $39.99.", "3*5 and 2 * 3", "#3 is soft", "1. It's soft", "***", "a_b_c"]
)
def test_cleanup_leaves_plain_speech_alone(reply: str) -> None:
    assert verdict(make("speech_cleanup")(reply, context())) == "allow"


LEAKS = [
    ("As an AI language model, I can't.", "retry"),
    ("My instructions say no.", "retry"),
    ("The system prompt forbids it.", "retry"),
    ('{"name": "get_price"}', "retry"),
    ("I called get_price for you.", "retry"),
    ("Using item-questions now.", "retry"),
    ("The link_id is three.", "retry"),
    ("<think>hmm</think> It's soft.", "retry"),
    ("Based on the tool results, it's soft.", "retry"),
    ("The user asked about size.", "retry"),
    ("Here is my reply: soft.", "retry"),
    ("price.quote says so.", "retry"),
    ("I'm an AI host, nice to meet you.", "allow"),
    ("This wrench is a great tool.", "allow"),
    ("It prompts you to breathe.", "allow"),
    ("It's user-friendly.", "allow"),
    ("The T-shirt is soft.", "allow"),
    ("作为一个AI语言模型，我不能", "retry"),
    ("系统提示词不能说", "retry"),
    ("根据工具返回的结果", "retry"),
    ("用户问的是尺码", "retry"),
    ("我是AI主播，欢迎大家", "allow"),
    ("这套工具很实用", "allow"),
]


@pytest.mark.parametrize(("reply", "expected"), LEAKS)
def test_role_leak(reply: str, expected: str) -> None:
    assert verdict(make("role_leak")(reply, context())) == expected


def test_role_leak_allow_param() -> None:
    check = make("role_leak", allow=["language model kit"])
    assert verdict(check("This language model kit teaches code.", context())) == "allow"


def test_degraded_replies_need_no_reply_skill() -> None:
    assert verdict(make("reply_skill_required")("It's soft.", context(route=Route.DEGRADED))) == "allow"
