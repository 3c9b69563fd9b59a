"""Credentials and people in the console: a token is shown once, and what is taken away is gone at once."""

import re
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from coordinator.models import Credential, Event, OperatorToken, StoredAnswer
from coordinator.services.credentials import find_worker
from tests import world
from tests.console.conftest import Open
from tests.console.filling import filled
from tests.console.scene import Scene, person

pytestmark = pytest.mark.django_db(transaction=True)
WHY = "The host it ran on was sold."
TOKEN = re.compile(r"tnr_[wo]_[0-9a-f]{12}_[0-9a-f]{64}")


@pytest.fixture
def as_admin(client: Client, admin: Any) -> Client:
    client.force_login(admin, backend="django.contrib.auth.backends.ModelBackend")
    return client


def wish(**more: Any) -> dict[str, Any]:
    return {
        "action_key": str(uuid4()),
        "name": "build host 7",
        "pool": "blue",
        "queues": ["review"],
        "scopes": ["work"],
        "lifetime": "90",
    } | more


def everything_stored() -> str:
    return "".join(
        str(list(model.objects.values_list())) for model in (Event, Credential, StoredAnswer)
    )


def test_a_token_stands_in_one_answer_and_nowhere_else(as_admin: Client, scene: Scene) -> None:
    """Of every form that shows one, and of the logs: test_tokens_shown_once."""
    form = wish()
    answer = as_admin.post("/credentials/new", form)
    (token,) = set(TOKEN.findall(answer.content.decode()))
    assert "no-store" in answer["Cache-Control"]
    made = Credential.objects.get(name="build host 7")
    assert made.last4 == token[-4:]
    secret = token.rsplit("_", 1)[-1]
    again = as_admin.post("/credentials/new", form)  # a reload sends the form again
    assert "The token was shown before" in again.content.decode()
    assert Credential.objects.filter(name="build host 7").count() == 1
    for address in ("/credentials", f"/credentials/{made.credential_id}", "/people"):
        assert secret not in as_admin.get(address).content.decode()
    assert secret not in again.content.decode()
    assert secret not in everything_stored()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": ""}, "Give it a name that says whose it is."),
        ({"queues": []}, "Choose at least one queue."),
        ({"scopes": []}, "Choose at least one scope."),
        ({"pool": "crimson"}, "there is no pool &#x27;crimson&#x27;"),
        ({"queues": ["nowhere"]}, "nowhere is not one of the available choices"),
    ],
)
def test_a_faulty_wish_is_told_by_its_field(
    as_admin: Client, scene: Scene, change: dict[str, Any], told: str
) -> None:
    answer = as_admin.post("/credentials/new", wish(**change))
    assert answer.status_code == 422
    assert told in answer.content.decode()
    assert not Credential.objects.filter(name="build host 7").exists()


def test_a_person_who_may_not_is_refused_and_on_record(signed_in: Client, scene: Scene) -> None:
    before = Credential.objects.count()
    for path in ("new", f"{scene.credential}/revoke", f"{scene.credential}/rotate"):
        answer = signed_in.post(f"/credentials/{path}", wish(reason=WHY))
        assert answer.status_code == 403
        assert "Roles that may: admins." in answer.content.decode()
    assert Credential.objects.count() == before
    assert not Credential.objects.exclude(revoked_at=None).exists()
    denied = Event.objects.filter(kind="REFUSED", actor="operator:olga", data__outcome="FORBIDDEN")
    assert {row.data["point"] for row in denied} == {
        "credential-new",
        "credential-revoke",
        "credential-rotate",
    }


def test_a_rotation_keeps_the_rights_and_names_the_end_of_the_old_one(
    as_admin: Client, scene: Scene
) -> None:
    here = f"/credentials/{scene.credential}/rotate"
    form = filled(as_admin, here, reason="Quarterly rotation of tokens.", overlap_hours="24")
    answer = as_admin.post(here, form)
    (token,) = set(TOKEN.findall(answer.content.decode()))
    worker = find_worker(token=token)
    assert worker is not None
    assert worker.queues == {"review", "nightly"}
    old = Credential.objects.get(credential_id=scene.credential)
    assert old.revoked_at is None
    assert old.expires_at is not None


