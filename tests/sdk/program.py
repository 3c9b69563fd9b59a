"""A worker program for tests that signal, freeze or kill a process: `python -m tests.sdk.program QUEUE SECONDS`.

Prints `claimed TASK`, `committed TASK`, `refused POINT OUTCOME`, `stopping`, and at the end its counts as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time

import tenure
from tenure import Claim, Report, Worker


def main(queue: str, seconds: str, grace: str = "20") -> None:
    worker = Worker(
        os.environ["TENURE_URL"],
        os.environ["TENURE_TOKEN"],
        queue,
        ttl_seconds=5,
        grace_seconds=float(grace),
        observer=tell,
    )

    @worker.handler("work")
    def work(claim: Claim) -> dict[str, int]:
        until = time.monotonic() + float(seconds)
        told = False
        while time.monotonic() < until:
            time.sleep(0.02)
            if claim.stopping and not told:
                told = True
                print("stopping", flush=True)
        return {"pid": os.getpid()}

    print(json.dumps(worker.run()), flush=True)


def tell(report: Report) -> None:
    problem = report.detail.get("problem")
    if isinstance(problem, tenure.Problem):
        print("refused", report.detail.get("point"), problem.outcome, flush=True)
    elif report.claim is not None:
        print(report.what, report.claim.task_id, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
