"""The acts by which a reply answers chat that asks nothing of the shop, and the words by which it is shop talk instead.

Patterns over straightened lower-case text, English and Chinese together, as in `livery.simulator.cues`. They name acts
(thanks, boundaries, refusals) rather than sentences, and are broad on purpose: what they miss is judged by
`livery.simulator.relevance` as talk. Nothing here judges.
"""

from __future__ import annotations

import re
from typing import Final

OPENERS: Final = re.compile(
    r"(?<![a-z])(?:good question|thanks for asking|thank you for asking|happy to tell you|glad you asked|"
    r"let me tell you|"
    r"i just checked|just looked it up|here you go|one moment|one sec|hold on|just a moment|good news)(?![a-z])"
    r"|刚查了|帮你看了|跟你说下|这个我查过|问得好|看到了|我看一眼|说一下哈|家人们听好|马上回答你"
)
"""Before an answer to anything: no thanks, and no gladness."""
FILLER: Final = re.compile(
    r"(?<![a-z])(?:okay|ok|alright|all right|by the way|btw|quick|yes|yeah|yep|no|nope|sure(?: thing)?|of course|"
    r"got it|"
    r"will do|right away|no problem|absolutely|certainly|definitely|so|well|right|done|a little patience|not yet|sadly|"
    r"unfortunately|also|and|but|please)(?![a-z'])"
    r"|宝子|亲亲?|好的|好嘞|收到|马上|没问题|明白|可以的?|不可以|是的|有的|没有|对的|不是|能的?|不能|行的?|嗯+|不过|"
    r"另外|顺便|"
    r"稍等|别急|请问"
)
"""A bare yes or no, and words that join: they say nothing by themselves."""

GREETING: Final = re.compile(
    r"(?<![a-z])(?:hello|hi|hey|heya|howdy|greetings|welcome|good (?:morning|evening|afternoon|day))(?![a-z])"
    r"|哈喽|你好|您好|大家好|欢迎|早上好|晚上好"
)
PARTING: Final = re.compile(
    r"(?<![a-z])(?:bye|goodbye|good night|see you|see ya|take care|sleep (?:tight|well)|sweet dreams|"
    r"come (?:by )?again|"
    r"come back|catch you|all the best|safe travels|drive safe|rest well)(?![a-z])"
    r"|晚安|再见|拜拜|慢走|回头见|下次见|明[天晚]见|好梦|早点休息|常来"
)
LAUGH: Final = re.compile(r"(?<![a-z])(?:(?:ha)+h?|lol|hehe|heh)(?![a-z])|哈哈+|嘿嘿|嘻嘻|笑死")
THANKS: Final = re.compile(r"(?<![a-z])(?:thanks?|thank you|thx|cheers|appreciate[ds]?|grateful)(?![a-z])|谢|感恩|多亏")
SORRY: Final = re.compile(r"(?<![a-z])(?:sorry|apolog[a-z]+|regret)(?![a-z])|抱歉|对不起|不好意思|歉意|愧疚")
INVITES: Final = re.compile(
    r"(?<![a-z])(?:ask (?:me|away|if|about)|(?:any|your|more|other|the|keep)? ?questions?|let me know|tell me|"
    r"what (?:can|would|are|do|may|should) (?:i|we|you)|(?:want|like|love|fancy) to (?:hear|see|know)|looking for|"
    r"show you|help|here for|shout|say so|stay (?:a while|with us|tuned)|stick around|write if|if anything|"
    r"anything else|enjoy|pull up a chair|"
    r"make yourself at home|back to (?:the|our|business)|shall we|our (?:items|products)|the (?:items|products|show))"
    r"(?![a-z])"
    r"|问我|来问|接着问|继续问|再问|尽管问|随时(?:问|说|找)|想(?:看|了解|知道|问|要|买)|看看|看货|看商品|介绍|告诉我|"
    r"跟我说|打在|弹幕|"
    r"继续看|接着聊|接着看|回到|说回|说说(?:货|商品)|玩得开心"
)
"""An invitation, an offer of help, the way back to the show."""

