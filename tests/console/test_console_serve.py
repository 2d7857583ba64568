"""Serving inside an asyncio program: start, port in use, orderly end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import httpx
import pytest
from console_examples import open_desk, sse_events

from livery.console.serve import PortInUse, bind, serve


def test_a_port_in_use_is_said_so_with_what_to_do():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=rf"port {port} of 127\.0\.0\.1 is in use; stop the program"):
            bind("127.0.0.1", port)


def test_an_address_that_is_not_ours_is_said_so():
    with pytest.raises(PortInUse, match=r"cannot listen on 192\.0\.2\.1"):
        bind("192.0.2.1", 8700)


async def test_a_signal_ends_open_streams_and_returns_to_the_caller(tmp_path: Path):
    async with asyncio.timeout(20), open_desk(tmp_path) as desk:
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(serve(desk.app, "127.0.0.1", 0, on_ready=ready.set_result))
        address = await ready
        async with (
            httpx.AsyncClient(base_url=address) as client,
            client.stream("GET", "/stage/demo/events") as stream,
        ):
            events = sse_events(stream)
            assert (await anext(events))[0] == "snapshot"
            os.kill(os.getpid(), signal.SIGTERM)
            assert [kind async for kind, _, _ in events] == []
        await task
        assert (await desk.room.submit(message())).accepted  # the room is the caller's to stop


def message():
    from livery.types import ChatMessage

    return ChatMessage(id="after", room="demo", viewer="v", text="still here?", at=0)


async def test_cancelling_ends_the_server_and_frees_the_port(tmp_path: Path):
    async with asyncio.timeout(20), open_desk(tmp_path) as desk:
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(serve(desk.app, "127.0.0.1", 0, on_ready=ready.set_result))
        address = await ready
        async with httpx.AsyncClient(base_url=address) as client:
            assert (await client.get("/healthz")).status_code == 200
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        bind("127.0.0.1", int(address.rpartition(":")[2])).close()