@pytest.mark.browser
def test_revoking_a_credential_end_to_end(opened: Open, scene: Scene, admin: Any) -> None:
    window = opened(user=admin)
    page = window.page
    page.goto("/")
    page.click(".rail >> text=Credentials")
    page.click("text=New credential…")
    page.fill("#id_name", "build host 7")
    page.check("text=review")
    page.click("text=Create the credential")
    token = page.inner_text("[data-token] code")
    assert find_worker(token=token) is not None
    window.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("[data-token] [data-copy]")
    page.wait_for_selector("#say:has-text('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == token
    page.click("text=I have put it away")
    assert token not in page.content()
    page.goto(f"/credentials/{scene.credential}")
    page.click("text=Revoke…")
    assert "It holds 2 live claims." in page.inner_text(".verdict .why")
    page.fill("#id_reason", "too short")
    page.click("#decision button")
    assert "Say why in 10 characters or more." in page.inner_text(".fault")
    page.fill("#id_reason", WHY)
    page.click("#decision button")
    page.wait_for_url(f"**/credentials/{scene.credential}")
    assert "Its token is refused from now on." in page.inner_text(".alert")
    assert page.locator("text=Revoke…").count() == 0
    told = Event.objects.get(kind="CREDENTIAL_REVOKED")
    assert (told.actor, told.data["reason"]) == ("operator:ada", WHY)
    assert not window.faults
    assert not window.violations()


def test_a_person_makes_and_ends_a_token_of_their_own(signed_in: Client, operator: Any) -> None:
    here = f"/people/{operator.pk}"
    form = {"action_key": str(uuid4()), "name": "calendar", "lifetime": "30"}
    answer = signed_in.post(f"{here}/tokens/new", form).content.decode()
    (token,) = set(TOKEN.findall(answer))
    page = signed_in.get(here).content.decode()
    assert token not in page
    assert f"…{token[-4:]}" in page
    row = OperatorToken.objects.get(user=operator)
    revoke = f"{here}/tokens/{row.pk}/revoke"
    signed_in.post(revoke, filled(signed_in, revoke, reason="The laptop was lost."))
    row.refresh_from_db()
    assert row.revoked_by == "operator:olga"


def test_the_tokens_of_others_are_neither_shown_nor_touched(
    signed_in: Client, scene: Scene
) -> None:
    here = f"/people/{scene.approver}"
    row = OperatorToken.objects.get(user_id=scene.approver)
    assert row.prefix not in signed_in.get(here).content.decode()
    form = {"action_key": str(uuid4()), "name": "mine", "lifetime": "30"}
    assert signed_in.post(f"{here}/tokens/new", form).status_code == 403
    revoke = signed_in.post(f"{here}/tokens/{row.pk}/revoke", {"reason": WHY})
    assert revoke.status_code == 403
    row.refresh_from_db()
    assert row.revoked_at is None
    assert OperatorToken.objects.count() == 1


def test_an_administrator_changes_a_role_but_not_the_last_ones(
    as_admin: Client, admin: Any, scene: Scene
) -> None:
    here = f"/people/{scene.approver}/role"
    form = {"role": "operator", "shown_roles": "approver", "reason": "She joined the night shift."}
    assert as_admin.post(here, form).status_code == 302
    stale = as_admin.post(here, form)
    assert stale.status_code == 409
    assert "It changed while you were looking" in stale.content.decode()
    own = {"role": "viewer", "shown_roles": "admin", "reason": "I want to see less of it."}
    answer = as_admin.post(f"/people/{admin.pk}/role", own)
    assert answer.status_code == 422
    assert "last person who administers" in answer.content.decode()
    person("bea", "admin")
    assert as_admin.post(f"/people/{admin.pk}/role", own).status_code == 302
    assert as_admin.get("/credentials").status_code == 403


def test_the_list_of_a_page_holds_no_more_than_it_says(as_admin: Client, scene: Scene) -> None:
    for number in range(105):
        world.worker(name=f"extra {number}", queues=("review",))
    page = as_admin.get("/credentials").content.decode()
    assert page.count('id="c-') == 100
    assert 'rel="next"' in page
