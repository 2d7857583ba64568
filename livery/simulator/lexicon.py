"""What replies call things: products, variants and coupons by name, alias or the short form that viewers hear.

Made of a catalogue where there is one, else of what a trajectory's results name. Matching a viewer's words to one
product is `livery.shop.matching`; this finds every mention in a reply, and keeps those that are ambiguous so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from livery.harness.hooks.builtin.wordlists import straight
from livery.shop.catalogue import Catalogue, Product

_NO_HEAD = frozenset(
    [
        "set",
        "box",
        "boxes",
        "jar",
        "mix",
        "trio",
        "pack",
        "one",
        "case",
        "cover",
        "snack",
        "bar",
        "lotion",
        "bottle",
        "shoes",
        "pants",
        "cream",
    ]
)
_WORD = re.compile(r"[a-z]{3,}$")
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Mention:
    start: int
    end: int
    links: frozenset[str]
    """Several where the words are ambiguous."""


@dataclass(frozen=True, slots=True)
class Options:
    """Variants of one product."""

    values: Mapping[str, tuple[re.Pattern[str], str]]
    """Option value -> (how it is said, option name)."""
    labels: Mapping[str, Mapping[str, str]]
    """Variant label -> its option values by name."""


@dataclass(frozen=True)
class Lexicon:
    products: re.Pattern[str] | None
    links: Mapping[str, frozenset[str]]
    """Term, straight -> link ids."""
    coupons: re.Pattern[str] | None = None
    codes: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Term, straight -> coupon codes."""
    options: Mapping[str, Options] = field(default_factory=dict[str, Options])
    """Link id -> its variants."""
    known: frozenset[str] = _NONE
    """Every link id."""

    @cached_property
    def all_codes(self) -> frozenset[str]:
        """Codes of all coupons known by name."""
        return frozenset[str]().union(*self.codes.values())

    def mentions(self, low: str) -> list[Mention]:
        """Products named in straight text, in order, the longest names first."""
        if self.products is None:
            return []
        return [
            Mention(m.start(), m.end(), self.links[_bare(m.group(), self.links)]) for m in self.products.finditer(low)
        ]

    def coupons_in(self, low: str) -> list[tuple[int, int, frozenset[str]]]:
        """(start, end, codes) of coupons named in straight text."""
        if self.coupons is None:
            return []
        return [(m.start(), m.end(), self.codes[m.group()]) for m in self.coupons.finditer(low)]

    def names_each(self, text: str, link: str) -> bool:
        """Whether ``text`` gives a value of every option: "orange S, M and L", and not just "orange"."""
        options = self.options.get(link)
        if options is None:
            return False
        said = {name for pattern, name in options.values.values() if pattern.search(text)}
        return said == {name for _, name in options.values.values()}

    def variants_in(self, text: str, link: str) -> frozenset[str]:
        """Labels of the variants of ``link`` that ``text`` speaks of; empty where it names none."""
        options = self.options.get(link)
        if options is None:
            return _NONE
        said: dict[str, set[str]] = {}
        for value, (pattern, name) in options.values.items():
            if pattern.search(text):
                said.setdefault(name, set()).add(value)
        if not said:
            return _NONE
        return frozenset(
            label for label, own in options.labels.items() if all(own.get(n) in values for n, values in said.items())
        )


def _bare(term: str, links: Mapping[str, frozenset[str]]) -> str:
    return term if term in links else term[:-1] if term[:-1] in links else term[:-2]


def lexicon_of(catalogue: Catalogue) -> Lexicon:
    """The lexicon of a whole shop, made once a catalogue."""
    return catalogue.derived("simulator.lexicon", _of_catalogue)


def _of_catalogue(catalogue: Catalogue) -> Lexicon:
    terms: dict[str, set[str]] = {}
    other = straight(
        " ".join((catalogue.store, *(p.name for p in catalogue.promotions), *(p.text for p in catalogue.policies)))
    )
    elsewhere = frozenset(re.findall(r"[a-z]+", other))
    for product in catalogue.products:
        for name in (product.name, *product.aliases):
            _add(terms, name, product.link_id, elsewhere)
    codes: dict[str, set[str]] = {}
    for coupon in catalogue.coupons:
        name = straight(coupon.name)
        said = {straight(coupon.code), name}
        if name.endswith("coupon"):
            said.add(f"{name.split()[0]} coupon")
        if name.endswith("券"):
            said |= {name.replace("专享", ""), name.replace("品类", "")}
        for term in said:
            if len(term) > 1 and term not in ("coupon", "券"):
                codes.setdefault(term, set()).add(coupon.code)
    return Lexicon(
        products=_pattern(terms, plural=True),
        links={t: frozenset(v) for t, v in terms.items()},
        coupons=_pattern(codes),
        codes={t: frozenset(v) for t, v in codes.items()},
        options={p.link_id: _options(p) for p in catalogue.products if p.variants},
        known=frozenset(catalogue.by_link),
    )


