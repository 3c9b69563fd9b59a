"""Check D of the console's design, for each of the words that a person can say: approve, reject, ask for changes."""

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client

from coordinator.models import Approval, Decision, Event, Task
from tests import world
from tests.console import desk as desks
from tests.console.desk import Desk
from tests.console.scene import any_time
from tests.console.test_approvals import client_of, passing, state, word

pytestmark = pytest.mark.django_db(transaction=True)

WORDS = ("approve", "reject", "changes")
ENDS = {"approve": "APPROVED", "reject": "REJECTED", "changes": "REJECTED"}
every_word = pytest.mark.parametrize("decision", WORDS)


def say(client: Client, desk: Desk, decision: str, **changes: Any) -> Any:
    return client.post(f"/approvals/{desk.refund}", word(desk.refund, decision, **changes))


@every_word
def test_a_double_submit_is_one_decision_with_the_same_receipt(desk: Desk, decision: str) -> None:
    anna, form = client_of("anna"), word(desk.refund, decision)
    pages = [anna.post(f"/approvals/{desk.refund}", form, follow=True) for _ in range(2)]
    receipts = [str(next(iter(page.context["messages"]))) for page in pages]
    assert receipts[0] == receipts[1]
    assert state(desk.refund) == ENDS[decision]
    assert Decision.objects.filter(approval_id=desk.refund).count() == 1
    told = Event.objects.filter(kind="APPROVAL_DECIDED", data__approval_id=str(desk.refund))
    assert told.count() == 1


@every_word
def test_a_payload_that_was_revised_meanwhile_is_a_conflict_with_its_difference(
    desk: Desk, decision: str
) -> None:
    anna, form = client_of("anna"), word(desk.refund, decision)
    task_id = Approval.objects.get(approval_id=desk.refund).effect.task_id
    new = desks.ask(desks.revise(task_id), {**desks.INVOICE, "amount": "9.00"}, by=desk.fleet)
    before = world.fingerprint()
    answer = anna.post(f"/approvals/{desk.refund}", form)
    page = answer.content.decode()
    assert answer.status_code == 409
    assert '<tr class="added">' in page
    assert f'href="/approvals/{new.approval_id}"' in page
    assert form["reason"] not in page
    assert world.fingerprint() == before


@every_word
def test_other_bytes_than_were_seen_are_decided_on_by_nobody(desk: Desk, decision: str) -> None:
    form, other = word(desk.refund, decision), "sha256:" + "f" * 64
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_approval SET payload_digest = %s WHERE approval_id = %s",
            [other, desk.refund],
        )
    answer = client_of("anna").post(f"/approvals/{desk.refund}", form)
    assert (answer.status_code, b"PAYLOAD_CONFLICT" in answer.content) == (409, True)
    assert state(desk.refund) == "PENDING"
    assert not Decision.objects.filter(approval_id=desk.refund).exists()


@every_word
def test_the_submitters_forged_word_is_forbidden_and_on_record(desk: Desk, decision: str) -> None:
    olga = client_of("olga", "admin")
    page = olga.get(f"/approvals/{desk.newsletter}").content.decode()
    assert f'name="decision" value="{decision}" disabled>' in page
    assert "You submitted this run; somebody else must decide." in page
    before = world.fingerprint()
    answer = olga.post(f"/approvals/{desk.newsletter}", word(desk.newsletter, decision))
    assert answer.status_code == 403
    assert world.fingerprint() == before
    assert Event.objects.get(kind="REFUSED").data["outcome"] == "FORBIDDEN"


@every_word
def test_without_the_end_of_the_payload_nothing_is_decided(desk: Desk, decision: str) -> None:
    """The box that stands for it without scripts; with them it is ticked by what was in view."""
    before = world.fingerprint()
    answer = say(client_of("anna"), desk, decision, seen_end="")
    assert answer.status_code == 422
    assert "Read the payload to its end first" in answer.content.decode()
    assert world.fingerprint() == before


