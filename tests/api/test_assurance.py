"""Coverage and drills through the API and the command line (contract 14, 17)."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from coordinator.fence import IsCurrent
from coordinator.models import DrillRun, Event, Task
from coordinator.services import hearings
from coordinator.services.drill_script import STEPS
from tests import world

from .callers import Api

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_operator_drills_a_queue_and_everybody_sees_it(api: Api) -> None:
    done = api.operator.post("/queues/q/drill", {"reason": "before the promotion"})
    assert done.status == 200, done
    assert done.body["passed"] is True
    assert {step["step"]: step["answered"] for step in done.body["steps"]} == STEPS
    listed = api.viewer.get("/drills?queue=q")
    assert listed.body["results"] == [done.body]
    assert api.viewer.get("/drills?queue=another").body["results"] == []
    (event,) = Event.objects.filter(kind="DRILLED")
    assert (
        event.actor == f"operator:{api.operator.name}"
        if hasattr(api.operator, "name")
        else event.actor
    )


def test_a_drill_without_a_reason_is_not_run(api: Api) -> None:
    refused = api.operator.post("/queues/q/drill", {})
    assert refused.status == 422
    assert [error["pointer"] for error in refused.body["errors"]] == ["/reason"]
    assert not DrillRun.objects.exists()


def test_a_queue_that_is_not_there_can_not_be_drilled(api: Api) -> None:
    refused = api.operator.post("/queues/nowhere/drill", {"reason": "r"})
    assert (refused.status, refused.outcome) == (404, "NOT_FOUND")
    assert not DrillRun.objects.exists()


def test_coverage_tells_every_point_and_what_was_written_past_the_guard(api: Api) -> None:
    world.submit()
    whole = api.viewer.get("/coverage").body
    assert (whole["percent"], whole["uncovered"], whole["refused_writes"]) == (100.0, [], 0)
    assert {point["point"] for point in whole["points"]} >= {"claim", "renew", "commit"}
    with world.guarded("commit"):
        Task.objects.update(priority=3)
    red = api.viewer.get("/coverage?hours=24").body
    assert red["percent"] < 100
    assert [(u["point"], u["written_to"], u["missing"]) for u in red["uncovered"]] == [
        ("commit", "task", 1)
    ]
    assert api.viewer.get("/coverage?hours=0").status == 400


def run(*arguments: str) -> tuple[str, int]:
    out = StringIO()
    try:
        call_command("drill", *arguments, stdout=out)
    except SystemExit as ended:
        return out.getvalue(), int(ended.code or 0)
    return out.getvalue(), 0


def test_the_command_tells_each_step_and_ends_well_only_when_all_passed(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, code = run("--queue", "q")
    assert code == 0
    assert "q: passed" in told
    assert "late worker's commit: FENCED STALE_GENERATION" in told
    monkeypatch.setattr(hearings, "judge", lambda call, **_: IsCurrent(call.fence.task_id))
    told, code = run("--json")
    assert code == 1
    drills: list[dict[str, Any]] = json.loads(told)
    assert [(drill["queue"], drill["passed"]) for drill in drills] == [
        ("q", False),
        ("q2", False),
    ]
    with pytest.raises(CommandError, match="no queue `nowhere`"):
        call_command("drill", "--queue", "nowhere")
