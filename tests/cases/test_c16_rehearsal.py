"""C16 — the dry run that sent real mail, and the one that proved nothing: a rehearsal from its first step to its last.

A queue in SHADOW takes runs as rehearsals: they live in a lane beside it, are claimed, prepared and committed through
the same services as the real thing, and are never sent, whatever the queue's stage is by then.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from coordinator.actors import Worker
from coordinator.models import Approval, Dispatch, EffectSlot, Event, MemoryKey, Queue, Task
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors import promotion
from coordinator.services.claims import claim_task
from coordinator.services.commits import Committed, commit_results
from coordinator.services.memory import MemoryWrite
from coordinator.services.reports import Recorded
from coordinator.services.stages import StageSet, demote
from coordinator.states import Guarantee, RolloutStage
from tests import world
from tests.cases import mailbox
from tests.cases.mailbox import Mailbox
from tests.races.crowd import database_url
from tests.shadow import feeds, promoting
from tests.world import node

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("history_holds"),
]

SHADOW, READS, WRITES = RolloutStage
#: mail, http, and a kind that a plug-in registers later on; the last one needs a person for each send.
KINDS = {
    "mail": Guarantee.IDEMPOTENT_KEY,
    "http": Guarantee.CONDITIONAL_WRITE,
    "plug-in": Guarantee.NONE,
}


@pytest.fixture
def by(monkeypatch: pytest.MonkeyPatch) -> Worker:
    """A queue in SHADOW with live work in it from before: one task held, one free, one waiting for both."""
    monkeypatch.setattr(promotion, "MEASURED_ELSEWHERE", ())
    world.queue(max_attempts=100, promotion_rounds=1)
    worker = world.worker()
    run = world.submit(node("held"), node("free"), node("after", "held", "free"), name="live")
    world.claim_one(by=worker, of=world.task_id(run, "held"))
    for name, guarantee in KINDS.items():
        mailbox.register(name=name, guarantee=guarantee)
    Queue.objects.update(rollout_stage=SHADOW)
    return worker


def live_rows() -> list[Any]:
    """Every live task, attempt and lease, whole."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT to_jsonb(t)::text, to_jsonb(a)::text FROM coordinator_task t"
            " JOIN coordinator_queue q ON q.id = t.queue_id AND q.name = 'q'"
            " LEFT JOIN coordinator_attempt a ON a.task_id = t.task_id ORDER BY t.task_id"
        )
        rows: list[Any] = cursor.fetchall()
    return rows


def rehearse(name: str) -> Any:
    """A run whose first node has an effect of this kind, and a child."""
    return world.submit(
        node("sends", slots={"mail": name}), node("child", "sends"), name=f"rehearsal of {name}"
    )


def set_stage(to: RolloutStage, expected: RolloutStage) -> None:
    feeder = feeds.feeder()
    feeds.tell("A claims 0", "A commits 9 r", by=feeder, key=f"evidence for {to}")
    feeds.settle()
    asked: dict[str, Any] = {
        "queue": "q",
        "expected_stage": expected,
        "reason": "rollout",
        "actor": world.operator(),
    }
    answer = (
        demote(to_stage=to, **asked)
        if list(RolloutStage).index(to) < list(RolloutStage).index(expected)
        else promoting.promote(expected, reason="rollout")
    )
    assert isinstance(answer, StageSet), answer


def refused(answer: Any) -> Outcome:
    assert isinstance(answer, Refusal), answer
    return answer.outcome


def test_c16_1_2_4_a_rehearsal_leaves_a_record_and_sends_nothing_whatever_the_kind(
    by: Worker,
) -> None:
    outside, before = Mailbox(), live_rows()
    for name in KINDS:
        run = rehearse(name)
        claim = world.claim_one(by=by)
        assert claim.fence.task_id == world.task_id(run, "sends")
        would_do = mailbox.prepared(claim, by=by, downstream=name)
        assert would_do.state == "PREPARED"
        assert refused(outside.send_prepared(would_do, claim, by=by)) is Outcome.STAGE_FORBIDS
        committed = world.commit(claim, by=by)
        assert committed.released == ["child"]  # 2: its children are rehearsals, too
        (child,) = world.claim(by=by, limit=9)
        assert child.fence.task_id == world.task_id(run, "child")
        world.commit(child, by=by)
    assert (outside.x, Dispatch.objects.count(), Approval.objects.count()) == (0, 0, 0)
    assert live_rows() == before  # 4
    assert set(Task.objects.filter(run__name__startswith="reh").values_list("queue__name")) == {
        ("q~shadow",)
    }
    told = Event.objects.filter(kind="REFUSED", data__outcome="STAGE_FORBIDS")
    assert told.count() == len(KINDS)
    assert world.claim(by=by, limit=9) == []  # the live ones wait


