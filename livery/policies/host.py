"""A host by rules: answers from what a model would see, the prompt and the tools, and from nothing else.

For demonstrations without a model. `host_scene` reads what is asked, `host_tools` finds the tool for it by
the words of its description, `host_results` reads what came back; here is the course: which look-ups come
next, and the sentence at the end. It says only what a result says, and where none answers, that it will ask
the staff. It is no baseline for quality and no oracle: it reads one intent per request, and its vocabulary is
English and Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from livery.policies.host_results import (
    ANSWER,
    LINK,
    NAME,
    PRICE,
    QUESTION,
    SPOKEN_CHARS,
    STATUS,
    STOCK,
    TOTAL,
    Result,
    content,
    detail,
    distinct,
    field_of,
    fits,
    leaf,
    read_result,
    same,
    sentences,
)
from livery.policies.host_scene import INTENTS, Scene, item_words, read_scene
from livery.policies.host_tools import Planned, fill, skill_loader, tools_by_purpose
from livery.policies.policy import PolicyRequest, PromptMessage, ToolSurface

_TALK = next(i for i in INTENTS if i.name == "talk")
_MAIN = {"price": "price", "stock": "stock", "size": "size", "options": "product"}
"""Intents about one item -> the purpose of the tool that answers."""
_MOST_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Done:
    """A call that was made, and what came back."""

    purpose: str
    arguments: Mapping[str, Any]
    result: Result


class HostPlay:
    """The rules. Stateless: every decision is read off the request."""

    def __call__(self, request: PolicyRequest) -> tuple[tuple[Planned, ...], str]:
        scene = read_scene(request.messages)
        turns = [m for m in request.messages if m.role == "assistant"]
        sent_back = any(not m.calls for m in turns)
        course = _Course(scene, request.tools, _done(request.messages, request.tools))
        if request.allow_calls:
            skill = skill_call(request.tools, scene)
            if not turns:
                calls = tuple(filter(None, (skill, *course.next())))
            elif not request.allow_reply:
                calls = (skill,) if skill else ()  # the first one was none that lets a reply stand
            else:
                calls = course.next() if not sent_back and len(turns) < _MOST_ROUNDS else ()
            if calls:
                return calls, ""
        return (), course.ask_staff() if sent_back else course.say()


def _done(messages: Sequence[PromptMessage], tools: Sequence[ToolSurface]) -> list[Done]:
    purposes = {tool.name: purpose for purpose, tool in tools_by_purpose(tools).items()}
    arguments = {call.id: call.arguments for m in messages for call in m.calls}
    return [
        Done(purposes[m.name], arguments.get(m.call_id, {}), read_result(m.content))
        for m in messages
        if m.role == "tool" and m.name in purposes
    ]


def skill_call(tools: Sequence[ToolSurface], scene: Scene) -> Planned | None:
    """Load the skill whose description names the intent, among those that the loader offers."""
    loader = skill_loader(tools, [name for name, _ in scene.skills])
    if loader is None or not scene.skills:
        return None
    tool, argument = loader
    offered = tool.input_schema.get("properties", {}).get(argument, {}).get("enum")
    skills = [(n, about) for n, about in scene.skills if not offered or n in offered] or [*scene.skills]
    counts = [len(scene.intent.skill.findall(f"{name} {about}")) for name, about in skills]
    best = counts.index(max(counts))
    name = skills[best][0] if counts[best] else None
    name = name or next((n for n, about in skills if _TALK.skill.search(about)), skills[0][0])
    return tool.name, {argument: name}


class _Course:
    """One request: what to look up next, and what to say."""

    def __init__(self, scene: Scene, tools: Sequence[ToolSurface], done: Sequence[Done]) -> None:
        self.scene = scene
        self.tools = tools_by_purpose(tools)
        self.done = done
        self.zh = scene.chinese

    # ------------------------------------------------------------------------------- look-ups

    def next(self) -> tuple[Planned, ...]:
        calls = [c for c in self._wanted() if c is not None]
        made = [(self.tools[d.purpose].name, dict(d.arguments)) for d in self.done if d.purpose in self.tools]
        new: list[Planned] = []
        for name, arguments in calls:
            if (name, dict(arguments)) not in made and (name, arguments) not in new:
                new.append((name, arguments))
        return tuple(new[:3])

    def _wanted(self) -> list[Planned | None]:
        scene, first = self.scene, not self.done
        match scene.intent.name:
            case "talk":
                return []
            case "handoff":
                return [self._call("handoff")] if first else []
            case "identity":
                return [self._call("faq")] if first else []
            case "policy":
                return [self._call("policy"), self._call("faq")] if first else []
            case "shipping":
                quote = self._call("shipping", links=scene.links) if scene.region else None
                if first:
                    return [quote or self._call("faq")]
                return [] if self._ok("shipping") else [self._call("faq")]
            case "recommend":
                # A budget is enough to choose by; without one only words for goods are.
                goods = re.sub(_PRESENT, "", item_words(scene.question), flags=re.IGNORECASE).strip()
                query = scene.question if scene.budget else goods or self._words("礼物", "gift")
                return [self._call("search", query=query)] if first else []
            case "deals":
                links = self._targets(on_screen=scene.pointing)
                if first and scene.items and not links:
                    return [self._call("deals"), *self._searches()]
                return [self._call("deals", links=links[:1])]
            case "compare":
                links = self._targets(on_screen=False)
                if len(links) > 1:
                    return [self._call("compare", links=links) or self._call("product", links=links[:1])]
                return self._searches() if first else []
            case "product":
                return self._about_an_item(first)
            case _:
                return self._of_items(first)

    def _of_items(self, first: bool) -> list[Planned | None]:
        purpose = _MAIN[self.scene.intent.name]
        links = self._targets()
        if not links:
            return self._searches() if first else []
        calls: list[Planned | None] = []
        for link in links[:2]:
            call = self._call(purpose, links=(link,)) or self._call("product", links=(link,))
            refused = any(
                d.purpose == purpose and not d.result.ok and link in map(str, d.arguments.values())
                for d in self.done
            )
            calls.append(call)
            if refused:  # there may be no such variant: what it does come in
                calls.append(self._call("product", links=(link,)))
        return calls

    def _about_an_item(self, first: bool) -> list[Planned | None]:
        scene = self.scene
        links = self._targets(on_screen=not scene.items)
        if first:
            faq = self._call("faq", links=links[:1])
            if links:
                return [faq, self._call("product", links=links[:1])]
            return [faq, *self._searches()]
        if self._faq_answer():
            return []
        if not links and scene.pointing:
            links = self._targets(on_screen=True)
        return [self._call("faq", links=links[:1]), self._call("product", links=links[:1])] if links else []

    def _searches(self) -> list[Planned | None]:
        tool = "search" if "search" in self.tools else "product"
        return [self._call(tool, query=words, name=words) for words in self.scene.items]

    def _targets(self, *, on_screen: bool = True) -> tuple[str, ...]:
        """Links of what is asked about: named ones, else those found for the words, else the one on screen
        where nothing is named at all."""
        scene = self.scene
        if scene.links:
            return scene.links
        if scene.items:
            found = distinct(self._found(words) for words in scene.items)
            if found or not (on_screen and scene.pointing and self.done and len(scene.items) == 1):
                return tuple(found)
        return (scene.on_screen,) if on_screen and scene.on_screen else ()

    def _found(self, words: str) -> str:
        """The link that a search for ``words`` gave: the row whose name has most of them, else the first."""
        for d in self.done:
            if d.purpose not in ("search", "product") or words not in d.arguments.values():
                continue
            rows = [r for r in d.result.records() if field_of(r, LINK)]
            if rows:
                met = [len(content(words) & content(field_of(r, NAME))) for r in rows]
                if self.scene.intent.name == "product" and not max(met):
                    return ""  # found by what is asked of it, not by what it is called
                link = re.search(r"\d{1,4}", field_of(rows[met.index(max(met))], LINK))
                return link[0] if link else ""
            if d.result.link:
                return d.result.link
        return ""

    def _call(
        self, purpose: str, *, links: Sequence[str] = (), query: str = "", name: str = ""
    ) -> Planned | None:
        tool = self.tools.get(purpose)
        if tool is None:
            return None
        scene = self.scene
        priced = purpose in ("price", "stock")
        values: dict[str, Any] = {
            "link": list(links),
            "query": query or scene.question,
            "name": name if not links else "",
            "reason": scene.question,
            "topic": scene.topic or scene.question,
            "region": scene.region,
            "variant": scene.variant if priced else "",
            "quantity": scene.quantity if purpose in ("price", "shipping") else None,
            "member": scene.member or None,
            "budget": scene.budget,
            "height": scene.height,
            "weight": scene.weight,
            "foot": scene.foot,
            "usual": scene.usual,
            "coupons": [scene.code] if scene.code else [],
        }
        arguments = fill(purpose, tool, values)
        if arguments is None or (purpose == "product" and not arguments):
            return None
        return tool.name, arguments

    # --------------------------------------------------------------------------------- reading

    def _ok(self, *purposes: str) -> list[Result]:
        return [d.result for d in self.done if d.purpose in purposes and d.result.ok]

    def _faq_answer(self) -> str:
        """The shop's written answer, where one is about what is asked."""
        scene = self.scene
        targets = self._targets(on_screen=not scene.items)
        names = " ".join(r.name for r in self._ok("product", "search"))
        for result in self._ok("faq"):
            if result.prose:
                return sentences(result.prose) if fits(scene.question, result.prose, apart_from=names) else ""
            for row in result.records():
                answer, asked = sentences(field_of(row, ANSWER)), field_of(row, QUESTION)
                digits = re.search(r"\d{1,4}", field_of(row, LINK))
                link = digits[0] if digits else ""
                about = fits(scene.question, asked, apart_from=names, least=0.6 if scene.region else 0.3)
                if link in targets and (about or fits(scene.question, answer, apart_from=names, least=0.5)):
                    return answer
                if not link and about:
                    return answer
                if link and ((about and not targets) or same(scene.question, asked)):
                    return self._of_link(link, answer)
        return ""

    def _of_link(self, link: str, text: str) -> str:
        return f"{link}号链接:{text}" if self.zh else f"Link {link}: {text}"

    # ---------------------------------------------------------------------------------- saying

    def say(self) -> str:
        """The reply: facts of results, or an honest word that there are none."""
        match self.scene.intent.name:
            case "talk":
                said = self._words(
                    "谢谢大家来直播间,想了解哪款可以直接问我。",
                    "Thanks for being here! Ask me about any item.",
                )
            case "handoff":
                sorry = self._words(
                    "不好意思给您添麻烦了,我已经通知人工客服,会有专人联系您。",
                    "I'm sorry about that. I've called our staff, and a person will get back to you.",
                )
                said = sorry if self._ok("handoff") else ""
            case "identity":
                said = self._faq_answer() or self._words(
                    "我是直播间的AI主播。", "I am the AI host of this room."
                )
            case "policy":
                found = [r.prose or r.value(ANSWER) for r in self._ok("policy")]
                said = next((sentences(text) for text in found if text), "") or self._faq_answer()
            case "shipping":
                said = self._shipping()
            case "recommend":
                said = self._recommended()
            case "deals":
                said = self._deals()
            case "compare":
                said = self._compared()
            case "product":
                said = self._faq_answer() or self._details()
            case "options":
                said = self._options()
            case _:
                said = self._each()
        return said or (self.which() if self._unknown_item() else self.ask_staff())

    def ask_staff(self) -> str:
        return self._words(
            "这个我先帮您问一下客服,确认好了再告诉您。",
            "Let me check that with the staff so I tell you the right thing.",
        )

    def which(self) -> str:
        return self._words(
            "您想问哪一款?告诉我链接号,我马上查。",
            "Which item do you mean? Tell me its link number and I will look it up.",
        )

    def _words(self, zh: str, en: str) -> str:
        return zh if self.zh else en

    def _unknown_item(self) -> bool:
        about = self.scene.intent.name in ("price", "stock", "size", "options", "compare")
        return about and not self._targets(on_screen=self.scene.intent.name != "compare")

    def _sentence(self, name: str, *facts: str) -> str:
        said = distinct(f.strip().rstrip("。.") for f in facts)
        if not said:
            return ""
        head = f"{name}{',' if self.zh else ': '}" if name else ""
        return sentences(head + ("," if self.zh else ", ").join(said) + self._words("。", "."))

    def _each(self) -> str:
        """Price, stock or size of one item or two."""
        scene, intent = self.scene, self.scene.intent.name
        tell = {"price": self._price, "stock": self._stock, "size": self._size}[intent]
        results = self._ok(_MAIN[intent])
        if not results and any(d.purpose == _MAIN[intent] for d in self.done):
            named = scene.links or scene.items or scene.pointing
            return self._options() if named else self.which()  # no such variant, or another item was meant
        results = results or ([] if intent == "size" else self._ok("product"))
        said = [tell(r, brief=len(results) > 1) for r in results]
        return ("" if self.zh else " ").join(said) if all(said) else ""

    def _price(self, result: Result, *, brief: bool = False) -> str:
        if result.prose:
            return sentences(result.prose, most=1 if brief else 2)
        total, status = result.value(TOTAL), result.value(STATUS)
        price = total or result.value(PRICE)
        quantity = result.value(re.compile(r"quantity|数量|件数", re.IGNORECASE))
        variant = result.value(re.compile(r"^variant|规格", re.IGNORECASE)) if total else ""
        if price and quantity not in ("", "1"):
            price = self._words(f"{quantity}件一共{price}", f"{price} for {quantity}")
        extra = [] if brief else self._claims(result)
        return self._sentence(result.name, status, variant, price, *extra)

    def _claims(self, result: Result) -> list[str]:
        claims = distinct(v.rstrip("。.") for k, v in result.pairs if leaf(k) == "claim")[:1]
        if not self.zh:
            return claims
        return [c + ("优惠券" if c.endswith("领取") else "券" if c.endswith("领") else "") for c in claims]

    def _stock(self, result: Result, *, brief: bool = False) -> str:
        if result.prose:
            return sentences(result.prose, most=2)
        status, stock = result.value(STATUS), result.value(STOCK)
        variant = result.value(re.compile(r"^variant$|规格", re.IGNORECASE))
        since = result.value(re.compile(r"on_sale_at|开售", re.IGNORECASE))
        left = "" if stock in ("", "0") else self._words(f"库存{stock}", f"{stock} left")
        opens = self._words(f"{since}开售", f"it opens {since}") if since else ""
        return self._sentence(result.name, variant, status, left, opens)

    def _size(self, result: Result, *, brief: bool = False) -> str:
        if result.prose:
            return sentences(result.prose, most=2)
        sizes = [v for k, v in result.pairs if re.search(r"^sizes?$|尺码|码数", leaf(k), re.IGNORECASE)]
        size = self._words("或", " or ").join(s for value in sizes for s in value.split(", "))
        nearest = "off" in result.value(re.compile(r"^result$|结果"))
        reason = result.value(re.compile(r"reason|依据|原因", re.IGNORECASE))
        note = result.value(re.compile(r"^note$|说明|备注", re.IGNORECASE))
        needs = result.value(re.compile(r"ask_for|还需要", re.IGNORECASE))
        said = ""
        if size:
            fitting = self._words(f"推荐{size}码", f"size {size}")
            off = self._words(
                f"尺码表里没有正合适的,最接近的是{size}码", f"off the size chart, closest is {size}"
            )
            said = self._sentence(result.name, off if nearest else fitting, reason)
        elif needs:
            wish = self._words(f"告诉我{needs},我帮您选码", f"tell me your {needs} and I will find your size")
            said = self._sentence(result.name, wish)
        elif not (self.scene.links or self.scene.items or self.scene.pointing):
            return self.which()  # the one on screen has no sizes, so it was not meant
        else:
            said = self._sentence(result.name, reason)
        more = f"{said}{'' if self.zh else ' '}{note}"
        return more if note and len(more) <= SPOKEN_CHARS else said

    def _options(self) -> str:
        for result in self._ok("product", "stock"):
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
                comes = self._words("有" + ";".join(told), "it comes in " + "; ".join(told))
                return self._sentence(result.name, comes)
        return self._details() if self.scene.intent.name == "options" else ""

    def _details(self) -> str:
        for result in self._ok("product"):
            if result.prose:
                names = result.name
                return (
                    sentences(result.prose)
                    if fits(self.scene.question, result.prose, apart_from=names)
                    else ""
                )
            field, value = detail(self.scene.question, result)
            if value:
                bare = re.match(
                    r"points?$|selling|卖点|summary|description|规格|参数|status", field, re.IGNORECASE
                )
                return self._sentence(result.name, value if bare else f"{_lowered(field)} {value}")
            if re.search(r"tell me|what is|what's|介绍|是什么|讲讲", self.scene.question, re.IGNORECASE):
                points = [v for k, v in result.pairs if re.search(r"point|selling|卖点|summary", leaf(k))]
                return self._sentence(result.name, *points[:3])
        return ""

    def _shipping(self) -> str:
        for result in self._ok("shipping"):
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
                self._words(f"发{value['region']}", value["region"]),
                self._words(f"运费{value['fee']}", f"delivery costs {value['fee']}") if value["fee"] else "",
                self._words(value["days"], f"takes {value['days']}") if value["days"] else "",
                self._words(f"满{free}包邮", f"free from {free}") if free else "",
            )
        if answer := self._faq_answer():
            return answer
        if self.scene.region or re.search(r"\bmy\b|我的", self.scene.question, re.IGNORECASE):
            return ""
        return self._words(
            "您想发到哪里?告诉我省份或城市,我马上查。",
            "Where should it go? Tell me the state or country and I will look it up.",
        )

    def _recommended(self) -> str:
        for result in self._ok("search"):
            on_sale = [r for r in result.records() if field_of(r, NAME) and not field_of(r, STATUS)]
            rows = [(field_of(r, NAME), field_of(r, PRICE)) for r in on_sale]
            if rows:
                told = [f"{name} {price}".strip() for name, price in rows[:3]]
                return self._sentence("", *told)
            kinds = distinct(v for k, v in result.pairs if re.match(r"categor|分类|类目", leaf(k)))
            if kinds:
                listed = self._words("、", ", ").join(kinds)
                return self._words(
                    f"我们有{listed},您想看哪一类?", f"We have {listed}. Which would you like to see?"
                )
        return ""

    def _deals(self) -> str:
        scene = self.scene
        coupons = bool(re.search(r"coupon|券|\b[A-Z]{3,}\d", scene.question))
        wanted = re.compile(
            r"coupon|券" if coupons else r"flash|秒杀" if re.search(r"flash|秒杀", scene.question) else r"",
            re.IGNORECASE,
        )
        for d in [d for d in self.done if d.purpose == "deals" and d.result.ok][::-1]:
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
                head = self._words(f"没有看到{scene.code}这张券,现在有:", f"I don't see {scene.code} there. ")
                return head + sentences(told, SPOKEN_CHARS - len(head))
            if told:
                return told
        return ""

    def _deal(self, row: dict[str, str]) -> str:
        terms = field_of(row, re.compile(r"terms|规则|条件"))
        ends = field_of(row, re.compile(r"ends_at|结束"))
        title = field_of(row, _TITLE)
        asked_end = re.search(r"\bend|until|几点|什么时候|到什么", self.scene.question, re.IGNORECASE)
        until = self._words(f"到{ends}", f"until {ends}") if ends and asked_end else ""
        return " ".join(filter(None, (title, terms, until)))

    def _compared(self) -> str:
        for result in self._ok("compare"):
            if result.prose:
                return sentences(result.prose)
            rows = [r for r in result.records() if field_of(r, NAME)]
            told = [f"{field_of(r, NAME)} {field_of(r, PRICE) or field_of(r, STATUS)}" for r in rows]
            if len(told) > 1:
                by = result.value(re.compile(r"less_by|差价", re.IGNORECASE))
                link = next((v for k, v in result.pairs if re.search(r"cheapest.*link|最便宜", k)), "")
                name = next((field_of(r, NAME) for r in rows if link and field_of(r, LINK) == link), "")
                less = self._words(f"{name}便宜{by}", f"{name} is {by} less") if name and by else ""
                return self._sentence("", *told, less)
        return ""


_PRESENT = (
    r"\b(?:recommend|suggest|gifts?|presents?|mom|mum|dad|friend|wife|husband|kids?)\b|推荐个?|礼物|送\w?"
)


def _lowered(field: str) -> str:
    """A field's label within a sentence; abbreviations stay."""
    return field if field[:2].isupper() else field[:1].lower() + field[1:]


_TITLE = re.compile(r"^name$|^code$|名称|券码", re.IGNORECASE)
