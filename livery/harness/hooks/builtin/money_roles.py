"""What an amount of money is: what is paid, a list price, what comes off, or what must be spent first.

A result's amounts have their role from their field's name, those in texts from the words around them; a reply's
are read by the same words. `READS_AS` says which roles bear out which reading. No more is read than the words next
to an amount in its own clause: "$5 off" and "满300减40", not a sentence that says it from afar. What nothing marks
is a price, since that is how a listener hears it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal, cast

from livery.harness.quantities import Quantity, quantities_of, read_quantities
from livery.types import JSON

Role = Literal["price", "list", "variant", "fee", "off", "floor", "gap"]
"""``price`` is what is paid, ``list`` the list price, ``variant`` another variant's, of which it is not said what
is paid, ``fee`` what is paid besides; ``off`` what comes off, is saved or differs, and the most that may; ``floor``
what an order must reach; ``gap`` what is missing to that."""

_PRICE_LIKE: frozenset[Role] = frozenset({"price", "list", "variant", "fee"})
READS_AS: Mapping[Role, frozenset[Role]] = {
    "price": _PRICE_LIKE,
    "list": _PRICE_LIKE,
    "fee": _PRICE_LIKE,
    "variant": _PRICE_LIKE,
    "off": frozenset({"off", "gap"}),
    "floor": frozenset({"floor", "gap"}),
    "gap": frozenset({"gap", "off", "floor", "fee"}),
}
"""Reading of an amount in a reply -> roles of facts that bear it out."""

_KEYS: tuple[tuple[Role, re.Pattern[str]], ...] = (
    ("variant", re.compile(r"^variant_(?:list_)?prices?$")),
    ("list", re.compile(r"(?:^|_)(?:list|original|regular|market|was|rrp|msrp|retail)(?:_|$)")),
    (
        "off",
        re.compile(
            r"(?:^|_)(?:off|sav(?:ed?|es|ings?)|discounts?|reduction|rebate|less|cheaper|difference|cap)(?:_(?!price)|$)"
        ),
    ),
    (
        "floor",
        re.compile(
            r"(?:^|_)(?:threshold|free_over|free_from|min(?:imum)?_(?:spend|order|total|amount|purchase)|least_order)(?:_|$)"
            r"|^(?:minimum|spend|over)$"
        ),
    ),
    ("gap", re.compile(r"(?:^|_)(?:short|short_by|missing)(?:_|$)")),
    ("fee", re.compile(r"(?:^|_)(?:fees?|surcharge|shipping|postage|deposit)(?:_|$)")),
    ("price", re.compile(r"(?:^|_)(?:prices?|total|subtotal|cost|amount_due)(?:_|$)")),
)

_FILL = (
    r"(?:\s|\b(?:you|us|me|up to|comes? to|adds? up to|about|around|exactly|just|only|over|nearly|almost|another|an?"
    r"|the|extra|additional|more|total|of|is|was|by|everyone|folks|amounts? to|them|each|there|here|your|full|whole)\b"
    r"|\boff\b|:|=)*$"
)
_OFF_BEFORE = re.compile(
    rf"(?:\bsav(?:e|es|ed|ing|ings)\b|\bkeep(?:s|ing)?\b|\bpocket(?:s|ing)?\b|\b(?:knock|tak|shav|deduct|subtract)(?:e|es|s|ed|ing)?\b|\bminus\b"
    rf"|\b(?:cheaper|less|down|lower|reduced|drops?|cut) by\b|\bdifference\b){_FILL}|\bby\s*$"
    r"|\b(?:coupon|voucher|code)s? (?:is |are |that's )?(?:good |worth )+(?:for )?\s*$|\boff\s*[:=]\s*$"
    r"|\b(?:at most|up to|capped at|cap(?: of| is)?|maximum(?: of| is)?|max\.?)\s*$"
    r"|(?:(?<!用)券|(?<![至多])少|降(?!到|至)|立减|直减|减免|减价?|立省|节省|省下?|便宜|贵|优惠(?!价|后)|抵扣|抵|扣|降价?|少付|少花|返现?"
    r"|红包|最多|最高|封顶|差价|相差)(?:了|掉|下|您|你|大家|咱们?|出|整整|足足|一共|总共|共|合计|差不多|大约|约|的|是|为|金额|[:：=]|\s)*$",
    re.I,
)
_DISCOUNT = re.compile(
    r"\b(?:discounts?|coupons?)\s*(?:of|is|:|=|comes to|worth|for|at)\s*(?:an? |about |just )*$", re.I
)
_AFTER_IT = re.compile(r"\b(?:with|after|including|before|without|using|and)(?: [a-z0-9%]+){0,4}\s*$", re.I)
"""Before "coupon is $20": it is no longer the coupon that is spoken of."""
_OFF_AFTER = re.compile(
    r"\s*(?:bucks?|dollars?)?\s*(?:(?:is|are|comes?|goes|gets?|taken|knocked|straight|right|instantly|more|extra|instant|total"
    r"|in|you|of|will be|worth of)\s+)*"
    r"(?:off\b|discounts?\b(?! price)|savings?\b|saved\b|cheaper\b|less\b|back\b|rebate\b|reduction\b"
    r"|difference\b|(?:that )?you(?:'re|'ll)? (?:sav|keep)"
    r"|(?:(?!(?:with|after|using|plus|and|no|before|minus|less|for|in|from|on|at|when|if|once|without|or|but|the|a|an|your"
    r"|this|that|our) )[a-z]+ )?(?:coupon|voucher)\b(?! price| included| applied| in\b))"
    r"|\s*[元块]?钱?的?(?:无门槛|大额|专享|新人|直播间?|店铺|会员|满减|现金|抵用|代?金|立减|消费|优惠)*"
    r"(?:券|优惠|红包|折扣|抵扣|减免|补贴|差价)(?!价|后|到手|前|力度|以后|之后)",
    re.I,
)
_FLOOR_BEFORE = re.compile(
    r"\b(?:orders?|purchases?|baskets?|carts?|total|bill|shopping|anything)\b(?: [a-z]+){0,2}? (?:over|above|from"
    r"|at least|past|more than|under|below|less than|reach(?:ing|es)?|hits?|exceed(?:s|ing)?|starting at)"
    r"\s*(?:at least )?$"
    r"|\b(?:orders?|purchases?) of(?: at least)?\s*$"
    r"|\bspend(?:s|ing)?(?: (?:at|least|over|above|more|than|just|only|about|another|an|extra|up|to|a|total|of))*\s*$"
    r"|\bminimum\b(?: (?:order|spend|purchase|total|of|is|for|the|coupon|basket|amount|on))*\s*[:=]?\s*$"
    r"|\bminimum (?:order|spend|purchase)\b[^.,;]{0,24}\bis\s*$"
    r"|\b(?:at least|over|above|no less than|more than|past|beyond)\s*$"
    r"|\b(?:least order|threshold|free_over)\b(?: (?:for|the|that|this|coupon|is|of|at))*\s*[:=]?\s*$"
    r"|\b(?:short|shy) of(?: the| that| your)?\s*$"
    r"|\bevery\s*$|\b(?:reach|hit)(?:es|ing|s)?\s*$"
    r"|\bfree (?:shipping|delivery|postage)\b(?: [a-z]+){0,4}? (?:at|over|from|above|past|on|beyond|of)\s*$"
    r"|(?:\boff\b|%|\bdiscount|\bcoupons?|\bcode|\binstal{1,2}ments?|\busable|\bfree|\bshipping)[^.,;!?$]{0,24}\bfrom\s*$"
    r"|\b(?:kicks? in|appl(?:y|ies)|works?(?! out)|valid|usable)(?: [a-z]+){0,2}? (?:at|from|for)\s*$"
    r"|(?:满|凑到?|(?<!足)够|消费|达到?|超过|门槛|至少|起步)(?:了|到|够|的|是|为|个|额|金额|至少|[:：=]|\s)*$",
    re.I,
)
_FLOOR_AFTER = re.compile(
    r"\s*(?:bucks?|dollars?)?\s*(?:minimum\b|min\b|or more\b|and (?:up|over|above)\b|threshold\b|or over\b|\+"
    r"|(?:gets?|unlocks?|earns?)\b(?: you)? free\b)"
    r"|\s*[元块]?钱?(?:以上|起(?:用|减|享|包邮|可)|门槛|才能|可以?用|可减|免邮)",
    re.I,
)
_MINIMUM = re.compile(r"\s*(?:bucks?|dollars?)?\s*(?:minimum|min|threshold)\b|\s*[元块]?钱?门槛", re.I)
_FLOOR_OR_PRICE = re.compile(r"\s*(?:bucks?|dollars?)?\s*orders?\b|\s*[元块]?钱?就?[立再直]?[减降]", re.I)
"""After an amount: "a $40 order", "300减40"."""
_GAP_BEFORE = re.compile(
    r"\b(?:needs?|short(?: by)?|missing|add|another)(?: (?:just|only|about|another|you|to|spend|an|extra|add|is))*\s*$"
    r"|(?:还差|(?<!相)差|再买|再凑)(?:个|了|\s)*$",
    re.I,
)
_GAP_AFTER = re.compile(r"\s*(?:bucks?|dollars?)?\s*(?:more\b|short\b|shy\b|away\b|to go\b)", re.I)
_OFF_OF = re.compile(
    r"(?<!take )(?<!takes )(?<!knock )(?<!knocks )(?<!taking )\boff(?: (?:of|on|for|from|at|over|when|you|spend|buy"
    r"|every|an?|orders?|any|if|your|the|its|that|list|regular|price))*\s*$",
    re.I,
)
"""Before an amount from which another is taken: a threshold in terms ("$8 off $80"); in a reply perhaps a price."""
_LIST_BEFORE = re.compile(
    r"\b(?:list(?:ed)?(?: price)?|was|regular(?:ly)?|usually|normally|originally|retail|instead of|down from)"
    r"(?: (?:is|of|at|price|for|just))*\s*[:=]?\s*$"
    r"|(?:原价|划线价?|平时|日常价?|吊牌价?|标价|市场价)(?:是|为|卖|要|[:：]|\s)*$",
    re.I,
)
_SAID_PRICE = re.compile(
    r"(?:\bit'?s|\bcosts?|\bpay|\bpaying|\bit is|\bthat'?s|\bcomes to|\bgoes for|\bpriced(?: at)?|\bprice(?: is|'s)?)"
    r"\s+(?:just |only |now |still )*"
    r"(?:at least|over|above|up to|at most|from|more than|past|under|below|less than)?\s*$"
    r"|(?:(?<![差降减])价|(?<!少)付|卖|到手|只要|售)(?:是|为|了|要|最多|最高|超过|至少|个|[:：]|\s)*$",
    re.I,
)
_SAID_OFF = re.compile(r"\b(?:savings?|discount|difference|coupon)\b[^.,;]{0,12}\bcomes to\s*$", re.I)
_OPEN = re.compile(
    r"^from\s*$|\bget to\s*$"
    r"|(?<!if )(?<!when )(?<!once )(?<!unless )\byou(?:'d|'ll| would| will)?(?: only| just)? spend(?: only| just)?\s*$",
    re.I,
)
_CODE_WORTH = re.compile(r"\b[A-Z]{3,}\d* (?:(?:is|is worth|is good for|gives|takes|saves)(?: you| off)? ?)+$")
_OFF_OR_PRICE = re.compile(
    r"\boff[,:;]? (?:that's|that is|which is|or|so)(?: about| just| only)?\s*$|\b[A-Z]{3,}\d* for\s*$"
)
"""Before an amount in a reply: "8% off, that's $5.39", "HELLO5 for $5"."""
_FROM, _TO = re.compile(r"\bfrom\s*$|从\s*$", re.I), re.compile(r"\s*[元块]?(?:(?:down )?to\b|降|减?到|变)", re.I)
_CLAUSE = re.compile(r"[.!?](?=\s|$)|[,;()\n。！？；，（）、]")
_ONLY: dict[Role, frozenset[Role]] = {role: frozenset({role}) for role in READS_AS}
_FLOOR_PRICE: frozenset[Role] = frozenset({"floor", "price"})
_OFF_PRICE: frozenset[Role] = frozenset({"off", "price"})
_REACH = 48
"""Characters before an amount, and behind it, that are looked at."""
_LISTED = re.compile(
    r"(?<![a-z])(?:list(?:s|ed)?|was|were|usual(?:ly)?|normal(?:ly)?|regular(?:ly)?|instead of|rather than|down from"
    r"|before|original(?:ly)?|full price|retail|used to|without|otherwise|struck|crossed)(?![a-z])"
    r"|原价|划线|划掉|平时|日常|原来|原本|本来|吊牌|定价|标价|市场价|专柜|门市|之前|以前|券前|活动前|不用券|正价|恢复",
    re.I,
)
_NOW = re.compile(
    r"\b(?:now|today|tonight|currently)(?:,? (?:it's|it is|they're|at|for|only|just|is|you pay))*,?\s*$"
    r"|(?:现在|今天|今晚|到手|券后|实付)(?:只要|只|是|价|要|卖|付)*\s*$",
    re.I,
)


def is_called_listed(text: str, q: Quantity) -> bool:
    """Whether words near the amount say that it is no more than the list price."""
    start = max(0, q.start - _REACH)
    if _NOW.search(text[start : q.start]):
        return False
    return _LISTED.search(text, start, q.end + _REACH // 2) is not None


def is_called_price(text: str, q: Quantity) -> bool:
    """Whether the words right before the amount say that it is a price."""
    return _SAID_PRICE.search(text[max(0, q.start - _REACH) : q.start]) is not None


def readings(text: str, q: Quantity, *, said: bool = False) -> frozenset[Role]:
    """What the amount at ``q`` in ``text`` is, by the words next to it.

    Args:
        said: a reply's words, which may leave more than one reading open; terms of a shop do not.
    """
    if "off" in q.text.casefold():
        return _ONLY["off"]
    before, after = text[max(0, q.start - _REACH) : q.start], text[q.end : q.end + _REACH]
    breaks = [m.end() for m in _CLAUSE.finditer(before)]
    before = before[breaks[-1] :] if breaks else before
    if said and _OFF_OR_PRICE.search(text, max(0, q.start - _REACH), q.start):
        return _OFF_PRICE
    if _LIST_BEFORE.search(before) or (_FROM.search(before) and _TO.match(after)):
        return _ONLY["list"]
    if _OFF_AFTER.match(after) or _SAID_OFF.search(before):
        return _ONLY["off"]
    if _SAID_PRICE.search(before):
        if _MINIMUM.match(after):
            return _ONLY["floor"]
        return _ONLY["gap"] if _GAP_AFTER.match(after) else _ONLY["price"]
    if _OFF_OF.search(before):
        return _FLOOR_PRICE if said else _ONLY["floor"]
    if _FLOOR_AFTER.match(after):
        return _ONLY["floor"]
    if _GAP_BEFORE.search(before) or _GAP_AFTER.match(after):
        return _ONLY["gap"]
    if said and _OPEN.search(before.lstrip()):
        return _FLOOR_PRICE
    if _FLOOR_BEFORE.search(before):
        return _ONLY["floor"]
    if _FLOOR_OR_PRICE.match(after):
        return _FLOOR_PRICE if said else _ONLY["floor"]
    discount = _DISCOUNT.search(before) or _CODE_WORTH.search(before)
    if _OFF_BEFORE.search(before) or (discount and not _AFTER_IT.search(before, 0, discount.start())):
        return _ONLY["off"]
    return _ONLY["price"]


Amount = tuple[int | float | str, str]
"""A money quantity's value and unit."""


