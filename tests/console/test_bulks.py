"""Bulk in the console: select, review, start, watch; the set is the one that was reviewed."""

import re
from typing import Any

import pytest
from django.test import Client

from coordinator.models import BulkJob, Event
from coordinator.services.bulk_steps import run_bulk_step
from coordinator.states import TaskState
from tests import world
from tests.console.conftest import Open
from tests.console.filling import filled
from tests.console.scene import Scene
from tests.console.test_live import poll, polls_sent

pytestmark = pytest.mark.django_db(transaction=True)
WHY = "The fleet reads another folder now."


@pytest.mark.browser
def test_a_bulk_cancel_end_to_end(opened: Open, scene: Scene, operator: Any) -> None:
    window = opened(user=operator, polls=False)
    page = window.page
    page.goto("/tasks?state=READY&queue=review")
    ready = page.locator("tbody tr").count()
    assert ready == 2
    page.check("[data-select-all]")
    assert page.inner_text("[data-selected]") == "2"
    page.click("text=Review cancelling…")
    page.wait_for_url("**/tasks/bulk/*")
    assert page.inner_text("h1") == "Cancel 2 tasks"
    late = world.submit(world.node("late", kind="analyse"), queue_name="review")
    page.fill("#id_reason", "too short")
    page.click("#decision button")
    assert "Say why in 10 characters or more." in page.inner_text(".fault")
    page.fill("#id_reason", WHY)
    page.click("#decision button")
    page.wait_for_selector("progress")
    assert "2 to do" in page.inner_text(".outcome")
    while run_bulk_step():
        pass
    poll(page)
    assert "2 cancelled" in page.inner_text(".outcome")
    assert "finished" in page.inner_text(".title-row")
    assert world.task(late.tasks[0].task_id).state == TaskState.READY
    assert Event.objects.filter(kind="CANCELLED", actor="operator:olga").count() == 2
    assert not window.faults
    assert not window.violations()


@pytest.mark.browser
def test_a_bulk_goes_without_scripts(opened: Open, scene: Scene, operator: Any) -> None:
    page = opened(user=operator, scripts=False).page
    page.goto("/tasks?state=FAILED")
    page.check("tbody [data-select] >> nth=0")
    page.click("text=Review reopening…")
    page.fill("#id_reason", WHY)
    page.click("#decision button")
    run_bulk_step()
    page.click("[data-refresh]")
    assert "1 reopened" in page.inner_text(".outcome")
    assert world.task(scene.failed).state == TaskState.READY


@pytest.mark.browser
def test_a_selected_row_holds_the_list_still(opened: Open, scene: Scene, operator: Any) -> None:
    page = opened(user=operator, polls=False).page
    page.goto("/tasks")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.evaluate("document.activeElement.blur()")
    assert page.locator("[data-select]:checked").count() == 1
    assert polls_sent(page) == 0
    assert "rows are selected" in page.inner_text("#live-state")
    page.uncheck("[data-select]:checked")
    page.evaluate("document.activeElement.blur()")
    assert poll(page).status in (200, 304)


def test_all_of_a_filter_is_frozen_at_the_review(signed_in: Client, scene: Scene) -> None:
    form = {"verb": "cancel", "all": "1", "f-queue": "review", "f-state": "READY"}
    answer = signed_in.post("/tasks/bulk/review", form)
    late = world.submit(world.node("late"), queue_name="review")
    page = signed_in.get(answer["Location"]).content.decode()
    assert "Cancel 2 tasks" in page
    here = answer["Location"]
    assert signed_in.post(here, filled(signed_in, here, reason=WHY)).status_code == 302
    run_bulk_step()
    assert world.task(late.tasks[0].task_id).state == TaskState.READY


def test_a_review_tells_apart_what_can_not_be_acted_on(signed_in: Client, scene: Scene) -> None:
    form = {"verb": "cancel", "task": [scene.fenced, scene.held]}
    answer = signed_in.post("/tasks/bulk/review", form)
    page = signed_in.get(answer["Location"]).content.decode()
    assert "Cancel 1 task<" in page
    assert page.index("Will be cancelled") < page.index("Can't be acted on")
    assert "What is over can&#x27;t be cancelled." in page
    assert "<th>Detail</th>" not in page  # nothing was done yet, so there is none to tell


