"""The host by rules: right answers in both sample chats, under the sample harness and under renamed ones."""

import asyncio
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from livery.agent.live_harness import LiveHarness
from livery.agent.loop import Agent
from livery.harness.folder import load_harness
from livery.harness.model import ArgumentMap
from livery.policies import open_policy
from livery.policies.host_results import read_result
from livery.policies.host_scene import item_words, read_question, read_scene
from livery.policies.host_tools import skill_loader, tools_by_purpose
from livery.policies.policy import PromptMessage, ToolSurface
from livery.shop.loading import load_catalogue
from livery.shop.registry import shop_operations
from livery.types import ChatMessage, DialogueTurn, Request, RoomState, Route

ROOT = Path(__file__).parents[2]
NOW = 1_800_000_000.0  # within the sample shops' promotions

HONEST = {"en": "Let me check that with the staff", "zh": "先帮您问一下客服"}
WHICH = {"en": "Which item do you mean?", "zh": "您想问哪一款"}

# Question of the sample chat -> what its answer must say; a tuple for several facts.
EN = {
    "how much is number 1?": ("Sunscreen", "$20.40"),
    "does the sunscreen leave a white cast": "blends in on light to medium skin tones",
    "how much is the rain jacket with the deal": ("Harbor Rain Jacket", "$59.90"),
    "what size rain jacket for 178 cm and 72 kg": ("Harbor Rain Jacket", "size L"),
    "is number 5 waterproof or just water resistant": "10000 mm with taped seams",
    "do you ship to Canada": ("$14.50", "5-9 days"),
    "shipping to Hawaii how much": ("$12.95", "5-10 days"),
    "price of the earbuds?": ("Murmur Wireless Earbuds", "$62.10"),
    "any coupons today": "HELLO5",
    "is the hand cream back in stock": ("Hand Cream", "sold out"),
    "can I return it if it doesn't fit": "within 30 days",
    "which is better number 10 or number 11": ("Skillet $32.71", "Kettle $64.08"),
    "do the leggings have pockets": "two side pockets",
    "and is the sage one in M left": ("Leggings", "sage M", "11"),
    "how much for 2 tees": ("Cotton Tee", "$35.88"),
    "how much for 3 snack boxes": ("Seaweed Snack Box", "$22.29"),
    "my package arrived broken and nobody answers me": "a person will get back to you",
    "can I wear the sneakers on trails": "roads and light gravel",
    "size 9 sneakers in coral?": ("Sneakers", "5 left"),
    "my skin burns after the serum, help": "a person will get back to you",
    "how long does delivery to Oregon take": "2-5 days",
    "is number 26 out yet": ("Parka", "15 Sep 2030"),
    "kettle price for members?": ("Kettle", "$57.28"),
    "what's the warranty on the earbuds": "24-month",
    "how heavy is the power bank, can I fly with it": ("Power Bank", "198 g"),
    "does the tee shrink": "2%",
    "is number 25 still sold": "no longer sold",
    "when does the flash sale end": ("Rain Jacket Flash Sale", "31 Dec 2029"),
    "I want to talk to a person": "a person will get back to you",
    "are you a real person?": "AI-generated",
    "number 14 how much": ("Blender", "$37.40"),
    "72% chocolate price": ("Chocolate", "$6.80"),
    "how many in the bib set": "2 bibs",
    "what sizes does the duvet come in": ("queen", "king"),
    "can I pay with PayPal": "major credit cards",
    "is the cleansing balm ok for waterproof mascara": "30 seconds",
    "total for the skillet and the kettle?": ("$32.71", "$64.08"),
    "does the jacket breathe": "zips under the arms",
    "LIVE10 works on number 8?": ("don't see LIVE10", "LIVE8"),
    "how often do I reapply the sunscreen": "Every 2 hours",
    "does number 6 come in black XL": ("Tee", "black XL", "18"),
    "lamp price pls": ("Lamp", "$31.74"),
    "last one: earbuds battery life?": "7 hours plus 21 with case",
}
ZH = {
    "1号链接多少钱": ("防晒乳", "¥61.20"),
    "冲锋衣到手价多少": ("冲锋衣", "¥269"),
    "5号防水吗": "10000毫米",
    "新疆发不发": ("新疆", "¥18", "5-9天"),
    "发广东几天到": "2-4天",
    "耳机多少钱": ("耳机", "¥197.12"),
    "今天有什么券": "新客10",
    "护手霜还有货吗": ("护手霜", "已售罄"),
    "不合适能退吗": "7天内",
    "10号和11号哪个实用": ("炒锅 ¥128.72", "水壶 ¥131.12"),
    "瑜伽裤有口袋吗": "两侧各一个",
    "黑色M还有没有": ("瑜伽裤", "黑色 M", "35"),
    "坚果买两份多少钱": ("坚果", "2件", "¥99.47"),
    "袜子买三双怎么算": ("袜", "3件", "¥39.80"),
    "收到的锅是坏的 客服也不回": "人工客服",
    "跑鞋偏大吗": "脚宽建议拍大一码",
    "用了精华脸有点痒怎么办": "人工客服",
    "偏远地区运费怎么算": ("¥12", "4-6天"),
    "26号什么时候开卖": ("鹅绒服", "2030年10月20日"),
    "会员买水壶多少钱": ("水壶", "¥124.57"),
    "耳机保修多久": "12个月",
    "包邮吗": "满49元包邮",
    "充电宝能上飞机吗": "随身携带",
    "T恤会缩水吗": "3%以内",
    "25号还卖不卖": "已下架",
    "秒杀到几点": ("冲锋衣秒杀", "22:00"),
    "我要找人工": "人工客服",
    "这是真人吗": "人工智能",
    "14号多少钱": ("保温杯", "¥87.12"),
    "每日坚果一箱几包": "30包",
    "四件套有几种尺寸": ("1.5米床", "1.8米床"),
    "能开发票吗": "电子普通发票",
    "奶瓶能用消毒柜吗": "沸水消毒",
    "炒锅加水壶一共多少": ("¥128.72", "¥131.12"),
    "8号能用券吗": "直播间88折",
    "防晒多久补一次": "每2小时",
    "6号有黑色XL吗": ("T恤", "黑色 XL", "25"),
    "台灯什么价": ("台灯", "¥166.32"),
    "降噪能用多久": "7小时",
}
# Nothing the shop knows answers these: the host says so, or asks which item is meant.
OPEN = {
    "en": {"invoice possible?": HONEST, "do they pill": HONEST},
    "zh": {"冲锋衣透气吗": HONEST, "防晒会不会搓泥啊": HONEST, "42码还有吗": WHICH, "165 55公斤穿什么码": WHICH},
}  # fmt: skip
ASKED_BEFORE = {
    "and is the sage one in M left": "do the leggings have pockets",
    "黑色M还有没有": "瑜伽裤有口袋吗",
}

