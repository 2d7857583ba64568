"""The held-out split: big enough, disjoint, and absent from training variants."""

from __future__ import annotations

import re
from collections.abc import Iterator

from livery.augment.lexicon import expansions, lexicon, share_held_out, strings
from livery.augment.operators import registered
from livery.augment.sampling import sample_variant
from livery.harness.digest import harness_digest
from livery.harness.model import Harness

VARIANTS = 1000
"""For each of the two samples."""

FORMS = {"opaque_skills", "opaque_tools", "opaque_arguments", "number_names", "skill_spaces", "number_forms"}
"""Forms of names and values, held against names and not against texts."""
CHOICES = {"skill_styles", "tool_styles", "step_forms", "result_forms", "heading_forms", "tool_forms", "enum_labels"}
"""Choices among the code's own forms; the records say which was chosen."""
NAMES = {
    "skill_names", "tool_names", "argument_names", "words", "result_fields", "page_names", "outer_names", "skill_words",
    "skill_suffixes", "split_names", "rule_files", "error_words", "yes_no",
}  # fmt: skip
"""Names and values; as ordinary words of a sentence they may stand anywhere."""
GRAM = 7
CHOSEN_BY = {
    "skill_identifiers.style": "skill_styles",
    "tool_schemas.tool_style": "tool_styles",
    "skill_content.step_format": "step_forms",
    "tool_schemas.result_form": "result_forms",
    "tool_schemas.labels": "enum_labels",
}
_SIGNS = {
    "{x}": "[0-9a-f]",
    "{d}": "[0-9]",
    "{c}": "[bdfgklmnprstvz]",
    "{v}": "[aeiou]",
    "{}": r"\d+",
    "{:02d}": r"\d\d",
}


def held_out_texts() -> list[str]:
    """Everything held out that could stand in a text, but for what a train entry says as well."""
    found = [t for kind, texts in strings("heldout").items() if kind not in FORMS | CHOICES | NAMES for t in texts]
    return list(dict.fromkeys(t for t in found if len(t) >= 2))


def held_out_names() -> set[str]:
    """Held-out names and values, but for words that a train name has in it."""
    train = {p for kind, texts in strings("train").items() if kind in NAMES for t in texts for p in parts(t)}
    return {t for kind, texts in strings("heldout").items() if kind in NAMES for t in texts} - train


def parts(name: str) -> set[str]:
    """A name, and the words it is made of."""
    return {name, *re.split(r"[-_./:~]+", name)}


def bounded(text: str, start: int, length: int) -> bool:
    """Whether a found piece is a word by itself, and no part of one."""
    before, after = text[start - 1 : start], text[start + length : start + length + 1]
    inside = text[start : start + length]
    word = re.compile(r"[A-Za-z0-9_-]")
    return not (word.match(inside[0]) and before and word.match(before)) and not (
        word.match(inside[-1]) and after and word.match(after)
    )


class Finder:
    """Finds any of many strings in texts, by their first letters."""

    def __init__(self, wanted: list[str]) -> None:
        self.by_gram: dict[str, list[str]] = {}
        self.short = [w for w in wanted if len(w) < GRAM]
        for text in wanted:
            if len(text) >= GRAM:
                self.by_gram.setdefault(text[:GRAM], []).append(text)
        self.seen: dict[str, list[str]] = {}

    def __call__(self, text: str) -> list[str]:
        if text not in self.seen:
            self.seen[text] = list(self._found(text))
        return self.seen[text]

    def _found(self, text: str) -> Iterator[str]:
        grams = {text[i : i + GRAM] for i in range(len(text))}
        candidates = [w for g in grams & self.by_gram.keys() for w in self.by_gram[g]] + self.short
        for wanted in candidates:
            at = text.find(wanted)
            if at >= 0 and bounded(text, at, len(wanted)):
                yield wanted


def texts_of(harness: Harness) -> Iterator[str]:
    for s in harness.sections:
        yield s.title
        yield s.template
    for s in harness.skills:
        yield s.name
        yield s.description
        yield s.body
        for f in s.files:
            yield f.path
            yield f.content
    for t in harness.tools:
        yield t.name
        yield t.description
        yield from names_of(t.input_schema)
        yield t.result.template
        yield from t.result.rename.values()
        yield from t.result.errors.values()
    for h in harness.hooks:
        yield h.feedback
        yield from (str(h.params.get(n, "")) for n in ("prefix", "sign_off"))
    yield harness.feedback.template


