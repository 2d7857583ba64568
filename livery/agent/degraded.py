"""The degraded route: an answer from catalogue and FAQ alone, when the policy gave none.

No model: link references and product names are matched by rapidfuzz, the FAQ by BM25, and every figure comes
from an operation. It answers only what it is sure of, and otherwise nothing: the room then stays silent. Its
replies pass the same reply hooks as a policy's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

import yaml

from livery.agent.formatting import key_value_lines, surface
from livery.agent.lookup import look_up
from livery.agent.prompt import ENVIRONMENT
from livery.harness.model import Harness
from livery.harness.quantities import read_quantities
from livery.shop.catalogue import Catalogue, Product, Status
from livery.shop.matching import STOP_WORDS, mentioned_products, tokens
from livery.shop.operations import OperationContext, Operations
from livery.shop.wording import status_text
from livery.types import JSON, Effect, Request, ToolCall, ToolResult

_PRICE: Final = re.compile(
    r"\b(?:price[ds]?|pricing|costs?|how much (?:is|are|for|would|will|to pay)|how much\s*\?*$"
    r"|discount|coupons?|promo(?:tion)?s?|deals?|cheaper)\b|多少钱|价格|价钱|怎么卖|怎么算|什么价|咋卖|几块|几元|优惠|[领有]券|到手|打折|折扣|满减|便宜",
    re.IGNORECASE,
)
_STOCK: Final = re.compile(
    r"\b(?:in stock|stock|sold out|available|any left|still have)\b|有货|现货|库存|还有吗|卖完|售罄|断货",
    re.IGNORECASE,
)
_SHIPPING: Final = re.compile(
    r"\b(?:ship(?:s|ping)?|deliver(?:y|s)?|postage|arrive)\b|发货|运费|包邮|快递|物流|几天到|多久到|配送|寄到|发到",
    re.IGNORECASE,
)
_POLICY: Final = re.compile(
    r"\b(?:returns?|refunds?|exchange|warranty|guarantee|invoice|receipt)\b|退货|退款|换货|退换|保修|质保|发票|运费险",
    re.IGNORECASE,
)
_DEICTIC: Final = re.compile(
    r"\b(?:this|that|one|ones|these|those|item|now|today|right|final|total|please|pls|plz|hi|hey|hello|host"
    r"|there|still|after|before|with|deal|save|off|much|cheap|hw|wt|whats|u|ur)\b"
    r"|这个|这款|这件|这双|现在|今天|一共|总共|主播|你好|请问|优惠后|券后|怎么|什么",
    re.IGNORECASE,
)
"""Words that name no item."""
_MEMBER: Final = re.compile(r"\b(?:members?|vip|club)\b|会员|vip", re.IGNORECASE)
_ABOUT: Final = re.compile(
    r"\b(?:what(?:'s| is)|tell me about|introduce|details?)\b|是什么|介绍|讲讲|讲一下|说说", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class DegradedAnswer:
    text: str
    reason: str
    """What it was answered from."""
    results: tuple[ToolResult, ...] = ()
    """The look-ups behind it: what the grounding hook holds it against."""
    effects: tuple[Effect, ...] = ()


@lru_cache(maxsize=8)
def default_phrases(language: str) -> Mapping[str, str]:
    """The package's own sentences: Chinese for ``zh*``, else English."""
    name = "zh.yaml" if language.lower().startswith("zh") else "en.yaml"
    return yaml.safe_load((files("livery.agent") / "phrases" / name).read_text("utf-8"))


