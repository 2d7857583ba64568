from __future__ import annotations

from pathlib import Path

import pytest

from livery.harness.folder import load_harness
from livery.harness.model import Harness
from livery.shop.catalogue import Catalogue
from livery.shop.loading import load_catalogue

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session", params=["en", "zh"])
def sample(request: pytest.FixtureRequest) -> Harness:
    """Each sample harness in turn."""
    return load_harness(ROOT / f"harnesses/streamer-{request.param}").harness


@pytest.fixture(scope="session")
def english() -> Harness:
    return load_harness(ROOT / "harnesses/streamer-en").harness


@pytest.fixture(scope="session")
def catalogues() -> dict[str, Catalogue]:
    return {
        language: getattr(loaded := load_catalogue(ROOT / f"stores/demo-{language}"), "catalogue", loaded)
        for language in ("en", "zh")
    }
