"""Parts of a path, and what of it a caller may touch."""

from uuid import UUID

from coordinator.access import sees_queue
from coordinator.actors import Operator, Worker
from coordinator.api.problems import Refused
from coordinator.outcomes import Outcome, Refusal, not_found


def uuid_of(text: str, what: str) -> UUID:
    """An id in any usual spelling; what is none names nothing."""
    try:
        return UUID(text)
    except ValueError:
        raise Refused(not_found(what)) from None


def effect_id_of(text: str) -> str:
    """An effect's id: 64 hex digits, in either case (contract 5)."""
    lowered = text.lower()
    if len(lowered) != 64 or not set(lowered) <= set("0123456789abcdef"):
        raise Refused(not_found("effect"))
    return lowered


def require_own_queue(worker: Worker, queue: str) -> None:
    """A worker acts in the queues of its credential only, and isn't told which others there are."""
    if queue not in worker.queues:
        raise Refused(
            Refusal(
                Outcome.FORBIDDEN,
                "This credential is not for this queue; its queues stand in GET /me.",
            )
        )


def require_seen_queue(caller: Worker | Operator, queue: str, what: str) -> None:
    if not sees_queue(caller, queue):
        raise Refused(not_found(what))
