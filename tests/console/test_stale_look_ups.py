"""What a person knew of an effect's calls is not enough once there is another call (console design, check G)."""

from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client

from coordinator.actors import Worker
from coordinator.models import EffectSlot, Evidence, LookUp
from coordinator.outcomes import Refusal
from coordinator.services.acceptances import Accepted
from coordinator.services.endings import release_attempt
from coordinator.states import DispatchOutcome
from tests import world
from tests.console.desk import ADAPTERS, QUEUE, Desk
from tests.console.filling import forms_of
from tests.console.test_approvals import client_of
from tests.console.test_settling import adapters  # noqa: F401 (a fixture)
from tests.effects import ledger
from tests.hostile.test_pages import TABLES

pytestmark = pytest.mark.django_db(transaction=True)

WHY = "The downstream's support looked it up for us."
TYPED: dict[str, dict[str, Any]] = {
    "happened": {"reason": WHY, "receipt": "message 7"},
    "absent": {"reason": WHY},
    "unknown": {"note": WHY, "minutes": "60"},
    "asserted": {"statement": "The host is switched off and its disk is on my desk."},
}


def effect(effect_id: str) -> EffectSlot:
    return EffectSlot.objects.get(effect_id=effect_id)


def form_on(client: Client, effect_id: str, how: str) -> dict[str, Any]:
    """The form as the page has it, filled in by somebody who means it."""
    here = f"/effects/{effect_id}"
    page = client.get(here).content.decode()
    (form,) = [
        each
        for each in forms_of(page, here)
        if urlsplit(each.action).path == f"{here}/settle/{how}"
    ]
    typed = TYPED[how] | ({"phrase": form.phrase} if how in ("absent", "asserted") else {})
    return form.sent(typed, form.buttons[-1])


def sent_again(effect_id: str, *, by: Worker) -> tuple[Any, Accepted]:
    """The next generation sends it a second time; its call may be out."""
    row = effect(effect_id)
    claim = world.claim_one(by=by, of=row.task_id, queue_name=QUEUE, owner="mailer-3@build-09")
    answer = ledger.try_accept(row, claim.fence, by=by)  # type: ignore[arg-type]
    if isinstance(answer, Refusal):  # a person decides first
        ledger.say_yes(ledger.approval(answer), who="paula")
        claim = world.claim_one(by=by, of=row.task_id, queue_name=QUEUE, owner="mailer-3@build-09")
        answer = ledger.accept(row, claim.fence, by=by)  # type: ignore[arg-type]
    assert answer.dispatch_number == 2
    return claim, answer


def settled_by_another(client: Client, effect_id: str, how: str) -> None:
    answer: Any = client.post(f"/effects/{effect_id}/settle/{how}", form_on(client, effect_id, how))
    assert answer.status_code == 302


def things(effect_id: str) -> tuple[Any, ...]:
    """All that a decision on an effect could move: not the words that are kept beside it."""
    row = effect(effect_id)
    return (
        world.fingerprint(*(table for table in TABLES if table != "evidence")),
        (row.state, row.dispatches, row.receipt, row.probe_after),
    )


@pytest.mark.parametrize("in_flight", [True, False], ids=["in flight", "unheard of"])
@pytest.mark.parametrize("how", TYPED)
def test_a_later_dispatch_makes_every_form_of_an_effect_too_late(
    desk: Desk, how: str, in_flight: bool
) -> None:
    effect_id, by_word = (desk.fax, "asserted") if how == "asserted" else (desk.mail, "absent")
    ada, bea = client_of("ada", "admin"), client_of("bea", "admin")
    ada.post(f"/effects/{effect_id}/ask", {"by": "hand"} if how == "asserted" else {})
    form = form_on(ada, effect_id, how)
    settled_by_another(bea, effect_id, by_word)
    claim, accepted = sent_again(effect_id, by=desk.fleet)
    if not in_flight:
        row: Any = effect(effect_id)
        ledger.report(row, claim, accepted, DispatchOutcome.UNKNOWN, by=desk.fleet)
        release_attempt(attempt_id=claim.fence.attempt_id, fence=claim.fence, worker=desk.fleet)
    before = things(effect_id)
    answer = ada.post(f"/effects/{effect_id}/settle/{how}", form)
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "It changed while you were looking" in page
    assert '<tr class="at"><td class="name">Dispatches</td><td>1</td><td><strong>2' in page
    assert WHY not in page
    assert things(effect_id) == before


