"""What the guard passed, shown to the database before it is written (contract 14).

The triggers that count the writes at an acceptance point compare each row with it. A check
that was forgotten has made no verdict, and so has nothing to show.
"""

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from coordinator.fence import IsCurrent
from coordinator.pipeline import Statement

#: The parameters are array literals already, and a setting is text: nothing is parsed here.
_PRESENT: Final = (
    "SELECT set_config('tenure.passed', %s, true), set_config('tenure.heard', %s, true)"
)


def present(passed: Sequence[IsCurrent], heard: Iterable[UUID] = ()) -> Statement:
    """First in a writing round: the tasks whose caller is current, and those whose caller was refused.

    Of a refused call only its record may be written: the attempt's mark and usage, evidence,
    an isolated result (contract 3).
    """
    return Statement(_PRESENT, ([verdict.task_id for verdict in passed], list(heard)))
