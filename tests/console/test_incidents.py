"""The incident wizard: one page a step, no step skipped, two people, everything on record (contract 12)."""

from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from coordinator.actors import system
from coordinator.canary import DRILL
from coordinator.models import Event, Incident, IncidentCanary, Pool, Queue
from coordinator.selectors.canaries import CanaryPulse
from coordinator.selectors.incidents import read_incident
from coordinator.services import canaries
from coordinator.services.reconciliation import Finding, Method, Verdict, reconcile_effect
from tests import world
from tests.console import siege as sieges
from tests.console.scene import any_time
from tests.console.siege import QUEUE, WHY, Siege
from tests.console.test_approvals import client_of
from tests.effects import ledger

pytestmark = pytest.mark.django_db(transaction=True)


def form(incident_id: UUID, **fields: Any) -> dict[str, Any]:
    """What a step's form carries."""
    row = read_incident(incident_id)
    assert row is not None
    return {
        "action_key": str(uuid4()),
        "expected_version": row.version,
        "shown_state": row.state,
        "reason": WHY,
    } | fields


def bump_form(incident_id: UUID, **fields: Any) -> dict[str, Any]:
    return form(incident_id, epochs=f"{QUEUE}=1\n", phrase=QUEUE, **fields)


def state(incident_id: UUID) -> str:
    row = read_incident(incident_id)
    assert row is not None
    return row.state


def settle(siege: Siege) -> None:
    verdict = Verdict(Finding.HAPPENED, 1, Method.OPERATOR, {"reason": WHY}, receipt="entry 7")
    reconcile_effect(effect_id=siege.effect_id, verdict=verdict, actor=ledger.person("ben"))


def path(incident_id: UUID, number: int) -> str:
    return f"/incidents/{incident_id}/step/{number}"


def test_declaring_stops_the_intake_and_twice_is_the_same_incident(siege: Siege) -> None:
    olga = client_of("olga", "operator")
    sent = {"action_key": str(uuid4()), "scope": "some", "queues": [QUEUE], "reason": WHY}
    answers = [olga.post("/incidents/new", sent) for _ in range(2)]
    assert answers[0]["Location"] == answers[1]["Location"]
    incident = Incident.objects.get()
    assert answers[0]["Location"] == path(incident.incident_id, 2)
    assert (incident.opened_by, incident.reason) == ("operator:olga", WHY)
    assert Queue.objects.get(name=QUEUE).intake == "STOPPED"
    other = olga.post("/incidents/new", sent | {"action_key": str(uuid4())})
    assert other.status_code == 409
    assert b"INCIDENT_OPEN" in other.content


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("reason", "short", "Say why in 10 characters or more."),
        ("queues", [], "Choose the queues, or all of them."),
        ("queues", ["nowhere"], "nowhere is not one of the available choices"),
        ("scope", "", "This field is required."),
    ],
)
def test_a_faulty_declaration_is_told_by_its_field(
    siege: Siege, field: str, value: Any, told: str
) -> None:
    sent = {"action_key": str(uuid4()), "scope": "some", "queues": [QUEUE], "reason": WHY}
    answer = client_of("olga", "operator").post("/incidents/new", sent | {field: value})
    assert answer.status_code == 422
    assert told in answer.content.decode()
    assert not Incident.objects.exists()


def test_every_page_says_that_an_incident_is_open(siege: Siege) -> None:
    incident_id = sieges.declare()
    viewer = client_of("viktor", "viewer")
    for address in ("/", "/tasks", f"/queues/{QUEUE}", "/profile", "/incidents"):
        page = viewer.get(address).content.decode()
        assert "An incident is open" in page, address
        assert f'href="/incidents/{incident_id}"' in page, address
    answer = viewer.get(f"/incidents/{incident_id}")
    assert answer["Location"] == path(incident_id, 2)


def test_the_search_leads_to_an_incident_by_its_id(siege: Siege) -> None:
    incident_id = sieges.declare()
    found = client_of("ben", "operator").get("/find", {"q": str(incident_id)})
    assert found["Location"] == f"/incidents/{incident_id}"


def test_steps_of_the_future_are_locked(siege: Siege) -> None:
    incident_id, ben = sieges.declare(), client_of("ben", "operator")
    reachable = {n: ben.get(path(incident_id, n)).status_code for n in range(1, 8)}
    assert reachable == {1: 200, 2: 200, 3: 200, 4: 409, 5: 409, 6: 409, 7: 409}
    forged = ben.post(
        path(incident_id, 5), form(incident_id, to_pool="green", phrase="switch to green")
    )
    assert forged.status_code == 409
    assert "Your decision was not carried out" in forged.content.decode()
    looked_at = ben.get(path(incident_id, 5)).content.decode()
    assert "Step 5 is not open yet" in looked_at
    assert "Your decision" not in looked_at
    assert state(incident_id) == "STOPPED"
    assert ben.get(path(incident_id, 8)).status_code == 404
    assert ben.get(path(incident_id, 0)).status_code == 404
    assert ben.get(path(uuid4(), 1)).status_code == 404


