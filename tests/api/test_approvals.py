"""Approvals over HTTP: people decide on exact bytes, and nobody else (contract 9).

What is refused is on record, and nothing has moved.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User

from coordinator.actors import system
from coordinator.models import Approval, Decision, Dispatch, Event
from coordinator.services.approvals import expire_approvals
from coordinator.services.epochs import bump_epoch
from tests import history
from tests.cases.moving_clock import advance
from tests.history import nothing_moves
from tests.world import task

from .callers import TESTS, Api, Caller, Reply, node, person, worker
from .effect_calls import (
    BAD_IDS,
    NO_DIGEST,
    PAYLOAD,
    Sender,
    gate,
    refused,
    refused_and_recorded,
    sender,
    told,
)

#: Longer than any request or grant stands.
LONG = 30 * 86_400

#: Well formed, and nobody's. Always the same: a parallel run compares the tests' names.
NOBODYS = "0198c0de-0000-7000-8000-000000000000"


@pytest.fixture(autouse=True)
def _history_holds(api: Api) -> Iterator[None]:
    yield
    history.check()


class Asked:
    """A NON_REPLAYABLE task that is parked while somebody decides."""

    def __init__(self, api: Api, **fields: Any) -> None:
        self.sender = sender(api, "NONE", **fields)
        reply = refused(self.sender.accept(), 409, "APPROVAL_REQUIRED")
        self.approval_id: str = reply.body["approval_id"]
        self.digest: str = self.sender.effect["payload_digest"]

    @property
    def path(self) -> str:
        return f"/approvals/{self.approval_id}"

    @property
    def task_state(self) -> str:
        return task(UUID(self.sender.fence["task_id"])).state

    def approve(self, by: Caller, **fields: Any) -> Reply:
        return by.post(f"{self.path}/approve", {"payload_digest": self.digest} | fields)

    def reject(self, by: Caller, **fields: Any) -> Reply:
        body = {"payload_digest": self.digest, "reason": "wrong recipient"}
        return by.post(f"{self.path}/reject", body | fields)

    def claimed_again(self) -> Sender:
        api = self.sender.api
        return Sender(api, api.claim(owner="w-2"), self.sender.effect)


def test_changes_are_asked_for_and_the_claim_of_the_revision_carries_them(api: Api) -> None:
    asked = Asked(api)
    body = {"payload_digest": asked.digest, "reason": "Leave the second recipient out."}
    reply = api.approver.post(f"{asked.path}/ask-for-changes", body)
    assert (reply.status, reply.body["state"], reply.body["reason_code"]) == (
        200,
        "REJECTED",
        "CHANGES_ASKED",
    )
    assert asked.task_state == "SUPERSEDED"
    claim = api.claim(owner="w-2")
    assert claim["fence"]["task_id"] == reply.body["task_id"]
    words = claim["changes_asked"]
    assert (words["comment"], words["payload"]) == (body["reason"], PAYLOAD)
    with nothing_moves():
        again = api.approver.post(f"{asked.path}/ask-for-changes", body)
        assert (again.status, again.body["replayed"]) == (200, True)
        assert asked.approve(api.admin).status == 409
    record = api.viewer.get(asked.path).body
    assert (record["reason_code"], record["end_reason"]) == ("CHANGES_ASKED", body["reason"])


def test_a_rejection_says_why_in_a_word_of_the_list(api: Api) -> None:
    asked = Asked(api)
    with nothing_moves():
        assert asked.reject(api.approver, reason_code="MOOD").status == 422
        told = asked.reject(api.approver, reason_code="CHANGES_ASKED")
        assert told.body["errors"][0]["pointer"] == "/reason_code"
    reply = asked.reject(api.approver, reason_code="WRONG_RECIPIENT")
    assert (reply.status, reply.body["reason_code"]) == (200, "WRONG_RECIPIENT")


def test_it_is_passed_to_somebody_who_may_decide_and_found_by_their_name(api: Api) -> None:
    asked = Asked(api)
    ada = User.objects.get(username__startswith="admin").username
    body = {"to": ada, "reason": "It is her customer."}
    with nothing_moves():
        nobody = api.approver.post(f"{asked.path}/pass", body | {"to": "nobody"})
        assert nobody.body["errors"][0]["pointer"] == "/to"
    reply = api.approver.post(f"{asked.path}/pass", body)
    assert (reply.status, reply.body["assigned_to"]) == (200, ada)
    (found,) = api.viewer.get(f"/approvals?assigned_to={ada}").body["results"]
    assert (found["approval_id"], found["assigned_to"]) == (asked.approval_id, ada)
    assert api.viewer.get("/approvals?assigned_to=nobody").body["results"] == []
    assert asked.approve(api.approver).status == 200


def test_approved_the_task_goes_on_and_one_dispatch_uses_the_grant_up(api: Api) -> None:
    asked = Asked(api)
    assert asked.task_state == "AWAITING_APPROVAL"
    reply = asked.approve(api.approver, comment="seen the whole of it")
    assert (reply.status, reply.body["state"], reply.body["replayed"]) == (200, "APPROVED", False)
    (decision,) = reply.body["decisions"]
    assert (decision["decision"], decision["payload_digest_seen"]) == ("APPROVED", asked.digest)
    assert asked.task_state == "READY"
    again = asked.claimed_again()
    dispatch = again.accepted()
    assert api.operator.get(asked.path).body["state"] == "CONSUMED"
    again.report(dispatch, outcome="REFUSED")
    with nothing_moves():  # the grant is used up, whatever is sent again
        assert asked.approve(api.approver).body["replayed"] is True
    assert (
        refused(again.accept(), 409, "APPROVAL_REQUIRED").body["approval_id"] != asked.approval_id
    )
    assert Dispatch.objects.count() == 1


def test_what_is_asked_for_is_read_with_its_exact_payload_by_who_may(api: Api) -> None:
    asked = Asked(api)
    (listed,) = api.approver.get("/approvals?state=PENDING&queue=q").body["results"]
    read = api.approver.get(asked.path).body
    assert listed["approval_id"] == read["approval_id"] == asked.approval_id
    assert (read["payload"], read["payload_digest"]) == (PAYLOAD, asked.digest)
    assert api.viewer.get(asked.path).body["payload"] is None
    assert api.approver.get("/approvals?state=APPROVED").body["results"] == []
    assert api.approver.get("/approvals?state=SOON").type == "bad-query"
    for caller in (api.worker, gate(), worker("submits", scopes=("submit",))):
        refused(caller.get(asked.path), 403, "FORBIDDEN")
        refused(caller.get("/approvals"), 403, "FORBIDDEN")


def test_no_token_of_a_worker_decides(api: Api) -> None:
    asked = Asked(api)
    everything = worker("all of it", scopes=("work", "submit", "gate"))
    for caller in (api.worker, api.rival, gate(), everything, api.viewer, api.operator):
        with refused_and_recorded("FORBIDDEN"):
            refused(asked.approve(caller), 403, "FORBIDDEN")
        with refused_and_recorded("FORBIDDEN"):
            refused(asked.reject(caller), 403, "FORBIDDEN")
    with nothing_moves():
        assert asked.approve(api.nobody).status == 401
    events = Event.objects.filter(kind="REFUSED", data__point="approve")
    assert [event.data["target"] for event in events] == [f"/api/v1{asked.path}/approve"] * 6


def test_whoever_submitted_the_run_does_not_decide_on_it(api: Api) -> None:
    api.operator = submitter = person("admin")
    asked = Asked(api)
    with refused_and_recorded("FORBIDDEN"):
        refused(asked.approve(submitter), 403, "FORBIDDEN")
    with refused_and_recorded("FORBIDDEN"):
        refused(asked.reject(submitter), 403, "FORBIDDEN")
    assert asked.approve(api.admin).status == 200


def test_other_bytes_are_not_approved(api: Api) -> None:
    asked = Asked(api)
    for say in (asked.approve, asked.reject):
        with refused_and_recorded("PAYLOAD_CONFLICT"):
            reply = refused(say(api.approver, payload_digest=NO_DIGEST), 422, "PAYLOAD_CONFLICT")
        assert reply.body["payload_digest"] == asked.digest
        for digest in ("", "sha256:0", None, 7, asked.digest.upper(), asked.digest + " "):
            with nothing_moves():
                assert say(api.approver, payload_digest=digest).pointers == {"/payload_digest"}
    assert asked.task_state == "AWAITING_APPROVAL"


def test_an_approval_that_is_given_twice_is_one_decision(api: Api) -> None:
    asked = Asked(api)
    first = asked.approve(api.approver)
    with nothing_moves():
        again = asked.approve(api.approver)
        assert (again.status, again.body["replayed"]) == (200, True)
        assert again.body["decisions"] == first.body["decisions"]
    for reply in (asked.approve(api.admin), asked.reject(api.admin), asked.reject(api.approver)):
        late = refused(reply, 409, "ALREADY_SETTLED")
        assert late.body["decisions"] == first.body["decisions"]
    with refused_and_recorded("ALREADY_SETTLED"):
        asked.approve(person("approver"))
    assert Decision.objects.count() == 1


def test_two_approvers_are_two_people(api: Api) -> None:
    asked = Asked(api, required_approvers=2)
    assert asked.approve(api.approver).body["state"] == "PENDING"
    with nothing_moves():
        assert asked.approve(api.approver).body["replayed"] is True
    assert asked.task_state == "AWAITING_APPROVAL"
    assert asked.approve(api.admin).body["state"] == "APPROVED"
    assert asked.task_state == "READY"


@pytest.mark.parametrize("swept", [True, False])
def test_after_its_expiry_nothing_is_approved_and_the_next_acceptance_asks_anew(
    api: Api, swept: bool
) -> None:
    asked = Asked(api)
    advance(LONG)
    if swept:
        assert expire_approvals(actor=system("approvals")) == 1
        with refused_and_recorded("ALREADY_SETTLED"):
            reply = asked.approve(api.approver)
    else:
        reply = asked.approve(api.approver)  # this very call finds it expired
        assert told("ALREADY_SETTLED") == 1
    assert refused(reply, 409, "ALREADY_SETTLED").body["state"] == "EXPIRED"
    assert (Decision.objects.count(), asked.task_state) == (0, "READY")
    assert Approval.objects.get().state == "EXPIRED"
    second = refused(asked.claimed_again().accept(), 409, "APPROVAL_REQUIRED")
    assert second.body["approval_id"] != asked.approval_id


def test_a_grant_that_was_not_used_in_time_permits_nothing(api: Api) -> None:
    asked = Asked(api)
    asked.approve(api.approver)
    advance(LONG)
    second = refused(asked.claimed_again().accept(), 409, "APPROVAL_REQUIRED")
    assert second.body["approval_id"] != asked.approval_id
    assert Dispatch.objects.count() == 0


@pytest.mark.parametrize("how", ["cancel", "revise", "bump"])
def test_what_was_voided_is_not_approved(api: Api, how: str) -> None:
    asked = Asked(api)
    path = f"/tasks/{asked.sender.fence['task_id']}"
    version = api.operator.get(path).body["state_version"]
    if how == "cancel":
        api.operator.post(f"{path}/cancel", {"reason": "enough"})
    elif how == "revise":
        body = {"expected_state_version": version, "input": {"n": 2}, "reason": "better"}
        assert api.operator.keyed(f"{path}/revise", body).status == 201
    else:
        bump_epoch(queue="q", expected_epoch=1, reason="rollback", actor=TESTS)
    with refused_and_recorded("ALREADY_SETTLED"):
        reply = refused(asked.approve(api.approver), 409, "ALREADY_SETTLED")
    assert reply.body["state"] == "VOID"


def test_rejected_the_task_fails_with_the_reason_and_is_not_approved_afterwards(api: Api) -> None:
    asked = Asked(api)
    reply = asked.reject(api.approver, reason="that is not their address")
    assert (reply.status, reply.body["state"]) == (200, "REJECTED")
    assert asked.task_state == "FAILED"
    failed = Event.objects.get(kind="FAILED", task_id=asked.sender.fence["task_id"])
    assert "that is not their address" in failed.data["reason"]
    with refused_and_recorded("ALREADY_SETTLED"):
        refused(asked.approve(api.admin), 409, "ALREADY_SETTLED")


@pytest.mark.parametrize(
    ("verb", "body", "pointer"),
    [
        ("approve", {"comment": "x" * 2_001}, "/comment"),
        ("approve", {"comment": 7}, "/comment"),
        ("approve", {"reason": "not here"}, "/reason"),
        ("reject", {"reason": ""}, "/reason"),
        ("reject", {"reason": None}, "/reason"),
        ("reject", {"reason": "no\0"}, "/reason"),
    ],
)
def test_a_decision_with_faults_is_refused_by_its_field(
    api: Api, verb: str, body: dict[str, Any], pointer: str
) -> None:
    asked = Asked(api)
    say = asked.approve if verb == "approve" else asked.reject
    with nothing_moves():
        assert say(api.approver, **body).pointers == {pointer}


@pytest.mark.parametrize("approval_id", [NOBODYS, *BAD_IDS])
def test_an_id_that_names_nothing_is_404_on_every_route(api: Api, approval_id: str) -> None:
    asked = Asked(api)
    asked.approval_id = approval_id
    with nothing_moves():
        for reply in (
            asked.approve(api.approver),
            asked.reject(api.approver),
            api.approver.get(asked.path),
        ):
            assert reply.status == 404, reply


def test_the_same_payload_elsewhere_is_another_approval(api: Api) -> None:
    asked = Asked(api)
    api.submit(node("b", slots={"out": "there"}))
    other = Sender(api, api.claim(), {})
    other.effect = other.prepare().body["effect"]
    assert other.effect["payload_digest"] == asked.digest
    reply = refused(other.accept(), 409, "APPROVAL_REQUIRED")
    assert reply.body["approval_id"] != asked.approval_id
    asked.approve(api.approver)
    assert Approval.objects.get(approval_id=reply.body["approval_id"]).state == "PENDING"
    assert task(UUID(other.fence["task_id"])).state == "AWAITING_APPROVAL"
