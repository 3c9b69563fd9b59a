"""The background jobs as a process, and an operator who bumps the epoch: `python -m tests.chaos.jobs QUEUE FOLDER`.

Each line on standard input is one bump. A job that fails is tried again at its next turn, as Celery's beat has it.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main(queue: str, folder: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coordinator.site.settings")
    import django

    django.setup()
    from coordinator import tasks
    from tests.chaos.bugs import apply_named
    from tests.chaos.observations import Recorder

    apply_named()
    recorder = Recorder(Path(folder), "jobs")
    turns: list[tuple[float, Callable[[], Any]]] = [
        (0.7, tasks.sweep),
        (0.7, tasks.pass_deadlines),
        (3.0, tasks.look_up_effects),
        (3.0, tasks.settle_runs),
        (3.0, tasks.roll_up_coverage),
        (5.0, tasks.confirm_identity),
    ]
    due = dict.fromkeys(range(len(turns)), 0.0)
    while True:
        if select.select([sys.stdin], [], [], 0.2)[0]:
            if not sys.stdin.readline():
                return
            _quietly(lambda: _bump(queue, recorder))
        for number, (seconds, job) in enumerate(turns):
            if time.monotonic() >= due[number]:
                due[number] = time.monotonic() + seconds
                _quietly(job)


def _quietly(job: Callable[[], Any]) -> None:
    from django.db import DatabaseError, connection
    from psycopg_pool import PoolTimeout

    try:
        job()
    except (DatabaseError, PoolTimeout):
        with contextlib.suppress(DatabaseError):
            connection.close()


def _bump(queue: str, recorder: Any) -> None:
    """One bump, written down like any client's call."""
    from coordinator.actors import system
    from coordinator.models import Queue
    from coordinator.services.epochs import Bumped, bump_epoch

    epoch = Queue.objects.get(name=queue).scheduler_epoch
    number = recorder.asked("bump", {"from": epoch})
    answer = bump_epoch(queue=queue, expected_epoch=epoch, reason="chaos", actor=system("chaos"))
    if isinstance(answer, Bumped):
        recorder.heard(number, 200, {"scheduler_epoch": answer.scheduler_epoch})


if __name__ == "__main__":
    main(*sys.argv[1:])
