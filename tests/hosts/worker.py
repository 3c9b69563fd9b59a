"""A worker of the SDK on a host: `python -m tests.hosts.worker QUEUE OWNER`, with TENURE_URL and TENURE_TOKEN."""

import os
import sys
import time

from tenure import Claim, Worker

#: A handler takes so long; a run of hundreds some seconds.
STEP_SECONDS = 0.1
CONCURRENCY = 4


def main(queue: str, owner: str) -> None:
    worker = Worker(
        os.environ["TENURE_URL"],
        os.environ["TENURE_TOKEN"],
        queue,
        owner=owner,
        concurrency=CONCURRENCY,
        ttl_seconds=10,
        grace_seconds=2,
        timeout_seconds=2,
    )

    @worker.handler(owner)  # what is for this one alone
    @worker.handler("work")
    def work(claim: Claim) -> dict[str, str]:
        time.sleep(STEP_SECONDS)
        return {"by": owner}

    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
