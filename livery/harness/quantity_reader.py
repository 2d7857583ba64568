"""One pass over a text: numbers, and what stands around them. The engine of `livery.harness.quantities`."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import cast

from livery.harness import quantity_patterns as p
from livery.harness.numerals import ENGLISH_STARTS, ONES, chinese_value, read_chinese, read_english, tidy
from livery.harness.quantity_amounts import Amounts
from livery.harness.quantity_shapes import (
    Kind,
    Number,
    Quantity,
    as_number,
    currency_of,
    digit,
    iso_date,
    plain,
    scale_value,
)
from livery.harness.units import UNIT_PATTERN, UNITS, Unit


class Reader(Amounts):
    """One pass over one text."""

    def run(self) -> list[Quantity]:
        low, at = self.low, 0
        for stop in p.STOP.finditer(low):
            start = stop.start()
            if start < at:
                continue
            head = stop.group()
            c = head[0]
            if "0" <= c <= "9":
                at = self._digits(start)
            elif "a" <= c <= "z":
                at = self._word(head, start, stop.end())
            elif c in "$€£":
                continue
            elif c in p.NUMERIC_SIGNS:
                at = self._sign(start)
            else:
                at = self._han(start)
        return self.out

    # Each reader below returns the index from which to go on.

    def _word(self, word: str, start: int, end: int) -> int:
        low = self.low
        following = low[end] if end < len(low) else ""
        if following.isdigit():
            if word in p.GLUED:
                return end
            if word == "x" and not (start and low[start - 1].isascii() and low[start - 1].isalnum()):
                return end
            return p.ALNUM_REST.match(low, end).end()  # type: ignore[union-attr]
        if start and low[start - 1].isdigit():
            return end
        if word in ENGLISH_STARTS:
            return self._english(word, start)
        if word in p.MONTHS:
            return self._month(word, start, end)
        if word in p.ORDINAL_WORDS or word in ("twenty", "thirty"):
            m = p.ORDINAL_FIRST.match(low, start)
            return self._ordinal(m, start) if m else end
        if word in ("a", "an"):
            return self._article(start, end)
        if word in ("couple", "few", "several"):
            return self._vague(word, start, end)
        if word in p.DECADES:
            if p.DECADE_BEFORE.search(low[max(0, start - 8) : start]):
                return self._add("money", p.DECADES[word] * 100, "", start, end)
            return end
        if word == "buy":
            m = p.BUY_EN.match(low, start)
            return self._bogo(m, start) if m else end
        if word in p.SIZE_HEADS:
            return self._size_word(word, start, end)
        return end

    def _sign(self, start: int) -> int:
        """½, ⑫: one character that is a number."""
        value = tidy(p.NUMERIC_SIGNS[self.low[start]])
        m = p.FRACTION_OFF.match(self.low, start + 1) if value < 1 else None
        if m:
            return self._add("percent", 100 - 100 * value if m.group("pays") else 100 * value, "off", start, m.end())
        return self._number(start, Number(value, start + 1))

    def _vague(self, word: str, start: int, end: int) -> int:
        """ "a few dollars", "in a couple of days"."""
        m = p.VAGUE.match(self.low, start)
        unit, at = self._unit(m.end()) if m else (None, end)
        if unit is None or not (
            unit.kind == "money" or (unit.kind == "duration" and (unit.unit != "s" or unit.factor >= 86_400))
        ):
            return end
        value = (2 if word == "couple" else 3) * unit.factor
        return self._add(
            cast(Kind, unit.kind), round(value * 100) if unit.kind == "money" else value, unit.unit, start, at
        )

    def _article(self, start: int, end: int) -> int:
        """ "a hundred and five", "a dozen", "a pair of", "within a week"."""
        low = self.low
        if past := p.PAST.match(low, start):
            return self._past(past, start)
        m = p.PART_OFF.match(low, start)
        if m and (behind := self._part_off(m, start)) > 0:
            return behind
        m = p.AN_UNIT.match(low, start)
        if m is None:
            return end
        unit = m.group("unit")
        if unit in ("hundred", "thousand", "million", "dozen"):
            number = read_english(low, m.start("unit")) if unit != "million" else None
            value, at = (number.value, number.end) if number else (1_000_000, m.end())
            return self._number(start, Number(value, at, word=True, scaled=True))
        if unit.startswith("pair"):
            return self._add("count", 1, "pair", start, m.end())
        if unit in ("twenty", "fifty"):  # a banknote
            return self._add("money", 2000 if unit == "twenty" else 5000, "", start, m.end())
        u = UNITS[unit]
        if u.kind == "money":
            return self._add("money", round(u.factor * (150 if m.group("half") else 100)), u.unit, start, m.end())
        if u.kind == "duration" and not p.AN_UNIT_CUE.search(low[max(0, start - 8) : start]):
            return m.end()
        return self._add(cast(Kind, u.kind), u.factor * (1.5 if m.group("half") else 1), u.unit, start, m.end())

    def _english(self, word: str, start: int) -> int:
        low = self.low
        if word == "half":
            m = p.PAST.match(low, start)
            if m:
                return self._past(m, start)
            m = p.HALF_PRICE.match(low, start)
            if m:
                return self._add("percent", 50, "off", start, m.end())
            if p.HALF_SAVED.search(low[max(0, start - 40) : start]):
                return self._add("percent", 50, "off", start, start + 4)
        if word == "one":
            m = p.ONE_SIZE.match(low, start)
            if m:
                return self._add("size", "FREE", "", start, m.end())
        if word in ("one", "two", "three", "four"):
            m = p.PART_OFF.match(low, start)
            if m and (behind := self._part_off(m, start)) > 0:
                return behind
        if word in ("two", "three", "four"):
            m = p.FOR_FEWER.match(low, start)
            if m:
                return self._for_fewer(m, start)
        if word in ("twenty", "thirty"):
            ordinal = p.ORDINAL_FIRST.match(low, start)
            if ordinal:
                return self._ordinal(ordinal, start)
        number = read_english(low, start)
        if number is None:
            return start + len(word)
        if number.second < 0 and (cents := p.OH_CENTS.match(low, number.end)):  # "twenty-three oh eight"
            number = replace(number, end=cents.end(), second=ONES[cents.group("n")])
        if number.end < len(low) and low[number.end].isalnum() and low[number.end].isascii():
            return start + len(word)
        return self._number(
            start,
            Number(
                number.value,
                number.end,
                number.second,
                word=True,
                scaled=number.value >= 13 or number.second >= 0,
            ),
        )

    def _han(self, start: int) -> int:
        low = self.low
        c = low[start]
        if c in "均加特大中小码":
            m = p.CHINESE_SIZE.match(low, start)
            if m is None:
                return start + 1
            return self._add("size", p.CHINESE_SIZES[m.group("s")] if m.group("s") else "FREE", "", start, m.end())
        if c == "对":
            return (
                self._add("percent", 50, "off", start, start + 2) if low[start + 1 : start + 2] == "折" else start + 1
            )
        if c in "买拍":
            m = p.BUY_ZH.match(low, start)
            return self._bogo(m, start) if m else start + 1
        if c == "几":
            m = p.VAGUE_ZH.match(low, start)
            if m is None:
                return start + 1
            kind: Kind = "percent" if m.group("off") else "money"
            return self._add(kind, 70 if m.group("off") else 300, "off" if m.group("off") else "", start, m.end())
        if c in "俩仨":
            if p.COUPLE_ZH.match(low, start) and p.COUPLE_BEFORE.search(low[max(0, start - 4) : start]):
                return self._add("count", 2 if c == "俩" else 3, "piece", start, start + 1)
            return start + 1
        if c in "腰骨":
            m = p.BONE.match(low, start)
            return self._add("percent", 50 if c == "腰" else 90, "off", start, m.end()) if m else start + 1
        if c in "一半":
            m = p.HALF_RIGHT.match(low, start)
            if m:
                return self._add("percent", 50, "off", start, m.end())
            if low.startswith(("一半", "半"), start) and p.HALF_LEFT.search(low[max(0, start - 8) : start]):
                at = start + (2 if c == "一" else 1)
                if c == "一" or not self._unit(at)[0]:
                    return self._add("percent", 50, "off", start, at)
        if c == "双":
            if low.startswith(("双十一", "双十二"), start):
                return self._add("campaign", "1111" if low[start + 2] == "一" else "1212", "", start, start + 3)
            return start + 1
        if c == "第":
            free = p.SECOND_FREE_ZH.match(low, start)
            if free:
                self._add("count", 1, "buy", start, start + 2)
                return self._add("count", 1, "free", start + 2, free.end())
            digits = p.PLAIN_DIGITS.match(low, start + 1)
            number = None if digits else read_chinese(low, start + 1)
            value = int(digits.group()) if digits else number.value if number else None
            end = digits.end() if digits else number.end if number else start + 1
            return end if value is None else self._add("ordinal", value, "", start, end)
        if c == "半":
            m = p.HALF_PRICE.match(low, start)
            if m:
                return self._add("percent", 50, "off", start, m.end())
        if c == "百":
            m = p.BAIFENZHI.match(low, start)
            if m:
                return self._baifenzhi(start, m.end())
            if low.startswith("百分百", start):
                return start + 3
        idiom = p.IDIOMS.match(low, start)
        if idiom:
            after_one = p.ZH_ONE.match(low, start) and idiom.group()[-1] in "个款次"
            if not after_one:
                return idiom.end()
        number = read_chinese(low, start)
        if number is None:
            return start + 1
        raw = low[start : number.end]
        return self._number(
            start,
            Number(number.value, number.end, spread=number.spread, scaled=number.scaled, word=True, raw=raw),
        )

    def _digits(self, start: int) -> int:
        low = self.low
        whole = p.DIGITS.match(low, start)
        assert whole is not None
        raw, end = whole.group(), whole.end()
        if len(raw) > 18:  # an order number or a tease, no amount
            return self._add("phone", raw, "", start, end)
        following = low[end : end + 1]
        # Shapes that are read whole.
        if (len(raw) == 4 and raw[:2] in ("19", "20") and following in ("-", "/", ".", "年", " ")) or len(raw) > 5:
            m = p.ISO.match(low, start)
            if m:
                month, day = m.group("m") or m.group("m2"), m.group("d") or m.group("d2")
                if (month is None or 1 <= int(month) <= 12) and (day is None or 1 <= int(day) <= 31):
                    at = self._add("date", iso_date(m.group("y"), month, day), "", start, m.end())
                    moment = p.ISO_TIME.match(low, at)
                    return self._add("time", moment.group("time"), "", at, moment.end()) if moment else at
        if len(raw) >= 3 or following in ("-", "(") or (start and low[start - 1] in "+("):
            m = p.PHONE.match(low, start)
            if m and "," not in raw:
                return self._add("phone", re.sub(r"\D", "", m.group()), "", start, m.end())
            if raw in ("618", "6.18", "11.11", "12.12", "1111", "1212"):
                m = p.CAMPAIGN.match(low, start)
                if m and not p.SIX_EIGHTEEN_PRICE.search(low[max(0, start - 4) : start]):
                    return self._add("campaign", raw.replace(".", ""), "", start, m.end())
        if following == ":":
            m = p.CLOCK.match(low, start)
            if m:
                return self._clock(start, m.end(), int(m.group("h")), int(m.group("m")), m.group("half"))
        if len(raw) <= 2:
            if following in ("s", "n", "r", "t", " "):
                m = p.DAY_FIRST.match(low, start)
                if m and 1 <= int(raw) <= 31:
                    return self._add(
                        "date", iso_date(m.group("year"), p.MONTHS[m.group("month")], raw), "", start, m.end()
                    )
                suffix = low[end : end + 2]
                if suffix in ("st", "nd", "rd", "th") and not low[end + 2 : end + 3].isalnum():
                    if self._day_of_month(start, end + 2, int(raw)):
                        return self._add("date", f"---{int(raw):02d}", "", start, end + 2)
                    return self._add("ordinal", int(raw), "", start, end + 2)
            if following in ("a", "p", " ", "o"):
                m = p.HOUR.match(low, start)
                if m:
                    return self._clock(start, m.end(), int(m.group("h")), 0, m.group("half"))
            if following == "x" or following == " ":
                m = p.LETTER_SIZE.match(low, start)
                if m and m.group()[-1] == "l" and raw in "23456":
                    return self._letter_size(start, m.end())
            if following == "-" and low.startswith("in-1", end + 1):
                return end + 5
        if following == "/" and (part := p.PART_OFF_DIGITS.match(low, start)):
            share = 100 * int(part.group("over")) / int(part.group("under"))
            return self._add("percent", 100 - share if part.group("pays") else share, "off", start, part.end())
        if following == " " and raw in "234" and (offer := p.FOR_FEWER.match(low, start)):
            return self._for_fewer(offer, start)
        if following in ("/", "-", " ") and (fraction := p.FRACTION.match(low, start)):
            base = int(fraction.group("whole") or 0)
            value = base + int(fraction.group("over")) / int(fraction.group("under"))
            return self._number(start, Number(tidy(value), fraction.end()))
        if following == '"' and low.count('"', 0, end) % 2 == 0:
            return self._add("measure", as_number(raw) * 25.4, "mm", start, end + 1)
        value = as_number(raw)
        if following and following in p.VULGAR and following in p.NUMERIC_SIGNS:  # 1½
            value, end = tidy(value + p.NUMERIC_SIGNS[following]), end + 1
        scaled = False
        scale = p.SCALE.match(low, end)
        if scale and self._scale_holds(scale, raw):
            factor, tail = scale_value(scale)
            value, end, scaled = tidy(value * factor + tail), scale.end(), True
        elif following == "k" and p.K_IS_DISPLAY.match(low, end + 1):
            return end + 1
        return self._number(start, Number(value, end, raw=raw, scaled=scaled))

    def _scale_holds(self, scale: re.Match[str], raw: str) -> bool:
        if scale.group("w"):
            return self.chinese and self.text[scale.end() - 1] == "w" and not p.W_IS_WATT.match(self.low, scale.end())
        if scale.group("k"):
            return not (
                raw in ("2", "4", "8")
                and (p.K_IS_DISPLAY.match(self.low, scale.end()) or self.text[scale.end() - 1] == "K")
            )
        if scale.group("zh"):
            return not self.low.startswith(
                ("千克", "千米", "千瓦", "万能", "百搭", "千卡", "万像素"), scale.start("zh")
            )
        return True

    # A number has been read; what stands around it says what it is.

    def _number(self, start: int, n: Number) -> int:
        low = self.low
        left = low[max(0, start - 22) : start]
        cue = p.LEFT.search(left) if left else None
        kind = cue.lastgroup if cue else ""
        end = n.end
        value = n.value
        if kind == "money":
            return self._money(start - len(cue.group()), start, n, currency_of(cue.group("money")))  # type: ignore[union-attr]
        if kind == "spf":
            plus = end + 1 if low[end : end + 1] == "+" else end
            return self._add("measure", value, "spf", start - len(cue.group()), plus)  # type: ignore[union-attr]
        if kind == "double" and value in (11, 12) and low[end : end + 1] not in ("双",):
            return self._add("campaign", f"{value}{value}", "", start - 1, end)
        nxt = low[end : end + 1]
        if nxt == "折" or low.startswith(" 折", end):
            m = p.DISCOUNT.match(low, end)
            if m:
                tenths = value / 10 if (value > 10 and isinstance(value, int)) else value
                return self._add("percent", 100 - tenths * 10, "off", start, m.end())
        if nxt == "月":
            m = p.MONTH_DAY.match(low, end)
            if m and isinstance(value, int) and 1 <= value <= 12:
                day = m.group("day")
                day_value = None if not day else int(day) if day.isdigit() else read_chinese(day, 0)
                if day_value is not None and not isinstance(day_value, int):
                    day_value = int(day_value.value)
                if day_value is None or 1 <= day_value <= 31:
                    return self._add("date", iso_date(None, value, day_value), "", start, m.end())
        if nxt == "号" or low.startswith(" 号", end):
            if (
                isinstance(value, int)
                and 1 <= value <= 31
                and (p.DAY_AFTER.match(low, end) or p.DAY_BEFORE.search(left))
            ):
                return self._add("date", f"---{value:02d}", "", start, low.index("号", end) + 1)
            m = p.LINK_AFTER.match(low, end)
            if m:
                return self._add("link", value, "", start, m.end())
        if nxt == "点" or low.startswith(" 点", end):
            m = p.CHINESE_CLOCK.match(low, end)
            if m and isinstance(value, int) and value <= 24:
                return self._chinese_clock(m, start, value, left)
        if n.word and nxt == " ":
            m = p.HOUR_WORD.match(low, end)
            if m and isinstance(value, int) and value <= 12:
                return self._clock(start, m.end(), value, 0, m.group("half"))
        if kind == "step":
            return self._add("ordinal", value, "", start, end)
        percent = p.PERCENT.match(low, end)
        if percent:
            return self._percent(value, start, percent.end(), percent.end())
        if nxt == "成":
            m = p.CHENG.match(low, end)
            if m and 1 <= value <= 10:
                part = m.group("part")
                rest = 5 if part == "半" else digit(part) if part else 0
                return self._add("percent", value * 10 + rest, "", start, m.end())
        if nxt == "分" and low.startswith("分之", end):
            over = self._bare(end + 2)
            if over and value:
                return self._share(100 * over.value / value, start, over.end, left)
        if nxt == "字" and low.startswith("字头", end):
            return self._add("money", round(value * 1000), "", start, end + 2)
        if (
            kind == "link"
            and isinstance(value, int)
            and not n.scaled
            and not (n.word and cue and cue.group("link").strip() == "no")
        ):  # "no one"
            return self._add("link", value, "", start, end)
        if kind == "size" and self._measured(start, n):  # "Size: 183 x 66 cm"
            kind = ""
        if kind in ("region", "size") and value < 400:
            return self._size(start, value, end, cue.group(kind).split()[0] if cue and kind == "region" else "")  # type: ignore[union-attr]
        m = p.SIZE_AFTER.match(low, end)
        if m:
            region = m.group().strip()
            return self._add("size", plain(value), region if region in ("eu", "us", "uk") else "", start, m.end())
        if n.second >= 0:
            return self._spoken_price(start, n)
        if nxt == "个" and low.startswith("半", end + 1) and (part := UNIT_PATTERN.match(low, end + 2)):
            longer = UNITS[part.group(1)] if part.group(1) != "月" else UNITS["个月"]
            if longer.kind == "duration":  # 两个半小时
                return self._add("duration", (value + 0.5) * longer.factor, longer.unit, start, part.end())
        if low.startswith("个半月", end):
            return self._add("duration", value + 0.5, "month", start, end + 3)
        unit, at = self._unit(end, half=value == 0.5 and n.word)
        if unit:
            return self._with_unit(start, n, unit, at, left)
        ranged = self._range(start, n)
        if ranged:
            return ranged
        if kind == "times" and cue:
            return self._add("count", value, "", start - len(cue.group()), end)
        cup = None if n.word else p.CUP_SIZE.match(low, start)
        if cup and self.text[cup.end("size") - 1].isupper():
            return self._add("size", cup.group("size").upper(), "", start, cup.end())
        if value > 1 and (off := p.OFF_PLAIN.match(low, end)):  # "ten off"
            return self._add("money", round(value * 100), "", start, off.end())
        if value > 2 and (them := p.OF_THEM.match(low, end)):
            return self._add("count", value, "", start, them.end())
        if value > 2 and p.APPROXIMATELY.match(low, end):
            return self._money(start, start, n, "")
        if nxt == "r" and self.chinese and not low[end + 1 : end + 2].isalnum():
            return self._money(start, start, n, "CNY", end + 1)
        ish = p.ISH.match(low, end)
        if ish:
            return self._money(start, start, n, "", ish.end())  # "it's thirty-ish", "thirty-something"
        if not n.word and end < len(low) and "a" <= low[end] <= "z":
            return p.ALNUM_REST.match(low, end).end()  # type: ignore[union-attr]
        if kind == "price" and not (n.word and value < 10 and self.low[start].isascii()):  # "if only one"
            return self._money(start, start, n, "")
        if "." in n.raw and len(n.raw) - n.raw.index(".") == 3 and not n.scaled and n.raw[0].isdigit() and not n.word:
            return self._money(start, start, n, "")
        if n.word and not n.scaled:
            if len(n.raw) >= 3 and n.raw.isalpha() and not _counting(n.raw):
                return self._add("number", value, "", start, end)  # 一九九
            if self.low[start].isascii() and value not in (0.5, 0, 1):
                return self._add("number", value, "", start, end)
            return end
        return self._add("number", value, "", start, end)

    def _with_unit(self, start: int, n: Number, unit: Unit, at: int, left: str) -> int:
        value = n.value
        raw_unit = self.low[n.end : at].strip(" -多余来+")
        if unit.kind == "money":
            return self._money(start, start, n, unit.unit, at, unit.factor, raw_unit)
        if raw_unit in ("g", "G") and self.text[at - 1] == "G" and value in p.MEMORY_SIZES:
            unit = UNITS["gb"]
        if raw_unit in ("pound", "pounds") and p.PRICE_WORD.search(left):
            return self._money(start, start, n, "GBP", at)
        if raw_unit == "w" and self.chinese and self.text[at - 1] == "w" and not p.W_IS_WATT.match(self.low, at):
            return self._add("number", value * 10_000, "", start, at)
        if n.word and value == 1 and unit.kind == "count" and n.raw:
            # 一 is an article more often than a number.
            if not p.ONLY_CUE.search(left):
                return at
        elif (
            n.word
            and value == 1
            and unit.kind == "duration"
            and n.raw
            and raw_unit in ("天", "年")
            and not (p.ONLY_CUE.search(left) or p.HALF_AFTER.match(self.low, at))
        ):
            return at
        if n.word and value == 1 and unit.unit == "s" and unit.factor <= 60 and p.ASIDE.match(self.low, at):
            return at  # "one second, let me look"
        if unit.unit == "c" and p.BELOW_ZERO.search(left):
            value = -value
        if unit.kind in ("duration", "measure"):
            more = p.HALF_AFTER.match(self.low, at)
            if more and value != 0.5 and self.low[at - 1] in "斤年月时周米天升期拜":
                value, at = value + 0.5, more.end()
        if raw_unit == "米" and (rest := p.METRE_REST.match(self.low, at)):
            digits = rest.group()
            tail = digits if digits.isascii() else str(chinese_value(digits))
            value, at = as_number(f"{value}.{tail}"), rest.end()
        kind = cast(Kind, unit.kind)
        if n.spread:
            first, second = n.spread
            middle = start + 1
            self._add(kind, first * unit.factor, unit.unit, start, middle)
            return self._add(kind, second * unit.factor, unit.unit, middle, at)
        scaled = value * unit.factor
        if unit.unit == "c" and raw_unit in ("°f", "℉", "degrees fahrenheit", "degrees f", "fahrenheit"):
            scaled = round((value - 32) / 1.8, 2)
        return self._add(kind, scaled, unit.unit, start, at)


def _counting(raw: str) -> bool:
    """Whether digits are counted out (三二一) or drawn out (六六六) rather than a number."""
    steps = {digit(b) - digit(a) for a, b in pairwise(raw)}
    return len(steps) == 1 and steps <= {-1, 0, 1}
