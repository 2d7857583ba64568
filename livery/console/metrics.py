"""Prometheus metrics of one console, in a registry of its own (two apps in a process do not collide).

What a room counts itself (fates, routes, queue) is read from `Room.stats` at each scrape, so the figures
cannot drift from the room's; what only trajectories tell (latency, tokens, hook decisions) is counted as
they pass. Naming follows prometheus.io/docs/practices/naming.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from livery.room.runtime import Room
from livery.types import Trajectory

LATENCY_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1, 2, 3, 4, 6, 8, 10, 15, 20, 30, 60)


class _RoomCounts(Collector):
    """Reads every room's own counts at scrape time."""

    def __init__(self, rooms: Mapping[str, Room]) -> None:
        self._rooms = rooms

    def collect(self) -> Iterator[Metric]:
        accepted = CounterMetricFamily("livery_messages_accepted", "Chat messages accepted.", labels=["room"])
        fates = CounterMetricFamily("livery_messages", "Chat messages by final fate.", labels=["room", "fate"])
        routes = CounterMetricFamily("livery_requests", "Requests by route.", labels=["room", "route"])
        failures = CounterMetricFamily("livery_agent_failures", "Requests whose agent raised.", labels=["room"])
        queued = GaugeMetricFamily("livery_queue_messages", "Messages waiting in the intake.", labels=["room"])
        stages = GaugeMetricFamily("livery_requests_in_stage", "Requests in a stage.", labels=["room", "stage"])
        paused = GaugeMetricFamily("livery_room_paused", "1 while the room is paused.", labels=["room"])
        for name, room in self._rooms.items():
            stats = room.stats()
            accepted.add_metric([name], stats.messages)
            failures.add_metric([name], stats.failures)
            queued.add_metric([name], stats.queued)
            paused.add_metric([name], float(stats.paused))
            for fate, count in stats.fates.items():
                fates.add_metric([name, fate], count)
            for route, count in stats.routes.items():
                routes.add_metric([name, route], count)
            for stage, count in stats.stages.items():
                stages.add_metric([name, stage], count)
        yield from (accepted, fates, routes, failures, queued, stages, paused)


class Metrics:
    def __init__(self, rooms: Mapping[str, Room]) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_RoomCounts(rooms))
        self.latency = Histogram(
            "livery_request_latency_seconds",
            "From the lead message's arrival to the final reply.",
            ["room", "route"],
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.tokens = Counter("livery_tokens", "Policy tokens.", ["room", "kind"], registry=self.registry)
        self.hooks = Counter(
            "livery_hook_decisions",
            "Hook runs by decision; failure is set when the hook itself failed.",
            ["hook", "checkpoint", "decision", "failure"],
            registry=self.registry,
        )
        self.publishes = Counter(
            "livery_publishes", "Moves of a channel.", ["channel", "action"], registry=self.registry
        )

    def count(self, room: str, trajectory: Trajectory) -> None:
        self.latency.labels(room, trajectory.route).observe(trajectory.queue_s + trajectory.total_s)
        usage = trajectory.usage
        for kind in ("prompt", "cached", "output", "reasoning"):
            self.tokens.labels(room, kind).inc(getattr(usage, kind))
        for event in trajectory.hooks:
            self.hooks.labels(event.hook, event.checkpoint, event.decision, event.failure).inc()

    def exposition(self) -> bytes:
        """The text format, version 0.0.4."""
        return generate_latest(self.registry)
