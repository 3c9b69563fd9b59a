"""A person who is new gets a code, shown once, and sets a password by it; so does who has lost theirs."""

import logging
import re
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from coordinator.models import Event, OperatorToken, StoredAnswer
from coordinator.services.credentials import create_operator_token
from tests.console.scene import person

pytestmark = pytest.mark.django_db(transaction=True)
WHY = "She joins the people on call."
CODE = re.compile(r"\b[0-9a-z]{6,7}-[0-9a-f]{32}\b")
PASSWORD = "a heron on the weir at six"
ANOTHER = "two herons on the same weir"
WRONG = "The name or the code is wrong"


@pytest.fixture
def as_admin(client: Client, admin: Any) -> Client:
    client.force_login(admin, backend="django.contrib.auth.backends.ModelBackend")
    return client


def wish(**more: Any) -> dict[str, Any]:
    return {"action_key": str(uuid4()), "name": "nina", "role": "operator", "reason": WHY} | more


def admitted(as_admin: Client, **more: Any) -> str:
    (code,) = set(CODE.findall(as_admin.post("/people/new", wish(**more)).content.decode()))
    return str(code)


def enter(code: str, client: Client | None = None, **more: Any) -> Any:
    told = {"name": "nina", "code": code, "password": PASSWORD, "again": PASSWORD} | more
    return (client or Client()).post("/welcome", told)


def test_who_is_new_sets_a_password_by_a_code_that_works_once(as_admin: Client) -> None:
    code = admitted(as_admin)
    nina = User.objects.get(username="nina")
    assert not nina.has_usable_password()
    assert [group.name for group in nina.groups.all()] == ["operator"]
    hers = Client()
    assert enter(code, hers)["Location"] == "/"
    assert hers.get("/").context["user"] == nina
    nina.refresh_from_db()
    assert nina.check_password(PASSWORD)
    again = enter(code, password=ANOTHER, again=ANOTHER)
    assert again.status_code == 422
    assert WRONG in again.content.decode()
    nina.refresh_from_db()
    assert nina.check_password(PASSWORD)
    made = Event.objects.get(kind="PERSON_ADMITTED")
    assert (made.actor, made.data["person"], made.data["role"], made.data["reason"]) == (
        "operator:ada",
        "nina",
        "operator",
        WHY,
    )
    assert Event.objects.get(kind="PASSWORD_SET").actor == "operator:nina"


def test_the_code_stands_in_one_answer_and_nowhere_else(
    as_admin: Client, caplog: pytest.LogCaptureFixture
) -> None:
    form = wish()
    with caplog.at_level(logging.DEBUG):
        first = as_admin.post("/people/new", form)
        (code,) = set(CODE.findall(first.content.decode()))
        again = as_admin.post("/people/new", form).content.decode()
        enter(code)
    assert "no-store" in first["Cache-Control"]
    assert "The code was shown before" in again
    assert User.objects.filter(username="nina").count() == 1
    stored = str([list(model.objects.values_list()) for model in (Event, StoredAnswer, User)])
    for text in (again, stored, caplog.text, as_admin.get("/people").content.decode()):
        assert code not in text
        assert PASSWORD not in text


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": ""}, "Give the name that they sign in with."),
        ({"name": "ni na"}, "no spaces"),
        ({"name": "ADA"}, "somebody has this name already"),
        ({"role": "king"}, "king is not one of the available choices"),
        ({"reason": "why not"}, "Say why in 10 characters or more."),
    ],
)
def test_a_faulty_wish_makes_nobody(as_admin: Client, change: dict[str, Any], told: str) -> None:
    people = User.objects.count()
    answer = as_admin.post("/people/new", wish(**change))
    assert answer.status_code == 422
    assert told in answer.content.decode()
    assert User.objects.count() == people


def test_who_may_not_administer_makes_nobody_and_is_on_record(signed_in: Client) -> None:
    vera, people = person("vera", "viewer"), User.objects.count()
    for path in ("/people/new", f"/people/{vera.pk}/code"):
        answer = signed_in.post(path, wish())
        assert answer.status_code == 403
        assert "Roles that may: admins." in answer.content.decode()
    assert User.objects.count() == people
    denied = Event.objects.filter(kind="REFUSED", actor="operator:olga", data__outcome="FORBIDDEN")
    assert {row.data["point"] for row in denied} == {"person-new", "person-code"}
    shown = signed_in.get("/people").content.decode()
    assert "New person…</span>" in shown
    assert 'why-locked">You may not manage' in shown


