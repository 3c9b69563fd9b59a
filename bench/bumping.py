"""How long a bump waits while 16 clients commit at full rate, and whether anything old lands after it."""

import os
import threading
import time
from typing import Any, Final

from bench.clients import Api, percentile, submit
from bench.place import QUEUE, Place

CLIENTS: Final = 16
PAUSE_SECONDS: Final = 0.2


def bumps(place: Place, *, count: int) -> dict[str, Any]:
    """Milliseconds of each bump; commits of an old epoch that landed after its bump had returned must be none."""
    submit(place.target, nodes=count * 1_000)
    stop = threading.Event()
    clients = [
        threading.Thread(target=_client, args=(place, stop), daemon=True) for _ in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    try:
        waits = _bump(place, count)
    finally:
        stop.set()
        for client in clients:
            client.join(30)
    with place.connect() as connection:
        row = connection.execute(_LANDED_LATE).fetchone()
    assert row is not None
    waits.sort()
    return {
        "bumps": len(waits),
        "p50_ms": round(percentile(waits, 0.5), 1),
        "p99_ms": round(percentile(waits, 0.99), 1),
        "old_epoch_writes_after": row[0],
    }


def _client(place: Place, stop: threading.Event) -> None:
    api, epoch = Api(place.target), 1
    while not stop.is_set():
        body = {"scheduler_epoch": epoch, "owner": threading.current_thread().name, "limit": 10}
        answer = api.ask(f"/queues/{QUEUE}/claims", body, keyed=True)
        if answer.get("outcome") == "FENCED":
            epoch = answer["current"]["scheduler_epoch"]
            continue
        items = [
            {"fence": claim["fence"], "input_digest": claim["input_digest"], "result": {"ok": True}}
            for claim in answer["claims"]
        ]
        if items:
            api.ask(f"/queues/{QUEUE}/commits", {"commits": items})


def _bump(place: Place, count: int) -> list[float]:
    import django

    os.environ.update(place.environment, DJANGO_SETTINGS_MODULE="coordinator.site.settings")
    django.setup()
    from coordinator.actors import system
    from coordinator.services.epochs import Bumped, bump_epoch

    waits = []
    for epoch in range(1, count + 1):
        time.sleep(PAUSE_SECONDS)
        begin = time.perf_counter()
        done = bump_epoch(
            queue=QUEUE, expected_epoch=epoch, reason="measured", actor=system("bench")
        )
        assert isinstance(done, Bumped), done
        waits.append((time.perf_counter() - begin) * 1000)
    return waits


#: Events are numbered while the queue's gate is held, so that their order is the gate's.
_LANDED_LATE: Final = """
SELECT count(*) FROM coordinator_event c
JOIN coordinator_event b ON b.queue_id = c.queue_id AND b.kind = 'EPOCH_BUMPED' AND b.id < c.id
WHERE c.kind = 'COMMITTED' AND (c.data->>'scheduler_epoch')::bigint <= (b.data->>'from')::bigint
"""
