"""pgqueuer: asyncpg driver, batch dequeue, batched completion log."""

import asyncio
import os
import uuid
from datetime import timedelta

import asyncpg
import harness
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import EntrypointExecutionParameter, Queries


class Peer(harness.Async):
    NAME = "pgqueuer"
    SETTINGS = [{"procs": 1, "batch": 10}, {"procs": 1, "batch": 100}, {"procs": 2, "batch": 100}]

    def __init__(self):
        self.dsn = os.environ["BENCH_DSN"]
        self.queries = None

    async def connect(self):
        if self.queries is None:
            self.queries = Queries(AsyncpgDriver(await asyncpg.connect(self.dsn)))
        return self.queries

    def setup(self):
        async def install():
            await (await self.connect()).install()

        self.go(install())

    def enqueue_many(self, times):
        async def enqueue():
            queries = await self.connect()
            for i in range(0, len(times), 1000):
                part = times[i : i + 1000]
                await queries.enqueue(
                    ["noop"] * len(part), [repr(t).encode() for t in part], [0] * len(part)
                )

        self.go(enqueue())

    def enqueue_one(self, t):
        async def enqueue():
            await (await self.connect()).enqueue(["noop"], [repr(t).encode()], [0])

        self.go(enqueue())

    def remaining(self):
        return harness.count(self.dsn, "select count(*) from pgqueuer")

    def worker(self, batch):
        async def run():
            queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(self.dsn)))

            @queuer.entrypoint("noop")
            async def noop(job):
                harness.mark(float(job.payload))

            loop = asyncio.get_running_loop()
            loop.add_signal_handler(15, queuer.shutdown.set)
            await queuer.run(batch_size=batch, dequeue_timeout=timedelta(seconds=5))

        self.go(run())

    def stale_completion(self):
        async def attempt():
            queries = await self.connect()
            await queries.enqueue(["noop"], [b"0"], [0])

            async def claim():
                return (
                    await queries.dequeue(
                        1,
                        {"noop": EntrypointExecutionParameter(0)},
                        uuid.uuid4(),
                        None,
                        timedelta(0),
                    )
                )[0]

            stale = await claim()
            await asyncio.sleep(0.05)
            fresh = await claim()  # the heartbeat timed out: the same job goes to another manager
            assert fresh.id == stale.id
            assert fresh.queue_manager_id != stale.queue_manager_id
            await queries.log_jobs([(stale, "successful", None)])
            return "accepted" if self.remaining() == 0 else "refused"

        return self.go(attempt())


if __name__ == "__main__":
    harness.main(Peer)
