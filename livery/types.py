"""The nouns of livery in one file: what passes between a room, its agent and a policy.

Every value here is frozen. Times are seconds: ``at`` fields are Unix epochs (float), ``*_s`` fields
are durations. Money is never a float: it is an integer count of minor units beside an ISO 4217 code.
This module imports nothing from livery, and every other module may import it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from pydantic import JsonValue

JSON = JsonValue
"""Any JSON value."""

TRAJECTORY_SCHEMA = "livery.trajectory/1"


# ---------------------------------------------------------------------------------------- chat


class MessageKind(StrEnum):
    CHAT = "chat"
    """A viewer typed it."""
    PAID = "paid"
    """Text with money attached: super chat, bits, paid danmaku."""
    GIFT = "gift"
    """A gift without a question; may have no text."""
    MEMBER = "member"
    """Subscription, guard, membership, follow or like notice."""
    SYSTEM = "system"
    """The platform's own notice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    id: str
    """Unique within the room; the platform's own id where it has one. Deduplication key."""
    room: str
    viewer: str
    """Stable viewer id (traffic split, rate limit). Falls back to the shown name."""
    name: str = ""
    """The name the platform shows. Untrusted text."""
    text: str = ""
    """What was written. Untrusted text; never an instruction to anything."""
    at: float
    kind: MessageKind = MessageKind.CHAT
    amount: str = ""
    """What was paid or given, as the platform shows it ("$5.00", "小心心 x1")."""
    reply_to: str = ""
    source: str = ""
    """Which platform or importer it came from: "twitch", "bilibili", "youtube", "api", ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDeletion:
    """A moderator removed messages: one (``message``), all of a viewer's (``viewer``), or all."""

    room: str
    at: float
    message: str = ""
    viewer: str = ""
    everything: bool = False


ChatEvent = ChatMessage | ChatDeletion


class Fate(StrEnum):
    """What finally became of a chat message. Every accepted message ends with exactly one."""

    ANSWERED = "answered"
    """It led a request that got a spoken or shown reply."""
    MERGED = "merged"
    """It was merged into another message's request, or is its near duplicate."""
    EXPIRED = "expired"
    """It waited past the age limit or the deadline."""
    DROPPED = "dropped"
    """Not answered, with a reason: not addressed, rate limit, queue full, screened, silent route."""
    DELETED = "deleted"
    """A moderator removed it before a reply was spoken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DialogueTurn:
    """One earlier exchange in the room, for references such as "the blue one he asked about"."""

    viewer: str
    text: str
    reply: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomState:
    room: str
    language: str
    """BCP 47 tag of what the host speaks: "en", "zh"."""
    now: float
    """Room time (Unix epoch): promotions start and end by it."""
    timezone: str = "UTC"
    streamer: str = ""
    on_screen: str = ""
    """Link id of the item now on screen; empty when there is none."""
    dialogue: tuple[DialogueTurn, ...] = ()
    """The latest exchanges, oldest first."""
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Operator's own facts for this show ("guest": "Ann"). Trusted text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    id: str
    messages: tuple[ChatMessage, ...]
    """At least one, oldest first; the first is the lead."""
    state: RoomState
    created_at: float

    @property
    def room(self) -> str:
        return self.state.room

    @property
    def text(self) -> str:
        """The merged chat text, one message a line."""
        return "\n".join(m.text for m in self.messages)


# ------------------------------------------------------------------------------ calls and turns


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    id: str
    name: str
    """The surface name that the policy wrote."""
    arguments: Mapping[str, Any]
    """Surface arguments as the policy wrote them."""


class ErrorKind(StrEnum):
    UNKNOWN_TOOL = "unknown_tool"
    INVALID_ARGUMENTS = "invalid_arguments"
    NOT_FOUND = "not_found"
    """The operation ran, and nothing matches: not a fault."""
    AMBIGUOUS = "ambiguous"
    TIMEOUT = "timeout"
    PERMISSION_DENIED = "permission_denied"
    MALFORMED = "malformed_result"
    UNAVAILABLE = "unavailable"
    EXCEPTION = "exception"
    BLOCKED = "blocked"
    """A hook stopped it."""
    BUDGET = "budget"
    """The request's calls or time were used up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolError:
    kind: ErrorKind
    message: str
    """What was wrong and what would be right, for the policy to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    call: ToolCall
    key: str = ""
    """The tool's stable key; empty for an unknown tool."""
    operation: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Operation arguments after the binding."""
    value: JSON = None
    """The operation's own typed result, before any surface format. None on error."""
    text: str = ""
    """What the policy reads."""
    error: ToolError | None = None
    effects: tuple[Effect, ...] = ()
    duration_s: float = 0.0

    @property
    def ok(self) -> bool:
        return self.error is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Something to do outside when the reply is dispatched."""

    kind: Literal["show_item", "hand_off"]
    link_id: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of one policy call, or their sum."""

    prompt: int = 0
    cached: int = 0
    """Prompt tokens served from the prefix cache (a part of ``prompt``)."""
    output: int = 0
    reasoning: int = 0
    """Output tokens spent on reasoning (a part of ``output``)."""
    drafted: int = 0
    """Tokens guessed ahead by speculative decoding; 0 where there is none."""
    accepted: int = 0
    """Of ``drafted``, those that the model would have written too (a part of ``output``)."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            prompt=self.prompt + other.prompt,
            cached=self.cached + other.cached,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
            drafted=self.drafted + other.drafted,
            accepted=self.accepted + other.accepted,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTrace:
    """What the model read and sampled, as ids: appended, never decoded and re-encoded.

    ``prompt_ids + output_ids`` of one turn is a prefix of the next turn's ``prompt_ids``.
    """

    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    logprobs: tuple[float, ...] = ()
    """One per output id, or empty where the engine gave none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Where a policy call's seconds went; zero where an engine does not say."""

    total_s: float = 0.0
    queue_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    first_token_s: float = 0.0
    """TTFT, from the call's start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTurn:
    """What a policy did with one prompt: calls, or a reply (``calls`` empty)."""

    calls: tuple[ToolCall, ...] = ()
    text: str = ""
    """The proposed reply, without reasoning or call markup."""
    reasoning: str = ""
    stop: Literal["calls", "reply", "length", "malformed"] = "reply"
    usage: Usage = Usage()
    timing: Timing = Timing()
    tokens: TokenTrace | None = None


# --------------------------------------------------------------------------- hooks' decisions


class Checkpoint(StrEnum):
    REQUEST = "request"
    PROMPT = "prompt"
    SKILL = "skill"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    REPLY = "reply"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """One hook's run, as kept in the trajectory."""

    hook: str
    """The hook's key."""
    checkpoint: Checkpoint
    decision: Literal["allow", "rewrite", "retry", "block"]
    message: str = ""
    """Feedback of a retry, reason of a block, what a rewrite changed."""
    failure: Literal["", "crash", "timeout"] = ""
    """Set when the hook itself failed; ``decision`` is then its declared failure mode."""
    round: int = 0
    duration_s: float = 0.0


