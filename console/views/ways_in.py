"""`/people/new`, `/welcome`: who is new gets a code, shown once, and sets a password by it; others set another."""

from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth import login, update_session_auth_hash
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from console.access_forms import ByCode, NewCode, NewPerson, OwnPassword, take_faults
from console.accesses import ROLES
from console.forms import new_action_key
from console.pages import page, refuse, show
from console.people import actor_of
from coordinator import digests
from coordinator.actors import Actor, ActorKind
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors import console_people
from coordinator.services.answers import RequestKey
from coordinator.services.newcomers import (
    WayIn,
    admit_person,
    give_code,
    holder_of,
    set_first_password,
    set_own_password,
)

_BOTH = ("GET", "HEAD", "POST")
_BACKEND = "django.contrib.auth.backends.ModelBackend"


@page(needs="administer", methods=_BOTH)
def admit(request: HttpRequest) -> HttpResponse:
    form = NewPerson(request.POST or None)
    if request.method == "POST" and form.is_valid():
        told = form.cleaned_data
        answer = admit_person(
            name=told["name"],
            role=told["role"],
            reason=told["reason"],
            actor=actor_of(request),
            request=_request_key(request, "person"),
        )
        if isinstance(answer, WayIn):
            return _shown_once(request, answer)
        take_faults(form, answer)
    context = {
        "form": form,
        "roles": ROLES,
        "role": form.data.get("role", "viewer"),
        "action_key": new_action_key(),
    }
    return show(request, "console/person_new.html", context, status=422 if form.is_bound else 200)


@page(needs="administer", methods=_BOTH)
def code(request: HttpRequest, user_id: int) -> HttpResponse:
    """A way in for who has forgotten the password, or let the first code run out."""
    found = console_people.find_person(user_id)
    if found is None:
        return refuse(request, 404, {"what": str(user_id)})
    form = NewCode(request.POST or None)
    if request.method == "POST" and form.is_valid():
        told = form.cleaned_data
        answer = give_code(
            user_id=user_id,
            shown=[name for name in told["shown_roles"].split(",") if name],
            reason=told["reason"],
            actor=actor_of(request),
            request=_request_key(request, f"code:{user_id}"),
        )
        if isinstance(answer, WayIn):
            return _shown_once(request, answer)
        if answer.outcome is Outcome.STATE_VERSION_MISMATCH:
            return _moved(request, told["shown_roles"], ", ".join(found.roles), answer)
        take_faults(form, answer)
    context = {
        "person": found,
        "closed": _why_closed(request, found),
        "form": form,
        "action_key": new_action_key(),
    }
    return show(request, "console/person_code.html", context, status=422 if form.is_bound else 200)


@never_cache
@sensitive_post_parameters("password", "again", "code")
def welcome(request: HttpRequest) -> HttpResponse:
    """Set a password by a code, and be signed in. The code is typed and stands in no address: those are logged."""
    if request.method != "POST":
        return show(request, "console/welcome.html", {"name": request.GET.get("name", "")[:150]})
    given = {name: request.POST.get(name, "") for name in ("name", "code")}
    holder = holder_of(name=given["name"][:150], code=given["code"].strip()[:200])
    form = ByCode(request.POST, user=holder)
    if holder is not None and form.is_valid():
        user = set_first_password(
            user_id=holder.pk,
            code=given["code"].strip(),
            password=make_password(form.cleaned_data["password"]),
            actor=_themselves(request, holder),
        )
        if user is not None:
            login(request, user, backend=_BACKEND)
            return redirect("console:overview")
        holder = None
    context = {"form": form, "name": given["name"][:150], "nobody": holder is None}
    return show(request, "console/welcome.html", context, status=422)


@sensitive_post_parameters("current", "password", "again")
@page(
    methods=_BOTH, receipts=False
)  # a receipt keeps a digest of what was typed; of a password nothing is kept
def password(request: HttpRequest) -> HttpResponse:
    assert isinstance(request.user, User)
    known = request.user.password
    form = OwnPassword(request.POST or None, user=request.user)
    if request.method == "POST" and form.is_valid():
        user = set_own_password(
            user_id=request.user.pk,
            known=known,
            password=make_password(form.cleaned_data["password"]),
            actor=actor_of(request),
        )
        if user is not None:
            update_session_auth_hash(request, user)
            messages.success(
                request, _("Your password is set. Other sessions and your tokens end.")
            )
            return redirect("console:profile")
        form.add_error("current", _("It was changed just now, elsewhere."))
    return show(
        request, "console/password.html", {"form": form}, status=422 if form.is_bound else 200
    )


def _why_closed(request: HttpRequest, found: console_people.Person) -> str:
    if found.id == request.user.pk:
        return _("You set your own password in your profile.")
    if found.is_superuser:
        return _("A superuser's password is set on the server.")
    return "" if found.is_active else _("The account is disabled.")


def _moved(request: HttpRequest, shown: str, now: str, refusal: Refusal) -> HttpResponse:
    context = {
        "refusal": refusal,
        "detail": refusal.detail,
        "changes": [(_("Role"), shown.replace(",", ", ") or "—", now or "—")],
        "back": request.path,
    }
    return refuse(request, 409, context)


def _shown_once(request: HttpRequest, way: WayIn) -> HttpResponse:
    """The only answer that ever has the code. Sent again, the form gets the page without it."""
    address = request.build_absolute_uri(reverse("console:welcome"))
    context = {"way": way, "address": f"{address}?{urlencode({'name': way.name})}"}
    return show(request, "console/person_way_in.html", context)


def _themselves(request: HttpRequest, user: User) -> Actor:
    """The holder of a code, who is not signed in yet."""
    return Actor(
        kind=ActorKind.OPERATOR,
        name=user.get_username(),
        id=user.pk,
        request_id=getattr(request, "request_id", ""),
        address=request.META.get("REMOTE_ADDR", ""),
    )


def _request_key(request: HttpRequest, route: str) -> RequestKey:
    sent = sorted((name, request.POST.getlist(name)) for name in request.POST)
    body = [pair for pair in sent if pair[0] not in ("csrfmiddlewaretoken", "action_key")]
    digest = digests.sha256(repr(body).encode())
    return RequestKey(f"console:{request.user.pk}:{route}", request.POST["action_key"], digest)
