"""Which tasks a claim may take, in which order, locked as they are found (contract 7)."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from django.db.models import BooleanField, DateTimeField, F, Func, Q
from django.db.models.expressions import RawSQL

from coordinator.canary import DRILL
from coordinator.fence import TaskRow
from coordinator.intake_shares import place_sql
from coordinator.models import Task
from coordinator.rounds import LockStatement, Statement, run_round
from coordinator.states import RolloutStage

from .locking import QueueRow

MAX_CLAIMS: Final = 100


class ClockTimestamp(Func):
    function = "clock_timestamp"
    output_field = DateTimeField()


#: A mate that holds the key and whose lease has not lapsed. Judged again under the key's lock.
_SERIAL_FREE: Final = (
    "serial_scope_id IS NULL OR NOT EXISTS (SELECT 1 FROM coordinator_task m"
    " WHERE m.serial_scope_id = coordinator_task.serial_scope_id AND m.serial_held"
    " AND m.task_id <> coordinator_task.task_id"
    " AND NOT (m.state = 'CLAIMED' AND m.lease_expires_at <= clock_timestamp()))"
)


_NO_CANARY: Final = f"kind <> '{DRILL}'"


@lru_cache(maxsize=8 * MAX_CLAIMS)
def _candidate_statement(
    limit: int, of_kinds: bool, read_only: bool, in_part: bool
) -> LockStatement:
    def where(sql: str, params: int = 0) -> RawSQL:
        return RawSQL(sql, [[]] * params, output_field=BooleanField())  # noqa: S611 (constants of ours)

    chosen = Q(queue_id=0, claimable_at__isnull=False, claimable_at__lte=ClockTimestamp())
    conditions = [where("kind = ANY(%s::text[])", 1)] if of_kinds else []
    conditions += [where("replay = 'READ_ONLY'")] if read_only else []
    conditions += [where(f"{place_sql('task_id')} < %s::int", 1)] if in_part else []
    return LockStatement(
        lambda: (
            Task.objects.filter(chosen, *conditions, where(_NO_CANARY), where(_SERIAL_FREE))
            .order_by(F("priority").desc(), "claimable_at")
            .select_for_update(skip_locked=True, of=("self",))
            .values_list(*TaskRow._fields)[:limit]
        )
    )


def candidates(
    queue_id: int,
    kinds: Sequence[str] | None,
    limit: int,
    *,
    read_only: bool = False,
    share: int = 0,
) -> Statement:
    """`share`: only what a canary of so many per cent lets in; 0 where there is none."""
    statement = _candidate_statement(limit, kinds is not None, read_only, share > 0)
    params: list[object] = [queue_id]
    params += [list(kinds)] if kinds is not None else []
    params += [share] if share else []
    return statement(*params)


def in_its_order(candidates: Statement) -> tuple[Statement, Statement, Statement]:
    """The statement between two that keep its plan to the index that has the order.

    Without statistics, or with those of an idle hour, the planner takes the claimable tasks for few and
    sorts them: every claim would then read all of them.
    """
    return _NO_SORT, candidates, _SORT


_NO_SORT: Final = Statement("SELECT set_config('enable_sort', 'off', true)")
_SORT: Final = Statement("SELECT set_config('enable_sort', 'on', true)")


def offered(row: QueueRow, kinds: Sequence[str] | None, limit: int) -> list[TaskRow]:
    """The tasks that IDEMPOTENT_READS allows (contract 13), and of a canary those that it lets in."""
    read_only = row.rollout_stage == RolloutStage.IDEMPOTENT_READS
    wanted = candidates(row.id, kinds, limit, read_only=read_only, share=row.intake_share)
    _, rows, _ = run_round(*in_its_order(wanted))
    return [TaskRow._make(each) for each in rows]
