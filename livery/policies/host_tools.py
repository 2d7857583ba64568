"""Which of the offered tools serves what, and how a call to it is filled: by words and schemas alone.

A tool's purpose is read off its name and description, an argument's off its own name and description, in
English or Chinese. Names may be anything as long as the descriptions say something.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from livery.policies.policy import ToolSurface

Planned = tuple[str, Mapping[str, Any]]
"""(tool name, arguments)."""


def _words(*weighted: tuple[int, str]) -> tuple[tuple[int, re.Pattern[str]], ...]:
    return tuple((weight, re.compile(pattern, re.IGNORECASE)) for weight, pattern in weighted)


_ROLES = {
    "product": _words(
        (3, r"\bfacts?\b|detail|资料|详情"),
        (1, r"(?:one|a|single) (?:product|item)|by link|商品"),
        (-3, r"search|find\b|compar|differen|answers|faq|搜|对比|问答|库存|价"),
    ),
    "search": _words(
        (3, r"search|\bfind\b|look for|搜"),
        (1, r"words|categor|budget|products|关键词|预算"),
        (-4, r"\bfaq|answers|问答|常见问题"),
    ),
    "compare": _words((3, r"compar|differen|side by side|对比|差别|区别")),
    "price": _words(
        (3, r"final price|to pay|quote|到手价"),
        (2, r"\bprice|\bcost|价格|算.{0,3}价"),
        (-3, r"search|\bfind\b|highest|deliver|shipping|搜|运费|最高价"),
    ),
    "deals": _words(
        (
            3,
            r"(?:deals?|promotions?|coupons?)\b.{0,40}\b(?:run|now|soon|current|offer)|活动.{0,20}券|可领的?券",
        ),
        (2, r"promotion|\bdeals?\b|促销"),
        (-4, r"\bprice|到手价|算"),
    ),
    "stock": _words((3, r"\bstock|inventory|availab|库存|现货")),
    "size": _words((2, r"\bsizes?\b|尺码|码数"), (2, r"measure|body|身高|体重"), (-3, r"variant|stock|库存|price|价")),
    "shipping": _words((3, r"shipping|deliver|postage|freight|运费|时效|物流|快递")),
    "policy": _words((3, r"polic|store rules?|规则|售后政策"), (1, r"return|warrant|invoice|退|保修|发票")),
    "faq": _words((3, r"\bfaq|answers|问答|常见问题"), (1, r"question|written|写好")),
    "handoff": _words((3, r"hand\b.{0,20}\bover|\bstaff|\bperson\b|human|escalat|人工|转给|客服")),
}
"""Purpose -> what tools say that serve it, with weights."""
_LEAST = 2

SKILL = re.compile(r"skill|技能", re.IGNORECASE)
_FILE = re.compile(r"\bfiles?\b|path|文件", re.IGNORECASE)

_SLOTS = {
    slot: re.compile(pattern, re.IGNORECASE)
    for slot, pattern in {
        "foot": r"\bfoot|feet|脚长",
        "height": r"height|\btall|身高",
        "weight": r"weigh|\bkg\b|体重|公斤",
        "usual": r"usual|平时",
        "budget": r"max\w* price|highest price|budget|spend|预算|最高价",
        "limit": r"limit|\btop\b|how many results|最多几|返回",
        "coupons": r"coupon|券",
        "quantity": r"quantit|\bcount\b|how many|pieces|件数|数量",
        "member": r"member|\bvip\b|\bclub\b|会员",
        "variant": r"variant|\bspec|colou?r|规格|颜色|款式",
        "name": r"(?:product|item) name|\bname\b|商品名",
        "link": r"\blinks?\b|(?:item|product) ?(?:id|no\b|number)|\bsku|链接|商品号|编号",
        "region": r"region|countr|\bstate\b|province|\bcity\b|destination|\bwhere\b|地区|省|城市|哪里",
        "topic": r"topic|subject|polic|主题|规则",
        "reason": r"reason|\bwhy\b|原因|事由",
        "query": r"quer|question|keyword|words|search|关键词|问题|搜",
    }.items()
}
"""What an argument is, by its words; the first that fits."""
_PRIMARY = {
    "search": "query", "faq": "query", "policy": "topic", "shipping": "region", "handoff": "reason",
    "product": "link", "price": "link", "stock": "link", "size": "link", "compare": "link", "deals": "link",
}  # fmt: skip
"""What a required argument of such a tool is when it says nothing of itself."""


def properties(tool: ToolSurface) -> Mapping[str, Mapping[str, Any]]:
    return tool.input_schema.get("properties", {})


def _said(tool: ToolSurface) -> str:
    return f"{tool.name.replace('_', ' ').replace('-', ' ')}. {tool.description}"


def tools_by_purpose(tools: Sequence[ToolSurface]) -> dict[str, ToolSurface]:
    """Purpose -> tool. Each tool serves one purpose: the one it speaks of most; each purpose has one tool."""
    scored: list[tuple[int, int, str, ToolSurface]] = []
    for i, tool in enumerate(tools):
        said = _said(tool)
        if SKILL.search(said):
            continue
        for purpose, words in _ROLES.items():
            score = sum(weight for weight, pattern in words if pattern.search(said))
            if score >= _LEAST:
                scored.append((-score, i, purpose, tool))
    chosen: dict[str, ToolSurface] = {}
    taken: set[int] = set()
    for _, i, purpose, tool in sorted(scored, key=lambda s: s[:2]):
        if purpose not in chosen and i not in taken:
            chosen[purpose] = tool
            taken.add(i)
    return chosen


def skill_loader(tools: Sequence[ToolSurface], skills: Sequence[str]) -> tuple[ToolSurface, str] | None:
    """The tool that loads a skill, and its argument: one that offers the skills' names, else by its words."""
    for tool in tools:
        for name, schema in properties(tool).items():
            if set(schema.get("enum", ())) & set(skills):
                return tool, name
    speaking = [t for t in tools if SKILL.search(_said(t)) and properties(t)]
    found = next((t for t in speaking if not _FILE.search(_said(t) + " ".join(properties(t)))), None)
    if found is None:
        return None
    required = found.input_schema.get("required") or list(properties(found))
    return found, str(required[0])


