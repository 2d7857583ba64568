"""The shop's own operations, together."""

from __future__ import annotations

from livery.shop.catalog_operations import CATALOG_OPERATIONS
from livery.shop.operations import Operations
from livery.shop.price_operations import PRICE_OPERATIONS
from livery.shop.service_operations import SERVICE_OPERATIONS


def shop_operations() -> Operations:
    """Every operation over the catalogue and the room. Stateless; indexes live with each catalogue."""
    return Operations((*CATALOG_OPERATIONS, *PRICE_OPERATIONS, *SERVICE_OPERATIONS))
