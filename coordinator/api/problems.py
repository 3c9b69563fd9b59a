"""Refusals over HTTP: one table from outcomes to status, type and title (contract 5; RFC 9457).

What is not an outcome of the contract — an unknown route, a wrong method, no credential — is a
`Fault` from the second table, so that every refusal of the API has the same shape.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final

import orjson
from django.http import HttpResponse

from coordinator.log_lines import bind_words
from coordinator.outcomes import FieldError, Outcome, Refusal, Retry

CONTENT_TYPE: Final = "application/problem+json"
TYPES_AT: Final = "/api/v1/problems/"
RETRY_AFTER_SECONDS: Final = 1


@dataclass(frozen=True, slots=True)
class Kind:
    """A stable type of problem. `type` is where it is explained."""

    slug: str
    status: HTTPStatus
    title: str
    retry_after_seconds: int | None = None

    @property
    def type(self) -> str:
        return TYPES_AT + self.slug


_S = HTTPStatus
_C = _S.CONFLICT
OUTCOMES: Final[dict[Outcome, Kind]] = {
    Outcome.FENCED: Kind("fenced", _C, "Another attempt or a newer epoch took this one's place"),
    Outcome.STALE_INPUT: Kind("stale-input", _C, "The task was revised: its input is another one"),
    Outcome.CANCELLED: Kind("cancelled", _C, "The task was cancelled"),
    Outcome.NOT_CLAIMABLE: Kind("not-claimable", _C, "The task can't be claimed now"),
    Outcome.STATE_VERSION_MISMATCH: Kind(
        "state-version-mismatch", _C, "It changed since you looked"
    ),
    Outcome.MEMORY_CONFLICT: Kind("memory-conflict", _C, "A shared memory key has moved on"),
    Outcome.STALE_EVIDENCE: Kind(
        "stale-evidence", _C, "There were more dispatches than were judged"
    ),
    Outcome.ALREADY_COMMITTED: Kind("already-committed", _C, "There is a canonical commit already"),
    Outcome.ALREADY_REDEEMED: Kind("already-redeemed", _C, "This dispatch was redeemed already"),
    Outcome.ALREADY_SETTLED: Kind("already-settled", _C, "This is settled already"),
    Outcome.LEASE_LIMIT: Kind("lease-limit", _C, "The lease can't be renewed any further"),
    Outcome.PAYLOAD_CONFLICT: Kind(
        "payload-conflict", _S.UNPROCESSABLE_ENTITY, "Another payload is bound"
    ),
    Outcome.IDEMPOTENCY_CONFLICT: Kind(
        "idempotency-conflict",
        _S.UNPROCESSABLE_ENTITY,
        "This Idempotency-Key was used with another body",
    ),
    Outcome.APPROVAL_REQUIRED: Kind("approval-required", _C, "A person must approve this"),
    Outcome.RECONCILE_FIRST: Kind("reconcile-first", _C, "An effect may be out; settle it first"),
    Outcome.STAGE_FORBIDS: Kind("stage-forbids", _C, "The queue's rollout stage forbids this"),
    Outcome.ABSENCE_NOT_SEALED: Kind(
        "absence-not-sealed", _C, "It isn't proven that the effect can't happen"
    ),
    Outcome.SERIAL_BUSY: Kind("serial-busy", _C, "Another effect may be out in this serial scope"),
    Outcome.INTAKE_STOPPED: Kind(
        "intake-stopped", _S.SERVICE_UNAVAILABLE, "The queue takes no work now", 5
    ),
    Outcome.GATE_CLOSED: Kind("gate-closed", _C, "What must hold before this has not been met"),
    Outcome.INCIDENT_OPEN: Kind("incident-open", _C, "The queue has an open incident"),
    Outcome.WRONG_STEP: Kind("wrong-step", _C, "The incident is not at this step"),
    Outcome.NOT_DRAINED: Kind("not-drained", _C, "Something of the old epoch is still out"),
    Outcome.WRONG_POOL: Kind("wrong-pool", _S.FORBIDDEN, "Another pool is active on this queue"),
    Outcome.FORBIDDEN: Kind("forbidden", _S.FORBIDDEN, "This is not yours to do"),
    Outcome.NOT_FOUND: Kind(
        "not-found", _S.NOT_FOUND, "There is no such thing, or it is not yours to see"
    ),
    Outcome.INVALID: Kind("invalid-input", _S.UNPROCESSABLE_ENTITY, "The request has faults"),
    Outcome.FENCE_MISSING: Kind(
        "fence-missing", _S.PRECONDITION_REQUIRED, "The call carries no complete fence"
    ),
}


class Fault(StrEnum):
    """What is refused before a service is asked."""

    BAD_QUERY = "bad-query"
    BAD_HEADER = "bad-header"
    KEY_MISSING = "idempotency-key-missing"
    KEY_INVALID = "idempotency-key-invalid"
    TOKEN_IN_URL = "token-in-url"  # noqa: S105 (a name, no secret)
    UNAUTHENTICATED = "unauthenticated"
    CSRF = "csrf"
    NO_ROUTE = "no-such-route"
    METHOD = "method-not-allowed"
    TOO_LARGE = "too-large"
    LENGTH = "length-required"
    MEDIA_TYPE = "unsupported-media-type"
    THROTTLED = "throttled"
    UNREADABLE = "unreadable-body"
    INTERNAL = "internal-error"
    UNAVAILABLE = "unavailable"


FAULTS: Final[dict[Fault, Kind]] = {
    Fault.BAD_QUERY: Kind("bad-query", _S.BAD_REQUEST, "The query string has faults"),
    Fault.BAD_HEADER: Kind("bad-header", _S.BAD_REQUEST, "A header has faults"),
    Fault.KEY_MISSING: Kind(
        "idempotency-key-missing", _S.BAD_REQUEST, "An Idempotency-Key header is required"
    ),
    Fault.KEY_INVALID: Kind(
        "idempotency-key-invalid",
        _S.BAD_REQUEST,
        "The Idempotency-Key must be 16 to 255 printable ASCII characters",
    ),
    Fault.TOKEN_IN_URL: Kind("token-in-url", _S.BAD_REQUEST, "A token does not belong into a URL"),
    Fault.UNAUTHENTICATED: Kind("unauthenticated", _S.UNAUTHORIZED, "No valid credential"),
    Fault.CSRF: Kind("csrf", _S.FORBIDDEN, "The CSRF token is missing or wrong"),
    Fault.NO_ROUTE: Kind("no-such-route", _S.NOT_FOUND, "There is no such route"),
    Fault.METHOD: Kind(
        "method-not-allowed", _S.METHOD_NOT_ALLOWED, "This method is not allowed here"
    ),
    Fault.TOO_LARGE: Kind("too-large", _S.REQUEST_ENTITY_TOO_LARGE, "The body is too large"),
    Fault.LENGTH: Kind(
        "length-required", _S.LENGTH_REQUIRED, "A Content-Length header is required"
    ),
    Fault.MEDIA_TYPE: Kind(
        "unsupported-media-type", _S.UNSUPPORTED_MEDIA_TYPE, "The body must be application/json"
    ),
    Fault.THROTTLED: Kind(
        "throttled", _S.TOO_MANY_REQUESTS, "Too many failed sign-ins from this address"
    ),
    Fault.UNREADABLE: Kind("unreadable-body", _S.BAD_REQUEST, "The body could not be read"),
    Fault.INTERNAL: Kind("internal-error", _S.INTERNAL_SERVER_ERROR, "The coordinator failed"),
    Fault.UNAVAILABLE: Kind(
        "unavailable", _S.SERVICE_UNAVAILABLE, "The coordinator can't answer now", 1
    ),
}

#: Where the same request may be sent again; everywhere else a repeat helps nothing.
_SAME: Final = frozenset({Fault.THROTTLED, Fault.UNREADABLE, Fault.INTERNAL, Fault.UNAVAILABLE})


@dataclass(eq=False)
class Problem(Exception):
    """A refusal before any service was asked; raised by parsing and authentication, rendered once."""

    fault: Fault
    detail: str
    errors: tuple[FieldError, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


class Refused(Exception):
    """A refusal of parsing, or of what the path names: an outcome, before any service was asked."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


