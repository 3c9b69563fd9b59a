"""A worker program for tests that signal, freeze or kill a process: `python -m tests.sdk.program QUEUE UNTIL`.

Its handler returns `now`, on `stop` once the worker stops, on `go` at a line on standard input, or `never`.

Prints `claimed TASK`, `committed TASK`, `refused POINT OUTCOME`, `stopping`, and at the end its counts as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

import tenure
from tenure import Claim, Report, Worker, settling

speaking = threading.Lock()
#: A server that stands still for a while is waited for: what is given back must have been told.
settling.RELEASE_SECONDS = 60.0


def main(queue: str, until: str, grace: str = "20") -> None:
    worker = Worker(
        os.environ["TENURE_URL"],
        os.environ["TENURE_TOKEN"],
        queue,
        ttl_seconds=60,
        grace_seconds=float(grace),
        observer=tell,
    )

    @worker.handler("work")
    def work(claim: Claim) -> dict[str, int]:
        told = False
        while not (until == "now" or (until == "go" and go.is_set()) or (until == "stop" and told)):
            time.sleep(0.02)
            if claim.stopping and not told:
                told = True
                say("stopping")
        return {"pid": os.getpid()}

    go = threading.Event()
    threading.Thread(target=wait_for_line, args=(go,), daemon=True).start()

    say(json.dumps(worker.run()))


def wait_for_line(go: threading.Event) -> None:
    sys.stdin.readline()
    go.set()


def tell(report: Report) -> None:
    problem = report.detail.get("problem")
    if isinstance(problem, tenure.Problem):
        say(f"refused {report.detail.get('point')} {problem.outcome}")
    elif report.claim is not None:
        say(f"{report.what} {report.claim.task_id}")


def say(line: str) -> None:
    """In one write: two threads at once would be no two lines else."""
    with speaking:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
