"""Worlds for tests: a queue, a fleet, a run, a claim; rows moved in time; rivals that really wait.

Plain functions, keyword-only. They go through the services wherever there is one, and
assert that it granted what was asked. Everything needs a database with real commits:
`@pytest.mark.django_db(transaction=True)`.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar
from uuid import UUID

import psycopg
from django.db import connection, transaction
from uuid_utils.compat import uuid7

from coordinator import digests
from coordinator.actors import Actor, ActorKind, Worker
from coordinator.models import Credential, Downstream, Pool, Queue, Run, Task
from coordinator.outcomes import Refusal
from coordinator.services.claims import claim_task, claim_tasks
from coordinator.services.commits import CommitItem, Committed, commit_results
from coordinator.services.grants import Claim
from coordinator.services.results import Staged, stage_result
from coordinator.services.runs import NodeSpec, Submitted, submit_run

T = TypeVar("T")

#: Longer than any lease of a test.
AN_HOUR = 3600


# --- who and where ---------------------------------------------------------------------------


def pool(*, name: str = "blue", min_contract: str = "claim.v1") -> Pool:
    return Pool.objects.get_or_create(name=name, defaults={"min_contract": min_contract})[0]


def queue(*, name: str = "q", pool_name: str = "blue", **policy: Any) -> Queue:
    """A queue and its active pool; `policy` are fields of the model (max_attempts=1, …)."""
    pool(name=pool_name)
    return Queue.objects.create(name=name, active_pool_id=pool_name, **policy)


def downstream(*, name: str, guarantee: str, **fields: Any) -> Downstream:
    return Downstream.objects.create(name=name, kind="http", guarantee=guarantee, **fields)


def worker(
    *,
    name: str = "fleet-1",
    pool_name: str = "blue",
    queues: Sequence[str] = ("q",),
    scopes: Sequence[str] = ("work", "submit"),
) -> Worker:
    """A worker's credential as an actor. Two calls make two credentials."""
    made = Credential.objects.create(
        credential_id=uuid7(),
        name=name,
        pool=pool(name=pool_name),
        queues=list(queues),
        scopes=list(scopes),
        prefix=uuid7().hex,
        token_sha256=uuid7().bytes * 2,
        created_by="operator:test",
    )
    return Worker(
        kind=ActorKind.WORKER,
        name=name,
        id=made.pk,
        pool=pool_name,
        queues=frozenset(queues),
        scopes=frozenset(scopes),
        contract="claim.v1",
    )


def operator(*, name: str = "alice") -> Actor:
    return Actor(ActorKind.OPERATOR, name, id=1)


# --- work ------------------------------------------------------------------------------------


def node(
    node_id: str,
    *depends_on: str,
    kind: str = "step",
    input: Any = None,  # noqa: A002 - the contract's word
    **fields: Any,
) -> NodeSpec:
    """A node that depends on the named ones: `node("c", "a", "b")`. Its input names it, unless given."""
    return NodeSpec(
        node_id=node_id,
        kind=kind,
        input={"node": node_id} if input is None else input,
        depends_on=depends_on,
        **fields,
    )


def submit(
    *nodes: NodeSpec, queue_name: str = "q", name: str = "run", actor: Actor | None = None
) -> Submitted:
    """A run of these nodes, or of the single node `a`."""
    answer = submit_run(
        queue=queue_name,
        name=name,
        metadata={},
        nodes=nodes or (node("a"),),
        actor=actor or operator(),
    )
    assert isinstance(answer, Submitted), answer
    return answer


def task_id(run: Submitted, node_id: str) -> UUID:
    """The first revision of a node."""
    return next(task.task_id for task in run.tasks if task.node_id == node_id)


def task(of: UUID) -> Task:
    return Task.objects.get(task_id=of)


def current(run: Submitted, node_id: str) -> Task:
    """The newest revision of a node."""
    return Task.objects.filter(run__run_id=run.run_id, node_id=node_id).order_by("revision").last()  # type: ignore[return-value]


def run_row(run: Submitted) -> Run:
    return Run.objects.get(run_id=run.run_id)


def epoch(queue_name: str = "q") -> int:
    return Queue.objects.values_list("scheduler_epoch", flat=True).get(name=queue_name)