@lru_cache(maxsize=256)
def lexicon_of_names(names: tuple[tuple[str, str], ...], codes: tuple[str, ...] = ()) -> Lexicon:
    """A lexicon of what results name: (product name, link id), and coupon codes."""
    terms: dict[str, set[str]] = {}
    for name, link in names:
        _add(terms, name, link)
        if not name.isascii():
            tail = re.sub(r"[^一-鿿]+$", "", straight(name))
            for size in (2, 3):
                if len(tail) > size:
                    terms.setdefault(tail[-size:], set()).add(link)
    said = {straight(c): {c} for c in codes}
    return Lexicon(
        products=_pattern(terms, plural=True),
        links={t: frozenset(v) for t, v in terms.items()},
        coupons=_pattern(said),
        codes={t: frozenset(v) for t, v in said.items()},
        known=frozenset(link for _, link in names),
    )


def _add(terms: dict[str, set[str]], name: str, link: str, elsewhere: frozenset[str] = _NONE) -> None:
    """A name with its short forms: its last word, and its first where the shop uses that for nothing else."""
    term = straight(name)
    if len(term) < 2:
        return
    terms.setdefault(term, set()).add(link)
    if not term.isascii():
        return
    words = [w for w in re.split(r"[^a-z'-]+", re.sub(r"\d.*$", "", term)) if w]
    if words and _WORD.match(words[-1]) and words[-1] not in _NO_HEAD:
        for head in {words[-1], words[-1].removesuffix("s")}:
            terms.setdefault(head, set()).add(link)
    if len(words) > 2 and _WORD.match(words[0]) and words[0] not in elsewhere:
        terms.setdefault(words[0], set()).add(link)
        terms.setdefault(f"{words[0]} {words[-1]}", set()).add(link)


def _pattern(terms: Iterable[str], *, plural: bool = False) -> re.Pattern[str] | None:
    parts: list[str] = []
    for term in sorted(terms, key=len, reverse=True):
        before = r"(?<![a-z0-9])" if term[0].isascii() and term[0].isalnum() else ""
        after = ""
        if term[-1].isascii() and term[-1].isalnum():
            after = r"(?:e?s)?(?![a-z0-9])" if plural and term[-1].isalpha() else r"(?![a-z0-9])"
        parts.append(before + re.escape(term) + after)
    return re.compile("|".join(parts)) if parts else None


def _options(product: Product) -> Options:
    values: dict[str, tuple[re.Pattern[str], str]] = {}
    for variant in product.variants:
        for name, value in variant.options.items():
            values[value] = (_said(value), name)
    return Options(values, {v.label: v.options for v in product.variants})


def _said(value: str) -> re.Pattern[str]:
    """An option value as it is said: "L" only in capitals, "navy" in any case, "黑色" also as "黑"."""
    core = re.escape(value)
    if re.fullmatch(r".+[色码号床]", value) and len(value) > 1:
        core = f"{re.escape(value[:-1])}{value[-1]}?"
    core = re.sub(r"(\d)(?:\\ )?([a-zA-Z])", r"\1\\s*\2", core)
    if value[0].isdigit() and " " in value:  # "20000 mAh" is also said "20000"
        core = f"(?:{core}|{re.escape(value.split()[0])}(?=\\s?(?:one|版|的|$)))"
    bounds = r"(?<![A-Za-z0-9.'$¥€£])", r"(?![A-Za-z0-9']|\.\d)"
    before = bounds[0] if value[0].isascii() else ""
    after = bounds[1] if value[-1].isascii() else ""
    flags = re.NOFLAG if len(value) <= 3 and value.isascii() else re.IGNORECASE
    return re.compile(before + core + after, flags)
