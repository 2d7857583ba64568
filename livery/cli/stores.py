"""What commands ask of a store beyond loading it."""

from __future__ import annotations

from livery.errors import InputError
from livery.shop.catalogue import Catalogue


def item_on_screen(catalogue: Catalogue, asked: str) -> str:
    """The link id shown first: the one asked for, else the catalogue's first.

    Raises:
        InputError: the catalogue has no such link.
    """
    if asked and asked not in catalogue.by_link:
        links = ", ".join(catalogue.by_link)
        raise InputError.at("--on-screen", f"found {asked!r}; {catalogue.store} has the link ids {links}")
    return asked or catalogue.products[0].link_id
