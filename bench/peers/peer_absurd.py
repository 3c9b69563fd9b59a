"""absurd-sdk: stored procedures, polling worker; schema from the absurdctl package."""

import os
import time

import absurdctl
import harness
import psycopg
from absurd_sdk import Absurd


class Peer:
    NAME = "absurd"
    SETTINGS = [
        {"procs": 1, "concurrency": 1, "batch": 10, "poll": 0.25},
        {"procs": 2, "concurrency": 1, "batch": 50, "poll": 0.02},
    ]

    def __init__(self):
        self.dsn = os.environ["BENCH_DSN"]
        self.app = None

    def connect(self):
        if self.app is None:
            self.app = Absurd(self.dsn, queue_name="bench")

            @self.app.register_task(name="noop")
            def noop(params, _context):
                harness.mark(params["t"])

        return self.app

    def setup(self):
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            conn.execute(absurdctl.BUNDLED_SCHEMA_SQL)
        self.connect().create_queue("bench")

    def enqueue_many(self, times):  # there is no bulk call
        for t in times:
            self.connect().spawn("noop", {"t": t})

    def enqueue_one(self, t):
        self.connect().spawn("noop", {"t": t})

    def remaining(self):
        return harness.count(
            self.dsn, "select count(*) from absurd.t_bench where state <> 'completed'"
        )

    def worker(self, concurrency, batch, poll):
        self.connect().start_worker(concurrency=concurrency, batch_size=batch, poll_interval=poll)

    def stale_completion(self):
        app = self.connect()
        app.spawn("noop", {"t": 0.0}, retry_strategy={"kind": "fixed", "base_seconds": 0})
        stale = app.claim_tasks(claim_timeout=1, worker_id="first")[0]
        time.sleep(1.2)
        app.claim_tasks(
            claim_timeout=30, worker_id="second"
        )  # sweeps the expired claim, plans a new run
        time.sleep(0.1)
        fresh = app.claim_tasks(claim_timeout=30, worker_id="second")[0]
        assert fresh["task_id"] == stale["task_id"]
        assert fresh["run_id"] != stale["run_id"]
        app._execute_task(stale, 30)  # the late worker's own completion path
        return "accepted" if self.remaining() == 0 else "refused"


if __name__ == "__main__":
    harness.main(Peer)