def fill(purpose: str, tool: ToolSurface, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Arguments for ``tool`` from values by slot; None where a required one is not to be had.

    Args:
        values: ``link`` (a list of link numbers as text), ``query``, ``name``, ``variant``, ``quantity``, ...
    """
    required = set(tool.input_schema.get("required", ()))
    out: dict[str, Any] = {}
    used: set[str] = set()
    for name, schema in properties(tool).items():
        slot = _slot(name, schema)
        if not slot and name in required:
            slot = _PRIMARY.get(purpose, "")
        value = None if slot in used else _fitted(values.get(slot), schema)
        if value is None and name in required and slot not in used:
            value = _stand_in(schema, slot)
        if value is not None:
            out[name] = value
            used.add(slot)
        elif name in required:
            return None
    return out


def _slot(name: str, schema: Mapping[str, Any]) -> str:
    for said in (name.replace("_", " ").replace("-", " "), str(schema.get("description", ""))):
        for slot, pattern in _SLOTS.items():
            if pattern.search(said):
                return slot
    return ""


def _fitted(value: Any, schema: Mapping[str, Any]) -> Any:
    """``value`` in the type that the schema asks for, or None where it does not fit."""
    if value is None or value == "" or value == []:
        return None
    kind = schema.get("type", "string")
    several = cast("list[Any]", value) if isinstance(value, list) else [value]
    if kind == "array":
        return several if len(several) >= int(schema.get("minItems", 1)) else None
    one = several[0]
    if "enum" in schema:
        offered = cast("list[Any]", schema["enum"])
        return next((o for o in offered if str(o).casefold() in str(one).casefold()), None)
    match kind:
        case "string":
            return str(one)[: int(schema.get("maxLength", 120))]
        case "integer":
            return int(float(one)) if re.fullmatch(r"\d+(?:\.0)?", str(one)) else None
        case "number":
            return float(one)
        case "boolean":
            return bool(one)
        case _:
            return None


def _stand_in(schema: Mapping[str, Any], slot: str) -> Any:
    """For a required argument that the question says nothing of."""
    if slot in ("link", "name", "region", "topic", "height", "weight", "foot"):
        return None
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type", "string"):
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case _:
            return None
