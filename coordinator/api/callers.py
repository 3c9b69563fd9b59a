"""Who is calling: a bearer token, or an operator's browser session with its CSRF token (contract 15)."""

from typing import Any, Final
from urllib.parse import unquote

from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from rest_framework.authentication import CSRFCheck

from coordinator.actors import ActorKind, Operator, Worker
from coordinator.selectors.credentials import FoundWorker, find_operator, find_worker
from coordinator.services.credentials import note_operator_use, note_worker_use
from coordinator.standing import Standing
from coordinator.tokens import Token, TokenKind, read_token

from .problems import Fault, Problem
from .remembering import WORKERS
from .throttling import FAILURES

CHALLENGE: Final = 'Bearer realm="tenure"'
#: Methods that change nothing need no CSRF token.
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_PERMISSIONS: Final = "coordinator."


def identify(request: HttpRequest, *, remembered: bool = False) -> Worker | Operator:
    """The caller. Raises Problem: 400 for a token in the URL, 401, 403 without CSRF token, 429.

    With `remembered` a worker that was looked up lately is not looked up again: it has a `standing`,
    which the service confirms.
    """
    query = request.META.get("QUERY_STRING", "")
    if query and _has_token(query):
        raise Problem(
            Fault.TOKEN_IN_URL,
            "URLs end up in logs: send `Authorization: Bearer …`, and revoke this token.",
        )
    header = request.META.get("HTTP_AUTHORIZATION")
    if header is None:
        return _by_session(request)
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "bearer":
        raise _unauthenticated("Send `Authorization: Bearer <token>`.")
    return _by_token(request, text.strip(), remembered=remembered)


def _has_token(query: str) -> bool:
    lowered = unquote(query).lower()
    return "tnr_w_" in lowered or "tnr_o_" in lowered or "access_token=" in lowered


def _by_token(request: HttpRequest, text: str, *, remembered: bool) -> Worker | Operator:
    address = request.META.get("REMOTE_ADDR", "")
    token = read_token(text)
    wait = FAILURES.seconds_to_wait(address, token.prefix if token else "")
    if wait:
        raise Problem(
            Fault.THROTTLED,
            f"Try again in {wait} s, with a valid token.",
            headers={"Retry-After": str(wait)},
        )
    found = WORKERS.recall(token) if token and remembered else None
    if found is not None:
        return _worker(found, request, address, standing=found.standing)
    caller = _owner_of(token, request, address) if token else None
    if token is None or caller is None:
        FAILURES.note_failure(address)
        raise _unauthenticated("The token is malformed, unknown, expired or revoked.")
    FAILURES.note_success(token.prefix)
    return caller


def _owner_of(token: Token, request: HttpRequest, address: str) -> Worker | Operator | None:
    if token.kind is TokenKind.WORKER:
        worker = find_worker(token)
        WORKERS.remember(token, worker)
        if worker is None:
            return None
        if worker.stale_use:
            note_worker_use(
                id_=worker.id,
                address=address,
                route=_route(request),
                contract=request.META.get("HTTP_X_CLAIM_CONTRACT", ""),
            )
        return _worker(worker, request, address)
    person = find_operator(token)
    if person is None:
        return None
    if person.stale_use:
        note_operator_use(id_=person.token_id, address=address, route=_route(request))
    return Operator(
        ActorKind.OPERATOR,
        person.name,
        person.user_id,
        getattr(request, "request_id", ""),
        address,
        permissions=frozenset(person.permissions),
    )


def _worker(
    found: FoundWorker, request: HttpRequest, address: str, *, standing: Standing | None = None
) -> Worker:
    return Worker(
        ActorKind.WORKER,
        found.name,
        found.id,
        getattr(request, "request_id", ""),
        address,
        pool=found.pool,
        queues=frozenset(found.queues),
        scopes=frozenset(found.scopes),
        contract=request.META.get("HTTP_X_CLAIM_CONTRACT", ""),
        standing=standing,
    )


def _route(request: HttpRequest) -> str:
    """The method and the pattern of the address: which ids were asked for is nobody's business here."""
    match = request.resolver_match
    return f"{request.method} /{match.route if match else ''}"


def _by_session(request: HttpRequest) -> Operator:
    user: User | AnonymousUser | None = getattr(request, "user", None)
    if user is None or not user.is_authenticated or not user.is_active:
        raise _unauthenticated("Send `Authorization: Bearer <token>`, or sign in.")
    if request.method not in _SAFE:
        _enforce_csrf(request)
    return operator_of(request, user)


def operator_of(request: HttpRequest, user: User) -> Operator:
    """A signed-in person as an actor, with the permissions that they have now."""
    return Operator(
        ActorKind.OPERATOR,
        user.get_username(),
        user.pk,
        getattr(request, "request_id", ""),
        request.META.get("REMOTE_ADDR", ""),
        permissions=frozenset(
            name.removeprefix(_PERMISSIONS)
            for name in user.get_all_permissions()
            if name.startswith(_PERMISSIONS)
        ),
    )


def _enforce_csrf(request: HttpRequest) -> None:
    """DRF's views are exempt from the middleware, because bearer tokens need no CSRF token; sessions do."""

    def unreached(*_args: Any, **_kwargs: Any) -> Any:
        raise AssertionError("the check answers itself")

    check = CSRFCheck(unreached)
    check.process_request(request)
    reason = check.process_view(request, unreached, (), {})
    if reason:
        raise Problem(Fault.CSRF, f"{reason} Send the page's token as `X-CSRFToken`.")


def _unauthenticated(detail: str) -> Problem:
    return Problem(Fault.UNAUTHENTICATED, detail, headers={"WWW-Authenticate": CHALLENGE})
