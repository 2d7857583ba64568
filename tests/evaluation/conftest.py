"""Base harnesses of the evaluation's tests, loaded once."""

from __future__ import annotations

from pathlib import Path

import pytest

from livery.harness.folder import load_harness
from livery.harness.model import Harness

HARNESSES = Path(__file__).parents[2] / "harnesses"


@pytest.fixture(scope="session")
def english() -> Harness:
    return load_harness(HARNESSES / "streamer-en").harness


@pytest.fixture(scope="session")
def chinese() -> Harness:
    return load_harness(HARNESSES / "streamer-zh").harness
