"""The fence drill: refused each time as it must be, by the same services as everybody's (contract 14)."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from coordinator.actors import Worker, system
from coordinator.canary import DRILL, SUBMITTED_BY
from coordinator.clock import read_clock
from coordinator.fence import IsCurrent
from coordinator.models import (
    Attempt,
    DrillRun,
    EffectSlot,
    Event,
    Queue,
    Run,
    SerialScope,
    Task,
)
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors.console_overview import read_last_commits, read_refusals
from coordinator.selectors.console_runs import list_runs as console_runs
from coordinator.selectors.coverage import read_coverage
from coordinator.selectors.drills import (
    DrillRecord,
    last_drill,
    last_passed_at,
    list_drills,
    read_drills,
)
from coordinator.selectors.runs import RunFilters, list_runs
from coordinator.selectors.task_filters import TaskFilter, tasks_matching
from coordinator.selectors.tasks import TaskFilters, list_tasks
from coordinator.services import drill_script, hearings
from coordinator.services.claims import claim_task
from coordinator.services.drill_script import STEPS
from coordinator.services.drills import run_drill, run_due_drills
from coordinator.services.epochs import bump_epoch, set_intake
from coordinator.services.grants import Claim
from coordinator.services.runs import submit_run
from coordinator.states import Intake
from tests import world
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


@pytest.fixture(autouse=True)
def by() -> Worker:
    world.queue()
    return world.worker()


def lapse(claim: Claim) -> None:
    world.lapse(claim.fence.task_id)


def drill(queue: str = "q") -> DrillRecord:
    answer = run_drill(queue=queue, reason="r", actor=world.operator(), wait=lapse)
    assert isinstance(answer, DrillRecord), answer
    return answer


def alarms(kind: str) -> list[dict[str, Any]]:
    found = Event.objects.filter(kind="ALARM", data__alarm=kind).order_by("id")
    return list(found.values_list("data", flat=True))


def test_a_drill_passes_and_tells_each_step() -> None:
    answer = drill()
    assert answer.passed, answer.failed_steps
    assert {step.step: step.answered for step in answer.steps} == STEPS
    assert answer.asked_by == "operator:alice"
    (event,) = Event.objects.filter(kind="DRILLED")
    assert event.actor == "operator:alice"
    told = {key: event.data[key] for key in ("passed", "failed", "reason")}
    assert told == {"passed": True, "failed": [], "reason": "r"}
    assert last_passed_at(world.run_row(world.submit()).queue_id) == answer.finished_at


def test_a_real_lease_runs_out() -> None:
    """Without anybody moving a row: the drill waits for the database's clock."""
    answer = run_drill(queue="q", reason="r", actor=system("drill"))
    assert isinstance(answer, DrillRecord)
    assert answer.passed, answer.failed_steps
    assert answer.finished_at is not None
    assert answer.finished_at - answer.started_at >= timedelta(seconds=drill_script.LEASE_SECONDS)


@pytest.mark.parametrize("where", ["intake", "stage", "pool"])
def test_it_passes_whatever_keeps_workers_away(where: str) -> None:
    match where:
        case "intake":
            set_intake(queue="q", intake=Intake.STOPPED, reason="r", actor=world.operator())
        case "stage":
            Queue.objects.update(rollout_stage="SHADOW")
        case _:
            world.pool(name="green", min_contract="claim.v3")
            Queue.objects.update(active_pool_id="green")
    assert drill().passed


def test_it_leaves_nothing_open_and_disturbs_nobody(by: Worker) -> None:
    run = world.submit(node("real", serial_key="k"), node("next"))
    held = world.claim_one(by=by, of=world.task_id(run, "real"))
    before = list(Task.objects.exclude(kind=DRILL).order_by("task_id").values())
    epoch, scopes = world.epoch(), SerialScope.objects.count()
    drill()
    assert list(Task.objects.exclude(kind=DRILL).order_by("task_id").values()) == before
    assert (world.epoch(), SerialScope.objects.count()) == (epoch, scopes)
    assert set(Task.objects.filter(kind=DRILL).values_list("state", flat=True)) == {
        "COMMITTED",
        "CANCELLED",
    }
    assert not Run.objects.filter(submitted_by=SUBMITTED_BY, state="ACTIVE").exists()
    assert list(EffectSlot.objects.values_list("state", "dispatches")) == [("VOID", 0)]
    assert set(Attempt.objects.filter(task__kind=DRILL).values_list("pool", flat=True)) == {DRILL}
    world.commit(held, by=by)


