"""What a set of tasks is made of: kinds of question with their weights, and shares of everything else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

KINDS: Mapping[str, float] = {
    "product.aspect": 10, "product.faq": 5,
    "price.one": 8, "price.many": 5, "price.variant": 4, "price.member": 3,
    "promotion.item": 4, "promotion.ends": 3, "promotion.store": 2, "promotion.named": 3,
    "comparison.price": 4, "comparison.aspect": 4,
    "stock.item": 5, "stock.count": 3, "stock.variant": 5,
    "size.fit": 6, "size.open": 2,
    "shipping.fee": 4, "shipping.days": 4, "shipping.open": 2,
    "after_sales.policy": 6, "buy.item": 4,
    "small_talk.any": 3, "praise.any": 2, "complaint.any": 3, "off_topic.any": 2, "abuse.any": 2,
    "injection.any": 4, "injection.leak": 1,
}  # fmt: skip
"""Kinds of question and their default weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What a set of tasks is made of. Shares are probabilities."""

    kinds: Mapping[str, float] = field(default_factory=lambda: dict(KINDS))
    several: float = 0.15
    """Two questions in one message."""
    merged: float = 0.15
    """Two or three viewers in one request."""
    faults: float = 0.2
    unrecoverable: float = 0.25
    """Of the tasks with faults."""
    ambiguous: float = 0.04
    """A name that two products share, or a reference to nothing: the host must ask."""
    by_name: float = 0.2
    on_screen: float = 0.8
    """A product is on screen."""
    dialogue: float = 0.35
    typo: float = 0.2
    slang: float = 0.15
    mixed: float = 0.08
    bare: float = 0.4


DEFAULT_MIX = Mix()
