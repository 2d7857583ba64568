"""The words by which a reply shows what it means: roles of amounts, roundings, denials, stock, shipping, asking back.

Patterns over text made by `livery.harness.hooks.builtin.wordlists.straight` (lower case, straight quotes), English
and Chinese together, since hosts mix them. Nothing here judges; `statements`, `claims` and `verifier` do.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

SENTENCE: Final = re.compile(r"[!?;。！？；\n]|\.(?=\s|$)")
CLAUSE: Final = re.compile(
    r"[!?;。！？；，：\n]|[,:](?!\d)|\.(?=\s|$)|(?<![a-z])(?:and|but|though|while|because|otherwise)(?![a-z])|"
    r"但是?|不过"
)

# ------------------------------------------------------------------------------------- roles of amounts


class RoleCue(NamedTuple):
    role: str
    before: re.Pattern[str] | None
    """Must match up to the amount's start."""
    after: re.Pattern[str] | None
    """Must match from the amount's end."""


_FILL = (
    r"(?:\s*(?:is|was|are|were|of|the|a|an|at|only|just|price|it's|its|to|about|around|you|me|us|"
    r"usual|be|costs?|sells? for|goes for|priced|for|in|"
    r"about|some|almost|nearly|roughly|over|just|under|another|an?|extra|是|了|为|的|要|只要|才|大概|"
    r"约|价|到手|掉|合|"
    r"相当于|折合|您?你?)\s*){0,4}\s*$"
)


ROLES: Final = (
    RoleCue(
        "threshold",
        re.compile(
            
                r"(?:(?<!down )(?<!just )(?<!bit )(?<!little )(?<!slightly )(?:over|above|from)|at least|"
                r"orders? (?:of|over|"
                r"above|from)|spend(?:ing)?|reach(?:es|ing)?|minimum|every)\s*$|(?:每?满|达到?|凑够?)\s*$"
            
        ),
        re.compile(r"\s*(?:以上|起用|可用|就?包邮|门槛|or more|and (?:up|above))"),
    ),
    RoleCue("threshold", re.compile(r"\d%?\s?off (?:every )?$"), None),
    RoleCue(
        "fee",
        re.compile(
            
                r"(?:(?<![a-z])(?:shipping|delivery|postage|ships?|shipped|surcharge|freight)|运费|邮费|"
                r"快递费|大件)(?:(?:(?!\d|"
                r"[.!?;,。！？；，]).){0,28})$"
            
            r"|(?:加收|要收|另收|要加|再加|需付)\s*$"
        ),
        re.compile(
            r"\s*(?:for |of |的)?(?:bulky |extra |return |a )?(?:shipping|delivery|postage|surcharge|to ship|freight|"
            r"的?运费|的?邮费)"
        ),
    ),
    RoleCue(
        "list",
        re.compile(
            
                r"(?:list(?:ed)?|normal(?:ly)?|usual(?:ly)?|regular(?:ly)?|original(?:ly)?|\bwas|\bwere|down from|"
                r"instead of|retail(?:s)?"
            
            
                r"|full price|before (?:the )?(?:discounts?|coupons?)|without (?:the )?(?:discounts?|coupons?)|原价|"
                r"日常价?|吊牌价?|标价|平时|划线价|市场价|原来|平常|本来|原本|以前|之前|used to (?:be|cost))"
            
            + _FILL
        ),
        re.compile(
            r"\s*(?:(?:list|full|regular|normal|usual|original) price|normally|usually|originally|"
            r"before (?:the )?(?:discount|coupon)|(?:的)?原价)"
        ),
    ),
    RoleCue(
        "difference",
        re.compile(
            r"(?:cheaper|less|more|dearer|costlier|higher|lower|pricier|expensive) by\s*$|(?<![a-z])by\s*$|"
            r"(?:便宜|贵|相差|差)(?:了|个)?\s*$"
        ),
        re.compile(r"\s*(?:cheaper|less than|more than|more expensive|difference|dearer)"),
    ),
    RoleCue("cap", re.compile(r"(?:at most|up to|capped at|maximum of|max|最多减?|封顶)\s*$"), None),
    RoleCue(
        "saving",
        re.compile(
            
                r"(?:sav(?:e|es|ed|ing|ings)|keep|takes? off|takes?|taking(?: off)?|knocks?(?: off)?|minus|"
                r"discount of|"
                r"coupon of|off by|(?<!every )cut of|立?省|立?减|直降|抵扣?|优惠|降|券减|折扣)"
            
            + _FILL
        ),
        re.compile(
            
                r"\s*(?:(?:of|in|worth of) (?:discounts?|savings?)|off|saved|savings?|discount|less(?! than)|"
                r"(?:[a-z]+ )?(?:coupon|voucher)|price drop|cut|的?(?:优惠|红包|券|立减|折扣))(?![a-z])"
            
        ),
    ),
    RoleCue(
        "unit",
        re.compile(
            r"(?:\beach|\bper [a-z]+|单价|均价|平均|(?:每|单|一)(?:件|份|瓶|盒|双|个|片|包|条|袋|支|套|台|副|袋))"
            + _FILL
        ),
        re.compile(
            
                r"\s*(?:each|apiece|a piece|per [a-z]+|/ ?(?:piece|item|件|份)|(?:a|an) (?:bag|bottle|box|pair|tee|"
                r"pack|jar|tube|piece|set|bar|unit|item)|一(?:件|份|瓶|盒|双|个|片|包|条|袋|支|套))(?![a-z])"
            
        ),
    ),
    RoleCue(
        "total",
        re.compile(r"(?:\btotal(?:s|ling)?|altogether|together|一共|总共|合计|总价|共计|拢共)" + _FILL),
        re.compile(
            
                r"\s*(?:in total|total|altogether|all together|for (?:all|both|the (?:pair|lot|set|two|three)|two|"
                r"three|four|five|\d+)|一共|全部)(?![a-z])"
            
        ),
    ),
)  # fmt: skip