def test_the_preview_tells_what_the_epoch_takes_back(siege: Siege) -> None:
    page = client_of("ben", "operator").get(path(sieges.declare(), 3)).content.decode()
    assert "price-1@blue" in page
    assert "ACCEPTED → <strong>UNKNOWN</strong>" in page
    assert "orders 1 → 2" in page
    assert "Somebody else than operator:olga raises the epoch." in page
    assert "&quot;expected_epochs&quot;" in page or '"expected_epochs"' in page


def test_a_wrong_phrase_raises_nothing(siege: Siege) -> None:
    incident_id = sieges.declare()
    before = world.fingerprint()
    answer = client_of("ben", "operator").post(
        path(incident_id, 3), bump_form(incident_id) | {"phrase": "order"}
    )
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "Type exactly: orders" in page
    assert 'aria-invalid="true" aria-describedby="e-phrase" data-take-focus' in page
    assert world.fingerprint() == before


def test_the_opener_raises_the_epoch_only_as_one_who_is_alone(siege: Siege) -> None:
    olga = client_of("olga", "operator")
    incident_id = sieges.declare(by="olga")
    refused = olga.post(path(incident_id, 3), bump_form(incident_id))
    assert refused.status_code == 403
    assert b"somebody else must raise the epoch" in refused.content
    assert state(incident_id) == "STOPPED"
    assert Event.objects.filter(kind="REFUSED", actor="operator:olga").exists()
    alone = olga.post(path(incident_id, 3), bump_form(incident_id, alone="on"))
    assert alone.status_code == 302
    assert state(incident_id) == "BUMPED"
    assert Event.objects.get(kind="ALARM", data__alarm="LONE_BUMP").data["reason"] == WHY


def test_a_second_person_raises_it_once(siege: Siege) -> None:
    incident_id, ben = sieges.declare(), client_of("ben", "operator")
    sent = bump_form(incident_id)
    pages = [ben.post(path(incident_id, 3), sent, follow=True) for _ in range(2)]
    receipts = {str(next(iter(each.context["messages"]))) for each in pages}
    assert receipts == {
        "The epoch is raised. Claims revoked: 3. Effects UNKNOWN: 1. Approvals VOID: 0."
    }
    assert Queue.objects.get(name=QUEUE).scheduler_epoch == 2
    page = pages[0].content.decode()
    assert "Ready for the next step." in page
    assert "operator:ben" in page
    assert pages[0].redirect_chain[0][0] == path(incident_id, 3)  # it never advances by itself


def test_another_epoch_than_was_seen_raises_nothing(siege: Siege) -> None:
    incident_id = sieges.declare()
    answer = client_of("ben", "operator").post(
        path(incident_id, 3), bump_form(incident_id) | {"epochs": f"{QUEUE}=7"}
    )
    assert answer.status_code == 409
    assert b"STATE_VERSION_MISMATCH" in answer.content
    assert Queue.objects.get(name=QUEUE).scheduler_epoch == 1


def test_the_gate_holds_the_switch_until_all_three_are_zero(siege: Siege) -> None:
    incident_id, ben = sieges.declare(), client_of("ben", "operator")
    ben.post(path(incident_id, 3), bump_form(incident_id))
    gate = ben.get(path(incident_id, 4)).content.decode()
    assert "Oldest holder:" in gate
    assert f'href="/effects/{siege.effect_id}"' in gate
    locked = ben.get(path(incident_id, 5))
    assert locked.status_code == 409
    assert "3 leases still run, 1 effects may be out and 1 results wait" in locked.content.decode()
    sent = form(incident_id, to_pool="green", phrase="switch to green")
    assert ben.post(path(incident_id, 5), sent).status_code == 409
    sieges.let_leases_run_out(incident_id)
    settle(siege)
    assert ben.get(path(incident_id, 5)).status_code == 409
    decided = ben.post(
        path(incident_id, 4), form(incident_id, decision="KEEP"), follow=True
    ).content.decode()
    assert "Decided about 1 results: KEEP." in decided
    assert "Nothing of the old epoch is out." in decided
    assert ben.get(path(incident_id, 5)).status_code == 200


