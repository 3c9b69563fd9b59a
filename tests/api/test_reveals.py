"""Secrets over HTTP: whole for workers, masked for people, revealed for a reason (contract 15)."""

import json
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import Group, Permission

from coordinator.models import AuditLink, Event, Evidence
from coordinator.services.audit_seals import seal_events
from coordinator.services.stored_secrets import Part
from tenure.audit_chain import verify_lines
from tests.history import nothing_moves

from .callers import Api, Caller, commit_body, node
from .effect_calls import Sender, register

SECRET = "hunter2-of-the-bank"
WHY = "The customer asks which account it goes to."


def read(caller: Caller, path: str) -> str:
    reply = caller.get(path)
    assert reply.status == 200, reply
    return str(reply.body)


def test_a_worker_is_handed_everything_whole_and_a_person_what_is_masked(api: Api) -> None:
    api.submit(node("a", input={"smtp": {"password": SECRET}, "n": 1}))
    claim = api.claim()
    task = claim["fence"]["task_id"]
    assert claim["input"]["smtp"]["password"] == SECRET
    api.worker.post(
        f"/attempts/{claim['fence']['attempt_id']}/commit", commit_body(claim, {"api_key": SECRET})
    )
    for path in (f"/tasks/{task}", f"/tasks/{task}/candidates"):
        assert SECRET in read(api.worker, path)
        for person in (api.approver, api.operator, api.admin):
            assert SECRET not in read(person, path)
    told = api.admin.get(f"/tasks/{task}").body
    assert told["masked"] == ["/input/smtp/password"]
    assert told["input"]["n"] == 1
    assert told["input_digest"] == claim["input_digest"]


def test_what_is_masked_is_revealed_once_for_a_reason(api: Api) -> None:
    api.submit(node("a", input={"smtp": {"password": SECRET}}))
    claim = api.claim()
    path = f"/tasks/{claim['fence']['task_id']}/reveal"
    with nothing_moves():
        assert api.approver.post(path, {"reason": "short"}).pointers == {"/reason"}
        assert api.approver.post(path, {"reason": WHY, "part": "result"}).status == 404
        for caller in (api.operator, api.viewer, api.worker):
            assert caller.post(path, {"reason": WHY}).status == 403
    assert not Event.objects.filter(kind="SECRET_REVEALED").exists()
    reply = api.approver.post(path, {"reason": WHY})
    assert reply.status == 200
    assert reply.body["value"] == {"smtp": {"password": SECRET}}
    assert (reply.body["digest"], reply.body["places"]) == (
        claim["input_digest"],
        ["/smtp/password"],
    )
    event = Event.objects.get(kind="SECRET_REVEALED")
    assert event.data["reason"] == WHY
    assert SECRET not in str(event.data)


def test_effects_and_approvals_are_masked_by_name_and_by_registration(api: Api) -> None:
    register(api, "NONE", secret_pointers=["/iban"])
    api.submit(node("a", slots={"out": "there"}))
    asked = Sender(api, api.claim(), {})
    payload = {"to": "a", "auth": {"token": SECRET}, "iban": SECRET}
    asked.effect = asked.prepare(payload=payload).body["effect"]
    approval = asked.accept().body["approval_id"]
    effect = asked.effect["effect_id"]
    assert asked.effect["payload"]["iban"] == SECRET  # as the worker prepared it
    for path in (
        f"/approvals/{approval}",
        "/approvals",
        f"/effects/{effect}",
        "/effects",
        f"/tasks/{asked.fence['task_id']}/effects",
    ):
        text = read(api.admin, path)
        assert SECRET not in text, path
        assert "masked: registered" in text, path
    told = api.admin.get(f"/approvals/{approval}").body
    assert told["masked"] == ["/payload/auth/token", "/payload/iban"]
    assert told["payload_digest"] == asked.effect["payload_digest"]
    reply = api.admin.post(f"/effects/{effect}/reveal", {"reason": WHY})
    assert reply.body["value"]["iban"] == SECRET
    assert reply.body["places"] == ["/auth/token", "/iban"]


def test_a_runs_metadata_is_masked_for_people(api: Api) -> None:
    body = {"queue": "q", "name": "r", "metadata": {"ci": {"token": SECRET}}, "nodes": [node("a")]}
    run = api.admin.keyed("/runs", body).body["run_id"]
    for path in (f"/runs/{run}", "/runs"):
        assert SECRET not in read(api.viewer, path)
        assert "masked: name" in read(api.viewer, path)


def test_pointers_are_registered_changed_and_refused_where_they_are_none(api: Api) -> None:
    body = {"name": "bank", "kind": "http", "guarantee": "NONE", "secret_pointers": ["/to/*/iban"]}
    assert api.admin.post("/downstreams", body).body["secret_pointers"] == ["/to/*/iban"]
    for wrong in (["iban"], ["/" + "x" * 400], ["/x"] * 51):
        reply = api.admin.send("PATCH", "/downstreams/bank", {"secret_pointers": wrong})
        assert reply.status == 422, wrong
    reply = api.admin.send("PATCH", "/downstreams/bank", {"secret_pointers": ["/card"]})
    assert reply.body["secret_pointers"] == ["/card"]
    changed = Event.objects.get(kind="DOWNSTREAM_CHANGED")
    assert changed.data["after"] == {"secret_pointers": ["/card"]}


