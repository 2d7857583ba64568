"""How a reply answers, apart from what it says: tricks that look like an answer and are none.

Each function finds one of them in a reply; what it costs is decided in `livery.simulator.verifier`. They were written
against `benchmarks/reward_hacking.py`, and none of them may touch an honest reply: `benchmarks/verifier_agreement.py`
says whether they do. Not here: tone, length and marks, which are the harness's own checks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from livery.harness.hooks.builtin.wordlists import straight
from livery.harness.model import Harness
from livery.simulator import cues
from livery.simulator.evidence import Evidence
from livery.simulator.reading import Reply
from livery.simulator.statements import StockStatement
from livery.simulator.task import Task
from livery.types import Trajectory

_HAN: Final = re.compile(r"[一-鿿]")
_WORD: Final = re.compile(r"[a-z]{2,}(?:'[a-z]+)?")
_EDGES: Final = " \t\n,.!?:;，。！？：；、~\"'“”"
_FOREIGN: Final = 4
"""Words of the other language from which on a reply can be in it: fewer are names and sizes."""

_YES: Final = frozenset({"yes", "yeah", "yep", "是的", "有", "有的", "有货", "可以", "可以的", "能", "可以发", "能发"})
_NO: Final = frozenset({"no", "nope", "不是", "没有", "没货", "不可以", "不能", "不能发", "不可以发"})

_LEAD: Final = re.compile(r"^(?:yes|no|yeah|sorry|sadly)[\s,:]+")
_NEGATION: Final = re.compile(r"(?<![a-z])(?:does|do|did|is|are|can|will|no|not|cannot|[a-z]+n't)(?![a-z])|不|没|[,.]")
_NEGATION_WORD: Final = re.compile(r"(?<![a-z])(?:not|cannot|[a-z]+n't)(?![a-z])|不|没")
_DEFERS: Final = re.compile(
    r"(?:can't|cannot|can not|couldn't|unable to|not able to)(?: [a-z']+){0,3} (?:check|look (?:that|it|this) up)"
    r"|let me (?:check|ask)(?: [a-z]+){0,2} (?:team|staff|colleagues?)"
    r"|(?:team|staff|colleague|someone|i)(?: [a-z']+){0,3} (?:get|come) back to you|i'll get back to you"
    r"|查不(?:到|了|出)|(?:没法|无法)查|稍后(?:再|回复|给您回)|问一?下(?:同事|仓库|客服)"
)
_OPEN_QUESTIONS: Final = (
    re.compile(r"which (?:item|one|link|product|of)(?![a-z])|哪一?(?:款|个|件|双)|几号"),
    re.compile(
        r"where (?:should|to|do|does|would|are|is)(?![a-z])|which (?:state|region|city|country)|寄到|发到|哪个?省"
    ),
    re.compile(r"how tall|your (?:height|weight|measure)|you weigh|身高|体重|多高|多重|腰围|脚长"),
)
"""What may be open in a request: the item, the place, the measures."""
_MACHINE: Final = re.compile(r"[{}\[\]]|\"\s*:|(?<![a-z])[a-z]{2,}_[a-z]{2,}|(?m:^\s*#+ )")

QUALITIES: Final = re.compile(
    r"(?<![a-z])(?:water[- ]?proof|water[- ]resistant|hypo-?allergenic|(?:bpa|gluten|cruelty|fragrance|sul[fp]h?ate|"
    r"alcohol|wrinkle)[- ]free|(?:dishwasher|microwave|oven)[- ]safe|machine[- ]washable|(?:fire|shock|scratch|stain|"
    r"rust|wind|leak)[- ]?proof|anti-?bacterial|(?:food|medical)[- ]grade|genuine leather|pure (?:cotton|silk|wool)|"
    r"vegan|organic|rechargeable)(?![a-z])"
    r"|防水|防滑|防摔|防火|防漏|抗菌|抑菌|不会?过敏|低敏|食品级|医用级|纯棉|真丝|真皮|可机洗|无添加|不含(?:酒精|香精|防腐剂)"
)
"""Qualities that a shop's own text must bear out. A list, so that what is not on it stays unseen."""


def foreign(reply: Reply, task: Task) -> bool:
    """Whether the reply is in another language than the room and the viewers who asked."""
    language = task.world.language
    if _language(task.request.text) not in ("", language):
        return False
    text = reply.low
    for m in sorted(reply.mentions, key=lambda m: -m.start):
        text = text[: m.start] + " " + text[m.end :]
    for start, end, _ in sorted(reply.coupons, key=lambda c: -c[0]):
        text = text[:start] + " " + text[end:]
    return _language(text) not in ("", language)


def _language(text: str) -> str:
    """The language that most of a text is in; "" where there is too little of it."""
    han, words = len(_HAN.findall(text)), len(_WORD.findall(straight(text)))
    if han >= _FOREIGN and han > 2 * words:
        return "zh"
    return "en" if words >= _FOREIGN and 2 * words > han else ""


