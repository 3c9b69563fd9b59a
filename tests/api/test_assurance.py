"""Coverage and drills through the API and the command line (contract 14, 17)."""

import json
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from coordinator.actors import system
from coordinator.fence import IsCurrent
from coordinator.models import DrillRun, Event, Task
from coordinator.services import hearings
from coordinator.services.audit_seals import seal_events
from coordinator.services.audits import continue_audits
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


def test_an_operator_has_the_history_audited_and_everybody_reads_the_report(api: Api) -> None:
    asked = api.operator.post("/audits", {"reason": "the monthly look"})
    assert asked.status == 202, asked
    audit_id = asked.body["audit_id"]
    assert (asked.body["finished_at"], asked.body["broken"]) == (None, {})
    continue_audits(actor=system("audit"), budget_seconds=30)
    report = api.viewer.get(f"/audits/{audit_id}").body
    assert report["audit"]["finished_at"] is not None
    assert (report["audit"]["broken"], report["findings"]) == ({}, [])
    assert api.viewer.get("/audits").body["results"] == [report["audit"]]
    assert api.viewer.get(f"/audits/{uuid4()}").status == 404
    assert api.operator.post("/audits", {}).status == 422


def test_the_audit_command_names_what_is_broken_and_fails(api: Api) -> None:
    world.submit()
    out = StringIO()
    call_command("audit", stdout=out)
    assert "Every invariant holds." in out.getvalue()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE coordinator_event DISABLE TRIGGER ALL")
        cursor.execute("DELETE FROM coordinator_event WHERE kind = 'SUBMITTED'")
        cursor.execute("ALTER TABLE coordinator_event ENABLE TRIGGER ALL")
    for arguments in ([], ["--json"]):
        out = StringIO()
        with pytest.raises(SystemExit) as ended:
            call_command("audit", *arguments, stdout=out)
        assert ended.value.code == 1
        assert str(Task.objects.get().task_id) in out.getvalue()


# --- the audit's chain ----------------------------------------------------------------------------


def test_everybody_reads_the_seal_and_has_a_range_verified(api: Api) -> None:
    assert api.viewer.get("/audit/seal").body["number"] == 0
    for intake in ("STOPPED", "OPEN"):
        api.operator.post("/queues/q/intake", {"intake": intake, "reason": "a look"})
    seal_events()
    seal = api.viewer.get("/audit/seal").body
    assert seal["digest"].startswith("sha256:")
    found = api.viewer.get("/audit/verification").body
    assert (found["holds"], found["links"], found["last"]) == (True, seal["number"], seal["number"])
    kept = f"first={seal['number'] + 1}&anchor={seal['digest']}"
    assert api.viewer.get(f"/audit/verification?{kept}").body["holds"]
    other = f"first={seal['number'] + 1}&anchor=sha256:{'0' * 64}"
    told = api.viewer.get(f"/audit/verification?{other}").body
    assert (told["holds"], told["fault"]["misfit"]) == (False, "ANCHOR")
    assert (told["fault"]["number"], told["digest"]) == (seal["number"], seal["digest"])


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("first=0", "/first"),
        ("first=ten", "/first"),
        ("first=5&last=4", "/last"),
        ("anchor=sha256:0", "/anchor"),
        ("from=1", "/from"),
    ],
)
def test_a_faulty_range_is_told_by_its_field(api: Api, query: str, pointer: str) -> None:
    reply = api.viewer.get(f"/audit/verification?{query}")
    assert reply.status == (422 if pointer == "/last" else 400)
    assert reply.pointers == {pointer}


def test_the_lines_of_the_chain_are_paged_in_its_order(api: Api) -> None:
    for intake in ("STOPPED", "OPEN") * 2:
        api.operator.post("/queues/q/intake", {"intake": intake, "reason": "a look"})
    seal_events()
    numbers: list[int] = []
    first: int | None = 1
    while first is not None:
        page = api.admin.get(f"/audit/lines?first={first}&limit=3").body
        numbers += [line["chain"]["number"] for line in page["lines"]]
        first = page["next_number"]
    assert numbers == list(range(1, api.viewer.get("/audit/seal").body["number"] + 1))
    assert api.operator.get("/audit/lines").status == 403  # addresses are for administrators
    assert api.admin.get("/audit/lines?limit=1001").status == 400
