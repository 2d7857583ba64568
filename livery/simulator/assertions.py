"""Whether what a reply asserts without figures is true: stock, shipping, coupons, comparisons, promises, yes and no.

`livery.simulator.statements` says what a reply asserts; here that is held against gold and results. Figures are
`livery.simulator.judging`'s.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from livery.harness.hooks.builtin.personal_data import personal_data
from livery.harness.hooks.builtin.wordlists import Category, Match, categories, find, straight, supported
from livery.shop.matching import tokens
from livery.simulator import cues, statements
from livery.simulator.evidence import Evidence
from livery.simulator.reading import Reply
from livery.simulator.task import GoldFact, Intent, Task

STOCK = frozenset({"in_stock", "available", "availability", "on_sale", "can_buy"})
"""Keys of gold facts that say whether a thing can be had."""
CHEAPEST = frozenset({"cheapest", "cheaper", "lower_price", "less"})
"""Keys of gold facts that say which of several costs least."""
_COUPON = re.compile(r"coupon|applies|stack|voucher")
_PERSONAL = ("phone", "email", "id_card", "bank_card", "address", "handle")


def statement_faults(task: Task, reply: Reply, evidence: Evidence) -> list[str]:
    """What is wrong among the things said without figures."""
    faults = _stock_faults(reply, evidence)
    if returns_unknown(reply, evidence):
        faults.append("accuracy: nothing is known of a restock")
    for free in statements.free_statements(reply, shipping=only_shipping(task)):
        if not free_holds(free, evidence):
            faults.append(f"accuracy: nothing bears out {free.text.strip()!r}")
    faults += _coupon_faults(reply, evidence)
    faults += comparison_faults(reply, evidence)
    faults += _exception_faults(reply, evidence)
    alone = len(task.asked) == 1 and len([f for f in evidence.gold if f.required]) == 1
    single = len(task.asked) == 1
    faults += _refusal_faults(task, reply, evidence)
    faults += _end_faults(task, reply, evidence)
    faults += _opposite_faults(reply, evidence)
    for fact in evidence.gold:
        stance = stance_of(fact, task, reply, evidence, alone=alone)
        if stance is not None and stance is not truth_of(fact):
            faults.append(f"accuracy: {fact.key} is told as {stance}, it is {truth_of(fact)}")
    ships = evidence.ships()
    if (
        ships is not None
        and Intent.SHIPPING in {a.intent for a in task.asked}
        and statements.ships(reply, alone=single) is (not ships)
    ):
        faults.append(f"accuracy: it {'does' if ships else 'does not'} ship there")
    return faults


def _refusal_faults(task: Task, reply: Reply, evidence: Evidence) -> list[str]:
    """A service denied that a rule grants: "we don't do gift wrap"."""
    asked = {a.intent for a in task.asked}
    if Intent.AFTER_SALES not in asked or not any(
        f.required and f.kind not in ("yes_no", "text") for f in evidence.gold
    ):
        return []
    words = frozenset(tokens(task.request.text)) | frozenset(
        t for r in evidence.rules if len(r) < 16 for t in tokens(r)
    )
    rules = frozenset(t for r in evidence.rules for t in tokens(r))
    for start, end in reply.clauses:
        clause = reply.low[start:end]
        if any(p.search(clause) for p in (cues.GONE, cues.UNOPENED, cues.NO_SHIP)) or _golden(clause, evidence):
            continue  # of an item or a place, or an answer that was written for it
        if cues.FINAL_SALE.search(clause) or (
            cues.REFUSES.search(clause) and words & rules & frozenset(tokens(clause))
        ):
            return [f"accuracy: {clause.strip()!r} is granted by a rule"]
    return []


def _golden(clause: str, evidence: Evidence) -> bool:
    """Whether a clause is a wording of a fact."""
    said = clause.strip(" ,.!?;，。！？；")
    return any(said in straight(w) for f in evidence.gold for w in f.wordings if f.key == "faq")


def only_shipping(task: Task) -> bool:
    return all(a.intent is Intent.SHIPPING for a in task.asked)


def _end_faults(task: Task, reply: Reply, evidence: Evidence) -> list[str]:
    """A promotion told as over that runs."""
    today = datetime.fromtimestamp(task.request.state.now, UTC).date().isoformat()
    if not any(f.required and f.key == "ends_at" and str(f.value) > today for f in evidence.gold):
        return []
    if any(f.key == "promotion_active" and f.value is False for f in evidence.gold):
        return []  # another one that was asked about is over
    dated = [c.quantity.start for c in reply.claims if c.quantity.kind == "date"]
    over = [
        reply.low[a:b]
        for a, b in reply.clauses
        # With its day told ("活动8月6日结束") the day says whether it runs.
        if cues.OVER_NOW.search(reply.low[a:b]) and not any(a <= at < b for at in dated)
    ]
    return [f"accuracy: {c.strip()!r}, but it runs" for c in over if not cues.DENIAL.search(c)]


def _opposite_faults(reply: Reply, evidence: Evidence) -> list[str]:
    """The opposite of an answer that denies: "it does bleed" where the answer is "does not bleed easily"."""
    faults: list[str] = []
    for fact in evidence.gold:
        if fact.kind != "text" or statements.worded(reply, fact.wordings):
            continue
        for wording in fact.wordings:
            denied = cues.NOT_SO.match(wording.casefold())
            if denied is None or len(denied.group("what")) < 2:
                continue
            for start, end in reply.clauses:
                clause = reply.low[start:end]
                if denied.group("what") in clause and not cues.DENIAL.search(clause):
                    faults.append(f"accuracy: {clause.strip()!r} is denied by the answer")
    return faults


def returns_unknown(reply: Reply, evidence: Evidence) -> bool:
    return statements.promises_return(reply) and not cues.BACK_KNOWN.search("\n".join(evidence.rules))


def truth_of(fact: GoldFact) -> bool:
    """A yes-or-no fact's value; of a text that begins with yes or no, that."""
    if isinstance(fact.value, bool):
        return fact.value
    return _leading(str(fact.value)) is not False


