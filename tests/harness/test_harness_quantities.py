"""What is read out of free speech, and what counts as borne out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livery.harness.numerals import chinese_value, read_chinese, read_english
from livery.harness.quantities import Quantity, matches, quantities_of, read_quantities

USD, CNY = "USD", "CNY"
DAY = 86_400

READINGS = [
    # money, English
    ("It's $39.99 today", [("money", 3999, USD)]),
    ("$1,299", [("money", 129900, USD)]),
    ("$1,299.50 only", [("money", 129950, USD)]),
    ("39.99 USD", [("money", 3999, USD)]),
    ("USD 39", [("money", 3900, USD)]),
    ("US$12.5", [("money", 1250, USD)]),
    ("€15", [("money", 1500, "EUR")]),
    ("15 euros", [("money", 1500, "EUR")]),
    ("£7.50", [("money", 750, "GBP")]),
    ("only 5 pounds", [("money", 500, "GBP")]),
    ("39 dollars", [("money", 3900, USD)]),
    ("forty bucks", [("money", 4000, USD)]),
    ("fifty cents", [("money", 50, USD)]),
    ("thirty-nine ninety-nine", [("money", 3999, "")]),
    ("it is thirty nine ninety nine now", [("money", 3999, "")]),
    ("thirty-nine dollars and ninety-nine cents", [("money", 3999, USD)]),
    ("$39 and 99 cents", [("money", 3999, USD)]),
    ("two fifty", [("money", 250, "")]),
    ("nineteen ninety-five dollars", [("money", 1995, USD)]),
    ("twelve hundred dollars", [("money", 120000, USD)]),
    ("a hundred and five dollars", [("money", 10500, USD)]),
    ("price is 39", [("money", 3900, "")]),
    ("it's 39 now", [("money", 3900, "")]),
    ("39.99 for you", [("money", 3999, "")]),
    ("$20-$30", [("money", 2000, USD), ("money", 3000, USD)]),
    ("20 to 30 dollars", [("money", 2000, USD), ("money", 3000, USD)]),
    ("$20 off orders over $100", [("money", 2000, USD), ("money", 10000, USD)]),
    ("1,980 yen", [("money", 1980, "JPY")]),
    ("HK$88", [("money", 8800, "HKD")]),
    ("$2 million", [("money", 200000000, USD)]),
    # money, Chinese
    ("￥99", [("money", 9900, CNY)]),
    ("¥99元", [("money", 9900, CNY)]),
    ("99元", [("money", 9900, CNY)]),
    ("９９元", [("money", 9900, CNY)]),
    ("39块9", [("money", 3990, CNY)]),
    ("39块9毛", [("money", 3990, CNY)]),
    ("39块99", [("money", 3999, CNY)]),
    ("三十九块九", [("money", 3990, CNY)]),
    ("三十九块九毛九", [("money", 3999, CNY)]),
    ("三块半", [("money", 350, CNY)]),
    ("五毛", [("money", 50, CNY)]),
    ("五毛钱", [("money", 50, CNY)]),
    ("三十九块钱", [("money", 3900, CNY)]),
    ("一百二十块", [("money", 12000, CNY)]),
    ("一百二十九元", [("money", 12900, CNY)]),
    ("一百二的话", [("number", 120, "")]),
    ("两千三百元", [("money", 230000, CNY)]),
    ("只要39", [("money", 3900, "")]),
    ("到手价59.9", [("money", 5990, "")]),
    ("券后19块8", [("money", 1980, CNY)]),
    ("满300减50", [("money", 30000, ""), ("money", 5000, "")]),
    ("满三百减五十", [("money", 30000, ""), ("money", 5000, "")]),
    ("优惠20元", [("money", 2000, CNY)]),
    ("99元3件", [("money", 9900, CNY), ("count", 3, "piece")]),
    ("100-200元", [("money", 10000, CNY), ("money", 20000, CNY)]),
    ("39.9元", [("money", 3990, CNY)]),
    ("20美元", [("money", 2000, USD)]),
    ("1.2万元", [("money", 1200000, CNY)]),
    # percent
    ("20% off", [("percent", 20, "off")]),
    ("twenty percent off", [("percent", 20, "off")]),
    ("save 20%", [("percent", 20, "off")]),
    ("a 15% discount", [("percent", 15, "off")]),
    ("95% cotton", [("percent", 95, "")]),
    ("half price", [("percent", 50, "off")]),
    ("10-20% off", [("percent", 10, "off"), ("percent", 20, "off")]),
    ("80% of the original price", [("percent", 20, "off")]),
    ("12.5 percent", [("percent", 12.5, "")]),
    ("百分之二十", [("percent", 20, "")]),
    ("百分之95的棉", [("percent", 95, "")]),
    ("立减20%", [("percent", 20, "off")]),
    ("5折", [("percent", 50, "off")]),
    ("五折", [("percent", 50, "off")]),
    ("打8折", [("percent", 20, "off")]),
    ("八五折", [("percent", 15, "off")]),
    ("8.5折", [("percent", 15, "off")]),
    ("85折", [("percent", 15, "off")]),
    ("九五折", [("percent", 5, "off")]),
    ("半价", [("percent", 50, "off")]),
    ("打对折", [("percent", 50, "off")]),
    ("a quarter off", [("percent", 25, "off")]),
    ("1/2 off", [("percent", 50, "off")]),
    ("two for one", [("count", 1, "buy"), ("count", 1, "free")]),
    ("3 for 2", [("count", 2, "buy"), ("count", 1, "free")]),
    ("2 for $30", [("number", 2, ""), ("money", 3000, USD)]),
    ("40ish", [("money", 4000, "")]),
    ("叁拾玖元", [("money", 3900, CNY)]),
    ("十九点九", [("number", 19.9, "")]),
    ('a 55" screen', [("measure", 1397, "mm")]),
    ("3/4-inch pipe", [("measure", 19.05, "mm")]),
    ("第二件半价", [("ordinal", 2, ""), ("percent", 50, "off")]),
    ("九成新", [("percent", 90, "")]),
    ("百分百好评", []),
    ("95％棉", [("percent", 95, "")]),
    # counts
    ("3 pieces left", [("count", 3, "piece")]),
    ("twelve left in stock", [("count", 12, "piece")]),
    ("a pair of socks", [("count", 1, "pair")]),
    ("two pairs", [("count", 2, "pair")]),
    ("a pack of 12", [("number", 12, "")]),
    ("a dozen eggs", [("number", 12, "")]),
    ("1,000 sold", [("count", 1000, "order")]),
    ("two boxes of tea", [("count", 2, "box")]),
    ("6 bottles", [("count", 6, "bottle")]),
    ("x3", [("count", 3, "")]),
    ("three colours", [("count", 3, "colour")]),
    ("buy one get one free", [("count", 1, "buy"), ("count", 1, "free")]),
    ("buy 2 get 1 free", [("count", 2, "buy"), ("count", 1, "free")]),
    ("one of the best ones", []),
    ("no one knows", []),
    ("someone asked", []),
    ("三件", [("count", 3, "piece")]),
    ("两双", [("count", 2, "pair")]),
    ("3瓶装", [("count", 3, "bottle")]),
    ("还剩12件", [("count", 12, "piece")]),
    ("仅一件", [("count", 1, "piece")]),
    ("买一送一", [("count", 1, "buy"), ("count", 1, "free")]),
    ("买2送1", [("count", 2, "buy"), ("count", 1, "free")]),
    ("已售2万件", [("count", 20000, "piece")]),
    ("三种颜色", [("count", 3, "colour")]),
    ("一个问题", []),
    ("这一款", []),
    ("十分满意", []),
    ("一起看一下", []),
    ("万一不合适", []),
    ("三件套", [("count", 3, "set")]),
    # measures
    ("1.5L", [("measure", 1500, "ml")]),
    ("1500 ml", [("measure", 1500, "ml")]),
    ("500毫升", [("measure", 500, "ml")]),
    ("half a kilo", [("measure", 500, "g")]),
    ("one and a half litres", [("measure", 1500, "ml")]),
    ("two point five kg", [("measure", 2500, "g")]),
    ("半斤", [("measure", 250, "g")]),
    ("一斤半", [("measure", 750, "g")]),
    ("三两", [("measure", 150, "g")]),
    ("2公斤", [("measure", 2000, "g")]),
    ("5 pounds", [("measure", 2267.96185, "g")]),
    ("10x20x30 cm", [("measure", 100, "mm"), ("measure", 200, "mm"), ("measure", 300, "mm")]),
    ("50*70厘米", [("measure", 500, "mm"), ("measure", 700, "mm")]),
    ("170-175cm", [("measure", 1700, "mm"), ("measure", 1750, "mm")]),
    ("1米8", [("measure", 1800, "mm")]),
    ("6 feet", [("measure", 1828.8, "mm")]),
    ("SPF50+", [("measure", 50, "spf")]),
    ("SPF 30", [("measure", 30, "spf")]),
    ("65W快充", [("measure", 65, "w")]),
    ("65w charger", [("measure", 65, "w")]),
    ("10000mAh", [("measure", 10000, "mah")]),
    ("5000毫安时", [("measure", 5000, "mah")]),
    ("128G内存", [("measure", 128, "gb")]),
    ("500g", [("measure", 500, "g")]),
    ("30 degrees", [("measure", 30, "c")]),
    ("86°F", [("measure", 30, "c")]),
    ("20平方米", [("measure", 20, "m2")]),
    ("5G手机", []),
    ("500克×3袋", [("measure", 500, "g"), ("count", 3, "bag")]),
    ("一米六五", [("measure", 1650, "mm")]),
    ("零下20度", [("measure", -20, "c")]),
    ("down to -20 °C", [("measure", -20, "c")]),
    ("40-100 °C", [("measure", 40, "c"), ("measure", 100, "c")]),
    ("两个半小时", [("duration", 9000, "s")]),
    ("一个半月", [("duration", 1.5, "month")]),
    ("75B罩杯", [("size", "75B", "")]),
    ("34DD", [("size", "34DD", "")]),
    ("买三免一", [("count", 3, "buy"), ("count", 1, "free")]),
    ("90s style", []),
    ("4K TV", []),
    # sizes
    ("EU 42", [("size", "42", "eu")]),
    ("42码", [("size", "42", "")]),
    ("US 8.5", [("size", "8.5", "us")]),
    ("size 8", [("size", "8", "")]),
    ("sizes 36 to 40", [("size", "36", ""), ("size", "40", "")]),
    ("36-40码", [("size", "36", ""), ("size", "40", "")]),
    ("S/M/L and XL", [("size", "S", ""), ("size", "M", ""), ("size", "L", ""), ("size", "XL", "")]),
    ("XL码", [("size", "XL", "")]),
    ("2XL", [("size", "XXL", "")]),
    ("XXXL", [("size", "3XL", "")]),
    ("size medium", [("size", "M", "")]),
    ("均码", [("size", "FREE", "")]),
    ("one size fits all", [("size", "FREE", "")]),
    ("穿M码", [("size", "M", "")]),
    ("it's great, I'm sure", []),
    # dates and times
    ("June 18", [("date", "--06-18", "")]),
    ("June 18th, 2026", [("date", "2026-06-18", "")]),
    ("18 June 2026", [("date", "2026-06-18", "")]),
    ("the 18th of June", [("date", "--06-18", "")]),
    ("June eighteenth", [("date", "--06-18", "")]),
    ("2026-06-18", [("date", "2026-06-18", "")]),
    ("2026年6月18日", [("date", "2026-06-18", "")]),
    ("6月18日", [("date", "--06-18", "")]),
    ("6月18号", [("date", "--06-18", "")]),
    ("六月十八日", [("date", "--06-18", "")]),
    ("18号发货", [("date", "---18", "")]),
    ("in June", [("date", "--06", "")]),
    ("it may be 3 days", [("duration", 3 * DAY, "s")]),
    ("8:30 pm", [("time", "20:30", "")]),
    ("8 pm", [("time", "20:00", "")]),
    ("eight o'clock", [("time", "08:00", "")]),
    ("晚上8点半", [("time", "20:30", "")]),
    ("下午三点", [("time", "15:00", "")]),
    # durations
    ("7 days", [("duration", 7 * DAY, "s")]),
    ("a 7-day return", [("duration", 7 * DAY, "s")]),
    ("七天无理由", [("duration", 7 * DAY, "s")]),
    ("48小时", [("duration", 2 * DAY, "s")]),
    ("two weeks", [("duration", 14 * DAY, "s")]),
    ("within a week", [("duration", 7 * DAY, "s")]),
    ("half an hour", [("duration", 1800, "s")]),
    ("半小时", [("duration", 1800, "s")]),
    ("半年", [("duration", 6, "month")]),
    ("一年半", [("duration", 18, "month")]),
    ("三个月", [("duration", 3, "month")]),
    ("12 months", [("duration", 12, "month")]),
    ("3-5 days", [("duration", 3 * DAY, "s"), ("duration", 5 * DAY, "s")]),
    ("3到5天", [("duration", 3 * DAY, "s"), ("duration", 5 * DAY, "s")]),
    ("three to five business days", [("duration", 3, "workday"), ("duration", 5, "workday")]),
    ("两三天", [("duration", 2 * DAY, "s"), ("duration", 3 * DAY, "s")]),
    ("20多天", [("duration", 20 * DAY, "s")]),
    # references and numbers that claim nothing
    ("number 3", [("link", 3, "")]),
    ("No. 3", [("link", 3, "")]),
    ("No.3", [("link", 3, "")]),
    ("item 12", [("link", 12, "")]),
    ("link 3", [("link", 3, "")]),
    ("item three", [("link", 3, "")]),
    ("#3", [("link", 3, "")]),
    ("3号链接", [("link", 3, "")]),
    ("三号", [("link", 3, "")]),
    ("十二号链接", [("link", 12, "")]),
    ("链接3", [("link", 3, "")]),
    ("第三个", [("ordinal", 3, "")]),
    ("the 2nd one", [("ordinal", 2, "")]),
    ("the first time", [("ordinal", 1, "")]),
    ("13812345678", [("phone", "13812345678", "")]),
    ("400-820-1234", [("phone", "4008201234", "")]),
    ("618大促", [("campaign", "618", "")]),
    ("6.18 sale", [("campaign", "618", "")]),
    ("618元", [("money", 61800, CNY)]),
    ("$618", [("money", 61800, USD)]),
    ("双11", [("campaign", "1111", "")]),
    ("双十一", [("campaign", "1111", "")]),
    ("88VIP", []),
    ("2-in-1", []),
    ("WH-1000XM4", []),
    # plain numbers
    ("2万人", [("count", 20000, "person")]),
    ("1.2w人看", [("count", 12000, "person")]),
    ("一万二", [("number", 12000, "")]),
    ("三百零五", [("number", 305, "")]),
    ("about 40", [("number", 40, "")]),
    ("5k", [("number", 5000, "")]),
    ("iPhone 15", [("number", 15, "")]),
]


@pytest.mark.parametrize(("text", "expected"), READINGS, ids=[t for t, _ in READINGS])
def test_reading(text: str, expected: list[tuple[str, object, str]]) -> None:
    assert [(q.kind, q.value, q.unit) for q in read_quantities(text)] == expected


def test_table_is_large_enough_and_holds_no_row_twice() -> None:
    assert len({t for t, _ in READINGS}) == len(READINGS) >= 150


def test_whole_sentences() -> None:
    english = "Number 3 is $39.99 after the coupon, that's 20% off; 12 left, and it ships within 48 hours."
    assert [(q.kind, q.value) for q in read_quantities(english)] == [
        ("link", 3),
        ("money", 3999),
        ("percent", 20),
        ("count", 12),
        ("duration", 2 * DAY),
    ]
    chinese = "三号链接券后三十九块九，打八折，还剩12件，48小时内发货，七天无理由，尺码S到XL都有"
    assert [(q.kind, q.value) for q in read_quantities(chinese)] == [
        ("link", 3),
        ("money", 3990),
        ("percent", 20),
        ("count", 12),
        ("duration", 2 * DAY),
        ("duration", 7 * DAY),
        ("size", "S"),
        ("size", "XL"),
    ]


def test_language_settles_what_the_text_leaves_open() -> None:
    assert read_quantities("1.2w", "zh")[0].value == 12000
    assert (read_quantities("1.2w", "en")[0].value, read_quantities("1.2w", "en")[0].unit) == (1.2, "w")


def one(text: str) -> Quantity:
    (quantity,) = read_quantities(text)
    return quantity


MATCHES = [
    ("39 USD", "$39.00", True),
    ("$39.99", "$39.90", False),
    ("39.99", "$39.99", True),
    ("$39", "39元", False),
    ("39块9", "¥39.9", True),
    ("about 40", "$39.99", False),
    ("about 40", "$40", True),
    ("8折", "20% off", True),
    ("20折", "20% off", False),
    ("20%", "20% off", True),
    ("95% off", "95% cotton", False),
    ("7 days", "one week", True),
    ("7 days", "7 business days", False),
    ("48小时", "2 days", True),
    ("12 months", "1 year", True),
    ("1.5L", "1500ml", True),
    ("1.5L", "150ml", False),
    ("半斤", "250g", True),
    ("two pairs", "两双", True),
    ("two pairs", "2 boxes", False),
    ("3 pieces", "3双", True),
    ("42码", "EU 42", True),
    ("US 8", "EU 8", False),
    ("June 18", "2026-06-18", True),
    ("2026-06-18", "June 18", False),
    ("in June", "2026-06-18", True),
    ("18号发货", "2026-06-18", True),
    ("June 19", "2026-06-18", False),
    ("三万", "30,000 sold", True),
]


@pytest.mark.parametrize(("claim", "evidence", "expected"), MATCHES)
def test_matching(claim: str, evidence: str, expected: bool) -> None:
    assert matches(one(claim), one(evidence)) is expected


def test_buy_and_free_are_never_mixed_up() -> None:
    buy, free = read_quantities("buy 2 get 1")
    assert matches(buy, read_quantities("买二送一")[0])
    assert not matches(free, read_quantities("买一送二")[0])


def pairs(value: object) -> list[tuple[str, object, str]]:
    return [(q.kind, q.value, q.unit) for q in quantities_of(value)]  # type: ignore[arg-type]


def test_typed_results_are_read_by_their_shape_and_field_names() -> None:
    result = {
        "link_id": "3",
        "price": {"amount": 3999, "currency": "USD", "text": "$39.99"},
        "percent_off": 20,
        "stock": 12,
        "delivery_days": 7,
        "returns": {"business_days": 5},
        "volume": {"value": 1.5, "unit": "l"},
        "spf": 50,
        "ends_at": "2026-06-18T20:00:00+08:00",
        "size": "EU 42",
        "sizes": ["S", "M"],
        "stock_by_size": {"XL": 0},
        "in_stock": True,
        "note": "Ships within 48 hours",
    }
    assert pairs(result) == [
        ("link", 3, ""),
        ("money", 3999, "USD"),
        ("percent", 20, "off"),
        ("count", 12, ""),
        ("duration", 7 * DAY, "s"),
        ("duration", 5, "workday"),
        ("measure", 1500, "ml"),
        ("measure", 50, "spf"),
        ("date", "2026-06-18", ""),
        ("time", "20:00", ""),
        ("size", "42", "eu"),
        ("count", 2, "size"),
        ("size", "S", ""),
        ("size", "M", ""),
        ("size", "XL", ""),
        ("number", 0, ""),
        ("duration", 2 * DAY, "s"),
    ]


def test_currency_of_an_object_reaches_its_plain_prices() -> None:
    assert pairs({"price": 39.99, "currency": "usd"}) == [("money", 3999, "USD")]
    assert pairs({"price": 1980, "currency": "JPY"}) == [("money", 1980, "JPY")]


def test_numbers_without_a_telling_name_stay_numbers() -> None:
    assert pairs({"foo": 7}) == [("number", 7, "")]


SPEECH = st.text(
    alphabet=st.one_of(
        st.characters(),
        st.sampled_from("0123456789.,-$¥€%元块折件双号链接月日年半一二三十百千万点两买送第SMLXxlkgwmpcto "),
    ),
    max_size=80,
)


@settings(max_examples=400, deadline=None)
@given(SPEECH)
def test_any_text_is_read_without_a_fault_and_with_true_disjoint_spans(text: str) -> None:
    last = 0
    for q in read_quantities(text):
        assert last <= q.start < q.end <= len(text)
        assert text[q.start : q.end] == q.text
        last = q.end
        assert matches(q, q)


@pytest.mark.parametrize(
    "text",
    ["9" * 6000, "9" * 5000 + "元", "百分之" + "9" * 5000, "一" * 6000, "亿" * 6000, "million " * 800, "1-" * 3000,
     "twenty " * 800, "1/" * 3000, "$1,1.1元 " * 800, "9" * 400 + "万亿亿", "point one " * 800, "两" * 3000 + "块",
     "1 to " + "9" * 5000 + " dollars", "size " + "9" * 5000, "39块" + "9" * 5000],
    ids=range(16),
)  # fmt: skip
def test_absurd_lengths_are_read_without_a_fault(text: str) -> None:
    claims = read_quantities(text)
    assert all(text[q.start : q.end] == q.text and matches(q, q) for q in claims)


WORDS = st.lists(
    st.sampled_from(
        [
            "one",
            "two",
            "twenty",
            "thirty",
            "nine",
            "hundred",
            "thousand",
            "million",
            "and",
            "a",
            "half",
            "dozen",
            "point",
            "five",
            "3",
            "$",
            "40",
            "percent",
            "off",
            "days",
            "buy",
            "get",
            "free",
            "size",
            "M",
            "June",
            "18",
            "pair",
            "of",
            "second",
            "first",
            "pounds",
            "cents",
            "number",
            "item",
        ]
    ),
    max_size=10,
).map(" ".join)


@settings(max_examples=300, deadline=None)
@given(WORDS)
def test_any_order_of_number_words_is_read_without_a_fault(text: str) -> None:
    assert all(text[q.start : q.end] == q.text for q in read_quantities(text))


@pytest.mark.parametrize(
    ("run", "value"),
    [
        ("三百零五", 305),
        ("一百二", 120),
        ("一百零二", 102),
        ("两千三", 2300),
        ("一万二", 12000),
        ("十", 10),
        ("二十", 20),
        ("一亿两千万", 120_000_000),
        ("两万五千", 25_000),
        ("二零二六", 2026),
        ("三万零五十", 30_050),
    ],
)
def test_chinese_numerals(run: str, value: int) -> None:
    assert chinese_value(run) == value
    numeral = read_chinese(run, 0)
    assert numeral is not None
    assert (numeral.value, numeral.end) == (value, len(run))


@pytest.mark.parametrize(
    ("words", "value", "second"),
    [
        ("twelve hundred", 1200, -1),
        ("one hundred and five", 105, -1),
        ("one and a half", 1.5, -1),
        ("two thousand five hundred", 2500, -1),
        ("two million three hundred thousand and six", 2_300_006, -1),
        ("thirty-nine ninety-nine", 39, 99),
        ("two point five", 2.5, -1),
        ("two dozen", 24, -1),
        ("half a dozen", 6, -1),
        ("one hundred thousand", 100_000, -1),
    ],
)
def test_english_numerals(words: str, value: float, second: int) -> None:
    numeral = read_english(words, 0)
    assert numeral is not None
    assert (numeral.value, numeral.second, numeral.end) == (value, second, len(words))


# ------------------------------------------------------------- amounts written out and read back

_ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]  # fmt: skip
_TENS = ["_", "_", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_HAN = "零一二三四五六七八九"


def english(n: int, conjunction: str = " and ") -> str:
    if n < 20:
        return _ONES[n]
    if n < 100:
        return _TENS[n // 10] + (f"-{_ONES[n % 10]}" if n % 10 else "")
    if n < 1000:
        return f"{_ONES[n // 100]} hundred" + (conjunction + english(n % 100) if n % 100 else "")
    rest = n % 1000
    joined = "" if not rest else (conjunction if rest < 100 else " ") + english(rest, conjunction)
    return f"{english(n // 1000, conjunction)} thousand{joined}"


def han(n: int) -> str:
    if n >= 10_000:
        rest = n % 10_000
        return f"{han(n // 10_000)}万" + (("零" if rest < 1000 else "") + han(rest) if rest else "")
    text, zero = "", False
    for unit, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = n // unit % 10
        if digit:
            text += ("零" if zero and text else "") + _HAN[digit] + name
        zero = digit == 0
    return text.removeprefix("一") if 10 <= n < 20 else text


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 99_999), st.integers(0, 99))
def test_every_amount_is_read_back_however_it_is_written(major: int, cents: int) -> None:
    minor = major * 100 + cents
    written = [f"${major:,}.{cents:02d}", f"{major}.{cents:02d} dollars", f"USD {major}.{cents:02d}"]
    for text in written:
        assert [(q.kind, q.value, q.unit) for q in read_quantities(f"It costs {text} now.")] == [
            ("money", minor, "USD")
        ], text
    for text in (f"￥{major}.{cents:02d}", f"{major}.{cents:02d}元"):
        assert [(q.kind, q.value, q.unit) for q in read_quantities(f"到手价{text}哦")] == [("money", minor, "CNY")], (
            text
        )


@settings(max_examples=300, deadline=None)
@given(st.integers(2, 99_999))
def test_every_whole_amount_in_words_is_read_back(major: int) -> None:
    for conjunction in (" and ", " "):
        text = f"It is {english(major, conjunction)} dollars."
        assert [(q.kind, q.value, q.unit) for q in read_quantities(text)] == [("money", major * 100, "USD")], text
    text = f"现在是{han(major)}块钱"
    assert [(q.kind, q.value, q.unit) for q in read_quantities(text)] == [("money", major * 100, "CNY")], text


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 99), st.integers(10, 99))
def test_spoken_prices_are_read_back(major: int, cents: int) -> None:
    if major == 20 and cents >= 20:
        return  # "twenty twenty-six" is a year
    text = f"{english(major)} {english(cents)}"
    assert [(q.kind, q.value) for q in read_quantities(text)] == [("money", major * 100 + cents)], text


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 999), st.integers(1, 9))
def test_chinese_tenths_are_read_back(major: int, tenth: int) -> None:
    for text in (f"{major}块{tenth}", f"{han(major)}块{_HAN[tenth]}", f"{han(major)}块{_HAN[tenth]}毛"):
        assert [(q.kind, q.value) for q in read_quantities(text)] == [("money", major * 100 + tenth * 10)], text
