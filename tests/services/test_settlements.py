"""What becomes of a run (contract 6), also when several deciders look at once."""

import pytest

from coordinator.actors import Worker
from coordinator.models import Attempt, Event
from coordinator.services.cancels import cancel_task
from coordinator.services.endings import fail_attempt
from coordinator.services.revisions import reopen_task
from coordinator.services.runs import Submitted, settle_active_runs, settle_runs
from coordinator.states import AttemptState, RunState, TaskState
from tests import world
from tests.emptying import make_anew
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


@pytest.fixture(autouse=True)
def by() -> Worker:
    world.queue(max_attempts=1)
    return world.worker()


def fail(run: Submitted, name: str, *, by: Worker) -> None:
    claimed = world.claim_one(by=by, of=world.task_id(run, name))
    fail_attempt(
        attempt_id=claimed.fence.attempt_id,
        fence=claimed.fence,
        error={"type": "E", "message": "m"},
        retryable=False,
        worker=by,
    )


def cancel(run: Submitted, name: str) -> None:
    cancel_task(task_id=world.task_id(run, name), reason="r", actor=world.operator())


def unsettle(run: Submitted) -> None:
    """As if the process had died between the commit and the settling of its run."""
    with world.guarded():
        row = world.run_row(run)
        type(row).objects.filter(pk=row.pk).update(state=RunState.ACTIVE, finished_at=None)


def test_a_run_is_committed_when_each_node_is(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"))
    world.finish(world.task_id(run, "a"), by=by)
    assert world.run_row(run).state == RunState.ACTIVE
    world.finish(world.task_id(run, "b"), by=by)
    row = world.run_row(run)
    assert row.state == RunState.COMMITTED
    assert row.finished_at is not None
    event = Event.objects.get(kind="RUN_SETTLED")
    assert (event.run_id, event.data, event.actor) == (
        row.pk,
        {"state": "COMMITTED"},
        "system:settle",
    )


def test_a_failure_settles_the_run_only_when_nothing_else_can_move(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"), node("c"))
    fail(run, "a", by=by)
    assert world.run_row(run).state == RunState.ACTIVE
    world.finish(world.task_id(run, "c"), by=by)
    assert world.run_row(run).state == RunState.FAILED
    assert world.current(run, "b").state == TaskState.BLOCKED


def test_a_failure_outweighs_a_cancel(by: Worker) -> None:
    run = world.submit(node("a"), node("b"))
    fail(run, "a", by=by)
    cancel(run, "b")
    assert world.run_row(run).state == RunState.FAILED


def test_a_cancelled_node_beside_committed_ones_makes_the_run_cancelled(by: Worker) -> None:
    run = world.submit(node("a"), node("b"), node("c", "b"))
    cancel(run, "b")
    assert world.run_row(run).state == RunState.ACTIVE
    world.finish(world.task_id(run, "a"), by=by)
    assert world.run_row(run).state == RunState.CANCELLED


@pytest.mark.parametrize("state", ["AWAITING_APPROVAL", "AWAITING_RECONCILIATION"])
def test_a_node_that_awaits_keeps_its_run_active(by: Worker, state: str) -> None:
    run = world.submit(node("a"), node("b"))
    world.claim_one(by=by, of=world.task_id(run, "a"))
    fail(run, "b", by=by)
    with world.guarded():
        row = world.task(world.task_id(run, "a"))
        type(row).objects.filter(pk=row.pk).update(
            state=state, state_version=row.state_version + 1, attempt_id=None, owner=None
        )
        Attempt.objects.filter(task=row).update(
            state=AttemptState.PARKED, ended_at=row.lease_expires_at, end_reason="PARKED"
        )
        Event.objects.create(
            kind="PARKED",
            task=row,
            state_version=row.state_version + 1,
            actor="system:test",
            at=row.created_at,
        )
    settle_runs([world.run_row(run).pk])
    assert world.run_row(run).state == RunState.ACTIVE


def test_a_lost_settling_is_made_up_for(by: Worker) -> None:
    done, open_ = world.submit(), world.submit()
    world.finish(world.task_id(done, "a"), by=by)
    unsettle(done)
    assert settle_active_runs(100) == 1
    assert world.run_row(done).state == RunState.COMMITTED
    assert world.run_row(open_).state == RunState.ACTIVE
    assert settle_active_runs(100) == 0


def test_settling_again_changes_nothing(by: Worker) -> None:
    run = world.submit()
    world.finish(world.task_id(run, "a"), by=by)
    before = world.fingerprint()
    number = world.run_row(run).pk
    settle_runs([number, number])
    settle_runs([])
    settle_active_runs()
    assert world.fingerprint() == before
    assert Event.objects.filter(kind="RUN_SETTLED").count() == 1


def test_of_two_deciders_at_once_one_settles(by: Worker) -> None:
    run = world.submit()
    world.finish(world.task_id(run, "a"), by=by)
    unsettle(run)
    Event.objects.all()
    number = world.run_row(run).pk
    with world.holding(
        "SELECT 1 FROM coordinator_run WHERE id = %s FOR UPDATE", [number]
    ) as holder:
        rivals = [world.Rival(lambda: settle_runs([number])) for _ in range(2)]
        world.wait_until_blocked(*(rival.pid for rival in rivals))
        holder.release()
        for rival in rivals:
            rival.result()
    assert world.run_row(run).state == RunState.COMMITTED
    assert Event.objects.filter(kind="RUN_SETTLED").count() == 2, "the first, and one of the two"


def test_a_settling_waits_for_a_reopening_and_sees_it(by: Worker) -> None:
    run = world.submit(node("a"), node("b"))
    cancel(run, "a")
    cancel(run, "b")
    unsettle(run)
    row, task = world.run_row(run), world.task_id(run, "a")
    with world.holding_task(task) as holder:
        reopening = world.Rival(
            lambda: reopen_task(
                task_id=task, expected_state_version=2, reason="r", actor=world.operator()
            )
        )
        world.wait_until_blocked(reopening.pid, by=holder.pid)
        settling = world.Rival(lambda: settle_runs([row.pk]))
        world.wait_until_blocked(settling.pid, by=reopening.pid)
        holder.release()
        reopening.result()
        settling.result()
    assert world.run_row(run).state == RunState.ACTIVE


def test_a_look_at_a_run_of_ten_thousand_blocked_nodes_is_one_probe(by: Worker) -> None:
    from django.db import connection

    from coordinator.services import settlements

    make_anew("run")
    run = world.submit(node("hub"), *(node(f"n{i}", "hub") for i in range(9_999)))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE coordinator_task")
        sql = settlements._STANDING.replace("%s", f"ARRAY[{world.run_row(run).pk}]")
        cursor.execute("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) " + sql)
        plan = cursor.fetchall()[0][0][0]["Plan"]
    assert "task_unsettled" in str(plan)
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 20