PARAMETERS = {
    "link": "The link number.", "links": "The link numbers.", "variant": "Colour or size.", "quantity": "How many.",
    "member": "Whether the viewer is a club member.", "query": "What to search for.", "max_price": "The budget.",
    "limit": "How many results.", "region": "State or country.", "topic": "The topic.", "reason": "Why.",
    "height_cm": "Body height.", "weight_kg": "Body weight.", "foot_cm": "Length of the foot.",
    "usual_size": "The size usually worn.",
    "link_no": "链接号", "link_nos": "链接号", "spec": "规格", "count": "件数", "vip": "是不是会员",
    "keywords": "关键词", "budget": "预算", "top": "最多几个", "question": "观众的问题",
}  # fmt: skip


def renamed(worn, style=""):
    """Every tool, argument and skill under a name that says nothing; descriptions stay."""
    tools = []
    for i, tool in enumerate(worn.tools):
        properties = tool.input_schema.get("properties", {})
        names = {old: f"p{j}" for j, old in enumerate(properties)}
        schema = {
            **tool.input_schema,
            "properties": {
                names[old]: {"description": PARAMETERS.get(old, "The thing."), **inner}
                for old, inner in properties.items()
            },
            "required": [names[old] for old in tool.input_schema.get("required", ())],
        }
        mapped = [
            entry.model_copy(update={"source": names.get(entry.source, entry.source)})
            for entry in tool.binding.arguments
        ]
        mapped += [
            ArgumentMap(to=old, source=new)
            for old, new in names.items()
            if old not in {entry.source for entry in tool.binding.arguments}
        ]
        result = tool.result
        if style and not tool.binding.operation.startswith("harness."):
            result = result.model_copy(update={"style": style, "template": ""})
        tools.append(
            tool.model_copy(
                update={
                    "name": f"t{i}",
                    "input_schema": schema,
                    "binding": tool.binding.model_copy(update={"arguments": tuple(mapped)}),
                    "result": result,
                }
            )
        )
    skills = tuple(s.model_copy(update={"name": f"s{i}"}) for i, s in enumerate(worn.skills))
    return worn.replace(tools=tuple(tools), skills=skills)


