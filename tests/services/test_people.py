"""Roles and personal tokens: changed by who may, on record, and never so that nobody can undo it."""

import io
from typing import Any

import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, User
from django.core.management import call_command

from coordinator.actors import Actor, ActorKind
from coordinator.models import Event, OperatorToken
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors.console_people import find_person, list_people, list_tokens
from coordinator.selectors.credentials import find_operator
from coordinator.services.answers import RequestKey
from coordinator.services.people import RoleChanged, save_password, set_role
from coordinator.services.personal_tokens import (
    MAX_LIVE_TOKENS,
    PersonalToken,
    issue_personal_token,
    revoke_personal_token,
)
from coordinator.tokens import Token, read_token
from tests import world
from tests.console.scene import person

pytestmark = pytest.mark.django_db(transaction=True)
WHY = "She leads the review team from now on."


def actor(user: User) -> Actor:
    return Actor(ActorKind.OPERATOR, user.username, user.pk, address="10.0.0.1")


def change(user: User, role: str | None, *, by: User, **more: Any) -> RoleChanged | Refusal:
    shown = list(user.groups.values_list("name", flat=True))
    fields: dict[str, Any] = {"shown": shown, "reason": WHY, **more}
    return set_role(user_id=user.pk, role=role, actor=actor(by), **fields)


def test_a_role_takes_the_place_of_the_one_before_and_is_on_record() -> None:
    ada, vera = person("ada", "admin"), person("vera", "viewer")
    answer = change(vera, "operator", by=ada)
    assert answer == RoleChanged("vera", "operator", changed=True)
    assert list(vera.groups.values_list("name", flat=True)) == ["operator"]
    told = Event.objects.get(kind="ROLE_CHANGED")
    assert told.actor == "operator:ada"
    assert told.data == {
        "person": "vera",
        "before": {"roles": ["viewer"]},
        "after": {"roles": ["operator"]},
        "reason": WHY,
        "address": "10.0.0.1",
    }
    assert change(vera, "operator", by=ada) == RoleChanged("vera", "operator", changed=False)
    assert Event.objects.filter(kind="ROLE_CHANGED").count() == 1


def test_a_person_without_a_role_sees_nothing() -> None:
    ada, vera = person("ada", "admin"), person("vera", "viewer")
    assert change(vera, None, by=ada) == RoleChanged("vera", None, changed=True)
    found = find_person(vera.pk)
    assert found is not None
    assert found.roles == ()
    assert not User.objects.get(pk=vera.pk).has_perm("coordinator.view")


def test_the_last_administrator_can_not_be_demoted() -> None:
    ada = person("ada", "admin")
    person("vera", "viewer")
    answer = change(ada, "viewer", by=ada)
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.INVALID
    assert "last person who administers" in answer.errors[0].detail
    assert list(ada.groups.values_list("name", flat=True)) == ["admin"]
    gone = person("greta", "admin")
    User.objects.filter(pk=gone.pk).update(is_active=False)
    assert isinstance(change(ada, "viewer", by=ada), Refusal)


def test_two_administrators_who_demote_each_other_leave_one() -> None:
    ada, bea = person("ada", "admin"), person("bea", "admin")
    with world.holding("SELECT 1 FROM auth_group WHERE name = 'admin' FOR UPDATE") as holder:
        rivals = [
            world.Rival(lambda: change(bea, "viewer", by=ada)),
            world.Rival(lambda: change(ada, "viewer", by=bea)),
        ]
        world.wait_until_blocked(*(rival.pid for rival in rivals))
        holder.release()
        answers = [rival.result() for rival in rivals]
    assert sum(isinstance(answer, Refusal) for answer in answers) == 1
    assert Group.objects.get(name="admin").user_set.count() == 1


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ({"shown": ["operator"]}, Outcome.STATE_VERSION_MISMATCH),
        ({"reason": " "}, Outcome.INVALID),
        ({"role": "king"}, Outcome.INVALID),
    ],
)
def test_a_decision_that_does_not_fit_changes_nothing(more: Any, outcome: Outcome) -> None:
    ada, vera = person("ada", "admin"), person("vera", "viewer")
    wanted: dict[str, Any] = {"role": "operator", "shown": ["viewer"], "reason": WHY} | more
    answer = set_role(user_id=vera.pk, actor=actor(ada), **wanted)
    assert isinstance(answer, Refusal)
    assert answer.outcome is outcome
    assert list(vera.groups.values_list("name", flat=True)) == ["viewer"]
    assert not Event.objects.filter(kind="ROLE_CHANGED").exists()


def test_a_superuser_is_not_demoted_by_a_role() -> None:
    ada = person("ada", "admin")
    root = User.objects.create_superuser("root")
    answer = change(root, "viewer", by=ada)
    assert isinstance(answer, Refusal)
    assert "superuser" in answer.errors[0].detail
    assert [each.username for each in list_people()] == ["ada", "root"]


