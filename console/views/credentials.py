"""`/credentials`: the workers' tokens. A new one is shown in the answer that made it, and nowhere else."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from console.access_forms import (
    DEFAULT_LIFETIME,
    DEFAULT_OVERLAP,
    LIFETIMES,
    OVERLAPS,
    NewCredential,
    Rotation,
    take_faults,
)
from console.accesses import SCOPES, scope_sentences, standing_of
from console.bindings import token_changes
from console.filters import as_uuid
from console.forms import Revocation, new_action_key
from console.pages import page, refuse, shell_of, show
from console.people import actor_of
from coordinator import digests
from coordinator.outcomes import Outcome, Refusal
from coordinator.seen import TokenSeen
from coordinator.selectors import credentials, queues
from coordinator.selectors.console_workers import read_held
from coordinator.selectors.credentials import CredentialRecord
from coordinator.services.answers import RequestKey
from coordinator.services.credentials import Issued, issue_credential, revoke_credential
from coordinator.services.rotations import rotate_credential

A_PAGE = 100
_BOTH = ("GET", "HEAD", "POST")


@page(needs="administer")
def credential_list(request: HttpRequest) -> HttpResponse:
    now, revoked = shell_of(request).now, request.GET.get("revoked") == "1"
    rows = credentials.page_of_credentials(before=as_uuid(request.GET.get("before")))
    if not revoked:
        rows = rows.filter(revoked_at=None)
    found = [credentials.credential_record(row) for row in rows[: A_PAGE + 1]]
    listed = [(each, standing_of(each, now)) for each in found[:A_PAGE]]
    older = found[A_PAGE - 1].credential_id if len(found) > A_PAGE else None
    context = {"listed": listed, "older": older, "revoked": revoked}
    return show(request, "console/credentials.html", context, every_seconds=10)


@page(needs="administer")
def credential(request: HttpRequest, credential_id: UUID) -> HttpResponse:
    found = credentials.find_credential(credential_id)
    if found is None:
        return refuse(request, 404, {"what": str(credential_id)})
    return show(request, "console/credential.html", _of(request, found), every_seconds=10)


@page(needs="administer", methods=_BOTH)
def create(request: HttpRequest) -> HttpResponse:
    names = shell_of(request).queue_names
    form = NewCredential(request.POST or None, queue_names=names)
    if request.method == "POST" and form.is_valid():
        told = form.cleaned_data
        answer = issue_credential(
            name=told["name"],
            pool=told["pool"],
            queues=told["queues"],
            scopes=told["scopes"],
            expires_at=_ends(request, told["lifetime"]),
            actor=actor_of(request),
            request=_request_key(request, "credential", told["action_key"]),
        )
        if isinstance(answer, Issued):
            return _shown_once(request, answer)
        take_faults(form, answer)
    context = {
        "form": form,
        "pools": list(queues.all_pools().order_by("name")[:200]),
        "scopes": SCOPES,
        "chosen_scopes": form.data.getlist("scopes") if form.is_bound else ["work"],  # type: ignore[attr-defined]
        "chosen_queues": form.data.getlist("queues") if form.is_bound else [],  # type: ignore[attr-defined]
        "lifetimes": LIFETIMES,
        "lifetime": form.data.get("lifetime", str(DEFAULT_LIFETIME)),
        "action_key": new_action_key(),
    }
    return show(
        request, "console/credential_new.html", context, status=422 if form.is_bound else 200
    )


@page(needs="administer", methods=_BOTH)
def revoke(request: HttpRequest, credential_id: UUID) -> HttpResponse:
    found = credentials.find_credential(credential_id)
    if found is None:
        return refuse(request, 404, {"what": str(credential_id)})
    form = Revocation(request.POST or None)
    if request.method == "POST" and form.is_valid():
        told = form.cleaned_data
        answer = revoke_credential(
            credential_id=credential_id,
            reason=told["reason"],
            actor=actor_of(request),
            seen=told["seen"],
        )
        if isinstance(answer, Refusal):
            return _changed(request, credential_id, told["seen"], answer)
        messages.success(request, _("Revoked. Its token is refused from now on."))
        return redirect("console:credential", credential_id=credential_id)
    context = {**_of(request, found), "form": form, "allowed": True}
    return show(
        request, "console/credential_revoke.html", context, status=422 if form.is_bound else 200
    )


@page(needs="administer", methods=_BOTH)
def rotate(request: HttpRequest, credential_id: UUID) -> HttpResponse:
    found = credentials.find_credential(credential_id)
    if found is None:
        return refuse(request, 404, {"what": str(credential_id)})
    form = Rotation(request.POST or None)
    if request.method == "POST" and form.is_valid():
        told = form.cleaned_data
        answer = rotate_credential(
            credential_id=credential_id,
            overlap_hours=told["overlap_hours"],
            expires_at=_ends(request, told["lifetime"]),
            reason=told["reason"],
            actor=actor_of(request),
            seen=told["seen"],
            request=_request_key(request, f"rotate:{credential_id}", told["action_key"]),
        )
        if isinstance(answer, Issued):
            return _shown_once(request, answer, rotated=found)
        if answer.outcome is not Outcome.INVALID:
            return _changed(request, credential_id, told["seen"], answer)
        take_faults(form, answer)
    context = {
        **_of(request, found),
        "form": form,
        "allowed": True,
        "lifetimes": LIFETIMES,
        "lifetime": form.data.get("lifetime", str(DEFAULT_LIFETIME)),
        "overlaps": OVERLAPS,
        "overlap": form.data.get("overlap_hours", str(DEFAULT_OVERLAP)),
        "action_key": new_action_key(),
    }
    return show(
        request, "console/credential_rotate.html", context, status=422 if form.is_bound else 200
    )


def _changed(
    request: HttpRequest, credential_id: UUID, seen: TokenSeen, refusal: Refusal
) -> HttpResponse:
    """409 with what has become of it since the form was shown."""
    found = credentials.find_credential(credential_id)
    if found is None or refusal.outcome is Outcome.NOT_FOUND:
        return refuse(request, 404, {"what": str(credential_id)})
    now = TokenSeen(found.expires_at, found.revoked_at)
    context = {
        "refusal": refusal,
        "detail": refusal.detail,
        "changes": token_changes(request, seen, now),
        "back": reverse("console:credential", args=[credential_id]),
    }
    return refuse(request, 409, context)


def _of(request: HttpRequest, found: CredentialRecord) -> dict[str, Any]:
    return {
        "credential": found,
        "standing": standing_of(found, shell_of(request).now),
        "seen": TokenSeen(found.expires_at, found.revoked_at),
        "sentences": scope_sentences(found.scopes),
        "held": read_held(found.credential_id),
    }


def _shown_once(
    request: HttpRequest, issued: Issued, *, rotated: CredentialRecord | None = None
) -> HttpResponse:
    """The only answer that ever has the token. Sent again, the form gets the page without it."""
    context = {
        "credential": issued.credential,
        "token": None if issued.replayed else issued.token,
        "rotated": rotated,
    }
    return show(request, "console/credential_made.html", context)


def _ends(request: HttpRequest, days: int) -> datetime | None:
    return shell_of(request).now + timedelta(days=days) if days else None


def _request_key(request: HttpRequest, route: str, key: str) -> RequestKey:
    """The key of one form; the digest of what was sent with it, so that a key is good for one wish only."""
    sent = sorted((name, request.POST.getlist(name)) for name in request.POST)
    body = [pair for pair in sent if pair[0] not in ("csrfmiddlewaretoken", "action_key")]
    return RequestKey(
        f"console:{request.user.pk}:{route}", key, digests.sha256(repr(body).encode())
    )
