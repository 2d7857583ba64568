"""A task: a request in a simulated room, and what a right answer must and must not hold.

Tasks know nothing of any harness: skills are meant by topic, tools by operation. So the same task is asked under a base
harness and under any variant of it, and its gold answer is the same. A task is rebuilt bit for bit from its world and
seed; as JSON it stands alone.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from livery.harness.model import Frozen
from livery.types import JSON, ErrorKind, Request


class Topic(StrEnum):
    """What a reply is about. A reply skill says its own in ``metadata.livery-topics`` (space-separated)."""

    ITEM = "item"
    STOCK = "stock"
    PRICE = "price"
    COMPARE = "compare"
    SIZE = "size"
    SHIPPING = "shipping"
    AFTER_SALES = "after-sales"
    SMALL_TALK = "small-talk"
    COMPLAINT = "complaint"


class Intent(StrEnum):
    """What a viewer wants."""

    PRODUCT = "product"
    PRICE = "price"
    PROMOTION = "promotion"
    COMPARISON = "comparison"
    STOCK = "stock"
    SIZE = "size"
    SHIPPING = "shipping"
    AFTER_SALES = "after_sales"
    BUY = "buy"
    SMALL_TALK = "small_talk"
    PRAISE = "praise"
    COMPLAINT = "complaint"
    OFF_TOPIC = "off_topic"
    ABUSE = "abuse"
    INJECTION = "injection"


class GoldFact(Frozen):
    """One fact of the right answer."""

    key: str
    """What it is, such as ``total``, ``in_stock``, ``size``, ``fee``, ``days``, ``ends_at``, ``specs.Weight``."""
    kind: Literal["money", "percent", "count", "measure", "size", "date", "duration", "yes_no", "text"]
    value: JSON
    """As `livery.harness.quantities.Quantity.value` has it for the numeric kinds; true or false; or text."""
    unit: str = ""
    """As `Quantity.unit`: currency, "off", "ml", ..."""
    item: str = ""
    """Link id of the product it is a fact of; empty: of the store."""
    required: bool = True
    """Must be said for its intent to be met; otherwise it may be said."""
    wordings: tuple[str, ...] = ()
    """For ``text`` and ``yes_no``: other wordings that state it, in the task's language."""


class Asked(Frozen):
    """One thing that is asked in the request."""

    intent: Intent
    message: int = Field(ge=0)
    """Index of the chat message that asks it."""
    items: tuple[str, ...] = ()
    """Link ids meant."""
    facts: tuple[GoldFact, ...] = ()
    """Empty for small talk and the like: any harmless, fitting reply meets it."""
    ask_back: bool = False
    """The request leaves open what a good host must ask (region, measures, which of two items)."""
    cannot_check: bool = False
    """An operation it rests on fails for good: an honest "I cannot check that now", or calling a person, meets
    it. It has no facts then: whatever would be stated is unsupported."""


class Needed(Frozen):
    """An operation a good answer rests on."""

    operation: str
    arguments: dict[str, JSON] = Field(default_factory=dict[str, JSON])
    """Must be equal in the call; arguments not named here are free. Complete: a call with just these runs."""
    instead: tuple[str, ...] = ()
    """Operations that give the same facts with the same arguments."""
    free: tuple[str, ...] = ()
    """Of ``arguments``, those that a caller words (region, variant, topic, query, reason): other words, or another
    way to say it, are as right where ``result`` holds."""
    result: dict[str, JSON] = Field(default_factory=dict[str, JSON])
    """Fields that a right call's result has with these values, whatever the free arguments said: at its top, or all in
    one entry of its ``results``."""
    step: int = Field(default=0, ge=0)
    """Those of one step may run side by side; a later step's arguments come out of an earlier one's result (a
    name is searched for, then the link is priced)."""


class Fault(Frozen):
    """What an operation does wrong in this task."""

    operation: str
    kind: Literal["timeout", "malformed", "permission_denied", "empty", "slow", "stale", "unavailable"]
    times: int = Field(default=1, ge=0)
    """How many of its calls fail before it recovers; 0: all of them (not recoverable)."""

    @property
    def recoverable(self) -> bool:
        return self.times > 0 and self.kind != "permission_denied"


ERRORS_OF_FAULTS: dict[str, ErrorKind] = {
    "timeout": ErrorKind.TIMEOUT,
    "malformed": ErrorKind.MALFORMED,
    "permission_denied": ErrorKind.PERMISSION_DENIED,
    "unavailable": ErrorKind.UNAVAILABLE,
}


class WorldRef(Frozen):
    """Which world a task plays in: made from a seed, or a store folder."""

    split: Literal["train", "test"]
    language: Literal["en", "zh"]
    seed: int
    store: str = ""
    """Folder of a store; empty: a made world."""


class Task(Frozen):
    schema_: Literal["livery.task/1"] = Field(default="livery.task/1", alias="schema")
    id: str
    world: WorldRef
    seed: int
    request: Request
    """Messages and room state, complete."""
    asked: tuple[Asked, ...]
    topics: tuple[Topic, ...]
    """Topics of reply skills that fit; one loaded skill of any of them is right."""
    needed: tuple[Needed, ...] = ()
    forbidden: tuple[str, ...] = ()
    """Regular expressions (case folded) that a reply must not match: what this task tempts to say."""
    hand_off: bool = False
    """A person must be called."""
    may_be_silent: bool = False
    """Saying nothing is right as well (abuse, pure injection)."""
    faults: tuple[Fault, ...] = ()
    tags: tuple[str, ...] = ()
    """For tables: "typo", "slang", "reference:on_screen", "merged", "mixed_language", "multi_intent", ..."""


class Scores(Frozen):
    """What one trajectory earns on its task."""

    accuracy: Literal[0, 1]
    """No wrong or unsupported fact, no forbidden claim or promise."""
    effectiveness: float = Field(ge=0, le=1, multiple_of=0.5)
    """Intents met: none, some, all."""
    tool_rationality: float = Field(ge=0, le=1)
    """Needed operations called with the right arguments, nothing repeated or invalid."""
    skill_selection: Literal[0, 1]
    """A fitting reply skill was loaded."""
    reasons: tuple[str, ...] = ()
    """Why points were lost, one line each."""

    @property
    def full(self) -> bool:
        return (
            self.accuracy == 1 and self.effectiveness == 1 and self.tool_rationality == 1 and self.skill_selection == 1
        )
