from __future__ import annotations

import json
from pathlib import Path

import pytest

from livery.room.questions import Priority, chinese_number, link_references, normalise, read_message
from livery.types import ChatMessage, MessageKind

QUESTIONS = Path(__file__).parents[2] / "../shared/data/questions/product-questions-en.jsonl"


def read(text: str, **options):
    kind = options.pop("kind", MessageKind.CHAT)
    return read_message(ChatMessage(id="1", room="r", viewer="v", text=text, at=0.0, kind=kind), **options)


@pytest.mark.parametrize(
    ("text", "intent", "reference"),
    [
        ("how much is number 3?", "price", "3"),
        ("HOW MUCH", "price", ""),
        ("no. 12, size XL?", "size", "12"),
        ("is Number Nine in green still there", "stock", "9"),
        ("#7 in stock?", "stock", "7"),
        ("hey, do you ship to Canada", "shipping", ""),
        ("can i return it", "after_sales", ""),
        ("what is it made of", "detail", ""),
        ("which one is better, item 2 or item 5", "compare", "2,5"),
        ("where do you live", "", ""),
        ("3号链接多少钱", "price", "3"),
        ("三号还有货吗", "stock", "3"),
        ("链接12 包邮吗", "shipping", "12"),
        ("第二款适合油皮吗", "detail", "2"),
        ("十二号和二十号哪个好", "compare", "12,20"),
        ("100斤穿什么码", "size", ""),
        ("主播贵不贵", "price", ""),
        ("今天几点下播", "", ""),
        ("12号发货吗", "shipping", ""),
        ("真人客服在吗", "person", ""),
    ],
)
def test_questions_their_intent_and_the_links_they_name(text: str, intent: str, reference: str) -> None:
    reading = read(text)
    assert (reading.priority, reading.for_host) == (Priority.QUESTION, True)
    assert (reading.intent, reading.reference) == (intent, reference)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lol", "not addressed to the host"),
        ("Can't wait to see it", "not addressed to the host"),
        ("history in the making", "not addressed to the host"),
        ("-$5", "not addressed to the host"),
        ("What a beautiful song", "not addressed to the host"),
        ("哈哈哈哈哈", "not addressed to the host"),
        ("666", "not addressed to the host"),
        ("5月3号的", "not addressed to the host"),
        ("😀😀", "no words"),
        (":face-blue-smiling:", "no words"),
        ("[doge][doge]", "no words"),
        ("https://example.com/?q=1", "no words"),
        ("", "no words"),
        ("@bob how much did you pay?", "addressed to another viewer"),
        ("!drop now", "a bot command"),
    ],
)
def test_what_is_not_for_the_host(text: str, reason: str) -> None:
    reading = read(text)
    assert (reading.for_host, reading.reason) == (False, reason)


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        # as viewers write: no question mark, no verb, a wish, a complaint
        ("i want to talk to a person", ""),
        ("manager please", "person"),
        ("xl please", ""),
        ("i'd like the red one", ""),
        ("looking for something for oily skin", ""),
        ("i have a lab, which do i need", ""),
        ("the white one looks nice, how thick", ""),
        ("my oil was light yellow. is that bad", ""),
        ("u ship to uk", "shipping"),
        ("still have the blue one", ""),
        ("wondering if it runs small", ""),
        ("it's $5 right", ""),
        ("3 or 4", ""),
        ("stackable with live10", "price"),
        ("i missed the code", "price"),
        ("do u take paypal", "payment"),
        ("i was charged twice", "payment"),
        ("safe for sensitive skin", "detail"),
        ("dishwasher safe", "detail"),
        ("jacket in green", "detail"),
        ("total with tax", "price"),
        ("江苏明天到得了", "shipping"),
        ("两件一起发", "shipping"),
        ("gift wrap", "order"),
        ("track my parcel", "shipping"),
        ("the lid doesnt close", "after_sales"),
        ("mine leaks", "after_sales"),
        ("your product broke after a week", "after_sales"),
        ("help", ""),
        ("新疆发不发", "shipping"),
        ("发新疆", "shipping"),
        ("发圆通别发邮政", "shipping"),
        ("今天拍明天能到", "shipping"),
        ("要一件黑色M", ""),
        ("给我来两盒", ""),
        ("反正就9块9对吧", ""),
        ("这个洗了缩不缩", ""),
        ("油头能压住不", ""),
        ("敏感肌可以用", ""),
        ("小孩能吃", ""),
        ("黑色有", ""),
        ("再讲一遍", "show"),
        ("没听清", ""),
        ("少发了一件", "after_sales"),
        ("收到是坏的", "after_sales"),
        ("盖子盖不紧", "after_sales"),
        ("和上次一样价", "price"),
        ("能叠加", "price"),
        ("加入会员", "price"),
        ("花呗", "payment"),
        ("保真", "detail"),
        ("送长辈合适", "detail"),
        ("看下背面", "show"),
        ("我要投诉", "person"),
        ("多少錢", "price"),
        ("有貨嗎", "stock"),
        ("運費怎麼算", "shipping"),
        # other languages by their question marks
        ("كم السعر؟", ""),
        ("¿tienen talla grande", ""),
    ],
)
def test_questions_without_a_question_mark(text: str, intent: str) -> None:
    reading = read(text)
    assert (reading.priority, reading.for_host, reading.intent) == (Priority.QUESTION, True, intent)


