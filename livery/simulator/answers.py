"""What a right answer says: a task's gold facts put into a host's sentences, within the form that a harness asks for.

Which facts are said, in which frame and order; the words come from `livery.simulator.phrasing`. Required facts are
always said, further ones now and then, and nothing that gold does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, cast

from livery.simulator.phrasing import Speaker, speaker_of
from livery.simulator.reply_form import Form
from livery.simulator.task import Asked, GoldFact, Intent, Needed, Task

_SOCIAL: Final = {
    Intent.SMALL_TALK: "small_talk", Intent.PRAISE: "praise", Intent.OFF_TOPIC: "off_topic", Intent.ABUSE: "abuse",
    Intent.INJECTION: "injection", Intent.COMPLAINT: "complaint",
}  # fmt: skip
_LEADS: Final = re.compile(
    r"^(?:yes|no|not yet|sorry|sadly|good news|a little patience)\s*[,:]\s*|^(?:有的|在的|不好意思|抱歉|别急|稍等)，"
)
"""What a sentence that stands beside others does without: whose yes it is would be open."""
_SOLD_OUT: Final = ("sold out", "已售罄")
_OF_STOCK: Final = ("有的", "没有")
_SPOKEN_TO: Final = ("thank", "hello", "hi ", "hey", "welcome", "sorry", "谢", "感谢", "哈", "欢迎", "不好意思", "抱歉")
"""Beginnings that take no opener."""


def reply_to(task: Task, form: Form, rng: Random, *, handed_over: bool = False, plain: bool = False) -> str:
    """A full answer to a task.

    Args:
        handed_over: a person was called about what cannot be checked.
        plain: without openers, closers and asides, as after a reply that was sent back.
    """
    speaker = speaker_of(task.world.language)
    text = ""
    for level in range(1 if plain else 0, 4):
        answer = _Answer(task, speaker, rng, handed_over=handed_over, level=level)
        text = form.dressed(answer.text(), speaker.language)
        if form.holds(text):
            break
    return text


class _Answer:
    def __init__(self, task: Task, speaker: Speaker, rng: Random, *, handed_over: bool, level: int) -> None:
        """
        Args:
            level: 0 for a full answer, 1 without frills, 2 without what goes without saying, 3 in the fewest words.
        """
        self.task = task
        self.speaker = speaker
        self.rng = rng
        self.handed_over = handed_over
        self.level = level
        self.real = [a for a in task.asked if a.intent not in _SOCIAL]
        self.several = len(self.real) > 1
        self.items = {i for a in self.real for i in a.items}
        self.baited = any(a.intent is Intent.INJECTION for a in task.asked)
        """Whether another item may be named in the request, so that "it" would be open."""
        self.named: set[str] = set()
        self.used: set[int] = set()

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def text(self) -> str:
        clauses: list[str] = []
        honest = False
        for asked in self.task.asked:
            if asked.intent in _SOCIAL:
                if not self.real or (self.level < 1 and self.chance(0.3)):
                    clauses.append(self.say(_SOCIAL[asked.intent]))
            elif asked.cannot_check:
                if not honest:
                    clauses.append(self.say("hand_off.cannot_check" if self.handed_over else "cannot_check"))
                honest = True
            else:
                made = list(self._about(asked))
                clauses += [_LEADS.sub("", c) for c in made] if self.several else made
        clauses = list(dict.fromkeys(clauses))
        if self.level == 0 and self.real and clauses:
            if self.chance(0.35) and not clauses[0].startswith(_SPOKEN_TO):
                gap = "，" if self.speaker.language == "zh" else ", "
                clauses[0] = f"{self.speaker.opener(self.rng)}{gap}{clauses[0]}"
            if not any(a.ask_back for a in self.real) and self.chance(0.15):
                clauses.append(self.speaker.closer(self.rng))
        return self.speaker.sentences(clauses)

    # ------------------------------------------------------------------------------------ words

    def say(self, frame: str, **slots: str) -> str:
        text = self.speaker.briefest(frame, slots) if self.level == 3 else self.speaker.say(frame, slots, self.rng)
        it = slots.get("it", "")
        if (
            it and (len(self.items) > 1 or self.baited or self.level in (1, 2)) and it not in text
        ):  # whose it is would be open
            text = _LEADS.sub("", text)
            return f"{it}，{text}" if self.speaker.language == "zh" else f"for {it}, {text}"
        return text

    def it(self, item: str) -> str:
        """The item as it may be called here: by number where several are spoken of."""
        alone = len(self.items) <= 1 and len(self.task.request.messages) == 1 and not self.baited
        bare = self.level == 3 or (self.level == 0 and (item in self.named or self.chance(0.4)))
        if alone and bare:
            return self.speaker.pronoun(self.rng)
        self.named.add(item)
        return self.speaker.item(item, self.rng)

    def value(self, fact: GoldFact) -> str:
        return self.speaker.value(fact, self.rng)

    def needed(self, operation: str, item: str, *, has: str = "", lacks: str = "") -> Mapping[str, Any]:
        """Arguments of the look-up that an answer rests on, each look-up once."""
        found = [
            (i, n)
            for i, n in enumerate(self.task.needed)
            if n.operation == operation and _about_item(n, item)
            and (not has or has in n.arguments) and (not lacks or lacks not in n.arguments)
        ]  # fmt: skip
        fresh = [(i, n) for i, n in found if i not in self.used] or found
        if not fresh:
            return {}
        self.used.add(fresh[0][0])
        return fresh[0][1].arguments

    # ----------------------------------------------------------------------------------- intents

    def _about(self, asked: Asked) -> Iterator[str]:
        facts = _Facts(asked.facts)
        item = asked.items[0] if asked.items else ""
        if asked.ask_back:
            yield self._question(asked)
            return
        match asked.intent:
            case Intent.PRICE:
                yield from self._price(item, facts)
            case Intent.PROMOTION:
                yield from self._promotion(item, facts)
            case Intent.COMPARISON:
                yield from self._comparison(asked, facts)
            case Intent.STOCK | Intent.BUY:
                yield from self._stock(asked.intent, item, facts)
            case Intent.SIZE:
                sizes = [str(f.value) for f in facts.all("size")]
                frame = "size.two" if len(sizes) > 1 else "size.one"
                yield self.say(frame, it=self.it(item), size=sizes[0], other=sizes[-1])
            case Intent.SHIPPING:
                yield from self._shipping(item, facts)
            case Intent.AFTER_SALES:
                yield from self._policy(asked.facts)
            case _:
                yield from self._product(item, asked.facts)

    def _question(self, asked: Asked) -> str:
        if len(asked.items) > 1:
            a, b = (self.speaker.item(i, self.rng) for i in asked.items[:2])
            return self.say("ask.which", a=a, b=b)
        if not asked.items:
            return self.say("ask.vague")
        return self.say("ask.size" if asked.intent is Intent.SIZE else "ask.shipping")

    def _status(self, item: str, facts: _Facts) -> str:
        status = str(facts["status"].value)
        opens = facts.get("on_sale_at")
        frame = f"status.{status}"
        undated = f"{frame}.undated"
        if opens is None and undated in self.speaker.frames:
            frame = undated
        if frame not in self.speaker.frames:
            return self.say("status.brief", it=self.it(item), status=status)
        return self.say(frame, it=self.it(item), opens=self.value(opens) if opens else "")

    def _price(self, item: str, facts: _Facts) -> Iterator[str]:
        if facts.required("status"):
            variant = str(self.needed("pricing.quote", item, has="variant").get("variant", "")) if self.several else ""
            if variant and str(facts["status"].value) in _SOLD_OUT:
                yield self.say("stock.gone.variant", it=self.it(item), variant=variant)
            else:
                yield self._status(item, facts)
            return
        many = facts.get("unit_price") is not None
        arguments = self.needed("pricing.quote", item, has="quantity" if many else "", lacks="" if many else "quantity")
        frame = "price.total"
        if many:
            frame = "price.many"
        elif arguments.get("member"):
            frame = "price.member"
        elif arguments.get("variant") and self.level == 0 and (self.several or self.chance(0.7)):
            frame = "price.variant"
        yield self.say(
            frame, it=self.it(item), total=self.value(facts["total"]), n=self._pieces(arguments.get("quantity", 1)),
            variant=str(arguments.get("variant", "")),
        )  # fmt: skip
        if self.level or self.several or not self.chance(0.35):
            return
        extras = [
            ("price.saved", "saved"),
            ("price.list", "list_price"),
            ("price.unit", "unit_price"),
            ("price.ends", "ends_at"),
        ]
        known = [(f, k) for f, k in extras if facts.get(k) is not None and not (many and k == "list_price")]
        if known:
            extra, key = self.rng.choice(known)
            slot = {"list_price": "list", "unit_price": "unit", "ends_at": "ends"}.get(key, key)
            yield self.say(extra, it=self.it(item), **{slot: self.value(facts[key])})

    def _pieces(self, quantity: int) -> str:
        """How many, said as pieces: a bare number beside a price is heard as one."""
        return str(quantity) if self.speaker.language == "zh" else f"{quantity} pieces"

    def _promotion(self, item: str, facts: _Facts) -> Iterator[str]:
        running = facts.get("promotion")
        active = facts.get("promotion_active")
        if running is not None:
            yield self._running(item, running)
        elif active is None:
            yield self.say("promotion.ends", it=self.it(item), ends=self.value(facts["ends_at"]))
        elif active.value:
            ends = facts.get("ends_at")
            frame = "promotion.on.ends" if ends is not None and self.chance(0.5) else "promotion.on"
            yield self.say(frame, ends=self.value(ends) if ends else "")
        elif item:
            yield self.say("promotion.none", it=self.it(item))
        elif (starts := facts.get("starts_at")) is not None:
            yield self.say("promotion.later", starts=self.value(starts))
        else:
            store = not any("promotion.named" in t for t in self.task.tags)
            yield self.say("promotion.none.store" if store else "promotion.off")

    def _running(self, item: str, fact: GoldFact) -> str:
        """Names of what runs, with terms where they are told apart."""
        half = len(fact.wordings) // 2
        paired = len(fact.wordings) % 2 == 0 and half > 0
        names = list(fact.wordings[:half]) if paired else [str(fact.value)]
        chosen = self.rng.sample(
            range(len(names)), min(len(names), 1 if self.level or self.several else self.rng.choice((1, 1, 2)))
        )
        said = [names[i] for i in sorted(chosen)]
        it = self.it(item) if item else self.speaker.pronoun(self.rng)
        deals = self.speaker.words["joiner"].join(said)
        if not item:  # nothing is meant that a deal could be "for"
            it = "you" if self.speaker.language == "en" else "大家"
        return self.say("promotion.running", it=it, deals=deals)

    def _comparison(self, asked: Asked, facts: _Facts) -> Iterator[str]:
        first, second = asked.items[:2]
        a, b = self.speaker.item(first, self.rng), self.speaker.item(second, self.rng)
        prices = {f.item: f for f in facts.all("price")}
        if prices:
            if len(prices) == 2:
                yield self.say(
                    "comparison.price", a=a, b=b, price_a=self.value(prices[first]), price_b=self.value(prices[second])
                )
            else:
                ((link, fact),) = prices.items()
                yield self.say("price.total", it=a if link == first else b, total=self.value(fact))
            cheapest = facts.get("cheapest")
            if cheapest is not None and self.level < 2 and self.chance(0.6):
                less = self.speaker.item(cheapest.item, self.rng)
                yield self.say("comparison.cheaper", less=less)
        elif (specs := [f for f in asked.facts if f.key.startswith("specs.")]) and len(specs) >= 2:
            by_item = {f.item: f for f in specs}
            yield self.say(
                "comparison.aspect", a=a, b=b, aspect=_aspect(specs[0]), value_a=self.value(by_item[first]),
                value_b=self.value(by_item[second]),
            )  # fmt: skip
        for fact in facts.all("on_sale_at"):
            if fact.required:
                yield self._status(fact.item, _Facts([f for f in asked.facts if f.item == fact.item]))

    def _stock(self, intent: Intent, item: str, facts: _Facts) -> Iterator[str]:
        there = facts.get("in_stock")
        if there is None:
            yield self._status(item, facts)
            return
        count = facts.get("stock")
        counted = (
            count is not None and bool(count.value) and (count.required or (self.level == 0 and self.chance(0.25)))
        )
        variant = str(self.needed("stock.check", item).get("variant", ""))
        slots = {"it": self.it(item), "variant": variant, "count": str(count.value) if count else ""}
        if not there.value:
            yield self.say("stock.gone.variant" if variant else "stock.gone", **slots)
        elif counted:
            one = count is not None and count.value == 1 and "stock.there.one" in self.speaker.frames
            yield self.say("stock.there.one" if one else "stock.there.count", **slots)
        elif variant:
            yield self.say("stock.there.variant", **slots)
        else:
            yield self.say("buy.there" if intent is Intent.BUY else "stock.there", **slots)

    def _shipping(self, item: str, facts: _Facts) -> Iterator[str]:
        if facts.get("ships") is not None:
            yield self.say("shipping.no", it=self.it(item))
            return
        fee, days = facts.get("fee"), facts.all("days")
        asked_fee = fee is not None and fee.required
        both = self.level == 0 and not self.several and self.chance(0.4)
        if fee is not None and (asked_fee or both):
            frame = "shipping.fee" if fee.value else "shipping.free"
            yield self.say(frame, it=self.it(item), fee=self.value(fee))
        if days and (not asked_fee or both):
            values = [cast(float, f.value) for f in days]
            yield self.say("shipping.days", it=self.it(item), days=self.speaker.span(values, days[0].unit))

    def _policy(self, facts: Sequence[GoldFact]) -> Iterator[str]:
        fact = facts[0]
        topic = fact.key.partition(".")[2]
        frame = "policy.money" if fact.kind == "money" else "policy.duration"
        yield self.say(frame, topic=topic, value=self.value(fact))

    def _product(self, item: str, facts: Sequence[GoldFact]) -> Iterator[str]:
        fact = facts[0]
        if fact.key == "faq":
            answer = fact.wordings[0].rstrip(".。")
            if answer.startswith(_OF_STOCK) and len(fact.wordings) > 2:
                answer = fact.wordings[2]  # "有的" would be heard as of stock
            yield self.say("faq", it=self.it(item), answer=answer)
            return
        yield self.say("product.spec", it=self.it(item), aspect=_aspect(fact), value=self.value(fact))


class _Facts:
    """Facts by key."""

    def __init__(self, facts: Sequence[GoldFact]) -> None:
        self._facts = facts

    def get(self, key: str) -> GoldFact | None:
        return next((f for f in self._facts if f.key == key), None)

    def all(self, key: str) -> list[GoldFact]:
        return [f for f in self._facts if f.key == key]

    def required(self, key: str) -> bool:
        found = self.get(key)
        return found is not None and found.required

    def __getitem__(self, key: str) -> GoldFact:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found


def _about_item(needed: Needed, item: str) -> bool:
    return not item or str(needed.arguments.get("link_id", "")) == item


def _aspect(fact: GoldFact) -> str:
    """A specification's name inside a sentence: lower case but for abbreviations."""
    name = fact.key.partition(".")[2]
    return name if name[:2].isupper() else name[:1].lower() + name[1:]
