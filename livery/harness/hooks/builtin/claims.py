"""Banned claims and promises: what a host must not say, by own lists in English and Chinese.

Banned claims are superlatives, efficacy, income, and invented sales and scarcity. The last two are
allowed where a tool result or trusted text bears them out: the very words, or all their numbers.
Promises (refunds, gifts, delivery, warranty, prices to come, certainty) are allowed where trusted
text holds what the list names as support, undenied. Not here: whether a supported promise is
complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import field_validator

from livery.harness.hooks.builtin.definition import Builtin, Params, worded
from livery.harness.hooks.builtin.evidence import Evidence, evidence_of
from livery.harness.hooks.builtin.wordlists import (
    Category,
    Match,
    categories,
    compiled,
    find,
    straight,
    supported,
)
from livery.harness.hooks.decisions import Allow, Decision, HookContext, HookFunction, Retry
from livery.harness.quantities import FACTUAL, read_quantities
from livery.types import Checkpoint

BannedName = Literal["superlative", "efficacy", "income", "sales", "scarcity"]
PromiseName = Literal["refund", "gift", "free", "giveaway", "delivery", "warranty", "price", "certainty"]


class _Phrases(Params):
    extra: tuple[str, ...] = ()
    """More to refuse: phrases, or ``re:`` and a regular expression over lower-case text."""
    allow: tuple[str, ...] = ()
    """Contexts to let through, written the same way ("best-of-three pack")."""

    @field_validator("extra", "allow")
    @classmethod
    def _compile(cls, phrases: tuple[str, ...]) -> tuple[str, ...]:
        compiled(phrases)
        return phrases


class BannedClaimsParams(_Phrases):
    categories: tuple[BannedName, ...] = ("superlative", "efficacy", "income", "sales", "scarcity")


class PromisesParams(_Phrases):
    categories: tuple[PromiseName, ...] = (
        "refund", "gift", "free", "giveaway", "delivery", "warranty", "price", "certainty",
    )  # fmt: skip
    """``free``: "it's free", which free shipping bears out; ``giveaway``: the goods are free, which only a
    price of nothing does."""


_WORDS = {
    "superlative": ("superlative", "极限词"),
    "efficacy": ("efficacy claim", "功效宣称"),
    "income": ("promise of income", "收益承诺"),
    "sales": ("sales figure that no result holds", "没有依据的销量"),
    "scarcity": ("scarcity that no result holds", "没有依据的库存紧张"),
    "banned": ("banned here", "本店禁用"),
    "refund": ("refund promise", "退款承诺"), "gift": ("gift promise", "赠品承诺"),
    "free": ("free of charge", "免费承诺"), "giveaway": ("free goods", "免费承诺"),
    "delivery": ("delivery promise", "发货承诺"), "warranty": ("warranty promise", "质保承诺"),
    "price": ("price promise", "价格承诺"), "certainty": ("guarantee", "保证"),
}  # fmt: skip


def build_banned(params: BannedClaimsParams, language: str) -> HookFunction:
    chosen, allow = _chosen("banned", params.categories, params)
    by_name = {c.name: c for c in chosen}

    def check(value: str, context: HookContext) -> Decision:
        low = straight(value)
        found = find(low, chosen, allow)
        if not found:
            return Allow()
        left = [m for m in found if not (by_name[m.category].groundable and _borne_out(m, evidence_of(context)))]
        if not left:
            return Allow()
        return _retry(
            left,
            language,
            en="These may not be said on air: {found}. Say instead what the tool results say.",
            zh="直播间不能这样说：{found}。换成工具结果里的事实，不要用这些说法。",
        )

    return check


def build_promises(params: PromisesParams, language: str) -> HookFunction:
    chosen, allow = _chosen("promises", params.categories, params)
    by_name = {c.name: c for c in chosen}

    def check(value: str, context: HookContext) -> Decision:
        low = straight(value)
        found = find(low, chosen, allow)
        if not found:
            return Allow()
        evidence = evidence_of(context)
        left = [m for m in found if m.text not in evidence.text and not supported(evidence.text, by_name[m.category])]
        if not left:
            return Allow()
        return _retry(
            left,
            language,
            en="The shop has not promised this: {found}. Promise only what a tool result or policy says.",
            zh="店铺没有这样的承诺：{found}。只能承诺工具结果或店铺政策里写明的，否则不要说。",
        )

    return check


def _chosen(group: str, names: Sequence[str], params: _Phrases):
    chosen: list[Category] = [c for c in categories(group) if c.name in names]
    extra = compiled(params.extra)
    if extra is not None:
        chosen.append(Category("banned", extra))
    return tuple(chosen), compiled(params.allow)


def _borne_out(match: Match, evidence: Evidence) -> bool:
    """Whether trusted text says the same, in words or by every number."""
    if match.text in evidence.text:
        return True
    claims = [q for q in read_quantities(match.text) if q.kind in FACTUAL]
    return bool(claims) and all(evidence.bearing_out(q) for q in claims)


def _retry(found: Sequence[Match], language: str, *, en: str, zh: str) -> Retry:
    chinese = worded(language, en="", zh="zh") == "zh"
    seen = dict.fromkeys((m.text.strip(), m.category) for m in found)
    parts = [f"“{text}”（{_WORDS[c][1]}）" if chinese else f'"{text}" ({_WORDS[c][0]})' for text, c in seen]
    listed = ("、" if chinese else ", ").join(parts)
    return Retry(
        worded(language, en=en, zh=zh).format(found=listed),
        {"found": [{"text": text, "category": c} for text, c in seen]},
    )


BANNED_CLAIMS = Builtin(
    name="banned_claims",
    checkpoint=Checkpoint.REPLY,
    params=BannedClaimsParams,
    build=build_banned,
    summary="no superlatives, efficacy, guaranteed income, invented sales or scarcity",
)
PROMISES = Builtin(
    name="promises",
    checkpoint=Checkpoint.REPLY,
    params=PromisesParams,
    build=build_promises,
    summary="no promise that a tool result or trusted text does not hold",
)