@lru_cache(maxsize=1024)
def _leading(text: str) -> bool | None:
    """The yes or no that an answer begins with."""
    low = text.casefold()
    return False if cues.NO.match(low) else True if cues.YES.match(low) else None


def stance_of(fact: GoldFact, task: Task, reply: Reply, evidence: Evidence, *, alone: bool) -> bool | None:
    """What the reply says to a yes-or-no fact; None where it says nothing, or the fact is none."""
    key = fact.key.rsplit(".", 1)[-1]
    if fact.kind == "text":
        if (
            key in CHEAPEST
            or key in ("status", "promotion")
            or fact.key.startswith("specs.")
            or _leading(str(fact.value)) is None
            or not alone
        ):
            return None
        said = statements.leading(reply)
        return said if said is not None and not statements.worded(reply, fact.wordings) else None
    if fact.kind != "yes_no" or not isinstance(fact.value, bool):
        return None
    if key in STOCK:
        return _stock_stance(fact, reply, evidence, alone=alone)
    if key == "ships":
        said = statements.ships(reply, alone=len(task.asked) == 1)
        if said is None and statements.worded(reply, fact.wordings):
            return fact.value
        return said
    if key == "promotion_active":
        said = statements.promotion_stances(reply)
        if len(task.asked) > 1 and fact.value in said:
            return fact.value  # the rest may be said of what else was asked
        return said[0] if said else None
    if _COUPON.search(key):
        if statements.worded(reply, fact.wordings):
            return fact.value
        return statements.coupon_stance(reply, alone=len(task.asked) == 1)
    asked = " ".join(
        task.request.messages[a.message].text
        for a in task.asked
        if fact in a.facts and a.message < len(task.request.messages)
    )
    names = [n for k in evidence.known for n, link in k.names if not fact.item or link == fact.item]
    questions = " ".join(q for k in evidence.known for q in k.questions if fact.item in k.items or not fact.item)
    asked = f"{asked} {questions}" if len(task.asked) == 1 else questions
    topic = statements.topic_words(fact.key, fact.wordings, asked, names)
    return statements.holds(reply, topic, fact.wordings, fact.value, alone=alone)


# ---- stock


def stock_said(reply: Reply, evidence: Evidence) -> list[statements.StockStatement]:
    labels = frozenset[str]().union(*(_asked_labels(link, evidence) for link in evidence.asked))
    return statements.stock_statements(reply, evidence.lexicon, evidence.asked, labels)


def _stock_stance(fact: GoldFact, reply: Reply, evidence: Evidence, *, alone: bool) -> bool | None:
    found = stock_said(reply, evidence)
    asked = _asked_labels(fact.item, evidence)
    for said in found:
        if said.items and fact.item and fact.item not in said.items and not (said.carried and evidence.several):
            continue
        if said.variants and asked and not said.variants & asked:
            continue
        known = set(evidence.statuses(fact.item, "")) & {"upcoming", "discontinued"}
        if known and not _stock_fits(said.status, known):
            return None
        return said.status == "there"
    if statements.worded(reply, fact.wordings):
        return bool(fact.value)
    return statements.leading(reply) if alone else None


def _asked_labels(item: str, evidence: Evidence) -> frozenset[str]:
    return frozenset(
        label
        for words in evidence.variants.get(item, frozenset())
        for label in evidence.lexicon.variants_in(words, item)
    )