WHOLE_SAVING: Final = re.compile(
    r"in total|altogether|against the usual|from the usual|overall|一共|总共|合计|比原价|比平时|立省|比日常"
)

# ------------------------------------------------------------------------------------- roundings

UNDER: Final = re.compile(
    r"(?:just under|a (?:little|bit|touch|hair) under|slightly (?:under|less than|below)|nearly|almost|"
    r"close to|not quite|less than|under|below|shy of|不到|将近|接近|快要?|差一?点点?|低于|未满)\s*(?:about\s*)?$"
)
UNDER_AFTER: Final = re.compile(r"\s*(?:元|块钱?)?(?:不到|以内|以下|都不到)")
OVER: Final = re.compile(
    r"(?:just over|a (?:little|bit|touch) (?:over|more than)|slightly (?:over|more than|above)|"
    r"a (?:little|bit) above|more than|刚过|超过|略高于)\s*$"
)
OVER_AFTER: Final = re.compile(r"\s*(?:元|块钱?)?(?:出头|多(?!少)|挂零|and change|and a bit|something)")
NEAR: Final = re.compile(
    r"(?:about|around|roughly|approximately|approx\.?|some|circa|ish|more or less|大概|大约|约|差不多|也就|估计|"
    r"应该是?)\s*(?:is |是|在)?$"
)
NEAR_AFTER: Final = re.compile(r"\s*(?:元|块钱?)?(?:左右|上下|or so|or thereabouts|-?ish|几)")

# ------------------------------------------------------------------------------------- denials and questions

DENIAL: Final = re.compile(
    r"(?<![a-z])(?:not|no|never|cannot|without|none|neither|nor|nope|unable|isn't|aren't|don't|doesn't|"
    r"can't|won't|didn't|wasn't|haven't|hasn't|couldn't|shouldn't|wouldn't)(?![a-z])"
    r"|不(?!到|好意思|错|仅|只|但|用担心|过|粘|掉|透|泛|漏|锈)|没(?!问题|错)|无法|无需|未|别(?!的|人)|勿|非(?!常)"
)
DENIED_BEFORE: Final = re.compile(
    r"(?:not|n't|no|never|neither|nor|than|instead of|rather than|skip|avoid|不要?|别|不是|而不是|没|不用|不建议|"
    r"勿)\s*(?:be |go for |take |get |choose |the |a |an |size |拍|选|穿|买|要|是){0,3}\s*$"
)
EXPIRED: Final = re.compile(
    r"expired|(?:has |have |already )?ended|is over|no longer valid|ran out|(?<![a-z])over(?: now|"
    r" already)|过期|结束|失效|到期|作废"
)
QUESTION: Final = re.compile(r"[?？]")
FUTURE: Final = re.compile(
    r"(?:starts?|begins?|coming|upcoming|will|opens?|from|until then|later|next|预告|开始|即将|届时|"
    r"到时|还没|等到|才有|"
    r"将)"
)

