"""Deciding on payloads in a real browser: two people, the end of a long payload, and no scripts at all."""

import string
from typing import Any
from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from coordinator.models import Approval, EffectSlot
from tests.console import desk as desks
from tests.console.conftest import AT_ONCE, Open
from tests.console.desk import Desk
from tests.console.looking import look
from tests.console.scene import PASSWORD, person
from tests.console.test_approvals import WHY, state, word

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.browser]


@pytest.fixture
def anna(worlds: None) -> Any:
    return person("anna", "approver")


def addresses(desk: Desk) -> list[str]:
    return [
        "/approvals",
        "/approvals?turn=others",
        "/approvals?turn=decided",
        f"/approvals/{desk.refund}",
        f"/approvals/{desk.refund}?way=raw",
        f"/approvals/{desk.transfer}?way=json",
        f"/approvals/{desk.large}",
        f"/approvals/{desk.superseded}?turn=decided",
        f"/approvals/{desk.expired}",
        f"/approvals/{desk.refund}/reveal",
        "/effects/unknown",
        "/effects/unknown?downstream=crm",
        f"/effects/{desk.mail}",
        f"/effects/{desk.fax}",
        f"/effects/{desk.settled}",
        f"/tasks/{EffectSlot.objects.get(effect_id=desk.fax).task_id}/effects",
    ]


def decide(page: Page, approval_id: UUID, *, button: str = "Approve") -> None:
    page.goto(f"/approvals/{approval_id}")
    page.focus("#whole")
    page.keyboard.press("End")
    expect(page.locator("#id_reason")).to_be_enabled()
    page.fill("#id_reason", WHY)
    if button == "Approve":
        page.fill("#id_phrase", word(approval_id)["phrase"])
    page.click(f"#decision button:has-text('{button}')")
    page.wait_for_load_state()


@pytest.mark.slow
def test_every_page_is_in_order_for_an_approver(opened: Open, desk: Desk, anna: Any) -> None:
    window = opened(user=anna)
    faults = [fault for address in addresses(desk) for fault in look(window, address)]
    assert not faults, "\n".join(faults)


def test_pages_with_locked_controls_are_in_order_for_an_operator(
    opened: Open, desk: Desk, operator: Any
) -> None:
    window = opened(user=operator)
    faults = [fault for address in addresses(desk)[3:6] for fault in look(window, address)]
    assert not faults, "\n".join(faults)
    assert window.page.is_disabled("#decision button[value=approve]")


def test_two_people_in_two_browsers_approve_what_needs_two(
    opened: Open, desk: Desk, anna: Any
) -> None:
    first, second = opened(user=anna), opened(user=person("ben", "approver"))
    second.page.goto(f"/approvals/{desk.transfer}")
    decide(first.page, desk.transfer)
    expect(first.page.locator(".alert.calm")).to_contain_text("1 more person must approve")
    assert first.page.is_disabled("#decision button[value=approve]")
    assert state(desk.transfer) == "PENDING"
    # The second person's page notices by itself that it is not what they looked at any more.
    expect(second.page.locator("[data-changed]")).to_be_visible()
    assert second.page.is_disabled("#decision button[value=approve]")
    decide(second.page, desk.transfer)
    expect(second.page.locator(".alert.calm")).to_contain_text("Approved.")
    assert state(desk.transfer) == "APPROVED"
    assert not [*first.faults, *second.faults, *first.violations(), *second.violations()]


def test_the_form_opens_only_when_the_end_of_a_long_payload_has_been_in_view(
    opened: Open, desk: Desk, anna: Any
) -> None:
    page = opened(user=anna).page
    page.goto(f"/approvals/{desk.large}")
    assert page.locator("#whole").inner_text().count("x" * 90) == 1_000
    expect(page.locator("[data-lock]")).to_be_visible()
    page.locator("#decision").scroll_into_view_if_needed()
    for control in ("#id_reason", "#id_phrase", "button[value=approve]", "button[value=reject]"):
        expect(page.locator(f"#decision {control}")).to_be_disabled()
    page.focus("#whole")
    page.keyboard.press("PageDown")
    expect(page.locator("#id_reason")).to_be_disabled()
    page.keyboard.press("End")
    expect(page.locator("#id_reason")).to_be_enabled()
    expect(page.locator("#decision button[value=approve]")).to_be_enabled()


def test_a_request_that_runs_out_under_the_eyes_of_a_person_locks_itself(
    opened: Open, desk: Desk, anna: Any
) -> None:
    page = opened(user=anna).page
    page.goto(f"/approvals/{desk.refund}")
    desks.expire(Approval.objects.get(approval_id=desk.refund))
    expect(page.locator("#live .chip >> nth=0")).to_contain_text("EXPIRED")
    expect(page.locator("[data-changed]")).to_be_visible()
    expect(page.locator("#decision button[value=approve]")).to_be_disabled()
    page.reload()
    assert page.locator("#decision").count() == 0


