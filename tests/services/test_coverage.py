"""Coverage is a real check (contract 14): the database counts, and only the guard's own verdicts are guarded."""

import ast
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from coordinator import digests
from coordinator.actors import Worker, system
from coordinator.fence import Call, IsCurrent, Point
from coordinator.models import BreakGlass, CoverageHour, Event, UncoveredWrite
from coordinator.outcomes import Refusal
from coordinator.rounds import Statement, close_with_round, name_point
from coordinator.selectors.coverage import Coverage, read_coverage
from coordinator.services import hearings
from coordinator.services.cancels import cancel_task
from coordinator.services.commits import commit_results
from coordinator.services.coverage import RolledUp, roll_up_coverage
from coordinator.services.endings import fail_attempt, release_attempt
from coordinator.services.epochs import bump_epoch
from coordinator.services.hearings import open_hearing
from coordinator.services.leases import Renewal, renew_leases, sweep
from coordinator.services.memory import MemoryWrite
from coordinator.services.reports import Report, report_by_gate
from coordinator.services.results import put_blob
from coordinator.services.transactions import in_transaction
from coordinator.services.usage import Usage
from coordinator.states import DispatchOutcome, Guarantee
from tests import world
from tests.effects import ledger
from tests.world import commit_item, node

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def by() -> Worker:
    world.queue(max_attempts=3)
    return world.worker()


def point(coverage: Coverage, name: str) -> tuple[int, int]:
    return next((p.guarded, p.counted) for p in coverage.points if p.point == name)


def roll_up() -> RolledUp:
    return roll_up_coverage(actor=system("coverage"))


def alarms() -> list[dict[str, Any]]:
    found = Event.objects.filter(kind="ALARM", data__alarm="COVERAGE").order_by("id")
    return list(found.values_list("data", flat=True))


# --- what is whole ------------------------------------------------------------------------------


def test_with_nothing_written_nothing_is_missing() -> None:
    coverage = read_coverage()
    assert coverage.percent == 100.0
    assert coverage.is_whole
    assert [p.point for p in coverage.points] == [str(each) for each in Point]


def _batch_with_refused_items(by: Worker) -> None:
    """A late owner, a current one with memory and children, one whose input is another, one forged."""
    world.submit(node("p1"), node("p2"), node("c1", "p1", "p2"), node("c2", "p1"))
    first, second = world.claim(by=by, limit=2)
    world.lapse(second.fence.task_id)
    sweep()
    (taken,) = world.claim(by=by)
    memory = (MemoryWrite("m", "k", 0, "1", digests.sha256(b"1")),)
    items = [
        replace(commit_item(second), usage=Usage(input_tokens=5)),
        replace(commit_item(first), memory=memory, usage=Usage(input_tokens=5)),
        replace(commit_item(taken), input_digest="sha256:" + "0" * 64),
        replace(commit_item(taken), fence=replace(taken.fence, claim_generation=9)),
        replace(commit_item(taken), memory=memory),  # the version has moved
        commit_item(taken),
    ]
    answers = commit_results(items=items, worker=by)
    assert [str(answer.outcome) for answer in answers] == [
        "FENCED",
        "COMMITTED",
        "STALE_INPUT",
        "FENCED",
        "MEMORY_CONFLICT",
        "COMMITTED",
    ]
    again = replace(commit_item(taken), usage=Usage(input_tokens=9))
    (repeat,) = commit_results(items=[again], worker=by)
    assert getattr(repeat, "replayed", False)


