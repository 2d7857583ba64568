"""Banned claims, promises, personal data, form of speech, leaks: tables of right and subtly wrong."""

from __future__ import annotations

import random

import pytest
from builtin_hook_cases import REPLY_SKILL, context, make, request, result, verdict

from livery.harness.hooks.builtin import BUILTINS
from livery.harness.hooks.builtin.personal_data import id_card_valid, luhn_valid, mask, personal_data
from livery.harness.hooks.builtin.speech import clean, markup, wrong_language
from livery.harness.hooks.decisions import Retry, Rewrite
from livery.types import Checkpoint, Route

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
    ("You're the best, thank you!", ""),
    ("It's the only one with a pump.", ""),
    ("The checkout picks the best mix.", ""),
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
    ("It's completely free!", "free"),
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
    decision = make("personal_data_request")(request("my phone is 13812345678, is it in stock?", "hi"), context())
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


@pytest.mark.parametrize("reply", ["It's $39.99.", "3*5 and 2 * 3", "#3 is soft", "1. It's soft", "***", "a_b_c"])
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


# ---------------------------------------------------------------- wider nets, one row a wording

MORE_BANNED = [
    "The greatest cream on earth",
    "#1 in skincare",
    "top-selling mug in America",
    "guaranteed results in 7 days",
    "It whitens your teeth instantly",
    "helps you lose weight fast",
    "this tea detoxes your body",
    "more than 5k sold already",
    "10k+ people bought this",
    "we've sold over 3,000 pairs",
    "just 5 left!",
    "nearly sold out",
    "going fast",
    "last chance to buy",
    "world-class quality",
    "the most popular item",
    "the perfect gift",
    "our most popular",
    "superior to all other brands",
    "zero risk",
    "treats eczema",
    "anti-aging cure",
    "makes you rich",
    "全网最低价",
    "销量第一",
    "顶级面料",
    "永久美白",
    "祛斑效果好",
    "喝了就瘦",
    "瘦十斤",
    "月入过万",
    "卖了三万多单",
    "五万人都在买",
    "只剩最后五件",
    "马上断货",
    "全国第一品牌",
    "最好的面霜",
    "最便宜",
    "史上最低价",
    "无副作用",
    "纯天然无添加百分百安全",
    "治疗失眠",
    "增强免疫力",
    "抗癌",
    "比药还好",
    "行业领先",
    "NO.1品牌",
    "TOP1",
    "王牌产品",
    "仅限今天最后一天",
    "买了就是赚到",
    "回购率99%",
    "热销10万+",
    "抢疯了",
]

MORE_PROMISES = [
    "We guarantee it fits",
    "you'll definitely love it",
    "it'll arrive by Friday",
    "delivered tomorrow",
    "ships today",
    "we ship same day",
    "we'll replace it free",
    "full money back if you don't like it",
    "you get a free tote bag",
    "a surprise gift inside",
    "price goes back up tonight",
    "cheapest you'll ever see",
    "it lasts a lifetime",
    "warranty for life",
    "100% refund",
    "we will match any price",
    "I swear it works",
    "it won't shrink",
    "refund no questions asked",
    "hundred percent satisfaction guaranteed",
    "包邮到家",
    "今晚就发",
    "明天到货",
    "立马发货",
    "拍一发三",
    "送运费险",
    "赠送小样",
    "买就送",
    "假一罚十",
    "不满意全额退",
    "坏了包换",
    "终身质保",
    "保证正品",
    "绝对正品",
    "永不掉色",
    "一定会喜欢的",
    "肯定合适",
    "明天就涨价",
    "以后没有这个价了",
    "最后一次这个价格",
    "降价补差",
    "价保30天",
    "24小时内必发",
    "闪电退款",
]


@pytest.mark.parametrize(("name", "wordings"), [("banned_claims", MORE_BANNED), ("promises", MORE_PROMISES)])
def test_wordings_that_are_refused(name: str, wordings: list[str]) -> None:
    check = make(name)
    assert [w for w in wordings if verdict(check(w, context())) == "allow"] == []


