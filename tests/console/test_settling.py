"""Settling effects in the console: what is known, the downstream asked by the server, and a person's decision."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.conf import LazySettings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from coordinator.models import EffectSlot, Event, Evidence, LookUp
from coordinator.site.adapters import registered_adapters
from tests import world
from tests.console.desk import ADAPTERS, Desk
from tests.console.test_approvals import client_of

pytestmark = pytest.mark.django_db(transaction=True)

WHY = "The downstream's support looked it up for us."


@pytest.fixture(autouse=True)
def adapters(settings: LazySettings) -> Iterator[None]:
    """The adapters that an operator would name in TENURE_ADAPTERS."""
    settings.ADAPTERS = "tests.console.desk:ADAPTERS"
    registered_adapters.cache_clear()
    for each in ADAPTERS.values():
        each.held, each.is_up = {}, True
    yield
    registered_adapters.cache_clear()


def effect(effect_id: str) -> EffectSlot:
    return EffectSlot.objects.get(effect_id=effect_id)


def seen(effect_id: str, **fields: Any) -> dict[str, Any]:
    """The fields of a form as the page had them."""
    row = effect(effect_id)
    newest = LookUp.objects.filter(effect_id=effect_id).order_by("-started_at").first()
    return {
        "action_key": str(uuid4()),
        "dispatches": row.dispatches,
        "shown_state": row.state,
        "lookup_id": str(newest.lookup_id) if newest else "",
        "reason": WHY,
        "phrase": f"{effect_id[:8]} did not happen at {row.downstream}",
    } | fields


def test_the_list_groups_by_cause_and_weighs_age_by_what_is_at_stake(desk: Desk) -> None:
    page = client_of("anna").get("/effects/unknown").content.decode()
    order = [page.index(f'href="/effects/{each}"') for each in (desk.fax, desk.ticket, desk.mail)]
    assert order == sorted(order)
    assert "EUR 75" in page
    assert 'href="/effects/unknown?downstream=fax&amp;queue=payments&amp;state=UNKNOWN"' in page
    assert "no look-up is registered" in page
    assert '<span class="count warm">4</span>' in page
    narrowed = client_of("anna").get("/effects/unknown?downstream=crm").content.decode()
    assert f'href="/effects/{desk.early}"' in narrowed
    assert f'href="/effects/{desk.fax}"' not in narrowed


def test_the_list_keeps_to_its_budget_of_queries(desk: Desk) -> None:
    anna = client_of("anna")
    anna.get("/effects/unknown")
    with CaptureQueriesContext(connection) as captured:
        assert anna.get("/effects/unknown").status_code == 200
    assert len(captured) <= 8


def test_a_poll_asks_for_the_rows_that_stand_there(desk: Desk) -> None:
    held = {"held": f"{desk.mail},{desk.fax}"}
    page = client_of("anna").get("/effects/unknown", held, headers={"HX-Request": "true"})
    text = page.content.decode()
    assert text.index(desk.mail) < text.index(f'href="/effects/{desk.fax}"')
    assert f'href="/effects/{desk.ticket}"' not in text


def test_what_the_downstream_says_is_evidence_and_settles_nothing(desk: Desk) -> None:
    anna = client_of("anna")
    answer = anna.post(f"/effects/{desk.mail}/ask", follow=True)
    page = answer.content.decode()
    assert "The downstream was asked." in page
    kept = Evidence.objects.filter(effect_id=desk.mail).latest("id")
    assert (kept.kind, kept.said, kept.actor) == ("query", "NOT_HAPPENED", "operator:anna")
    assert kept.detail["detail"] == "no such message"
    assert kept.detail["milliseconds"] >= 0
    assert kept.detail["digest"].startswith("sha256:")
    assert kept.detail["lookup_id"] == str(LookUp.objects.get(effect_id=desk.mail).lookup_id)
    assert effect(desk.mail).state == "UNKNOWN"
    told = Event.objects.get(kind="EVIDENCE_RECORDED", data__effect_id=desk.mail)
    assert (told.actor, told.data["address"]) == ("operator:anna", "127.0.0.1")
    assert "no such message" in page
    assert "can be sealed now, so far that sending again is safe" in page


def test_not_there_under_a_living_key_is_resendable_and_the_cost_is_told(desk: Desk) -> None:
    anna = client_of("anna")
    blocked = anna.get(f"/effects/{desk.mail}").content.decode()
    assert "A look-up about the newest dispatch is missing. It can be had now." in blocked
    assert "settle/absent" not in blocked
    anna.post(f"/effects/{desk.mail}/ask")
    page = anna.get(f"/effects/{desk.mail}").content.decode()
    told = "generation 2 sends EUR 75 · to someone@mailer.example to mailer again"
    assert told in page
    answers = [
        anna.post(f"/effects/{desk.mail}/settle/absent", seen(desk.mail), follow=True)
        for _ in range(2)
    ]
    receipts = {str(next(iter(each.context["messages"]))) for each in answers}
    assert receipts == {"Settled for now: it is RESENDABLE. The next generation may send it again."}
    assert effect(desk.mail).state == "RESENDABLE"


def test_absence_is_final_where_late_calls_are_refused_and_the_time_has_passed(desk: Desk) -> None:
    anna = client_of("anna")
    anna.post(f"/effects/{desk.ticket}/ask")
    page = anna.get(f"/effects/{desk.ticket}").content.decode()
    assert "can be sealed now, for good" in page
    assert "a second time, and nothing there stops it." in page
    answer = anna.post(f"/effects/{desk.ticket}/settle/absent", seen(desk.ticket), follow=True)
    assert "Settled: it did not happen." in answer.content.decode()
    assert effect(desk.ticket).state == "PREPARED"


def test_a_look_up_before_the_last_call_could_arrive_seals_nothing(desk: Desk) -> None:
    anna = client_of("anna")
    anna.post(f"/effects/{desk.early}/ask")
    page = anna.get(f"/effects/{desk.early}").content.decode()
    assert "A look-up that began after the last call could arrive is missing." in page
    assert "It can be had from" in page
    assert "settle/absent" not in page
    forged = anna.post(f"/effects/{desk.early}/settle/absent", seen(desk.early))
    assert forged.status_code == 409
    assert b"ABSENCE_NOT_SEALED" in forged.content
    assert effect(desk.early).state == "UNKNOWN"


@pytest.mark.parametrize("is_up", [True, False])
def test_nobody_says_not_happened_by_a_look_up_that_said_otherwise(desk: Desk, is_up: bool) -> None:
    ADAPTERS["mailer"].held[desk.mail] = "message 7"
    ADAPTERS["mailer"].is_up = is_up
    anna = client_of("anna")
    anna.post(f"/effects/{desk.mail}/ask")
    page = anna.get(f"/effects/{desk.mail}").content.decode()
    assert "settle/absent" not in page
    assert ("message 7" in page) is is_up


def test_happened_needs_a_receipt_and_is_final(desk: Desk) -> None:
    anna, path = client_of("anna"), f"/effects/{desk.fax}/settle/happened"
    without = anna.post(path, seen(desk.fax, receipt=""))
    assert without.status_code == 422
    assert "Give the receipt" in without.content.decode()
    answers = [
        anna.post(path, seen(desk.fax, receipt='{"page": 3}', dispatches=1), follow=True)
        for _ in range(2)
    ]
    assert all("It happened" in each.content.decode() for each in answers)
    row = effect(desk.fax)
    assert (row.state, row.receipt) == ("COMMITTED", '{"page":3}')
    assert "Decide" not in answers[0].content.decode()
    other = anna.post(path, seen(desk.fax, receipt="another"))
    assert other.status_code == 409
    assert b"ALREADY_SETTLED" in other.content


def test_a_receipt_in_plain_words_is_a_receipt(desk: Desk) -> None:
    client_of("anna").post(
        f"/effects/{desk.fax}/settle/happened", seen(desk.fax, receipt="page 3 of 3")
    )
    assert effect(desk.fax).receipt == '"page 3 of 3"'


def test_still_unknown_keeps_a_note_with_its_owner_and_the_next_look(desk: Desk) -> None:
    anna = client_of("anna")
    form = seen(desk.fax, note="I have asked the exchange for its log.", minutes=90)
    answer = anna.post(f"/effects/{desk.fax}/settle/unknown", form, follow=True)
    page = answer.content.decode()
    assert "Noted. It stays UNKNOWN" in page
    assert "I have asked the exchange for its log." in page
    row = effect(desk.fax)
    assert (row.state, row.probe_after is not None) == ("UNKNOWN", True)
    kept = Evidence.objects.filter(effect_id=desk.fax).latest("id")
    assert (kept.kind, kept.said, kept.actor) == ("operator", "DONT_KNOW", "operator:anna")
    listed = anna.get("/effects/unknown").content.decode()
    assert "operator:anna" in listed
    assert "next look" in listed
    bad = anna.post(f"/effects/{desk.fax}/settle/unknown", form | {"minutes": 0})
    assert bad.status_code == 422


def test_what_can_not_be_sealed_takes_a_persons_word_with_its_warning(desk: Desk) -> None:
    adam, path = client_of("adam", "admin"), f"/effects/{desk.fax}"
    page = adam.get(path).content.decode()
    assert "This downstream can&#x27;t seal an absence" in page.replace("&#39;", "&#x27;")
    assert "Look after the last call could have arrived" in page
    adam.post(f"{path}/ask", {"by": "hand"})
    page = adam.get(path).content.decode()
    assert "This is a person&#x27;s word, not exactly-once." in page.replace("'", "&#x27;")
    said = seen(desk.fax, statement="The host was switched off and its disk is on my desk.")
    short = adam.post(f"{path}/settle/asserted", said | {"statement": "it is off"})
    assert short.status_code == 422
    wrong = adam.post(f"{path}/settle/asserted", said | {"phrase": "yes"})
    assert wrong.status_code == 422
    assert "Type exactly: " in wrong.content.decode()
    assert effect(desk.fax).state == "UNKNOWN"
    answer = adam.post(f"{path}/settle/asserted", said, follow=True)
    assert "Settled: it did not happen." in answer.content.decode()
    row = effect(desk.fax)
    assert (row.state, row.needs_approval) == ("PREPARED", True)


def test_a_bare_word_is_for_those_who_may_assert_it(desk: Desk) -> None:
    anna = client_of("anna")
    anna.post(f"/effects/{desk.fax}/ask", {"by": "hand"})
    assert "Roles that may: admins." in anna.get(f"/effects/{desk.fax}").content.decode()
    before = world.fingerprint()
    said = seen(desk.fax, statement="The host was switched off and its disk is on my desk.")
    assert anna.post(f"/effects/{desk.fax}/settle/asserted", said).status_code == 403
    assert world.fingerprint() == before


@pytest.mark.parametrize("path", ["ask", "settle/happened", "settle/absent", "settle/unknown"])
def test_a_viewer_settles_nothing(desk: Desk, path: str) -> None:
    viewer = client_of("viktor", "viewer")
    assert (
        "Roles that may: approvers, operators and admins."
        in viewer.get(f"/effects/{desk.mail}").content.decode()
    )
    before = world.fingerprint()
    form = seen(desk.mail, receipt="1", note=WHY, minutes=5)
    assert viewer.post(f"/effects/{desk.mail}/{path}", form).status_code == 403
    assert world.fingerprint() == before
    refused = Event.objects.filter(kind="REFUSED", actor="operator:viktor").latest("id")
    assert refused.data["outcome"] == "FORBIDDEN"


def test_who_may_not_see_payloads_sees_none_of_it(desk: Desk) -> None:
    viewer = client_of("viktor", "viewer")
    for address in ("/effects/unknown", f"/effects/{desk.mail}", f"/effects/{desk.settled}"):
        page = viewer.get(address).content.decode()
        assert "someone@" not in page
        assert "EUR" not in page


def test_judging_other_dispatches_than_there_are_is_not_carried_out(desk: Desk) -> None:
    anna = client_of("anna")
    form = seen(desk.mail, receipt="1", dispatches=7, shown_state="ACCEPTED")
    answer = anna.post(f"/effects/{desk.mail}/settle/happened", form)
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "STALE_EVIDENCE" in page
    assert "It changed while you were looking" in page
    assert "Your word is kept beside it, as evidence that did not count." in page
    assert "Nothing has been changed by it" not in page
    assert Evidence.objects.filter(effect_id=desk.mail).latest("id").detail["counted"] is False
    assert effect(desk.mail).state == "UNKNOWN"


def test_a_note_on_other_dispatches_than_there_are_is_not_kept(desk: Desk) -> None:
    form = seen(desk.mail, note=WHY, minutes=60, dispatches=7)
    before = Evidence.objects.count()
    answer = client_of("anna").post(f"/effects/{desk.mail}/settle/unknown", form)
    assert answer.status_code == 409
    assert "Nothing has been changed by it" in answer.content.decode()
    assert Evidence.objects.count() == before


def test_the_task_has_its_ledger_and_leads_to_what_waits(desk: Desk) -> None:
    anna = client_of("anna")
    task = f"/tasks/{effect(desk.fax).task_id}"
    page = anna.get(f"{task}/effects").content.decode()
    assert f'href="/effects/{desk.fax}"' in page
    for kind in ("EFFECT_PREPARED", "EFFECT_ACCEPTED", "EFFECT_UNKNOWN"):
        assert kind in page
    assert "approval CONSUMED" in page
    assert f'<a href="/effects/{desk.fax}">The effect, with everything' in page
    asked = EffectSlot.objects.get(approvals__approval_id=desk.refund).task_id
    waits = anna.get(f"/tasks/{asked}").content.decode()
    assert f'<a href="/approvals/{desk.refund}">The request, with the whole payload.' in waits


def test_the_search_leads_to_effects_and_approvals_by_their_ids(desk: Desk) -> None:
    anna = client_of("anna")
    for text, target in (
        (desk.mail, f"/effects/{desk.mail}"),
        (desk.mail.upper(), f"/effects/{desk.mail}"),
        (str(desk.refund), f"/approvals/{desk.refund}"),
        ("0" * 64, f"/tasks?q={'0' * 64}"),
    ):
        assert anna.get("/find", {"q": text})["Location"] == target


def test_an_unknown_address_is_not_there(desk: Desk) -> None:
    anna = client_of("anna")
    for address in ("/effects/zz", f"/effects/{'0' * 64}", f"/effects/{desk.mail}/settle/maybe"):
        assert anna.get(address).status_code == 404, address
    assert anna.get(f"/effects/{desk.mail}/ask").status_code == 405
    back = anna.get(f"/effects/{desk.mail}/settle/absent")
    assert (back.status_code, back["Location"]) == (302, f"/effects/{desk.mail}")
