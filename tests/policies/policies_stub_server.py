"""An HTTP server of a test's own making that answers as told, faults included. Not a test module."""

import asyncio
import json
from contextlib import asynccontextmanager


class StubServer:
    """Each request takes the next of ``answers``; an answer is an async function of its `Exchange`."""

    def __init__(self, *answers):
        self._answers = list(answers)
        self.seen = []
        """(path, headers, body) of each request."""
        self.hung_up = asyncio.Event()
        """Set when a client leaves an answer that waits for it."""
        self.url = ""

    async def handle(self, reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.seen.append((lines[0].split()[1], headers, json.loads(body or b"null")))
            await self._answers.pop(0)(Exchange(self, reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            self.hung_up.set()
        finally:
            writer.close()


class Exchange:
    def __init__(self, server, reader, writer):
        self._server, self._reader, self.writer = server, reader, writer

    async def whole(self, status, body=b"", **headers):
        fields = {
            "content-length": len(body),
            "content-type": "application/json",
            "connection": "close",
            **headers,
        }
        lines = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in fields.items())
        self.writer.write(f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode() + body)
        await self.writer.drain()

    async def begin(self):
        self.writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
            b"connection: close\r\n\r\n"
        )
        await self.writer.drain()

    async def event(self, data):
        text = f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
        self.writer.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")
        await self.writer.drain()

    async def end(self):
        await self.event("[DONE]")
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def wait_for_hang_up(self):
        await self._reader.read()
        self._server.hung_up.set()


def chunk(delta=None, finish=None, **more):
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "m-1",
        "choices": choices,
        **more,
    }


def stream(*chunks):
    async def answer(exchange):
        await exchange.begin()
        for part in chunks:
            await exchange.event(part)
        await exchange.end()

    return answer


def says(text):
    return stream(chunk({"role": "assistant", "content": text}), chunk({}, "stop"))


def status(code, **headers):
    async def answer(exchange):
        await exchange.whole(code, b'{"error": {"message": "no"}}', **headers)

    return answer


async def cut(exchange):
    """A stream that breaks off."""
    await exchange.begin()
    await exchange.event(chunk({"content": "half a re"}))
    exchange.writer.transport.abort()


async def stall(exchange):
    """A stream that goes silent until the client leaves."""
    await exchange.begin()
    await exchange.event(chunk({"content": "half a re"}))
    await exchange.wait_for_hang_up()


@asynccontextmanager
async def serving(*answers):
    stub = StubServer(*answers)
    server = await asyncio.start_server(stub.handle, "127.0.0.1", 0)
    async with server:
        stub.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        yield stub