def test_a_password_that_is_guessed_or_typed_apart_is_not_set(as_admin: Client) -> None:
    code = admitted(as_admin)
    apart: list[tuple[dict[str, Any], str]] = [
        ({"password": "short", "again": "short"}, "too short"),
        ({"password": "password1234", "again": "password1234"}, "too common"),
        ({"again": ANOTHER}, "The two passwords differ."),
    ]
    for typed, told in apart:
        answer = enter(code, **typed)
        assert answer.status_code == 422
        assert told in answer.content.decode()
    assert enter(code).status_code == 302  # what was refused has used nothing up


@pytest.mark.parametrize("of", ["another person", "nobody", "long ago", "a disabled account"])
def test_a_code_opens_one_door_for_a_while(as_admin: Client, settings: Any, of: str) -> None:
    code, name = admitted(as_admin), "nina"
    if of == "another person":
        admitted(as_admin, name="otto")
        name = "otto"
    elif of == "nobody":
        name = "nessie\x00"
    elif of == "long ago":
        settings.PASSWORD_RESET_TIMEOUT = -1
    else:
        User.objects.filter(username="nina").update(is_active=False)
    answer = enter(code, name=name)
    assert answer.status_code == 422
    assert WRONG in answer.content.decode()
    assert not Event.objects.filter(kind="PASSWORD_SET").exists()


def test_a_newer_code_ends_the_older_one_the_password_and_the_tokens(as_admin: Client) -> None:
    older = admitted(as_admin)
    hers = Client()
    enter(older, hers)
    nina = User.objects.get(username="nina")
    create_operator_token(user=nina, name="calendar")
    form = {"action_key": str(uuid4()), "shown_roles": "operator", "reason": WHY}
    page = as_admin.post(f"/people/{nina.pk}/code", form)
    (code,) = set(CODE.findall(page.content.decode()))
    nina.refresh_from_db()
    assert not nina.has_usable_password()
    assert OperatorToken.objects.get(name="calendar").revoked_at is not None
    assert hers.get("/").status_code == 302  # her session has ended
    assert enter(older).status_code == 422
    assert enter(code, password=ANOTHER, again=ANOTHER).status_code == 302
    given = Event.objects.get(kind="WAY_IN_GIVEN")
    assert (given.actor, given.data["reason"]) == ("operator:ada", WHY)


@pytest.mark.parametrize("of", ["oneself", "a superuser", "a disabled account"])
def test_no_code_is_given_where_it_would_be_a_way_round(
    as_admin: Client, admin: Any, of: str
) -> None:
    vera = admin if of == "oneself" else person("vera", "viewer")
    changes: dict[str, Any] = {"a superuser": {"is_superuser": True}}.get(of, {"is_active": True})
    if of == "a disabled account":
        changes = {"is_active": False}
    User.objects.filter(pk=vera.pk).update(**changes)
    before = User.objects.get(pk=vera.pk).password
    assert "disabled>" in as_admin.get(f"/people/{vera.pk}/code").content.decode()
    roles = ",".join(vera.groups.values_list("name", flat=True))
    form = {"action_key": str(uuid4()), "shown_roles": roles, "reason": WHY}
    answer = as_admin.post(f"/people/{vera.pk}/code", form)
    assert answer.status_code == 422
    assert User.objects.get(pk=vera.pk).password == before
    assert not Event.objects.filter(kind="WAY_IN_GIVEN").exists()


def test_ones_own_password_is_set_with_the_old_one(as_admin: Client) -> None:
    enter(admitted(as_admin), hers := Client())
    nina = User.objects.get(username="nina")
    elsewhere = Client()
    elsewhere.force_login(nina, backend="django.contrib.auth.backends.ModelBackend")
    typed = {"current": "not this one", "password": ANOTHER, "again": ANOTHER}
    refused = hers.post("/profile/password", typed)
    assert refused.status_code == 422
    assert "This is not your password." in refused.content.decode()
    kept = StoredAnswer.objects.count()
    done = hers.post("/profile/password", typed | {"current": PASSWORD, "action_key": str(uuid4())})
    assert (done.status_code, done["Location"]) == (302, "/profile")
    assert StoredAnswer.objects.count() == kept  # of a password no digest is kept
    nina.refresh_from_db()
    assert nina.check_password(ANOTHER)
    assert hers.get("/profile").status_code == 200
    assert elsewhere.get("/profile").status_code == 302
    assert Event.objects.filter(kind="PASSWORD_SET", actor="operator:nina").count() == 2


def test_a_code_does_not_outlive_a_sign_in(as_admin: Client) -> None:
    code = admitted(as_admin)
    User.objects.filter(username="nina").update(last_login=timezone.now())
    assert enter(code).status_code == 422
