"""A host by rules: answers from what a model would see, the prompt and the tools, and from nothing else.

For demonstrations without a model. It recognises what a tool is for by its words and schema, so it keeps
working when tools and skills are renamed within its vocabulary (English and Chinese), and it says only what a
tool's result says. It is no baseline for quality and no oracle: it reads one intent per request and chains at
most two look-ups.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from livery.policies.policy import PolicyRequest, PromptMessage, ToolSurface

Planned = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Intent:
    """One thing that viewers want: how they say it, and the words of a tool or skill that serves it."""

    name: str
    asked: re.Pattern[str]
    tool: re.Pattern[str]
    skill: re.Pattern[str]
    facts: tuple[re.Pattern[str], ...]
    """Result fields worth saying, by their last name, the best first."""


def _intent(name: str, asked: str, tool: str, skill: str, *facts: str) -> Intent:
    says, serves, teaches, *fields = (re.compile(p, re.IGNORECASE) for p in (asked, tool, skill, *facts))
    return Intent(name, says, serves, teaches, tuple(fields))


INTENTS = (
    _intent(
        "handoff",
        r"\bbroken|complain|scam|damaged|wrong item|real person|human\b|投诉|人工|坏了|骗|发错|质量问题",
        r"hand|staff|person\b|human|transfer|escalat|人工|转给|客服",
        r"complain|hand-?off|broken|投诉|人工|客服",
        r"^text$|message",
    ),
    _intent(
        "shipping",
        r"\bship|deliver|postage|arrive|how long|发货|运费|快递|几天|包邮|寄",
        r"shipping|deliver|postage|freight|运费|时效|物流",
        r"shipping|deliver|运费|物流|几天",
        r"^fee$|运费",
        r"^delivery$|days|时效",
        r"reason|^text$",
    ),
    _intent(
        "policy",
        r"return|refund|exchange|warrant|invoice|退|换货|保修|发票",
        r"polic|return|warrant|规则|退换|售后",
        r"return|refund|after-?sales|退换|售后",
        r"^text$|answer",
    ),
    _intent(
        "size",
        r"\bsize|\bfits?\b|\d\s*(?:cm|kg|lbs?)\b|尺码|什么码|多大码|身高|体重|偏[大小]",
        r"\bsize|fit\b|尺码|码数|身高",
        r"\bsize|fit|尺码|身高",
        r"^size$|尺码",
        r"note|reason|^text$",
    ),
    _intent(
        "stock",
        r"\bstock|available|any left|sold out|有货|库存|还有吗|还有没有|断货",
        r"\bstock|availab|inventory|库存",
        r"\bstock|有没有?货|还有没有货|商品本身",
        r"^stock$|available|库存",
        r"^status$|状态",
    ),
    _intent(
        "price",
        r"how much|price|\bcosts?\b|cheap|discount|coupon|deals?\b|\boff\b"
        r"|多少钱|价格|几块|优惠|[领用]券|便宜|到手|打折",
        r"price|cost\b|quote|到手价|价格|算.*价",
        r"price|discount|多少钱|券后价|价格",
        r"^total$|到手|合计",
        r"^unit_price$|^price$|价$",
        r"price",
    ),
    _intent(
        "compare",
        r"compar|differen|better|\bvs\b|recommend|which one|对比|区别|哪个好|哪款|推荐",
        r"compar|differen|对比|差别",
        r"compar|recommend|对比|推荐",
        r"^price$|价$",
    ),
    _intent(
        "product",
        r"what is|what's|material|colou?rs?|feature|made of|tell me|这款|材质|颜色|怎么用|是什么|功能",
        r"facts|product detail|one product|资料|详情",
        r"what an item|feature|material|商品本身|材质",
        r"points|selling|卖点",
        r"summary|description|material|材质|参数",
    ),
    _intent("talk", r"", r"$^", r"greet|small.?talk|off-topic|打招呼|闲聊"),
)
_BY_NAME = {intent.name: intent for intent in INTENTS}

_ENOUGH = {"talk"}
_SKILL_TOOL = re.compile(r"skill|技能", re.IGNORECASE)
_FILE = re.compile(r"file|path|文件", re.IGNORECASE)
_SEARCH = re.compile(r"search|find|搜", re.IGNORECASE)
_FAQ = re.compile(r"faq|answers|问答", re.IGNORECASE)
_LINK = re.compile(r"link|item|product.?(?:id|no)|sku|链接|编号", re.IGNORECASE)
_NAME = re.compile(r"name|商品名", re.IGNORECASE)
_CHAT_HEADING = re.compile(r"chat|viewer|comment|question|danmaku|弹幕|观众|评论|提问", re.IGNORECASE)
_HEADING = re.compile(r"^(?:#+ *|<|\d+\. )?([^\n<>:：]{1,60})[>:：]?$")
_SPEAKER = re.compile(r"^[^:：\n]{1,60}[:：]\s*")
_ON_SCREEN = re.compile(r"(?:on screen|showing|屏幕|讲解)\D{0,20}(\d{1,4})", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:link|number|item|no\.?|#)\s*(\d{1,4})\b|(\d{1,4})\s*号", re.IGNORECASE)
_HAN_NUMBERED = re.compile(r"([一二三四五六七八九十])号")
_RESULT_LINK = re.compile(r"(?:link|链接|item|编号)[\w\"'. ]{0,12}[:：= ]\s*\"?(\d{1,4})", re.IGNORECASE)
_SKILL_LINE = re.compile(
    r'^[-*|]\s*([a-z0-9][a-z0-9-]{0,63})\s*[:：|]\s*(.+)$|<skill name="([^"]+)">([^<]+)<', re.MULTILINE
)
_MEASURES = (
    (re.compile(r"height|身高", re.IGNORECASE), re.compile(r"(\d{2,3}(?:\.\d)?)\s*cm|身高\D{0,3}(\d{3})")),
    (re.compile(r"weight|体重", re.IGNORECASE), re.compile(r"(\d{2,3}(?:\.\d)?)\s*(?:kg|公斤)")),
)
_HAN = re.compile(r"[一-鿿]")
_BARE = re.compile(
    r"^(?:text|reason|note|answer|points|message|total|到手价|unit_price|price)$", re.IGNORECASE
)
"""Fields whose value is said without their name."""
_LABELS = {
    "fee": "运费",
    "delivery": "时效",
    "stock": "库存",
    "size": "尺码",
    "status": "状态",
    "price": "价格",
}
"""Chinese for field names that a tool left in English."""
_FILLERS = re.compile(
    r"这[个款件]?|那[个款件]?|它|主播|请问|现在|一下|[吗呢啊呀吧的了和穿\s?？!！,，.。]|\d+号?"
)
_SPOKEN_CHARS = 200


class HostPlay:
    """The rules. Stateless: every decision is read off the request."""

    def __call__(self, request: PolicyRequest) -> tuple[tuple[Planned, ...], str]:
        scene = read_scene(request.messages)
        spoken = [m for m in request.messages if m.role == "assistant"]
        sent_back = any(not m.calls for m in spoken)
        results = [m for m in request.messages if m.role == "tool"]
        if request.allow_calls and not sent_back:
            calls = self._calls(request.tools, scene, results, rounds=len(spoken))
            if calls:
                return calls, ""
            if not request.allow_reply and len(spoken) < 3:
                skill = _skill_call(request.tools, scene)
                if skill:
                    return (skill,), ""
        return (), self._say(request.tools, scene, results, sent_back)

    def _calls(
        self, tools: Sequence[ToolSurface], scene: Scene, results: Sequence[PromptMessage], *, rounds: int
    ) -> tuple[Planned, ...]:
        if rounds == 0:
            first = self._look_up(tools, scene, scene.link)
            return tuple(filter(None, (_skill_call(tools, scene), first)))
        if rounds == 1 and not scene.link and scene.intent.name not in _ENOUGH:
            found = next((m[1] for r in results if (m := _RESULT_LINK.search(r.content))), "")
            second = self._look_up(tools, scene, found) if found else None
            made = {r.name for r in results}
            return (second,) if second and second[0] not in made else ()
        return ()

    def _look_up(self, tools: Sequence[ToolSurface], scene: Scene, link: str) -> Planned | None:
        """The call that serves the intent; without the link it needs, a search for it."""
        if scene.intent.name in _ENOUGH:
            return None
        wanted = [_best(tools, scene.intent.tool), _best(tools, _SEARCH), _best(tools, _FAQ)]
        for tool in wanted:
            arguments = fill(tool, scene, link) if tool else None
            if tool and arguments is not None:
                return tool.name, arguments
        return None

    def _say(
        self,
        tools: Sequence[ToolSurface],
        scene: Scene,
        results: Sequence[PromptMessage],
        sent_back: bool,
    ) -> str:
        zh = scene.chinese
        if scene.intent.name == "talk":
            return (
                "谢谢大家来直播间,想了解哪款可以直接问我。"
                if zh
                else "Thanks for being here! Ask me about any item."
            )
        skills = {t.name for t in tools if _is_skill_tool(t)}
        if not sent_back:
            for result in reversed([r for r in results if r.name not in skills]):
                said = spoken_facts(result.content, scene.intent, chinese=zh)
                if said:
                    return said
        return (
            "这个我先帮您问一下客服,确认好了再告诉您。"
            if zh
            else "Let me check that with the staff so I tell you the right thing."
        )


class InstantPlay:
    """Three rounds with the first tools that fit; which ones is worked out once per tool set and prompt."""

    def __call__(self, request: PolicyRequest) -> tuple[tuple[Planned, ...], str]:
        rounds = sum(m.role == "assistant" for m in request.messages)
        system = request.messages[0].content if request.messages else ""
        if rounds < 2 and request.allow_calls:
            opening, second = _instant_calls(_Tools(request.tools), system)
            calls = opening if rounds == 0 else second
            if calls:
                return calls, ""
        zh = bool(_HAN.search(system[:400]))
        return (), "谢谢您的提问,有需要随时叫我。" if zh else "Thanks for asking, I am happy to help."


class _Tools:
    """A tool set as a cache key: names, since schemas do not hash."""

    def __init__(self, tools: Sequence[ToolSurface]) -> None:
        self.tools = tools
        self._names = tuple(t.name for t in tools)

    def __hash__(self) -> int:
        return hash(self._names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Tools) and self._names == other._names


@lru_cache(maxsize=64)
def _instant_calls(tools: _Tools, system: str) -> tuple[tuple[Planned, ...], tuple[Planned, ...]]:
    prompt = (
        PromptMessage(role="system", content=system),
        PromptMessage(role="user", content="how much is number 1"),
    )
    scene = read_scene(prompt)
    skill = _skill_call(tools.tools, scene)
    wanted = (_BY_NAME["product"].tool, _BY_NAME["price"].tool, _SEARCH)
    looks: list[Planned] = []
    for pattern in wanted:
        tool = _best(tools.tools, pattern)
        arguments = fill(tool, scene, "1") if tool else None
        if tool and arguments is not None and all(tool.name != name for name, _ in looks):
            looks.append((tool.name, arguments))
    return tuple(filter(None, (skill, *looks[:1]))), tuple(looks[1:2])


# ------------------------------------------------------------------------------- reading the prompt


@dataclass(frozen=True, slots=True)
class Scene:
    question: str
    """What viewers wrote, without their names."""
    intent: Intent
    links: tuple[str, ...]
    """Every link that the question names."""
    link: str
    """The link meant: named in the question, else the one on screen, else empty."""
    skills: tuple[tuple[str, str], ...]
    """(name, description) from the catalogue in the prompt."""
    chinese: bool
    """Whether the prompt is in Chinese: then so is the reply."""


def read_scene(messages: Sequence[PromptMessage]) -> Scene:
    system = next((m.content for m in messages if m.role == "system"), "")
    user = next((m.content for m in messages if m.role == "user"), "")
    question = read_question(user)
    intent = next(i for i in INTENTS if i.asked.search(question))
    named = [next(filter(None, m.groups())) for m in _NUMBERED.finditer(question)]
    named += [str("一二三四五六七八九十".index(m[1]) + 1) for m in _HAN_NUMBERED.finditer(question)]
    if intent.name == "compare" and len(named) < 2:
        named = re.findall(r"\d{1,4}", question)
    link = named[0] if named else ""
    on_screen = _ON_SCREEN.search(user)
    if not link and on_screen and not _names_another(question, intent):
        link = on_screen[1]
    skills = tuple((m[1] or m[3], m[2] or m[4]) for m in _SKILL_LINE.finditer(system))
    return Scene(
        question,
        intent,
        tuple(dict.fromkeys(named)),
        link,
        skills,
        bool(_HAN.search(system[:400] or question)),
    )


def _names_another(question: str, intent: Intent) -> bool:
    """Whether it asks for an item by its name rather than "this one"."""
    if re.search(r"\bthis\b|\bit\b|这[个款件]", question, re.IGNORECASE):
        return False
    if _HAN.search(question):
        rest = _FILLERS.sub("", intent.asked.sub("", question))
        return intent.name in ("price", "stock", "product") and len(_HAN.findall(rest)) > 1
    return bool(re.search(r"\bthe (?!price|cost|size)\w{3,}|\bany (?!left)", question, re.IGNORECASE))


def read_question(user: str) -> str:
    """The viewers' lines of a rendered user message, whatever its headings look like."""
    blocks = [b.strip() for b in re.split(r"\n\s*\n", user) if b.strip()]
    chosen = blocks[-1] if blocks else ""
    for block in blocks:
        head, _, body = block.partition("\n")
        heading = _HEADING.match(head.strip())
        if body and heading and _CHAT_HEADING.search(heading[1]):
            chosen = body
    lines = [
        _SPEAKER.sub("", line) for line in chosen.splitlines() if not _HEADING.match(line) or ":" in line
    ]
    return "\n".join(line for line in lines if not line.startswith("</")) or chosen


