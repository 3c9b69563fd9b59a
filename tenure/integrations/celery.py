"""What a Celery application does with its tasks, told to a coordinator that judges beside it (contract 13).

    from tenure.integrations import celery as tenure_celery

    tenure_celery.shadow(app, url="https://tenure.example", token=TOKEN, queue="billing")

That is all: the tasks go on as ever, and each hand-out, result, failure, retry and revocation becomes
a legacy event. A task that runs shows that it is alive by renewing its lease; a worker process that
dies or freezes doesn't, which is what a lease is for.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

from tenure.integrations.feed import Feed, FeedCounts

if TYPE_CHECKING:
    from celery import Celery

#: A running task's lease, and how often it is renewed in that time.
LEASE_SECONDS = 60.0
RENEWALS_A_LEASE = 3
#: Tasks that are renewed at a time in one process; a process that runs more has green threads.
MAX_RUNNING = 10_000
#: A result is digested up to so many characters of JSON; a larger one is told without its digest.
MAX_DIGESTED_CHARS = 16_384


def shadow(
    app: Celery,
    *,
    url: str,
    token: str,
    queue: str,
    source: str | None = None,
    lease_seconds: float = LEASE_SECONDS,
    tasks: Container[str] | None = None,
) -> Shadow:
    """Tell the coordinator at `url` what `app` does with its tasks, as events of `queue`.

    `token` is a worker credential with the scope `shadow`. `source` names the feed (one queue has
    one or several; a source belongs to one queue). `lease_seconds` is how long a task that shows no
    sign of life counts as held; `tasks` limits the feed to tasks of these names. Celery's own are
    left out. Keep the answer to read `counts`.
    """
    return Shadow(
        app,
        Feed(url=url, token=token, queue=queue, source=source or f"celery.{queue}"),
        lease_seconds=lease_seconds,
        tasks=tasks,
    )


class Shadow:
    """The feed of one Celery application. Connects itself to Celery's signals, for as long as it lives."""

    def __init__(
        self, app: Celery, feed: Feed, *, lease_seconds: float, tasks: Container[str] | None
    ) -> None:
        self._app = app
        self._feed = feed
        self._lease_seconds = lease_seconds
        self._tasks = tasks
        self._connected: list[tuple[Any, str]] = []
        self._start_anew()
        os.register_at_fork(after_in_child=self._start_anew)
        feed.beat = self._renew
        self._connect()

    def _start_anew(self) -> None:
        self._running: dict[str, tuple[str, float]] = {}  # the owner, and when to renew next
        self._told: set[str] = set()  # tasks of which the end has been told, until their postrun
        self._lock = threading.Lock()

    @property
    def counts(self) -> FeedCounts:
        """What became of this process's events."""
        return self._feed.counts

    def flush(self, timeout_seconds: float = 3.0) -> bool:
        """Wait until everything was sent, at most so long; whether it was."""
        return self._feed.flush(timeout_seconds)

    def close(self) -> None:
        """Send what is left, and listen no more."""
        for signal, identity in self._connected:
            signal.disconnect(dispatch_uid=identity)
        self._feed.close()

    def _connect(self) -> None:
        from celery import signals  # only who has Celery calls this

        listening: dict[Any, Callable[..., None]] = {
            signals.task_prerun: self._prerun,
            signals.task_postrun: self._postrun,
            signals.task_success: self._success,
            signals.task_failure: self._failure,
            signals.task_retry: self._retry,
            signals.task_revoked: self._revoked,
            signals.worker_process_shutdown: self._last,
            signals.worker_shutdown: self._last,
        }
        for signal, listener in listening.items():
            identity = f"tenure-{id(self)}-{signal.name}"
            signal.connect(self._safely(listener), weak=False, dispatch_uid=identity)
            self._connected.append((signal, identity))

    def _safely(self, listener: Callable[..., None]) -> Callable[..., None]:
        """The host's tasks never see a fault of the feed."""

        def listen(*args: Any, **told: Any) -> None:
            try:
                listener(*args, **told)
            except Exception as error:  # noqa: BLE001 (see above)
                self._feed.count_error(error)

        return listen

    # --- Celery's signals ---------------------------------------------------------------------

    def _prerun(self, *, task_id: str, task: Any, **_: Any) -> None:
        if not self._is_ours(task):
            return
        request, owner = task.request, _owner(task.request)
        with self._lock:
            if len(self._running) < MAX_RUNNING:
                self._running[task_id] = (owner, self._next_renewal())
        self._feed.tell(
            task_key=task_id,
            event="CLAIMED",
            owner=owner,
            lease_seconds=self._lease_seconds,
            input_digest=_digest_of_input(task.name, request),
        )

    def _success(self, *, sender: Any, result: Any = None, **_: Any) -> None:
        self._end(sender, sender.request, "COMMITTED", result_digest=_digest_of(result))

    def _failure(self, *, sender: Any, task_id: str, **_: Any) -> None:
        # Also told of a worker process that was lost, by the process that watched over it.
        self._end(sender, sender.request, "FAILED", task_id=task_id)

    def _retry(self, *, sender: Any, request: Any, **_: Any) -> None:
        self._end(sender, request, "RELEASED")

    def _revoked(self, *, sender: Any, request: Any, **_: Any) -> None:
        self._end(sender, request, "CANCELLED")

    def _postrun(self, *, task_id: str, task: Any, state: str | None = None, **_: Any) -> None:
        """What ended without any of the signals above: a task that was rejected, or ignored its own end."""
        if not self._is_ours(task):
            return
        with self._lock:
            self._running.pop(task_id, None)
            told = task_id in self._told
            self._told.discard(task_id)
        if not told:
            event = "RELEASED" if state == "REJECTED" else "COMMITTED"
            self._feed.tell(task_key=task_id, event=event, owner=_owner(task.request))

    def _last(self, **_: Any) -> None:
        self._feed.close()

    # --- inside -------------------------------------------------------------------------------

    def _is_ours(self, task: Any) -> bool:
        name = getattr(task, "name", None) or ""
        wanted = self._tasks is None or name in self._tasks
        return task.app is self._app and wanted and not name.startswith("celery.")

    def _end(
        self, task: Any, request: Any, event: str, *, task_id: str | None = None, **told: Any
    ) -> None:
        if not self._is_ours(task):
            return
        key = task_id or request.id
        with self._lock:
            ran = self._running.pop(key, None)
            if ran is not None:
                self._told.add(key)
        owner = ran[0] if ran is not None else _owner(request)
        self._feed.tell(task_key=key, event=event, owner=owner, **told)

    def _renew(self) -> None:
        """Run by the sender: a task that is under way in this process is alive."""
        clock = time.monotonic()
        with self._lock:
            due = [(key, owner) for key, (owner, at) in self._running.items() if at <= clock]
            for key, owner in due:
                self._running[key] = (owner, self._next_renewal())
        for key, owner in due:
            self._feed.tell(
                task_key=key, event="RENEWED", owner=owner, lease_seconds=self._lease_seconds
            )

    def _next_renewal(self) -> float:
        return time.monotonic() + self._lease_seconds / RENEWALS_A_LEASE


def _owner(request: Any) -> str:
    """The worker process: a task that is delivered twice runs in two of them."""
    host = getattr(request, "hostname", None) or socket.gethostname()
    return f"{host}/{os.getpid()}"


def _digest_of_input(name: str, request: Any) -> str | None:
    """Of the arguments as the message shows them: the same again in each delivery, another after a changed retry."""
    shown = (getattr(request, "argsrepr", None), getattr(request, "kwargsrepr", None))
    return None if None in shown else _sha256(f"{name}\n{shown[0]}\n{shown[1]}")


def _digest_of(result: Any) -> str | None:
    """Of a result's JSON, as far as it is JSON and not large; the work stops at the limit."""
    parts, length = [], 0
    try:
        for part in _ENCODER.iterencode(result):
            parts.append(part)
            length += len(part)
            if length > MAX_DIGESTED_CHARS:
                return None
    except (TypeError, ValueError, RecursionError):
        return None
    return _sha256("".join(parts))


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def _sha256(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