SMALL: Final = re.compile(
    r"(?<![a-z])(?:i'm an? (?:ai|bot|robot|host|virtual|digital)|i am an? (?:ai|bot|robot|host|virtual|digital)|"
    r"nice to (?:meet|see|have)|(?:good|lovely|nice|great|glad|happy) (?:to|you)|glad you|how (?:are|about) you|"
    r"and you|yours\?|(?:yes,? )?i am(?=[,.!]|$)|(?:doing|going|feeling) (?:great|good|fine|well|lovely|ok)|"
    r"thanks for (?:dropping|stopping|being|"
    r"joining|coming|watching))"
    r"|在呢|(?<!现)在[的哦](?=[，。！!,.~～哦呀呢]|$)|我是(?:啊|呀|的|哦|ai|数字人|机器人|主播|真人|虚拟)|高兴(?:见|认识)|你呢|您呢|捧场|陪(?:伴|大家|"
    r"你)|来坐坐"
)
PRAISE: Final = re.compile(
    r"(?<![a-z])(?:(?<!what )kind(?:ness)?|sweet(?:est)?|lovely to hear|means (?:a lot|so much|the world)|(?:so |"
    r"really |very )?"
    r"(?:glad|happy|pleased|delighted|thrilled|touched|flattered|honou?red)|made my (?:day|evening|night)|smile|"
    r"blush(?:ing)?|aw+|love you|you (?:rock|too|all)|warms?|heart|do my best|doing my best|credit|compliment)(?![a-z])"
    r"|过奖|夸|表扬|开心|高兴|暖|爱你|爱了|比心|么么|嘴(?:真)?甜|害羞|努力|加油|再接再厉|认可|[的你们]支持|"
    r"[的你们]喜欢|喜欢就好|值了|美滋滋|你真好|动力"
)
DEFLECTS: Final = re.compile(
    r"(?<![a-z])(?:outside my|not (?:really )?(?:my|a topic|for me|something i|one for me|the place)|isn't (?:my|for)|"
    r"not for (?:this|here)|leave (?:that|this|it|politics|those|the)|(?:one )?for another|only (?:the|a) host|"
    r"no (?:idea|clue|crystal|opinion|comment)|(?:can't|couldn't|cannot|could not|wouldn't) (?:really )?(?:say|tell|"
    r"help)|"
    r"hard to say|beyond me|above my|i (?:don't|do not) (?:do|know|follow|discuss|talk)|not sure|who knows|"
    r"your (?:call|choice|guess)|"
    r"up to you|ask (?:a|an|your|someone)|see a doctor|good one|fun thought|stay (?:with|out)|stick (?:to|with)|"
    r"keep to|let's (?:get|go|talk|look|focus|see|stay)|let us (?:get|go|talk|look)|back to (?:the|our)|shall we|"
    r"if i knew|wish i knew|i wish|here (?:we|i) talk|here for the shop|change the subject|another topic|"
    r"secret)(?![a-z])"
    r"|不归我|说不准|不聊|不谈|不懂|不会(?=算|唱|写|跳|做|猜|说|聊|[，。！哦呀啦哈~]|$)|不敢|不知道|不清楚|不晓得|"
    r"不好说|不了解|不擅长|我(?:可|真|也)?不行|不太行|猜不|算不|看不(?:出|懂|见)|"
    r"没研究|帮不上|只(?:会|懂|聊|卖)|留给|先放|换个话题|题外话|说回|回到|还是(?:看|聊|说|先)|先看看|看货|看商品|聊货|"
    r"咱们(?:还是|看|说|聊)|问(?:医生|专家|别人)|去医院|保密|秘密"
)
BOUNDARY: Final = re.compile(
    r"(?<![a-z])(?:friendly|kind(?:ly|ness)?|nice(?:ly)?|respect(?:ful|fully)?|polite(?:ly)?|civil|calm|decent|"
    r"language|not cool|rude|hurt(?:s|ful)?|unkind|no hard feelings|hard feelings|let's keep|let us keep|keep (?:it|"
    r"things|"
    r"this)|not okay|won't (?:take|answer|respond|engage)|you feel that way|good vibes|take a breath|move on|"
    r"no need for)"
    r"(?![a-z])"
    r"|文明|友善|友好|和气|客气|尊重|好好(?:说|聊)|礼貌|(?:别|莫|不)生气|消消?气|不吵|别吵|别骂|骂人|冷静|息怒|理解|"
    r"没关系|"
    r"素质|包容|温柔|和睦|和谐|注意(?:言辞|用语)"
)
REFUSES: Final = re.compile(
    r"(?<![a-z])(?:(?:can't|cannot|can not|couldn't|won't|will not|wouldn't|not going to|not able to|unable to|never|"
    r"don't|do not|not something (?:i|we)|nothing i)(?: [a-z']+)? (?:say|do (?:that|this)|share|reveal|tell|claim|"
    r"announce|promise|"
    r"print|repeat|follow|play|change|discuss|agree|confirm|pretend|recite|talk)|"
    r"(?:nice|good) try|no (?:way|chance|can do)|not happening|(?:stay|stick|keep|stand) (?:with|to|by)|go by|"
    r"only (?:say|"
    r"speak|tell|go)|(?:stays?|is|are|that's|keep(?:ing)? (?:it|that|those)) (?:private|secret|confidential|internal|"
    r"between us)|"
    r"not (?:true|so|possible|allowed|free|right|how)|isn't (?:true|so|possible|free|right)|nothing is free|"
    r"real (?:prices?|offers?|terms?)|true prices?|(?:page|shop)(?:'s own pages| says| shows| counts?)|"
    r"what the (?:page|shop) (?:says|shows|offers|has)|own pages)(?![a-z])"
    r"|不能(?:说|讲|改|这么|答应|乱|透露|告诉|照|念|给)|不(?:说|讲|念|透露|照做|答应|乱说|能这样)|可不(?:能|敢|行)|"
    r"不行|"
    r"没(?:法|办法)(?:说|答应|照|做)|不方便|不便|保密|秘密|机密|内部|以页面|看页面|页面(?:上)?的?(?:为准|价)|没用|"
    r"别逗|别闹|"
    r"规矩|原则|做不到|办不到|拒绝|只(?:说|讲)|真实|实话|瞎说|乱说|乱讲|骗人|不骗"
)
CARES: Final = re.compile(
    r"(?<![a-z])(?:colleagues?|(?:our|a|the|my) (?:team|staff|person|human|manager|agent|support)|someone|somebody|"
    r"handl(?:e|ing) (?:it|this|that)|sort(?:ing)? (?:it|this|that|things)|look(?:ing)? into|make (?:it|this) (?:right|"
    r"up)|take(?:s|n)? (?:it|this|that)? ?over|taking (?:it|this|that) over|in touch|contact|reach out|i hear you|"
    r"hear that|understand(?:able)?|frustrat(?:ing|ed)|upset(?:ting)?|(?:that's|this is|it's) on us|our (?:fault|"
    r"mistake|"
    r"bad)|let you down|not (?:ok|okay|acceptable|how)|should(?:n't| not) happen|compensate|refund|replace(?:ment)?|"
    r"photo|call me|get well|doctor|stop using)(?![a-z])"
    r"|同事|客服|专人|人工|主管|店长|处理|跟进|联系|解决|理解|我们的(?:错|问题|疏忽)|委屈|添(?:了)?麻烦|久等|心情|生气|"
    r"退款|退给|补发|补寄|换新|拍照|反馈|转(?:给|交|接)|喊人|叫人|来人|医院|停用|核实|负责"
)

