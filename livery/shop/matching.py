"""Finding what is meant: products by link id or name, variants by their options, texts by BM25.

English is folded (case, width, punctuation, plurals) and not stemmed further; Chinese is cut at function
words and taken as character bigrams. Scores that leave this module are between 0 and 1: the share of a
query's weight (IDF) that a text answers. BM25 (Robertson and Zaragoza 2009, by bm25s) orders candidates; rapidfuzz
forgives spelling.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import Any, cast

import bm25s  # pyright: ignore[reportMissingTypeStubs]
from rapidfuzz import fuzz, process

from livery.shop.catalogue import Catalogue, Product, Variant
from livery.shop.operations import OperationError
from livery.types import ErrorKind

_LATIN = re.compile(r"[^\W_\u3040-\u30ff\u3400-\u9fff]+(?:[.'][^\W_\u3040-\u30ff\u3400-\u9fff]+)*\+?")
_HAN_RUN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+")
_HAN_FUNCTION = re.compile(
    "请问|主播|老板|小姐姐|这个|那个|这款|那款|这件|那件|这双|那双|一下|可以|能不能|是不是|有没有|会不会|可不可以|"
    "[吗呢啊吧呀哦嘛么的了是有我你您它在和跟与就都也还会能要想用个款件]"
)
_FUNCTION_WORDS = (
    "a an and any are as at be by can could do does for from get have how i in is it its me my of on or our "
    "please so some that the them there these this to want was we what when where which will with would "
    "you your s t re ll im"
)
STOP_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English function words: they weigh a tenth."""
_STOP_WEIGHT = 0.1
_TYPO_CUTOFF = 82
_SHORT_TYPO_CUTOFF = 90


@lru_cache(maxsize=4096)
def fold(text: str) -> str:
    """Width, case and outer space folded; inner runs of space become one."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@lru_cache(maxsize=8192)
def tokens(text: str) -> tuple[str, ...]:
    """Words of other scripts, bigrams of Chinese (single characters where nothing else stands)."""
    folded = fold(text)
    found: list[str] = [_singular(m.group().replace("'", "")) for m in _LATIN.finditer(folded)]
    for run in _HAN_RUN.findall(folded):
        parts = [p for p in _HAN_FUNCTION.split(run) if p] or [run]
        for part in parts:
            found += [part[i : i + 2] for i in range(len(part) - 1)] or [part]
    return tuple(found)


_PLURAL_ES = ("ches", "shes", "sses", "xes", "zes")


def _singular(word: str) -> str:
    """An English plural without its ending: viewers ask for "2 tees", the shop lists a tee."""
    if len(word) > 3 and word.endswith("s") and word.isalpha() and not word.endswith(("ss", "us", "is")):
        return word[:-2] if word.endswith(_PLURAL_ES) else word[:-1]
    return word


Pairs = Sequence[tuple[str, str, float]]
"""(query word, word of the index, likeness 0-1)."""


@dataclass(frozen=True, slots=True)
class Hit:
    index: int
    """Position of the text in the index."""
    score: float
    """0-1: the share of the query's weight that the text answers."""
    rank: float
    """BM25, for ordering."""


