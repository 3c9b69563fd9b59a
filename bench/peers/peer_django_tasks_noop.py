"""The no-op task of peer_django_tasks.py (a task must live in an importable module)."""

import harness
from django_tasks import task


@task()
def noop(t):
    harness.mark(t)
