"""Many live leases renewed, a lapsed one served again, and what both cost."""

import os
import time
from pathlib import Path
from typing import Any, Final

from bench.clients import Api, percentile, submit
from bench.place import QUEUE, Place

LEASES: Final = 10_000
EVERY_SECONDS: Final = 10.0
BATCH: Final = 100
LAPSING: Final = 100
SHORTEST_TTL_SECONDS: Final = 5
TICKS: Final = os.sysconf("SC_CLK_TCK")


def renewals(place: Place, *, rounds: int = 3, leases: int = LEASES) -> dict[str, Any]:
    """Renew so many leases every ten seconds: the share of one core that it takes, and of HOT updates."""
    submit(place.target, nodes=leases, kind="held")
    api = Api(place.target)
    fences: list[dict[str, Any]] = []
    while len(fences) < leases:
        fences += [
            claim["fence"] for claim in api.claim("holder", BATCH, ttl_seconds=300, kinds=["held"])
        ]
    time.sleep(1.2)  # until the backends have told their counts
    before, cpu = _updates(place), _processor_seconds(place)
    for _ in range(rounds):
        for first in range(0, leases, BATCH):
            items = [{"fence": fence, "owner": "holder"} for fence in fences[first : first + BATCH]]
            answers = api.post(f"/queues/{QUEUE}/renewals", {"renewals": items})["results"]
            assert all(answer["outcome"] == "RENEWED" for answer in answers), answers[0]
    spent = _processor_seconds(place) - cpu
    time.sleep(1.2)
    after = _updates(place)
    updates, hot = after[0] - before[0], after[1] - before[1]
    return {
        "leases": leases,
        "core_share": round(spent / rounds / EVERY_SECONDS * (LEASES / leases), 3),
        "hot_share": round(hot / updates, 4) if updates else None,
    }


def reclaims(place: Place) -> dict[str, Any]:
    """Milliseconds from a lease's end to its task's next grant, with a claimant that asks every 50 ms."""
    submit(place.target, nodes=LAPSING, kind="lapsing")
    api = Api(place.target)
    old = api.claim("silent", LAPSING, ttl_seconds=SHORTEST_TTL_SECONDS, kinds=["lapsing"])
    taken = 0
    until = time.monotonic() + 4 * SHORTEST_TTL_SECONDS
    while taken < len(old) and time.monotonic() < until:
        taken += len(api.claim("next", LAPSING, kinds=["lapsing"]))
        time.sleep(0.05)
    with place.connect() as connection:
        rows = connection.execute(
            "SELECT extract(epoch FROM n.started_at - o.lease_expires_at) * 1000 FROM coordinator_attempt o"
            " JOIN coordinator_attempt n ON n.task_id = o.task_id AND n.claim_generation = o.claim_generation + 1"
            " WHERE o.attempt_id = ANY(%s::uuid[])",
            ([claim["fence"]["attempt_id"] for claim in old],),
        ).fetchall()
    waits = sorted(float(row[0]) for row in rows)
    return {"tasks": len(waits), "p95_ms": round(percentile(waits, 0.95), 1)}


def _updates(place: Place) -> tuple[int, int]:
    with place.connect() as connection:
        row = connection.execute(
            "SELECT sum(n_tup_upd)::bigint, sum(n_tup_hot_upd)::bigint FROM pg_stat_user_tables"
            " WHERE relname IN ('coordinator_task', 'coordinator_attempt')"
        ).fetchone()
    assert row is not None
    return row[0], row[1]


def _processor_seconds(place: Place) -> float:
    """Of the web processes and of PostgreSQL with all its backends, those that have ended included."""
    assert place.web is not None
    assert place.postgres.process is not None
    total = 0
    for parent in (place.web.pid, place.postgres.process.pid):
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        total += sum(
            int(field) for field in _times(str(parent))[:4]
        )  # the ended ones stand in its own
        total += sum(int(field) for pid in children for field in _times(pid)[:2])
    return total / TICKS


def _times(pid: str) -> list[str]:
    """utime, stime, and those of its ended children, in ticks (proc(5)); of one that has just ended, nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
    except OSError:
        return []
