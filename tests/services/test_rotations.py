"""Rotating a worker's credential: a successor with the same rights, an overlap, and one token."""

from datetime import timedelta
from typing import Any

import pytest

from coordinator.actors import system
from coordinator.clock import read_clock
from coordinator.models import Credential, Event
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.answers import RequestKey
from coordinator.services.credentials import (
    Issued,
    create_credential,
    find_worker,
    revoke_credential,
)
from coordinator.services.rotations import rotate_credential
from tests import world

pytestmark = pytest.mark.django_db(transaction=True)
ACTOR = system("tests")


@pytest.fixture
def old() -> tuple[Credential, str]:
    world.queue()
    return create_credential(name="fleet", pool="blue", queues=["q"], scopes=["work"], actor=ACTOR)


def rotate(credential: Credential, **more: Any) -> Issued | Refusal:
    fields: dict[str, Any] = {"overlap_hours": 24, "reason": "Quarterly rotation."} | more
    return rotate_credential(
        credential_id=credential.credential_id,
        expires_at=None,
        actor=ACTOR,
        request=RequestKey("console", "key-of-one-form", "sha256:0"),
        **fields,
    )


def test_both_tokens_work_until_the_overlap_has_passed(old: tuple[Credential, str]) -> None:
    credential, text = old
    answer = rotate(credential)
    assert isinstance(answer, Issued)
    assert answer.token is not None
    new, before = find_worker(token=answer.token), find_worker(token=text)
    assert new is not None
    assert before is not None
    assert (new.pool, new.queues, new.scopes) == (before.pool, before.queues, before.scopes)
    credential.refresh_from_db()
    assert credential.expires_at is not None
    left = credential.expires_at - read_clock()
    assert timedelta(hours=23) < left <= timedelta(hours=24)
    told = Event.objects.get(kind="CREDENTIAL_ROTATED").data
    assert told["before"] == {"expires_at": None}
    assert told["successor"] == str(answer.credential.credential_id)
    Credential.objects.filter(pk=credential.pk).update(expires_at=read_clock())
    assert find_worker(token=text) is None


def test_a_repeat_makes_no_second_successor(old: tuple[Credential, str]) -> None:
    first, again = rotate(old[0]), rotate(old[0])
    assert isinstance(first, Issued)
    assert isinstance(again, Issued)
    assert again.replayed
    assert Credential.objects.count() == 2


def test_an_overlap_never_prolongs_the_old_one(old: tuple[Credential, str]) -> None:
    soon = read_clock() + timedelta(hours=1)
    Credential.objects.filter(pk=old[0].pk).update(expires_at=soon)
    rotate(old[0])
    old[0].refresh_from_db()
    assert old[0].expires_at == soon


@pytest.mark.parametrize("more", [{"overlap_hours": 1_000}, {"overlap_hours": -1}, {"reason": ""}])
def test_what_makes_no_sense_makes_no_credential(old: tuple[Credential, str], more: Any) -> None:
    answer = rotate(old[0], **more)
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.INVALID
    assert Credential.objects.count() == 1


def test_what_is_revoked_is_not_rotated(old: tuple[Credential, str]) -> None:
    revoke_credential(credential_id=old[0].credential_id, actor=ACTOR, reason="It leaked.")
    answer = rotate(old[0])
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.ALREADY_SETTLED
    assert Credential.objects.count() == 1
