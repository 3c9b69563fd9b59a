"""After a restore: every call that can't be seen may be out, and a person lets each task go (contract 12)."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError, call_command

from coordinator.actors import Worker, system
from coordinator.canary import DRILL
from coordinator.models import Approval, Attempt, Event, Installation, Queue, Restore, RestoreHold
from coordinator.outcomes import Outcome, Reason, Refusal
from coordinator.selectors.explain import explain_task
from coordinator.services import identity, lost_calls, restores
from coordinator.services.acceptances import Accepted
from coordinator.services.cancels import cancel_task
from coordinator.services.epochs import set_intake
from coordinator.services.queues import create_queue
from coordinator.services.reconciliation import Settled
from coordinator.services.reopenings import Reopened, reopen_task
from coordinator.services.restore_holds import HoldReleased, release_restore_hold
from coordinator.services.restores import Doubt, look_at_identity
from coordinator.services.revisions import Revised, revise_task
from coordinator.states import DispatchOutcome, EffectState, Guarantee, Intake, TaskState
from tests import restoring, world
from tests.effects import ledger
from tests.history import history_holds, nothing_moves
from tests.world import node

__all__ = ["history_holds"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


@pytest.fixture
def by() -> Worker:
    world.queue(max_attempts=100, retry_backoff_seconds=0)
    identity.confirm_identity()
    return world.worker()


def release(of: UUID, **fields: Any) -> HoldReleased | Refusal:
    given: dict[str, Any] = {
        "expected_state_version": world.task(of).state_version,
        "reason": "its log shows nothing after noon",
        "actor": world.operator(),
    }
    return release_restore_hold(task_id=of, **(given | fields))


def open_intake() -> None:
    answer = set_intake(queue="q", intake=Intake.OPEN, reason="dealt with", actor=world.operator())
    assert not isinstance(answer, Refusal), answer


def refused(answer: object, outcome: Outcome) -> Refusal:
    assert isinstance(answer, Refusal), answer
    assert answer.outcome is outcome, answer
    return answer


# --- what it does ----------------------------------------------------------------------------------


def test_intake_is_stopped_and_the_epoch_is_above_any_that_was_seen(by: Worker) -> None:
    create_queue(name="r", active_pool="blue", actor=world.operator())
    restoring.keep(epochs={"q": 7, "r": 1}, earlier={"r": 4})
    restoring.copy_the_database()
    done = restoring.restored(seen_epochs={"q": 11})
    assert done.epochs == {"q": 12, "r": 5}
    rows = Queue.objects.order_by("name").values_list("name", "scheduler_epoch", "intake")
    assert list(rows) == [("q", 12, "STOPPED"), ("r", 5, "STOPPED")]
    kept = restoring.on_file()
    assert (kept.epochs, kept.earlier) == ({"q": 12, "r": 5}, {"q": 7, "r": 4})
    assert not identity.confirm_identity()
    open_intake()
    world.submit()
    assert world.claim_one(by=by).fence.scheduler_epoch == 12


def test_every_lease_from_before_is_fenced(by: Worker) -> None:
    world.submit()
    claimed = world.claim_one(by=by)
    restoring.copy_the_database()
    restoring.restored()
    late = refused(world.try_commit(claimed, by=by), Outcome.FENCED)
    assert late.reason is Reason.STALE_EPOCH
    attempt = Attempt.objects.get()
    assert (attempt.state, attempt.end_reason) == ("FENCED", "RESTORE")
    assert world.task(claimed.fence.task_id).state == TaskState.READY


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_a_call_that_is_out_is_unknown_and_its_task_waits_for_a_person(
    guarantee: Guarantee, by: Worker
) -> None:
    if guarantee in (Guarantee.NONE, Guarantee.QUERY_ONLY):
        claim, effect = ledger.approved_and_sent(by=by, guarantee=guarantee)
    else:
        claim, effect, _ = ledger.sent(by=by, guarantee=guarantee)
    restoring.copy_the_database()
    done = restoring.restored()
    assert (done.held_tasks, done.unknown_effects) == (2 - 1, 1)
    assert ledger.state(effect) == EffectState.UNKNOWN
    slot = ledger.slot(effect)
    assert (slot.dispatches, slot.out_on_suspicion) == (2, True)
    assert world.task(claim.fence.task_id).state == TaskState.AWAITING_RECONCILIATION
    told = Event.objects.filter(kind="EFFECT_UNKNOWN", task_id=claim.fence.task_id).latest("id")
    assert (told.data["reason"], told.data["was"]) == (lost_calls.REASON, "ACCEPTED")


def test_a_payload_that_was_only_bound_may_have_been_sent_since(by: Worker) -> None:
    claim = ledger.claimed(by=by)
    effect = ledger.prepare(claim, by=by)
    restoring.copy_the_database()
    restoring.restored()
    slot = ledger.slot(effect)
    assert (slot.state, slot.dispatches) == (EffectState.UNKNOWN, 1)
    assert slot.first_accepted_at == slot.prepared_at
    person = ledger.person("olga")
    # Not there now says nothing about a call that may still arrive: sending again is safe, ending is not.
    assert isinstance(ledger.absent(effect, by=person), Settled)
    assert ledger.state(effect) == EffectState.RESENDABLE
    assert isinstance(release(claim.fence.task_id), HoldReleased)
    open_intake()
    again = world.claim_one(by=by, of=claim.fence.task_id)
    refused(world.try_commit(again, by=by), Outcome.RECONCILE_FIRST)
    accepted = ledger.accept(effect, again.fence, by=by)
    ledger.report(effect, again, accepted, DispatchOutcome.COMMITTED, by=by)
    world.commit(again, by=by)


def test_a_gated_call_may_have_been_let_through_since(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.GATED)
    restoring.copy_the_database()
    restoring.restored()
    assert ledger.state(effect) == EffectState.UNKNOWN
    refused(ledger.redeem(effect, accepted), Outcome.FENCED)
    cancel_task(task_id=claim.fence.task_id, reason="r", actor=world.operator())
    assert ledger.state(effect) == EffectState.UNKNOWN


def test_a_resendable_effect_is_unknown_again(by: Worker) -> None:
    _, effect, _ = ledger.sent(by=by)
    world.lapse(effect.task_id)
    claim = world.claim_one(by=by, of=effect.task_id)
    ledger.absent(effect, by=by, fence=claim.fence)
    assert ledger.state(effect) == EffectState.RESENDABLE
    restoring.copy_the_database()
    restoring.restored()
    assert ledger.state(effect) == EffectState.UNKNOWN


def test_what_has_happened_stays_on_file(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by)
    ledger.report(effect, claim, accepted, DispatchOutcome.COMMITTED, by=by)
    restoring.copy_the_database()
    restoring.restored()
    assert (ledger.state(effect), ledger.slot(effect).dispatches) == (EffectState.COMMITTED, 1)
    assert isinstance(release(claim.fence.task_id), HoldReleased)


@pytest.mark.parametrize("granted", [False, True])
def test_approvals_are_void_and_no_dispatch_uses_an_earlier_grant(
    granted: bool, by: Worker
) -> None:
    claim = ledger.claimed(by=by, guarantee=Guarantee.NONE)
    effect = ledger.prepare(claim, by=by)
    asked = ledger.approval(ledger.try_accept(effect, claim.fence, by=by))
    if granted:
        ledger.say_yes(asked)
    restoring.copy_the_database()
    restoring.restored()
    assert Approval.objects.get().state == "VOID"
    assert ledger.state(effect) == EffectState.UNKNOWN
    ledger.pass_time(effect, seconds=3600)
    assert isinstance(ledger.asserted(effect, by=ledger.person("olga")), Settled)
    assert isinstance(release(claim.fence.task_id), HoldReleased)
    open_intake()
    again = world.claim_one(by=by, of=claim.fence.task_id)
    anew = ledger.approval(ledger.try_accept(effect, again.fence, by=by))
    assert anew.approval_id != asked.approval_id
    ledger.say_yes(anew)
    assert isinstance(
        ledger.try_accept(effect, world.claim_one(by=by, of=claim.fence.task_id).fence, by=by), Accepted
    )  # fmt: skip


def test_two_of_one_serial_scope_may_both_be_out_and_neither_is_sent_before_the_other_is_settled(
    by: Worker,
) -> None:
    there = ledger.register(Guarantee.NONE)
    effects = []
    for name in ("one", "two"):
        run = world.submit(node(name, slots={ledger.SLOT: there}, serial_key=name))
        claim = world.claim_one(by=by, of=world.task_id(run, name))
        effects.append(ledger.prepare(claim, by=by))
        ledger.approval(ledger.try_accept(effects[-1], claim.fence, by=by))
    restoring.copy_the_database()
    restoring.restored()
    assert {ledger.state(effect) for effect in effects} == {EffectState.UNKNOWN}
    one, _ = effects
    ledger.pass_time(one, seconds=3600)
    assert isinstance(ledger.asserted(one, by=ledger.person("olga")), Settled)
    release(one.task_id)
    open_intake()
    claim = world.claim_one(by=by, of=one.task_id)
    refused(ledger.try_accept(one, claim.fence, by=by), Outcome.SERIAL_BUSY)


def test_only_tasks_that_declare_effects_wait(by: Worker) -> None:
    there = ledger.register(Guarantee.CONDITIONAL_WRITE)
    slots = {ledger.SLOT: there}
    run = world.submit(
        node("reads"), node("free", slots=slots), node("waits", "free", slots=slots), node("last", "reads")
    )  # fmt: skip
    over = world.submit(node("over", slots=slots))
    world.finish(world.task_id(over, "over"), by=by)
    canary = world.submit(node("canary", kind=DRILL, slots=slots), actor=system("drill"))
    restoring.copy_the_database()
    assert restoring.restored().held_tasks == 2
    assert world.current(canary, "canary").state == TaskState.READY
    states = {name: world.current(run, name).state for name in ("reads", "free", "waits", "last")}
    waiting = TaskState.AWAITING_RECONCILIATION
    assert states == {"reads": "READY", "free": waiting, "waits": waiting, "last": "BLOCKED"}
    assert world.current(over, "over").state == TaskState.COMMITTED


# --- letting go ------------------------------------------------------------------------------------


@pytest.fixture
def held(by: Worker) -> UUID:
    """A READY task with a slot, held by a restore; intake is open again."""
    there = ledger.register(Guarantee.CONDITIONAL_WRITE)
    run = world.submit(
        node("T", slots={ledger.SLOT: there}), node("next", "T", slots={"out": there})
    )
    restoring.copy_the_database()
    restoring.restored()
    open_intake()
    return world.task_id(run, "T")


def test_a_released_task_goes_on_and_its_successor_waits_for_its_own_release(
    held: UUID, by: Worker
) -> None:
    successor = world.task(held).edges_out.get().child_id
    assert world.claim(by=by) == []
    answer = release(held)
    assert isinstance(answer, HoldReleased)
    assert (answer.state, answer.replayed) == ("READY", False)
    hold = RestoreHold.objects.get(task_id=held)
    assert (hold.released_by, hold.reason) == ("operator:alice", "its log shows nothing after noon")
    told = Event.objects.get(kind="RESTORE_HOLD_RELEASED")
    assert (told.task_id, told.actor) == (held, "operator:alice")
    blocked = release(successor)
    assert isinstance(blocked, HoldReleased)
    assert blocked.state == TaskState.BLOCKED
    world.finish(held, by=by)
    assert world.task(successor).state == TaskState.READY


def test_a_successor_that_is_still_held_is_not_released_by_its_parents_commit(
    held: UUID, by: Worker
) -> None:
    successor = world.task(held).edges_out.get().child_id
    release(held)
    world.finish(held, by=by)
    assert world.task(successor).state == TaskState.AWAITING_RECONCILIATION
    answer = release(successor)
    assert isinstance(answer, HoldReleased)
    assert answer.state == TaskState.READY


def test_explain_says_that_a_restore_holds_it(held: UUID) -> None:
    def codes() -> set[str]:
        told = explain_task(held, queues=None)
        assert told is not None
        return {reason.code for reason in told.reasons}

    assert "RESTORE_HOLD" in codes()
    release(held)
    assert "RESTORE_HOLD" not in codes()


def test_a_repeat_changes_nothing(held: UUID) -> None:
    release(held)
    with nothing_moves():
        answer = release(held, expected_state_version=1)
    assert isinstance(answer, HoldReleased)
    assert answer.replayed


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"expected_state_version": 99}, Outcome.STATE_VERSION_MISMATCH),
        ({"reason": "  "}, Outcome.INVALID),
    ],
)
def test_a_release_is_refused(held: UUID, fields: dict[str, Any], outcome: Outcome) -> None:
    with nothing_moves():
        refused(release(held, **fields), outcome)
    assert not RestoreHold.objects.exclude(released_at=None).exists()


def test_a_task_that_no_restore_holds_is_not_released(by: Worker) -> None:
    run = world.submit()
    with nothing_moves():
        refused(release(world.task_id(run, "a")), Outcome.ALREADY_SETTLED)
        missing = release_restore_hold(
            task_id=uuid4(), expected_state_version=1, reason="r", actor=world.operator()
        )
        refused(missing, Outcome.NOT_FOUND)


def test_a_task_is_released_only_once_its_effects_are_settled(by: Worker) -> None:
    claim, effect, _ = ledger.sent(by=by)
    restoring.copy_the_database()
    restoring.restored()
    with nothing_moves():
        refusal = refused(release(claim.fence.task_id), Outcome.RECONCILE_FIRST)
    assert [each.effect_id for each in refusal.extra["effects"]] == [effect.effect_id]
    assert isinstance(ledger.happened(effect, by=ledger.person("olga"), dispatches=2), Settled)
    assert world.task(claim.fence.task_id).state == TaskState.AWAITING_RECONCILIATION
    answer = release(claim.fence.task_id)
    assert isinstance(answer, HoldReleased)
    assert answer.state == TaskState.READY


def test_a_held_task_is_not_revised(held: UUID) -> None:
    def revise() -> Revised | Refusal:
        version = world.task(held).state_version
        return revise_task(
            task_id=held, expected_state_version=version, input=2, reason="r", actor=world.operator()
        )  # fmt: skip

    with nothing_moves():
        refused(revise(), Outcome.RECONCILE_FIRST)
    release(held)
    assert isinstance(revise(), Revised)


def test_a_task_that_had_ended_waits_once_it_is_reopened(by: Worker) -> None:
    there = ledger.register(Guarantee.CONDITIONAL_WRITE)
    run = world.submit(node("T", slots={ledger.SLOT: there}))
    task_id = world.task_id(run, "T")
    cancel_task(task_id=task_id, reason="r", actor=world.operator())
    restoring.copy_the_database()
    restoring.restored()
    assert world.task(task_id).state == TaskState.CANCELLED
    opened = reopen_task(
        task_id=task_id,
        expected_state_version=world.task(task_id).state_version,
        reason="r",
        actor=world.operator(),
    )
    assert isinstance(opened, Reopened)
    assert opened.state == TaskState.AWAITING_RECONCILIATION
    answer = release(task_id)
    assert isinstance(answer, HoldReleased)
    assert answer.state == TaskState.READY


# --- how it is run ---------------------------------------------------------------------------------


def test_nothing_is_done_without_the_name_of_the_database_and_a_reason(by: Worker) -> None:
    restoring.copy_the_database()
    with nothing_moves():
        answer = refused(restoring.try_restore(confirm="tenure", reason=""), Outcome.INVALID)
    assert [each.pointer for each in answer.errors] == ["/reason", "/confirm"]
    assert not Restore.objects.exists()


@pytest.mark.parametrize("seen", [{"nowhere": 3}, {"q": 0}, {"q": 2**53}])
def test_an_epoch_that_makes_no_sense_is_told(seen: dict[str, int], by: Worker) -> None:
    restoring.copy_the_database()
    with nothing_moves():
        answer = refused(restoring.try_restore(seen_epochs=seen), Outcome.INVALID)
    assert answer.errors[0].pointer == "/epoch"


def test_where_nothing_is_in_doubt_there_is_nothing_to_do_unless_a_person_knows_better(
    by: Worker,
) -> None:
    with nothing_moves():
        refused(restoring.try_restore(), Outcome.ALREADY_SETTLED)
    assert restoring.restored(even_without_doubt=True).epochs == {"q": 2}


def test_a_second_run_has_nothing_left_to_do(by: Worker) -> None:
    world.submit()
    restoring.copy_the_database()
    restoring.restored()
    with nothing_moves():
        refused(restoring.try_restore(), Outcome.ALREADY_SETTLED)


def test_a_record_that_cannot_be_written_is_told_before_anything_is_begun(by: Worker) -> None:
    restoring.copy_the_database()
    path = identity.record_path()
    path.write_text("{")
    with nothing_moves():
        answer = refused(restoring.try_restore(), Outcome.INVALID)
    assert answer.errors[0].pointer == "/record"
    path.unlink()


class _CutOffError(Exception):
    pass


@pytest.mark.parametrize(
    ("step", "after"),
    [
        ("_stop_and_raise", 0),
        ("_stop_and_raise", 1),
        ("hold_next", 0),
        ("hold_next", 1),
        ("_file_outside", 0),
        ("_file_inside", 0),
    ],
)
def test_a_run_that_was_cut_off_is_continued(
    step: str, after: int, by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_queue(name="r", active_pool="blue", actor=world.operator())
    monkeypatch.setattr(lost_calls, "BATCH", 1)
    claim, effect, _ = ledger.sent(by=by)
    world.submit(node("other", slots={ledger.SLOT: "there"}))
    restoring.copy_the_database()
    with monkeypatch.context() as cut:
        cut.setattr(restores, step, _cut_off(getattr(restores, step), after))
        with pytest.raises(_CutOffError):
            restoring.try_restore()
    assert Installation.objects.get().held_because
    opened = set_intake(queue="q", intake=Intake.OPEN, reason="r", actor=world.operator())
    refused(opened, Outcome.INTAKE_STOPPED)
    done = restoring.restored()
    assert (done.epochs, done.held_tasks, done.restore) == ({"q": 2, "r": 2}, 2, 1)
    assert ledger.slot(effect).dispatches == 2
    assert Queue.objects.get(name="q").scheduler_epoch == 2
    assert world.task(claim.fence.task_id).state == TaskState.AWAITING_RECONCILIATION
    assert Restore.objects.get().finished_at is not None
    assert not identity.confirm_identity()


def _cut_off(step: Callable[..., Any], after: int) -> Callable[..., Any]:
    """The process dies before the step (0) or after it (1)."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if after:
            step(*args, **kwargs)
        raise _CutOffError

    return run