# ------------------------------------------------------------------------------------- availability

GONE: Final = re.compile(
    r"(?:don't|do not) (?:think|believe) (?:we|there)|"
    r"(?:sold out|sells? out|out of stock|(?:is|are|'s|'re|was|ran|we're) (?:now |all |sadly |"
    r"currently |already |just )?out(?= of (?:the|that|those|these|it|them|stock|your)|\s*[,.!;]|\s*$)|"
    r"(?:isn't|not) around|none (?:left|remaining|available)|no(?: more)?(?: [a-z0-9]+){0,4} (?:left|"
    r"in stock|available)|nothing left"
    r"|run out|ran out|all gone|(?:is|are|'s|was|all) (?:now |already |sadly |completely )?gone|"
    r"unavailable|zero left|(?<!\d)0 left|(?:aren't|isn't|not|n't|no longer)(?: [a-z]+){0,3} (?:available|"
    r"in stock|left)"
    r"|(?:don't|do not|doesn't|no longer) (?:have|stock|carry)(?! to)(?: (?:it|that|this|them|any))?)"
    r"|空了|没剩|清空|没货|没有(?:了|现货|货|库存)|没(?:有)?(?:现)?货|没了|没有(?:哦|啦|咯|的|"
    r"呢)?[了哦啦呢。！!，,]|售罄|卖(?:完|光|没)|缺货|断(?:码|"
    r"货|色)|无货|抢(?:光|完)|拍完|不在库|库存(?:为|是)?(?:0|零)|(?:不|没)剩"
)
ENDED: Final = re.compile(
    r"discontinued|no longer (?:sold|made|on sale|sell|for sale)|stopped (?:making|selling)|"
    r"don't (?:make|sell) it|won't (?:be )?(?:come|coming|back)|(?:not|isn't|never) (?:coming|be) back|"
    r"下架|不(?:再)?卖|停产|不生产|绝版|不做了|停售"
)
UNOPENED: Final = re.compile(
    r"not yet|(?:not|n't) (?:available|out|open) yet|(?:not|isn't|n't|"
    r"before it)(?: [a-z]+){0,2} on sale|(?:hasn't|not) (?:opened|started|"
    r"launched|released)|(?:have to|must|please|to) wait|wait (?:until|till)|goes on sale|go on sale|"
    r"opens? (?:on|up)|sales? opens?|upcoming|launch(?:es|ing)? on"
    r"|未开售|没(?:有)?开(?:售|卖)|没到开售|还?不能(?:买|拍|下单)|暂(?:时)?(?:未|不能)(?:开售|买|拍)|"
    r"预热|开售时间|等(?=\d{1,4}[年月])|才(?:能|"
    r"开)(?:买|卖|售|拍)"
)
THERE: Final = re.compile(
    r"in stock|(?:is|are|'s|still|also|be|now|yes it's) (?:now |still |also )?available|"
    r"available (?:now|again|today)|(?:is|(?<!you )are|'s) (?:here|left|ready)|"
    r"on the shel(?:f(?! life)|ves)|yes,? we do|"
    r"(?:still|do|we|'ve|yes|also)(?: do| still)? (?:have|got)(?! (?:to|a (?:lot|great)))(?: (?:it|that|"
    r"this|them|some|a few|a couple|plenty|one|\d+|lots))|(?:\d+|one|two|three|four|five|six|seven|"
    r"eight|nine|ten|a few|some|plenty|several|dozen|couple)(?: [a-z]+){0,3} (?:left(?! (?:our|"
    r"the|us|your))|remaining)|plenty"
    r"|(?:can|may|could)(?: still)? (?:buy|order|get|grab|purchase)(?: it| one| yours| the)|"
    r"go ahead and (?:order|buy|grab)|order (?:yours|it) now|(?:is|are|'s) on sale(?! (?:on|from|in))|"
    r"you're in luck|(?:grab|get) yours"
    r"|有(?:现)?货|(?<![没])有(?:的|哦|呢|哒)|还有(?:\d|几|一|两|货|现货|的|哦|吧|呢|很多|不少|点)|"
    r"现货|(?:可以|能|直接|放心|随便|赶紧|抓紧)(?:买|"
    r"拍|下单|购买|入手)|在售|库存(?:充足|有|还|很|\d|[一二两三四五六七八九十])|还?剩(?:\d|"
    r"[一二两三四五六七八九十几])|在的|还卖|还在卖|还有吧|"
    r"还有(?=\s*[。！,，!.]|\s*$)|就能下单|就(?:剩)?[\d一二两三四五六七八九十]+[件双条个盒瓶]"
)
COMES_BACK: Final = re.compile(
    r"(?:will|'ll|gonna|going to)(?: be)?(?: [a-z]+)? "
    r"(?:(?<!get )(?<!write )back(?! to you)|restock(?:ed)?|return|re-?stocked)|"
    r"back (?:in stock )?(?:on|in|next|by|this|soon|tomorrow)|restock(?:s|ing|ed)?(?: it)? (?:soon|on|"
    r"next|in|by|this|tomorrow)|comes? back (?:on|in|next|soon|tomorrow)"
    r"|(?:会|就|要|再|马上|下周[一二三四五六日天]?|明天|后天|过几天|月底|月初|"
    r"下个?月)[^，。,]{0,4}(?:补货?|重新上架|到货|返场|回货|上新)|补货(?:中|时间)"
)
BACK_KNOWN: Final = re.compile(r"back|restock|notify|补|到货|返场|回货")

