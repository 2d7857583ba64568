"""What a reply states without a number: stock, shipping, yes or no, which of two is cheaper, that it must ask back.

Each reader gives a stance, or None where the reply says nothing of it. Later words do not undo earlier ones: a reply
that says both is told so by the two stances, and judged wrong where one of them is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from livery.harness.hooks.builtin.wordlists import straight
from livery.shop.matching import STOP_WORDS, tokens
from livery.simulator import cues
from livery.simulator.lexicon import Lexicon
from livery.simulator.reading import Reply

Status = Literal["there", "sold_out", "discontinued", "upcoming"]

_YES_NO_FILL = frozenset(
    [
        "do",
        "does",
        "is",
        "are",
        "can",
        "it",
        "they",
        "the",
        "this",
        "that",
        "have",
        "has",
        "with",
        "any",
        "you",
        "i",
        "my",
    ]
)


_REFERENCES = frozenset(
    [
        "link", "item", "number", "product", "one", "asking", "ask", "thanks", "thank", "please", "hi", "hello",
        "sorry", "know", "wondering", "question", "链接", "这款", "那款", "这个", "那个", "号链", "请问",
        "谢谢", "问下", "问一", "一下", "提问", "可以", "可不", "不可", "能不", "不能",
    ]
)  # fmt: skip
"""Words of a question that say nothing of what is asked."""
_VERB_ONLY = re.compile(r"\W*(?:可以|能|会|行|有|支持|对)(?=[一-鿿])")
"""A yes that may as well be the verb of a sentence about something else: 可以点链接看看."""
_NO_VARIANT = re.compile(r"\W*(?:sorry,? )?(?:no|not in|没有?|无)(?![a-z])")


_SHORT = 6
"""Characters of a Chinese clause that can be an answer by its first word alone."""


@dataclass(frozen=True, slots=True)
class StockStatement:
    status: Status
    items: frozenset[str]
    """Empty where the reply leaves it open."""
    carried: bool
    """Whether the items are those of an earlier sentence."""
    variants: frozenset[str]
    """Labels spoken of; empty where it names none."""
    each: bool
    """Whether it names every one of them by all its options."""


def stock_statements(
    reply: Reply, lexicon: Lexicon, asked: frozenset[str], labels: frozenset[str] = frozenset()
) -> list[StockStatement]:
    """Everything the reply says about whether something can be had.

    Args:
        labels: of the variants asked about; "S is gone" of sage leggings is said of sage S.
    """
    found: list[StockStatement] = []
    last: frozenset[str] = frozenset()
    for start, end in reply.clauses:
        clause = reply.low[start:end]
        last = reply.subject(start, end) or last
        sentence = _around(reply.sentence_ends, start)
        carried = bool(last) and not reply.subject(*sentence)
        if end and reply.low[end - 1] in "?？":
            continue
        links = last or asked
        statuses = _statuses(clause)
        if not statuses and not (_NO_VARIANT.match(clause) or cues.HAVE.search(clause)):
            continue
        variants = frozenset[str]().union(*(lexicon.variants_in(reply.text[start:end], x) for x in links))
        if not statuses:  # "no mustard M, sorry", "we have cream"
            if not variants:
                continue
            statuses = ("sold_out",) if _NO_VARIANT.match(clause) else ("there",)
        variants = (variants & labels) or variants
        each = any(lexicon.names_each(reply.text[start:end], x) for x in links)
        if not variants:
            s_start, s_end = sentence
            if len(_in_sentence(reply, s_start, s_end)) == 1:
                said = reply.text[s_start:s_end]
                variants = frozenset[str]().union(*(lexicon.variants_in(said, x) for x in links))
        found += [StockStatement(s, last, carried, variants, each) for s in statuses]
    return found


def _in_sentence(reply: Reply, start: int, end: int) -> list[Status]:
    return [s for a, b in reply.clauses if start <= a < end for s in _statuses(reply.low[a:b])]


def _around(ends: tuple[int, ...], at: int) -> tuple[int, int]:
    start = max(e for e in ends if e <= at)
    return start, min((e for e in ends if e > at), default=ends[-1])


@lru_cache(maxsize=1024)
def _statuses(clause: str) -> tuple[Status, ...]:
    found: list[Status] = []
    left = clause
    for status, pattern in (("discontinued", cues.ENDED), ("upcoming", cues.UNOPENED), ("sold_out", cues.GONE)):
        if pattern.search(left):
            found.append(status)  # type: ignore[arg-type]
            left = pattern.sub("  ", left)
    for m in cues.THERE.finditer(left):
        if not cues.DENIAL.search(left[max(0, m.start() - 12) : m.start()]):
            found.append("there")
            break
        found.append("sold_out")
        break
    return tuple(dict.fromkeys(found))


def promises_return(reply: Reply) -> bool:
    """Whether it says that something gone comes back."""
    for m in cues.COMES_BACK.finditer(reply.low):
        if not cues.DENIAL.search(reply.low[max(0, m.start() - 16) : m.start()]):
            return True
    return False


# ------------------------------------------------------------------------------------- shipping


def ships(reply: Reply, *, alone: bool) -> bool | None:
    """Whether it says that the order ships there; a bare yes or no counts where nothing else is asked."""
    stances: list[bool] = []
    for start, end in reply.clauses:
        clause = reply.low[start:end]
        if cues.NO_SHIP.search(clause):
            stances.append(False)
        elif cues.SHIPS.search(clause):
            stances.append(True)
    return stances[0] if stances else leading(reply) if alone else None


@dataclass(frozen=True, slots=True)
class FreeStatement:
    shipping: bool
    text: str
    clause: str


def free_statements(reply: Reply, *, shipping: bool = False) -> list[FreeStatement]:
    """Everything the reply calls free, save what it calls free from an amount on (满99包邮).

    Args:
        shipping: nothing but shipping was asked about, so that a bare "free" speaks of it.
    """
    found: list[FreeStatement] = []
    for start, end in reply.clauses:
        clause = reply.low[start:end]
        conditional = any(c.role == "threshold" for c in reply.claims if start <= c.quantity.start < end)
        for m in cues.FREE_SHIPPING.finditer(clause):
            if not conditional and not cues.NOT_FREE.search(clause):
                found.append(FreeStatement(True, m.group(), clause))
        rest = cues.FREE_SHIPPING.sub(" ", clause)
        for m in cues.FREE.finditer(rest):
            if not cues.NOT_FREE.search(clause) and not cues.DENIAL.search(rest[max(0, m.start() - 10) : m.start()]):
                about = (
                    (shipping and "free" in m.group() and not reply.subject(start, end))
                    or cues.FREE_SHIPPING.search(reply.low[:end]) is not None
                    or "shipping" in reply.low[:start]
                )
                found.append(FreeStatement(about, m.group(), clause))
    return found


# ------------------------------------------------------------------------------------- yes and no


def leading(reply: Reply) -> bool | None:
    """The yes or no that a sentence, or a clause after a comma, begins with."""
    for start, end in reply.clauses:
        said = _yes_no(reply.low[start:end])
        if said is not None and not _verb_only(reply.low[start:end]):
            return said
    return None


def _verb_only(clause: str) -> bool:
    return _VERB_ONLY.match(clause) is not None and len(re.findall(r"[一-鿿]", clause)) > _SHORT


@lru_cache(maxsize=1024)
def _yes_no(clause: str) -> bool | None:
    bare = clause
    while (m := cues.POLITE.match(bare)) and m.end():
        bare = bare[m.end() :]
    if cues.NO.match(bare):
        return False
    return True if cues.YES.match(bare) else None


def topic_words(key: str, wordings: Iterable[str], asked: str, names: Iterable[str]) -> frozenset[str]:
    """Words by which a clause is known to be about a yes-or-no fact."""
    return _topic(key, tuple(wordings), asked, tuple(names))


@lru_cache(maxsize=1024)
def _topic(key: str, wordings: tuple[str, ...], asked: str, names: tuple[str, ...]) -> frozenset[str]:
    drop = {t for n in names for t in tokens(n)}
    words = {w for part in re.split(r"[._\s]", key) for w in tokens(part)}
    words |= {t for text in (*wordings, asked) for t in tokens(text)}
    drop |= _REFERENCES
    return frozenset(w for w in words if w not in drop and w not in STOP_WORDS and w not in _YES_NO_FILL and len(w) > 1)


def holds(reply: Reply, topic: frozenset[str], wordings: Iterable[str], gold: bool, *, alone: bool) -> bool | None:
    """What the reply says to a yes-or-no question.

    Args:
        gold: what a wording of the fact states.
        alone: nothing else was asked, so that a bare "yes" answers it.
    """
    if worded(reply, wordings):
        return gold
    stance: bool | None = None
    for start, end in reply.clauses:
        clause = reply.low[start:end]
        if end and reply.low[end - 1] in "?？":
            continue
        about = bool(topic & frozenset(tokens(clause)))
        first = _yes_no(clause)
        if alone and stance is not None:
            return stance
        if about:
            return first if first is not None else cues.DENIAL.search(clause) is None
        if first is not None and stance is None and not _verb_only(clause):
            stance = first
    return stance if alone or stance is not None else None


def coupon_stance(reply: Reply, *, alone: bool) -> bool | None:
    """Whether it says that the coupon asked about can be used."""
    for start, end in reply.clauses:
        clause = reply.low[start:end]
        coupon = cues.COUPON.search(clause) or any(start <= a < end for a, _, _ in reply.coupons)
        if not coupon and not alone:
            continue
        if cues.EXPIRED.search(clause) or (cues.DENIAL.search(clause) and (coupon or _yes_no(clause) is False)):
            return False
        if re.search(r"用不了|不了券|叠不了", clause):
            return False
        if coupon and (cues.WORKS.search(clause) or _yes_no(clause)):
            return True
        if not coupon and (_yes_no(clause) or cues.WORKS.search(clause)):
            return True
    return None


def promotion_stances(reply: Reply) -> list[bool]:
    """What it says of whether a promotion runs now, clause by clause."""
    found: list[bool] = []
    for start, end in reply.clauses:
        clause = reply.low[start:end]
        priced = any(c.quantity.kind == "money" and start <= c.quantity.start < end for c in reply.claims)
        if cues.GONE.search(clause) or (priced and not cues.PROMOTION_WORD.search(clause)):
            continue  # an item's state, or its price "right now"
        if cues.PROMOTION_OFF.search(clause) or _yes_no(clause) is False:
            found.append(False)
        elif cues.PROMOTION_ON.search(clause) or (_yes_no(clause) and not _verb_only(clause)):
            found.append(True)
    return found


# ------------------------------------------------------------------------------------- text


def worded(reply: Reply, wordings: Iterable[str]) -> bool:
    """Whether one of the wordings stands in the reply, undenied where it holds no denial itself.

    Wordings that are a bare yes or no, or shorter than a word, tell nothing by standing somewhere.
    """
    for said in wordings:
        found = _wording(said)
        if found is None:
            continue
        pattern, denies = found
        for m in pattern.finditer(reply.low):
            start, _ = _around(reply.clause_ends, m.start())
            if denies or not cues.DENIAL.search(reply.low[start : m.start()]):
                return True
    return False


_BARE = frozenset(
    [
        "yes",
        "no",
        "yes.",
        "no.",
        "left",
        "over",
        "starts",
        "is",
        "on",
        "not",
        "on",
        "没有",
        "可以",
        "开始",
        "不",
        "没",
        "能",
        "有",
        "是的",
        "有的",
        "过了",
        "不在",
        "带",
        "方便",
    ]
) | {"is on", "not on"}


@lru_cache(maxsize=8192)
def _wording(said: str) -> tuple[re.Pattern[str], bool] | None:
    low = straight(said).strip(" .,!?;。，！？；")
    if len(low) < 2 or low in _BARE:
        return None
    parts = [re.escape(p) for p in re.split(r"[\s,，.。!！;；:：、'\"~-]+", low) if p]
    before = r"(?<![a-z0-9])" if low[0].isascii() and low[0].isalnum() else ""
    after = r"(?![a-z0-9])" if low[-1].isascii() and low[-1].isalnum() else ""
    joined = r"[\s,，.。!！;；:：、'\"~-]*".join(parts)
    return re.compile(before + joined + after), cues.DENIAL.search(low) is not None


def covered(reply: Reply, value: str) -> float:
    """Share of a text's content words that the reply has."""
    wanted = frozenset(w for w in tokens(value) if w not in STOP_WORDS and w not in ("no", "yes", "but", "not"))
    if not wanted:
        return 0.0
    return len(wanted & frozenset(tokens(reply.low))) / len(wanted)


