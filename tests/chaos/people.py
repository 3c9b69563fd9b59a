"""People around the fleet, as threads: one submits, one cancels, one reads. All are clients, and are observed."""

from __future__ import annotations

import random
import threading
import time
import uuid
from types import TracebackType
from typing import Any, Self

import httpx
import psycopg

from tests.chaos.downstream import KINDS
from tests.chaos.observations import Recorder
from tests.chaos.rig import QUEUE, Rig

#: So many tasks may be under way before no more are submitted: with a backlog nobody takes over what has lapsed.
MOST_OPEN = 16
SERIAL_KEYS = 3
_NO_ANSWER = frozenset({429, 502, 503, 504})


class Person:
    """A client with an operator's token: straight to the web servers, the same call until it is answered."""

    def __init__(self, rig: Rig, name: str) -> None:
        self.rig = rig
        self.random = random.Random(f"{rig.seed} {name}")
        self._recorder = Recorder(rig.seen, name)
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {rig.tokens['operator']}"}, timeout=6
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()
        self._recorder.close()

    def ask(self, method: str, path: str, body: Any = None, *, tries: int = 20) -> Any:
        """The answer's JSON; None where nobody answered. One observation, whatever it took."""
        key = uuid.uuid4().hex
        number = self._recorder.asked(path, body, key)
        for _ in range(tries):
            port = self.random.choice(self.rig.ports)
            try:
                reply = self._http.request(
                    method,
                    f"http://127.0.0.1:{port}/api/v1/{path}",
                    json=body,
                    headers={"Idempotency-Key": key} if body is not None else {},
                )
            except httpx.TransportError:
                time.sleep(0.1)
                continue
            if reply.status_code not in _NO_ANSWER:
                told = reply.json()
                self._recorder.heard(number, reply.status_code, told)
                return told
            time.sleep(0.2)
        return None


class Crowd:
    """Everybody, until the end of the `with`."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._over = threading.Event()
        self._tasks: list[str] = []
        self.errors: list[Exception] = []
        self._threads = [
            threading.Thread(target=self._run, args=(name, turn, pause), daemon=True)
            for name, turn, pause in (
                ("submitter", self._submit, 0.25),
                ("canceller", self._cancel, 1.0),
                ("reader", self._read, 0.1),
            )
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(180)
            assert not thread.is_alive(), "somebody never came back"

    @property
    def tasks(self) -> list[str]:
        return list(self._tasks)

    def _run(self, name: str, turn: Any, pause: float) -> None:
        with Person(self._rig, name) as person:
            while not self._over.wait(pause):
                try:
                    turn(person)
                except (psycopg.Error, OSError):
                    continue
                except Exception as error:  # noqa: BLE001 - told at the end of the run
                    self.errors.append(error)
                    return

    def _submit(self, person: Person) -> None:
        [(count,)] = self._rig.rows(
            "SELECT count(*) FROM coordinator_task WHERE state IN ('READY', 'CLAIMED')"
        )
        if count >= MOST_OPEN:
            return
        told = person.ask("POST", "runs", {"queue": QUEUE, "nodes": _diamond(person.random)})
        if told is not None:
            self._tasks += [task["task_id"] for task in told["tasks"]]

    def _cancel(self, person: Person) -> None:
        """What somebody holds and is at work on: what a frozen worker holds is left to be taken over."""
        found = self._rig.rows(
            "SELECT task_id::text FROM coordinator_task WHERE state = 'CLAIMED'"
            " AND lease_expires_at > clock_timestamp() + interval '3.5 seconds'"
            " ORDER BY random() LIMIT 1"
        )
        for (task_id,) in found:
            person.ask("POST", f"tasks/{task_id}/cancel", {"reason": "chaos"})

    def _read(self, person: Person) -> None:
        if self._tasks:
            recent = self._tasks[-60:]
            person.ask("GET", f"tasks/{person.random.choice(recent)}", tries=1)


def _diamond(chance: random.Random) -> list[dict[str, Any]]:
    """One task, two with an effect each that wait for it, and one that waits for both."""

    def effect(name: str) -> dict[str, Any]:
        kind = chance.choice(KINDS)
        node = {
            "node_id": name,
            "kind": "effect",
            "input": {
                "downstream": kind,
                "number": chance.randrange(1_000),
                "careless": chance.random() < 0.5,
            },
            "slots": {"out": kind},
            "depends_on": ["a"],
        }
        if chance.random() < 0.3:
            node["serial_key"] = f"key-{chance.randrange(SERIAL_KEYS)}"
        return node

    plain = {"kind": "plain", "input": {}}
    last = {"node_id": "d", **plain, "depends_on": ["b", "c"]}
    return [{"node_id": "a", **plain}, effect("b"), effect("c"), last]