def _stock_faults(reply: Reply, evidence: Evidence) -> list[str]:
    """Stock told otherwise than it is known."""
    faults: list[str] = []
    promoted = any(f.key == "promotion_active" for f in evidence.gold)
    for said in stock_said(reply, evidence):
        open_ = not said.items or (said.carried and (evidence.several or promoted))
        links = evidence.asked if open_ else said.items if len(said.items) == 1 else said.items & evidence.asked
        if said.status == "upcoming" and open_ and promoted:
            continue  # the promotion has not started
        wrong: list[str] = []
        for link in sorted(links):
            labels = said.variants or _asked_labels(link, evidence)
            known = {s for label in labels for s in evidence.statuses(link, label)}
            if not known and (not said.variants or not labels):
                known = set(evidence.statuses(link, ""))
            whole = set(evidence.statuses(link, ""))
            known |= whole & {"upcoming", "discontinued"}
            if not known:
                gold = next(
                    (f for f in evidence.gold if f.item == link and f.key in STOCK and isinstance(f.value, bool)), None
                )
                something = gold is not None or any(link in k.items for k in evidence.known)
                elsewhere = not said.carried and link in said.items and link not in evidence.asked
                if not something and (said.status == "there" or elsewhere):
                    wrong.append(f"accuracy: nothing is known of the stock of item {link}")
                continue
            apart = [{*evidence.statuses(link, label)} for label in labels if evidence.statuses(link, label)]
            listed = said.each and said.variants and any(not _stock_fits(said.status, own) for own in apart)
            if listed or not _stock_fits(said.status, known):
                wrong.append(f"accuracy: item {link} is told as {said.status}, it is {' or '.join(sorted(known))}")
        # Said of no item by name, it is wrong only if it is wrong of each that it may be said of.
        faults += wrong if not open_ or len(wrong) == len(links) or not evidence.several else []
    return faults


def _stock_fits(said: statements.Status, known: set[str]) -> bool:
    if "upcoming" in known:
        return said == "upcoming"
    if "discontinued" in known:
        return said in ("discontinued", "sold_out")
    if said == "there":
        return "on_sale" in known
    if said == "sold_out":
        return "sold_out" in known
    return False


# ---- what is free, coupons, comparisons, exceptions


def free_holds(free: statements.FreeStatement, evidence: Evidence) -> bool:
    if free.shipping:
        fees = [f for f in evidence.pool("money") if f.role == "fee"]
        if fees:
            return any(f.quantity.value == 0 for f in fees)
        return any(cues.FREE_SHIPPING.search(r) for r in evidence.rules)
    return any("免费" in r or "不要钱" in r or re.search(r"(?<![a-z-])free(?![a-z-])", r) for r in evidence.rules)


def _coupon_faults(reply: Reply, evidence: Evidence) -> list[str]:
    """Coupons told as part of the price that are not."""
    faults: list[str] = []
    golden = {straight(w) for f in evidence.gold if f.key == "promotion" for w in f.wordings}
    running = {c for c in evidence.refused if straight(c) in golden}
    for start, end in reply.clauses:
        clause = reply.low[start:end]
        for at, _, codes in reply.coupons:
            if not start <= at < end or not codes <= evidence.refused.keys():
                continue
            if (
                cues.DENIAL.search(clause)
                or cues.EXPIRED.search(clause)
                or re.search(r"用不了|不了|只能|instead|only", clause)
            ):
                continue
            if end and reply.low[end - 1] in "?？":
                continue
            if codes & running:
                continue  # asked what runs: it does, whether or not a price that was asked beside it uses it
            if "member" in "".join(evidence.refused[c] for c in codes) and re.search(
                r"if|members? (?:can|get)|会员(?:可|能)", clause
            ):
                continue
            if cues.SENTENCE.search(clause) is None and _named_later(reply, at, end):
                continue
            faults.append(f"accuracy: coupon {'/'.join(sorted(codes))} is not part of the price")
    for name in evidence.later:
        at = reply.low.find(name)
        if at >= 0 and not cues.FUTURE.search(reply.low[max(0, at - 40) : at + len(name) + 60]):
            faults.append(f"accuracy: {name!r} has not started")
    return faults


def _named_later(reply: Reply, at: int, end: int) -> bool:
    """A coupon named first and denied in the next clause: "SPRING26? That has ended"."""
    nxt = next(((a, b) for a, b in reply.clauses if a >= end), None)
    said = reply.low[nxt[0] : nxt[1]] if nxt else ""
    return bool(
        re.match(
            r"\s*(?:it|that|this|but|这张|这个|已)?[^,，]{0,10}(?:isn't|can't|doesn't|ended|expired|not|不|过期|结束)",
            said,
        )
    )


