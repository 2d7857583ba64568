"""The units that `livery.harness.quantities` knows: words behind a number, their base units, their traps.

Not a general unit system: only what a live shop says, English and Chinese, each mapped to one base unit so
that 1.5L and 1500 ml are the same quantity. Factors are exact where the definition is (inch, pound, gallon).
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unit:
    kind: str
    """money, count, measure or duration."""
    unit: str
    """Base unit; for money the ISO code."""
    factor: int | float = 1


CURRENCY_SIGNS = {
    "$": "USD",
    "us$": "USD",
    "hk$": "HKD",
    "nt$": "TWD",
    "a$": "AUD",
    "au$": "AUD",
    "c$": "CAD",
    "ca$": "CAD",
    "cau$": "CAD",
    "aau$": "AUD",
    "€": "EUR",
    "£": "GBP",
    "¥": "CNY",
    "usd": "USD",
    "cny": "CNY",
    "rmb": "CNY",
    "eur": "EUR",
    "gbp": "GBP",
    "jpy": "JPY",
    "hkd": "HKD",
}

_DAY = 86_400
_TABLE: dict[tuple[str, str, int | float], str] = {
    ("money", "USD", 1): "usd us$ dollar dollars us@dollar us@dollars buck bucks $ 美元 美金 刀",
    ("money", "USD", 0.01): "cent cents ¢ 美分",
    ("money", "CNY", 1): "元 块钱 块 圆 人民币 元钱 rmb cny yuan kuai",
    ("money", "CNY", 0.1): "毛钱 毛 角",
    ("money", "CNY", 0.01): "分钱",
    ("money", "EUR", 1): "eur euro euros € 欧元",
    ("money", "GBP", 1): "gbp £ 英镑 quid pounds@sterling",
    ("money", "HKD", 1): "hkd 港币 港元 hong@kong@dollars",
    ("money", "CAD", 1): "cad canadian@dollar canadian@dollars loonie loonies 加元 加币",
    ("money", "AUD", 1): "aud australian@dollar australian@dollars aussie@dollars 澳元 澳币",
    ("money", "NZD", 1): "nzd new@zealand@dollars 纽币",
    ("money", "SGD", 1): "sgd singapore@dollar singapore@dollars 新币 坡币",
    ("money", "INR", 1): "inr rupee rupees 卢比",
    ("money", "KRW", 1): "krw 韩元 韩币",
    ("money", "MXN", 1): "mxn peso pesos 比索",
    ("money", "MYR", 1): "myr ringgit 马币 令吉",
    ("money", "THB", 1): "thb baht 泰铢",
    ("money", "CHF", 1): "chf franc francs 瑞郎",
    ("money", "", 1): "smackers smackeroos",
    ("money", "", 5): "fiver fivers",
    ("money", "", 10): "tenner tenners",
    ("money", "", 0.01): "penny pennies pence",
    ("money", "", 100): "benjamin benjamins c-note c-notes",
    ("money", "", 1000): "grand",
    ("money", "JPY", 1): "jpy yen 日元 円",
    ("duration", "s", 1): "second seconds sec secs s 秒 秒钟",
    ("duration", "s", 60): "minute minutes min mins 分钟",
    ("duration", "s", 3600): "hour hours hr hrs h 小时 个小时 钟头 个钟头 个钟",
    ("duration", "s", _DAY): "day days 天 日",
    ("duration", "s", 14 * _DAY): "fortnight fortnights",
    ("duration", "s", 7 * _DAY): "week weeks 周 星期 个星期 礼拜 个礼拜",
    (
        "duration",
        "workday",
        1,
    ): "business@day business@days working@day working@days workday workdays 工作日 个工作日",
    ("duration", "month", 1): "month months 个月",
    ("duration", "month", 12): "year years yr yrs 年 周年 岁 周岁",
    ("measure", "mm", 1): "mm millimetre millimetres millimeter millimeters 毫米",
    ("measure", "mm", 10): "cm centimetre centimetres centimeter centimeters 厘米 公分",
    ("measure", "mm", 1000): "m metre metres meter meters 米",
    ("measure", "mm", 1_000_000): "km kilometre kilometres kilometer kilometers 公里 千米",
    ("measure", "mm", 25.4): "inch inches ″ in. 英寸 寸",
    ("measure", "mm", 1000 / 3): "尺",
    ("measure", "mm", 304.8): "ft foot feet 英尺",
    ("measure", "mm", 914.4): "yard yards yd 码长",
    ("measure", "g", 0.001): "mg milligram milligrams 毫克",
    ("measure", "g", 1): "g gram grams gr 克",
    ("measure", "g", 1000): "kg kgs kilo kilos kilogram kilograms 公斤 千克",
    ("measure", "g", 500): "斤 市斤",
    ("measure", "g", 50): "两",
    ("measure", "g", 1_000_000): "ton tons tonne tonnes 吨",
    ("measure", "g", 28.349523125): "oz ounce ounces 盎司",
    ("measure", "g", 453.59237): "lb lbs pound pounds 磅",
    ("measure", "ml", 1): "ml millilitre millilitres milliliter milliliters 毫升 cc",
    ("measure", "ml", 10): "cl",
    ("measure", "ml", 1000): "l litre litres liter liters 升 公升",
    ("measure", "ml", 29.5735295625): "fl@oz fluid@ounce fluid@ounces",
    ("measure", "ml", 3785.411784): "gal gallon gallons 加仑",
    (
        "measure",
        "m2",
        1,
    ): "sqm m2 m² square@metres square@meters square@metre square@meter 平方米 平米 平方 ㎡",
    ("measure", "m2", 0.0001): "cm2 cm² 平方厘米",
    ("measure", "m2", 0.09290304): "sq@ft square@feet square@foot sqft 平方英尺",
    ("measure", "w", 1): "w watt watts 瓦 瓦特",
    ("measure", "w", 1000): "kw kilowatt kilowatts 千瓦",
    ("measure", "wh", 1): "wh",
    ("measure", "wh", 1000): "kwh 千瓦时 度电",
    ("measure", "mah", 1): "mah milliamp@hours 毫安时 毫安",
    ("measure", "mah", 1000): "ah",
    ("measure", "v", 1): "v volt volts 伏 伏特",
    ("measure", "hz", 1): "hz 赫兹 赫",
    ("measure", "hz", 1000): "khz",
    ("measure", "gb", 0.001): "mb",
    ("measure", "gb", 1): "gb gigabyte gigabytes",
    ("measure", "gb", 1000): "tb",
    ("measure", "mp", 1): "mp megapixel megapixels",
    ("measure", "mp", 0.01): "像素",
    ("measure", "kcal", 1): "kcal calories calorie kilocalories 千卡 大卡",
    ("measure", "kj", 1): "kj 千焦",
    (
        "measure",
        "c",
        1,
    ): "°c ℃ 摄氏度 degrees@celsius degrees@c celsius °f ℉ degrees@fahrenheit degrees@f fahrenheit degrees degree ° 度",
    ("measure", "lm", 1): "lumen lumens lm 流明",
    ("measure", "db", 1): "db decibel decibels 分贝",
    ("measure", "bar", 1): "bar bars",
    ("measure", "rpm", 1): "rpm 转",
    ("measure", "denier", 1): "denier 丹尼尔",
    ("measure", "px", 1): "px pixels",
    (
        "count",
        "piece",
        1,
    ): "piece pieces pc pcs item items unit units left remaining available@now in@stock capsules"
    " tablets pills pods buttons pockets pages seats tiers drawers shelves wheels speeds settings modes"
    " attachments"
    " 件 个 只 枚 颗 粒 台 部 支 根 把 张 块装",
    ("count", "piece", 12): "打",
    ("count", "pair", 1): "pair pairs 双 对 副",
    ("count", "box", 1): "box boxes carton cartons 盒 箱",
    ("count", "bottle", 1): "bottle bottles 瓶",
    ("count", "pack", 1): "pack packs packet packets 包",
    ("count", "bag", 1): "bag bags 袋",
    ("count", "set", 1): "set sets 套 件套 组",
    ("count", "strip", 1): "条",
    ("count", "slice", 1): "片 sheet sheets",
    ("count", "roll", 1): "roll rolls 卷",
    ("count", "can", 1): "can cans tin tins 罐 听",
    ("count", "tube", 1): "tube tubes 管",
    ("count", "jar", 1): "jar jars 桶",
    ("count", "portion", 1): "serving servings portion portions 份 人份",
    ("count", "copy", 1): "copy copies 本 册",
    ("count", "style", 1): "style styles model models version versions kind kinds type types 款 种 型号",
    ("count", "colour", 1): "colour colours color colors 色 个颜色 种颜色",
    ("count", "size", 1): "sizes 个尺码 个码",
    ("count", "layer", 1): "layer layers ply 层",
    ("count", "person", 1): "people person viewers customers buyers users 人 个人 位 名",
    ("count", "order", 1): "orders sold 单",
    ("count", "review", 1): "reviews ratings 条评价 条评论",
    ("count", "star", 1): "star stars 星 颗星",
    ("count", "time", 1): "times 次 倍",
    ("count", "voucher", 1): "coupons vouchers 张券",
}
"""(kind, base unit, factor) -> words; ``@`` stands for a space."""

_GUARDS = {
    "元": "(?!素|宝|旦|气|老|年|件|器|首)",
    "块": "(?!肥皂|巧克力|蛋糕|香皂|豆腐|饼干|屏|电池|玻璃|手表|表|毛巾|地垫|肉|头|垫|布|装)",
    "毛": "(?!衣|巾|重|绒|孔|呢|发|线|毯|利|病|豆|笔|领|囊)",
    "角": "(?!落|度|质|色|钱?膜)",
    "刀": "(?!片|具|头|架|刃|叉)",
    "圆": "(?!形|领|头|润|盘)",
    "年": "(?!轻|龄|级|货|会|纪|代|终|度|味|前|后|底|初|来|货)",
    "日": "(?!元|本|用|常|期|系|式|抛|历|志)",
    "周": "(?!边|围|到|末|一|二|三|四|五|六|日|杰)",
    "天": "(?!然|气|猫|使|空|花|津|下|王|生|蓝|鹅|丝)",
    "秒": "(?!杀|表|懂|回|变|发|拍)",
    "米": "(?!饭|粉|糊|白|色|其|兰|酒|粒|线|面|老|奇)",
    "寸": "(?!衫|土|步|照)",
    "尺": "(?!码|寸|度|子)",
    "打": "(?![折开包扮理扫算印底卡赏造破分工车听扰动电字完到对])",
    "grand": r"(?!\s?(?:prix|piano|opening|finale|master|total|child|ma(?![a-z])|pa(?![a-z])|slam|prize))",
    "克": "(?!拉|服|隆|制|里|罗|重|力)",
    "两": "(?![用面个件双天种款色头边者侧盒瓶包条只套袋支年周人百千万层次倍点室三])",
    "升": "(?!级|值|降|高|起|温|华|职)",
    "度": "(?!假|过|数|量|角)",
    "平方": "(?!厘|英)",
    "人": "(?!民|工|气|份|造|体|物|间|参|生|员|次)",
    "个": "(?!月|小时|星期|礼拜|工作|钟|人|颜|尺|码|百分|性|体|别)",
    "件": "(?!套)",
    "只": "(?!有|要|需|是|能|剩|卖|会|想|好|不)",
    "对": "(?!不|了|吧|的|于|吗|应|比|面|方|折)",
    "把": "(?!它|这|那|你|我|握|手)",
    "部": "(?!分|位|门|落|队)",
    "台": "(?!灯|面|词|湾|阶|州)",
    "支": "(?!持|付|撑|出|架|援)",
    "本": "(?!身|来|店|品|产|场|次|人|地|草|月|周|宝|就|期|款)",
    "条": "(?!件|纹|码|款|评|形)",
    "张": "(?!开|口|力|券)",
    "包": "(?!邮|括|装|含|裹|退|你|臀|容|换|税|治|赔|年|治)",
    "套": "(?!装|餐|头|路|件|盒|房)",
    "组": "(?!合|成|织|装|件)",
    "位": "(?!置|于|数|子)",
    "种": "(?!草|类|子|植|颜)",
    "色": "(?!号|差|彩|泽|调|系)",
    "层": "(?!次|层|级|架)",
    "单": "(?!品|独|价|个|次|件|身|色|反|人|肩|层|手|向|片|鞋|款|纯|调|一)",
    "次": "(?!日|元|品|要|序|方)",
    "星": "(?!期|级|座|空|星|光|巴|辰)",
    "粒": "(?!子|径)",
    "份": "(?!子|量|额)",
    "转": "(?!发|账|换|让|移|折|运)",
    "管": "(?!理|家|道|够|用|住|它)",
    "桶": "(?!包|装)",
    "名": "(?!字|称|牌|额|片|单|媛|气)",
    "款": "(?!式|项|到)",
    "颗": "(?!粒)",
    "度电": "",
    "组合": "",
    "盒": "(?!子|马)",
    "根": "(?!本|据)",
    "台灯": "",
    "片": "(?!面|刻|段|子)",
    "袋": "(?!子|装|鼠)",
    "双": "(?!十|层|面|肩|眼|排|人|色|头|开|皮|拼|重|击|卡|方)",
    "副": "(?!作用|牌)",
    "听": "(?!说|到|见|起|歌|我|你)",
    "卷": "(?!发|边|心|尺|帘)",
    "in.": r"(?=\s|$|,)",
    "m": "(?!²|2)",
    "cm": "(?!²|2)",
    "°": "(?!c|f)",
    "can": r"(?!\s[a-z])",
    "s": r"(?![a-z'])(?!\s?(?:style|vibe|look|fashion|music|kid|retro))",
    "h": r"(?![a-z'])",
    "left": "(?!-|\\s(?:side|hand|sleeve|foot|ear|shoe|leg|arm|pocket|corner|one))",
    "g": r"(?!\s?(?:网络|手机|network|phone|signal|ready|speed|wi-?fi|版本))",
    "type": r"(?!\s?[a-c](?![a-z]))",
    "times": "",
    "set": r"(?!\s(?:up|of rules))",
    "sets": "",
    "pack": r"(?!\s(?:up|it))",
    "items": "",
    "second": r"(?!\s(?:one|item|piece|pair))",
    "roll": "(?!\\s(?:up|on))",
    "tube": "",
    "v": "(?!ip)",
    "bar": "",
    "bars": r"(?!\s?of soap)",
    "model": "",
    "kind": r"(?!\sof)",
    "star": "",
    "box": "",
    "单身": "",
}
"""What must not (or must) follow a unit word for it to be one."""

UNITS: dict[str, Unit] = {
    word.replace("@", " "): Unit(kind, unit, int(factor) if float(factor).is_integer() else factor)
    for (kind, unit, factor), words in _TABLE.items()
    for word in words.split()
}


def _pattern() -> re.Pattern[str]:
    words = sorted(UNITS, key=len, reverse=True)
    ascii_words = [w for w in words if w[0].isascii() and w[0].isalpha()]
    others = [w for w in words if w not in ascii_words]

    def one(word: str) -> str:
        guard = _GUARDS.get(word, "")
        closing = r"(?![a-z0-9])" if word[-1].isascii() and word[-1].isalpha() else ""
        return re.escape(word) + closing + guard

    return re.compile(r"(?:\s(?=\S)|-(?=[a-z])|)(" + "|".join([*map(one, ascii_words), *map(one, others)]) + ")")


UNIT_PATTERN = _pattern()
"""Matched right behind a number; group 1 is a key of `UNITS`."""
