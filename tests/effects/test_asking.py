"""A person has a downstream asked, or notes that nobody knows: evidence, and nothing is settled (contract 8.4)."""

import pytest

from coordinator.actors import Worker
from coordinator.models import Event, Evidence, LookUp
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.asking import Answered, Noted, ask_downstream, note_unknown
from tests import world
from tests.effects import ledger
from tests.effects.test_look_ups import Register, released

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

NOTE = "The operator of the other side is looking into its log."


def refused(answer: object) -> Outcome:
    assert isinstance(answer, Refusal), answer
    return answer.outcome


def test_an_answer_is_kept_under_its_stamp_and_moves_nothing(by: Worker) -> None:
    effect = released(by)
    answer = ask_downstream(
        effect_id=effect.effect_id,
        adapter=Register({effect.effect_id: "r9"}),
        actor=ledger.person("paula"),
    )
    assert isinstance(answer, Answered)
    assert (answer.said, answer.receipt, answer.dispatches) == ("HAPPENED", "r9", 1)
    assert ledger.state(effect) == "UNKNOWN"
    stamp = LookUp.objects.get(lookup_id=answer.lookup_id)
    kept = Evidence.objects.latest("id")
    assert stamp.started_at < kept.at
    assert (kept.kind, kept.said, kept.detail["receipt"]) == ("query", "HAPPENED", "r9")
    assert kept.detail["digest"] == answer.digest
    told = Event.objects.get(kind="EVIDENCE_RECORDED")
    assert (told.actor, told.data["said"]) == ("operator:paula", "HAPPENED")


def test_an_adapter_that_breaks_has_told_nothing(by: Worker) -> None:
    class Broken(Register):
        def look_up(self, effect: object, *, deadline: float) -> object:  # type: ignore[override]
            raise RuntimeError("secret")

    effect = released(by)
    answer = ask_downstream(
        effect_id=effect.effect_id, adapter=Broken({}), actor=ledger.person("paula")
    )
    assert isinstance(answer, Answered)
    assert (answer.said, answer.detail) == ("DONT_KNOW", "the look-up failed: RuntimeError")


def test_what_is_not_there_can_not_be_asked_about(by: Worker) -> None:
    actor = ledger.person("paula")
    assert refused(ask_downstream(effect_id="0" * 64, adapter=Register({}), actor=actor)) is (
        Outcome.NOT_FOUND
    )
    assert (
        refused(
            note_unknown(
                effect_id="0" * 64, dispatches=1, note=NOTE, check_in_minutes=5, actor=actor
            )
        )
        is Outcome.NOT_FOUND
    )


def test_a_note_names_its_owner_and_the_next_look(by: Worker) -> None:
    effect = released(by)
    before = world.fingerprint("dispatch", "task", "attempt")
    answer = note_unknown(
        effect_id=effect.effect_id,
        dispatches=1,
        note=NOTE,
        check_in_minutes=30,
        actor=ledger.person("paula"),
    )
    assert isinstance(answer, Noted)
    assert world.fingerprint("dispatch", "task", "attempt") == before
    row = ledger.slot(effect)
    assert (row.state, row.probe_after, row.probes) == ("UNKNOWN", answer.next_check_at, 0)
    kept = Evidence.objects.latest("id")
    assert (kept.kind, kept.said, kept.detail["detail"]) == ("operator", "DONT_KNOW", NOTE)
    assert Event.objects.get(kind="EVIDENCE_RECORDED").actor == "operator:paula"


@pytest.mark.parametrize(
    ("changed", "outcome"),
    [
        ({"note": " "}, Outcome.INVALID),
        ({"check_in_minutes": 0}, Outcome.INVALID),
        ({"check_in_minutes": 10_000_000}, Outcome.INVALID),
        ({"dispatches": 2}, Outcome.STALE_EVIDENCE),
    ],
)
def test_a_note_that_makes_no_sense_is_refused_and_changes_nothing(
    by: Worker, changed: dict[str, object], outcome: Outcome
) -> None:
    effect = released(by)
    before = world.fingerprint()
    fields: dict[str, object] = {"dispatches": 1, "note": NOTE, "check_in_minutes": 5}
    answer = note_unknown(
        effect_id=effect.effect_id,
        actor=ledger.person("paula"),
        **(fields | changed),  # type: ignore[arg-type]
    )
    assert refused(answer) is outcome
    assert world.fingerprint() == before


def test_nobody_notes_that_a_known_outcome_is_unknown(by: Worker) -> None:
    effect = released(by)
    ledger.happened(effect, by=ledger.person("paula"))
    answer = note_unknown(
        effect_id=effect.effect_id,
        dispatches=1,
        note=NOTE,
        check_in_minutes=5,
        actor=ledger.person("paula"),
    )
    assert refused(answer) is Outcome.ALREADY_SETTLED
    assert ledger.state(effect) == "COMMITTED"