def told_of_a_secret(api: Api) -> int:
    """The number of a link whose event holds a secret that somebody wrote into a reason."""
    api.operator.post("/queues/q/intake", {"intake": "STOPPED", "reason": f"Bearer {SECRET}"})
    api.operator.post("/queues/q/intake", {"intake": "OPEN", "reason": "It was nothing."})
    seal_events()
    link = AuditLink.objects.get(event__data__reason=f"Bearer {SECRET}")
    return int(link.number)


@pytest.mark.django_db(transaction=True)
def test_the_lines_of_the_audit_are_masked_and_their_links_verify(api: Api) -> None:
    number = told_of_a_secret(api)
    lines = api.admin.get("/audit/lines").body["lines"]
    assert SECRET not in str(lines)
    assert [line["chain"]["number"] for line in lines if not line["chain"]["complete"]] == [number]
    found = verify_lines([json.dumps(line) for line in lines], whole=True)
    assert (found.holds, found.unchecked) == (True, 1)


@pytest.mark.django_db(transaction=True)
def test_lines_are_revealed_to_who_may_for_a_reason_and_it_is_on_record(api: Api) -> None:
    number = told_of_a_secret(api)
    path = "/audit/lines/reveal"
    with nothing_moves():
        assert api.admin.post(path, {"reason": "short"}).pointers == {"/reason"}
        assert api.admin.post(path, {"reason": WHY, "limit": 1_001}).status == 422
        for caller in (api.approver, api.operator, api.worker):
            assert caller.post(path, {"reason": WHY}).status == 403
        later = api.admin.post(path, {"reason": WHY, "first": number + 1})
        assert later.status == 200  # nothing of it is masked: nothing is revealed
    lines = api.admin.post(path, {"reason": WHY}).body["lines"]
    found = verify_lines([json.dumps(line) for line in lines], whole=True)
    assert (found.holds, found.unchecked) == (True, 0)
    assert SECRET in str(lines)
    event = Event.objects.get(kind="SECRET_REVEALED")
    assert (event.data["part"], event.data["reason"], event.data["count"]) == ("audit", WHY, 1)
    assert event.data["events"] == [lines[number - 1]["id"]]
    assert SECRET not in str(event.data)
    seal_events()
    assert AuditLink.objects.filter(event=event).exists()


@pytest.mark.django_db(transaction=True)
def test_who_administers_and_may_not_reveal_is_given_masks_alone(api: Api) -> None:
    number = told_of_a_secret(api)
    group = Group.objects.get(name="admin")
    group.permissions.remove(Permission.objects.get(codename="reveal_secrets"))
    with nothing_moves():
        reply = api.admin.post("/audit/lines/reveal", {"reason": WHY, "first": number})
    assert reply.status == 403
    assert SECRET not in read(api.admin, f"/audit/lines?first={number}")


def test_a_runs_metadata_is_revealed_for_a_reason(api: Api) -> None:
    body = {"queue": "q", "name": "r", "metadata": {"ci": {"token": SECRET}}, "nodes": [node("a")]}
    run = api.admin.keyed("/runs", body).body["run_id"]
    plain = api.admin.keyed("/runs", {**body, "metadata": {"n": 1}}).body["run_id"]
    path = f"/runs/{run}/reveal"
    with nothing_moves():
        assert api.operator.post(path, {"reason": WHY}).status == 403
        assert api.approver.post(path, {"reason": "no"}).pointers == {"/reason"}
        assert api.approver.post(f"/runs/{plain}/reveal", {"reason": WHY}).pointers == {"/part"}
        assert api.approver.post(f"/runs/{uuid4()}/reveal", {"reason": WHY}).status == 404
    reply = api.approver.post(path, {"reason": WHY})
    assert (reply.body["value"], reply.body["places"]) == (body["metadata"], ["/ci/token"])
    event = Event.objects.get(kind="SECRET_REVEALED")
    assert event.run is not None
    assert (event.data["part"], event.run.run_id) == ("metadata", UUID(run))
    assert SECRET not in str(event.data)


def test_what_an_event_says_is_revealed_without_the_address(api: Api) -> None:
    api.operator.post("/queues/q/intake", {"intake": "STOPPED", "reason": f"Bearer {SECRET}"})
    told = Event.objects.get(kind="INTAKE_STOPPED")
    path = f"/events/{told.pk}/reveal"
    with nothing_moves():
        assert api.operator.post(path, {"reason": WHY}).status == 403
        for nothing in ("0", "x", "9" * 30, "-1"):
            assert api.approver.post(f"/events/{nothing}/reveal", {"reason": WHY}).status == 404
    reply = api.approver.post(path, {"reason": WHY})
    assert reply.body["value"] == {"reason": f"Bearer {SECRET}"}
    event = Event.objects.get(kind="SECRET_REVEALED")
    assert (event.data["event_id"], event.data["places"]) == (told.pk, ["/reason"])
    assert SECRET not in str(event.data)


