"""A stdio MCP server of protocol 2025-06-18, spelled out message by message. Not a test."""

from __future__ import annotations

import json
import sys
from typing import Any

tools: list[dict[str, Any]] = [
    {"name": "odd/name.1", "description": "First.", "inputSchema": {"type": "object"}},
    {"name": "grow", "inputSchema": {"type": "object"}},
]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "older", "version": "1"},
        }
    if method == "tools/list":
        if "cursor" not in params:
            return {"tools": tools[:1], "nextCursor": "1"}
        return {"tools": tools[1:]}
    if method == "tools/call":
        if params["name"] == "grow":
            tools.append({"name": "extra", "inputSchema": {"type": "object"}})
        return {"content": [{"type": "text", "text": "done"}, {"type": "text", "text": "twice"}]}
    return None


def say(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = answer(message["method"], message.get("params") or {})
    if result is None:
        say({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
        continue
    say({"id": message["id"], "result": result})
    if message["method"] == "tools/call" and message["params"]["name"] == "grow":
        say({"method": "notifications/tools/list_changed"})
