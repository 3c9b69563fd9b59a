"""Answers kept for repeated requests: the Idempotency-Key of contract 5.

The answer is stored in the transaction of what it answers, so that a caller who lost a
response learns what really happened. Two at once with one key: the unique constraint lets
one of them win, the other is retried and finds the answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from coordinator.gates import GateClass
from coordinator.outcomes import Outcome, Refusal
from coordinator.rounds import Statement


@dataclass(frozen=True, slots=True)
class RequestKey:
    """An Idempotency-Key in its scope (caller, owner, route), with the digest of the request."""

    scope: str
    key: str
    request_digest: str


_LOOK_UP: Final = (
    "SELECT request_digest, answer FROM coordinator_storedanswer WHERE scope = %s AND key = %s"
)
_GATE: Final = f"SELECT pg_advisory_xact_lock({int(GateClass.REQUEST)}, hashtext(%s))"
_LOOK_UP_ALL: Final = (
    "SELECT request_digest, answer FROM coordinator_storedanswer"
    " JOIN unnest(%s::text[], %s::text[]) AS w(wanted_scope, wanted_key) ON scope = wanted_scope AND key = wanted_key"
)
#: In the order of their numbers, so that two batches never wait for each other.
_GATES: Final = (
    "SELECT pg_advisory_xact_lock(%s::int, number)"
    " FROM (SELECT DISTINCT hashtext(name) AS number FROM unnest(%s::text[]) AS name ORDER BY 1) AS r"
)
_STORE: Final = "INSERT INTO coordinator_storedanswer (scope, key, request_digest, answer) VALUES (%s, %s, %s, %s)"
_STORE_ALL: Final = (
    "INSERT INTO coordinator_storedanswer (scope, key, request_digest, answer)"
    " SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[])"
)


def look_up(request: RequestKey) -> Statement:
    return Statement(_LOOK_UP, (request.scope, request.key))


def one_at_a_time(request: RequestKey) -> Statement:
    """Before a look-up that may end in an answer which isn't stored: of two at once the second waits.

    Else an empty claim could answer the repeat of one that is being granted. Two keys with
    one hash only wait for each other.
    """
    return Statement(_GATE, (f"{request.scope}\n{request.key}",))


def look_up_all(requests: Sequence[RequestKey]) -> Statement:
    """A row for each of the requests that has an answer."""
    return Statement(
        _LOOK_UP_ALL, ([each.scope for each in requests], [each.key for each in requests])
    )


def each_one_at_a_time(requests: Sequence[RequestKey]) -> Statement:
    """`one_at_a_time` for several requests in one statement."""
    return Statement(
        _GATES,
        (
            int(GateClass.REQUEST),
            [f"{each.scope}\n{each.key}" for each in requests],
        ),
    )


def store(request: RequestKey, answer: str) -> Statement:
    return Statement(_STORE, (request.scope, request.key, request.request_digest, answer))


def store_all(answered: Sequence[tuple[RequestKey, str]]) -> list[Statement]:
    """`store` for several requests in one statement; none for none."""
    if not answered:
        return []
    requests, answers = zip(*answered, strict=True)
    return [
        Statement(
            _STORE_ALL,
            (
                [each.scope for each in requests],
                [each.key for each in requests],
                [each.request_digest for each in requests],
                answers,
            ),
        )
    ]


def stored_answer(request: RequestKey, rows: Sequence[tuple[Any, ...]]) -> str | Refusal | None:
    """What `look_up` found: the stored answer, a conflict (same key, other body), nothing, or that it has expired."""
    if not rows:
        return None
    digest, answer = rows[0]
    if not answer:
        return Refusal(
            Outcome.IDEMPOTENCY_CONFLICT,
            "This Idempotency-Key has expired: its request was carried out, and its answer is no longer kept. Look for"
            " what it made; for a new request use a new key.",
            extra={"expired": True},
        )
    if digest != request.request_digest:
        return Refusal(
            Outcome.IDEMPOTENCY_CONFLICT,
            "This Idempotency-Key was used with another body; use a new key for a new request.",
        )
    return str(answer)
