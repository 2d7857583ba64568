"""A policy at no cost: three rounds with the first tools that fit. What remains is the harness's own time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from livery.policies.host import skill_call
from livery.policies.host_scene import HAN, read_scene
from livery.policies.host_tools import Planned, fill, tools_by_purpose
from livery.policies.policy import PolicyRequest, PromptMessage, ToolSurface


class InstantPlay:
    """A skill and a look-up, a look-up, a reply; which ones is worked out once per tool set and prompt."""

    def __call__(self, request: PolicyRequest) -> tuple[tuple[Planned, ...], str]:
        rounds = sum(m.role == "assistant" for m in request.messages)
        system = request.messages[0].content if request.messages else ""
        if rounds < 2 and request.allow_calls:
            opening, second = _calls(_Tools(request.tools), system)
            calls = opening if rounds == 0 else second
            if calls:
                return calls, ""
        zh = bool(HAN.search(system[:400]))
        return (), "谢谢您的提问,有需要随时叫我。" if zh else "Thanks for asking, I am happy to help."


class _Tools:
    """A tool set as a cache key: names, since schemas do not hash."""

    def __init__(self, tools: Sequence[ToolSurface]) -> None:
        self.tools = tools
        self._names = tuple(t.name for t in tools)

    def __hash__(self) -> int:
        return hash(self._names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Tools) and self._names == other._names


@lru_cache(maxsize=64)
def _calls(tools: _Tools, system: str) -> tuple[tuple[Planned, ...], tuple[Planned, ...]]:
    prompt = (
        PromptMessage(role="system", content=system),
        PromptMessage(role="user", content="how much is number 1"),
    )
    skill = skill_call(tools.tools, read_scene(prompt))
    serving = tools_by_purpose(tools.tools)
    looks: list[Planned] = []
    for purpose in ("product", "price", "search"):
        tool = serving.get(purpose)
        arguments = fill(purpose, tool, {"link": ["1"], "query": "number 1"}) if tool else None
        if tool and arguments:
            looks.append((tool.name, arguments))
    return tuple(filter(None, (skill, *looks[:1]))), tuple(looks[1:2])