@dataclass
class Room:
    """The host in a sample shop, asked one question at a time."""

    language: str
    agent: Agent
    live: LiveHarness

    async def ask(self, text, *, on_screen="1", before=""):
        dialogue = (DialogueTurn(viewer="Ann", text=before, reply="...")) if before else None
        state = RoomState(
            room="r",
            language=self.language,
            now=NOW,
            on_screen=on_screen,
            timezone="UTC",
            dialogue=(dialogue,) if dialogue else (),
        )
        message = ChatMessage(id="m", room="r", viewer="Ann", name="Ann", text=text, at=NOW)
        return await self.agent.answer(Request(id=text, messages=(message,), state=state, created_at=NOW), self.live)


def room(language, change=lambda worn: worn):
    worn = change(load_harness(ROOT / f"harnesses/streamer-{language}").harness)
    catalogue = load_catalogue(ROOT / f"stores/demo-{language}")
    operations = shop_operations()
    agent = Agent(policy=open_policy("scripted:host"), operations=operations, catalogue=lambda: catalogue)
    return Room(language, agent, LiveHarness(worn, "r", operations))


@pytest.fixture(scope="module", params=["as it is", "renamed", "renamed, JSON", "renamed, XML", "renamed, lines"])
def rooms(request):
    style = {"JSON": "json", "XML": "xml", "lines": "key_value"}.get(request.param.rpartition(" ")[2], "")
    change = (lambda worn: renamed(worn, style)) if "renamed" in request.param else (lambda worn: worn)
    return {language: room(language, change) for language in ("en", "zh")}


@pytest.fixture(scope="module")
def sample():
    return {language: room(language) for language in ("en", "zh")}


def chat(language):
    lines = (ROOT / f"chats/demo-{language}.jsonl").read_text(encoding="utf-8").splitlines()
    return {json.loads(line)["text"] for line in lines}


@pytest.mark.parametrize(("language", "facts"), [("en", EN), ("zh", ZH)])
async def test_questions_of_the_sample_chats_are_answered_right(rooms, language, facts):
    assert set(facts) <= chat(language)
    wrong = []
    for question, expected in facts.items():
        answered = await rooms[language].ask(question, before=ASKED_BEFORE.get(question, ""))
        expected = (expected,) if isinstance(expected, str) else expected
        if answered.route not in (Route.AGENT, Route.HANDOFF) or any(e not in answered.reply for e in expected):
            wrong.append((question, answered.route.value, answered.reply))
    assert wrong == []
    assert len(facts) >= 25


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_where_nothing_answers_the_host_says_so(rooms, language):
    assert set(OPEN[language]) <= chat(language)
    for question, said in OPEN[language].items():
        answered = await rooms[language].ask(question)
        assert (answered.route, said[language] in answered.reply) == (Route.AGENT, True), answered.reply


@pytest.mark.parametrize(
    ("language", "question", "says"),
    [
        ("en", "chef knife price?", "Finch Chef's Knife"),
        ("en", "how much is the thing from yesterday's dream?", "Which item do you mean?"),
        ("en", "how much is this one?", "Sunscreen"),
        ("en", "which is cheaper, 25 or 2", "Meadow Soy Candle Jar no longer sold, Dewdrop Hydrating Serum $23.08"),
        ("en", "how much is 12?", "Finch Chef's Knife"),
        ("en", "how much is the serum in 50 ml", "Dewdrop Hydrating Serum, link 2, 50 ml"),
        ("en", "do you have the tee in purple", "it comes in color white, black"),
        ("en", "which one is better?", "Which item do you mean?"),
        ("en", "price of 5 and 6", "Harbor Rain Jacket, link 5: $59.90 for 1. Everyday Heavy Cotton Tee, link 6: $23.92 for 1."),
        ("en", "two chocolates please, price?", "for 2"),
        ("en", "is it waterproof?", "Sunscreen SPF50+: water resistance 80 minutes"),
        ("en", "what time is it", HONEST["en"]),
        ("en", "how do I use a coupon", "Claim it in the room"),
        ("zh", "这款是什么材质", "物化结合防晒剂"),
        ("zh", "介绍一下充电宝", "充电宝,"),
        ("zh", "优惠券怎么领", "福袋"),
        ("zh", "我的快递还没到", "人工客服"),
        ("en", "do you ship to France", "We do not ship to the European Union"),
        ("en", "do you ship to Atlantis", HONEST["en"]),
        ("en", "is the mat available", "Grounded Cork Yoga Mat: sold out"),
        ("zh", "刀具多少钱", "三件套刀具"),
        ("zh", "这个多少钱", "防晒乳"),
        ("zh", "10和11哪个便宜", "炒锅便宜¥2.40"),
        ("zh", "发西藏吗 能发到西藏吗", "西藏,合作快递暂未开通西藏线路"),
        ("zh", "T恤168 60公斤穿什么码", "T恤,推荐L码"),
        ("zh", "T恤170 65公斤穿什么码", "T恤,推荐L或XL码"),
        ("zh", "T恤170 120公斤穿什么码", "最接近的是2XL码"),
        ("zh", "2号买3件多少钱", "玻尿酸水润精华"),
    ],
)  # fmt: skip
async def test_no_answer_is_about_another_item(sample, language, question, says):
    answered = await sample[language].ask(question)
    assert says in answered.reply, answered.reply


