"""Celery with a Redis or RabbitMQ broker, acks_late, no result backend.

--dsn redis://127.0.0.1:PORT/0  or  amqp://guest:guest@127.0.0.1:PORT//
"""

import os
import sys

import celery
import harness

BROKER = os.environ.get("BENCH_DSN") or (
    sys.argv[sys.argv.index("--dsn") + 1] if "--dsn" in sys.argv else ""
)

app = celery.Celery("bench", broker=BROKER)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    task_default_queue="bench",
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=16,
)


@app.task(name="noop")
def noop(t):
    harness.mark(t)


class Peer:
    NAME = "celery-" + BROKER.split(":")[0].replace("amqp", "rabbitmq")
    SETTINGS = [
        {"procs": 1, "pool": "solo", "concurrency": 1},
        {"procs": 1, "pool": "prefork", "concurrency": 2},
        {"procs": 2, "pool": "solo", "concurrency": 1},
    ]

    def setup(self):
        app.control.purge()

    def enqueue_many(self, times):  # one message per call, one shared connection
        with app.producer_pool.acquire(block=True) as producer:
            for t in times:
                noop.apply_async((t,), producer=producer)

    def enqueue_one(self, t):
        noop.delay(t)

    def remaining(self):
        with app.connection_for_read() as conn:
            if BROKER.startswith("redis"):
                client = conn.default_channel.client
                return client.llen("bench") + client.hlen("unacked")
            # unacknowledged messages are not counted here: the figure can end a few ms early
            return conn.default_channel.queue_declare("bench", passive=True).message_count

    def worker(self, pool, concurrency):
        app.worker_main(
            [
                "worker",
                "-P",
                pool,
                "-c",
                str(concurrency),
                "-l",
                "ERROR",
                "-n",
                f"w{os.getpid()}@%h",
                "--without-gossip",
                "--without-mingle",
            ]
        )


if __name__ == "__main__":
    harness.main(Peer)
