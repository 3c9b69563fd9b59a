"""A worker to be killed: `python -m tests.crash.worker_program QUEUE SECONDS LAST GATE`.

Its handler takes so long; for the nodes whose names begin with LAST it waits until there is a file GATE.
"""

import os
import sys
import time
from pathlib import Path

from tenure import Claim, Worker


def main(queue: str, seconds: str, last: str, gate: str) -> None:
    worker = Worker(os.environ["TENURE_URL"], os.environ["TENURE_TOKEN"], queue, ttl_seconds=5)

    @worker.handler("work")
    def work(claim: Claim) -> dict[str, object]:
        time.sleep(float(seconds))
        while claim.input["name"].startswith(last) and not Path(gate).exists():
            time.sleep(0.02)
        return {"pid": os.getpid(), "attempt": claim.attempt_number}

    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
