"""A worker to be killed: `python -m tests.crash.worker_program QUEUE SECONDS`. Its handler takes so long."""

import os
import sys
import time

from tenure import Claim, Worker


def main(queue: str, seconds: str) -> None:
    worker = Worker(os.environ["TENURE_URL"], os.environ["TENURE_TOKEN"], queue, ttl_seconds=5)

    @worker.handler("work")
    def work(claim: Claim) -> dict[str, object]:
        time.sleep(float(seconds))
        return {"pid": os.getpid(), "attempt": claim.attempt_number}

    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
