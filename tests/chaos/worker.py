"""A worker as a process: `python -m tests.chaos.worker NAME QUEUE FOLDER SKEW`.

It performs what its tasks say, is careless now and then, and its clock is SKEW seconds off. FOLDER takes what it sees.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from tenure import Claim, Downstream, Unsettled, Worker
from tenure.downstreams import EtagResource, Guarantee, HttpKey
from tests.chaos.observations import Recorder, observe_library

#: Leases are short and work is quick, so that much can go wrong in a minute.
TTL_SECONDS = 5
LONGEST_STEP_SECONDS = 0.6


def main(name: str, queue: str, folder: str, skew: str) -> None:
    _set_clock_off(float(skew))
    observe_library(Recorder(Path(folder), name))
    urls = json.loads(os.environ["CHAOS_DOWNSTREAMS"])
    downstreams = {kind: Downstream(kind, adapter_of(kind, url)) for kind, url in urls.items()}
    worker = Worker(
        os.environ["TENURE_URL"],
        os.environ["TENURE_TOKEN"],
        queue,
        owner=f"{name}-{os.getpid()}",
        concurrency=3,
        ttl_seconds=TTL_SECONDS,
        timeout_seconds=4.0,
    )

    @worker.handler("plain")
    def plain(claim: Claim) -> Any:
        _work()
        return {"attempt": claim.attempt_number}

    @worker.handler("effect")
    def effect(claim: Claim) -> Any:
        kind = claim.input["downstream"]
        payload: Any = {"amount": claim.input["number"]}
        condition = None
        if kind == "conditional":
            payload = {"path": f"/documents/{claim.task_id}", "body": payload}
            condition = {"if_none_match": "*"}
        _work()
        try:
            receipt = claim.effect("out", downstreams[kind], payload, condition=condition).perform()
        except Unsettled:
            if not claim.input["careless"]:
                raise
            return {"receipt": None}  # the coordinator has to refuse this
        _work()
        return {"receipt": receipt is not None}

    worker.run()


def adapter_of(kind: str, url: str) -> HttpKey | EtagResource:
    if kind == "conditional":
        return EtagResource(url)
    guarantee = {
        "keyed": Guarantee.IDEMPOTENT_KEY,
        "gated": Guarantee.GATED,
        "late": Guarantee.QUERY_ONLY,
    }[kind]
    return HttpKey(f"{url}/calls", look_up_url=f"{url}/calls/{{key}}", guarantee=guarantee)


def _work() -> None:
    time.sleep(random.uniform(0.02, LONGEST_STEP_SECONDS))


def _set_clock_off(seconds: float) -> None:
    """This process's wall clock alone: what a worker thinks the time is must decide nothing."""
    real = time.time
    time.time = lambda: real() + seconds


if __name__ == "__main__":
    main(*sys.argv[1:])