# ------------------------------------------------------------------------------------- shipping

NO_SHIP: Final = re.compile(
    r"(?:not|n't|cannot|never|unable to|aren't able to|no longer)(?: [a-z]+){0,3} (?:ship|deliver|send|"
    r"mail|go (?:to|there)|be (?:sent|shipped)|reach|get (?:it|that|this))|(?:not|n't) serve|(?:outside|"
    r"not in|beyond)(?: [a-z]+){0,2} (?:delivery|shipping)|no (?:shipping|delivery)(?! (?:fee|cost|charge))|excluded"
    r"|不(?:能|可以|可)?(?:发|寄|配送|送)(?!票)|[发寄送]不[了到]|不(?:支持|在)[^，。]{0,6}(?:发|寄|"
    r"配送|地区|范围)?|无法(?:发|寄|配送|送)|暂不|"
    r"没(?:有)?开通|未开通|到不了|暂时没法"
)
SHIPS: Final = re.compile(
    r"(?:we|it|this|they|that|can|does|do|also|happily|could|will|'ll)(?: [a-z]+){0,2} (?:ship|deliver|"
    r"send|mail)s?|(?:ships|delivers) (?:to|there|fine)|can(?: [a-z]+){0,2} get it (?:to|there)|"
    r"is (?:no|not a) problem|no problem|yes we do"
    r"|(?:能|可以|可|也|都|会|支持)(?:发|寄|配送|送到?)(?!票)|发的|能到|没问题|包邮|(?<![不])发(?:货到|往)|寄得到"
)
FREE_SHIPPING: Final = re.compile(
    r"(?:we|i)(?:'ll| will)? (?:cover|pay(?: for)?) (?:the |your |for )?(?:return )?(?:shipping|postage|delivery)|"
    r"free (?:[a-z]+ )?(?:shipping|delivery|postage)|(?:ships?|shipped|delivered) (?:for )?free|"
    r"(?:shipping|delivery|postage)(?: (?:to|on|for|costs?|there|it)(?: (?:the )?[a-z]+)?)?(?:'s| is|"
    r" are| will be)(?: (?:always|also|completely|totally))? (?:free|on us|on the house|nothing)|"
    r"nothing for (?:the )?(?:shipping|delivery|postage)|no (?:shipping|delivery) (?:cost|fee|charge)s?"
    r"|(?<!不)(?<!非)包邮|(?<!不)免(?:运|邮)费?|不(?:用|需要?|收)(?:付|出)?(?:运|邮)费|(?:运|"
    r"邮)费(?:是|为)?(?:0|零|免)"
)
NOT_FREE: Final = re.compile(r"不包邮|不免邮|(?:not|n't|isn't) free")
FREE: Final = re.compile(
    r"^\W*(?:totally |completely |all )?free(?= for|\s*[,.!]|\s*$)|(?:is|are|'s|it's|all|completely|"
    r"totally|always|absolutely)(?: (?:all|totally|completely|absolutely|always|also|now|still|really|"
    r"just|entirely))? free(?! (?:of|from|shipping|to|standing|returns?|delivery|size))(?![a-z-])|"
    r"for free|(?:全部|都是?|统统|是|完全)免费|免费(?:的|哦|哈|送|拿|领)|不要钱|0元(?:拿|购|送)"
)