# ------------------------------------------------------------------------------------- comparing


@dataclass(frozen=True, slots=True)
class Comparison:
    aspect: Literal["price", "weight", "size"]
    less: frozenset[str]
    """The cheaper, lighter or smaller item; empty with ``more`` empty: equal."""
    more: frozenset[str]


_ASPECTS: tuple[tuple[Literal["price", "weight", "size"], bool, re.Pattern[str]], ...] = (
    ("price", True, cues.CHEAPER), ("price", False, cues.DEARER), ("weight", True, cues.LIGHTER),
    ("weight", False, cues.HEAVIER), ("size", True, cues.SMALLER), ("size", False, cues.BIGGER),
)  # fmt: skip


def comparisons(reply: Reply, asked: frozenset[str]) -> Iterator[Comparison]:
    """Comparative claims, with the items on either side."""
    for start, end in reply.sentences:
        sentence = reply.low[start:end]
        here = [m for m in reply.mentions if start <= m.start < end]
        if cues.EQUAL.search(sentence):
            yield Comparison("price", frozenset(), frozenset())
            continue
        for aspect, less, pattern in _ASPECTS:
            for m in pattern.finditer(sentence):
                at = start + m.start()
                before = [x for x in here if x.start < at]
                after = [x for x in here if x.start >= at]
                subjects = [x for x in before if not _behind_than(reply.low, start, x.start)]
                subject = (subjects or before or after)[-1 if subjects else 0].links if here else frozenset[str]()
                if not subject:
                    continue
                if cues.DENIAL.search(reply.low[max(start, at - 8) : at]):
                    less = not less
                other = asked - subject
                yield Comparison(aspect, subject, other) if less else Comparison(aspect, other, subject)


def _behind_than(low: str, start: int, at: int) -> bool:
    return re.search(r"(?:than|versus|vs|against|比)\s?(?:the )?$", low[start:at]) is not None


def picks(reply: Reply, asked: frozenset[str]) -> frozenset[str]:
    """The item that "the skillet, by $14.81" answers with."""
    if not any(c.role == "difference" for c in reply.claims):
        return frozenset()
    named = [m for m in reply.mentions if m.links & asked]
    return named[0].links & asked if named else frozenset()
