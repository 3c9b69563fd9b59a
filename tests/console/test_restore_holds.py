"""A task that a restore holds: its page says so, and a person's word lets it go (contract 12)."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client

from coordinator.models import Event, RestoreHold
from coordinator.services.cancels import cancel_task
from coordinator.states import Guarantee, TaskState
from tests import restoring, world
from tests.effects import ledger
from tests.world import node

pytestmark = pytest.mark.django_db(transaction=True)

WHY = "The provider's own log shows no payment for it."


@pytest.fixture
def held(transactional_db: None) -> UUID:
    """Open at the restore, with a declared effect; nothing of it is known here."""
    world.queue()
    there = ledger.register(Guarantee.CONDITIONAL_WRITE)
    run = world.submit(node("wire", slots={ledger.SLOT: there}))
    restoring.copy_the_database()
    restoring.restored(reason="the disk was lost")
    return world.task_id(run, "wire")


def seen(task_id: UUID, **more: Any) -> dict[str, Any]:
    """The fields of the form as the page had them."""
    task = world.task(task_id)
    return {
        "action_key": str(uuid4()),
        "expected_state_version": task.state_version,
        "shown_state": task.state,
        "shown_owner": "",
        "shown_generation": task.claim_generation,
        "reason": WHY,
    } | more


def page(client: Client, address: str, **headers: str) -> str:
    return client.get(address, headers=headers or None).content.decode()


def test_the_page_of_a_held_task_says_so_and_leads_to_the_release(
    signed_in: Client, held: UUID
) -> None:
    told = page(signed_in, f"/tasks/{held}")
    assert "The database was restored while it was open" in told
    assert "A restore holds this task since" in told
    assert "the disk was lost" in told
    assert told.count(f'href="/tasks/{held}/release"') == 3
    assert "RESTORE_HOLD" in told
    asked = page(signed_in, f"/tasks/{held}/release")
    assert "You say that no effect of this task has happened" in asked
    assert f'name="expected_state_version" value="{world.task(held).state_version}"' in asked


def test_releasing_is_told_with_who_and_why_and_the_task_goes_on(
    signed_in: Client, held: UUID
) -> None:
    answer = signed_in.post(f"/tasks/{held}/release", seen(held))
    assert answer.status_code == 302
    assert answer["Location"] == f"/tasks/{held}"
    assert world.task(held).state == TaskState.READY
    told = Event.objects.get(task_id=held, kind="RESTORE_HOLD_RELEASED")
    assert (told.actor, told.data["reason"]) == ("operator:olga", WHY)
    assert told.data["address"] == "127.0.0.1"
    after = page(signed_in, f"/tasks/{held}")
    assert "Released: it is READY." in after
    assert f"/tasks/{held}/release" not in after


def test_who_may_not_settle_effects_sees_the_form_disabled_and_is_refused(
    client: Client, held: UUID, viewer: Any
) -> None:
    client.force_login(viewer, backend="django.contrib.auth.backends.ModelBackend")
    asked = page(client, f"/tasks/{held}/release")
    assert "You may not settle effects whose outcome nobody knows." in asked
    assert '<button class="button primary" disabled>' in asked
    before = world.fingerprint()
    answer = client.post(f"/tasks/{held}/release", seen(held))
    assert answer.status_code == 403
    assert world.fingerprint() == before
    assert RestoreHold.objects.filter(released_at=None).count() == 1


def test_a_release_that_is_bound_to_another_version_changes_nothing(
    signed_in: Client, held: UUID
) -> None:
    form = seen(held)
    cancel_task(task_id=held, reason="changed in between", actor=world.operator())
    answer = signed_in.post(f"/tasks/{held}/release", form)
    told = answer.content.decode()
    assert answer.status_code == 409
    assert "STATE_VERSION_MISMATCH" in told
    assert WHY not in told
    assert world.task(held).state == TaskState.CANCELLED
    assert RestoreHold.objects.filter(released_at=None).count() == 1
    assert f"/tasks/{held}/release" in page(signed_in, f"/tasks/{held}"), "it can still be released"


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("reason", "", "Say why; it stands in the history."),
        ("reason", "short", "Say why in 10 characters or more."),
        ("expected_state_version", "newest", "whole number"),
    ],
)
def test_a_faulty_form_is_told_by_its_field(
    signed_in: Client, held: UUID, field: str, value: str, told: str
) -> None:
    answer = signed_in.post(f"/tasks/{held}/release", seen(held) | {field: value})
    assert answer.status_code == 422
    assert told in answer.content.decode()
    assert world.task(held).state == TaskState.AWAITING_RECONCILIATION


def test_what_no_restore_holds_has_nothing_to_release(signed_in: Client, held: UUID) -> None:
    free = world.task_id(world.submit(node("free")), "free")
    asked = page(signed_in, f"/tasks/{free}/release")
    assert "No restore holds it; there is nothing to release." in asked
    answer = signed_in.post(f"/tasks/{free}/release", seen(free))
    assert answer.status_code == 409
    assert "ALREADY_SETTLED" in answer.content.decode()
    assert signed_in.get(f"/tasks/{uuid4()}/release").status_code == 404


def test_the_hold_is_told_in_chinese_too(signed_in: Client, held: UUID) -> None:
    chinese = {"Accept-Language": "zh-CN"}
    assert "恢复挂起了此任务" in page(signed_in, f"/tasks/{held}", **chinese)
    assert "放行" in page(signed_in, f"/tasks/{held}/release", **chinese)


def test_the_words_of_whoever_restored_are_only_words(signed_in: Client) -> None:
    world.queue()
    there = ledger.register(Guarantee.CONDITIONAL_WRITE)
    hostile = "<img src=x onerror=alert(1)>\u202e"
    run = world.submit(node(hostile, slots={ledger.SLOT: there}))
    restoring.restored(even_without_doubt=True, reason=hostile, actor=world.operator(name=hostile))
    task = f"/tasks/{world.task_id(run, hostile)}"
    for address in (task, f"{task}/release"):
        told = page(signed_in, address)
        assert "&lt;img" in told
        assert "<img src=x" not in told, address
        assert "\u202e" not in told, address
