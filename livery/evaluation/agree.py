"""Do two engines act alike? The same prompts through both, and the share of equal actions.

Policy A plays tasks in the agent's own loop; at each of its turns policy B is shown exactly what A was shown (the same
token ids, where both work on ids) and its answer is compared and thrown away. So an early difference does not spoil
what follows, and every turn counts once. Meant for one model behind two engines, both greedy.

Not here: which of the two is right (`livery eval run` for each).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from livery.errors import InputError, PolicyError
from livery.harness.model import Harness
from livery.policies.policy import Policy, PolicyRequest
from livery.simulator.rollout import live_of, rollouts
from livery.simulator.task import Task
from livery.training.conversations import Recorder
from livery.types import PolicyTurn

Kind = Literal["calls", "reply", "other"]
"""What A did: called tools, skills included; replied; or wrote what cannot be read or did not end in time."""

_Z: Final = 1.959963984540054
"""Of an interval of 95 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One prompt, answered by both."""

    task: str
    kind: Kind
    a: str
    """A's action, as text that is equal where actions are."""
    b: str
    """B's; empty where it failed."""
    fault: str = ""
    """Why B gave no turn."""

    @property
    def equal(self) -> bool:
        return not self.fault and self.a == self.b


@dataclass(frozen=True, slots=True)
class Share:
    count: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's (1927), 95 %; (0, 1) where nothing was counted."""
        if not self.of:
            return 0.0, 1.0
        p, n = self.count / self.of, self.of
        middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        half = _Z / (1 + _Z**2 / n) * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
        return max(0.0, middle - half), min(1.0, middle + half)

    def to_json(self) -> dict[str, Any]:
        low, high = self.interval
        share = self.count / self.of if self.of else None
        return {
            "equal": self.count,
            "of": self.of,
            "share": None if share is None else round(share, 4),
            "low": round(low, 4),
            "high": round(high, 4),
        }


class Beside:
    """Policy A, with B shown each of its prompts. One conversation at a time. Closes neither."""

    actions: Literal["text", "native"] = "text"

    def __init__(self, a: Policy, b: Policy) -> None:
        """
        Raises:
            InputError: one of them uses a server's native function calling, whose prompts differ from text.
        """
        self.a = Recorder(a)
        self.b = Recorder(b)
        self.pairs: list[Pair] = []
        self.task = ""
        """Whose turns these are."""

    @property
    def uri(self) -> str:
        return self.a.uri

    @property
    def weights(self) -> str:
        return self.a.weights

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        turn = await self.a.act(request)
        try:
            # ``previous`` is A's turn, ids and all: B reads on from what A sampled.
            other = await self.b.act(request)
        except PolicyError as error:
            fault = f"{type(error).__name__}: {error}"
            self.pairs.append(Pair(task=self.task, kind=kind_of(turn), a=action(turn), b="", fault=fault))
            return turn
        if turn.tokens and other.tokens and turn.tokens.prompt_ids != other.tokens.prompt_ids:
            raise InputError.at(
                self.b.uri,
                f"reads {len(other.tokens.prompt_ids)} other ids where {self.a.uri} reads "
                f"{len(turn.tokens.prompt_ids)}; expected two engines of one tokenizer",
                code="agree-tokenizers",
            )
        self.pairs.append(Pair(task=self.task, kind=kind_of(turn), a=action(turn), b=action(other)))
        return turn

    async def warm(self, messages: Any, session: str = "") -> None:
        await self.a.warm(messages, session)

    async def aclose(self) -> None: ...


def kind_of(turn: PolicyTurn) -> Kind:
    if turn.stop in ("malformed", "length") and not turn.calls:
        return "other"
    return "calls" if turn.calls else "reply"


def action(turn: PolicyTurn) -> str:
    """What a turn does, without call ids and reasoning: names and arguments in order, and the reply's text."""
    calls = [[call.name, dict(call.arguments)] for call in turn.calls]
    return json.dumps([calls, turn.text], sort_keys=True, ensure_ascii=False)


async def agreement(
    tasks: Iterable[Task], harness: Harness, a: Policy, b: Policy, *, progress: Callable[[], None] | None = None
) -> list[Pair]:
    """Play ``tasks`` by A, with B beside it.

    Raises:
        InputError: the two do not read the same prompts.
    """
    live = live_of(harness)
    both = Beside(a, b)
    for task in tasks:
        both.task = task.id
        async for _ in rollouts([task], live, both):
            if progress:
                progress()
    return both.pairs


def figures(pairs: Iterable[Pair]) -> dict[str, Any]:
    """Shares of equal actions: of turns, by what A did, and of tasks whose every turn was equal.

    Turns of one task hang together, so the interval over turns is too narrow by some; that over tasks is not.
    """
    pairs = list(pairs)
    whole: dict[str, bool] = {}
    for pair in pairs:
        whole[pair.task] = whole.get(pair.task, True) and pair.equal
    kinds = Counter(pair.kind for pair in pairs)
    return {
        "turns": Share(sum(p.equal for p in pairs), len(pairs)).to_json(),
        "by_kind": {
            kind: Share(sum(p.equal for p in pairs if p.kind == kind), n).to_json() for kind, n in kinds.most_common()
        },
        "tasks": Share(sum(whole.values()), len(whole)).to_json(),
        "failed": sum(bool(p.fault) for p in pairs),
    }
