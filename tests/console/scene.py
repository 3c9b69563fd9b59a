"""A scene for the console: a fleet at work, with everything in it that a person may have to look at.

Made by the services; only instants are moved afterwards, so that leases, take-overs and late
calls lie apart as they would in a day's work.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, User
from django.db import connection, transaction

from coordinator.actors import Worker
from coordinator.clock import read_clock
from coordinator.models import Credential
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors.saved_views import ViewRecord
from coordinator.services import cancels, endings, epochs, leases
from coordinator.services.bulk_steps import run_bulk_step
from coordinator.services.bulks import Reviewed, Verb, review_bulk, start_bulk
from coordinator.services.credentials import create_operator_token, note_worker_use
from coordinator.services.grants import Claim
from coordinator.services.roles import ensure_roles
from coordinator.services.roll_ups import roll_up
from coordinator.services.runs import Submitted
from coordinator.services.saved_views import save_view
from coordinator.services.usage import Usage
from coordinator.states import Intake
from tests import world

PASSWORD = "a-long-enough-password"
FILES = (
    "coordinator/fence.py",
    "coordinator/gates.py",
    "coordinator/clock.py",
    "coordinator/states.py",
    "coordinator/digests.py",
    "coordinator/services/claims.py",
    "coordinator/services/commits.py",
    "coordinator/services/leases.py",
    "coordinator/services/cancels.py",
    "tenure/worker.py",
    "tenure/keeper.py",
    "tenure/client.py",
)


@dataclass(frozen=True, slots=True)
class Scene:
    """What tests and screenshots look at."""

    review: Submitted
    fenced: UUID  # taken over and committed; its first owner came back late
    held: UUID  # a live lease
    failed: UUID  # attempts used up
    cancelled: UUID
    bumped: UUID  # held across an epoch bump
    worker: Worker
    credential: UUID  # the fleet's
    approver: int  # a person with a personal token, by their key
    bulk_review: UUID  # frozen, not started
    bulk_job: UUID  # done
    bulk_snooze: UUID  # frozen, not started
    view: UUID  # a filter that somebody keeps for everybody


def person(name: str, role: str) -> User:
    ensure_roles()
    user = User.objects.create(username=name, password=_hashed())
    user.groups.add(Group.objects.get(name=role))
    return user


@cache
def _hashed() -> str:
    """Hashing takes its time, on purpose; each process of the tests needs it once."""
    return make_password(PASSWORD)


@contextmanager
def any_time() -> Iterator[Any]:
    """A cursor that may move instants of the past, past the triggers that forbid it to everyone else."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        yield cursor


def move_attempt(
    attempt_id: UUID,
    *,
    start: float,
    lease: float,
    end: float | None = None,
    renewed: Sequence[float] = (),
) -> None:
    """Place an attempt in time; all numbers are seconds before now."""
    now = read_clock()
    times = [now - timedelta(seconds=seconds) for seconds in renewed]
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_attempt SET started_at = %s, lease_expires_at = %s, ended_at = coalesce(%s, ended_at),"
            " renewed_at = %s, renewals = %s WHERE attempt_id = %s",
            [
                now - timedelta(seconds=start),
                now - timedelta(seconds=lease),
                None if end is None else now - timedelta(seconds=end),
                times,
                len(times),
                attempt_id,
            ],
        )
        if end is not None:
            cursor.execute(
                "UPDATE coordinator_canonicalcommit SET committed_at = %s WHERE attempt_id = %s",
                [now - timedelta(seconds=end), attempt_id],
            )
        cursor.execute(
            "UPDATE coordinator_event SET at = %s WHERE attempt_id = %s AND kind = 'CLAIMED'",
            [now - timedelta(seconds=start), attempt_id],
        )


def move_refusals(attempt_id: UUID, *, ago: float) -> None:
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_event SET at = clock_timestamp() - make_interval(secs => %s)"
            " WHERE attempt_id = %s AND kind IN ('REFUSED', 'STAGED')",
            [ago, attempt_id],
        )


def report(path: str, *, findings: int) -> dict[str, Any]:
    return {
        "path": path,
        "lines": 180 + len(path),
        "findings": [
            {
                "line": 12 + 7 * n,
                "severity": "minor",
                "says": f"Consider naming the constant in line {12 + 7 * n}.",
            }
            for n in range(findings)
        ],
        "summary": f"{path} is small and does one thing; {findings} remarks.",
    }


