"""What a tool's result says, whatever its format, and whether that answers a question.

Reads JSON, XML, ``field: value`` lines and prose. Nothing is computed here: only what a result states is
said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast
from xml.etree import ElementTree

from livery.policies.host_scene import HAN

Pair = tuple[str, str]
"""(dotted field, value)."""

SPOKEN_CHARS = 200

_ERROR = re.compile(r"\s*(?:error\b|<error|\{\s*\"error\")", re.IGNORECASE)
_INDEX = re.compile(r"\[\d+\]")

NAME = re.compile(r"^name$|商品名|^title$", re.IGNORECASE)
LINK = re.compile(r"^link|链接|item_?no|^sku$|product_?(?:id|no)", re.IGNORECASE)
PRICE = re.compile(r"^price$|到手价|^unit_price$", re.IGNORECASE)
TOTAL = re.compile(r"^total$|合计|应付|到手", re.IGNORECASE)
STATUS = re.compile(r"^status$|状态", re.IGNORECASE)
STOCK = re.compile(r"^stock$|库存|^left$|^available$", re.IGNORECASE)
ANSWER = re.compile(r"^answer$|^text$|答案|回答|内容", re.IGNORECASE)
QUESTION = re.compile(r"question|问题", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Result:
    """One tool result, read."""

    text: str
    ok: bool
    pairs: tuple[Pair, ...]

    def value(self, field: re.Pattern[str]) -> str:
        """The first value of a field by its last name; empty where there is none."""
        return next((v for k, v in self.pairs if field.search(leaf(k))), "")

    @property
    def prose(self) -> str:
        return self.pairs[0][1] if len(self.pairs) == 1 and not self.pairs[0][0] else ""

    @property
    def name(self) -> str:
        return self.value(NAME)

    @property
    def link(self) -> str:
        found = self.value(LINK) if not self.prose else ""
        digits = re.search(r"\d{1,4}", found) if found else _PROSE_LINK.search(self.prose)
        return (digits[digits.lastindex or 0]) if digits else ""

    def records(self) -> list[dict[str, str]]:
        """Rows of the result's lists, by their fields' last names; one row of all where it has none."""
        rows: dict[str, dict[str, str]] = {}
        for key, value in self.pairs:
            row = key[: key.rfind("]") + 1]
            rows.setdefault(row, {}).setdefault(leaf(key), value)
        listed = [fields for row, fields in rows.items() if row]
        return listed or list(rows.values())


_PROSE_LINK = re.compile(r"(?:link|item|链接)\s*(?:no\.?\s*)?(\d{1,4})|(\d{1,4})\s*号", re.IGNORECASE)


def read_result(text: str) -> Result:
    failed = bool(_ERROR.match(text))
    return Result(text, not failed and bool(text.strip()), () if failed else tuple(pairs_of(text)))


def leaf(key: str) -> str:
    return _INDEX.sub("", key).rpartition(".")[2]


def field_of(row: dict[str, str], field: re.Pattern[str]) -> str:
    return next((v for k, v in row.items() if field.search(k)), "")


def pairs_of(text: str) -> Sequence[Pair]:
    """The result's fields in order; ("", text) where it is prose."""
    stripped = text.strip()
    if stripped[:1] in ("{", "["):
        try:
            return _leaves(json.loads(stripped), "")
        except json.JSONDecodeError:
            return ()
    if stripped.startswith("<"):
        try:
            return _elements(ElementTree.fromstring(stripped), "")
        except ElementTree.ParseError:
            return ()
    lines = [re.match(r"^([^:：]{1,40}?)[:：] (.+)$", line) for line in stripped.splitlines()]
    found = [(m[1], m[2]) for m in lines if m]
    prose = len(found) != len(lines) or any(re.search(r"\d, |, link \d", key) for key, _ in found)
    if prose or (len(found) == 1 and " " in found[0][0]):
        return [("", " ".join(stripped.split()))] if stripped else ()
    return found


def _leaves(value: Any, prefix: str) -> list[Pair]:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return [x for k, v in items for x in _leaves(v, f"{prefix}.{k}" if prefix else k)]
    if isinstance(value, list):
        return [x for i, v in enumerate(cast("list[Any]", value)) for x in _leaves(v, f"{prefix}[{i}]")]
    if isinstance(value, bool):
        return [(prefix, "yes" if value else "no")]
    return [] if value is None else [(prefix, str(value))]


def _elements(element: ElementTree.Element, prefix: str) -> list[Pair]:
    """An element's fields; siblings of one name are a list's items."""
    tags = [child.get("name", child.tag) for child in element]
    if not tags:
        return [(prefix or element.tag, element.text.strip())] if element.text and element.text.strip() else []
    found: list[Pair] = []
    counted: dict[str, int] = {}
    for child, tag in zip(element, tags, strict=True):
        index = counted[tag] = counted.get(tag, -1) + 1
        # A list of one looks like a field; what holds fields of its own may be either.
        name = f"{tag}[{index}]" if tags.count(tag) > 1 or tag in _LISTS else tag
        found += _elements(child, f"{prefix}.{name}" if prefix else name)
    return found