def claim(
    *,
    by: Worker,
    queue_name: str = "q",
    owner: str = "worker-1",
    ttl_seconds: int | None = 60,
    limit: int = 1,
    kinds: Sequence[str] | None = None,
) -> list[Claim]:
    """The next tasks of a queue under its current epoch; an empty list where there is nothing."""
    answer = claim_tasks(
        queue=queue_name,
        worker=by,
        scheduler_epoch=epoch(queue_name),
        owner=owner,
        ttl_seconds=ttl_seconds,
        limit=limit,
        kinds=kinds,
    )
    assert not isinstance(answer, Refusal), answer
    return answer.claims


def claim_one(
    *,
    by: Worker,
    of: UUID | None = None,
    queue_name: str = "q",
    owner: str = "worker-1",
    ttl_seconds: int = 60,
) -> Claim:
    """One claim: of the named task as it stands, or of the next one of the queue."""
    if of is None:
        (claimed,) = claim(by=by, queue_name=queue_name, owner=owner, ttl_seconds=ttl_seconds)
        return claimed
    answer = claim_task(
        task_id=of,
        expected_state_version=task(of).state_version,
        scheduler_epoch=epoch(queue_name),
        owner=owner,
        ttl_seconds=ttl_seconds,
        worker=by,
    )
    assert isinstance(answer, Claim), answer
    return answer


def commit_item(claimed: Claim, *, result: Any = None) -> CommitItem:
    """A commit of this claim, as an SDK sends it. The result says whose it is, unless given."""
    value = {"by": str(claimed.fence.attempt_id)} if result is None else result
    return CommitItem(
        attempt_id=claimed.fence.attempt_id,
        fence=claimed.fence,
        input_digest=claimed.input_digest,
        result_digest=digests.sha256(digests.canonical(value)),
        result=value,
    )


def try_commit(claimed: Claim, *, by: Worker, result: Any = None) -> Committed | Refusal:
    (answer,) = commit_results(items=[commit_item(claimed, result=result)], worker=by, queue=None)
    return answer


def commit(claimed: Claim, *, by: Worker, result: Any = None) -> Committed:
    answer = try_commit(claimed, by=by, result=result)
    assert isinstance(answer, Committed), answer
    return answer


def stage(claimed: Claim, *, by: Worker, result: Any = None) -> Staged:
    """Put a result aside for this attempt; it says whose it is, unless given."""
    value = {"staged by": str(claimed.fence.attempt_id)} if result is None else result
    answer = stage_result(
        attempt_id=claimed.fence.attempt_id, fence=claimed.fence, result=value, worker=by
    )
    assert isinstance(answer, Staged), answer
    return answer


def finish(of: UUID, *, by: Worker, result: Any = None) -> Committed:
    """Claim the named task and commit it."""
    return commit(claim_one(by=by, of=of), by=by, result=result)


# --- rows moved in time, rows compared ---------------------------------------------------------


@contextmanager
def guarded(point: str = "test") -> Iterator[None]:
    """A transaction in which protected tables may be written by hand: an act, unless it poses as another point."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('tenure.point', %s, true)", [point])
        if point in ("test", "prune"):
            cursor.execute("SELECT set_config('tenure.act', 'yes', true)")
        yield


def lapse(of: UUID, *, seconds_ago: float = 1) -> None:
    """Let the task's lease have run out `seconds_ago`. Nobody sleeps."""
    with guarded(), connection.cursor() as cursor:
        for table in ("task", "attempt"):
            cursor.execute(
                f"UPDATE coordinator_{table} SET lease_expires_at = clock_timestamp() - make_interval(secs => %s)"
                " WHERE attempt_id = (SELECT attempt_id FROM coordinator_task WHERE task_id = %s)",
                [seconds_ago, of],
            )


def make_due(of: UUID) -> None:
    """Let the task's `not_before` (a backoff, or its own) have passed."""
    with guarded(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE coordinator_task SET not_before = clock_timestamp() - interval '1 second',"
            " claimable_at = CASE WHEN state = 'READY' THEN clock_timestamp() - interval '1 second' END"
            " WHERE task_id = %s",
            [of],
        )


