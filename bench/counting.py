"""What counting each write costs: claim, renew and commit with the counting triggers and without, one after the other.

    python -m bench.counting             the ratios, on a private server with stock durability
    python -m bench.counting --rounds 5  fewer blocks of each kind

One process, no HTTP. Processor time, ours and that of our PostgreSQL process, so that a busy machine does not matter
much; the two kinds of block alternate, and what is told is the median of the ratios of neighbours.
"""

import argparse
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.place import QUEUE, Place

BATCHES = 6  # of 100, in a block
SINGLES = 150


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.counting", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="blocks of each kind")
    rounds = parser.parse_args().rounds
    place = Place()
    place.postgres.start()
    try:
        place.manage("migrate", "--verbosity", "0", TENURE_DB_TIMEOUTS="off")
        os.environ.update(place.environment, DJANGO_SETTINGS_MODULE="coordinator.site.settings")
        measure(rounds)
    finally:
        place.postgres.stop()
        shutil.rmtree(place.folder, ignore_errors=True)


def measure(rounds: int) -> None:
    import django

    django.setup()
    from django.db import connection

    from coordinator.models import Pool, Queue

    Queue.objects.create(name=QUEUE, active_pool=Pool.objects.create(name="bench"))
    blocks: dict[str, Callable[[], dict[str, float]]] = {
        "batch of 100": lambda: block(100, BATCHES),
        "one task a call": lambda: block(1, SINGLES),
    }
    for name, run in blocks.items():
        run()  # plans and caches
        ratios: dict[str, list[float]] = {}
        for _ in range(rounds):
            counted = run()
            with uncounted():
                plain = run()
            for verb, seconds in counted.items():
                ratios.setdefault(verb, []).append(seconds / plain[verb])
        told = ", ".join(
            f"{verb} {100 * (statistics.median(each) - 1):+.1f} %" for verb, each in ratios.items()
        )
        print(f"{name}: {told}")
    connection.close()


@contextmanager
def uncounted() -> Iterator[None]:
    """No counting triggers, and nothing shown to them."""
    from coordinator import passes, pipeline

    real = pipeline.run

    def without(connection: Any, statements: Any) -> list[list[tuple[Any, ...]]]:
        shown = [statement.sql == passes._PRESENT for statement in statements]
        rows = iter(
            real(connection, [s for s, hides in zip(statements, shown, strict=True) if not hides])
        )
        return [[] if hides else next(rows) for hides in shown]

    switch("DISABLE")
    setattr(pipeline, "run", without)  # noqa: B010 (mypy sees a function there)
    try:
        yield
    finally:
        setattr(pipeline, "run", real)  # noqa: B010
        switch("ENABLE")


def switch(verb: str) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE tgname ~ '_counted_(insert|update|delete)$'"
        )
        for table, name in cursor.fetchall():
            cursor.execute(f"ALTER TABLE {table} {verb} TRIGGER {name}")


def processor_seconds() -> float:
    """Of this process and of the PostgreSQL process that serves it."""
    from django.db import connection

    connection.ensure_connection()
    served = Path(f"/proc/{connection.connection.info.backend_pid}/schedstat").read_text()
    return time.process_time() + int(served.split()[0]) / 1e9


def block(size: int, times: int) -> dict[str, float]:
    """Processor seconds in claims, renewals and commits; submitting and rolling up are not counted."""
    from coordinator.actors import Actor, ActorKind, Worker, system
    from coordinator.services.claims import Claimed, claim_tasks
    from coordinator.services.commits import CommitItem, commit_results
    from coordinator.services.coverage import roll_up_coverage
    from coordinator.services.graphs import NodeSpec
    from coordinator.services.leases import Renewal, renew_leases
    from coordinator.services.runs import submit_run

    nodes = [NodeSpec(node_id=f"n{i}", kind="noop", input={"n": i}) for i in range(size * times)]
    submit_run(
        queue=QUEUE, name="b", metadata={}, nodes=nodes, actor=Actor(ActorKind.OPERATOR, "b")
    )
    by = Worker(
        kind=ActorKind.WORKER,
        name="b",
        id=1,
        pool="bench",
        queues=frozenset({QUEUE}),
        contract="claim.v1",
    )
    spent = {"claim": 0.0, "renew": 0.0, "commit": 0.0}

    def timed(verb: str, call: Callable[[], Any]) -> Any:
        begin = processor_seconds()
        answer = call()
        spent[verb] += processor_seconds() - begin
        return answer

    for _ in range(times):
        got = timed(
            "claim",
            lambda: claim_tasks(queue=QUEUE, worker=by, scheduler_epoch=1, owner="b", limit=size),
        )
        assert isinstance(got, Claimed), got
        renewals = [Renewal(c.fence.attempt_id, c.fence, c.owner) for c in got.claims]
        timed("renew", partial(renew_leases, items=renewals, worker=by))
        items = [
            CommitItem(c.fence.attempt_id, c.fence, c.input_digest, result={"ok": True})
            for c in got.claims
        ]
        timed("commit", partial(commit_results, items=items, worker=by))
    roll_up_coverage(actor=system("coverage"))
    return spent | {"all three": sum(spent.values())}


if __name__ == "__main__":
    main()
