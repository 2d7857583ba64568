"""Dimension "prompt structure": how the prompt is cut, ordered, headed and worded.

A policy can no longer find a rule or a fact by its place or look. Sections keep their keys and what they show; Jinja
is never rewritten; what changes with the room stays out of the unchanging prefix.
"""

from __future__ import annotations

import re
from random import Random

from livery.augment.lexicon import Lexicon
from livery.augment.naming import changed
from livery.augment.operators import Edit, Renamed, operator
from livery.augment.wording import Form, blocks, joiner, paraphrase, written
from livery.harness.model import Harness, Section

_RANK = {"release": 0, "room": 1, "request": 2}


def _with(harness: Harness, made: dict[str, Section]) -> Harness:
    return harness.replace(sections=tuple(made.get(s.key, s) for s in harness.sections))


def plain(section: Section) -> bool:
    """Whether a section is text alone, which may be laid out anew."""
    return "{" not in section.template


def _statements(section: Section) -> bool:
    return "{%" in section.template


@operator(
    "prompt_structure.section_order",
    stage=60,
    group="section-order",
    removes="a section is found by its place",
)
def section_order(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Mixed within each volatility, so that the unchanging prefix stays one."""
    mixed = list(harness.sections)
    rng.shuffle(mixed)
    mixed.sort(key=lambda s: _RANK[s.volatility])
    if tuple(mixed) == harness.sections:
        return None
    return Edit(harness.replace(sections=tuple(mixed)), {"order": [s.key for s in mixed]})


@operator(
    "prompt_structure.headings",
    stage=20,
    group="headings",
    removes="headings have one notation",
)
def headings(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    forms = [f for f in lexicon.entries("heading_forms") if f != harness.rendering.heading]
    if not forms:
        return None
    form = rng.choice(forms)
    return Edit(harness.replace(rendering={**harness.rendering.model_dump(), "heading": form}), {"form": form})


@operator(
    "prompt_structure.catalogue_form",
    stage=20,
    group="catalogue-form",
    removes="skills are listed in one notation",
)
def catalogue_form(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    forms = [f for f in ("lines", "xml", "table") if f != harness.rendering.skills]
    form = rng.choice(forms)
    return Edit(harness.replace(rendering={**harness.rendering.model_dump(), "skills": form}), {"form": form})


def title_group(lexicon: Lexicon, title: str) -> str:
    """The lexicon's name for what a section with this title is; "" where it knows none."""
    folded = title.strip().casefold()
    return next((g for g in lexicon.keys("title_words") if folded in lexicon.table["title_words"][g]["train"]), "")


@operator(
    "prompt_structure.titles",
    stage=44,
    group="titles",
    removes="a section is known by its title",
)
def titles(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Other words, or for a title the lexicon does not know a form around its own."""
    made: dict[str, Section] = {}
    taken = {s.title.casefold() for s in harness.sections}
    for section in harness.sections:
        if not section.title:
            continue
        group = title_group(lexicon, section.title)
        new = lexicon.choose(rng, "titles", group) if group else ""
        new = new or lexicon.choose(rng, "title_forms").replace("TITLE", section.title)
        if new.casefold() not in taken:
            taken.add(new.casefold())
            made[section.key] = changed(section, title=new)
    if not made:
        return None
    old = {s.key: s.title for s in harness.sections}
    renamed = tuple(Renamed(what="section", key=k, old=old[k], new=s.title) for k, s in made.items())
    return Edit(_with(harness, made), {}, renamed)


@operator(
    "prompt_structure.wording",
    stage=50,
    group="prompt-wording",
    removes="a rule is known by its sentence",
)
def wording(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    share = rng.choice((0.5, 0.8, 1.0))
    made = {s.key: changed(s, template=_reworded(s, rng, lexicon, share)) for s in harness.sections}
    harness_ = _with(harness, made)
    return None if harness_ == harness else Edit(harness_, {"share": share})


def _reworded(section: Section, rng: Random, lexicon: Lexicon, share: float) -> str:
    """Line by line; a line with an expression keeps it, because patterns take whole sentences with all in them."""
    lines = section.template.split("\n")
    return "\n".join(
        line if "{%" in line or line.strip().startswith("{{") else paraphrase(line, rng, lexicon, share)
        for line in lines
    )


def _rules(harness: Harness) -> list[Section]:
    """Plain sections of rules: a list of two items or more, and no facts that a reply may rest on."""
    return [
        s
        for s in harness.sections
        if s.volatility == "release"
        and not s.facts
        and plain(s)
        and sum(len(b.lines) for b in blocks(s.template) if b.kind == "list") >= 2
    ]


@operator(
    "prompt_structure.rules_place",
    stage=62,
    group="rules-place",
    removes="rules stand near the top",
)
def rules_place(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """A section of rules moves to the very top, to the end of the prefix, or beside the chat."""
    found = _rules(harness)
    if not found:
        return None
    section = rng.choice(found)
    others = [s for s in harness.sections if s.key != section.key]
    place = rng.choice(("top", "end", "before the room", "before the chat"))
    if place == "top":
        order = [section, *others]
    elif place == "end":
        cut = sum(s.volatility == "release" for s in others)
        order = [*others[:cut], section, *others[cut:]]
    else:
        volatility = "room" if place == "before the room" else "request"
        section = changed(section, volatility=volatility)
        cut = sum(_RANK[s.volatility] < _RANK[volatility] for s in others)
        order = [*others[:cut], section, *others[cut:]]
    if tuple(order) == harness.sections:
        return None
    return Edit(harness.replace(sections=tuple(order)), {"section": section.key, "place": place})


@operator(
    "prompt_structure.facts_place",
    stage=61,
    group="facts-place",
    removes="room facts stand before the chat",
)
def facts_place(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """What changes with the room comes after the chat or between its parts."""
    room = [s for s in harness.sections if s.volatility == "room"]
    request = [s for s in harness.sections if s.volatility == "request"]
    if not room or not request:
        return None
    moved = [changed(s, volatility="request") for s in room]
    at = rng.randint(1, len(request))
    order = [*(s for s in harness.sections if s.volatility == "release"), *request[:at], *moved, *request[at:]]
    return Edit(harness.replace(sections=tuple(order)), {"after": at, "sections": [s.key for s in room]})


@operator(
    "prompt_structure.language",
    stage=8,
    group="instruction-language",
    removes="instructions are in the language of the replies",
)
def language(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Sentences and titles that the lexicon knows are told in the other language; a line says which to reply in."""
    kind = "other_language"
    made: dict[str, Section] = {}
    translated = 0
    for section in harness.sections:
        template = section.template
        for sentence in lexicon.keys(kind):
            if sentence in template:
                template = template.replace(sentence, lexicon.choose(rng, kind, sentence))
                translated += 1
        group = title_group(lexicon, section.title) if section.title else ""
        title = (lexicon.other.choose(rng, "titles", group) if group else "") or section.title
        made[section.key] = changed(section, template=template, title=title)
    if translated < 3:
        return None  # A prompt with one foreign sentence in it is a slip, not a variant.
    first = next((s for s in harness.sections if s.volatility == "release"), None)
    if first is not None:
        one = made[first.key]
        made[first.key] = changed(one, template=f"{one.template.rstrip()}\n{lexicon.choose(rng, 'reply_language')}")
    return Edit(_with(harness, made), {"sentences": translated})


@operator(
    "prompt_structure.density",
    stage=66,
    group="density",
    removes="one rule takes one line",
)
def density(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Plain sections close up into one paragraph, or open out to one sentence a line with a blank between."""
    plain_ones = [s for s in harness.sections if plain(s) and s.volatility == "release"]
    forms = [f for f in ("close", "open", "one line") if any(_spaced(s.template, f) != s.template for s in plain_ones)]
    if not forms:
        return None
    form = rng.choice(forms)
    made = {s.key: changed(s, template=_spaced(s.template, form)) for s in plain_ones}
    return Edit(_with(harness, made), {"form": form})


def _spaced(text: str, form: str) -> str:
    lines = [line for line in text.split("\n") if line.strip()]
    if any(line.lstrip().startswith(("```", "|", "<")) for line in lines):
        return text
    if form == "open":
        return "\n\n".join(lines)
    if form == "one line":
        return "\n".join(lines)
    bare = [re.sub(r"^\s*(?:[-*•]|\d{1,2}[.)、]|->|\(\d{1,2}\))\s+", "", line) for line in lines]
    return joiner(text).join(bare)


@operator(
    "prompt_structure.list_form",
    stage=64,
    group="list-form",
    held_out=True,
    removes="rules are a list with dashes",
)
def list_form(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Lists of plain sections in another form."""
    forms: tuple[Form, ...] = ("xml", "brackets", "arrows", "table", "numbers")
    form = rng.choice(forms)
    made = {
        s.key: changed(s, template=written(blocks(s.template), form))
        for s in harness.sections
        if plain(s) and any(b.kind == "list" for b in blocks(s.template))
    }
    harness_ = _with(harness, made)
    return None if harness_ == harness else Edit(harness_, {"form": form})


@operator(
    "prompt_structure.sections_joined",
    stage=63,
    group="sections-joined",
    held_out=True,
    removes="each matter has a section of its own",
)
def sections_joined(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Two neighbouring release sections become one; the first's title stands for both, the second's in its text."""
    pairs = [
        (a, b)
        for a, b in zip(harness.sections, harness.sections[1:], strict=False)
        if a.volatility == b.volatility == "release" and a.facts == b.facts and not (_statements(a) or _statements(b))
    ]
    if not pairs:
        return None
    first, second = rng.choice(pairs)
    lead = f"{second.title}:\n" if second.title else ""
    one = changed(first, template=f"{first.template.rstrip()}\n\n{lead}{second.template.lstrip()}")
    order = tuple(one if s.key == first.key else s for s in harness.sections if s.key != second.key)
    return Edit(harness.replace(sections=order), {"first": first.key, "second": second.key})