@pytest.mark.parametrize(
    ("language", "question", "condition"),
    [
        ("en", "price of the earbuds?", "Live room coupon: 8% off from $25"),
        ("en", "number 14 how much", "Kitchen coupon: $4 off from $30"),
        ("zh", "1号链接多少钱", "券后¥61.20,点关注就能领券"),
    ],
)
async def test_a_price_after_a_coupon_is_told_with_the_coupon(sample, language, question, condition):
    """Without it the viewer would pay more than was said."""
    assert condition in (await sample[language].ask(question)).reply


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_prices_are_only_said_of_the_item_asked_about(sample, language):
    """Price questions by name and by number, whatever is on screen."""
    catalogue = load_catalogue(ROOT / f"stores/demo-{language}")
    wordings = {"en": ("how much is the {}?", "{} price"), "zh": ("{}多少钱", "{}什么价")}[language]
    for product in catalogue.products:
        alias = product.aliases[0] if product.aliases else product.name
        for wording in wordings:
            for words in (alias, {"en": f"number {product.link_id}", "zh": f"{product.link_id}号"}[language]):
                answered = await sample[language].ask(wording.format(words), on_screen="2")
                others = [p.name for p in catalogue.products if p.name in answered.reply and p.name != product.name]
                assert (words, others) == (words, [])
                if re.search(r"[$¥]\d", answered.reply):
                    assert product.name in answered.reply


async def test_the_sample_chats_never_end_without_an_answer(sample):
    for language, place in sample.items():
        for text in sorted(chat(language)):
            answered = await place.ask(text)
            assert answered.route in (Route.AGENT, Route.HANDOFF, Route.SILENT), answered.route_reason
            if answered.route is Route.SILENT:
                assert answered.route_reason.startswith("hook: ")


# ------------------------------------------------------------------------------------ its parts


def surfaces(language):
    worn = load_harness(ROOT / f"harnesses/streamer-{language}").harness
    return [ToolSurface(name=t.name, description=t.description, input_schema=t.input_schema) for t in worn.tools]


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", "get_item search_items compare_items price_check list_deals check_stock size_help shipping_cost store_policy search_faq call_staff"),
        ("zh", "query_product search_product compare_products calc_price list_promotions query_stock recommend_size query_shipping query_policy search_faq transfer_human"),
    ],
)  # fmt: skip
def test_tools_are_known_by_what_they_say(language, expected):
    purposes = (
        "product",
        "search",
        "compare",
        "price",
        "deals",
        "stock",
        "size",
        "shipping",
        "policy",
        "faq",
        "handoff",
    )
    tools = surfaces(language)
    named = tools_by_purpose(tools)
    assert {p: named[p].name for p in purposes} == dict(zip(purposes, expected.split(), strict=True))
    nameless = tools_by_purpose([replace(t, name=f"t{i}") for i, t in enumerate(tools)])
    assert {p: t.description for p, t in nameless.items()} == {p: t.description for p, t in named.items()}
    loader, argument = skill_loader(tools, [])
    assert (loader.name, argument) == ("load_skill", "name")


