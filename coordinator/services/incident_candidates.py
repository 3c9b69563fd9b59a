"""What revoked attempts had put aside: discarded, or kept as evidence, by a person's word (contract 12)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from coordinator.actors import Actor
from coordinator.models import CandidateDecision, Incident, IncidentHold, StagedResult
from coordinator.outcomes import FieldError, Outcome, Refusal, Retry, invalid, not_found
from coordinator.states import CandidateRuling, IncidentState

from .events import EventKind
from .incident_hearings import (
    Asked,
    IncidentHearing,
    open_incident_hearing,
    wrong_step,
)
from .transactions import in_transaction

MAX_ATTEMPTS: Final = 1_000
#: So many attempts are named in a receipt and in the event; all are counted.
MAX_NAMED: Final = 100


@dataclass(frozen=True, slots=True)
class CandidatesDecided:
    """`decided` results of these attempts; the repeat gets the same count, `replayed`."""

    incident_id: UUID
    decision: str
    decided: int
    attempt_ids: list[UUID]
    version: int
    by: str
    at: datetime
    reason: str
    replayed: bool = False


def decide_candidates(
    *,
    incident_id: UUID,
    decision: CandidateRuling,
    reason: str,
    actor: Actor,
    attempt_ids: Sequence[UUID] | None = None,
    expected_version: int | None = None,
) -> CandidatesDecided | Refusal:
    """Decide about the canonical candidates of these revoked attempts, or of all that are undecided.

    Kept ones stay readable beside the task's result; discarded ones are only known by their
    digest. A result is decided about once: ALREADY_SETTLED where another word was given.
    Refused besides: INVALID, WRONG_STEP (before the bump, after the switch),
    STATE_VERSION_MISMATCH, NOT_FOUND.
    """
    asked = Asked("candidates", incident_id, actor, reason, expected_version)
    refusal = asked.faults(needs_reason=True)
    if refusal is not None:
        return refusal
    wanted = None if attempt_ids is None else sorted(set(attempt_ids))
    if wanted is not None and not 1 <= len(wanted) <= MAX_ATTEMPTS:
        told = f"Name one to {MAX_ATTEMPTS} attempts, or leave it out for all that are undecided."
        return invalid(FieldError("/attempt_ids", told))
    return _decide(asked, decision, wanted)


@in_transaction
def _decide(
    asked: Asked, decision: CandidateRuling, wanted: list[UUID] | None
) -> CandidatesDecided | Refusal:
    hearing = open_incident_hearing(asked)
    if hearing is None:
        return not_found("incident")
    refusal = _strangers(hearing, wanted)
    if refusal is not None:
        return hearing.refuse(refusal)
    results = _results(hearing, wanted)
    open_ones = [(pk, attempt_id) for pk, attempt_id, said in results if said is None]
    if not open_ones and any(said is not None for _, _, said in results):
        return _said_before(hearing, decision, results)
    refusal = (
        _not_now(hearing)
        or hearing.version_mismatch()
        or (_contradicted(decision, results) if wanted is not None else None)
    )
    if refusal is not None:
        return hearing.refuse(refusal)
    return _write(hearing, decision, open_ones)


def _strangers(hearing: IncidentHearing, wanted: list[UUID] | None) -> Refusal | None:
    if wanted is None or hearing.state == IncidentState.STOPPED:
        return None  # before the bump nothing is revoked: the step answers
    holds = IncidentHold.objects.filter(incident_id=hearing.row.incident_id, attempt_id__in=wanted)
    unknown = sorted(set(wanted) - set(holds.values_list("attempt_id", flat=True)))
    if not unknown:
        return None
    told = ", ".join(str(each) for each in unknown[:MAX_NAMED])
    return invalid(FieldError("/attempt_ids", f"This incident did not revoke {told}."))


_Result = tuple[int, UUID, str | None]


def _results(hearing: IncidentHearing, wanted: list[UUID] | None) -> list[_Result]:
    """The candidates in question, each with what was said of it."""
    found = StagedResult.objects.filter(
        canonical_candidate=True, attempt__incident_holds__incident_id=hearing.row.incident_id
    )
    if wanted is not None:
        found = found.filter(attempt_id__in=wanted)
    return list(found.order_by("id").values_list("id", "attempt_id", "ruling__decision"))


def _not_now(hearing: IncidentHearing) -> Refusal | None:
    if hearing.state == IncidentState.BUMPED:
        return None
    return wrong_step(
        f"The incident is {hearing.state}; results are decided about between the bump and the switch.",
        retry=Retry.AFTER if hearing.state == IncidentState.STOPPED else Retry.NEVER,
        state=hearing.state,
    )


def _contradicted(decision: CandidateRuling, results: Sequence[_Result]) -> Refusal | None:
    other = sorted({str(attempt) for _, attempt, said in results if said not in (None, decision)})
    if not other:
        return None
    return Refusal(
        Outcome.ALREADY_SETTLED,
        f"Another word was given about {len(other)} of these attempts; a result is decided about once.",
        evidence_recorded=True,
        extra={"attempt_ids": other[:MAX_NAMED]},
    )


def _said_before(
    hearing: IncidentHearing, decision: CandidateRuling, results: Sequence[_Result]
) -> CandidatesDecided | Refusal:
    refusal = _contradicted(decision, results)
    if refusal is not None:
        return hearing.refuse(refusal)
    last = CandidateDecision.objects.filter(staged_id__in=[pk for pk, _, _ in results]).latest("id")
    return CandidatesDecided(
        incident_id=hearing.row.incident_id,
        decision=decision,
        decided=len(results),
        attempt_ids=_named(attempt_id for _, attempt_id, _ in results),
        version=hearing.row.version,
        by=last.actor,
        at=last.at,
        reason=last.reason,
        replayed=True,
    )


def _write(
    hearing: IncidentHearing,
    decision: CandidateRuling,
    open_ones: Sequence[tuple[int, UUID]],
) -> CandidatesDecided:
    incident_id, named = hearing.row.incident_id, _named(attempt for _, attempt in open_ones)
    if open_ones:
        CandidateDecision.objects.bulk_create(
            [
                CandidateDecision(
                    incident_id=incident_id,
                    staged_id=pk,
                    decision=decision,
                    reason=hearing.asked.reason,
                    actor=hearing.asked.actor.label,
                    at=hearing.clock,
                )
                for pk, _ in open_ones
            ],
            batch_size=5_000,
        )
        version = hearing.row.version + 1
        Incident.objects.filter(incident_id=incident_id).update(version=version)
        hearing.row = hearing.row._replace(version=version)
        hearing.tell(
            EventKind.CANDIDATES_DECIDED,
            decision=decision,
            decided=len(open_ones),
            attempt_ids=[str(each) for each in named],
            reason=hearing.asked.reason,
        )
        hearing.write()
    return CandidatesDecided(
        incident_id=incident_id,
        decision=decision,
        decided=len(open_ones),
        attempt_ids=named,
        version=hearing.row.version,
        by=hearing.asked.actor.label,
        at=hearing.clock,
        reason=hearing.asked.reason,
    )


def _named(attempt_ids: Iterable[UUID]) -> list[UUID]:
    return sorted(set(attempt_ids))[:MAX_NAMED]
