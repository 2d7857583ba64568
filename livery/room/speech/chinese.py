"""Mandarin reading rules: written shop Chinese to what a host says. `lexicon.py` applies them.

Numbers before a measure word are left for wetext, which knows 二 from 两; everything it would read as a
book does and a host would not (money in 块 and 毛, 8.5折, clock times, telephone numbers) is read here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from livery.room.speech.numbers import chinese_digits, chinese_integer, chinese_number

Match = re.Match[str]
Rule = tuple[re.Pattern[str], Callable[[Match], str]]

_N = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_TO = r"\s?(?:-|–|—|~|～|至|到)\s?"
_FOREIGN = {"$": "美元", "US$": "美元", "€": "欧元", "£": "英镑"}
_CODES = {"USD": "美元", "EUR": "欧元", "GBP": "英镑", "RMB": "元", "CNY": "元"}
_SIZE = r"(?:\dX[SL]|X{0,3}[SL]|M)"
_COUNTED = (
    "元块件个人份单克斤米毫瓶盒袋包支片双条套只箱天周小次位款种张本杯颗粒桶罐卷排台部辆间家店倍步寸升公厘英盎磅岁"
)
"""First characters of measure words before which 2 is 两. Months, days and floors are not among them."""
_PRICED = "到手价|到手|券后价|券后|只要|现价|原价|售价|价格|仅需|只需|秒杀价|直播价|活动价|专享价|卖"
_DAY_PARTS = "早上|上午|中午|下午|晚上|今晚|明晚|凌晨|半夜|傍晚|夜里|今早|明早"


def chinese_rules(units: Mapping[str, Sequence[str]]) -> list[Rule]:
    """The rules in the order they are applied. ``units`` maps a unit to (English, English, Chinese)."""
    unit = "|".join(sorted(map(re.escape, units), key=len, reverse=True))

    def with_unit(match: Match) -> str:
        return f"{_measured(match[1])}{units[match[2]][2]}"

    def range_with_unit(match: Match) -> str:
        return f"{_measured(match[1])}到{_measured(match[2])}{units[match[3]][2]}"

    def dimensions(match: Match) -> str:
        sides = "乘".join(chinese_number(side) for side in re.split(r"\s?(?:cm|mm|m)?\s?[x×*X]\s?", match[1]))
        return sides + (units[match[2]][2] if match[2] else "")

    def by_the_unit(match: Match) -> str:
        return f"每{units[match[1]][2]}"

    return [
        _rule(r"≥ ?", lambda _: "不低于"),
        _rule(r"≤ ?", lambda _: "不超过"),
        _rule(r"≈ ?", lambda _: "约"),
        _rule(r"(?<![\d-])(\d{3,4})-(\d{3,4})-(\d{3,4})(?![\d-])", _phone),
        _rule(r"(?<![\d-])(0\d{2,3})-(\d{7,8})(?![\d-])", _phone),
        _rule(r"(?<!\d)(1[3-9]\d)(\d{4})(\d{4})(?!\d)", _phone),
        _rule(r"(?<!\d)(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})(日|号)?(?![\d.])", _date),
        _rule(r"(?<![\d.])(\d{1,2})\.(\d{1,2})\s?[-~～至到]\s?(\d{1,2})\.(\d{1,2})(?![\d.元块米克])", _day_range),
        _rule(r"(?<=:\d\d)\s?[-–—~～至]\s?(?=\d{1,2}:\d\d)", lambda _: "到"),
        _rule(
            r"(?<![\d.])(\d{1,2})月(\d{1,2})(日|号)?(?!\d)",
            lambda m: f"{chinese_number(m[1])}月{chinese_number(m[2])}{m[3] or ''}",
        ),
        _rule(r"(?<![\d.:：月])2([点年])(?!\d)", lambda m: f"两{m[1]}"),
        _rule(r"第(\d+)", lambda m: f"第{chinese_number(m[1])}"),
        _rule(r"(?<!\d)(20\d\d)(?=[新]?款|版|[春夏秋冬]|届)", lambda m: chinese_digits(m[1])),
        _rule(r"(?<!\d)([5-9][05]|[01][05])后", lambda m: f"{chinese_digits(m[1])}后"),
        _rule(rf"({_DAY_PARTS})?\s?(?<![\d:])([01]?\d|2[0-4])[:：]([0-5]\d)(?:[:：][0-5]\d)?(?![\d:])", _time),
        _rule(rf"¥\s?({_N}){_TO}¥?\s?({_N})(?!\d)", lambda m: f"{_measured(m[1])}到{_yuan(m[2])}"),
        _rule(rf"¥\s?({_N})\s?([万wW])(?![a-zA-Z])", lambda m: f"{_measured(m[1])}万块"),
        _rule(rf"¥\s?({_N})\s?(?:元|块钱?)?", lambda m: _yuan(m[1])),
        _rule(
            rf"({_PRICED})(是|为|：|:)?\s?(\d+\.\d{{1,2}})(?![\d折%万倍米克斤升元块])",
            lambda m: f"{m[1]}{m[2] or ''}{_yuan(m[3])}",
        ),
        _rule(r"(?<![\d.,])(\d+\.\d{1,2})\s?(?:元|块钱?)", lambda m: _yuan(m[1])),
        _rule(
            r"(?<![\d.,])(\d+\.9|\d+\.99)(?=包邮|秒杀|到手|起|抢|一[件个瓶盒袋份]|上车)",
            lambda m: _yuan(m[1]),
        ),
        _rule(rf"(US\$|[$€£])\s?({_N})", lambda m: chinese_number(m[2], liang=True) + _FOREIGN[m[1]]),
        _rule(rf"({_N})\s?(USD|EUR|GBP|RMB|CNY)\b", lambda m: chinese_number(m[1], liang=True) + _CODES[m[2]]),
        _rule(r"(?<![\d.])(\d{1,2})\s?%\s?(?:off|OFF|Off)\b", _percent_off),
        _rule(
            rf"({_N})%?{_TO}({_N})\s?%",
            lambda m: f"百分之{chinese_number(m[1])}到百分之{chinese_number(m[2])}",
        ),
        _rule(r"(?<![\d.])100\s?%", lambda _: "百分之百"),
        _rule(rf"({_N})\s?%", lambda m: f"百分之{chinese_number(m[1])}"),
        _rule(r"(?<![\d.])(\d+(?:\.\d+)?)\s?折", _discount),
        _rule(r"(SPF|UPF) ?(\d+)(\+)?", _sun_factor),
        _rule(r"PA ?(\++)", lambda m: f"P A{_times(len(m[1]))}个加"),
        _rule(
            r"(?<!\d)(\d)\s?(?:-in-|in|合)\s?(\d)(?!\d)",
            lambda m: f"{chinese_number(m[1])}合{chinese_number(m[2])}",
        ),
        _rule(
            rf"(?<![A-Za-z\d])({_SIZE})\s?[-~～至到]\s?({_SIZE})(?![A-Za-z])",
            lambda m: f"{_size(m[1])}到{_size(m[2])}",
        ),
        _rule(rf"(?<![A-Za-z\d])({_SIZE}(?:\s?[/、,]\s?{_SIZE})+)(?![A-Za-z])", _size_list),
        _rule(r"(?<![A-Za-z\d])(\d)X([LS])(?![A-Za-z])", lambda m: f"{chinese_number(m[1])}X {m[2]}"),
        _rule(r"(?<![A-Za-z])(X{1,3})([LS])(?![A-Za-z])", lambda m: f"{' '.join(m[1])} {m[2]}"),
        _rule(r"(?:[Nn][Oo]\. ?|№ ?)([123])(?!\d)", lambda m: f"第{chinese_number(m[1])}"),
        _rule(r"(?:[Nn][Oo]\. ?|№ ?)(\d+)", lambda m: f"{chinese_number(m[1])}号"),
        _rule(r"(?<!\d)(\d{3})/(\d{2,3})([A-Y])(?![A-Za-z])", _body_size),
        _rule(r"(?<=满)(\d+)\s?[-–]\s?(\d+)", lambda m: f"{_measured(m[1])}减{_measured(m[2])}"),
        _rule(r"(?<=IP)(\d\d)(?!\d)", lambda m: chinese_digits(m[1])),
        _rule(r"(?<=[A-Za-z\u4e00-\u9fff])\+(?=\d)", lambda _: "加"),
        _rule(r"#(\d+)", lambda m: f"{chinese_number(m[1])}号"),
        _rule(r"(?<![\d/.])(\d{1,2})/(\d{1,2})(?![\d/]|\.\d)", _fraction_or_date),
        _rule(
            rf"((?:{_N})\s?(?:cm|mm|m)?(?:\s?[x×*X]\s?(?:{_N})(?:(?:cm|mm|m)(?=\s?[x×*X]))?)+)\s?({unit})?(?![A-Za-z])",
            dimensions,
        ),
        _rule(r"(?:(?<=[\u4e00-\u9fff])\s?[x×*]|(?<=[A-Za-z])\s?[×*])\s?(?=\d)", lambda _: "乘"),
        _rule(r"(?<=[已月销售卖出超过粉丝付款]) ?(\d+(?:\.\d+)?)[wW](\+)?", _ten_thousands),
        _rule(r"(?<![A-Za-z\d.])(\d+(?:\.\d+)?)[wW](?:(\+)|(?=[件单人粉个份]))", _ten_thousands),
        _rule(r"(?<![A-Za-z\d.])(\d{2,}|\d+\.\d+)[kK](?!金|[A-Za-z])", _thousands),
        _rule(r"(?<![\d\w])-(\d+(?:\.\d+)?)\s?(?:℃|°C|度)", lambda m: f"零下{chinese_number(m[1])}度"),
        _rule(rf"({_N}){_TO}({_N})\s?({unit})(?![A-Za-z²])", range_with_unit),
        _rule(rf"(?<![A-Za-z\d.])(-?(?:{_N}))\s?({unit})(?![A-Za-z²\d])", with_unit),
        _rule(rf"(?<=[\u4e00-\u9fff])/({unit})(?![A-Za-z])", by_the_unit),
        _rule(rf"(?<![A-Za-z\d.-])({_N}){_TO}({_N})(?![\d-])", lambda m: f"{_measured(m[1])}到{m[2]}"),
        _rule(
            r"(?<=[克升斤块元米寸分毛角一-十片支包件个颗粒张条双袋瓶罐枚])/([包瓶盒袋件个支片斤次天人份套双箱])",
            lambda m: f"一{m[1]}",
        ),
        _rule(rf"(?<![A-Za-z\d.,第])(\d+)(?=[{_COUNTED}])", lambda m: _measured(m[1])),
        _rule(r"(?<=[A-Za-z])(\d{3,})(?!\d)", lambda m: _model(m[1])),
        _rule(r"(?<![A-Za-z\d.])(\d{7,})(?![\d.])", lambda m: chinese_digits(m[1], phone=True)),
        _rule(r"(?<![A-Za-z\d.,])(\d{1,3}(?:,\d{3})+|\d{3,6})(?![\d.年:+]|[万亿]\+)", lambda m: _measured(m[1])),
        _rule(r"(?<![\d.A-Za-z])(\d+\.\d+)(?![\d.+]|[万亿]\+)", lambda m: chinese_number(m[1])),
        _rule(r"(?<=[A-Za-z])-(\d+)(?!\d)", lambda m: f" {chinese_number(m[1])}"),
        _rule(r"(?:(?<=[\u4e00-\u9fff])|^)[xX×] ?(\d+)(?!\d)", lambda m: f"乘{chinese_number(m[1])}"),
        _rule(r"(\d[\d,]*(?:\.\d+)?)([万亿]?)\+(?=\d)", lambda m: f"{chinese_number(m[1])}{m[2]}加"),
        _rule(
            r"(\d[\d,]*(?:\.\d+)?)([万亿]?)\+",
            lambda m: f"{_measured(m[1]) if m[2] else chinese_number(m[1])}{m[2]}加",
        ),
        _rule(r"\b([A-Z]{2,})-([A-Z])\b", lambda m: f"{m[1]} {m[2]}"),
    ]


def _rule(pattern: str, say: Callable[[Match], str]) -> Rule:
    return re.compile(pattern), say


def _measured(number: str) -> str:
    return chinese_number(number, liang=True)


def _times(count: int) -> str:
    return chinese_integer(count, liang=True)


def _phone(match: Match) -> str:
    return "，".join(chinese_digits(group, phone=True) for group in match.groups() if group)


def _date(match: Match) -> str:
    month, day = int(match[2]), int(match[3])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return chinese_digits(match[0])
    ending = match[4] or "号"
    return f"{chinese_digits(match[1])}年{chinese_integer(month)}月{chinese_integer(day)}{ending}"


def _day_range(match: Match) -> str:
    """6.18-6.20 is two days, 1.5-2.5 two numbers."""
    months, days = (int(match[1]), int(match[3])), (int(match[2]), int(match[4]))
    if not (all(1 <= m <= 12 for m in months) and all(10 <= d <= 31 for d in days)):
        return f"{_measured(f'{match[1]}.{match[2]}')}到{match[3]}.{match[4]}"
    first, last = (f"{chinese_integer(m)}月{chinese_integer(d)}号" for m, d in zip(months, days, strict=True))
    return f"{first}到{last}"


def _time(match: Match) -> str:
    part, hour, minute = match[1] or "", int(match[2]), int(match[3])
    if not part:
        part = "" if hour <= 11 or hour == 24 else "中午" if hour == 12 else "下午" if hour < 18 else "晚上"
    if part and 12 < hour < 24:
        hour -= 12
    words = "零点" if hour in (0, 24) else f"{chinese_integer(hour, liang=True)}点"
    if minute == 30:
        words += "半"
    elif minute:
        words += f"{'零' if minute < 10 else ''}{chinese_integer(minute)}分"
    return part + words


def _yuan(figure: str) -> str:
    """39.9 is 三十九块九, 19.99 十九块九毛九, 0.5 五毛."""
    whole_text, _, decimals = figure.replace(",", "").partition(".")
    whole = int(whole_text)
    jiao, fen = (int(d) for d in (decimals + "00")[:2])
    if len(decimals) > 2:
        return f"{_measured(figure)}元"
    if not (jiao or fen):
        return f"{chinese_integer(whole, liang=True)}块"
    small = ""
    if whole:
        small = f"{chinese_integer(whole, liang=True)}块"
        if jiao and not fen:
            return small + chinese_integer(jiao)
    if jiao:
        small += f"{chinese_integer(jiao, liang=not whole)}毛"
    elif whole:
        small += "零"
    if fen:
        small += chinese_integer(fen) + ("" if jiao else "分")
    return small


def _percent_off(match: Match) -> str:
    left = 100 - int(match[1])
    return _tenths(str(left // 10) if left % 10 == 0 else f"{left // 10}.{left % 10}")


def _discount(match: Match) -> str:
    return _tenths(match[1])


def _tenths(figure: str) -> str:
    """8.5折 and 85折 are both 八五折; 0.5折 stays 零点五折."""
    whole, _, decimals = figure.partition(".")
    if whole == "0":
        return f"{chinese_number(figure)}折"
    if int(whole) == 10 and not decimals:
        return "十折"
    if len(whole) == 2 and whole.endswith("0") and not decimals:
        return f"{chinese_digits(whole[0])}折"
    return f"{chinese_digits(whole + decimals)}折"


def _sun_factor(match: Match) -> str:
    return f"{' '.join(match[1])}{chinese_number(match[2])}{'加' if match[3] else ''}"


def _size_list(match: Match) -> str:
    return "、".join(_size(size) for size in re.split(r"\s?[/、,]\s?", match[1]))


def _size(size: str) -> str:
    return f"{chinese_number(size[0])}{' '.join(size[1:])}" if size[0].isdigit() else " ".join(size)


def _body_size(match: Match) -> str:
    """175/92A, the national standard's height, girth and build."""
    return f"{chinese_number(match[1])}，{chinese_number(match[2])}{match[3]}"


def _fraction_or_date(match: Match) -> str:
    top, bottom = int(match[1]), int(match[2])
    if top < bottom <= 10:
        return f"{chinese_integer(bottom)}分之{chinese_integer(top)}"
    if 1 <= top <= 12 and 1 <= bottom <= 31:
        return f"{chinese_integer(top)}月{chinese_integer(bottom)}号"
    return f"{chinese_integer(top)}、{chinese_integer(bottom)}"


def _ten_thousands(match: Match) -> str:
    return f"{_measured(match[1])}万{'加' if match[2] else ''}"


def _thousands(match: Match) -> str:
    value = float(match[1]) * 1000
    return chinese_integer(int(value)) if value.is_integer() else match[0]


def _model(digits: str) -> str:
    if digits.endswith("00") and not digits.startswith("0"):
        return chinese_integer(int(digits))
    return chinese_digits(digits)
