"""Bulk jobs and snoozes through the API: review, confirm, status with an outcome per task."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from coordinator.models import BulkJob, Event
from coordinator.services.bulk_steps import run_bulk_step
from tests import world

from .callers import Api

pytestmark = pytest.mark.django_db(transaction=True)
WHY = "The upload was a mistake."


def in_hours(hours: int) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


def reviewed(api: Api, verb: str = "cancel", **asked: Any) -> Any:
    reply = api.operator.post("/bulk", {"verb": verb, **(asked or {"filter": {"queue": "q"}})})
    assert reply.status == 201, reply
    return reply.body


def test_a_set_is_reviewed_started_and_told_task_by_task(api: Api) -> None:
    tasks = api.submit()
    job = reviewed(api, filter={"state": "READY", "queue": "q"})
    assert (job["state"], job["verb"], job["reason"]) == ("REVIEWED", "cancel", None)
    assert job["asked"] == "?state=READY&queue=q"
    late = world.submit(world.node("late")).tasks[0].task_id
    path = f"/bulk/{job['bulk_id']}"
    started = api.operator.post(f"{path}/start", {"reason": WHY})
    assert (started.status, started.outcome, started.body["replayed"]) == (202, "STARTED", False)
    again = api.operator.post(f"{path}/start", {"reason": WHY})
    assert again.body == {**started.body, "replayed": True}
    while run_bulk_step():
        pass
    done = api.viewer.get(path).body
    assert (done["state"], done["waiting"]) == ("DONE", 0)
    assert done["outcomes"] == {"DONE": done["total"]}
    items = api.viewer.get(f"{path}/items?outcome=DONE&limit=1").body
    assert items["results"][0]["outcome"] == "DONE"
    assert str(late) not in str(api.viewer.get(f"{path}/items").body)
    assert world.task(late).state == "READY"
    assert api.viewer.get("/bulk").body["results"] == [done]
    told = Event.objects.filter(kind="CANCELLED", request_id=f"bulk:{job['bulk_id']}")
    assert told.count() == done["total"]
    assert world.task(UUID(str(tasks["a"]))).state == "CANCELLED"


def test_what_can_not_be_acted_on_is_an_item_too(api: Api) -> None:
    tasks = api.submit()
    ids = [str(task) for task in tasks.values()]
    job = reviewed(api, "reopen", task_ids=ids)
    assert job["outcomes"] == {"CANNOT": len(ids)}
    items = api.viewer.get(f"/bulk/{job['bulk_id']}/items").body["results"]
    assert {item["task_id"] for item in items} == set(ids)
    nothing = api.operator.post(f"/bulk/{job['bulk_id']}/start", {"reason": WHY})
    assert (nothing.status, nothing.outcome) == (409, "ALREADY_SETTLED")
    stopped = api.operator.post(f"/bulk/{job['bulk_id']}/stop", {"reason": WHY})
    assert stopped.outcome == "ALREADY_SETTLED"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"verb": "cancel"}, "/task_ids"),
        ({"verb": "cancel", "task_ids": [str(uuid4())], "filter": {}}, "/task_ids"),
        ({"verb": "cancel", "task_ids": [str(uuid4())]}, "/task_ids"),
        ({"verb": "cancel", "filter": {"owner": "nobody"}}, "/task_ids"),
        ({"verb": "approve", "filter": {}}, "/verb"),
        ({"verb": "cancel", "task_ids": []}, "/task_ids"),
        ({"verb": "cancel", "filter": {"stat": "READY"}}, "/filter/stat"),
        ({"verb": "cancel", "filter": {"epoch": -1}}, "/filter/epoch"),
    ],
)
def test_a_review_that_makes_no_sense_is_refused(api: Api, body: Any, pointer: str) -> None:
    reply = api.operator.post("/bulk", body)
    assert reply.status == 422
    assert [error["pointer"] for error in reply.body["errors"]] == [pointer]
    assert not BulkJob.objects.exists()


def test_only_who_reviewed_it_starts_it_and_what_is_not_there_is_not_found(api: Api) -> None:
    api.submit()
    job = reviewed(api)
    refused = api.admin.post(f"/bulk/{job['bulk_id']}/start", {"reason": WHY})
    assert (refused.status, refused.outcome) == (403, "FORBIDDEN")
    for path in (f"/bulk/{uuid4()}", "/bulk/nonsense", f"/bulk/{uuid4()}/items"):
        assert api.viewer.get(path).status == 404
    for verb in ("start", "stop"):
        assert api.operator.post(f"/bulk/{uuid4()}/{verb}", {"reason": WHY}).status == 404
    assert api.operator.post(f"/bulk/{uuid4()}/undo", {}).status == 404


def test_a_snooze_needs_its_time_and_is_undone(api: Api) -> None:
    api.submit()
    job = reviewed(api, "snooze")
    path = f"/bulk/{job['bulk_id']}"
    assert api.operator.post(f"{path}/start", {"reason": WHY}).body["errors"][0]["pointer"] == (
        "/not_before"
    )
    until = in_hours(4)
    body = {"reason": WHY, "not_before": until}
    assert api.operator.post(f"{path}/start", body).status == 202
    run_bulk_step()
    told = api.viewer.get(path).body
    assert datetime.fromisoformat(told["not_before"]) == datetime.fromisoformat(until)
    undo = api.operator.post(f"{path}/undo", {})
    assert undo.status == 202
    run_bulk_step()
    undone = api.viewer.get(f"/bulk/{undo.body['bulk_id']}").body
    assert (undone["verb"], undone["undoes"], undone["state"]) == ("wake", job["bulk_id"], "DONE")
    assert undone["outcomes"] == {"DONE": told["outcomes"]["DONE"]}


def test_one_task_is_snoozed_and_woken(api: Api) -> None:
    task = f"/tasks/{api.submit()['a']}"
    seen = api.viewer.get(task).body["state_version"]
    body = {"expected_state_version": seen, "not_before": in_hours(1), "reason": WHY}
    snoozed = api.operator.post(f"{task}/snooze", body)
    assert (snoozed.status, snoozed.outcome) == (200, "SNOOZED")
    explained = api.viewer.get(f"{task}/explain").body
    assert [reason["code"] for reason in explained["reasons"]] == ["NOT_BEFORE"]
    assert api.operator.post(f"{task}/snooze", body).outcome == "STATE_VERSION_MISMATCH"
    wake = {"expected_state_version": seen + 1, "reason": WHY}
    assert api.operator.post(f"{task}/wake", wake).outcome == "WOKEN"
    assert api.viewer.get(f"{task}/explain").body["claimable"] is True
    past = {**body, "expected_state_version": seen + 2, "not_before": in_hours(-1)}
    refused = api.operator.post(f"{task}/snooze", past)
    assert refused.body["errors"][0]["pointer"] == "/not_before"
    missing = f"/tasks/{uuid4()}"
    assert api.operator.post(f"{missing}/wake", wake).status == 404
