"""Signing in under attack: sessions planted, kept or replayed, names that nobody can have, hosts that lie."""

from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from coordinator.models import OperatorToken
from tests.console.scene import PASSWORD, person

from .ground import enter

pytestmark = pytest.mark.django_db(transaction=True)
NAME = settings.SESSION_COOKIE_NAME


def signed_in(client: Client) -> bool:
    return client.get("/profile").status_code == 200


def test_a_session_that_was_planted_is_not_the_one_that_signs_in(operator: Any) -> None:
    attacker, victim = Client(), Client()
    planted = attacker.session
    planted["planted"] = "yes"
    planted.save()
    key = planted.session_key
    assert key is not None
    victim.cookies[NAME] = key
    answer = victim.post("/sign-in", {"username": "olga", "password": PASSWORD})
    assert answer.status_code == 302
    assert victim.cookies[NAME].value != key
    attacker.cookies[NAME] = key
    assert signed_in(victim)
    assert not signed_in(attacker)
    assert not Session.objects.filter(session_key=key).exists()


def test_a_key_that_the_caller_made_up_is_never_a_session(operator: Any) -> None:
    victim, made_up = Client(), "a" * 32
    victim.cookies[NAME] = made_up
    victim.post("/sign-in", {"username": "olga", "password": PASSWORD})
    assert victim.cookies[NAME].value != made_up
    assert not Session.objects.filter(session_key=made_up).exists()


def test_what_was_signed_out_is_not_replayed(operator: Any) -> None:
    client = enter(Client(), operator)
    stolen = client.cookies[NAME].value
    client.post("/sign-out")
    thief = Client()
    thief.cookies[NAME] = stolen
    assert not signed_in(thief)
    assert thief.post("/profile/theme", {"theme": "dark"})["Location"].startswith("/sign-in")


def test_the_session_of_another_person_does_not_carry_over(operator: Any, viewer: Any) -> None:
    client = enter(Client(), operator)
    first = client.cookies[NAME].value
    enter(client, viewer)
    thief = Client()
    thief.cookies[NAME] = first
    assert not signed_in(thief)


@pytest.mark.parametrize("how", ["password", "inactive"])
def test_a_session_ends_with_what_it_stood_on(operator: Any, how: str) -> None:
    client = enter(Client(), operator)
    if how == "password":
        operator.set_password("another-long-password")
    else:
        operator.is_active = False
    operator.save()
    assert not signed_in(client)


def test_signing_out_by_a_link_does_nothing(operator: Any) -> None:
    client = enter(Client(), operator)
    assert client.get("/sign-out").status_code == 405
    assert signed_in(client)


def test_nobody_is_signed_in_or_out_from_another_site(operator: Any) -> None:
    client = Client(enforce_csrf_checks=True)
    answer = client.post("/sign-in", {"username": "olga", "password": PASSWORD})
    assert answer.status_code == 403
    assert not signed_in(client)
    enter(client, operator)
    assert client.post("/sign-out").status_code == 403
    assert signed_in(client)


@pytest.mark.parametrize(
    "name",
    [
        "olga\x00",
        "\x00",
        "o" * 100_000,
        "\ud7ff\U0010ffff" * 200,
        "olga\r\nSet-Cookie: a=b",
        "' OR 1=1 --",
        "<b>",
    ],
)
def test_a_name_that_nobody_can_have_is_wrong_and_no_fault(operator: Any, name: str) -> None:
    client = Client(raise_request_exception=False)
    for password in (PASSWORD, "\x00", "p" * 50_000):
        answer = client.post("/sign-in", {"username": name, "password": password})
        assert answer.status_code == 401, (name[:20], answer.status_code)
        assert b"Set-Cookie: a" not in answer.serialize_headers()
    assert not signed_in(client)


