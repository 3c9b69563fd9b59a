"""Sends spans to an OpenTelemetry collector where OTEL_EXPORTER_OTLP_ENDPOINT names one (docs/monitoring.md)."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from coordinator import tracing
from coordinator.site import environment

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def start_tracing(service: str) -> bool:
    """Start it in this process, if it is configured; whether it is. To be called in each process after any fork."""
    if environment.flag("OTEL_SDK_DISABLED") or not any(map(environment.text, _ENDPOINTS)):
        return False
    tracing.start(_OpenTelemetry(_provider(service)))
    return True


def _provider(service: str) -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise ImproperlyConfigured(
            "An OpenTelemetry endpoint is set, but its packages are missing. Install the extra: "
            "pip install 'tenure[otel]', or unset OTEL_EXPORTER_OTLP_ENDPOINT."
        ) from None
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": service}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class _OpenTelemetry:
    """The tracer behind coordinator.tracing."""

    def __init__(self, provider: Any) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._trace = trace
        self._propagator = TraceContextTextMapPropagator()
        self._tracer = provider.get_tracer("tenure.coordinator")

    @contextmanager
    def span(self, name: str, *, carrier: Mapping[str, str] | None, **told: Any) -> Iterator[Any]:
        incoming = carrier is not None
        context = self._propagator.extract(carrier) if carrier is not None else None
        kinds = self._trace.SpanKind
        with self._tracer.start_as_current_span(
            name,
            context=context,
            kind=kinds.SERVER if incoming else kinds.INTERNAL,
            attributes=told,
            record_exception=False,  # its text may quote a payload
            set_status_on_exception=False,
        ) as current:
            try:
                yield current
            except BaseException as error:
                current.set_attribute("error.type", type(error).__qualname__)
                current.set_status(self._trace.Status(self._trace.StatusCode.ERROR))
                raise
