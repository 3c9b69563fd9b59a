"""Secrets in payloads: masked wherever people look, revealed once, for a reason and on record."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from coordinator.models import Approval, Attempt, Downstream, EffectSlot, Event, Task
from coordinator.services.cancels import cancel_task
from coordinator.services.endings import fail_attempt
from coordinator.services.reconciliation import Finding, Method, Verdict, reconcile_effect
from coordinator.states import Guarantee
from tests import world
from tests.console import desk as desks
from tests.console.scene import any_time, person
from tests.console.test_approvals import word
from tests.effects import ledger

pytestmark = pytest.mark.django_db(transaction=True)

SECRETS = (
    "hunter2-of-the-bank",
    "AKIAIOSFODNN7EXAMPLE",
    "DE89370400440532013000",
    "s3cr3t-of-the-input",
)
PASSWORD, KEY, IBAN, OF_INPUT = SECRETS
PAYLOAD = {
    "to": "billing@acme.example",
    "amount": "1240.00",
    "auth": {"password": PASSWORD},
    "command": f"aws --key {KEY} s3 ls",
    "account": {"iban": IBAN},
}
WHY = "The customer asks which account it goes to."


@pytest.fixture
def asked(transactional_db: None) -> Approval:
    """A payload with secrets of each kind, in a task whose input has one, waiting for a person."""
    desks.furnish()
    Downstream.objects.filter(name="acme-pay").update(secret_pointers=["/account/iban"])
    fleet = world.worker(name="payments-fleet", queues=(desks.QUEUE,))
    run = world.submit(
        world.node(
            "pay",
            kind="pay",
            slots={"send": "acme-pay"},
            input={"smtp": {"api_key": OF_INPUT}, "n": 1},
        ),
        queue_name=desks.QUEUE,
        name="Pay run",
    )
    task_id = world.task_id(run, "pay")
    claim = world.claim_one(by=fleet, of=task_id, queue_name=desks.QUEUE)
    fail_attempt(
        attempt_id=claim.fence.attempt_id,
        fence=claim.fence,
        error={
            "type": "Refused",
            "message": f"401 for Bearer {PASSWORD}",
            "detail": {"token": PASSWORD},
        },
        retryable=True,
        worker=fleet,
    )
    world.make_due(task_id)
    return desks.ask(task_id, PAYLOAD, by=fleet)


def client_of(name: str, role: str = "approver") -> Client:
    client = Client()
    user = User.objects.filter(username=name).first() or person(name, role)
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def reveal(client: Client, address: str, **changes: str) -> Any:
    return client.post(address, {"action_key": str(uuid4()), "reason": WHY} | changes)


def addresses(approval: Approval) -> list[str]:
    task, effect = approval.effect.task_id, approval.effect_id
    return [
        "/",
        "/approvals",
        *(f"/approvals/{approval.pk}?way={way}" for way in ("rendered", "json", "raw")),
        f"/approvals/{approval.pk}/reveal",
        f"/effects/{effect}",
        f"/effects/{effect}/reveal/payload",
        f"/tasks/{task}",
        *(f"/tasks/{task}/{tab}" for tab in ("effects", "events", "input", "raw", "candidates")),
        f"/tasks/{task}/revise",
        f"/tasks/{task}/reveal/input",
        f"/tasks/{task}/download/input",
        f"/runs/{approval.effect.task.run.run_id}",
        "/audit",
        "/audit/export.ndjson",
        "/audit/export.csv",
        f"/admin/coordinator/effectslot/{effect}/change/",
        f"/admin/coordinator/task/{task}/change/",
    ]


def told(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


def body(answer: Any) -> str:
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return str(content.decode())


def test_no_page_holds_a_secret_before_it_is_revealed(asked: Approval) -> None:
    ada = client_of("ada", "admin")
    User.objects.filter(username="ada").update(is_staff=True)
    for address in addresses(asked):
        answer = ada.get(address)
        assert answer.status_code == 200, address
        assert told(body(answer)) == [], address


def test_a_diff_and_a_conflict_hold_none_either(asked: Approval) -> None:
    anna, form = client_of("anna"), word(asked.pk)
    task = asked.effect.task_id
    fleet = world.worker(name="more", queues=(desks.QUEUE,))
    second = desks.ask(
        desks.revise(task), PAYLOAD | {"auth": {"password": "another-" + PASSWORD}}, by=fleet
    )
    conflict = anna.post(f"/approvals/{asked.pk}", form)
    beside = anna.get(f"/approvals/{second.pk}")
    assert conflict.status_code == 409
    for answer in (conflict, beside):
        page = answer.content.decode()
        assert told(page) == []
        assert page.count("[masked: name #") >= 2  # the marks differ, as the values do
        assert '<tr class="added">' in page


def test_each_masked_value_is_named_with_why(asked: Approval) -> None:
    page = client_of("anna").get(f"/approvals/{asked.pk}").content.decode()
    for place, why in (
        ("/auth/password", "its name says so"),
        ("/command", "it looks like a secret"),
        ("/account/iban", "its downstream says so"),
    ):
        assert f"<code>{place}</code>" in page
        assert why in page
    assert "3 values are masked here:" in page
    assert asked.payload_digest in page


def test_an_approver_reveals_once_and_decides_on_what_they_have_seen(asked: Approval) -> None:
    anna, here = client_of("anna"), f"/approvals/{asked.pk}/reveal"
    answer = reveal(anna, here)
    page = answer.content.decode()
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    assert told(page) == [PASSWORD, KEY, IBAN]
    assert f'action="/approvals/{asked.pk}?turn=mine" id="decision"' in page
    assert asked.payload_digest in page
    for address in (here, f"/approvals/{asked.pk}"):
        assert told(anna.get(address).content.decode()) == []
    anna.post(f"/approvals/{asked.pk}", word(asked.pk))
    assert Approval.objects.get(pk=asked.pk).state == "APPROVED"


def test_who_looked_at_which_places_and_why_is_on_record_and_what_they_saw_is_not(
    asked: Approval,
) -> None:
    anna = client_of("anna")
    reveal(anna, f"/approvals/{asked.pk}/reveal")
    event = Event.objects.get(kind="SECRET_REVEALED")
    assert (event.actor, event.task_id) == ("operator:anna", asked.effect.task_id)
    assert event.data == {
        "part": "payload",
        "reason": WHY,
        "digest": asked.payload_digest,
        "places": ["/account/iban", "/auth/password", "/command"],
        "count": 3,
        "effect_id": asked.effect_id,
        "address": "127.0.0.1",
    }
    assert told(str(list(Event.objects.exclude(kind="FAILED").values()))) == []
    audit = client_of("ada", "admin").get("/audit?kind=SECRET_REVEALED").content.decode()
    assert WHY in audit
    assert "/auth/password" in audit


def test_nothing_of_a_reveal_is_logged(
    asked: Approval, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level("DEBUG"):
        assert told(reveal(client_of("anna"), f"/approvals/{asked.pk}/reveal").content.decode())
    out, err = capfd.readouterr()
    assert told(caplog.text + out + err) == []


def parts(approval: Approval) -> Iterator[tuple[str, list[str]]]:
    task, effect = approval.effect.task_id, approval.effect_id
    yield f"/effects/{effect}/reveal/payload", [PASSWORD, KEY, IBAN]
    yield f"/tasks/{task}/reveal/input", [OF_INPUT]


def test_the_other_parts_are_revealed_the_same_way(asked: Approval) -> None:
    anna = client_of("anna")
    for address, values in parts(asked):
        assert told(anna.get(address).content.decode()) == []
        assert told(reveal(anna, address).content.decode()) == values
    assert Event.objects.filter(kind="SECRET_REVEALED").count() == 2


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_who_may_not_reveal_sees_why_and_is_refused_on_record(asked: Approval, role: str) -> None:
    client, here = client_of(role, role), f"/effects/{asked.effect_id}/reveal/payload"
    assert "Roles that may: approvers and admins." in client.get(here).content.decode()
    before = world.fingerprint()
    for address in (here, f"/approvals/{asked.pk}/reveal"):
        answer = reveal(client, address)
        assert (answer.status_code, told(answer.content.decode())) == (403, [])
    assert world.fingerprint() == before
    assert not Event.objects.filter(kind="SECRET_REVEALED").exists()
    assert (
        Event.objects.get(kind="REFUSED", data__point="reveal_secrets").actor == f"operator:{role}"
    )


@pytest.mark.parametrize("reason", ["", "short"])
def test_without_a_reason_nothing_is_revealed(asked: Approval, reason: str) -> None:
    answer = reveal(client_of("anna"), f"/approvals/{asked.pk}/reveal", reason=reason)
    assert (answer.status_code, told(answer.content.decode())) == (422, [])
    assert not Event.objects.filter(kind="SECRET_REVEALED").exists()


def test_what_hides_nothing_is_not_revealed_and_what_is_not_there_is_not_found(
    asked: Approval,
) -> None:
    anna, task = client_of("anna"), asked.effect.task_id
    for address, status in (
        (f"/effects/{asked.effect_id}/reveal/receipt", 404),
        (f"/effects/{'0' * 64}/reveal/payload", 404),
        (f"/effects/{asked.effect_id}/reveal/nonsense", 404),
        (f"/tasks/{task}/reveal/result", 404),
        (f"/tasks/{task}/reveal/candidate?attempt=x&digest=y", 404),
        (f"/tasks/{uuid4()}/reveal/input", 404),
        (f"/approvals/{uuid4()}/reveal", 404),
    ):
        assert reveal(anna, address).status_code == status, address
    Task.objects.none()
    assert not Event.objects.filter(kind="SECRET_REVEALED").exists()


def revision(task_id: UUID, text: str) -> dict[str, Any]:
    task = world.task(task_id)
    return {
        "action_key": str(uuid4()),
        "expected_state_version": task.state_version,
        "shown_state": task.state,
        "shown_owner": task.owner or "",
        "shown_generation": task.claim_generation,
        "reason": "The number was wrong.",
        "input": text,
    }


def test_a_task_is_revised_over_masks_and_keeps_what_stands_behind_them(asked: Approval) -> None:
    olga, task_id = client_of("olga", "operator"), asked.effect.task_id
    page = olga.get(f"/tasks/{task_id}/revise")
    shown = str(page.context["input"])
    assert told(shown) == []
    moved = olga.post(f"/tasks/{task_id}/revise", revision(task_id, f"[{shown}]"))
    assert moved.status_code == 422
    assert "A masked value was changed or moved" in moved.content.decode()
    edited = shown.replace('"n": 1', '"n": 2')
    answer = olga.post(f"/tasks/{task_id}/revise", revision(task_id, edited))
    assert answer.status_code == 302
    new = Task.objects.get(supersedes_id=task_id)
    assert new.input == f'{{"n":2,"smtp":{{"api_key":"{OF_INPUT}"}}}}'


def test_a_receipt_that_was_shown_masked_is_kept_as_it_is(transactional_db: None) -> None:
    desks.furnish()
    fleet = world.worker(name="payments-fleet", queues=(desks.QUEUE,))
    effect_id = desks.unknown(Guarantee.IDEMPOTENT_KEY, "mailer", by=fleet, seconds=400)
    receipt = {"id": "r-7", "token": PASSWORD}
    effect = EffectSlot.objects.get(effect_id=effect_id)
    anna = client_of("anna")
    ledger.looked_up(effect, by=ledger.person("anna"))  # type: ignore[arg-type]
    verdict = Verdict(Finding.HAPPENED, 1, Method.QUERY, "there", None, receipt)
    reconcile_effect(effect_id=effect_id, verdict=verdict, actor=ledger.person("anna"))
    page = anna.get(f"/effects/{effect_id}").content.decode()
    assert told(page) == []
    assert "[masked: name #" in page
    assert told(reveal(anna, f"/effects/{effect_id}/reveal/receipt").content.decode()) == [PASSWORD]


def test_what_an_event_and_a_run_hold_is_revealed_from_where_it_is_masked(asked: Approval) -> None:
    anna, olga = client_of("anna"), client_of("olga", "operator")
    run = asked.effect.task.run
    with world.guarded(), connection.cursor() as cursor:
        secret = '{"ci":{"token":"' + PASSWORD + '"}}'
        cursor.execute("UPDATE coordinator_run SET metadata = %s WHERE id = %s", [secret, run.pk])
    secret = f"Bearer {PASSWORD}"
    cancel_task(task_id=asked.effect.task_id, reason=secret, actor=world.operator())
    gone = Event.objects.get(kind="CANCELLED", task_id=asked.effect.task_id)
    pages = {
        f"/runs/{run.run_id}": f"/runs/{run.run_id}/reveal",
        f"/tasks/{asked.effect.task_id}/events": f"/events/{gone.pk}/reveal",
    }
    for page, address in pages.items():
        masked = anna.get(page).content.decode()
        assert f'href="{address}"' in masked
        assert told(masked) == []
        assert told(anna.get(address).content.decode()) == []
        assert reveal(olga, address).status_code == 403
        assert reveal(anna, address, reason="short").status_code == 422
        assert told(body(reveal(anna, address))) == [PASSWORD]
    seen = Event.objects.filter(kind="SECRET_REVEALED").order_by("id")
    assert [(each.actor, each.data["part"]) for each in seen] == [
        ("operator:anna", "metadata"),
        ("operator:anna", "event"),
    ]
    assert anna.get(f"/runs/{uuid4()}/reveal").status_code == 200
    assert reveal(anna, f"/runs/{uuid4()}/reveal").status_code == 404
    assert anna.get(f"/events/{10**19}/reveal").status_code == 404


def test_an_attempts_error_and_a_piece_of_evidence_are_revealed_where_they_stand(
    asked: Approval,
) -> None:
    anna, effect = client_of("anna"), asked.effect
    attempt = Attempt.objects.get(task_id=effect.task_id, error__isnull=False)
    page = anna.get(f"/tasks/{effect.task_id}").content.decode()
    link = f"/tasks/{effect.task_id}/reveal/error?attempt={attempt.attempt_id}"
    assert f'href="{link}"' in page
    told = anna.post(link, {"reason": WHY, "action_key": str(uuid4())}).content.decode()
    assert told.count(PASSWORD) == 2
    assert "/detail/token" in told
    with any_time() as cursor:
        cursor.execute(
            "INSERT INTO coordinator_evidence (effect_id, kind, said, late, actor, at, detail)"
            " VALUES (%s, 'query', 'DONT_KNOW', false, 'system:probe', now(), %s) RETURNING id",
            [effect.effect_id, f'{{"detail": "they said Bearer {PASSWORD}"}}'],
        )
        number = cursor.fetchone()[0]
    page = anna.get(f"/effects/{effect.effect_id}").content.decode()
    link = f"/effects/{effect.effect_id}/reveal/evidence?id={number}"
    assert f'href="{link}"' in page
    assert PASSWORD not in page
    told = anna.post(link, {"reason": WHY, "action_key": str(uuid4())}).content.decode()
    assert PASSWORD in told
    assert Event.objects.filter(kind="SECRET_REVEALED").count() == 2
    for nothing in ("", "x", "9" * 40):
        form = {"reason": WHY, "action_key": str(uuid4())}
        answer = anna.post(link.rpartition("=")[0] + f"={nothing}", form)
        assert answer.status_code == 404, nothing
