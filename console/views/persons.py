"""`/people`: who may sign in, their roles, and their personal tokens."""

from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from console.access_forms import (
    DEFAULT_LIFETIME,
    LIFETIMES,
    NewPersonalToken,
    RoleDecision,
    take_faults,
)
from console.accesses import role_choices, standing_of
from console.bindings import token_changes
from console.forms import Revocation, new_action_key
from console.pages import forbid, page, refuse, shell_of, show
from console.people import Permit, actor_of, permit
from coordinator import digests
from coordinator.outcomes import Outcome, Refusal
from coordinator.seen import TokenSeen
from coordinator.selectors import console_people
from coordinator.selectors.console_people import Person
from coordinator.services.answers import RequestKey
from coordinator.services.people import set_role
from coordinator.services.personal_tokens import (
    PersonalToken,
    issue_personal_token,
    revoke_personal_token,
)

_BOTH = ("GET", "HEAD", "POST")


@page()
def people(request: HttpRequest) -> HttpResponse:
    context = {
        "people": console_people.list_people(),
        "may_administer": permit(request, "administer"),
    }
    return show(request, "console/people.html", context, every_seconds=10)


@page()
def person(request: HttpRequest, user_id: int) -> HttpResponse:
    found = console_people.find_person(user_id)
    if found is None:
        return refuse(request, 404, {"what": str(user_id)})
    may, own = permit(request, "administer"), found.id == request.user.pk
    now, sees = shell_of(request).now, bool(may or own)
    tokens = console_people.list_tokens(user_id) if sees else []
    context = {
        "person": found,
        "own": own,
        "may_administer": may,
        "may_see_tokens": sees,
        "tokens": [(each, standing_of(each, now)) for each in tokens],
    }
    return show(request, "console/person.html", context)


@page(methods=_BOTH)
def role(request: HttpRequest, user_id: int) -> HttpResponse:
    found, allowed = console_people.find_person(user_id), permit(request, "administer")
    if found is None:
        return refuse(request, 404, {"what": str(user_id)})
    if request.method == "POST" and not allowed:
        return forbid(request, allowed, "set_role")
    form = RoleDecision(request.POST or None)
    if request.method == "POST" and form.is_valid():
        told = form.cleaned_data
        answer = set_role(
            user_id=user_id,
            role=told["role"] or None,
            shown=[name for name in told["shown_roles"].split(",") if name],
            reason=told["reason"],
            actor=actor_of(request),
        )
        if not isinstance(answer, Refusal):
            messages.success(request, _("The role is changed."))
            return redirect("console:person", user_id=user_id)
        if answer.outcome is not Outcome.INVALID:
            return _refused_role(request, found, told["shown_roles"], answer)
        take_faults(form, answer)
    context = {
        "person": found,
        "allowed": allowed,
        "form": form,
        "choices": role_choices(),
        "chosen": form.data.get("role", found.roles[0] if found.roles else ""),
    }
    return show(request, "console/person_role.html", context, status=422 if form.is_bound else 200)


@page(methods=_BOTH)
def token_new(request: HttpRequest, user_id: int) -> HttpResponse:
    """Only the person makes a token: it acts in their name."""
    found = console_people.find_person(user_id)
    if found is None:
        return refuse(request, 404, {"what": str(user_id)})
    if found.id != request.user.pk:
        theirs = Permit(False, _("A personal token is made by its person alone."))
        return forbid(request, theirs, "issue_personal_token")
    form = NewPersonalToken(request.POST or None)
    if request.method == "POST" and form.is_valid():
        told = form.cleaned_data
        days = told["lifetime"]
        answer = issue_personal_token(
            user_id=user_id,
            name=told["name"],
            expires_at=shell_of(request).now + timedelta(days=days) if days else None,
            actor=actor_of(request),
            request=RequestKey(
                f"console:{user_id}:personal-token",
                told["action_key"],
                digests.sha256(f"{told['name']}\n{days}".encode()),
            ),
        )
        if isinstance(answer, PersonalToken):
            return show(request, "console/person_token.html", {"person": found, "made": answer})
        take_faults(form, answer)
    context = {
        "person": found,
        "form": form,
        "lifetimes": LIFETIMES,
        "lifetime": form.data.get("lifetime", str(DEFAULT_LIFETIME)),
        "action_key": new_action_key(),
    }
    return show(request, "console/person_token.html", context, status=422 if form.is_bound else 200)


@page(methods=_BOTH)
def token_revoke(request: HttpRequest, user_id: int, token_id: int) -> HttpResponse:
    """By the person, or by who administers."""
    found, allowed = console_people.find_person(user_id), permit(request, "administer")
    if found is None:
        return refuse(request, 404, {"what": str(user_id)})
    if not allowed and found.id != request.user.pk:
        return forbid(request, allowed, "revoke_personal_token")
    rows: dict[int, Any] = {each.id: each for each in console_people.list_tokens(user_id)}
    if token_id not in rows:
        return refuse(request, 404, {"what": str(token_id)})
    form = Revocation(request.POST or None)
    if request.method == "POST" and form.is_valid():
        told = form.cleaned_data
        answer = revoke_personal_token(
            user_id=user_id,
            token_id=token_id,
            reason=told["reason"],
            actor=actor_of(request),
            seen=told["seen"],
        )
        if isinstance(answer, Refusal):
            return _refused_token(request, user_id, token_id, told["seen"], answer)
        messages.success(request, _("Revoked. The token is refused from now on."))
        return redirect("console:person", user_id=user_id)
    row = rows[token_id]
    context = {
        "person": found,
        "form": form,
        "revoking": row,
        "standing": standing_of(row, shell_of(request).now),
        "seen": TokenSeen(row.expires_at, row.revoked_at),
    }
    return show(request, "console/person_token.html", context, status=422 if form.is_bound else 200)


def _refused_token(
    request: HttpRequest, user_id: int, token_id: int, seen: TokenSeen, refusal: Refusal
) -> HttpResponse:
    """409 with what has become of the token since the form was shown."""
    rows = {each.id: each for each in console_people.list_tokens(user_id)}
    row = rows.get(token_id)
    if row is None or refusal.outcome is Outcome.NOT_FOUND:
        return refuse(request, 404, {"what": str(token_id)})
    context = {
        "refusal": refusal,
        "detail": refusal.detail,
        "changes": token_changes(request, seen, TokenSeen(row.expires_at, row.revoked_at)),
        "back": reverse("console:person", args=[user_id]),
    }
    return refuse(request, 409, context)


def _refused_role(
    request: HttpRequest, found: Person, shown: str, refusal: Refusal
) -> HttpResponse:
    context = {
        "refusal": refusal,
        "detail": refusal.detail,
        "changes": [(_("Role"), shown or "—", ", ".join(found.roles) or "—")],
        "back": request.path,
    }
    return refuse(request, 409, context)