def test_it_holds_coverage_at_100_percent() -> None:
    drill()
    assert read_coverage().is_whole


def test_lists_and_figures_leave_canaries_out(by: Worker) -> None:
    run = world.submit()
    world.finish(world.task_id(run, "a"), by=by)
    drill()
    assert [t.kind for t in list_tasks(TaskFilters())] == ["step"]
    assert len(list_tasks(TaskFilters(kind=DRILL))) == 3
    assert [t.kind for t in tasks_matching(TaskFilter())] == ["step"]
    assert [r.run_id for r in list_runs(RunFilters())] == [run.run_id]
    assert len(list_runs(RunFilters(name=DRILL))) == 1
    assert [r.run_id for r in console_runs().rows] == [run.run_id]
    assert [c.run_id for c in read_last_commits()] == [run.run_id]
    assert read_refusals(read_clock()).fences == ()


def _canary() -> Task:
    """A canary that is READY: a drill under way."""
    submit_run(
        queue="q", name=DRILL, metadata={}, nodes=[node("c", kind=DRILL)], actor=system("drill")
    )
    return Task.objects.get(kind=DRILL)


def test_no_worker_is_offered_a_canary(by: Worker) -> None:
    task = _canary()
    assert world.claim(by=by, limit=10) == []
    assert world.claim(by=by, limit=10, kinds=[DRILL]) == []
    before = world.fingerprint()
    answer = claim_task(
        task_id=task.task_id,
        expected_state_version=task.state_version,
        scheduler_epoch=1,
        owner="w",
        worker=by,
    )
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.NOT_CLAIMABLE
    assert world.fingerprint() == before


def test_the_drills_pool_gets_canaries_and_nothing_else(by: Worker) -> None:
    run = world.submit()
    task = world.task(world.task_id(run, "a"))
    answer = claim_task(
        task_id=task.task_id,
        expected_state_version=task.state_version,
        scheduler_epoch=1,
        owner="w",
        worker=world.worker(name=DRILL, pool_name=DRILL),
    )
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.WRONG_POOL


def test_nobody_else_submits_a_canary() -> None:
    nodes = [node("a"), node("b", kind=DRILL)]
    answer = submit_run(queue="q", name="r", metadata={}, nodes=nodes, actor=world.operator())
    assert isinstance(answer, Refusal)
    assert [error.pointer for error in answer.errors] == ["/nodes/1/kind"]
    assert not Task.objects.exists()


def test_an_unknown_queue_is_not_found() -> None:
    answer = run_drill(queue="nowhere", reason="r", actor=world.operator(), wait=lapse)
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.NOT_FOUND
    assert not DrillRun.objects.exists()


# --- a drill that fails ---------------------------------------------------------------------------


def break_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hearings, "judge", lambda call, **_: IsCurrent(call.fence.task_id))


def test_a_guard_that_passes_everything_fails_the_drill_and_raises_an_alarm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    break_the_guard(monkeypatch)
    answer = drill()
    assert answer.passed is False
    failed = {step.step: step.answered for step in answer.steps if not step.passed}
    assert failed["a renewal under an older epoch"] == "RENEWED"
    assert failed["a commit under an older epoch"] == "COMMITTED"
    assert failed["another worker takes the lapsed canary over"] == "NOT_CLAIMABLE"
    assert failed["whose result is canonical"] == "not reached"
    assert failed["its worker's commit"] == "error IntegrityError"  # the database's own refusal
    (alarm,) = alarms("DRILL_FAILED")
    assert set(alarm["failed"]) == set(failed)
    assert last_passed_at(DrillRun.objects.get().queue_id) is None
    monkeypatch.undo()
    assert not Run.objects.filter(submitted_by=SUBMITTED_BY, state="ACTIVE").exists()


