"""Oban for Python (needs Python 3.12 or newer): asyncio, LISTEN/NOTIFY, batched fetch and ack."""

import asyncio
import os

import harness
from oban import Oban, job
from oban.schema import install_sql
from psycopg_pool import AsyncConnectionPool


@job(queue="bench")
async def noop(t):
    harness.mark(t)


class Peer(harness.Async):
    NAME = "oban"
    SETTINGS = [{"procs": 1, "limit": 10}, {"procs": 1, "limit": 100}, {"procs": 2, "limit": 100}]

    def __init__(self):
        self.dsn = os.environ["BENCH_DSN"]
        self.oban = None

    async def client(self):
        if self.oban is None:
            pool = AsyncConnectionPool(self.dsn, min_size=2, max_size=10, open=False)
            await pool.open()
            self.oban = Oban(pool=pool)
            await self.oban.start()
        return self.oban

    def setup(self):
        import psycopg

        with psycopg.connect(self.dsn, autocommit=True) as conn:
            conn.execute(install_sql())

    def enqueue_many(self, times):
        async def enqueue():
            oban = await self.client()
            for i in range(0, len(times), 1000):
                await oban.enqueue_many(*[noop.new(t) for t in times[i : i + 1000]])

        self.go(enqueue())

    def enqueue_one(self, t):
        async def enqueue():
            await (await self.client()).enqueue(noop.new(t))

        self.go(enqueue())

    def remaining(self):
        return harness.count(self.dsn, "select count(*) from oban_jobs where state <> 'completed'")

    def worker(self, limit):
        async def run():
            stop = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(15, stop.set)
            pool = AsyncConnectionPool(self.dsn, min_size=2, max_size=10, open=False)
            async with pool, Oban(pool=pool, queues={"bench": limit}):
                await stop.wait()

        self.go(run())

    def stale_completion(self):
        async def attempt():
            oban = await self.client()
            await oban.enqueue(noop.new(0.0))
            query = oban._query

            async def claim(node):
                return (await query.fetch_jobs(demand=1, queue="bench", node=node, uuid=node))[0]

            stale = await claim("first")
            await asyncio.sleep(0.05)
            await query.rescue_jobs(0.01)
            fresh = await claim("second")
            assert fresh.id == stale.id
            from oban._executor import Executor

            late = Executor(job=stale, safe=True)
            await late.execute()
            return "accepted" if await query.ack_jobs([late.action]) else "refused"

        return self.go(attempt())


if __name__ == "__main__":
    harness.main(Peer)