def test_a_look_changes_nothing(by: Worker) -> None:
    restoring.copy_the_database()
    with nothing_moves():
        doubt = look_at_identity(seen_epochs={})
    assert isinstance(doubt, Doubt)
    assert doubt.own != doubt.inside
    assert doubt.epochs == {"q": 2}
    assert "another one" in doubt.signs[0]


def test_the_command_shows_both_identities_and_asks_for_the_name(
    by: Worker, capsys: pytest.CaptureFixture[str]
) -> None:
    restoring.copy_the_database()
    with pytest.raises(CommandError, match="Nothing was changed"):
        call_command("after_restore")
    told = capsys.readouterr().out
    assert "system 1, timeline" in told
    assert "Queue q would be raised to epoch 2" in told
    with pytest.raises(CommandError, match="type the database's name"):
        call_command("after_restore", "--confirm", "no", "--reason", "r")
    with pytest.raises(CommandError, match="write it as QUEUE=N"):
        call_command("after_restore", "--epoch", "q")
    name = identity.database_name()
    said = ("--confirm", name, "--reason", "r", "--json", "--by", "olga")
    call_command("after_restore", *said, "--epoch", "q=4")
    assert '"epochs": {"q": 5}' in capsys.readouterr().out
    begun = Event.objects.get(kind="RESTORE_BEGUN")
    assert (begun.actor, begun.data["reason"]) == ("operator:olga", "r")
    call_command("after_restore", *said)
    assert "NOTHING_TO_DO" in capsys.readouterr().out
