"""Only the database tells time, and it is asked after the locks are held (contract 4)."""

import ast
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from coordinator.clock import CLOCK, clock_of, read_clock
from coordinator.models import Event
from coordinator.services.cancels import cancel_task
from coordinator.services.revisions import revise_task
from tests import world

ROOT = Path(__file__).parents[2] / "coordinator"
#: Clocks of the process. `time.sleep` and `time.monotonic` measure waits and decide nothing.
FORBIDDEN = {
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("datetime", "today"),
    ("timezone", "now"),
    ("time", "time"),
}


@pytest.mark.parametrize(
    "path",
    sorted(
        [
            *ROOT.glob("services/*.py"),
            *ROOT.glob("selectors/*.py"),
            ROOT / "fence.py",
            ROOT / "gates.py",
        ]
    ),
    ids=lambda path: path.name,
)
def test_no_service_and_no_selector_asks_the_clock_of_its_process(path: Path) -> None:
    calls = {
        (node.value.id, node.attr)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    assert calls & FORBIDDEN == set()


@pytest.mark.parametrize(
    "function", ["now()", "statement_timestamp()", "transaction_timestamp()", "CURRENT_TIMESTAMP"]
)
def test_no_statement_asks_for_a_time_from_before_its_locks(function: str) -> None:
    for path in ROOT.glob("services/*.py"):
        strings = [
            node.value
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and "SELECT" in node.value.upper()
        ]
        docless = [
            text
            for text in strings
            if any(word in text for word in ("FROM ", "UPDATE ", "INSERT "))
        ]
        assert not any(function in text for text in docless), path.name


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("verb", ["cancel", "revise"])
def test_a_service_that_waited_for_a_lock_tells_the_time_of_after_the_wait(verb: str) -> None:
    world.queue()
    run = world.submit()
    task = world.task_id(run, "a")

    def call() -> Any:
        if verb == "cancel":
            return cancel_task(task_id=task, reason="r", actor=world.operator())
        return revise_task(
            task_id=task, expected_state_version=1, input=1, reason="r", actor=world.operator()
        )

    with world.holding_task(task) as holder:
        rival = world.Rival(call)
        world.wait_until_blocked(rival.pid, by=holder.pid)
        ((released_after,),) = holder.execute("SELECT clock_timestamp()")
        holder.release()
        rival.result()
    told = Event.objects.exclude(kind="SUBMITTED").earliest("id").at
    assert told > released_after


@pytest.mark.django_db
def test_the_clock_goes_on_within_a_transaction() -> None:
    with connection.cursor() as cursor:
        instants = []
        for _ in range(2):
            cursor.execute(CLOCK.sql)
            instants.append(clock_of(cursor.fetchall()))
        cursor.execute("SELECT now()")
        began = cursor.fetchall()[0][0]
    assert began < instants[0] < instants[1]
    assert read_clock().tzinfo is not None


@pytest.mark.django_db(transaction=True)
def test_a_process_whose_clock_is_wrong_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's clock is set to another century: grants and due times are the database's all the same."""
    world.queue()
    by = world.worker()
    monkeypatch.setattr("time.time", lambda: 0.0)
    monkeypatch.setattr("django.utils.timezone.now", lambda: datetime(1970, 1, 1, tzinfo=UTC))
    run = world.submit()
    claimed = world.claim_one(by=by, ttl_seconds=60)
    row = world.task(world.task_id(run, "a"))
    assert row.created_at <= read_clock()
    assert row.created_at.year > 2000
    assert 59 < claimed.lease_seconds <= 60
    assert (claimed.lease_expires_at - read_clock()).total_seconds() <= 60
