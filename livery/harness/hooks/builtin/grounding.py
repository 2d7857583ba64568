"""Grounding: a reply may state only quantities that this request's tool results or trusted text hold.

Money, percentages, counts, measures, sizes, dates and durations in a reply are read by
`livery.harness.quantities` and each must be borne out, exactly. Numbers a viewer wrote are no
evidence; asking one back ("two pieces, right?") is no claim, save for money and percentages, where
the check is strict. A quantity that is true of another item than the one spoken of is refused too,
and so is a discount that a quote did not use, unless the reply names its terms. Money must be borne out in its
role: a coupon's threshold, a discount or a saving is no price, a price no discount, and a list price is not what
is paid where less is. What this cannot see: the price of one told for two, clock times and relative days ("ends at
midnight", "by Friday"), and facts without numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from livery.harness.hooks.builtin.definition import Builtin, Params, worded
from livery.harness.hooks.builtin.evidence import Evidence, Fact, evidence_of
from livery.harness.hooks.builtin.money_roles import READS_AS, Role, is_called_listed, is_called_price, readings
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
    role: Role | None = None
    """What the amount is, where the reply says it is something else."""
    said: Role = "price"
    """What the reply says it is."""


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
    prices: list[tuple[Quantity, list[Fact]]] = []
    for claim in claims:
        if questions and claim.kind not in ("money", "percent") and _asked(reply, claim):
            continue
        if any(matches(claim, q) for q in always):
            continue
        facts = evidence.bearing_out(claim)
        if not facts:
            faults.append(Fault(claim))
            continue
        if subjects is not None and all(f.items for f in facts):
            spoken_of = subjects.of(claim)
            if spoken_of:
                here = [f for f in facts if f.items & spoken_of]
                if not here:
                    faults.append(Fault(claim, ", ".join(sorted(spoken_of))))
                    continue
                facts = here
        if claim.kind == "money" and (claim.unit or is_called_price(reply, claim)):
            # Not a bare number, in a coupon's name maybe; but "2 cost $22.29" may be a quantity.
            facts = [f for f in facts if f.role is not None] or facts
        roles: list[Role] = [f.role for f in facts if f.role is not None]
        if len(roles) == len(facts):
            said = readings(reply, claim, said=True)
            wanted: frozenset[Role] = frozenset(r for role in said for r in READS_AS[role])
            in_role = [f for f in facts if f.role in wanted]
            if not in_role and not _in_a_name(reply, claim, evidence):
                faults.append(Fault(claim, role=roles[0], said="price" if "price" in said else next(iter(said))))
                continue
            facts = in_role or facts
            if "price" in said and len(said) == 1 and not is_called_listed(reply, claim):
                prices.append((claim, facts))
        if claim.kind in _OFFERED and all(f.conditional for f in facts) and not _TERMS.search(reply):
            faults.append(Fault(claim, unmet=True))
    overstated = _overstated(prices, evidence)
    if overstated:
        faults += [Fault(claim, role="list") for claim in overstated]
        faults.sort(key=lambda f: f.quantity.start)
    return faults


def _in_a_name(reply: str, claim: Quantity, evidence: Evidence) -> bool:
    """Whether a bare number ends a word that the results hold, as a coupon's name."""
    word = straight(reply[max(0, claim.start - 2) : claim.end])
    return claim.kind == "number" and not any(c.isspace() for c in word) and word in evidence.text


def _overstated(prices: Sequence[tuple[Quantity, list[Fact]]], evidence: Evidence) -> list[Quantity]:
    """Of amounts told as prices, those that are only list prices, where less is paid and the reply names no
    amount that is paid for that item."""
    told = {item for _, facts in prices for f in facts if f.role == "price" for item in f.items}
    found: list[Quantity] = []
    for claim, facts in prices:
        listed = [f for f in facts if f.role == "list"]
        told_low = any(f.role not in ("list", "variant") or f.items & told for f in facts)
        if not told_low and any(evidence.lower_paid(f) for f in listed):
            found.append(claim)
    return found


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

    def __init__(self, reply: str, read: Sequence[Quantity], context: HookContext, evidence: Evidence) -> None:
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


_ROLES: Mapping[Role, tuple[str, str]] = {
    "price": ("a price", "价格"),
    "list": ("the list price; less is paid now", "原价，现在实付更低"),
    "variant": ("the list price of another variant", "其他款的原价"),
    "fee": ("a fee", "运费等费用"),
    "off": ("what a discount takes off at most or saves", "优惠减掉的金额"),
    "floor": ("the least order for a coupon, deal or free shipping", "满减、用券或包邮的门槛"),
    "gap": ("what an order still lacks for a coupon or deal", "离门槛还差的金额"),
}
_SAID: Mapping[Role, tuple[str, str]] = {
    "price": ("the price", "价格"),
    "list": ("the list price", "原价"),
    "variant": ("the price", "价格"),
    "fee": ("a fee", "费用"),
    "off": ("a discount", "优惠金额"),
    "floor": ("a least order", "门槛"),
    "gap": ("what is missing", "还差的金额"),
}


def _quoted(fault: Fault, chinese: bool) -> str:
    text = fault.quantity.text.strip()
    return f"“{text}”" if chinese else f'"{text}"'


def _absent(fault: Fault, chinese: bool) -> str:
    name, said = _NAMES[fault.quantity.kind][chinese], _quoted(fault, chinese)
    if fault.unmet:
        return f"{said}（{name}，条件未满足）" if chinese else f"{said} ({name}, only under terms not met)"
    if not fault.item:
        return f"{said}（{name}）" if chinese else f"{said} ({name})"
    if chinese:
        return f"{said}（{name}，不是{fault.item}号的）"
    return f"{said} ({name}, not true of item {fault.item})"


def _wrong_role(fault: Fault, chinese: bool) -> str:
    """ "$40" is the least order for a coupon, not the price."""
    assert fault.role is not None
    said, truly = _quoted(fault, chinese), _ROLES[fault.role][chinese]
    if fault.role == "list" and fault.said == "price":
        return f"{said}是{truly}" if chinese else f"{said} is {truly}"
    told = _SAID[fault.said][chinese]
    return f"{said}是{truly}，不是{told}" if chinese else f"{said} is {truly}, not {told}"


def _retry(faults: Sequence[Fault], language: str) -> Retry:
    chinese = worded(language, en="", zh="zh") == "zh"
    absent = [_absent(f, chinese) for f in faults if f.role is None]
    roles = [_wrong_role(f, chinese) for f in faults if f.role is not None]
    said: list[str] = []
    if absent:
        said.append(
            worded(
                language,
                en=f"Not in this request's tool results: {', '.join(absent)}. State only what a tool result says "
                "for that item, in the same currency and unit; look it up first, or leave it out.",
                zh=f"工具结果里没有：{'、'.join(absent)}。只能说工具结果里这件商品的数字，币种和单位也要一致；先查询，查不到就不要说。",
            )
        )
    if roles:
        said.append(
            worded(
                language,
                en=f"{'; '.join(roles)}. Call each amount what the tool result calls it.",
                zh=f"{'；'.join(roles)}。每个金额都要按工具结果里的含义来说。",
            )
        )
    feedback = ("" if chinese else " ").join(said)
    return Retry(
        feedback,
        {
            "ungrounded": [
                {"kind": f.quantity.kind, "text": f.quantity.text, "item": f.item, "role": f.role or ""} for f in faults
            ]
        },
    )


GROUNDING = Builtin(
    name="grounding",
    checkpoint=Checkpoint.REPLY,
    params=GroundingParams,
    build=build,
    summary="every price, percentage, quantity, size and date in a reply comes from this request's results",
)
