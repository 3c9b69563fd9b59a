"""DBOS queues: a workflow per job, polling dequeue, thread pool of workflows."""

import logging
import os
import time

import harness
import sqlalchemy as sa
from dbos import DBOS, DBOSClient


@DBOS.workflow(name="noop")
def noop(t):
    harness.mark(t)


class Peer:
    NAME = "dbos"
    SETTINGS = [
        {"procs": 1, "concurrency": None, "poll": 1.0},
        {"procs": 1, "concurrency": 100, "poll": 0.02},
        {"procs": 2, "concurrency": 100, "poll": 0.02},
    ]
    JOBS = 5_000

    def __init__(self):
        self.dsn = os.environ["BENCH_DSN"]
        self.url = self.dsn.replace("postgresql://", "postgresql+psycopg://")
        self._client = None

    def launch(self, concurrency=10, poll=1.0):
        DBOS(
            config={
                "name": "bench",
                "system_database_url": self.url,
                "run_admin_server": False,
                "log_level": "ERROR",
                "application_version": "1",
                "executor_id": f"bench-{os.getpid()}",
            }
        )
        DBOS.launch()
        DBOS.register_queue("bench", worker_concurrency=concurrency, polling_interval_sec=poll)

    def client(self):
        if self._client is None:
            self._client = DBOSClient(system_database_url=self.url)
        return self._client

    def setup(self):
        logging.getLogger("dbos").setLevel(logging.ERROR)
        self.launch()
        DBOS.destroy()

    def options(self):
        return {
            "queue_name": "bench",
            "workflow_name": "noop",
            "app_version": "1",
            "application_name": "bench",
        }

    def enqueue_many(self, times):  # no bulk call, but many enqueues may share a transaction
        client, engine = self.client(), sa.create_engine(self.url)
        for i in range(0, len(times), 500):
            with engine.begin() as conn:
                for t in times[i : i + 500]:
                    client.enqueue_in_transaction(conn, self.options(), t)
        engine.dispose()

    def enqueue_one(self, t):
        self.client().enqueue(self.options(), t)

    def remaining(self):
        return harness.count(
            self.dsn,
            "select count(*) from dbos.workflow_status where status <> 'SUCCESS' and queue_name = 'bench'",
        )

    def worker(self, concurrency, poll):
        self.launch(concurrency, poll)
        while True:
            time.sleep(1)

    def stale_completion(self):
        client = self.client()
        wid = client.enqueue(self.options(), 0.0).workflow_id
        system, queue = client._sys_db, client.retrieve_queue("bench")

        def claim(token):
            claimed, _ = system.start_queued_workflows(
                queue, "any", "1", None, 0, owner_xid=token, is_latest_version=True
            )
            return claimed

        assert claim("token-1") == [wid]
        client.resume_workflow(wid)  # hands the workflow over, as recovery does
        queue.name = system.get_workflow_status(wid)["queue_name"]
        assert claim("token-2") == [wid]
        written = system.update_workflow_outcome(wid, "SUCCESS", output=None, owner_xid="token-1")
        return "accepted" if written else "refused"


if __name__ == "__main__":
    harness.main(Peer)
