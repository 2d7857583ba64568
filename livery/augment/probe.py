"""Probes: calls that a harness allows, made for any store, and a player that makes them through the surfaces.

A probe is a topic, the operations to run and a sentence to say. The player knows operations and topics and nothing of
names: it finds the tool bound to an operation, inverts its binding, loads the skill of the topic, opens and closes as
the harness asks, and runs through the real loop. It checks that a variant still carries every call; it judges no
answers (the simulator's oracle and verifier do), and needs no simulator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from livery.agent.live_harness import LiveHarness
from livery.agent.loop import Agent
from livery.augment.inverse import NotTranslatable, surface_arguments
from livery.augment.preservation import LOAD, Played
from livery.harness.lint_tools import RUNTIME_OPERATIONS
from livery.harness.model import Harness, Skill, Tool
from livery.harness.skills import policy_may_load
from livery.policies.policy import PolicyRequest, PromptMessage
from livery.shop.catalogue import Catalogue
from livery.shop.operations import Operations
from livery.shop.registry import shop_operations
from livery.types import ChatMessage, PolicyTurn, Request, RoomState, Route, ToolCall

_DISTRACTOR = "distractor-"
_NOW = 1_800_000_000.0


@dataclass(frozen=True, slots=True)
class Probe:
    id: str
    topic: str
    """Of the reply skill to load."""
    calls: tuple[tuple[str, Mapping[str, Any]], ...]
    """Operations with their arguments."""
    reply: str


def tool_for(harness: Harness, operation: str) -> Tool | None:
    """The tool that stands for an operation; distractors stand for none."""
    return next(
        (t for t in harness.tools if t.binding.operation == operation and not t.key.startswith(_DISTRACTOR)), None
    )


def skill_for(harness: Harness, topic: str) -> Skill | None:
    """The reply skill of a topic; of a harness without topics the first reply skill."""
    replies = [s for s in harness.skills if s.kind == "reply" and policy_may_load(s)]
    told = [s for s in replies if topic in s.metadata.get("livery-topics", "").split()]
    if told or any(s.metadata.get("livery-topics") for s in replies):
        return told[0] if told else None
    return replies[0] if replies else None


def reply_frame(harness: Harness) -> tuple[str, str]:
    """(opening, close) that the harness's hooks ask of every reply."""
    params = [h.params for h in harness.hooks if h.kind == "builtin" and h.source == "speech_format"]
    return (
        next((str(p["prefix"]) for p in params if p.get("prefix")), ""),
        next((str(p["sign_off"]) for p in params if p.get("sign_off")), ""),
    )


def probes(harness: Harness, catalogue: Catalogue, seed: int, count: int = 24) -> tuple[Probe, ...]:
    """Probes that the base harness can carry, in turn over what its tools are bound to."""
    rng = Random(f"probes/{seed}")
    operations = shop_operations()
    chinese = harness.language.startswith("zh")
    made: list[Probe] = []
    kinds = list(_KINDS)
    for n in range(count * 4):
        topic, operation = kinds[n % len(kinds)]
        tool = tool_for(harness, operation)
        if tool is None or (skill_for(harness, topic) is None and any(s.kind == "reply" for s in harness.skills)):
            continue
        arguments = _arguments(operation, catalogue, rng, chinese)
        spoken = _sayable(tool, arguments, operations)
        if spoken is not None:
            reply = (
                "好的,我帮你看一下这一款,马上告诉你。"
                if chinese
                else "Sure, let me look at that one for you right now, one moment."
            )
            made.append(Probe(f"probe-{len(made)}", topic, ((operation, spoken),), reply))
        if len(made) == count:
            break
    return tuple(made)


_KINDS = (
    ("price", "pricing.quote"), ("item", "catalog.get_product"), ("stock", "stock.check"),
    ("size", "size.advise"), ("shipping", "shipping.quote"), ("after-sales", "policy.lookup"),
    ("compare", "catalog.compare"), ("item", "catalog.search"), ("price", "promotions.list"),
    ("item", "faq.search"), ("complaint", "room.hand_off"), ("price", "room.show_item"),
)  # fmt: skip


def _sayable(tool: Tool, arguments: Mapping[str, Any], operations: Operations) -> dict[str, Any] | None:
    """The arguments that the base tool can say, with those it always adds."""
    parameters = operations[tool.binding.operation].parameters
    fixed = {
        m.to: v
        for m in tool.binding.arguments
        if (v := m.constant if m.constant is not None else m.default) is not None
    }
    offered = {m.to for m in tool.binding.arguments} | set(tool.input_schema.get("properties", {}))
    wanted = {**fixed, **{k: v for k, v in arguments.items() if k in offered and k not in fixed}}
    try:
        surface_arguments(tool, wanted, parameters)
    except NotTranslatable:
        return None
    return wanted