class TextIndex:
    """A fixed list of texts, searchable. Built once for a catalogue."""

    def __init__(self, texts: Iterable[str], *, unknown: float = 0.5) -> None:
        """
        Args:
            unknown: in how many texts a word that stands in none is taken to stand; 1 makes it weigh no more
                than the rarest.
        """
        self._unknown = unknown
        self.documents = [tokens(t) for t in texts]
        self._sets = [frozenset(d) for d in self.documents]
        counts: dict[str, int] = {}
        for words in self._sets:
            for word in words:
                counts[word] = counts.get(word, 0) + 1
        self._weights = {w: self._weight(w, n) for w, n in counts.items()}
        self._fuzzy = [w for w in counts if len(w) >= 4 and w.isascii()]
        self._bm25: Any = None
        if counts:
            self._bm25 = bm25s.BM25(k1=1.2, b=0.5)
            self._bm25.index([list(d) or [""] for d in self.documents], show_progress=False)

    def _weight(self, word: str, documents: int) -> float:
        weight = log(1 + len(self.documents) / max(documents, self._unknown))
        return weight * _STOP_WEIGHT if word in STOP_WORDS else weight

    def weight(self, word: str) -> float:
        """IDF of a word; of one that stands nowhere, the highest."""
        return self._weights.get(word) or self._weight(word, 0)

    def expand(self, query: str) -> Pairs:
        """Each word with itself where known, else with the nearest spelling."""
        pairs: list[tuple[str, str, float]] = []
        for word in dict.fromkeys(tokens(query)):
            near = word
            likeness = 1.0
            if word not in self._weights and len(word) >= 4 and word.isascii():
                # In a short word one letter makes another word: "time" is no "timer".
                cutoff = _TYPO_CUTOFF if len(word) >= 6 else _SHORT_TYPO_CUTOFF
                match = process.extractOne(word, self._fuzzy, scorer=fuzz.ratio, score_cutoff=cutoff)
                if match:
                    near, likeness = match[0], match[1] / 100
            pairs.append((word, near, likeness))
        return pairs

    def share(self, pairs: Pairs, index: int, light: frozenset[str]) -> float:
        """Share of the query's weight in one text; missing words that are in ``light`` hardly weigh."""
        words = self._sets[index]
        whole = found = 0.0
        for word, near, likeness in pairs:
            weight = self.weight(near if near != word else word)
            if near in words:
                found += weight * likeness
            elif near in light:
                weight *= _STOP_WEIGHT
            whole += weight
        return found / whole if whole else 0.0

    def search(self, query: str, among: Iterable[int] | None = None) -> list[Hit]:
        """Texts with any of the query's words, best first; ties in the texts' order."""
        pairs = self.expand(query)
        if self._bm25 is None or not pairs:
            return []
        ranks = cast(Sequence[float], self._bm25.get_scores([near for _, near, _ in pairs]))
        hits = [
            Hit(i, self.share(pairs, i, frozenset()), float(ranks[i]))
            for i in (range(len(self.documents)) if among is None else among)
            if ranks[i] > 0
        ]
        return sorted(hits, key=lambda h: (-h.rank, h.index))


# --------------------------------------------------------------------------------- products


class _Names:
    """Names and aliases of a catalogue's products, one text each."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.products = catalogue.products
        self.names = [(i, n) for i, p in enumerate(catalogue.products) for n in (p.name, *p.aliases)]
        extras = [" ".join((p.category, *_option_values(p))) for p in catalogue.products]
        self.extra = [frozenset(tokens(e)) for e in extras]
        self.index = TextIndex((n for _, n in self.names), unknown=1)
        self.exact: dict[str, list[int]] = {}
        for i, name in self.names:
            if i not in self.exact.setdefault(fold(name), []):
                self.exact[fold(name)].append(i)

    def mentioned(self, text: str) -> list[tuple[float, int]]:
        """(share of its best name's weight that stands in ``text``, product); best first, then longest."""
        said = {near for _, near, _ in self.index.expand(text)}
        best: dict[int, tuple[float, float]] = {}
        for j, (i, _) in enumerate(self.names):
            words = set(self.index.documents[j])
            whole = sum(self.index.weight(w) for w in words)
            found = sum(self.index.weight(w) for w in words & said)
            if found:
                best[i] = max(best.get(i, (0.0, 0.0)), (found / whole, found))
        ordered = sorted(best.items(), key=lambda x: (-x[1][0], -x[1][1], x[0]))
        return [(share, i) for i, (share, _) in ordered]

    def scores(self, query: str) -> list[tuple[float, int]]:
        """(0-1, product), best first."""
        exact = self.exact.get(fold(query), [])
        pairs = self.index.expand(query)
        best: dict[int, float] = {}
        wanted = " ".join(near for _, near, _ in pairs)
        for j, (i, name) in enumerate(self.names):
            share = self.index.share(pairs, j, self.extra[i])
            if share:
                # The share says whether all that was said fits; the ratio, how little else the name holds.
                score = 0.88 * share + 0.12 * fuzz.ratio(wanted, " ".join(tokens(name))) / 100
                best[i] = max(best.get(i, 0.0), score)
        best.update(dict.fromkeys(exact, 1.0))
        return sorted(((s, i) for i, s in best.items()), key=lambda x: (-x[0], x[1]))


def _option_values(product: Product) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for v in product.variants for value in v.options.values()))