@every_word
def test_past_its_time_every_word_is_too_late_and_time_has_ended_it(
    desk: Desk, decision: str
) -> None:
    anna, here = client_of("anna"), f"/approvals/{desk.expired}"
    page = anna.get(here).content.decode()
    assert "EXPIRED" in page
    assert 'id="decision"' not in page
    assert 'id="pass"' not in page
    assert anna.post(here, word(desk.expired, decision)).status_code == 409
    assert anna.get(here).status_code == 200
    assert state(desk.expired) == "EXPIRED"
    assert not Decision.objects.filter(approval_id=desk.expired).exists()
    told = Event.objects.get(kind="APPROVAL_EXPIRED", data__approval_id=str(desk.expired))
    assert told.actor == "system:approvals"


def test_what_has_run_out_is_passed_to_nobody(desk: Desk) -> None:
    anna, _ = client_of("anna"), client_of("ben")
    answer = anna.post(f"/approvals/{desk.expired}/pass", passing("ben"))
    assert answer.status_code == 409
    assert Approval.objects.get(approval_id=desk.expired).assignee is None


def test_one_person_in_two_sessions_is_one_person(desk: Desk) -> None:
    for session in (client_of("anna"), client_of("anna")):
        session.post(f"/approvals/{desk.transfer}", word(desk.transfer))
    assert state(desk.transfer) == "PENDING"
    assert Decision.objects.filter(approval_id=desk.transfer).count() == 1
    client_of("ben").post(f"/approvals/{desk.transfer}", word(desk.transfer))
    assert state(desk.transfer) == "APPROVED"


@pytest.mark.parametrize("decision", ["reject", "changes"])
def test_one_no_is_enough_where_two_have_to_approve(desk: Desk, decision: str) -> None:
    client_of("anna").post(f"/approvals/{desk.transfer}", word(desk.transfer))
    answer = client_of("ben").post(f"/approvals/{desk.transfer}", word(desk.transfer, decision))
    assert answer.status_code == 302
    assert state(desk.transfer) == "REJECTED"


def test_what_has_happened_in_the_task_is_told_instead_of_done_again(desk: Desk) -> None:
    """The task's other effect is COMMITTED: asking for changes would send it once more."""
    approval = Approval.objects.get(approval_id=desk.refund)
    paid = Approval.objects.exclude(approval_id=desk.refund).filter(state="CONSUMED").first()
    assert paid is not None
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_effectslot SET task_id = %s, slot = 'other' WHERE effect_id = %s",
            [approval.effect.task_id, paid.effect_id],
        )
    answer = say(client_of("anna"), desk, "changes")
    page = answer.content.decode()
    assert (answer.status_code, "ALREADY_COMMITTED" in page) == (409, True)
    assert "done anew it would happen again" in page
    assert state(desk.refund) == "PENDING"


def test_the_hundred_kilobytes_are_there_before_and_after_each_word(desk: Desk) -> None:
    anna = client_of("anna")
    anna.post(f"/approvals/{desk.large}", word(desk.large, "changes"))
    page = anna.get(f"/approvals/{desk.large}?turn=decided").content.decode()
    assert page.count("x" * 90) == 1_000
    successor = Task.objects.get(supersedes=Approval.objects.get(pk=desk.large).effect.task)
    assert (successor.state, successor.revision) == ("READY", 2)


def test_a_decision_without_its_token_against_forgery_does_nothing(desk: Desk) -> None:
    client_of("anna")
    strict = Client(enforce_csrf_checks=True)
    user = User.objects.get(username="anna")
    strict.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    before = world.fingerprint()
    for address, form in (
        (f"/approvals/{desk.refund}", word(desk.refund)),
        (f"/approvals/{desk.refund}/pass", passing("ben")),
        (f"/approvals/{desk.refund}/reveal", {"action_key": str(uuid4()), "reason": "x" * 20}),
    ):
        assert strict.post(address, form).status_code == 403
    assert world.fingerprint() == before
