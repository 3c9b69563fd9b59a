"""A whole incident with two people in two browsers, with scripts and without; and every page of it in order."""

import string
from typing import Any
from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from coordinator.models import Incident, Queue
from tests.console import siege as sieges
from tests.console.conftest import Open
from tests.console.looking import look
from tests.console.scene import person
from tests.console.siege import QUEUE, WHY, Siege
from tests.console.test_incidents import drained, form, path, settle, state

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.browser]


@pytest.fixture
def ben(worlds: None) -> Any:
    return person("ben", "operator")


def test_every_page_of_an_incident_is_in_order(opened: Open, siege: Siege, operator: Any) -> None:
    window, faults = opened(user=operator), []
    faults += look(window, "/incidents")
    faults += look(window, f"/incidents/new?queue={QUEUE}")
    incident_id, _ben = drained(siege)
    for number in (1, 2, 3, 4, 5):
        faults += look(window, path(incident_id, number))
    faults += look(window, path(incident_id, 6))  # locked
    sent = form(incident_id, to_pool="green", phrase="switch to green")
    _ben.post(path(incident_id, 5), sent)
    _ben.post(path(incident_id, 6), form(incident_id, percent=10))
    faults += look(window, path(incident_id, 6))
    faults += look(window, "/incidents")
    assert not faults, "\n".join(faults)


def test_the_gate_and_the_preview_are_in_order(opened: Open, siege: Siege, operator: Any) -> None:
    incident_id = sieges.declare(by="olga")
    window = opened(user=operator)
    faults = look(window, path(incident_id, 3)) + look(window, f"/incidents/{incident_id}/abort")
    second = person("ben", "operator")
    page = opened(user=second).page
    bump(page, incident_id)
    faults += look(window, path(incident_id, 4))
    assert not faults, "\n".join(faults)


def declare(page: Page) -> UUID:
    page.goto(f"/incidents/new?queue={QUEUE}")
    page.fill("#id_reason", WHY)
    page.click("button:has-text('Stop intake and open the incident')")
    page.wait_for_url("**/step/2")
    return Incident.objects.get().incident_id


def bump(page: Page, incident_id: UUID) -> None:
    page.goto(path(incident_id, 3))
    page.fill("#id_reason", WHY)
    page.fill("#id_phrase", QUEUE)
    page.click("#decision button:has-text('Raise the epoch')")
    page.wait_for_load_state()


