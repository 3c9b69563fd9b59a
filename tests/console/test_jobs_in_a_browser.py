"""Jobs that a person does from the first page on, in a real browser: what is asked again, what nobody knows, and why.

The other jobs: two approvers and a rejection in `test_deciding_in_a_browser`, a queue promoted and taken back in
`test_shadow`, an incident in `test_incidents_in_a_browser`, many tasks in `test_bulks`, a credential in
`test_credentials`.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import LazySettings
from playwright.sync_api import Page, expect

from coordinator.models import Audit, EffectSlot
from coordinator.site.adapters import registered_adapters
from tests.console.conftest import Open
from tests.console.desk import ADAPTERS, Desk
from tests.console.scene import Scene, person
from tests.console.test_approvals import WHY, state, word

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.browser]


@pytest.fixture
def asked(settings: LazySettings) -> Iterator[None]:
    """The downstreams that the server can ask."""
    settings.ADAPTERS = "tests.console.desk:ADAPTERS"
    registered_adapters.cache_clear()
    for each in ADAPTERS.values():
        each.held, each.is_up = {}, True
    yield
    registered_adapters.cache_clear()


def effect_state(effect_id: str) -> str:
    return EffectSlot.objects.get(effect_id=effect_id).state


def test_a_superseded_request_leads_to_the_one_that_is_decided(
    opened: Open, desk: Desk, worlds: None
) -> None:
    window = opened(user=person("anna", "approver"))
    page = window.page
    page.goto("/approvals?turn=decided")
    page.click(f"a[href*='{desk.superseded}']")
    expect(page.locator(".chip >> text=SUPERSEDED").first).to_be_visible()
    assert page.locator("#decision").count() == 0
    page.locator(f"main a[href*='/approvals/{desk.successor}']").first.click()
    expect(page.locator(f"main a[href*='{desk.superseded}']").first).to_be_visible()
    page.focus("#whole")
    page.keyboard.press("End")
    page.fill("#id_reason", WHY)
    page.fill("#id_phrase", word(desk.successor)["phrase"])
    page.click("#decision button[value=approve]")
    expect(page.locator(".alert.calm")).to_contain_text("Approved.")
    assert (state(desk.superseded), state(desk.successor)) == ("VOID", "APPROVED")
    page.goto(f"/approvals/{desk.expired}")
    expect(page.locator(".chip >> text=EXPIRED").first).to_be_visible()
    assert page.locator("#decision, #pass").count() == 0
    assert not [*window.faults, *window.violations()]


def test_what_nobody_knows_is_settled_as_happened_as_not_and_as_never_to_be_sealed(
    opened: Open, desk: Desk, asked: None, operator: Any
) -> None:
    ADAPTERS["tickets"].held[desk.ticket] = "ticket 7"
    window = opened(user=operator)
    page = window.page
    page.goto("/")
    page.click(".rail a[href='/effects/unknown']")
    _open(page, "notify mailer")
    page.click("summary:has-text('It did not happen') >> nth=0")
    expect(page.locator("details[open] .blocked")).to_contain_text("look-up")
    page.click("button:has-text('Ask now')")
    expect(page.locator(".alert.calm")).to_contain_text("The downstream was asked.")
    expect(page.locator("main")).to_contain_text("no such message")
    page.click("summary:has-text('It did not happen') >> nth=0")
    told = "generation 2 sends EUR 75 · to someone@mailer.example to mailer again"
    expect(page.locator("details[open] .cost")).to_contain_text(told)
    page.fill("#id_reason_absent", WHY)
    page.fill("#id_phrase_absent", f"{desk.mail[:8]} did not happen at mailer")
    page.click("button:has-text('It did not happen')")
    expect(page.locator(".alert.calm")).to_contain_text("it is RESENDABLE")
    page.goto("/effects/unknown")
    _open(page, "notify tickets")
    page.click("button:has-text('Ask now')")
    page.click("summary:has-text('It happened')")
    expect(page.locator("#id_receipt")).to_have_value("ticket 7")
    page.fill("#id_reason_happened", WHY)
    page.click("button:has-text('It happened')")
    expect(page.locator(".alert.calm")).to_contain_text("Settled: it happened.")
    page.goto("/effects/unknown")
    _open(page, "notify fax")
    page.click("summary:has-text('It did not happen') >> nth=0")
    expect(page.locator("details[open] .blocked")).to_contain_text("can't seal an absence")
    page.click("summary:has-text('by my word')")
    expect(page.locator("details[open]")).to_contain_text("Roles that may: admins.")
    page.click("summary:has-text('Still unknown')")
    page.fill("#id_note", "I have asked the exchange for its log.")
    page.click("button:has-text('Note it')")
    expect(page.locator(".alert.calm")).to_contain_text("Noted. It stays UNKNOWN")
    states = [effect_state(each) for each in (desk.mail, desk.ticket, desk.fax)]
    assert states == ["RESENDABLE", "COMMITTED", "UNKNOWN"]
    assert not [*window.faults, *window.violations()]


def _open(page: Page, name: str) -> None:
    page.click(f"table a:has-text('{name}')")
    page.wait_for_url("**/effects/*")


def test_a_person_finds_why_a_task_waits_and_follows_a_worker_that_came_too_late(
    opened: Open, scene: Scene, operator: Any
) -> None:
    window = opened(user=operator)
    page = window.page
    page.goto("/")
    page.fill("#search", "publish")
    page.press("#search", "Enter")
    page.click("a[data-row]:has-text('publish')")
    expect(page.locator(".verdict .why")).to_contain_text("merge")
    page.locator(".verdict a:has-text('merge')").click()
    expect(page.locator(".verdict .why")).to_contain_text("6 parents without a canonical commit")
    page.locator(".verdict a:has-text('gates.py') >> nth=0").click()
    expect(page.locator(".verdict .why")).to_contain_text("All 3 attempts are used up")
    expect(page.locator("main")).to_contain_text("The model answered with prose")
    page.goto("/")
    page.click("section[aria-labelledby=fences] a:has-text('fence.py')")
    page.wait_for_url(f"**/tasks/{scene.fenced}")
    drawn = page.locator("svg.timeline")
    expect(drawn).to_be_visible()
    for text in ("agent-1@build-07", "agent-4@build-02"):
        expect(drawn).to_contain_text(text)
    assert drawn.locator(".ghost").count() == 1
    expect(page.locator("main")).to_contain_text("Late calls that were refused")
    expect(page.locator(".c-fenced:has-text('commit FENCED')").first).to_be_visible()
    page.click("a:has-text('Events')")
    page.wait_for_url("**/events")
    expect(page.locator("table.events")).to_contain_text("FENCED")
    assert not [*window.faults, *window.violations()]


def test_a_double_click_is_one_act_and_ends_on_its_receipt(
    opened: Open, scene: Scene, operator: Any
) -> None:
    page = opened(user=operator).page
    page.goto("/audit/integrity/run")
    page.fill("#id_reason", "The yearly look at the history.")
    page.dblclick("#decision button")
    expect(page.locator(".alert.calm")).to_contain_text("Asked for.")
    assert Audit.objects.count() == 1