def _ends(by: Worker) -> None:
    world.submit(node("fails"), node("gives"), node("stages"), node("late"))
    held = {claim.node_id: claim for claim in world.claim(by=by, limit=100)}
    error = {"type": "E", "message": "m"}
    fails, gives, stages, late = (held[name] for name in ("fails", "gives", "stages", "late"))
    fail_attempt(
        attempt_id=fails.fence.attempt_id, fence=fails.fence, error=error, retryable=True, worker=by
    )
    release_attempt(attempt_id=gives.fence.attempt_id, fence=gives.fence, worker=by)
    world.stage(stages, by=by)
    put_blob(
        attempt_id=stages.fence.attempt_id, fence=stages.fence, name="b", chunks=[b"x"], worker=by
    )
    world.lapse(late.fence.task_id)
    sweep()
    world.claim(by=by, limit=100)
    assert world.stage(late, by=by).canonical_candidate is False
    put_blob(attempt_id=late.fence.attempt_id, fence=late.fence, name="b", chunks=[b"x"], worker=by)
    assert isinstance(world.try_commit(late, by=by), Refusal)


def _renewals(by: Worker) -> None:
    world.submit(*(node(f"n{i}") for i in range(5)))
    held = world.claim(by=by, limit=5, ttl_seconds=5)
    items = [
        Renewal(c.fence.attempt_id, c.fence, c.owner, 60, Usage(output_tokens=1)) for c in held
    ]
    items.append(replace(items[0], fence=replace(items[0].fence, scheduler_epoch=0)))
    assert [str(a.outcome) for a in renew_leases(items=items, worker=by)].count("RENEWED") == 5
    cancel_task(task_id=held[0].fence.task_id, reason="r", actor=world.operator())
    bump_epoch(queue="q", expected_epoch=world.epoch(), reason="r", actor=world.operator())
    for claim in held:
        assert isinstance(world.try_commit(claim, by=by), Refusal)


def _effects(by: Worker) -> None:
    """Bound, sent, taken over, reported late, looked up by each of the three, settled."""
    olga, by_itself = ledger.person("olga"), system("look-ups")
    claim, effect, accepted = ledger.sent(by=by, name="there")
    assert isinstance(ledger.try_prepare(claim, by=by, payload={"other": 1}), Refusal)
    assert isinstance(ledger.try_accept(effect, claim.fence, by=by), Refusal)
    assert isinstance(world.try_commit(claim, by=by), Refusal)
    world.lapse(claim.fence.task_id)
    sweep()
    taker = world.claim_one(by=by)
    ledger.report(effect, claim, accepted, DispatchOutcome.COMMITTED, by=by)  # late: evidence
    assert isinstance(ledger.absent(effect, by=by, fence=claim.fence, stamps=False), Refusal)
    ledger.absent(effect, by=by_itself)
    ledger.absent(effect, by=olga)
    ledger.happened(effect, by=by, fence=taker.fence)
    world.commit(taker, by=by)


def _gated(by: Worker) -> None:
    """The tool redeems, and tells what came of it when the attempt is over."""
    gate = world.worker(name="gate", scopes=["gate"])
    claim, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.GATED)
    ledger.redeem(effect, accepted, gate=gate)
    world.lapse(claim.fence.task_id)
    sweep()
    world.claim(by=by, limit=100)
    report_by_gate(
        effect_id=effect.effect_id,
        redeem_id="call-1",
        report=Report(accepted.dispatch_id, DispatchOutcome.COMMITTED, "r"),
        gate=gate,
    )


def _approved(by: Worker) -> None:
    ledger.approved_and_sent(by=by, guarantee=Guarantee.NONE)


@pytest.mark.parametrize(
    "load", [_batch_with_refused_items, _ends, _renewals, _effects, _gated, _approved]
)
def test_normal_load_holds_exactly_100_percent(by: Worker, load: Callable[[Worker], None]) -> None:
    load(by)
    before = read_coverage()
    rolled = roll_up()
    coverage = read_coverage()
    assert coverage.uncovered == ()
    assert coverage.percent == 100.0
    assert coverage.is_whole
    assert sum(p.counted for p in coverage.points) > 0
    assert rolled.statements > 0
    assert (rolled.uncovered, rolled.refused) == (0, 0)
    assert not alarms()
    assert (
        before.points == coverage.points
    )  # the roll-up moves rows, and neither loses nor doubles one


def test_rolling_up_again_changes_nothing(by: Worker) -> None:
    _batch_with_refused_items(by)
    roll_up()
    before = world.fingerprint("coveragehour", "uncoveredwrite", "event")
    assert roll_up() == RolledUp(0, 0, 0)
    assert world.fingerprint("coveragehour", "uncoveredwrite", "event") == before


