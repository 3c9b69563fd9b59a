"""django-tasks-db: `manage.py db_worker`, one task at a time per process, polling."""

import os
import sys

import django
import harness
from django.conf import settings
from django.core.management import call_command
from psycopg.conninfo import conninfo_to_dict

DSN = os.environ.get("BENCH_DSN") or (
    sys.argv[sys.argv.index("--dsn") + 1] if "--dsn" in sys.argv else ""
)


def configure():
    if settings.configured:
        return
    part = conninfo_to_dict(DSN)
    settings.configure(
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": part["dbname"],
                "USER": part["user"],
                "HOST": part["host"],
                "PORT": part["port"],
                "CONN_MAX_AGE": None,
            }
        },
        INSTALLED_APPS=["django_tasks", "django_tasks_db"],
        USE_TZ=True,
        LOGGING_CONFIG=None,
        TASKS={"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}},
    )
    django.setup()


def model():
    from django_tasks_db.models import DBTaskResult

    return DBTaskResult


class Peer:
    NAME = "django-tasks-db"
    SETTINGS = [{"procs": 1, "interval": 1}, {"procs": 2, "interval": 0.02}]
    JOBS = 5_000

    def __init__(self):
        configure()
        from peer_django_tasks_noop import noop

        self.noop = noop

    def setup(self):
        from django.db import connections

        connections.close_all()
        call_command("migrate", verbosity=0)

    def enqueue_many(self, times):  # there is no bulk call
        for t in times:
            self.noop.enqueue(t)

    def enqueue_one(self, t):
        self.noop.enqueue(t)

    def remaining(self):
        return model().objects.exclude(status="SUCCESSFUL").count()

    def worker(self, interval):
        call_command(
            "db_worker",
            interval=interval,
            startup_delay=False,
            reload=False,
            verbosity=0,
            worker_id=f"bench-{os.getpid()}",
        )

    def stale_completion(self):
        from django.db import transaction

        self.noop.enqueue(0.0)
        with transaction.atomic():
            stale = model().objects.ready().get_locked()
            stale.claim("first")
        # no lease exists, so hand the task over the way an operator would
        model().objects.filter(pk=stale.pk).update(status="READY")
        with transaction.atomic():
            fresh = model().objects.ready().get_locked()
            fresh.claim("second")
        stale.set_successful(None)
        return "accepted" if model().objects.get(pk=stale.pk).status == "SUCCESSFUL" else "refused"


if __name__ == "__main__":
    harness.main(Peer)
