"""Dimension "skill identifiers": what skills are called and where they stand in the catalogue.

A policy that learnt a skill's name, its place or its form can no longer use any of these; descriptions decide. Keys,
bodies, kinds and topics stay; texts that mention a skill follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from livery.augment.lexicon import Lexicon
from livery.augment.naming import movable_skills, names_taken, rename, unique_names, words_of
from livery.augment.operators import Edit, Renamed, operator
from livery.harness.model import Harness, Skill


def _named(harness: Harness, wanted: Sequence[tuple[str, str]]) -> Edit | None:
    """The harness with these skills (key, name) renamed."""
    keys = {key for key, _ in wanted}
    staying = names_taken(harness) - {s.name for s in harness.skills if s.key in keys}
    names = unique_names(wanted, staying)
    old = {s.key: s.name for s in harness.skills}
    moved = {key: name for key, name in names.items() if old[key] != name}
    if not moved:
        return None
    renamed = tuple(Renamed(what="skill", key=k, old=old[k], new=n) for k, n in moved.items())
    return Edit(rename(harness, skills=moved), {}, renamed)


def _word_name(skill: Skill, rng: Random, lexicon: Lexicon) -> str:
    """Another name by the skill's topic where the lexicon knows it, else by its words."""
    for topic in skill.metadata.get("livery-topics", "").split():
        if lexicon.entries("skill_names", topic):
            return lexicon.choose(rng, "skill_names", topic)
    words = [lexicon.choose(rng, "words", w) or w for w in words_of(skill.name)]
    made = "-".join(words)
    return made if made != skill.name else f"{made}-{lexicon.choose(rng, 'skill_suffixes')}"


@operator(
    "skill_identifiers.synonyms",
    stage=30,
    group="skill-name",
    removes="a skill is known by the words of its name",
)
def synonyms(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    return _named(harness, [(s.key, _word_name(s, rng, lexicon)) for s in movable_skills(harness)])


@operator(
    "skill_identifiers.opaque",
    stage=30,
    group="skill-name",
    removes="a skill's name says anything at all about it",
)
def opaque(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    form = lexicon.choose(rng, "opaque_skills")
    return _named(harness, [(s.key, opaque_id(form, rng)) for s in movable_skills(harness)])


def opaque_id(form: str, rng: Random) -> str:
    """``{x}`` is a hexadecimal digit, ``{d}`` a digit, ``{c}`` a consonant, ``{v}`` a vowel."""
    signs = {"{x}": "0123456789abcdef", "{d}": "23456789", "{c}": "bdfgklmnprstvz", "{v}": "aeiou"}
    out = form
    for sign, choices in signs.items():
        while sign in out:
            out = out.replace(sign, rng.choice(choices), 1)
    return out


def styled(name: str, style: str) -> str:
    """The words of a name in another case and with another separator; "" where it has none to style."""
    words = words_of(name)
    if not words:
        return ""
    capital = [w.capitalize() for w in words]
    forms = {
        "kebab": "-".join(words),
        "snake": "_".join(words),
        "joined": "".join(words),
        "camel": words[0] + "".join(capital[1:]),
        "pascal": "".join(capital),
        "upper_snake": "_".join(words).upper(),
        "train": "-".join(capital),
        "dotted": ".".join(words),
    }
    return forms[style]


@operator(
    "skill_identifiers.style",
    stage=34,
    group="skill-style",
    removes="names are lower case with hyphens",
)
def style(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    form = lexicon.choose(rng, "skill_styles")
    edit = _named(harness, [(s.key, styled(s.name, form) or s.name) for s in movable_skills(harness)])
    return edit and Edit(edit.harness, {"style": form}, edit.renamed)


@operator(
    "skill_identifiers.language",
    stage=30,
    group="skill-name",
    removes="names are in the language of the room",
)
def language(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    other = lexicon.other
    wanted: list[tuple[str, str]] = []
    for skill in movable_skills(harness):
        topics = skill.metadata.get("livery-topics", "").split()
        name = next((n for t in topics if (n := other.choose(rng, "skill_names", t))), "")
        # A skill of no known topic is named after its place: that is readable in any language.
        wanted.append((skill.key, name or f"{other.choose(rng, 'skill_words')}-{len(wanted) + 1}"))
    return _named(harness, wanted)


@operator(
    "skill_identifiers.namespace",
    stage=36,
    group="skill-space",
    removes="a name begins with what it is about",
)
def namespace(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    space = lexicon.choose(rng, "skill_spaces")
    edit = _named(harness, [(s.key, space.replace("NAME", s.name)) for s in movable_skills(harness)])
    return edit and Edit(edit.harness, {"form": space}, edit.renamed)


@operator(
    "skill_identifiers.order",
    stage=46,
    group="skill-order",
    removes="a skill is found by its place in the catalogue",
)
def order(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    mixed = list(harness.skills)
    rng.shuffle(mixed)
    if tuple(mixed) == harness.skills:
        return None
    return Edit(harness.replace(skills=tuple(mixed)), {"order": [s.key for s in mixed]})


@operator(
    "skill_identifiers.swapped",
    stage=38,
    group="skill-swap",
    removes="a name may be trusted before its description is read",
)
def swapped(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Skills of one kind pass their names round; a description that speaks of itself by name still follows."""
    movable = movable_skills(harness)
    if len(movable) < 2:
        return None
    chosen = rng.sample(movable, rng.randint(2, min(4, len(movable))))
    names = [s.name for s in chosen]
    moved = {s.key: n for s, n in zip(chosen, names[1:] + names[:1], strict=True)}
    renamed = tuple(Renamed(what="skill", key=s.key, old=s.name, new=moved[s.key]) for s in chosen)
    return Edit(rename(harness, skills=moved), {"swapped": [s.key for s in chosen]}, renamed)


@operator(
    "skill_identifiers.numbered",
    stage=30,
    group="skill-name",
    held_out=True,
    removes="names have words, or at least differ in more than a number",
)
def numbered(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    form = lexicon.choose(rng, "number_names")
    first = rng.choice((1, 10, 100))
    wanted = [(s.key, form.format(n)) for n, s in enumerate(movable_skills(harness), first)]
    edit = _named(harness, wanted)
    return edit and Edit(edit.harness, {"form": form, "first": first}, edit.renamed)


@operator(
    "skill_identifiers.abbreviated",
    stage=30,
    group="skill-name",
    held_out=True,
    removes="a name is spelt out",
)
def abbreviated(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Words lose their vowels: ``price-promo`` -> ``prc-prm``."""
    wanted: list[tuple[str, str]] = []
    for skill in movable_skills(harness):
        short = ["".join(c for i, c in enumerate(w) if i == 0 or c not in "aeiou") for w in words_of(skill.name)]
        wanted.append((skill.key, "-".join(w[:4] for w in short) or skill.name))
    return _named(harness, wanted)
