from livery.agent.formatting import format_error, format_result, key_value_lines, surface
from livery.agent.prompt import ENVIRONMENT
from livery.harness.model import ResultFormat
from livery.types import ErrorKind, ToolError

QUOTE = {
    "link_id": "3",
    "name": "Pan",
    "total": {"amount": 5998, "currency": "USD", "text": "$59.98"},
    "lines": [{"reason": "2nd 50% off", "off": {"amount": 1500, "currency": "USD", "text": "$15"}}],
    "ends_at": {"at": "2026-06-18T20:00:00+00:00", "text": "18 Jun 20:00"},
    "member": False,
    "note": "",
    "tags": [],
}
LIST = {"items": [{"link_id": str(i)} for i in range(1, 6)]}


def test_money_and_times_are_shown_by_their_text_and_empty_fields_not_at_all():
    assert surface(QUOTE) == {
        "link_id": "3",
        "name": "Pan",
        "total": "$59.98",
        "lines": [{"reason": "2nd 50% off", "off": "$15"}],
        "ends_at": "18 Jun 20:00",
        "member": False,
    }


def test_a_faq_answer_with_a_text_field_of_its_own_is_not_collapsed():
    assert surface({"topic": "returns", "text": "7 days"}) == {"topic": "returns", "text": "7 days"}
    assert surface({"text": "7 days"}) == {"text": "7 days"}


def test_json_renames_and_relabels_at_any_depth():
    how = ResultFormat(style="json", rename={"total": "to_pay", "off": "less"}, labels={"member": {"no": "guest"}})
    assert format_result(QUOTE, how) == (
        '{"link_id": "3", "name": "Pan", "to_pay": "$59.98", "lines": [{"reason": "2nd 50% off", "less": "$15"}], '
        '"ends_at": "18 Jun 20:00", "member": "guest"}'
    )


def test_key_value_lines_are_dotted_and_numbered():
    assert format_result(QUOTE, ResultFormat(style="key_value")).splitlines() == [
        "link_id: 3",
        "name: Pan",
        "total: $59.98",
        "lines[1].reason: 2nd 50% off",
        "lines[1].off: $15",
        "ends_at: 18 Jun 20:00",
        "member: no",
    ]
    assert key_value_lines({"colours": ["red", "blue"]}) == ["colours: red, blue"]


def test_xml_keeps_names_that_are_no_tags():
    value = {"specs": {"Battery life": "7 hours", 'a "b"': [1]}, "aspects": {"Weight": {"10": "2 kg"}}}
    assert format_result(value, ResultFormat(style="xml")) == (
        '<result><specs><item name="Battery life">7 hours</item><item name=\'a "b"\'>1</item></specs>'
        '<aspects><Weight><item name="10">2 kg</item></Weight></aspects></result>'
    )


def test_xml_escapes():
    assert format_result({"name": "A<b> & c", "n": [1, 2]}, ResultFormat(style="xml")) == (
        "<result><name>A&lt;b&gt; &amp; c</name><n>1</n><n>2</n></result>"
    )


def test_prose_uses_the_template_or_sentences():
    template = ENVIRONMENT.from_string("{{ name }} costs {{ total }}.")
    assert format_result(QUOTE, ResultFormat(style="prose", template="x"), template) == "Pan costs $59.98."
    assert format_result({"name": "Pan", "stock": 3}, ResultFormat(style="prose")) == "name: Pan. stock: 3."


def test_pages_split_the_first_list():
    how = ResultFormat(style="json", page_size=2)
    assert format_result(LIST, how, page=1) == '{"items": [{"link_id": "1"}, {"link_id": "2"}], "page": 1, "pages": 3}'
    assert format_result(LIST, how, page=3) == '{"items": [{"link_id": "5"}], "page": 3, "pages": 3}'
    assert format_result({"items": [1]}, how) == '{"items": [1]}'


def test_errors_keep_the_style_of_the_tool():
    error = ToolError(kind=ErrorKind.NOT_FOUND, message="no link <9>")
    assert format_error(error, ResultFormat(style="json")) == '{"error": "not_found", "message": "no link <9>"}'
    assert format_error(error, ResultFormat(style="xml")) == '<error kind="not_found">no link &lt;9&gt;</error>'
    assert format_error(error, ResultFormat(style="prose")) == "error (not_found): no link <9>"
