"""Running the console inside an asyncio program: uvicorn, with an orderly end.

`serve` returns when the server was told to stop (SIGINT or SIGTERM), or raises when its task is cancelled;
either way open event streams are ended first, requests in progress get a few seconds, and the caller's own
clean-up follows. Processes and reloading are not its business.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
import threading
from collections.abc import Callable, Generator

import uvicorn
from fastapi import FastAPI

from livery.errors import LiveryError

GRACE_S = 5
"""How long requests in progress may take to end."""


class PortInUse(LiveryError):
    """The address is taken, or may not be used."""


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, closing: asyncio.Event, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._closing = closing
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn waits for open responses, and an event stream ends only when it is told.
        self._closing.set()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        # uvicorn would raise the signal again at the end, and SIGTERM would then kill the process before
        # rooms and journals are closed. Here it only ends `serve`.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for caught in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(caught, self._stop)
        try:
            yield
        finally:
            for caught in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(caught)

    def _stop(self) -> None:
        self.force_exit = self.should_exit  # the second time: at once
        self.should_exit = True


def bind(host: str, port: int) -> socket.socket:
    """A bound socket; ``port`` 0 takes a free one.

    Raises:
        PortInUse: with what to do about it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(128)
    except OSError as fault:
        bound.close()
        if fault.errno == errno.EADDRINUSE:
            reason = f"port {port} of {host} is in use; stop the program that holds it, or choose another port"
        else:
            reason = f"cannot listen on {host} port {port}: {fault.strerror or fault}"
        raise PortInUse(reason) from fault
    bound.setblocking(False)
    return bound


async def serve(app: FastAPI, host: str, port: int, *, on_ready: Callable[[str], None] | None = None) -> None:
    """Serve a console made by `livery.console.app.create_app` until it is told to stop.

    Args:
        port: 0 takes a free one.
        on_ready: called with the base address once requests are answered.

    Raises:
        PortInUse: the address cannot be had.
    """
    bound = bind(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{bound.getsockname()[1]}"
    config = uvicorn.Config(
        app,
        lifespan="on",
        ws="websockets-sansio",
        ws_max_size=app.state.console.context.settings.max_body_bytes,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config, app.state.console.closing, lambda: on_ready(address) if on_ready else None)
    running = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        server.should_exit = True
        await running
        raise
    finally:
        bound.close()
