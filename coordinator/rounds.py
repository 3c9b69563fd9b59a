"""Statements sent in rounds: several at once, one network round trip (performance.md).

PostgreSQL still runs them one after the other, each with a snapshot of its own, so a later
one sees what an earlier one waited for. That is what contract 4 asks of the gate, the epoch
and the clock.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Final

from django.db import connection
from django.db.models import QuerySet

from coordinator import pipeline, tracing
from coordinator.fence import Point
from coordinator.pipeline import Statement

__all__ = ["LockStatement", "Statement", "close_with_round", "name_point", "run_round", "sent"]

#: Tests put a list here to see which statements a service sends.
sent: ContextVar[list[list[str]] | None] = ContextVar("sent", default=None)


def run_round(*statements: Statement) -> list[list[tuple[Any, ...]]]:
    """Send the statements together inside the open transaction; the rows of each, in order."""
    if not connection.in_atomic_block:
        raise RuntimeError("a round of statements belongs into a transaction")
    log = sent.get()
    if log is not None:
        log.append([statement.sql for statement in statements])
    connection.ensure_connection()
    if not tracing.is_on():
        return _run(statements)
    told = tracing.told_of_round([statement.sql for statement in statements])
    with tracing.span("sql round", **told):
        return _run(statements)


def _run(statements: Sequence[Statement]) -> list[list[tuple[Any, ...]]]:
    with connection.wrap_database_errors:
        return pipeline.run(connection.connection, statements)


_COMMIT = Statement("COMMIT")


def close_with_round(
    *statements: Statement, afterwards: Sequence[Statement] = ()
) -> list[list[tuple[Any, ...]]]:
    """The last round of a transaction: its COMMIT travels along, and saves a round trip.

    So do the looks that are due once it has committed; their rows come after those of
    `statements`. Nothing else may follow. Where another transaction surrounds this one, that
    one commits.
    """
    alone = len(connection.atomic_blocks) == 1 and not connection.needs_rollback
    commit = [_COMMIT] if alone else []
    rows = run_round(*statements, *commit, *afterwards)
    return rows[: len(statements)] + rows[len(statements) + len(commit) :]


def name_point(point: str, *, by_id: bool = False) -> Statement:
    """First in each writing transaction: the database refuses protected writes that name no point (contract 16).

    What is no acceptance point (a person's or the system's act: cancel, bump, sweep …) says
    so, and its writes are counted apart: no guard passes them (contract 14).

    `by_id` says that each statement of the transaction finds its rows by id or by an index that
    its text alone names. Its plan is then kept for good instead of being made anew for each
    array that is passed, which took a third of a claim's and a commit's time in PostgreSQL. A plan
    that is made while a table is small, or before its statistics are, would read it from end to end
    for as long as it is kept: such a transaction has no sequential scans, its plans are made anew as tables grow
    (`pipeline.Plans`), and an UPDATE that joins arrays names its ids once more (`= ANY`), so that no join
    begins with the whole table.
    """
    is_act = point not in _ACCEPTANCE_POINTS
    return Statement(_NAMING[is_act, by_id], (point,))


_ACCEPTANCE_POINTS: Final = frozenset(Point)
_NAME: Final = "SELECT set_config('tenure.point', %s, true)"
#: Said each time: what another point of the same transaction has said does not stand.
_AS_ACT: Final = {
    True: ", set_config('tenure.act', 'yes', true)",
    False: ", set_config('tenure.act', '', true)",
}
_BY_ID: Final = "".join(
    f", set_config('{name}', '{value}', true)"
    for name, value in {
        "plan_cache_mode": "force_generic_plan",
        "enable_seqscan": "off",
    }.items()
)
_NAMING: Final = {
    (is_act, by_id): _NAME + _AS_ACT[is_act] + _BY_ID * by_id
    for is_act in (False, True)
    for by_id in (False, True)
}


class LockStatement:
    """A `select_for_update` query of the ORM, compiled once and prepared by the server.

    `params` are given in the order in which they stand in the query that `build` returns.
    """

    def __init__(self, build: Callable[[], QuerySet[Any, Any]]) -> None:
        self._build = build
        self._sql: str | None = None

    def __call__(self, *params: Any) -> Statement:
        if self._sql is None:
            self._sql = str(self._build().query.get_compiler("default").as_sql()[0])
        return Statement(self._sql, params)