def test_nothing_selected_is_told(signed_in: Client, scene: Scene) -> None:
    answer = signed_in.post("/tasks/bulk/review", {"verb": "cancel"})
    assert answer.status_code == 409
    assert "No task was selected" in answer.content.decode()


def test_who_may_not_cancel_neither_reviews_nor_starts(
    client: Client, scene: Scene, viewer: Any
) -> None:
    client.force_login(viewer, backend="django.contrib.auth.backends.ModelBackend")
    jobs = BulkJob.objects.count()
    form = {"verb": "cancel", "task": [scene.held]}
    assert client.post("/tasks/bulk/review", form).status_code == 403
    assert BulkJob.objects.count() == jobs
    here = f"/tasks/bulk/{scene.bulk_review}"
    assert client.get(here).status_code == 200
    for path in (here, f"{here}/stop"):
        assert client.post(path, {"reason": WHY}).status_code == 403
    assert "You may not cancel, revise and reopen tasks" in client.get("/tasks").content.decode()


def test_the_review_of_another_person_is_only_looked_at(signed_in: Client, scene: Scene) -> None:
    here = f"/tasks/bulk/{scene.bulk_review}"
    assert "Only who reviewed this set may start it." in signed_in.get(here).content.decode()
    answer = signed_in.post(here, filled(signed_in, here, reason=WHY))
    assert answer.status_code == 403
    assert BulkJob.objects.get(pk=scene.bulk_review).started_at is None


def test_a_snooze_is_reviewed_started_with_its_time_and_undone(
    signed_in: Client, scene: Scene
) -> None:
    form = {"verb": "snooze", "all": "1", "f-queue": "review", "f-state": "READY"}
    here = signed_in.post("/tasks/bulk/review", form)["Location"]
    page = signed_in.get(here).content.decode()
    assert "Hold 2 tasks back" in page
    assert "it can be undone as a whole" in page
    form = filled(signed_in, here, reason=WHY, wait="1h")
    late = signed_in.post(here, form | {"until": "2001-01-01T00:00"})
    assert late.status_code == 422
    assert "It is past" in late.content.decode()
    assert signed_in.post(here, form | {"until": "soon"}).status_code == 422
    assert signed_in.post(here, form | {"wait": "4h"}).status_code == 302
    run_bulk_step()
    done = signed_in.get(here).content.decode()
    assert "Held back until" in done
    assert "Undo" in done
    listed = signed_in.get("/tasks?state=READY&queue=review&cols=lease").content.decode()
    assert listed.count("not before") == 2
    held_back = re.search(r'<a href="(/tasks/[0-9a-f-]{36})" data-row', listed)
    assert held_back is not None
    task = signed_in.get(held_back[1]).content.decode()
    assert "<code>operator:olga</code> holds it back until" in task
    assert f"“{WHY}”" in task
    undo = signed_in.post(f"{here}/undo")
    assert undo.status_code == 302
    assert signed_in.post(f"{here}/undo")["Location"] == undo["Location"]
    run_bulk_step()
    assert "let go" in signed_in.get(undo["Location"]).content.decode()
    assert "not before" not in signed_in.get("/tasks?state=READY&queue=review").content.decode()
    after = signed_in.get(here).content.decode()
    assert "Undone by" in after
    assert f"{here}/undo" not in after


def test_only_a_snooze_is_undone_and_only_by_who_may(
    client: Client, signed_in: Client, scene: Scene, viewer: Any
) -> None:
    assert signed_in.post(f"/tasks/bulk/{scene.bulk_job}/undo").status_code == 409
    missing = f"/tasks/bulk/{scene.failed}/undo"
    assert signed_in.post(missing).status_code == 404
    assert signed_in.get(missing).status_code == 405
    client.force_login(viewer, backend="django.contrib.auth.backends.ModelBackend")
    assert client.post(f"/tasks/bulk/{scene.bulk_job}/undo").status_code == 403