def test_c16_2_what_a_rehearsal_submits_is_one_and_shared_memory_stays_as_it_is(
    by: Worker,
) -> None:
    before = live_rows()
    rehearse("mail")
    claim = world.claim_one(by=by)
    spawned = world.submit(node("spawned"), name="spawned", actor=by)
    item = world.commit_item(claim)
    write = MemoryWrite("team", "plan", 0, '"b"', "sha256:" + "b" * 64)
    item = type(item)(
        item.attempt_id, item.fence, item.input_digest, item.result_digest, item.result, (write,)
    )
    (answer,) = commit_results(items=[item], worker=by)
    assert isinstance(answer, Committed)
    assert not MemoryKey.objects.exists()
    event = Event.objects.get(kind="COMMITTED", task_id=claim.fence.task_id)
    assert event.data["would_write"][0]["key"] == "plan"
    assert world.current(spawned, "spawned").queue.name == "q~shadow"
    assert live_rows() == before


def test_c16_3_a_killed_worker_has_left_its_record(by: Worker) -> None:
    rehearse("mail")
    killed = subprocess.run(
        [sys.executable, "-m", "tests.cases.preparing_process", str(by.id)],
        cwd=Path(__file__).resolve().parent.parent.parent,
        env={**os.environ, "DATABASE_URL": database_url()},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    slot = EffectSlot.objects.get()
    assert (slot.effect_id, slot.state, slot.dispatches) == (killed.stdout.strip(), "PREPARED", 0)
    world.lapse(slot.task_id)
    again = world.claim_one(by=by)
    assert [each.effect_id for each in again.effects] == [slot.effect_id]


def test_c16_6_going_live_and_back_never_runs_what_was_rehearsed(by: Worker) -> None:
    outside = Mailbox()
    done, open_run, waiting = rehearse("mail"), rehearse("http"), rehearse("mail")
    first, second = world.claim(by=by, limit=2)
    would_do = mailbox.prepared(first, by=by, downstream="mail")
    world.commit(first, by=by)
    held = mailbox.prepared(second, by=by, downstream="http")
    for to, expected in ((READS, SHADOW), (WRITES, READS)):
        set_stage(to, expected)
        assert refused(outside.send_prepared(held, second, by=by)) is Outcome.FENCED
        assert refused(world.try_commit(second, by=by)) is Outcome.FENCED
    granted = {claim.node_id for claim in world.claim(by=by, limit=100)}
    assert granted == {"free"}  # the live tasks alone; `held` is held
    for run, name in ((done, "child"), (open_run, "sends"), (waiting, "sends")):
        task = world.current(run, name)
        by_id = claim_task(
            task_id=task.task_id,
            expected_state_version=task.state_version,
            scheduler_epoch=Queue.lanes.get(name="q~shadow").scheduler_epoch,
            owner="w",
            worker=by,
        )
        assert refused(by_id) is Outcome.NOT_CLAIMABLE
    live = world.submit(node("sends", slots={"mail": "mail"}), name="live mail")
    sent = world.claim_one(by=by, of=world.task_id(live, "sends"))
    effect = mailbox.prepared(sent, by=by, downstream="mail")
    assert outside.send_prepared(effect, sent, by=by) == Recorded("COMMITTED")
    assert (outside.arrived, would_do.effect_id != effect.effect_id) == ([effect.effect_id], True)
    set_stage(SHADOW, WRITES)  # rehearsing again hands out what was left of the last time, unsent
    again = world.claim(by=by, limit=100)
    assert {claim.fence.task_id for claim in again} <= set(
        Task.objects.filter(queue__name="q~shadow").values_list("task_id", flat=True)
    )
    for claim in again:
        if claim.effects:
            slot = EffectSlot.objects.get(effect_id=claim.effects[0].effect_id)
            answer = mailbox.prepare(claim, by=by, downstream=slot.downstream)
            assert not isinstance(answer, Refusal)
            assert (
                refused(outside.send_prepared(answer.effect, claim, by=by)) is Outcome.STAGE_FORBIDS
            )
    assert outside.x == 1
