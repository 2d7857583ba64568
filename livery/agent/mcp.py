"""Tools from MCP servers (modelcontextprotocol.io) as operations and tools, over stdio or streamable HTTP.

One task per server keeps its session: it connects, lists the tools, lists them again when the server says
they changed and every ``refresh_s``, and connects again after the server's death. A call never waits for
that: while a server is away its operations answer `OperationError` at once, as data for the policy.

What a server returns is data from outside. It is shown to a policy like any tool result, and no part of it is
ever an instruction to the runtime. Sampling, elicitation and roots, by which a server would ask something of
us, are not offered.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema import exceptions as schema_exceptions
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.types import (
    CallToolResult,
    EmbeddedResource,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolListChangedNotification,
)
from mcp.types import Tool as ListedTool
from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, METHOD_NOT_FOUND, REQUEST_TIMEOUT
from pydantic import ValidationError

from livery.harness.model import Binding, McpServer, Tool
from livery.harness.schema import schema_faults
from livery.shop.operations import Operation, OperationContext, OperationError, Outcome
from livery.types import JSON, ErrorKind

log = logging.getLogger(__name__)

CONNECT_S = 30.0
"""Longest handshake: a server may have to start first."""
LONGEST_RESULT = 32_000
"""Characters of a result that are passed on. A longer one is an error and not cut in silence."""
_BACKOFF_S = (0.1, 0.5, 2.0, 5.0, 15.0)
_PAGES = 100
_SURFACE_NAME = re.compile(r"[^A-Za-z0-9_-]+")


class McpTools:
    """The tools of a harness's MCP servers. An async context manager; open it in the loop that calls them."""

    def __init__(self, servers: Sequence[McpServer], *, on_change: Callable[[], None] | None = None) -> None:
        """
        Args:
            on_change: called in the loop whenever `version` has grown.
        """
        self._version = 0
        self._on_change = on_change
        self._connections = {s.name: _Connection(s, self._changed) for s in servers}
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def version(self) -> int:
        """Grows when the tools of any server changed: `operations` and `tools` are then different."""
        return self._version

    @property
    def problems(self) -> dict[str, str]:
        """Server name -> why it is not connected, for those that are not."""
        return {n: c.problem or "connecting" for n, c in self._connections.items() if c.client is None}

    async def __aenter__(self) -> McpTools:
        """Connect to all servers, waiting for each no longer than its ``timeout_s``. One that is not there by
        then goes on being tried, and its tools appear later."""
        for connection in self._connections.values():
            self._tasks.append(asyncio.create_task(connection.keep()))
        waits = (self._started(c) for c in self._connections.values())
        await asyncio.gather(*waits)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections.values():
            connection.close()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=10.0)
            for task in late:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._tasks.clear()

    @staticmethod
    async def _started(connection: _Connection) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(connection.server.timeout_s):
                await connection.started.wait()

    def _changed(self) -> None:
        self._version += 1
        if self._on_change is not None:
            self._on_change()

    def operations(self) -> list[Operation]:
        """``mcp.<server>.<tool>`` for every tool listed now, also of a server that is away for the moment."""
        return [
            Operation(
                name=f"mcp.{connection.server.name}.{listed.name}",
                summary=listed.description or listed.title or listed.name,
                parameters=listed.input_schema,
                writes=not (listed.annotations and listed.annotations.read_only_hint),
                run=connection.runner(listed),
            )
            for connection in self._connections.values()
            for listed in connection.listed
        ]

    def tools(self, taken: Collection[str] = ()) -> list[Tool]:
        """Each listed tool as the server describes it, bound to its operation.

        Args:
            taken: tool names of the harness. A name that is taken, there or by another server, gets its
                server's name in front.
        """
        names = set(taken)
        tools: list[Tool] = []
        for connection in self._connections.values():
            server = connection.server
            for listed in connection.listed:
                name = _surface_name(listed.name)
                if name in names:
                    name = _surface_name(f"{server.name}_{listed.name}")
                number = 2
                while name in names:
                    name, number = _surface_name(f"{server.name}_{number}_{listed.name}"), number + 1
                names.add(name)
                key = f"mcp.{server.name}.{listed.name}"
                annotations = listed.annotations
                tools.append(
                    Tool(
                        key=key,
                        name=name,
                        description=listed.description or listed.title or listed.name,
                        input_schema=listed.input_schema,
                        annotations=annotations.model_dump(by_alias=True, exclude_none=True) if annotations else {},
                        binding=Binding(operation=key),
                        timeout_s=server.timeout_s,
                    )
                )
        return tools