# -------------------------------------------------------------------------------- trajectory


class Route(StrEnum):
    AGENT = "agent"
    """The policy's own reply passed every hook."""
    DEGRADED = "degraded"
    """Answered from catalogue and FAQ alone."""
    HANDOFF = "handoff"
    """Passed to a person (an honest reply may go with it)."""
    SILENT = "silent"
    """Nothing was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One round of the loop: what the policy did and what came back."""

    round: int
    harness_release: str
    weights: str
    """Weights version the policy reported for this turn."""
    policy: PolicyTurn
    results: tuple[ToolResult, ...] = ()
    feedback: str = ""
    """What hooks sent back instead of accepting the reply; empty otherwise."""
    at_s: float = 0.0
    """From the start of the loop to the start of this round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """Where a request's seconds went, on the wall. The parts do not overlap; what of ``total_s`` is in none of them is
    the loop's own work. All zero in trajectories from before they were measured."""

    policy_s: float = 0.0
    """In the policy's calls. How each divides into queue, prefill and decode is in its turn's `Timing`."""
    cut_s: float = 0.0
    """Of ``policy_s``, in a call that failed or was ended by the deadline: no turn tells of it."""
    tools_s: float = 0.0
    """While calls ran and no hook did."""
    hooks_s: float = 0.0
    """While hooks ran, on whatever."""
    degraded_s: float = 0.0
    """In the degraded route, without its hooks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """Everything that happened for one request. Documented in docs/trajectory.md."""

    id: str
    schema: str = TRAJECTORY_SCHEMA
    request: Request
    harness: str
    """The harness's name."""
    harness_release: str
    channel: str = ""
    policy: str
    """The policy's URI, without secrets."""
    context: tuple[ToolResult, ...] = ()
    """Look-ups made before the first round (the item on screen), which the prompt shows."""
    turns: tuple[Turn, ...] = ()
    hooks: tuple[HookEvent, ...] = ()
    skills: tuple[str, ...] = ()
    """Keys of the skills that were loaded, in order."""
    reply: str = ""
    """What is said; empty on the silent route."""
    effects: tuple[Effect, ...] = ()
    route: Route
    route_reason: str
    started_at: float
    queue_s: float = 0.0
    """From the lead message's arrival to the start of the loop."""
    total_s: float = 0.0
    """From the start of the loop to the final reply."""
    stages: StageTimes = StageTimes()
    """What ``total_s`` was spent on."""

    @property
    def usage(self) -> Usage:
        return sum((t.policy.usage for t in self.turns), Usage())

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """Tool results of all turns, in order."""
        return tuple(r for t in self.turns for r in t.results)