def test_known_and_unknown_names_are_refused_alike(operator: Any) -> None:
    told = [
        Client().post("/sign-in", {"username": name, "password": "wrong-but-long"})
        for name in ("olga", "nobody")
    ]
    assert [answer.status_code for answer in told] == [401, 401]
    bodies = [
        answer.content.replace(name, b"").split(b"csrfmiddlewaretoken")[0]
        for answer, name in zip(told, (b"olga", b"nobody"), strict=True)
    ]
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize(
    "cookie", ['"\\000\\000"', "a" * 4000, '"\\377"', "../../etc/passwd", "%00", '"\\012x"']
)
def test_a_cookie_of_nonsense_is_no_session_and_no_fault(operator: Any, cookie: str) -> None:
    client = Client(raise_request_exception=False)
    names = (
        NAME,
        settings.CSRF_COOKIE_NAME,
        settings.LANGUAGE_COOKIE_NAME,
        "tenure_theme",
        "tenure_zone",
    )
    for name in names:
        for path in ("/", "/sign-in", "/api/v1/me", "/admin/"):
            answer = client.get(path, headers={"cookie": f"{name}={cookie}"})
            assert answer.status_code in (200, 302, 401), (name, path, answer.status_code)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost@evil.example",
        "localhost:80@evil",
        "evil.example#localhost",
        "localhost evil",
    ],
)
def test_a_host_that_is_not_ours_gets_no_address_from_us(operator: Any, host: str) -> None:
    client = enter(Client(raise_request_exception=False), operator)
    for path in (
        "/",
        "/sign-in",
        "/sign-in?next=/x",
        "/api/v1/queues",
        "/api/v1/schema",
        "/admin/",
    ):
        for headers in ({"host": host}, {"host": host, "authorization": "Bearer x"}):
            answer = client.get(path, headers=headers)
            assert answer.status_code in (400, 401, 302), (path, answer.status_code)
            assert "evil" not in answer.get("Location", ""), path
            assert b"evil" not in answer.content, path


def test_a_forwarded_host_is_not_believed(operator: Any) -> None:
    client = enter(Client(), operator)
    forged = {
        "x-forwarded-host": "evil.example",
        "x-forwarded-proto": "https",
        "x-forwarded-for": "10.9.8.7",
    }
    for path in ("/", "/api/v1/queues", "/sign-in"):
        answer = client.get(path, headers=forged)
        assert b"evil.example" not in answer.content
        assert "evil" not in answer.get("Location", "")


def test_a_role_that_the_form_was_not_asked_about_is_not_given(operator: Any) -> None:
    """Fields that a form doesn't have change nothing: not the profile's, not the sign-in's."""
    client = enter(Client(), operator)
    extra = {
        "is_superuser": "on",
        "is_staff": "on",
        "groups": "4",
        "role": "admin",
        "user_permissions": "1",
    }
    client.post(
        "/profile", {"theme": "dark", "zone": "UTC", "language": "en", "shortcuts": "on", **extra}
    )
    Client().post("/sign-in", {"username": "olga", "password": PASSWORD, **extra})
    user = User.objects.get(username="olga")
    assert not user.is_superuser
    assert [group.name for group in user.groups.all()] == ["operator"]


def test_an_operator_makes_nobody_an_administrator(operator: Any, viewer: Any) -> None:
    client = enter(Client(), operator)
    wanted = {"role": "admin", "shown_roles": "operator", "reason": "I would like to have it."}
    for user in (operator, viewer):
        assert client.post(f"/people/{user.pk}/role", wanted).status_code == 403
    fields = {
        "username": "x",
        "is_superuser": "on",
        "groups": "4",
        "password1": PASSWORD,
        "password2": PASSWORD,
    }
    for path in (f"/admin/auth/user/{operator.pk}/change/", f"/admin/auth/user/{operator.pk}/password/",
                 "/admin/auth/user/add/", "/admin/auth/group/add/", "/admin/auth/group/1/change/"):  # fmt: skip
        assert client.post(path, fields).status_code in (302, 403), path
    assert User.objects.filter(is_superuser=True).count() == 0
    assert User.objects.filter(groups__name="admin").count() == 0
    assert User.objects.get(pk=operator.pk).check_password(PASSWORD)


def test_an_administrator_is_not_made_a_superuser_by_a_field_that_isnt_there(admin: Any) -> None:
    client = enter(Client(), admin)
    page = f"/admin/auth/user/{admin.pk}/change/"
    group = admin.groups.get().pk
    client.post(page, {"username": "ada", "is_active": "on", "groups": group, "is_superuser": "on", "is_staff": "on",
                       "user_permissions": "1"})  # fmt: skip
    changed = User.objects.get(pk=admin.pk)
    assert not changed.is_superuser
    assert changed.user_permissions.count() == 0


def test_a_persons_token_is_of_no_use_to_another(operator: Any) -> None:
    other = person("otto", "operator")
    client = enter(Client(), operator)
    form = {"name": "mine", "lifetime": "30", "action_key": "0" * 32}
    assert client.post(f"/people/{other.pk}/tokens/new", form).status_code == 403
    made = enter(Client(), other).post(f"/people/{other.pk}/tokens/new", form)
    assert made.status_code == 200
    token = OperatorToken.objects.get(user=other)
    for whose in (other.pk, operator.pk):
        answer = client.post(
            f"/people/{whose}/tokens/{token.pk}/revoke", {"reason": "Not mine at all."}
        )
        assert answer.status_code in (403, 404)
    token.refresh_from_db()
    assert token.revoked_at is None