# ------------------------------------------------------------------------------------- yes and no

YES: Final = re.compile(
    r"^\W*(?:yes|yeah|yep|yup|sure|of course|absolutely|certainly|definitely|indeed|correct|right|"
    r"(?:they|it|we|you) (?:do|does|is|are|can|will)(?=[ ,.!]*(?:$|[,.!]))|是的|有的|有|可以|能|会|"
    r"对|对的|行|没问题|当然|"
    r"嗯|好的|支持)(?![a-z])"
)
NO: Final = re.compile(
    r"^\W*(?:no|nope|nah|not|never|unfortunately|sadly|better not|i'm afraid not|(?:they|it|we|"
    r"you) (?:don't|doesn't|isn't|aren't|can't|won't)|没有?|不(?!到|好意思|过|仅|错)|不行|不可以|"
    r"不能|不建议|无|别|"
    r"[一-鿿]不了)(?![a-z])"
)
POLITE: Final = re.compile(
    r"^\W*(?:sorry|hi|hey|hello|well|oh|hmm|dear|thanks|good question|抱歉|不好意思|宝子?|亲|亲亲|"
    r"哈喽|您好|你好|家人们|"
    r"好像是?|应该|感觉)[\s,，!！.。~]*"
)
WORKS: Final = re.compile(
    r"(?:works?|applies|apply|takes?|gives?|valid|stacks?|use(?:d|s)? it|can (?:be )?used?|drops? to|"
    r"with the [a-z]+ coupon)(?![a-z])|(?:能|可以|可)(?:用|叠加|再)|还能|再打|能减|用上|用券之?后|券后|抵扣|再减"
)
COUPON: Final = re.compile(r"coupons?|codes?|vouchers?|(?<![a-z])券|优惠码|(?<![a-z])[a-z]{3,}\d{1,2}(?![a-z0-9])")

PROMOTION_OFF: Final = re.compile(
    r"no (?:deal|promotion|sale|offer|discount)s?|(?<![a-z])over(?! \$?\d)|ended|(?:not|n't|"
    r"hasn't)(?: [a-z]+){0,2} (?:started|on|running|active|begun|live)|no longer|not yet|start(?:s|"
    r"ing)? (?:on|at|in)|begins|expired|coming (?:up|soon)"
    r"|没有?(?:活动|优惠|促销)|结束|过了|还?(?:没|未)(?:有)?(?:开始|到)|不在|过期|(?:才|即将|"
    r"将)(?:开始|开启)|开始(?!了)"
)
PROMOTION_WORD: Final = re.compile(r"deal|promotion|offer|sale|discount|event|coupon|活动|优惠|专场|促销|券|折")
PROMOTION_ON: Final = re.compile(
    r"still (?:on|running|going|active|live|valid)|is (?:on|running|active|live)(?![a-z])|right now|"
    r"running|ongoing|还在|进行中|有效|正在|现在有|开始了|活动中"
)

# ------------------------------------------------------------------------------------- comparing

CHEAPER: Final = re.compile(
    r"cheaper|cheapest|costs? (?:a (?:bit|little) )?less|less expensive|lower[- ]priced|the lower price|"
    r"more affordable|更?便宜|价格更低|更实惠|更划算"
)
DEARER: Final = re.compile(
    r"costs? (?:a (?:bit|little) )?more|more expensive|pricier|dearer|costlier|(?<!昂)更?贵(?!重|宾)|价格更高"
)
EQUAL: Final = re.compile(
    r"(?:cost|price|are|both)(?: [a-z]+){0,3} the same|same price|equally (?:expensive|priced)|价格?(?:都|"
    r"是)?(?:一样|相同)|一个价|一样(?:的价|贵|便宜)"
)
THAN: Final = re.compile(r"(?<![a-z])(?:than|versus|vs|against|compared (?:to|with))(?![a-z])|比")
HEAVIER: Final = re.compile(r"heavier|weighs? more|更重|重(?:一些|一点)")
LIGHTER: Final = re.compile(r"lighter|weighs? less|更轻|轻(?:一些|一点)")
BIGGER: Final = re.compile(r"bigger|larger|holds more|更大|容量大")
SMALLER: Final = re.compile(r"smaller|holds less|更小|容量小")

