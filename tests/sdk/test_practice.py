"""The example's office: what it leaves for people to do is really there, and is gone on with at the next start."""

from __future__ import annotations

import http.client
import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db.models.functions import Now

from coordinator.actors import system
from coordinator.models import (
    Approval,
    Credential,
    EffectSlot,
    Run,
    ShadowRound,
    Task,
)
from coordinator.selectors.promotion import read_promotion
from coordinator.services.credentials import create_credential, find_worker
from coordinator.services.queues import change_policy
from coordinator.services.reconciliation import Settled
from coordinator.services.shadow_verdicts import settle_rounds
from coordinator.shadow.rounds import Policy, play_rounds
from coordinator.shadow.words import LegacyEvent, LegacyKind
from coordinator.site import demo
from coordinator.site.claimed import StateFolder
from examples.practice import legacy, office, work
from examples.practice.legacy import HANDED_OUT_TWICE, JOBS, SLEPT_THROUGH, Night
from examples.practice.office import ANSWER_IS_LOST, MESSAGE_IS_LOST, Office
from examples.practice.room import Practice
from tenure.gate import Gate
from tests.effects import ledger
from tests.sdk.conftest import Site
from tests.sdk.fleets import Sweeping
from tests.sdk.threads import until

TESTS = system("tests")


# --- the office -----------------------------------------------------------------------------------


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Office]:
    with Office(tmp_path / "office") as running:
        yield running


def post(to: Office, service: str, body: Any, key: str = "k") -> httpx.Response:
    return httpx.post(
        f"{to.url}/{service}", json=body, headers={"Idempotency-Key": key}, timeout=60
    )


def log(of: Office, service: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in of.log(service).read_text().splitlines()]


def test_what_the_office_did_is_a_line_of_its_log(opened: Office) -> None:
    assert post(opened, "orders", {"to": "a", "amount": "7"}).json() == {"number": 1}
    assert post(opened, "orders", {"to": "b"}).json() == {"number": 2}
    first, _ = log(opened, "orders")
    assert (first["to"], first["amount"], first["key"]) == ("a", "7", "k")
    assert log(opened, "texts") == []


@pytest.mark.parametrize(("to", "sent"), [(ANSWER_IS_LOST, 1), (MESSAGE_IS_LOST, 0)])
def test_two_texts_get_no_answer_and_only_once_also_after_a_restart(
    to: str, sent: int, opened: Office
) -> None:
    with pytest.raises(httpx.TransportError):
        post(opened, "texts", {"to": to})
    assert len(log(opened, "texts")) == sent
    with Office(opened.folder) as again:
        assert post(again, "texts", {"to": to}).json() == {"number": sent + 1}


def test_what_the_office_cannot_read_it_does_not_do(opened: Office) -> None:
    assert httpx.post(f"{opened.url}/orders", content=b"{", timeout=60).status_code == 400
    assert post(opened, "orders", ["no object"]).status_code == 400
    assert post(opened, "no-such-service", {}).status_code == 404
    line = http.client.HTTPConnection(opened.url.removeprefix("http://"))
    line.putrequest("POST", "/orders")
    line.putheader("Content-Length", str(office.LARGEST_BYTES + 1))
    line.endheaders()
    assert line.getresponse().status == 413
    line.close()
    assert log(opened, "orders") == []


def test_a_text_without_a_pass_is_turned_away_at_the_gate(site: Site, tmp_path: Path) -> None:
    with (
        Gate(site.url, site.token, downstream="practice-texts") as gate,
        Office(tmp_path, gate=gate) as guarded,
    ):
        turned = post(guarded, "texts", {"to": "a"})
        assert post(guarded, "orders", {"to": "a"}).status_code == 201
        assert log(guarded, "texts") == []
    assert (turned.status_code, turned.headers["Tenure-Gate"]) == (400, "MALFORMED")


# --- the legacy scheduler -------------------------------------------------------------------------


def test_a_night_of_the_legacy_scheduler_has_both_of_its_faults() -> None:
    told: dict[str, list[LegacyEvent]] = defaultdict(list)

    def tell(*, task_key: str, event: str, owner: str, **more: Any) -> None:
        number = sum(map(len, told.values()))
        now = datetime.now(UTC)
        kind = LegacyKind(event)
        lease, given = more.get("lease_seconds"), more.get("input_digest")
        result = more.get("result_digest")
        told[task_key].append(LegacyEvent(f"e{number}", kind, owner, now, lease, result, given))

    assert Night(tell, when="tonight").work() == JOBS == len(told)
    verdicts = {
        key: [str(one.play.verdict) for one in play_rounds(events, Policy(5.0, 60.0))]
        for key, events in told.items()
    }
    assert verdicts[f"tonight/invoice-{HANDED_OUT_TWICE:02}"] == ["DOUBLE_CLAIM"]
    assert verdicts[f"tonight/invoice-{SLEPT_THROUGH:02}"] == ["LATE_COMMIT"]
    assert ["AGREE"] in verdicts.values()


# --- what it needs ---------------------------------------------------------------------------------


def test_what_up_registers_is_what_the_office_promises() -> None:
    names = {name for slots in work.SLOTS.values() for name in slots.values()}
    assert names == set(demo.PRACTICE_DOWNSTREAMS)
    assert (work.QUEUE, work.MOVING) == (demo.PRACTICE_QUEUE, demo.MOVING_QUEUE)
    assert demo.MOVING_POLICY["promotion_rounds"] <= JOBS
    assert demo.MOVING_POLICY["shadow_settle_seconds"] > legacy.LEASE_SECONDS