def _arguments(operation: str, catalogue: Catalogue, rng: Random, chinese: bool) -> dict[str, Any]:
    product = rng.choice(catalogue.products)
    link = product.link_id
    match operation:
        case "pricing.quote":
            return {"link_id": link, "quantity": rng.randint(1, 12), "member": rng.random() < 0.5}
        case "catalog.get_product":
            return {"link_id": link} if rng.random() < 0.6 else {"name": product.name}
        case "stock.check" | "room.show_item" | "promotions.list":
            return {"link_id": link}
        case "size.advise":
            return {"link_id": link, "height_cm": rng.randint(150, 190), "weight_kg": rng.randint(45, 99) + 0.5}
        case "shipping.quote":
            return {"region": "上海" if chinese else "Oregon", "link_id": link, "quantity": rng.randint(1, 5)}
        case "policy.lookup":
            return {"topic": "退货" if chinese else "returns"}
        case "catalog.compare":
            links = [p.link_id for p in catalogue.products]
            return {"link_ids": rng.sample(links, min(len(links), rng.randint(2, 3)))}
        case "catalog.search":
            return {"query": product.name, "max_price": 250.5} if rng.random() < 0.5 else {"query": product.name}
        case "faq.search":
            return {"query": "怎么洗" if chinese else "How do I wash it?", "link_id": link}
        case _:
            return {"reason": "质量问题" if chinese else "broken on arrival"}


class _Player:
    """The policy of one probe: a skill, the calls, the sentence. It sees the harness, as an oracle may."""

    uri = "probe"
    weights = "probe"
    actions: Literal["text", "native"] = "text"

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self.harness: Harness | None = None
        self.probe: Probe | None = None

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        assert self.harness is not None and self.probe is not None
        turns = sum(m.role == "assistant" for m in request.messages)
        calls = [*self._load(), *self._calls()] if turns == 0 else []
        if calls:
            made = tuple(ToolCall(id=f"p{i}", name=n, arguments=a) for i, (n, a) in enumerate(calls))
            return PolicyTurn(calls=made, stop="calls")
        opening, close = reply_frame(self.harness)
        space = "" if self.harness.language.startswith("zh") else " "
        return PolicyTurn(text=space.join(p for p in (opening, self.probe.reply, close) if p))

    def _load(self) -> list[tuple[str, dict[str, Any]]]:
        assert self.harness is not None and self.probe is not None
        skill = skill_for(self.harness, self.probe.topic)
        if skill is None:
            return []
        tool = tool_for(self.harness, LOAD)
        if tool is None:
            return [("load_skill", {"name": skill.name})]
        return [(tool.name, surface_arguments(tool, {"name": skill.name}, RUNTIME_OPERATIONS[LOAD]))]

    def _calls(self) -> list[tuple[str, dict[str, Any]]]:
        assert self.harness is not None and self.probe is not None
        made: list[tuple[str, dict[str, Any]]] = []
        for operation, arguments in self.probe.calls:
            tool = tool_for(self.harness, operation)
            if tool is None:
                continue  # the missing operation is what the check then sees
            try:
                said = surface_arguments(tool, arguments, self._operations[operation].parameters)
            except NotTranslatable:
                continue
            made.append((tool.name, said))
        return made

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> None:
        """Nothing to prefill."""

    async def aclose(self) -> None:
        """Nothing to close."""


class ProbeRunner:
    """Plays probes over one catalogue by the agent's own loop."""

    def __init__(self, catalogue: Catalogue, operations: Operations | None = None) -> None:
        self._operations = operations or shop_operations()
        self._player = _Player(self._operations)
        self._agent = Agent(
            policy=self._player,
            operations=self._operations,
            catalogue=lambda: catalogue,
            clock=lambda: _NOW,
            monotonic=lambda: 0.0,  # no deadline: what is measured is what is done, not when
        )
        self._catalogue = catalogue
        self._live: tuple[Harness, LiveHarness] | None = None

    def play(self, task: Probe, harness: Harness) -> Played:
        if self._live is None or self._live[0] is not harness:
            self._live = (harness, LiveHarness(harness, "probe", self._operations))
        self._player.harness, self._player.probe = harness, task
        return asyncio.run(self._answered(task, harness, self._live[1]))

    async def _answered(self, task: Probe, harness: Harness, live: LiveHarness) -> Played:
        trajectory = await self._agent.answer(_request(task, harness, self._catalogue), live)
        keys = {s.name: s.key for s in harness.skills}
        ran: list[tuple[str, Mapping[str, Any]]] = []
        for result in trajectory.results:
            if not result.operation:
                continue
            if result.operation == LOAD:
                ran.append((LOAD, {"key": keys.get(str(result.arguments.get("name")), "")}))
            else:
                ran.append((result.operation, dict(result.arguments)))
        loaded = [s for s in harness.skills if s.key in trajectory.skills]
        answered = trajectory.route in (Route.AGENT, Route.HANDOFF) and task.reply in trajectory.reply
        fits = any(task.topic in s.metadata.get("livery-topics", "").split() for s in loaded) or (
            not any(s.metadata.get("livery-topics") for s in harness.skills)
        )
        scores = {"answered": float(answered), "skill_selection": float(fits)}
        return Played(tuple(ran), scores, f"{trajectory.route.value}: {trajectory.route_reason}")


def _request(task: Probe, harness: Harness, catalogue: Catalogue) -> Request:
    text = "主播看一下这个" if harness.language.startswith("zh") else "could you look at this one?"
    message = ChatMessage(id=task.id, room="probe", viewer="v1", name="Mia", text=text, at=_NOW)
    state = RoomState(room="probe", language=harness.language, now=_NOW, on_screen=catalogue.products[0].link_id)
    return Request(id=task.id, messages=(message,), state=state, created_at=_NOW)


def probe_parameters(operations: Operations | None = None) -> dict[str, Mapping[str, Any]]:
    """Operation -> JSON Schema of its arguments, for lint."""
    return {name: operation.parameters for name, operation in (operations or shop_operations()).items()}