SHOP: Final = re.compile(
    r"(?<![a-z])(?:in stock|out of stock|no stock|stock|sold out|all gone|nearly gone|available|unavailable|"
    r"left(?! that|"
    r" it)|price[sd]?|costs?|cheaper|dearer|discounts?|coupons?|vouchers?|codes?|deals?|promotions?|on sale|"
    r"off(?= today)|"
    r"ship(?:s|ped|ping)?|deliver(?:y|s|ed)?|postage|warranty|guarantee|returns?|returned|returnable|refunds?|exchange|"
    r"sizes?|fits?|runs (?:small|large|true)|material|fabric|cotton|nylon|wool|leather|weighs?|made of|comes in|"
    r"capacity|"
    r"watts?|grams?|go ahead and order|order (?:now|it|yours)|for sale|sold|discontinued|working days?|\d days?|"
    r"offers?|"
    r"what runs|shop writes|runs? (?:right )?now|on file|fragrance|ingredients?|item page|product page)(?![a-z])"
    r"|库存|现货|有货|没货|无货|缺货|售罄|卖完|卖光|没了|快没|下架|在售|开售|上架|补货|剩\d|还剩|仅剩|到手|券|优惠|"
    r"满减|折扣|"
    r"活动|专场|价格|售价|原价|元(?![旦宵素])|块钱|发货|包邮|运费|邮费|发不了|不发|能发|退货|可以退|能退|退换|无理由|"
    r"换货|质保|保修|"
    r"尺码|码数|偏大|偏小|材质|面料|纯棉|重\d|克重|容量|功率|拍下|放心拍|抓紧拍|下单|链接|店里的回答|资料里|它|"
    r"[这那该本]款|\d天|\d个?工作日"
)
"""Words of stock, price, shipping, rules and specifications."""

