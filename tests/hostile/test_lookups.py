"""The tables under attack: an address that filters by what the page doesn't show would tell it all the same."""

from typing import Any, Final

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from coordinator.models import Credential, OperatorToken, Task
from coordinator.services.credentials import create_operator_token
from tests import world
from tests.console.scene import person

from .ground import enter

pytestmark = pytest.mark.django_db(transaction=True)
TABLES: Final = "/admin/coordinator"


@pytest.fixture
def blind(transactional_db: Any) -> Any:
    """On call, but not to see payloads."""
    person("olga", "operator")
    group = Group.objects.create(name="on call, blind")
    group.permissions.set(
        Group.objects.get(name="operator").permissions.exclude(codename="view_payload")
    )
    return person("bea", "on call, blind")


def test_no_digest_of_a_token_is_found_out_letter_by_letter(admin: Any) -> None:
    client = enter(Client(), admin)
    world.queue()
    world.worker(name="fleet")
    create_operator_token(user=admin, name="mine")
    for model, table in ((Credential, "credential"), (OperatorToken, "operatortoken")):
        row: Any = model.objects.get()
        right = bytes(row.token_sha256).hex()[:2]
        for look in ("token_sha256", "token_sha256__startswith", "token_sha256__regex"):
            answer = client.get(f"{TABLES}/{table}/", {look: right})
            assert answer.status_code == 400, (table, look)


def test_no_payload_is_found_out_by_who_may_not_see_it(blind: Any) -> None:
    world.queue()
    world.submit(world.node("a", input={"iban": "DE02"}))
    assert Task.objects.count() == 1
    client = enter(Client(), blind)
    for look in (
        "input__contains",
        "input__iban__startswith",
        "input__regex",
        "input_digest__startswith",
    ):
        for word in ("DE02", "DE03"):
            answer = client.get(f"{TABLES}/task/", {look: word})
            assert answer.status_code == 400, look


@pytest.mark.parametrize(
    "look",
    [
        "user__password__startswith",
        "user__is_superuser",
        "name__regex",
        "prefix__iregex",
        "user__email__contains",
    ],
)
def test_a_table_is_filtered_by_nothing_that_its_page_does_not_offer(admin: Any, look: str) -> None:
    create_operator_token(user=admin, name="mine")
    answer = enter(Client(), admin).get(f"{TABLES}/operatortoken/", {look: "a"})
    assert answer.status_code == 400


def test_the_password_of_a_person_is_found_out_by_no_filter(admin: Any) -> None:
    client = enter(Client(), admin)
    for look in ("password__startswith", "password", "groups__user__password__startswith"):
        answer = client.get("/admin/auth/user/", {look: "argon2"})
        assert answer.status_code in (302, 400), look
