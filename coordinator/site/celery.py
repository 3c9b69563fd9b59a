"""The Celery application. Beat's schedule is code: it changes with the tasks that it names.

Losing the broker delays work and loses none; every task may run twice, and at the same time as itself.
"""

import os
from typing import Any

from celery import Celery
from celery.signals import setup_logging, worker_init, worker_process_init

from coordinator.site.jobs import connect_jobs

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coordinator.site.settings")

app = Celery("tenure-coordinator")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["coordinator"])
connect_jobs()


@setup_logging.connect
def _keep_our_logging(**kwargs: Any) -> None:
    """A receiver of this signal is how Celery is told to leave logging to Django's settings."""


@worker_init.connect
@worker_process_init.connect
def _start_tracing(**kwargs: Any) -> None:
    """Once in each process that runs jobs: the pool's threads share one, forks have their own."""
    from coordinator.site.tracing import start_tracing

    start_tracing("tenure-jobs")


def _every(seconds: float, task: str) -> dict[str, Any]:
    # What waited longer than a few rounds is dropped unrun: after an outage there is no backlog of identical sweeps.
    return {"task": task, "schedule": seconds, "options": {"expires": max(5.0, seconds)}}


app.conf.beat_schedule = {
    "sweep": _every(1.0, "coordinator.tasks.sweep"),
    "pass-deadlines": _every(1.0, "coordinator.tasks.pass_deadlines"),
    "expire-approvals": _every(5.0, "coordinator.tasks.expire_approvals"),
    "look-up-effects": _every(10.0, "coordinator.tasks.look_up_effects"),
    "roll-up-coverage": _every(5.0, "coordinator.tasks.roll_up_coverage"),
    "roll-up": _every(4.0, "coordinator.tasks.roll_up"),
    "settle-shadow-rounds": _every(5.0, "coordinator.tasks.settle_shadow_rounds"),
    "settle-promotions": _every(60.0, "coordinator.tasks.settle_promotions"),
    "seal-audit": _every(5.0, "coordinator.tasks.seal_audit"),
    "watch-audit": _every(20.0, "coordinator.tasks.watch_audit"),
    "continue-audits": _every(30.0, "coordinator.tasks.continue_audits"),
    "run-drills": _every(60.0, "coordinator.tasks.run_drills"),
    "confirm-identity": _every(10.0, "coordinator.tasks.confirm_identity"),
    "prune": _every(60.0, "coordinator.tasks.prune"),
    "prune-strays": _every(600.0, "coordinator.tasks.prune_strays"),
    "run-bulk-jobs": _every(1.0, "coordinator.tasks.run_bulk_jobs"),
    "settle-runs": _every(15.0, "coordinator.tasks.settle_runs"),
}