def _names(catalogue: Catalogue) -> _Names:
    return catalogue.derived("matching.names", _Names)


def match_products(catalogue: Catalogue, name: str) -> list[tuple[float, Product]]:
    """(likeness 0-1, product) of every product whose names share something with ``name``, best first."""
    return [(score, catalogue.products[i]) for score, i in _names(catalogue).scores(name)]


def mentioned_products(catalogue: Catalogue, text: str) -> list[tuple[float, Product]]:
    """(0-1, product) of those that a longer text names: 1 where every word of a name or alias is in it."""
    return [(share, catalogue.products[i]) for share, i in _names(catalogue).mentioned(text)]


def product_by_link(catalogue: Catalogue, link_id: str) -> Product:
    """Exactly that link id, after trimming.

    Raises:
        OperationError: not found; the message lists near ones.
    """
    found = catalogue.by_link.get(link_id.strip())
    if found is not None:
        return found
    near = _near_links(catalogue, link_id)
    hint = f"Near: {'; '.join(_label(p) for p in near)}." if near else _known_links(catalogue)
    raise OperationError(ErrorKind.NOT_FOUND, f"No product has link id {link_id.strip()!r}. {hint}")


def product_by_name(catalogue: Catalogue, name: str, *, least: float = 0.6, margin: float = 0.06) -> Product:
    """The one product meant by ``name``.

    Args:
        least: least likeness that counts.
        margin: a second product this near to the first makes the name ambiguous.

    Raises:
        OperationError: not found, or ambiguous with the candidates named.
    """
    found = match_products(catalogue, name)
    best = [(s, p) for s, p in found if s >= least]
    if not best:
        near = "; ".join(_label(p) for _, p in found[:3])
        raise OperationError(
            ErrorKind.NOT_FOUND, f"No product is called {name!r}." + (f" Near: {near}." if near else "")
        )
    top = [p for s, p in best if s >= best[0][0] - margin and (best[0][0] < 1.0 or s == 1.0)]
    if len(top) > 1:
        several = "; ".join(_label(p) for p in top[:5])
        raise OperationError(ErrorKind.AMBIGUOUS, f"{name!r} may be: {several}. Ask again with a link id.")
    return top[0]


def _label(product: Product) -> str:
    return f"{product.link_id} {product.name}"


def _near_links(catalogue: Catalogue, said: str) -> list[Product]:
    """Link ids named inside what was said ("No.3"), spelled alike, or products of that name."""
    numbers = re.findall(r"\d+", unicodedata.normalize("NFKC", said))
    near = [catalogue.by_link[n] for n in (n.lstrip("0") or "0" for n in numbers) if n in catalogue.by_link]
    if not near:
        alike = process.extract(said.strip(), list(catalogue.by_link), scorer=fuzz.ratio, limit=3, score_cutoff=75)
        near = [catalogue.by_link[link] for link, _, _ in alike]
    near += [p for s, p in match_products(catalogue, said)[:3] if s >= 0.5]
    return list({p.link_id: p for p in near}.values())[:4]


def _known_links(catalogue: Catalogue) -> str:
    links = list(catalogue.by_link)
    return f"There are: {', '.join(links[:30])}{', ...' if len(links) > 30 else ''}."


# --------------------------------------------------------------------------------- variants

_SIZE_WORDS = {
    "extra small": "xs", "small": "s", "medium": "m", "extra large": "xl", "large": "l",
    "小号": "s", "中号": "m", "加大号": "xl", "特大号": "xl", "大号": "l",
}  # fmt: skip
_FILLER = re.compile(
    r"\b(?:size|colou?r|in|the|a|and|one|please|of|eu|us)\b|颜色|尺码|[色码号的款要]|[\s,/\-|+;:、，。()]+"
)