def _surface_name(name: str) -> str:
    """As function-calling servers accept it: at most 64 letters, digits, ``_`` and ``-``."""
    return _SURFACE_NAME.sub("_", name)[:64]


class _Connection:
    """One server's session, kept by one task (a session must be left by the task that entered it)."""

    def __init__(self, server: McpServer, on_change: Callable[[], None]) -> None:
        self.server = server
        self.client: Client | None = None
        self.listed: tuple[ListedTool, ...] = ()
        self.problem = ""
        self.started = asyncio.Event()
        self._on_change = on_change
        self._wake = asyncio.Event()
        self._closing = False
        self._lost = ""
        self._failures = 0

    def close(self) -> None:
        self._closing = True
        self._wake.set()

    def lost(self, client: Client, why: str) -> None:
        """That session is of no use any more."""
        if self.client is client:  # not a late word about an earlier one
            self.client = None
            self._lost = why
            self._wake.set()

    async def keep(self) -> None:
        while not self._closing:
            self._lost = ""
            try:
                await self._session()
            except Exception as error:  # whatever the SDK, the transport or the server makes of it
                self.problem = _told(error)
            if self._closing:
                return
            self.started.set()  # tried, at least
            log.warning("MCP server %r is away: %s", self.server.name, self.problem)
            delay_s = _BACKOFF_S[min(self._failures, len(_BACKOFF_S) - 1)]
            self._failures += 1
            self._wake.clear()
            if not self._closing:
                with suppress(TimeoutError):
                    async with asyncio.timeout(delay_s):
                        await self._wake.wait()

    async def _session(self) -> None:
        server = self.server
        target: StdioServerParameters | str = (
            StdioServerParameters(command=server.command[0], args=list(server.command[1:]), env=dict(server.env))
            if server.transport == "stdio"
            else server.url
        )
        async with Client(target, read_timeout_seconds=CONNECT_S, message_handler=self._heard) as client:
            await self._list(client)
            self.client = client
            self.problem = ""
            self._failures = 0
            self.started.set()
            listening = asyncio.create_task(self._listen(client))
            try:
                while not self._closing and not self._lost:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(server.refresh_s):
                            await self._wake.wait()
                    self._wake.clear()
                    if not self._closing and not self._lost:
                        await self._list(client)
                self.problem = self._lost
            finally:
                self.client = None
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

    async def _heard(self, message: object) -> None:
        """Notifications of servers before protocol 2026-07-28."""
        if isinstance(message, ToolListChangedNotification):
            self._wake.set()

    async def _listen(self, client: Client) -> None:
        """Notifications of newer servers, which are subscribed to."""
        try:
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._wake.set()
        except (ListenNotSupportedError, MCPError, TimeoutError):
            return  # then `_heard` and the refresh time must do
        except SubscriptionLost as error:
            self.lost(client, _told(error))

    async def _list(self, client: Client) -> None:
        listed: list[ListedTool] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await client.list_tools(cursor=cursor, cache_mode="refresh")
            listed += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        wanted = self.server.tools
        shown = tuple(t for t in listed if not wanted or t.name in wanted)
        missing = sorted(set(wanted) - {t.name for t in shown})
        if missing:
            log.warning("MCP server %r has no tool %s", self.server.name, ", ".join(missing))
        if shown != self.listed:
            self.listed = shown
            self._on_change()

    # --------------------------------------------------------------------------------------- calls

    def runner(self, tool: ListedTool) -> Callable[[OperationContext, Mapping[str, Any]], Any]:
        check = _argument_check(tool.input_schema)

        async def run(context: OperationContext, arguments: Mapping[str, Any]) -> Outcome:
            wrong = check(dict(arguments))
            if wrong:
                raise OperationError(ErrorKind.INVALID_ARGUMENTS, wrong)
            return Outcome(value=_value(await self._call(tool.name, arguments), self.server.name))

        return run

    async def _call(self, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
        name, timeout_s = self.server.name, self.server.timeout_s
        client = self.client
        if client is None:
            raise OperationError(
                ErrorKind.UNAVAILABLE,
                f"the server {name!r} behind this tool is not connected; it is being tried again",
            )
        try:
            return await client.call_tool(tool, dict(arguments), read_timeout_seconds=timeout_s)
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                raise _timeout(name, timeout_s) from error
            if error.code == INVALID_PARAMS:
                raise OperationError(ErrorKind.INVALID_ARGUMENTS, error.message) from error
            if error.code in (CONNECTION_CLOSED, METHOD_NOT_FOUND):
                self.lost(client, _told(error))
                raise OperationError(ErrorKind.UNAVAILABLE, f"the server {name!r} went away during the call") from error
            raise OperationError(ErrorKind.EXCEPTION, error.message) from error
        except TimeoutError as error:
            raise _timeout(name, timeout_s) from error
        except (ValidationError, RuntimeError) as error:  # RuntimeError: against its own output schema
            raise OperationError(
                ErrorKind.MALFORMED, f"the server {name!r} answered with something that is no result: {error}"
            ) from error
        except Exception as error:  # each transport's own: the line is broken
            self.lost(client, _told(error))
            raise OperationError(
                ErrorKind.UNAVAILABLE, f"the server {name!r} cannot be reached: {_told(error)}"
            ) from error


def _timeout(name: str, timeout_s: float) -> OperationError:
    return OperationError(ErrorKind.TIMEOUT, f"the server {name!r} gave no result within {timeout_s:g} s")


def _told(error: BaseException) -> str:
    """The innermost first cause: task groups wrap what happened."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _argument_check(schema: Mapping[str, Any]) -> Callable[[dict[str, Any]], str]:
    """What is wrong with arguments by a server's schema; empty when nothing, or when the schema itself is not
    one (the server then judges alone)."""
    if schema_faults(dict(schema)):
        return lambda _: ""
    validator: Any = Draft202012Validator(schema)

    def check(arguments: dict[str, Any]) -> str:
        error = cast("Any", schema_exceptions).best_match(validator.iter_errors(arguments))
        if error is None:
            return ""
        where = ".".join(str(part) for part in error.absolute_path)
        return f"{where}: {error.message}" if where else str(error.message)

    return check


def _value(result: CallToolResult, name: str) -> JSON:
    """The structured content where there is one, else the text, typed where it is a JSON object or list.

    Many servers have only text, and write JSON into it: left as text it would be quoted a second time for the
    policy, and its fields would bear nothing out.

    Raises:
        OperationError: the tool says it failed, or says too much.
    """
    text = "\n".join(_block_text(block) for block in result.content)
    if result.is_error:
        raise OperationError(ErrorKind.EXCEPTION, text[:2000] or "the tool failed without saying why")
    value: JSON = _typed(text) if result.structured_content is None else result.structured_content
    size = len(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    if size > LONGEST_RESULT:
        raise OperationError(
            ErrorKind.MALFORMED,
            f"the server {name!r} answered with {size} characters; at most {LONGEST_RESULT} are read: ask for less",
        )
    return value


def _typed(text: str) -> JSON:
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.loads(text, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return text


def _no_json(word: str) -> JSON:
    raise ValueError(word)  # NaN and Infinity, which Python's reader would let through


def _block_text(block: object) -> str:
    match block:
        case TextContent():
            return block.text
        case EmbeddedResource(resource=TextResourceContents(text=text)):
            return text
        case ResourceLink():
            return f"[{block.name}: {block.uri}]"
        case _:
            return f"[{getattr(block, 'type', 'content')} not shown]"
