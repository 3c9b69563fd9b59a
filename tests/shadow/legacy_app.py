"""A Celery application as somebody else wrote it, with the one line that tells a coordinator what it does.

`python -m celery -A tests.shadow.legacy_app worker` is a worker of it. Where everything is comes from the environment.
"""

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery
from celery.exceptions import Reject

from tenure.integrations import celery as tenure_celery

#: How long the broker hides a message that was delivered and not acknowledged.
VISIBILITY_SECONDS = 3
LEASE_SECONDS = float(os.environ.get("LEGACY_LEASE_SECONDS", "60"))

app = Celery("legacy", broker="pgmq://localhost")
app.conf.update(
    broker_transport_options={
        "conn_string": os.environ["LEGACY_BROKER"],
        "init_extension": False,
        "wait_time_seconds": 0,
        "polling_interval": 0.1,
        "pool_size": 2,
        "visibility_timeout": VISIBILITY_SECONDS,
        "queue_name_prefix": os.environ["LEGACY_PREFIX"],
    },
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    task_ignore_result=True,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
)
feed = tenure_celery.shadow(
    app,
    url=os.environ["TENURE_URL"],
    token=os.environ["TENURE_TOKEN"],
    queue=os.environ["TENURE_QUEUE"],
    lease_seconds=LEASE_SECONDS,
)


@app.task
def wait_for(folder: str) -> str:
    """Say that it has begun, and go on until the file `go` is there."""
    mark = Path(folder) / f"began-{os.getpid()}"
    mark.write_text("")
    while not (Path(folder) / "go").exists():
        time.sleep(0.02)
    return f"by {os.getpid()}"


@app.task(bind=True, max_retries=3)
def fails_once(self: Any, folder: str) -> int:
    mark = Path(folder) / "failed"
    if not mark.exists():
        mark.write_text("")
        raise self.retry(countdown=0)
    return 1


@app.task
def fails() -> None:
    raise RuntimeError("as it was meant to")


@app.task
def is_rejected() -> None:
    raise Reject("not wanted", requeue=False)
