"""The patterns and word lists by which `livery.harness.quantity_reader` finds quantities in folded text.

Folded text is lower-case ASCII with full-width forms made narrow, one character for one. Kept apart from the
reading so that each can be read alone; nothing here runs.
"""

from __future__ import annotations

import re
import unicodedata

from livery.harness.numerals import CHINESE_CHARS

OTHER_ZEROS = (0x660, 0x6F0, 0x966, 0x9E6, 0xE50, 0xFF10, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6)
"""Noughts of other scripts and type faces, each followed by its nine digits."""
FOLD = (
    {zero + d: str(d) for zero in OTHER_ZEROS for d in range(10)}
    | {ord("①") + d: str(d + 1) for d in range(9)}
    | dict(zip(map(ord, "壹贰叁肆伍陆柒捌玖拾佰仟"), "一二三四五六七八九十百千", strict=True))
    | {
        ord(a): b
        for a, b in {
            "％": "%",
            "￥": "¥",
            "＄": "$",
            "￡": "£",
            "．": ".",
            "：": ":",
            "－": "-",
            "～": "~",
            "＋": "+",
            "／": "/",
            "＃": "#",
            "×": "x",
            "✕": "x",
            "–": "-",
            "—": "-",
            "’": "'",
            "　": " ",
            "\u00a0": " ",
            "\u202f": " ",
            "﹪": "%",
        }.items()
    }
)
"""One character for one, so that spans stay true."""
ASCII_LOWER = {c: c + 32 for c in range(65, 91)}
TABLE = {**FOLD, **ASCII_LOWER}

