"""Jobs in the background: each in a span, and a log line where it did something, took long, or failed."""

import time
from contextlib import AbstractContextManager
from typing import Any, Final

import structlog
from celery.signals import task_failure, task_postrun, task_prerun

from coordinator import tracing
from coordinator.log_lines import begin_lines

log = structlog.get_logger("tenure.jobs")

#: A job that found nothing to do is told only where it took longer than this.
LONG_SECONDS: Final = 1.0

_running: dict[str, tuple[float, AbstractContextManager[Any]]] = {}


def connect_jobs() -> None:
    """Listen to Celery. The receivers are functions of this module: Celery holds them weakly."""
    task_prerun.connect(_begin)
    task_postrun.connect(_end)
    task_failure.connect(_failed)


def _begin(task_id: str, task: Any, **_rest: Any) -> None:
    begin_lines(job=_name(task), job_id=task_id)
    span = tracing.span(f"job {_name(task)}")
    span.__enter__()
    _running[task_id] = time.perf_counter(), span


def _end(task_id: str, state: str | None = None, retval: Any = None, **_rest: Any) -> None:
    started, span = _running.pop(task_id, (time.perf_counter(), None))
    if span is not None:
        span.__exit__(None, None, None)
    seconds = time.perf_counter() - started
    counts = state == "SUCCESS" and isinstance(retval, int) and not isinstance(retval, bool)
    did = retval if counts else None
    if did or seconds > LONG_SECONDS:
        log.info("job", did=did, state=state, ms=round(seconds * 1000, 1))
    begin_lines()


def _failed(exception: BaseException | None = None, **_rest: Any) -> None:
    """What it raised, and where; its words only where the log may quote them (site/logs.py)."""
    log.error("job failed", exc_info=exception)


def _name(task: Any) -> str:
    return str(task.name).rsplit(".", 1)[-1]
