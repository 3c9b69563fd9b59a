"""Passing a request to another person: whose turn it is, never who may decide (contract 9)."""

import pytest
from django.contrib.auth.models import Group, User

from coordinator.actors import Actor, ActorKind, Worker
from coordinator.models import Approval, Event
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.approval_passes import Passed, pass_approval
from coordinator.services.approvals import Decided
from coordinator.services.roles import ensure_roles
from tests import world
from tests.effects.test_approving import asked, refused, say_yes

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

WHY = "It is her customer."


def approver(name: str, role: str = "approver") -> Actor:
    ensure_roles()
    user, _ = User.objects.get_or_create(username=name)
    user.groups.add(Group.objects.get(name=role))
    return Actor(ActorKind.OPERATOR, name, user.pk)


def pass_on(approval: Approval, to: str, by: Actor, **fields: str | None) -> Passed | Refusal:
    return pass_approval(
        approval_id=approval.approval_id,
        to=to,
        reason=fields.get("reason") or WHY,
        actor=by,
        expected_assignee=fields.get("expected"),
    )


def test_it_is_another_ones_turn_and_everybody_may_decide_as_before(by: Worker) -> None:
    _, _, approval = asked(by)
    paula, _ = approver("paula"), approver("quentin")
    answer = pass_on(approval, "quentin", paula, expected="")
    assert isinstance(answer, Passed)
    assert (answer.assigned_to, answer.assigned_by, answer.replayed) == (
        "quentin",
        "operator:paula",
        False,
    )
    told = Event.objects.get(kind="APPROVAL_PASSED")
    assert (told.actor, told.data.get("from"), told.data["to"], told.data["reason"]) == (
        "operator:paula",
        None,
        "quentin",
        WHY,
    )
    decided = say_yes(approval, paula)
    assert isinstance(decided, Decided)
    assert decided.state == "APPROVED"


def test_a_double_click_passes_it_once(by: Worker) -> None:
    _, _, approval = asked(by)
    paula, _ = approver("paula"), approver("quentin")
    first, again = (pass_on(approval, "quentin", paula, expected="") for _ in range(2))
    assert isinstance(first, Passed)
    assert isinstance(again, Passed)
    assert (again.replayed, again.assigned_at) == (True, first.assigned_at)
    assert Event.objects.filter(kind="APPROVAL_PASSED").count() == 1


def test_whoever_has_approved_may_pass_it_to_the_second(by: Worker) -> None:
    _, _, approval = asked(by, required_approvers=2)
    paula, _ = approver("paula"), approver("quentin")
    say_yes(approval, paula)
    assert isinstance(pass_on(approval, "quentin", paula), Passed)
    assert refused(pass_on(approval, "paula", approver("rosa"))) is Outcome.INVALID


@pytest.mark.parametrize("to", ["alice", "viktor", "gone", "nobody"])
def test_it_is_passed_to_nobody_who_may_not_decide_by_themselves(by: Worker, to: str) -> None:
    """Its submitter, somebody without the permission, somebody inactive, and nobody at all."""
    _, _, approval = asked(by)
    approver("alice")  # world.submit's operator
    approver("viktor", "viewer")
    approver("gone")
    User.objects.filter(username="gone").update(is_active=False)
    before = world.fingerprint()
    answer = pass_on(approval, to, approver("paula"))
    assert isinstance(answer, Refusal)
    assert [error.pointer for error in answer.errors] == ["/to"]
    assert world.fingerprint() == before


def test_whoever_submitted_the_run_does_not_choose_who_decides(by: Worker) -> None:
    _, _, approval = asked(by)
    approver("quentin")
    before = world.fingerprint()
    assert refused(pass_on(approval, "quentin", approver("alice"))) is Outcome.FORBIDDEN
    assert world.fingerprint() == before


def test_a_worker_passes_nothing_and_a_reason_is_needed(by: Worker) -> None:
    _, _, approval = asked(by)
    paula = approver("paula")
    assert refused(pass_on(approval, "paula", by)) is Outcome.FORBIDDEN
    assert refused(pass_on(approval, "paula", paula, reason=" ")) is Outcome.INVALID


def test_passed_on_meanwhile_it_is_not_passed_over_somebodys_head(by: Worker) -> None:
    _, _, approval = asked(by)
    paula, rosa = approver("paula"), approver("rosa")
    approver("quentin")
    pass_on(approval, "quentin", paula, expected="")
    answer = pass_on(approval, "rosa", rosa, expected="")
    assert refused(answer) is Outcome.STATE_VERSION_MISMATCH
    assert isinstance(answer, Refusal)
    assert answer.extra == {"assigned_to": "quentin"}
    assert isinstance(pass_on(approval, "rosa", rosa, expected="quentin"), Passed)


def test_what_is_over_is_passed_to_nobody(by: Worker) -> None:
    _, _, approval = asked(by)
    paula, _ = approver("paula"), approver("quentin")
    with world.guarded():
        Approval.objects.update(expires_at=approval.requested_at)
    assert refused(pass_on(approval, "quentin", paula)) is Outcome.ALREADY_SETTLED
    assert Approval.objects.get().state == "EXPIRED"
    assert refused(pass_on(approval, "quentin", paula)) is Outcome.ALREADY_SETTLED
    assert Approval.objects.get().assignee is None
