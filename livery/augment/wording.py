"""Rewriting instructions sentence by sentence, and the shapes that a list of steps can take.

Paraphrase uses whole sentences that the lexicon knows and patterns that fit any sentence of their form. Fenced code,
Jinja and what stands in backticks or quotes inside a sentence keep their text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Literal
from xml.sax.saxutils import escape

from livery.augment.lexicon import Lexicon, expand

_LINE = re.compile(r"^(?P<mark>\s*(?:[-*+•]|\d{1,2}[.)、]|#{1,6})\s+)?(?P<text>.*)$")
_SENTENCE = re.compile(r"(?<=[.!?])(?<!\b[a-z]\.)\s+(?=\S)|(?<=[。！？；])(?=\S)")
_EXPRESSION = re.compile(r"\{\{.*?\}\}")
_END = re.compile(r"[.!?。！？]+$")


@lru_cache(maxsize=4096)
def sentences(text: str) -> tuple[str, ...]:
    """The sentences of one line, with their stops."""
    return tuple(_SENTENCE.split(text))


def joiner(text: str) -> str:
    """What stands between two sentences of this text."""
    return "" if re.search(r"[\u4e00-\u9fff]", text) else " "


def paraphrase(text: str, rng: Random, lexicon: Lexicon, share: float = 1.0, *, instructions: bool = True) -> str:
    """The text with about ``share`` of the sentences that the lexicon can reword reworded.

    Args:
        instructions: whether it tells what to do; a description only says what a thing is.
    """
    out: list[str] = []
    fenced = False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if fenced or not line.strip() or "{%" in line or line.lstrip().startswith(("|", "<", "```")):
            out.append(line)
            continue
        match = _LINE.match(line)
        assert match is not None
        mark, said = match["mark"] or "", match["text"]
        whole = lexicon.choose(rng, "sentences", _bare(said)) if rng.random() < share else ""
        if whole:
            out.append(mark + _other_words(whole, rng, lexicon) + _end_of(said))
            continue
        parts = [_reworded(s, rng, lexicon, share, instructions and "#" not in mark) for s in sentences(said)]
        made = mark + joiner(said).join(parts)
        # A pattern that would touch an expression is not worth its while.
        out.append(made if _EXPRESSION.findall(made) == _EXPRESSION.findall(line) else line)
    return "\n".join(out)


def _bare(sentence: str) -> str:
    return _END.sub("", sentence.strip())


def _end_of(sentence: str) -> str:
    found = _END.search(sentence.strip())
    return found[0] if found else ""


def _reworded(sentence: str, rng: Random, lexicon: Lexicon, share: float, instructions: bool) -> str:
    if rng.random() >= share:
        return sentence
    known = lexicon.choose(rng, "sentences", _bare(sentence))
    if known:
        return _other_words(known, rng, lexicon) + _end_of(sentence)
    fitting = [
        (p, e) for p, e in (lexicon.instruction_patterns if instructions else lexicon.patterns) if p.search(sentence)
    ]
    if not fitting:
        return _other_words(sentence, rng, lexicon)
    pattern, entries = rng.choice(fitting)
    made = pattern.sub(expand(rng.choice(entries), rng), sentence, count=1)
    return _other_words(made[:1].upper() + made[1:], rng, lexicon)


_KEPT = re.compile(r"(`[^`]*`|\"[^\"]*\"|“[^”]*”|\{\{.*?\}\})")


def _other_words(sentence: str, rng: Random, lexicon: Lexicon) -> str:
    """Some words for others; what is quoted, named or an expression keeps its own."""
    parts = _KEPT.split(sentence)
    for pattern, entries in lexicon.word_patterns:
        for i in range(0, len(parts), 2):
            if pattern.search(parts[i]) and rng.random() < 0.5:
                parts[i] = pattern.sub(expand(rng.choice(entries), rng), parts[i], count=1)
    return "".join(parts)


# ------------------------------------------------------------------------------------------ steps

Form = Literal["numbers", "dashes", "prose", "table", "xml", "yaml", "brackets", "arrows"]


@dataclass(frozen=True, slots=True)
class Block:
    """A run of lines of a body: a heading, a paragraph, or a list with its items."""

    kind: Literal["heading", "text", "list"]
    lines: tuple[str, ...]
    """Of a list: the items, without marks."""
    ordered: bool = False


_ITEM = re.compile(r"^\s{0,3}(?:(?P<number>\d{1,2})[.)、]|[-*+•])\s+(?P<text>.+)$")


@lru_cache(maxsize=1024)
def blocks(body: str) -> tuple[Block, ...]:
    """A Markdown body in blocks. What is not plain (code, tables) is text, line by line."""
    return tuple(_blocks(body))


def _blocks(body: str) -> Iterator[Block]:
    text: list[str] = []
    items: list[str] = []
    ordered = fenced = False
    for line in [*body.strip("\n").split("\n"), ""]:
        if line.lstrip().startswith("```"):
            fenced = not fenced
        item = None if fenced else _ITEM.match(line)
        if item:
            if text:
                yield Block("text", tuple(text))
                text = []
            if items and ordered != bool(item["number"]):
                yield Block("list", tuple(items), ordered)
                items = []
            ordered = bool(item["number"])
            items.append(item["text"].strip())
            continue
        if items and not fenced and line.startswith(("  ", "\t")) and line.strip():
            items[-1] += " " + line.strip()
            continue
        if items:
            yield Block("list", tuple(items), ordered)
            items = []
        if not fenced and re.match(r"^#{1,6}\s", line):
            if text:
                yield Block("text", tuple(text))
                text = []
            yield Block("heading", (line,))
        elif line.strip() or fenced:
            text.append(line)
        elif text:
            yield Block("text", tuple(text))
            text = []
    if text:
        yield Block("text", tuple(text))


def written(found: tuple[Block, ...], form: Form | None = None) -> str:
    """Blocks as a body again; lists in ``form`` where one is given."""
    parts: list[str] = []
    for one in found:
        if one.kind == "list":
            parts.append(steps(one.lines, form or ("numbers" if one.ordered else "dashes"), ordered=one.ordered))
        else:
            parts.append("\n".join(one.lines))
    return "\n\n".join(parts)


def steps(items: tuple[str, ...], form: Form, *, ordered: bool) -> str:
    """A list's items in one of the forms, in their order."""
    chinese = joiner("".join(items)) == ""
    match form:
        case "numbers":
            return "\n".join(f"{n}. {t}" for n, t in enumerate(items, 1))
        case "dashes":
            return "\n".join(f"- {t}" for t in items)
        case "brackets":
            return "\n".join(f"({n}) {t}" for n, t in enumerate(items, 1))
        case "arrows":
            return "\n".join(f"-> {t}" for t in items)
        case "prose":
            return _as_prose(items, ordered, chinese)
        case "table":
            head = (
                ("| 步骤 | 做什么 |" if chinese else "| step | what to do |")
                if ordered
                else ("| 规则 |" if chinese else "| rule |")
            )
            rows = [f"| {n} | {_cell(t)} |" if ordered else f"| {_cell(t)} |" for n, t in enumerate(items, 1)]
            return "\n".join([head, "|---|---|" if ordered else "|---|", *rows])
        case "xml":
            tag, outer = ("step", "steps") if ordered else ("rule", "rules")
            rows = [f'<{tag} n="{n}">{escape(t)}</{tag}>' if ordered else f"<{tag}>{escape(t)}</{tag}>"
                    for n, t in enumerate(items, 1)]  # fmt: skip
            return "\n".join([f"<{outer}>", *rows, f"</{outer}>"])
        case "yaml":
            label = "steps" if ordered else "rules"
            return "\n".join([f"{label}:", *(f"  {f'{n}' if ordered else '-'}{':' if ordered else ''} {_yaml(t)}"
                                             for n, t in enumerate(items, 1))])  # fmt: skip


def _cell(text: str) -> str:
    return text.replace("|", "/")


def _yaml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _as_prose(items: tuple[str, ...], ordered: bool, chinese: bool) -> str:
    if not ordered:
        return ("" if chinese else " ").join(items)
    if chinese:
        return "".join(f"第{n}步:{t}" for n, t in zip("一二三四五六七八九十", items[:10], strict=False)) + "".join(
            items[10:]
        )
    words = ("First", "Second", "Third", "Fourth", "Fifth", "Sixth", "Seventh", "Eighth", "Ninth", "Tenth")
    told = [f"{words[i]}: {t}" if i < len(words) else t for i, t in enumerate(items)]
    return " ".join(told)