@pytest.mark.parametrize(
    ("question", "intent", "links", "items", "quantity", "variant"),
    [
        ("how much is number 12?", "price", ("12",), (), None, ""),
        ("3号链接多少钱", "price", ("3",), (), None, ""),
        ("三号多少钱", "price", ("3",), (), None, ""),
        ("is this one in stock", "stock", (), (), None, ""),
        ("do you ship to Canada", "shipping", (), ("Canada",), None, ""),
        ("can I return it", "policy", (), ("return",), None, ""),
        ("what size for 170 cm 60kg", "size", (), (), None, ""),
        ("身高165穿什么码", "size", (), (), None, ""),
        ("it arrived broken, I want a human", "handoff", (), ("arrived broken human",), None, ""),
        ("what if it arrives broken?", "policy", (), ("arrives broken",), None, ""),
        ("hi everyone", "talk", (), ("everyone",), None, ""),
        ("保温杯多少钱", "price", (), ("保温杯",), None, ""),
        ("这个多少钱", "price", (), (), None, ""),
        ("how much is the kettle", "price", (), ("kettle",), None, ""),
        ("how much for 2 tees", "price", (), ("tees",), 2, ""),
        ("price for three black tees in XL", "price", (), ("tees",), 3, "black XL"),
        ("how much for two of link 3?", "price", ("3",), (), 2, ""),
        ("price for 2 of number 4", "price", ("4",), (), 2, ""),
        ("number 6 in black XL, how much for 2?", "price", ("6",), (), 2, "black XL"),
        ("坚果买两份多少钱", "price", (), ("坚果",), 2, ""),
        ("四件套多少钱", "price", (), ("四件套",), None, ""),
        ("72% chocolate price", "price", (), ("72% chocolate",), None, ""),
        ("which is cheaper, 25 or 2", "compare", ("25", "2"), (), None, ""),
        ("炒锅加水壶一共多少", "price", (), ("炒锅", "水壶"), None, ""),
    ],
)  # fmt: skip
def test_what_a_question_names(question, intent, links, items, quantity, variant):
    user = f"## The room now\nOn screen: link 7, Mug.\n\n## Chat\nAnn: {question}"
    scene = read_scene((PromptMessage(role="system", content="host"), PromptMessage(role="user", content=user)))
    assert (scene.question, scene.on_screen) == (question, "7")
    assert (scene.intent.name, scene.links, scene.items) == (intent, links, items)
    assert (scene.quantity, scene.variant) == (quantity, variant)


@pytest.mark.parametrize(
    ("question", "height", "weight"),
    [
        ("165 55公斤穿什么码", 165, 55),
        ("170cm 130斤", 170, 65),
        ("I am 178 cm and 72.5 kg, what size", 178, 72.5),
    ],
)
def test_measures(question, height, weight):
    scene = read_scene((PromptMessage(role="user", content=f"## Chat\nAnn: {question}"),))
    assert (scene.height, scene.weight) == (height, weight)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("is the cleansing balm ok for waterproof mascara", "cleansing balm waterproof mascara"),
        ("会员买水壶多少钱", "水壶"),
        ("黑色M还有没有", ""),
        ("反正就9块9对吧", ""),
        ("it's $5 right?", ""),
    ],
)
def test_the_words_for_an_item(question, words):
    assert item_words(question) == words


@pytest.mark.parametrize(
    "text",
    [
        "## Chat\nAnn: any blue?\nBo: and red?\n\n## Just before\nCy: hi / you: hello",
        "<chat>\nAnn: any blue?\nBo: and red?\n</chat>",
        "Viewers:\nAnn: any blue?\nBo: and red?",
        "2. Chat\nAnn: any blue?\nBo: and red?",
    ],
)
def test_the_question_is_found_under_any_heading(text):
    assert read_question(text) == "any blue?\nand red?"


@pytest.mark.parametrize(
    ("text", "ok", "rows"),
    [
        ("results[1].name: Mug\nresults[1].price: $5\nresults[2].name: Pot", True, [{"name": "Mug", "price": "$5"}, {"name": "Pot"}]),
        ('{"results": [{"name": "Mug", "price": "$5"}, {"name": "Pot"}]}', True, [{"name": "Mug", "price": "$5"}, {"name": "Pot"}]),
        ("<result><results><name>Mug</name><price>$5</price></results><results><name>Pot</name></results></result>", True, [{"name": "Mug", "price": "$5"}, {"name": "Pot"}]),
        ("name: Mug\nstatus: in stock", True, [{"name": "Mug", "status": "in stock"}]),
        ("There are plenty of mugs left today.", True, [{"": "There are plenty of mugs left today."}]),
        ('{"error": "not_found", "message": "no"}', False, []),
        ('<error kind="not_found">no</error>', False, []),
        ("error (timeout): no result", False, []),
        ("", False, []),
    ],
)  # fmt: skip
def test_results_of_any_format_are_read(text, ok, rows):
    result = read_result(text)
    assert (result.ok, result.records()) == (ok, rows)


async def test_a_room_without_the_tools_still_answers_honestly():
    bare = room("en", lambda worn: worn.replace(tools=tuple(t for t in worn.tools if t.key == "load_skill")))
    answers = await asyncio.gather(*(bare.ask(q) for q in ("how much is number 1?", "does the tee shrink", "hi")))
    assert [a.route for a in answers] == [Route.AGENT] * 3
    assert [HONEST["en"] in a.reply for a in answers] == [True, True, False]
