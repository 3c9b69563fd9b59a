"""`/audit/chain`: the newest seal, and a range that is verified; a row that does not fit is named (adr/0021)."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from coordinator.models import AuditLink
from coordinator.selectors.audit_chain import read_head
from coordinator.services.audit_seals import seal_events
from coordinator.services.epochs import set_intake
from coordinator.states import Intake
from tests import world
from tests.console.scene import any_time
from tests.console.test_approvals import client_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def vera(transactional_db: None) -> Client:
    world.queue(name="q")
    for wanted in (Intake.STOPPED, Intake.OPEN) * 3:
        set_intake(queue="q", intake=wanted, reason="a look", actor=world.operator())
    seal_events()
    return client_of("vera", "viewer")


def test_the_newest_seal_is_there_to_be_copied(vera: Client) -> None:
    head = read_head()
    page = vera.get("/audit/chain").content.decode()
    assert f'data-copy="{head.number}:{head.digest}"' in page
    assert "Keep it elsewhere" in page
    assert 'href="/audit/chain"' in vera.get("/audit").content.decode()


def test_a_range_that_holds_says_so_at_an_address_of_its_own(vera: Client) -> None:
    head = read_head()
    page = vera.get("/audit/chain", {"first": "2", "last": "4", "anchor": ""}).content.decode()
    assert "3 links hold." in page
    assert "tenure audit verify --from 2 --to 4" in page
    kept = {"first": str(head.number + 1), "last": "", "anchor": head.digest}
    page = vera.get("/audit/chain", kept).content.decode()
    assert "0 links hold." in page
    assert f"tenure audit verify --anchor {head.number}:{head.digest}" in page


def test_the_first_row_that_does_not_fit_is_named_with_its_link(vera: Client) -> None:
    event_id = AuditLink.objects.get(number=3).event_id
    with any_time() as cursor:
        cursor.execute(
            'UPDATE coordinator_event SET data = data || \'{"reason": "<b>forged</b>"}\' WHERE id = %s',
            [event_id],
        )
    page = vera.get("/audit/chain", {"first": "1", "last": ""}).content.decode()
    assert "A row does not fit." in page
    assert "<code>CHANGED</code>" in page
    assert f'href="/audit?before={event_id + 1}#e-{event_id}"' in page
    assert "2 links before it hold." in page
    audit = vera.get("/audit", {"before": event_id + 1}).content.decode()
    assert f'id="e-{event_id}"' in audit


@pytest.mark.parametrize(
    ("asked", "field", "told"),
    [
        ({"first": "0"}, "first", "A whole number from 1 on."),
        ({"first": "x"}, "first", "A whole number from 1 on."),
        ({"first": "3", "last": "2"}, "last", "At least as much as the first."),
        ({"first": "9999"}, "first", "The chain ends with 6."),
        ({"first": "1", "anchor": "<b>"}, "anchor", "A digest: sha256: and 64 hex digits."),
    ],
)
def test_a_faulty_range_is_told_by_its_field(
    vera: Client, asked: dict[str, str], field: str, told: str
) -> None:
    answer = vera.get("/audit/chain", asked)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert told in page
    assert f'aria-invalid="true" aria-describedby="e-{field}"' in page
    assert "<b>" not in page


def test_a_long_chain_goes_on_from_the_page(vera: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.selectors.audit_chain.MAX_VERIFIED", 4)
    page = vera.get("/audit/chain", {"first": "1"}).content.decode()
    digest = AuditLink.objects.get(number=4).digest
    assert f'href="?first=5&amp;anchor={digest}"' in page
    assert "2 links hold." in vera.get(f"/audit/chain?first=5&anchor={digest}").content.decode()


def test_the_page_keeps_to_its_budget(vera: Client) -> None:
    with CaptureQueriesContext(connection) as captured:
        assert vera.get("/audit/chain", {"first": "1"}).status_code == 200
    assert len(captured) <= 14  # whatever the length of the chain is, up to a thousand links
