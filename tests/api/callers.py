"""Callers for the tests of the API: each sends what a client on the network would send."""

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import Group, User
from django.test import Client

from coordinator.actors import system
from coordinator.services.credentials import create_credential, create_operator_token
from coordinator.services.queues import ensure_pool, ensure_queue

BASE = "/api/v1"
TESTS = system("tests")


@dataclass(frozen=True)
class Reply:
    status: int
    body: Any
    headers: dict[str, str]

    @property
    def outcome(self) -> str | None:
        return self.body.get("outcome") if isinstance(self.body, dict) else None

    @property
    def type(self) -> str:
        return str(self.body["type"]).rsplit("/", 1)[-1]

    @property
    def pointers(self) -> set[str]:
        return {error["pointer"] for error in self.body.get("errors", ())}


@dataclass
class Caller:
    """Somebody with a token."""

    token: str | None = None
    client: Client = field(default_factory=Client)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        key: str | None = None,
        content_type: str = "application/json",
        **headers: Any,
    ) -> Reply:
        sent = {
            "X-Claim-Contract": "claim.v1",
            **{name.replace("_", "-"): text for name, text in headers.items()},
        }
        if self.token:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        if key is not None:
            sent["Idempotency-Key"] = key
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        response = self.client.generic(method, BASE + path, data, content_type, headers=sent)
        content = response.getvalue()
        told = response.headers.get("Content-Type", "")
        parsed = json.loads(content) if "json" in told and content else content
        return Reply(response.status_code, parsed, dict(response.headers))

    def get(self, path: str, **headers: Any) -> Reply:
        return self.send("GET", path, None, **headers)

    def post(self, path: str, body: Any = None, *, key: str | None = None, **rest: Any) -> Reply:
        return self.send("POST", path, body, key=key, **rest)

    def keyed(self, path: str, body: Any) -> Reply:
        """A POST that needs an Idempotency-Key, under a new one."""
        return self.send("POST", path, body, key=new_key())


@dataclass
class Api:
    """One queue `q` of pool `blue` with a worker, a rival in the same queue, a stranger in `q2`, and people."""

    worker: Caller
    rival: Caller
    stranger: Caller
    viewer: Caller
    approver: Caller
    operator: Caller
    admin: Caller
    nobody: Caller

    def submit(self, *nodes: dict[str, Any]) -> dict[str, str]:
        """A run of these nodes, or of one; its tasks by node."""
        body = {"queue": "q", "nodes": list(nodes) or [node("a")]}
        reply = self.operator.keyed("/runs", body)
        assert reply.status == 201, reply
        return {task["node_id"]: task["task_id"] for task in reply.body["tasks"]}

    def claim(self, **fields: Any) -> dict[str, Any]:
        """One claim of the worker's."""
        reply = self.worker.keyed(
            "/queues/q/claims", {"scheduler_epoch": 1, "owner": "w-1", **fields}
        )
        assert reply.status == 200, reply
        assert len(reply.body["claims"]) == 1, reply
        claim: dict[str, Any] = reply.body["claims"][0]
        return claim

    def submitted_claim(self) -> dict[str, Any]:
        self.submit()
        return self.claim()


def node(node_id: str, *depends_on: str, **fields: Any) -> dict[str, Any]:
    return {
        "node_id": node_id,
        "kind": "step",
        "input": {"n": node_id},
        "depends_on": list(depends_on),
        **fields,
    }


def new_key() -> str:
    return str(uuid.uuid4())


def attempt_path(claim: dict[str, Any], verb: str) -> str:
    return f"/attempts/{claim['fence']['attempt_id']}/{verb}"


def commit_body(claim: dict[str, Any], result: Any = None, **fields: Any) -> dict[str, Any]:
    return {
        "fence": claim["fence"],
        "input_digest": claim["input_digest"],
        "result": {"done": True} if result is None else result,
        **fields,
    }


def make_world() -> Api:
    ensure_pool(name="blue", actor=TESTS)
    for queue in ("q", "q2"):
        ensure_queue(name=queue, active_pool="blue", actor=TESTS)
    return Api(
        worker=worker("worker"),
        rival=worker("rival"),
        stranger=worker("stranger", queues=["q2"]),
        viewer=person("viewer"),
        approver=person("approver"),
        operator=person("operator"),
        admin=person("admin"),
        nobody=Caller(),
    )


def worker(
    name: str, *, queues: list[str] | None = None, scopes: tuple[str, ...] = ("work",)
) -> Caller:
    _, token = create_credential(
        name=name, pool="blue", queues=queues or ["q"], scopes=list(scopes), actor=TESTS
    )
    return Caller(token)


def person(role: str) -> Caller:
    user = User.objects.create(username=f"{role}-{uuid.uuid4().hex[:6]}")
    user.groups.add(Group.objects.get(name=role))
    return Caller(create_operator_token(user=user, name="tests")[1])
