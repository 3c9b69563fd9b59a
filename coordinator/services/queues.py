"""Queues and pools: created and their policy changed, never their epoch (contract 12)."""

from collections.abc import Mapping
from typing import Any, Final

from django.db import IntegrityError, transaction

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.gates import queue_gate
from coordinator.models import Pool, Queue
from coordinator.outcomes import FieldError, Refusal, invalid, not_found
from coordinator.rounds import name_point, run_round
from coordinator.selectors.queues import PoolRecord, QueueRecord, pool_record, queue_record
from coordinator.services import locking
from coordinator.services.events import EventKind, Fact, record
from coordinator.services.rulings import refuse_in_incident
from coordinator.services.transactions import in_transaction
from coordinator.states import MIN_TTL_SECONDS, RolloutStage

#: What PATCH may change. The epoch is raised by an incident, the intake by its own service.
POLICY: Final = (
    "active_pool",
    "default_ttl_seconds",
    "max_ttl_seconds",
    "max_lease_seconds",
    "max_attempts",
    "retry_backoff_seconds",
    "retry_backoff_max_seconds",
    "shadow_settle_seconds",
    "promotion_rounds",
)


@in_transaction
def create_queue(
    *,
    name: str,
    active_pool: str,
    actor: Actor,
    rollout_stage: str = RolloutStage.CONDITIONAL_WRITES,
    **policy: int,
) -> QueueRecord | Refusal:
    """Create a queue with epoch 1 and open intake. The same again is the queue as it stands (contract 12).

    Refuses an unknown pool, a policy that contradicts itself, and a name that another policy has.
    """
    run_round(name_point("administer"))
    wanted = Queue(name=name, active_pool_id=active_pool, rollout_stage=rollout_stage, **policy)
    faults = _policy_faults(wanted)
    if faults:
        return invalid(*faults)
    try:
        with transaction.atomic():
            wanted.save(force_insert=True)
    except IntegrityError:
        return _same_or_taken(wanted)
    _record(
        EventKind.QUEUE_CREATED, actor, queue_id=wanted.pk, data=_policy_of(wanted) | {"name": name}
    )
    return queue_record(Queue.objects.get(pk=wanted.pk))


@in_transaction
def change_policy(*, name: str, changes: Mapping[str, Any], actor: Actor) -> QueueRecord | Refusal:
    """Change a queue's pool, lease or retry policy under its exclusive gate (contract 4); attempts keep what they got.

    Refuses an unknown queue or pool, a policy that contradicts itself, and another pool during an
    incident (INCIDENT_OPEN: only its switch changes that); an equal policy changes nothing.
    """
    assert set(changes) <= set(POLICY), "the body's model allows no other field"
    found = Queue.objects.filter(name=name).values_list("pk", flat=True).first()
    if found is None:
        return not_found("queue")
    run_round(name_point("administer"), queue_gate(found, exclusive=True))
    queue = Queue.objects.select_for_update(of=("self",)).get(pk=found)
    before = _policy_of(queue)
    for field, value in changes.items():
        setattr(queue, "active_pool_id" if field == "active_pool" else field, value)
    faults = _policy_faults(queue)
    if faults:
        return invalid(*faults)
    after = _policy_of(queue)
    if after["active_pool"] != before["active_pool"]:
        rows, clock = run_round(locking.read_queue(queue.pk), CLOCK)
        row = locking.QueueRow._make(rows[0])
        if row.incident_id is not None:
            return refuse_in_incident(row, point="administer", actor=actor, at=clock_of(clock))
    changed = {field: after[field] for field in POLICY if after[field] != before[field]}
    if changed:
        queue.save(update_fields=list(changed))
        _record(
            EventKind.POLICY_CHANGED,
            actor,
            queue_id=queue.pk,
            data={"before": {field: before[field] for field in changed}, "after": changed},
        )
    return queue_record(queue)


@in_transaction
def create_pool(*, name: str, actor: Actor, min_contract: str = "claim.v1") -> PoolRecord | Refusal:
    """Create a pool. The same again is the pool as it stands; another minimum under its name is refused."""
    run_round(name_point("administer"))
    pool, created = Pool.objects.get_or_create(name=name, defaults={"min_contract": min_contract})
    if not created:
        if pool.min_contract == min_contract:
            return pool_record(pool)
        return invalid(
            FieldError("/name", f"pool {name!r} exists with min_contract {pool.min_contract!r}")
        )
    _record(EventKind.POOL_CREATED, actor, data={"name": name, "min_contract": min_contract})
    return pool_record(Pool.objects.get(pk=pool.pk))


def ensure_pool(*, name: str, actor: Actor) -> None:
    """Create the pool unless it is there."""
    if not Pool.objects.filter(name=name).exists():
        made = create_pool(name=name, actor=actor)
        assert isinstance(made, PoolRecord), made


def ensure_queue(
    *,
    name: str,
    active_pool: str,
    actor: Actor,
    rollout_stage: str = RolloutStage.CONDITIONAL_WRITES,
    **policy: int,
) -> None:
    """Create the queue unless it is there, whatever its stage and policy are by now."""
    if not Queue.objects.filter(name=name).exists():
        made = create_queue(
            name=name, active_pool=active_pool, actor=actor, rollout_stage=rollout_stage, **policy
        )
        assert isinstance(made, QueueRecord), made


def _same_or_taken(wanted: Queue) -> QueueRecord | Refusal:
    """A repeat of a creation whose answer was lost is answered; nothing stored is changed by it."""
    there = Queue.objects.get(name=wanted.name)
    same = _policy_of(there) == _policy_of(wanted) and there.rollout_stage == wanted.rollout_stage
    if same:
        return queue_record(there)
    return invalid(
        FieldError("/name", f"queue {wanted.name!r} exists with another policy; change it by PATCH")
    )


def _policy_of(queue: Queue) -> dict[str, Any]:
    return {
        field: queue.active_pool_id if field == "active_pool" else getattr(queue, field)
        for field in POLICY
    }


def _policy_faults(queue: Queue) -> list[FieldError]:
    """What the table's constraints would refuse, each by its field."""
    faults = []
    if not Pool.objects.filter(name=queue.active_pool_id).exists():
        faults.append(
            FieldError(
                "/active_pool", f"there is no pool {queue.active_pool_id!r}; create it first"
            )
        )
    if queue.default_ttl_seconds < MIN_TTL_SECONDS:
        faults.append(FieldError("/default_ttl_seconds", f"at least {MIN_TTL_SECONDS} seconds"))
    if queue.default_ttl_seconds > queue.max_ttl_seconds:
        faults.append(
            FieldError(
                "/default_ttl_seconds", f"at most max_ttl_seconds, which is {queue.max_ttl_seconds}"
            )
        )
    if queue.max_ttl_seconds > queue.max_lease_seconds:
        faults.append(
            FieldError(
                "/max_ttl_seconds", f"at most max_lease_seconds, which is {queue.max_lease_seconds}"
            )
        )
    if queue.retry_backoff_seconds > queue.retry_backoff_max_seconds:
        faults.append(
            FieldError(
                "/retry_backoff_seconds",
                f"at most retry_backoff_max_seconds, which is {queue.retry_backoff_max_seconds}",
            )
        )
    return faults


def _record(
    kind: EventKind, actor: Actor, *, data: dict[str, Any], queue_id: int | None = None
) -> None:
    at = clock_of(run_round(CLOCK)[0])
    run_round(record([Fact(kind, queue_id=queue_id, data=data)], actor=actor, at=at))