# ------------------------------------------------------------------------------------ choosing tools


def _properties(tool: ToolSurface) -> Mapping[str, Mapping[str, Any]]:
    return tool.input_schema.get("properties", {})


def _is_skill_tool(tool: ToolSurface) -> bool:
    return bool(_SKILL_TOOL.search(f"{tool.name} {tool.description}")) and not any(
        _FILE.search(name) for name in _properties(tool)
    )


def _skill_call(tools: Sequence[ToolSurface], scene: Scene) -> Planned | None:
    """Load the skill whose description names the intent."""
    tool = next((t for t in tools if _is_skill_tool(t) and len(_properties(t)) >= 1), None)
    if tool is None or not scene.skills:
        return None
    talk = _BY_NAME["talk"].skill
    pattern = scene.intent.skill
    counts = [len(pattern.findall(f"{name} {about}")) for name, about in scene.skills]
    best = counts.index(max(counts))
    skill = scene.skills[best][0] if counts[best] else None
    skill = skill or next((n for n, about in scene.skills if talk.search(about)), scene.skills[0][0])
    required = tool.input_schema.get("required") or list(_properties(tool))
    return tool.name, {str(required[0]): skill}


def _best(tools: Sequence[ToolSurface], pattern: re.Pattern[str]) -> ToolSurface | None:
    """The tool that says ``pattern`` most often; its name counts double."""
    scored = [
        (2 * len(pattern.findall(t.name.replace("_", " "))) + len(pattern.findall(t.description)), -i, t)
        for i, t in enumerate(tools)
        if not _SKILL_TOOL.search(f"{t.name} {t.description}")
    ]
    best = max(scored, default=None, key=lambda s: s[:2])
    return best[2] if best and best[0] > 0 else None