def roles_of(value: JSON) -> dict[Amount, frozenset[Role]]:
    """Roles of the amounts in a typed result."""
    found: dict[Amount, set[Role]] = {}
    for q, roles in _walk(value, "price", ""):
        found.setdefault((q.value, q.unit), set()).update(roles)
    return {amount: frozenset(roles) for amount, roles in found.items()}


def _walk(value: JSON, inherited: Role, currency: str) -> Iterator[tuple[Quantity, frozenset[Role]]]:
    if isinstance(value, str):
        for q in read_quantities(value):
            if q.kind == "money":
                roles = readings(value, q)
                yield q, frozenset({inherited}) if roles == _ONLY["price"] else roles
    elif isinstance(value, list):
        for v in value:
            yield from _walk(v, inherited, currency)
    elif isinstance(value, dict):
        own = value.get("currency")
        currency = own if isinstance(own, str) else currency
        if currency == own and isinstance(value.get("amount"), int):
            for q in quantities_of(value):
                if q.kind == "money":
                    yield q, frozenset({inherited})
            return
        for k, v in value.items():
            role = _role_of_key(k) or inherited
            if isinstance(v, dict | list | str):
                yield from _walk(v, role, currency)
            elif v is not None and not isinstance(v, bool):
                typed: dict[str, JSON] = {k: v}
                if currency:
                    typed["currency"] = currency
                for q in quantities_of(cast(JSON, typed)):
                    if q.kind == "money":
                        yield q, frozenset({role})


def _role_of_key(key: str) -> Role | None:
    low = key.casefold()
    return next((role for role, pattern in _KEYS if pattern.search(low)), None)
