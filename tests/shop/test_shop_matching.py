from __future__ import annotations

import pytest

from livery.shop.catalogue import Catalogue, Product, Variant
from livery.shop.matching import (
    TextIndex,
    match_variants,
    mentioned_products,
    product_by_link,
    product_by_name,
    tokens,
)
from livery.shop.operations import OperationError
from livery.types import ErrorKind


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Is the RAIN-jacket waterproof?", ("is", "the", "rain", "jacket", "waterproof")),
        ("ＳＰＦ５０+ 2.5L", ("spf50+", "2.5l")),
        ("chef's knife", ("chef", "knife")),
        ("这个防水吗", ("防水",)),
        ("316保温杯", ("316", "保温", "温杯")),
        ("锅", ("锅",)),
        ("的", ("的",)),
        ("", ()),
    ],
)
def test_tokens_are_folded_words_and_chinese_bigrams(text: str, found: tuple[str, ...]) -> None:
    assert tokens(text) == found


def test_search_forgives_long_words_a_letter_and_short_ones_none() -> None:
    index = TextIndex(["waterproof jacket", "with timer", "cotton tee"])
    assert [(h.index, h.score > 0.8) for h in index.search("watreproof jackett")] == [(0, True)]
    assert index.search("time") == []
    assert TextIndex([]).search("anything") == []
    assert TextIndex(["", "a tee"]).search("tee")[0].index == 1


def test_the_share_counts_what_of_the_query_is_answered() -> None:
    index = TextIndex(["red wool hat", "wool scarf", "cotton shirt"])
    hits = {h.index: h.score for h in index.search("wool zeppelin")}
    assert hits[0] == hits[1]
    assert hits[0] < 0.35  # the unknown word weighs most
    small = index.weight("the") / sum(index.weight(w) for w in ("the", "red", "wool", "hat"))
    assert index.search("the red wool hat")[0].score == pytest.approx(1.0 - small)
    assert small < 0.12  # a function word that is missing hardly counts


@pytest.mark.parametrize(
    ("said", "link"),
    [
        ("rain jacket", "5"),
        ("Harbor rain jackets", "5"),
        ("the wireless earbud", "15"),
        ("mineral sunscreen", "1"),
        ("choclate bar", "20"),
        ("trainers", "8"),
        ("chef knife", "12"),
    ],
)
def test_products_are_found_by_name(english: Catalogue, said: str, link: str) -> None:
    assert product_by_name(english, said).link_id == link


@pytest.mark.parametrize(("said", "link"), [("那个防晒", "1"), ("冲锋衣", "5"), ("保温杯", "14"), ("T恤", "6")])
def test_products_are_found_by_chinese_name(chinese: Catalogue, said: str, link: str) -> None:
    assert product_by_name(chinese, said).link_id == link


def test_a_name_that_fits_several_names_the_candidates(english: Catalogue, chinese: Catalogue) -> None:
    with pytest.raises(OperationError) as caught:
        product_by_name(english, "jacket")
    assert caught.value.kind is ErrorKind.AMBIGUOUS
    assert "5 Harbor Rain Jacket; 26 Northgate Down Parka" in caught.value.message
    with pytest.raises(OperationError, match="7 高腰瑜伽裤; 24 加厚瑜伽垫"):
        product_by_name(chinese, "瑜伽")


def test_two_products_of_one_name_are_ambiguous(english: Catalogue) -> None:
    twins = english.replace(
        products=tuple(p.model_copy(update={"name": "Twin", "aliases": ()}) for p in english.products[:2])
    ).replace(promotions=(), coupons=())
    with pytest.raises(OperationError, match="1 Twin; 2 Twin"):
        product_by_name(twins, "twin")


def test_nothing_alike_is_not_found(english: Catalogue) -> None:
    with pytest.raises(OperationError) as caught:
        product_by_name(english, "helicopter")
    assert caught.value.kind is ErrorKind.NOT_FOUND


def test_link_ids_are_exact_after_trimming(english: Catalogue) -> None:
    assert product_by_link(english, " 3 ").name == "Soft Oat Cleansing Balm"
    for said, near in (
        ("No.3", "3 Soft Oat"),
        ("3号链接", "3 Soft Oat"),
        ("03", "3 Soft"),
        ("999", "1, 2, 3"),
    ):
        with pytest.raises(OperationError) as caught:
            product_by_link(english, said)
        assert caught.value.kind is ErrorKind.NOT_FOUND
        assert near in caught.value.message


def test_products_are_found_inside_a_sentence(english: Catalogue, chinese: Catalogue) -> None:
    found = mentioned_products(english, "how much is the rain jacket in navy?")
    assert [(s, p.link_id) for s, p in found[:1]] == [(1.0, "5")]
    assert found[1][0] < 0.5
    both = mentioned_products(chinese, "1号的防晒和面膜哪个好")
    assert {p.link_id for s, p in both if s == 1.0} == {"1", "3"}
    assert mentioned_products(english, "hello there") == []


JACKET = Product(
    link_id="9",
    key="j",
    name="Jacket",
    category="Apparel",
    price=100,
    variants=tuple(
        Variant(sku=f"J-{c}-{s}".replace(" ", ""), options={"colour": c, "size": s}, stock=1)
        for c in ("blue", "forest green")
        for s in ("S", "L", "XL")
    ),
)
CUP = Product(
    link_id="8",
    key="c",
    name="杯",
    category="家居",
    price=100,
    variants=tuple(
        Variant(sku=f"C-{i}", options={"颜色": c, "容量": v}, stock=1)
        for i, (c, v) in enumerate([("藏青色", "350毫升"), ("藏青色", "500毫升"), ("白色", "500毫升")])
    ),
)


@pytest.mark.parametrize(
    ("product", "said", "labels"),
    [
        (JACKET, "blue L", ["blue L"]),
        (JACKET, "XL in Blue", ["blue XL"]),
        (JACKET, "blue / large", ["blue L"]),
        (JACKET, "extra large, forest-green", None),
        (JACKET, "extra large, forest green", ["forest green XL"]),
        (JACKET, "green S", ["forest green S"]),
        (JACKET, "size L", ["blue L", "forest green L"]),
        (JACKET, "j-blue-s", ["blue S"]),
        (JACKET, "purple L", None),
        (JACKET, "M", None),
        (JACKET, "size", None),
        (CUP, "藏青 500ml", ["藏青色 500毫升"]),
        (CUP, "白的", ["白色 500毫升"]),
        (CUP, "白色350毫升", None),
        (CUP, "500 毫升", ["藏青色 500毫升", "白色 500毫升"]),
        (CUP, "红色", None),
    ],
)
def test_variants_by_option_text(product: Product, said: str, labels: list[str] | None) -> None:
    if labels is not None:
        assert [v.label for v in match_variants(product, said)] == labels
        return
    with pytest.raises(OperationError) as caught:
        match_variants(product, said)
    assert caught.value.kind is ErrorKind.NOT_FOUND
    assert "It comes in" in caught.value.message