def drained(siege: Siege) -> tuple[UUID, Client]:
    incident_id, ben = sieges.declare(), client_of("ben", "operator")
    ben.post(path(incident_id, 3), bump_form(incident_id))
    sieges.let_leases_run_out(incident_id)
    settle(siege)
    ben.post(path(incident_id, 4), form(incident_id, decision="DISCARD"))
    assert state(incident_id) == "DRAINED"
    return incident_id, ben


def test_only_a_pool_that_can_take_over_is_offered(siege: Siege) -> None:
    incident_id, ben = drained(siege)
    page = ben.get(path(incident_id, 5)).content.decode()
    assert "nobody could claim in orders" in page
    assert 'name="to_pool" value="idle" disabled' in page
    Pool.objects.create(name=DRILL)
    assert DRILL not in ben.get(path(incident_id, 5)).content.decode()
    forged = form(incident_id, to_pool="idle", phrase="switch to idle")
    answer = ben.post(path(incident_id, 5), forged)
    assert answer.status_code == 422
    assert "has no live credential" in answer.content.decode()
    wrong = form(incident_id, to_pool="green", phrase="switch to blue")
    assert ben.post(path(incident_id, 5), wrong).status_code == 422
    assert state(incident_id) == "DRAINED"


def test_switched_resumed_and_told_to_the_end(siege: Siege) -> None:
    incident_id, ben = drained(siege)
    sent = form(incident_id, to_pool="green", phrase="switch to green")
    page = ben.post(path(incident_id, 5), sent, follow=True).content.decode()
    assert "Switched: green is the active pool." in page
    assert ben.get(path(incident_id, 7)).status_code == 409
    closed = ben.post(
        path(incident_id, 6), form(incident_id, percent=100), follow=True
    ).content.decode()
    assert "The incident is CLOSED." in closed
    assert Queue.objects.get(name=QUEUE).intake == "OPEN"
    report = ben.get(path(incident_id, 7)).content.decode()
    for kind in ("INCIDENT_OPENED", "INCIDENT_BUMPED", "INCIDENT_SWITCHED", "INCIDENT_CLOSED"):
        assert kind in report
    assert "operator:olga" in report
    assert "operator:ben" in report
    assert "An incident is open" not in ben.get("/").content.decode()
    markdown = ben.get(f"/incidents/{incident_id}/report.md")
    assert markdown["Content-Disposition"].startswith("attachment")
    assert "operator:ben" in markdown.content.decode()
    told = orjson.loads(ben.get(f"/incidents/{incident_id}/report.json").content)
    assert {step["by"] for step in told["incident"]["steps"]} == {"operator:olga", "operator:ben"}
    assert all(step["at"] for step in told["incident"]["steps"])
    assert ben.get(f"/incidents/{incident_id}/report.pdf").status_code == 404


def switched(siege: Siege) -> tuple[UUID, Client]:
    incident_id, ben = drained(siege)
    ben.post(path(incident_id, 5), form(incident_id, to_pool="green", phrase="switch to green"))
    assert state(incident_id) == "SWITCHED"
    return incident_id, ben


def test_a_part_is_let_in_first_and_the_page_tells_how_it_fares(siege: Siege) -> None:
    incident_id, ben = switched(siege)
    page = ben.get(path(incident_id, 6)).content.decode()
    assert 'id="id_percent" name="percent"' in page
    assert 'value="10"' in page
    sent = form(incident_id, percent=10)
    answers = [ben.post(path(incident_id, 6), sent, follow=True) for _ in range(2)]
    for answer in answers:  # sent twice, it is one
        assert "10 % of the tasks are let in." in answer.content.decode()
    row = Queue.objects.get(name=QUEUE)
    assert (row.intake, row.intake_share) == ("STOPPED", 10)
    page = answers[0].content.decode()
    assert answers[0].redirect_chain[0][0] == path(incident_id, 6)
    overview = ben.get("/").content.decode()
    assert f"The intake of {QUEUE} lets a part of the tasks in" in overview
    for address in ("/", "/queues", f"/queues/{QUEUE}"):
        assert "10 % let in" in ben.get(address).content.decode().partition("<main")[2], address
    for words in ("What was let in first", "Commits since then", "10 % let in", 'value="50"'):
        assert words in page
    stopped = ben.post(path(incident_id, 6), form(incident_id, percent=0), follow=True)
    assert "Nothing is let in any more." in stopped.content.decode()
    assert state(incident_id) == "SWITCHED"
    ben.post(path(incident_id, 6), form(incident_id, percent=100))
    report = ben.get(path(incident_id, 7)).content.decode()
    assert "CANARY_SET" in report
    markdown = ben.get(f"/incidents/{incident_id}/report.md").content.decode()
    assert "What was let in first" in markdown


