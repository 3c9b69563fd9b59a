"""One approval as its decision page shows it: what is bound to it, and what it is read beside."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import F, Func, IntegerField, OuterRef, Subquery, TextField, Value

from coordinator.models import Approval, Attempt, Decision
from coordinator.states import AttemptState

#: The last payload that was approved for a node is looked for among so many approvals.
LOOKED_BACK: Final = 1_000


@dataclass(frozen=True, slots=True)
class DecisionMade:
    operator: str
    operator_id: int
    decision: str
    comment: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Bound:
    """One approval with what is bound to it. `payload` is the whole text, None where it may not be seen."""

    approval_id: UUID
    state: str
    payload_digest: str
    dispatch_number: int
    required_approvers: int
    policy_version: int
    requested_by: str
    requested_at: datetime
    expires_at: datetime
    ended_at: datetime | None
    end_reason: str | None
    reason_code: str | None
    assignee: str | None
    assigned_by: str | None
    assigned_at: datetime | None
    assigned_note: str | None
    effect_id: str
    effect_state: str
    node_id: str
    slot: str
    downstream: str
    guarantee: str
    condition: str | None
    is_exclusive: bool
    needs_approval: bool
    payload: str | None
    size_bytes: int
    task_id: UUID
    task_state: str
    kind: str
    revision: int
    claim_generation: int
    queue: str
    run_id: UUID
    run_name: str
    submitted_by: str
    agent: str | None
    decisions: tuple[DecisionMade, ...] = ()

    @property
    def version(self) -> int:
        return len(self.decisions)


@dataclass(frozen=True, slots=True)
class Related:
    """Another approval that this one is read beside, with its payload."""

    approval_id: UUID
    state: str
    payload_digest: str
    payload: str | None
    at: datetime
    reason_code: str | None = None
    end_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """What was approved last for the same node and slot; the same slot's request before and after a revision."""

    last_approved: Related | None = None
    before: Related | None = None
    after: Related | None = None


_BOUND: Final = {
    **{name: f"effect__{name}" for name in ("node_id", "slot", "downstream", "guarantee")},
    **{name: f"effect__{name}" for name in ("condition", "is_exclusive", "needs_approval")},
    **{f"task_{name}": f"effect__task__{name}" for name in ("state",)},
    **{name: f"effect__task__{name}" for name in ("kind", "revision", "claim_generation")},
    "effect_state": "effect__state",
    "task_id": "effect__task_id",
    "queue": "effect__task__queue__name",
    "run_id": "effect__task__run__run_id",
    "run_name": "effect__task__run__name",
    "submitted_by": "effect__task__run__submitted_by",
    "payload": "shown_payload",
    "assignee": "assignee__username",
}


def read_approval(approval_id: UUID, *, with_payload: bool) -> Bound | None:
    """Two queries; None where there is no such approval."""
    names = [_BOUND.get(name, name) for name in Bound.__dataclass_fields__ if name != "decisions"]
    asking = Attempt.objects.filter(task_id=OuterRef("effect__task_id"), state=AttemptState.PARKED)
    hidden = Value(None, output_field=TextField(null=True))
    row: Any = (
        Approval.objects.filter(approval_id=approval_id)
        .annotate(
            shown_payload=F("effect__payload") if with_payload else hidden,
            size_bytes=Func(
                "effect__payload", function="octet_length", output_field=IntegerField()
            ),
            agent=Subquery(asking.order_by("-claim_generation").values("owner")[:1]),
        )
        .values_list(*names)
        .first()
    )
    if row is None:
        return None
    said: Any = (
        Decision.objects.filter(approval_id=approval_id)
        .order_by("id")
        .values_list("operator__username", "operator_id", "decision", "comment", "at")
    )
    return replace(Bound(*row), decisions=tuple(DecisionMade(*each) for each in said))


_BESIDE: Final = """
WITH seen AS MATERIALIZED (
  SELECT approval_id, effect_id, state, payload_digest, coalesce(ended_at, requested_at) AS at
  FROM coordinator_approval WHERE state IN ('APPROVED', 'CONSUMED') AND approval_id < %(id)s
  ORDER BY approval_id DESC LIMIT %(back)s
)
(SELECT 'last_approved', s.approval_id, s.state, s.payload_digest, e.payload, s.at, NULL, NULL
 FROM seen s JOIN coordinator_effectslot e USING (effect_id) JOIN coordinator_task t USING (task_id)
      JOIN coordinator_queue q ON q.id = t.queue_id
 WHERE e.node_id = %(node)s AND e.slot = %(slot)s AND q.name = %(queue)s ORDER BY s.approval_id DESC LIMIT 1)
UNION ALL
(SELECT 'before', a.approval_id, a.state, a.payload_digest, e.payload, a.requested_at, a.reason_code, a.end_reason
 FROM coordinator_task t JOIN coordinator_effectslot e ON e.task_id = t.supersedes_id AND e.slot = %(slot)s
      JOIN coordinator_approval a USING (effect_id) WHERE t.task_id = %(task)s ORDER BY a.approval_id DESC LIMIT 1)
UNION ALL
(SELECT 'after', a.approval_id, a.state, a.payload_digest, e.payload, a.requested_at, a.reason_code, a.end_reason
 FROM coordinator_task t JOIN coordinator_effectslot e ON e.task_id = t.task_id AND e.slot = %(slot)s
      JOIN coordinator_approval a USING (effect_id) WHERE t.supersedes_id = %(task)s
 ORDER BY a.approval_id LIMIT 1)
"""


def read_beside(approval: Bound) -> Beside:
    """One query, over a bounded stretch of the past."""
    wanted: dict[str, Any] = {
        "id": approval.approval_id,
        "back": LOOKED_BACK,
        "node": approval.node_id,
        "slot": approval.slot,
        "queue": approval.queue,
        "task": approval.task_id,
    }
    with connection.cursor() as cursor:
        cursor.execute(_BESIDE, wanted)
        found = {row[0]: Related(*row[1:]) for row in cursor.fetchall()}
    return Beside(**found)
