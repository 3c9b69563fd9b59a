"""Signing in and out, and what a person sets for this browser."""

from typing import Final

from django.conf import settings
from django.contrib.auth import authenticate, login, logout
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from console.access_forms import MAX_PASSWORD_CHARS
from console.forms import ZONES, Profile
from console.pages import page, show
from console.preferences import THEMES, Preferences, read_preferences, write_preferences

#: Longer ones are nobody's. Neither the table of people nor the one of failed attempts could hold them.
MAX_NAME_CHARS: Final = 150


@never_cache
@sensitive_post_parameters("password")
def sign_in(request: HttpRequest) -> HttpResponse:
    """Too many failures lock this name from this address for a while; the page says so and for how long."""
    target = _safe_target(request)
    if request.user.is_authenticated:
        return redirect(target)
    if request.method != "POST":
        return show(request, "console/sign_in.html", {"next": target})
    name, password = request.POST.get("username", ""), request.POST.get("password", "")
    may_be = _may_be_somebodys(name, MAX_NAME_CHARS) and _may_be_somebodys(
        password, MAX_PASSWORD_CHARS
    )
    user = authenticate(request, username=name, password=password) if may_be else None
    if user is not None:
        login(request, user)
        return redirect(target)
    locked = bool(getattr(request, "axes_locked_out", False))
    shown = name[:MAX_NAME_CHARS]
    context = {"next": target, "username": shown, "fault": _fault(locked=locked), "locked": locked}
    return show(request, "console/sign_in.html", context, status=429 if locked else 401)


def _may_be_somebodys(text: str, most: int) -> bool:
    """Whether anybody could be asked for by it: the database takes no NUL, and no endless text."""
    return 0 < len(text) <= most and "\x00" not in text


def locked_out(
    request: HttpRequest,
    original: HttpResponse | None = None,  # noqa: ARG001
    credentials: object = None,  # noqa: ARG001
) -> HttpResponse:
    """What a locked name is answered with, wherever it tried to sign in."""
    context = {"next": "/", "username": "", "fault": _fault(locked=True), "locked": True}
    return show(request, "console/sign_in.html", context, status=429)


def _fault(*, locked: bool) -> str:
    if locked:
        minutes = round(settings.AXES_COOLOFF_TIME * 60)
        return _(
            "Too many failed attempts: this name is locked from here for %(n)d minutes."
            " An administrator can unlock it sooner."
        ) % {"n": minutes}
    return _("The name or the password is wrong.")


def sign_out(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    logout(request)
    return redirect("console:sign-in")


@page(methods=("GET", "HEAD", "POST"), receipts=False)
def profile(request: HttpRequest) -> HttpResponse:
    form = Profile(request.POST or None)
    if request.method != "POST" or not form.is_valid():
        context = {
            "form": form,
            "languages": settings.LANGUAGES,
            "language": get_language(),
            "zones": ZONES,
        }
        return show(request, "console/profile.html", context, status=422 if form.is_bound else 200)
    told = form.cleaned_data
    response = redirect("console:profile")
    wanted = Preferences(theme=told["theme"], zone=told["zone"], shortcuts=told["shortcuts"])
    write_preferences(response, wanted, language=told["language"])
    return response


@page(methods=("POST",), receipts=False)
def theme(request: HttpRequest) -> HttpResponse:
    """The switch in the top bar: the next theme, and back to the page."""
    wanted = request.POST.get("theme", "")
    response = redirect(_safe_target(request))
    if wanted in THEMES:
        now = read_preferences(request)
        write_preferences(
            response, Preferences(theme=wanted, zone=now.zone, shortcuts=now.shortcuts)
        )
    return response


@page()
def shortcuts(request: HttpRequest) -> HttpResponse:
    return show(request, "console/shortcuts.html", {})


@page()
def menu(request: HttpRequest) -> HttpResponse:
    """What the rail has beside the four pages of the narrow bar."""
    return show(request, "console/menu.html", {})


def _safe_target(request: HttpRequest) -> str:
    """Where to go afterwards: a page of this host, whatever the address says."""
    target = request.POST.get("next") or request.GET.get("next") or ""
    allowed = url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return target if allowed and target.startswith("/") else "/"
