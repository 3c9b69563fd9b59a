"""A form's key: of two sendings one acts and the other gets its receipt; a refusal leaves the key free."""

from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from console import receipts
from coordinator.models import Audit, StoredAnswer
from coordinator.services.answers import RequestKey
from coordinator.services.form_receipts import (
    DEAD_SECONDS,
    Sending,
    forget_form,
    keep_receipt,
    take_form,
)
from tests import world
from tests.console.scene import any_time

pytestmark = pytest.mark.django_db(transaction=True)

FORM = RequestKey("console:1:form:/somewhere", "0" * 32, "sha256:one")
RUN = "/audit/integrity/run"
WHY = "The yearly look at the history."


def test_a_key_is_taken_once_and_then_answered(transactional_db: None) -> None:
    assert take_form(FORM) is Sending.FIRST
    assert take_form(FORM) is Sending.UNDER_WAY
    keep_receipt(FORM, "done")
    assert [take_form(FORM) for _ in range(2)] == ["done", "done"]
    other = RequestKey(FORM.scope, FORM.key, "sha256:two")
    assert take_form(other) is Sending.ANOTHER


def test_what_was_refused_leaves_its_key_free(transactional_db: None) -> None:
    take_form(FORM)
    forget_form(FORM)
    assert not StoredAnswer.objects.exists()
    assert take_form(FORM) is Sending.FIRST
    keep_receipt(FORM, "done")
    forget_form(FORM)  # too late: it was carried out
    assert take_form(FORM) == "done"


def test_a_sending_that_died_is_taken_over_when_its_time_has_passed(transactional_db: None) -> None:
    take_form(FORM)
    _let_pass(DEAD_SECONDS - 30)
    assert take_form(FORM) is Sending.UNDER_WAY
    _let_pass(40)
    assert take_form(FORM) is Sending.FIRST
    assert take_form(FORM) is Sending.UNDER_WAY


def test_the_second_of_two_at_once_waits_for_the_receipt(
    signed_in: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Event()

    def look(form: RequestKey) -> Sending | str:
        taken = take_form(form)
        if taken is Sending.UNDER_WAY:
            waits.set()
        return taken

    monkeypatch.setattr(receipts, "take_form", look)
    sent = {"action_key": str(uuid4()), "reason": WHY}
    with world.holding("LOCK TABLE coordinator_audit IN SHARE MODE"):
        rivals = [world.Rival(lambda: _run(_same(signed_in), sent)) for _ in range(2)]
        assert waits.wait(30), "neither waits for the other"
    assert [each.result() for each in rivals] == [(302, "/audit/integrity")] * 2
    assert Audit.objects.count() == 1


def test_one_that_takes_too_long_is_told_so(
    signed_in: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipts, "WAIT_SECONDS", 0.0)
    sent = {"action_key": str(uuid4()), "reason": WHY}
    assert _run(signed_in, sent)[0] == 302
    StoredAnswer.objects.update(answer="under way")
    answer = signed_in.post(RUN, sent)
    assert (answer.status_code, b"is being carried out" in answer.content) == (409, True)
    assert Audit.objects.count() == 1


def test_a_faulty_form_and_other_words_are_judged_anew(signed_in: Client) -> None:
    key = str(uuid4())
    assert _run(signed_in, {"action_key": key, "reason": "short"})[0] == 422
    for reason in (WHY, f"{WHY} Again."):
        assert _run(signed_in, {"action_key": key, "reason": reason})[0] == 302
    assert Audit.objects.count() == 2


def _run(client: Client, sent: dict[str, str]) -> tuple[int, str]:
    answer: Any = client.post(RUN, sent)
    return answer.status_code, answer.get("Location", "")


def _same(client: Client) -> Client:
    other = Client()
    other.cookies = client.cookies
    return other


def _let_pass(seconds: int) -> None:
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_storedanswer SET created_at = created_at - make_interval(secs => %s)",
            [seconds],
        )
