"""The oracle: a policy that knows what is right, and does it through the harness it is given.

It sees a task's gold and the harness (both in `PolicyRequest.info`, or given when it is made) and acts only by what the
harness's surfaces allow: the tool that is bound to a needed operation, its arguments written as that tool wants them
(`livery.simulator.surfaces`), a skill by its shown name, replies in the form that the checks ask for
(`livery.simulator.answers`). Failed calls are made again where the task says that they recover; else it says honestly
that it cannot check, or calls a person. Its order, wording and reasoning vary by seed and task, never by the surfaces
of the harness, so that one task can be compared under many harnesses.

It is the teacher of supervised training and the yardstick of augmentation; it is no baseline: it cheats by design.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any, Final, Literal

from livery.agent.live_harness import LiveHarness
from livery.harness.lint_tools import LOAD_SKILL
from livery.harness.model import Harness, Skill
from livery.policies.policy import PolicyRequest, PromptMessage
from livery.simulator.answers import reply_to
from livery.simulator.phrasing import speaker_of
from livery.simulator.reply_form import Form
from livery.simulator.surfaces import Surfaces, Written, surfaces_of
from livery.simulator.task import Fault, Needed, Task
from livery.types import PolicyTurn, ToolCall

HAND_OFF: Final = "room.hand_off"
_UNMARKED: Final = ("malformed", "empty", "stale", "permission_denied")
"""Faults after which the loop takes the same call again for a repetition."""

_TRIES: Final = 8

Manner = Literal["varied", "plain"]
"""``plain``: what is needed at once and in one order, and the same words for the same thing: little to learn beside
what to do. A small model that is trained on few conversations, and decodes the likeliest token, needs it: among many
ways to begin a reply none is likely."""
Order = Literal["together", "skill_first", "skill_last", "one_by_one"]
_ORDERS: Final[dict[Order, float]] = {"together": 0.45, "skill_first": 0.2, "skill_last": 0.2, "one_by_one": 0.15}


class OraclePolicy:
    """Acts rightly. Stateless: every decision is read off the request, so one instance serves many rooms."""

    def __init__(
        self,
        *,
        harness: Harness | LiveHarness | None = None,
        task: Task | None = None,
        seed: int = 0,
        actions: Literal["text", "native"] = "text",
        manner: Manner = "varied",
    ) -> None:
        """
        Args:
            harness, task: used where a request's ``info`` has no ``"harness"`` and ``"task"``.
            seed: of its choices of order and words; a request's own seed joins it.
        """
        self._manner: Manner = manner
        self._harness = harness
        self._task = task
        self._seed = seed
        self._actions: Literal["text", "native"] = actions

    @property
    def uri(self) -> str:
        return f"oracle:{self._seed}" + ("" if self._manner == "varied" else f"?manner={self._manner}")

    @property
    def weights(self) -> str:
        return "oracle/1"

    @property
    def actions(self) -> Literal["text", "native"]:
        return self._actions

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        """The next right action.

        Raises:
            ValueError: neither the request nor the policy knows a task and a harness.
        """
        task = request.info.get("task", self._task)
        harness = request.info.get("harness", self._harness)
        if isinstance(harness, LiveHarness):
            harness = harness.harness
        if not isinstance(task, Task) or not isinstance(harness, Harness):
            raise ValueError('the oracle needs a task and its harness: info={"task": ..., "harness": ...}')
        seed = f"oracle/{self._seed}/{request.seed}/{task.id}"
        return _Course(task, surfaces_of(harness), request, seed, plain=self._manner == "plain").turn()

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> None:
        """Nothing to prefill."""

    async def aclose(self) -> None:
        """Nothing to close."""


@dataclass(slots=True)
class _Made:
    """One call of this conversation and what came back."""

    call: ToolCall
    text: str
    operation: str
    failed: bool = False


class _Steady(Random):
    """Always the first."""

    def choice(self, seq: Any) -> Any:
        return seq[0]


class _Course:
    """One request: what is done, and what comes next."""

    def __init__(
        self, task: Task, surfaces: Surfaces, request: PolicyRequest, seed: str, *, plain: bool = False
    ) -> None:
        self.plain = plain
        self.task = task
        self.surfaces = surfaces
        self.harness = surfaces.harness
        self.request = request
        self.seed = seed
        rng = Random(seed)
        orders: list[Order] = list(_ORDERS)
        self.order: Order = rng.choices(orders, list(_ORDERS.values()))[0]
        self.insists = rng.random() < 0.5 and len(task.needed) == 1
        """Whether it tries a second time what may never answer."""
        self.calls_person = rng.random() < 0.35
        """Whether it hands over what cannot be checked."""
        self.topic = str(rng.choice(self._topics())) if task.topics else ""
        self.shuffled = rng.random()
        if plain:
            self.order, self.insists, self.calls_person, self.shuffled = "together", False, False, 1.0
            self.topic = self._topics()[0] if task.topics else ""
        acted = [m for m in request.messages if m.role == "assistant"]
        self.rounds = sum(bool(m.calls) for m in acted)
        self.sent_back = len(acted) - self.rounds
        self.made = self._made()

    def turn(self) -> PolicyTurn:
        rng = Random(f"{self.seed}/{self.rounds}/{self.sent_back}")
        calls, why = self._next(rng) if self.request.allow_calls else ([], "")
        if calls:
            made = tuple(
                ToolCall(id=f"call_{len(self.made) + i}", name=c.tool, arguments=c.arguments)
                for i, c in enumerate(calls)
            )
            return PolicyTurn(calls=made, reasoning=self._thought(why, rng), stop="calls")
        said = {m.content for m in self.request.messages if m.role == "assistant"}
        text = ""
        # What was sent back is said in other words.
        steady = self.plain and not self.sent_back
        words = _Steady(f"{self.seed}/{self.rounds}") if steady else rng
        for _ in range(_TRIES):
            brief = self.plain or self.sent_back > 0
            text = reply_to(self.task, self.form, words, handed_over=self._done(HAND_OFF), plain=brief)
            if text not in said:  # the same again would be given up on
                break
        why = "fix" if self.sent_back else "honest" if self._dead() else "ask" if self._open() else "reply"
        return PolicyTurn(text=text, reasoning=self._thought(why, rng), stop="reply")

    @cached_property
    def form(self) -> Form:
        return Form.of(self.harness)

    # ------------------------------------------------------------------------------- what comes next

    def _next(self, rng: Random) -> tuple[list[Written], str]:
        """Calls of this round and the thought behind them; none: it is time to reply."""
        skill = [] if self._done(LOAD_SKILL) else self._skill()
        if self.sent_back and not skill:
            return [], ""
        if skill and (self.sent_back or not self._offered()):
            return skill, "skill"
        pages = self._pages()
        if pages:
            return pages, "page"
        step, failing = self._pending()
        person = self._person() if not step else []
        look_ups = self._look_ups(step)
        retry = self.rounds > 0 and bool(failing)
        if skill and self._load_now(step):
            if self._order() == "skill_first" and not self.rounds and step:
                return skill, "skill"
            if self._order() == "one_by_one":
                look_ups = look_ups[:1]
            together = [*skill, *look_ups, *person]
            if rng.random() < 0.5 and not self.plain:
                together.reverse()
            return together, "retry" if retry else "call" if look_ups else "skill"
        if self._order() == "one_by_one":
            look_ups = look_ups[:1]
        elif self.shuffled < 0.5:
            look_ups.reverse()
        if not look_ups and not person:
            return skill, "skill"
        return [*look_ups, *person], "retry" if retry else "next" if self.rounds else "call"

    def _order(self) -> Order:
        """The order of calls that was drawn, where the rounds allow it. Reckoned without what a variant adds to
        rounds and retries together, so that it is the same under every variant of a harness."""
        limits = self.harness.limits
        steps = {n.step for n in self.task.needed}
        rounds = sum(max(1, self._in_step(s)) if self.order == "one_by_one" else 1 for s in steps)
        rounds += sum(f.times for f in self.task.faults if f.recoverable and f.kind != "slow")
        rounds += self.order in ("skill_first", "skill_last")
        return self.order if rounds + 1 <= limits.rounds - limits.retries else "together"

    def _in_step(self, step: int) -> int:
        return sum(n.step == step for n in self.task.needed)

    def _load_now(self, step: Sequence[Needed]) -> bool:
        """Whether the skill is loaded in this round. Beside a call that is made again it makes the round a new one:
        the loop takes a round of old calls for a repetition and asks for the reply. A plain oracle, from whose first
        turn a model learns, waits only where one repetition is not enough: it must not seem to know the fault before
        it is there."""
        steps = {n.step for n in self.task.needed}
        awaited = any(
            f.kind in _UNMARKED
            and any(n.operation == f.operation for n in self.task.needed)
            and not (self.plain and (not f.recoverable or (f.times < 2 and len(steps) < 2)))
            for f in self.task.faults
        )
        if awaited and any(n.operation in self._faulty() for n in self.task.needed):
            return self.rounds == 1 or not step
        if self._order() == "skill_last":
            return not step
        return True

    def _faulty(self) -> frozenset[str]:
        return frozenset(f.operation for f in self.task.faults if f.kind != "slow")

    def _pending(self) -> tuple[list[Needed], list[Needed]]:
        """Needs of the next step that are not met, and those of them that failed before."""
        open_: list[Needed] = []
        failing: list[Needed] = []
        for need in self.task.needed:
            tried = [m for m in self.made if self._serves(m, need)]
            if any(not m.failed for m in tried):
                continue
            if tried and self._gives_up(need, len(tried)):
                continue
            open_.append(need)
            if tried:
                failing.append(need)
        first = min((n.step for n in open_), default=0)
        return [n for n in open_ if n.step == first], failing

    def _gives_up(self, need: Needed, tried: int) -> bool:
        fault = self._fault(need.operation)
        if fault is None:
            return tried >= 2
        if fault.recoverable:
            return tried > fault.times
        return tried >= (2 if self.insists and fault.kind != "permission_denied" else 1)

    def _fault(self, operation: str) -> Fault | None:
        return next((f for f in self.task.faults if f.operation == operation and f.kind != "slow"), None)

    def _look_ups(self, step: Sequence[Needed]) -> list[Written]:
        written = (self._written(n) for n in step)
        return [w for w in written if w is not None]

    def _written(self, need: Needed) -> Written | None:
        own = self.surfaces.call(need.operation, need.arguments)
        if own is not None:
            return own
        for other in need.instead:
            arguments = dict(need.arguments)
            if other == "catalog.get_product" and "query" in arguments:
                arguments = {"name": arguments["query"]}
            if (call := self.surfaces.call(other, arguments)) is not None:
                return call
        return None

    def _pages(self) -> list[Written]:
        """Further pages of results that do not show what is needed yet."""
        found: list[Written] = []
        for need in self.task.needed:
            shown = [m for m in self.made if self._serves(m, need) and not m.failed]
            if shown and not self._shown(need, "\n".join(m.text for m in shown)):
                last = shown[-1]
                more = self.surfaces.next_page(Written(last.call.name, last.call.arguments), last.text)
                if more is not None:
                    found.append(more)
        return found

    def _shown(self, need: Needed, text: str) -> bool:
        """Whether what is needed of a result stands in what was shown of it."""
        wanted = [v for v in need.result.values() if isinstance(v, str)]
        if wanted:
            return all(w in text for w in wanted)
        if need.operation != "promotions.list":
            return True
        for asked in self.task.asked:
            for fact in asked.facts:
                if fact.key == "promotion" and not any(w in text for w in fact.wordings):
                    return False
                if fact.key == "promotion_active":
                    return False  # that it runs, or does not, is sure when the last page is read
        return True

    def _person(self) -> list[Written]:
        """The call of a person, where the task wants one or nothing can be checked."""
        if self._done(HAND_OFF) or len(self.made) + 2 > self.harness.limits.tool_calls:
            return []
        if not (self.task.hand_off or (self._dead() and self.calls_person)):
            return []
        speaker = speaker_of(self.task.world.language)
        frame = "reason" if self.task.hand_off else "reason.cannot_check"
        call = self.surfaces.call(HAND_OFF, {"reason": speaker.say(frame, {}, Random(self.seed))})
        return [call] if call is not None else []

    def _dead(self) -> bool:
        return any(a.cannot_check for a in self.task.asked)

    def _open(self) -> bool:
        return any(a.ask_back for a in self.task.asked)

    # ------------------------------------------------------------------------------------- skills

    def _topics(self) -> list[str]:
        """Topics that some reply skill of this harness is about."""
        known = {t for s in self.harness.skills if s.kind == "reply" for t in _topics_of(s)}
        wanted = [str(t) for t in self.task.topics]
        return [t for t in wanted if t in known] or wanted

    def _skill(self) -> list[Written]:
        """The call that loads a fitting reply skill: of the drawn topic, else any."""
        replies = sorted((s for s in self.harness.skills if s.kind == "reply"), key=lambda s: s.key)
        fitting = [s for s in replies if self.topic in _topics_of(s)] or replies
        return [self.surfaces.load(fitting[0].name)] if fitting else []

    def _offered(self) -> bool:
        """Whether anything but the skill loader may be called now."""
        return any(self.surfaces.operation(t.name) != LOAD_SKILL for t in self.request.tools)

    # ---------------------------------------------------------------------------------- what is done

    def _made(self) -> list[_Made]:
        texts = {m.call_id: m.content for m in self.request.messages if m.role == "tool" and m.call_id}
        made = [
            _Made(call, texts.get(call.id, ""), self.surfaces.operation(call.name))
            for m in self.request.messages
            for call in m.calls
        ]
        counted: Counter[str] = Counter()
        for one in made:
            counted[one.operation] += 1
            fault = self._fault(one.operation)
            # What a tool's result does not show of its age, the task tells.
            stale = (
                fault is not None
                and fault.kind == "stale"
                and (not fault.recoverable or counted[one.operation] <= fault.times)
            )
            one.failed = stale or self.surfaces.failed(Written(one.call.name, one.call.arguments), one.text)
        return made

    def _done(self, operation: str) -> bool:
        return any(m.operation == operation and not m.failed for m in self.made)

    def _serves(self, made: _Made, need: Needed) -> bool:
        if made.operation != need.operation and made.operation not in need.instead:
            return False
        wanted = self._written(need)
        if wanted is None or wanted.tool != made.call.name:
            return False
        page = next(
            (
                m.source
                for t in self.harness.tools
                if t.name == wanted.tool
                for m in t.binding.arguments
                if m.to == "page"
            ),
            "",
        )
        own = {k: v for k, v in made.call.arguments.items() if k != page}
        return own == {k: v for k, v in wanted.arguments.items() if k != page}

    def _thought(self, about: str, rng: Random) -> str:
        if not self.request.reasoning:
            return ""
        return speaker_of(self.task.world.language).think(about, self.topic, _Steady() if self.plain else rng)


def _topics_of(skill: Skill) -> list[str]:
    return skill.metadata.get("livery-topics", "").split()


def info_for(task: Task, harness: Harness | LiveHarness) -> Mapping[str, Any]:
    """What `Agent.answer` hands to the oracle."""
    return {"task": task, "harness": harness}
