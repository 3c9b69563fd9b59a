"""The peers, on the server that Tenure is measured on, in the same run.

Each runs in its own virtual environment (`make bench` makes it from bench/peers/requirements.txt).
What is not installed is left out by name, never silently.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.peers import servers
from bench.place import Place, free_port

SCRIPTS: Final = Path(__file__).parent / "peers"
DATABASE: Final = "peer"
ON_POSTGRES: Final = ("pgqueuer", "oban", "procrastinate", "dbos", "absurd", "django_tasks")
ON_BROKERS: Final = (("celery", "redis"), ("celery", "rabbitmq"), ("etcd", "etcd"))
#: Allowed for all the measurements of one peer.
MAX_SECONDS: Final = 900
#: Oban for Python needs a newer interpreter than the others may have.
OWN_PYTHON: Final = {"oban": "OBAN_PYTHON"}


def measure(place: Place, *, python: str, seconds: float, quick: bool) -> list[dict[str, Any]]:
    """A row for each peer and setting, and one for its late completion; an `error` says what kept one out."""
    host, port = place.postgres.places.run, 5432
    dsn = f"postgresql://tenure@/{DATABASE}?host={host}&port={port}"
    short = ["--jobs", "1000"] if quick else []
    rows: list[dict[str, Any]] = []
    for peer in ON_POSTGRES:
        interpreter = os.environ.get(OWN_PYTHON.get(peer, ""), python)
        rows += _run(interpreter, peer, dsn, ["--seconds", str(seconds), *short])
    for peer, broker in ON_BROKERS:
        if not servers.is_installed(broker):
            rows.append({"peer": f"{peer} ({broker})", "error": f"{broker} is not installed"})
            continue
        start = {"redis": servers.redis, "rabbitmq": servers.rabbitmq, "etcd": servers.etcd}[broker]
        server, address = start(free_port(), place.folder / broker)
        with server:
            rows += _run(python, peer, address, ["--seconds", str(seconds), *short])
    return rows


def _run(python: str, peer: str, dsn: str, options: list[str]) -> list[dict[str, Any]]:
    command = [python, "-W", "ignore", str(SCRIPTS / f"peer_{peer}.py"), "--dsn", dsn, *options]
    environment = os.environ | {"BENCH_DSN": dsn}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            timeout=MAX_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return [{"peer": peer, "error": f"it took longer than {MAX_SECONDS} s"}]
    rows = list(_rows(done.stdout))
    if rows:
        return rows
    told = done.stderr.strip().splitlines() or ["it said nothing"]
    return [{"peer": peer, "error": told[-1][:300]}]


def _rows(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def best(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Each peer's best drained setting, in tasks a second; only those that completed all."""
    found: dict[str, int] = {}
    for row in rows:
        if row.get("complete"):
            found[row["peer"]] = max(found.get(row["peer"], 0), row["jobs_per_s"])
    return found
