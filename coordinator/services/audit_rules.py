"""The invariants that an audit checks, each as SQL over one batch of rows (contract 14).

A walk goes through a table by its key; its invariants look at the rows of the batch, and at
what belongs to them by an index. Each answers with the subject and what was found.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Invariant:
    """`sql` takes the keys of a batch and finds the rows that break it: (subject, detail as JSON)."""

    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class Walk:
    """`sql` takes the last key of the batch before and a size, and answers with the next keys, in order."""

    first: str
    sql: str
    invariants: tuple[Invariant, ...]


# Ordered by the columns, and not by the texts that are given under the same names: else each batch would sort all that
# is left, and numbers would come as 1, 10, 2.
_TASKS: Final = "SELECT t.task_id::text FROM coordinator_task t WHERE t.task_id > %s::uuid ORDER BY t.task_id LIMIT %s"
_EFFECTS: Final = (
    "SELECT effect_id FROM coordinator_effectslot WHERE effect_id > %s ORDER BY effect_id LIMIT %s"
)
_EVENTS: Final = (
    "SELECT e.id::text FROM coordinator_event e WHERE e.id > %s::bigint ORDER BY e.id LIMIT %s"
)

_ONE_COMMIT: Final = """
SELECT c.task_id::text, jsonb_build_object('commits', jsonb_agg(c.result_commit_id ORDER BY c.committed_at))
FROM coordinator_canonicalcommit c WHERE c.task_id = ANY(%s::uuid[]) GROUP BY c.task_id HAVING count(*) > 1
"""
_COMMIT_IS_THE_TASKS: Final = """
SELECT t.task_id::text, jsonb_build_object('state', t.state, 'names', t.result_commit_id, 'commit', c.result_commit_id)
FROM coordinator_task t LEFT JOIN coordinator_canonicalcommit c ON c.task_id = t.task_id
WHERE t.task_id = ANY(%s::uuid[])
  AND (t.state = 'COMMITTED' AND c.task_id IS NULL
       OR t.state NOT IN ('COMMITTED', 'SUPERSEDED') AND c.task_id IS NOT NULL
       OR c.task_id IS NOT NULL AND t.result_commit_id IS NULL)
"""
#: A revised parent's edges lead to its newest revision, and it is revised only while no child was ever claimed.
_RELEASED: Final = """
SELECT t.task_id::text, jsonb_build_object('state', t.state, 'parents', jsonb_agg(d.parent_id ORDER BY d.parent_id))
FROM coordinator_task t JOIN coordinator_dependency d ON d.child_id = t.task_id
WHERE t.task_id = ANY(%s::uuid[])
  AND t.state IN ('READY', 'CLAIMED', 'AWAITING_APPROVAL', 'AWAITING_RECONCILIATION', 'COMMITTED')
  AND NOT EXISTS (SELECT FROM coordinator_canonicalcommit c WHERE c.task_id = d.parent_id)
GROUP BY t.task_id, t.state
"""
_GENERATIONS: Final = """
SELECT t.task_id::text, jsonb_build_object(
         'claim_generation', t.claim_generation,
         'attempts', array_remove(array_agg(a.claim_generation ORDER BY a.claim_generation), NULL))
FROM coordinator_task t LEFT JOIN coordinator_attempt a ON a.task_id = t.task_id
WHERE t.task_id = ANY(%s::uuid[]) GROUP BY t.task_id
HAVING count(a.attempt_id) <> t.claim_generation OR count(DISTINCT a.claim_generation) <> t.claim_generation
    OR coalesce(min(a.claim_generation), 1) <> 1 OR coalesce(max(a.claim_generation), 0) <> t.claim_generation
"""
#: Each change of a task is told with the version that it gave it. Refusals tell a version and change none.
_VERSIONS: Final = """
SELECT t.task_id::text, jsonb_build_object('state_version', t.state_version, 'told', count(DISTINCT e.state_version),
                                           'from', min(e.state_version), 'to', max(e.state_version))
FROM coordinator_task t
LEFT JOIN coordinator_event e ON e.task_id = t.task_id AND e.refusal_key IS NULL AND e.state_version IS NOT NULL
WHERE t.task_id = ANY(%s::uuid[]) GROUP BY t.task_id
HAVING count(DISTINCT e.state_version) <> t.state_version OR min(e.state_version) <> 1
    OR max(e.state_version) <> t.state_version
"""
_EFFECT_HAS_PROOF: Final = """
SELECT e.effect_id, jsonb_build_object('task_id', e.task_id, 'slot', e.slot, 'receipt', e.receipt IS NOT NULL,
                                       'dispatches', count(d.dispatch_id))
FROM coordinator_effectslot e LEFT JOIN coordinator_dispatch d ON d.effect_id = e.effect_id
WHERE e.effect_id = ANY(%s::text[]) AND e.state = 'COMMITTED' GROUP BY e.effect_id
HAVING e.receipt IS NULL OR count(d.dispatch_id) = 0 OR count(d.dispatch_id) <> e.dispatches
"""
#: Whoever writes holds the queue's gate when its event takes its number, shared, and a bump holds it alone: the order
#: of the numbers is the order of the gate. What a gate tells of a call that it let through is no acceptance.
_EPOCHS: Final = """
SELECT b.id::text, jsonb_build_object('kind', b.kind, 'task_id', b.task_id, 'attempt_id', b.attempt_id,
                                      'scheduler_epoch', a.scheduler_epoch, 'bumped_to', m.epoch, 'bump', m.id)
FROM coordinator_event b JOIN coordinator_attempt a ON a.attempt_id = b.attempt_id
JOIN LATERAL (
  SELECT x.id, (x.data ->> 'to')::bigint AS epoch FROM coordinator_event x
  WHERE x.queue_id = b.queue_id AND x.kind = 'EPOCH_BUMPED' AND x.id < b.id ORDER BY x.id DESC LIMIT 1) m ON true
WHERE b.id = ANY(%s::bigint[]) AND b.actor LIKE 'worker:%%' AND b.refusal_key IS NULL
  AND (b.kind IN ('CLAIMED', 'COMMITTED', 'RELEASED', 'RETRY_SCHEDULED', 'PARKED', 'EFFECT_PREPARED', 'EFFECT_ACCEPTED')
       OR b.kind = 'STAGED' AND (b.data ->> 'canonical_candidate')::boolean)
  AND a.scheduler_epoch < m.epoch
"""

WALKS: Final = (
    Walk(
        first="00000000-0000-0000-0000-000000000000",
        sql=_TASKS,
        invariants=(
            Invariant("a task has at most one canonical commit", _ONE_COMMIT),
            Invariant("a task is COMMITTED where it has a canonical commit", _COMMIT_IS_THE_TASKS),
            Invariant("a successor is released by its parents' canonical commits", _RELEASED),
            Invariant("generations are 1, 2, 3, … one an attempt", _GENERATIONS),
            Invariant("each state version of a task is told", _VERSIONS),
        ),
    ),
    Walk(
        first="",
        sql=_EFFECTS,
        invariants=(
            Invariant("a COMMITTED effect has a dispatch and a receipt", _EFFECT_HAS_PROOF),
        ),
    ),
    Walk(
        first="0",
        sql=_EVENTS,
        invariants=(Invariant("nothing of an old epoch is accepted after its bump", _EPOCHS),),
    ),
)