VULGAR = "".join(map(chr, (0xBC, 0xBD, 0xBE, *range(0x2150, 0x215F))))
NUMERIC_SIGNS = {
    c: unicodedata.numeric(c)
    for c in [*VULGAR, *map(chr, (*range(0x2469, 0x2474), *range(0x2776, 0x2794), *range(0x3251, 0x3260)))]
}
"""One character that is a number: ½, ⑫, ㉟."""
STOP = re.compile(rf"[a-z]+|\d|[{CHINESE_CHARS}均码买拍第加大中小特双对几俩仨腰骨]|[$€£]|[{''.join(NUMERIC_SIGNS)}]")
DIGITS = re.compile(r"\d{1,3}(?:,\d{3})+(?![\d])(?:\.\d+)?|\d+(?:\.\d+)?")
SCALE = re.compile(
    r"\s?(?:(?P<zh>[百千万亿]{1,3})(?:(?P<tail>\d)(?P<tailunit>[百千])?(?![\d.]))?"
    r"|(?P<k>k)(?![a-z0-9])|(?P<w>w)(?![a-z0-9])|(?P<en>hundred|thousand|million|billion|dozen)(?![a-z]))"
)
W_IS_WATT = re.compile(r"\s?(?:超?[快闪]?充|功率|的?电|大?功|充电|电机|power|fast|charg|usb|pd|灯|led)")
K_IS_DISPLAY = re.compile(r"\s?(?:超?高清|分辨|屏|画质|视频|电视|tv|uhd|hdr|video|display|screen|resolution|monitor)")
ALNUM_REST = re.compile(r"[a-z0-9]*(?:-[a-z0-9]+)*")
SEPARATOR = re.compile(
    r"\s?(?:-|~|到|至|或者?|x|\*|/|、|to|or|by|and|和)\s?(?=[\d零〇一二两三四五六七八九十百千万半a-z$€£¥])"
)
TIGHT_SEPARATOR = re.compile(r"\s?[-~到至x*/]\s?$|\s(?:to|or|by|x)\s$|或者?$")
MONTHS = {
    name: n
    for n, names in enumerate(
        (
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sept sep",
            "october oct",
            "november nov",
            "december dec",
        ),
        1,
    )
    for name in names.split()
}
MONTH = "(?:" + "|".join(sorted(MONTHS, key=len, reverse=True)) + ")"
ORDINAL_WORDS = {
    w: n
    for n, w in enumerate(
        [
            "first",
            "second",
            "third",
            "fourth",
            "fifth",
            "sixth",
            "seventh",
            "eighth",
            "ninth",
            "tenth",
            "eleventh",
            "twelfth",
            "thirteenth",
            "fourteenth",
            "fifteenth",
            "sixteenth",
            "seventeenth",
            "eighteenth",
            "nineteenth",
            "twentieth",
        ],
        1,
    )
}
ORDINAL_WORDS.update({f"twenty-{w}": 20 + n for w, n in list(ORDINAL_WORDS.items())[:9]})
ORDINAL_WORDS.update({"thirtieth": 30, "thirty-first": 31})
ORDINAL = "(?:" + "|".join(sorted(ORDINAL_WORDS, key=len, reverse=True)) + ")"
MONTH_FIRST = re.compile(
    rf"{MONTH}\.?\s(?:(?:the\s)?(?P<word>{ORDINAL})(?![a-z])|(?P<day>\d{{1,2}})(?:st|nd|rd"
    rf"|th)?(?![\d:%.]\d|\d|\s?%))"
    r"(?:,?\s(?P<year>(?:19|20)\d\d)(?!\d))?"
)
MONTH_YEAR = re.compile(rf"{MONTH}\.?,?\s(?P<year>(?:19|20)\d\d)(?!\d)")
DAY_FIRST = re.compile(
    rf"(?P<day>\d{{1,2}})(?:st|nd|rd"
    rf"|th)?\s(?:of\s)?(?P<month>{MONTH})(?![a-z])\.?(?:,?\s(?P<year>(?:19|20)\d\d)(?!\d))?"
)
ORDINAL_FIRST = re.compile(
    rf"(?P<word>{ORDINAL})(?:\s(?:of\s)?(?P<month>{MONTH})(?![a-z]))?(?:,?\s(?P<year>(?:19|20)\d\d)(?!\d))?"
)
ISO = re.compile(
    r"(?P<y>(?:19|20)\d\d)(?:(?P<s>[-/.])(?P<m>\d{1,2})(?P=s)(?P<d>\d{1,2})(?![\d])"
    r"|\s?年\s?(?:(?P<m2>\d{1,2})\s?月份?(?:\s?(?P<d2>\d{1,2})\s?[日号])?)?)"
)
ISO_TIME = re.compile(r"t(?P<time>\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(?:z|[+-]\d\d:?\d\d)?")
CLOCK = re.compile(r"(?P<h>[01]?\d|2[0-4]):(?P<m>[0-5]\d)(?::[0-5]\d)?(?:\s?(?P<half>[ap])\.?m\b\.?)?(?!\d)")
HOUR = re.compile(r"(?P<h>\d{1,2})\s?(?:(?P<half>[ap])\.?m\b\.?|o'clock)")
PAST = re.compile(
    r"(?:(?:a )?(?P<part>quarter|half)) (?P<side>past|to(?= ))"
    r" (?P<h>1[0-2]|[1-9]|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)(?![a-z\d])"
)
ASIDE = re.compile(r"\s?(?:[,.!]|please|$)")
HOUR_WORD = re.compile(r"\s(?:(?P<half>[ap])\.?m\b|o'clock)")
CHINESE_CLOCK = re.compile(
    r"\s?点(?:钟|整|(?P<half>半)|(?P<quarter>一刻)|(?P<m>\d{1,2}"
    r"|[零一二三四五]?十?[一二三四五六七八九]?)分?)?(?![\d一二三四五六七八九十]|关注|赞|评|心)"
)
DAYPART = re.compile(r"(?:(?P<late>下午|晚上?|今晚|明晚|傍晚)|早上?|上午|凌晨|中午|今天|明天|[日号天])\s?$")
PHONE = re.compile(
    r"(?:\+?86[- ]?)?1[3-9]\d[- ]?\d{4}[- ]?\d{4}(?!\d)|[48]00-?\d{3}-?\d{4}(?!\d)|0\d{2,3}-\d{7,8}(?!\d)"
    r"|1?[-. ]?\(?\d{3}\)?[-. ]\d{3}[-. ]\d{4}(?!\d)|\d{8,}(?!\d|\.\d|\s?[元万块%])"
)
CAMPAIGN = re.compile(
    r"(?:618|6\.18|11\.11|12\.12|1111|1212)(?![\d.,]\d|\d|\s?(?:元|块|%|rmb|usd|dollars?|件|个|g"
    r"|克|ml|折|米))"
)
SIX_EIGHTEEN_PRICE = re.compile(r"(?:[$€£¥]|rmb|usd|cny|价|元|只要|到手|付|减|满)\s?$")
DISCOUNT = re.compile(r"\s?折(?!叠|射|扣店|腾|断|旧|痕|纸|返)(?P<up>起)?")
MONTH_DAY = re.compile(
    r"\s?月(?:份|\s?(?P<day>\d{1,2}|[一二三]?十?[一二三四五六七八九]?)\s?[日号]"
    r"|(?=[底初中末]|结束|截止|开始|发货|之?前|到期|$|[,。，、！! ]))"
)
LINK_AFTER = re.compile(r"\s?号(?:链接|宝贝|商品|款|产品|连接|位|色)?(?!码|称|角|召|令|机|线|楼|店|院)")
DAY_AFTER = re.compile(r"\s?号(?=(?:晚|早|上午|下午|当天|那天|开|之前|以前|前|后|截|结束|到|至|发|零点|\d点))")
DAY_BEFORE = re.compile(r"(?:本月|这个月|下个?月|每月|月)\s?$")
PERCENT = re.compile(r"\s?(?:%|percent(?![a-z])|per\s?cent(?![a-z])|pct(?![a-z])|个百分点)")
OFF_AFTER = re.compile(
    r"\s?-?(?:off(?![a-z])|discount|markdown|cheaper|less than before|reduction|price cut|rebate|savings"
    r"|的?(?:优惠|折扣|减免|降价|降幅|立减))"
)
OFF_BEFORE = re.compile(
    r"(?:(?<![a-z])(?:sav(?:e|es|ing)(?: (?:you|up to|another|an extra))*|discount(?: (?:of|is))?"
    r"|(?:off|reduced|cut|down|drops?|marked down) by"
    r"|extra|take)|(?:立减|直降|再减|降价?了?|优惠|便宜了?|减免|立省|省了?|折扣[是为:]?|让利))\s?$"
)
PAYS_AFTER = re.compile(r"\s(?:of (?:the |its )?(?:original |regular |list |full )?price)")
CHENG = re.compile(
    r"\s?成(?P<part>半|[一二三四五六七八九](?![十百成]))?(?=[新的以好左多人用顾客棉毛羊绒]|$"
    r"|[,。，、！!？? ])"
)
SIZE_AFTER = re.compile(r"\s?(?:号?码(?!率|头|农|字|上)|(?:eu|us|uk)(?![a-z])|号鞋)")
LETTER_SIZE = re.compile(r"(?:[2-6]\s?xl|x{0,4}[sl]|m|xs)(?![a-z0-9'&.]?[a-z0-9])")
SINGLE_LETTER_CUE = re.compile(
    r"(?:\b(?:sizes?|an?|in|or|and|the|to|from|wear|get|take|of)|[^\x00-\x7f]|[/,、:(-])\s?$"
)
SINGLE_LETTER_AFTER = re.compile(r"\s?(?:号|码|[/,、)\-~]|size|or |and |to |[^\x00-\x7f]|[.!?]?$)")
SIZE_WORDS = {
    "extra small": "XS",
    "small": "S",
    "medium": "M",
    "large": "L",
    "extra large": "XL",
    "extra extra large": "XXL",
}
SIZE_WORD = re.compile(r"sizes?:? (extra (?:extra )?large|extra small|small|medium|large)(?![a-z])")
WORD_SIZE = re.compile(r"(extra (?:extra )?large|extra small|small|medium|large)[ -](?:size|sized)(?![a-z])")
ONE_SIZE = re.compile(r"(?:one|free)[- ]size(?![a-z])(?:[- ]fits[- ](?:all|most))?")
CHINESE_SIZE = re.compile(r"均码|(?P<s>加大|特大|大|中|小)[号码](?!上|头|力)")
CHINESE_SIZES = {"加大": "XL", "特大": "XXL", "大": "L", "中": "M", "小": "S"}
BUY_ZH = re.compile(
    rf"[买拍]\s?(?P<buy>\d+|[{CHINESE_CHARS}]+)\s?[件盒瓶双袋包支条份个套箱]?\s?[送赠得免发付]\s?(?P<free>\d+|[{CHINESE_CHARS}]+)"
)
BUY_EN = re.compile(r"buy (?P<buy>\d+|[a-z]+),? (?:and )?get (?P<free>\d+|[a-z]+)(?: more)?(?: free)?(?![a-z])")
BAIFENZHI = re.compile(r"百分之\s?")
HALF_PRICE = re.compile(r"(?:half[- ](?:the )?(?:original |regular |usual )?(?:price|off)|半价|对折)")
PARTS = {
    "third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10
}  # fmt: skip
PART_OFF = re.compile(
    r"(?:(?P<n>an?|one|two|three|four)[ -])?(?P<part>third|quarter|fifth|sixth|seventh|eighth"
    r"|ninth|tenth)s?(?![a-z])"
    r"(?:(?P<off>[ -](?:off|cheaper|less|discount|reduction)(?![a-z]))"
    r"|(?P<pays> (?:of )?(?:(?:the|its) )?(?:[a-z]+ )?(?:price|cost)(?![a-z])))?"
)
PART_OFF_DIGITS = re.compile(
    r"(?P<over>[1-9])/(?P<under>[2-9]|10)(?:[ -]?(?:off|cheaper|less)|(?P<pays>(?: of(?: the"
    r"| its)?(?: [a-z]+)?)?[ -]price|\s?的价))(?![a-z])"
)
FRACTION_OFF = re.compile(
    r"\s?(?:of )?(?:(?P<off>off|cheaper|less)|(?P<pays>(?:(?:the|its) )?(?:[a-z]+ )?price))(?![a-z])"
)
HALF_SAVED = re.compile(
    r"(?<![a-z])(?:sav(?:e|es|ing)|slash(?:ed|es)?|reduced|drop(?:s|ped)?|prices? (?:is |are "
    r"|was |were )?cut)"
    r"(?: (?:you|over|more|than|almost|nearly|about|at|least|by|in|the price))* $"
)
DECADES = {
    "teens": 10, "twenties": 20, "thirties": 30, "forties": 40, "fifties": 50, "sixties": 60, "seventies": 70,
    "eighties": 80, "nineties": 90,
}  # fmt: skip
DECADE_BEFORE = re.compile(r"(?<![a-z])(?:in the|low|lower|mid|middle|high|upper)[ -]$")
VAGUE = re.compile(r"(?:couple|few|several)(?: of)?(?: more)?(?= )")
"""A few is three, a couple two; checked for money and for days and longer, not for "a few minutes"."""
OFF_PLAIN = re.compile(r"\s?off(?![a-z-])(?! (?:the (?:shelf|wall|grid|charts?)|limits|and on))")
OF_THEM = re.compile(r"\s(?:of (?:them|these|those))(?![a-z])")
THE_DAY_BEFORE = re.compile(r"(?<![a-z])(?:on|until|till|til|through|thru|by|from|ends?|starts?|before|after) the $")
THE_DAY_AFTER = re.compile(
    r"\s?(?:$|[.,!?;)](?!\d)|(?:of (?:this|next|the) month|at|and|or|to|through|only|so|if|we"
    r"|when|while|this|next)(?![a-z]))"
)
SECOND_FREE = re.compile(
    r"second (?:one |pair |item |piece |bottle |jar |box |bag |set )?(?:is |comes |for |goes "
    r"|absolutely |completely |totally )*"
    r"(?:free|on us|on the house)(?! (?:of|from))(?![a-z])"
)
LOOSE_SIZE = re.compile(
    r"(extra (?:extra )?large|extra small|small|medium|large)"
    r"(?=\s?(?:[.!?;)]|$|,? (?:and|or|to|through) (?:extra |small|medium|large)|, (?:extra "
    r"|small|medium|large))"
    r"| (?:is|are|left|available|would|for you|in stock|as well|too|right now|today)(?![a-z]))"
)
LOOSE_SIZE_BEFORE = re.compile(r"(?<![a-z])(?:in|an?|the|get|take|wear|order|stock|or|and|to|through|have) $")
LOOSE_SIZE_CUE = re.compile(
    r"(?<![a-z])(?:(?:comes?|available|stock(?:ed)?|sold|made|it|one|these|them|get|left|only"
    r"|fits?|dress|shirt|tee|jacket) in"
    r"|(?:take|wear|order|get|try|choose|pick|recommend|go for|go with|suggest|have|got|stock"
    r"|stocks) (?:an?|the)|(?:small|medium|large),?(?: and| or| to| through)?) $"
)
VAGUE_ZH = re.compile(
    r"几(?:[十百千]|万)?多?\s?(?:(?P<off>折)|块|元|毛(?!衣|巾)|刀)(?!钱?\s?(?:[?？]|呢|吗|来着|的?券|一))"
)
BONE = re.compile(r"腰[斩砍]|骨折价|(?<=打)骨折")
HALF_LEFT = re.compile(r"(?:(?:省|便宜|优惠|减|砍|降|少)(?:了|掉|去|出)?(?:将近|差不多|近)?|价格?减|价钱减|直接减)$")
HALF_RIGHT = re.compile(r"一?半\s?的?(?:价[格钱]?|钱)(?!包)")
PAYS_ZH = re.compile(r"\s?的?(?:价[格钱]?|钱)(?!包)")
SECOND_FREE_ZH = re.compile(r"第\s?[二2]\s?[件份杯双瓶个盒支套袋包]?[^，。,.]{0,2}(?:免费|免单|不要钱|白送|0元|零元)")
COUPLE_ZH = re.compile(r"[俩仨](?=$|[，。,.!！了件哦啦])")
COUPLE_BEFORE = re.compile(r"(?:剩|有|就|买|只|来|拍|库存)(?:下|了|这|最后)?$")
APPROXIMATELY = re.compile(r"\s?(?:出头|上下|左右|以内|不到|[几多](?=就|能|可以|拿下|带走|搞定|入手|[，。！,!]|$))")
FOR_FEWER = re.compile(
    r"(?P<n>two|three|four|[234]) for (?:the price of )?(?P<m>one|two|three|[123])"
    r"(?![\w%$€£]|\.\d| ?(?:dollars|bucks|usd|euros|pounds|yuan|people|persons?|days?|weeks?|hours?|hundred))"
)
ISH = re.compile(r"(?:-?ish|[ -](?:something|odd))(?![a-z])")
HALF_AFTER = re.compile(r"\s?半(?!价|个|年|天|月|小时|斤|米|袖|身|糖|折)")
COIN_AFTER = re.compile(
    rf"(?P<jiao>\d|[一二两三四五六七八九])(?:毛|角)?(?P<fen>\d"
    rf"|[一二三四五六七八九])?分?(?![\d{CHINESE_CHARS}件个只双盒瓶包折])"
)
FEN_AFTER = re.compile(r"零(?P<fen>\d|[一二三四五六七八九])分?(?![\d十百千件个只双盒瓶包折])")
OH_CENTS = re.compile(r"[ -](?:oh?|zero)[ -](?P<n>one|two|three|four|five|six|seven|eight|nine)(?![a-z-])")
CENTS_AFTER = re.compile(r"(?:,? and)? (?P<n>\d{1,2}|[a-z]+(?:[- ][a-z]+)?) cents?(?![a-z])")
MORE = re.compile(r"\s?(?:多|余|来|\+|几)(?=\s?[^\d\s])")
SPOKEN_CENTS = re.compile(r" (\d\d)(?![\d.,:%])")

