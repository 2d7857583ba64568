"""A binding read the other way."""

from __future__ import annotations

from typing import Any

import pytest

from livery.agent.binding import bind
from livery.augment.inverse import NotTranslatable, surface_arguments
from livery.harness.model import ArgumentMap, Binding, Tool

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "link_id": {"type": "string"},
        "quantity": {"type": "integer"},
        "member": {"type": "boolean"},
        "limit": {"type": "integer"},
        "links": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["link_id"],
}


def tool(properties: dict[str, Any], *arguments: ArgumentMap) -> Tool:
    return Tool(
        key="t",
        name="t",
        description="d",
        input_schema={"type": "object", "properties": properties, "additionalProperties": False},
        binding=Binding(operation="pricing.quote", arguments=arguments),
    )


@pytest.mark.parametrize(
    ("schema", "entry", "said"),
    [
        ({"type": "integer"}, {}, 3),
        ({"type": "string"}, {"convert": "digits"}, "3"),
        ({"type": "string", "pattern": r"^No\.\d+$"}, {"convert": "digits"}, "No.3"),
        ({"type": "string", "pattern": r"^\d+\.$"}, {"convert": "digits"}, "3."),
        ({"type": "string", "enum": ["left", "right"]}, {"labels": {"left": "3", "right": "4"}}, "left"),
    ],
)
def test_a_link_is_said_as_its_schema_has_it(schema: dict[str, Any], entry: dict[str, Any], said: Any):
    made = tool({"n": schema}, ArgumentMap(to="link_id", source="n", **entry))
    assert surface_arguments(made, {"link_id": "3"}, PARAMETERS) == {"n": said}
    assert bind(made.binding, {"n": said}, PARAMETERS) == {"link_id": "3"}


def test_nested_arguments_lists_and_truth_values():
    made = tool(
        {
            "item": {"type": "object", "properties": {"no": {"type": "integer"}, "vip": {"type": "string"}}},
            "all": {"type": "array", "items": {"type": "string", "pattern": r"^\#\d+$"}},
            "quantity": {"type": "string", "pattern": r"^[1-9]\d*$"},
        },
        ArgumentMap(to="link_id", source="item.no"),
        ArgumentMap(to="member", source="item.vip", labels={"yes": True, "no": False}),
        ArgumentMap(to="links", source="all", convert="digits"),
        ArgumentMap(to="quantity", source="quantity", convert="integer"),
    )
    asked = {"link_id": "7", "member": False, "links": ["1", "2"], "quantity": 12}
    assert surface_arguments(made, asked, PARAMETERS) == {
        "item": {"no": 7, "vip": "no"},
        "all": ["#1", "#2"],
        "quantity": "12",
    }


def test_constants_and_defaults_are_not_said():
    made = tool(
        {"link_id": {"type": "string"}, "top": {"type": "integer"}},
        ArgumentMap(to="quantity", constant=1),
        ArgumentMap(to="limit", source="top", default=3),
    )
    said = surface_arguments(made, {"link_id": "1", "quantity": 1, "limit": 3}, PARAMETERS)
    assert said == {"link_id": "1"}
    assert surface_arguments(made, {"link_id": "1", "quantity": 1, "limit": 5}, PARAMETERS)["top"] == 5


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"link_id": "1", "quantity": 2}, "always gives quantity = 1"),
        ({"link_id": "1", "member": True, "quantity": 1}, "no argument for member"),
        ({"link_id": "A1", "quantity": 1}, "link_id"),
        ({"link_id": "1"}, "would get"),
    ],
)
def test_what_cannot_be_said_is_told(asked: dict[str, Any], why: str):
    made = tool(
        {"n": {"type": "string"}},
        ArgumentMap(to="link_id", source="n", convert="digits"),
        ArgumentMap(to="quantity", constant=1),
    )
    with pytest.raises(NotTranslatable, match=why):
        surface_arguments(made, asked, PARAMETERS)
