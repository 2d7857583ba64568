from __future__ import annotations

import pytest
from builtin_hook_cases import context, make, request

from livery.harness.hooks.builtin import BUILTINS, harm
from livery.harness.hooks.builtin.wordlists import LISTS, beyond_ascii, categories, plain_list, straight
from livery.types import Checkpoint, ToolCall

CALL = ToolCall(id="c", name="t", arguments={})

PLAIN_LISTS = ("injection", "injection_raw", "abuse", "advertising", "handoff", "leak")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("最好", True),
        (r"最(?:好|a)", True),
        (r"\d+人付款", True),
        (r"(?:快|超过?)\d", True),
        ("[一-鿿]{1,3}x", True),
        ("(?:天花板|吊打)+", True),
        ("最?", False),
        ("最*a", False),
        ("最{0,2}b", False),
        ("no1|天花板", False),
        ("(?:no1|天花板)", False),
        ("(?=最)?x", False),
        ("(?<!最)x", False),
        ("(?!最)", False),
        ("[最a]", False),
        ("[^最]", False),
        ("[最a-z]", False),
        (r"\|最", True),
        (r"\(最?", False),
        ("(?:最(?:大)?)?小?", False),
        ("", False),
    ],
)
def test_whether_a_pattern_needs_more_than_ascii(pattern: str, expected: bool) -> None:
    assert beyond_ascii(pattern) is expected


def test_an_ascii_text_is_searched_for_everything_that_could_be_in_it() -> None:
    # The lists' own lines, stripped to ASCII, hold every Latin wording that stands in them.
    lines = [
        straight("".join(c for c in line if c.isascii()))
        for name in ("en", "zh")
        for line in (LISTS / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    ]
    texts = [*lines, *(part for line in lines for part in line.split("|")), "nmsl", "top.1", "vx: abc12345"]
    lists = [plain_list(name) for name in PLAIN_LISTS]
    lists += [c.pattern for group in ("banned", "promises") for c in categories(group)]  # pyright: ignore
    found = 0
    for phrases in lists:
        for text in texts:
            spans = [m.span() for m in phrases.finditer(text)]
            assert spans == [m.span() for m in phrases.everywhere.finditer(text)]
            found += len(spans)
    assert found > 100
    tried = sum(len(p.in_ascii.pattern) for p in lists if p.in_ascii is not None)
    assert tried < 0.8 * sum(len(p.everywhere.pattern) for p in lists)
    assert plain_list("abuse").search("nmsl") is not None
    assert plain_list("advertising").search("vx: abc12345") is not None
    assert plain_list("abuse").search("你是傻逼") is not None


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_no_list_is_left_to_be_made_in_the_time_of_the_first_request(name: str) -> None:
    cached = (categories, plain_list, harm._reports)  # pyright: ignore[reportPrivateUsage]
    for one in cached:
        one.cache_clear()
    check = make(name)
    before = [one.cache_info().misses for one in cached]
    asked = {Checkpoint.REQUEST: request("how much is it?"), Checkpoint.TOOL_CALL: CALL}
    check(asked.get(BUILTINS[name].checkpoint, "It's the best."), context())
    assert [one.cache_info().misses for one in cached] == before
