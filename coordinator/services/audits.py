"""The invariant audit: the stored history read in bounded batches, and the rows that break a rule named (contract 14).

A pass goes on where it stopped, whoever stopped it: a batch's findings and the new cursor are
one transaction. It takes no lock that others wait for, and writes nothing but its own rows.
"""

import time
from collections import Counter
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import orjson

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of, read_clock
from coordinator.ids import new_id
from coordinator.models import Audit, AuditFinding
from coordinator.outcomes import FieldError, Refusal, invalid
from coordinator.rounds import Statement, name_point, run_round
from coordinator.selectors.audits import MAX_FINDINGS, AuditRecord, audit_record

from .audit_rules import WALKS
from .events import EventKind, Fact, record
from .transactions import in_transaction

#: Rows of one batch, and how long the background goes on at a time.
BATCH: Final = 1_000
BUDGET_SECONDS: Final = 2.0
#: The background begins a new pass so long after the last one was begun.
EVERY: Final = timedelta(hours=6)
#: Passes that wait to be made; a further one is refused.
MAX_OPEN: Final = 5
#: Older passes are forgotten with their findings; their events stay.
KEPT: Final = timedelta(days=90)
MAX_NAMED_IN_ALARM: Final = 10


@in_transaction
def start_audit(*, reason: str, actor: Actor) -> AuditRecord | Refusal:
    """Ask for a pass over the whole history; the background makes it, oldest first. INVALID where too many wait."""
    if not reason.strip():
        return invalid(FieldError("/reason", "Say why; it stands in the audit's event."))
    _, rows = run_round(name_point("audit"), CLOCK)
    if Audit.objects.filter(finished_at=None).count() >= MAX_OPEN:
        return invalid(FieldError("", f"{MAX_OPEN} audits are not finished yet; wait for one."))
    audit = _create(reason.strip(), actor, clock_of(rows))
    return audit_record(audit)


def run_audit(*, reason: str, actor: Actor) -> AuditRecord | Refusal:
    """Make a whole pass now, in the foreground."""
    asked = start_audit(reason=reason, actor=actor)
    if isinstance(asked, Refusal):
        return asked
    while _next_batch(asked.audit_id, actor):
        pass  # bounded: each batch moves the cursor on, and the history has an end
    return audit_record(Audit.objects.get(audit_id=asked.audit_id))


def continue_audits(*, actor: Actor, budget_seconds: float = BUDGET_SECONDS) -> int:
    """Go on with the oldest open pass for so long, or begin the background's next; how many batches were read.

    One batch at least, so that the shortest budget comes to an end of the history too.
    """
    stop = time.monotonic() + budget_seconds
    batches = 0
    while batches == 0 or time.monotonic() < stop:
        found = Audit.objects.filter(finished_at=None).order_by("started_at").first()
        audit_id = found.audit_id if found else _begin_due(actor)
        if audit_id is None:
            break
        batches += 1
        if not _next_batch(audit_id, actor):
            break
    return batches


@in_transaction
def _begin_due(actor: Actor) -> UUID | None:
    now = read_clock()
    Audit.objects.filter(started_at__lt=now - KEPT, finished_at__isnull=False).delete()
    if Audit.objects.filter(started_at__gt=now - EVERY).exists():
        return None
    run_round(name_point("audit"))
    return _create("it was due", actor, now).audit_id


def _create(reason: str, actor: Actor, at: datetime) -> Audit:
    audit = Audit.objects.create(
        audit_id=new_id(), asked_by=actor.label, reason=reason, started_at=at
    )
    told = {"audit_id": audit.audit_id, "reason": reason}
    run_round(record([Fact(EventKind.AUDIT_STARTED, data=told)], actor=actor, at=at))
    return audit


@in_transaction
def _next_batch(audit_id: UUID, actor: Actor) -> bool:
    """Read one batch and move the cursor on; False where there is nothing left, or another one is at it."""
    _, rows = run_round(name_point("audit"), CLOCK)
    audit = (
        Audit.objects.select_for_update(skip_locked=True)
        .filter(audit_id=audit_id, finished_at=None)
        .first()
    )
    if audit is None:
        return False
    walk = WALKS[audit.walk]
    (keys,) = run_round(Statement(walk.sql, (audit.cursor or walk.first, BATCH)))
    named = [key for (key,) in keys]
    if named:
        _check(audit, named)
        audit.rows_read += len(named)
        audit.cursor = named[-1]
    if len(named) < BATCH:
        audit.walk, audit.cursor = audit.walk + 1, None
    if audit.walk == len(WALKS):
        _finish(audit, actor, clock_of(rows))
    audit.save(update_fields=["walk", "cursor", "rows_read", "broken", "finished_at"])
    return audit.finished_at is None


def _check(audit: Audit, keys: list[str]) -> None:
    """Count what breaks each invariant; name the first MAX_FINDINGS of the pass."""
    invariants = WALKS[audit.walk].invariants
    answers = run_round(*(Statement(each.sql, (keys,)) for each in invariants))
    found: list[tuple[str, tuple[Any, ...]]] = [
        (each.name, row) for each, rows in zip(invariants, answers, strict=True) for row in rows
    ]
    if not found:
        return
    room = max(0, MAX_FINDINGS - sum(audit.broken.values()))
    audit.broken = dict(Counter(audit.broken) + Counter(name for name, _ in found))
    AuditFinding.objects.bulk_create(
        AuditFinding(audit=audit, invariant=name, subject=subject, detail=orjson.loads(detail))
        for name, (subject, detail) in found[:room]
    )


def _finish(audit: Audit, actor: Actor, at: datetime) -> None:
    """An event always, and an alarm where something is broken."""
    audit.finished_at = at
    told = {"audit_id": audit.audit_id, "rows_read": audit.rows_read, "broken": audit.broken}
    facts = [Fact(EventKind.AUDITED, data=told)]
    if audit.broken:
        named = audit.findings.order_by("id").values_list("invariant", "subject")
        alarm = {"alarm": "INVARIANT_BROKEN", **told, "named": list(named[:MAX_NAMED_IN_ALARM])}
        facts.append(Fact(EventKind.ALARM, data=alarm))
    run_round(record(facts, actor=actor, at=at))
