"""A host by rules: answers from what a model would see, the prompt and the tools, and from nothing else.

For demonstrations without a model. `host_scene` reads what is asked, `host_tools` finds the tool for it by
the words of its description, `host_results` and `host_findings` read what came back, `host_replies` says it;
here is the course: which look-ups come next. It says only what a result says, and where none answers, that it
will ask the staff. It is no baseline for quality and no oracle: it reads one intent per request, and its
vocabulary is English and Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from livery.policies.host_findings import Done, Findings
from livery.policies.host_replies import MAIN_TOOL, Replies
from livery.policies.host_results import read_result
from livery.policies.host_scene import INTENTS, Scene, item_words, read_scene
from livery.policies.host_tools import Planned, fill, skill_loader, tools_by_purpose
from livery.policies.policy import PolicyRequest, PromptMessage, ToolSurface

_TALK = next(i for i in INTENTS if i.name == "talk")
_MOST_ROUNDS = 3


class HostPlay:
    """The rules. Stateless: every decision is read off the request."""

    def __call__(self, request: PolicyRequest) -> tuple[tuple[Planned, ...], str]:
        scene = read_scene(request.messages)
        turns = [m for m in request.messages if m.role == "assistant"]
        sent_back = any(not m.calls for m in turns)
        course = _Course(scene, request.tools, _done(request.messages, request.tools))
        if request.allow_calls:
            skill = skill_call(request.tools, scene)
            if not turns:
                calls = tuple(filter(None, (skill, *course.next())))
            elif not request.allow_reply:
                calls = (skill,) if skill else ()  # the first one was none that lets a reply stand
            else:
                calls = course.next() if not sent_back and len(turns) < _MOST_ROUNDS else ()
            if calls:
                return calls, ""
        replies = Replies(course.found)
        return (), replies.ask_staff() if sent_back else replies.say()


def _done(messages: Sequence[PromptMessage], tools: Sequence[ToolSurface]) -> list[Done]:
    purposes = {tool.name: purpose for purpose, tool in tools_by_purpose(tools).items()}
    arguments = {call.id: call.arguments for m in messages for call in m.calls}
    return [
        Done(purposes[m.name], arguments.get(m.call_id, {}), read_result(m.content))
        for m in messages
        if m.role == "tool" and m.name in purposes
    ]


def skill_call(tools: Sequence[ToolSurface], scene: Scene) -> Planned | None:
    """Load the skill whose description names the intent, among those that the loader offers."""
    loader = skill_loader(tools, [name for name, _ in scene.skills])
    if loader is None or not scene.skills:
        return None
    tool, argument = loader
    offered = tool.input_schema.get("properties", {}).get(argument, {}).get("enum")
    skills = [(n, about) for n, about in scene.skills if not offered or n in offered] or [*scene.skills]
    counts = [len(scene.intent.skill.findall(f"{name} {about}")) for name, about in skills]
    best = counts.index(max(counts))
    name = skills[best][0] if counts[best] else None
    name = name or next((n for n, about in skills if _TALK.skill.search(about)), skills[0][0])
    return tool.name, {argument: name}


class _Course:
    """One request: what to look up next."""

    def __init__(self, scene: Scene, tools: Sequence[ToolSurface], done: Sequence[Done]) -> None:
        self.scene = scene
        self.tools = tools_by_purpose(tools)
        self.done = done
        self.found = Findings(scene, done)

    def next(self) -> tuple[Planned, ...]:
        calls = [c for c in self._wanted() if c is not None]
        made = [(self.tools[d.purpose].name, dict(d.arguments)) for d in self.done if d.purpose in self.tools]
        new: list[Planned] = []
        for name, arguments in calls:
            if (name, dict(arguments)) not in made and (name, arguments) not in new:
                new.append((name, arguments))
        return tuple(new[:3])

    def _wanted(self) -> list[Planned | None]:
        scene, first = self.scene, not self.done
        match scene.intent.name:
            case "talk":
                return []
            case "handoff":
                return [self._call("handoff")] if first else []
            case "identity":
                return [self._call("faq")] if first else []
            case "policy":
                return [self._call("policy"), self._call("faq")] if first else []
            case "shipping":
                quote = self._call("shipping", links=scene.links) if scene.region else None
                if first:
                    return [quote or self._call("faq")]
                return [] if self.found.ok("shipping") else [self._call("faq")]
            case "recommend":
                # A budget is enough to choose by; without one only words for goods are.
                goods = re.sub(_PRESENT, "", item_words(scene.question), flags=re.IGNORECASE).strip()
                query = scene.question if scene.budget else goods or self.found.words("礼物", "gift")
                return [self._call("search", query=query)] if first else []
            case "deals":
                links = self.found.targets(on_screen=scene.pointing)
                if first and scene.items and not links:
                    return [self._call("deals"), *self._searches()]
                return [self._call("deals", links=links[:1])]
            case "compare":
                links = self.found.targets(on_screen=False)
                if len(links) > 1:
                    return [self._call("compare", links=links) or self._call("product", links=links[:1])]
                return self._searches() if first else []
            case "product":
                return self._about_an_item(first)
            case _:
                return self._of_items(first)

    def _of_items(self, first: bool) -> list[Planned | None]:
        purpose = MAIN_TOOL[self.scene.intent.name]
        links = self.found.targets()
        if not links:
            return self._searches() if first else []
        calls: list[Planned | None] = []
        for link in links[:2]:
            call = self._call(purpose, links=(link,)) or self._call("product", links=(link,))
            refused = any(
                d.purpose == purpose and not d.result.ok and link in map(str, d.arguments.values()) for d in self.done
            )
            calls.append(call)
            if refused:  # there may be no such variant: what it does come in
                calls.append(self._call("product", links=(link,)))
        return calls

    def _about_an_item(self, first: bool) -> list[Planned | None]:
        scene = self.scene
        links = self.found.targets(on_screen=not scene.items)
        if first:
            faq = self._call("faq", links=links[:1])
            if links:
                return [faq, self._call("product", links=links[:1])]
            return [faq, *self._searches()]
        if self.found.faq_answer():
            return []
        if not links and scene.pointing:
            links = self.found.targets(on_screen=True)
        return [self._call("faq", links=links[:1]), self._call("product", links=links[:1])] if links else []

    def _searches(self) -> list[Planned | None]:
        tool = "search" if "search" in self.tools else "product"
        return [self._call(tool, query=words, name=words) for words in self.scene.items]

    def _call(self, purpose: str, *, links: Sequence[str] = (), query: str = "", name: str = "") -> Planned | None:
        tool = self.tools.get(purpose)
        if tool is None:
            return None
        scene = self.scene
        priced = purpose in ("price", "stock")
        values: dict[str, Any] = {
            "link": list(links),
            "query": query or scene.question,
            "name": name if not links else "",
            "reason": scene.question,
            "topic": scene.topic or scene.question,
            "region": scene.region,
            "variant": scene.variant if priced else "",
            "quantity": scene.quantity if purpose in ("price", "shipping") else None,
            "member": scene.member or None,
            "budget": scene.budget,
            "height": scene.height,
            "weight": scene.weight,
            "foot": scene.foot,
            "usual": scene.usual,
            "coupons": [scene.code] if scene.code else [],
        }
        arguments = fill(purpose, tool, values)
        if arguments is None or (purpose == "product" and not arguments):
            return None
        return tool.name, arguments


_PRESENT = r"\b(?:recommend|suggest|gifts?|presents?|mom|mum|dad|friend|wife|husband|kids?)\b|推荐个?|礼物|送\w?"
