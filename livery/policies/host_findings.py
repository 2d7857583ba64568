"""What one request's look-ups have brought so far: results, the items they found, the shop's own answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from livery.policies.host_results import (
    ANSWER,
    LINK,
    NAME,
    QUESTION,
    Result,
    content,
    distinct,
    field_of,
    fits,
    same,
    sentences,
)
from livery.policies.host_scene import Scene


@dataclass(frozen=True, slots=True)
class Done:
    """A call that was made, and what came back."""

    purpose: str
    arguments: Mapping[str, Any]
    result: Result


class Findings:
    """The question and everything that came back."""

    def __init__(self, scene: Scene, done: Sequence[Done]) -> None:
        self.scene = scene
        self.done = done

    def ok(self, *purposes: str) -> list[Result]:
        return [d.result for d in self.done if d.purpose in purposes and d.result.ok]

    def faq_answer(self) -> str:
        """The shop's written answer, where one is about what is asked."""
        scene = self.scene
        targets = self.targets(on_screen=not scene.items)
        names = " ".join(r.name for r in self.ok("product", "search"))
        for result in self.ok("faq"):
            if result.prose:
                return sentences(result.prose) if fits(scene.question, result.prose, apart_from=names) else ""
            for row in result.records():
                answer, asked = sentences(field_of(row, ANSWER)), field_of(row, QUESTION)
                digits = re.search(r"\d{1,4}", field_of(row, LINK))
                link = digits[0] if digits else ""
                about = fits(scene.question, asked, apart_from=names, least=0.6 if scene.region else 0.3)
                if link in targets and (about or fits(scene.question, answer, apart_from=names, least=0.5)):
                    return answer
                if not link and about:
                    return answer
                if link and ((about and not targets) or same(scene.question, asked)):
                    return self._of_link(link, answer)
        return ""

    def targets(self, *, on_screen: bool = True) -> tuple[str, ...]:
        """Links of what is asked about: named ones, else those found for the words, else the one on screen
        where nothing is named at all."""
        scene = self.scene
        if scene.links:
            return scene.links
        if scene.items:
            found = distinct(self.found(words) for words in scene.items)
            if found or not (on_screen and scene.pointing and self.done and len(scene.items) == 1):
                return tuple(found)
        return (scene.on_screen,) if on_screen and scene.on_screen else ()

    def found(self, words: str) -> str:
        """The link that a search for ``words`` gave: the row whose name has most of them, else the first."""
        for d in self.done:
            if d.purpose not in ("search", "product") or words not in d.arguments.values():
                continue
            rows = [r for r in d.result.records() if field_of(r, LINK)]
            if rows:
                met = [len(content(words) & content(field_of(r, NAME))) for r in rows]
                if self.scene.intent.name == "product" and not max(met):
                    return ""  # found by what is asked of it, not by what it is called
                link = re.search(r"\d{1,4}", field_of(rows[met.index(max(met))], LINK))
                return link[0] if link else ""
            if d.result.link:
                return d.result.link
        return ""

    def words(self, zh: str, en: str) -> str:
        """The one in the prompt's language."""
        return zh if self.scene.chinese else en

    def _of_link(self, link: str, text: str) -> str:
        return self.words(f"{link}号链接:{text}", f"Link {link}: {text}")
