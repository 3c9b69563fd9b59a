"""Deciding: bound to what was seen, refused by the server, never carried out twice."""

from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from coordinator.models import Event, Queue, Task
from coordinator.states import Intake, TaskState
from tests import world
from tests.console.filling import filled
from tests.console.scene import Scene, person

pytestmark = pytest.mark.django_db(transaction=True)

WHY = "The run is not needed any more."


def seen(task: Task, **more: str) -> dict[str, Any]:
    """The fields of a decision form as the page had them."""
    return {
        "action_key": str(uuid4()),
        "expected_state_version": task.state_version,
        "shown_state": task.state,
        "shown_owner": task.owner or "",
        "shown_generation": task.claim_generation,
        "reason": WHY,
    } | more


def test_cancelling_is_told_with_who_and_why(signed_in: Client, scene: Scene) -> None:
    answer = signed_in.post(f"/tasks/{scene.held}/cancel", seen(world.task(scene.held)))
    assert answer.status_code == 302
    assert answer["Location"] == f"/tasks/{scene.held}"
    told = Event.objects.get(task_id=scene.held, kind="CANCELLED")
    assert told.actor == "operator:olga"
    assert told.data["reason"] == WHY
    assert told.data["address"] == "127.0.0.1"
    page = signed_in.get(f"/tasks/{scene.held}").content.decode()
    assert "<code>operator:olga</code> cancelled it at" in page
    assert WHY in page


def test_a_decision_about_another_version_is_not_carried_out(
    signed_in: Client, scene: Scene
) -> None:
    before = world.task(scene.held)
    stale = seen(before)
    stale["expected_state_version"] = before.state_version - 1
    stale["shown_state"] = "READY"
    stale["shown_owner"] = ""
    answer = signed_in.post(f"/tasks/{scene.held}/cancel", stale)
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "STATE_VERSION_MISMATCH" in page
    assert "It changed while you were looking" in page
    assert "What happened in between" in page
    assert WHY not in page  # the decision is to be made anew
    assert world.task(scene.held).state == TaskState.CLAIMED


def test_a_commit_that_came_first_stands(signed_in: Client, scene: Scene) -> None:
    form = seen(world.task(scene.fenced))
    answer = signed_in.post(f"/tasks/{scene.fenced}/cancel", form)
    assert answer.status_code == 409
    assert b"ALREADY_COMMITTED" in answer.content
    assert world.task(scene.fenced).state == TaskState.COMMITTED


@pytest.mark.parametrize("verb", ["cancel", "reopen", "revise"])
def test_a_forged_decision_of_a_viewer_is_forbidden(
    client: Client, scene: Scene, viewer: Any, verb: str
) -> None:
    client.force_login(viewer, backend="django.contrib.auth.backends.ModelBackend")
    before = world.fingerprint()
    answer = client.post(f"/tasks/{scene.held}/{verb}", seen(world.task(scene.held), input="{}"))
    assert answer.status_code == 403
    assert b"Roles that may: operators and admins." in answer.content
    assert world.fingerprint() == before


def test_a_decision_without_its_token_is_forbidden(scene: Scene, operator: Any) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(operator, backend="django.contrib.auth.backends.ModelBackend")
    answer = client.post(f"/tasks/{scene.held}/cancel", seen(world.task(scene.held)))
    assert answer.status_code == 403
    assert world.task(scene.held).state == TaskState.CLAIMED


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("reason", "", "Say why; it stands in the history."),
        ("reason", "short", "Say why in 10 characters or more."),
        ("expected_state_version", "newest", "whole number"),
        ("action_key", "x", "Enter a valid value."),
    ],
)
def test_a_faulty_form_is_told_by_its_field(
    signed_in: Client, scene: Scene, field: str, value: str, told: str
) -> None:
    answer = signed_in.post(
        f"/tasks/{scene.held}/cancel", seen(world.task(scene.held)) | {field: value}
    )
    assert answer.status_code == 422
    assert told in answer.content.decode()
    assert world.task(scene.held).state == TaskState.CLAIMED


def test_reopening_gives_a_fresh_allowance(signed_in: Client, scene: Scene) -> None:
    answer = signed_in.post(
        f"/tasks/{scene.failed}/reopen", seen(world.task(scene.failed)), follow=True
    )
    assert answer.status_code == 200
    assert "Reopened: it is READY" in answer.content.decode()
    assert world.task(scene.failed).spent_attempts == 0


