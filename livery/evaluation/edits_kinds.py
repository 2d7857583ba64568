"""The kinds of change that an operator makes overnight, each with what it then demands of an answer.

An edit is three things that must not be confused: the rule as it is written into a harness (`HarnessEdit.applied`), the
task's gold as the rule has it, for the verifier (`HarnessEdit.gold`), and what a machine can see beyond the verifier
(`HarnessEdit.unmet`). No edit repairs a reply: where a harness checks a rule, the check sends the reply back.

`HarnessEdit.put` is how the proof's oracle (`livery.evaluation.edits_oracle`) words a demand; policies see none of it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Final

from livery.augment.hook_behaviour import announced
from livery.evaluation import edits_places as places
from livery.evaluation.edits_gold import coupon_of, promotions_without_codes, with_required
from livery.harness.model import Harness
from livery.shop.money import format_money
from livery.simulator.answers import reply_to
from livery.simulator.asking import TOPICS
from livery.simulator.reply_form import Form
from livery.simulator.task import Intent, Needed, Task
from livery.simulator.worlds import Language
from livery.types import JSON, ErrorKind, Route, Trajectory

HAND_OFF: Final = "room.hand_off"
_DRAWS: Final = 6
"""Natural replies looked at, to choose tasks whose natural answer breaks a rule."""
_ROOMY: Final = Form(max_chars=1000)
_REFUSED: Final = (ErrorKind.UNKNOWN_TOOL, ErrorKind.INVALID_ARGUMENTS, ErrorKind.BLOCKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessEdit(ABC):
    """One change of a harness, and what it demands."""

    kind: ClassVar[str]
    label: str
    language: Language
    rule: str
    """As the policy reads it, before the harness's own names are put in."""
    intents: tuple[str, ...]
    """What viewers ask where it holds."""
    only: str = ""
    """A kind of question, or ``sold_out``: it holds there alone."""

    @property
    def name(self) -> str:
        return f"{self.kind}.{self.label}"

    @property
    def topics(self) -> tuple[str, ...]:
        """Of the reply skills it belongs into."""
        return tuple(dict.fromkeys(str(TOPICS[Intent(i)][0]) for i in self.intents))

    def asked_of(self, task: Task) -> bool:
        """Whether it holds for a task: one question of its intents that can be answered."""
        if len(task.asked) != 1 or task.faults or task.hand_off:
            return False
        asked = task.asked[0]
        if str(asked.intent) not in self.intents or asked.ask_back or asked.cannot_check or not asked.facts:
            return False
        if self.only == "sold_out":
            return any(f.key == "in_stock" and f.value is False for f in asked.facts)
        return not self.only or self.only in task.tags

    def fits(self, task: Task) -> bool:
        """Whether it changes the right answer of a task, and leaves one."""
        return self.asked_of(task)

    @abstractmethod
    def applied(self, harness: Harness) -> Harness:
        """The harness with the rule in it.

        Raises:
            InputError: the harness lacks the tool that the rule is about.
        """

    def gold(self, task: Task) -> Task:
        """The task as the edited harness would have it answered."""
        return task

    def unmet(self, task: Task, trajectory: Trajectory) -> str:
        """What of the demand a trajectory does not meet; empty: nothing."""
        if trajectory.route not in (Route.AGENT, Route.HANDOFF) or not trajectory.turns:
            return "the policy gave no reply of its own"
        return self.amiss(task, trajectory.reply) or self.undone(task, trajectory)

    def amiss(self, task: Task, reply: str) -> str:
        """What is wrong with a reply's words."""
        return ""

    def undone(self, task: Task, trajectory: Trajectory) -> str:
        """What was not done before it."""
        return ""

    def put(self, task: Task, text: str) -> str:
        """A right answer to the gold, worded as the rule demands."""
        return text


def natural(task: Task) -> list[str]:
    """Replies to a task as a host gives them who knows no further rule."""
    return [reply_to(task, _ROOMY, Random(f"{task.id}/{i}")) for i in range(_DRAWS)]