# ------------------------------------------------------------------------------------- honesty and asking back

HONEST: Final = re.compile(
    r"(?:can't|cannot|can not|couldn't|unable to|not able to|am not able|don't|"
    r"do not)(?: [a-z']+){0,3} (?:check|look|see|find|confirm|get|reach|pull|access|know|have (?:that|"
    r"the|this))|(?:isn't|not|n't) (?:answering|responding|working|loading|available to me|coming up)|"
    r"(?:system|price|stock|lookup)(?: [a-z]+){0,3} (?:is |isn't |are )?(?:down|failing|slow|offline)|"
    r"ask (?:me )?again|try again|check (?:back|again) (?:later|soon|in)|a (?:little while|moment)"
    r"|查不(?:到|了|出)|查询不了|(?:无法|没法|没能|不能|暂时没)[^，。]{0,4}(?:查|确认|看到|获取)|"
    r"确认不了|看不到|系统[^，。]{0,6}(?:忙|故障|异常|慢|"
    r"不了|问题)|稍后|晚点再|没查到"
)
HANDS_OFF: Final = re.compile(
    r"colleague|(?:our|a|the) (?:team|staff|person|agent|human|support)|someone (?:from|will|on)|"
    r"customer service|take(?:s|n)? (?:this|it) over|hand(?:ing|ed)? (?:this|you|it)|人工|客服|同事|专人|后台|转接|"
    r"工作人员"
)
ASKS: Final = re.compile(
    r"[?？]|tell me|let me know|could you|can you|share|send me|give me|which|what's your|告诉我|说一?下|报一?下|"
    r"发一?下|讲一?下|留言|麻烦(?:您|你)|提供一?下"
)
ASKED_FOR: Final = {
    "size": re.compile(
        r"tall|height|weigh|weight|waist|chest|foot|feet|measure|hips?|usual size|usually wear|cm|kg|身高|体重|"
        r"腰围|胸围|脚长|多高|多重|三围|平时穿"
    ),
    "shipping": re.compile(
        r"where|which (?:state|country|region|city|area|province)|state|country|region|zip|city|destination|"
        r"哪[里儿]|哪个?(?:省|市|城市|地区|地方)|省|地区|城市|寄到|收货|发到|什么地方"
    ),
    "other": re.compile(r"which|what|who|how many|number|\bone\b|item|colou?r|size|哪|几号|什么|第几|颜色|尺码|多少"),
}  # fmt: skip
"""What a fitting question asks about, by what was left open."""
SORRY: Final = re.compile(r"sorry|apolog|understand|hear that|抱歉|对不起|不好意思|理解|添麻烦|歉意")

# ------------------------------------------------------------------------------------- what lists do not settle

