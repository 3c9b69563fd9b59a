"""Measuring one peer: drain a backlog, then a paced load, then a completion that comes too late.

A peer's script defines a class and ends with `harness.main(Peer)`:

  NAME, SETTINGS       how it is called; one modest setting (one process) and the best found for two
  setup()              create its schema in an empty database
  enqueue_many(times)  enqueue one task per time stamp, by the best bulk call that it offers
  enqueue_one(t)       enqueue a single task
  worker(**settings)   run a worker in this process until SIGTERM
  remaining()          tasks not yet completed (claimed ones count as remaining)
  stale_completion()   optional: "refused" or "accepted", tried for real

A task calls `mark(t)`, which appends (time of enqueue, time of start) to a file that all
workers share.
"""

import argparse
import asyncio
import inspect
import json
import os
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path

RECORD = struct.Struct("<dd")
STOP_SECONDS = 8
PACED_WAIT_SECONDS = 10
ENQUEUED_ALONE = 200


@lru_cache(maxsize=1)
def _log_descriptor():
    return os.open(os.environ["BENCH_LOG"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)


def mark(enqueued):
    """The task itself: note that it has started."""
    os.write(_log_descriptor(), RECORD.pack(enqueued, time.time()))


class Async:
    """For peers on asyncio: `self.go(coroutine)` runs it to its end."""

    _loop = None

    def go(self, coroutine):
        if self._loop is None:
            type(self)._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop.run_until_complete(coroutine)


class Log:
    """What the workers have started."""

    def __init__(self, name):
        self.path = Path(tempfile.mkdtemp(prefix="peer-")) / name.replace(" ", "_")

    def __len__(self):
        return self.path.stat().st_size // RECORD.size if self.path.exists() else 0

    def records(self, skip=0):
        return list(RECORD.iter_unpack(self.path.read_bytes()[skip * RECORD.size :]))


class Workers:
    """So many worker processes of the peer; gone when it is left."""

    def __init__(self, log, procs, settings):
        self.log, self.procs, self.settings = log, procs, settings

    def __enter__(self):
        self._stack = ExitStack()
        out = self._stack.enter_context(Path(f"{self.log.path}.err").open("ab"))
        command = [sys.executable, "-W", "ignore", sys.argv[0], "--worker"]
        self.processes = [
            subprocess.Popen(
                [*command, json.dumps(self.settings)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
            for _ in range(self.procs)
        ]
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._stack.close()

    def require_alive(self):
        if any(process.poll() not in (None, 0) for process in self.processes):
            raise RuntimeError(f"a worker died, see {self.log.path}.err")


def drain(peer, workers, jobs, limit):
    """Seconds from the first start to the last completion, and how many were completed."""
    log, begin = workers.log, time.time()
    while time.time() - begin < limit:
        workers.require_alive()
        if len(log) >= jobs and peer.remaining() == 0:
            break
        time.sleep(0.02 if len(log) < jobs else 0.05)
    end, starts = time.time(), [start for _, start in log.records()] if len(log) else []
    return (end - min(starts) if starts else limit), jobs - peer.remaining()


def paced(peer, log, rate, seconds):
    """Milliseconds from enqueue to start while the workers are otherwise idle."""
    before, count, begin = len(log), int(rate * seconds), time.time()
    for i in range(count):
        time.sleep(max(0, begin + i / rate - time.time()))
        peer.enqueue_one(time.time())
    until = time.time() + PACED_WAIT_SECONDS
    while len(log) < before + count and time.time() < until:
        time.sleep(0.05)
    waits = sorted((start - enqueued) * 1000 for enqueued, start in log.records(before))
    if not waits:
        return {}
    return {
        "start_p50_ms": round(statistics.median(waits), 1),
        "start_p95_ms": round(percentile(waits, 0.95), 1),
    }


def percentile(values, share):
    """Of sorted values."""
    return values[min(len(values) - 1, int(share * len(values)))]


def measure(peer_class, setting, options):
    """One row: a backlog drained with this setting, then the paced load."""
    empty_database(options.dsn)
    log = Log(peer_class.NAME)
    os.environ["BENCH_LOG"] = str(log.path)
    peer, jobs, settings = peer_class(), options.jobs, dict(setting)
    peer.setup()
    begin = time.time()
    peer.enqueue_many([time.time()] * jobs)
    bulk = jobs / (time.time() - begin)
    analyze(options.dsn)
    with Workers(log, settings.pop("procs"), settings) as workers:
        seconds, completed = drain(peer, workers, jobs, options.limit)
        row = {
            "peer": peer_class.NAME,
            "procs": setting["procs"],
            "settings": settings,
            "jobs_per_s": round(completed / seconds),
            "enqueue_per_s": round(bulk),
            "complete": completed == jobs,
        }
        if completed == jobs:
            row |= paced(peer, log, options.rate, options.seconds)
            begin = time.time()
            for _ in range(ENQUEUED_ALONE):
                peer.enqueue_one(time.time())
            row["enqueue_one_per_s"] = round(ENQUEUED_ALONE / (time.time() - begin))
        return row


def late(peer_class, options):
    """Whether a completion by a worker whose task has gone to another is refused."""
    empty_database(options.dsn)
    os.environ["BENCH_LOG"] = os.devnull
    peer = peer_class()
    peer.setup()
    return {"peer": peer_class.NAME, "late_completion": peer.stale_completion()}


def empty_database(dsn):
    """Drop and create the database that the DSN names; brokers' addresses are left alone."""
    if not dsn.startswith("postgresql"):
        return
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict

    server = conninfo_to_dict(dsn)
    name = sql.Identifier(server.pop("dbname"))
    with psycopg.connect(**server, dbname="postgres", autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
        connection.execute("CHECKPOINT")


def analyze(dsn):
    """What autovacuum does within a minute of a bulk load: fresh statistics for the planner."""
    if dsn.startswith("postgresql"):
        import psycopg

        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")


def count(dsn, query):
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(query).fetchone()[0]


def main(peer_class):
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[peer_class.__module__]))
    parser.add_argument("--dsn", default=os.environ.get("BENCH_DSN", ""))
    parser.add_argument("--jobs", type=int, default=getattr(peer_class, "JOBS", 10_000))
    parser.add_argument("--limit", type=float, default=60, help="seconds allowed for one backlog")
    parser.add_argument("--rate", type=float, default=50, help="tasks a second of the paced load")
    parser.add_argument("--seconds", type=float, default=6, help="how long it lasts")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--setting", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--late", action="store_true", help="only try a late completion")
    options = parser.parse_args()
    os.environ["BENCH_DSN"] = options.dsn
    if options.worker:
        peer_class().worker(**json.loads(options.worker))
    elif options.setting is not None:
        tell(measure(peer_class, peer_class.SETTINGS[options.setting], options))
    elif options.late:
        tell(late(peer_class, options))
    else:
        for row in _each_in_its_own_process(peer_class):
            tell(row)


def _each_in_its_own_process(peer_class):
    """No pool or connection outlives the database that it was made for."""
    runs = [["--setting", str(number)] for number in range(len(peer_class.SETTINGS))]
    if hasattr(peer_class, "stale_completion"):
        runs.append(["--late"])
    for run in runs:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", *sys.argv, *run],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        rows = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if rows:
            yield json.loads(rows[-1])
        else:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            yield {"peer": peer_class.NAME, "error": last[:300]}


def tell(row):
    print(json.dumps(row), flush=True)
