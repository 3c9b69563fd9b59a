"""Effects over HTTP: each route for who may, and for everybody and everything else (contract 8).

What is refused is on record, and nothing has moved.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from coordinator.models import Approval, Dispatch, EffectSlot, Event, Evidence, LookUp
from coordinator.services.epochs import bump_epoch
from tests import history
from tests.history import nothing_moves
from tests.world import lapse

from .callers import TESTS, Api, Caller, attempt_path, new_key, node, worker
from .effect_calls import (
    BAD_IDS,
    NO_DIGEST,
    NO_EFFECT,
    PAYLOAD,
    Sender,
    gate,
    refused,
    refused_and_recorded,
    sender,
)


@pytest.fixture(autouse=True)
def _history_holds(api: Api) -> Iterator[None]:
    yield
    history.check()


def taken_over(first: Sender) -> Sender:
    """The same effect, in the hands of a second attempt."""
    lapse(UUID(first.fence["task_id"]))
    return Sender(first.api, first.api.claim(owner="w-2"), first.effect)


# --- prepare -----------------------------------------------------------------------------------


def test_a_slot_is_bound_by_201_and_read_again_by_200(api: Api) -> None:
    made = sender(api)
    assert made.effect["state"] == "PREPARED"
    assert made.effect["payload"] == PAYLOAD
    again = made.prepare()
    assert (again.status, again.body["created"], again.outcome) == (200, False, "PREPARED")
    assert again.body["effect"] == made.effect


def test_another_payload_is_a_conflict_that_tells_the_bound_one(api: Api) -> None:
    made = sender(api)
    with refused_and_recorded("PAYLOAD_CONFLICT"):
        reply = refused(made.prepare(payload={"to": "another"}), 422, "PAYLOAD_CONFLICT")
    assert (reply.body["payload"], reply.body["payload_digest"]) == (
        PAYLOAD,
        made.effect["payload_digest"],
    )
    assert reply.body["retry"] == "never"


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"slot": "invented"}, "/slot"),
        ({"downstream": "elsewhere"}, "/downstream"),
        ({"payload": "x" * (512 * 1024)}, "/payload"),
        ({"condition": "x" * (512 * 1024)}, "/condition"),
    ],
)
def test_what_cannot_be_bound_is_refused_by_its_field(
    api: Api, fields: dict[str, Any], pointer: str
) -> None:
    made = sender(api)
    with refused_and_recorded("INVALID"):
        assert refused(made.prepare(**fields), 422, "INVALID").pointers == {pointer}
    assert EffectSlot.objects.count() == 1


def test_a_body_over_the_limit_is_not_read_to_its_end(api: Api) -> None:
    made = sender(api)
    with nothing_moves():
        reply = made.prepare(payload="x" * (1024 * 1024))
    assert (reply.status, reply.type) == (413, "too-large")


def test_a_node_that_declares_nothing_has_no_effect(api: Api) -> None:
    claim = api.submitted_claim()
    with refused_and_recorded("INVALID"):
        reply = Sender(api, claim, {}).prepare()
    assert reply.pointers == {"/slot"}


def test_only_the_attempts_own_credential_prepares(api: Api) -> None:
    made = sender(api)
    with refused_and_recorded("FORBIDDEN"):
        refused(made.prepare(by=api.rival), 403, "FORBIDDEN")
    for caller in (gate(), worker("submits", scopes=("submit",)), api.operator, api.admin):
        with refused_and_recorded("FORBIDDEN"):
            refused(made.prepare(by=caller), 403, "FORBIDDEN")
    with nothing_moves():
        assert made.prepare(by=api.nobody).status == 401


def test_an_attempt_that_is_not_there_prepares_nothing(api: Api) -> None:
    made = sender(api)
    body = {"fence": made.fence, "slot": "out", "downstream": "there", "payload": PAYLOAD}
    with nothing_moves():
        for attempt in ("7", str(uuid4())):
            refused(api.worker.post(f"/attempts/{attempt}/effects", body), 404, "NOT_FOUND")
        missing = api.worker.post(
            attempt_path(made.claim, "effects"),
            {"slot": "out", "downstream": "there", "payload": 1},
        )
        assert (missing.status, missing.type) == (428, "fence-missing")


# --- accept ------------------------------------------------------------------------------------


def test_an_acceptance_has_what_the_call_needs_and_is_never_cached(api: Api) -> None:
    made = sender(api)
    reply = made.accept()
    assert (reply.status, reply.outcome) == (200, "ACCEPTED")
    assert reply.headers["Cache-Control"] == "no-store"
    fence = made.fence
    assert reply.body["idempotency_key"] == made.effect["effect_id"]
    assert reply.body["fencing_token"] == f"1.{fence['task_id']}.{fence['claim_generation']}.1"
    assert 0 < reply.body["call_deadline_seconds"] <= 30
    assert made.state() == "ACCEPTED"


def test_the_same_key_is_the_same_dispatch_and_another_body_under_it_is_none(api: Api) -> None:
    made, key = sender(api), new_key()
    first, again = (made.accept(key=key) for _ in range(2))
    assert (again.body["dispatch_id"], again.body["replayed"]) == (first.body["dispatch_id"], True)
    with nothing_moves():
        other = made.accept(key=key, payload_digest=NO_DIGEST)
        refused(other, 422, "IDEMPOTENCY_CONFLICT")
        keyless = api.worker.post(f"{made.path}/accept", {})
        assert (keyless.status, keyless.type) == (400, "idempotency-key-missing")
    assert Dispatch.objects.count() == 1


def test_another_digest_permits_nothing(api: Api) -> None:
    made = sender(api)
    with refused_and_recorded("PAYLOAD_CONFLICT"):
        reply = refused(made.accept(payload_digest=NO_DIGEST), 422, "PAYLOAD_CONFLICT")
    assert reply.body["payload_digest"] == made.effect["payload_digest"]
    for digest in ("", "sha256:0", "md5:" + "0" * 64, None, 7):
        with nothing_moves():
            assert made.accept(payload_digest=digest).pointers == {"/payload_digest"}


def test_what_may_be_out_and_what_has_happened_is_not_permitted_again(api: Api) -> None:
    made = sender(api)
    dispatch = made.accepted()
    with refused_and_recorded("RECONCILE_FIRST"):
        reply = refused(made.accept(), 409, "RECONCILE_FIRST")
    assert [each["effect_id"] for each in reply.body["effects"]] == [made.effect["effect_id"]]
    made.report(dispatch, outcome="COMMITTED", receipt={"ref": 1})
    with refused_and_recorded("ALREADY_SETTLED"):
        settled = refused(made.accept(), 409, "ALREADY_SETTLED")
    assert settled.body["receipt"] == {"ref": 1}


def test_only_the_holder_is_permitted_to_send(api: Api) -> None:
    made = sender(api)
    for caller in (api.rival, gate(), worker("submits", scopes=("submit",)), api.operator):
        with refused_and_recorded("FORBIDDEN"):
            refused(made.accept(by=caller), 403, "FORBIDDEN")
    second = taken_over(made)
    with refused_and_recorded("FENCED"):
        assert refused(made.accept(), 409, "FENCED").body["reason"] == "STALE_GENERATION"
    assert second.accept().status == 200


def test_a_forged_fence_permits_nothing_and_raises_an_alarm(api: Api) -> None:
    made = sender(api)
    for counter, ahead in (
        ("claim_generation", 9),
        ("scheduler_epoch", 9),
        ("cancel_generation", 9),
    ):
        with refused_and_recorded("FENCED"):
            reply = made.accept(fence={**made.fence, counter: ahead})
        assert refused(reply, 409, "FENCED").body["reason"] == "AHEAD"
    assert Event.objects.filter(kind="ALARM", data__alarm="FENCE_AHEAD").exists()


def test_a_fence_of_another_task_reaches_no_effect_of_this_one(api: Api) -> None:
    made = sender(api)
    api.submit(node("b", slots={"out": "there"}))
    other = api.claim()
    with nothing_moves():
        refused(made.accept(fence=other["fence"]), 404, "NOT_FOUND")
        mixed = {**made.fence, "task_id": other["fence"]["task_id"]}
        assert made.accept(fence=mixed).status in (404, 422)


@pytest.mark.parametrize("how", ["cancelled", "bumped"])
def test_what_was_cancelled_or_is_of_an_older_epoch_is_not_sent(api: Api, how: str) -> None:
    made = sender(api)
    if how == "cancelled":
        api.operator.post(f"/tasks/{made.fence['task_id']}/cancel", {"reason": "enough"})
    else:
        bump_epoch(queue="q", expected_epoch=1, reason="rollback", actor=TESTS)
    outcome = "CANCELLED" if how == "cancelled" else "FENCED"
    with refused_and_recorded(outcome):
        reply = refused(made.accept(), 409, outcome)
    assert reply.body["reason"] == (None if how == "cancelled" else "STALE_EPOCH")


# --- report ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "state"),
    [("COMMITTED", "COMMITTED"), ("UNKNOWN", "UNKNOWN"), ("REFUSED", "PREPARED")],
)
def test_what_came_of_a_call_is_recorded_and_a_repeat_changes_nothing(
    api: Api, outcome: str, state: str
) -> None:
    made = sender(api)
    dispatch = made.accepted()
    receipt = {"ref": 1} if outcome == "COMMITTED" else None
    reply = made.report(dispatch, outcome=outcome, receipt=receipt, etag='"1"', detail={"http": 1})
    assert (reply.status, reply.body) == (200, {"state": state, "outcome": "RECORDED"})
    with nothing_moves():
        again = made.report(dispatch, outcome=outcome, receipt=receipt)
    assert again.body == reply.body


def test_a_success_without_a_receipt_is_refused_by_its_field(api: Api) -> None:
    made = sender(api)
    dispatch = made.accepted()
    with nothing_moves():
        assert made.report(dispatch, outcome="COMMITTED").pointers == {"/receipt"}
        assert made.report(dispatch, outcome="HAPPENED").pointers == {"/outcome"}
        assert made.report({"dispatch_id": "7"}).pointers == {"/dispatch_id"}


def test_nobody_reports_on_anothers_dispatch(api: Api) -> None:
    made = sender(api)
    dispatch = made.accepted()
    with refused_and_recorded("FORBIDDEN"):
        refused(made.report(dispatch, by=api.rival), 403, "FORBIDDEN")
    second = taken_over(made)
    for forged in (dispatch, {"dispatch_id": str(uuid4())}):
        with refused_and_recorded("INVALID"):
            reply = second.report(forged, outcome="COMMITTED", receipt={"ref": "forged"})
        assert reply.pointers == {"/dispatch_id"}
    assert Evidence.objects.count() == 0
    assert made.state() == "UNKNOWN"


def test_a_late_report_is_refused_and_kept(api: Api) -> None:
    made = sender(api)
    dispatch = made.accepted()
    taken_over(made)
    with refused_and_recorded("FENCED"):
        reply = made.report(dispatch, outcome="REFUSED")
    assert refused(reply, 409, "FENCED").body["evidence_recorded"] is True
    assert Evidence.objects.get().late
    assert made.state() == "UNKNOWN"


def test_a_gate_and_a_worker_report_each_in_their_own_way(api: Api) -> None:
    made, door = sender(api, "GATED"), gate()
    dispatch = made.accepted()
    with refused_and_recorded("FORBIDDEN"):
        refused(made.report(dispatch, by=door), 403, "FORBIDDEN")
        refused(made.report(dispatch, fence=None, redeem_id="arrival-1"), 403, "FORBIDDEN")
    with nothing_moves():
        assert made.report(dispatch, redeem_id="arrival-1").pointers == {"/fence"}
        assert made.report(dispatch, fence=None).pointers == {"/fence"}
    for caller in (api.operator, worker("submits", scopes=("submit",))):
        with refused_and_recorded("FORBIDDEN"):
            refused(made.report(dispatch, by=caller), 403, "FORBIDDEN")


def test_a_gate_reports_only_on_what_it_has_redeemed(api: Api) -> None:
    made, door, other = sender(api, "GATED"), gate(), gate("another gate")
    dispatch = made.accepted()
    done = {"fence": None, "redeem_id": "arrival-1", "outcome": "COMMITTED", "receipt": {"ref": 1}}
    with refused_and_recorded("INVALID"):
        assert made.report(dispatch, by=door, **done).pointers == {"/redeem_id"}
    assert made.redeem(dispatch, by=door).outcome == "REDEEMED"
    for caller, fields in ((door, {"redeem_id": "arrival-2"}), (other, {})):
        with refused_and_recorded("INVALID"):
            reply = made.report(dispatch, by=caller, **(done | fields))
        assert reply.pointers == {"/redeem_id"}
    with nothing_moves():
        elsewhere = gate("far gate", queues=["q2"])
        refused(made.report(dispatch, by=elsewhere, **done), 404, "NOT_FOUND")
    assert made.report(dispatch, by=door, **done).body["state"] == "COMMITTED"


# --- look-ups and reconciling ------------------------------------------------------------------


def test_a_worker_settles_under_its_fence_by_a_stamped_look_up(api: Api) -> None:
    made = sender(api)
    made.report(made.accepted())
    reply = made.absent()
    assert (reply.status, reply.body["state"], reply.body["replayed"]) == (200, "RESENDABLE", False)
    assert made.absent().body["replayed"] is True
    settled = made.happened()
    assert (settled.status, settled.body["state"]) == (200, "COMMITTED")
    lookup_id = made.look_up().body["lookup_id"]
    with refused_and_recorded("ALREADY_SETTLED"):
        opposite = made.reconcile(finding="NOT_HAPPENED", lookup_id=lookup_id)
    refused(opposite, 409, "ALREADY_SETTLED")


def test_a_person_settles_without_a_fence(api: Api) -> None:
    made = sender(api)
    made.report(made.accepted())
    for caller in (api.approver, api.operator, api.admin):
        assert made.look_up(by=caller, fence=None).status == 201
    assert made.happened(by=api.approver, fence=None).body["state"] == "COMMITTED"
    told = Event.objects.filter(kind="EFFECT_COMMITTED").get()
    assert told.actor.startswith("operator:approver-")


def test_no_worker_settles_as_if_it_were_a_person(api: Api) -> None:
    made = sender(api)
    made.report(made.accepted())
    with refused_and_recorded("INVALID"):
        assert made.look_up(fence=None).pointers == {"/fence"}
        assert made.happened(fence=None).pointers == {"/fence"}
    for caller in (api.rival, gate(), worker("submits", scopes=("submit",)), api.viewer):
        with refused_and_recorded("FORBIDDEN"):
            refused(made.look_up(by=caller), 403, "FORBIDDEN")
            refused(made.happened(by=caller), 403, "FORBIDDEN")
    word = {"method": "operator", "detail": {"statement": "I am sure that it is not out there."}}
    with refused_and_recorded("ABSENCE_NOT_SEALED"):
        reply = made.reconcile(finding="NOT_HAPPENED", evidence=word)
    refused(reply, 409, "ABSENCE_NOT_SEALED")
    assert made.state() == "UNKNOWN"
    taken_over(made)
    with refused_and_recorded("FENCED"):
        refused(made.happened(), 409, "FENCED")
        refused(made.look_up(), 409, "FENCED")


def test_only_who_may_assert_absence_gives_a_word_for_it(api: Api) -> None:
    made = sender(api, "GATED")
    dispatch = made.accepted()
    made.redeem(dispatch, by=gate())
    made.report(dispatch)
    word = {"method": "operator", "detail": {"statement": "I am sure that it is not out there."}}
    lapse(UUID(made.fence["task_id"]))
    for caller in (api.approver, api.operator):
        with refused_and_recorded("ABSENCE_NOT_SEALED"):
            reply = made.reconcile(by=caller, fence=None, finding="NOT_HAPPENED", evidence=word)
            refused(reply, 409, "ABSENCE_NOT_SEALED")


def test_evidence_that_judges_something_else_is_stale(api: Api) -> None:
    made = sender(api)
    made.report(made.accepted())
    for count in (0, 2):
        with refused_and_recorded("STALE_EVIDENCE"):
            reply = refused(made.happened(dispatches=count), 409, "STALE_EVIDENCE")
        assert reply.body["dispatches"] == 1


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"receipt": None}, "/receipt"),
        ({"finding": "NOT_HAPPENED", "receipt": None}, "/lookup_id"),
        ({"finding": "NOT_HAPPENED", "lookup_id": str(uuid4())}, "/lookup_id"),
        ({"finding": "PERHAPS"}, "/finding"),
        ({"evidence": {"method": "hearsay"}}, "/evidence/method"),
        ({"evidence": {}}, "/evidence/method"),
        ({"dispatches": -1}, "/dispatches"),
        ({"dispatches": "1"}, "/dispatches"),
        ({"verdict": "yes"}, "/verdict"),
    ],
)
def test_a_verdict_that_says_too_little_is_refused_by_its_field(
    api: Api, fields: dict[str, Any], pointer: str
) -> None:
    made = sender(api)
    made.report(made.accepted())
    with nothing_moves():
        reply = made.reconcile(**({"receipt": {"ref": 1}} | fields))
    assert reply.pointers == {pointer}
    assert made.state() == "UNKNOWN"


def test_a_look_up_of_another_effect_is_no_evidence_about_this_one(api: Api) -> None:
    made = sender(api)
    made.report(made.accepted())
    api.submit(node("b", slots={"out": "there"}))
    other = Sender(api, api.claim(), {})
    other.effect = other.prepare().body["effect"]
    other.report(other.accepted())
    foreign = other.look_up().body["lookup_id"]
    with nothing_moves():
        reply = made.reconcile(finding="NOT_HAPPENED", lookup_id=foreign)
    assert reply.pointers == {"/lookup_id"}
    assert LookUp.objects.count() == 1


# --- redeem ------------------------------------------------------------------------------------


def test_a_dispatch_is_redeemed_once_and_the_same_arrival_gets_the_same_answer(api: Api) -> None:
    made, door = sender(api, "GATED"), gate()
    dispatch = made.accepted()
    first = made.redeem(dispatch, by=door)
    assert (first.status, first.outcome, first.body["replayed"]) == (200, "REDEEMED", False)
    with nothing_moves():
        assert made.redeem(dispatch, by=door).body["replayed"] is True
    with refused_and_recorded("ALREADY_REDEEMED"):
        again = made.redeem(dispatch, by=door, redeem_id="arrival-2")
    assert refused(again, 409, "ALREADY_REDEEMED").body["retry"] == "never"
    # Another gate does not get through on the first one's word.
    with refused_and_recorded("ALREADY_REDEEMED"):
        refused(made.redeem(dispatch, by=gate("another gate")), 409, "ALREADY_REDEEMED")


def test_a_forged_token_and_other_bytes_open_no_gate(api: Api) -> None:
    made, door = sender(api, "GATED"), gate()
    dispatch = made.accepted()
    task_id = made.fence["task_id"]
    for token in (
        f"1.{task_id}.1.2",
        f"1.{task_id}.2.1",
        f"2.{task_id}.1.1",
        f"1.{uuid4()}.1.1",
        "x",
    ):
        with refused_and_recorded("INVALID"):
            reply = made.redeem(dispatch, by=door, fencing_token=token)
        assert reply.pointers == {"/fencing_token"}
    with refused_and_recorded("PAYLOAD_CONFLICT"):
        refused(made.redeem(dispatch, by=door, payload_digest=NO_DIGEST), 422, "PAYLOAD_CONFLICT")
    assert made.redeem(dispatch, by=door).outcome == "REDEEMED"


def test_only_a_gate_of_this_queue_redeems(api: Api) -> None:
    made = sender(api, "GATED")
    dispatch = made.accepted()
    for caller in (api.worker, api.rival, worker("submits", scopes=("submit",)), api.admin):
        with refused_and_recorded("FORBIDDEN"):
            refused(made.redeem(dispatch, by=caller), 403, "FORBIDDEN")
    with nothing_moves():
        far = gate("far gate", queues=["q2"])
        refused(made.redeem(dispatch, by=far), 404, "NOT_FOUND")
        unknown = {**dispatch, "dispatch_id": str(uuid4())}
        refused(made.redeem(unknown, by=gate()), 404, "NOT_FOUND")
        keyless = gate("forgetful gate").post(f"{made.path}/redeem", {})
        assert (keyless.status, keyless.type) == (400, "idempotency-key-missing")
    assert made.accept().outcome == "RECONCILE_FIRST"


@pytest.mark.parametrize("how", ["taken over", "cancelled", "bumped"])
def test_a_dispatch_whose_attempt_is_over_is_not_redeemed(api: Api, how: str) -> None:
    made, door = sender(api, "GATED"), gate()
    dispatch = made.accepted()
    if how == "taken over":
        taken_over(made)
    elif how == "cancelled":
        api.operator.post(f"/tasks/{made.fence['task_id']}/cancel", {"reason": "enough"})
    else:
        bump_epoch(queue="q", expected_epoch=1, reason="rollback", actor=TESTS)
    outcome = "CANCELLED" if how == "cancelled" else "FENCED"
    with refused_and_recorded(outcome):
        refused(made.redeem(dispatch, by=door), 409, outcome)
    assert made.state() == "PREPARED"  # it has not happened and can't any more


# --- reading, and every route with an id that names nothing --------------------------------------


def test_the_reconciliation_list_and_one_effect_are_read_by_who_may(api: Api) -> None:
    made = sender(api)
    made.report(made.accepted(), detail="timeout")
    for caller in (api.operator, api.viewer, api.worker, api.rival):
        (listed,) = caller.get("/effects?may_be_out=true").body["results"]
        assert listed["effect_id"] == made.effect["effect_id"]
        detail = caller.get(made.path)
        assert [each["said"] for each in detail.body["evidence"]] == ["UNKNOWN"]
        (of_task,) = caller.get(f"/tasks/{made.fence['task_id']}/effects").body["results"]
        assert of_task["state"] == "UNKNOWN"
    assert api.operator.get("/effects?may_be_out=false").body["results"] == []
    assert api.operator.get("/effects?state=UNKNOWN&downstream=there&queue=q").body["results"]
    assert api.operator.get("/effects?state=PERHAPS").type == "bad-query"
    assert api.viewer.get(made.path).body["effect"]["payload"] is None
    assert api.operator.get(made.path).body["effect"]["payload"] == PAYLOAD


def test_a_worker_of_another_queue_sees_no_effect(api: Api) -> None:
    made = sender(api)
    assert api.stranger.get("/effects").body["results"] == []
    refused(api.stranger.get(made.path), 404, "NOT_FOUND")
    refused(api.stranger.get(f"/tasks/{made.fence['task_id']}/effects"), 404, "NOT_FOUND")
    refused(gate().get(made.path), 403, "FORBIDDEN")
    assert api.nobody.get(made.path).status == 401


@pytest.mark.parametrize("effect_id", [NO_EFFECT, *BAD_IDS])
def test_an_id_that_names_nothing_is_404_on_every_route(api: Api, effect_id: str) -> None:
    made, door = sender(api, "GATED"), gate()
    dispatch = made.accepted()
    lost = Sender(api, made.claim, {**made.effect, "effect_id": effect_id})
    people: dict[str, Caller] = {"by": api.operator}
    with nothing_moves():
        for reply in (
            lost.accept(),
            lost.report(dispatch),
            lost.report(dispatch, by=door, fence=None, redeem_id="arrival-1"),
            lost.look_up(),
            lost.look_up(**people, fence=None),
            lost.happened(),
            lost.happened(**people, fence=None),
            lost.redeem(dispatch, by=door),
            api.operator.get(lost.path),
        ):
            assert reply.status == 404, reply
    assert Approval.objects.count() == 0
