"""A number with its unit, its range or its price: what `livery.harness.quantity_reader` builds on.

The middle of the reader. Dates, sizes and other shapes that need no unit: `livery.harness.quantity_shapes`.
"""

from __future__ import annotations

from typing import cast

from livery.harness import quantity_patterns as p
from livery.harness.numerals import read_chinese, read_english, tidy
from livery.harness.quantity_shapes import Kind, Number, Shapes, as_number, digit, plain, scale_value
from livery.harness.units import UNIT_PATTERN, UNITS, Unit


class Amounts(Shapes):
    """Readers of amounts. Each returns the index from which to go on."""

    def _measured(self, start: int, n: Number) -> bool:
        """Whether a length follows, alone or at the end of "10 x 20 x 30 cm"."""
        end = n.end
        for _ in range(4):
            unit, _at = self._unit(end)
            if unit is not None:
                return unit.kind == "measure"
            m = p.SEPARATOR.match(self.low, end)
            following = self._bare(m.end()) if m else None
            if following is None:
                return False
            end = following.end
        return False

    def _share(self, share: float, start: int, end: int, left: str) -> int:
        """三分之一, of a price or off it."""
        if pays := p.PAYS_ZH.match(self.low, end):
            return self._add("percent", 100 - share, "off", start, pays.end())
        off = p.OFF_BEFORE.search(left) or left.endswith("打")
        return self._add("percent", share, "off" if off else "", start, end)

    def _size(self, start: int, value: int | float, end: int, region: str) -> int:
        end = self._add("size", plain(value), region, start, end)
        while True:  # "sizes 36 to 40", "36/37/38"
            m = p.SEPARATOR.match(self.low, end)
            digits = p.DIGITS.match(self.low, m.end()) if m else None
            if not m or not digits or len(digits.group()) > 4 or self._unit(digits.end())[0]:
                return end
            end = self._add("size", plain(as_number(digits.group())), region, digits.start(), digits.end())

    def _unit(self, at: int, half: bool = False) -> tuple[Unit | None, int]:
        m = UNIT_PATTERN.match(self.low, at)
        if m is None and (more := p.MORE.match(self.low, at)):
            m = UNIT_PATTERN.match(self.low, more.end())
        if m is None and (ish := p.ISH.match(self.low, at)):
            m = UNIT_PATTERN.match(self.low, ish.end())
        if m is None and half and (article := p.HALF_ARTICLE.match(self.low, at)):
            m = UNIT_PATTERN.match(self.low, article.end())
        if m is None:
            return None, at
        return UNITS[m.group(1)], m.end()

    def _range(self, start: int, n: Number) -> int:
        """ "3-5 days", "10 x 20 x 30 cm": numbers that share the last one's unit. 0 if it is no range."""
        low = self.low
        spans: list[tuple[int, Number]] = [(start, n)]
        end = n.end
        while len(spans) < 6:
            m = p.SEPARATOR.match(low, end)
            if m is None:
                break
            if len(spans) == 1 and m.group().strip() in ("and", "和", "、", "/", "by") and n.word:
                break
            following = self._bare(m.end())
            if following is None:
                break
            spans.append((m.end(), following))
            end = following.end
        if len(spans) == 1:
            return 0
        percent = p.PERCENT.match(low, end)
        if percent:
            off = bool(p.OFF_AFTER.match(low, percent.end()) or p.OFF_BEFORE.search(low[max(0, start - 24) : start]))
            for i, (s, number) in enumerate(spans):
                last = percent.end() if i == len(spans) - 1 else number.end
                self._add("percent", number.value, "off" if off else "", s, last)
            return percent.end()
        m = p.DISCOUNT.match(low, end)
        if m:
            for i, (s, number) in enumerate(spans):
                tenths = number.value / 10 if number.value > 10 else number.value
                self._add("percent", 100 - tenths * 10, "off", s, m.end() if i == len(spans) - 1 else number.end)
            return m.end()
        m = p.SIZE_AFTER.match(low, end)
        if m:
            for i, (s, number) in enumerate(spans):
                self._add("size", plain(number.value), "", s, m.end() if i == len(spans) - 1 else number.end)
            return m.end()
        link = p.LINK_AFTER.match(low, end)
        if link:
            for i, (s, number) in enumerate(spans):
                self._add("link", number.value, "", s, link.end() if i == len(spans) - 1 else number.end)
            return link.end()
        unit, at = self._unit(end)
        if unit is None:
            return 0
        for i, (s, number) in enumerate(spans):
            last = at if i == len(spans) - 1 else number.end
            if unit.kind == "money":
                self._money(s, s, number, unit.unit, last, unit.factor)
            else:
                self._add(cast(Kind, unit.kind), number.value * unit.factor, unit.unit, s, last)
        return at

    def _bare(self, at: int) -> Number | None:
        low = self.low
        if at >= len(low):
            return None
        m = p.DIGITS.match(low, at)
        if m and len(m.group()) > 18:
            return None
        if m:
            value, end = as_number(m.group()), m.end()
            scale = p.SCALE.match(low, end)
            if scale and scale.group("zh"):
                factor, tail = scale_value(scale)
                return Number(tidy(value * factor + tail), scale.end(), raw=m.group())
            return Number(value, end, raw=m.group())
        if "a" <= low[at] <= "z":
            number = read_english(low, at)
            return Number(number.value, number.end, word=True) if number and number.second < 0 else None
        number = read_chinese(low, at)
        return Number(number.value, number.end, word=True) if number else None

    def _spoken_price(self, start: int, n: Number) -> int:
        """ "thirty-nine ninety-nine": 39.99; "two fifty dollars" likewise."""
        major = n.value + n.second / 100
        unit, at = self._unit(n.end)
        if unit and unit.kind == "money" and unit.factor == 1:
            return self._money(start, start, Number(major, n.end, word=True), unit.unit, at)
        if unit and unit.kind != "money":  # "one twenty pieces": no price at all
            return self._add("number", n.value * 100 + n.second, "", start, n.end)
        return self._money(start, start, Number(major, n.end, word=True), "")

    def _money(
        self,
        start: int,
        number_at: int,
        n: Number,
        currency: str,
        at: int | None = None,
        factor: float = 1,
        said: str = "",
    ) -> int:
        """``said`` is the unit word where there was one: after 块 tenths may follow."""
        low = self.low
        end = n.end if at is None else at
        major = (n.value + n.second / 100 if n.second >= 0 else n.value) * factor
        if at is None and start < number_at:  # "$39 dollars", "¥39元", "$39 million"
            unit, behind = self._unit(end)
            if unit and unit.kind == "money" and unit.factor == 1:
                end = behind
                currency = currency or unit.unit
            elif currency and (cents := p.SPOKEN_CENTS.match(low, end)) and n.raw.isdigit() and n.word:
                major, end = major + int(cents.group(1)) / 100, cents.end()
        if said in ("块", "元"):
            coin = p.COIN_AFTER.match(low, end)
            if said == "块" and (fen := p.FEN_AFTER.match(low, end)):
                major, end = major + digit(fen.group("fen")) / 100, fen.end()
            elif coin and (said == "块" or coin.group().endswith(("角", "毛", "分"))):
                major += digit(coin.group("jiao")) / 10 + (digit(coin.group("fen")) / 100 if coin.group("fen") else 0)
                end = coin.end()
            elif said == "块" and (half := p.HALF_AFTER.match(low, end)):
                major, end = major + 0.5, half.end()
        elif (at is not None and factor == 1) or start < number_at:
            cents = p.CENTS_AFTER.match(low, end)
            if cents:
                raw = cents.group("n")
                words = None if raw.isdigit() else read_english(raw, 0)
                extra = int(raw) if raw.isdigit() else words.value if words else 0
                if extra and extra < 100:
                    major, end = major + extra / 100, cents.end()
        exponent = 0 if currency in p.WHOLE else 2
        minor = major * 10**exponent
        if abs(minor - round(minor)) > 1e-4:
            return self._add("number", major, "", start, end)
        return self._add("money", round(minor), currency, start, end)
