"""Prices of both sample shops against arithmetic done by hand: promotions, coupon stacks, and their last second.

Each row's comment is the sum as a person would write it down, in major units.
"""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from livery.shop.catalogue import Catalogue
from livery.shop.pricing import best_price

# A day without a seasonal sale: the summer sale, 618 and the spring coupons are over.
ORDINARY = "2026-09-15 12:00"


def total(
    catalogue: Catalogue,
    link: str,
    quantity: int,
    at: str = ORDINARY,
    *,
    member: bool = False,
    codes: str = "*",
) -> int:
    """Minor units; ``codes`` are comma-separated, "*" every coupon that anyone may claim, "" none."""
    now = datetime.fromisoformat(at).replace(tzinfo=ZoneInfo(catalogue.timezone))
    coupons = None if codes == "*" else [c for c in codes.split(",") if c]
    product = catalogue.by_link[link]
    return best_price(catalogue, product, now=now, quantity=quantity, member=member, coupons=coupons).total


@pytest.mark.parametrize(
    ("link", "quantity", "expected"),
    [
        ("1", 1, 2040),  # 24 - 15% 3.60; under every coupon's threshold
        ("1", 2, 3580),  # 2 x 20.40 = 40.80; welcome 5 beats 8% (3.26)
        ("1", 4, 6772),  # 81.60 - 8 = 73.60; 8% is 5.888, so 5.88, beats 5
        ("5", 1, 5990),  # flash price, nothing on top
        ("5", 41, 248_500),  # 40 x 59.90 + 89
        ("6", 1, 2392),  # 26 - 8% 2.08
        ("6", 2, 3588),  # 26 + 13 = 39 - 8% 3.12
        ("6", 3, 5980),  # 26 + 26 + 13 = 65 - 8% 5.20
        ("6", 4, 7176),  # 78 stays under 80; - 8% 6.24
        ("7", 1, 4300),  # 48 - 5
        ("8", 1, 8280),  # 98 - 8 = 90 - 8% 7.20
        ("10", 1, 3271),  # 39.90 - 8% 3.19 - kitchen 4
        ("11", 1, 6408),  # 74 - 5.92 - 4
        ("11", 2, 12_600),  # 148 - 8 = 140; 8% is 11.20, capped at 10; - 4
        ("15", 1, 6210),  # 79.99 - 12.50 = 67.49 - 5.39
        ("15", 2, 11_698),  # 134.98 - 8 = 126.98 - 10 (cap)
        ("18", 3, 2100),  # two paid: 23; snack coupon twice
        ("19", 4, 3344),  # three paid: 39.60 - 3 x 1 - 3.16
        ("20", 6, 2303),  # four paid: 27.20 - 2 x 1 - 2.17
        ("21", 1, 9292),  # 109 - 8 = 101 - 8.08
        ("21", 2, 18_800),  # 218 - 20 = 198 - 10 (cap)
        ("23", 1, 13_100),  # 149 - 8 = 141 - 10 (cap)
    ],
)
def test_what_anyone_pays_in_dollars(english: Catalogue, link: str, quantity: int, expected: int) -> None:
    assert total(english, link, quantity) == expected


@pytest.mark.parametrize(
    ("link", "quantity", "member", "codes", "expected"),
    [
        ("11", 1, True, "*", 5728),  # 74 - 7.40 = 66.60 - 5.32 - 4
        ("11", 2, True, "*", 11_018),  # 133.20 - 8 = 125.20; club 12% 15.02 alone beats 10 + 4
        ("21", 1, False, "SORRY15", 8600),  # 101 - 15
        ("21", 1, False, "sorry15,LIVE8", 8600),  # 15 is not stackable, and beats 8.08
        ("21", 1, False, "", 10_100),
        ("1", 2, False, "LIVE8", 3754),  # 40.80 - 3.26
        ("19", 4, False, "SNACK1", 3860),  # named once, used once
        ("19", 4, False, "SNACK1,SNACK1,SNACK1,SNACK1", 3660),  # three times at most
        ("11", 2, False, "FINCHCLUB12", 14_000),  # not a member
        ("7", 1, False, "SPRING26", 4800),  # over
    ],
)
def test_members_and_named_coupons_in_dollars(
    english: Catalogue, link: str, quantity: int, member: bool, codes: str, expected: int
) -> None:
    assert total(english, link, quantity, member=member, codes=codes) == expected