STRICT: Final = re.compile(
    r"假一赔|全额|随时|终身|永久|无条件|全包|秒退|秒到|极速|闪电|立即|马上|包退|包赔|any ?time|"
    r"whenever|forever|lifetime|for life|"
    r"no[- ]questions|every penny|instant|guarantee|money[- ]back|for any reason|right away|immediately"
)
"""In a promise, words that a rule must hold itself: "refund" in a policy bears out no refund at any time."""
EXCEPTED: Final = re.compile(r"except|exclud|cannot|can't|not covered|are not|is not|除外|不在|不支持|不包|不可|不能")
STILL: Final = re.compile(
    r"(?<![a-z])(?:also|too|even|can be|are covered|is covered|returnable)(?![a-z])|也(?:能|可以|可|会|算)|"
    r"都(?:能|可以)|照样"
)
LOWER_END: Final = re.compile(
    r"(?:from|at least|earliest|as (?:little|soon|quick(?:ly)?) as|starting|minimum|最快|起码|至少|"
    r"最早)\s*(?:in |about )?$"
)
UPPER_END: Final = re.compile(
    r"(?:up to|within|at most|no more than|no later than|max(?:imum)?|under|最多|最慢|最晚|不超过|最长)\s*$"
)
UPPER_END_AFTER: Final = re.compile(r"\s*(?:at (?:the )?most|or less|max|之?内|以内|tops)")
ONLY: Final = re.compile(r"(?<![a-z])only(?! if)|nothing but|只能|只有|唯一")
SIZE_ADVICE_SKIP: Final = re.compile(r"[大小]一码|一码|comes in|available in|有[^，。]{0,6}码可选")
REFUSES: Final = re.compile(
    r"(?:we|i)(?: do| can)?(?:n't| not|not) (?:do|offer|have|provide|accept|give|take)|(?:we|i) have no|"
    r"there(?:'s| is| are) no(?! (?:need|problem))|(?:不提供|不支持|没有|不能|不可以|[一-鿿]不了)|(?:isn't|aren't|"
    r"not) (?:possible|available|offered|allowed|accepted)"
)
"""A service denied."""
NOT_SO: Final = re.compile(
    r"(?:it |they )?(?:does not|do not|doesn't|don't|is not|isn't|are not|no|not|不易|不会|不|没有|"
    r"无)\s?(?P<what>[^,，.。]+)"
)
"""A denying answer and what it denies."""
IDIOM: Final = re.compile(
    r"(?:a|one) (?:thousand|million|hundred|billion) (?:times|thanks|apologies|percent)|(?:thousand|"
    r"million) thanks|thumbs|百分百|千万(?:别|不|要)|万分|一百个(?:愿意|放心)"
)
"""Numbers that count nothing."""
MATTERS: Final = re.compile(
    r"\s?(?:张券|种|步|点|件事|个问题|个选择|(?:different )?(?:coupons?|discounts?|offers?|deals?|things?|options?|"
    r"ways?|steps?|choices?|questions?|reasons?|promotions?))"
)
"""What small counts may count without being a shop's figure."""
MEMBERS: Final = re.compile(r"member|club|会员")
BEST: Final = re.compile(
    r"the [a-z]+est(?: [a-z-]+){0,4} (?:in the (?:world|country|market|industry)|ever|on (?:the market|"
    r"earth)|anywhere|you (?:can|will|'ll) (?:ever )?find)|全(?:网|国|球|世界)最|史上最|宇宙(?:级|最)"
)
"""Superlatives beyond any shop's knowledge."""
RATING: Final = re.compile(r"(?<![a-z0-9])ip(?:x\d|\d{2})(?![0-9])")
"""Codes that are facts: ingress protection."""
MEMBERS_ONLY: Final = re.compile(r"only|仅限")
SHOP_TERM: Final = re.compile(
    r"(?<![a-z])(?:warranty|guarantee[ds]?|returns?|refund(?:s|ed)?|ship(?:s|ped|ping)?|deliver(?:y|ed|s)?)(?![a-z])"
    r"|质保|保修|退货|退换|退款|发货|包邮|运费"
)
"""Words by which a span or a count in small talk is a term of the shop."""
LEFT: Final = re.compile(r"(?<![a-z])(?:left|in stock|remaining)(?![a-z])|剩|库存")
HAVE: Final = re.compile(r"(?:we|i|we've|i've)(?: do| still| also)* (?:have|got|stock)(?! to)|(?<!没)有(?!没有)")
"""That with a variant's name says that it is there."""
OTHER_DOLLARS: Final = re.compile(
    r"(?<=[\d ])(?P<whose>canadian|australian|hong kong|singapore|new zealand|cad|aud|hkd|sgd|"
    r"nzd)(?: dollars?|(?<=d))(?![a-z])"
)
DOLLARS: Final = {"canadian": "CAD", "australian": "AUD", "hong kong": "HKD", "singapore": "SGD", "new zealand": "NZD"}
OVER_NOW: Final = re.compile(
    r"expired|(?:has |have |already )?ended|is over|no longer valid|(?<![a-z])over already"
    r"|已(?:经)?(?:结束|过期)|结束了|过期|失效|作废"
)
"""That a promotion is over; "结束" alone tells when it will be."""
EACH_COSTS: Final = re.compile(r"(?:costs?|pay|only|just|到手|只要|价)\s*$")
"""What stands before a price, so that "pay 4" is none of the pieces asked for."""
FINAL_SALE: Final = re.compile(r"sales? (?:is|are) final|no returns|概不退换|不退不换")
"""That nothing can be returned."""
OF_DATE: Final = re.compile(
    r" of (?:the (?:month|year|show|week)|\d{4}|january|february|march|april|may|june|july|august|"
    r"september|october|november|december)"
)
OR: Final = re.compile(r"\s*(?:or(?![a-z])|或者?|/|、|跟|和)")
