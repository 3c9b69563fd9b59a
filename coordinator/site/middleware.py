"""Every request gets an id, a log line without its payload, and the headers that Django has no setting for."""

import re
import time
import uuid
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponseBase

from coordinator.site.security import PERMISSIONS_POLICY

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")
QUIET_PATHS = ("/static/", "/healthz", "/readyz", "/metrics")

log = structlog.get_logger("tenure.http")
Answer = Callable[[HttpRequest], HttpResponseBase]


def request_id_of(request: HttpRequest) -> str:
    """The caller's X-Request-Id when it is a plain word, else a new one. It ends in logs, events and the answer."""
    given = request.headers.get("X-Request-Id", "")
    return given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


class RequestContext:
    """Sets `request.request_id`, answers it as X-Request-Id, and logs method, path, status and duration."""

    def __init__(self, get_response: Answer) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request_id = request_id_of(request)
        request.request_id = request_id  # type: ignore[attr-defined]
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        started = time.perf_counter()
        response = self.get_response(request)
        response["X-Request-Id"] = request_id
        response.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
        if not request.path.startswith(QUIET_PATHS):
            tell = (
                log.error
                if response.status_code >= 500 and response.status_code != 503
                else log.info
            )
            milliseconds = round((time.perf_counter() - started) * 1000, 1)
            tell(
                "request",
                method=request.method,
                path=request.path,
                status=response.status_code,
                ms=milliseconds,
            )
        return response