@pytest.mark.django_db(transaction=True)
def test_a_token_that_reaches_too_little_is_replaced_and_one_that_suffices_is_kept(
    tmp_path: Path,
) -> None:
    state = StateFolder(tmp_path)
    demo.make_places(TESTS)
    _, old = create_credential(
        name="example-fleet",
        pool=demo.DEMO_POOL,
        queues=[demo.DEMO_QUEUE],
        scopes=["work", "submit"],
        actor=TESTS,
    )
    state.keep("fleet_token", old)
    token = demo.see_to_demo(state)
    assert token != old
    worker = find_worker(token=token)
    assert worker is not None
    assert worker.queues == set(demo.DEMO_QUEUES)
    assert demo.see_to_demo(state) == token
    assert Credential.objects.count() == 2


# --- all of it --------------------------------------------------------------------------------------


@pytest.fixture
def practised(site: Site) -> Iterator[Site]:
    demo.make_places(TESTS)
    _, token = create_credential(
        name="office",
        pool=demo.DEMO_POOL,
        queues=list(demo.DEMO_QUEUES),
        scopes=list(demo.DEMO_SCOPES),
        actor=TESTS,
    )
    with Sweeping():
        yield Site(site.url, demo.PRACTICE_QUEUE, token)


@pytest.fixture
def short_nights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it does not matter what the legacy scheduler told."""
    monkeypatch.setattr(legacy, "LEASE_SECONDS", 0.1)
    monkeypatch.setattr(legacy, "NOTICED_AFTER_SECONDS", 0.0)


def practise(site: Site, folder: Path) -> list[str]:
    """Open the room until it has said everything."""
    said: list[str] = []
    with site.client() as client:
        room = Practice(
            client, said.append, url=site.url, token=site.token, folder=folder, site="http://here"
        )
        with room:
            until(room.look, "everything to wait for a person")
    return said


def test_each_thing_to_try_waits_on_its_page_and_is_the_same_after_a_restart(
    practised: Site, tmp_path: Path, short_nights: None
) -> None:
    said = "\n".join(practise(practised, tmp_path))
    approvals = {each.required_approvers: each for each in Approval.objects.all()}
    assert {each.state for each in approvals.values()} == {"PENDING"}
    assert set(approvals) == {1, 2}
    for each in approvals.values():
        assert f"http://here/approvals/{each.approval_id}" in said
    waiting = Task.objects.get(kind=work.SUMMARY)
    assert waiting.state == "BLOCKED"
    assert f"http://here/tasks/{waiting.task_id}" in said
    assert "http://here/effects/unknown" in said
    assert f"http://here/shadow/{demo.MOVING_QUEUE}" in said
    texts = EffectSlot.objects.filter(downstream="practice-texts")
    assert [each.state for each in texts] == ["UNKNOWN"] * 2
    assert set(Task.objects.filter(kind=work.TEXT).values_list("state", flat=True)) == {
        "AWAITING_RECONCILIATION"
    }
    assert (tmp_path / "texts.jsonl").read_text().count("\n") == 1
    again = "\n".join(practise(practised, tmp_path))
    assert f"http://here/approvals/{approvals[2].approval_id}" in again
    assert Run.objects.filter(state="ACTIVE").count() == 3
    assert (tmp_path / "texts.jsonl").read_text().count("\n") == 1


def test_a_text_that_never_went_out_is_sent_once_two_people_have_said_so(
    practised: Site, tmp_path: Path, short_nights: None
) -> None:
    practise(practised, tmp_path)
    sent: Any = EffectSlot.objects.get(node_id="text-one")
    lost: Any = EffectSlot.objects.get(node_id="text-two")
    ada = ledger.person("ada")
    ledger.pass_time(lost, seconds=60)
    assert isinstance(ledger.asserted(lost, by=ada), Settled)
    assert isinstance(ledger.happened(sent, by=ada), Settled)
    practise(practised, tmp_path)
    asked = Approval.objects.get(effect_id=lost.effect_id)
    assert (asked.state, asked.required_approvers) == ("PENDING", 1)
    ledger.say_yes(asked, who="paula")
    practise(practised, tmp_path)
    assert Task.objects.filter(kind=work.SUMMARY, state="COMMITTED").count() == 1
    lines = [json.loads(line) for line in (tmp_path / "texts.jsonl").read_text().splitlines()]
    assert [line["to"] for line in lines] == [ANSWER_IS_LOST, MESSAGE_IS_LOST]


def test_the_moving_queues_gate_lacks_nothing_of_the_night_but_what_a_person_explains(
    practised: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than a busy machine lets a thread stand still: no job but the planted one outlives its lease.
    monkeypatch.setattr(legacy, "LEASE_SECONDS", 6.0)
    practise(practised, tmp_path)
    change_policy(name=demo.MOVING_QUEUE, changes={"shadow_settle_seconds": 1}, actor=TESTS)
    ShadowRound.objects.update(check_at=Now())
    until(_night_is_judged, "the night to be judged")
    gate = read_promotion(queue=demo.MOVING_QUEUE)
    assert gate is not None
    criteria = {each.name: each for each in gate.criteria}
    assert criteria["settled_rounds"].ok
    assert criteria["unexplained_mismatches"].value == 2
    verdicts = ShadowRound.objects.exclude(verdict="AGREE").values_list("verdict", flat=True)
    assert set(verdicts) == {"DOUBLE_CLAIM", "LATE_COMMIT"}


def _night_is_judged() -> bool:
    settle_rounds(actor=TESTS)
    return not ShadowRound.objects.filter(verdict=None).exists()


def test_without_its_queues_the_office_stays_shut_and_says_what_is_missing(
    site: Site, tmp_path: Path
) -> None:
    assert practise(site, tmp_path) == [
        "left out: an administrator makes practice and practice-moving; `up` does"
    ]
    assert Run.objects.count() == 0
