from __future__ import annotations

import copy
import json
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from livery.errors import InputError, Problem
from livery.shop.catalogue import Catalogue, PromotionKind
from livery.shop.documents import read_json, read_yaml
from livery.shop.reading import load_catalogue

STORE = """\
store: Shop
currency: USD
timezone: Asia/Shanghai
"""
PRODUCT = """\
products:
  - link_id: 3
    key: a
    name: Thing
    category: Things
    price: 39.99
    stock: 4
"""


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", ".")
        path.write_text(text, encoding="utf-8")
    return folder


def problems_of(path: Path) -> list[Problem]:
    with pytest.raises(InputError) as caught:
        load_catalogue(path)
    return list(caught.value.problems)


def brief(path: Path) -> list[tuple[str, int, str, str]]:
    return [(Path(p.path).name, p.line, p.field, p.code) for p in problems_of(path)]


def test_a_single_file_is_enough(tmp_path: Path) -> None:
    write(tmp_path, shop__yaml=STORE + PRODUCT)
    catalogue = load_catalogue(tmp_path / "shop.yaml")
    assert catalogue.products[0].price == 3999
    assert catalogue.by_link["3"].name == "Thing"


def test_yaml_json_and_csv_make_the_same_catalogue(tmp_path: Path) -> None:
    products = [
        {"link_id": "1", "key": "a", "name": "Tee", "aliases": ["t-shirt", "top"], "category": "Apparel",
         "price": 39.9, "specifications": {"Fabric": "cotton", "Weight": "230 g"},
         "selling_points": ["soft"], "faq": [{"question": "Soft?", "answer": "Yes, very."}],
         "variants": [{"sku": "a-S", "options": {"size": "S"}, "stock": 2},
                      {"sku": "a-M", "options": {"size": "M"}, "stock": 0, "price": "42.50"}]},
        {"link_id": "02", "key": "b", "name": "Cup", "category": "Home", "price": 12, "stock": 7},
    ]  # fmt: skip
    made: list[Catalogue] = []
    for form in ("yaml", "json", "csv"):
        folder = tmp_path / form
        folder.mkdir()
        write(folder, store__yaml=STORE)
        if form == "csv":
            write(
                folder,
                products__csv="\ufefflink_id,key,name,aliases,category,price,stock,selling_points,"
                "spec.Fabric,spec.Weight\n"
                "1,a,Tee,t-shirt | top,Apparel,39.9,,soft,cotton,230 g\n"
                "02,b,Cup,,Home,12,7,,,\n",
                variants__csv="sku;link_id;option.size;stock;price\na-S;1;S;2;\na-M;1;M;0;42.50\n",
                faq__csv='link_id,question,answer\n1,Soft?,"Yes, very."\n',
            )
        elif form == "json":
            write(folder, products__json=json.dumps(products, indent="\t"))
        else:
            # JSON is YAML, and "02" keeps its zero in both.
            write(folder, products__yaml=json.dumps({"products": products}))
        made.append(load_catalogue(folder))
    assert made[0] == made[1] == made[2]
    tee, cup = made[0].products
    assert (tee.price, tee.variants[1].price, cup.price, cup.link_id) == (3990, 4250, 1200, "02")
    assert list(tee.specifications) == ["Fabric", "Weight"]


def test_amounts_never_pass_through_a_float(tmp_path: Path) -> None:
    write(tmp_path, a__yaml="x: 0.1\ny: 16:00\nz: yes\nn: 03\nt: true\nw: 1_000\n", b__json='{"x": 0.1}')
    assert read_yaml(tmp_path / "a.yaml").value == {
        "x": Decimal("0.1"), "y": "16:00", "z": "yes", "n": "03", "t": True, "w": "1_000",
    }  # fmt: skip
    assert read_json(tmp_path / "b.json").value == {"x": Decimal("0.1")}
    write(tmp_path, shop__yaml=STORE + PRODUCT.replace("39.99", "1234567890123.01"))
    assert load_catalogue(tmp_path / "shop.yaml").products[0].price == 123456789012301


def test_an_amount_may_be_given_in_minor_units_with_its_currency(tmp_path: Path) -> None:
    write(tmp_path, shop__yaml=STORE + PRODUCT.replace("39.99", "{amount: 3999, currency: USD}"))
    assert load_catalogue(tmp_path / "shop.yaml").products[0].price == 3999
    write(tmp_path, shop__yaml=STORE + PRODUCT.replace("39.99", "{amount: 3999, currency: CNY}"))
    assert brief(tmp_path / "shop.yaml") == [("shop.yaml", 9, "products[0].price", "currency")]


