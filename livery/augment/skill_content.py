"""Dimension "skill content": how a skill's instructions are worded, laid out and shared out.

A policy can no longer know a skill by the look of its text. What a skill asks for stays: rules are reworded or moved,
never dropped; topics and kind stay; a part that moves is named where it was.
"""

from __future__ import annotations

import re
from random import Random

from livery.augment.lexicon import Lexicon
from livery.augment.naming import changed, follower, fresh, movable_skills, names_taken, rename
from livery.augment.operators import Edit, Renamed, operator
from livery.augment.wording import Block, Form, blocks, joiner, paraphrase, sentences, written
from livery.harness.model import Harness, Skill, SkillFile
from livery.harness.skills import DESCRIPTION_CHARS, catalogue_description, policy_may_load

TOPICS = "livery-topics"


def _with(harness: Harness, skills: dict[str, Skill]) -> Harness:
    return harness.replace(skills=tuple(skills.get(s.key, s) for s in harness.skills))


def _some(skills: list[Skill], rng: Random) -> list[Skill]:
    """At least half of them, in their order."""
    if not skills:
        return []
    chosen = set(rng.sample(range(len(skills)), rng.randint((len(skills) + 1) // 2, len(skills))))
    return [s for i, s in enumerate(skills) if i in chosen]


def _edited(harness: Harness, skills: dict[str, Skill], **parameters: str) -> Edit | None:
    before = {s.key: s for s in harness.skills}
    moved = [k for k, s in skills.items() if before.get(k) != s]
    return Edit(_with(harness, skills), {**parameters, "skills": list(moved)}) if moved else None


@operator(
    "skill_content.paraphrase",
    stage=50,
    group="skill-wording",
    removes="a skill is known by its sentences",
)
def paraphrased(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    share = rng.choice((0.5, 0.8, 1.0))
    made: dict[str, Skill] = {}
    for skill in harness.skills:
        about = paraphrase(skill.description, rng, lexicon, share, instructions=False)
        fits = len(about) <= min(DESCRIPTION_CHARS, harness.rendering.skill_description_chars) // 2
        made[skill.key] = changed(
            skill,
            body=paraphrase(skill.body, rng, lexicon, share),
            description=about if fits else skill.description,
        )
    return _edited(harness, made)


@operator(
    "skill_content.step_format",
    stage=56,
    group="skill-steps",
    removes="steps are a numbered list",
)
def step_format(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    forms: list[Form] = [_form(e) for e in lexicon.entries("step_forms")]
    one = rng.choice(forms)
    mixed = rng.random() < 0.3
    made = {
        s.key: changed(s, body=written(blocks(s.body), rng.choice(forms) if mixed else one))
        for s in harness.skills
        if any(b.kind == "list" for b in blocks(s.body))
    }
    return _edited(harness, made, form="mixed" if mixed else one)


def _form(entry: str) -> Form:
    match entry:
        case "numbers" | "dashes" | "prose" | "table" | "xml" | "yaml" | "brackets" | "arrows":
            return entry
        case _:
            raise ValueError(f"found the step form {entry!r}")


_AFTERWARDS = re.compile(r"^(?:Then|After that|Finally|然后|最后)[,，]?\s*", re.IGNORECASE)


@operator(
    "skill_content.parts_reordered",
    stage=54,
    group="skill-parts",
    removes="a part of a skill is found by its place",
)
def parts_reordered(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Sections change places; a closing line comes first; rules that have no order are mixed; titles go last."""
    made: dict[str, Skill] = {}
    for skill in _some(list(harness.skills), rng):
        made[skill.key] = changed(skill, body=written(_rearranged(blocks(skill.body), rng, lexicon)))
    return _edited(harness, made)


def _rearranged(found: tuple[Block, ...], rng: Random, lexicon: Lexicon) -> tuple[Block, ...]:
    title = found[:1] if found and found[0].kind == "heading" and found[0].lines[0].startswith("# ") else ()
    rest = list(found[len(title) :])
    # Sections under headings of their own may stand in any order.
    if sum(b.kind == "heading" for b in rest) >= 2 and rest[0].kind == "heading":
        parts: list[list[Block]] = []
        for block in rest:
            if block.kind == "heading":
                parts.append([])
            parts[-1].append(block)
        rng.shuffle(parts)
        return (*title, *(b for part in parts for b in part))
    rest = [Block("list", tuple(rng.sample(b.lines, len(b.lines)))) if b.kind == "list" and not b.ordered else b
            for b in rest]  # fmt: skip
    if len(rest) >= 2 and rest[0].kind == "list" and rest[-1].kind == "text":
        after = "\n".join(rest[-1].lines)
        lead = lexicon.choose(rng, "afterwards")
        first = Block("text", (f"{lead}{_lowered(_AFTERWARDS.sub('', after))}",))
        return (*title, first, *rest[:-1])
    return (*rest, *title) if title and rng.random() < 0.4 and rest else (*title, *rest)


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


_RULE = re.compile(
    r"^(?:never|do not|don't|no |without|不|别|不要|勿)|\b(?:never|do not|don't)\b"
    r"|(?:不说|不要|不报|不评论|不保证|不预测|不承诺)",
    re.IGNORECASE,
)


def _last_rule(skill: Skill) -> tuple[tuple[Block, ...], str] | None:
    """The body without its last item that forbids something, and that item; None where it would lose its order."""
    found = list(blocks(skill.body))
    for i in range(len(found) - 1, -1, -1):
        block = found[i]
        if block.kind != "list" or len(block.lines) < 3:
            continue
        last = block.lines[-1]
        if _RULE.search(last) and "`" not in last:
            found[i] = Block("list", block.lines[:-1], block.ordered)
            return tuple(found), last
    return None


@operator(
    "skill_content.rule_to_file",
    stage=52,
    group="skill-rule",
    removes="everything that matters is in the body",
)
def rule_to_file(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """A skill's last rule moves to a file of it that the body names first."""
    able = [(s, f) for s in harness.skills if policy_may_load(s) and (f := _last_rule(s)) is not None]
    if not able:
        return None
    made: dict[str, Skill] = {}
    for skill, (rest, rule) in rng.sample(able, rng.randint(1, min(2, len(able)))):
        path = f"references/{fresh_path(lexicon.choose(rng, 'rule_files'), skill)}"
        file = SkillFile(path=path, content=f"- {rule}\n")
        pointer = Block("text", (lexicon.choose(rng, "rule_pointers").format(path=f"`{path}`"),))
        at = 1 if rest[0].kind == "heading" else 0
        body = written((*rest[:at], pointer, *rest[at:]))
        made[skill.key] = changed(skill, body=body, files=(*skill.files, file))
    return _edited(harness, made)


def fresh_path(name: str, skill: Skill) -> str:
    taken = {f.path.rpartition("/")[2].removesuffix(".md") for f in skill.files}
    return fresh(name, taken) + ".md"


@operator(
    "skill_content.rule_to_description",
    stage=52,
    group="skill-rule",
    held_out=True,
    removes="a description says only when, a body only how",
)
def rule_to_description(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """The last rule of a skill moves into its description, which the catalogue shows."""
    most = min(DESCRIPTION_CHARS, harness.rendering.skill_description_chars)
    made: dict[str, Skill] = {}
    for skill in _some(list(harness.skills), rng):
        found = _last_rule(skill)
        if found is None or len(catalogue_description(skill)) + len(found[1]) + 2 > most:
            continue
        about = f"{skill.description}{joiner(skill.description)}{found[1]}"
        made[skill.key] = changed(skill, description=about, body=written(found[0]))
    return _edited(harness, made)


_EXAMPLE = re.compile(r"^#{1,6}\s*(?:examples?|示例|例子|举例)", re.IGNORECASE)


@operator(
    "skill_content.examples",
    stage=58,
    group="skill-examples",
    removes="a skill always, or never, shows an example",
)
def examples(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Skills with an example lose it, others get one that states no fact (it has no figures)."""
    made: dict[str, Skill] = {}
    for skill in _some(list(harness.skills), rng):
        found = blocks(skill.body)
        start = next((i for i, b in enumerate(found) if b.kind == "heading" and _EXAMPLE.match(b.lines[0])), None)
        if start is not None:
            end = next((i for i in range(start + 1, len(found)) if found[i].kind == "heading"), len(found))
            made[skill.key] = changed(skill, body=written((*found[:start], *found[end:])))
            continue
        topics = [t for t in skill.metadata.get(TOPICS, "").split() if lexicon.entries("examples", t)]
        if topics:
            said = lexicon.choose(rng, "examples", rng.choice(topics))
            head = lexicon.choose(rng, "example_titles")
            made[skill.key] = changed(skill, body=f"{skill.body.rstrip()}\n\n{head}\n{said}")
    return _edited(harness, made)


@operator(
    "skill_content.split",
    stage=12,
    group="skill-parting",
    removes="one question takes one skill",
)
def split(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """A skill's later steps become a strategy skill that the first part names."""
    able: list[tuple[Skill, int]] = []
    for skill in movable_skills(harness):
        lists = [i for i, b in enumerate(blocks(skill.body)) if b.kind == "list" and len(b.lines) >= 4]
        if policy_may_load(skill) and not skill.files and len(lists) == 1:
            able.append((skill, lists[0]))
    if not able:
        return None
    skill, at = rng.choice(able)
    found = list(blocks(skill.body))
    items = found[at].lines
    cut = rng.randint(2, len(items) - 2)
    more = fresh(f"{skill.name}-{lexicon.choose(rng, 'split_names')}", names_taken(harness))
    key = fresh(f"{skill.key}-more", {s.key for s in harness.skills})
    pointer = lexicon.choose(rng, "split_pointers").format(name=f"`{more}`")
    found[at] = Block("list", items[:cut], found[at].ordered)
    first = changed(skill, body=written((*found[: at + 1], Block("text", (pointer,)), *found[at + 1 :])))
    second = Skill(
        key=key,
        name=more,
        description=lexicon.choose(rng, "split_descriptions").format(name=f"`{skill.name}`"),
        body=written((Block("list", items[cut:], found[at].ordered),)),
        kind="strategy",
        facts=skill.facts,
        license=skill.license,
    )
    skills = list(harness.skills)
    place = skills.index(skill)
    skills[place : place + 1] = [first, second]
    renamed = (Renamed(what="split", key=skill.key, old=skill.key, new=key),)
    return Edit(harness.replace(skills=tuple(skills)), {"skill": skill.key, "after": cut}, renamed)


@operator(
    "skill_content.merged",
    stage=10,
    group="skill-parting",
    held_out=True,
    removes="each question has a skill of its own",
)
def merged(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Two reply skills become one with the topics of both; the second one's mentions follow to the first."""
    able = [
        s
        for s in movable_skills(harness)
        if s.kind == "reply" and policy_may_load(s) and not s.files and not s.extra and s.metadata.get(TOPICS)
    ]
    most = min(DESCRIPTION_CHARS, harness.rendering.skill_description_chars)
    pairs = [(a, b) for i, a in enumerate(able) for b in able[i + 1 :]
             if len(a.description) + len(b.description) + 2 <= most and a.facts == b.facts]  # fmt: skip
    if not pairs:
        return None
    first, second = rng.choice(pairs)
    topics = dict.fromkeys([*first.metadata[TOPICS].split(), *second.metadata[TOPICS].split()])
    space = joiner(first.description)
    one = changed(
        first,
        description=f"{first.description}{space}{second.description}",
        body=f"{first.body.rstrip()}\n\n{second.body.strip()}",
        metadata={**first.metadata, TOPICS: " ".join(topics)},
    )
    # Through a name of its own, so that mentions of the second are told from those of the first.
    moved = rename(harness, skills={second.key: first.name})
    skills = tuple(
        changed(one, body=follower({second.name: first.name})(one.body)) if s.key == first.key else s
        for s in moved.skills
        if s.key != second.key
    )
    renamed = (Renamed(what="merged", key=second.key, old=second.name, new=first.key),)
    return Edit(moved.replace(skills=skills), {"into": first.key, "skill": second.key}, renamed)


@operator(
    "skill_content.distractors",
    stage=11,
    group="skill-distractors",
    removes="every skill in the catalogue is of use",
)
def distractors(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Strategy skills for what no viewer asks; they have no topics and do not count as reply skills."""
    entries = lexicon.entries("distractor_skills")
    chosen = rng.sample(entries, min(len(entries), rng.randint(1, 3)))
    skills = list(harness.skills)
    taken, keys = names_taken(harness), {s.key for s in skills}
    added: list[str] = []
    for entry in chosen:
        name, about, body = (part.strip() for part in entry.split("//"))
        name = fresh(name, taken)
        key = fresh(f"distractor-{name}", keys)
        taken.add(name)
        keys.add(key)
        added.append(key)
        made = Skill(key=key, name=name, description=about, body="\n".join(sentences(body)), kind="strategy")
        skills.insert(rng.randint(0, len(skills)), made)
    return Edit(harness.replace(skills=tuple(skills)), {"added": list(added)})