LEFT = re.compile(
    r"(?:(?P<money>us\$|hk\$|nt\$|(?<![a-z])[ac]a?u?\$|[$€£¥]|(?<![a-z])(?:usd|cny|rmb|eur|gbp|jpy|hkd))\s?"
    r"|(?P<link>(?<![a-z])(?:(?:items?|links?|products?|lots?)(?: numbers?| no\.?)?|numbers?|no|no\.)\s?[#:]?"
    r"\s?|#\s?|(?<!号)链接\s?|(?<!号)宝贝\s?|编号[:是]?\s?)"
    r"|(?P<region>(?<![a-z])(?:eu|us|uk)(?: sizes?)?\s?(?:is )?)"
    r"|(?P<size>(?<![a-z])sizes?\s?(?:is\s|:\s?)?|[尺鞋]码[:是]?\s?)"
    r"|(?P<spf>spf\s?)"
    r"|(?P<double>双)"
    r"|(?P<times>(?<![a-z0-9])x\s?)"
    r"|(?P<step>(?<![a-z])(?:step|page|version|chapter|top|level|grade|type|channel|room|part"
    r"|model|series)s?\s|第)"
    r"|(?P<price>(?<![a-z])(?:pric(?:e|es|ed)(?: (?:is|of|at|now|from))*:?|costs?|only|just|pay|for|now|was"
    r"|were|save|off by|minus|(?:knock|take|shave)s? off|total(?: is)?"
    r"|worth|it's|it is|that's|only for|down to|from|spend|saves? you|goes for)\s"
    r"|(?:价[格钱]?[是为:]?|只[要需]|仅[需要]?|到手价?[是:]?|卖|券后价?"
    r"|立?减|直降|省|满|优惠|便宜|才|原价|付|降到|低至)\s?))$"
)
AN_UNIT_CUE = re.compile(r"(?:^|[^a-z])(?:within|in|for|takes?|about|lasts?|than|under|over)\s$")
ONLY_CUE = re.compile(r"(?:[每限仅只剩有买]|最后|库存|质保|保修|联保|保质期)\s?$")
AN_UNIT = re.compile(
    r"an? (?P<unit>hundred|thousand|million|dozen|pair of|pair|week|month|year|day|hour|minute|fortnight"
    r"|(?:twenty|fifty)(?= (?:bill|note|and |for it)|[.,!]|$)|dollar(?! (?:store|shop|sign))"
    r"|buck|quid|penny(?! for your)|cent|fiver|tenner|c-note"
    r"|grand(?! (?:prix|piano|opening|finale|master|total|slam|prize|[a-z]+ing))"
    r"|(?:foot|yard|metre|meter)(?= (?:wide|long|tall|high|deep"
    r"|across)))(?![a-z])(?P<half> and a half(?![a-z]))?"
)
IDIOMS = re.compile(
    r"十分(?!钟|之)|一[些点下起样直定旦切般共旁边生向律流致时再何个款次]|万[一能岁科]"
    r"|千万(?![^\d]*[元块人件单])|百(?:搭|货|分百|姓)"
    r"|半(?:身|袖|透明|自动|成品|夜|路|数|径|截)|四季|四川|三明治|八卦|八宝|五金|二维码|一键"
    r"|三角|七七八八|三三两两|百合|千层|十足|六神|三星|一百分"
)
ZH_ONE = re.compile(r"一")
FRACTION = re.compile(
    r"(?:(?P<whole>\d{1,3})[- ])?(?P<over>\d{1,2})/(?P<under>2|3|4|8|16)"
    r"(?=[- ]?(?:inch|foot|feet|ft|cup|lb|oz|mile|yard|kg|litre|liter))"
)
METRE_REST = re.compile(r"(?:\d{1,2}|[一二三四五六七八九]{1,2})(?![\d.%元块件个种色款条米一二三四五六七八九十])")
BELOW_ZERO = re.compile(r"(?:(?<![\da-z度°])-|零下|(?<![a-z])minus |(?<![a-z])negative )\s?$")
CUP_SIZE = re.compile(
    r"(?P<size>(?:3[0-8]|4[0-4]|[67]5|[789]0|85)(?:a{1,2}|b|d{1,2}|e|f"
    r"|(?<![34]0)c))(?![a-z0-9])(?:\s?(?:罩杯|cups?))?"
)
PLAIN_DIGITS = re.compile(r"\d+")
HALF_ARTICLE = re.compile(r" (?:of )?(?:an?|the)(?= )")


GLUED = frozenset(
    [
        "spf",
        "eu",
        "us",
        "uk",
        "usd",
        "cny",
        "rmb",
        "eur",
        "gbp",
        "jpy",
        "hkd",
        "no",
        "number",
        "item",
        "link",
        "size",
        "sizes",
        "nt",
        "hk",
        "only",
        "about",
        "for",
        "at",
        "price",
    ]
)
SIZE_HEADS = frozenset(
    [
        "size",
        "sizes",
        "free",
        "small",
        "medium",
        "large",
        "extra",
        "s",
        "m",
        "l",
        "xs",
        "xl",
        "xxl",
        "xxxl",
        "xxs",
        "xxxs",
        "xxxxl",
        "xxxxxl",
    ]
)
MEMORY_SIZES = frozenset({8, 16, 32, 64, 128, 256, 512})
PRICE_WORD = re.compile(r"(?<![a-z])(?:price[sd]?(?: (?:is|at))?|costs?|only|just|pay|for|now|save)\s$")
WHOLE = frozenset({"JPY", "KRW", "VND"})
"""Currencies without minor units."""
