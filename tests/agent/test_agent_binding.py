import pytest

from livery.agent.binding import BindingError, bind
from livery.harness.model import ArgumentMap, Binding

QUOTE = {
    "type": "object",
    "properties": {
        "link_id": {"type": "string"},
        "quantity": {"type": "integer"},
        "coupons": {"type": "array", "items": {"type": "string"}},
        "member": {"type": "boolean"},
        "max_price": {"type": "number"},
    },
    "required": ["link_id"],
}


def binding(*entries: ArgumentMap) -> Binding:
    return Binding(operation="pricing.quote", arguments=entries)


@pytest.mark.parametrize(
    ("entries", "arguments", "expected"),
    [
        ((), {"link_id": "3", "quantity": 2}, {"link_id": "3", "quantity": 2}),
        ((), {"link_id": 3}, {"link_id": "3"}),
        ((), {"link_id": 3.0}, {"link_id": "3"}),
        ((), {"link_id": "3", "quantity": "2"}, {"link_id": "3", "quantity": 2}),
        ((), {"link_id": "3", "quantity": None}, {"link_id": "3"}),
        ((), {"link_id": "3", "max_price": "49.5"}, {"link_id": "3", "max_price": 49.5}),
        ((), {"link_id": "3", "coupons": "SAVE5"}, {"link_id": "3", "coupons": ["SAVE5"]}),
        ((), {"link_id": "3", "noise": "x"}, {"link_id": "3"}),
        (({"to": "link_id", "source": "link", "convert": "digits"},), {"link": "No.3"}, {"link_id": "3"}),
        (({"to": "link_id", "source": "link", "convert": "digits"},), {"link": "3号链接"}, {"link_id": "3"}),
        (({"to": "link_id", "source": "link", "convert": "digits"},), {"link": 3}, {"link_id": "3"}),
        (({"to": "link_id", "source": "item.link"},), {"item": {"link": "7"}}, {"link_id": "7"}),
        (({"to": "link_id", "source": "item.link"},), {"item.link": "7"}, {"link_id": "7"}),
        (
            ({"to": "link_id", "source": "l"}, {"to": "quantity", "source": "n", "default": 1}),
            {"l": "7"},
            {"link_id": "7", "quantity": 1},
        ),
        (
            (
                {"to": "link_id", "source": "l"},
                {"to": "member", "source": "who", "labels": {"vip": True, "guest": False}},
            ),
            {"l": "7", "who": "guest"},
            {"link_id": "7", "member": False},
        ),
        (({"to": "link_id", "constant": "9"},), {"link": "1"}, {"link_id": "9"}),
        (
            ({"to": "link_id", "source": "l"}, {"to": "member", "source": "m", "convert": "boolean"}),
            {"l": "7", "m": "是"},
            {"link_id": "7", "member": True},
        ),
        (
            ({"to": "link_id", "source": "l"}, {"to": "coupons", "source": "c", "convert": "string"}),
            {"l": "7", "c": [1, "B"]},
            {"link_id": "7", "coupons": ["1", "B"]},
        ),
    ],
)
def test_surface_arguments_become_operation_arguments(entries, arguments, expected):
    assert bind(binding(*(ArgumentMap(**e) for e in entries)), arguments, QUOTE) == expected


@pytest.mark.parametrize(
    ("entries", "arguments", "says"),
    [
        ((), {}, "missing argument: link_id"),
        (({"to": "link_id", "source": "link"},), {}, "missing argument: link"),
        ((), {"link_id": True}, "link_id: found True, expected text"),
        ((), {"link_id": "3", "quantity": "two"}, "quantity: found 'two', expected a number"),
        ((), {"link_id": "3", "quantity": 1.5}, None),
        ((), {"link_id": "3", "quantity": "1.5"}, "quantity: found '1.5', expected a whole number"),
        ((), {"link_id": "3", "member": "yes"}, "member: found 'yes', expected true or false"),
        (({"to": "link_id", "source": "link", "convert": "digits"},), {"link": "3 or 4"},
         "link: found '3 or 4', expected one number such as 3"),
        (({"to": "link_id", "source": "l"}, {"to": "member", "source": "who", "labels": {"vip": True}}),
         {"l": "1", "who": "x"},
         "who: found 'x', expected one of vip"),
    ],
)  # fmt: skip
def test_what_cannot_be_mapped_says_which_field_and_what_was_expected(entries, arguments, says):
    with pytest.raises(BindingError) as caught:
        bind(binding(*(ArgumentMap(**e) for e in entries)), arguments, QUOTE)
    if says:
        assert str(caught.value) == says
    else:
        assert "expected a whole number" in str(caught.value)
