"""What is over and nobody asks for any more is taken away; nothing unsettled ever is (C20.5, C24.5)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import LazySettings
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.core.management import CommandError, call_command
from django.db import connection

from coordinator import digests
from coordinator.actors import Worker, system
from coordinator.models import (
    Blob,
    CanonicalCommit,
    CountedAttempt,
    CountedRefusal,
    Event,
    Run,
    StoredAnswer,
    Tally,
    Task,
)
from coordinator.outcomes import Outcome, Refusal
from coordinator.services import identity, pruned_runs, pruning
from coordinator.services.answers import RequestKey
from coordinator.services.cancels import cancel_run
from coordinator.services.claims import Claimed, claim_tasks
from coordinator.services.commits import commit_results
from coordinator.services.grants import Claim
from coordinator.services.memory import MemoryWrite
from coordinator.services.pruning import Pace, Pruned, prune
from coordinator.services.results import BlobStored, put_blob
from coordinator.services.roll_ups import roll_up
from coordinator.services.runs import Submitted, submit_run
from coordinator.services.settlements import settle_active_runs
from coordinator.states import DispatchOutcome, Guarantee
from tests import restoring, world
from tests.effects import ledger
from tests.history import nothing_moves
from tests.world import node

pytestmark = pytest.mark.django_db(transaction=True)

LONG_AGO = 400  # days


@pytest.fixture
def by(settings: LazySettings, tmp_path: Path) -> Worker:
    settings.KEEP_RUNS_DAYS = 30
    settings.STORAGES = {
        **settings.STORAGES,
        "blobs": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(tmp_path)},
        },
    }
    world.queue(max_attempts=100, retry_backoff_seconds=0)
    identity.confirm_identity()
    return world.worker()


def pruned(**fields: Any) -> Pruned:
    answer = prune(actor=system("test"), **fields)
    assert isinstance(answer, Pruned), answer
    return answer


def age(days: float = LONG_AGO) -> None:
    """Everything that is there has been there for so long."""
    with world.guarded("prune"), connection.cursor() as cursor:
        for table, column in (
            ("storedanswer", "created_at"),
            ("blob", "created_at"),
            ("run", "finished_at"),
        ):
            cursor.execute(
                f"UPDATE coordinator_{table} SET {column} = {column} - make_interval(hours => %s)",
                [int(days * 24)],
            )


def keyed(key: str, *, name: str = "kept") -> Submitted | Refusal:
    return submit_run(
        queue="q",
        name=name,
        metadata={},
        nodes=[node("a")],
        actor=world.operator(),
        request=RequestKey("operator:1::submit_run", key, "sha256:1"),
    )


# --- stored answers --------------------------------------------------------------------------------


def test_an_answer_is_kept_for_a_day_at_the_least(by: Worker) -> None:
    first = keyed("k" * 16)
    age(1.9)
    assert pruned().keys_expired == 0
    again = keyed("k" * 16)
    assert isinstance(first, Submitted)
    assert isinstance(again, Submitted)
    assert again.run_id == first.run_id


def test_an_expired_key_is_told_so_and_never_makes_a_second_one(by: Worker) -> None:
    keyed("k" * 16)
    age(3)
    assert pruned().keys_expired == 1
    with nothing_moves():
        for _ in range(2):
            answer = keyed("k" * 16)
            assert isinstance(answer, Refusal)
            assert answer.outcome is Outcome.IDEMPOTENCY_CONFLICT
            assert "expired" in answer.detail
            assert answer.extra == {"expired": True}
    assert Run.objects.count() == 1
    age()
    assert pruned().keys_expired == 0
    assert StoredAnswer.objects.get().answer == ""


def test_the_key_of_a_claim_is_forgotten_and_its_repeat_is_another_grant(by: Worker) -> None:
    def claiming() -> Claimed:
        request = RequestKey("worker:1:w:claim_tasks:q", "c" * 16, "sha256:1")
        answer = claim_tasks(queue="q", worker=by, scheduler_epoch=1, owner="w", request=request)
        assert isinstance(answer, Claimed)
        return answer

    world.submit(node("a"), node("b"))
    first = claiming()
    assert claiming().claims[0].fence == first.claims[0].fence
    age(3)
    assert pruned().answers_forgotten == 1
    assert not StoredAnswer.objects.exists()
    assert claiming().claims[0].fence.task_id != first.claims[0].fence.task_id


# --- blobs -----------------------------------------------------------------------------------------


def blob_of(claim: Claim, *, by: Worker, name: str = "b") -> Blob:
    answer = put_blob(
        attempt_id=claim.fence.attempt_id,
        fence=claim.fence,
        name=name,
        chunks=[b"bytes"],
        worker=by,
    )
    assert isinstance(answer, BlobStored), answer
    return Blob.objects.get(name=name, attempt_id=claim.fence.attempt_id)


def there(blob: Blob) -> bool:
    return storages["blobs"].exists(blob.path)


def test_a_blob_that_no_commit_names_goes_with_its_bytes(by: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=by)
    blob = blob_of(claim, by=by)
    age(31)
    assert pruned().blobs == 0, "its attempt may still commit"
    world.commit(claim, by=by)
    age(31)
    assert pruned().blobs == 1
    assert not there(blob)
    assert not Blob.objects.exists()
    told = Event.objects.get(kind="PRUNED")
    assert (told.data["blobs"], told.actor) == (1, "system:test")


def test_a_blob_of_an_open_task_and_one_that_a_commit_names_are_kept(by: Worker) -> None:
    run = world.submit(node("a"), node("b"))
    lost = world.claim_one(by=by, of=world.task_id(run, "a"))
    one = blob_of(lost, by=by)
    world.lapse(lost.fence.task_id)
    world.claim_one(by=by, of=lost.fence.task_id)
    done = world.claim_one(by=by, of=world.task_id(run, "b"))
    two = blob_of(done, by=by)
    commit_of_blob(done, two, by=by)
    age(31)
    assert pruned().blobs == 0
    assert there(one)
    assert there(two)


def commit_of_blob(claim: Claim, blob: Blob, *, by: Worker) -> None:
    item = world.commit_item(claim)
    fields = {name: getattr(item, name) for name in item.__dataclass_fields__}
    answer = commit_results(
        items=[
            type(item)(**{**fields, "result": {"blob": blob.name}, "result_digest": blob.digest})
        ],
        worker=by,
        queue=None,
    )
    assert CanonicalCommit.objects.filter(blob=blob).exists(), answer


def test_bytes_without_a_row_go_a_day_after_they_were_written(
    by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.submit()
    blob = blob_of(world.claim_one(by=by), by=by)
    stray = storages["blobs"].save(f"{uuid4()}/{uuid4()}", ContentFile(b"half"))
    others = storages["blobs"].save("not-ours/file", ContentFile(b"x"))
    assert pruned().stray_files == 0
    monkeypatch.setattr("coordinator.services.pruned_blobs.UPLOAD_HOURS", -1)
    assert pruned().stray_files == 1
    assert not storages["blobs"].exists(stray)
    assert storages["blobs"].exists(others)
    assert there(blob)


def test_stray_bytes_are_looked_for_by_a_job_of_their_own_and_by_none_of_a_database_in_doubt(
    by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.services.pruned_blobs.UPLOAD_HOURS", -1)
    stray = storages["blobs"].save(f"{uuid4()}/{uuid4()}", ContentFile(b"half"))
    assert pruned(pace=pruning.JOB).stray_files == 0
    assert storages["blobs"].exists(stray)
    assert pruning.prune_stray_files() == 1
    assert not storages["blobs"].exists(stray)
    stray = storages["blobs"].save(f"{uuid4()}/{uuid4()}", ContentFile(b"half"))
    restoring.copy_the_database()
    assert pruning.prune_stray_files() == 0
    assert storages["blobs"].exists(stray)


# --- runs ------------------------------------------------------------------------------------------


def finished(*, by: Worker) -> Submitted:
    run = world.submit(node("a"), node("b", "a"))
    for name in ("a", "b"):
        world.finish(world.task_id(run, name), by=by)
    return run


def cancelled(run: Submitted) -> None:
    cancel_run(run_id=run.run_id, reason="r", actor=world.operator())
    settle_active_runs()


def test_a_run_that_is_over_for_long_goes_with_everything_of_its(by: Worker) -> None:
    run = finished(by=by)
    claim, effect, accepted = ledger.sent(by=by)
    ledger.report(effect, claim, accepted, DispatchOutcome.COMMITTED, by=by)
    world.stage(claim, by=by)
    world.commit(claim, by=by, result={"staged by": str(claim.fence.attempt_id)})
    world.finish(world.task(claim.fence.task_id).edges_out.get().child_id, by=by)
    settle_active_runs()
    age(29)
    assert pruned().runs == 0
    age(2)
    assert pruned().runs == 2
    tables = (
        "run", "task", "attempt", "dependency", "canonicalcommit", "stagedresult", "effectslot", "dispatch",
    )  # fmt: skip
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"SELECT count(*) FROM coordinator_{table}")
            assert cursor.fetchall() == [(0,)], table
    assert not Event.objects.filter(task_id=world.task_id(run, "a")).exists()


def test_nothing_is_taken_away_unless_a_person_has_said_for_how_long_to_keep_it(
    by: Worker, settings: LazySettings
) -> None:
    settings.KEEP_RUNS_DAYS = 0
    finished(by=by)
    age()
    with nothing_moves():
        assert pruned().runs == 0


def open_tasks(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"), node("c"))
    world.claim_one(by=by, of=world.task_id(run, "c"))


def unknown_effect(by: Worker) -> None:
    claim, _, _ = ledger.sent(by=by)
    cancelled(run_of(claim.fence.task_id))


def resendable_effect(by: Worker) -> None:
    claim, effect, _ = ledger.sent(by=by)
    cancelled(run_of(claim.fence.task_id))
    ledger.absent(effect, by=ledger.person("olga"))
    assert ledger.state(effect) == "RESENDABLE"


def awaiting_approval(by: Worker) -> None:
    claim = ledger.claimed(by=by, guarantee=Guarantee.NONE)
    ledger.try_accept(ledger.prepare(claim, by=by), claim.fence, by=by)


def shared_memory(by: Worker) -> None:
    world.submit()
    item = world.commit_item(world.claim_one(by=by))
    fields = {name: getattr(item, name) for name in item.__dataclass_fields__}
    memory = (MemoryWrite("n", "k", 0, "1", digests.sha256(b"1")),)
    commit_results(items=[type(item)(**{**fields, "memory": memory})], worker=by, queue=None)


def held_after_a_restore(by: Worker) -> None:
    there = ledger.register(Guarantee.CONDITIONAL_WRITE)
    run = world.submit(node("T", slots={ledger.SLOT: there}))
    restoring.restored(even_without_doubt=True)
    cancelled(run)


def run_of(task_id: UUID) -> Any:
    return world.task(task_id).run


@pytest.mark.parametrize(
    "unsettled",
    [
        open_tasks,
        unknown_effect,
        resendable_effect,
        awaiting_approval,
        shared_memory,
        held_after_a_restore,
    ],
)
def test_what_is_unsettled_is_never_taken_away(
    unsettled: Callable[[Worker], None], by: Worker
) -> None:
    unsettled(by)
    with world.guarded("test"), connection.cursor() as cursor:
        # Even where the run itself is called over.
        cursor.execute(
            "UPDATE coordinator_run SET state = 'CANCELLED', finished_at = now() WHERE state = 'ACTIVE'"
        )
    age()
    pruned()  # the answers of the story
    with nothing_moves():
        assert pruned().runs == 0
    assert Run.objects.exists()


def test_a_run_that_is_reopened_in_between_is_left(
    by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finished(by=by)
    age()
    chosen = pruned_runs._choose()

    def reopened() -> tuple[list[int], bool]:
        with world.guarded(), connection.cursor() as cursor:
            cursor.execute("UPDATE coordinator_run SET state = 'ACTIVE', finished_at = NULL")
        return chosen

    monkeypatch.setattr(pruned_runs, "_choose", reopened)
    assert pruned(pace=Pace(batches=1)).runs == 0
    assert Task.objects.filter(run__run_id=run.run_id).count() == 2


def test_it_works_in_batches_and_says_whether_it_is_through(
    by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruned_runs, "BATCH_NODES", 2)
    for _ in range(3):
        finished(by=by)
    age()
    part = pruned(pace=Pace(batches=2))
    assert (part.runs, part.complete) == (2, False)
    rest = pruned(pace=Pace(batches=2))
    assert (rest.runs, rest.complete) == (1, True)


def test_a_dry_run_counts_and_changes_nothing(by: Worker) -> None:
    finished(by=by)
    keyed("k" * 16)
    world.submit()
    claim = world.claim_one(by=by)
    blob_of(claim, by=by)
    world.commit(claim, by=by)
    age()
    with nothing_moves():
        would = pruned(dry_run=True)
    # The runs of the keyed task and of the blob: one is open, one is over.
    assert (would.runs, would.keys_expired, would.blobs) == (2, 1, 1)
    did = pruned()
    assert (did.runs, did.keys_expired, did.blobs) == (2, 1, 1)


def test_a_database_in_doubt_takes_nothing_away(by: Worker) -> None:
    finished(by=by)
    age()
    restoring.copy_the_database()
    with nothing_moves():
        answer = prune(actor=system("test"))
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.INTAKE_STOPPED
    with pytest.raises(CommandError, match="after_restore"):
        call_command("prune")


def test_the_command_says_what_it_did(
    by: Worker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    finished(by=by)
    age()
    call_command("prune", "--dry-run")
    assert "runs: 1" in capsys.readouterr().out
    call_command("prune", "--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["runs"], told["complete"], told["dry_run"]) == (1, True, False)
    monkeypatch.setattr("coordinator.management.commands.prune.ALL", Pace(batches=1))
    monkeypatch.setattr(pruning, "BATCH", 1)
    keyed("k" * 16)
    keyed("l" * 16)
    age()
    with pytest.raises(CommandError, match="run it again"):
        call_command("prune")


def test_a_run_goes_when_it_is_counted_and_what_is_remembered_of_its_counting_goes_with_it(
    by: Worker,
) -> None:
    roll_up()
    run = world.submit(node("a"))
    late = world.claim_one(by=by)
    world.lapse(late.fence.task_id)
    second = world.claim_one(by=by, of=late.fence.task_id)
    assert isinstance(world.try_commit(late, by=by), Refusal)
    world.commit(second, by=by)
    settle_active_runs()
    age()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE coordinator_rollup SET rolled_until = rolled_until - interval '100 years'"
        )
    assert pruned().runs == 0, "the roll-up stands still: nothing of it is counted yet"
    roll_up()
    counted = list(Tally.objects.filter(span="ever").order_by("pk").values_list())
    assert counted
    assert CountedRefusal.objects.exists()
    assert CountedAttempt.objects.exists()
    assert pruned().runs == 1
    assert not Event.objects.filter(task_id=world.task_id(run, "a")).exists()
    assert not CountedRefusal.objects.exists()
    assert not CountedAttempt.objects.exists()
    roll_up()
    now = Tally.objects.filter(span="ever", name__in=["refusals", "commit_seconds", "abandoned"])
    assert set(now.values_list()) <= set(counted), "nothing is counted again"
