"""What a rendered prompt asks for: the question, its intent, and what it names.

Reads the conversation's text as a model would, whatever its headings look like. English and Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from livery.policies.policy import PromptMessage


@dataclass(frozen=True, slots=True)
class Intent:
    """One thing that viewers want: how they say it, and the words of a skill that serves it."""

    name: str
    asked: re.Pattern[str]
    skill: re.Pattern[str]


def _intent(name: str, skill: str, asked: str) -> Intent:
    return Intent(name, re.compile(asked, re.IGNORECASE), re.compile(skill, re.IGNORECASE))


_TALK = r"greet|small.?talk|off-topic|打招呼|闲聊"
_ITEM = r"what an item|feature|material|in stock|商品本身|材质|有没有?货|还有没有货"
_SERVICE = r"return|refund|after-?sales|deliver|shipping|退换|售后|运费|物流|几天"
_PRICE = r"price|discount|coupon|多少钱|券后价|价格|领券"
_ADVICE = r"compar|recommend|which one|difference|对比|推荐|挑选"

INTENTS = (
    _intent("talk", _TALK, r"competitor|other (?:shop|store|seller)|elsewhere|别家|别的店|其他家|全网"),
    _intent(
        "policy", _SERVICE,
        r"\breturn|refund|money back|(?:send|give) (?:it|them) back|exchang|warrant|guarantee|invoice|receipt"
        r"|\bpay(?:ing|ments?|pal)?\b|instal?lment|credit card|cancel\w* (?:my|an|the) order|gift.?wrap"
        r"|price (?:match|protect)|\bif\b[^.?!]*(?:broken|damaged)"
        r"|退[货款换钱]|能退|可以退|包退|运费险|换货|换尺?码|换颜色|保修|质保|发票|开票|支付|付款|分期|花呗|价保|保价"
        r"|买贵|改地址|取消订单|(?:破|碎|坏)了怎么办",
    ),
    _intent(
        "handoff", r"complain|hand-?off|broken|投诉|人工|客服",
        r"\bbroken|complain|scam|fraud|damaged|wrong item|\bhuman\b|(?:talk|speak) to (?:a |some)"
        r"|\b(?:my|me|i)\b[^.?!]*\b(?:burn(?:s|ed|ing)?|itch\w*|rash|swollen|bleed\w*|allergic reaction)\b"
        r"|\bmy (?:order|package|parcel)\b.*(?:never|not|n't|late|lost)"
        r"|(?:快递|包裹|订单|货).{0,4}没(?:收)?到"
        r"|投诉|人工|坏[了的]|骗|发错|假货|质量问题"
        r"|(?:用|吃|涂|抹|脸|孩子).{0,12}(?:痒|红肿|刺痛|起疹|过敏了|拉肚子|烂脸)",
    ),
    _intent(
        "identity", _TALK,
        r"real person|are you (?:real|an? (?:ai|bot|robot))|is this (?:live|real)|真人|机器人|数字人",
    ),
    _intent(
        "shipping", r"shipping|deliver|运费|物流|几天",
        r"\bship(?:s|ping|ped)?\b|deliver|postage|freight|\barriv|发货|运费|邮费|快递|几天|包邮|寄|发不发|能发|发到",
    ),
    _intent(
        "product", _PRICE,
        r"(?:how (?:do|can|to)|can i (?:use|combine)|two)\b.*coupon|coupons?\b.*together"
        r"|怎么[领用]|券.{0,6}(?:怎么|叠加)",
    ),
    _intent(
        "options", _ITEM,
        r"(?:what|which) (?:sizes|colou?rs)|(?:sizes|colou?rs) (?:do|are|does|come)"
        r"|(?:几[种个]|哪些|什么|哪几种)(?:尺寸|颜色|规格|尺码|款式)",
    ),
    _intent(
        "size", r"\bsize|fit|尺码|身高",
        r"(?:what|which) size\b|my size|true to size|\bruns? (?:small|large|big|wide)|\bfits?\b"
        r"|\d\s*(?:cm|kg|lbs?)\b"
        r"|什么码|多大码|哪个码|穿多大|身高|体重|\d\s*公斤|\d\s*斤|偏[大小]",
    ),
    _intent(
        "compare", _ADVICE,
        r"compar|differen|\bbetter\b|\bvs\b|(?:which|what).{0,20}\b(?:cheaper|bigger|lighter|warmer)\b"
        r"|对比|区别|差别|哪[个款](?:好|更|实用|便宜|划算|适合)",
    ),
    _intent(
        "recommend", _ADVICE,
        r"recommend|suggest|\bgifts?\b|something (?:for|under)|(?:under|below|less than) \$?\d|推荐|送礼|送人"
        r"|送(?:妈|爸|女|男|朋|老|孩)|\d+[块元]?(?:以内|以下)|预算",
    ),
    _intent(
        "price", _PRICE,
        r"how much|\bprices?\b|\bcosts?\b|\btotal\b|\$\s?\d|\bcheap(?:er)?\b|discount|\d% off"
        r"|多少钱|价格|什么价|几块|怎么算|一共多少|到手|便宜|打折|\d块|几折",
    ),
    _intent(
        "deals", _PRICE,
        r"coupon|promo|\bdeals?\b|\bsale\b(?! yet)|\b[A-Z]{3,}\d{1,3}\b|券|优惠|活动|秒杀|满减",
    ),
    _intent(
        "stock", _ITEM,
        r"\bstock|available|\bleft\b|sold out|still (?:sold|sell|have)|\bout yet|on sale yet|\bcome in\b"
        r"|\bsize \d"
        r"|有货|库存|还有吗|还有没有|断货|补货|还卖|开卖|开售|上架|有没?有?[^吗]{0,6}(?:色|码|[SMLX]{1,3})[^吗]{0,4}吗",
    ),
    _intent(
        "product", _ITEM,
        r"\?|？|^\W*(?:and |so |ok |does|do|is|are|can|could|will|would|what|how|which|where|when|why|has"
        r"|have)\b"
        r"|\bhow (?:heavy|long|big|often|many)|,\s*(?:is|are|can|does|do|will)\b"
        r"|介绍|讲讲|说说|tell me|materials?\b|made of|features?\b|[吗嘛]|怎么|什么"
        r"|多[久大少重长高]"
        r"|几[个包片双件种盒瓶条支]|会不会|能不能|可不可以|是不是|有没有|材质|功能",
    ),
    _intent("talk", _TALK, r""),
)  # fmt: skip
"""In the order in which they are tried. The last fits everything."""
_BY_NAME = {intent.name: intent for intent in INTENTS}
_GREETING = re.compile(r"^\W*(?:hi|hey|hello|thanks?|thank you|how are you|good \w+)\b[^?]{0,25}\?*$", re.IGNORECASE)

_CHAT_HEADING = re.compile(r"chat|viewer|comment|question|danmaku|弹幕|观众|评论|提问", re.IGNORECASE)
_HEADING = re.compile(r"^(?:#+ *|<|\d+\. )?([^\n<>:：]{1,60})[>:：]?$")
_SPEAKER = re.compile(r"^([^:：\n]{1,60})[:：]\s*")
_ANSWERED = re.compile(r"\s(?:/|→|->|=>|\|)\s")
_ON_SCREEN = re.compile(r"(?:on screen|showing|屏幕|讲解)\D{0,20}(\d{1,4})", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:\blink|\bnumber|\bitem|\bno\.?|#)\s*(\d{1,4})\b|(\d{1,4})\s*号", re.IGNORECASE)
_HAN_NUMBERED = re.compile(r"([一二三四五六七八九十])号")
_BARE_NUMBER = re.compile(r"(?<![A-Za-z0-9$.])(\d{1,3})(?![A-Za-z0-9.%])(?!\s*(?:cm|kg|dollars|bucks|of|x)\b)")
_PAIR = re.compile(r"\b(\d{1,3})\s*(?:and|or|&|,)\s*(\d{1,3})\b(?!\s*[a-z%])", re.IGNORECASE)
_SKILL_LINE = re.compile(
    r'^[-*|]\s*([a-z0-9][a-z0-9-]{0,63})\s*[:：|]\s*(.+)$|<skill name="([^"]+)">([^<]+)<', re.MULTILINE
)
HAN = re.compile(r"[一-鿿]")
_POINTING = re.compile(r"\bthis\b|\bthat one\b|这[个款件]", re.IGNORECASE)
_ANAPHOR = re.compile(r"\b(?:it|its|it's|they|them|these)\b|它", re.IGNORECASE)

_NUMBERS = {
    **{w: i + 1 for i, w in enumerate(("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"))},
    "a pair of": 2,
    "a couple of": 2,
}
_HAN_NUMBERS = {w: i + 1 for i, w in enumerate("一二三四五六七八九十")} | {"两": 2, "俩": 2}
_QUANTITY = re.compile(
    r"(?:\b(?:for|buy|get|take|want|x)\s+(?:the\s+)?|^\W*)(\d{1,3}|"
    + "|".join(_NUMBERS)
    + r")\b(?!\s*(?:cm|kg|%|dollars|bucks))"
    r"|\b(\d{1,3})\s?(?:x\b|pcs\b|pieces\b|pairs\b|packs\b|boxes of\b|of\b)",
    re.IGNORECASE,
)
_HAN_QUANTITY = re.compile(
    r"(?:[买来要拍](\d{1,3}|[一二两三四五六七八九十])|(?<![\d第每])(\d{1,3}|[一二两三四五六七八九十]))"
    r"[件份个双盒包瓶条箱支袋台只把](?![装套号])"
)
_BUDGET = re.compile(
    r"(?:under|below|less than|max|up to|within)\s*\$?(\d+(?:\.\d+)?)"
    r"|(\d+)\s*[块元]?\s*(?:以内|以下|之内)|预算\D{0,3}(\d+)",
    re.IGNORECASE,
)
_MEMBER = re.compile(r"\bmembers?\b|\bclub\b|\bvip\b|会员", re.IGNORECASE)
_COLOURS = (
    r"\b(?:black|white|grey|gray|navy|red|blue|green|sage|mustard|coral|pink|indigo|brown|beige"
    r"|(?<=in )(?:cream|mint|oat|steel)"
    r"|yellow|orange|purple|silver|queen|king)\b|(?:[黑白灰红蓝绿粉黄橙紫棕米]|豆沙绿|墨绿|藏青)色?(?=[\sA-Z0-9款的还有码吗]|$)"
    r"|[黑白灰红蓝绿粉黄橙紫棕米]色|豆沙绿|墨绿"
)
_VARIANT = re.compile(
    _COLOURS + r"|(?<![A-Za-z'])(?:[2-5]?X{1,3}[SL]|[SML])(?![A-Za-z'])|\bsize\s(\d{1,2})\b|(\d{2})码"
    r"|\d+(?:\.\d)?\s?(?:ml|mAh|毫升|毫安|米床)"
)
_HEIGHT = re.compile(
    r"(\d{3}|\d{2,3}\.\d)\s*cm|身高\D{0,3}(\d{3})|(?<!\d)(1[3-9]\d)(?=\s*[,，/\s]\s*\d{2,3}\s*(?:公斤|斤|kg))",
    re.I,
)
_WEIGHT = re.compile(r"(\d{2,3}(?:\.\d)?)\s*(?:kg|公斤|千克)|体重\D{0,3}(\d{2,3})(?!\s*斤)", re.IGNORECASE)
_JIN = re.compile(r"(\d{2,3})\s*斤")
_FOOT = re.compile(r"(?:foot|feet|脚长?)\D{0,8}(\d{2}(?:\.\d)?)|(2\d\.\d)\s*cm", re.IGNORECASE)
_USUAL = re.compile(r"usually (?:wear|take)\s+(?:an?\s+)?(?:size\s+)?(\w{1,3})|平时穿\s*(\w{1,3})", re.IGNORECASE)
_CODE = re.compile(r"\b[A-Z]{3,}\d{1,3}\b")
_REGION = re.compile(
    r"\b(?:to|in|into)\s+(?:the\s+)?((?!me\b|it\b|my\b)[a-z][a-z .]*?)"
    r"(?=\s+(?:how|take|cost|is|and|please|pls|for|with|in)\b|\s*[?,!.]|\s*$)",
    re.IGNORECASE,
)
_HAN_REGION = re.compile(
    r"发货|发不发|能不能发|可以发|能发|不发|[发寄送]到|[发寄送]|到货|到|运费|邮费|快递|包邮|怎么算|多少钱|多少|几天|多久|什么时候"
    r"|可以|我的?|还没|[吗呢啊呀吧的了要能费\s?？!！,，.。]"
)

_TOPICS = tuple(
    (re.compile(pattern, re.IGNORECASE), topic)
    for pattern, topic in (
        (r"运费险|退货(?:运费|邮费)", "运费险"),
        (r"broken|damaged", "damaged items"),
        (r"[破碎坏]了怎么办", "破损补发"),
        (r"refund|money back", "refunds"),
        (r"退款|退钱", "退款"),
        (r"exchang", "exchanges"),
        (r"换[货尺码颜]", "换货"),
        (r"\breturn|back\b", "returns"),
        (r"退", "退货"),
        (r"warrant|guarantee", "warranty"),
        (r"保修|质保", "保修"),
        (r"invoice|receipt", "invoice"),
        (r"发票|开票", "发票"),
        (r"gift.?wrap", "gift wrap"),
        (r"price (?:match|protect)", "price protection"),
        (r"价保|保价|买贵", "价保"),
        (r"\bpay|instal?lment|credit card", "payment"),
        (r"支付|付款|分期|花呗", "支付方式"),
        (r"cancel|change.*(?:address|order)", "order changes"),
        (r"改地址|取消订单", "修改订单"),
    )
)

_STOP = frozenset(
    """
    a an the this that these those it its it's is are was were be been do does did can could will would
    should may i you he she they them we my your me our us for of in on at to with and or any some how
    much many what whats what's which when where why who there there's here please pls thanks thank hi
    hey hello so just also too still yet now today tonight right ok okay one ones get have has had want
    need buy take give tell about come comes coming last first only really new if not no yes up out by
    from as than then go more again back else each both left help use using used price prices cost costs
    total cheap cheaper cheapest discount deal deals coupon coupons sale stock available sold size sizes
    fit fits color colors colour colours compare difference between better best vs member members club
    vip flash end ends something someone anything ship ships shipping delivery deliver number link item
    items product products dollar dollars usd bucks piece pieces pair pairs know see show say long off
    work works
    """.split()  # noqa: SIM905
)
_HAN_PHRASES = re.compile(
    r"多少钱|什么价|到手价?|价格|几块钱?|怎么算|一共|总共|合计|多少|优惠券?|有什么|券后价?|能?用券|便宜|打折|会员价?|有没有货|还有货"
    r"|还有没有|有没有|有货|还有|没有|库存|补货|断货|还卖不卖|还卖|什么时候|开卖|开售|上架|能退|什么码|多大码|尺码|偏[大小]|几种|哪些"
    r"|尺寸|颜色|规格|对比|区别|哪个|哪款|实用|推荐|请问|主播|现在|今天|一下|这[个款件]|那[个款件]|反正|对吧|是不是|一箱|一盒|一包|几[包个片双件盒瓶条支]"
    r"|秒杀|活动|满减|券|到?几点|什么|穿|\d+块\d*"
)
_HAN_EDGES = "买来要拍的了吗呢啊呀吧和跟加也就能会可以是有我你它嘛用多久好 ,，.。?？!！~～、"
_AND = re.compile(r",|\band\b|\bor\b|\bvs\b|和|跟|与|加|、|还是", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Scene:
    question: str
    """What viewers wrote, without their names."""
    intent: Intent
    links: tuple[str, ...]
    """Every link that the question names."""
    on_screen: str
    items: tuple[str, ...]
    """Words for products that are named without a link: two where two are, and more than one word each."""
    pointing: bool
    """Whether it speaks of "this one" or "it"."""
    earlier: str
    """What the same viewer asked just before, where this question names nothing."""
    quantity: int | None
    variant: str
    member: bool
    budget: float | None
    height: float | None
    weight: float | None
    foot: float | None
    usual: str
    code: str
    region: str
    topic: str
    skills: tuple[tuple[str, str], ...]
    """(name, description) from the catalogue in the prompt."""
    chinese: bool
    """Whether the prompt is in Chinese: then so is the reply."""


def read_scene(messages: Sequence[PromptMessage]) -> Scene:
    system = next((m.content for m in messages if m.role == "system"), "")
    user = next((m.content for m in messages if m.role == "user"), "")
    return _read(system, user)


@lru_cache(maxsize=256)
def _read(system: str, user: str) -> Scene:
    chat = _chat_block(user)
    question = read_question(user)
    intent = INTENTS[-1] if _GREETING.match(question) else next(i for i in INTENTS if i.asked.search(question))
    if intent.name == "product" and _variant(question) and re.search(r"\b(?:have|any|got|get)\b|有", question):
        intent = _BY_NAME["stock"]
    links = named_links(question, intent.name)
    quantity, without = _quantity(question) if intent.name in ("price", "shipping") else (None, question)
    height = _first(_HEIGHT, question)
    weight = _first(_WEIGHT, question)
    jin = _first(_JIN, question)
    on_screen = _ON_SCREEN.search(user)
    items = () if links else _items(without, intent.name)
    pointing = bool(_POINTING.search(question))
    earlier = ""
    if not links and not items and not pointing:
        earlier = _asked_before(user, chat)
        links = named_links(earlier, "")
        items = () if links else _items(earlier, "product")
    budget = _first(_BUDGET, question)
    usual = _USUAL.search(question)
    return Scene(
        question=question,
        intent=intent,
        links=links,
        on_screen=on_screen[1] if on_screen else "",
        items=items,
        pointing=pointing or bool(_ANAPHOR.search(question)),
        earlier=earlier,
        quantity=quantity,
        variant=_variant(question),
        member=bool(_MEMBER.search(question)),
        budget=budget,
        height=height,
        weight=weight if weight is not None else jin / 2 if jin else None,
        foot=_first(_FOOT, question),
        usual=next(filter(None, usual.groups()), "") if usual else "",
        code=m[0] if (m := _CODE.search(question)) else "",
        region=_region(question) if intent.name == "shipping" else "",
        topic=next((topic for p, topic in _TOPICS if p.search(question)), ""),
        skills=tuple((m[1] or m[3], m[2] or m[4]) for m in _SKILL_LINE.finditer(system)),
        chinese=bool(HAN.search(system[:400] or question)),
    )


def named_links(question: str, intent: str) -> tuple[str, ...]:
    """Links that the question names. Bare numbers count where two things are compared, or nothing else is
    named."""
    named = [next(filter(None, m.groups())) for m in _NUMBERED.finditer(question)]
    named += [str("一二三四五六七八九十".index(m[1]) + 1) for m in _HAN_NUMBERED.finditer(question)]
    bare = _BARE_NUMBER.findall(question)
    if intent == "compare" and len(named) < 2 and len(named) + len(bare) >= 2:
        named += [n for n in bare if n not in named]
    elif not named and intent == "price" and (pair := _PAIR.search(question)):
        named += list(pair.groups())
    elif not named and intent in ("price", "stock", "product") and len(bare) == 1:
        lone = re.search(r"\b(?:is|about|of)\s+(\d{1,3})\s*\W*$|^\W*(\d{1,3})\W*$", question, re.IGNORECASE)
        named += [n for n in bare if lone and n in lone.groups()]
    return tuple(dict.fromkeys(named))


def _first(pattern: re.Pattern[str], text: str) -> float | None:
    m = pattern.search(text)
    return float(next(filter(None, m.groups()))) if m else None


def _quantity(question: str) -> tuple[int | None, str]:
    """How many are wanted, and the question without it."""
    m = _QUANTITY.search(question) or _HAN_QUANTITY.search(question)
    if m is None:
        return None, question
    if _NUMBERED.search(question) and not _HAN_QUANTITY.search(question):
        # Beside a link's number a word is a quantity only where it says so: "two of link 3".
        of = m[0].lower().endswith("of") or re.match(r"\s+of\b", question[m.end() :], re.IGNORECASE)
        if not (m[0][-1:].isdigit() or of):
            return None, question
    said = next(filter(None, m.groups())).lower()
    number = int(said) if said.isdigit() else _NUMBERS.get(said) or _HAN_NUMBERS.get(said)
    return number, question[: m.start()] + " " + question[m.end() :]


def _variant(question: str) -> str:
    without = _NUMBERED.sub(" ", question)
    found = [next(filter(None, m.groups()), m[0]) for m in _VARIANT.finditer(without)]
    return " ".join(dict.fromkeys(f.strip() for f in found))


def _region(question: str) -> str:
    if HAN.search(question):
        return _HAN_REGION.sub("", _NUMBERED.sub("", question)).strip()
    m = _REGION.search(question)
    if m:
        return m[1].strip()
    names = re.findall(r"(?<!^)\b[A-Z][a-z]{2,}(?: [A-Z][a-z]+)*", question)
    return names[0] if names else ""


def _items(text: str, intent: str) -> tuple[str, ...]:
    parts = _AND.split(text) if intent in ("price", "compare") else [text]
    words = [w for part in parts if (w := item_words(part))]
    return tuple(dict.fromkeys(words))[:2]


def item_words(text: str) -> str:
    """What is left of a question when the asking is taken away: words for a product, and for the matter."""
    text = _NUMBERED.sub(" ", _HAN_NUMBERED.sub(" ", text))
    for pattern in (_HEIGHT, _WEIGHT, _JIN, _CODE, _BUDGET, _VARIANT):
        text = pattern.sub(" ", text)
    if HAN.search(text):
        text = re.sub(r"链接|号", "", _HAN_QUANTITY.sub(" ", text))
        text = _HAN_PHRASES.sub(" ", text)
        words = [w for part in text.split() if (w := part.strip(_HAN_EDGES)) and not w.isdigit()]
        return " ".join(dict.fromkeys(words))
    words = [w for w in re.findall(r"\d+%|[A-Za-z][\w'-]*", text) if w.lower() not in _STOP and len(w) > 1]
    return " ".join(dict.fromkeys(words))


# ------------------------------------------------------------------------------- reading the prompt


def _chat_block(user: str) -> str:
    blocks = [b.strip() for b in re.split(r"\n\s*\n", user) if b.strip()]
    chosen = blocks[-1] if blocks else ""
    for block in blocks:
        head, _, body = block.partition("\n")
        heading = _HEADING.match(head.strip())
        if body and heading and _CHAT_HEADING.search(heading[1]):
            chosen = body
    return chosen


def read_question(user: str) -> str:
    """The viewers' lines of a rendered user message, whatever its headings look like."""
    chosen = _chat_block(user)
    lines = [
        _SPEAKER.sub("", line)
        for line in chosen.splitlines()
        if not _HEADING.match(line) or ":" in line or "：" in line
    ]
    return "\n".join(line for line in lines if not line.startswith("</")) or chosen


def _asked_before(user: str, chat: str) -> str:
    """The last question of the same viewer among the answered ones; empty where there is none."""
    speakers = {m[1] for line in chat.splitlines() if (m := _SPEAKER.match(line))}
    asked = ""
    for line in user.replace(chat, "").splitlines():
        m = _SPEAKER.match(line)
        if m and m[1] in speakers and _ANSWERED.search(line):
            asked = _ANSWERED.split(line[m.end() :])[0]
    return asked
