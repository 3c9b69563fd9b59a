"""The API under attack: tokens of others, ids that were guessed, and what is not asked for."""

import gzip
from typing import Any, Final
from uuid import uuid4

import orjson
import pytest

from coordinator.access import RULES, Operation
from coordinator.models import Event
from tests.api.callers import Api, Caller, attempt_path, worker
from tests.api.test_access import requests
from tests.world import fingerprint

pytestmark = pytest.mark.django_db

FORGED: Final = (
    "", "Bearer", "Bearer ", "Bearer null", "Bearer undefined", "Basic YWRtaW46YWRtaW4=", "Bearer tnr_w_", "Token x",
    "Bearer tnr_o_aaaaaaaa_", "Bearer tnr_x_aaaaaaaa_" + "a" * 43, "Bearer " + "tnr_w_" * 5_000, "bearer\ttnr_w_a_b",
    "Bearer tnr_w_%_' OR 1=1", "Bearer \x00", "Bearer tnr_w_\u0660_\u0661",
)  # fmt: skip
WRITES: Final = sorted(
    operation
    for operation in Operation
    if not operation.value.startswith(("list_", "read_", "preview_", "report_inc"))
)
WORTHLESS: Final[tuple[Any, ...]] = (
    None, -1, 0, 2**53, 2**64, 1.5, True, "1", [], {}, "\u0000", "x" * 5_000, str(uuid4()),
)  # fmt: skip


@pytest.mark.parametrize("header", FORGED)
def test_a_forged_header_is_401_whatever_is_asked_for(api: Api, header: str) -> None:
    before = fingerprint()
    for operation in (
        "read_me",
        "promote_queue",
        "run_drill",
        "release_restore_hold",
        "open_incident",
        "read_metrics",
    ):
        method, path = requests()[operation]
        answer = api.nobody.client.generic(method, "/api/v1" + path, b"{}", "application/json",
                                           headers={"authorization": header})  # fmt: skip
        assert answer.status_code in (401, 429), (operation, answer.status_code)
        assert header[7:40].strip() not in answer.content.decode() or len(header) < 16
    assert fingerprint() == before


@pytest.mark.parametrize(
    "query", ["t=tnr_w_abc", "t=TNR_O_abc", "t=tnr%5Fw%5Fabc", "%74nr_o_x=1", "access%5Ftoken=x"]
)
def test_a_token_in_an_address_is_refused_however_it_is_spelled(api: Api, query: str) -> None:
    reply = api.worker.get(f"/me?{query}")
    assert (reply.status, reply.body["type"]) == (400, "/api/v1/problems/token-in-url")


def test_no_scope_of_a_worker_opens_what_people_decide() -> None:
    steering = {
        operation
        for operation in WRITES
        if any(word in operation for word in ("incident", "promote", "demote", "drill", "audit", "hold", "approve",
                                              "reject", "cancel", "credential", "downstream", "pool", "policy",
                                              "intake", "bump", "decide", "explain_shadow", "revise", "reopen"))
    }  # fmt: skip
    assert len(steering) > 18
    assert not [operation for operation in steering if RULES[operation].scopes]


@pytest.mark.parametrize("operation", WRITES)
def test_unknown_fields_are_refused_by_name_in_every_body(api: Api, operation: str) -> None:
    """Mass assignment: what a body may not say is not quietly dropped, and never taken over."""
    extra = {
        "is_superuser": True,
        "state": "COMMITTED",
        "actor": "operator:root",
        "scheduler_epoch_after": 99,
    }
    method, path = requests()[operation]
    by = _who(api, operation)
    if by is None or "blobs" in path or method in ("GET", "DELETE"):
        return  # they have no body of fields
    reply = by.send(method, path, extra, key=str(uuid4()))
    assert reply.status in (404, 422, 428), (operation, reply)
    if reply.status == 422:
        assert {"/is_superuser", "/actor"} <= reply.pointers, (operation, reply.body)


def _who(api: Api, operation: str) -> Caller | None:
    rule = RULES[Operation(operation)]
    if rule.permission:
        return api.approver if rule.permission == "approve" else api.admin
    scopes = {str(scope) for scope in rule.scopes}
    return worker(f"for {operation}", scopes=tuple(scopes)) if scopes else None


def test_another_workers_things_are_not_told_apart_from_none(api: Api) -> None:
    """Ids can't be tried out: in a queue that isn't the caller's, what is there and what isn't read alike."""
    claim = api.submitted_claim()
    task, attempt = claim["fence"]["task_id"], claim["fence"]["attempt_id"]
    for there, nowhere in (
        (f"/tasks/{task}", f"/tasks/{uuid4()}"),
        (f"/tasks/{task}/events", f"/tasks/{uuid4()}/events"),
        (f"/tasks/{task}/explain", f"/tasks/{uuid4()}/explain"),
        (f"/tasks/{task}/candidates", f"/tasks/{uuid4()}/candidates"),
        (f"/tasks/{task}/effects", f"/tasks/{uuid4()}/effects"),
        (f"/attempts/{attempt}/blobs/x", f"/attempts/{uuid4()}/blobs/x"),
    ):
        found, missing = api.stranger.get(there), api.stranger.get(nowhere)
        assert (found.status, missing.status) == (404, 404), there
        assert _without_ids(found.body) == _without_ids(missing.body), there


def _without_ids(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in ("request_id", "instance")}


@pytest.mark.parametrize("verb", ["renew", "stage", "commit", "fail", "release", "effects"])
def test_a_fence_of_nonsense_is_no_fault(api: Api, verb: str) -> None:
    claim = api.submitted_claim()
    before = fingerprint()
    for field in claim["fence"]:
        for value in WORTHLESS:
            if type(value) is type(claim["fence"][field]) and value == claim["fence"][field]:
                continue
            fence = {**claim["fence"], field: value}
            for by in (api.worker, api.rival):
                reply = by.post(attempt_path(claim, verb), {"fence": fence})
                assert 400 <= reply.status < 500, (field, value, reply)
    assert fingerprint() == before


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
def test_a_compressed_body_is_not_unpacked(api: Api, encoding: str) -> None:
    bomb = gzip.compress(b'{"queue":"q","nodes":[' + b" " * 10_000_000 + b"]}")
    assert len(bomb) < 20_000
    reply = api.operator.send(
        "POST", "/runs", raw=bomb, key=str(uuid4()), Content_Encoding=encoding
    )
    assert reply.status in (400, 415, 422)


def test_a_refused_attempt_is_on_record_with_who_tried(api: Api) -> None:
    for operation in (
        "promote_queue",
        "run_drill",
        "open_incident",
        "release_restore_hold",
        "revoke_credential",
    ):
        method, path = requests()[operation]
        assert api.viewer.send(method, path, {}, key=str(uuid4())).status == 403
        told = Event.objects.filter(kind="REFUSED").order_by("id").last()
        assert told is not None
        assert operation in orjson.dumps(told.data).decode()
