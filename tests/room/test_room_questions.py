from __future__ import annotations

import pytest

from livery.room.questions import Priority, chinese_number, link_references, normalise, read_message
from livery.types import ChatMessage, MessageKind


def read(text: str, **options):
    kind = options.pop("kind", MessageKind.CHAT)
    return read_message(ChatMessage(id="1", room="r", viewer="v", text=text, at=0.0, kind=kind), **options)


@pytest.mark.parametrize(
    ("text", "intent", "reference"),
    [
        ("how much is number 3?", "price", "3"),
        ("HOW MUCH", "price", ""),
        ("no. 12, size XL?", "size", "12"),
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
