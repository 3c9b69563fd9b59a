"""What is there now, beside a payload that waits: over HTTP, by the SDK and from a terminal, as on the page."""

import json
from typing import Any
from uuid import uuid4

import pytest
from django.conf import LazySettings

from coordinator.models import Approval, Downstream, Event, Evidence
from tenure import AlreadySettled, Client, InvalidInput, NotFound
from tenure.cli import main
from tenure.downstreams.base import DontKnow
from tests import world
from tests.console import desk as desks
from tests.console import test_present_states as pages
from tests.console.test_present_states import ADAPTERS, THERE, Says, adapters, asked, of
from tests.downstreams import parts
from tests.history import nothing_moves

from .callers import Caller, person

pytestmark = pytest.mark.django_db(transaction=True)
given = adapters  # the fixture: what TENURE_ADAPTERS names


@pytest.fixture(autouse=True)
def named(given: None, settings: LazySettings) -> None:
    settings.ADAPTERS = f"{pages.__name__}:ADAPTERS"


def path_of(approval: Approval) -> str:
    return f"/approvals/{approval.approval_id}/present"


def test_a_person_who_may_decide_has_it_asked_and_it_is_kept_as_evidence() -> None:
    approver, viewer = person("approver"), person("viewer")
    with parts.etag() as part:
        approval = of(part)
        assert approver.get(path_of(approval)).status == 404
        before = world.fingerprint()
        told = approver.post(path_of(approval), {}).body
        assert part.log["world"].arrived == ["GET /documents/a"]
    assert world.fingerprint() == before
    kept = Evidence.objects.get()
    assert (kept.kind, told["evidence_id"]) == ("present", kept.pk)
    assert (told["told"], told["condition_holds"], told["masked"]) == (True, True, [])
    assert (told["there"]["body"], told["instead"]["body"]) == (
        {"title": "before"},
        {"title": "after"},
    )
    assert told["actor"] == kept.actor
    assert Event.objects.get(kind="EVIDENCE_RECORDED").data["how"] == "present"
    assert approver.get(path_of(approval)).body == told
    assert viewer.get(path_of(approval)).status == 403


def test_who_may_not_has_nobody_asked() -> None:
    callers = [person(role) for role in ("viewer", "operator")]
    with parts.etag() as part:
        approval = of(part)
        for caller in (*callers, Caller()):
            assert caller.post(path_of(approval), {}).status in (401, 403)
        assert part.log["world"].arrived == []
    assert not Evidence.objects.exists()


def test_a_request_that_is_over_or_unknown_has_nobody_asked() -> None:
    approver = person("approver")
    with parts.etag() as part:
        approval = of(part)
        with nothing_moves():
            assert approver.post(f"/approvals/{uuid4()}/present", {}).status == 404
            assert approver.post("/approvals/x/present", {}).status == 404
        desks.expire(approval)
        reply = approver.post(path_of(approval), {})
        assert (reply.status, reply.outcome) == (409, "ALREADY_SETTLED")
        assert part.log["world"].arrived == []
    assert not Evidence.objects.exists()


def test_without_an_adapter_that_can_tell_it_is_refused_by_name() -> None:
    reply = person("approver").post(path_of(asked({"n": 1})), {})
    assert (reply.status, reply.pointers) == (422, {"/downstream"})
    assert "TENURE_ADAPTERS" in str(reply.body["errors"])


def test_what_can_not_be_told_is_told_so() -> None:
    ADAPTERS[THERE] = Says(DontKnow(detail="it is down, Bearer abcdefghijklmnop"))
    told = person("approver").post(path_of(asked({"n": 1})), {}).body
    assert (told["told"], told["there"], told["condition_holds"]) == (False, None, None)
    assert "it is down" in told["detail"]
    assert "abcdefghijklmnop" not in told["detail"]


def test_what_is_there_is_masked_as_the_payload_and_revealed_as_evidence() -> None:
    approver = person("approver")
    with parts.etag() as part:
        part.payload = {"path": "/documents/a", "body": {"iban": "DE89-new", "note": "n"}}
        approval = of(part)
        Downstream.objects.update(secret_pointers=["/body/iban"])
        old = {"iban": "DE89-old", "password": "old-word"}
        part.log["world"].documents["a"] = (old, '"v0"')
        told = approver.post(path_of(approval), {}).body
    assert told["masked"] == ["/there/body/iban", "/there/body/password", "/instead/body/iban"]
    effect = f"/effects/{approval.effect_id}"
    for path in (path_of(approval), effect, f"/approvals/{approval.approval_id}"):
        text = str(approver.get(path).body)
        for secret in ("DE89-old", "DE89-new", "old-word"):
            assert secret not in text, path
    body = {"part": "evidence", "evidence_id": told["evidence_id"], "reason": "The customer asks."}
    shown = approver.post(f"{effect}/reveal", body).body
    assert json.loads(shown["value"]["present_state"])["there"]["body"] == old
    assert "/present_state/there/body/iban" in shown["places"]
    assert "old" not in str(Event.objects.get(kind="SECRET_REVEALED").data)


def test_the_sdk_and_a_terminal_ask_and_show_it(
    live_server: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    caller = person("approver")
    monkeypatch.setenv("TENURE_URL", live_server.url)
    monkeypatch.setenv("TENURE_TOKEN", str(caller.token))
    with parts.etag() as part, Client(live_server.url, str(caller.token)) as client:
        approval = of(part)
        name = str(approval.approval_id)
        with pytest.raises(NotFound):
            client.present_state(name)
        present = client.look_at_present(name)
        assert (present.told, present.condition_holds) == (True, True)
        assert client.present_state(name) == present
        part.log["world"].documents["a"] = ({"title": "theirs"}, '"v7"')
        assert main(["present", name]) == 0
        told = capsys.readouterr().out
        assert '-    "title": "theirs"' in told
        assert '+    "title": "after"' in told
        assert "did not hold then" in told
        assert main(["present", name, "--last", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["there"]["body"] == {"title": "theirs"}
        assert len(part.log["world"].arrived) == 2
        ADAPTERS.clear()
        with pytest.raises(InvalidInput):
            client.look_at_present(name)
        desks.expire(approval)
        with pytest.raises(AlreadySettled):
            client.look_at_present(name)
        assert main(["present", name]) == 1
        assert "ALREADY_SETTLED" in capsys.readouterr().err