def test_rejecting_tells_the_reason(opened: Open, desk: Desk, anna: Any) -> None:
    page = opened(user=anna).page
    decide(page, desk.refund, button="Reject")
    expect(page.locator(".alert.calm")).to_contain_text("Rejected.")
    expect(page.locator("#live")).to_contain_text("anna rejected it")
    assert state(desk.refund) == "REJECTED"


def test_enter_in_the_phrase_approves_nothing(opened: Open, desk: Desk, anna: Any) -> None:
    page = opened(user=anna).page
    methods: list[str] = []
    page.on("request", lambda request: methods.append(request.method))
    page.goto(f"/approvals/{desk.refund}")
    page.fill("#id_reason", WHY)
    page.fill("#id_phrase", word(desk.refund)["phrase"])
    page.press("#id_phrase", "Enter")
    page.keyboard.press("Control+Enter")
    assert state(desk.refund) == "PENDING"
    assert set(methods) == {"GET"}


def test_no_single_key_decides(opened: Open, desk: Desk, anna: Any) -> None:
    page = opened(user=anna).page
    methods: list[str] = []
    page.on("request", lambda request: methods.append(request.method))
    for address in ("/approvals", f"/approvals/{desk.refund}", f"/effects/{desk.fax}"):
        page.goto(address)
        for key in [*string.printable.strip(), "Enter", " "]:
            page.keyboard.press(key)
            page.keyboard.press("Escape")
            page.evaluate("document.activeElement?.blur()")
        assert set(methods) == {"GET"}, address


def test_the_decision_key_leads_to_what_must_be_read_first(
    opened: Open, desk: Desk, anna: Any
) -> None:
    page = opened(user=anna).page
    page.goto(f"/approvals/{desk.large}")
    page.keyboard.press("d")
    assert page.evaluate("document.activeElement.id") == "whole"


def test_a_person_decides_without_scripts(opened: Open, desk: Desk, anna: Any) -> None:
    page = opened(scripts=False).page
    page.goto("/approvals")
    page.fill("#id_username", "anna")
    page.fill("#id_password", PASSWORD)
    page.click("button:has-text('Sign in')")
    page.click("table a:has-text('refund')")
    page.fill("#id_reason", WHY)
    page.fill("#id_phrase", word(desk.refund)["phrase"])
    page.click("#decision button[value=approve]")
    assert "Read the payload to its end first" in page.inner_text("#e-seen")
    page.check("[name=seen_end]")
    page.click("#decision button[value=approve]")
    assert "Approved." in page.inner_text(".alert.calm")
    assert state(desk.refund) == "APPROVED"


def test_an_effect_is_settled_without_scripts(opened: Open, desk: Desk, operator: Any) -> None:
    page = opened(user=operator, scripts=False).page
    page.goto("/effects/unknown")
    page.click("table a:has-text('notify mailer')")
    page.click("button:has-text('I look by hand now')")
    assert "Your look-up is stamped." in page.inner_text(".alert.calm")
    page.click("summary:has-text('It did not happen')")
    page.fill("#id_reason_absent", WHY)
    page.fill("#id_phrase_absent", "it did not")
    page.click("button:has-text('It did not happen')")
    assert "Type exactly: " in page.inner_text("details[open] .fault")
    page.fill("#id_phrase_absent", f"{desk.mail[:8]} did not happen at mailer")
    page.click("button:has-text('It did not happen')")
    assert "it is RESENDABLE" in page.inner_text(".alert.calm")
    assert EffectSlot.objects.get(effect_id=desk.mail).state == "RESENDABLE"


def test_a_form_locks_when_somebody_else_settles_the_effect(
    opened: Open, desk: Desk, operator: Any, anna: Any
) -> None:
    first, second = opened(user=operator).page, opened(user=anna).page
    for page in (first, second):
        page.goto(f"/effects/{desk.fax}")
        page.click("summary:has-text('It happened')")
    second.fill("#id_receipt", "page 3 of 3")
    second.fill("#id_reason_happened", WHY)
    second.click("button:has-text('It happened')")
    expect(second.locator(".alert.calm")).to_contain_text("Settled: it happened.")
    expect(first.locator("[data-changed]")).to_be_visible()
    expect(first.locator("button:has-text('It happened')")).to_be_disabled()


def test_keys_lead_from_the_inbox_to_the_decision(opened: Open, desk: Desk, anna: Any) -> None:
    page = opened(user=anna).page
    page.goto("/")
    page.evaluate(AT_ONCE)
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.wait_for_url("**/approvals")
    page.keyboard.press("j")
    page.keyboard.press("o")
    page.wait_for_url(f"**/approvals/{desk.refund}**")
    page.focus("#whole")
    page.keyboard.press("End")
    expect(page.locator("#id_reason")).to_be_enabled()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("d")
    assert page.evaluate("document.activeElement.id") == "id_reason"