def fill(tool: ToolSurface, scene: Scene, link: str) -> dict[str, Any] | None:
    """Arguments for ``tool`` from the question and the link; None where a required one is not to be had."""
    required = set(tool.input_schema.get("required", ()))
    out: dict[str, Any] = {}
    for name, schema in _properties(tool).items():
        value = _argument(name, schema, scene, link, needed=name in required)
        if value is not None:
            out[name] = value
        elif name in required:
            return None
    if not out and not required and len(_properties(tool)) > 0:
        return None  # a look-up of nothing in particular
    return out


def _argument(name: str, schema: Mapping[str, Any], scene: Scene, link: str, *, needed: bool) -> Any:
    kind = schema.get("type", "string")
    about = f"{name} {schema.get('description', '')}"
    if "enum" in schema:
        options = cast("list[Any]", schema["enum"])
        said = next((o for o in options if str(o).lower() in scene.question.lower()), None)
        return said if said is not None or not needed else options[0]
    if _LINK.search(name) or (_LINK.search(about) and not _NAME.search(name)):
        if not link:
            return None
        if kind == "array":
            links = list(scene.links or (link,))
            return links if len(links) >= int(schema.get("minItems", 1)) else None
        return int(link) if kind == "integer" else link
    for field, pattern in _MEASURES:
        if field.search(name) and (found := pattern.search(scene.question)):
            return float(next(filter(None, found.groups())))
    if not needed:
        # An optional name stands in for a link that is not known.
        return scene.question[:80] if kind == "string" and _NAME.search(name) and not link else None
    match kind:
        case "string":
            return scene.question[: int(schema.get("maxLength", 120))] or None
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case _:
            return None


