"""What a person wants changed, as the next claim of the node carries it (contract 7, 9)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson


@dataclass(frozen=True, slots=True)
class AskedChanges:
    """Somebody said no to what the superseded task was about to send, and what to do otherwise."""

    approval_id: UUID
    effect_id: str
    slot: str
    downstream: str
    payload: orjson.Fragment
    payload_digest: str
    comment: str
    asked_by: str
    at: datetime


#: A column of a query over `t`: null for a task that was never revised, which costs nothing. A task is superseded
#: once, so that at most one request of it can have ended so.
COLUMN: Final = """
CASE WHEN t.revision > 1 THEN (
  SELECT json_build_array(a.approval_id, e.effect_id, e.slot, e.downstream, e.payload, a.payload_digest, a.end_reason,
                          (SELECT u.username FROM coordinator_decision d JOIN auth_user u ON u.id = d.operator_id
                           WHERE d.approval_id = a.approval_id ORDER BY d.id DESC LIMIT 1), a.ended_at)::text
  FROM coordinator_effectslot e JOIN coordinator_approval a USING (effect_id)
  WHERE e.task_id = t.supersedes_id AND a.reason_code = 'CHANGES_ASKED' LIMIT 1) END
"""


def asked_changes(column: str | None) -> AskedChanges | None:
    """`column` as COLUMN has read it."""
    if column is None:
        return None
    row: list[Any] = orjson.loads(column)
    approval_id, effect_id, slot, downstream, payload, digest, comment, by, at = row
    return AskedChanges(
        approval_id=UUID(approval_id),
        effect_id=effect_id,
        slot=slot,
        downstream=downstream,
        payload=orjson.Fragment(payload),
        payload_digest=digest,
        comment=comment,
        asked_by=by,
        at=datetime.fromisoformat(at),
    )