def names_in(harness: Harness) -> Iterator[str]:
    for s in harness.skills:
        yield s.name
        yield from (f.path.rpartition("/")[2].removesuffix(".md") for f in s.files)
    for t in harness.tools:
        yield t.name
        yield from names_of(t.input_schema, described=False)
        yield from t.result.rename.values()
        yield from t.result.errors.values()


def names_of(schema: dict, *, described: bool = True) -> Iterator[str]:
    for name, inner in schema.get("properties", {}).items():
        yield name
        if described:
            yield inner.get("description", "")
        yield from (str(v) for v in inner.get("enum", ()))
        yield from names_of(inner, described=described)


def test_a_third_of_the_lexicon_and_two_operators_a_dimension_are_held_out():
    held, everything = share_held_out()
    assert everything > 1500
    assert held / everything >= 1 / 3


def test_no_held_out_entry_stands_in_a_train_entry():
    finder = Finder(held_out_texts())
    train = {t for kind, texts in strings("train").items() if kind not in FORMS | CHOICES | NAMES for t in texts}
    wrong = {text: found for text in train if (found := finder(text))}
    assert wrong == {}
    both = {t for k, ts in strings("train").items() if k in NAMES for t in ts} & {
        t for k, ts in strings("heldout").items() if k in NAMES for t in ts
    }
    assert both == set()


def test_the_train_view_has_no_held_out_entry():
    for language in ("en", "zh"):
        view, held = lexicon(language, "train"), lexicon(language, "heldout")
        for kind in view.table:
            for key in view.keys(kind):
                own = view.table[kind][key]
                assert view.entries(kind, key) == own["train"]
                assert held.entries(kind, key) == (own["heldout"] or own["train"])
                assert not set(own["train"]) & set(own["heldout"]) or kind in CHOICES


def test_no_training_variant_holds_a_held_out_string_or_operator(sample: Harness):
    base_digest = harness_digest(sample)
    in_base = {w for text in texts_of(sample) for w in Finder(held_out_texts())(text)}
    assert len(in_base) <= 5  # what a base says itself cannot be held out of it
    finder = Finder([t for t in held_out_texts() if t not in in_base])
    base_names = {p for n in names_in(sample) for p in parts(n)}
    held_names = held_out_names() - base_names
    assert len(held_out_names()) - len(held_names) <= 5
    assert len(held_names) > 250
    held_operators = {o.name for o in registered().of(held_out=True)}
    shared = lexicon("en", "train").table
    patterns = [
        re.compile("".join(_SIGNS.get(p, re.escape(p)) for p in re.split(r"(\{[^}]*\})", form)))
        for kind in ("opaque_skills", "opaque_tools", "opaque_arguments", "number_names")
        for form in shared[kind][""]["heldout"]
    ]
    spaces = [s.replace("NAME", "") for s in shared["skill_spaces"][""]["heldout"]]
    styles = {kind: set(shared[kind][""]["heldout"]) - set(shared[kind][""]["train"]) for kind in CHOICES}
    named = 0
    for seed in range(VARIANTS):
        made = sample_variant(sample, seed, "train", (0.4, 0.8)[seed % 2], base_digest=base_digest)
        assert not held_operators & set(made.operators)
        assert {r.split for r in made.records} <= {"train"}
        for record in made.records:
            chosen = {str(v) for v in record.parameters.values() if isinstance(v, str)}
            kind = CHOSEN_BY.get(record.operator)
            assert kind is None or not chosen & styles[kind]
        for text in texts_of(made.harness):
            assert finder(text) == [], (seed, text)
        found = held_names & {p for n in names_in(made.harness) for p in parts(n)}
        assert found == set(), seed
        new = [r.new for record in made.records for r in record.renamed if r.what in ("skill", "tool", "argument")]
        named += len(new)
        assert not [n for n in new if any(p.fullmatch(n) for p in patterns)]
        assert not [n for n in new if any(n.startswith(s) or n.endswith(s) for s in spaces)]
    assert named > VARIANTS


def test_held_out_variants_hold_what_training_never_shows(sample: Harness):
    held_operators = {o.name for o in registered().of(held_out=True)}
    finder = Finder(held_out_texts())
    by_operator = by_words = 0
    for seed in range(60):
        made = sample_variant(sample, seed, "heldout")
        by_operator += bool(held_operators & set(made.operators))
        by_words += any(finder(text) for text in texts_of(made.harness))
    assert by_operator >= 40
    assert by_words >= 40


def test_slots_are_read_out():
    assert list(expansions("[Say|Tell] it[ now|]")) == ["Say it now", "Say it", "Tell it now", "Tell it"]
