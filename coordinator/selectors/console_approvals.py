"""Approvals as the console lists them: whose turn it is, and how much time is left."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from django.db.models import (
    Case,
    Count,
    Exists,
    F,
    Func,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextField,
    Value,
    When,
)
from django.db.models.functions import Coalesce

from coordinator.models import Approval, Decision, Task
from coordinator.selectors.console_counts import capped_counts
from coordinator.selectors.deciders import people_who_decide
from coordinator.selectors.reasons import ServerClock
from coordinator.states import ApprovalState

PAGE_SIZE: Final = 30
#: Payloads beyond this are not read for a list; their own page shows them whole.
LISTED_PAYLOAD_BYTES: Final = 65_536
OPEN: Final = (ApprovalState.PENDING, ApprovalState.APPROVED)


class Turn(StrEnum):
    """Whose turn it is."""

    MINE = "mine"  # this person may still have a word
    OTHERS = "others"  # another person's word is missing, or it was passed to one, or the grant is not used yet
    DECIDED = "decided"  # over, one way or another


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """`payload` is None where it is large, or may not be seen. `given` counts the words for it."""

    approval_id: UUID
    state: str
    effect_id: str
    node_id: str
    slot: str
    downstream: str
    queue: str
    task_id: UUID
    revision: int
    run_id: UUID
    run_name: str
    submitted_by: str
    requested_by: str
    requested_at: datetime
    expires_at: datetime
    ended_at: datetime | None
    required_approvers: int
    size_bytes: int
    payload: str | None
    given: int
    decided_by_me: bool
    payload_changed: bool
    replaced: bool
    reason_code: str | None
    assignee: str | None


@dataclass(frozen=True, slots=True)
class ApprovalPage:
    """`after` leads on: the last row's place in the order, None at the end."""

    rows: tuple[ApprovalRow, ...]
    counts: dict[str, int]
    after: str | None = None


_COLUMNS: Final = {
    "node_id": "effect__node_id",
    "effect_id": "effect_id",
    "slot": "effect__slot",
    "downstream": "effect__downstream",
    "queue": "effect__task__queue__name",
    "task_id": "effect__task_id",
    "revision": "effect__task__revision",
    "run_id": "effect__task__run__run_id",
    "run_name": "effect__task__run__name",
    "submitted_by": "effect__task__run__submitted_by",
    "payload": "shown_payload",
    "assignee": "assignee__username",
}


def list_approvals(
    turn: Turn,
    *,
    operator_id: int,
    label: str,
    may_decide: bool,
    with_payload: bool,
    after: str = "",
    held: Sequence[UUID] = (),
) -> ApprovalPage:
    """A page of them. Open ones by the time that is left, decided ones newest first.

    `label` is how runs name the person as their submitter; `held` are the rows that a page
    shows already: it keeps exactly those, in their order. Two queries.
    """
    turns = {
        each: _of_turn(each, operator_id, label, may_decide=may_decide)
        for each in (Turn.MINE, Turn.OTHERS)
    }
    counts = capped_counts({str(each): rows for each, rows in turns.items()})
    if held:
        kept = Approval.objects.filter(approval_id__in=held[:PAGE_SIZE])
        by_id = {row.approval_id: row for row in _rows(kept, operator_id, with_payload)}
        return ApprovalPage(tuple(by_id[key] for key in held if key in by_id), counts)
    if turn is Turn.DECIDED:
        decided = Approval.objects.exclude(state__in=OPEN)
        place = _uuid(after)
        if place:
            decided = decided.filter(approval_id__lt=place)
        found = _rows(decided.order_by("-approval_id"), operator_id, with_payload)
        last = found[PAGE_SIZE - 1] if len(found) > PAGE_SIZE else None
        return ApprovalPage(found[:PAGE_SIZE], counts, str(last.approval_id) if last else None)
    waiting, at = turns[turn], _place(after)
    if at:
        waiting = waiting.filter(
            Q(expires_at__gt=at[0]) | Q(expires_at=at[0], approval_id__gt=at[1])
        )
    found = _rows(waiting.order_by("expires_at", "approval_id"), operator_id, with_payload)
    last = found[PAGE_SIZE - 1] if len(found) > PAGE_SIZE else None
    next_place = f"{last.expires_at.isoformat()}~{last.approval_id}" if last else None
    return ApprovalPage(found[:PAGE_SIZE], counts, next_place)


def _of_turn(turn: Turn, operator_id: int, label: str, *, may_decide: bool) -> QuerySet[Approval]:
    """What has run out waits for nobody any more, whether or not a sweep has written it down.

    What was passed to somebody is their turn, as long as they may decide at all.
    """
    passed = Q(assignee__isnull=False) & ~Q(assignee=operator_id)
    elsewhere = passed & Q(assignee__in=people_who_decide().values("pk"))
    said = Exists(Decision.objects.filter(approval=OuterRef("pk"), operator_id=operator_id))
    mine = Q(state=ApprovalState.PENDING) & ~Q(effect__task__run__submitted_by=label) & ~Q(said)
    mine &= ~elsewhere
    waiting = Approval.objects.filter(state__in=OPEN, expires_at__gt=ServerClock())
    if turn is Turn.MINE:
        return waiting.filter(mine) if may_decide else Approval.objects.none()
    return waiting.exclude(mine) if may_decide else waiting


def _rows(
    approvals: QuerySet[Approval], operator_id: int, with_payload: bool
) -> tuple[ApprovalRow, ...]:
    size = Func("effect__payload", function="octet_length", output_field=IntegerField())
    small = Case(
        When(size_bytes__lte=LISTED_PAYLOAD_BYTES, then=F("effect__payload")),
        default=Value(None),
        output_field=TextField(null=True),
    )
    earlier = Approval.objects.filter(
        effect__task_id=OuterRef("effect__task__supersedes_id"),
        effect__slot=OuterRef("effect__slot"),
    ).exclude(payload_digest=OuterRef("payload_digest"))
    decisions = Decision.objects.filter(approval=OuterRef("pk"))
    given = decisions.filter(decision="APPROVED").order_by().values("approval")
    later = Task.objects.filter(supersedes=OuterRef("effect__task_id"))
    annotated: Any = approvals.annotate(
        size_bytes=size,
        shown_payload=small if with_payload else Value(None, output_field=TextField(null=True)),
        given=Coalesce(Subquery(given.annotate(n=Count("*")).values("n")), 0),
        decided_by_me=Exists(decisions.filter(operator_id=operator_id)),
        payload_changed=Exists(earlier),
        replaced=Exists(later),
    )
    names = [_COLUMNS.get(name, name) for name in ApprovalRow.__dataclass_fields__]
    return tuple(ApprovalRow(*row) for row in annotated.values_list(*names)[: PAGE_SIZE + 1])


def _place(text: str) -> tuple[datetime, UUID] | None:
    """A place in the order of time left, as `after` names it; anything else is the beginning."""
    moment, _, key = text.partition("~")
    found = _uuid(key)
    try:
        at = datetime.fromisoformat(moment)
    except ValueError:
        return None
    return (at, found) if found and at.tzinfo else None


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