@pytest.mark.parametrize("percent", ["", "-1", "101", "ten", "10.5"])
def test_a_part_that_is_none_is_told_by_its_field(siege: Siege, percent: str) -> None:
    incident_id, ben = switched(siege)
    answer = ben.post(path(incident_id, 6), form(incident_id, percent=percent))
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "A whole number from 0 to 100." in page
    assert 'aria-invalid="true" data-take-focus' in page
    assert Queue.objects.get(name=QUEUE).intake_share == 0


def test_a_held_canary_needs_a_human_and_says_so_on_every_page(siege: Siege) -> None:
    incident_id, ben = switched(siege)
    ben.post(path(incident_id, 6), form(incident_id, percent=60))
    newest = IncidentCanary.objects.latest("id")
    pulse = CanaryPulse(commits=4, fenced=3)
    watched = canaries._asked(incident_id, newest.version, system("canary"), pulse)
    assert canaries._hold(watched, pulse)
    overview = ben.get("/").content.decode()
    assert "The canary of an incident was held" in overview
    assert f'href="{path(incident_id, 6)}"' in overview
    assert "canary held" in ben.get("/tasks").content.decode()
    page = ben.get(path(incident_id, 6)).content.decode()
    assert "held by the watch" in page
    assert "3 of 7 commits of what was let in were fenced" in page
    assert 'value="10"' in page  # it begins anew


def test_an_epoch_that_was_raised_alone_is_told_for_a_day(siege: Siege) -> None:
    olga = client_of("olga", "operator")
    incident_id = sieges.declare(by="olga")
    olga.post(path(incident_id, 3), bump_form(incident_id, alone="on"))
    for address in ("/", "/tasks", "/profile"):
        page = client_of("viktor", "viewer").get(address).content.decode()
        assert "Break-glass was used." in page, address
        assert "operator:olga raised the epoch alone" in page, address
    with any_time() as cursor:
        cursor.execute("UPDATE coordinator_incidentstep SET at = at - interval '25 hours'")
    assert "Break-glass was used." not in olga.get("/tasks").content.decode()


def test_before_the_bump_it_can_be_called_off(siege: Siege) -> None:
    incident_id, ben = sieges.declare(), client_of("ben", "operator")
    page = ben.post(f"/incidents/{incident_id}/abort", form(incident_id), follow=True)
    assert "Called off." in page.content.decode()
    assert page.redirect_chain[0][0] == path(incident_id, 7)
    assert Queue.objects.get(name=QUEUE).intake == "OPEN"
    assert ben.get(path(incident_id, 3)).status_code == 409
    assert "not taken" in ben.get(path(incident_id, 2)).content.decode()


def test_after_the_bump_it_can_not(siege: Siege) -> None:
    incident_id, ben = sieges.declare(), client_of("ben", "operator")
    ben.post(path(incident_id, 3), bump_form(incident_id))
    answer = ben.post(f"/incidents/{incident_id}/abort", form(incident_id))
    assert answer.status_code == 409
    assert b"WRONG_STEP" in answer.content
    assert state(incident_id) == "BUMPED"


def test_a_step_about_another_version_is_not_taken(siege: Siege) -> None:
    incident_id, ben = drained(siege)
    stale = form(incident_id, to_pool="green", phrase="switch to green", expected_version=1)
    answer = ben.post(path(incident_id, 5), stale)
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "STATE_VERSION_MISMATCH" in page
    assert "It changed while you were looking" in page
    assert state(incident_id) == "DRAINED"


@pytest.mark.parametrize("role", ["viewer", "approver"])
def test_who_may_not_operate_incidents_sees_why_and_is_refused(siege: Siege, role: str) -> None:
    incident_id, client = sieges.declare(), client_of(role, role)
    assert (
        "Roles that may: operators and admins." in client.get(path(incident_id, 3)).content.decode()
    )
    before = world.fingerprint()
    new = {"action_key": str(uuid4()), "scope": "all", "reason": WHY}
    assert client.post("/incidents/new", new).status_code == 403
    assert client.post(path(incident_id, 3), bump_form(incident_id)).status_code == 403
    assert client.post(f"/incidents/{incident_id}/abort", form(incident_id)).status_code == 403
    assert world.fingerprint() == before


def test_an_unchanged_poll_is_a_304_and_lists_keep_to_their_budget(siege: Siege) -> None:
    incident_id, ben = sieges.declare(), client_of("ben", "operator")
    poll = {"HX-Request": "true"}
    first = ben.get(path(incident_id, 2), headers=poll)
    again = ben.get(path(incident_id, 2), headers=poll | {"HX-PTag": first["HX-PTag"]})
    assert again.status_code == 304
    ben.get("/incidents")
    with CaptureQueriesContext(connection) as captured:
        assert ben.get("/incidents").status_code == 200
    assert len(captured) <= 8