def test_times_without_an_offset_are_the_stores_own(tmp_path: Path) -> None:
    write(
        tmp_path,
        shop__yaml=STORE
        + PRODUCT
        + "promotions:\n"
        + "  - {key: a, name: A, kind: percent_off, percent_off: 10, starts_at: 2026-06-16 20:00,"
        + " ends_at: 2026-06-18}\n"
        + "  - {key: b, name: B, kind: amount_off, amount_off: 1, starts_at: '2026-06-16T20:00:00Z'}\n",
    )
    first, second = load_catalogue(tmp_path / "shop.yaml").promotions
    assert first.kind is PromotionKind.PERCENT_OFF
    assert first.starts_at and first.ends_at and second.starts_at
    assert first.starts_at.isoformat() == "2026-06-16T20:00:00+08:00"
    assert first.ends_at.isoformat() == "2026-06-19T00:00:00+08:00"  # a day alone is meant whole
    assert second.starts_at.utcoffset() == timedelta(0)
    assert isinstance(second.starts_at, datetime)


def test_size_charts_are_named_or_written_in_place(tmp_path: Path) -> None:
    rows = "[{size: S, height_cm: 150-160, foot_cm: 24.5}, {size: M, height_cm: 161 – 170}]"
    write(
        tmp_path,
        a__yaml=STORE + f"size_charts: {{tops: {{note: Small., rows: {rows}}}}}\n" + PRODUCT
        + "    size_chart: tops\n",
        b__yaml=STORE + PRODUCT + f"    size_chart: {rows}\n",
    )  # fmt: skip
    chart = load_catalogue(tmp_path / "a.yaml").products[0].size_chart
    plain = load_catalogue(tmp_path / "b.yaml").products[0].size_chart
    assert chart and plain and chart.note == "Small."
    assert chart.rows == plain.rows
    assert str(chart.rows[1].ranges["height_cm"]) == "161-170"
    assert str(chart.rows[0].ranges["foot_cm"]) == "24.5"


def test_policies_may_be_a_mapping(tmp_path: Path) -> None:
    write(tmp_path, shop__yaml=STORE + PRODUCT + "policies:\n  returns: Within 30 days.\n")
    (policy,) = load_catalogue(tmp_path / "shop.yaml").policies
    assert (policy.topic, policy.text) == ("returns", "Within 30 days.")


def test_every_fault_of_every_file_is_reported_at_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        store__yaml=STORE
        + "curency: USD\n"  # 4
        + "promotions:\n"
        + "  - key: p\n"  # 6
        + "    name: P\n"
        + "    kind: percent_off\n"
        + "    percent_off: 120\n"  # 9
        + "  - key: q\n"
        + "    name: Q\n"
        + "    kind: fixed_price\n"
        + "    price: cheap\n"  # 13
        + "    link_ids: ['77']\n"
        + "  - key: r\n"
        + "    name: R\n"
        + "    kind: amount_off\n"
        + "    amount_off: 1\n"
        + "    link_ids: ['3', '77']\n"  # 19
        + "    starts_at: 2026-02-30\n"  # 20
        + "  - {key: s, name: S, kind: percent_off, percent_off: 5, categories: [Nope]}\n",
        products__csv="link_id,key,name,category,price,stock,colour\n"
        "3,a,Thing,Things,39.99,4,\n"
        "3,b,Other,Things,39.999,-1,\n"
        '4,c,"Two\nlines",Things,5,1,,extra\n'
        "5,,NoKey,Things,5,1,\n",
        variants__csv="link_id,sku,stock,option.size\n9,x,1,S\n",
    )
    assert brief(tmp_path) == [
        ("products.csv", 1, "colour", "unknown-field"),
        ("products.csv", 3, "products[1].price", "amount"),
        ("products.csv", 3, "products[1].stock", "greater-than-equal"),
        ("products.csv", 4, "", "csv"),
        ("products.csv", 6, "products[3].key", "missing-field"),
        ("store.yaml", 4, "curency", "unknown-field"),
        ("store.yaml", 9, "promotions[0].percent_off", "less-than-equal"),
        ("store.yaml", 13, "promotions[1].price", "amount"),
        ("store.yaml", 20, "promotions[2].starts_at", "time"),
        ("store.yaml", 21, "promotions[3].categories[0]", "unknown-category"),
        ("variants.csv", 2, "link_id", "unknown-link"),
    ]


