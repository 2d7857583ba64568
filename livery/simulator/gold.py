"""Gold facts: what a right answer says, typed, taken out of the results of the real operations.

Each function reads one operation's result and gives the facts of an answer to one kind of question, required
ones first. A fact's value has the form of `livery.harness.quantities.Quantity`. Nothing is worked out here
that an operation did not answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

from livery.harness.quantities import quantities_of, read_quantities
from livery.simulator.task import GoldFact

Result = Mapping[str, Any]

_KINDS = ("money", "percent", "count", "measure", "size", "date", "duration")

_STATUS_WORDS: dict[str, tuple[str, ...]] = {
    "sold out": ("sold out", "out of stock", "none left", "all gone"),
    "no longer sold": ("no longer sold", "discontinued", "no longer available", "not sold any more"),
    "not on sale yet": (
        "not on sale yet",
        "not out yet",
        "not available yet",
        "opens",
        "comes on sale",
        "goes on sale",
    ),
    "已售罄": ("售罄", "卖完", "没货", "卖光"),
    "已下架": ("下架", "不卖了", "停售", "不再出售"),
    "未开售": ("未开售", "还没开售", "没开售", "还没开卖", "开售"),
}
_IN_STOCK: dict[tuple[str, bool], tuple[str, ...]] = {
    ("en", True): ("in stock", "available", "left", "yes"),
    ("en", False): ("sold out", "out of stock", "none left", "not available", "no"),
    ("zh", True): ("有货", "还有", "现货", "能拍"),
    ("zh", False): ("没货", "售罄", "卖完", "没有了", "缺货"),
}
_PROMOTION: dict[tuple[str, bool], tuple[str, ...]] = {
    ("en", True): ("still on", "is on", "running", "yes"),
    ("en", False): (
        "no deal",
        "no promotion",
        "not on",
        "over",
        "ended",
        "not started",
        "no longer",
        "not yet",
        "starts",
    ),
    ("zh", True): ("还在", "有效", "进行中", "可以"),
    ("zh", False): ("没有活动", "没有优惠", "结束", "过了", "还没开始", "未开始", "不在", "没有", "开始"),
}
_SHIPS: dict[tuple[str, bool], tuple[str, ...]] = {
    ("en", True): ("ships", "ship there", "deliver", "yes"),
    ("en", False): (
        "does not ship",
        "do not ship",
        "cannot ship",
        "don't ship",
        "can't ship",
        "not ship",
        "no delivery",
    ),
    ("zh", True): ("可以发", "能发", "发货", "送到"),
    ("zh", False): ("不发", "发不了", "不能发", "暂不支持", "不支持", "送不到", "寄不了"),
}
_PLAIN = {"yes": True, "no": False, "none": False, "有": True, "是": True, "无": False, "否": False, "没有": False}
_HAS: dict[tuple[str, bool], tuple[str, ...]] = {
    ("en", True): ("yes", "it has", "it does", "comes with"),
    ("en", False): ("no", "it has no", "does not", "doesn't", "without", "none"),
    ("zh", True): ("有", "是的", "带"),
    ("zh", False): ("没有", "无", "不带", "不是"),
}
_YES = re.compile(r"yes\b|是的|可以|有的|能|带|方便", re.I)
_NO = re.compile(r"no\b|不|没", re.I)


def money(key: str, value: Any, item: str = "", *, required: bool = True) -> GoldFact:
    return GoldFact(key=key, kind="money", value=value["amount"], unit=value["currency"], item=item, required=required)


def day(key: str, value: Any, item: str = "", *, required: bool = True) -> GoldFact:
    """A moment's date in the store's time zone, as ``{"at": ISO}`` gives it."""
    return GoldFact(key=key, kind="date", value=value["at"][:10], item=item, required=required)


def yes_no(
    key: str, value: bool, words: Mapping[tuple[str, bool], tuple[str, ...]], language: str, item: str = ""
) -> GoldFact:
    return GoldFact(key=key, kind="yes_no", value=value, item=item, wordings=words[language, value])


def status(result: Result, item: str, *, required: bool = True) -> list[GoldFact]:
    """What its status is, where it cannot be bought, and when it opens."""
    if "status" not in result or result["status"] in ("on sale", "在售"):
        return []
    said = str(result["status"])
    facts = [
        GoldFact(key="status", kind="text", value=said, item=item, required=required, wordings=_STATUS_WORDS[said])
    ]
    if "on_sale_at" in result:
        facts.append(day("on_sale_at", result["on_sale_at"], item, required=required))
    return facts


def specification(result: Result, name: str, item: str, language: str) -> list[GoldFact]:
    """One specification: a measured one as its quantity, else its text."""
    return text_fact(f"specs.{name}", str(result["specs"][name]), item, language)


def text_fact(key: str, text: str, item: str, language: str, *, required: bool = True) -> list[GoldFact]:
    """A text as yes or no or as its one quantity where it is that ("420 g"), else as text."""
    if (plain := text.strip().casefold()) in _PLAIN:
        value = _PLAIN[plain]
        words = _HAS[language, value]
        return [GoldFact(key=key, kind="yes_no", value=value, item=item, required=required, wordings=words)]
    read = [q for q in read_quantities(text, language) if q.kind in (*_KINDS, "number")]
    if len(read) == 1 and len(read[0].text) >= 0.6 * len(text.strip()):
        # A bare number counts something that only the specification's name tells.
        kind = cast("Literal['measure']", "count" if read[0].kind == "number" else read[0].kind)
        return [GoldFact(key=key, kind=kind, value=read[0].value, unit=read[0].unit, item=item, required=required)]
    return [GoldFact(key=key, kind="text", value=text, item=item, required=required, wordings=(text,))]


def price(result: Result, item: str) -> list[GoldFact]:
    """The final price first; of a thing that cannot be bought its status."""
    gone = status(result, item)
    if "total" not in result:
        return gone
    facts = [*gone, money("total", result["total"], item, required=not gone)]
    if result["quantity"] > 1:
        facts.append(money("unit_price", result["unit_price"], item, required=False))
    if "saved" in result:
        facts.append(money("list_price", result["list_price"], item, required=False))
        facts.append(money("saved", result["saved"], item, required=False))
    for line in result.get("lines", ()):
        if "percent_off" in line:
            facts.append(_percent(line["percent_off"], item))
        facts.append(money("off", line["off"], item, required=False))
    if "ends_at" in result:
        facts.append(day("ends_at", result["ends_at"], item, required=False))
    if "in_stock" in result:
        facts.append(GoldFact(key="stock", kind="count", value=result["in_stock"], item=item, required=False))
    return facts


def promotions(result: Result, item: str, language: str) -> list[GoldFact]:
    """Any one of what runs now meets the question; what each gives may be said."""
    running = [p for p in (*result["promotions"], *result["coupons"]) if "starts_at" not in p]
    if not running:
        return [yes_no("promotion_active", False, _PROMOTION, language, item)]
    names = [str(p.get("name", p.get("code"))) for p in running]
    wordings = dict.fromkeys([*names, *(str(p["terms"]) for p in running)])
    facts = [GoldFact(key="promotion", kind="text", value=names[0], item=item, wordings=tuple(wordings))]
    for part in (*result["promotions"], *result["coupons"]):
        facts += promotion_terms(part, item)
    return _distinct(facts)


def promotion_terms(part: Result, item: str) -> list[GoldFact]:
    facts: list[GoldFact] = []
    if "percent_off" in part:
        facts.append(_percent(part["percent_off"], item))
    facts += [money(k, part[k], item, required=False) for k in ("price", "amount_off") if k in part]
    facts += [day(k, part[k], item, required=False) for k in ("starts_at", "ends_at") if k in part]
    return facts


def promotion_end(part: Result, item: str) -> list[GoldFact]:
    """When one promotion ends."""
    return _distinct([day("ends_at", part["ends_at"], item), *promotion_terms(part, item)])


def promotion_state(found: Result | None, language: str) -> list[GoldFact]:
    """Whether a named promotion runs: ``found`` is its entry among those that run or will; None: it is
    over."""
    if found is None:
        return [yes_no("promotion_active", False, _PROMOTION, language)]
    runs = "starts_at" not in found
    facts = [yes_no("promotion_active", runs, _PROMOTION, language)]
    if not runs:
        facts.append(day("starts_at", found["starts_at"]))
    return _distinct([*facts, *promotion_terms(found, "")])


def compared_prices(result: Result) -> list[GoldFact]:
    facts = [money("price", p["price"], p["link_id"]) for p in result["products"] if "price" in p]
    facts += [f for p in result["products"] for f in status(p, p["link_id"], required=False)]
    if cheapest := result.get("cheapest"):
        name = next(p["name"] for p in result["products"] if p["link_id"] == cheapest["link_id"])
        facts.append(
            GoldFact(
                key="cheapest",
                kind="text",
                value=name,
                item=cheapest["link_id"],
                required=False,
                wordings=(name,),
            )
        )
        facts.append(money("less_by", cheapest["less_by"], required=False))
    return facts


def compared_aspect(result: Result, name: str, language: str) -> list[GoldFact]:
    values: Mapping[str, str] = result["aspects"][name]
    return [f for link, said in values.items() for f in text_fact(f"specs.{name}", said, link, language)]


def stock(result: Result, item: str, language: str, *, counted: bool) -> list[GoldFact]:
    """Whether it is there, and how many: required only where the number was asked for."""
    if "stock" not in result:
        return status(result, item)
    left = result["stock"]
    facts = [yes_no("in_stock", left > 0, _IN_STOCK, language, item)]
    return [*facts, GoldFact(key="stock", kind="count", value=left, item=item, required=counted and left > 0)]


def size(result: Result, item: str) -> list[GoldFact]:
    """The size, or both of them where the body is between; the nearest where it is off the chart."""
    sizes = [result["size"]] if "size" in result else result["sizes"]
    facts = [GoldFact(key="size", kind="size", value=_size(str(s)), item=item) for s in sizes]
    for said, left in result.get("stock", {}).items():
        facts.append(GoldFact(key=f"stock.{said}", kind="count", value=left, item=item, required=False))
    return facts


def shipping(result: Result, item: str, language: str, *, asked: Literal["fee", "days"]) -> list[GoldFact]:
    """Fee or days as asked, the other may be said; where it is not sent to, that."""
    if not result["ships"]:
        return [yes_no("ships", False, _SHIPS, language, item)]
    facts = [money("fee", result["fee"], item, required=asked == "fee")]
    if "free_over" in result:
        facts.append(money("free_over", result["free_over"], item, required=False))
    for q in read_quantities(str(result["delivery"]), language):
        if q.kind == "duration":
            facts.append(
                GoldFact(
                    key="days",
                    kind="duration",
                    value=q.value,
                    unit=q.unit,
                    item=item,
                    required=asked == "days",
                )
            )
    return sorted(facts, key=lambda f: not f.required)


def policy(result: Result, language: str) -> list[GoldFact]:
    """The first span, amount or share of the policy's text is its heart (else the first count); others may be
    said."""
    read = [q for q in read_quantities(str(result["text"]), language) if q.kind in _KINDS and q.kind != "size"]
    heart = next((q for q in read if q.kind not in ("count", "date")), read[0] if read else None)
    facts: list[GoldFact] = []
    for q in read:
        kind = cast("Literal['duration']", q.kind)
        facts.append(
            GoldFact(key=f"policy.{result['topic']}", kind=kind, value=q.value, unit=q.unit, required=q is heart)
        )
    return sorted(facts, key=lambda f: not f.required)


def faq(answer: str, item: str) -> list[GoldFact]:
    """The yes or no that an answer begins with; none where it begins otherwise."""
    head = re.split(r"[,.，。]", answer, maxsplit=1)[0].strip()
    no = _NO.match(head)
    if not no and not _YES.match(head):
        return []
    rest = tuple(p.strip() for p in re.split(r"[,，。]|\.(?:\s|$)", answer) if p.strip())
    return [GoldFact(key="faq", kind="yes_no", value=not no, item=item, wordings=(answer, *rest))]


def _size(size: str) -> str:
    """As quantities write it: "2XL" is "XXL"."""
    return next((str(q.value) for q in quantities_of({"size": size}) if q.kind == "size"), size)


def _percent(percent_off: int, item: str) -> GoldFact:
    return GoldFact(key="percent_off", kind="percent", value=percent_off, unit="off", item=item, required=False)


def _distinct(facts: Iterable[GoldFact]) -> list[GoldFact]:
    """Without what stands already under the same key."""
    kept: dict[tuple[str, str, str], GoldFact] = {}
    for fact in facts:
        kept.setdefault((fact.key, str(fact.value), fact.item), fact)
    return list(kept.values())
