"""What the database itself refuses about incidents (contract 12, 16), each rule tried by raw SQL.

The attempts run with an acceptance point named, as our own code would: what stops them is the rule itself. The last
test keeps the list complete. That the arrows are those of states.py is in tests/services/test_states.py.
"""

import psycopg.errors
import pytest
from django.db import IntegrityError, connection, transaction

from coordinator.models import (
    CandidateDecision,
    Incident,
    IncidentCanary,
    IncidentEffect,
    IncidentHold,
)
from coordinator.states import Guarantee
from tests import world
from tests.effects import ledger
from tests.incidents import rollback
from tests.services.test_refusals import NEW, copy

pytestmark = pytest.mark.django_db(transaction=True)

#: The tables of migrations 0011 and 0025, all of them protected; in an order in which their rows can be deleted.
PROTECTED = [
    "candidatedecision",
    "incidenteffect",
    "incidenthold",
    "incidentstep",
    "incidentcanary",
    "incidentqueue",
    "incident",
]
APPEND_ONLY = {
    "candidatedecision",
    "incidentcanary",
    "incidenteffect",
    "incidenthold",
    "incidentstep",
}


@pytest.fixture(autouse=True)
def crowded() -> None:
    """A bumped incident with a hold, an effect and a decision, and one each that is stopped, called off and over."""
    for name in ("q", "stopped", "aborted", "closed"):
        world.queue(name=name)
    by = world.worker()
    world.worker(name="green", pool_name="green", queues=("closed",))
    claim, _, _ = ledger.sent(by=by, guarantee=Guarantee.CONDITIONAL_WRITE)
    world.stage(claim, by=by)
    bumped = rollback.bumped()
    rollback.decide(bumped)
    rollback.opened(queues=("stopped",))
    rollback.took(rollback.abort(rollback.opened(queues=("aborted",))))
    over = rollback.bumped(queues=("closed",))
    rollback.took(rollback.switch(over))
    rollback.let_in(over, 10)
    rollback.took(rollback.resume(over))


def test_the_world_has_a_row_of_every_kind() -> None:
    states = set(Incident.objects.values_list("state", flat=True))
    assert states == {"STOPPED", "BUMPED", "ABORTED", "CLOSED"}
    for kind in (CandidateDecision, IncidentCanary, IncidentEffect, IncidentHold):
        assert kind.objects.count() == 1


def incident(state: str, changes: str) -> str:
    return f"UPDATE coordinator_incident SET {changes} WHERE state = '{state}'"


def lane(state: str, changes: str) -> str:
    return (
        f"UPDATE coordinator_incidentqueue l SET {changes} FROM coordinator_incident i"
        f" WHERE i.incident_id = l.incident_id AND i.state = '{state}'"
    )


