"""The canonical commit: the one accepted result of a task (contract 7).

In one transaction: the commit itself, the task COMMITTED, its children counted down and the
last ones released, memory written, events. Only the accepted items of a batch are written.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from coordinator.actors import Actor, Worker
from coordinator.fence import Call, Fence, IsRepeat, Point, TaskRow
from coordinator.ids import new_ids
from coordinator.outcomes import FieldError, Refusal, invalid
from coordinator.rounds import Statement
from coordinator.shadow.lanes import is_rehearsal
from coordinator.states import AttemptState, TaskState

from . import hints, settlements
from .commit_writes import Accepted, children_writes, commit_writes
from .confirming import confirm
from .effect_books import EffectBook
from .events import EventKind, task_fact
from .hearings import Hearing, call_digest, open_hearing
from .memory import MemoryBook, MemoryWrite, memory_locks
from .results import NO_RESULT, Offered, find_offered, offered_result, stored_result
from .transactions import in_transaction
from .usage import Usage


@dataclass(frozen=True, slots=True)
class CommitItem:
    """One commit call. `result` is a JSON value, `{"blob": name}`, or NO_RESULT where it was staged before.

    `asked_by`: whose call it is, where several callers' are heard together.
    """

    attempt_id: UUID
    fence: Fence
    input_digest: str
    result_digest: str | None = None
    result: Any = NO_RESULT
    memory: tuple[MemoryWrite, ...] = ()
    usage: Usage | None = None
    asked_by: Actor | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    result_commit_id: UUID
    released: list[str] = field(default_factory=list)
    replayed: bool = False
    outcome: str = "COMMITTED"


def commit_results(
    *, items: Sequence[CommitItem], worker: Worker, queue: str | None = None
) -> list[Committed | Refusal]:
    """Commit each item, or refuse it, in order; one bad item never spoils another.

    Outcomes: COMMITTED, FENCED, STALE_INPUT, CANCELLED; besides RECONCILE_FIRST and
    MEMORY_CONFLICT (the attempt is still current), ALREADY_COMMITTED, INVALID, NOT_FOUND,
    FORBIDDEN. A repeat of the very commit is answered again with `replayed`. Runs are settled
    and waiting workers hinted after the transaction.
    """
    checked = [_checked(item) for item in items]
    good = [item for item in checked if isinstance(item, _Checked)]
    if good:
        outcomes, standing = _commit(good, worker=worker, queue=queue)
    else:
        outcomes, standing = [], []
        confirm(worker)
    heard = iter(outcomes)
    answers: list[Committed | Refusal] = []
    accepted: list[Accepted] = []
    for item in checked:
        answer = item if isinstance(item, Refusal) else next(heard)
        if isinstance(answer, Accepted):
            accepted.append(answer)
            answers.append(Committed(answer.result_commit_id, answer.released))
        else:
            answers.append(answer)
    for queue_id in {each.task.queue_id for each in accepted if each.released}:
        hints.notify(queue_id)
    settlements.settle_standing(standing)
    return answers


@dataclass(frozen=True, slots=True)
class _Checked:
    """An item whose own fields agree with each other; `offered` is its result, if it came inline."""

    item: CommitItem
    offered: Offered | None
    digest: str


def _checked(item: CommitItem) -> "_Checked | Refusal":
    offered = offered_result(item.result, item.result_digest)
    if isinstance(offered, Refusal):
        return offered
    if offered is None:
        named = item.result_digest
    else:  # a blob never changes, so that its name stands for its bytes
        named = f"blob:{offered.blob_name}" if offered.blob_name is not None else offered.digest
    if named is None:
        return invalid(
            FieldError("/result_digest", "Name the digest of a staged result, or send `result`.")
        )
    names = [(write.namespace, write.key) for write in item.memory]
    if len(set(names)) != len(names):
        return invalid(FieldError("/memory", "A key is written twice; write each key once."))
    memory = [
        (write.namespace, write.key, write.expected_version, write.value_digest)
        for write in item.memory
    ]
    return _Checked(
        item, offered, call_digest(Point.COMMIT, [item.input_digest, named, sorted(memory)])
    )


@in_transaction
def _commit(
    items: Sequence[_Checked], *, worker: Worker, queue: str | None
) -> tuple[list[Accepted | Committed | Refusal], list[tuple[Any, ...]]]:
    """What each item came to, and the runs in which nothing can move any more."""
    hearing = open_hearing(
        Point.COMMIT,
        [(each.item.attempt_id, each.item.fence) for each in items],
        worker=worker,
        with_children=True,
        extra=[
            _edges([each.item.fence.task_id for each in items]),
            *find_offered([each.item.attempt_id for each in items if not _is_inline(each.offered)]),
            *memory_locks([write for each in items for write in each.item.memory]),
        ],
    )
    edges, *others = hearing.extra
    stored = others.pop(0) if any(not _is_inline(each.offered) for each in items) else []
    children: dict[UUID, list[UUID]] = {}
    for parent, child in edges:
        children.setdefault(parent, []).append(child)
    bench = _Bench(
        hearing,
        queue,
        stored,
        MemoryBook.of(others),
        _Release(hearing, children),
        iter(new_ids(len(items))),
    )
    bench.effects = EffectBook.of(
        [
            hearing.tasks[each.item.fence.task_id]
            for each in items
            if each.item.fence.task_id in hearing.tasks
        ]
    )
    answers = []
    for each in items:
        begin = len(hearing.facts)
        answers.append(_hear(bench, each))
        hearing.attribute(begin, each.item.asked_by)
    accepted = [answer for answer in answers if isinstance(answer, Accepted)]
    # What released nothing may have been the last that could move.
    ended = {each.task.run_id for each in accepted if not each.released}
    standing = hearing.write_and_close(
        *commit_writes(accepted, hearing.clock, bench.book),
        *_void(bench, items, accepted),
        *children_writes(bench.release.counted, hearing.clock),
        look=settlements.look_for_standing(ended) if ended else None,
    )
    return answers, standing


def _void(
    bench: "_Bench", items: Sequence[_Checked], accepted: Sequence[Accepted]
) -> list[Statement]:
    """Effects that were prepared and not sent, of the tasks that are committed now."""
    hearing = bench.hearing
    begin = len(hearing.facts)
    statements = bench.effects.void([each.task for each in accepted], hearing.clock, hearing.facts)
    asked_by = {each.item.fence.task_id: each.item.asked_by for each in items}
    hearing.facts[begin:] = [
        replace(fact, asked_by=asked_by[fact.task_id]) if fact.task_id in asked_by else fact
        for fact in hearing.facts[begin:]
    ]
    return statements


@dataclass(slots=True)
class _Bench:
    """What the items of one batch are judged by."""

    hearing: Hearing
    queue: str | None
    stored: list[tuple[Any, ...]]
    book: MemoryBook
    release: "_Release"
    ids: Iterator[UUID]
    effects: EffectBook = field(default_factory=EffectBook)


def _hear(bench: _Bench, checked: _Checked) -> Accepted | Committed | Refusal:
    hearing = bench.hearing
    item = checked.item
    call = Call(Point.COMMIT, item.fence, hearing.worker.id, checked.digest, item.input_digest)
    verdict = hearing.judge(call, item.attempt_id, queue=bench.queue, usage=item.usage)
    if isinstance(verdict, Refusal):
        return verdict
    if isinstance(verdict, IsRepeat):
        answer = verdict.answer
        return Committed(UUID(answer["result_commit_id"]), answer["released"], replayed=True)
    task, attempt = hearing.tasks[item.fence.task_id], hearing.attempts[item.attempt_id]
    offered = checked.offered
    if offered is None or offered.blob_name is not None:
        found = stored_result(
            bench.stored,
            item.attempt_id,
            offered.blob_name if offered else None,
            item.result_digest,
        )
        if isinstance(found, Refusal):
            return found
        offered = found
    refusal = bench.effects.reconcile_first(task) or bench.book.conflict(item.memory)
    if refusal is not None:
        return hearing.refuse(refusal, item.fence, task, attempt)
    return _accept(bench, checked, offered)


def _accept(bench: _Bench, checked: _Checked, offered: Offered) -> Accepted:
    hearing, item = bench.hearing, checked.item
    task, attempt = hearing.tasks[item.fence.task_id], hearing.attempts[item.attempt_id]
    accepted = Accepted(
        task=task,
        attempt=attempt,
        result_commit_id=next(bench.ids),
        offered=offered,
        released=bench.release.children_of(task.task_id),
        digest=checked.digest,
    )
    rehearsed = is_rehearsal(hearing.queues[task.queue_id].name)
    if not rehearsed:
        bench.book.take(item.memory, accepted.result_commit_id)
    # A later item of this batch for the same task is judged by what this one has done.
    hearing.tasks[task.task_id] = task._replace(
        state=TaskState.COMMITTED,
        state_version=task.state_version + 1,
        result_commit_id=accepted.result_commit_id,
    )
    hearing.attempts[item.attempt_id] = attempt._replace(
        state=AttemptState.COMMITTED, end_call=checked.digest, end_answer=accepted.answer
    )
    hearing.facts.append(
        task_fact(
            EventKind.COMMITTED,
            task,
            attempt_id=attempt.attempt_id,
            result_commit_id=accepted.result_commit_id,
            result_digest=offered.digest,
            claim_generation=task.claim_generation,
            scheduler_epoch=task.scheduler_epoch,
            released=accepted.released[:MAX_NAMED],
            would_write=[_would_write(write) for write in item.memory] if rehearsed else None,
        )
    )
    return accepted


def _would_write(write: MemoryWrite) -> dict[str, Any]:
    """Of a rehearsal's commit, which leaves shared memory as it is (contract 13)."""
    return {
        "namespace": write.namespace,
        "key": write.key,
        "expected_version": write.expected_version,
        "value_digest": write.value_digest,
    }