def test_cross_references_are_checked_beside_field_faults(tmp_path: Path) -> None:
    """A reference to a product that is there, but faulty, is no second fault; one to nothing is."""
    write(
        tmp_path,
        shop__yaml=STORE
        + PRODUCT.replace("stock: 4", "stock: -4")
        + "coupons:\n"
        + "  - {code: A, amount_off: 1, link_ids: [3]}\n"
        + "  - {code: B, amount_off: 1, link_ids: [8]}\n",
    )
    assert brief(tmp_path / "shop.yaml") == [
        ("shop.yaml", 10, "products[0].stock", "greater-than-equal"),
        ("shop.yaml", 13, "coupons[1].link_ids[0]", "unknown-link"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "field", "says"),
    [
        ("store: [", 2, "", "not YAML"),
        (STORE, 1, "products", "no products"),
        (STORE + "store: Again\n" + PRODUCT, 4, "store", "given already on line 1"),
        (STORE + PRODUCT + "    sise_chart: x\n", 11, "products[0].sise_chart", "did you mean size_chart?"),
        (STORE + PRODUCT + "    size_chart: x\n", 11, "products[0].size_chart", "no chart is called 'x'"),
        (STORE + PRODUCT + "    size_chart: [{size: S, height_cm: tall}]\n", 11,
         "products[0].size_chart.rows[0].height_cm", "expected a range such as 155-162"),
        (STORE + PRODUCT + "    size_chart: [{size: S, mood: 1-2}]\n", 11,
         "products[0].size_chart.rows[0].ranges.mood", "unknown measure"),
        (STORE + PRODUCT + "    faq: [{question: Why?}]\n", 11, "products[0].faq[0].answer",
         "required field is missing"),
        (STORE + PRODUCT + "    status: gone\n", 11, "products[0].status", "found 'gone'"),
        (STORE.replace("USD", "GOLD") + PRODUCT, 2, "currency", "ISO 4217"),
        (STORE.replace("Asia/Shanghai", "Nowhere") + PRODUCT, 3, "timezone", "IANA"),
        (STORE + PRODUCT + "shipping: {regions: [{name: A, days_min: 5, days_max: 2}]}\n", 11,
         "shipping.regions[0]", "days_max 2 is less than days_min 5"),
        (STORE + PRODUCT + "shipping: {cut_off: 25:00}\n", 11, "shipping.cut_off", "found '25:00'"),
        (STORE + PRODUCT + "coupons: 5\n", 11, "coupons", "expected a list"),
        ("&a [*a]\n", 1, "[0]", "an alias refers to what it stands in"),
    ],
)  # fmt: skip
def test_faults_name_file_line_and_field(tmp_path: Path, text: str, line: int, field: str, says: str) -> None:
    write(tmp_path, shop__yaml=text)
    (problem,) = problems_of(tmp_path / "shop.yaml")
    assert (Path(problem.path).name, problem.line, problem.field) == ("shop.yaml", line, field)
    assert says in problem.message


def test_unreadable_inputs_are_input_errors(tmp_path: Path) -> None:
    assert brief(tmp_path / "none")[0][3] == "missing-file"
    assert brief(tmp_path)[0][3] == "missing-file"
    (tmp_path / "store.yaml").write_bytes("store: 店\ncurrency: 元".encode("gbk"))
    assert brief(tmp_path) == [("store.yaml", 1, "", "not-utf-8")]
    write(tmp_path, shop__json='{"store": "S",\n "currency" "USD"}')
    assert brief(tmp_path / "shop.json") == [("shop.json", 2, "", "not-json")]
    write(tmp_path, store__yaml=STORE + PRODUCT, store__json="{}")
    assert brief(tmp_path) == [("store.json", 0, "", "two-files")]
    write(tmp_path, shop__txt="x")
    assert brief(tmp_path / "shop.txt") == [("shop.txt", 0, "", "file-type")]


def test_json_faults_have_lines_too(tmp_path: Path) -> None:
    text = (
        '{"store": "S", "currency": "USD",\n\t"products": [\n\t{"link_id": "1", "key": "a", "name": "é\\ud83d\\ude00",'
    )
    write(tmp_path, shop__json=text + '\n\t"category": "c", "price": 1.005,\n\t"stock": 1}]}')
    assert brief(tmp_path / "shop.json") == [("shop.json", 4, "products[0].price", "amount")]


