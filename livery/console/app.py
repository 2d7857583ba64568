"""The web app: stage, operator's console and API in one FastAPI application.

`create_app` joins the parts; each page's own code is in `stage`, `live`, `editor` and `api`. No business
logic: rooms, releases and operations are called, never reimplemented.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from livery.console import api, api_harness, editor, live, stage
from livery.console.api import Faults, problem_view
from livery.console.auth import Guard, NotSignedIn
from livery.console.context import Console, ConsoleContext
from livery.errors import InputError, LiveryError

STATIC = Path(__file__).parent / "static"


def create_app(context: ConsoleContext) -> FastAPI:
    """The console over running rooms. Rooms are started and stopped by the caller, not by the app."""
    console = Console(context)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        async with AsyncExitStack() as stack:
            for watch in console.watches.values():
                task = asyncio.create_task(watch.run())
                stack.push_async_callback(_ended, task)
            stack.push_async_callback(_reading_ended, console)
            # Last in, first out: open streams end before the watchers they read from.
            stack.callback(console.closing.set)
            yield

    app = FastAPI(
        title="livery console",
        version=context.version,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.state.console = console
    app.add_middleware(
        Guard,
        allowed_hosts=context.settings.allowed_hosts,
        allowed_origins=context.settings.allowed_origins,
        max_body_bytes=context.settings.max_body_bytes,
    )
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    for part in (api, api_harness, stage, live, editor):
        app.include_router(part.router)
    app.add_exception_handler(NotSignedIn, _sign_in)
    app.add_exception_handler(HTTPException, _http_fault)
    app.add_exception_handler(Faults, _faults)
    app.add_exception_handler(InputError, _bad_input)
    app.add_exception_handler(LiveryError, _refused)
    return app


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (fault := task.exception()):
        raise fault


async def _reading_ended(console: Console) -> None:
    for task in tuple(console.reading):
        await _ended(task)


async def _sign_in(request: Request, _: Exception) -> Response:
    """To the login page for people, 401 for programs."""
    if request.headers.get("hx-request"):
        return Response(status_code=401, headers={"hx-redirect": "/login"})
    if _is_navigation(request):
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?next={quote(path, safe='')}", 303)
    return JSONResponse(
        {
            "errors": [
                {
                    "field": "Authorization",
                    "message": "expected the operator's token (and, by cookie, our page's header)",
                }
            ]
        },
        401,
        headers={"www-authenticate": "Bearer"},
    )


async def _http_fault(request: Request, fault: Exception) -> Response:
    """A page for people who opened an address, JSON for everything else."""
    assert isinstance(fault, HTTPException)
    if not _is_navigation(request):
        return await http_exception_handler(request, fault)
    return HTMLResponse(_message_page(request, str(fault.detail)), fault.status_code)


def _is_navigation(request: Request) -> bool:
    wants_page = "text/html" in request.headers.get("accept", "")
    return request.method == "GET" and wants_page and "hx-request" not in request.headers


def _message_page(request: Request, text: str) -> str:
    console: Console = request.app.state.console
    return console.render("message.html", text=text)


async def _faults(_: Request, fault: Exception) -> Response:
    assert isinstance(fault, Faults)
    return JSONResponse(fault.view(), 422)


async def _bad_input(_: Request, fault: Exception) -> Response:
    assert isinstance(fault, InputError)
    return JSONResponse({"errors": [problem_view(p) for p in fault.problems]}, 422)


async def _refused(request: Request, fault: Exception) -> Response:
    if _is_navigation(request):
        return HTMLResponse(_message_page(request, str(fault)), 404)
    return JSONResponse({"errors": [{"field": "", "message": str(fault)}]}, 404)
