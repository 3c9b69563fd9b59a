"""Where the database could not answer in time, or at all: what of a request still holds (console design, 3.4).

A page that was only looked at has changed nothing. A form has not been carried out where no transaction of it came to
its end and the database itself said that it gave up; elsewhere nobody can say, and the page says that.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

import psycopg.errors
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from psycopg_pool import PoolTimeout, TooManyRequests

from console.views.errors import unavailable
from coordinator.services.transactions import finished

#: What the database raises where the same request may succeed soon.
LOST: Final = (OperationalError, InterfaceError)
_BUSY: Final = (psycopg.errors.LockNotAvailable, PoolTimeout, TooManyRequests)
#: They end without an act: a form's own key, and the record of who was refused.
_NO_ACTS: Final = ("form_receipts.", "refused_callers.")


class Cause(StrEnum):
    """What the database did."""

    SLOW = "slow"  # a statement took longer than it may
    BUSY = "busy"  # a lock or a connection was not to be had in time
    LOST = "lost"  # it can't be reached, or the connection broke


class Holds(StrEnum):
    """What can be said of the request."""

    LOOKED = "looked"  # it asked for nothing to be done
    NOT_DONE = "not-done"  # it asked, and nothing of it was done
    IN_DOUBT = "in-doubt"  # it may have been done


def cause_of(error: BaseException) -> Cause:
    told = error.__cause__ or error
    if isinstance(told, psycopg.errors.QueryCanceled):
        return Cause.SLOW
    return Cause.BUSY if isinstance(told, _BUSY) else Cause.LOST


def what_holds(request: HttpRequest, cause: Cause) -> Holds:
    """A lost connection may have been lost after the last word was sent."""
    if request.method in ("GET", "HEAD"):
        return Holds.LOOKED
    ended = [name for name in finished.get() or () if not name.startswith(_NO_ACTS)]
    by_a_service = (
        request.resolver_match is not None and "console" in request.resolver_match.namespaces
    )
    is_sure = by_a_service and not ended and cause is not Cause.LOST
    return Holds.NOT_DONE if is_sure else Holds.IN_DOUBT


class Unavailable:
    """A database that can't answer is a calm 503, on every page and in the admin."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        token = finished.set([])
        try:
            return self.get_response(request)
        finally:
            finished.reset(token)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        return answer_to(request, error)


def answer_to(request: HttpRequest, error: BaseException | None) -> HttpResponse | None:
    """The page that says so; None for what is no matter of the database."""
    if not isinstance(error, LOST):
        return None
    cause = cause_of(error)
    return unavailable(request, error, cause=cause, holds=what_holds(request, cause))
