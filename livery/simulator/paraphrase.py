"""Rewording viewers' messages by a model, kept on disk and used offline.

Any endpoint policy can put a message in other words. What it writes is accepted only where all that makes the
task answerable is still there, letter for letter: numbers, names, places, variants, codes; it may not grow,
and an injection or an abuse is left as it stands. Accepted wordings go into a JSONL file keyed by the message
and by who rewords, so that a second run, and anyone without the model, gets the same tasks. Without a policy
only the file is used: a message that it lacks stays as it was.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from livery.errors import InputError
from livery.policies.policy import Policy, PolicyRequest, PromptMessage
from livery.simulator.task import Intent, Task
from livery.simulator.viewers import spelled
from livery.simulator.worlds import World, world_of
from livery.types import JSON

_INSTRUCTION = {
    "en": (
        "You reword what viewers type into the chat of a live shopping show. Keep its meaning and the "
        "language, keep every number, name, place, colour and size exactly as written, and keep it as short "
        "and casual as chat is. Answer with the new wording alone."
    ),
    "zh": (
        "你来改写直播间观众发的弹幕。意思和语言不变，数字、名称、地点、颜色、尺码一字不改，"
        "保持弹幕那样简短随意。只回答改写后的那一句。"
    ),
}
_KEEP = re.compile(r"\d+(?:\.\d+)?|#\d+")
_LEFT_ALONE = (Intent.INJECTION, Intent.ABUSE, Intent.COMPLAINT)


class Paraphraser:
    """Rewords messages, from a file of earlier wordings and, where there is a policy, by asking it."""

    def __init__(self, cache: Path, policy: Policy | None = None, *, uri: str = "", timeout_s: float = 20.0) -> None:
        """
        Args:
            cache: JSONL file; made when the first wording is accepted.
            policy: whom to ask; None: offline.
            uri: whose wordings to use offline, as the policy's own ``uri`` was.

        Raises:
            InputError: the file holds a line that is no wording.
        """
        self._cache = cache
        self._policy = policy
        self._timeout_s = timeout_s
        self.uri = policy.uri if policy is not None else uri
        self._known = _read(cache)
        self.asked = 0
        self.refused = 0
        """Wordings that lost something and were not used."""

    async def task(self, task: Task) -> Task:
        """The task with its messages reworded where that can be done; its id and gold stay."""
        world = world_of(task.world)
        messages = list(task.request.messages)
        for i, message in enumerate(messages):
            asked = [a for a in task.asked if a.message == i]
            if any(a.intent in _LEFT_ALONE for a in asked):
                continue
            text = await self.text(message.text, task.request.state.language, kept(task, message.text, world))
            messages[i] = replace(message, text=text)
        if tuple(messages) == task.request.messages:
            return task
        request = replace(task.request, messages=tuple(messages))
        return task.model_copy(update={"request": request, "tags": (*task.tags, "paraphrased")})

    async def text(self, text: str, language: str, keep: Sequence[str]) -> str:
        """Another wording of ``text`` that holds all of ``keep``; ``text`` itself where there is none."""
        key = hashlib.sha256(f"{self.uri}\n{language}\n{text}".encode()).hexdigest()
        if key in self._known:
            return self._known[key]
        if self._policy is None:
            return text
        self.asked += 1
        turn = await self._policy.act(
            PolicyRequest(
                messages=(
                    PromptMessage(role="system", content=_INSTRUCTION["zh" if language == "zh" else "en"]),
                    PromptMessage(role="user", content=text),
                ),
                tools=(),
                allow_calls=False,
                max_tokens=96,
                timeout_s=self._timeout_s,
                session="paraphrase",
                seed=int(key[:8], 16),
            )
        )
        said = turn.text.strip().strip('"“”').strip()
        if not accepted(text, said, keep):
            self.refused += 1
            said = text  # remembered too: it is not asked for twice
        self._known[key] = said
        self._cache.parent.mkdir(parents=True, exist_ok=True)
        with self._cache.open("a", encoding="utf-8") as file:
            row = {"key": key, "policy": self.uri, "text": text, "wording": said}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        return said


def accepted(text: str, said: str, keep: Sequence[str]) -> bool:
    """Whether ``said`` may stand for ``text``: one line, not much longer, nothing of ``keep`` lost, no number
    new."""
    if not said or "\n" in said or len(said) > 2 * len(text) + 24:
        return False
    low = said.casefold()
    numbers = set(_KEEP.findall(text))
    return all(k.casefold() in low for k in keep) and set(_KEEP.findall(said)) <= numbers


def kept(task: Task, text: str, world: World) -> tuple[str, ...]:
    """What of a message must stay as it is: numbers, and whatever it names of the shop or of the calls
    needed."""
    low = text.casefold()
    catalogue = world.catalogue
    names = [n for p in catalogue.products for n in (p.name, *p.aliases)]
    names += [v for p in catalogue.products for x in p.variants for v in x.options.values()]
    names += [p.name for p in catalogue.promotions]
    names += [n for s in catalogue.policies for n in (s.topic, *s.aliases)]
    names += [str(v) for n in task.needed for v in n.arguments.values() if isinstance(v, str)]
    names += [s for p in catalogue.products for s in p.specifications]
    said = [n for n in dict.fromkeys(names) if len(n) > 1 and n.casefold() in low]
    # Words that resolve a reference are kept as well.
    said += [t.viewer for t in task.request.state.dialogue if t.viewer.casefold() in low]
    links = {x for a in task.asked for x in a.items if x.isdecimal() and len(x) < 3}
    said += [w for x in links if (w := spelled(int(x), task.request.state.language)) in low]
    return (*dict.fromkeys((*_KEEP.findall(text), *said)),)


def _read(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    known: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = cast("JSON", json.loads(line))
        except json.JSONDecodeError as error:
            raise InputError.at(path, f"not JSON: {error.msg}", line=number, code="not-json") from error
        fields = cast("Mapping[str, JSON]", row if isinstance(row, dict) else {})
        key, wording = fields.get("key"), fields.get("wording")
        if not isinstance(key, str) or not isinstance(wording, str):
            message = 'expected {"key": ..., "wording": ...}'
            raise InputError.at(path, message, line=number, code="not-a-wording")
        known[key] = wording
    return known
