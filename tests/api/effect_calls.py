"""What clients send about effects and approvals, as the tests of the API use it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from coordinator.models import Event
from tests.history import nothing_moves

from .callers import Api, Caller, Reply, attempt_path, new_key, node, worker

PAYLOAD = {"to": "someone", "text": "hello"}
#: The shape of ids and digests that name nothing.
NO_EFFECT = "0" * 64
NO_DIGEST = "sha256:" + "0" * 64
BAD_IDS = ["7", "x" * 64, "0" * 63, "0" * 65, "..%2f..%2fadmin"]


@dataclass
class Sender:
    """The worker of an Api with a claimed task, whose one slot goes to a downstream of one guarantee."""

    api: Api
    claim: dict[str, Any]
    effect: dict[str, Any]

    @property
    def fence(self) -> dict[str, Any]:
        fence: dict[str, Any] = self.claim["fence"]
        return fence

    @property
    def path(self) -> str:
        return f"/effects/{self.effect['effect_id']}"

    def prepare(self, *, by: Caller | None = None, **fields: Any) -> Reply:
        body = {"fence": self.fence, "slot": "out", "downstream": "there", "payload": PAYLOAD}
        return (by or self.api.worker).post(attempt_path(self.claim, "effects"), body | fields)

    def accept(self, *, by: Caller | None = None, key: str | None = None, **fields: Any) -> Reply:
        body = {"fence": self.fence, "payload_digest": self.effect["payload_digest"]}
        path = f"{self.path}/accept"
        return (by or self.api.worker).post(path, body | fields, key=key or new_key())

    def accepted(self) -> dict[str, Any]:
        reply = self.accept()
        assert reply.status == 200, reply
        body: dict[str, Any] = reply.body
        return body

    def report(self, dispatch: dict[str, Any], *, by: Caller | None = None, **fields: Any) -> Reply:
        body = {"fence": self.fence, "dispatch_id": dispatch["dispatch_id"], "outcome": "UNKNOWN"}
        sent = {name: value for name, value in (body | fields).items() if value is not None}
        return (by or self.api.worker).post(f"{self.path}/report", sent)

    def look_up(self, *, by: Caller | None = None, **fields: Any) -> Reply:
        return (by or self.api.worker).post(f"{self.path}/lookups", {"fence": self.fence} | fields)

    def happened(self, *, by: Caller | None = None, **fields: Any) -> Reply:
        return self.reconcile(by=by, finding="HAPPENED", receipt={"ref": 1}, **fields)

    def absent(self, *, by: Caller | None = None, **fields: Any) -> Reply:
        """Looked up by the key, and not there."""
        started = self.look_up(by=by, **({"fence": None} if "fence" in fields else {}))
        assert started.status == 201, started
        lookup_id = started.body["lookup_id"]
        return self.reconcile(by=by, finding="NOT_HAPPENED", lookup_id=lookup_id, **fields)

    def reconcile(self, *, by: Caller | None = None, **fields: Any) -> Reply:
        body = {
            "fence": self.fence,
            "finding": "HAPPENED",
            "dispatches": 1,
            "evidence": {"method": "query", "detail": "asked by its key"},
        }
        sent = {name: value for name, value in (body | fields).items() if value is not None}
        return (by or self.api.worker).post(f"{self.path}/reconcile", sent)

    def redeem(self, dispatch: dict[str, Any], *, by: Caller, **fields: Any) -> Reply:
        body = {
            "dispatch_id": dispatch["dispatch_id"],
            "redeem_id": "arrival-1",
            "fencing_token": dispatch["fencing_token"],
            "payload_digest": self.effect["payload_digest"],
        }
        return by.post(f"{self.path}/redeem", body | fields, key=new_key())

    def state(self) -> str:
        return str(self.api.operator.get(self.path).body["effect"]["state"])


def register(api: Api, guarantee: str, *, name: str = "there", **fields: Any) -> None:
    valid = {"key_valid_seconds": 3600} if guarantee == "IDEMPOTENT_KEY" else {}
    body = {"name": name, "kind": "http", "guarantee": guarantee, **valid, **fields}
    reply = api.admin.post("/downstreams", body)
    assert reply.status == 201, reply


def sender(api: Api, guarantee: str = "IDEMPOTENT_KEY", **fields: Any) -> Sender:
    """A claimed task whose effect is PREPARED."""
    register(api, guarantee, **fields)
    api.submit(node("a", slots={"out": "there"}))
    made = Sender(api, api.claim(), {})
    reply = made.prepare()
    assert reply.status == 201, reply
    made.effect = reply.body["effect"]
    return made


def gate(name: str = "gate", *, queues: list[str] | None = None) -> Caller:
    return worker(name, queues=queues, scopes=("gate",))


def refused(reply: Reply, status: int, outcome: str) -> Reply:
    assert (reply.status, reply.outcome) == (status, outcome), reply
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert reply.headers["Cache-Control"] == "no-store"
    return reply


def told(outcome: str) -> int:
    """How often a refusal with this outcome is on record, repeats included."""
    events = Event.objects.filter(kind="REFUSED", data__outcome=outcome)
    return sum(1 + event.repeats for event in events)


@contextmanager
def refused_and_recorded(outcome: str) -> Iterator[None]:
    """What happens inside is refused with `outcome`, is put on record, and moves nothing."""
    before = told(outcome)
    with nothing_moves():
        yield
    assert told(outcome) > before
