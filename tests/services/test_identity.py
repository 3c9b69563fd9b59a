"""The database knows itself, and a copy, a restore or a promotion is noticed before anything goes out (contract 12)."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection

from coordinator import tasks
from coordinator.actors import Worker
from coordinator.models import Event, Installation, Queue
from coordinator.outcomes import Outcome, Reason, Refusal
from coordinator.outside import Identity, Record, Unreadable, change_record, read_record
from coordinator.services import identity
from coordinator.services.claims import Claimed, claim_task, claim_tasks
from coordinator.services.epochs import IntakeSet, bump_epoch, set_intake
from coordinator.services.incident_bumps import bump_incident
from coordinator.services.incident_hearings import StepTaken
from coordinator.services.incidents import abort_incident, open_incident
from coordinator.site.diagnosis import _identity
from coordinator.states import Guarantee, Intake
from tests import restoring, world
from tests.effects import ledger
from tests.history import nothing_moves

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def by() -> Worker:
    world.queue(max_attempts=100, retry_backoff_seconds=0)
    assert not identity.confirm_identity()
    return world.worker()


def claiming(by: Worker, *, epoch: int | None = None) -> Claimed | Refusal:
    return claim_tasks(
        queue="q", worker=by, scheduler_epoch=epoch or world.epoch(), owner="w", ttl_seconds=60
    )


def refused(answer: object, outcome: Outcome = Outcome.INTAKE_STOPPED) -> Refusal:
    assert isinstance(answer, Refusal), answer
    assert answer.outcome is outcome, answer
    return answer


# --- an ordinary life ----------------------------------------------------------------------------


def test_a_new_installation_takes_itself_for_what_it_is() -> None:
    with world.guarded():
        Installation.objects.all().delete()
    world.queue()
    world.submit()
    by = world.worker()
    assert isinstance(claiming(by), Claimed)
    row = Installation.objects.get()
    assert (row.held_because, row.database) == (None, identity.database_name())
    assert restoring.on_file().identity == Identity(
        row.system_identifier, row.timeline, row.database_oid, row.database
    )


def test_after_a_restart_of_the_server_the_first_call_compares_and_goes_on(by: Worker) -> None:
    claimed = (world.submit(), world.claim_one(by=by))[1]
    restoring.restart_the_server()
    world.submit()
    assert isinstance(claiming(by), Claimed)
    restoring.restart_the_server()
    world.commit(claimed, by=by)
    assert not identity.standing_hold()


def test_comparing_again_writes_nothing(by: Worker) -> None:
    def xmin() -> str:
        with connection.cursor() as cursor:
            cursor.execute("SELECT xmin::text FROM coordinator_installation")
            return str(cursor.fetchall()[0][0])

    before = xmin()
    assert not identity.confirm_identity()
    assert not identity.confirm_identity()
    assert xmin() == before


def test_an_epoch_is_on_file_outside_once_its_bump_has_returned(by: Worker) -> None:
    bump_epoch(queue="q", expected_epoch=1, reason="r", actor=world.operator())
    assert restoring.on_file().epochs == {"q": 2}
    Queue.objects.filter(name="q").update(scheduler_epoch=5)
    assert not identity.confirm_identity()
    assert restoring.on_file().epochs == {"q": 5}


def test_the_background_job_brings_the_record_up_to_date(by: Worker) -> None:
    restoring.keep(epochs={}, log_position=0)
    assert tasks.confirm_identity()
    kept = restoring.on_file()
    assert kept.epochs == {"q": 1}
    assert kept.log_position > 0


# --- signs of another life -----------------------------------------------------------------------


def loaded_from_a_dump() -> None:
    """The rows are the same, and another transaction has written them."""
    with world.guarded(), connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE dump ON COMMIT DROP AS TABLE coordinator_installation")
        cursor.execute("DELETE FROM coordinator_installation")
        cursor.execute("INSERT INTO coordinator_installation SELECT * FROM dump")


def promoted() -> None:
    with world.guarded(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE coordinator_installation SET timeline = timeline + 1, server_started = NULL,"
            " sealed_by = pg_current_xact_id()::xid::text"
        )


def set_back() -> None:
    restoring.keep(log_position=2**62)
    restoring.restart_the_server()


def older_epoch() -> None:
    restoring.keep(epochs={"q": 7})
    restoring.restart_the_server()


def lost_queue() -> None:
    restoring.keep(epochs={"q": 1, "another": 1})
    restoring.restart_the_server()


def another_record() -> None:
    restoring.keep(identity=Identity("1", 1, 1, identity.database_name()))
    restoring.restart_the_server()


@pytest.mark.parametrize(
    ("sign", "told"),
    [
        (restoring.copy_the_database, "This database was another one"),
        (promoted, "timeline"),
        (loaded_from_a_dump, "loaded from a dump"),
        (another_record, "The record outside names another database"),
        (set_back, "set back"),
        (older_epoch, "Queue 'q' had epoch 7; here it has 1."),
        (lost_queue, "Queue 'another' had epoch 1; here it has none."),
    ],
)
def test_each_sign_holds_intake_before_anything_is_granted(
    sign: Callable[[], None], told: str, by: Worker
) -> None:
    world.submit()
    sign()
    with nothing_moves():
        refusal = refused(claiming(by))
    assert told in refusal.detail
    assert "manage.py after_restore" in refusal.detail
    event = Event.objects.get(kind="IDENTITY_DOUBTED")
    assert told in " ".join(event.data["signs"])
    assert Event.objects.filter(kind="REFUSED", data__outcome="INTAKE_STOPPED").exists()
    assert refused(claiming(by)).detail == refusal.detail
    assert Event.objects.filter(kind="IDENTITY_DOUBTED").count() == 1


def test_what_is_in_doubt_stays_so_when_the_sign_goes_away(by: Worker) -> None:
    older_epoch()
    refused(claiming(by))
    restoring.keep(epochs={"q": 1})
    assert identity.confirm_identity()
    refused(claiming(by))


def test_a_task_is_not_claimed_by_its_id_either(by: Worker) -> None:
    run = world.submit()
    restoring.copy_the_database()
    answer = claim_task(
        task_id=world.task_id(run, "a"), expected_state_version=1, scheduler_epoch=1, owner="w", worker=by
    )  # fmt: skip
    refused(answer)


def test_nothing_is_prepared_accepted_redeemed_or_committed_meanwhile(by: Worker) -> None:
    _, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.GATED)
    world.submit(world.node("other"))
    other = world.claim_one(by=by)
    world.submit(world.node("more", slots={"out": "there"}))
    more = world.claim_one(by=by)
    prepared = ledger.prepare(more, by=by)
    restoring.copy_the_database()
    with nothing_moves():
        refused(ledger.try_prepare(more, by=by))
        refused(ledger.try_accept(prepared, more.fence, by=by))
        redeemed = refused(ledger.redeem(effect, accepted), Outcome.FENCED)
        committed = refused(world.try_commit(other, by=by), Outcome.FENCED)
    assert redeemed.reason is committed.reason is Reason.STALE_EPOCH
    assert "after_restore" in committed.detail


def test_a_repeated_redemption_is_not_let_through_meanwhile(by: Worker) -> None:
    _, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.GATED)
    gate = world.worker(name="gate", scopes=["gate"])
    ledger.redeem(effect, accepted, gate=gate)
    restoring.copy_the_database()
    refused(ledger.redeem(effect, accepted, gate=gate), Outcome.FENCED)


def test_intake_can_be_stopped_but_not_opened_meanwhile(by: Worker) -> None:
    restoring.copy_the_database()
    actor = world.operator()
    refused(set_intake(queue="q", intake=Intake.OPEN, reason="r", actor=actor))
    stopped = set_intake(queue="q", intake=Intake.STOPPED, reason="r", actor=actor)
    assert stopped == IntakeSet("q", Intake.STOPPED, changed=True)
    refused(set_intake(queue="q", intake=Intake.OPEN, reason="r", actor=actor))
    assert Queue.objects.get(name="q").intake == Intake.STOPPED


def test_no_incident_opens_intake_meanwhile(by: Worker) -> None:
    actor = ledger.person("olga")
    opened = open_incident(queues=["q"], reason="a bad release", actor=actor)
    assert isinstance(opened, StepTaken)
    restoring.copy_the_database()
    reason = "it was nothing after all"
    refused(abort_incident(incident_id=opened.incident_id, reason=reason, actor=actor))
    assert Queue.objects.get(name="q").intake == Intake.STOPPED
    restoring.restored()
    ended = abort_incident(incident_id=opened.incident_id, reason=reason, actor=actor)
    assert isinstance(ended, StepTaken)
    assert Queue.objects.get(name="q").intake == Intake.OPEN


def test_the_epochs_of_an_incident_are_on_file_outside_once_it_has_bumped(by: Worker) -> None:
    opened = open_incident(queues=["q"], reason="a bad release", actor=ledger.person("olga"))
    assert isinstance(opened, StepTaken)
    bumped = bump_incident(
        incident_id=opened.incident_id,
        expected_epoch=1,
        confirm="q",
        actor=ledger.person("paula"),
    )
    assert isinstance(bumped, StepTaken), bumped
    assert restoring.on_file().epochs == {"q": 2}


def test_the_coordinator_asks_no_downstream_meanwhile(
    by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("coordinator.tasks.look_ups.look_up_effects", lambda **_: asked.append(1))
    restoring.copy_the_database()
    assert tasks.look_up_effects() == 0
    assert asked == []


# --- the record outside --------------------------------------------------------------------------


def test_a_record_that_cannot_be_read_holds_intake_until_it_can(by: Worker) -> None:
    world.submit()
    path = identity.record_path()
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    restoring.restart_the_server()
    assert "can't be read" in refused(claiming(by)).detail
    path.write_text(text)
    assert not identity.confirm_identity()
    assert isinstance(claiming(by), Claimed)


def test_a_record_that_is_lost_is_written_anew(by: Worker) -> None:
    change_record(identity.record_path(), identity.database_name(), lambda _: None)
    restoring.restart_the_server()
    assert isinstance(claiming(by), Claimed)
    assert restoring.on_file().epochs == {"q": 1}


def test_a_new_database_under_an_old_name_keeps_the_old_epochs_on_file() -> None:
    old = Identity("1", 1, 1, identity.database_name())
    record = Record(old, 5, {"reviews": 9})
    change_record(identity.record_path(), identity.database_name(), lambda _: record)
    assert not identity.confirm_identity()
    kept = restoring.on_file()
    assert (kept.earlier, kept.epochs) == ({"reviews": 9}, {})
    assert kept.identity != old


def test_the_record_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "identity.json"
    record = Record(Identity("1", 2, 3, "d"), 4, {"q": 5}, {"old": 6})
    change_record(path, "d", lambda _: record)
    change_record(path, "e", lambda _: record)
    assert read_record(path, "d") == read_record(path, "e") == record
    assert read_record(path, "f") is None
    change_record(path, "e", lambda _: None)
    assert list(json.loads(path.read_text())["databases"]) == ["d"]
    assert sorted(each.name for each in path.parent.iterdir()) == [
        "identity.json",
        "identity.json.lock",
    ]


@pytest.mark.parametrize("text", ["", "[]", '{"databases": {"d": {}}}', "\x00", '{"databases": 3}'])
def test_a_record_that_makes_no_sense_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "identity.json"
    path.write_text(text)
    with pytest.raises(Unreadable, match=r"identity\.json"):
        read_record(path, "d")


# --- a fence that is ahead -----------------------------------------------------------------------


def test_a_claim_ahead_of_the_database_holds_intake_only_where_the_record_confirms_it(
    by: Worker,
) -> None:
    world.submit()
    assert refused(claiming(by, epoch=9), Outcome.FENCED).reason is Reason.AHEAD
    assert not identity.standing_hold()
    restoring.keep(epochs={"q": 8})
    refused(claiming(by, epoch=9), Outcome.FENCED)
    assert "Queue 'q' had epoch 8" in identity.standing_hold()
    refused(claiming(by))


def test_a_call_of_an_attempt_ahead_of_the_database_does_the_same(by: Worker) -> None:
    world.submit()
    claimed = world.claim_one(by=by)
    forged = claimed.__class__(
        **{
            **{name: getattr(claimed, name) for name in claimed.__dataclass_fields__},
            "fence": claimed.fence.__class__(
                claimed.fence.task_id, claimed.fence.attempt_id, 3, 1, 0
            ),
        }
    )
    assert refused(world.try_commit(forged, by=by), Outcome.FENCED).reason is Reason.AHEAD
    assert not identity.standing_hold()
    restoring.keep(epochs={"q": 3})
    refused(world.try_commit(forged, by=by), Outcome.FENCED)
    assert identity.standing_hold()


# --- what doctor says ----------------------------------------------------------------------------


def test_doctor_says_whether_the_database_is_the_one_on_file(by: Worker) -> None:
    told = _identity()
    assert told.ok
    assert str(identity.record_path()) in told.detail
    restoring.copy_the_database()
    assert identity.standing_hold()
    told = _identity()
    assert (told.ok, told.mend) == (False, "manage.py after_restore")
    identity.record_path().write_text("{")
    told = _identity()
    assert not told.ok
    assert str(identity.record_path()) in told.detail
    identity.record_path().unlink()