def comparison_faults(reply: Reply, evidence: Evidence) -> list[str]:
    faults: list[str] = []
    prices = evidence.prices()
    for said in statements.comparisons(reply, evidence.asked):
        if said.aspect == "price":
            golden = {f.item for f in evidence.gold if f.key.rsplit(".", 1)[-1] in CHEAPEST}
            cheapest = evidence.cheapest or (golden.pop() if len(golden) == 1 else "")
            if not said.less and not said.more:
                if cheapest:
                    faults.append("accuracy: the prices differ")
            elif cheapest:
                if (said.less and cheapest not in said.less) or cheapest in said.more:
                    faults.append(f"accuracy: item {cheapest} is the cheaper one")
            elif len(said.less) == 1 and len(said.more) == 1:
                a, b = prices.get(min(said.less)), prices.get(min(said.more))
                if a is not None and b is not None and a >= b:
                    faults.append(f"accuracy: item {min(said.less)} is not cheaper")
        elif len(said.less) == 1 and len(said.more) == 1:
            for unit in ("g",) if said.aspect == "weight" else ("ml", "mm"):
                less, more = _measure(min(said.less), unit, evidence), _measure(min(said.more), unit, evidence)
                if less is not None and more is not None and less > more:
                    faults.append(f"accuracy: item {min(said.less)} is not the one with less {said.aspect}")
    return faults


def _measure(item: str, unit: str, evidence: Evidence) -> float | None:
    values = {
        float(f.quantity.value) for f in evidence.pool("measure")
        if f.item == item and f.quantity.unit == unit and not isinstance(f.quantity.value, str)
    }  # fmt: skip
    return values.pop() if len(values) == 1 else None


def _exception_faults(reply: Reply, evidence: Evidence) -> list[str]:
    """What a rule excepts, told as included: "opened masks can be returned too"."""
    faults: list[str] = []
    for start, end in reply.clauses:
        clause = reply.low[start:end]
        if not cues.STILL.search(clause) or cues.DENIAL.search(clause) or cues.EXCEPTED.search(clause):
            continue
        words = frozenset(tokens(clause))
        for rule in evidence.rules:
            for part in re.split(cues.SENTENCE, rule):
                if cues.EXCEPTED.search(part) and len(words & _content(part)) >= 1:
                    faults.append(f"accuracy: {clause.strip()!r} is excepted by the rule")
    return faults


@lru_cache(maxsize=1024)
def _content(text: str) -> frozenset[str]:
    """Content words, without those of the rule's own topic."""
    return frozenset(t for t in tokens(text) if t not in ("return", "returned", "可以", "退货", "除外", "can", "not"))


# ---- claims and promises no result holds


def forbidden_faults(task: Task, reply: Reply, evidence: Evidence) -> list[str]:
    faults: list[str] = []
    for pattern in task.forbidden:
        if found := _compiled(pattern).search(reply.low):
            faults.append(f"accuracy: forbidden here: {found.group()!r}")
    for group in ("banned", "promises"):
        chosen = categories(group)
        by_name = {c.name: c for c in chosen}
        for match in find(reply.low, chosen):
            if not _borne_out(match, by_name[match.category], group, reply, evidence):
                faults.append(f"accuracy: {match.category}: {match.text.strip()!r}")
    if found := cues.BEST.search(reply.low):
        faults.append(f"accuracy: superlative: {found.group()!r}")
    for code in cues.RATING.findall(reply.low):
        if code not in evidence.text and code not in evidence.said_by_viewer:
            faults.append(f"accuracy: nothing bears out {code!r}")
    if personal_data(reply.text, _PERSONAL):
        faults.append("accuracy: personal data")
    return faults


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _borne_out(match: Match, category: Category, group: str, reply: Reply, evidence: Evidence) -> bool:
    if match.text in evidence.text:
        return True
    if group == "banned":
        if match.category == "superlative" and re.search(r"cheap|便宜|实惠|划算", match.text):
            return bool(evidence.cheapest) and re.search(r"全|史上|历史|ever|anywhere|world", match.text) is None
        if cues.OF_DATE.match(reply.low, match.end):
            return True  # "the last day of 2029"
        # Figures in it are judged as figures; words of scarcity without any are no fact.
        figures = [c for c in reply.claims if match.start <= c.quantity.start < match.end]
        return category.groundable and bool(figures)
    if cues.FREE_SHIPPING.search(match.text):
        return True  # judged by the fee
    if category.name == "delivery" and re.search(r"包邮|免邮|免运", match.text):
        return True
    if any(
        c.quantity.unit in ("buy", "free") and match.start <= c.quantity.end and c.quantity.start < match.end
        for c in reply.claims
    ):
        return True  # "buy two, get one free" is judged by its figures
    if category.name == "delivery" and re.search(
        r"arriv|deliver|be (?:there|with)|get (?:it|there)|reach|have it|到|收", match.text
    ):
        return False
    strict = cues.STRICT.search(match.text)
    if strict and strict.group() not in evidence.text:
        return False
    return supported(evidence.text, category)
