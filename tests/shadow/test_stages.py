"""A queue's stages: forward through the measured gate, back at any time as an epoch bump (contract 13)."""

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from coordinator.actors import Worker
from coordinator.models import DrillRun, Event, Queue, Task
from coordinator.outcomes import Outcome, Reason, Refusal
from coordinator.selectors import promotion
from coordinator.selectors.drills import OVERDUE
from coordinator.services.drills import run_drill
from coordinator.services.rehearsals import end_rehearsals
from coordinator.services.stages import StageSet, demote
from coordinator.states import Replay, RolloutStage
from tests import world
from tests.history import nothing_moves
from tests.world import node

from . import feeds, promoting
from .feeds import settle, tell

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

SHADOW, READS, WRITES = RolloutStage


@pytest.fixture
def by() -> Worker:
    world.queue(rollout_stage=SHADOW, promotion_rounds=2)
    return feeds.feeder()


def forward(expected: RolloutStage = SHADOW, **changes: Any) -> StageSet | Refusal:
    return promoting.promote(expected, **changes)


def back(to: RolloutStage, expected: RolloutStage, **changes: Any) -> StageSet | Refusal:
    asked: dict[str, Any] = {
        "queue": "q", "to_stage": to, "expected_stage": expected, "reason": "doubts", "actor": world.operator(),
    } | changes  # fmt: skip
    return demote(**asked)


def refused(answer: Any) -> Refusal:
    assert isinstance(answer, Refusal), answer
    return answer


def stage() -> str:
    return Queue.objects.values_list("rollout_stage", flat=True).get()


def agree(by: Worker, *keys: str) -> None:
    for key in keys:
        tell("A claims 0", "A commits 9 r", by=by, key=key)
    settle()


def test_a_closed_gate_keeps_the_queue_where_it_is_and_says_what_blocks(by: Worker) -> None:
    agree(by, "one")
    tell("A claims 0", "B claims 9", "A commits 12 r", by=by, key="two")
    settle()
    with nothing_moves():
        told = refused(forward())
    assert told.outcome is Outcome.GATE_CLOSED
    assert "unexplained_mismatches" in {each.name for each in told.extra["blocking"]}


def test_each_stage_needs_evidence_of_its_own(by: Worker, open_gate: None) -> None:
    assert "settled_rounds" in {each.name for each in refused(forward()).extra["blocking"]}
    agree(by, "one", "two")
    assert forward() == StageSet("q", READS, 1, changed=True)
    told = refused(forward(READS))
    assert {each.name for each in told.extra["blocking"]} == {"settled_rounds"}
    agree(by, "three", "four")
    assert forward(READS) == StageSet("q", WRITES, 1, changed=True)
    assert refused(forward(WRITES)).errors[0].pointer == "/expected_stage"
    event = Event.objects.filter(kind="STAGE_PROMOTED").latest("id")
    assert (event.actor, event.data["requested_by"]) == ("operator:bob", "operator:alice")
    assert (event.data["from"], event.data["to"], event.data["reason"]) == (READS, WRITES, "ready")
    assert event.data["measured"]["settled_rounds"] == 2


def test_the_whole_gate_opens_after_a_real_drill_and_full_coverage(by: Worker) -> None:
    agree(by, "one", "two")
    gate = promotion.read_promotion(queue="q")
    assert gate is not None
    assert gate.blocking == ["fence_drill"]
    assert [each.name for each in gate.criteria] == [
        "settled_rounds",
        "unexplained_mismatches",
        "coverage",
        "fence_drill",
    ]
    assert refused(forward()).outcome is Outcome.GATE_CLOSED
    world.submit()  # a rehearsal, whose lane has an epoch of its own; the drill tries the queue itself
    end_rehearsals(queue="q", reason="another epoch", actor=world.operator())
    run_drill(queue="q", reason="before a promotion", actor=world.operator())
    assert set(Task.objects.filter(kind="tenure.drill").values_list("queue__name")) == {("q",)}
    assert forward() == StageSet("q", READS, 1, changed=True)
    DrillRun.objects.update(finished_at=timezone.now() - OVERDUE)
    agree(by, "three", "four")
    assert [each.name for each in refused(forward(READS)).extra["blocking"]] == ["fence_drill"]


