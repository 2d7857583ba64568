"""Rooms with a console: in process, and served on a free port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from console_examples import Desk, Served, Voice, open_desk, serving


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path) as opened, opened.app.router.lifespan_context(opened.app):
        yield opened


@pytest.fixture
async def client(desk: Desk) -> AsyncIterator[httpx.AsyncClient]:
    """The operator, by bearer token."""
    async with desk.client() as opened:
        yield opened


@pytest.fixture
async def stranger(desk: Desk) -> AsyncIterator[httpx.AsyncClient]:
    async with desk.client(signed_in=False) as opened:
        yield opened


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """On a real port; a room with a voice of 60 ms a reply."""
    async with (
        asyncio.timeout(60),
        open_desk(tmp_path, voice=Voice(0.06)) as opened,
        serving(opened) as address,
    ):
        yield Served(opened, address)