def test_the_record_of_a_refused_call_is_counted_apart(by: Worker) -> None:
    world.submit()
    late = world.claim_one(by=by)
    world.lapse(late.fence.task_id)
    sweep()
    world.claim_one(by=by)
    roll_up()
    CoverageHour.objects.all().delete()
    item = replace(commit_item(late), usage=Usage(input_tokens=5))
    assert isinstance(commit_results(items=[item], worker=by)[0], Refusal)
    coverage = read_coverage()
    assert point(coverage, "commit") == (0, 0)
    assert coverage.kept == 2  # its attempt's mark and its usage
    assert coverage.percent == 100.0


def test_acts_of_people_and_of_the_system_are_counted_apart(by: Worker) -> None:
    run = world.submit()
    cancel_task(task_id=world.task_id(run, "a"), reason="r", actor=world.operator())
    coverage = read_coverage()
    assert coverage.acts.keys() == {"submit", "cancel", "settle"}
    assert sum(p.counted for p in coverage.points) == 0


# --- what lowers it -------------------------------------------------------------------------------


@in_transaction
def _commit_unguarded(fence: Any) -> None:
    """A verb somebody wrote in a hurry: it locks, and writes without asking the guard."""
    hearing = open_hearing(Point.COMMIT, [(fence.attempt_id, fence)], worker=world.worker())
    hearing.write(
        Statement(
            "UPDATE coordinator_task SET priority = priority + 1 WHERE task_id = %s::uuid",
            (fence.task_id,),
        ),
    )


def test_a_write_path_that_forgets_the_guard_lowers_coverage_and_turns_the_gate_red(
    by: Worker,
) -> None:
    world.submit(node("a"), node("b"))
    claim, other = world.claim(by=by, limit=2)
    world.commit(other, by=by)
    _commit_unguarded(claim.fence)
    coverage = read_coverage()
    guarded, counted = point(coverage, "commit")
    assert counted == guarded + 1
    assert coverage.percent < 100
    assert not coverage.is_whole
    (named,) = coverage.uncovered
    assert (named.point, named.written_to, named.rows, named.missing) == ("commit", "task", 1, 1)
    assert "process" in named.session
    assert roll_up().uncovered == 1
    assert read_coverage().points == coverage.points
    assert read_coverage().uncovered == coverage.uncovered
    assert [(a["point"], a["missing"]) for a in alarms()] == [("commit", 1)]


def test_an_alarm_is_raised_once_an_hour_and_point(by: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=by)
    for _ in range(3):
        _commit_unguarded(claim.fence)
        roll_up()
    events = Event.objects.filter(kind="ALARM")
    assert (
        len({e.data["hour"] for e in events}) == len(events) <= 2
    )  # 2: the hour has turned meanwhile
    assert UncoveredWrite.objects.count() == 3


