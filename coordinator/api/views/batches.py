"""Renewals and commits in batches: one answer for each item, in order (contract 7)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from coordinator.access import Operation
from coordinator.actors import Worker
from coordinator.api.bodies.attempts import CommitBody, CommitsBody, RenewalsBody, RenewBody
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.paths import require_own_queue
from coordinator.api.problems import refusal_body
from coordinator.outcomes import Refusal
from coordinator.services.commits import commit_results
from coordinator.services.confirming import confirm
from coordinator.services.leases import renew_leases

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Results:
    """An answer for each item, in order: each has its own `outcome`, and a refused one its `retry`."""

    results: list[Any]


class QueueRenewals(Endpoint):
    @operation(
        Operation.RENEW_LEASES,
        "Renew up to 100 leases",
        body=RenewalsBody,
        items=("renewals", RenewBody),
        answer=Results,
        confirms=True,
    )
    def post(self, call: Call[list[RenewBody | Refusal]], queue: str) -> Results:
        require_own_queue(call.worker, queue)
        items = [
            item if isinstance(item, Refusal) else item.renewal(item.fence.attempt_id)
            for item in call.body
        ]
        return _results(
            call.worker,
            items,
            lambda good: renew_leases(items=good, worker=call.worker, queue=queue),
        )


class QueueCommits(Endpoint):
    @operation(
        Operation.COMMIT_RESULTS,
        "Commit up to 100 results",
        body=CommitsBody,
        items=("commits", CommitBody),
        answer=Results,
        confirms=True,
    )
    def post(self, call: Call[list[CommitBody | Refusal]], queue: str) -> Results:
        require_own_queue(call.worker, queue)
        items = [
            item if isinstance(item, Refusal) else item.item(item.fence.attempt_id)
            for item in call.body
        ]
        return _results(
            call.worker,
            items,
            lambda good: commit_results(items=good, worker=call.worker, queue=queue),
        )


def _results(
    worker: Worker, items: Sequence[T | Refusal], send: Callable[[list[T]], Sequence[Any]]
) -> Results:
    """The good items go to the service together; refused ones are answered in their places."""
    good = [item for item in items if not isinstance(item, Refusal)]
    if not good:
        confirm(worker)
    sent = iter(send(good) if good else ())
    answers = [item if isinstance(item, Refusal) else next(sent) for item in items]
    return Results([refusal_body(each) if isinstance(each, Refusal) else each for each in answers])