def fenced_story(task_id: UUID, *, by: Worker) -> tuple[Claim, Claim]:
    """Frozen past its lease, taken over, and back too late: the second commits, the first is refused twice."""
    first = world.claim_one(by=by, of=task_id, queue_name="review", owner="agent-1@build-07")
    world.lapse(task_id)
    second = world.claim_one(by=by, of=task_id, queue_name="review", owner="agent-4@build-02")
    world.commit(second, by=by, result=report("coordinator/fence.py", findings=2))
    world.stage(first, by=by, result=report("coordinator/fence.py", findings=3))
    for _ in range(2):
        answer = world.try_commit(first, by=by, result=report("coordinator/fence.py", findings=3))
        assert isinstance(answer, Refusal)
        assert answer.outcome is Outcome.FENCED
    move_attempt(
        first.fence.attempt_id, start=300, lease=190, end=181, renewed=(280, 260, 240, 220)
    )
    move_attempt(second.fence.attempt_id, start=181, lease=40, end=72, renewed=(150, 120, 90))
    move_refusals(first.fence.attempt_id, ago=30)
    return first, second


def finish(task_id: UUID, *, by: Worker, result: Any = None) -> None:
    world.commit(
        world.claim_one(by=by, of=task_id, queue_name="review", owner="agent-6@build-05"),
        by=by,
        result=result,
    )


def failed_story(task_id: UUID, *, by: Worker, attempts: int = 3) -> None:
    for number in range(attempts):
        claim = world.claim_one(
            by=by, of=task_id, queue_name="review", owner=f"agent-{number + 2}@build-05"
        )
        endings.fail_attempt(
            attempt_id=claim.fence.attempt_id,
            fence=claim.fence,
            error={
                "type": "ModelRefused",
                "message": "The model answered with prose where JSON was asked for.",
                "detail": {"status": 422},
            },
            retryable=True,
            worker=by,
            usage=Usage(
                input_tokens=4_200, output_tokens=310, compute_seconds=2.5, cost_usd=0.0184
            ),
        )
        world.make_due(task_id)
        start = 900 - number * 200
        move_attempt(claim.fence.attempt_id, start=start, lease=start - 60, end=start - 35)


def compose() -> Scene:
    world.queue(name="review", max_attempts=3)
    world.queue(name="nightly", pool_name="green")
    fleet = world.worker(name="review-fleet", queues=("review", "nightly"))
    green = world.worker(name="green-fleet", pool_name="green", queues=("nightly",))
    _downstreams()
    earlier = _earlier_runs(fleet)
    held_at_bump = _bumped(green)
    review = world.submit(
        world.node("list", kind="list"),
        *(
            world.node(f"analyse {path}", "list", kind="analyse", input={"path": path})
            for path in FILES
        ),
        world.node("merge", *(f"analyse {path}" for path in FILES), kind="merge"),
        world.node("publish", "merge", kind="publish"),
        queue_name="review",
        name="Review of the coordinator",
    )
    finish(world.task_id(review, "list"), by=fleet, result={"files": list(FILES)})
    tasks = {path: world.task_id(review, f"analyse {path}") for path in FILES}
    fenced_story(tasks[FILES[0]], by=fleet)
    failed_story(tasks[FILES[1]], by=fleet)
    for path in FILES[2:7]:
        finish(tasks[path], by=fleet, result=report(path, findings=1))
    held = world.claim_one(
        by=fleet, queue_name="review", of=tasks[FILES[7]], owner="agent-3@build-02", ttl_seconds=240
    )
    move_attempt(held.fence.attempt_id, start=95, lease=-140, renewed=(70, 45, 20))
    leases.renew_leases(
        items=[leases.Renewal(held.fence.attempt_id, held.fence, "agent-3@build-02", 240)],
        worker=fleet,
        queue=None,
    )
    world.claim_one(
        by=fleet, queue_name="review", of=tasks[FILES[8]], owner="agent-2@build-07", ttl_seconds=60
    )
    cancels.cancel_task(
        task_id=tasks[FILES[9]],
        reason="The file is generated; nobody needs a review of it.",
        actor=world.operator(),
    )
    _spread_events()
    roll_up()
    return Scene(
        review,
        tasks[FILES[0]],
        tasks[FILES[7]],
        tasks[FILES[1]],
        earlier,
        held_at_bump,
        fleet,
        _used_credential(fleet),
        _approver(),
        *_bulks([tasks[path] for path in (FILES[0], *FILES[8:])]),
        _view(),
    )


def _bulks(task_ids: Sequence[UUID]) -> tuple[UUID, UUID, UUID]:
    """Three sets of a person's: two that were only reviewed, and one that was worked through."""
    alice = replace(world.operator(), id=person("alice", "operator").pk)
    run = world.submit(
        *(world.node(f"page {number}", kind="scan") for number in range(3)),
        queue_name="review",
        name="Scan of the archive",
    )
    frozen = [
        review_bulk(verb=Verb.CANCEL, wanted=None, task_ids=chosen, actor=alice)
        for chosen in (task_ids, [task.task_id for task in run.tasks])
    ]
    reviewed, done = (each.bulk_id for each in frozen if isinstance(each, Reviewed))
    start_bulk(bulk_id=done, reason="The archive was scanned twice by mistake.", actor=alice)
    while run_bulk_step():
        pass
    snooze = review_bulk(verb=Verb.SNOOZE, wanted=None, task_ids=task_ids, actor=alice)
    assert isinstance(snooze, Reviewed)
    return reviewed, done, snooze.bulk_id