SERUM = {
    "link_id": "3",
    "name": "Rose Serum",
    "price": {"amount": 3999, "currency": "USD", "text": "$39.99"},
    "list_price": {"amount": 4999, "currency": "USD", "text": "$49.99"},
    "percent_off": 20,
    "stock": 12,
    "specs": {"Volume": "50 ml", "Fabric": "100% cotton"},
    "options": {"size": ["S", "M", "L"], "colour": ["red", "blue"]},
    "terms": "7-day returns. Free shipping over $35. Ships within 48 hours.",
    "条款": "七天无理由退货，满35包邮，48小时内发货",
}
GOOD_ENGLISH = [
    "Hi there! Item 3 is $39.99 today, down from $49.99.",
    "Great question! It comes in S, M and L.",
    "Sorry, I don't have that one on hand, let me check with the team.",
    "Yes, we have 12 left in stock.",
    "Shipping is free over $35, and it ships within 48 hours.",
    "You can return it within 7 days.",
    "It's made of 100% cotton, so it's soft and breathable.",
    "Welcome everyone, thanks for the follow!",
    "I'd go with the blue one, it goes with everything.",
    "If you're between sizes, take the larger one.",
    "I can't say for sure, but I'll ask a colleague to help you.",
    "That one isn't available right now. Would you like to see number 3 instead?",
    "Good evening from the studio! What are you shopping for today?",
    "It's a lightweight serum for dry skin; patch test first if your skin is sensitive.",
    "Tap the card on screen to see the details.",
    "One moment please, I'm looking it up.",
    "Thanks for your patience, a colleague will take over from here.",
    "It's 20% off right now.",
    "I love this color on you!",
    "No problem at all, happy to help.",
    "Please keep your phone number private, a colleague will message you.",
    "The red one and the blue one are both in stock.",
    "It runs true to size, so pick your usual size.",
    "Wash it cold and it keeps its shape well.",
    "We don't have a free gift with this one.",
    "I'm an AI host, so I can't feel the fabric, but the page says cotton.",
    "First, pick your color; second, add it to your cart.",
    "You're the best, thank you!",
    "It's the only one with a pump.",
    "Let me show you the card for number 3.",
]

GOOD_CHINESE = [
    "欢迎来到直播间，喜欢的朋友点个关注",
    "三号链接现在39.99美元，原价49.99美元",
    "现在打八折，库存还有12件",
    "有S、M、L三个码，平时穿什么码就选什么码",
    "红色和蓝色都有货",
    "满35包邮，48小时内发货",
    "支持七天无理由退货",
    "这款是百分之百纯棉的，透气舒服",
    "不好意思，这个我不太确定，帮您问一下同事",
    "敏感肌建议先在手腕试一下",
    "谢谢大家的支持，有问题可以打在公屏上",
    "这款我们现在没有货了，可以看看三号链接",
    "稍等一下，我帮您查一下",
    "感谢您的耐心，稍后有同事联系您",
    "我是AI主播，具体手感以详情页为准",
    "第一次来的朋友可以先看看详情",
    "最近天气热，这款穿着很凉快",
    "建议冷水手洗，不要漂白",
    "您是想要红色还是蓝色呢？",
    "点一下屏幕上的卡片就能看到",
    "这个没有赠品哦",
    "不能保证每个人都合适，可以对照尺码表",
    "一共有两个颜色",
    "一瓶50毫升",
]


@pytest.mark.parametrize(("language", "replies"), [("en", GOOD_ENGLISH), ("zh", GOOD_CHINESE)])
def test_good_replies_pass_every_reply_hook(language: str, replies: list[str]) -> None:
    about = context(result(SERUM), language=language, skills=(REPLY_SKILL,))
    names = [b.name for b in BUILTINS.values() if b.checkpoint is Checkpoint.REPLY and b.name != "retry_control"]
    hooks = [(name, make(name, language)) for name in names]
    refused = [(r, name) for r in replies for name, check in hooks if verdict(check(r, about)) != "allow"]
    assert refused == []


def test_plain_prose_is_passed_over_only_where_nothing_would_be_found() -> None:
    rng = random.Random(7)
    pieces = ["1.", "12.", "-", "--", "a", "It's", "$5.", "20%", "reply", "Host", "!", "?", "no-one", ",", "x.5"]
    seen = 0
    for _ in range(2000):
        text = " ".join(rng.choice(pieces) for _ in range(rng.randrange(1, 7)))
        if clean(text) != text:
            continue
        seen += 1
        # An emoji behind it makes it no plain prose, so that every pattern is tried.
        assert clean(text + "\U0001f600") == text
        assert markup(text) == markup(text + "\U0001f600")
        assert wrong_language(text, "en") == ""
    assert seen > 1500
    assert clean("- two items") == "two items"
    assert clean("Reply: two items") == "two items"
