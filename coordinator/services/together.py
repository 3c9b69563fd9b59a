"""Claims of one task, and renewals and commits of one attempt: those that arrive at once are met as one batch.

Each is judged by itself, and its events name its own request. Only calls of one credential go
together, so that what one may do is never judged by another's.
"""

from dataclasses import replace
from typing import Final

from django.db import connection

from coordinator.actors import Worker
from coordinator.gathering import Gathering
from coordinator.outcomes import Refusal

from .claims import Answer, Demand
from .commits import CommitItem, Committed, commit_results
from .leases import Renewal, Renewed, renew_leases


def _let_go() -> None:
    """The connection, that a look-up before has taken, goes back to the pool: whoever sends the batch may need it."""
    if not connection.in_atomic_block:
        connection.close()


#: For `claim_tasks`.
CLAIMS: Final[Gathering[Demand, Answer]] = Gathering(before_waiting=_let_go)
_RENEWALS: Final[Gathering[Renewal, Renewed | Refusal]] = Gathering(before_waiting=_let_go)
_COMMITS: Final[Gathering[CommitItem, Committed | Refusal]] = Gathering(before_waiting=_let_go)


def renew_lease(item: Renewal, *, worker: Worker) -> Renewed | Refusal:
    """One renewal (`renew_leases`)."""
    return _RENEWALS.ask(
        _credential(worker),
        replace(item, asked_by=worker),
        lambda items: renew_leases(items=items, worker=worker),
    )


def commit_result(item: CommitItem, *, worker: Worker) -> Committed | Refusal:
    """One commit (`commit_results`)."""
    return _COMMITS.ask(
        _credential(worker),
        replace(item, asked_by=worker),
        lambda items: commit_results(items=items, worker=worker),
    )


def _credential(worker: Worker) -> Worker:
    """Who calls, without from where and in which request."""
    return replace(worker, request_id="", address="")