def _view() -> UUID:
    alice = replace(world.operator(), id=User.objects.get(username="alice").pk)
    kept = save_view(name="Failed reviews", query="state=FAILED&queue=review", actor=alice)
    assert isinstance(kept, ViewRecord)
    return kept.view_id


def _downstreams() -> None:
    world.downstream(
        name="notebook", guarantee="IDEMPOTENT_KEY", key_valid_seconds=86_400, settle_seconds=30
    )
    world.downstream(
        name="letters",
        guarantee="NONE",
        required_approvers=2,
        probe="Ask the post office, room 214, for the day's list.",
    )


def _used_credential(fleet: Worker) -> UUID:
    """The fleet's credential, as its workers' calls have marked it; it ends in ten days."""
    note_worker_use(
        id_=fleet.id,
        address="10.20.0.17",
        route="POST /api/v1/queues/<path:name>/claims",
        contract="claim.v1",
    )
    rows = Credential.objects.filter(pk=fleet.id)
    rows.update(last4="9f3c", expires_at=read_clock() + timedelta(days=10))
    return rows.get().credential_id


def _approver() -> int:
    user = person("anna-lena", "approver")
    create_operator_token(user=user, name="calendar")
    return int(user.pk)


def _earlier_runs(fleet: Worker) -> UUID:
    for day in ("Mon", "Tue"):
        run = world.submit(
            world.node("fetch", kind="fetch"),
            world.node("parse", "fetch", kind="parse"),
            world.node("index", "parse", kind="index"),
            world.node("report", "parse", "index", kind="report"),
            queue_name="review",
            name=f"Dependency digest, {day}",
        )
        for name in ("fetch", "parse", "index", "report"):
            finish(world.task_id(run, name), by=fleet)
    run = world.submit(world.node("draft", kind="draft"), queue_name="review", name="Release notes")
    cancelled = world.task_id(run, "draft")
    cancels.cancel_task(
        task_id=cancelled,
        reason="Superseded by the run of the release branch.",
        actor=world.operator(),
    )
    return cancelled


def _bumped(green: Worker) -> UUID:
    run = world.submit(world.node("sync", kind="sync"), queue_name="nightly", name="Nightly sync")
    task_id = world.task_id(run, "sync")
    old = world.claim_one(by=green, of=task_id, queue_name="nightly", owner="sync-1@green")
    epochs.bump_epoch(
        queue="nightly",
        expected_epoch=1,
        reason="Rolled the fleet back to build 41.",
        actor=world.operator(),
    )
    world.try_commit(old, by=green)
    new = world.claim_one(
        by=green, of=task_id, queue_name="nightly", owner="sync-2@green", ttl_seconds=300
    )
    epochs.set_intake(
        queue="nightly",
        intake=Intake.STOPPED,
        reason="Waiting for the new pool.",
        actor=world.operator(),
    )
    move_attempt(old.fence.attempt_id, start=400, lease=300, end=330)
    move_attempt(new.fence.attempt_id, start=250, lease=-200)
    move_refusals(old.fence.attempt_id, ago=200)
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_event SET at = clock_timestamp() - interval '330 seconds' WHERE kind = 'EPOCH_BUMPED'"
        )
        cursor.execute(
            "UPDATE coordinator_task SET created_at = clock_timestamp() - interval '500 seconds',"
            " lease_expires_at = clock_timestamp() + interval '200 seconds' WHERE task_id = %s",
            [task_id],
        )
    return task_id


def _spread_events() -> None:
    """Submissions lie before the work, and commits apart from each other, as they do."""
    with any_time() as cursor:
        for table, column, where in (
            ("canonicalcommit", "committed_at", "true"),
            ("attempt", "ended_at", "a.state = 'COMMITTED'"),
            ("attempt", "started_at", "a.state = 'COMMITTED'"),
        ):
            earlier = 9 if column == "started_at" else 0
            cursor.execute(
                f"UPDATE coordinator_{table} a SET {column} = a.{column} - make_interval(secs => n.place * 41 + %s)"
                " FROM (SELECT attempt_id, row_number() OVER (ORDER BY result_commit_id DESC) AS place"
                " FROM coordinator_canonicalcommit WHERE claim_generation = 1) AS n"
                f" WHERE a.attempt_id = n.attempt_id AND {where}",
                [earlier],
            )
        cursor.execute(
            "UPDATE coordinator_event SET at = clock_timestamp() - interval '20 minutes' WHERE kind = 'SUBMITTED'"
        )
        cursor.execute(
            "UPDATE coordinator_run SET created_at = clock_timestamp() - interval '20 minutes'"
        )
        cursor.execute(
            "UPDATE coordinator_task SET created_at = clock_timestamp() - interval '20 minutes',"
            " ready_at = ready_at - interval '20 minutes'"
            " WHERE created_at > clock_timestamp() - interval '5 minutes'"
        )
