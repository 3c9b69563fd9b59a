"""Which tasks a person asks for, and how far a page looks for them (console design, 7.2).

Only some filters have an index: queue, run, ids, age, every state but COMMITTED, which most are in, and within a queue
the states that set a task aside. The others (kind, owner, node, text, attempts, epoch) change or arrive with every
task, and an index for each would be paid by every claim and commit. What they ask for is therefore sifted out of a
bounded stretch of tasks, newest first, and the page says how far back it looked (docs/adr/0019).
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet

from coordinator.canary import DRILL
from coordinator.clock import read_clock
from coordinator.models import Task
from coordinator.selectors.state_lists import has_index, in_state, order_in_state
from coordinator.selectors.tasks import queue_number
from coordinator.states import TaskState

#: One page, count or review sifts no more tasks than these.
STRETCH: Final = 50_000


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """What a person asked for; empty means any. `ids` is a range of task ids, from a prefix.

    `epochs` is the range of the queue's epochs at the task's last grant, both ends included.
    """

    state: TaskState | None = None
    queue: str = ""
    kind: str = ""
    owner: str = ""
    node: str = ""
    run_id: UUID | None = None
    ids: tuple[UUID, UUID] | None = None
    text: str = ""
    attempts_over: int | None = None
    epochs: tuple[int, int] | None = None
    older_than: timedelta | None = None
    younger_than: timedelta | None = None
    #: The same two ages as ids, which begin with the time of submission (`pinned`): not before, and before.
    first_id: UUID | None = None
    end_id: UUID | None = None

    @property
    def is_sifted(self) -> bool:
        """Whether it may lead through many tasks that it doesn't ask for. A run has a most of its own."""
        if self.run_id or self.ids:
            return False
        sieves = (self.kind, self.owner, self.node, self.text, self.epochs)
        return any(sieves) or self.attempts_over is not None

    @property
    def is_by_state(self) -> bool:
        """Whether an index of states leads to it, and to few others. A run and ids lead to fewer."""
        return has_index(self.state) and not (self.run_id or self.ids)


def pinned(wanted: TaskFilter) -> TaskFilter:
    """The filter with its ages measured now, once: pages, counts and batches of it then mean the same tasks."""
    if wanted.older_than is None and wanted.younger_than is None:
        return wanted
    now = read_clock()
    return replace(
        wanted,
        older_than=None,
        younger_than=None,
        first_id=_first_id_since(now, wanted.younger_than) or wanted.first_id,
        end_id=_first_id_since(now, wanted.older_than) or wanted.end_id,
    )


def tasks_matching(wanted: TaskFilter, *, any_state: bool = False) -> QuerySet[Task]:
    """The tasks that a `pinned` filter asks for, in no order. `any_state` leaves the state out."""
    return _indexed(wanted, any_state=any_state).filter(_sieve(wanted))


def in_order(
    rows: QuerySet[Task], wanted: TaskFilter, *, newest_first: bool = True
) -> QuerySet[Task]:
    """Tasks of a filter by their ids, which begin with the time of submission.

    Where an index of states leads to them the state stands before the id.
    """
    if wanted.is_by_state and wanted.state:
        of_queue = bool(wanted.queue)
        return rows.order_by(
            *order_in_state(wanted.state, of_queue=of_queue, newest_first=newest_first)
        )
    return rows.order_by("-task_id" if newest_first else "task_id")


def sifted_sql(wanted: TaskFilter, *, any_state: bool = False) -> tuple[str, tuple[Any, ...]]:
    """`task_id, state, queue_id, kind` of the tasks of the newest stretch that a `pinned` filter asks for, as SQL.

    One statement can then count in several stretches, none of which it leaves.
    """
    fits = ExpressionWrapper(_sieve(wanted), output_field=BooleanField())
    found = _indexed(wanted, any_state=any_state)
    found = found.order_by("-task_id") if any_state else in_order(found, wanted)
    rows = found.annotate(fits=fits)
    columns = ("task_id", "state", "queue_id", "kind", "fits")
    sql, params = rows.values_list(*columns)[:STRETCH].query.sql_with_params()
    names = ", ".join(columns)
    return f"SELECT * FROM ({sql}) AS stretch({names}) WHERE fits", params  # noqa: S608 (the ORM's own SQL)


def end_of_stretch(
    wanted: TaskFilter, *, before: UUID | None = None, after: UUID | None = None
) -> UUID | None:
    """The last task that is looked at from `before` on backwards, or from `after` on forwards.

    None where all that the filter leads through is looked at: it is not sifted, or there is no more.
    """
    if not wanted.is_sifted:
        return None
    rows = _indexed(wanted)
    if after:
        rows = rows.filter(task_id__gt=after)
    elif before:
        rows = rows.filter(task_id__lt=before)
    rows = in_order(rows, wanted, newest_first=not after)
    return rows.values_list("task_id", flat=True)[STRETCH - 1 : STRETCH].first()


def submitted_at(task_id: UUID) -> datetime:
    """When a task was submitted, by its id: good for saying how far back a page has looked."""
    return datetime.fromtimestamp((task_id.int >> 80) / 1000, UTC)


def _indexed(wanted: TaskFilter, *, any_state: bool = False) -> QuerySet[Task]:
    """What an index finds: a filter leads through these, and through no others."""
    rows = Task.objects.all()
    if wanted.run_id:
        rows = rows.filter(run__run_id=wanted.run_id)
    if wanted.queue:
        rows = rows.filter(queue=queue_number(wanted.queue))
    if wanted.is_by_state and wanted.state and not any_state:
        rows = in_state(rows, wanted.state)
    elif wanted.state and not any_state:
        rows = rows.filter(state=wanted.state)
    if wanted.ids:
        rows = rows.filter(task_id__range=wanted.ids)
    if wanted.first_id:
        rows = rows.filter(task_id__gte=wanted.first_id)
    if wanted.end_id:
        rows = rows.filter(task_id__lt=wanted.end_id)
    return rows


def _sieve(wanted: TaskFilter) -> Q:
    """What is looked at in each of them."""
    exact = {"kind": wanted.kind, "owner": wanted.owner}
    sieve = Q(**{name: value for name, value in exact.items() if value})
    if not (wanted.kind or wanted.run_id or wanted.ids):
        sieve &= ~Q(kind=DRILL)  # canaries are no work; who asks for the kind sees them
    if wanted.node:
        sieve &= Q(node_id__startswith=wanted.node)
    if wanted.text:
        sieve &= Q(node_id__icontains=wanted.text)
    if wanted.attempts_over is not None:
        sieve &= Q(attempts__gt=wanted.attempts_over)
    if wanted.epochs:
        sieve &= Q(scheduler_epoch__range=wanted.epochs)
    return sieve


def _first_id_since(now: datetime, age: timedelta | None) -> UUID | None:
    """A task's id begins with the time of its submission, so that the key itself tells its age."""
    if age is None:
        return None
    milliseconds = int((now - age).timestamp() * 1000)
    return UUID(int=max(0, milliseconds) << 80)