SECOND_INCIDENT = """
INSERT INTO coordinator_incidentqueue (incident_id, queue_id, is_open, intake_before, pool_before)
SELECT i.incident_id, l.queue_id, true, 'OPEN', 'blue' FROM coordinator_incident i, coordinator_incidentqueue l
WHERE i.state = 'STOPPED' AND l.is_open AND l.incident_id <> i.incident_id
"""
ATTEMPTS: list[tuple[str, str]] = [
    # no step is skipped, none taken back
    ("incident_arrows", incident("STOPPED", "state = 'DRAINED', version = version + 1")),
    ("incident_arrows", incident("STOPPED", "state = 'SWITCHED', version = version + 1")),
    (
        "incident_arrows",
        incident("STOPPED", "state = 'CLOSED', version = version + 1, ended_at = now()"),
    ),
    ("incident_arrows", incident("BUMPED", "state = 'STOPPED', version = version + 1")),
    ("incident_arrows", incident("BUMPED", "state = 'SWITCHED', version = version + 1")),
    (
        "incident_arrows",
        incident("BUMPED", "state = 'ABORTED', version = version + 1, ended_at = now()"),
    ),
    (
        "incident_arrows",
        incident("ABORTED", "state = 'STOPPED', version = version + 1, ended_at = NULL"),
    ),
    (
        "incident_arrows",
        incident("CLOSED", "state = 'BUMPED', version = version + 1, ended_at = NULL"),
    ),
    ("incident_change_takes_version", incident("STOPPED", "state = 'BUMPED'")),
    ("incident_change_takes_version", incident("BUMPED", "version = version - 1")),
    ("incident_is_bound", incident("BUMPED", "reason = 'another'")),
    ("incident_is_bound", incident("BUMPED", "opened_by = 'operator:nobody'")),
    ("incident_is_bound", incident("BUMPED", "opened_by_id = opened_by_id + 1")),
    ("incident_is_bound", incident("BUMPED", "opened_at = now()")),
    ("incident_is_bound", incident("BUMPED", "covers_all = true")),
    ("incident_ended", incident("STOPPED", "ended_at = now()")),
    ("incident_ended", incident("STOPPED", "state = 'ABORTED', version = version + 1")),
    ("incident_state", copy("incident", "state = 'STOPPED'", incident_id=NEW, state="LOST")),
    ("incident_version", copy("incident", "state = 'STOPPED'", incident_id=NEW, version=0)),
    # what is known of its queues
    ("incidentqueue_is_bound", lane("ABORTED", "is_open = true")),
    ("incidentqueue_is_bound", lane("BUMPED", "intake_before = 'STOPPED'")),
    ("incidentqueue_is_bound", lane("BUMPED", "pool_before = 'green'")),
    ("incidentqueue_is_bound", lane("BUMPED", "queue_id = queue_id + 1")),
    ("incidentqueue_is_bound", lane("BUMPED", "epoch_after = epoch_after + 1")),
    ("incidentqueue_is_bound", lane("BUMPED", "epoch_before = NULL, epoch_after = NULL")),
    ("incidentqueue_is_bound", lane("CLOSED", "pool_after = 'blue'")),
    ("incident_epoch_raised", lane("STOPPED", "epoch_before = 2, epoch_after = 2")),
    ("incident_epoch_raised", lane("STOPPED", "epoch_before = 2")),
    ("incident_queue_once", copy("incidentqueue", "NOT is_open", id=999)),
    (
        "incident_one_open_per_queue",
        SECOND_INCIDENT,
    ),
    # what was done
    ("incident_step_once", copy("incidentstep", "step = 'STOPPED'", id=999)),
    ("incident_step_state", copy("incidentstep", "true", id=999, step="LOST")),
    ("incident_canary_once", copy("incidentcanary", "true", id=999)),
    ("incident_canary_share", copy("incidentcanary", "true", id=999, version=99, share=100)),
    ("incident_canary_share", copy("incidentcanary", "true", id=999, version=99, share=-1)),
    ("incident_hold_once", copy("incidenthold", "true", id=999)),
    ("incident_effect_once", copy("incidenteffect", "true", id=999)),
    ("candidate_decision", copy("candidatedecision", "true", id=999, decision="MAYBE")),
    ("coordinator_candidatedecision_staged_id_key", copy("candidatedecision", "true", id=999)),
    *(
        (f"{table}_append_only", sql.format(table=table))
        for table in sorted(APPEND_ONLY)
        for sql in ("UPDATE coordinator_{table} SET id = id", "DELETE FROM coordinator_{table}")
    ),
]


def _execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def test_the_database_refuses_each_attempt(subtests: pytest.Subtests) -> None:
    before = world.fingerprint(*PROTECTED)
    for rule, sql in ATTEMPTS:
        with subtests.test(rule, sql=sql):
            with pytest.raises(IntegrityError) as refusal, world.guarded():
                _execute(sql)
            cause = refusal.value.__cause__
            assert isinstance(cause, psycopg.errors.IntegrityError)
            assert cause.diag.constraint_name == rule
            assert world.fingerprint(*PROTECTED) == before


@pytest.mark.parametrize("verb", ["INSERT", "UPDATE", "DELETE"])
def test_a_write_that_names_no_acceptance_point_is_refused(
    subtests: pytest.Subtests, verb: str
) -> None:
    before = world.fingerprint(*PROTECTED)
    for table in PROTECTED:
        sql = {
            "INSERT": f"INSERT INTO coordinator_{table} SELECT * FROM coordinator_{table}",
            "UPDATE": f"UPDATE coordinator_{table} SET incident_id = incident_id",
            "DELETE": f"DELETE FROM coordinator_{table}",
        }[verb]
        # Triggers fire in the order of their names; what is append-only is refused on that account first.
        append_only = table in APPEND_ONLY and verb != "INSERT"
        rule = f"{table}_append_only" if append_only else f"{table}_through_the_guard"
        with subtests.test(table):
            with pytest.raises(IntegrityError) as refusal, transaction.atomic():
                _execute(sql)
            assert isinstance(refusal.value.__cause__, psycopg.errors.CheckViolation)
            assert refusal.value.__cause__.diag.constraint_name == rule
            assert world.fingerprint(*PROTECTED) == before


def test_nothing_that_the_database_refuses_is_left_untried() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE contype IN ('c', 'u') AND conrelid = ANY(%s::regclass[])"
            " UNION SELECT indexrelid::regclass::text FROM pg_index"
            "   WHERE indisunique AND NOT indisprimary AND indrelid = ANY(%s::regclass[])"
            " UNION SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgrelid = ANY(%s::regclass[])",
            [[f"coordinator_{table}" for table in PROTECTED]] * 3,
        )
        rules = {row[0] for row in cursor.fetchall()}
    assert rules - {rule for rule, _ in ATTEMPTS} == {
        f"{table}_through_the_guard" for table in PROTECTED
    }
    assert {rule for rule, _ in ATTEMPTS} <= rules
