"""Everything that can go wrong, as one tree.

::

    TenureError
    ├── Unreachable            nobody answered, or only proxies did; `tries` says how often we asked
    ├── UnexpectedAnswer       somebody answered, but not a coordinator of this contract
    ├── NotEncodable           a value of ours cannot travel as JSON (or is too large to travel inline)
    ├── Released               this worker gave the claim back: stop working on it
    └── Problem                the coordinator refused (contract 5: application/problem+json)
        ├── ClaimLost          the attempt is over; its result can no longer become canonical
        │   ├── Fenced         somebody else holds the task now, or the epoch was bumped
        │   ├── Cancelled      the task was cancelled
        │   └── StaleInput     the task was revised: its input is not the one that was claimed
        ├── TryLater           not now; the world has to change first
        │   ├── NotClaimable
        │   ├── StateVersionMismatch
        │   ├── MemoryConflict
        │   ├── ReconcileFirst
        │   ├── IntakeStopped
        │   └── Throttled
        ├── AlreadyCommitted   the attempt has committed something else
        ├── LeaseLimit         the lease cannot be extended any further; a commit still works
        ├── InvalidInput       every error at once, in `errors`, each with a JSON pointer
        ├── IdempotencyConflict
        ├── FenceMissing
        ├── TooLarge
        ├── Unauthorized       the token is unknown, expired or revoked
        ├── Forbidden          the token is known and may not do this
        │   └── WrongPool      … because another pool is active on the queue
        ├── NotFound
        └── ServerFault        the coordinator itself failed (500)

What concerns outside effects stands in `tenure.effect_errors`.

`Retry`, `Fatal` and `Release` are not errors of ours: a handler raises them to say what should become of its claim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class TenureError(Exception):
    """Whatever this package raises on purpose."""


class Unreachable(TenureError):
    """No answer, or only a proxy's 502, 503 or 504. A write may have landed all the same."""

    def __init__(
        self, message: str, *, tries: int = 1, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.tries = tries
        self.retry_after_seconds = retry_after_seconds


class UnexpectedAnswer(TenureError):
    """Something answered that does not speak this contract: a login page, a redirect, a wrong address."""


class NotEncodable(TenureError):
    """A value cannot be sent. `pointer` is the JSON pointer of the part at fault."""

    def __init__(self, reason: str, *, pointer: str = "") -> None:
        super().__init__(f"{pointer or '/'}: {reason}")
        self.reason = reason
        self.pointer = pointer


class Released(TenureError):
    """The worker is stopping and has given this claim back; whatever the handler still does is for nothing."""


@dataclass(frozen=True, kw_only=True)
class InputError:
    """One fault in what was sent. `pointer` is a JSON pointer into the request's body."""

    pointer: str = ""
    detail: str = ""
    code: str | None = None


@dataclass(frozen=True, kw_only=True)
class Details:
    """A refusal as it came: the members of RFC 9457 and the contract's own (contract 5)."""

    status: int
    type: str = "about:blank"
    title: str = ""
    detail: str = ""
    outcome: str | None = None
    reason: str | None = None
    retry: str = "never"
    errors: tuple[InputError, ...] = ()
    current: Mapping[str, Any] = field(default_factory=dict)
    task_state: str | None = None
    evidence_recorded: bool = False
    retry_after_seconds: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


class Problem(TenureError):
    """The coordinator refused. `retry` says whether asking again can help: same, reclaim, after or never."""

    def __init__(self, details: Details, *, tries: int = 1) -> None:
        super().__init__(_sentence(details))
        self.details = details
        self.tries = tries
        self.status = details.status
        self.type = details.type
        self.outcome = details.outcome
        self.reason = details.reason
        self.retry = details.retry
        self.detail = details.detail
        self.errors = details.errors
        self.current = details.current
        self.retry_after_seconds = details.retry_after_seconds


class ClaimLost(Problem):
    """The attempt is over. Nothing that it still sends can change the task."""


class Fenced(ClaimLost):
    """Another attempt holds the task, or the queue's epoch was bumped (`reason`)."""


class Cancelled(ClaimLost):
    """The task was cancelled."""


class StaleInput(ClaimLost):
    """The task was revised; its input is no longer the one that was claimed."""


class TryLater(Problem):
    """Nothing is lost: the same call may be answered otherwise later."""


class NotClaimable(TryLater):
    """The task cannot be claimed in its present state."""


class StateVersionMismatch(TryLater):
    """The task changed since it was read; read it again, then decide."""


class MemoryConflict(TryLater):
    """A shared memory version moved. The commit has not happened and the attempt is still current."""


class ReconcileFirst(TryLater):
    """An outside effect of the task may be out; it has to be settled first."""


class IntakeStopped(TryLater):
    """The queue takes no new claims at the moment."""


class Throttled(TryLater):
    """Too many requests; `retry_after_seconds` says how long to wait."""


class AlreadyCommitted(Problem):
    """A canonical commit exists already and is not changed by this call."""


class LeaseLimit(Problem):
    """The longest lease of the queue is reached. No further renewal; a commit still works."""


class InvalidInput(Problem):
    """The body was refused; `errors` has every fault with its JSON pointer."""


class IdempotencyConflict(Problem):
    """The same Idempotency-Key came with another body before."""


class FenceMissing(Problem):
    """The call carried no complete fence."""


class TooLarge(Problem):
    """The body is larger than the coordinator takes; large results travel as blobs."""


class Unauthorized(Problem):
    """The token is unknown, expired or revoked."""


class Forbidden(Problem):
    """The token may not do this: another scope, another queue, or another worker's attempt."""


class WrongPool(Forbidden):
    """The credential's pool is not the queue's active one."""


class NotFound(Problem):
    """There is no such thing, or this token may not see it."""


class ServerFault(Problem):
    """The coordinator failed while it answered."""


class Retry(Exception):
    """Raised by a handler: this attempt failed, try again — after so many seconds, or by the queue's own backoff."""

    def __init__(
        self, message: str = "the handler asked for another attempt", *, after: float | None = None
    ) -> None:
        super().__init__(message)
        self.after = after


class Fatal(Exception):
    """Raised by a handler: no further attempt can help; the task is FAILED and a person decides."""


class Release(Exception):
    """Raised by a handler: give the task back at once, unharmed; the attempt does not count as a failure."""


_BY_OUTCOME: dict[str, type[Problem]] = {
    "FENCED": Fenced,
    "CANCELLED": Cancelled,
    "STALE_INPUT": StaleInput,
    "NOT_CLAIMABLE": NotClaimable,
    "STATE_VERSION_MISMATCH": StateVersionMismatch,
    "MEMORY_CONFLICT": MemoryConflict,
    "RECONCILE_FIRST": ReconcileFirst,
    "INTAKE_STOPPED": IntakeStopped,
    "ALREADY_COMMITTED": AlreadyCommitted,
    "LEASE_LIMIT": LeaseLimit,
    "IDEMPOTENCY_CONFLICT": IdempotencyConflict,
    "INVALID": InvalidInput,
    "FORBIDDEN": Forbidden,
    "NOT_FOUND": NotFound,
    "WRONG_POOL": WrongPool,
}


def refusals(kinds: Mapping[str, type[Problem]]) -> None:
    """Say which exceptions stand for further outcomes; `tenure.effect_errors` does."""
    _BY_OUTCOME.update(kinds)


_BY_STATUS: dict[int, type[Problem]] = {
    400: InvalidInput,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    413: TooLarge,
    422: InvalidInput,
    428: FenceMissing,
    429: Throttled,
    500: ServerFault,
}

_KNOWN = frozenset(
    {
        "status",
        "type",
        "title",
        "detail",
        "outcome",
        "reason",
        "retry",
        "errors",
        "current",
        "task_state",
        "evidence_recorded",
    }
)


def problem_from(
    body: Mapping[str, Any],
    *,
    status: int,
    retry_after_seconds: float | None = None,
    tries: int = 1,
) -> Problem:
    """The exception for a refusal: by its outcome first, by the HTTP status where it names none we know."""
    details = Details(
        status=status,
        type=str(body.get("type") or "about:blank"),
        title=str(body.get("title") or ""),
        detail=str(body.get("detail") or ""),
        outcome=body.get("outcome"),
        reason=body.get("reason"),
        retry=str(body.get("retry") or "never"),
        errors=_input_errors(body.get("errors") or ()),
        current=body.get("current") or {},
        task_state=body.get("task_state"),
        evidence_recorded=bool(body.get("evidence_recorded")),
        retry_after_seconds=retry_after_seconds,
        extra={name: value for name, value in body.items() if name not in _KNOWN},
    )
    kind = _BY_OUTCOME.get(details.outcome or "") or _BY_STATUS.get(status) or Problem
    return kind(details, tries=tries)


def _input_errors(errors: Sequence[Mapping[str, Any]]) -> tuple[InputError, ...]:
    return tuple(
        InputError(
            pointer=str(error.get("pointer", "")),
            detail=str(error.get("detail", "")),
            code=error.get("code"),
        )
        for error in errors
    )


def _sentence(details: Details) -> str:
    name = details.outcome or details.title or f"HTTP {details.status}"
    if details.reason:
        name = f"{name} ({details.reason})"
    faults = "; ".join(f"{error.pointer or '/'}: {error.detail}" for error in details.errors)
    said = " — ".join(part for part in (details.detail, faults) if part)
    return f"{name}: {said}" if said else name
