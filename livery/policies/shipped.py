"""Adapters that ship inside the package, over the embedded model: found, checked, and chosen by language.

Each is a folder ``livery/models/NAME`` of ``adapter.gguf``, ``card.json`` and ``README.md``, the model card. The card
pins both files by SHA-256: the adapter's own, and the base's over which alone it is right. ``llamacpp:`` wears the one
of its harness's language; ``llamacpp:?adapter=none`` is the bare base, and ``adapter=NAME`` is one by name, which
``hf:`` takes too. A package without such a folder runs the base.

Not here: making one (`livery.policies.gguf_writing`), or downloading one: what ships is in the wheel.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from livery.errors import InputError, Problem
from livery.policies.model_file import MODEL_SHA256, sha256_of

FOLDER: Final = Path(__file__).parents[1] / "models"
ADAPTER, CARD, PAGE = "adapter.gguf", "card.json", "README.md"
MOST_BYTES: Final = 12_000_000
"""Of an adapter in the package."""

_DIGEST: Final = r"^[0-9a-f]{64}$"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BaseOf(_Part):
    name: str
    sha256: str = Field(pattern=_DIGEST)
    """Of the GGUF file."""
    licence: str


class Figure(_Part):
    """One measured figure with its interval of 95 %."""

    suite: str
    measure: str
    value: float
    low: float
    high: float
    n: int = Field(ge=1)
    """Tasks, or whatever was counted."""


class Card(_Part):
    """What is known of a shipped adapter."""

    schema_: Literal["livery.adapter/1"] = Field(alias="schema")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    language: str = Field(pattern=r"^[a-z]{2}$")
    made: date
    base: BaseOf
    adapter_sha256: str = Field(pattern=_DIGEST)
    adapter_bytes: int = Field(ge=1, le=MOST_BYTES)
    data: dict[str, Any] = Field(min_length=1)
    """Digest of the rows it was trained on, their splits, and what else identifies them."""
    harnesses: dict[str, str] = Field(min_length=1)
    """Digests of the harnesses it was trained and measured under, by name."""
    recipe: dict[str, Any] = Field(min_length=1)
    """The settings of its training."""
    results: str = Field(pattern=r"^docs/results/[\w-]+\.md$")
    """The page in the repository that says how the figures were measured."""
    figures: tuple[Figure, ...] = Field(min_length=1)
    limits: tuple[str, ...] = Field(min_length=1)
    """What it is not good for, in sentences."""
    licence: str


@dataclass(frozen=True, slots=True)
class Shipped:
    folder: Path
    card: Card

    @property
    def adapter(self) -> Path:
        return self.folder / ADAPTER

    @property
    def state(self) -> Literal["ready", "missing", "damaged", "other-base"]:
        """Reads the adapter."""
        if not self.adapter.is_file():
            return "missing"
        if sha256_of(self.adapter) != self.card.adapter_sha256:
            return "damaged"
        return "ready" if self.card.base.sha256 == MODEL_SHA256 else "other-base"

    def checked(self) -> Path:
        """The adapter's file.

        Raises:
            InputError: it is not the file that its card names, or is for another base.
        """
        state = self.state
        if state == "ready":
            return self.adapter
        said = {
            "missing": "no such file; expected the adapter that card.json describes: install livery again",
            "damaged": f"expected SHA-256 {self.card.adapter_sha256}, as card.json says: install livery again",
            "other-base": f"made for the base {self.card.base.sha256[:16]}; the embedded one is {MODEL_SHA256[:16]}",
        }
        raise InputError.at(self.adapter, said[state], code=f"adapter-{state}")


def read_card(path: Path) -> Card:
    """
    Raises:
        InputError: every field that is not as a card has it.
    """
    if not path.is_file():
        raise InputError.at(path, "no such file; expected an adapter's card", code="card")
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InputError.at(path, f"no JSON ({error})", code="card") from error
    return card_of(fields, path)


def card_of(fields: Any, path: Path) -> Card:
    """
    Args:
        path: where it lies or will, for errors.

    Raises:
        InputError: every field that is not as a card has it.
    """
    try:
        return Card.model_validate(fields)
    except ValidationError as error:
        raise InputError(
            [
                Problem(path=str(path), field=".".join(map(str, fault["loc"])), message=fault["msg"], code="card")
                for fault in error.errors(include_url=False)
            ]
        ) from error


def shipped(folder: Path | None = None) -> tuple[Shipped, ...]:
    """Every adapter in the package, by name.

    Args:
        folder: another place than the package's.

    Raises:
        InputError: a card is missing or not as it should be, or its name is not its folder's.
    """
    folder = folder or FOLDER
    if not folder.is_dir():
        return ()
    found: list[Shipped] = []
    for inner in sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(("_", "."))):
        card = read_card(inner / CARD)
        if card.name != inner.name:
            raise InputError.at(
                inner / CARD, f"found {card.name!r}; expected {inner.name!r}", field="name", code="card"
            )
        found.append(Shipped(inner, card))
    return tuple(found)


def adapters_for(choice: str, language: str) -> tuple[Path, ...]:
    """The files that a URI's ``adapter`` asks for: none or one.

    Args:
        choice: "none", "auto" (the first of the language, if there is one) or a name.
        language: of the harness, such as ``en``.

    Raises:
        InputError: no adapter of that name, or it is damaged.
    """
    if choice == "none":
        return ()
    known = shipped()
    if choice == "auto":
        return tuple(one.checked() for one in known if one.card.language == language[:2])[:1]
    chosen = next((one for one in known if one.card.name == choice), None)
    if chosen is None:
        names = ", ".join(["none", "auto", *(one.card.name for one in known)])
        raise InputError.at(
            choice, f"no such adapter in the package; expected {names}", field="adapter", code="adapter"
        )
    return (chosen.checked(),)


# ------------------------------------------------------------------------------------------ the card


def write_card(folder: Path, card: Card) -> None:
    """``card.json`` for machines, ``README.md`` for people."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CARD).write_text(card.model_dump_json(by_alias=True, indent=1) + "\n", encoding="utf-8")
    (folder / PAGE).write_text(card_page(card), encoding="utf-8")


def card_page(card: Card) -> str:
    """The model card as Markdown."""
    what = f"A LoRA adapter over {card.base.name}, for harnesses in `{card.language}`; made {card.made.isoformat()}"
    parts = [
        f"# {card.name}",
        "",
        f"{what}; licence {card.licence} (the base: {card.base.licence}).",
        "",
        *_table(
            ("", ""),
            [
                ("adapter", f"`{card.adapter_sha256}`, {card.adapter_bytes:,} bytes"),
                ("base", f"`{card.base.sha256}`"),
                *((f"harness {name}", f"`{digest}`") for name, digest in card.harnesses.items()),
            ],
        ),
        "## Training",
        "",
        *_table(("data", ""), card.data.items()),
        *_table(("recipe", ""), card.recipe.items()),
        "## Figures",
        "",
        f"In points of 100 with intervals of 95 %; how they were measured: `{card.results}`.",
        "",
        *_table(
            ("suite", "measure", "value", "interval", "n"),
            [(f.suite, f.measure, f"{f.value:.1f}", f"{f.low:.1f} to {f.high:.1f}", f.n) for f in card.figures],
        ),
        "## Limits",
        "",
        *(f"- {limit}" for limit in card.limits),
    ]
    return "\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Any) -> list[str]:
    def line(cells: Sequence[Any]) -> str:
        return "| " + " | ".join(str(c).replace("|", "\\|").replace("\n", " ") for c in cells) + " |"

    return [line(head), "|" + "---|" * len(head), *(line(row) for row in rows), ""]
