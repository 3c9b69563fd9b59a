"""Pages for what went wrong outside of any view."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:  # noqa: ARG001
    return render(request, "console/errors/plain.html", {"code": 403}, status=403)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:  # noqa: ARG001
    return render(request, "console/errors/plain.html", {"code": 404}, status=404)


def failed(request: HttpRequest) -> HttpResponse:
    """Touches neither the database nor the session: either may be what failed."""
    context = {"code": 500, "request_id": getattr(request, "request_id", "")}
    return render(None, "console/errors/plain.html", context, status=500)


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001
    return render(request, "console/errors/plain.html", {"code": 403, "csrf": True}, status=403)
