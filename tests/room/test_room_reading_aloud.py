"""What a host says for what is written: one row a case, English and Chinese."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livery.room.speech.lexicon import read_aloud
from livery.room.speech.numbers import (
    chinese_integer,
    chinese_number,
    english_integer,
    english_number,
    english_ordinal,
    english_year,
)

ENGLISH = {
    # whole sentences of a show
    "The Harbor Rain Jacket is $59.90 tonight, down from $89.00.": "The Harbor Rain Jacket is fifty-nine ninety tonight, down from eighty-nine dollars.",
    "Orders over $80 get $8 off, and over $150 you save $20.": "Orders over eighty dollars get eight dollars off, and over one hundred fifty dollars you save twenty "
    "dollars.",
    "Use code HELLO5 for $5 off orders of $40 or more.": "Use code HELLO five for five dollars off orders of forty dollars or more.",
    "The SPF 50+ sunscreen is 50 ml / 1.7 fl oz.": "The S P F fifty plus sunscreen is fifty milliliters, one point seven fluid ounces.",
    "100% cotton, 230 gsm, wash at 30°C.": "one hundred percent cotton, two hundred thirty grams per square meter, wash at thirty degrees Celsius.",
    "Your 178 cm / 72 kg would be between M and L.": "Your one hundred seventy-eight centimeters, seventy-two kilograms would be between medium and large.",
    "There are only 3 left in L, 0 in XL.": "There are only three left in large, zero in extra large.",
    "M is back, L fits loosely": "medium is back, large fits loosely",
    "We ship by 3 pm ET.": "We ship by three P M E T.",
    "Call (973) 555-0142": "Call nine seven three, five five five, zero one four two",
    "Call +1 (973) 555-0142 now": "Call one, nine seven three, five five five, zero one four two now",
    "Text 555-0142": "Text five five five, zero one four two",
    "The sale runs Aug 24-31, 2026.": "The sale runs August twenty-fourth to thirty-first, twenty twenty-six.",
    "June 1 - 15": "June first to fifteenth",
    "rated 4.8/5 by 1,204 buyers": "rated four point eight out of five by one thousand two hundred four buyers",
    'waists of 26"-28"': "waists of twenty-six to twenty-eight inches",
    'Queen, 90" x 96", soft': "Queen, ninety by ninety-six inches, soft",
    'a 20 x 14 x 9" bag': "a twenty by fourteen by nine inch bag",
    "She's 5'6\" and 130 lbs": "She's five foot six and one hundred thirty pounds",
    "It's ~$20, i.e. €18.50": "It's about twenty dollars, that is eighteen euros fifty",
    "a 45-min timer": "a forty-five-minute timer",
    "a 500-ml bottle": "a five hundred-milliliter bottle",
    "1/2 price on your 2nd tee": "half price on your second tee",
    "Order #10482 ships Mon": "Order number one zero four eight two ships Monday",
    "Mon-Fri, Sat 9 am": "Monday to Friday, Saturday nine A M",
    "The Sun cream sat here": "The Sun cream sat here",
    "≥ 3 pieces, ≤5 a box, ≈2 lbs": "at least three pieces, at most five a box, about two pounds",
    # shop words
    "88VIP members save $10": "eighty-eight V I P members save ten dollars",
    "The 618 sale": "The six eighteen sale",
    "On 6.18 we start": "On six eighteen we start",
    "The 11.11 sale": "The eleven eleven sale",
    "618ml": "six hundred eighteen milliliters",
    "$618": "six hundred eighteen dollars",
    "24/7 support": "twenty-four seven support",
    "Buy 2 get 1 free": "Buy two get one free",
    "2-in-1": "two in one",
    "3 in 1 charger": "three in one charger",
    "SPF50+ PA++++": "S P F fifty plus P A four plus",
    "SPF 30": "S P F thirty",
    "a VIP price": "a V I P price",
    # sizes
    "It comes in S/M/L/XL": "It comes in small, medium, large, extra large",
    "S or M?": "small or medium?",
    "size M is in stock": "size medium is in stock",
    "XXL fits you": "double X L fits you",
    "2XL or 3XL": "two X L or three X L",
    "XS-3XL": "extra small to three X L",
    "I'm 5'10, M&M's fan": "I'm five foot ten, M and M's fan",
    # links and numbers of things
    "Link 3": "Link three",
    "No.3 is great": "number three is great",
    "No. 12": "number twelve",
    "item #3": "item number three",
    # money
    "$19.99": "nineteen ninety-nine",
    "$19": "nineteen dollars",
    "$1": "one dollar",
    "$0.99": "ninety-nine cents",
    "$5.05": "five oh five",
    "$12.5": "twelve fifty",
    "$1,299.00": "one thousand two hundred ninety-nine dollars",
    "$105.50": "one hundred five dollars and fifty cents",
    "$5-$10": "five to ten dollars",
    "$19-29": "nineteen to twenty-nine dollars",
    "$1.5k": "one point five thousand dollars",
    "$20 off $100": "twenty dollars off one hundred dollars",
    "$3/kg": "three dollars per kilogram",
    "US$20, A$30": "twenty dollars, thirty dollars",
    "$9.99/month": "nine ninety-nine a month",
    "$5 million": "five million dollars",
    "12 x $8.25": "twelve times eight twenty-five",
    "€20": "twenty euros",
    "£5.50": "five pounds fifty",
    "¥99": "ninety-nine yuan",
    "¥39.9": "thirty-nine point nine yuan",
    "￥1,299": "one thousand two hundred ninety-nine yuan",
    # percentages
    "20% off": "twenty percent off",
    "100% cotton": "one hundred percent cotton",
    "10-20% off": "ten to twenty percent off",
    "99.9%": "ninety-nine point nine percent",
    # telephone and order numbers
    "400-820-1234": "four zero zero, eight two zero, one two three four",
    "order 20260618001": "order two zero two six zero six one eight zero zero one",
    # quantities
    "a 1.5L bottle": "a one point five liter bottle",
    "It's 1.5L.": "It's one point five liters.",
    "500ml": "five hundred milliliters",
    "500 ml of water": "five hundred milliliters of water",
    "1 kg": "one kilogram",
    "1.5-2L": "one point five to two liters",
    "20x30 cm": "twenty by thirty centimeters",
    "100ml*3": "one hundred milliliters times three",
    "128GB": "one hundred twenty-eight gigabytes",
    "5000mAh": "five thousand milliamp hours",
    "10W charger": "ten watt charger",
    "-5°C": "minus five degrees Celsius",
    "6.7-inch display": "six point seven-inch display",
    "12 pcs": "twelve pieces",
    "10W+ sold": "one hundred thousand plus sold",
    "10K+ sold": "ten thousand plus sold",
    "100+ colors": "one hundred plus colors",
    "1,299 items": "one thousand two hundred ninety-nine items",
    "3-pack": "three-pack",
    "2x faster": "two times faster",
    "1/2": "one half",
    "3 1/2 cups": "three and a half cups",
    "3/4 sleeve": "three quarters sleeve",
    "4/5 stars": "four out of five stars",
    # times and dates
    "24h": "twenty-four hours",
    "3-5 days": "three to five days",
    "30 min delivery": "thirty minute delivery",
    "19:30": "seven thirty P M",
    "20:00": "eight P M",
    "8:00": "eight o'clock",
    "7:30 pm": "seven thirty P M",
    "7 PM": "seven P M",
    "10:05 am": "ten oh five A M",
    "9am-5pm, ends 12/31.": "nine A M to five P M, ends December thirty-first.",
    "19:30-21:00": "seven thirty P M to nine P M",
    "0:00": "midnight",
    "2026-06-18": "June eighteenth, twenty twenty-six",
    "June 18, 2026": "June eighteenth, twenty twenty-six",
    "Jun 18": "June eighteenth",
    "6/18": "June eighteenth",
    "in 2026": "in twenty twenty-six",
    "2023 model": "twenty twenty-three model",
    "1990s": "nineteen nineties",
    "2nd": "second",
    # names
    "iPhone 15 Pro": "iPhone fifteen Pro",
    "S24 Ultra": "S twenty-four Ultra",
    "A4 paper": "A four paper",
    "Type-C": "Type C",
    "USB-C cable": "U S B C cable",
    "5G phone": "five G phone",
    "4K screen": "four K screen",
    "iPhone 15/16": "iPhone fifteen, sixteen",
    'a 13" laptop': "a thirteen inch laptop",
    "order #A1234": "order number A one two three four",
    "1080p": "ten eighty P",
    "RTX 4090": "RTX forty ninety",
    "2.4GHz": "two point four gigahertz",
    "14K gold": "fourteen karat gold",
    "B-12": "B twelve",
    "It is IPX4, so sweat is fine": "It is I P X four, so sweat is fine",
    "Summer 2026": "Summer twenty twenty-six",
    "A full 900 ml takes a minute": "A full nine hundred milliliters takes a minute",
    "7/8 length at 230 g/m²": "seven eighths length at two hundred thirty grams per square meter",
    "v2.0": "v two point zero",
    # what is not read
    "Hello 😀 **bold** world": "Hello bold world",
    'don\'t say "no"': 'don\'t say "no"',
    "she’s “fine”": 'she\'s "fine"',
    # mixed language
    "The 茉莉 tea is $9.90 for 50g": "The 茉莉 tea is nine ninety for fifty grams",
    "Link 3, 2-in-1, only $19.99 (20% off)!": (
        "Link three, two in one, only nineteen ninety-nine (twenty percent off)!"
    ),
}

CHINESE = {
    # whole sentences of a show
    "1号链接防晒乳SPF50+，原价89元，今天8折71.2元。": "一号链接防晒乳S P F五十加，原价八十九元，今天八折七十一块二。",
    "秒杀价¥269，限量50件，今晚22:00结束。": "秒杀价两百六十九块，限量五十件，今晚十点结束。",
    "满199减15，满300减40，可以叠加88折券。": "满一百九十九减十五，满三百减四十，可以叠加八八折券。",
    "坚果30包一箱，第2件半价，两箱99.47元。": "坚果三十包一箱，第二件半价，两箱九十九块四毛七。",
    "6月16日20:00开始，6月18日23:59结束。": "六月十六日晚上八点开始，六月十八日晚上十一点五十九分结束。",
    "身高165cm、体重55kg建议拍M码。": "身高一百六十五厘米、体重五十五公斤建议拍M码。",
    "会员再享95折，到手¥124.57。": "会员再享九五折，到手一百二十四块五毛七。",
    "24h保温≥45℃": "二十四小时保温不低于四十五度",
    "误差≤2mm，重≈3g": "误差不超过两毫米，重约三克",
    "面膜6片/盒，2盒起拍": "面膜六片一盒，两盒起拍",
    "发新疆运费18元，满199元包邮，5-9天到。": "发新疆运费十八元，满一百九十九元包邮，五到九天到。",
    "客服电话021-6888-1234转2": "客服电话零二幺，六八八八，幺二三四转二",
    # 店铺用语
    "88VIP专享价": "八八V I P专享价",
    "618大促": "六一八大促",
    "6.18开抢": "六一八开抢",
    "618元": "六百一十八元",
    "双11": "双十一",
    "SPF50+ PA++++": "S P F五十加 P A四个加",
    "防晒SPF30": "防晒S P F三十",
    "2-in-1": "二合一",
    "3合1": "三合一",
    "买2送1": "买二送一",
    "满300减50": "满三百减五十",
    "满100-20": "满一百减二十",
    "满2件8折": "满两件八折",
    "第2件半价": "第二件半价",
    "7天无理由": "七天无理由",
    # 折扣
    "5折": "五折",
    "8.5折": "八五折",
    "85折": "八五折",
    "0.5折": "零点五折",
    "20% off": "八折",
    "15% off": "八五折",
    "100%棉": "百分之百棉",
    "30%": "百分之三十",
    "10%-20%": "百分之十到百分之二十",
    # 尺码
    "有S/M/L/XL四个码": "有S、M、L、X L四个码",
    "XXL码": "X X L码",
    "2XL": "二X L",
    "M码": "M码",
    "175/92A": "一百七十五，九十二A",
    "S-XL都有": "S到X L都有",
    # 链接
    "3号链接": "三号链接",
    "2号链接": "二号链接",
    "No.1": "第一",
    "No.5": "五号",
    "#3": "三号",
    # 价格
    "￥99": "九十九块",
    "¥2": "两块",
    "¥299": "两百九十九块",
    "¥39.9": "三十九块九",
    "¥19.99": "十九块九毛九",
    "¥0.5": "五毛",
    "0.01元": "一分",
    "9.05元": "九块零五分",
    "39.9元": "三十九块九",
    "99元": "九十九元",
    "￥1,299.5": "一千两百九十九块五",
    "¥99-199": "九十九到一百九十九块",
    "¥30/斤": "三十块一斤",
    "到手价39.9": "到手价三十九块九",
    "原价299现价199": "原价两百九十九现价一百九十九",
    "9.9包邮": "九块九包邮",
    "$19.99": "十九点九九美元",
    "¥3.5万": "三点五万块",
    # 电话和单号
    "400-820-1234": "四零零，八二零，幺二三四",
    "13800138000": "幺三八，零零幺三，八零零零",
    "订单号20260618001": "订单号二零二六零六幺八零零幺",
    # 数量
    "1.5L": "一点五升",
    "2L装": "两升装",
    "500ml": "五百毫升",
    "250g": "两百五十克",
    "2kg": "两公斤",
    "50g/包": "五十克一包",
    "200ml*2瓶": "两百毫升乘两瓶",
    "5包×20g": "五包乘二十克",
    "12GB+512GB": "十二G加五百一十二G",
    "20cm*30cm": "二十乘三十厘米",
    "128GB": "一百二十八G",
    "5000mAh": "五千毫安时",
    "67W快充": "六十七瓦快充",
    "-5℃": "零下五度",
    "10W+": "十万加",
    "已售10W+": "已售十万加",
    "3w人付款": "三万人付款",
    "10万+": "十万加",
    "1000+": "一千加",
    "2个": "两个",
    "12个": "十二个",
    "2-3个": "两到三个",
    "1/2": "二分之一",
    "1:1": "一比一",
    "1米8": "一米八",
    "10.5": "十点五",
    # 时间
    "24h": "二十四小时",
    "3-5天发货": "三到五天发货",
    "19:30": "晚上七点半",
    "今晚20:00": "今晚八点",
    "8:00": "八点",
    "14:05": "下午两点零五分",
    "19:30-21:00": "晚上七点半到晚上九点",
    "24/7": "七乘二十四小时",
    "2026-06-18": "二零二六年六月十八号",
    "2026年6月18日": "二零二六年六月十八日",
    "2月2日": "二月二日",
    "6/18": "六月十八号",
    "6.18-6.20": "六月十八号到六月二十号",
    "2023款": "二零二三款",
    "2年质保": "两年质保",
    "95后": "九五后",
    # 名称
    "iPhone 15 Pro": "iPhone 十五 Pro",
    "Mate60": "Mate六十",
    "RTX4090": "RTX四零九零",
    "A4纸": "A四纸",
    "Type-C接口": "Type C接口",
    "USB-C": "U S B C",
    "5G手机": "五G手机",
    "4K屏": "四K屏",
    "18K金": "十八K金",
    "LED灯": "L E D灯",
    "IP68": "I P六八",
    "IPX4防水": "I P X四防水",
    "“2楼”和链接 3": '"二楼"和链接 三',
    # 不读的
    "「新品」**包邮**😀": "「新品」包邮",
    "（￥９９）": "（九十九块）",
    # 整句
    "3号链接iPhone 15 Pro，到手价¥5,999，24h内发货！": (
        "三号链接iPhone 十五 Pro，到手价五千九百九十九块，二十四小时内发货！"
    ),
    "88VIP再打8.5折，满300减50，2件¥39.9": "八八V I P再打八五折，满三百减五十，两件三十九块九",
}


@pytest.mark.parametrize(("written", "said"), ENGLISH.items())
def test_english_is_read_as_a_host_says_it(written: str, said: str) -> None:
    assert read_aloud(written, "en") == said


@pytest.mark.parametrize(("written", "said"), CHINESE.items())
def test_chinese_is_read_as_a_host_says_it(written: str, said: str) -> None:
    assert read_aloud(written, "zh") == said


def test_the_table_is_large_enough() -> None:
    assert len(ENGLISH) >= 100
    assert len(CHINESE) >= 90


def test_regional_tags_use_the_same_rules_and_other_languages_none() -> None:
    assert read_aloud("$5", "en-GB") == "five dollars"
    assert read_aloud("5折", "zh-Hans-CN") == "五折"
    assert read_aloud("5 € **neu** 😀", "de") == "5 € neu"


@given(st.text(alphabet="0123456789.,-/+%$¥€:#xX *()'\"abcWKLMSGPACv折号元件链接满减个~", max_size=24))
def test_no_digit_is_left_unread_and_nothing_crashes(text: str) -> None:
    for language in ("en", "zh"):
        said = read_aloud(text, language)
        assert not any(c in "0123456789" for c in said), said


@given(st.text(max_size=40))
def test_any_text_can_be_read(text: str) -> None:
    for language in ("en", "zh"):
        read_aloud(text, language)


@given(st.text(alphabet=st.sampled_from("abcdefghij ,.!?'好的这款链接谢谢，。！"), max_size=30))
def test_words_without_numbers_stay_as_they_are(text: str) -> None:
    assert read_aloud(text, "zh").split() == text.split()


@pytest.mark.parametrize(
    ("value", "english", "chinese"),
    [
        (0, "zero", "零"),
        (10, "ten", "十"),
        (21, "twenty-one", "二十一"),
        (105, "one hundred five", "一百零五"),
        (110, "one hundred ten", "一百一十"),
        (1001, "one thousand one", "一千零一"),
        (2010, "two thousand ten", "两千零一十"),
        (10_010, "ten thousand ten", "一万零一十"),
        (100_000, "one hundred thousand", "十万"),
        (20_000, "twenty thousand", "两万"),
        (1_000_001, "one million one", "一百万零一"),
        (-7, "minus seven", "负七"),
        (10**8, "one hundred million", "一亿"),
    ],
)
def test_integers(value: int, english: str, chinese: str) -> None:
    assert english_integer(value) == english
    assert chinese_integer(value) == chinese


def test_other_forms_of_numbers() -> None:
    assert english_number("1,299.50") == "one thousand two hundred ninety-nine point five zero"
    assert chinese_number("0.75") == "零点七五"
    assert [chinese_integer(n, liang=True) for n in (2, 12, 22, 200)] == ["两", "十二", "二十二", "两百"]
    ordinals = {1: "first", 12: "twelfth", 20: "twentieth", 21: "twenty-first", 100: "one hundredth"}
    assert {n: english_ordinal(n) for n in ordinals} == ordinals
    years = {1999: "nineteen ninety-nine", 2005: "two thousand five", 1905: "nineteen oh five"}
    assert {y: english_year(y) for y in years} == years
