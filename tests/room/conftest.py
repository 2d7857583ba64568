from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from virtual_room import Rooms


@pytest.fixture
async def rooms(tmp_path: Path) -> AsyncIterator[Rooms]:
    started = Rooms(tmp_path / "journal.sqlite")
    yield started
    await started.close()