def joined(text: str, sentence: str, language: str) -> str:
    """A sentence after others, with a stop."""
    stop = "。" if language == "zh" else "."
    ended = sentence if sentence[-1] in ".!?。！？" else f"{sentence}{stop}"
    return f"{text}{ended}" if language == "zh" else f"{text} {ended}"


def plain(text: str) -> str:
    """Letters and digits alone, for words that a viewer must hear whatever their stops."""
    return " ".join(re.findall(r"\w+", text.casefold()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosure(HarnessEdit):
    """Given words must stand in a reply about something."""

    kind: ClassVar[str] = "disclosure"
    words: str

    def applied(self, harness: Harness) -> Harness:
        return places.in_skills(harness, self.topics, self.rule)

    def amiss(self, task: Task, reply: str) -> str:
        return "" if plain(self.words) in plain(reply) else f"the disclosure {self.words!r} is missing"

    def put(self, task: Task, text: str) -> str:
        return joined(text, self.words, self.language)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(HarnessEdit):
    """A shorter reply than the natural one."""

    kind: ClassVar[str] = "limit"
    chars: int = 0
    words: int = 0

    @property
    def form(self) -> Form:
        return Form(max_chars=self.chars or _ROOMY.max_chars, max_words=self.words)

    def fits(self, task: Task) -> bool:
        if not self.asked_of(task) or any(self.form.holds(text) for text in natural(task)):
            return False
        return self.form.holds(reply_to(task, self.form, Random(task.id)))

    def applied(self, harness: Harness) -> Harness:
        if self.words:
            return announced(places.spoken(harness, max_words=self.words), self.rule)
        limits = {**harness.limits.model_dump(), "reply_chars": self.chars}
        made = places.spoken(harness.replace(limits=limits), max_chars=self.chars)
        if any("limits.reply_chars" in s.template for s in harness.sections):
            return made  # the prompt says it already
        return announced(made, self.rule)

    def amiss(self, task: Task, reply: str) -> str:
        most = f"{self.chars} characters" if self.chars else f"{self.words} words"
        return "" if self.form.holds(reply) else f"the reply has more than {most}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BannedWord(HarnessEdit):
    """Words that the natural answer uses may not be said."""

    kind: ClassVar[str] = "banned_word"
    banned: tuple[str, ...]
    message: str
    oracle: tuple[tuple[str, str], ...] = ()
    """Pattern -> what the proof's oracle says instead."""

    @property
    def pattern(self) -> str:
        words = "|".join(re.escape(w) for w in self.banned)
        return words if self.language == "zh" else rf"\b(?:{words})\b"

    def found(self, text: str) -> str:
        m = re.search(self.pattern, text, re.I)
        return m.group() if m else ""

    def fits(self, task: Task) -> bool:
        return self.asked_of(task) and sum(bool(self.found(t)) for t in natural(task)) >= _DRAWS - 1

    def applied(self, harness: Harness) -> Harness:
        hook = places.sent_back(f"banned-{self.label}", self.pattern, self.message)
        return places.with_check(places.in_prompt(harness, self.rule), hook)

    def amiss(self, task: Task, reply: str) -> str:
        found = self.found(reply)
        return f"the banned word {found!r} is said" if found else ""

    def put(self, task: Task, text: str) -> str:
        for pattern, other in self.oracle:
            text = re.sub(pattern, other, text, flags=re.I)
        return text[:1].upper() + text[1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignOff(HarnessEdit):
    """Every reply closes with given words; its limits grow by as much."""

    kind: ClassVar[str] = "sign_off"
    words: str

    def applied(self, harness: Harness) -> Harness:
        longer = len(self.words) + 2
        params: dict[str, Any] = {"sign_off": self.words}
        before = places.speech_params(harness)
        if before.get("max_chars"):
            params["max_chars"] = int(before["max_chars"]) + longer
        if before.get("max_sentences"):
            params["max_sentences"] = int(before["max_sentences"]) + 1
        if before.get("max_words"):
            params["max_words"] = int(before["max_words"]) + len(self.words)
        limits = {**harness.limits.model_dump(), "reply_chars": harness.limits.reply_chars + longer}
        return announced(places.spoken(harness, **params).replace(limits=limits), self.rule)

    def amiss(self, task: Task, reply: str) -> str:
        return "" if reply.rstrip().endswith(self.words) else f"the reply does not end with {self.words!r}"

    def put(self, task: Task, text: str) -> str:
        return text if text.endswith(self.words) else joined(text, self.words, self.language)


@dataclass(frozen=True, slots=True, kw_only=True)
class CouponRule(HarnessEdit):
    """Another way to speak of coupons."""

    kind: ClassVar[str] = "coupon_rule"
    oracle: str = ""

    def fits(self, task: Task) -> bool:
        if not self.asked_of(task):
            return False
        if self.label == "no-code":
            made = promotions_without_codes(task)
            return made is not None and sum(_names(made[1], t) for t in natural(task)) >= _DRAWS - 1
        return coupon_of(task) is not None

    def applied(self, harness: Harness) -> Harness:
        return places.in_skills(harness, self.topics, self.rule)

    def gold(self, task: Task) -> Task:
        if self.label == "no-code":
            made = promotions_without_codes(task)
            return made[0] if made is not None else task
        used = coupon_of(task)
        if used is None:
            return task
        return (
            with_required(task, "off", used.off) if self.label == "amount" else with_required(task, "saved", used.saved)
        )

    def amiss(self, task: Task, reply: str) -> str:
        if self.label != "no-code":
            return ""  # amounts are facts of the gold
        made = promotions_without_codes(task)
        said = [c for c in (made[1] if made else ()) if _names((c,), reply)]
        return f"the coupon's code {said[0]!r} is said" if said else ""

    def put(self, task: Task, text: str) -> str:
        used = coupon_of(task)
        if not self.oracle or used is None:
            return text
        said = self.oracle.format(
            off=format_money(used.off, used.currency), saved=format_money(used.saved, used.currency)
        )
        return joined(text, said, self.language)


def _names(codes: tuple[str, ...], text: str) -> bool:
    return any(c.casefold() in text.casefold() for c in codes)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFirst(HarnessEdit):
    """An operation that must be run before the answer, whatever it says."""

    kind: ClassVar[str] = "check_first"
    operation: str
    of_link: bool = False

    def fits(self, task: Task) -> bool:
        if not self.asked_of(task) or any(n.operation == self.operation for n in task.needed):
            return False
        return not self.of_link or len(task.asked[0].items) == 1

    def needed(self, task: Task) -> Needed:
        arguments: dict[str, JSON] = {"link_id": task.asked[0].items[0]} if self.of_link else {}
        return Needed(operation=self.operation, arguments=arguments, step=max((n.step for n in task.needed), default=0))

    def applied(self, harness: Harness) -> Harness:
        rule = self.rule.format(tool=places.tool_for(harness, self.operation))
        return places.in_skills(harness, self.topics, rule)

    def gold(self, task: Task) -> Task:
        return task.model_copy(update={"needed": (*task.needed, self.needed(task))})

    def undone(self, task: Task, trajectory: Trajectory) -> str:
        need = self.needed(task)
        for result in trajectory.results:
            refused = result.error is not None and result.error.kind in _REFUSED
            of_it = not self.of_link or str(result.arguments.get("link_id")) == need.arguments["link_id"]
            if result.operation == need.operation and of_it and not refused:
                return ""
        about = f" of link {need.arguments['link_id']}" if self.of_link else ""
        return f"{need.operation}{about} was not called first"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOff(HarnessEdit):
    """A person is called besides the answer."""

    kind: ClassVar[str] = "hand_off"

    def applied(self, harness: Harness) -> Harness:
        return places.in_skills(harness, self.topics, self.rule.format(tool=places.tool_for(harness, HAND_OFF)))

    def gold(self, task: Task) -> Task:
        return task.model_copy(update={"hand_off": True})

    def undone(self, task: Task, trajectory: Trajectory) -> str:
        called = any(r.operation == HAND_OFF and r.ok for r in trajectory.results)
        return "" if called else "no person was called"
