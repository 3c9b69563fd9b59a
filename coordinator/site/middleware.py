"""Every request gets an id, a span, a log line without its payload, and the headers that Django has no setting for."""

import re
import time
import uuid
from collections.abc import Callable
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponseBase

from coordinator import tracing
from coordinator.log_lines import begin_lines, bind_words
from coordinator.site.databases import drop_broken_connections
from coordinator.site.logs import without_tokens
from coordinator.site.security import PERMISSIONS_POLICY

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")
QUIET_PATHS = ("/static/", "/healthz", "/readyz", "/metrics")
#: So much of a path that is no route of ours is told.
MAX_PATH_CHARS = 200

log = structlog.get_logger("tenure.http")
Answer = Callable[[HttpRequest], HttpResponseBase]


def request_id_of(request: HttpRequest) -> str:
    """The caller's X-Request-Id when it is a plain word, else a new one. It ends in logs, events and the answer."""
    # `headers` would read every header, for each request.
    given = request.META.get("HTTP_X_REQUEST_ID", "")
    plain = REQUEST_ID.fullmatch(given) and without_tokens(given) == given
    return given if plain else uuid.uuid4().hex


class RequestContext:
    """Sets `request.request_id`, answers it as X-Request-Id, and logs method, route, status and duration.

    What the API binds on the way (coordinator/api/telling.py) stands in the same line.
    """

    def __init__(self, get_response: Answer) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request_id = request_id_of(request)
        request.request_id = request_id  # type: ignore[attr-defined]
        begin_lines(request_id=request_id)
        started = time.perf_counter()
        response = self._traced(request) if tracing.is_on() else self.get_response(request)
        if response.status_code >= 500:
            drop_broken_connections()
        response["X-Request-Id"] = request_id
        response.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
        if not request.path.startswith(QUIET_PATHS):
            _tell(request, response, time.perf_counter() - started)
        return response

    def _traced(self, request: HttpRequest) -> HttpResponseBase:
        with tracing.span(request.method or "", carrier=_carrier(request)) as span:
            bind_words(trace_id=format(span.get_span_context().trace_id, "032x"))
            response = self.get_response(request)
            route = route_of(request)
            span.update_name(f"{request.method} {route or 'no route'}")
            for name, value in _told_of(request, response, route).items():
                span.set_attribute(name, value)
        return response


def _carrier(request: HttpRequest) -> dict[str, str]:
    """The two headers of W3C's trace context."""
    names = ("traceparent", "tracestate")
    return {name: request.headers[name] for name in names if name in request.headers}


def _told_of(request: HttpRequest, response: HttpResponseBase, route: str) -> dict[str, Any]:
    return {
        "http.request.method": request.method or "",
        "http.route": route,
        "http.response.status_code": response.status_code,
        "tenure.request_id": getattr(request, "request_id", ""),
    }


def route_of(request: HttpRequest) -> str:
    """`api/v1/tasks/<str:task_id>`: what the path is, without what the caller wrote into it."""
    match = request.resolver_match
    return match.route if match is not None else ""


def _tell(request: HttpRequest, response: HttpResponseBase, seconds: float) -> None:
    failed = response.status_code >= 500 and response.status_code != 503
    route = route_of(request)
    tell = log.error if failed else log.info
    tell(
        "request",
        method=request.method,
        route=route or None,
        path=None if route else without_tokens(request.path[:MAX_PATH_CHARS]),
        status=response.status_code,
        ms=round(seconds * 1000, 1),
    )
