"""Requests under /api/: straight to their view where a token signs them, and never answered with a page of HTML."""

from collections.abc import Callable
from typing import Final

from django.core.exceptions import DisallowedHost, RequestDataTooBig, SuspiciousOperation
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import Resolver404, get_resolver

from .endpoint import failed
from .problems import Fault, Problem, render_problem
from .views.meta import unknown_route

PREFIX: Final = "/api/"
#: Answers are data: whatever a browser is told to do with one, nothing in it runs.
_DATA_POLICY: Final = "default-src 'none'; frame-ancestors 'none'"
_BY_STATUS: Final = {
    400: Fault.UNREADABLE,
    403: Fault.CSRF,
    404: Fault.NO_ROUTE,
    405: Fault.METHOD,
    413: Fault.TOO_LARGE,
    429: Fault.THROTTLED,
}

Answer = Callable[[HttpRequest], HttpResponseBase]


class ApiRequests:
    """Stands before everything that is there for browsers: sessions, languages, messages, CSRF.

    A request with an Authorization header needs none of it, and pays a third of its time for
    it; one without goes through all of it, because a signed-in person may have sent it.
    """

    def __init__(self, get_response: Answer) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(PREFIX):
            return self.get_response(request)
        if "HTTP_AUTHORIZATION" in request.META:
            response = _straight(request)
            response.headers.setdefault("Content-Security-Policy", _DATA_POLICY)
            if isinstance(response, HttpResponse):
                # Else the server sends it in chunks, which callers take longer to read.
                response.headers.setdefault("Content-Length", str(len(response.content)))
        else:
            response = _as_problem(self.get_response(request))
        return response


def _straight(request: HttpRequest) -> HttpResponseBase:
    try:
        request.get_host()
        match = get_resolver().resolve(request.path_info)
        request.resolver_match = match
        response: HttpResponseBase = match.func(request, *match.args, **match.kwargs)
    except Resolver404:
        return unknown_route(request)
    except DisallowedHost:
        return render_problem(
            Problem(Fault.UNREADABLE, "The Host header names no host of this server.")
        )
    except RequestDataTooBig:
        return render_problem(
            Problem(Fault.TOO_LARGE, "The body is larger than this server takes.")
        )
    except SuspiciousOperation:
        return render_problem(Problem(Fault.UNREADABLE, "The request is malformed."))
    except Exception as error:  # noqa: BLE001 (nothing may leave as a page of HTML)
        return failed(request, error)
    return response


def _as_problem(response: HttpResponseBase) -> HttpResponseBase:
    """What Django itself refused on the way, in the API's words."""
    if response.status_code < 400 or "json" in response.headers.get("Content-Type", ""):
        return response
    fault = _BY_STATUS.get(response.status_code, Fault.INTERNAL)
    return render_problem(Problem(fault, "The request did not get as far as the API."))
