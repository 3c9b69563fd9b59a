"""The background verifies the audit's chain in pieces, goes on where it stopped, and tells what does not fit."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from coordinator.actors import Worker, system
from coordinator.chain_digests import GENESIS
from coordinator.models import AuditLink, AuditWatch, Event
from coordinator.selectors import audit_chain_rows
from coordinator.selectors.audit_chain import read_head, verify_chain
from coordinator.selectors.audit_watch import Watched, read_watch
from coordinator.services import audit_watches
from coordinator.services.audit_seals import seal_events
from coordinator.services.audit_watches import watch_chain
from tests.console.test_approvals import client_of
from tests.services.test_audit_chain import act, as_superuser, by, sealed

__all__ = ["by"]

pytestmark = pytest.mark.django_db(transaction=True)


def look(**fields: Any) -> Watched:
    watch_chain(actor=system("audit"), **fields)
    found = read_watch()
    assert found is not None
    return found


def forge(number: int) -> int:
    event_id = AuditLink.objects.get(number=number).event_id
    with as_superuser() as cursor:
        cursor.execute(
            "UPDATE coordinator_event SET actor = 'operator:mallory' WHERE id = %s", [event_id]
        )
    return int(event_id)


def alarms() -> list[dict[str, Any]]:
    rows = Event.objects.filter(kind="ALARM", data__alarm="AUDIT_CHAIN_BROKEN").order_by("id")
    return list(rows.values_list("data", flat=True))


def test_it_goes_on_where_it_stopped_and_then_follows_what_is_sealed(by: Worker) -> None:
    newest = len(sealed(4))
    first = look(piece=3, budget_seconds=0)
    assert (first.number, first.newest, first.whole_at) == (3, newest, None)
    second = look(piece=3, budget_seconds=0)
    assert (second.number, second.begun_at) == (6, first.begun_at)
    whole = look()
    assert (whole.number, whole.fault) == (newest, None)
    assert whole.whole_at is not None
    newer = len(sealed(2))
    assert watch_chain(actor=system("audit")) == newer - newest
    assert alarms() == []


def test_an_empty_chain_is_looked_at_as_well(by: Worker) -> None:
    found = look()
    assert (found.number, found.newest, found.fault) == (0, 0, None)


def test_it_begins_with_the_first_link_again_when_that_is_due(by: Worker) -> None:
    newest = len(sealed(2))
    look()
    forge(2)
    assert look().fault is None  # it has passed there, and follows the end
    AuditWatch.objects.update(begun_at=read_head_at() - audit_watches.EVERY)
    assert look().number == 0
    found = look()
    assert found.fault is not None
    assert (found.fault.misfit, found.fault.number, newest > 2) == ("CHANGED", 2, True)


def read_head_at() -> Any:
    sealed_at = read_head().sealed_at
    assert sealed_at is not None
    return sealed_at - timedelta(seconds=1)


def test_a_row_that_does_not_fit_is_an_alarm_once_and_over_when_it_fits_again(by: Worker) -> None:
    sealed(3)
    event_id, before = forge(3), Event.objects.get(id=AuditLink.objects.get(number=2).event_id)
    broken = look()
    assert broken.fault is not None
    assert (broken.fault.misfit, broken.fault.number) == ("CHANGED", 3)
    assert (broken.fault.event_id, broken.number) == (event_id, 0)
    assert look().fault_at == broken.fault_at
    (told,) = alarms()
    assert (told["misfit"], told["number"], told["event_id"]) == ("CHANGED", 3, event_id)
    with as_superuser() as cursor:
        cursor.execute(
            "UPDATE coordinator_event SET actor = %s WHERE id = %s", [before.actor, event_id]
        )
    mended = look()
    assert (mended.fault, mended.fault_at) == (None, None)
    assert len(alarms()) == 1


def test_a_link_made_anew_between_two_pieces_does_not_fit_what_was_seen(by: Worker) -> None:
    sealed(3)
    look(piece=4, budget_seconds=0)
    with as_superuser() as cursor:
        cursor.execute("UPDATE coordinator_auditlink SET digest = 'sha256:0' WHERE number = 4")
    found = look()
    assert found.fault is not None
    assert (found.fault.misfit, found.fault.number) == ("ANCHOR", 4)


def test_two_at_once_move_it_on_once(by: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = len(sealed(3))
    real = verify_chain

    def another_first(**asked: Any) -> Any:
        monkeypatch.setattr("coordinator.services.audit_watches.verify_chain", real)
        watch_chain(actor=system("audit"))
        return real(**asked)

    monkeypatch.setattr("coordinator.services.audit_watches.verify_chain", another_first)
    found = look(piece=2)
    assert (found.number, found.fault) == (newest, None)


def test_what_is_sealed_during_a_look_is_no_fault(
    by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed(2)
    real = audit_chain_rows.read_links

    def sealed_meanwhile(first: int, end: int) -> Any:
        yield from real(first, end)
        act(1)
        seal_events()

    monkeypatch.setattr("coordinator.selectors.audit_chain.read_links", sealed_meanwhile)
    assert verify_chain().fault is None


def test_it_is_told_on_the_pages_in_the_metrics_and_where_a_person_is_needed(by: Worker) -> None:
    viewer = client_of("vera", "viewer")
    assert "not looked at the chain yet" in viewer.get("/audit/chain").content.decode()
    sealed(2)
    look()
    for page in ("/audit/chain", "/audit/integrity"):
        assert "The chain of the audit holds." in viewer.get(page).content.decode()
    assert "does not fit its chain" not in viewer.get("/").content.decode()
    assert "tenure_audit_chain_holds 1.0" in figures(viewer)
    AuditWatch.objects.update(number=0, digest=GENESIS)
    event_id = forge(2)
    look()
    for page in ("/audit/chain", "/audit/integrity"):
        text = viewer.get(page).content.decode()
        assert "A row does not fit." in text
        assert f"#e-{event_id}" in text
    assert "A row of the audit does not fit its chain" in viewer.get("/").content.decode()
    assert "tenure_audit_chain_holds 0.0" in figures(viewer)


def figures(viewer: Client) -> str:
    return viewer.get("/api/v1/metrics").content.decode()
