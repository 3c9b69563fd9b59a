"""What else may need a human: credentials that end, mismatches that nobody has explained (console design, 7.1)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import orjson
from django.db import connection

from coordinator.models import Queue

from .console_shadow import list_shadows
from .shadow import count_unexplained

#: A credential that ends within this, and was used within the same time, wants to be rotated.
ENDS_WITHIN_DAYS: Final = 7
#: Queues that are looked at for unexplained mismatches, those that were heard last first.
QUEUES_LOOKED_AT: Final = 10


@dataclass(frozen=True, slots=True)
class Waiting:
    """A promotion that somebody has asked for: a second person is missing."""

    queue: str
    request_id: UUID
    requested_by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Causes:
    """`ending` credentials that are in use, the first at `ends_at`; `unexplained` mismatches by queue.

    `chain_broken_at`: since when the background's look at the audit's chain finds a row that does not fit.
    """

    ending: int
    ends_at: datetime | None
    unexplained: dict[str, int]
    promotions: tuple[Waiting, ...] = ()
    chain_broken_at: datetime | None = None


_ENDING: Final = """
SELECT count(*), min(expires_at),
  (SELECT json_agg(json_build_array(q.name, p.request_id, p.requested_by, p.requested_at) ORDER BY p.requested_at)::text
   FROM coordinator_promotionrequest p JOIN coordinator_queue q ON q.id = p.queue_id
   WHERE p.state = 'ASKED' AND p.expires_at > clock_timestamp()),
  (SELECT fault_at FROM coordinator_auditwatch WHERE id = 1)
FROM coordinator_credential
WHERE revoked_at IS NULL AND expires_at > clock_timestamp()
  AND expires_at < clock_timestamp() + make_interval(days => %s)
  AND last_used_at > clock_timestamp() - make_interval(days => %s)
"""


def read_causes() -> Causes:
    with connection.cursor() as cursor:
        cursor.execute(_ENDING, [ENDS_WITHIN_DAYS, ENDS_WITHIN_DAYS])
        row = cursor.fetchone()
    assert row is not None
    apart = [each.queue for each in list_shadows() if each.mismatched][:QUEUES_LOOKED_AT]
    ids = Queue.objects.filter(name__in=apart).values_list("name", "pk")
    found = {name: count_unexplained(pk) for name, pk in ids}
    return Causes(
        row[0],
        row[1],
        {name: count for name, count in found.items() if count},
        tuple(_waiting(*each) for each in orjson.loads(row[2] or "[]")),
        row[3],
    )


def _waiting(queue: str, request_id: str, requested_by: str, at: str) -> Waiting:
    return Waiting(queue, UUID(request_id), requested_by, datetime.fromisoformat(at))