def test_an_unguarded_item_within_a_guarded_batch_is_told_from_the_others(
    by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check is by row, not by transaction: one item that was let through without a verdict is missing."""
    world.submit(node("a"), node("b"))
    good, skipped = world.claim(by=by, limit=2)
    real = hearings.Hearing._judge

    def forgetful(self: Any, call: Call, attempt_id: Any, queue: str | None) -> Any:
        verdict = real(self, call, attempt_id, queue)
        return verdict if call.fence == good.fence else IsCurrent(good.fence.task_id)

    monkeypatch.setattr(hearings.Hearing, "_judge", forgetful)
    commit_results(items=[commit_item(good), commit_item(skipped)], worker=by)
    coverage = read_coverage()
    guarded, counted = point(coverage, "commit")
    assert (guarded, counted) == (3, 6)  # of each: the commit, the task, the attempt


def test_a_write_by_hand_that_names_a_point_is_not_guarded(by: Worker) -> None:
    run = world.submit()
    with world.guarded("commit"), connection.cursor() as cursor:
        cursor.execute("UPDATE coordinator_task SET priority = 7")
    with world.guarded("whatever"), connection.cursor() as cursor:
        cursor.execute("UPDATE coordinator_run SET name = 'x'")
    coverage = read_coverage()
    assert point(coverage, "commit") == (0, 1)
    assert point(coverage, "whatever") == (0, 1)
    assert world.task(world.task_id(run, "a")).priority == 7
    assert not coverage.is_whole


def test_a_write_by_hand_that_the_database_refuses_is_counted_though_it_is_rolled_back(
    by: Worker,
) -> None:
    world.submit()
    before = world.fingerprint()
    for _ in range(2):
        with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("UPDATE coordinator_task SET priority = 7")
    assert world.fingerprint() == before
    coverage = read_coverage()
    assert coverage.refused_writes == 2
    assert coverage.percent < 100
    assert roll_up().refused == 2
    assert roll_up().refused == 0
    assert read_coverage().points == coverage.points
    assert [(a["point"], a["refused"]) for a in alarms()] == [("none", 2)]


def test_what_is_written_in_a_break_glass_session_counts_against_it(by: Worker) -> None:
    world.submit()
    session = BreakGlass.objects.create(
        opened_by="operator:olga", reason="r", expires_at=timezone.now() + timedelta(hours=1)
    )
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('tenure.break_glass', %s, true)", [str(session.pk)])
        cursor.execute("UPDATE coordinator_task SET priority = 7")
    coverage = read_coverage()
    assert point(coverage, "break_glass") == (0, 1)
    assert not coverage.is_whole


def test_a_write_that_was_rolled_back_counts_nothing(by: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=by)
    before = read_coverage().points
    with transaction.atomic():
        _commit_unguarded(claim.fence)
        transaction.set_rollback(True)
    assert read_coverage().points == before


def test_an_old_fault_leaves_the_window_with_its_hour(by: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=by)
    _commit_unguarded(claim.fence)
    roll_up()
    CoverageHour.objects.update(hour=timezone.now() - timedelta(hours=5))
    UncoveredWrite.objects.update(at=timezone.now() - timedelta(hours=5))
    assert read_coverage(hours=1).is_whole
    assert not read_coverage(hours=6).is_whole


def test_a_rolled_up_row_is_rolled_up_once_by_two_at_a_time(by: Worker) -> None:
    _batch_with_refused_items(by)
    before = read_coverage().points
    rivals = [world.Rival(roll_up) for _ in range(4)]
    for rival in rivals:
        rival.result()
    roll_up()
    assert read_coverage().points == before


# --- who makes a pass -----------------------------------------------------------------------------


def test_nothing_but_the_guard_makes_a_pass() -> None:
    """A pass that a writer could make for itself would prove nothing."""
    makers = [
        path.name
        for path in sorted(Path("coordinator").rglob("*.py"))
        for node_ in ast.walk(ast.parse(path.read_text()))
        if isinstance(node_, ast.Call)
        and getattr(node_.func, "id", getattr(node_.func, "attr", "")) == "IsCurrent"
    ]
    assert set(makers) == {"fence.py"}


def test_an_act_can_not_take_the_name_of_an_acceptance_point() -> None:
    assert all("'tenure.act', ''" in name_point(str(each)).sql for each in Point)
    assert not any("'yes'" in name_point(str(each)).sql for each in Point)
    assert "tenure.act" in name_point("bump").sql


def test_a_pass_ends_with_its_transaction(by: Worker) -> None:
    """The next transaction of the same connection has nothing to show."""
    world.submit(node("a"), node("b"))
    claim, other = world.claim(by=by, limit=2)
    world.commit(claim, by=by)
    with transaction.atomic():
        close_with_round(
            name_point(Point.COMMIT),
            Statement(
                "UPDATE coordinator_task SET priority = 2 WHERE task_id = %s::uuid",
                (claim.fence.task_id,),
            ),
        )
    guarded, counted = point(read_coverage(), "commit")
    assert counted == guarded + 1
    assert other.fence.claim_generation == 1
