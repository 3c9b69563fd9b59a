"""Spans of a worker, joined with the coordinator's by W3C trace context.

Optional: without opentelemetry (`pip install 'tenure[otel]'`) nothing happens here. Where the process has a tracer
provider (`opentelemetry-instrument`, or its own set-up), a claim, the handling of each task and each request are spans,
and requests carry `traceparent`. Never in a span: inputs, results, payloads, tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

#: Where a span stands: opentelemetry's context, or None where there is none.
Trace = Any


def _api() -> Any:
    try:
        from opentelemetry import context, trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        return None
    return SimpleNamespace(
        context=context,
        trace=trace,
        propagator=TraceContextTextMapPropagator(),
        tracer=trace.get_tracer("tenure"),
    )


_otel = _api()


def carried() -> dict[str, str]:
    """The headers that tell the other side which span a request belongs to."""
    headers: dict[str, str] = {}
    if _otel is not None:
        _otel.propagator.inject(headers)
    return headers


@contextmanager
def span(
    name: str,
    *,
    within: Trace = None,
    links: Sequence[Trace] = (),
    outgoing: bool = False,
    **told: str | int,
) -> Iterator[Trace]:
    """A span around what is done inside; yields where it stands, to be `within` or linked to by another.

    A failure is told by its type alone: messages may quote what nobody else should read.
    """
    if _otel is None:
        yield None
        return
    contexts = [
        _otel.trace.get_current_span(link).get_span_context() for link in links if link is not None
    ]
    kind = _otel.trace.SpanKind.CLIENT if outgoing else _otel.trace.SpanKind.INTERNAL
    with _otel.tracer.start_as_current_span(
        name,
        context=within,
        kind=kind,
        attributes={f"tenure.{key}": value for key, value in told.items()},
        links=[_otel.trace.Link(each) for each in contexts if each.is_valid],
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield _otel.context.get_current()
        except BaseException as error:
            current.set_attribute("error.type", type(error).__qualname__)
            current.set_status(_otel.trace.Status(_otel.trace.StatusCode.ERROR))
            raise
