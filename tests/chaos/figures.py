"""What really happened in a run: a run in which nothing went wrong has shown nothing, and fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.chaos.observations import Seen
from tests.chaos.rig import Rig

#: Outcomes, and races that really overlapped, that a run must have had: each so often as asked for.
OUTCOMES = (
    "tasks committed",
    "calls fenced",
    "tasks cancelled",
    "effects committed",
    "effects unknown",
)
RACES = (
    "take-overs",
    "commits after a take-over",
    "old requests delivered again",
    "lost answers reconciled",
    "cancels of a held task",
    "attempts ended by a bump",
)

_COUNTS = """
SELECT 'tasks committed', count(*) FROM coordinator_task WHERE state = 'COMMITTED'
UNION ALL SELECT 'tasks cancelled', count(*) FROM coordinator_task WHERE state = 'CANCELLED'
UNION ALL SELECT 'effects committed', count(*) FROM coordinator_effectslot WHERE state = 'COMMITTED'
UNION ALL SELECT 'effects unknown', count(*) FROM coordinator_event WHERE kind = 'EFFECT_UNKNOWN'
UNION ALL SELECT 'take-overs', count(*) FROM coordinator_attempt o WHERE o.end_reason = 'LEASE_EXPIRED'
  AND EXISTS (SELECT FROM coordinator_attempt n WHERE n.task_id = o.task_id
              AND n.claim_generation > o.claim_generation)
UNION ALL SELECT 'attempts ended by a bump', count(*) FROM coordinator_attempt WHERE end_reason = 'EPOCH_BUMP'
UNION ALL SELECT 'cancels of a held task', count(*) FROM coordinator_attempt WHERE state = 'CANCELLED'
UNION ALL SELECT 'lost answers reconciled', count(*) FROM coordinator_effectslot
  WHERE verdict IS NOT NULL AND state IN ('COMMITTED', 'PREPARED', 'VOID')
UNION ALL SELECT 'attempts', count(*) FROM coordinator_attempt
UNION ALL SELECT 'tasks', count(*) FROM coordinator_task
"""


def count(rig: Rig, seen: Sequence[Seen]) -> Counter[str]:
    found: Counter[str] = Counter(dict(rig.rows(_COUNTS)))
    for each in seen:
        is_proxy = each.client.startswith("proxy-")
        if is_proxy and each.status is not None:
            found["old requests delivered again"] += 1
        for answer in _answers(each):
            if answer.get("outcome") == "FENCED":
                found["calls fenced"] += 1
                if "/commit" in each.path:
                    found["commits after a take-over"] += 1
    return found


def _answers(seen: Seen) -> list[dict[str, object]]:
    if not isinstance(seen.answer, dict):
        return []
    results = seen.answer.get("results")
    if isinstance(results, list) and seen.path.endswith(("/commits", "/renewals")):
        return results
    return [seen.answer]


def too_few(found: Counter[str], *, outcomes: int, races: int) -> list[str]:
    """What did not happen often enough to have shown anything."""
    wanted = dict.fromkeys(OUTCOMES, outcomes) | dict.fromkeys(RACES, races)
    return [
        f"{name}: {found[name]}, and {least} are needed"
        for name, least in wanted.items()
        if found[name] < least
    ]