def token(user: User, *, key: str = "key-of-one-form-0", **more: Any) -> PersonalToken | Refusal:
    fields: dict[str, Any] = {"name": "calendar", "expires_at": None} | more
    request = RequestKey("console", key, "sha256:0")
    return issue_personal_token(user_id=user.pk, actor=actor(user), request=request, **fields)


def test_a_personal_token_is_told_once_and_ends_when_revoked() -> None:
    vera = person("vera", "viewer")
    made = token(vera)
    assert isinstance(made, PersonalToken)
    assert made.text is not None
    parts = read_token(made.text)
    assert parts is not None
    found = find_operator(parts)
    assert found is not None
    assert found.name == "vera"
    again = token(vera)
    assert again == PersonalToken(made.token_id, "calendar", None)
    assert OperatorToken.objects.count() == 1
    (row,) = list_tokens(vera.pk)
    assert row.last4 == made.text[-4:]
    revoke_personal_token(user_id=vera.pk, token_id=row.id, reason=WHY, actor=actor(vera))
    assert find_operator(parts) is None
    revoke_personal_token(user_id=vera.pk, token_id=row.id, reason=WHY, actor=actor(vera))
    assert Event.objects.filter(kind="PERSONAL_TOKEN_REVOKED").count() == 1
    secret = made.text.rsplit("_", 1)[-1]
    assert not any(secret in str(event.data) for event in Event.objects.all())


def test_a_token_of_another_person_is_not_found() -> None:
    vera, bea = person("vera", "viewer"), person("bea", "viewer")
    made = token(vera)
    assert isinstance(made, PersonalToken)
    answer = revoke_personal_token(
        user_id=bea.pk, token_id=made.token_id, reason=WHY, actor=actor(bea)
    )
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.NOT_FOUND


def test_nobody_gathers_tokens_without_end() -> None:
    vera = person("vera", "viewer")
    for number in range(MAX_LIVE_TOKENS):
        assert isinstance(token(vera, key=f"key-of-one-form-{number}"), PersonalToken)
    answer = token(vera, key="one-too-many-0000")
    assert isinstance(answer, Refusal)
    assert "revoke one first" in answer.errors[0].detail


def test_a_key_of_another_wish_makes_no_token() -> None:
    vera = person("vera", "viewer")
    token(vera)
    request = RequestKey("console", "key-of-one-form-0", "sha256:1")
    answer = issue_personal_token(
        user_id=vera.pk, name="other", expires_at=None, actor=actor(vera), request=request
    )
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.IDEMPOTENCY_CONFLICT
    assert OperatorToken.objects.count() == 1


def live_token(user: User, *, key: str = "key-of-one-form-0") -> Token:
    made = token(user, key=key)
    assert isinstance(made, PersonalToken)
    parts = read_token(made.text or "")
    assert parts is not None
    assert find_operator(parts) is not None
    return parts


def test_a_password_that_is_set_anew_ends_every_token_of_that_person_alone() -> None:
    ada, vera, bea = person("ada", "admin"), person("vera", "viewer"), person("bea", "viewer")
    first, second = live_token(vera), live_token(vera, key="key-of-one-form-1")
    others = live_token(bea, key="key-of-one-form-9")
    vera.set_password("an-entirely-other-one")
    assert save_password(user=vera, actor=actor(ada)) == 2
    assert find_operator(first) is None
    assert find_operator(second) is None
    assert find_operator(others) is not None
    told = Event.objects.filter(kind="PERSONAL_TOKEN_REVOKED")
    assert {(each.actor, each.data["person"], each.data["reason"]) for each in told} == {
        ("operator:ada", "vera", "The password was set anew.")
    }
    assert told.count() == 2
    assert find_operator(live_token(vera, key="key-of-one-form-2")) is not None
    vera.set_password("yet-another-long-one")
    assert save_password(user=vera, actor=actor(ada)) == 1


def test_signing_in_with_an_older_hash_ends_no_token(settings: Any) -> None:
    """Django stores the same password anew, by the hasher of today: nobody has set one."""
    vera = person("vera", "viewer")
    kept = live_token(vera)
    vera.password = make_password("a-long-enough-password", hasher="pbkdf2_sha256")
    vera.save()
    settings.PASSWORD_HASHERS = [
        "django.contrib.auth.hashers.MD5PasswordHasher",
        "django.contrib.auth.hashers.PBKDF2PasswordHasher",
    ]
    assert vera.check_password("a-long-enough-password")
    assert User.objects.get(pk=vera.pk).password.startswith("md5")
    assert find_operator(kept) is not None


def test_a_password_that_is_set_past_the_pages_ends_the_tokens_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vera = person("vera", "viewer")
    ended = live_token(vera)
    monkeypatch.setattr("getpass.getpass", lambda **_: "an-entirely-other-one")
    call_command("changepassword", "vera", stdout=io.StringIO())
    assert find_operator(ended) is None
    assert User.objects.get(pk=vera.pk).check_password("an-entirely-other-one")
    told = Event.objects.get(kind="PERSONAL_TOKEN_REVOKED")
    assert (told.actor, told.data["person"]) == ("system:password", "vera")
