"""Exact money: reading what a person wrote, and writing what a host may say.

Amounts are integers in the currency's minor unit (ISO 4217): 3999 is $39.99, 129 is JPY 129. A binary float
is refused, since 39.99 is not one. Not for exchange rates or accounting.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

_CODES = {
    0: "CLP ISK JPY KRW PYG UGX VND XAF XOF",
    2: (
        "AED AUD BGN BRL CAD CHF CNY CZK DKK EGP EUR GBP HKD HUF IDR ILS INR KZT LKR MAD MOP MXN MYR "
        "NGN NOK NZD PEN PHP PKR PLN QAR RON RUB SAR SEK SGD THB TRY TWD UAH USD ZAR"
    ),
    3: "BHD IQD JOD KWD LYD OMR TND",
}

EXPONENTS: dict[str, int] = {code: decimals for decimals, codes in _CODES.items() for code in codes.split()}
"""ISO 4217 code -> decimals of its minor unit; the currencies a store may use."""

SYMBOLS: dict[str, str] = {
    "AUD": "A$", "BRL": "R$", "CAD": "C$", "CHF": "CHF ", "CNY": "¥", "EUR": "€", "GBP": "£", "HKD": "HK$",
    "IDR": "Rp", "ILS": "₪", "INR": "₹", "JPY": "¥", "KRW": "₩", "KZT": "₸", "MOP": "MOP$", "MXN": "MX$",
    "MYR": "RM", "NGN": "₦", "NZD": "NZ$", "PHP": "₱", "RUB": "₽", "SGD": "S$", "THB": "฿", "TRY": "₺",
    "TWD": "NT$", "UAH": "₴", "USD": "$", "VND": "₫", "ZAR": "R",
}  # fmt: skip
"""What is written before the number; other currencies show their code."""

_WORDS = {"CNY": ("元", "块", "rmb"), "JPY": ("円",), "USD": ("us$",), "TWD": ("元",), "HKD": ("元",)}
_NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")


def parse_minor(written: object, currency: str) -> int:
    """Minor units of an amount written in major units: "39.99", ``Decimal("39.99")``, 40, "¥1,299", "129元".

    Raises:
        ValueError: not an amount, a float, another currency's mark, or more decimals than ``currency`` has.
            The message says what was found and what is expected.
    """
    exponent = EXPONENTS.get(currency)
    if exponent is None:
        raise ValueError(f"unknown currency {currency!r}; expected an ISO 4217 code such as USD or CNY")
    if isinstance(written, bool) or not isinstance(written, str | int | Decimal):
        raise ValueError(f"found {written!r}; expected an amount such as {_example(exponent)}")
    if isinstance(written, str):
        value = Decimal(_bare_number(written, currency, exponent))
    else:
        value = Decimal(written)
    if not value.is_finite():
        raise ValueError(f"found {written!s}; expected an amount such as {_example(exponent)}")
    scaled = value.scaleb(exponent)
    if scaled != scaled.to_integral_value():
        raise ValueError(f"found {written!s}; {currency} has {exponent} decimals, not {_decimals(value)}")
    return int(scaled)


def format_money(amount: int, currency: str) -> str:
    """As a host would show it: "$39.99", "¥129" (whole amounts without decimals), "-$5"."""
    exponent = EXPONENTS.get(currency, 2)
    sign = "-" if amount < 0 else ""
    whole, part = divmod(abs(amount), 10**exponent)
    decimals = f".{part:0{exponent}d}" if part else ""
    return f"{sign}{SYMBOLS.get(currency, currency + ' ')}{whole:,}{decimals}"


def money_value(amount: int, currency: str) -> dict[str, int | str]:
    """Money in an operation's result: ``{"amount": 12900, "currency": "CNY", "text": "¥129"}``."""
    return {"amount": amount, "currency": currency, "text": format_money(amount, currency)}


def major(amount: int, currency: str) -> Decimal:
    """Major units, exactly."""
    return Decimal(amount).scaleb(-EXPONENTS.get(currency, 2))


def _bare_number(text: str, currency: str, exponent: int) -> str:
    folded = unicodedata.normalize("NFKC", text).strip().casefold()
    marks = {SYMBOLS.get(currency, ""), currency, *_WORDS.get(currency, ())}
    for mark in sorted((m.strip().casefold() for m in marks if m.strip()), key=len, reverse=True):
        if folded.startswith(mark):
            folded = folded[len(mark) :].strip()
            break
        if folded.endswith(mark):
            folded = folded[: -len(mark)].strip()
            break
    if not _NUMBER.fullmatch(folded):
        raise ValueError(f"found {text!r}; expected an amount in {currency} such as {_example(exponent)}")
    return folded.replace(",", "")


def _example(exponent: int) -> str:
    return '"39.99"' if exponent else '"3999"'


def _decimals(value: Decimal) -> int:
    exponent = value.normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
