"""The audit: filters in the address, pages that follow each other, files that harm no spreadsheet."""

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from console.files import harmless
from coordinator.clock import read_clock
from coordinator.models import Event
from coordinator.selectors import console_audit
from coordinator.selectors.console_audit import AuditFilter, export_rows, read_page
from coordinator.services import downstreams
from tests import world
from tests.console.conftest import Open
from tests.console.scene import Scene, any_time

pytestmark = pytest.mark.django_db(transaction=True)


def ids_of(wanted: AuditFilter) -> list[int]:
    """All of them, page after page."""
    found: list[int] = []
    before: int | None = None
    while True:
        page = read_page(wanted, before=before)
        found += [row.id for row in page.rows]
        before = page.before
        if before is None:
            return found


def expected(**filters: Any) -> list[int]:
    return list(Event.objects.filter(**filters).order_by("-id").values_list("id", flat=True))


def test_pages_follow_each_other_without_a_gap(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = expected()
    assert len(everything) > console_audit.PAGE_SIZE
    assert ids_of(AuditFilter()) == everything
    monkeypatch.setattr(console_audit, "STRETCH", 7)
    assert ids_of(AuditFilter()) == everything
    assert ids_of(AuditFilter(kind="EPOCH_BUMPED")) == expected(kind="EPOCH_BUMPED")


def test_each_filter_finds_what_it_says(scene: Scene) -> None:
    assert ids_of(AuditFilter(actor="operator:")) == expected(actor__startswith="operator:")
    assert ids_of(AuditFilter(queue="nightly")) == expected(queue__name="nightly")
    assert ids_of(AuditFilter(ids=scene.fenced)) == expected(task_id=scene.fenced)
    run = scene.review.run_id
    assert ids_of(AuditFilter(ids=run)) == expected(run__run_id=run)
    assert ids_of(AuditFilter(refused="only")) == expected(refusal_key__isnull=False)
    assert ids_of(AuditFilter(refused="without")) == expected(refusal_key__isnull=True)


def test_a_range_of_time_is_found_by_bisection(scene: Scene) -> None:
    now = read_clock()
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_event SET at = %s - make_interval(mins =>"
            " ((SELECT max(id) FROM coordinator_event) - id)::int * 10)",
            [now],
        )
    since, until = now - timedelta(minutes=700), now - timedelta(minutes=400)
    assert ids_of(AuditFilter(since=since, until=until)) == expected(at__gte=since, at__lt=until)
    assert ids_of(AuditFilter(since=now + timedelta(days=1))) == []
    assert ids_of(AuditFilter(until=now - timedelta(days=90))) == []


def test_an_empty_history_is_no_fault(transactional_db: None) -> None:
    Event.objects.all()
    with any_time() as cursor:
        cursor.execute("DELETE FROM coordinator_event")
    assert ids_of(AuditFilter(since=read_clock())) == []
    assert list(export_rows(AuditFilter())) == []


@pytest.fixture
def as_admin(client: Client, admin: Any) -> Client:
    client.force_login(admin, backend="django.contrib.auth.backends.ModelBackend")
    return client


def text_of(answer: Any) -> str:
    return b"".join(answer.streaming_content).decode()


def test_an_export_has_what_the_filter_has(as_admin: Client, scene: Scene) -> None:
    answer = as_admin.get("/audit/export.ndjson?queue=nightly")
    assert answer["Content-Disposition"] == 'attachment; filename="audit.ndjson"'
    lines = [json.loads(line) for line in text_of(answer).splitlines()]
    assert [line["id"] for line in lines] == expected(queue__name="nightly")
    rows = list(csv.DictReader(io.StringIO(text_of(as_admin.get("/audit/export.csv")))))
    assert [int(row["id"]) for row in rows] == expected()
    assert as_admin.get("/audit/export.pdf").status_code == 404


def test_an_export_ends_and_says_where_to_go_on(
    as_admin: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_audit, "MAX_EXPORTED", 20)
    monkeypatch.setattr(console_audit, "EXPORT_STRETCH", 6)
    everything, found, address = expected(), [], "/audit/export.ndjson"
    while address:
        lines = [json.loads(line) for line in text_of(as_admin.get(address)).splitlines()]
        found += [line["id"] for line in lines if "id" in line]
        rest = [line["continue_before"] for line in lines if "continue_before" in line]
        address = f"/audit/export.ndjson?before={rest[0]}" if rest else ""
    assert found == everything


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_what_a_spreadsheet_would_run_is_made_harmless(cell: str) -> None:
    assert harmless(cell) == f"'{cell}"


def test_no_cell_of_an_export_is_a_formula(as_admin: Client) -> None:
    world.queue()
    run = world.submit(world.node("=cmd|' /C calc'!A0"), actor=world.operator(name="=1+1"))
    assert run.tasks
    rows = list(csv.reader(io.StringIO(text_of(as_admin.get("/audit/export.csv")))))
    assert any("'=cmd|" in cell for row in rows for cell in row)
    assert not [cell for row in rows for cell in row if cell.startswith(tuple("=+-@\t\r"))]


def test_addresses_are_for_administrators(
    client: Client, as_admin: Client, viewer: Any, scene: Scene
) -> None:
    actor = world.operator(name="erin")
    actor = type(actor)(actor.kind, actor.name, actor.id, address="203.0.113.9")
    downstreams.change_downstream(
        name="letters", changes={"settle_seconds": 90}, actor=actor, reason="Slow since Monday."
    )
    addresses = ("/audit", "/audit/export.csv", "/audit/export.ndjson")
    for address in addresses:
        answer = as_admin.get(address)
        body = text_of(answer) if answer.streaming else answer.content.decode()
        assert "203.0.113.9" in body, address
    client.force_login(viewer, backend="django.contrib.auth.backends.ModelBackend")
    for address in addresses:
        answer = client.get(address)
        body = text_of(answer) if answer.streaming else answer.content.decode()
        assert "203.0.113.9" not in body, address
        assert "letters" in body, address


def test_a_change_is_told_by_before_and_after(as_admin: Client, scene: Scene) -> None:
    downstreams.change_downstream(
        name="letters",
        changes={"settle_seconds": 90},
        actor=world.operator(name="erin"),
        reason="Slow since Monday.",
    )
    page = as_admin.get("/audit?object=letters").content.decode()
    assert "<del>60</del> → <ins>90</ins>" in page
    assert "Slow since Monday." in page
    assert "operator:erin" in page


def test_a_filter_that_makes_no_sense_is_told(as_admin: Client) -> None:
    page = as_admin.get("/audit?since=yesterday").content.decode()
    assert "Write it as 2026-05-31" in page
    assert 'value="yesterday"' in page
    assert as_admin.get("/audit?before=9" + "9" * 40).status_code == 200


@pytest.mark.browser
def test_the_filter_stands_in_the_address(opened: Open, scene: Scene, viewer: Any) -> None:
    window = opened(user=viewer)
    page = window.page
    page.goto("/audit")
    page.select_option("#f-kind", "EPOCH_BUMPED")
    page.click("button:has-text('Filter')")
    page.wait_for_url("**kind=EPOCH_BUMPED**")
    assert page.locator("tbody tr").count() == 1
    assert "Rolled the fleet back to build 41." in page.inner_text("tbody")
    with page.expect_download() as download:
        page.click("text=CSV")
    assert download.value.suggested_filename == "audit.csv"
    assert not window.violations()