def test_what_an_attempt_failed_with_is_revealed_for_a_reason(api: Api) -> None:
    api.submit(node("a"))
    claim = api.claim()
    task, attempt = claim["fence"]["task_id"], claim["fence"]["attempt_id"]
    error = {"type": "Refused", "message": "no", "detail": {"sent": {"api_key": SECRET}}}
    told = api.worker.post(
        f"/attempts/{attempt}/fail", {"fence": claim["fence"], "error": error, "retryable": False}
    )
    assert told.status == 200, told
    assert SECRET not in read(api.admin, f"/tasks/{task}/attempts")
    path, body = f"/tasks/{task}/reveal", {"reason": WHY, "part": "error"}
    with nothing_moves():
        assert api.operator.post(path, {**body, "attempt_id": attempt}).status == 403
        assert api.approver.post(path, body).status == 404
        assert api.approver.post(path, {**body, "attempt_id": str(uuid4())}).status == 404
        other = f"/tasks/{uuid4()}/reveal"
        assert api.approver.post(other, {**body, "attempt_id": attempt}).status == 404
    reply = api.approver.post(path, {**body, "attempt_id": attempt})
    assert (reply.body["value"], reply.body["places"]) == (error, ["/detail/sent/api_key"])
    event = Event.objects.get(kind="SECRET_REVEALED")
    assert (event.data["part"], str(event.attempt_id)) == ("error", attempt)
    assert SECRET not in str(event.data)


def test_what_somebody_said_of_an_effect_is_revealed_for_a_reason(api: Api) -> None:
    register(api, "NONE")
    api.submit(node("a", slots={"out": "there"}))
    asked = Sender(api, api.claim(), {})
    asked.effect = asked.prepare().body["effect"]
    effect = asked.effect["effect_id"]
    asked.accept()
    kept = Evidence.objects.create(
        effect_id=effect, kind="query", said="DONT_KNOW", actor="system:probe", at=asked.effect["prepared_at"],
        detail={"detail": f"they answered Bearer {SECRET}"},
    )  # fmt: skip
    [told] = api.admin.get(f"/effects/{effect}").body["evidence"]
    assert told["id"] == kept.pk
    assert SECRET not in str(told)
    path, body = f"/effects/{effect}/reveal", {"reason": WHY, "part": "evidence"}
    with nothing_moves():
        assert api.operator.post(path, {**body, "evidence_id": kept.pk}).status == 403
        assert api.approver.post(path, body).status == 404
        assert api.approver.post(path, {**body, "evidence_id": kept.pk + 1}).status == 404
        wrong = api.approver.post(path, {**body, "evidence_id": 0})
        assert wrong.pointers == {"/evidence_id"}
    reply = api.approver.post(path, {**body, "evidence_id": kept.pk})
    assert (reply.body["value"], reply.body["places"]) == (kept.detail, ["/detail"])
    event = Event.objects.get(kind="SECRET_REVEALED")
    assert (event.data["effect_id"], event.data["evidence_id"]) == (effect, kept.pk)
    assert SECRET not in str(event.data)


def test_shared_memory_is_revealed_by_its_key_and_version(api: Api) -> None:
    api.submit(node("a"))
    claim = api.claim()
    body = commit_body(claim, {"ok": True})
    value = {"smtp": {"password": SECRET}}
    body["memory"] = [{"namespace": "mail", "key": "a/b", "expected_version": 0, "value": value}]
    assert api.worker.post(f"/attempts/{claim['fence']['attempt_id']}/commit", body).status == 200
    assert SECRET in read(api.worker, "/memory/mail/a/b")
    assert SECRET not in read(api.admin, "/memory/mail/a/b")
    named = {"namespace": "mail", "key": "a/b", "reason": WHY}
    with nothing_moves():
        assert api.operator.post("/memory/reveal", named).status == 403
        assert api.worker.post("/memory/reveal", named).status == 403
        for other in ({"key": "b"}, {"version": 2}, {"namespace": "post"}):
            assert api.approver.post("/memory/reveal", {**named, **other}).status == 404
    reply = api.approver.post("/memory/reveal", {**named, "version": 1})
    assert (reply.body["value"], reply.body["places"]) == (value, ["/smtp/password"])
    assert api.approver.post("/memory/reveal", named).body["digest"] == reply.body["digest"]
    event = Event.objects.filter(kind="SECRET_REVEALED").latest("id")
    assert (event.data["namespace"], event.data["key"]) == ("mail", "a/b")
    assert str(event.task_id) == claim["fence"]["task_id"]
    assert SECRET not in str(event.data)


@pytest.mark.parametrize(
    "page", ["docs/api.md", "docs/sdk.md", "docs/adr/0022-secrets-are-masked-where-people-look.md"]
)
def test_the_documents_name_each_part_that_can_be_revealed(page: str) -> None:
    text = (Path(__file__).parents[2] / page).read_text()
    assert [part for part in (*Part, "audit") if f"`{part}`" not in text] == []
