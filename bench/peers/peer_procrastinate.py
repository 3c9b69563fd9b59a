"""procrastinate: one asyncio worker per process, LISTEN/NOTIFY, one job per fetch."""

import os

import harness
import procrastinate
from procrastinate import jobs as pjobs


def make_app(dsn):
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn, max_size=20))

    @app.task(queue="bench", name="noop")
    async def noop(t):
        harness.mark(t)

    return app


class Peer(harness.Async):
    NAME = "procrastinate"
    JOBS = 5_000
    SETTINGS = [{"procs": 1, "concurrency": 10}, {"procs": 2, "concurrency": 4}]

    def __init__(self):
        self.dsn = os.environ["BENCH_DSN"]
        self.app = make_app(self.dsn)
        self.opened = False

    async def ready(self):
        if not self.opened:
            await self.app.open_async()
            self.opened = True
        return self.app.tasks["noop"]

    def setup(self):
        async def install():
            await self.ready()
            await self.app.schema_manager.apply_schema_async()

        self.go(install())

    def enqueue_many(self, times):
        async def defer():
            task = await self.ready()
            for i in range(0, len(times), 1000):
                await task.batch_defer_async(*({"t": t} for t in times[i : i + 1000]))

        self.go(defer())

    def enqueue_one(self, t):
        async def defer():
            await (await self.ready()).defer_async(t=t)

        self.go(defer())

    def remaining(self):
        return harness.count(
            self.dsn, "select count(*) from procrastinate_jobs where status in ('todo', 'doing')"
        )

    def worker(self, concurrency):
        async def run():
            async with self.app.open_async():
                await self.app.run_worker_async(
                    queues=["bench"], concurrency=concurrency, delete_jobs="never"
                )

        self.go(run())

    def stale_completion(self):
        async def attempt():
            task = await self.ready()
            await task.defer_async(t=0.0)
            manager = self.app.job_manager
            first = await manager.register_worker()
            second = await manager.register_worker()
            stale = await manager.fetch_job(queues=None, worker_id=first)
            await manager.retry_job(stale)  # what a stalled-job sweep does
            fresh = await manager.fetch_job(queues=None, worker_id=second)
            assert fresh.id == stale.id
            try:
                await manager.finish_job(stale, pjobs.Status.SUCCEEDED, delete_job=False)
            except Exception:  # noqa: BLE001 (it has no type of its own for this)
                return "refused"
            return "accepted"

        return self.go(attempt())


if __name__ == "__main__":
    harness.main(Peer)