@pytest.mark.parametrize("how", ["absent", "asserted"])
def test_an_old_look_up_seals_nothing_of_a_later_dispatch(desk: Desk, how: str) -> None:
    """Somebody sees both calls, and still names the look-up that was made before the second."""
    effect_id = desk.fax if how == "asserted" else desk.mail
    ada = client_of("ada", "admin")
    ada.post(f"/effects/{effect_id}/ask", {"by": "hand"} if how == "asserted" else {})
    old = form_on(ada, effect_id, how)
    settled_by_another(client_of("bea", "admin"), effect_id, how)
    claim, accepted = sent_again(effect_id, by=desk.fleet)
    row: Any = effect(effect_id)
    ledger.report(row, claim, accepted, DispatchOutcome.UNKNOWN, by=desk.fleet)
    release_attempt(attempt_id=claim.fence.attempt_id, fence=claim.fence, worker=desk.fleet)
    page = ada.get(f"/effects/{effect_id}").content.decode()
    assert f"/settle/{how}" not in page, "the page still offers it"
    before = things(effect_id)
    answer = ada.post(f"/effects/{effect_id}/settle/{how}", old | {"dispatches": "2"})
    assert answer.status_code == 409
    assert "STALE_EVIDENCE" in answer.content.decode()
    assert things(effect_id) == before


def test_a_look_up_that_found_it_in_between_closes_the_word_that_it_did_not_happen(
    desk: Desk,
) -> None:
    ada, bea = client_of("ada"), client_of("bea")
    ada.post(f"/effects/{desk.mail}/ask")
    form = form_on(ada, desk.mail, "absent")
    ADAPTERS["mailer"].held[desk.mail] = "message 7"
    bea.post(f"/effects/{desk.mail}/ask")
    before = things(desk.mail)
    answer = ada.post(f"/effects/{desk.mail}/settle/absent", form)
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "The look-up said</td><td>NOT_HAPPENED</td><td><strong>HAPPENED" in page
    assert things(desk.mail) == before
    assert LookUp.objects.filter(effect_id=desk.mail).count() == 2


@pytest.mark.parametrize("is_up", [True, False], ids=["it was there", "it was down"])
def test_a_look_up_that_did_not_say_so_seals_nothing_even_where_it_is_named(
    desk: Desk, is_up: bool
) -> None:
    """The page does not offer it; a form that names it all the same is refused."""
    ada = client_of("ada")
    ada.post(f"/effects/{desk.mail}/ask")
    form = form_on(ada, desk.mail, "absent")
    ADAPTERS["mailer"].held[desk.mail] = "message 7"
    ADAPTERS["mailer"].is_up = is_up
    ada.post(f"/effects/{desk.mail}/ask")
    newest = LookUp.objects.filter(effect_id=desk.mail).latest("started_at").lookup_id
    before = things(desk.mail)
    answer = ada.post(f"/effects/{desk.mail}/settle/absent", form | {"lookup_id": str(newest)})
    assert answer.status_code == 409
    assert "STALE_EVIDENCE" in answer.content.decode()
    assert things(desk.mail) == before


def test_the_second_call_is_looked_up_anew_and_then_settled(desk: Desk) -> None:
    ada = client_of("ada")
    ada.post(f"/effects/{desk.mail}/ask")
    settled_by_another(client_of("bea"), desk.mail, "absent")
    claim, accepted = sent_again(desk.mail, by=desk.fleet)
    row: Any = effect(desk.mail)
    ledger.report(row, claim, accepted, DispatchOutcome.UNKNOWN, by=desk.fleet)
    release_attempt(attempt_id=claim.fence.attempt_id, fence=claim.fence, worker=desk.fleet)
    kept = Evidence.objects.filter(effect_id=desk.mail).count()
    ada.post(f"/effects/{desk.mail}/ask")
    assert Evidence.objects.filter(effect_id=desk.mail).count() == kept + 1
    page = ada.get(f"/effects/{desk.mail}").content.decode()
    assert "generation 3 sends EUR 75 · to someone@mailer.example to mailer again" in page
    answer = ada.post(f"/effects/{desk.mail}/settle/absent", form_on(ada, desk.mail, "absent"))
    assert answer.status_code == 302
    assert effect(desk.mail).state == "RESENDABLE"
