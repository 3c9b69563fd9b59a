"""C16 — the dry run that sent real mail, and the one that proved nothing: what the ledger has to say about it.

Under a grant from before the queue went into SHADOW every acceptance is refused, whatever the kind of downstream, by
the one service that ever permits a send: no handler has to know. What is prepared goes through the same durable path
as ever. Rehearsals, from submitting to going live, are in test_c16_rehearsal.py.
"""

from typing import Any

import pytest
from django.db import DatabaseError, connection

from coordinator.actors import Worker
from coordinator.models import Approval, Dispatch, EffectSlot, Event, Queue
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.grants import Claim
from coordinator.services.reports import Recorded
from coordinator.states import Guarantee, RolloutStage
from tests import world
from tests.cases import mailbox
from tests.cases.mailbox import Mailbox
from tests.history import nothing_moves
from tests.world import node

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("history_holds"),
]

#: A kind of each guarantee; the last one stands for what a plug-in registers later on.
KINDS = {str(guarantee).lower(): guarantee for guarantee in Guarantee} | {
    "plug-in": Guarantee.GATED
}


def refused(answer: Any) -> Outcome:
    assert isinstance(answer, Refusal), answer
    return answer.outcome


def stage(to: RolloutStage) -> None:
    Queue.objects.update(rollout_stage=to)


def held(name: str, guarantee: Guarantee, *, by: Worker) -> Claim:
    """A grant from before the stage was changed; a queue in SHADOW hands out none."""
    mailbox.register(name=name, guarantee=guarantee)
    run = world.submit(node(name, slots={"mail": name}, kind=f"kind of {name}"), name=name)
    return world.claim_one(by=by, of=world.task_id(run, name))


@pytest.fixture
def by() -> Worker:
    world.queue(max_attempts=100)
    return world.worker()


@pytest.mark.parametrize("shadow", [RolloutStage.SHADOW, RolloutStage.IDEMPOTENT_READS])
def test_c16_1_nothing_is_handed_out_or_sent_and_nobody_is_asked(
    by: Worker, shadow: RolloutStage
) -> None:
    outside = Mailbox()
    claims = {name: held(name, guarantee, by=by) for name, guarantee in KINDS.items()}
    for name in KINDS:
        world.submit(node("more", slots={"mail": name}, kind=name), name=f"more {name}")
    stage(shadow)
    assert world.claim(by=by, limit=100) == []
    for name, claim in claims.items():
        would_do = mailbox.prepared(claim, by=by, downstream=name)
        assert would_do.state == "PREPARED"
        with nothing_moves():
            answer = outside.send_prepared(would_do, claim, by=by)
        assert refused(answer) is Outcome.STAGE_FORBIDS
    assert EffectSlot.objects.count() == len(KINDS)
    assert (outside.x, Dispatch.objects.count(), Approval.objects.count()) == (0, 0, 0)
    told = Event.objects.filter(kind="REFUSED", data__outcome="STAGE_FORBIDS")
    assert told.count() == len(KINDS)


def test_c16_3_what_would_be_done_is_on_file_after_a_restart(by: Worker) -> None:
    claim = held("http", Guarantee.IDEMPOTENT_KEY, by=by)
    stage(RolloutStage.SHADOW)
    would_do = mailbox.prepared(claim, by=by, downstream="http")
    with world.holding("SELECT 1") as elsewhere:
        rows = elsewhere.execute(
            "SELECT effect_id, state, payload_digest, dispatches FROM coordinator_effectslot"
        )
    assert rows == [(would_do.effect_id, "PREPARED", would_do.payload_digest, 0)]


def test_c16_5_a_broken_write_path_is_a_failure_and_not_would_have_worked(by: Worker) -> None:
    claim = held("http", Guarantee.IDEMPOTENT_KEY, by=by)
    stage(RolloutStage.SHADOW)
    broken = (
        "ALTER TABLE coordinator_effectslot ADD CONSTRAINT disk_is_full CHECK (false) NOT VALID"
    )
    with connection.cursor() as cursor:
        cursor.execute(broken)
        try:
            with nothing_moves(), pytest.raises(DatabaseError, match="disk_is_full"):
                mailbox.prepare(claim, by=by, downstream="http")
        finally:
            cursor.execute("ALTER TABLE coordinator_effectslot DROP CONSTRAINT disk_is_full")
    assert mailbox.prepared(claim, by=by, downstream="http").state == "PREPARED"


def test_c16_6_going_live_runs_nothing_of_the_past(by: Worker) -> None:
    outside = Mailbox()
    claim = held("http", Guarantee.IDEMPOTENT_KEY, by=by)
    stage(RolloutStage.SHADOW)
    request = mailbox.request_of(by)
    would_do = mailbox.prepared(claim, by=by, downstream="http")
    answer = mailbox.accept(would_do, claim.fence, by=by, request=request)
    assert refused(answer) is Outcome.STAGE_FORBIDS
    world.commit(claim, by=by)
    stage(RolloutStage.CONDITIONAL_WRITES)
    with nothing_moves():
        # The refusal was no promise: the same request again permits nothing either.
        again = mailbox.accept(would_do, claim.fence, by=by, request=request)
        assert isinstance(again, Refusal)
        assert world.claim(by=by) == []
    assert EffectSlot.objects.get().state == "VOID"
    assert outside.x == 0
    live = world.submit(node("http", slots={"mail": "http"}), name="live")
    new = world.claim_one(by=by, of=world.task_id(live, "http"))
    sent = mailbox.prepared(new, by=by, downstream="http")
    assert outside.send_prepared(sent, new, by=by) == Recorded("COMMITTED")
    assert outside.arrived == [sent.effect_id]
    assert sent.effect_id != would_do.effect_id
