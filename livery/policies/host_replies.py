"""The host's sentences: a reply from what was found, or an honest word that nothing was."""

from __future__ import annotations

import re

from livery.policies.host_findings import Findings
from livery.policies.host_results import (
    ANSWER,
    LINK,
    NAME,
    PRICE,
    SPOKEN_CHARS,
    STATUS,
    STOCK,
    TOTAL,
    Result,
    detail,
    distinct,
    field_of,
    fits,
    leaf,
    sentences,
)

MAIN_TOOL = {"price": "price", "stock": "stock", "size": "size", "options": "product"}
"""Intents about one item -> the purpose of the tool that answers."""


class Replies:
    """Says what `Findings` hold, in the prompt's language."""

    def __init__(self, found: Findings) -> None:
        self.found = found
        self.scene = found.scene
        self.zh = found.scene.chinese
        self.words = found.words

    def say(self) -> str:
        """The reply: facts of results, or an honest word that there are none."""
        match self.scene.intent.name:
            case "talk":
                said = self.words(
                    "谢谢大家来直播间,想了解哪款可以直接问我。",
                    "Thanks for being here! Ask me about any item.",
                )
            case "handoff":
                sorry = self.words(
                    "不好意思给您添麻烦了,我已经通知人工客服,会有专人联系您。",
                    "I'm sorry about that. I've called our staff, and a person will get back to you.",
                )
                said = sorry if self.found.ok("handoff") else ""
            case "identity":
                said = self.found.faq_answer() or self.words("我是直播间的AI主播。", "I am the AI host of this room.")
            case "policy":
                found = [r.prose or r.value(ANSWER) for r in self.found.ok("policy")]
                said = next((sentences(text) for text in found if text), "") or self.found.faq_answer()
            case "shipping":
                said = self._shipping()
            case "recommend":
                said = self._recommended()
            case "deals":
                said = self._deals()
            case "compare":
                said = self._compared()
            case "product":
                said = self.found.faq_answer() or self._details()
            case "options":
                said = self._options()
            case _:
                said = self._each()
        return said or (self.which() if self._unknown_item() else self.ask_staff())

    def ask_staff(self) -> str:
        return self.words(
            "这个我先帮您问一下客服,确认好了再告诉您。",
            "Let me check that with the staff so I tell you the right thing.",
        )

    def which(self) -> str:
        return self.words(
            "您想问哪一款?告诉我链接号,我马上查。",
            "Which item do you mean? Tell me its link number and I will look it up.",
        )

    def _unknown_item(self) -> bool:
        about = self.scene.intent.name in ("price", "stock", "size", "options", "compare")
        return about and not self.found.targets(on_screen=self.scene.intent.name != "compare")

    def _sentence(self, name: str, *facts: str) -> str:
        said = distinct(f.strip().rstrip("。.") for f in facts)
        if not said:
            return ""
        head = f"{name}{',' if self.zh else ': '}" if name else ""
        return sentences(head + ("," if self.zh else ", ").join(said) + self.words("。", "."))

    def _each(self) -> str:
        """Price, stock or size of one item or two."""
        scene, intent = self.scene, self.scene.intent.name
        tell = {"price": self._price, "stock": self._stock, "size": self._size}[intent]
        results = self.found.ok(MAIN_TOOL[intent])
        if not results and any(d.purpose == MAIN_TOOL[intent] for d in self.found.done):
            named = scene.links or scene.items or scene.pointing
            return self._options() if named else self.which()  # no such variant, or another item was meant
        results = results or ([] if intent == "size" else self.found.ok("product"))
        said = [tell(r, brief=len(results) > 1) for r in results]
        return ("" if self.zh else " ").join(said) if all(said) else ""

    def _price(self, result: Result, *, brief: bool = False) -> str:
        if result.prose:
            first, *rest = re.split(r"(?<=[.。])\s+", result.prose)
            if brief:
                return sentences(first)
            # A price that a coupon makes is told with the coupon, which the viewer has to claim.
            conditions = [said for said in rest[1:] if re.search(r"coupon|券", said, re.IGNORECASE)]
            return sentences(" ".join([first, *rest[:1], *conditions[:1]]))
        total, status = result.value(TOTAL), result.value(STATUS)
        price = total or result.value(PRICE)
        quantity = result.value(re.compile(r"quantity|数量|件数", re.IGNORECASE))
        variant = result.value(re.compile(r"^variant|规格", re.IGNORECASE)) if total else ""
        if price and quantity not in ("", "1"):
            price = self.words(f"{quantity}件一共{price}", f"{price} for {quantity}")
        extra = [] if brief else self._claims(result)
        if price and extra:
            price = self.words(f"券后{price}", f"{price} after the coupon")
        return self._sentence(result.name, status, variant, price, *extra)

    def _claims(self, result: Result) -> list[str]:
        """How to get the coupon that the price counts on."""
        claims = distinct(v.rstrip("。.") for k, v in result.pairs if leaf(k) == "claim" and "not_used" not in k)[:1]
        if not self.zh:
            return claims
        return [c + ("优惠券" if c.endswith("领取") else "券" if c.endswith("领") else "") for c in claims]

    def _stock(self, result: Result, *, brief: bool = False) -> str:
        if result.prose:
            return sentences(result.prose, most=2)
        status, stock = result.value(STATUS), result.value(STOCK)
        variant = result.value(re.compile(r"^variant$|规格", re.IGNORECASE))
        since = result.value(re.compile(r"on_sale_at|开售", re.IGNORECASE))
        left = "" if stock in ("", "0") else self.words(f"库存{stock}", f"{stock} left")
        opens = self.words(f"{since}开售", f"it opens {since}") if since else ""
        return self._sentence(result.name, variant, status, left, opens)

    def _size(self, result: Result, *, brief: bool = False) -> str:
        if result.prose:
            return sentences(result.prose, most=2)
        sizes = [v for k, v in result.pairs if re.search(r"^sizes?$|尺码|码数", leaf(k), re.IGNORECASE)]
        size = self.words("或", " or ").join(s for value in sizes for s in value.split(", "))
        nearest = "off" in result.value(re.compile(r"^result$|结果"))
        reason = result.value(re.compile(r"reason|依据|原因", re.IGNORECASE))
        note = result.value(re.compile(r"^note$|说明|备注", re.IGNORECASE))
        needs = result.value(re.compile(r"ask_for|还需要", re.IGNORECASE))
        said = ""
        if size:
            fitting = self.words(f"推荐{size}码", f"size {size}")
            off = self.words(f"尺码表里没有正合适的,最接近的是{size}码", f"off the size chart, closest is {size}")
            said = self._sentence(result.name, off if nearest else fitting, reason)
        elif needs:
            wish = self.words(f"告诉我{needs},我帮您选码", f"tell me your {needs} and I will find your size")
            said = self._sentence(result.name, wish)
        elif not (self.scene.links or self.scene.items or self.scene.pointing):
            return self.which()  # the one on screen has no sizes, so it was not meant
        else:
            said = self._sentence(result.name, reason)
        more = f"{said}{'' if self.zh else ' '}{note}"
        return more if note and len(more) <= SPOKEN_CHARS else said

    def _options(self) -> str:
        for result in self.found.ok("product", "stock"):
            groups: dict[str, list[str]] = {}
            for key, value in result.pairs:
                path = re.sub(r"\[\d+\]", "", key).split(".")
                if path[0] in ("options", "variants", "可选") and len(path) > 1:
                    groups.setdefault(path[1] if path[0] != "variants" else "", []).append(
                        value if path[0] != "variants" else path[1]
                    )
            if groups:
                sep = "、" if self.zh else ", "
                told = [f"{name} {sep.join(values)}".strip() for name, values in groups.items()]
                comes = self.words("有" + ";".join(told), "it comes in " + "; ".join(told))
                return self._sentence(result.name, comes)
        return self._details() if self.scene.intent.name == "options" else ""

    def _details(self) -> str:
        for result in self.found.ok("product"):
            if result.prose:
                names = result.name
                return sentences(result.prose) if fits(self.scene.question, result.prose, apart_from=names) else ""
            field, value = detail(self.scene.question, result)
            if value:
                bare = re.match(r"points?$|selling|卖点|summary|description|规格|参数|status", field, re.IGNORECASE)
                return self._sentence(result.name, value if bare else f"{_lowered(field)} {value}")
            if re.search(r"tell me|what is|what's|介绍|是什么|讲讲", self.scene.question, re.IGNORECASE):
                points = [v for k, v in result.pairs if re.search(r"point|selling|卖点|summary", leaf(k))]
                return self._sentence(result.name, *points[:3])
        return ""

    def _shipping(self) -> str:
        for result in self.found.ok("shipping"):
            if result.prose:
                return sentences(result.prose)
            value = {
                field: result.value(re.compile(pattern, re.IGNORECASE))
                for field, pattern in (
                    ("region", r"region|地区"), ("ships", r"^ships|可发"), ("reason", r"reason|原因"),
                    ("fee", r"^fee$|运费"), ("days", r"deliver|days|时效"), ("free", r"free_over|包邮"),
                )
            }  # fmt: skip
            if value["ships"] in ("no", "false") or (value["reason"] and not value["fee"]):
                return self._sentence(value["region"], value["reason"])
            free = value["free"]
            return self._sentence(
                self.words(f"发{value['region']}", value["region"]),
                self.words(f"运费{value['fee']}", f"delivery costs {value['fee']}") if value["fee"] else "",
                self.words(value["days"], f"takes {value['days']}") if value["days"] else "",
                self.words(f"满{free}包邮", f"free from {free}") if free else "",
            )
        if answer := self.found.faq_answer():
            return answer
        if self.scene.region or re.search(r"\bmy\b|我的", self.scene.question, re.IGNORECASE):
            return ""
        return self.words(
            "您想发到哪里?告诉我省份或城市,我马上查。",
            "Where should it go? Tell me the state or country and I will look it up.",
        )

    def _recommended(self) -> str:
        for result in self.found.ok("search"):
            on_sale = [r for r in result.records() if field_of(r, NAME) and not field_of(r, STATUS)]
            rows = [(field_of(r, NAME), field_of(r, PRICE)) for r in on_sale]
            if rows:
                told = [f"{name} {price}".strip() for name, price in rows[:3]]
                return self._sentence("", *told)
            kinds = distinct(v for k, v in result.pairs if re.match(r"categor|分类|类目", leaf(k)))
            if kinds:
                listed = self.words("、", ", ").join(kinds)
                return self.words(f"我们有{listed},您想看哪一类?", f"We have {listed}. Which would you like to see?")
        return ""

    def _deals(self) -> str:
        scene = self.scene
        coupons = bool(re.search(r"coupon|券|\b[A-Z]{3,}\d", scene.question))
        wanted = re.compile(
            r"coupon|券" if coupons else r"flash|秒杀" if re.search(r"flash|秒杀", scene.question) else r"",
            re.IGNORECASE,
        )
        for d in [d for d in self.found.done if d.purpose == "deals" and d.result.ok][::-1]:
            result = d.result
            if result.prose:
                parts = [p for p in re.split(r"(?<=\.)\s+", result.prose) if wanted.search(p)]
                told = sentences(" ".join(parts) or result.prose)
            else:
                rows = [r for r in result.records() if not field_of(r, re.compile(r"starts_at|开始"))]
                if coupons:
                    chosen = [r for r in rows if field_of(r, re.compile(r"^code$|券码"))]
                else:
                    chosen = [r for r in rows if wanted.search(field_of(r, _TITLE))]
                told = self._sentence("", *[self._deal(r) for r in chosen][:3])
            if told and scene.code and scene.code not in result.text:
                head = self.words(f"没有看到{scene.code}这张券,现在有:", f"I don't see {scene.code} there. ")
                return head + sentences(told, SPOKEN_CHARS - len(head))
            if told:
                return told
        return ""

    def _deal(self, row: dict[str, str]) -> str:
        terms = field_of(row, re.compile(r"terms|规则|条件"))
        ends = field_of(row, re.compile(r"ends_at|结束"))
        title = field_of(row, _TITLE)
        asked_end = re.search(r"\bend|until|几点|什么时候|到什么", self.scene.question, re.IGNORECASE)
        until = self.words(f"到{ends}", f"until {ends}") if ends and asked_end else ""
        return " ".join(filter(None, (title, terms, until)))

    def _compared(self) -> str:
        for result in self.found.ok("compare"):
            if result.prose:
                return sentences(result.prose)
            rows = [r for r in result.records() if field_of(r, NAME)]
            told = [f"{field_of(r, NAME)} {field_of(r, PRICE) or field_of(r, STATUS)}" for r in rows]
            if len(told) > 1:
                by = result.value(re.compile(r"less_by|差价", re.IGNORECASE))
                link = next((v for k, v in result.pairs if re.search(r"cheapest.*link|最便宜", k)), "")
                name = next((field_of(r, NAME) for r in rows if link and field_of(r, LINK) == link), "")
                less = self.words(f"{name}便宜{by}", f"{name} is {by} less") if name and by else ""
                return self._sentence("", *told, less)
        return ""


def _lowered(field: str) -> str:
    """A field's label within a sentence; abbreviations stay."""
    return field if field[:2].isupper() else field[:1].lower() + field[1:]


_TITLE = re.compile(r"^name$|^code$|名称|券码", re.IGNORECASE)
