"""Pages for what went wrong outside of any view."""

import logging
import sys
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

log = logging.getLogger(__name__)

#: So long a person waits before they look again; whoever repeats by a program reads it in Retry-After.
RETRY_AFTER_SECONDS: Final = 5


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:  # noqa: ARG001
    return render(request, "console/errors/plain.html", {"code": 403}, status=403)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:  # noqa: ARG001
    return render(request, "console/errors/plain.html", {"code": 404}, status=404)


def failed(request: HttpRequest) -> HttpResponse:
    """Touches neither the database nor the session: either may be what failed."""
    from console.unavailable import answer_to  # it stands on this module

    if answer := answer_to(request, sys.exc_info()[1]):
        return answer
    context = {"code": 500, "request_id": getattr(request, "request_id", "")}
    return render(None, "console/errors/plain.html", context, status=500)


def unavailable(
    request: HttpRequest, error: BaseException, *, cause: str, holds: str
) -> HttpResponse:
    """503: what happened, what still holds, and what to do. Logged here, and nowhere else.

    A poll gets a sentence: the page that it belongs to stays as it is, and says how old it is.
    """
    log.warning("database unavailable", extra={"cause": type(error.__cause__ or error).__name__})
    context = {
        "code": 503,
        "cause": cause,
        "holds": holds,
        "again": request.get_full_path() if request.method in ("GET", "HEAD") else "",
        "filtered": bool(request.GET),
        "request_id": getattr(request, "request_id", ""),
    }
    part = "#sentence" if request.headers.get("HX-Request") == "true" else ""
    answer = render(None, f"console/errors/unavailable.html{part}", context, status=503)
    answer["Retry-After"] = str(RETRY_AFTER_SECONDS)
    answer["Cache-Control"] = "no-store"
    answer._has_been_logged = True  # type: ignore[attr-defined]  # Django would log it once more
    return answer


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001
    return render(request, "console/errors/plain.html", {"code": 403, "csrf": True}, status=403)
