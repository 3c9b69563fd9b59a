"""What the database itself refuses about its identity, restores and holds (contract 12, 16), by raw SQL."""

import psycopg.errors
import pytest
from django.db import IntegrityError, connection, transaction

from coordinator.services.restore_holds import release_restore_hold
from coordinator.states import Guarantee
from tests import restoring, world
from tests.effects import ledger

pytestmark = pytest.mark.django_db(transaction=True)

PROTECTED = ("installation", "restore", "restorehold")

ATTEMPTS = [
    ("installation_is_one", "UPDATE coordinator_installation SET id = 2"),
    ("installation_hold", "UPDATE coordinator_installation SET held_because = 'x'"),
    ("installation_hold", "UPDATE coordinator_installation SET held_for_good = true"),
    (
        "restore_one_open",
        (
            "INSERT INTO coordinator_restore (begun_at, begun_by, reason, found, epochs)"
            " SELECT now(), 'x', 'x', '{}', '{}' FROM generate_series(1, 2)"
        ),
    ),
    ("restore_is_final", "UPDATE coordinator_restore SET finished_at = NULL"),
    ("restore_is_final", "UPDATE coordinator_restore SET begun_by = 'nobody'"),
    (
        "restore_hold_once",
        (
            "INSERT INTO coordinator_restorehold (restore_id, task_id, held_at)"
            " SELECT restore_id, task_id, held_at FROM coordinator_restorehold"
        ),
    ),
    (
        "restore_hold_released",
        "UPDATE coordinator_restorehold SET released_at = now() WHERE released_at IS NULL",
    ),
    (
        "restorehold_is_final",
        "UPDATE coordinator_restorehold SET released_by = 'nobody' WHERE released_at IS NOT NULL",
    ),
    (
        "restorehold_is_final",
        (
            "UPDATE coordinator_restorehold SET released_at = NULL, released_by = NULL, reason = NULL"
            " WHERE released_at IS NOT NULL"
        ),
    ),
    ("restorehold_is_final", "UPDATE coordinator_restorehold SET restore_id = restore_id + 1"),
]


@pytest.fixture(autouse=True)
def restored() -> None:
    """A restore that is over, with one hold that is open and one that was released."""
    world.queue()
    there = ledger.register(Guarantee.CONDITIONAL_WRITE)
    run = world.submit(
        world.node("one", slots={"out": there}), world.node("two", slots={"out": there})
    )
    restoring.restored(even_without_doubt=True)
    one = world.current(run, "one")
    release_restore_hold(
        task_id=one.task_id,
        expected_state_version=one.state_version,
        reason="r",
        actor=world.operator(),
    )


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


def test_a_write_that_names_no_acceptance_point_is_refused(subtests: pytest.Subtests) -> None:
    before = world.fingerprint(*PROTECTED)
    for table in PROTECTED:
        for sql in (
            f"INSERT INTO coordinator_{table} SELECT * FROM coordinator_{table}",
            f"UPDATE coordinator_{table} SET id = id",
            f"DELETE FROM coordinator_{table}",
        ):
            with subtests.test(sql):
                with pytest.raises(IntegrityError) as refusal, transaction.atomic():
                    _execute(sql)
                assert isinstance(refusal.value.__cause__, psycopg.errors.CheckViolation)
                assert refusal.value.__cause__.diag.constraint_name == f"{table}_through_the_guard"
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
    guards = {f"{table}_through_the_guard" for table in PROTECTED}
    assert rules - guards == {rule for rule, _ in ATTEMPTS}
