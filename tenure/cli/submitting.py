"""From a document to a submission."""

from __future__ import annotations

from tenure.cli.settings import UsageError
from tenure.client import Client
from tenure.records import Json, SubmittedRun


def send(client: Client, body: dict[str, Json], key: str | None) -> tuple[str, Json]:
    """A run where there are nodes, else a task. The coordinator names every fault; only its place is chosen here."""
    if "nodes" in body:
        known = {
            name: body.pop(name) for name in ("queue", "nodes", "name", "metadata") if name in body
        }
        if body:
            raise UsageError(
                f"a run has no {', '.join(sorted(body))}; it has queue, name, metadata and nodes"
            )
        if not isinstance(known["nodes"], list) or "queue" not in known:
            raise UsageError("a run needs a queue (in the file, or by --queue) and a list of nodes")
        run: SubmittedRun = client.submit_run(**known, key=key)
        return run.run_id, run
    body.pop("name", None)
    if "key" in body:
        raise UsageError("a task has no field key; --key gives the Idempotency-Key")
    if missing := {"queue", "kind", "input"} - body.keys():
        raise UsageError(f"a task needs {', '.join(sorted(missing))}; a run needs nodes")
    task = client.submit_task(**body, key=key)
    return task.run_id, task
