"""From a store's files to a `Catalogue`. Their format: docs/catalogue.md.

Every fault of every file is reported at once, by file, line and field. Amounts are written in major units and
read exactly; times without an offset are the store's own.
"""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ValidationError

from livery.errors import InputError, Problem
from livery.shop.catalogue import (
    Catalogue,
    Coupon,
    ExcludedRegion,
    Faq,
    Product,
    Promotion,
    Range,
    Shipping,
    ShippingRegion,
    SizeChart,
    SizeRow,
    StorePolicy,
    Tier,
    Variant,
    faults,
)
from livery.shop.documents import (
    Document,
    Location,
    Row,
    Table,
    dotted,
    read_csv,
    read_json,
    read_yaml,
)
from livery.shop.money import EXPONENTS, parse_minor

STORE_FILES = ("store.yaml", "store.yml", "store.json")
PRODUCT_FILES = ("products.yaml", "products.yml", "products.json", "products.csv")
TABLE_FILES = ("variants.csv", "faq.csv")
KNOWN_FILES = frozenset((*STORE_FILES, *PRODUCT_FILES, *TABLE_FILES))

_ITEMS: dict[str, type[BaseModel]] = {
    "products": Product,
    "promotions": Promotion,
    "coupons": Coupon,
    "policies": StorePolicy,
    "faq": Faq,
}
_MODELS: dict[tuple[str, ...], type[BaseModel]] = {
    (): Catalogue,
    **{(part,): model for part, model in _ITEMS.items()},
    ("products", "variants"): Variant,
    ("products", "faq"): Faq,
    ("products", "size_chart"): SizeChart,
    ("products", "size_chart", "rows"): SizeRow,
    ("promotions", "tiers"): Tier,
    ("shipping",): Shipping,
    ("shipping", "regions"): ShippingRegion,
    ("shipping", "excluded"): ExcludedRegion,
}
_MONEY = (
    "products.*.price",
    "products.*.variants.*.price",
    "promotions.*.price",
    "promotions.*.amount_off",
    "promotions.*.tiers.*.threshold",
    "promotions.*.tiers.*.amount_off",
    "coupons.*.amount_off",
    "coupons.*.threshold",
    "coupons.*.cap",
    "shipping.regions.*.fee",
    "shipping.regions.*.free_over",
    "shipping.regions.*.surcharges.*",
)
_TIMES = (
    "products.*.on_sale_at",
    "promotions.*.starts_at",
    "promotions.*.ends_at",
    "coupons.*.starts_at",
    "coupons.*.ends_at",
)


def load_catalogue(path: str | Path) -> Catalogue:
    """The catalogue of a store's folder or single file.

    Raises:
        InputError: with every fault found.
    """
    return _Loading(Path(path)).load()


