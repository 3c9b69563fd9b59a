"""Queues, pools and downstreams: what their services refuse, and the gate that a policy change waits for."""

import pytest

from coordinator.actors import system
from coordinator.gates import queue_gate
from coordinator.models import Downstream, Event, Pool, Queue
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors.downstreams import DownstreamRecord
from coordinator.selectors.queues import QueueRecord
from coordinator.services.downstreams import change_downstream, register_downstream
from coordinator.services.queues import (
    change_policy,
    create_pool,
    create_queue,
    ensure_pool,
    ensure_queue,
)
from tests import world

pytestmark = pytest.mark.django_db(transaction=True)
ACTOR = system("tests")


def test_ensuring_a_queue_twice_leaves_the_policy_that_it_has_by_then() -> None:
    for _ in range(2):
        ensure_pool(name="blue", actor=ACTOR)
        ensure_queue(name="q", active_pool="blue", actor=ACTOR)
        change_policy(name="q", changes={"max_attempts": 9}, actor=ACTOR)
    assert (Queue.objects.get().max_attempts, Pool.objects.count()) == (9, 1)
    assert Event.objects.filter(kind="QUEUE_CREATED").count() == 1


def test_a_queue_is_ensured_in_its_stage_with_its_policy() -> None:
    ensure_pool(name="blue", actor=ACTOR)
    ensure_queue(
        name="q", active_pool="blue", actor=ACTOR, rollout_stage="SHADOW", promotion_rounds=20
    )
    queue = Queue.objects.get()
    assert (queue.rollout_stage, queue.promotion_rounds) == ("SHADOW", 20)


def test_two_who_create_the_same_queue_both_get_it() -> None:
    create_pool(name="blue", actor=ACTOR)
    rivals = [
        world.Rival(lambda: create_queue(name="q", active_pool="blue", actor=ACTOR))
        for _ in range(4)
    ]
    answers = [rival.result() for rival in rivals]
    assert all(isinstance(answer, QueueRecord) for answer in answers)
    assert Queue.objects.count() == 1
    assert Event.objects.filter(kind="QUEUE_CREATED").count() == 1


def test_a_policy_change_waits_for_whoever_is_within_the_gate() -> None:
    queue = world.queue()
    with world.holding(queue_gate(queue.pk).sql, [queue.pk]) as holder:
        rival = world.Rival(
            lambda: change_policy(name="q", changes={"max_attempts": 2}, actor=ACTOR)
        )
        world.wait_until_blocked(rival.pid, by=holder.pid)
        assert Queue.objects.get().max_attempts == 5
        holder.release()
        assert isinstance(rival.result(), QueueRecord)
    assert Queue.objects.get().max_attempts == 2


def test_a_policy_that_the_table_would_refuse_is_refused_by_its_field() -> None:
    world.queue()
    before = world.fingerprint("queue", "event")
    answer = change_policy(
        name="q", changes={"default_ttl_seconds": 400, "max_lease_seconds": 100}, actor=ACTOR
    )
    assert isinstance(answer, Refusal)
    assert {error.pointer for error in answer.errors} == {
        "/default_ttl_seconds",
        "/max_ttl_seconds",
    }
    assert world.fingerprint("queue", "event") == before


def test_a_queue_that_is_not_there_is_not_found() -> None:
    answer = change_policy(name="nowhere", changes={}, actor=ACTOR)
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.NOT_FOUND


def test_a_downstream_keeps_what_was_not_changed() -> None:
    made = register_downstream(
        name="s3", kind="s3", guarantee="CONDITIONAL_WRITE", settle_seconds=5, actor=ACTOR
    )
    assert isinstance(made, DownstreamRecord)
    changed = change_downstream(name="s3", changes={"refuses_late": True}, actor=ACTOR)
    assert isinstance(changed, DownstreamRecord)
    assert (changed.settle_seconds, changed.refuses_late, changed.guarantee) == (
        5,
        True,
        "CONDITIONAL_WRITE",
    )
    assert Event.objects.get(kind="DOWNSTREAM_CHANGED").data["after"] == {"refuses_late": True}


def test_keys_that_are_deduped_for_no_time_at_all_are_no_guarantee() -> None:
    answer = register_downstream(name="pay", kind="http", guarantee="IDEMPOTENT_KEY", actor=ACTOR)
    assert isinstance(answer, Refusal)
    assert [error.pointer for error in answer.errors] == ["/key_valid_seconds"]
    assert Downstream.objects.count() == 0
