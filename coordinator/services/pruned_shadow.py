"""Old rounds of the shadow on which both sides agreed, taken away with their events (contract 13).

A mismatch is never taken away: it stands in the gate's way until a person explains it, and in its history after that.
An open round is not old. What comes for a task whose rounds have gone is judged as if it were new.
"""

from typing import Final

from django.conf import settings

from coordinator.rounds import Statement, name_point, run_round

from .prune_cursors import Batch
from .transactions import in_transaction

#: Rounds of one transaction, each with its events.
BATCH: Final = 500

_DUE: Final = (
    "verdict = 'AGREE' AND settled_at < clock_timestamp() - make_interval(days => %s)"
    " AND settled_at IS NOT NULL"
)
_TAKE: Final = f"""
WITH gone AS (
  DELETE FROM coordinator_shadowround WHERE round_id = ANY (ARRAY(
    SELECT round_id FROM coordinator_shadowround WHERE {_DUE} LIMIT %s FOR UPDATE SKIP LOCKED))
  RETURNING round_id),
events AS (DELETE FROM coordinator_shadowevent WHERE round_id = ANY (ARRAY(SELECT round_id FROM gone)))
SELECT count(*) FROM gone
"""  # noqa: S608 (constants of ours)
_COUNT: Final = (
    f"SELECT count(*) FROM (SELECT 1 FROM coordinator_shadowround WHERE {_DUE} LIMIT %s) due"  # noqa: S608
)


@in_transaction
def prune_shadow() -> Batch:
    """One batch of rounds. None where TENURE_KEEP_SHADOW_DAYS is 0."""
    if not settings.KEEP_SHADOW_DAYS:
        return Batch(0, more=False)
    _, ((taken,),) = run_round(
        name_point("prune", by_id=True), Statement(_TAKE, (settings.KEEP_SHADOW_DAYS, BATCH))
    )
    return Batch(taken, more=taken > 0)


@in_transaction
def count_shadow(most: int) -> int:
    """How many rounds are due, up to `most`."""
    if not settings.KEEP_SHADOW_DAYS:
        return 0
    (((due,),),) = run_round(Statement(_COUNT, (settings.KEEP_SHADOW_DAYS, most)))
    return int(due)