def refusal_body(refusal: Refusal) -> dict[str, Any]:
    """The members of a refusal that are the same alone and as an item of a batch."""
    body: dict[str, Any] = {
        **refusal.extra,
        "status": OUTCOMES[refusal.outcome].status.value,
        "detail": refusal.detail,
        "outcome": refusal.outcome,
        "reason": refusal.reason,
        "retry": refusal.retry,
        "evidence_recorded": refusal.evidence_recorded,
    }
    if refusal.current is not None:
        current = refusal.current
        body["current"] = {
            name: value
            for name in (
                "scheduler_epoch",
                "claim_generation",
                "cancel_generation",
                "state_version",
            )
            if (value := getattr(current, name)) is not None
        }
    if refusal.errors:
        body["errors"] = refusal.errors
    return body


def render_refusal(refusal: Refusal) -> HttpResponse:
    kind = OUTCOMES[refusal.outcome]
    bind_words(outcome=str(refusal.outcome), problem=kind.slug)
    body = {"type": kind.type, "title": kind.title, **refusal_body(refusal)}
    return _respond(kind, body, {})


def render_problem(problem: Problem, *, request_id: str = "") -> HttpResponse:
    kind = FAULTS[problem.fault]
    bind_words(problem=kind.slug)
    body: dict[str, Any] = {
        "type": kind.type,
        "title": kind.title,
        "status": kind.status.value,
        "detail": problem.detail,
        "retry": Retry.SAME if problem.fault in _SAME else Retry.NEVER,
        "evidence_recorded": False,
    }
    if problem.errors:
        body["errors"] = problem.errors
    if request_id:
        body["request_id"] = request_id
    return _respond(kind, body, problem.headers)


def _respond(kind: Kind, body: dict[str, Any], headers: Mapping[str, str]) -> HttpResponse:
    response = HttpResponse(
        orjson.dumps(body, default=str, option=orjson.OPT_UTC_Z),
        content_type=CONTENT_TYPE,
        status=kind.status,
    )
    response["Cache-Control"] = "no-store"
    if kind.retry_after_seconds is not None:
        response["Retry-After"] = str(kind.retry_after_seconds)
    for name, value in headers.items():
        response[name] = value
    return response