ASKS_SHOP: Final = re.compile(
    r"(?:which|what) (?:[a-z]+ ){0,3}(?:do|did|are) you mean|do you mean|did you mean|which (?:state|region|country|"
    r"city|"
    r"area)|(?:what|which) (?:item|one|link|product)(?! (?:would|can|shall|should|may|do you (?:like|want)))|"
    r"link number|"
    r"(?:your|the) (?:state|city|region|province|area|country|postcode|zip)|where (?:should|to|do|does|"
    r"would)(?: [a-z]+){0,3} (?:go|ship|send|deliver)|how tall|your (?:height|weight|waist|chest|foot|measure|"
    r"usual size)|you weigh"
    r"|(?:说|指|问)的?是(?:哪|几|\d)|寄到|发到|哪个?(?:省|市|城)|省份|地区|几号|报个?号|"
    r"(?<!想看)(?<!了解)(?<!喜欢)哪一?[款个件双]|"
    r"收货|身高|体重|多高|多重|腰围|胸围|脚长"
)
"""Questions that belong to a question of the shop: which item, where to, what measures."""

CANNOT: Final = re.compile(
    r"(?:can't|cannot|can not|couldn't|could not|unable to|not able to)(?: [a-z']+){0,2} (?:check|find (?:that|it|"
    r"this)|"
    r"look (?:that|it|this)|see (?:that|it|this)|get (?:that|it|this))|look-?up"
    r"|查不(?:到|了|出)|没查到|查询|系统[^，。]{0,6}(?:忙|慢|不了|故障|异常)"
)
"""A look-up that failed, which nothing here needs."""
PRONOUN: Final = re.compile(
    r"^(?:yes|no|so|well|sorry|sadly|okay|also)?[\s,]*(?:it|they|this one|that one) (?:is|are|has|have|can|does|do|"
    r"comes?|"
    r"fits?|works?|holds?|takes?|contains?|needs?|will|usually)(?![a-z])"
)
"""Begins a sentence about "it": of a product, where the chat named nothing."""
SELF: Final = re.compile(r"(?<![a-z])(?:i|i'm|i'd|i'll|i've|me|my|mine)(?![a-z])|我|咱")
COMMON: Final = frozenset(
    re.findall(
        r"\w\S*",
        "the and you your are what this that for with say tell now not all how who can please today tonight just from "
        "have has was were will would should there here about anyone everyone host show stream link item number price "
        "free one dollar our its it's they them yes",
    )
)
"""English words that two texts may share without speaking of one thing."""
COMMON_HAN: Final = re.compile(
    r"主播|大家|今天|今晚|直播|这个|那个|什么|怎么|链接|商品|一个|可以|不是|没有|我们|你们|咱们|就是|现在|价格|告诉|\d"
)
