"""A worker of a fleet in an incident: `python -m tests.incidents.fleet_program QUEUE BANK`; ends when its input ends.

It works (`work`: puts its result aside, waits a little, returns it) and pays (`pay`: one payment at the gated bank).
Prints `ready`, and at its end its counts as JSON.
"""

import json
import os
import sys
import threading
import time
from typing import Any

from tenure import Claim, Downstream, Worker
from tenure.downstreams import Guarantee, HttpKey

WORK_SECONDS = 0.2


def main(queue: str, bank_url: str) -> None:
    adapter = HttpKey(f"{bank_url}/payments", look_up_url=None, guarantee=Guarantee.GATED)
    bank = Downstream("bank", adapter)
    worker = Worker(
        os.environ["TENURE_URL"], os.environ["TENURE_TOKEN"], queue, ttl_seconds=5, concurrency=2
    )

    @worker.handler("work")
    def work(claim: Claim) -> dict[str, Any]:
        result = {"pid": os.getpid(), "attempt": claim.attempt_number}
        claim.stage(result)
        time.sleep(WORK_SECONDS)
        return result

    @worker.handler("pay")
    def pay(claim: Claim) -> dict[str, Any]:
        return {"receipt": claim.effect("out", bank, {"amount": 20}).perform()}

    threading.Thread(target=_stop_at_the_end, args=(worker,), daemon=True).start()
    print("ready", flush=True)
    print(json.dumps(worker.run()), flush=True)


def _stop_at_the_end(worker: Worker) -> None:
    sys.stdin.read()
    worker.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