@pytest.mark.parametrize(
    ("link", "quantity", "expected"),
    [
        ("1", 1, 6120),  # 89 打8折 71.20，新客减10
        ("1", 2, 12_532),  # 142.40，88折减 17.08 多于 10
        ("1", 3, 17_477),  # 213.60 - 15 = 198.60，减 23.83
        ("2", 1, 9082),  # 103.20 - 12.38
        ("3", 1, 4792),  # 59.90 - 11.98，不够任何券
        ("4", 1, 2392),  # 29.90 - 5.98
        ("5", 1, 26_900),  # 秒杀价，不叠券
        ("5", 2, 53_800),
        ("6", 1, 6900),  # 79 - 10
        ("6", 2, 13_904),  # 158 - 18.96
        ("6", 3, 19_536),  # 237 - 15 = 222 - 26.64
        ("6", 4, 24_600),  # 316 - 40 = 276，12% 是 33.12，封顶 30
        ("9", 3, 3980),  # 买二送一
        ("9", 9, 10_508),  # 六双 119.40 - 14.32
        ("10", 1, 12_872),  # 169 - 20.28 - 20
        ("11", 1, 13_112),  # 149 - 17.88，厨房券差 1 元
        ("11", 2, 23_300),  # 298 - 15 = 283 - 30 - 20
        ("12", 2, 30_600),  # 396 - 40 = 356 - 30 - 20
        ("15", 1, 19_712),  # 239 - 15 = 224 - 26.88
        ("18", 2, 9947),  # 79.90 + 39.95 = 119.85 - 14.38 - 2 x 3
        ("19", 2, 5870),  # 45.80 + 22.90 = 68.70，新客 10 多于 2 x 3
        ("20", 1, 3690),  # 39.90 - 3
        ("21", 1, 5800),  # 68 - 10 = 58，新客券差 1 元
        ("21", 2, 10_208),  # 116 - 13.92
        ("23", 1, 25_900),  # 329 - 40 = 289 - 30
    ],
)
def test_what_anyone_pays_in_yuan(chinese: Catalogue, link: str, quantity: int, expected: int) -> None:
    assert total(chinese, link, quantity) == expected


@pytest.mark.parametrize(
    ("link", "quantity", "member", "codes", "expected"),
    [
        ("11", 1, True, "*", 12_457),  # 149 - 7.45 = 141.55 - 16.98
        ("11", 2, True, "*", 21_810),  # 283.10 - 15 = 268.10 - 30 - 20，多于会员 25
        ("15", 1, True, "*", 18_661),  # 227.05 - 15 = 212.05 - 25.44，多于会员 25
        ("15", 1, True, "会员25", 18_705),
        ("15", 1, False, "会员25", 22_400),
        ("6", 1, False, "售后补偿15", 6400),
        ("6", 1, False, "", 7900),
        ("6", 2, False, "新客10,直播间88折", 13_904),  # 新客券不能叠加
        ("19", 2, False, "零食3", 6570),
        ("6", 1, False, "开春6", 7900),
    ],
)
def test_members_and_named_coupons_in_yuan(
    chinese: Catalogue, link: str, quantity: int, member: bool, codes: str, expected: int
) -> None:
    assert total(chinese, link, quantity, member=member, codes=codes) == expected


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("2026-08-23 23:59:59.999999", 4300),  # 48 - 5
        ("2026-08-24 00:00:00", 3312),  # 48 - 12 = 36 - 2.88
        ("2026-08-31 23:59:59.999999", 3312),  # a day as its end is the whole day
        ("2026-09-01 00:00:00", 4300),
    ],
)
def test_the_summer_sale_holds_from_its_first_second_to_its_last(english: Catalogue, at: str, expected: int) -> None:
    assert total(english, "7", 1, at) == expected


@pytest.mark.parametrize(
    ("at", "link", "expected"),
    [
        ("2026-06-16 19:59:59.999999", "6", 6900),
        ("2026-06-16 20:00:00", "6", 5715),  # 79 - 11.85 = 67.15 - 10
        ("2026-06-18 23:58:59.999999", "6", 5715),
        ("2026-06-18 23:59:00", "6", 6900),
        ("2026-06-17 12:00", "15", 16_558),  # 239 - 35.85 = 203.15 - 15 = 188.15 - 22.57
        ("2026-06-17 12:00", "1", 6120),  # 护肤8折 beats 85折; only one of them
        ("2026-06-17 12:00", "5", 26_900),  # the flash price stands alone
    ],
)
def test_618_holds_from_its_first_second_to_its_last(chinese: Catalogue, at: str, link: str, expected: int) -> None:
    assert total(chinese, link, 1, at) == expected


def test_a_price_is_of_the_stores_own_hour(chinese: Catalogue) -> None:
    """618 opens at 20:00 in Shanghai, which is noon in UTC."""
    product = chinese.by_link["6"]
    utc = ZoneInfo("UTC")
    before, after = (datetime(2026, 6, 16, h, m, tzinfo=utc) for h, m in ((11, 59), (12, 0)))
    assert best_price(chinese, product, now=before).total == 6900
    assert best_price(chinese, product, now=after).total == 5715


def test_the_flash_price_ends_at_its_second_and_the_rest_takes_over(english: Catalogue) -> None:
    # It ends an hour before the others; then 89 - 8 = 81 - 8% 6.48.
    assert total(english, "5", 1, "2029-12-31 22:59:59.999999") == 5990
    assert total(english, "5", 1, "2029-12-31 23:00:00") == 7452
    # The anniversary is exclusive, and by then no coupon is left: 89 - 20%.
    assert total(english, "5", 1, "2030-02-28 23:59:59") == 8900
    assert total(english, "5", 1, "2030-03-01 00:00:00") == 7120
    assert total(english, "5", 1, "2030-03-08 00:00:00") == 8900
