"""The practice room: the office, a worker of its own, and a list of what a person can try, each with its address."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from examples.practice.office import TEXTS, Office
from examples.practice.work import (
    AGREE,
    MOVE,
    MOVING,
    QUEUE,
    REJECT,
    SETTLE,
    SLOTS,
    SUMMARY,
    TEXT,
    register,
    submit,
)
from examples.review.ending import manage, shown
from tenure import Client, NotFound, TenureError, Worker
from tenure.gate import Gate

TTL_SECONDS = 10
CONCURRENCY = 4
GRACE_SECONDS = 5.0
STOP_SECONDS = 8.0

Say = Callable[[str], None]


class Practice:
    """Open while its `with` lasts. What waits for a person stays in the coordinator, and is gone on with next time."""

    def __init__(
        self, client: Client, say: Say, *, url: str, token: str, folder: Path, site: str
    ) -> None:
        self._client = client
        self._say = say
        self._url = url
        self._token = token
        self._site = site
        self._gate = Gate(url, token, downstream=SLOTS[TEXT]["message"])
        self._office = Office(folder, gate=self._gate)
        self._worker: Worker | None = None
        self._runs: dict[str, str] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._client.queue(QUEUE)
            self._client.queue(MOVING)
        except NotFound:
            self._say(f"left out: an administrator makes {QUEUE} and {MOVING}; `up` does")
            return self
        with ExitStack() as stack:
            stack.enter_context(self._gate)
            stack.enter_context(self._office)
            worker = self._worker = self._hire()
            thread = threading.Thread(target=self._work, args=(worker,), name=QUEUE, daemon=True)
            stack.callback(thread.join, STOP_SECONDS)
            stack.callback(self.ask_to_stop)
            thread.start()
            self._runs = submit(self._client)
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def ask_to_stop(self) -> None:
        """The worker takes nothing more, and ends what it has within its grace time. Once is enough."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()

    def look(self) -> bool:
        """Say what can be tried, once all of it is there; whether there is nothing more to say."""
        found = {exercise: self._place(exercise, run_id) for exercise, run_id in self._runs.items()}
        if None in found.values():
            return False
        if any(found.values()):
            self._guide({exercise: place for exercise, place in found.items() if place})
        return True

    def _place(self, exercise: str, run_id: str) -> str | None:
        """Where a person goes on; empty where nothing is left to do; None while the worker is at it."""
        tasks = [task for task in self._client.tasks(run_id=run_id) if task.state != "SUPERSEDED"]
        if {task.state for task in tasks} & {"READY", "CLAIMED"}:
            return None
        if exercise == MOVE:
            return f"/shadow/{MOVING}"
        if self._client.run(run_id).state != "ACTIVE":
            return ""
        if exercise == SETTLE:
            [summary] = [task for task in tasks if task.kind == SUMMARY]
            return f"/tasks/{summary.task_id}"
        [task] = tasks
        [effect] = self._client.task_effects(task.task_id)
        approvals = self._client.effect_detail(effect.effect_id or "").approval_ids
        waits = task.state == "AWAITING_APPROVAL" and approvals
        return f"/approvals/{approvals[-1]}" if waits else f"/tasks/{task.task_id}"

    def _guide(self, found: dict[str, str]) -> None:
        log = shown(str(self._office.log(TEXTS)))
        told = {
            SETTLE: [
                ("find out why a task waits", found.get(SETTLE, "")),
                ("settle what nobody knows", f"/effects/unknown   (what was sent: {log})"),
            ],
            AGREE: [("approve with a second person", found.get(AGREE, ""))],
            REJECT: [("reject, or ask for changes", found.get(REJECT, ""))],
            MOVE: [("promote a queue, take it back", found.get(MOVE, ""))],
        }
        self._say("to try out, each on a page of its own:")
        for exercise in (exercise for exercise in told if exercise in found):
            for what, place in told[exercise]:
                self._say(f"  {what:<30} {self._site}{place}")
        self._say(f"  the second person              {manage()} create_operator sam --role admin")
        self._say(
            "                                 (signs in from a private window, or another browser)"
        )

    def _hire(self) -> Worker:
        worker = Worker(
            self._url,
            self._token,
            QUEUE,
            owner=f"office-{os.getpid()}",
            concurrency=CONCURRENCY,
            ttl_seconds=TTL_SECONDS,
            grace_seconds=GRACE_SECONDS,
        )
        register(worker, self._office, url=self._url, token=self._token)
        return worker

    def _work(self, worker: Worker) -> None:
        """What the worker's thread does."""
        try:
            worker.run()
        except TenureError as error:
            self._say(f"the office's worker cannot work: {error}")
