from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from livery.errors import InputError
from livery.shop import loading
from livery.shop.loading import CatalogueSource

STORES = Path(__file__).parents[2] / "stores"
LATER = 10**20
"""A clock far past every file's time: times are trusted."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return Path(shutil.copytree(STORES / "demo-en", tmp_path / "store"))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_a_price_edited_on_disk_is_what_the_next_call_answers(store: Path) -> None:
    source = CatalogueSource(store)
    assert source.current().by_link["1"].price == 2400
    for cents in range(10, 40):  # same size, often the same tick of the file system's clock
        edit(store / "products.yaml", f"price: {24 if cents == 10 else 25}.{cents - 1 if cents > 10 else '00'}",
             f"price: 25.{cents}")  # fmt: skip
        assert source.current().by_link["1"].price == 2500 + cents
    assert source.problems == ()


def test_an_edit_that_keeps_size_and_time_is_seen_while_times_cannot_be_trusted(store: Path) -> None:
    source = CatalogueSource(store)
    before = (store / "products.yaml").stat()
    edit(store / "products.yaml", "price: 24.00", "price: 23.00")
    os.utime(store / "products.yaml", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert source.current().by_link["1"].price == 2300


def test_an_atomic_replacement_is_seen(store: Path) -> None:
    source = CatalogueSource(store, clock_ns=lambda: LATER)
    before = (store / "products.yaml").stat()
    other = store / "products.tmp"
    shutil.copy(store / "products.yaml", other)
    edit(other, "price: 24.00", "price: 23.00")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(store / "products.yaml")
    assert source.current().by_link["1"].price == 2300


def test_nothing_is_read_again_while_nothing_changes(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = CatalogueSource(store, clock_ns=lambda: LATER)
    first = source.current()
    reads: list[Any] = []
    monkeypatch.setattr(loading, "load_catalogue", reads.append)
    monkeypatch.setattr(Path, "read_bytes", reads.append)
    (store / "notes.txt").write_text("not a file of the catalogue", encoding="utf-8")
    assert all(source.current() is first for _ in range(5))
    assert reads == []
    assert source.generation == 1


def test_an_invalid_edit_keeps_the_last_good_catalogue_and_says_why(store: Path) -> None:
    source = CatalogueSource(store)
    good = source.current()
    edit(store / "products.yaml", "price: 24.00", "price: cheap")
    edit(store / "products.yaml", "stock: 320", "stock: -1")
    assert source.current() is good
    assert [(Path(p.path).name, p.field) for p in source.problems] == [
        ("products.yaml", "products[0].price"),
        ("products.yaml", "products[0].stock"),
    ]
    assert source.current() is good and len(source.problems) == 2
    edit(store / "products.yaml", "price: cheap", "price: 22")
    edit(store / "products.yaml", "stock: -1", "stock: 1")
    assert source.current().by_link["1"].price == 2200
    assert source.problems == ()
    assert source.generation == 2


def test_a_store_that_vanishes_is_a_problem_and_comes_back(store: Path) -> None:
    source = CatalogueSource(store)
    good = source.current()
    away = store.with_name("away")
    store.rename(away)
    assert source.current() is good
    assert source.problems[0].code == "missing-file"
    away.rename(store)
    assert source.current() == good
    assert source.problems == ()


def test_a_file_added_later_counts(store: Path) -> None:
    source = CatalogueSource(store)
    (store / "faq.csv").write_text("link_id,question,answer\n1,New?,Yes.\n", encoding="utf-8")
    assert source.current().by_link["1"].faq[-1].question == "New?"


def test_a_first_load_that_fails_raises(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        CatalogueSource(tmp_path / "none")


def test_a_single_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(
        "store: S\ncurrency: JPY\nproducts: [{link_id: 1, key: a, name: A, category: c, price: 500}]\n",
        encoding="utf-8",
    )
    source = CatalogueSource(path)
    edit(path, "500", "501")
    assert source.current().products[0].price == 501
