"""A decision is bound to what people have changed, not to the work that goes on by itself (console design, 3.3)."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from coordinator.models import Credential, Event, Run
from coordinator.outcomes import Outcome, Refusal
from coordinator.seen import RunSeen, TokenSeen, changed_since
from coordinator.selectors.runs import see_run
from coordinator.services.cancels import CancelledRun, cancel_run, cancel_task
from coordinator.services.credentials import Revoked, revoke_credential
from tests import world

WHY = "The order was withdrawn."
THEN, LATER = datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 5, 2, tzinfo=UTC)
RUN = RunSeen("ACTIVE", cancelled=1, revised=2, failed=3)


@pytest.mark.parametrize(
    "change",
    [{"state": "CANCELLED"}, {"cancelled": 2}, {"cancelled": 0}, {"revised": 3}, {"failed": 2}],
    ids=str,
)
def test_what_people_do_to_a_run_is_a_change(change: dict[str, Any]) -> None:
    refusal = changed_since(RUN, replace(RUN, **change))
    assert refusal is not None
    assert refusal.outcome is Outcome.STATE_VERSION_MISMATCH
    worked_on = {"failed": 9} | change
    assert changed_since(RUN, replace(RUN, **worked_on)) is not None


def test_a_task_that_fails_is_work_and_no_change() -> None:
    assert changed_since(RUN, replace(RUN, failed=4)) is None
    assert changed_since(RUN, RUN) is None
    assert changed_since(None, RUN) is None


@pytest.mark.parametrize("change", [{"expires_at": LATER}, {"revoked_at": LATER}], ids=str)
def test_another_end_of_a_token_is_a_change(change: dict[str, Any]) -> None:
    seen = TokenSeen(expires_at=THEN, revoked_at=None)
    assert changed_since(seen, replace(seen, **change)) is not None
    assert changed_since(seen, seen) is None


def a_run() -> Any:
    world.queue()
    return world.submit(world.node("one"), world.node("two"), world.node("three"))


def as_seen(run: Any) -> RunSeen:
    row = Run.objects.get(run_id=run.run_id)
    return see_run(row.pk, row.state)


@pytest.mark.django_db(transaction=True)
def test_a_run_at_work_is_cancelled_as_it_was_seen_whatever_has_been_claimed_since() -> None:
    run, fleet = a_run(), world.worker()
    seen = as_seen(run)
    world.try_commit(world.claim_one(by=fleet, of=world.task_id(run, "one")), by=fleet)
    world.claim_one(by=fleet, of=world.task_id(run, "two"))
    answer = cancel_run(run_id=run.run_id, reason=WHY, actor=world.operator(), seen=seen)
    assert isinstance(answer, CancelledRun)
    assert {task.node_id for task in answer.tasks} == {"two", "three"}


@pytest.mark.django_db(transaction=True)
def test_a_run_that_somebody_has_changed_is_left_alone_and_the_refusal_is_on_record() -> None:
    run = a_run()
    seen = as_seen(run)
    cancel_task(task_id=world.task_id(run, "three"), reason=WHY, actor=world.operator())
    before = world.fingerprint()
    answer = cancel_run(run_id=run.run_id, reason=WHY, actor=world.operator(), seen=seen)
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.STATE_VERSION_MISMATCH
    assert world.fingerprint() == before
    told = Event.objects.get(kind="REFUSED")
    assert told.data["outcome"] == "STATE_VERSION_MISMATCH"
    assert told.run is not None
    assert told.run.run_id == run.run_id


@pytest.mark.django_db(transaction=True)
def test_a_credential_is_revoked_as_it_was_seen_and_by_the_api_whatever_was_seen() -> None:
    world.worker(name="fleet")
    row = Credential.objects.get(name="fleet")
    other = TokenSeen(expires_at=THEN, revoked_at=None)
    refused = revoke_credential(
        credential_id=row.credential_id, reason=WHY, actor=world.operator(), seen=other
    )
    assert isinstance(refused, Refusal)
    row.refresh_from_db()
    assert row.revoked_at is None
    once = revoke_credential(credential_id=row.credential_id, reason=WHY, actor=world.operator())
    again = revoke_credential(credential_id=row.credential_id, reason=WHY, actor=world.operator())
    assert isinstance(once, Revoked)
    assert again == once