class _Loading:
    """One reading of a store's files: gathers them into one tree whose parts know their file and line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.raw: dict[str, Any] = {}
        self.places: dict[Location, tuple[Path, int]] = {(): (path, 0)}
        self.written: dict[Location, Any] = {}
        """Amounts and times as they were written."""
        self.unread = False
        """The file of the products could not be read, which is told."""
        self.faulty: set[Location] = set()
        """Parts with a fault of their own: cross-checks leave them out."""

    def load(self) -> Catalogue:
        self._read_files()
        known_currency = str(self.raw.get("currency")) in EXPONENTS
        self._charts()
        self._policies()
        self._each(_MONEY, self._money if known_currency else lambda at, value: 1)
        zone = self._zone()
        self._each(_TIMES, lambda at, value: self._time(at, value, zone))
        catalogue, indices = self._validate()
        listed = {str(p.get("link_id")) for p in self._items("products")}
        categories = {str(p.get("category")) for p in self._items("products")}
        for fault in faults(catalogue):
            if not listed and fault.code in ("unknown-link", "unknown-category"):
                continue  # no product could be read: that is the fault, and it is told already
            at = fault.location
            part, index = cast(str, at[0]), cast(int, at[1])
            at = (part, indices[part][index], *at[2:])
            written = self._written(at)
            if fault.code == "unknown-link" and str(written) in listed:
                continue  # it is there, with faults of its own
            if fault.code == "unknown-category" and str(written) in categories:
                continue
            self._problem(at, fault.message, fault.code)
        if self.problems:
            raise InputError(sorted(set(self.problems), key=lambda p: (p.path, p.line, p.field)))
        return catalogue

    # ------------------------------------------------------------------------------ files

    def _read_files(self) -> None:
        if not self.path.is_dir():
            if not self.path.exists():
                raise InputError.at(self.path, "there is no such file or folder", code="missing-file")
            self._take_store(self.path)
            return
        try:
            present = {p.name for p in self.path.iterdir()} & KNOWN_FILES
        except OSError as error:
            raise InputError.at(self.path, f"cannot be read: {error.strerror}", code="unreadable") from error
        stores = [n for n in STORE_FILES if n in present]
        products = [n for n in PRODUCT_FILES if n in present]
        if not stores:
            raise InputError.at(self.path, "has no store.yaml (or store.json)", code="missing-file")
        for names in (stores, products):
            for other in names[1:]:
                self._file_problem(self.path / other, f"stands beside {names[0]}; keep one", "two-files")
        self._take_store(self.path / stores[0])
        if products:
            self._take_products(self.path / products[0])
        for name, take in (("variants.csv", self._take_variants), ("faq.csv", self._take_faq)):
            if name in present and (table := self._guarded(read_csv, self.path / name)):
                take(table)

    def _guarded(self, read: Callable[[Path], Any], path: Path) -> Any:
        """What ``read`` gives, or None with its problems kept: the other files are still worth reading."""
        try:
            found = read(path)
        except InputError as error:
            self.problems += error.problems
            return None
        self.problems += found.problems
        return found

    def _document(self, path: Path) -> Document | None:
        if path.suffix.lower() not in (".yaml", ".yml", ".json"):
            self._file_problem(path, f"found {path.suffix or 'no suffix'}; expected .yaml or .json", "file-type")
            return None
        return self._guarded(read_json if path.suffix.lower() == ".json" else read_yaml, path)

    def _take_store(self, path: Path) -> None:
        document = self._document(path)
        if document is None:
            raise InputError(self.problems)
        value: Any = document.value
        if not isinstance(value, dict):
            raise InputError.at(path, "expected fields such as store, currency, products", line=1, code="empty")
        self.raw = cast(dict[str, Any], value)
        for location, line in document.lines.items():
            self.places[location] = (path, line)

    def _take_products(self, path: Path) -> None:
        if "products" in self.raw:
            self._problem(("products",), f"products stand in {path.name} as well; keep one", "two-files")
            return
        self.places[("products",)] = (path, 1)
        if path.suffix.lower() == ".csv":
            table = self._guarded(read_csv, path)
            self.raw["products"] = []
            self.unread = table is None
            if table:
                self._take_product_rows(table)
            return
        document = self._document(path)
        if document is None:
            self.raw["products"] = []
            self.unread = True
            return
        prefix: Location = ()
        value: Any = document.value
        if isinstance(value, dict):
            held = cast(dict[str, Any], value)
            for name in held:
                if name != "products":
                    line = document.lines.get((name,), 0)
                    message = "unknown field; expected only products"
                    self._file_problem(path, message, "unknown-field", line, name)
            value, prefix = held.get("products"), ("products",)
        self.raw["products"] = value
        for location, line in document.lines.items():
            if location[: len(prefix)] == prefix:
                self.places[("products", *location[len(prefix) :])] = (path, line)

    def _take_product_rows(self, table: Table) -> None:
        self._columns(table, [*Product.model_fields, "spec.*"], without=("variants", "specifications", "faq"))
        for i, row in enumerate(table.rows):
            item: dict[str, Any] = {}
            for column, text in row.cells.items():
                if column.startswith("spec."):
                    item.setdefault("specifications", {})[column[5:]] = text
                elif column in ("aliases", "selling_points"):
                    item[column] = [part.strip() for part in text.split("|") if part.strip()]
                elif column in Product.model_fields:
                    item[column] = text
            self.places[("products", i)] = (table.path, row.line)
            self.raw["products"].append(item)

    def _take_variants(self, table: Table) -> None:
        self._columns(table, ["link_id", *Variant.model_fields, "option.*"], without=("options",))
        for product, i, row in self._rows_by_link(table):
            item: dict[str, Any] = {k: row.cells[k] for k in ("sku", "price", "stock") if k in row.cells}
            item["options"] = {c[7:]: t for c, t in row.cells.items() if c.startswith("option.")}
            self._append(product, ("products", i), "variants", item, table, row)

    def _take_faq(self, table: Table) -> None:
        self._columns(table, ["link_id", *Faq.model_fields])
        for product, i, row in self._rows_by_link(table, or_store=True):
            entry = {k: row.cells[k] for k in ("question", "answer") if k in row.cells}
            self._append(product, ("products", i) if i >= 0 else (), "faq", entry, table, row)

    def _append(
        self, owner: dict[str, Any], at: Location, name: str, item: dict[str, Any], table: Table, row: Row
    ) -> None:
        if owner.get(name) is None:
            owner[name] = []
        if isinstance(owner[name], list):  # anything else is reported as a field of the wrong kind
            held = cast(list[Any], owner[name])
            self.places[(*at, name, len(held))] = (table.path, row.line)
            held.append(item)

    def _rows_by_link(self, table: Table, or_store: bool = False) -> list[tuple[dict[str, Any], int, Row]]:
        """(product as written, its position, row); with ``or_store`` those without one are the store's."""
        by_link = {str(p.get("link_id")).strip(): (p, i) for i, p in self._numbered("products")}
        found: list[tuple[dict[str, Any], int, Row]] = []
        if "link_id" not in table.columns:
            return found  # told once, not in each row
        for row in table.rows:
            link = row.cells.get("link_id", "")
            if link in by_link:
                found.append((*by_link[link], row))
            elif or_store and not link:
                found.append((self.raw, -1, row))
            elif not link:
                message = "required field is missing"
                self._file_problem(table.path, message, "missing-field", row.line, "link_id")
            elif by_link:
                message = f"no product has link id {link!r}"
                self._file_problem(table.path, message, "unknown-link", row.line, "link_id")
        return found

    def _columns(self, table: Table, known: Sequence[str], without: Sequence[str] = ()) -> None:
        names = [n for n in known if n not in without]
        prefixes = tuple(n[:-1] for n in names if n.endswith(".*"))
        for column in table.columns:
            named = column in names or (bool(prefixes) and column.startswith(prefixes))
            if column and not named:
                self._file_problem(table.path, _unknown(column, names), "unknown-field", 1, column)
        if "link_id" not in table.columns:
            self._file_problem(table.path, "required column is missing", "missing-field", 1, "link_id")

    # -------------------------------------------------------------------- what was written

    def _charts(self) -> None:
        """Charts by name, and ranges written "155-162"."""
        named: Any = self.raw.pop("size_charts", {}) or {}
        if not isinstance(named, dict):
            self._problem(("size_charts",), "expected a mapping of names to charts", "wrong-kind")
            named = {}
        charts = {
            name: self._chart(chart, ("size_charts", name)) for name, chart in cast(dict[str, Any], named).items()
        }
        for name, chart in charts.items():
            self._check(SizeChart, chart, ("size_charts", name), ("products", "size_chart"))
        for product, i in ((p, i) for i, p in self._numbered("products")):
            chart, at = product.get("size_chart"), ("products", i, "size_chart")
            if isinstance(chart, str):
                if chart not in charts:
                    self._problem(at, f"no chart is called {chart!r}; there are {list(charts)}", "unknown-chart")
                    self.faulty.add(("products", i))
                good = chart in charts and ("size_charts", chart) not in self.faulty
                product["size_chart"] = charts[chart] if good else None
            elif chart is not None:
                product["size_chart"] = self._chart(chart, at)

    def _chart(self, chart: Any, at: Location) -> Any:
        """``{rows: [{size: S, height_cm: 155-162}]}`` or a plain list of rows, as the model wants it."""
        if isinstance(chart, list):
            chart = cast(Any, {"rows": chart})
            for location in [p for p in self.places if p[: len(at)] == at and len(p) > len(at)]:
                self.places[(*at, "rows", *location[len(at) :])] = self.places[location]
        if not isinstance(chart, dict) or not isinstance(cast(Any, chart).get("rows"), list):
            return cast(Any, chart)
        held = cast(dict[str, Any], chart)
        rows: list[Any] = []
        for i, row in enumerate(cast(list[Any], held["rows"])):
            if not isinstance(row, dict):
                rows.append(row)
                continue
            ranges: dict[str, Any] = {}
            for column, value in cast(dict[str, Any], row).items():
                if column != "size":
                    where = (*at, "rows", i, column)
                    self.places[(*at, "rows", i, "ranges", column)] = self._place(where)
                    ranges[column] = self._range(where, value)
            rows.append({**({"size": row["size"]} if "size" in row else {}), "ranges": ranges})
        return {**held, "rows": rows}

    def _range(self, at: Location, value: Any) -> Any:
        """ "155-162" or 24.5 as a range."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(?:\s*[-–~至]\s*(\d+(?:\.\d+)?))?", str(value).strip())
        if match is None:
            self._problem(at, f"found {value!r}; expected a range such as 155-162", "range")
            return Range(low=0, high=0)
        return {"low": match[1], "high": match[2] or match[1]}

    def _policies(self) -> None:
        policies = self.raw.get("policies")
        if isinstance(policies, dict):
            held = cast(dict[str, Any], policies)
            self.raw["policies"] = [{"topic": topic, "text": text} for topic, text in held.items()]
            for i, topic in enumerate(held):
                self.places[("policies", i)] = self._place(("policies", topic))

    def _money(self, at: Location, value: Any) -> Any:
        currency = self.raw["currency"]
        if isinstance(value, dict):
            money = cast(dict[str, Any], value)
            if set(money) == {"amount", "currency"} and type(money["amount"]) is int:
                if money["currency"] == currency:
                    return money["amount"]
                self._problem(at, f"found {money['currency']!r}; the store's currency is {currency}", "currency")
                return 1
            self._problem(at, "expected an amount, or {amount: minor units, currency: ...}", "amount")
            return 1
        try:
            return parse_minor(value, currency)
        except ValueError as error:
            self._problem(at, str(error), "amount")
            self.faulty.add(at[:2])
            return 1

    def _zone(self) -> ZoneInfo:
        try:
            return ZoneInfo(str(self.raw.get("timezone", "UTC")))
        except (KeyError, ValueError, OSError):
            return ZoneInfo("UTC")  # its own fault is reported by the model

    def _time(self, at: Location, value: Any, zone: ZoneInfo) -> Any:
        """Aware time; without an offset the store's, a day alone its beginning (an ``ends_at``: its end)."""
        text = str(value).strip().replace("Z", "+00:00")
        try:
            if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
                day = date.fromisoformat(text) + timedelta(days=1 if at[-1] == "ends_at" else 0)
                return datetime(day.year, day.month, day.day, tzinfo=zone)
            parsed = datetime.fromisoformat(text)
        except ValueError:
            self._problem(at, f"found {value!r}; expected a time such as 2026-06-18 20:00", "time")
            self.faulty.add(at[:2])
            return None
        return parsed if parsed.tzinfo else parsed.replace(tzinfo=zone)

    def _each(self, patterns: Sequence[str], change: Callable[[Location, Any], Any]) -> None:
        """Replaces every value that a pattern leads to."""

        def walk(node: Any, steps: list[str], at: Location) -> None:
            step, rest = steps[0], steps[1:]
            keys: list[Any] = []
            if isinstance(node, list) and step == "*":
                keys = list(range(len(cast(list[Any], node))))
            elif isinstance(node, dict):
                held = cast(dict[str, Any], node)
                keys = list(held) if step == "*" else [step] if step in held else []
            for key in keys:
                if rest:
                    walk(node[key], rest, (*at, key))
                elif node[key] is not None:
                    self.written[(*at, key)] = node[key]
                    node[key] = change((*at, key), node[key])

        for pattern in patterns:
            walk(self.raw, pattern.split("."), ())

    # --------------------------------------------------------------------------- validation

    def _validate(self) -> tuple[Catalogue, dict[str, list[int]]]:
        """The catalogue of the faultless parts, and each part's positions as written."""
        valid: dict[str, list[Any]] = {}
        indices: dict[str, list[int]] = {}
        if not self.raw.get("products") and not self.unread:
            message = "no products; expected at least one, here or in products.yaml, .json or .csv"
            self._problem(("products",), message, "no-products")
        for part, model in _ITEMS.items():
            valid[part], indices[part] = [], []
            items: Any = self.raw.get(part) or []
            if not isinstance(items, list):
                self._problem((part,), "expected a list", "wrong-kind")
                items = []
            for i, item in enumerate(cast(list[Any], items)):
                made = self._check(model, item, (part, i), (part,))
                if made is not None and (part, i) not in self.faulty:
                    valid[part].append(made)
                    indices[part].append(i)
        shipping = self.raw.get("shipping")
        made = self._check(Shipping, {} if shipping is None else shipping, ("shipping",), ("shipping",))
        head = {k: v for k, v in self.raw.items() if k not in (*_ITEMS, "shipping")}
        whole = {**head, **{p: tuple(v) for p, v in valid.items()}, "shipping": made or Shipping()}
        catalogue = self._check(Catalogue, whole, (), ())
        if catalogue is None:
            catalogue = Catalogue.model_construct(None, **{**whole, "store": "", "currency": "USD"})
        return cast(Catalogue, catalogue), indices

    def _check(self, model: type[BaseModel], value: Any, at: Location, kind: tuple[str, ...]) -> BaseModel | None:
        try:
            return model.model_validate(value)
        except ValidationError as error:
            self.faulty.add(at)
            every = error.errors(include_url=False)
            for found in every:
                inner, depth = found["loc"], len(found["loc"])
                if any(len(e["loc"]) > depth and e["loc"][:depth] == inner for e in every):
                    continue  # "too few items", since the ones there are faulty themselves
                written = self.written.get((*at, *inner), found["input"])
                self._explain(found["type"], found["msg"], written, (*at, *inner), kind, inner)
            return None

    def _explain(self, code: str, text: str, found: Any, at: Location, kind: tuple[str, ...], inner: Location) -> None:
        if "[key]" in inner:
            at = tuple(p for p in at if p != "[key]")
            text, code = "unknown measure; " + text[0].lower() + text[1:], "unknown-field"
        elif code == "extra_forbidden":
            names = tuple(p for p in inner[:-1] if isinstance(p, str))
            owner = _MODELS.get((*kind, *names), Catalogue)
            text, code = _unknown(str(at[-1]), list(owner.model_fields)), "unknown-field"
        elif code == "missing":
            text, code = "required field is missing", "missing-field"
        elif code == "value_error":
            text = text.removeprefix("Value error, ")
        else:
            text = f"{text[0].lower()}{text[1:]}; found {reprlib.repr(found)}"
        self._problem(at, text, code.replace("_", "-"))

    # ------------------------------------------------------------------------------ places

    def _items(self, part: str) -> list[dict[str, Any]]:
        return [item for _, item in self._numbered(part)]

    def _numbered(self, part: str) -> list[tuple[int, dict[str, Any]]]:
        items = self.raw.get(part)
        if not isinstance(items, list):
            return []
        return [(i, x) for i, x in enumerate(cast(list[Any], items)) if isinstance(x, dict)]

    def _written(self, at: Location) -> Any:
        node: Any = self.raw
        for key in at:
            node = cast(Any, node)[key] if isinstance(node, dict | list) else None
        return node

    def _place(self, at: Location) -> tuple[Path, int]:
        """File and line of the nearest part that is known."""
        while at not in self.places:
            at = at[:-1]
        return self.places[at]

    def _problem(self, at: Location, message: str, code: str) -> None:
        path, line = self._place(at)
        self._file_problem(path, message, code, line, dotted(at))

    def _file_problem(self, path: Path, message: str, code: str, line: int = 0, where: str = "") -> None:
        self.problems.append(Problem(path=str(path), field=where, line=line, message=message, code=code))


def _unknown(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"unknown field; did you mean {near[0]}?" if near else f"unknown field; known: {', '.join(known)}"
