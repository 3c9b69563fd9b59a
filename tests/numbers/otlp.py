"""A real receiver of OTLP over HTTP on loopback: it takes spans as any collector would."""

import gzip
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class Span:
    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    links: frozenset[str]
    told: dict[str, Any]


@dataclass
class Receiver:
    spans: list[Span] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.take(body)
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, body: bytes) -> None:
        request: Any = ExportTraceServiceRequest()
        request.ParseFromString(body)
        self.bodies.append(body)
        for resource in request.resource_spans:
            service = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [_span(span, service["service.name"]) for span in scope.spans]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def named(self, name: str) -> list[Span]:
        return [span for span in list(self.spans) if span.name == name]

    def wait_for(self, *names: str) -> None:
        """Until a span of each name has come."""
        self.wait_until(lambda: all(self.named(name) for name in names), names)

    def wait_until(self, there: Callable[[], bool], what: object) -> None:
        deadline = time.monotonic() + 60
        while not there():
            assert time.monotonic() < deadline, (what, sorted({span.name for span in self.spans}))
            time.sleep(0.05)


def _span(span: Any, service: str) -> Span:
    return Span(
        service=service,
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        links=frozenset(link.span_id.hex() for link in span.links),
        told={each.key: _value(each.value) for each in span.attributes},
    )


def _value(value: Any) -> Any:
    if value.HasField("array_value"):
        return [_value(each) for each in value.array_value.values]
    return getattr(value, value.WhichOneof("value"))