def test_one_write_past_the_guard_closes_the_gate(by: Worker) -> None:
    agree(by, "one", "two")
    run_drill(queue="q", reason="before a promotion", actor=world.operator())
    with pytest.raises(IntegrityError, match="did not come through the guard"):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("UPDATE coordinator_task SET priority = 1")
    assert [each.name for each in refused(forward()).extra["blocking"]] == ["coverage"]


def test_a_promotion_names_its_queue_says_why_and_knows_where_it_stands(
    by: Worker, open_gate: None
) -> None:
    agree(by, "one", "two")
    with nothing_moves():
        assert refused(forward(confirm="Q")).errors[0].pointer == "/confirm"
        assert refused(forward(reason=" ")).errors[0].pointer == "/reason"
        told = refused(forward(READS))
        assert (told.outcome, told.extra) == (
            Outcome.STATE_VERSION_MISMATCH,
            {"rollout_stage": SHADOW},
        )
        unknown = refused(forward(queue="nowhere", confirm="nowhere"))
        assert unknown.outcome is Outcome.NOT_FOUND
    assert isinstance(forward(), StageSet)
    with nothing_moves():
        assert refused(forward()).extra == {"rollout_stage": READS}


@pytest.mark.parametrize(("to", "expected"), [(SHADOW, WRITES), (READS, WRITES), (SHADOW, READS)])
def test_going_back_is_always_possible_and_bumps_the_epoch(
    to: RolloutStage, expected: RolloutStage
) -> None:
    world.queue()
    worker = world.worker()
    world.submit(node("a", replay=Replay.READ_ONLY))
    held = world.claim_one(by=worker)
    Queue.objects.update(rollout_stage=expected)
    assert back(to, expected) == StageSet("q", to, 2, changed=True)
    late = refused(world.try_commit(held, by=worker))
    assert (late.outcome, late.reason) == (Outcome.FENCED, Reason.STALE_EPOCH)
    kinds = list(Event.objects.filter(task=None).order_by("id").values_list("kind", flat=True))
    assert kinds == ["EPOCH_BUMPED", "STAGE_DEMOTED"]
    event = Event.objects.get(kind="STAGE_DEMOTED")
    assert (event.data["from"], event.data["revoked"]) == (expected, 1)


def test_going_back_is_refused_only_where_it_is_not_back_or_not_from_there(by: Worker) -> None:
    with nothing_moves():
        for to, expected in ((READS, READS), (WRITES, READS)):
            assert refused(back(to, expected)).errors[0].pointer == "/to_stage"
        assert refused(back(READS, WRITES)).outcome is Outcome.STATE_VERSION_MISMATCH
        assert refused(back(SHADOW, READS, reason="")).errors[0].pointer == "/reason"
        assert refused(back(SHADOW, READS, queue="nowhere")).outcome is Outcome.NOT_FOUND
        assert back(SHADOW, READS) == StageSet("q", SHADOW, 1, changed=False)


def test_only_reads_are_handed_out_in_the_stage_of_reads() -> None:
    world.queue(rollout_stage=READS)
    worker = world.worker()
    run = world.submit(
        node("read", replay=Replay.READ_ONLY), node("write", replay=Replay.REPLAYABLE)
    )
    (claimed,) = world.claim(by=worker, limit=9)
    assert claimed.node_id == "read"
    with nothing_moves(), pytest.raises(AssertionError, match="NOT_CLAIMABLE"):
        world.claim_one(by=worker, of=world.task_id(run, "write"))
    Queue.objects.update(rollout_stage=WRITES)
    assert [each.node_id for each in world.claim(by=worker, limit=9)] == ["write"]


@pytest.fixture
def open_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the rest of the house measures (coverage, the drill) is fine."""
    monkeypatch.setattr(promotion, "MEASURED_ELSEWHERE", ())
