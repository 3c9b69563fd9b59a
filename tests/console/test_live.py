"""The live part of a page: it changes under a person's eyes, never under their hands."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from playwright.sync_api import Page, Request, Response, Route

from coordinator.fence import Fence
from coordinator.models import Approval
from coordinator.services import leases
from coordinator.services.revisions import reopen_task
from tests import world
from tests.console.conftest import Open
from tests.console.desk import Desk, shorten
from tests.console.scene import Scene, person

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.browser]

POLL = "htmx.trigger(document.getElementById('live'), 'every')"
#: The region has been told of an answer, or of none, and what came is swapped in.
COME_HOME = """() => {
  delete document.documentElement.dataset.cameHome;
  const told = (event) => {
    if (event.detail.ctx?.sourceElement !== document.getElementById('live')) return;
    document.removeEventListener('htmx:finally:request', told);
    document.documentElement.dataset.cameHome = '';
  };
  document.addEventListener('htmx:finally:request', told);
}"""
HOME = "html[data-came-home]"


def polls_of(page: Page) -> Callable[[Request], bool]:
    """Whether a request is the live part's: the list of tasks asks for its counts besides."""
    path = urlsplit(page.get_attribute("#live", "hx-get") or "").path
    return lambda request: (
        request.headers.get("hx-request") == "true" and urlsplit(request.url).path == path
    )


def poll(page: Page) -> Response:
    """What the next tick of the clock would do, now."""
    is_poll = polls_of(page)
    page.evaluate(COME_HOME)
    with page.expect_response(lambda answer: is_poll(answer.request)) as caught:
        page.evaluate(POLL)
    page.wait_for_selector(HOME, state="attached")
    return caught.value


def polls_sent(page: Page) -> int:
    """How many requests a tick sends while something keeps it at rest."""
    sent: list[str] = []
    is_poll = polls_of(page)
    page.on("request", lambda request: sent.append(request.url) if is_poll(request) else None)
    page.evaluate(POLL)
    page.wait_for_timeout(300)
    return len(sent)


def test_an_unchanged_part_is_answered_304(opened: Open, scene: Scene, operator: Any) -> None:
    page = opened(user=operator, polls=False).page
    page.goto("/queues")
    assert [poll(page).status for _ in range(2)] == [304, 304]
    assert page.get_attribute("#live-state", "data-state") == "live"


def test_a_changed_part_keeps_focus_open_details_and_what_was_typed(
    opened: Open, scene: Scene, operator: Any
) -> None:
    window = opened(user=operator, polls=False)
    page = window.page
    page.goto(f"/tasks/{scene.failed}")
    page.click("#d-3 summary")
    page.fill("#search", "half an i")
    page.focus(f"a[href='/tasks/{scene.failed}/events']")
    task = world.task(scene.failed)
    reopen_task(
        task_id=scene.failed,
        expected_state_version=task.state_version,
        reason="The model is back.",
        actor=world.operator(),
    )
    assert poll(page).status == 200
    page.wait_for_selector("h1 + .chip:has-text('READY')")
    assert (
        page.evaluate("document.activeElement.getAttribute('href')")
        == f"/tasks/{scene.failed}/events"
    )
    assert page.evaluate("document.getElementById('d-3').open") is True
    assert page.input_value("#search") == "half an i"
    assert "READY" in page.title()
    assert not window.faults
    assert not window.violations()


def test_three_changes_leave_a_reason_its_caret_and_what_is_open_alone(
    opened: Open, desk: Desk, worlds: None
) -> None:
    page = opened(user=person("anna", "approver"), polls=False).page
    page.goto(f"/approvals/{desk.refund}")
    page.focus("#whole")
    page.keyboard.press("End")
    page.click("#pass summary")
    page.fill("#id_reason", "half a reason")
    page.evaluate("document.getElementById('id_reason').setSelectionRange(4, 7)")
    approval = Approval.objects.get(approval_id=desk.refund)
    for minutes in (9, 7, 5):
        shorten(approval, minutes=minutes)
        before = page.inner_html("#live")
        assert poll(page).status == 200
        assert page.inner_html("#live") != before
        kept = page.evaluate(
            "(({id, value, selectionStart, selectionEnd}) => [id, value, selectionStart, selectionEnd])"
            "(document.activeElement)"
        )
        assert kept == ["id_reason", "half a reason", 4, 7]
        assert page.evaluate("document.getElementById('pass').open") is True


def test_it_rests_while_a_person_types_or_selects_in_it(
    opened: Open, scene: Scene, operator: Any
) -> None:
    page = opened(user=operator, polls=False).page
    page.goto(f"/tasks/{scene.held}")
    page.evaluate("document.getElementById('live').append(document.createElement('textarea'))")
    page.focus("#live textarea")
    page.keyboard.type("half a reason")
    assert polls_sent(page) == 0
    assert page.inner_text("#live-state [data-word]") == "Paused while you type here"
    page.evaluate("document.activeElement.blur()")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.verdict .why'))")
    assert polls_sent(page) == 0
    assert page.inner_text("#live-state [data-word]") == "Paused while text is selected"
    page.evaluate("getSelection().removeAllRanges()")
    assert poll(page).status in (200, 304)


