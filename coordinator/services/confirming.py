"""A round of statements for a caller who was looked up before this transaction, or is confirmed by it."""

from typing import Any

from coordinator.actors import Worker
from coordinator.rounds import Statement, run_round

from .transactions import in_transaction


def run_round_for(worker: Worker, *statements: Statement) -> list[list[tuple[Any, ...]]]:
    """The rows of each statement. The credential of a remembered caller is read last, with all locks held.

    Raises CallerChanged where it does not stand any more: the transaction is rolled back.
    """
    if worker.standing is None:
        return run_round(*statements)
    *rows, told = run_round(*statements, worker.standing.read())
    worker.standing.confirm(told)
    return rows


@in_transaction
def confirm(worker: Worker) -> None:
    """For a call that comes to nothing before it locks anything."""
    if worker.standing is not None:
        run_round_for(worker)