def test_revising_leads_to_the_new_task_and_twice_to_the_same(
    signed_in: Client, scene: Scene
) -> None:
    form = seen(world.task(scene.held), input='{"path": "coordinator/other.py"}')
    first = signed_in.post(f"/tasks/{scene.held}/revise", form)
    again = signed_in.post(f"/tasks/{scene.held}/revise", form)
    assert first.status_code == again.status_code == 302
    assert first["Location"] == again["Location"]
    new = Task.objects.get(supersedes=scene.held)
    assert first["Location"] == f"/tasks/{new.task_id}"
    assert new.input == '{"path":"coordinator/other.py"}'
    old = signed_in.get(f"/tasks/{scene.held}").content.decode()
    assert f'href="/tasks/{new.task_id}">Revision 2</a>' in old


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"path": ', "This is not JSON. Look at line and column 1:10."),
        ('{"n": 12345678901234567890}', "canonical JSON form"),
        ("[" * 3000, "This is not JSON."),
        ('{"a": "\\ud800"}', "canonical JSON form"),
    ],
)
def test_an_input_that_is_no_json_is_told_and_kept(
    signed_in: Client, scene: Scene, text: str, told: str
) -> None:
    answer = signed_in.post(f"/tasks/{scene.held}/revise", seen(world.task(scene.held), input=text))
    assert answer.status_code == 422
    assert told in answer.content.decode()
    assert Task.objects.filter(supersedes=scene.held).count() == 0


def test_cancelling_a_run_takes_its_unfinished_tasks(signed_in: Client, scene: Scene) -> None:
    run = scene.review.run_id
    here = f"/runs/{run}/cancel"
    answer = signed_in.post(here, filled(signed_in, here, reason=WHY), follow=True)
    assert answer.status_code == 200
    assert "Cancelled: " in answer.content.decode()
    left = Task.objects.filter(run__run_id=run).values_list("state", flat=True)
    assert set(left) == {TaskState.COMMITTED, TaskState.CANCELLED, TaskState.FAILED}


def test_stopping_and_opening_the_intake(signed_in: Client, scene: Scene) -> None:
    form = {"intake": "STOPPED", "shown_intake": "OPEN", "reason": WHY}
    assert signed_in.post("/queues/review/intake", form).status_code == 302
    assert Queue.objects.get(name="review").intake == Intake.STOPPED
    stale = signed_in.post("/queues/review/intake", form)
    assert stale.status_code == 409
    assert "It changed while you were looking" in stale.content.decode()
    form = {"intake": "OPEN", "shown_intake": "STOPPED", "reason": WHY}
    assert signed_in.post("/queues/review/intake", form).status_code == 302
    assert Queue.objects.get(name="review").intake == Intake.OPEN


def test_payloads_are_a_permission_of_their_own(client: Client, scene: Scene, viewer: Any) -> None:
    client.force_login(viewer, backend="django.contrib.auth.backends.ModelBackend")
    task = f"/tasks/{scene.fenced}"
    assert client.get(f"{task}/input").status_code == 403
    assert client.get(f"{task}/download/input").status_code == 403
    candidates = client.get(f"{task}/candidates").content.decode()
    assert "You may not see inputs, results and payloads." in candidates
    assert "Consider naming" not in candidates
    approver = person("anna", "approver")
    client.force_login(approver, backend="django.contrib.auth.backends.ModelBackend")
    assert client.get(f"{task}/download/result")["Content-Disposition"].startswith("attachment")
    assert "Consider naming" in client.get(f"{task}/candidates").content.decode()


def test_a_large_payload_is_cut_in_the_page_and_whole_in_the_download(
    signed_in: Client, scene: Scene
) -> None:
    big = {"text": "x" * 200_000, "end": "the very end"}
    run = world.submit(world.node("big", input=big), queue_name="review")
    task = world.task_id(run, "big")
    page = signed_in.get(f"/tasks/{task}/input").content.decode()
    assert "cut here; download it whole" in page
    assert len(page) < 120_000
    download = signed_in.get(f"/tasks/{task}/download/input")
    assert download["Content-Type"] == "application/json"
    assert len(download.content) > 200_000


def test_the_history_of_a_cancelled_task_names_the_person(signed_in: Client, scene: Scene) -> None:
    page = signed_in.get(f"/tasks/{scene.cancelled}").content.decode()
    assert "<code>operator:alice</code> cancelled it" in page