def test_a_row_that_is_ticked_while_a_poll_is_out_stays_ticked_among_rows_that_change(
    opened: Open, scene: Scene, operator: Any
) -> None:
    """A selected row holds the next poll back; one that is on its way already comes home to it."""
    page = opened(user=operator, polls=False).page
    page.goto("/tasks?queue=review&state=READY")
    ready = page.locator("#live tbody tr").evaluate_all("rows => rows.map(row => row.id)")
    mine, others = ready[-1], ready[:-1]
    assert others, "there is no row beside it"
    on_their_way: list[Route] = []
    is_poll = polls_of(page)
    page.route(
        "**/tasks?*",
        lambda route: on_their_way.append(route) if is_poll(route.request) else route.continue_(),
    )
    for number, other in enumerate(others[:2], start=1):
        with page.expect_request(is_poll):
            page.evaluate(POLL)
        page.check(f"#{mine} [data-select]")
        world.claim_one(
            by=scene.worker, queue_name="review", of=UUID(other.removeprefix("t-")), owner="agent-9"
        )
        world.submit(world.node(f"late {number}"), queue_name="review")
        on_their_way.pop().continue_()
        page.wait_for_selector(f"#{other}.strayed >> text=CLAIMED")
        assert page.is_checked(f"#{mine} [data-select]")
        assert page.inner_text("[data-selected]") == "1"
        assert page.locator("[data-select]:checked").count() == 1
        page.evaluate("document.activeElement.blur()")
        assert polls_sent(page) == 0
        page.uncheck(f"#{mine} [data-select]")
        page.evaluate("document.activeElement.blur()")
    assert page.locator("#live tbody tr").evaluate_all("rows => rows.map(row => row.id)") == ready


def test_a_hidden_tab_asks_for_nothing(opened: Open, scene: Scene, operator: Any) -> None:
    page = opened(user=operator, polls=False).page
    page.goto("/queues")
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => true, configurable: true})"
    )
    assert polls_sent(page) == 0
    page.evaluate("delete document.hidden")
    assert poll(page).status == 304


def test_the_pause_button_stops_it_and_starts_it_again(
    opened: Open, scene: Scene, operator: Any
) -> None:
    page = opened(user=operator, polls=False).page
    page.goto("/tasks")
    page.click("[data-pause]")
    assert polls_sent(page) == 0
    assert page.inner_text("#live-state [data-word]") == "Paused"
    assert page.get_attribute("[data-pause]", "aria-pressed") == "true"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("p")
    assert page.get_attribute("#live-state", "data-state") == "live"
    assert poll(page).status in (200, 304)


def test_it_says_when_it_is_stale_and_keeps_what_it_has(
    opened: Open, scene: Scene, operator: Any
) -> None:
    page = opened(user=operator, polls=False).page
    page.goto("/runs")
    before = page.inner_text("#live")
    page.route("**/runs?*", lambda route: route.abort())
    for _ in range(3):
        page.evaluate(COME_HOME)
        with page.expect_event("requestfailed"):
            page.evaluate(POLL)
        page.wait_for_selector(HOME, state="attached")
    assert page.is_visible("[data-stale-bar]")
    assert page.inner_text("[data-stale-bar]").startswith("Stale since ")
    assert page.get_attribute("#live-state", "data-state") == "stale"
    assert page.inner_text("#live") == before
    page.unroute("**/runs?*")
    assert poll(page).status in (200, 304)
    assert page.is_hidden("[data-stale-bar]")


def test_signing_out_elsewhere_never_puts_the_door_into_the_page(
    opened: Open, scene: Scene, operator: Any
) -> None:
    page = opened(user=operator, polls=False).page
    page.goto("/tasks")
    page.context.clear_cookies()
    assert [poll(page).status for _ in range(3)] == [401, 401, 401]
    assert page.is_visible("text=You are signed out")
    assert page.locator("#live table").count() == 1


def test_rows_keep_their_places_and_new_ones_wait_for_a_click(
    opened: Open, scene: Scene, operator: Any
) -> None:
    page = opened(user=operator, polls=False).page
    page.goto("/tasks?state=CLAIMED")
    rows = page.locator("#live tbody tr")
    before = rows.evaluate_all("rows => rows.map(row => row.id)")
    world.claim_one(by=scene.worker, queue_name="review", owner="agent-9")
    fresh = world.submit(world.node("late"), queue_name="review", name="A later run")
    world.claim_one(by=scene.worker, of=world.task_id(fresh, "late"), queue_name="review")
    poll(page)
    assert rows.evaluate_all("rows => rows.map(row => row.id)") == before
    page.click("text=2 new · show")
    page.wait_for_selector("text=late")
    assert rows.count() == len(before) + 2


def test_a_renewal_moves_the_countdown(opened: Open, scene: Scene, operator: Any) -> None:
    page = opened(user=operator, polls=False).page
    page.goto(f"/tasks/{scene.held}")
    before = page.get_attribute(".verdict [data-until]", "data-until")
    attempt = world.task(scene.held)
    fence = Fence(scene.held, attempt.attempt_id, 1, attempt.claim_generation, 0)  # type: ignore[arg-type]
    leases.renew_leases(
        items=[leases.Renewal(fence.attempt_id, fence, "agent-3@build-02", 300)],
        worker=scene.worker,
        queue=None,
    )
    poll(page)
    assert page.get_attribute(".verdict [data-until]", "data-until") != before
    assert page.inner_text(".verdict [data-until]").startswith("· 0")
