"""Grounding: a reply may state only quantities that this request's tool results or trusted text hold.

Money, percentages, counts, measures, sizes, dates and durations in a reply are read by
`livery.harness.quantities` and each must be borne out, exactly. Numbers a viewer wrote are no
evidence; asking one back ("two pieces, right?") is no claim, save for money and percentages, where
the check is strict. A quantity that is true of another item than the one spoken of is refused too,
and so is a discount that a quote did not use, unless the reply names its terms. What this cannot see:
a right number given a wrong meaning on the right item (list price told as the coupon price, the price of
one for two), clock times and relative days ("ends at midnight", "by Friday"), and facts without numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from livery.harness.hooks.builtin.definition import Builtin, Params, worded
from livery.harness.hooks.builtin.evidence import Evidence, evidence_of
from livery.harness.hooks.builtin.wordlists import straight
from livery.harness.hooks.decisions import Allow, Decision, HookContext, HookFunction, Retry
from livery.harness.quantities import FACTUAL, Quantity, matches, read_quantities
from livery.types import Checkpoint

GroundedKind = Literal["money", "percent", "count", "measure", "size", "date", "duration", "number"]


class GroundingParams(Params):
    kinds: tuple[GroundedKind, ...] = (
        "money",
        "percent",
        "count",
        "measure",
        "size",
        "date",
        "duration",
        "number",
    )
    """Kinds that must be borne out. ``number`` is a bare one ("about 40"): it must equal some known value."""
    allow: tuple[str, ...] = ()
    """Quantities always allowed, as they are said: "7 days", "24小时"."""
    small: int = Field(default=2, ge=0)
    """Bare numbers up to this, and counts of one, are not checked ("two things to know", "a pair of")."""
    wrong_item: bool = True
    """Refuse a quantity whose evidence is all about items other than the one spoken of."""
    questions: bool = True
    """Let a question repeat a quantity that is neither money nor percent."""


@dataclass(frozen=True, slots=True)
class Fault:
    quantity: Quantity
    item: str = ""
    """The item spoken of, where the number belongs to another."""
    unmet: bool = False
    """It belongs to a discount that was not used, and the reply names no terms."""


_NAMES = {
    "money": ("price or amount", "金额"), "percent": ("percentage", "折扣或百分比"),
    "count": ("quantity", "数量"),
    "measure": ("measure", "规格"), "size": ("size", "尺码"), "date": ("date", "日期"),
    "duration": ("time span", "时长"), "number": ("number", "数字"),
}  # fmt: skip
_SENTENCE = re.compile(r"[!?;。！？；\n]|\.(?=\s|$)")
_TERMS = re.compile(
    r"(?i:(?<![a-z])(?:if|when|once|unless|with|members?|membership|club|coupons?|codes?|spend(?:ing)?|over|above|from|minimum"
    r"|can't|cannot|isn't|doesn't|won't|not|only for|orders? of|follow(?:ers?)?|claim|subscrib)(?![a-z]))"
    r"|(?<![A-Za-z])[A-Z]{3,}\d*(?![a-z])|满|会员|券|码|如果|不能|不可|需|凑|叠加|达到|仅限|关注|新客|领"
)
"""Words by which a reply says under what terms a discount would hold."""
_OFFERED = frozenset({"money", "percent", "count", "number"})
_QUESTION_END = re.compile(r"[?？]")
_ANOTHER = re.compile(
    r"(?<![a-z])(?:another|other|alternative(?:ly)?|instead|also|both|each|all|similar)(?![a-z])|也有|另|还有|推荐|其他|别的|都"
)


def build(params: GroundingParams, language: str) -> HookFunction:
    kinds = frozenset(params.kinds)
    always = tuple(q for said in params.allow for q in read_quantities(said, language))

    def check(value: str, context: HookContext) -> Decision:
        faults = ungrounded(
            value, context, language=language, kinds=kinds, always=always, small=params.small,
            wrong_item=params.wrong_item, questions=params.questions,
        )  # fmt: skip
        return _retry(faults, language) if faults else Allow()

    return check


def ungrounded(
    reply: str,
    context: HookContext,
    *,
    language: str,
    kinds: frozenset[str] = FACTUAL,
    always: Sequence[Quantity] = (),
    small: int = 2,
    wrong_item: bool = True,
    questions: bool = True,
) -> list[Fault]:
    """Every quantity of ``reply`` that nothing bears out, in order."""
    read = read_quantities(reply, language)
    claims = [q for q in read if q.kind in kinds and not _harmless(q, small)]
    if not claims:
        return []
    evidence = evidence_of(context)
    subjects = _Subjects(reply, read, context, evidence) if wrong_item and len(evidence.items) > 0 else None
    faults: list[Fault] = []
    for claim in claims:
        if questions and claim.kind not in ("money", "percent") and _asked(reply, claim):
            continue
        if any(matches(claim, q) for q in always):
            continue
        facts = evidence.bearing_out(claim)
        if not facts:
            faults.append(Fault(claim))
        elif claim.kind in _OFFERED and all(f.conditional for f in facts) and not _TERMS.search(reply):
            faults.append(Fault(claim, unmet=True))
        elif subjects is not None and all(f.items for f in facts):
            spoken_of = subjects.of(claim)
            if spoken_of and not any(f.items & spoken_of for f in facts):
                faults.append(Fault(claim, ", ".join(sorted(spoken_of))))
    return faults


def _harmless(q: Quantity, small: int) -> bool:
    if q.kind == "number":
        return isinstance(q.value, int) and 0 <= q.value <= small
    return q.kind == "count" and q.value == 1 and q.unit not in ("buy", "free")


def _asked(reply: str, claim: Quantity) -> bool:
    end = _SENTENCE.search(reply, claim.end)
    return end is not None and _QUESTION_END.match(end.group()) is not None


def _heads(names: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    """Last word of an English name -> link id and where the word begins in the name; only words that tell
    the items apart."""
    words = {name: re.findall(r"[a-z]+", name) for name in names}
    count = Counter(w for found in words.values() for w in set(found))
    return {
        found[-1]: (names[name], name.rindex(found[-1]))
        for name, found in words.items()
        if len(names) > 1 and found and len(found[-1]) >= 4 and count[found[-1]] == 1
    }


class _Subjects:
    """Which item each part of a reply is about, as far as it says so."""

    def __init__(
        self, reply: str, read: Sequence[Quantity], context: HookContext, evidence: Evidence
    ) -> None:
        self._low = straight(reply)
        mentions = [(q.start, str(q.value)) for q in read if q.kind == "link"]
        for name, link in evidence.names.items():
            at = self._low.find(name)
            while at >= 0:
                mentions.append((at, link))
                at = self._low.find(name, at + len(name))
        taken = {at for at, _ in mentions}
        for head, (link, behind) in _heads(evidence.names).items():  # "the cream" for "Night Cream"
            found = re.finditer(rf"(?<![a-z]){re.escape(head)}(?![a-z])", self._low)
            mentions += [(m.start(), link) for m in found if m.start() - behind not in taken]
        self._mentions = sorted(mentions)
        self._ends = [0, *(m.end() for m in _SENTENCE.finditer(reply)), len(reply) + 1]
        self._read = read
        self._question = context.request.text
        self._known = evidence.items

    def of(self, claim: Quantity) -> frozenset[str]:
        """Link ids spoken of where ``claim`` stands; empty when that is open."""
        start = max(e for e in self._ends if e <= claim.start)
        end = min(e for e in self._ends if e > claim.start)
        here = [(at, link) for at, link in self._mentions if start <= at < end]
        if here:
            before = [link for at, link in here if at < claim.start]
            leading = here[0][0] < self._first_claim_from(start, claim)
            return frozenset({before[-1]}) if before and leading else frozenset(link for _, link in here)
        if _ANOTHER.search(self._low, start, min(end, len(self._low))):
            return frozenset()
        earlier = [link for at, link in self._mentions if at < start]
        return frozenset({earlier[-1]}) if earlier else self._asked()

    def _first_claim_from(self, start: int, claim: Quantity) -> int:
        """Where the first claim of its kind in its sentence stands; it may be ``claim`` itself."""
        return next(q.start for q in self._read if q.kind == claim.kind and q.start >= start)

    def _asked(self) -> frozenset[str]:
        asked = {
            str(q.value)
            for q in read_quantities(self._question)
            if q.kind == "link" and q.text.casefold() != "one"  # "you are number one"
        }
        return frozenset(asked) if asked & self._known or len(self._known) == 1 else frozenset[str]()


def _retry(faults: Sequence[Fault], language: str) -> Retry:
    chinese = worded(language, en="", zh="zh") == "zh"
    parts: list[str] = []
    for fault in faults:
        name = _NAMES[fault.quantity.kind][1 if chinese else 0]
        said = f'"{fault.quantity.text.strip()}"' if not chinese else f"“{fault.quantity.text.strip()}”"
        if fault.unmet:
            parts.append(
                f"{said}（{name}，条件未满足）" if chinese else f"{said} ({name}, only under terms not met)"
            )
        elif not fault.item:
            parts.append(f"{said}（{name}）" if chinese else f"{said} ({name})")
        elif chinese:
            parts.append(f"{said}（{name}，不是{fault.item}号的）")
        else:
            parts.append(f"{said} ({name}, not true of item {fault.item})")
    feedback = worded(
        language,
        en=f"Not in this request's tool results: {', '.join(parts)}. State only what a tool result says "
        "for that item, in the same currency and unit; look it up first, or leave it out.",
        zh=f"工具结果里没有：{'、'.join(parts)}。只能说工具结果里这件商品的数字，币种和单位也要一致；先查询，查不到就不要说。",
    )
    return Retry(
        feedback,
        {"ungrounded": [{"kind": f.quantity.kind, "text": f.quantity.text, "item": f.item} for f in faults]},
    )


GROUNDING = Builtin(
    name="grounding",
    checkpoint=Checkpoint.REPLY,
    params=GroundingParams,
    build=build,
    summary="every price, percentage, quantity, size and date in a reply comes from this request's results",
)
