"""The audit finds what no code path may write, and nothing where all is well (contract 14)."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from coordinator.actors import Worker, system
from coordinator.models import Audit, EffectSlot, Event, Task
from coordinator.outcomes import Refusal
from coordinator.selectors.audits import AuditRecord, AuditReport, find_audit, last_audit
from coordinator.services import audits
from coordinator.services.audits import continue_audits, run_audit, start_audit
from coordinator.services.cancels import cancel_task
from coordinator.services.drills import run_drill
from coordinator.services.epochs import bump_epoch
from coordinator.services.leases import sweep
from coordinator.services.revisions import revise_task
from coordinator.states import DispatchOutcome
from tests import counted, world
from tests.effects import ledger
from tests.world import node

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def by() -> Worker:
    world.queue()
    return world.worker()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "BATCH", 2)


def audit() -> AuditReport:
    answer = run_audit(reason="r", actor=world.operator())
    assert isinstance(answer, AuditRecord), answer
    report = find_audit(answer.audit_id)
    assert report is not None
    return report


@contextmanager
def unwatched(*tables: str) -> Iterator[Any]:
    """What only an owner of the tables can do: their triggers are off, foreign keys too."""
    with transaction.atomic(), connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"ALTER TABLE coordinator_{table} DISABLE TRIGGER ALL")
        yield cursor
        for table in tables:
            cursor.execute(f"ALTER TABLE coordinator_{table} ENABLE TRIGGER ALL")


def busy(by: Worker) -> None:
    """A little of everything: a take-over, a cancel, a revision, a bump, an effect, a drill."""
    run = world.submit(node("a"), node("b"), node("c", "a", "b"), node("gone"), node("old"))
    late = world.claim_one(by=by, of=world.task_id(run, "a"))
    world.lapse(late.fence.task_id)
    sweep()
    holder = world.claim_one(by=by, of=world.task_id(run, "a"))
    assert isinstance(world.try_commit(late, by=by), Refusal)
    world.commit(holder, by=by)
    world.finish(world.task_id(run, "b"), by=by)
    world.finish(world.task_id(run, "c"), by=by)
    cancel_task(task_id=world.task_id(run, "gone"), reason="r", actor=world.operator())
    revise_task(
        task_id=world.task_id(run, "old"),
        expected_state_version=1,
        input=2,
        reason="r",
        actor=world.operator(),
    )
    held = world.claim_one(by=by, of=world.current(run, "old").task_id)
    bump_epoch(queue="q", expected_epoch=1, reason="r", actor=world.operator())
    assert isinstance(world.try_commit(held, by=by), Refusal)
    world.finish(held.fence.task_id, by=by)
    claim, effect, accepted = ledger.sent(by=by)
    ledger.report(effect, claim, accepted, DispatchOutcome.COMMITTED, by=by)
    world.commit(claim, by=by)
    run_drill(
        queue="q", reason="r", actor=system("drill"), wait=lambda c: world.lapse(c.fence.task_id)
    )


def test_a_clean_history_breaks_nothing(by: Worker) -> None:
    busy(by)
    report = audit()
    assert report.findings == []
    assert report.audit.broken == {}
    assert report.audit.rows_read > Event.objects.count() / 2
    assert last_audit() == report.audit
    assert not Event.objects.filter(kind="ALARM").exists()
    told = Event.objects.get(kind="AUDITED")
    assert (told.actor, told.data["broken"]) == ("operator:alice", {})


def test_an_empty_history_breaks_nothing() -> None:
    assert audit().audit.broken == {}


# --- what is planted is found ---------------------------------------------------------------------


def planted(invariant: str, *subjects: Any, broken: dict[str, int] | None = None) -> AuditReport:
    """The audit names exactly these rows under the invariant, and raises one alarm."""
    report = audit()
    found = {f.subject for f in report.findings if f.invariant == invariant}
    assert found == {str(subject) for subject in subjects}
    assert report.audit.broken == (broken or {invariant: len(subjects)})
    (alarm,) = Event.objects.filter(kind="ALARM", data__alarm="INVARIANT_BROKEN")
    assert {"audit_id": str(report.audit.audit_id)}.items() <= alarm.data.items()
    assert [invariant, str(subjects[0])] in alarm.data["named"]
    return report


def test_two_canonical_commits_of_a_task(by: Worker) -> None:
    run = world.submit()
    task_id = world.task_id(run, "a")
    world.finish(task_id, by=by)
    key = "coordinator_canonicalcommit_task_id_key"
    with unwatched("canonicalcommit") as cursor:
        cursor.execute(f"ALTER TABLE coordinator_canonicalcommit DROP CONSTRAINT {key}")
        cursor.execute(
            "INSERT INTO coordinator_canonicalcommit SELECT (jsonb_populate_record(c,"
            " jsonb_build_object('result_commit_id', gen_random_uuid()))).* FROM coordinator_canonicalcommit c"
        )
    try:
        report = planted("a task has at most one canonical commit", task_id)
        assert len(report.findings[0].detail["commits"]) == 2
    finally:
        with unwatched("canonicalcommit") as cursor:
            cursor.execute("DELETE FROM coordinator_canonicalcommit")
            cursor.execute(
                f"ALTER TABLE coordinator_canonicalcommit ADD CONSTRAINT {key} UNIQUE (task_id)"
            )


def test_a_committed_task_without_its_commit(by: Worker) -> None:
    run = world.submit()
    task_id = world.task_id(run, "a")
    world.finish(task_id, by=by)
    with unwatched("canonicalcommit") as cursor:
        cursor.execute("DELETE FROM coordinator_canonicalcommit")
    planted("a task is COMMITTED where it has a canonical commit", task_id)


def test_a_successor_that_was_released_too_early(by: Worker) -> None:
    run = world.submit(node("a"), node("b"), node("c", "a", "b"))
    world.finish(world.task_id(run, "a"), by=by)
    child = world.task_id(run, "c")
    with unwatched("task", "event") as cursor:
        cursor.execute(
            "UPDATE coordinator_task SET state = 'READY', state_version = 2, pending_dependencies = 0,"
            " ready_at = now(), claimable_at = now() WHERE task_id = %s",
            [child],
        )
        cursor.execute(
            "INSERT INTO coordinator_event (kind, task_id, state_version, actor, request_id, at, data, repeats)"
            " VALUES ('UNBLOCKED', %s, 2, 'operator:mallory', '', now(), '{}', 0)",
            [child],
        )
    report = planted("a successor is released by its parents' canonical commits", child)
    assert report.findings[0].detail["parents"] == [str(world.task_id(run, "b"))]


def test_a_gap_in_the_generations(by: Worker) -> None:
    run = world.submit()
    claim = world.claim_one(by=by)
    with unwatched("task", "attempt") as cursor:
        cursor.execute("UPDATE coordinator_task SET claim_generation = 3")
        cursor.execute("UPDATE coordinator_attempt SET claim_generation = 3")
    report = planted("generations are 1, 2, 3, … one an attempt", world.task_id(run, "a"))
    assert report.findings[0].detail == {"claim_generation": 3, "attempts": [3]}
    assert claim.fence.claim_generation == 1


def test_a_state_version_that_nobody_told(by: Worker) -> None:
    run = world.submit(node("a"), node("b"))
    world.finish(world.task_id(run, "b"), by=by)
    with unwatched("event") as cursor:
        cursor.execute("DELETE FROM coordinator_event WHERE kind = 'CLAIMED'")
    with unwatched("task") as cursor:
        cursor.execute(
            "UPDATE coordinator_task SET state_version = 2 WHERE task_id = %s",
            [world.task_id(run, "a")],
        )
    planted(
        "each state version of a task is told", world.task_id(run, "a"), world.task_id(run, "b")
    )


def test_a_committed_effect_without_its_dispatch(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by)
    ledger.report(effect, claim, accepted, DispatchOutcome.COMMITTED, by=by)
    with unwatched("dispatch", "evidence") as cursor:
        cursor.execute("DELETE FROM coordinator_evidence")
        cursor.execute("DELETE FROM coordinator_dispatch")
    planted("a COMMITTED effect has a dispatch and a receipt", effect.effect_id)


def test_a_write_of_an_old_epoch_that_was_accepted_after_its_bump(by: Worker) -> None:
    run = world.submit(node("a"), node("b"))
    claim, other = world.claim(by=by, limit=2)
    bump_epoch(queue="q", expected_epoch=1, reason="r", actor=world.operator())
    with unwatched("event") as cursor:
        cursor.execute(
            "INSERT INTO coordinator_event (kind, queue_id, task_id, attempt_id, state_version, actor, request_id, at,"
            " data, repeats) SELECT 'COMMITTED', queue_id, task_id, %s, state_version, 'worker:fleet-1#1', '', now(),"
            " '{}', 0 FROM coordinator_task WHERE task_id = %s RETURNING id",
            [claim.fence.attempt_id, claim.fence.task_id],
        )
        (event_id,) = cursor.fetchone()
    report = planted("nothing of an old epoch is accepted after its bump", event_id)
    detail = report.findings[0].detail
    assert (detail["scheduler_epoch"], detail["bumped_to"]) == (1, 2)
    assert other.fence.scheduler_epoch == 1
    assert world.task(world.task_id(run, "a")).state == "READY"


# --- how a pass goes ------------------------------------------------------------------------------


def test_a_pass_goes_on_where_it_was_broken_off_and_finds_each_row_once(
    by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy(by)
    with unwatched("event") as cursor:
        cursor.execute("DELETE FROM coordinator_event WHERE kind = 'CLAIMED'")
    whole = audit()
    asked = start_audit(reason="again", actor=world.operator())
    assert isinstance(asked, AuditRecord)
    calls = 0
    while Audit.objects.get(audit_id=asked.audit_id).finished_at is None:
        calls += 1
        assert (
            continue_audits(actor=system("audit"), budget_seconds=1e-9) <= 1
        )  # one batch, and the process ends
        assert calls < 500
    again = find_audit(asked.audit_id)
    assert again is not None
    assert calls > 10
    assert again.audit.broken == whole.audit.broken
    assert [f.subject for f in again.findings] == [f.subject for f in whole.findings]


def test_a_pass_reads_each_row_there_is_and_a_batch_no_other(by: Worker) -> None:
    """Events are walked by number, 9 before 10: walked by their texts, most would be passed over."""
    busy(by)
    world.submit(*[node(f"more {n}") for n in range(300)])
    events = list(Event.objects.order_by("id").values_list("id", flat=True))
    assert len(str(events[0])) < len(str(events[-1])), "their numbers grow by a digit"
    counted.alone()
    asked = start_audit(reason="r", actor=world.operator())
    assert isinstance(asked, AuditRecord)
    step = partial(continue_audits, actor=system("audit"), budget_seconds=1e-9)
    assert counted.least_rows_read(step, tables=("task",)) < 60
    while Audit.objects.get(audit_id=asked.audit_id).finished_at is None:
        step()
    told = find_audit(asked.audit_id)
    assert told is not None
    there = Task.objects.count() + EffectSlot.objects.count() + Event.objects.count()
    # The pass itself is told of twice: its end after the last batch.
    assert told.audit.rows_read == there - 1


def test_a_batch_that_breaks_off_leaves_no_trace(
    by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy(by)
    asked = start_audit(reason="r", actor=world.operator())
    assert isinstance(asked, AuditRecord)
    before = world.fingerprint("audit", "auditfinding")
    with monkeypatch.context() as broken:
        broken.setattr(audits, "_check", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            continue_audits(actor=system("audit"))
    assert world.fingerprint("audit", "auditfinding") == before
    continue_audits(actor=system("audit"), budget_seconds=600)
    assert Audit.objects.get().finished_at is not None


def test_the_background_begins_a_pass_when_one_is_due() -> None:
    continue_audits(actor=system("audit"), budget_seconds=600)
    (first,) = Audit.objects.all()
    assert (first.asked_by, first.reason) == ("system:audit", "it was due")
    assert first.finished_at is not None
    assert continue_audits(actor=system("audit")) == 0
    Audit.objects.update(started_at=timezone.now() - timedelta(hours=7))
    continue_audits(actor=system("audit"), budget_seconds=600)
    assert Audit.objects.count() == 2


def test_too_many_waiting_audits_are_refused_and_nothing_is_written() -> None:
    for _ in range(audits.MAX_OPEN):
        assert isinstance(start_audit(reason="r", actor=world.operator()), AuditRecord)
    before = world.fingerprint("audit", "event")
    assert isinstance(start_audit(reason="r", actor=world.operator()), Refusal)
    refused = start_audit(reason=" ", actor=world.operator())
    assert isinstance(refused, Refusal)
    assert [error.pointer for error in refused.errors] == ["/reason"]
    assert world.fingerprint("audit", "event") == before


def test_findings_are_bounded_and_counted_whole(
    by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audits, "MAX_FINDINGS", 3)
    world.submit(*(node(f"n{i}") for i in range(7)))
    with unwatched("event") as cursor:
        cursor.execute("DELETE FROM coordinator_event WHERE kind = 'SUBMITTED'")
    report = audit()
    assert report.audit.broken == {"each state version of a task is told": 7}
    assert len(report.findings) == 3
