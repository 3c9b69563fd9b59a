"""Approving and rejecting in the console: bound to the exact bytes, by people who may, once."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from coordinator.models import Approval, Decision, Event, Task
from tests import world
from tests.console import desk as desks
from tests.console.desk import Desk
from tests.console.scene import any_time, person

pytestmark = pytest.mark.django_db(transaction=True)

WHY = "The customer confirmed it on the phone."


def client_of(name: str, role: str = "approver") -> Client:
    client = Client()
    user = User.objects.filter(username=name).first() or person(name, role)
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def word(approval_id: UUID, decision: str = "approve", **changes: Any) -> dict[str, Any]:
    """The fields of the decision form as the page had them."""
    approval = Approval.objects.select_related("effect").get(approval_id=approval_id)
    digest = approval.payload_digest
    return {
        "action_key": str(uuid4()),
        "decision": decision,
        "payload_digest": digest,
        "expected_version": approval.decisions.count(),
        "shown_state": "PENDING",
        "seen_end": "on",
        "reason": WHY,
        "phrase": f"send {digest[7:15]} to {approval.effect.downstream}",
    } | changes


def state(approval_id: UUID) -> str:
    return Approval.objects.get(approval_id=approval_id).state


def test_the_inbox_is_sorted_by_the_time_that_is_left(desk: Desk) -> None:
    page = client_of("anna").get("/approvals").content.decode()
    order = [page.index(f"/approvals/{each}?turn=mine") for each in (desk.refund, desk.transfer)]
    assert order == sorted(order)
    assert "EUR 1,240.00" in page
    assert "40 recipients" in page
    assert "agent-written" in page
    assert "payload changed" in page
    assert f"/approvals/{desk.expired}" not in page
    assert '<span class="count calm">5</span>' in page


def test_the_overview_counts_what_the_pages_list_that_it_leads_to(desk: Desk) -> None:
    page = client_of("anna").get("/").content.decode()
    assert "5: Payloads to approve or reject" in page
    assert "4: Effects whose outcome nobody knows" in page


def test_a_task_that_waits_for_a_person_leads_to_the_decision(desk: Desk) -> None:
    asked = Approval.objects.select_related("effect").get(approval_id=desk.refund)
    page = client_of("anna").get(f"/tasks/{asked.effect.task_id}").content.decode()
    head = page.split('class="verdict')[0]
    assert f'href="/approvals/{desk.refund}"' in head
    assert "Read and decide…" in head


def test_what_waits_for_others_and_what_is_over_stand_apart(desk: Desk) -> None:
    anna = client_of("anna")
    anna.post(f"/approvals/{desk.transfer}", word(desk.transfer))
    mine = anna.get("/approvals").content.decode()
    others = anna.get("/approvals?turn=others").content.decode()
    decided = anna.get("/approvals?turn=decided").content.decode()
    assert f"/approvals/{desk.transfer}" not in mine
    assert f"/approvals/{desk.transfer}?turn=others" in others
    assert "1/2" in others
    assert "SUPERSEDED" in decided
    assert "REJECTED" in decided


def test_lists_keep_to_their_budget_of_queries(desk: Desk) -> None:
    anna = client_of("anna")
    for address in ("/approvals", "/approvals?turn=others", "/approvals?turn=decided"):
        anna.get(address)
        with CaptureQueriesContext(connection) as captured:
            assert anna.get(address).status_code == 200
        assert len(captured) <= 8, [query["sql"][:120] for query in captured.captured_queries]


def test_a_list_goes_on_where_it_left_off(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.selectors.console_approvals.PAGE_SIZE", 2)
    anna = client_of("anna")
    for turn, total in (("mine", 5), ("decided", 4)):
        seen: list[str] = []
        address = f"/approvals?turn={turn}"
        while address:
            page = anna.get(address).content.decode()
            seen += [part.split('"')[0] for part in page.split('id="a-')[1:]]
            _, _, rest = page.partition('rel="next" href="')
            address = rest.split('"')[0].replace("&amp;", "&")
        assert len(seen) == len(set(seen)) == total


def test_one_approval_is_one_decision_and_a_repeat_has_the_same_receipt(desk: Desk) -> None:
    anna, form = client_of("anna"), word(desk.refund)
    pages = [anna.post(f"/approvals/{desk.refund}", form, follow=True) for _ in range(2)]
    receipts = [str(next(iter(page.context["messages"]))) for page in pages]
    assert receipts[0] == receipts[1]
    assert "the next worker may send these bytes once" in receipts[0]
    assert state(desk.refund) == "APPROVED"
    decision = Decision.objects.get(approval_id=desk.refund)
    assert (decision.operator.get_username(), decision.comment) == ("anna", WHY)
    told = Event.objects.get(kind="APPROVAL_DECIDED", data__approval_id=str(desk.refund))
    assert (told.actor, told.data["address"], told.data["comment"]) == (
        "operator:anna",
        "127.0.0.1",
        WHY,
    )


def test_two_approvers_are_two_people(desk: Desk) -> None:
    anna, ben = client_of("anna"), client_of("ben")
    page = anna.get(f"/approvals/{desk.transfer}").content.decode()
    assert "Your approval is the first of 2" in page
    first = anna.post(f"/approvals/{desk.transfer}", word(desk.transfer), follow=True)
    assert "1 more person must approve" in first.content.decode()
    assert "You have decided already (APPROVED)" in first.content.decode()
    assert state(desk.transfer) == "PENDING"
    again = anna.post(f"/approvals/{desk.transfer}", word(desk.transfer), follow=True)
    assert "1 more person must approve" in again.content.decode()
    assert state(desk.transfer) == "PENDING"
    ben.post(f"/approvals/{desk.transfer}", word(desk.transfer))
    assert state(desk.transfer) == "APPROVED"


def test_a_word_about_another_count_of_decisions_is_not_carried_out(desk: Desk) -> None:
    anna, ben, form = client_of("anna"), client_of("ben"), word(desk.transfer)
    anna.post(f"/approvals/{desk.transfer}", form)
    answer = ben.post(f"/approvals/{desk.transfer}", form)
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "STATE_VERSION_MISMATCH" in page
    assert "It changed while you were looking" in page
    assert WHY not in page
    assert 'id="decision"' not in page
    assert state(desk.transfer) == "PENDING"


def test_rejecting_needs_no_phrase_and_fails_the_task_with_the_reason(desk: Desk) -> None:
    anna = client_of("anna")
    form = word(desk.refund, "reject", phrase="", reason="The amount is wrong.")
    answer = anna.post(f"/approvals/{desk.refund}", form, follow=True)
    page = answer.content.decode()
    assert "Rejected. The task is FAILED with your reason; nothing was sent." in page
    assert "anna rejected it" in page
    assert "The amount is wrong." in page
    assert state(desk.refund) == "REJECTED"
    task = Approval.objects.get(approval_id=desk.refund).effect.task
    assert world.task(task.task_id).state == "FAILED"


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("phrase", "send it", "Type exactly: send "),
        ("phrase", "", "Type exactly: send "),
        ("reason", "short", "Say why in 10 characters or more."),
        ("seen_end", "", "Read the payload to its end first"),
        ("decision", "maybe", "maybe is not one of the available choices"),
        ("payload_digest", "sha256:1", "Enter a valid value."),
    ],
)
def test_a_faulty_form_is_told_by_its_field(desk: Desk, field: str, value: str, told: str) -> None:
    before = world.fingerprint()
    answer = client_of("anna").post(f"/approvals/{desk.refund}", word(desk.refund) | {field: value})
    assert answer.status_code == 422
    assert told in answer.content.decode()
    assert world.fingerprint() == before


def test_whoever_submitted_the_run_sees_why_not_and_is_refused_when_it_is_forged(
    desk: Desk,
) -> None:
    olga = client_of("olga", "admin")
    page = olga.get(f"/approvals/{desk.newsletter}").content.decode()
    assert "You submitted this run; somebody else must decide." in page
    assert '<button class="button primary" name="decision" value="approve" disabled>' in page
    before = world.fingerprint()
    for form in (word(desk.newsletter), {"decision": "approve"}):
        answer = olga.post(f"/approvals/{desk.newsletter}", form)
        assert answer.status_code == 403
        assert b"You submitted this run" in answer.content
    assert world.fingerprint() == before
    refused = Event.objects.get(kind="REFUSED", data__outcome="FORBIDDEN")
    assert refused.actor == "operator:olga"


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_who_may_not_approve_is_told_who_may(desk: Desk, role: str) -> None:
    client = client_of(role, role)
    page = client.get(f"/approvals/{desk.refund}").content.decode()
    assert "Roles that may: approvers and admins." in page
    before = world.fingerprint()
    assert client.post(f"/approvals/{desk.refund}", word(desk.refund)).status_code == 403
    assert world.fingerprint() == before


def test_who_may_not_see_payloads_sees_none_of_it(desk: Desk) -> None:
    viewer = client_of("viktor", "viewer")
    for address in ("/approvals", f"/approvals/{desk.refund}", f"/approvals/{desk.successor}"):
        page = viewer.get(address).content.decode()
        assert "1240" not in page
        assert "1,240" not in page
        assert "billing@" not in page


def test_expired_is_a_state_of_its_own_and_nobody_decides_any_more(desk: Desk) -> None:
    anna = client_of("anna")
    page = anna.get(f"/approvals/{desk.expired}").content.decode()
    assert "EXPIRED" in page
    assert "Nobody answered in time." in page
    assert 'value="approve"' not in page
    answer = anna.post(f"/approvals/{desk.expired}", word(desk.expired))
    assert answer.status_code == 409
    assert state(desk.expired) == "EXPIRED"
    told = Event.objects.get(kind="APPROVAL_EXPIRED", data__approval_id=str(desk.expired))
    assert told.actor == "system:approvals"
    assert not Decision.objects.filter(approval_id=desk.expired).exists()
    assert anna.post(f"/approvals/{desk.expired}", {"decision": "approve"}).status_code == 409


def test_what_was_approved_and_not_sent_in_time_is_told_apart(desk: Desk) -> None:
    anna = client_of("anna")
    anna.post(f"/approvals/{desk.refund}", word(desk.refund))
    desks.expire(Approval.objects.get(approval_id=desk.refund))
    page = anna.get(f"/approvals/{desk.refund}").content.decode()
    assert "EXECUTION_EXPIRED" in page
    assert "anna approved it, but no worker sent it in time. Nothing was sent." in page


def test_a_superseded_request_and_its_successor_lead_to_each_other(desk: Desk) -> None:
    anna = client_of("anna")
    old = anna.get(f"/approvals/{desk.superseded}").content.decode()
    assert "SUPERSEDED" in old
    assert f'href="/approvals/{desk.successor}"' in old
    assert 'value="approve"' not in old
    new = anna.get(f"/approvals/{desk.successor}").content.decode()
    assert f'href="/approvals/{desk.superseded}"' in new
    assert "payload changed" in new


def test_a_payload_that_was_revised_meanwhile_is_shown_with_its_difference(desk: Desk) -> None:
    anna, form = client_of("anna"), word(desk.refund)
    task_id = Approval.objects.get(approval_id=desk.refund).effect.task_id
    new = desks.ask(desks.revise(task_id), {**desks.INVOICE, "amount": "12400.00"}, by=desk.fleet)
    answer = anna.post(f"/approvals/{desk.refund}", form)
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "ALREADY_SETTLED" in page
    assert (
        '<tr class="removed"><td class="sign">\u2212</td><td>  &quot;amount&quot;: &quot;1240.00&quot;,'
        in page
    )
    assert (
        '<tr class="added"><td class="sign">+</td><td>  &quot;amount&quot;: &quot;12400.00&quot;,'
        in page
    )
    assert f'href="/approvals/{new.approval_id}"' in page
    assert not Decision.objects.filter(approval_id=desk.refund).exists()
    assert Approval.objects.get(approval_id=new.approval_id).state == "PENDING"


def test_other_bytes_under_the_same_request_are_not_approved(desk: Desk) -> None:
    """No service can change what is bound; a hand on the database could, and must not be followed."""
    form, other = word(desk.refund), "sha256:" + "f" * 64
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_approval SET payload_digest = %s WHERE approval_id = %s",
            [other, desk.refund],
        )
    answer = client_of("anna").post(f"/approvals/{desk.refund}", form)
    assert answer.status_code == 409
    assert b"PAYLOAD_CONFLICT" in answer.content
    assert other.encode() in answer.content
    assert state(desk.refund) == "PENDING"


def test_a_large_payload_is_there_to_its_last_byte_in_each_way_of_reading(desk: Desk) -> None:
    anna = client_of("anna")
    for way in ("rendered", "json", "raw"):
        page = anna.get(f"/approvals/{desk.large}?way={way}").content.decode()
        assert page.count("x" * 90) == 1_000, way
        assert "row 00999" in page


def test_the_last_approved_payload_of_the_node_stands_beside(desk: Desk) -> None:
    page = client_of("anna").get(f"/approvals/{desk.refund}").content.decode()
    assert "&quot;amount&quot;: &quot;980.00&quot;" in page
    assert "CONSUMED" in page
    first = client_of("anna").get(f"/approvals/{desk.large}").content.decode()
    assert "There is nothing to compare with." in first


def test_nothing_that_can_not_be_seen_hides_in_a_payload(desk: Desk) -> None:
    hidden = desks.parked(
        "hidden", {"to": "safe\u202etxt.exe", "a\u200bb": "\u0007<b>"}, by=desk.fleet
    )
    for way in ("rendered", "json", "raw"):
        page = client_of("anna").get(f"/approvals/{hidden.approval_id}?way={way}").content.decode()
        for character in ("\u202e", "\u200b", "\u0007", "<b>"):
            assert character not in page, way
        assert "U+202E" in page
        assert "U+200B" in page


def test_an_unknown_request_is_not_there(desk: Desk) -> None:
    assert client_of("anna").get(f"/approvals/{uuid4()}").status_code == 404
    assert client_of("anna").get("/approvals?turn=nonsense&after=x&held=y").status_code == 200


def test_changes_are_asked_for_with_one_button_and_the_agent_tries_again(desk: Desk) -> None:
    anna = client_of("anna")
    words = "Leave the second line out."
    form = word(desk.refund, "changes", phrase="", reason=words)
    pages = [anna.post(f"/approvals/{desk.refund}", form, follow=True) for _ in range(2)]
    receipts = [str(next(iter(page.context["messages"]))) for page in pages]
    assert receipts[0] == receipts[1]
    assert "revision 2" in receipts[0]
    page = pages[1].content.decode()
    assert "CHANGES_ASKED" in page
    assert "anna asked for changes: the task went back to the agent" in page
    assert words in page
    old = Approval.objects.get(approval_id=desk.refund)
    task = Task.objects.get(supersedes=old.effect.task)
    new = desks.ask(task.task_id, {**desks.INVOICE, "amount": "980.00"}, by=desk.fleet)
    page = anna.get(f"/approvals/{new.approval_id}").content.decode()
    assert f"Changes were asked for: “{words}”" in " ".join(page.replace("</", " </").split())
    assert f'href="/approvals/{desk.refund}"' in page
    assert "Against the earlier request" in page
    assert "payload changed" in page
    decided = anna.get("/approvals?turn=decided").content.decode()
    assert "CHANGES_ASKED" in decided
    assert (
        f'href="/approvals/{new.approval_id}"'
        in anna.get(f"/approvals/{desk.refund}").content.decode()
    )


def test_a_rejection_has_its_reason_code_on_the_page_and_in_the_history(desk: Desk) -> None:
    anna = client_of("anna")
    form = word(desk.refund, "reject", phrase="", reason_code="WRONG_RECIPIENT")
    page = anna.post(f"/approvals/{desk.refund}", form, follow=True).content.decode()
    assert '<span class="under">WRONG_RECIPIENT</span>' in page
    assert Event.objects.get(kind="APPROVAL_DECIDED", data__approval_id=str(desk.refund)).data[
        "reason_code"
    ] == ("WRONG_RECIPIENT")
    answer = anna.post(f"/approvals/{desk.transfer}", word(desk.transfer) | {"reason_code": "x"})
    assert answer.status_code == 422


def passing(to: str, **changes: str) -> dict[str, str]:
    form = {"action_key": str(uuid4()), "to": to, "reason": WHY, "expected_assignee": ""}
    return form | changes


def test_a_request_is_passed_to_another_person_and_moves_between_the_inboxes(desk: Desk) -> None:
    anna, ben = client_of("anna"), client_of("ben")
    here = f"/approvals/{desk.refund}"
    page = anna.get(here).content.decode()
    assert '<option value="ben">' in page
    assert "it is nobody&#x27;s turn in particular" in page or "nobody's turn" in page
    pages = [anna.post(f"{here}/pass", passing("ben"), follow=True) for _ in range(2)]
    receipts = [str(next(iter(each.context["messages"]))) for each in pages]
    assert receipts[0] == receipts[1] == "Passed on: it is ben's turn."
    assert Event.objects.filter(kind="APPROVAL_PASSED").count() == 1
    inbox = {name: client_of(name).get("/approvals").content.decode() for name in ("anna", "ben")}
    assert f"{here}?turn=mine" not in inbox["anna"]
    assert f"{here}?turn=mine" in inbox["ben"]
    others = anna.get("/approvals?turn=others").content.decode()
    assert f"{here}?turn=others" in others
    assert "passed to ben" in others
    page = ben.get(here).content.decode()
    assert "Everybody who may decide still can." in page
    anna.post(here, word(desk.refund))  # it was passed on, and she may decide all the same
    assert state(desk.refund) == "APPROVED"


def test_what_was_passed_to_somebody_who_may_no_longer_decide_is_everybodys_again(
    desk: Desk,
) -> None:
    anna, _ = client_of("anna"), client_of("ben")
    here = f"/approvals/{desk.refund}"
    anna.post(f"{here}/pass", passing("ben"))
    User.objects.get(username="ben").groups.clear()
    assert f"{here}?turn=mine" in anna.get("/approvals").content.decode()


@pytest.mark.parametrize(
    ("form", "status", "told"),
    [
        (passing("nobody"), 422, "may not decide on this"),
        (passing("olga"), 422, "may not decide on this"),  # its run is hers
        (passing(""), 422, "Choose somebody."),
        (passing("ben", reason="short"), 422, "Say why in 10 characters or more."),
        (passing("ben", expected_assignee="carla"), 409, "STATE_VERSION_MISMATCH"),
    ],
)
def test_passing_on_that_makes_no_sense_is_told_and_moves_nothing(
    desk: Desk, form: dict[str, str], status: int, told: str
) -> None:
    anna, _, _ = client_of("anna"), client_of("ben"), client_of("olga", "admin")
    before = world.fingerprint()
    answer = anna.post(f"/approvals/{desk.newsletter}/pass", form)
    assert answer.status_code == status
    assert told in answer.content.decode()
    assert world.fingerprint() == before


def test_its_submitter_and_who_may_not_approve_pass_nothing_on(desk: Desk) -> None:
    client_of("ben")
    before = world.fingerprint()
    for client in (client_of("olga", "admin"), client_of("viktor", "viewer")):
        answer = client.post(f"/approvals/{desk.newsletter}/pass", passing("ben"))
        assert answer.status_code == 403
    assert world.fingerprint() == before
    assert client_of("anna").get(f"/approvals/{desk.refund}/pass").status_code == 405
