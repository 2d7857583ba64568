"""What each of the shop's operations takes: one frozen model an operation, and its JSON Schema.

Names and parameters are a contract: tools bind to them, tasks and verifiers compare them. `schema_of` writes
the JSON Schema 2020-12; `read` checks arguments against the same model, so that both always agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from livery.shop.operations import OperationError
from livery.types import ErrorKind

MAX_QUANTITY = 999


class Arguments(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        str_strip_whitespace=True,
        coerce_numbers_to_str=True,
        allow_inf_nan=False,
    )


LinkId = Annotated[str, Field(min_length=1, description="Exact link id of a product, such as 3.")]
Quantity = Annotated[int, Field(ge=1, le=MAX_QUANTITY, description="How many units.")]
VariantText = Annotated[str, Field(description="Options or SKU of a variant, such as 'blue L'.")]


class GetProduct(Arguments):
    link_id: Annotated[str, Field(description="Exact link id. Give this or name.")] = ""
    name: Annotated[str, Field(description="Product name as the viewer said it. Give this or link_id.")] = ""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if bool(self.link_id) == bool(self.name):
            raise ValueError("give exactly one of link_id and name")
        return self


class Search(Arguments):
    query: Annotated[str, Field(min_length=1, description="What is looked for, in a few words.")]
    limit: Annotated[int, Field(ge=1, le=20, description="Most products to return.")] = 5
    category: Annotated[str, Field(description="Only this category.")] = ""
    max_price: Annotated[
        float | None, Field(ge=0, description="Only products up to this price, in major units (49.9).")
    ] = None


class Compare(Arguments):
    link_ids: Annotated[list[str], Field(min_length=2, max_length=4, description="Two to four link ids.")]
    aspects: Annotated[
        list[str], Field(description="Specification names to compare; empty: all that they share or have.")
    ] = []


class Quote(Arguments):
    link_id: LinkId
    variant: VariantText = ""
    quantity: Quantity = 1
    coupons: Annotated[
        list[str] | None,
        Field(description="Coupon codes the viewer wants to use. Left out: the best public ones."),
    ] = None
    member: Annotated[bool, Field(description="Whether the viewer is a member.")] = False


class ListPromotions(Arguments):
    link_id: Annotated[str, Field(description="Only promotions and coupons of this link id.")] = ""


class CheckStock(Arguments):
    link_id: LinkId
    variant: VariantText = ""


class AdviseSize(Arguments):
    link_id: LinkId
    height_cm: Annotated[float | None, Field(gt=30, lt=260, description="Body height in cm.")] = None
    weight_kg: Annotated[float | None, Field(gt=1, lt=400, description="Body weight in kg.")] = None
    chest_cm: Annotated[float | None, Field(gt=20, lt=250, description="Chest girth in cm.")] = None
    waist_cm: Annotated[float | None, Field(gt=20, lt=250, description="Waist girth in cm.")] = None
    foot_cm: Annotated[float | None, Field(gt=5, lt=40, description="Foot length in cm.")] = None
    usual_size: Annotated[str, Field(description="Size the viewer usually wears.")] = ""


class QuoteShipping(Arguments):
    region: Annotated[str, Field(min_length=1, description="State, province, city or country.")]
    link_id: Annotated[str, Field(description="Exact link id of what is ordered.")] = ""
    quantity: Quantity = 1


class LookUpPolicy(Arguments):
    topic: Annotated[str, Field(min_length=1, description="What about: returns, warranty, invoice, ...")]


class SearchFaq(Arguments):
    query: Annotated[str, Field(min_length=1, description="The question.")]
    link_id: Annotated[str, Field(description="Product it is about; the store's FAQ is searched too.")] = ""
    limit: Annotated[int, Field(ge=1, le=10, description="Most answers to return.")] = 3


class NoArguments(Arguments):
    pass


class ShowItem(Arguments):
    link_id: LinkId


class HandOff(Arguments):
    reason: Annotated[str, Field(min_length=1, description="Why a person is needed, in a few words.")]


A = TypeVar("A", bound=Arguments)


def read(model: type[A], arguments: Mapping[str, Any]) -> A:
    """Typed arguments. A ``null`` counts as left out.

    Raises:
        OperationError: invalid arguments, with every fault named.
    """
    try:
        return model.model_validate({k: v for k, v in arguments.items() if v is not None})
    except ValidationError as error:
        found = "; ".join(_fault(e["loc"], e["msg"], e["input"]) for e in error.errors(include_url=False))
        raise OperationError(ErrorKind.INVALID_ARGUMENTS, found) from None


def schema_of(model: type[Arguments]) -> dict[str, Any]:
    """JSON Schema 2020-12 of the arguments object: described, closed, without titles or null alternatives."""
    schema = cast(dict[str, Any], _plain(model.model_json_schema()))
    schema.pop("description", None)
    return {
        "type": "object",
        "properties": schema.get("properties", {}),
        "required": schema.get("required", []),
        "additionalProperties": False,
    }


def _plain(node: Any) -> Any:
    """Drops what a policy need not read: titles, empty defaults, and ``null`` (the same as left out)."""
    if isinstance(node, list):
        return [_plain(n) for n in cast(list[Any], node)]
    if not isinstance(node, dict):
        return node
    found = cast(dict[str, Any], node)
    kept = {k: _plain(v) for k, v in found.items() if not (k == "title" and isinstance(v, str))}
    if kept.get("default", 0) in ("", None, []):
        del kept["default"]
    if "anyOf" in kept:
        (only,) = [n for n in kept.pop("anyOf") if n != {"type": "null"}]
        kept = {**only, **kept}
    return kept


def _fault(location: tuple[int | str, ...], message: str, found: object) -> str:
    where = ".".join(str(part) for part in location)
    text = message.removeprefix("Value error, ")
    return f"{where}: {text[0].lower()}{text[1:]} (found {found!r})" if where else text
