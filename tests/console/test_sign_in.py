"""Signing in, being locked out, signing out."""

from typing import Any

import pytest
from django.test import Client

from tests.console.conftest import Open
from tests.console.scene import PASSWORD, person

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.browser]


def test_a_person_signs_in_and_out(opened: Open, operator: Any) -> None:
    window = opened()
    page = window.page
    page.goto("/tasks?state=READY")
    assert "/sign-in" in page.url
    page.fill("#id_username", "olga")
    page.fill("#id_password", "wrong")
    page.click("text=Sign in >> nth=-1")
    assert page.inner_text("#fault") == "The name or the password is wrong."
    assert page.input_value("#id_username") == "olga"
    page.fill("#id_password", PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url("**/tasks?state=READY")
    page.click("[data-menu] summary")
    page.click("text=Sign out")
    page.wait_for_url("**/sign-in")
    page.goto("/")
    assert "/sign-in" in page.url
    assert not window.faults
    assert not window.violations()


def test_too_many_failures_are_told_clearly(client: Client, operator: Any, settings: Any) -> None:
    settings.AXES_FAILURE_LIMIT = 3
    wrong = [client.post("/sign-in", {"username": "olga", "password": "wrong"}) for _ in range(3)]
    assert [answer.status_code for answer in wrong] == [401, 401, 429]
    assert b"locked from here for 15 minutes" in wrong[-1].content
    right = client.post("/sign-in", {"username": "olga", "password": PASSWORD})
    assert right.status_code == 429
    assert client.get("/").status_code == 302


@pytest.mark.parametrize(
    "target", ["https://elsewhere.example/", "//elsewhere.example/x", "javascript:alert(1)"]
)
def test_signing_in_leads_to_no_other_host(client: Client, operator: Any, target: str) -> None:
    answer = client.post("/sign-in", {"username": "olga", "password": PASSWORD, "next": target})
    assert answer.status_code == 302
    assert answer["Location"] == "/"


def test_a_person_without_a_role_is_told_who_may(client: Client) -> None:
    user = person("nobody", "viewer")
    user.groups.clear()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    answer = client.get("/tasks")
    assert answer.status_code == 403
    assert b"Roles that may: viewers, approvers, operators and admins." in answer.content


def test_at_home_the_door_says_where_the_password_stands(client: Client, settings: Any) -> None:
    settings.ENVIRONMENT = "development"
    assert (
        b"The terminal in which Tenure runs tells a name and its password."
        in client.get("/sign-in").content
    )
    settings.ENVIRONMENT = "production"
    assert b"The terminal in which" not in client.get("/sign-in").content