def test_the_last_drill_says_how_the_guard_stands_now(monkeypatch: pytest.MonkeyPatch) -> None:
    good = drill()
    with monkeypatch.context() as broken:
        break_the_guard(broken)
        bad = drill()
    (stands,) = read_drills()
    assert (stands.passed, stands.at, stands.last_passed_at) == (
        False,
        bad.finished_at,
        good.finished_at,
    )
    assert stands.failed == bad.failed_steps
    assert last_drill(stands.queue_id) == bad
    drill()
    (stands,) = read_drills()
    assert (stands.passed, stands.failed) == (True, ())
    assert [d.passed for d in list_drills(queue="q")] == [True, False, True]


def test_a_bump_that_crosses_a_drill_makes_it_void() -> None:
    def bump(claim: Claim) -> None:
        bump_epoch(queue="q", expected_epoch=1, reason="r", actor=world.operator())

    answer = run_drill(queue="q", reason="r", actor=world.operator(), wait=bump)
    assert isinstance(answer, DrillRecord)
    assert answer.passed is None
    assert alarms("DRILL_FAILED") == []
    (stands,) = read_drills()
    assert stands.passed is None
    assert not Run.objects.filter(submitted_by=SUBMITTED_BY, state="ACTIVE").exists()
    assert drill().passed


# --- by the clock ---------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases are lapsed by hand where no test gives a wait of its own."""
    monkeypatch.setattr("coordinator.services.drills.run_drill.__kwdefaults__", {"wait": lapse})


def age_drills(**by_: float) -> None:
    for row in DrillRun.objects.all():
        ago = timedelta(**by_)
        row.started_at -= ago
        row.finished_at = row.finished_at and row.finished_at - ago
        row.save(update_fields=["started_at", "finished_at"])


@pytest.mark.usefixtures("quick")
def test_each_queue_is_drilled_when_it_is_due_the_longest_first() -> None:
    world.queue(name="r")
    assert run_due_drills(actor=system("drill"), limit=1) == 1
    assert run_due_drills(actor=system("drill")) == 1
    assert set(DrillRun.objects.values_list("queue__name", "passed")) == {("q", True), ("r", True)}
    assert run_due_drills(actor=system("drill")) == 0
    age_drills(minutes=16)
    assert run_due_drills(actor=system("drill")) == 2


@pytest.mark.usefixtures("quick")
def test_a_queue_whose_drill_has_not_passed_for_an_hour_raises_one_alarm_a_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Queue.objects.update(created_at=timezone.now() - timedelta(hours=2))
    assert [stands.is_overdue for stands in read_drills()] == [True]
    drill()
    assert [stands.is_overdue for stands in read_drills()] == [False]
    age_drills(hours=2)
    break_the_guard(monkeypatch)
    for _ in range(2):
        run_due_drills(actor=system("drill"))
        assert len(alarms("DRILL_OVERDUE")) == 1
    assert [stands.is_overdue for stands in read_drills()] == [True]
    monkeypatch.undo()
    assert drill().passed
    age_drills(hours=3)
    monkeypatch.setattr("coordinator.services.drills.MAX_AT_ONCE", 0)
    run_due_drills(actor=system("drill"))
    assert len(alarms("DRILL_OVERDUE")) == 2  # the next gap


@pytest.mark.usefixtures("quick")
def test_what_a_drill_that_died_has_left_is_cancelled() -> None:
    task = _canary()
    run_due_drills(actor=system("drill"))
    assert Run.objects.get(id=task.run_id).state == "ACTIVE"  # it may be under way
    with world.guarded():
        Run.objects.filter(id=task.run_id).update(created_at=timezone.now() - timedelta(minutes=11))
    run_due_drills(actor=system("drill"))
    assert Run.objects.get(id=task.run_id).state == "CANCELLED"