def match_variants(product: Product, said: str) -> tuple[Variant, ...]:
    """Variants meant by option text ("blue L", "size 42") or a SKU; several where one option is left open.

    Raises:
        OperationError: not found, with the options there are. A part that fits no option is never ignored.
    """
    text = _units(fold(said))
    for variant in product.variants:
        if fold(variant.sku) == fold(said):
            return (variant,)
    chosen: dict[str, set[str]] = {}
    values = sorted(
        {(name, value) for v in product.variants for name, value in v.options.items()},
        key=lambda nv: (-len(nv[1]), nv),
    )
    names = {fold(n) for v in product.variants for n in v.options}
    rest = text
    for attempt in dict.fromkeys((text, _size_words(text))):
        chosen, left = _take_values(values, attempt)
        rest = _FILLER.sub(" ", " ".join(w for w in left.split() if w not in names)).strip()
        if chosen and not rest:
            break
    if rest:
        rest = _take_parts(values, chosen, rest)
    if not chosen or rest:
        raise OperationError(
            ErrorKind.NOT_FOUND,
            f"Link {product.link_id} has no variant {said.strip()!r}. {describe_options(product)}",
        )
    found = tuple(v for v in product.variants if all(v.options.get(name) in values for name, values in chosen.items()))
    if not found:
        raise OperationError(
            ErrorKind.NOT_FOUND,
            f"Link {product.link_id} is not made as {said.strip()!r}. {describe_options(product)}",
        )
    return found


def describe_options(product: Product) -> str:
    """ "It comes in colour: black, blue; size: S, M." """
    if not product.variants:
        return "It has no variants."
    options: dict[str, list[str]] = {}
    for variant in product.variants:
        for name, value in variant.options.items():
            if value not in options.setdefault(name, []):
                options[name].append(value)
    return "It comes in " + "; ".join(f"{n}: {', '.join(v)}" for n, v in options.items()) + "."


def _size_words(text: str) -> str:
    for word, size in _SIZE_WORDS.items():
        text = text.replace(word, f" {size} ")
    return text


_UNITS = {"毫升": "ml", "毫安": "mah", "厘米": "cm", "千克": "kg"}


def _units(text: str) -> str:
    for unit, short in _UNITS.items():
        text = text.replace(unit, short)
    return text


def _take_values(values: Iterable[tuple[str, str]], text: str) -> tuple[dict[str, set[str]], str]:
    """Option values named in ``text``, the longest first, and what is left of it."""
    chosen: dict[str, set[str]] = {}
    for name, value in values:
        folded = _units(fold(value))
        for form in dict.fromkeys((folded, re.sub(r"(?<=.)[色码号]$", "", folded))):
            pattern = _bounded(form)
            if re.search(pattern, text):
                text = re.sub(pattern, " ", text)
                chosen.setdefault(name, set()).add(value)
                break
    return chosen, text


def _take_parts(values: Iterable[tuple[str, str]], chosen: dict[str, set[str]], rest: str) -> str:
    """Adds to ``chosen`` the values that hold a word of ``rest`` ("green" in "forest green").

    Returns:
        The words that fit none, or options of two kinds.
    """
    left: list[str] = []
    for word in rest.split():
        holding = [(n, v) for n, v in values if n not in chosen and re.search(_bounded(word), _units(fold(v)))]
        if len({n for n, _ in holding}) != 1:
            left.append(word)
            continue
        chosen[holding[0][0]] = {v for _, v in holding}
    return " ".join(left)


def _bounded(form: str) -> str:
    """A pattern of ``form`` as whole Latin words ("L" is not in "XL"), a space before a unit or not."""
    before = r"(?<![^\W_\u3400-\u9fff])" if form[0].isascii() else ""
    after = r"(?![^\W_\u3400-\u9fff])" if form[-1].isascii() else ""
    return before + re.sub(r"(\d)(?:\\ )?([a-z])", r"\1\\s*\2", re.escape(form)) + after