SMALL = {
    "store": "S",
    "currency": "USD",
    "timezone": "UTC",
    "size_charts": {"tops": {"rows": [{"size": "S", "height_cm": "150-160"}]}},
    "products": [
        {
            "link_id": "1",
            "key": "a",
            "name": "A",
            "category": "c",
            "price": "5.00",
            "size_chart": "tops",
            "aliases": ["x"],
            "specifications": {"Weight": "5 g"},
            "on_sale_at": "2026-01-01",
            "variants": [{"sku": "s", "options": {"size": "S"}, "stock": 1, "price": "6"}],
            "faq": [{"question": "q", "answer": "a"}],
        }
    ],
    "promotions": [
        {"key": "p", "name": "P", "kind": "spend_threshold", "tiers": [{"threshold": "9", "amount_off": "1"}],
         "link_ids": ["1"], "starts_at": "2026-01-01", "ends_at": "2026-02-01 10:00"}
    ],
    "coupons": [{"code": "C", "amount_off": "1", "cap": "1", "link_ids": ["1"]}],
    "shipping": {
        "regions": [{"name": "r", "fee": "1", "surcharges": {"bulky": "2"}, "places": ["p"]}],
        "excluded": [{"name": "e"}],
        "cut_off": "10:00",
    },
    "policies": {"returns": "Yes."},
    "faq": [{"question": "q", "answer": "a"}],
}  # fmt: skip
JUNK = [
    None,
    [],
    {},
    [None],
    [[1]],
    {"a": {"b": 1}},
    "",
    "x",
    -1,
    10**30,
    "1e400",
    0.5,
    True,
    "2026-13-01",
    "9-1",
]


def _parts(node: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else []
    return [at, *(part for key in keys for part in _parts(node[key], (*at, key)))]


@pytest.mark.parametrize("form", ["json", "csv"])
def test_no_junk_anywhere_is_more_than_an_input_error(tmp_path: Path, form: str) -> None:
    """Every part of a store in turn is replaced by every kind of junk."""
    path = tmp_path / "store.json"
    if form == "csv":
        write(
            tmp_path,
            faq__csv="link_id,question,answer\n1,q,a\n,q,a\n",
            variants__csv="link_id,sku,option.size\n1,z,M\n",
        )
    outcomes = {"loaded": 0, "refused": 0}
    for part in _parts(SMALL)[1:]:
        for junk in JUNK[form == "csv" :: 2]:  # every second kind in each form
            store = copy.deepcopy(SMALL)
            owner: Any = store
            for key in part[:-1]:
                owner = owner[key]
            owner[part[-1]] = junk
            path.write_text(json.dumps(store), encoding="utf-8")
            try:
                load_catalogue(tmp_path if form == "csv" else path)
                outcomes["loaded"] += 1
            except InputError as error:
                assert all(p.message and p.path for p in error.problems)
                outcomes["refused"] += 1
    assert outcomes["refused"] > 350
    assert outcomes["loaded"] > 50


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "products.csv",
            "link_id,key,名称\n3,a,茶\n".encode("gb18030"),
            ("products.csv", 1, "", "not-utf-8"),
        ),
        ("products.csv", b'link_id,key,name\n3,"a,b\n4,c,d\n', ("products.csv", 2, "", "not-csv")),
        ("products.yaml", b"", ("products.yaml", 1, "products", "no-products")),
        ("products.yaml", b"- {link_id: 3\n- a]", ("products.yaml", 2, "", "not-yaml")),
        ("products.json", b'[{"link_id": 3,', ("products.json", 1, "", "not-json")),
        ("other.yaml", b"", ("store.yaml", 1, "products", "no-products")),
    ],
)
def test_products_that_cannot_be_read_are_the_only_fault_told(
    tmp_path: Path, name: str, content: bytes, expected: tuple[str, int, str, str]
) -> None:
    rest = """\
coupons:
  - {code: A, amount_off: 1, link_ids: ["3"]}
promotions:
  - {key: p, name: P, kind: percent_off, percent_off: 5, categories: [Things]}
"""
    write(tmp_path, store__yaml=STORE + rest, variants__csv="link_id,sku,option.size\n3,s,M\n")
    (tmp_path / name).write_bytes(content)
    assert brief(tmp_path) == [expected]


def test_a_table_without_link_ids_says_so_once(tmp_path: Path) -> None:
    write(tmp_path, store__yaml=STORE + PRODUCT, variants__csv="sku,option.size\ns1,M\ns2,L\n")
    assert brief(tmp_path) == [("variants.csv", 1, "link_id", "missing-field")]