class Degraded:
    """Answers one request without a policy."""

    def __init__(self, harness: Harness, operations: Operations, context: OperationContext) -> None:
        self._harness = harness
        self._operations = operations
        self._context = context
        self._results: list[ToolResult] = []

    async def answer(self, request: Request, *, hand_off: bool = False) -> DegradedAnswer | None:
        """The first of the request's messages that can be answered, or None.

        Args:
            hand_off: call a person instead, and say so.
        """
        if hand_off:
            await self._look_up("room.hand_off", {"reason": "asked for by the harness"})
            effects = tuple(e for r in self._results for e in r.effects)
            return DegradedAnswer(self._say("handoff", {}), "handed over", tuple(self._results), effects)
        for message in request.messages:
            text = message.text.strip()
            if text and (found := await self._from_catalogue(text)):
                source, reply = found
                return DegradedAnswer(reply, f"answered from {source}", tuple(self._results))
        return None

    async def _from_catalogue(self, text: str) -> tuple[str, str] | None:
        catalogue = self._context.catalogue
        mentioned = self._mentioned(catalogue, text)
        if len(mentioned) > 1 or None in mentioned:
            return None  # Several, or one that is not there: never a guess, nor the item on screen instead.
        named = mentioned[0] if mentioned else None
        shown = catalogue.by_link.get(self._context.state.on_screen)
        product = named or (shown if self._about_what_is_shown(text) else None)
        shipping = _SHIPPING.search(text)
        if product is not None and not shipping and _PRICE.search(text):
            return await self._price(product, text)
        if named is not None and _STOCK.search(text):
            return await self._stock(named, text)
        if (faq := await self._faq(text, named or shown)) is not None:
            return "the FAQ", faq
        if shipping and (reply := await self._shipping(text, product)):
            return "shipping", reply
        for topic in dict.fromkeys(m.group().lower() for m in _POLICY.finditer(text)):
            if value := await self._look_up("policy.lookup", {"topic": topic}):
                return "a policy", self._say("policy", value)
        if product is None:
            return None
        if _STOCK.search(text):
            return await self._stock(product, text)
        if named is not None and _ABOUT.search(text):
            return await self._about(named)
        return None

    def _mentioned(self, catalogue: Catalogue, text: str) -> list[Product | None]:
        """Products that link numbers or names in the text mean; None for a link that is not there."""
        links = [str(q.value) for q in read_quantities(text, self._harness.language) if q.kind == "link"]
        if links:
            return [catalogue.by_link.get(link) for link in dict.fromkeys(links)]
        scored = mentioned_products(catalogue, text)
        best = max((score for score, _ in scored), default=0.0)
        if best < self._harness.degraded.product_score:
            return []
        return [product for score, product in scored if score == best]

    def _about_what_is_shown(self, text: str) -> bool:
        """Whether nothing in the text can mean another item: beside question words and quantities it is empty.

        "How much for 2" is about the item on screen; "how much for 2 tees", with tees unknown here, is not.
        """
        rest = text
        for quantity in reversed(read_quantities(text, self._harness.language)):
            rest = rest[: quantity.start] + " " + rest[quantity.end :]
        for cue in (_PRICE, _STOCK, _SHIPPING, _POLICY, _ABOUT, _DEICTIC):
            rest = cue.sub(" ", rest)
        return not [word for word in tokens(rest) if word not in STOP_WORDS]

    async def _faq(self, text: str, product: Product | None) -> str | None:
        arguments: dict[str, JSON] = {"query": text, "limit": 1}
        if product is not None:
            arguments["link_id"] = product.link_id
        value = await self._look_up("faq.search", arguments, keep=False)
        entries: Any = value.get("results", []) if value else []
        if not entries or entries[0]["score"] < self._harness.degraded.faq_score:
            return None
        # Only the answer that is given is evidence, not what else the search found.
        best = {"question": entries[0]["question"], "answer": entries[0]["answer"]}
        text = "\n".join(key_value_lines(best))
        call = ToolCall(id=f"degraded-{len(self._results) + 1}", name="faq.search", arguments=arguments)
        self._results.append(
            ToolResult(call=call, key="degraded", operation=call.name, arguments=arguments, value=best, text=text)
        )
        return self._say("faq", entries[0])

    async def _shipping(self, text: str, product: Product | None) -> str | None:
        arguments: dict[str, JSON] = {"region": text}
        if product is not None:
            arguments["link_id"] = product.link_id
        value = await self._look_up("shipping.quote", arguments)
        return self._say("shipping", value) if value else None

    async def _stock(self, product: Product, text: str) -> tuple[str, str] | None:
        arguments: dict[str, JSON] = {"link_id": product.link_id}
        sizes = [str(q.value) for q in read_quantities(text, self._harness.language) if q.kind == "size"]
        if sizes:
            arguments["variant"] = " ".join(sizes)
        value = await self._look_up("stock.check", arguments)
        if not value:
            return None
        if product.availability not in (Status.ON_SALE, Status.SOLD_OUT):
            return "stock", self._unavailable(product)
        variant = value.get("variant", arguments.get("variant", ""))
        return "stock", self._say("stock_yes" if value.get("stock") else "stock_no", {**value, "variant": variant})

    async def _price(self, product: Product, text: str) -> tuple[str, str] | None:
        if product.availability in (Status.DISCONTINUED, Status.UPCOMING):
            return "the catalogue", self._unavailable(product)
        arguments: dict[str, JSON] = {"link_id": product.link_id, "quantity": self._how_many(text)}
        if _MEMBER.search(text):
            arguments["member"] = True
        value = await self._look_up("pricing.quote", arguments)
        return ("pricing", self._say("price", value)) if value else None

    def _how_many(self, text: str) -> int:
        """Units asked for; 1 where none or several numbers are said. "How much for 2" is two of them, not $2."""
        counts: list[int] = []
        for q in read_quantities(text, self._harness.language):
            if q.kind in ("count", "number") and isinstance(q.value, int):
                counts.append(q.value)
            elif q.kind == "money" and not q.unit and q.text.isdigit():
                counts.append(int(q.text))
        return counts[0] if len(counts) == 1 and 0 < counts[0] < 100 else 1

    async def _about(self, product: Product) -> tuple[str, str] | None:
        value = await self._look_up("catalog.get_product", {"link_id": product.link_id})
        point = product.selling_points[0] if product.selling_points else ""
        return ("the catalogue", self._say("product", {**value, "point": point})) if value else None

    def _unavailable(self, product: Product) -> str:
        status = status_text(self._context.catalogue, product.availability)
        return self._say("unavailable", {"link_id": product.link_id, "name": product.name, "status": status})

    async def _look_up(
        self, operation: str, arguments: Mapping[str, JSON], *, keep: bool = True
    ) -> dict[str, JSON] | None:
        """The operation's result as a policy would read it; None when it cannot answer."""
        result = await look_up(
            self._operations,
            self._context,
            operation,
            arguments,
            key="degraded",
            call_id=f"degraded-{len(self._results) + 1}",
        )
        if not result.ok:
            return None
        if keep:
            self._results.append(result)
        shown = surface(result.value)
        return shown if isinstance(shown, dict) else None

    def _say(self, intent: str, values: Mapping[str, Any]) -> str:
        phrase = self._harness.degraded.phrases.get(intent) or default_phrases(self._harness.language)[intent]
        return " ".join(ENVIRONMENT.from_string(phrase).render({**_EMPTY, **values}).split())


_EMPTY: Final[Mapping[str, Any]] = {
    "lines": [],
    "saved": "",
    "quantity": 1,
    "point": "",
    "note": "",
    "reason": "",
    "place": "",
    "region": "",
    "free_shipping": False,
    "variant": "",
}
"""Fields that a result leaves out when there is nothing to say."""
