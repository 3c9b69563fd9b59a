"""Credentials and people: made by services and by commands (contract 15, 17)."""

import io
import json
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command

from coordinator.actors import system
from coordinator.models import Credential, Event
from coordinator.outcomes import Refusal
from coordinator.selectors.credentials import find_operator
from coordinator.services.answers import RequestKey
from coordinator.services.credentials import (
    Issued,
    create_credential,
    create_operator_token,
    find_worker,
    issue_credential,
    revoke_credential,
)
from coordinator.services.roles import ROLES, ensure_roles
from coordinator.tokens import TokenKind, new_token, read_token
from tests import world

pytestmark = pytest.mark.django_db(transaction=True)
ACTOR = system("tests")


def issue(**changes: Any) -> Issued | Refusal:
    world.pool()
    fields = {"name": "fleet", "pool": "blue", "queues": ["q"], "scopes": ["work"], "actor": ACTOR}
    return issue_credential(**{**fields, **changes})


@pytest.fixture(autouse=True)
def _queue() -> None:
    world.queue()


def test_a_token_finds_its_worker_until_it_is_revoked() -> None:
    credential, token = create_credential(
        name="fleet", pool="blue", queues=["q", "q"], scopes=["submit", "work"], actor=ACTOR
    )
    found = find_worker(token=token)
    assert found is not None
    assert found.id == credential.pk
    assert found.queues == {"q"}
    assert found.scopes == {"work", "submit"}
    assert credential.queues == ["q"]
    revoke_credential(credential_id=credential.credential_id, actor=ACTOR)
    assert find_worker(token=token) is None


@pytest.mark.parametrize(
    "token", ["", "x", "tnr_w_", "tnr_w_zz_00", "tnr_o_" + "0" * 12 + "_" + "0" * 64]
)
def test_what_is_no_workers_token_finds_nobody(token: str) -> None:
    assert find_worker(token=token) is None


def test_the_row_has_only_a_hash_of_the_token() -> None:
    _, token = create_credential(
        name="fleet", pool="blue", queues=["q"], scopes=["work"], actor=ACTOR
    )
    row = Credential.objects.values().get()
    assert bytes(row["token_sha256"]) == read_token(token).sha256  # type: ignore[union-attr]
    assert token.rsplit("_", 1)[1] not in str(row)


def test_every_fault_is_told_and_nothing_is_made() -> None:
    answer = issue(name="", pool="nowhere", queues=["q", "x"], scopes=["work", "root"])
    assert isinstance(answer, Refusal)
    assert {error.pointer for error in answer.errors} == {
        "/name",
        "/pool",
        "/queues/1",
        "/scopes/1",
    }
    with pytest.raises(ValueError, match="there is no pool 'nowhere'"):
        create_credential(name="n", pool="nowhere", queues=["q"], scopes=["work"], actor=ACTOR)
    assert Credential.objects.count() == 0


def test_two_requests_with_one_key_at_once_make_one_credential() -> None:
    request = RequestKey("operator:1::create_credential", "k" * 16, "sha256:x")
    rivals = [world.Rival(lambda: issue(request=request)) for _ in range(4)]
    answers = [rival.result() for rival in rivals]
    assert all(isinstance(answer, Issued) for answer in answers)
    assert len({answer.token for answer in answers}) == 1  # type: ignore[union-attr]
    assert Credential.objects.count() == 1
    assert Event.objects.filter(kind="CREDENTIAL_CREATED").count() == 1


def test_a_personal_token_can_do_what_the_person_can() -> None:
    user = User.objects.create(username="vera")
    user.groups.add(Group.objects.get(name="approver"))
    _, text = create_operator_token(user=user, name="ci")
    token = read_token(text)
    assert token is not None
    found = find_operator(token)
    assert found is not None
    assert set(found.permissions) == ROLES["approver"]
    User.objects.update(is_superuser=True)
    everything = find_operator(token)
    assert everything is not None
    assert set(everything.permissions) == ROLES["admin"]


def test_tokens_are_never_the_same_and_read_back_as_they_were_made() -> None:
    made = [new_token(TokenKind.WORKER) for _ in range(100)]
    assert len({token.text for token in made}) == 100
    assert [read_token(token.text) for token in made] == made


def test_the_roles_have_the_permissions_of_the_contract() -> None:
    ensure_roles()
    for role, permissions in ROLES.items():
        group = Group.objects.get(name=role)
        assert {each.codename for each in group.permissions.all()} == permissions
    assert not ROLES["approver"] & {
        "submit",
        "cancel",
        "administer",
        "operate_incidents",
        "bump_epoch",
    }
    assert "approve" not in ROLES["operator"]


# --- commands ----------------------------------------------------------------------------------


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_create_credential_prints_the_token_once_for_people_and_as_json_for_scripts() -> None:
    plain = run(
        "create_credential", "fleet", "--pool", "blue", "--queue", "q", "--scope", "work", "submit"
    )
    token = plain.strip().splitlines()[-1]
    assert find_worker(token=token) is not None
    told = json.loads(
        run("create_credential", "b", "--pool", "blue", "--queue", "q", "--scope", "work", "--json")
    )
    assert set(told) == {"credential_id", "name", "token"}
    with pytest.raises(CommandError, match="there is no queue 'x'"):
        run("create_credential", "b", "--pool", "blue", "--queue", "x", "--scope", "work")


def test_create_operator_makes_a_person_with_a_role_and_a_token() -> None:
    told = json.loads(run("create_operator", "olga", "--role", "operator", "--token", "--json"))
    user = User.objects.get(username="olga")
    assert user.check_password(told["password"])
    assert [group.name for group in user.groups.all()] == ["operator"]
    assert (user.is_staff, user.is_superuser) == (False, False)
    token = read_token(told["token"])
    assert token is not None
    assert find_operator(token) is not None
    with pytest.raises(CommandError, match="There is a olga already"):
        run("create_operator", "olga", "--role", "viewer", "--json")


def test_create_operator_refuses_a_weak_password_and_makes_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("password\n"))
    with pytest.raises(CommandError, match="too common"):
        run("create_operator", "olga", "--role", "viewer", "--password-stdin")
    assert not User.objects.filter(username="olga").exists()
