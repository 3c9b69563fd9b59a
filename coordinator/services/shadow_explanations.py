"""A person's word on a mismatch: it is kept, and it opens the gate of a promotion (contract 13)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.gates import shadow_gate
from coordinator.models import ShadowExplanation, ShadowRound
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import name_point, run_round
from coordinator.selectors.shadow_rounds import ExplanationRecord, explanation_record
from coordinator.shadow.words import MISMATCHES, RoundVerdict, Triage

from .events import EventKind, Fact, record
from .texts import check_reason, check_text
from .transactions import in_transaction

#: An explanation of a whole class also covers rounds that nobody has seen yet: not for ever.
MAX_CLASS_DAYS: Final = 30
MAX_LINK_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class Explained:
    round_id: UUID
    verdict: str
    explanation: ExplanationRecord
    outcome: str = "EXPLAINED"


@in_transaction
def explain_round(
    *,
    round_id: UUID,
    reason: str,
    actor: Actor,
    triage: Triage = Triage.EXPECTED,
    verdict: RoundVerdict | None = None,
    owner: str = "",
    link: str = "",
    expires_at: datetime | None = None,
) -> Explained | Refusal:
    """Explain a settled mismatch: the round itself, or with `verdict` its whole class in its queue.

    The newest word counts, until it expires; then the mismatch is unexplained again. A class
    needs an expiry of at most MAX_CLASS_DAYS. Kept with who and when, and told as an event.
    Refused: NOT_FOUND; INVALID for a round that agrees or is still open, for a class that is
    not the round's, and for an expiry that has passed.
    """
    found = ShadowRound.objects.filter(round_id=round_id).first()
    if found is None:
        return not_found("shadow round")
    _, _, clock_rows = run_round(name_point("shadow"), shadow_gate(found.queue_id), CLOCK)
    clock = clock_of(clock_rows)
    found.refresh_from_db()
    if found.verdict not in MISMATCHES:
        told = "open; wait for its verdict" if found.verdict is None else "one on which both agree"
        return Refusal(
            Outcome.ALREADY_SETTLED, f"There is nothing to explain: the round is {told}."
        )
    faults = _faults(
        found,
        clock,
        reason=reason,
        verdict=verdict,
        owner=owner,
        link=link,
        expires_at=expires_at,
    )
    if faults:
        return invalid(*faults)
    said = ShadowExplanation.objects.create(
        queue_id=found.queue_id,
        round=found,
        verdict=found.verdict,
        is_of_class=verdict is not None,
        triage=triage,
        reason=reason,
        owner=owner,
        link=link,
        operator=actor.label,
        at=clock,
        expires_at=expires_at,
    )
    if verdict is None:
        ShadowRound.objects.filter(round_id=round_id).update(
            explained_at=clock, explained_until=expires_at
        )
    told_of = {
        "round_id": round_id,
        "verdict": found.verdict,
        "of_class": verdict is not None,
        "triage": triage,
        "reason": reason,
        "expires_at": expires_at,
    }
    fact = Fact(EventKind.SHADOW_EXPLAINED, queue_id=found.queue_id, data=told_of)
    run_round(record([fact], actor=actor, at=clock))
    return Explained(round_id, found.verdict, explanation_record(said))


def _faults(
    found: ShadowRound,
    clock: datetime,
    *,
    reason: str,
    verdict: RoundVerdict | None,
    owner: str,
    link: str,
    expires_at: datetime | None,
) -> list[FieldError]:
    faults = check_reason(reason)
    faults += check_text("/owner", owner, least=0)
    faults += check_text("/link", link, least=0, most=MAX_LINK_CHARS)
    if link and not link.startswith(("https://", "http://")):
        faults.append(FieldError("/link", "Give an address that begins with https:// or http://."))
    if verdict is not None and verdict != found.verdict:
        faults.append(FieldError("/class", f"This round is of the class {found.verdict}."))
    if expires_at is not None and expires_at <= clock:
        faults.append(FieldError("/expires_at", "This instant has passed; give a later one."))
    latest = clock + timedelta(days=MAX_CLASS_DAYS)
    if verdict is not None and (expires_at is None or expires_at > latest):
        faults.append(
            FieldError("/expires_at", f"A class is explained for at most {MAX_CLASS_DAYS} days.")
        )
    return faults