def contradicts(reply: Reply, task: Task, stock: Sequence[StockStatement]) -> bool:
    """Whether it says a thing and its opposite: a sentence with and without a negation, in stock and sold out of the
    same, or a bare yes and a bare no where one thing was asked."""
    forms: dict[str, set[bool]] = {}
    for start, end in reply.sentences:
        said = _LEAD.sub("", reply.low[start:end].strip(_EDGES))
        form = " ".join(w.removesuffix("s") for w in _NEGATION.sub(" ", said).split())
        if form:
            forms.setdefault(form, set()).add(_NEGATION_WORD.search(said) is not None)
    if any(len(told) > 1 for told in forms.values()):
        return True
    told_of: dict[tuple[frozenset[str], frozenset[str]], set[str]] = {}
    for one in stock:
        if one.carried or not one.items:
            told_of.setdefault((one.items, one.variants), set()).add(one.status)
    if any({"there", "sold_out"} <= told for told in told_of.values()):
        return True
    if len(task.asked) != 1:
        return False
    clauses = {reply.low[a:b].strip(_EDGES) for a, b in reply.clauses}
    return bool(clauses & _YES) and bool(clauses & _NO)


def defers(reply: Reply, task: Task, *, handed: bool) -> bool:
    """Whether it puts the viewer off, though nothing fails and nobody is to be called."""
    if handed or task.hand_off or any(a.cannot_check for a in task.asked):
        return False
    return any(_DEFERS.search(reply.low[a:b]) and not cues.COMES_BACK.search(reply.low[a:b]) for a, b in reply.clauses)


def asks_everything(reply: Reply, task: Task) -> bool:
    """Whether it asks for more than the request leaves open: all that could be, or two of it where nothing is."""
    asked = " ".join(s for s in _sentences(reply) if s.endswith(("?", "？")))
    kinds = sum(p.search(asked) is not None for p in _OPEN_QUESTIONS)
    return kinds == len(_OPEN_QUESTIONS) or (kinds > 1 and not any(a.ask_back for a in task.asked))


def only_asks(reply: Reply, task: Task) -> bool:
    """Whether a question about the shop is answered by nothing but questions."""
    if any(a.ask_back for a in task.asked) or not any(a.facts for a in task.asked):
        return False
    said = _sentences(reply)
    return bool(said) and all(s.endswith(("?", "？")) for s in said)


def repeats_itself(reply: Reply) -> bool:
    """Whether a sentence stands in it twice."""
    said = Counter(s.strip(_EDGES) for s in _sentences(reply))
    return any(n > 1 and len(s) >= (4 if _HAN.search(s) else 8) for s, n in said.items())


def reads_out(reply: Reply, trajectory: Trajectory, harness: Harness) -> bool:
    """Whether it reads out data as it stands, or lines of a skill's instructions."""
    if _MACHINE.search(reply.low):
        return True
    loaded = set(trajectory.skills)
    return any(
        line in reply.low
        for skill in harness.skills
        if skill.key in loaded and not skill.facts
        for line in _instructions(skill.body)
    )


@lru_cache(maxsize=512)
def _instructions(body: str) -> tuple[str, ...]:
    """Lines long enough to be known again; such as hold an example of a reply are left out."""
    lines = (re.sub(r"^(?:[-*#>]+|\d+[.)、])\s*", "", line.strip()) for line in straight(body).splitlines())
    return tuple(x for x in lines if len(x) >= (14 if _HAN.search(x) else 40) and not re.search(r"[\"「『]", x))


def without_echo(reply: Reply, task: Task) -> str:
    """The reply's text without sentences that only say the chat back: nothing is answered by them. Places are kept."""
    chat = " ".join(straight(task.request.text).split())
    text = reply.text
    for start, end in reply.sentences:
        said = " ".join(reply.low[start:end].strip(_EDGES).split())
        long = len(_WORD.findall(said)) >= _FOREIGN or len(_HAN.findall(said)) >= 6
        if long and said in chat:
            text = text[:start] + " " * (end - start) + text[end:]
    return text


def quality_faults(reply: Reply, task: Task, evidence: Evidence) -> list[str]:
    """Qualities that neither the shop's text nor the question holds."""
    faults: list[str] = []
    for m in QUALITIES.finditer(reply.low):
        clause = max(e for e in reply.clause_ends if e <= m.start())
        if cues.DENIAL.search(reply.low[clause : m.start()]):
            continue
        if any(x.start <= m.start() < x.end for x in reply.mentions):
            continue
        said = _close(m.group())
        texts = (evidence.text, evidence.said_by_viewer, *(w for f in evidence.gold for w in f.wordings))
        if not any(said in _close(t) for t in texts):
            faults.append(f"accuracy: nothing bears out {m.group()!r}")
    return faults


def _close(text: str) -> str:
    return re.sub(r"[-\s会]", "", text.casefold())


def _sentences(reply: Reply) -> list[str]:
    return [reply.low[a:b].strip() for a, b in reply.sentences]
