"""How a page is answered: who may see it, and its live part by tag (console design, 3.1).

A view returns its answer by `show`. A page with a live part defines the template partial
`live`; polls get only that partial, or 304 where it is what the page has already. The tag is
a digest of the partial itself: whatever a person would see changed, changes it.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console.people import Permit, actor_of, permit
from console.receipts import once
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors.console_shell import Shell, read_shell
from coordinator.services.refused_callers import record_forbidden


@dataclass(frozen=True, slots=True)
class Live:
    """The live part as it stands, where it is polled and how often."""

    html: SafeString
    tag: str
    url: str
    every_seconds: int


View = TypeVar("View", bound=Callable[..., HttpResponseBase])


def page(
    *, needs: str = "view", methods: tuple[str, ...] = ("GET", "HEAD"), receipts: bool = True
) -> Callable[[View], View]:
    """For signed-in people with a permission; others are asked to sign in, or told who may.

    A form that is sent twice has one effect and one receipt (`console.receipts`); with `receipts=False` it changes
    nothing here, and nothing is kept of it.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            response = (
                _refusal(request, needs, methods)
                or _unnameable(request, kwargs)
                or once(
                    request,
                    lambda: view(request, *args, **kwargs),
                    lambda: _under_way(request),
                    kept=receipts,
                )
            )
            response.headers.setdefault("Cache-Control", "no-store")
            return response

        return cast(View, answer)

    return decorate


def shell_of(request: HttpRequest) -> Shell:
    """Read once a request."""
    shell: Shell | None = getattr(request, "console_shell", None)
    if shell is None:
        shell = read_shell()
        request.console_shell = shell  # type: ignore[attr-defined]
    return shell


def show(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    *,
    every_seconds: int | None = None,
    poll: Mapping[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render a page; with `every_seconds` its live part is polled, with `poll` added to its address."""
    if every_seconds is None:
        return _stamped(request, render(request, template, dict(context), status=status))
    html = render_to_string(f"{template}#live", dict(context), request)
    tag = hashlib.blake2b(html.encode(), digest_size=12).hexdigest()
    if is_poll(request):
        known = request.headers.get("HX-PTag") == tag
        response = HttpResponse(status=304) if known else HttpResponse(html)
        response["HX-PTag"] = tag
        return _stamped(request, response)
    live = Live(html=html, tag=tag, url=_poll_url(request, poll), every_seconds=every_seconds)
    return _stamped(request, render(request, template, {**context, "live": live}, status=status))


def is_poll(request: HttpRequest) -> bool:
    return request.headers.get("HX-Request") == "true"


def refuse(request: HttpRequest, status: int, context: Mapping[str, Any]) -> HttpResponse:
    """One of the pages that say no: 403, 404, 409, 500."""
    return _stamped(
        request, render(request, f"console/errors/{status}.html", dict(context), status=status)
    )


def forbid(request: HttpRequest, allowed: Permit, operation: str) -> HttpResponse:
    """403 with the reason. Who tried to change what they may not is on record, counted (contract 3)."""
    if request.method == "POST":
        refusal = Refusal(Outcome.FORBIDDEN, "The person has no permission for it.")
        record_forbidden(
            refusal=refusal, operation=operation, target=request.path, actor=actor_of(request)
        )
    return refuse(request, 403, {"why": allowed.why})


def _refusal(request: HttpRequest, needs: str, methods: tuple[str, ...]) -> HttpResponse | None:
    if request.method not in methods:
        return HttpResponseNotAllowed(methods)
    if not request.user.is_authenticated:
        if is_poll(request):
            return HttpResponse(status=401)
        query = urlencode({"next": request.get_full_path()})
        response = HttpResponse(status=302)
        response["Location"] = f"{reverse('console:sign-in')}?{query}"
        return response
    allowed = permit(request, needs)
    if allowed:
        return None
    name = request.resolver_match.url_name if request.resolver_match else ""
    return forbid(request, allowed, name or needs)


def _unnameable(request: HttpRequest, path: Mapping[str, Any]) -> HttpResponse | None:
    """404 for an address with a NUL character: no text of the database has one, so that it names nothing."""
    asked = [
        *map(str, path.values()),
        *(text for texts in request.GET.lists() for text in texts[1]),
    ]
    if not any("\x00" in text for text in asked):
        return None
    return refuse(request, 404, {"what": request.path})


def _under_way(request: HttpRequest) -> HttpResponse:
    told = _("The same form is being carried out. Look again in a moment.")
    return refuse(request, 409, {"detail": told, "back": request.get_full_path()})


def _poll_url(request: HttpRequest, poll: Mapping[str, str] | None) -> str:
    query = request.GET.copy()
    for name, value in (poll or {}).items():
        query[name] = value
    return f"{request.path}?{query.urlencode()}" if query else request.path


def _stamped(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    response["Console-Time"] = shell_of(request).now.isoformat()
    response["Vary"] = "HX-Request, Cookie, Accept-Language"
    return response
