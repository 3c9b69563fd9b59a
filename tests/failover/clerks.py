"""Workers under load that write down every answer they got: what was acknowledged must be true ever after.

They are plain clients of the API. One that gets no answer, or a refusal, leaves its claim as it is and asks for the
next: nobody repeats anything, so that each call has happened at most once by their own doing.
"""

import threading
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.cases.second_server import QUEUE, Site, deliver
from tests.downstreams.service import Service

PAUSE_SECONDS = 0.1
#: A lease is no hurdle in these stories: what is left behind is ended by the restore.
TTL_SECONDS = 300


class NotGranted(Exception):
    """A refusal, or a server that is not well."""


@dataclass
class Acknowledged:
    """What clients know for certain: by task its canonical commit, by effect its task; and what they were told else."""

    fences: list[Any] = field(default_factory=list)
    commits: dict[str, str] = field(default_factory=dict)
    sent: dict[str, str] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)
    told: Counter[str] = field(default_factory=Counter)


class Clerks:
    """`count` threads that claim, perform and commit until they are stopped."""

    def __init__(self, site: Site, outside: Service, *, count: int = 3) -> None:
        self.site = Site(site.up, site.tokens)  # an impatient one
        self.outside = outside
        self.acknowledged = Acknowledged()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(count)]

    def put_to_work(self, stack: ExitStack) -> "Clerks":
        """At work until they are stopped; when the stack is closed, at the latest."""
        for thread in self._threads:
            thread.start()
        stack.callback(self.stop)
        return self

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a clerk never came back"

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._one():
                    self._stop.wait(PAUSE_SECONDS)
            except (NotGranted, httpx.HTTPError) as error:
                self.acknowledged.told[str(error) or type(error).__name__] += 1
                self._stop.wait(PAUSE_SECONDS)

    def _one(self) -> bool:
        """One task from its claim to its commit; False where there was none."""
        epoch = _granted(self.site.ask(f"/queues/{QUEUE}"))["scheduler_epoch"]
        wanted = {
            "scheduler_epoch": epoch,
            "owner": "clerk",
            "ttl_seconds": TTL_SECONDS,
            "limit": 1,
        }
        claims = _granted(self.site.ask(f"/queues/{QUEUE}/claims", wanted))["claims"]
        for claimed in claims:
            self.acknowledged.fences.append(claimed["fence"])
            if claimed["kind"] == "pay":
                self.pay(claimed)
            self.commit(claimed)
        return bool(claims)

    def pay(self, claimed: Any) -> Any:
        """Perform the task's effect; the effect."""
        effect = self.prepare(claimed)
        if effect["state"] == "COMMITTED":
            return effect
        dispatch = self.accept(claimed, effect)
        self.send(claimed, effect)
        self.report(claimed, effect, dispatch)
        return effect

    def prepare(self, claimed: Any) -> Any:
        attempt, fence = claimed["fence"]["attempt_id"], claimed["fence"]
        body = {"slot": "out", "downstream": "pay", "payload": {"to": claimed["node_id"]}}
        reply = self.site.ask(f"/attempts/{attempt}/effects", {"fence": fence, **body})
        return _granted(reply)["effect"]

    def accept(self, claimed: Any, effect: Any) -> str:
        return str(_granted(self.site.try_accept(claimed, effect))["dispatch_id"])

    def send(self, claimed: Any, effect: Any) -> None:
        """The outside acts on each arrival."""
        self.acknowledged.sent[effect["effect_id"]] = claimed["fence"]["task_id"]
        deliver(self.outside, effect)

    def report(self, claimed: Any, effect: Any, dispatch: str) -> None:
        body = {"fence": claimed["fence"], "dispatch_id": dispatch, "outcome": "COMMITTED"}
        path = f"/effects/{effect['effect_id']}/report"
        _granted(self.site.ask(path, {**body, "receipt": "r"}))
        self.acknowledged.reported.add(effect["effect_id"])

    def commit(self, claimed: Any) -> None:
        answer = _granted(self.site.try_commit(claimed))
        self.acknowledged.commits[claimed["fence"]["task_id"]] = answer["result_commit_id"]


def _granted(reply: httpx.Response) -> Any:
    if not reply.is_success:
        told = reply.json() if "json" in reply.headers.get("content-type", "") else {}
        raise NotGranted(f"{reply.status_code} {told.get('outcome', '')}".strip())
    return reply.json()
