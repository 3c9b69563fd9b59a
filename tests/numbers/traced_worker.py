"""A worker's process with a tracer provider of its own, as a host application sets one up."""

import sys

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tenure import Claim, Worker
from tenure.records import Json


def main(url: str, token: str, queue: str) -> None:
    provider = TracerProvider(resource=Resource.create({"service.name": "a-worker"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    worker = Worker(url, token, queue, ttl_seconds=5)

    @worker.handler("work")
    def work(claim: Claim) -> Json:
        claim.stage({"secret-result": "sesame"})
        return {"secret-result": "sesame"}

    worker.run(until_empty=True)
    provider.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
