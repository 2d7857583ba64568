"""Trajectories as OpenTelemetry spans, by the GenAI semantic conventions
(opentelemetry.io/docs/specs/semconv/gen-ai).

One ``invoke_agent`` span a request, under it a ``chat`` span a round and an ``execute_tool`` span a call.
Spans are made from the finished trajectory, so that tracing costs the request nothing. Chat text, arguments
and replies are left out unless ``content=True``: they are personal data. Needs the ``otel`` extra.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from livery.errors import LiveryError
from livery.types import Route, ToolResult, Trajectory, Turn

_NS = 1_000_000_000


@contextmanager
def otlp_spans(service: str) -> Generator[TrajectorySpans]:
    """Spans sent to an OTLP endpoint while the context lasts; the ``OTEL_*`` environment variables say where.

    Raises:
        LiveryError: the ``otel`` extra is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise LiveryError(f"--otel needs the otel extra: pip install 'livery[otel]' ({error})") from error
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield TrajectorySpans(provider)
    finally:
        provider.shutdown()


class TrajectorySpans:
    """Give it every finished trajectory: ``AgentService(..., on_trajectory=TrajectorySpans(provider))``."""

    def __init__(self, provider: Any = None, *, content: bool = False) -> None:
        """
        Args:
            provider: an OpenTelemetry ``TracerProvider``; None: the global one.
            content: whether to record what was said.
        """
        from opentelemetry import trace

        self._trace = trace
        self._tracer = trace.get_tracer("livery", tracer_provider=provider)
        self._content = content

    def __call__(self, trajectory: Trajectory) -> None:
        start = int(trajectory.started_at * _NS)
        usage = trajectory.usage
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": _provider(trajectory.policy),
            "gen_ai.agent.name": trajectory.harness,
            "gen_ai.agent.version": trajectory.harness_release,
            "gen_ai.conversation.id": trajectory.request.room,
            "gen_ai.usage.input_tokens": usage.prompt,
            "gen_ai.usage.output_tokens": usage.output,
            "gen_ai.usage.cache_read.input_tokens": usage.cached,
            "livery.request.id": trajectory.id,
            "livery.channel": trajectory.channel,
            "livery.route": trajectory.route.value,
            "livery.route.reason": trajectory.route_reason,
            "livery.hooks.failed": [h.hook for h in trajectory.hooks if h.failure],
        }
        if self._content:
            attributes["gen_ai.input.messages"] = _messages("user", [m.text for m in trajectory.request.messages])
            attributes["gen_ai.output.messages"] = _messages("assistant", [trajectory.reply])
        span = self._tracer.start_span(
            f"invoke_agent {trajectory.harness}",
            kind=self._trace.SpanKind.INTERNAL,
            start_time=start,
            attributes=attributes,
        )
        if trajectory.route in (Route.DEGRADED, Route.SILENT):
            span.set_attribute("error.type", f"livery.{trajectory.route.value}")
        parent = self._trace.set_span_in_context(span)
        for turn in trajectory.turns:
            self._turn(turn, trajectory, start, parent)
        span.end(start + int(trajectory.total_s * _NS))

    def _turn(self, turn: Turn, trajectory: Trajectory, start: int, parent: Any) -> None:
        began = start + int(turn.at_s * _NS)
        ended = began + int(turn.policy.timing.total_s * _NS)
        span = self._tracer.start_span(
            f"chat {turn.weights}",
            context=parent,
            kind=self._trace.SpanKind.CLIENT,
            start_time=began,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": _provider(trajectory.policy),
                "gen_ai.request.model": turn.weights,
                "gen_ai.response.finish_reasons": [turn.policy.stop],
                "gen_ai.usage.input_tokens": turn.policy.usage.prompt,
                "gen_ai.usage.output_tokens": turn.policy.usage.output,
                "gen_ai.usage.cache_read.input_tokens": turn.policy.usage.cached,
                "gen_ai.response.time_to_first_chunk": turn.policy.timing.first_token_s,
                "livery.round": turn.round,
            },
        )
        span.end(ended)
        for result in turn.results:
            self._tool(result, ended, parent)

    def _tool(self, result: ToolResult, began: int, parent: Any) -> None:
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": result.call.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": result.call.id,
            "livery.operation": result.operation,
        }
        if result.error is not None:
            attributes["error.type"] = result.error.kind.value
        if self._content:
            attributes["gen_ai.tool.call.arguments"] = json.dumps(dict(result.call.arguments), ensure_ascii=False)
            attributes["gen_ai.tool.call.result"] = result.text
        span = self._tracer.start_span(
            f"execute_tool {result.call.name}", context=parent, start_time=began, attributes=attributes
        )
        span.end(began + int(result.duration_s * _NS))


def _provider(policy: str) -> str:
    return policy.partition(":")[0]


def _messages(role: str, texts: list[str]) -> str:
    shown = [{"role": role, "parts": [{"type": "text", "content": t}]} for t in texts if t]
    return json.dumps(shown, ensure_ascii=False)