# -------------------------------------------------------------------------------------- what to say


def spoken_facts(text: str, intent: Intent, *, chinese: bool) -> str:
    """One or two facts of a tool's result as a sentence; empty where it holds none or tells an error."""
    pairs = list(_pairs(text))
    if not pairs or re.match(r'\s*(?:error\b|<error|\{"error")', text):
        return ""
    name = next((v for k, v in pairs if re.search(r"(?:^|\.)name$|商品名", k)), "")
    leaf = [(re.sub(r"\[\d+\]", "", key).rpartition(".")[2], value) for key, value in pairs]
    found = (next(((k, v) for k, v in leaf if p.search(k) and v != name), None) for p in intent.facts)
    facts = [fact for fact in found if fact]
    if intent.name == "price":
        facts = facts[:1]  # one price is the answer; more of them would be a puzzle
    elif intent.name == "compare":
        facts = []
        names = [v for k, v in leaf if _NAME.fullmatch(k)]
        prices = [v for k, v in leaf if intent.facts[0].search(k)]
        if len(names) > 1:
            name = ""
            facts = [("", f"{n} {p}") for n, p in zip(names, prices, strict=False)]
    if not facts:
        facts = [(k, v) for k, v in leaf if k in ("", "answer", "text", "summary", "status")][:1]
    if not facts:
        return ""
    said = [
        value.rstrip("。.") if not k or _BARE.match(k) else _labelled(k, value, chinese)
        for k, value in facts[:2]
    ]
    head = (f"{name}," if chinese else f"{name}: ") if name else ""
    return _whole_sentences(head + (",".join(said) if chinese else ", ".join(said)), "。" if chinese else ".")


