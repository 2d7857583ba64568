import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from agent_world import LOAD, calls, says
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from livery.agent.telemetry import TrajectorySpans, otlp_spans
from livery.errors import PolicyTimeout


def exported(trajectory, **options):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    TrajectorySpans(provider, **options)(trajectory)
    provider.shutdown()
    return exporter.get_finished_spans()


async def test_a_trajectory_becomes_one_tree_of_spans(run):
    trajectory, _ = await run([calls(LOAD, ("quote", {})), says("Hello.")])
    spans = exported(trajectory)
    assert sorted(s.name for s in spans) == [
        "chat w1",
        "chat w1",
        "execute_tool load_skill",
        "execute_tool quote",
        "invoke_agent test",
    ]
    root = next(s for s in spans if s.name.startswith("invoke_agent"))
    assert root.parent is None
    assert all(s.parent.span_id == root.context.span_id for s in spans if s is not root)
    assert root.attributes["livery.route"] == "agent"
    assert root.attributes["gen_ai.operation.name"] == "invoke_agent"
    failed = next(s for s in spans if s.name == "execute_tool quote")
    assert failed.attributes["error.type"] == "invalid_arguments"


async def test_what_was_said_is_left_out_unless_asked_for(run):
    trajectory, _ = await run([calls(LOAD), says("Hello dear.")], "my phone is 555")
    assert "555" not in repr([dict(s.attributes) for s in exported(trajectory)])
    assert "Hello dear." not in repr([dict(s.attributes) for s in exported(trajectory)])
    told = repr([dict(s.attributes) for s in exported(trajectory, content=True)])
    assert "555" in told
    assert "Hello dear." in told


async def test_a_degraded_request_is_marked_as_an_error(run):
    trajectory, _ = await run([PolicyTimeout("slow")], "how much is number 1")
    (root,) = exported(trajectory)
    assert root.attributes["error.type"] == "livery.degraded"
    assert root.attributes["livery.route.reason"].startswith("policy: PolicyTimeout")


async def test_spans_are_sent_by_otlp_to_where_the_environment_says(run, monkeypatch):
    received = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    trajectory, _ = await run([calls(LOAD), says("Hello.")])
    try:
        with otlp_spans("livery-test") as spans:
            spans(trajectory)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    ((path, body),) = received
    assert path == "/v1/traces"
    assert b"invoke_agent test" in body
    assert b"livery-test" in body
