from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livery.shop.money import EXPONENTS, format_money, major, money_value, parse_minor


@pytest.mark.parametrize(
    ("written", "currency", "minor"),
    [
        ("39.99", "USD", 3999),
        (Decimal("39.99"), "USD", 3999),
        (40, "USD", 4000),
        ("$39.99", "USD", 3999),
        ("1,299.50", "USD", 129950),
        ("39.9", "CNY", 3990),
        ("￥129", "CNY", 12900),
        ("129元", "CNY", 12900),
        ("¥1,299", "CNY", 129900),
        ("3999", "JPY", 3999),
        ("12.345", "KWD", 12345),
        ("39.990", "USD", 3999),
        ("39.99 usd", "USD", 3999),
        ("８８", "CNY", 8800),
    ],
)
def test_amounts_are_read_exactly(written: object, currency: str, minor: int) -> None:
    assert parse_minor(written, currency) == minor


@pytest.mark.parametrize(
    ("written", "currency", "says"),
    [
        (39.99, "USD", "expected an amount"),
        (True, "USD", "expected an amount"),
        ("39.999", "USD", "USD has 2 decimals"),
        ("39.5", "JPY", "JPY has 0 decimals"),
        ("€39", "USD", "expected an amount in USD"),
        ("1.299,00", "USD", "expected an amount in USD"),
        ("12,99", "USD", "expected an amount in USD"),
        ("free", "USD", "expected an amount in USD"),
        ("", "USD", "expected an amount in USD"),
        ("1", "XXX", "unknown currency"),
        (Decimal("NaN"), "USD", "expected an amount"),
    ],
)
def test_other_writings_are_refused_with_what_is_expected(written: object, currency: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_minor(written, currency)


@pytest.mark.parametrize(
    ("amount", "currency", "text"),
    [
        (3999, "USD", "$39.99"),
        (4000, "USD", "$40"),
        (12900, "CNY", "¥129"),
        (12990, "CNY", "¥129.90"),
        (129900, "JPY", "¥129,900"),
        (-500, "USD", "-$5"),
        (5, "USD", "$0.05"),
        (12345, "KWD", "KWD 12.345"),
        (0, "EUR", "€0"),
    ],
)
def test_money_is_written_as_a_host_shows_it(amount: int, currency: str, text: str) -> None:
    assert format_money(amount, currency) == text
    assert money_value(amount, currency) == {"amount": amount, "currency": currency, "text": text}


@settings(derandomize=True)
@given(st.integers(-(10**12), 10**12), st.sampled_from(sorted(EXPONENTS)))
def test_what_is_written_is_read_back(amount: int, currency: str) -> None:
    text = format_money(abs(amount), currency)
    assert parse_minor(text, currency) == abs(amount)
    assert parse_minor(major(amount, currency), currency) == amount