def _is_inline(offered: Offered | None) -> bool:
    return offered is not None and offered.blob_name is None


#: So many released nodes stand by name in an event; the answer names all.
MAX_NAMED: Final = 100


@dataclass(slots=True)
class _Release:
    """Counts children down, in any state; only a BLOCKED one is released, by its last parent."""

    hearing: Hearing
    edges: dict[UUID, list[UUID]]
    counted: dict[UUID, tuple[int, bool]] = field(default_factory=dict)

    def children_of(self, parent: UUID) -> list[str]:
        released = []
        for child_id in self.edges.get(parent, ()):
            child = self.hearing.tasks[child_id]
            pending = child.pending_dependencies - 1
            opens = pending == 0 and child.state == TaskState.BLOCKED
            count, _ = self.counted.get(child_id, (0, False))
            self.counted[child_id] = (count + 1, opens)
            self.hearing.tasks[child_id] = self._counted_down(child, pending, opens)
            if opens:
                released.append(child.node_id)
                self.hearing.facts.append(task_fact(EventKind.UNBLOCKED, child, parent=parent))
        return released

    def _counted_down(self, child: TaskRow, pending: int, opens: bool) -> TaskRow:
        if not opens:
            return child._replace(pending_dependencies=pending)
        return child._replace(
            pending_dependencies=pending,
            state=TaskState.READY,
            state_version=child.state_version + 1,
        )


def _edges(task_ids: Sequence[UUID]) -> Statement:
    return Statement(
        "SELECT parent_id, child_id FROM coordinator_dependency WHERE parent_id = ANY(%s::uuid[])"
        " ORDER BY parent_id, child_id",
        (list(task_ids),),
    )