#: What a refusal must leave byte-identical: everything but the audit lines themselves.
FACT_TABLES = (
    "queue",
    "run",
    "task",
    "dependency",
    "serialscope",
    "attempt",
    "stagedresult",
    "blob",
    "canonicalcommit",
    "memorykey",
    "memoryfact",
    "effectslot",
    "dispatch",
    "lookup",
    "approval",
    "decision",
    "incident",
    "incidentqueue",
    "incidentstep",
    "incidentcanary",
    "incidenthold",
    "incidenteffect",
    "candidatedecision",
    "promotionrequest",
)


def fingerprint(*tables: str) -> str:
    """A hash over all rows of these tables (by default FACT_TABLES): equal before and after a refusal."""
    state = hashlib.sha256()
    with connection.cursor() as cursor:
        for table in tables or FACT_TABLES:
            cursor.execute(f"SELECT t::text FROM coordinator_{table} t ORDER BY 1")
            state.update(repr((table, cursor.fetchall())).encode())
    return state.hexdigest()


# --- races --------------------------------------------------------------------------------------


#: Who stands in line for a lock would lose its place after the product's two seconds, which a busy machine takes.
UNHURRIED = "SET lock_timeout = '50s'; SET statement_timeout = '60s'; SET idle_in_transaction_session_timeout = '60s'"


class Rival(Generic[T]):
    """A call in a thread and a database connection of its own, that waits for as long as it must. `pid` is its."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._result: list[T] = []
        self._error: list[BaseException] = []
        self._pid: list[int] = []
        self._known = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._known.wait(30), "the rival got no connection"

    def _run(self) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute(UNHURRIED)  # until the pool gets it back
                cursor.execute("SELECT pg_backend_pid()")
                self._pid.append(cursor.fetchall()[0][0])
            self._known.set()
            self._result.append(self._call())
        except BaseException as error:  # noqa: BLE001 - told to whoever asks for the result
            self._error.append(error)
        finally:
            self._known.set()
            connection.close()

    @property
    def pid(self) -> int:
        return self._pid[0]

    def result(self) -> T:
        """What the call answered; raises what it raised."""
        self._thread.join(60)
        assert not self._thread.is_alive(), "the rival is still waiting"
        if self._error:
            raise self._error[0]
        return self._result[0]


class Holder:
    """A connection of its own that holds locks until `release`."""

    def __init__(self) -> None:
        parameters = {
            key: value for key, value in connection.get_connection_params().items() if key != "pool"
        }
        wanted = ("host", "port", "user", "password", "dbname")
        self._connection = psycopg.connect(
            **{key: parameters[key] for key in wanted if parameters.get(key)}
        )
        self._connection.execute("SET idle_in_transaction_session_timeout = 0")
        self.pid = self._connection.info.backend_pid

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        cursor = self._connection.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else []

    def release(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        """The locks are gone when this returns; closing alone would leave them to a server process that ends later."""
        with suppress(psycopg.OperationalError):  # it was ended by the test
            self.release()
        self._connection.close()


@contextmanager
def holding(sql: str, parameters: Sequence[Any] = ()) -> Iterator[Holder]:
    """Hold what `sql` locks: `holding("SELECT … FOR UPDATE", [...])`. Released at the end, or by `release`."""
    holder = Holder()
    try:
        holder.execute(sql, parameters)
        yield holder
    finally:
        holder.close()


@contextmanager
def holding_task(of: UUID) -> Iterator[Holder]:
    """Hold a task's row, so that rivals line up behind it."""
    with holding("SELECT 1 FROM coordinator_task WHERE task_id = %s FOR UPDATE", [of]) as holder:
        yield holder


def wait_until_blocked(*pids: int, by: int | None = None) -> None:
    """Until PostgreSQL itself says that each of these connections waits for a lock (and, for `by`, for whom)."""
    deadline = time.monotonic() + 30
    waiting = set(pids)
    while waiting:
        assert time.monotonic() < deadline, f"never blocked: {sorted(waiting)}"
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT p, pg_blocking_pids(p) FROM unnest(%s::int[]) AS p", [sorted(waiting)]
            )
            blocked = {pid: blockers for pid, blockers in cursor.fetchall() if blockers}
        waiting -= {pid for pid, blockers in blocked.items() if by is None or by in blockers}
