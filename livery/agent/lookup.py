"""One operation run by the agent itself: for the prompt's facts, or for the degraded route."""

from __future__ import annotations

from collections.abc import Mapping

from livery.agent.formatting import key_value_lines, surface
from livery.shop.operations import OperationContext, OperationError, Operations
from livery.types import JSON, ErrorKind, ToolCall, ToolError, ToolResult


async def look_up(
    operations: Operations,
    context: OperationContext,
    operation: str,
    arguments: Mapping[str, JSON],
    *,
    key: str,
    call_id: str,
) -> ToolResult:
    """The operation's result in the form of a tool's; whatever goes wrong is its ``error``."""
    call = ToolCall(id=call_id, name=operation, arguments=arguments)
    try:
        outcome = await operations.call(operation, arguments, context)
    except OperationError as error:
        failure = ToolError(kind=error.kind, message=error.message)
    except Exception as error:
        # As with a policy's calls: a fault of an operation never takes the request with it.
        failure = ToolError(kind=ErrorKind.EXCEPTION, message=f"{type(error).__name__}: {error}")
    else:
        return ToolResult(
            call=call,
            key=key,
            operation=operation,
            arguments=arguments,
            value=outcome.value,
            text="\n".join(key_value_lines(surface(outcome.value))),
            effects=outcome.effects,
        )
    return ToolResult(call=call, key=key, operation=operation, arguments=arguments, error=failure)
