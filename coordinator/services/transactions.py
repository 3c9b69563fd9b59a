"""How a service runs: one guarded transaction, retried as a whole a bounded number of times (contract 4)."""

import random
import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Final, ParamSpec, TypeVar

import psycopg.errors
from django.db import DatabaseError, connection, transaction

from coordinator import tracing

from .identity import IdentityUnknown, confirm_identity

P = ParamSpec("P")
R = TypeVar("R")

MAX_TRIES: Final = 6
_FIRST_PAUSE_SECONDS: Final = 0.005

#: While somebody asks for it: the services whose transactions came to their end, in order.
finished: ContextVar[list[str] | None] = ContextVar("finished", default=None)

#: Nothing was written and the same again may succeed. The unique violation is two requests
#: with one Idempotency-Key at once: the second try finds the stored answer.
_TRANSIENT: Final = (
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.LockNotAvailable,
)


def in_transaction(service: Callable[P, R]) -> Callable[P, R]:
    """Run `service` in a transaction of its own; again as a whole after a transient conflict.

    And where nobody has compared the database's identity since its server's start: that is done between.
    """
    name = f"{service.__module__.rpartition('.')[2]}.{service.__name__.lstrip('_')}"

    @wraps(service)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not tracing.is_on():
            answer = repeat(*args, **kwargs)
        else:
            with tracing.span(name):
                answer = repeat(*args, **kwargs)
        told = finished.get()
        if told is not None:
            told.append(name)
        return answer

    def repeat(*args: P.args, **kwargs: P.kwargs) -> R:
        for attempt in range(1, MAX_TRIES + 1):
            try:
                with transaction.atomic():
                    return service(*args, **kwargs)
            except IdentityUnknown:
                if attempt == MAX_TRIES or connection.in_atomic_block:
                    raise
                confirm_identity()
            except DatabaseError as error:
                if attempt == MAX_TRIES or connection.in_atomic_block or not _is_transient(error):
                    raise
                time.sleep(random.uniform(0.75, 1.25) * _FIRST_PAUSE_SECONDS * 2**attempt)  # noqa: S311 (jitter)
        raise AssertionError("the loop above returns or raises")

    return run


def _is_transient(error: DatabaseError) -> bool:
    cause = error.__cause__
    if isinstance(cause, psycopg.errors.UniqueViolation):
        return cause.diag.constraint_name == "stored_answer"
    return isinstance(cause, _TRANSIENT)
