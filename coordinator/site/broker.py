"""Celery's broker: an outside one by CELERY_BROKER_URL, else queues in the same PostgreSQL. It is never truth."""

from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from coordinator.site import environment
from coordinator.site.databases import database_url

OWN_BROKER_URL = "pgmq://localhost"  # where it is comes from `conn_string`
VISIBILITY_SECONDS = 600  # a task that runs longer is delivered again; ours are sweeps of seconds


def broker_settings(state: Path) -> dict[str, Any]:
    """CELERY_BROKER_URL and CELERY_BROKER_TRANSPORT_OPTIONS."""
    given = environment.text("CELERY_BROKER_URL")
    if given:
        return {"url": given, "options": {}}
    # As keywords: the transport does not unquote a socket's path in a URL.
    keywords = make_conninfo(**conninfo_to_dict(database_url(state)))  # type: ignore[arg-type]
    options = {
        "conn_string": keywords,
        "init_extension": False,  # installed as plain SQL; needs no extension on the server
        "wait_time_seconds": 0,
        "polling_interval": 0.1,
        "pool_size": 2,
        "pool_timeout": 3,
        "visibility_timeout": VISIBILITY_SECONDS,
    }
    return {"url": OWN_BROKER_URL, "options": options}


def install_queues(connection: psycopg.Connection[Any]) -> None:
    """Create the queues' schema unless it is there. The caller holds a lock against doing it twice at once."""
    from pgmq import get_embedded_install_sql

    known = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'pgmq'").fetchone()
    if known is None:
        with connection.transaction():
            connection.execute(get_embedded_install_sql().encode())
