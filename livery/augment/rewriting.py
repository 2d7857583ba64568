"""Rewording a harness by a model: optional, cached, and kept only where the task is still kept.

A policy (any endpoint) is asked to reword skill bodies and descriptions, tool descriptions and plain prompt sections,
one text at a time. A text is taken only where it still names everything that it named, has the same figures and as many
steps, and where the harness with it lints; and the whole only where the caller's preservation check accepts it, text by
text otherwise. What comes out is a harness of its own: a base that operators vary like any other. It is no operator,
because a model's answer cannot be made anew from a seed; the cache keeps every answer, and a second run is the same.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from livery.augment.naming import changed, mentioned
from livery.augment.prompt_structure import plain
from livery.augment.wording import blocks
from livery.errors import PolicyError
from livery.harness.lint import lint
from livery.harness.model import Harness
from livery.policies.policy import Policy, PolicyRequest, PromptMessage

Place = tuple[str, str, str]
"""(``sections``, ``skills`` or ``tools``, key, field)."""

_ASK = {
    "en": "Reword the following instructions. Keep their meaning, every rule, every number, every name in backticks or "
    "with a hyphen or underscore, and the number of steps. Answer with the reworded text alone.",
    "zh": "改写下面的说明。意思、每条规则、每个数字、反引号里的名字和带连字符或下划线的名字都要保留,"
    "步骤数不变。只写改写后的文字。",
}
_FIGURE = re.compile(r"\d+(?:[.,]\d+)*")
_ITEM_MARK = re.compile(r"^\s*\d{1,2}[.)、]\s", re.MULTILINE)
_FENCE = re.compile(r"^```\w*\n(.*)\n```$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rewriting:
    harness: Harness
    accepted: Mapping[Place, str]
    refused: Mapping[Place, str] = field(default_factory=dict[Place, str])
    """Place -> why the answer was not taken."""


class Cache:
    """Answers by what was asked, one JSON line each; appended as they come."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._answers: dict[str, str] = {}
        if path is not None and path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                row: dict[str, Any] = json.loads(line)
                self._answers[row["key"]] = row["answer"]

    @staticmethod
    def key(policy: Policy, text: str, seed: int) -> str:
        asked = json.dumps([policy.uri, policy.weights, seed, text], ensure_ascii=False)
        return hashlib.sha256(asked.encode()).hexdigest()

    def get(self, key: str) -> str | None:
        return self._answers.get(key)

    def put(self, key: str, answer: str) -> None:
        self._answers[key] = answer
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "answer": answer}, ensure_ascii=False) + "\n")


async def rewrite(
    harness: Harness,
    policy: Policy,
    accept: Callable[[Harness], bool],
    *,
    seed: int = 0,
    cache: Cache | None = None,
    timeout_s: float = 60.0,
    max_tokens: int = 800,
) -> Rewriting:
    """The harness in a model's words.

    Args:
        accept: the preservation check: whether the oracle does the same under this harness.
        seed: another seed asks anew.

    Raises:
        PolicyError: the policy could not be asked at all (its first answer failed).
    """
    cache = cache or Cache(None)
    answers: dict[Place, str] = {}
    refused: dict[Place, str] = {}
    for place, text in texts(harness):
        key = Cache.key(policy, text, seed)
        answer = cache.get(key)
        if answer is None:
            try:
                answer = await _asked(policy, harness, text, seed, timeout_s, max_tokens)
            except PolicyError as fault:
                if not answers and not refused:
                    raise
                refused[place] = f"{type(fault).__name__}: {fault}"
                continue
            cache.put(key, answer)
        why = fault_of(text, answer) or _lint_fault(put(harness, {place: answer}))
        if why:
            refused[place] = why
        else:
            answers[place] = answer
    whole = put(harness, answers)
    if answers and not accept(whole):
        answers, whole = _one_by_one(harness, answers, refused, accept)
    return Rewriting(whole, answers, refused)


def _one_by_one(
    harness: Harness, answers: Mapping[Place, str], refused: dict[Place, str], accept: Callable[[Harness], bool]
) -> tuple[dict[Place, str], Harness]:
    """The answers that may stay: each is added to those before it and tried."""
    taken: dict[Place, str] = {}
    made = harness
    for place, answer in answers.items():
        tried = put(made, {place: answer})
        if accept(tried):
            taken[place], made = answer, tried
        else:
            refused[place] = "the preservation check failed with it"
    return taken, made


def texts(harness: Harness) -> Iterator[tuple[Place, str]]:
    """Everything that may be reworded."""
    for section in harness.sections:
        if plain(section) and section.template.strip() and not section.facts:
            yield ("sections", section.key, "template"), section.template
    for skill in harness.skills:
        yield ("skills", skill.key, "description"), skill.description
        if skill.body.strip() and not skill.facts:
            yield ("skills", skill.key, "body"), skill.body
    for tool in harness.tools:
        yield ("tools", tool.key, "description"), tool.description


def put(harness: Harness, answers: Mapping[Place, str]) -> Harness:
    """The harness with these texts in their places."""
    changes: dict[str, Any] = {}
    for kind in ("sections", "skills", "tools"):
        changes[kind] = tuple(
            changed(c, **{f: answers[p] for p in answers if p[:2] == (kind, c.key) for f in p[2:]})
            for c in getattr(harness, kind)
        )
    return harness.replace(**changes)


def fault_of(before: str, after: str) -> str:
    """Why a rewording cannot stand, by its form alone; "" where it can."""
    if not after.strip():
        return "it is empty"
    if "{{" in after or "{%" in after:
        return "it has a template in it"
    if gone := sorted(mentioned(before) - mentioned(after)):
        return f"it no longer names {', '.join(gone)}"
    if new := sorted(mentioned(after) - mentioned(before)):
        return f"it names {', '.join(new)}, which the text did not"
    if _figures(before) != _figures(after):
        return f"its figures are {_figures(after)}, not {_figures(before)}"
    if _steps(before) != _steps(after):
        return f"it has {_steps(after)} steps, not {_steps(before)}"
    if len(after) > 3 * len(before) + 80:
        return "it is more than three times as long"
    return ""


def _figures(text: str) -> list[str]:
    return sorted(_FIGURE.findall(_ITEM_MARK.sub("", text)))


def _steps(text: str) -> int:
    return sum(len(b.lines) for b in blocks(text) if b.kind == "list")


def _lint_fault(harness: Harness) -> str:
    return next((str(p) for p in lint(harness, strict=False) if p.severity == "error"), "")


async def _asked(policy: Policy, harness: Harness, text: str, seed: int, timeout_s: float, max_tokens: int) -> str:
    language = "zh" if harness.language.startswith("zh") else "en"
    turn = await policy.act(
        PolicyRequest(
            messages=(
                PromptMessage(role="system", content=_ASK[language]),
                PromptMessage(role="user", content=text),
            ),
            tools=(),
            allow_calls=False,
            max_tokens=max_tokens,
            timeout_s=timeout_s,
            seed=seed,
        )
    )
    answer = turn.text.strip()
    fenced = _FENCE.match(answer)
    return fenced[1] if fenced else answer