def test_two_people_in_two_browsers_take_it_to_the_end(
    opened: Open, siege: Siege, operator: Any, ben: Any
) -> None:
    first, second = opened(user=operator), opened(user=ben)
    olga, other = first.page, second.page
    incident_id = declare(olga)
    expect(olga.locator(".banner.incident")).to_contain_text("An incident is open")
    expect(olga.locator(".conditions .met")).to_have_count(2)
    olga.click("a:has-text('To step 3')")
    expect(olga.locator("#decision")).to_contain_text("You opened this incident.")
    other.goto("/")
    other.click(".banner.incident a")
    other.click("a:has-text('To step 3')")
    other.fill("#id_reason", WHY)
    other.fill("#id_phrase", "all of them")
    other.click("#decision button:has-text('Raise the epoch')")
    expect(other.locator("#e-phrase")).to_have_text(f"Type exactly: {QUEUE}")
    expect(other.locator("#id_phrase")).to_be_focused()
    other.fill("#id_phrase", QUEUE)
    other.click("#decision button:has-text('Raise the epoch')")
    expect(other.locator(".alert.calm")).to_contain_text("Claims revoked: 3.")
    # The first person's page sees it, and locks what was about the incident as it stood.
    expect(olga.locator("[data-changed]")).to_be_visible()
    expect(olga.locator("#decision button:has-text('Raise the epoch')")).to_be_disabled()
    olga.goto(path(incident_id, 4))
    expect(olga.locator(".gates .shut")).to_have_count(3)
    answer = olga.goto(path(incident_id, 5))
    assert answer is not None
    assert answer.status == 409
    olga.goto(path(incident_id, 4))
    sieges.let_leases_run_out(incident_id)
    settle(siege)
    expect(olga.locator(".gates .shut")).to_have_count(1)
    olga.fill("#id_reason", WHY)
    olga.click("#decision button:has-text('Decide')")
    expect(olga.locator(".ready")).to_contain_text("Ready for the next step.")
    assert olga.url.endswith("/step/4")  # it says so, and waits
    olga.click("a:has-text('To step 5')")
    olga.check("input[value=green]")
    olga.fill("#id_reason", WHY)
    olga.fill("#id_phrase", "switch to green")
    olga.click("#decision button:has-text('Switch the pool')")
    expect(olga.locator(".alert.calm")).to_contain_text("green is the active pool")
    other.goto(f"/incidents/{incident_id}")  # resumed by the other one, in another browser
    expect(other.locator("#id_percent")).to_have_value("10")  # a part first
    other.fill("#id_reason", WHY)
    other.click("#decision button:has-text('Let in')")
    expect(other.locator(".alert.calm")).to_contain_text("10 % of the tasks are let in")
    expect(other.locator("#id_percent")).to_have_value("50")
    expect(other.locator(".banner.incident")).to_contain_text("10 % let in")
    other.fill("#id_percent", "100")
    other.fill("#id_reason", WHY)
    other.click("#decision button:has-text('Let in')")
    expect(other.locator(".alert.calm")).to_contain_text("CLOSED")
    other.click("a:has-text('To step 7')")
    expect(other.locator("table.events")).to_contain_text("INCIDENT_CLOSED")
    expect(other.locator("table.events")).to_contain_text("operator:olga")
    assert Queue.objects.get(name=QUEUE).active_pool_id == "green"
    faults = look(second, path(incident_id, 7))
    first.faults = [each for each in first.faults if "409" not in each]
    assert not [*faults, *first.faults, *first.violations()]


def test_it_is_taken_to_the_end_without_scripts(
    opened: Open, siege: Siege, operator: Any, ben: Any
) -> None:
    olga, other = opened(user=operator, scripts=False).page, opened(user=ben, scripts=False).page
    incident_id = declare(olga)
    bump(other, incident_id)
    assert state(incident_id) == "BUMPED"
    sieges.let_leases_run_out(incident_id)
    settle(siege)
    olga.goto(f"/incidents/{incident_id}")
    olga.check("input[value=KEEP]")
    olga.fill("#id_reason", WHY)
    olga.click("#decision button:has-text('Decide')")
    olga.click("a:has-text('To step 5')")
    olga.check("input[value=green]")
    olga.fill("#id_reason", WHY)
    olga.fill("#id_phrase", "switch to green")
    olga.click("#decision button:has-text('Switch the pool')")
    olga.click("a:has-text('To step 6')")
    olga.fill("#id_percent", "100")
    olga.fill("#id_reason", WHY)
    olga.click("#decision button:has-text('Let in')")
    olga.click("a:has-text('To step 7')")
    assert "INCIDENT_CLOSED" in olga.inner_text("table.events")
    assert state(incident_id) == "CLOSED"


def test_no_single_key_takes_a_step(opened: Open, siege: Siege, operator: Any) -> None:
    incident_id = sieges.declare(by="ben")
    page = opened(user=operator).page
    methods: list[str] = []
    page.on("request", lambda request: methods.append(request.method))
    for address in ("/incidents", "/incidents/new", path(incident_id, 3)):
        page.goto(address)
        for key in [*string.printable.strip(), "Enter"]:
            page.keyboard.press(key)
            page.keyboard.press("Escape")
            page.evaluate("document.activeElement?.blur()")
        assert set(methods) == {"GET"}, address
    page.goto(path(incident_id, 3))
    page.fill("#id_reason", WHY)
    page.fill("#id_phrase", QUEUE)
    page.press("#id_phrase", "Enter")
    assert state(incident_id) == "STOPPED"
    assert set(methods) == {"GET"}
