"""Processor time of single things, in the web processes and in PostgreSQL: python -m bench.costs (docs/capacity.md).

One caller, one call after the other, so that nothing is shared and nothing waits; and at last a crowd of callers, whose
calls go together.
"""

import http.client
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench import clients
from bench.place import QUEUE, Place

LEASES: Final = 500
BATCH: Final = 100
WARM: Final = 20
CROWD, CROWD_SECONDS = 32, 5.0


def main() -> None:
    with Place() as place:
        clients.submit(place.target, nodes=6_000)
        call = _caller(place)
        claims = [each for _ in range(LEASES // BATCH) for each in _claim(call, BATCH)]
        meter = _Meter(place)
        meter.tell("a renewal, one a call", 800, lambda n: _renew(call, claims[n % LEASES]))
        meter.tell(
            f"a renewal in batches of {BATCH}",
            60,
            lambda n: call(
                f"/queues/{QUEUE}/renewals",
                {"renewals": [_renewal(c) for c in claims[n % 5 * BATCH :][:BATCH]]},
            ),
            per=BATCH,
        )
        meter.tell("a task, one a call", 600, lambda _: [_commit(call, c) for c in _claim(call, 1)])
        meter.tell(
            f"a task in batches of {BATCH}",
            20,
            lambda _: call(
                f"/queues/{QUEUE}/commits", {"commits": [_result(c) for c in _claim(call, BATCH)]}
            ),
            per=BATCH,
        )
        meter.tell("a look for work", 400, lambda _: call(f"/queues/{QUEUE}/hint", None))
        meter.tell_of_crowd(place)


class _Meter:
    def __init__(self, place: Place) -> None:
        assert place.web is not None
        (lock,) = place.folder.glob("**/postmaster.pid")
        self._roots = (place.web.pid, int(lock.read_text().split()[0]))

    def tell_of_crowd(self, place: Place) -> None:
        """A task, one a call, of twice CROWD callers at once."""
        shape = {"batch": 1, "processes": 2, "lanes": CROWD}
        clients.submit(place.target, nodes=int(CROWD_SECONDS * 1_500) + 2_000)
        clients.cycles(place.target, **shape, seconds=1.0)  # warm
        before = [_milliseconds(root) for root in self._roots]
        done = clients.cycles(place.target, **shape, seconds=CROWD_SECONDS).committed
        web, postgres = (
            (_milliseconds(root) - was) / done
            for root, was in zip(self._roots, before, strict=True)
        )
        what = f"a task, one a call, {2 * CROWD} callers at once"
        print(f"{what}: web {web:.3f} ms, PostgreSQL {postgres:.3f} ms")

    def tell(self, what: str, times: int, do: Callable[[int], object], *, per: int = 1) -> None:
        for number in range(WARM):
            do(number)
        before = [_milliseconds(root) for root in self._roots]
        for number in range(times):
            do(number)
        web, postgres = (
            (_milliseconds(root) - was) / times / per
            for root, was in zip(self._roots, before, strict=True)
        )
        print(f"{what}: web {web:.3f} ms, PostgreSQL {postgres:.3f} ms")


def _milliseconds(root: int) -> float:
    """Processor time of a process and its living descendants."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    total, left = 0, [root]
    while left:
        pid = left.pop()
        left += children.get(pid, [])
        for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            total += int(task.read_text().split()[0])
    return total / 1e6


def _caller(place: Place) -> Callable[[str, Any], Any]:
    connection = http.client.HTTPConnection("127.0.0.1", place.port)

    def call(path: str, body: Any) -> Any:
        headers = {
            "Authorization": f"Bearer {place.token}",
            "Content-Type": "application/json",
            "X-Claim-Contract": "claim.v1",
            "Idempotency-Key": str(uuid.uuid4()),
        }
        verb, sent = ("GET", None) if body is None else ("POST", json.dumps(body))
        connection.request(verb, f"/api/v1{path}", sent, headers)
        answer = connection.getresponse()
        told = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{path}: {answer.status} {told!r}")
        return json.loads(told)

    return call


def _claim(call: Callable[[str, Any], Any], limit: int) -> list[Any]:
    wanted = {"scheduler_epoch": 1, "owner": "w", "limit": limit}
    claims: list[Any] = call(f"/queues/{QUEUE}/claims", wanted)["claims"]
    return claims


def _renewal(claim: Any) -> dict[str, Any]:
    return {"fence": claim["fence"], "owner": "w", "ttl_seconds": 60}


def _result(claim: Any) -> dict[str, Any]:
    return {
        "fence": claim["fence"],
        "input_digest": claim["input_digest"],
        "result": {"ok": True},
    }


def _renew(call: Callable[[str, Any], Any], claim: Any) -> object:
    return call(f"/attempts/{claim['fence']['attempt_id']}/renew", _renewal(claim))


def _commit(call: Callable[[str, Any], Any], claim: Any) -> object:
    return call(f"/attempts/{claim['fence']['attempt_id']}/commit", _result(claim))


if __name__ == "__main__":
    main()
