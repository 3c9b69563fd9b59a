"""A worker that was looked up lately is not looked up again, and what it was is confirmed where it acts (ADR 0024)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from coordinator.access import Operation
from coordinator.actors import ActorKind, Worker
from coordinator.api import callers as api_callers
from coordinator.api.endpoint import Spec
from coordinator.api.remembering import WORKERS, RememberedWorkers
from coordinator.clock import read_clock
from coordinator.models import Credential, Event, Task
from coordinator.selectors.credentials import FoundWorker, find_worker
from coordinator.tokens import Token, read_token
from tests import world
from tests.world import Rival, fingerprint

from .callers import Api, Caller, Reply, attempt_path, commit_body, make_world

CLAIM = {"scheduler_epoch": 1, "owner": "w-1"}


def specs(patterns: Any = None) -> list[Spec]:
    """Of every method of every route of the API."""
    found = []
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        if isinstance(pattern, URLResolver):
            found += specs(pattern.url_patterns)
        elif isinstance(pattern, URLPattern):
            view = getattr(pattern.callback, "view_class", None)
            methods = [getattr(view, name, None) for name in ("get", "post", "put", "patch")]
            told = (getattr(method, "spec", None) for method in methods)
            found += [spec for spec in told if spec is not None]
    return found


def renewal(claim: dict[str, Any]) -> dict[str, Any]:
    return {"fence": claim["fence"], "owner": "w-1"}


#: A call that would succeed, for each operation whose service confirms its caller.
CALLS: dict[Operation, Callable[[Api, dict[str, Any]], Reply]] = {
    Operation.CLAIM_TASKS: lambda api, _: api.worker.keyed("/queues/q/claims", CLAIM),
    Operation.CLAIM_TASK: lambda api, _: api.worker.keyed(
        f"/tasks/{Task.objects.get(node_id='next').task_id}/claims",
        {**CLAIM, "expected_state_version": 1},
    ),
    Operation.RENEW_LEASE: lambda api, claim: api.worker.post(
        attempt_path(claim, "renew"), renewal(claim)
    ),
    Operation.RENEW_LEASES: lambda api, claim: api.worker.post(
        "/queues/q/renewals", {"renewals": [renewal(claim)]}
    ),
    Operation.STAGE_RESULT: lambda api, claim: api.worker.post(
        attempt_path(claim, "stage"), {"fence": claim["fence"], "result": 1}
    ),
    Operation.COMMIT_RESULT: lambda api, claim: api.worker.post(
        attempt_path(claim, "commit"), commit_body(claim)
    ),
    Operation.COMMIT_RESULTS: lambda api, claim: api.worker.post(
        "/queues/q/commits", {"commits": [commit_body(claim)]}
    ),
    Operation.FAIL_ATTEMPT: lambda api, claim: api.worker.post(
        attempt_path(claim, "fail"),
        {"fence": claim["fence"], "error": {"type": "E", "message": "m"}, "retryable": False},
    ),
    Operation.RELEASE_ATTEMPT: lambda api, claim: api.worker.post(
        attempt_path(claim, "release"), {"fence": claim["fence"]}
    ),
}
#: Calls that come to nothing before a transaction would confirm who sends them.
FAULTS: dict[str, Callable[[Api], Reply]] = {
    "no JSON": lambda api: api.worker.post("/queues/q/commits", raw=b"{"),
    "another queue": lambda api: api.worker.keyed("/queues/q2/claims", CLAIM),
    "no such attempt": lambda api: api.worker.post(
        "/attempts/none/renew",
        renewal({"fence": dict.fromkeys(("task_id", "attempt_id"), "01" * 16)}),
    ),
    "no good item": lambda api: api.worker.post("/queues/q/commits", {"commits": [{}, {}]}),
    "a result that has no digest": lambda api: api.worker.post(
        "/queues/q/commits", {"commits": [{"result": 1e400}]}
    ),
    "no key": lambda api: api.worker.post("/queues/q/claims", CLAIM),
}


@pytest.fixture
def remembered(api: Api) -> tuple[Api, dict[str, Any]]:
    """A worker with a claim, and a task more; its next hot call is not preceded by a look-up."""
    api.submit({"node_id": "first", "kind": "k", "input": 1, "priority": 9})
    claim = api.claim()
    api.submit({"node_id": "next", "kind": "k", "input": 1})
    assert WORKERS.recall(token_of(api)) is not None
    return api, claim


def token_of(api: Api) -> Any:
    return read_token(api.worker.token or "")


def end(how: str) -> None:
    now = read_clock()
    change: dict[str, dict[str, Any]] = {
        "revoked": {"revoked_at": now, "revoked_by": "operator:olga"},
        "expired": {"expires_at": now - timedelta(seconds=1)},
    }
    Credential.objects.filter(name="worker").update(**change[how])


def test_every_operation_that_confirms_its_caller_is_tried_here() -> None:
    assert {spec.operation for spec in specs() if spec.confirms} == set(CALLS)


@pytest.mark.parametrize("operation", CALLS)
def test_a_remembered_worker_is_answered(
    operation: Operation, remembered: tuple[Api, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[Token] = []

    def noted(token: Token) -> FoundWorker | None:
        looked_up.append(token)
        return find_worker(token)

    monkeypatch.setattr(api_callers, "find_worker", noted)
    reply = CALLS[operation](*remembered)
    assert reply.status < 300, reply
    assert looked_up == []


@pytest.mark.parametrize("how", ["revoked", "expired"])
@pytest.mark.parametrize("operation", CALLS)
def test_one_whose_credential_ended_meanwhile_moves_nothing(
    operation: Operation, how: str, remembered: tuple[Api, dict[str, Any]]
) -> None:
    end(how)
    before, told = fingerprint(), Event.objects.count()
    reply = CALLS[operation](*remembered)
    assert (reply.status, reply.type) == (401, "unauthenticated")
    assert (fingerprint(), Event.objects.count()) == (before, told)


@pytest.mark.parametrize("fault", FAULTS)
def test_nor_is_it_told_what_was_wrong_with_its_call(
    fault: str, remembered: tuple[Api, dict[str, Any]]
) -> None:
    api, _ = remembered
    assert 400 <= FAULTS[fault](api).status < 500 or fault == "no good item"
    end("revoked")
    assert FAULTS[fault](api).status == 401


def test_what_a_credential_may_is_what_it_may_now(
    remembered: tuple[Api, dict[str, Any]],
) -> None:
    api, claim = remembered
    mine = Credential.objects.filter(name="worker")
    mine.update(queues=["q", "q2"])
    assert api.worker.keyed("/queues/q2/claims", CLAIM).status == 200  # and it is remembered anew
    mine.update(queues=["q2"])
    assert api.worker.keyed("/queues/q/claims", CLAIM).outcome == "FORBIDDEN"
    mine.update(queues=["q"], scopes=["submit"])
    reply = CALLS[Operation.COMMIT_RESULT](api, claim)
    assert (reply.status, reply.outcome) == (403, "FORBIDDEN")
    assert Event.objects.filter(kind="REFUSED", data__point="commit_result").count() == 1
    mine.update(scopes=["work"])
    assert CALLS[Operation.COMMIT_RESULT](api, claim).outcome == "COMMITTED"


def test_what_is_written_of_a_remembered_worker_has_nothing_of_its_token(api: Api) -> None:
    api.submitted_claim()
    found = WORKERS.recall(token_of(api))
    assert found is not None
    worker = Worker(ActorKind.WORKER, found.name, found.id, standing=found.standing)
    assert repr(token_of(api).sha256) in repr(found.standing)
    assert repr(token_of(api).sha256) not in repr(worker)


def test_a_worker_is_forgotten_after_a_while_and_so_are_the_oldest_of_too_many(api: Api) -> None:
    api.submitted_claim()
    found = WORKERS.recall(token_of(api))
    assert found is not None
    short = RememberedWorkers(seconds=-1)
    short.remember(token_of(api), found)
    assert short.recall(token_of(api)) is None
    few, rival = RememberedWorkers(most=1), read_token(api.rival.token or "")
    assert rival is not None
    few.remember(token_of(api), found)
    few.remember(rival, found)
    assert few.recall(token_of(api)) is None
    assert few.recall(rival) is found


@pytest.mark.django_db(transaction=True)
def test_calls_that_wait_for_a_lock_while_their_credential_is_revoked_move_nothing() -> None:
    api = make_world()
    held = [api.submitted_claim() for _ in range(3)]
    tasks = [claim["fence"]["task_id"] for claim in held]
    before = fingerprint("task", "attempt", "canonicalcommit")

    def committing(claim: dict[str, Any]) -> Rival[Reply]:
        sender = Caller(api.worker.token)
        return Rival(lambda: sender.post(attempt_path(claim, "commit"), commit_body(claim)))

    with world.holding_task(tasks[0]) as holder:
        first = committing(held[0])
        world.wait_until_blocked(first.pid, by=holder.pid)
        others = [committing(claim) for claim in held[1:]]
        end("revoked")
        holder.release()
        replies = [rival.result() for rival in (first, *others)]
    assert [reply.status for reply in replies] == [401] * 3
    assert fingerprint("task", "attempt", "canonicalcommit") == before