@pytest.mark.parametrize(
    "text",
    [
        "better luck next time", "who cares", "what the", "how funny", "is it just me lol", "are you serious lol",
        "big deal", "deal with it", "do it", "will be back", "can confirm", "why not lol", "in order to win",
        "left the stream for a bit", "ok we all know who is going to win", "same", "thank you!!", "lateee",
        "TEEEECHNO", "my cat is called mango", "好看好看", "今晚讲得不错", "不是吧", "好吧", "几乎是的", "呢",
        "评价不错", "猫又来抢镜了", "下了下了 拜拜", "שלום לכולם",
    ],
)  # fmt: skip
def test_chatter_that_looks_like_a_question(text: str) -> None:
    assert not read(text, products={"tee": "6", "mango tea": "7"}).for_host


@pytest.mark.skipif(not QUESTIONS.is_file(), reason="the real questions are not here")
def test_nearly_every_real_shopper_question_passes_without_its_question_mark() -> None:
    texts = [json.loads(line)["question"] for line in QUESTIONS.read_text("utf-8").splitlines()]
    assert len(texts) == 400
    assert all(read(text).for_host for text in texts)
    lost = [text for text in texts if not read(text.rstrip("? ")).for_host]
    assert len(lost) <= 14, lost


def test_greetings_and_the_hosts_name_are_other_and_money_is_paid() -> None:
    assert read("hello!").priority is Priority.OTHER
    assert read("hello!").for_host
    assert [read(t).intent for t in ("hellooo", "Hi from Wales", "hi, how much?")] == [
        "greeting",
        "greeting",
        "price",
    ]
    assert read("love you ann", hosts=("ann",)).for_host
    assert not read("love you ann").for_host
    assert read("@Ann love it", hosts=("ann",)).for_host
    assert read("love it", kind=MessageKind.PAID).priority is Priority.PAID
    assert read("how much?", kind=MessageKind.PAID).priority is Priority.QUESTION


def test_a_product_name_is_a_reference() -> None:
    products = {normalise("Linen Shirt"): "7", normalise("珍珠面膜"): "9"}
    assert read("the LINEN  shirt looks nice", products=products).reference == "7"
    assert read("two linen shirts", products=products).reference == "7"
    assert read("linen shirtless", products=products).reference == ""
    assert read("我要一个珍珠面膜和linen shirt", products=products).reference == "7,9"
    assert read("珍珠面膜好用吗", products=products).reference == "9"


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("is M or XL left", {"m", "xl"}),
        ("I'm sure it's 2xl", {"2xl"}),
        ("1000 or 1,5?", {"1000", "1", "5"}),
        ("三号还是四号", {"三", "四"}),
        ("200.5 cm", {"200.5"}),
    ],
)
def test_numbers_and_sizes_are_marks(text: str, marks: set[str]) -> None:
    assert read(text).marks == marks


def test_normalised_text_is_for_comparison() -> None:
    assert normalise("Sooooo  GOOD!!! :smile: ") == "soo good"
    assert normalise("３号 链接，多少 钱？？") == "3号链接多少钱"
    assert normalise("1000") == "1000"


def test_chinese_numbers_up_to_ninety_nine() -> None:
    assert [chinese_number(t) for t in ("三", "两", "十", "十二", "二十", "九十九", "7", "百", "二三")] == [
        3, 2, 10, 12, 20, 99, 7, -1, -1,
    ]  # fmt: skip
    assert link_references("item 3% off, number 2.5") == ()