_LISTS = ("results", "items", "products", "promotions", "coupons", "lines")


def sentences(text: str, limit: int = SPOKEN_CHARS, most: int = 9) -> str:
    """The first sentences of ``text`` that are not too long to say together."""
    parts = re.split(r"(?<=[.!?])\s+(?=[A-Z\"“])|(?<=[。！？!])", text.strip())
    said = ""
    for part in [p for p in parts if p][:most]:
        joined = f"{said}{'' if HAN.search(part) or not said else ' '}{part}"
        if len(joined) > limit:
            break
        said = joined
    return said.strip()


# ---------------------------------------------------------------------------------- what fits what

_STOP = frozenset(
    """
    a an the this that these those it its is are was be do does did can could will would should i you he
    she they them we my your our of in on at to with and or any some how much many what which when where
    why who there here for if not no yes have has had get just so too also please ok one use used
    """.split()  # noqa: SIM905
)
_HAN_FILLERS = re.compile(
    r"会不会|能不能|可不可以|有没有|是不是|多久|一次|怎么办?|什么|多少|可以|一下|请问|[吗呢啊呀吧嘛的了会能有是也就还几用号这个款]"
)
_MEANT = tuple(
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in (
        (r"\bheavy|\bweigh", "weight"),
        (r"\bhow long .*(?:last|charge)|battery", "battery life"),
        (r"\bhow (?:big|large|tall|wide)|capacity|\bhold", "size volume capacity diameter dimensions"),
        (r"material|made of|fabric", "material fabric shell upper"),
        (r"\bhow many\b", "set pack packs count"),
        (r"\bwash|\bclean", "care"),
        (r"\bhot\b|temperature", "temperature"),
        (r"多重|重吗|几斤|轻", "重 克"),
        (r"用多久|续航|电池", "续航"),
        (r"多大|容量|能装多少", "容量 规格 直径"),
        (r"材质|什么做|面料", "材质"),
        (r"几[包个片双件盒瓶条支]", "规格"),
        (r"保质期|过期", "保质期"),
        (r"防水|下雨|淋雨", "防水"),
    )
)


def content(text: str) -> set[str]:
    """What a text is about, as comparable marks: word stems, and Chinese characters and their pairs."""
    marks: set[str] = set()
    for word in re.findall(r"[a-z0-9]+", text.lower()):
        if word not in _STOP and len(word) > 1:
            marks.add(word[:4])
    for run in re.findall(r"[一-鿿]+", _HAN_FILLERS.sub(" ", text)):
        marks |= set(run) | {run[i : i + 2] for i in range(len(run) - 1)}
    return marks


def fits(question: str, text: str, *, apart_from: str = "", least: float = 0.3) -> bool:
    """Whether ``text`` is about what is asked, beyond the item's own name.

    Args:
        apart_from: the item's name and words for it, which prove nothing.
        least: share of the question's marks that must be met.
    """
    asked, said = content(question) - content(apart_from), content(text)
    words = {m for m in asked if not HAN.match(m)}
    chars = {m for m in asked if len(m) == 1 and HAN.match(m)}
    if words and len(words & said) >= max(1, least * len(words)):
        return True
    # One character in common is chance, unless it is all that is asked.
    paired = any(len(m) == 2 and HAN.match(m) for m in asked & said)
    return bool(chars) and (chars <= said or (paired and len(chars & said) >= least * len(chars)))


def same(question: str, text: str) -> bool:
    """Whether both ask the same in other words only where words do not count."""
    return bool(content(question)) and content(question) == content(text)


def detail(question: str, result: Result) -> tuple[str, str]:
    """The (field, value) of a product's facts that answers best; ("", "") where none does."""
    meant = " ".join(words for pattern, words in _MEANT if pattern.search(question))
    known = content(result.name)
    asked = (content(question) - known) | content(meant)
    counted = re.search(r"几([包个片双件盒瓶条支])", question)
    best, most = ("", ""), 0.0
    for key, value in result.pairs:
        field = leaf(key)
        if any(p.search(field) for p in (NAME, LINK, PRICE, TOTAL)) or field in ("list_price", "with"):
            continue
        score = 1.0 * len(asked & content(field)) + 1.0 * len(asked & content(value))
        if counted and re.search(rf"\d+{counted[1]}", value):
            score += 2
        if any(word in value or word in field for word in meant.split() if HAN.search(word)):
            score += 1
        if score > most:
            best, most = (field, value), score
    return best


def distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(v for v in values if v))