def _labelled(key: str, value: str, chinese: bool) -> str:
    if chinese:
        return f"{_LABELS.get(key, key)}{value}"
    return f"{key.replace('_', ' ')} {value}"


def _whole_sentences(text: str, stop: str) -> str:
    """``text`` up to the last sentence that is not too long to say."""
    if len(text) <= _SPOKEN_CHARS:
        return text.strip() + stop
    short = text[:_SPOKEN_CHARS]
    end = max(short.rfind(mark) for mark in (". ", "。", "! ", "!"))
    return short[: end + 1].strip() if end > 0 else ""


def _pairs(text: str) -> Sequence[tuple[str, str]]:
    """(dotted field, value) of a result in JSON, XML, ``field: value`` lines, or ("", prose)."""
    stripped = text.strip()
    if stripped[:1] in "{[":
        try:
            return _leaves(json.loads(stripped), "")
        except json.JSONDecodeError:
            return ()
    if stripped.startswith("<"):
        return [(m[1], m[2]) for m in re.finditer(r"<([\w.-]+)>([^<]+)</\1>", stripped)]
    lines = [re.match(r"^([\w.\[\] -]{1,40})[:：] (.+)$", line) for line in stripped.splitlines()]
    found = [(m[1], m[2]) for m in lines if m]
    return found if len(found) == len(lines) else [("", stripped)] if stripped else ()


def _leaves(value: Any, prefix: str) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return [leaf for k, v in items for leaf in _leaves(v, f"{prefix}.{k}" if prefix else k)]
    if isinstance(value, list):
        return [leaf for v in cast("list[Any]", value) for leaf in _leaves(v, prefix)]
    return [] if value is None else [(prefix, str(value))]
