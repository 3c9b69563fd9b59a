"""Submitting, reading and steering: everything of the API that is not a worker's own.

Every method is one logical call. A call whose answer got lost is repeated with the same bytes, and under the same
Idempotency-Key where the contract wants one; a second call of the same method is a new call with a key of its own,
unless the caller names the key.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import IO, Self

from tenure.audit_reading import AuditReading
from tenure.blobs import fetch_blob
from tenure.bulk_steering import BulkSteering
from tenure.calling import object_of, segment
from tenure.decoding import decode
from tenure.effect_steering import EffectSteering
from tenure.incident_steering import IncidentSteering
from tenure.records import (
    Attempt,
    Cancellation,
    Candidate,
    Explanation,
    Fact,
    HoldReleased,
    Json,
    Queue,
    Reopened,
    Revised,
    Run,
    SubmittedRun,
    Task,
)
from tenure.retrying import Repeat, RetryPolicy
from tenure.revealing import Revealing
from tenure.rollout_steering import RolloutSteering
from tenure.transport import Answer, Call, Retried, Transport, json_bytes
from tenure.view_keeping import ViewKeeping


class Client(
    AuditReading,
    BulkSteering,
    EffectSteering,
    IncidentSteering,
    Revealing,
    RolloutSteering,
    ViewKeeping,
):
    """A caller of the coordinator. Safe to share between threads; close it, or use it in a `with`."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_seconds: float = 15.0,
        retry: RetryPolicy | None = None,
        on_retry: Callable[[Retried], None] | None = None,
    ) -> None:
        self._transport = Transport(
            url, token, timeout_seconds=timeout_seconds, retry=retry, on_retry=on_retry
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._transport.url!r})"

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    @property
    def sent(self) -> Mapping[str, int]:
        """How many requests went out, and how many of them were repeats: `{"requests": …, "retries": …}`."""
        return self._transport.sent

    # -- submitting ---------------------------------------------------------------------------------------------

    def submit_run(
        self,
        *,
        queue: str,
        nodes: Sequence[Mapping[str, Json]],
        name: str = "",
        metadata: Mapping[str, Json] | None = None,
        key: str | None = None,
    ) -> SubmittedRun:
        """Submit a DAG of nodes, all of it or none (contract 6).

        `key` makes the submission the same one across processes: a script that is run again gets the first run.
        """
        body: dict[str, Json] = {"queue": queue, "nodes": [dict(node) for node in nodes]}
        if name:
            body["name"] = name
        if metadata is not None:
            body["metadata"] = dict(metadata)
        answer = self._post("runs", body, key=key or new_key())
        return decode(SubmittedRun, answer.body, tries=answer.tries)

    def submit_task(
        self,
        *,
        queue: str,
        kind: str,
        input: Json,  # noqa: A002 - the contract's word
        key: str | None = None,
        **node: Json,
    ) -> Task:
        """Submit a run of one node; `node` are further fields of it, such as `priority` or `serial_key`."""
        body = {"queue": queue, "node_id": "task", **node, "kind": kind, "input": input}
        return decode(Task, self._post("tasks", body, key=key or new_key()).body)

    # -- reading ------------------------------------------------------------------------------------------------

    def run(self, run_id: str) -> Run:
        """One run."""
        return decode(Run, self._get(f"runs/{segment(run_id)}").body)

    def runs(self, **filters: str) -> Iterator[Run]:
        """Runs, newest first, page by page; `filters` as in the URL: queue, state."""
        return self._pages("runs", filters, Run)

    def task(self, task_id: str) -> Task:
        """One task."""
        return decode(Task, self._get(f"tasks/{segment(task_id)}").body)

    def tasks(self, **filters: str) -> Iterator[Task]:
        """Tasks, page by page; `filters` as in the URL: queue, state, run_id, kind, owner."""
        return self._pages("tasks", filters, Task)

    def attempts(self, task_id: str) -> Iterator[Attempt]:
        """The attempts of a task."""
        return self._pages(f"tasks/{segment(task_id)}/attempts", {}, Attempt)

    def events(self, task_id: str) -> Iterator[Mapping[str, Json]]:
        """What happened to a task, in order, as recorded."""
        return self._raw_pages(f"tasks/{segment(task_id)}/events", {})

    def explain(self, task_id: str) -> Explanation:
        """Why a task is not running."""
        return decode(Explanation, self._get(f"tasks/{segment(task_id)}/explain").body)

    def candidates(self, task_id: str) -> tuple[Candidate, ...]:
        """Every result that attempts of this task put forward, the canonical one among them."""
        page = object_of(self._get(f"tasks/{segment(task_id)}/candidates"))
        return tuple(decode(Candidate, row) for row in page.get("results", ()))

    def fetch_blob(self, attempt_id: str, name: str, into: IO[bytes]) -> str:
        """Write the bytes of a blob into a file; their digest."""
        return fetch_blob(self._transport, attempt_id, name, into, digest=None)

    def lineage(self, run_id: str) -> Mapping[str, Json]:
        """Which commits each commit of a run was made from (contract 11)."""
        return object_of(self._get(f"runs/{segment(run_id)}/lineage"))

    def memory(self, namespace: str, key: str) -> Fact:
        """The newest version of a key of shared memory; NotFound where it was never written."""
        return decode(Fact, self._get(f"memory/{segment(namespace)}/{segment(key)}").body)

    def queue(self, name: str) -> Queue:
        """A queue with its epoch, intake and policy."""
        return decode(Queue, self._get(f"queues/{segment(name)}").body)

    def queues(self) -> Iterator[Queue]:
        """The queues that this token may see."""
        return self._pages("queues", {}, Queue)

    # -- steering -----------------------------------------------------------------------------------------------

    def cancel_task(
        self, task_id: str, *, reason: str, expected_state_version: int | None = None
    ) -> Cancellation:
        """Cancel a task; AlreadyCommitted when the commit won. A repeat gets the same receipt."""
        body: dict[str, Json] = {"reason": reason}
        if expected_state_version is not None:
            body["expected_state_version"] = expected_state_version
        return _receipt(self._post(f"tasks/{segment(task_id)}/cancel", body))

    def cancel_run(self, run_id: str, *, reason: str) -> Cancellation:
        """Cancel every unfinished task of a run in one transaction."""
        return _receipt(self._post(f"runs/{segment(run_id)}/cancel", {"reason": reason}))

    def revise(
        self,
        task_id: str,
        *,
        input: Json,  # noqa: A002 - the contract's word
        reason: str,
        expected_state_version: int,
        key: str | None = None,
    ) -> Revised:
        """Put a new revision with another input in a task's place; the old one is SUPERSEDED (contract 10)."""
        body = {"expected_state_version": expected_state_version, "input": input, "reason": reason}
        answer = self._post(f"tasks/{segment(task_id)}/revise", body, key=key or new_key())
        return decode(Revised, answer.body, tries=answer.tries)

    def reopen(self, task_id: str, *, reason: str, expected_state_version: int) -> Reopened:
        """Give a CANCELLED or FAILED task a fresh allowance of attempts.

        Not repeated when its answer is lost: the repeat would be refused for the version that the first one raised.
        """
        body = {"expected_state_version": expected_state_version, "reason": reason}
        answer = self._post(f"tasks/{segment(task_id)}/reopen", body, repeat=Repeat.NEVER)
        return decode(Reopened, answer.body)

    def release_hold(
        self, task_id: str, *, reason: str, expected_state_version: int
    ) -> HoldReleased:
        """Say that no effect of a task that a restore holds has happened unseen, and let it go on (contract 12).

        A repeat is `replayed`. Refused with RECONCILE_FIRST while one of its effects is UNKNOWN.
        """
        body = {"expected_state_version": expected_state_version, "reason": reason}
        answer = self._post(f"tasks/{segment(task_id)}/restore-hold/release", body)
        return decode(HoldReleased, answer.body)

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Json = None,
        params: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> Json:
        """Any operation by its path below /api/v1/; the answer's body. A write is repeated under one key."""
        if method == "GET":
            return self._get(path, params).body
        headers = {"Idempotency-Key": key or new_key()}
        content = None if body is None else json_bytes(body)
        if content is not None:
            headers["Content-Type"] = "application/json"
        call = Call(
            method=method, path=path, content=content, headers=headers, repeat=Repeat.BY_KEY
        )
        return self._transport.send(call).body

    def download(
        self, path: str, into: IO[bytes], *, params: Mapping[str, str] | None = None
    ) -> None:
        """What is no JSON, such as the metrics, written as it is."""
        self._download(path, into, params or {})


def new_key() -> str:
    """An Idempotency-Key for one logical call."""
    return uuid.uuid4().hex


def _receipt(answer: Answer) -> Cancellation:
    return decode(Cancellation, answer.body, tries=answer.tries, body=answer.body)
